"""Draw pictures as text for the terminal: heatmaps, alone or side by side, and curves.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import (
    TOO_FAST,
    Band,
    Curves,
    Figure,
    Heatmap,
    Panels,
    Picture,
    Scale,
    Shown,
    grid_of,
    heatmaps_of,
    one_quantity,
    scale_of,
    scales_of,
    warnings_of,
)
from posenc_cli.render.terminal.blocks import Medium, Page, cell_lines, levels, pad
from posenc_cli.render.terminal.plots import curves_lines
from posenc_cli.render.ticks import number, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WIDEST_CELL = 8
"""The most columns or pixels of a cell: more show nothing new."""
_LONGEST_NAME = 12
"""The most letters of an axis's name for which the margin may exceed its numbers' width."""
_SCALE = 24
"""The most columns of the color scale: finer steps of color are hard to see."""
_FEW = 4
"""Columns of the scale of a single color."""
TITLE_LINES = 2


class Frame(Record):
    """The surroundings of the cells: the margin for labels on the left, and tick lines below."""

    margin: int
    row_labels: bool = True
    column_labels: bool = True
    names: bool = True
    headings: bool = True


class TextMap(Record):
    """The cells of a heatmap, sized for some columns and lines of text."""

    shown: Shown
    frame: Frame
    medium: Medium
    cell: tuple[int, int]

    @classmethod
    def of(cls, heatmap: Heatmap, page: Page, frame: Frame) -> TextMap:
        """Return the map that fills a page, including its frame."""
        medium, bands = page.medium, heatmap.columns.bands
        columns = max(1, page.width - frame.margin - frame.row_labels - len(bands[1:]))
        rows = max(1, page.height - 2 * frame.column_labels - frame.headings)
        rows *= medium.pixels_a_line
        stretch = 1
        if heatmap.square:
            stretch = 2 // medium.pixels_a_line
            rows = columns = min(rows, max(1, columns // stretch))
        shown = heatmap.sample(rows, columns)
        across = max(1, columns // len(shown.columns))
        down = max(1, rows // len(shown.rows))
        across, down = min(across, _WIDEST_CELL), min(down, _WIDEST_CELL)
        if heatmap.square:
            across = down = min(across, down)
        return cls(shown, frame, medium, (down, across * stretch))

    def lines(self, scale: Scale, colors: NDArray[np.uint8]) -> list[str]:
        """Return the picture, line by line."""
        lines = [*self._heading, *self._body(scale, colors)]
        return [*lines, self._axis, self._column_labels] if self.frame.column_labels else lines

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """The bands of the shown columns, at least one."""
        return self.shown.column_bands or (Band("", 0, len(self.shown.columns)),)

    @property
    def width(self) -> int:
        """The width of the picture in columns of text."""
        cells = len(self.shown.columns) * self.cell[1] + len(self.bands) - 1
        return self.frame.margin + self.frame.row_labels + cells

    def _column(self, index: int) -> int:
        """Return the text column at which the cell of a heatmap column begins."""
        before = sum(index >= band.stop for band in self.bands)
        return self.frame.margin + self.frame.row_labels + index * self.cell[1] + before

    @property
    def _heading(self) -> list[str]:
        if not self.frame.headings:
            return []
        name = self.shown.heatmap.rows.label if self.frame.names else ""
        line = _Line(name.rjust(self.frame.margin))
        for band in self.bands:
            begin, end = self._column(band.start), self._column(band.stop - 1) + self.cell[1]
            line.put(max(begin, (begin + end - len(band.label)) // 2), band.label[: end - begin])
        return [line.text]

    def _body(self, scale: Scale, colors: NDArray[np.uint8]) -> list[str]:
        down, across = self.cell
        pixels = levels(scale.places(self.shown.values)).repeat(down, axis=0)
        wall = "│" if self.medium.depth == "none" else " "
        parts = [
            cell_lines(
                pixels[:, band.start : band.stop].repeat(across, axis=1), colors, self.medium
            )
            for band in self.bands
        ]
        lines = [
            self.medium.glyph(wall).join(row) if wall != " " else " ".join(row)
            for row in zip(*parts, strict=True)
        ]
        if not self.frame.row_labels:
            return [" " * self.frame.margin + line for line in lines]
        labels = {
            index * down // self.medium.pixels_a_line: name
            for index, name in reversed(row_ticks(self.shown.rows, len(lines)))
            if len(name) <= self.frame.margin
        }
        return [
            labels.get(i, "").rjust(self.frame.margin)
            + self.medium.glyph("┤" if i in labels else "│")
            + line
            for i, line in enumerate(lines)
        ]

    @cached_property
    def _column_ticks(self) -> list[tuple[int, str]]:
        """The ticks of each band, spaced by the length of their names."""
        column_ticks = []
        for band in self.bands:
            points = self.shown.columns[band.start : band.stop]
            longest = max(len(number(points[0])), len(number(points[-1])))
            room = len(points) * self.cell[1] // (longest + 3)
            column_ticks += [(band.start + i, name) for i, name in ticks(points, room)]
        return column_ticks

    @property
    def _axis(self) -> str:
        line = _Line(" " * self.frame.margin)
        line.put(self.frame.margin, self.medium.glyph("└") * self.frame.row_labels)
        ticked = {index for index, _ in self._column_ticks}
        too_fast = {*self.shown.undersampled, *self.shown.faded}
        for index in range(len(self.shown.columns)):
            mark = "▴" if index in too_fast else "─"
            marks = self.medium.glyph(mark) * self.cell[1]
            if index in ticked and mark == "─":
                marks = self.medium.glyph("┬") + marks[1:]
            line.put(self._column(index), marks)
        return line.text

    @property
    def _column_labels(self) -> str:
        name = self.shown.heatmap.columns.label if self.frame.names else ""
        line = _Line(name.rjust(self.frame.margin))
        for index, label in self._column_ticks:
            begin = self._column(index)
            if begin + len(label) <= max(self.width, begin + 1) and begin >= line.free:
                line.put(begin, label)
        return line.text


class _Line:
    """A line of text that is built from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def free(self) -> int:
        """The first free column, with a space after the text."""
        return len(self.text) + bool(self.text.strip())

    def put(self, column: int, text: str) -> None:
        """Put ``text`` at a column, or right after the present text."""
        self.text = self.text.ljust(column) + text


