"""Rotary encodings: each is a rule for the frequencies of the pairs of q and k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Growth, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import Guess, Measured, ladder_bases, no_guesses, plain_ladder
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength

PairLayout = Annotated[
    Literal["interleaved", "half"],
    Param(
        "dimensions of a pair: interleaved (2i and 2i+1, as in the paper, GPT-J and Meta's Llama) "
        "or half (i and i+d/2, as in GPT-NeoX and Hugging Face's Llama)",
        source="Su et al. 2021 §3.4.2",
    ),
]
Partial = Annotated[
    float,
    Param(
        "share of rotated dimensions, starting with the first",
        above=0,
        maximum=1,
        source="Su et al. 2021 §3.2.2",
    ),
]


_XPOS = "Sun et al. 2022, arXiv:2212.10554"


def _rope_inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    for base, cost, error in ladder_bases(xp, measured, measured.pairs):
        yield Guess({**measured.given, "base": base}, cost, {"base": error} if error else {})


@rotary(
    source="Su et al. 2021, arXiv:2104.09864 §3.2.2",
    formula="θ_i = base^(−2i/d), d = ⌊dim · partial⌋; the pair i of position p rotates by p · θ_i",
    inverse=_rope_inverse,
    convention=(
        "The frequencies of a partial rotation use the rotary dim as d, as in GPT-NeoX, Phi and "
        "StableLM; dimensions beyond the rotary dim are unrotated."
    ),
)
def rope(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
) -> Rotation:
    """Rotary position embedding: rotates q and k, so that q·k depends only on m − n.

    >>> rope.bind({"dim": "8"}).content.waves.count
    4
    """
    return Rotation(plain_waves(rotated_dim(dim, partial), base), layout)


@rotary(
    source=f"{_XPOS}; the authors' XPOS in torchscale",
    formula=(
        "θ_i = base^(−2i/d); cos and sin of p · θ_i times ζ_i^((p − c)/scale_base) for queries, "
        "its inverse for keys; ζ_i = (2i + 0.4d) / (1.4d); c = ⌈seq_len/2⌉ (torchscale) or "
        "⌊seq_len/2⌋ (lucidrains)"
    ),
    convention=(
        "The center c keeps the amplitudes of a sequence near 1. It cancels in q·k only if query "
        "and key use the same center. convention=lucidrains is the center of "
        "rotary-embedding-torch, which flash-attn also uses."
    ),
    inverse=no_guesses,
)
def xpos(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    scale_base: Annotated[
        float,
        Param(
            "number of positions over which the amplitude of pair i changes by the factor ζ_i",
            above=0,
            maximum=1e15,
            source="torchscale",
        ),
    ] = 512.0,
    side: Annotated[
        Literal["query", "key"],
        Param(
            "rotate queries, whose amplitude shrinks with position, or keys, whose amplitude grows"
        ),
    ] = "query",
    convention: Annotated[
        Literal["torchscale", "lucidrains"],
        Param("center of an odd-length sequence (see the formula)", source=_XPOS),
    ] = "torchscale",
    seq_len: SequenceLength = None,
) -> Rotation:
    """xPos: RoPE whose q·k decays with distance, fastest in high-frequency pairs.

    >>> from posenc_cli.numerics import exact
    >>> growth = xpos.bind({"dim": 4}, seq_len=17).content.waves.growth
    >>> growth.centre, [round(float(zeta), 4) for zeta in growth.bases(exact)]
    (9, [0.2857, 0.6429])
    """
    rotated = rotated_dim(dim, partial)
    length = seq_len or 0

    def bases(xp: Any) -> Any:
        # The formula's rule times 10, so that no decimal fraction is rounded.
        return (xp.arange(0, rotated, 2) * 10 + 4 * rotated) / (14 * rotated)

    growth = Growth(
        bases,
        span=scale_base if side == "query" else -scale_base,
        centre=(length + 1) // 2 if convention == "torchscale" else length // 2,
    )
    return Rotation(plain_waves(rotated, base, growth=growth), layout)


def ladder(xp: Any, rotated: int, base: Any) -> Any:
    """Return the frequencies base^(−2i/d) of the d/2 pairs of d rotated dimensions.

    Units: radians per position.
    """
    return 1 / base ** (xp.arange(0, rotated, 2) / rotated)


def plain_waves(rotated: int, base: float, **others: Any) -> Waves:
    """Return the waves of a plain ladder; ``others`` are further fields."""
    return Waves(rotated // 2, lambda xp: ladder(xp, rotated, base), **others)


def rotated_dim(dim: int, partial: float) -> int:
    """Return how many of ``dim`` dimensions are rotated.

    Raises: InvalidInput if it is not a positive even number.
    """
    rotated = int(dim * partial)
    if rotated < 2 or rotated % 2:
        share = "" if partial == 1 else f" × partial {partial!r}"
        raise InvalidInput(
            f"--dim {dim}{share}: rotary encodings rotate pairs of dimensions, so the rotary dim "
            f"must be even and at least 2, not {rotated}"
        )
    return rotated


def pair_count(params: Mapping[str, Any]) -> int:
    """Return how many pairs rotate, from the parameters of a rotary scheme."""
    return rotated_dim(params["dim"], params["partial"]) // 2


def plain_frequencies(xp: Any, params: Mapping[str, Any], base: float | None = None) -> Any:
    """Return the unscaled frequencies in float64, with this base or the scheme's own."""
    return plain_ladder(xp, params["base"] if base is None else base, pair_count(params))
