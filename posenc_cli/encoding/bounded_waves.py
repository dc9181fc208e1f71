"""Cosines and sines of waves as pairs of float64 with a bound of their error, and exactly.

Owns what is needed of a wave where it is not yet to be rounded: it will be multiplied, or added to
something, and only the result is rounded.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.axial import placed_waves
from posenc_cli.encoding.frequencies import exact_frequencies
from posenc_cli.encoding.growing import PAIR_MARGIN, GrowingCells
from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.bounded import Bounded
from posenc_cli.numerics.fixed_point import exact_sum
from posenc_cli.numerics.phasors import Phasors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import Integers, RealRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.fixed_point import CosOrSin

Term = tuple[float, "CosOrSin", int]
"""A coefficient, a function, and which wave."""

_FARTHEST = 5000
"""Decimal exponents of an amplitude past which a product is infinite or nothing in any format."""


class BoundedWaves:
    """Scale · cos and scale · sin of waves at positions."""

    def __init__(self, waves: Waves) -> None:
        waves = placed_waves(waves)
        self._coordinates = waves.coordinates
        self._frequencies = exact_frequencies(waves)
        self._count = waves.count
        self._scale = exact.asarray(waves.scale)[0]
        self._phasors = Phasors(self._frequencies, scale=self._scale)
        self._rates = np.array([abs(float(frequency)) for frequency in self._frequencies])
        self._growing = None if waves.growth is None else GrowingCells(waves, waves.growth)

    def _places(self, positions: Integers) -> Integers:
        """Where each wave is: (positions, 1) where all are at the position, else (…, waves)."""
        coordinates = self._coordinates
        if coordinates is None or coordinates.at is None:
            return positions[:, None]
        return np.stack(coordinates.at(positions))[list(coordinates.axes)].T

    def cells(self, positions: Integers) -> tuple[Bounded, Bounded]:
        """Cosines and sines of all waves at some positions.

        The error of a point is that of :mod:`posenc_cli.numerics.phasors`; angles of 0 have none.

        Shape: (positions, waves) each.
        """
        if self._growing is not None:
            grid = np.broadcast_arrays(positions[:, None], np.arange(self._count))
            flat = [part.reshape(-1) for part in grid]
            cosine, sine = (self._growing.bounded(*flat, sine=sine) for sine in (False, True))
            return _reshaped(cosine, grid[0].shape), _reshaped(sine, grid[0].shape)
        places = self._places(positions)
        sizes = np.abs(places)
        if places.shape[1] == 1:
            parts = self._phasors.points(sizes[:, 0])
        else:
            parts = self._phasors.points(sizes, np.arange(self._count))
        angles, sign = sizes * self._rates, np.where(places < 0, -1.0, 1.0)
        cosine_high, cosine_low, sine_high, sine_low = parts
        magnitude = abs(float(self._scale))
        level = float(bounded.numbers([self._scale]).error[0])

        def error(high: RealRows) -> RealRows:
            return PAIR_MARGIN * np.where(angles < 0.5, np.abs(high), magnitude)

        cosine_error = np.where(angles == 0, level, error(cosine_high))
        return (
            Bounded(cosine_high, cosine_low, cosine_error),
            Bounded(sine_high * sign, sine_low * sign, error(sine_high)),
        )

    def exact_sum(
        self, constant: float, terms: Sequence[Term], position: int, dtype: DType
    ) -> float:
        """Constant + Σ coefficient · wave at a position, correctly rounded to ``dtype``."""
        if self._growing is None:
            places = self._places(np.array([position]))[0]
            scale = Fraction(self._scale)
            parts = [
                (
                    Fraction(coefficient) * scale,
                    function,
                    Fraction(self._frequencies[wave]) * int(places[wave % places.size]),
                )
                for coefficient, function, wave in terms
            ]
            return exact_sum(Fraction(constant), parts, dtype=dtype)
        total = Fraction(constant)
        for coefficient, function, wave in terms:
            value = self._growing.exact_value(position, wave, sine=function == "sin")
            if not coefficient or value.is_zero() or value.adjusted() < -_FARTHEST:
                continue
            if value.is_infinite() or value.adjusted() > _FARTHEST:
                value = Decimal(f"{'-' if value.is_signed() else ''}1e{_FARTHEST}")
            total += Fraction(coefficient) * Fraction(value)
        return exact_sum(total, (), dtype=dtype)


def _reshaped(numbers: Bounded, shape: tuple[int, ...]) -> Bounded:
    return Bounded(
        numbers.high.reshape(shape), numbers.low.reshape(shape), numbers.error.reshape(shape)
    )
