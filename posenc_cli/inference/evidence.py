"""Collect the evidence for an identification: arrays, a sample of rows, and their format.

The format is the narrowest that holds the values: a float32 file may hold bfloat16 values. Numbers
of a text file are float32 values if each is the shortest text of one.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.files.reading import Loaded
from posenc_cli.inference.tolerance import real_format, unit
from posenc_cli.inference.turning import PositionRows
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, DType
from posenc_cli.numerics.rounding import round_to
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, Reals

_TEXT_VALUES = 2000
"""Values of a text file that are tested for float32: a few milliseconds."""
_PIECE_COUNT, _PIECE_LENGTH = 16, 64
"""Number and length of the pieces read from a large file; each piece reads another part of it."""
_MOST_ROWS = 1024
"""Rows of a sample, some at every scale; the census compares the other rows."""
_FEWEST_ROWS, _MOST_CELLS = 128, 1 << 17
"""Least rows and most entries of a sample of wide rows: the time of a trial grows with its
entries."""
_MOST_BLANK = 0.1
"""Largest share of zero rows: a table may have rows for padding and still encode positions."""
_NORM_DIFFERENCE = 0.05
"""Largest relative difference of row norms: rows of waves have equal norms, except for rounding."""
_PADDING_ROWS = 2
"""Rows that may be padding: row 0 for a class token, or row 1 for fairseq's padding token."""
_TEXT_DIGITS = 9
"""Decimal digits that distinguish any two float32 numbers."""
_WRITTEN_SHORT = 1e-12
"""Error of a float32 number that was written with at least twelve decimal places."""
_EXACT_POWER = 22
"""10^22 is the largest power of ten that is exact in float64."""
_LARGEST = 2.0**54
"""Larger than any number of an encoding: positions end at 2^53."""


_FEW_DIGITS, _MOST_DIGITS, _LEAST_STEPS = 6, 14, 16
"""Digits of a text that every float32 keeps, digits that float64 exceeds, and the least number of
rounding steps in the largest value."""


