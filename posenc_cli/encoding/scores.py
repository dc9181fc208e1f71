"""The scores that bias schemes add to attention, head by head and block of rows by block of rows.

A score depends on the offset j − i, on the key alone, or on a number of the pair. So a head needs
one value for each that occurs, and its matrix is those values laid out again and again.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.encoding.arrays import (
    in_arithmetic,
    position_array,
    position_blocks,
    repeated_rows,
    rows_a_block,
    sliding_rows,
)
from posenc_cli.encoding.networks import network_scores
from posenc_cli.formulas.declare import Bias, BucketBias, PairRule
from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.rounding import round_exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.precision import Precision
    from posenc_cli.formulas.declare import Content, RowLookup
    from posenc_cli.numerics.arrays import Flags, Floats, Integers, Reals, StoredRows, StoredValues
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.positions import Positions

    ScoreRule = Callable[[int, Integers], StoredValues]
    """A head, and offsets or keys (n,) → scores (n,)."""

_EXACT_VALUES = 1 << 12  # held at a time: each costs a few hundred bytes
_BOUNDED_VALUES = 1 << 13  # computed with at a time: few enough for the cache
_TABLES_KEPT = 4  # that a network made for the blocks of a matrix, from head to head
_PROFILES_KEPT = 64  # pieces of what all heads share, from head to head


def score_blocks(
    content: Content,
    lookup: RowLookup | None,
    heads: range,
    positions: Positions,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[StoredRows]:
    """The (L, L) scores of some heads, queries by keys, as blocks of whole rows."""
    rule = score_rule(content, lookup, precision=precision, engine=engine)
    for head in heads:
        scores = partial(rule, head)
        if content.by == "key":
            yield from repeated_rows(scores(position_array(positions)))
        elif content.by == "offset" and len(positions.ranges) == 1:
            offsets = np.arange(1 - positions.count, positions.count, dtype=np.int64)
            yield from sliding_rows(scores(offsets * positions.ranges[0].step))
        else:
            keys = position_array(positions)
            for queries in position_blocks(positions, rows_a_block(keys.size)):
                yield scores_between(content, rule, head, queries, keys)


def score_rule(
    content: Content, lookup: RowLookup | None, *, precision: Precision, engine: Engine
) -> ScoreRule:
    """What computes the scores of a bias at some offsets j − i, keys or numbers of pairs.

    Offsets and keys are whole numbers of the part of 1 that the content has.

    Raises: TypeError for what is no bias.
    """
    match content:
        case Bias():
            return _formula_rule(content, precision, engine)
        case BucketBias():
            return _table_rule(content, lookup, precision, engine)
    raise TypeError(f"a {type(content).__name__} has no scores")


def scores_between(
    content: Content, rule: ScoreRule, head: int, queries: Integers, keys: Integers
) -> StoredRows:
    """The scores of a head at the positions of some queries and keys: (queries, keys)."""
    (scores,) = scores_of_heads(content, rule, range(head, head + 1), queries, keys)
    return scores


def scores_of_heads(
    content: Content, rule: ScoreRule, heads: range, queries: Integers, keys: Integers
) -> Iterator[StoredRows]:
    """The scores of each of some heads at the positions of queries and keys, each computed once.

    Shapes: (queries, keys); where one row makes them all, a view that cannot be written.
    """
    if content.by == "key":
        for head in heads:
            yield np.broadcast_to(rule(head, keys), (queries.size, keys.size))
    elif content.by == "offset" and (step := _step_of(queries, keys)):
        steps = np.arange(queries.size + keys.size - 1, dtype=np.int64)
        offsets = keys[0] - queries[-1] + step * steps
        for head in heads:
            row = rule(head, offsets)
            yield np.lib.stride_tricks.sliding_window_view(row, keys.size)[::-1]
    else:
        distinct, where = _distinct(score_indices(content, queries[:, None], keys[None, :]))
        for head in heads:
            yield rule(head, distinct)[where]


def _step_of(queries: Integers, keys: Integers) -> int | None:
    """By how much each position is above the one before; None where that varies, or of one each."""
    steps = np.concatenate([np.diff(queries), np.diff(keys)])
    if not (queries.size and keys.size and steps.size and steps[0] > 0):
        return None
    return int(steps[0]) if (steps == steps[0]).all() else None


def _distinct(indices: Integers) -> tuple[Integers, Integers]:
    """The values that occur, in order, and the place of each index among them.

    Shapes: (n,), and that of the indices.
    """
    least = int(indices.min(initial=0))
    reach = int(indices.max(initial=0)) - least + 1
    if reach > 2 * indices.size:
        distinct, where = np.unique(indices, return_inverse=True)
        return distinct, where.reshape(indices.shape)
    places = indices - least  # where they lie close, to mark them is quicker than to sort them
    seen = np.zeros(reach, np.bool_)
    seen[places] = True
    return np.flatnonzero(seen) + least, (np.cumsum(seen) - 1)[places]


def score_indices(content: Content, queries: Integers, keys: Integers) -> Integers:
    """What the scores of queries and keys go by: offsets, keys or numbers of pairs.

    Shape: that of queries and keys together.
    """
    offsets: Integers = keys - queries
    if content.by == "key":
        return np.broadcast_to(keys, offsets.shape)
    match content:
        case BucketBias(pairs=PairRule() as pairs):
            return np.asarray(pairs.number(np, queries, keys))
    return offsets


def _table_rule(
    content: BucketBias, lookup: RowLookup | None, precision: Precision, engine: Engine
) -> ScoreRule:
    """Scores from a learned table."""
    assert lookup is not None

    @lru_cache(maxsize=1 if content.network is None else _TABLES_KEPT)
    def rows_of(buckets: bytes) -> Reals:
        """The rows of some buckets, (buckets, heads): the same for each head of some offsets."""
        numbers = np.frombuffer(buckets, dtype=np.int64)
        if content.network is not None:
            weights = content.weights
            check_size(
                f"--heads {content.heads}",
                weights.rows * weights.columns,
                HELD_VALUES,
                "weights of a network",
            )
            table = lookup(np.arange(content.weights.rows))  # (units, axes + 1 + heads)
            return network_scores(content.network, table, numbers)
        rows: Reals = lookup(numbers)
        return rows

    def scores(head: int, offsets: Integers) -> StoredValues:
        buckets, where = np.unique(content.bucket(np, offsets), return_inverse=True)
        values = rows_of(buckets.astype(np.int64).tobytes())[where, head]  # (n,)
        return precision.narrow(in_arithmetic(values, engine.arithmetic))

    return scores


def _formula_rule(content: Bias, precision: Precision, engine: Engine) -> ScoreRule:
    """Scores by formula."""
    if engine.arithmetic == "exact":
        exactly = _ExactScores(content, precision.rounded)
        return lambda head, indices: precision.stored_as(exactly(head, indices))

    from posenc_cli.backends.numpy import Rounding

    rounded, parts = Rounding(engine.arithmetic), content.denominator
    coefficients = content.coefficients(rounded.namespace)
    if isinstance(coefficients, tuple):
        coefficients = tuple(map(rounded, coefficients))
    else:
        coefficients = rounded(coefficients)

    @lru_cache(maxsize=1)
    def profile(indices: bytes) -> Floats:
        """What all heads share of some indices."""
        numbers = np.frombuffer(indices, dtype=np.int64)
        values = rounded(numbers if parts == 1 else numbers / float(parts))
        return rounded(content.profile(rounded.namespace, values)) if content.profile else values

    def as_frameworks_do(head: int, indices: Integers) -> StoredValues:
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

    def __call__(self, head: int, indices: Integers) -> StoredValues:
        coefficient = _of_head(self._coefficients, head)
        pieces = [
            self._piece(coefficient, indices[begin : begin + _BOUNDED_VALUES])
            for begin in range(0, indices.size, _BOUNDED_VALUES)
        ]
        return np.concatenate(pieces)

    def _piece(self, coefficient: Any, indices: Integers) -> StoredValues:
        scores, proven = self._bounded_scores(coefficient, indices)
        pending = np.flatnonzero(~proven)
        for begin in range(0, pending.size, _EXACT_VALUES):
            places = pending[begin : begin + _EXACT_VALUES]
            scores[places] = _checked(self._exact_scores(coefficient, indices[places]), places)
        return scores

    def _bounded_scores(self, coefficient: Any, indices: Integers) -> tuple[StoredValues, Flags]:
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
        values = self._in_positions(bounded.asarray(np.frombuffer(indices, dtype=np.int64)))
        return self._content.profile(bounded, values) if self._content.profile else values

    def _in_positions(self, numbers: Any) -> Any:
        """Numbers of parts of 1, as the formula has them."""
        parts = self._content.denominator
        return numbers if parts == 1 else numbers / parts

    def _exact_scores(self, coefficient: Any, indices: Integers) -> StoredValues:
        values = self._in_positions(exact.asarray(indices.tolist()))
        if self._content.profile:
            values = self._content.profile(exact, values)
        return round_exact(list(self._content.scores(exact, coefficient, values)), self._dtype)


def _of_head(coefficients: Any, head: int) -> Any:
    if isinstance(coefficients, tuple):
        return tuple(vector[head] for vector in coefficients)
    return coefficients[head]


def _checked(scores: StoredValues, indices: Integers) -> StoredValues:
    if scores.shape != indices.shape:
        raise ValueError(f"{scores.shape} scores for {indices.shape} indices")
    return scores
