"""RoPEs for longer contexts: rules that lower the frequencies of RoPE.

Scalars that a rule needs once (a scaled base, the ends of a ramp, an amplitude) are computed in
extended precision for every arithmetic, as frameworks compute them in double precision.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Mistake, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import (
    COMMON_BASES,
    COMMON_FACTORS,
    CONTEXTS,
    FACTORS,
    FITTED,
    NEAR,
    SPARE,
    Guess,
    Measured,
    fast_bases,
    fitted_base,
    ladder_bases,
    plain_ladder,
    rotating_count,
    snap,
    written_numbers,
)
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength
from posenc_cli.formulas.rotary import (
    PairLayout,
    Partial,
    ladder,
    pair_count,
    plain_frequencies,
    rotated_dim,
)
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal


_CHEN = "Chen et al. 2023, arXiv:2306.15595"

SMALLEST_FACTOR, LARGEST_FACTOR = 1e-15, 1e15
"""Limits of factors on frequencies. Below them a wave rotates 10^14 times per position; above them
none rotates within 2^53 positions.
"""

Factor = Annotated[
    float,
    Param("factor by which the context grows", minimum=SMALLEST_FACTOR, maximum=LARGEST_FACTOR),
]
OriginalContext = Annotated[
    int,
    Param(
        "original context: the trained length before extension",
        minimum=1,
        maximum=LARGEST_POSITION,
    ),
]
AttentionFactor = Annotated[
    float | None,
    Param(
        "factor on cos and sin that replaces the rule's value",
        minimum=1e-6,  # below it, float16 holds almost nothing
        maximum=1e6,
    ),
]


_CLIPPED = 20
"""The number of pairs that the authors clip, of the 64 of Llama 3."""

_OTHER_BASES = 4 * len(COMMON_BASES)
"""The number of tries to explain a ladder by a factor and a base other than the most common one;
most fits are by chance.
"""


def _divisors(xp: Any, measured: Measured, base: float) -> Iterator[Guess]:
    """Yield one factor that divides all frequencies of a base."""
    pairs, rotating = measured.pairs, rotating_count(xp, measured)
    if rotating == 0:
        return
    plain, values = plain_ladder(xp, base, pairs)[:rotating], measured.values[:rotating]
    with xp.errstate(divide="ignore", invalid="ignore"):
        ratios, spread = plain / values, measured.errors[:rotating] / xp.abs(values)
    good = xp.isfinite(ratios) & (ratios > 0)
    if not good.any():
        return
    best = xp.flatnonzero(good)[xp.argmin(spread[good])]
    ratio, error = float(ratios[best]), float(3 * spread[best] * ratios[best])
    given = {**measured.given, "base": base}
    if rotating < pairs and abs(ratio - 1) <= error:
        yield Guess({**given, "factor": 1.0}, 1.0)
        return
    if ratio > 1 + error:
        likely = tuple(_ntk_multipliers(pairs)) if rotating == pairs > 1 else ()
        yield Guess({**given, "factor": ratio}, 0.5, solved="factor", likely=likely)
    for factor in FACTORS:
        if abs(factor / ratio - 1) <= NEAR:
            yield Guess({**given, "factor": factor}, 2.0)
    for factor, cost in _stepped_divisors(ratio, error):
        yield Guess({**given, "factor": factor}, cost)


def _ntk_multipliers(pairs: int) -> Iterator[tuple[float, str]]:
    """Yield NTK's multipliers of the base; keras-hub's "dynamic" divides frequencies by them."""
    for factor in FACTORS:
        power = f"{factor:g}^({2 * pairs}/{2 * pairs - 2})"
        note = f"factor = {power}, by which keras-hub's rope_type dynamic of {factor:g} divides"
        yield factor ** (pairs / (pairs - 1)), note


def _stepped_divisors(ratio: float, error: float) -> Iterator[tuple[float, float]]:
    """Yield factors for rows several positions apart: ratio = factor/step, small steps first.

    Only the ratio can be measured.
    """
    if not 0 < ratio < 1:
        return
    for factor in (1.0, *FACTORS):
        step = round(factor / ratio)
        if step > 1 and step != factor and abs(step * ratio / factor - 1) <= error / ratio + 1e-9:
            yield factor, 3.0 + 1e-4 * step


def _linear_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    for base, cost, error in ladder_bases(xp, measured, measured.pairs, prefer_known=True):
        for guess in _divisors(xp, measured, base):
            if guess.params["factor"] != 1:
                yield replace(
                    guess,
                    cost=cost + guess.cost,
                    uncertainty={"base": error} if error else {},
                )


def _ntk_factors(xp: Any, measured: Measured) -> Iterator[tuple[float, float, float]]:
    """Yield common bases, the factor that scales each to the measured base, and its error."""
    pairs = measured.pairs
    fit = fitted_base(xp, measured, pairs)
    if fit is None or pairs < 2:
        return
    scaled, error = fit
    for base in COMMON_BASES:
        factor = (scaled / base) ** ((pairs - 1) / pairs)
        if 1.0002 < factor < 2000:
            yield base, factor, factor * error / scaled


def _ntk_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    for base, factor, error in _ntk_factors(xp, measured):
        given = {**measured.given, "base": base}
        common = [f for f in COMMON_FACTORS if abs(f - factor) <= max(2 * error, 0.004 * f)]
        # A usual factor at a usual base fits by chance more often than a plain base does.
        rarer = 0.0 if base in COMMON_BASES[:3] else 0.5
        for value in common:
            yield Guess({**given, "factor": value}, 1.4 + rarer)
        tries = 1 if base == COMMON_BASES[0] else _OTHER_BASES
        for value, digits in written_numbers(factor, error, tries=tries):
            if value not in common:
                yield Guess({**given, "factor": value}, 1.9 + 0.3 * digits + rarer)
        if base == COMMON_BASES[0]:
            fitted = snap(factor, error / SPARE)
            yield Guess({**given, "factor": fitted}, FITTED + 0.1, {"factor": error})


def _dynamic_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Guess dynamic NTK whose base at this sequence length equals the measured one."""
    length = measured.length
    if length is None:
        return
    for base, multiplier, _ in _ntk_factors(xp, measured):
        rarer = 0.0 if base in COMMON_BASES[:3] else 0.5
        for context in CONTEXTS:
            if length <= context:
                continue
            for factor in FACTORS:
                whole = length % context == 0
                own = factor * length / context - (factor - 1)
                if abs(own / multiplier - 1) <= (1e-3 if whole else 1e-5):
                    # More likely than NTK with an odd factor, less likely than with a usual one.
                    params = {**measured.given, "base": base, "factor": factor}
                    params["max_position_embeddings"] = context
                    yield Guess(params, 1.6 + 0.001 * factor + rarer)


