"""Functions that code has in place of the cosine and the sine, with their names."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import RealRows

    RealFunction = Callable[[RealRows], RealRows]

_STEPS = (64, 90, 128, 180, 256, 360, 512, 720, 1024, 2048, 4096)
"""Of a turn, in tables of sines."""

_TERMS = range(2, 9)
"""Of a series."""


def approximations() -> Iterator[tuple[str, RealFunction, RealFunction]]:
    """A name, and what stands for the cosine and for the sine, of angles (n, pairs)."""
    reductions: tuple[tuple[str, RealFunction], ...] = (
        ("of the angle reduced to −π to π", _to_half_turns),
        ("of the angle reduced to 0 to 2π", _to_turns),
        ("of the angle as it is", _as_it_is),
    )
    for terms in _TERMS:
        for text, reduced in reductions:
            cos, sin = (partial(_series, terms=terms, odd=odd, reduced=reduced) for odd in (0, 1))
            yield f"series of {terms} terms {text}", cos, sin
    for text, sine in (
        ("Bhaskara's approximation", _bhaskara),
        ("parabolas", _parabola),
        ("parabolas, corrected by 0.225", _corrected_parabola),
    ):
        yield text, partial(_late, sine=sine), sine
    for steps in _STEPS:
        cos, sin = (partial(_interpolated, steps=steps, function=f) for f in (np.cos, np.sin))
        yield f"interpolated in a table of {steps} steps of a turn", cos, sin


def _late(angles: RealRows, *, sine: RealFunction) -> RealRows:
    """A cosine as the sine of a quarter of a turn more."""
    return sine(angles + np.pi / 2)


def _as_it_is(angles: RealRows) -> RealRows:
    return angles


def _to_turns(angles: RealRows) -> RealRows:
    return np.asarray(np.mod(angles, 2 * np.pi), np.float64)


def _to_half_turns(angles: RealRows) -> RealRows:
    return np.asarray(angles - 2 * np.pi * np.rint(angles / (2 * np.pi)), np.float64)


def _series(angles: RealRows, *, terms: int, odd: int, reduced: RealFunction) -> RealRows:
    """The first terms of the series of the cosine, or of the sine (``odd``)."""
    x = reduced(angles)
    factors = [(-1) ** k / math.factorial(2 * k + odd) for k in range(terms)]
    return np.asarray(np.polynomial.polynomial.polyval(x**2, factors) * x**odd, np.float64)


def _bhaskara(angles: RealRows) -> RealRows:
    turned = np.mod(angles, 2 * np.pi)
    x = np.mod(turned, np.pi)
    sizes = 16 * x * (np.pi - x) / (5 * np.pi**2 - 4 * x * (np.pi - x))
    return np.where(turned < np.pi, sizes, -sizes)


def _parabola(angles: RealRows) -> RealRows:
    x = _to_half_turns(angles)
    return np.asarray(4 / np.pi * x - 4 / np.pi**2 * x * np.abs(x), np.float64)


def _corrected_parabola(angles: RealRows) -> RealRows:
    y = _parabola(angles)
    return np.asarray(0.225 * (y * np.abs(y) - y) + y, np.float64)


def _interpolated(angles: RealRows, *, steps: int, function: RealFunction) -> RealRows:
    """Values between those of so many steps of a turn."""
    step = 2 * np.pi / steps
    low = np.floor(angles / step)
    share = angles / step - low
    between = (1 - share) * function(low * step) + share * function((low + 1) * step)
    return np.asarray(between, np.float64)
