"""Figures as files: PNG, SVG and PDF by matplotlib.

matplotlib lays out a page; what is drawn follows from the room that it finds. So a figure is laid
out with the names around its axes first, then the values that have room are computed, and the page
is laid out again around them. The same figure gives the same bytes, whatever the machine's settings
of matplotlib.

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
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import printable_text
from posenc_cli.render.colors import color_map, default_map
from posenc_cli.render.curve_axes import draw_curves, name_values
from posenc_cli.render.descriptions import figure_sentences
from posenc_cli.render.figure import (
    TOO_FAST,
    Curves,
    Heatmap,
    Panels,
    Picture,
    grid_of,
    heatmaps_of,
    one_quantity,
    scale_of,
    scales_of,
    warnings_of,
)
from posenc_cli.render.map_axes import (
    SHARE_OF_ROOM,
    cells_that_fit,
    draw_map,
    fitted_size,
    missing_room,
    name_axes,
    name_scale,
    scale_beside,
)
from posenc_cli.render.plotting import load_matplotlib
from posenc_cli.render.style import HEAD_SIZE, NOTE_SIZE, TITLE_SIZE
from posenc_cli.render.ticks import minus, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Page
    from matplotlib.gridspec import GridSpec
    from matplotlib.transforms import Bbox

    from posenc_cli.render.colors import Srgb
    from posenc_cli.render.figure import Figure, Scale, Shown
    from posenc_cli.render.style import Style

AnyFigure = TypeVar("AnyFigure", bound="Heatmap | Curves")
ImageFormat = Literal["png", "svg", "pdf"]
_METADATA: dict[ImageFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_NO_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What no text of an SVG may hold."""
_MARGINS = 9.0, 6.5
"""What surrounds all panels across and down, in lines of text: about, to see how many fit."""
_LEAST_MAP, _LEAST_PANEL = 4.0, 14.0
"""Sides of the smallest of many maps, and of a panel with axes of its own, in lines of text."""
_LEAST_CIRCLE, _MOST_LARGE = 7.5, 12
"""The side of the smallest of many circles, and how many have names and ticks around them."""
_HEAD, _GAP = 1.8, 0.8
"""What stands above each of many maps, and between two, in lines of text."""
_PAD = 0.4
"""What is left around axes, legends and notes, in lines of text."""
_MOST_GROWTH = 2
"""How many times as long as usual a side gets, so that no rows or columns are left out."""
_MOST_ROUNDS = 4
_SHARE_OF_PANEL = 2 / 3
"""What part of a panel cells of whole pixels must fill: else fewer are drawn."""


def image_bytes(figure: Figure, form: ImageFormat, style: Style) -> Picture[bytes]:
    """A figure as the bytes of a file.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
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
            bbox_inches=drawing.kept_part(),
            pad_inches=0,
        )
    wrong = warnings_of(heatmaps_of(figure), drawing.shown)
    boxes = _missing_glyphs([str(warning.message) for warning in caught])
    drawn = content.getvalue()
    if form == "svg":
        drawn = _described(drawn, figure, drawing.shown)
    return Picture(drawn, (*wrong, *boxes), tuple(drawing.shown))


def _described(svg: bytes, figure: Figure, shown: Sequence[Shown]) -> bytes:
    """An SVG with a title, and with what it shows in words, for those who do not see it."""
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
    """A figure as one of matplotlib's, to be shown or changed; a notebook shows it as it is.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
    """
    with _settings(style):
        drawing = Drawing(style)
        drawing.add(figure)
        drawing.page._repr_png_ = partial(png_of, drawing.page)  # type: ignore[attr-defined]
        return drawing.page


def png_of(page: Page) -> bytes:
    """A figure of matplotlib's as PNG, as it is when asked."""
    content = io.BytesIO()
    page.savefig(content, format="png")
    return content.getvalue()


