"""Points on the unit circle, exp(i · n · frequency), at every integer n from a few small tables.

This module makes the double-double tables behind :mod:`posenc_cli.numerics.waves`. A position is
split into digits, n = Σ digit_k · 2^shift_k, and exp(i n ω) = Π exp(i digit_k 2^shift_k ω). Each
digit has one table of at most 32 rows. The first digits make the low part b of n = a · R + b, 0 ≤ b
< R; the others make the high part a. Every value is a function of n, the frequencies and the scale
alone, and does not depend on earlier requests.

Error. A row of a digit table carries j ≤ 31 of its anchor's errors and fewer than 31 products, and
a position up to 2^53 has at most 12 digits. That is fewer than 12 · 31 + 12 products of unit
factors and the scale, each off by at most 2^−101 in modulus, and anchors accurate to 2^−106. The
total is below 2^−92. While n · |ω| ≤ 1/2 no product cancels, and the same bounds hold relative to
each part, up to a factor below 2. That factor is the product of cos(α − β) / cos(α + β) over the
chain. The margins of the rounding tests leave room for it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.double_double import complex_product, product
from posenc_cli.numerics.fixed_point import doublings, fixed, two_floats
from posenc_cli.numerics.memory import LRUCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from posenc_cli.numerics.arrays import DigitTable, Integers, RealRows

POSITION_BITS = 54  # so that 2^53 itself is included
DIGIT_BITS = 5
LOW_TABLE_BYTES = 1 << 20
KEPT_BYTES = 1 << 16  # of a table shared by others with the same frequencies; up to 64 are kept

Doubling = tuple[int, int, int]
Parts = tuple[Any, Any, Any, Any]

_kept = LRUCache["DigitTable"](64)


class Phasors:
    """exp(i n ω) for a list of frequencies ω, in radians per position, and positions n ≥ 0.

    ``rows`` is R, the number of positions of the low table. It is a power of two that depends only
    on the number of frequencies, so the values depend on nothing else.
    """

    def __init__(self, frequencies: Sequence[Decimal], *, scale: Decimal) -> None:
        self.frequencies = tuple(frequencies)
        self.scale = scale
        count = max(1, len(self.frequencies))
        low_bits = max(DIGIT_BITS, min(10, (LOW_TABLE_BYTES // (16 * count)).bit_length() - 1))
        self.rows = 1 << low_bits
        first = min(DIGIT_BITS, low_bits)
        # (shift, bits) of each digit, the lowest first
        self._digits = [(0, first)]
        if low_bits > first:
            self._digits.append((first, low_bits - first))
        self._low_digits = len(self._digits)
        self._digits.extend(
            (shift, min(DIGIT_BITS, POSITION_BITS - shift))
            for shift in range(low_bits, POSITION_BITS, DIGIT_BITS)
        )
        self._scale = two_floats(*fixed(scale))
        self._lock = threading.RLock()
        self._doublings: list[tuple[Iterator[Doubling], list[Doubling]]] = [
            (doublings(frequency), []) for frequency in self.frequencies
        ]
        self._tables = LRUCache["DigitTable"](len(self._digits))
        self._low: tuple[RealRows, RealRows] | None = None

    def _table(self, digit: int) -> DigitTable:
        """Return the table of a digit: 4 parts × rows × frequencies."""
        return self._tables.get(digit, lambda: self._shared(*self._digits[digit]))

    def _shared(self, shift: int, bits: int) -> DigitTable:
        if 32 * len(self.frequencies) << bits > KEPT_BYTES:
            return self._grown(shift, bits)
        return _kept.get((self.frequencies, shift, bits), lambda: self._grown(shift, bits))

    def _grown(self, shift: int, bits: int) -> DigitTable:
        table = np.zeros((4, 1 << bits, len(self.frequencies)))
        table[0, 0] = 1.0
        table[:, 1] = self._anchor(shift)
        filled = 2
        while filled < 1 << bits:
            half = table[:, filled // 2]
            # Row (filled / 2) squared is row ``filled``; times the rows before it, it gives the
            # next rows.
            top = complex_product(tuple(half), tuple(half))
            table[:, filled] = top
            rest = table[:, 1:filled]
            step = tuple(part[None, :] for part in top)
            table[:, filled + 1 : 2 * filled] = complex_product(step, tuple(rest))
            filled *= 2
        table.flags.writeable = False
        return table

    def _anchor(self, shift: int) -> RealRows:
        anchor = np.empty((4, len(self.frequencies)))
        for column, (states, known) in enumerate(self._doublings):
            # Keep the values produced: a build that was interrupted may begin again.
            while len(known) <= shift:
                known.append(next(states))
            cosine, sine, bits = known[shift]
            anchor[:, column] = *two_floats(cosine, bits), *two_floats(sine, bits)
        return anchor

    def _product(self, digits: range, values: Integers, wave: Any = slice(None)) -> Parts:
        """Return the product of the tables' rows that ``values`` select, lowest digit first.

        A digit that is 0 throughout is left out, which changes nothing: its factor is exactly 1.
        """
        origin = self._digits[digits.start][0]
        parts: Parts | None = None
        for digit in digits:
            shift, bits = self._digits[digit]
            rows = (values >> (shift - origin)) & ((1 << bits) - 1)
            if parts is None or rows.any():
                table = self._table(digit)
                selected = table[:, rows] if isinstance(wave, slice) else table[:, rows, wave]
                factor: Parts = tuple(selected)
                parts = factor if parts is None else complex_product(parts, factor)
        assert parts is not None
        return parts

    def _scaled(self, parts: Parts) -> Parts:
        if self.scale == 1:
            return parts
        return *product(parts[:2], self._scale), *product(parts[2:], self._scale)

    @property
    def scale_parts(self) -> tuple[float, float]:
        """The scale in double-double: its high and its low part."""
        high, low = self._scale
        return float(high), float(low)

    def digit_table(self, shift: int, bits: int) -> DigitTable:
        """Return exp(i · digit · 2^shift · ω) for the digits of ``bits`` bits, without the scale.

        Shape: (4, 2^bits, frequencies): cos high, cos low, sin high, sin low.
        """
        if (shift, bits) in self._digits:
            return self._table(self._digits.index((shift, bits)))
        return self._shared(shift, bits)

    def low(self, offsets: Integers | None = None) -> tuple[RealRows, RealRows]:
        """Return cos and sin of b · ω as float64, for the given b < ``rows`` or for all of them.

        Shape: (offsets, frequencies) each.
        """
        if offsets is not None and self._low is None:
            parts = self._product(range(self._low_digits), offsets)
            return parts[0], parts[2]
        if self._low is None:
            with self._lock:
                if self._low is None:
                    cosines, sines = self._all_low((0, 2))
                    cosines.flags.writeable = sines.flags.writeable = False
                    self._low = cosines, sines
        return self._low if offsets is None else (self._low[0][offsets], self._low[1][offsets])

    def low_pairs(self, offsets: Integers | None = None) -> Parts:
        """Return cos and sin of b · ω in double-double: cos high, cos low, sin high, sin low.

        Shape: (offsets, frequencies) each.
        """
        if offsets is not None:
            return self._product(range(self._low_digits), offsets)
        cosines, cosines_low, sines, sines_low = self._all_low((0, 1, 2, 3))
        return cosines, cosines_low, sines, sines_low

    def _all_low(self, chosen: tuple[int, ...]) -> list[RealRows]:
        """Return the ``chosen`` parts of all rows of the low table."""
        lowest = self._table(0)
        if self._low_digits == 1:
            return [lowest[part].copy() for part in chosen]
        tables = [np.empty((self.rows, len(self.frequencies))) for _ in chosen]
        # Each row of the second digit rotates all rows of the first, a few thousand numbers at a
        # time: the temporaries of a product stay in cache.
        turns = self._table(1)
        rows, count = lowest.shape[1:]
        step = max(1, 8192 // max(1, rows * count))
        for start in range(0, turns.shape[1], step):
            some = turns[:, start : start + step, None]
            parts = complex_product(tuple(lowest), tuple(some))
            size = some.shape[1] * rows
            for table, part in zip(tables, chosen, strict=True):
                table[start * rows : start * rows + size] = parts[part].reshape(size, count)
        return tables

    def high(self, multiples: Integers) -> tuple[RealRows, RealRows]:
        """Return scale · cos and scale · sin of a · ``rows`` · ω as float64, for the given a ≥ 0.

        Shape: (multiples, frequencies) each.
        """
        parts = self.high_pairs(multiples)
        return parts[0], parts[2]

    def high_pairs(self, multiples: Integers) -> Parts:
        """Return the values of `high` in double-double: cos high, cos low, sin high, sin low.

        Shape: (multiples, frequencies) each.
        """
        if not multiples.any():  # their factors are exactly 1: no table is needed
            ones = np.ones((multiples.size, len(self.frequencies)))
            return self._scaled((ones, 0 * ones, 0 * ones, 0 * ones))
        lowest = self._low_digits
        # Neighbours share all digits but the lowest, so compute the product of the others once.
        others, place = np.unique(multiples >> DIGIT_BITS, return_inverse=True)
        parts: Parts = tuple(self._table(lowest)[:, multiples & ((1 << DIGIT_BITS) - 1)])
        if others.any():
            shared = self._product(range(lowest + 1, len(self._digits)), others)
            parts = complex_product(parts, tuple(part[place] for part in shared))
        return self._scaled(parts)

    def points(self, positions: Integers, waves: Integers | None = None) -> Parts:
        """Return scale · exp(i n ω) in double-double, for pairs of a position n ≥ 0 and a wave.

        Without ``waves`` each position is paired with all of them.

        Shape: (pairs,) or (positions, waves) each: cos high, cos low, sin high, sin low.
        """
        every = slice(None) if waves is None else waves
        return self._scaled(self._product(range(len(self._digits)), positions, every))
