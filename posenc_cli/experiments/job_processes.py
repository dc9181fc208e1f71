"""Run jobs in processes of this machine.

A job gives the same result in the same environment. Results are saved as they arrive, so that
nothing is lost if a run stops early.

This module is also the process that runs one job. It reads the job as a line of JSON from standard
input, and answers in lines of JSON: the number of steps done, then the result or an error. It ends
when nobody reads its answers. What user code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from posenc_cli import interrupts
from posenc_cli.encoding.engine import processors
from posenc_cli.errors import InvalidInput, PosencError, Unavailable
from posenc_cli.experiments.request import ExperimentRequest, Job, JobResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.experiments.folder import RunFolder

    Progress = Callable[[int, int], object]
    """A function that gets the number of steps done and the number of all steps, over all jobs."""


def main() -> int:
    """Run the job on standard input; return 0, or 1 if the parent has ended."""
    answers = os.dup(1)
    os.dup2(2, 1)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # the parent ended first
        return 1

    def write(words: Mapping[str, object]) -> None:
        rest = json.dumps(words).encode() + b"\n"
        while rest:
            rest = rest[os.write(answers, rest) :]

    try:
        write(_job_answer(**json.loads(line), write=write))
    except BrokenPipeError:  # the parent ended
        return 1
    return 0


def _job_answer(
    request: Mapping[str, Any], place: int, write: Callable[[Mapping[str, object]], None]
) -> dict[str, object]:
    """Run a job of a request, and return its result or its error."""
    from posenc_cli.experiments.run import run_job

    try:
        job = ExperimentRequest.from_fields(request).jobs()[place]
        result = run_job(job, lambda done, total: write({"done": done, "total": total}))
    except PosencError as error:
        return {"error": error.message, "hint": error.hint, "status": error.status}
    return {"result": result.fields()}


_WORKER = "posenc_cli.experiments.job_processes"
"""This module, as a process."""

_SECONDS_TO_SIGNALS = 0.25
"""Longest delay before a signal is handled."""


def run_jobs(
    jobs: Sequence[Job],
    folder: RunFolder,
    progress: Progress | None = None,
    *,
    workers: int | None = None,
) -> None:
    """Run each job in a process with one thread, and save their results in the folder.

    ``workers`` processes run at a time, by default one per core. If this process dies, its workers
    end.

    Raises: what a job raises; Unavailable if a job's process dies.
    """
    steps = _Steps(jobs, progress)
    stopped = threading.Event()
    with ThreadPoolExecutor(workers or processors()) as pool:
        futures = [pool.submit(_run_in_process, job, folder, steps, stopped) for job in jobs]
        try:
            running = True
            while running:  # a signal that arrives as the wait begins is handled after it
                done, rest = wait(futures, _SECONDS_TO_SIGNALS, FIRST_EXCEPTION)
                running = bool(rest) and all(future.exception() is None for future in done)
        finally:
            stopped.set()  # the jobs that still run are cancelled
            pool.shutdown(cancel_futures=True)
        for future in done:
            future.result()  # raises what the job raised


class _Steps:
    """Number of steps done, over all jobs."""

    def __init__(self, jobs: Sequence[Job], progress: Progress | None) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._done = dict.fromkeys((job.key for job in jobs), 0)
        self._total = {job.key: job.request.steps for job in jobs}

    def report(self, job: Job, done: int, total: int) -> None:
        with self._lock:
            self._done[job.key], self._total[job.key] = done, total
            if self._progress is not None:
                self._progress(sum(self._done.values()), sum(self._total.values()))


def _run_in_process(job: Job, folder: RunFolder, steps: _Steps, stopped: threading.Event) -> None:
    answer, status = _ask_process(job, steps, stopped)
    if stopped.is_set():  # the job was cancelled
        return
    if answer is None:
        raise Unavailable(
            f"the process of {job.key} ended without a result ({_ending_text(status)})",
            hint="--workers 1 needs the least memory; --resume runs the jobs that have no result",
        )
    folder.keep(job, JobResult.from_fields(_checked_result(answer)))


def _ask_process(
    job: Job, steps: _Steps, stopped: threading.Event
) -> tuple[Mapping[str, Any] | None, int]:
    """Return the last answer of a job's process, or None, and its exit status."""
    asked = {"request": job.request.fields(), "place": job.request.jobs().index(job)}
    process = subprocess.Popen(
        [sys.executable, "-m", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C in a terminal is for this process alone
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answer = None
    # Its input ends with this process, but it reads no input while it imports torch.
    interrupts.clean_up_by(process.kill)
    with process:
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                words = json.loads(line)
                if "done" in words:
                    steps.report(job, words["done"], words["total"])
                else:
                    answer = words
                if stopped.is_set():
                    break
        except (BrokenPipeError, ValueError):
            answer = None  # it died within a line, or before its first
        finally:
            interrupts.clean_up_no_more_by(process.kill)
            process.stdout.close()
    return answer, process.returncode


def _checked_result(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result that a worker gave.

    Raises: the worker's error.
    """
    if "result" in answer:
        return answer["result"]  # type: ignore[no-any-return]
    kinds = {kind.status: kind for kind in (InvalidInput, Unavailable)}
    raise kinds.get(answer["status"], PosencError)(answer["error"], hint=answer["hint"])


def _ending_text(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"


if __name__ == "__main__":
    sys.exit(main())