def _proportional_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    pairs, rotating = measured.pairs, rotating_count(xp, measured)
    if rotating in (0, pairs):
        return
    shares = (0.25, 0.5, 0.75, rotating / pairs, (rotating + 0.5) / pairs)
    partial = next(share for share in shares if int(share * pairs) == rotating)
    for base, cost, error in ladder_bases(xp, measured, pairs, prefer_known=True):
        for guess in _divisors(xp, measured, base):
            yield replace(
                guess,
                params={**guess.params, "partial": partial},
                cost=cost + 0.1 + guess.cost,
                uncertainty={"base": error} if error else {},
            )


def _linear_mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    yield Mistake(
        "the factor multiplies frequencies, not divides",
        plain_frequencies(xp, params) * params["factor"],
        "ml-explore/mlx#356",
    )
    yield Mistake(
        "the factor multiplies the base; it must divide the frequencies",
        plain_frequencies(xp, params, params["base"] * params["factor"]),
        "apache/tvm#18576",
    )


def _other_exponents(
    xp: Any, params: Mapping[str, Any], multiplier: float | None = None
) -> Iterator[Mistake]:
    """Yield the base scaled by ``multiplier``, or the factor, with exponents 1 and d/(d − 1)."""
    columns, scale = 2 * pair_count(params), multiplier or params["factor"]
    yield Mistake(
        "the base is scaled by the factor without its exponent d/(d − 2)",
        plain_frequencies(xp, params, params["base"] * scale),
        "Eyeline-Labs/CineScale#7",
    )
    yield Mistake(
        "the base is scaled with the exponent d/(d − 1), not d/(d − 2)",
        plain_frequencies(xp, params, params["base"] * scale ** (columns / (columns - 1))),
        "yichengup/ComfyUI_ycHunyuanVideoFoley@b62f942",
    )


def dynamic_base(params: Mapping[str, Any], length: Any) -> Any:
    """Return dynamic NTK's base at lengths of at least L, for two or more pairs."""
    limit, factor, pairs = params["max_position_embeddings"], params["factor"], pair_count(params)
    multiplier = factor * length / limit - (factor - 1)
    return params["base"] * multiplier ** (pairs / (pairs - 1))


