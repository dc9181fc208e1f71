"""The request of an experiment, its jobs, and their results.

Both are plain values, so that a run folder, a process and a machine elsewhere hold the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from posenc_cli.formulas.context_extension.stretches import NONE, STRETCHES
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


WINDOW, CLIP, LOG_N, LINEAR = "window", "clip", "log-n", "linear"
OF_THE_MODEL = (WINDOW, LOG_N)
"""Stretches that change what a query sees, whatever the encoding is."""
STRETCH_NAMES = (NONE, *STRETCHES, WINDOW, CLIP, LOG_N)

MOST_SEEDS, MOST_STEPS, MOST_BATCH = 1000, 1 << 20, 1 << 12
MOST_SEEDS_A_JOB = 5
"""Seeds that are trained as one batched model where nothing else is said."""


class EncodingRequest(Record):
    """An encoding to train: its parts, each a scheme's name and the parameters given for it.

    ``label`` names it among the others of its request, and so in every result. ``digest`` is of the
    code and the tables that are not posenc's own: see `setting.source_digest`.
    """

    label: str
    parts: tuple[tuple[str, Mapping[str, Any]], ...]
    digest: str | None = None

    @property
    def name(self) -> str:
        """The names of its schemes, joined by ``+``."""
        return "+".join(name for name, _ in self.parts)


class ModelSize(Record):
    """How large the transformers are: ``layers`` of ``heads`` heads of ``head_dim`` columns."""

    layers: int = 2
    heads: int = 4
    head_dim: int = 16

    @property
    def width(self) -> int:
        """The columns of a row of the model."""
        return self.heads * self.head_dim

    def __str__(self) -> str:
        return f"{self.layers}x{self.heads}x{self.head_dim}"


LARGEST_SIZE = ModelSize(16, 64, 256)


class ExperimentRequest(Record):
    """What to train and where to test it.

    Lengths are in the units of a task. Without ``trained`` each task has its own; ``tests`` are
    lengths, or with an ``x`` as many times the trained one. ``last`` is how many of the last places
    are averaged, half of the trained length unless said. ``text`` is the path of a text to model in
    place of posenc's own, ``digest`` its SHA-256. ``positions`` is the number that training draws
    its positions below, where they are drawn at random.
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
    text: str | None = None
    digest: str | None = None
    positions: int | None = None
    seeds_per_job: int = MOST_SEEDS_A_JOB
    device: str = "cpu"

    def jobs(self) -> tuple[Job, ...]:
        """Every job, in one order: by task, then by encoding, then by block of seeds."""
        return tuple(
            Job(self, task, place, range(first, min(first + self.seeds_per_job, self.seeds)))
            for task in self.tasks
            for place in range(len(self.encodings))
            for first in range(0, self.seeds, self.seeds_per_job)
        )

    def lengths(self, trained: int) -> tuple[int, ...]:
        """The trained length and those of the tests, each once, the shortest first."""
        numbers = {
            int(text.removesuffix("x")) * (trained if text.endswith("x") else 1)
            for text in self.tests
        }
        return tuple(sorted({trained, *numbers}))

    def fields(self) -> dict[str, Any]:
        """The request as JSON has it."""
        fields = self.as_dict()
        fields["encodings"] = [
            item.as_dict() | {"parts": [[name, dict(given)] for name, given in item.parts]}
            for item in self.encodings
        ]
        return fields | {"size": str(self.size)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ExperimentRequest:
        """The request that `fields` gave.

        Raises: KeyError, TypeError, ValueError where that is no request.
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

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that differ wherever requests do."""
        text = json.dumps(self.fields(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Check that values are such as a command line could give.

    Raises: KeyError, TypeError, ValueError.
    """
    _check_form(fields, _REQUEST)
    sizes = [int(number) for number in fields["size"].split("x")]
    largest = LARGEST_SIZE.layers, LARGEST_SIZE.heads, LARGEST_SIZE.head_dim
    most = {"seeds": MOST_SEEDS, "seeds_per_job": MOST_SEEDS}
    most |= {"steps": MOST_STEPS, "batch": MOST_BATCH}
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
    """What is trained together: an encoding on a task, for some seeds, and then tested."""

    request: ExperimentRequest
    task: str
    place: int
    seeds: range

    @property
    def encoding(self) -> EncodingRequest:
        """What it trains."""
        return self.request.encodings[self.place]

    @property
    def key(self) -> str:
        """A name for its files, of no two jobs of a request the same.

        >>> request = ExperimentRequest((EncodingRequest("rope base=1", (("rope", {}),)),))
        >>> request.jobs()[0].key
        'text-0-rope-base-1-seeds-0-2'
        """
        label = re.sub(r"[^A-Za-z0-9]+", "-", self.encoding.label)[:40].strip("-").lower()
        seeds = f"seeds-{self.seeds.start}-{self.seeds[-1]}"
        return f"{self.task}-{self.place}-{label}-{seeds}"


DIGITS = 6
"""Decimals of a loss that are kept."""


class LengthLosses(Record):
    """How a trained model does at a length: losses in nats a token, over what a task scores.

    ``loss`` is the mean over sequences that do not overlap, ``last`` that over their last places,
    which of a text are windows that slide by as many. ``by_position`` has the mean at each place of
    the task's axis. ``accuracy`` is the share of right answers, of a task that has some: of
    sequences that are right as a whole, or of symbols at the last places. ``untrained`` names what
    of a learned table is met there and never was in training.
    """

    length: int
    loss: float
    last: float
    by_position: tuple[float, ...]
    accuracy: float | None = None
    untrained: str | None = None


class RunResult(Record):
    """How the model of one seed does at each length, under an extension.

    ``learnt`` is whether it crossed what its task asks of a model that is to be judged: ``reason``
    says its value and what it was compared with. ``induction`` is by how many nats it foretells a
    piece of text better where it stands a second time.
    """

    encoding: str
    scheme: str
    stretch: str
    task: str
    seed: int
    learnt: bool
    reason: str
    induction: float | None
    lengths: tuple[LengthLosses, ...]

    def at(self, length: int) -> LengthLosses:
        """The result at a length that was asked for."""
        return next(result for result in self.lengths if result.length == length)


class JobResult(Record):
    """What a job found: its runs, the training losses of its seeds, and what it ran with.

    ``training`` has a row for every tenth step: the step, then each seed's loss.
    """

    key: str
    trained: int
    runs: tuple[RunResult, ...]
    training: tuple[tuple[float, ...], ...]
    environment: Mapping[str, str]

    def fields(self) -> dict[str, Any]:
        """The result as JSON has it."""
        runs = [
            run.as_dict() | {"lengths": [result.as_dict() for result in run.lengths]}
            for run in self.runs
        ]
        return self.as_dict() | {"runs": runs}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> JobResult:
        """The result that `fields` gave.

        Raises: KeyError, TypeError, ValueError where that is no result.
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
    **dict.fromkeys(("seeds", "steps", "batch", "seeds_per_job"), (int,)),
    **dict.fromkeys(("trained", "last", "positions"), (int, _NONE)),
    **dict.fromkeys(("text", "digest"), (str, _NONE)),
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
"""The types of what a file may hold: ``[form]`` is a list, ``{str: form}`` any names."""


def _check_form(value: Any, form: Any) -> None:
    """Check the types of plain values, of which a file may have any.

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
