"""What a subject is claimed to be, and what the claim leaves over: found on a sample, held on all.

A claim says what table a subject, or a part of it, would be. It is found on a few rows, tried on
more, and printed only with its residual: the largest difference between that table and the subject
over every cell of the part that it speaks of.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import Defect, few_rows, holds, likely_defects, nearly_holds
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.rules import Remembered
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import Residual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows

MOST_CLAIMS = 6
"""Claims that are kept of those that hold on a few rows: more rows tell them apart."""

ALIKE = 2.0
"""Times the least residual: what is no larger fits as well."""

_CONFIRMED = 3
"""Pairs, or cells, that must share a number read off them: one gives it, and two confirm it."""

_TIES = 0.1
"""Of the cells of few rows: a rounding that is emulated may fall the other way in some."""

_SCATTERS = 1.5
"""Times what sizes scatter by: cells that were all cut toward zero are shorter by less."""

_NEARLY_ALL = 0.85
"""Of the few rows of a first trial: one or two of them may be wrong in a way of their own."""


class Claim(Record):
    """A defect, and the size of the factors with it."""

    defect: Defect
    amplitude: float

    def missed(self, piece: Sample) -> tuple[RealRows, Flags]:
        """By how much each cell of a piece is missed, and which are explained. Shape: (n, pairs).

        Cells that could not be seen are missed by 0.
        """
        return self.defect.missed(replace(piece, amplitude=self.amplitude))

    @property
    def parts(self) -> int:
        """How many mistakes it takes together."""
        plain = Defect()
        return sum(value != getattr(plain, name) for name, value in self.defect.as_dict().items())


class Whole(Record):
    """All rows of a subject: any of them at once, or in pieces, each with its first row."""

    count: int
    read: Callable[[slice | Integers], Sample]
    block: int

    def pieces(self, start: int = 0) -> Iterator[tuple[int, Sample]]:
        """All rows from one on, a piece at a time."""
        for row in range(start, self.count, self.block):
            yield row, self.read(slice(row, min(row + self.block, self.count)))

    def residual(self, claim: Claim) -> Residual:
        """What a claim leaves over of all cells."""
        return Residual.measure(
            (piece.positions, *claim.missed(piece)) for _, piece in self.pieces()
        )

    def changed(self, change: Callable[[Sample], Sample]) -> Whole:
        """The same with each sample of it changed."""
        return replace(self, read=lambda rows: change(self.read(rows)))


def amplitude_of(sample: Sample, *, floor: float) -> float:
    """The size of the factors, the right one where theirs does not differ from it."""
    right = sample.reference.scale
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    sizes = sizes[np.isfinite(sizes)]
    if sizes.size < _CONFIRMED:
        return right
    least, most = float(sizes.min()), float(sizes.max())
    if most - least <= 2 * floor:  # by roundings alone, which lie on both sides of the one size
        return right if max(right - least, most - right) <= floor else (least + most) / 2
    amplitude = float(np.median(sizes))
    scatter = float(np.subtract(*np.percentile(sizes, [95, 5])))
    return right if abs(amplitude - right) <= max(2 * floor, _SCATTERS * scatter) else amplitude


def nearest_rotations(sample: Sample) -> Rotations | None:
    """The rotations that the rows of a sample come nearest to; None where pairs follow axes."""
    if sample.reference.coordinates is not None or sample.positions.size < 2:
        return None
    return fit(sample.positions, np.where(sample.seen, sample.factors, 0))


def claims_that_hold(
    sample: Sample, defects: Iterable[Defect], *, nearly: bool = False
) -> list[Claim]:
    """What explains every cell of a sample, the simplest first, and all of one simplicity.

    Where none of these defects explains it, ``nearly`` asks for the first that leaves some rows
    over.
    """
    if sample.amplitude == 0:
        return [Claim(Defect(), 0.0)]
    few = sample.rows(few_rows(sample.positions))
    claims: list[Claim] = []
    of_most_rows: list[Claim] = []
    parts = math.inf
    for defect in defects:
        rule = defect.frequencies
        if claims and rule is not None and rule.read_off:
            break  # a known rule says more than a number that is read off
        claim = Claim(defect, sample.amplitude)
        if claim.parts > parts:
            continue
        explained = defect.explained(few)  # (n, pairs)
        ties = _TIES * few.seen.sum() if defect.rounds else 0
        if np.count_nonzero(~explained) <= ties and holds(sample, defect):
            if any(same_defect(defect, other.defect) for other in claims):
                continue
            claims.append(claim)
            parts = min(parts, claim.parts)
            if len(claims) == MOST_CLAIMS:
                break
        elif (
            nearly
            and not (claims or of_most_rows or defect.rounds)
            and explained.all(axis=1).mean() >= _NEARLY_ALL
            and nearly_holds(sample, defect)
        ):
            of_most_rows.append(claim)
    # More rows may tell that the simpler of two is not enough.
    return sorted(claims, key=lambda claim: claim.parts) or of_most_rows


def suspected_defects(sample: Sample, rotations: Rotations | None) -> Remembered[Defect]:
    """What is tried on a part of a subject, from the simplest on.

    ``rotations`` are those that it comes nearest to: bases and factors are read off them.
    """
    resized = [Defect()] if sample.amplitude != sample.reference.scale else []
    return Remembered(itertools.chain(resized, likely_defects(sample, rotations)))


def same_defect(defect: Defect, other: Defect) -> bool:
    """Whether two defects say the same of nearly the same frequencies.

    Rules that were not read off say the same only in the same words.
    """
    a, b = defect.frequencies, other.frequencies
    if (a is None) != (b is None):
        return False
    if a is not None and b is not None:
        near = np.allclose(a.frequencies, b.frequencies, rtol=1e-4, atol=1e-12)
        known = not (a.read_off or b.read_off)
        if a.cause != b.cause or not near or (known and a.message != b.message):
            return False
    return replace(defect, frequencies=None) == replace(other, frequencies=None)
