"""The scores that bias schemes add to one head's attention, block of rows by block of rows.

A score depends on the offset j − i, or on the key alone. So a head needs one value for each offset
that occurs, and its matrix is those values laid out again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encode.arrays import position_array, position_blocks
from posenc_cli.numerics import exact
from posenc_cli.schemes.declare import Bias, BucketBias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.encode.precision import Precision
    from posenc_cli.positions import Positions
    from posenc_cli.schemes.declare import Table

BLOCK_VALUES = 1 << 18
_EXACT_VALUES = 1 << 12
"""Exact values held at a time: each costs a few hundred bytes."""


def score_blocks(
    content: Bias | BucketBias,
    head: int,
    positions: Positions,
    table: Table | None,
    precision: Precision,
) -> Iterator[NDArray[Any]]:
    """The (L, L) scores of one head, queries by keys, as blocks of whole rows."""
    count = positions.count
    rows = max(1, BLOCK_VALUES // count)
    if isinstance(content, Bias) and content.by == "key":
        row = _values(content, head, position_array(positions), table, precision)
        for begin in range(0, count, rows):
            yield np.ascontiguousarray(np.broadcast_to(row, (min(rows, count - begin), count)))
    elif len(positions.ranges) == 1:
        step = positions.ranges[0].step
        offsets = np.arange(1 - count, count, dtype=np.int64) * step
        profile = _values(content, head, offsets, table, precision)
        # Row i holds the offsets from −i on: a window that slides towards the left.
        windows = np.lib.stride_tricks.sliding_window_view(profile, count)[::-1]
        for begin in range(0, count, rows):
            yield np.ascontiguousarray(windows[begin : begin + rows])
    else:
        keys = position_array(positions)
        for queries in position_blocks(positions, rows):
            offsets, where = np.unique(keys[None, :] - queries[:, None], return_inverse=True)
            values = _values(content, head, offsets, table, precision)
            yield values[where.reshape(queries.shape[0], count)]


def _values(
    content: Bias | BucketBias,
    head: int,
    indices: NDArray[np.int64],
    table: Table | None,
    precision: Precision,
) -> NDArray[Any]:
    """The scores at the given offsets or keys, rounded and stored."""
    if isinstance(content, BucketBias):
        assert table is not None
        return precision.narrow(table(content.bucket(np, indices))[:, head])
    pieces = [
        precision.exact(
            content.scores(exact, head, exact.asarray(indices[i : i + _EXACT_VALUES].tolist()))
        )
        for i in range(0, len(indices), _EXACT_VALUES)
    ]
    return np.concatenate(pieces)
