"""Figures in the terminal and in files, as commands draw them."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.cli import streams

if TYPE_CHECKING:
    from posenc_cli.cli.console import Console
    from posenc_cli.render.figure import Figure

FIGURES = (".png", ".svg", ".pdf")
"""The suffixes of files that hold a figure."""


def is_figure(out: str | None, file_format: str | None) -> bool:
    """Whether what is to be written is a figure, going by its suffix."""
    return file_format is None and PurePath(out or "").suffix.lower() in FIGURES


def print_figure(figure: Figure, console: Console, *, height: int) -> None:
    """Print a figure as wide as the terminal, ``height`` lines high."""
    from posenc_cli.render.blocks import Medium, Page
    from posenc_cli.render.terminal import picture_text

    medium = Medium.of(
        colored=console.colored(sys.stdout),
        encoding=sys.stdout.encoding,
        ascii_only=console.ascii_only,
        spelled=streams.spelled,
    )
    picture = picture_text(figure, Page(console.width, height, medium))
    print(picture.content)
    for warning in picture.warnings:
        console.warning(warning)


def save_figure(figure: Figure, out: str, console: Console, *, clobber: bool) -> None:
    """Save a figure to a file."""
    raise NotImplementedError
