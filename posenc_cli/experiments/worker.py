"""A process that runs one job: it reads the job from its parent, and ends with it.

The request comes as a line of JSON on standard input, which stays open as long as the parent lives
and wants the result. Lines of JSON go back: how many steps are done, then the result, or what is
wrong. What user code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LAST_SECONDS = 10.0
"""How long a checkpoint may take once the parent has gone."""


def main() -> int:
    """Run the job that standard input names; 0 where it has a result, 1 where it has none."""
    answers = os.dup(1)
    os.dup2(2, 1)
    unwanted = threading.Event()
    with open(0, "rb", buffering=0, closefd=False) as given:
        line = given.readline()
    if not line.endswith(b"\n"):  # the parent ended first
        return 1
    asked = json.loads(line)
    threading.Thread(target=_watch, args=(unwanted,), daemon=True).start()

    def progress(done: int, total: int) -> None:
        if unwanted.is_set():
            raise _UnwantedResult
        _write(answers, {"done": done, "total": total})

    try:
        _write(answers, job_answer(**asked, progress=progress))
    except _UnwantedResult:
        return 1
    return 0


def job_answer(
    request: Mapping[str, Any],
    place: int,
    checkpoint: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, object]:
    """Run a job of a request, here or on a worker of a cluster: its result, or what is wrong."""
    from posenc_cli.errors import PosencError
    from posenc_cli.experiments.request import ExperimentRequest
    from posenc_cli.experiments.run import run_job

    try:
        job = ExperimentRequest.from_fields(request).jobs()[place]
        result = run_job(job, None if checkpoint is None else Path(checkpoint), progress)
    except PosencError as error:
        return {"error": error.message, "hint": error.hint, "status": error.status}
    return {"result": result.fields()}


def _write(descriptor: int, words: Mapping[str, object]) -> None:
    """Tell the parent some words, in a line of their own.

    Raises: _UnwantedResult where it has gone.
    """
    rest = json.dumps(words).encode() + b"\n"
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        raise _UnwantedResult from None


class _UnwantedResult(BaseException):
    """Nobody waits for the result any more."""


def _watch(unwanted: threading.Event) -> None:
    """Notice the end of standard input, and end the process if nothing else does."""
    while os.read(0, 1):  # unbuffered: a buffer's lock would be held when the interpreter ends
        pass
    unwanted.set()
    threading.Event().wait(_LAST_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
