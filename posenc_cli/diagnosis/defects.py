"""Predict the factors of pairs under possible defects, and find the defects that explain a sample.

A defect is found on a few rows and tried on more. It is reported only with its residual: the
largest difference between the table that it implies and the subject, over every entry.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.codes import Cause
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
from posenc_cli.inference.reference import Sample, rotation_by
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.halves import (
    COARSE,
    HALVES,
    round_to_half,
)
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

_FEW = 56
"""Rows on which defects are tried first. Those that survive are tried on the whole sample."""

_FEWEST, _FEWEST_EXPLAINED = 8, 0.4
"""Rows that rule out most roundings, and the share of their entries that a rounding must explain. A
rounding that explains 0.92 of the entries of the `_FEW` rows explains at least this share, wherever
the other entries are."""

_FEWEST_ROWS = 0.25
"""Share of the `_FEWEST` rows that a rule must explain. A rule that explains nearly all of the
`_FEW` rows explains as many."""

_BATCH = 16
"""Rules tried at once. Few, because a rule that is read off the sample is expensive to make."""

_MANY = 1 << 15
"""Factors from which `Defect._exact_factors` is faster: those of a block of all rows."""

ENOUGH = 0.97
"""Share of the entries that an emulated rounding must explain. At ties it may round the other
way."""

_NEARER = 0.5
"""Largest error that a defect may leave, as a share of the original one. A real cause leaves far
less, and chance rarely leaves as little as half."""

_SHARE_IMPROVED = 0.9
"""For a rounding, the share of the explained entries whose error must shrink. The others may have
been rounded the other way, and then differ by a whole step."""

_LEAST_REDUCTION = 0.8
"""Share by which a rounding must reduce the number of wrong entries. Many others may be right
whatever was rounded. By chance, a rounding makes as many entries wrong as it explains."""


class RowCoordinates(Record):
    """Positions or coordinates that angles are multiples of, in place of the rows' own.

    ``where(sample)`` has the shape (n,) or (n, pairs).
    """

    where: Callable[[Sample], Reals | Integers]


class Defect(Record):
    """Changes to the reference's factors, at most one of each kind; each kind has its own cause.

    ``turn`` is a key of `TURNS`. ``moved`` gives the positions as which rows are rotated. The last
    four fields name the number format that these values are rounded to.
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
    def parts(self) -> int:
        """Number of changes that it combines."""
        plain = Defect()
        return sum(value != getattr(plain, name) for name, value in self.as_dict().items())

    @property
    def rounds(self) -> bool:
        """Whether it emulates a rounding."""
        return bool(self.positions or self.rates or self.angles or self.cells)

    def rotated_as(self, sample: Sample) -> Reals:
        """Return the positions as which rows are rotated: (n,), or (n, pairs) with axes."""
        own = sample.reference.angle_positions(sample.positions)
        used = own if self.moved is None else self.moved.where(sample)
        return np.asarray(used + self.offset, np.float64)

    def explained(self, sample: Sample) -> Flags:
        """Return which entries of a sample it explains. Shape: (n, pairs)."""
        return self.errors(sample)[1]

    def errors(self, sample: Sample) -> tuple[RealRows, Flags]:
        """Return the error of each entry of a sample, and which entries it explains.

        Shape: both (n, pairs).
        """
        with np.errstate(invalid="ignore"):  # frequencies may overflow a half precision
            return sample.compare(*self.prediction(sample))

    def prediction(self, sample: Sample) -> tuple[ComplexRows, Reals, Reals]:
        """Return its factors, its frequencies, and the positions that the tolerance depends on.

        These are a row's own positions, or those as which it is rotated if they are farther.
        """
        right, used = sample.reference.frequencies, self.rotated_as(sample)
        rates = right if self.frequencies is None else self.frequencies.frequencies
        used = used.reshape(used.shape[0], -1)
        followed = np.abs(sample.reference.angle_positions(sample.positions)).astype(np.float64)
        followed = followed.reshape(used.shape[0], -1)
        if self.offset or self.moved is not None:
            followed = np.maximum(followed, np.abs(used))
        exact = self._exact_factors(sample, used)
        if exact is not None:
            return TURNS[self.turn][0](exact), rates, followed
        with np.errstate(all="ignore"):
            if self.rates:
                rates = round_to_half(rates, self.rates)
            if self.positions:
                used = round_to_half(used, self.positions)
            angles = used * rates
            if self.angles:
                angles = round_to_half(angles, self.angles)
            factors = np.empty(angles.shape, np.complex128)
            factors.real, factors.imag = np.cos(angles), np.sin(angles)
            factors *= sample.amplitude
            if self.cells:
                parts = factors.view(np.float64)
                factors = round_to_half(parts, self.cells).view(np.complex128)
            return TURNS[self.turn][0](factors), rates, followed

    def _exact_factors(self, sample: Sample, used: Reals) -> ComplexRows | None:
        """Return the factors of many rows from exact code, which takes a tenth of NumPy's time.

        None if there are few factors, or if angles are not multiples of whole positions.
        """
        reference, rule = sample.reference, self.frequencies
        if self.rounds or used.size * reference.pairs < _MANY:
            return None
        if rule is None and self.moved is None and not self.offset:
            return reference.rotation.at(sample.positions) * (sample.amplitude / reference.scale)
        whole = used.shape[1] == 1 and reference.coordinates is None
        if not whole or (rule is not None and rule.frequencies.ndim > 1):
            return None
        positions = used[:, 0].astype(np.int64)
        if not np.array_equal(positions, used[:, 0]):
            return None
        rates = reference.frequencies if rule is None else rule.frequencies
        return rotation_by(rates.tobytes(), reference.engine).at(positions) * sample.amplitude


