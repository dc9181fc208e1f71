"""Compute the arrays through which an encoding enters a transformer, at one length.

Defines the four hooks of the four kinds, without a framework: rows added to x, rotations of queries
and keys, scores by pair, and rows by distance that queries multiply. A model uses only these, and
knows no scheme. A :class:`Learnable` is the part of an encoding that training learns: its shape and
its initial values. Context extensions that change an encoding at test time are applied here. Those
that change what a query sees in any model (``window``, ``log-n``) belong to the model.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.analysis.encoded import rows_at, scores_at, turns_at
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request, encoding_of_side
from posenc_cli.encoding.scores import network_coordinates, score_indices
from posenc_cli.errors import InvalidInput
from posenc_cli.experiments.request import CLIP, LINEAR, OF_THE_MODEL, EncodingRequest, ModelSize
from posenc_cli.formulas.context_extension.stretches import NONE, STRETCHES, UNSTRETCHED
from posenc_cli.formulas.declare import Bias, BucketBias, Content, Network, Rows, Scheme, Weights
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions, range_texts
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows


class Learnable(Record):
    """A table that training learns: its name in a model, and its initial values.

    ``values`` (rows, columns) are those of a file; without them, they are drawn from normal(0,
    ``std``). With ``logarithms``, training learns the logarithms of numbers that must stay
    positive.
    """

    name: str
    rows: int
    columns: int
    std: float
    values: RealRows | None = None
    logarithms: bool = False


class AddedRows(Record):
    """Rows added to x: ``fixed`` (n, d), or ``mixing`` (n, rows) times a learned table."""

    fixed: RealRows | None = None
    mixing: RealRows | None = None


class PairRotations(Record):
    """Rotations of dimension pairs of queries and keys: cos + i·sin, times an amplitude.

    ``queries`` and ``keys`` (n, pairs); ``first`` and ``second`` name the dimensions of each pair.
    """

    queries: ComplexRows
    keys: ComplexRows
    first: tuple[int, ...]
    second: tuple[int, ...]


class ScoresByPair(Record):
    """Scores added for each head, by an index that each pair of positions has.

    ``index(queries, keys)`` returns these indices, (queries, keys), for positions. They index the
    columns of ``fixed`` (heads, m), or the rows of a learned table. With a ``network`` they index
    ``coordinates`` (m, inputs). With a ``formula`` they index ``arguments`` (m,), at which it is
    evaluated with learned coefficients.
    """

    index: Any
    fixed: RealRows | None = None
    network: Network | None = None
    coordinates: RealRows | None = None
    formula: Bias | None = None
    arguments: Integers | None = None


class DistanceRows(Record):
    """Rows that queries multiply, by distance back to a key; farther keys share the last one.

    ``fixed`` (distances, d), or ``mixing`` (distances, rows) times a learned table.
    """

    distances: int
    fixed: RealRows | None = None
    mixing: RealRows | None = None


EncodingEntry = AddedRows | PairRotations | ScoresByPair | DistanceRows
"""The contribution of a part of an encoding at a length, through the hook of its kind."""


class EncodingPart(Record):
    """A scheme in a transformer of a given size, for up to ``longest`` positions."""

    scheme: Scheme
    given: Mapping[str, Any]
    size: ModelSize
    longest: int
    place: int = 0

    @property
    def learnable(self) -> Learnable | None:
        """The table that training learns, or None."""
        encoding = self._encoding(self.longest)
        content = encoding.bound.content
        vectors = _coefficients(content)
        if vectors is not None:
            rows, columns = vectors.shape
            return Learnable(self._table_name, rows, columns, 0.0, vectors, logarithms=True)
        weights = content.weights
        if weights is None:
            return None
        values = None
        if weights.file is not None:
            assert encoding.lookup is not None
            values = np.asarray(encoding.lookup(np.arange(weights.rows)))
        return Learnable(self._table_name, weights.rows, weights.columns, weights.std, values)

    @property
    def _table_name(self) -> str:
        return f"encoding.{self.place}.{self.scheme.name}"

    def entry(self, length: int, stretch: str, trained: int) -> EncodingEntry:
        """Return its contribution at a length, under a context extension.

        Raises: InvalidInput if the scheme has fewer positions.
        """
        entries: dict[str, Callable[[int, str, int], EncodingEntry]] = {
            "absolute": self._added_rows,
            "rotary": self._rotations,
            "bias": self._scores,
            "relative": self._distance_rows,
        }
        return entries[self.scheme.kind](length, stretch, trained)

    def is_stretched(self, stretch: str) -> bool:
        """Return whether a context extension changes this part."""
        if stretch == CLIP:
            content = self._encoding(1).bound.content
            by_offset = content.by == "offset" or self.scheme.kind in ("rotary", "relative")
            return by_offset and (content.waves is None or content.waves.growth is None)
        if stretch == LINEAR and self.scheme.kind == "absolute":
            return self._is_interpolated
        return stretch in STRETCHES and self.scheme is UNSTRETCHED

    @property
    def _is_interpolated(self) -> bool:
        """Whether rows exist between integer positions: by formula, or by interpolating a table."""
        content = self._encoding(self.longest).bound.content
        if content.weights is not None:
            return True
        return content.positions == "numbers" and content.domain in ("positive", "real")

    def untrained(self, length: int, trained: int, stretch: str) -> str | None:
        """Return which table entries are used at a length but not at the trained one, as text."""
        learnable = self.learnable
        if learnable is None:
            return None
        then = self._rows_used(self.entry(trained, NONE, trained), trained)
        now = self._rows_used(self.entry(length, stretch, trained), length)
        new = sorted(now - then)
        if not new:
            return None
        what = "bucket" if self.scheme.kind == "bias" else "row"
        return f"{what}{'s' if new[1:] else ''} {', '.join(range_texts(new))} of {self.scheme.name}"

    def _rows_used(self, entry: EncodingEntry, length: int) -> set[int]:
        """Return the rows of the learned table that are used at a length."""
        match entry:
            case AddedRows(mixing=mixing) | DistanceRows(mixing=mixing) if mixing is not None:
                return set(np.flatnonzero(mixing.any(axis=0)).tolist())
            case ScoresByPair(index=index, network=None, formula=None, fixed=None):
                every = np.arange(length)
                used: set[int] = set()
                for query in every.tolist():
                    used |= set(np.unique(index(every[query : query + 1], every[: query + 1])))
                return {int(row) for row in used}
        return set()

    def _encoding(
        self,
        length: int,
        side: Any = "query",
        scheme: Scheme | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Encoding:
        """Return this encoding, or another one in its place, for sequences of a length."""
        scheme, given = scheme or self.scheme, self.given if given is None else given
        chosen = {**self._model_parameters(scheme), **given}
        encoding = encoding_of_side(scheme, chosen, seq_len=length, side=side)
        self._check(encoding)
        return encoding

    def _model_parameters(self, scheme: Scheme) -> dict[str, Any]:
        """Return the parameters set by the size of the model and the longest test."""
        size = self.size
        columns = size.width if scheme.kind == "absolute" else size.head_dim
        # Keys to the right are masked, so buckets of their own would be unused.
        mine: dict[str, Any] = {"dim": columns, "heads": size.heads, "bidirectional": False}
        shape = scheme.weights
        if scheme.kind == "absolute" and shape is not None and "weights" not in self.given:
            mine[shape.rows] = self.longest  # a row for each position used
        return {name: value for name, value in mine.items() if name in scheme.parameters}

    def _check(self, encoding: Encoding) -> None:
        """Reject an encoding that does not fit the model.

        Raises: InvalidInput.
        """
        content, name, size = encoding.bound.content, self.scheme.name, self.size
        if content.heads is not None:
            if content.heads != size.heads:
                raise InvalidInput(
                    f"{name} has {content.heads} heads, but the model of --size {size} has "
                    f"{size.heads}"
                )
            return
        columns = size.width if self.scheme.kind == "absolute" else size.head_dim
        whose = "a row" if self.scheme.kind == "absolute" else "a head"
        least = 0 if self.scheme.kind == "rotary" else columns  # unrotated dimensions are allowed
        if not least <= content.width <= columns:
            raise InvalidInput(
                f"{name} has {content.width} columns, and {whose} of the model of --size {size} "
                f"has {columns}"
            )

    def _added_rows(self, length: int, stretch: str, trained: int) -> AddedRows:
        encoding = self._encoding(length if self.scheme.weights is None else self.longest)
        content = encoding.bound.content
        every = Positions.contiguous(0, length)
        if stretch == LINEAR and self._is_interpolated:
            if content.weights is not None:
                rows = _mixing(encoding, np.arange(trained))
                return AddedRows(mixing=_interpolation(length, trained) @ rows)
            share = Fraction(trained, length)
            stop = length * share.numerator
            every = Positions((range(0, stop, share.numerator),), share.denominator)
        _checked(encoding, every)
        if content.weights is not None:
            return AddedRows(mixing=_mixing(encoding, np.arange(length)))
        return AddedRows(fixed=rows_at(encoding, every))

    def _rotations(self, length: int, stretch: str, trained: int) -> PairRotations:
        scheme, given = self.scheme, self.given
        if stretch in STRETCHES and scheme is UNSTRETCHED and length > trained:
            other = STRETCHES[stretch]
            bound = self._encoding(length).bound
            mine = {name: bound.params[name] for name in UNSTRETCHED.parameters}
            scheme, given = other.scheme, other.parameters(mine, trained, length)
        every = Positions.contiguous(0, length)
        query, key = (self._encoding(length, side, scheme, given) for side in ("query", "key"))
        _checked(query, every)
        rotation = query.bound.rotation
        first, second = paired_columns(rotation.layout, rotation.waves.count, rotation.blocks)
        return PairRotations(turns_at(query, every), turns_at(key, every), first, second)

    def _scores(self, length: int, stretch: str, trained: int) -> ScoresByPair:
        encoding = self._encoding(length)
        content = encoding.bound.content
        _checked(encoding, Positions.contiguous(0, length))
        reach = trained - 1 if stretch == CLIP and content.by == "offset" else length

        def numbers(queries: Integers, keys: Integers) -> Integers:
            """Return the score indices; keys after a query, which are masked, get its own index."""
            own = queries[:, None]
            return score_indices(content, own, np.clip(keys[None, :], own - reach, own))

        match content:
            case Bias():
                sign = 1 if content.by == "key" else -1  # index d is the distance d
                arguments = sign * np.arange(length, dtype=np.int64)

                def places(queries: Integers, keys: Integers) -> Integers:
                    return sign * numbers(queries, keys)

                if content.trained:
                    return ScoresByPair(places, formula=content, arguments=arguments)
                return ScoresByPair(
                    places, fixed=scores_at(encoding, range(content.heads), arguments)
                )
            case BucketBias(bucket=bucket):
                every = np.arange(length, dtype=np.int64)
                used = np.unique(
                    np.concatenate([np.unique(numbers(every[i : i + 1], every)) for i in every])
                )
                buckets = np.asarray(bucket(np, used), np.int64)
                network = content.network

                def table_places(queries: Integers, keys: Integers) -> Integers:
                    places = np.searchsorted(used, numbers(queries, keys))
                    return places if network is not None else buckets[places]

                coordinates = None if network is None else network_coordinates(network, buckets)
                return ScoresByPair(table_places, network=network, coordinates=coordinates)
        raise TypeError(f"a {type(content).__name__} gives no scores")

    def _distance_rows(self, length: int, stretch: str, trained: int) -> DistanceRows:
        encoding = self._encoding(length)
        content = encoding.bound.content
        farthest = length - 1 if content.farthest is None else min(length - 1, content.farthest)
        if stretch == CLIP:
            farthest = min(farthest, trained - 1)
        offsets = -np.arange(farthest + 1, dtype=np.int64)
        if content.weights is not None:
            return DistanceRows(farthest + 1, mixing=_mixing(encoding, offsets))
        rows = rows_at(encoding, Positions((range(-farthest, 1),)))[::-1]
        return DistanceRows(farthest + 1, fixed=np.ascontiguousarray(rows))


def parts_of(request: EncodingRequest, size: ModelSize, longest: int) -> tuple[EncodingPart, ...]:
    """Return the parts of an encoding in a transformer of a given size.

    Raises: InvalidInput if a scheme does not exist, does not fit, or has fewer positions.
    """
    parts = tuple(
        EncodingPart(catalogue.find(name), given, size, longest, place)
        for place, (name, given) in enumerate(request.parts)
    )
    for part in parts:
        part.entry(longest, NONE, longest)
    return parts


def applies(stretch: str, parts: tuple[EncodingPart, ...]) -> bool:
    """Return whether a context extension changes a model with this encoding."""
    return stretch in (NONE, *OF_THE_MODEL) or any(part.is_stretched(stretch) for part in parts)


def _checked(encoding: Encoding, positions: Positions) -> None:
    """Reject positions that a scheme does not have.

    Raises: InvalidInput.
    """
    Request(encoding, positions, Precision.of(FLOAT64, None)).row_positions()


def _mixing(encoding: Encoding, positions: Integers) -> RealRows:
    """Return the weight of each row of the learned table at each position or offset.

    The formula itself gives them, with rows of an identity matrix in place of its table. Shape:
    (positions, rows of the table).
    """
    match encoding.bound.content:
        case Rows(rows=rows_at, weights=Weights() as weights):
            identity = np.eye(weights.rows)
            with encoding.bound.scheme.answerable():
                mixed = rows_at(np, positions, lambda rows: identity[np.asarray(rows, np.int64)])
            mixed = mixed[0] if isinstance(mixed, tuple) else mixed
            if mixed.shape == (positions.size, weights.rows):
                return np.asarray(mixed, np.float64)
    raise InvalidInput(
        f"{encoding.bound.scheme.name}: its rows are not whole rows of its table, "
        "so training cannot learn them"
    )


def _interpolation(length: int, trained: int) -> RealRows:
    """Return the weights that interpolate ``trained`` rows: row p is at p · trained / length.

    Shape: (length, trained).
    """
    steps = np.arange(length, dtype=np.int64) * trained
    below = steps // length
    share = (steps - below * length) / length
    every = np.arange(length)
    shares = np.zeros((length, trained))
    shares[every, below] = 1 - share
    shares[every, np.minimum(below + 1, trained - 1)] += share
    return shares


def _coefficients(content: Content) -> RealRows | None:
    """Return the coefficients that training learns, one row for each that a head has.

    None if it learns none, or if some are not above 0, because training learns their logarithms.
    Shape: (coefficients, heads).
    """
    match content:
        case Bias() if content.trained:
            given = content.coefficients(np)
            vectors = np.asarray(given if isinstance(given, tuple) else (given,), np.float64)
            return vectors if vectors.ndim == 2 and (vectors > 0).all() else None
    return None
