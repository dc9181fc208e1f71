"""The request of an experiment, its jobs, and their results.

All are plain values, so that run folders, processes and other machines hold the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from posenc_cli.formulas.context_extension.stretches import NONE, STRETCHES
from posenc_cli.records import Record

WINDOW, CLIP, LOG_N, LINEAR = "window", "clip", "log-n", "linear"
OF_THE_MODEL = (WINDOW, LOG_N)
"""Context extensions that change what a query sees, for any encoding."""
STRETCH_NAMES = (NONE, *STRETCHES, WINDOW, CLIP, LOG_N)

MOST_SEEDS, MOST_STEPS, MOST_BATCH = 31, 1 << 20, 1 << 12
TRAINED = {"text": 100, "copy": 20, "first": 100, "needle": 100, "sorting": 8}
"""The tasks, and the length at which each trains by default."""
SEEDS_A_JOB = 5
"""The number of seeds to train as one batched model."""


class EncodingRequest(Record):
    """An encoding to train: its parts, each a scheme's name and its given parameters.

    ``label`` identifies it within its request, and so in every result. ``digest`` covers code and
    tables that are not posenc's own: see `setting.source_digest`.
    """

    label: str
    parts: tuple[tuple[str, Mapping[str, Any]], ...]
    digest: str | None = None

    @property
    def name(self) -> str:
        """The names of its schemes, joined by ``+``."""
        return "+".join(name for name, _ in self.parts)


class ModelSize(Record):
    """The size of the transformers: ``layers``, ``heads`` and ``head_dim``."""

    layers: int = 2
    heads: int = 4
    head_dim: int = 16

    @property
    def width(self) -> int:
        """The dimension of the model."""
        return self.heads * self.head_dim

    def __str__(self) -> str:
        return f"{self.layers}x{self.heads}x{self.head_dim}"


LARGEST_SIZE = ModelSize(16, 64, 256)


class ExperimentRequest(Record):
    """The models to train, and the lengths at which to test them.

    Lengths are in the units of a task. Without ``trained``, each task uses its own length.
    ``tests`` are lengths, or multiples of the trained length if they end in ``x``. ``last`` is the
    number of last positions to average over, by default half of the trained length. With
    ``positions``, training draws random positions below that number.
    """

    encodings: tuple[EncodingRequest, ...]
    tasks: tuple[str, ...] = ("text",)
    trained: int | None = None
    tests: tuple[str, ...] = ("2x", "4x", "8x")
    stretches: tuple[str, ...] = (NONE,)
    seeds: int = 3
    steps: int = 1000
    batch: int = 16
    size: ModelSize = ModelSize()
    learning_rate: float = 3e-3
    last: int | None = None
    positions: int | None = None
    device: str = "cpu"

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, ordered by task, then by encoding, then by block of seeds."""
        return tuple(
            Job(self, task, place, range(first, min(first + SEEDS_A_JOB, self.seeds)))
            for task in self.tasks
            for place in range(len(self.encodings))
            for first in range(0, self.seeds, SEEDS_A_JOB)
        )

    def lengths(self, trained: int) -> tuple[int, ...]:
        """Return the trained length and the test lengths, each once, in ascending order."""
        numbers = {
            int(text.removesuffix("x")) * (trained if text.endswith("x") else 1)
            for text in self.tests
        }
        return tuple(sorted({trained, *numbers}))

    def fields(self) -> dict[str, Any]:
        """Return the request as JSON fields."""
        fields = self.as_dict()
        fields["encodings"] = [
            item.as_dict() | {"parts": [[name, dict(given)] for name, given in item.parts]}
            for item in self.encodings
        ]
        return fields | {"size": str(self.size)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ExperimentRequest:
        """Return the request with these `fields`.

        Raises: KeyError, TypeError, ValueError if they are not a request.
        """
        _check_fields(fields)
        encodings = tuple(
            EncodingRequest(
                item["label"],
                tuple((name, given) for name, given in item["parts"]),
                item.get("digest"),
            )
            for item in fields["encodings"]
        )
        tuples = {name: tuple(fields[name]) for name in ("tasks", "tests", "stretches")}
        size = ModelSize(*map(int, fields["size"].split("x")))
        return cls(**{**fields, **tuples, "encodings": encodings, "size": size})


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Check that values are ones that a command line could give.

    Raises: KeyError, TypeError, ValueError.
    """
    _check_form(fields, _REQUEST)
    sizes = [int(number) for number in fields["size"].split("x")]
    largest = LARGEST_SIZE.layers, LARGEST_SIZE.heads, LARGEST_SIZE.head_dim
    most = {"seeds": MOST_SEEDS, "steps": MOST_STEPS, "batch": MOST_BATCH}
    most |= dict.fromkeys(("trained", "last", "positions"), (1 << 53) - 1)
    if not (
        all(fields[name] is None or 1 <= fields[name] <= limit for name, limit in most.items())
        and all(1 <= size <= limit for size, limit in zip(sizes, largest, strict=True))
        and 0 < fields["learning_rate"] <= 1
        and all(re.fullmatch("[1-9][0-9]{0,14}x?", test, re.ASCII) for test in fields["tests"])
        and fields["tasks"]
        and fields["encodings"]
        and all(item["parts"] for item in fields["encodings"])
    ):
        raise ValueError


class Job(Record):
    """One encoding on one task, trained for some seeds together and then tested."""

    request: ExperimentRequest
    task: str
    place: int
    seeds: range

    @property
    def encoding(self) -> EncodingRequest:
        """The encoding to train."""
        return self.request.encodings[self.place]

    @property
    def key(self) -> str:
        """A name for its files, unique within a request.

        >>> request = ExperimentRequest((EncodingRequest("rope base=1", (("rope", {}),)),))
        >>> request.jobs()[0].key
        'text-0-rope-base-1-seeds-0-2'
        """
        label = re.sub(r"[^A-Za-z0-9]+", "-", self.encoding.label)[:40].strip("-").lower()
        return f"{self.task}-{self.place}-{label}-seeds-{self.seeds.start}-{self.seeds[-1]}"


DIGITS = 6
"""Decimals to which losses are rounded."""


class LengthLosses(Record):
    """The losses of a trained model at one length, in nats per token that the task scores.

    ``loss`` is the mean over sequences that do not overlap. ``last`` is the mean over their last
    positions; for a text, these are windows that advance by that many positions. ``by_position``
    has the mean at each point of the task's axis. ``accuracy``, for tasks with answers, is the
    share of sequences that are entirely right, or of right symbols at the last positions.
    ``untrained`` names the entries of a learned table that are used at this length but never in
    training.
    """

    length: int
    loss: float
    last: float
    by_position: tuple[float, ...]
    accuracy: float | None = None
    untrained: str | None = None


class TestedEncoding(Record):
    """A trained and tested encoding: its label, its schemes, its context extension and its task."""

    encoding: str
    scheme: str
    stretch: str
    task: str


class RunResult(TestedEncoding):
    """The results of one seed's model at each length, under one context extension.

    ``learnt`` is whether it passed its task's threshold, without which it is not judged. ``reason``
    has its value and the threshold. ``induction`` is how many nats better it predicts a piece of
    text the second time.
    """

    seed: int
    learnt: bool
    reason: str
    induction: float | None
    lengths: tuple[LengthLosses, ...]

    def at(self, length: int) -> LengthLosses:
        """Return the result at a tested length."""
        return next(result for result in self.lengths if result.length == length)


class JobResult(Record):
    """The result of a job: its runs, the training losses of its seeds, and its environment.

    ``training`` has a row for every tenth step: the step, then each seed's loss.
    """

    key: str
    trained: int
    runs: tuple[RunResult, ...]
    training: tuple[tuple[float, ...], ...]
    environment: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        """Return the result as JSON fields."""
        runs = [
            run.as_dict() | {"lengths": [result.as_dict() for result in run.lengths]}
            for run in self.runs
        ]
        return self.as_dict() | {"runs": runs}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> JobResult:
        """Return the result with these `fields`.

        Raises: KeyError, TypeError, ValueError if they are not a result.
        """
        _check_form(fields, _RESULT)
        runs = tuple(
            RunResult(
                **{
                    **run,
                    "lengths": tuple(
                        LengthLosses(**{**item, "by_position": tuple(item["by_position"])})
                        for item in run["lengths"]
                    ),
                }
            )
            for run in fields["runs"]
        )
        training = tuple(tuple(row) for row in fields["training"])
        return cls(**{**fields, "runs": runs, "training": training})


_NONE = type(None)
_NUMBER = (int, float)
_REQUEST = {
    **dict.fromkeys(("seeds", "steps", "batch"), (int,)),
    **dict.fromkeys(("trained", "last", "positions"), (int, _NONE)),
    **{name: [(str,)] for name in ("tasks", "tests", "stretches")},
    "size": (str,),
    "device": (str,),
    "learning_rate": (float,),
    "encodings": [{"label": (str,), "parts": [((str,), {str: (str, int, float, bool, _NONE)})]}],
}
_RESULT = {
    "key": (str,),
    "trained": (int,),
    "training": [[_NUMBER]],
    "environment": {str: (str,)},
    "runs": [
        {
            **dict.fromkeys(("encoding", "scheme", "stretch", "task", "reason"), (str,)),
            "seed": (int,),
            "learnt": (bool,),
            "induction": (*_NUMBER, _NONE),
            "lengths": [
                {
                    "length": (int,),
                    "loss": _NUMBER,
                    "last": _NUMBER,
                    "by_position": [_NUMBER],
                    "accuracy": (*_NUMBER, _NONE),
                    "untrained": (str, _NONE),
                }
            ],
        }
    ],
}
"""The types of a file's values: ``[form]`` is a list, ``{str: form}`` a dict with any keys."""


def _check_form(value: Any, form: Any) -> None:
    """Check the types of plain values, because a file may hold any.

    Raises: KeyError, TypeError, ValueError.
    """
    if isinstance(form, list):
        for item in value:
            _check_form(item, form[0])
    elif isinstance(form, dict):
        for name in value if str in form else form:
            _check_form(value[name], form.get(name, form.get(str)))
    elif isinstance(form[0], tuple):
        for item, own in zip(value, form, strict=True):
            _check_form(item, own)
    elif type(value) not in form:
        raise TypeError
