"""The columns of a table, laid out so that one formula serves them all.

This module arranges the two factors of angle addition column by column, in the order of the output.
So cosines and sines, in half or interleaved layout, come out of the same passes over memory. It
also bounds the error of every column. If the columns are a cosine and a sine of each wave, the
factors are also stored as complex numbers, whose product is both entries at once.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.memory import LRUCache
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Flags,
        Integers,
        RealRows,
        Reals,
        StoredRows,
        StoredValues,
    )
    from posenc_cli.numerics.phasors import Phasors
    from posenc_cli.numerics.placements import Placement

UNIT = 2.0**-53
BATCHES_KEPT = 2
TILE_PAIRS = 1024  # long enough inner loops, and a tile that stays in the L1 cache
BATCH_FACTORS = 1 << 12
FIRST_MULTIPLES = 4


class Columns(Record):
    """Neighbouring or evenly spaced columns of the output, and the wave behind each.

    Shape: ``waves``, ``sine`` and ``zero`` (columns,); ``target`` selects them in the output.
    """

    target: slice
    waves: Integers
    sine: Flags
    zero: Flags

    @cached_property
    def key(self) -> tuple[bytes, bytes, bytes]:
        """Everything the tables of these columns depend on."""
        return self.waves.tobytes(), self.sine.tobytes(), self.zero.tobytes()

    @cached_property
    def placed(self) -> Placed:
        """The entries in the order of the columns."""
        return Placed(self)

    @cached_property
    def pairing(self) -> Pairing | None:
        """How the columns are a cosine and a sine of each wave, or None if they are not."""
        half, odd = divmod(self.waves.size, 2)
        if odd or half == 0 or self.zero.any():
            return None
        alternate = slice(0, None, 2), slice(1, None, 2)
        for first, second in (alternate, (slice(0, half), slice(half, None))):
            same_waves = (self.waves[first] == self.waves[second]).all()
            if same_waves and (self.sine[first] != self.sine[second]).all():
                return Pairing(first, second)
        return None

    def selected(self, index: Any) -> Columns:
        """Return some of these columns, by a NumPy index."""
        return Columns(self.target, self.waves[index], self.sine[index], self.zero[index])


class Pairing(Record):
    """Which columns are the first of each pair and which the second, in the same order."""

    first: slice
    second: slice

    def order(self, width: int) -> Integers:
        """Return the columns pair after pair: first and second of one, of the next, and so on.

        >>> Pairing(slice(0, 2), slice(2, None)).order(4)
        array([0, 2, 1, 3])
        """
        columns = np.arange(width)
        return np.stack([columns[self.first], columns[self.second]], axis=1).reshape(-1)


class Placed:
    """Entries of a table as they are computed, and the columns they belong to.

    ``columns`` are in the order of the entries: pair after pair with a ``pairing``, else unchanged.
    ``order`` gives the output column of each entry. ``in_order`` tells whether each entry goes to
    the next column.
    """

    def __init__(self, columns: Columns, pairing: Pairing | None = None) -> None:
        width = columns.waves.size
        self.order = np.arange(width) if pairing is None else pairing.order(width)
        self.columns = columns if pairing is None else columns.selected(self.order)
        self.in_order = pairing is None or pairing.first.step == 2
        self._pairing = pairing

    def place(self, bits: StoredValues, target: StoredRows) -> None:
        """Write the rounded entries of some rows to their columns; ``bits`` may be overwritten.

        A pair of numbers is handled as one integer. Cutting integers to half their width is faster
        than selecting every other number.
        """
        if self.in_order or self._pairing is None:
            target[...] = bits.reshape(target.shape)
            return
        pairs = bits.view(np.uint64).reshape(target.shape[0], -1)
        words = target.view(np.uint32)
        halves = self._pairing.first, self._pairing.second
        low, high = halves if sys.byteorder == "little" else halves[::-1]
        np.copyto(words[:, low], pairs, casting="unsafe")
        np.right_shift(pairs, 32, out=pairs)
        np.copyto(words[:, high], pairs, casting="unsafe")


def columns_of(placements: Sequence[Placement], *, width: int, waves: int) -> list[Columns]:
    """Return the columns the placements fill: one group if together they are a plain range.

    Shape: ``width`` is the number of output columns, ``waves`` the number of frequencies.
    Raises: ValueError: a placement whose number of columns differs from its number of waves.
    """
    wave = np.zeros(width, np.intp)
    sine, zero = np.zeros(width, bool), np.zeros(width, bool)
    owners = np.zeros(width, np.intp)
    groups = []
    for placement in placements:
        target = placement.columns
        count = len(range(width)[target])
        if placement.function == "zero":
            selected = np.zeros(count, np.intp)
        else:
            selected = np.arange(waves)[placement.waves]
            if selected.size != count:
                raise ValueError(f"{count} columns cannot hold {selected.size} waves")
        wave[target] = selected
        sine[target] = placement.function == "sin"
        zero[target] = placement.function == "zero"
        owners[target] += 1
        groups.append(
            Columns(target, wave[target].copy(), sine[target].copy(), zero[target].copy())
        )
    owned = np.flatnonzero(owners)
    if owned.size == 0:
        return []
    first, last = int(owned[0]), int(owned[-1]) + 1
    if (owners[first:last] == 1).all():
        target = slice(first, last)
        return [Columns(target, wave[target], sine[target], zero[target])]
    return groups


class Batch(Record):
    """U[a] and V[a] of some multiples a, bounds of their entries, and the smallest bound.

    Shape: (multiples, columns) each.
    """

    first: RealRows
    second: RealRows
    bounds: Reals
    least: float


class PairBatch(Record):
    """U[a] − i V[a] of the first columns, bounds of all entries by pair, and the smallest bound.

    Shape: ``high`` (multiples, pairs) complex; ``bounds`` (multiples, 2 · pairs).
    """

    high: ComplexRows
    bounds: Reals
    least: float


class High:
    """U[a] and V[a] of every column, and the data for bounds of its entries.

    Shape: ``first`` (X) and ``second`` (Y), which the entries take from the low table, are
    (offsets, columns).
    """

    def __init__(
        self, columns: Columns, phasors: Phasors, first: RealRows, second: RealRows
    ) -> None:
        self.columns = columns
        self.phasors = phasors
        self._reach_first = np.abs(first).max(axis=0)
        self._reach_second = np.abs(second).max(axis=0)
        rates = np.array([abs(float(frequency)) for frequency in phasors.frequencies] or [0.0])
        self._steps = rates[columns.waves] * phasors.rows
        # A wave of frequency 0 must not give −0.0.
        turning = np.array([bool(frequency) for frequency in phasors.frequencies] or [False])
        self._odd = columns.sine & turning[columns.waves]

    def high(self, multiples: Integers, negative: Flags | None = None) -> tuple[RealRows, RealRows]:
        """Return U[a] and V[a] of every column, with the signs of sines at negative positions.

        Shape: (multiples, columns) each.
        """
        return self._high_of(*self.phasors.high(multiples), negative)

    def _high_of(
        self, cosines: RealRows, sines: RealRows, negative: Flags | None
    ) -> tuple[RealRows, RealRows]:
        """Return U and V of every column from cosines and sines of the waves."""
        columns = self.columns
        first = np.take(cosines, columns.waves, axis=1)
        second = np.take(sines, columns.waves, axis=1)
        second[:, ~columns.sine] *= -1.0
        if negative is not None and negative.any():
            flipped = negative[:, None] & self._odd[None, :]
            first, second = np.where(flipped, -first, first), np.where(flipped, -second, second)
        first[:, columns.zero] = second[:, columns.zero] = 0.0
        return first, second

    def bounds(
        self, multiples: Integers, first: RealRows, second: RealRows, scale: float
    ) -> RealRows:
        """Return a bound of (|X U| + |Y V|) of every column, times 1 + 2^−30.

        It is at most the scale's magnitude, and as small as the entries if all angles are small.
        For larger angles, 2^−36 of the scale is added for the cancellation in double-double: u
        times that is 2^−89.

        Shape: (multiples, columns).
        """
        bound = self._reach_first * np.abs(first) + self._reach_second * np.abs(second)
        cancelling = (multiples[:, None] + 1.0) * self._steps > 0.5
        bound += np.where(cancelling & ~self.columns.zero, scale * 2.0**-36, 0.0)
        capped: RealRows = np.minimum(bound, scale)
        return capped * (1 + 2.0**-30)

    def located(self, multiple: int) -> tuple[int, int]:
        """Return the index of the batch that a multiple is in, and its place there.

        A table is filled one block at a time, and small arrays cost as much as large ones. So a few
        thousand factors, which the next blocks will need, are computed together. The first few
        multiples form their own batch: short tables need no more, and it holds the smallest angles.
        """
        return (-1, multiple) if multiple < FIRST_MULTIPLES else divmod(multiple, self._together)

    def multiples(self, index: int) -> Integers:
        """Return the multiples of a batch."""
        if index < 0:
            return np.arange(FIRST_MULTIPLES)
        return np.arange(index * self._together, (index + 1) * self._together)

    @property
    def _together(self) -> int:
        return max(1, BATCH_FACTORS // self.columns.waves.size)


class Factors(High):
    """X[b] and Y[b] of every column, for every b below ``rows`` or for the offsets given.

    Shape: ``first`` (X) and ``second`` (Y) are (offsets, columns), contiguous float64.
    """

    def __init__(self, columns: Columns, phasors: Phasors, offsets: Integers | None = None) -> None:
        self.first, self.second = _low(columns, phasors, offsets)
        super().__init__(columns, phasors, self.first, self.second)
        self._batches = LRUCache[Batch](BATCHES_KEPT)

    def batch(self, index: int, *, scale: float) -> Batch:
        """Return the high factors of the multiples of a batch."""

        def made() -> Batch:
            multiples = self.multiples(index)
            first, second = self.high(multiples)
            bounds = self.bounds(multiples, first, second, scale)
            return Batch(first, second, bounds, float(bounds.min()))

        return self._batches.get(index, made)


class Pairs(High):
    """The factors of column pairs as complex numbers: X + iY and U − iV of the first of each.

    Their product, (X U + Y V) + i (Y U − X V), is the entries of both. If the first is a cosine,
    they are cos α cos β − sin α sin β and sin α cos β + cos α sin β; if it is a sine, the other way
    round.

    Shape: ``low`` (rows, pairs), contiguous complex128; ``columns`` are the first of each pair.
    ``repeats`` is the number of rows of ``high`` in a tile.
    """

    def __init__(self, columns: Columns, pairing: Pairing, phasors: Phasors) -> None:
        self.placed = Placed(columns, pairing)
        heads = columns.selected(pairing.first)
        first, second = _low(heads, phasors, None)
        super().__init__(heads, phasors, first, second)
        self.low: ComplexRows = np.empty(first.shape, np.complex128)
        self.low.real, self.low.imag = first, second
        rows, pairs = first.shape
        # A power of two, as the number of rows is, so tiles divide the rows evenly.
        self.repeats = power_of_two(min(rows, TILE_PAIRS // pairs))
        self._batches = LRUCache[PairBatch](BATCHES_KEPT)

    def batch(self, index: int, *, scale: float) -> PairBatch:
        """Return the high factors of the multiples of a batch."""

        def made() -> PairBatch:
            multiples = self.multiples(index)
            first, second = self.high(multiples)
            high = np.empty(first.shape, np.complex128)
            high.real, high.imag = first, -second
            # The other entry of a pair swaps its two factors.
            both = [
                self.bounds(multiples, first, second, scale),
                self.bounds(multiples, second, first, scale),
            ]
            bounds = np.stack(both, axis=2).reshape(multiples.size, -1)
            return PairBatch(high, bounds, float(bounds.min()))

        return self._batches.get(index, made)


def power_of_two(limit: int) -> int:
    """Return the largest power of two up to ``limit``, at least 1.

    >>> power_of_two(1000), power_of_two(0)
    (512, 1)
    """
    return 1 << (max(1, limit).bit_length() - 1)


def _low(columns: Columns, phasors: Phasors, offsets: Integers | None) -> tuple[RealRows, RealRows]:
    """Return X[b] and Y[b] of every column."""
    return low_of(columns, *phasors.low(offsets))


def low_of(columns: Columns, cosines: RealRows, sines: RealRows) -> tuple[RealRows, RealRows]:
    """Return X and Y of every column from cosines and sines of the waves."""
    cosines = np.take(cosines, columns.waves, axis=1)
    sines = np.take(sines, columns.waves, axis=1)
    # np.where keeps rows contiguous; selecting columns with an index would store column by column.
    first = np.where(columns.sine, sines, cosines)
    second = np.where(columns.sine, cosines, sines)
    first[:, columns.zero] = second[:, columns.zero] = 0.0
    return first, second
