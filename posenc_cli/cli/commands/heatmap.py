"""``posenc heatmap``: draw an encoding in the terminal or to a file."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from posenc_cli.cli.choosing import check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import option
from posenc_cli.cli.pictures import ColorPictureOptions, FigureOutput, show
from posenc_cli.cli.subjects import Encodings, MatrixFile, ViewOptions
from posenc_cli.errors import InvalidInput

_PART = 650, 800
"""The width and height in pixels for each of many encodings or parts of a hybrid."""


def heatmap(
    encodings: Encodings,
    console: Console,
    *,
    source: MatrixFile = None,
    view: ViewOptions,
    unsplit: Annotated[
        bool,
        option("--unsplit", help="keep the stored column order; do not separate sines and cosines"),
    ] = False,
    softmax: Annotated[
        bool, option("--softmax", help="for a bias: draw the attention weights of the bias alone")
    ] = False,
    causal: Annotated[bool, option("--causal", help="with --softmax: mask later keys")] = False,
    picture: ColorPictureOptions,
    output: FigureOutput,
) -> None:
    """Draw the values of an encoding as colors.

    posenc draws in the terminal, or to a file with --out. It draws sines and cosines separately,
    and the heads of a bias side by side. --softmax draws attention as if all content were equal.
    Without --len, posenc shows the first 512 positions, or 64 with --softmax.

    For an image encoding, posenc draws the similarity of a few patches to all others. With
    --positions or --dims, it draws rows of the table instead.

    posenc computes only the values it shows, so any length works. In a long table of sines and
    cosines, each line shows the mean of several rows. In other long tables, posenc shows a sample
    of the rows. ▴ marks columns that change faster than the picture can show.

    Examples:
      posenc heatmap --scheme sinusoidal --len 128
      posenc heatmap -s rope -l 1000000 -d 512 --out rope.png
      posenc heatmap -s alibi --heads 8 -l 64
      posenc heatmap -s alibi --softmax --causal --head 2
      posenc heatmap -s sinusoidal-nd --set grid=14x14 --theme dark --out grid.svg
      posenc heatmap -s sinusoidal -l 128 --unsplit --out tutorial.png
      posenc heatmap --in table.npy --rows 0:32 --dims 0:32
      posenc heatmap --model llama-3.1-8b -l 8192 --table angles
    """
    choices = encodings.whole
    check_subject(choices, source)
    view.check(encodings=bool(choices), files=not choices)
    if softmax and (view.dims is not None or unsplit):
        raise InvalidInput("--softmax: draws queries × keys; --dims and --unsplit choose columns")
    if causal and not softmax:
        raise InvalidInput("--causal needs --softmax")
    if choices and all(choice.source and choice.scheme.name == "nope" for choice in choices):
        raise InvalidInput(f"{choices[0].source} has no positional encoding to draw")
    output.prepare()
    if not choices:
        if softmax:
            raise InvalidInput("--softmax needs the scheme of a bias, not --in")
        figure, fields = view.stored_figure(source or "")
    else:
        from posenc_cli.render.figures.encoded import figure_of, figure_of_choices

        first, draw = 512, partial(figure_of, dims=view.dims, split=not unsplit)
        if softmax:
            from posenc_cli.render.figures.attention import FIRST_OF_WEIGHTS, weights_figure

            first, draw = FIRST_OF_WEIGHTS, partial(weights_figure, causal=causal)
        figure, fields = figure_of_choices(choices, view.table, view.head, draw, first=first)
        if softmax:
            fields |= {"softmax": True, "causal": causal}
    show(
        *(figure, picture, output, console),
        usual=_room_for(sum(len(choice.parts) or 1 for choice in choices)),
        json=("heatmap", fields) if output.json else None,
    )


def _room_for(parts: int) -> tuple[int, int] | None:
    """Return the size in pixels of a figure of ``parts`` encodings; None for the usual size."""
    across, down = min(parts, 3), -(-parts // 3)
    return (_PART[0] * across, _PART[1] * down) if parts > 2 else None
