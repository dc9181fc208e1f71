"""Values in float64, correctly rounded from exact products and their remainders.

This module turns the double-double tables of :mod:`posenc_cli.numerics.phasors` into float64. Every
factor is split into a multiple of a power of two and a remainder: X = X' + x, where X' has at most
27 bits, and likewise Y, U and V. An entry X U + Y V is then exact + rest, with

    exact = X' U' + Y' V'    and    rest = (X' u + x U) + (Y' v + y V).

Each column and multiple has an M such that both products of ``exact`` are multiples of 2^(M − 52)
and at most 2^M. So the products and their sum are float64 numbers, fused or not. All rounding
happens in the rest, which is 2^−26 of the entry, and Ziv's test judges it. If exact + (rest + m)
and exact + (rest − m) round to the same number, that is the entry.

Grids. Let |X| ≤ 2^p and |Y| ≤ 2^q in the column, |U| ≤ 2^r and |V| ≤ 2^s at the multiple, and M at
least p + r and q + s. X' is a multiple of 2^(p − 26), and U' of 2^(M − p − 26), so their product is
a multiple of 2^(M − 52). It is at most 2^M: rounding to a grid does not pass 2^p, nor 2^r; if the
grid of U is wider than 2^r, U' is at most one step of it. So |exact| is at most 2^53 steps.

Error, in units of 2^(M − 80). |u| and |x| are at most half a step of their grids, so each of the
four products of the rest is at most 2^(M − 27). u and x are rounded (1 each), U in x U lacks its
low part (1/2), and the two products are rounded (1 each): 4.5, and the same for Y. The three sums
are off by at most 2, 2 and 4, and rest ± m by 5. The tables are off by 2^−91 of each part if the
angle is small, and otherwise by 2^−91 of the scale. M is then at least the exponent of the scale
minus ten, so that is at most 1/2. Together that is 22.5; m is 32 units, 2^(M − 75).

So the test leaves one in 2^21 of the entries near 2^M undecided, and proportionally more of smaller
ones. :mod:`posenc_cli.numerics.judge` settles them.

Imports NumPy: import it only where something is computed.

Source: Gal, An accurate elementary mathematical library for the IEEE floating point standard, ACM
TOMS 17 (1991); Ziv, Fast evaluation of elementary mathematical functions with correctly rounded
last bit, ACM TOMS 17 (1991).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.numerics.cells import Scratch, rising_by_one
from posenc_cli.numerics.judge import Doubts, Judge, Table
from posenc_cli.numerics.layout import Columns, High, low_of
from posenc_cli.numerics.memory import LRUCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, StoredRows
    from posenc_cli.numerics.phasors import Phasors

CHUNK_CELLS = 1 << 15  # buffers of 256 KiB: about the size of the L2 cache, and few calls
GRID_BITS = 26
MARGIN_BITS = 75
SMALLEST_EXPONENT = -300  # of a factor: no remainder of a product is too small for float64
SMALLEST_SCALE, LARGEST_SCALE = Decimal(2) ** -300, Decimal(2) ** 400
CANCELLED_BITS = 10
LAYOUTS_KEPT = 2
BATCHES_KEPT = 2


class Low(NamedTuple):
    """X and Y on their grids, and their remainders: (offsets, columns) each."""

    first: RealRows
    first_rest: RealRows
    second: RealRows
    second_rest: RealRows


class By(NamedTuple):
    """U and V on their grids, the remainders, U and V rounded, and m: (multiples, columns) each."""

    first: RealRows
    first_rest: RealRows
    first_all: RealRows
    second: RealRows
    second_rest: RealRows
    second_all: RealRows
    margin: RealRows


def exponents(values: Any) -> Integers:
    """Return for each value the smallest e with |value| ≤ 2^e, at least ``SMALLEST_EXPONENT``.

    >>> exponents(np.array([1.0, 1.5, 0.0])).tolist()
    [0, 1, -300]
    """
    mantissas, powers = np.frexp(np.abs(values))
    least = powers - (mantissas == 0.5)
    return np.maximum(np.where(mantissas == 0, SMALLEST_EXPONENT, least), SMALLEST_EXPONENT)


def cut(high: RealRows, low: RealRows, exponent: Any) -> tuple[RealRows, RealRows]:
    """Return the multiple of 2^(exponent − 26) nearest to ``high``, and the rest of high + low.

    The rest is rounded once: a float64 minus its nearest multiple is a float64.

    >>> cut(np.array([1 + 2.0**-40]), np.array([2.0**-60]), 0)
    (array([1.]), array([9.09495569e-13]))
    """
    step = np.ldexp(1.0, exponent - GRID_BITS)
    grid = np.rint(high / step) * step
    return grid, (high - grid) + low


class Wide(High):
    """The factors of columns, each split in two.

    Shape: ``low`` are (offsets, columns) each, for every offset below ``rows`` or those given.
    """

    def __init__(self, columns: Columns, phasors: Phasors, offsets: Integers | None = None) -> None:
        parts = phasors.low_pairs(offsets)
        first, second = low_of(columns, parts[0], parts[2])
        first_low, second_low = low_of(columns, parts[1], parts[3])
        super().__init__(columns, phasors, first, second)
        self._first = exponents(self._reach_first)
        self._second = exponents(self._reach_second)
        self.low = Low(*cut(first, first_low, self._first), *cut(second, second_low, self._second))
        self._nought = columns.zero | (columns.sine & ~self._odd)
        self._least = int(exponents(float(phasors.scale))) - CANCELLED_BITS
        self._batches = LRUCache[By](BATCHES_KEPT)

    def by(self, multiples: Integers, negative: Flags | None = None) -> By:
        """Return U and V of some multiples."""
        parts = self.phasors.high_pairs(multiples)
        first, second = self._high_of(parts[0], parts[2], negative)
        first_low, second_low = self._high_of(parts[1], parts[3], negative)
        most = np.maximum(self._first + exponents(first), self._second + exponents(second))
        cancelling = (multiples[:, None] + 1.0) * self._steps > 0.5
        most = np.where(cancelling, np.maximum(most, self._least), most)
        margin = np.ldexp(1.0, most - MARGIN_BITS)
        margin[:, self._nought] = 0.0
        grids = cut(first, first_low, most - self._first)
        other = cut(second, second_low, most - self._second)
        return By(*grids, first, *other, second, margin)

    def batch(self, multiple: int) -> tuple[By, int]:
        """Return U and V of the batch that contains a multiple, and the multiple's place in it."""
        index, place = self.located(multiple)
        return self._batches.get(index, lambda: self.by(self.multiples(index))), place


