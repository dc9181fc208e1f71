"""``posenc completion``: what lets a shell complete commands, options and their values."""

from __future__ import annotations

import contextlib
import io
from typing import Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.exits import COMPLETION
from posenc_cli.cli.options import one_of, option
from posenc_cli.errors import InvalidInput

SHELLS = ("bash", "zsh", "fish")


def completion(
    console: Console,
    shell: Annotated[
        str | None, typer.Argument(metavar="[SHELL]", help="bash, zsh or fish")
    ] = None,
    *,
    install: Annotated[
        bool, option("--install", help="write it where the shell, or the one that runs, finds it")
    ] = False,
) -> None:
    """Let a shell complete commands, options, schemes, models, parameters and formats.

    Without --install, prints the script that does it.

    \b
    Examples:
      posenc completion bash --install
      posenc completion zsh >_posenc
      eval "$(posenc completion bash)"
    """
    # Typer's own commands for it are options of the program, which every help would list.
    from typer import completion as scripts

    if shell is None and not install:
        raise InvalidInput(f"SHELL: must be one of {', '.join(SHELLS)}", hint="or --install")
    if shell is not None:
        one_of("SHELL", shell, SHELLS)
    if not install:
        names = {"prog_name": "posenc", "complete_var": COMPLETION, "shell": shell or ""}
        print(scripts.get_completion_script(**names))  # type: ignore[attr-defined]
        return
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where Typer says that it cannot
            name, path = scripts.install(shell, "posenc", COMPLETION)  # type: ignore[attr-defined]
    except typer.Exit:
        raise InvalidInput(f"SHELL: name it, one of {', '.join(SHELLS)}") from None
    console.summary(f"wrote '{path}': completion for {name}, from its next start on")
