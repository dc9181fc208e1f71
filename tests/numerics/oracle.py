"""Independent answers: mpmath for functions, fractions for rounding."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from posenc_cli.numerics.dtypes import DType

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")


PRECISION = 700


def fraction(value: mpmath.mpf) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent) * (-1 if sign else 1)


def rounded(value: Fraction, dtype: DType) -> float:
    """The nearest value of a format, ties to even, by looking at both neighbours."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = dtype.min_exponent
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - dtype.precision + 1)
    below = size // unit
    distance = size - below * unit
    if 2 * distance > unit or (2 * distance == unit and below % 2 == 1):
        below += 1
    result = below * unit
    if result >= Fraction(2) ** (dtype.max_exponent + 1):
        result = np.inf
    return float(result) * (-1 if value < 0 else 1)


def wave(function: str, position: int, frequency: Decimal, scale: Decimal, dtype: DType) -> float:
    with mpmath.workprec(PRECISION):
        angle = mpmath.mpf(int(position)) * mpmath.mpf(str(frequency))
        value = getattr(mpmath, function)(angle) * mpmath.mpf(str(scale))
        return rounded(fraction(value), dtype)


def reduced(position: int, frequency: Decimal, dtype: DType, precision: int = PRECISION) -> float:
    """The angle of a wave without its whole turns, above −π and up to π."""
    with mpmath.workprec(precision):
        angle = mpmath.mpf(int(position)) * mpmath.mpf(str(frequency))
        turns = mpmath.ceil(angle / (2 * mpmath.pi) - mpmath.mpf(1) / 2)
        return rounded(fraction(angle - turns * 2 * mpmath.pi), dtype)


def values(array: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.name == "bfloat16":
        return array.view(ml_dtypes.bfloat16).astype(np.float64)
    return array.astype(np.float64)
