"""Commands that read an array end with one line where memory is short."""

import resource
import sys
from functools import partial

import numpy as np
import pytest

from posenc_cli.cli.exits import report_error
from tests.processes import ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a limit on the address space")


COMMANDS = [
    "identify t.npy",
    "compare t.npy t.npy",
    "heatmap --in t.npy",
    "dot-similarity --in t.npy",
    "curve -s rope -l 4000",  # plotext ends the process where it finds no memory
    "rope-check -s rope --len 20000",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_each_limit_on_memory_ends_with_one_line_or_the_answer(tmp_path, command):
    rows = np.arange(40_000)[:, None] * 10_000.0 ** -(np.arange(64) / 64)
    np.save(tmp_path / "t.npy", np.concatenate([np.cos(rows), np.sin(rows)], 1).astype("f4"))
    statuses = set()
    for mebibytes in range(112, 420, 22):
        limit = mebibytes << 20
        settings = {"check": False, "cwd": tmp_path}
        settings["preexec_fn"] = partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))
        done = ran(sys.executable, "-m", "posenc_cli", *command.split(), **settings)
        statuses.add(done.returncode)
        assert done.returncode in (0, 3), (mebibytes, done.stderr)
        if done.returncode == 3:
            assert done.stderr.startswith("posenc: error: "), (mebibytes, done.stderr)
            assert done.stderr.count("\n") == 1, (mebibytes, done.stderr)
    assert statuses == {0, 3}


def test_a_thread_that_finds_no_room_is_no_bug(capsys):
    assert report_error(RuntimeError("can't start new thread"), debug=False) == 3
    assert capsys.readouterr().err == "posenc: error: not enough memory\n"
