"""Colour maps: 256 colours from one end of a scale to the other.

Those that posenc chooses by itself are made here, so that the terminal and a file show the same
and the terminal needs no plotting library. They are even to the eye (lightness changes in equal
steps) and can be told apart by the colour-blind: no pair of ends differs in red and green alone.
Any other name is one of matplotlib's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput, abbreviated, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.render.figure import ScaleKind

LEVELS = 256

# Lightness, chroma and hue (degrees) in OKLCH along each map, at equal distances.
_BLUE, _RED = 254.0, 30.0
_MADE: Mapping[str, Sequence[tuple[float, float, float]]] = {
    "polar": (
        (0.36, 0.120, _BLUE),
        (0.665, 0.125, _BLUE),
        (0.97, 0.0, _BLUE),
        (0.97, 0.0, _RED),
        (0.665, 0.150, _RED),
        (0.36, 0.135, _RED),
    ),
    "polar-dark": (
        (0.86, 0.075, _BLUE),
        (0.53, 0.115, _BLUE),
        (0.20, 0.0, _BLUE),
        (0.20, 0.0, _RED),
        (0.53, 0.130, _RED),
        (0.86, 0.075, _RED),
    ),
    "phase": (
        (0.92, 0.0, _BLUE),
        (0.60, 0.115, _BLUE),
        (0.28, 0.0, _BLUE),
        (0.28, 0.0, _RED),
        (0.60, 0.135, _RED),
        (0.92, 0.0, _RED),
    ),
    "viridis": (
        (0.285, 0.137, 318.0),
        (0.371, 0.128, 295.0),
        (0.448, 0.098, 265.0),
        (0.520, 0.082, 228.0),
        (0.594, 0.095, 191.0),
        (0.670, 0.132, 164.0),
        (0.749, 0.174, 144.0),
        (0.832, 0.193, 124.5),
        (0.918, 0.186, 102.0),
    ),
    "gray": ((0.15, 0.0, 0.0), (0.97, 0.0, 0.0)),
}
_CONES_OF_LAB = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.2914855480],
    ]
)
_LINEAR_OF_CONES = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
_DEFAULT: Mapping[ScaleKind, str] = {
    "sequential": "viridis",
    "diverging": "polar",
    "cyclic": "phase",
}


def default_map(kind: ScaleKind, *, dark: bool = False) -> str:
    """The name of the map that suits a kind of scale."""
    return "polar-dark" if dark and kind == "diverging" else _DEFAULT[kind]


@cache
def color_map(name: str) -> NDArray[np.uint8]:
    """The colours of a map in sRGB, lowest first; ``_r`` after the name turns it around.

    Shape: (256, 3).

    Raises: InvalidInput where no map has that name.
    """
    base = name.removesuffix("_r")
    if base not in _MADE:
        return _of_matplotlib(name)
    colors = _from_oklch(_between(np.asarray(_MADE[base])))
    return colors[::-1] if name != base else colors


def _between(points: NDArray[Any]) -> NDArray[Any]:
    """The OKLCH colours at equal distances along ``points``; twin points in the middle are one."""
    count = len(points)
    where = np.linspace(0, 1, count)
    if count > 2 and points[count // 2 - 1, 0] == points[count // 2, 0]:
        half = np.linspace(0, 0.5, count // 2)
        # Just apart, for the hue to change at once.
        where = np.concatenate([half, np.nextafter(half, 1) + 0.5])
        where[count // 2] = np.nextafter(0.5, 1)
    places = np.linspace(0, 1, LEVELS)
    return np.stack([np.interp(places, where, column) for column in points.T], axis=1)


def _from_oklch(colors: NDArray[Any]) -> NDArray[np.uint8]:
    """OKLCH colours (lightness, chroma, hue in degrees) as sRGB.

    Source: B. Ottosson, “A perceptual color space for image processing”, 2020.
    """
    lightness, chroma, hue = colors.T
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    linear = (np.stack([lightness, a, b], axis=1) @ _CONES_OF_LAB.T) ** 3 @ _LINEAR_OF_CONES.T
    linear = linear.clip(0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colors_in_srgb: NDArray[np.uint8] = np.rint(255 * encoded).astype(np.uint8)
    return colors_in_srgb


def to_oklab(colors: NDArray[Any]) -> NDArray[np.float64]:
    """Colours in sRGB (0 … 255) as OKLab has them: lightness, green to red, blue to yellow.

    Shape: (n, 3) → (n, 3).
    """
    encoded = np.asarray(colors, dtype=np.float64) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ np.linalg.inv(_LINEAR_OF_CONES).T)
    lab: NDArray[np.float64] = cones @ np.linalg.inv(_CONES_OF_LAB).T
    return lab


def _of_matplotlib(name: str) -> NDArray[np.uint8]:
    from posenc_cli.render.plotting import imported

    known = imported().colormaps
    if name not in known:
        raise InvalidInput(
            f"--cmap {abbreviated(name)}: no colour map has that name",
            hint=nearest(name, [*_MADE, *known]) or f"{', '.join(_MADE)}, or one of matplotlib's",
        )
    colors: NDArray[np.uint8] = known[name](np.linspace(0, 1, LEVELS), bytes=True)[:, :3]
    return colors


_CHROMA_COUNTS, _HUE_COUNTS = 3.0, 7.0
"""Next to lightness: a wrong hue disturbs a map more than a wrong shade."""
_LEVEL = 0.005
"""By how much a map may get darker on its way up: its colours are rounded."""


@cache
def _palette() -> NDArray[np.int64]:
    """The colours 16 … 255 that terminals of 256 colours share: a cube, then greys.

    Shape: (240, 3).
    """
    ramp = [0, 95, 135, 175, 215, 255]
    cube = [(r, g, b) for r in ramp for g in ramp for b in ramp]
    grays = [(8 + 10 * i,) * 3 for i in range(24)]
    return np.array(cube + grays, dtype=np.int64)


def nearest_of_palette(colors: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The number of the terminal colour that is most like each of ``colors``.

    Where these get lighter all the way, or up to one turn, so do those.

    Shape: (n, 3) → (n,).
    """
    wanted, palette = to_oklab(colors), to_oklab(_palette())
    unlike = _unlikeness(wanted, palette)
    for sign in (1, -1):
        lightness, order = sign * wanted[:, 0], np.argsort(sign * palette[:, 0], kind="stable")
        turn = int(lightness.argmax()) + 1
        gained = np.diff(lightness)
        if (gained[: turn - 1] >= -_LEVEL).all() and (gained[turn:] <= _LEVEL).all():
            up = _rising(unlike[:turn, order])
            down = _rising(unlike[turn:, order][::-1])[::-1]
            break
    else:
        order, up, down = np.arange(len(palette)), unlike.argmin(axis=1), np.array([], np.int64)
    numbers: NDArray[np.int64] = 16 + order[np.concatenate([up, down])]
    return numbers


def _unlikeness(some: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """How different each of some OKLab colours looks from each of the others, squared."""
    lightness = (some[:, None, 0] - others[None, :, 0]) ** 2
    chroma, other_chroma = (np.hypot(each[:, 1], each[:, 2]) for each in (some, others))
    hue = 2 * (np.outer(chroma, other_chroma) - some[:, 1:] @ others[:, 1:].T)
    found: NDArray[Any] = (
        lightness + _CHROMA_COUNTS * (chroma[:, None] - other_chroma) ** 2 + _HUE_COUNTS * hue
    )
    return found


def _rising(costs: NDArray[Any]) -> NDArray[np.int64]:
    """A column for each row, none left of the one before, that cost least in all.

    >>> _rising(np.array([[1, 0, 9], [0, 2, 9], [9, 9, 0]])).tolist()
    [0, 0, 2]
    """
    total = np.zeros(costs.shape[1])
    sums = []
    for row in costs:
        total = np.minimum.accumulate(total) + row
        sums.append(total)
    chosen: list[int] = []
    last = costs.shape[1] - 1
    for each in reversed(sums):
        last = int(each[: last + 1].argmin())
        chosen.append(last)
    return np.array(chosen[::-1], dtype=np.int64)