class Evidence(Record):
    """Arrays of one shape, and a sample of their rows.

    ``arrays`` are as read, without axes of length 1 except one between two others. ``stored`` is
    the number format of the file, and ``values`` the narrowest format that holds all values of the
    sample. ``text`` says whether the values were read from decimal digits. All values are multiples
    of ``quantum``, which is 0 if there is none.

    ``skipped`` rows of the file come before the arrays. ``forms`` say how the file differs from
    what posenc writes. ``only`` are the rows of the sample, if given.
    """

    arrays: tuple[NumberArray, ...]
    stored: str
    values: DType
    skipped: int = 0
    only: Integers | None = None
    forms: tuple[str, ...] = ()
    quantum: float = 0.0
    text: bool = False

    @classmethod
    def of(cls, loaded: Sequence[Loaded]) -> Evidence:
        """Return the evidence of files of one shape."""
        arrays = tuple(without_ones(file.values) for file in loaded)
        stored = loaded[0].dtype
        sample = np.concatenate([_some_values(array) for array in arrays])
        text = loaded[0].text
        values = _format(sample, stored, text=text)
        quantum = _quantum(sample, stored, values if text else None)
        return cls(arrays, stored, values, quantum=quantum, text=text)

    @classmethod
    def of_arrays(cls, *arrays: NumberArray, dtype: str | None = None) -> Evidence:
        """Return the evidence of arrays in memory; ``dtype`` is the format they were stored in."""
        return cls.of([Loaded(array, dtype or str(array.dtype), "") for array in arrays])

    @cached_property
    def rounding(self) -> float:
        """The largest relative error of one rounding to the format, or to the quantum."""
        largest = max((float(np.abs(sample).max(initial=0)) for sample in self.sample), default=0)
        return max(unit(self.values.name), self.quantum / 2 / largest if largest else 0.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape of the arrays."""
        return self.arrays[0].shape

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.shape[0])

    @cached_property
    def rows(self) -> Integers:
        """The rows of the sample: the first, some at every scale, the last.

        A few blank or non-finite rows are left out.
        """
        return self.all_sample_rows[~(self._blank | self._broken)]

    @cached_property
    def _blank(self) -> Flags:
        """The rows of zeros among others of equal norm. Shape: as ``all_sample_rows``."""
        blank = self._norms == 0
        others = self._norms[~(blank | self._broken)]
        few = 0 < blank.sum() <= max(1, _MOST_BLANK * (~self._broken).sum()) and others.size
        # A table of sines is 0 at position 0; padding rows are among rows of equal norm.
        padding = few and np.ptp(others) <= _NORM_DIFFERENCE * others.max()
        return blank if padding else np.zeros_like(blank)

    @cached_property
    def _broken(self) -> Flags:
        """The rows with numbers that no encoding has. Shape: as ``all_sample_rows``."""
        broken = ~(self._norms <= _LARGEST)
        return broken if broken.sum() <= _MOST_BLANK * broken.size else np.zeros_like(broken)

    @cached_property
    def _norms(self) -> Reals:
        """The norm of each row of a matrix, 1 for other arrays. Shape: as ``all_sample_rows``."""
        sizes = np.ones(self.all_sample_rows.size)
        if len(self.shape) != 2 or self.only is not None:
            return sizes
        with np.errstate(all="ignore"):
            squares = [
                np.square(np.abs(a[self.all_sample_rows]).astype(np.float64)) for a in self.arrays
            ]
            total: Reals = np.sum([square.sum(axis=1) for square in squares], axis=0)
        return np.sqrt(total)

    @property
    def blank_rows(self) -> tuple[int, ...]:
        """The rows of zeros that were left out of the sample."""
        return tuple(self.all_sample_rows[self._blank].tolist())

    @property
    def padding(self) -> tuple[int, ...]:
        """The first two rows if they are zeros, as those of padding tokens are."""
        return tuple(row for row in self.blank_rows if row < _PADDING_ROWS)

    @cached_property
    def all_sample_rows(self) -> Integers:
        """The rows of the sample, with those that are left out."""
        if self.only is not None:
            return self.only
        width = int(np.prod(self.shape[1:]))
        most_rows = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_CELLS // max(width, 1)))
        limit = self.count if len(self.shape) == 1 else most_rows
        return PositionRows.of(Positions.contiguous(0, self.count)).sample(limit)

    @cached_property
    def sample(self) -> tuple[NumberArray, ...]:
        """The rows of the sample, for each array, in float64 or complex128."""
        samples = []
        for array in self.arrays:
            wide = np.complex128 if array.dtype.kind == "c" else np.float64
            samples.append(self.clean(np.asarray(array[self.rows]).astype(wide)))
        return tuple(samples)

    @cached_property
    def moderate(self) -> bool:
        """Whether no value of the sample is too large for a position, a cosine or a rate."""
        return all(bool((np.abs(sample) <= _LARGEST).all()) for sample in self.sample)

    def clean(self, values: NumberArray) -> NumberArray:
        """Return the float32 numbers that a text file's values stand for, others unchanged."""
        if not self.text or self.values == FLOAT64 or values.dtype.kind == "c":
            return values
        rounded = round_to(np.asarray(values, np.float64), FLOAT64, FLOAT32)
        near = np.abs(rounded - values) <= _WRITTEN_SHORT
        return np.where(near | short_numbers(values), rounded, values)

    def on_grid(self, values: NumberArray) -> bool:
        """Return whether all values are exact in the format of the sample."""
        if self.values.name == self.stored or values.dtype.kind == "c":
            return True
        if self.stored == "float64":
            values = self.clean(values)
        wide = np.asarray(values, np.float64)
        return bool(np.array_equal(round_to(wide, FLOAT64, self.values), wide, equal_nan=True))


def short_numbers(values: Reals) -> Flags:
    """Return which numbers equal a text of at most nine digits, as float32 values are written.

    >>> short_numbers(np.array([0.84147098, 0.8414709848, 1e-30, 0.0])).tolist()
    [True, False, True, True]
    """
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log10(np.abs(values)))
    places = np.where(np.isfinite(exponents), _TEXT_DIGITS - 1 - exponents, 0)
    # Powers of ten up to 10^22 are exact, so dividing by one gives the value of the text.
    plain = (places >= 0) & (places <= _EXACT_POWER)
    powers = 10.0 ** np.where(plain, places, 0)
    short = np.round(values * powers) / powers == values
    for at in np.argwhere(~plain & np.isfinite(values)):
        value = float(values[tuple(at)])
        short[tuple(at)] = float(f"{value:.{_TEXT_DIGITS - 1}e}") == value
    return np.asarray(short | ~np.isfinite(values))


