"""An array namespace of decimal numbers: formulas over ``xp`` to 60 digits and more.

Vectors of `decimal.Decimal` offer the function names of the array-API standard. A rule such as
``1 / base ** (xp.arange(0, dim, 2) / dim)`` therefore works with this module, NumPy or torch as
``xp``. Here it is correct to at least 60 significant digits. Integers, fractions and decimals are
exact; a float is the binary number it holds. Division, square root, exponential, logarithm and
powers are computed to 96 digits and rounded to 80. So results that are short decimals, such as
``10_000 ** 0.5``, are exactly those. Comparisons give vectors of bool.

Calculations use their own context: they neither depend on nor change the caller's precision,
rounding and traps, and threads do not affect each other. As in NumPy, dividing by zero gives an
infinity or NaN rather than an exception. The module imports neither NumPy nor anything that does.

This module cannot control what Python computes before a vector sees it: arithmetic of two elements,
which are decimals, and of floats. Code of schemes runs inside `formula`: there decimals keep the
working digits, and a float that looks rounded is refused.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache, partial
from numbers import Integral, Rational
from typing import TYPE_CHECKING, Any, overload

from posenc_cli.numerics.fixed_point import sine_cosine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Operator = Callable[[Any, Any], "Vector"]

DIGITS = 80
WORKING_DIGITS = 96

float64 = "float64"
int64 = "int64"


def _context(digits: int) -> Context:
    # The widest exponents: a frequency of 10^−4000 is an ordinary number.
    return Context(digits, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, traps=[])


_working = _context(WORKING_DIGITS)
_result = _context(DIGITS)

ZERO = Decimal(0)

MEANT_BITS = 32  # a float of at most this many bits, such as a float32, is meant exactly
MEANT_DIGITS = 15  # float64 tells all decimal numbers of this many digits apart

_given: ContextVar[frozenset[float] | None] = ContextVar("given", default=None)
"""The significands of the floats that the scheme of the current formula was given."""


@contextmanager
def formula(given: Iterable[float] = ()) -> Iterator[None]:
    """Run code of a scheme that was ``given`` these floats without losing exactness.

    Decimals are computed in the working context, not the caller's. In an operation with a vector, a
    float is the number it holds if it was given or is short. A float that fills float64 to its last
    bits, such as ``math.pi`` or ``2 ** 0.5``, was rounded and raises TypeError. ``asarray`` states
    that exactly that number is meant.
    """
    token = _given.set(frozenset(map(_significand, given)))
    try:
        with localcontext(_working):
            yield
    finally:
        _given.reset(token)


def check_float(value: float) -> None:
    """Refuse a float that looks rounded, unless the current formula was given it.

    >>> with formula(given=[0.1 + 0.2]):
    ...     check_float(-0.6000000000000001), check_float(0.1)
    ...     check_float(2 ** 0.5)
    Traceback (most recent call last):
      ...
    TypeError: the float 1.4142135623730951 is rounded: compute it over xp (xp.pi, xp.sqrt, …), or \
