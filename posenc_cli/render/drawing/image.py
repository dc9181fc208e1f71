"""Figures as files: PNG, SVG and PDF by matplotlib.

matplotlib lays out the page, and the drawing depends on the room it leaves. So a figure is first
laid out with its labels. Then the values that fit are computed, and the page is laid out again. The
same figure gives the same bytes, whatever the machine's matplotlib settings.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from functools import partial
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import printable_text
from posenc_cli.records import replace
from posenc_cli.render.colors import color_map, default_map, load_matplotlib
from posenc_cli.render.drawing.curve_axes import (
    draw_curves,
    draw_lines,
    missing_height,
    name_curves,
    name_values,
)
from posenc_cli.render.drawing.map_axes import (
    SHARE_OF_ROOM,
    cells_that_fit,
    draw_map,
    fitted_size,
    missing_room,
    name_above,
    name_axes,
    name_places,
    name_scale,
    scale_beside,
    words_side,
)
from posenc_cli.render.figure import (
    TOO_FAST,
    Curves,
    Figure,
    Heatmap,
    Panels,
    Picture,
    Scale,
    Shown,
    figure_sentences,
    grid_of,
    heatmaps_of,
    one_quantity,
    scale_of,
    scales_of,
    warnings_of,
)
from posenc_cli.render.style import HEAD_SIZE, NOTE_SIZE, TITLE_SIZE, Style
from posenc_cli.render.ticks import minus, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure as Page
    from matplotlib.gridspec import GridSpec

    from posenc_cli.render.colors import Srgb


Size = tuple[float, float]
AnyFigure = TypeVar("AnyFigure", bound="Heatmap | Curves")
ImageFormat = Literal["png", "svg", "pdf"]
_METADATA: dict[ImageFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_NO_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that an SVG text must not contain."""
_MARGINS = 9.0, 6.5
"""Approximate margins around all panels, across and down, in lines of text, to see how many fit."""
_LEAST_MAP, _LEAST_PANEL = 4.0, 14.0
"""Sides of the smallest of many maps, and of a panel with its own axes, in lines of text."""
_LEAST_CIRCLE, _MOST_LARGE = 7.5, 12
"""Side of the smallest of many circles, and the most circles that get labels and ticks."""
_HEAD, _GAP = 1.8, 0.8
"""Space above each of many maps, and between two, in lines of text."""
_PAD = 0.3
"""Padding around axes, legends and notes, in lines of text."""
_MOST_GROWTH = 2
"""How much longer than usual a side may get, so that no rows or columns are left out."""
_MOST_ROUNDS = 4
_NAMES, _MOST_NAMES, _LEAST_NAMES = 0.3, 0.45, 11
"""Share of a panel's width for curve names: the usual one, the largest one, and least lines."""
_KEPT = 0.96
"""Share of a panel's sides that remains after labels of scales and notes."""
_SHARE_OF_PANEL = 2 / 3
"""Share of a panel that cells of whole pixels must fill; otherwise fewer cells are drawn."""


def image_bytes(figure: Figure, form: ImageFormat, style: Style) -> Picture[bytes]:
    """A figure as the bytes of a file.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    content = io.BytesIO()
    with _settings(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawing = Drawing(style)
        drawing.add(figure)
        drawing.page.savefig(
            content,
            format=form,
            dpi=style.dpi,
            metadata=_METADATA[form],
        )
    wrong = warnings_of(drawing.shown)
    boxes = _missing_glyphs([str(warning.message) for warning in caught])
    drawn = content.getvalue()
    if form == "svg":
        drawn = _described(drawn, figure, drawing.shown)
    return Picture(drawn, (*wrong, *boxes), tuple(drawing.shown))


def _described(svg: bytes, figure: Figure, shown: Sequence[Shown]) -> bytes:
    """An SVG with a title and a description in words, for readers who cannot see it."""
    told = [printable_text(line) for line in figure_sentences(figure, shown)]
    title, text = (
        escape(line, quote=False) for line in (printable_text(figure.title), "\n".join(told))
    )
    head, start, rest = svg.partition(b"<svg ")
    tag, end, content = rest.partition(b">")
    names = b' role="img" aria-labelledby="title desc"'
    words = f'\n <title id="title">{title}</title>\n <desc id="desc">{text}</desc>'.encode()
    return b"".join([head, start, tag, names, end, words, _NO_XML.sub(b"", content)])


def drawn_page(figure: Figure, style: Style) -> Page:
    """A figure as a matplotlib figure, to show or change; a notebook shows it as it is.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    with _settings(style):
        drawing = Drawing(style)
        drawing.add(figure)
        drawing.page._repr_png_ = partial(png_of, drawing.page)  # type: ignore[attr-defined]
        return drawing.page


