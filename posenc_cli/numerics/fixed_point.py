"""Sines and cosines in integers, at any precision: the last resort for rounding.

This module computes with Python integers alone: π, sine and cosine of a rational angle, and single
entries correctly rounded to a number format. It also computes the doublings from which the
double-double tables of :mod:`posenc_cli.numerics.phasors` start. It does not need NumPy.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from posenc_cli.numerics.dtypes import DType

CosOrSin = Literal["cos", "sin"]

GUARD_BITS = 24
_ERROR = 2  # units in the last place that `sine_cosine` promises
_KNOWN_BITS = 240  # bits known of a frequency, which approximates a real number to 80 digits
_MOST_BITS = 2048  # of a sum: one still undecided counts as a tie, as far as frequencies are known

_largest_pi = (0, 3)


def _arctangent_of_inverse(divisor: int, bits: int) -> int:
    power = (1 << bits) // divisor
    total, square, odd = power, divisor * divisor, 1
    while power:
        power //= -square
        odd += 2
        total += power // odd
    return total


def pi(bits: int) -> int:
    """Return π · 2^bits, within one unit.

    The longest value computed so far is cached, and shorter ones are cut from it.

    Source: Machin's formula, π = 16 arctan(1/5) − 4 arctan(1/239).

    >>> pi(16) / 2**16
    3.1415863037109375
    """
    global _largest_pi  # noqa: PLW0603 - one tuple, replaced at once, so threads may race harmlessly
    known, value = _largest_pi
    if known < bits:
        known = bits + 64
        work = known + 32
        fifth, other = _arctangent_of_inverse(5, work), _arctangent_of_inverse(239, work)
        value = (16 * fifth - 4 * other) >> 32
        _largest_pi = (known, value)
    return value >> (known - bits)


def sine_cosine(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Return sin and cos of the angle numerator/denominator, times 2^bits, each within 2 units.

    The angle is in radians, of any size and either sign; ``denominator`` is positive. It is reduced
    by multiples of π/2. For every extra integer bit of the angle, one more bit of π is used. Then a
    Taylor series is summed with ``GUARD_BITS`` extra bits. Each of its n terms is truncated to one
    unit of the longer format and carries the error of the terms before it: less than 2n units
    together. The reduction adds at most 3. 2n + 3 < 2^24 for every precision that fits in memory.

    Units: radians in, fixed point with ``bits`` fractional bits out.

    >>> sine, cosine = sine_cosine(1, 2, 80)
    >>> sine / 2**80, cosine / 2**80
    (0.479425538604203, 0.8775825618903728)
    """
    work = bits + GUARD_BITS
    angle = (numerator << work) // denominator
    quadrant = 0
    if abs(angle) > 3 << (work - 2):
        extra = angle.bit_length() - work + 2
        angle = (numerator << (work + extra)) // denominator
        half_turn = pi(work + extra)
        quadrant = (2 * angle + (half_turn >> 1)) // half_turn
        angle = (2 * angle - quadrant * half_turn) >> (extra + 1)
    sine, cosine, term, order = 0, 0, 1 << work, 0
    while term not in (0, -1):
        if order & 1:
            sine += -term if order & 2 else term
        else:
            cosine += -term if order & 2 else term
        order += 1
        term = (term * angle >> work) // order
    sine, cosine = sine >> GUARD_BITS, cosine >> GUARD_BITS
    turned = ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))
    return turned[quadrant & 3]


def nearest(numerator: int, denominator: int, dtype: DType) -> float:
    """Return the value of ``dtype`` nearest to a fraction, ties to even, as a float.

    ``denominator`` is positive. A float holds every value of every real format exactly. Values past
    the largest number become infinite, and values that round to zero keep their sign.

    >>> from posenc_cli.numerics.dtypes import BFLOAT16
    >>> nearest(1, 3, BFLOAT16)
    0.333984375
    """
    size = abs(numerator)
    if size == 0:
        return 0.0
    sign = -1.0 if numerator < 0 else 1.0
    exponent = size.bit_length() - denominator.bit_length()
    if (size << max(0, -exponent)) < (denominator << max(0, exponent)):
        exponent -= 1
    unit = max(exponent, dtype.min_exponent) - dtype.precision + 1
    quotient, remainder = divmod(size << max(0, -unit), denominator << max(0, unit))
    twice = 2 * remainder
    divisor = denominator << max(0, unit)
    if twice > divisor or (twice == divisor and quotient & 1):
        quotient += 1
    if exponent > dtype.max_exponent or (quotient.bit_length() - 1 + unit) > dtype.max_exponent:
        return sign * math.inf
    return sign * math.ldexp(quotient, unit)


