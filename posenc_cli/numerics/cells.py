"""The values of a table in float64, in blocks that fit the cache.

This module makes the passes over memory that angle addition needs. Consecutive positions use slices
of the low table, all others use gathered rows. It also computes the margin of every block's
rounding test.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.layout import UNIT, Columns, Factors
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numpy.typing import NDArray

    from posenc_cli.numerics.arrays import Integers, Reals, StoredValues
    from posenc_cli.numerics.phasors import Phasors

MARGIN = 6.0 * UNIT
TILE_CELLS = 8192  # shorter inner loops would spend noticeable time on NumPy's setup
VIEWS_KEPT = 64
CHUNK_CELLS = 1 << 17  # float64 buffers of 1 MiB: about the size of the L2 cache, and few calls


class Cells(Record):
    """Rows start … stop of a table, as (cells,) float64.

    ``margin`` bounds an entry's error plus the rounding of entry ± margin. It is a number, or a
    tile repeated along the entries. ``values`` is a buffer; the caller may overwrite it until the
    next block.
    """

    start: int
    stop: int
    values: Reals
    margin: Any


class Scratch(threading.local):
    """Buffers of one thread, kept from block to block so that their pages stay mapped.

    Their views are kept too. A pass over memory evicts Python's own objects from the caches, so
    creating each one again takes noticeable time.
    """

    def __init__(self) -> None:
        self._memory: dict[str, bytearray] = {}
        self._made: dict[Hashable, Any] = {}
        self._views: dict[tuple[str, int | tuple[int, int], Any], NDArray[Any]] = {}

    def buffer(
        self, name: str, shape: int | tuple[int, int], dtype: Any = np.float64
    ) -> NDArray[Any]:
        """Return this thread's buffer of that name as an array of that shape."""
        key = name, shape, dtype
        view = self._views.get(key)
        if view is None:
            size = math.prod(shape) if isinstance(shape, tuple) else shape
            nbytes = size * np.dtype(dtype).itemsize
            if len(self._memory.get(name, b"")) < nbytes or len(self._views) >= VIEWS_KEPT:
                self._views.clear()
                self._made.clear()
            if len(self._memory.get(name, b"")) < nbytes:
                self._memory[name] = bytearray(nbytes)
            view = np.frombuffer(self._memory[name], dtype, size).reshape(shape)
            self._views[key] = view
        return view

    def memory(self, name: str) -> bytearray:
        """Return all the memory of a buffer, which can be compared by one memcmp."""
        return self._memory[name]

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the object kept under a key, or make it from this thread's buffers."""
        value = self._made.get(key)
        if value is None:
            value = make()
            self._made[key] = value
        return value


def chunk_rows(width: int) -> int:
    """Return how many rows of ``width`` entries are computed at once: 0 if not even one fits."""
    return CHUNK_CELLS // width


def rising_by_one(positions: Integers) -> bool:
    """Return whether positions are n, n + 1, n + 2, … for some n ≥ 0."""
    return bool(
        positions.size
        and positions[0] >= 0
        and positions[-1] - positions[0] == positions.size - 1
        and (positions[1:] > positions[:-1]).all()
    )


