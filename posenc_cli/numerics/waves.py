"""Tables of scale · cos(n · ω) and scale · sin(n · ω), correctly rounded at every integer n.

Owns the way from frequencies and positions to rows in a number format. With n = a · R + b and two
small tables (:mod:`posenc_cli.numerics.phasors`), a cell is one step of angle addition in float64,

    cell = fl(fl(X[b] · U[a]) + fl(Y[b] · V[a]))

where for a cosine X, Y, U, V = cos, sin, cos, −sin and for a sine X, Y, U, V = sin, cos, cos, sin
of b · ω and, times the scale, of a · R · ω. So a table of cosines, of sines, or of both in any
order of columns is the same three passes over memory.

Error of a cell. u = 2^−53. X, Y, U and V are rounded from double-double (u each, relatively), so
are both products and the sum: |cell − exact| ≤ 4u (|X U| + |Y V|)(1 + 4u), and the bracket is at
most |scale| by Cauchy and Schwarz: 4.45e-16 · |scale|. That is what float64 tables promise. Where
the angle is small nothing cancels, and the bound is relative to the cell.

Narrower formats are correctly rounded, by Ziv's test in three tiers. Where cell − m and cell + m
round to the same number, m = 6u times a bound of the bracket (the rounding of cell ± m included),
the cell is proven. The few others are computed again in double-double with m = 2^−90, and what is
left, practically nothing, in integers at whatever precision it takes.

Determinism. No fused multiply-add, no extended registers, no library sine: only IEEE additions and
multiplications of float64 in an order that depends on the cell alone. A cell is the same bytes for
any block, stride, order of positions, thread or platform, and cell(−n) = ±cell(n).

Imports NumPy: import it only where something is computed.

Source: Ziv, Fast evaluation of elementary mathematical functions with correctly rounded last bit,
ACM TOMS 17 (1991); Gal, An accurate elementary mathematical library for the IEEE floating point
standard, ACM TOMS 17 (1991), for tables and angle addition.
"""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.angles import AngleTable
from posenc_cli.numerics.double_double import two_sum
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
from posenc_cli.numerics.fixed_point import exact_cell, nearest
from posenc_cli.numerics.layout import UNIT, Columns, Factors, columns_of
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.rounding import narrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from posenc_cli.numerics.dtypes import DType

__all__ = ["Placement", "WaveTable"]

MARGIN = 6.0 * UNIT
PAIR_MARGIN = 2.0**-90
TILE_CELLS = 8192  # inner loops this long, or NumPy's setup of each would show
CHUNK_CELLS = 1 << 15  # a few arrays of this many float64 fit the second-level cache
FEW_CELLS = 12  # below this many, integers are faster than the many small calls of double-double
LAYOUTS_KEPT = 4


class _Scratch(threading.local):
    """Buffers of one thread, kept from block to block so that their pages stay mapped."""

    def __init__(self) -> None:
        self.size = 0

    def reserve(self, cells: int, tile: int) -> None:
        if self.size < cells:
            self.cells, self.other, self.third = (np.empty(cells) for _ in range(3))
            self.single = np.empty(cells, np.float32)
            self.size = cells
            self.tiles: list[NDArray[Any]] = []
            self.lower: dict[tuple[int, int], bytearray] = {}
        if not self.tiles or self.tiles[0].size < tile:
            self.tiles = [np.empty(tile) for _ in range(3)]


