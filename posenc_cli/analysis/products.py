"""Dot products between the rows of a matrix of any length.

Products are computed in tiles. Every tile is a matrix product of the same shape, at multiples of
one grid, padded with rows of zeros. Libraries sum in another order for another shape. So a value
has the same bytes in any block, and in a longer matrix.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.budget import HELD_VALUES
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

TILE = 32, 512
"""Rows and columns of a tile: blocks of rows stay small at any length, and products efficient."""

_SCANNED_VALUES = 1 << 19  # read together in one scan: 4 MiB stay in the cache
_LEAST_WIDTH = 64  # adding a product to the diagonals takes as long as computing one this wide


class MatrixRows(Record):
    """The rows of a matrix, whole or in parts.

    ``read(which)`` → float64 (n, width), by row numbers. ``unit`` is the relative rounding error of
    a value: 2^−24 for float32, 0 for integers.
    """

    count: int
    width: int
    read: Callable[[Sequence[int]], RealRows]
    unit: float = 2.0**-53

    def in_memory(self) -> MatrixRows:
        """Return the same rows, in memory if they fit; otherwise each use reads them again."""
        if self.count * self.width > HELD_VALUES:
            return self
        return MatrixRows.of(self.read(range(self.count)), unit=self.unit)

    @classmethod
    def of(cls, values: RealRows, *, unit: float = 2.0**-53) -> MatrixRows:
        """Return the rows of an array."""
        return cls(len(values), values.shape[1], lambda which: values[places(which)], unit)

    def directions(self) -> MatrixRows:
        """Return the rows divided by their lengths; a row of zeros becomes NaN."""

        def read(which: Sequence[int]) -> RealRows:
            rows = self.read(which)
            with np.errstate(all="ignore"):
                rows = rows / np.abs(rows).max(axis=1, keepdims=True, initial=0)
                lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))  # (rows, 1)
                return np.asarray(rows / lengths)

        return MatrixRows(self.count, self.width, read, max(self.unit, 2.0**-53))


def places(which: Sequence[int]) -> slice | list[int]:
    """Return the index that selects rows from an array: a slice for a range, else a list."""
    return slice(which.start, which.stop, which.step) if isinstance(which, range) else list(which)


def product_rows(rows: MatrixRows, which: range, columns: int) -> RealRows:
    """Return the products of consecutive rows with the first ``columns`` rows.

    ``which`` starts at a multiple of the tile's rows, and is at most as long as a tile.

    Shape: (len(which), columns).
    """
    tall, wide = TILE
    left = _pad(rows.read(which), tall)
    products = np.empty((len(which), columns))
    step = max(wide, HELD_VALUES // max(1, rows.width) // wide * wide)
    with np.errstate(all="ignore"):
        for begin in range(0, columns, step):
            right = rows.read(range(begin, min(begin + step, rows.count)))
            for start in range(0, min(step, columns - begin), wide):
                tile = left @ _pad(right[start : start + wide], wide).T
                target = products[:, begin + start : begin + start + wide]
                target[...] = tile[: target.shape[0], : target.shape[1]]
    return products


def product_blocks(rows: MatrixRows) -> Iterator[range]:
    """Yield the blocks of rows for :func:`product_rows`."""
    for begin in range(0, rows.count, TILE[0]):
        yield range(begin, min(begin + TILE[0], rows.count))


def _pad(rows: RealRows, count: int) -> RealRows:
    """Return rows, padded with rows of zeros up to ``count``."""
    if len(rows) == count:
        return rows
    return np.concatenate([rows, np.zeros((count - len(rows), rows.shape[1]))])


class Diagonals(Record):
    """Statistics of the products at each offset m − n ≥ 0.

    ``examined`` counts pairs of rows, and ``kept`` the pairs whose product is finite. ``reach``
    is the largest squared length of a row.

    Shape: (offsets,) each, the offsets ascending. Values are NaN if no product is finite; a mean
    also if their sum exceeds float64.
    """

    offsets: Integers
    least: Reals
    mean: Reals
    most: Reals
    examined: Integers
    kept: Integers
    reach: float

    @classmethod
    def of(
        cls,
        offsets: Integers,
        *,
        least: Reals,
        total: Reals,
        most: Reals,
        examined: Integers,
        kept: Integers,
        reach: float,
    ) -> Diagonals:
        """Return the statistics from sums of finite products, in any order of the offsets."""
        order = np.argsort(offsets, kind="stable")
        kept = kept[order]

        def finite(values: Reals) -> Reals:
            return np.where(kept > 0, values[order], np.nan)

        total = np.where(np.isfinite(total), total, np.nan)
        mean = finite(total) / np.maximum(kept, 1)
        examined = examined[order]
        return cls(offsets[order], finite(least), mean, finite(most), examined, kept, reach)

    @property
    def pairs(self) -> int:
        """The number of pairs of rows examined."""
        return int(self.examined.sum())

    @property
    def dropped(self) -> int:
        """The number of examined pairs whose product is not finite."""
        return int((self.examined - self.kept).sum())

    def with_diagonals(self, other: Diagonals) -> Diagonals:
        """Return these statistics joined with others, which win at common offsets."""
        left = ~np.isin(self.offsets, other.offsets)
        order = np.argsort(np.concatenate([self.offsets[left], other.offsets]), kind="stable")

        def join(name: str) -> Any:
            return np.concatenate([getattr(self, name)[left], getattr(other, name)])[order]

        names = "offsets", "least", "mean", "most", "examined", "kept"
        return Diagonals(**{name: join(name) for name in names}, reach=max(self.reach, other.reach))

    @property
    def spread(self) -> float:
        """The largest difference between two products at one offset; 0 if none is finite."""
        spreads = self.most - self.least
        finite = spreads[np.isfinite(spreads)]
        return float(finite.max()) if finite.size else 0.0


def diagonals(rows: MatrixRows, windows: tuple[range, ...] | None = None) -> Diagonals:
    """Return statistics of all pairs of rows, or of those in some equally spaced windows of rows.

    Windows are equally long and do not overlap; all pairs of rows within and between them count.
    """
    windows = windows or (range(rows.count),)
    width, spacing = len(windows[0]), 0
    if len(windows) > 1:
        rows = MatrixRows.of(
            np.concatenate([rows.read(window) for window in windows]), unit=rows.unit
        )
        spacing = windows[1].start - windows[0].start
    else:
        rows = rows.in_memory()
    # One line for each distance of windows, with room for the offsets within: (lines, offsets).
    shape = len(windows), 2 * width - 1
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    total, counts = np.zeros(shape), np.zeros(shape, np.int64)
    reach = 0.0
    for block in product_blocks(rows):
        products = product_rows(rows, block, block.stop)
        finite = np.isfinite(products)
        whole = bool(finite.all())
        for row, (m, values) in enumerate(zip(block, products, strict=True)):
            row_finite = finite[row]
            if row_finite[m]:
                reach = max(reach, float(values[m]))
            window, within = divmod(m, width)
            for other in range(window + 1):
                first = other * width
                # Newest first: offsets grow from left to right.
                backward = values[first : min(first + width, m + 1)][::-1]
                start = width - 1 + within - (len(backward) - 1 if other < window else within)
                place = window - other, slice(start, start + len(backward))
                if whole:
                    counts[place] += 1
                else:
                    mask = row_finite[first : first + len(backward)][::-1]
                    backward = np.where(mask, backward, np.nan)
                    counts[place] += mask
                np.fmin(least[place], backward, out=least[place])
                np.fmax(most[place], backward, out=most[place])
                with np.errstate(over="ignore"):
                    total[place] += backward if whole else np.where(mask, backward, 0.0)
    inner = np.arange(2 * width - 1, dtype=np.int64) - (width - 1)
    apart = np.arange(len(windows), dtype=np.int64)[:, None]
    offsets = spacing * apart + inner
    # Within a window each pair was counted once, the later row first.
    examined = (len(windows) - apart) * (width - np.abs(inner)) * (offsets >= 0)
    seen = examined > 0
    return Diagonals.of(
        offsets[seen],
        least=least[seen],
        total=total[seen],
        most=most[seen],
        examined=examined[seen],
        kept=counts[seen],
        reach=reach,
    )


def near_diagonals(rows: MatrixRows) -> Diagonals:
    """Return statistics of the products of every row with itself and with the three before it.

    For n rows these are about 4n products. No row is left out, however many there are.
    """
    count = min(4, rows.count)
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    total, kept = np.zeros(count), np.zeros(count, np.int64)
    step = max(1, _SCANNED_VALUES // max(1, rows.width))
    for begin in range(0, rows.count, step):
        before = min(begin, count - 1)
        values = rows.read(range(begin - before, min(begin + step, rows.count)))  # (rows, width)
        for offset in range(count):
            first = max(before, offset)
            with np.errstate(all="ignore"):
                products = np.einsum(
                    "ij,ij->i", values[first:], values[first - offset : -offset or None]
                )
            products = products[np.isfinite(products)]
            if products.size:
                least[offset] = min(least[offset], products.min())
                most[offset] = max(most[offset], products.max())
                with np.errstate(over="ignore", invalid="ignore"):
                    total[offset] += products.sum()
                kept[offset] += products.size
    offsets = np.arange(count, dtype=np.int64)
    reach = max(0.0, float(most[0]))
    examined = rows.count - offsets
    return Diagonals.of(
        offsets, least=least, total=total, most=most, examined=examined, kept=kept, reach=reach
    )


def windows_of(count: int, width: int, *, products: int) -> tuple[range, ...] | None:
    """Return windows of rows whose pairs need at most ``products`` multiplications.

    It is None if all rows need no more, or if there are so few that windows would leave none out.

    >>> windows_of(1000, 8, products=10**9) is None
    True
    >>> len(windows_of(10**9, 8, products=1 << 23)), windows_of(10**9, 8, products=1 << 23)[-1]
    (8, range(999999936, 1000000000))
    """
    number = 8
    width = max(_LEAST_WIDTH, width)
    if count <= number or count * count // 2 * width <= products:
        return None
    chosen = int((2 * products / width) ** 0.5)
    length = max(1, min(chosen // number, count // (4 * number)))  # far apart: no offset in two
    spacing = (count - length) // (number - 1)
    last = count - length
    return tuple(
        range(start, start + length)
        for start in range(last - (number - 1) * spacing, last + 1, spacing)
    )
