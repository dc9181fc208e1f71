"""A hypothesis held against every cell of the files, which a sample only suggested.

The files are read once, a block of rows at a time, beside the rows that the hypothesis gives; what
is kept is how many cells are equal, the largest difference, and the rows that do not fit.
A cell fits if it is as near as right code comes, and, where the sample was nearer than that, about
as near as the sample: a table whose sample is correctly rounded throughout has no excuse elsewhere.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.identify_rates import positions_at
from posenc_cli.checks.identify_trial import (
    allowance,
    apart,
    bfloat16_limits,
    bits_apart,
    computation,
    righted,
)
from posenc_cli.checks.tolerance import unit
from posenc_cli.encode.engine import Engine, threads_for
from posenc_cli.files.source import release
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from posenc_cli.checks.identify_evidence import Evidence
    from posenc_cli.checks.identify_trial import Computation, Hypothesis, Trial
    from posenc_cli.numerics.dtypes import DType

    RowPositions = Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """The positions of some rows."""

BLOCK_CELLS = 1 << 16
"""Cells compared at a time: few enough that what is made of them stays in the cache."""

NAMED_ROWS = 1 << 12
"""Rows that do not fit are listed up to so many, and counted beyond."""

SOLVED_ROWS = 1 << 13
"""Rows that are asked where they stand, one by one: a tenth of a millisecond each."""

_MANY = 8
"""Rows that fit, among others that do not, and do so by no accident."""

_MARGIN = 16
"""How many times more of the tolerance a cell may take than the sample: few rows show not all."""


class Largest(Record):
    """The largest difference: where it is, what stands there, and what belongs there.

    ``at`` is an index into the file, a row and a column of the ``file``-th.
    """

    difference: float
    file: int
    at: tuple[int, ...]
    value: float
    expected: float


class Census(Record):
    """What a hypothesis leaves over of all cells.

    ``rows`` were compared; those of ``padding`` were not. ``misfits`` counts the rows with a cell
    that does not fit, and ``misfit_rows`` lists them in order, the first :data:`NAMED_ROWS`.
    ``ratio`` is the largest difference in units of what fits. ``on_grid`` says whether every cell
    is a number of the format that the sample's are. ``hidden`` cells are behind a mask. ``loose``
    counts the cells of rows that fit which are not the same number, and ``bits`` are what all
    cells are off by together. Rows of a bias of several
    heads are those of each head's ``queries``, one head after another.
    """

    rows: int
    cells: int
    equal: int
    ratio: float
    largest: Largest | None
    misfits: int
    misfit_rows: NDArray[np.int64]
    padding: tuple[int, ...] = ()
    on_grid: bool = True
    hidden: int = 0
    loose: int = 0
    bits: float = 0.0
    queries: int | None = None

    @property
    def fits(self) -> bool:
        """Whether every cell fits."""
        return self.misfits == 0

    @property
    def fits_many(self) -> bool:
        """Whether at least a quarter of the rows fit, and more than a few."""
        fitting = self.rows - self.misfits
        return self.fits or (fitting >= _MANY and 4 * fitting >= self.rows)

    @property
    def residual(self) -> float:
        """The largest difference."""
        return 0.0 if self.largest is None else self.largest.difference

    @property
    def all_equal(self) -> bool:
        """Whether every cell is the same number, those of padding and behind a mask too."""
        return self.equal == self.cells and not self.padding and not self.hidden


def census(trial: Trial, evidence: Evidence) -> Census | None:
    """What a trial's hypothesis leaves over of all cells; None where rows have no positions known.

    The arrays of the evidence are matrices, or rows of numbers.
    """
    hypothesis = trial.hypothesis
    count = evidence.count
    where: RowPositions | None = None
    if hypothesis.tables != ("inv-freq",):
        where = row_positions(hypothesis, evidence)
        if where is None and not _solvable(trial, evidence):
            return None
    width = max(1, int(np.prod(evidence.shape[1:])))
    rows = count if len(evidence.shape) == 1 else max(1, BLOCK_CELLS // width)
    compare = _Comparison.of(trial, evidence, where)
    engine = Engine(threads=threads_for(count * width, None))
    tally = CellTally()
    parts = (slice(start, min(start + rows, count)) for start in range(0, count, rows))
    for part in engine.in_order(compare, parts):
        tally.take(part)
    return tally.census()


def row_positions(hypothesis: Hypothesis, evidence: Evidence) -> RowPositions | None:
    """The positions of all rows, where those of the sample say them."""
    where, rows = hypothesis.positions, evidence.rows
    if where is None or where.size != rows.size:
        return None
    if where.size == 1:
        return lambda some: where[0] + some - rows[0]
    step = (int(where[1]) - int(where[0])) // int(rows[1] - rows[0])
    first = int(where[0]) - step * int(rows[0])
    if np.array_equal(where, first + step * rows):
        return lambda some: first + step * some
    if evidence.every.size == evidence.count:
        every = np.zeros(evidence.count, np.int64)
        every[rows] = where
        return lambda some: every[some]
    named = rounded_positions(hypothesis, evidence)
    return None if named is None else named.at


def _solvable(trial: Trial, evidence: Evidence) -> bool:
    """Whether each row says where it stands, and there are not too many."""
    hypothesis, waves = trial.hypothesis, trial.bound.content.waves
    if waves is None or evidence.count > SOLVED_ROWS:
        return False
    if waves.coordinates is not None or waves.growth is not None or hypothesis.positions is None:
        return False
    few = righted(hypothesis, evidence.sample)
    return bool(np.isfinite(_pairs(trial, few)).all(axis=0).any())


def _solved(trial: Trial, arrays: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
    """Where rows stand by their phases, if they are what a trial says."""
    waves = trial.bound.content.waves
    assert waves is not None
    pairs = _pairs(trial, arrays)  # (rows, waves)
    known = np.isfinite(pairs).any(axis=0)
    points = np.where(np.isfinite(pairs[:, known]), pairs[:, known], 1.0)
    frequencies = np.asarray(waves.frequencies(np), np.float64)[known]
    signed = trial.bound.scheme.kind != "rotary"
    return positions_at(points, frequencies, signed=signed)[0]


def _pairs(trial: Trial, arrays: tuple[NDArray[Any], ...]) -> NDArray[np.complex128]:
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

    def at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of rows."""
        counted = (rows + self.first).astype(np.float64)
        return widen(narrow(counted, None, self.dtype), self.dtype).astype(np.int64)