def _dynamic_mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the base scaled for another length, by Qwen's rule, or with another exponent."""
    limit, factor, pairs = params["max_position_embeddings"], params["factor"], pair_count(params)
    fixed = int(min(limit * factor, LARGEST_POSITION))
    for length in dict.fromkeys(length for length in (fixed, *CONTEXTS) if length > limit):
        yield Mistake(
            f"the base is scaled for a length of {length}",
            plain_frequencies(xp, params, dynamic_base(params, length)),
            "vllm-project/vllm#41236",
        )
    times = max(params["seq_len"] or limit, limit) / limit
    if times > 1:
        doubled = 2 ** (math.ceil(math.log2(times)) + 1) - 1
        yield Mistake(
            f"the base is scaled by 2^(⌈log2 n/L⌉ + 1) − 1 = {doubled} as Qwen's is, whatever "
            "the factor",
            plain_frequencies(xp, params, params["base"] * doubled ** (pairs / (pairs - 1))),
            "InternLM/lmdeploy#536",
        )
        yield from _other_exponents(xp, params, factor * times - (factor - 1))


def _proportional_mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    pairs = params["dim"] // 2
    rotating = max(int(params["partial"] * params["dim"] // 2), 1)
    own = plain_ladder(xp, params["base"], rotating) / params["factor"]
    yield Mistake(
        f"the exponents divide by the {2 * rotating} rotated dimensions, not by all {2 * pairs}",
        xp.concatenate([own, xp.zeros(pairs - rotating)]),
        "aws-neuron/neuronx-distributed-inference#106",
    )
    yield Mistake(
        "all pairs rotate: the share of rotated pairs is ignored",
        plain_ladder(xp, params["base"], pairs) / params["factor"],
        "AI-Hypercomputer/maxtext#4615",
    )


@rotary(
    source=f"{_CHEN} §3",
    formula="θ_i = base^(−2i/d) / factor",
    convention="This is Hugging Face's rope_type linear.",
    inverse=_linear_inverse,
    mistakes=_linear_mistakes,
)
def rope_linear(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
) -> Rotation:
    """Position interpolation: RoPE with positions divided by a factor.

    >>> from posenc_cli.numerics import exact
    >>> [float(f) for f in rope_linear.bind({"dim": 4}).content.waves.frequencies(exact)]
    [0.25, 0.0025]
    """
    rotated = rotated_dim(dim, partial)
    return Rotation(Waves(rotated // 2, lambda xp: ladder(xp, rotated, base) / factor), layout)


@rotary(
    source="bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, arXiv:2309.00071 §3.1",
    formula="θ_i = b^(−2i/d), b = base · factor^(d/(d − 2))",
    convention="Hunyuan calls the factor alpha.",
    inverse=_ntk_inverse,
    mistakes=_other_exponents,
)
def rope_ntk(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
) -> Rotation:
    """RoPE with a larger base, which divides the lowest frequency by the factor.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_ntk.bind({"dim": 4, "base": 10000}).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.0025]
    """
    return _rope_of_scaled_base(rotated_dim(dim, partial), base, factor, layout)


@rotary(
    source="emozilla 2023, dynamic NTK; Peng et al. 2023, arXiv:2309.00071 §3.3",
    formula=(
        "θ_i = b^(−2i/d), b = base · (factor · n/L − (factor − 1))^(d/(d − 2)), "
        "n = max(seq_len, L), L = max_position_embeddings"
    ),
    convention=(
        "This is Hugging Face's rope_type dynamic, which increases the base for the whole "
        "sequence. vLLM 0.11 and SGLang use n = L · factor for every sequence."
    ),
    inverse=_dynamic_inverse,
    mistakes=_dynamic_mistakes,
)
def rope_dynamic(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
    max_position_embeddings: Annotated[
        int,
        Param(
            "trained length: shorter sequences use plain RoPE",
            minimum=1,
            maximum=LARGEST_POSITION,
            source="Llama",
        ),
    ] = 2048,
    seq_len: SequenceLength = None,
) -> Rotation:
    """RoPE whose base grows with the length of sequences beyond the trained length.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_dynamic.bind({"dim": 4}, seq_len=2048).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.01]
    """
    rotated = rotated_dim(dim, partial)
    from posenc_cli.numerics import exact

    longer = exact.asarray([max(seq_len or 0, max_position_embeddings)]) / max_position_embeddings
    return _rope_of_scaled_base(rotated, base, ((longer - 1) * factor + 1)[0], layout)


@rotary(
    source="Barbero et al. 2024, arXiv:2410.06205 §6; Gemma 4",
    formula=(
        "θ_i = base^(−2i/dim) / factor for i < ⌊partial · dim/2⌋, else 0; "
        "i counts all pairs of the head"
    ),
    convention=(
        "As in Hugging Face and Gemma, pairs span the whole head, low-frequency pairs do not "
        "rotate, and exponents are divided by the whole dim. The scheme rope divides them by "
        "the rotary dim (--set partial=0.5)."
    ),
    inverse=_proportional_inverse,
    mistakes=_proportional_mistakes,
)
def rope_proportional(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Annotated[
        float,
        Param("share of the pairs that rotate", above=0, maximum=1, source="every pair rotates"),
    ] = 1.0,
    factor: Factor = 1.0,
) -> Rotation:
    """p-RoPE: rotates only a share of the pairs, from the highest frequency down.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_proportional.bind({"dim": 4, "partial": 0.5}).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.0]
    """
    dim = rotated_dim(dim, 1.0)
    rotating = int(partial * dim // 2)

    def frequencies(xp: Any) -> Any:
        turns = ladder(xp, dim, base)[:rotating] / factor
        return xp.concat([turns, xp.zeros(dim // 2 - rotating)])

    return Rotation(Waves(dim // 2, frequencies), layout)


def _clipped_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Guess from ladders whose last pairs fall below their frequencies as the taper does."""
    pairs, values, errors = measured.pairs, measured.values, measured.errors
    if pairs < 3 or abs(values[-1]) > 2 * errors[-1] + 1e-11:
        return
    for clipped in range(3, pairs + 1):
        taper = _taper(xp, pairs, clipped)
        kept = xp.maximum(taper, xp.finfo(float).eps)
        unclipped = replace(measured, values=values / kept, errors=errors / kept)
        for base in fast_bases(unclipped):
            plain = plain_ladder(xp, base, pairs)
            if (xp.abs(plain * taper - values) <= 4 * errors + 1e-9 * plain).all():
                settled = max(clipped, _CLIPPED) if clipped == pairs else clipped
                cost = 1.2 if settled == _CLIPPED else 1.5
                yield Guess({**measured.given, "base": base, "clipped": settled}, cost)


def _taper(xp: Any, pairs: int, clipped: int) -> Any:
    """Return the factor of each frequency: 1, then 1 to 0 along half a cosine over the last pairs.

    Shape: (pairs,).
    """
    last = min(clipped, pairs)
    turns = xp.arange(0, last) / max(last - 1, 1)
    fading = (1 + xp.cos(turns * xp.pi)) / 2
    return xp.concat([xp.ones(pairs - last), fading])


@rotary(
    source="Li et al. 2026, arXiv:2602.05258; the authors' modeling_cope.py",
    formula=(
        "θ_i = w_i · base^(−2i/d) of n = d/2 pairs; w_i = 1 for i < n − c, and over the last "
        "c = min(clipped, n) soft: (1 + cos(π · (i − n + c)/(c − 1)))/2, hard: 0"
    ),
    convention=(
        "clip=soft is the authors' CoPE, and clip=hard is their HardClip. Both clip 20 of the"
        " 64 pairs of Llama 3, with base 10^7. Contextual position encoding (Golovneva et al. "
        "2024), also called CoPE, is another encoding, which depends on the content."
    ),
    inverse=_clipped_inverse,
)
def rope_clipped(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    clipped: Annotated[
        int,
        Param(
            "number of lowest-frequency pairs to clip",
            minimum=0,
            maximum=32768,
            source="the authors' clip_low_n",
        ),
    ] = _CLIPPED,
    clip: Annotated[
        Literal["soft", "hard"],
        Param(
            "soft: fade out along half a cosine; hard: set to 0",
            source="CoPE",
        ),
    ] = "soft",
) -> Rotation:
    """Clipped RoPE (CoPE): fades out the lowest frequencies.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_clipped.bind({"dim": 8, "clipped": 3}).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.1, 0.005, 0.0]
    """
    rotated = rotated_dim(dim, partial)
    pairs = rotated // 2

    def frequencies(xp: Any) -> Any:
        plain = ladder(xp, rotated, base)
        if clip == "soft":
            return plain * _taper(xp, pairs, clipped) if clipped else plain
        kept = max(pairs - clipped, 0)
        return xp.concat([plain[:kept], xp.zeros(pairs - kept)])

    return Rotation(Waves(pairs, frequencies), layout)


def _rope_of_scaled_base(rotated: int, base: float, multiplier: Any, layout: Any) -> Rotation:
    """Return RoPE with the base times ``multiplier^(d/(d − 2))``.

    Raises: InvalidInput for a single pair, whose lowest frequency is also its highest.
    """
    from posenc_cli.numerics import exact

    if rotated == 2:
        raise InvalidInput("--dim 2: the raised base is base · factor^(d/(d − 2)); d must be > 2")
    exponent = exact.asarray([rotated]) / (rotated - 2)
    larger = (exact.asarray([base]) * exact.asarray([multiplier]) ** exponent)[0]
    waves = Waves(rotated // 2, lambda xp: ladder(xp, rotated, real(xp, larger)))
    return Rotation(waves, layout)


def real(xp: Any, value: Decimal) -> Any:
    """Return a number for a namespace: itself in extended precision, else a float."""
    from posenc_cli.numerics import exact

    return value if xp is exact else float(value)
