"""What tables, frequencies and scores are made of: rates, formats, rules, tolerances.

In: arrays, or a reference. Out: frequencies found from values (`fitting`, `rates`), the schemes
that give them (`candidates`, `frequency_rules`), what rounding makes of them
(`formats`), and how far a right implementation may be from the exact values (`tolerance`).
:mod:`posenc_cli.identification` and :mod:`posenc_cli.diagnosis` are built on these.
"""
