"""Draw curves as text, with round values along the axes.

A label is on the line or column nearest to its value. Braille dots, eight per cell, draw the
curves. If Braille cannot be shown, or cannot distinguish the curves, plotext draws lines in
characters. Importing plotext takes longer than everything else in a command.
"""

from __future__ import annotations

import math
import re
from itertools import chain, groupby
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record
from posenc_cli.render.figure import Curves, Range
from posenc_cli.render.style import LINE_STYLES, PALETTES, LineStyle
from posenc_cli.render.terminal.blocks import Medium, Page, color_codes
from posenc_cli.render.ticks import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


BRAILLE = "braille"
"""The marker that draws Braille dots, two across and four down per cell."""
_FIRST_BRAILLE, _BRAILLE = 0x2800, range(0x2800, 0x2900)
_ACROSS, _DOWN = 2, 4
_BITS = np.array([[64, 128], [4, 32], [2, 16], [1, 8]])  # (down, across), the lowest dots first

_HALF = 0.5 + 1e-9
"""In dots: with the slack, neighbours halfway between two dots are rounded alike."""


class Pen(Record):
    """The pen of a curve: its marker, its key in the legend, its color and its dashes.

    ``marker`` is a character or `BRAILLE`. ``color`` is the parameter of an escape sequence, or
    empty. ``dash`` has the numbers of dots that are drawn and skipped in turn.
    """

    marker: str
    key: str
    color: str = ""
    dash: tuple[int, ...] = ()


class Stroke(Record):
    """Runs of points, by column and by line from the lowest, and the pen that draws them.

    If not ``joined``, the points of a run are drawn without lines between them.
    """

    runs: Sequence[Sequence[tuple[float, float]]]
    pen: Pen
    joined: bool = True


def stroke_lines(strokes: Iterable[Stroke], width: int, height: int) -> list[str]:
    """Draw strokes as lines of text, the lowest first; later strokes cover earlier ones."""
    marks: list[list[list[tuple[str, str]]]] = [[[] for _ in range(width)] for _ in range(height)]
    for stroke in strokes:
        draw = _dotted_lines if stroke.pen.marker == BRAILLE else _marked_lines
        for cells, text in zip(marks, draw(stroke, width, height), strict=True):
            for cell_marks, mark in zip(cells, text, strict=False):
                if mark not in (" ", "⠀"):
                    cell_marks.append((mark, stroke.pen.color))
    return [_colored([*map(_mark_of, cells, range(width))]) for cells in marks]


def _mark_of(marks: Sequence[tuple[str, str]], column: int) -> tuple[str, str]:
    """Return the mark of a cell and its color: the dots of all strokes, or one character.

    Characters of several curves alternate from column to column, so that none hides the others.
    """
    if not marks:
        return " ", ""
    dots = [ord(mark) for mark, _ in marks if ord(mark) in _BRAILLE]
    if ord(marks[-1][0]) in _BRAILLE:
        return chr(np.bitwise_or.reduce(dots)), marks[-1][1]
    others = (*map(chr, dots), _LEVEL_MARKER, _FAINT_MARKER, _SIDE)
    curves = [mark for mark in dict.fromkeys(marks) if mark[0] not in others] or marks[-1:]
    return curves[column % len(curves)]


def _colored(line: Sequence[tuple[str, str]]) -> str:
    parts = []
    for color, marks in groupby(line, key=lambda mark: mark[1]):
        text = "".join(mark for mark, _ in marks)
        parts.append(f"\x1b[{color}m{text}\x1b[0m" if color else text)
    return "".join(parts).rstrip()


def _dotted_lines(stroke: Stroke, width: int, height: int) -> list[str]:
    """Draw one stroke in dots, the lowest line first."""
    inked = np.zeros((height * _DOWN, width * _ACROSS), np.bool_)
    for run in stroke.runs:
        places = (np.array(run) + 0.5) * (_ACROSS, _DOWN) - 0.5  # (points, 2), in dots
        dots = np.floor((_dots_between(places) if stroke.joined else places) + _HALF).astype(
            np.int64
        )
        dots = np.clip(dots, 0, (inked.shape[1] - 1, len(inked) - 1))
        if stroke.pen.dash:
            dots = dots[_drawn_dots(len(dots), stroke.pen.dash)]
        inked[dots[:, 1], dots[:, 0]] = True
    cells = inked.reshape(height, _DOWN, width, _ACROSS).transpose(0, 2, 1, 3)
    codes = _FIRST_BRAILLE + (cells * _BITS).sum(axis=(2, 3))  # (height, width)
    return ["".join(map(chr, line)) for line in codes.tolist()]


