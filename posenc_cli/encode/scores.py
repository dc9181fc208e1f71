"""The scores that bias schemes add to attention, head by head and block of rows by block of rows.

A score depends on the offset j − i, or on the key alone. So a head needs one value for each offset
that occurs, and its matrix is those values laid out again and again.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encode.arrays import in_arithmetic, position_array, position_blocks, rows_a_block
from posenc_cli.numerics import exact
from posenc_cli.schemes.declare import Bias, BucketBias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.precision import Precision
    from posenc_cli.positions import Positions
    from posenc_cli.schemes.declare import Table

    Scores = Callable[[NDArray[np.int64]], NDArray[Any]]

_EXACT_VALUES = 1 << 12
"""Exact values held at a time: each costs a few hundred bytes."""


def score_blocks(
    content: Bias | BucketBias,
    heads: range,
    positions: Positions,
    table: Table | None,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[NDArray[Any]]:
    """The (L, L) scores of some heads, queries by keys, as blocks of whole rows."""
    if isinstance(content, Bias):
        compute = _formula_scores(content, precision, engine)
    else:
        compute = _table_scores(content, table, precision, engine)
    for head in heads:
        scores = partial(compute, head)
        if isinstance(content, Bias) and content.by == "key":
            yield from _repeated(scores, positions)
        elif len(positions.ranges) == 1:
            yield from _slid(scores, positions)
        else:
            yield from _gathered(scores, positions)


def _repeated(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """A matrix whose rows are all the same: a score a key."""
    count = positions.count
    row = scores(position_array(positions))
    rows = rows_a_block(count)
    for begin in range(0, count, rows):
        yield np.ascontiguousarray(np.broadcast_to(row, (min(rows, count - begin), count)))


def _slid(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """A matrix of evenly spaced positions: row i holds the scores of the offsets from −i on."""
    count = positions.count
    offsets = np.arange(1 - count, count, dtype=np.int64) * positions.ranges[0].step
    windows = np.lib.stride_tricks.sliding_window_view(scores(offsets), count)[::-1]
    rows = rows_a_block(count)
    for begin in range(0, count, rows):
        yield np.ascontiguousarray(windows[begin : begin + rows])


def _gathered(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """A matrix of any positions: the scores of the offsets that occur, where they occur."""
    keys = position_array(positions)
    for queries in position_blocks(positions, rows_a_block(len(keys))):
        offsets, where = np.unique(keys[None, :] - queries[:, None], return_inverse=True)
        yield scores(offsets)[where.reshape(len(queries), len(keys))]


def _table_scores(
    content: BucketBias, table: Table | None, precision: Precision, engine: Engine
) -> Callable[[int, NDArray[np.int64]], NDArray[Any]]:
    """Scores from a learned table: head and offsets → (n,), rounded and stored."""
    assert table is not None

    @lru_cache(maxsize=1)
    def of_buckets(buckets: bytes) -> NDArray[np.float64]:
        """The rows of some buckets: the same for each head of the same offsets."""
        rows: NDArray[np.float64] = table(np.frombuffer(buckets, dtype=np.int64))
        return rows

    def looked_up(head: int, offsets: NDArray[np.int64]) -> NDArray[Any]:
        buckets, where = np.unique(content.bucket(np, offsets), return_inverse=True)
        values = of_buckets(buckets.astype(np.int64).tobytes())[where, head]
        return precision.narrow(in_arithmetic(values, engine.arithmetic))

    return looked_up


def _formula_scores(
    content: Bias, precision: Precision, engine: Engine
) -> Callable[[int, NDArray[np.int64]], NDArray[Any]]:
    """Scores by formula: head and indices → (n,), rounded and stored."""
    if engine.arithmetic == "exact":
        exact_coefficients = content.coefficients(exact)

        def exactly(head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
            pieces = (
                exact.asarray(indices[i : i + _EXACT_VALUES].tolist())
                for i in range(0, len(indices), _EXACT_VALUES)
            )
            scores = [content.scores(exact, exact_coefficients[head], piece) for piece in pieces]
            return _checked(np.concatenate([*map(precision.exact, scores)]), indices)

        return exactly

    from posenc_cli.backends.numpy import Rounding

    rounded = Rounding(engine.arithmetic)
    coefficients = rounded(content.coefficients(rounded.namespace))

    def as_frameworks_do(head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
        scores = content.scores(rounded.namespace, coefficients[head], rounded(indices))
        return _checked(precision.narrow(rounded(scores).astype(np.float64)), indices)

    return as_frameworks_do


def _checked(scores: NDArray[Any], indices: NDArray[np.int64]) -> NDArray[Any]:
    if scores.shape != indices.shape:
        raise ValueError(f"{scores.shape} scores for {indices.shape} indices")
    return scores
