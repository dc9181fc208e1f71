"""Possible defects of a subject, each with the factors it predicts for the pairs.

A claim is a defect with the size of the factors. It is found on a few rows, tried on more, and
printed only with its residual: the largest difference between the table that it implies and the
subject over every entry of the part that it speaks of.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.formats import (
    COARSE,
    HALVES,
    round_to_half,
)
from posenc_cli.inference.frequency_rules import (
    Alternative,
    Remembered,
    alternatives,
    likely_alternatives,
)
from posenc_cli.inference.position_maps import (
    PositionMap,
    position_maps,
)
from posenc_cli.inference.reference import rotation_by
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import Residual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.reference import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

_FEW = 56
"""Rows on which defects are tried first; those that survive are tried on the whole sample."""

_FEWEST, _FEWEST_EXPLAINED = 8, 0.4
"""Rows that most roundings are ruled out by, and the share of their entries that one must explain.
What explains 0.92 of the entries of the few rows explains as much of these, wherever the rest
is."""

_FEWEST_ROWS = 0.25
"""Of the same rows: what a rule must explain of them that explains nearly all of the few."""

_BATCH = 16
"""Rules that are tried at once: few, since rules that are read off are dear to make."""

_MANY = 1 << 15
"""Factors that are worth a computation of their own: those of a block of all rows."""

ENOUGH = 0.97
"""Of the entries: a rounding that is emulated may fall the other way at ties."""

_NEARER = 0.5
"""Of what is wrong: a cause leaves far less over, and chance seldom half."""

_MOST_CELLS = 0.9
"""Of those that a rounding explains: others may have fallen the other way, a whole step off."""

_MENDED = 0.8
"""Of as many entries as are wrong: many others may be right whatever was rounded, and what makes as
many wrong as it explains is chance."""


class RowCoordinates(Record):
    """What angles are multiples of, (n,) or (n, pairs), in place of a row's own positions."""

    where: Callable[[Sample], Reals | Integers]


class Defect(Record):
    """Changes of the right factors, each of which has a cause; at most one of each kind.

    ``moved`` says as which positions the rows are rotated.
    """

    frequencies: Alternative | None = None
    turn: str = "right"
    offset: float = 0
    moved: PositionMap | RowCoordinates | None = None
    positions: str | None = None
    rates: str | None = None
    angles: str | None = None
    cells: str | None = None

    @property
    def rounds(self) -> bool:
        """Whether it emulates a rounding."""
        return bool(self.positions or self.rates or self.angles or self.cells)

    def turned_as(self, sample: Sample) -> Reals:
        """The positions as which rows are rotated, (n,), or (n, pairs) where pairs follow axes."""
        own = sample.reference.angle_positions(sample.positions)
        where = own if self.moved is None else self.moved.where(sample)
        return np.asarray(where + self.offset, np.float64)

    def explained(self, sample: Sample) -> Flags:
        """Which entries of a sample it explains. Shape: (n, pairs)."""
        return self.missed(sample)[1]

    def missed(self, sample: Sample) -> tuple[RealRows, Flags]:
        """The error of each entry of a sample, and which are explained: (n, pairs) both."""
        with np.errstate(invalid="ignore"):  # of frequencies that a half precision lacks
            return sample.compare(*self.prediction(sample))

    def prediction(self, sample: Sample) -> tuple[ComplexRows, Reals, Reals]:
        """The factors and the frequencies if it held, and what the tolerance of angles follows.

        That are a row's own positions, or farther ones as which it is rotated.
        """
        right, where = sample.reference.frequencies, self.turned_as(sample)
        rates = right if self.frequencies is None else self.frequencies.frequencies
        where = where.reshape(where.shape[0], -1)
        followed = np.abs(sample.reference.angle_positions(sample.positions)).astype(np.float64)
        followed = followed.reshape(where.shape[0], -1)
        if self.offset or self.moved is not None:
            followed = np.maximum(followed, np.abs(where))
        turns = self._exact_turns(sample, where)
        if turns is not None:
            return TURNS[self.turn][0](turns), rates, followed
        with np.errstate(all="ignore"):
            if self.rates:
                rates = round_to_half(rates, self.rates)
            if self.positions:
                where = round_to_half(where, self.positions)
            angles = where * rates
            if self.angles:
                angles = round_to_half(angles, self.angles)
            factors = np.empty(angles.shape, np.complex128)
            factors.real, factors.imag = np.cos(angles), np.sin(angles)
            factors *= sample.amplitude
            if self.cells:
                parts = factors.view(np.float64)
                factors = round_to_half(parts, self.cells).view(np.complex128)
            return TURNS[self.turn][0](factors), rates, followed

    def _exact_turns(self, sample: Sample, where: Reals) -> ComplexRows | None:
        """The factors of many rows, as exact code computes them in a tenth of the time of NumPy's.

        None where that is not worth it, or angles are no multiples of whole positions.
        """
        reference, rule = sample.reference, self.frequencies
        if self.rounds or where.size * reference.pairs < _MANY:
            return None
        if rule is None and self.moved is None and not self.offset:
            return reference.rotation.at(sample.positions) * (sample.amplitude / reference.scale)
        whole = where.shape[1] == 1 and reference.coordinates is None
        if not whole or (rule is not None and rule.frequencies.ndim > 1):
            return None
        positions = where[:, 0].astype(np.int64)
        if not np.array_equal(positions, where[:, 0]):
            return None
        rates = reference.frequencies if rule is None else rule.frequencies
        return rotation_by(rates.tobytes(), reference.engine).at(positions) * sample.amplitude


