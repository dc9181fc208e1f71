"""Two of a kind, compared: arrays, rotations, models, checkpoints, engines.

In: two arrays, encodings or model files. Out: what differs, by how much, and where.
Start reading in :mod:`posenc_cli.comparison.compare` (arrays and encodings) and
:mod:`posenc_cli.comparison.losses` (what a converted model file has lost).
"""
