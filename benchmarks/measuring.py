"""Measure one function relative to another, and define what a measurement is.

All timing of the benchmarks is in :func:`paired`.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Unit = Literal["×", "MiB"]


@dataclass(frozen=True)
class Spread:
    """The median, minimum and maximum of several repetitions."""

    median: float
    min: float
    max: float
    repetitions: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some values.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, min=1.0, max=3.0, repetitions=3)
        """
        return cls(statistics.median(values), min(values), max(values), len(values))

    def scaled(self, factor: float) -> Spread:
        """Return the spread of values that are each ``factor`` times as large.

        >>> Spread.of([1.0, 2.0]).scaled(2).max
        4.0
        """
        return Spread(self.median * factor, self.min * factor, self.max * factor, self.repetitions)


@dataclass(frozen=True)
class Timings:
    """Seconds of functions that ran in turn: the n-th of each are of one round."""

    seconds: Mapping[str, Sequence[float]]

    def ratio(self, name: str, against: str) -> Spread:
        """Return the ratio of the times of ``name`` and ``against``, round by round.

        >>> Timings({"slow": [4.0, 9.0], "fast": [2.0, 3.0]}).ratio("slow", "fast").median
        2.5
        """
        pairs = zip(self.seconds[name], self.seconds[against], strict=True)
        return Spread.of([one / other for one, other in pairs])


def paired(
    functions: Mapping[str, Callable[[], object]],
    *,
    repetitions: int,
    warm_ups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Return seconds of functions that run in turn, A B A B …, so a slow moment slows them all.

    The first ``warm_ups`` rounds, which touch memory, compile and load, are not counted. ``clock``
    may count seconds of a processor instead of those that pass.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for count in range(-warm_ups, repetitions):
        for name, function in functions.items():
            began = clock()
            function()
            taken = clock() - began
            if count >= 0:
                seconds[name].append(taken)
    return Timings(seconds)


@dataclass(frozen=True)
class Goal:
    """A limit that a median should keep.

    >>> Goal("at most", 5.0).met(4.9), str(Goal("at least", 3))
    (True, '≥ 3')
    """

    sense: Literal["at most", "at least"]
    limit: float

    def met(self, median: float) -> bool:
        """Return whether the median is within the limit."""
        return median <= self.limit if self.sense == "at most" else median >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.sense == 'at most' else '≥'} {self.limit:g}"


@dataclass(frozen=True)
class Measurement:
    """A measurement (``name``, ``dtype``, ``threads``), its baseline, and its result.

    ``spread`` is None if it could not be measured; ``note`` has the reason, or a remark.
    """

    name: str
    against: str
    spread: Spread | None
    dtype: str | None = None
    threads: int | None = None
    unit: Unit = "×"
    goal: Goal | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Return whether the goal is met; None without a goal or a measurement."""
        if self.goal is None or self.spread is None:
            return None
        return self.goal.met(self.spread.median)


@dataclass(frozen=True)
class Section:
    """Measurements that belong together, and their method."""

    title: str
    how: str
    measurements: tuple[Measurement, ...]
