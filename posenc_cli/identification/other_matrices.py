"""Hypotheses without waves or biases: counters and zeros.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.identification.readings import real_matrix
from posenc_cli.inference.fitting import median
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.positions import LARGEST_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_COUNTED, _EVENLY = 4, 0.75
"""Rows, and the share of them, that count in equal steps by no accident: others may be damaged."""
_PARTS = 64
"""Of 1, that positions of counters may be."""
_ZEROS = "all values are 0, as in a buffer that was never written"
_STEPS = (1, 2, 3, 4, 5, 8, 10, 16)
"""Positions from one row to the next that normalized positions are tried at."""


def row_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What a matrix may be as rows by formula."""
    values = real_matrix(evidence)
    if values is None or not np.isfinite(values).all():
        return
    rows, dim = evidence.rows, evidence.shape[1]
    if not values.any():
        # Zeros are plainer than any rule that could give them.
        yield Hypothesis("nope", {"dim": dim}, (None,), rows, cost=0.5, notes=(_ZEROS,))
        return
    if (values == values[:, :1]).all():
        yield from _counters(evidence, values[:, 0], dim)
    if np.isin(values, (0, 1)).all():
        yield from _bits(values, rows, dim)


def _counters(evidence: Evidence, column: Reals, dim: int) -> Iterator[Hypothesis]:
    rows = evidence.rows
    whole = np.array_equal(column, np.round(column))
    distinct = np.unique(column).size == column.size
    if whole and distinct and column.min() >= 0 and column.max() <= LARGEST_POSITION:
        yield Hypothesis("integer", {"dim": dim}, (None,), column.astype(np.int64), cost=1.0)
    if rows.size < 2 or column.min() < 0:
        return
    span = int(rows[-1] - rows[0])
    slope, off = float(column[-1] - column[0]) / span, 2 * evidence.rounding
    if not slope > 0 or max(column[-1], 1) / slope > LARGEST_POSITION:
        return
    first, step = _fraction(float(column[0]), off), _fraction(slope, off * column[-1] / span)
    parts = math.lcm(first.denominator, step.denominator)
    evenly = int(first * parts) + int(step * parts) * (rows - rows[0])
    near = np.abs(evenly / parts - column) <= off * column
    if column[-1] >= 1 and near.all() and (parts > 1 or not distinct or not whole):
        yield Hypothesis("integer", {"dim": dim}, (None,), evenly, cost=1.0, denominator=parts)
    for seq_len in dict.fromkeys((*(each * span + 1 for each in _STEPS), round(1 / slope))):
        steps = round(slope * seq_len)
        positions = round(float(column[0]) * seq_len) + steps * (rows - rows[0])
        near = np.abs(positions / seq_len - column) <= off * column
        if steps and positions[-1] < seq_len and near.all():
            length = {} if seq_len == positions[-1] + 1 else {"seq_len": seq_len}
            # The length is read off, so whole numbers are integers first.
            yield Hypothesis("normalized", {"dim": dim, **length}, (None,), positions, cost=1.2)


def _fraction(value: float, error: float) -> Fraction:
    """The fraction of the smallest denominator within an error of a value, or the nearest."""
    near = (Fraction(round(value * parts), parts) for parts in range(1, _PARTS))
    found = (number for number in near if abs(number - value) <= error)
    return next(found, Fraction(value).limit_denominator(_PARTS))


def _bits(values: RealRows, rows: Integers, dim: int) -> Iterator[Hypothesis]:
    for order in ("msb-first", "lsb-first"):
        bits = values[:, ::-1] if order == "msb-first" else values
        if bits[:, 53:].any():
            continue
        positions = bits[:, :53] @ 2.0 ** np.arange(min(dim, 53))
        # Any matrix of zeros and ones counts something: a mask, or an identity. Few count evenly.
        step = median(np.diff(positions) / np.diff(rows)) if rows.size >= _COUNTED else 0
        firsts, times = np.unique(positions - step * rows, return_counts=True)
        if step > 0 and times.max() > _EVENLY * rows.size:
            even = (firsts[np.argmax(times)] + step * rows).astype(np.int64)
            yield Hypothesis("binary", {"dim": dim, "order": order}, (None,), even, cost=1.0)
