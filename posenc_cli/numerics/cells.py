"""The cells of a table in float64, block by block: long loops over buffers that fit the cache.

Owns the passes over memory that angle addition takes, for rising positions (slices of the low
table) and for any others (gathered rows), and the margin of every block's rounding test.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.numerics.halves import HalfRounder
from posenc_cli.numerics.layout import UNIT, Columns, Factors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.numerics.phasors import Phasors

MARGIN = 6.0 * UNIT
TILE_CELLS = 8192  # inner loops this long, or NumPy's setup of each would show
CHUNK_CELLS = 1 << 16  # float64 buffers of 512 KiB: in cache, and few calls for all the cells


class Block(NamedTuple):
    """Rows start … stop of a table: each cell is ``first + second``, both (cells,) float64.

    ``margin`` bounds a cell's error and the rounding of cell ± margin: a number, or a tile of cells
    that is repeated along them. The arrays are buffers, free for use until the next block.
    """

    start: int
    stop: int
    first: NDArray[Any]
    second: NDArray[Any]
    margin: Any


class Scratch(threading.local):
    """Buffers of one thread, kept from block to block so that their pages stay mapped."""

    def __init__(self) -> None:
        self._size = self._tile = 0

    def reserve(self, cells: int, tile: int) -> None:
        """Make room for so many cells in a block, and in a tile."""
        if self._size < cells:
            self._size = cells
            self.first, self.second = np.empty(cells), np.empty(cells)
            self._third: NDArray[Any] | None = None
            self.lower = bytearray(4 * cells)
            self._halves: HalfRounder | None = None
        if self._tile < tile:
            self._tile = tile
            self.tiles = [np.empty(tile) for _ in range(3)]

    @property
    def third(self) -> NDArray[Any]:
        """One more buffer, for rows that have to be gathered."""
        if self._third is None:
            self._third = np.empty(self._size)
        return self._third

    @property
    def halves(self) -> HalfRounder:
        """A rounder to half precisions for blocks of the reserved size."""
        if self._halves is None:
            self._halves = HalfRounder(self._size)
        return self._halves


def rising_by_one(positions: NDArray[Any]) -> bool:
    """Whether positions are n, n + 1, n + 2, … for some n ≥ 0."""
    if positions.size == 0:
        return False
    first, last = int(positions[0]), int(positions[-1])
    if first < 0 or last - first != positions.size - 1:
        return False
    return bool((np.diff(positions) == 1).all())


def consecutive_blocks(
    factors: Factors, positions: NDArray[Any], *, magnitude: float, scratch: Scratch
) -> Iterator[Block]:
    """Yield the cells of positions that rise by one, from full tables.

    Shape: ``positions`` (P,), none negative; ``magnitude`` is that of the scale.
    """
    rows, width = factors.phasors.rows, factors.first.shape[1]
    repeats = max(1, min(rows, TILE_CELLS // width))
    step = max(repeats, CHUNK_CELLS // width // repeats * repeats)
    scratch.reserve(step * width, repeats * width)
    tiles = [tile[: repeats * width] for tile in scratch.tiles]
    start = int(positions[0])
    stop = start + positions.size
    for multiple in range(start // rows, (stop - 1) // rows + 1):
        index, place = divmod(multiple, factors.batch_size)
        if place == 0 or multiple == start // rows:
            batch = factors.batch(index, scale=magnitude)
            margins = _margins(batch.bounds, magnitude)
        np.copyto(tiles[0].reshape(repeats, width), batch.first[place])
        np.copyto(tiles[1].reshape(repeats, width), batch.second[place])
        margin = margins
        if isinstance(margins, np.ndarray):
            margin = tiles[2]
            np.copyto(margin.reshape(repeats, width), margins[place])
        origin = multiple * rows
        last = min(stop, origin + rows)
        for begin in range(max(start, origin), last, step):
            end = min(begin + step, last)
            span, size = slice(begin - origin, end - origin), (end - begin) * width
            first, second = scratch.first[:size], scratch.second[:size]
            by_tile(np.multiply, factors.first[span].reshape(-1), tiles[0], first)
            by_tile(np.multiply, factors.second[span].reshape(-1), tiles[1], second)
            yield Block(begin - start, end - start, first, second, margin)


def scattered_blocks(
    columns: Columns,
    phasors: Phasors,
    positions: NDArray[Any],
    factors: Factors | None,
    *,
    magnitude: float,
    scratch: Scratch,
) -> Iterator[Block]:
    """Yield the cells of any positions, from full tables or from the rows in use alone.

    Shape: ``positions`` (P,); ``magnitude`` is that of the scale.
    """
    rows, width = phasors.rows, columns.waves.size
    step = max(1, CHUNK_CELLS // width)
    scratch.reserve(step * width, 1)
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
        margin = _margins(chosen.bounds(multiples, first, second, magnitude), magnitude)
        shape = (block.size, width)
        cells, other, third = (
            buffer[: block.size * width].reshape(shape)
            for buffer in (scratch.first, scratch.second, scratch.third)
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
        yield Block(start, start + block.size, cells.reshape(-1), other.reshape(-1), margin)


def _margins(bounds: NDArray[Any], magnitude: float) -> Any:
    """Return the margin of the rounding test: one number where it loses little, else rows."""
    if bounds.min() > magnitude * 2.0**-16:
        return MARGIN * magnitude * (1 + 2.0**-30)
    return MARGIN * bounds


def by_tile(operation: np.ufunc, values: NDArray[Any], tile: Any, result: NDArray[Any]) -> None:
    """Apply an operation to values and a tile repeated along them, or a single number."""
    if not isinstance(tile, np.ndarray) or tile.size == values.size:
        operation(values, tile, out=result)
        return
    whole = values.size // tile.size * tile.size
    shape = (-1, tile.size)
    if whole == values.size:
        operation(values.reshape(shape), tile, out=result.reshape(shape))
        return
    if whole:
        operation(values[:whole].reshape(shape), tile, out=result[:whole].reshape(shape))
    if whole < values.size:
        operation(values[whole:], tile[: values.size - whole], out=result[whole:])