# "backward": karpathy/nanochat#489, trymirai/lalamo#268. "swapped": GPT-J's tables are (sin, cos),
# others (cos, sin). "still": vllm-project/vllm#30413.
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
    """Return whether a defect explains the whole sample, including its wrong entries."""
    errors, explained = defect.errors(sample)
    if not _improves(sample, errors, explained, share=_SHARE_IMPROVED if defect.rounds else 1.0):
        return False
    if not defect.rounds or not sample.seen.any():
        return bool(explained.all())
    unrounded = replace(defect, positions=None, rates=None, angles=None, cells=None)
    wrong = ~unrounded.explained(sample)
    left = np.count_nonzero(~explained)
    return bool(
        wrong.any()
        and left <= (1 - ENOUGH) * np.count_nonzero(sample.seen)
        and left <= (1 - _LEAST_REDUCTION) * np.count_nonzero(wrong)
    )


def _improves(sample: Sample, errors: RealRows, explained: Flags, *, share: float) -> bool:
    """Return whether a defect explains at least half of the wrong entries, and far better.

    For the given ``share`` of these, the error must be at most `_NEARER` times the largest original
    error.

    High-frequency pairs have a wide tolerance at far positions. There, many defects would explain
    one slightly wrong entry, and a number fitted to all others would fail only at that entry.
    """
    deviation, right = Defect().errors(replace(sample, amplitude=sample.reference.scale))
    if right.all():
        return True
    explained_wrong = explained[~right]
    if 2 * np.count_nonzero(explained_wrong) < explained_wrong.size:
        return False
    far = np.quantile(errors[~right][explained_wrong], share)
    return bool(far <= _NEARER * deviation[~right].max())


def few_rows(positions: Integers) -> Integers:
    """Return rows for a first trial: the first ones, and evenly spaced ones up to the last."""
    count = positions.size
    if count <= _FEW:
        return np.arange(count)
    early = np.arange(min(24, count))
    return np.unique(np.concatenate([early, np.linspace(24, count - 1, _FEW - 24).astype(int)]))


