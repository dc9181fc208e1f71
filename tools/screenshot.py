"""Draw the output of a command in a terminal as a picture."""

import os
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from PIL import Image
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME
from rich.text import Text

COLUMNS, LINES = 80, 24
_SIZE = 20
"""Pixels of the font; a character of it is 0.602 as wide."""
_WIDTH, _HEIGHT, _MARGIN = 0.602 * _SIZE, 1.2 * _SIZE, 12
_DPI = 100


def printed(arguments: Sequence[str]) -> str:
    """Return the output of posenc for these arguments in a terminal with all colours.

    Raises: CalledProcessError if it ends with a status other than 0 and 1.
    """
    terminal = {"COLUMNS": f"{COLUMNS}", "LINES": f"{LINES}", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "posenc_cli", *arguments, "--color", "always"]
    done = subprocess.run(
        command,
        env={**os.environ, **terminal, "TERM": "xterm-256color"},
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode > 1:
        done.check_returncode()
    return done.stdout


def draw(command: str, output: str, path: Path) -> None:
    """Draw a command, and the output with its escape codes below it, to a PNG file."""
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)
    lines = console.render_lines(Text.from_ansi(f"$ {command}\n{output.rstrip()}"), pad=False)
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, len(lines) * _HEIGHT + 2 * _MARGIN
    figure = Figure((width / _DPI, height / _DPI), dpi=_DPI, facecolor=_rgb(None, "back"))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(-_MARGIN, width - _MARGIN), ylim=(height - _MARGIN, -_MARGIN))
    fonts = [
        FontProperties(
            family=["DejaVu Sans Mono", "DejaVu Sans"], weight=weight, size=_SIZE * 72 / _DPI
        )
        for weight in ("normal", "bold")
    ]
    halves = np.empty((2 * len(lines), COLUMNS, 3))  # an upper and a lower one of each character
    halves[:] = _rgb(None, "back")
    for row, line in enumerate(lines):
        column = 0
        for segment in line:
            front, back = _colors(segment.style)
            font = fonts[bool(segment.style and segment.style.bold)]
            for character in segment.text:
                halves[2 * row : 2 * row + 2, column] = back
                if character == "▀":
                    halves[2 * row, column] = front
                elif not character.isspace():
                    x, y = column * _WIDTH, (row + 0.8) * _HEIGHT
                    axes.text(x, y, character, color=front, fontproperties=font)
                column += 1
    extent = (0, COLUMNS * _WIDTH, len(lines) * _HEIGHT, 0)
    axes.imshow(halves, extent=extent, aspect="auto", interpolation="nearest")
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI)
    Image.open(drawn).convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE).save(path)


def _colors(style: Style | None) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    if style is None:
        return _rgb(None, "front"), _rgb(None, "back")
    return _rgb(style.color, "front"), _rgb(style.bgcolor, "back")


def _rgb(color: Color | None, ground: str) -> tuple[float, float, float]:
    if color is None:
        found = THEME.foreground_color if ground == "front" else THEME.background_color
    else:
        found = color.get_truecolor(THEME, foreground=ground == "front")
    red, green, blue = found
    return red / 255, green / 255, blue / 255
