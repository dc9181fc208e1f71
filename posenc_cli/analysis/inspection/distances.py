"""Measure distances between rows: the nearest two, and equal ones.

The nearest two of n rows are found among all n (n − 1) / 2 pairs, if that takes a few seconds. A
matrix product gives every squared distance up to a rounding error of at most (d + 8) · 2^−53 · (‖a‖
+ ‖b‖)². The pairs within that error of the smallest are subtracted column by column. With more
rows, each row is only compared with the nearest rows before it, and the result is marked as a
sample.

If each wave has a sine and a cosine, all rows at an offset Δ are equally far apart: √(4 Σ w_i
scale² sin²(Δω_i / 2)). Offsets then stand for all pairs.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.placements import Placement
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from posenc_cli.analysis.products import MatrixRows
    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals, StoredRows

MOST_PRODUCTS = 1 << 32
"""Multiplications that the search among all pairs may take: a few seconds."""

NEIGHBOURS = 16
"""Number of earlier rows that each row is compared with, if all would be too many."""

_BLOCK_ROWS = 512
_BLOCK_VALUES = 1 << 17
_PAIRS = 1 << 14  # subtracted at a time
_LEAST_WIDTH = 64  # a product of narrower rows takes as long
_UNIT = 2.0**-53


class NearestRows(Record):
    """The smallest distance of two rows, and their numbers; ``sampled`` if not all were compared.

    Equal rows are always found.
    """

    distance: float
    pair: tuple[int, int]
    sampled: bool = False


class DistinctRows(Record):
    """The number of rows that differ from all before them, and the first repeated row.

    ``first`` is the pair of the earlier row and its first repetition, or None.
    """

    count: int
    first: tuple[int, int] | None


def nearest_waves(
    waves: Waves, weights: Reals, *, count: int, step: int, engine: Engine
) -> NearestRows:
    """Return the nearest two of ``count`` rows at positions ``step`` apart.

    Each wave counts ``weights`` times. The waves follow only the position and do not grow.
    """
    frequencies = waves.frequencies

    def halves(xp: Any) -> Any:
        return frequencies(xp) / 2

    filler = wave_filler(replace(waves, scale=1, frequencies=halves), engine)
    columns = (Placement("sin", slice(0, waves.count)),)
    factors = 4 * weights * float(waves.scale) ** 2
    least, offset = np.inf, 1
    rows = max(1, _BLOCK_VALUES // max(1, waves.count))
    for begin in range(1, count, rows):
        offsets = np.arange(begin, min(begin + rows, count), dtype=np.int64)
        table = np.empty((offsets.size, waves.count))
        filler.fill(table, offsets * step, columns, dtype=FLOAT64)
        squares = (np.square(table) * factors).sum(axis=1)  # (offsets,)
        place = int(np.argmin(squares))
        if squares[place] < least:
            least, offset = float(squares[place]), int(offsets[place])
    return NearestRows(float(np.sqrt(least)), (0, offset))


def nearest_rows(rows: MatrixRows) -> NearestRows:
    """Return the nearest two of at least two rows.

    >>> from posenc_cli.analysis.products import MatrixRows
    >>> nearest_rows(MatrixRows.of(np.array([[0.0, 3.0], [4.0, 0.0], [4.0, 1.0]])))
    NearestRows(distance=1.0, pair=(1, 2), sampled=False)
    """
    rows = rows.in_memory()
    values = rows.read(range(rows.count))  # (rows, width)
    same = distinct_rows(_pieces(values), rows.count)
    if same.first is not None:
        return NearestRows(0.0, same.first)
    if rows.count**2 // 2 * max(_LEAST_WIDTH, rows.width) > MOST_PRODUCTS:
        return _nearest_neighbours(values)
    largest = max(float(np.abs(piece).max(initial=0)) for piece in _pieces(values))
    # Scaled so that squares neither overflow nor underflow; a power of two is exact.
    power = -math.frexp(largest)[1]
    centred = np.ldexp(values, power)
    centred -= centred.mean(axis=0)
    squares = np.square(centred).sum(axis=1)  # (rows,)
    slack = (rows.width + 8) * _UNIT * 4 * float(squares.max())
    best, pair = np.inf, (0, 1)
    for begin in range(0, rows.count, _BLOCK_ROWS):
        end = min(begin + _BLOCK_ROWS, rows.count)
        squared = centred[begin:end] @ centred[:end].T  # (block, rows up to its last)
        squared *= -2
        squared += squares[:end]
        squared += squares[begin:end, None]
        squared[:, begin:][np.triu_indices(end - begin)] = np.inf
        limit = min(math.ldexp(best, power) ** 2, float(squared.min(initial=np.inf))) + slack
        later, earlier = np.nonzero(squared <= limit)
        for start in range(0, later.size, _PAIRS):
            part = slice(start, start + _PAIRS)
            best, pair = _nearer(values, earlier[part], later[part] + begin, best, pair)
    return NearestRows(best, pair)


def _pieces(values: RealRows) -> Iterator[RealRows]:
    """Return the rows in blocks, so that no copy of all of them is made."""
    step = max(1, _BLOCK_VALUES // max(1, values.shape[1]))
    return (values[begin : begin + step] for begin in range(0, len(values), step))


def _nearer(
    values: RealRows, first: Integers, second: Integers, best: float, pair: tuple[int, int]
) -> tuple[float, tuple[int, int]]:
    """Return the smallest distance of some pairs of different rows, or ``best``, and its pair."""
    difference = values[first] - values[second]
    sizes = np.abs(difference).max(axis=1)
    lengths = sizes * np.sqrt(np.square(difference / sizes[:, None]).sum(axis=1))
    place = int(np.argmin(lengths))
    if lengths[place] < best:
        return float(lengths[place]), (int(first[place]), int(second[place]))
    return best, pair


def _nearest_neighbours(values: RealRows) -> NearestRows:
    best, pair = np.inf, (0, 1)
    for gap in range(1, NEIGHBOURS + 1):
        for begin in range(gap, len(values), _PAIRS):
            later = np.arange(begin, min(begin + _PAIRS, len(values)))
            best, pair = _nearer(values, later - gap, later, best, pair)
    return NearestRows(best, pair, sampled=True)


def distinct_rows(blocks: Iterable[StoredRows], count: int) -> DistinctRows:
    """Count the rows, of ``count``, that differ from all before them, entry by entry; −0 equals 0.

    >>> distinct_rows([np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]])], 3)
    DistinctRows(count=2, first=(0, 2))
    """
    held: StoredRows | None = None
    done = 0
    for block in blocks:
        bits = _comparable_bits(block)
        if held is None:
            held = np.empty((count, bits.shape[1]), bits.dtype)
        held[done : done + len(bits)] = bits
        done += len(bits)
    assert held is not None
    order = _grouping(held)
    same = _equal_to_next(held, order)
    if not same.any():
        return DistinctRows(count, None)
    # Within a group rows ascend, so the second one is the group's first repetition.
    seconds = order[1:][same]
    place = int(np.flatnonzero(same)[np.argmin(seconds)])
    return DistinctRows(count - int(same.sum()), (int(order[place]), int(order[place + 1])))


def _comparable_bits(block: StoredRows) -> StoredRows:
    """Return the bits of entries, with those of 0 for −0."""
    unsigned = np.dtype(f"u{block.dtype.itemsize}")
    bits = np.ascontiguousarray(block).view(unsigned)
    negative_zero = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    return np.where(bits == negative_zero, unsigned.type(0), bits)


def _grouping(held: StoredRows) -> Integers:
    """Return an order in which equal rows follow one another, each group in ascending order."""
    hashes = np.zeros(len(held), np.uint64)
    step = max(1, _BLOCK_VALUES // max(1, held.shape[1]))
    with np.errstate(over="ignore"):
        # Powers of an odd number: importing numpy.random takes as long as all the rest.
        factors = np.full(held.shape[1], 0x9E3779B97F4A7C15, np.uint64).cumprod(dtype=np.uint64)
        for begin in range(0, len(held), step):
            cells = held[begin : begin + step].astype(np.uint64)
            cells = (cells + np.uint64(1)) * factors
            hashes[begin : begin + step] = (cells ^ (cells >> np.uint64(29))).sum(axis=1)
    order: Integers = np.argsort(hashes, kind="stable")
    alike = hashes[order[1:]] == hashes[order[:-1]]
    if np.array_equal(alike, _equal_to_next(held, order)):
        return order
    # Different rows share a hash, so sort by all entries, which takes longer.
    return np.lexsort(held.T[::-1])


def _equal_to_next(held: StoredRows, order: Integers) -> Any:
    """Return whether each row equals the next one in an order. Shape: (rows − 1,)."""
    same = np.empty(max(0, len(order) - 1), np.bool_)
    step = max(1, _BLOCK_VALUES // max(1, held.shape[1]))
    for begin in range(0, same.size, step):
        end = min(begin + step, same.size)
        here, following = held[order[begin:end]], held[order[begin + 1 : end + 1]]
        same[begin:end] = (here == following).all(axis=1)
    return same
