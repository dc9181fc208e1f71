"""Bound the error of a right implementation, and say why.

Code that computes in float32 rounds each frequency and each product of position and frequency, so
the error of an angle grows with the angle: correct libraries show up to 7e-7 of it. A fixed
tolerance would reject them at long positions, or accept wrong code at short ones.

The two stricter rules, float32 and float64, have bounds that follow from roundings alone. Let
u = 2^-24 and v = 2^-53 be the largest relative errors of one rounding to float32 and float64, θ a
frequency, p a position, and (c, s) the cosine and sine of an angle as a vector of length 1. An
angle error ε moves that vector by at most ε, and relative errors δ of both values move it by at
most δ.

**float32** is one product in float32 of a position and the correctly rounded float32 frequency, and
its cosine and sine in float32. The frequency is θ(1 + δ₁). The position is p(1 + δ₂), with δ₂ = 0
up to 2^24 and wherever float32 holds it. The product is rounded once more, so the angle is
pθ(1 + δ₁)(1 + δ₂)(1 + δ₃) with |δ| ≤ u. Its error is at most (2u + u²)|pθ|, and past 2^24
(3u + 3u² + u³)|pθ|, which 2u(1 + 2u) and three halves of it bound. NumPy, glibc, SLEEF, MKL and
CUDA state at most 2 units in the last place for a cosine, a relative error of at most 4u. Later
roundings are counted in ``roundings``: an attention factor, the products and the sum that rotate a
vector, a narrower format. This rule rejects a frequency from a float32 power, which has more than
one rounding, and a position that was divided by a factor.

**float64** is the same chain in float64, rounded to the stored format at its end. A frequency is a
power base^(−e). Its exponent e is a quotient, rounded once, and that error is multiplied by ln θ;
the power and the reciprocal err by at most 3v. So the error of θ is at most (3 + 2|ln θ|)v, and
that of the product v more: below 128v for every frequency down to e^-62. Ramps between two
frequencies add to that; the largest error among the models of posenc was 18v, for YaRN's ramp
without rounded ends. Cosine, sine and attention factor err by a few v, which :data:`ARITHMETIC`
covers.

**exact** is the correctly rounded value: each value errs by one rounding to its format.

**float16** and **bfloat16** are correct float32 code whose values were rounded to that format and
stored in a wider one. With u = 2^-11 or 2^-8, a rounding moves a value by at most u of itself, and
so (c, s) by at most u of its length. The floor is ``roundings`` times that. A smaller error looks
like a rounding: a coarser table, or an attention factor with an error below u. Frequencies get no
such allowance, since the effect of rounding them grows with the position.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES, DType
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals
UNREDUCED, UNREDUCED_FULL = "unreduced-angles", "unreduced-angles-full"
"""Tables of position × frequency, with one column per pair, or repeated as the layout repeats it.
posenc does not write such tables, but most code computes them before the cosines."""

PER_ANGLE = 1e-6
"""Relative error of the angle: correct float32 code was measured to need up to 7e-7."""

FUNCTIONS = 1e-6
"""Absolute error at amplitude 1: float32 cosines, sines and products of any library."""

MOST = 0.5
"""Largest allowed error at amplitude 1. Beyond it, float32 positions and angles show too little to
be accepted."""

ARITHMETIC = 1e-15
"""Error at amplitude 1 of posenc's own comparison in float64: a few roundings."""

SINGLE_ANGLE = 2 * 2.0**-24 * (1 + 2 * 2.0**-24)
"""Relative error of the angle: a float32 frequency and one float32 product, each rounded once."""

SINGLE_FUNCTIONS = 4 * 2.0**-24
"""Error at amplitude 1 of float32 cosines and sines within 2 units in the last place."""

SINGLE_WHOLE = 2**24
"""The position beyond which float32 does not hold all whole numbers."""

DOUBLE_ANGLE = 128 * 2.0**-53
"""Relative error of the angle: float64 frequencies and products."""

_OWN_ROTATIONS = 4e-15
"""Error of posenc's own rotations by given frequencies, at amplitude 1."""

HALF_RULES: tuple[Literal["float16", "bfloat16"], ...] = ("float16", "bfloat16")
"""Rules for values that were rounded to a format and stored in a wider one, the stricter first."""

RULES = ("auto", "float32", "float64", "exact", *HALF_RULES)
"""The names of the rules."""

ToleranceRule = Literal["auto", "float32", "float64", "exact", "float16", "bfloat16"] | float


def real_format(stored: str) -> DType:
    """Return the number format of a file's real numbers, or of the parts of its complex ones.

    Integers count as float64, in which posenc reads them.
    """
    return REAL_DTYPES.get({"complex64": "float32"}.get(stored, stored), FLOAT64)


def unit(dtype: str) -> float:
    """Return the largest relative error of one rounding to a number format.

    Integers count as float64, in which posenc reads them.

    >>> unit("bfloat16") == 2.0**-8, unit("float32") == 2.0**-24
    (True, True)
    """
    known = REAL_DTYPES.get(dtype)
    return 2.0 ** -(53 if known is None else known.precision)


