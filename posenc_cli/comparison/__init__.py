"""Compare two arrays, rotations, models, checkpoints or engines.

In: two arrays, encodings or model files. Out: the differences, their size, and where they are.
Start reading in :mod:`posenc_cli.comparison.compare` (arrays and encodings) and
:mod:`posenc_cli.comparison.losses` (settings that a converted model file lost).
"""