def png_of(page: Page) -> bytes:
    """A matplotlib figure as PNG, in its present state."""
    content = io.BytesIO()
    page.savefig(content, format="png")
    return content.getvalue()


@contextlib.contextmanager
def _settings(style: Style) -> Iterator[None]:
    """Use only the style's matplotlib settings within the block."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style.settings)
        yield


def _missing_glyphs(messages: Sequence[str]) -> tuple[str, ...]:
    """A warning about characters drawn as boxes, from matplotlib's messages."""
    matches = (re.match(r"Glyph ([0-9]+) ", message) for message in messages)
    missing = "".join(dict.fromkeys(chr(int(match[1])) for match in matches if match))
    return (f"the font has no glyph for {missing!r}, drawn as a box",) if missing else ()


class _Sheet(NamedTuple):
    """A grid of equal panels in one axes: rows, columns, and the space between panels.

    Units: pixels.
    """

    nrows: int
    ncols: int
    head: float  # above each panel
    gap: int  # beside each panel but the last of a row

    def room(self, axes: Axes) -> tuple[float, float]:
        """The size of a panel within axes."""
        width, height = axes.bbox.size
        return (width + self.gap) / self.ncols - self.gap, height / self.nrows - self.head

    def size(self, cell: tuple[float, float]) -> tuple[float, float]:
        """The width and height of all panels, if each panel has the size ``cell``."""
        width, height = cell
        return self.ncols * (width + self.gap) - self.gap, self.nrows * (height + self.head)

    def place(self, index: int, cell: tuple[float, float]) -> tuple[float, float]:
        """The position of a panel, right and down."""
        row, column = divmod(index, self.ncols)
        return column * (cell[0] + self.gap), row * (cell[1] + self.head) + self.head


