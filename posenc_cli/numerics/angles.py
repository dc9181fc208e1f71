"""Angles position · frequency, reduced to (−π, π] and correctly rounded.

This module reduces many angles at once, exactly modulo one turn. A frequency in turns has 192
fractional bits, stored as six limbs of 32 bits. A position is split into two parts of 27 bits, so
every partial product and its carry fit a uint64. Bits that overflow on the left are whole turns.

Error. A frequency in turns is truncated at 2^−192; times a position up to 2^53 that is 2^−139
turns. The limbs are summed in double-double (relative error 2^−103) and multiplied by 2π (2^−102).
The rounding test allows 2^−98 relative and 2^−130 absolute error. Values it cannot decide are
computed in integers.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.double_double import product, two_sum
from posenc_cli.numerics.fixed_point import exact_angle, pi, two_floats
from posenc_cli.numerics.rounding import narrow, narrow_within

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from posenc_cli.numerics.arrays import Integers, Limbs, StoredRows
    from posenc_cli.numerics.dtypes import DType

LIMBS = 6
LIMB_BITS = 32
PART_BITS = 27
CHUNK_CELLS = 1 << 14
RELATIVE_MARGIN = 2.0**-98
ABSOLUTE_MARGIN = 2.0**-130


class AngleTable:
    """Angles n · ω in (−π, π] for some frequencies ω.

    Units: radians; frequencies in radians per position.

    >>> import numpy as np
    >>> from decimal import Decimal
    >>> from posenc_cli.numerics.dtypes import FLOAT64
    >>> AngleTable([Decimal(1)]).rows(np.array([3, 4, -4]), dtype=FLOAT64)
    array([[ 3.        ],
           [-2.28318531],
           [ 2.28318531]])
    """

    def __init__(self, frequencies: Sequence[Decimal]) -> None:
        self._frequencies = tuple(frequencies)
        bits = LIMBS * LIMB_BITS
        turns = []
        pairs = []
        for frequency in self._frequencies:
            numerator, denominator = frequency.as_integer_ratio()
            extra = max(0, numerator.bit_length() - denominator.bit_length()) + 64
            turn = 2 * pi(bits + extra)
            turns.append((numerator << (2 * bits + extra)) // (turn * denominator))
            leading = 256 + max(0, denominator.bit_length() - numerator.bit_length())
            pairs.append(two_floats((numerator << leading) // denominator, leading))
        self._limbs = [_limbs(turns), _limbs([value << PART_BITS for value in turns])]
        self._pairs = np.array(pairs).reshape(-1, 2).T
        self._turn = two_floats(2 * pi(256), 256)

    def rows(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return the angles of every position, correctly rounded to ``dtype``, in its storage.

        Shape: (positions, frequencies).
        """
        width = len(self._frequencies)
        out = np.empty((positions.size, width), dtype.numpy)
        step = max(1, CHUNK_CELLS // max(1, width))
        with np.errstate(all="ignore"):
            for start in range(0, positions.size if width else 0, step):
                block = np.asarray(positions[start : start + step], np.int64)
                out[start : start + step] = self._block(block, dtype)
        return out

    def _block(self, positions: Integers, dtype: DType) -> StoredRows:
        sizes = np.abs(positions)
        # Below half a turn, the plain product is accurate relative to the angle, however small it
        # is.
        plain_high, plain_low = product(
            (sizes[:, None].astype(np.float64), 0.0), (self._pairs[0], self._pairs[1])
        )
        small = np.abs(plain_high) < 3.0
        if small.all():
            high, low = plain_high, plain_low
            margin = RELATIVE_MARGIN * np.abs(high)
        else:
            high, low = product(self._fraction(sizes), self._turn)
            high, low = np.where(small, plain_high, high), np.where(small, plain_low, low)
            margin = RELATIVE_MARGIN * np.abs(high) + np.where(small, 0.0, ABSOLUTE_MARGIN)
        negative = (positions < 0)[:, None]
        high, low = np.where(negative, -high, high), np.where(negative, -low, low)
        rounded, proven = narrow_within(high, low, margin, dtype)
        nought = (positions == 0)[:, None] | (self._pairs[0] == 0)[None, :]
        rounded[nought] = 0
        undecided = ~proven & ~nought
        for row, wave in zip(*np.nonzero(undecided), strict=True):
            value = exact_angle(int(positions[row]), self._frequencies[wave], dtype=dtype)
            rounded[row, wave] = narrow(np.array([value]), None, dtype)[0]
        return rounded

    def _fraction(self, sizes: Integers) -> tuple[Any, Any]:
        """Return the angles of the positions in turns, in [−1/2, 1/2), in double-double."""
        part = sizes.astype(np.uint64)
        lower = (part & np.uint64((1 << PART_BITS) - 1))[:, None]
        upper = (part >> np.uint64(PART_BITS))[:, None]
        carry: Any = np.uint64(0)
        limbs = []
        for first, second in zip(*self._limbs, strict=True):
            total = lower * first + upper * second + carry
            limbs.append(total & np.uint64((1 << LIMB_BITS) - 1))
            carry = total >> np.uint64(LIMB_BITS)
        # Reading the top limb as signed moves the fraction from [0, 1) to [−1/2, 1/2).
        high: Any = limbs[-1].astype(np.uint32).view(np.int32) * 2.0**-LIMB_BITS
        low: Any = 0.0
        for place, limb in enumerate(reversed(limbs[:-1]), start=2):
            high, error = two_sum(high, limb * 2.0 ** (-LIMB_BITS * place))
            high, low = two_sum(high, low + error)
        return high, low


def _limbs(turns: Sequence[int]) -> list[Limbs]:
    """Return the limbs of fractions of a turn, lowest first, each over all frequencies."""
    mask = (1 << LIMB_BITS) - 1
    return [
        np.array([(value >> (LIMB_BITS * limb)) & mask for value in turns], np.uint64)
        for limb in range(LIMBS)
    ]
