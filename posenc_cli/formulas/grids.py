"""Encodings of positions on a grid: each wave follows one of its axes.

Owns the grid in row-major order, and the conventions by which libraries divide the columns among
the axes: which axis comes first, where counting begins, and which frequencies each axis has.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    AxesFile,
    Capacity,
    Coordinates,
    Rotation,
    Sinusoids,
    Waves,
    absolute,
    rotary,
)
from posenc_cli.formulas.inverse import unguessed
from posenc_cli.formulas.parameters import Base, Dim, Param, as_text
from posenc_cli.formulas.rotary import Partial, ladder, rotated_dim
from posenc_cli.numerics.placements import Placement
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.formulas.tables import Layout

Grid = Annotated[
    tuple[int, ...],
    Param(
        "positions along each axis, rows × columns for an image; the last axis varies fastest",
        minimum=1,
        maximum=LARGEST_POSITION,
        separator="x",
        source="ViT-B/16 at 224 pixels",
    ),
]


@absolute(
    source="Vaswani et al. 2017 §3.5 on each axis; He et al. 2021, arXiv:2111.06377, MAE's code",
    formula=(
        "sin(x · ω_i) and cos(x · ω_i) for the coordinate x of each axis, ω_i = base^(−i/n) of n "
        "pairs an axis; tensor2tensor: base^(−i/(n − 1))"
    ),
    convention=(
        "Columns of y (row) and x (column) on an image: mae: sin x, cos x, sin y, cos y; vit-mae "
        "(transformers' function, whose halves its ViT-MAE exchanges: mae): sin y, cos y, sin x, "
        "cos x; timm: sin y, sin x, cos y, cos x; detr: y, then x, sines and cosines alternating, "
        "counted from 1. SD3, DiT and PixArt in diffusers: mae, with base_size. tensor2tensor (any "
        "number of axes): sines then cosines, axis after axis, and zeros in columns left over; "
        "positional-encodings (up to 3 axes): alternating, axis after axis, cut off at dim. "
        "Tokens that are on no grid, such as a class token, have no row here."
    ),
)
def sinusoidal_nd(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    grid: Grid = (14, 14),
    convention: Annotated[
        Literal["mae", "vit-mae", "timm", "detr", "tensor2tensor", "positional-encodings"],
        Param("library whose order of columns, axes and frequencies is followed", source="MAE"),
    ] = "mae",
    normalize: Annotated[
        bool,
        Param(
            "detr only: count from 2π/n to 2π along n positions (over n + 1e-6), as DETR's models "
            "do and its module does not by default",
            source="transformers DetrSinePositionEmbedding",
        ),
    ] = False,
    base_size: Annotated[
        tuple[int, ...] | None,
        Param(
            "rows x columns of the grid over which those of this one are spread: coordinates grow "
            "by base_size / grid from place to place, as in SD3 and PixArt",
            minimum=1,
            maximum=LARGEST_POSITION,
            separator="x",
        ),
    ] = None,
) -> Sinusoids:
    """Sines and cosines of the coordinates on a grid, an equal share of the columns for each axis.

    The rows follow the grid in row-major order: row y · columns + x of an image.

    >>> content = sinusoidal_nd.bind({"grid": "2x3", "dim": 8}).content
    >>> content.waves.coordinates.axes, content.waves.coordinates.capacity.positions
    ((1, 1, 0, 0), 6)
    """
    if normalize and convention != "detr":
        raise InvalidInput(f"--set normalize true: {convention} has no such option; detr has")
    if base_size is not None and (normalize or len(base_size) != len(grid)):
        raise InvalidInput(
            f"--set base_size {_text(base_size)}: "
            + ("normalize=true has its own" if normalize else f"grid={_text(grid)} has other axes")
        )
    chosen = _SINUSOIDAL[convention]
    pairs = chosen.pairs(convention, dim, grid)
    axes = tuple(range(len(grid)))[:: -1 if chosen.last_axis_first else 1]

    def frequencies(xp: Any) -> Any:
        steps = max(pairs - 1, 1) if chosen.ends_at_base else pairs
        ladder = 1 / base ** (xp.arange(0, pairs, 1) / steps)
        if base_size is not None:
            return xp.concat([ladder * base_size[axis] / grid[axis] for axis in axes])
        return xp.concat(
            [ladder * _turns(xp, grid[axis]) if normalize else ladder for axis in axes]
        )

    return Sinusoids(
        Waves(
            len(axes) * pairs,
            frequencies,
            coordinates=_on_grid(
                grid,
                [axis for axis in axes for _ in range(pairs)],
                [(chosen.origin, 1) for _ in grid],
            ),
        ),
        width=dim,
        placements=chosen.placements(dim, pairs, len(axes)),
    )


def _turns(xp: Any, count: int) -> Any:
    """What DETR multiplies the positions 1 … count by, to have them end just below 2π."""
    return 2_000_000 * xp.asarray(xp.pi) / (1_000_000 * count + 1)


class _GridConvention(Record):
    """How a library divides columns among axes.

    ``columns``: sines then cosines of each axis (``by-axis``), of all axes together
    (``by-function``), or alternating (``alternating``). ``rest``: what becomes of columns that do
    not divide.
    """

    columns: Literal["by-axis", "by-function", "alternating"]
    most_axes: int | None = 2
    rest: Literal["refused", "zero", "cut"] = "refused"
    last_axis_first: bool = False
    ends_at_base: bool = False
    origin: int = 0

    def pairs(self, name: str, dim: int, grid: Sequence[int]) -> int:
        """How many pairs of columns each axis of a grid has.

        Raises: InvalidInput for a number of axes, or of columns, that the library has no rule for.
        """
        axes = len(grid)
        self._check_axes(name, grid)
        if self.rest == "refused" and dim % (2 * axes):
            raise InvalidInput(
                f"--dim {dim}: {name} gives sines and cosines of {axes} axes as many columns each, "
                f"so dim must be a multiple of {2 * axes}",
                hint="--set convention=tensor2tensor or positional-encodings take any dim",
            )
        pairs = -(-dim // (2 * axes)) if self.rest == "cut" else dim // (2 * axes)
        if self.ends_at_base and pairs < 2:
            raise InvalidInput(
                f"--dim {dim}: {name} spaces at least 2 frequencies an axis, so dim must be at "
                f"least {4 * axes} for {axes} axes"
            )
        return pairs

    def _check_axes(self, name: str, grid: Sequence[int]) -> None:
        if self.rest == "refused" and len(grid) != 2:
            raise InvalidInput(
                f"--set grid {_text(grid)}: {name} encodes 2 axes, rows x columns",
                hint="--set convention=tensor2tensor or positional-encodings have more",
            )
        if self.most_axes is not None and len(grid) > self.most_axes:
            raise InvalidInput(
                f"--set grid {_text(grid)}: {name} encodes up to {self.most_axes} axes",
                hint="--set convention=tensor2tensor has more",
            )

    def placements(self, dim: int, pairs: int, axes: int) -> tuple[Placement, ...]:
        """Which columns hold what."""
        waves, used = axes * pairs, 2 * axes * pairs
        if self.columns == "alternating":
            return (
                Placement("sin", slice(0, dim, 2), slice(0, (dim + 1) // 2)),
                Placement("cos", slice(1, dim, 2), slice(0, dim // 2)),
            )
        if self.columns == "by-function":
            return (
                Placement("sin", slice(0, waves), slice(0, waves)),
                Placement("cos", slice(waves, used), slice(0, waves)),
            )
        placed = []
        for first in range(0, waves, pairs):
            own, start = slice(first, first + pairs), 2 * first
            placed += [
                Placement("sin", slice(start, start + pairs), own),
                Placement("cos", slice(start + pairs, start + 2 * pairs), own),
            ]
        return (*placed, *([Placement("zero", slice(used, dim))] if used < dim else []))


_SINUSOIDAL = {
    "mae": _GridConvention("by-axis", last_axis_first=True),
    "vit-mae": _GridConvention("by-axis"),
    "timm": _GridConvention("by-function"),
    "detr": _GridConvention("alternating", origin=1),
    "tensor2tensor": _GridConvention("by-axis", most_axes=None, rest="zero", ends_at_base=True),
    "positional-encodings": _GridConvention("alternating", most_axes=3, rest="cut"),
}


@rotary(
    source=(
        "Su et al. 2021 §3.2.2 on each axis; Heo et al. 2024, arXiv:2403.13298 §3.2; Wan 2025, "
        "arXiv:2503.20314; HunyuanVideo 2024, arXiv:2412.03603; CogVideoX 2024, arXiv:2408.06072; "
        "LieRE, Ostmeier et al. 2024, arXiv:2406.10322"
    ),
    formula=(
        "the pairs of each axis turn by x · θ_i, θ_i = base^(−i/n) of the n pairs of the axis; "
        "pixtral: base^(−2i/2n) for rows, base^(−(2i+1)/2n) for columns; dinov3: by 2π · c · θ_i, "
        "c the centre of a patch, where the image goes from −1 to 1; liere: by "
        "c · e^(−4i/(n − 1)), c from 0 at the first place to 1 at the last"
    ),
    convention=(
        "Axis of the pairs, in order: rows then columns of the grid; llama4: columns then rows; "
        "video (wan, hunyuan-video, cogvideox): frames, rows, columns. Columns that turn with "
        "each: as many; wan: 44, 42, 42 of 128 (p − 2⌊p/3⌋, ⌊p/3⌋, ⌊p/3⌋ of p pairs); "
        "hunyuan-video: 16, 56, 56 of 128; cogvideox: 16, 24, 24 of 64. Layout: half over all "
        "columns (pixtral, qwen2-vl, dinov3: HWHW), half within each axis (gemma4: HHWW), "
        "interleaved (llama4, liere and video). llama4 counts from 1. Base: 100 (dinov3, gemma4), "
        "e^4 (liere), 256 (hunyuan-video), 10000 (the others). Tokens that are on no grid (class "
        "and register tokens of dinov3, liere and llama4, text of cogvideox and hunyuan-video) do "
        "not turn and have no row here. Rows are in row-major order: Qwen2-VL feeds its patches "
        "in 2 × 2 blocks. Gemma 4's image processor gives its module (x, y), whose first half "
        "then follows columns: order=wh. CogVideoX 1.0 spreads the rows and columns of other "
        "sizes over a crop of the grid that it was trained on: base_size=30x45; 1.5 counts them. "
        "liere is LieRE's fixed form, on the size of image that it was made for; of its learned "
        "forms those with generators of 2 × 2 are rope-mixed."
    ),
    inverse=unguessed,
)
def rope_axial(
    *,
    dim: Dim = 64,
    base: Annotated[
        float | None,
        Param(
            "base of the geometric ladder of wavelengths; 100 for dinov3 and gemma4, 256 for "
            "hunyuan-video, e^4 for liere, else 10000",
            above=1,
        ),
    ] = None,
    layout: Annotated[
        Literal["interleaved", "half"] | None,
        Param(
            "columns that turn together: 2i and 2i+1 (interleaved), or i and i+d/2 (half; of each "
            "axis' columns for gemma4); the model's own where not given"
        ),
    ] = None,
    partial: Partial = 1.0,
    grid: Grid = (14, 14),
    convention: Annotated[
        Literal[
            "pixtral",
            "qwen2-vl",
            "dinov3",
            "gemma4",
            "llama4",
            "liere",
            "wan",
            "hunyuan-video",
            "cogvideox",
        ],
        Param("model whose encoder of images or video is followed", source="Pixtral"),
    ] = "pixtral",
    order: Annotated[
        Literal["hw", "wh"] | None,
        Param(
            "axis that the first half of the pairs follows: rows (hw) or columns (wh); "
            "the model's own where not given"
        ),
    ] = None,
    sections: Annotated[
        tuple[int, ...] | None,
        Param(
            "video only: pairs that turn with frame, row and column; the model's own where not "
            "given",
            minimum=1,
            maximum=32768,
        ),
    ] = None,
    base_size: Annotated[
        tuple[int, ...] | None,
        Param(
            "cogvideox only: rows x columns of the grid that it was trained on, over a crop of "
            "which those of this grid are spread",
            minimum=1,
            maximum=LARGEST_POSITION,
            separator="x",
        ),
    ] = None,
    axes: Annotated[
        str | None,
        Param(
            "file of coordinates in place of the grid: (2, L) numbers, rows and columns, "
            "or (3, L) of video, as the model counts them (dinov3 from −1 to 1, liere from 0 to 1)",
            is_file=True,
        ),
    ] = None,
) -> Rotation:
    """RoPE on an image or a video: each share of the pairs turns with frame, row or column.

    >>> rotation = rope_axial.bind({"grid": "2x3", "dim": 8, "convention": "gemma4"}).content
    >>> rotation.waves.coordinates.axes, rotation.layout, rotation.blocks
    ((0, 0, 1, 1), 'half', 2)
    >>> video = {"grid": "4x2x3", "dim": 16, "convention": "wan"}
    >>> rope_axial.bind(video).content.waves.coordinates.axes
    (0, 0, 0, 0, 1, 1, 2, 2)
    """
    chosen = _ROTARY[convention]
    rotated = rotated_dim(dim, partial)
    if chosen.shares is None and rotated % 4:
        raise InvalidInput(
            f"--dim {dim}: 2 axes turn as many pairs of columns each, so the columns that turn, "
            f"{rotated}, must be a multiple of 4"
        )
    if axes is not None:
        grid, base_size = (1,) * (2 if chosen.shares is None else 3), None
    followed = chosen.axes(convention, grid, order)
    counts = chosen.counts(convention, rotated // 2, sections)
    ladder_base = chosen.base if base is None else base
    lines = [chosen.line(count) for count in grid]
    if base_size is not None:
        lines[1:] = _cropped(convention, grid, base_size)

    def frequencies(xp: Any) -> Any:
        return xp.concat(
            [
                chosen.ladder(xp, pairs, ladder_base, grid[axis], place) / lines[axis].parts
                for place, (axis, pairs) in enumerate(zip(followed, counts, strict=True))
            ]
        )

    of_pairs = [axis for axis, pairs in zip(followed, counts, strict=True) for _ in range(pairs)]
    if axes is None:
        coordinates = _on_grid(grid, of_pairs, [(line.first, line.step) for line in lines])
        parts = [chosen.parts(count) * line.parts for count, line in zip(grid, lines, strict=True)]
        coordinates = replace(coordinates, parts=tuple(parts))
    else:
        coordinates = Coordinates(tuple(of_pairs), file=AxesFile(axes, len(grid)))
    return Rotation(
        Waves(rotated // 2, frequencies, coordinates=coordinates),
        layout or chosen.layout,
        blocks=chosen.blocks,
    )


class _AxisLine(Record):
    """Coordinates along an axis: (first + step · index) / parts, all of them integers."""

    first: int
    step: int = 1
    parts: int = 1


class _AxisTurns(Record):
    """How a model turns two axes, or three.

    ``alternating``: the axes take turns on one ladder of frequencies, where others have it twice.
    ``centred``: coordinates are patch centres, −1 … 1 across the image, in half turns. ``to_one``:
    they go from 0 to 1, and frequencies from 1 to 1/base; without a base it is e^4. ``shares``
    of video are those of the pairs that frames, rows and columns have, of a number of pairs that
    is a multiple of their sum; of thirds frames have what is left over.
    """

    base: float | None = 10_000.0
    layout: Layout = "half"
    blocks: int = 1
    order: Literal["hw", "wh"] = "hw"
    origin: int = 0
    alternating: bool = False
    centred: bool = False
    to_one: bool = False
    shares: tuple[int, ...] | None = None

    def axes(
        self, name: str, grid: tuple[int, ...], order: Literal["hw", "wh"] | None
    ) -> tuple[int, ...]:
        """The axes of a grid, in the order of their pairs.

        Raises: InvalidInput where the model has no such grid, or no such order.
        """
        if self.shares is not None:
            if len(grid) != 3:
                raise InvalidInput(
                    f"--set grid {_text(grid)}: {name} has 3 axes, frames x rows x columns",
                    hint="--set grid=21x30x52: 81 frames of 480 x 832 pixels, as Wan has them",
                )
            if order is not None:
                raise InvalidInput(f"--set order {order}: {name} has frames, rows and columns")
            return (0, 1, 2)
        image_sides(name, grid)
        return (0, 1) if (order or self.order) == "hw" else (1, 0)

    def counts(self, name: str, pairs: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
        """How many of the pairs each axis has.

        Raises: InvalidInput where they cannot be shared so.
        """
        if self.shares is None:
            if given is not None:
                raise InvalidInput(
                    f"--set sections {as_text(given)}: both axes of {name} have as many pairs"
                )
            return (pairs // 2, pairs // 2)
        if given is not None:
            if len(given) != 3 or sum(given) != pairs:
                raise InvalidInput(
                    f"--set sections {as_text(given)}: must be 3 numbers, for frames, rows and "
                    f"columns, that add up to the {pairs} pairs that turn"
                )
            return given
        whole = sum(self.shares)
        rest = pairs % whole
        if pairs < whole or (rest and self.shares != _THIRDS):
            raise InvalidInput(
                f"--dim: {name} shares pairs of columns by {as_text(self.shares)}, and the "
                f"{pairs} that turn are no multiple of {whole}",
                hint="--set sections=FRAMES,ROWS,COLUMNS says how many turn with each",
            )
        frames, rows, columns = (share * (pairs // whole) for share in self.shares)
        return frames + rest, rows, columns

    def line(self, count: int) -> _AxisLine:
        """The coordinates of ``count`` positions along an axis."""
        return _AxisLine(1 - count, 2) if self.centred else _AxisLine(self.origin)

    def parts(self, count: int) -> int:
        """Of what part of 1 the model counts ``count`` coordinates along an axis."""
        return count if self.centred else max(count - 1, 1) if self.to_one else 1

    def ladder(self, xp: Any, pairs: int, base: float | None, count: int, place: int) -> Any:
        """The frequencies of the axis at a place of the order, with ``count`` positions."""
        if self.to_one:
            whole = xp.exp(xp.asarray([4.0])) if base is None else xp.asarray([base])
            return 1 / whole ** (xp.arange(0, pairs) / max(pairs - 1, 1)) / max(count - 1, 1)
        assert base is not None
        if self.alternating:
            return 1 / base ** (xp.arange(2 * place, 4 * pairs, 4) / (4 * pairs))
        plain = ladder(xp, 2 * pairs, base)
        return plain * 2 * xp.pi / count if self.centred else plain


_THIRDS = (1, 1, 1)

_ROTARY = {
    "pixtral": _AxisTurns(alternating=True),
    "qwen2-vl": _AxisTurns(),
    "dinov3": _AxisTurns(base=100.0, centred=True),
    "gemma4": _AxisTurns(base=100.0, blocks=2),
    "llama4": _AxisTurns(layout="interleaved", order="wh", origin=1),
    "liere": _AxisTurns(base=None, layout="interleaved", to_one=True),
    "wan": _AxisTurns(layout="interleaved", shares=_THIRDS),
    "hunyuan-video": _AxisTurns(base=256.0, layout="interleaved", shares=(2, 7, 7)),
    "cogvideox": _AxisTurns(layout="interleaved", shares=(2, 3, 3)),
}


def _cropped(name: str, grid: tuple[int, ...], base_size: tuple[int, ...]) -> list[_AxisLine]:
    """Rows and columns of a grid, spread over the crop of another that has its proportions.

    The crop is the largest within ``base_size``, in the middle; Python rounds its sides and its
    place. n positions go from its first to n − 1 of n parts of its end.

    >>> [(line.first, line.step, line.parts) for line in _cropped("cogvideox", (1, 2, 4), (4, 4))]
    [(2, 1, 2), (0, 1, 1)]

    Raises: InvalidInput for what is no base of a grid, or a model without one.
    """
    from fractions import Fraction

    text = f"--set base_size {_text(base_size)}"
    if name != "cogvideox":
        raise InvalidInput(f"{text}: {name} counts rows and columns; cogvideox has a base_size")
    if len(base_size) != 2:
        raise InvalidInput(f"{text}: must be rows x columns")
    (high, wide), (rows, columns) = base_size, grid[1:]
    if rows / columns > high / wide:
        sides = high, round(high / rows * columns)
    else:
        sides = round(wide / columns * rows), wide
    lines = []
    for base, side, count in zip(base_size, sides, (rows, columns), strict=True):
        first = round((base - side) / 2)
        last = Fraction((first + side) * (count - 1), count)
        step = (last - first) / (count - 1) if count > 1 else Fraction(1)
        parts = lcm(last.denominator, step.denominator)
        line = _AxisLine(first * parts, int(step * parts), parts)
        if abs(line.first) + abs(line.step) * count > LARGEST_POSITION:
            raise InvalidInput(f"{text}: {count} places of it are more parts than 2^53")
        lines.append(line)
    return lines


def _on_grid(
    grid: tuple[int, ...], followed: Sequence[int], lines: Sequence[tuple[int, int]]
) -> Coordinates:
    """Coordinates of row-major positions, for waves that follow one axis each.

    Along each axis they are first + step · index, of its ``(first, step)``.

    Raises: InvalidInput for a grid of more positions than can be told apart.
    """
    strides = [prod(grid[axis + 1 :]) for axis in range(len(grid))]

    def at(numbers: Any) -> tuple[Any, ...]:
        indices = [numbers // stride % count for stride, count in zip(strides, grid, strict=True)]
        return tuple(
            first + step * index for index, (first, step) in zip(indices, lines, strict=True)
        )

    return Coordinates(
        axes=tuple(followed),
        steps=tuple(step for _, step in lines),
        at=at,
        capacity=grid_capacity(grid),
    )


def grid_capacity(grid: tuple[int, ...]) -> Capacity:
    """How many positions a grid has.

    Raises: InvalidInput for more than can be told apart.
    """
    positions = prod(grid)
    if positions > LARGEST_POSITION:
        raise InvalidInput(f"--set grid {_text(grid)}: must have at most 2^53 positions")
    return Capacity(
        positions, f"grid={_text(grid)} has {positions}", "--set grid=ROWSxCOLUMNS, larger"
    )


def image_sides(name: str, grid: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the grid of an image.

    Raises: InvalidInput where what is ``name``d has another grid.
    """
    if len(grid) != 2:
        raise InvalidInput(f"--set grid {_text(grid)}: {name} has 2 axes, rows x columns")
    return grid[0], grid[1]


def _text(grid: Sequence[int]) -> str:
    return as_text(tuple(grid), separator="x")
