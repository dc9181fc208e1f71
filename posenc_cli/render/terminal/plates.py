"""Heatmaps as text: values, frame, ticks, bands and color scale.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.records import Record
from posenc_cli.render.figure import TOO_FAST, Band, Heatmap, Scale, Shown, scale_of
from posenc_cli.render.terminal.blocks import Medium, Page, cell_lines, levels
from posenc_cli.render.ticks import number, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_WIDEST_CELL = 8
"""The most columns or pixels of a cell: more show nothing new."""
_NAMED_FROM = 40
"""The least width of a picture, in columns, with room for the names of the axes."""
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


class Plate(Record):
    """The cells of a heatmap, sized for some columns and lines of text."""

    shown: Shown
    frame: Frame
    medium: Medium
    cell: tuple[int, int]

    @classmethod
    def of(cls, heatmap: Heatmap, page: Page, frame: Frame) -> Plate:
        """The plate that fills a page, including its frame."""
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
        """The picture, line by line."""
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
        """The text column at which the cell of a heatmap column begins."""
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
    """A line of text that is put together from left to right."""

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
    """The ticks of rows over ``lines`` lines: about every third line, or every word that fits."""
    if isinstance(points[0], str):
        return ticks(points, lines)
    return ticks(points, max(1, (lines + 2) // 3 if lines > 4 else (lines + 1) // 2))


def frame_of(heatmap: Heatmap, page: Page) -> Frame:
    """The frame of a single heatmap, with a margin as wide as its labels need."""
    names = page.width >= _NAMED_FROM
    margin = label_width(heatmap, page)
    if names:
        named = (heatmap.rows.label, heatmap.columns.label, heatmap.value_label)
        margin = max(margin, *(len(name) for name in named if len(name) <= _LONGEST_NAME))
    headings = names or bool(heatmap.columns.bands)
    return Frame(min(margin, page.width // 2), names=names, headings=headings)


def label_width(heatmap: Heatmap, page: Page) -> int:
    """The width of the row names, in columns."""
    indices, _ = heatmap.rows.sample(page.height * page.medium.pixels_a_line)
    points = [heatmap.rows.points[i] for i in indices]
    return max(len(name) for _, name in row_ticks(points, page.height))


def heatmap_lines(heatmap: Heatmap, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """A single heatmap, line by line, and its warnings.

    Raises: InvalidInput if no value is finite, or no map has the requested name.
    """
    title = page.wrapped_lines(heatmap.title, most=TITLE_LINES)
    notes: list[str] = []
    reserved = -1
    while len(notes) > reserved:  # notes depend on what is shown, and reduce the room for it
        reserved = len(notes)
        room = page.part(page.width, page.height - len(title) - reserved - 1)
        frame = frame_of(heatmap, room)
        plate = Plate.of(heatmap, room, frame)
        notes = page.wrapped_lines(notes_of([plate.shown], page.medium))
    scale = scale_of([plate.shown])
    lines = [
        *title,
        *plate.lines(scale, page.colors(scale)),
        scale_line([plate.shown], scale, page, margin=frame.margin),
        *notes,
    ]
    return [line.rstrip() for line in lines], plate.shown.warnings


def notes_of(shown: Sequence[Shown], medium: Medium, *, first: Sequence[str] = ()) -> str:
    """All notes for the reader, as one paragraph."""
    notes = dict.fromkeys([*first, *(note for part in shown for note in part.notes)])
    if any(part.undersampled for part in shown):
        notes[f"{medium.glyph('▴')} aliased: wavelength under two samples"] = None
    if any(part.faded for part in shown):
        notes[f"{medium.glyph('▴')} {TOO_FAST.partition(',')[0]}"] = None
    return "; ".join(notes)


def scale_line(
    shown: Sequence[Shown], scale: Scale, page: Page, *, margin: int = 0, after: str = ""
) -> str:
    """The color scale on one line: the values at its ends, and the look of a gap.

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
