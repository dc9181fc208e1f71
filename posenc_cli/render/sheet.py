"""A sheet of matplotlib's to draw on: sizes, themes and text, in pixels from the top left."""

from __future__ import annotations

import math
import textwrap
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

Theme = Literal["light", "dark"]

SMALLEST, LARGEST = 64, 10_000
"""Pixels on a side."""


_POINTS = 9.0
TITLE_SIZE, HEAD_SIZE, NOTE_SIZE = 1.15, 0.9, 0.85


class _Theme(NamedTuple):
    """The colours of what surrounds the values."""

    page: str
    ink: str
    faint: str
    gap: str
    mark: str
    lines: tuple[str, ...]


THEMES: dict[Theme, _Theme] = {
    "light": _Theme(
        *("#ffffff", "#1c1c1c", "#5c5c5c", "#b9b9b9", "#d55e00"),
        lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
    ),
    "dark": _Theme(
        *("#14161a", "#ececec", "#a6a6a6", "#6d6d6d", "#e69f00"),
        lines=("#56b4e9", "#e69f00", "#2fc49b", "#e29ac6", "#f0e442", "#ff8a4c"),
    ),
}


class Style(Record):
    """How large a figure is, and in which colours: pixels, pixels an inch, and names.

    A ``fixed`` side is as long as it says; of another, what the figure does not need is cut off.
    """

    width: int = 1200
    height: int = 800
    dpi: int = 150
    theme: Theme = "light"
    cmap: str | None = None
    fixed: tuple[bool, bool] = (True, True)

    @classmethod
    def sized(
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

        >>> Style.sized(None, 500, 300).width, Style.sized(None, 500, 300).height
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


class Box(Record):
    """A rectangle of the figure."""

    left: float
    top: float
    width: float
    height: float

    def inside(
        self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0
    ) -> Box:
        """What is left of it within margins, a pixel at least."""
        return Box(
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

    def cell(self, row: int, column: int, grid: tuple[int, int], gap: float) -> Box:
        """A cell of a grid that divides it."""
        width = (self.width + gap) / grid[1] - gap
        height = (self.height + gap) / grid[0] - gap
        return Box(
            self.left + column * (width + gap), self.top + row * (height + gap), width, height
        )


class Sheet:
    """A page of matplotlib's, and how far it has been drawn on.

    Text and lines grow with the resolution, and shrink on a page with little room.
    """

    def __init__(self, style: Style) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Page

        self.style = style
        self.theme = THEMES[style.theme]
        self.page = Page(figsize=(style.width / style.dpi, style.height / style.dpi), dpi=style.dpi)
        FigureCanvasAgg(self.page)
        self.page.set_facecolor(self.theme.page)
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

    def reach(self, right: float, bottom: float) -> None:
        """Remember how far the drawing reaches."""
        self.right, self.bottom = max(self.right, right), max(self.bottom, bottom)

    def lines(
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
            self.text(left, top + (index + 0.5) * height, text, size=size, color=color)
            self.reach(left + self.width_of(text, size), top + (index + 1) * height)

    def axes(self, place: Box) -> Any:
        """Axes of matplotlib's that fill a box."""
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

    def text(
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

    def width_of(self, text: str, size: float = 1.0) -> float:
        """How wide a line of text is, in pixels."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size * self.points)
        renderer = self.page.canvas.get_renderer()  # type: ignore[attr-defined]
        width: float = renderer.get_text_width_height_descent(text, font, ismath=False)[0]
        return width

    def wrapped(self, text: str, width: float, size: float) -> list[str]:
        """A text as lines of about ``width`` pixels, three at most."""
        letter = self.width_of(text, size) / max(1, len(text))
        characters = max(8, int(width / max(letter, 1)))
        return textwrap.wrap(text, characters, max_lines=3, placeholder=" …")
