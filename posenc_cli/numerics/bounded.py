"""An array namespace of double-double numbers, each with an error bound.

This module evaluates a formula written over ``xp`` quickly. Every operation gives its result and a
bound of its error. Ziv's test then decides the rounding of most elements, and only the others need
:mod:`posenc_cli.numerics.exact`. Operations that are not supported here, above all comparisons,
raise TypeError or AttributeError; callers then compute exactly.

Error. A number is high + low ± error. The bounds of single operations follow Joldes, Muller and
Popescu (see :mod:`posenc_cli.numerics.double_double`), with room to spare. The bounds of exp, log,
sin and cos follow from the operations they use, plus the remainder of their series. Bounds are
summed in float64 and raised by 2^−40 of themselves each time, which is more than their rounding.
``UNDERFLOW`` covers the loss in the low part of a product below the smallest float64. Numbers that
overflow become NaN, whose rounding is never proven.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from posenc_cli.numerics import exact
from posenc_cli.numerics.double_double import fast_two_sum, product, two_sum
from posenc_cli.numerics.fixed_point import fixed, two_floats
from posenc_cli.numerics.fixed_point import pi as fixed_pi
from posenc_cli.numerics.rounding import narrow_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.numerics.arrays import Flags, Reals, StoredValues
    from posenc_cli.numerics.dtypes import DType

    Operator = Callable[["Bounded", Any], "Bounded"]

SUM = 2.0**-103
PRODUCT = 2.0**-101
QUOTIENT = 2.0**-99
NUMBER = 2.0**-105
UNDERFLOW = 2.0**-1000
_RAISED = 1 + 2.0**-40

_SMALL = 2.0**-20
"""If the error of a function's argument is larger, the error of its result is infinite."""
_EXP_HALVINGS = 8
_LARGEST_EXPONENT = 2.0**13
"""Exponents are limited to this size: beyond it, e^x is outside every number format."""


def _both_ways(operation: Callable[[Bounded, Bounded], Bounded]) -> tuple[Operator, Operator]:
    """Return an operation with the number on the left, and the one with it on the right."""
    return (
        lambda number, other: operation(number, _operand(other)),
        lambda number, other: operation(_operand(other), number),
    )


def _sum(left: Bounded, right: Bounded) -> Bounded:
    high, error = two_sum(left.high, right.high)
    high, low = fast_two_sum(high, error + (left.low + right.low))
    lost = SUM * (np.abs(left.high) + np.abs(right.high))
    return Bounded(high, low, lost + left.error + right.error)


def _product(left: Bounded, right: Bounded) -> Bounded:
    high, low = product((left.high, left.low), (right.high, right.low))
    lost = PRODUCT * np.abs(high) + UNDERFLOW
    carried = left.error * (np.abs(right.high) * _RAISED + right.error)
    carried = carried + right.error * np.abs(left.high) * _RAISED
    return Bounded(high, low, lost + carried)


def _quotient(left: Bounded, right: Bounded) -> Bounded:
    # Correct a float64 quotient once. It is then accurate to 8u² of itself, apart from the error of
    # the remainder, which is a product and a difference.
    high = left.high / right.high
    back = product((high, np.zeros_like(high)), (right.high, right.low))
    rest, error = two_sum(left.high, -back[0])
    rest = rest + (error + (left.low - back[1]))
    high, low = fast_two_sum(high, rest / right.high)
    smallest = np.abs(right.high) * (1 - 2.0**-40) - right.error
    carried = (left.error + np.abs(high) * right.error * _RAISED) / smallest
    lost = QUOTIENT * np.abs(high) + UNDERFLOW * (1 + 1 / smallest)
    return Bounded(high, low, np.where(smallest > 0, lost + carried, np.inf))


