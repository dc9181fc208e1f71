"""Jobs in processes: results as of one process, whatever dies on the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.experiments.folder import RunFolder
from posenc_cli.experiments.job_processes import run_jobs
from posenc_cli.experiments.run import run_job
from tests.experiments.small import request
from tests.processes import PATIENCE, UNMEASURED, await_that, spawn

ROOT = Path(__file__).parents[2]
LONG = 10**6
"""Steps that no test waits for."""


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for task in tasks for number in task.read_text().split()]


def eventually(condition, seconds: float = 60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it never came to be")


@pytest.mark.slow
def test_processes_find_what_one_process_finds(tmp_path):
    asked = request("rope", "alibi", stretches=("none", "window"))
    folder = RunFolder.made(tmp_path / "run", asked)
    told: list[tuple[int, int]] = []
    run_jobs(asked.jobs(), folder, lambda done, total: told.append((done, total)), workers=2)
    assert [folder.result(job) for job in asked.jobs()] == [run_job(job) for job in asked.jobs()]
    assert told[-1][0] == told[-1][1]


@pytest.mark.slow
def test_a_worker_that_dies_is_named(tmp_path):
    asked = request("rope", steps=LONG)
    folder = RunFolder.made(tmp_path / "run", asked)

    def kill(done: int, total: int) -> None:
        for worker in children(os.getpid()):
            os.kill(worker, signal.SIGKILL)

    with pytest.raises(Unavailable, match=r"copy-0-rope-seeds-0-1 ended without a result.*SIGKILL"):
        run_jobs(asked.jobs(), folder, kill, workers=1)


@pytest.mark.slow
def test_what_a_worker_refuses_is_raised_here(tmp_path):
    asked = request("rope", steps=LONG, tests=("5",))
    folder = RunFolder.made(tmp_path / "run", asked)
    with pytest.raises(InvalidInput, match="--test 5 is shorter than --train 8"):
        run_jobs(asked.jobs(), folder, workers=1)


_RUN = """
import signal, sys, threading
from pathlib import Path
from posenc_cli import interrupts
from posenc_cli.experiments.folder import RunFolder
from posenc_cli.experiments.job_processes import run_jobs
interrupts.handle()
folder = RunFolder.found(Path(sys.argv[1]))
run_jobs(folder.request.jobs(), folder, {progress}, workers=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, number):
    folder = RunFolder.made(tmp_path / "run", request("rope", "nope", steps=LONG))
    command = [sys.executable, "-c", _RUN.format(progress="print"), str(folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        workers = eventually(lambda: len(all_ := children(parent.pid)) == 2 and all_)
        parent.stdout.readline()
        parent.send_signal(number)
    eventually(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers))
    assert not any((folder.path / "results").iterdir())


@pytest.mark.slow
def test_a_signal_that_wakes_no_waiting_thread_is_handled(tmp_path):
    folder = RunFolder.made(tmp_path / "run", request("rope", "nope", steps=LONG))
    kill = "lambda *_: signal.pthread_kill(threading.get_ident(), signal.SIGINT)"
    command = [sys.executable, "-c", _RUN.format(progress=kill), str(folder.path)]
    with spawn(command, cwd=ROOT) as process:
        assert process.wait(PATIENCE) == 128 + signal.SIGINT


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_and_its_workers_say_nothing(tmp_path, number, kept):
    words = "extrapolate -q -s rope -s nope --size 1x1x8 --train 16 --seeds 1 --workers 2"
    words += f" --steps {LONG}{' --out run' * kept}"
    command = [sys.executable, "-m", "posenc_cli", *words.split()]
    environment = {**UNMEASURED, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with spawn(command, cwd=tmp_path, env=environment, **pipes) as process:
        await_that(lambda: len(children(process.pid)) == 2, process)
        process.send_signal(number)
        said = process.communicate(timeout=PATIENCE)  # until the workers have closed it too
    assert (process.returncode, said) == (128 + number, (b"", b""))
    assert ([*tmp_path.glob("posenc-*")], (tmp_path / "run").exists()) == ([], kept)


@pytest.mark.parametrize("asked", [b"", b'{"request": '])
def test_a_worker_whose_parent_ends_first_says_nothing(asked):
    command = [sys.executable, "-m", "posenc_cli.experiments.job_processes"]
    done = subprocess.run(command, input=asked, capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