class WideWaves:
    """Fills tables of float64, whose scale is not 0.

    ``ordinary`` tells whether the scale leaves factors and remainders within the range of float64.
    If not, every entry is settled on its own.
    """

    def __init__(self, phasors: Phasors, scratch: Scratch, judge: Judge) -> None:
        self._phasors = phasors
        self._scratch = scratch
        self._judge = judge
        self._columns = LRUCache[Wide](LAYOUTS_KEPT)
        self.ordinary = SMALLEST_SCALE < phasors.scale.copy_abs() < LARGEST_SCALE

    def fill(self, out: StoredRows, positions: Integers, columns: Columns) -> None:
        """Write the columns of ``out``, one row per position, every entry correctly rounded.

        Shape: ``out`` (positions, columns), with any strides.
        """
        if not self.ordinary:
            out[:, columns.zero] = 0.0
            turning = np.flatnonzero(~columns.zero)
            rows = np.arange(positions.size) * columns.waves.size
            places = (rows[:, None] + turning).reshape(-1)
            table = Table(out, positions, columns.placed)
            self._judge.settle(table, [Doubts(places, None, None)])
            return
        table = Table(out, positions, columns.placed)
        if rising_by_one(positions) and not self._few(columns, positions):
            doubts = self._fill_rising(table, columns)
        else:
            doubts = self._fill_scattered(table, columns)
        self._judge.settle(table, doubts)

    def _few(self, columns: Columns, positions: Integers) -> bool:
        """Return whether full tables, if not cached, would cost more than only the rows in use."""
        return columns.key not in self._columns and positions.size * 2 < self._phasors.rows

    def _wide(self, columns: Columns) -> Wide:
        return self._columns.get(columns.key, lambda: Wide(columns, self._phasors))

    def _fill_rising(self, table: Table, columns: Columns) -> Iterator[Doubts]:
        scratch, width = self._scratch, columns.waves.size
        wide = self._wide(columns)
        for rows, offsets, multiple, fresh in _spans(table, self._phasors.rows):
            count = (rows.stop - rows.start) * width
            if fresh:
                size = _chunk_rows(width, self._phasors.rows) * width
                batch, place = wide.batch(multiple)
                tiles = [scratch.buffer(f"by {index}", size) for index in range(len(batch))]
                for tile, part in zip(tiles, batch, strict=True):
                    tile.reshape(-1, width)[...] = part[place]
            low = Low(*(part[offsets].reshape(-1) for part in wide.low))
            yield from self._round_sums(table, rows, low, By(*(tile[:count] for tile in tiles)))

    def _fill_scattered(self, table: Table, columns: Columns) -> Iterator[Doubts]:
        positions, rows = table.positions, self._phasors.rows
        step = max(1, CHUNK_CELLS // columns.waves.size)
        whole = None if self._few(columns, positions) else self._wide(columns)
        for start in range(0, positions.size, step):
            block = positions[start : start + step]
            sizes = np.abs(block)
            offsets, wide = sizes & (rows - 1), whole
            if wide is None:
                used, offsets = np.unique(offsets, return_inverse=True)
                wide = Wide(columns, self._phasors, used)
            # One row for each multiple and sign: ~a stands for −a.
            keys, places = np.unique(
                np.where(block < 0, ~(sizes // rows), sizes // rows), return_inverse=True
            )
            by = wide.by(np.where(keys < 0, ~keys, keys), keys < 0)
            low = Low(*(part[offsets].reshape(-1) for part in wide.low))
            yield from self._round_sums(
                table,
                slice(start, start + block.size),
                low,
                By(*(part[places].reshape(-1) for part in by)),
            )

    def _round_sums(self, table: Table, rows: slice, low: Low, by: By) -> Iterator[Doubts]:
        """Round the entries of some rows.

        Shape: the factors (cells,) each.
        """
        exact, rest, other = (
            self._scratch.buffer(name, by.margin.size) for name in ("cells", "other", "third")
        )
        np.multiply(low.first, by.first, out=exact)
        np.multiply(low.second, by.second, out=other)
        np.add(exact, other, out=exact)
        np.multiply(low.first, by.first_rest, out=rest)
        np.multiply(low.first_rest, by.first_all, out=other)
        np.add(rest, other, out=rest)
        np.multiply(low.second, by.second_rest, out=other)
        np.add(rest, other, out=rest)
        np.multiply(low.second_rest, by.second_all, out=other)
        np.add(rest, other, out=rest)
        yield from self._round(table, rows, exact, rest, other, by.margin)

    def _round(  # noqa: PLR0917 (buffers, by their order)
        self, table: Table, rows: slice, exact: Any, rest: Any, other: Any, margin: Any
    ) -> Iterator[Doubts]:
        """Write exact + (rest + margin); yield entries for which exact + (rest − margin) differs.

        Shape: buffers (cells,) each; ``other`` is overwritten here.
        """
        scratch, placed = self._scratch, table.placed
        target = table.out[rows]
        direct = placed.in_order and target.flags.c_contiguous
        upper = target.reshape(-1) if direct else scratch.buffer("bits", exact.size)
        lower = scratch.buffer("low", exact.size)
        np.add(rest, margin, out=other)
        np.add(exact, other, out=upper)
        np.subtract(rest, margin, out=other)
        np.add(exact, other, out=lower)
        # Compare bits, not values: 0.0 and −0.0 differ. A full buffer allows one fast memory
        # comparison.
        memory = scratch.memory("low")
        if len(memory) != upper.nbytes or memory != upper:
            places = np.flatnonzero(upper.view(np.int64) != lower.view(np.int64))
            if places.size:
                yield Doubts(places + rows.start * placed.columns.waves.size, None, None)
        if not direct:
            placed.place(upper, target)


def _chunk_rows(width: int, rows: int) -> int:
    return max(1, min(rows, CHUNK_CELLS // width))


def _spans(table: Table, period: int) -> Iterator[tuple[slice, slice, int, bool]]:
    """Yield table rows, their low-table rows, their multiple, and whether it is a new one.

    The table's positions are consecutive.
    """
    step = _chunk_rows(table.placed.columns.waves.size, period)
    start = int(table.positions[0])
    stop = start + table.positions.size
    for multiple in range(start // period, (stop - 1) // period + 1):
        origin = multiple * period
        first, last = max(start, origin), min(stop, origin + period)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            rows, offsets = (slice(begin - at, end - at) for at in (start, origin))
            yield rows, offsets, multiple, begin == first
