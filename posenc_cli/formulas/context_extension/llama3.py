"""The context extension of Llama 3.1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.context_extension.scaled import Factor, OriginalContext, real
from posenc_cli.formulas.declare import Mistake, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import (
    CONTEXTS,
    FACTORS,
    Guess,
    Measured,
    fast_bases,
    interpolated_shares,
    interpolation_factors,
    plain_ladder,
    snap,
)
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, plain_frequencies, rotated_dim

_BLEND = (1.0, 4.0)
"""low_freq_factor and high_freq_factor of Llama 3.1, and of all models so far."""

_BLEND_PARAMETERS = "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"

_CONTEXT = 8192
"""The context to state if only ratios can be measured: Llama 3's."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    for base in fast_bases(measured):
        rotations = plain_ladder(xp, base, measured.pairs) / (2 * math.pi)
        for factor in interpolation_factors(xp, measured, base):
            if factor <= 1:
                continue
            share, error = interpolated_shares(xp, measured, base, factor)
            if xp.abs(share).max() < 0.01 or (share > 1.02 + 4 * error).any():
                continue
            inside = xp.flatnonzero((share > 0.01 + 3 * error) & (share < 0.99 - 3 * error))
            usual = [(*_BLEND, context) for context in CONTEXTS]
            fitted: list[tuple[float, float, int]] = []
            if inside.size >= 2:
                # Only the ratios of the context to the two factors can be measured.
                ends = _line_ends(xp, _CONTEXT * rotations[inside], 1 - share[inside])
                fitted = [(*ends, _CONTEXT)]
            for cost, choices in ((2.3, usual), (3.0, fitted)):
                guesses = [
                    Guess(
                        {
                            **measured.given,
                            "base": base,
                            "factor": factor,
                            **dict(zip(_BLEND_PARAMETERS, blend, strict=True)),
                        },
                        cost,
                        solved=None if factor in FACTORS else "factor",
                    )
                    for blend in choices
                    if 0 < blend[0] < blend[1]
                    and (
                        xp.abs(_blend_shares(xp, rotations, *blend) - share) <= 4 * error + 2e-3
                    ).all()
                ]
                yield from guesses
                if guesses:
                    break


def _blend_shares(xp: Any, rotations: Any, low: float, high: float, context: float) -> Any:
    """Return how far the blend interpolates each pair: 0 not at all, 1 by the factor."""
    return 1 - xp.clip((context * rotations - low) / (high - low), 0, 1)


def _line_ends(xp: Any, x: Any, y: Any) -> tuple[float, float]:
    """Return the points at which a line fitted to points reaches 0 and 1, to few digits."""
    slope, intercept = xp.polyfit(x, y, 1)
    if slope <= 0:
        return 0.0, 0.0
    low, high = -intercept / slope, (1 - intercept) / slope
    return snap(float(low), 0.004 * abs(low)), snap(float(high), 0.004 * abs(high))


def _mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the bugs of mlx-examples' first code, all together and each alone.

    It blended periods instead of frequencies, linearly in the wavelength, and in reverse. A reader
    who fixes some of these bugs keeps the others.
    """
    seen, factor = "ml-explore/mlx-examples#907", params["factor"]
    original = params["original_max_position_embeddings"]
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    kept = plain_frequencies(xp, params)
    rotations = kept / (2 * math.pi)
    interpolated = _blend_shares(xp, rotations, low, high, original)
    between = (interpolated > 0) & (interpolated < 1)
    by_wavelength = xp.clip((1 / rotations / original - 1 / high) / (1 / low - 1 / high), 0, 1)
    reversed_share = xp.where(between, 1 - interpolated, interpolated)
    all_three = xp.where(between, 1 - by_wavelength, interpolated)
    for message, share, of_wavelengths in (
        ("the blend is linear in the wavelength, not in its inverse", by_wavelength, False),
        (
            "the blend between high- and low-frequency pairs runs the wrong way",
            reversed_share,
            False,
        ),
        ("the blend is one of wavelengths, not of frequencies", interpolated, True),
        (
            "the blend is one of wavelengths, linear in the wavelength, and runs the wrong way",
            all_three,
            True,
        ),
    ):
        divided = 1 / (share * factor + 1 - share) if of_wavelengths else share / factor + 1 - share
        yield Mistake(message, kept * divided, seen)


@rotary(
    source="Grattafiori et al. 2024, arXiv:2407.21783 §3.2; Meta's llama-models",
    formula=(
        "with λ = 2π/f of f = base^(−2i/d) and L = original_max_position_embeddings: f where "
        "λ < L/high_freq_factor; f/factor where λ > L/low_freq_factor; between them "
        "((1 − t)/factor + t) · f, t = (L/λ − low_freq_factor)/(high_freq_factor − low_freq_factor)"
    ),
    convention=(
        "The defaults are those of Llama 3.1, except for base and layout: Llama uses base=500000 "
        "and layout=half."
    ),
    inverse=_inverse,
    mistakes=_mistakes,
)
def rope_llama3(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 8.0,
    low_freq_factor: Annotated[
        float,
        Param(
            "the frequencies of pairs with fewer rotations than this in the original context are "
            "divided by the factor",
            above=0,
        ),
    ] = 1.0,
    high_freq_factor: Annotated[
        float,
        Param(
            "pairs with more rotations than this in the original context keep their frequency",
            above=0,
        ),
    ] = 4.0,
    original_max_position_embeddings: OriginalContext = 8192,
) -> Rotation:
    """Llama 3.1's RoPE scaling: divides low frequencies, keeps high frequencies.

    >>> rope_llama3.bind({"dim": 128}).content.waves.count
    64
    """
    if low_freq_factor >= high_freq_factor:
        raise InvalidInput(
            f"--set low_freq_factor {low_freq_factor:g}: must be below high_freq_factor "
            f"{high_freq_factor:g}"
        )
    rotated = rotated_dim(dim, partial)
    from posenc_cli.numerics import exact

    between = (exact.asarray(high_freq_factor) - low_freq_factor)[0]

    def frequencies(xp: Any) -> Any:
        kept = ladder(xp, rotated, base)
        rotations = original_max_position_embeddings * kept / 2 / xp.pi
        share = xp.clip((rotations - low_freq_factor) / real(xp, between), 0, 1)
        return (1 - share) * kept / factor + share * kept

    return Rotation(Waves(rotated // 2, frequencies), layout)
