"""What an experiment is asked for, and the jobs that it comes to.

A request is plain values, so that a run folder, a process and a machine elsewhere hold the same.
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
    code and the tables that are not posenc's own: see `experiments.sources`.
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
    most = dict.fromkeys(("seeds", "seeds_per_job"), MOST_SEEDS)
    most |= {"steps": MOST_STEPS, "batch": MOST_BATCH}
    optional = [name for name in ("trained", "last", "positions") if fields[name] is not None]
    texts = [fields["device"], fields["size"], *fields["tasks"], *fields["stretches"]]
    texts += [fields[name] for name in ("text", "digest") if fields[name] is not None]
    for item in fields["encodings"]:
        texts += [item["label"], *(name for name, _ in item["parts"])]
        for _, given in item["parts"]:
            texts += [*given, *(text for text in given.values() if isinstance(text, str))]
            if any(isinstance(value, (dict, list)) for value in given.values()):
                raise ValueError
    sizes = [int(number) for number in fields["size"].split("x")]
    largest = LARGEST_SIZE.layers, LARGEST_SIZE.heads, LARGEST_SIZE.head_dim
    if not (
        all(type(fields[name]) is int and 1 <= fields[name] <= most[name] for name in most)
        and all(type(fields[name]) is int and 1 <= fields[name] < 1 << 53 for name in optional)
        and all(1 <= size <= limit for size, limit in zip(sizes, largest, strict=True))
        and type(fields["learning_rate"]) is float
        and 0 < fields["learning_rate"] <= 1
        and all(isinstance(text, str) for text in texts)
        and all(re.fullmatch("[1-9][0-9]{0,14}x?", test, re.ASCII) for test in fields["tests"])
        and fields["tasks"]
        and fields["encodings"]
        and all(item["parts"] for item in fields["encodings"])
    ):
        raise ValueError


class Job(Record):
    """What is trained at once: an encoding on a task, for some seeds, and then tested."""

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
