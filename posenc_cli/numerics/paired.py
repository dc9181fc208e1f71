"""Tables of cosine-sine pairs in float32: product, rounding test, store.

Most tables are filled by the loop of this module. A pass over memory evicts the interpreter's own
objects from the caches, and threads then wait for each other. So this loop takes few, long steps:
it creates all arrays once per chunk size, and only entries in doubt leave it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.cells import Scratch, chunk_rows, margins_of
from posenc_cli.numerics.judge import Doubts, Table
from posenc_cli.numerics.layout import Pairs, Placed, power_of_two

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Integers,
        StoredRows,
    )


class Chunk:
    """A thread's arrays for some rows of pairs, as ``shape[0]`` tiles of ``shape[1]`` pairs."""

    def __init__(self, rows: int, pairs: Pairs, scratch: Scratch) -> None:
        count = max(1, rows // pairs.repeats)
        tile = rows * pairs.low.shape[1] // count
        self.shape = count, tile
        self._product = scratch.buffer("cells", self.shape, np.complex128)
        self._cells = scratch.buffer("cells", (count, 2 * tile))
        self._upper = scratch.buffer("bits", (count, 2 * tile), np.float32)
        self._lower = scratch.buffer("low", (count, 2 * tile), np.float32)
        self._memory = scratch.memory("low")

    def fill(
        self, target: StoredRows, placed: Placed, low: ComplexRows, by: ComplexRows, margin: Any
    ) -> Integers | None:
        """Write the products low · by of some rows, rounded; return the places in doubt.

        An entry is proven if entry + margin and entry − margin round to the same number. Places
        count from the chunk's first entry, pair after pair.

        Shape: ``low`` (tiles, tile) and ``by`` (tile,) complex; ``margin`` a number or (2 · tile,).
        """
        direct = placed.in_order and target.flags.c_contiguous
        upper = target.reshape(self._upper.shape) if direct else self._upper
        np.multiply(low, by, out=self._product)
        np.add(self._cells, margin, out=upper, casting="same_kind")
        np.subtract(self._cells, margin, out=self._lower, casting="same_kind")
        # Compare bits, not values: 0.0 and −0.0 differ. A full buffer allows one fast memory
        # comparison.
        places = None
        if upper.nbytes != len(self._memory) or self._memory != upper:
            places = np.flatnonzero(upper.view(np.uint32) != self._lower.view(np.uint32))
        if not direct:
            placed.place(upper, target)
        return places


def rounded_pairs(
    pairs: Pairs, table: Table, *, magnitude: float, scratch: Scratch
) -> Iterator[Doubts]:
    """Write the entries of consecutive positions as float32; yield those that are not proven.

    NumPy may or may not fuse a multiplication of a complex product with its addition. The rounding
    test holds either way, because the entries are rounded to a narrower format.

    Shape: the positions of ``table``, none negative; ``magnitude`` is that of the scale.
    """
    out, positions, placed = table.out, table.positions, table.placed
    rows, width = pairs.low.shape
    repeats = pairs.repeats
    tile = scratch.buffer("by", repeats * width, np.complex128)
    margins = scratch.buffer("margin", 2 * repeats * width)
    start = int(positions[0])
    stop = start + positions.size
    made = partial(Chunk, pairs=pairs, scratch=scratch)
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
            chunk: Chunk = scratch.kept((count, width), partial(made, count))
            size = chunk.shape[1]
            slack = margin if isinstance(margin, float) else margin[: 2 * size]
            low = pairs.low[begin:end].reshape(chunk.shape)
            first = origin + begin - start
            target = out[first : first + count]
            places = chunk.fill(target, placed, low, tile[:size], slack)
            if places is not None and places.size:
                yield Doubts(places + 2 * width * first, None, None)


def chunks(pairs: Pairs, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a multiple's rows, ``start`` to ``stop``: full tiles, then the remainder."""
    repeats = pairs.repeats
    step = max(repeats, power_of_two(chunk_rows(2 * pairs.low.shape[1])))
    whole = start + (stop - start) // repeats * repeats
    for begin in range(start, whole, step):
        yield begin, min(begin + step, whole)
    if whole < stop:
        yield whole, stop
