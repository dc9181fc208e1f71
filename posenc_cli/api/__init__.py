"""The library behind `import posenc_cli`: it chooses and computes as the command line does."""