def rounded_to(rule: ToleranceRule, dtype: str) -> str:
    """Return the coarser of a rule's format and the stored one, to which values may be rounded.

    >>> rounded_to("bfloat16", "float32"), rounded_to("auto", "float32")
    ('bfloat16', 'float32')
    """
    return max(dtype, str(rule), key=unit) if rule in HALF_RULES else dtype


def smallest(dtype: str) -> float:
    """Return the smallest positive number of a format: roundings below it are not smaller.

    >>> smallest("float32") == 2.0**-149, smallest("float64")
    (True, 5e-324)
    """
    known = REAL_DTYPES.get(dtype, FLOAT64)
    return 2.0 ** (known.min_exponent - known.precision + 1)


class Tolerance(Record):
    """The allowed error: ``floor`` everywhere, plus ``per_angle`` of the angle.

    The part that grows with the angle is at most ``most``; otherwise a check could not fail. Beyond
    the position ``whole`` it is half as large again. ``drifts`` says that errors could form a
    pattern within it, which needs another check. ``finer`` says that not every right library meets
    it in float32.

    ``fixed`` replaces everything if the user gave a number. It limits the number that a finding
    reports, whatever the finding measures.
    """

    floor: float
    per_angle: float
    reason: str
    fixed: float | None = None
    most: float = math.inf
    whole: float = math.inf
    drifts: bool = False
    finer: bool = False

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
        """Return the tolerance of values of size ``amplitude`` after ``roundings`` to ``dtype``.

        Stored frequencies have no cosines yet, so their format allows no error.
        """
        if rule in HALF_RULES:
            plain = cls.of(
                "auto",
                dtype=rounded_to(rule, dtype),
                roundings=roundings,
                amplitude=amplitude,
                of_frequencies=of_frequencies,
            )
            return replace(plain, reason=f"{rule}: {plain.reason}")
        if of_frequencies and rule in ("float32", "float64", "exact"):
            return cls._of_frequencies(rule, dtype)
        rounding, least = roundings * unit(dtype), roundings * smallest(dtype)
        half = 0.0 if of_frequencies or unit(dtype) <= unit("float32") else rounding
        stored = f"{_roundings_text(roundings)} to {dtype}"
        most = MOST * amplitude
        if rule in ("exact", "float64"):
            floor = max(amplitude * (rounding + ARITHMETIC), least)
            per_angle, reason = 0.0, f"exact: {stored}"
            if rule == "float64":
                of_angle = f"{DOUBLE_ANGLE:.2g} of the angle (its frequency, its product)"
                per_angle, reason = amplitude * DOUBLE_ANGLE, f"float64: {of_angle} + {stored}"
            return cls(floor, per_angle, reason, most=most, finer=True)
        if rule == "float32":
            after = max(rounding, roundings * unit("float32"))
            floor = max(amplitude * (SINGLE_FUNCTIONS + after), least)
            reason = (
                f"float32: {SINGLE_ANGLE:.2g} of the angle (its frequency rounded once, its "
                f"product once) + {SINGLE_FUNCTIONS:.2g} (cos and sin) + "
                f"{stored if half else f'{_roundings_text(roundings)} to float32'}"
            )
            per_angle = amplitude * SINGLE_ANGLE
            return cls(floor, per_angle, reason, most=most, whole=SINGLE_WHOLE, finer=True)
        floor = max(amplitude * (FUNCTIONS + half), least)
        reason = f"{PER_ANGLE:g} of the angle (float32 products) + {FUNCTIONS:g} (cos and sin)"
        if half:
            reason += f" + {stored}"
        fixed = None if rule == "auto" else float(rule)
        if fixed is not None:
            reason = "given"
        return cls(floor, amplitude * PER_ANGLE, reason, fixed, most, drifts=fixed is None)

    @classmethod
    def _of_frequencies(cls, rule: str, dtype: str) -> Tolerance:
        """Return the tolerance of stored frequencies, whose rotations posenc computes itself."""
        stored = min(unit(dtype), unit("float32"))
        if rule == "exact":
            return cls(_OWN_ROTATIONS, stored, f"exact: each frequency rounded once to {dtype}")
        if rule == "float64":
            reason = f"float64: each frequency computed in float64, rounded once to {dtype}"
            return cls(_OWN_ROTATIONS, stored + DOUBLE_ANGLE, reason)
        return cls(
            _OWN_ROTATIONS, unit("float32"), "float32: each frequency rounded once to float32"
        )

    def cells(self, positions: Integers | Reals, frequencies: Reals) -> RealRows:
        """Return the allowed error of each pair at each position.

        ``positions`` are (positions,), or (positions, pairs) if each pair follows its own axis.

        Shape: (positions, pairs), or (1, 1) if it is the same everywhere.
        """
        import numpy as np

        if self.fixed is not None:
            return np.full((1, 1), self.floor)
        sizes = np.abs(positions)
        shares = sizes.astype(np.float64) * self.per_angle
        if sizes.max(initial=0) > self.whole:
            shares[sizes > self.whole] *= 1.5
        allowed: RealRows = shares.reshape(shares.shape[0], -1) * np.abs(frequencies)
        np.minimum(allowed, self.most, out=allowed)
        allowed += self.floor
        return allowed


def _roundings_text(roundings: int) -> str:
    return "one rounding" if roundings == 1 else f"{roundings} roundings"
