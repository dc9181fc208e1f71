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
from typing import Any

_LAST_SECONDS = 10.0
"""How long a checkpoint may take once the parent has gone."""


def main() -> int:
    """Run the job that standard input names; 0 where it has a result, 1 where it has none."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    unwanted = threading.Event()
    with open(0, "rb", buffering=0, closefd=False) as given:
        asked = json.loads(given.readline())
    threading.Thread(target=_watch, args=(unwanted,), daemon=True).start()

    def progress(done: int, total: int) -> None:
        if unwanted.is_set():
            raise _UnwantedResult
        try:
            answers.write(json.dumps({"done": done, "total": total}) + "\n")
        except OSError:
            raise _UnwantedResult from None

    from posenc_cli.errors import PosencError
    from posenc_cli.experiments.request import ExperimentRequest
    from posenc_cli.experiments.run import run_job

    answer: dict[str, Any]
    try:
        job = ExperimentRequest.from_fields(asked["request"]).jobs()[asked["place"]]
        checkpoint = asked["checkpoint"]
        result = run_job(job, None if checkpoint is None else Path(checkpoint), progress)
        answer = {"result": result.fields()}
    except PosencError as error:
        answer = {"error": error.message, "hint": error.hint, "status": error.status}
    except _UnwantedResult:
        return 1
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    return 0


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
