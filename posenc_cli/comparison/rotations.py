"""How two rotations differ: pair by pair, in amplitude, and in which dimensions form a pair."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.formulas.declare import Rotation


_PLACES = 1 << 20
"""Positions whose places are compared: those of any grid that an image has."""


class Pair(Record):
    """A pair of dimensions that two rotations rotate at different speeds (radians per position).

    Frequencies are correctly rounded to float64. A pair that stands still has the frequency 0.
    """

    index: int
    a: float
    b: float

    @property
    def wavelengths(self) -> tuple[float, float]:
        """Positions per turn, infinite for a pair that stands still."""
        first, second = (math.inf if f == 0 else 2 * math.pi / abs(f) for f in (self.a, self.b))
        return first, second

    @property
    def ratio(self) -> float:
        """How many times longer b's wavelength is than a's."""
        return math.inf if self.b == 0 else self.a / self.b

    @property
    def apart(self) -> float:
        """The factor, at least 1, by which the wavelengths differ; infinite if one is."""
        return max(abs(self.ratio), 1 / abs(self.ratio)) if self.ratio else math.inf


class RotationDifference(Record):
    """How rotation b differs from a of as many pairs.

    ``pairs`` are those whose frequencies differ. ``scales`` multiply cosines and sines of a and b,
    and so logits by their squares. ``layouts`` name the dimensions of a pair, ``alike`` says
    whether these and the axes that pairs follow are the same.
    """

    count: int
    pairs: tuple[Pair, ...]
    scales: tuple[float, float]
    layouts: tuple[str, str]
    alike: bool

    @property
    def worst(self) -> Pair | None:
        """The pair whose wavelengths differ by the largest factor."""
        return max(self.pairs, key=lambda pair: pair.apart, default=None)

    @property
    def max_abs(self) -> float:
        """The largest difference of two frequencies."""
        return max((abs(pair.a - pair.b) for pair in self.pairs), default=0.0)

    @property
    def counts_units(self) -> bool:
        """Whether ``max_ulp`` says anything: beside 0 it counts all numbers."""
        return self.max_ulp < 2.0**52

    @property
    def max_ulp(self) -> float:
        """The largest difference of two frequencies in units in the last place of float64."""
        sizes = ((pair, max(abs(pair.a), abs(pair.b))) for pair in self.pairs)
        return max(
            (abs(pair.a - pair.b) / (size - math.nextafter(size, 0)) for pair, size in sizes),
            default=0.0,
        )

    def within(self, tolerance: float) -> bool:
        """Whether frequencies and amplitudes are relatively no further apart than that."""
        numbers = [(pair.a, pair.b) for pair in self.pairs] + [self.scales]
        return self.alike and all(abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in numbers)


def rotation_difference(a: Rotation, b: Rotation) -> RotationDifference:
    """The difference of two rotations.

    Raises: InvalidInput when they have different numbers of pairs, amplitudes that change with
    the position, or pairs with no one frequency.

    >>> from posenc_cli.catalogue import find
    >>> plain, linear = (find(name).bind({"dim": 4}).content for name in ("rope", "rope-linear"))
    >>> [(pair.index, pair.ratio) for pair in rotation_difference(plain, linear).pairs]
    [(0, 4.0), (1, 4.0)]
    """
    if a.waves.count != b.waves.count:
        raise InvalidInput(
            f"the shapes differ: {a.waves.count} and {b.waves.count} pairs",
            hint="--dim is the number of rotated dimensions",
        )
    if a.waves.growth is not None or b.waves.growth is not None:
        raise InvalidInput(
            "an amplitude that changes with the position can only be compared at given positions",
            hint="--len N",
        )
    if any(of.waves.coordinates is not None and of.waves.coordinates.oblique for of in (a, b)):
        raise InvalidInput(
            "pairs that rotate with row and column at once can only be compared at given positions",
            hint="--len N",
        )
    frequencies = [[float(f) for f in rotation.waves.frequencies(exact)] for rotation in (a, b)]
    return RotationDifference(
        count=a.waves.count,
        pairs=tuple(
            Pair(index, f, g)
            for index, (f, g) in enumerate(zip(*frequencies, strict=True))
            if f != g
        ),
        scales=(float(a.waves.scale), float(b.waves.scale)),
        layouts=(a.layout, b.layout),
        alike=(a.layout, a.blocks) == (b.layout, b.blocks) and _same_axes(a, b),
    )


def _same_axes(a: Rotation, b: Rotation) -> bool:
    """Whether pairs follow the same axes, and positions lie at the same places on them."""
    first, second = a.waves.coordinates, b.waves.coordinates
    if first is None or second is None:
        return first is second
    if first.axes != second.axes or first.file != second.file:
        return False
    places = [
        coordinates.capacity and coordinates.capacity.positions for coordinates in (first, second)
    ]
    if places[0] != places[1] or first.at is None or second.at is None:
        return places[0] == places[1] and first.at is second.at
    import numpy as np

    where = np.arange(min(places[0] or _PLACES, _PLACES))
    return all(np.array_equal(x, y) for x, y in zip(first.at(where), second.at(where), strict=True))