# karpathy/nanochat#489 and trymirai/lalamo#268; GPT-J's tables are (sin, cos), others' (cos, sin);
# vllm-project/vllm#30413.
TURNS: dict[str, tuple[Callable[[Any], Any], Cause, str]] = {
    "right": (lambda z: z, Cause.UNKNOWN, ""),
    "backward": (
        np.conj,
        Cause.DIRECTION,
        "the rotation runs backward: the sine has the wrong sign",
    ),
    "swapped": (lambda z: 1j * z.conj(), Cause.COS_SIN_MISPAIRED, "cosines and sines are swapped"),
    "still": (
        lambda z: np.abs(z).max() + 0 * z,
        Cause.NO_ROTATION,
        "nothing rotates: every position is left as it is",
    ),
}


def holds(sample: Sample, defect: Defect) -> bool:
    """Whether a defect explains the whole sample, and what is wrong in it."""
    missed, explained = defect.missed(sample)
    if not _mends(sample, missed, explained, share=_MOST_CELLS if defect.rounds else 1.0):
        return False
    if not defect.rounds or not sample.seen.any():
        return bool(explained.all())
    unrounded = replace(defect, positions=None, rates=None, angles=None, cells=None)
    wrong = ~unrounded.explained(sample)
    left = np.count_nonzero(~explained)
    return bool(
        wrong.any()
        and left <= (1 - ENOUGH) * np.count_nonzero(sample.seen)
        and left <= (1 - _MENDED) * np.count_nonzero(wrong)
    )


def _mends(sample: Sample, missed: RealRows, explained: Flags, *, share: float = 1.0) -> bool:
    """Whether what is missed is less than by what is right in most of the entries that are wrong.

    It is far less in so large a ``share`` of those that are explained.

    High-frequency pairs are granted much at far positions: one entry that is wrong by little would
    be within that of many a mistake, and a number fitted to all others would leave out just that
    entry.
    """
    deviation, right = Defect().missed(replace(sample, amplitude=sample.reference.scale))
    if right.all():
        return True
    mended = explained[~right]
    if 2 * np.count_nonzero(mended) < mended.size:
        return False
    far = np.quantile(missed[~right][mended], share)
    return bool(far <= _NEARER * deviation[~right].max())


def few_rows(positions: Integers) -> Integers:
    """Rows for a first trial: some of the first, some at every scale, the last."""
    count = positions.size
    if count <= _FEW:
        return np.arange(count)
    early = np.arange(min(24, count))
    return np.unique(np.concatenate([early, np.linspace(24, count - 1, _FEW - 24).astype(int)]))


