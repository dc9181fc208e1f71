"""Ziv's rounding test: cells proven, cells computed again, cells settled in integers.

Owns the way from cells in float64, with a bound of their error, to a number format in which every
one of them is correctly rounded.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.numerics.cells import by_tile
from posenc_cli.numerics.double_double import two_sum
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.fixed_point import exact_cell, nearest
from posenc_cli.numerics.halves import suits
from posenc_cli.numerics.rounding import narrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from posenc_cli.numerics.cells import Block, Scratch
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.layout import Columns
    from posenc_cli.numerics.phasors import Phasors

PAIR_MARGIN = 2.0**-90
FEW_CELLS = 12  # below this many, integers are faster than the many small calls of double-double
DOUBTS_KEPT = 1 << 14
JUDGES_KEPT = 4  # one a number format


class Doubts(NamedTuple):
    """Cells to judge again: their index in the table, and float64 value and margin if kept."""

    places: NDArray[Any]
    cells: Any
    margin: Any


class Judge:
    """Fills tables of one format with cells, every one of them correctly rounded."""

    def __init__(self, phasors: Phasors, dtype: DType) -> None:
        self._phasors = phasors
        self._dtype = dtype
        self._word = np.dtype(f"u{dtype.itemsize}")
        self._magnitude = abs(float(phasors.scale))
        self._halves = suits(self._magnitude, dtype)
        self._rates = np.array([abs(float(frequency)) for frequency in phasors.frequencies])
        self._still = np.array([not frequency for frequency in phasors.frequencies])
        level = nearest(*phasors.scale.as_integer_ratio(), dtype)
        self._levels = narrow(np.array([0.0, level]), None, dtype)

    def fill(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
        columns: Columns,
        blocks: Iterable[Block],
        scratch: Scratch,
    ) -> None:
        """Write the blocks' cells, correctly rounded.

        Shape: ``out`` (positions, columns), with any strides.
        """
        doubts: list[Doubts] = []
        kept = 0
        for block in blocks:
            found = self._round(block, out[block.start : block.stop], scratch)
            if found is not None:
                doubts.append(found)
                kept += found.places.size
            if kept > DOUBTS_KEPT:
                self._resolve(out, positions, columns, doubts)
                doubts, kept = [], 0
        if doubts:
            self._resolve(out, positions, columns, doubts)

    def _round(self, block: Block, target: NDArray[Any], scratch: Scratch) -> Doubts | None:
        """Write a block's roundings; return the cells that this does not prove, if any."""
        cells = np.add(block.first, block.second, out=block.first)
        contiguous = target.flags.c_contiguous
        bits = target.reshape(-1) if contiguous else np.empty(cells.size, target.dtype)
        index: NDArray[Any] | None
        if self._halves:
            index = scratch.halves.round(cells, block.margin, self._dtype, bits)
        else:
            index = self._round_twice(block, cells, bits, scratch)
        if not contiguous:
            target[...] = bits.reshape(target.shape)
        if index is None or index.size == 0:
            return None
        places = index + block.start * target.shape[1]
        if not self._halves:
            return Doubts(places, None, None)
        margin = block.margin
        if isinstance(margin, np.ndarray):
            margin = margin[index % margin.size]
        return Doubts(places, cells[index], margin)

    def _round_twice(
        self, block: Block, cells: NDArray[Any], bits: NDArray[Any], scratch: Scratch
    ) -> NDArray[Any] | None:
        """Write the roundings of cell + margin; return where those of cell − margin differ.

        Bits are compared, not values: 0.0 and −0.0 differ.
        """
        upper = block.second
        by_tile(np.add, cells, block.margin, upper)
        by_tile(np.subtract, cells, block.margin, cells)
        if self._dtype.name != FLOAT32.name:
            bits[:] = narrow(upper, None, self._dtype)
            low = narrow(cells, None, self._dtype)
        else:
            np.copyto(bits, upper, casting="same_kind")
            low = np.frombuffer(scratch.lower, np.float32)[: cells.size]
            np.copyto(low, cells, casting="same_kind")
            # Of a whole buffer the comparison is one memcmp.
            if low.nbytes == len(scratch.lower) and scratch.lower == bits:
                return None
        return np.flatnonzero(bits.view(self._word) != low.view(self._word))

    def _resolve(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
        columns: Columns,
        doubts: list[Doubts],
    ) -> None:
        index = np.concatenate([each.places for each in doubts])
        rows, at = np.divmod(index, columns.waves.size)
        if doubts[0].cells is not None:
            # Rounding through float32 doubts more cells than their float64 gives reason to.
            cells = np.concatenate([each.cells for each in doubts])
            margin = np.concatenate([np.full(each.places.size, each.margin) for each in doubts])
            high = narrow(cells + margin, None, self._dtype)
            low = narrow(cells - margin, None, self._dtype)
            out[rows, at] = high
            undecided = high.view(self._word) != low.view(self._word)
            rows, at = rows[undecided], at[undecided]
        if rows.size:
            values = self._settled(positions[rows], columns.waves[at], columns.sine[at])
            out[rows, at] = values

    def _settled(
        self, positions: NDArray[Any], waves: NDArray[Any], sine: NDArray[Any]
    ) -> NDArray[Any]:
        """Return cells, given by position, wave and function, correctly rounded."""
        values = np.empty(positions.size, self._dtype.numpy)
        known = (positions == 0) | self._still[waves]
        values[known] = np.where(sine[known], self._levels[0], self._levels[1])
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
        self, positions: NDArray[Any], waves: NDArray[Any], sine: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return cells rounded from double-double, and which of them that proves."""
        sizes = np.abs(positions)
        parts = self._phasors.points(sizes, waves)
        sign = np.where(sine & (positions < 0), -1.0, 1.0)
        high = np.where(sine, parts[2], parts[0]) * sign
        low = np.where(sine, parts[3], parts[1]) * sign
        # Nothing cancels in a small angle: there the error is relative to the cell.
        small = sizes * self._rates[waves] < 0.5
        margin = PAIR_MARGIN * np.where(small, np.abs(high), self._magnitude)
        rounded = narrow(*two_sum(high, low + margin), self._dtype)
        other = narrow(*two_sum(high, low - margin), self._dtype)
        return rounded, rounded.view(self._word) == other.view(self._word)
