"""Heads of one call that differ: they change places, are taken for rows, or are judged alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.batches import RowsGuess, Together
from posenc_cli.calls.function_trial import ALIKE, COARSE, UNLIKE_HEADS, Irregularity
from posenc_cli.calls.serving import beside_others
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause

if TYPE_CHECKING:
    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.calls.call_log import CallLog
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

_HEADS = (12, 10, 14)
"""Heads of a call, the first of which is the length of no other axis."""

_POSITIONS = (*range(9), *(2**power + more for power in range(4, 11) for more in (-1, 0, 1)))
"""Positions of a call of rows at any."""

_FIRST, _ROWS, _FROM_ZERO = 1000, 64, 301
"""Where a sequence begins, its rows, and those of one that begins at 0."""

_MISTAKEN = (
    RowsGuess(
        "rows are rotated by their head index, not by their position",
        lambda part: part.index[1],
        cause=Cause.AXIS,
        whole=True,
    ),
    RowsGuess(
        "heads side by side, (rows, heads·d), are read as (heads, rows, d)",
        lambda part: part.in_row(part.index[2] * part.heads + part.index[1]),
        cause=Cause.AXIS,
        whole=True,
    ),
)
"""How rows and heads are taken for one another."""


def unlike_heads(log: CallLog, which: int, dtype: str, context: int) -> tuple[Irregularity, ...]:
    """What is wrong with some heads of one call; nothing where all are rotated alike.

    All are given the same vectors, each times another power of two, at positions below ``context``.
    """
    function, form = log.function, log.function.form
    if not form.has_heads or function.follows_length:
        return ()
    where = _positions(form, context)
    taken = {form.columns, form.columns // 2, where.size}
    heads = next(count for count in _HEADS if count not in taken)
    rows = np.random.default_rng(23).standard_normal((1, where.size, 1, form.columns), np.float32)
    x = rows * np.float32(2) ** np.arange(heads)[:, None]
    given = beside_others(x, which)[: len(form.vectors)]
    alone, differs = partial(_rotated, log.reference), partial(_differ, dtype=dtype)
    try:
        together = Together(function, form, where[None], given, differs, alone=alone)
        fault = together.fault(f"{heads} heads", *_MISTAKEN)
    except InvalidInput:
        function.revive()
        return ()
    wrong = together.parts[which].wrong
    if fault is None or not wrong.any():
        return ()
    if wrong.all() and (not fault.known or fault.cause not in (Cause.AXIS, Cause.LAYOUT)):
        return ()
    known = fault.known or f"{together.where} do not rotate as the others do"
    return (Irregularity(fault.word, known, fault.text, UNLIKE_HEADS),)


def _positions(form: CallForm, context: int) -> Integers:
    """The positions of the call."""
    if form.any_rows:
        return np.array([position for position in _POSITIONS if position < context])
    count = min(_FROM_ZERO if form.from_zero else _ROWS, context)
    return np.arange(count) + (0 if form.from_zero else min(_FIRST, context - count))


def _rotated(reference: Reference, _: int, x: NumberArray, places: Integers) -> NumberArray:
    """Vectors (k, n, columns) as the reference rotates them at positions (k, n)."""
    pairing = reference.pairing
    turns = reference.turns.at(places.reshape(-1)).reshape(*places.shape, -1)
    after = (x[..., list(pairing.first)] + 1j * x[..., list(pairing.second)]) * turns
    y = x.astype(np.float64)
    y[..., list(pairing.out_first)], y[..., list(pairing.out_second)] = after.real, after.imag
    return y


def _differ(values: NumberArray, wanted: NumberArray, *, dtype: str) -> bool:
    """Whether values are others than those wanted, by more than their format explains."""
    limit = (1 if dtype in ("float32", "float64") else COARSE) * ALIKE * np.abs(wanted).max()
    return not bool(np.abs(values - wanted).max() <= limit)
