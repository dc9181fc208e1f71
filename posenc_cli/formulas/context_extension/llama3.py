"""The rule by which Llama 3.1 stretches RoPE."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.context_extension.scaled import Factor, OriginalContext, real
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.formulas.inverse import (
    CONTEXTS,
    FACTORS,
    Guess,
    fast_bases,
    plain_ladder,
    slowed_shares,
    slowings,
    snap,
)
from posenc_cli.formulas.mistakes import Mistake
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, plain_frequencies, rotated_dim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.formulas.inverse import Measured

_BLEND = (1.0, 4.0)
"""low_freq_factor and high_freq_factor of Llama 3.1, and of all models so far."""

_CONTEXT = 8192
"""The context that is stated where ratios alone show: Llama 3's."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    for base in fast_bases(measured):
        turns = plain_ladder(xp, base, measured.pairs) / (2 * math.pi)
        for factor in slowings(xp, measured, base):
            if factor <= 1:
                continue
            share, error = slowed_shares(xp, measured, base, factor)
            if xp.abs(share).max() < 0.01 or (share > 1.02 + 4 * error).any():
                continue
            inside = xp.flatnonzero((share > 0.01 + 3 * error) & (share < 0.99 - 3 * error))
            usual = [(*_BLEND, context) for context in CONTEXTS]
            fitted: list[tuple[float, float, int]] = []
            if inside.size >= 2:
                # Only the ratios of the context and the two factors show.
                ends = _line_ends(xp, _CONTEXT * turns[inside], 1 - share[inside])
                fitted = [(*ends, _CONTEXT)]
            for cost, choices in ((2.3, usual), (3.0, fitted)):
                guesses = [
                    Guess(
                        _parameters(measured.given, base, factor, blend),
                        cost,
                        solved=None if factor in FACTORS else "factor",
                    )
                    for blend in choices
                    if 0 < blend[0] < blend[1]
                    and (xp.abs(_slowed(xp, turns, *blend) - share) <= 4 * error + 2e-3).all()
                ]
                yield from guesses
                if guesses:
                    break


def _slowed(xp: Any, turns: Any, low: float, high: float, context: float) -> Any:
    """How far the blend slows pairs of so many turns a position: 0 not, 1 by the factor."""
    return 1 - xp.clip((context * turns - low) / (high - low), 0, 1)


def _parameters(
    given: Mapping[str, Any], base: float, factor: float, blend: tuple[float, float, int]
) -> dict[str, Any]:
    return {
        **given,
        "base": base,
        "factor": factor,
        "low_freq_factor": blend[0],
        "high_freq_factor": blend[1],
        "original_max_position_embeddings": blend[2],
    }


def _line_ends(xp: Any, x: Any, y: Any) -> tuple[float, float]:
    """Where the line through points reaches 0 and 1, to few digits."""
    slope, intercept = xp.polyfit(x, y, 1)
    if slope <= 0:
        return 0.0, 0.0
    low, high = -intercept / slope, (1 - intercept) / slope
    return snap(float(low), 0.004 * abs(low)), snap(float(high), 0.004 * abs(high))


def _mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    factor, original = params["factor"], params["original_max_position_embeddings"]
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    kept = plain_frequencies(xp, params)
    stretched = kept / factor
    turns = kept / (2 * math.pi)
    slowed = _slowed(xp, turns, low, high, original)
    between = (slowed > 0) & (slowed < 1)
    wrong_way = slowed * kept + (1 - slowed) * stretched
    without_turns = _slowed(xp, kept, low, high, original)
    swapped = _slowed(xp, turns, high, low, original)
    longer = _slowed(xp, turns, low, high, original * factor)
    unblended = "there is no blend, as where the two factors are exchanged"
    mixtures = [
        ("the high-frequency pairs are interpolated, not the low-frequency ones", 1 - slowed),
        (f"pairs between the two are kept: {unblended}", 1.0 * (slowed >= 1)),
        (f"pairs between the two are slowed: {unblended}", 1.0 * (slowed > 0)),
        ("wavelengths are taken as 1/frequency, without 2π", without_turns),
        ("low_freq_factor and high_freq_factor are swapped", swapped),
        (f"the blend is that of the extended context, {original * factor:g} positions", longer),
        ("all pairs are slowed", xp.ones(kept.size)),
    ]
    for name, place in (("middle", (low + high) / 2), ("geometric middle", (low * high) ** 0.5)):
        message = f"there is no blend: pairs are kept or slowed by the {name} of the two factors"
        mixtures.append((message, 1.0 * (original * turns < place)))
    mixtures += _other_blends(xp, original * turns, low, high)
    for message, share in mixtures:
        yield Mistake(message, share * stretched + (1 - share) * kept)
    yield Mistake("the blend lacks its kept part", slowed * stretched)
    yield Mistake("the blend lacks its slowed part", (1 - slowed) * kept)
    yield Mistake(
        "the blend is geometric: powers of kept and slowed frequencies are multiplied",
        stretched**slowed * kept ** (1 - slowed),
    )
    yield Mistake(
        "the blend between kept and slowed pairs runs the wrong way",
        xp.where(between, wrong_way, slowed * stretched + (1 - slowed) * kept),
    )
    yield Mistake(
        "the blend is one of wavelengths, not of frequencies",
        1 / (slowed / stretched + (1 - slowed) / kept),
    )
    yield Mistake(
        "the factor multiplies low frequencies in place of dividing them",
        slowed * kept * factor + (1 - slowed) * kept,
    )
    turns_again = (slowed * stretched + (1 - slowed) * kept) / (2 * math.pi)
    again = _slowed(xp, turns_again, low, high, original)
    once = slowed * stretched + (1 - slowed) * kept
    yield Mistake(
        "the scaling is applied to frequencies that are scaled already",
        again * once / factor + (1 - again) * once,
    )


