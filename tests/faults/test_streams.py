"""Streams that fail, signals that arrive, terminals that cannot: statuses and what is left."""

import json
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.cli.help import known_answers
from tests.cli.test_imported import TYPER
from tests.faults.test_environment import shell
from tests.faults.test_signals import SLOW, bytes_of_temporaries
from tests.faults.test_signals import posenc as started
from tests.memory import HAS_HIGH_WATER, HIGH_WATER, peak
from tests.processes import PATIENCE, UNMEASURED, await_that, ran_code, spawn

POSENC = [sys.executable, "-m", "posenc_cli"]
SMALL = ["generate", "-s", "rope", "-l", "100"]
LARGE = ["generate", "-s", "rope", "-l", "4000000", "-d", "128"]

every_output = pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["generate", "--help"],
        ["schemes"],
        ["schemes", "--json"],
        ["schemes", "rope"],
        ["alibi-slopes", "--heads", "4"],
        ["alibi-slopes", "--plot"],
        [*SMALL, "--json"],
        [*SMALL, "--out", "-"],
        [*SMALL, "--out", "-", "--format", "csv"],
        [*SMALL, "--out", "-", "--format", "npz"],
        [*SMALL, "--out", "-", "--format", "safetensors"],
    ],
    ids=" ".join,
)


