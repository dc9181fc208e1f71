"""Waves whose amplitude depends on position: base^((p − centre)/span) · cos(p · ω), rounded.

This module computes correctly rounded entries of such waves, by Ziv's test in two tiers.

1. An entry is the double-double product of a point on the circle and a bounded exponential. The
   point is within 2^−90, as in :mod:`posenc_cli.numerics.judge`. The power of two of the
   exponential is kept apart, so that nothing overflows on the way.
2. The remaining entries, and float64 entries that are subnormal, are computed in 60-digit reals.

Entries past the largest number of a format are infinite, and those below the smallest are zero,
each with the sign of its cosine or sine.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.bounded import UNDERFLOW, Bounded
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.fixed_point import nearest, sine_cosine
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.rounding import narrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.backends.base import Arithmetic, Reduced, WaveFiller
    from posenc_cli.formulas.declare import Growth, Waves
    from posenc_cli.numerics.arrays import (
        Flags,
        Integers,
        Reals,
        StoredRows,
    )
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement

PAIR_MARGIN = 2.0**-90  # of a point on the circle, see tier 1
CHUNK_CELLS = 1 << 13  # about twenty arrays, half as long, exist while they are computed
_LARGEST, _SMALLEST = 1026, -1080
"""Binary exponents past which an entry is infinite or zero in every format."""
_FASTEST = 2**30  # e to this power is outside every format
_SHORTENED = Context(60, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, traps=[])


class GrowingWaves:
    """Fills columns with cosines and sines whose amplitude depends on the position.

    Shape: as :class:`posenc_cli.backends.base.WaveFiller`.
    """

    def __init__(self, waves: Waves, still: WaveFiller, arithmetic: Arithmetic) -> None:
        """Set up the entries; ``still`` fills columns with the same waves without growth."""
        if waves.growth is None or waves.coordinates is not None:
            raise ValueError("waves grow along the position itself")
        self._still = still
        self._cells: _ReducedCells | GrowingCells
        if arithmetic == "exact":
            self._cells = GrowingCells(waves, waves.growth)
        else:
            self._cells = _ReducedCells(still, waves, waves.growth, arithmetic)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position; skip other columns."""
        step = max(1, CHUNK_CELLS // max(1, out.shape[1]))
        with np.errstate(all="ignore"):
            for start in range(0, positions.size, step):
                rows = slice(start, start + step)
                self._cells.fill(out[rows], positions[rows], placements, dtype)

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return the angles position · frequency in (−π, π], in radians; they do not grow."""
        return self._still.angles(positions, dtype=dtype)


class _ReducedCells:
    """Entries as code in a precision computes them: amplitude, cosine and product each rounded."""

    def __init__(
        self, still: WaveFiller, waves: Waves, growth: Growth, arithmetic: Reduced
    ) -> None:
        from posenc_cli.backends.numpy import Rounding

        self._still = still
        self._growth = growth
        self._denominator = float(waves.denominator)
        self._rounded = Rounding(arithmetic)
        with np.errstate(all="ignore"):
            self._bases = self._rounded(growth.bases(self._rounded.namespace))

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        dtype: DType,
    ) -> None:
        rounded = self._rounded
        cells = np.empty(out.shape)  # (positions, columns)
        self._still.fill(cells, positions, placements, dtype=FLOAT64)
        places = positions if self._denominator == 1 else positions / self._denominator
        centred = rounded(places - self._growth.centre)
        powers = rounded(centred / rounded.dtype.type(self._growth.span))
        amplitudes = rounded(self._bases ** powers[:, None])  # (positions, waves)
        for placement in placements:
            columns = placement.columns
            if placement.function == "zero":
                out[:, columns] = 0
                continue
            values = rounded(cells[:, columns] * amplitudes[:, placement.waves])
            out[:, columns] = narrow(values.astype(np.float64), None, dtype)


class GrowingCells:
    """Entries that are correctly rounded, or have a bound of their error."""

    def __init__(self, waves: Waves, growth: Growth) -> None:
        self._frequencies = waves.exact_frequencies()
        rates = exact.log(growth.bases(exact)) / growth.span / waves.denominator
        self._rates = list(rates)
        if len(self._rates) != waves.count:
            raise ValueError(f"{len(self._rates)} bases where {waves.count} were declared")
        self._scale = exact.asarray(waves.scale)[0]
        self._centre = growth.centre * waves.denominator
        self._phasors = Phasors(self._frequencies, scale=self._scale)
        self._speeds = np.array([abs(float(speed)) for speed in self._frequencies])
        # At higher rates an entry is infinite or zero one position on: larger ones only overflow.
        self._bounded_rates = bounded.numbers(list(exact.clip(rates, -_FASTEST, _FASTEST)))

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, correctly rounded to ``dtype``."""
        cells = self._rounded_cells(positions, dtype)
        for placement in placements:
            zero = placement.function == "zero" or self._scale == 0
            own = 0 if zero else cells[placement.function][:, placement.waves]
            out[:, placement.columns] = own

    def _rounded_cells(self, positions: Integers, dtype: DType) -> dict[str, StoredRows]:
        """Return cosines and sines of all waves, correctly rounded.

        Shape: (positions, waves) each.
        """
        cells = {}
        for function, (cell, powers) in zip(("cos", "sin"), self._products(positions), strict=True):
            values, proven = _rounded(cell, powers, dtype)
            for row, wave in np.argwhere(~proven & bool(self._scale)).tolist():
                value = self._exact_cell(int(positions[row]), wave, function == "sin", dtype)
                values[row, wave] = narrow(np.array([value]), None, dtype)[0]
            cells[function] = values
        return cells

    def _products(self, positions: Integers) -> Iterator[tuple[Bounded, Reals]]:
        """Yield cosines, then sines, as m · 2^k: m with a bound of its error, and integers k.

        Shape: (positions, waves) each.
        """
        sizes, sign = np.abs(positions), np.where(positions < 0, -1.0, 1.0)[:, None]
        cos_high, cos_low, sin_high, sin_low = self._phasors.points(sizes)
        # Nothing cancels in a small angle: there the error is relative to the entry.
        small = sizes[:, None] * self._speeds < 0.5
        mantissa, powers = bounded.exponential(
            bounded.asarray((positions - self._centre)[:, None]) * self._bounded_rates
        )
        for high, low in ((cos_high, cos_low), (sin_high * sign, sin_low * sign)):
            error = PAIR_MARGIN * np.where(small, np.abs(high), abs(float(self._scale)))
            yield Bounded(high, low, error) * mantissa, powers

    def bounded(self, positions: Integers) -> Iterator[Bounded]:
        """Yield cosines, then sines, with an error bound, infinite outside float64's range."""
        for cell, powers in self._products(positions):
            shifts = np.clip(powers, -1000, 1000).astype(np.int32)
            parts = (np.ldexp(part, shifts) for part in (cell.high, cell.low, cell.error))
            high, low, error = parts
            yield Bounded(high, low, np.where(powers == shifts, error + UNDERFLOW, np.inf))

    def _exact_cell(self, position: int, wave: int, sine: bool, dtype: DType) -> float:
        """Return an entry computed in 60-digit reals, rounded to ``dtype``, as a float."""
        value = self.exact_value(position, wave, sine=sine)
        if value.is_infinite() or value.adjusted() > 400:
            return -math.inf if value.is_signed() else math.inf
        if value.is_zero() or value.adjusted() < -400:
            return -0.0 if value.is_signed() else 0.0
        return nearest(*value.as_integer_ratio(), dtype)

    def exact_value(self, position: int, wave: int, *, sine: bool) -> Decimal:
        """Return an entry computed in 60-digit reals, rounded to 60 digits."""
        numerator, denominator = self._frequencies[wave].as_integer_ratio()
        numerator *= position
        if sine and numerator == 0:
            return Decimal(0)
        # A tiny sine begins that many bits further down.
        bits = 320 + max(0, denominator.bit_length() - numerator.bit_length())
        fixed = sine_cosine(numerator, denominator, bits)[0 if sine else 1]
        circular = exact.asarray([fixed]) / (1 << bits)
        exponent = exact.asarray([position - self._centre]) * self._rates[wave]
        # Rounding to fewer digits than are correct makes a value that is a short decimal exact.
        return _SHORTENED.plus((exact.exp(exponent) * circular * self._scale)[0])


def _rounded(cell: Bounded, powers: Reals, dtype: DType) -> tuple[StoredRows, Flags]:
    """Return entries m · 2^k rounded from double-double, and which of them are proven."""
    exponents = np.clip(powers + np.frexp(cell.high)[1], -5000, 5000)
    known = np.abs(cell.high) > 2 * cell.error
    past, none = known & (exponents > _LARGEST), known & (exponents < _SMALLEST)
    shifts = np.clip(powers, -1200, 1020).astype(np.int32)
    high, low, error = (np.ldexp(p, shifts) for p in (cell.high, cell.low, cell.error))
    # Covers what low parts lose below the smallest float64; only tiny entries stay undecided.
    rounded, proven = Bounded(high, low, error + 2.0**-1060).rounded(dtype)
    limits = narrow(np.copysign(np.where(past, np.inf, 0.0), cell.high), None, dtype)
    proven &= known & (powers == shifts)
    return np.where(past | none, limits, rounded), proven | past | none
