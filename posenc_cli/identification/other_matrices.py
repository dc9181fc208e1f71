"""Hypotheses without waves or biases: counters and zeros.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

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
_ZEROS = "all values are 0, as in a buffer that was never written"


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
    slope, off = float(column[-1] - column[0]) / int(rows[-1] - rows[0]), 2 * evidence.rounding
    if not slope > 0 or max(column[-1], 1) / slope > LARGEST_POSITION:
        return
    seq_len = round(1 / slope)
    positions = round(float(column[0]) * seq_len) + rows - rows[0]
    near = np.abs(positions / max(seq_len, 1) - column) <= off * column
    if positions[-1] < seq_len and near.all():
        length = {} if seq_len == positions[-1] + 1 else {"seq_len": seq_len}
        # The length is read off, so whole numbers are integers first.
        yield Hypothesis("normalized", {"dim": dim, **length}, (None,), positions, cost=1.2)


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