class Bounded:
    """Numbers high + low ± error, with elementwise arithmetic; immutable.

    Numbers of Python or :mod:`decimal` are taken exactly, or with a relative error of 2^−105.

    >>> third = 1 / asarray([3, 4])
    >>> third.high.tolist(), bool((third.error < 1e-29).all())
    ([0.3333333333333333, 0.25], True)
    """

    __slots__ = ("error", "high", "low")
    __hash__ = None  # type: ignore[assignment]
    # Stop NumPy from treating these numbers as objects to compute one by one.
    __array_ufunc__ = None

    def __init__(self, high: Any, low: Any, error: Any) -> None:
        self.high = high
        self.low = low
        self.error = error * _RAISED

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
        return tuple(np.shape(self.high))

    def __getitem__(self, index: Any) -> Bounded:
        return Bounded(self.high[index], self.low[index], self.error[index])

    def __neg__(self) -> Bounded:
        return Bounded(-self.high, -self.low, self.error)

    def __pos__(self) -> Bounded:
        return self

    def __abs__(self) -> Bounded:
        sign = np.where(self.high < 0, -1.0, 1.0)
        return Bounded(self.high * sign, self.low * sign, self.error)

    __add__, __radd__ = _both_ways(_sum)
    __sub__, __rsub__ = _both_ways(lambda left, right: _sum(left, -right))
    __mul__, __rmul__ = _both_ways(_product)
    __truediv__, __rtruediv__ = _both_ways(_quotient)
    __pow__, __rpow__ = _both_ways(lambda left, right: exp(log(left) * right))

    def _undecided(self, _other: object = None) -> NoReturn:
        raise TypeError("numbers with an error are not compared")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _undecided

    def rounded(self, dtype: DType) -> tuple[StoredValues, Flags]:
        """Return the numbers rounded to ``dtype``, in its storage, and which of them are proven."""
        values, proven = narrow_within(self.high, self.low, self.error, dtype)
        return values, proven & np.isfinite(self.high + self.error)


def _operand(value: Any) -> Bounded:
    if isinstance(value, Bounded):
        return value
    if isinstance(value, float):
        exact.check_float(value)
    if isinstance(value, (bool, int, float)) and float(value) == value:
        return Bounded(np.float64(value), np.float64(0), np.float64(0))
    if isinstance(value, (int, Decimal, Fraction)):
        return numbers([value])[0]
    raise TypeError(f"no number: {value!r}")


def numbers(values: Sequence[int | float | Decimal | Fraction]) -> Bounded:
    """Return exact numbers, with a relative error of at most 2^−105.

    Shape: (number of values,).
    """
    pairs = [two_floats(*fixed(value)) for value in values]
    high, low = np.array(pairs, np.float64).reshape(-1, 2).T
    # Numbers that float64 holds are exact; only those with more digits are cut.
    same = [float(h) == value and not n for (h, n), value in zip(pairs, values, strict=True)]
    return Bounded(high, low, np.where(same, 0.0, NUMBER * np.abs(high) + UNDERFLOW))


def asarray(values: Any, dtype: object = None) -> Bounded:  # noqa: ARG001
    """Return integers up to 2^53 as bounded numbers; bounded numbers are returned unchanged.

    >>> asarray([1, 2]).shape
    (2,)
    """
    if isinstance(values, Bounded):
        return values
    high = np.asarray(values).astype(np.float64)
    return Bounded(high, np.zeros_like(high), np.zeros_like(high))


def arange(start: int, stop: int | None = None, step: int = 1) -> Bounded:
    """Return the integers start, start + step, … below ``stop``."""
    return asarray(np.arange(start, stop, step) if stop is not None else np.arange(start))


def abs(values: Any) -> Bounded:  # noqa: A001 - the standard's name
    """Return the magnitude of each element."""
    return _operand(values).__abs__()


