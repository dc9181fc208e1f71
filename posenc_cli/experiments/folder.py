"""Read and write a run folder: the request, and the results of its jobs.

``request.json`` is the request, and ``results/KEY.json`` the result of a job. Each file appears
only when complete. No times are stored, so the same request gives the same bytes.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.experiments.request import ExperimentRequest, Job, JobResult
from posenc_cli.experiments.setting import changed_source
from posenc_cli.files.atomic import check_free_folder, replacing
from posenc_cli.records import Record, replace
from posenc_cli.transaction import note_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


_REQUEST = "request.json"
_LARGEST_FILE = 1 << 28
"""Most bytes of a file. A result of 8192 tokens at every length and context extension takes a
tenth."""


class RunFolder(Record):
    """The folder of a request's run."""

    path: Path
    request: ExperimentRequest

    @classmethod
    def made(cls, path: Path, request: ExperimentRequest) -> RunFolder:
        """Make a new folder for a request.

        Raises: InvalidInput if it exists and is not empty; Unavailable if it cannot be made.
        """
        folder = cls(path, request)
        new = not path.exists()
        with folder._writable():
            check_free_folder(
                str(path),
                f"--out {quoted_name(path)}",
                hint="--resume continues a run; a new run needs an empty folder",
            )
            path.mkdir(parents=True, exist_ok=True)
        try:
            write_json(folder.request_path, request.fields())
        except BaseException:
            if new:
                with suppress(OSError):
                    path.rmdir()
            raise
        folder.make_room()  # last, because a run can resume from a request alone
        return folder

    @contextmanager
    def _writable(self) -> Iterator[None]:
        """Turn an OSError in the block into Unavailable, which names the folder."""
        try:
            yield
        except OSError as error:
            raise Unavailable(f"--out {quoted_name(self.path)}: {error.strerror}") from error

    def make_room(self) -> None:
        """Make the folder of results, if there is none."""
        with self._writable():
            (self.path / "results").mkdir(exist_ok=True)

    @classmethod
    def found(cls, path: Path) -> RunFolder:
        """Return the folder of an existing run, to resume it or to read its results.

        Raises: Unavailable if there is none; InvalidInput if posenc did not write it.
        """
        if not (place := path / _REQUEST).exists():
            raise Unavailable(
                f"--resume: {quoted_name(path)} holds no run ({_REQUEST} is missing)",
                hint="without --resume, --out starts a new run",
            )
        try:
            return cls(path, ExperimentRequest.from_fields(_json_of(place)))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InvalidInput(f"{quoted_name(place)} is not an experiment's request") from error

    @property
    def request_path(self) -> Path:
        """The file of the request."""
        return self.path / _REQUEST

    def check_same(self, request: ExperimentRequest) -> None:
        """Check that another request equals this folder's.

        Raises: InvalidInput, which names the first difference.
        """
        for one, two in zip(self.request.encodings, request.encodings, strict=False):
            if one != two and replace(one, digest=two.digest) == two:
                raise changed_source(one)
        mine, other = self.request.fields(), request.fields()
        for name in mine:
            if mine[name] != other[name]:
                raise InvalidInput(
                    f"{quoted_name(self.path)} was made with other {name.replace('_', ' ')}: "
                    f"{_short(mine[name])}, not {_short(other[name])}"
                )

    def keep(self, job: Job, result: JobResult) -> None:
        """Save the result of a job."""
        write_json(self._result_path(job), result.fields())

    def result(self, job: Job) -> JobResult | None:
        """Return the result of a job, or None if the job has not finished.

        Raises: InvalidInput if posenc did not write the file.
        """
        place = self._result_path(job)
        if not place.exists():
            return None
        try:
            result = JobResult.from_fields(_json_of(place))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise _no_result(place) from error
        lengths = list(job.request.lengths(result.trained))
        if result.key != job.key or any(
            [item.length for item in run.lengths] != lengths for run in result.runs
        ):
            raise _no_result(place)
        return result

    def missing(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs that have not finished."""
        return [job for job in jobs if self.result(job) is None]

    def _result_path(self, job: Job) -> Path:
        return self.path / "results" / f"{job.key}.json"


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a complete file now, even if the run fails later."""

    def write() -> None:
        with replacing(path) as stream:
            stream.write(f"{json.dumps(fields, indent=1, sort_keys=True)}\n".encode())

    Context().run(write)  # outside this run's transaction, which names files only at its end


def _json_of(path: Path) -> Any:
    try:
        note_read(path)
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInput(f"{quoted_name(path)}: {error.strerror}") from error
    if len(content) > _LARGEST_FILE:
        raise InvalidInput(f"{quoted_name(path)} is larger than {_LARGEST_FILE >> 20} MiB")
    return json.loads(content)


def _no_result(place: Path) -> InvalidInput:
    return InvalidInput(
        f"{quoted_name(place)} is not a result of this job", hint="remove it to run the job again"
    )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
