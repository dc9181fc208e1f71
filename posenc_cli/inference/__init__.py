"""Determine what an array holds: its format, frequencies, positions and scheme.

In: arrays, or a reference. Out: frequencies found in values (`fitting`, `rates`), schemes that have
them (`candidates`, `frequency_rules`), the half-precision formats (`formats`), and the largest
error of a right implementation (`tolerance`). :mod:`posenc_cli.identification` and
:mod:`posenc_cli.diagnosis` use these. Start reading in :mod:`posenc_cli.inference.trial`, which
compares a hypothesis with an array.
"""
