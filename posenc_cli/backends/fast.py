"""The ``fast`` backend: the waves of the NumPy core, filled by a compiled kernel.

This module decides when to use the kernel, prepares its tables, and settles the entries it leaves
undecided. The kernel computes non-negative positions, if there are enough of them to repay its
tables. The NumPy core computes the rest, and extreme scales and frequencies. Both give the same
bytes.

Error of an entry. The kernel (``waves.c``) multiplies the same factors as
:mod:`posenc_cli.numerics.phasors`: the digits' rows and the scale in double-double. They are
accurate to 2^−92 of the scale, and relative to each part while angles are small. In the narrower
formats an entry is X U + Y V of factors rounded to float64, with the margin of
:mod:`posenc_cli.numerics.waves`. For float64 the low parts are added, and the remainders of
products and sums. Their error is 2^−92 for the tables and 2^−100 for their rounding, below the
margin of 2^−90. The margin is relative to the scale if something cancels, and to |X U| + |Y V| if
nothing does.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import ctypes
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.backends import native
from posenc_cli.backends.numpy import NumpyBackend
from posenc_cli.backends.registry import Status, WaveFiller
from posenc_cli.errors import Unavailable
from posenc_cli.numerics import cells, halves
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, REAL_DTYPES, DType
from posenc_cli.numerics.layout import Columns, columns_of, low_of
from posenc_cli.numerics.memory import CACHED_BYTES, LRUCache, on_lines
from posenc_cli.numerics.phasors import DIGIT_BITS, Phasors
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.waves import WaveTable
from posenc_cli.positions import LARGEST_POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import Integers, NumberArray, StoredRows

LOW_BITS = 6  # bits of a position in the kernel's lowest digit
LANES = 8  # rows of the kernel's tables are padded to multiples of this
DIGITS = 10  # digits of DIGIT_BITS above the lowest, enough for positions up to 2^53
COLUMNS, HALVES, ALTERNATE = range(3)
FORMATS = {dtype.name: number for number, dtype in enumerate((FLOAT64, FLOAT32, BFLOAT16, FLOAT16))}
WIDE_MARGIN = 2.0**-90
FEW_ROWS = 256  # fewer rows, in one call or several, do not repay the tables made for them
PREPARED_KEPT = 4
UNDECIDED_KEPT = 1 << 14  # per call; if more are undecided, all its entries are settled
SMALLEST_SCALE, LARGEST_SCALE = Decimal(2) ** -20, Decimal(2) ** 14
SMALLEST_FREQUENCY = Decimal("1e-200")  # below it, products would leave the range of float64


_KNOWN = {
    "float64": [0x3FE14A280FB5068C, 0x3FEAED548F090CEE, 0xBFE0E9918BB35AAC, 0xBFEB2A66C8F35586],
    "float32": [0x3F0A5140, 0x3F576AA4, 0xBF074C8C, 0xBF595336],
    "bfloat16": [0x3F0A, 0x3F57, 0xBF07, 0xBF59],
    "float16": [0x3853, 0x3ABB, 0xB83A, 0xBACB],
}
"""The bits of cos 1, sin 1, cos 2^53 and sin 2^53, from mpmath, by format."""


class FastBackend(NumpyBackend):
    """Waves by a compiled kernel, on the CPU; in the precisions of frameworks by NumPy."""

    name = "fast"
    # They make the overhead of a call small; stopping waits for one call.
    block_values, call_values = 1 << 17, 1 << 22

    def status(self) -> Status:
        """Return whether the compiled library is here and computes correct values."""
        try:
            return _working_status(_library())
        except Unavailable as error:
            return Status(False, None, (), error.message.removeprefix("--backend fast: "))

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Return waves whose every entry is correctly rounded.

        Raises: Unavailable for any device but the CPU, or if the library cannot be used.
        """
        if device not in (None, "cpu"):
            raise Unavailable(
                f"--device {device}: the fast backend computes on the CPU",
                hint="--backend torch computes on other devices",
            )
        return CompiledWaves(WaveTable(frequencies, scale=scale), _library())


@cache
def _library() -> ctypes.CDLL:
    """Return the library of this process, after checking some known entries.

    Raises: Unavailable if it is missing, damaged, or computes other values.
    """
    library = native.loaded_library()
    waves = CompiledWaves(WaveTable([Decimal(1)]), library)
    both = [Placement("cos", slice(0, 1)), Placement("sin", slice(1, 2))]
    for name, bits in _KNOWN.items():
        dtype = REAL_DTYPES[name]
        out = np.zeros((2, 2), dtype.numpy)
        waves.compute(out, np.array([1, LARGEST_POSITION]), both, dtype, LARGEST_POSITION)
        if out.view(f"u{dtype.itemsize}").reshape(-1).tolist() != bits:
            raise Unavailable("--backend fast: the compiled kernel computes wrong values here")
    return library