def exact_cell(
    function: CosOrSin,
    position: int,
    frequency: Decimal,
    *,
    dtype: DType,
    scale: Decimal = Decimal(1),
) -> float:
    """Return scale · function(position · frequency), correctly rounded to ``dtype``, as a float.

    Both ends of an interval that contains the value are rounded; if they disagree, the precision
    doubles. This terminates: sine and cosine of a rational angle other than 0 are transcendental,
    so the value is never halfway between two numbers of the format. Angle 0 needs no series. A
    value closer to 0 than the digits of the frequency can tell is 0: its angle is a whole number of
    quarter turns.

    Units: ``frequency`` in radians per position.
    Source: Ziv, Fast evaluation of elementary mathematical functions with correctly rounded last
    bit, ACM TOMS 17 (1991).

    >>> from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
    >>> exact_cell("sin", 1, Decimal("0.5"), dtype=FLOAT64)
    0.479425538604203
    >>> exact_cell("cos", 2**53, Decimal(1), dtype=FLOAT32)
    -0.5285117626190186
    """
    numerator, denominator = frequency.as_integer_ratio()
    numerator *= position
    factor, divisor = scale.as_integer_ratio()
    if factor == 0 or (numerator == 0 and function == "sin"):
        return 0.0
    if numerator == 0:
        return nearest(factor, divisor, dtype)
    bits = 128 + dtype.precision
    if function == "sin":
        # A tiny sine begins that many bits further down.
        bits += max(0, denominator.bit_length() - numerator.bit_length())
    while True:
        sine, cosine = sine_cosine(numerator, denominator, bits)
        value = sine if function == "sin" else cosine
        if abs(value) < (abs(numerator) << bits) // (denominator << _KNOWN_BITS):
            return 0.0
        low = nearest((value - _ERROR) * factor, divisor << bits, dtype)
        high = nearest((value + _ERROR) * factor, divisor << bits, dtype)
        if low == high and math.copysign(1, low) == math.copysign(1, high):
            return low
        bits *= 2


def exact_sum(
    constant: Fraction, terms: Sequence[tuple[Fraction, CosOrSin, Fraction]], *, dtype: DType
) -> float:
    """Return constant + Σ coefficient · function(angle), correctly rounded to ``dtype``.

    Both ends of an interval that contains the sum are rounded; if they disagree, the precision
    doubles. If a sine or cosine is closer to 0 than the digits of a frequency can tell, the angle
    counts as a whole number of quarter turns. A sum still undecided past ``_MOST_BITS`` is a tie or
    0, as far as those digits tell. It is then rounded from its middle.

    Units: angles in radians.

    >>> from fractions import Fraction
    >>> from posenc_cli.numerics.dtypes import FLOAT64
    >>> exact_sum(Fraction(1), [(Fraction(2), "cos", Fraction(0))], dtype=FLOAT64)
    3.0
    """
    bits = 128 + dtype.precision
    while True:
        middle, error = constant, constant * 0
        for coefficient, function, angle in terms:
            value, wide = _circular(function, angle, bits)
            middle += coefficient * value / (1 << bits)
            error += abs(coefficient) * wide / (1 << bits)
        low, high = (
            nearest(*end.as_integer_ratio(), dtype) for end in (middle - error, middle + error)
        )
        if low == high and math.copysign(1, low) == math.copysign(1, high):
            return low
        if bits > _MOST_BITS:
            return nearest(*middle.as_integer_ratio(), dtype)
        bits *= 2


