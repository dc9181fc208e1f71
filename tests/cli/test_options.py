"""What a command receives of its options: values, in groups, and errors in posenc's words."""

from typing import Annotated

import pytest

from posenc_cli.cli import app
from posenc_cli.cli.choosing import PositionOptions
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OutputOptions, Setting, option, settings_option, whole_option

RECEIVED = {}


def test_every_run_has_an_application_of_its_own():
    first, second = (app.application(["spectrum"]).commands["spectrum"] for _ in range(2))
    assert first.params[0] is not second.params[0]


class RenamedOutput(OutputOptions):
    """A group that says anew what one of its options means."""

    out: Annotated[str | None, option("--out", metavar="FILE", help="another place")] = None
    kind: Annotated[str, option("--kind", known=("plain", "fancy"))] = "plain"


def taker(
    console: Console,
    *,
    where: PositionOptions,
    output: RenamedOutput,
    head: Annotated[int | None, whole_option("--head", minimum=0)] = None,
    settings: Annotated[list[Setting] | None, settings_option("a parameter")] = None,
) -> None:
    """Take them."""
    RECEIVED.update(locals())


@pytest.fixture
def take(call, monkeypatch):
    monkeypatch.setitem(app.COMMANDS, "taker", f"{__name__}:taker")
    RECEIVED.clear()
    return lambda *arguments: call("taker", *arguments)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--head", "-1"], "--head -1: must be at least 0"),
        (["--head", "1.5"], "--head '1.5': must be an integer"),
        (["--len", "0"], "--len 0: must be at least 1"),
        (["--kind", "fanc"], "--kind 'fanc': must be one of plain, fancy"),
        (["--set", "a"], "--set 'a': must be NAME=VALUE"),
        (["--color", "x"], "--color 'x': must be one of auto, always, never"),
    ],
)
def test_a_text_that_is_no_value_is_refused_in_one_line_before_the_body_runs(take, arguments, line):
    status, out, err = take(*arguments)
    assert (status, out, RECEIVED) == (2, "", {})
    assert err.splitlines()[0] == f"posenc: error: {line}"


@pytest.mark.parametrize("digits", [41, 4400])
def test_thousands_of_digits_are_refused_unread(take, digits):
    status, _, err = take("--head", "1" * digits)
    assert (status, f"({digits} characters)" in err or digits < 60) == (2, True)
    assert err.endswith(" is past 2^53, the last exact position\n")


def test_an_option_without_its_value_points_to_the_help_of_its_command(refused):
    err = refused("rope-check", "-s", "rope", "--impl")
    assert err.endswith("hint: posenc rope-check --help shows how it is used\n")
