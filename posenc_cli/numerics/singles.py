"""Tables of float32 pairs, a cosine and a sine of each wave: product, rounding test, store.

Owns the loop that most tables are filled by. Between two passes over memory the interpreter's own
objects have left the caches and every step of it shows, so this one takes few: all arrays are made
once for a size of chunk, and only cells in doubt leave it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.cells import margins_of
from posenc_cli.numerics.judge import Doubts, Table
from posenc_cli.numerics.layout import power_of_two

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.numerics.cells import Scratch
    from posenc_cli.numerics.layout import Pairs

CHUNK_CELLS = 1 << 16


class Chunk:
    """One thread's arrays for so many rows of pairs, as ``count`` tiles.

    Shape: ``product`` (count, tile) complex; ``cells``, the same memory, and ``upper`` and
    ``lower``, the roundings of cell ± margin, (count, 2 · tile).
    """

    def __init__(self, rows: int, pairs: Pairs, scratch: Scratch) -> None:
        width = pairs.low.shape[1]
        count = max(1, rows // pairs.repeats)
        tile = rows * width // count
        shape = count, 2 * tile
        self.tile = tile
        self.product = scratch.buffer("cells", (count, tile), np.complex128)
        self.cells = scratch.buffer("cells", shape)
        self.upper = scratch.buffer("bits", shape, np.float32)
        self.lower = scratch.buffer("low", shape, np.float32)
        self._memory = scratch.memory("low")

    def proven(self, upper: NDArray[Any]) -> bool:
        """Whether all bits are those of ``lower``, at once by comparing memory if that is full.

        Bits, not values: 0.0 and −0.0 differ.
        """
        if upper.nbytes == len(self._memory):
            return bool(self._memory == upper)
        return not self.differing(upper).size

    def differing(self, upper: NDArray[Any]) -> NDArray[Any]:
        """Where bits are not those of ``lower``."""
        return np.flatnonzero(upper.view(np.uint32) != self.lower.view(np.uint32))


def chunks(pairs: Pairs, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a multiple's rows, ``start`` to ``stop``: full tiles, then what is left."""
    repeats = pairs.repeats
    step = max(repeats, power_of_two(CHUNK_CELLS // (2 * pairs.low.shape[1])))
    whole = start + (stop - start) // repeats * repeats
    for begin in range(start, whole, step):
        yield begin, min(begin + step, whole)
    if whole < stop:
        yield whole, stop


def rounded_pairs(
    pairs: Pairs, table: Table, *, magnitude: float, scratch: Scratch
) -> Iterator[Doubts]:
    """Write the cells of positions that rise by one, rounded to float32; yield those in doubt.

    A cell is proven where cell + margin and cell − margin round alike, as for any format.
    """
    out, positions, placed = table
    rows, width = pairs.low.shape
    repeats = pairs.repeats
    tile = scratch.buffer("by", repeats * width, np.complex128)
    margins = scratch.buffer("margin", 2 * repeats * width)
    direct = placed.in_order and out.flags.c_contiguous
    start = int(positions[0])
    stop = start + positions.size
    for multiple in range(start // rows, (stop - 1) // rows + 1):
        index, place = divmod(multiple, pairs.batch_size)
        batch = pairs.batch(index, scale=magnitude)
        np.copyto(tile.reshape(repeats, width), batch.high[place])
        margin = margins_of(batch.bounds, batch.least, magnitude)
        if isinstance(margin, np.ndarray):
            np.copyto(margins.reshape(repeats, 2 * width), margin[place])
            margin = margins
        origin = multiple * rows
        for begin, end in chunks(pairs, max(start - origin, 0), min(stop - origin, rows)):
            count = end - begin
            chunk = scratch.kept((count, width), partial(Chunk, count, pairs, scratch))
            first = origin + begin - start
            target = out[first : first + count]
            slack = margin if isinstance(margin, float) else margin[: 2 * chunk.tile]
            upper = target.reshape(chunk.upper.shape) if direct else chunk.upper
            low = pairs.low[begin:end].reshape(chunk.product.shape)
            np.multiply(low, tile[: chunk.tile], out=chunk.product)
            np.add(chunk.cells, slack, out=upper, casting="same_kind")
            np.subtract(chunk.cells, slack, out=chunk.lower, casting="same_kind")
            differing = None if chunk.proven(upper) else chunk.differing(upper)
            if not direct:
                placed.place(upper, target)
            if differing is not None:
                yield Doubts(differing + 2 * width * first, None, None)