def without_ones(values: NumberArray) -> NumberArray:
    """Return the array without axes of length 1, such as that of a batch.

    One between two others is kept, since it may be the only query of a bias.
    """
    axes = [axis for axis, size in enumerate(values.shape) if size != 1] or [values.ndim - 1]
    inner = [axis for axis in range(axes[0], axes[-1]) if values.shape[axis] == 1]
    if len(axes) == 2 and inner:
        axes.insert(1, inner[0])
    return values.reshape([values.shape[axis] for axis in axes])


def _some_values(values: NumberArray) -> Reals:
    """Return finite values from all parts of an array, real and imaginary parts separately."""
    flat = values.reshape(-1) if values.flags.c_contiguous else values
    if flat.ndim == 1:
        starts = np.linspace(0, max(flat.size - _PIECE_LENGTH, 0), _PIECE_COUNT).astype(np.int64)
        flat_sample = np.concatenate(
            [flat[:4096], *(flat[at : at + _PIECE_LENGTH] for at in starts)]
        )
    else:
        flat_sample = values[:64].reshape(-1)
    if flat_sample.dtype.kind == "c":
        flat_sample = np.concatenate([flat_sample.real, flat_sample.imag])
    numbers = flat_sample.astype(np.float64)
    return numbers[np.isfinite(numbers)]


def _quantum(values: Reals, stored: str, text: DType | None = None) -> float:
    """Return the quantum of values: 1 for integers, a power of ten for a text of few digits, or 0.

    ``text`` is the number format of the values of a text. The quantum is 0 if it is too coarse to
    be a rounding.
    """
    largest = float(np.abs(values).max(initial=0))
    quantum = 1.0 if "int" in stored else 0.0
    if text is not None and largest:
        few = values[:: max(1, values.size // _TEXT_VALUES)].tolist()
        digits = max(len(Decimal(repr(value)).normalize().as_tuple().digits) for value in few)
        if digits <= (_MOST_DIGITS if text == FLOAT64 else _FEW_DIGITS):
            quantum = 10.0 ** (math.ceil(math.log10(largest)) - digits)
    return quantum if largest >= _LEAST_STEPS * quantum else 0.0


def _format(values: Reals, stored: str, *, text: bool) -> DType:
    """Return the narrowest format that holds all values; the stored one for whole numbers."""
    own = real_format(stored)
    if values.size == 0 or np.array_equal(values, np.round(values)):
        return own
    if text and own == FLOAT64:
        few = values[:: max(1, values.size // _TEXT_VALUES)]
        with np.errstate(over="ignore"):
            near = np.abs(few.astype(np.float32) - few).max() <= _WRITTEN_SHORT
        if near or short_numbers(few).all():
            own = FLOAT32
            values = values.astype(np.float32).astype(np.float64)
    formats = sorted(REAL_DTYPES.values(), key=lambda candidate: candidate.precision)
    narrower = (dtype for dtype in formats if dtype.precision < own.precision)
    with np.errstate(over="ignore"):
        exact = (d for d in narrower if np.array_equal(round_to(values, FLOAT64, d), values))
        return next(exact, own)
