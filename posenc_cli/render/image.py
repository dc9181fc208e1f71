"""Figures as files: PNG, SVG and PDF by matplotlib.

Every length is in pixels, from the top left. The cells of a heatmap are given whole pixels where
they fit, so that what is seen is the values and no beat of two grids. The same figure gives the
same bytes, whatever the machine's settings of matplotlib.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import io
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
from posenc_cli.render.ticks import number, ticks

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
_SHARE_OF_WHOLE_PIXELS = 0.8
_LEAST_PANEL = 7.0
"""Side of the smallest panel, in the height of a line."""


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
    """How large a figure is, and in which colours: pixels, pixels an inch, and names."""

    width: int = 1200
    height: int = 800
    dpi: int = 150
    theme: Theme = "light"
    cmap: str | None = None


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
        drawing.page.savefig(content, format=form, dpi=style.dpi, metadata=_METADATA[form])
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
        box = box.inside(top=self._title(figure.title, box))
        # The notes are known only when all is drawn; two lines is what they take.
        inner = box.inside(bottom=2.2 * self.line)
        match figure:
            case Heatmap():
                self._heatmaps([replace(figure, title="")], inner, noun="")
            case Curves():
                self._curves(figure, inner)
            case Panels():
                self._panels(figure, inner)
        self._notes(box)

    def _title(self, title: str, box: _Box) -> float:
        """Write the title; return the height it takes."""
        lines = self._wrapped(title, box.width, 1.15)
        for index, text in enumerate(lines):
            self._text(box.left, box.top + (index + 0.6) * 1.3 * self.line, text, size=1.15)
        return (len(lines) * 1.3 + 0.4) * self.line

    def _notes(self, box: _Box) -> None:
        lines = self._wrapped("; ".join(self.notes), box.width, 0.85)
        for index, text in enumerate(lines[:2]):
            y = box.top + box.height - (1.5 - index) * self.line
            self._text(box.left, y, text, size=0.85, color=self.theme.faint)

    def _panels(self, panels: Panels, box: _Box) -> None:
        self.notes |= dict.fromkeys(panels.notes)
        heatmaps = [each for each in panels.panels if isinstance(each, Heatmap)]
        if panels.shared and len(heatmaps) == len(panels.panels):
            self._heatmaps(heatmaps, box, noun=panels.noun)
            return
        least = 2 * _LEAST_PANEL * self.line
        grid = grid_of(len(panels.panels), (box.width, box.height), (least, least), aspect=1)
        chosen = spread(len(panels.panels), grid[0] * grid[1])
        self._note_missing(len(chosen), len(panels.panels), panels.noun)
        for place, index in enumerate(chosen):
            cell = box.cell(*divmod(place, grid[1]), grid, 1.5 * self.line)
            each = panels.panels[index]
            if isinstance(each, Curves):
                title = self._panel_title(each.title, cell)
                self._curves(each, cell.inside(top=title))
            else:
                self._heatmaps([each], cell, noun="")

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
        least = _LEAST_PANEL * line / 2
        grid = grid_of(len(heatmaps), (inner.width, inner.height), (least, least), aspect=1)
        chosen = [heatmaps[i] for i in spread(len(heatmaps), grid[0] * grid[1])]
        self._note_missing(len(chosen), len(heatmaps), noun)
        gap = 0.8 * line
        several = len(chosen) > 1
        headed = any(each.title or each.columns.bands for each in chosen)
        boxes = [
            inner.cell(*divmod(i, grid[1]), grid, gap).inside(top=1.4 * line * headed)
            for i in range(len(chosen))
        ]
        shown = [
            each.shown(*self._most(each, room)) for each, room in zip(chosen, boxes, strict=True)
        ]
        scale = scale_of(shown)
        drawn = []
        for index, (each, room) in enumerate(zip(shown, boxes, strict=True)):
            left, lowest = index % grid[1] == 0, index + grid[1] >= len(chosen)
            drawn.append(self._cells(each, room, scale, rows_named=left, columns_named=lowest))
            self._register(each)
        right = max(each.left + each.width for each in drawn)
        bottom = max(each.top + each.height for each in drawn)
        top = min(each.top for each in drawn)
        whole = _Box(drawn[0].left, top, right - drawn[0].left, bottom - top)
        self._axis_names(first, whole, labels)
        tall = min(whole.height, 16 * line) if several else whole.height
        self._scale(first, scale, _Box(right + 0.9 * line, top, 0.8 * line, tall))

    def _register(self, shown: Shown) -> None:
        self.shown.append(shown)
        self.warnings += shown.warnings
        self.notes |= dict.fromkeys(shown.notes)
        if shown.undersampled:
            names = shown.heatmap.columns.plural
            self.notes[f"underlined: {names} whose wavelength is under two samples, aliased"] = None
        if shown.gaps:
            self.notes["grey: not finite"] = None

    def _most(self, heatmap: Heatmap, box: _Box) -> tuple[int, int]:
        """How many rows and columns a box has pixels for."""
        rows = int(box.height)
        columns = int(box.width - self._gap(heatmap) * len(heatmap.columns.bands[1:]))
        return (min(rows, columns),) * 2 if heatmap.square else (rows, max(1, columns))

    def _gap(self, _heatmap: Heatmap) -> int:
        """Pixels between two bands."""
        return max(2, round(0.35 * self.line))

    def _cells(
        self, shown: Shown, box: _Box, scale: Scale, *, rows_named: bool, columns_named: bool
    ) -> _Box:
        """Draw the values in a box, band by band; return the box they take."""
        heatmap = shown.heatmap
        bands = shown.column_bands or (Band("", 0, len(shown.columns)),)
        gap = self._gap(heatmap)
        rows, columns = shown.values.shape
        down = _cell(box.height, rows)
        across = _cell(box.width - gap * (len(bands) - 1), columns)
        if heatmap.square:
            down = across = min(down, across)
        whole = down == int(down) and across == int(across)
        left, top = round(box.left), round(box.top)
        taken = _Box(left, top, columns * across + gap * (len(bands) - 1), rows * down)
        for index, band in enumerate(bands):
            place = _Box(
                left + band.start * across + gap * index,
                top,
                (band.stop - band.start) * across,
                taken.height,
            )
            axes = self._band(shown, band, place, scale, whole=whole)
            self._band_ticks(axes, shown, band, place, named=columns_named)
            if index == 0 and rows_named:
                self._row_ticks(axes, shown, taken.height)
            if band.label:
                self._text(place.left, top - 0.6 * self.line, band.label)
        if heatmap.title:
            self._text(left, top - 0.6 * self.line, heatmap.title, most=taken.width)
        return taken

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
        self._text(
            box.left - labels - 0.6 * self.line,
            box.top + box.height / 2,
            heatmap.rows.label,
            rotation=90,
            align="center",
        )
        self._text(
            box.left + box.width / 2,
            box.top + box.height + 2.1 * self.line,
            heatmap.columns.label,
            align="center",
        )

    def _scale(self, heatmap: Heatmap, scale: Scale, place: _Box) -> None:
        """The colour scale, its values at the right and what they are above."""
        colors = color_map(self.style.cmap or self._default_map(scale))
        axes = self._axes(place)
        if scale.high <= scale.low:
            axes.imshow(colors[None, 128:129], aspect="auto")
            axes.set_yticks([0], [number(scale.low)])
        else:
            axes.imshow(
                colors[:, None], aspect="auto", origin="lower", extent=(0, 1, scale.low, scale.high)
            )
            if scale.kind == "diverging":
                axes.set_yticks([scale.low, scale.low / 2, 0, scale.high / 2, scale.high])
            else:
                axes.set_yticks([float(x) for x in np.linspace(scale.low, scale.high, 5)])
            axes.set_yticklabels([number(tick, 3) for tick in axes.get_yticks()])
        axes.set_xticks([])
        axes.yaxis.tick_right()
        self._text(place.left, place.top - 0.6 * self.line, heatmap.value_label)

    def _curves(self, curves: Curves, box: _Box) -> None:
        """Curves over their axes, with a legend where they have names."""
        line = self.line
        axes = self._axes(
            box.inside(left=4.2 * line, right=0.5 * line, top=0.3 * line, bottom=3 * line)
        )
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
            axes.legend(
                fontsize=0.9 * self.points,
                labelcolor=self.theme.ink,
                facecolor=self.theme.page,
                edgecolor=self.theme.faint,
                framealpha=0.9,
            )

    def _panel_title(self, title: str, box: _Box) -> float:
        self._text(box.left, box.top + 0.6 * self.line, title, most=box.width)
        return 1.4 * self.line

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
        most: float | None = None,
    ) -> None:
        """Write a line of text, cut where it would be wider than ``most``."""
        if most is not None:
            text = (self._wrapped(text, most, size) or [""])[0]
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
        """About how wide a line of text is: DejaVu's letters are 0.6 of its size on average."""
        return 0.6 * len(text) * size * self.points * self.style.dpi / 72

    def _wrapped(self, text: str, width: float, size: float) -> list[str]:
        import textwrap

        characters = max(8, int(width / self._width_of("x", size)))
        return textwrap.wrap(text, characters, max_lines=3, placeholder=" …")


def _cell(room: float, count: int) -> float:
    """How large a cell is: whole pixels, unless too much of the room were left empty."""
    size = room / count
    whole = int(size)
    return float(whole) if whole * count >= _SHARE_OF_WHOLE_PIXELS * room else size
