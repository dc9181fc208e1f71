"""Interpolation along an axis by the rules of torch's ``interpolate``, in exact numbers.

This module computes which rows of a table contribute to each row of a resized table, and their
weights. With ``align_corners=False`` row i of ``target`` is read at (i + 1/2) · source/target −
1/2. All of this is rational, and is held as integers.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.numerics.blends import RationalWeights
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.formulas.learned import Method
    from posenc_cli.numerics.arrays import Integers

_SUPPORT = {"linear": 1, "bicubic": 2}
"""How many rows a method's kernel reaches on each side."""


class ResizedAxis(Record):
    """An axis of ``source`` rows that becomes one of ``target`` rows.

    ``offset`` is DINOv2's ``interpolate_offset``. Coordinates are then scaled by (target + offset)
    / source, a float64, instead of target / source.
    """

    source: int
    target: int
    offset: float = 0.0

    @property
    def scale(self) -> float | None:
        """The ``scale_factor`` passed to torch, or None if the size is passed."""
        return (self.target + self.offset) / self.source if self.offset else None

    @property
    def step(self) -> Fraction:
        """Rows of the source per row of the target."""
        if self.scale is None:
            return Fraction(self.source, self.target)
        return 1 / Fraction(self.scale)

    def nearest(self, method: Method, first: int, last: int) -> Integers:
        """Return the rows that target rows ``first`` … ``last`` − 1 repeat.

        Shape: (last − first,).
        """
        doubled = 2 * np.arange(first, last) + (method == "nearest-exact")
        return np.minimum(doubled * self.source // (2 * self.target), self.source - 1)

    def weights(
        self, method: Method, first: int, last: int, *, antialias: bool
    ) -> tuple[Integers, RationalWeights]:
        """Return the rows that contribute to some target rows, and their weights.

        If the axis keeps its length, each row is itself. With ``antialias`` the kernel is as wide
        as the step if that is longer than a row. It is normalized, ends where the table ends, and
        its cubic has a = −1/2 instead of −3/4.

        Shapes: (last − first, taps) each.
        """
        outputs = range(first, last)
        kept = self.source == self.target and (antialias or method == "linear" or not self.offset)
        if kept:
            ones = RationalWeights.of([[1]] * len(outputs), [1] * len(outputs))
            return np.arange(first, last)[:, None], ones
        if antialias:
            taps = [self._antialiased(method, output) for output in outputs]
        elif method == "linear":
            taps = [self._linear(output) for output in outputs]
        else:
            taps = [self._cubic(output) for output in outputs]
        longest = max(len(numerators) for _, numerators, _ in taps)
        rows, numerators, denominators = [], [], []
        for start, own, denominator in taps:
            rows.append(range(start, start + longest))
            numerators.append([*own, *[0] * (longest - len(own))])
            denominators.append(denominator)
        return np.clip(rows, 0, self.source - 1), RationalWeights.of(numerators, denominators)

    def _place(self, output: int) -> tuple[int, int]:
        """Return the place in the source where a target row is read, as a fraction."""
        above, below = self.step.as_integer_ratio()
        return (2 * output + 1) * above - below, 2 * below

    def _linear(self, output: int) -> tuple[int, Sequence[int], int]:
        """Return the first of a target row's taps, their numerators, and the denominator."""
        place, unit = self._place(output)
        start, share = divmod(place, unit)
        return start, (unit - share, share), unit

    def _cubic(self, output: int) -> tuple[int, Sequence[int], int]:
        place, unit = self._place(output)
        start = min(place // unit, self.source - 1)
        after = min(max(place - start * unit, 0), unit)
        before = unit - after
        # The cubic convolution kernel with a = −3/4 at 1 + t, t, 1 − t and 2 − t, times 4.
        numerators = (
            -3 * after * before**2,
            5 * after**3 - 9 * after**2 * unit + 4 * unit**3,
            5 * before**3 - 9 * before**2 * unit + 4 * unit**3,
            -3 * after**2 * before,
        )
        return start - 1, numerators, 4 * unit**3

    def _antialiased(self, method: Method, output: int) -> tuple[int, Sequence[int], int]:
        above, below = self.step.as_integer_ratio()
        centre, unit = (2 * output + 1) * above, 2 * max(above, below)
        reach = _SUPPORT[method] * unit
        start = max(0, (centre - reach - below) // (2 * below) + 1)
        stop = min(self.source, -((below - centre - reach) // (2 * below)))
        kernel = _keys if method == "bicubic" else lambda away, unit: unit - away  # a triangle
        numerators = [
            kernel(abs((2 * row + 1) * below - centre), unit) for row in range(start, stop)
        ]
        return start, numerators, sum(numerators)


def _keys(distance: int, unit: int) -> int:
    """Return Keys' cubic convolution, a = −1/2, times 2 · unit³."""
    if distance < unit:
        return 3 * distance**3 - 5 * distance**2 * unit + 2 * unit**3
    if distance < 2 * unit:
        return -(distance**3) + 5 * distance**2 * unit - 8 * distance * unit**2 + 4 * unit**3
    return 0
