"""Define the style of figures: size, text and colors in files, as matplotlib settings; color maps.

A color map has 256 colors from one end of a scale to the other. ``colormaps.csv`` has the maps that
posenc chooses by default. So the terminal and files show the same colors, and the terminal needs no
plotting library. ``viridis`` and ``gray`` are matplotlib's. ``polar``, ``polar-dark`` and ``phase``
are posenc's. They are perceptually uniform: lightness changes in equal steps. Color-blind readers
can tell their ends apart, because these differ in more than red and green. Any other name is one of
matplotlib's.
"""

from __future__ import annotations

import contextlib
import os
import textwrap
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, described, nearest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Srgb: TypeAlias = NDArray[np.uint8]  # (colors, 3): red, green, blue


Theme = Literal["light", "dark"]
ScaleKind = Literal["sequential", "diverging", "cyclic"]

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


LEVELS = 256


def default_map(kind: ScaleKind, *, dark: bool = False) -> str:
    """Return the name of the default map for a kind of scale, on a light or a dark page."""
    if kind == "diverging":
        return "polar-dark" if dark else "polar"
    return "phase" if kind == "cyclic" else "viridis"


@cache
def color_map(name: str) -> Srgb:
    """Return the colors of a map, lowest first; the suffix ``_r`` reverses it.

    Shape: (256, 3).

    Raises: InvalidInput if no map has that name.
    """
    colors = _stored_maps().get(name.removesuffix("_r"))
    if colors is None:
        return _matplotlib_map(name)
    return colors[::-1] if name.endswith("_r") else colors


@cache
def _stored_maps() -> Mapping[str, Srgb]:
    """Return the maps of ``colormaps.csv``: a column per map, a row per color in hexadecimal."""
    text = Path(__file__).with_name("colormaps.csv").read_text("ascii")
    names, *rows = (line.split(",") for line in text.splitlines())
    return {
        name: np.frombuffer(bytes.fromhex("".join(colors)), np.uint8).reshape(-1, 3)
        for name, *colors in zip(names, *rows, strict=True)
    }


def _matplotlib_map(name: str) -> Srgb:
    available = load_matplotlib().colormaps
    if name not in available:
        stored = _stored_maps()
        raise InvalidInput(
            f"--cmap {abbreviated(name)}: no color map has that name",
            hint=nearest(name, [*stored, *available])
            or f"{', '.join(stored)}, or one of matplotlib's",
        )
    return np.asarray(available[name](np.linspace(0, 1, LEVELS), bytes=True)[:, :3])


@cache
def load_matplotlib() -> Any:
    """Import and return matplotlib.

    During its import, matplotlib reads settings from the current folder, and the name of a window
    system from the environment. Either may be broken, and neither is wanted.

    Raises: Unavailable if it cannot be imported.
    """
    import logging  # slow, and no picture in the terminal needs it

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        found = find_spec("matplotlib")
        if found is None or found.origin is None:
            raise ImportError("it is not installed")
        with _default_settings_first(Path(found.origin).parent / "mpl-data"):
            import matplotlib

            return matplotlib
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"drawing a figure needs matplotlib, which does not load: {described(error)}",
            hint="pip install matplotlib",
        ) from error


@contextlib.contextmanager
def _default_settings_first(folder: Path) -> Iterator[None]:
    """Make matplotlib find its default settings first within the block."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # if the current folder is gone
                stack.enter_context(contextlib.chdir(folder))
            yield
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
