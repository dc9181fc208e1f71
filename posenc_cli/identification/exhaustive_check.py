"""A hypothesis held against every cell of the files, which a sample only suggested.

The files are read once, a block of rows at a time, beside the rows that the hypothesis gives; what
is kept is how many cells are equal, the largest difference, and the rows that do not fit.
A cell fits if it is as near as right code comes, and, where the sample was nearer than that, about
as near as the sample: a table whose sample is correctly rounded throughout has no excuse elsewhere.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.files.source import release
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import (
    DOUBLE_FUNCTIONS,
    UNREDUCED_TABLES,
    Census,
    arithmetic_format,
    bfloat16_limits,
    computation_of,
    limits_of,
    merged,
    part_of,
)
from posenc_cli.numerics.dtypes import BFLOAT16
from posenc_cli.numerics.rounding import widen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Computation, Hypothesis, Trial
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals

    RowPositions = Callable[[Integers], Integers]
    """The positions of some rows."""

    _Way = tuple[Computation, Computation, tuple[Reals | float, float]]
    """What computes the rows of a file, how far they may be off, and :func:`_shares` of it."""

BLOCK_CELLS = 1 << 17
"""Cells compared at a time: few enough that what is made of them stays in the cache."""

_MARGIN = 16
"""How many times more of the tolerance a cell may take than the sample: few rows show not all."""


def census(trial: Trial, evidence: Evidence) -> Census | None:
    """What a trial's hypothesis leaves over of all cells; None where rows have no positions known.

    The arrays of the evidence are matrices, or rows of numbers.
    """
    hypothesis, count = trial.hypothesis, evidence.count
    where: RowPositions | None = None
    if hypothesis.tables[0] not in ("inv-freq", "slopes"):
        where = row_positions(hypothesis, evidence)
        if where is None:
            return None
    width = max(1, int(np.prod(evidence.shape[1:])))
    rows = count if len(evidence.shape) == 1 else max(1, BLOCK_CELLS // width)
    which = trial.rounded, trial.arithmetic
    ways = [
        (computation_of(hypothesis, table, *which), limits_of(hypothesis, table, *which), share)
        for table, share in zip(hypothesis.tables, _shares(trial), strict=True)
    ]
    compare = partial(_compare, trial, evidence, where, ways)
    engine = Engine(threads=threads_for(count * width, None))
    parts = (slice(start, min(start + rows, count)) for start in range(0, count, rows))
    return reduce(Census.followed_by, engine.in_order(compare, parts), Census())


def line_of(where: Integers, rows: Integers) -> tuple[int, int] | None:
    """The position of row 0 and the step from row to row, where positions are evenly spaced."""
    step = 1 if where.size == 1 else int(where[1] - where[0]) // int(rows[1] - rows[0])
    first = int(where[0]) - step * int(rows[0])
    return (first, step) if np.array_equal(where, first + step * rows) else None


def row_positions(hypothesis: Hypothesis, evidence: Evidence) -> RowPositions | None:
    """The positions of all rows, where those of the sample say them."""
    where, rows = hypothesis.positions, evidence.rows
    if where is None or where.size != rows.size:
        return None
    if (line := line_of(where, rows)) is not None:
        return lambda asked_rows: line[0] + line[1] * asked_rows
    if evidence.every.size == evidence.count:
        every = np.zeros(evidence.count, np.int64)
        every[rows] = where
        return lambda asked_rows: every[asked_rows]
    return None


def _compare(
    trial: Trial,
    evidence: Evidence,
    where: RowPositions | None,
    ways: Sequence[_Way],
    part: slice,
) -> Census:
    """Some rows of the files beside those of a hypothesis, each file by its own way."""
    stored = tuple(array[part] for array in evidence.arrays)
    rows = np.arange(part.start, part.stop, dtype=np.int64)
    with np.errstate(all="ignore"):
        arrays = tuple(map(evidence.clean, stored))
        on_grid = all(map(evidence.on_grid, stored))
        padding = tuple(row for row in evidence.padding if rows[0] <= row <= rows[-1])
        if padding:
            kept = ~np.isin(rows, padding)
            rows, arrays = rows[kept], tuple(array[kept] for array in arrays)
        positions = None if where is None else where(rows)
        predicted = [computed(positions) for computed, _, _ in ways]
        if trial.rounded == BFLOAT16:
            predicted = [widen(own, BFLOAT16) for own in predicted]
        parts = [
            part_of(
                array,
                predicted[file],
                partial(_limits, trial, file, way, positions, predicted[file]),
                rows + evidence.skipped,
                trial.rounded,
                file=file,
                table=trial.hypothesis.tables[file],
                quantum=evidence.quantum,
            )
            for file, (way, array) in enumerate(zip(ways, arrays, strict=True))
        ]
    for array in stored:
        release(array)
    return merged(parts, padding=padding, on_grid=on_grid)


def _limits(
    trial: Trial, file: int, way: _Way, positions: Integers | None, predicted: NumberArray
) -> RealRows:
    """How far cells may be off: as the format and right code explain, and as the sample is."""
    _, allowed, (share, rounding) = way
    limit = allowed(positions)
    if trial.arithmetic == "bfloat16":
        limit = bfloat16_limits(limit, predicted, trial.hypothesis.tables[file])[1]
    return np.minimum(limit, limit * share + rounding)


def _shares(trial: Trial) -> tuple[tuple[Reals | float, float], ...]:
    """What of the tolerance the sample leaves the cells of each column, and what rounding needs.

    A share, one number or (columns,), and an absolute difference, for each table.
    """
    waves, tables = trial.bound.content.waves, trial.hypothesis.tables
    as_large = tables[0] in ("inv-freq", *UNREDUCED_TABLES)  # their limits are relative
    if waves is None or waves.growth is not None or as_large:
        return ((1.0, 0.0),) * len(tables)
    size = np.pi if tables == ("angles",) else float(waves.scale) * trial.hypothesis.multiplier
    # What an arithmetic computed is no nearer than it rounds, however wide the file is.
    coarsest = max(unit(trial.rounded.name), unit(arithmetic_format(trial.arithmetic).name))
    rounding = max(4 * coarsest, DOUBLE_FUNCTIONS) * size
    return tuple((np.minimum(_MARGIN * noise, 1.0), rounding) for noise in trial.noise)