def _other_blends(xp: Any, turns: Any, low: float, high: float) -> Iterator[tuple[str, Any]]:
    """How far other blends slow pairs of so many turns in the original context."""
    run = (turns - low) / (high - low)  # 0 where the blend slows wholly, 1 where not at all
    in_wavelengths = (1 / turns - 1 / high) / (1 / low - 1 / high)
    in_logarithms = xp.log(turns / high) / xp.log(low / high)
    yield "the blend is linear in the wavelength, not in its inverse", xp.clip(in_wavelengths, 0, 1)
    yield (
        "the blend is linear in the logarithm of the wavelength, not in its inverse",
        xp.clip(in_logarithms, 0, 1),
    )
    yield "the blend goes on past both thresholds: it is not clamped", 1 - run
    yield "the blend goes on past low_freq_factor: it is not clamped at 0", 1 - xp.minimum(run, 1)
    yield "the blend goes on past high_freq_factor: it is not clamped at 1", 1 - xp.maximum(run, 0)
    between = xp.clip(run, 0, 1)
    for text, curve in (
        ("a smooth step, 3t² − 2t³", between**2 * (3 - 2 * between)),
        ("half a cosine, (1 − cos πt)/2", (1 - xp.cos(math.pi * between)) / 2),
        ("t²", between**2),
        ("√t", between**0.5),
        ("t³", between**3),
    ):
        yield f"the blend goes by {text}, not by t", 1 - curve
    inside = (turns >= low) & (turns <= high)
    for text, share in (
        ("turns/high_freq_factor", turns / high),
        ("(turns − low_freq_factor)/high_freq_factor", (turns - low) / high),
        (
            "(turns − low_freq_factor)/(high_freq_factor + low_freq_factor)",
            (turns - low) / (high + low),
        ),
    ):
        yield f"the blend divides otherwise: t is {text}", xp.where(inside, 1 - share, turns < low)


@rotary(
    source="Grattafiori et al. 2024, arXiv:2407.21783 §3.2; Meta's llama-models",
    formula=(
        "with λ = 2π/f of f = base^(−2i/d) and L = original_max_position_embeddings: f where "
        "λ < L/high_freq_factor; f/factor where λ > L/low_freq_factor; between them "
        "((1 − t)/factor + t) · f, t = (L/λ − low_freq_factor)/(high_freq_factor − low_freq_factor)"
    ),
    convention="The defaults are Llama 3.1's, but for base 500000 and layout half.",
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
        Param("pairs with fewer full turns in the original context are divided", above=0),
    ] = 1.0,
    high_freq_factor: Annotated[
        float, Param("pairs with more full turns in the original context are kept", above=0)
    ] = 4.0,
    original_max_position_embeddings: OriginalContext = 8192,
) -> Rotation:
    """RoPE as Llama 3.1 scales it: long wavelengths are divided, short ones kept.

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
        turns = original_max_position_embeddings * kept / 2 / xp.pi
        share = xp.clip((turns - low_freq_factor) / real(xp, between), 0, 1)
        return (1 - share) * kept / factor + share * kept

    return Rotation(Waves(rotated // 2, frequencies), layout)
