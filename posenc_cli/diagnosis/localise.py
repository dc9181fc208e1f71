"""Where a subject is wrong: the rows and the pairs, and what the table is there.

A regime is a run of rows, or every so many of them, and some or all pairs, that one claim explains.
Regimes are found one after another: a claim is found on a few rows from the first wrong one on, and
streamed until a row is reached that it does not explain. So each boundary is the first row at which
a claim fails of all rows, and it is one only where the claim fails there at once: a number that is
nearly right fails by and by.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.claims import (
    ALIKE,
    Claim,
    amplitude_of,
    claims_by_pairs,
    claims_that_hold,
    is_chance,
    nearest_rotations,
    same_defect,
    suspected_defects,
)
from posenc_cli.diagnosis.defects import Defect
from posenc_cli.records import Record, replace
from posenc_cli.rotary.residual import Residual, RunningResidual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, Reals

MOST_REGIMES = 6
"""Runs of rows that are looked for: a subject of more is in no regime that a reader could use."""

_WINDOWS = (48, 8, 768)
"""Rows on which a claim is looked for: enough to know it, then few for a short run, then many for
numbers that are read off."""

_FEWEST_BY_PAIRS = 16
"""Rows that claims about some of the pairs are found on: of a row alone each pair could be any."""

_ROUNDED_ROW = 0.8
"""Of the cells of a row: what a rounding that is emulated explains where it is what was done."""

_JUMP = 1.5
"""Times the largest share of the tolerance in the rows before: what fails by and by stays below."""

_NEAR = 16
"""Rows before a boundary that are looked at."""


class RowRun(Record):
    """Every ``step``-th row from ``start`` to before ``stop``."""

    start: int
    stop: int
    step: int = 1

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(range(self.start, self.stop, self.step))

    def sample(self, most: int) -> Integers:
        """Some of the first so many rows: the first ones, some farther off, and the last."""
        count = min(self.count, most)
        chosen = np.arange(count)
        if count > 96:
            chosen = np.unique(
                np.concatenate([np.arange(40), np.geomspace(40, count - 1, 56).astype(int)])
            )
        return np.asarray(self.start + self.step * chosen, np.int64)


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

    def part(self, rows: RowRun) -> Whole:
        """Some of the rows, as all there are."""

        def read(chosen: slice | Integers) -> Sample:
            if isinstance(chosen, slice):
                chosen = np.arange(*chosen.indices(rows.count))
            return self.read(rows.start + rows.step * chosen)

        return replace(self, count=rows.count, read=read)

    def changed(self, change: Callable[[Sample], Sample]) -> Whole:
        """The same with each sample of it changed."""
        return replace(self, read=lambda rows: change(self.read(rows)))


class Rightness(Record):
    """Which rows are right in every pair, which pairs in every row, and what ``right`` misses."""

    rows: Flags
    pairs: Flags
    residual: Residual

    @classmethod
    def of(cls, whole: Whole, right: Claim) -> Rightness:
        """What one pass over a subject shows."""
        rows = np.ones(whole.count, bool)
        running = RunningResidual()
        for first, piece in whole.pieces():
            missed, explained = right.missed(piece)
            rows[first : first + piece.positions.size] = explained.all(axis=1)
            running.update(piece.positions, missed, explained)
        residual = running.residual()
        return cls(rows, residual.pairs, residual)


class Regime(Record):
    """Rows of which ``claims`` say together what they are, with the residual of each.

    ``alike`` are claims that would do as well as the one. ``first`` and ``last`` are the positions
    of the first and the last row; ``begins`` and ``ends`` say whether there are rows before and
    after that are otherwise; ``shared`` counts the rows before that it explains as well.
    """

    rows: RowRun
    claims: tuple[Claim, ...]
    residuals: tuple[Residual, ...]
    alike: tuple[Claim, ...]
    first: int
    last: int
    begins: bool
    ends: bool
    shared: int


class Localisation(Record):
    """The regimes that were found, and whether they, and right rows, are all there is."""

    regimes: tuple[Regime, ...]
    complete: bool
    right_before: int | None
    """The position up to which all is right, None where the first is not."""


def localise(whole: Whole, rightness: Rightness) -> Localisation:
    """The regimes of a subject of which some rows or pairs are wrong."""
    wrong = np.flatnonzero(~rightness.rows)
    if not wrong.size:
        return Localisation((), True, None)
    step = _stride(wrong)
    row, last = int(wrong[0]), int(wrong[-1]) + 1
    regimes: list[Regime] = []
    complete = True
    while row < last:
        if len(regimes) == MOST_REGIMES:
            complete = False
            break
        regime = _regime_from(whole, rightness, RowRun(row, last, step), regimes)
        if regime is None:
            complete = False
            break
        regimes.append(regime)
        later = wrong[wrong >= regime.rows.stop]
        if not later.size:
            break
        row = int(later[0])
    right_before = None
    if wrong[0]:
        right_before = int(whole.read(np.array([wrong[0] - 1], np.int64)).positions[0])
    return Localisation(tuple(regimes), complete, right_before)


def _stride(wrong: Integers) -> int:
    """The step of wrong rows that all stand at multiples of one, 1 where they do not."""
    if wrong.size < 3:
        return 1
    step = int(np.gcd.reduce(np.diff(wrong)))
    # Of all at that step most are wrong: a few here and there are no pattern.
    return step if wrong.size >= 0.75 * ((wrong[-1] - wrong[0]) // step + 1) else 1


def _regime_from(
    whole: Whole, rightness: Rightness, rows: RowRun, earlier: list[Regime]
) -> Regime | None:
    """The regime that begins at the first of some rows, None where nothing explains it."""
    known = [list(regime.claims) for regime in earlier]
    reached = _extended(whole, known, rows) if known else []
    best = _farthest(reached, rows)
    for window in _WINDOWS:
        if best is not None:
            break
        if window != _WINDOWS[0] and window >= rows.count and rows.count <= _WINDOWS[0]:
            continue
        sample = _wrong_part(whole.read(rows.sample(window)))
        if sample is None:
            continue
        candidates = _candidates(sample, rightness, by_pairs=window >= _FEWEST_BY_PAIRS)
        best = _farthest(_extended(whole, candidates, rows), rows)
    if best is None:
        return None
    rows = replace(rows, stop=best.stop)
    shared, begins = _shared(whole, best.claims, rows)
    if begins and not _jumps(whole, rightness, rows):
        return None
    residuals = best.residuals
    if not begins:
        rows = replace(rows, start=rows.start % rows.step)
        residuals = _extended(whole, [best.claims], rows)[0].residuals
    ends = np.array([rows.start, rows.start + rows.step * (rows.count - 1)], np.int64)
    first, last = whole.read(ends).positions.tolist()
    return Regime(
        rows,
        tuple(best.claims),
        tuple(residuals),
        best.alike,
        first,
        last,
        begins,
        best.stop < whole.count,
        shared,
    )


def _wrong_part(sample: Sample) -> Sample | None:
    """A sample with the size of its factors, of which the pairs are seen that are wrong in it."""
    sized = replace(sample, amplitude=sample.reference.scale)
    _, explained = Claim(Defect(), sized.amplitude).missed(sized)
    wrong = ~explained.all(axis=0)  # (pairs,)
    part = replace(sample, seen=sample.seen & wrong)
    if not part.seen.any():
        return None
    return replace(part, amplitude=amplitude_of(part, floor=sample.tolerance.floor))


def _candidates(sample: Sample, rightness: Rightness, *, by_pairs: bool) -> list[list[Claim]]:
    """Claims, together, that explain the wrong pairs of a sample; each for all pairs first."""
    meant: Flags = np.asarray(sample.seen.any(axis=0), bool)
    rotations = nearest_rotations(sample)
    # Of two pairs alone any numbers could be read off.
    defects = suspected_defects(sample, rotations if meant.sum() >= 3 else None)
    single = claims_that_hold(sample, defects)
    candidates = [[claim] for claim in single]  # of all pairs, those too that are not wrong here
    if not meant.all():
        single = [claim for claim in single if not is_chance(claim.defect, meant)]
    for pairs in (~rightness.pairs, meant):
        if not pairs.all():
            candidates += [[replace(claim, pairs=pairs)] for claim in single]
    if not single and by_pairs and sample.positions.size >= _FEWEST_BY_PAIRS:
        together = claims_by_pairs(sample, defects, rotations)
        candidates += [together] if together else []
    return candidates


class _Reach(Record):
    """How far claims go together: the row at which they fail, and what they leave over till then.

    ``jumps`` says whether they fail there at once.
    """

    claims: list[Claim]
    stop: int
    residuals: list[Residual]
    jumps: bool
    alike: tuple[Claim, ...] = ()


def _farthest(reached: list[_Reach], rows: RowRun) -> _Reach | None:
    """The claims that go farthest, the first of those that go as far."""
    good = [reach for reach in reached if reach.stop > rows.start and reach.jumps]
    if not good:
        return None
    stop = max(reach.stop for reach in good)
    best, *others = [reach for reach in good if reach.stop == stop]
    least = max(residual.within for residual in best.residuals)
    alike = tuple(
        reach.claims[0]
        for reach in others
        if len(reach.claims) == len(best.claims) == 1
        and reach.claims[0].parts == best.claims[0].parts
        and not same_defect(reach.claims[0].defect, best.claims[0].defect)
        and reach.residuals[0].within <= ALIKE * least
    )
    return replace(best, alike=alike)


def _extended(whole: Whole, candidates: list[list[Claim]], rows: RowRun) -> list[_Reach]:
    """How far each of some candidates goes from the first of some rows on."""
    running = [[RunningResidual() for _ in claims] for claims in candidates]
    stops: list[int | None] = [None] * len(candidates)
    jumps = [True] * len(candidates)
    before = [0.0] * len(candidates)
    for first, piece in whole.pieces(rows.start):
        chosen = np.arange((rows.start - first) % rows.step, piece.positions.size, rows.step)
        part = piece.rows(chosen)
        for index, claims in enumerate(candidates):
            if stops[index] is not None or not chosen.size:
                continue
            pieces = [claim.missed(part) for claim in claims]
            good, shares = _good_rows(part, claims, pieces)
            end = int(np.argmin(good)) if not good.all() else good.size
            for one, (missed, explained) in zip(running[index], pieces, strict=True):
                one.update(part.positions[:end], missed[:end], explained[:end])
            if end:
                before[index] = float(shares[max(0, end - _NEAR) : end].max())
            if end < good.size:
                stops[index] = first + int(chosen[end])
                jumps[index] = _at_once(claims, float(shares[end]), before[index])
        if all(stop is not None for stop in stops):
            break
    return [
        _Reach(
            claims,
            whole.count if stop is None else stop,
            [one.residual() for one in residuals],
            jump,
        )
        for claims, stop, residuals, jump in zip(candidates, stops, running, jumps, strict=True)
    ]


def _good_rows(
    part: Sample, claims: list[Claim], pieces: list[tuple[Reals, Flags]]
) -> tuple[Flags, Reals]:
    """Which rows claims explain together, and the largest share of the tolerance in each."""
    good = np.ones(part.positions.size, bool)
    shares = np.zeros(part.positions.size)
    for claim, (missed, explained) in zip(claims, pieces, strict=True):
        allowed = part.tolerance.cells(claim.defect.followed(part), part.reference.frequencies)
        meant = part.seen if claim.pairs is None else part.seen & claim.pairs
        counts = np.maximum(meant.sum(axis=1), 1)
        left = (~explained).sum(axis=1)
        good &= left <= (counts * (1 - _ROUNDED_ROW) if claim.defect.rounds else 0)
        worst = np.where(np.isfinite(missed), missed / allowed, math.inf).max(axis=1)
        shares = np.maximum(shares, worst)
    return good, shares


def _at_once(claims: list[Claim], share: float, before: float) -> bool:
    """Whether a claim that fails with this share of the tolerance was right up to then."""
    return any(claim.defect.rounds for claim in claims) or share > _JUMP * max(before, 1.0)


def _jumps(whole: Whole, rightness: Rightness, rows: RowRun) -> bool:
    """Whether the rows before are right, or another regime, and not nearly wrong already."""
    near = whole.read(np.arange(max(0, rows.start - _NEAR), rows.start + 1, dtype=np.int64))
    right = Claim(Defect(), near.reference.scale)
    if not rightness.rows[max(0, rows.start - 1)] or rows.step > 1:
        return True  # what came before has ended at once
    _, shares = _good_rows(near, [right], [right.missed(near)])
    return bool(shares[-1] > _JUMP * max(1.0, float(shares[:-1].max(initial=0.0))))


def _shared(whole: Whole, claims: list[Claim], rows: RowRun) -> tuple[int, bool]:
    """How many rows just before claims explain as well, and whether any is otherwise."""
    shared = 0
    for size in (_NEAR, rows.start):
        before = np.arange(rows.start - rows.step, -1, -rows.step, dtype=np.int64)[:size]
        for begin in range(0, before.size, whole.block):
            part = whole.read(before[begin : begin + whole.block])
            good, _ = _good_rows(part, claims, [claim.missed(part) for claim in claims])
            if not good.all():
                return begin + int(np.argmin(good)), True
            shared = begin + good.size
    return shared, False
