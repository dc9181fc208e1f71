"""``posenc spectrum``: the waves that an encoding is made of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.analysis.sampling import spread
from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import Choice, check_subject
from posenc_cli.cli.pictures import (
    IMAGES,
    Dpi,
    Height,
    PictureOptions,
    ThemeOption,
    Title,
    Width,
    image_format,
    said,
    show,
)
from posenc_cli.errors import InvalidInput
from posenc_cli.files.atomic import STANDARD_OUTPUT
from posenc_cli.records import replace
from posenc_cli.render.terminal import LOWEST

if TYPE_CHECKING:
    from posenc_cli.cli.spectra import SpectrumReport

_LINES, _LEAST_LINES = 18, 11
"""Lines of the curve: as a rule, and on a screen that is low."""
_FEWEST_ROWS = 3


def spectrum(
    choice: Choice | None,
    console: Console,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--in", metavar="FILE", help="a matrix to look at: .npy .npz .csv .safetensors"
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help=f"a figure: {' '.join(IMAGES)}"),
    ] = None,
    title: Title = None,
    width: Width = None,
    height: Height = None,
    dpi: Dpi = None,
    theme: ThemeOption = "light",
    no_clobber: Annotated[
        bool, typer.Option("--no-clobber", help="refuse to replace an existing file")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="the data as one JSON object")] = False,
) -> None:
    """Show the waves of an encoding: wavelengths, turns, and what a scaling did to each.

    Turns are counted in --len positions, else in those that the model or config takes, else in the
    context the scheme was trained on, else in 4096. Pairs of a stretched RoPE are kept, blended or
    interpolated. Encodings that are not made of waves, and files, have the power of their columns
    along the positions instead. One scheme at a time: A+B has no spectrum of its own.

    \b
    Examples:
      posenc spectrum --scheme rope --base 500000 --dim 128
      posenc spectrum -s rope-yarn --set factor=8 --dim 128 --out wavelengths.png
      posenc spectrum --model llama-3.1-8b --len 131072
      posenc spectrum --in table.npy --json
    """
    check_subject(choice, source)
    if out is not None:
        image_format(out)
        if json and out == STANDARD_OUTPUT:
            raise InvalidInput("--json: stdout is taken by --out -", hint="write to a file")
    console.prepare(out, clobber=not no_clobber)
    from posenc_cli.cli import spectra

    report = spectra.of_choice(choice) if choice else spectra.of_file(source or "")
    for warning in report.warnings:
        console.warning(warning)
    options = PictureOptions(out, width, height, dpi, theme, clobber=not no_clobber)
    if out is not None:
        show(report.titled(title), options, console)
    if json:
        console.json("spectrum", report.fields if out is None else {**report.fields, "path": out})
    elif out is None:
        _show(report, options, console)


def _show(report: SpectrumReport, options: PictureOptions, console: Console) -> None:
    """Print the table, the curve and the words: on a terminal, as much as fills its screen."""
    rows, notes, height = report.rows, report.notes, _LINES
    words = said(notes, options, console)
    if sys.stdout.isatty() and options.height is None:
        # Besides: the two lines above a table, a note on what it leaves out, and the prompt.
        room = console.height - len(words) - 3
        kept = max(_FEWEST_ROWS, room - (LOWEST if report.figure is None else _LEAST_LINES))
        if kept < len(rows):
            room -= 1
            rows = [rows[i] for i in spread(len(rows), kept - 1)]
            told = f"the table has {len(rows)} of {report.all_rows} rows; --json has them all"
            words = said([told, *report.sentences], options, console)
        height = max(LOWEST, room - len(rows))
    print(console.table_text(report.columns, rows))
    if report.figure is not None:
        show(report.figure, replace(options, height=options.height or str(height)), console)
    print("\n".join(words))
