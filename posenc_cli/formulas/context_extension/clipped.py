"""Clipped RoPE: the slowest pairs are slowed to a standstill, smoothly or at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.formulas.inverse import Guess, fast_bases, plain_ladder
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.formulas.rotary import (
    PairLayout,
    Partial,
    ladder,
    rotated_dim,
)
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.inverse import Measured

_CLIPPED = 20
"""Pairs that the authors clip, of the 64 of Llama 3."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    """Ladders whose last pairs fall below their frequencies as the taper does."""
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
    """What is left of each frequency: 1, and from 1 to 0 along half a cosine over the last.

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
        "CoPE in the authors' code is clip=soft, HardClip clip=hard; both clip 20 of the 64 pairs "
        "of Llama 3, whose base they raise to 10^7. Contextual position encoding (Golovneva et al. "
        "2024), called CoPE too, is another: it depends on the content."
    ),
    inverse=_inverse,
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
        Param("fade their frequencies out along half a cosine, or cut them off", source="CoPE"),
    ] = "soft",
) -> Rotation:
    """Clipped RoPE (CoPE): the lowest frequencies are faded out.

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
