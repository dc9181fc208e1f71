"""The compiled kernel of the ``fast`` backend: cells, rounding test and store in one pass.

Owns the loops that Numba compiles, and where the compiled code is kept. For every cell it computes
what :mod:`posenc_cli.numerics.waves` does, fl(fl(X · U) + fl(Y · V)), and never contracts that to a
fused multiply-add, so a float64 table has the same bytes. For the narrower formats it lists the
cells that the margin leaves undecided, for the NumPy core to settle.

Rounding to a half precision goes by way of float32. A cell whose float32 is not a tie of the half
precision lies on the same side of every tie as it does, by half a unit of float32; while the margin
is at most a quarter of such a unit, the exact value does too. Above 2^26 margins it is. What is
on a tie or below is judged again, from float32 cut off instead of rounded, which lie on the same
side of every tie; a tie itself is rounded away from zero, for between two cells that round alike
there is none. Cells for float16 come scaled by 2^−112, from its exponents to those of float32.

Imports Numba: import it only where the kernel is used.
"""

from __future__ import annotations

import warnings
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

__all__ = ["compiled", "switched_off"]

TOGETHER = np.uint64(2)  # multiples that share a read of the low tables; more write far apart
_WORD = ir.IntType(32)


def _differ(_: Any, so_far: Any, first: Any, second: Any) -> Any:
    """``so_far``, with bits set where two float32 differ.

    Integer operators of Numba widen to 64 bits, which would halve the width of the loop.
    """

    def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        bits = [builder.bitcast(value, _WORD) for value in values[1:]]
        return builder.or_(values[0], builder.xor(*bits))

    return types.uint32(so_far, first, second), code


def _rounded_half(_: Any, bits: Any, half_unit: Any, narrower: Any) -> Any:
    """The bits of a float32, rounded: the upper 16 are the half precision, the lower 0 at a tie."""

    def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        moved = builder.shl(builder.add(values[0], values[1]), values[2])
        return builder.or_(moved, builder.and_(values[0], _WORD(1 << 31)))

    return types.uint32(bits, half_unit, narrower), code


def _upper(_: Any, rounded: Any) -> Any:
    """The upper half of 32 bits."""

    def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.trunc(builder.lshr(values[0], _WORD(16)), ir.IntType(16))

    return types.uint16(rounded), code


def _doubt(_: Any, so_far: Any, rounded: Any, cell: Any, floor: Any) -> Any:
    """``so_far``, or 1 where a rounded cell is at a tie or its magnitude below a floor."""

    def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        tie = builder.icmp_unsigned("==", builder.and_(values[1], _WORD(0xFFFF)), _WORD(0))
        long = ir.IntType(64)
        bits = builder.and_(builder.bitcast(values[2], long), long((1 << 63) - 1))
        size = builder.bitcast(bits, ir.DoubleType())
        doubt = builder.or_(tie, builder.fcmp_ordered("<", size, values[3]))
        return builder.or_(values[0], builder.zext(doubt, _WORD))

    return types.uint32(so_far, rounded, cell, floor), code


# Any: to a type checker these would take the compiler's arguments.
differ: Any = intrinsic(_differ)
rounded_half: Any = intrinsic(_rounded_half)
upper: Any = intrinsic(_upper)
doubt: Any = intrinsic(_doubt)


def _cut_float32(value: Any) -> Any:
    """The bits of a float64 cut off to a float32."""
    single = np.float32(value)
    bits = single.view(np.uint32)
    if abs(np.float64(single)) > abs(value):
        bits = np.uint32(bits - np.uint32(1))
    return bits


cut_float32: Any = numba.njit(_cut_float32)


