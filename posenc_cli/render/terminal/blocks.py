"""Draw cells of text for the values of a picture: colored half-blocks, shades, or ASCII.

In color, a line of text shows two rows of pixels: the upper half of a cell in the foreground, the
lower in the background. In shades, it shows one.

Terminals that show pixels get a whole picture as an escape sequence. kitty and iTerm2 read a PNG
file directly. Sixel has bands of six rows, color by color, with at most 256 colors. Pillow, which
comes with matplotlib, chooses them.
"""

from __future__ import annotations

import os
import re
import textwrap
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.records import Record, replace
from posenc_cli.render.style import LEVELS, color_map, default_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.render.figure import Scale


Depth = Literal["truecolor", "256", "none"]

GAP = -1
"""The level of a missing value."""

_SHADES, _ASCII_SHADES = " ░▒▓█", " .:-=+*#%@"
_DRAWN = "▀▄█░▒▓│─┬┤└┴▴⣿"
_ESCAPE = "\x1b\\[[0-9;]*m"
_PLAIN = "\x1b[0m"
_WITHOUT_256 = ("linux", "ansi", "vt100", "vt102", "vt220")


class Medium(Record):
    """The capabilities of the output: how many colors, and whether more than ASCII.

    There are no colors without half-blocks. ``spelled`` replaces characters that are not ASCII.
    ``braille`` is true if it can show Braille dots.
    """

    depth: Depth = "none"
    ascii_only: bool = False
    spelled: Callable[[str], str] = str
    braille: bool = False

    @classmethod
    def of(
        cls,
        *,
        colored: bool,
        encoding: str | None,
        ascii_only: bool = False,
        spelled: Callable[[str], str] = str,
        environment: Mapping[str, str] = os.environ,
    ) -> Medium:
        """Return the capabilities of a stream with an ``encoding``; ``colored`` allows escapes.

        >>> Medium.of(colored=True, encoding="utf-8", environment={"COLORTERM": "24bit"}).depth
        'truecolor'
        >>> Medium.of(colored=True, encoding="utf-8", environment={}).depth
        '256'
        """
        depth: Depth = "none"
        poor = environment.get("TERM", "").lower() in _WITHOUT_256
        if colored:
            rich = environment.get("COLORTERM", "").lower() in ("truecolor", "24bit")
            depth = "truecolor" if rich else "none" if poor else "256"
        lacking = ascii_only or not _encodable(encoding)
        return cls(
            "none" if lacking else depth,
            lacking,
            spelled if lacking else str,
            not (lacking or poor),
        )

    @property
    def shades(self) -> str:
        """The glyphs for values without color, the lowest first."""
        return _ASCII_SHADES if self.ascii_only else _SHADES

    @property
    def pixels_a_line(self) -> int:
        """Rows of pixels in a line of text."""
        return 2 if self.depth != "none" else 1

    @property
    def gap(self) -> str:
        """The character for a missing value."""
        return "?" if self.depth == "none" else " "

    def glyph(self, glyph: str) -> str:
        """Return a glyph of a frame, in ASCII if necessary."""
        return {"▴": "^", "│": "|", "─": "-"}.get(glyph, "+") if self.ascii_only else glyph


class Page(Record):
    """The columns and lines of text available for a picture, its medium and its color map."""

    width: int
    height: int
    medium: Medium
    cmap: str | None = None

    def part(self, width: int, height: int) -> Page:
        """Return a smaller page of the same kind."""
        return replace(self, width=width, height=height)

    def colors(self, scale: Scale) -> NDArray[np.uint8]:
        """Return the colors of a scale: those requested, or the default ones."""
        return color_map(self.cmap or default_map(scale.kind))

    def wrapped_lines(self, text: str, *, most: int | None = None) -> list[str]:
        """Wrap a paragraph into lines, at most ``most`` of them."""
        return textwrap.wrap(
            self.medium.spelled(text), self.width, max_lines=most, placeholder=" ..."
        )


def levels(places: NDArray[np.float64]) -> NDArray[np.int16]:
    """Return the color numbers of positions 0 … 1 along a map; NaN is a gap."""
    finite = np.isfinite(places)
    numbers = np.where(finite, places, 0) * (LEVELS - 1)
    return np.where(finite, np.rint(numbers), GAP).astype(np.int16)


def cell_lines(pixels: NDArray[np.int16], colors: NDArray[np.uint8], medium: Medium) -> list[str]:
    """Return lines of text that show the levels ``pixels``, each a color of ``colors`` or a gap.

    Shape: pixels (rows, columns), colors (256, 3).
    """
    if medium.depth == "none":
        return _shade_lines(pixels, medium)
    codes = color_codes(colors, medium.depth)
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.full((1, pixels.shape[1]), GAP, pixels.dtype)])
    rows = pixels.tolist()
    return [
        _half_block_line(upper, lower, codes)
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]


