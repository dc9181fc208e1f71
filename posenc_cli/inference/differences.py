"""Cells beside those that a hypothesis gives: what is left over, of a sample or of all rows.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.tolerance import smallest, unit
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType

NAMED_ROWS = 1 << 12
"""Rows that do not fit are listed up to so many, and counted beyond."""

_MANY = 8
"""Rows that fit, among others that do not, and do so by no accident."""

_WORST_SHARE = 64
"""One row in so many may be damaged without making others look noisy."""

_TIES = 0.502
"""Of a quantum: what rounding to its multiples leaves, near ties too."""

MOST_BITS = 64.0
"""What a number of the widest format costs."""


class Largest(Record):
    """The largest difference: where it is, what stands there, and what belongs there.

    ``at`` is an index into the file, a row and a column of the ``file``-th.
    """

    difference: float
    file: int
    at: tuple[int, ...]
    value: float
    expected: float


class Census(Record):
    """What a hypothesis leaves over of some rows, or of all.

    ``rows`` were compared; those of ``padding`` were not. ``misfits`` counts the rows with a cell
    that does not fit, and ``misfit_rows`` lists them in order, of all rows the first
    :data:`NAMED_ROWS`. ``ratio`` is the largest difference in units of what fits, and ``largest``
    the first of the largest differences, None where nothing differs. ``on_grid`` says whether every
    cell is a number of the format that the sample's are. ``hidden`` cells are behind a mask.
    ``loose`` counts the cells of rows that fit which are not the same number, and ``bits`` are what
    all cells are off by together. Rows of a bias of several heads are those of each head's
    ``queries``, one head after another. ``noise`` is the largest ratio of each column of a sample,
    rows that do not fit and the very worst left out: an array for each file.
    """

    rows: int = 0
    cells: int = 0
    equal: int = 0
    ratio: float = 0.0
    largest: Largest | None = None
    misfits: int = 0
    misfit_rows: Integers = fresh(lambda: np.empty(0, np.int64))
    padding: tuple[int, ...] = ()
    on_grid: bool = True
    hidden: int = 0
    loose: int = 0
    bits: float = 0.0
    queries: int | None = None
    noise: tuple[Reals, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every cell fits."""
        return self.misfits == 0

    @property
    def fits_many(self) -> bool:
        """Whether at least a quarter of the rows fit, and more than a few."""
        fitting = self.rows - self.misfits
        return self.fits or (fitting >= _MANY and 4 * fitting >= self.rows)

    @property
    def residual(self) -> float:
        """The largest difference."""
        return 0.0 if self.largest is None else self.largest.difference

    @property
    def all_equal(self) -> bool:
        """Whether every cell is the same number, those of padding and behind a mask too."""
        return self.equal == self.cells and not self.padding and not self.hidden

    def followed_by(self, rows: Census) -> Census:
        """What is left over of these rows and of those that come next."""
        largest = self.largest
        if rows.largest and (largest is None or rows.largest.difference > largest.difference):
            largest = rows.largest
        listed = rows.misfit_rows[: max(NAMED_ROWS - self.misfits, 0)]
        return Census(
            self.rows + rows.rows,
            self.cells + rows.cells,
            self.equal + rows.equal,
            max(self.ratio, rows.ratio),
            largest,
            self.misfits + rows.misfits,
            np.concatenate([self.misfit_rows, listed]),
            self.padding + rows.padding,
            self.on_grid and rows.on_grid,
            self.hidden + rows.hidden,
            self.loose + rows.loose,
            self.bits + rows.bits,
        )


