"""Summarize the results of all seeds at each length, and draw the conclusions they support.

Encodings are not ranked: each is compared with itself at the trained length. Conclusions follow
`RULE`, for encodings whose models have all learned the task.

The 95% interval (Student's t) is for the mean over many seeds. It covers reruns with other seeds,
not other texts or sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from posenc_cli.experiments.request import (
    TRAINED,
    ExperimentRequest,
    JobResult,
    RunResult,
    TestedEncoding,
)
from posenc_cli.records import Record

STUDENT = (
    *(12.706204736, 4.30265273, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252),
    *(2.306004135, 2.262157163, 2.228138852, 2.20098516, 2.17881283, 2.160368656, 2.144786688),
    *(2.131449546, 2.119905299, 2.109815578, 2.10092204, 2.093024054, 2.085963447, 2.079613845),
    *(2.073873068, 2.06865761, 2.063898562, 2.059538553, 2.055529439, 2.051830516, 2.048407142),
    *(2.045229642, 2.042272456),
)
"""The 95% points of Student's t, from 1 degree of freedom on; there is one fewer than seeds."""
_PLACES = 6


class Estimate(Record):
    """The mean of numbers, one per seed.

    ``deviation`` is their standard deviation, ``half`` half the interval of the mean. Both are None
    for a single number.
    """

    count: int
    mean: float
    deviation: float | None = None
    half: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from some numbers.

        >>> Estimate.of([1.0, 2.0, 3.0]).half
        2.484138
        """
        count = len(values)
        mean = math.fsum(values) / count
        if count < 2:
            return cls(count, round(mean, _PLACES))
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
        half = STUDENT[count - 2] * deviation / math.sqrt(count)
        return cls(count, *(round(number, _PLACES) for number in (mean, deviation, half)))

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return None if self.half is None else round(self.mean - self.half, _PLACES)

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return None if self.half is None else round(self.mean + self.half, _PLACES)

    def fields(self) -> dict[str, Any]:
        """Return the estimate as JSON fields."""
        return {
            "mean": self.mean,
            "deviation": self.deviation,
            "low": self.low,
            "high": self.high,
        }


TOLERATED = 0.1
"""Largest rise of the loss at which an encoding holds, in nats. At the trained length, seeds of an
encoding differed by at most 0.07 after 1000 steps, and by 0.09 after 3000."""
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
STOPPED = "no verdict"
RULE = (
    "An encoding holds at a length if its loss over the last positions exceeds the loss at the "
    f"trained length by less than {TOLERATED} nats, and fails if by more. The whole 95% interval "
    "of the difference, paired by seed, must agree; otherwise the result is undecided."
)


class LengthSummary(Record):
    """The results of all seeds at one length.

    ``rise`` is how much ``last`` exceeds the same seed's at the trained length, and ``state`` the
    conclusion from it; an effect of the seed on both lengths cancels. ``by_seed`` has each seed's
    losses at the points of the task's axis.
    """

    length: int
    last: Estimate
    loss: Estimate
    accuracy: Estimate | None
    rise: Estimate
    untrained: str | None
    by_seed: tuple[tuple[float, ...], ...]

    @property
    def extent(self) -> int:
        """The number of points of the task's axis."""
        return len(self.by_seed[0])

    def between(self, start: int, stop: int) -> Estimate:
        """Return the loss over the points from ``start`` to before ``stop``."""
        return Estimate.of([fmean(seed[start:stop]) for seed in self.by_seed])

    @property
    def state(self) -> str:
        """Whether the encoding holds at this length, fails, or is undecided."""
        low, high = self.rise.low, self.rise.high
        if high is not None and high < TOLERATED:
            return HOLDS
        return FAILS if low is not None and low > TOLERATED else UNDECIDED


