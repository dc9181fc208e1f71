"""Guess parameters from measured frequencies: helpers that the inverses of schemes share.

The inverse of a scheme is next to its formula. ``inverse(xp, measured)`` yields guesses: parameters
whose frequencies may be the measured ones. A guess may be wrong: the caller computes its
frequencies and compares them with the measured ones. So an inverse may be generous, but must be
fast, and must rate how special each guess is. Measured values are float64, and ``xp`` is NumPy.

A scheme without an inverse is tried with its defaults (:mod:`posenc_cli.inference.candidates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from decimal import Decimal

KNOWN_BASES = (
    1e4, 5e5, 1e6, 1e5, 1.5e5, 1.6e5, 2e6, 2.5e4, 5e6, 1e7, 8e6, 3e6, 4e4, 5e4, 6e5,
    1e3, 1e2, 1.2e7, 1e8, 2e4, 8e4, 2.5e5, 1e11,
    11158840.0, 207112184.0, 283461213.0, 3580165449.0,  # Hunyuan's, and Gradient's of Llama 3
)  # fmt: skip
"""Bases of published models and of the paper, the most common first."""

COMMON_BASES = KNOWN_BASES[:10]
"""The bases to try if many other numbers are free, because rare ones would fit by chance."""

FACTORS = (
    2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 1.5, 3.0, 2.5, 6.0, 10.0, 20.0, 128.0, 5.0, 12.0,
)  # fmt: skip
"""Context extension factors of published models, the most common first."""

COMMON_FACTORS = FACTORS[:7]
"""The factors to accept if a factor is only roughly known."""

CONTEXTS = (*(2**power for power in range(9, 21)), 1500, 3000, 6144, 12288, 40960)
"""Context lengths of published models: powers of two, and those of Whisper, Qwen and others."""

NEAR = 0.02
"""The relative error that half-precision frequencies may give a known number."""

_BY_CHANCE = 0.02
"""The highest probability that a number of so few digits is within a value's error by chance."""

_MOST_PARTS, _MOST_DIGITS = 100, 6
"""Limits of a ratio: its denominator, and the digits of both numbers plus the slash. Nobody writes
larger ones.
"""

FITTED = 6.0
"""The cost of a guess with as many digits as were measured; it comes last."""

BESIDE_KNOWN, ALIKE_NUMBERS = 2.9, 1e-4
"""The highest cost of a number next to a known one within this relative distance: both may fit."""

SURE, MANY = 3.0, 6
"""With at least this many pairs (MANY), a number solved from all is within SURE times their
scatter.
"""

ROUNDED, DOUBLE = 2.0**-24, 1e-15
"""The relative error of a number rounded to float32, and of one computed in float64."""

SPARE = 8
"""A fitted number is rounded by at most one part in this many of its error, so that the table stays
the same.
"""

_BASE_DIGITS, _LIKELY = 5, 0.08
"""A base with at most this many digits is likely, so the rule on chance counts this share."""

STEEPEST = 60.0
"""ln of the largest base to look for: float64 has no frequency of a steeper ladder."""


class Measured(Record):
    """The radians per row of each pair (pairs,), their errors, and what else is known.

    ``given`` are known parameters, such as dim. ``amplitude`` is the factor on cosines and sines,
    None if unknown; its relative error is ``precise``. ``length`` is that of the sequence, None
    while no positions are known.
    """

    values: Any
    errors: Any
    given: Mapping[str, Any]
    amplitude: float | None = None
    precise: float = 1e-5
    length: int | None = None

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return int(self.values.size)

    def has_amplitude(self, amplitude: Decimal | float) -> bool:
        """Return whether an amplitude equals the measured one, or none was measured."""
        if self.amplitude is None:
            return True
        return abs(float(amplitude) - self.amplitude) <= 3 * self.precise * self.amplitude


