"""Measure the difference of two arrays: in value, in units in the last place, and where.

Arrays are compared block by block, so neither needs to fit in memory.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.files.source import release
from posenc_cli.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    REAL_DTYPES,
    DType,
)
from posenc_cli.numerics.rounding import widen
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.files.matrix import Matrix
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows

_BLOCK_BYTES = 1 << 18
"""Size of the arrays of one block, which stay in the cache."""
_NEW_VALUES = 1 << 13
"""Values of new arrays of float64: malloc maps fresh pages for twice as many, which takes four
times as long."""
_RELEASED = 1 << 18
"""Values after which the memory of a mapped file is released."""

_LAYOUTS = {4: (np.int32, 23, 127), 8: (np.int64, 52, 1023)}
"""The integers of the size of a float, its mantissa bits and its exponent bias, by bytes."""

_FORMATS = {**REAL_DTYPES, "complex64": COMPLEX64, "complex128": COMPLEX128}


class Operand(Record):
    """One of two arrays to compare.

    ``dtype`` names the number format of its values. ``blocks()`` starts a new pass over consecutive
    pieces of any size, in C order, of float or complex numbers.
    """

    shape: tuple[int, ...]
    dtype: str
    blocks: Callable[[], Iterator[NumberArray]]

    @classmethod
    def of_array(cls, values: NumberArray, dtype: str) -> Operand:
        """Return the operand of an array in memory or of a mapped one."""
        flat = values.reshape(-1)

        def blocks() -> Iterator[NumberArray]:
            for start in range(0, flat.size, _RELEASED):
                part = flat[start : start + _RELEASED]
                yield part
                release(part)

        return cls(values.shape, dtype, blocks)

    @classmethod
    def of_matrix(cls, matrix: Matrix) -> Operand:
        """Return the operand of a matrix that is computed while it is compared."""

        def blocks() -> Iterator[NumberArray]:
            for block in matrix.blocks():
                yield widen(block, BFLOAT16) if matrix.dtype == BFLOAT16 else block

        return cls(matrix.shape, matrix.dtype.name, blocks)


@dataclass
class Difference:
    """The difference of two arrays of the same shape, as far as they were compared.

    ``max_abs`` is the maximum absolute error of finite values. ``max_ulp`` is the largest
    difference in units in the last place of ``unit``, the coarser of the two formats. A unit is the
    step from the larger of two values to the next number towards zero, so neighbours differ by 1.
    Next to 0, or across signs, units count all numbers, and ``max_ulp`` is infinite.

    Values are unmatched if one is NaN or infinite, and the other is not the same. ``unmatched``
    counts them. ``both_nan`` counts entries that are NaN in both arrays, which are equal.

    ``at`` is the index of the first unmatched entry, else of the largest difference, and None if
    nothing differs. ``a`` and ``b`` are its values.
    """

    shape: tuple[int, ...]
    unit: DType
    max_abs: float = 0.0
    max_ulp: float = 0.0
    differing: int = 0
    unmatched: int = 0
    both_nan: int = 0
    a: complex | None = None
    b: complex | None = None
    _place: int | None = None
    _compared: int = 0
    _rooms: RealRows = field(
        default_factory=lambda: np.empty((3, _BLOCK_BYTES // 4), np.float32), repr=False
    )

    @property
    def all_nan(self) -> bool:
        """Whether all entries are NaN in both arrays, so that neither holds a result."""
        return 0 < self.both_nan == self.cells

    @property
    def at(self) -> tuple[int, ...] | None:
        """The index of the entry with the values ``a`` and ``b``."""
        if self._place is None:
            return None
        return tuple(map(int, np.unravel_index(self._place, self.shape)))

    @property
    def ulp_format(self) -> str:
        """The number format whose units are counted."""
        return (self.unit.component or self.unit).name

    @property
    def cells(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def counts_units(self) -> bool:
        """Whether ``max_ulp`` is meaningful."""
        return self.max_ulp < math.inf

    @property
    def measured(self) -> int:
        """Number of differing entries with a finite difference."""
        return self.differing - self.unmatched

    def within(self, tolerance: float) -> bool:
        """Return whether no two values differ by more than ``tolerance``; NaN equals NaN."""
        return self.unmatched == 0 and self.max_abs <= tolerance

    def take(self, left: NumberArray, right: NumberArray) -> None:
        """Compare the next entries, flat."""
        with np.errstate(all="ignore"):
            if not self._take_singles(left, right):
                for start in range(0, left.size, _NEW_VALUES):
                    part = slice(start, start + _NEW_VALUES)
                    self._take_doubles(left[part], right[part], range(left.size)[part])
        self._compared += left.size

    def _take_singles(self, left: NumberArray, right: NumberArray) -> bool:
        """Compare entries in float32, a third of the work, or return False if that is impossible.

        Rounding keeps the order: the largest difference is among those that round to the largest
        number. These are computed in float64 if they may be larger than all before. Values within a
        factor of 2 have a difference that float32 holds exactly (Sterbenz), and so have two numbers
        of its smallest exponent. No difference of float32 is too small for float32.
        """
        if not left.dtype == right.dtype == np.float32 or self.unit not in (FLOAT32, BFLOAT16):
            return False
        errors, *rooms = self._rooms[:, : left.size]
        np.subtract(left, right, out=errors)
        np.abs(errors, out=errors)
        largest = errors.max(initial=0)
        if not largest < np.inf:
            return False
        if not largest:
            return True
        self.differing += int(np.count_nonzero(errors.view(np.int32)))
        counted = self.counts_units
        ulps = _scaled_errors(left, right, errors, self.unit, rooms) if counted else errors
        most = ulps.max()
        rounding = 1.0 if counted and most < 1 else 1 + 2.0**-23
        if (
            rounding * float(largest) > self.max_abs
            or rounding * _in_ulps(most, self.unit) > self.max_ulp
        ):
            places = np.flatnonzero((errors == largest) | (ulps == most))
            self.differing -= places.size  # counted again
            self._take_doubles(left[places], right[places], places.tolist())
        return True

    def _take_doubles(self, left: NumberArray, right: NumberArray, places: Sequence[int]) -> None:
        """Compare entries in float64, part by part if they are complex.

        ``places`` are their indices among the next entries.
        """
        parts = 2 if "c" in (left.dtype.kind, right.dtype.kind) else 1
        kind = np.complex128 if parts == 2 else np.float64
        x, y = (block.astype(kind, copy=False).view(np.float64) for block in (left, right))
        errors = x - y  # (cells · parts,)
        np.abs(errors, out=errors)
        if not errors.max(initial=0) < np.inf:
            x, y = x.copy(), y.copy()
            bad = self._unmatched_entries(*(each.reshape(-1, parts) for each in (x, y, errors)))
            if bad.size and not self.unmatched:
                self._mark(places[bad[0]], left[bad[0]], right[bad[0]])
            self.unmatched += bad.size
            self.differing += bad.size
        sizes = errors if parts == 1 else np.hypot(errors[::2], errors[1::2])  # (cells,)
        largest = int(np.argmax(sizes)) if left.size else 0
        if left.size and sizes[largest]:
            self.differing += int(np.count_nonzero(sizes != 0))
            if self.counts_units:
                most = _scaled_errors(x, y, errors, self.unit, (None, None)).max()
                self.max_ulp = max(self.max_ulp, _in_ulps(most, self.unit))
            if sizes[largest] > self.max_abs:
                self.max_abs = float(sizes[largest])
                if not self.unmatched:
                    self._mark(places[largest], left[largest], right[largest])

    def _unmatched_entries(self, x: RealRows, y: RealRows, errors: RealRows) -> Integers:
        """Return the entries whose difference is not finite, and set their difference to 0.

        All arguments have the shape (cells, parts).
        """
        nan = np.isnan(x) & np.isnan(y)
        self.both_nan += int(nan.any(axis=1).sum())
        same = (x == y) | nan
        infinite = ~(np.isfinite(x) & np.isfinite(y))
        bad = infinite.any(axis=1) & ~same.all(axis=1)
        np.minimum(errors, np.finfo(np.float64).max, out=errors)
        errors[same | bad[:, None]] = 0
        x[infinite], y[infinite] = 0, 0
        return np.flatnonzero(bad)

    def _mark(self, place: int, a: Any, b: Any) -> None:
        self._place = self._compared + place
        self.a, self.b = a.item(), b.item()


def difference(a: Operand, b: Operand, *, hint: str | None = None) -> Difference:
    """Return the difference of two arrays; NaN equals NaN, and 0 equals −0.

    Raises: InvalidInput if their shapes differ.

    >>> table = np.array([[1.0, 2.0]], np.float32)
    >>> found = difference(
    ...     Operand.of_array(table, "float32"),
    ...     Operand.of_array(np.nextafter(table, 9), "float32"),
    ... )
    >>> found.max_ulp, found.at, found.differing
    (1.0, (0, 1), 2)
    """
    if a.shape != b.shape:
        raise InvalidInput(
            f"the shapes differ: {shape_text(a.shape)} and {shape_text(b.shape)}", hint=hint
        )
    # Integers are compared exactly, as float64.
    formats = (_FORMATS.get(operand.dtype, FLOAT64) for operand in (a, b))
    found = Difference(a.shape, min(formats, key=lambda dtype: dtype.precision))
    for left, right in aligned_blocks(a, b):
        found.take(left, right)
    return found


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as messages show it.

    >>> shape_text((4096, 64)), shape_text((32,))
    ('4096 × 64', '32')
    """
    return " × ".join(map(str, shape))


