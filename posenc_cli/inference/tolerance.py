"""How far a right implementation may be from the exact values, and why.

Code that computes in float32 rounds each frequency and each product of position and frequency, so
the error of its angle grows with the angle: correct libraries show up to 7e-7 of it. A fixed
tolerance would fail them at long positions, or pass wrong code at short ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType
PER_ANGLE = 1e-6
"""Of the angle: correct float32 code was measured to need up to 7e-7."""

FUNCTIONS = 1e-6
"""Absolute, at amplitude 1: float32 cosines, sines and products of any library."""

MOST = 0.5
"""Of the amplitude: past it float32 positions and angles say too little to be called right."""

ARITHMETIC = 1e-15
"""Of the amplitude: what posenc's own comparison in float64 may show, a few of its roundings."""

ToleranceRule = Literal["auto", "strict"] | float


def real_format(stored: str) -> DType:
    """The number format of a file's real numbers, or of the parts of its complex ones.

    Integers are taken for float64, in which posenc reads them.
    """
    return REAL_DTYPES.get({"complex64": "float32"}.get(stored, stored), FLOAT64)


def unit(dtype: str) -> float:
    """The largest relative error of one rounding to a number format.

    Integers are taken for float64, in which posenc reads them.

    >>> unit("bfloat16") == 2.0**-8, unit("float32") == 2.0**-24
    (True, True)
    """
    known = REAL_DTYPES.get(dtype)
    return 2.0 ** -(53 if known is None else known.precision)


def smallest(dtype: str) -> float:
    """The smallest number above 0 of a number format, below which roundings are no smaller.

    >>> smallest("float32") == 2.0**-149, smallest("float64")
    (True, 5e-324)
    """
    known = REAL_DTYPES.get(dtype, FLOAT64)
    return 2.0 ** (known.min_exponent - known.precision + 1)


class Tolerance(Record):
    """What a subject may deviate by: ``floor`` everywhere, and ``per_angle`` of the angle.

    That share is at most ``most``: where it would be more, a check could not fail.

    ``fixed`` takes the place of both where the user gave a number: it bounds what a finding
    reports, whatever the finding measures.
    """

    floor: float
    per_angle: float
    reason: str
    fixed: float | None = None
    most: float = math.inf

    @classmethod
    def of(
        cls,
        rule: ToleranceRule,
        *,
        dtype: str,
        roundings: int,
        amplitude: float,
        of_frequencies: bool = False,
    ) -> Tolerance:
        """The tolerance of values of size ``amplitude`` that were rounded so often to ``dtype``.

        Frequencies that were stored have no cosines yet: their format is no excuse.
        """
        rounding, least = roundings * unit(dtype), roundings * smallest(dtype)
        if rule == "strict":
            if of_frequencies:
                per_angle = min(unit(dtype), unit("float32"))
                return cls(4e-15, per_angle, f"strict: each frequency rounded once to {dtype}")
            floor = max(amplitude * (rounding + ARITHMETIC), least)
            return cls(floor, 0.0, f"strict: {_roundings_text(roundings)} to {dtype}")
        half = 0.0 if of_frequencies or unit(dtype) <= unit("float32") else rounding
        floor = max(amplitude * (FUNCTIONS + half), least)
        reason = f"{PER_ANGLE:g} of the angle (float32 products) + {FUNCTIONS:g} (cos and sin)"
        if half:
            reason += f" + {_roundings_text(roundings)} to {dtype}"
        fixed = None if rule == "auto" else float(rule)
        if fixed is not None:
            reason = "given"
        return cls(floor, amplitude * PER_ANGLE, reason, fixed, MOST * amplitude)

    @property
    def drifts(self) -> bool:
        """Whether it grows with the angle, so that what it grants is to be looked at once more."""
        return self.fixed is None and self.most < math.inf

    def cells(self, positions: Integers, frequencies: Reals) -> RealRows:
        """What each pair may deviate by at each position.

        ``positions`` are (positions,), or (positions, pairs) where pairs follow axes of their own.

        Shape: (positions, pairs), or (1, 1) where it is the same everywhere.
        """
        if self.fixed is not None:
            return np.full((1, 1), self.floor)
        angles = np.abs(positions).astype(np.float64) * self.per_angle
        allowed: RealRows = angles.reshape(angles.shape[0], -1) * np.abs(frequencies)
        np.minimum(allowed, self.most, out=allowed)
        allowed += self.floor
        return allowed


def _roundings_text(roundings: int) -> str:
    return "one rounding" if roundings == 1 else f"{roundings} roundings"