def exponential(values: Bounded) -> tuple[Bounded, Reals]:
    """Return e to the power of each element as m · 2^k: m from 0.7 to 1.42, and integers k.

    Exponents beyond ±8192 are limited to that.
    """
    size = np.clip(values.high, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    values = Bounded(size, np.where(size == values.high, values.low, 0.0), values.error)
    powers = np.rint(values.high / _LN2.high)
    zeros = np.zeros_like(powers)
    rest = values - Bounded(powers, zeros, zeros) * _LN2
    scale = 2.0**-_EXP_HALVINGS
    small = Bounded(rest.high * scale, rest.low * scale, rest.error * scale)
    # e^x − 1 for |x| < 2^−9: the terms left out are below x^10/10! < 2^−111.
    less_one = small + small * small * _series(small, _EXP_SERIES)
    left_out = np.where(rest.error < _SMALL, 2.0**-111, np.inf)
    less_one = Bounded(less_one.high, less_one.low, less_one.error + left_out)
    for _ in range(_EXP_HALVINGS):
        less_one = less_one * (less_one + 2)
    return less_one + 1, powers


def exp(values: Any) -> Bounded:
    """Return e to the power of each element."""
    mantissa, powers = exponential(_operand(values))
    exponents = np.clip(powers, -5000, 5000).astype(np.int32)
    high, low, error = (
        np.ldexp(part, exponents) for part in (mantissa.high, mantissa.low, mantissa.error)
    )
    return Bounded(high, low, error + UNDERFLOW)


def log(values: Any) -> Bounded:
    """Return the natural logarithm of each element; its error is infinite if one may be ≤ 0."""
    values = _operand(values)
    near = np.asarray(np.log(values.high), np.float64)
    zeros = np.zeros_like(near)
    # log x = y + log(x e^−y); the second logarithm is of a number 1 + δ, |δ| < 2^−40.
    rest = values * exp(Bounded(-near, zeros, zeros)) - 1
    close = np.abs(rest.high) < 2.0**-40
    result = Bounded(near, zeros, zeros) + (rest - rest * rest * 0.5)
    known = close & (values.high > 2 * values.error) & (rest.error < _SMALL)
    # The error of ``rest`` already includes dlog = dx/x; the series leaves out δ³/3.
    return Bounded(result.high, result.low, np.where(known, result.error + 2.0**-120, np.inf))


def sin(values: Any) -> Bounded:
    """Return the sine of each angle in radians."""
    return _circular(_operand(values), 0)


def cos(values: Any) -> Bounded:
    """Return the cosine of each angle in radians."""
    return _circular(_operand(values), 1)


def _circular(angles: Bounded, quarters: int) -> Bounded:
    """Return the sine of angles plus ``quarters`` quarter turns."""
    turned = np.rint(angles.high / _QUARTER.high)
    zeros = np.zeros_like(turned)
    rest = angles - Bounded(turned, zeros, zeros) * _QUARTER
    square = rest * rest
    # Within an eighth of a turn, the series leave out less than x^29/29! < 2^−112.
    sine = rest + rest * square * _series(square, _SIN_SERIES)
    cosine = 1 + square * _series(square, _COS_SERIES)
    quadrant = np.mod(turned + quarters, 4)
    odd = np.mod(quadrant, 2) == 1
    sign = np.where(quadrant > 1, -1.0, 1.0)
    parts = (
        np.where(odd, of_cosine, of_sine)
        for of_sine, of_cosine in (
            (sine.high * sign, cosine.high * sign),
            (sine.low * sign, cosine.low * sign),
            (sine.error, cosine.error),
        )
    )
    high, low, error = parts
    near = (np.abs(rest.high) < 0.79) & (rest.error < _SMALL) & (np.abs(turned) < 2.0**52)
    return Bounded(high, low, np.where(near, error + 2.0**-112, np.inf))


def _series(variable: Bounded, coefficients: Sequence[Bounded]) -> Bounded:
    """Return the polynomial of ``coefficients``, lowest first."""
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * variable + coefficient
    return total


def _inverse_factorials(first: int, count: int, step: int, sign: int) -> list[Bounded]:
    """Return the numbers sign^k / n! for n = first, first + step, …, and k from 1."""
    orders = range(first, first + count * step, step)
    fractions = [Fraction(sign ** (k + 1), math.factorial(n)) for k, n in enumerate(orders)]
    return [_operand(fraction) for fraction in fractions]


_EXP_SERIES = _inverse_factorials(2, 8, 1, 1)
_SIN_SERIES = _inverse_factorials(3, 13, 2, -1)
_COS_SERIES = _inverse_factorials(2, 14, 2, -1)
_LN2 = _operand(exact.log(2)[0])
_QUARTER = _operand(Fraction(fixed_pi(512), 2 << 512))
