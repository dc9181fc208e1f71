"""Blocks of rows, computed one after another or a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encode.arrays import in_arithmetic, position_blocks, rows_a_block
from posenc_cli.encode.fillers import wave_filler
from posenc_cli.numerics import exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.precision import Precision
    from posenc_cli.numerics.placements import Placement
    from posenc_cli.positions import Positions
    from posenc_cli.schemes.declare import RowLookup, Rows, Waves


def wave_blocks(
    waves: Waves,
    positions: Positions,
    placements: tuple[Placement, ...],
    *,
    width: int,
    precision: Precision,
    engine: Engine,
) -> Iterator[NDArray[Any]]:
    """Blocks of rows of ``width`` columns, each a cosine or sine of one of ``waves``."""
    # A width of one column, padded with zeros, has no wave.
    filler = wave_filler(waves, engine) if waves.count else None
    rounded = precision.rounded

    def block(some: NDArray[np.int64]) -> NDArray[Any]:
        shape = some.shape[0], width
        if filler is None:
            return precision.stored_as(np.zeros(shape, dtype=rounded.numpy))
        out = np.empty(shape, dtype=rounded.numpy)
        filler.fill(out, some, placements, dtype=rounded)
        return precision.stored_as(out)

    rows = rows_a_block(width, getattr(engine.backend, "block_values", None))
    yield from engine.in_order(block, position_blocks(positions, rows))


def frequency_blocks(
    waves: Waves, *, precision: Precision, engine: Engine
) -> Iterator[NDArray[Any]]:
    """The frequencies, in radians per position, as one block."""
    if engine.arithmetic == "exact":
        yield precision.exact(list(waves.frequencies(exact)))
    else:
        backend, arithmetic = engine.backend, engine.arithmetic
        yield precision.narrow(
            backend.frequencies(waves.frequencies, arithmetic=arithmetic, device=engine.device)
        )


def angle_blocks(
    waves: Waves, positions: Positions, *, precision: Precision, engine: Engine
) -> Iterator[NDArray[Any]]:
    """Blocks of angles in radians, reduced to (−π, π]."""
    filler = wave_filler(waves, engine)

    def block(some: NDArray[np.int64]) -> NDArray[Any]:
        return precision.stored_as(filler.angles(some, dtype=precision.rounded))

    yield from engine.in_order(block, _position_blocks(positions, waves.count))


def row_blocks(
    content: Rows,
    positions: Positions,
    table: RowLookup | None,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[NDArray[Any]]:
    """Blocks of rows by formula, which NumPy computes on every engine."""
    arithmetic = engine.arithmetic
    if content.positions == "indices":
        arithmetic = "exact"

    def block(some: NDArray[np.int64]) -> NDArray[Any]:
        values = content.rows(np, in_arithmetic(some, arithmetic), table)
        high, low = values if isinstance(values, tuple) else (values, None)
        if high.shape != (some.shape[0], content.width):
            raise ValueError(f"rows of shape {high.shape} for {some.shape[0]} positions")
        if engine.arithmetic != "exact":
            high, low = in_arithmetic(high, engine.arithmetic), None
        return np.ascontiguousarray(precision.narrow(high, low))

    yield from engine.in_order(block, _position_blocks(positions, content.width))


def _position_blocks(positions: Positions, width: int) -> Iterator[NDArray[np.int64]]:
    return position_blocks(positions, rows_a_block(width))
