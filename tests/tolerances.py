"""Every tolerance that tests use against peers, with its reason.

posenc's own values are correctly rounded and compared bit for bit; what differs is the peer.
"""

FREQUENCY = 1e-6
"""Relative: peers raise to powers in float32; measured up to 3.8e-7."""

ANGLE = 1e-6
"""Of the angle: peers multiply position and frequency in float32; measured up to 7e-7."""

TABLE = 1e-6
"""Absolute, beside the angle's: the rounding of float32 cosines and of the peer's own functions."""

SINUSOID_ANGLE = 3e-7
"""Of the position: the peers' float32 exp and product, as the golden files state it."""


def slope(heads: int) -> float:
    """Relative: a float32 base raised to the powers 1 … heads multiplies its rounding error."""
    return (heads + 4) * 2.0**-24


ROTATED = 4e-6
"""Absolute, beside six times the angle's: vectors of size up to 4 rotated in float32."""

TWO_SOLVERS = 1e-8
"""Of the numbers of one optimum, by two solvers: with gradients below 1e-12 and an l2 of 1e-4, each
is within 1e-8 of it; the others have an l2 ten times as large or more."""

MEASURED_TURN = 4e-6
"""Relative: a frequency that is read off the cosine and the sine of one position, in float32;
measured up to 2.4e-6."""
