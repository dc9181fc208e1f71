"""Figures as files: PNG, SVG and PDF by matplotlib.

Every length is in pixels, from the top left. The cells of a heatmap are given whole pixels where
they fit, so that what is seen is the values and no beat of two grids. The same figure gives the
same bytes, whatever the machine's settings of matplotlib.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import InvalidInput
from posenc_cli.render.colors import color_map, default_map
from posenc_cli.render.figure import Band, Curves, Heatmap, Panels, Picture, scale_of
from posenc_cli.render.grid import grid_of
from posenc_cli.render.plotting import imported
from posenc_cli.render.ticks import number, round_values, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.figure import Figure, Scale, Shown

ImageFormat = Literal["png", "svg", "pdf"]
Theme = Literal["light", "dark"]

SMALLEST, LARGEST = 64, 10_000
"""Pixels on a side."""

_METADATA: dict[ImageFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_POINTS = 9.0
_TITLE_SIZE, _HEAD_SIZE, _NOTE_SIZE = 1.15, 0.9, 0.85
_SHARE_OF_WHOLE_PIXELS = 0.8
_LEAST_MAP, _LEAST_PANEL = 4.0, 14.0
"""Sides of the smallest of many maps, and of a panel with axes of its own, in lines of text."""


class _Theme(NamedTuple):
    """The colours of what surrounds the values."""

    page: str
    ink: str
    faint: str
    gap: str
    mark: str
    lines: tuple[str, ...]


_THEMES: dict[Theme, _Theme] = {
    "light": _Theme(
        *("#ffffff", "#1c1c1c", "#5c5c5c", "#b9b9b9", "#d55e00"),
        lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
    ),
    "dark": _Theme(
        *("#14161a", "#ececec", "#a6a6a6", "#6d6d6d", "#e69f00"),
        lines=("#56b4e9", "#e69f00", "#2fc49b", "#e29ac6", "#f0e442", "#ff8a4c"),
    ),
}


@dataclass(frozen=True)
class Style:
    """How large a figure is, and in which colours: pixels, pixels an inch, and names.

    A ``fixed`` side is as long as it says; of another, what the figure does not need is cut off.
    """

    width: int = 1200
    height: int = 800
    dpi: int = 150
    theme: Theme = "light"
    cmap: str | None = None
    fixed: tuple[bool, bool] = (True, True)


@dataclass(frozen=True)
class _Box:
    """A rectangle of the figure."""

    left: float
    top: float
    width: float
    height: float

    def inside(
        self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0
    ) -> _Box:
        """What is left of it within margins, a pixel at least."""
        return _Box(
            self.left + left,
            self.top + top,
            max(1.0, self.width - left - right),
            max(1.0, self.height - top - bottom),
        )

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height

    def cell(self, row: int, column: int, grid: tuple[int, int], gap: float) -> _Box:
        """A cell of a grid that divides it."""
        width = (self.width + gap) / grid[1] - gap
        height = (self.height + gap) / grid[0] - gap
        return _Box(
            self.left + column * (width + gap), self.top + row * (height + gap), width, height
        )


def image_bytes(figure: Figure, form: ImageFormat, style: Style) -> Picture[bytes]:
    """A figure as the bytes of a file.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
    """
    matplotlib = imported()
    # Glyphs that the font lacks are drawn as boxes: nothing that a warning would mend.
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
    return Picture(content.getvalue(), tuple(drawing.warnings[:1]), tuple(drawing.shown))


class _Drawing:
    """A page of matplotlib's, in pixels, and what has been drawn on it."""

    def __init__(self, style: Style) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Page

        self.style = style
        self.theme = _THEMES[style.theme]
        self.page = Page(figsize=(style.width / style.dpi, style.height / style.dpi), dpi=style.dpi)
        FigureCanvasAgg(self.page)
        self.page.set_facecolor(self.theme.page)
        self.warnings: list[str] = []
        self.shown: list[Shown] = []
        self.notes: dict[str, None] = {}
        self.right = self.bottom = 0.0

    @cached_property
    def points(self) -> float:
        """The size of the text: smaller where the picture is."""
        most = min(self.style.height / 28, self.style.width / 42)
        return min(_POINTS, most * 72 / self.style.dpi)

    @cached_property
    def line(self) -> float:
        """The height of a line of text, in pixels."""
        return 1.35 * self.points * self.style.dpi / 72

    def add(self, figure: Figure) -> None:
        """Draw a figure on the whole page, with its title above and its notes below."""
        box = _Box(0, 0, self.style.width, self.style.height)
        box = box.inside(left=self.line, right=self.line, top=self.line / 2, bottom=self.line / 2)
        title = self._wrapped(figure.title, box.width, _TITLE_SIZE)
        self._lines(title, box.left, box.top, size=_TITLE_SIZE)
        # The notes are known only when all is drawn; two lines is what they take.
        below = 2 * _NOTE_SIZE * self.line
        box = box.inside(top=(1.3 * len(title) + 0.4) * self.line, bottom=below)
        match figure:
            case Heatmap():
                self._heatmaps([replace(figure, title="")], box, noun="")
            case Curves():
                self._curves(figure, box)
            case Panels():
                self._panels(figure, box)
        notes = self._wrapped("; ".join(self.notes), self.style.width - 2 * self.line, _NOTE_SIZE)
        bottom = self.style.height - self.line / 2 - below
        top = bottom if self.style.fixed[1] else min(bottom, self.bottom)
        self._lines(notes[:2], box.left, top, size=_NOTE_SIZE, color=self.theme.faint)

    def used(self) -> Any:
        """The part of the page to keep, in inches: all of a fixed side."""
        from matplotlib.transforms import Bbox

        right = self.style.width if self.style.fixed[0] else math.ceil(self.right + self.line)
        bottom = (
            self.style.height if self.style.fixed[1] else math.ceil(self.bottom + self.line / 2)
        )
        right, bottom = min(right, self.style.width), min(bottom, self.style.height)
        height, dpi = self.style.height, self.style.dpi
        return Bbox([[0, (height - bottom) / dpi], [right / dpi, height / dpi]])

    def _reach(self, right: float, bottom: float) -> None:
        """Remember how far the drawing reaches."""
        self.right, self.bottom = max(self.right, right), max(self.bottom, bottom)

    def _lines(
        self,
        lines: Sequence[str],
        left: float,
        top: float,
        *,
        size: float,
        color: str | None = None,
    ) -> None:
        """Write lines of text below each other."""
        height = 1.13 * size * self.line
        for index, text in enumerate(lines):
            self._text(left, top + (index + 0.5) * height, text, size=size, color=color)
            self._reach(left + self._width_of(text, size), top + (index + 1) * height)

    def _panels(self, panels: Panels, box: _Box) -> None:
        self.notes |= dict.fromkeys(panels.notes)
        heatmaps = [each for each in panels.panels if isinstance(each, Heatmap)]
        if panels.shared and len(heatmaps) == len(panels.panels):
            self._heatmaps(heatmaps, box, noun=panels.noun)
            return
        least = _LEAST_PANEL * self.line
        grid = grid_of(len(panels.panels), (box.width, box.height), (least, least), aspect=1)
        chosen = spread(len(panels.panels), grid[0] * grid[1])
        self._note_missing(len(chosen), len(panels.panels), panels.noun)
        for place, index in enumerate(chosen):
            cell = box.cell(*divmod(place, grid[1]), grid, 1.5 * self.line)
            each = panels.panels[index]
            title = self._wrapped(each.title, cell.width, 1.0)[:2]
            self._lines(title, cell.left, cell.top, size=1.0)
            cell = cell.inside(top=(1.13 * len(title) + 0.2) * self.line)
            if isinstance(each, Curves):
                self._curves(each, cell)
            else:
                self._heatmaps([replace(each, title="")], cell, noun="")

    def _note_missing(self, count: int, total: int, noun: str) -> None:
        if count < total:
            self.notes[f"shows {count} of {total} {noun}s"] = None

    def _heatmaps(self, heatmaps: Sequence[Heatmap], box: _Box, *, noun: str) -> None:
        """Heatmaps of one scale: axes named at the left and below, the scale at the right."""
        line, first = self.line, heatmaps[0]
        named = [number(p) for p in (first.rows.points[0], first.rows.points[-1])]
        labels = max(self._width_of(each) for each in named) + 0.5 * line
        scale_room = max(4.6 * line, self._width_of(first.value_label) + 0.8 * line)
        inner = box.inside(left=labels + 1.3 * line, right=scale_room, bottom=2.9 * line)
        gap = 0.8 * line
        head = 1.4 * line * any(each.title or each.columns.bands for each in heatmaps)
        least = _LEAST_MAP * line
        widest = max(self._width_of(each.title, _HEAD_SIZE) for each in heatmaps)
        grid = grid_of(
            len(heatmaps),
            (inner.width + gap, inner.height + gap),
            (max(least, min(widest, 3 * least)) + gap, least + head + gap),
            aspect=1,
        )
        chosen = [heatmaps[i] for i in spread(len(heatmaps), grid[0] * grid[1])]
        self._note_missing(len(chosen), len(heatmaps), noun)
        room = inner.cell(0, 0, grid, gap).inside(top=head)
        shown = [each.shown(*self._most(each, room)) for each in chosen]
        scale = scale_of(shown)
        fitted = [self._fitted(each, room) for each in shown]
        across = max(*(each.width for each in fitted), min(widest, room.width)) + gap
        down = max(each.height for each in fitted) + gap + head
        for index, (each, cells) in enumerate(zip(shown, fitted, strict=True)):
            row, column = divmod(index, grid[1])
            lowest = index + grid[1] >= len(chosen)
            place = replace(
                cells, left=round(room.left + column * across), top=round(room.top + row * down)
            )
            self._cells(each, place, scale, rows_named=column == 0, columns_named=lowest)
            self._register(each)
        columns = min(grid[1], len(chosen))
        rows = -(-len(chosen) // grid[1])
        whole = _Box(
            round(room.left), round(room.top), columns * across - gap, rows * down - gap - head
        )
        self._axis_names(first, whole, labels)
        self._scale(first, scale, whole, alone=len(chosen) == 1)

    def _register(self, shown: Shown) -> None:
        self.shown.append(shown)
        self.warnings += shown.warnings
        self.notes |= dict.fromkeys(shown.notes)
        if shown.undersampled:
            self.notes["underlined: aliased, wavelength under two samples"] = None
        if shown.gaps:
            self.notes["grey: not finite"] = None

    def _most(self, heatmap: Heatmap, box: _Box) -> tuple[int, int]:
        """How many rows and columns a box has pixels for."""
        rows = int(box.height)
        columns = int(box.width - self._gap() * len(heatmap.columns.bands[1:]))
        return (min(rows, columns),) * 2 if heatmap.square else (rows, max(1, columns))

    def _gap(self) -> int:
        """Pixels between two bands."""
        return max(2, round(0.35 * self.line))

    def _fitted(self, shown: Shown, box: _Box) -> _Box:
        """The part of a box that the cells of a heatmap take."""
        gaps = self._gap() * len(shown.column_bands[1:])
        rows, columns = shown.values.shape
        down, across = _cell(box.height, rows), _cell(box.width - gaps, columns)
        if shown.heatmap.square:
            down = across = min(down, across)
        return replace(box, width=columns * across + gaps, height=rows * down)

    def _cells(
        self, shown: Shown, box: _Box, scale: Scale, *, rows_named: bool, columns_named: bool
    ) -> None:
        """Draw the values over the whole of a box, band by band."""
        bands = shown.column_bands or (Band("", 0, len(shown.columns)),)
        gap = self._gap()
        across = (box.width - gap * (len(bands) - 1)) / len(shown.columns)
        whole = across == int(across) and box.height % len(shown.rows) == 0
        for index, band in enumerate(bands):
            place = replace(
                box,
                left=box.left + band.start * across + gap * index,
                width=(band.stop - band.start) * across,
            )
            axes = self._band(shown, band, place, scale, whole=whole)
            self._band_ticks(axes, shown, band, place, named=columns_named)
            if index == 0 and rows_named:
                self._row_ticks(axes, shown, box.height)
            if band.label:
                above = box.top - 0.6 * self.line
                self._text(place.left, above, band.label, size=_HEAD_SIZE)
        if shown.heatmap.title:
            above = box.top - 0.6 * self.line
            self._text(box.left, above, shown.heatmap.title, size=_HEAD_SIZE)

    def _band(self, shown: Shown, band: Band, place: _Box, scale: Scale, *, whole: bool) -> Any:
        """The axes of a band, with its values drawn."""
        from matplotlib.colors import ListedColormap

        colors = color_map(self.style.cmap or self._default_map(scale))
        cmap = ListedColormap(colors / 255).with_extremes(bad=self.theme.gap)
        axes = self._axes(place)
        places = np.ma.masked_invalid(scale.places(shown.values[:, band.start : band.stop]))
        coarse = place.width / (band.stop - band.start) >= 3
        axes.imshow(
            places,
            cmap=cmap,
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest" if whole or coarse else "antialiased",
        )
        return axes

    def _default_map(self, scale: Scale) -> str:
        return default_map(scale.kind, dark=self.style.theme == "dark")

    def _axes(self, place: _Box) -> Any:
        width, height = self.style.width, self.style.height
        axes = self.page.add_axes(
            (
                place.left / width,
                1 - (place.top + place.height) / height,
                place.width / width,
                place.height / height,
            )
        )
        axes.set_facecolor(self.theme.page)
        for spine in axes.spines.values():
            spine.set_color(self.theme.faint)
            spine.set_linewidth(0.6)
        axes.tick_params(
            colors=self.theme.ink,
            labelsize=0.9 * self.points,
            length=0.25 * self.points,
            width=0.6,
            pad=0.25 * self.points,
        )
        return axes

    def _row_ticks(self, axes: Any, shown: Shown, height: float) -> None:
        found = ticks(shown.rows, max(2, int(height / (2.6 * self.line))))
        axes.set_yticks([i for i, _ in found], [text for _, text in found])

    def _band_ticks(self, axes: Any, shown: Shown, band: Band, place: _Box, *, named: bool) -> None:
        """Name columns below a band, and underline those that are shown too seldom."""
        axes.set_yticks([])
        points = shown.columns[band.start : band.stop]
        if named:
            room = max(self._width_of(number(p)) for p in (points[0], points[-1]))
            found = ticks(points, max(1, int(place.width / (room + 1.2 * self.line))))
            axes.set_xticks([i for i, _ in found], [text for _, text in found])
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

    def _axis_names(self, heatmap: Heatmap, box: _Box, labels: float) -> None:
        left = box.left - labels - 0.6 * self.line
        middle = box.left + box.width / 2, box.top + box.height / 2
        self._text(left, middle[1], heatmap.rows.label, rotation=90, align="center")
        below = box.bottom + 2.1 * self.line
        self._text(middle[0], below, heatmap.columns.label, align="center")
        self._reach(box.right, below + 0.8 * self.line)

    def _scale(self, heatmap: Heatmap, scale: Scale, beside: _Box, *, alone: bool) -> None:
        """The colour scale at the right of a box: its values beside it, what they are above."""
        line = self.line
        height = beside.height if alone else min(beside.height, 16 * line)
        place = _Box(beside.right + 0.9 * line, beside.top, 0.8 * line, height)
        colors = color_map(self.style.cmap or self._default_map(scale))
        axes = self._axes(place)
        if scale.high <= scale.low:
            axes.imshow(colors[None, 128:129], aspect="auto")
            named = [(0.0, number(scale.low))]
        else:
            extent = (0, 1, scale.low, scale.high)
            axes.imshow(colors[:, None], aspect="auto", origin="lower", extent=extent)
            most = max(2, int(place.height / (2.4 * line)))
            named = [(value, number(value)) for value in round_values(scale.low, scale.high, most)]
        axes.set_yticks([value for value, _ in named], [text for _, text in named])
        axes.set_xticks([])
        axes.yaxis.tick_right()
        self._text(place.left, place.top - 0.6 * line, heatmap.value_label)
        widest = max(self._width_of(text) for _, text in named) + 2 * line
        right = place.left + max(widest, self._width_of(heatmap.value_label))
        self._reach(right, place.bottom)

    def _curves(self, curves: Curves, box: _Box) -> None:
        """Curves over their axes, with a legend where they have names."""
        line = self.line
        self._reach(box.right, box.bottom)
        axes = self._axes(box.inside(left=4.2 * line, right=0.5 * line, top=line, bottom=3 * line))
        self.notes |= dict.fromkeys(curves.notes)
        finite = False
        for index, curve in enumerate(curves.curves):
            x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)
            drawable = np.isfinite(x) & np.isfinite(y)
            finite = finite or bool(drawable.any())
            color = self.theme.lines[index % len(self.theme.lines)]
            axes.plot(
                np.where(drawable, x, np.nan),
                np.where(drawable, y, np.nan),
                color=color,
                linewidth=1.3,
                marker="o" if len(x) <= 64 else None,
                markersize=2.6,
                label=curve.name or None,
            )
        if not finite:
            raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
        for height, name in curves.levels:
            axes.axhline(height, color=self.theme.faint, linewidth=0.9, linestyle="--", label=name)
        axes.set_xscale(curves.x_scale)
        axes.set_yscale(curves.y_scale)
        for label, put in ((curves.x_label, axes.set_xlabel), (curves.y_label, axes.set_ylabel)):
            put(label, color=self.theme.ink, fontsize=self.points, parse_math=False)
        axes.grid(color=self.theme.faint, alpha=0.25, linewidth=0.5)
        axes.tick_params(which="minor", colors=self.theme.faint)
        if axes.get_legend_handles_labels()[1]:
            legend = axes.legend(
                fontsize=0.9 * self.points,
                labelcolor=self.theme.ink,
                facecolor=self.theme.page,
                edgecolor=self.theme.faint,
                framealpha=0.9,
            )
            for text in legend.get_texts():
                text.set_parse_math(False)

    def _text(
        self,
        left: float,
        middle: float,
        text: str,
        *,
        size: float = 1.0,
        color: str | None = None,
        rotation: float = 0,
        align: Literal["left", "center"] = "left",
    ) -> None:
        """Write a line of text, its middle at a height."""
        self.page.text(
            left / self.style.width,
            1 - middle / self.style.height,
            text,
            fontsize=size * self.points,
            color=color or self.theme.ink,
            rotation=rotation,
            horizontalalignment=align,
            verticalalignment="center",
            parse_math=False,
        )

    def _width_of(self, text: str, size: float = 1.0) -> float:
        """How wide a line of text is, in pixels."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size * self.points)
        renderer = self.page.canvas.get_renderer()  # type: ignore[attr-defined]
        width: float = renderer.get_text_width_height_descent(text, font, ismath=False)[0]
        return width

    def _wrapped(self, text: str, width: float, size: float) -> list[str]:
        letter = self._width_of(text, size) / max(1, len(text))
        characters = max(8, int(width / max(letter, 1)))
        return textwrap.wrap(text, characters, max_lines=3, placeholder=" …")


def _cell(room: float, count: int) -> float:
    """How large a cell is: whole pixels, unless too much of the room were left empty."""
    size = room / count
    whole = int(size)
    return float(whole) if whole * count >= _SHARE_OF_WHOLE_PIXELS * room else size