def consecutive_blocks(
    factors: Factors, positions: Integers, *, magnitude: float, scratch: Scratch
) -> Iterator[Cells]:
    """Yield the entries of consecutive positions, from full tables.

    Shape: ``positions`` (P,), none negative; ``magnitude`` is that of the scale.
    """
    rows, width = factors.phasors.rows, factors.first.shape[1]
    repeats = max(1, min(rows, TILE_CELLS // width))
    step = max(repeats, chunk_rows(width) // repeats * repeats)
    tiles = [scratch.buffer(name, repeats * width) for name in ("by", "other by", "margin")]
    start = int(positions[0])
    stop = start + positions.size
    for multiple in range(start // rows, (stop - 1) // rows + 1):
        index, place = factors.located(multiple)
        batch = factors.batch(index, scale=magnitude)
        margin = margins_of(batch.bounds[place], batch.least, magnitude)
        np.copyto(tiles[0].reshape(repeats, width), batch.first[place])
        np.copyto(tiles[1].reshape(repeats, width), batch.second[place])
        if isinstance(margin, np.ndarray):
            np.copyto(tiles[2].reshape(repeats, width), margin)
            margin = tiles[2]
        origin = multiple * rows
        last = min(stop, origin + rows)
        for begin in range(max(start, origin), last, step):
            end = min(begin + step, last)
            span, size = slice(begin - origin, end - origin), (end - begin) * width
            first, second = scratch.buffer("cells", size), scratch.buffer("other", size)
            by_tile(np.multiply, factors.first[span].reshape(-1), tiles[0], first)
            by_tile(np.multiply, factors.second[span].reshape(-1), tiles[1], second)
            np.add(first, second, out=first)
            yield Cells(begin - start, end - start, first, margin)


def scattered_blocks(
    columns: Columns,
    phasors: Phasors,
    positions: Integers,
    factors: Factors | None,
    *,
    magnitude: float,
    scratch: Scratch,
) -> Iterator[Cells]:
    """Yield the entries of any positions, from full tables or only from the rows they use.

    Shape: ``positions`` (P,); ``magnitude`` is that of the scale.
    """
    rows, width = phasors.rows, columns.waves.size
    step = max(1, chunk_rows(width))
    for start in range(0, positions.size, step):
        block = positions[start : start + step]
        sizes = np.abs(block)
        offsets = sizes & (rows - 1)
        chosen = factors
        if chosen is None:
            offsets, places = np.unique(offsets, return_inverse=True)
            chosen = Factors(columns, phasors, offsets)
            offsets = places
        # One row for each multiple and sign: ~a stands for −a.
        keys, places = np.unique(
            np.where(block < 0, ~(sizes // rows), sizes // rows), return_inverse=True
        )
        multiples = np.where(keys < 0, ~keys, keys)
        first, second = chosen.high(multiples, keys < 0)
        bounds = chosen.bounds(multiples, first, second, magnitude)
        margin = margins_of(bounds, float(bounds.min()), magnitude)
        shape = (block.size, width)
        cells, other, third = (
            scratch.buffer(name, block.size * width).reshape(shape)
            for name in ("cells", "other", "gathered")
        )
        for factor, by, result in (
            (chosen.first, first, cells),
            (chosen.second, second, other),
        ):
            np.take(factor, offsets, axis=0, out=result, mode="clip")
            np.take(by, places, axis=0, out=third, mode="clip")
            np.multiply(result, third, out=result)
        if isinstance(margin, np.ndarray):
            np.take(margin, places, axis=0, out=third, mode="clip")
            margin = third.reshape(-1)
        np.add(cells, other, out=cells)
        yield Cells(start, start + block.size, cells.reshape(-1), margin)


def margins_of(bounds: Reals, least: float, magnitude: float) -> Any:
    """Return the margin of the rounding test: one number if that adds few doubts, else an array.

    ``least`` is at most the smallest of the bounds.
    """
    if least > magnitude * 2.0**-16:
        return MARGIN * magnitude * (1 + 2.0**-30)
    return MARGIN * bounds


def by_tile(operation: np.ufunc, values: Reals, tile: Any, result: StoredValues) -> None:
    """Apply an operation to values and a tile repeated along them, or a single number.

    If ``result`` is narrower, NumPy rounds on the way, a few thousand values at a time.
    """
    if not isinstance(tile, np.ndarray) or tile.size == values.size:
        operation(values, tile, out=result, casting="same_kind")
        return
    whole = values.size // tile.size * tile.size
    shape = (-1, tile.size)
    if whole:
        some, target = values[:whole].reshape(shape), result[:whole].reshape(shape)
        operation(some, tile, out=target, casting="same_kind")
    if whole < values.size:
        rest = tile[: values.size - whole]
        operation(values[whole:], rest, out=result[whole:], casting="same_kind")