def part_of(
    array: NumberArray,
    predicted: NumberArray,
    limits: Callable[[], RealRows],
    rows: Integers,
    rounded: DType,
    *,
    file: int = 0,
    table: str | None = None,
    sampled: bool = False,
    quantum: float = 0.0,
) -> Census:
    """What differs in some rows of a file, ``limits`` being asked for only where something does.

    Of rows that are ``sampled`` the noise is told too.

    Shape: ``array`` (rows, …), ``predicted`` and the limits as it, complex numbers as two columns.
    """
    cells = as_columns(array)
    if np.array_equal(cells, predicted):
        none = np.zeros(cells.reshape(rows.size, -1).shape[1])
        return Census(rows.size, array.size, array.size, noise=(none,) if sampled else ())
    difference = distances(cells, predicted.astype(np.float64), table, quantum)
    ratios = ratios_to(difference, limits())
    same = (difference == 0).reshape(array.size, -1).all(axis=1).reshape(rows.size, -1)
    at = np.unravel_index(int(np.argmax(difference)), difference.shape)
    place = (int(rows[at[0]]), *map(int, at[1:]))
    largest = Largest(float(difference[at]), file, place, cells[at].item(), float(predicted[at]))
    by_column = ratios.reshape(rows.size, -1)
    misfit = (by_column > 1).any(axis=1)  # (rows,)
    return Census(
        rows.size,
        array.size,
        int(same.sum()),
        float(ratios.max()),
        largest,
        int(misfit.sum()),
        rows[misfit],
        loose=int((~same[~misfit]).sum()),
        bits=bits_of_difference(difference, predicted, rounded),
        noise=(_noise(by_column[~misfit]),) if sampled else (),
    )


def _noise(fitting: RealRows) -> Reals:
    """The largest ratio of each column in rows that fit, the very worst left out."""
    usual = np.sort(fitting, axis=0)[: fitting.shape[0] - fitting.shape[0] // _WORST_SHARE]
    return np.asarray(usual.max(axis=0, initial=0.0))


def merged(
    parts: Sequence[Census], *, padding: tuple[int, ...] = (), on_grid: bool = True
) -> Census:
    """What differs in the same rows of two files."""
    differing = [part.largest for part in parts if part.largest is not None]
    misfit_rows = np.unique(np.concatenate([part.misfit_rows for part in parts]))
    return Census(
        parts[0].rows,
        sum(part.cells for part in parts),
        sum(part.equal for part in parts),
        max(part.ratio for part in parts),
        max(differing, key=lambda largest: largest.difference, default=None),
        misfit_rows.size,
        misfit_rows,
        padding,
        on_grid,
        loose=sum(part.loose for part in parts),
        bits=sum(part.bits for part in parts),
        noise=sum((part.noise for part in parts), ()),
    )


def distances(
    values: NumberArray, predicted: RealRows, table: str | None, quantum: float = 0.0
) -> RealRows:
    """How far values are from predicted ones; angles are compared on the circle.

    Of values that were rounded to multiples of a ``quantum``, by how much more than that explains.
    Complex numbers count as pairs of columns. What is not a number is infinitely far.
    """
    if values.dtype.kind == "c":
        values = np.ascontiguousarray(values).view(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(values - predicted)
    difference = np.where(values == predicted, 0.0, difference)
    if table == "angles":
        turns = np.abs(2 * np.pi - difference)
        difference = np.minimum(difference, turns)
    if quantum:
        difference = np.maximum(difference - _TIES * quantum, 0.0)
    return np.where(np.isnan(difference), np.inf, difference)


def as_columns(array: NumberArray) -> NumberArray:
    """Complex numbers as pairs of columns."""
    if array.dtype.kind != "c":
        return array
    part = np.float32 if array.dtype.itemsize == 8 else np.float64
    return np.ascontiguousarray(array).view(part)


def ratios_to(difference: RealRows, limit: RealRows) -> RealRows:
    """Differences in units of what right code may show; of what is no number, without end."""
    return np.where(np.isfinite(difference), difference / limit, np.inf)


def bits_of_difference(difference: RealRows, predicted: NumberArray, rounded: DType) -> float:
    """How many bits of a number format it takes to say what cells differ by: Σ log₂(1 + units).

    A unit is the most that rounding the predicted number leaves. A cell costs at most what it
    would alone, :data:`MOST_BITS`, whatever stands there.

    >>> from posenc_cli.numerics.dtypes import FLOAT64
    >>> ones = np.array([1.0, 1.0, 1.0])
    >>> bits_of_difference(np.array([0.0, 3 * 2.0**-53, np.nan]), ones, FLOAT64)
    66.0
    """
    differing = difference != 0
    if not differing.any():
        return 0.0
    sizes = np.abs(predicted[differing].astype(np.float64))
    units = np.maximum(sizes * unit(rounded.name), smallest(rounded.name))
    with np.errstate(over="ignore"):
        bits = np.log2(1 + difference[differing] / units)
    return float(np.minimum(np.nan_to_num(bits, nan=MOST_BITS), MOST_BITS).sum())
