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
from posenc_cli.inference.differences import Census, as_columns, merged, part_of
from posenc_cli.inference.rates import positions_at
from posenc_cli.inference.tolerance import UNREDUCED_FULL, unit
from posenc_cli.inference.trial import (
    DOUBLE_FUNCTIONS,
    UNREDUCED_TABLES,
    arithmetic_format,
    bfloat16_limits,
    computation_of,
    limits_of,
    put_right,
    repeated_columns,
)
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.formulas.declare import Waves
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Computation, Hypothesis, Trial
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType

    RowPositions = Callable[[Integers], Integers]
    """The positions of some rows."""

BLOCK_CELLS = 1 << 17
"""Cells compared at a time: few enough that what is made of them stays in the cache."""

SOLVED_ROWS = 1 << 13
"""Rows that are asked where they stand, one by one: a tenth of a millisecond each."""

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
        if where is None and not _is_solvable(trial, evidence):
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
    named = position_rounding(where, evidence.rows)
    return None if named is None else named.at


def _is_solvable(trial: Trial, evidence: Evidence) -> bool:
    """Whether each row says where it stands, and there are not too many."""
    hypothesis, waves = trial.hypothesis, trial.bound.content.waves
    if waves is None or evidence.count > SOLVED_ROWS:
        return False
    if waves.coordinates is not None or waves.growth is not None or hypothesis.positions is None:
        return False
    if hypothesis.tables[0] in UNREDUCED_TABLES:
        return True
    few = put_right(hypothesis, evidence.sample)
    return bool(np.isfinite(_pairs(trial, few)).all(axis=0).any())


def _solve_positions(trial: Trial, arrays: tuple[NumberArray, ...]) -> Integers:
    """Where rows stand by their phases, if they are what a trial says."""
    waves = trial.bound.content.waves
    assert waves is not None
    if trial.hypothesis.tables[0] in UNREDUCED_TABLES:
        return positions_of_angles(np.asarray(arrays[0], np.float64), trial.hypothesis, waves)
    pairs = _pairs(trial, arrays)  # (rows, waves)
    known = np.isfinite(pairs).any(axis=0)
    points = np.where(np.isfinite(pairs[:, known]), pairs[:, known], 1.0)
    frequencies = np.asarray(waves.frequencies(np), np.float64)[known]
    return positions_at(points, frequencies, signed=True)[0]


def positions_of_angles(angles: RealRows, hypothesis: Hypothesis, waves: Waves) -> Integers:
    """Where rows stand whose cells are position × frequency: nearest to all of a row's cells."""
    frequencies = np.asarray(waves.frequencies(np), np.float64)[None, :]
    layout = str(hypothesis.given["layout"]) if hypothesis.tables == (UNREDUCED_FULL,) else None
    columns = repeated_columns(frequencies, layout)[0]
    places = np.round(np.nan_to_num(angles @ columns / (columns @ columns)))
    return np.asarray(np.clip(places, 0, 2.0**53), np.int64)


def _pairs(trial: Trial, arrays: tuple[NumberArray, ...]) -> ComplexRows:
    """The cosine and the sine of each wave, as one number; NaN where one of them is not there."""
    content = trial.bound.content
    assert content.waves is not None
    count = content.waves.count
    parts = {name: np.full((arrays[0].shape[0], count), np.nan) for name in ("cos", "sin")}
    for table, array in zip(trial.hypothesis.tables, arrays, strict=True):
        if table == "angles":
            return np.asarray(np.exp(1j * np.asarray(array, np.float64)))
        cells = as_columns(array)
        for placement in content.columns(table).placements:
            if placement.function != "zero":
                columns = cells[:, placement.columns]
                waves = np.arange(count)[placement.waves][: columns.shape[1]]
                parts[placement.function][:, waves] = columns
    return np.asarray(parts["cos"] + 1j * parts["sin"])


class RoundedPositions(Record):
    """Positions that follow one another, each rounded to a number format."""

    first: int
    dtype: DType

    def at(self, rows: Integers) -> Integers:
        """The positions of rows."""
        counted = (rows + self.first).astype(np.float64)
        return widen(narrow(counted, None, self.dtype), self.dtype).astype(np.int64)


def position_rounding(where: Integers, rows: Integers) -> RoundedPositions | None:
    """The rounding that puts rows which follow one another there, if one does."""
    for dtype in (BFLOAT16, FLOAT16):
        rounded = RoundedPositions(int(where[0]) - int(rows[0]), dtype)
        if np.array_equal(where, rounded.at(rows)):
            return rounded
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
        arrays = put_right(self.trial.hypothesis, arrays)
        if self.where is not None:
            positions = self.where(rows)
        elif self.trial.hypothesis.positions is not None:
            positions = _solve_positions(self.trial, arrays)
        else:
            positions = None
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
