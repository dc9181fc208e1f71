"""The scores that bias schemes add to attention, head by head and block of rows by block of rows.

A score depends on the offset j − i, or on the key alone. So a head needs one value for each offset
that occurs, and its matrix is those values laid out again and again.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encode.arrays import (
    BLOCK_VALUES,
    in_arithmetic,
    position_array,
    position_blocks,
    rows_a_block,
)
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
    from posenc_cli.schemes.declare import Table

    Scores = Callable[[NDArray[np.int64]], NDArray[Any]]
    """The scores of some heads at some indices. Shape: (n,) → (heads, n)."""

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
    table: Table | None,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[NDArray[Any]]:
    """The (L, L) scores of some heads, queries by keys, as blocks of whole rows."""
    compute = _scores_of_heads(content, table, precision=precision, engine=engine)
    count = _heads_at_a_time(positions.count)
    for first in range(0, len(heads), count):
        scores = partial(compute, heads[first : first + count])
        if isinstance(content, Bias) and content.by == "key":
            yield from _repeated(scores, positions)
        elif len(positions.ranges) == 1:
            yield from _slid(scores, positions)
        else:
            yield from _gathered(scores, positions)


def _heads_at_a_time(count: int) -> int:
    """How many heads of (count, count) scores are computed together: all that fit into a block."""
    return max(1, min(BLOCK_VALUES // count**2, _BOUNDED_VALUES // (2 * count)))


def scores_by_index(
    content: Bias | BucketBias, table: Table | None, *, precision: Precision, engine: Engine
) -> Callable[[int, NDArray[np.int64]], NDArray[Any]]:
    """The scores of a head at some offsets j − i, or keys: head and indices (n,) → (n,)."""
    compute = _scores_of_heads(content, table, precision=precision, engine=engine)

    def of_head(head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
        scores: NDArray[Any] = compute(range(head, head + 1), indices)[0]
        return scores

    return of_head


def _scores_of_heads(
    content: Bias | BucketBias, table: Table | None, *, precision: Precision, engine: Engine
) -> Callable[[range, NDArray[np.int64]], NDArray[Any]]:
    """Scores at some offsets j − i, or keys: heads and indices (n,) → (heads, n)."""
    if isinstance(content, Bias):
        return _formula_scores(content, precision, engine)
    return _table_scores(content, table, precision, engine)


def _repeated(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """Matrices whose rows are all the same: a score a key."""
    count = positions.count
    keys = scores(position_array(positions))[:, None]  # (heads, 1, L)
    rows = rows_a_block(count)
    for begin in range(0, count, rows):
        shape = len(keys), min(rows, count - begin), count
        yield np.ascontiguousarray(np.broadcast_to(keys, shape)).reshape(-1, count)


def _slid(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """Matrices of evenly spaced positions: row i holds the scores of the offsets from −i on."""
    count = positions.count
    offsets = np.arange(1 - count, count, dtype=np.int64) * positions.ranges[0].step
    windows = np.lib.stride_tricks.sliding_window_view(scores(offsets), count, axis=1)[:, ::-1]
    rows = rows_a_block(count)
    for begin in range(0, count, rows):
        yield np.ascontiguousarray(windows[:, begin : begin + rows]).reshape(-1, count)


def _gathered(scores: Scores, positions: Positions) -> Iterator[NDArray[Any]]:
    """Matrices of any positions: the scores of the offsets that occur, where they occur."""
    keys = position_array(positions)
    for queries in position_blocks(positions, rows_a_block(len(keys))):
        offsets, where = np.unique(keys[None, :] - queries[:, None], return_inverse=True)
        yield scores(offsets)[:, where.reshape(-1)].reshape(-1, len(keys))


def _table_scores(
    content: BucketBias, table: Table | None, precision: Precision, engine: Engine
) -> Callable[[range, NDArray[np.int64]], NDArray[Any]]:
    """Scores from a learned table: heads and offsets → (heads, n), rounded and stored."""
    assert table is not None

    @lru_cache(maxsize=1)
    def of_buckets(buckets: bytes) -> NDArray[np.float64]:
        """The rows of some buckets: the same for each head of the same offsets."""
        rows: NDArray[np.float64] = table(np.frombuffer(buckets, dtype=np.int64))
        return rows

    def looked_up(heads: range, offsets: NDArray[np.int64]) -> NDArray[Any]:
        buckets, where = np.unique(content.bucket(np, offsets), return_inverse=True)
        rows = of_buckets(buckets.astype(np.int64).tobytes())[:, heads.start : heads.stop]
        values = np.ascontiguousarray(rows[where].T)  # (heads, n)
        return precision.narrow(in_arithmetic(values, engine.arithmetic))

    return looked_up


def _formula_scores(
    content: Bias, precision: Precision, engine: Engine
) -> Callable[[range, NDArray[np.int64]], NDArray[Any]]:
    """Scores by formula: heads and indices → (heads, n), rounded and stored."""
    if engine.arithmetic == "exact":
        exactly = _ExactScores(content, precision.rounded)
        return lambda heads, indices: precision.stored_as(exactly(heads, indices))

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

    def of_head(head: int, indices: NDArray[np.int64]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            values = profile(indices.tobytes())
            scores = content.scores(rounded.namespace, _of_head(coefficients, head), values)
            return _checked(precision.narrow(rounded(scores).astype(np.float64)), indices)

    def as_frameworks_do(heads: range, indices: NDArray[np.int64]) -> NDArray[Any]:
        return np.stack([of_head(head, indices) for head in heads])

    return as_frameworks_do


class _ExactScores:
    """Scores by formula, correctly rounded: heads and indices → (heads, n), in a format's storage.

    Numbers with a bound of their error prove nearly all of them; the others are computed again in
    60-digit reals, and so are all where a formula needs what bounded numbers lack.
    """

    def __init__(self, content: Bias, dtype: DType) -> None:
        self._content = content
        self._dtype = dtype
        self._coefficients = content.coefficients(exact)
        self._profile = lru_cache(maxsize=_PROFILES_KEPT)(self._bounded_profile)

    def __call__(self, heads: range, indices: NDArray[np.int64]) -> NDArray[Any]:
        if len(heads) > 1:
            return self._of_heads(heads, indices)
        coefficient = _of_head(self._coefficients, heads[0])
        pieces = [
            self._piece(coefficient, indices[i : i + _BOUNDED_VALUES])
            for i in range(0, len(indices), _BOUNDED_VALUES)
        ]
        return np.concatenate(pieces)[None]

    def _of_heads(self, heads: range, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Several heads of a few indices, computed as one vector where the formula can be."""
        several = self._vector(heads)
        proven = None if several is None else self._proven(several, indices, len(heads))
        if proven is not None and not proven[1].any():
            proven = None  # the formula may take one number where it takes no vector
        scores = np.empty((len(heads), len(indices)), self._dtype.numpy)
        pending: NDArray[np.bool_] = np.ones(scores.shape, np.bool_)
        if proven is not None:
            scores, pending = proven[0].reshape(scores.shape), ~proven[1].reshape(scores.shape)
        for row in np.flatnonzero(pending.any(axis=1)):
            coefficient = _of_head(self._coefficients, heads[int(row)])
            left = np.flatnonzero(pending[row])
            if proven is None:
                scores[row] = self._piece(coefficient, indices)
            else:
                scores[row, left] = self._exactly(coefficient, indices[left])
        return scores

    def _vector(self, heads: range) -> Any:
        """The coefficients of heads as one vector (or several), None where they are no numbers."""
        parts = self._coefficients
        several = parts if isinstance(parts, tuple) else (parts,)
        chosen = [[part[head] for head in heads] for part in several]
        if not all(isinstance(each, Decimal) for part in chosen for each in part):
            return None
        vectors = tuple(bounded.numbers(part) for part in chosen)
        return vectors if isinstance(parts, tuple) else vectors[0]

    def _piece(self, coefficient: Any, indices: NDArray[np.int64]) -> NDArray[Any]:
        values, proven = self._proven(coefficient, indices)
        pending = np.flatnonzero(~proven)
        values[pending] = self._exactly(coefficient, indices[pending])
        return values

    def _exactly(self, coefficient: Any, indices: NDArray[np.int64]) -> NDArray[Any]:
        values = np.empty(indices.shape, self._dtype.numpy)
        for start in range(0, indices.size, _EXACT_VALUES):
            some = indices[start : start + _EXACT_VALUES]
            values[start : start + _EXACT_VALUES] = _checked(self._settled(coefficient, some), some)
        return values

    def _proven(
        self, coefficient: Any, indices: NDArray[np.int64], heads: int = 1
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The scores from bounded numbers, and which of them those prove; head after head.

        The coefficients of several heads are repeated for each index, and the indices for each
        head: a formula sees vectors of one length, as for one head.
        """
        size = heads * len(indices)
        with np.errstate(all="ignore"):
            try:
                profile = self._profile(indices.tobytes())
                if heads > 1:
                    profile = profile[np.tile(np.arange(len(indices)), heads)]
                    which = np.repeat(np.arange(heads), len(indices))
                    several = isinstance(coefficient, tuple)
                    coefficient = (
                        tuple(part[which] for part in coefficient)
                        if several
                        else coefficient[which]
                    )
                scores = self._content.scores(bounded, coefficient, profile)
                if scores.shape == (size,):
                    return scores.rounded(self._dtype)  # type: ignore[no-any-return]
            except Exception:
                pass  # exact numbers tell what is wrong, if anything is
        return np.empty(size, self._dtype.numpy), np.zeros(size, np.bool_)

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
