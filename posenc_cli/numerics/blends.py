"""Sums of rows by exact weights, each correctly rounded.

This module computes rounded entries from a table and rational weights. A weight is a pair of
float64 and a bound of its remainder; products and sums are pairs too. The parts that each operation
drops are added up, so an entry that dropped nothing is known exactly, even if it is a tie. The few
entries whose dropped parts might matter are summed again in fractions.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.double_double import product, two_product, two_sum
from posenc_cli.numerics.rounding import narrow, round_exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, StoredRows
    from posenc_cli.numerics.dtypes import DType

_SAFE = 2.0**-400, 2.0**400
"""Magnitudes of values whose products with weights have exact low parts."""
_PRODUCT_ERROR = 2.0**-101
"""Relative to a product of two weights; the error of `double_double.product` is below 2^−102."""
_SUM_ERROR = 1 + 2.0**-40
"""Covers the roundings of a bound itself, fewer than a thousand."""


class RationalWeights(Record):
    """Rational weights as pairs of float64, and bounds of their remainders.

    Shapes: (outputs, taps) each. The weights themselves are ``numerators`` over ``denominators``,
    one row for each output, which has one denominator. A bound is 0 if the pair is exact.
    """

    numerators: Sequence[Sequence[int]]
    denominators: Sequence[int]
    high: RealRows
    low: RealRows
    bound: RealRows

    @classmethod
    def of(
        cls, numerators: Sequence[Sequence[int]], denominators: Sequence[int]
    ) -> RationalWeights:
        """Return the weights numerator / denominator, one row per output, all with as many taps."""
        parts = np.array(
            [
                [_pair(numerator, denominator) for numerator in row]
                for row, denominator in zip(numerators, denominators, strict=True)
            ],
            dtype=np.float64,
        )  # (outputs, taps, 3)
        return cls(numerators, denominators, *np.moveaxis(parts, -1, 0))

    def exact(self, output: int) -> list[Fraction]:
        """Return the weights of one output."""
        return [
            Fraction(numerator, self.denominators[output]) for numerator in self.numerators[output]
        ]


def _pair(numerator: int, denominator: int) -> tuple[float, float, float]:
    """Return a fraction as the nearest float64, its nearest remainder, and a bound of the rest.

    >>> _pair(3, 4), _pair(1, 3)[:2]
    ((0.75, 0.0, 0.0), (0.3333333333333333, 1.850371707708594e-17))
    """
    high = numerator / denominator
    above, below = high.as_integer_ratio()
    rest = numerator * below - above * denominator
    if rest == 0:
        return high, 0.0, 0.0
    low = rest / (denominator * below)
    above, below_low = low.as_integer_ratio()
    exact = rest * below_low == above * denominator * below
    return high, low, 0.0 if exact else abs(low) * 2.0**-52


class Blend(Record):
    """Outputs that are weighted sums of a table's rows, along one axis or two.

    ``rows`` are indices of the table's rows, (outputs, taps). With two axes, ``second`` are the
    weights along the other axis, for one output only. The taps are then all pairs; those of
    ``second`` vary more slowly.
    """

    rows: Integers
    weights: RationalWeights
    second: RationalWeights | None = None

    def _parts(self) -> tuple[RealRows, RealRows, RealRows]:
        """Return the weights as pairs, and bounds of their remainders. Shapes: (outputs, taps)."""
        first = self.weights
        if self.second is None:
            return first.high, first.low, first.bound
        outer = [part[0][None, :, None] for part in _parts_of(self.second)]  # (1, second, 1)
        inner = [part[:, None, :] for part in _parts_of(first)]  # (outputs, 1, first)
        high, low = product(outer[:2], inner[:2])
        exact = (outer[1] == 0) & (inner[1] == 0)
        size = np.abs(outer[0]) * inner[2] + np.abs(inner[0]) * outer[2]
        bound = np.where(exact, 0.0, np.abs(high) * _PRODUCT_ERROR + 2 * size)
        count = len(first.denominators)
        return high.reshape(count, -1), low.reshape(count, -1), bound.reshape(count, -1)

    def _exact(self, output: int) -> list[Fraction]:
        inner = self.weights.exact(output)
        if self.second is None:
            return inner
        return [outer * weight for outer in self.second.exact(0) for weight in inner]

    def rounded(self, table: Any, dtype: DType) -> StoredRows:
        """Return the sums over a table of finite values, (rows, columns), correctly rounded.

        Shape: (outputs, columns), in the storage of ``dtype``.
        """
        shape = self.rows.shape[0], table.shape[1]
        high, low, bound = (np.zeros(shape) for _ in range(3))
        unsafe = np.zeros(shape, np.bool_)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for tap, parts in enumerate(zip(*(part.T for part in self._parts()), strict=True)):
                values = np.asarray(table[self.rows[:, tap]], np.float64)  # (outputs, columns)
                size = np.abs(values)
                unsafe |= (size != 0) & ((size < _SAFE[0]) | (size > _SAFE[1]))
                weight, weight_low, missing = (part[:, None] for part in parts)
                terms = [*two_product(values, weight)]
                if weight_low.any():
                    terms += two_product(values, weight_low)
                high, rest = two_sum(high, terms[0])
                for term in (rest, *terms[1:]):
                    low, dropped = two_sum(low, term)
                    bound += np.abs(dropped)
                bound += size * missing
            high, low = two_sum(high, low)
            bound *= _SUM_ERROR
            cells = narrow(high, low, dtype)
            open_cells = _open(high, low, bound, dtype) | unsafe
        for output, column in zip(*map(np.ndarray.tolist, np.nonzero(open_cells)), strict=True):
            values = table[self.rows[output], column].tolist()
            pairs = zip(values, self._exact(output), strict=True)
            total = sum((Fraction(value) * weight for value, weight in pairs), Fraction(0))
            cells[output, column] = round_exact([total], dtype)[0]
        return cells


def _parts_of(weights: RationalWeights) -> tuple[RealRows, RealRows, RealRows]:
    return weights.high, weights.low, weights.bound


def _open(high: RealRows, low: RealRows, bound: RealRows, dtype: DType) -> Flags:
    """Return where a sum within ``bound`` of high + low may round to another number."""
    inexact = bound != 0
    below, above = (
        narrow(high, np.where(inexact, np.nextafter(low + side * bound, side * np.inf), low), dtype)
        for side in (-1, 1)
    )
    flags: Flags = below != above
    return flags
