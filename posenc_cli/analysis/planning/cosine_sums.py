"""Compute the sum of cosines of the rotated pairs, and find the bases that keep it at 0 or more.

Men et al. 2024 ("Base of RoPE Bounds Context Length", arXiv:2405.14591) show: a head can tell a key
similar to its query from a random key at distance m only if B(m) = Σ cos(m·θ_i) is not negative.
This condition at every distance of a context is necessary, but not sufficient.

Every distance is computed, none is sampled. With m = a + b, the cosines of all m are one product of
two small matrices in float64: cos aθ · cos bθ − sin aθ · sin bθ. A sum nearer to 0 than its
possible rounding error is computed again in 60 digits.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from decimal import Decimal

    from posenc_cli.numerics.arrays import Reals

SMALLEST_BASE, LARGEST_BASE = 100.0, 1e10
"""The range of bases to try."""

_HELD = 1 << 18
"""Sums held at once: two megabytes."""
_WIDEST = 1 << 10
"""Columns of a block of sums."""
_UNIT = 2.0**-52
_NEAR = 64
"""Distances tried first, on either side of one that was negative for another base."""
_DENSEST, _SPARSEST = 128, 12
"""Bases tried per decade, for short and for long contexts."""
_COSINES_A_DECADE = 1 << 28
"""Cosines for one decade of bases: about a tenth of a second."""
_MOST_COSINES = 1 << 37
"""Cosines for all bases that a user asks for: about a minute."""
_STEP = 16
"""Bases between two reports of progress."""
_DIGITS = 6
"""Significant digits of a tried base, so that the printed base is exactly the tried one."""


class CosineSums(Record):
    """The sums B(m) of cos(m·θ) over some pairs, with a bound on their float64 rounding errors.

    ``at_rest`` pairs do not rotate, and add 1 each. ``errors`` bounds the relative errors of
    ``angles``, the frequencies in float64. ``exactly`` returns them in 60 digits.

    Shape: angles and errors (pairs,).
    """

    angles: Reals
    errors: Reals
    exactly: Callable[[], exact.Vector]
    at_rest: int = 0

    @classmethod
    def of(cls, frequencies: Sequence[Decimal | float]) -> CosineSums:
        """Return the sums over the pairs that rotate, from frequencies in extended precision."""
        rotating = [frequency for frequency in frequencies if frequency != 0]
        angles = np.array([float(frequency) for frequency in rotating])
        return cls(angles, np.full(angles.size, _UNIT), lambda: exact.asarray(rotating))

    @classmethod
    def of_base(cls, base: float, exponents: Reals, factor: float = 1.0) -> CosineSums:
        """Return the sums for the frequencies base^(−u) / factor of some exponents u."""
        errors = _UNIT * (2 + exponents * math.log(base))

        def exactly() -> exact.Vector:
            return 1 / (factor * exact.asarray(base) ** exact.asarray(list(map(float, exponents))))

        return cls(base**-exponents / factor, errors, exactly)

    def _error_bound(self, distance: int) -> float:
        """Return a bound on the rounding errors of all sums up to a distance."""
        angles = distance * float((self.angles * (self.errors + _UNIT)).sum())
        return angles + (2 * self.angles.size + 12) * self.angles.size * _UNIT / 2

    def first_negative(self, length: int) -> int | None:
        """Return the first distance below ``length`` at which the sum is negative, or None.

        >>> from posenc_cli.formulas.rotary import ladder
        >>> CosineSums.of(list(ladder(exact, 128, 10_000.0))).first_negative(4096)
        1707
        """
        if self.at_rest >= self.angles.size:
            return None
        for start, sums in self._blocks(length):
            below = np.flatnonzero(sums <= self._error_bound(start + sums.size))
            for place in below:
                if self._negative(start + int(place), float(sums[place])):
                    return start + int(place)
        return None

    def negative_near(self, distance: int, length: int) -> int | None:
        """Return a distance near another one at which the sum is certainly negative, or None."""
        near = np.arange(max(0, distance - _NEAR), min(length, distance + _NEAR))
        sums = np.cos(np.outer(near, self.angles)).sum(axis=1) + self.at_rest
        below = np.flatnonzero(sums < -self._error_bound(length))
        return int(near[below[0]]) if below.size else None

    def _negative(self, distance: int, value: float) -> bool:
        if abs(value) > self._error_bound(distance):
            return value < 0
        return sum(exact.cos(self.exactly() * distance), start=exact.ZERO) + self.at_rest < 0

    def _blocks(self, length: int) -> Iterator[tuple[int, Reals]]:
        """Yield the sums of all distances below a length, block by block."""
        side = min(_WIDEST, 1 << max(4, math.isqrt(length).bit_length()))
        columns = np.outer(self.angles, np.arange(side))  # (pairs, side)
        within = np.concatenate([np.cos(columns), -np.sin(columns)])
        # Most searches end in the first, smaller block.
        starts = [start for start in (0, _HELD >> 4) if start < length]
        for start, stop in pairwise((*starts, *range(_HELD, length, _HELD), length)):
            rows = np.outer(np.arange(start, stop, side), self.angles)  # (rows, pairs)
            sums = (np.concatenate([np.cos(rows), np.sin(rows)], axis=1) @ within).ravel()
            yield start, sums[: stop - start] + self.at_rest


class BaseInterval(Record):
    """Neighbouring tried bases that all qualify, from ``first`` to ``last``.

    ``below`` and ``above`` are the nearest tried bases that do not qualify, None at an end of the
    range.
    """

    first: float
    last: float
    count: int
    below: float | None
    above: float | None


class QualifyingBases(Record):
    """The tried bases that keep B(m) at 0 or more for all m < ``length``.

    Each base was tested by itself, at every distance. Nothing is known about the bases between two
    tried ones. ``low`` and ``high`` are the range, and ``per_decade`` is the number of bases tried
    per power of ten.
    """

    length: int
    low: float
    high: float
    per_decade: int
    tried: int
    intervals: tuple[BaseInterval, ...]

    def first_from(self, base: float) -> float | None:
        """Return the smallest qualifying base from ``base`` up whose tried neighbours both qualify.

        Without such a base, return the smallest qualifying one from there; None if there is none.
        """
        alone = None
        tried = tried_bases(self.per_decade)
        for interval in self.intervals:
            run = tried[tried.index(interval.first) : tried.index(interval.last) + 1]
            inner = [own for own in run[1:-1] if own >= base]
            if inner:
                return inner[0]
            alone = alone or next((own for own in run if own >= base), None)
        return alone


def usual_density(length: int, pairs: int = 64) -> int:
    """Return the default number of bases to try per decade.

    >>> usual_density(4096), usual_density(131072), usual_density(1_000_000)
    (128, 32, 12)
    """
    return max(_SPARSEST, min(_DENSEST, _COSINES_A_DECADE // (length * max(1, pairs))))


def tried_bases(per_decade: int) -> list[float]:
    """Return the bases to try: powers of 10^(1/per_decade), to six digits.

    >>> tried_bases(2)[:4]
    [100.0, 316.228, 1000.0, 3162.28]
    """
    low, high = round(math.log10(SMALLEST_BASE)), round(math.log10(LARGEST_BASE))
    powers = range(low * per_decade, high * per_decade + 1)
    return [float(f"{10 ** (power / per_decade):.{_DIGITS}g}") for power in powers]


def qualifying_bases(
    exponents: Reals,
    length: int,
    *,
    per_decade: int | None = None,
    factor: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> QualifyingBases:
    """Return which bases qualify for a length, with frequencies base^(−u) / factor of exponents u.

    ``progress`` is called with the number of bases tried and the total.

    Raises: InvalidInput if there are too many bases to try.

    >>> found = qualifying_bases(np.arange(64) / 64, 1024, per_decade=64)
    >>> found.intervals[0].below, found.intervals[0].first
    (5424.69, 5623.41)
    """
    density = per_decade or usual_density(length, len(exponents))
    count = density * round(math.log10(LARGEST_BASE / SMALLEST_BASE))
    if per_decade is not None:
        asked = f"--bases {per_decade}"
        check_size(asked, count * length * len(exponents), _MOST_COSINES, "cosines")
    bases = tried_bases(density)
    qualify: list[bool] = []
    failed: int | None = None
    for done, base in enumerate(bases):
        if progress is not None and done % _STEP == 0:
            progress(done, len(bases))
        sums = CosineSums.of_base(base, exponents, factor)
        found = None if failed is None else sums.negative_near(failed, length)
        if found is None:
            found = sums.first_negative(length)
        failed = failed if found is None else found
        qualify.append(found is None)
    runs = groupby(range(len(bases)), key=qualify.__getitem__)
    return QualifyingBases(
        length=length,
        low=bases[0],
        high=bases[-1],
        per_decade=density,
        tried=len(bases),
        intervals=tuple(_interval([*run], bases) for good, run in runs if good),
    )


def _interval(run: list[int], bases: list[float]) -> BaseInterval:
    return BaseInterval(
        first=bases[run[0]],
        last=bases[run[-1]],
        count=len(run),
        below=bases[run[0] - 1] if run[0] else None,
        above=bases[run[-1] + 1] if run[-1] + 1 < len(bases) else None,
    )