say xp.asarray(1.4142135623730951) if exactly that number is meant
    """
    given = _given.get()
    if given is None or not math.isfinite(value):
        return
    significand = _significand(value)
    if significand in given or (significand * 2.0**MEANT_BITS).is_integer():
        return
    if float(f"{value:.{MEANT_DIGITS}g}") != value:
        value = float(value)
        raise TypeError(
            f"the float {value!r} is rounded: compute it over xp (xp.pi, xp.sqrt, …), or "
            f"say xp.asarray({value!r}) if exactly that number is meant"
        )


def _significand(value: float) -> float:
    return math.frexp(math.fabs(value))[0]


_SCALARS = (bool, int, float, Decimal, Rational)
_KEPT = (Decimal, bool)


def _is_scalar(value: Any) -> bool:
    # NumPy's float32 and other narrow floats are not Python floats.
    return isinstance(value, _SCALARS) or hasattr(value, "as_integer_ratio")


def _decimal(value: Any) -> Decimal:
    if type(value) is Decimal:  # nearly all values; the checks below take longer
        return value
    if isinstance(value, Vector):
        (value,) = value
    if isinstance(value, Decimal):
        return value
    if isinstance(value, (int, Integral)):
        return Decimal(int(value))
    if isinstance(value, Rational):
        return _working.divide(Decimal(int(value.numerator)), Decimal(int(value.denominator)))
    if not _is_scalar(value):
        raise TypeError(f"no number: {value!r}")
    if isinstance(value, float) or float(value) == value:
        return Decimal.from_float(float(value))
    return _working.divide(*map(Decimal, value.as_integer_ratio()))


def _aligned(*operands: Any) -> Iterator[tuple[Any, ...]]:
    """Return rows of operands, with numbers and single elements repeated to the common length."""
    for operand in operands:
        if isinstance(operand, float):
            check_float(operand)
    rows = [tuple(value) if isinstance(value, Vector) else (value,) for value in operands]
    length = max((len(row) for row in rows if len(row) != 1), default=1)
    if any(len(row) == 0 for row in rows):
        length = 0
    return zip(*(row * length if len(row) == 1 else row for row in rows), strict=True)


def _operable(*operands: Any) -> bool:
    return all(isinstance(value, Vector) or _is_scalar(value) for value in operands)


def _paired(operation: Callable[[Decimal, Decimal], Decimal], left: Any, right: Any) -> Vector:
    if not _operable(left, right):
        return NotImplemented  # type: ignore[no-any-return]
    return Vector(operation(_decimal(a), _decimal(b)) for a, b in _aligned(left, right))


def _paired_truths(operation: Callable[[Any, Any], bool], left: Any, right: Any) -> Vector:
    return Vector(bool(operation(a, b)) for a, b in _aligned(left, right))


def _compared(left: Any, right: Any, accepted: tuple[int, ...]) -> Vector:
    if not _operable(left, right):
        return NotImplemented  # type: ignore[no-any-return]
    return Vector(
        any(order == sign for sign in accepted)
        for order in (
            # Use Decimal.compare, not <, which would use the caller's traps for NaN.
            _decimal(a).compare(_decimal(b), _result)
            for a, b in _aligned(left, right)
        )
    )


def _powers(left: Any, right: Any) -> Vector:
    if not _operable(left, right):
        return NotImplemented  # type: ignore[no-any-return]

    def power(base: Decimal, exponent: Decimal) -> Decimal:
        positive = base.compare(ZERO, _result) == 1
        if not positive or exponent == exponent.to_integral_value():
            return _result.plus(_working.power(base, exponent))
        return _real_power(base, exponent)

    return _paired(power, left, right)


# The slowest operation, and callers that try many rules ask for the same logarithms again.
@lru_cache(4096)
def _logarithm(value: Decimal) -> Decimal:
    return _working.ln(value)


@lru_cache(4096)
def _real_power(base: Decimal, exponent: Decimal) -> Decimal:
    return _result.plus(_working.exp(_working.multiply(exponent, _logarithm(base))))


def _both_ways(operation: Operator) -> tuple[Operator, Operator]:
    """Return an operation with the vector on the left, and the one with the vector on the right."""
    return (
        lambda vector, other: operation(vector, other),  # noqa: PLW0108 - a function binds the vector
        lambda vector, other: operation(other, vector),
    )


def _comparison(*accepted: int) -> Operator:
    return lambda vector, other: _compared(vector, other, accepted)


class Vector:
    """A vector of numbers (or truth values) with elementwise arithmetic; immutable.

    In an operation, a number or a vector of one element is repeated to the length of the other
    operand.

    >>> 1 / Vector([2, 4]) + Vector([0.25, 0.5])
    Vector([Decimal('0.75'), Decimal('0.75')])
    """

    __slots__ = ("_values",)
    __hash__ = None  # type: ignore[assignment]
    # Stop NumPy from treating vectors as objects to compute one by one, in the caller's context.
    __array_ufunc__ = None

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = tuple(value if type(value) in _KEPT else _decimal(value) for value in values)

    def __repr__(self) -> str:
        return f"Vector({list(self._values)!r})"

    @property
    def shape(self) -> tuple[int]:
        """The number of elements, as a shape."""
        return (len(self._values),)

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self._values)

    @property
    def ndim(self) -> int:
        """1: a vector has one axis."""
        return 1

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Vector | Sequence[int]) -> Vector: ...
    def __getitem__(self, index: int | slice | Vector | Sequence[int]) -> Any:
        if isinstance(index, slice):
            return Vector(self._values[index])
        if isinstance(index, Vector) and all(isinstance(pick, bool) for pick in index):
            return Vector(v for v, pick in zip(self._values, index, strict=True) if pick)
        if isinstance(index, (Vector, list, tuple)):
            return Vector(self._values[int(position)] for position in index)
        return self._values[index]  # type: ignore[index]

    def __bool__(self) -> bool:
        if len(self._values) != 1:
            raise ValueError("the truth value of a vector of several elements is ambiguous")
        return bool(self._values[0])

    def __float__(self) -> float:
        return float(self._only())

    def __int__(self) -> int:
        return int(self._only())

    def _only(self) -> Any:
        if len(self._values) != 1:
            raise TypeError("only a vector of one element is a number")
        return self._values[0]

    def __neg__(self) -> Vector:
        return Vector(value.copy_negate() if value else value for value in self._numbers())

    def __pos__(self) -> Vector:
        return self

    def __abs__(self) -> Vector:
        return Vector(value.copy_abs() for value in self._numbers())

    def _numbers(self) -> Iterator[Decimal]:
        return map(_decimal, self._values)

    __add__, __radd__ = _both_ways(partial(_paired, _result.add))
    __sub__, __rsub__ = _both_ways(partial(_paired, _result.subtract))
    __mul__, __rmul__ = _both_ways(partial(_paired, _result.multiply))
    __truediv__, __rtruediv__ = _both_ways(partial(_paired, _result.divide))
    __floordiv__, __rfloordiv__ = _both_ways(lambda a, b: floor(_paired(_result.divide, a, b)))
    __mod__, __rmod__ = _both_ways(lambda a, b: asarray(a) - floor(asarray(a) / b) * b)
    __pow__, __rpow__ = _both_ways(_powers)

    __lt__ = _comparison(-1)
    __le__ = _comparison(-1, 0)
    __gt__ = _comparison(1)
    __ge__ = _comparison(1, 0)

    def __eq__(self, other: object) -> Vector:  # type: ignore[override]
        return _compared(self, other, (0,))

    def __ne__(self, other: object) -> Vector:  # type: ignore[override]
        equal = _compared(self, other, (0,))
        return equal if equal is NotImplemented else ~equal

    def __and__(self, other: Any) -> Vector:
        return _paired_truths(lambda left, right: left and right, self, other)

    def __or__(self, other: Any) -> Vector:
        return _paired_truths(lambda left, right: left or right, self, other)

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Vector:
        return Vector(not value for value in self._values)


def _each(operation: Callable[[Decimal], Decimal], values: Any) -> Vector:
    if isinstance(values, float):
        check_float(values)
    return Vector(operation(_decimal(value)) for value in asarray(values))


def asarray(values: Any, dtype: object = None) -> Vector:  # noqa: ARG001
    """Return numbers as a vector; a single number becomes a vector of one.

    ``dtype`` is accepted because formulas are shared with other namespaces: integers and reals are
    the same decimals here.

    >>> asarray([1, 0.5])
    Vector([Decimal('1'), Decimal('0.5')])
    """
    if isinstance(values, Vector):
        return values
    return Vector([values] if _is_scalar(values) else values)


def checked_vector(values: Any) -> Vector:
    """Return the result of a formula as a vector; its floats must not look rounded.

    >>> with formula(given=[0.1 + 0.2]):
    ...     list(checked_vector([0.5, 0.1 + 0.2])) == [0.5, 0.1 + 0.2]
    True

    Raises: TypeError for a float that looks rounded.
    """
    if isinstance(values, Vector):
        return values
    numbers = [values] if _is_scalar(values) else list(values)
    for number in numbers:
        if isinstance(number, float):
            check_float(number)
    return Vector(numbers)


pi = asarray(
    Decimal(
        "3.141592653589793238462643383279502884197169399375"
        "1058209749445923078164062862089986280348253421170679"
    )
)
"""π, as a vector of one element: a decimal would be computed in the caller's context."""