@cache
def _working_status(library: ctypes.CDLL) -> Status:
    instructions = native.INSTRUCTIONS[library.posenc_instructions()]
    reason = f"compiled, with {instructions} instructions; the same bytes as numpy"
    return Status(True, native.DIGEST, ("cpu",), reason)


class _KernelTable(ctypes.Structure):
    """The kernel's ``struct table``."""

    _fields_ = (
        ("heads", ctypes.c_int64),
        ("padded", ctypes.c_int64),
        ("format", ctypes.c_int32),
        ("layout", ctypes.c_int32),
        ("digits", ctypes.c_int32),
        ("instructions", ctypes.c_int32),
        ("scale", ctypes.c_double),
        ("scale_low", ctypes.c_double),
        ("factor", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("cancelled", ctypes.c_double),
        ("low", ctypes.c_void_p),
        ("high", ctypes.c_void_p * DIGITS),
        ("turn", ctypes.c_void_p),
        ("rate", ctypes.c_void_p),
        ("reach_x", ctypes.c_void_p),
        ("reach_y", ctypes.c_void_p),
    )


class CompiledWaves:
    """scale · cos(n · ω) and scale · sin(n · ω): ``core`` gives the same bytes, more slowly.

    ``instructions`` is the instruction set of the kernel: the best of this machine, or a lesser
    one.

    Units: frequencies in radians per position.
    """

    def __init__(
        self, core: WaveTable, library: ctypes.CDLL, instructions: int | None = None
    ) -> None:
        self._core = core
        self._library = library
        self._instructions = library.posenc_instructions() if instructions is None else instructions
        self._ordinary = SMALLEST_SCALE < core.scale.copy_abs() < LARGEST_SCALE and all(
            not frequency or frequency.copy_abs() > SMALLEST_FREQUENCY
            for frequency in core.frequencies
        )
        self._prepared = LRUCache[list[_KernelTables]](PREPARED_KEPT)
        self._rows_asked_for = 0

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position; skip other columns.

        Threads may fill different rows of one array at the same time.

        Shape: ``positions`` (P,) integers of magnitude ≤ 2^53; ``out`` (P, columns) in the storage
        of ``dtype``, with any strides.
        """
        if dtype.component is not None:
            dtype = dtype.component
            out = out.view(dtype.numpy)
        halves.require_subnormals(dtype)
        positions = np.ascontiguousarray(positions, np.int64)
        last = self._last_served(out, positions)
        if last is None:
            self._core.fill(out, positions, placements, dtype=dtype)
        else:
            self.compute(out, positions, placements, dtype, last)

    def compute(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        dtype: DType,
        last: int,
    ) -> None:
        """Fill with the kernel, for real formats and positions of at least 0 up to ``last``."""
        for tables in self._tables(placements, out.shape[1]):
            columns = tables.columns
            target, numbers = out[:, columns.target], positions
            if not positions[0]:
                target[0] = self._core.first_row(columns, dtype)  # the kernel proves no sine of 0
                target, numbers = target[1:], positions[1:]
            places = self._filled(target, numbers, tables.of(dtype, last, self._instructions))
            if places.size:
                self._core.settle(target, numbers, columns, places, dtype=dtype)

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return n · ω in (−π, π], correctly rounded to ``dtype``; the scale is not applied.

        Units: radians.
        Shape: (positions, frequencies).
        """
        return self._core.angles(positions, dtype=dtype)

    def _last_served(self, out: StoredRows, positions: Integers) -> int | None:
        """Return the last position if the kernel computes them all and repays its tables."""
        if not (self._ordinary and out.dtype.isnative and positions.size):
            return None
        self._rows_asked_for += positions.size
        last = int(positions.view(np.uint64).max())  # a negative one is larger than all others
        return last if last <= LARGEST_POSITION and self._rows_asked_for >= FEW_ROWS else None

    def _tables(self, placements: Sequence[Placement], width: int) -> list[_KernelTables]:
        def made() -> list[_KernelTables]:
            groups = columns_of(placements, width=width, waves=len(self._core.frequencies))
            return [_KernelTables(columns, self._core.phasors) for columns in groups]

        key = (width, *(placement.key for placement in placements))
        return self._prepared.get(key, made)

    def _filled(self, target: StoredRows, positions: Integers, table: _KernelTable) -> Integers:
        """Fill columns; return the entries that are not proven, or all if there are too many."""
        close = target.strides[1] == target.itemsize or target.shape[1] == 1
        out = target if close else np.empty(target.shape, target.dtype)
        places = np.empty(UNDECIDED_KEPT, np.int64)
        count = self._library.posenc_fill(
            ctypes.byref(table),
            positions.ctypes.data,
            positions.size,
            out.ctypes.data,
            out.strides[0],
            _bytes_of(out) > CACHED_BYTES,
            places.ctypes.data,
            places.size,
        )
        if out is not target:
            target[...] = out
        # A negative count: no memory for its buffers.
        return places[:count] if 0 <= count <= places.size else np.arange(target.size)


class _KernelTables:
    """The arrays that the kernel reads to fill these columns.

    A head is a column, or two columns that share a wave. X and Y are then those of the first.
    """

    def __init__(self, columns: Columns, phasors: Phasors) -> None:
        self.columns = columns
        self._phasors = phasors
        pairing = columns.pairing
        self._heads = columns if pairing is None else columns.selected(pairing.first)
        self._layout = COLUMNS
        if pairing is not None:
            self._layout = ALTERNATE if pairing.first.step == 2 else HALVES
        heads = self._heads
        table = phasors.digit_table(0, LOW_BITS)
        first, second = low_of(heads, table[0], table[2])
        first_low, second_low = low_of(heads, table[1], table[3])
        sizes = np.array([abs(float(rate)) for rate in phasors.frequencies] or [0.0])
        rates = np.where(heads.zero, 0.0, sizes[heads.waves])
        self._low = _padded(np.stack([first, second, first_low, second_low]))
        self._turn = _padded(np.where(heads.sine, 1.0, -1.0))
        self._rate = _padded(rates)
        self._reach = [_padded(np.abs(part).max(axis=0)) for part in (first, second)]
        self._high: list[NumberArray] = []
        self._made = LRUCache[_KernelTable](PREPARED_KEPT)

    def of(self, dtype: DType, last: int, instructions: int) -> _KernelTable:
        """Return the kernel's table for a format and positions up to ``last``."""
        # At least one digit: its rows are 0 in columns of zeros, but the scale is not.
        digits = max(1, -(-(last >> LOW_BITS).bit_length() // DIGIT_BITS))
        key = (dtype.name, digits, instructions)
        return self._made.get(key, lambda: self._of(dtype, digits, instructions))

    def _of(self, dtype: DType, digits: int, instructions: int) -> _KernelTable:
        high, low = self._phasors.scale_parts
        wide = dtype.name == FLOAT64.name
        factor = 1.0 if dtype.name in (FLOAT64.name, FLOAT32.name) else halves.factor(dtype)
        margin = WIDE_MARGIN if wide else cells.MARGIN * (1 + 2.0**-30) * factor
        reach_x, reach_y = self._reach
        return _KernelTable(
            heads=self._heads.waves.size,
            padded=self._turn.size,
            format=FORMATS[dtype.name],
            layout=self._layout,
            digits=digits,
            instructions=instructions,
            scale=high,
            scale_low=low,
            factor=factor,
            margin=margin,
            cancelled=abs(high) * (1.0 if wide else 2.0**-36),
            low=self._low.ctypes.data,
            high=(ctypes.c_void_p * DIGITS)(*(part.ctypes.data for part in self._digits(digits))),
            turn=self._turn.ctypes.data,
            rate=self._rate.ctypes.data,
            reach_x=reach_x.ctypes.data,
            reach_y=reach_y.ctypes.data,
        )

    def _digits(self, count: int) -> list[NumberArray]:
        """Return the tables of the first ``count`` digits above the lowest."""
        while len(self._high) < count:
            shift = LOW_BITS + DIGIT_BITS * len(self._high)
            parts = self._phasors.digit_table(shift, DIGIT_BITS)[:, :, self._heads.waves]
            parts[:, :, self._heads.zero] = 0.0
            self._high.append(_padded(parts))
        return self._high[:count]


def _padded(values: Any) -> NumberArray:
    """Return a copy, aligned to cache lines, with rows padded to multiples of ``LANES``."""
    *shape, count = values.shape
    width = max(1, -(-count // LANES)) * LANES
    rows = on_lines((*shape, width), np.float64)
    rows[..., :count], rows[..., count:] = values, 0
    return rows


def _bytes_of(array: StoredRows) -> int:
    """Return the size of the whole array that this one is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes
