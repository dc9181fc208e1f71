"""Test vectors: what ports of an encoding in other languages are compared with.

In: an encoding and positions (`emit`). Out: a folder of inputs, expected values and tolerances,
with the number of known bugs that it detects; or the verdict on a folder that a port has filled.
Start reading in :mod:`posenc_cli.vectors.pack`.
"""
