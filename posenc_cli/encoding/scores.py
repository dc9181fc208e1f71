"""The scores that a bias adds to attention, by head and block of rows.

A score depends on the offset j − i, on the key alone, or on the number of a pair. So a head needs
only one value per offset, key or pair number that occurs, and its matrix repeats those values.

A small network's scores are computed in float64, always in the same order. Coordinates are
correctly rounded, sums run from the first unit to the last, and the sigmoid of the sum is correctly
rounded.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Bias, BucketBias, Content, Network, PairRule, RowLookup
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.rounding import round_exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.precision import Precision
    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.numerics.arrays import (
        Flags,
        Floats,
        Integers,
        RealRows,
        Reals,
        StoredRows,
        StoredValues,
    )
    from posenc_cli.positions import Positions

    ScoreRule = Callable[[int, Integers], StoredValues]
    """A head, and offsets or keys (n,) → scores (n,)."""

_EXACT_VALUES = 1 << 12  # at a time: each takes a few hundred bytes
_BOUNDED_VALUES = 1 << 13  # at a time: few enough for the cache
_NETWORK_BUCKETS = 1 << 14  # at a time: few enough for the cache
_TABLES_KEPT = 4  # of a network, made for the blocks of a matrix and kept from head to head
_PROFILES_KEPT = 64  # pieces that all heads share, kept from head to head


def score_blocks(
    content: Content,
    lookup: RowLookup | None,
    heads: range,
    positions: Positions,
    *,
    precision: Precision,
    engine: Engine,
) -> Iterator[StoredRows]:
    """Yield the (L, L) scores of some heads, queries by keys, as blocks of whole rows."""
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
    """Return the function that computes scores of a bias at offsets j − i, keys or pair numbers.

    Offsets and keys are integer multiples of the content's part of 1.

    Raises: TypeError if the content is not a bias.
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
    """Return the scores of a head at the positions of some queries and keys: (queries, keys)."""
    (scores,) = scores_of_heads(content, rule, range(head, head + 1), queries, keys)
    return scores


def scores_of_heads(
    content: Content, rule: ScoreRule, heads: range, queries: Integers, keys: Integers
) -> Iterator[StoredRows]:
    """Yield the scores of each head at the positions of queries and keys, each computed once.

    Shapes: (queries, keys). If one row determines them all, the result is a read-only view.
    """
    if content.by == "key":
        for head in heads:
            yield np.broadcast_to(rule(head, keys), (queries.size, keys.size))
    elif content.by == "offset" and (step := _step_of(queries, keys)):
        steps = np.arange(queries.size + keys.size - 1, dtype=np.int64)
        offsets = keys[0] - queries[-1] + step * steps
        for head in heads:
            yield np.lib.stride_tricks.sliding_window_view(rule(head, offsets), keys.size)[::-1]
    else:
        distinct, where = _distinct(score_indices(content, queries[:, None], keys[None, :]))
        for head in heads:
            yield rule(head, distinct)[where]


def _step_of(queries: Integers, keys: Integers) -> int | None:
    """Return the step between positions, or None if it varies or there is one of each."""
    steps = np.concatenate([np.diff(queries), np.diff(keys)])
    if not (queries.size and keys.size and steps.size and steps[0] > 0):
        return None
    return int(steps[0]) if (steps == steps[0]).all() else None


def _distinct(indices: Integers) -> tuple[Integers, Integers]:
    """Return the values that occur, in order, and the place of each index among them.

    Shapes: (n,), and that of the indices.
    """
    least = int(indices.min(initial=0))
    reach = int(indices.max(initial=0)) - least + 1
    if reach > 2 * indices.size:
        distinct, where = np.unique(indices, return_inverse=True)
        return distinct, where.reshape(indices.shape)
    places = indices - least  # for close values, marking is faster than sorting
    seen = np.zeros(reach, np.bool_)
    seen[places] = True
    return np.flatnonzero(seen) + least, (np.cumsum(seen) - 1)[places]


