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
from posenc_cli.diagnosis.uninitialised_values import garbage_of
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.formats import whole_codes
from posenc_cli.inference.rules import Alternative, Remembered
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows

MOST_CLAIMS = 6
"""Claims that are kept of those that hold on a few rows: more rows tell them apart."""

ALIKE = 2.0
"""Times the least residual: what is no larger fits as well."""

_FEWEST = 2
"""Pairs of a group that a known mistake explains: of one alone, many could be the reason."""

_CONFIRMED = 3
"""Pairs, or cells, that must share a number read off them: one gives it, and two confirm it."""

_RUN = 8
"""Pairs on the average that must lie side by side, or at one step, for a rule to be theirs."""

_TIES = 0.1
"""Of the cells of few rows: a rounding that is emulated may fall the other way in some."""

_SCATTERS = 1.5
"""Times what sizes scatter by: cells that were all cut toward zero are shorter by less."""

_NEARLY_ALL = 0.85
"""Of the few rows of a first trial: one or two of them may be wrong in a way of their own."""

_NEARLY_RIGHT = 1e-4
"""Of a frequency: a rule that is no farther off anywhere explains some of any pairs by chance, as
does one that was read off and is no farther off in these."""

_COARSE = 2.0**-4
"""Of a frequency: what most pairs are off by at most may be a rounding, of eight bits even."""


class Claim(Record):
    """A defect, the size of the factors with it, and the pairs that it is about (None: all)."""

    defect: Defect
    amplitude: float
    pairs: Flags | None = None

    def missed(self, piece: Sample) -> tuple[RealRows, Flags]:
        """By how much each cell of a piece is missed, and which are explained. Shape: (n, pairs).

        Cells that could not be seen, or that are not meant, are missed by 0.
        """
        sized = replace(piece, amplitude=self.amplitude)
        with np.errstate(all="ignore"):
            predicted, _ = self.defect.prediction(sized)
            explained = self.defect.explained(sized)
            missed = np.abs(piece.factors - predicted) + piece.stray  # (n, pairs)
        meant = piece.seen if self.pairs is None else piece.seen & self.pairs
        return np.where(meant, missed, 0.0), explained | ~meant

    @property
    def parts(self) -> int:
        """How many mistakes it takes together."""
        plain = Defect()
        return sum(value != getattr(plain, name) for name, value in self.defect.as_dict().items())


def amplitude_of(sample: Sample, *, floor: float) -> float:
    """The size of the factors, the right one where theirs does not differ from it."""
    right = sample.reference.scale
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    sizes = sizes[np.isfinite(sizes)]
    if sizes.size < _CONFIRMED:
        return right
    if whole_codes(sample.factors[sample.seen]):
        # A cosine near 1 keeps its size, which most of the others lose to their rounding.
        return float(max(np.abs(part).max() for part in (sample.factors.real, sample.factors.imag)))
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
        if claims and _read_off(defect):
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
        elif nearly and not claims and not of_most_rows and _nearly(defect, sample, explained):
            of_most_rows.append(claim)
    # More rows may tell that the simpler of two is not enough.
    return sorted(claims, key=lambda claim: claim.parts) or of_most_rows


def _nearly(defect: Defect, sample: Sample, explained: Flags) -> bool:
    """Whether a defect that explains these cells of few rows explains nearly all of a sample."""
    if defect.rounds or explained.all(axis=1).mean() < _NEARLY_ALL:
        return False
    return nearly_holds(sample, defect)


def suspected_defects(sample: Sample, rotations: Rotations | None) -> Remembered[Defect]:
    """What is tried on a part of a subject, from the simplest on.

    ``rotations`` are those that it comes nearest to: bases and factors are read off them.
    """
    resized = [Defect()] if sample.amplitude != sample.reference.scale else []
    return Remembered(itertools.chain(resized, likely_defects(sample, rotations)))


def same_defect(defect: Defect | None, other: Defect | None) -> bool:
    """Whether two defects say the same of nearly the same frequencies.

    Rules that were not read off say the same only in the same words.
    """
    if defect is None or other is None:
        return defect is other
    if _rounds_alike(defect, other) or _rounds_alike(other, defect):
        return True
    a, b = defect.frequencies, other.frequencies
    if (a is None) != (b is None):
        return False
    if a is not None and b is not None:
        near = np.allclose(a.frequencies, b.frequencies, rtol=1e-4, atol=1e-12)
        known = not (a.read_off or b.read_off)
        if a.cause != b.cause or not near or (known and a.message != b.message):
            return False
    parts = {"frequencies": None, "cosines": None, "sines": None}
    return (
        replace(defect, **parts) == replace(other, **parts)
        and same_defect(defect.cosines, other.cosines)
        and same_defect(defect.sines, other.sines)
    )


def _rounds_alike(defect: Defect, other: Defect) -> bool:
    """Whether one rounds the frequencies itself, and the other has them rounded by a rule."""
    rule = other.frequencies
    if rule is None or rule.cause != Cause.INV_FREQ_PRECISION or not defect.rates:
        return False
    return replace(defect, rates=None) == replace(other, frequencies=None)


