"""Read the result of a function block by block: how it changes pairs at each position.

In: results for unit vectors or for probes. Out: the columns that the function pairs, and a subject.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.codes import SubjectKind
from posenc_cli.inference.turning import ColumnPairing, PositionRows, SubjectBlock, SubjectRotation
from posenc_cli.records import Record
from posenc_cli.rotary.subject import Subject

if TYPE_CHECKING:
    from posenc_cli.calls.answers import Returned
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, Reals, UnitMatrices

_LARGE = 1 << 15
"""Number of positions from which factors are kept in single precision, which represents float32
results."""


@dataclass
class _CallCache:
    """The matrices of a function's calls, read with one pairing."""

    pairing: ColumnPairing
    turned: NumberArray
    mirrored: NumberArray
    rest: Reals
    passed: Reals

    @classmethod
    def empty(
        cls, pairing: ColumnPairing, count: int, kind: type[np.complexfloating]
    ) -> _CallCache:
        shape = (count, pairing.pairs)
        turned, mirrored = np.empty(shape, kind), np.zeros(shape, kind)
        return cls(pairing, turned, mirrored, np.zeros(count), np.zeros(count))

    @property
    def parts(self) -> tuple[NumberArray, NumberArray, Reals, Reals]:
        return self.turned, self.mirrored, self.rest, self.passed

    def rotation(self, places: PositionRows, dtype: str) -> SubjectRotation:
        mirrors, strays = bool(np.any(self.mirrored)), bool(np.any(self.rest))

        def read(rows: SomeRows) -> SubjectBlock:
            return SubjectBlock(
                places.at(rows),
                self.turned[rows].astype(np.complex128),
                self.mirrored[rows].astype(np.complex128) if mirrors else None,
                self.rest[rows] if strays else None,
                self.passed[rows] if strays else None,
            )

        return SubjectRotation(places, self.pairing.pairs, dtype, 3, self.pairing, read)


class ResultReader:
    """A reader of one result of a function, block by block.

    ``other_fields`` are the fields of its subject about behaviour other than rotation.
    """

    def __init__(
        self,
        reference: Reference,
        places: PositionRows,
        sample: tuple[Integers, Returned],
        other_fields: dict[str, Any],
    ) -> None:
        positions, returned = sample
        self._reference, self._places, self._dtype = reference, places, returned.dtype
        self._other_fields = other_fields
        own = pairing_of(positions, returned.values, reference)
        self.pairing = own
        pairings = [own]
        if own.layout != reference.content.layout and own.pairs == reference.pairs:
            pairings.append(reference.pairing)
        single = places.count > _LARGE and returned.dtype != "float64"
        self._kind = np.complex64 if single else np.complex128
        self._pairings = pairings

    @cached_property
    def _caches(self) -> list[_CallCache]:
        count = self._places.count
        return [_CallCache.empty(pairing, count, self._kind) for pairing in self._pairings]

    def equals(self, other: ResultReader) -> bool:
        """Return whether everything that was read equals what another reader read."""
        return (self._dtype, self._other_fields, self.pairing) == (
            other._dtype,
            other._other_fields,
            other.pairing,
        ) and all(
            np.array_equal(one, another)
            for own, its in zip(self._caches, other._caches, strict=True)
            for one, another in zip(own.parts, its.parts, strict=True)
        )

    def take(
        self, rows: Integers, results: NumberArray, probes: PairProbes | None = None
    ) -> Integers:
        """Store the results for the vectors of ``probes`` at some rows, or for all unit vectors.

        Returns the rows for which the probes are not enough: they must be read again.
        """
        entries, exact = (Entries.of(results), None) if probes is None else probes.read(results)
        for cache in self._caches:
            for part, read in zip(cache.parts, entries.read_as(cache.pairing), strict=True):
                part[rows] = read
        return rows[:0] if exact is None else rows[~exact]

    def subject(self, target: str, *, both: bool) -> Subject:
        """Return the subject that was read; ``both`` says that q and k were compared."""
        rotations = [cache.rotation(self._places, self._dtype) for cache in self._caches]
        mismatch = None
        if self.pairing.pairs != self._reference.pairs:
            # More pairs than the reference has: columns may only have been reordered.
            verb = "change" if self.pairing.pairs > self._reference.pairs else "rotate"
            right = 2 * self._reference.pairs
            mismatch = f"{2 * self.pairing.pairs} dimensions {verb}; the reference rotates {right}"
        return Subject(
            SubjectKind.IMPL,
            target,
            rotations[0],
            None if mismatch else rotations[-1],
            mismatch,
            notes=("q and k were both checked",) if both else (),
            **self._other_fields,
        )