class MeasuredScores(Record):
    """A bias on scores: ``values`` (heads, n) at ``indices`` (n,), NaN where a mask hides them.

    ``by`` says whether the indices are offsets j − i, or keys, of which there are ``keys``. With
    ``single``, the array shows one head of an unknown number. ``rounding`` is the relative error of
    a value, and ``rounded`` rounds values to the format of the array.
    """

    by: str
    indices: Any
    values: Any
    keys: int
    single: bool
    rounding: float
    rounded: Callable[[Any], Any]

    @property
    def heads(self) -> int:
        """The number of heads."""
        return int(self.values.shape[0])

    def of_distances(self, xp: Any) -> tuple[Any, Any] | None:
        """Return the distances seen, ascending from 0, and their values; None if both sides differ.

        It is also None if fewer than three distances are seen, or not 0.

        Shapes: (m,) and (heads, m).
        """
        if self.by != "offset":
            return None
        distances = xp.abs(self.indices)
        seen = xp.isfinite(self.values).all(axis=0)
        left = seen & (self.indices <= 0)
        if not left.any():
            return None
        order = xp.argsort(distances[left], kind="stable")
        where, values = distances[left][order].astype(float), self.values[:, left][:, order]
        right = seen & (self.indices > 0)
        if right.any():
            at = xp.minimum(xp.searchsorted(where, distances[right]), where.size - 1)
            same = where[at] == distances[right]
            difference = xp.abs(self.values[:, right][:, same] - values[:, at[same]])
            if difference.max(initial=0) > ALIKE * xp.abs(values).max():
                return None
        return (where, values) if where.size >= 3 and where[0] == 0 else None


ALIKE = 1e-5
"""Largest difference between both sides of a bias by distance, relative to the largest score."""


class Guess(Record):
    """Parameters that may give the measured frequencies or scores.

    ``cost`` rates how special they are: 1 for one rule with common numbers, 0.3 more for each digit
    of a fitted number, 2 to 3.5 for rules with many numbers; hundredths order equals.
    ``uncertainty`` is the error of a fitted parameter. For scores, ``head`` is the head meant,
    ``multiplier`` a factor applied to all afterwards, and ``hidden`` names parameters that scores
    do not show.
    """

    params: Mapping[str, Any]
    cost: float = 1.0
    uncertainty: Mapping[str, float] = fresh(dict)
    notes: tuple[str, ...] = ()
    head: int | None = None
    multiplier: float = 1.0
    hidden: tuple[str, ...] = ()
    solved: str | None = None
    likely: tuple[tuple[float, str], ...] = ()


Inverse = Callable[[Any, Any], Iterator[Guess]]
"""An array namespace and measured values → guesses, the simplest first. The values are
:class:`Measured` for a scheme made of waves, :class:`MeasuredScores` for a bias.
"""


def no_guesses(_xp: Any, _measured: Any) -> Iterator[Guess]:
    """Yield no guesses.

    For a scheme whose frequencies along one axis are another scheme's, or that is read in another
    way.
    """
    yield from ()


def snap(value: float, error: float) -> float:
    """Return the number with the fewest digits within an error of a value.

    >>> snap(9999.993, 0.5), snap(0.7071, 1e-6)
    (10000.0, 0.7071)
    """
    for digits in range(1, 13):
        short = float(f"{value:.{digits - 1}e}")
        if abs(short - value) <= error:
            return short
    return value