def rounded_positions(hypothesis: Hypothesis, evidence: Evidence) -> RoundedPositions | None:
    """The rounding that explains where the rows of the sample stand, if one does."""
    assert hypothesis.positions is not None
    return position_rounding(hypothesis.positions, evidence.rows)


def position_rounding(where: NDArray[np.int64], rows: NDArray[np.int64]) -> RoundedPositions | None:
    """The rounding that puts rows which follow one another there, if one does."""
    for dtype in (BFLOAT16, FLOAT16):
        found = RoundedPositions(int(where[0]) - int(rows[0]), dtype)
        if np.array_equal(where, found.at(rows)):
            return found
    return None


class Part(Record):
    """What was found in some rows; ``largest`` is None where nothing differs."""

    rows: int
    cells: int
    equal: int
    ratio: float
    largest: Largest | None
    misfit_rows: NDArray[np.int64]
    padding: tuple[int, ...] = ()
    on_grid: bool = True
    hidden: int = 0
    loose: int = 0
    bits: float = 0.0


@dataclass
class CellTally:
    """Parts that were compared, in the order of their rows."""

    rows: int = 0
    cells: int = 0
    equal: int = 0
    ratio: float = 0.0
    largest: Largest | None = None
    misfits: int = 0
    padding: tuple[int, ...] = ()
    on_grid: bool = True
    hidden: int = 0
    loose: int = 0
    bits: float = 0.0
    _listed: list[NDArray[np.int64]] = field(default_factory=list)

    def take(self, part: Part) -> None:
        """Add the next rows."""
        self.rows += part.rows
        self.cells += part.cells
        self.equal += part.equal
        self.ratio = max(self.ratio, part.ratio)
        self.padding += part.padding
        self.on_grid &= part.on_grid
        self.hidden += part.hidden
        self.loose += part.loose
        self.bits += part.bits
        largest = part.largest
        if largest and (self.largest is None or largest.difference > self.largest.difference):
            self.largest = largest
        if part.misfit_rows.size and self.misfits < NAMED_ROWS:
            self._listed.append(part.misfit_rows[: NAMED_ROWS - self.misfits])
        self.misfits += part.misfit_rows.size

    def census(self) -> Census:
        """What all the parts come to."""
        listed = np.concatenate(self._listed) if self._listed else np.empty(0, np.int64)
        return Census(
            self.rows,
            self.cells,
            self.equal,
            self.ratio,
            self.largest,
            self.misfits,
            listed,
            self.padding,
            self.on_grid,
            self.hidden,
            self.loose,
            self.bits,
        )


