"""What a shell gets to complete a command line with."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_cli.cli.exits import COMPLETION


@pytest.fixture
def completed(call, monkeypatch, capsys):
    """The words that bash is given for a line whose last word is being typed."""

    def run(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv(COMPLETION, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        try:
            status, out, err = call()
        except SystemExit as end:
            status, (out, err) = end.code, capsys.readouterr()
        assert (status, err) == (0, "")
        return out.split()

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("posenc ge", ["generate"]),
        ("posenc generate --sc", ["--scheme"]),
        ("posenc generate -s rope-l", ["rope-linear", "rope-llama3", "rope-longrope"]),
        ("posenc generate -s sinusoidal+sh", ["sinusoidal+shaw"]),
        ("posenc generate -m falcon-7", ["falcon-7b"]),
        ("posenc generate -s alibi --set max", ["max_bias="]),
        ("posenc generate -m llama-3.1-8b --set low", ["low_freq_factor="]),
        (
            "posenc generate -s sinusoidal --set spacing=",
            ["spacing=vaswani", "spacing=tensor2tensor"],
        ),
        ("posenc generate -s rope --dtype b", ["bfloat16"]),
        ("posenc generate -s rope --table co", ["cos-sin", "cos", "cos-full", "complex"]),
        ("posenc rope-check --format j", ["json", "junit"]),
        ("posenc rope-check --tol e", ["exact"]),
        ("posenc schemes transf", ["transformer-xl"]),
        ("posenc compare bart", ["bart-large"]),
        ("posenc heatmap --in ", []),  # the shell completes files itself
        ("posenc generate -s nonsense --set ", []),
        ("posenc generate --len 3 --len 4 --dtype b", []),  # of a line that is wrong so far
    ],
)
def test_a_word_becomes_what_it_may_be(completed, line, words):
    assert completed(line) == words


def test_bash_completes_by_the_script_that_is_printed(call, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    posenc = tmp_path / "posenc"
    posenc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m posenc_cli "$@"\n')
    posenc.chmod(0o755)
    (tmp_path / "script").write_text(call("completion", "bash")[1])
    lines = [
        "source script",
        "COMP_WORDS=(posenc generate -s xp) COMP_CWORD=3",
        "_posenc_completion posenc",
        'echo "${COMPREPLY[@]}"',
    ]
    run = subprocess.run(
        [bash, "--norc", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "xpos\n"


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/posenc.sh"),
        ("zsh", ".zfunc/_posenc"),
        ("fish", ".config/fish/completions/posenc.fish"),
    ],
)
def test_one_command_installs_it(call, tmp_path, monkeypatch, shell, file):
    monkeypatch.setenv("HOME", str(tmp_path))
    script = call("completion", shell)[1]
    status, out, err = call("completion", shell, "--install")
    assert (status, out) == (0, "")
    assert Path(file).name in err
    assert (tmp_path / file).read_text().strip() == script.strip()
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    call("completion", shell, "--install")  # again
    after = {path: path.read_text().rstrip("\n") for path in tmp_path.rglob("*") if path.is_file()}
    assert after == {path: text.rstrip("\n") for path, text in before.items()}


def test_a_shell_that_is_not_known_is_refused(call):
    assert call("completion", "tcsh")[0] == 2
    assert call("completion")[0] == 2


def test_a_shell_that_runs_and_is_none_of_them_is_refused_without_another_word(tmp_path):
    script = f"{shlex.quote(sys.executable)} -m posenc_cli completion --install"
    done = subprocess.run(
        ["sh", "-c", f"{script}; exit $?"],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "posenc: error: SHELL: name it, one of bash, zsh, fish\n"
