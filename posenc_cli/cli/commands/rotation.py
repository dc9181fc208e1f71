"""``posenc rotation``: what a rotary encoding does to a vector, pair by pair."""

from __future__ import annotations

import math
from typing import Annotated

from posenc_cli.choice import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import option
from posenc_cli.cli.pictures import FigureOutput, PictureOptions, show
from posenc_cli.cli.subjects import half_open
from posenc_cli.positions import Positions

_PANEL, _ACROSS = 560, 4
"""Pixels of a circle in a file, and the most circles side by side."""
_MOST_LARGE, _SMALL = 12, 220
"""The most circles drawn at that size, and the pixels of each if there are more."""


def _pairs(flag: str, text: str) -> Positions:
    return Positions(tuple(half_open(flag, part) for part in text.split(",")))


def rotation(
    choice: Choice,
    console: Console,
    *,
    pairs: Annotated[
        Positions | None,
        option(
            "--pairs",
            metavar="SPEC",
            help="dimension pairs to draw: 0,1,8 or 0:4 [default: three pairs]",
            parse=_pairs,
        ),
    ] = None,
    picture: PictureOptions,
    output: FigureOutput,
) -> None:
    """Draw how RoPE rotates a vector, pair by pair.

    posenc draws one circle for each dimension pair in --pairs. Each circle shows how the vector (1,
    0) rotates, at up to 64 evenly spaced positions. posenc also counts the full rotations of each
    pair. Without --len, it shows the first 16 positions.

    Examples:
      posenc rotation -s rope --pairs 0,1,8 --positions 0:16
      posenc rotation --model llama-3.1-8b --pairs 30:34 -l 8192
      posenc rotation -s rope-yarn --set factor=8 --out rotation.svg
    """
    output.prepare()
    from posenc_cli.render.figures.circles import rotated_pairs

    turned = rotated_pairs(choice, pairs)
    json = ("rotation", turned.fields) if output.json else None
    room = _room_for(len(turned.pairs))
    show(turned.figure, picture, output, console, usual=room, json=json, live=turned.clocks)


def _room_for(pairs: int) -> tuple[int, int]:
    """Return the width and height in pixels of a figure of ``pairs`` circles."""
    across, panel = min(pairs, _ACROSS), _PANEL
    if pairs > _MOST_LARGE:
        across, panel = math.ceil(math.sqrt(pairs)), _SMALL
    return max(2, across) * panel, -(-pairs // across) * panel + _PANEL // 4
