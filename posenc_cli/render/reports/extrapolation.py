"""Report an experiment as text, JSON and a figure."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.experiments.request import (
    DIGITS,
    ExperimentRequest,
    JobResult,
    LengthLosses,
    RunResult,
)
from posenc_cli.experiments.summary import (
    RULE,
    STOPPED,
    EncodingSummary,
    Estimate,
    LengthSummary,
    last_places,
    summaries,
    trained_length,
)
from posenc_cli.experiments.tasks import TASKS
from posenc_cli.records import Record, items_by_key
from posenc_cli.render.figure import Curve, Curves, Envelope, Panels, check_distinguishable
from posenc_cli.render.ticks import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.render.typesetting import Typesetter

_ANSWERS = {
    "sequences": "share of sequences answered without a mistake",
    "symbols": "share of right answers at the last {places} (one in 16 by chance)",
}
_AXES = {
    "text": "position, in characters",
    "first": "position, in symbols",
    "needle": "depth of the needle, in tenths",
}
"""The label of a task's axis; for other tasks, points are places in the answer."""
_BINS = 80
"""Points of a curve by position: means over bins are less noisy than single positions."""
_DEPTHS = 5
"""Columns of a table by position, for a task whose axis does not grow."""
_DIGITS = 2
_MOST_BANDS = 3
"""The most curves with intervals: more bands hide each other, and the tables have them."""

_LONGER = "train longer (--steps)"
"""The next step if a model has not learned its task."""


