"""The common form of every rope-check subject: a complex factor for each pair and position.

Owns the description of a linear map of q or k as turns of planes. A dimension pair (x₁, x₂) is
the complex number x = x₁ + i·x₂, and any real 2×2 matrix is x → z·x + w·x̄: z rotates and
stretches, w mirrors. Its spectral norm is |z| + |w|, so a rotation is |z| = 1 and w = 0. What a map
does besides, off those planes, is bounded by the Frobenius norm of the rest of the matrix.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.tables import paired_columns
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.tables import Layout
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals
    from posenc_cli.positions import Positions

    SomeRows = slice | Integers
    """Which rows of a subject."""

LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")

Progress = Callable[[int, int], None]
"""What is told how many positions are done, and of how many."""

_NEAR = 12
"""Rows before and after one that is wrong: enough to see whether it stands alone."""

ROWS = 2048
"""Rows of a block, at most."""

BLOCK_PAIRS = 1 << 15
"""Pairs of all rows of a block: it stays in the cache, and many blocks cost little memory."""

RETAINED = 24 << 20
"""Bytes that the allocator may keep between blocks. Untouched, they are no memory.

glibc keeps as much as the largest array that was given back: without one, it hands the pages of
each block to the system and gets them again for the next, a third of the time.
"""


class ColumnPairing(Record):
    """How columns are paired, going in and coming out: pair i is (first[i], second[i]).

    ``layout`` is the name of the pairing of the columns going in, None for one without a name;
    ``out_layout`` of those coming out, which differs where a function also reorders columns.
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
        """The pairing of a layout, within each of ``parts`` equal parts of the columns.

        >>> ColumnPairing.named("half", 2).second, ColumnPairing.named("interleaved", 2).second
        ((2, 3), (1, 3))
        """
        out = out_layout or layout
        first, second = paired_columns(layout, pairs, parts)
        out_first, out_second = paired_columns(out, pairs, parts)
        return cls(first, second, out_first, out_second, layout, out)

    @classmethod
    def likely(cls, right: Layout, pairs: int, head: int, parts: int) -> list[ColumnPairing]:
        """The pairings of a head's columns that code is likely to have, the right layout's first.

        Of a head that rotates in part, those are wrong that rotate all of it, its last columns, or
        pairs half a head apart.
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
            pairings.append(_both_ways([left + j for j in first], [left + j for j in second]))
        apart = head // 2
        if apart >= pairs:
            pairings.append(_both_ways(list(range(pairs)), [apart + j for j in range(pairs)]))
        if head % 2 == 0:
            pairings += [cls.named(layout, head // 2) for layout in layouts]
        return pairings

    @classmethod
    def of_first_columns(cls, turning: int, pairs: int) -> ColumnPairing:
        """Pairs that rotate as halves of the first columns, where only the first so many rotate.

        >>> ColumnPairing.of_first_columns(2, 4).second
        (2, 3, 5, 7)
        """
        first, second = paired_columns("half", turning)
        return _both_ways(
            [*first, *range(2 * turning, 2 * pairs, 2)],
            [*second, *range(2 * turning + 1, 2 * pairs, 2)],
        )

    def others(self, width: int) -> tuple[int, ...]:
        """Of so many columns those that no pair has."""
        return tuple(sorted(set(range(width)) - set(self.first) - set(self.second)))

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.first)

    @property
    def text(self) -> str:
        """The pairing, as messages show it.

        >>> ColumnPairing.named("half", 32).text
        'i and i + 32'
        >>> _both_ways([0, 1], [3, 2]).text
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


def _both_ways(first: list[int], second: list[int]) -> ColumnPairing:
    return ColumnPairing(tuple(first), tuple(second), tuple(first), tuple(second), None, None)


class SubjectBlock(Record):
    """What a subject does at some positions.

    ``turned`` is z and ``mirrored`` is w (None: 0), both (n, pairs); ``rest`` (n,) bounds all else
    (None: 0), of which ``passed`` (n,) is what happens to the columns that no pair has (None: 0).
    ``seen`` (n, pairs) says which pairs could be observed (None: all). ``twist`` is x̄/x
    of the one vector that was observed, where it was but one: then ``turned`` is z + w·x̄/x.
    """

    positions: Integers
    turned: ComplexRows
    mirrored: ComplexRows | None = None
    rest: Reals | None = None
    passed: Reals | None = None
    seen: Flags | None = None
    twist: ComplexRows | None = None

    def stray(self) -> RealRows | None:
        """The norm of all that is no turn of a pair: |w| plus the rest; None where it is 0.

        Shape: (n, pairs) or (n, 1).
        """
        stray = None if self.mirrored is None else np.abs(self.mirrored)
        if self.rest is None:
            return stray
        rest = self.rest[:, None]
        return rest if stray is None else stray + rest

    def without_passed(self) -> SubjectBlock:
        """The same, but for what happens to the columns that no pair has."""
        if self.rest is None or self.passed is None:
            return self
        return replace(self, rest=np.maximum(self.rest - self.passed, 0), passed=None)


class Turning(Record):
    """The map of a subject at positions, read as turns of dimension pairs.

    ``read(rows)`` gives any rows of it; nothing larger is ever held. ``dtype`` names the number
    format its values are stored in, and ``roundings`` counts how often correct code rounds to it.
    """

    places: PositionRows
    pairs: int
    dtype: str
    roundings: int
    pairing: ColumnPairing | None
    read: Callable[[SomeRows], SubjectBlock]

    def blocks(self, progress: Progress | None = None) -> Iterator[SubjectBlock]:
        """All of it, in order; ``progress`` is told how many rows were read, and of how many."""
        np.empty(RETAINED, np.uint8)
        for rows in self.places.row_blocks(max(ROWS // 8, min(ROWS, BLOCK_PAIRS // self.pairs))):
            yield self.read(rows)
            if progress is not None:
                progress(rows.stop, self.places.count)


class PositionRows(Record):
    """Positions by row, any of them at no cost.

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
        """The rows of ``positions``, one after another."""
        counts = [len(indices) for indices in positions.ranges]
        return cls(
            positions,
            np.array([indices.start for indices in positions.ranges], np.int64),
            np.array([indices.step for indices in positions.ranges], np.int64),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.rows[-1])

    def row_blocks(self, size: int = ROWS) -> Iterator[slice]:
        """All rows in order, ``size`` at a time."""
        for start in range(0, self.count, size):
            yield slice(start, min(start + size, self.count))

    def at(self, rows: SomeRows) -> Integers:
        """The positions of some rows."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.count), dtype=np.int64)
        ranges = np.searchsorted(self.rows, rows, side="right") - 1
        return self.starts[ranges] + self.steps[ranges] * (rows - self.rows[ranges])

    def sample(self, limit: int = 768) -> Integers:
        """Rows that show a subject well: the first, some at every scale, and the last.

        Rows around powers of two are where number formats run out of integers.
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
        """A sample with these rows and their neighbours: what is wrong there may begin there."""
        near = [row + np.arange(-_NEAR, _NEAR + 1) for row in rows]
        sampled = np.unique(np.concatenate([self.sample(), *near]))
        return sampled[(sampled >= 0) & (sampled < self.count)]
