"""Find errors that the tolerance hides because it grows with the angle: offsets and noise.

A frequency in float32 code has one relative error, the same at every position. The product of
position and frequency is rounded too. So the phases of a pair may drift by ε·|angle| with one ε,
and scatter by a few roundings of the angle. The tolerance of single entries must allow the largest
such ε. This module checks two more properties: one ε per pair must explain all its positions, and
the pairs must not err alike, as they do with an offset of positions but not with roundings.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.tolerance import PER_ANGLE, unit
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

FROM = 8192
"""The first position at which pairs may show a common offset. Before it the tolerance is below 0.01
of any amplitude, and a rounding may look like an offset."""

SCATTER = 3 * unit("float32")
"""Allowed scatter of the angle at each position: the position, the position divided by a factor,
and the product are rounded. Libraries need at most 0.95 of one rounding, as measured."""

NEAR_SCATTER = 5 * unit("float32")
"""The same before position `FROM`, where only gross errors of the angle are found: π taken as
3.14159 has an error of 14 roundings."""

NEAR_SHARE = math.e
"""The pairs that are checked there are at most this many times slower than the fastest. Code
computes their frequencies to 5 roundings even by repeated multiplication."""

ALIKE = 4.0
"""One offset must make the errors of all pairs this many times smaller. Float32 code with an error
in the base only, so that errors grow along the pairs, reaches 2."""

ONE_ROUNDING = 1.5 * unit("float32")
"""The largest common error that may be a position that was rounded once."""

_FEWEST = 4
"""Least number of pairs that must agree on an offset."""


class Fault(Record):
    """A deviation that rounding cannot explain: its position, pair, size and allowed size."""

    position: int
    pair: int
    value: float
    allowed: float


def frequency_slack(frequencies: Reals) -> Reals:
    """Return the largest relative error of each frequency in float32 code.

    A power is an exponential of a rounded logarithm of the frequency: errors of 1.2 roundings of it
    were measured. The frequency 1 is exact in any arithmetic.
    """
    with np.errstate(divide="ignore"):
        logarithms = np.abs(np.log(np.where(frequencies > 0, frequencies, 1.0)))
    return np.asarray(np.minimum(unit("float32") * (3 + 2 * logarithms), PER_ANGLE))


class Drift:
    """The relative errors that each pair's frequency may have, narrowed position by position."""

    def __init__(self, frequencies: Reals, floor: float) -> None:
        self.frequencies, self.floor = frequencies, floor
        self.farthest = 0
        near_fastest = frequencies * NEAR_SHARE >= frequencies.max(initial=0.0)
        self._fast: Integers = np.flatnonzero(near_fastest)
        slack = frequency_slack(frequencies)
        count = slack.size
        self.least: Reals = -slack
        self.most: Reals = slack.copy()
        self.least_at: Integers = np.full(count, -1)
        self.most_at: Integers = np.full(count, -1)
        self.weights: Reals = np.zeros(count)
        self.sums: Reals = np.zeros(count)

    def allows_all(self, deviation: float, farthest: int) -> bool:
        """Return whether errors of at most ``deviation`` leave no fault, whatever their pattern.

        They change angles by at most its arcsine. If that is within the floor, 0 remains a possible
        error of each frequency. An offset counts in pairs with ω · farthest · unit ≥ floor, from
        position `FROM`; so their errors are at most angle / (FROM · ω).
        """
        angle = 1.01 * deviation
        offset = angle * farthest * unit("float32")
        return angle <= min(self.floor, 0.1) and offset <= ONE_ROUNDING * FROM * self.floor

    def update(
        self,
        positions: Integers,
        factors: ComplexRows,
        right: ComplexRows,
        seen: Flags | None,
    ) -> None:
        """Add the factors (n, pairs) at some positions, and the right ones."""
        far = np.abs(positions) >= FROM
        near = ~far & (positions != 0)
        if near.any():
            few = None if seen is None else seen[near][:, self._fast]
            rest = factors[near][:, self._fast] * right[near][:, self._fast].conj()
            some = self._errors(positions[near], rest, few, self._fast, NEAR_SCATTER)
            self._narrow(*some, self._fast)
        if not far.any():
            return
        rows = slice(None) if far.all() else far
        seen = None if seen is None else seen[rows]
        every = np.arange(self.frequencies.size)
        rest = factors[rows] * right[rows].conj()  # (far, pairs)
        points, errors, slack = self._errors(positions[rows], rest, seen, every, SCATTER)
        weights = 1 / (slack * slack)
        self.weights += weights.sum(axis=0)
        self.sums += np.einsum("ij,ij->j", weights, errors)
        self.farthest = max(self.farthest, int(np.abs(points).max()))
        self._narrow(points, errors, slack, every)

    def _errors(
        self,
        positions: Integers,
        rest: ComplexRows,
        seen: Flags | None,
        pairs: Integers,
        scatter: float,
    ) -> tuple[Reals, RealRows, RealRows]:
        """Return the positions, the relative errors of angles, and the errors due to roundings.

        ``rest`` are the factors of these pairs divided by the right ones. Shapes: (n,), then (n,
        pairs).
        """
        frequencies = self.frequencies[pairs]
        points = positions.astype(np.float64)
        phases = np.angle(rest)
        rotating = frequencies != 0
        periods = np.where(rotating, 1 / np.where(rotating, frequencies, 1.0), 0.0)
        inverse = np.multiply.outer(1 / points, periods)  # (n, pairs), 1/angle
        errors = phases * inverse
        slack = np.abs(inverse) * self.floor
        slack += scatter
        if seen is not None or not rotating.all() or not np.isfinite(errors).all():
            known = rotating & np.isfinite(errors)
            if seen is not None:
                known &= seen
            errors = np.where(known, errors, 0.0)
            slack = np.where(known, slack, np.inf)
        return points, errors, slack

    def _narrow(self, points: Reals, errors: RealRows, slack: RealRows, pairs: Integers) -> None:
        """Narrow the errors of frequencies to those that these positions allow."""
        above = errors - slack
        columns = np.flatnonzero(above.max(axis=0) > self.least[pairs])
        if columns.size:
            rows = np.argmax(above[:, columns], axis=0)
            self.least[pairs[columns]] = above[rows, columns]
            self.least_at[pairs[columns]] = points[rows]
        below = np.add(errors, slack, out=above)
        columns = np.flatnonzero(below.min(axis=0) < self.most[pairs])
        if columns.size:
            rows = np.argmin(below[:, columns], axis=0)
            self.most[pairs[columns]] = below[rows, columns]
            self.most_at[pairs[columns]] = points[rows]

    def fault(self, scale: float) -> Fault | None:
        """Return a deviation that no rounding explains; None if there is none."""
        return self._offset_fault(scale) or self._scatter_fault(scale)

    def _scatter_fault(self, scale: float) -> Fault | None:
        """Return the fault of the pair that a single error of its frequency explains worst."""
        gaps = (self.least - self.most) * self.frequencies  # (pairs,)
        pair = int(np.argmax(gaps))
        if gaps[pair] <= 0:
            return None
        least, most = float(self.least[pair]), float(self.most[pair])
        low, high = int(self.least_at[pair]), int(self.most_at[pair])
        if high < 0 or (low >= 0 and abs(least) >= abs(most)):
            position, error = low, abs(least)
        else:
            position, error = high, abs(most)
        angle = abs(position) * float(self.frequencies[pair])
        alone = SCATTER * angle + self.floor
        value = error * angle + alone
        allowed = max(value - (least - most) * angle, alone)
        return Fault(position, pair, scale * value, scale * allowed)

    def _offset_fault(self, scale: float) -> Fault | None:
        """Return the fault of an offset that all pairs agree on; None if it may be chance."""
        known = self.weights > 0
        errors = np.where(known, self.sums / np.where(known, self.weights, 1), 0.0)
        # Pairs that rotate too little for an error of this size are no evidence.
        informative = known & (self.frequencies * self.farthest * unit("float32") >= self.floor)
        if informative.sum() < _FEWEST:
            return None
        common = float(np.median(errors[informative]))
        rest = np.abs(errors[informative] - common)
        if abs(common) <= ONE_ROUNDING or rest.max() > abs(common) / ALIKE:
            return None
        pair = int(np.flatnonzero(informative)[np.argmax(self.frequencies[informative])])
        angle = self.farthest * float(self.frequencies[pair])
        value = abs(common) * angle
        return Fault(
            self.farthest,
            pair,
            scale * value,
            scale * min(SCATTER * angle + self.floor, value / ALIKE),
        )
