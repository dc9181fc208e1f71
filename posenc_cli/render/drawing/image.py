"""Draw figures as PNG, SVG and PDF files with matplotlib.

matplotlib lays out the page, and the drawing depends on the room it leaves. So a figure is first
laid out with its labels. Then the values that fit are computed and drawn. The same figure gives the
same bytes, whatever the machine's matplotlib settings.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
import zlib
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import printable_text
from posenc_cli.records import replace
from posenc_cli.render.drawing.axes import (
    LABEL_GAP_ACROSS,
    add_scale,
    draw_curves,
    draw_lines,
    draw_map,
    label_axes,
    label_cells,
    label_scale,
    label_values,
    write_above,
    write_legend,
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
from posenc_cli.render.style import (
    HEAD_SIZE,
    NOTE_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    Style,
    color_map,
    default_map,
    load_matplotlib,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure as Page
    from matplotlib.gridspec import SubplotSpec
    from matplotlib.text import Text
    from matplotlib.transforms import BboxBase

    from posenc_cli.render.style import Srgb


Size = tuple[float, float]
AnyFigure = TypeVar("AnyFigure", bound="Heatmap | Curves")
ImageFormat = Literal["png", "svg", "pdf"]
_METADATA: dict[ImageFormat, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_NO_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that an SVG text must not contain."""
_MARGINS = 9.0, 6.5
"""Approximate margins around all panels, across and down, in lines of text, to see how many fit."""
_LEAST_MAP, _LEAST_PANEL, _OWN_SCALE = 4.0, 10.0, 4.0
"""Sides of the smallest of many maps, and of a panel with separate axes, in lines of text.

``_OWN_SCALE`` is added if a panel has a separate color scale, or curves.
"""
_LEAST_CIRCLE, _MOST_LARGE = 7.5, 12
"""Side of the smallest of many circles, and the most circles that get labels and ticks."""
_COMPRESSION = {"compress_level": 5, "compress_type": zlib.Z_DEFAULT_STRATEGY}
"""The compression of PNG files.

For 37 pictures, files had 0.89 times matplotlib's usual size, at most 1.04 times, and took 0.56
times the time.
"""
_SMALLEST_TEXT = 6.0
"""The smallest text size, in points, that is used so that no panels are left out."""
_HEAD, _GAP = 1.8, 0.8
"""Space above each of many maps, and between two, in lines of text."""
_LEFT_OF_MAPS = 0.75
"""The share of their width that many maps keep at least when titles and notes get more lines."""
_PAD = 0.25
"""Padding around axes, legends and notes, in lines of text."""
_SCALE_PAD = 0.5
"""Padding beside axes with separate color scales, whose labels are next to others' labels."""
_MOST_GROWTH = 2
"""How many times its usual height a page may reach, so that no panels are left out."""
_LINES_OF_TITLE, _LINES_OF_NOTES = 3, 4
"""The most lines of a title, and of notes."""
_LEAST_CURVES = 0.5
"""The least height of curves below or above maps, as a share of the height of the maps."""