class WaveTable:
    """scale · cos(n · ω) and scale · sin(n · ω), for some frequencies ω and any integers n.

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
        self._phasors = Phasors(self.frequencies, scale=scale)
        self._magnitude = abs(float(scale))
        self._rates = np.array([abs(float(frequency)) for frequency in self.frequencies])
        self._lock = threading.Lock()
        self._layouts: dict[tuple[object, ...], list[Factors]] = {}
        self._scratch = _Scratch()
        self._angles: AngleTable | None = None

    def fill(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row a position; leave other columns alone.

        Threads may fill different rows of one array at the same time. A complex ``dtype`` has its
        parts in neighbouring columns: placements count real columns, twice as many.

        Shape: ``positions`` (P,) integers of magnitude ≤ 2^53; ``out`` (P, columns) in the storage
        of ``dtype``, with any strides.
        """
        if dtype.component is not None:
            dtype = dtype.component
            out = out.view(dtype.numpy)
        if positions.size == 0:
            return
        positions = np.asarray(positions, np.int64)
        with np.errstate(all="ignore"):
            for columns in columns_of(placements, width=out.shape[1], waves=len(self.frequencies)):
                target = out[:, columns.target]
                if self.scale == 0:
                    target[...] = 0
                else:
                    self._fill(target, positions, columns, dtype)

    def angles(self, positions: NDArray[Any], *, dtype: DType) -> NDArray[Any]:
        """Return n · ω in (−π, π], correctly rounded to ``dtype``; the scale plays no part.

        Units: radians.
        Shape: (positions, frequencies).
        """
        with self._lock:
            if self._angles is None:
                self._angles = AngleTable(self.frequencies)
        return self._angles.rows(positions, dtype=dtype)

    def _fill(
        self, out: NDArray[Any], positions: NDArray[Any], columns: Columns, dtype: DType
    ) -> None:
        factors = self._factors(columns, positions)
        width = columns.waves.size
        if factors is not None and _consecutive(positions):
            blocks = self._consecutive_cells(positions, factors)
        else:
            blocks = self._scattered_cells(positions, columns, factors)
        scratch = self._scratch
        for start, stop, margin in blocks:
            size = (stop - start) * width
            cells, other = scratch.cells[:size], scratch.other[:size]
            target = out[start:stop]
            flat = target.reshape(-1) if target.flags.c_contiguous else None
            if dtype.name == FLOAT64.name:
                if flat is None:
                    np.add(cells.reshape(-1, width), other.reshape(-1, width), out=target)
                else:
                    np.add(cells, other, out=flat)
                continue
            np.add(cells, other, out=cells)
            suspects = self._round(target, flat, cells, margin, dtype)
            if suspects is not None:
                rows, at = np.nonzero(suspects.reshape(-1, width))
                target[rows, at] = self._settled(
                    positions[start + rows], columns.waves[at], columns.sine[at], dtype
                )

    def _factors(self, columns: Columns, positions: NDArray[Any]) -> Factors | None:
        """Return the full tables of these columns, or None where building them would not pay."""
        key = (columns.waves.tobytes(), columns.sine.tobytes(), columns.zero.tobytes())
        with self._lock:
            if key not in self._layouts:
                if positions.size * 4 < self._phasors.rows:
                    return None
                while len(self._layouts) >= LAYOUTS_KEPT:
                    del self._layouts[next(iter(self._layouts))]
                self._layouts[key] = [Factors(columns, self._phasors)]
            return self._layouts[key][0]

    def _consecutive_cells(
        self, positions: NDArray[Any], factors: Factors
    ) -> Iterator[tuple[int, int, Any]]:
        """Compute cells of rising positions into the scratch, yielding rows and their margin."""
        rows, width = self._phasors.rows, factors.first.shape[1]
        repeats = max(1, min(rows, TILE_CELLS // width))
        step = max(repeats, CHUNK_CELLS // width // repeats * repeats)
        scratch = self._scratch
        scratch.reserve(step * width, repeats * width)
        start = int(positions[0])
        stop = start + positions.size
        batch = max(1, 4096 // width)
        for batch_start in range(start // rows, (stop - 1) // rows + 1, batch):
            batch_stop = min(batch_start + batch, (stop - 1) // rows + 1)
            multiples = np.arange(batch_start, batch_stop)
            firsts, seconds = factors.high(multiples)
            margins = self._margins(factors, multiples, firsts, seconds)
            for multiple, first, second in zip(multiples.tolist(), firsts, seconds, strict=True):
                tiles = scratch.tiles
                np.copyto(tiles[0].reshape(-1)[: repeats * width].reshape(repeats, width), first)
                np.copyto(tiles[1].reshape(-1)[: repeats * width].reshape(repeats, width), second)
                margin: Any = margins
                if isinstance(margins, np.ndarray):
                    margin = tiles[2][: repeats * width]
                    np.copyto(margin.reshape(repeats, width), margins[multiple - batch_start])
                origin = multiple * rows
                first_row, last_row = max(start, origin), min(stop, origin + rows)
                for begin in range(first_row, last_row, step):
                    end = min(begin + step, last_row)
                    size = (end - begin) * width
                    span = slice(begin - origin, end - origin)
                    for factor, tile, result in (
                        (factors.first, tiles[0], scratch.cells),
                        (factors.second, tiles[1], scratch.other),
                    ):
                        _by_tile(
                            np.multiply,
                            factor[span].reshape(-1),
                            tile[: repeats * width],
                            result[:size],
                        )
                    yield begin - start, end - start, margin

    def _margins(
        self,
        factors: Factors,
        multiples: NDArray[Any],
        first: NDArray[Any],
        second: NDArray[Any],
    ) -> Any:
        """Return the margin of the rounding test: one number where it loses little, else rows."""
        bounds = factors.bounds(multiples, first, second, self._magnitude)
        if bounds.min() > self._magnitude * 2.0**-16:
            return MARGIN * self._magnitude * (1 + 2.0**-30)
        return MARGIN * bounds

    def _scattered_cells(
        self, positions: NDArray[Any], columns: Columns, factors: Factors | None
    ) -> Iterator[tuple[int, int, Any]]:
        """Compute cells of any positions into the scratch, yielding rows and their margin."""
        rows, width = self._phasors.rows, columns.waves.size
        step = max(1, CHUNK_CELLS // width)
        scratch = self._scratch
        scratch.reserve(step * width, 1)
        for start in range(0, positions.size, step):
            block = positions[start : start + step]
            sizes = np.abs(block)
            offsets = sizes & (rows - 1)
            chosen = factors
            if chosen is None:
                offsets, places = np.unique(offsets, return_inverse=True)
                chosen = Factors(columns, self._phasors, offsets)
                offsets = places
            # One row for each multiple and sign: ~a stands for −a.
            keys, places = np.unique(
                np.where(block < 0, ~(sizes // rows), sizes // rows), return_inverse=True
            )
            multiples = np.where(keys < 0, ~keys, keys)
            first, second = chosen.high(multiples, keys < 0)
            margin = self._margins(chosen, multiples, first, second)
            shape = (block.size, width)
            cells, other, third = (
                buffer[: block.size * width].reshape(shape)
                for buffer in (scratch.cells, scratch.other, scratch.third)
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
            yield start, start + block.size, margin

    def _round(
        self,
        target: NDArray[Any],
        flat: NDArray[Any] | None,
        cells: NDArray[Any],
        margin: Any,
        dtype: DType,
    ) -> NDArray[Any] | None:
        """Write the cells' roundings; return where they are not proven, or None if all are."""
        scratch = self._scratch
        upper = scratch.other[: cells.size]
        _by_tile(np.add, cells, margin, upper)
        _by_tile(np.subtract, cells, margin, cells)
        if dtype.name == FLOAT32.name:
            high = scratch.single[: cells.size] if flat is None else flat
            np.copyto(high, upper, casting="same_kind")
            low_bytes = scratch.lower.get((cells.size, 4))
            if low_bytes is None:
                while len(scratch.lower) > 4:
                    del scratch.lower[next(iter(scratch.lower))]
                low_bytes = scratch.lower[cells.size, 4] = bytearray(4 * cells.size)
            low = np.frombuffer(low_bytes, np.float32)
            np.copyto(low, cells, casting="same_kind")
            # A comparison of bytes: 0.0 and −0.0 differ, and it is one memcmp.
            same = bool(low_bytes == high)
        else:
            high, low = narrow(upper, None, dtype), narrow(cells, None, dtype)
            same = False
            if flat is not None:
                flat[:] = high
        if flat is None:
            target[...] = high.reshape(target.shape)
        if same:
            return None
        word = np.dtype(f"u{dtype.itemsize}")
        suspects: NDArray[Any] = high.view(word) != low.view(word)
        return suspects if suspects.any() else None

    def _settled(
        self, positions: NDArray[Any], waves: NDArray[Any], sine: NDArray[Any], dtype: DType
    ) -> NDArray[Any]:
        """Return cells, given by position, wave and function, correctly rounded."""
        values = np.empty(positions.size, dtype.numpy)
        known = (positions == 0) | np.array([not f for f in self.frequencies])[waves]
        level = narrow(np.array([0.0, nearest(*self.scale.as_integer_ratio(), dtype)]), None, dtype)
        values[known] = np.where(sine[known], level[0], level[1])
        pending = np.flatnonzero(~known)
        if pending.size > FEW_CELLS:
            undecided = []
            for start in range(0, pending.size, 4096):
                part = pending[start : start + 4096]
                values[part], proven = self._paired(positions[part], waves[part], sine[part], dtype)
                undecided.append(part[~proven])
            pending = np.concatenate(undecided)
        if pending.size:
            exact = [
                exact_cell(
                    "sin" if sine[cell] else "cos",
                    int(positions[cell]),
                    self.frequencies[waves[cell]],
                    dtype=dtype,
                    scale=self.scale,
                )
                for cell in pending
            ]
            values[pending] = narrow(np.array(exact), None, dtype)
        return values

    def _paired(
        self, positions: NDArray[Any], waves: NDArray[Any], sine: NDArray[Any], dtype: DType
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
        rounded = narrow(*two_sum(high, low + margin), dtype)
        other = narrow(*two_sum(high, low - margin), dtype)
        word = np.dtype(f"u{dtype.itemsize}")
        return rounded, rounded.view(word) == other.view(word)


def _consecutive(positions: NDArray[Any]) -> bool:
    first, last = int(positions[0]), int(positions[-1])
    if first < 0 or last - first != positions.size - 1:
        return False
    return bool((np.diff(positions) == 1).all())


def _by_tile(operation: np.ufunc, values: NDArray[Any], tile: Any, result: NDArray[Any]) -> None:
    """Apply an operation to values and a tile repeated along them, or a single number."""
    if not isinstance(tile, np.ndarray) or tile.size == values.size:
        operation(values, tile, out=result)
        return
    whole = values.size // tile.size * tile.size
    if whole:
        shape = (-1, tile.size)
        operation(values[:whole].reshape(shape), tile, out=result[:whole].reshape(shape))
    if whole < values.size:
        operation(values[whole:], tile[: values.size - whole], out=result[whole:])
