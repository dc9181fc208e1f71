"""Check whether a subject of rope-check rotates dimension pairs as the reference does.

In: tables, frequencies, rotated vectors or a function's results. Out: a subject, and findings that
cover every position. Start reading in :mod:`posenc_cli.rotary.subject`, then in
:mod:`posenc_cli.rotary.findings`, which proves that its findings cover all q, k and pairs of
positions.
"""
