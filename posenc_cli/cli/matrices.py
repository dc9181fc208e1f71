"""Options shared by commands that read or write a matrix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from posenc_cli.cli.options import ENCODING, OutputOptions, option
from posenc_cli.cli.progress import with_overflow_warning, with_progress
from posenc_cli.files.formats import FORMATS

if TYPE_CHECKING:
    from posenc_cli.cli.console import Console
    from posenc_cli.files.matrix import Matrix


READ = " ".join(form.suffix for form in FORMATS.values())

MatrixFile = Annotated[
    str | None,
    option(
        "--in",
        metavar="FILE",
        help=f"a matrix in a file: {READ}; FILE:TENSOR names one of several",
        rich_help_panel=ENCODING,
    ),
]


class MatrixOutput(OutputOptions):
    """Where a matrix goes, and in which format."""

    out: Annotated[
        str | None, option("--out", "-o", metavar="FILE", help="output file; - is stdout")
    ] = None
    form: Annotated[
        str | None,
        option("--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: from the suffix]"),
    ] = None

    def watch(self, matrix: Matrix, console: Console, *, may_overflow: bool) -> Matrix:
        """Return ``matrix`` with a warning of overflow and a progress bar while it is computed."""
        if may_overflow:
            matrix = with_overflow_warning(matrix, console)
        if console.shows_progress and not self.to_stdout:
            matrix = with_progress(matrix, sys.stderr)
        return matrix
