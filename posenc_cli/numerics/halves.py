"""Fast rounding to half precision by way of float32, with the doubtful values marked.

Owns the fast half of the rounding test for float16 and bfloat16. A float32 is too coarse to tell
on which side of a tie an entry lies when it falls on the tie, and precise enough elsewhere; so the
bits of the float32 are rounded as integers, and the few entries at a tie are judged from the
float64.

Ties are float32 numbers themselves. An entry of float64 whose float32 is another number lies half a
unit of float32 away from the tie or more, and the exact value is closer to the entry than that
while the margin is at most a quarter of a unit, as it is above 2^26 margins: both lie on the same
side as the float32. This takes one rounding to float32. Where float16 is concerned the entries
therefore come scaled by 2^−112, exactly, which turns the exponents of float32 into those of
float16, subnormals too; a float32 that is scaled afterwards may be rounded twice, so there two
units on each side of a tie are in doubt.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import Unavailable
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Flags, Float32Cells, Integers, Reals, StoredRows, Words
    from posenc_cli.numerics.cells import Scratch
    from posenc_cli.numerics.dtypes import DType

SIGN = np.uint32(0x80000000)
SMALLEST = np.float32(2.0**-149)
REBIAS = np.float32(2.0**-112)  # from the exponent bias of float32 to that of float16


class _HalfFormat(Record):
    """How the bits of a float32 become those of a half precision, and for which magnitudes."""

    tie: np.uint32
    shift: int
    smallest: float
    largest: float
    bits: Callable[[float], int]


FORMATS = {
    BFLOAT16.name: _HalfFormat(
        np.uint32(1 << 15),
        0,
        2.0**-100,
        2.0**100,
        lambda value: int(np.float32(value).view(np.uint32)) >> 16,
    ),
    FLOAT16.name: _HalfFormat(
        np.uint32(1 << 12),
        3,
        2.0**-20,
        2.0**14,
        lambda value: int(np.float16(value).view(np.uint16)),
    ),
}


def require_subnormals(dtype: DType) -> None:
    """Refuse float16 where this thread takes float32's subnormal numbers, its way there, for 0.

    Raises: Unavailable.
    """
    if dtype.name == FLOAT16.name and not SMALLEST * np.float32(1) > 0:
        raise Unavailable(
            "this thread flushes subnormal numbers to zero, so float16 cells would be wrong",
            hint="torch.set_flush_denormal(False), or a process without what has set it",
        )


class Roundings(Record):
    """Entries rounded to the upper half of each word, ties away from zero, and which are in doubt.

    ``ties`` are the indices of entries at a tie, ``near_zero`` of others whose margin is too large
    for a float32 to tell, if there are any.
    """

    words: Words
    ties: Integers
    near_zero: Integers | None


def suits(magnitude: float, dtype: DType) -> bool:
    """Return whether entries of up to this magnitude can be rounded here.

    >>> from posenc_cli.numerics.dtypes import FLOAT32
    >>> suits(1.0, FLOAT16), suits(1e6, FLOAT16), suits(1.0, FLOAT32)
    (True, False, False)
    """
    known = FORMATS.get(dtype.name)
    return known is not None and known.smallest < magnitude < known.largest


def factor(dtype: DType) -> float:
    """Return the power of two by which entries are scaled for :func:`rounded_scaled`."""
    return float(REBIAS) if FORMATS[dtype.name].shift else 1.0


def rounded_scaled(
    single: Float32Cells, margin: float, dtype: DType, scratch: Scratch
) -> Roundings:
    """Round entries that are float32 numbers, scaled by the format's `factor`.

    ``margin`` bounds the error they had before they were rounded to float32, and is not scaled.

    Shape: ``single``, whose memory the words take, has one axis.
    """
    how = FORMATS[dtype.name]
    words = single.view(np.uint32)
    floor = np.float32(margin * factor(dtype) * 2.0**26)
    least = int(floor.view(np.uint32))
    near_zero = None
    # The smallest as unsigned is positive, the smallest as signed negative: by magnitude, both.
    if words.min() <= least or single.view(np.int32).min() <= least - (1 << 31):
        near_zero = np.abs(single) <= floor
    np.add(words, how.tie, out=words)
    if how.shift:
        # Five exponent bits, not eight: move the magnitude up to the sign.
        signs = np.bitwise_and(words, SIGN, out=scratch.buffer("spare", words.size, np.uint32))
        np.left_shift(words, how.shift, out=words)
        np.bitwise_or(words, signs, out=words)
    half = scratch.buffer("half", words.size, np.uint16)
    np.copyto(half, words, casting="unsafe")
    ties = np.equal(half, 0, out=scratch.buffer("doubts", words.size, np.bool_))
    if near_zero is None:
        return Roundings(words, np.flatnonzero(ties), None)
    ties[near_zero] = False  # none is told twice
    return Roundings(words, np.flatnonzero(ties), np.flatnonzero(near_zero))


def decided(words: Words, ties: Integers, cells: Reals, margin: float, dtype: DType) -> Flags:
    """Round entries at ties to their side, where the margin lets it be known; return where it does.

    Shape: ``cells``, in float64 and not scaled, as ``ties``, their indices in ``words``.
    """
    how = FORMATS[dtype.name]
    away = words[ties]
    tie = (((away & ~SIGN) >> np.uint32(how.shift)) - how.tie).view(np.float32)
    beyond = np.abs(cells) - tie.astype(np.float64) / factor(dtype)
    # What was rounded away from zero goes back: the lower half of its word is 0.
    words[ties] = away - (beyond < 0)
    known: Flags = np.abs(beyond) > margin
    return known


def rounded(cells: Reals, margin: Any, dtype: DType, out: StoredRows, scratch: Scratch) -> Integers:
    """Write the roundings of entries to ``out``; return the indices of those in doubt.

    ``margin`` bounds the error of an entry: a number, or a tile repeated along the entries. An
    entry is in doubt within two float32 units of a tie: half a unit for rounding to float32, half
    for its scaling to the exponents of float16, and less than one for the margin, unless the entry
    is below 2^24 margins; those are in doubt too.

    Shape: ``out`` as ``cells``, one axis, in the storage of ``dtype``.
    """
    how = FORMATS[dtype.name]
    single = scratch.buffer("single", cells.size, np.float32)
    bits, spare = (scratch.buffer(name, cells.size, np.uint32) for name in ("rounded", "spare"))
    half = scratch.buffer("half", cells.size, np.uint16)
    np.copyto(single, cells, casting="same_kind")
    near_zero = None
    if isinstance(margin, np.ndarray):
        near_zero = _below(single, (margin * 2.0**24).astype(np.float32), spare)
    if how.shift:
        np.multiply(single, REBIAS, out=single)
    np.add(single.view(np.uint32), how.tie, out=bits)
    if how.shift:
        # Five exponent bits, not eight: move the magnitude up to the sign.
        np.left_shift(bits, how.shift, out=bits)
        np.bitwise_and(single.view(np.uint32), SIGN, out=spare)
        np.bitwise_or(bits, spare, out=bits)
    np.right_shift(bits, 16, out=spare)
    np.copyto(out.view(np.uint16), spare, casting="unsafe")
    # The low halves wrap around at a tie.
    np.copyto(half, bits, casting="unsafe")
    np.add(half, np.uint16(2 << how.shift), out=half)
    doubts = scratch.buffer("doubts", cells.size, np.bool_)
    np.less_equal(half, np.uint16(4 << how.shift), out=doubts)
    if near_zero is not None:
        np.logical_or(doubts, near_zero, out=doubts)
    else:
        # Judged from the rounded bits, half as wide: the sign shifted out, then one unit up.
        floor = np.uint16(2 * (how.bits(margin * 2.0**24) + 1))
        np.left_shift(out.view(np.uint16), 1, out=half)
        if half.min() <= floor:
            np.logical_or(doubts, half <= floor, out=doubts)
    return np.flatnonzero(doubts)


def _below(single: Float32Cells, floors: Float32Cells, spare: Words) -> Flags:
    """Return where magnitudes are below a tile of floors that is repeated along them."""
    sizes = np.abs(single, out=spare.view(np.float32))
    whole = sizes.size // floors.size * floors.size
    near = np.empty(sizes.size, bool)
    shape = (-1, floors.size)
    np.less(sizes[:whole].reshape(shape), floors, out=near[:whole].reshape(shape))
    np.less(sizes[whole:], floors[: sizes.size - whole], out=near[whole:])
    return near
