"""Define the style of figures in files: size, text and colors, as matplotlib settings."""

from __future__ import annotations

import textwrap
from typing import Any, Literal, NamedTuple

from posenc_cli.records import Record

Theme = Literal["light", "dark"]

SMALLEST, LARGEST = 64, 10_000
"""The least and most pixels on a side."""

_POINTS = 9.0
"""The size of text if a picture has room for it."""
_TEXT_LINES, _TEXT_COLUMNS = 28, 42
"""Lines of text in the height of a smaller picture, and text sizes in its width."""
_FEWEST = 8
"""The least number of characters in a line of text, however narrow."""
_LINE = 1.35
"""The height of a line of text, in text sizes."""
TITLE_SIZE, HEAD_SIZE, NOTE_SIZE, TICK_SIZE = 1.15, 0.9, 0.85, 0.9
"""Sizes of other texts relative to axis labels."""


class _Palette(NamedTuple):
    """The colors of everything except the values."""

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
    """The properties besides color that distinguish a curve.

    ``dashes`` are the lengths drawn and skipped in turn, in line widths; ``dots`` are the same in
    Braille dots. ``marker`` is drawn at points, ``key`` in a text legend.
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
"""The styles of curves, in order; curve n + 4 has the dashes of curve n."""


class Style(Record):
    """The size of a figure in pixels, its resolution in pixels per inch, and its color names.

    A ``fixed`` side keeps its length. Other sides shrink to what the figure needs, and the height
    grows before panels are left out. ``text`` is the size of text as a share of the usual one.
    """

    width: int = 1200
    height: int = 800
    dpi: int = 150
    theme: Theme = "light"
    cmap: str | None = None
    fixed: tuple[bool, bool] = (True, True)
    text: float = 1.0

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
        """Return a style with the given sides in pixels, or ``usual`` ones by default.

        A usual side is in pixels at the default resolution, and has the same length in inches at
        any other. Text and lines scale with the resolution too, and keep their proportion.

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
        """Return the resolution at which a line of text is ``line`` pixels high."""
        return max(1, round(72 * line / (_LINE * _POINTS)))

    @property
    def palette(self) -> _Palette:
        """The colors of the theme."""
        return PALETTES[self.theme]

    @property
    def points(self) -> float:
        """The size of the text in points, smaller in a smaller picture."""
        most = min(self.height / _TEXT_LINES, self.width / _TEXT_COLUMNS)
        return self.text * min(_POINTS, most * 72 / self.dpi)

    @property
    def line(self) -> float:
        """The height of a line of text, in pixels."""
        return _LINE * self.points * self.dpi / 72

    @property
    def settings(self) -> dict[str, Any]:
        """The matplotlib ``rcParams`` of this style that differ from the defaults."""
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
            "pdf.fonttype": 42,  # TrueType, which PDF editors support
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
            "axes.titley": 1.0,  # matplotlib need not look for ticks above axes: there are none
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
        """Return the width of a line of text in pixels; ``size`` is relative to axis labels."""
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.font_manager import FontProperties

        renderer = RendererAgg(1, 1, self.dpi)  # type: ignore[no-untyped-call]
        font = FontProperties(size=size * self.points)
        return float(renderer.get_text_width_height_descent(text, font, False)[0])  # type: ignore[no-untyped-call]

    def wrapped_text(self, text: str, width: float, *, most: int, size: float = 1.0) -> str:
        """Wrap a text into at most ``most`` lines of at most ``width`` pixels."""
        letter = max(1.0, self.text_width(text, size) / max(1, len(text)))
        for characters in (*range(int(1.2 * width / letter), _FEWEST, -1), _FEWEST):
            lines = textwrap.wrap(text, characters, max_lines=most, placeholder=" …")
            if all(self.text_width(line, size) <= width for line in lines):
                break
        return "\n".join(lines)
