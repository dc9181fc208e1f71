"""Curves as text, with axes labelled by the values of their lines.

The step of the grid lines is a round fraction of the distance between labels, so that a label
stands exactly on the line with its value. Braille dots, eight per cell, draw the curves. If Braille
cannot be shown, or cannot distinguish the curves, plotext draws lines in characters. Importing
plotext takes longer than everything else in a command.
"""

from __future__ import annotations

import math
import re
from itertools import chain, groupby
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record
from posenc_cli.render.figure import Range
from posenc_cli.render.style import LINE_STYLES, PALETTES, LineStyle
from posenc_cli.render.terminal.blocks import Medium, Page, color_codes
from posenc_cli.render.ticks import label, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from posenc_cli.render.figure import Curves


BRAILLE = "braille"
"""The marker that draws Braille dots, two across and four down per cell."""
_FIRST_BRAILLE, _BRAILLE = 0x2800, range(0x2800, 0x2900)
_ACROSS, _DOWN = 2, 4
_BITS = np.array([[64, 128], [4, 32], [2, 16], [1, 8]])  # (down, across), the lowest dots first

_HALF = 0.5 + 1e-9
"""In dots: with the slack, neighbours halfway between two dots are rounded alike."""


class Stroke(Record):
    """Runs of points, by column and by line from the lowest, and their style.

    ``marker`` is a character or `BRAILLE`. The points of a run are ``joined`` by lines or stand
    alone. ``color`` is the parameter of an escape sequence, or empty. ``dash`` says how many dots
    of a line are drawn and skipped in turn.
    """

    runs: Sequence[Sequence[tuple[float, ...]]]
    marker: str
    joined: bool = False
    color: str = ""
    dash: tuple[int, ...] = ()


def stroke_lines(strokes: Iterable[Stroke], width: int, height: int) -> list[str]:
    """Strokes as lines of text, the lowest first; later ones are above earlier ones."""
    marks: list[list[list[tuple[str, str]]]] = [[[] for _ in range(width)] for _ in range(height)]
    for stroke in strokes:
        draw = _dotted_lines if stroke.marker == BRAILLE else _marked_lines
        for cells, text in zip(marks, draw(stroke, width, height), strict=True):
            for held, mark in zip(cells, text, strict=False):
                if mark not in (" ", "⠀"):
                    held.append((mark, stroke.color))
    return [_colored([*map(_mark_of, cells, range(width))]) for cells in marks]