def width_of(text: str) -> int:
    """Return the number of columns of ``text``; escape codes have none."""
    return len(re.sub(_ESCAPE, "", text))


def pad(text: str, width: int) -> str:
    """Pad ``text`` with spaces to ``width`` columns."""
    return text + " " * (width - width_of(text))


def _shade_lines(pixels: NDArray[np.int16], medium: Medium) -> list[str]:
    shades = np.array([*medium.shades, medium.gap])
    count = len(medium.shades)
    numbers = np.where(pixels == GAP, count, pixels.astype(np.int64) * count // LEVELS)
    return ["".join(row) for row in shades[numbers].tolist()]


def color_codes(colors: NDArray[np.uint8], depth: Depth) -> list[str]:
    """Return color codes by level, as they follow 38; or 48; in an escape code.

    The last code is that of a gap, and empty.
    """
    if depth == "truecolor":
        codes = [f"2;{r};{g};{b}" for r, g, b in colors.tolist()]
    else:
        from rich.color import Color, ColorSystem

        near = (Color.from_rgb(*c).downgrade(ColorSystem.EIGHT_BIT) for c in colors.tolist())
        codes = [f"5;{color.number}" for color in near]
    return [*codes, ""]


def _half_block_line(upper: Sequence[int], lower: Sequence[int], codes: Sequence[str]) -> str:
    """Return a line of cells, with an escape code only where the colors change."""
    text: list[str] = []
    now: tuple[str, str] = ("", "")
    for above, below in zip(upper, lower, strict=True):
        front, back, cell = codes[above], codes[below], "▀"
        if not front and back:
            front, back, cell = back, "", "▄"
        elif not front:
            cell = " "
        if (front, back) != now:
            now = front, back
            colors = [f"{layer};{code}" for layer, code in zip((38, 48), now, strict=True) if code]
            text.append(f"\x1b[{';'.join(['0', *colors])}m")
        text.append(cell)
    if now != ("", ""):
        text.append(_PLAIN)
    return "".join(text)


def _encodable(encoding: str | None) -> bool:
    try:
        _DRAWN.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


Protocol = Literal["kitty", "iterm", "sixel"]

_CHUNK = 4096
"""Letters of base64 that kitty accepts in one sequence."""
_COLORS = 256
_BAND = 6
"""Rows of pixels in a line of sixels."""
_LEAST_RUN = 4
"""The number of equal sixels from which a repeat count is shorter."""


def picture_sequence(png: bytes, protocol: Protocol) -> str:
    """Return the escape sequence that shows a picture in its original size."""
    if protocol == "sixel":
        return _sixel(png)
    from base64 import b64encode

    content = b64encode(png).decode()
    if protocol == "kitty":
        return "".join(_kitty_chunks(content))
    return f"\x1b]1337;File=inline=1;size={len(png)}:{content}\a"


def through_tmux(sequence: str) -> str:
    """Wrap a sequence so that tmux passes it to the terminal around it, if its user allows that."""
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def _kitty_chunks(content: str) -> Iterator[str]:
    # a=T: show it at once; f=100: a PNG; q=2: do not answer; m=1: there is more to come.
    control = "a=T,f=100,q=2,"
    for start in range(0, len(content), _CHUNK):
        more = int(start + _CHUNK < len(content))
        yield f"\x1b_G{control}m={more};{content[start : start + _CHUNK]}\x1b\\"
        control = ""


def _sixel(png: bytes) -> str:
    from io import BytesIO

    from PIL import Image

    image = Image.open(BytesIO(png)).convert("RGB")
    few = image.quantize(_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    shares = [round(channel * 100 / 255) for channel in few.getpalette() or ()]
    pixels = np.asarray(few)  # (rows, columns): color numbers
    height, width = pixels.shape
    parts = [f'\x1bP0;1;0q"1;1;{width};{height}']
    parts += [
        f"#{i};2;{red};{green};{blue}"
        for i, (red, green, blue) in enumerate(zip(*[iter(shares)] * 3, strict=True))
    ]
    for start in range(0, height, _BAND):
        band = pixels[start : start + _BAND]
        weights = 1 << np.arange(len(band))[:, None]
        lines = [
            f"#{number}{_runs(((band == number) * weights).sum(axis=0))}"
            for number in np.unique(band).tolist()
        ]
        parts += ["$".join(lines), "-"]
    return "".join([*parts, "\x1b\\"])


def _runs(sixels: NDArray[np.integer]) -> str:
    """Return sixels of one color as letters, with repeat counts.

    >>> _runs(np.array([1, 1, 1, 1, 1, 63, 0]))
    '!5@~?'
    """
    starts = np.flatnonzero(np.diff(sixels, prepend=-1))
    counts: Sequence[int] = np.diff(starts, append=len(sixels)).tolist()
    letters = map(chr, (63 + sixels[starts]).tolist())
    return "".join(
        f"!{count}{letter}" if count >= _LEAST_RUN else letter * count
        for letter, count in zip(letters, counts, strict=True)
    )
