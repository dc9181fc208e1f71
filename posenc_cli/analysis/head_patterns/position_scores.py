"""The scores that a head can give to positions alone, linear in its learned weights.

The queries and keys of the head hold only positions. Its score at query i and key j ≤ i depends on
the kind of scheme:

- absolute: rowᵢᵀ W rowⱼ with a free matrix W of d² numbers, which is Wqᵀ Wk of a head as wide as
  the rows;
- rotary: Σ aₖ cos(Δ·θₖ) + bₖ sin(Δ·θₖ), Δ = i − j, with two free numbers per dimension pair: q·k of
  fixed q and k, rotated. With several axes, each pair has its own Δ. If amplitudes grow or are
  scaled, so do both terms;
- bias in buckets: one free number for each bucket that occurs, by offsets or by pairs of positions.
  The values of a table are learned anew. The scores of a network are not linear, and are refused;
- bias by formula: one free number, of either sign, times the formula at its declared parameters.
  Any of ALiBi's slopes is a multiple of another, and so are KERPLE's strengths r1. KERPLE's power
  or scale r2, in which scores are not linear, stays as declared;
- relative: w · row of j − i, with w free: the score of a query that is the same everywhere.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.encoded import rows_at, scores_at, turns_at
from posenc_cli.analysis.head_patterns.regression import LinearScores
from posenc_cli.budget import HELD_VALUES, REPEATED_COLUMNS, check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request, encoding_of_side
from posenc_cli.encoding.scores import score_indices
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import BucketBias, Content, Network, Scheme
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals

_LARGEST = 1e75  # of a term of scores: products of two, and of free numbers, stay in float64


class HeadEncoding(Record):
    """A scheme with parameters, for one head; ``head`` is the head of a bias."""

    scheme: Scheme
    given: Mapping[str, object]
    head: int = 0

    def at(self, length: int) -> LengthEncoding:
        """Return the encoding of a sequence of a length.

        Raises: InvalidInput if the scheme has too few positions, or if the length is too large.
        """
        query, key = (
            encoding_of_side(self.scheme, self.given, seq_len=length, side=side)
            for side in ("query", "key")
        )
        positions = Positions.contiguous(0, length)
        Request(query, positions, Precision.of(FLOAT64, None)).row_positions()  # checks the length
        content = query.bound.content
        match content:
            case BucketBias(network=Network()):
                raise InvalidInput(
                    f"{self.scheme.name}: a network computes its scores, so a fit has no single "
                    "optimum"
                )
        if content.heads is not None and not 0 <= self.head < content.heads:
            raise InvalidInput(f"--head {self.head}: the heads are 0 to {content.heads - 1}")
        width = max(1, content.width)
        check_size(f"{self.scheme.name} dim={width}", width, REPEATED_COLUMNS, "columns")
        check_size(
            f"{self.scheme.name} at {length} positions", length * width, HELD_VALUES, "numbers"
        )
        return LengthEncoding(query, key, length, self.head)


class LengthEncoding(Record):
    """An encoding of a sequence of a length, for queries and for keys."""

    query: Encoding
    key: Encoding
    length: int
    head: int

    @property
    def content(self) -> Content:
        """The content of the scheme."""
        return self.query.bound.content

    @property
    def by_offset(self) -> bool:
        """Whether scores depend only on the offset i − j."""
        kind, waves = self.query.bound.scheme.kind, self.content.waves
        if self.content.by is not None:
            return self.content.by == "offset"
        return kind == "relative" or (
            kind == "rotary" and (waves is None or waves.coordinates is None)
        )

    def buckets(self, queries: Integers) -> Integers | None:
        """Return the bucket of each key for some queries, or None if the scheme has no buckets.

        Shape: (queries, length). A key after its query gets the bucket of the query's own key.
        """
        match self.content:
            case BucketBias(bucket=bucket):
                own = queries[:, None]
                keys = np.minimum(np.arange(self.length, dtype=np.int64), own)
                with self.query.bound.scheme.answerable():
                    indices = score_indices(self.content, own, keys)
                    distinct, where = np.unique(indices, return_inverse=True)
                    buckets = np.asarray(bucket(np, distinct), np.int64)
                return np.asarray(buckets[where.reshape(indices.shape)])
        return None

    @cached_property
    def rows(self) -> RealRows:
        """The rows of an absolute scheme, (length, columns), without columns if unused."""
        if self.content.positions == "unused":
            return np.zeros((self.length, 0))
        return rows_at(self.query, Positions.contiguous(0, self.length))

    @cached_property
    def terms(self) -> RealRows:
        """The factors of the free numbers in scores by offset, (length, numbers).

        For a bias by key they are those of the keys. Schemes with buckets have none.
        """
        scheme, content = self.query.bound.scheme, self.content
        if scheme.kind == "rotary":
            rotated = (
                self._rotations(self.query) * turns_at(self.key, Positions.contiguous(0, 1)).conj()
            )
            return np.concatenate([rotated.real, rotated.imag], axis=1)
        if content.by is not None:
            indices = np.arange(self.length, dtype=np.int64)
            asked = indices if content.by == "key" else -indices
            return scores_at(self.query, [self.head], asked).T
        reach = min(self.length - 1, self.length if content.farthest is None else content.farthest)
        rows = rows_at(self.query, Positions((range(-reach, 1),)))[::-1]
        return np.asarray(rows[np.minimum(np.arange(self.length), reach)])

    def _rotations(self, encoding: Encoding) -> ComplexRows:
        return turns_at(encoding, Positions.contiguous(0, self.length))

    def scores(self, queries: Integers, basis: Basis) -> LinearScores:
        """Return the scores of some queries for all keys, as functions of the head's free numbers.

        ``basis`` says which free numbers the trained positions determine.

        Raises: InvalidInput if scores exceed float64.
        """
        scheme, content = self.query.bound.scheme, self.content
        if scheme.kind == "absolute":
            rows = _checked(self.rows, scheme)  # (length, width)
            rows = rows if basis.columns is None else rows @ basis.columns  # in the span
            return _bilinear_scores(rows[queries], rows)
        buckets = self.buckets(queries)
        if buckets is not None:
            numbers = np.eye(basis.size + 1, basis.size)  # zero for a bucket not met
            return _indexed_scores(numbers, basis.places(buckets))
        keys = np.arange(self.length)
        if self.by_offset:
            distances = np.maximum(queries[:, None] - keys, 0)  # 0 for keys after the query
            return _indexed_scores(_checked(self.terms, scheme), distances)
        if content.by is not None:
            return _indexed_scores(_checked(self.terms, scheme), keys + 0 * queries[:, None])
        return _rotary_scores(self._rotations(self.query)[queries], self._rotations(self.key))

    def basis(self) -> Basis:
        """Return what a head can learn of an encoding of this length."""
        buckets = self.buckets(np.arange(self.length))
        if buckets is not None:
            return Basis(buckets=np.unique(buckets))
        if self.query.bound.scheme.kind == "absolute" and self.rows.shape[1] > self.length:
            return Basis(columns=np.linalg.qr(_checked(self.rows, self.query.bound.scheme).T)[0])
        return Basis()


class Basis(Record):
    """What a head can learn at the trained positions; other positions add nothing.

    ``buckets`` are those that occur there. ``columns`` (dim, L) are orthonormal and span the rows
    of L positions, if L is less than the number of columns. The optimum lies in their span.
    """

    buckets: Integers | None = None
    columns: RealRows | None = None

    @property
    def size(self) -> int:
        """The number of buckets."""
        return 0 if self.buckets is None else self.buckets.size

    def places(self, buckets: Integers) -> Integers:
        """Return the index of each bucket among ``buckets``, or their number for any other."""
        assert self.buckets is not None
        places = np.minimum(np.searchsorted(self.buckets, buckets), self.size - 1)
        return np.where(self.buckets[places] == buckets, places, self.size)


def _checked(terms: RealRows, scheme: Scheme) -> RealRows:
    """Return terms of scores, after a check that their scores fit float64."""
    if not (np.abs(terms) <= _LARGEST).all():
        raise InvalidInput(f"{scheme.name}: with these parameters scores exceed float64")
    return terms


def _bilinear_scores(queries: RealRows, keys: RealRows) -> LinearScores:
    """Return scores qᵀ W k of rows, (queries, width) and (keys, width)."""
    width = keys.shape[1]
    return LinearScores(
        width * width,
        lambda numbers: queries @ numbers.reshape(width, width) @ keys.T,
        lambda cells: (queries.T @ cells @ keys).ravel(),
        work=len(queries) * width * (width + len(keys)),
    )


def _indexed_scores(terms: RealRows, places: Integers) -> LinearScores:
    """Return scores from ``terms`` (places, numbers), by indices ``places`` (queries, keys)."""
    return LinearScores(
        terms.shape[1],
        lambda numbers: (terms @ numbers)[places],
        lambda cells: terms.T @ np.bincount(places.ravel(), cells.ravel(), len(terms)),
    )


def _rotary_scores(queries: ComplexRows, keys: ComplexRows) -> LinearScores:
    """Return scores from a cosine and a sine per pair, given the rotations of queries and keys."""
    pairs = keys.shape[1]

    def of(numbers: Reals) -> RealRows:
        factors = numbers[:pairs] - 1j * numbers[pairs:]
        return np.asarray(((queries * factors) @ keys.conj().T).real)

    def adjoint(cells: RealRows) -> Reals:
        sums = (queries * (cells @ keys.conj())).sum(axis=0)
        return np.concatenate([sums.real, sums.imag])

    return LinearScores(2 * pairs, of, adjoint, work=4 * queries.size * len(keys))
