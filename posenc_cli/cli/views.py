"""Which part of an encoding or of a file is looked at, as pictures of their values share it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.cli.options import OptionGroup, TableName, option, whole_option
from posenc_cli.errors import InvalidInput, abbreviated

if TYPE_CHECKING:
    from posenc_cli.render.figure import Figure


def half_open(flag: str, text: str) -> range:
    """The columns or rows that ``A:B`` names, or ``A`` alone.

    Raises: InvalidInput.
    """
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text.strip())
    if match is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be A:B, two whole numbers from 0")
    first = int(match[1])
    stop = first + 1 if match[2] is None else int(match[2])
    if stop <= first:
        raise InvalidInput(f"{flag} {abbreviated(text)}: is empty")
    return range(first, stop)


class ViewOptions(OptionGroup):
    """Which part of an encoding, or of a file, is looked at."""

    table: TableName = None
    head: Annotated[
        int | None,
        whole_option(
            "--head", metavar="H", minimum=0, help="one head of a bias, or one matrix of a stack"
        ),
    ] = None
    dims: Annotated[
        range | None,
        option("--dims", metavar="A:B", help="only these columns, half-open", parse=half_open),
    ] = None
    rows: Annotated[
        range | None,
        option(
            "--rows", metavar="A:B", help="only these rows of a file, half-open", parse=half_open
        ),
    ] = None

    def check(self, *, encodings: bool, files: bool) -> None:
        """Refuse what goes with neither the encodings nor the files that there are.

        Raises: InvalidInput.
        """
        if not files and self.rows is not None:
            raise InvalidInput(
                f"--rows {self.rows.start}:{self.rows.stop}: goes with --in",
                hint="--positions chooses those of an encoding",
            )
        if not encodings and self.table is not None:
            raise InvalidInput(f"--table {abbreviated(self.table)}: cannot go with --in")

    def stored_figure(self, path: str, *, split: bool = True) -> tuple[Figure, dict[str, Any]]:
        """The figure of the array in a file, and how JSON says which it is.

        Raises: InvalidInput, Unavailable: it cannot be read, or has no such part.
        """
        from posenc_cli.files.reading import read_array
        from posenc_cli.render.stored import figure_of_array

        loaded = read_array(path)
        fields = {"path": path, "dtype": loaded.dtype, "array_shape": loaded.values.shape}
        figure = figure_of_array(
            loaded, head=self.head, rows=self.rows, dims=self.dims, split=split
        )
        return figure, fields
