"""Encodings whose cells are kept in a coarse format: what nearly fits, rounded, cut or coded.

Tried where nothing fits: the encoding that comes nearest gives the exact cells, and the file shows
which grid its own are on. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import ENOUGH
from posenc_cli.diagnosis.value_formats import (
    ColumnExtremes,
    block_codes,
    cut_codes,
    read_off_formats,
)
from posenc_cli.inference.formats import coarse_formats
from posenc_cli.inference.trial import (
    UNREDUCED_TABLES,
    coarsened,
    computation_of,
    formats_of,
    limits_of,
    put_right,
)
from posenc_cli.numerics.rounding import widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.formats import CellFormat
    from posenc_cli.inference.trial import Hypothesis, Trial
    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.numerics.dtypes import DType

_NEAREST, _AS_NEAR = 4, 2.0
"""Trials that are looked at, and times the least residual that they leave."""

_NEAR = 0.15
"""Of the largest cell: four bits are no farther off."""

_NO_FACTOR = 0.01
"""Of a factor: what coarse cells seem to be multiplied by."""

_FIRST, _EXPLAINED = 12, 0.8
"""Rows that most formats are ruled out by, and the share of their cells that one must explain."""


class _TriedCells(Record):
    """Stored cells of the sample beside exact ones, and what right ones may be off by, by table."""

    stored: Sequence[RealRows]
    exact: Sequence[RealRows]
    limits: Sequence[RealRows]
    dtype: DType

    @classmethod
    def of(cls, hypothesis: Hypothesis, evidence: Evidence) -> _TriedCells:
        """The cells of the sample, and those of a hypothesis."""
        encoding, rounded = hypothesis.encoding(), formats_of(evidence)[0]
        exact, limits = [], []
        for table in hypothesis.tables:
            computed = computation_of(hypothesis, table, rounded, "exact", encoding=encoding)
            exact.append(widen(computed(hypothesis.positions), rounded))
            limit = limits_of(hypothesis, table, rounded, encoding=encoding)
            limits.append(limit(hypothesis.positions))
        return cls(put_right(hypothesis, evidence.sample), exact, limits, rounded)

    def rows(self, step: int) -> _TriedCells:
        """Every so many rows."""
        stored, exact, limits = (
            [array[::step] for array in arrays] for arrays in (self.stored, self.exact, self.limits)
        )
        return _TriedCells(stored, exact, limits, self.dtype)

    def explained(self, coarse: Hypothesis) -> float:
        """The share of the cells that a format explains, of the table where it is smaller."""
        shares = []
        for i, (stored, limit) in enumerate(zip(self.stored, self.limits, strict=True)):
            missed = np.abs(stored - coarsened(coarse, i, self.exact[i], self.dtype))
            shares.append(float((missed <= limit).mean()))
        return min(shares)

    def steps(self, coarse: Hypothesis) -> tuple[float, ...]:
        """The most that a cell may be off by which fell to the other side of a tie."""
        return tuple(
            2 * float(np.abs(coarsened(coarse, i, exact, self.dtype) - exact).max())
            for i, exact in enumerate(self.exact)
        )


def coarse_hypotheses(trials: Sequence[Trial], evidence: Evidence) -> Iterator[Hypothesis]:
    """The encodings of trials that nearly fit, in formats that explain nearly all cells."""
    if any(array.dtype.kind == "c" for array in evidence.arrays):
        return
    largest = max(float(np.abs(sample).max(initial=0.0)) for sample in evidence.sample)
    for trial in _nearest(trials, largest):
        whole = all(np.array_equal(sample, np.rint(sample)) for sample in evidence.sample)
        multiplier = trial.hypothesis.multiplier
        if whole and largest > 1:
            multiplier = float(np.rint(largest))
        elif abs(multiplier - 1) < _NO_FACTOR:
            multiplier = 1.0
        hypothesis = replace(trial.hypothesis, multiplier=multiplier)
        cells = _TriedCells.of(hypothesis, evidence)
        few = cells.rows(-(-len(cells.stored[0]) // _FIRST))
        for kept in _formats(cells, evidence):
            coarse = replace(hypothesis, cells=kept, cost=hypothesis.cost + 1)
            if few.explained(coarse) >= _EXPLAINED and cells.explained(coarse) >= ENOUGH:
                yield replace(coarse, steps=cells.steps(coarse))
                break


def _nearest(trials: Sequence[Trial], largest: float) -> list[Trial]:
    """The trials of waves that come near all cells, the plainest first."""
    special = {"inv-freq", "angles", "slopes", *UNREDUCED_TABLES}
    of_waves = [
        trial
        for trial in trials
        if not special & set(trial.hypothesis.tables)
        and trial.hypothesis.positions is not None
        and trial.bound.content.waves is not None
        and trial.residual <= _NEAR * largest
    ]
    least = min((trial.residual for trial in of_waves), default=0.0)
    near = [trial for trial in of_waves if trial.residual <= _AS_NEAR * least]
    return sorted(near, key=lambda trial: trial.hypothesis.cost)[:_NEAREST]


def _formats(cells: _TriedCells, evidence: Evidence) -> Iterator[CellFormat]:
    """Formats that cells may be in, those that are read off first."""
    factors = np.asarray(cells.stored[0] + 1j * cells.stored[-1], np.complex128)
    yield from read_off_formats(factors, ("cos", "sin"))
    yield from coarse_formats(factors)
    yield from cut_codes(factors)
    width = cells.exact[0].shape[1]
    codes = block_codes(width)
    yield from (code for code in codes if not code.together)
    if len(evidence.shape) == len(("rows", "columns")):
        cos, sin = (_extremes(evidence.arrays[i]) for i in (0, -1))
        columns = block_codes(width, (cos, sin))
        yield from itertools.filterfalse(lambda code: code.origin != "zero", columns)


def _extremes(array: RealRows) -> ColumnExtremes:
    """The largest number of each column of a file, of either sign: that of the last code."""
    most = np.maximum(np.abs(array.max(axis=0)), np.abs(array.min(axis=0)))[None]
    return ColumnExtremes(-most.astype(np.float64), most.astype(np.float64))