def written_numbers(value: float, error: float, *, tries: float = 1) -> Iterator[tuple[float, int]]:
    """Yield numbers that people write within an error of a value, with the digits of each.

    These are the shortest decimal and the ratio of the smallest integers, the shorter first. One is
    left out if a number as short would be within the error of 2% of values, over all ``tries``.

    >>> list(written_numbers(1.3333334, 1e-6)), list(written_numbers(2.7182818, 1e-9))
    ([(1.3333333333333333, 3)], [(2.7182818, 8)])
    >>> list(written_numbers(4.0889713, 2e-7))
    []
    """
    if not 0 < value < math.inf:
        return
    found: list[tuple[float, int]] = []
    for digits in range(1, 16):
        short = float(f"{value:.{digits - 1}e}")
        if abs(short - value) <= error:
            place = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
            if 2 * error * tries <= _BY_CHANCE * place:
                found.append((short, digits))
            break
    for below in range(3, _MOST_PARTS):
        over = round(value * below)
        if abs(over / below - value) <= error:
            # Ratios of integers up to n are 1/n² apart.
            digits = len(f"{over}{below}") + 1
            chance = 2 * error * tries * below**2
            decimal = 10**_MOST_DIGITS * over % below == 0
            if not decimal and digits <= _MOST_DIGITS and chance <= _BY_CHANCE:
                found.append((over / below, digits))
            break
    yield from sorted(found, key=lambda number: number[1])


def digit_count(value: float) -> int:
    """Return the number of significant digits; at most 17, as for infinity.

    >>> digit_count(10_000.0), digit_count(0.7071)
    (1, 4)
    """
    return next((d for d in range(1, 17) if float(f"{value:.{d - 1}e}") == value), 17)


def plain_ladder(xp: Any, base: float, pairs: int) -> Any:
    """Return the frequencies base^(−i/pairs), in float64. Units: radians per position."""
    return base ** -(xp.arange(pairs) / pairs)


def rotating_count(xp: Any, measured: Measured) -> int:
    """Return the number of pairs up to the last one that rotates."""
    rotating = xp.flatnonzero(xp.abs(measured.values) > 2 * measured.errors + 1e-11)
    return int(rotating[-1]) + 1 if rotating.size else 0


def ladder_bases(
    xp: Any, measured: Measured, steps: float, *, prefer_known: bool = False
) -> Iterator[tuple[float, float, float]]:
    """Yield bases of a ladder base^(−i/steps) that fits the frequencies, with cost and error.

    With ``prefer_known``, bases of no published model follow only if no known base fits.
    """
    fit = fitted_base(xp, measured, steps)
    if fit is None:
        yield KNOWN_BASES[0], 1.0, 0.0
        return
    base, error = fit
    near = [b for b in KNOWN_BASES if abs(b / base - 1) <= max(NEAR, 5 * error / base)]
    for known in sorted(near, key=lambda b: abs(math.log(b / base))):
        yield known, 1.0, 0.0
    if prefer_known and near:
        return
    alike = any(error < abs(b - base) <= ALIKE_NUMBERS * base for b in near)
    most = BESIDE_KNOWN if alike else FITTED
    likely = [own for own in written_numbers(base, error, tries=_LIKELY) if own[1] <= _BASE_DIGITS]
    for short, digits in likely or written_numbers(base, error):
        if short not in near and short > 1:
            yield short, min(1.0 + 0.3 * digits, most), 0.0
    if base > 1:
        # A fitted base explains any ladder.
        yield snap(base, error / SPARE), most, error


