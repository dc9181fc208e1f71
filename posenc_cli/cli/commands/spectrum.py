"""``posenc spectrum``: the wavelengths of an encoding."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from posenc_cli.cli.console import Console
from posenc_cli.cli.pictures import FigureOutput, PictureOptions, show, wrapped_lines
from posenc_cli.cli.subjects import Encodings
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.render.figures.spectra import SpectrumReport
    from posenc_cli.render.html.live import Ladder

_LINES, _LEAST_LINES, _ABOVE_ROWS = 18, 13, 2
"""Lines of the curve: by default, and at least if there is a table; lines above its rows."""
_FEWEST_ROWS = 4
"""The fewest rows of a table that is cut; if fewer fit, the table is left out."""


def spectrum(
    encodings: Encodings,
    console: Console,
    *,
    picture: PictureOptions,
    output: FigureOutput,
) -> None:
    """Show an encoding's wavelengths and its RoPE scaling.

    posenc lists the wavelength of each pair, and its number of rotations in --len positions. The
    default length is the context of the model or config. For a scheme, it is the trained length, or
    4096 if the scheme has none. For RoPE scaling, posenc says whether the frequency of each pair
    is kept, blended or interpolated. Several encodings share one set of axes, and a table shows
    their differences from the first encoding.

    Examples:
      posenc spectrum --scheme rope --base 500000 --dim 128
      posenc spectrum -s rope-yarn --set factor=8 --dim 128 --out wavelengths.png
      posenc spectrum --model llama-3.1-8b --len 131072
      posenc spectrum -m llama-3-8b -m llama-3.1-8b
      posenc spectrum -s rope -s rope --set b.base=500000 --dim 128
    """
    output.prepare()
    from posenc_cli.render.figures.spectra import choice_report, compared_report

    reports = [choice_report(item) for item in encodings.parts]
    report = reports[0] if len(reports) == 1 else compared_report(reports)
    if output.out is not None:
        show(report.picture, picture, output, console, live=partial(_ladder, encodings))
    if output.json:
        console.json("spectrum", {**report.fields, **output.path_fields})
    elif output.out is None:
        _print(report, replace(picture, title=None), output, console)


def _ladder(encodings: Encodings) -> tuple[Ladder, ...]:
    """Return the wavelengths by base and factor, if one encoding alone is shown."""
    from posenc_cli.render.html.live import ladder_of

    first, *others = encodings.parts
    return () if others else ladder_of(first)


def _print(
    report: SpectrumReport, look: PictureOptions, output: FigureOutput, console: Console
) -> None:
    """Print the curve, the table and the notes; on a terminal, they fit the screen."""
    from posenc_cli.analysis.sampling import spread
    from posenc_cli.render.terminal.text_pictures import LOWEST

    rows, height = report.rows, look.height or _LINES
    words = wrapped_lines(report.notes(len(rows)), look, console)
    table = console.typesetter.table(report.columns, rows).split("\n") if rows else []
    if sys.stdout.isatty() and look.height is None:
        # One line is for the prompt, and one for a note on rows left out.
        room = console.height - _ABOVE_ROWS - len(words) - 2
        if len(rows) > room - _LEAST_LINES:
            shown = max(0, room - _LEAST_LINES)
            rows = [rows[i] for i in spread(len(rows), shown)] if shown >= _FEWEST_ROWS else []
            words = wrapped_lines(report.notes(len(rows)), look, console)
        table = console.typesetter.table(report.columns, rows).split("\n") if rows else []
        height = max(LOWEST, console.height - 1 - len(table) - len(words))
    show(report.picture, replace(look, height=height), output, console)
    print("\n".join([*table, *words]))
