"""Half precisions: fast rounding that marks values in doubt, and values that are exact in one.

`rounded` is the fast half of the rounding test for float16 and bfloat16. A float32 that falls on a
tie does not tell on which side of it the entry lies; everywhere else it is precise enough. So the
bits of the float32 are rounded as integers, and the few entries near a tie are in doubt.

Ties are float32 numbers themselves. For float16, entries are scaled by 2^−112, exactly. This turns
the exponents of float32 into those of float16, subnormals included. Such entries may be rounded
twice, so entries within two float32 units of a tie are in doubt.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import Unavailable
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from posenc_cli.numerics.rounding import round_to
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import (
        Flags,
        Float32Cells,
        Integers,
        NumberArray,
        Reals,
        StoredRows,
        Words,
    )
    from posenc_cli.numerics.cells import Scratch

HALVES = {"bfloat16": BFLOAT16, "float16": FLOAT16}
CUT_BFLOAT16 = "bfloat16 toward zero"
"""The rounding that drops the lower half of a float32."""
COARSE = (*HALVES, CUT_BFLOAT16)
"""The roundings that occur in tables and frequencies."""
_FLOATS = {**HALVES, "float32": FLOAT32}

SIGN = np.uint32(0x80000000)
SMALLEST = np.float32(2.0**-149)
REBIAS = np.float32(2.0**-112)  # from the exponent bias of float32 to that of float16


class _HalfFormat(Record):
    """How to cut float32 bits to a half precision, and for which magnitudes it works."""

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
    """Refuse float16 if this thread flushes the float32 subnormals that the rounding needs to 0.

    Raises: Unavailable.
    """
    if dtype.name == FLOAT16.name and not SMALLEST * np.float32(1) > 0:
        raise Unavailable(
            "this thread flushes subnormal numbers to zero, so float16 values would be wrong",
            hint="torch.set_flush_denormal(False), or use a new process",
        )


def suits(magnitude: float, dtype: DType) -> bool:
    """Return whether entries of up to this magnitude can be rounded here.

    >>> from posenc_cli.numerics.dtypes import FLOAT32
    >>> suits(1.0, FLOAT16), suits(1e6, FLOAT16), suits(1.0, FLOAT32)
    (True, False, False)
    """
    known = FORMATS.get(dtype.name)
    return known is not None and known.smallest < magnitude < known.largest


def factor(dtype: DType) -> float:
    """Return the power of two by which the kernel scales entries."""
    return float(REBIAS) if FORMATS[dtype.name].shift else 1.0


def rounded(cells: Reals, margin: Any, dtype: DType, out: StoredRows, scratch: Scratch) -> Integers:
    """Write the roundings of entries to ``out``; return the indices of those in doubt.

    ``margin`` bounds the error of an entry: a number, or a tile repeated along the entries. An
    entry is in doubt within two float32 units of a tie: half a unit for rounding to float32, half
    for scaling to the exponents of float16, and less than one for the margin. Entries below 2^24
    margins have a larger margin than that, so they are in doubt too.

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
        # float16 has five exponent bits, not eight: move the magnitude up to the sign.
        np.left_shift(bits, how.shift, out=bits)
        np.bitwise_and(single.view(np.uint32), SIGN, out=spare)
        np.bitwise_or(bits, spare, out=bits)
    np.right_shift(bits, 16, out=spare)
    np.copyto(out.view(np.uint16), spare, casting="unsafe")
    # Near a tie, the lower 16 bits wrap around.
    np.copyto(half, bits, casting="unsafe")
    np.add(half, np.uint16(2 << how.shift), out=half)
    doubts = scratch.buffer("doubts", cells.size, np.bool_)
    np.less_equal(half, np.uint16(4 << how.shift), out=doubts)
    if near_zero is not None:
        np.logical_or(doubts, near_zero, out=doubts)
    else:
        # Compare the rounded bits, which are half as wide: shift the sign out, allow one unit.
        floor = np.uint16(2 * (how.bits(margin * 2.0**24) + 1))
        np.left_shift(out.view(np.uint16), 1, out=half)
        if half.min() <= floor:
            np.logical_or(doubts, half <= floor, out=doubts)
    return np.flatnonzero(doubts)


def _below(single: Float32Cells, floors: Float32Cells, spare: Words) -> Flags:
    """Return where magnitudes are below a tile of bounds that is repeated along them."""
    sizes = np.abs(single, out=spare.view(np.float32))
    whole = sizes.size // floors.size * floors.size
    near = np.empty(sizes.size, bool)
    shape = (-1, floors.size)
    np.less(sizes[:whole].reshape(shape), floors, out=near[:whole].reshape(shape))
    np.less(sizes[whole:], floors[: sizes.size - whole], out=near[whole:])
    return near


def round_to_half(values: Reals, dtype: str) -> Reals:
    """Return ``values`` rounded to a half precision, or to float32, as float64.

    >>> round_to_half(np.array([257.0]), "bfloat16"), round_to_half(np.array([2049.0]), "float16")
    (array([256.]), array([2048.]))
    >>> round_to_half(np.array([255.9]), "bfloat16"), round_to_half(np.array([255.9]), CUT_BFLOAT16)
    (array([256.]), array([255.]))
    """
    if dtype == CUT_BFLOAT16:
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    return np.asarray(round_to(np.asarray(values, np.float64), FLOAT64, _FLOATS[dtype]), np.float64)


def on_grid(values: NumberArray, coarse: str) -> bool:
    """Return whether all finite values are exact in a format of `COARSE`.

    >>> on_grid(np.array([1.0, 257.0]), "bfloat16"), on_grid(np.array([1.0, 257.0]), "float16")
    (False, True)
    """
    with np.errstate(all="ignore"):
        single = np.ascontiguousarray(values, np.float32)
        if coarse == "float16":
            rounded = single.astype(np.float16).astype(np.float32)
        else:
            rounded = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return bool(((rounded == values) | ~np.isfinite(values)).all())