class ExperimentReport(Record):
    """The results of an experiment, with losses in nats per token."""

    request: ExperimentRequest
    results: tuple[JobResult, ...]
    summaries: tuple[EncodingSummary, ...]

    @classmethod
    def of(cls, request: ExperimentRequest, results: Sequence[JobResult]) -> ExperimentReport:
        """Return the report on the results of a request, or of some of its jobs."""
        return cls(request, tuple(results), summaries(request, results))

    @property
    def _by_task(self) -> list[list[EncodingSummary]]:
        return [*items_by_key((each.task, each) for each in self.summaries).values()]

    @property
    def runs(self) -> list[RunResult]:
        """The runs of all jobs, in order."""
        return [run for result in self.results for run in result.runs]

    def text(self, typesetter: Typesetter) -> str:
        """Return the report for a reader: the verdicts, tables of each task, and the notes."""
        blocks = [block for items in self._by_task for block in self._task_blocks(items)]
        texts = [
            f"{typesetter.paragraph(title)}\n\n{typesetter.table(header, rows)}"
            for title, header, rows in blocks
        ]
        step = [] if all(item.judged for item in self.summaries) else [f"next: {_LONGER}"]
        answer, notes = (
            "\n".join(map(typesetter.paragraph, lines))
            for lines in (self._verdict_lines() + step, self._notes())
        )
        return "\n\n".join([answer, *texts, notes])

    def _task_blocks(
        self, summaries: Sequence[EncodingSummary]
    ) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        """Yield the tables of a task: a title, a header and rows for each."""
        task, trained = TASKS[summaries[0].task], summaries[0].trained
        last = last_places(self.request, task.name)
        names = _naming_columns(summaries)
        lengths = [item.length for item in summaries[0].lengths]
        longest = lengths[-1]
        ranges = _table_ranges(summaries[0].lengths)
        first = names.pop(0)
        several = any(len(item.seeds) > 1 for item in summaries)
        interval = ", with half its 95% interval over seeds" if several else ""
        yield (
            (
                f"{task.name}, trained length {trained} {task.unit}: loss by position at {longest}"
                f", in nats a token{interval}"
            ),
            [*first, *(f"{start}:{stop}" for start, stop in ranges)],
            [
                [*name, *(_estimate_text(item.lengths[-1].between(*part)) for part in ranges)]
                for name, item in zip(names, summaries, strict=True)
            ],
        )
        yield (
            (f"loss over the last {_places_text(last)} of each length, and over all of {longest}"),
            [*first, *map(str, lengths), f"mean {longest}"],
            [
                [
                    *name,
                    *(_estimate_text(at.last) for at in item.lengths),
                    _estimate_text(at_longest.loss),
                ]
                for name, item in zip(names, summaries, strict=True)
                for at_longest in item.lengths[-1:]
            ],
        )
        if task.answers:
            yield (
                _ANSWERS[task.answers].format(places=_places_text(last)),
                [*first, *map(str, lengths)],
                [
                    [
                        *name,
                        *(
                            "-" if at.accuracy is None else _estimate_text(at.accuracy)
                            for at in item.lengths
                        ),
                    ]
                    for name, item in zip(names, summaries, strict=True)
                ],
            )

    def _verdict_lines(self) -> list[str]:
        """Return the verdicts; all extensions of an encoding that has not learned share one."""
        several = len(self.request.tasks) > 1
        lines = [
            f"{f'{item.task}, ' if several else ''}"
            f"{item.name if item.judged else item.encoding}: {item.verdict}"
            for item in self.summaries
        ]
        return [*dict.fromkeys(lines)]

    def _notes(self) -> list[str]:
        """Return the basis of the tables, and caveats."""
        notes = [RULE] if any(item.judged for item in self.summaries) else []
        notes += [text for item in self.summaries if (text := _untrained_text(item))]
        notes += self._unchanged_encodings()
        request, seeds = self.request, counted(self.request.seeds, "seed")
        drawn = "" if request.positions is None else f", positions drawn below {request.positions}"
        notes.append(
            f"Each model: {request.size} (layers, heads, dimensions per head), {request.steps} "
            f"steps of {request.batch} sequences; {seeds}{drawn}. Encodings are not ranked."
        )
        return [*dict.fromkeys(notes)]

    def _unchanged_encodings(self) -> list[str]:
        """Name the encodings that a requested extension does not change."""
        finished_runs = {(run.encoding, run.stretch) for run in self.runs}
        finished_jobs = {key.key for key in self.results}
        finished_encodings = {
            job.encoding.label for job in self.request.jobs() if job.key in finished_jobs
        }
        lines = []
        for stretch in self.request.stretches:
            names = [
                item.label
                for item in self.request.encodings
                if item.label in finished_encodings and (item.label, stretch) not in finished_runs
            ]
            if names:
                lines.append(f"{stretch} does not change {', '.join(names)}.")
        return lines

    def fields(self) -> dict[str, Any]:
        """Return the report for JSON; losses are in nats."""
        runs: list[dict[str, Any]] = [
            {
                "scheme": run.scheme,
                "encoding": run.encoding,
                "stretch": run.stretch,
                "task": run.task,
                "seed": run.seed,
                "learnt": run.learnt,
                "reason": run.reason,
                "induction": run.induction,
                "lengths": [self._length_fields(run, item) for item in run.lengths],
            }
            for run in self.runs
        ]
        size = sum(len(item["curve"]) for run in runs for item in run["lengths"])
        check_size(
            "the runs", size, LISTED_VALUES, "losses in JSON", hint="--out FOLDER keeps them all"
        )
        judged = all(item.judged for item in self.summaries)
        names = dict.fromkeys(name for result in self.results for name in result.environment)
        return {
            "verdict": "; ".join(self._verdict_lines()),
            "cause": None,
            "next": None if judged else _LONGER,
            "runs": runs,
            "summary": [item.fields() for item in self.summaries],
            "rule": RULE,
            "request": self.request.fields(),
            # Slashes separate differing values.
            "environment": {
                name: " / ".join(
                    dict.fromkeys(result.environment.get(name, "?") for result in self.results)
                )
                for name in names
            },
        }

    def _length_fields(self, run: RunResult, item: LengthLosses) -> dict[str, Any]:
        trained = run.at(trained_length(self.request, run.task))
        last = last_places(self.request, run.task)
        points = item.by_position
        width = last if len(trained.by_position) >= last else 1
        return {
            "length": item.length,
            "loss": item.loss,
            "last": item.last,
            "accuracy": item.accuracy,
            "untrained": item.untrained,
            "curve": [
                {
                    "from": start,
                    "to": min(start + width, len(points)),
                    "loss": round(fmean(points[start : start + width]), DIGITS),
                }
                for start in range(0, len(points), width)
            ],
        }

    def figure(self) -> Panels:
        """Return loss by position at the longest length, and loss over the last places by length.

        Raises: InvalidInput if there are too many encodings to distinguish.
        """
        panels = []
        for items in self._by_task:
            check_distinguishable(range(len(items)))
            task = f"{items[0].task}: " if len(self._by_task) > 1 else ""
            panels += [self._by_position(items, task), self._by_length(items, task)]
        request = self.request
        names = ", ".join(item.label for item in request.encodings)
        tasks = ", ".join(f"{name} at {trained_length(request, name)}" for name in request.tasks)
        seeds = counted(request.seeds, "seed")
        notes = [
            f"transformers of {request.size}, {request.steps} steps of {request.batch}, {seeds}",
            *(_untrained_text(item).removesuffix(".") for item in self.summaries),
        ]
        stopped = dict.fromkeys(item.encoding for item in self.summaries if not item.judged)
        if stopped:
            notes.append(f"{STOPPED}: {', '.join(stopped)}")
        title = f"{names}: loss past the trained length, {tasks}"
        unique_notes = tuple(filter(None, dict.fromkeys(notes)))
        return Panels(tuple(panels), title, shared=False, notes=unique_notes)

    def _by_position(self, summaries: Sequence[EncodingSummary], task: str) -> Curves:
        lengths = summaries[0].lengths
        extent, trained = lengths[-1].extent, lengths[0].extent
        width = -(-extent // _BINS)
        curves = []
        for item in summaries:
            starts = range(0, extent, width)
            means = [item.lengths[-1].between(start, start + width) for start in starts]
            middles = [(start + min(start + width, extent) - 1) / 2 for start in starts]
            curves.append(self._curve(item, middles, means))
        grows = trained < extent
        return Curves(
            tuple(curves),
            f"{task}by position, at {lengths[-1].length}",
            x_label=_AXES.get(summaries[0].task, "place in the answer"),
            y_label="loss, in nats a token",
            spans=((0.0, trained - 1.0, "trained"),) if grows and trained > 1 else (),
            notes=(f"means of {width} places each",) if width > 1 else (),
        )

    def _by_length(self, summaries: Sequence[EncodingSummary], task: str) -> Curves:
        kind = TASKS[summaries[0].task]
        curves = [
            self._curve(
                item,
                [float(at.length) for at in item.lengths],
                [at.last for at in item.lengths],
            )
            for item in summaries
        ]
        last = last_places(self.request, kind.name)
        return Curves(
            tuple(curves),
            f"{task}over the last {_places_text(last)}",
            x_label=f"length, in {kind.unit}",
            y_label="loss, in nats a token",
            x_scale="log",
        )

    def _curve(
        self, item: EncodingSummary, places: Sequence[float], losses: Sequence[Estimate]
    ) -> Curve:
        """Return a curve of means, with their intervals if there are several seeds."""
        envelope = None
        if len(item.seeds) > 1 and len(self.summaries) <= _MOST_BANDS:
            # No loss is below 0, though Student's interval of a few seeds may extend there.
            low = tuple(max(loss.low or 0.0, 0.0) for loss in losses)
            high = tuple(loss.high or 0.0 for loss in losses)
            envelope = Envelope(low, high, "95% of the mean")
        heights = tuple(loss.mean for loss in losses)
        return Curve(tuple(places), heights, item.name, envelope=envelope)


def check_pictured(counts: Sequence[tuple[str, int]]) -> None:
    """Refuse, before training, more curves of a task than can be distinguished.

    ``counts`` has a task and a number of curves for each of its encodings.

    Raises: InvalidInput.
    """
    for task in dict.fromkeys(task for task, _ in counts):
        check_distinguishable(range(sum(count for name, count in counts if name == task)))


def _naming_columns(summaries: Sequence[EncodingSummary]) -> list[list[str]]:
    """Return the header of the columns that name a row, then the names of each row."""
    if all(item.stretch == "none" for item in summaries):
        return [["encoding"], *([item.encoding] for item in summaries)]
    return [["encoding", "stretch"], *([item.encoding, item.stretch] for item in summaries)]


def _table_ranges(lengths: Sequence[LengthSummary]) -> list[tuple[int, int]]:
    """Return parts of the longest length's axis: up to the first length, and between lengths."""
    extents = sorted({length.extent for length in lengths})
    if len(extents) > 1:
        return [*pairwise([0, *extents])]
    extent = extents[0]
    width = -(-extent // _DEPTHS)
    return [(start, min(start + width, extent)) for start in range(0, extent, width)]


def _estimate_text(loss: Estimate) -> str:
    """Return a mean and half its interval.

    >>> _estimate_text(Estimate(3, 1.3982, 0.1, 0.0249)), _estimate_text(Estimate(1, 1.3982))
    ('1.40 ±.02', '1.40')
    """
    mean = f"{loss.mean:.{_DIGITS}f}"
    if loss.half is None:
        return mean
    half = f"{loss.half:.{_DIGITS}f}"
    return f"{mean} ±{half.removeprefix('0')}"


def _places_text(count: int) -> str:
    return "place" if count == 1 else f"{count} places"


def _untrained_text(item: EncodingSummary) -> str:
    """Name the untrained parts of a learned table that some length uses."""
    met = items_by_key(
        (each.untrained, str(each.length)) for each in item.lengths if each.untrained
    )
    if not met:
        return ""
    parts = [f"{what} at {', '.join(lengths)}" for what, lengths in met.items()]
    return f"{item.name}: used in tests without training: {'; '.join(parts)}."