class EncodingSummary(TestedEncoding):
    """The results of all seeds of an encoding on a task, under one context extension.

    ``learnt`` is the number of seeds that have learned the task. ``reason`` is that of the first
    seed that has not, or else of the first seed.
    """

    trained: int
    seeds: tuple[int, ...]
    learnt: int
    reason: str
    induction: Estimate | None
    lengths: tuple[LengthSummary, ...]

    @property
    def name(self) -> str:
        """The encoding, and its context extension if there is one."""
        return self.encoding if self.stretch == "none" else f"{self.encoding}, {self.stretch}"

    @property
    def judged(self) -> bool:
        """Whether all models have learned the task, so that longer lengths can be judged."""
        return self.learnt == len(self.seeds)

    @property
    def verdict(self) -> str:
        """The verdict on lengths beyond the trained one."""
        count = len(self.seeds)
        if not self.judged:
            return (
                f"{STOPPED}: {self.learnt} of {count} seeds have learned the task ({self.reason})"
            )
        longer = [length for length in self.lengths if length.length > self.trained]
        if not longer:
            return "no longer length was tested"
        parts = []
        for state, group in groupby(longer, key=lambda length: length.state):
            same = [*group]
            first, last = (self.times(length.length) for length in (same[0], same[-1]))
            if state == HOLDS:
                word = "to" if same[0] is longer[0] else "at"
                parts.append(f"holds {word} {last}")
            elif state == FAILS:
                word = "from" if same[-1] is longer[-1] else "at"
                parts.append(f"fails {word} {first}")
            else:
                span = first if first == last else f"{first} to {last}"
                seeds = "1 seed" if count == 1 else f"{count} seeds"
                parts.append(f"undecided at {span} with {seeds}")
        return ", ".join(parts)

    def times(self, length: int) -> str:
        """Return a length as a multiple of the trained one, if it is one.

        >>> EncodingSummary.times(EncodingSummary(*"abcd", 100, (), 0, "", None, ()), 800)
        '8x'
        """
        times, rest = divmod(length, self.trained)
        return str(length) if rest else f"{times}x"

    def fields(self) -> dict[str, Any]:
        """Return the summary as JSON fields."""
        lengths = [
            {
                "length": item.length,
                "last": item.last.fields(),
                "loss": item.loss.fields(),
                "accuracy": None if item.accuracy is None else item.accuracy.fields(),
                "rise": item.rise.fields(),
                "state": item.state if self.judged and item.length > self.trained else None,
                "untrained": item.untrained,
            }
            for item in self.lengths
        ]
        return {
            "task": self.task,
            "encoding": self.encoding,
            "scheme": self.scheme,
            "stretch": self.stretch,
            "trained": self.trained,
            "seeds": list(self.seeds),
            "learnt": self.learnt,
            "reason": self.reason,
            "judged": self.judged,
            "verdict": self.verdict,
            "induction": None if self.induction is None else self.induction.fields(),
            "lengths": lengths,
        }


def trained_length(request: ExperimentRequest, task: str) -> int:
    """Return the length at which models of a task are trained."""
    return request.trained or TRAINED[task]


def last_places(request: ExperimentRequest, task: str) -> int:
    """Return the number of last positions that are averaged."""
    return request.last or max(1, trained_length(request, task) // 2)


def summaries(
    request: ExperimentRequest, results: Sequence[JobResult]
) -> tuple[EncodingSummary, ...]:
    """Summarize results by task, encoding and context extension, in the order of the request."""
    found: dict[tuple[str, str, str], list[RunResult]] = {
        (task, encoding.label, stretch): []
        for task in request.tasks
        for encoding in request.encodings
        for stretch in request.stretches
    }
    for result in results:
        for run in result.runs:
            if (asked := (run.task, run.encoding, run.stretch)) in found:
                found[asked].append(run)
    return tuple(
        _summary(sorted(runs, key=lambda run: run.seed), trained_length(request, task))
        for (task, _, _), runs in found.items()
        if runs
    )


def _summary(runs: Sequence[RunResult], trained: int) -> EncodingSummary:
    """Summarize the runs of some seeds."""
    first = next((run for run in runs if not run.learnt), runs[0])
    inductions = [run.induction for run in runs if run.induction is not None]
    lengths = [result.length for result in runs[0].lengths]
    return EncodingSummary(
        first.encoding,
        first.scheme,
        first.stretch,
        first.task,
        trained,
        tuple(run.seed for run in runs),
        sum(run.learnt for run in runs),
        f"seed {first.seed}: {first.reason}",
        Estimate.of(inductions) if inductions else None,
        tuple(_length_summary(runs, length, trained) for length in lengths),
    )


def _length_summary(runs: Sequence[RunResult], length: int, trained: int) -> LengthSummary:
    results = [run.at(length) for run in runs]
    accuracies = [result.accuracy for result in results if result.accuracy is not None]
    return LengthSummary(
        length,
        Estimate.of([result.last for result in results]),
        Estimate.of([result.loss for result in results]),
        Estimate.of(accuracies) if accuracies else None,
        Estimate.of([run.at(length).last - run.at(trained).last for run in runs]),
        results[0].untrained,
        tuple(result.by_position for result in results),
    )
