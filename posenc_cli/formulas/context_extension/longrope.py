"""LongRoPE: a factor for each pair, found by a search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.context_extension.scaled import (
    LARGEST_FACTOR,
    SMALLEST_FACTOR,
    AttentionFactor,
    OriginalContext,
)
from posenc_cli.formulas.declare import Mistake, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import (
    CONTEXTS,
    FACTORS,
    KNOWN_BASES,
    Guess,
    Measured,
    digit_count,
    plain_ladder,
    snap,
)
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, plain_frequencies, rotated_dim
from posenc_cli.positions import LARGEST_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal


_LONGROPE = "Ding et al. 2024, arXiv:2402.13753"

_FEW_OF = 4
"""More than one pair in this many must have a factor that few others share. With fewer, that many
wrong frequencies explain the array as simply.
"""

_DISTINCT = 4
"""The fewest different factors of a list: pairs with one common divisor need no list."""

_BY_CHANCE = 1e-9
"""The highest probability that the digits of a list are an accident, over all bases tried."""

_LARGEST_AMPLITUDE = 2.0
"""√(1 + ln s / ln L) for a factor s as large as the context L itself is √2."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Guess LongRoPE if the factors for a known base are numbers of few digits.

    A factor for each pair explains any frequencies. The only evidence is that so few digits are no
    accident, in the factors other than the most common ones.
    """
    pairs, values = measured.pairs, measured.values
    if pairs < 4 or (values <= 0).any():
        return
    for base in KNOWN_BASES:
        ratios = plain_ladder(xp, base, pairs) / values
        errors = ratios * measured.errors / values
        certain = errors < 3e-3 * ratios
        if certain.sum() < 0.6 * pairs or (ratios < 0.5).any():
            continue
        short = xp.array([snap(float(f), float(e)) for f, e in zip(ratios, errors, strict=True)])
        if short.max() == short.min():
            continue
        digits = xp.array([digit_count(float(factor)) for factor in short])
        usual, times = xp.unique(short, return_counts=True)
        shared = usual[times == max(2, times.max())]
        own = certain & ~xp.isin(short, shared)
        # If few pairs have their own factors, that many wrong frequencies explain them as simply.
        if _FEW_OF * own.sum() <= pairs or len(set(short[own].tolist())) < min(
            _DISTINCT, own.sum()
        ):
            continue
        accident = _is_accident(xp, ratios[own], errors[own], digits[own])
        if digits[certain].max() > 6 or accident:
            continue
        factors = tuple(float(factor) for factor in short)
        settled = {**measured.given, "base": base, "short_factor": factors, "long_factor": factors}
        amplitude = measured.amplitude
        if amplitude is not None and abs(amplitude - 1) > measured.precise:
            settled |= _amplitude_parameters(amplitude, measured.precise)
        notes = ("the array shows one of the two lists of factors; the command gives it as both",)
        # A list of factors is the longest explanation, so it is the last of the rules.
        yield Guess(settled, cost=3.5, notes=notes)


def _is_accident(xp: Any, values: Any, errors: Any, digits: Any) -> bool:
    """Return whether numbers are as far from short ones as arbitrary numbers would be.

    Every number is near one with as many digits as its error allows. Each has a probability of so
    few digits by chance; Fisher's method combines them.
    """
    chances = xp.minimum(1.0, 2 * errors * 10.0 ** (digits - 1) / values)
    total = -float(xp.log(xp.maximum(chances, 1e-300)).sum())
    if total <= 0:
        return True
    # For n independent p-values, −Σ ln p exceeds x with probability e^−x · Σ_{k<n} x^k/k!.
    terms = [k * math.log(total) - math.lgamma(k + 1) - total for k in range(values.size)]
    return max(terms) + math.log(values.size) >= math.log(_BY_CHANCE)


def _amplitude_parameters(amplitude: float, precise: float) -> dict[str, Any]:
    """Return the parameters for an amplitude √(1 + ln s / ln L), or the amplitude as a number."""
    contexts = CONTEXTS if amplitude < _LARGEST_AMPLITUDE else ()
    for context in contexts:
        factor = math.exp((amplitude**2 - 1) * math.log(context))
        error = 2 * amplitude**2 * math.log(context) * factor * precise / 4
        short = snap(factor, error)
        if short in FACTORS:
            return {"factor": short, "original_max_position_embeddings": context}
    return {"attention_factor": snap(amplitude, 0.05 * precise * amplitude)}


FactorList = Annotated[
    tuple[float, ...],
    Param(
        "divisor of each pair's frequency: numbers, or a JSON file",
        minimum=SMALLEST_FACTOR,
        maximum=LARGEST_FACTOR,
    ),
]


def _mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    kept = plain_frequencies(xp, params)
    for name, seen in (
        ("short_factor", "lablup/mlxcel#1358"),
        ("long_factor", "ml-explore/mlx-lm#660"),
    ):
        yield Mistake(f"{name} is applied at this length", kept / xp.asarray(params[name]), seen)


@rotary(
    source=f"{_LONGROPE} §3; Microsoft's Phi-3",
    formula=(
        "θ_i = 1/(λ_i · base^(2i/d)), λ = long_factor if seq_len > "
        "original_max_position_embeddings else short_factor; cos and sin times attention_factor = "
        "√(1 + ln s / ln original_max_position_embeddings), s = factor"
    ),
    convention=(
        "Hugging Face chooses the list of factors by the current length. vLLM and llama.cpp "
        "choose it once, by the allocated context. The default factor is "
        "max_position_embeddings/original_max_position_embeddings. For s ≤ 1, the amplitude is 1."
    ),
    inverse=_inverse,
    mistakes=_mistakes,
)
def rope_longrope(
    *,
    short_factor: FactorList,
    long_factor: FactorList,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Annotated[
        float | None,
        Param(
            "factor by which the context grows",
            minimum=SMALLEST_FACTOR,
            maximum=LARGEST_FACTOR,
        ),
    ] = None,
    original_max_position_embeddings: OriginalContext = 4096,
    max_position_embeddings: Annotated[
        int | None,
        Param("extended context", minimum=1, maximum=LARGEST_POSITION),
    ] = None,
    attention_factor: AttentionFactor = None,
    seq_len: SequenceLength = None,
) -> Rotation:
    """LongRoPE: a searched divisor for each pair, different for short and long sequences.

    >>> given = {"dim": 4, "short_factor": "1,1", "long_factor": "1,4", "factor": 4}
    >>> rope_longrope.bind(given, seq_len=4096).content.waves.scale.__round__(6)
    Decimal('1.080123')
    """
    rotated = rotated_dim(dim, partial)
    for name, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        if len(factors) != rotated // 2:
            raise InvalidInput(
                f"--set {name} has {len(factors)} numbers, but {rotated} rotated columns make "
                f"{rotated // 2} pairs"
            )
    original = original_max_position_embeddings
    divisors = long_factor if (seq_len or original) > original else short_factor
    scale = attention_factor or longrope_attention_factor(
        factor, (max_position_embeddings or original), original
    )
    waves = Waves(
        rotated // 2, lambda xp: ladder(xp, rotated, base) / xp.asarray(list(divisors)), scale
    )
    return Rotation(waves, layout)


def longrope_attention_factor(factor: float | None, stretched: int, original: int) -> Decimal:
    """Return LongRoPE's factor on cos and sin; without ``factor``, the contexts give it.

    Raises: InvalidInput for an original context of one position, whose logarithm is 0.
    """
    from posenc_cli.numerics import exact

    contexts = exact.asarray([stretched]) / original
    longer = exact.asarray([factor]) if factor else contexts
    if longer[0] <= 1:
        return exact.asarray([1])[0]  # type: ignore[no-any-return]
    if original == 1:
        raise InvalidInput(
            "--set original_max_position_embeddings 1: must be at least 2",
            hint="or give attention_factor",
        )
    return exact.sqrt(1 + exact.log(longer) / exact.log(exact.asarray([original])))[0]  # type: ignore[no-any-return]
