"""What the commands share that write a matrix."""

from __future__ import annotations

from typing import Annotated

import typer

from posenc_cli.cli.options import OutputOptions
from posenc_cli.files.formats import FORMATS


class MatrixOutput(OutputOptions):
    """Where a matrix goes, and in which format."""

    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: by the suffix]"
        ),
    ] = None
