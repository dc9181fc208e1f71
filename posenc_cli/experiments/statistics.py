"""What a few seeds say of all there could be: means, spreads, and intervals after Student.

An interval of 95% is for the mean over seeds, were there many: it holds what a rerun with other
seeds would find, not what another text or another size would.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
_PLACES = 6


class Estimate(Record):
    """The mean of some numbers, one a seed.

    ``deviation`` is the standard deviation of the numbers, ``half`` half the interval of the mean;
    of one number there is neither.
    """

    count: int
    mean: float
    deviation: float | None = None
    half: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate that some numbers give.

        >>> Estimate.of([1.0, 2.0, 3.0]).half
        2.484138
        """
        count = len(values)
        mean = math.fsum(values) / count
        if count < 2:
            return cls(count, round(mean, _PLACES))
        squares = math.fsum((value - mean) ** 2 for value in values)
        deviation = math.sqrt(squares / (count - 1))
        half = student_quantile(count - 1) * deviation / math.sqrt(count)
        return cls(count, *(round(number, _PLACES) for number in (mean, deviation, half)))

    @property
    def low(self) -> float | None:
        """Where the interval begins."""
        return None if self.half is None else round(self.mean - self.half, _PLACES)

    @property
    def high(self) -> float | None:
        """Where the interval ends."""
        return None if self.half is None else round(self.mean + self.half, _PLACES)

    def fields(self) -> dict[str, Any]:
        """The estimate as JSON has it."""
        return {
            "mean": self.mean,
            "deviation": self.deviation,
            "low": self.low,
            "high": self.high,
        }


def paired_difference(minuends: Sequence[float], subtrahends: Sequence[float]) -> Estimate:
    """The mean difference of numbers that belong together seed by seed.

    All encodings see the same sequences, and begin with the same weights, seed by seed: what a seed
    does to both is not in the difference.

    >>> paired_difference([1.0, 2.0], [0.5, 1.5]).half
    0.0
    """
    return Estimate.of([a - b for a, b in zip(minuends, subtrahends, strict=True)])


@cache
def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Between which −t and t a Student variable of so many degrees of freedom lies, so surely.

    >>> round(student_quantile(2), 3)
    4.303
    """
    low, high = 0.0, 1.0
    while student_share(high, freedom) < confidence:
        high *= 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return high
        if student_share(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def student_share(bound: float, freedom: int) -> float:
    """How likely a Student variable lies between −bound and bound.

    The finite series that there are for whole degrees of freedom: Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = math.atan(bound / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
