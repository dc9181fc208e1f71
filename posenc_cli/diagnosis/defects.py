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
    likely_alternatives,
    measured_alternatives,
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
    from posenc_cli.rotary.verdict import Explanation

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

    @classmethod
    def shifted(cls, by: float) -> RowCoordinates:
        """Return the rows' own positions or coordinates, shifted."""
        return cls(
            lambda sample: np.asarray(
                sample.reference.angle_positions(sample.positions) + by, np.float64
            )
        )


class Defect(Record):
    """Changes to the reference's factors, at most one of each kind; each kind has its own cause.

    ``turn`` is a key of `TURNS`. ``moved`` gives the positions as which rows are rotated. If there
    is an ``explanation``, it replaces those of the changes. The last four fields name the number
    format that these values are rounded to.
    """

    frequencies: Alternative | None = None
    turn: str = "right"
    moved: PositionMap | RowCoordinates | None = None
    explanation: Explanation | None = None
    positions: str | None = None
    rates: str | None = None
    angles: str | None = None
    cells: str | None = None

    @property
    def rounds(self) -> int:
        """The number of stages whose rounding it emulates."""
        return sum(map(bool, (self.positions, self.rates, self.angles, self.cells)))

    def rotated_as(self, sample: Sample) -> Reals:
        """Return the positions as which rows are rotated: (n,), or (n, pairs) with axes."""
        own = sample.reference.angle_positions(sample.positions)
        used = own if self.moved is None else self.moved.where(sample)
        return np.asarray(used, np.float64)

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
        if self.moved is not None:
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
        if rule is None and self.moved is None:
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
    """Return whether a defect explains the whole sample, and its wrong entries far better.

    A rounding may miss a few entries, at ties. The error of wrong entries must be at most `_NEARER`
    times the largest original error. High-frequency pairs have a wide tolerance at far positions.
    There, many defects would explain one slightly wrong entry, and a number fitted to all others
    would fail only at that entry.
    """
    errors, explained = defect.errors(sample)
    left, share = np.count_nonzero(~explained), 1.0
    if defect.rounds:
        wrong = np.count_nonzero(~Defect().explained(sample))
        share = _SHARE_IMPROVED
        if left > (1 - ENOUGH) * np.count_nonzero(sample.seen):
            return False
        if not wrong or left > (1 - _LEAST_REDUCTION) * wrong:
            return False
    elif left:
        return False
    deviation, right = Defect().errors(replace(sample, amplitude=sample.reference.scale))
    improved = ~right & explained
    if not improved.any():
        return True
    return bool(np.quantile(errors[improved], share) <= _NEARER * deviation[~right].max())


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
        needless = found and defect.rounds > max(found[0].rounds, 1)
        if not needless and not (
            defect.rounds and defect.explained(fewest).mean() < _FEWEST_EXPLAINED
        ):
            yield defect


def _likely_rules(rules: Iterable[Alternative], fewest: Sample) -> Iterator[Defect]:
    """Yield the defect of each rule that explains some of the fewest rows or pairs completely.

    Rules are tried in batches.
    """
    seen = fewest.seen.any(axis=0)  # (pairs,)
    rules = iter(rules)
    while batch := list(itertools.islice(rules, _BATCH)):
        stacked = np.stack([rule.frequencies for rule in batch])[:, None]  # (rules, 1, pairs)
        together = Defect(frequencies=replace(batch[0], frequencies=stacked))
        explained = together.explained(fewest)  # (rules, n, pairs)
        rows = explained.all(axis=2).mean(axis=1)
        pairs = (explained.all(axis=1) & seen).sum(axis=1)
        good = (rows >= _FEWEST_ROWS) | (pairs >= min(2, int(seen.sum())))
        for index in np.flatnonzero(good):
            yield Defect(frequencies=batch[index])


def _defects(
    sample: Sample, rotations: Rotations | None, fewest: Sample, found: Sequence[Defect]
) -> Iterator[Defect]:
    plain = Defect()
    yield from (replace(plain, turn=turn) for turn in ("still", "backward", "swapped"))
    yield from (replace(plain, moved=positions) for positions in position_maps(sample))
    yield from (replace(plain, positions=coarse) for coarse in (*HALVES, "float32"))
    # Otherwise the tolerance allows for such a rounding.
    if sample.tolerance.floor < unit("float16") * sample.amplitude:
        yield from (replace(plain, cells=coarse) for coarse in COARSE)
    yield from _likely_rules(likely_alternatives(sample.reference), fewest)
    if not found:  # a known rule explains more than a number that is read off
        measured = _likely_rules(measured_alternatives(sample.reference, rotations), fewest)
        yield from itertools.takewhile(lambda _: not found, measured)
    for stages in _ROUNDED_TOGETHER:
        yield from (replace(plain, **dict.fromkeys(stages, half)) for half in HALVES)


_STAGES = ("positions", "rates", "angles", "cells")
_ROUNDED_TOGETHER = (
    ("angles",),
    *itertools.combinations(_STAGES, 2),
    *itertools.combinations(_STAGES, 3),
    _STAGES,
)
"""Stages of the computation that are rounded to one format together, the fewest first.

Reports are huggingface/candle#3520, huggingface/transformers#29285 and cactus-compute/cactus#688.
"""


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
