"""Where a figure goes: to the terminal as text, to a file as an image, or to JSON as numbers."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.cli import streams
from posenc_cli.cli.options import one_of, whole_number
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.cli.console import Console
    from posenc_cli.render.blocks import Page
    from posenc_cli.render.figure import Figure, Heatmap, Picture
    from posenc_cli.render.image import ImageFormat
    from posenc_cli.render.sheet import Style

THEMES = ("light", "dark")
IMAGES: dict[str, ImageFormat] = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
"""The suffixes of files that hold a picture."""

_ROWS_OF_DATA, _COLUMNS_OF_DATA = 512, 1024
_DPI = range(10, 1201)

Width = Annotated[
    str | None,
    typer.Option("--width", metavar="N", help="columns in the terminal, pixels in a file"),
]
Height = Annotated[
    str | None,
    typer.Option("--height", metavar="N", help="lines in the terminal, pixels in a file"),
]
Dpi = Annotated[
    str | None,
    typer.Option(
        "--dpi",
        metavar="N",
        help="pixels an inch, of text and of sides that are not given [default: 150]",
    ),
]
ThemeOption = Annotated[
    str, typer.Option("--theme", metavar="NAME", help=f"of a figure in a file: {'|'.join(THEMES)}")
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="of the picture")]


class PictureOptions(Record):
    """What the options of a command say of its picture, as they were typed.

    ``usual`` are the width and height of a figure where they say nothing of it.
    """

    out: str | None = None
    width: str | None = None
    height: str | None = None
    dpi: str | None = None
    theme: str = "light"
    cmap: str | None = None
    clobber: bool = True
    usual: tuple[int, int] | None = None


def show(
    figure: Figure,
    options: PictureOptions,
    console: Console,
    *,
    json: tuple[str, Mapping[str, Any]] | None = None,
) -> None:
    """Draw a figure to the terminal, or to the file that the options name.

    ``json``, the name of a command and what its JSON begins with, asks for the plotted data on
    stdout; in the terminal they take the place of the picture.

    Raises: InvalidInput, Unavailable: as options, figure and file do.
    """
    from posenc_cli.errors import printable_text

    one_of("--theme", options.theme, THEMES)
    figure = replace(figure, title=printable_text(figure.title))
    if options.out is None:
        _without_file(options)
        if json is None:
            _print(figure, page_of(options, console), console)
            return
        from posenc_cli.render.figure import heatmaps_of, warnings_of

        sides = _sides_of_data(options, heatmaps_of(figure))
        shown = [each.shown(*sides) for each in heatmaps_of(figure)]
        _report(figure, shown, json, console, {})
        _warn(warnings_of(heatmaps_of(figure), shown), console)
        return
    from posenc_cli.files.atomic import STANDARD_OUTPUT

    if json is not None and options.out == STANDARD_OUTPUT:
        raise InvalidInput("--json: stdout is taken by --out -", hint="write to a file")
    picture = _written(figure, options, _style(options))
    _warn(picture.warnings, console)
    if json is not None:
        _report(figure, picture.shown, json, console, {"path": options.out})
    else:
        from posenc_cli.errors import quoted_name

        to_stdout = options.out == STANDARD_OUTPUT
        place = "standard output" if to_stdout else quoted_name(options.out)
        console.summary(f"wrote {place}: {figure.title}, {len(picture.content)} bytes")


def _sides_of_data(options: PictureOptions, heatmaps: Sequence[Heatmap]) -> tuple[int, int]:
    """At most how many rows and columns of each heatmap are told as numbers.

    Raises: InvalidInput where the options ask for more than is told.
    """
    rows = _size("--height", options.height, range(1, 1 << 16), _ROWS_OF_DATA)
    columns = _size("--width", options.width, range(1, 1 << 16), _COLUMNS_OF_DATA)

    def values(rows: int, columns: int) -> int:
        return sum(
            min(rows, len(each.rows.points)) * min(columns, len(each.columns.points))
            for each in heatmaps
        )

    if options.height is None and options.width is None:
        while values(rows, columns) > LISTED_VALUES and rows > 1:
            rows, columns = rows // 2, columns // 2
    asked = f"--width {columns} --height {rows}"
    check_size(asked, values(rows, columns), LISTED_VALUES, "values in JSON")
    return rows, columns


def image_format(out: str) -> ImageFormat:
    """The format of a picture, by the suffix of its file; PNG to standard output.

    Raises: InvalidInput where no picture has that suffix.
    """
    from posenc_cli.errors import quoted_name
    from posenc_cli.files.atomic import STANDARD_OUTPUT, check_no_folder

    if out == STANDARD_OUTPUT:
        return "png"
    suffix = PurePath(out).suffix.lower()
    if suffix not in IMAGES:
        check_no_folder(out)
        hint = nearest(suffix, IMAGES) if suffix else f"{out}.png"
        if not suffix and Path(out).exists():  # a device
            hint = None
        raise InvalidInput(f"--out {quoted_name(out)}: must end in {', '.join(IMAGES)}", hint=hint)
    return IMAGES[suffix]


def _report(
    figure: Figure,
    shown: Sequence[Any],
    json: tuple[str, Mapping[str, Any]],
    console: Console,
    more: Mapping[str, Any],
) -> None:
    from posenc_cli.render.figure import data_of, scale_of

    name, fields = json
    if shown:
        scale_of(shown)  # raises where nothing is finite
    console.json(name, {**fields, **data_of(figure, shown), **more})


def _print(figure: Figure, page: Page, console: Console) -> None:
    from posenc_cli.render.terminal import picture_text

    picture = picture_text(figure, page)
    console.result(picture.content)
    _warn(picture.warnings, console)


def _warn(warnings: Sequence[str], console: Console) -> None:
    for warning in warnings:
        console.warning(warning)


def _without_file(options: PictureOptions) -> None:
    for flag, value in (("--dpi", options.dpi), ("--theme", options.theme)):
        if value not in (None, PictureOptions.theme):
            raise InvalidInput(f"{flag} {abbreviated(value)}: needs --out, a file to draw to")


def page_of(options: PictureOptions, console: Console) -> Page:
    """The room that a picture has in the terminal.

    Raises: InvalidInput where there is none of the size asked for.
    """
    from posenc_cli.render.blocks import Medium, Page
    from posenc_cli.render.terminal import LOWEST, NARROWEST

    medium = Medium.of(
        colored=console.colored(sys.stdout),
        encoding=sys.stdout.encoding,
        ascii_only=console.ascii_only,
        spelled=streams.ascii_spelling,
    )
    # A line less than the terminal has: the prompt will take one.
    height = _size("--height", options.height, range(LOWEST, 1000), console.height - 1)
    width = _size("--width", options.width, range(NARROWEST, 1000), console.width)
    return Page(width, height, medium, options.cmap)


def said(sentences: Sequence[str], options: PictureOptions, console: Console) -> list[str]:
    """Sentences as lines that are no wider than the picture they go with."""
    page = page_of(options, console)
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            page.medium.spelled(" ".join(sentence.split())),
            min(page.width, console.width),
            subsequent_indent="  ",
        )
    ]


def _style(options: PictureOptions) -> Style:
    """How an image is to look."""
    from posenc_cli.render.sheet import LARGEST, SMALLEST, Style

    sides = range(SMALLEST, LARGEST + 1)
    return Style.sized(
        _side("--width", options.width, sides),
        _side("--height", options.height, sides),
        _side("--dpi", options.dpi, _DPI),
        usual=options.usual,
        theme=options.theme,  # type: ignore[arg-type]
        cmap=options.cmap,
    )


def _side(flag: str, text: str | None, allowed: range) -> int | None:
    return None if text is None else _size(flag, text, allowed, 0)


def _size(flag: str, text: str | None, allowed: range, default: int) -> int:
    if text is None:
        return default
    number = whole_number(flag, text, minimum=allowed.start)
    if number not in allowed:
        raise InvalidInput(f"{flag} {number}: must be at most {allowed.stop - 1}")
    return number


def _written(figure: Figure, options: PictureOptions, style: Style) -> Picture[bytes]:
    """The picture, which is in its file by now."""
    from posenc_cli.files.atomic import STANDARD_OUTPUT, preflight, replacing, standard_output
    from posenc_cli.render.image import image_bytes

    out = options.out or ""
    form = image_format(out)
    to_file = out != STANDARD_OUTPUT
    if to_file:
        preflight(out, clobber=options.clobber)
    elif sys.stdout.isatty():
        raise InvalidInput(f"--out -: {form} is binary and standard output is a terminal")
    picture = image_bytes(figure, form, style)
    with replacing(out, clobber=options.clobber) if to_file else standard_output() as stream:
        stream.write(picture.content)
    return picture
