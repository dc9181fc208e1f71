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
    as_json: Json = False,
) -> None:
    """List the compute backends, and which one auto chooses.

    Exact values are the same bytes on every backend. Backends differ in speed, and in what
    --arithmetic float32 reproduces.

    Examples:
      posenc backends
      posenc backends --values 128000000 --json
    """
    from posenc_cli.backends import registry

    statuses = {name: registry.status(name) for name in registry.names()}
    auto: str | None = None
    try:
        chosen = registry.choose("auto", device=device, values=values)
    except Unavailable as error:
        reason = error.message
    else:
        auto, reason = chosen.backend.name, chosen.reason
    if as_json:
        fields = {
            "backends": [{"name": name, **status.as_dict()} for name, status in statuses.items()],
            "values": values,
            "auto": {"name": auto, "reason": reason},
        }
        console.json("backends", fields)
        return
    rows = [
        [name, status.version or "-", ", ".join(status.devices) or "-", status.reason]
        for name, status in statuses.items()
    ]
    table = console.table_text(["backend", "version", "devices", "what it is"], rows)
    choice = f"auto for {values} values: {auto or 'none'} ({reason})"
    console.result(f"{table}\n\n{console.paragraph_text(choice)}")
