"""What people type who come from other programs: understood, or told what was meant."""

import numpy as np
import pytest

TABLES = "--tables COS SIN takes the two tables of a rotary encoding"


@pytest.mark.parametrize("length", ["1000", "1_000", "1e3", "0.1e4"])
def test_whole_numbers_may_be_written_for_readers(call, length):
    asked = ("-l", length, "-d", "1_6", "--base", "500_000", "-o", "a.npy")
    assert call("generate", "-s", "rope", *asked)[0] == 0
    assert np.load("a.npy").shape == (1000, 16)


@pytest.mark.parametrize("length", ["1e-3", "1.5", "1__0", "_1", "1e", "e3", "0x10", "1e9999999"])
def test_what_is_no_whole_number_is_refused(length, refused):
    assert "--len" in refused("generate", "-s", "rope", "-l", length)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("generate -s rope -l 4 --theta 5e5", "did you mean '--base'?"),
        ("generate -s RoPE -l 4", "did you mean 'rope'?"),
        ("generate -s rope-2d -l 4", "did you mean 'rope-axial'?"),
        ("generate -s rope -l 4 --dtype FP16", "did you mean 'float16'?"),
        ("generate -s rope -l 4 --layout neox", "did you mean 'half'?"),
        ("generate -s rope -l 4 --layout GPTJ", "did you mean 'interleaved'?"),
        ("generate -s rope --seq-len 4", "did you mean '--len'?"),
        ("generate rope 4096", "did you mean --scheme rope --len 4096?"),
        ("heatmap cos.npy", "did you mean --in cos.npy?"),
        ("heatmap config.json", "did you mean --config config.json?"),
        ("generate extra", "posenc generate --help shows how it is used"),
        ("rope-check cos.npy sin.npy", TABLES),
        ("check cos.npy sin.npy -s rope", TABLES),
        ("explain --config a.json", "posenc explain takes it as an argument, without --config"),
        ("check --file a.npy -s rope", "posenc check takes it as an argument, without --file"),
        ("extrapolate --length 5", "posenc extrapolate --help shows how it is used"),
        ("heatmap --log", "posenc heatmap --help shows how it is used"),
        ("order-check --impl a.py:f", "posenc order-check --help shows how it is used"),
        ("rope-check --input a.npy", "posenc rope-check --help shows how it is used"),
        ("heatmap --tilte x", "did you mean '--title'?"),
        ("heatmap --no-color", "did you mean '--color'?"),
        ("check -s rope --junit", "did you mean '--format'?"),
        ("check -s rope --atol 1e-3", "did you mean '--tol'?"),
        ("plan --context 5", "did you mean '--to'?"),
        ("positions --tokens 5", "did you mean '--text'?"),
        ("compare --config a.json", "posenc compare takes it as an argument, without --config"),
        ("models gpt2", "posenc explain gpt2 shows a model"),
        ("heatmap gpt2 64", "did you mean --model gpt2 --len 64?"),
        ("models list", "posenc models --help shows how it is used"),
        ("check --in a.npy -s rope", "posenc check takes it as an argument, without --in"),
    ],
)
def test_what_other_programs_say_is_hinted_at(refused, arguments, hint):
    assert refused(*arguments.split()).splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize(
    "command",
    [
        *("generate -s rope -l 4 --out", "heatmap -s rope --out", "alibi-slopes --out"),
        *("extrapolate --out", "emit -s rope --out"),
    ],
)
def test_an_empty_name_is_wrong_usage(command, refused):
    """A script whose variable is empty gave it, and nothing is wrong with the disk."""
    assert "the name is empty" in refused(*command.split(), "")


def test_explain_takes_a_model_as_other_commands_do(call, refused):
    assert call("explain", "-m", "gpt2") == call("explain", "gpt2")
    assert call("explain", "gpt2", "--model", "t5-small") == call("explain", "gpt2", "t5-small")
    missing = "posenc: error: CONFIG is missing; name a config.json or a model\n"
    assert refused("explain") == missing


@pytest.mark.parametrize("line", ["identify -m gpt2", "resize -s rope", "completion -m x"])
def test_an_option_is_called_an_argument_only_where_it_is_one(line, refused):
    assert "as an argument" not in refused(*line.split())


@pytest.mark.parametrize("before", [("-q",), ("--color", "never"), ("--color=never", "--quiet")])
def test_options_of_every_command_also_work_before_its_name(call, before):
    after = call("schemes", "alibi", *before)
    assert call(*before, "schemes", "alibi") == after
    assert after[0] == 0
    assert call(*before, "-h") == call("-h")


@pytest.mark.parametrize("alone", [("-q",), ("--color",), ("--color", "bad"), ("--color=bad",)])
def test_options_of_every_command_need_a_command(alone, refused):
    assert refused(*alone).startswith(f"posenc: error: {' '.join(alone)}: needs a command\n")


def test_an_empty_scheme_is_not_called_a_hybrid(call):
    err = call("generate", "-s", "", "-l", "4")[2]
    assert err == "posenc: error: --scheme '': must be a scheme, or A+B for a hybrid\n"


def test_positions_are_such_numbers_too(call):
    asked = ("generate", "-s", "rope", "--positions", "1e3:1_002,2e6", "-d", "4", "-o", "a.npy")
    assert call(*asked)[0] == 0
    assert np.load("a.npy").shape == (3, 4)
