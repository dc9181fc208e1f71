"""YaRN: keeps high frequencies, interpolates low ones, with a ramp in between."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.formulas.context_extension.scaled import (
    LARGEST_FACTOR,
    AttentionFactor,
    Factor,
    OriginalContext,
    real,
)
from posenc_cli.formulas.declare import Mistake, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import (
    CONTEXTS,
    FACTORS,
    KNOWN_BASES,
    STEEPEST,
    Guess,
    Measured,
    digit_count,
    interpolated_shares,
    interpolation_factors,
    scaled_bases,
    snap,
)
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.formulas.rotary import (
    PairLayout,
    Partial,
    ladder,
    pair_count,
    plain_frequencies,
    rotated_dim,
)
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal


_YARN = "Peng et al. 2023, arXiv:2309.00071"

BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (32.0, 4.0), (8.0, 1.0), (16.0, 2.0))
"""beta_fast and beta_slow of models, the paper's first."""

BetaFast = Annotated[
    float,
    Param(
        "pairs with at least this many rotations in the original context keep their frequency",
        above=0,
        source=f"{_YARN} §3.2",
    ),
]
BetaSlow = Annotated[
    float,
    Param(
        "pairs with at most this many rotations in the original context are interpolated",
        above=0,
        source=f"{_YARN} §3.2",
    ),
]
Truncate = Annotated[bool, Param("round the ends of the ramp to whole pairs", source="YaRN's code")]

_CONTEXT = 4096
"""The context to state if only ratios can be measured: that of Llama 2, which YaRN extended."""

_SHORT = (256, 128, 64)
"""Contexts of experiments and tests, besides those of published models."""

_FAR = 8
"""Farthest end of a ramp, in multiples of the pair count. A ramp between farther ends hardly rises
over the pairs, and looks like noise."""

_RARER = 0.2
"""The extra cost of rounding, over the rule whose wavelengths are rounded."""

_MANY_RAMPS = (
    "only the ends of the ramp show: context, beta_fast and beta_slow are one choice of many",
)


