"""A plain command line is read without Typer, and as Typer reads it."""

import shlex

import pytest

from posenc_cli.cli import command_line
from posenc_cli.cli.app import application
from posenc_cli.cli.command_line import COMMANDS, function_of, plain_command

EXAMPLES = [
    shlex.split(line.strip())[1:]
    for name in COMMANDS
    for line in (function_of(name).__doc__ or "").partition("Examples:")[2].splitlines()
    if line.strip().startswith("posenc ")
    and not {"|", ">", ">>", "pack/positions.npy"} & {*line.split()}
]
LINES = [
    *EXAMPLES,
    ["heatmap", "-s", "rope", "-s", "alibi", "-s", "rope", "--len=16"],
    ["rope-check", "-s", "rope", "--tables", "cos.npy", "sin.npy", "-l", "64", "-l", "64"],
    ["explain", "gpt2", "-m", "llama-3-8b", "phi-2"],
    ["spectrum", "-s", "rope", "--set", "base=-1", "--set=dim=8", "--json", "--json"],
    ["generate", "-s", "rope", "-l", "4", "--layout", "half", "--base", "1e6", "--set", "dim=8"],
    ["curve", "-s", "rope", "--title", "--json", "--out", "-"],
    ["identify", "cos.npy", "sin.npy", "-q", "--color", "never"],
]
UNUSUAL = {
    "an option that does not exist": ["heatmap", "--bogus"],
    "a shortened option": ["heatmap", "-srope"],
    "options in one word": ["heatmap", "-qs", "rope"],
    "help": ["heatmap", "--help"],
    "a flag with a value": ["heatmap", "--json=1"],
    "two values": ["heatmap", "-s", "rope", "-l", "8", "-l", "9"],
    "no value": ["heatmap", "-s", "rope", "-l"],
    "half a pair": ["rope-check", "-s", "rope", "--tables", "cos.npy"],
    "an empty text": ["heatmap", "-s", "rope", "--out", ""],
    "an empty text after =": ["heatmap", "-s", "rope", "--out="],
    "an argument too many": ["identify", "a.npy", "b.npy", "c.npy"],
    "an argument too few": ["identify"],
    "the end of options": ["identify", "--", "a.npy"],
    "a command that does not exist": ["draw"],
    "nothing": [],
}


def typed(prepared):
    """The values that a command is called with, and the places of its repeatable texts."""
    function, values = prepared.args
    places = {
        name: [getattr(text, "place", None) for text in value]
        for name, value in values.items()
        if isinstance(value, list)
    }
    order = sorted(place for some in places.values() for place in some if place is not None)
    ranks = {
        name: [place if place is None else order.index(place) for place in some]
        for name, some in places.items()
    }
    shown = {name: (type(value), repr(value)) for name, value in values.items()}
    return function, shown, ranks


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_plain_line_has_the_values_that_typer_reads(words):
    plain = plain_command(words)
    assert plain is not None
    by_typer = application(words)([*words], prog_name="posenc", standalone_mode=False)
    assert typed(plain) == typed(by_typer)


@pytest.mark.parametrize("words", UNUSUAL.values(), ids=UNUSUAL)
def test_typer_reads_the_other_lines(words):
    assert plain_command(words) is None


def test_a_plain_line_loads_no_typer(posenc):
    done = posenc("alibi-slopes", "--heads", "8", flags=["-X", "importtime"], measured=False)
    assert done.returncode == 0
    assert command_line.__name__ in done.stderr
    assert "typer" not in done.stderr
