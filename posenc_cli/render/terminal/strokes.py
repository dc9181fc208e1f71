"""Lines and points drawn into cells of text, one over the other, each in its colour.

Dots of Braille, eight to a cell, are drawn here; where those cannot be shown, or tell no curves
apart, plotext draws in characters. To import it takes longer than all else that a command does.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

BRAILLE = "braille"
"""The marker that draws dots, two across and four down a cell."""
_FIRST_BRAILLE, _BRAILLE = 0x2800, range(0x2800, 0x2900)
_ACROSS, _DOWN = 2, 4
_BITS = np.array([[64, 128], [4, 32], [2, 16], [1, 8]])  # (down, across), the lowest dots first

_HALF = 0.5 + 1e-9
"""Of a dot: with the slack, neighbours that lie between two dots are rounded alike."""


class Stroke(Record):
    """Runs of points, by column and by line from the lowest, and how they are drawn.

    ``marker`` is a character or `BRAILLE`; the points of a run are ``joined`` by lines or stand
    alone; ``color`` is the parameter of an escape sequence, empty where there is none. Of a line of
    dots, ``dash`` says how many are drawn and how many are left out in turn.
    """

    runs: Sequence[Sequence[tuple[float, float]]]
    marker: str
    joined: bool = False
    color: str = ""
    dash: tuple[int, ...] = ()


def stroke_lines(strokes: Iterable[Stroke], width: int, height: int) -> list[str]:
    """Strokes as lines of text, the lowest first; later ones are above earlier ones."""
    marks = [[(" ", "")] * width for _ in range(height)]
    for stroke in strokes:
        draw = _dotted_lines if stroke.marker == BRAILLE else _marked_lines
        for line, text in enumerate(draw(stroke, width, height)):
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


def _dotted_lines(stroke: Stroke, width: int, height: int) -> list[str]:
    """One stroke in dots, the lowest line first."""
    inked = np.zeros((height * _DOWN, width * _ACROSS), np.bool_)
    for run in stroke.runs:
        places = (np.array(run) + 0.5) * (_ACROSS, _DOWN) - 0.5  # (points, 2), in dots
        dots = np.floor((_joined(places) if stroke.joined else places) + _HALF).astype(np.int64)
        dots = np.clip(dots, 0, (inked.shape[1] - 1, len(inked) - 1))
        if stroke.dash:
            dots = dots[_drawn_dots(len(dots), stroke.dash)]
        inked[dots[:, 1], dots[:, 0]] = True
    cells = inked.reshape(height, _DOWN, width, _ACROSS).transpose(0, 2, 1, 3)
    codes = _FIRST_BRAILLE + (cells * _BITS).sum(axis=(2, 3))  # (height, width)
    return ["".join(map(chr, line)) for line in codes.tolist()]


def _joined(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places on the lines from each place to the next, no further apart than two dots.

    Shape: (points, 2) → (places, 2).

    >>> _joined(np.array([[0.0, 0.0], [1.0, 3.0]])).tolist()
    [[0.0, 0.0], [0.3333333333333333, 1.0], [0.6666666666666666, 2.0], [1.0, 3.0]]
    """
    ways = np.diff(places, axis=0)
    counts = np.ceil(np.abs(ways).max(axis=1, initial=0)).astype(np.int64)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    shares = (np.arange(len(before)) - before) / np.repeat(counts, counts)
    between = np.repeat(places[:-1], counts, axis=0) + shares[:, None] * np.repeat(ways, counts, 0)
    return np.concatenate([between, places[-1:]])


def _drawn_dots(count: int, dash: Sequence[int]) -> NDArray[np.bool_]:
    """Which dots of a line are drawn.

    >>> _drawn_dots(7, (2, 1)).tolist()
    [True, True, False, True, True, False, True]
    """
    drawn = np.repeat(np.arange(len(dash)) % 2 == 0, dash)
    return np.resize(drawn, count)


def _marked_lines(stroke: Stroke, width: int, height: int) -> list[str]:
    """One stroke in characters, the lowest line first."""
    import plotext

    plotext.terminal.limit(width=False, height=False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.axes(active=False)
    for axis, count in (("x", width), ("y", height)):
        figure.ruler(axis).lim(0, count - 1)
        figure.ruler(axis).ticks([], [])
    for run in stroke.runs:
        signal = figure.signal(*map(list, zip(*run, strict=True)), marker=stroke.marker)
        figure.draw(signal.lines() if stroke.joined and len(run) > 1 else signal)
    text: str = figure.build().string(colorless=True)
    return [*reversed(text.split("\n")[:height])]
