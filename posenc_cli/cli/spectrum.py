"""``posenc spectrum``: the waves that an encoding is made of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.analysis.sampling import spread
from posenc_cli.cli.choosing import Choice, check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OutputOptions, Source
from posenc_cli.cli.pictures import IMAGES, PictureOptions, image_format, said, show
from posenc_cli.records import replace
from posenc_cli.render.terminal import LOWEST

if TYPE_CHECKING:
    from posenc_cli.cli.spectra import SpectrumReport

_LINES, _LEAST_LINES = 18, 11
"""Lines of the curve: as a rule, and on a screen that is low."""
_FEWEST_ROWS = 3


class SpectrumOutput(OutputOptions):
    """Where the figure goes."""

    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help=f"a figure: {' '.join(IMAGES)}"),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="the data as one JSON object")] = False


def spectrum(
    choice: Choice | None,
    console: Console,
    *,
    source: Source = None,
    picture: PictureOptions,
    output: SpectrumOutput,
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
    if output.out is not None:
        image_format(output.out)
        output.check_stdout()
    output.prepare()
    from posenc_cli.cli import spectra

    report = spectra.of_choice(choice) if choice else spectra.of_file(source or "")
    for warning in report.warnings:
        console.warning(warning)
    if output.out is not None:
        show(report.drawable(), picture, output, console)
    if output.json:
        path = {} if output.out is None else {"path": output.out}
        console.json("spectrum", {**report.fields, **path})
    elif output.out is None:
        _show(report, replace(picture, title=None), output, console)


def _show(
    report: SpectrumReport, look: PictureOptions, output: OutputOptions, console: Console
) -> None:
    """Print the table, the curve and the words: on a terminal, as much as fills its screen."""
    rows, notes, height = report.rows, report.notes, _LINES
    words = said(notes, look, console)
    if sys.stdout.isatty() and look.height is None:
        # Besides: the two lines above a table, a note on what it leaves out, and the prompt.
        room = console.height - len(words) - 3
        kept = max(_FEWEST_ROWS, room - (LOWEST if report.figure is None else _LEAST_LINES))
        if kept < len(rows):
            room -= 1
            rows = [rows[i] for i in spread(len(rows), kept - 1)]
            told = f"the table has {len(rows)} of {report.all_rows} rows; --json has them all"
            words = said([told, *report.sentences], look, console)
        height = max(LOWEST, room - len(rows))
    print(console.table_text(report.columns, rows))
    if report.figure is not None:
        show(report.figure, replace(look, height=look.height or height), output, console)
    print("\n".join(words))
