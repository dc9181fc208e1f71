"""Identify the encoding of an array without a reference.

In: an array from a file. Out: the scheme, parameters, positions and layout that reproduce it, and
the command that writes it again; or the nearest scheme and the remaining error.
Start reading in :mod:`posenc_cli.identification.search`.
"""
