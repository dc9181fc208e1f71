"""A hypothesis held against every cell of the files, which a sample only suggested.

The files are read once, a block of rows at a time, beside the rows that the hypothesis gives; what
is kept is how many cells are equal, the largest difference, and the rows that do not fit.
A cell fits if it is as near as right code comes, and, where the sample was nearer than that, about
as near as the sample: a table whose sample is correctly rounded throughout has no excuse elsewhere.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import reduce
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
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Computation, Hypothesis, Trial
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals

    RowPositions = Callable[[Integers], Integers]
    """The positions of some rows."""

BLOCK_CELLS = 1 << 17
"""Cells compared at a time: few enough that what is made of them stays in the cache."""

_MARGIN = 16
"""How many times more of the tolerance a cell may take than the sample: few rows show not all."""


def census(trial: Trial, evidence: Evidence) -> Census | None:
    """What a trial's hypothesis leaves over of all cells; None where rows have no positions known.

    The arrays of the evidence are matrices, or rows of numbers.
    """
    hypothesis = trial.hypothesis
    count = evidence.count
    where: RowPositions | None = None
    if hypothesis.tables[0] not in ("inv-freq", "slopes"):
        where = row_positions(hypothesis, evidence)
        if where is None:
            return None
    width = max(1, int(np.prod(evidence.shape[1:])))
    rows = count if len(evidence.shape) == 1 else max(1, BLOCK_CELLS // width)
    compare = _Comparison.of(trial, evidence, where)
    engine = Engine(threads=threads_for(count * width, None))
    parts = (slice(start, min(start + rows, count)) for start in range(0, count, rows))
    return reduce(Census.followed_by, engine.in_order(compare, parts), Census())


def row_positions(hypothesis: Hypothesis, evidence: Evidence) -> RowPositions | None:
    """The positions of all rows, where those of the sample say them."""
    where, rows = hypothesis.positions, evidence.rows
    if where is None or where.size != rows.size:
        return None
    if where.size == 1:
        return lambda asked_rows: where[0] + asked_rows - rows[0]
    step = (int(where[1]) - int(where[0])) // int(rows[1] - rows[0])
    first = int(where[0]) - step * int(rows[0])
    if np.array_equal(where, first + step * rows):
        return lambda asked_rows: first + step * asked_rows
    if evidence.every.size == evidence.count:
        every = np.zeros(evidence.count, np.int64)
        every[rows] = where
        return lambda asked_rows: every[asked_rows]
    return None


class _Comparison(Record):
    """What compares some rows of the files with those of a hypothesis."""

    trial: Trial
    evidence: Evidence
    where: RowPositions | None
    computations: tuple[Computation, ...]
    allowances: tuple[Computation, ...]
    shares: tuple[tuple[Reals | float, float], ...]

    @classmethod
    def of(cls, trial: Trial, evidence: Evidence, where: RowPositions | None) -> _Comparison:
        hypothesis, rounded = trial.hypothesis, trial.rounded
        return cls(
            trial,
            evidence,
            where,
            tuple(
                computation_of(hypothesis, table, rounded, trial.arithmetic)
                for table in hypothesis.tables
            ),
            tuple(
                limits_of(hypothesis, table, rounded, trial.arithmetic)
                for table in hypothesis.tables
            ),
            _shares(trial),
        )

    def __call__(self, part: slice) -> Census:
        stored = tuple(array[part] for array in self.evidence.arrays)
        rows = np.arange(part.start, part.stop, dtype=np.int64)
        with np.errstate(all="ignore"):
            part_of_rows = self._compare(rows, stored)
        for array in stored:
            release(array)
        return part_of_rows

    def _compare(self, rows: Integers, stored: tuple[NumberArray, ...]) -> Census:
        arrays = tuple(map(self.evidence.clean, stored))
        on_grid = all(map(self.evidence.on_grid, stored))
        padding = tuple(row for row in self.evidence.padding if rows[0] <= row <= rows[-1])
        if padding:
            kept = ~np.isin(rows, padding)
            rows, arrays = rows[kept], tuple(array[kept] for array in arrays)
        positions = None if self.where is None else self.where(rows)
        parts = [
            self._of_array(index, rows, positions, array) for index, array in enumerate(arrays)
        ]
        return merged(parts, padding=padding, on_grid=on_grid)

    def _of_array(
        self,
        index: int,
        rows: Integers,
        positions: Integers | None,
        array: NumberArray,
    ) -> Census:
        predicted = self.computations[index](positions)
        if self.trial.rounded == BFLOAT16:
            predicted = widen(predicted, BFLOAT16)
        hypothesis = self.trial.hypothesis
        table = hypothesis.tables[index]

        def limits() -> RealRows:
            limit = self.allowances[index](positions)
            if self.trial.arithmetic == "bfloat16":
                limit = bfloat16_limits(limit, predicted, table)[1]
            share, rounding = self.shares[index]
            return np.minimum(limit, limit * share + rounding)

        rows = rows + self.evidence.skipped
        return part_of(
            array,
            predicted,
            limits,
            rows,
            self.trial.rounded,
            file=index,
            table=table,
            quantum=self.evidence.quantum,
        )


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
