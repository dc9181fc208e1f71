"""Rounding to the number formats: once, to nearest, ties to even.

This module rounds a real number (a pair of float64, or an exact fraction) to the bits that posenc
stores. Rounding to half precision through float32 would round twice, and would be wrong if the
first rounding lands on a tie. Here the float64 is rounded once, by integer arithmetic on its bits.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.double_double import two_sum
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from posenc_cli.numerics.fixed_point import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from posenc_cli.numerics.arrays import Flags, Float32Cells, Integers, Reals, StoredValues


def narrow(high: Reals, low: Reals | None, dtype: DType) -> StoredValues:
    """Return high + low, correctly rounded to a real ``dtype``, in its storage.

    ``high`` is float64, and ``low`` at most half a unit in its last place (None means exactly 0).
    The sum is first rounded to odd: truncated to 53 bits, with the last bit set if anything was cut
    off. No such number is a tie of a format with fewer than 52 bits, and it is on the same side of
    every tie as the sum. So the one rounding that follows is the rounding of the sum.

    Zeros keep their sign, NaN and infinities stay, and subnormals are rounded on their own grid.
    Values past the largest number become infinite.

    Shape: as ``high``.

    >>> import numpy as np
    >>> tie = np.array([1 + 2.0**-24])
    >>> narrow(tie, None, FLOAT32) == 1, narrow(tie, np.array([1e-30]), FLOAT32) > 1
    (array([ True]), array([ True]))
    >>> narrow(np.array([1.0]), None, BFLOAT16)
    array([16256], dtype=uint16)
    """
    high = np.asarray(high, np.float64)
    with np.errstate(all="ignore"):
        if low is not None:
            high = _odd(high, np.asarray(low, np.float64), dtype)
        if dtype.name == FLOAT64.name:
            return high
        if dtype.name == FLOAT32.name:
            return high.astype(np.float32)
        grid = _on_grid(high, dtype)
        return bits_of_float16(grid) if dtype.name == FLOAT16.name else bits_of_bfloat16(grid)


def narrow_within(high: Any, low: Any, margin: Any, dtype: DType) -> tuple[StoredValues, Flags]:
    """Return high + low rounded to ``dtype``, and where errors within ``margin`` cannot change it.

    That is where both ends round to the same bits: 0.0 and −0.0 differ.

    Shape: as ``high``.
    """
    upper, lower = (narrow(*two_sum(high, low + side), dtype) for side in (margin, -margin))
    word = np.dtype(f"u{dtype.itemsize}")
    return upper, upper.view(word) == lower.view(word)


def _odd(high: Reals, low: Reals, dtype: DType) -> Reals:
    low = np.where(np.isfinite(high), low, 0.0)
    total, rest = two_sum(high, low)
    total = np.where(low == 0, high, total)  # −0.0 + 0.0 loses the sign
    if dtype.name == FLOAT64.name:
        return total
    return to_odd(total, np.where(np.isfinite(total), rest, 0.0))


def to_odd(total: Reals, rest: Reals) -> Reals:
    """Return total + rest rounded to odd: cut to 53 bits, the last one set if a bit was cut off.

    ``total`` is the sum rounded to nearest, and ``rest`` its remainder. Rounding the result to at
    most 51 bits rounds the sum.

    Shape: as ``total``.

    >>> import numpy as np
    >>> to_odd(np.array([1.0]), np.array([-1e-30])) == 1 - 2.0**-53
    array([ True])
    """
    total, inexact = np.asarray(total), np.asarray(rest) != 0
    towards_zero = inexact & (np.signbit(rest) != np.signbit(total))
    bits: Integers = (total.view(np.int64) - towards_zero) | inexact
    return bits.view(np.float64)


def _on_grid(values: Reals, dtype: DType) -> Reals:
    """Round float64 values to the numbers of a half precision, kept as float64."""
    drop = 53 - dtype.precision
    bits = values.view(np.uint64)
    last = (bits >> np.uint64(drop)) & np.uint64(1)
    rounded = (bits + (np.uint64((1 << (drop - 1)) - 1) + last)) & np.uint64(-(1 << drop) % 2**64)
    grid = rounded.view(np.float64)
    size = np.abs(values)
    # Below the smallest normal number, steps are equal: adding this constant rounds to them.
    even = 1.5 * 2.0 ** (52 + dtype.min_exponent - dtype.precision + 1)
    grid = np.where(size < 2.0**dtype.min_exponent, np.copysign((size + even) - even, values), grid)
    grid = np.where(
        np.abs(grid) >= 2.0 ** (dtype.max_exponent + 1), np.copysign(np.inf, grid), grid
    )
    return np.where(np.isnan(values), values, grid)


def bits_of_float16(grid: Reals) -> StoredValues:
    """Return float64 values that float16 holds exactly, as float16.

    Scaling by 2^−112 turns the exponent bias of float32 into that of float16, subnormals included.
    So the bits only need to be moved. NumPy's own cast takes twice as long.

    >>> import numpy as np
    >>> bits_of_float16(np.array([1.5, -0.0]))
    array([ 1.5, -0. ], dtype=float16)
    """
    single = grid.astype(np.float32)
    special = ~np.isfinite(single)
    bits = (np.where(special, np.float32(0), single) * np.float32(2.0**-112)).view(np.uint32)
    packed = ((bits & np.uint32(0x7FFFFFFF)) >> np.uint32(13)).astype(np.uint16)
    packed |= (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16) & np.uint16(0x8000)
    half = packed.view(np.float16)
    return np.where(special, single.astype(np.float16), half) if special.any() else half


def bits_of_bfloat16(grid: Reals) -> StoredValues:
    """Return float64 values that bfloat16 holds exactly, as its bit patterns.

    >>> import numpy as np
    >>> [hex(bits) for bits in bits_of_bfloat16(np.array([1.0, -2.0]))]
    ['0x3f80', '0xc000']
    """
    single = grid.astype(np.float32)
    # Converting a NaN sets its quiet bit, in the half that is kept, so it cannot become infinite.
    return (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def round_exact(values: Iterable[Decimal | Fraction | int], dtype: DType) -> StoredValues:
    """Return exact numbers, each correctly rounded to ``dtype``, in its storage.

    Shape: (number of values,).
    Raises: ValueError, OverflowError: a Decimal that is NaN or infinite.

    >>> from fractions import Fraction
    >>> round_exact([Fraction(1, 3), 2], FLOAT32)
    array([0.33333334, 2.        ], dtype=float32)
    """
    rounded = []
    for value in values:
        if isinstance(value, Decimal) and value.is_zero():
            rounded.append(-0.0 if value.is_signed() else 0.0)
        else:
            rounded.append(nearest(*value.as_integer_ratio(), dtype))
    return narrow(np.array(rounded, np.float64), None, dtype)


def widen(array: StoredValues, dtype: DType) -> Reals:
    """Return the values that an array in the storage of ``dtype`` holds, as float64, exactly.

    >>> import numpy as np
    >>> widen(np.array([0x3F80, 0xC000], np.uint16), BFLOAT16)
    array([ 1., -2.])
    """
    array = np.asarray(array)
    with np.errstate(invalid="ignore"):  # signalling NaN
        if dtype.name == BFLOAT16.name:
            return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return array.astype(np.float64)


def round_to(array: StoredValues, source: DType, target: DType) -> StoredValues:
    """Return the values of ``source`` storage rounded to the grid of ``target``, stored as before.

    This rounds the values in the array. If they were rounded from real numbers, this rounds twice.
    To round once, round the real numbers to ``target`` first and store them with `stored_as`.

    >>> import numpy as np
    >>> round_to(np.array([1.001], np.float32), FLOAT32, BFLOAT16)
    array([1.], dtype=float32)
    """
    return stored_as(narrow(widen(array, source), None, target), target, source)


def singles_to_bfloat16(singles: Float32Cells) -> Float32Cells:
    """Return float32 numbers rounded to the grid of bfloat16, still as float32.

    The result is that of `round_to`, in a few passes. The upper half of a float32 is a bfloat16.
    Adding half a unit of it to the bits rounds them, and carries into the exponent and to infinity.
    If the upper half is even, one bit less is added, so that ties stay there.

    Shape: as ``singles``.

    >>> singles_to_bfloat16(np.array([1.001, 1 + 2.0**-8, 3.4e38], np.float32))
    array([ 1.,  1., inf], dtype=float32)
    """
    bits = singles.view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    missing = np.isnan(singles)
    if missing.any():  # set the quiet bit, as a conversion does
        rounded[missing] = bits[missing] | np.uint32(0x400000)
    rounded &= np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def stored_as(array: StoredValues, source: DType, storage: DType) -> StoredValues:
    """Return values in the storage of ``source`` in the storage of another format.

    This is exact if ``storage`` holds every value of ``source``, as float32 does for both half
    precisions; otherwise it rounds once.

    >>> import numpy as np
    >>> stored_as(np.array([0x3F80], np.uint16), BFLOAT16, FLOAT32)
    array([1.], dtype=float32)
    """
    return narrow(widen(array, source), None, storage)
