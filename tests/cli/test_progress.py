"""The progress bar: only on a terminal, only after a moment, and never in the bytes."""

import io
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from posenc_cli.cli import console
from tests.matrices import request
from tests.processes import PATIENCE, spawn


class Terminal(io.StringIO):
    def isatty(self):
        return True


def content(matrix):
    return b"".join(block.tobytes() for block in matrix.blocks())


@pytest.mark.parametrize("patience", [-1.0, 1e9])
def test_a_bar_appears_after_a_moment_and_changes_nothing(patience, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", patience)
    matrix = request("rope", "0:20000").plan().matrix()
    stream = Terminal()
    assert content(console.with_progress(matrix, stream)) == content(matrix)
    assert ("%" in stream.getvalue()) == (patience < 0)


@pytest.mark.slow
def test_a_terminal_sees_the_bar_of_a_long_job_and_a_pipe_does_not(tmp_path):
    impatient = (
        "import sys\nfrom posenc_cli.cli import console\nfrom posenc_cli.cli.exits import main\n"
        "console.PATIENCE = -1.0  # any job is a long one\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", impatient, "generate", "-s", "learned", "-l", "20000"]
    command += ["-d", "64", "--set", "extend=random", "-o", "/dev/null", "--format", "npy"]
    main, terminal = pty.openpty()
    seen = b""
    with spawn(command, cwd=tmp_path, stderr=terminal) as process:
        os.close(terminal)
        try:
            while chunk := os.read(main, 65536):
                seen += chunk
        except OSError:
            pass  # Linux's way to say that the other end has closed
        os.close(main)
        assert process.wait(PATIENCE) == 0
    assert b"%" in seen
    piped = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE)
    assert piped.stderr.startswith(b"wrote '/dev/null'")
    assert b"%" not in piped.stderr


def test_row_labels_survive():
    matrix = request("rope", "3:6").plan().matrix()
    wrapped = console.with_progress(matrix, Terminal())
    assert list(wrapped.row_labels()) == [3, 4, 5]
    assert np.array_equal(wrapped.shape, matrix.shape)