class Entries(Record):
    """The entries (k, m) of matrices [k, j, o] at columns j and o, (m,) each; all others are 0.

    A matrix has the result for unit vector j in row j.
    """

    values: NumberArray
    j: Integers
    o: Integers

    @classmethod
    def of(cls, matrices: UnitMatrices) -> Entries:
        """Return all entries of matrices (k, columns, columns)."""
        j, o = np.indices(matrices.shape[1:]).reshape(2, -1)
        return cls(matrices.reshape(len(matrices), -1), j, o)

    @np.errstate(invalid="ignore")  # infinite values
    def read_as(self, pairing: ColumnPairing) -> tuple[NumberArray, NumberArray, Reals, Reals]:
        """Return each pair's rotated and mirrored parts, the norm of the rest, and a part of it.

        Unpaired columns should stay as they are. The last result is the part of the norm that is
        due to them: without it, the norm would be that much smaller.
        """
        columns = int(self.j.max()) + 1
        places = np.full((columns, columns), -1)
        places[self.j, self.o] = np.arange(self.j.size)
        left = np.ones(self.j.size, bool)

        def at(j: tuple[int, ...], o: tuple[int, ...]) -> Reals:
            found = places[list(j), list(o)]
            left[found[found >= 0]] = False
            values = self.values.take(found, axis=1).astype(np.float64)
            values[:, found < 0] = 0
            return values

        a, b = at(pairing.first, pairing.out_first), at(pairing.second, pairing.out_first)
        c, d = at(pairing.first, pairing.out_second), at(pairing.second, pairing.out_second)
        turned = ((a + d) + 1j * (c - b)) / 2  # (k, pairs)
        mirrored = ((a - d) + 1j * (c + b)) / 2
        other = np.zeros(columns, bool)
        other[list(pairing.others(columns))] = True
        rest = self.values[:, left].astype(np.float64)
        rest -= (self.j == self.o)[left] & other[self.j[left]]
        # A NaN belongs to the pair in which it comes out.
        own = np.full(columns, -1)
        own[[*pairing.out_first, *pairing.out_second]] = [*range(pairing.pairs)] * 2
        own = own[self.o[left]]  # (entries,)
        rows, entries = np.nonzero(~np.isfinite(rest) & (own >= 0))
        turned[rows, own[entries]] = complex(np.nan, np.nan)
        rest[rows, entries] = 0
        norm, kept = np.linalg.norm(rest, axis=1), ~other[self.o[left]]
        return (
            *(turned, mirrored, norm),
            norm - (norm if kept.all() else np.linalg.norm(rest[:, kept], axis=1)),
        )


class PairProbes:
    """Four vectors that show how each pair of a pairing changes, and whether anything else changes.

    The first has 1 in one column of each pair, the second in the other. They show every entry of a
    map that mixes only these two and keeps unpaired columns. The entries are exact if products with
    1 and sums with 0 are. The results of the other two vectors then follow. A further entry would
    add its column's number to them, minus the number of the pair that it was taken for. Numbers of
    any two pairs differ by a factor of four in one of the two vectors. Signs and fractions keep
    several such entries from cancelling.
    """

    def __init__(self, pairing: ColumnPairing, columns: int) -> None:
        first, second = list(pairing.first), list(pairing.second)
        self._others = list(pairing.others(columns))
        levels = math.isqrt(pairing.pairs - 1) + 1
        generator = np.random.default_rng(20)
        self.vectors = np.zeros((4, columns), np.float32)
        self.vectors[0, first] = self.vectors[1, second] = 1
        for vector, level, others in zip(
            self.vectors[2:], divmod(np.arange(pairing.pairs), levels), (0, levels), strict=True
        ):
            vector[first] = vector[second] = 4.0**level
            vector[self._others] = 4.0**others
            vector[:] *= generator.uniform(1, 1.25, columns) * generator.choice([-1, 1], columns)
        self._j = np.array([*first, *first, *second, *second])
        self._o = np.array([*pairing.out_first, *pairing.out_second] * 2)
        known = np.zeros(columns)
        known[self._j[self._j == self._o]] = np.nan  # the first two vectors show these entries
        known[self._others] = 1
        self._known_columns = np.flatnonzero(np.isfinite(known))
        self._known_values = known[self._known_columns]

    @np.errstate(all="ignore")  # infinite values and NaN count as differences
    def read(self, results: NumberArray) -> tuple[Entries, Flags]:
        """Return the entries at positions, and the positions at which all other entries are 0.

        ``results`` are those of the vectors, (positions, 4, columns).
        """
        half = self._o.size // 2
        out = self._o[:half]
        values = np.concatenate([results[:, probe].take(out, axis=1) for probe in (0, 1)], axis=1)
        size = np.abs(values).max(axis=1, keepdims=True, initial=1)
        exact = np.isfinite(size[:, 0])
        for probe in (2, 3):
            given = self.vectors[probe]
            first, second = given[self._j[:half]], given[self._j[half:]]
            off = values[:, :half] * first.astype(np.float64)
            off += values[:, half:] * second.astype(np.float64)
            off -= results[:, probe].take(out, axis=1)
            limit = _ROUNDINGS * np.finfo(results.dtype).eps * size
            exact &= (np.abs(off, out=off) <= limit * (np.abs(first) + np.abs(second))).all(axis=1)
            off = np.abs(results[:, probe, self._others] - given[self._others])
            exact &= (off <= limit * np.abs(given[self._others])).all(axis=1)
        j, o = (np.append(own, self._known_columns) for own in (self._j, self._o))
        known = np.broadcast_to(self._known_values, (len(results), self._known_columns.size))
        return Entries(np.concatenate([values, known], axis=1, dtype=values.dtype), j, o), exact


