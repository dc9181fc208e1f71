"""The tables of rotary schemes: their names, and which columns hold which waves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Literal

from posenc_cli.numerics.placements import Function, Placement
from posenc_cli.records import Record

Layout = Literal["interleaved", "half"]
"""Which dimensions of a head rotate together: 2i and 2i + 1, or i and i + d/2."""

ROTARY_TABLES: Mapping[str, str] = {
    "cos-sin": "(L, d): cos of each pair, then sin of each pair (default)",
    "interleaved": "(L, d): cos0 sin0 cos1 sin1 …",
    "cos": "(L, d/2)",
    "sin": "(L, d/2)",
    "cos-full": "(L, d): each cos twice, at both dimensions of its pair",
    "sin-full": "(L, d): each sin twice, at both dimensions of its pair",
    "complex": "(L, d/2): cos + i·sin",
    "angles": "(L, d/2): radians, reduced to (−π, π]",
    "inv-freq": "(d/2,): frequencies in radians per position; needs no positions",
}


def paired_columns(
    layout: Layout, pairs: int, parts: int = 1
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and the second dimension of each pair.

    >>> paired_columns("half", 4, parts=2)
    ((0, 1, 4, 5), (2, 3, 6, 7))
    """
    if layout == "interleaved":
        return tuple(range(0, 2 * pairs, 2)), tuple(range(1, 2 * pairs, 2))
    count = pairs // parts
    first = tuple(2 * count * part + i for part in range(parts) for i in range(count))
    return first, tuple(column + count for column in first)


class PlacedColumns(Record):
    """The columns of a table: how many there are, and which of them hold waves."""

    width: int
    placements: tuple[Placement, ...] = ()

    @cached_property
    def full(self) -> bool:
        """Whether every column holds waves."""
        return self.width == sum(len(range(self.width)[part.columns]) for part in self.placements)


@lru_cache(maxsize=64)
def rotary_columns(
    table: str, pairs: int, layout: Layout = "interleaved", blocks: int = 1
) -> PlacedColumns:
    """Return the columns of a rotary table; a complex one alternates real and imaginary parts."""
    if table in ("angles", "inv-freq"):
        return PlacedColumns(pairs)
    placements = rotary_placements(
        "interleaved" if table == "complex" else table, pairs, layout, blocks
    )
    return PlacedColumns(pairs if table in ("cos", "sin") else 2 * pairs, placements)


def rotary_placements(
    table: str, pairs: int, layout: Layout = "interleaved", blocks: int = 1
) -> tuple[Placement, ...]:
    """Return which columns of a rotary table hold which function of which pairs.

    The layout pairs dimensions within each of ``blocks`` equal parts.
    """
    halves = slice(0, pairs), slice(pairs, 2 * pairs)
    alternate = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    function: Function = "sin" if table.startswith("sin") else "cos"
    if table in ("cos", "sin"):
        return (Placement(function, slice(0, pairs)),)
    if table in ("cos-full", "sin-full"):
        if layout == "interleaved":
            return Placement(function, alternate[0]), Placement(function, alternate[1])
        count = pairs // blocks
        found: list[Placement] = []
        for start in range(0, pairs, count):
            waves = slice(start, start + count)
            found += [
                Placement(function, slice(first, first + count), waves)
                for first in (2 * start, 2 * start + count)
            ]
        return tuple(found)
    columns = alternate if table == "interleaved" else halves
    return Placement("cos", columns[0]), Placement("sin", columns[1])
