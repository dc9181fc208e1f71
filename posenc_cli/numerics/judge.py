"""Ziv's rounding test: values proven, values recomputed, values settled in integers.

This module rounds float64 entries, whose error is bounded, to a number format. Every one of them is
correctly rounded.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.cells import Cells, Scratch, by_tile
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, DType
from posenc_cli.numerics.fixed_point import exact_cell, nearest
from posenc_cli.numerics.halves import rounded, suits
from posenc_cli.numerics.rounding import narrow, narrow_within
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc_cli.numerics.arrays import Flags, Integers, Reals, StoredRows, StoredValues
    from posenc_cli.numerics.layout import Columns, Placed
    from posenc_cli.numerics.phasors import Phasors

PAIR_MARGIN = 2.0**-90
FEW_CELLS = 12  # for fewer, integers are faster than the many small calls of double-double
DOUBTS_KEPT = 1 << 14
JUDGES_KEPT = 4  # one per number format
_SAFE = 2.0**-500, 2.0**400  # entries above, scales below: float64 keeps all low parts


class Doubts(Record):
    """Entries to judge again: their table indices, and float64 values and margins if kept."""

    places: Integers
    cells: Any
    margin: Any


class Table(Record):
    """The table to fill: its rows, their positions, and the wave of each column."""

    out: StoredRows
    positions: Integers
    placed: Placed


class Judge:
    """Fills tables of one format with entries, all correctly rounded."""

    def __init__(self, phasors: Phasors, dtype: DType) -> None:
        self._phasors = phasors
        self._dtype = dtype
        self._word = np.dtype(f"u{dtype.itemsize}")
        self._magnitude = abs(float(phasors.scale))
        self._halves = suits(self._magnitude, dtype)
        self._rates = np.array([abs(float(frequency)) for frequency in phasors.frequencies])
        self._still = np.array([not frequency for frequency in phasors.frequencies])
        level = nearest(*phasors.scale.as_integer_ratio(), dtype)
        self.levels = narrow(np.array([0.0, level]), None, dtype)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        columns: Columns,
        blocks: Iterable[Cells],
        scratch: Scratch,
    ) -> None:
        """Write the blocks' entries, correctly rounded.

        Shape: ``out`` (positions, columns), with any strides.
        """
        table = Table(out, positions, columns.placed)
        rounded = (self._round(block, table, scratch) for block in blocks)
        self.settle(table, (doubts for doubts in rounded if doubts is not None))

    def settle(self, table: Table, doubts_by_block: Iterable[Doubts]) -> None:
        """Write all entries in doubt, correctly rounded, after the blocks that yield them."""
        doubts: list[Doubts] = []
        kept = 0
        for block_doubts in doubts_by_block:
            doubts.append(block_doubts)
            kept += block_doubts.places.size
            if kept > DOUBTS_KEPT:
                self._resolve(table, doubts)
                doubts, kept = [], 0
        if doubts:
            self._resolve(table, doubts)

    def _round(self, block: Cells, table: Table, scratch: Scratch) -> Doubts | None:
        """Write a block's roundings; return the entries that are not proven, if any."""
        cells, margin = block.values, block.margin
        target = table.out[block.start : block.stop]
        direct = target.flags.c_contiguous
        bits = target.reshape(-1) if direct else scratch.buffer("bits", cells.size, target.dtype)
        index: Integers | None
        if self._halves:
            index = rounded(cells, margin, self._dtype, bits, scratch)
        else:
            index = self._round_twice(cells, margin, bits, scratch)
        if not direct:
            target[...] = bits.reshape(target.shape)
        if index is None or index.size == 0:
            return None
        places = index + block.start * table.out.shape[1]
        if not self._halves:
            return Doubts(places, None, None)
        if isinstance(margin, np.ndarray):
            margin = margin[index % margin.size]
        return Doubts(places, cells[index], margin)

    def _round_twice(
        self, cells: Reals, margin: Any, bits: StoredValues, scratch: Scratch
    ) -> Integers | None:
        """Write the roundings of entry + margin; return where those of entry − margin differ.

        Bits are compared, not values: 0.0 and −0.0 differ.
        """
        if self._dtype.name == FLOAT32.name:
            low = scratch.buffer("low", cells.size, np.float32)
            by_tile(np.add, cells, margin, bits)
            by_tile(np.subtract, cells, margin, low)
        else:
            other = scratch.buffer("other", cells.size)
            by_tile(np.add, cells, margin, other)
            bits[:] = narrow(other, None, self._dtype)
            by_tile(np.subtract, cells, margin, other)
            low = narrow(other, None, self._dtype)
            return np.flatnonzero(bits.view(self._word) != low.view(self._word))
        memory = scratch.memory("low")
        if len(memory) == bits.nbytes and memory == bits:
            return None
        return np.flatnonzero(bits.view(self._word) != low.view(self._word))

    def _resolve(self, table: Table, doubts: list[Doubts]) -> None:
        index = np.concatenate([doubt.places for doubt in doubts])
        rows, at = np.divmod(index, table.placed.columns.waves.size)
        if doubts[0].cells is not None:
            # Rounding through float32 doubts more entries than necessary: first try their float64
            # values.
            cells = np.concatenate([doubt.cells for doubt in doubts])
            margin = np.concatenate([np.full(doubt.places.size, doubt.margin) for doubt in doubts])
            high = narrow(cells + margin, None, self._dtype)
            low = narrow(cells - margin, None, self._dtype)
            table.out[rows, table.placed.order[at]] = high
            undecided = high.view(self._word) != low.view(self._word)
            rows, at = rows[undecided], at[undecided]
        if rows.size:
            columns = table.placed.columns
            table.out[rows, table.placed.order[at]] = self.settled(
                table.positions[rows], columns.waves[at], columns.sine[at]
            )

    def settled(self, positions: Integers, waves: Integers, sine: Flags) -> StoredValues:
        """Return entries, given by position, wave and function, correctly rounded."""
        values = np.empty(positions.size, self._dtype.numpy)
        known = (positions == 0) | self._still[waves]
        values[known] = np.where(sine[known], self.levels[0], self.levels[1])
        pending = np.flatnonzero(~known)
        if pending.size > FEW_CELLS:
            undecided = []
            for start in range(0, pending.size, 4096):
                part = pending[start : start + 4096]
                values[part], proven = self._paired(positions[part], waves[part], sine[part])
                undecided.append(part[~proven])
            pending = np.concatenate(undecided)
        if pending.size:
            exact = [
                exact_cell(
                    "sin" if sine[cell] else "cos",
                    int(positions[cell]),
                    self._phasors.frequencies[waves[cell]],
                    dtype=self._dtype,
                    scale=self._phasors.scale,
                )
                for cell in pending
            ]
            values[pending] = narrow(np.array(exact), None, self._dtype)
        return values

    def _paired(
        self, positions: Integers, waves: Integers, sine: Flags
    ) -> tuple[StoredValues, Flags]:
        """Return entries rounded from double-double, and which of them are proven."""
        sizes = np.abs(positions)
        parts = self._phasors.points(sizes, waves)
        sign = np.where(sine & (positions < 0), -1.0, 1.0)
        high = np.where(sine, parts[2], parts[0]) * sign
        low = np.where(sine, parts[3], parts[1]) * sign
        # Nothing cancels in a small angle: there the error is relative to the entry.
        small = sizes * self._rates[waves] < 0.5
        margin = PAIR_MARGIN * np.where(small, np.abs(high), self._magnitude)
        rounded, proven = narrow_within(high, low, margin, self._dtype)
        if self._dtype.name == FLOAT64.name:
            # Outside these limits a low part, or its error, may be out of the range of float64.
            proven &= (np.abs(high) > _SAFE[0]) & (self._magnitude < _SAFE[1])
        return rounded, proven
