"""Propose encodings without waves or biases: counters, zeros, and tables that posenc draws.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.identification.readings import real_matrix
from posenc_cli.inference.fitting import common_line
from posenc_cli.inference.rates import fraction
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.positions import LARGEST_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_COUNTED, _EVENLY = 4, 0.75
"""Fewest rows, and share of the rows, that count in equal steps; the other rows may be damaged."""
_ZEROS = "all values are 0, as in a buffer that was never written"
SEEDS = 16
"""Seeds of posenc's own draws to try, from 0 on. Chosen by judgement: few users set others."""
_STEPS = range(1, 17)
"""Steps from row to row of a drawn table, or of shares of a length, to try."""
_FIRST_ROWS, _DRAWN_CELLS = 640, 1 << 17
"""Rows of a drawn table among which the first row is searched: more than the default 512.

Wide tables are searched in fewer rows, because a row costs one draw per column.
"""


def row_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses for a matrix whose rows follow a formula, or are drawn by posenc."""
    values = real_matrix(evidence)
    if values is None or not np.isfinite(values).all():
        return
    rows, dim = evidence.rows, evidence.shape[1]
    if not values.any():
        # Zeros alone are likelier than any rule that gives zeros.
        yield Hypothesis("nope", {"dim": dim}, (None,), rows, cost=0.5, notes=(_ZEROS,))
        return
    if (values == values[:, :1]).all():
        yield from _counter_hypotheses(evidence, values[:, 0], dim)
    if rows.size >= _COUNTED and np.isin(values, (0, 1)).all():
        yield from _binary_hypotheses(values, rows, dim)
    yield from _drawn_table_hypotheses(evidence, values, dim)


def _counter_hypotheses(evidence: Evidence, column: Reals, dim: int) -> Iterator[Hypothesis]:
    """Yield integer and normalized counters for a matrix with equal columns."""
    rows = evidence.rows
    whole = np.array_equal(column, np.round(column))
    distinct = np.unique(column).size == column.size
    if whole and distinct and column.min() >= 0 and column.max() <= LARGEST_POSITION:
        yield Hypothesis("integer", {"dim": dim}, (None,), column.astype(np.int64), cost=1.0)
    if rows.size < 2 or column.min() < 0:
        return
    span = int(rows[-1] - rows[0])
    slope, allowed = float(column[-1] - column[0]) / span, 2 * evidence.rounding
    highest = float(column.max())
    if slope == 0 or max(highest, 1) / abs(slope) > LARGEST_POSITION:
        return
    first, step = (
        fraction(float(column[0]), allowed),
        fraction(slope, allowed * highest / span),
    )
    parts = math.lcm(first.denominator, step.denominator)
    evenly = int(first * parts) + int(step * parts) * (rows - rows[0])
    if highest >= 1 and (parts > 1 or not distinct or not whole):
        yield Hypothesis("integer", {"dim": dim}, (None,), evenly, cost=1.0, denominator=parts)
    if highest <= 1:
        yield from _normalized_hypotheses(evidence, column, slope, dim)


def _normalized_hypotheses(
    evidence: Evidence, column: Reals, slope: float, dim: int
) -> Iterator[Hypothesis]:
    """Yield positions divided by a length: one that ends with the rows, or that of the slope."""
    rows, sign, of_slope = evidence.rows, 1 if slope > 0 else -1, round(1 / abs(slope))
    half = np.ldexp(evidence.rounding, np.frexp(column)[1] - 1)  # of a unit in the last place
    gaps = np.maximum([1 - column + half, 1 - column - half], 1 / LARGEST_POSITION)
    tried = list[tuple[int, int, int]]()
    for step in _STEPS:  # positions from each row to the end
        left = 1 + step * (evidence.count - 1 - rows if slope > 0 else rows)
        length = round(min((max(left / gaps[0]) + min(left / gaps[1])) / 2, LARGEST_POSITION))
        tried.append((length, length - int(left[0]), step))
    for seq_len, first, step in (*tried, (of_slope, round(float(column[0]) * of_slope), 1)):
        positions = first + sign * step * (rows - rows[0])
        missed = np.abs(positions / seq_len - column)
        if positions.max() < seq_len and (missed <= 2 * evidence.rounding * column).all():
            # The length is a fitted number, so integers cost less.
            yield Hypothesis(
                "normalized",
                {"dim": dim, "seq_len": seq_len},
                (None,),
                positions,
                cost=1.2,
                uncertainty={"seq_len": 2 * half.max() * seq_len**2 / int(rows[-1] - rows[0])}
                if (missed > half).any()
                else {},
            )


def _binary_hypotheses(values: RealRows, rows: Integers, dim: int) -> Iterator[Hypothesis]:
    """Yield binary counters for a matrix of zeros and ones."""
    for order in ("msb-first", "lsb-first"):
        bits = values[:, ::-1] if order == "msb-first" else values
        positions = bits[:, :53] @ 2.0 ** np.arange(min(dim, 53))
        # Any matrix of zeros and ones, such as a mask or an identity, counts something; few count
        # evenly.
        first, step, count = common_line(positions, rows)
        if step and count > _EVENLY * rows.size:
            yield Hypothesis(
                "binary", {"dim": dim, "order": order}, (None,), first + step * rows, cost=1.0
            )


@lru_cache(maxsize=64)
def _first_columns(dim: int, seed: int) -> RealRows:
    """Return the first two columns of a drawn table, in the rows that are searched."""
    rows = np.arange(max(1, min(_FIRST_ROWS, _DRAWN_CELLS // dim)))
    return DrawnTable(dim, seed, 1.0)(rows)[:, :2].copy()


def _is_row(values: Reals, seed: int, row: int, limit: float) -> bool:
    """Return whether values are a multiple of a row of a drawn table."""
    drawn = DrawnTable(values.size, seed, 1.0)(np.array([row]))[0]
    residual = np.abs(values - values[0] / drawn[0] * drawn)
    return bool(residual.max() <= limit * np.abs(values).max())


def _drawn_table_hypotheses(evidence: Evidence, values: RealRows, dim: int) -> Iterator[Hypothesis]:
    """Yield tables drawn from posenc's own seeds, as learned and shaw return without weights."""
    rows, count, limit = evidence.rows, evidence.count, 4 * evidence.rounding
    if dim == 1 or np.array_equal(values[0], np.round(values[0])):
        return
    for seed in range(SEEDS):
        begin = _first_columns(dim, seed)
        ratio = values[0, 0] / begin[:, 0]
        residual = np.abs(values[0, 1] - ratio * begin[:, 1])
        near = (residual <= limit * np.abs(values[0]).max()) & (ratio > 0)
        fitting = (
            (first, step)
            for first in np.flatnonzero(near).tolist()
            if _is_row(values[0], seed, first, limit)
            for step in _STEPS
            if len(values) < 2 or _is_row(values[1], seed, first + step, limit)
        )
        for first, step in itertools.islice(fitting, 1):
            std = float(ratio[first])
            short = 0.02 if abs(std / 0.02 - 1) <= limit + 1e-12 else float(f"{std:.4g}")
            length = first + step * (count - 1) + 1
            given = {"dim": dim, "seed": seed, "max_len": max(512, length), "std": short}
            # A match is not accidental, but only posenc draws these numbers.
            yield Hypothesis("learned", given, (None,), first + step * (rows - rows[0]), cost=2.0)
            if short == 0.02 and count % 2 and count > 1 and step == 1:
                reach = (count - 1) // 2
                farthest = first + reach
                yield Hypothesis(
                    "shaw",
                    {"dim": dim, "seed": seed, "max_distance": farthest},
                    (None,),
                    rows - reach,
                    # learned has the same rows; shaw is likelier only with its default distance
                    cost=1.9 if farthest == 128 else 2.1,
                )
