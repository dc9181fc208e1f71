"""Tables of scale · cos(n · ω) and scale · sin(n · ω), correctly rounded at every integer n.

This module computes rows in a number format from frequencies and positions. With n = a · R + b and
two small tables (:mod:`posenc_cli.numerics.phasors`), an entry is one step of angle addition in
float64:

    entry = fl(fl(X[b] · U[a]) + fl(Y[b] · V[a]))

For a cosine, X, Y, U, V = cos, sin, cos, −sin; for a sine, X, Y, U, V = sin, cos, cos, sin. X and Y
are of the angle b · ω. U and V are of the angle a · R · ω, times the scale. So a table of cosines,
of sines, or of both in any order of columns takes the same three passes over memory. If the columns
are a cosine and a sine of each wave, one complex product (X + iY)(U − iV) gives both entries in one
pass. It is used for float32 at consecutive positions.

Most tables are filled by the loop of `rounded_pairs`. A pass over memory evicts the interpreter's
own objects from the caches, and threads then wait for each other. So this loop takes few, long
steps: it creates all arrays once per chunk size, and only entries in doubt leave it.

Error of an entry. u = 2^−53. X, Y, U and V are rounded from double-double, with a relative error of
u each. So are both products and the sum: |entry − exact| ≤ 4u (|X U| + |Y V|)(1 + 4u). The bracket
is at most |scale| by Cauchy and Schwarz, which bounds the error by 4.45e-16 · |scale|. If the angle
is small, nothing cancels, and the bound is relative to the entry. A part of the complex product is
such a sum too. NumPy may compute it with a fused multiply-add, which rounds one product less and
keeps the bound valid.

Tables are correctly rounded, by Ziv's test in three tiers. Let m be 6u times a bound of the
bracket; it includes the rounding of entry ± m. If entry − m and entry + m round to the same number,
the entry is proven. The few others are computed again in double-double with m = 2^−90. Almost none
remain, and those are computed in integers with as much precision as they need. In a table of
float64, the first tier computes an entry with 26 more bits (:mod:`posenc_cli.numerics.wide`).

Determinism. Every entry is the correctly rounded number, however it was computed. So the bytes are
the same for any block, stride, order of positions, thread, instruction set or platform, and
cell(−n) = ±cell(n).

Imports NumPy: import it only where something is computed.

Source: Ziv, Fast evaluation of elementary mathematical functions with correctly rounded last bit,
ACM TOMS 17 (1991); Gal, An accurate elementary mathematical library for the IEEE floating point
standard, ACM TOMS 17 (1991), for tables and angle addition.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.cells import (
    Scratch,
    chunk_rows,
    consecutive_blocks,
    margins_of,
    rising_by_one,
    scattered_blocks,
)
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, DType
from posenc_cli.numerics.halves import require_subnormals
from posenc_cli.numerics.judge import JUDGES_KEPT, Doubts, Judge, Table
from posenc_cli.numerics.layout import Columns, Factors, Pairs, Placed, columns_of, power_of_two
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.placements import Placement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.numerics.angles import AngleTable
    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Integers,
        StoredRows,
        StoredValues,
    )
    from posenc_cli.numerics.wide import WideWaves


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


__all__ = ["Placement", "WaveTable"]

LAYOUTS_KEPT = 4
CAST_VALUES = 1024  # NumPy narrows results through a buffer of this size, which fits the L1 cache


class WaveTable:
    """scale · cos(n · ω) and scale · sin(n · ω), for some frequencies ω and any integers n.

    ``phasors`` are the tables behind it.

    Units: frequencies in radians per position.

    >>> import numpy as np
    >>> from posenc_cli.numerics.dtypes import FLOAT32
    >>> table = WaveTable([Decimal(1), Decimal("0.01")])
    >>> out = np.empty((2, 4), np.float32)
    >>> halves = [Placement("sin", slice(0, 2)), Placement("cos", slice(2, 4))]
    >>> table.fill(out, np.array([0, 1]), halves, dtype=FLOAT32)
    >>> out
    array([[0.        , 0.        , 1.        , 1.        ],
           [0.84147096, 0.00999983, 0.5403023 , 0.99995   ]], dtype=float32)
    """

    def __init__(self, frequencies: Sequence[Decimal], *, scale: Decimal = Decimal(1)) -> None:
        self.frequencies = tuple(frequencies)
        self.scale = scale
        self.phasors = Phasors(self.frequencies, scale=scale)
        self._magnitude = abs(float(scale))
        self._judges = LRUCache[Judge](JUDGES_KEPT)
        self._layouts = LRUCache[Factors](LAYOUTS_KEPT)
        self._paired = LRUCache[Pairs](LAYOUTS_KEPT)
        self._placed = LRUCache[list[Columns]](LAYOUTS_KEPT)
        self._wides: LRUCache[WideWaves] = LRUCache(1)
        self._scratch = Scratch()
        self._angles: LRUCache[AngleTable] = LRUCache(1)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position; skip other columns.

        Threads may fill different rows of one array at the same time. A complex ``dtype`` has its
        parts in neighbouring columns, so placements count twice as many real columns.

        Shape: ``positions`` (P,) integers of magnitude ≤ 2^53; ``out`` (P, columns) in the storage
        of ``dtype``, with any strides.

        Raises: Unavailable as `require_subnormals`.
        """
        if dtype.component is not None:
            dtype = dtype.component
            out = out.view(dtype.numpy)
        require_subnormals(dtype)
        if positions.size == 0:
            return
        positions = np.asarray(positions, np.int64)
        with np.errstate(all="ignore"):
            np.setbufsize(CAST_VALUES)  # only in this context: errstate restores it
            for columns in self._columns(placements, out.shape[1]):
                target = out[:, columns.target]
                if self.scale == 0:
                    target[...] = 0
                else:
                    self._fill(target, positions, columns, dtype)

    def settle(
        self,
        out: StoredRows,
        positions: Integers,
        columns: Columns,
        places: Integers,
        *,
        dtype: DType,
    ) -> None:
        """Write the entries at some places of a table, however hard they are to round.

        Shape: ``out`` (positions, columns); ``places`` are flat indices into it, row by row.
        """
        # Columns of zeros need no rounding.
        places = places[~columns.zero[places % columns.zero.size]]
        rows, at = np.divmod(places, columns.zero.size)
        with np.errstate(all="ignore"):
            out[rows, at] = self._judge(dtype).settled(
                positions[rows], columns.waves[at], columns.sine[at]
            )

    def first_row(self, columns: Columns, dtype: DType) -> StoredValues:
        """Return the row of position 0: the scale for a cosine, else 0. Shape: (columns,)."""
        return self._judge(dtype).levels[(~(columns.sine | columns.zero)).view(np.int8)]

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return n · ω in (−π, π], correctly rounded to ``dtype``; the scale is not applied.

        Units: radians.
        Shape: (positions, frequencies).
        """
        from posenc_cli.numerics.angles import AngleTable  # most tables are not of angles

        table = self._angles.get(None, lambda: AngleTable(self.frequencies))
        return table.rows(positions, dtype=dtype)

    @property
    def wide(self) -> WideWaves:
        """The object that fills tables of float64."""
        from posenc_cli.numerics.wide import WideWaves  # most tables are of float32

        return self._wides.get(
            None, lambda: WideWaves(self.phasors, self._scratch, self._judge(FLOAT64))
        )

    def _fill(self, out: StoredRows, positions: Integers, columns: Columns, dtype: DType) -> None:
        if dtype.name == FLOAT64.name:
            self.wide.fill(out, positions, columns)
            return
        scratch, magnitude = self._scratch, self._magnitude
        rising = rising_by_one(positions)
        if rising and dtype.name == FLOAT32.name:
            pairs = self._pairs(columns, positions)
            if pairs is not None:
                table = Table(out, positions, pairs.placed)
                doubts = rounded_pairs(pairs, table, magnitude=magnitude, scratch=scratch)
                self._judge(dtype).settle(table, doubts)
                return
        factors = self._factors(columns, positions)
        if factors is not None and rising:
            blocks = consecutive_blocks(factors, positions, magnitude=magnitude, scratch=scratch)
        else:
            blocks = scattered_blocks(
                columns, self.phasors, positions, factors, magnitude=magnitude, scratch=scratch
            )
        self._judge(dtype).fill(out, positions, columns, blocks, scratch)

    def _columns(self, placements: Sequence[Placement], width: int) -> list[Columns]:
        """Return the columns that placements fill, cached for all blocks of a table."""
        return self._placed.get(
            (width, *(placement.key for placement in placements)),
            lambda: columns_of(placements, width=width, waves=len(self.frequencies)),
        )

    def _judge(self, dtype: DType) -> Judge:
        return self._judges.get(dtype.name, lambda: Judge(self.phasors, dtype))

    def _factors(self, columns: Columns, positions: Integers) -> Factors | None:
        """Return the full tables of these columns, or None if building them would not pay."""
        if columns.key not in self._layouts and self._few(positions):
            return None
        return self._layouts.get(columns.key, lambda: Factors(columns, self.phasors))

    def _pairs(self, columns: Columns, positions: Integers) -> Pairs | None:
        """Return complex tables of these columns, if they are pairs and building them would pay."""
        pairing = columns.pairing
        if pairing is None or (columns.key not in self._paired and self._few(positions)):
            return None
        return self._paired.get(columns.key, lambda: Pairs(columns, pairing, self.phasors))

    def _few(self, positions: Integers) -> bool:
        """Return whether, for so few rows, computing only the low-table rows in use is cheaper."""
        return positions.size * 4 < self.phasors.rows