@pytest.mark.sweep(13)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@every_output
def test_a_full_stdout_is_status_3(arguments, posenc, tmp_path):
    with Path("/dev/full").open("w") as full:
        done = posenc(*arguments, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("posenc: error: cannot write to standard output")
    assert not list(tmp_path.iterdir())
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.sweep(13)
@every_output
def test_a_closed_stdout_is_status_3(arguments, tmp_path):
    done = shell(shlex.join([*POSENC, *arguments]) + " >&-", tmp_path)
    assert done.returncode == 3, done.stderr
    assert "standard output" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_needs_no_stdout_works_without(tmp_path):
    assert shell(shlex.join([*POSENC, *SMALL]) + " >&- 2>&-", tmp_path).returncode == 0
    assert np.load(tmp_path / "rope-100x64.npy").shape == (100, 64)


@pytest.mark.sweep(13)
@every_output
def test_a_reader_that_has_gone_is_status_141_in_silence(arguments, posenc, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = posenc(*arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.sweep(9)
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "0<&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (SMALL, 0),
        (["compare", "rope", "rope-linear", "-l", "9"], 1),
        (["generate", "-s", "ropx", "--debug"], 2),
        (["generate", "--lne", "4"], 2),
        (["heatmap", "--in", "absent.npy"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_stderr_that_takes_nothing_changes_no_status(
    arguments, status, redirection, call, tmp_path
):
    if "/dev/full" in redirection and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    assert call(*arguments)[0] == status
    out = call(*arguments)[1]
    done = shell(f"{shlex.join([*POSENC, *arguments])} {redirection}", tmp_path)
    assert (done.returncode, done.stdout) == (status, out)
    if status == 0:
        assert np.load(tmp_path / "rope-100x64.npy").shape == (100, 64)


@pytest.mark.slow
def test_no_file_takes_the_place_of_a_closed_stderr(tmp_path):
    """Or what a function under test prints would go into the report."""
    (tmp_path / "function.py").write_text(
        "import os\ndef f(x, positions):\n    os.write(2, b'printed')\n    return x\n"
    )
    asked = ["rope-check", "-s", "rope", "-l", "4", "-d", "4", "--impl", "./function.py:f"]
    done = shell(shlex.join([*POSENC, *asked, "--json"]) + " 2>&- 1>report", tmp_path)
    report = json.loads((tmp_path / "report").read_text())
    assert (done.returncode, report["ok"]) == (1, False)


@pytest.mark.slow
def test_a_pipe_that_is_full_is_waited_for(tmp_path):
    """One that somebody has set to non-blocking: what it has no room for is not lost."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    asked = [*POSENC, "alibi-slopes", "--heads", "20000", "--json"]
    with os.fdopen(reading) as stream, spawn(asked, stdout=writing, cwd=tmp_path) as process:
        os.close(writing)
        slopes = json.load(stream)["slopes"]
        assert (process.wait(PATIENCE), len(slopes)) == (0, 20_000)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_starting_ends_without_a_traceback(number, tmp_path):
    """While a library is still being imported: here one that takes its time."""
    library = tmp_path / "library"
    library.mkdir()
    # In short sleeps: a signal that comes just before one is heeded after it.
    (library / "numpy.py").write_text(
        "import pathlib, time\npathlib.Path('reached').touch()\n"
        "for _ in range(6000):\n    time.sleep(0.01)\n"
    )
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**UNMEASURED, "PYTHONPATH": str(library)}
    pipes = {"stderr": subprocess.PIPE, "text": True}
    with spawn([*POSENC, *SMALL], cwd=folder, env=environment, **pipes) as process:
        await_that((folder / "reached").exists, process)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (128 + number, "")


def test_a_reader_that_goes_in_mid_stream_is_status_141_in_silence(tmp_path):
    asked = [*POSENC, *LARGE, "--out", "-", "--format", "csv"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with spawn(asked, cwd=tmp_path, **pipes) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
@pytest.mark.parametrize("suffix", ["npy", "csv", "npz", "safetensors"])
def test_a_signal_while_writing_leaves_the_old_file_and_nothing_else(
    number, status, suffix, tmp_path
):
    target = tmp_path / f"table.{suffix}"
    target.write_bytes(b"old")
    with started(*SLOW, "--out", target.name, folder=tmp_path) as process:
        await_that(lambda: bytes_of_temporaries(tmp_path) > 10**5, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (status, "", "")
    assert [each.name for each in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"old"


def test_a_file_size_limit_is_status_3(posenc, tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    large = (*SMALL[:-1], "10000", "--out", "a.npy")
    done = posenc(*large, preexec_fn=limited, measured=False)
    assert done.returncode == 3
    assert "File too large" in done.stderr
    assert not list(tmp_path.iterdir())


def test_binary_is_refused_on_a_terminal_and_readable_through_a_pipe(posenc, tmp_path):
    main, terminal = pty.openpty()
    done = posenc(*SMALL, "--out", "-", stdout=terminal, stderr=subprocess.PIPE)
    os.close(terminal)
    os.close(main)
    assert done.returncode == 2
    assert "npy is binary and standard output is a terminal" in done.stderr
    (tmp_path / "piped.npy").write_bytes(posenc(*SMALL, "--out", "-", text=False).stdout)
    assert np.load(tmp_path / "piped.npy").shape == (100, 64)


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.sweep(10)
@pytest.mark.parametrize("env", ASCII, ids=["io-encoding", "locale"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["generate", "--help"],
        ["schemes"],
        ["schemes", "sinusoidal"],
        ["schemes", "alibi"],
        ["schemes", "t5"],
        ["schemes", "rope"],
        ["alibi-slopes", "--plot"],
        SMALL,
        ["generate", "-s", "röpe"],
    ],
    ids=" ".join,
)
def test_an_ascii_stream_gets_ascii(arguments, env, posenc):
    done = posenc(*arguments, env=env, text=False)
    assert done.returncode == (2 if "röpe" in arguments else 0), done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert b"\\u" not in done.stdout
    assert max(map(len, done.stdout.splitlines()), default=0) <= 80


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("env", "arguments", "escapes"),
    [
        ({}, [], False),
        ({"GITHUB_ACTIONS": "true"}, [], False),
        ({"TERM": "dumb"}, [], False),
        ({"NO_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ],
)
def test_escape_codes_go_only_where_they_are_wanted(env, arguments, escapes, posenc):
    done = posenc("schemes", *arguments, env=env)
    assert done.returncode == 0
    assert ("\x1b[" in done.stdout) == escapes


@pytest.mark.sweep(15)
@pytest.mark.parametrize("columns", ["20", "40", "0", "abc", "", "200"])
@pytest.mark.parametrize(
    "arguments",
    [["schemes"], ["schemes", "rope"], ["alibi-slopes"], ["alibi-slopes", "--plot"]],
    ids=" ".join,
)
def test_no_line_is_wider_than_asked(columns, arguments, posenc):
    done = posenc(*arguments, env={"COLUMNS": columns})
    assert done.returncode == 0, done.stderr
    limit = min(int(columns), 80) if columns.isdigit() and columns != "0" else 80
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > limit and len(line.split()) > 1] == []


def test_paths_are_never_cut(posenc, tmp_path):
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    done = posenc(*SMALL, "--out", str(folder / "table.npy"), env={"COLUMNS": "20"})
    assert str(folder / "table.npy") in done.stderr


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", [b"\xff.npy", "🎲 é.npy".encode(), b"a\nb.npy", b"a b'c.npy"])
def test_any_name_is_written_and_reported_on_one_line(name, posenc, tmp_path):
    done = posenc(*SMALL, "--out", os.fsdecode(name))
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(os.fsencode(tmp_path)) == [name]
    done = posenc(*SMALL, "--json", "--out", os.fsdecode(name))
    assert json.loads(done.stdout)["path"] == os.fsdecode(name)


def test_no_home_and_a_read_only_installation(posenc):
    done = posenc(*SMALL, env={"HOME": "/proc/nope", "PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_optimized_python_behaves_the_same(posenc):
    done = posenc(*SMALL, "--json", flags=["-O"])
    plain = posenc(*SMALL, "--json")
    assert json.loads(done.stdout)["sha256"] == json.loads(plain.stdout)["sha256"]
    refused = posenc("generate", "-s", "rope", "-l", "0", flags=["-OO"])
    assert (refused.returncode, refused.stdout) == (2, "")


@pytest.mark.slow
def test_a_table_larger_than_memory_runs_in_little(posenc):
    """A 2 GiB table within 1 GiB of address space."""

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    asked = ("generate", "-s", "integer", "-l", "500000", "-d", "1024", "--format", "npy")
    one = {"OPENBLAS_NUM_THREADS": "1"}
    done = posenc(*asked, "-o", "/dev/null", preexec_fn=limited, env=one)
    assert done.returncode == 0, done.stderr


WAVES = ["generate", "-s", "rope", "-d", "64", "-o", os.devnull, "--format", "npy"]
WAVES += ["--threads", "2", "--backend", "numpy"]


@pytest.mark.slow
def test_waves_take_little_memory_at_any_length(call):
    """The table is of 256 MiB; two threads hold at most four blocks of 2 MiB."""
    assert call(*WAVES, "-l", "1000")[0] == 0  # what is loaded and kept for good
    assert peak(lambda: call(*WAVES, "-l", "1048576")) < 12 << 20


@pytest.mark.skipif(not HAS_HIGH_WATER, reason="needs /proc")
def test_the_command_line_takes_little_memory_beside_numpy(tmp_path):
    def taken(*arguments):
        lines = ["import sys, numpy", f"sys.argv[1:] = {arguments}"]
        if arguments:
            lines += ["from posenc_cli.cli.exits import main", "assert main(sys.argv[1:]) == 0"]
        code = "\n".join([HIGH_WATER, *lines, "print(high_water())"])
        environment = {**UNMEASURED, "OPENBLAS_NUM_THREADS": "1"}
        return int(ran_code(code, cwd=tmp_path, env=environment).stdout)

    assert taken(*WAVES, "-l", "262144") - taken() < 40 << 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_is_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    asked = [*POSENC, *SMALL, "--out", "pipe", "--format", "npy", "-q"]
    with spawn(asked, cwd=tmp_path) as process:
        data = (tmp_path / "pipe").read_bytes()
        assert process.wait(PATIENCE) == 0
    (tmp_path / "copy.npy").write_bytes(data)
    assert np.load(tmp_path / "copy.npy").shape == (100, 64)


def test_a_bug_is_status_70_without_a_traceback(call, monkeypatch):
    from posenc_cli.encoding.request import Request

    def broken(self):
        raise ZeroDivisionError("oops\nsecond line")

    monkeypatch.setattr(Request, "plan", broken)
    status, out, err = call(*SMALL)
    assert (status, out) == (70, "")
    first, hint = err.splitlines()
    assert first == r"posenc: error: a bug in posenc: ZeroDivisionError: oops\nsecond line"
    assert "--debug" in hint
    assert "Traceback" in call(*SMALL, "--debug")[2]


def test_the_usage_of_commands_is_checked_in_one_line(call):
    for arguments, message, hint in (
        (["genrate"], "'genrate' is not a command of posenc", "did you mean 'generate'?"),
        (["generate", "--lne", "4"], "--lne: posenc generate has no such option", "--len"),
        (["--version=1"], "option '--version' does not take a value", "hint: posenc --help shows"),
        (["generate", "--len"], "requires an argument", "--help"),
        (["generate", "extra"], "extra", "--help"),
        (["schemes", "a", "b"], "b", "--help"),
        (["generate", "--json=3"], "--json", "--help"),
    ):
        status, out, err = call(*arguments)
        assert (status, out) == (2, ""), arguments
        lines = err.splitlines()
        assert len(lines) == 2, err
        assert lines[0].startswith("posenc: error: ")
        assert message in lines[0]
        assert hint in lines[1]


def imported_modules(done):
    """What a process with ``-X importtime`` has imported."""
    return {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}


def test_version_is_printed_without_loading_anything(posenc):
    done = posenc("--version", flags=["-X", "importtime"])
    assert re.fullmatch(r"posenc \d+\.\d+\.\d+\S*\n", done.stdout)
    own = {name for name in imported_modules(done) if name.startswith("posenc_cli")}
    assert own == {"posenc_cli", "posenc_cli.interrupts"}


def test_help_is_printed_without_typer(posenc):
    for arguments in (["--help"], ["-h"], ["help"], []):
        done = posenc(*arguments, flags=["-X", "importtime"], measured=False)
        loaded = imported_modules(done)
        path = known_answers.PATHS["--help" if {*arguments} & {"--help", "help"} else "-h"]
        assert done.stdout == Path(path).read_text(encoding="utf-8")
        assert "posenc_cli.cli.command_line" not in loaded
        banned = {"typer", "click", "importlib.metadata", "inspect", "textwrap", "json", "numpy"}
        assert not loaded & banned, arguments


@pytest.mark.parametrize("columns", ["40", "79", "80", "200", "0", "12345"])
def test_rendered_help_is_what_would_be_rendered(columns, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    for flag in ("-h", "--help"):
        _, fast, _ = call(flag)
        monkeypatch.setitem(known_answers.PATHS, flag, "nowhere")
        _, live, _ = call(flag)
        assert fast == live


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (["generate", "--help"], "numpy matplotlib torch plotext pydantic rich"),
        (["alibi-slopes", "--heads", "4", "--json"], "numpy matplotlib torch plotext rich"),
        (["schemes"], "numpy matplotlib torch plotext"),
        (
            ["dot-similarity", "--scheme", "rope", "--len", "512"],
            "matplotlib torch plotext PIL rich orjson safetensors numpy.ma",
        ),
        (
            ["spectrum", "--model", "llama-3.1-8b"],
            "matplotlib torch plotext PIL rich orjson safetensors",
        ),
        (
            [*SMALL, "-o", "/dev/null", "--format", "npy"],
            "matplotlib torch plotext rich orjson fractions",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_commands_load_only_what_they_need(arguments, banned, posenc):
    done = posenc(*arguments, flags=["-X", "importtime"], measured=False)
    assert done.returncode == 0
    loaded = imported_modules(done)
    assert "posenc_cli.cli.command_line" in loaded
    assert not loaded & set(banned.split()) - TYPER


def test_garbage_is_collected_while_a_command_runs_and_not_searched_for_at_the_end():
    code = """
import atexit, gc, sys
from posenc_cli import __main__, catalogue
from posenc_cli.cli import command_line
made, found = command_line.function_of, catalogue.installed
def imported(name):
    print("imports", gc.isenabled(), file=sys.stderr)
    return made(name)
def ran():
    print("runs", gc.isenabled(), gc.get_freeze_count() > 10_000, file=sys.stderr)
    return found()
command_line.function_of, catalogue.installed = imported, ran
atexit.register(lambda: print("ends", len(gc.get_objects()) < 1000, file=sys.stderr))
sys.argv = ["posenc", "schemes", "--json"]
__main__.entry_point()
"""
    said = ran_code(code).stderr.split()
    assert said == ["imports", "False", "runs", "True", "True", "ends", "True"]
