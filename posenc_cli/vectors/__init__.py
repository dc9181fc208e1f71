"""Test vectors to check ports of an encoding in other languages.

In: an encoding and positions (`emit`). Out: a folder of inputs, expected values and tolerances,
with the number of known bugs that it detects; or the verdict on a port's results. Start reading in
:mod:`posenc_cli.vectors.pack`.
"""