def likely_defects(
    sample: Sample, rotations: Rotations | None, found: Sequence[Claim] = ()
) -> Iterator[Defect]:
    """What is tried, from the simplest on; nothing that a few rows rule out.

    ``rotations`` are those that the sample comes nearest to: bases and factors are read off them.
    ``found`` are the claims that hold so far, which say what need not be tried any more.
    """
    chosen = few_rows(sample.positions)
    fewest = sample.rows(chosen[:: -(-chosen.size // _FEWEST)])
    for defect in _defects(sample, rotations, fewest, found):
        rounds = defect.rounds and defect.frequencies is None
        if not (rounds and defect.explained(fewest).mean() < _FEWEST_EXPLAINED):
            yield defect


def _with_rules(plain: Defect, rules: Iterable[Alternative], fewest: Sample) -> Iterator[Defect]:
    """A defect with each of some rules besides, but for those that the fewest rows rule out.

    Many at once: a rule must explain some of the rows, or some of the pairs, wholly.
    """
    seen = fewest.seen.any(axis=0)  # (pairs,)
    rules = iter(rules)
    while batch := list(itertools.islice(rules, _BATCH)):
        stacked = np.stack([rule.frequencies for rule in batch])[:, None]  # (rules, 1, pairs)
        together = replace(plain, frequencies=replace(batch[0], frequencies=stacked))
        explained = together.explained(fewest)  # (rules, n, pairs)
        if plain.rounds:
            good = explained.mean(axis=(1, 2)) >= _FEWEST_EXPLAINED
        else:
            rows = explained.all(axis=2).mean(axis=1)
            pairs = (explained.all(axis=1) & seen).sum(axis=1)
            good = (rows >= _FEWEST_ROWS) | (pairs >= min(2, int(seen.sum())))
        for index in np.flatnonzero(good):
            yield replace(plain, frequencies=batch[index])


def _defects(
    sample: Sample, rotations: Rotations | None, fewest: Sample, found: Sequence[Claim]
) -> Iterator[Defect]:
    plain = Defect()
    if sample.amplitude != sample.reference.scale:
        yield plain
        if found:
            return
    offsets = _offsets(sample)
    yield from (replace(plain, turn=turn) for turn in ("still", "backward", "swapped"))
    yield from (replace(plain, offset=offset) for offset in offsets)
    yield from (replace(plain, moved=positions) for positions in position_maps(sample))
    for coarse in (*HALVES, "float32"):
        yield replace(plain, positions=coarse)
    if sample.tolerance.floor < unit("float16") * sample.amplitude:  # else a rounding is granted
        yield from (replace(plain, cells=coarse) for coarse in COARSE)
    likely = likely_alternatives(sample.reference)
    rules = Remembered(alternatives(sample.reference, rotations))
    yield from _with_rules(plain, likely, fewest)
    if not found:  # a known rule says more than a number that is read off
        yield from _with_rules(plain, (rule for rule in rules if rule.read_off), fewest)
    yield from (_rounded(stages, half) for half in HALVES for stages in _STAGES)
    if not any(claim.parts <= 1 for claim in found):
        yield from _several_changes(sample, fewest, offsets, likely, rules)


def _several_changes(
    sample: Sample,
    fewest: Sample,
    offsets: list[float],
    likely: Iterable[Alternative],
    rules: Iterable[Alternative],
) -> Iterator[Defect]:
    """Two changes and more at once, of which one may be a rule."""
    plain = Defect()
    for turn, offset in itertools.product(("backward", "swapped"), offsets):
        yield replace(plain, turn=turn, offset=offset)
    yield from _with_rules(replace(plain, turn="backward"), rules, fewest)
    yield from _with_rules(replace(plain, turn="swapped"), rules, fewest)
    for half in HALVES:
        for stages in (*_STAGES, "positions", "rates"):
            yield replace(_rounded(stages, half), cells=half)
        yield from _with_rules(replace(plain, rates=half), likely, fewest)
        yield from _with_rules(replace(plain, positions=half), rules, fewest)
    restart = -int(sample.positions[0])  # of a part of a subject, whose rows count from 0 again
    for offset in [*_SMALL[:4], *([restart] if restart else [])]:
        yield from _with_rules(replace(plain, offset=offset), rules, fewest)


_STAGES = (
    "angles",
    "positions rates angles",
    "positions angles",
    "positions rates",
    "rates angles",
)
"""What is rounded to one format where angles are computed."""


def _rounded(stages: str, kind: str) -> Defect:
    """Some stages of the computation rounded to a format."""
    return replace(Defect(), **dict.fromkeys(stages.split(), kind))


_SMALL = (1, -1, 2, -2, 3, 4)
"""Offsets of the position that are common, the commonest first."""


def _offsets(sample: Sample) -> list[float]:
    """Offsets of the position that are likely: what low-frequency pairs say, and small ones."""
    likely: list[float] = []
    right = sample.reference.frequencies
    slow = np.flatnonzero(right > 0)[-8:]
    if slow.size:
        angles = np.angle(sample.factors[:, slow])
        own = sample.reference.angle_positions(sample.positions)
        own_angles = (own[:, None] if own.ndim == 1 else own[:, slow]) * right[slow]  # (n, slow)
        for sign in (1, -1):
            missed = np.angle(np.exp(1j * (sign * angles - own_angles))) / right[slow]
            known = missed[np.isfinite(missed)]
            middle = float(np.median(known)) if known.size else 0.0
            if abs(middle) < 2**53:
                likely += [round(middle), round(middle, 2), round(middle) + 1, round(middle) - 1]
    return [offset for offset in dict.fromkeys((*likely, *_SMALL)) if offset]


MOST_CLAIMS = 6
"""Claims that are kept of those that hold on a few rows: more rows tell them apart."""

ALIKE = 2.0
"""Times the least residual: what is no larger fits as well."""

_CONFIRMED = 3
"""Pairs, or entries, that must share a number read off them: one gives it, and two confirm it."""

_TIES = 0.1
"""Of the entries of few rows: a rounding that is emulated may fall the other way in some."""

SCATTERS = 1.5
"""Times what sizes scatter by: cells that were all cut toward zero are shorter by less."""


class Claim(Record):
    """A defect, and the size of the factors with it."""

    defect: Defect
    amplitude: float

    def missed(self, piece: Sample) -> tuple[RealRows, Flags]:
        """By how much each entry of a piece is missed, and which are explained. Shape: (n, pairs).

        Entries that could not be seen are missed by 0.
        """
        return self.defect.missed(replace(piece, amplitude=self.amplitude))

    @property
    def parts(self) -> int:
        """How many mistakes it takes together."""
        plain = Defect()
        return sum(value != getattr(plain, name) for name, value in self.defect.as_dict().items())


class Whole(Record):
    """All rows of a subject: any of them at once, or in pieces."""

    count: int
    read: Callable[[slice | Integers], Sample]
    block: int

    def pieces(self) -> Iterator[Sample]:
        """All rows, a piece at a time."""
        for row in range(0, self.count, self.block):
            yield self.read(slice(row, min(row + self.block, self.count)))

    def residual(self, claim: Claim) -> Residual:
        """What a claim leaves over of all entries."""
        return Residual.measure((piece.positions, *claim.missed(piece)) for piece in self.pieces())

    def rows(self, start: int, stop: int) -> Whole:
        """The rows from ``start`` to before ``stop``, as all there are."""

        def read(chosen: slice | Integers) -> Sample:
            return self.read(np.arange(start, stop)[chosen])

        return replace(self, count=stop - start, read=read)

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
    return right if abs(amplitude - right) <= max(2 * floor, SCATTERS * scatter) else amplitude


def nearest_rotations(sample: Sample) -> Rotations | None:
    """The rotations that the rows of a sample come nearest to; None where pairs follow axes."""
    if sample.reference.coordinates is not None or sample.positions.size < 2:
        return None
    return fit(sample.positions, np.where(sample.seen, sample.factors, 0))


def claims_that_hold(sample: Sample, rotations: Rotations | None) -> list[Claim]:
    """What explains every entry of a sample, the simplest first, and all of one simplicity.

    ``rotations`` are those that it comes nearest to.
    """
    if sample.amplitude == 0:
        return [Claim(Defect(), 0.0)]
    few = sample.rows(few_rows(sample.positions))
    claims: list[Claim] = []
    parts = math.inf
    for defect in likely_defects(sample, rotations, claims):
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
    # More rows may tell that the simpler of two is not enough.
    return sorted(claims, key=lambda claim: claim.parts)


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
