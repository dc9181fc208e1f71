"""The table of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.cli.alibi_slopes import alibi_slopes
from posenc_cli.cli.backends import backends
from posenc_cli.cli.generate import generate
from posenc_cli.cli.options import command
from posenc_cli.cli.schemes import schemes

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS: dict[str, Callable[..., int | None]] = {
    "generate": generate,
    "alibi-slopes": alibi_slopes,
    "schemes": schemes,
    "backends": backends,
}

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def posenc(
    version: Annotated[bool, typer.Option("--version", "-V", help="print the version")] = False,
) -> None:
    """Generate, inspect, check and visualize transformer positional encodings.

    Results go to stdout, everything else to stderr. Exit status: 0 done, 1 a check failed,
    2 wrong usage or invalid input, 3 the environment cannot do it, 70 a bug in posenc.
    """


for name, function in COMMANDS.items():
    app.command(name)(command(function))
