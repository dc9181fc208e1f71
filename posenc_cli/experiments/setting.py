"""Check the setting of a job: its task, its lengths, and its encoding in the model.

An encoding may also come from files: a user's code, and trained tables.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

from posenc_cli import catalogue
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.experiments.request import SEEDS_A_JOB, EncodingRequest, ExperimentRequest, Job
from posenc_cli.experiments.summary import last_places, trained_length
from posenc_cli.experiments.tables import EncodingPart, applies, parts_of
from posenc_cli.experiments.tasks import Task, task_of
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from pathlib import Path

    from posenc_cli.formulas.declare import Scheme


def source_digest(request: EncodingRequest) -> str | None:
    """Return the SHA-256 of an encoding's code and tables, or None if all is posenc's own.

    Raises: InvalidInput; Unavailable if one cannot be read.
    """
    parts = []
    for name, given in request.parts:
        scheme = catalogue.find(name)
        if scheme.origin is not None:
            parts.append(_source_of(scheme))
        if scheme.weights is not None and given.get("weights") is not None:
            from posenc_cli.encoding.weights import LoadedTable

            parts.append(LoadedTable.read(given["weights"], scheme.weights).values.tobytes())
    if not parts:
        return None
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def changed_source(request: EncodingRequest) -> InvalidInput:
    """Return the error for an encoding whose code or tables have changed since its run began."""
    return InvalidInput(
        f"--scheme {request.label}: its code or its table has changed since the run began",
        hint="start a new run to use the files as they are now",
    )


def check_names_no_code(request: ExperimentRequest, place: Path) -> None:
    """Reject code that only the file ``place`` names: a file is data, and must not run code.

    Raises: InvalidInput.
    """
    parts = [part for encoding in request.encodings for part in encoding.parts]
    code = [name for name, _ in parts if name not in catalogue.BUILT_IN]
    if code:
        raise InvalidInput(
            f"{quoted_name(place)} names the code of a scheme, {abbreviated(code[0])}; "
            "--resume runs only code that the command line names too",
            hint="if you trust it, repeat all -s and --set of the run",
        )


def _source_of(scheme: Scheme) -> bytes:
    """Return the content of the file that declares a user's scheme; empty if there is none."""
    path = getattr(sys.modules.get(scheme.build.__module__), "__file__", None)
    if path is None:
        return b""
    with open_input(path) as file:
        return file.read()


LONGEST = 1 << 13
"""Largest number of tokens of a sequence; the number of scores is its square."""
STEP_SCORES = 1 << 27
"""Largest number of scores of a training step: half a GiB in float32; a step needs a few copies."""


class JobSetting(Record):
    """The task of a job, its lengths in the task's unit, and the number of last positions averaged.

    ``stretches`` are the requested context extensions that change this encoding.
    """

    task: Task
    trained: int
    lengths: tuple[int, ...]
    last: int
    parts: tuple[EncodingPart, ...]
    stretches: tuple[str, ...]

    @classmethod
    def of(cls, job: Job) -> JobSetting:
        """Return the checked setting of a job.

        Raises: InvalidInput if its request names something that does not exist.
        """
        request = job.request
        if source_digest(job.encoding) != job.encoding.digest:
            raise changed_source(job.encoding)
        task = task_of(job.task)
        trained = trained_length(request, job.task)
        lengths = request.lengths(trained)
        last = last_places(request, job.task)
        if lengths[0] < trained:
            raise InvalidInput(f"--test {lengths[0]} is shorter than --train {trained}")
        if last > trained:
            raise InvalidInput(f"--last {last} is more than --train {trained}")
        longest = task.tokens(lengths[-1])
        check_size(f"--test {lengths[-1]}", longest, LONGEST, "columns of a sequence")
        for length in lengths:
            task.check(length, last)
        _check_positions(request, longest)
        reach = longest if request.positions is None else request.positions
        parts = parts_of(job.encoding, request.size, reach)
        stretches = tuple(name for name in request.stretches if applies(name, parts))
        setting = cls(task, trained, lengths, last, parts, stretches)
        setting._check_step(job)
        return setting

    def _check_step(self, job: Job) -> None:
        """Reject a training step that would not fit in memory."""
        request = job.request
        columns = self.task.tokens(self.trained)
        seeds = min(request.seeds, SEEDS_A_JOB)
        check_size(
            f"--train {self.trained} --batch {request.batch}",
            seeds * request.batch * request.size.heads * columns**2,
            STEP_SCORES,
            "scores of a step",
        )
        tables = [part.learnable for part in self.parts]
        check_size(
            f"--scheme {job.encoding.label}",
            seeds * sum(table.rows * table.columns for table in tables if table is not None),
            HELD_VALUES,
            "learned numbers",
        )


def _check_positions(request: ExperimentRequest, longest: int) -> None:
    limit = request.positions
    if limit is None:
        return
    check_size(f"--randomize {limit}", limit, LONGEST, "positions")
    if limit < longest:
        raise InvalidInput(
            f"--randomize {limit}: must be at least {longest}, the positions of the longest test"
        )
    extensions = [name for name in request.stretches if name != "none"]
    if extensions:
        raise InvalidInput(f"--randomize {limit}: no context extension applies to drawn positions")
