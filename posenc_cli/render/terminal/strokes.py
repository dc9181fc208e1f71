"""Lines and points drawn into cells of text, one over the other, each in its colour.

A line is drawn in dots of Braille, eight to a cell, or in characters, one to a cell, where those
dots cannot be shown or do not tell curves apart.

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
_CELL = {True: (2, 4), False: (1, 1)}
"""Dots of a cell, across and down: of Braille, or one character."""
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
        for line, text in enumerate(_lines_of(stroke, width, height)):
            for column, mark in enumerate(text):
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


def _lines_of(stroke: Stroke, width: int, height: int) -> list[str]:
    """One stroke in dots or in characters, the lowest line first."""
    dotted = stroke.marker == BRAILLE
    across, down = _CELL[dotted]
    inked = np.zeros((height * down, width * across), np.bool_)
    for run in stroke.runs:
        places = (np.array(run) + 0.5) * (across, down) - 0.5  # (points, 2), in dots
        dots = np.floor((_joined(places) if stroke.joined else places) + _HALF).astype(np.int64)
        dots = np.clip(dots, 0, (inked.shape[1] - 1, len(inked) - 1))
        if stroke.dash:
            dots = dots[_drawn_dots(len(dots), stroke.dash)]
        inked[dots[:, 1], dots[:, 0]] = True
    if not dotted:
        return ["".join(line) for line in np.where(inked, stroke.marker, " ").tolist()]
    cells = inked.reshape(height, down, width, across).transpose(0, 2, 1, 3)
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
