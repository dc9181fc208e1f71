"""Describe any subject of rope-check as a complex factor for each pair and position.

A dimension pair (x₁, x₂) is the complex number x = x₁ + i·x₂, and any real 2×2 matrix is
x → z·x + w·x̄: z rotates and scales, w mirrors. Its spectral norm is |z| + |w|, so a rotation has
|z| = 1 and w = 0. The rest of the map, outside the pairs, is bounded by the Frobenius norm of the
rest of the matrix.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.tables import Layout, paired_columns
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals
    from posenc_cli.positions import Positions

    SomeRows = slice | Integers
    """Some rows of a subject."""

LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")

Progress = Callable[[int, int], None]
"""A callback with the number of positions that are done, and of all positions."""

_NEIGHBOURS = 12
"""Rows to sample before and after a wrong one, which show whether it is the only one."""

ROWS = 2048
"""Largest number of rows in a block."""

BLOCK_PAIRS = 1 << 15
"""Largest number of pairs × rows in a block: it stays in the cache, and many blocks need little
memory."""

RETAINED = 24 << 20
"""Bytes that the allocator may keep between blocks. Untouched, they take no memory.

glibc keeps as much as the largest array that was freed. Without such an array, it returns the
pages of each block to the system and requests them again for the next. That takes a third of the
time."""


class ColumnPairing(Record):
    """The pairs of columns in the input and the output: pair i is (first[i], second[i]).

    ``layout`` names the pairing of the input columns, None if it has no name. ``out_layout`` is
    that of the output, which differs if a function also reorders columns.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    out_first: tuple[int, ...]
    out_second: tuple[int, ...]
    layout: Layout | None
    out_layout: Layout | None

    @classmethod
    def named(
        cls, layout: Layout, pairs: int, *, parts: int = 1, out_layout: Layout | None = None
    ) -> ColumnPairing:
        """Return the pairing of a layout, within each of ``parts`` equal parts of the columns.

        >>> ColumnPairing.named("half", 2).second, ColumnPairing.named("interleaved", 2).second
        ((2, 3), (1, 3))
        """
        out = out_layout or layout
        first, second = paired_columns(layout, pairs, parts)
        out_first, out_second = paired_columns(out, pairs, parts)
        return cls(first, second, out_first, out_second, layout, out)

    @classmethod
    def likely(cls, right: Layout, pairs: int, head: int, parts: int) -> list[ColumnPairing]:
        """Return the likely pairings of a head's columns in code, the right layout's first.

        In a partly rotated head, likely mistakes are to rotate all columns, the last ones, or pairs
        half a head apart.
        """
        layouts = (right, *(layout for layout in LAYOUTS if layout != right))
        pairings = [
            cls.named(layout, pairs, parts=parts, out_layout=out)
            for layout in layouts
            for out in (layout, *(other for other in layouts if other != layout))
        ]
        if head == 2 * pairs:
            return pairings
        left = head - 2 * pairs
        for layout in layouts:
            first, second = paired_columns(layout, pairs)
            pairings.append(_unnamed_pairing([left + j for j in first], [left + j for j in second]))
        apart = head // 2
        if apart >= pairs:
            pairings.append(_unnamed_pairing(list(range(pairs)), [apart + j for j in range(pairs)]))
        if head % 2 == 0:
            pairings += [cls.named(layout, head // 2) for layout in layouts]
        return pairings

    @classmethod
    def of_first_columns(cls, turning: int, pairs: int) -> ColumnPairing:
        """Return the pairing of halves within the first columns, if only the first pairs rotate.

        >>> ColumnPairing.of_first_columns(2, 4).second
        (2, 3, 5, 7)
        """
        first, second = paired_columns("half", turning)
        return _unnamed_pairing(
            [*first, *range(2 * turning, 2 * pairs, 2)],
            [*second, *range(2 * turning + 1, 2 * pairs, 2)],
        )

    def others(self, width: int) -> tuple[int, ...]:
        """Return the columns, of ``width``, that are in no pair."""
        return tuple(sorted(set(range(width)) - set(self.first) - set(self.second)))

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return len(self.first)

    @property
    def text(self) -> str:
        """The pairing as messages show it.

        >>> ColumnPairing.named("half", 32).text
        'i and i + 32'
        >>> _unnamed_pairing([0, 1], [3, 2]).text
        '0 and 3, 1 and 2'
        """
        if self.layout == "interleaved":
            return "2i and 2i+1"
        steps = {b - a for a, b in zip(self.first, self.second, strict=True)}
        start = f" from dimension {self.first[0]} on" if self.first[0] else ""
        if steps == {1}:
            return f"2i and 2i+1{start}"
        if len(steps) == 1:
            return f"i and i + {steps.pop()}{start}"
        turning = self.second[0] - self.first[0]
        if self == ColumnPairing.of_first_columns(turning, self.pairs):
            return f"i and i + {turning} within the first {2 * turning}"
        shown = zip(self.first[:3], self.second[:3], strict=True)
        more = ", …" if self.pairs > 3 else ""
        return ", ".join(f"{a} and {b}" for a, b in shown) + more


def _unnamed_pairing(first: list[int], second: list[int]) -> ColumnPairing:
    return ColumnPairing(tuple(first), tuple(second), tuple(first), tuple(second), None, None)


class SubjectBlock(Record):
    """The map of a subject at some positions.

    ``turned`` is z and ``mirrored`` is w (None: 0), both (n, pairs). ``rest`` (n,) bounds
    everything else (None: 0); ``passed`` (n,) is its part on columns without a pair (None: 0).
    ``seen`` (n, pairs) says which pairs were observed (None: all). ``twist`` is x̄/x if only one
    vector per position was observed; then ``turned`` is z + w·x̄/x.
    """

    positions: Integers
    turned: ComplexRows
    mirrored: ComplexRows | None = None
    rest: Reals | None = None
    passed: Reals | None = None
    seen: Flags | None = None
    twist: ComplexRows | None = None

    def stray(self) -> RealRows | None:
        """Return the norm of all that does not rotate a pair, |w| plus the rest; None if it is 0.

        Shape: (n, pairs) or (n, 1).
        """
        stray = None if self.mirrored is None else np.abs(self.mirrored)
        if self.rest is None:
            return stray
        rest = self.rest[:, None]
        return rest if stray is None else stray + rest

    def without_passed(self) -> SubjectBlock:
        """Return the block without the changes of columns that are in no pair."""
        if self.rest is None or self.passed is None:
            return self
        return replace(self, rest=np.maximum(self.rest - self.passed, 0), passed=None)


class SubjectRotation(Record):
    """The map of a subject at its positions, read as rotations of dimension pairs.

    ``read(rows)`` returns any rows of it; nothing larger is kept in memory. ``dtype`` names the
    number format of its values, and ``roundings`` counts how often correct code rounds to it.
    """

    places: PositionRows
    pairs: int
    dtype: str
    roundings: int
    pairing: ColumnPairing | None
    read: Callable[[SomeRows], SubjectBlock]

    def blocks(self, progress: Progress | None = None) -> Iterator[SubjectBlock]:
        """Yield all rows in order; ``progress`` gets the number of rows read, and of all rows."""
        np.empty(RETAINED, np.uint8)
        for rows in self.places.row_blocks(max(ROWS // 8, min(ROWS, BLOCK_PAIRS // self.pairs))):
            yield self.read(rows)
            if progress is not None:
                progress(rows.stop, self.places.count)


class PositionRows(Record):
    """The positions of rows, computed on demand.

    >>> from posenc_cli.positions import Positions
    >>> PositionRows.of(Positions.parse("0:4,10:30:5")).at(np.array([3, 4, 5])).tolist()
    [3, 10, 15]
    """

    positions: Positions
    starts: Integers
    steps: Integers
    rows: Integers

    @classmethod
    def of(cls, positions: Positions) -> PositionRows:
        """Return the rows of ``positions``, in order."""
        counts = [len(indices) for indices in positions.ranges]
        return cls(
            positions,
            np.array([indices.start for indices in positions.ranges], np.int64),
            np.array([indices.step for indices in positions.ranges], np.int64),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.rows[-1])

    def row_blocks(self, size: int = ROWS) -> Iterator[slice]:
        """Yield all rows in order, ``size`` at a time."""
        for start in range(0, self.count, size):
            yield slice(start, min(start + size, self.count))

    def at(self, rows: SomeRows) -> Integers:
        """Return the positions of some rows."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.count), dtype=np.int64)
        ranges = np.searchsorted(self.rows, rows, side="right") - 1
        return self.starts[ranges] + self.steps[ranges] * (rows - self.rows[ranges])

    def sample(self, limit: int = 768) -> Integers:
        """Return rows that represent a subject: the first, some at every scale, and the last.

        At powers of two, number formats run out of integers.
        """
        count = self.count
        if count <= limit:
            return np.arange(count, dtype=np.int64)
        wanted = [np.arange(320, dtype=np.int64), np.arange(count - 8, count, dtype=np.int64)]
        scale = 256.0
        while scale < count:
            near = np.arange(-2, 6, dtype=np.int64)
            wanted += [int(scale) + near, int(1.4 * scale) + near]
            scale *= 2
        rows = np.sort(np.concatenate(wanted))
        rows = rows[np.diff(rows, prepend=-1) > 0]  # np.unique imports numpy.ma: 10 ms
        return rows[(rows >= 0) & (rows < count)]

    def sample_around(self, *rows: int) -> Integers:
        """Return a sample with these rows and their neighbours, where an error may begin."""
        near = [row + np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1) for row in rows]
        sampled = np.unique(np.concatenate([self.sample(), *near]))
        return sampled[(sampled >= 0) & (sampled < self.count)]