def likely_defects(
    sample: Sample, rotations: Rotations | None, found: Sequence[Defect] = ()
) -> Iterator[Defect]:
    """Yield the defects to try, simplest first, without those that a few rows rule out.

    ``rotations`` are those nearest to the sample; bases and factors are read off them. The caller
    may add confirmed defects to ``found`` meanwhile, which makes some later trials unnecessary.
    """
    chosen = few_rows(sample.positions)
    fewest = sample.rows(chosen[:: -(-chosen.size // _FEWEST)])
    for defect in _defects(sample, rotations, fewest, found):
        rounds = defect.rounds and defect.frequencies is None
        if not (rounds and defect.explained(fewest).mean() < _FEWEST_EXPLAINED):
            yield defect


def _with_rules(plain: Defect, rules: Iterable[Alternative], fewest: Sample) -> Iterator[Defect]:
    """Yield a defect combined with each rule that the fewest rows do not rule out.

    Rules are tried in batches. A rule must explain some rows, or some pairs, completely; with a
    rounding, enough entries.
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
    sample: Sample, rotations: Rotations | None, fewest: Sample, found: Sequence[Defect]
) -> Iterator[Defect]:
    plain = Defect()
    offsets = _likely_offsets(sample)
    yield from (replace(plain, turn=turn) for turn in ("still", "backward", "swapped"))
    yield from (replace(plain, offset=offset) for offset in offsets)
    yield from (replace(plain, moved=positions) for positions in position_maps(sample))
    yield from (replace(plain, positions=coarse) for coarse in (*HALVES, "float32"))
    # Otherwise the tolerance allows for such a rounding.
    if sample.tolerance.floor < unit("float16") * sample.amplitude:
        yield from (replace(plain, cells=coarse) for coarse in COARSE)
    likely = likely_alternatives(sample.reference)
    rules = Remembered(alternatives(sample.reference, rotations))
    yield from _with_rules(plain, likely, fewest)
    if not found:  # a known rule explains more than a number that is read off
        yield from _with_rules(plain, (rule for rule in rules if rule.read_off), fewest)
    yield from (_rounding_defect(stages, half) for half in HALVES for stages in _STAGES)
    if not any(defect.parts <= 1 for defect in found):
        yield from _several_changes(fewest, offsets, likely, rules)


def _several_changes(
    fewest: Sample,
    offsets: list[float],
    likely: Iterable[Alternative],
    rules: Iterable[Alternative],
) -> Iterator[Defect]:
    """Yield defects of two or more changes, one of which may be a rule."""
    plain = Defect()
    for turn, offset in itertools.product(("backward", "swapped"), offsets):
        yield replace(plain, turn=turn, offset=offset)
    yield from _with_rules(replace(plain, turn="backward"), rules, fewest)
    yield from _with_rules(replace(plain, turn="swapped"), rules, fewest)
    for half in HALVES:
        for stages in (*_STAGES, "positions", "rates"):
            yield replace(_rounding_defect(stages, half), cells=half)
        yield from _with_rules(replace(plain, rates=half), likely, fewest)
        yield from _with_rules(replace(plain, positions=half), rules, fewest)
    for offset in _COMMON_OFFSETS[:4]:
        yield from _with_rules(replace(plain, offset=offset), rules, fewest)


_STAGES = (
    "angles",
    "positions rates angles",
    "positions angles",
    "positions rates",
    "rates angles",
)
"""Stages of the computation of angles that are rounded to one format together."""


def _rounding_defect(stages: str, kind: str) -> Defect:
    return replace(Defect(), **dict.fromkeys(stages.split(), kind))


_COMMON_OFFSETS = (1, -1, 2, -2, 3, 4)
"""Common offsets of positions, the most common first."""


def _likely_offsets(sample: Sample) -> list[float]:
    """Return likely offsets of positions: read off low-frequency pairs, then common ones."""
    likely: list[float] = []
    right = sample.reference.frequencies
    slow = np.flatnonzero(right > 0)[-8:]
    if slow.size:
        angles = np.angle(sample.factors[:, slow])
        own = sample.reference.angle_positions(sample.positions)
        own_angles = (own[:, None] if own.ndim == 1 else own[:, slow]) * right[slow]  # (n, slow)
        for sign in (1, -1):
            errors = np.angle(np.exp(1j * (sign * angles - own_angles))) / right[slow]
            known = errors[np.isfinite(errors)]
            middle = float(np.median(known)) if known.size else 0.0
            if abs(middle) < 2**53:
                likely += [round(middle), round(middle, 2), round(middle) + 1, round(middle) - 1]
    return [offset for offset in dict.fromkeys((*likely, *_COMMON_OFFSETS)) if offset]


ALIKE = 2.0
"""A defect fits as well as another if its error is at most this many times as large."""

_FEWEST_CONFIRMING = 3
"""Entries that must share a number read off them: one gives it, and two confirm it."""

TIES = 0.1
"""Share of the entries of few rows that an emulated rounding may miss. At ties it may round the
other way."""

SCATTERS = 1.5
"""Multiple of the amplitudes' scatter by which their median must differ from the reference. Entries
that were truncated toward zero have smaller amplitudes, but by less than that."""


def amplitude_of(sample: Sample, *, floor: float) -> float:
    """Return the amplitude of the factors, or the reference's if they do not differ from it."""
    right = sample.reference.scale
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    sizes = sizes[np.isfinite(sizes)]
    if sizes.size < _FEWEST_CONFIRMING:
        return right
    least, most = float(sizes.min()), float(sizes.max())
    if most - least <= 2 * floor:  # rounding alone, above and below one amplitude
        return right if max(right - least, most - right) <= floor else (least + most) / 2
    amplitude = float(np.median(sizes))
    scatter = float(np.subtract(*np.percentile(sizes, [95, 5])))
    return right if abs(amplitude - right) <= max(2 * floor, SCATTERS * scatter) else amplitude


def same_defect(defect: Defect, other: Defect) -> bool:
    """Return whether two defects have the same changes, with nearly the same frequencies.

    Rules that were not read off the sample are the same only if their messages are.
    """
    a, b = defect.frequencies, other.frequencies
    if a is None or b is None:
        return defect == other
    if a.cause != b.cause or replace(defect, frequencies=b) != other:
        return False
    near = bool(np.allclose(a.frequencies, b.frequencies, rtol=1e-4, atol=1e-12))
    return near and (a.read_off or b.read_off or a.message == b.message)
