"""Biases that decay with distance as a kernel does: logarithms, powers, sums of cosines."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.schemes.declare import Bias, bias
from posenc_cli.schemes.parameters import Base, Heads, Param, as_text

_KERPLE = "Chi et al. 2022, arXiv:2205.09921"
_SANDWICH = "Chi et al. 2022, arXiv:2212.10356"
_LARGEST = 1e15

Scalars = tuple[float, ...]
"""One number for all heads, or one a head."""


@bias(
    source=f"{_KERPLE}; the authors' ParallelKerpleLog",
    formula="bias_h(i, j) = −r1_h · ln(1 + r2_h · |i − j|)",
    convention=(
        "The authors' code calls r1 bias_p and r2 bias_a, draws them uniformly below 2 and below 1 "
        "(the defaults are the means), keeps both at 0.01 or more, and leaves 0 for keys to the "
        "right, which a causal mask hides."
    ),
)
def kerple_log(
    *,
    heads: Heads = 8,
    r1: Annotated[
        Scalars,
        Param(
            "strength, one for all heads or one a head",
            above=0,
            maximum=_LARGEST,
            source="mean of the authors' initial values",
        ),
    ] = (1.0,),
    r2: Annotated[
        Scalars,
        Param(
            "scale of distances, one for all heads or one a head",
            above=0,
            maximum=_LARGEST,
            source="mean of the authors' initial values",
        ),
    ] = (0.5,),
) -> Bias:
    """KERPLE with the logarithmic kernel: a penalty that grows ever more slowly with distance."""
    strengths, scales = _one_a_head("r1", r1, heads), _one_a_head("r2", r2, heads)

    def scores(xp: Any, coefficients: Any, offsets: Any) -> Any:
        strength, scale = coefficients
        return strength * (0 - xp.log(1 + scale * xp.abs(offsets)))

    return Bias(heads, "offset", lambda xp: (xp.asarray(strengths), xp.asarray(scales)), scores)


@bias(
    source=f"{_KERPLE}; the authors' ParallelKerplePower",
    formula="bias_h(i, j) = −r1_h · |i − j|^r2_h",
    convention=(
        "ALiBi is r2 = 1 with its slopes as r1. The authors' code calls r1 bias_a and r2 bias_p, "
        "draws them uniformly below 1 and below 2 (the defaults are the means), keeps both at 0.01 "
        "or more, and leaves 0 for keys to the right, which a causal mask hides."
    ),
)
def kerple_power(
    *,
    heads: Heads = 8,
    r1: Annotated[
        Scalars,
        Param(
            "strength, one for all heads or one a head",
            above=0,
            maximum=_LARGEST,
            source="mean of the authors' initial values",
        ),
    ] = (0.5,),
    r2: Annotated[
        Scalars,
        Param(
            "power of the distance, one for all heads or one a head; past 2 it is no kernel",
            above=0,
            maximum=2,
            source="mean of the authors' initial values",
        ),
    ] = (1.0,),
) -> Bias:
    """KERPLE with the power kernel: a penalty that grows as a power of the distance."""
    strengths, powers = _one_a_head("r1", r1, heads), _one_a_head("r2", r2, heads)

    def scores(xp: Any, coefficients: Any, offsets: Any) -> Any:
        strength, power = coefficients
        return strength * (0 - xp.abs(offsets) ** power)

    return Bias(heads, "offset", lambda xp: (xp.asarray(strengths), xp.asarray(powers)), scores)


def _one_a_head(name: str, values: Scalars, heads: int) -> Scalars:
    """A number for each head; a single one serves all.

    >>> _one_a_head("r1", (0.5,), 3)
    (0.5, 0.5, 0.5)

    Raises: InvalidInput for any other count.
    """
    if len(values) not in (1, heads):
        shown = as_text(values[:4]) + ("…" if len(values) > 4 else "")
        raise InvalidInput(
            f"--set {name} {shown}: must be one number, or one for each of the {heads} heads; "
            f"there are {len(values)}"
        )
    return values * heads if len(values) == 1 else values


@bias(
    source=f"{_SANDWICH}; NVIDIA NeMo's SandwichRelativePositionEmbedding",
    formula=(
        "bias_h(i, j) = S(i − j) · heads / (8h), h = 1 … heads, S(Δ) = Σ_i cos(Δ · base^(−2i/dim)) "
        "with sinusoidal: i = 0 … dim/2 − 1; nemo: i = 1 … dim/2, less dim/2"
    ),
    convention=(
        "sinusoidal: the inner product of two rows of the sinusoidal encoding of that dim and "
        "base. nemo: the exponents start at 2/dim, and the bias is 0 at no distance. A constant "
        "makes no difference after the softmax; the exponents do."
    ),
)
def sandwich(
    *,
    heads: Heads = 8,
    dim: Annotated[
        int,
        Param("columns of the sinusoids", minimum=2, maximum=65536, source=_SANDWICH),
    ] = 128,
    base: Base = 10_000.0,
    convention: Annotated[
        Literal["sinusoidal", "nemo"], Param("which cosines are summed: see the formula")
    ] = "sinusoidal",
) -> Bias:
    """The inner product of two sinusoidal encodings, compressed at each head's own ratio."""
    if dim % 2:
        raise InvalidInput(f"--dim {dim}: sandwich sums a cosine for each pair; dim must be even")
    first = 2 if convention == "nemo" else 0

    def profile(xp: Any, offsets: Any) -> Any:
        frequencies = 1 / base ** (xp.arange(first, dim + first, 2) / dim)
        distances = xp.abs(offsets)
        total = xp.cos(distances * frequencies[0])
        for pair in range(1, dim // 2):
            total = total + xp.cos(distances * frequencies[pair])
        return total - dim // 2 if convention == "nemo" else total

    def scores(_xp: Any, ratio: Any, similarity: Any) -> Any:
        return similarity * heads / ratio

    return Bias(heads, "offset", lambda xp: 8 * xp.arange(1, heads + 1), scores, profile=profile)