def arange(start: Any, stop: Any = None, step: Any = 1) -> Vector:
    """Return start, start + step, … below ``stop`` (above it for a negative step).

    >>> arange(0, 6, 2)
    Vector([Decimal('0'), Decimal('2'), Decimal('4')])
    """
    first, last = (0, start) if stop is None else (start, stop)
    begin, by = _decimal(first), _decimal(step)
    steps = _result.divide(_result.subtract(_decimal(last), begin), by)
    count = max(0, int(steps.to_integral_value("ROUND_CEILING")))
    return Vector(_result.fma(Decimal(index), by, begin) for index in range(count))


def zeros(shape: int | tuple[int], dtype: object = None) -> Vector:  # noqa: ARG001
    """Return a vector of zeros.

    >>> zeros(2)
    Vector([Decimal('0'), Decimal('0')])
    """
    return full(shape, 0)


def ones(shape: int | tuple[int], dtype: object = None) -> Vector:  # noqa: ARG001
    """Return a vector of ones.

    >>> ones(2)
    Vector([Decimal('1'), Decimal('1')])
    """
    return full(shape, 1)


def full(shape: int | tuple[int], value: Any) -> Vector:
    """Return a vector that repeats ``value``.

    >>> full(2, 0.5)
    Vector([Decimal('0.5'), Decimal('0.5')])
    """
    (length,) = shape if isinstance(shape, tuple) else (shape,)
    return Vector([value] * length)


