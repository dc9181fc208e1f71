"""Signals, several at once too: the first ends the run, and the old file or the new is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

POSENC = [sys.executable, "-m", "posenc_cli"]
SMALL = ["generate", "-s", "rope", "-l", "100", "-o", "a.npy"]
SLOW = ["generate", "-s", "learned", "-l", "4000000", "-d", "512", "--set", "extend=random"]
"""Draws for half a minute, so that a signal always comes in the middle."""
MANY = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGINT]
UNMEASURED = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
"""An environment without coverage, whose own work at the end a signal would interrupt."""


def started(*words: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=folder,
        env=UNMEASURED,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def script(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Posenc, with something changed in its process first."""
    prelude = "import atexit, os, pathlib, signal, sys\n"
    entry = "from posenc_cli.__main__ import entry_point\nentry_point()\n"
    process = started(sys.executable, "-c", prelude + code + entry, *arguments, folder=folder)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def await_that(holds, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def test_of_signals_that_arrive_together_one_ends_the_run_and_the_rest_are_ignored(tmp_path):
    target = tmp_path / "a.npy"
    target.write_bytes(b"old")
    process = started(*POSENC, *SLOW, "-o", target.name, folder=tmp_path)
    await_that(lambda: any(p.stat().st_size > 10**5 for p in tmp_path.glob(".posenc-*")), process)
    process.send_signal(signal.SIGSTOP)
    for number in MANY:
        process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
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
posenc_cli.files.npy.write = write
"""


def test_signals_while_the_first_cleans_up_change_nothing(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"old")
    done = script(FIRST_TERM, *SMALL, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


LATE = """
def signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)
def replace(self, target, real=pathlib.Path.replace):
    signals()
    replaced = real(self, target)
    signals()
    return replaced
pathlib.Path.replace = replace
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


def test_an_ignored_signal_stays_ignored(tmp_path):
    done = script(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "atexit.register(lambda: signal.raise_signal(signal.SIGHUP))\n"
        "import posenc_cli.files.npy as npy\n"
        "def check(*_): signal.raise_signal(signal.SIGHUP)\n"
        "npy.check = check\n",
        *SMALL,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr


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
    process = started(*POSENC, *asked, folder=tmp_path)
    await_that((tmp_path / "reached").exists, process)
    for _ in range(3):
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "")
    assert not (tmp_path / "a.xml").exists()
    pid = int((tmp_path / "reached").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_signals_at_any_time_leave_the_old_file_or_the_new(tmp_path):
    """Without SIGINT, of which Python itself shows a traceback before any line of posenc's runs."""
    drawn = random.Random(11)
    target = tmp_path / "a.npy"
    began = time.monotonic()
    subprocess.run([*POSENC, *SMALL], cwd=tmp_path, check=True, capture_output=True)
    whole, span = target.read_bytes(), time.monotonic() - began
    for _ in range(40):
        target.write_bytes(b"old")
        process = started(*POSENC, *SMALL, folder=tmp_path)
        time.sleep(drawn.uniform(0, span))
        for number in drawn.choices([signal.SIGTERM, signal.SIGHUP], k=drawn.randint(2, 10)):
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert [path.name for path in tmp_path.iterdir()] == [target.name]
        assert "Traceback" not in err
        if process.returncode == 0:
            assert target.read_bytes() == whole
        else:
            assert process.returncode in (129, 143, -signal.SIGHUP, -signal.SIGTERM)
            assert target.read_bytes() == b"old"
