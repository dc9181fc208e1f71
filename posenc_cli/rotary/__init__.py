"""What a subject of a RoPE check does to pairs of dimensions, and whether that is the reference's.

In: tables, frequencies or rotated vectors. Out: a subject, and the findings on every position.
Start reading in :mod:`posenc_cli.rotary.subject`, then :mod:`posenc_cli.rotary.findings`, which
proves that its findings cover all q, k and pairs of positions.
"""
