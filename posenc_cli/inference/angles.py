"""What code does to angles before it takes their cosines: it reduces them, or rounds them.

Reduced by a number that is near a turn and not one, an angle errs by as much as that number misses
a turn, times the turns that were taken off. Rounded to steps, it errs by half a step at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import RealRows

_PIS = (
    "3.14159", "3.1416", "3.14", "3.141592", "3.1415", "3.1415926", "3.141593", "3.141", "3.142",
    "22/7", "355/113", "3.140625", "3.1415927410125732", "3.1415927",
)  # fmt: skip
"""What is taken for π: its first digits, fractions, and what half precisions and float32 make of
it."""

_STEPS_OF_A_TURN = (360, 720, 3600, 1000, *(2**power for power in range(6, 17)))
"""Lengths of tables in which cosines are looked up."""

_DIGITS = range(1, 7)
"""After the point, to which angles are rounded."""

_BITS = range(6, 17)
"""After the point, of angles in fixed point."""


class AngleChange(Record):
    """What angles become, in words: multiples of ``step``, or what these leave over of angles.

    The latter where ``taken_for`` says which part of a turn the step was taken for, and rounded
    to a half precision with ``half``. ``down`` says that the multiple below is taken, not the
    nearest one.
    """

    name: str
    step: float
    down: bool
    taken_for: float | None = None
    half: str | None = None

    def changed(self, angles: RealRows) -> RealRows:
        """The angles (n, pairs) as they become."""
        multiples = np.floor(angles / self.step) if self.down else np.rint(angles / self.step)
        if self.half is not None:
            return round_to_half(angles - multiples * self.step, self.half)
        if self.taken_for is None:
            return np.asarray(multiples * self.step, np.float64)
        return np.asarray(angles + multiples * (self.taken_for - self.step), np.float64)


def angle_changes() -> Iterator[AngleChange]:
    """What is tried, the likeliest first."""
    for pi in _PIS:
        numerator, _, denominator = pi.partition("/")
        value = float(numerator) / float(denominator or 1)
        for part in (2.0, 1.0, 0.5):
            for down in (False, True):
                name = f"reduced by multiples of π, taken for {pi}"
                yield AngleChange(name, part * value, down, part * math.pi)
    for half in HALVES:
        for down in (False, True):
            name = f"reduced by whole turns, and rounded to {half}"
            yield AngleChange(name, 2 * math.pi, down, 2 * math.pi, half)
    for down in (False, True):
        how = "rounded down" if down else "rounded"
        for count in _STEPS_OF_A_TURN:
            name = f"{how} to {count} steps of a turn, as for a table that is looked up in"
            yield AngleChange(name, 2 * math.pi / count, down)
        for digits in _DIGITS:
            yield AngleChange(f"{how} to multiples of 1e-{digits}", 10.0**-digits, down)
        for bits in _BITS:
            yield AngleChange(f"{how} to multiples of 2^-{bits}", 2.0**-bits, down)