def row_ticks(points: Sequence[Any], lines: int) -> list[tuple[int, str]]:
    """Return the ticks of rows over ``lines`` lines: about every third, or every word that fits."""
    if isinstance(points[0], str):
        return ticks(points, lines)
    return ticks(points, max(1, (lines + 2) // 3 if lines > 4 else (lines + 1) // 2))


def frame_of(heatmap: Heatmap, page: Page) -> Frame:
    """Return the frame of a single heatmap, with a margin as wide as its labels need."""
    named = (heatmap.rows.label, heatmap.columns.label, heatmap.value_label)
    widths = (len(name) for name in named if len(name) <= _LONGEST_NAME)
    return Frame(min(max(label_width(heatmap, page), *widths), page.width // 2))


def label_width(heatmap: Heatmap, page: Page) -> int:
    """Return the width of the row names, in columns."""
    indices, _ = heatmap.rows.sample(page.height * page.medium.pixels_a_line)
    points = [heatmap.rows.points[i] for i in indices]
    return max(len(name) for _, name in row_ticks(points, page.height))


def heatmap_lines(heatmap: Heatmap, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """Return a single heatmap, line by line, and its warnings.

    Raises: InvalidInput if no value is finite, or no map has the requested name.
    """
    title = page.wrapped_lines(heatmap.title, most=TITLE_LINES)
    notes: list[str] = []
    reserved = -1
    while len(notes) > reserved:  # notes depend on what is shown, and reduce the room for it
        reserved = len(notes)
        room = page.part(page.width, page.height - len(title) - reserved - 1)
        frame = frame_of(heatmap, room)
        text_map = TextMap.of(heatmap, room, frame)
        notes = page.wrapped_lines(notes_of([text_map.shown], page.medium))
    scale = scale_of([text_map.shown])
    lines = [
        *title,
        *text_map.lines(scale, page.colors(scale)),
        scale_line([text_map.shown], scale, page, margin=frame.margin),
        *notes,
    ]
    return [line.rstrip() for line in lines], text_map.shown.warnings


def notes_of(shown: Sequence[Shown], medium: Medium, *, first: Sequence[str] = ()) -> str:
    """Join all notes for the reader into one paragraph."""
    notes = dict.fromkeys([*first, *(note for part in shown for note in part.notes)])
    if any(part.undersampled for part in shown):
        notes[f"{medium.glyph('▴')} aliased: wavelength under two samples"] = None
    if any(part.faded for part in shown):
        notes[f"{medium.glyph('▴')} {TOO_FAST.partition(',')[0]}"] = None
    return "; ".join(notes)


def scale_line(
    shown: Sequence[Shown], scale: Scale, page: Page, *, margin: int = 0, after: str = ""
) -> str:
    """Return the color scale on one line: the values at its ends, and the look of a gap.

    The text ``after`` it is left out if it does not fit.
    """
    medium, colors = page.medium, page.colors(scale)
    name = scale.named(shown[0].heatmap.value_label)
    label = f"{name.rjust(margin)} " if len(name) + _SCALE <= page.width else ""
    low, high = number(scale.low), number(scale.high)
    key = f"   {'?' if medium.gap == '?' else 'blank'}: not finite"
    missing = key * any(part.gaps for part in shown)
    after = (f"   {after}" if after else "") + missing
    if scale.high <= scale.low:
        bar = cell_lines(levels(np.full((medium.pixels_a_line, _FEW), 0.5)), colors, medium)[0]
        where = f"{low} {'elsewhere' if missing else 'everywhere'}"
        room = page.width - len(label) - _FEW - 1 - len(where)
        fitting = next((text for text in (after, missing) if len(text) <= room), "")
        return f"{label}{bar} {where}{fitting}"
    if scale.only:
        fills = levels(scale.places(np.array(scale.only)))[:, None].repeat(_FEW, axis=1)
        bars = [
            cell_lines(np.stack([fill] * medium.pixels_a_line), colors, medium)[0] for fill in fills
        ]
        names = [number(value) for value in scale.only]
        return f"{label}{bars[0]} {names[0]}   {bars[1]} {names[1]}{after or missing}"
    room = page.width - len(label) - len(low) - len(high) - 4
    if room < len(after) + len(medium.shades):
        after = ""
    places = np.linspace(0, 1, max(2, min(_SCALE, room - len(after))))
    bar = cell_lines(levels(np.stack([places] * medium.pixels_a_line)), colors, medium)[0]
    if medium.depth == "none":
        bar = f"[{bar}]"
    return f"{label}{low} {bar} {high}{after}"


_GAP = 2
_LEAST = 16, 8
"""The least columns and lines of a small heatmap."""
_MOST_TITLE = 24
"""The most letters of a small heatmap's title for which it may grow wider."""
_LEAST_MAP, _LEAST_CURVES = (25, 15), (37, 11)
"""The least columns and lines of a heatmap with a separate scale, and of curves."""
_TITLE_LINES_OF_MAP = 3
_ONE_BY_ONE = ("panel", "part")
"""The nouns of panels that are always all shown."""


def _shared_lines(panels: Panels, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """Draw heatmaps with the same axes: one scale for all, labels on the left and below."""
    heatmaps: Sequence[Heatmap] = heatmaps_of(panels)
    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    # Besides the title: ticks on two lines, the scale, and notes on up to two.
    height = page.height - len(title) - 5
    inset = label_width(heatmaps[0], page.part(page.width, height)) + 1
    size = (page.width - inset, height)
    named = min(max(len(heatmap.title) for heatmap in heatmaps), _MOST_TITLE) + _GAP
    few, multiple = heatmaps, panels.across
    for least in ((max(named, _LEAST[0]), _LEAST[1]), _LEAST):
        down, across = grid_of(len(few), size, least, aspect=2, multiple=multiple)
        if len(few) <= down * across:
            break
        few, multiple = heatmaps[panels.across - 1 :: panels.across], 1  # the last shows most
    chosen = [few[i] for i in spread(len(few), down * across)]
    size = (page.width - inset + _GAP) // across - _GAP, height // down
    text_maps = []
    for index, heatmap in enumerate(chosen):
        left, lowest = index % across == 0, index // across == (len(chosen) - 1) // across
        frame = Frame(inset - 1 if left else 0, left, lowest, names=False, headings=False)
        part = page.part(size[0] + inset * left, size[1] - 1 + 2 * lowest)
        text_maps.append(TextMap.of(heatmap, part, frame))
    shown = [text_map.shown for text_map in text_maps]
    scale = scale_of(shown)
    colors = page.colors(scale)
    wide = max(
        max(text_map.width - inset * text_map.frame.row_labels, min(len(heatmap.title), size[0]))
        for text_map, heatmap in zip(text_maps, chosen, strict=True)
    )
    lines = []
    for begin in range(0, len(text_maps), across):
        row = text_maps[begin : begin + across]
        widths = [wide + inset * text_map.frame.row_labels for text_map in row]
        titles = [
            page.part(size[0], 1).wrapped_lines(each.title, most=1) for each in chosen[begin:]
        ]
        pictures = [
            [
                " " * inset * text_map.frame.row_labels + "".join(title),
                *text_map.lines(scale, colors),
            ]
            for text_map, title in zip(row, titles, strict=False)
        ]
        lines += side_by_side(pictures, widths)
    missing = panels.missing_notes(len(chosen))
    if missing and len(heatmaps) == (panels.total or len(heatmaps)):
        rows = -(-len(heatmaps) // max(1, (page.width - inset) // _LEAST[0]))
        missing += (f"--height {rows * _LEAST[1] + page.height - height} shows all",)
    notes = notes_of(shown, page.medium, first=(*missing, *panels.notes))
    axes = f"down: {chosen[0].rows.label}, across: {chosen[0].columns.label}"
    return [
        *title,
        *lines,
        scale_line(shown, scale, page, after=axes),
        *page.wrapped_lines(notes, most=2),
    ], warnings_of(shown)


def _separate_lines(
    panels: Panels, page: Page, reserved: int = 0
) -> tuple[list[str], tuple[str, ...]]:
    """Draw figures of any kind, each with a frame; maps of one quantity share a scale.

    Figures that were requested one by one are all shown: those that do not fit side by side follow
    below, however high the page is. Among many similar figures, only those that fit are shown.
    Notes depend on what is shown. If the ``reserved`` lines are too few for them, the layout starts
    again.
    """
    figures, heatmaps = panels.panels, heatmaps_of(panels)
    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    axes = dict.fromkeys(
        f"down: {heatmap.rows.label}, across: {heatmap.columns.label}" for heatmap in heatmaps
    )
    of_curves = (figure.notes for figure in figures if isinstance(figure, Curves))
    first = [" or ".join(axes)] * bool(axes)
    first += [*panels.notes, *chain.from_iterable(of_curves)]
    reserved = max(reserved, len(page.wrapped_lines("; ".join(first))))
    curved = any(isinstance(figure, Curves) and not figure.square for figure in figures)
    least = _LEAST_CURVES if curved else _LEAST_MAP
    if heatmaps:
        least = least[0], max(least[1], _LEAST_MAP[1])
    size = page.width + _GAP, page.height - len(title) - reserved
    down, across = grid_of(len(figures), size, (least[0] + _GAP, least[1]), aspect=2)
    if panels.noun in _ONE_BY_ONE:
        down = -(-len(figures) // across)
        across = -(-len(figures) // down)
    figures = tuple(figures[i] for i in spread(len(figures), down * across))
    first += panels.missing_notes(len(figures))
    width = (page.width + _GAP) // across - _GAP
    part = page.part(width, max(least[1], size[1] // down))
    text_maps = {
        index: _map_with_title(figure, part)
        for index, figure in enumerate(figures)
        if isinstance(figure, Heatmap)
    }
    shown = [text_map.shown for text_map, _ in text_maps.values()]
    notes = page.wrapped_lines(notes_of(shown, page.medium, first=first))
    if len(notes) > reserved:
        return _separate_lines(panels, page, len(notes))
    scales = dict(zip(text_maps, scales_of(shown), strict=True))
    shared = one_quantity(figures)
    pictures = [
        _framed_lines(*text_maps[index], scales[index], part, scaled=not shared)
        if isinstance(figure, Heatmap)
        else curves_lines(replace(figure, notes=()), part)
        for index, figure in enumerate(figures)
    ]
    lines = list(title)
    for begin in range(0, len(pictures), across):
        lines += side_by_side(pictures[begin : begin + across], [width] * across)
    if shared:
        lines.append(scale_line(shown, scales[0], page, margin=text_maps[0][0].frame.margin))
    return [*lines, *notes], warnings_of(shown)


def _map_with_title(heatmap: Heatmap, page: Page) -> tuple[TextMap, list[str]]:
    """Return one of several maps, and the lines above it."""
    title = page.wrapped_lines(heatmap.title, most=_TITLE_LINES_OF_MAP)
    room = page.part(page.width, page.height - len(title) - 1)  # 1: the scale
    frame = Frame(
        min(label_width(heatmap, room), page.width // 2),
        names=False,
        headings=bool(heatmap.columns.bands),
    )
    return TextMap.of(heatmap, room, frame), title


def _framed_lines(
    text_map: TextMap, title: Sequence[str], scale: Scale, page: Page, *, scaled: bool
) -> list[str]:
    """Return one of several maps, line by line, and its scale if ``scaled``."""
    bar = (
        [scale_line([text_map.shown], scale, page, margin=text_map.frame.margin)] if scaled else []
    )
    return [*title, *text_map.lines(scale, page.colors(scale)), *bar]


def side_by_side(pictures: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Put pictures side by side, aligned at the top."""
    return [
        (" " * _GAP).join(map(pad, row, widths)).rstrip()
        for row in zip_longest(*pictures, fillvalue="")
    ]


NARROWEST, LOWEST = 20, 8
"""The fewest columns and lines of a picture; a smaller page is extended."""


def picture_text(figure: Figure, page: Page) -> Picture[str]:
    """Return a figure as text that fits a page.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    page = page.part(max(NARROWEST, page.width), max(LOWEST, page.height))
    match figure:
        case Heatmap():
            lines, warnings = heatmap_lines(figure, page)
        case Curves():
            lines, warnings = curves_lines(figure, page), ()
        case Panels():
            alike = figure.shared and len(heatmaps_of(figure)) == len(figure.panels)
            lines, warnings = (_shared_lines if alike else _separate_lines)(figure, page)
    return Picture("\n".join(lines), warnings)
