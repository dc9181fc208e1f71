"""Figures as files: PNG, SVG and PDF by matplotlib.

Every length is in pixels, from the top left. The cells of a heatmap are given whole pixels where
they fit, so that what is seen is the values and no beat of two grids. The same figure gives the
same bytes, whatever the machine's settings of matplotlib.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import InvalidInput
from posenc_cli.records import replace
from posenc_cli.render.blocks import GAP, levels
from posenc_cli.render.colors import LEVELS, color_map, default_map
from posenc_cli.render.curve_axes import draw_curves, minus
from posenc_cli.render.figure import (
    Band,
    Curves,
    Heatmap,
    Panels,
    Picture,
    heatmaps_of,
    scale_of,
    warnings_of,
)
from posenc_cli.render.grid import grid_of
from posenc_cli.render.plotting import imported
from posenc_cli.render.sheet import HEAD_SIZE, NOTE_SIZE, TITLE_SIZE, Box, Sheet, Style
from posenc_cli.render.ticks import number, round_values, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.figure import Figure, Scale, Shown

ImageFormat = Literal["png", "svg", "pdf"]
_METADATA: dict[ImageFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_SHARE_OF_WHOLE_PIXELS, _SHARE_OF_PANEL = 0.8, 0.95
_COARSE = 3
"""Pixels of a cell from which one more or less is not seen."""
_LEAST_MAP, _LEAST_PANEL = 4.0, 14.0
"""Sides of the smallest of many maps, and of a panel with axes of its own, in lines of text."""
_ABOVE_SCALE = 0.5
"""Room for the name of a colour scale, which would touch a long title, in lines of text."""
_LEFT, _ABOVE, _BELOW, _SCALE = 5.2, 1.0, 3.0, 4.6
"""Room around the axes of a panel: for values, names, and a colour scale, in lines of text."""


def image_bytes(figure: Figure, form: ImageFormat, style: Style) -> Picture[bytes]:
    """A figure as the bytes of a file.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
    """
    matplotlib = imported()
    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "posenc", "pdf.fonttype": 42})
        drawing = _Drawing(style)
        drawing.add(figure)
        content = io.BytesIO()
        drawing.page.savefig(
            content,
            format=form,
            dpi=style.dpi,
            metadata=_METADATA[form],
            bbox_inches=drawing.used(),
            pad_inches=0,
        )
    found = warnings_of(heatmaps_of(figure), drawing.shown)
    boxes = _boxes([str(each.message) for each in caught])
    return Picture(content.getvalue(), (*found, *boxes), tuple(drawing.shown))


def _boxes(messages: Sequence[str]) -> tuple[str, ...]:
    """A warning of the characters that are drawn as boxes, by what matplotlib said."""
    found = (re.match(r"Glyph ([0-9]+) ", message) for message in messages)
    missing = "".join(dict.fromkeys(chr(int(each[1])) for each in found if each))
    return (f"the font has no glyph for {missing!r}, drawn as a box",) if missing else ()


class _Drawing(Sheet):
    """A figure on a sheet, and what of it is shown.

    ``notes`` are what its reader must know.
    """

    def __init__(self, style: Style) -> None:
        super().__init__(style)
        self.shown: list[Shown] = []
        self.notes: dict[str, None] = {}

    def add(self, figure: Figure) -> None:
        """Draw a figure on the whole page, with its title above and its notes below."""
        box = Box(0, 0, self.style.width, self.style.height)
        box = box.inside(left=self.line, right=self.line, top=self.line / 2, bottom=self.line / 2)
        title = self.wrapped(figure.title, box.width, TITLE_SIZE)
        self.lines(title, box.left, box.top, size=TITLE_SIZE)
        # The notes are known only when all is drawn; two lines is what they take.
        below = 2 * NOTE_SIZE * self.line
        box = box.inside(top=(1.3 * len(title) + 0.4) * self.line, bottom=below)
        match figure:
            case Heatmap():
                self._heatmaps([figure], box)
            case Curves():
                self._curves(figure, box)
            case Panels():
                self._panels(figure, box)
        notes = self.wrapped("; ".join(self.notes), self.style.width - 2 * self.line, NOTE_SIZE)
        bottom = self.style.height - self.line / 2 - below
        top = bottom if self.style.fixed[1] else min(bottom, self.bottom)
        self.lines(notes[:2], box.left, top, size=NOTE_SIZE, color=self.theme.faint)

    def _panels(self, panels: Panels, box: Box) -> None:
        self.notes |= dict.fromkeys(panels.notes)
        heatmaps = [each for each in panels.panels if isinstance(each, Heatmap)]
        if panels.shared and len(heatmaps) == len(panels.panels):
            self._heatmaps(heatmaps, box, among=panels)
            return
        least = _LEAST_PANEL * self.line
        grid = grid_of(len(panels.panels), (box.width, box.height), (least, least), aspect=1)
        chosen = spread(len(panels.panels), grid[0] * grid[1])
        self.notes |= dict.fromkeys(panels.missing_notes(len(chosen)))
        each_row = [chosen[i : i + grid[1]] for i in range(0, len(chosen), grid[1])]
        rows = [[panels.panels[index] for index in row] for row in each_row]
        top = box.top
        for row, height in zip(rows, self._heights(rows, box, grid), strict=True):
            cell = box.cell(0, 0, grid, 1.5 * self.line)
            titles = [self.wrapped(each.title, cell.width, 1.0)[:2] for each in row]
            above = (1.13 * max(map(len, titles)) + 0.2) * self.line
            for column, (each, title) in enumerate(zip(row, titles, strict=True)):
                cell = box.cell(0, column, grid, 1.5 * self.line)
                cell = replace(cell, top=top, height=height)
                self.lines(title, cell.left, cell.top, size=1.0)
                self._panel(each, cell.inside(top=above))
            top += height + 1.5 * self.line

    def _panel(self, figure: Heatmap | Curves, cell: Box) -> None:
        if isinstance(figure, Curves):
            self._curves(figure, cell)
        else:
            self._heatmaps([figure], cell, panel=True)

    def _heights(
        self, rows: Sequence[Sequence[Heatmap | Curves]], box: Box, grid: tuple[int, int]
    ) -> list[float]:
        """How high the rows of panels are: square maps take what they need, curves the rest."""
        cell = box.cell(0, 0, grid, 1.5 * self.line)
        needed = cell.width + (_ABOVE + _BELOW + 1.5 - _LEFT - _SCALE) * self.line
        square = [all(isinstance(each, Heatmap) and each.square for each in row) for row in rows]
        low = min(needed, cell.height)
        others = len(rows) - sum(square)
        freed = sum(square) * (cell.height - low)
        return [low if is_low else cell.height + freed / others for is_low in square]

    def _heatmaps(
        self,
        heatmaps: Sequence[Heatmap],
        box: Box,
        *,
        among: Panels | None = None,
        panel: bool = False,
    ) -> None:
        """Heatmaps of one scale: axes named at the left and below, the scale at the right.

        Those ``among`` panels have each its title above it. As a ``panel``, one
        leaves the same room around it as others do, whatever its numbers and names.
        """
        line, first = self.line, heatmaps[0]
        titles = [each.title if among else "" for each in heatmaps]
        named = [number(p) for p in (first.rows.points[0], first.rows.points[-1])]
        labels = max(self.width_of(each) for each in named) + 0.5 * line
        scale_room = max(4.6 * line, self.width_of(first.value_label) + 0.8 * line)
        inner = box.inside(left=labels + 1.3 * line, right=scale_room, bottom=2.9 * line)
        if panel:
            inner = box.inside(
                left=_LEFT * line, right=_SCALE * line, top=_ABOVE * line, bottom=_BELOW * line
            )
        gap = 0.8 * line
        banded = any(each.columns.bands for each in heatmaps)
        # Where no titles and no bands are above them, the name of the scale is.
        head = line * (1.4 * any(titles) + 1.4 * banded) or line * (0 if panel else _ABOVE_SCALE)
        least, widest = _LEAST_MAP * line, max(self.width_of(t, HEAD_SIZE) for t in titles)
        grid = grid_of(
            len(heatmaps),
            (inner.width + gap, inner.height + gap),
            (max(least, min(widest, 3 * least)) + gap, least + head + gap),
            aspect=1,
        )
        chosen = [heatmaps[i] for i in spread(len(heatmaps), grid[0] * grid[1])]
        if among is not None:
            self.notes |= dict.fromkeys(among.missing_notes(len(chosen)))
        room = inner.cell(0, 0, grid, gap).inside(top=head)
        share = _SHARE_OF_PANEL if panel else _SHARE_OF_WHOLE_PIXELS
        shown = [each.shown(*self._most(each, room, share)) for each in chosen]
        scale = scale_of(shown)
        fitted = [self._fitted(each, room, share) for each in shown]
        across = max(*(each.width for each in fitted), min(widest, room.width)) + gap
        down = max(each.height for each in fitted) + gap + head
        for index, (each, cells) in enumerate(zip(shown, fitted, strict=True)):
            row, column = divmod(index, grid[1])
            left, top = round(room.left + column * across), round(room.top + row * down)
            if among:
                above = top - head + 0.8 * line
                self.text(left, above, self._head(each, across - gap), size=HEAD_SIZE)
            self._cells(
                each,
                replace(cells, left=left, top=top),
                scale,
                rows_named=column == 0,
                columns_named=index + grid[1] >= len(chosen),
            )
            self._register(each)
        columns, rows = min(grid[1], len(chosen)), -(-len(chosen) // grid[1])
        size = columns * across - gap, rows * down - gap - head
        whole = Box(round(room.left), round(room.top), *size)
        self._axis_names(first, whole, labels)
        limit = box.right if panel else math.inf
        self._scale(first, scale, whole, alone=len(chosen) == 1, limit=limit)

    def _head(self, shown: Shown, width: float) -> str:
        """The title of one of many maps, with the range of its values if that has room.

        On a scale for all, the values of some look alike.
        """
        title, finite = shown.heatmap.title, shown.values[np.isfinite(shown.values)]
        if not finite.size:
            return title
        low, high = (minus(number(float(each), 3)) for each in (finite.min(), finite.max()))
        longer = f"{title}: {low} to {high}" if low != high else f"{title}: {low}"
        return longer if self.width_of(longer, HEAD_SIZE) <= width else title

    def _register(self, shown: Shown) -> None:
        self.shown.append(shown)
        self.notes |= dict.fromkeys(shown.notes)
        if shown.undersampled:
            self.notes["underlined: aliased, wavelength under two samples"] = None
        if shown.gaps:
            self.notes["grey: not finite"] = None

    def _most(self, heatmap: Heatmap, box: Box, share: float) -> tuple[int, int]:
        """How many rows and columns a box has whole pixels for."""
        width = box.width - self._gap() * len(heatmap.columns.bands[1:])
        count = len(heatmap.rows.points), len(heatmap.columns.points)
        if heatmap.square:
            return (_count(min(box.height, width), max(count), share),) * 2
        return _count(box.height, count[0], share), _count(width, count[1], share)

    def _gap(self) -> int:
        """Pixels between two bands."""
        return max(2, round(0.35 * self.line))

    def _fitted(self, shown: Shown, box: Box, share: float) -> Box:
        """The part of a box that the cells of a heatmap take."""
        gaps = self._gap() * len(shown.column_bands[1:])
        rows, columns = shown.values.shape
        down, across = _cell(box.height, rows, share), _cell(box.width - gaps, columns, share)
        if shown.heatmap.square:
            down = across = min(down, across)
        return replace(box, width=columns * across + gaps, height=rows * down)

    def _cells(
        self, shown: Shown, box: Box, scale: Scale, *, rows_named: bool, columns_named: bool
    ) -> None:
        """Draw the values over the whole of a box, band by band."""
        bands = shown.column_bands or (Band("", 0, len(shown.columns)),)
        gap = self._gap()
        across = (box.width - gap * (len(bands) - 1)) / len(shown.columns)
        for index, band in enumerate(bands):
            place = replace(
                box,
                left=box.left + band.start * across + gap * index,
                width=(band.stop - band.start) * across,
            )
            axes = self._band(shown, band, place, scale)
            self._band_ticks(axes, shown, band, place, named=columns_named)
            if index == 0 and rows_named:
                self._row_ticks(axes, shown, box.height)
            if band.label:
                above = box.top - 0.6 * self.line
                self.text(place.left, above, band.label, size=HEAD_SIZE)

    def _band(self, shown: Shown, band: Band, place: Box, scale: Scale) -> Any:
        """The axes of a band, with its values drawn."""
        from matplotlib.colors import ListedColormap

        colors = color_map(self.style.cmap or self._default_map(scale))
        cmap = ListedColormap(colors / 255).with_extremes(bad=self.theme.gap)
        axes = self.axes(place)
        numbers = levels(scale.places(shown.values[:, band.start : band.stop]))
        # In the middle of a level: the same colour as in the terminal.
        places = np.ma.masked_array((numbers + 0.5) / LEVELS, mask=numbers == GAP)
        # Any other interpolation makes colours that stand for no value.
        axes.imshow(places, cmap=cmap, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        return axes

    def _default_map(self, scale: Scale) -> str:
        return default_map(scale.kind, dark=self.style.theme == "dark")

    def _row_ticks(self, axes: Any, shown: Shown, height: float) -> None:
        found = ticks(shown.rows, max(2, int(height / (2.6 * self.line))))
        axes.set_yticks([i for i, _ in found], [minus(text) for _, text in found])

    def _band_ticks(self, axes: Any, shown: Shown, band: Band, place: Box, *, named: bool) -> None:
        """Name columns below a band, and underline those that are shown too seldom."""
        axes.set_yticks([])
        points = shown.columns[band.start : band.stop]
        if named:
            room = max(self.width_of(number(p)) for p in (points[0], points[-1]))
            found = ticks(points, max(1, int(place.width / (room + 1.2 * self.line))))
            axes.set_xticks([i for i, _ in found], [minus(text) for _, text in found])
        else:
            axes.set_xticks([])
        marked = [i for i in shown.undersampled if band.start <= i < band.stop]
        for _, run in groupby(enumerate(marked), key=lambda pair: pair[1] - pair[0]):
            columns = [column - band.start for _, column in run]
            axes.plot(
                [columns[0] - 0.5, columns[-1] + 0.5],
                [-0.16 * self.line / place.height] * 2,
                transform=axes.get_xaxis_transform(),
                color=self.theme.mark,
                linewidth=0.25 * self.points,
                solid_capstyle="butt",
                clip_on=False,
            )

    def _axis_names(self, heatmap: Heatmap, box: Box, labels: float) -> None:
        left = box.left - labels - 0.6 * self.line
        middle = box.left + box.width / 2, box.top + box.height / 2
        self.text(left, middle[1], heatmap.rows.label, rotation=90, align="center")
        below = box.bottom + 2.1 * self.line
        self.text(middle[0], below, heatmap.columns.label, align="center")
        self.reach(box.right, below + 0.8 * self.line)

    def _scale(
        self, heatmap: Heatmap, scale: Scale, beside: Box, *, alone: bool, limit: float
    ) -> None:
        """The colour scale at the right of a box: its values beside it, what they are above.

        No name is to reach past ``limit``.
        """
        line = self.line
        height = beside.height if alone else min(beside.height, 16 * line)
        place = Box(beside.right + 0.9 * line, beside.top, 0.8 * line, height)
        colors = color_map(self.style.cmap or self._default_map(scale))
        axes = self.axes(place)
        if scale.high <= scale.low:
            axes.imshow(colors[None, 128:129], aspect="auto")
            named = [(0.0, minus(number(scale.low)))]
        else:
            bar = {"origin": "lower", "extent": (0, 1, 0, 1), "interpolation": "nearest"}
            axes.imshow(colors[:, None], aspect="auto", **bar)
            named = _named_values(scale, place.height / line)
        axes.set_yticks([value for value, _ in named], [text for _, text in named])
        axes.set_xticks([])
        axes.yaxis.tick_right()
        label = heatmap.value_label
        if limit < math.inf:
            (label, *_) = self.wrapped(label, max(1.0, limit - beside.left), 1.0) or [""]
        left = max(0.0, min(place.left, limit - self.width_of(label)))
        self.text(left, place.top - 0.6 * line, label)
        widest = max(self.width_of(text) for _, text in named) + 2 * line
        right = max(place.left + widest, left + self.width_of(label))
        self.reach(right, place.bottom)

    def _curves(self, curves: Curves, box: Box) -> None:
        """Curves over their axes, with a legend where they have names."""
        line = self.line
        self.reach(box.right, box.bottom)
        inner = box.inside(
            left=_LEFT * line, right=0.5 * line, top=_ABOVE * line, bottom=_BELOW * line
        )
        axes = self.axes(inner)
        self.notes |= dict.fromkeys(curves.notes)
        if not draw_curves(axes, curves, self, width=inner.width, height=inner.height):
            raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")


def _named_values(scale: Scale, lines: float) -> list[tuple[float, str]]:
    """Where to name which values of a colour scale so high: its ends, and round ones between."""
    inner = round_values(scale.low, scale.high, max(2, int(lines / 2.4)))
    values = np.array([scale.low, *inner, scale.high])
    places = scale.places(values)
    apart = 1.2 / lines
    kept = (places > apart) & (places < 1 - apart)
    kept[0] = kept[-1] = True
    return [
        (at, minus(number(value)))
        for at, value in zip(places[kept].tolist(), values[kept].tolist(), strict=True)
    ]


def _count(room: float, count: int, share: float) -> int:
    """How many of ``count`` cells to draw: fewer where they would be small and of unequal sizes."""
    pixels = max(1, int(room))
    whole = pixels // count
    if whole >= _COARSE or whole * count >= share * pixels:
        return count
    return max(1, pixels // (whole + 1))


def _cell(room: float, count: int, share: float) -> float:
    """How large a cell is: whole pixels, unless large cells would fill too little of the room."""
    size = room / count
    whole = int(size)
    if whole * count >= share * room or 1 <= whole < _COARSE:
        return float(whole)
    return size
