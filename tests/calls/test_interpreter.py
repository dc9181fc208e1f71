"""A user's function runs in the environment that it lives in, which has nothing of posenc."""

import ast
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posenc_cli import frameworks, loading
from posenc_cli.calls import interpreter, onnx
from posenc_cli.calls.interpreter import chosen_python, worker_command
from posenc_cli.errors import Unavailable
from tests.processes import PATIENCE, spawn

WORKER = Path(interpreter.__file__).with_name("worker.py")
CODE = (Path(loading.__file__), Path(frameworks.__file__), Path(onnx.__file__), WORKER)
CHECK = ("rope-check", "-s", "rope", "--layout", "half", "--len", "16")
RIGHT = """
import os
import numpy as np
def f(x, positions):
    half = x.shape[1] // 2
    angles = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], 1).astype(np.float32)
def marked(x, positions):
    assert os.environ["MARK"] == "1"
    return f(x, positions)
def of_threads(x, positions):
    assert os.environ["OMP_NUM_THREADS"] == os.environ.get("MARK", "1")
    return f(x, positions)
"""
PYENV = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python"))


@pytest.fixture
def script(tmp_path):
    """A program that is named as an interpreter."""

    def write(text, name="python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    (tmp_path / "mine.py").write_text(RIGHT)
    return write


@pytest.mark.long
@pytest.mark.parametrize("asked", [None, "2"])
def test_a_function_runs_on_one_thread_unless_the_user_says_otherwise(
    asked, call, script, monkeypatch
):
    """Torch's threads spin between calls, and take three times the work."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        monkeypatch.setenv("MARK", asked)
    place = script("", "unused").parent
    status, _, err = call(*CHECK, "--impl", f"{place}/mine.py:of_threads")
    assert (status, err) == (0, "")


OWN = f'exec {shlex.quote(sys.executable)} "$@"'


def test_the_active_environment_is_taken_unless_another_is_named(script, tmp_path, monkeypatch):
    assert chosen_python(None) == sys.executable
    conda = script(OWN, "conda/bin/python")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    assert chosen_python(None) == str(conda)
    virtual = script(OWN, "virtual/bin/python")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "virtual"))
    assert chosen_python(None) == str(virtual)
    assert chosen_python(None, "posenc_cli.examples.llama") == sys.executable
    assert chosen_python(str(conda), "posenc_cli.examples.llama") == str(conda)
    assert chosen_python(str(conda)) == str(conda)
    assert chosen_python(str(tmp_path / "conda")) == str(conda)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "removed"))
    assert chosen_python(None) == str(conda)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert chosen_python(None) == sys.executable


def test_an_interpreter_that_is_a_link_is_not_followed(script, tmp_path):
    # It is by its own place that Python knows its environment.
    (tmp_path / "link").symlink_to(sys.executable)
    assert chosen_python(str(tmp_path / "link")) == str(tmp_path / "link")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "there is no such program"),
        ("folder", "cannot be run"),
        ("text.py", "cannot be run"),
    ],
)
def test_what_is_no_program_is_refused(name, said, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.py").write_text("")
    with pytest.raises(Unavailable, match=f"--python .*: {said}"):
        chosen_python(str(tmp_path / name))


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 5", "is not a Python interpreter that runs: it ended its process with status 5"),
        ("exit 77", "is older than Python 3.8"),
        ("echo hello", "is not a Python interpreter"),
        ("yes", "is not a Python interpreter"),
        ("kill -9 $$", "is not a Python interpreter that runs: it crashed (SIGKILL)"),
        ("exec 1>&-; sleep 60", "closed the pipe"),
    ],
)
def test_a_program_that_is_no_python_is_the_environments_fault(text, words, script, call):
    status, out, err = call(*CHECK, "--impl", "./mine.py:f", "--python", str(script(text)))
    assert (status, out) == (3, "")
    line, hint = err.splitlines()
    assert words in line
    assert hint.startswith("hint: save its values")


def test_what_another_program_says_is_a_hint(script, call):
    given = ("--impl", "./mine.py:f", "--python", str(script("echo no such option >&2; exit 1")))
    _, _, err = call(*CHECK, *given)
    (hint,) = err.splitlines()[1:]
    assert hint.startswith("hint: it said: no such option; or save its values")


@pytest.mark.long
def test_a_function_runs_in_the_environment_that_is_active(script, call, tmp_path, monkeypatch):
    python = script(f"MARK=1 {OWN}", "virtual/bin/python")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "virtual"))
    status, out, err = call(*CHECK, "--impl", "./mine.py:marked", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["subject"]["call"]["python"] == str(python)
    assert f"by '{python}'" in " ".join(json.loads(out)["notes"])


@pytest.mark.slow
def test_an_environment_without_arrays_is_said_to_have_none(script, call):
    bare = str(script(f'exec {shlex.quote(sys.executable)} -S "$@"'))
    Path("bare.py").write_text("def f(x, positions): return x\n")
    status, _, err = call(*CHECK, "--impl", "./bare.py:f", "--python", bare)
    assert status == 3
    assert "has neither NumPy nor torch" in err
    status, _, err = call(*CHECK, "--impl", "./mine.py:f", "--python", bare)
    assert status == 3
    assert "No module named 'numpy'" in err
    assert "--python names another" in err


def test_the_worker_needs_nothing_but_python_3_8():
    trees = [ast.parse(file.read_text(), feature_version=(3, 8)) for file in CODE]
    imported = {
        name if name.startswith("posenc_cli") else name.split(".")[0]
        for tree in trees
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    # Of posenc what has run before it there, and is imported where it serves functions here.
    beside = {"posenc_cli.frameworks", "posenc_cli.calls.onnx"}
    graphs = {"onnx", "onnxruntime"}
    assert imported - sys.stdlib_module_names == {"numpy", "torch"} | beside | graphs


@pytest.mark.slow
@pytest.mark.parametrize("python", PYENV, ids=[path.parts[-3] for path in PYENV])
def test_other_pythons_run_the_worker(python, tmp_path):
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 8))"]).returncode:
        done = subprocess.run(worker_command(str(python), "json:loads"), input=b"")
        assert done.returncode == interpreter.TOO_OLD
        return
    request = json.dumps({"do": "describe", "id": 1, "bytes": 0}).encode() + b"\n"
    done = subprocess.run(
        worker_command(str(python), "json:loads"),
        input=request,
        capture_output=True,
        cwd=tmp_path,
        timeout=PATIENCE,
    )
    hello, answer = map(json.loads, done.stdout.splitlines())
    assert hello["python"].startswith("3.")
    assert answer["parameters"][0] == {
        "name": "s",
        "kind": "POSITIONAL_OR_KEYWORD",
        "annotation": "",
        "default": None,
    }
    assert done.stderr == b""


def lives(process):
    """Whether a process of this number is there, and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are read in /proc")
@pytest.mark.parametrize("busy", ["time.sleep(600)", "re.match('(a|a)*b', 'a' * 64)"])
def test_nothing_outlives_a_posenc_that_is_killed(busy, tmp_path):
    # A regular expression holds the interpreter's lock: no thread of the worker would run.
    (tmp_path / "stuck.py").write_text(
        "import os, re, subprocess, time\n"
        "def f(x, positions):\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    open('pids', 'w').write(f'{os.getpid()} {child.pid} ')\n"
        f"    {busy}\n"
    )
    command = [sys.executable, "-m", "posenc_cli", *CHECK, "--impl", "./stuck.py:f"]
    folder = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": folder}
    pids = tmp_path / "pids"
    with spawn(command, cwd=tmp_path, env=environment) as process:
        deadline = time.monotonic() + PATIENCE
        while not (pids.exists() and pids.read_text().endswith(" ")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    numbers = pids.read_text().split()
    deadline = time.monotonic() + PATIENCE
    while any(lives(number) for number in numbers):
        assert time.monotonic() < deadline
        time.sleep(0.02)
