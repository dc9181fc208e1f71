"""Provide color maps: 256 colors from one end of a scale to the other.

``colormaps.csv`` has the maps that posenc chooses by default. So the terminal and files show the
same colors, and the terminal needs no plotting library. ``viridis`` and ``gray`` are matplotlib's.
``polar``, ``polar-dark`` and ``phase`` are posenc's. They are perceptually uniform: lightness
changes in equal steps. Color-blind readers can tell their ends apart, because these differ in more
than red and green. Any other name is one of matplotlib's.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, described, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from posenc_cli.render.figure import ScaleKind

    Srgb: TypeAlias = NDArray[np.uint8]  # (colors, 3): red, green, blue

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
