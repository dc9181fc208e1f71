"""What a shell gets to complete a command line with."""

import os
import shutil
import subprocess
import sys

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
        ("posenc generate -s sinusoidal+ali", ["sinusoidal+alibi"]),
        ("posenc generate -m falcon-7", ["falcon-7b"]),
        ("posenc generate --like openai-w", ["openai-whisper:sinusoids"]),
        ("posenc generate --like mlx:S", ["mlx:SinusoidalPositionalEncoding"]),
        ("posenc generate -s alibi --set max", ["max_bias="]),
        ("posenc generate -m llama-3.1-8b --set low", ["low_freq_factor="]),
        ("posenc generate -s rope --set layout=", ["layout=interleaved", "layout=half"]),
        ("posenc generate -s rope --dtype b", ["bfloat16"]),
        ("posenc generate -s rope --table co", ["cos-sin", "cos", "cos-full", "complex"]),
        ("posenc rope-check --format j", ["json", "junit"]),
        ("posenc rope-check --tol e", ["exact"]),
        ("posenc schemes transf", ["transformer-xl"]),
        ("posenc curve --table b", ["buckets"]),
        ("posenc alibi-slopes --convention n", ["naive"]),
        ("posenc generate -s rope --layout ", ["interleaved", "half"]),
        ("posenc compare bart", ["bart-large"]),
        ("posenc heatmap --in ", []),  # the shell completes files itself
        ("posenc generate -s nonsense --set ", []),
        ("posenc generate --len 3 --len 4 --dtype b", []),  # of a line that is wrong so far
    ],
)
def test_a_word_becomes_what_it_may_be(completed, line, words):
    assert completed(line) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"COMP_WORDS": "posenc ge"},
        {"COMP_CWORD": "1"},
        {"COMP_WORDS": "posenc ge", "COMP_CWORD": "x"},
        {"COMP_WORDS": "posenc 'ge", "COMP_CWORD": "9" * 30},
    ],
    ids=str,
)
def test_what_a_shell_leaves_unsaid_is_no_bug(said, shell, call, monkeypatch, capsys):
    for name in ("COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(COMPLETION, f"complete_{shell}")
    try:
        status, _, err = call()
    except SystemExit as end:
        status, err = end.code, capsys.readouterr().err
    assert (status, err) == (0, "")


def test_an_empty_variable_asks_for_no_completion(call, monkeypatch):
    monkeypatch.setenv(COMPLETION, "")
    assert call("curve", "--help") == call("help", "curve")
    assert call("curve", "--help")[0] == 0


def run_by(shell, code, folder):
    """What a shell prints in whose PATH a folder comes first that has posenc by both names."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    for name in ("posenc", "posenc-cli"):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m posenc_cli "$@"\n')
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}
    environment.pop("COMP_WORDS", None)  # what bash says, and tests above
    given = {"cwd": folder, "env": environment, "text": True, "check": True}
    bare = ["--norc"] if shell == "bash" else []
    run = subprocess.run([program, *bare, "-c", code], capture_output=True, **given)
    assert not run.stderr
    return run.stdout.splitlines()


@pytest.mark.long
def test_bash_completes_by_the_script_that_is_printed(call, tmp_path):
    (tmp_path / "script").write_text(call("completion", "bash")[1])
    # As bash ends words: at = and :, too.
    typed = {
        "--scheme = rope-y": "rope-yarn",
        "-s sinusoidal+./a.py : b --set spacing =": "vaswani tensor2tensor",
        "-s alibi --set max": "nospace max_bias=",
    }
    lines = ["source ./script", "compopt() { printf 'nospace '; }"]
    for line in typed:
        words = f"posenc generate {line}"
        lines += [
            f"COMP_WORDS=({words}) COMP_CWORD={words.count(' ')}",
            "_posenc_completion posenc",
            'echo "${COMPREPLY[@]}"',
        ]
    lines.append("complete -p posenc posenc-cli")
    registered = [
        f"complete -o default -F _posenc_completion {name}" for name in ("posenc", "posenc-cli")
    ]
    assert run_by("bash", "\n".join(lines), tmp_path) == [*typed.values(), *registered]


ASKED = {
    "fish": """
source ./script
complete -C "posenc generate -s rope-y"
complete -C "posenc-cli sche"
""",
    "zsh": """
compdef() {}; _arguments() { print -r -- $@ }; source ./script
words=(posenc generate -s rope-y) CURRENT=4; _posenc_completion
words=(posenc sche) CURRENT=2; _posenc_completion
""",
}


@pytest.mark.long
@pytest.mark.parametrize("shell", ASKED)
def test_zsh_and_fish_complete_by_the_script_that_is_printed(call, tmp_path, shell):
    (tmp_path / "script").write_text(call("completion", shell)[1])
    first, second = run_by(shell, ASKED[shell], tmp_path)
    assert ("rope-yarn" in first, "schemes" in second) == (True, True)


def test_both_names_are_known_and_a_shell_that_is_not_is_asked_for(call, monkeypatch):
    zsh = call("completion", "zsh")[1].splitlines()
    assert zsh[0] == "#compdef posenc posenc-cli"
    assert zsh[-1] == "compdef _posenc_completion posenc posenc-cli"
    assert call("completion", "fish")[1].splitlines()[-1].endswith("posenc-cli --wraps posenc")
    known = "must be one of bash, zsh, fish\n"
    assert call("completion", "tcsh") == (2, "", f"posenc: error: SHELL 'tcsh': {known}")
    refused = (2, "", f"posenc: error: SHELL: {known}")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert call("completion") == refused
    monkeypatch.delenv("SHELL")
    assert call("completion") == refused
