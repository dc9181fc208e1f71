"""Seeded random numbers for formulas: the same everywhere, and in any order.

The generator uses only integers, so no library can change its numbers. The number at a place does
not depend on earlier ones.

Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014
(SplitMix64's mixing function).
"""

from __future__ import annotations

from typing import Any

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_BITS = 53  # bits of a random number: as many as float64 holds
_PARTS = float(1 << _BITS)


def uniform(seed: int, place: int) -> float:
    """Return the random number of a place, uniform in [0, 1), a multiple of 2^−53.

    >>> 0 <= uniform(0, 0) < 1, uniform(7, 3) == uniform(7, 3), uniform(7, 3) == uniform(7, 4)
    (True, True, False)
    """
    drawn: int = _mixed(_mixed(seed) + (place + 1) * _GAMMA)
    return (drawn >> (64 - _BITS)) / _PARTS


def _mixed(number: Any) -> Any:
    number &= _MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31


def uniform_parts(seed: int, places: Any, reach: float, bits: int) -> Any:
    """Return int64 numbers of places (n,), uniform from −reach to reach in units of 2^−bits.

    ``places`` are int64 of an array library, whose uint64 wrap at 2^64.
    """
    wide = 2 * int(reach * 2.0**bits) + 1
    drawn = _mixed((places.astype("uint64") + 1) * _GAMMA + _mixed(seed))
    shares = (drawn >> (64 - _BITS)).astype("float64") / _PARTS
    return (shares * wide).astype("int64") - wide // 2