class _Comparison(Record):
    """What compares some rows of the files with those of a hypothesis."""

    trial: Trial
    evidence: Evidence
    where: RowPositions | None
    computations: tuple[Computation, ...]
    allowances: tuple[Computation, ...]
    shares: tuple[tuple[NDArray[np.float64] | float, float], ...]

    @classmethod
    def of(cls, trial: Trial, evidence: Evidence, where: RowPositions | None) -> _Comparison:
        encoding, tables = trial.hypothesis.encoding(), trial.hypothesis.tables
        return cls(
            trial,
            evidence,
            where,
            tuple(
                computation(encoding, table, trial.rounded, trial.arithmetic) for table in tables
            ),
            tuple(allowance(encoding, table, trial.rounded) for table in tables),
            _shares(trial),
        )

    def __call__(self, part: slice) -> Part:
        stored = tuple(array[part] for array in self.evidence.arrays)
        rows = np.arange(part.start, part.stop, dtype=np.int64)
        with np.errstate(all="ignore"):
            found = self._compared(rows, stored)
        for each in stored:
            release(each)
        return found

    def _compared(self, rows: NDArray[np.int64], stored: tuple[NDArray[Any], ...]) -> Part:
        arrays = tuple(map(self.evidence.cleaned, stored))
        on_grid = all(map(self.evidence.on_grid, stored))
        padding = tuple(row for row in self.evidence.padding if rows[0] <= row <= rows[-1])
        if padding:
            kept = ~np.isin(rows, padding)
            rows, arrays = rows[kept], tuple(array[kept] for array in arrays)
        arrays = righted(self.trial.hypothesis, arrays)
        if self.where is not None:
            positions = self.where(rows)
        elif self.trial.hypothesis.positions is not None:
            positions = _solved(self.trial, arrays)
        else:
            positions = None
        parts = [
            self._of_array(index, rows, positions, array) for index, array in enumerate(arrays)
        ]
        return _merged(parts, padding=padding, on_grid=on_grid)

    def _of_array(
        self,
        index: int,
        rows: NDArray[np.int64],
        positions: NDArray[np.int64] | None,
        array: NDArray[Any],
    ) -> Part:
        predicted = self.computations[index](positions)
        if self.trial.rounded == BFLOAT16:
            predicted = (predicted.astype(np.uint32) << np.uint32(16)).view(np.float32)

        table = self.trial.hypothesis.tables[index]

        def limits() -> NDArray[np.float64]:
            found = self.allowances[index](positions)
            if self.trial.arithmetic == "bfloat16":
                found = bfloat16_limits(found, predicted, table)[1]
            share, rounding = self.shares[index]
            return np.minimum(found, found * share + rounding)

        rows = rows + self.evidence.skipped
        return part_of(array, predicted, limits, rows, self.trial.rounded, file=index, table=table)


def part_of(
    array: NDArray[Any],
    predicted: NDArray[Any],
    limits: Callable[[], NDArray[np.float64]],
    rows: NDArray[np.int64],
    rounded: DType,
    *,
    file: int = 0,
    table: str | None = None,
) -> Part:
    """What differs in some rows of a file, ``limits`` being asked for only where something does.

    Shape: ``array`` (rows, …), ``predicted`` and the limits as it, complex numbers as two columns.
    """
    cells = as_columns(array)
    if np.array_equal(cells, predicted):
        return Part(rows.size, array.size, array.size, 0.0, None, rows[:0])
    difference = apart(cells, predicted.astype(np.float64), table)
    ratios = difference / limits()
    same = (difference == 0).reshape(array.size, -1).all(axis=1).reshape(rows.size, -1)
    at = np.unravel_index(int(np.argmax(difference)), difference.shape)
    place = (int(rows[at[0]]), *map(int, at[1:]))
    largest = Largest(float(difference[at]), file, place, cells[at].item(), float(predicted[at]))
    misfit = (ratios > 1).reshape(rows.size, -1).any(axis=1)  # (rows,)
    return Part(
        rows.size,
        array.size,
        int(same.sum()),
        float(ratios.max()),
        largest,
        rows[misfit],
        loose=int((~same[~misfit]).sum()),
        bits=bits_apart(difference, predicted, rounded),
    )


def _merged(parts: list[Part], *, padding: tuple[int, ...], on_grid: bool) -> Part:
    """What differs in the same rows of two files."""
    differing = [part.largest for part in parts if part.largest is not None]
    return Part(
        parts[0].rows,
        sum(part.cells for part in parts),
        sum(part.equal for part in parts),
        max(part.ratio for part in parts),
        max(differing, key=lambda largest: largest.difference, default=None),
        np.unique(np.concatenate([part.misfit_rows for part in parts])),
        padding,
        on_grid,
        loose=sum(part.loose for part in parts),
        bits=sum(part.bits for part in parts),
    )


def as_columns(array: NDArray[Any]) -> NDArray[Any]:
    """Complex numbers as pairs of columns."""
    if array.dtype.kind != "c":
        return array
    part = np.float32 if array.dtype.itemsize == 8 else np.float64
    return np.ascontiguousarray(array).view(part)


def _shares(trial: Trial) -> tuple[tuple[NDArray[np.float64] | float, float], ...]:
    """What of the tolerance the sample leaves the cells of each column, and what rounding needs.

    A share, one number or (columns,), and an absolute difference, for each table.
    """
    waves, tables = trial.bound.content.waves, trial.hypothesis.tables
    if waves is None or waves.growth is not None or tables == ("inv-freq",):
        return ((1.0, 0.0),) * len(tables)
    size = np.pi if tables == ("angles",) else float(waves.scale)
    rounding = 4 * unit(trial.rounded.name) * size
    return tuple((np.minimum(_MARGIN * noise, 1.0), rounding) for noise in trial.noise)
