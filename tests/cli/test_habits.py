"""What people type who come from other programs: understood, or told what was meant."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("length", ["1000", "1_000", "1e3", "0.1e4"])
def test_whole_numbers_may_be_written_for_readers(call, tmp_path, length):
    asked = (
        "generate",
        "-s",
        "rope",
        "-l",
        length,
        "-d",
        "1_6",
        "--base",
        "500_000",
        "-o",
        "a.npy",
    )
    assert call(*asked)[0] == 0
    assert np.load(tmp_path / "a.npy").shape == (1000, 16)


def test_positions_are_such_numbers_too(call, tmp_path):
    asked = ("generate", "-s", "rope", "--positions", "1e3:1_002,2e6", "-d", "4", "-o", "a.npy")
    assert call(*asked)[0] == 0
    assert np.load(tmp_path / "a.npy").shape == (3, 4)


@pytest.mark.parametrize("length", ["1e-3", "1.5", "1__0", "_1", "1e", "e3", "0x10", "1e9999999"])
def test_what_is_no_whole_number_is_refused(call, length):
    status, out, err = call("generate", "-s", "rope", "-l", length)
    assert (status, out) == (2, "")
    assert "--len" in err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("generate -s rope -l 4 --theta 5e5", "did you mean '--base'?"),
        ("generate -s RoPE -l 4", "did you mean 'rope'?"),
        ("generate -s rope -l 4 --dtype FP16", "did you mean 'float16'?"),
        ("generate -s rope -l 4 --dtype BF16", "did you mean 'bfloat16'?"),
        ("generate -s rope -l 4 --layout neox", "did you mean 'half'?"),
        ("generate -s rope -l 4 --layout GPTJ", "did you mean 'interleaved'?"),
        ("generate -s rope --seq-len 4", "did you mean '--len'?"),
        ("generate rope 4096", "did you mean --scheme rope --len 4096?"),
        ("heatmap cos.npy", "did you mean --in cos.npy?"),
        ("heatmap config.json", "did you mean --config config.json?"),
        ("generate extra", "posenc generate --help shows how it is used"),
        (
            "rope-check cos.npy sin.npy",
            "--tables COS SIN takes the two tables of a rotary encoding",
        ),
        (
            "check cos.npy sin.npy -s rope",
            "--tables COS SIN takes the two tables of a rotary encoding",
        ),
        ("explain --config a.json", "posenc explain takes it as an argument, without --config"),
        ("check --file a.npy -s rope", "posenc check takes it as an argument, without --file"),
        ("extrapolate --len 5", "posenc extrapolate --help shows how it is used"),
        ("extrapolate --length 5", "posenc extrapolate --help shows how it is used"),
        ("heatmap --log", "posenc heatmap --help shows how it is used"),
        ("order-check --impl a.py:f", "posenc order-check --help shows how it is used"),
        ("rope-check --input a.npy", "posenc rope-check --help shows how it is used"),
        ("heatmap --tilte x", "did you mean '--title'?"),
        ("heatmap --no-color", "did you mean '--color'?"),
        ("plan --context 5", "did you mean '--to'?"),
        ("positions --tokens 5", "did you mean '--text'?"),
        ("compare --config a.json", "posenc compare takes it as an argument, without --config"),
        ("models gpt2", "posenc explain gpt2 shows a model"),
        ("models list", "posenc models --help shows how it is used"),
        ("check --in a.npy -s rope", "posenc check takes it as an argument, without --in"),
    ],
)
def test_what_other_programs_say_is_hinted_at(call, arguments, hint):
    status, out, err = call(*arguments.split())
    assert (status, out) == (2, "")
    assert err.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize(
    "command",
    [
        *("generate -s rope -l 4 --out", "heatmap -s rope --out", "alibi-slopes --out"),
        *("extrapolate --out", "emit -s rope --out"),
    ],
)
def test_an_empty_name_is_wrong_usage(call, command):
    """A script whose variable is empty gave it, and nothing is wrong with the disk."""
    status, out, err = call(*command.split(), "")
    assert (status, out) == (2, "")
    assert "the name is empty" in err


def test_explain_takes_a_model_as_other_commands_do(call):
    assert call("explain", "-m", "gpt2") == call("explain", "gpt2")
    assert call("explain", "gpt2", "--model", "t5-small") == call("explain", "gpt2", "t5-small")
    status, out, err = call("explain")
    assert (status, out) == (2, "")
    assert err == "posenc: error: CONFIG is missing; name a config.json or a model\n"


@pytest.mark.parametrize("line", ["identify -m gpt2", "resize -s rope", "completion -m x"])
def test_an_option_is_called_an_argument_only_where_it_is_one(call, line):
    status, _, err = call(*line.split())
    assert status == 2
    assert "as an argument" not in err


def test_help_is_shown_where_nothing_is_asked_for(call):
    status, out, err = call()
    assert (status, err) == (0, "")
    assert out == call("-h")[1]
    assert "rope-check" in out
    assert call("help") == call("--help")
    assert call("help", "generate") == call("generate", "--help")


def test_a_heatmap_has_a_sensible_length(call):
    assert call("heatmap", "-s", "sinusoidal") == call("heatmap", "-s", "sinusoidal", "-l", "512")


@pytest.mark.parametrize("before", [("-q",), ("--color", "never"), ("--color=never", "--quiet")])
def test_options_of_every_command_also_work_before_its_name(call, before):
    after = call("schemes", "alibi", *before)
    assert call(*before, "schemes", "alibi") == after
    assert after[0] == 0
    assert call(*before, "-h") == call("-h")


@pytest.mark.parametrize("alone", [("-q",), ("--color",), ("--color", "bad"), ("--color=bad",)])
def test_options_of_every_command_need_a_command(call, alone):
    status, out, err = call(*alone)
    assert (status, out) == (2, "")
    assert err.startswith(f"posenc: error: {' '.join(alone)}: needs a command\n")


def test_an_empty_scheme_is_not_called_a_hybrid(call):
    err = call("generate", "-s", "", "-l", "4")[2]
    assert err == "posenc: error: --scheme '': must be a scheme, or A+B for a hybrid\n"
