"""One result of a function, read block by block: what it does to pairs at each position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.turning import ColumnPairing, PositionRows, SubjectBlock, Turning
from posenc_cli.records import Record
from posenc_cli.rotary.codes import SubjectKind
from posenc_cli.rotary.subject import Subject
from posenc_cli.rotary.unit_pairings import Entries, pairing_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.answers import Returned
    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals, UnitMatrices
    from posenc_cli.rotary.unit_pairings import PairProbes

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

    @property
    def parts(self) -> tuple[NumberArray, NumberArray, Reals, Reals]:
        return self.turned, self.mirrored, self.rest, self.passed

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
        self._own = own
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
        """Whether all that was read of another result is what was read of this."""
        return (self._dtype, self._conduct, self.pairing) == (
            other._dtype,
            other._conduct,
            other.pairing,
        ) and all(
            np.array_equal(one, another)
            for own, its in zip(self._caches, other._caches, strict=True)
            for one, another in zip(own.parts, its.parts, strict=True)
        )

    @property
    def pairing(self) -> ColumnPairing:
        """How it pairs columns."""
        return self._own

    def take(
        self, rows: Integers, results: NumberArray, probes: PairProbes | None = None
    ) -> Integers:
        """Keep what becomes of the vectors of ``probes`` at some rows, or of all unit vectors.

        Given are the rows that probes alone do not show: they are to be taken again.
        """
        entries, exact = (Entries.of(results), None) if probes is None else probes.read(results)
        for cache in self._caches:
            for part, read in zip(cache.parts, entries.read_as(cache.pairing), strict=True):
                part[rows] = read
        if not np.isfinite(self._caches[0].turned[rows]).all():
            self._infinite |= bool(np.isinf(results).any())
        return rows[:0] if exact is None else rows[~exact]

    def subject(self, target: str, *, both: bool) -> Subject:
        """The subject that they are; ``both`` says that q and k were looked at."""
        turnings = [cache.turning(self._places, self._dtype) for cache in self._caches]
        mismatch = None
        if self._own.pairs != self._reference.pairs:
            # More of them may have changed places alone.
            turn = "change" if self._own.pairs > self._reference.pairs else "rotate"
            right = 2 * self._reference.pairs
            mismatch = f"{2 * self._own.pairs} dimensions {turn}; the reference rotates {right}"
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
