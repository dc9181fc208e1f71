"""Encodings of sines and cosines at a geometric sequence of frequencies.

Also their predecessors (counting, normalizing, bits), and no encoding at all.

CAPE and SHAPE shift positions at random in training, and give fixed rows afterwards. Random numbers
depend only on the seed and the position. CAPE's shifts are multiples of 2^−24, as float32's random
numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    Capacity,
    Coordinates,
    Rows,
    Sinusoids,
    Waves,
    absolute,
    relative,
    within_length,
)
from posenc_cli.formulas.inverse import Guess, Measured, ladder_bases, no_guesses
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength, uniform, uniform_parts
from posenc_cli.formulas.rotary import ladder, plain_waves
from posenc_cli.numerics.double_double import quotient
from posenc_cli.numerics.placements import Function, Placement
from posenc_cli.positions import LARGEST_POSITION

Order = Literal["sin-first", "cos-first"]
_PAPER = "Vaswani et al. 2017 §3.5"
Odd = Literal["error", "truncate", "pad", "split"]
_TURNS_COST = 0.4
"""The extra cost of full turns over radians: one library has them, and not by default."""


_CAPE = "Likhomanenko et al. 2021, arXiv:2106.03143"
_SHAPE = "Kiyono et al. 2021, arXiv:2109.05644"
_BITS = 24
_LARGEST_SHIFT = 1e6
_GLOBAL_SHIFT, _GLOBAL_SCALING, _FIRST_LOCAL_SHIFT = range(3)
"""Places of the random numbers drawn once per sequence; those of each position follow."""

Training = Annotated[
    bool,
    Param(
        "use random positions from the seed, as in training, instead of the positions of evaluation"
    ),
]
ShiftSeed = Annotated[
    int, Param("seed of the random positions in training", minimum=0, maximum=2**64 - 1)
]


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
        "The defaults are the paper's. Marian uses layout=concat odd=split, and XLNet uses "
        "layout=concat. tensor2tensor, fairseq, M2M100 and Whisper use layout=concat "
        "spacing=tensor2tensor odd=pad. Musicgen uses the same options and order=cos-first. "
        "positional-encodings uses odd=truncate. fairseq numbers its first token padding_idx + 1, "
        "so use --start."
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
            "sines and cosines alternate (interleaved), or form two halves (concat)",
            source=_PAPER,
        ),
    ] = "interleaved",
    spacing: Annotated[
        Literal["vaswani", "tensor2tensor"],
        Param(
            "exponent: 2i/dim (vaswani), or i/(pairs − 1), so that the lowest frequency is 1/base "
            "(tensor2tensor)",
            source=_PAPER,
        ),
    ] = "vaswani",
    order: Annotated[Order, Param("order of sines and cosines", source=_PAPER)] = ("sin-first"),
    odd: Annotated[
        Odd,
        Param(
            "for an odd dim: refuse it (error), drop the last column (truncate), add a zero "
            "column (pad), or put the extra column into the first half (split)"
        ),
    ] = "error",
    full_turns: Annotated[
        bool,
        Param("frequencies count full rotations: angles are multiplied by 2π (MLX)"),
    ] = False,
) -> Sinusoids:
    """Sines and cosines whose wavelengths grow geometrically from 2π toward 2π · base.

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
    placements = wave_placements(
        width, pairs, interleaved=layout == "interleaved", order=order, dim=dim
    )
    step, divisor = (2, exponent_dim) if spacing == "vaswani" else (1, max(pairs - 1, 1))

    def frequencies(xp: Any) -> Any:
        plain = 1 / base ** (xp.arange(0, step * pairs, step) / divisor)
        return plain * 2 * xp.pi if full_turns else plain

    return Sinusoids(waves=Waves(pairs, frequencies), width=dim, placements=placements)


