"""Tokens of a grid that are counted otherwise: its places in another order, or of another width.

Each rule says at which place of the grid a token is taken to stand. The rotation of that place is
then held against every cell.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.verdict import MOST, Explanation
from posenc_cli.checks.wording import either, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual
from posenc_cli.inference.defects import few_rows
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows

_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 256)
"""Lengths of a row that code may have as a number of its own."""

_BLOCKS = (2, 4)
"""Sides of the blocks in which patches may come, as those that are merged do."""

_TOKENS = (1, 2, 3, 4, 5, 8)
"""Tokens before those of the image: a class token, and registers."""


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
    """How tokens may be counted, the plainest first; none as they should be."""
    sizes = grid.sizes
    text = "×".join(map(str, sizes))
    yield from _other_axes_first(sizes, text)
    yield from _mirrored(sizes, text)
    yield from _late(sizes)
    if len(sizes) == 2:
        yield from _of_other_widths(sizes)
        yield from _in_blocks(sizes)
        rows, columns = sizes

        def there_and_back(p: Integers) -> tuple[Integers, ...]:
            y, x = np.unravel_index(p % (rows * columns), sizes)
            return y, np.where(y % 2, columns - 1 - x, x)

        message = "tokens are counted to and fro: every second row of the grid from its end"
        yield GridOrder(Cause.POSITION_OFFSET, message, there_and_back)


def _other_axes_first(sizes: tuple[int, ...], text: str) -> Iterator[GridOrder]:
    """Tokens that run along another axis first: column by column."""
    plain = tuple(range(len(sizes)))
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


def _mirrored(sizes: tuple[int, ...], text: str) -> Iterator[GridOrder]:
    """Axes along which places are counted from the end."""
    axes = range(len(sizes))
    for count in range(1, len(sizes) + 1):
        for turned in itertools.combinations(axes, count):

            def places(p: Integers, turned: tuple[int, ...] = turned) -> tuple[Integers, ...]:
                along = np.unravel_index(p % math.prod(sizes), sizes)
                return tuple(
                    size - 1 - place if axis in turned else place
                    for axis, (size, place) in enumerate(zip(sizes, along, strict=True))
                )

            named = f"ax{'i' if count == 1 else 'e'}s {', '.join(map(str, turned))}"
            message = f"places of the grid of {text} are counted from the end along {named}"
            yield GridOrder(Cause.POSITION_OFFSET, message, places)


def _late(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Tokens that stand where others do before or after them."""
    count = math.prod(sizes)
    for off in (number * sign for number in _TOKENS for sign in (-1, 1)):

        def places(p: Integers, off: int = off) -> tuple[Integers, ...]:
            return tuple(np.unravel_index(np.clip(p + off, 0, count - 1), sizes))

        side = "first" if off < 0 else "last"
        message = (
            f"tokens stand at the places of those {abs(off)} {'before' if off < 0 else 'after'} "
            f"them on the grid, the {side} ones at its {side}"
        )
        yield GridOrder(Cause.POSITION_OFFSET, message, places)


def _of_other_widths(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Rows of another length: the number of rows for that of columns, or a number of code."""
    rows, columns = sizes
    near = range(2, 2 * max(sizes) + 1)
    for width in dict.fromkeys((rows, columns, *near, *_WIDTHS)):

        def places(p: Integers, width: int = width) -> tuple[Integers, ...]:
            return p // width, p % width

        def exchanged(p: Integers, width: int = width) -> tuple[Integers, ...]:
            return p % width, p // width

        if width != columns:
            message = f"rows of the grid are taken to have {width} places, not {columns}"
            yield GridOrder(Cause.POSITION_OFFSET, message, places)
        if width not in (rows, columns):
            message = f"rows of {width} places for {columns}, and the two axes are exchanged"
            yield GridOrder(Cause.AXIS, message, exchanged)


def _in_blocks(sizes: tuple[int, ...]) -> Iterator[GridOrder]:
    """Tokens that come in square blocks, as patches do that are merged."""
    rows, columns = sizes
    for side in _BLOCKS:
        if rows % side or columns % side:
            continue

        def places(p: Integers, side: int = side) -> tuple[Integers, ...]:
            down, across, y, x = np.unravel_index(
                p % (rows * columns), (rows // side, columns // side, side, side)
            )
            return down * side + y, across * side + x

        message = f"tokens come in blocks of {side}×{side} places, as patches that are merged do"
        yield GridOrder(Cause.POSITION_OFFSET, message, places)
