"""Waves whose amplitude depends on position: base^((p − centre)/span) · cos(p · ω), rounded.

This module computes correctly rounded entries of such waves, by Ziv's test in three tiers.

1. For formats narrower than float64, an entry is the product of a float64 cosine and a float64
   amplitude. The cosine is off by at most 4.1u of the scale (:mod:`posenc_cli.numerics.waves`; u =
   2^−53). The amplitude is off by 3.1u of itself: its two factors and their product are each
   rounded once. With the product's own rounding and that of entry ± margin, the error is 9.3u of
   amplitude and scale. The margin is 16u.
2. The rows of the few other entries, and all float64 entries, are double-double products of a point
   on the circle and a bounded exponential. The point is within 2^−90, as in
   :mod:`posenc_cli.numerics.judge`. The power of two of the exponential is kept apart, so that
   nothing overflows on the way.
3. The remaining entries, and float64 entries that are subnormal, are computed in 60-digit reals.

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
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.fixed_point import nearest, sine_cosine
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.rounding import narrow
from posenc_cli.numerics.waves import WaveTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.backends.registry import Arithmetic, Reduced, WaveFiller
    from posenc_cli.formulas.declare import Growth, Waves
    from posenc_cli.numerics.arrays import (
        Flags,
        Integers,
        RealRows,
        Reals,
        StoredRows,
    )
    from posenc_cli.numerics.placements import Placement

MARGIN = 2.0**-49  # 16u, see tier 1
PAIR_MARGIN = 2.0**-90  # of a point on the circle, see tier 2
_PROVEN_AMPLITUDES = 2.0**-800, 2.0**800
"""With amplitudes in this range, float64 underflows or overflows only if the entry does."""
CHUNK_CELLS = 1 << 16  # half a megabyte of float64: the entries of a chunk stay in the cache
PROVEN_CELLS = 1 << 13  # about twenty arrays, half as long, exist while they are computed
_LARGEST, _SMALLEST = 1026, -1080
"""Binary exponents past which an entry is infinite or zero in every format."""
_FASTEST = 2**30  # e to this power is outside every format
_SHORTENED = Context(60, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, traps=[])


class GrowingWaves:
    """Fills columns with cosines and sines whose amplitude depends on the position.

    Shape: as :class:`posenc_cli.backends.registry.WaveFiller`.
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
        self._margin = MARGIN * abs(float(self._scale))
        self._centre = growth.centre * waves.denominator
        self._table = WaveTable(self._frequencies, scale=self._scale)
        self._phasors = Phasors(self._frequencies, scale=self._scale)
        self._speeds = np.array([abs(float(speed)) for speed in self._frequencies])
        # At higher rates an entry is infinite or zero one position on: larger ones only overflow.
        self._bounded_rates = bounded.numbers(list(exact.clip(rates, -_FASTEST, _FASTEST)))
        self._low_rows = max(1, CHUNK_CELLS // max(1, waves.count))
        self._low: RealRows | None = None

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, correctly rounded to ``dtype``."""
        rows = np.arange(positions.size)
        if dtype.name != FLOAT64.name:
            rows = self._fill_from_float64(out, positions, placements, dtype)
        step = max(1, PROVEN_CELLS // max(1, out.shape[1]))
        for start in range(0, rows.size, step):
            some = rows[start : start + step]
            cells = self._rounded_cells(positions[some], dtype)
            for placement in placements:
                zero = placement.function == "zero" or self._scale == 0
                own = 0 if zero else cells[placement.function][:, placement.waves]
                out[some, placement.columns] = own

    def _fill_from_float64(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        dtype: DType,
    ) -> Integers:
        """Write the columns from float64 entries (tier 1); return the rows that are not proven."""
        cells = np.empty(out.shape)  # (positions, columns)
        self._table.fill(cells, positions, placements, dtype=FLOAT64)
        amplitudes = self._amplitudes(positions)  # (positions, waves)
        smallest, largest = _PROVEN_AMPLITUDES
        open_rows = np.zeros(positions.size, np.bool_)
        for placement in placements:
            target = out[:, placement.columns]
            if placement.function == "zero" or self._scale == 0:
                target[...] = 0
                continue
            factors = amplitudes[:, placement.waves]
            values, margin = cells[:, placement.columns] * factors, self._margin * factors
            target[...] = narrow(values + margin, None, dtype)
            word = np.dtype(f"u{dtype.itemsize}")
            other = narrow(values - margin, None, dtype).view(word)
            proven = (target.view(word) == other) & (factors > smallest) & (factors < largest)
            open_rows |= ~proven.all(axis=1)
        return np.flatnonzero(open_rows)

    def _amplitudes(self, positions: Integers) -> RealRows:
        """Return amplitudes with an error of 3.1u, or NaN if float64 cannot hold them.

        Shape: (positions, waves).
        """
        if self._low is None:
            self._low = self._powers(np.arange(self._low_rows))
        multiples, rest = np.divmod(positions - self._centre, self._low_rows)
        once, where = np.unique(multiples, return_inverse=True)
        result: RealRows = self._powers(once * self._low_rows)[where] * self._low[rest]
        return result

    def _powers(self, distances: Integers) -> RealRows:
        powers = bounded.exp(bounded.asarray(distances[:, None]) * self._bounded_rates)
        # If the bound of the error is not small, nothing can be proven.
        return np.where(powers.error < 2.0**-60 * np.abs(powers.high), powers.high, np.nan)

    def _rounded_cells(self, positions: Integers, dtype: DType) -> dict[str, StoredRows]:
        """Return cosines and sines of all waves, correctly rounded: tiers 2 and 3.

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
            high, low, error = (np.ldexp(p, shifts) for p in (cell.high, cell.low, cell.error))
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
