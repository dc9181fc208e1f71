"""What an identification has to go by: arrays that were read, a sample of their rows, their format.

Owns the number formats that values show: a float32 file may hold bfloat16 values, and the numbers
of a text file are float32 values where each is the shortest text of one.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.turning import Places
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from posenc_cli.numerics.rounding import round_to
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.dtypes import DType

_TEXT_FORMATS = (".csv", ".txt")
_TEXT_VALUES = 2000
_SPREAD = 1024
_MOST_ROWS = 1024
_BLANK = 0.1
_ALIKE = 0.05
_LARGEST = 2.0**54
"""Of the rows: a table may have rows of zeros for padding, and still encode positions."""


class Evidence(Record):
    """Arrays of one shape, and some of their rows.

    ``arrays`` are as they were read, leading axes of length 1 dropped. ``stored`` names the number
    format of the file, ``values`` the narrowest that holds all the values of the sample.
    """

    arrays: tuple[NDArray[Any], ...]
    stored: str
    values: DType

    @classmethod
    def of(cls, loaded: Sequence[Loaded]) -> Evidence:
        """The evidence that some files of one shape give."""
        arrays = tuple(_without_leading_ones(each.values) for each in loaded)
        stored = loaded[0].dtype
        text = loaded[0].path.lower().endswith(_TEXT_FORMATS)
        sample = np.concatenate([_some_values(each) for each in arrays])
        return cls(arrays, stored, _format(sample, stored, text=text))

    @classmethod
    def of_arrays(cls, *arrays: NDArray[Any], dtype: str | None = None) -> Evidence:
        """The evidence that arrays in memory give; ``dtype`` is the format they were stored in."""
        kept = tuple(_without_leading_ones(each) for each in arrays)
        stored = dtype or str(arrays[0].dtype)
        sample = np.concatenate([_some_values(each) for each in kept])
        return cls(kept, stored, _format(sample, stored, text=False))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the arrays have in common."""
        return self.arrays[0].shape

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.shape[0])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the sample: the first, some at every scale, the last; none that is blank."""
        rows = self._every
        if len(self.shape) != 2:
            return rows
        sizes = np.zeros(rows.size)
        for array in self.arrays:
            some = np.abs(np.asarray(array[rows])).reshape(rows.size, -1).astype(np.float64)
            sizes = np.hypot(sizes, np.sqrt(np.square(some).sum(axis=1)))
        blank = sizes == 0
        if not 0 < blank.sum() <= max(1, _BLANK * rows.size):
            return rows
        others = sizes[~blank]
        # Sines alone are 0 at position 0; padding stands among rows that are all alike in length.
        alike = np.ptp(others) <= _ALIKE * others.max()
        return rows[~blank] if alike else rows

    @cached_property
    def blank_rows(self) -> tuple[int, ...]:
        """Rows of the sample's range that hold zeros alone, and were left out of it."""
        return tuple(sorted({*self._every.tolist()} - {*self.rows.tolist()}))

    @cached_property
    def _every(self) -> NDArray[np.int64]:
        limit = self.count if len(self.shape) == 1 else _MOST_ROWS
        return Places.of(Positions.contiguous(0, self.count)).sample(limit)

    @cached_property
    def sample(self) -> tuple[NDArray[Any], ...]:
        """The rows of the sample, of each array, in float64 or complex128."""
        found = []
        for array in self.arrays:
            wide = np.complex128 if array.dtype.kind == "c" else np.float64
            found.append(self.cleaned(np.asarray(array[self.rows]).astype(wide)))
        return tuple(found)

    @cached_property
    def moderate(self) -> bool:
        """Whether no value of the sample is too large for a position, a cosine or a rate."""
        return all(bool((np.abs(each) <= _LARGEST).all()) for each in self.sample)

    def cleaned(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of a text file as the numbers they stand for; others as they are."""
        if self.stored != "float64" or self.values == FLOAT64 or values.dtype.kind == "c":
            return values
        rounded = round_to(np.asarray(values, np.float64), FLOAT64, self.values)
        return np.asarray(rounded, np.float64)


def _without_leading_ones(values: NDArray[Any]) -> NDArray[Any]:
    while values.ndim > 1 and values.shape[0] == 1:
        values = values[0]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return values


def _some_values(values: NDArray[Any]) -> NDArray[np.float64]:
    """Values from all over an array, real and imaginary parts as numbers of their own."""
    flat = values.reshape(-1) if values.flags.c_contiguous else values
    if flat.ndim == 1:
        step = max(1, flat.size // _SPREAD)
        early = flat[:4096]
        some = np.concatenate([early, flat[:: step | 1][:_SPREAD]])
    else:
        some = values[:64].reshape(-1)
    if some.dtype.kind == "c":
        some = np.concatenate([some.real, some.imag])
    found = some.astype(np.float64)
    return found[np.isfinite(found)]


def _format(values: NDArray[np.float64], stored: str, *, text: bool) -> DType:
    """The narrowest number format that holds all the values; of whole numbers the stored one."""
    own = REAL_DTYPES.get({"complex64": "float32"}.get(stored, stored), FLOAT64)
    if values.size == 0 or np.array_equal(values, np.round(values)):
        return own
    if text and own == FLOAT64:
        some = values[:: max(1, values.size // _TEXT_VALUES)]
        if all(float(str(np.float32(v))) == v for v in some.tolist()):
            own = FLOAT32
            values = values.astype(np.float32).astype(np.float64)
    for dtype in sorted(REAL_DTYPES.values(), key=lambda each: each.precision):
        if dtype.precision >= own.precision:
            break
        with np.errstate(over="ignore"):
            on_grid = round_to(values, FLOAT64, dtype)
        if np.array_equal(on_grid, values):
            return dtype
    return own
