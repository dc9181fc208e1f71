"""Resonance RoPE: wavelengths are rounded to whole numbers, so that angles come again exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.formulas.context_extension.scaled import (
    LARGEST_FACTOR,
    AttentionFactor,
    OriginalContext,
)
from posenc_cli.formulas.context_extension.yarn import (
    BETAS,
    BetaFast,
    BetaSlow,
    Truncate,
    yarn_attention_factor,
    yarn_guesses,
    yarn_ladder,
    yarn_ramp,
)
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.formulas.inverse import KNOWN_BASES, STEEPEST, Guess, digit_count, snap
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.formulas.rotary import PairLayout, Partial, rotated_dim
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.inverse import Measured

_RARER = 0.2
"""What rounding costs beyond the rule whose wavelengths are rounded."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """The rules whose wavelengths, rounded, may be the whole ones that were measured."""
    rates, errors = measured.values, measured.errors
    if (rates <= 0).any():
        return
    wavelengths = 2 * math.pi / rates  # (pairs,)
    uncertain = wavelengths * errors / rates
    if (xp.abs(wavelengths - xp.round(wavelengths)) > 4 * uncertain + 1e-9 * wavelengths).any():
        return
    for base in _bases(xp, wavelengths, uncertain):
        digits = 0 if base in KNOWN_BASES else 0.3 * digit_count(base)
        yield Guess({**measured.given, "base": base}, 1 + _RARER + digits)
    # Rounding moves a wavelength by half a position at most: to YaRN that is an error.
    unrounded = replace(measured, errors=errors + rates**2 / (4 * math.pi))
    for guess in yarn_guesses(xp, unrounded):
        if not {"mscale", "mscale_all_dim"} & guess.params.keys():
            yield replace(guess, cost=guess.cost + _RARER)


def _bases(xp: Any, wavelengths: Any, uncertain: Any) -> Iterator[float]:
    """Bases of a plain ladder whose wavelengths round to these: published ones, or the shortest."""
    pairs = wavelengths.size
    if pairs < 2:
        yield KNOWN_BASES[0]
        return
    half = 0.5 + uncertain[1:]  # (pairs − 1,)
    nearest = xp.asarray([xp.maximum(wavelengths[1:] - half, 1), wavelengths[1:] + half])
    ends = xp.log(nearest / (2 * math.pi))
    low, high = ends * pairs / xp.arange(1, pairs)  # of ln base
    least, most = float(low.max()), float(high.min())
    if not 0 < least <= most < STEEPEST:
        return
    yield from (base for base in KNOWN_BASES if least <= math.log(base) <= most)
    middle, reach = (math.exp(least) + math.exp(most)) / 2, (math.exp(most) - math.exp(least)) / 2
    yield snap(middle, reach)


@rotary(
    source="Wang et al. 2024, arXiv:2403.00071 §4; the authors' code",
    formula=(
        "θ_i = 2π / round(2π / t_i), t_i = base^(−2i/d), or YaRN's frequencies where factor is "
        "above 1: see rope-yarn"
    ),
    convention=(
        "The authors' two classes: ResonanceRotaryEmbedding is factor=1, and "
        "LlamaYaRNScaledResonanceRotaryEmbedding a factor above it. They compute wavelengths in "
        "float32: one that lies within its error of a half may be rounded to the other side."
    ),
    inverse=_inverse,
)
def rope_resonance(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Annotated[
        float,
        Param(
            "how many times longer YaRN makes the context; 1 leaves YaRN out",
            minimum=1,
            maximum=LARGEST_FACTOR,
        ),
    ] = 1.0,
    original_max_position_embeddings: OriginalContext = 4096,
    beta_fast: BetaFast = BETAS[0][0],
    beta_slow: BetaSlow = BETAS[0][1],
    attention_factor: AttentionFactor = None,
    truncate: Truncate = True,
) -> Rotation:
    """RoPE whose wavelengths are whole numbers of positions, so that each pair's angles repeat.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_resonance.bind({"dim": 4}).content.waves
    >>> [float(2 * exact.pi / f) for f in waves.frequencies(exact)]
    [6.0, 628.0]
    """
    rotated = rotated_dim(dim, partial)
    ends = yarn_ramp(
        rotated,
        base,
        original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        truncate=truncate,
    )

    def frequencies(xp: Any) -> Any:
        turn = 2 * xp.asarray(xp.pi)
        return turn / xp.round(turn / yarn_ladder(xp, rotated, base, factor, ends))

    scale = attention_factor or yarn_attention_factor(factor)
    return Rotation(Waves(rotated // 2, frequencies, scale), layout)
