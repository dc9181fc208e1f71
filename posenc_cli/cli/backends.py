"""``posenc backends``: what can compute here, and what auto would choose."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, option, whole_number
from posenc_cli.errors import Unavailable


def backends(
    console: Console,
    *,
    values: Annotated[
        int,
        option(
            "--values",
            metavar="N",
            help="the size of the job auto chooses for",
            parse=partial(whole_number, minimum=1),
        ),
    ] = 4096 * 64,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="the device asked for")
    ] = None,
    json: Json = False,
) -> None:
    """List the backends, and what auto chooses.

    Exact values are the same bytes on every backend; they differ in speed, and in what
    --arithmetic float32 reproduces.

    \b
    Examples:
      posenc backends
      posenc backends --values 128000000 --json
    """
    from posenc_cli.backends import registry

    found = {name: registry.status(name) for name in registry.names()}
    auto, reason = _auto(device, values)
    if json:
        fields = {
            "backends": [{"name": name, **each.as_dict()} for name, each in found.items()],
            "values": values,
            "auto": {"name": auto, "reason": reason},
        }
        console.json("backends", fields)
        return
    rows = [
        [name, each.version or "-", ", ".join(each.devices) or "-", each.reason]
        for name, each in found.items()
    ]
    table = console.table_text(["backend", "version", "devices", "what it is"], rows)
    choice = f"auto for {values} values: {auto or 'none'} ({reason})"
    console.result(f"{table}\n\n{console.paragraph_text(choice)}")


def _auto(device: str | None, values: int) -> tuple[str | None, str]:
    """The name of the backend that auto chooses, if one can, and the reason."""
    from posenc_cli.backends import registry

    try:
        found = registry.choose("auto", device=device, values=values)
    except Unavailable as error:
        return None, error.message
    return found.backend.name, found.reason
