"""Rotary encodings whose amplitude changes with the position."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from posenc_cli.formulas.declare import Growth, Rotation, Waves, rotary
from posenc_cli.formulas.inverse import unguessed
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, rotated_dim

_XPOS = "Sun et al. 2022, arXiv:2212.10554"


@rotary(
    source=f"{_XPOS}; the authors' XPOS in torchscale",
    formula=(
        "θ_i = base^(−2i/d); cos and sin of p · θ_i times ζ_i^((p − c)/scale_base) for queries, "
        "its inverse for keys; ζ_i = (2i + 0.4d) / (1.4d); c = ⌈seq_len/2⌉ (torchscale) or "
        "⌊seq_len/2⌋ (lucidrains)"
    ),
    convention=(
        "The centre c keeps the amplitudes of a sequence near 1; it cancels between a query and a "
        "key only where both have the same. lucidrains: rotary-embedding-torch; flash-attn "
        "centres so too. Angles count from position 0 in both."
    ),
    inverse=unguessed,
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
            "positions over which the amplitude of pair i changes by ζ_i",
            above=0,
            maximum=1e15,
            source="torchscale",
        ),
    ] = 512.0,
    side: Annotated[
        Literal["query", "key"], Param("what the table rotates: queries shrink, keys grow")
    ] = "query",
    convention: Annotated[
        Literal["torchscale", "lucidrains"],
        Param("centre of an odd number of positions, see the formula", source=_XPOS),
    ] = "torchscale",
    seq_len: SequenceLength = None,
) -> Rotation:
    """RoPE whose products q·k also decay with distance, the high-frequency pairs soonest.

    >>> from posenc_cli.numerics import exact
    >>> growth = xpos.bind({"dim": 4}, seq_len=17).content.waves.growth
    >>> growth.centre, [round(float(zeta), 4) for zeta in growth.bases(exact)]
    (9, [0.2857, 0.6429])
    """
    rotated = rotated_dim(dim, partial)
    length = seq_len or 0

    def frequencies(xp: Any) -> Any:
        return ladder(xp, rotated, base)

    def bases(xp: Any) -> Any:
        # The rule of the formula times 10, so that no decimal fraction is rounded.
        return (xp.arange(0, rotated, 2) * 10 + 4 * rotated) / (14 * rotated)

    growth = Growth(
        bases,
        span=scale_base if side == "query" else -scale_base,
        centre=(length + 1) // 2 if convention == "torchscale" else length // 2,
    )
    return Rotation(Waves(rotated // 2, frequencies, growth=growth), layout)
