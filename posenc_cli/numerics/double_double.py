"""Error-free transformations: pairs of float64 that hold a number to about 106 bits.

A number is an unevaluated sum high + low with |low| ≤ ulp(high)/2. The functions work on anything
with the operators of float64 arrays: NumPy arrays, or floats. No operation relies on fused
multiply-add or longer registers, so results are the same bytes on every platform. They hold if
neither products nor their low parts overflow or underflow; magnitudes between 2^−480 and 2^480 are
always safe. u = 2^−53 throughout.

Source: Dekker, A floating-point technique for extending the available precision (1971); Knuth, The
Art of Computer Programming 2, §4.2.2; Joldes, Muller and Popescu, Tight and rigorous error bounds
for basic building blocks of double-word arithmetic, ACM TOMS 44 (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# float64 arrays or floats: anything with + − × ÷ that rounds to nearest.
Real = Any

SPLITTER = 134217729.0  # 2^27 + 1


def two_sum(left: Real, right: Real) -> tuple[Real, Real]:
    """Return fl(left + right) and the exact error of that sum, for any magnitudes.

    >>> two_sum(1.0, 2.0**-60)
    (1.0, 8.673617379884035e-19)
    """
    total = left + right
    moved = total - left
    return total, (left - (total - moved)) + (right - moved)


def fast_two_sum(large: Real, small: Real) -> tuple[Real, Real]:
    """Return fl(large + small) and its exact error, if |large| ≥ |small| or large is 0.

    total − large is exact: total is within a factor 2 of large, or small equals it (Sterbenz).

    >>> fast_two_sum(1.0, 2.0**-60)
    (1.0, 8.673617379884035e-19)
    """
    total = large + small
    return total, small - (total - large)


def split(value: Real) -> tuple[Real, Real]:
    """Return high and low, of at most 26 bits each, with high + low = value exactly.

    Products of two such halves are exact, which is what `two_product` needs.

    >>> split(1.0 + 2.0**-30)
    (1.0, 9.313225746154785e-10)
    """
    scaled = value * SPLITTER
    high = scaled - (scaled - value)
    return high, value - high


def two_product(left: Real, right: Real) -> tuple[Real, Real]:
    """Return fl(left · right) and the exact error of that product (Dekker, without FMA).

    The four products of the halves are exact, so each subtraction below is exact too, largest
    first.

    >>> two_product(1.0 + 2.0**-30, 1.0 + 2.0**-30)
    (1.0000000018626451, 8.673617379884035e-19)
    """
    return _two_product(left, split(left), right, split(right))


def _two_product(
    left: Real, left_halves: tuple[Real, Real], right: Real, right_halves: tuple[Real, Real]
) -> tuple[Real, Real]:
    left_high, left_low = left_halves
    right_high, right_low = right_halves
    product = left * right
    error = left_high * right_high - product
    error = error + left_high * right_low
    error = error + left_low * right_high
    return product, error + left_low * right_low


def product(left: Sequence[Real], right: Sequence[Real]) -> tuple[Real, Real]:
    """Return the product of two pairs, with a relative error below 2^−102.

    high · high is exact as a pair. The two cross terms, below 2u each, are rounded three times (≤
    8u²). low · low (≤ u²) is left out. Together that is under 10u² < 2^−102.

    >>> product((2.0, 0.0), (1.5, 2.0**-60))
    (3.0, 1.734723475976807e-18)
    """
    high, error = two_product(left[0], right[0])
    return fast_two_sum(high, error + (left[0] * right[1] + left[1] * right[0]))


def complex_product(left: Sequence[Real], right: Sequence[Real]) -> tuple[Real, Real, Real, Real]:
    """Return the product of two complex pairs (real high, real low, imaginary high, low).

    Each part is a sum of two products p + q, with an error below 2^−102 · (|p| + |q|). The two
    products and the sum of their high parts are exact as pairs. In units of u² (|p| + |q|), the
    cross terms are off by at most 4, their difference by 2, the difference of the errors by 1, and
    the two sums by 3 and 4. low · low, left out, is 1. Together that is 15, below 16. For unit
    factors the modulus of the error is therefore below 2^−101. Multiplying by exactly 1 changes
    nothing: every low part it adds is 0.

    >>> complex_product((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    (-1.0, 0.0, 0.0, 0.0)
    """
    a, a_low, b, b_low = left
    c, c_low, d, d_low = right
    a_halves, b_halves, c_halves, d_halves = split(a), split(b), split(c), split(d)

    first, first_error = _two_product(a, a_halves, c, c_halves)
    second, second_error = _two_product(b, b_halves, d, d_halves)
    real, error = two_sum(first, -second)
    cross = (a * c_low + a_low * c) - (b * d_low + b_low * d)
    real, real_low = two_sum(real, error + ((first_error - second_error) + cross))

    first, first_error = _two_product(a, a_halves, d, d_halves)
    second, second_error = _two_product(b, b_halves, c, c_halves)
    imaginary, error = two_sum(first, second)
    cross = (a * d_low + a_low * d) + (b * c_low + b_low * c)
    imaginary, imaginary_low = two_sum(imaginary, error + ((first_error + second_error) + cross))
    return real, real_low, imaginary, imaginary_low


def quotient(numerator: Real, denominator: Real) -> tuple[Real, Real]:
    """Return fl(numerator / denominator) and its remainder ``low``, to about 50 bits.

    The remainder numerator − high · denominator is exactly a float64. It has no bit below the last
    place of either, and is at most half a unit in the last place of high times the denominator.
    `two_product` finds it without rounding. ``low`` is that remainder divided by the denominator,
    with a relative error of 2u. So its sign is the sign of the remainder, and it is 0 only if the
    division is exact.

    >>> quotient(1.0, 3.0)
    (0.3333333333333333, 1.850371707708594e-17)
    """
    high = numerator / denominator
    back, error = two_product(high, denominator)
    return high, ((numerator - back) - error) / denominator