def _scaled_errors(
    x: RealRows, y: RealRows, errors: RealRows, unit: DType, rooms: Sequence[RealRows | None]
) -> RealRows:
    """Return differences, divided by half the power of two below the larger value.

    Numbers just below a power of two are half as far apart as those above it. So the exponent is
    that of the next number towards zero. The result is in the first of two ``rooms``.
    """
    word, mantissa_bits, bias = _LAYOUTS[errors.itemsize]
    exponent_bits = (2 * bias + 1) << mantissa_bits
    larger: RealRows = np.abs(x, out=rooms[0])
    np.maximum(larger, np.abs(y, out=rooms[1]), out=larger)
    bits = larger.view(word)
    bits -= 1
    bits &= exponent_bits  # alone they are the largest power of two that is not above it
    np.maximum(bits, (bias + unit.min_exponent) << mantissa_bits, out=bits)
    np.subtract(exponent_bits, bits, out=bits)  # 2 over the power of two, and 0 where both are 0
    larger *= errors
    return larger


def _in_ulps(scaled: Any, unit: DType) -> float:
    """Return a scaled difference in units in the last place of a format."""
    units = math.ldexp(float(scaled), unit.precision - 2)
    return units if units < 2.0 ** (unit.precision - 1) else math.inf


def aligned_blocks(a: Operand, b: Operand) -> Iterator[tuple[NumberArray, NumberArray]]:
    """Yield the same entries of both arrays, flat, a block at a time."""
    left, right = a.blocks(), b.blocks()
    x = y = np.empty(0)
    while True:
        x = x if x.size else _next(left)
        y = y if y.size else _next(right)
        count = min(x.size, y.size, _BLOCK_BYTES // max(x.itemsize, y.itemsize))
        if not count:
            return
        yield x[:count], y[:count]
        x, y = x[count:], y[count:]


def _next(blocks: Iterator[NumberArray]) -> NumberArray:
    return next((block.reshape(-1) for block in blocks if block.size), np.empty(0))
