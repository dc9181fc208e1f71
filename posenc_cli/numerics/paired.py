"""Tables of cosine-sine pairs: product, rounding test, store.

Owns the loop that most tables are filled by. Between two passes over memory the interpreter's own
objects have left the caches, and threads wait for each other there, so this one takes few steps and
long ones: all arrays are made once for a size of chunk, and only entries in doubt leave it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics import halves
from posenc_cli.numerics.cells import chunk_rows, margins_of
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.judge import Doubts, Table
from posenc_cli.numerics.layout import power_of_two
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Integers,
        Reals,
        StoredRows,
        StoredValues,
    )
    from posenc_cli.numerics.cells import Scratch
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.layout import Pairs, Placed


class ChunkFactors(Record):
    """What makes the entries of a chunk: two factors of their product, and a margin of the entries.

    Shape: ``low`` (tiles, tile) and ``by`` (tile,) complex; ``margin`` a number, or (2 · tile,).
    """

    low: ComplexRows
    by: ComplexRows
    margin: Any


class Chunk(ABC):
    """One thread's arrays for so many rows of pairs, as ``shape[0]`` tiles of ``shape[1]`` pairs.

    ``places`` of doubts count the entries from the chunk's first, pair after pair.
    """

    def __init__(self, rows: int, pairs: Pairs) -> None:
        count = max(1, rows // pairs.repeats)
        self.shape = count, rows * pairs.low.shape[1] // count

    @abstractmethod
    def fill(self, target: StoredRows, placed: Placed, factors: ChunkFactors) -> Doubts | None:
        """Write the entries of some rows, rounded; return those that are not proven, if any."""


class Singles(Chunk):
    """Entries rounded to float32: proven where entry + margin and entry − margin round alike."""

    def __init__(self, rows: int, pairs: Pairs, scratch: Scratch) -> None:
        super().__init__(rows, pairs)
        count, tile = self.shape
        self._product = scratch.buffer("cells", self.shape, np.complex128)
        self._cells = scratch.buffer("cells", (count, 2 * tile))
        self._upper = scratch.buffer("bits", (count, 2 * tile), np.float32)
        self._lower = scratch.buffer("low", (count, 2 * tile), np.float32)
        self._memory = scratch.memory("low")

    def fill(self, target: StoredRows, placed: Placed, factors: ChunkFactors) -> Doubts | None:
        """Write the roundings of entry + margin."""
        direct = placed.in_order and target.flags.c_contiguous
        upper = target.reshape(self._upper.shape) if direct else self._upper
        np.multiply(factors.low, factors.by, out=self._product)
        np.add(self._cells, factors.margin, out=upper, casting="same_kind")
        np.subtract(self._cells, factors.margin, out=self._lower, casting="same_kind")
        # Bits, not values: 0.0 and −0.0 differ. If the buffer is full, comparing memory is quick.
        proven = upper.nbytes == len(self._memory) and self._memory == upper
        doubts = None if proven else self._differing(upper)
        if not direct:
            placed.place(upper, target)
        return doubts

    def _differing(self, upper: StoredValues) -> Doubts | None:
        places = np.flatnonzero(upper.view(np.uint32) != self._lower.view(np.uint32))
        return Doubts(places, None, None) if places.size else None


class Halves(Chunk):
    """Entries rounded to a half precision by way of float32 (:mod:`posenc_cli.numerics.halves`)."""

    def __init__(self, rows: int, pairs: Pairs, scratch: Scratch, dtype: DType) -> None:
        super().__init__(rows, pairs)
        count, tile = self.shape
        size = 2 * count * tile
        self._dtype = dtype
        self._scratch = scratch
        self._factor = halves.factor(dtype)
        self._by = scratch.buffer("scaled", tile, np.complex128)
        self._product = scratch.buffer("single", self.shape, np.complex64)
        self._single = scratch.buffer("single", size, np.float32)

    def fill(self, target: StoredRows, placed: Placed, factors: ChunkFactors) -> Doubts | None:
        """Write the roundings of the entries."""
        low, by, margin = factors.low, factors.by, factors.margin
        if isinstance(margin, np.ndarray):
            return self._fill_by_columns(target, placed, factors)
        np.multiply(by, self._factor, out=self._by)
        np.multiply(low, self._by, out=self._product, casting="same_kind")
        roundings = halves.rounded_scaled(self._single, margin, self._dtype, self._scratch)
        words, ties = roundings.words, roundings.ties
        doubts = None
        if ties.size:
            cells = _cells(low, by, ties)
            known = halves.decided(words, ties, cells, margin, self._dtype)
            if not known.all():
                doubts = Doubts(ties[~known], cells[~known], margin)
        if (near_zero := roundings.near_zero) is not None:
            places = near_zero if doubts is None else np.concatenate([near_zero, doubts.places])
            doubts = Doubts(places, _cells(low, by, places), margin)
        placed.place_upper(words, target)
        return doubts

    def _fill_by_columns(
        self, target: StoredRows, placed: Placed, factors: ChunkFactors
    ) -> Doubts | None:
        low, by, margin = factors.low, factors.by, factors.margin
        product = self._scratch.buffer("cells", self.shape, np.complex128)
        cells = self._scratch.buffer("cells", self._single.size)
        bits = self._scratch.buffer("bits", cells.size, target.dtype)
        np.multiply(low, by, out=product)
        places = halves.rounded(cells, margin, self._dtype, bits, self._scratch)
        placed.place(bits, target)
        if places.size == 0:
            return None
        return Doubts(places, cells[places], margin[places % margin.size])


def _cells(low: ComplexRows, by: ComplexRows, places: Integers) -> Reals:
    """Return some entries of a chunk again, in float64."""
    pairs, second = np.divmod(places, 2)
    products = low.reshape(-1)[pairs] * by[pairs % by.size]
    cells: Reals = np.where(second, products.imag, products.real)
    return cells


def rounded_pairs(
    pairs: Pairs, table: Table, *, dtype: DType, magnitude: float, scratch: Scratch
) -> Iterator[Doubts]:
    """Write the entries of positions that rise by one, rounded; yield those that are not proven.

    NumPy may fuse a multiplication of a complex product with its addition, or not: the entries are
    rounded to less, by tests that hold either way.

    Shape: the positions of ``table``: none negative; ``magnitude`` is that of the scale.
    """
    out, positions, placed = table.out, table.positions, table.placed
    rows, width = pairs.low.shape
    repeats = pairs.repeats
    tile = scratch.buffer("by", repeats * width, np.complex128)
    margins = scratch.buffer("margin", 2 * repeats * width)
    start = int(positions[0])
    stop = start + positions.size
    made = (
        partial(Singles, pairs=pairs, scratch=scratch)
        if dtype.name == FLOAT32.name
        else partial(Halves, pairs=pairs, scratch=scratch, dtype=dtype)
    )
    for multiple in range(start // rows, (stop - 1) // rows + 1):
        index, place = pairs.located(multiple)
        batch = pairs.batch(index, scale=magnitude)
        np.copyto(tile.reshape(repeats, width), batch.high[place])
        margin = margins_of(batch.bounds[place], batch.least, magnitude)
        if isinstance(margin, np.ndarray):
            np.copyto(margins.reshape(repeats, 2 * width), margin)
            margin = margins
        origin = multiple * rows
        for begin, end in chunks(pairs, max(start - origin, 0), min(stop - origin, rows)):
            count = end - begin
            key = dtype.name, count, width
            chunk: Chunk = scratch.kept(key, partial(made, count))
            size = chunk.shape[1]
            slack = margin if isinstance(margin, float) else margin[: 2 * size]
            low = pairs.low[begin:end].reshape(chunk.shape)
            first = origin + begin - start
            target = out[first : first + count]
            doubts = chunk.fill(target, placed, ChunkFactors(low, tile[:size], slack))
            if doubts is not None:
                yield replace(doubts, places=doubts.places + 2 * width * first)


def chunks(pairs: Pairs, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a multiple's rows, ``start`` to ``stop``: full tiles, then what is left."""
    repeats = pairs.repeats
    step = max(repeats, power_of_two(chunk_rows(2 * pairs.low.shape[1])))
    whole = start + (stop - start) // repeats * repeats
    for begin in range(start, whole, step):
        yield begin, min(begin + step, whole)
    if whole < stop:
        yield whole, stop
