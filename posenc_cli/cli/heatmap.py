"""``posenc heatmap``: see an encoding, in the terminal or as a figure."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.choosing import Choice, check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OutputOptions, Source, Table, option, whole_number
from posenc_cli.cli.pictures import ColorPictureOptions, image_format, show
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.render.figure import Panels

if TYPE_CHECKING:
    from posenc_cli.encode.request import Request
    from posenc_cli.render.figure import Figure

_FIRST = 512
"""Positions of a model that are shown where nobody says how many."""


def column_range(flag: str, text: str) -> range:
    """The columns that ``A:B`` names, or ``A`` alone.

    Raises: InvalidInput.
    """
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text.strip())
    if match is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be A:B, two column numbers")
    first = int(match[1])
    stop = first + 1 if match[2] is None else int(match[2])
    if stop <= first:
        raise InvalidInput(f"{flag} {abbreviated(text)}: holds no column")
    return range(first, stop)


class HeatmapOutput(OutputOptions):
    """Where the picture goes."""

    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="draw to a .png, .svg or .pdf file"),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="print the plotted data as one JSON object")
    ] = False


def heatmap(
    choice: Choice | None,
    console: Console,
    *,
    source: Source = None,
    table: Table = None,
    head: Annotated[
        int | None,
        option(
            "--head",
            metavar="H",
            help="one head of a bias, or one matrix of a stack",
            parse=partial(whole_number, minimum=0),
        ),
    ] = None,
    dims: Annotated[
        range | None,
        option(
            "--dims",
            metavar="A:B",
            help="only these columns, half-open",
            parse=column_range,
        ),
    ] = None,
    unsplit: Annotated[
        bool, typer.Option("--unsplit", help="columns as they are stored, sines among cosines")
    ] = False,
    picture: ColorPictureOptions,
    output: HeatmapOutput,
) -> None:
    """Draw the values of an encoding as colours, in the terminal or to a file.

    Sines and cosines are drawn apart, the heads of a bias side by side, and a grid as maps of the
    similarity of one position to all others (as rows with --positions or --dims). Of any length,
    only what is shown is computed; ▴ marks columns that change faster than the picture can show.
    Of a config or a model, the first 512 positions are shown where --len is not given.

    \b
    Examples:
      posenc heatmap --scheme sinusoidal --len 128
      posenc heatmap -s rope -l 1000000 -d 512 --out rope.png
      posenc heatmap -s alibi --heads 8 -l 64
      posenc heatmap -s sinusoidal-nd --set grid=14x14 --theme dark --out grid.svg
      posenc heatmap -s sinusoidal -l 128 --unsplit --out tutorial.png
      posenc heatmap --in table.npy --dims 0:32
      posenc heatmap --model llama-3.1-8b -l 8192 --table angles
    """
    check_subject(choice, source)
    if output.out is not None:
        image_format(output.out)
    output.prepare()
    if choice is None:
        figure, fields = _stored(source or "", table, head, dims, split=not unsplit)
    else:
        choice = _with_positions(choice, table)
        figure, fields = _encoded(choice, table, head, dims, split=not unsplit)
    show(figure, picture, output, console, json=("heatmap", fields) if output.json else None)


def _with_positions(choice: Choice, table: str | None) -> Choice:
    """A choice of a config or a model, at its first positions where none are asked for."""
    if not choice.source or choice.positions is not None or table == "inv-freq":
        return choice
    content = choice.encoding().bound.content
    capacity = content.capacity
    if content.waves is not None and capacity:
        return choice  # a grid, which is shown whole
    count = min(_FIRST, capacity.positions if capacity else _FIRST)
    return replace(choice, positions=Positions.contiguous(0, count))


def _encoded(
    choice: Choice, table: str | None, head: int | None, dims: range | None, *, split: bool
) -> tuple[Figure, dict[str, Any]]:
    """The figure of an encoding, and how JSON says what was asked for: each part of a hybrid."""
    from posenc_cli.errors import quoted_name
    from posenc_cli.render.encoded import figure_of

    if not choice.parts:
        request = _request(choice, table, head)
        figure = figure_of(request, choice.engine, dims=dims, split=split)
        if choice.source:
            figure = replace(figure, title=f"{quoted_name(choice.source)}: {figure.title}")
        return figure, _description(request)
    kinds = [part.scheme.kind for part in choice.parts]
    for flag, value, kind in (("--table", table, "rotary"), ("--head", head, "bias")):
        if value is not None and kind not in kinds:
            raise InvalidInput(f"{flag} {value}: no part of {choice.name} is {kind}")
    requests = [
        _request(
            part,
            table if part.scheme.kind == "rotary" else None,
            # One head stands for all where there is another part to see.
            head or 0 if part.scheme.kind == "bias" else None,
        )
        for part in choice.parts
    ]
    figures = [figure_of(each, choice.engine, dims=dims, split=split) for each in requests]
    panels = tuple(
        panel
        for each in figures
        for panel in (each.panels if isinstance(each, Panels) else (each,))
    )
    fields = {"scheme": choice.name, "parts": [_description(each) for each in requests]}
    return Panels(panels, choice.name, shared=False, noun="part"), fields


def _description(request: Request) -> dict[str, Any]:
    """A request as JSON says it, and whether what is drawn was drawn at random."""
    return {**request.description(), "random_weights": request.random_weights is not None}


def _request(choice: Choice, table: str | None, head: int | None) -> Request:
    """What to see of one scheme, in float64."""
    from posenc_cli.encode.precision import Precision
    from posenc_cli.encode.request import Request
    from posenc_cli.numerics.dtypes import FLOAT64

    return Request(
        choice.encoding(), choice.positions, Precision.of(FLOAT64, None), table=table, head=head
    )


def _stored(
    path: str, table: str | None, head: int | None, dims: range | None, *, split: bool
) -> tuple[Figure, dict[str, Any]]:
    """The figure of a file, and how JSON says which."""
    from posenc_cli.files.reading import read_array
    from posenc_cli.render.stored import figure_of_array

    if table is not None:
        raise InvalidInput(f"--table {abbreviated(table)}: cannot go with --in")
    loaded = read_array(path)
    figure = figure_of_array(loaded, head=head, dims=dims, split=split)
    return figure, {"path": path, "dtype": loaded.dtype, "array_shape": loaded.values.shape}