def _circular(function: CosOrSin, angle: Fraction, bits: int) -> tuple[int, int]:
    """Return a sine or cosine times 2^bits, and its maximum error in units."""
    numerator, denominator = angle.as_integer_ratio()
    if numerator == 0:
        return (0 if function == "sin" else 1 << bits), 0
    sine, cosine = sine_cosine(numerator, denominator, bits)
    value, other = (sine, cosine) if function == "sin" else (cosine, sine)
    known = (abs(numerator) << bits) // (denominator << _KNOWN_BITS)
    if abs(value) < known:
        return 0, 0
    if abs(other) < known:
        return (1 << bits if value > 0 else -1 << bits), 0
    return value, _ERROR


def exact_angle(position: int, frequency: Decimal, *, dtype: DType) -> float:
    """Return position · frequency reduced to (−π, π], correctly rounded to ``dtype``, as a float.

    Units: ``frequency`` in radians per position.

    >>> from posenc_cli.numerics.dtypes import FLOAT64
    >>> exact_angle(4, Decimal(1), dtype=FLOAT64)
    -2.2831853071795867
    """
    numerator, denominator = frequency.as_integer_ratio()
    numerator *= position
    bits = 128 + dtype.precision
    while True:
        # The number of turns is x / 2π, rounded to the nearest integer. With 0 turns the angle is
        # x.
        extra = max(0, numerator.bit_length() - denominator.bit_length()) + 4
        half_turn = pi(bits + extra)
        doubled = (2 * numerator << (bits + extra)) // denominator
        turns = (doubled + 2 * half_turn) // (4 * half_turn)
        if turns == 0:
            return nearest(numerator, denominator, dtype)
        rest = (doubled >> 1) - 2 * turns * half_turn
        error = 4 + 4 * abs(turns)
        low = nearest(rest - error, 1 << (bits + extra), dtype)
        high = nearest(rest + error, 1 << (bits + extra), dtype)
        if low == high and math.copysign(1, low) == math.copysign(1, high):
            return low
        bits *= 2


def doublings(frequency: Decimal) -> Iterator[tuple[int, int, int]]:
    """Yield (cos, sin, bits) of the angles frequency · 2^k, k = 0, 1, 2, …, in fixed point.

    The first comes from one series, the others from squarings. A squaring at most doubles the
    modulus of the error and adds less than two units. So for k ≤ 53 the error stays below 2^(56 −
    bits) in each part. ``bits`` is 192, plus one for each leading zero of the frequency. The error
    is therefore below 2^−136, and below 2^−136 of the sine while the angle is below a quarter turn.

    >>> cosine, sine, bits = next(doublings(Decimal(1)))
    >>> cosine / 2**bits
    0.5403023058681398
    """
    numerator, denominator = frequency.as_integer_ratio()
    bits = 192
    if numerator:
        bits += max(0, denominator.bit_length() - numerator.bit_length())
    sine, cosine = sine_cosine(numerator, denominator, bits)
    while True:
        yield cosine, sine, bits
        product = cosine * sine
        cosine = ((cosine + sine) * (cosine - sine)) >> bits
        sine = product >> (bits - 1)


def two_floats(value: int, bits: int) -> tuple[float, float]:
    """Return value · 2^−bits as the nearest float and the float nearest to the remainder.

    A value too small for a float becomes the smallest float, not zero, so that its sign survives. A
    value past the largest becomes infinite.

    >>> two_floats((1 << 100) + 1, 100)
    (1.0, 7.888609052210118e-31)
    """
    surplus = max(0, value.bit_length() - 256)  # int → float overflows past 1024 bits
    value >>= surplus
    high = float(value)
    low = float(value - int(high))
    exponent = surplus - bits
    try:
        scaled = math.ldexp(high, exponent)
    except OverflowError:
        return math.copysign(math.inf, value), 0.0
    if scaled == 0.0 and value:
        return math.copysign(5e-324, value), 0.0
    return scaled, math.ldexp(low, exponent)


def fixed(number: Decimal | Fraction | float) -> tuple[int, int]:
    """Return an integer number · 2^bits, at least 256 bits long, and ``bits``."""
    numerator, denominator = number.as_integer_ratio()
    bits = max(0, 256 + denominator.bit_length() - numerator.bit_length())
    return (numerator << bits) // denominator, bits
