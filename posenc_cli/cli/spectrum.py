"""``posenc spectrum``: the waves that an encoding is made of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import check_subject
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixFile
from posenc_cli.cli.pictures import FigureOutput, PictureOptions, show, wrapped_lines
from posenc_cli.errors import quoted_name
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.render.spectra import SpectrumReport

_LINES, _LEAST_LINES = 18, 11
"""Lines of the curve: as a rule, and on a screen that is low."""
_FEWEST_ROWS = 3


def spectrum(
    choice: Choice | None,
    console: Console,
    *,
    source: MatrixFile = None,
    picture: PictureOptions,
    output: FigureOutput,
) -> None:
    """Show the waves of an encoding, and what scaling did.

    Their wavelengths and turns. Turns are counted in --len positions, else in those that the model
    or config takes, else in the context the scheme was trained on, else in 4096. Pairs of a
    stretched RoPE are kept, blended or interpolated. Encodings that are not made of waves, and
    files, have the power of their columns along the positions instead. One scheme at a time: A+B
    has no spectrum of its own.

    Examples:
      posenc spectrum --scheme rope --base 500000 --dim 128
      posenc spectrum -s rope-yarn --set factor=8 --dim 128 --out wavelengths.png
      posenc spectrum --model llama-3.1-8b --len 131072
      posenc spectrum --in table.npy --json
    """
    check_subject(choice, source)
    output.prepare()
    from posenc_cli.render.spectra import choice_report

    report = _of_file(source or "") if choice is None else choice_report(choice)
    for warning in report.warnings:
        console.warning(warning)
    if output.out is not None:
        show(report.drawable(), picture, output, console)
    if output.json:
        console.json("spectrum", {**report.fields, **output.path_fields})
    elif output.out is None:
        _print(report, replace(picture, title=None), output, console)


def _of_file(source: str) -> SpectrumReport:
    """The power spectrum of the columns of a file.

    Raises: InvalidInput, Unavailable: it cannot be read, or is no matrix.
    """
    from posenc_cli.files.reading import read_array
    from posenc_cli.render.spectra import file_report

    return file_report(read_array(source), name=quoted_name(source))


def _print(
    report: SpectrumReport, look: PictureOptions, output: FigureOutput, console: Console
) -> None:
    """Print the table, the curve and the words: on a terminal, as much as fills its screen."""
    from posenc_cli.analysis.sampling import spread
    from posenc_cli.render.terminal import LOWEST

    rows, height = report.rows, _LINES
    words = wrapped_lines(report.notes(len(rows)), look, console)
    if sys.stdout.isatty() and look.height is None:
        # Besides: the two lines above a table, a note on what it leaves out, and the prompt.
        room = console.height - len(words) - 3
        fitting = max(_FEWEST_ROWS, room - (LOWEST if report.curves is None else _LEAST_LINES))
        if fitting < len(rows):
            room -= 1
            rows = [rows[i] for i in spread(len(rows), fitting - 1)]
            words = wrapped_lines(report.notes(len(rows)), look, console)
        height = max(LOWEST, room - len(rows))
    print(console.table_text(report.columns, rows))
    if report.curves is not None:
        show(report.curves, replace(look, height=look.height or height), output, console)
    print("\n".join(words))
