"""Rows that are wrong in their own way: from some position on, or a few.

A regime is a run of rows that one claim explains. Regimes are found one after another: a claim is
found on a few rows from the first wrong one on, and compared with all rows until one that it does
not explain. So each boundary is the first row at which a claim fails of all rows, and it is one
only where the claim fails there at once: a number that is nearly right fails by and by.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import either, together, words_of
from posenc_cli.diagnosis.defects import (
    ALIKE,
    Claim,
    Defect,
    Whole,
    amplitude_of,
    claims_that_hold,
    nearest_rotations,
    same_defect,
    suspected_defects,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import MOST, Explanation, Residual, Where, joined_residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.bug_search import Suspect
    from posenc_cli.inference.reference import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, Reals

_MOST_REGIMES = 6
"""Runs of rows that are looked for: a subject of more is in no regime that a reader could use."""

_MOST_LEFT = 0.5
"""Of the wrong rows: parts that leave more of them unknown do not tell what is wrong, as where the
rows of one block happen to be right but for a sign."""

_WINDOWS = (48, 8, 768)
"""Rows on which a claim is looked for: enough to know it, then few for a short run, then many for
numbers that are read off."""

_FEWEST_PAIRS = 3
"""Wrong pairs that numbers are read off: of two alone any could be."""

_ONE_PAIR = 1e-3
"""What may be left over of the only pair that is wrong: of a turn, less than one of thousands of
positions gives by chance."""

_ROUNDED_ROW = 0.8
"""Of the entries of a row: what a rounding that is emulated explains where it is what was done."""

_JUMP = 1.5
"""Times the largest share of the tolerance in the rows before: what fails by and by stays below."""

_NEAR = 16
"""Rows before a boundary that are looked at."""


class RowRun(Record):
    """The rows from ``start`` to before ``stop``."""

    start: int
    stop: int

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.stop - self.start

    def sample(self, most: int) -> Integers:
        """Some of the first so many rows: the first ones, some farther off, and the last."""
        count = min(self.count, most)
        far = np.geomspace(1, count, 56).round().astype(np.int64) - 1
        return self.start + np.unique(np.concatenate([np.arange(min(count, 40)), far]))

    def of(self, whole: Whole) -> Whole:
        """These rows, as all there are."""

        def read(chosen: slice | Integers) -> Sample:
            return whole.read(self.start + np.arange(self.count)[chosen])

        return replace(whole, count=self.count, read=read)


class Regime(Record):
    """Rows that a claim explains, with its residual; ``alike`` are claims that would do as well.

    ``first`` and ``last`` are the positions of the first and the last row; ``begins`` and ``ends``
    say whether there are rows before and after that are otherwise.
    """

    rows: RowRun
    claim: Claim
    residual: Residual
    alike: tuple[Claim, ...]
    first: int
    last: int
    begins: bool
    ends: bool


def regime_causes(suspect: Suspect) -> list[Explanation]:
    """The causes of rows that are wrong in ways of their own."""
    whole = suspect.whole
    if not _ascend(suspect):
        return []
    explained = [_plain(piece).missed(piece)[1] for _, piece in whole.pieces()]
    right = np.concatenate([flags.all(axis=1) for flags in explained])  # (n,)
    pairs = np.logical_and.reduce([flags.all(axis=0) for flags in explained])
    regimes, complete = _regimes(whole, right)
    left = max((regime.residual.largest for regime in regimes), default=0.0)
    if not regimes or (np.count_nonzero(~pairs) == 1 and left > _ONE_PAIR):
        return []
    groups: dict[int, list[Regime]] = {}
    for regime in regimes:
        groups.setdefault(id(regime.claim), []).append(regime)
    causes = [cause for group in groups.values() for cause in _words(group, suspect, right)]
    return causes if complete else _with_the_rest(causes, regimes, suspect, right)


def _ascend(suspect: Suspect) -> bool:
    """Whether the rows stand at ascending positions, so that runs of rows are runs of them."""
    places = suspect.examination.subject.own.places
    ends = places.starts + places.steps * (np.diff(places.rows) - 1)
    return bool((places.steps > 0).all() and (places.starts[1:] > ends[:-1]).all())


def _plain(piece: Sample) -> Claim:
    return Claim(Defect(), piece.reference.scale)


def _with_the_rest(
    causes: list[Explanation], regimes: list[Regime], suspect: Suspect, right: Flags
) -> list[Explanation]:
    """The causes of parts and that of the rows after them; none where most wrong rows are left."""
    last = regimes[-1]
    wrong = int(np.count_nonzero(~right))
    rest = wrong - sum(regime.rows.count for regime in regimes)
    if rest <= 0 or rest > _MOST_LEFT * wrong:
        return causes if rest <= 0 else []
    unknown = Explanation(
        Cause.UNKNOWN,
        f"after position {last.last} no known bug gives the values",
        f"{rest} of {suspect.whole.count} positions are left",
    )
    return [*causes[: MOST - 1], unknown]


def _words(regimes: list[Regime], suspect: Suspect, right: Flags) -> Iterator[Explanation]:
    """The causes of regimes that the same claim explains, each with its place."""
    first, claim = regimes[0], regimes[0].claim
    place, residual = _rows_text(regimes), joined_residual(one.residual for one in regimes)
    part = replace(suspect.whole.read(first.rows.sample(96)), amplitude=claim.amplitude)
    here = replace(suspect, sample=part, whole=first.rows.of(suspect.whole))
    own = list(words_of(claim, here, residual, in_part=True))
    if not own:  # a part whose numbers cannot be put into words
        return
    several = first.last > first.first  # as of one row any rule of positions may be said
    alike = [together(other, here, residual, in_part=True) for other in first.alike if several]
    others = ""
    if first.begins and right[: first.rows.start].all():
        before = suspect.whole.read(np.array([first.rows.start - 1], np.int64)).positions[0]
        others = f"; all is right up to position {before}"
    for word in either(own, alike):
        yield replace(
            word,
            message=_placed(word.message, place),
            alike=tuple(
                replace(other, message=_placed(other.message, place)) for other in word.alike
            ),
            evidence=f"{word.evidence}{others}",
            detail=word.detail or place or None,
            where=Where(",".join(f"{one.first}:{one.last + 1}" for one in regimes), None)
            if place
            else None,
        )


def _placed(message: str, place: str) -> str:
    return f"{place}: {message}" if place else message


def _rows_text(regimes: list[Regime]) -> str:
    """Where regimes lie, in words; empty where they are all rows."""
    texts = []
    for regime in regimes:
        span = f"{regime.first}–{regime.last}" if regime.last > regime.first else str(regime.first)
        if regime.begins and regime.ends:
            texts.append(f"position{'s' * (regime.first != regime.last)} {span}")
        elif regime.begins:
            texts.append(f"from position {regime.first} on")
        elif regime.ends:
            texts.append(f"up to position {regime.last}")
    return " and ".join(texts)


def _regimes(whole: Whole, right: Flags) -> tuple[list[Regime], bool]:
    """The regimes of a subject, and whether they and right rows are all there is."""
    wrong = np.flatnonzero(~right)
    regimes: list[Regime] = []
    while wrong.size:
        if len(regimes) == _MOST_REGIMES:
            return regimes, False
        rows = RowRun(int(wrong[0]), int(wrong[-1]) + 1)
        regime = _regime_from(whole, right, rows, regimes)
        if regime is None:
            return regimes, False
        regimes.append(regime)
        wrong = wrong[wrong >= regime.rows.stop]
    return regimes, True


def _regime_from(whole: Whole, right: Flags, rows: RowRun, earlier: list[Regime]) -> Regime | None:
    """The regime that begins at the first of some rows, None where nothing explains it."""
    best = _farthest([_reach(whole, one.claim, rows.start) for one in earlier], rows)
    for window in _WINDOWS:
        if best is not None or (window > rows.count and rows.count <= _WINDOWS[0] < window):
            break
        claims = _candidates(whole.read(rows.sample(window)))
        best = _farthest([_reach(whole, claim, rows.start) for claim in claims], rows)
    if best is None:
        return None
    rows, residual = replace(rows, stop=best.stop), best.residual
    begins = _begins(whole, best.claim, rows)
    if begins and not _jumps(whole, right, rows):
        return None
    if not begins:
        rows = replace(rows, start=0)
        residual = _reach(whole, best.claim, 0).residual
    ends = np.array([rows.start, rows.stop - 1], np.int64)
    first, last = whole.read(ends).positions.tolist()
    ends_before = best.stop < whole.count
    return Regime(rows, best.claim, residual, best.alike, first, last, begins, ends_before)


def _candidates(sample: Sample) -> list[Claim]:
    """Claims that explain the pairs of a sample that are wrong in it."""
    wrong = ~_plain(sample).missed(sample)[1].all(axis=0)  # (pairs,)
    part = replace(sample, seen=sample.seen & wrong)
    if not part.seen.any():
        return []
    part = replace(part, amplitude=amplitude_of(part, floor=sample.tolerance.floor))
    rotations = nearest_rotations(part) if wrong.sum() >= _FEWEST_PAIRS else None
    return claims_that_hold(part, suspected_defects(part, rotations))


class _Reach(Record):
    """How far a claim goes: the row at which it fails, and what it leaves over till then.

    ``jumps`` says whether it fails there at once.
    """

    claim: Claim
    stop: int
    residual: Residual
    jumps: bool
    alike: tuple[Claim, ...] = ()


def _farthest(reached: list[_Reach], rows: RowRun) -> _Reach | None:
    """The claim that goes farthest, the first of those that go as far."""
    good = [reach for reach in reached if reach.stop > rows.start and reach.jumps]
    stop = max((reach.stop for reach in good), default=0)
    farthest = [reach for reach in good if reach.stop == stop]
    if not farthest:
        return None
    best, *others = farthest
    alike = tuple(
        reach.claim
        for reach in others
        if reach.claim.parts == best.claim.parts
        and not same_defect(reach.claim.defect, best.claim.defect)
        and reach.residual.within <= ALIKE * best.residual.within
    )
    return replace(best, alike=alike)


def _reach(whole: Whole, claim: Claim, start: int) -> _Reach:
    """How far a claim goes from a row on."""
    parts: list[Residual] = []
    before = 0.0
    for first, piece in whole.pieces(start):
        missed, explained = claim.missed(piece)
        good, shares = _good_rows(piece, claim, missed, explained)
        end = int(np.argmin(good)) if not good.all() else good.size
        parts.append(Residual.of(piece.positions[:end], missed[:end], explained[:end]))
        if end:
            before = float(shares[max(0, end - _NEAR) : end].max())
        if end < good.size:
            jumps = claim.defect.rounds or shares[end] > _JUMP * max(before, 1.0)
            return _Reach(claim, first + end, joined_residual(parts), bool(jumps))
    return _Reach(claim, whole.count, joined_residual(parts), True)


def _good_rows(part: Sample, claim: Claim, missed: Reals, explained: Flags) -> tuple[Flags, Reals]:
    """Which rows a claim explains, and the largest share of the tolerance in each."""
    reference = part.reference
    allowed = part.tolerance.cells(reference.angle_positions(part.positions), reference.frequencies)
    counts, left = np.maximum(part.seen.sum(axis=1), 1), (~explained).sum(axis=1)
    good = np.asarray(left <= (counts * (1 - _ROUNDED_ROW) if claim.defect.rounds else 0), bool)
    return good, np.where(np.isfinite(missed), missed / allowed, math.inf).max(axis=1)


def _jumps(whole: Whole, right: Flags, rows: RowRun) -> bool:
    """Whether the rows before are right, or another regime, and not nearly wrong already."""
    near = whole.read(np.arange(max(0, rows.start - _NEAR), rows.start + 1, dtype=np.int64))
    if not right[max(0, rows.start - 1)]:
        return True  # what came before has ended at once
    _, shares = _good_rows(near, _plain(near), *_plain(near).missed(near))
    return bool(shares[-1] > _JUMP * max(1.0, float(shares[:-1].max(initial=0.0))))


def _begins(whole: Whole, claim: Claim, rows: RowRun) -> bool:
    """Whether any row before is otherwise."""
    return any(
        not _good_rows(piece, claim, *claim.missed(piece))[0].all()
        for _, piece in RowRun(0, rows.start).of(whole).pieces()
    )
