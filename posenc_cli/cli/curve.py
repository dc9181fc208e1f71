"""``posenc curve``: columns of an encoding over positions, as lines."""

from __future__ import annotations

from functools import partial

from posenc_cli.choice import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.pictures import FigureOutput, PictureOptions, show
from posenc_cli.cli.views import ViewOptions


def curve(
    choice: Choice | None,
    console: Console,
    *,
    view: ViewOptions,
    picture: PictureOptions,
    output: FigureOutput,
) -> None:
    """Draw columns of an encoding over the positions.

    A line for each column, at most six: of more, some from the first to the last. A bias has a line
    for each head, its score by offset. What is longer than 1200 positions is shown at equal steps;
    where a wave is too fast for those its points stand alone, as the sample they are. The first 100
    positions are shown where --len is not given.

    Examples:
      posenc curve --scheme sinusoidal --dims 4:8 --len 100
      posenc curve -s alibi --heads 4 --len 128
      posenc curve --model llama-3.1-8b --table cos --dims 20:24 -l 8192 --out slow.png
      posenc curve --in table.npy --dims 0:4
    """
    view.check(choice)
    output.prepare()
    if choice is None:
        from posenc_cli.render.columns import curves_of
        from posenc_cli.render.stored import figure_of_array

        loaded, fields = view.stored()
        figure = curves_of(figure_of_array(loaded, head=view.head, rows=view.rows, dims=view.dims))
    else:
        from posenc_cli.render.columns import FIRST_OF_CURVES, column_figure
        from posenc_cli.render.encoded import figure_of_choice

        draw = partial(column_figure, dims=view.dims)
        figure, fields = figure_of_choice(
            choice, view.table, view.head, draw, first=FIRST_OF_CURVES
        )
    show(figure, picture, output, console, json=("curve", fields) if output.json else None)
