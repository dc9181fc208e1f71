"""Positions as arrays, and arrays in the precision of an arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.rounding import round_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.backends.base import Arithmetic
    from posenc_cli.numerics.arrays import Integers, Reals, StoredRows, StoredValues
    from posenc_cli.positions import Positions

Numbers = TypeVar("Numbers", "Integers", "Reals")

BLOCK_VALUES = 1 << 18
"""Values in a block: enough that handing blocks from thread to thread costs little, few enough to
stay near the cache. Twice as many are a tenth faster, and take twice the memory."""

BLOCK_BYTES = 1 << 19  # of rows laid out from one: they stay in the cache until they are written
_VIEWED_BYTES = 1 << 16  # rows from so many on are handed on as they lie, uncopied

_FORMATS = {"float64": FLOAT64, "float32": FLOAT32, "bfloat16": BFLOAT16}


def rows_a_block(width: int, values: int | None = None) -> int:
    """How many rows of ``width`` make a block: of ``values``, where a backend prefers so many."""
    return max(1, (values or BLOCK_VALUES) // width)


def position_array(positions: Positions) -> Integers:
    """All the positions, in order, as int64.

    Shape: (positions.count,).
    """
    return np.concatenate(
        [np.arange(run.start, run.stop, run.step, dtype=np.int64) for run in positions.ranges]
    )


def position_blocks(positions: Positions, count: int) -> Iterator[Integers]:
    """The positions in order, at most ``count`` at a time."""
    return map(position_array, positions.blocks(count))


def repeated_rows(row: StoredValues) -> Iterator[StoredRows]:
    """Blocks of a square matrix whose rows are all the same."""
    rows = min(row.size, max(1, BLOCK_BYTES // row.nbytes))
    block = np.ascontiguousarray(np.broadcast_to(row, (rows, row.size)))
    for begin in range(0, row.size, rows):
        yield block[: row.size - begin]


def sliding_rows(values: StoredValues) -> Iterator[StoredRows]:
    """Blocks of a square matrix whose values go by j − i, from the smallest on: (2 · rows − 1,).

    Row i is the piece that has the offset 0 in column i, so no value is computed twice.
    """
    count = (values.size + 1) // 2
    windows = np.lib.stride_tricks.sliding_window_view(values, count)[::-1]
    rows = max(1, BLOCK_BYTES // (count * values.itemsize))
    if count * values.itemsize >= _VIEWED_BYTES:
        yield from windows[:, None]
        return
    for begin in range(0, count, rows):
        yield np.ascontiguousarray(windows[begin : begin + rows])


def in_arithmetic(values: Numbers, arithmetic: Arithmetic) -> Numbers:
    """``values`` rounded to the precision of an arithmetic; integers stay integers.

    A quotient, product or sum of two numbers of float32 or bfloat16, computed in float64 and then
    rounded, is what that precision computes: float64 has more than twice its digits.
    """
    if arithmetic == "exact":
        return values
    rounded = round_to(values.astype(np.float64), FLOAT64, _FORMATS[arithmetic])
    return rounded.astype(values.dtype)