def yarn_guesses(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Yield parameters of YaRN that may give the measured frequencies."""
    if measured.pairs < 4:
        return
    for base in dict.fromkeys(scaled_bases(xp, measured)):
        for factor in interpolation_factors(xp, measured, base):
            share, error = interpolated_shares(xp, measured, base, factor)
            if share[0] > 3 * error[0] + 1e-3 or (share > 1.02 + 4 * error).any():
                continue
            if xp.abs(share).max() < 0.01:
                continue
            scaling = {**measured.given, "base": base, "factor": factor}
            common = list(_common_ramps(xp, base, share, error))
            for ramp, cost in common or _fitted_ramps(xp, base, share, error):
                for guess in _with_amplitude({**scaling, **ramp}, measured, cost):
                    solved = None if factor in FACTORS else "factor"
                    yield replace(guess, notes=() if common else _MANY_RAMPS, solved=solved)


@lru_cache(maxsize=16)
def _ramps(xp: Any, base: float, pairs: int) -> tuple[list[tuple[int, float, float, bool]], Any]:
    """Return common contexts, betas and truncations, and the ramp of each (choices, pairs)."""
    scale = pairs / math.log(base)
    choices, ends = [], []
    for (fast, slow), context in itertools.product(BETAS, (*CONTEXTS, *_SHORT)):
        low, high = (scale * math.log(context / (2 * math.pi * beta)) for beta in (fast, slow))
        for truncate in (True, False):
            choices.append((context, fast, slow, truncate))
            ends.append((math.floor(low), math.ceil(high)) if truncate else (low, high))
    low, high = xp.asarray(ends, dtype=xp.float64).T[:, :, None]  # (choices, 1) each
    low, high = xp.maximum(low, 0), xp.minimum(high, 2 * pairs - 1)
    widths = xp.where(high == low, 1e-3, high - low)
    return choices, xp.clip((xp.arange(pairs) - low) / widths, 0, 1)


def _common_ramps(
    xp: Any, base: float, share: Any, error: Any
) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield common parameters whose ramps interpolate the pairs by these shares."""
    choices, ramps = _ramps(xp, base, share.size)
    fitting = (xp.abs(ramps - share) <= 4 * error + 1e-3).all(axis=1)
    for choice in xp.flatnonzero(fitting):
        context, fast, slow, truncate = choices[choice]
        # Three common numbers; the paper's betas and its rounding come first.
        cost = 2.2 + (0.4 if (fast, slow) != BETAS[0] else 0) + 0.3 * (not truncate)
        yield _ramp_parameters(context, fast, slow, truncate=truncate), cost


def _fitted_ramps(
    xp: Any, base: float, share: Any, error: Any
) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield parameters of a fitted ramp: one of many choices of context and betas."""
    pairs = share.size
    inside = xp.flatnonzero((share > 0.02 + 3 * error) & (share < 0.98 - 3 * error))
    if inside.size < 2:
        return
    slope, intercept = xp.polyfit(inside, share[inside], 1, w=1 / error[inside])
    if slope <= 0:
        return
    low, high = float(-intercept / slope), float((1 - intercept) / slope)
    if not -_FAR * pairs < low < high < _FAR * pairs:
        return
    whole = abs(low - round(low)) < 0.01 and abs(high - round(high)) < 0.01
    if whole:
        # Any two numbers that round outward to these ends.
        low, high = round(low) + 0.5, round(high) - 0.5
    rotations = [_CONTEXT / (2 * math.pi) * base ** (-end / pairs) for end in (low, high)]
    fast, slow = (float(f"{count:.{3 if whole else 8}g}") for count in rotations)
    if fast > slow > 0:
        yield _ramp_parameters(_CONTEXT, fast, slow, truncate=whole), 3.4 + 0.3 * (not whole)


def _ramp_parameters(context: int, fast: float, slow: float, *, truncate: bool) -> dict[str, Any]:
    return {
        "original_max_position_embeddings": context,
        "truncate": truncate,
        "beta_fast": fast,
        "beta_slow": slow,
    }


def _with_amplitude(given: dict[str, Any], measured: Measured, cost: float) -> Iterator[Guess]:
    """Yield YaRN with the measured amplitude: the rule's own, DeepSeek's, or a number."""
    amplitude, factor = measured.amplitude, given["factor"]
    if amplitude is None or measured.has_amplitude(yarn_attention_factor(factor)):
        yield Guess(given, cost)
        return
    for top, bottom in ((1.0, 1.0), (0.707, 1.0), (1.0, 0.707)):
        mscales = {"mscale": top, "mscale_all_dim": bottom}
        # DeepSeek's two numbers come before any single number; both cost more than the rule's own.
        if measured.has_amplitude(yarn_attention_factor(factor, **mscales)):
            yield Guess({**given, **mscales}, cost + 0.3)
            return
    short = snap(amplitude, 0.05 * measured.precise * amplitude)
    yield Guess({**given, "attention_factor": short}, cost + 0.6)


def _mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    factor, original = params["factor"], params["original_max_position_embeddings"]
    fast, slow, pairs = params["beta_fast"], params["beta_slow"], pair_count(params)
    kept = plain_frequencies(xp, params)
    longer, rotations = original * factor, original * kept / (2 * math.pi)
    ramp, (low, high) = _ramp(xp, params), _ends(params)
    shares = [
        (
            "beta_fast and beta_slow are swapped",
            _ramp(xp, {**params, "beta_fast": slow, "beta_slow": fast}),
            "pytorch/torchtitan#3787",
        ),
        (
            "the ramp of YaRN is reversed: high-frequency pairs are interpolated",
            1 - ramp,
            "litgpt 0.5.13",
        ),
        (
            "all pairs are interpolated: there is no ramp",
            xp.ones(pairs),
            "rasbt/LLMs-from-scratch#940",
        ),
        (
            f"the ramp is that of {longer:g} positions, the extended context, not {original}",
            _ramp(xp, {**params, "original_max_position_embeddings": longer}),
            "NVIDIA/Megatron-LM#1418",
        ),
        (
            f"the last end of the ramp is clamped to the {pairs} pairs, not to the columns",
            _ramp_between(xp, params, low, min(high, pairs - 1)),
            "jingyaogong/minimind#602",
        ),
        (
            "the ramp is linear in the rotations per context, as the paper's γ is, not in the pair",
            xp.clip((fast - rotations) / ((fast - slow) or 1e-3), 0, 1),
            f"{_YARN} §3.2",
        ),
    ]
    for message, share, seen in shares:
        yield Mistake(message, kept / factor * share + kept * (1 - share), seen)
    yield Mistake(
        "the ramp blends wavelengths, not frequencies",
        1 / (ramp * factor / kept + (1 - ramp) / kept),
        "jquesnelle/yarn#24",
    )
    yield Mistake(
        "the factor multiplies the base, and does not divide low frequencies",
        plain_frequencies(xp, params, params["base"] * factor) * ramp + kept * (1 - ramp),
        "apache/tvm#18576",
    )


def _ramp_between(xp: Any, params: Mapping[str, Any], low: float, high: float) -> Any:
    """Return a ramp from 0 at ``low`` to 1 at ``high``, in float64. Shape: (pairs,)."""
    return xp.clip((xp.arange(pair_count(params)) - low) / (high - low or 1e-3), 0, 1)


def _ramp(xp: Any, params: Mapping[str, Any]) -> Any:
    """Return how far each pair is interpolated, from 0 to 1, in float64. Shape: (pairs,)."""
    return _ramp_between(xp, params, *_ends(params))


def _ends(params: Mapping[str, Any]) -> tuple[float, float]:
    """Return the ends of the ramp, in float64."""
    names = ("beta_fast", "beta_slow", "truncate")
    original, rest = params["original_max_position_embeddings"], {n: params[n] for n in names}
    low, high = yarn_ramp(2 * pair_count(params), params["base"], original, **rest)
    return float(low), float(high)


@rotary(
    source=f"{_YARN} §3.2–3.4",
    formula=(
        "θ_i = ((1 − r_i) + r_i/factor) · base^(−2i/d), r_i = clip((i − low)/(high − low), 0, 1), "
        "low = c(beta_fast), high = c(beta_slow), "
        "c(β) = d · ln(original_max_position_embeddings/(2πβ)) / (2 ln base); "
        "cos and sin times attention_factor = 0.1 · ln(factor) + 1"
    ),
    convention=(
        "As in the authors' code and Hugging Face, low and high are rounded outward (truncate) "
        "and clamped to 0 … d − 1. If mscale and mscale_all_dim are both set and not 0, the "
        "amplitude is g(mscale)/g(mscale_all_dim), as in DeepSeek. Here, g(m) = 0.1 · m · "
        "ln(factor) + 1."
    ),
    inverse=yarn_guesses,
    mistakes=_mistakes,
)
def rope_yarn(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
    original_max_position_embeddings: OriginalContext = 4096,
    beta_fast: BetaFast = BETAS[0][0],
    beta_slow: BetaSlow = BETAS[0][1],
    mscale: Annotated[
        float | None,
        Param("m in the numerator g(m) of DeepSeek's attention factor", minimum=0, maximum=1e6),
    ] = None,
    mscale_all_dim: Annotated[
        float | None,
        Param("m in the denominator g(m) of DeepSeek's attention factor", minimum=0, maximum=1e6),
    ] = None,
    attention_factor: AttentionFactor = None,
    truncate: Truncate = True,
) -> Rotation:
    """YaRN: keeps high-frequency pairs, interpolates low-frequency pairs, blends the rest.

    >>> rope_yarn.bind({"dim": 128}).content.waves.scale.__round__(6)
    Decimal('1.138629')
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
    scale = attention_factor or yarn_attention_factor(
        factor, mscale=mscale, mscale_all_dim=mscale_all_dim
    )
    waves = Waves(rotated // 2, lambda xp: yarn_ladder(xp, rotated, base, factor, ends), scale)
    return Rotation(waves, layout)


def yarn_ladder(
    xp: Any, rotated: int, base: float, factor: float, ends: tuple[Decimal, Decimal]
) -> Any:
    """Return the frequencies of a ladder, the low ones divided by a factor, with a ramp between.

    Units: radians per position. Shape: (rotated/2,).
    """
    low, high = ends
    kept = ladder(xp, rotated, base)
    pairs = xp.arange(0, rotated // 2)
    ramp = xp.clip((pairs - real(xp, low)) / real(xp, high - low), 0, 1)
    return kept / factor * ramp + kept * (1 - ramp)


@lru_cache(maxsize=4096)
def yarn_ramp(
    rotated: int,
    base: float,
    original: float,
    *,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
) -> tuple[Decimal, Decimal]:
    """Return the ends of YaRN's ramp: it keeps pairs before the ramp and interpolates those after.

    >>> [float(end) for end in yarn_ramp(
    ...     128, 1e6, 32768, beta_fast=32.0, beta_slow=1.0, truncate=True)]
    [23.0, 40.0]
    """
    from posenc_cli.numerics import exact

    radians = exact.asarray([beta_fast, beta_slow]) * 2 * exact.pi
    ends = exact.log(original / radians) * rotated / exact.log(exact.asarray([base])) / 2
    if truncate:
        ends = exact.concat([exact.floor(ends[0:1]), exact.ceil(ends[1:2])])
    low = exact.maximum(ends[0:1], 0)
    high = exact.minimum(ends[1:2], rotated - 1)
    if low[0] == high[0]:
        high = high + exact.asarray([1]) / 1000
    return low[0], high[0]


def yarn_attention_factor(
    factor: float, *, mscale: float | None = None, mscale_all_dim: float | None = None
) -> Decimal:
    """Return YaRN's factor on cosines and sines."""
    both = (mscale, mscale_all_dim) if mscale and mscale_all_dim else (1.0, 0.0)
    magnitudes = _magnitudes(factor, both)
    return (magnitudes[0:1] / magnitudes[1])[0]  # type: ignore[no-any-return]


def yarn_magnitude(factor: float, mscale: float) -> Decimal:
    """Return 1 + 0.1 · mscale · ln(factor), YaRN's magnitude; 1 for factors up to 1.

    >>> float(yarn_magnitude(32.0, 1.0)), int(yarn_magnitude(0.5, 1.0))
    (1.3465735902799727, 1)
    """
    return _magnitudes(factor, (mscale,))[0]  # type: ignore[no-any-return]


def _magnitudes(factor: float, mscales: tuple[float, ...]) -> Any:
    from posenc_cli.numerics import exact

    return 1 + exact.asarray(mscales) * exact.log(exact.asarray([max(factor, 1.0)])) / 10


def _resonance_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Guess rules whose wavelengths, once rounded, may be the integers measured."""
    rates, errors = measured.values, measured.errors
    if (rates <= 0).any():
        return
    wavelengths = 2 * math.pi / rates  # (pairs,)
    uncertain = wavelengths * errors / rates
    if (xp.abs(wavelengths - xp.round(wavelengths)) > 4 * uncertain + 1e-9 * wavelengths).any():
        return
    for base in _resonance_bases(xp, wavelengths, uncertain):
        digits = 0 if base in KNOWN_BASES else 0.3 * digit_count(base)
        yield Guess({**measured.given, "base": base}, 1 + _RARER + digits)
    # Rounding moves a wavelength by at most half a position, which YaRN's fit treats as an error.
    unrounded = replace(measured, errors=errors + rates**2 / (4 * math.pi))
    for guess in yarn_guesses(xp, unrounded):
        if not {"mscale", "mscale_all_dim"} & guess.params.keys():
            yield replace(guess, cost=guess.cost + _RARER)


def _resonance_bases(xp: Any, wavelengths: Any, uncertain: Any) -> Iterator[float]:
    """Yield bases of plain ladders whose wavelengths round to these: published, or the shortest."""
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
        "θ_i = 2π / round(2π / t_i), t_i = base^(−2i/d) if factor is 1, else YaRN's frequencies: "
        "see rope-yarn"
    ),
    convention=(
        "The authors' class ResonanceRotaryEmbedding has factor=1, and their class "
        "LlamaYaRNScaledResonanceRotaryEmbedding has factor > 1. The classes compute wavelengths "
        "in float32, so a wavelength near n + 1/2 may be rounded to the other integer."
    ),
    inverse=_resonance_inverse,
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
            "YaRN's factor; 1 means no YaRN",
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
    """Resonance RoPE: integer wavelengths, so each pair's angles repeat exactly.

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