def score_indices(content: Content, queries: Integers, keys: Integers) -> Integers:
    """Return the indices that determine the scores: offsets, keys or pair numbers.

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
    """Return the rule for scores from a learned table."""
    assert lookup is not None

    @lru_cache(maxsize=1 if content.network is None else _TABLES_KEPT)
    def rows_of(buckets: bytes) -> Reals:
        """Return the rows of some buckets, (buckets, heads), for all heads of some offsets."""
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
        return np.asarray(lookup(numbers))

    def scores(head: int, offsets: Integers) -> StoredValues:
        buckets, where = np.unique(content.bucket(np, offsets), return_inverse=True)
        values = rows_of(buckets.astype(np.int64).tobytes())[where, head]  # (n,)
        return precision.narrow(in_arithmetic(values, engine.arithmetic))

    return scores


def _formula_rule(content: Bias, precision: Precision, engine: Engine) -> ScoreRule:
    """Return the rule for scores by formula."""
    if engine.arithmetic == "exact":
        exactly = _ExactScores(content, precision.rounded)
        return lambda head, indices: precision.stored_as(exactly(head, indices))

    from posenc_cli.backends.numpy import Rounding

    rounded, parts = Rounding(engine.arithmetic), content.denominator
    coefficients = content.coefficients(rounded.namespace)
    several = isinstance(coefficients, tuple)
    coefficients = tuple(map(rounded, coefficients)) if several else rounded(coefficients)

    @lru_cache(maxsize=1)
    def profile(indices: bytes) -> Floats:
        """Return the profile of some indices, which all heads share."""
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

    Numbers with a bound of their error prove nearly all of them. The others are computed again in
    60-digit reals. If a formula needs an operation that bounded numbers lack, so are all scores.
    """

    def __init__(self, content: Bias, dtype: DType) -> None:
        self._content = content
        self._dtype = dtype
        self._coefficients = content.coefficients(exact)
        self._profile = lru_cache(maxsize=_PROFILES_KEPT)(self._profile_of)
        self._exact_profile = lru_cache(maxsize=1)(self._profile_of)

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
        """Return the scores from bounded numbers, and which of them are proven."""
        from posenc_cli.numerics import bounded

        with np.errstate(all="ignore"):
            try:
                profile = self._profile(bounded, indices.tobytes())
                scores = self._content.scores(bounded, coefficient, profile)
                if scores.shape == indices.shape:
                    return scores.rounded(self._dtype)  # type: ignore[no-any-return]
            except Exception:
                pass  # exact numbers report the error, if there is one
        return np.empty(indices.shape, self._dtype.numpy), np.zeros(indices.shape, np.bool_)

    def _profile_of(self, xp: Any, indices: bytes) -> Any:
        """Return what all heads share: the profile at indices, or else their positions."""
        parts = self._content.denominator
        numbers = xp.asarray(np.frombuffer(indices, dtype=np.int64))
        positions = numbers if parts == 1 else numbers / parts
        return self._content.profile(xp, positions) if self._content.profile else positions

    def _exact_scores(self, coefficient: Any, indices: Integers) -> StoredValues:
        profile = self._exact_profile(exact, indices.tobytes())
        return round_exact(list(self._content.scores(exact, coefficient, profile)), self._dtype)


def _of_head(coefficients: Any, head: int) -> Any:
    alone = not isinstance(coefficients, tuple)
    return coefficients[head] if alone else tuple(vector[head] for vector in coefficients)


def _checked(scores: StoredValues, indices: Integers) -> StoredValues:
    if scores.shape != indices.shape:
        raise ValueError(f"{scores.shape} scores for {indices.shape} indices")
    return scores


def network_scores(network: Network, table: RealRows, buckets: Integers) -> RealRows:
    """Return the scores of some buckets, for each head.

    ``table`` has one row per unit: a weight for each axis, its bias, and a weight for each head.
    Shape: (buckets, heads).

    Raises: InvalidInput if sums are past what float64 holds.
    """
    coordinates = network_coordinates(network, buckets)
    axes = coordinates.shape[1]
    units = table[:-1] if network.shifted else table
    start = table[-1] if network.shifted else np.zeros(table.shape[1])
    scores = np.empty((buckets.size, table.shape[1] - axes - 1))
    with np.errstate(all="ignore"):
        for begin in range(0, buckets.size, _NETWORK_BUCKETS):
            part = slice(begin, begin + _NETWORK_BUCKETS)
            total = np.broadcast_to(start[axes + 1 :], scores[part].shape).copy()
            for unit in units:
                value = np.full(len(total), unit[axes])
                for weight, coordinate in zip(unit[:axes], coordinates.T, strict=True):
                    value = value + weight * coordinate[part]
                total += np.maximum(value, 0.0)[:, None] * unit[axes + 1 :]
            scores[part] = total
    if not np.isfinite(scores).all():
        raise InvalidInput("--set weights: the sums of this network exceed float64")
    if network.limit is None:
        return scores
    return np.asarray(_sigmoids(scores.ravel(), network.limit).reshape(scores.shape))