def image_bytes(figure: Figure, form: ImageFormat, style: Style) -> Picture[bytes]:
    """Return a figure as the bytes of a file.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    content, style = io.BytesIO(), _style_that_fits(figure, style)
    with _settings(style), warnings.catch_warnings(record=True) as caught:
        _import_without_help()
        warnings.simplefilter("always")
        drawing = Drawing(style)
        drawing.add(figure)
        if form == "png":
            content.write(png_of(drawing.page))
        else:
            drawing.page.savefig(content, format=form, dpi=style.dpi, metadata=_METADATA[form])
    not_finite = warnings_of(drawing.shown)
    missing_glyphs = _missing_glyphs([str(warning.message) for warning in caught])
    drawn = content.getvalue()
    if form == "svg":
        drawn = _with_description(drawn, figure, drawing.shown)
    return Picture(drawn, (*not_finite, *missing_glyphs), tuple(drawing.shown))


def _with_description(svg: bytes, figure: Figure, shown: Sequence[Shown]) -> bytes:
    """Add a title and a description in words to an SVG, for readers who cannot see it."""
    sentences = [printable_text(line) for line in figure_sentences(figure, shown)]
    title, text = (
        escape(line, quote=False) for line in (printable_text(figure.title), "\n".join(sentences))
    )
    head, start, rest = svg.partition(b"<svg ")
    tag, end, content = rest.partition(b">")
    names = b' role="img" aria-labelledby="title desc"'
    description = f'\n <title id="title">{title}</title>\n <desc id="desc">{text}</desc>'.encode()
    return b"".join([head, start, tag, names, end, description, _NO_XML.sub(b"", content)])


def drawn_page(figure: Figure, style: Style) -> Page:
    """Return a figure as a matplotlib figure, to show or change; a notebook displays it directly.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    style = _style_that_fits(figure, style)
    with _settings(style):
        drawing = Drawing(style)
        drawing.add(figure)
        drawing.page._repr_png_ = partial(png_of, drawing.page)  # type: ignore[attr-defined]
        return drawing.page


def png_of(page: Page) -> bytes:
    """Return a matplotlib figure in its present state as PNG, drawn once, without transparency."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas, content = FigureCanvasAgg(page), io.BytesIO()
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])  # type: ignore[no-untyped-call]
    pixels.save(content, "png", dpi=(page.dpi, page.dpi), **_COMPRESSION)
    return content.getvalue()


@contextlib.contextmanager
def _settings(style: Style) -> Iterator[None]:
    """Use only the style's matplotlib settings within the block."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context():
        # rcdefaults would read every style sheet of matplotlib first.
        usual = {name: at for name, at in matplotlib.rcParamsDefault.items() if name != "backend"}
        matplotlib.rcParams.update({**usual, **style.settings})
        yield


def _import_without_help() -> None:
    """Import what draws, without the lists of properties that matplotlib writes into its help.

    They take an eighth of the import. A program that shows figures keeps them: see `drawn_page`.
    """
    from matplotlib import artist

    with contextlib.ExitStack() as stack:
        if hasattr(artist, "kwdoc"):
            stack.callback(setattr, artist, "kwdoc", artist.kwdoc)
            vars(artist)["kwdoc"] = lambda _: ""
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401


def _missing_glyphs(messages: Sequence[str]) -> tuple[str, ...]:
    """Return a warning about characters drawn as boxes, from matplotlib's messages."""
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
    gap: float  # beside each panel but the last of a row

    def room(self, axes: Axes) -> Size:
        """Return the size of a panel within axes."""
        width, height = axes.bbox.size
        return (width + self.gap) / self.ncols - self.gap, height / self.nrows - self.head

    def size(self, cell: Size) -> Size:
        """Return the width and height of all panels, if each panel has the size ``cell``."""
        width, height = cell
        return self.ncols * (width + self.gap) - self.gap, self.nrows * (height + self.head)

    def place(self, index: int, cell: Size) -> Size:
        """Return the top left corner of a panel, right and down."""
        row, column = divmod(index, self.ncols)
        return column * (cell[0] + self.gap), row * (cell[1] + self.head) + self.head


def _is_sheet(figure: Figure) -> bool:
    """Return whether all panels share one axes: maps with one scale, or many circles."""
    if not isinstance(figure, Panels):
        return False
    maps, count = len(heatmaps_of(figure)), len(figure.panels)
    circles = sum(isinstance(panel, Curves) and panel.square for panel in figure.panels)
    return (figure.shared and maps == count) or (count > _MOST_LARGE and circles == count)


def _least_panel(figures: Sequence[Figure]) -> float:
    """Return the smallest side of panels with separate axes, in lines of text."""
    return _LEAST_PANEL + _OWN_SCALE * (not one_quantity(figures))


