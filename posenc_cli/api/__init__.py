"""The library behind `import posenc_cli`: it chooses and computes as the command line does.

In: encodings by name, a config or a model, and arrays of any framework. Out: arrays and reports.
Each file holds one group of functions; start with ``encoding``. ``arguments`` reads what callers
pass, and ``arrays`` makes results in their framework.
"""
