"""Signals, several at once too: the first ends the run, and the old file or the new is there."""

import contextlib
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from tests.processes import PATIENCE, UNMEASURED, await_that, ran_code, spawn

SMALL = ["generate", "-s", "rope", "-l", "100", "-o", "a.npy"]
SLOW = ["generate", "-s", "learned", "-l", "4000000", "-d", "512", "--set", "extend=random"]
"""Draws for half a minute, so that a signal always comes in the middle."""
MANY = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGINT]


def posenc(*words: str, folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    return python("-m", "posenc_cli", *words, folder=folder)


def python(*words: str, folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return spawn([sys.executable, *words], cwd=folder, env=UNMEASURED, **pipes)


def bytes_of_temporaries(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(".posenc-*"))


def script(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Posenc, with something changed in its process first."""
    prelude = "import atexit, os, pathlib, signal, sys\n"
    entry = "from posenc_cli.__main__ import entry_point\nentry_point()\n"
    with python("-c", prelude + code + entry, *arguments, folder=folder) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_of_signals_that_arrive_together_one_ends_the_run_and_the_rest_are_ignored(tmp_path):
    target = tmp_path / "a.npy"
    target.write_bytes(b"old")
    with posenc(*SLOW, "-o", target.name, folder=tmp_path) as process:
        await_that(lambda: bytes_of_temporaries(tmp_path) > 10**5, process)
        process.send_signal(signal.SIGSTOP)
        for number in MANY:
            process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in {128 + number for number in MANY}
    assert (out, err) == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"old"


FIRST_TERM = """
def unlink(self, *rest, real=pathlib.Path.unlink, **more):
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.raise_signal(number)
    real(self, *rest, **more)
pathlib.Path.unlink = unlink
import posenc_cli.files.npy
def write(*_):
    signal.raise_signal(signal.SIGTERM)
    while True:
        pass
posenc_cli.files.npy.FORMAT.__dict__["write"] = write
"""


def test_signals_while_the_first_cleans_up_change_nothing(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"old")
    done = script(FIRST_TERM, *SMALL, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


LATE = """
from posenc_cli.cli import exits
def signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)
def replace(self, target, real=pathlib.Path.replace):
    signals()
    replaced = real(self, target)
    signals()
    return replaced
pathlib.Path.replace = replace
def main(*arguments, real=exits.main, **settings):
    status = real(*arguments, **settings)
    signals()
    return status
exits.main = main
def last():
    signals()
    # The interpreter gives back the signals that it has handlers for, and goes on for a while.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert signal.getsignal(number) == signal.SIG_IGN
atexit.register(last)
"""


def test_signals_while_the_file_takes_its_name_come_too_late(tmp_path):
    """And until the interpreter has ended: a status of 128 and more says that nothing changed."""
    (tmp_path / "a.npy").write_bytes(b"old")
    done = script(LATE, *SMALL, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert np.load(tmp_path / "a.npy").shape == (100, 64)
    assert len(list(tmp_path.iterdir())) == 1


DROPPED = """
from posenc_cli import interrupts
interrupts.handle()
class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
Dropped()
print("went on")
"""


def test_a_signal_in_a_callback_that_drops_exceptions_ends_the_run(tmp_path):
    """As in one of the import system, or of garbage collection."""
    done = script(DROPPED, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


AGAIN = """
from posenc_cli import interrupts
from posenc_cli.files.atomic import replacing
interrupts.handle()
with replacing("a.npy") as stream:
    stream.write(b"new")
signal.raise_signal(signal.SIGTERM)
print("went on")
"""


def test_after_a_file_took_its_name_signals_end_the_process_again(tmp_path):
    done = script(AGAIN, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert (tmp_path / "a.npy").read_bytes() == b"new"


def test_ctrl_c_before_the_handlers_are_set_shows_no_traceback(tmp_path):
    done = script(
        "sys.argv[0] = 'posenc'\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'posenc_cli.interrupts': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n",
        *SMALL,
        folder=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_program_that_imports_the_entry_point_keeps_its_ctrl_c():
    code = "import signal, posenc_cli.__main__; print(signal.getsignal(signal.SIGINT).__name__)"
    assert ran_code(code).stdout == "default_int_handler\n"


def test_an_ignored_signal_stays_ignored(tmp_path):
    done = script(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "atexit.register(lambda: signal.raise_signal(signal.SIGHUP))\n"
        "import posenc_cli.files.npy as npy\n"
        "def check(*_): signal.raise_signal(signal.SIGHUP)\n"
        "npy.FORMAT.__dict__['check'] = check\n",
        *SMALL,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.sweep(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_of_a_function_too(number, tmp_path):
    (tmp_path / "f.py").write_text(
        "import os, pathlib, time\n"
        "def f(x, positions):\n"
        "    pathlib.Path('new').write_text(str(os.getpid()))\n"
        "    os.rename('new', 'reached')\n"
        "    time.sleep(600)\n"
    )
    asked = ["rope-check", "-s", "rope", "-l", "8", "--impl", "./f.py:f", "--out", "a.xml"]
    with posenc(*asked, folder=tmp_path) as process:
        await_that((tmp_path / "reached").exists, process)
        for _ in range(3):
            process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert not (tmp_path / "a.xml").exists()
    assert ends((tmp_path / "reached").read_text(), within=PATIENCE)


def ends(process: str, *, within: float) -> bool:
    """Whether a process ends in so many seconds."""
    state = Path("/proc", process, "stat")
    deadline = time.monotonic() + within
    # What ended may wait for the first process of the system to ask how.
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.long
def test_a_signal_ends_the_jobs_of_an_experiment_too(tmp_path):
    """At once: importing torch, which takes a second or more, a job reads no end of its input."""
    pytest.importorskip("torch")
    asked = ("extrapolate", "-s", "rope", "--size", "1x1x8", "--train", "8", "--seeds", "1")
    with posenc(*asked, folder=tmp_path) as process:
        lists = Path("/proc", str(process.pid), "task")

        def jobs() -> list[str]:
            return [job for tasks in lists.glob("*/children") for job in tasks.read_text().split()]

        await_that(jobs, process)
        (job,) = jobs()
        time.sleep(0.3)  # it has its request, and imports torch
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert ends(job, within=0.5)


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: what reads it, and what programs write to."""
    ends = pty.openpty()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def read_until(wanted: bytes, screen: int) -> bytes:
    """What a terminal is sent, up to ``wanted``."""
    os.set_blocking(screen, False)
    deadline = time.monotonic() + PATIENCE / 4
    seen = b""
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(screen, 1 << 16)
            continue
        time.sleep(0.002)
    return seen


def fill(keyboard: int) -> None:
    """Write to a terminal that nobody reads, until it takes no byte more."""
    writer = os.open(os.ttyname(keyboard), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    taken = time.monotonic()
    while time.monotonic() - taken < 0.5:  # the kernel makes room once more, a little later
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b".")
            taken = time.monotonic()
            continue
        time.sleep(0.01)
    os.close(writer)


WITH_BAR = """
from posenc_cli.cli import console
console.PATIENCE = -1.0  # any job is a long one
from posenc_cli.__main__ import entry_point
entry_point()
"""
HIDDEN_CURSOR, SHOWN_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("full", [False, True], ids=["read", "full"])
def test_a_signal_while_a_bar_is_shown_ends_the_run_and_shows_the_cursor(full, number, tmp_path):
    """Also where the terminal takes nothing more, which is nothing to wait for."""
    asked = [sys.executable, "-c", WITH_BAR, *SLOW, "-o", "a.npy"]
    with (
        terminal() as (screen, keyboard),
        spawn(asked, cwd=tmp_path, env={**UNMEASURED, "TERM": "xterm"}, stderr=keyboard) as process,
    ):
        read_until(HIDDEN_CURSOR, screen)
        if full:
            fill(keyboard)
        await_that(lambda: bytes_of_temporaries(tmp_path) > 10**6, process)
        process.send_signal(number)
        assert process.wait(PATIENCE / 4) == 128 + number
        assert not list(tmp_path.iterdir())
        if not full:
            assert HIDDEN_CURSOR not in read_until(SHOWN_CURSOR, screen)
        assert os.get_blocking(keyboard)


@pytest.mark.slow
def test_signals_at_any_time_leave_the_old_file_or_the_new(tmp_path):
    """Without SIGINT, of which Python itself shows a traceback before any line of posenc's runs."""
    draws = random.Random(11)
    target = tmp_path / "a.npy"
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "posenc_cli", *SMALL], cwd=tmp_path, check=True, capture_output=True
    )
    whole, span = target.read_bytes(), time.monotonic() - began
    for _ in range(40):
        target.write_bytes(b"old")
        with posenc(*SMALL, folder=tmp_path) as process:
            time.sleep(draws.uniform(0, span))
            for number in draws.choices([signal.SIGTERM, signal.SIGHUP], k=draws.randint(2, 10)):
                process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
        assert [path.name for path in tmp_path.iterdir()] == [target.name]
        assert "Traceback" not in err
        if process.returncode == 0:
            assert target.read_bytes() == whole
        else:
            assert process.returncode in (129, 143, -signal.SIGHUP, -signal.SIGTERM)
            assert target.read_bytes() == b"old"
