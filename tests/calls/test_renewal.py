"""A function is had again as if it was never called: of a copy of its process, or of a new one."""

import contextlib
import sys
import textwrap
import time
from pathlib import Path

import pytest

from posenc_cli.calls import function_process
from posenc_cli.checks.calling import implementation
from posenc_cli.errors import InvalidInput
from posenc_cli.positions import Positions
from posenc_cli.rotary.verdict import examine
from tests.checks import rope
from tests.processes import PATIENCE

CODE = """
import os, pathlib, sys, threading
import numpy as np
with open(__file__ + ".loads", "a") as loads:
    loads.write("x")
calls = []
class Rope:
    def __init__(self, dim):
        self.inv_freq = 1e4 ** -(np.arange(0, dim, 2) / dim)
    def __call__(self, x, positions):
        calls.append(len(x))
        {body}
        angles = np.asarray(positions)[:, None] * self.inv_freq
        cos, sin = np.cos(angles), np.sin(angles)
        y = np.empty_like(x)
        y[:, ::2] = x[:, ::2] * cos - x[:, 1::2] * sin
        y[:, 1::2] = x[:, ::2] * sin + x[:, 1::2] * cos
        return y
"""


@pytest.fixture
def check(tmp_path):
    """Check a class, and say how often its module was loaded."""

    def run(before="", body="pass"):
        file = tmp_path / "mine.py"
        file.write_text(textwrap.dedent(CODE).format(body=body) + before)
        right = rope.reference("rope", dim=8)
        where = Positions.parse("0:64,255:259")
        found = examine(implementation(f"{file}:Rope", right, where), right, "auto")
        return found, len((tmp_path / "mine.py.loads").read_text())

    return run


copies = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has")


@copies
@pytest.mark.long
def test_a_module_is_loaded_once_for_all_renewals(check):
    found, loads = check()
    assert found.ok
    assert loads == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "before",
    [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "kept = open(__file__)",
        "import subprocess; other = subprocess.Popen(['sleep', '60'])",
    ],
    ids=["a thread", "an open file", "a child"],
)
def test_what_a_copy_would_not_have_or_would_share_is_loaded_again(before, check):
    found, loads = check(before)
    assert found.ok
    assert loads > 1


@copies
@pytest.mark.long
def test_a_copy_knows_nothing_of_the_calls_of_another(check, tmp_path):
    first = "pathlib.Path(__file__ + '.first').open('a').write('x' * (len(calls) == 1))"
    found, loads = check(body=first)
    assert found.ok
    assert loads == 1
    assert len((tmp_path / "mine.py.first").read_text()) > 1


@copies
@pytest.mark.long
@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os.kill(os.getpid(), 11)", "crashed (SIGSEGV)"),
        ("os.kill(os.getpid(), 9)", "crashed (SIGKILL)"),
        ("os._exit(0)", "ended its process with status 0"),
        ("os._exit(78)", "ended its process with status 78"),
    ],
)
def test_how_a_copy_ended_is_said_and_in_which_call(ending, words, check):
    with pytest.raises(InvalidInput) as caught:
        check(body=ending)
    call = "called as Rope(x, positions) with 5 positions up to 100"
    assert f"{words}, {call}" in caught.value.message


@copies
@pytest.mark.slow
def test_a_copy_that_leaves_its_group_and_hangs_is_ended(check, tmp_path, monkeypatch):
    monkeypatch.setattr(function_process, "SECONDS", 2)
    own = "pathlib.Path(__file__ + '.pid').write_text(str(os.getpid()))"
    with pytest.raises(InvalidInput, match="gave no answer within 2 seconds, called as Rope"):
        check(body=f"os.setsid(); {own}; threading.Event().wait()")
    status = Path("/proc", (tmp_path / "mine.py.pid").read_text(), "stat")
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while " Z " not in status.read_text():  # an ended one that nobody has asked after
            assert time.monotonic() < deadline
            time.sleep(0.01)
