"""a · b + c rounded once (fused multiply-add), in float32 and float64, on any machine.

Compilers fuse products into sums if the processor can (x86 since AVX2), and NumPy has no such
operation. Here the product is held exactly, as one float64 or as two. The sum is rounded to odd
before its one rounding to nearest, so the result is the rounding of the exact sum.

Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd, IEEE Transactions on Computers 57 (2008).
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.double_double import two_product, two_sum
from posenc_cli.numerics.rounding import to_odd

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Floats, Reals

_SAFE = 2.0**-400, 2.0**400
"""Magnitudes of float64 factors and addends whose products have exact low parts."""


def fused(left: Floats, right: Floats, addend: Floats) -> Floats:
    """Return left · right + addend, rounded once.

    All three are finite, of one format, float32 or float64, and of shapes that broadcast. The sign
    of a zero may differ from a processor's.

    Shape: the common one.

    >>> import numpy as np
    >>> tenth = np.float32([0.1])
    >>> fused(tenth, tenth, np.float32([-0.01])), tenth * tenth - np.float32(0.01)
    (array([5.2154064e-10], dtype=float32), array([9.313226e-10], dtype=float32))
    """
    left, right, addend = np.broadcast_arrays(left, right, addend)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        if left.dtype == np.float32:
            product = left.astype(np.float64) * right.astype(np.float64)  # exact: 48 bits
            total, rest = two_sum(product, addend.astype(np.float64))
            single: Floats = to_odd(total, rest).astype(np.float32)
            return single
        return _fused_float64(left, right, addend)


def _fused_float64(left: Any, right: Any, addend: Any) -> Reals:
    high, low = two_product(left, right)
    sum_high, sum_low = two_sum(addend, low)
    total, rest = two_sum(high, sum_high)
    values: Reals = np.asarray(total + to_odd(*two_sum(sum_low, rest)))
    unsafe = np.zeros(values.shape, np.bool_)
    for operand in (left, right, addend):
        size = np.abs(operand)
        unsafe |= (size != 0) & ((size < _SAFE[0]) | (size > _SAFE[1]))
    if unsafe.any():
        values[unsafe] = [
            _rounded(Fraction(a) * Fraction(b) + Fraction(c))
            for a, b, c in zip(
                left[unsafe].tolist(), right[unsafe].tolist(), addend[unsafe].tolist(), strict=True
            )
        ]
    return values


def _rounded(value: Fraction) -> float:
    """Return a number as float64; a number past the largest is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
