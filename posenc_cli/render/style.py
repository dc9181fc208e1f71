"""The style of figures in files: size, text and colours, as matplotlib settings."""

from __future__ import annotations

import textwrap
from typing import Any, Literal, NamedTuple

from posenc_cli.records import Record

Theme = Literal["light", "dark"]

SMALLEST, LARGEST = 64, 10_000
"""Pixels on a side."""

_POINTS = 9.0
"""The size of text where a picture has room for it."""
_TEXT_LINES, _TEXT_COLUMNS = 28, 42
"""Lines of text in the height of a smaller picture, and sizes of text in its width."""
_FEWEST = 8
"""Characters in a line of text, however little room it has."""
_LINE = 1.35
"""The height of a line of text, in sizes of the text."""
TITLE_SIZE, HEAD_SIZE, NOTE_SIZE, TICK_SIZE = 1.15, 0.9, 0.85, 0.9
"""What is written larger or smaller than names of axes, and by how much."""


class _Palette(NamedTuple):
    """The colours of what surrounds the values."""

    page: str
    ink: str
    faint: str
    gap: str
    mark: str
    lines: tuple[str, ...]


PALETTES: dict[Theme, _Palette] = {
    "light": _Palette(
        *("#ffffff", "#1c1c1c", "#5c5c5c", "#b9b9b9", "#d55e00"),
        lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
    ),
    "dark": _Palette(
        *("#14161a", "#ececec", "#a6a6a6", "#6d6d6d", "#e69f00"),
        lines=("#56b4e9", "#e69f00", "#2fc49b", "#e29ac6", "#f0e442", "#d55e00"),
    ),
}


class LineStyle(NamedTuple):
    """What tells a curve from others besides its colour.

    ``dashes`` are the lengths drawn and left out in turn, in widths of the line, ``dots`` the same
    in dots of Braille; ``marker`` stands at points and ``key`` in a legend of text.
    """

    dashes: tuple[float, ...]
    dots: tuple[int, ...]
    marker: str
    key: str


LINE_STYLES = (
    LineStyle((), (), "o", "──"),
    LineStyle((5, 2), (5, 3), "s", "╌╌"),
    LineStyle((1.2, 1.5), (1, 2), "^", "┈┈"),
    LineStyle((6, 2, 1.2, 2), (6, 2, 1, 2), "D", "─·"),
)
"""By the order of curves, as their colours are."""


class Style(Record):
    """How large a figure is, and in which colours: pixels, pixels an inch, and names.

    A ``fixed`` side is as long as it says; of another, what the figure does not need is cut off,
    and where a figure ``grows`` it gets longer before rows or columns are left out.
    """

    width: int = 1200
    height: int = 800
    dpi: int = 150
    theme: Theme = "light"
    cmap: str | None = None
    fixed: tuple[bool, bool] = (True, True)
    grows: bool = True

    @classmethod
    def of(
        cls,
        width: int | None,
        height: int | None,
        dpi: int | None,
        *,
        usual: tuple[int, int] | None = None,
        theme: Theme = "light",
        cmap: str | None = None,
    ) -> Style:
        """A style of sides in pixels as asked for, and of ``usual`` sides where none are.

        A usual side is so many pixels at the usual resolution, and as many inches at any other:
        text and lines, which grow with the resolution too, keep their share of it.

        >>> Style.of(None, 500, 300).width, Style.of(None, 500, 300).height
        (2400, 500)
        """
        resolution = dpi or cls.dpi
        sides = [
            min(max(SMALLEST, round(side * resolution / cls.dpi)), LARGEST)
            for side in usual or (cls.width, cls.height)
        ]
        return cls(
            width or sides[0],
            height or sides[1],
            resolution,
            theme,
            cmap,
            fixed=(width is not None, height is not None),
        )

    @classmethod
    def resolution_for(cls, line: float) -> int:
        """The resolution at which a line of text is so many pixels high."""
        return max(1, round(72 * line / (_LINE * _POINTS)))

    @property
    def growing(self) -> tuple[bool, bool]:
        """Whether its width and its height may get longer."""
        return self.grows and not self.fixed[0], self.grows and not self.fixed[1]

    @property
    def palette(self) -> _Palette:
        """The colours of the theme."""
        return PALETTES[self.theme]

    @property
    def points(self) -> float:
        """The size of the text: smaller where the picture is."""
        most = min(self.height / _TEXT_LINES, self.width / _TEXT_COLUMNS)
        return min(_POINTS, most * 72 / self.dpi)

    @property
    def line(self) -> float:
        """The height of a line of text, in pixels."""
        return _LINE * self.points * self.dpi / 72

    @property
    def settings(self) -> dict[str, Any]:
        """What matplotlib's ``rcParams`` are to be for this style, besides their defaults."""
        palette, points = self.palette, self.points
        ticks = {
            f"{axis}tick.{name}": value
            for axis in "xy"
            for name, value in {
                "color": palette.ink,
                "labelsize": TICK_SIZE * points,
                "major.size": 0.25 * points,
                "major.width": 0.6,
                "major.pad": 0.25 * points,
                "minor.size": 0.25 * points,
                "minor.width": 0.6,
                "minor.pad": 0.25 * points,
            }.items()
        }
        return {
            "svg.hashsalt": "posenc",
            "svg.fonttype": "none",  # text that can be read, searched and copied
            "hatch.linewidth": 0.4,
            "pdf.fonttype": 42,  # TrueType, which editors of PDF know
            "text.parse_math": False,  # a $ in a title is a $
            "text.color": palette.ink,
            "font.size": points,
            "figure.titlesize": TITLE_SIZE * points,
            "figure.labelsize": NOTE_SIZE * points,
            "figure.facecolor": palette.page,
            "axes.facecolor": palette.page,
            "axes.edgecolor": palette.faint,
            "axes.linewidth": 0.6,
            "axes.labelcolor": palette.ink,
            "axes.labelsize": points,
            "axes.labelpad": 0.5 * points,
            "axes.titlesize": points,
            "axes.titlelocation": "left",
            "axes.titlepad": 0.5 * points,
            "axes.prop_cycle": f"cycler('color', {list(palette.lines)})",
            "axes.unicode_minus": True,
            **ticks,
            "grid.color": palette.faint,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.5,
            "lines.linewidth": 1.3,
            "legend.fontsize": TICK_SIZE * points,
            "legend.facecolor": palette.page,
            "legend.edgecolor": palette.faint,
            "legend.framealpha": 0.9,
        }

    def text_width(self, text: str, size: float = 1.0) -> float:
        """How wide a line of text is, in pixels; ``size`` is in sizes of the names of axes."""
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.font_manager import FontProperties

        renderer = RendererAgg(1, 1, self.dpi)  # type: ignore[no-untyped-call]
        font = FontProperties(size=size * self.points)
        return float(renderer.get_text_width_height_descent(text, font, False)[0])  # type: ignore[no-untyped-call]

    def wrapped_text(self, text: str, width: float, *, most: int, size: float = 1.0) -> str:
        """A text in lines of at most ``width`` pixels, so many at most."""
        letter = max(1.0, self.text_width(text, size) / max(1, len(text)))
        for characters in range(int(1.2 * width / letter), _FEWEST, -1):
            lines = textwrap.wrap(text, characters, max_lines=most, placeholder=" …")
            if all(self.text_width(line, size) <= width for line in lines):
                break
        else:
            lines = textwrap.wrap(text, _FEWEST, max_lines=most, placeholder=" …")
        return "\n".join(lines)
