"""Rotary encodings stretched to longer contexts: rules that slow the frequencies of RoPE.

Scalars that a rule needs once (a stretched base, the ends of a ramp, an amplitude) are evaluated in
extended precision for every arithmetic, as frameworks evaluate them in double precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.schemes.declare import Rotation, Waves, rotary
from posenc_cli.schemes.parameters import Base, Dim, Param, SequenceLength
from posenc_cli.schemes.rotary import PairLayout, Partial, ladder, rotated_dim

if TYPE_CHECKING:
    from decimal import Decimal

_CHEN = "Chen et al. 2023, arXiv:2306.15595"
_YARN = "Peng et al. 2023, arXiv:2309.00071"
_LONGROPE = "Ding et al. 2024, arXiv:2402.13753"

SMALLEST_FACTOR, LARGEST_FACTOR = 1e-15, 1e15
"""Of frequencies: with less a wave turns 10^14 times from one position to the next, with more none
turns in 2^53 positions."""

Factor = Annotated[
    float,
    Param(
        "how many times longer the context gets", minimum=SMALLEST_FACTOR, maximum=LARGEST_FACTOR
    ),
]
OriginalContext = Annotated[
    int, Param("positions the model was trained on first", minimum=1, maximum=LARGEST_POSITION)
]
AttentionFactor = Annotated[
    float | None,
    Param(
        "what cos and sin are multiplied by, in place of the rule's",
        minimum=1e-6,  # of less float16 holds next to nothing
        maximum=1e6,
    ),
]


@rotary(
    source=f"{_CHEN} §3",
    formula="θ_i = base^(−2i/d) / factor",
    convention="Positional interpolation; Hugging Face's rope_type linear.",
)
def rope_linear(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
) -> Rotation:
    """RoPE with positions divided by a factor, so that a longer context looks as the trained one.

    >>> from posenc_cli.numerics import exact
    >>> [float(f) for f in rope_linear.bind({"dim": 4}).content.waves.frequencies(exact)]
    [0.25, 0.0025]
    """
    rotated = rotated_dim(dim, partial)

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, base) / factor

    return Rotation(Waves(rotated // 2, frequencies), layout)


@rotary(
    source="bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, arXiv:2309.00071 §3.1",
    formula="θ_i = b^(−2i/d), b = base · factor^(d/(d − 2))",
    convention="Hunyuan's alpha is factor here.",
)
def rope_ntk(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
) -> Rotation:
    """RoPE with a larger base: the slowest pair is slowed by the factor, the fastest not at all.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_ntk.bind({"dim": 4, "base": 10000}).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.0025]
    """
    rotated = rotated_dim(dim, partial)
    return _rope_of_stretched_base(rotated, base, factor, layout)


@rotary(
    source="emozilla 2023, dynamic NTK; Peng et al. 2023, arXiv:2309.00071 §3.3",
    formula=(
        "θ_i = b^(−2i/d), b = base · (factor · n/L − (factor − 1))^(d/(d − 2)), "
        "n = max(seq_len, L), L = max_position_embeddings"
    ),
    convention=(
        "Hugging Face's rope_type dynamic, which stretches the base for the whole sequence. "
        "vLLM fixes n = L · factor."
    ),
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
            "length up to which nothing changes",
            minimum=1,
            maximum=LARGEST_POSITION,
            source="Llama",
        ),
    ] = 2048,
    seq_len: SequenceLength = None,
) -> Rotation:
    """RoPE whose base grows with the sequence, once that is longer than the model was trained on.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_dynamic.bind({"dim": 4}, seq_len=2048).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.01]
    """
    rotated = rotated_dim(dim, partial)
    from posenc_cli.numerics import exact

    longer = exact.asarray([max(seq_len or 0, max_position_embeddings)]) / max_position_embeddings
    return _rope_of_stretched_base(rotated, base, ((longer - 1) * factor + 1)[0], layout)


@rotary(
    source=f"{_YARN} §3.2–3.4",
    formula=(
        "θ_i = ((1 − r_i) + r_i/factor) · base^(−2i/d), r_i = clip((i − low)/(high − low), 0, 1), "
        "low = c(beta_fast), high = c(beta_slow), "
        "c(β) = d · ln(original_max_position_embeddings/(2πβ)) / (2 ln base); "
        "cos and sin times attention_factor = 0.1 · ln(factor) + 1"
    ),
    convention=(
        "As in the authors' code and Hugging Face: low and high are rounded outward (truncate) and "
        "held within 0 … d − 1. With mscale and mscale_all_dim both given and not 0, the amplitude "
        "is g(mscale)/g(mscale_all_dim), g(m) = 0.1 · m · ln(factor) + 1, as in DeepSeek."
    ),
)
def rope_yarn(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    factor: Factor = 4.0,
    original_max_position_embeddings: OriginalContext = 4096,
    beta_fast: Annotated[
        float,
        Param("turns in the context from which a pair is kept", above=0, source=f"{_YARN} §3.2"),
    ] = 32.0,
    beta_slow: Annotated[
        float,
        Param("turns up to which a pair is interpolated", above=0, source=f"{_YARN} §3.2"),
    ] = 1.0,
    mscale: Annotated[
        float | None,
        Param("numerator of the amplitude, see the convention", minimum=0, maximum=1e6),
    ] = None,
    mscale_all_dim: Annotated[
        float | None,
        Param("denominator of the amplitude, see the convention", minimum=0, maximum=1e6),
    ] = None,
    attention_factor: AttentionFactor = None,
    truncate: Annotated[
        bool, Param("whether the ends of the ramp are rounded to whole pairs", source="YaRN's code")
    ] = True,
) -> Rotation:
    """RoPE that keeps fast pairs, interpolates slow ones, and blends between: YaRN.

    >>> rope_yarn.bind({"dim": 128}).content.waves.scale.__round__(6)
    Decimal('1.138629')
    """
    rotated = rotated_dim(dim, partial)
    low, high = yarn_ramp(
        rotated,
        base,
        original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        truncate=truncate,
    )

    def frequencies(xp: Any) -> Any:
        kept = ladder(xp, rotated, base)
        pairs = xp.arange(0, rotated // 2)
        ramp = xp.clip((pairs - _real(xp, low)) / _real(xp, high - low), 0, 1)
        return kept / factor * ramp + kept * (1 - ramp)

    scale = attention_factor or yarn_attention_factor(
        factor, mscale=mscale, mscale_all_dim=mscale_all_dim
    )
    return Rotation(Waves(rotated // 2, frequencies, scale), layout)


@rotary(
    source="Grattafiori et al. 2024, arXiv:2407.21783 §3.2; Meta's llama-models",
    formula=(
        "with λ = 2π/f of f = base^(−2i/d) and L = original_max_position_embeddings: f where "
        "λ < L/high_freq_factor; f/factor where λ > L/low_freq_factor; between them "
        "((1 − t)/factor + t) · f, t = (L/λ − low_freq_factor)/(high_freq_factor − low_freq_factor)"
    ),
    convention="The defaults are Llama 3.1's, but for base 500000 and layout half.",
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
        Param("turns in the original context up to which a pair is slowed", above=0),
    ] = 1.0,
    high_freq_factor: Annotated[
        float, Param("turns in the original context from which a pair is kept", above=0)
    ] = 4.0,
    original_max_position_embeddings: OriginalContext = 8192,
) -> Rotation:
    """RoPE as Llama 3.1 stretches it: long wavelengths are divided, short ones kept.

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
        share = xp.clip((turns - low_freq_factor) / _real(xp, between), 0, 1)
        return (1 - share) * kept / factor + share * kept

    return Rotation(Waves(rotated // 2, frequencies), layout)


FactorList = Annotated[
    tuple[float, ...],
    Param(
        "what each pair's frequency is divided by: numbers, or a JSON file",
        minimum=SMALLEST_FACTOR,
        maximum=LARGEST_FACTOR,
    ),
]


@rotary(
    source=f"{_LONGROPE} §3; Microsoft's Phi-3",
    formula=(
        "θ_i = 1/(λ_i · base^(2i/d)), λ = long_factor if seq_len > "
        "original_max_position_embeddings else short_factor; cos and sin times attention_factor = "
        "√(1 + ln s / ln original_max_position_embeddings), s = factor"
    ),
    convention=(
        "Hugging Face switches for the whole sequence at once; vLLM and llama.cpp choose once, "
        "from the context they allocate. Without factor it is "
        "max_position_embeddings/original_max_position_embeddings; the amplitude is 1 for s ≤ 1."
    ),
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
            "how many times longer the context got",
            minimum=SMALLEST_FACTOR,
            maximum=LARGEST_FACTOR,
        ),
    ] = None,
    original_max_position_embeddings: OriginalContext = 4096,
    max_position_embeddings: Annotated[
        int | None,
        Param("positions of the stretched model", minimum=1, maximum=LARGEST_POSITION),
    ] = None,
    attention_factor: AttentionFactor = None,
    seq_len: SequenceLength = None,
) -> Rotation:
    """RoPE with a searched factor for each pair, one list for short sequences and one for long.

    >>> given = {"dim": 4, "short_factor": "1,1", "long_factor": "1,4", "factor": 4}
    >>> rope_longrope.bind(given, seq_len=4096).content.waves.scale.__round__(6)
    Decimal('1.080123')
    """
    rotated = rotated_dim(dim, partial)
    for name, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        if len(factors) != rotated // 2:
            raise InvalidInput(
                f"--set {name}: has {len(factors)} numbers, but {rotated} rotated columns make "
                f"{rotated // 2} pairs"
            )
    original = original_max_position_embeddings
    divisors = long_factor if (seq_len or original) > original else short_factor

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, base) / xp.asarray(list(divisors))

    scale = attention_factor or longrope_attention_factor(
        factor, (max_position_embeddings or original), original
    )
    return Rotation(Waves(rotated // 2, frequencies, scale), layout)


@rotary(
    source="Barbero et al. 2024, arXiv:2410.06205 §6; Gemma 4",
    formula=(
        "θ_i = base^(−2i/dim) / factor for i < ⌊partial · dim/2⌋, else 0; "
        "i counts all pairs of the head"
    ),
    convention=(
        "As in Hugging Face and Gemma: not a partial rotation. Pairs span the whole head, the slow "
        "ones stand still, and exponents divide by the whole dim."
    ),
)
def rope_proportional(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Annotated[
        float, Param("share of the pairs that turn", above=0, maximum=1, source="no pair stands")
    ] = 1.0,
    factor: Factor = 1.0,
) -> Rotation:
    """p-RoPE: only the fastest share of the pairs turns, the others carry no position.

    >>> from posenc_cli.numerics import exact
    >>> waves = rope_proportional.bind({"dim": 4, "partial": 0.5}).content.waves
    >>> [float(f) for f in waves.frequencies(exact)]
    [1.0, 0.0]
    """
    dim = rotated_dim(dim, 1.0)
    turning = int(partial * dim // 2)

    def frequencies(xp: Any) -> Any:
        turns = ladder(xp, dim, base)[:turning] / factor
        return xp.concat([turns, xp.zeros(dim // 2 - turning)])

    return Rotation(Waves(dim // 2, frequencies), layout)


def yarn_ramp(
    rotated: int,
    base: float,
    original: int,
    *,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
) -> tuple[Decimal, Decimal]:
    """The pairs between which YaRN blends: it keeps those before, interpolates those after.

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
    """What YaRN multiplies cosines and sines by."""
    both = (mscale, mscale_all_dim) if mscale and mscale_all_dim else (1.0, 0.0)
    magnitudes = _magnitudes(factor, both)
    amplitude: Decimal = (magnitudes[0:1] / magnitudes[1])[0]
    return amplitude


def yarn_magnitude(factor: float, mscale: float) -> Decimal:
    """1 + 0.1 · mscale · ln(factor), which YaRN has for context extensions; 1 for factors up to 1.

    >>> float(yarn_magnitude(32.0, 1.0)), int(yarn_magnitude(0.5, 1.0))
    (1.3465735902799727, 1)
    """
    magnitude: Decimal = _magnitudes(factor, (mscale,))[0]
    return magnitude


def _magnitudes(factor: float, mscales: tuple[float, ...]) -> Any:
    from posenc_cli.numerics import exact

    return 1 + exact.asarray(mscales) * exact.log(exact.asarray([max(factor, 1.0)])) / 10


def longrope_attention_factor(factor: float | None, stretched: int, original: int) -> Decimal:
    """What LongRoPE multiplies cosines and sines by; the factor may be left to the contexts.

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
    share = exact.log(longer) / exact.log(exact.asarray([original]))
    return exact.sqrt(1 + share)[0]  # type: ignore[no-any-return]


def _rope_of_stretched_base(rotated: int, base: float, stretch: Any, layout: Any) -> Rotation:
    """RoPE with the base times stretch^(d/(d − 2)).

    Raises: InvalidInput for one pair, which has no slowest but the fastest.
    """
    from posenc_cli.numerics import exact

    if rotated == 2:
        raise InvalidInput(
            "--dim 2: the stretched base is base · factor^(d/(d − 2)); d must be > 2"
        )
    if stretch <= 0:
        raise InvalidInput(f"--set factor: stretches the base by {float(stretch):g}; it must grow")
    exponent = exact.asarray([rotated]) / (rotated - 2)
    larger = (exact.asarray([base]) * exact.asarray([stretch]) ** exponent)[0]

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, _real(xp, larger))

    return Rotation(Waves(rotated // 2, frequencies), layout)


def _real(xp: Any, value: Decimal) -> Any:
    """A number as the namespace takes it: itself in extended precision, else a float."""
    from posenc_cli.numerics import exact

    return value if xp is exact else float(value)
