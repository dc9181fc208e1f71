"""The scores that bias schemes add to attention, head by head and block of rows by block of rows.

A score depends on the offset j − i, or on the key alone. So a head needs one value for each offset
that occurs, and its matrix is those values laid out again and again.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encode.arrays import in_arithmetic, position_array, position_blocks, rows_a_block
from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.rounding import round_exact
from posenc_cli.schemes.declare import Bias, BucketBias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.precision import Precision
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.positions import Positions
    from posenc_cli.schemes.declare import RowLookup

    Scores = Callable[[NDArray[np.int64]], NDArray[Any]]

_EXACT_VALUES = 1 << 12
"""Exact values held at a time: each costs a few hundred bytes."""

_BOUNDED_VALUES = 1 << 13
"""Bounded numbers computed with at a time: few enough for the cache."""

_PROFILES_KEPT = 64
"""Pieces of what all heads share that are kept from head to head."""


def score_blocks(
    content: Bias | BucketBias,
    heads: range,
    positions: Positions,
    table: RowLookup | None,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[NDArray[Any]]:
    """The (L, L) scores of some heads, queries by keys, as blocks of whole rows."""
    compute = scores_by_index(content, table, precision=precision, engine=engine)
    for head in heads:
        scores = partial(compute, head)
        if isinstance(content, Bias) and content.by == "key":
            yield from _repeated(scores, positions)
        elif len(positions.ranges) == 1:
            yield from _slid(scores, positions)
        else:
            yield from _gathered(scores, positions)


def scores_by_index(
    content: Bias | BucketBias, table: RowLookup | None, *, precision: Precision, engine: Engine
) -> Callable[[int, NDArray[np.int64]], NDArray[Any]]:
    """The scores of a head at some offsets j − i, or keys: head and indices (n,) → (n,)."""
    if isinstance(content, Bias):
        return _formula_scores(content, precision, engine)
    return _table_scores(content, table, precision, engine)


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
    content: BucketBias, table: RowLookup | None, precision: Precision, engine: Engine
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
        exactly = _ExactScores(content, precision.rounded)
        return lambda head, indices: precision.stored_as(exactly(head, indices))

    from posenc_cli.backends.numpy import Rounding

    rounded = Rounding(engine.arithmetic)
    coefficients = content.coefficients(rounded.namespace)
    if isinstance(coefficients, tuple):
        coefficients = tuple(map(rounded, coefficients))
    else:
        coefficients = rounded(coefficients)

    @lru_cache(maxsize=1)
    def profile(indices: bytes) -> NDArray[Any]:
        """What all heads share of some indices."""
        values = rounded(np.frombuffer(indices, dtype=np.int64))
        return rounded(content.profile(rounded.namespace, values)) if content.profile else values

    def as_frameworks_do(head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            values = profile(indices.tobytes())
            scores = content.scores(rounded.namespace, _of_head(coefficients, head), values)
            return _checked(precision.narrow(rounded(scores).astype(np.float64)), indices)

    return as_frameworks_do


class _ExactScores:
    """Scores by formula, correctly rounded: head and indices → (n,), in the storage of a format.

    Numbers with a bound of their error prove nearly all of them; the others are computed again in
    60-digit reals, and so are all where a formula needs what bounded numbers lack.
    """

    def __init__(self, content: Bias, dtype: DType) -> None:
        self._content = content
        self._dtype = dtype
        self._coefficients = content.coefficients(exact)
        self._profile = lru_cache(maxsize=_PROFILES_KEPT)(self._bounded_profile)

    def __call__(self, head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
        coefficient = _of_head(self._coefficients, head)
        pieces = [
            self._piece(coefficient, indices[i : i + _BOUNDED_VALUES])
            for i in range(0, len(indices), _BOUNDED_VALUES)
        ]
        return np.concatenate(pieces)

    def _piece(self, coefficient: Any, indices: NDArray[np.int64]) -> NDArray[Any]:
        values, proven = self._proven(coefficient, indices)
        pending = np.flatnonzero(~proven)
        for start in range(0, pending.size, _EXACT_VALUES):
            some = pending[start : start + _EXACT_VALUES]
            values[some] = _checked(self._settled(coefficient, indices[some]), some)
        return values

    def _proven(
        self, coefficient: Any, indices: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The scores from bounded numbers, and which of them those prove."""
        with np.errstate(all="ignore"):
            try:
                profile = self._profile(indices.tobytes())
                scores = self._content.scores(bounded, coefficient, profile)
                if scores.shape == indices.shape:
                    return scores.rounded(self._dtype)  # type: ignore[no-any-return]
            except Exception:
                pass  # exact numbers tell what is wrong, if anything is
        return np.empty(indices.shape, self._dtype.numpy), np.zeros(indices.shape, np.bool_)

    def _bounded_profile(self, indices: bytes) -> Any:
        values = bounded.asarray(np.frombuffer(indices, dtype=np.int64))
        return self._content.profile(bounded, values) if self._content.profile else values

    def _settled(self, coefficient: Any, indices: NDArray[np.int64]) -> NDArray[Any]:
        values = exact.asarray(indices.tolist())
        if self._content.profile:
            values = self._content.profile(exact, values)
        return round_exact(list(self._content.scores(exact, coefficient, values)), self._dtype)


def _of_head(coefficients: Any, head: int) -> Any:
    if isinstance(coefficients, tuple):
        return tuple(each[head] for each in coefficients)
    return coefficients[head]


def _checked(scores: NDArray[Any], indices: NDArray[np.int64]) -> NDArray[Any]:
    if scores.shape != indices.shape:
        raise ValueError(f"{scores.shape} scores for {indices.shape} indices")
    return scores
