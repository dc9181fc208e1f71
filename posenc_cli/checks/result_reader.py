"""One result of a function, read block by block: what it does to unit vectors at each position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.codes import SubjectKind
from posenc_cli.checks.subject import Subject
from posenc_cli.checks.unit_pairings import pairing_of, read_as
from posenc_cli.inference.turning import ColumnPairing, PositionRows, SubjectBlock, Turning
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.answers import Returned
    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals, UnitMatrices

_LARGE = 1 << 15
"""Positions from which factors are kept in single precision, which holds float32 results."""


@dataclass
class _CallCache:
    """What is kept of a function's matrices, under one pairing."""

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

    def turning(self, places: PositionRows, dtype: str) -> Turning:
        mirrors, strays = bool(np.any(self.mirrored)), bool(np.any(self.rest))

        def read(rows: SomeRows) -> SubjectBlock:
            return SubjectBlock(
                places.at(rows),
                self.turned[rows].astype(np.complex128),
                self.mirrored[rows].astype(np.complex128) if mirrors else None,
                self.rest[rows] if strays else None,
                self.passed[rows] if strays else None,
            )

        return Turning(places, self.pairing.pairs, dtype, 3, self.pairing, read)


class Conduct(Record):
    """How a result of a function behaves: the patterns it was called in or not, and what is wrong.

    ``returned_half`` is the half precision that all it returns has, ``length_note`` what to note
    of how it depends on the length.
    """

    patterns: tuple[str, ...]
    untried: tuple[str, ...]
    irregular: tuple[Irregularity, ...]
    broken: tuple[str, ...]
    returned_half: str | None
    length_note: str


class ResultReader:
    """One result of a function, read block by block."""

    def __init__(
        self,
        reference: Reference,
        places: PositionRows,
        sample: tuple[Integers, Returned],
        conduct: Conduct,
        near: Callable[[], UnitMatrices],
    ) -> None:
        positions, returned = sample
        self._reference, self._places, self._dtype = reference, places, returned.dtype
        self._conduct = conduct
        own = pairing_of(positions, returned.values, reference, near)
        self._own, self._sample = own, returned.values
        pairings = [own]
        if own.layout != reference.content.layout and own.pairs == reference.pairs:
            pairings.append(reference.pairing)
        single = places.count > _LARGE and returned.dtype != "float64"
        self._kind = np.complex64 if single else np.complex128
        self._pairings = pairings
        self._infinite = False

    @cached_property
    def _caches(self) -> list[_CallCache]:
        count = self._places.count
        return [_CallCache.empty(pairing, count, self._kind) for pairing in self._pairings]

    def like(self, other: ResultReader) -> bool:
        """Whether what is known of another result before it is read is what is known of this."""
        return np.array_equal(self._sample, other._sample) and (
            self._dtype,
            self._conduct,
        ) == (other._dtype, other._conduct)

    def take_over(self, other: ResultReader, rows: slice) -> None:
        """Keep of some rows what another result showed, which was the same."""
        for own, cache in zip(self._caches, other._caches, strict=True):
            own.turned[rows], own.mirrored[rows] = cache.turned[rows], cache.mirrored[rows]
            own.rest[rows], own.passed[rows] = cache.rest[rows], cache.passed[rows]
        self._infinite = other._infinite

    def take(self, rows: slice, matrices: UnitMatrices) -> None:
        """Keep what the matrices of some rows show."""
        for cache in self._caches:
            cache.turned[rows], cache.mirrored[rows], cache.rest[rows], cache.passed[rows] = (
                read_as(matrices, cache.pairing)
            )
        if not np.isfinite(self._caches[0].turned[rows]).all():
            self._infinite |= bool(np.isinf(matrices).any())

    def subject(self, target: str, *, both: bool) -> Subject:
        """The subject that they are; ``both`` says that q and k were looked at."""
        turnings = [cache.turning(self._places, self._dtype) for cache in self._caches]
        mismatch = None
        if self._own.pairs != self._reference.pairs:
            # More of them may have changed places alone.
            turn = "change" if self._own.pairs > self._reference.pairs else "turn"
            columns = 2 * self._own.pairs
            mismatch = f"{columns} columns {turn}, {2 * self._reference.pairs} of the reference"
        both_note = "q and k were both checked" if both else ""
        return Subject(
            SubjectKind.IMPL,
            target,
            turnings[0],
            None if mismatch else turnings[-1],
            mismatch,
            broken=self._conduct.broken,
            irregular=self._conduct.irregular,
            notes=tuple(filter(None, (both_note, self._conduct.length_note))),
            call={
                "patterns": list(self._conduct.patterns),
                "untried": list(self._conduct.untried),
            },
            infinite=self._infinite,
            returned_half=self._conduct.returned_half,
        )
