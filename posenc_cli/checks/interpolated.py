"""Tables whose rows were interpolated between those of another table, as images are resized.

Positions may be interpolated: cosines of angles between two others are no means of theirs. How far
apart the rows of the other table lie, and where between them each row was taken, is read off the
slowest pairs, which such means keep nearly right; then every cell is held against the means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced, turned_by
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.formulas.inverse import COMMON_FACTORS
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Reals

_FEWEST_ROWS = 8
"""That show a line: fewer may lie on one by chance."""

_SLOW = 0.05
"""Radians from row to row: means of such pairs turn as what lies between would, to 1e-5."""

_NEAR = 2e-3
"""Of the slope: what slow pairs show of it; every cell then decides."""

_EXACT = 1e-9
"""Of the slope: what is no nearer is another."""


class Interpolation(Record):
    """Row p is the mean of two rows of a table of ``knots`` rows, which lie ``step`` apart.

    It is taken at p · ``slope`` + ``shift`` in that table, and never before its first row or after
    its last.
    """

    step: int
    slope: float
    shift: float
    knots: int | None
    formula: str

    def factors(self, piece: Sample) -> ComplexRows:
        """The means at the positions of a piece. Shape: (n, pairs)."""
        at = np.maximum(piece.positions * self.slope + self.shift, 0)  # (n,)
        last = np.inf if self.knots is None else self.knots - 1
        before = np.minimum(np.floor(at), last)
        share = (at - before)[:, None]
        rates = piece.reference.frequencies

        def row(place: Reals) -> ComplexRows:
            return turned_by(rates, replace(piece, positions=place * self.step))

        after = np.minimum(before + 1, last)
        return np.asarray((1 - share) * row(before) + share * row(after), np.complex128)

    @property
    def cause(self) -> Explanation:
        """What is wrong, in words: the rows, where the slope is right, else their positions too."""
        precise = abs(self.slope * self.step - 1) <= _EXACT
        table = "another table" if self.knots is None else f"a table of {self.knots} rows"
        if self.step > 1:
            table += f", of every {self.step}th position"
        return Explanation(
            Cause.TABLE_PRECISION if precise else Cause.POSITION_OFFSET,
            f"rows are interpolated linearly between those of {table}",
            f"row p is taken at {self.formula} of it: cosines between two rows are no means of "
            "theirs",
        )


def interpolated_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are means of two rows of another table."""
    sample = suspect.sample
    if sample.reference.coordinates is not None or sample.positions.size < _FEWEST_ROWS:
        return None
    if (sample.positions < 0).any() or sample.amplitude == 0:
        return None
    slope = _slope(sample)
    if slope is None:
        return None
    right = sample.reference.frequencies
    sized = replace(sample, amplitude=sample.reference.scale)
    for tried in _interpolations(sample, slope):
        if not sized.explained_cells(tried.factors(sized), right).all():
            continue
        whole = suspect.whole.changed(lambda piece: replace(piece, amplitude=piece.reference.scale))
        residual = reproduced(whole, tried.factors, right)
        if residual.whole:
            return with_residual(tried.cause, residual)
    return None


def _slope(sample: Sample) -> float | None:
    """By how many positions slow pairs go on from row to row, None where they show no line.

    The first and the last rows are left out: they may stand still.
    """
    right = sample.reference.frequencies
    slow = np.flatnonzero((right > 0) & (right < _SLOW) & sample.seen.all(axis=0))
    finite = np.isfinite(sample.factors).all()
    if not slow.size or not finite:
        return None
    slow = slow[np.argsort(right[slow])]
    angles = np.angle(sample.factors[:, slow])  # (n, slow pairs)
    read = angles[:, 0] / right[slow[0]]
    for pair, own in zip(slow[1:], angles.T[1:], strict=True):
        wraps = np.round((read * right[pair] - own) / (2 * np.pi))
        read = (own + 2 * np.pi * wraps) / right[pair]
    middle = slice(read.size // 8, -(read.size // 8) or None)
    positions = sample.positions[middle].astype(np.float64)
    if np.ptp(positions) == 0:
        return None
    slope = float(np.polyfit(positions, read[middle], 1)[0])
    return slope if slope > 0 else None


def _interpolations(sample: Sample, slope: float) -> Iterator[Interpolation]:
    """What rows may be means of, where slow pairs go on by this from row to row."""
    rows = int(sample.positions.max()) + 1
    own = sample.reference.params.get("factor")
    steps = [1, *(int(factor) for factor in (own, *COMMON_FACTORS) if factor)]
    for step in dict.fromkeys(steps):
        ratio = slope / step
        knots = round(ratio * rows)
        if knots > 1 and abs(knots / rows / ratio - 1) < _NEAR and knots != rows:
            yield from _of_ratio(step, knots / rows, knots)
        whole = round(1 / ratio)
        if whole > 1 and abs(ratio * whole - 1) < _NEAR:
            yield from _of_ratio(step, 1 / whole, None)
        knots = round(ratio * (rows - 1)) + 1
        if knots > 1 and knots != rows and rows > 1:
            corners = (knots - 1) / (rows - 1)
            if abs(corners / ratio - 1) < _NEAR:
                formula = f"p · {knots - 1}/{rows - 1}"
                yield Interpolation(step, corners, 0.0, knots, formula)


def _of_ratio(step: int, ratio: float, knots: int | None) -> Iterator[Interpolation]:
    """Both ways to count rows as pixels: from their edges, and from their centres."""
    yield Interpolation(step, ratio, 0.0, knots, f"p · {ratio:g}")
    shift = ratio / 2 - 0.5
    yield Interpolation(step, ratio, shift, knots, f"(p + ½) · {ratio:g} − ½")
