"""``posenc heatmap``: see an encoding, in the terminal or as a figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixFile
from posenc_cli.cli.options import TableName, option, whole_option
from posenc_cli.cli.pictures import ColorPictureOptions, FigureOutput, show
from posenc_cli.errors import InvalidInput, abbreviated

if TYPE_CHECKING:
    from posenc_cli.render.figure import Figure

_PART = 650, 800
"""The width and height, in pixels, of each of many parts of a hybrid."""


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


def heatmap(
    choice: Choice | None,
    console: Console,
    *,
    source: MatrixFile = None,
    table: TableName = None,
    head: Annotated[
        int | None,
        whole_option(
            "--head", metavar="H", minimum=0, help="one head of a bias, or one matrix of a stack"
        ),
    ] = None,
    dims: Annotated[
        range | None,
        option(
            "--dims",
            metavar="A:B",
            help="only these columns, half-open",
            parse=half_open,
        ),
    ] = None,
    rows: Annotated[
        range | None,
        option(
            "--rows", metavar="A:B", help="only these rows of a file, half-open", parse=half_open
        ),
    ] = None,
    unsplit: Annotated[
        bool, option("--unsplit", help="columns as they are stored, sines among cosines")
    ] = False,
    picture: ColorPictureOptions,
    output: FigureOutput,
) -> None:
    """Draw the values of an encoding as colours.

    In the terminal, or to the file of --out. Sines and cosines are drawn apart, the heads of a bias
    side by side, and a grid as maps of the similarity of one position to all others (as rows with
    --positions or --dims). Of any length, only what is shown is computed: of waves the mean of the
    rows that each line stands for; of others a sample, where ▴ marks columns that change faster
    than the picture can show. The first 512 positions are shown where --len is not given.

    Examples:
      posenc heatmap --scheme sinusoidal --len 128
      posenc heatmap -s rope -l 1000000 -d 512 --out rope.png
      posenc heatmap -s alibi --heads 8 -l 64
      posenc heatmap -s sinusoidal-nd --set grid=14x14 --theme dark --out grid.svg
      posenc heatmap -s sinusoidal -l 128 --unsplit --out tutorial.png
      posenc heatmap --in table.npy --rows 0:32 --dims 0:32
      posenc heatmap --model llama-3.1-8b -l 8192 --table angles
    """
    check_subject(choice, source)
    output.prepare()
    seen = {"dims": dims, "split": not unsplit}
    if choice is not None:
        if rows is not None:
            raise InvalidInput(
                f"--rows {rows.start}:{rows.stop}: goes with --in",
                hint="--positions chooses those of an encoding",
            )
        from posenc_cli.render.encoded import figure_of_choice

        figure, fields = figure_of_choice(choice, table, head, **seen)
    elif table is not None:
        raise InvalidInput(f"--table {abbreviated(table)}: cannot go with --in")
    else:
        figure, fields = _stored(source or "", head, rows=rows, **seen)
    show(
        *(figure, picture, output, console),
        usual=_room_for(len(choice.parts)) if choice else None,
        json=("heatmap", fields) if output.json else None,
    )


def _room_for(parts: int) -> tuple[int, int] | None:
    """The sides in which all parts of a hybrid have room, None where the usual ones will do."""
    across, down = min(parts, 3), -(-parts // 3)
    return (_PART[0] * across, _PART[1] * down) if parts > 2 else None


def _stored(path: str, head: int | None, **seen: Any) -> tuple[Figure, dict[str, Any]]:
    """The figure of a file, and how JSON says which."""
    from posenc_cli.files.reading import read_array
    from posenc_cli.render.stored import figure_of_array

    loaded = read_array(path)
    figure = figure_of_array(loaded, head=head, **seen)
    return figure, {"path": path, "dtype": loaded.dtype, "array_shape": loaded.values.shape}
