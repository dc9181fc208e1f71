"""Positions as arrays, and arrays in the precision of an arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.rounding import round_to
from posenc_cli.positions import LARGEST_POSITION, Positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.backends.registry import Arithmetic
    from posenc_cli.numerics.arrays import Integers, Reals, StoredRows, StoredValues

Numbers = TypeVar("Numbers", "Integers", "Reals")

BLOCK_VALUES = 1 << 17
"""Values in a block: enough to make passing blocks between threads cheap, few enough to stay near
the cache. Twice as many would be a twelfth faster, and take 2 MiB more per thread."""

BLOCK_BYTES = 1 << 19  # of rows copied from a longer one: they stay in the cache until written
_VIEWED_BYTES = 1 << 16  # rows of at least this size are yielded as views, not copied

_MOST_PLACES = 100  # binary places after the point; Positions writes and reads such denominators

_FORMATS = {"float64": FLOAT64, "float32": FLOAT32, "bfloat16": BFLOAT16}


def rows_a_block(width: int, values: int | None = None) -> int:
    """Return the rows of ``width`` per block; ``values`` is the block size a backend prefers."""
    return max(1, (values or BLOCK_VALUES) // width)


def position_array(positions: Positions) -> Integers:
    """Return all positions, in order, as int64: multiples of 1/denominator.

    Shape: (positions.count,).
    """
    runs = [  # arange divides in float64: only a stop that is a multiple of steps away is exact
        np.arange(run.start, run.start + len(run) * run.step, run.step, dtype=np.int64)
        for run in positions.ranges
    ]
    return runs[0] if len(runs) == 1 else np.concatenate(runs)


def positions_from(values: NDArray[Any], *, name: str = "positions") -> Positions:
    """Return numbers (n,) as positions, exactly: a float is a multiple of a power of two.

    >>> str(positions_from(np.array([0.5, 1.0, 1.5, -0.25])))
    '0.5:1.75:0.5,-0.25'
    >>> positions_from(np.array([0.0, 0.5, 1.0])).ranges
    (range(0, 3),)

    Raises:
        InvalidInput: they are not real numbers, or some would pass 2^53 as multiples of a common
            power of two.
    """
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8 or values.size == 0:
        raise InvalidInput(f"{name}: {values.size} values of {values.dtype} are not positions")
    numbers, parts = whole_parts(values, name=name)
    return Positions(_runs(numbers), parts)


def whole_parts(values: NDArray[Any], *, name: str) -> tuple[Integers, int]:
    """Return numbers as integer multiples of 1/2^k, exactly, in the shape of ``values``, and 2^k.

    >>> whole_parts(np.array([0.5, -3.0]), name="coordinates")
    (array([ 1, -6]), 2)

    Raises: InvalidInput if some are not finite, or pass 2^53 as multiples of the common 1/2^k.
    """
    if values.dtype.kind != "f":
        farthest = max(int(values.max()), int(values.min()), key=abs)
        if abs(farthest) > LARGEST_POSITION:
            raise InvalidInput(f"{name}: {farthest} is past 2^53, the last exact position")
        return values.astype(np.int64), 1
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{name}: must be finite numbers")
    mantissas, exponents = np.frexp(numbers)  # (n,)
    digits = (mantissas * 2.0**53).astype(np.int64)
    zeros = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    places = np.where(digits == 0, 0, 53 - exponents - zeros)
    power = max(0, int(places.max()))
    largest = float(numbers.flat[np.argmax(np.abs(numbers))])
    if power == 0 and abs(largest) > LARGEST_POSITION:
        raise InvalidInput(f"{name}: {largest:g} is past 2^53, the last exact position")
    if power > _MOST_PLACES or abs(largest) * 2.0**power > LARGEST_POSITION:
        finest = float(numbers.flat[np.argmax(places)])
        raise InvalidInput(
            f"{name}: {finest} and {largest} together need more than 53 bits",
            hint="round them to float32, or to multiples of 2**-20",
        )
    return np.ldexp(numbers, power).astype(np.int64), 1 << power


def _runs(numbers: Integers) -> tuple[range, ...]:
    """Return integers in order as ranges that all step by the first difference: (n,)."""
    if numbers.size == 1:
        return (range(int(numbers[0]), int(numbers[0]) + 1),)
    step = max(1, int(numbers[1]) - int(numbers[0]))
    breaks = np.flatnonzero(numbers[1:] - numbers[:-1] != step) + 1
    starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), numbers.size]
    return tuple(
        range(first, first + (stop - start - 1) * step + 1, step)
        for start, stop, first in zip(starts, stops, numbers[starts].tolist(), strict=True)
    )


def position_blocks(positions: Positions, count: int) -> Iterator[Integers]:
    """Yield the positions in order, at most ``count`` at a time."""
    return map(position_array, [positions] if positions.count <= count else positions.blocks(count))


def repeated_rows(row: StoredValues) -> Iterator[StoredRows]:
    """Yield blocks of a square matrix whose rows are all the same."""
    rows = min(row.size, max(1, BLOCK_BYTES // row.nbytes))
    block = np.ascontiguousarray(np.broadcast_to(row, (rows, row.size)))
    for begin in range(0, row.size, rows):
        yield block[: row.size - begin]


def sliding_rows(values: StoredValues) -> Iterator[StoredRows]:
    """Yield blocks of a square matrix of values by j − i, smallest first: (2 · rows − 1,).

    Row i is the slice with offset 0 in column i, so no value is computed twice.
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
    """Return ``values`` rounded to the precision of an arithmetic; integers stay integers.

    If a quotient, product or sum of two float32 or bfloat16 numbers is computed in float64 and then
    rounded, the result is that of the narrow precision: float64 has more than twice its digits.
    """
    if arithmetic == "exact":
        return values
    return round_to(values.astype(np.float64), FLOAT64, _FORMATS[arithmetic]).astype(values.dtype)