def copied_frequencies(sample: Sample, rotations: Rotations | None) -> Defect | None:
    """Pairs that have the frequencies of other pairs; None where they have none.

    Only the pairs that are seen in the sample are looked at.
    """
    right = sample.reference.frequencies
    if rotations is None or rotations.frequencies.shape != right.shape:
        return None
    meant = np.flatnonzero(sample.seen.any(axis=0))
    turning = np.flatnonzero(right > 0)
    if not meant.size or not turning.size:
        return None
    rates = np.abs(rotations.frequencies[meant])
    nearest = turning[np.abs(rates[:, None] / right[turning] - 1).argmin(axis=1)]  # (meant,)
    values = right.copy()
    values[meant] = right[nearest]
    if np.array_equal(values, right):
        return None
    moved = meant != nearest
    return Defect(
        frequencies=Alternative(
            Cause.FREQUENCY_RULE, _copied_text(meant[moved], nearest[moved], right.size), values
        )
    )


def _copied_text(pairs: Integers, sources: Integers, count: int) -> str:
    """Which pairs have the frequencies of which.

    >>> _copied_text(np.array([31]), np.array([30]), 32)
    'pair 31 of 32 has the frequency of pair 30'
    >>> _copied_text(np.array([2, 3]), np.array([0, 1]), 4)
    'pairs 2–3 of 4 have the frequencies of pairs 0–1'
    """
    if pairs.size == 1:
        return f"pair {pairs[0]} of {count} has the frequency of pair {sources[0]}"
    runs = (np.diff(pairs) == 1).all() and (np.diff(sources) == 1).all()
    if runs:
        return (
            f"pairs {pairs[0]}–{pairs[-1]} of {count} have the frequencies of pairs "
            f"{sources[0]}–{sources[-1]}"
        )
    shown = ", ".join(f"{a} that of {b}" for a, b in zip(pairs[:4], sources[:4], strict=True))
    more = f", and {pairs.size - 4} more" if pairs.size > 4 else ""
    named = ", ".join(range_texts(pairs.tolist())[:4])
    return f"pairs {named} of {count} have the frequencies of others: pair {shown}{more}"


def own_frequencies(sample: Sample, rotations: Rotations | None) -> Defect | None:
    """Frequencies that follow no known rule: those that the pairs seen in a sample have."""
    right = sample.reference.frequencies
    if rotations is None or rotations.frequencies.shape != right.shape:
        return None
    meant = sample.seen.any(axis=0)
    values = np.where(meant, rotations.frequencies, right)
    if not np.isfinite(values).all():
        return None
    off = np.abs(values - right) / np.where(right > 0, right, 1)
    if np.count_nonzero(off) > right.size / 2 and off.max() <= _COARSE:
        return None
    if garbage_of(values, right) is not None:
        return None  # which has a cause of its own
    return Defect(frequencies=Alternative(Cause.FREQUENCY_RULE, "", values))


def claims_by_pairs(
    sample: Sample, defects: Iterable[Defect], rotations: Rotations | None
) -> list[Claim]:
    """Claims about some of the pairs each, which together explain the pairs that are wrong.

    Pairs that one of these defects explains come first; the largest such group first. The rest may
    have frequencies of its own, those of ``rotations``. Empty where something is left.
    """
    if sample.amplitude == 0:
        return []
    known = _defects_of_groups(sample, defects)
    claims: list[Claim] = []
    left = np.asarray(sample.seen.any(axis=0), bool)
    while left.any() and known and len(claims) < MOST_CLAIMS:
        defect, explained = max(known, key=lambda one: int((one[1] & left).sum()))
        group: Flags = np.logical_and(explained, left)
        if group.sum() < _FEWEST:
            break
        known = [one for one in known if one[0] is not defect]
        if holds(replace(sample, seen=sample.seen & group), defect):
            claims.append(Claim(defect, sample.amplitude, group))
            left = np.asarray(left & ~group, bool)
    if not left.any():
        return claims
    rest = replace(sample, seen=sample.seen & left)
    for of_rest in (copied_frequencies(rest, rotations), own_frequencies(rest, rotations)):
        if of_rest is not None and holds(rest, of_rest):
            return [*claims, Claim(of_rest, sample.amplitude, left)]
    return []


def _defects_of_groups(sample: Sample, defects: Iterable[Defect]) -> list[tuple[Defect, Flags]]:
    """The defects that explain several of the pairs seen, and these pairs. Shape: (pairs,)."""
    few = sample.rows(few_rows(sample.positions))
    seen, right = sample.seen.any(axis=0), sample.reference.frequencies
    groups: list[tuple[Defect, Flags]] = []
    for defect in defects:
        if defect.rounds or Claim(defect, sample.amplitude).parts > 1:
            continue
        explained = defect.explained(few).all(axis=0)
        explained = np.logical_and(explained, seen)
        rule = defect.frequencies
        if rule is not None:
            near = np.isclose(rule.frequencies, right, rtol=_NEARLY_RIGHT, atol=0)
            if near.all() or (rule.read_off and near[explained].all()):
                continue
        fewest = _CONFIRMED if _read_off(defect) else _FEWEST
        if explained.sum() >= fewest and not is_chance(defect, explained):
            groups.append((defect, explained))
    return groups


def is_chance(defect: Defect, group: Flags) -> bool:
    """Whether some pairs have the frequencies of a rule for all pairs as they might have by chance.

    They may where few of them turn, where they lie scattered, or where the rule makes them alike.
    """
    if defect.frequencies is None:
        return False
    values = defect.frequencies.frequencies
    pairs = np.flatnonzero(group & (values != 0))
    if pairs.size < _CONFIRMED or (values[pairs] == values[pairs[0]]).all():
        return True
    steps = np.diff(pairs)
    runs = 1 + np.count_nonzero(steps != steps[0])
    return bool(runs > max(1, pairs.size // _RUN))


def _read_off(defect: Defect) -> bool:
    """Whether a defect has numbers that were read off the sample."""
    return defect.frequencies is not None and defect.frequencies.read_off