_ROUNDINGS = 2
"""Error in units in the last place of both products. The products and their sum contribute one, and
the factors, multiplied by an amplitude, another."""


def pairing_of(
    positions: Integers,
    matrices: UnitMatrices,
    reference: Reference,
) -> ColumnPairing:
    """Return a function's pairing of columns: the first known one that explains nearly all.

    If none does, each column is paired with the one that it mixes with most.
    """
    candidates = reference.likely_pairings(matrices.shape[1])
    finite = np.where(np.isfinite(matrices), matrices, 0)
    strays = [stray(finite, candidate) for candidate in candidates]
    best = int(np.argmin(strays))
    # This is more than the error of a half precision: no known pairing fits.
    if strays[best] > 1e-2:
        by_partners = _by_partners(positions, finite)
        if by_partners is not None and stray(finite, by_partners) < 0.5 * strays[best]:
            return by_partners
    # The reference's own pairing is kept if the rest is float32 rounding, or no other is nearer.
    return candidates[0 if strays[0] <= max(1e-3, 1.001 * strays[best]) else best]


def stray(matrices: UnitMatrices, pairing: ColumnPairing) -> float:
    """Return the largest part that neither rotates a pair nor scales an unpaired column."""
    _, mirrored, rest, passed = Entries.of(matrices).read_as(pairing)
    others = pairing.others(matrices.shape[1])
    become = matrices[:, :, others].astype(np.float64)  # (k, columns, others)
    sizes = np.einsum("kjj->k", become[:, others]) / max(len(others), 1)
    become[:, others] -= sizes[:, None, None] * np.eye(len(others))
    changed = np.linalg.norm(become, axis=(1, 2))
    return float(np.abs(mirrored).max(initial=0) + (rest - passed + changed).max(initial=0))


def _by_partners(positions: Integers, matrices: UnitMatrices) -> ColumnPairing | None:
    """Pair each column with the one that it mixes with most; None if these are not pairs.

    If the function also reorders columns, as position 0 shows, their order in the input counts.
    """
    out = _output_columns(positions, matrices)
    mixing = np.abs(matrices[:, :, out]).max(axis=0)  # (columns, columns)
    mixing = np.maximum(mixing, mixing.T)
    np.fill_diagonal(mixing, 0)
    partners = mixing.argmax(axis=1)
    # Smaller values are roundings of products that should be 0.
    moved = [j for j in range(partners.size) if mixing[j, partners[j]] > 1e-6]
    if not moved or any(partners[partners[j]] != j for j in moved):
        return None
    first = [j for j in moved if j < partners[j]]
    second = [int(partners[j]) for j in first]
    out_first, out_second = (tuple(out[columns].tolist()) for columns in (first, second))
    return ColumnPairing(tuple(first), tuple(second), out_first, out_second, None, None)


def _output_columns(positions: Integers, matrices: UnitMatrices) -> Integers:
    """Return the output column of each input column at position 0, which is not rotated."""
    columns = np.arange(matrices.shape[1])
    for matrix in np.abs(matrices[positions == 0][:1]):
        order: Integers = matrix.argmax(axis=1)
        permuted = np.eye(columns.size)[order]
        if (
            np.array_equal(np.sort(order), columns)
            and np.abs(matrix - permuted).max() < _SAME_COLUMN
        ):
            return order
    return columns


_SAME_COLUMN = 1e-2
"""Largest difference of an unrotated column from the input's, in a half precision."""
