"""Tables that were made row by row, each from the one before, so that roundings add up.

Angles may be summed, or rows be turned on by one step. What that gives is made again, rounding by
rounding, and held against every cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.defects import ENOUGH, Defect
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals

_MOST_ROWS, _MOST_HALF_ROWS = 1 << 17, 1 << 14
"""Positions up to which rows are made again: a million steps take seconds, roundings to a half
precision ten times as long."""

_FIRST = 4
"""Rows at which roundings have not added up yet."""

_EARLY = 300
"""Rows that are made first: those that rule most ways out."""

_MENDED = 0.8
"""Of the cells that are wrong: what makes as many wrong as it explains is chance."""

_COARSE = 2.0**-6
"""Of a cell: what the first rows may be off by in a half precision."""

_SINGLE = "float32"


@dataclass
class _RowByRow:
    """What stands in the rows of some frequencies, made one after the other from row 0 on."""

    rates: Reals
    dtype: str
    row: int = 0
    state: tuple[RealRows, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        self.round: Callable[[RealRows], RealRows] = lambda values: values.astype(np.float32)
        if self.dtype != _SINGLE:
            self.round = lambda values: round_to_half(values, self.dtype).astype(np.float32)
        self.restart()

    def at(self, positions: Integers) -> ComplexRows:
        """The factors of some positions. Shape: (n, pairs)."""
        out = np.empty((positions.size, self.rates.size), np.complex128)
        for place in np.argsort(positions, kind="stable"):
            position = int(positions[place])
            if position < self.row:
                self.restart()
            while self.row < position:
                self.step()
                self.row += 1
            out[place] = self.factors()
        return out

    def restart(self) -> None:
        """Begin at row 0."""
        raise NotImplementedError

    def step(self) -> None:
        """Make the next row."""
        raise NotImplementedError

    def factors(self) -> ComplexRows:
        """Those of the row. Shape: (pairs,)."""
        raise NotImplementedError


class _SummedAngles(_RowByRow):
    """Angles to which the frequency is added in each row."""

    cause = Cause.POSITION_PRECISION
    message = "angles are summed row by row in {}: the roundings add up"

    def restart(self) -> None:
        self.row, self.one = 0, self.round(self.rates)
        self.angles = np.zeros_like(self.one)

    def step(self) -> None:
        self.angles = self.round(self.angles + self.one)

    def factors(self) -> ComplexRows:
        return np.asarray(np.exp(1j * self.angles.astype(np.float64)), np.complex128)


@dataclass
class _TurnedRows(_RowByRow):
    """Cosines and sines that are turned on by one step in each row.

    ``fused`` says which product is added before it is rounded, as machines may: that with the
    cosine of the row ("row") or of the step ("step"), all ("all") or none.
    """

    fused: str = ""

    cause = Cause.TABLE_PRECISION
    message = "each row is the one before, turned on by a step, in {}: the roundings add up"

    def restart(self) -> None:
        self.row = 0
        self.step_cos, self.step_sin = (
            self.round(of(self.rates)).astype(np.float64) for of in (np.cos, np.sin)
        )
        self.cos, self.sin = np.ones_like(self.step_cos), np.zeros_like(self.step_sin)

    def step(self) -> None:
        # Products of two numbers of float32 are exact in float64.
        straight, crossed = self.cos * self.step_cos, self.sin * self.step_sin
        by_row, by_step = self.cos * self.step_sin, self.sin * self.step_cos
        if self.fused != "all":
            crossed = self.round(crossed)
            straight = straight if self.fused else self.round(straight)
            by_row = by_row if self.fused == "row" else self.round(by_row)
            by_step = by_step if self.fused == "step" else self.round(by_step)
        self.cos = self.round(straight - crossed).astype(np.float64)
        self.sin = self.round(by_row + by_step).astype(np.float64)

    def factors(self) -> ComplexRows:
        return np.asarray(self.cos + 1j * self.sin, np.complex128)


def recurrence_cause(suspect: Suspect) -> Explanation | None:
    """The cause where each row was made from the one before, and roundings added up."""
    sample = suspect.sample
    last = int(sample.positions.max(initial=0))
    if sample.reference.coordinates is not None or sample.positions.min(initial=0) < 0:
        return None
    if last > _MOST_ROWS or sample.amplitude == 0 or not _begins_right(sample):
        return None
    found: Explanation | None = None
    least = np.inf
    plain = suspect.residual(Defect())
    for rows in _ways(sample.reference.frequencies, last):

        def factors(piece: Sample, rows: _RowByRow = rows) -> ComplexRows:
            return np.asarray(piece.reference.scale * rows.at(piece.positions), np.complex128)

        right = sample.reference.frequencies
        sized = replace(sample, amplitude=sample.reference.scale)
        if not all(
            part.explained_cells(factors(part), right).mean() >= ENOUGH
            for part in (sized.rows(np.flatnonzero(sized.positions < _EARLY)), sized)
        ):
            continue
        residual = reproduced(
            suspect.whole.changed(lambda piece: replace(piece, amplitude=piece.reference.scale)),
            factors,
            right,
        )
        few = residual.cells <= (1 - ENOUGH) * residual.of_cells
        if few and residual.cells <= (1 - _MENDED) * plain.cells and residual.cells < least:
            least = residual.cells
            told = Explanation(rows.cause, rows.message.format(rows.dtype), "")
            found = with_residual(told, residual)
    return found


def _begins_right(sample: Sample) -> bool:
    """Whether the first rows are right, as all are whose roundings have not added up."""
    first = sample.rows(np.flatnonzero(sample.positions < _FIRST))
    if not first.positions.size:
        return False
    near = np.abs(first.factors - Defect().prediction(first)[0])
    return bool((near[first.seen] <= _COARSE).all())


def _ways(rates: Reals, last: int) -> Iterator[_SummedAngles | _TurnedRows]:
    """How rows may be made from one another."""
    single = rates.astype(np.float32).astype(np.float64)
    for dtype in (_SINGLE, *(HALVES if last <= _MOST_HALF_ROWS else ())):
        yield _SummedAngles(rates, dtype)
        yield _TurnedRows(rates, dtype)
    for own in (rates, single):
        for fused in ("row", "step", "all", *([""] if own is single else [])):
            yield _TurnedRows(own, _SINGLE, fused=fused)