def network_coordinates(network: Network, buckets: Integers) -> RealRows:
    """Return the network's inputs for some buckets. Shape: (buckets, coordinates)."""
    offsets = [np.asarray(offset) for offset in network.offsets(np, buckets)]
    coordinates = [_coordinates(network, offset, axis) for axis, offset in enumerate(offsets)]
    if network.quotient:
        return np.divide(*coordinates)[:, None]
    return np.stack(
        [
            coordinate * np.sign(offset)
            for coordinate, offset in zip(coordinates, offsets, strict=True)
        ],
        axis=1,
    )


def _coordinates(network: Network, offsets: Integers, axis: int) -> Reals:
    """Return the coordinates of the distances |offset| along an axis."""
    from posenc_cli.numerics import bounded

    distances, where = np.unique(np.abs(offsets), return_inverse=True)
    with np.errstate(all="ignore"):
        values = network.coordinate(bounded, bounded.asarray(distances), axis)
        rounded, proven = values.rounded(FLOAT64)
    pending = np.flatnonzero(~proven)
    exactly = network.coordinate(exact, exact.asarray(distances[pending].tolist()), axis)
    rounded[pending] = round_exact(list(exactly), FLOAT64)
    return np.asarray(rounded[where])


def _sigmoids(values: Reals, limit: int) -> Reals:
    """Return the sigmoid of each value, times a limit."""
    from posenc_cli.numerics import bounded

    shares = limit / (1 + bounded.exp(bounded.Bounded(-values, *np.zeros((2, values.size)))))
    rounded, proven = shares.rounded(FLOAT64)
    for place in np.flatnonzero(~proven).tolist():
        exactly = limit / (1 + exact.exp(-exact.asarray([float(values[place])])))
        rounded[place] = round_exact(list(exactly), FLOAT64)[0]
    return np.asarray(rounded, np.float64)


class Run(NamedTuple):
    """Consecutive positions, in one bucket or in consecutive buckets.

    Both fields hold the first and the last.
    """

    positions: tuple[int, int]
    buckets: tuple[int, int]


class Bucketed(Record):
    """Relative positions, the bucket of each, and the parameters of the rule.

    Shape: both (P,).
    """

    positions: Integers
    buckets: Integers
    params: dict[str, Any]

    def runs(self) -> Iterator[Run]:
        """Yield the buckets in a short form: runs of one bucket, or of consecutive buckets.

        >>> positions = Bucketed(np.arange(6), np.array([3, 4, 5, 5, 5, 9]), {})
        >>> [tuple(run) for run in positions.runs()]
        [((0, 1), (3, 4)), ((2, 4), (5, 5)), ((5, 5), (9, 9))]
        """
        steps = np.diff(self.buckets)  # (P − 1,), as all arrays below except the ends of runs
        follows = np.diff(self.positions) == 1
        same = follows & (steps == 0)
        # Positions that share a bucket stay together; only single ones join consecutive buckets.
        alone = ~(np.append(same, False) | np.append(False, same))
        joined = same | (follows & (np.abs(steps) == 1) & alone[:-1] & alone[1:])
        turns = np.flatnonzero(joined[1:] & joined[:-1] & (steps[1:] != steps[:-1])) + 1
        joined[turns] = False
        ends = np.append(np.flatnonzero(~joined), self.positions.size - 1)
        start = 0
        for end in ends.tolist():
            yield Run(
                (int(self.positions[start]), int(self.positions[end])),
                (int(self.buckets[start]), int(self.buckets[end])),
            )
            start = end + 1


def assign_buckets(rule: BucketRule, given: Mapping[str, object], positions: Positions) -> Bucketed:
    """Return the buckets that a rule with ``given`` parameters assigns to relative positions.

    Raises: InvalidInput for a parameter that is not allowed.
    """
    params, bucket = rule.bind(given)
    relative = position_array(positions)
    return Bucketed(relative, np.asarray(bucket(np, relative), np.int64), params)
