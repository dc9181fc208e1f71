"""Lines and points drawn into cells of text, one over the other, each in its colour.

plotext draws a stroke in cells, with eight Braille dots to a cell where those can be shown; how
strokes cover each other, and their colours, are decided here.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BRAILLE = "braille"
"""The marker that draws dots, two across and four down a cell."""
_BRAILLE = range(0x2800, 0x2900)
_DOTS = {BRAILLE: (2, 4)}


class Stroke(Record):
    """Runs of points, by column and by line from the lowest, and how they are drawn.

    ``marker`` is a character or `BRAILLE`; the points of a run are ``joined`` by lines or stand
    alone; ``color`` is the parameter of an escape sequence, empty where there is none.
    """

    runs: Sequence[Sequence[tuple[float, float]]]
    marker: str
    joined: bool = False
    color: str = ""


def stroke_lines(strokes: Iterable[Stroke], width: int, height: int) -> list[str]:
    """Strokes as lines of text, the lowest first; later ones are above earlier ones."""
    marks = [[(" ", "")] * width for _ in range(height)]
    for stroke in strokes:
        for line, text in enumerate(_drawn(stroke, width, height)):
            for column, mark in enumerate(text[:width]):
                if mark not in (" ", "⠀"):
                    under = marks[line][column][0]
                    marks[line][column] = _together(under, mark), stroke.color
    return [_colored(line) for line in marks]


def _together(under: str, over: str) -> str:
    """The mark of a cell that has two: the dots of both, else the upper one."""
    if ord(under) in _BRAILLE and ord(over) in _BRAILLE:
        return chr(ord(under) | ord(over))
    return over


def _colored(line: Sequence[tuple[str, str]]) -> str:
    parts = []
    for color, marks in groupby(line, key=lambda mark: mark[1]):
        text = "".join(mark for mark, _ in marks)
        parts.append(f"\x1b[{color}m{text}\x1b[0m" if color else text)
    return "".join(parts).rstrip()


def _drawn(stroke: Stroke, width: int, height: int) -> list[str]:
    """One stroke in cells, the lowest line first."""
    import plotext

    plotext.terminal.limit(width=False, height=False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.axes(active=False)
    across, down = _DOTS.get(stroke.marker, (1, 1))
    for axis, count, dots in (("x", width, across), ("y", height, down)):
        # From the middle of the first dot to that of the last.
        margin = 0.5 / dots - 0.5
        figure.ruler(axis).lim(margin, count - 1 - margin)
        figure.ruler(axis).ticks([], [])
    for run in stroke.runs:
        signal = figure.signal(*map(list, zip(*run, strict=True)), marker=stroke.marker)
        figure.draw(signal.lines() if stroke.joined and len(run) > 1 else signal)
    text: str = figure.build().string(colorless=True)
    return [*reversed(text.split("\n")[:height])]