@absolute(
    source="Ho et al. 2020, arXiv:2006.11239; diffusers' get_timestep_embedding",
    formula=(
        "sin(t · ω_i), then cos(t · ω_i), of the timestep t: ω_i = scale · max_period^(−i / (n − "
        "downscale_freq_shift)), i = 0 … n − 1, n = ⌊dim/2⌋"
    ),
    convention=(
        "The defaults are those of diffusers' function and of DDPM. Stable Diffusion (freq_shift "
        "of its UNet), ADM, DiT and diffusers' transformers use flip_sin_to_cos=true "
        "downscale_freq_shift=0. DiT in diffusers uses flip_sin_to_cos=true "
        "downscale_freq_shift=1. In Flux, timesteps range from 0 to 1, and the model multiplies "
        "them by 1000. An odd dim ends in a column of zeros."
    ),
    inverse=no_guesses,
)
def timestep(
    *,
    dim: Dim = 64,
    flip_sin_to_cos: Annotated[bool, Param("cosines before sines")] = False,
    downscale_freq_shift: Annotated[
        float,
        Param(
            "shift of the divisor in the exponent; with 1, the lowest frequency is exactly "
            "1/max_period",
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
    """Sines and cosines of the timestep of a diffusion model.

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

    order: Order = "cos-first" if flip_sin_to_cos else "sin-first"
    placements = wave_placements(2 * pairs, pairs, interleaved=False, order=order, dim=dim)
    return Sinusoids(Waves(pairs, frequencies), dim, placements)


@absolute(
    source=f"{_CAPE} §3; PyTorch code in gcambara/cape",
    formula=(
        "sin(x · ω_i), cos(x · ω_i) alternating, ω_i = freq_scale · base^(−2i/dim); x = p, or "
        "p − (seq_len − 1)/2 with normalize; in training (x + D + e_p) · exp(s), uniform |D| ≤ "
        "max_global_shift, |e_p| ≤ max_local_shift, |s| ≤ ln max_global_scaling"
    ),
    convention=(
        "The default shifts are those of the authors' code for text, which uses normalize=false. "
        "For speech, the code uses max_global_shift=60 max_global_scaling=1.1 freq_scale=30. "
        "Shifts and scaling apply only with training=true. In the authors' code, each sequence of "
        "a batch gets different random numbers. posenc computes one sequence, and the seed sets "
        "its random numbers."
    ),
    inverse=no_guesses,
)
def cape(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    normalize: Annotated[
        bool, Param("count from the middle of the sequence", source=f"{_CAPE} §3.1")
    ] = True,
    freq_scale: Annotated[
        float, Param("multiplies every frequency", above=0, maximum=1e6, source="the code")
    ] = 1.0,
    training: Training = False,
    max_global_shift: Annotated[
        float,
        Param(
            "largest shift of all positions together",
            minimum=0,
            maximum=_LARGEST_SHIFT,
            source="the code's example for text",
        ),
    ] = 5.0,
    max_local_shift: Annotated[
        float,
        Param(
            "largest shift of an individual position",
            minimum=0,
            maximum=_LARGEST_SHIFT,
            source="the code's example for text",
        ),
    ] = 1.0,
    max_global_scaling: Annotated[
        float,
        Param(
            "largest factor that multiplies or divides all positions",
            minimum=1,
            maximum=1e6,
            source="the code's example for text",
        ),
    ] = 1.03,
    seed: ShiftSeed = 0,
    seq_len: SequenceLength = None,
) -> Sinusoids:
    """CAPE: sinusoids of centered positions, randomly shifted and scaled in training.

    >>> content = cape.bind({"dim": 4}, seq_len=6).content
    >>> content.waves.coordinates.steps, content.capacity.positions
    ((2,), 6)
    """
    pairs = _pairs("cape", dim)
    parts = 2**_BITS if training else 2
    length = seq_len or 1
    if (2 * length + 4 * _LARGEST_SHIFT) * parts > LARGEST_POSITION:
        raise InvalidInput(
            f"a length of {length}: cape places positions on parts of 1/{parts}, and so many are "
            "more than 2^53 of them"
        )
    centre = (length - 1) * parts // 2 if normalize else 0
    share = 2 * uniform(seed, _GLOBAL_SHIFT) - 1
    moved = round(share * max_global_shift * parts) if training else 0

    def at(positions: Any) -> tuple[Any, ...]:
        places = positions * parts - centre + moved
        if not training or not max_local_shift:
            return (places,)
        drawn = positions + _FIRST_LOCAL_SHIFT
        return (places + uniform_parts(seed, drawn, max_local_shift, _BITS),)

    def frequencies(xp: Any) -> Any:
        plain = freq_scale * ladder(xp, dim, base) / parts
        if not training:
            return plain
        share = xp.asarray([2 * uniform(seed, _GLOBAL_SCALING) - 1])
        return plain * xp.exp(share * xp.log(xp.asarray([max_global_scaling])))

    coordinates = Coordinates(
        axes=(0,) * pairs, at=at, capacity=within_length(seq_len), steps=(parts,)
    )
    return Sinusoids(
        Waves(pairs, frequencies, coordinates=coordinates),
        width=dim,
        placements=wave_placements(dim, pairs, interleaved=True, order="sin-first"),
        drawn=f"random shifts, seed {seed}" if training else None,
    )


@absolute(
    source=f"{_SHAPE} §3; the authors' code (OpenNMT-py)",
    formula=(
        "sin(x · ω_i), cos(x · ω_i) in turn, ω_i = base^(−2i/dim); x = p + max_shift; in training "
        "p + k, k drawn uniformly from 0 … max_shift − 1"
    ),
    convention=(
        "After training, the authors' code adds max_shift to all positions. For positions without "
        "this shift, use the sinusoidal scheme. In this code, each sequence of a batch gets a "
        "different shift. Here, the seed sets the shift of one sequence. The authors' table ends "
        "at 5000 positions."
    ),
    inverse=no_guesses,
)
def shape(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    max_shift: Annotated[
        int,
        Param("bound of the random shift in training", minimum=1, maximum=10**9, source=_SHAPE),
    ] = 500,
    training: Training = False,
    seed: ShiftSeed = 0,
    seq_len: SequenceLength = None,
) -> Sinusoids:
    """SHAPE: sinusoids of positions with one random shift per sequence in training.

    >>> [int(place) for place in shape.bind({"dim": 4}).content.waves.coordinates.at(7)]
    [507]
    """
    pairs = _pairs("shape", dim)
    length = seq_len or 1
    if length + max_shift > LARGEST_POSITION:
        raise InvalidInput(f"--set max_shift {max_shift}: {length} positions more are past 2^53")
    shift = int(uniform(seed, _GLOBAL_SHIFT) * max_shift) if training else max_shift
    coordinates = Coordinates(
        axes=(0,) * pairs,
        at=lambda positions: (positions + shift,),
        capacity=within_length(seq_len),
    )
    return Sinusoids(
        plain_waves(dim, base, coordinates=coordinates),
        width=dim,
        placements=wave_placements(dim, pairs, interleaved=True, order="sin-first"),
        drawn=f"random shift, seed {seed}" if training else None,
    )


def _pairs(name: str, dim: int) -> int:
    """Return the number of pairs of a sine and a cosine.

    Raises: InvalidInput for an odd number of columns.
    """
    if dim % 2:
        raise InvalidInput(f"--dim {dim}: {name} pairs a sine with a cosine, so dim must be even")
    return dim // 2


@relative(
    source="Dai et al. 2019, arXiv:1901.02860 §3.3; the authors' PositionalEmbedding",
    formula=(
        "row of offset j − i: sin((i − j) · base^(−2k/dim)) for k = 0 … dim/2 − 1, then the cosines"
    ),
    convention=(
        "The first row is for the farthest earlier key, as in the authors' code (i − j = L − 1 …"
        " 0). The last rows are for later keys, as in XLNet."
    ),
)
def transformer_xl(*, dim: Dim = 64, base: Base = 10_000.0) -> Sinusoids:
    """Sines and cosines of the distance between query and key.

    >>> transformer_xl.bind({"dim": 4}).content.width
    4
    """
    pairs = _pairs("transformer-xl", dim)
    backwards = Coordinates((0,) * pairs, lambda offsets: (-offsets,), domain="real")
    return Sinusoids(
        plain_waves(dim, base, coordinates=backwards),
        dim,
        wave_placements(dim, pairs, interleaved=False, order="sin-first"),
    )


@absolute(
    source="a simple idea for teaching; Vaswani et al. 2017 §3.5 use sinusoids instead",
    formula="PE[p, c] = p",
)
def integer(*, dim: Dim = 64) -> Rows:
    """The position itself, in every column.

    Unique and linear, but unbounded: it outgrows the embeddings it is added to.
    """
    return Rows(
        dim,
        lambda xp, positions, _table, denominator: _quotients(xp, positions, denominator, dim),
        limit=math.inf,
        domain="real",
    )


@absolute(
    source="a simple idea for teaching",
    formula="PE[p, c] = p / seq_len",
)
def normalized(*, dim: Dim = 64, seq_len: SequenceLength = None) -> Rows:
    """The position divided by the length, in every column.

    Bounded, but the same distance becomes a different number at another length.
    """
    if seq_len is not None and seq_len > LARGEST_POSITION:
        raise InvalidInput(f"--set seq_len {seq_len}: normalized divides by it, exact up to 2^53")

    def rows(xp: Any, positions: Any, _table: None, denominator: int) -> Any:
        parts = (seq_len or 1) * denominator
        if int(float(parts)) != parts:
            raise InvalidInput(
                f"--set seq_len {seq_len}: normalized divides by it and by {denominator} parts "
                "of 1, exact up to 2^53"
            )
        return _quotients(xp, positions, parts, dim)

    return Rows(dim, rows, capacity=within_length(seq_len), limit=1, domain="positive")


@absolute(
    source="the bits of a counter; sinusoids are a smooth version of them",
    formula="PE[p, c] = bit c of p",
)
def binary(
    *,
    dim: Dim = 64,
    order: Annotated[
        Literal["msb-first", "lsb-first"], Param("order of the bits: highest first or lowest first")
    ] = "msb-first",
) -> Rows:
    """The bits of the position, one per column.

    Unique and bounded, but neighbours can differ in many columns.
    """

    def rows(xp: Any, positions: Any, _table: None) -> Any:
        bits = xp.arange(dim - 1, -1, -1) if order == "msb-first" else xp.arange(dim)
        # An int64 position has no bits past 62, and a longer shift is undefined in C.
        shifted = positions[:, None] >> xp.minimum(bits, xp.asarray(62))[None, :]
        return xp.asarray(shifted & 1, dtype=xp.float64)

    return Rows(
        dim,
        rows,
        positions="indices",
        capacity=Capacity(2**dim, f"{dim} bits", f"--dim {dim + 1} doubles it"),
        limit=1,
    )


@absolute(
    source="Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466",
    formula="PE[p, c] = 0",
)
def nope(*, dim: Dim = 64) -> Rows:
    """No positional encoding: zeros.

    A causal decoder can still tell positions apart by how many keys each query sees.
    """
    return Rows(
        dim,
        lambda xp, positions, _table, _denominator: xp.zeros((positions.shape[0], dim)),
        positions="unused",
        limit=0,
        domain="real",
    )


def _quotients(xp: Any, positions: Any, divisor: int, dim: int) -> Any:
    """Return positions over a divisor, equal in every column: (high, low), each (P, dim)."""
    parts = quotient(xp.asarray(positions, dtype=xp.float64), float(divisor))
    return tuple(xp.broadcast_to(part[:, None], (part.shape[0], dim)) for part in parts)


def wave_placements(
    width: int, pairs: int, *, interleaved: bool, order: Order, dim: int = 0
) -> tuple[Placement, ...]:
    """Return which columns hold sines, cosines, and zeros from ``width`` up to ``dim``.

    The second function may lack its last column.
    """
    functions: tuple[Function, Function] = (
        ("sin", "cos") if order == "sin-first" else ("cos", "sin")
    )
    columns = (
        (slice(0, width, 2), slice(1, width, 2))
        if interleaved
        else (slice(0, pairs), slice(pairs, width))
    )
    placed = (
        Placement(functions[0], columns[0], slice(0, pairs)),
        Placement(functions[1], columns[1], slice(0, width - pairs)),
    )
    zeros = [Placement("zero", slice(width, dim))] if width < dim else []
    return (*(placed if pairs else ()), *zeros)
