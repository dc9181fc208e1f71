"""Numbers of llama.cpp's rules: YaRN's gain, what float32 kept, the rule behind divisors."""

from __future__ import annotations

import math
import struct
from typing import Any

ORIGINAL = "original_max_position_embeddings"

SINGLE = 1e-6
"""The relative error of what was computed and kept in float32."""

_CLOSE = 1e-5
"""The relative error of divisors that were computed in float32 from a power of the base."""


def gain(factor: float) -> float:
    """What ggml's rope_yarn multiplies cosines and sines by, of a factor."""
    return 1 + 0.1 * math.log(factor)


def attention(factor: float, weight: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by, of a factor and a weight of its logarithm."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1


def shortest(value: float) -> float:
    """The number of fewest digits that float32 rounds to the same, as which files state numbers.

    >>> import struct
    >>> shortest(struct.unpack("f", struct.pack("f", 1.05))[0])
    1.05
    """
    single = struct.pack("f", value)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == single:
            return short
    return value


def llama3_parameters(
    values: tuple[float, ...], base: float, turning: int
) -> dict[str, Any] | None:
    """Llama 3.1's parameters, where its rule with the usual ends 1 and 4 gives these divisors.

    >>> llama3_parameters((1.0, 1.0), 10000.0, 4)
    """
    factor = shortest(max(values))
    if factor <= 1 or values[-1] != max(values):
        return None
    waves = [2 * math.pi * base ** (2 * i / turning) for i in range(len(values))]
    blended = [
        (wave, value)
        for wave, value in zip(waves, values, strict=True)
        if 1 + 1e-3 < value < factor * (1 - 1e-3)
    ]
    lengths = [8192]
    if blended:
        wave, value = max(blended, key=lambda each: each[1])
        share = (1 / value - 1 / factor) / (1 - 1 / factor)
        lengths.append(round(wave * (1 + 3 * share)))
    for length in lengths:
        if all(
            math.isclose(_llama3_divisor(wave, factor, length), value, rel_tol=_CLOSE)
            for wave, value in zip(waves, values, strict=True)
        ):
            return {
                "factor": factor,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                ORIGINAL: length,
            }
    return None


def _llama3_divisor(wave: float, factor: float, length: int) -> float:
    """What Llama 3.1's rule divides the frequency of a wavelength by, with the ends 1 and 4."""
    turns = length / wave
    if turns > 4:
        return 1.0
    if turns < 1:
        return factor
    share = (turns - 1) / 3
    return 1 / ((1 - share) / factor + share)
