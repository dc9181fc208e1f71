"""``posenc curve``: plot columns of encodings over positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import ComputeOptions, ParameterOptions, PositionOptions
from posenc_cli.cli.console import Console
from posenc_cli.cli.pictures import FigureOutput, PictureOptions, show
from posenc_cli.cli.subjects import BUCKETS, CurveOptions, SeveralSourceOptions, Subjects
from posenc_cli.errors import quoted_name

if TYPE_CHECKING:
    from posenc_cli.render.figure import Figure


def curve(
    source: SeveralSourceOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    console: Console,
    *,
    view: CurveOptions,
    picture: PictureOptions,
    output: FigureOutput,
) -> None:
    """Plot dimensions of an encoding against position.

    posenc draws one line for each dimension in --dims. Without --dims, it chooses four dimensions
    with readable waves. For a bias, it draws one line per head: the score by offset. With --table
    buckets, it draws the bucket of each relative position. Without --len, it shows the first 100
    positions. Several encodings, models or files share one set of axes.

    Beyond 1200 positions, posenc plots evenly spaced samples. If a wave is too fast for the
    samples, posenc draws points instead of a line.

    Examples:
      posenc curve --scheme sinusoidal --dims 4:8 --len 100
      posenc curve -s alibi --heads 4 --len 128
      posenc curve -m llama-3-8b -m llama-3.1-8b --table cos --dims 40:41 -l 8192
      posenc curve -s t5 --table buckets --positions -150:151
      posenc curve --in table.npy --dims 0:4 --out columns.png
    """
    if view.table == BUCKETS:
        output.prepare()
        drawn, fields = view.buckets(source, where, parameters)
        show(drawn, picture, output, console, json=("curve", fields) if output.json else None)
        return
    subjects = Subjects.of_options(source, where, parameters, computing, console)
    choices = [item for item in subjects.items if isinstance(item, Choice)]
    view.check(encodings=bool(choices), files=len(choices) < len(subjects.items))
    output.prepare()
    from posenc_cli.render.figures.columns import together

    figures = [_curves(item, view, of=len(subjects.items)) for item in subjects.items]
    names = [
        item.source or item.name if isinstance(item, Choice) else quoted_name(item)
        for item in subjects.items
    ]
    figure = together([figure for figure, _ in figures], names)
    parts = [fields for _, fields in figures]
    fields = parts[0] if len(parts) == 1 else {"parts": parts}
    show(figure, picture, output, console, json=("curve", fields) if output.json else None)


def _curves(item: Choice | str, view: CurveOptions, *, of: int) -> tuple[Figure, dict[str, Any]]:
    """Return the curves of one item ``of`` several encodings and files, and its JSON fields."""
    from posenc_cli.render.figures.columns import FIRST_OF_CURVES, column_figure, curves_of
    from posenc_cli.render.figures.encoded import figure_of_choice

    if isinstance(item, Choice):
        draw = partial(column_figure, dims=view.dims, of=of)
        return figure_of_choice(item, view.table, view.head, draw, first=FIRST_OF_CURVES)
    figure, fields = view.stored_figure(item)
    return curves_of(figure, all_of_them=view.dims is not None, of=of), fields