def rounded_segment(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:
    """Write the roundings of a segment; return 0 where every one of them is proven.

    ``at`` is its size and where it begins in ``out``, ``low`` and ``high``. They are unsigned and
    no array is sliced: Numba need not look for negative indices, nor count references.
    """
    raise NotImplementedError


def judged_again(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:
    """Write the rounding of one cell, if it has to; return whether it is proven."""
    raise NotImplementedError


def _rounded_segment(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:  # noqa: ARG001
    def double(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:  # noqa: ARG001
        (x, y), (u, v, _, _) = low, high
        size, i, j, h = at
        for k in range(size):
            out[i + k] = x[j + k] * u[h + k] + y[j + k] * v[h + k]
        return np.uint32(0)

    def single(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:  # noqa: ARG001
        (x, y), (u, v, margins, _) = low, high
        size, i, j, h = at
        undecided = np.uint32(0)
        for k in range(size):
            cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
            upper_bound = np.float32(cell + margins[h + k])
            lower_bound = np.float32(cell - margins[h + k])
            out[i + k] = upper_bound
            undecided = differ(undecided, upper_bound, lower_bound)
        return undecided

    def half(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:
        (x, y), (u, v, _, floors) = low, high
        size, i, j, h = at
        half_unit, narrower = form
        undecided = np.uint32(0)
        for k in range(size):
            cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
            rounded = rounded_half(np.float32(cell).view(np.uint32), half_unit, narrower)
            out[i + k] = upper(rounded)
            undecided = doubt(undecided, rounded, cell, floors[h + k])
        return undecided

    return {types.float64: double, types.float32: single, types.uint16: half}[out.dtype]


def _judged_again(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:  # noqa: ARG001
    def single(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:  # noqa: ARG001
        (x, y), (u, v, margins, _) = low, high
        _, _, j, h = at
        value, margin = x[j] * u[h] + y[j] * v[h], margins[h]
        return differ(np.uint32(0), np.float32(value + margin), np.float32(value - margin)) == 0

    def half(out: Any, low: Any, high: Any, at: Any, form: Any) -> Any:
        (x, y), (u, v, margins, floors) = low, high
        _, i, j, h = at
        value, margin = x[j] * u[h] + y[j] * v[h], margins[h]
        rounded = rounded_half(np.float32(value).view(np.uint32), form[0], form[1])
        if doubt(np.uint32(0), rounded, value, floors[h]) == 0:
            return True
        above = upper(rounded_half(cut_float32(value + margin), form[0], form[1]))
        below = upper(rounded_half(cut_float32(value - margin), form[0], form[1]))
        out[i] = above
        return above == below

    return half if out.dtype == types.uint16 else single


overload(rounded_segment)(_rounded_segment)
overload(judged_again)(_judged_again)


def _fill(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any, low: Any, high: Any, sizes: Any, form: Any, undecided: Any
) -> Any:
    """Write the cells of consecutive positions; return how many of them are not proven.

    Their indices are in ``undecided``, as far as it reaches. ``low`` is X and Y; ``high`` is U, V,
    the margins, and the floors below which the rounding to a half precision is judged again.
    ``sizes`` are the cell of the low tables to start from, and the cells of a tile.

    Shape: ``out`` (cells,), row after row; ``low`` (cells,) each; ``high`` (multiples · tile,)
    each, a row of every multiple repeated to fill a tile.
    """
    start, tile = sizes
    cells, period = np.uint64(out.shape[0]), np.uint64(low[0].shape[0])
    end = start + cells
    multiples = (end + period - np.uint64(1)) // period
    found = 0
    for group in range(np.uint64(0), multiples, TOGETHER):
        # A segment of the low tables serves the multiples of a group while it is at hand.
        for offset in range(np.uint64(0), period, tile):
            length = min(tile, period - offset)
            for multiple in range(group, min(group + TOGETHER, multiples)):
                place = multiple * period + offset
                first = max(place, start)
                last = min(place + length, end)
                if first < last:
                    at = (last - first, first - start, offset + first - place, multiple * tile)
                    if rounded_segment(out, low, high, at, form) != 0:
                        for cell in range(at[0]):
                            one = (np.uint64(1), at[1] + cell, at[2] + cell, at[3] + cell)
                            if not judged_again(out, low, high, one, form):
                                if found < undecided.shape[0]:
                                    undecided[found] = one[1]
                                found += 1
    return found


def switched_off() -> bool:
    """Whether the environment tells Numba not to compile."""
    config: Any = numba.config
    return bool(config.DISABLE_JIT)


def compiled(storage: np.dtype[Any]) -> Any:
    """The kernel that writes float64, float32 or uint16, from Numba's cache or compiled.

    Where the cache cannot be read or written it is compiled for this process alone.
    """
    many: Any = types.UniTuple
    signature = types.int64(
        numba.from_dtype(storage)[::1],
        many(types.float64[::1], 2),
        many(types.float64[::1], 4),
        many(types.uint64, 2),
        many(types.uint32, 2),
        types.int64[::1],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return numba.njit(signature, cache=True, nogil=True)(_fill)
        except Exception:  # whatever ails the cache: no folder, no space, damaged files
            return numba.njit(signature, nogil=True)(_fill)
