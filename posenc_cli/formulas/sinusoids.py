"""Absolute encodings made of sines and cosines of a geometric ladder of frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Sinusoids, Waves, absolute
from posenc_cli.formulas.inverse import Guess, ladder_bases, unguessed
from posenc_cli.formulas.parameters import Base, Dim, Param
from posenc_cli.numerics.placements import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.formulas.inverse import Measured
    from posenc_cli.numerics.placements import Function

Order = Literal["sin-first", "cos-first"]
_PAPER = "Vaswani et al. 2017 §3.5"
Odd = Literal["error", "truncate", "pad", "split"]
_TURNS_COST = 0.4
"""What full turns cost beside radians: one library has them, and not by default."""


def _inverse(xp: Any, measured: Measured) -> Iterator[Guess]:
    given = measured.given
    dim, odd = given["dim"], given["odd"]
    pairs = dim // 2 if odd == "pad" else (dim + 1) // 2
    ladders = (("vaswani", dim / 2 if odd == "split" else pairs, 0.0),
               ("tensor2tensor", max(pairs - 1, 1), 0.2))  # fmt: skip
    for spacing, steps, extra in ladders:
        for base, cost, error in ladder_bases(xp, measured, steps):
            uncertainty = {"base": error} if error else {}
            params = {**given, "base": base, "spacing": spacing}
            yield Guess(params, cost + extra, uncertainty)
            yield Guess({**params, "full_turns": True}, cost + extra + _TURNS_COST, uncertainty)


@absolute(
    source="Vaswani et al. 2017, arXiv:1706.03762 §3.5",
    formula="PE[p, 2i] = sin(p · base^(−2i/dim)), PE[p, 2i+1] = cos(p · base^(−2i/dim))",
    convention=(
        "The defaults are the paper's. Marian: layout=concat odd=split; XLNet: layout=concat; "
        "tensor2tensor, fairseq, M2M100, Whisper: layout=concat spacing=tensor2tensor odd=pad; "
        "Musicgen: as those with order=cos-first; positional-encodings: odd=truncate. "
        "fairseq numbers its first token padding_idx + 1: use --start."
    ),
    inverse=_inverse,
)
def sinusoidal(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    layout: Annotated[
        Literal["interleaved", "concat"],
        Param(
            "columns alternate (interleaved), or all of one function come first (concat)",
            source=_PAPER,
        ),
    ] = "interleaved",
    spacing: Annotated[
        Literal["vaswani", "tensor2tensor"],
        Param(
            "exponents 2i/dim (vaswani), or i/(pairs − 1), which ends at 1/base exactly",
            source=_PAPER,
        ),
    ] = "vaswani",
    order: Annotated[
        Order, Param("which function a pair, or the concatenation, begins with", source=_PAPER)
    ] = ("sin-first"),
    odd: Annotated[
        Odd,
        Param(
            "an odd dim: refuse it; compute one column more and drop the last (truncate); "
            "add a zero column (pad); or give the first half the extra column (split)"
        ),
    ] = "error",
    full_turns: Annotated[
        bool,
        Param(
            "frequencies are in full turns per position, so that angles are 2π times as large (MLX)"
        ),
    ] = False,
) -> Sinusoids:
    """Sines and cosines whose wavelengths grow geometrically from 2π towards 2π · base.

    Each dimension pair rotates at its own speed, so the row of p + k is a fixed linear map of the
    row of p, and dot products depend only on the distance.

    >>> sinusoidal.bind({"dim": 4}).content.width
    4
    """
    if dim % 2 and odd == "error":
        raise InvalidInput(
            f"--dim {dim}: sinusoidal pairs a sine with a cosine, so dim must be even",
            hint="--set odd=truncate, odd=pad or odd=split allow an odd dim",
        )
    pairs = dim // 2 if odd == "pad" else (dim + 1) // 2
    exponent_dim = dim if odd == "split" else 2 * pairs
    width = dim - 1 if odd == "pad" and dim % 2 else dim
    placements = wave_placements(width, pairs, interleaved=layout == "interleaved", order=order)
    if pairs == 0:
        placements = ()
    if width < dim:
        placements = (*placements, Placement("zero", slice(width, dim)))
    plain = _ladder(spacing, pairs, exponent_dim, base)

    def turns(xp: Any) -> Any:
        return plain(xp) * 2 * xp.pi

    return Sinusoids(
        waves=Waves(pairs, turns if full_turns else plain),
        width=dim,
        placements=placements,
    )


@absolute(
    source="Ho et al. 2020, arXiv:2006.11239; diffusers' get_timestep_embedding",
    formula=(
        "sin(t · ω_i), then cos(t · ω_i), of the timestep t: ω_i = scale · max_period^(−i / (n − "
        "downscale_freq_shift)), i = 0 … n − 1, n = ⌊dim/2⌋"
    ),
    convention=(
        "The defaults are the function's own, and those of DDPM. Stable Diffusion (freq_shift of "
        "its UNet), ADM, DiT and diffusers' transformers: flip_sin_to_cos=true "
        "downscale_freq_shift=0 (its DiT: 1). Flux multiplies its timesteps, from 0 to 1, by 1000. "
        "An odd dim ends in a column of zeros. Positions are timesteps."
    ),
    inverse=unguessed,
)
def timestep(
    *,
    dim: Dim = 64,
    flip_sin_to_cos: Annotated[bool, Param("cosines before sines")] = False,
    downscale_freq_shift: Annotated[
        float,
        Param(
            "subtracted from the number of pairs in the exponent; 1 makes the lowest frequency "
            "exactly 1/max_period",
            minimum=0,
            maximum=32768,
            source="diffusers",
        ),
    ] = 1.0,
    scale: Annotated[
        float, Param("multiplies every angle", above=0, maximum=1e15, source="diffusers")
    ] = 1.0,
    max_period: Annotated[
        float, Param("base of the frequencies", above=1, source="diffusers")
    ] = 10_000.0,
) -> Sinusoids:
    """Sines and cosines of the timestep, on which a diffusion model is conditioned.

    >>> timestep.bind({"dim": 5}).content.placements[-1]
    Placement(function='zero', columns=slice(4, 5, None), waves=slice(None, None, None))
    """
    pairs = dim // 2
    if pairs and downscale_freq_shift >= pairs:
        raise InvalidInput(
            f"--set downscale_freq_shift {downscale_freq_shift:g}: must be below the {pairs} pairs "
            f"of --dim {dim}"
        )

    def frequencies(xp: Any) -> Any:
        steps = xp.asarray(pairs) - downscale_freq_shift
        return scale / max_period ** (xp.arange(0, pairs, 1) / steps)

    halves = slice(0, pairs), slice(pairs, 2 * pairs)
    sines, cosines = halves[:: -1 if flip_sin_to_cos else 1]
    placements: tuple[Placement, ...] = ()
    if pairs:
        placements = Placement("sin", sines), Placement("cos", cosines)
    if dim % 2:
        placements = (*placements, Placement("zero", slice(2 * pairs, dim)))
    return Sinusoids(Waves(pairs, frequencies), dim, placements)


def _ladder(spacing: str, pairs: int, dim: int, base: float) -> Callable[[Any], Any]:
    """The frequencies of a geometric ladder: base^−2i/dim, or base^−i/(pairs−1)."""

    def vaswani(xp: Any) -> Any:
        return 1 / base ** (xp.arange(0, 2 * pairs, 2) / dim)

    def tensor2tensor(xp: Any) -> Any:
        return 1 / base ** (xp.arange(0, pairs, 1) / max(pairs - 1, 1))

    return vaswani if spacing == "vaswani" else tensor2tensor


def wave_placements(
    width: int, pairs: int, *, interleaved: bool, order: Order
) -> tuple[Placement, ...]:
    """Which columns hold sines and which cosines; the second function may lack its last column."""
    functions: tuple[Function, Function]
    functions = ("sin", "cos") if order == "sin-first" else ("cos", "sin")
    rest = width - pairs
    if interleaved:
        columns = slice(0, width, 2), slice(1, width, 2)
    else:
        columns = slice(0, pairs), slice(pairs, width)
    return (
        Placement(functions[0], columns[0], slice(0, pairs)),
        Placement(functions[1], columns[1], slice(0, rest)),
    )
