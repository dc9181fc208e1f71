"""Which encoding an array is, without a reference.

In: an array from a file. Out: the scheme, parameters, positions and layout that reproduce it, and
the command that writes it again; or the nearest one and what it leaves over.
Start reading in :mod:`posenc_cli.identification.search`.
"""