def concat(vectors: Sequence[Any], axis: int = 0) -> Vector:  # noqa: ARG001
    """Return vectors joined end to end.

    >>> concat([ones(1), zeros(1)])
    Vector([Decimal('1'), Decimal('0')])
    """
    return Vector(value for vector in vectors for value in asarray(vector))


def exp(values: Any) -> Vector:
    """Return e to the power of each element."""
    return _each(lambda value: _result.plus(_working.exp(value)), values)


def log(values: Any) -> Vector:
    """Return the natural logarithm of each element: −Infinity at 0, NaN below."""
    return _each(lambda value: _result.plus(_logarithm(value)), values)


def sqrt(values: Any) -> Vector:
    """Return the square root of each element: NaN below 0."""
    return _each(lambda value: _result.plus(_working.sqrt(value)), values)


def floor(values: Any) -> Vector:
    """Return the largest integer ≤ each element."""
    return _each(lambda value: value.to_integral_value("ROUND_FLOOR", _result), values)


def ceil(values: Any) -> Vector:
    """Return the smallest integer ≥ each element."""
    return _each(lambda value: value.to_integral_value("ROUND_CEILING", _result), values)


def round(values: Any) -> Vector:  # noqa: A001 - the standard's name
    """Return the integer nearest to each element; ties go to the even one.

    >>> round([0.5, 1.5, -2.6])
    Vector([Decimal('0'), Decimal('2'), Decimal('-3')])
    """
    return _each(lambda value: value.to_integral_value("ROUND_HALF_EVEN", _result), values)


def sin(values: Any) -> Vector:
    """Return the sine of each angle in radians, to 80 digits after the point."""
    return _each(lambda value: _circular(value, 0), values)


def cos(values: Any) -> Vector:
    """Return the cosine of each angle in radians, to 80 digits after the point."""
    return _each(lambda value: _circular(value, 1), values)


def _circular(value: Decimal, which: int) -> Decimal:
    bits = 320
    fixed = sine_cosine(*value.as_integer_ratio(), bits)[which]
    return _result.plus(_working.divide(Decimal(fixed), Decimal(1 << bits)))


def minimum(left: Any, right: Any) -> Vector:
    """Return the smaller of each pair."""
    return where(asarray(left) <= right, left, right)


def maximum(left: Any, right: Any) -> Vector:
    """Return the larger of each pair."""
    return where(asarray(left) >= right, left, right)


def clip(values: Any, low: Any = None, high: Any = None) -> Vector:
    """Return each element, limited to ``low`` and ``high``.

    >>> clip([-1, 0.5, 2], 0, 1)
    Vector([Decimal('0'), Decimal('0.5'), Decimal('1')])
    """
    bounded = asarray(values)
    if low is not None:
        bounded = maximum(bounded, low)
    return bounded if high is None else minimum(bounded, high)


def where(condition: Vector, chosen: Any, otherwise: Any) -> Vector:
    """Return elements of ``chosen`` where the condition holds, else of ``otherwise``.

    >>> where(arange(3) > 1, 1, 0)
    Vector([Decimal('0'), Decimal('0'), Decimal('1')])
    """
    rows = _aligned(condition, chosen, otherwise)
    return Vector(yes if holds else no for holds, yes, no in rows)


def abs(values: Any) -> Vector:  # noqa: A001 - the standard's name
    """Return the magnitude of each element."""
    return asarray(values).__abs__()
