"""Experiments: small transformers trained short and tested long, one for each encoding."""
