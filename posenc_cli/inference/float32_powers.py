"""Frequencies that are numbers of float32 beside the nearest to the right ones.

A power that is computed in float32 errs by a few units in the last place, by which of them depends
on the library and the processor. So they are read from the subject: of the numbers next to the
right one, that which reproduces a pair best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Integers, Reals

UNITS = 8
"""In the last place: powers computed in float32 were measured to be right to this."""

_FEWEST = 8
"""Pairs that show the last place of their frequency: of fewer one ratio may fit all by chance."""


class Float32Powers(Record):
    """The numbers of float32 as whose multiples pairs turn. Shape: (pairs,).

    ``units`` are those in the last place that they are off by from the nearest to the right ones.
    ``ratio`` is the one number that they all may be of the right ones, if there is one.
    """

    numbers: Reals
    units: Integers
    ratio: float | None

    @property
    def off(self) -> Integers:
        """The pairs that are off."""
        return np.flatnonzero(self.units)


def float32_powers(sample: Sample, *, within: float, single_angles: bool) -> Float32Powers | None:
    """The numbers of float32 as whose multiples the pairs turn; None where all are the nearest.

    One that reproduces every cell of its pair to ``within`` is taken for it, the nearest first,
    else what comes nearest. With ``single_angles`` the multiples are rounded to float32 too.
    """
    right = sample.reference.frequencies
    nearest = right.astype(np.float32).view(np.int32)
    where = sample.reference.angle_positions(sample.positions).astype(np.float64)
    least = np.full(right.shape, np.inf)
    units = np.zeros(right.shape, np.int32)
    for unit in sorted(range(-UNITS, UNITS + 1), key=abs):
        numbers = (nearest + np.int32(unit)).view(np.float32).astype(np.float64)
        angles = where.reshape(sample.positions.size, -1) * np.where(right == 0, 0.0, numbers)
        if single_angles:
            angles = angles.astype(np.float32).astype(np.float64)
        missed = np.abs(sample.factors - sample.amplitude * np.exp(1j * angles))
        worst = np.where(sample.seen, missed, 0.0).max(axis=0)
        better = (least > within) & (worst < least)
        least[better] = worst[better]
        units[better] = unit
    if not units.any():
        return None
    numbers = np.where(right == 0, 0.0, (nearest + units).view(np.float32).astype(np.float64))
    half = np.spacing(np.abs(numbers).astype(np.float32)) / 2.0
    shown = (2 * half * np.abs(where).max(axis=0) > within) & (right != 0)
    ratio = None
    if np.count_nonzero(shown) >= _FEWEST and 2 * np.count_nonzero(units[shown]) > shown.sum():
        low, high = ((np.abs(numbers) + step) / np.abs(right) for step in (-half, half))
        low, high = low[shown].max(), high[shown].min()
        ratio = float((low + high) / 2) if low <= high else None
    return Float32Powers(numbers, units.astype(np.int64), ratio)
