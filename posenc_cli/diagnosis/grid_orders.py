"""Tokens of a grid that are counted in another order: by columns, with H for W, or in blocks.

Each order gives the place of every token on the grid; it is a cause only if the rotations of these
places reproduce every cell. Such orders are public bugs: rows and columns exchanged
(huggingface/pytorch-image-models#2541, Meituan-AutoML/VisionLLaMA#4), and patches in the 2×2 blocks
that a merger reads taken for patches row by row (vllm-project/vllm#52932, lablup/mlxcel#1610).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import few_rows
from posenc_cli.diagnosis.wording import either, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import MOST, Explanation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows

_BLOCK = 2
"""Side of the blocks that patches come in: the ``spatial_merge_size`` of Qwen2-VL and others."""


class GridOrder(Record):
    """A rule by which token p stands at a place of a grid: in words, and as a function.

    ``places(p)`` → the place on each axis, (n,) each.
    """

    cause: Cause
    message: str
    places: Callable[[Integers], tuple[Integers, ...]]


class _CountedGrid(Record):
    """A grid of so many places on each axis, with the coordinate of its first, and the steps."""

    sizes: tuple[int, ...]
    origins: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def of(cls, reference: Reference) -> _CountedGrid | None:
        """The grid on which a reference has its tokens in row-major order, None where on none."""
        coordinates = reference.coordinates
        sizes = reference.params.get("grid")
        if coordinates is None or coordinates.at is None or coordinates.oblique or not sizes:
            return None
        if not 2 <= len(sizes) <= 3 or min(sizes) < 2:
            return None
        sizes = tuple(int(size) for size in sizes)
        count = math.prod(sizes)
        if coordinates.capacity is None or coordinates.capacity.positions != count:
            return None  # they come from a file
        every = np.arange(count)
        at = coordinates.at(every)
        places = np.unravel_index(every, sizes)
        if len(at) != len(sizes):
            return None
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        origins = tuple(int(along[0]) for along in at)
        steps = tuple(
            int(along[stride]) - origin
            for along, stride, origin in zip(at, strides, origins, strict=True)
        )
        straight = all(
            np.array_equal(along, origin + step * place)
            for along, origin, step, place in zip(at, origins, steps, places, strict=True)
        )
        return cls(sizes, origins, steps) if straight else None


def grid_cause(suspect: Suspect) -> Explanation | None:
    """The cause where the tokens of a grid are turned as those of other places."""
    sample = suspect.sample
    grid = _CountedGrid.of(sample.reference)
    if grid is None or sample.positions.min(initial=0) < 0:
        return None
    few = sample.rows(few_rows(sample.positions))
    causes: list[Explanation] = []
    tables: list[bytes] = []
    for order in _orders(grid):
        # What puts all tokens where another rule has them says nothing else.
        table = np.stack(order.places(np.arange(math.prod(grid.sizes)))).tobytes()
        if table in tables:
            continue
        if not all(_missed(part, grid, order)[1].all() for part in (few, sample)):
            continue
        residual = Residual.measure(
            (piece.positions, *_missed(piece, grid, order)) for _, piece in suspect.whole.pieces()
        )
        if residual.whole:
            tables.append(table)
            causes.append(with_residual(Explanation(order.cause, order.message, ""), residual))
        if len(causes) == MOST:
            break
    return either(causes[:1], causes[1:])[0] if causes else None


def _missed(piece: Sample, grid: _CountedGrid, order: GridOrder) -> tuple[RealRows, Flags]:
    """By how much cells are missed with tokens in an order, and which are explained."""
    coordinates = piece.reference.coordinates
    assert coordinates is not None
    places = order.places(piece.positions)
    along = np.stack(
        [
            origin + step * place
            for origin, step, place in zip(grid.origins, grid.steps, places, strict=True)
        ],
        axis=1,
    )[:, list(coordinates.axes)]  # (n, pairs)
    rates = piece.reference.frequencies
    factors = np.asarray(piece.amplitude * np.exp(1j * along * rates), np.complex128)
    missed = np.where(piece.seen, np.abs(piece.factors - factors) + piece.stray, 0.0)
    return missed, piece.explained_cells(factors, rates, along)


def _orders(grid: _CountedGrid) -> Iterator[GridOrder]:
    """Orders that tokens may be counted in, the plainest first."""
    yield from _other_axes_first(grid.sizes)
    if len(grid.sizes) == 2:
        yield from _rows_for_columns(grid.sizes)
        yield from _in_blocks(grid.sizes)


def _other_axes_first(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Tokens that run along another axis first: column by column."""
    plain = tuple(range(len(sizes)))
    text = "×".join(map(str, sizes))
    for order in itertools.permutations(plain):
        if order == plain:
            continue

        def places(p: Integers, order: tuple[int, ...] = order) -> tuple[Integers, ...]:
            count = math.prod(sizes)
            along = np.unravel_index(p % count, [sizes[axis] for axis in order])
            return tuple(along[order.index(axis)] for axis in plain)

        how = "column by column, not row by row"
        if len(sizes) > 2:
            how = f"along axis {order[-1]} first, then {', then '.join(map(str, order[-2::-1]))}"
        message = f"tokens of the grid of {text} are counted {how}"
        yield GridOrder(Cause.POSITION_OFFSET, message, places)


def _rows_for_columns(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Rows that are taken to be as long as there are rows."""
    rows, columns = sizes
    if rows != columns:
        message = f"rows of the grid are taken to have {rows} places, not {columns}"
        yield GridOrder(Cause.POSITION_OFFSET, message, lambda p: (p // rows, p % rows))


def _in_blocks(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Tokens that come in square blocks, as patches that are merged do."""
    rows, columns = sizes
    side = _BLOCK
    if rows % side or columns % side:
        return

    def places(p: Integers) -> tuple[Integers, ...]:
        down, across, y, x = np.unravel_index(
            p % (rows * columns), (rows // side, columns // side, side, side)
        )
        return down * side + y, across * side + x

    message = f"tokens come in blocks of {side}×{side} places, as patches that are merged do"
    yield GridOrder(Cause.POSITION_OFFSET, message, places)