def _mark_of(marks: Sequence[tuple[str, str]], column: int) -> tuple[str, str]:
    """The mark of a cell and its color: the dots of all strokes, or one of the characters.

    Characters of several curves take turns from column to column, so that none hides the others.
    """
    if not marks:
        return " ", ""
    dots = [ord(mark) for mark, _ in marks if ord(mark) in _BRAILLE]
    if ord(marks[-1][0]) in _BRAILLE:
        return chr(np.bitwise_or.reduce(dots)), marks[-1][1]
    others = (*map(chr, dots), _LEVEL_MARKER, _FAINT_MARKER, _SHADE)
    curves = [mark for mark in dict.fromkeys(marks) if mark[0] not in others] or marks[-1:]
    return curves[column % len(curves)]


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
    """Points on the lines from each place to the next, at most one dot apart.

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
    if not stroke.joined:
        cells = [[" "] * width for _ in range(height)]
        for column, line in chain.from_iterable(stroke.runs):
            cells[math.floor(line + _HALF)][math.floor(column + _HALF)] = stroke.marker
        return ["".join(line) for line in cells]
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
        figure.draw(signal.lines() if len(run) > 1 else signal)
    text: str = figure.build().string(colorless=True)
    return [*reversed(text.split("\n")[:height])]


_MARKERS = "•×+o#@%&=$^~"
_LEVEL = LineStyle((), (1, 3), "", "- -")
"""The style of a level, in dots; in characters it is `_LEVEL_MARKER`."""
_LEVEL_MARKER, _FAINT_MARKER, _FAINT = "-", ".", "2"
_THIN = LineStyle((), (1, 4), "", "· ·")
"""The style of a thin curve, in dots."""
_SHADE, _SHADE_KEY = ":", "⡂⠅"
"""The character that fills envelopes, and the legend key of envelopes filled with dots."""
_NO_ROOM = "some names and the notes have no room here; --json has them"
_NO_ROOM_FOR_NOTES = "the notes have no room here; --json has them"
_UNBROKEN = "\x1f"
"""A placeholder for a space at which a legend is not wrapped: an ASCII character not in texts."""
_TITLE_LINES = 2
_LOWEST = 6
"""Lines for names and notes, at most a third of a page."""
_FEWEST = 3
"""The least lines of a grid."""
_APART_ACROSS = 12
"""The least columns between labels."""
_APART = 3
"""Lines between labels if no line has a round value."""
_LEAST_DECADES = 1.5
"""Least decades of a logarithmic axis that has powers of ten as labels."""
_MOST_DECADES = 308  # of float64
_TIED = 1e-9
"""Relative: values no further apart are drawn as equal."""
_FAINTEST = 1e-300  # the smallest step of which a fifth is still a normal float64
_DIGITS = 12  # a step of a grid is a product of two short decimals, whose last bits may be wrong
_FRAME = 2
"""Lines of the axis below and of its labels."""
_COLUMNS_A_LINE = 2
"""The approximate ratio of a line's height to a column's width."""


class Gridlines(Record):
    """Lines at equal distances, of values or of their decimal logarithms.

    Line i, counted from the lowest, has the value (first + i) · apart / every. Lines whose number,
    first + i, is a multiple of ``every`` have a label.
    """

    first: int
    count: int
    apart: float
    every: int
    logarithmic: bool = False

    @property
    def step(self) -> float:
        """The distance between two lines."""
        return self.apart / self.every

    def line(self, value: float) -> int:
        """The line nearest to a value."""
        return math.floor(self.height(value) + 0.5)

    def height(self, value: float) -> float:
        """The height of a value, in lines from the lowest."""
        place = math.log10(value) if self.logarithmic else value
        return min(max(0.0, place / self.step - self.first), self.count - 1.0)

    def value(self, line: int) -> float:
        """The value of a line."""
        place = (self.first + line) / self.every * self.apart
        if self.logarithmic:
            return 10.0**place if place < _MOST_DECADES else math.inf
        return place

    @property
    def labels(self) -> dict[int, str]:
        """The labels by line: round numbers, or powers of ten if there are at least two."""
        lines = [i for i in range(self.count) if (self.first + i) % self.every == 0]
        if self.logarithmic and (self.apart < 1 or len(lines) < 2):
            values = {i: self.value(i) for i in range(0, self.count, _APART)}
            return {i: number(value, 3) for i, value in values.items()}
        slack = 0.0 if self.logarithmic else 1e-6 * self.apart
        return {i: _short(value, slack) for i in lines if math.isfinite(value := self.value(i))}


def _short(value: float, slack: float) -> str:
    """A number with the fewest digits that are accurate within ``slack``."""
    value = 0.0 if abs(value) <= slack else value
    for digits in range(1, _DIGITS):
        text = f"{value:.{digits}g}"
        if abs(float(text) - value) <= slack + 1e-9 * abs(value) * (digits < 3):
            break
    plain = f"{value:.{_DIGITS}g}"
    return plain if len(plain) <= max(7, len(text)) else text


def grid(low: float, high: float, lines: int, *, logarithmic: bool = False) -> Gridlines:
    """The finest grid of at most ``lines`` lines, and at least three, that contains two values.

    >>> tenths = grid(0.17, 1.0, 10)
    >>> tenths.labels, tenths.value(3)
    ({1: '0.2', 3: '0.4', 5: '0.6', 7: '0.8', 9: '1'}, 0.4)
    >>> grid(6.28, 19869.0, 12, logarithmic=True).labels
    {1: '10', 4: '100', 7: '1000', 10: '10000'}
    """
    if logarithmic:
        low, high = math.log10(low), math.log10(high)
    largest = max(abs(low), abs(high))
    if high / 2 - low / 2 <= _TIED * largest / 2:
        margin = 0.1 * largest or 1.0
        low, high = low - margin, high + margin
    rough = max(high / (lines - 1) - low / (lines - 1), _FAINTEST)
    whole = logarithmic and high - low >= _LEAST_DECADES
    grids: list[Gridlines] = []
    lowest = math.floor(math.log10(rough))
    for exponent in range(max(0, lowest) if whole else lowest, lowest + 3):
        for mantissa in (1, 2, 5):
            for every in (2, 3, 4, 5) if lines > 2 * _APART else (1, 2):
                apart = float(f"{mantissa}e{exponent}")
                step = apart / every
                first = math.floor(low / step + 1e-9)
                count = math.ceil(high / step - 1e-9) - first + 1
                if count <= lines:
                    grids.append(Gridlines(first, count, apart, every, logarithmic))
    # Prefer a label at every power of ten to a few lines more.
    return min(grids, key=lambda lines: lines.step * (1.5 if whole and lines.apart > 1 else 1))


def curves_lines(curves: Curves, page: Page) -> list[str]:
    """Curves as lines of text that fit a page.

    Raises: InvalidInput if no value is finite.
    """
    medium = page.medium
    shown = [_runs(curve.x, (curve.y,), curves) for curve in curves.curves]
    envelopes = [
        _runs(curve.x, (curve.envelope.low, curve.envelope.high), curves) if curve.envelope else []
        for curve in curves.curves
    ]
    points = [point for runs in (*shown, *envelopes) for run in runs for point in run]
    x, y = [point[0] for point in points], [value for point in points for value in point[1:]]
    if not x:
        raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
    levels = [
        (height, name) for height, name in curves.levels if _is_drawable(height, curves.y_scale)
    ]
    scaled = {"log": " (log)", "linear": ""}
    axes = (
        f"across: {curves.x_label}{scaled[curves.x_scale]}",
        f"up: {curves.y_label}{scaled[curves.y_scale]}",
    )
    title = page.wrapped_lines(curves.title, most=_TITLE_LINES)
    pens, level_pen = _pens(curves, medium)
    keys = [
        *_curve_keys(curves, pens),
        *((level_pen.key, name, level_pen.color) for _, name in levels),
    ]
    named = (f"{medium.spelled(key)} {name}" for key, name, _ in keys)
    whole = (text.replace(" ", _UNBROKEN) if len(text) <= page.width else text for text in named)
    legend = [
        line.replace(_UNBROKEN, " ") for line in page.wrapped_lines("   ".join([*axes, *whole]))
    ]
    room = max(0, page.height - len(title) - _FRAME - max(_FEWEST, min(_LOWEST, page.height // 3)))
    legend, notes = _lines_that_fit(legend, curves.notes, page, room)
    below = [
        *_colored_keys(legend, [(medium.spelled(key), color) for key, _, color in keys]),
        *notes,
    ][:room]
    heights = [*y, *(height for height, _ in levels)]
    most = max(_FEWEST, page.height - len(below) - len(title) - _FRAME)
    while True:
        rows = grid(min(heights), max(heights), most, logarithmic=curves.y_scale == "log")
        labels = {
            **rows.labels,
            **{rows.line(height): label(height, 3) for height, _ in levels},
        }
        margin = max(map(len, labels.values()))
        width = max(2, page.width - margin - 2)
        if not curves.square:
            break
        needed = 1 + round(_COLUMNS_A_LINE * (max(x) - min(x)) / rows.step)
        if needed <= width or most == _FEWEST:
            width = min(width, needed)
            break
        most -= 1
    across = Range.of(x, log=curves.x_scale == "log", padded=False)
    last = width - 1.0

    def placed(run: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
        columns = last * across.places([point[0] for point in run])
        return [
            (column, *map(rows.height, point[1:]))
            for column, point in zip(columns.tolist(), run, strict=True)
        ]

    strokes = [
        level_pen.stroke([[(column, rows.height(height)) for column in (0.0, last)]], joined=True)
        for height, _ in levels
    ]
    for runs, pen in zip(envelopes, pens, strict=True):
        dotted = pen.marker == BRAILLE
        shades = [shade for run in runs if (shade := _shade(placed(run), dotted=dotted))]
        strokes.append(Stroke(shades, BRAILLE if dotted else _SHADE, color=pen.color))
    for curve, runs, pen in zip(curves.curves, shown, pens, strict=True):
        strokes.append(pen.stroke([*map(placed, runs)], joined=curves.joined and curve.joined))
    lines = stroke_lines(strokes, width, rows.count)
    marks = {round(last * at): name for at, name in across.ticks(max(2, width // _APART_ACROSS))}
    axis = [medium.glyph("┬" if i in marks else "─") for i in range(width)]
    values = " " * (margin + 1)
    for column, name in sorted(marks.items()):
        if len(values) <= margin + 1 + column and margin + 1 + column + len(name) <= page.width:
            values = values.ljust(margin + 1 + column) + name + " "
    return [
        *(line.center(margin + 1 + width).rstrip() for line in title),
        *(
            labels.get(i, "").rjust(margin) + medium.glyph("┤" if i in labels else "│") + lines[i]
            for i in reversed(range(rows.count))
        ),
        " " * margin + medium.glyph("└") + "".join(axis),
        values.rstrip(),
        *below,
    ]


def _runs(
    x: Sequence[float], values: Sequence[Sequence[float]], curves: Curves
) -> list[list[tuple[float, ...]]]:
    """The points that the axes can show, with all their values, split where points are left out."""
    runs: list[list[tuple[float, ...]]] = [[]]
    for point in zip(x, *values, strict=True):
        if _is_drawable(point[0], curves.x_scale) and all(
            _is_drawable(value, curves.y_scale) for value in point[1:]
        ):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _shade(sides: Sequence[tuple[float, ...]], *, dotted: bool) -> list[tuple[float, ...]]:
    """The points between two sides, by column: one dot in four, or every cell."""
    across, down = (_ACROSS, _DOWN) if dotted else (1, 1)
    columns, low, high = np.array(sides).T
    first, last = (math.floor((end + 0.5) * across) for end in (columns[0], columns[-1]))
    places: list[tuple[float, ...]] = []
    for dot in range(first, last + 1):
        column = (dot + 0.5) / across - 0.5
        bounds = (float(np.interp(column, columns, side)) for side in (low, high))
        lowest, highest = (math.floor((bound + 0.5) * down) for bound in bounds)
        places += [
            (column, (line + 0.5) / down - 0.5)
            for line in range(lowest, highest + 1)
            if not dotted or (dot % 2 == 0 and (dot // 2 + line) % 2 == 0)
        ]
    return places


def _is_drawable(value: float, scale: str) -> bool:
    return math.isfinite(value) and (value > 0 or scale == "linear")


class _Pen(Record):
    """The pen of a curve: a character or dots, a color, and its key in the legend."""

    marker: str
    key: str
    color: str = ""
    dash: tuple[int, ...] = ()

    def stroke(self, runs: Sequence[Sequence[tuple[float, ...]]], *, joined: bool) -> Stroke:
        """A stroke of this pen."""
        return Stroke(runs, self.marker, joined, self.color, self.dash)


def _pens(curves: Curves, medium: Medium) -> tuple[list[_Pen], _Pen]:
    """The pen of each curve, and the pen of levels.

    Curves are lines of dots if the medium shows dots, and if dashes or colors distinguish all
    curves.
    """
    shown = [curve for curve in curves.curves if not curve.faint]
    styles = [
        _THIN if curve.thin else LINE_STYLES[curve.look(place) % len(LINE_STYLES)]
        for place, curve in enumerate(shown)
    ]
    faint = "" if medium.depth == "none" else _FAINT
    fine = medium.braille and (medium.depth != "none" or len({*styles}) == len(styles))
    markers = [medium.spelled(marker)[:1] for marker in _MARKERS]
    colors, place = _colors(medium), 0
    pens = []
    for curve in curves.curves:
        if curve.faint:
            pens.append(_Pen(BRAILLE if fine else _FAINT_MARKER, "", faint))
            continue
        style, marker = styles[place], markers[place % len(markers)]
        color = colors[curve.look(place) % len(colors)]
        place += 1
        if fine and curves.joined and curve.joined:
            pens.append(_Pen(BRAILLE, style.key, color, style.dots))
        else:
            pens.append(_Pen(marker, marker, color))
    if fine and curves.joined:
        return pens, _Pen(BRAILLE, _LEVEL.key, faint, _LEVEL.dots)
    return pens, _Pen(_LEVEL_MARKER, _LEVEL_MARKER, faint)


def _colors(medium: Medium) -> list[str]:
    """The colors of curves, as in figures: parameters of escape sequences."""
    if medium.depth == "none":
        return [""]
    colors = [[*bytes.fromhex(color[1:])] for color in PALETTES["light"].lines]
    *codes, _ = color_codes(np.array(colors, np.uint8), medium.depth)
    return [f"38;{code}" for code in codes]


def _curve_keys(curves: Curves, pens: Sequence[_Pen]) -> list[tuple[str, str, str]]:
    """The legend entries of curves, and of each kind of envelope: key, name and color."""
    keys: list[tuple[str, str, str]] = []
    in_order = sorted(zip(curves.curves, pens, strict=True), key=lambda pair: pair[0].thin)
    for curve, pen in in_order:  # thin ones last: others need their names more
        if curve.name:
            keys.append((pen.key, curve.name, pen.color))
        if curve.envelope and curve.envelope.name not in [name for _, name, _ in keys]:
            shade = _SHADE_KEY if pen.marker == BRAILLE else _SHADE
            keys.append((shade, curve.envelope.name, pen.color))
    return keys


def _lines_that_fit(
    legend: list[str], notes: Sequence[str], page: Page, room: int
) -> tuple[list[str], list[str]]:
    """The lines of a legend and of notes: a line says if notes are left out, or even names."""
    lines = page.wrapped_lines("; ".join(notes))
    if len(legend) + len(lines) > room:
        kept = legend[: max(1, room - 1)]
        text = _NO_ROOM if len(kept) < len(legend) else _NO_ROOM_FOR_NOTES
        legend, lines = kept, page.wrapped_lines(text, most=1)
    return legend, lines


def _colored_keys(lines: list[str], keys: Iterable[tuple[str, str]]) -> list[str]:
    """The lines of a legend with its keys, in order, in their colors."""
    text, at = "\n".join(lines), 0
    for key, color in keys:
        found = re.compile(rf"(?<!\S){re.escape(key)}(?!\S)").search(text, at)
        if found is None:
            break
        colored = f"\x1b[{color}m{key}\x1b[0m" if color else key
        text = text[: found.start()] + colored + text[found.end() :]
        at = found.start() + len(colored)
    return text.split("\n")