def _dots_between(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points on the lines from each place to the next, at most one dot apart.

    Shape: (points, 2) → (places, 2).

    >>> _dots_between(np.array([[0.0, 0.0], [1.0, 3.0]])).tolist()
    [[0.0, 0.0], [0.3333333333333333, 1.0], [0.6666666666666666, 2.0], [1.0, 3.0]]
    """
    gaps = np.diff(places, axis=0)
    counts = np.ceil(np.abs(gaps).max(axis=1, initial=0)).astype(np.int64)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    shares = (np.arange(len(before)) - before) / np.repeat(counts, counts)
    between = np.repeat(places[:-1], counts, axis=0) + shares[:, None] * np.repeat(gaps, counts, 0)
    return np.concatenate([between, places[-1:]])


def _drawn_dots(count: int, dash: Sequence[int]) -> NDArray[np.bool_]:
    """Return a mask of the dots of a line that are drawn.

    >>> _drawn_dots(7, (2, 1)).tolist()
    [True, True, False, True, True, False, True]
    """
    return np.resize(np.repeat(np.arange(len(dash)) % 2 == 0, dash), count)


def _marked_lines(stroke: Stroke, width: int, height: int) -> list[str]:
    """Draw one stroke in characters, the lowest line first."""
    if not stroke.joined:
        cells = [[" "] * width for _ in range(height)]
        for column, line in chain.from_iterable(stroke.runs):
            cells[math.floor(line + _HALF)][math.floor(column + _HALF)] = stroke.pen.marker
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
        signal = figure.signal(*map(list, zip(*run, strict=True)), marker=stroke.pen.marker)
        figure.draw(signal.lines() if len(run) > 1 else signal)
    text: str = figure.build().string(colorless=True)
    return [*reversed(text.split("\n")[:height])]


_MARKERS = "•×+o#@%&=$^~"
_LEVEL = LineStyle((), (1, 3), "", "- -")
"""The style of a level, in dots; in characters it is `_LEVEL_MARKER`."""
_LEVEL_MARKER, _FAINT_MARKER, _FAINT = "-", ".", "2"
_THIN = LineStyle((), (1, 4), "", "· ·")
"""The style of a thin curve, and of the two sides of an envelope, in dots."""
_SIDE = ":"
"""The character that draws the two sides of an envelope."""
_NO_ROOM = "the picture is too small for some names and the notes; --json has them"
_NO_ROOM_FOR_NOTES = "the picture is too small for the notes; --json has them"
_UNBROKEN = "\x1f"
"""A placeholder for a space at which a legend is not wrapped: an ASCII character not in texts."""
_TITLE_LINES = 2
_LOWEST = 6
"""Lines for names and notes, at most a third of a page."""
_FEWEST = 3
"""The least lines of a grid."""
_LABEL_GAP_ACROSS, _LABEL_GAP_DOWN = 12, 2
"""The least columns between labels of the axis below, and lines between those at the left."""
_FRAME = 2
"""Lines of the axis below and of its labels."""
_COLUMNS_A_LINE = 2
"""The approximate ratio of a line's height to a column's width."""


def curves_lines(curves: Curves, page: Page) -> list[str]:
    """Draw curves as lines of text that fit a page.

    Raises: InvalidInput if no value is finite.
    """
    medium = page.medium
    shown = [_drawable_runs(curve.x, curve.y, curves) for curve in curves.curves]
    sides = [
        [
            run
            for side in (curve.envelope.low, curve.envelope.high)
            for run in _drawable_runs(curve.x, side, curves)
        ]
        if curve.envelope
        else []
        for curve in curves.curves
    ]
    points = [point for runs in (*shown, *sides) for run in runs for point in run]
    x, y = [point[0] for point in points], [point[1] for point in points]
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
    heights = [height for height, _ in levels]
    up = Range.of([*y, *heights], log=curves.y_scale == "log", padded=False)
    most = max(_FEWEST, page.height - len(below) - len(title) - _FRAME)
    while True:
        places = (most - 1) * up.places(heights)
        labels = {
            **{round((most - 1) * at): name for at, name in up.ticks(most // _LABEL_GAP_DOWN)},
            **{round(at): label(height, 3) for at, height in zip(places, heights, strict=True)},
        }
        margin = max(map(len, labels.values()))
        width = max(2, page.width - margin - 2)
        if not curves.square:
            break
        needed = 1 + round(_COLUMNS_A_LINE * (most - 1) * (max(x) - min(x)) / (up.high - up.low))
        if needed <= width or most == _FEWEST:
            width = min(width, needed)
            break
        most -= 1
    across = Range.of(x, log=curves.x_scale == "log", padded=False)
    last = width - 1.0

    def placed(run: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        # The range from the first dot to the last: half a dot more than between middles of cells.
        columns = (width - 0.5) * across.places([point[0] for point in run]) - 0.25
        rows = (most - 1) * up.places([point[1] for point in run])
        return [*zip(columns.tolist(), rows.tolist(), strict=True)]

    strokes = [Stroke([[(0.0, at), (last, at)]], level_pen) for at in places.tolist()]
    strokes += [
        Stroke([*map(placed, runs)], _side_pen(pen))
        for runs, pen in zip(sides, pens, strict=True)
        if runs
    ]
    strokes += [
        Stroke([*map(placed, runs)], pen, curves.joined and curve.joined)
        for curve, runs, pen in zip(curves.curves, shown, pens, strict=True)
    ]
    lines = stroke_lines(strokes, width, most)
    marks = {
        round(last * at): name for at, name in across.ticks(max(2, width // _LABEL_GAP_ACROSS))
    }
    axis = [medium.glyph("┬" if i in marks else "─") for i in range(width)]
    values = " " * (margin + 1)
    for column, name in sorted(marks.items()):
        # The last label ends with the axis.
        start = min(margin + 1 + column, page.width - len(name))
        if len(values) <= start:
            values = values.ljust(start) + name + " "
    return [
        *(line.center(margin + 1 + width).rstrip() for line in title),
        *(
            labels.get(i, "").rjust(margin) + medium.glyph("┤" if i in labels else "│") + lines[i]
            for i in reversed(range(most))
        ),
        " " * margin + medium.glyph("└") + "".join(axis),
        values.rstrip(),
        *below,
    ]


def _drawable_runs(
    x: Sequence[float], y: Sequence[float], curves: Curves
) -> list[list[tuple[float, float]]]:
    """Return the points that the axes can show, split where points are left out."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in zip(x, y, strict=True):
        if _is_drawable(point[0], curves.x_scale) and _is_drawable(point[1], curves.y_scale):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _is_drawable(value: float, scale: str) -> bool:
    return math.isfinite(value) and (value > 0 or scale == "linear")


def _pens(curves: Curves, medium: Medium) -> tuple[list[Pen], Pen]:
    """Return the pen of each curve, and the pen of levels.

    Curves are lines of dots if the medium shows dots, and if dashes or colors distinguish all
    curves.
    """
    shown = [curve for curve in curves.curves if not curve.faint]
    styles = [
        _THIN if curve.thin else LINE_STYLES[curve.style_index(place) % len(LINE_STYLES)]
        for place, curve in enumerate(shown)
    ]
    faint = "" if medium.depth == "none" else _FAINT
    fine = medium.braille and (medium.depth != "none" or len({*styles}) == len(styles))
    markers = [medium.spelled(marker)[:1] for marker in _MARKERS]
    colors, place = _curve_colors(medium), 0
    pens = []
    for curve in curves.curves:
        if curve.faint:
            dash = () if faint else _LEVEL.dots
            pens.append(Pen(BRAILLE if fine else _FAINT_MARKER, "", faint, dash))
            continue
        style, marker = styles[place], markers[place % len(markers)]
        color = colors[curve.style_index(place) % len(colors)]
        place += 1
        if fine and curves.joined and curve.joined:
            pens.append(Pen(BRAILLE, style.key, color, style.dots))
        else:
            pens.append(Pen(marker, marker, color))
    if fine and curves.joined:
        return pens, Pen(BRAILLE, _LEVEL.key, faint, _LEVEL.dots)
    return pens, Pen(_LEVEL_MARKER, _LEVEL_MARKER, faint)


def _side_pen(pen: Pen) -> Pen:
    """Return the pen of the two sides of an envelope around a curve."""
    if pen.marker == BRAILLE:
        return Pen(BRAILLE, _THIN.key, pen.color, _THIN.dots)
    return Pen(_SIDE, _SIDE, pen.color)


def _curve_colors(medium: Medium) -> list[str]:
    """Return the colors of curves, as in figures: parameters of escape sequences."""
    if medium.depth == "none":
        return [""]
    colors = [[*bytes.fromhex(color[1:])] for color in PALETTES["light"].lines]
    *codes, _ = color_codes(np.array(colors, np.uint8), medium.depth)
    return [f"38;{code}" for code in codes]


def _curve_keys(curves: Curves, pens: Sequence[Pen]) -> list[tuple[str, str, str]]:
    """Return the legend entries of curves, and of each kind of envelope: key, name and color."""
    keys: list[tuple[str, str, str]] = []
    in_order = sorted(zip(curves.curves, pens, strict=True), key=lambda pair: pair[0].thin)
    for curve, pen in in_order:  # thin ones last: others need their names more
        if curve.name:
            keys.append((pen.key, curve.name, pen.color))
        if curve.envelope and curve.envelope.name not in [name for _, name, _ in keys]:
            keys.append((_side_pen(pen).key, curve.envelope.name, pen.color))
    return keys


def _lines_that_fit(
    legend: list[str], notes: Sequence[str], page: Page, room: int
) -> tuple[list[str], list[str]]:
    """Return the lines of a legend and of notes; one line says if notes or names are left out."""
    lines = page.wrapped_lines("; ".join(notes))
    if len(legend) + len(lines) > room:
        kept = legend[: max(1, room - 1)]
        text = _NO_ROOM if len(kept) < len(legend) else _NO_ROOM_FOR_NOTES
        legend, lines = kept, page.wrapped_lines(text, most=1)
    return legend, lines


def _colored_keys(lines: list[str], keys: Iterable[tuple[str, str]]) -> list[str]:
    """Color the keys in the lines of a legend; keys come in the order of the text."""
    text, at = "\n".join(lines), 0
    for key, color in keys:
        found = re.compile(rf"(?<!\S){re.escape(key)}(?!\S)").search(text, at)
        if found is None:
            break
        colored = f"\x1b[{color}m{key}\x1b[0m" if color else key
        text = text[: found.start()] + colored + text[found.end() :]
        at = found.start() + len(colored)
    return text.split("\n")