class Drawing:
    """A matplotlib page with a figure, and the parts of its heatmaps that are shown."""

    def __init__(self, style: Style) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Page
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        self.style = style
        self.width, self.height = style.width, style.height
        pad = _PAD * style.line / style.dpi  # inches
        self._engine = ConstrainedLayoutEngine(h_pad=pad, w_pad=pad)
        size = style.width / style.dpi, style.height / style.dpi
        self.page = Page(figsize=size, dpi=style.dpi, layout=self._engine)
        FigureCanvasAgg(self.page)
        self.shown: list[Shown] = []

    def add(self, figure: Figure) -> None:
        """Draw a figure on the whole page, with its title above and its notes below."""
        style, left = self.style, 0.5 * self.style.line / self.width
        self._whole_title = figure.title
        title = style.wrapped_text(figure.title, self.width - style.line, most=3, size=TITLE_SIZE)
        self._title = self.page.suptitle(title, x=left, ha="left")
        # The notes are known late; until then two lines reserve their space.
        self._notes = self.page.supxlabel("\n", x=left, ha="left", color=style.palette.faint)
        if isinstance(figure, Heatmap):
            self._maps([figure])
        elif isinstance(figure, Curves):
            self._separate_panels([figure])
        elif figure.shared and all(isinstance(panel, Heatmap) for panel in figure.panels):
            self._maps(heatmaps_of(figure), figure)
        elif len(figure.panels) > _MOST_LARGE and all(
            isinstance(panel, Curves) and panel.square for panel in figure.panels
        ):
            self._circles(figure)
        else:
            self._separate_panels(figure.panels, figure)

    def _maps(self, heatmaps: Sequence[Heatmap], panels: Panels | None = None) -> None:
        """Draw heatmaps with one color scale and cells of whole pixels; each of many has a title.

        All are drawn in one axes whose units are pixels: laying out hundreds of axes takes a
        minute.
        """
        style, line = self.style, self.style.line
        widest = max(style.text_width(heatmap.title, HEAD_SIZE) for heatmap in heatmaps)
        least = max(_LEAST_MAP * line, min(widest, 3 * _LEAST_MAP * line))
        size = (least + _GAP * line, (_LEAST_MAP + _HEAD) * line)
        if panels:  # large enough for all words
            words, across = words_side(heatmaps[0], style), panels.across
            cell = max(size[0], words + 2 * _GAP * line), words + (_HEAD + 2 * _GAP) * line
            self._enlarge(across * cell[0], -(-len(heatmaps) // across) * cell[1])
        chosen, grid = self._grid(heatmaps, size, panels.across if panels else 1)
        head = line * (bool(panels) + bool(chosen[0].columns.bands))
        sheet = _Sheet(*grid, head + _GAP * line * bool(panels), round(_GAP * line))
        axes = self.page.add_subplot()
        name_axes(axes, chosen[0])
        bar = scale_beside([axes])
        self._lay_out()
        self._grow(lambda: [(sheet.room(axes), heatmap) for heatmap in chosen], sheet)
        room = sheet.room(axes)
        self.shown = [heatmap.sample(*cells_that_fit(heatmap, room, style)) for heatmap in chosen]
        scale = scale_of(self.shown)
        colors = self._colors(scale)
        name_scale(bar, chosen[0].value_label, scale, colors, style)
        self._note(panels, len(chosen))
        self._lay_out()
        room = sheet.room(axes)
        sizes = [fitted_size(shown, room, style) for shown in self.shown]
        wide, high = (max(side) for side in zip(*sizes, strict=True))
        cell = max(wide, min(widest, room[0]) if panels else 0.0), high
        titles = _titles(self.shown, cell[0], style)
        whole = sheet.size(cell)
        self._arrange((1, 1), [axes], {axes: whole}, bar.ax)
        self._resize(axes, whole)
        columns, rows = [], []
        for index, (shown, size) in enumerate(zip(self.shown, sizes, strict=True)):
            left, top = sheet.place(index, cell)
            below, beside = draw_map(axes, shown, scale, colors, size, style=style, at=(left, top))
            columns += below * (index // sheet.ncols == sheet.nrows - 1)
            rows += beside * (not left)
            if panels:
                name_above(axes, titles[index], (left, top - head + line), style)
        name_places(axes, columns, rows)

    def _enlarge(self, *needed: float) -> None:
        """Lengthen sides that may grow to fit panels of the given total width and height."""
        sides = [
            max(side, min(_MOST_GROWTH * side, math.ceil(around * self.style.line + of_panels)))
            if grows
            else side
            for side, around, of_panels, grows in zip(
                (self.width, self.height), _MARGINS, needed, self.style.growing, strict=True
            )
        ]
        self._set_size(*sides)

    def _circles(self, panels: Panels) -> None:
        """Draw many circles, to be read like clock faces, in one axes without labels."""
        from matplotlib.transforms import Affine2D

        style, line = self.style, self.style.line
        circles = [panel for panel in panels.panels if isinstance(panel, Curves)]
        chosen, grid = self._grid(circles, (_LEAST_CIRCLE * line, _LEAST_CIRCLE * line))
        sheet = _Sheet(*grid, (1 + _GAP) * line, round(_GAP * line))
        axes = self.page.add_subplot()
        axes.axis("off")
        self._note(panels, len(chosen))
        self._lay_out()
        side = min(sheet.room(axes))
        whole = sheet.size((side, side))
        self._arrange((1, 1), [axes], {axes: whole})
        self._resize(axes, whole)
        radius = max(abs(x) for figure in chosen for curve in figure.curves for x in curve.x)
        longest = max(style.text_width(figure.title) for figure in chosen)
        for index, figure in enumerate(chosen):
            left, top = sheet.place(index, (side, side))
            place = Affine2D().scale(side / 2 / radius, -side / 2 / radius)
            place.translate(left + side / 2, top + side / 2)
            draw_lines(axes, figure, style, transform=place + axes.transData)
            name_above(axes, figure.title, (left, top), style, min(HEAD_SIZE, side / longest))

    def _separate_panels(
        self, figures: Sequence[Heatmap | Curves], panels: Panels | None = None
    ) -> None:
        """Draw figures of any kind, each in its own axes; each of many has a title.

        Maps of one quantity share a color scale; others have their own.
        """
        style, line = self.style, self.style.line
        least = _LEAST_PANEL * line
        chosen, grid = self._grid([*map(_named_once, figures)], (least, least))
        spec = self.page.add_gridspec(*grid)
        cells = [(row, slice(column, end + 1)) for row, column, end in _cells(chosen, grid)]
        all_axes = [self.page.add_subplot(spec[cell]) for cell in cells]
        maps, curves, shared = [], [], one_quantity(chosen)
        boxed = any(isinstance(figure, Heatmap) and figure.square for figure in chosen)
        for axes, figure in zip(all_axes, chosen, strict=True):
            if isinstance(figure, Curves):
                draw_curves(axes, figure, style)
                curves.append((axes, figure))
                continue
            name_axes(axes, figure)
            axes.set_anchor("NW")
            axes.set_box_aspect(1 if boxed else None)
            maps.append((axes, figure, None if shared else scale_beside([axes], own=True)))
        if shared:
            maps[-1] = (*maps[-1][:2], scale_beside(all_axes))
        self._lay_out()
        lefts = [axes.bbox.x0 for axes in all_axes[: spec.ncols]]
        pitch = min(right - left for left, right in pairwise([*lefts, self.width]))
        named = any(
            of.levels or any(curve.name or curve.envelope for curve in of.curves)
            for _, of in curves
        )
        names = max(_NAMES * pitch, min(_MOST_NAMES * pitch, _LEAST_NAMES * line))
        for axes, figure in zip(all_axes, chosen, strict=True):
            room = pitch - line - names * named * isinstance(figure, Curves)
            title = style.wrapped_text(figure.title, room, most=3)
            title = title if panels else ""
            above = figure.columns.bands if isinstance(figure, Heatmap) else figure.spans
            axes.set_title(f"{title}\n " if title and above else title or " " * bool(above))
        self._name_curves(curves, names, spec.nrows)
        self._lay_out()
        if maps:
            rooms = lambda: [(_room(axes), heatmap) for axes, heatmap, _ in maps]  # noqa: E731
            self._grow(rooms, spec, _SHARE_OF_PANEL, boxed=boxed)
        for axes, figure in curves:
            name_values(axes, figure, style)
        drawn = self._sampled(maps)
        self._note(panels, len(chosen), [note for _, figure in curves for note in figure.notes])
        self._lay_out()
        sizes = {axes: fitted_size(part, axes.bbox.size, style) for axes, part, _, _ in drawn}
        bar_axes = maps[-1][2].ax if shared and maps[-1][2] else None
        self._arrange(grid, all_axes, sizes, bar_axes, _cells(chosen, grid))
        for axes, shown, scale, colors in drawn:
            size = fitted_size(shown, axes.bbox.size, style)
            self._resize(axes, size)
            name_places(axes, *draw_map(axes, shown, scale, colors, size, style=style))

    def _sampled(
        self, maps: Sequence[tuple[Axes, Heatmap, Colorbar | None]]
    ) -> list[tuple[Axes, Shown, Scale, Srgb]]:
        """The parts of maps that fit, with their color scales, which get their labels."""
        self.shown = [
            heatmap.sample(*cells_that_fit(heatmap, _room(axes), self.style, _SHARE_OF_PANEL))
            for axes, heatmap, _ in maps
        ]
        drawn = []
        for (axes, heatmap, bar), shown, scale in zip(
            maps, self.shown, scales_of(self.shown), strict=True
        ):
            colors = self._colors(scale)
            if bar is not None:
                name_scale(bar, heatmap.value_label, scale, colors, self.style)
            drawn.append((axes, shown, scale, colors))
        return drawn

    def _name_curves(self, curves: Sequence[tuple[Axes, Curves]], room: float, rows: int) -> None:
        """Write the names of curves in panels, in ``room`` pixels of width; a free height grows."""
        missing = [missing_height(axes, self.style, room) for axes, _ in curves]
        if any(missing) and self.style.growing[1]:
            self._set_size(self.width, self.height + rows * math.ceil(max(missing)))
            self._lay_out()
        for axes, figure in curves:
            name_curves(axes, figure, self.style, room)

    def _grow(
        self,
        rooms: Callable[[], Sequence[tuple[Sequence[float], Heatmap]]],
        spec: GridSpec | _Sheet,
        share: float = SHARE_OF_ROOM,
        *,
        boxed: bool = False,
    ) -> None:
        """Lengthen sides that are not fixed, if all cells of all maps then fit."""
        usual = self.width, self.height
        # The surroundings of the cells grow too, but little, and less each time.
        for _ in range(_MOST_ROUNDS):
            missing = np.max([missing_room(*of, self.style, share) for of in rooms()], axis=0)
            if boxed:  # all are as high as wide
                missing = np.repeat(missing.max(), 2)
            longer = [
                side + count * math.ceil(more)
                for side, count, more in zip(
                    (self.width, self.height), (spec.ncols, spec.nrows), missing, strict=True
                )
            ]
            fits = [
                growing and side <= _MOST_GROWTH * most
                for growing, side, most in zip(self.style.growing, longer, usual, strict=True)
            ]
            width, height = (
                side if fit else now
                for side, fit, now in zip(longer, fits, (self.width, self.height), strict=True)
            )
            if (width, height) == (self.width, self.height):
                break
            self._set_size(width, height)
            self._lay_out()

    def _grid(
        self, figures: Sequence[AnyFigure], least: tuple[float, float], multiple: int = 1
    ) -> tuple[list[AnyFigure], tuple[int, int]]:
        """The figures that fit, none smaller than ``least``, and the grid's rows and columns.

        A height that is not fixed grows if all figures then fit.
        """
        line = self.style.line
        around = _MARGINS[0] * line, _MARGINS[1] * line
        room = self.width - around[0], self.height - around[1]
        rows, columns = grid_of(len(figures), room, least, aspect=1, multiple=multiple)
        needed = -(-len(figures) // columns)
        higher = math.ceil(around[1] + needed * least[1])
        if needed > rows and self.style.growing[1] and higher <= _MOST_GROWTH * self.height:
            rows = needed
            self._set_size(self.width, higher)
        chosen = [figures[i] for i in spread(len(figures), rows * columns)]
        return chosen, (rows, columns)

    def _arrange(
        self,
        grid: tuple[int, int],
        all_axes: Sequence[Axes],
        needed: Mapping[Axes, Size],
        bar: Axes | None = None,
        cells: Sequence[tuple[int, int, int]] = ((0, 0, 0),),
    ) -> None:
        """Place axes in the ``cells`` of a grid: maps get the size they need, curves the rest.

        Nothing is laid out afterwards. A ``bar`` for all maps stands to their right. Unused length
        of a side that is not fixed is cut.
        """
        self.page.set_layout_engine(None)  # also prevents another layout when saving
        pad, line = _PAD * self.style.line, self.style.line
        shape = grid[::-1]
        margins = [np.zeros((count, 2)) for count in shape]  # before and after each line
        wanted = [np.zeros(count) for count in shape]
        for axes, (row, column, end) in zip(all_axes, cells, strict=True):
            ends = (column, end), (row, row)
            for axis, (places, beside) in enumerate(zip(ends, _surroundings(axes), strict=True)):
                at = places, (0, 1)
                margins[axis][at] = np.maximum(margins[axis][at], beside)
                if axes in needed:
                    wanted[axis][places[0]] = max(wanted[axis][places[0]], needed[axes][axis] + 1)
        right = 0.0 if bar is None else 2 * line + _surroundings(bar)[0][1]
        edges = [(pad, pad + right)]
        for axis in (0, 1):
            if axis:  # the height of titles is known only when the page has its final width
                top = self._title.get_window_extent().height + 2 * pad
                below = self._notes.get_window_extent().height + pad if self._noted else 0.0
                edges.append((top, pad + below))
            side = (self.width, self.height)[axis]
            around = sum(edges[axis]) + margins[axis].sum() + 2 * pad * (shape[axis] - 1)
            free, flexible = side - around - wanted[axis].sum(), wanted[axis] == 0
            if flexible.any():
                wanted[axis][flexible] = max(line, free / flexible.sum())
            elif self.style.fixed[axis]:
                wanted[axis] *= min(1.0, (side - around) / wanted[axis].sum())
            else:
                self._cut(axis, math.ceil(side - free))
        starts = [
            edges[axis][0]
            + np.cumsum(wanted[axis] + margins[axis].sum(axis=1) + 2 * pad)
            - (wanted[axis] + margins[axis][:, 1] + 2 * pad)
            for axis in (0, 1)
        ]
        for axes, (row, column, end) in zip(all_axes, cells, strict=True):
            size = starts[0][end] + wanted[0][end] - starts[0][column], wanted[1][row]
            self._put(axes, (starts[0][column], starts[1][row]), size)
        if bar is not None:
            bar.set_box_aspect(None)
            end, first = starts[0][-1] + wanted[0][-1] + margins[0][-1, 1], starts[1][0]
            high = starts[1][-1] + wanted[1][-1] - first
            self._put(bar, (end + line, first), (line, high))
        self._title.set_y(1 - pad / self.height)
        self._notes.set_y(pad / self.height)

    def _put(self, axes: Axes, at: Size, size: Size) -> None:
        """Place axes right and down from the corner of the page, in pixels."""
        (left, top), (width, height) = at, size
        bottom = 1 - (top + height) / self.height
        axes.set_position((left / self.width, bottom, width / self.width, height / self.height))
        axes.apply_aspect()

    def _set_size(self, width: int, height: int) -> None:
        """Set the size of the page in pixels."""
        self.width, self.height = width, height
        self.page.set_size_inches(width / self.style.dpi, height / self.style.dpi)

    def _lay_out(self) -> None:
        self._engine.execute(self.page)
        for axes in self.page.axes:
            axes.apply_aspect()

    def _cut(self, axis: int, side: int) -> None:
        """Cut the page to the width (``axis`` 0) or height that panels need; rewrap the title."""
        if axis:
            self._set_size(self.width, side)
            return
        texts = [self._title, *[self._notes] * self._noted]
        if not self.style.fixed[1]:
            room = max(side, self.width / 2) - self.style.line
            lines = self.style.wrapped_text(self._whole_title, room, most=3, size=TITLE_SIZE)
            self._title.set_text(lines)
        needed = max(text.get_window_extent().x1 for text in texts) + self.style.line / 2
        self._set_size(max(side, math.ceil(needed)), self.height)
        for text in texts:
            text.set_x(0.5 * self.style.line / self.width)

    def _resize(self, axes: Axes, size: tuple[float, float]) -> None:
        """Set the size of axes in pixels, which become their units, aligned to the pixel grid."""
        left, top = round(axes.bbox.x0), round(self.height - axes.bbox.y1)
        width, height = size[0] / self.width, size[1] / self.height
        axes.set_position((left / self.width, 1 - top / self.height - height, width, height))
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0))

    def _colors(self, scale: Scale) -> Srgb:
        """The colors of a scale: those requested, or the default ones."""
        dark = self.style.theme == "dark"
        return color_map(self.style.cmap or default_map(scale.kind, dark=dark))

    def _note(self, panels: Panels | None, count: int, more: Sequence[str] = ()) -> None:
        """Write the notes below the figure, for a reader who sees ``count`` panels."""
        notes = dict.fromkeys((*panels.missing_notes(count), *panels.notes) if panels else ())
        notes |= dict.fromkeys([*more, *(note for shown in self.shown for note in shown.notes)])
        if any(shown.undersampled for shown in self.shown):
            notes["underlined: aliased, wavelength under two samples"] = None
        if any(shown.faded for shown in self.shown):
            notes[f"hatched: {TOO_FAST}"] = None
        if any(shown.gaps for shown in self.shown):
            notes["grey: not finite"] = None
        room, self._noted = self.width - self.style.line, bool(notes)
        self._notes.set_text(
            self.style.wrapped_text("; ".join(notes), room, most=2, size=NOTE_SIZE)
        )
        self._notes.set_in_layout(self._noted)


def _cells(
    figures: Sequence[Heatmap | Curves], grid: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """The row, first column and last column of each panel; last curves fill their row.

    >>> [cell for cell in _cells([Curves((), "", "", "")] * 3, (2, 2))]
    [(0, 0, 0), (0, 1, 1), (1, 0, 1)]
    """
    cells = [(i // grid[1], i % grid[1], i % grid[1]) for i in range(len(figures))]
    if isinstance(figures[-1], Curves) and not figures[-1].square:
        cells[-1] = (*cells[-1][:2], grid[1] - 1)
    return cells


def _surroundings(axes: Axes) -> tuple[Size, Size]:
    """How far labels and scales extend beyond axes: left and right, above and below."""
    box, tight = axes.bbox, axes.get_tightbbox()
    assert tight is not None
    return (box.x0 - tight.x0, tight.x1 - box.x1), (tight.y1 - box.y1, box.y0 - tight.y0)


def _room(axes: Axes) -> tuple[float, float]:
    """The room that one of several panels keeps after all labels are drawn."""
    width, height = axes.bbox.size
    return _KEPT * width, _KEPT * height


def _named_once(figure: Heatmap | Curves) -> Heatmap | Curves:
    """The figure; a single curve loses its name if the title already has it."""
    if not isinstance(figure, Curves) or len(figure.curves) != 1 or figure.levels:
        return figure
    (curve,) = figure.curves
    named = curve.envelope is None and figure.title.endswith(f": {curve.name}")
    return replace(figure, curves=(replace(curve, name=""),)) if named else figure


def _titles(maps: Sequence[Shown], width: float, style: Style) -> list[str]:
    """The titles of maps with one scale, with the ranges of their values if these fit.

    Without the ranges, the values of some look alike.
    """
    titles = [shown.heatmap.title for shown in maps]
    ends = [
        {minus(number(float(end(values)), 3)): None for end in (np.min, np.max) if values.size}
        for values in (shown.values[np.isfinite(shown.values)] for shown in maps)
    ]
    longer = [
        f"{title}: {' to '.join(of)}" if of else title
        for title, of in zip(titles, ends, strict=True)
    ]
    if max(style.text_width(title, HEAD_SIZE) for title in longer) <= width:
        return longer
    return [style.wrapped_text(title, width, most=1, size=HEAD_SIZE) for title in titles]
