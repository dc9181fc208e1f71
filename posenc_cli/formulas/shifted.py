"""Sinusoids of positions that training moves at random: CAPE and SHAPE.

Both move positions while they train and give fixed rows afterwards. What is drawn depends on the
seed and the position alone; shifts of CAPE are multiples of 2^−24, as those of float32 are.
"""

from __future__ import annotations

from typing import Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Coordinates, Sinusoids, Waves, absolute, within_length
from posenc_cli.formulas.draws import uniform, uniform_parts
from posenc_cli.formulas.inverse import unguessed
from posenc_cli.formulas.parameters import Base, Dim, Param, SequenceLength
from posenc_cli.formulas.rotary import ladder
from posenc_cli.formulas.sinusoids import wave_placements
from posenc_cli.positions import LARGEST_POSITION

_CAPE = "Likhomanenko et al. 2021, arXiv:2106.03143"
_SHAPE = "Kiyono et al. 2021, arXiv:2109.05644"
_BITS = 24
_LARGEST_SHIFT = 1e6
_GLOBAL_SHIFT, _GLOBAL_SCALING, _FIRST_LOCAL_SHIFT = range(3)
"""Places of what is drawn once for a sequence; then each position has its own."""

Training = Annotated[
    bool, Param("use random positions as in training, from the seed; else those of evaluation")
]
ShiftSeed = Annotated[
    int, Param("seed of the random positions of training", minimum=0, maximum=2**64 - 1)
]


@absolute(
    source=f"{_CAPE} §3; PyTorch code of gcambara/cape",
    formula=(
        "sin(x · ω_i), cos(x · ω_i) in turn, ω_i = freq_scale · base^(−2i/dim); x = p, less "
        "(seq_len − 1)/2 where normalize; in training (x + D + e_p) · exp(s), uniform |D| ≤ "
        "max_global_shift, |e_p| ≤ max_local_shift, |s| ≤ ln max_global_scaling"
    ),
    convention=(
        "The defaults of the shifts are the code's for text, where normalize=false and evaluation "
        "is then the sinusoidal scheme; for speech it has max_global_shift=60 "
        "max_global_scaling=1.1 freq_scale=30. The three settings count in training=true alone. "
        "Each sequence of a batch has draws of its own; here a seed is a sequence."
    ),
    inverse=unguessed,
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
            "largest shift of a single position",
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
    """CAPE: sinusoids of positions that are centred, and moved and scaled at random in training.

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
    moved = _part_of(uniform(seed, _GLOBAL_SHIFT), max_global_shift, parts) if training else 0

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
        "p + k, k drawn evenly from 0 … max_shift − 1"
    ),
    convention=(
        "The authors' code adds max_shift to all positions once it no longer trains; a model that "
        "counts from 0 then is the sinusoidal scheme. Each sequence of a batch has a shift of its "
        "own; here a seed is a sequence. Their table ends at 5000 positions."
    ),
    inverse=unguessed,
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
    """SHAPE: sinusoids of positions that training shifts, all together, by a random number.

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
        Waves(pairs, lambda xp: ladder(xp, dim, base), coordinates=coordinates),
        width=dim,
        placements=wave_placements(dim, pairs, interleaved=True, order="sin-first"),
        drawn=f"random shift, seed {seed}" if training else None,
    )


def _pairs(name: str, dim: int) -> int:
    """How many pairs of a sine and a cosine there are.

    Raises: InvalidInput for an odd number of columns.
    """
    if dim % 2:
        raise InvalidInput(f"--dim {dim}: {name} pairs a sine with a cosine, so dim must be even")
    return dim // 2


def _part_of(share: float, reach: float, parts: int) -> int:
    """The number of parts that a share, from 0 to 1, of the way from −reach to reach is."""
    return round((2 * share - 1) * reach * parts)
