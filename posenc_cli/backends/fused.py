"""The compiled kernel of the ``fast`` backend: cells, rounding test and store in one pass.

Owns the loops that Numba compiles, and where the compiled code is kept. For every cell it computes
what :mod:`posenc_cli.numerics.waves` does, fl(fl(X · U) + fl(Y · V)). Where a cosine and a sine of
each wave are wanted, the second takes the factors of the first, fl(fl(Y · U) − fl(X · V)): but for
signs these are its own. It lists the cells that the margin leaves undecided, for the NumPy core to
settle.

Rounding to a half precision goes by way of float32. A cell whose float32 is not a tie of the half
precision lies on the same side of every tie as it does, by half a unit of float32; while the margin
is at most a quarter of such a unit, the exact value does too. Above 2^26 margins it is. What is
on a tie or below is judged again, from float32 cut off instead of rounded, which lie on the same
side of every tie; a tie itself is rounded away from zero, for between two cells that round alike
there is none. Cells for float16 come scaled by 2^−112, from its exponents to those of float32.

What the loops read are arguments of their own, not tuples, and indices are unsigned: so LLVM finds
that nothing overlaps, and Numba neither looks for negative indices nor counts references.

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


def _round_half(_: Any, bits: Any, half_unit: Any, narrower: Any) -> Any:
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
round_half: Any = intrinsic(_round_half)
upper: Any = intrinsic(_upper)
doubt: Any = intrinsic(_doubt)


def _cut_float32(value: Any) -> Any:
    """The bits of a float64 cut off to a float32."""
    single = np.float32(value)
    bits = single.view(np.uint32)
    if abs(np.float64(single)) > abs(value):
        bits = np.uint32(bits - np.uint32(1))
    return bits


def _list_open(undecided: Any, open_cells: Any, place: Any, proven: Any) -> Any:
    """Note a cell that is not proven, if there is room; return how many more there are."""
    if proven:
        return 0
    if open_cells < undecided.shape[0]:
        undecided[open_cells] = place
    return 1


def _wide_ends(low: Any, by: Any, margin: Any) -> Any:
    """The ends of the error of X U + Y V, each factor cut in two, rounded to float64."""
    x, y, x_rest, y_rest = low
    u, v, u_rest, v_rest, u_all, v_all = by
    exact = x * u + y * v
    rest = (x * u_rest + x_rest * u_all) + (y * v_rest + y_rest * v_all)
    return exact + (rest + margin), exact + (rest - margin)


wide_ends: Any = numba.njit(_wide_ends)
cut_float32: Any = numba.njit(_cut_float32)
list_open: Any = numba.njit(_list_open)


def rounding(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any, cell: Any, margin: Any, floor: Any, form: Any, doubts: Any
) -> Any:
    """What a cell is in the format of ``out``, and ``doubts``, with bits set unless it is proven.

    ``out`` is not written to: its type chooses the format. What is inlined does not get in the way
    of vectors, so all loops share this.
    """
    raise NotImplementedError


def judge_again(out: Any, cell: Any, margin: Any, floor: Any, form: Any) -> Any:
    """What one cell is in the format of ``out``, and whether that is proven, at leisure."""
    raise NotImplementedError


def _rounding(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any,
    cell: Any,  # noqa: ARG001
    margin: Any,  # noqa: ARG001
    floor: Any,  # noqa: ARG001
    form: Any,  # noqa: ARG001
    doubts: Any,  # noqa: ARG001
) -> Any:
    def single(out: Any, cell: Any, margin: Any, floor: Any, form: Any, doubts: Any) -> Any:  # noqa: ARG001, PLR0917
        upper_bound = np.float32(cell + margin)
        return upper_bound, differ(doubts, upper_bound, np.float32(cell - margin))

    def half(out: Any, cell: Any, margin: Any, floor: Any, form: Any, doubts: Any) -> Any:  # noqa: ARG001, PLR0917
        rounded = round_half(np.float32(cell).view(np.uint32), form[0], form[1])
        return upper(rounded), doubt(doubts, rounded, cell, floor)

    return half if out.dtype == types.uint16 else single


def _judge_again(out: Any, cell: Any, margin: Any, floor: Any, form: Any) -> Any:  # noqa: ARG001
    def single(out: Any, cell: Any, margin: Any, floor: Any, form: Any) -> Any:
        value, undecided = rounding(out, cell, margin, floor, form, np.uint32(0))
        return value, undecided == 0

    def half(out: Any, cell: Any, margin: Any, floor: Any, form: Any) -> Any:
        value, undecided = rounding(out, cell, margin, floor, form, np.uint32(0))
        if undecided == 0:
            return value, True
        above = upper(round_half(cut_float32(cell + margin), form[0], form[1]))
        below = upper(round_half(cut_float32(cell - margin), form[0], form[1]))
        return above, above == below

    return half if out.dtype == types.uint16 else single


overload(rounding)(_rounding)
overload(judge_again)(_judge_again)


def _fill_columns(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any,
    x: Any,
    y: Any,
    u: Any,
    v: Any,
    margins: Any,
    floors: Any,
    sizes: Any,
    form: Any,
    undecided: Any,
) -> Any:
    """Write the cells of consecutive positions; return how many of them are not proven.

    Their indices are in ``undecided``, as far as it reaches. Below the floors the rounding to a
    half precision is judged again. ``sizes`` are the cell of the low tables to start from, and the
    cells of a tile.

    Shape: ``out`` (cells,), row after row; ``x`` and ``y`` (cells,); the others (multiples · tile,)
    each, a row of every multiple repeated to fill a tile.
    """
    start, tile = sizes
    cells, period = np.uint64(out.shape[0]), np.uint64(x.shape[0])
    end = start + cells
    multiples = (end + period - np.uint64(1)) // period
    open_cells = 0
    for group in range(np.uint64(0), multiples, TOGETHER):
        # A segment of the low tables serves the multiples of a group while it is at hand.
        for offset in range(np.uint64(0), period, tile):
            length = min(tile, period - offset)
            for multiple in range(group, min(group + TOGETHER, multiples)):
                place = multiple * period + offset
                first = max(place, start)
                last = min(place + length, end)
                if first >= last:
                    continue
                i, j, h = first - start, offset + first - place, multiple * tile
                doubts = np.uint32(0)
                for k in range(last - first):
                    cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
                    value, doubts = rounding(out, cell, margins[h + k], floors[h + k], form, doubts)
                    out[i + k] = value
                if doubts == 0:
                    continue
                for k in range(last - first):
                    cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
                    value, proven = judge_again(out, cell, margins[h + k], floors[h + k], form)
                    out[i + k] = value
                    open_cells += list_open(undecided, open_cells, i + k, proven)
    return open_cells


def _fill_pairs(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any,
    x: Any,
    y: Any,
    u: Any,
    v: Any,
    margins: Any,
    other_margins: Any,
    floors: Any,
    other_floors: Any,
    sizes: Any,
    form: Any,
    undecided: Any,
    alternate: Any,
) -> Any:
    """Write the cells of consecutive positions where two columns share each wave.

    As :func:`_fill_columns`, but what is read serves two cells, X U + Y V and Y U − X V, each with
    a margin and a floor of its own. The second of a pair is next to the first, or, where
    ``alternate`` is None, in the second half of the row. ``sizes`` are the row of the low tables to
    start from, and the pairs of a row.

    Shape: ``out`` (rows · 2 · pairs,); ``x`` and ``y`` (low rows · pairs,); the others
    (multiples · pairs,) each.
    """
    start, pairs = sizes
    one = np.uint64(1)
    rows, period = np.uint64(out.shape[0]) // (pairs + pairs), np.uint64(x.shape[0]) // pairs
    step, apart = (one, pairs) if alternate is None else (one + one, one)
    open_cells = 0
    for row in range(start, start + rows):
        multiple = row // period
        h, j = multiple * pairs, (row - multiple * period) * pairs
        i = (row - start) * (pairs + pairs)
        doubts = np.uint32(0)
        if alternate is None:
            # A loop for each: two runs of stores in one would take half as long again.
            for k in range(pairs):
                cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
                value, doubts = rounding(out, cell, margins[h + k], floors[h + k], form, doubts)
                out[i + k] = value
            for k in range(pairs):
                cell = y[j + k] * u[h + k] - x[j + k] * v[h + k]
                value, doubts = rounding(
                    out, cell, other_margins[h + k], other_floors[h + k], form, doubts
                )
                out[i + pairs + k] = value
        else:
            for k in range(pairs):
                cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
                other = y[j + k] * u[h + k] - x[j + k] * v[h + k]
                value, doubts = rounding(out, cell, margins[h + k], floors[h + k], form, doubts)
                out[i + k + k] = value
                value, doubts = rounding(
                    out, other, other_margins[h + k], other_floors[h + k], form, doubts
                )
                out[i + k + k + one] = value
        if doubts == 0:
            continue
        for k in range(pairs):
            place = i + k * step
            cell = x[j + k] * u[h + k] + y[j + k] * v[h + k]
            value, proven = judge_again(out, cell, margins[h + k], floors[h + k], form)
            out[place] = value
            open_cells += list_open(undecided, open_cells, place, proven)
            place += apart
            cell = y[j + k] * u[h + k] - x[j + k] * v[h + k]
            value, proven = judge_again(out, cell, other_margins[h + k], other_floors[h + k], form)
            out[place] = value
            open_cells += list_open(undecided, open_cells, place, proven)
    return open_cells


def _fill_wide(  # noqa: PLR0917 (Numba knows no keywords)
    out: Any,
    x: Any,
    y: Any,
    x_rest: Any,
    y_rest: Any,
    u: Any,
    v: Any,
    u_rest: Any,
    v_rest: Any,
    u_all: Any,
    v_all: Any,
    margin: Any,
    sizes: Any,
    undecided: Any,
    alternate: Any,
) -> Any:
    """Write float64 cells of consecutive positions; return how many of them are not proven.

    The cells of a pair are the parts of (X + iY)(U + iV), each factor cut in two, as
    :mod:`posenc_cli.numerics.wide` proves. ``undecided``, ``sizes`` and ``alternate`` are those of
    :func:`_fill_pairs`.

    Shape: ``out`` (rows · 2 · pairs,); X and Y (low rows · pairs,); U and V (multiples · pairs,).
    """
    start, pairs = sizes
    one = np.uint64(1)
    rows, period = np.uint64(out.shape[0]) // (pairs + pairs), np.uint64(x.shape[0]) // pairs
    step, apart = (one, pairs) if alternate is None else (one + one, one)
    open_cells = 0
    for row in range(start, start + rows):
        multiple = row // period
        h, j = multiple * pairs, (row - multiple * period) * pairs
        i = (row - start) * (pairs + pairs)
        doubts = 0
        # A loop for each, as above.
        for k in range(pairs):
            above, below = wide_ends(
                (x[j + k], -y[j + k], x_rest[j + k], -y_rest[j + k]),
                (u[h + k], v[h + k], u_rest[h + k], v_rest[h + k], u_all[h + k], v_all[h + k]),
                margin,
            )
            out[i + k * step] = above
            doubts += above != below
        for k in range(pairs):
            above, below = wide_ends(
                (y[j + k], x[j + k], y_rest[j + k], x_rest[j + k]),
                (u[h + k], v[h + k], u_rest[h + k], v_rest[h + k], u_all[h + k], v_all[h + k]),
                margin,
            )
            out[i + k * step + apart] = above
            doubts += above != below
        if doubts == 0:
            continue
        for k in range(pairs):
            by = u[h + k], v[h + k], u_rest[h + k], v_rest[h + k], u_all[h + k], v_all[h + k]
            above, below = wide_ends(
                (x[j + k], -y[j + k], x_rest[j + k], -y_rest[j + k]), by, margin
            )
            open_cells += list_open(undecided, open_cells, i + k * step, above == below)
            above, below = wide_ends((y[j + k], x[j + k], y_rest[j + k], x_rest[j + k]), by, margin)
            open_cells += list_open(undecided, open_cells, i + k * step + apart, above == below)
    return open_cells


def switched_off() -> bool:
    """Whether the environment tells Numba not to compile."""
    config: Any = numba.config
    return bool(config.DISABLE_JIT)


def compiled(storage: np.dtype[Any], layout: str) -> Any:
    """The kernel that writes float64, float32 or uint16, from Numba's cache or compiled.

    It fills any ``columns``, or pairs of them: ``halves`` of a row, or one ``alternate`` to the
    other; float64 in pairs only. Where the cache cannot be read or written it is compiled for this
    process alone.
    """
    kernels: dict[str, tuple[Any, int, list[Any]]] = {
        "columns": (_fill_columns, 6, []),
        "halves": (_fill_pairs, 8, [types.none]),
        "alternate": (_fill_pairs, 8, [types.boolean]),
    }
    fill, tables, more = kernels[layout]
    two: Any = types.UniTuple
    form = [two(types.uint64, 2), two(types.uint32, 2)]
    if storage == np.float64:
        fill, tables, form = _fill_wide, 10, [types.float64, two(types.uint64, 2)]
    signature = types.int64(
        numba.from_dtype(storage)[::1],
        *[types.float64[::1]] * tables,
        *form,
        types.int64[::1],
        *more,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return numba.njit(signature, cache=True, nogil=True)(fill)
        except Exception:  # whatever ails the cache: no folder, no space, damaged files
            return numba.njit(signature, nogil=True)(fill)