@contextlib.contextmanager
def _settings(style: Style) -> Iterator[None]:
    """Within it, matplotlib is set up as the style says, and as nothing else does."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style.settings)
        yield


def _missing_glyphs(messages: Sequence[str]) -> tuple[str, ...]:
    """A warning of the characters that are drawn as boxes, by what matplotlib said."""
    matches = (re.match(r"Glyph ([0-9]+) ", message) for message in messages)
    missing = "".join(dict.fromkeys(chr(int(match[1])) for match in matches if match))
    return (f"the font has no glyph for {missing!r}, drawn as a box",) if missing else ()


class Drawing:
    """A page of matplotlib's with a figure on it, and what of the figure's heatmaps is shown."""

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
        self._legends = 0.0  # pixels that those below all axes take, above the notes
        self.shown: list[Shown] = []
        self._inner: list[tuple[Axes, Axes, Axes]] = []

    def add(self, figure: Figure) -> None:
        """Draw a figure on the whole page, with its title above and its notes below."""
        style, left = self.style, 0.5 * self.style.line / self.width
        self._whole_title = figure.title
        title = style.wrapped_text(figure.title, self.width - style.line, most=3, size=TITLE_SIZE)
        self._title = self.page.suptitle(title, x=left, ha="left")
        # What the notes are is known late; until then two lines stand for them.
        self._notes = self.page.supxlabel("\n", x=left, ha="left", color=style.palette.faint)
        if isinstance(figure, Heatmap):
            self._maps([figure])
        elif isinstance(figure, Curves):
            self._separate_panels([figure])
        elif figure.shared and all(isinstance(panel, Heatmap) for panel in figure.panels):
            self._maps(heatmaps_of(figure), figure)
        else:
            self._separate_panels(figure.panels, figure)

    def kept_part(self) -> Bbox:
        """The part of the page to keep, in inches: of a width that is not fixed, what is used."""
        from matplotlib.transforms import Bbox

        width, dpi = self.width, self.style.dpi
        if not self.style.fixed[0]:
            used = self.page.get_tightbbox().x1 * dpi
            width = min(width, math.ceil(used + self.style.line / 2))
        return Bbox.from_extents(0, 0, width / dpi, self.height / dpi)

    def _maps(self, heatmaps: Sequence[Heatmap], panels: Panels | None = None) -> None:
        """Heatmaps on one colour scale, their cells of whole pixels; many have each a title."""
        style, line = self.style, self.style.line
        widest = max(style.text_width(heatmap.title, HEAD_SIZE) for heatmap in heatmaps)
        least = max(_LEAST_MAP * line, min(widest, 3 * _LEAST_MAP * line))
        chosen, spec = self._grid(heatmaps, (least + _GAP * line, (_LEAST_MAP + _HEAD) * line))
        across, all_axes = spec.ncols, self._axes_of(spec, len(chosen))
        for index, (axes, heatmap) in enumerate(zip(all_axes, chosen, strict=True)):
            lowest = index + across >= len(chosen)
            name_axes(axes, heatmap, rows=index % across == 0, columns=lowest)
            # Below the last of a column that is shorter than others there is room.
            axes.xaxis.set_in_layout(index // across == spec.nrows - 1)
            if index % across and not lowest:
                # It needs no room that its neighbours do not: to measure hundreds takes a minute.
                axes.set_in_layout(False)
                leftmost = index - index % across
                lowermost = index + (len(chosen) - 1 - index) // across * across
                self._inner.append((axes, all_axes[leftmost], all_axes[lowermost]))
            self._entitle(axes, heatmap, " " if panels else "", HEAD_SIZE)
        bar = scale_beside(all_axes)
        self._lay_out()
        self._grow([(all_axes[0], heatmap) for heatmap in chosen], spec)
        room = all_axes[0].bbox.size
        self.shown = [heatmap.sample(*cells_that_fit(heatmap, room, style)) for heatmap in chosen]
        scale = scale_of(self.shown)
        colors = self._colors(scale)
        name_scale(bar, chosen[0].value_label, scale, colors, style)
        titles = [_title_with_range(shown, room[0], style) for shown in self.shown if panels]
        for axes, heatmap, title in zip(all_axes, chosen, titles, strict=False):
            self._entitle(axes, heatmap, title, HEAD_SIZE)
        self._note(panels, len(chosen))
        self._lay_out()
        room = all_axes[0].bbox.size
        sizes = [fitted_size(shown, room, style) for shown in self.shown]
        needed = [*(width for width, _ in sizes), *(style.text_width(t, HEAD_SIZE) for t in titles)]
        highest = max(height for _, height in sizes)
        self._shrink(across * (room[0] - max(needed)), spec.nrows * (room[1] - highest))
        self._lay_out()
        self.page.set_layout_engine("none")
        for axes, shown, size in zip(all_axes, self.shown, sizes, strict=True):
            self._resize(axes, size)
            draw_map(axes, shown, scale, colors, style=style)

    def _separate_panels(
        self, figures: Sequence[Heatmap | Curves], panels: Panels | None = None
    ) -> None:
        """Figures of any kind, each with axes of its own; many have each a title.

        Maps of one quantity share a colour scale, others have each its own.
        """
        style, line = self.style, self.style.line
        circles = _small_circles(figures)
        least = (_LEAST_CIRCLE if circles else _LEAST_PANEL) * line
        chosen, spec = self._grid(figures, (least, least))
        all_axes = self._axes_of(spec, len(chosen))
        maps, curves, shared = [], [], one_quantity(chosen)
        for axes, figure in zip(all_axes, chosen, strict=True):
            if isinstance(figure, Curves):
                draw_curves(axes, figure, style)
                axes.axison = not circles  # many are read as the faces of clocks
                curves += [(axes, figure)] * axes.axison
                continue
            name_axes(axes, figure)
            axes.set_anchor("NW")
            axes.set_box_aspect(1 if figure.square else None)
            maps.append((axes, figure, None if shared else scale_beside([axes], own=True)))
        if shared:
            maps[-1] = (*maps[-1][:2], scale_beside(all_axes))
        self._make_room_for_legends()
        self._lay_out()
        lefts = [axes.bbox.x0 for axes in all_axes[: spec.ncols]]
        pitch = min(right - left for left, right in pairwise([*lefts, self.width]))
        for axes, figure in zip(all_axes, chosen, strict=True):
            size = NOTE_SIZE if circles else 1.0
            title = style.wrapped_text(figure.title, pitch - line, most=2, size=size)
            self._entitle(axes, figure, title if panels else "", size)
        self._lay_out()
        if maps:
            self._grow([(axes, heatmap) for axes, heatmap, _ in maps], spec, _SHARE_OF_PANEL)
        for axes, figure in curves:
            name_values(axes, figure, style)
        self.shown = [
            heatmap.sample(*cells_that_fit(heatmap, axes.bbox.size, style, _SHARE_OF_PANEL))
            for axes, heatmap, _ in maps
        ]
        drawn = []
        for (axes, heatmap, bar), shown, scale in zip(
            maps, self.shown, scales_of(self.shown), strict=True
        ):
            colors = self._colors(scale)
            if bar is not None:
                name_scale(bar, heatmap.value_label, scale, colors, style)
            drawn.append((axes, shown, scale, colors))
        self._note(panels, len(chosen), [note for _, figure in curves for note in figure.notes])
        self._lay_out()
        square = [isinstance(figure, Heatmap) and figure.square for figure in chosen]
        self._fit_squares(spec, square, all_axes[0].get_position(original=True).size)
        self._lay_out()
        self.page.set_layout_engine("none")
        for axes, shown, scale, colors in drawn:
            self._resize(axes, fitted_size(shown, axes.bbox.size, style))
            draw_map(axes, shown, scale, colors, style=style)

    def _make_room_for_legends(self) -> None:
        """Keep room for the legends that are no axes' own; a height that is not fixed grows."""
        if not self.page.legends:
            return
        heights = [legend.get_window_extent().height for legend in self.page.legends]
        self._legends = sum(heights) + _PAD * self.style.line
        if self.style.growing[1]:
            self.height += math.ceil(self._legends)
            self.page.set_size_inches(self.width / self.style.dpi, self.height / self.style.dpi)
        self._shrink(0, 0)

    def _place_legends(self, *, notes: bool) -> None:
        """Put the legends that are no axes' own between the axes and the notes."""
        pad = _PAD * self.style.line
        below = pad + notes * (self._notes.get_window_extent().height + pad)
        for legend in self.page.legends:
            legend.set_bbox_to_anchor((pad / self.width, below / self.height))

    def _grow(
        self, maps: Sequence[tuple[Axes, Heatmap]], spec: GridSpec, share: float = SHARE_OF_ROOM
    ) -> None:
        """Make sides that are not fixed longer, where then all cells of all maps have room."""
        usual = self.width, self.height
        # What surrounds the cells grows with them: not by much, and less each time.
        for _ in range(_MOST_ROUNDS):
            missing = np.max([missing_room(*of_map, self.style, share) for of_map in maps], axis=0)
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
            self.width, self.height = width, height
            self.page.set_size_inches(width / self.style.dpi, height / self.style.dpi)
            self._lay_out()

    def _grid(
        self, figures: Sequence[AnyFigure], least: tuple[float, float]
    ) -> tuple[list[AnyFigure], GridSpec]:
        """The figures that have room, none smaller than ``least``, and the grid for them.

        A height that is not fixed gets longer where then all have room.
        """
        line = self.style.line
        around = _MARGINS[0] * line, _MARGINS[1] * line
        room = self.width - around[0], self.height - around[1]
        rows, columns = grid_of(len(figures), room, least, aspect=1)
        needed = -(-len(figures) // columns)
        higher = math.ceil(around[1] + needed * least[1])
        if needed > rows and self.style.growing[1] and higher <= _MOST_GROWTH * self.height:
            rows, self.height = needed, higher
            self.page.set_size_inches(self.width / self.style.dpi, self.height / self.style.dpi)
        chosen = [figures[i] for i in spread(len(figures), rows * columns)]
        return chosen, self.page.add_gridspec(rows, columns)

    def _axes_of(self, spec: GridSpec, count: int) -> list[Axes]:
        """As many axes of a grid, row by row."""
        return [self.page.add_subplot(spec[divmod(i, spec.ncols)]) for i in range(count)]

    def _entitle(self, axes: Axes, figure: Heatmap | Curves, title: str, size: float = 1.0) -> None:
        """Write a title above axes, and leave room for the names of bands below it."""
        if isinstance(figure, Heatmap) and figure.columns.bands:
            title = f"{title}\n " if title else " "
        axes.set_title(title, fontsize=size * self.style.points)

    def _fit_squares(self, spec: GridSpec, square: Sequence[bool], slot: Sequence[float]) -> None:
        """Give rows and columns of square maps what they need, and the others what that leaves.

        ``slot`` is what each panel has of the width and height of the page.
        """
        sides = slot[0] * self.width, slot[1] * self.height
        columns = [all(square[i :: spec.ncols]) for i in range(spec.ncols)]
        rows = [all(square[i * spec.ncols : (i + 1) * spec.ncols]) for i in range(spec.nrows)]
        unused = []
        for side, lines, set_ratios in (
            (sides[0], columns, spec.set_width_ratios),
            (sides[1], rows, spec.set_height_ratios),
        ):
            others, freed = lines.count(False), (side - min(sides)) * lines.count(True)
            if others:
                set_ratios([min(sides) if line else side + freed / others for line in lines])
            unused.append(0 if others else freed)
        self._shrink(*unused)

    def _lay_out(self) -> None:
        self._engine.execute(self.page)
        for axes, leftmost, lowermost in self._inner:
            row, column = leftmost.get_position(), lowermost.get_position()
            axes.set_position((column.x0, row.y0, column.width, row.height))
        for axes in self.page.axes:
            axes.apply_aspect()

    def _shrink(self, across: float, down: float) -> None:
        """Leave so many pixels at the right and below unused; those of a free height are cut."""
        bottom = self._legends
        if self.style.fixed == (False, False):
            self._narrow_title(self.width - max(0.0, across))
        if self.style.fixed[1]:
            bottom += max(0.0, down)
        else:
            self.height -= max(0, int(down))
            self.page.set_size_inches(self.width / self.style.dpi, self.height / self.style.dpi)
        bottom /= self.height
        self._engine.set(rect=(0, bottom, 1 - max(0.0, across) / self.width, 1 - bottom))

    def _narrow_title(self, width: float) -> None:
        """Wrap the title at the width that panels take, on a page that gets higher by its lines."""
        room = max(width, self.width / 2) - self.style.line
        lines = self.style.wrapped_text(self._whole_title, room, most=3, size=TITLE_SIZE)
        self.height += math.ceil(
            (lines.count("\n") - self._title.get_text().count("\n")) * TITLE_SIZE * self.style.line
        )
        self._title.set_text(lines)

    def _resize(self, axes: Axes, size: tuple[float, float]) -> None:
        """Give axes so many pixels, from the whole pixel nearest to where they begin."""
        left, top = round(axes.bbox.x0), round(self.height - axes.bbox.y1)
        width, height = size[0] / self.width, size[1] / self.height
        axes.set_position((left / self.width, 1 - top / self.height - height, width, height))

    def _colors(self, scale: Scale) -> Srgb:
        """The colours of a scale: those asked for, or those that suit it."""
        dark = self.style.theme == "dark"
        return color_map(self.style.cmap or default_map(scale.kind, dark=dark))

    def _note(self, panels: Panels | None, count: int, more: Sequence[str] = ()) -> None:
        """Write what a reader must know, who sees so many panels, below the figure."""
        notes = dict.fromkeys((*panels.missing_notes(count), *panels.notes) if panels else ())
        notes |= dict.fromkeys([*more, *(note for shown in self.shown for note in shown.notes)])
        if any(shown.undersampled for shown in self.shown):
            notes["underlined: aliased, wavelength under two samples"] = None
        if any(shown.faded for shown in self.shown):
            notes[f"hatched: {TOO_FAST}"] = None
        if any(shown.gaps for shown in self.shown):
            notes["grey: not finite"] = None
        room = self.width - self.style.line
        self._notes.set_text(
            self.style.wrapped_text("; ".join(notes), room, most=2, size=NOTE_SIZE)
        )
        self._notes.set_in_layout(bool(notes))
        self._place_legends(notes=bool(notes))


def _small_circles(figures: Sequence[Heatmap | Curves]) -> bool:
    """Whether all are circles, so many that each is small."""
    square = all(isinstance(figure, Curves) and figure.square for figure in figures)
    return square and len(figures) > _MOST_LARGE


def _title_with_range(shown: Shown, width: float, style: Style) -> str:
    """The title of one of many maps, with the range of its values if that has room.

    On a scale for all, the values of some look alike.
    """
    title, finite = shown.heatmap.title, shown.values[np.isfinite(shown.values)]
    if finite.size:
        low, high = (minus(number(float(value), 3)) for value in (finite.min(), finite.max()))
        longer = f"{title}: {low} to {high}" if low != high else f"{title}: {low}"
        if style.text_width(longer, HEAD_SIZE) <= width:
            return longer
    return style.wrapped_text(title, width, most=1, size=HEAD_SIZE)