def _style_that_fits(figure: Figure, style: Style) -> Style:
    """Return the style, with smaller text if all panels in separate axes fit only then."""
    panels = () if _is_sheet(figure) else getattr(figure, "panels", ())
    least, most = _least_panel(panels), 1 if style.fixed[1] else _MOST_GROWTH
    for text in (1.0, 0.9, 0.8, 0.7):
        smaller = replace(style, text=text)
        sides = style.width / smaller.line, most * style.height / smaller.line
        across, down = (
            (side - around) // least for side, around in zip(sides, _MARGINS, strict=True)
        )
        if smaller.points >= _SMALLEST_TEXT and max(1, across) * max(1, down) >= len(panels):
            return smaller
    return style


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
        self._heads: dict[Axes, tuple[str, Heatmap | Curves]] = {}
        self._titles: list[tuple[Text, str]] = []
        self._boxed = set[int]()  # rows of square panels, if there are others

    def add(self, figure: Figure) -> None:
        """Draw a figure on the whole page, with its title above and its notes below."""
        left = 0.5 * self.style.line / self.width
        self._title = self.page.suptitle("", x=left, ha="left")
        self._notes = self.page.supxlabel("", x=left, ha="left", color=self.style.palette.faint)
        self._texts = figure.title, ""
        self._write_title_and_notes()
        self._notes.set_text("\n")  # two lines reserve the space until the notes are known
        if not isinstance(figure, Panels):
            self._draw_separate_panels([figure])
        elif not _is_sheet(figure):
            self._draw_separate_panels(figure.panels, figure)
        elif heatmaps_of(figure):
            self._draw_maps(figure)
            return
        else:
            self._draw_circles(figure)
        self._shrink_to_content()

    def _write_title_and_notes(self) -> None:
        room, (title, notes) = self.width - self.style.line, self._texts
        wrapped = self.style.wrapped_text
        self._title.set_text(wrapped(title, room, most=_LINES_OF_TITLE, size=TITLE_SIZE))
        self._notes.set_text(wrapped(notes, room, most=_LINES_OF_NOTES, size=NOTE_SIZE))

    def _draw_maps(self, panels: Panels) -> None:
        """Draw many heatmaps with one color scale, in one axes, whose units are pixels.

        Laying out hundreds of axes takes a minute.
        """
        style, line = self.style, self.style.line
        heatmaps = heatmaps_of(panels)
        least = self._least_map(heatmaps)
        chosen, grid = self._grid(heatmaps, least, panels.across)
        axes = self.page.add_subplot()
        label_axes(axes, chosen[0])
        bar = add_scale([axes])
        self._lay_out()
        sheet, cell, lines = self._sheet_of(axes, grid, heatmaps)
        self.shown = [heatmap.sample(int(cell[1]), int(cell[0])) for heatmap in chosen]
        scale = scale_of(self.shown)
        colors = self._colors(scale)
        label_scale(bar, chosen[0].value_label, scale, colors, style)
        self._set_notes(panels, len(chosen))
        self._set_units(axes, sheet.size(cell))
        columns, rows = [], []
        for index, shown in enumerate(self.shown):
            left, top = sheet.place(index, cell)
            below, beside = draw_map(axes, shown, scale, colors, cell, style=style, at=(left, top))
            columns += below * (index // sheet.ncols == sheet.nrows - 1)
            rows += beside * (not left)
            title = shown.heatmap.title
            at = left, top - (0.3 + bool(shown.column_bands)) * line
            self._titles.append((write_above(axes, title, at, style), title))
        label_cells(axes, columns, rows)
        self._wrap_titles(cell[0], lines)
        self._shrink_to_content()
        self._wrap_titles(cell[0] * axes.bbox.width / sheet.size(cell)[0], lines)

    def _sheet_of(
        self, axes: Axes, grid: tuple[int, int], maps: Sequence[Heatmap]
    ) -> tuple[_Sheet, Size, int]:
        """Return a sheet of maps, the size of a map, and the most lines of a title above it."""
        line, first = self.style.line, maps[0]
        longest = max(self.style.text_width(each.title, HEAD_SIZE) for each in maps)
        for lines in (1, 2):
            above = (lines - 1) / _LEFT_OF_MAPS + bool(first.columns.bands)
            sheet = _Sheet(*grid, (_HEAD + above) * line, _GAP * line)
            room = sheet.room(axes)
            cell = (min(room),) * 2 if first.square else room
            if longest <= _LEFT_OF_MAPS * cell[0]:
                break
        return sheet, cell, lines

    def _wrap_titles(self, width: float, most: int) -> None:
        """Wrap the titles of many maps to the width of a map, in pixels, between words."""
        for written, title in self._titles:
            words = title.replace("-", "- ").split()  # lines may also end with a hyphen
            least = max((self.style.text_width(word, HEAD_SIZE) for word in words), default=0.0)
            text = self.style.wrapped_text(title, max(width, least), most=most, size=HEAD_SIZE)
            written.set_text(text)

    def _least_map(self, heatmaps: Sequence[Heatmap]) -> Size:
        """Return the least size of many maps, with titles on one line if all maps then fit.

        A map of few words, such as tokens, has room for all of them if all maps then fit on a page
        that may be higher.
        """
        style, line = self.style, self.style.line
        titles, points = [heatmap.title for heatmap in heatmaps], heatmaps[0].columns.points
        longest = max([word for title in titles for word in title.split()], key=len, default="")
        width, height = self._room
        words = [point for point in points if isinstance(point, str)]
        word = max((style.text_width(word, TICK_SIZE) for word in words), default=0.0)
        # A tenth more, because the margins of the page are only an estimate.
        below = 1.1 * len(words) * (word + LABEL_GAP_ACROSS * line)
        choices = [
            (2, [longest], below, height + self._highest - self.height),
            (1, titles, 0.0, height),
            (1 + (longest not in titles), [longest], 0.0, height),
        ]
        for lines, texts, labels, room in choices if words else choices[1:]:
            widest = max(labels, *(style.text_width(name, HEAD_SIZE) for name in texts))
            least = max(_LEAST_MAP * line, min(widest, 3 * _LEAST_MAP * line))
            side = least if heatmaps[0].square else _LEAST_MAP * line
            size = least + _GAP * line, side + (_HEAD + lines - 1) * line
            rows, columns = grid_of(len(titles), (width, room), size, aspect=1)
            if rows * columns >= len(titles):
                break
        return size

    def _draw_circles(self, panels: Panels) -> None:
        """Draw many circles, to be read like clock faces, in one axes without labels."""
        from matplotlib.transforms import Affine2D

        style, line = self.style, self.style.line
        circles = [panel for panel in panels.panels if isinstance(panel, Curves)]
        chosen, grid = self._grid(circles, (_LEAST_CIRCLE * line, _LEAST_CIRCLE * line))
        sheet = _Sheet(*grid, _HEAD * line, _GAP * line)
        axes = self.page.add_subplot()
        axes.axis("off")
        self._set_notes(panels, len(chosen))
        self._lay_out()
        side = min(sheet.room(axes))
        self._set_units(axes, sheet.size((side, side)))
        radius = max(abs(x) for figure in chosen for curve in figure.curves for x in curve.x)
        longest = max(style.text_width(figure.title) for figure in chosen)
        for index, figure in enumerate(chosen):
            left, top = sheet.place(index, (side, side))
            place = Affine2D().scale(side / 2 / radius, -side / 2 / radius)
            place.translate(left + side / 2, top + side / 2)
            draw_lines(axes, figure, style, transform=place + axes.transData, clip_on=False)
            write_above(axes, figure.title, (left, top), style, min(HEAD_SIZE, side / longest))

    def _draw_separate_panels(
        self, figures: Sequence[Heatmap | Curves], panels: Panels | None = None
    ) -> None:
        """Draw figures of any kind, each in separate axes; each of many has a title.

        Maps of one quantity share a color scale. Otherwise each map has a separate one.
        """
        style, line = self.style, self.style.line
        side = _least_panel(figures) * line
        fills = isinstance(figures[-1], Curves) and not figures[-1].square
        chosen, grid = self._grid(figures, (side, side), filled=fills)
        spec = self.page.add_gridspec(*grid)
        cells: list[tuple[int, int | slice]] = [
            divmod(index, grid[1]) for index in range(len(chosen))
        ]
        row, column = divmod(len(chosen) - 1, grid[1])
        if fills and column < grid[1] - 1:  # the last figure fills its row
            cells[-1] = row, slice(column, None)
        square = any(isinstance(figure, Heatmap) and figure.square for figure in chosen)
        boxed = {
            row
            for (row, _), figure in zip(cells, chosen, strict=True)
            if square and isinstance(figure, Heatmap)
        }
        all_axes = [self.page.add_subplot(spec[cell]) for cell in cells]
        maps, curves = [], []
        for axes, figure, cell in zip(all_axes, chosen, cells, strict=True):
            axes.set_anchor("NW")
            self._heads[axes] = figure.title if panels else "", figure
            if cell[0] in boxed and (isinstance(figure, Heatmap) or isinstance(cell[1], int)):
                axes.set_box_aspect(1)
            if isinstance(figure, Curves):
                draw_curves(axes, figure, style)
                curves.append((axes, figure))
            else:
                label_axes(axes, figure)
                maps.append((axes, figure))
        if one_quantity(chosen):
            bars = [add_scale(all_axes)]
        else:
            bars = [add_scale([axes]) for axes, _ in maps]
            if maps and grid[1] > 1:
                self._engine.set(w_pad=_SCALE_PAD * line / style.dpi)
        if panels or curves:  # their names depend on the room
            self._lay_out()
        self._name_panels()
        self._lay_out()
        if curves:
            self._boxed = boxed
            self._share_height()
        for axes, figure in curves:
            label_values(axes, figure, style)
        self._fill_maps(maps, bars)
        self._set_notes(
            panels, len(chosen), [note for _, figure in curves for note in figure.notes]
        )

    def _name_panels(self) -> None:
        """Write the names of curves, and titles as wide as a panel with its scale above them."""
        for axes, (title, figure) in self._heads.items():
            head = write_legend(axes, figure, self.style) if isinstance(figure, Curves) else 0.0
            bands = isinstance(figure, Heatmap) and bool(figure.columns.bands)
            axes.set_title("")
            room = _bounding_box(axes).x1 - axes.get_window_extent().x0
            text = self.style.wrapped_text(title, room, most=3)
            blank = bands or (head and not text)  # a line below or instead of the title
            lines = max(0.0, head - 1) + 0.3 if blank else head + 0.3
            lines += 0.3 * bool(axes.child_axes)  # the scale's upper name is above the axes, too
            text = f"{text}\n ".lstrip("\n") if blank else text
            axes.set_title(text, pad=lines * self.style.line * 72 / self.style.dpi)

    def _share_height(self) -> None:
        """Give rows of square panels the height that fills their cells, and the rest to others.

        A height that is not fixed grows, so that no curves get too low.
        """
        if not self._boxed:
            return
        height, sides = dict[int, float](), []
        panels = self._panels
        for axes, spec in panels.items():
            slot, drawn, named = (
                axes.get_position(original=True).transformed(self.page.transFigure),
                axes.get_window_extent(),
                _bounding_box(axes),
            )
            row = spec.rowspan.start
            height[row] = slot.height
            if row in self._boxed:  # a scale beside a lower panel is within its cell
                sides.append(max(slot.x1, named.x1) - slot.x0 - (named.x1 - drawn.x1))
        side, all_rows = min(sides), sum(height.values())
        rest = (all_rows - len(self._boxed) * side) / max(1, len(height) - len(self._boxed))
        rest = max(_LEAST_CURVES * side, rest)
        grid = next(iter(panels.values())).get_gridspec()
        heights = [side if row in self._boxed else rest for row in range(grid.nrows)]
        grid.set_height_ratios(heights)
        if not self.style.fixed[1]:
            wanted = self.height + sum(heights) - all_rows
            if len(self._boxed) == grid.nrows:  # equal rows never get lower
                wanted = max(wanted, self.height)
            high = min(wanted, _MOST_GROWTH * self.style.height)
            # Lower maps leave this width free.
            free = grid.ncols * side * (wanted - high) / sum(heights)
            self._set_size(int(self.width - free * (not self.style.fixed[0])), int(high))
        self._lay_out()

    def _fill_maps(self, maps: Sequence[tuple[Axes, Heatmap]], bars: Sequence[Colorbar]) -> None:
        """Draw as much of each map as its axes have pixels for, and label the color scales."""
        sizes = [axes.bbox.size for axes, _ in maps]
        self.shown = [
            heatmap.sample(*(max(1, int(side)) for side in size[::-1]))
            for (_, heatmap), size in zip(maps, sizes, strict=True)
        ]
        scales = scales_of(self.shown)
        for bar, scale, shown in zip(bars, scales, self.shown, strict=False):
            label_scale(bar, shown.heatmap.value_label, scale, self._colors(scale), self.style)
        for (axes, _), shown, scale, size in zip(maps, self.shown, scales, sizes, strict=True):
            self._set_units(axes, size, aspect="auto")
            places = draw_map(axes, shown, scale, self._colors(scale), size, style=self.style)
            label_cells(axes, *places)

    def _grid(
        self, figures: Sequence[AnyFigure], least: Size, multiple: int = 1, *, filled: bool = False
    ) -> tuple[list[AnyFigure], tuple[int, int]]:
        """Return the figures that fit, at least ``least`` in size, and the grid's rows and columns.

        A height that is not fixed grows if all figures then fit.
        """
        room, most = self._room, self._highest
        grid = partial(grid_of, len(figures), least=least, aspect=1, multiple=multiple)
        rows, columns = grid(room, filled=filled)
        if columns % multiple:  # keep a group in one row of a higher page
            columns = grid((room[0], room[1] + most - self.height))[1]
        needed = -(-len(figures) // columns)
        higher = math.ceil(self.height - room[1] + needed * least[1])
        if needed > rows and higher <= most:
            rows = needed
            self._set_size(self.width, max(higher, self.height))
        return [figures[i] for i in spread(len(figures), rows * columns)], (rows, columns)

    @property
    def _highest(self) -> float:
        """The height that the page may reach."""
        return self.height if self.style.fixed[1] else _MOST_GROWTH * self.height

    @property
    def _room(self) -> Size:
        """The width and height that are left for all panels."""
        around = _MARGINS[0] * self.style.line, _MARGINS[1] * self.style.line
        return self.width - around[0], self.height - around[1]

    def _set_units(
        self, axes: Axes, size: Size, aspect: Literal["auto", "equal"] = "equal"
    ) -> None:
        """Set the units of axes to pixels, right and down."""
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_aspect(aspect, anchor="NW")

    def _shrink_to_content(self) -> None:
        """Shrink sides that are not fixed by the space that panels of a fixed shape leave free."""
        panels = self._panels
        grid = next(iter(panels.values())).get_gridspec()
        for _ in range(2):  # color scales may use what the panels leave free at first
            self._lay_out()
            self._share_height()
            slots, used = (
                np.array([axes.get_position(whole).size for axes in panels])
                for whole in (True, False)
            )
            free = (slots - used).min(axis=0) * (self.width * grid.ncols, self.height * grid.nrows)
            free[[*self.style.fixed]] = 0
            width = max(self.width - free[0], min(self.width, self._width_for_texts()))
            size = int(width), int(self.height - free[1])
            if size == (self.width, self.height):
                break
            self._set_size(*size)
            self._write_title_and_notes()
            self._name_panels()
        else:
            self._lay_out()
        self._trim_margins()

    def _trim_margins(self) -> None:
        """Remove unused margins, or add missing ones, and keep the layout."""
        pad = _PAD * self.style.line
        self.page.set_layout_engine(None)
        places = [axes.get_position() for axes in self._panels]
        low, high = min(place.y0 for place in places), max(place.y1 for place in places)
        for bar in {*self.page.axes}.difference(self._panels):  # as high as the panels
            place = bar.get_position()
            bar.set_box_aspect(None)
            bar.set_position((place.x0, low, place.width, high - low))
        texts = [text for text in (self._title, self._notes) if text.get_text()]
        boxes = [_bounding_box(part) for part in (*self.page.axes, *texts)]
        right, bottom = max(box.x1 for box in boxes), min(box.y0 for box in boxes)
        free = np.array([self.width - right - pad, bottom - pad])
        free = np.where(free < -pad, free, np.maximum(free, 0))
        free = np.where(self.style.fixed, 0, np.floor(free))
        old, up = np.array([self.width, self.height]), np.array([0, free[1]])
        self._set_size(*(old - free).astype(int).tolist())
        for axes in self.page.axes:
            place = axes.get_position()
            corner = (place.min * old - up) / (old - free)
            axes.set_position((*corner, *(place.size * old / (old - free))))
        for text in (self._title, self._notes):
            text.set_position((np.array(text.get_position()) * old - up) / (old - free))

    def _width_for_texts(self) -> float:
        """Return the least width in which the title and the notes keep their limits of lines."""
        texts = (
            (self._texts[0], TITLE_SIZE, _LINES_OF_TITLE),
            (self._texts[1], NOTE_SIZE, _LINES_OF_NOTES),
        )
        widths = (self.style.text_width(text, size) / most for text, size, most in texts)
        return 1.2 * max(widths) + self.style.line

    @property
    def _panels(self) -> dict[Axes, SubplotSpec]:
        """The axes in the grid of the page, without color scales, and their places there."""
        specs = ((axes, axes.get_subplotspec()) for axes in self.page.axes)
        return {axes: spec for axes, spec in specs if spec}

    def _set_size(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.page.set_size_inches(width / self.style.dpi, height / self.style.dpi)

    def _lay_out(self) -> None:
        self._engine.execute(self.page)
        for axes in self.page.axes:
            axes.apply_aspect()

    def _colors(self, scale: Scale) -> Srgb:
        dark = self.style.theme == "dark"
        return color_map(self.style.cmap or default_map(scale.kind, dark=dark))

    def _set_notes(self, panels: Panels | None, count: int, more: Sequence[str] = ()) -> None:
        """Set the notes below the figure, for a reader who sees ``count`` panels."""
        notes = dict.fromkeys((*panels.missing_notes(count), *panels.notes) if panels else ())
        notes |= dict.fromkeys([*more, *(note for shown in self.shown for note in shown.notes)])
        if any(shown.undersampled for shown in self.shown):
            notes["underlined: aliased, wavelength under two samples"] = None
        if any(shown.faded for shown in self.shown):
            notes[f"hatched: {TOO_FAST}"] = None
        if any(shown.gaps for shown in self.shown):
            notes["gray: not finite"] = None
        self._texts = self._texts[0], "; ".join(notes)
        self._notes.set_in_layout(bool(notes))
        self._write_title_and_notes()


def _bounding_box(part: Artist) -> BboxBase:
    """Return the bounding box of axes or a text as drawn, in pixels."""
    box = part.get_tightbbox()
    assert box is not None  # only invisible artists have none
    return box
