"""The rows and columns that represent an encoding too large to compute whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from posenc_cli.positions import Positions

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Reals, StoredRows

CellValues = Callable[[Sequence[int], Sequence[int]], "StoredRows"]
"""Values at some rows and columns, by index: → (rows, columns), NaN where there is no value."""

Wavelengths = Callable[[Sequence[int], Sequence[int]], "Reals"]
"""The wavelength of some columns, in units of the rows' axis.

The rows are those shown; functions that estimate wavelengths from values need them.
"""

_SMALLEST_SINE = 1e-9
"""The sine near a full turn below which a quotient of two sines is replaced by its limit.

Rounding errors would show in a smaller quotient.
"""


def spread(count: int, most: int, *, even: bool = False) -> list[int]:
    """Return at most ``most`` indices of ``count``, spread evenly from the first to the last.

    ``even`` keeps all steps equal, which may leave out the last index.

    >>> spread(3, 8), spread(10, 4), spread(10, 4, even=True), spread(2**50, 2)
    ([0, 1, 2], [0, 3, 6, 9], [0, 3, 6, 9], [0, 1125899906842623])
    """
    most = max(1, most)
    if count <= most:
        return list(range(count))
    if even:
        return list(range(0, count, -(-count // most)))
    if most == 1:
        return [0]
    return [(2 * i * (count - 1) + most - 1) // (2 * (most - 1)) for i in range(most)]


def steps(points: Sequence[Any]) -> float | None:
    """Return the median step from one point to the next, or None without two numbers.

    >>> steps((0, 10, 20, 1000)), steps(("a", "b")), steps((7,))
    (10, None, None)
    """
    if len(points) < 2 or any(isinstance(point, str) for point in points):
        return None
    gaps = sorted(abs(after - before) for before, after in pairwise(points))
    return gaps[len(gaps) // 2]  # type: ignore[no-any-return]


def positions_of(points: Sequence[int], denominator: int = 1) -> Positions:
    """Return points in order, as few ranges; each is a numerator over ``denominator``.

    >>> str(positions_of([0, 1, 2, 10, 20, 30, 7]))
    '0:3,10:31:10,7'
    """
    ranges: list[range] = []
    for point in points:
        last = ranges[-1] if ranges else None
        if last is not None and len(last) == 1 and point > last.start:
            ranges[-1] = range(last.start, point + 1, point - last.start)
        elif last is not None and len(last) > 1 and point == last[-1] + last.step:
            ranges[-1] = range(last.start, point + 1, last.step)
        else:
            ranges.append(range(point, point + 1))
    return Positions(tuple(ranges), denominator)


class Points(Sequence[int]):
    """Positions as a sequence of numerators, of any length, for the computations of a picture.

    >>> points = Points(Positions.parse("0:1000000000000,7"))
    >>> len(points), points[-1], points[12345]
    (1000000000001, 7, 12345)
    """

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self._ends = list(accumulate(len(run) for run in positions.ranges))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: Any) -> Any:
        index += len(self) if index < 0 else 0
        which = bisect_right(self._ends, index)
        return self.positions.ranges[which][index - (self._ends[which - 1] if which else 0)]


class PositionAxis(Points):
    """Positions as a sequence of numbers, of any length: the axis of a picture.

    >>> list(PositionAxis(Positions.parse("0:1:0.5,2"))), list(PositionAxis(Positions.parse("1:3")))
    ([0.0, 0.5, 2.0], [1, 2])
    """

    def __getitem__(self, index: Any) -> Any:
        number, parts = super().__getitem__(index), self.positions.denominator
        return number if parts == 1 else number / parts


def wavelengths_by_values(cells: CellValues, points: Sequence[int]) -> Wavelengths:
    """Return a function that estimates wavelengths from values: range over speed of a column.

    A column that crosses its whole range with every shown step is undersampled, whatever its
    formula. The estimate is exact for sines and for bits.
    """
    import numpy as np

    def wavelengths(rows: Sequence[int], columns: Sequence[int]) -> Reals:
        after = [row + 1 if row + 1 < len(points) else row - 1 for row in rows]
        gaps = np.array([abs(points[j] - points[i]) for i, j in zip(rows, after, strict=True)])
        here = np.asarray(cells(rows, columns), np.float64)  # (rows, columns)
        there = np.asarray(cells(after, columns), np.float64)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            speeds = (np.abs(there - here) / gaps[:, None]).mean(axis=0)  # (columns,)
            lengths = 2 * np.ptp(here, axis=0) / speeds
        return np.where(np.isfinite(lengths), lengths, np.inf)

    return wavelengths


def wave_means(cells: CellValues, angles: Reals, count: int) -> CellValues:
    """Return a function for means of waves over blocks of rows.

    Each block ends before the next row, or at ``count``. Columns are scaled cosines of row · angle
    + phase. Over n rows, a wave has the mean sin(nα) / (n sin α) times its value in their middle,
    where α is half its angle per row. For an odd n the middle is a row. For an even n, the mean of
    the two middle rows is cos α times the middle value.

    Units: ``angles`` in radians per row, (columns,).
    """
    import numpy as np

    def means(rows: Sequence[int], columns: Sequence[int]) -> StoredRows:
        ends = [*rows[1:], count]
        sizes = np.subtract(ends, rows)[:, None]  # (rows, 1)
        below = [(a + b - 1) // 2 for a, b in zip(rows, ends, strict=True)]
        above = [(a + b) // 2 for a, b in zip(rows, ends, strict=True)]
        values = np.asarray(cells(below, columns), np.float64)
        if above != below:
            values = (values + np.asarray(cells(above, columns), np.float64)) / 2
        half = np.asarray(angles, np.float64)[np.asarray(columns)] / 2
        divisors = np.where(sizes % 2, half, 2 * half)  # sin α cos α is half of sin 2α
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.sin(sizes * half) / (sizes * np.sin(divisors)) * np.where(sizes % 2, 1, 2)
        limits = np.cos(sizes * half) / np.cos(divisors)
        whole_turns = np.abs(np.sin(divisors)) <= np.where(divisors > 1, _SMALLEST_SINE, 0)
        share: Reals = np.where(whole_turns, limits, shares)
        return values * share

    return means