def fitted_base(xp: Any, measured: Measured, steps: float) -> tuple[float, float] | None:
    """Return the base of the ladder that fits the low frequencies, and its uncertainty."""
    values, errors = measured.values, measured.errors
    last = rotating_count(xp, measured)
    usable = (values > 0) & (errors < 0.5 * xp.abs(values)) & (xp.arange(values.size) < last)
    where = xp.flatnonzero(usable)
    if where.size < 2:
        return None
    logarithms, spread = xp.log(values[where]), errors[where] / values[where]
    begin = where.size - 2
    middle = max(0, where.size - max(3, where.size // 2))
    slope = (logarithms[-1] - logarithms[middle]) / (where[-1] - where[middle])
    while begin > 0:
        predicted = logarithms[-1] + slope * (where[begin - 1] - where[-1])
        if abs(predicted - logarithms[begin - 1]) > 0.05 + 3 * (spread[begin - 1] + spread[-1]):
            break
        begin -= 1
    x, y, w = where[begin:].astype(float), logarithms[begin:], 1 / spread[begin:] ** 2
    centre = (w @ x) / w.sum()
    power = float(w @ (x - centre) ** 2)
    mean = float(w @ y) / float(w.sum())
    slope = float((w * (x - centre)) @ (y - mean)) / power
    if not 0 < -slope * steps < STEEPEST:
        return None
    base = math.exp(-slope * steps)
    left = (y - mean - slope * (x - centre)) ** 2
    error = 1 / math.sqrt(power)
    if x.size >= MANY:  # enough to show their own scatter
        error *= SURE * math.sqrt(float(w @ left) / (x.size - 2))
    # Code that uses powers of e rounds the exponent of one pair, and multiplies it for the others.
    shared = min(ROUNDED, 2 * math.sqrt(float(w @ left) / float(w.sum())))
    return base, base * (steps * error + abs(slope) * steps * shared + DOUBLE)


def scaled_bases(xp: Any, measured: Measured) -> Iterator[float]:
    """Yield bases of high-frequency pairs, which no scaling changes, and of scaled low ones."""
    yield from fast_bases(measured)
    if (fit := fitted_base(xp, measured, measured.pairs)) is not None:
        base, error = fit
        near = [known for known in KNOWN_BASES if abs(known - base) <= 2 * error + 1e-4 * base]
        yield from (known for known in near or (snap(base, error),) if known > 1)


def fast_bases(measured: Measured) -> Iterator[float]:
    """Yield possible bases of high-frequency pairs, which no scaling changes."""
    pairs, values, errors = measured.pairs, measured.values, measured.errors
    bases: dict[float, None] = {}
    for pair in sorted({1, 2, 3, max(1, pairs // 8), max(1, pairs // 4), max(1, pairs // 3)}):
        if pair >= pairs or not 0 < values[pair] < 1:
            continue
        logarithm = -math.log(values[pair]) * pairs / pair
        error = float(errors[pair] / values[pair]) * pairs / pair
        if not 1e-3 < logarithm < STEEPEST:
            continue
        base = math.exp(logarithm)
        for known in KNOWN_BASES:
            if abs(math.log(known) - logarithm) <= 2 * error + 0.004:
                bases[known] = None
        bases[snap(base, min(base * error, 0.01 * base))] = None
    yield from [base for base in bases if base > 1][:12]


def interpolated_shares(xp: Any, measured: Measured, base: float, factor: float) -> tuple[Any, Any]:
    """Return how far each pair is interpolated (0 not at all, 1 by the factor), and its error.

    Shapes: (pairs,) each.
    """
    plain = plain_ladder(xp, base, measured.pairs)
    full = 1 - 1 / factor if factor != 1 else 1.0
    return (1 - measured.values / plain) / full, measured.errors / plain / full


def _shared_ratio(near: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of the first ratios that agree with each other, and its relative error."""
    mean, weight = 0.0, 0.0
    for ratio, error in near:
        own = (error * ratio) ** -2
        if weight and abs(ratio - mean) > SURE * (own**-0.5 + weight**-0.5):
            break
        mean = (mean * weight + ratio * own) / (weight + own)
        weight += own
    return (mean, weight**-0.5 / mean) if weight else (0.0, 0.0)


def interpolation_factors(xp: Any, measured: Measured, base: float) -> list[float]:
    """Return factors by which the lowest-frequency pairs may be divided."""
    plain = plain_ladder(xp, base, measured.pairs)
    factors: list[float] = []
    with xp.errstate(divide="ignore", invalid="ignore"):
        ratios, spread = plain / measured.values, measured.errors / xp.abs(measured.values)
    good = xp.flatnonzero((measured.values > 0) & (spread < 0.3))
    near = [(float(ratios[pair]), float(spread[pair])) for pair in good[::-1]]
    for ratio, error in (_shared_ratio(near), *near[:3]):
        if ratio > 1.05:
            factors.append(snap(ratio, max(3 * error, 1e-6) * ratio))
    return list(dict.fromkeys([*factors, *FACTORS]))
