"""Encodings of positions on several axes: each wave belongs to one axis.

Defines the grid in row-major order, and how libraries divide the columns among the axes: which axis
comes first, where counting begins, and which frequencies each axis has.
"""

from __future__ import annotations

from itertools import accumulate
from math import lcm, prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import (
    AxesFile,
    Capacity,
    Coordinates,
    Mistake,
    Rotation,
    Sinusoids,
    Waves,
    absolute,
    rotary,
)
from posenc_cli.formulas.inverse import no_guesses, plain_ladder
from posenc_cli.formulas.parameters import Base, Dim, Param, as_text
from posenc_cli.formulas.rotary import PairLayout, Partial, ladder, plain_waves, rotated_dim
from posenc_cli.numerics.placements import Placement
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.formulas.tables import Layout

AxisOrder = Literal["thw", "hwt"]
_TIME, _HEIGHT, _WIDTH = range(3)

Grid = Annotated[
    tuple[int, ...],
    Param(
        "positions along each axis (rows × columns for an image); the last axis varies fastest",
        minimum=1,
        maximum=LARGEST_POSITION,
        separator="x",
        source="ViT-B/16 at 224 pixels",
    ),
]
InterpolationScale = Annotated[
    tuple[float, ...] | None,
    Param(
        "divisor of the coordinates, one number or one per axis, as in diffusers",
        minimum=1e-6,
        maximum=1e9,
    ),
]


@absolute(
    source="Vaswani et al. 2017 §3.5 on each axis; He et al. 2021, arXiv:2111.06377, MAE's code",
    formula=(
        "sin(x · ω_i) and cos(x · ω_i) for the coordinate x of each axis, ω_i = base^(−i/n) for n "
        "pairs per axis; tensor2tensor and simple-vit: base^(−i/(n − 1))"
    ),
    convention=(
        "Each convention has its own order of columns. Here, y is the row and x the column of an "
        "image. mae uses sin x, cos x, sin y, cos y. SD3, DiT and PixArt in diffusers use mae "
        "with base_size. vit-mae uses sin y, cos y, sin x, cos x. It is a function of "
        "transformers. ViT-MAE then swaps the two halves, so its table is mae. timm uses sin y, "
        "sin x, cos y, cos x. detr uses the columns of y, then the columns of x. Sines and "
        "cosines alternate, and positions count from 1. cogvideox uses 1/4 of the columns for "
        "frames, 3/8 for x and 3/8 for y. simple-vit (big_vision, and vit-pytorch's SimpleViT "
        "with 2 and 3 axes) is like mae, but the last frequency is 1/base, and the remaining "
        "columns are zeros. tensor2tensor supports any number of axes. Each axis has its sines, "
        "then its cosines, and the remaining columns are zeros. positional-encodings supports up "
        "to 3 axes. Each axis has alternating sines and cosines, and the table is cut off at dim. "
        "Tokens outside the grid, such as a class token, get no row."
    ),
)
def sinusoidal_nd(
    *,
    dim: Dim = 64,
    base: Base = 10_000.0,
    grid: Grid = (14, 14),
    convention: Annotated[
        Literal[
            "mae",
            "vit-mae",
            "timm",
            "detr",
            "cogvideox",
            "simple-vit",
            "tensor2tensor",
            "positional-encodings",
        ],
        Param("library that defines the order of columns, axes and frequencies", source="MAE"),
    ] = "mae",
    normalize: Annotated[
        bool,
        Param(
            "detr only: multiply the coordinates 1 to n of each axis by 2π / (n + 1e-6), as "
            "DETR's models do",
            source="transformers DetrSinePositionEmbedding",
        ),
    ] = False,
    base_size: Annotated[
        tuple[int, ...] | None,
        Param(
            "rows x columns of a reference grid: coordinates are scaled by base_size / grid, as in"
            " SD3 and PixArt",
            minimum=1,
            maximum=LARGEST_POSITION,
            separator="x",
        ),
    ] = None,
    interpolation_scale: InterpolationScale = None,
    origin: Annotated[
        tuple[int, ...] | None,
        Param(
            "first coordinate on each axis, as in SD3's crops [default: set by the convention]",
            minimum=-LARGEST_POSITION,
            maximum=LARGEST_POSITION,
        ),
    ] = None,
) -> Sinusoids:
    """Sines and cosines of grid coordinates, with an equal share of the columns for each axis.

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
    scales = _number_per_axis("interpolation_scale", interpolation_scale, grid)
    chosen = _SINUSOIDAL[convention]
    counts = chosen.counts(convention, dim, grid)
    first = origin or (chosen.origin,) * len(grid)
    if len(first) != len(grid):
        raise InvalidInput(f"--set origin {as_text(first)}: must be {len(grid)} numbers")

    def frequencies(xp: Any) -> Any:
        return xp.concat([of_axis(xp, axis, pairs) for axis, pairs in counts])

    def of_axis(xp: Any, axis: int, pairs: int) -> Any:
        steps = max(pairs - 1, 1) if chosen.ends_at_base else pairs
        ladder = 1 / base ** (xp.arange(0, pairs, 1) / steps)
        if base_size is not None:
            ladder = ladder * base_size[axis] / grid[axis]
        scaled = ladder / xp.asarray(scales[axis])
        # DETR has the positions 1 … n end just below 2π.
        whole = 2_000_000 * xp.asarray(xp.pi) / (1_000_000 * grid[axis] + 1)
        return scaled * whole if normalize else scaled

    return Sinusoids(
        Waves(
            sum(pairs for _, pairs in counts),
            frequencies,
            coordinates=_on_grid(
                grid,
                [axis for axis, pairs in counts for _ in range(pairs)],
                [_AxisLine(number) for number in first],
            ),
        ),
        width=dim,
        placements=chosen.placements(dim, [pairs for _, pairs in counts]),
    )


class _GridConvention(Record):
    """The rule by which a library divides columns among axes.

    ``columns``: sines then cosines of each axis (``by-axis``), of all axes together
    (``by-function``), or alternating (``alternating``). ``rest``: the treatment of columns that do
    not divide evenly. ``order`` and ``shares`` of the axes are given if they differ from grid order
    and equal shares.
    """

    columns: Literal["by-axis", "by-function", "alternating"]
    most_axes: int | None = 2
    rest: Literal["refused", "zero", "cut"] = "refused"
    order: tuple[int, ...] = ()
    shares: tuple[int, ...] = ()
    ends_at_base: bool = False
    origin: int = 0

    def counts(self, name: str, dim: int, grid: Sequence[int]) -> list[tuple[int, int]]:
        """Return the axes of a grid in the order of their columns, and each one's number of pairs.

        Raises: InvalidInput if the library has no rule for this number of axes or columns.
        """
        axes = len(grid)
        self._check_axes(name, grid)
        shares = self.shares or (1,) * axes
        whole = 2 * sum(shares)
        if self.rest == "refused" and dim % whole:
            raise InvalidInput(
                f"--dim {dim}: {name} gives each of {axes} axes as many sines as cosines, "
                f"so dim must be a multiple of {whole}",
                hint="--set convention=tensor2tensor or positional-encodings take any dim",
            )
        pairs = -(-dim // whole) if self.rest == "cut" else dim // whole
        if self.ends_at_base and pairs < 2:
            raise InvalidInput(
                f"--dim {dim}: {name} needs at least 2 frequencies per axis, so dim must be at "
                f"least {4 * axes} for {axes} axes"
            )
        order = [axis for axis in self.order if axis < axes] or range(axes)
        return [(axis, share * pairs) for axis, share in zip(order, shares, strict=True)]

    def _check_axes(self, name: str, grid: Sequence[int]) -> None:
        known = len(self.shares) or 2
        if self.rest == "refused" and len(grid) != known:
            sides = "frames x rows x columns" if known > 2 else "rows x columns"
            raise InvalidInput(
                f"--set grid {_text(grid)}: {name} encodes {known} axes, {sides}",
                hint="--set convention=tensor2tensor or positional-encodings have more",
            )
        if self.most_axes is not None and len(grid) > self.most_axes:
            raise InvalidInput(
                f"--set grid {_text(grid)}: {name} encodes up to {self.most_axes} axes",
                hint="--set convention=tensor2tensor has more",
            )

    def placements(self, dim: int, counts: Sequence[int]) -> tuple[Placement, ...]:
        """Return what each column holds."""
        waves = sum(counts)
        used = 2 * waves
        if self.columns == "alternating":
            return (
                Placement("sin", slice(0, dim, 2), slice(0, (dim + 1) // 2)),
                Placement("cos", slice(1, dim, 2), slice(0, dim // 2)),
            )
        placed = []
        for end, pairs in zip(accumulate(counts), counts, strict=True):
            own, first = slice(end - pairs, end), end - pairs
            start, apart = (first, waves) if self.columns == "by-function" else (2 * first, pairs)
            placed += [
                Placement("sin", slice(start, start + pairs), own),
                Placement("cos", slice(start + apart, start + apart + pairs), own),
            ]
        return (*placed, *([Placement("zero", slice(used, dim))] if used < dim else []))


_SINUSOIDAL = {
    "mae": _GridConvention("by-axis", order=(1, 0)),
    "vit-mae": _GridConvention("by-axis"),
    "timm": _GridConvention("by-function"),
    "detr": _GridConvention("alternating", origin=1),
    "cogvideox": _GridConvention("by-axis", None, order=(0, 2, 1), shares=(2, 3, 3)),
    "simple-vit": _GridConvention("by-axis", 3, "zero", order=(2, 1, 0), ends_at_base=True),
    "tensor2tensor": _GridConvention("by-axis", most_axes=None, rest="zero", ends_at_base=True),
    "positional-encodings": _GridConvention("alternating", most_axes=3, rest="cut"),
}


@rotary(
    source=(
        "Su et al. 2021 §3.2.2 on each axis; Heo et al. 2024, arXiv:2403.13298 §3.2; Wan 2025, "
        "arXiv:2503.20314; HunyuanVideo 2024, arXiv:2412.03603; CogVideoX 2024, arXiv:2408.06072; "
        "LieRE, Ostmeier et al. 2024, arXiv:2406.10322; diffusers' CosmosRotaryPosEmbed and "
        "LTXVideoRotaryPosEmbed"
    ),
    formula=(
        "the pairs of each axis rotate by x · θ_i, θ_i = base^(−i/n) of the n pairs of the axis; "
        "pixtral: base^(−2i/2n) for rows, base^(−(2i+1)/2n) for columns; hunyuan-image-3: the "
        "same, but rows and columns alternate pair by pair; moonvit: columns and rows alternate, "
        "and have the same frequencies; dinov3: by 2π · c · θ_i, c is the center of a patch from "
        "−1 to 1; liere: by c · e^(−4i/(n − 1)), c from 0 (first patch) to 1 (last patch); "
        "eva-pixels: by c · π · (base/2)^(i/(n − 1)), c from −1 (first patch) to 1 (last patch); "
        "lucidrains-pixel: by c · π · (1 + (base/2 − 1) · i/(n − 1)); ltx: by (2x − 1) · π/2 · "
        "base^(i/(n − 1))"
    ),
    convention=(
        "Most conventions order the axes as rows, columns. llama4 and moonvit (Kimi-VL's vision "
        "encoder) use columns, rows. Videos (wan, hunyuan-video, cogvideox) use frames, rows, "
        "columns. Each axis has the same number of dimensions, except for videos. wan uses 44, "
        "42, 42 of 128 dimensions (p − 2⌊p/3⌋, ⌊p/3⌋, ⌊p/3⌋ of p pairs). hunyuan-video uses 16, "
        "56, 56 of 128, and cogvideox uses 16, 24, 24 of 64. flux2 has four axes (frame, row, "
        "column, token) of 32 dimensions each. Flux uses hunyuan-video with base=10000. "
        "Qwen-Image does too, with the origin at minus half of the grid. Z-Image uses cogvideox "
        "with base=256. pixtral, qwen2-vl, hunyuan-image-3, dinov3 and cosmos use the half layout "
        "over all dimensions (row, column, row, column). gemma4 uses the half layout within each "
        "axis (row, row, column, column). All other conventions use the interleaved layout. The "
        "default base is 100 for dinov3 and gemma4, 256 for hunyuan-video, 2000 for flux2, e^4 "
        "for liere, and 10000 for most others. eva-pixels sets base to 224 (max_res), and "
        "lucidrains-pixel to 10 (max_freq). llama4 counts from 1. eva is timm's "
        "RotaryEmbeddingCat without in_pixels. eva-pixels is the same class with in_pixels. "
        "lucidrains-pixel is rotary-embedding-torch with freqs_for='pixel'. Tokens outside the "
        "grid are not rotated and get no row. These are the class and register tokens of dinov3, "
        "liere and llama4, and the text of cogvideox and hunyuan-video. Rows are in row-major "
        "order, but Qwen2-VL itself orders its patches in 2 × 2 blocks. Gemma 4's image processor "
        "passes (x, y), so the first half of the pairs follows columns. Use order=wh for Gemma 4. "
        "Lumina is moonvit with order=hw; its linear_factor is interpolation_scale. dinov3 with "
        "normalize_coords=max (or min) has the longer (or shorter) side twice as base_size. cosmos "
        "is like wan, but each axis has its own base. Its frames have interpolation_scale fps/24. "
        "ltx alternates frames, rows and columns; remaining pairs come first and do not rotate. "
        "LTX-Video has interpolation_scale=62.5,64,64 at 25 frames per second (2.5 · fps). "
        "CogVideoX 1.0 scales other grid sizes to a crop of its trained grid (base_size=30x45), "
        "but CogVideoX 1.5 counts rows and columns. liere is LieRE's fixed form. LieRE's learned "
        "form with 2 × 2 generators is rope-mixed."
    ),
    inverse=no_guesses,
)
def rope_axial(
    *,
    dim: Dim = 64,
    base: Annotated[
        float | None,
        Param(
            "base of the frequencies [default: set by the convention]",
            above=1,
        ),
    ] = None,
    layout: Annotated[
        Literal["interleaved", "half"] | None,
        Param(
            "dimensions of a pair: 2i and 2i+1 (interleaved), or i and i+d/2 (half) [default: set "
            "by the convention]"
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
            "eva",
            "eva-pixels",
            "lucidrains-pixel",
            "wan",
            "hunyuan-video",
            "cogvideox",
            "cosmos",
            "ltx",
            "flux2",
            "hunyuan-image-3",
            "moonvit",
        ],
        Param("model that defines the convention", source="Pixtral"),
    ] = "pixtral",
    order: Annotated[
        Literal["hw", "wh"] | None,
        Param(
            "axis of the first half of the pairs: rows (hw) or columns (wh) [default: set by the "
            "convention]"
        ),
    ] = None,
    sections: Annotated[
        tuple[int, ...] | None,
        Param(
            "for videos: number of pairs for frame, row and column [default: set by the "
            "convention]",
            minimum=1,
            maximum=32768,
        ),
    ] = None,
    base_size: Annotated[
        tuple[int, ...] | None,
        Param(
            "rows x columns of the trained grid, to which eva and cogvideox scale the coordinates; "
            "for dinov3, by which it divides them [default: the grid]",
            minimum=1,
            maximum=LARGEST_POSITION,
            separator="x",
        ),
    ] = None,
    interpolation_scale: InterpolationScale = None,
    rope_scale: Annotated[
        tuple[float, ...] | None,
        Param(
            "for cosmos: factor s of frames, rows and columns; the base of an axis with d "
            "dimensions is multiplied by s^(d/(d − 2)) [default: 2,1,1]",
            minimum=0.01,
            maximum=1e6,
        ),
    ] = None,
    origin: Annotated[
        tuple[int, ...] | None,
        Param(
            "first coordinate on each axis (Qwen-Image: minus half of the grid) [default: set by "
            "the convention]",
            minimum=-LARGEST_POSITION,
            maximum=LARGEST_POSITION,
        ),
    ] = None,
    axes: Annotated[
        str | None,
        Param(
            "file of coordinates instead of the grid, of shape (2, L), or (3, L) for videos, in "
            "the model's own units (dinov3, ltx: −1 to 1; liere: 0 to 1)",
            is_file=True,
        ),
    ] = None,
) -> Rotation:
    """RoPE for images and videos: each pair rotates with the frame, row or column.

    >>> rotation = rope_axial.bind({"grid": "2x3", "dim": 8, "convention": "gemma4"}).content
    >>> rotation.waves.coordinates.axes, rotation.layout, rotation.blocks
    ((0, 0, 1, 1), 'half', 2)
    >>> video = {"grid": "4x2x3", "dim": 16, "convention": "wan"}
    >>> rope_axial.bind(video).content.waves.coordinates.axes
    (0, 0, 0, 0, 1, 1, 2, 2)
    """
    chosen = ROTARY_CONVENTIONS[convention]
    rotated = rotated_dim(dim, partial)
    if len(chosen.shares or grid) == 2 and rotated % 4:
        raise InvalidInput(
            f"--dim {dim}: rows and columns rotate equally many pairs, so the rotated dimensions, "
            f"{rotated}, must be a multiple of 4"
        )
    if axes is not None:
        grid, base_size, origin = (1,) * (len(chosen.shares) or 2), None, None
        if interpolation_scale is not None:
            raise InvalidInput("--set interpolation_scale: the file of axes has scaled coordinates")
    if base is not None and base > _STEEPEST and chosen.rule in _RISING:
        raise InvalidInput(f"--base {as_text(base)}: {convention} has a base of at most 1e30")
    followed = chosen.axes(convention, grid, order)
    counts = chosen.counts(convention, rotated // 2, followed, sections)
    lines = chosen.lines(convention, grid, origin, base_size, interpolation_scale)
    growths = chosen.growths(convention, counts, rope_scale)
    until_last = [pair - pairs for pairs in counts for pair in range(pairs)]
    pairs_in_order = sorted(
        range(len(until_last)),
        key=until_last.__getitem__ if chosen.rule in _DEALT else None,
    )

    ladder_base = chosen.base if base is None else base

    def of_axis(xp: Any, place: int) -> Any:
        axis, pairs = followed[place], counts[place]
        own = ladder_base
        if growths[place] != 1:
            own = own * xp.asarray([growths[place]]) ** (xp.asarray([pairs]) / (pairs - 1))
        ladder = chosen.frequencies(xp, counts, own, place)
        return ladder / lines[axis].parts / xp.asarray(lines[axis].divisor)

    def frequencies(xp: Any) -> Any:
        return xp.concat([of_axis(xp, place) for place in range(len(counts))])[pairs_in_order]

    by_axis = [axis for axis, pairs in zip(followed, counts, strict=True) for _ in range(pairs)]
    of_pairs = [by_axis[pair] for pair in pairs_in_order]
    if axes is None:
        coordinates = _on_grid(grid, of_pairs, lines)
    else:
        coordinates = Coordinates(tuple(of_pairs), file=AxesFile(axes, len(grid)))
    return Rotation(
        Waves(rotated // 2, frequencies, coordinates=coordinates),
        layout or chosen.layout,
        blocks=chosen.blocks,
        base=ladder_base,
    )


class _AxisLine(Record):
    """Coordinates along an axis: (first + step · index) / parts / divisor.

    All but the divisor are integers. ``parts`` are those of the model's own coordinates.
    """

    first: int
    step: int = 1
    parts: int = 1
    divisor: float = 1


class _AxisRotation(Record):
    """The rule by which a model rotates two or more axes.

    ``rule`` sets the frequencies and coordinates:

    - ``count``, ``turns``, ``dealt``, ``woven``: places are counted from ``origin``. ``count`` has
      one ladder per axis. ``turns`` and ``dealt`` have one ladder whose frequencies the axes take
      alternately; ``dealt`` also keeps the pairs in the order of that ladder. ``woven`` has one
      ladder per axis, and the pairs alternate between the axes.
    - ``centres``: coordinates are patch centres, −1 … 1 across the image, in half turns.
    - ``to-one``: coordinates go from 0 to 1, and frequencies from 1 to 1/base, or to e^−4 without a
      base.
    - ``octaves``, ``even``: coordinates go from −1 to 1, and frequencies from π to π · base/2,
      evenly in logarithms (``octaves``) or in themselves (``even``).
    - ``fractions``: coordinates are 2c − 1 for a fraction c of a maximum size, and frequencies rise
      from π/2 to π/2 · base. The pairs alternate between the axes, after those left over, which are
      constant.

    ``rope_scale`` are the factors by which the base of each axis grows (:meth:`growths`).
    ``shares`` are the shares of pairs for the frames, rows and columns of a video. The number of
    pairs must be a multiple of their sum; for thirds, frames get the remainder.
    """

    base: float | None = 10_000.0
    layout: Layout = "half"
    blocks: int = 1
    order: Literal["hw", "wh"] = "hw"
    origin: int = 0
    rule: Literal[
        "count", "turns", "dealt", "woven", "centres", "to-one", "octaves", "even", "fractions"
    ] = "count"
    shares: tuple[int, ...] = ()
    spread: bool = False
    rope_scale: tuple[float, ...] = ()

    def axes(
        self, name: str, grid: tuple[int, ...], order: Literal["hw", "wh"] | None
    ) -> tuple[int, ...]:
        """Return the axes of a grid, in the order of their pairs.

        Raises: InvalidInput if the model has no such grid or order.
        """
        if self.shares:
            if len(grid) != len(self.shares):
                more = " x tokens" if len(self.shares) > 3 else ""
                raise InvalidInput(
                    f"--set grid {_text(grid)}: {name} has {len(self.shares)} axes, "
                    f"frames x rows x columns{more}",
                    hint="--set grid=21x30x52: 81 frames of 480 x 832 pixels, as Wan has them",
                )
            if order is not None:
                raise InvalidInput(f"--set order {order}: {name} has frames, rows and columns")
            return tuple(range(len(grid)))
        if self.rule == "even" and len(grid) == 1:
            return (0,)
        image_sides(name, grid)
        return (0, 1) if (order or self.order) == "hw" else (1, 0)

    def counts(
        self, name: str, pairs: int, axes: tuple[int, ...], given: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Return the number of pairs of each axis.

        Raises: InvalidInput if the pairs cannot be divided like this.
        """
        if given is not None and (not self.shares or self.rule == "fractions"):
            raise InvalidInput(
                f"--set sections {as_text(given)}: the axes of {name} have equally many pairs"
            )
        if not self.shares:
            return (pairs // len(axes),) * len(axes)
        if given is not None:
            if len(given) != len(self.shares) or sum(given) != pairs:
                named = "frames, rows and columns" if len(self.shares) == 3 else "each axis"
                raise InvalidInput(
                    f"--set sections {as_text(given)}: must be {len(self.shares)} numbers, for "
                    f"{named}, that add up to the {pairs} pairs that rotate"
                )
            return given
        whole = sum(self.shares)
        rest = pairs % whole
        if pairs < whole or (rest and self.shares != _THIRDS):
            raise InvalidInput(
                f"--dim: {name} shares frequency pairs by {as_text(self.shares)}, and the "
                f"{pairs} that rotate are not a multiple of {whole}",
                hint="--set sections=FRAMES,ROWS,COLUMNS says how many rotate with each",
            )
        counts = [share * (pairs // whole) for share in self.shares]
        return counts[0] + rest, *counts[1:]

    def growths(
        self, name: str, counts: tuple[int, ...], given: tuple[float, ...] | None
    ) -> tuple[float, ...]:
        """Return the factor s of each axis: its base is multiplied by s^(n/(n − 1)) for n pairs.

        Raises: InvalidInput if the model has one base for all axes, or an axis has one pair.
        """
        factors = given or self.rope_scale
        if factors and (not self.rope_scale or min(counts) < 2):
            why = "needs at least 2 pairs per axis" if self.rope_scale else "has no rope_scale"
            raise InvalidInput(f"--set rope_scale {as_text(factors)}: {name} {why}")
        return _number_per_axis("rope_scale", factors, counts)

    def lines(
        self,
        name: str,
        grid: tuple[int, ...],
        origin: tuple[int, ...] | None,
        base_size: tuple[int, ...] | None,
        scales: tuple[float, ...] | None,
    ) -> list[_AxisLine]:
        """Return the coordinates along each axis.

        Raises: InvalidInput if the model or the grid does not allow these parameters.
        """
        counted = self.rule in ("count", "turns", "dealt", "woven")
        if origin is not None and (not counted or len(origin) != len(grid)):
            raise InvalidInput(
                f"--set origin {as_text(origin)}: "
                + (f"must be {len(grid)} numbers" if counted else f"{name} does not count places")
            )
        if scales is not None and (base_size or not (counted or self.rule == "fractions")):
            why = "base_size scales them" if base_size else f"{name} does not count places"
            raise InvalidInput(f"--set interpolation_scale {as_text(scales)}: {why}")
        if base_size is not None and self.spread and len(base_size) == len(grid):
            spread = zip(origin or (0,) * len(grid), base_size, grid, strict=True)
            return [_AxisLine(first * count, base, count) for first, base, count in spread]
        if base_size is not None and self.rule == "centres" and len(base_size) == len(grid):
            return [self._line(side, 0, 1) for side in base_size]
        if base_size is not None:
            return [_AxisLine((origin or (0,))[0]), *_cropped(name, grid, base_size)]
        first = origin or (self.origin,) * len(grid)
        divisors = _number_per_axis("interpolation_scale", scales, grid)
        return [self._line(*each) for each in zip(grid, first, divisors, strict=True)]

    def _line(self, count: int, origin: int, scale: float) -> _AxisLine:
        if self.rule in ("octaves", "even"):  # a single place is at the first end
            return _AxisLine(min(1 - count, -1), 2, max(count - 1, 1))
        if self.rule == "fractions":
            parts, whole = scale.as_integer_ratio()
            return _checked(
                _AxisLine(-parts, 2 * whole, parts),
                count,
                f"--set interpolation_scale {as_text(scale)}",
            )
        if self.rule == "centres":
            return _AxisLine(1 - count, 2, count)
        last = max(count - 1, 1) if self.rule == "to-one" else 1
        return _AxisLine(origin, 1, last, scale)

    def frequencies(self, xp: Any, counts: tuple[int, ...], base: Any, place: int) -> Any:
        """Return the frequencies of the axis at a place of the order, per unit of coordinates."""
        pairs = counts[place]
        steps = xp.arange(0, pairs) / max(pairs - 1, 1)
        if self.rule == "to-one":
            whole = xp.exp(xp.asarray([4.0])) if base is None else xp.asarray([base])
            return 1 / whole**steps
        assert base is not None
        if self.rule == "octaves":
            return (xp.asarray(base) / 2) ** steps * xp.pi
        if self.rule == "even":
            return ((xp.asarray(base) / 2 - 1) * steps + 1) * xp.pi
        if self.rule == "fractions":
            rising = base ** (xp.arange(0, counts[-1]) / max(counts[-1] - 1, 1)) * xp.pi / 2
            return xp.concat([xp.zeros(pairs - counts[-1]), rising])
        if self.rule in ("turns", "dealt"):
            return 1 / base ** (xp.arange(2 * place, 4 * pairs, 4) / (4 * pairs))
        plain = ladder(xp, 2 * pairs, base)
        return plain * 2 * xp.pi if self.rule == "centres" else plain


_THIRDS = (1, 1, 1)
_RISING, _STEEPEST = ("octaves", "even", "fractions"), 1e30
"""Rules by which the base multiplies frequencies, and the largest whose angles are exact."""
_DEALT = ("dealt", "woven", "fractions")
"""Rules by which the pairs alternate between the axes."""

ROTARY_CONVENTIONS = {
    "pixtral": _AxisRotation(rule="turns"),
    "qwen2-vl": _AxisRotation(),
    "dinov3": _AxisRotation(base=100.0, rule="centres"),
    "gemma4": _AxisRotation(base=100.0, blocks=2),
    "llama4": _AxisRotation(layout="interleaved", order="wh", origin=1),
    "liere": _AxisRotation(base=None, layout="interleaved", rule="to-one"),
    "eva": _AxisRotation(layout="interleaved", spread=True),
    "eva-pixels": _AxisRotation(base=224.0, layout="interleaved", rule="octaves"),
    "lucidrains-pixel": _AxisRotation(base=10.0, layout="interleaved", rule="even"),
    "wan": _AxisRotation(layout="interleaved", shares=_THIRDS),
    "hunyuan-video": _AxisRotation(base=256.0, layout="interleaved", shares=(2, 7, 7)),
    "cogvideox": _AxisRotation(layout="interleaved", shares=(2, 3, 3)),
    "cosmos": _AxisRotation(shares=_THIRDS, rope_scale=(2, 1, 1)),
    "ltx": _AxisRotation(layout="interleaved", shares=_THIRDS, rule="fractions"),
    "hunyuan-image-3": _AxisRotation(rule="dealt"),
    "moonvit": _AxisRotation(layout="interleaved", order="wh", rule="woven"),
    "flux2": _AxisRotation(base=2000.0, layout="interleaved", shares=(1, 1, 1, 1)),
}


def _mrope_mistakes(xp: Any, params: Mapping[str, Any]) -> Iterator[Mistake]:
    sections = params["sections"]
    order = {name: params[name] for name in ("interleaved", "order")}
    axes = xp.asarray(_axes_of_pairs(sections, **order))
    own = xp.zeros(axes.size)
    for axis in range(len(sections)):
        on_axis = axes == axis
        own[on_axis] = plain_ladder(xp, params["base"], int(on_axis.sum()))
    yield Mistake("each axis has its own frequencies", own, "huggingface/transformers#48671")


@rotary(
    source="Wang et al. 2024, arXiv:2409.12191 §2.1",
    formula=(
        "the pair i rotates by x · base^(−2i/d), where x is the position on its section's axis; "
        "interleaved: "
        "on h where i mod 3 = 1 and i < 3 · sections[1], on w where i mod 3 = 2 and i < 3 · "
        "sections[2], else on t"
    ),
    convention=(
        "Qwen2-VL and Qwen2.5-VL use layout=half. Qwen3-VL uses layout=half interleaved=true "
        "sections=24,20,20. Ernie 4.5 VL uses order=hwt sections=22,22,20, which alternates the "
        "pairs of h and w before the pairs of t. XD-RoPE needs four sections, and four rows in "
        "the file of axes (in HunYuan: position, width, height, image). For TMRoPE, pass a file "
        "of times in units of 40 ms. Qwen2.5-Omni truncates these times to integers, but "
        "Qwen3-Omni does not."
    ),
    inverse=no_guesses,
    mistakes=_mrope_mistakes,
)
def mrope(
    *,
    dim: Dim = 128,
    base: Base = 10_000.0,
    layout: PairLayout = "interleaved",
    partial: Partial = 1.0,
    sections: Annotated[
        tuple[int, ...],
        Param(
            "number of pairs for each axis; their sum is d/2",
            minimum=0,
            maximum=32768,
            source="Qwen2-VL",
        ),
    ] = (16, 24, 24),
    interleaved: Annotated[
        bool,
        Param("alternate the axes pair by pair, instead of section by section"),
    ] = False,
    order: Annotated[
        AxisOrder,
        Param("order of the axes: t, h, w; or h and w alternating, then t", source="Qwen2-VL"),
    ] = "thw",
    axes: Annotated[
        str | None,
        Param(
            "file of positions on t, h and w, of shape (3, L); without it, all tokens are text",
            is_file=True,
        ),
    ] = None,
) -> Rotation:
    """Multimodal RoPE: each pair rotates with a token's time, row or column.

    >>> mrope.bind({"dim": 12, "sections": "2,2,2"}).content.waves.count
    6
    """
    rotated = rotated_dim(dim, partial)
    if sum(sections) != rotated // 2:
        raise InvalidInput(
            f"--set sections {as_text(sections)}: must add up to the {rotated // 2} pairs of the "
            f"{rotated} rotated dimensions, not to {sum(sections)}"
        )
    followed = _axes_of_pairs(sections, interleaved=interleaved, order=order)

    coordinates = Coordinates(followed, file=AxesFile(axes, len(sections))) if axes else None
    return Rotation(plain_waves(rotated, base, coordinates=coordinates), layout)


def _axes_of_pairs(
    sections: tuple[int, ...], *, interleaved: bool, order: AxisOrder
) -> tuple[int, ...]:
    """Return the axis (row of the file) that each pair follows.

    >>> _axes_of_pairs((2, 1, 1), interleaved=False, order="thw")
    (0, 0, 1, 2)
    >>> _axes_of_pairs((2, 1, 1), interleaved=True, order="thw")
    (0, 1, 2, 0)
    >>> _axes_of_pairs((1, 1, 2), interleaved=False, order="hwt")
    (1, 2, 0, 0)

    Raises: InvalidInput for sections that no model has.
    """
    given = f"--set sections {as_text(sections)}"
    if len(sections) == 4 and (interleaved or order == "hwt"):
        what = "interleaved=true" if interleaved else "order=hwt"
        raise InvalidInput(f"{given}: must be 3 numbers where {what}")
    if len(sections) not in (3, 4):
        raise InvalidInput(f"{given}: must be 3 numbers, for t, h and w, or 4 for XD-RoPE")
    if order == "hwt":
        height, width, time = sections[:3]
        if interleaved or height != width:
            what = "interleaved=true" if interleaved else f"{height} pairs for h and {width} for w"
            raise InvalidInput(
                f"--set order hwt: h and w alternate, with equally many pairs; {what} does not fit",
                hint="Ernie 4.5 VL has sections=22,22,20",
            )
        return (_HEIGHT, _WIDTH) * height + (_TIME,) * time
    if interleaved:
        dealt = {_HEIGHT: 3 * sections[_HEIGHT], _WIDTH: 3 * sections[_WIDTH]}
        return tuple(
            pair % 3 if pair < dealt.get(pair % 3, 0) else _TIME for pair in range(sum(sections))
        )
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))


def _cropped(name: str, grid: tuple[int, ...], base_size: tuple[int, ...]) -> list[_AxisLine]:
    """Return rows and columns of a grid, spread over a crop of ``base_size`` with its aspect ratio.

    The crop is the largest within ``base_size``, centred; Python rounds its sides and its place.
    The n positions go from its start to (n − 1)/n of its end.

    >>> [(line.first, line.step, line.parts) for line in _cropped("cogvideox", (1, 2, 4), (4, 4))]
    [(2, 1, 2), (0, 1, 1)]

    Raises: InvalidInput for an invalid base_size, or a model that has none.
    """
    from fractions import Fraction

    text = f"--set base_size {_text(base_size)}"
    if name != "cogvideox":
        known = "only cogvideox, dinov3 and eva have a base_size"
        sided = name in ("dinov3", "eva")
        raise InvalidInput(f"{text}: {'must be rows x columns' if sided else known}")
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
        lines.append(_checked(line, count, text))
    return lines


def _checked(line: _AxisLine, count: int, text: str) -> _AxisLine:
    """Return the line of ``count`` places.

    Raises: InvalidInput if its integers exceed 2^53.
    """
    if abs(line.first) + abs(line.step) * count > LARGEST_POSITION:
        raise InvalidInput(
            f"{text}: {count} places of it are more parts than 2^53",
            hint="numbers with few binary digits, such as 62.5, have fewer parts",
        )
    return line


def _number_per_axis(
    name: str, numbers: tuple[float, ...] | None, axes: Sequence[int]
) -> tuple[float, ...]:
    """Return one number per axis from one for all axes, one per axis, or none for 1.

    Raises: InvalidInput for another number of numbers.
    """
    given = numbers or (1.0,)
    if len(given) not in (1, len(axes)):
        raise InvalidInput(f"--set {name} {as_text(given)}: must be 1 number, or {len(axes)}")
    return given * len(axes) if len(given) == 1 else given


def _on_grid(
    grid: tuple[int, ...], followed: Sequence[int], lines: Sequence[_AxisLine]
) -> Coordinates:
    """Return coordinates of row-major positions, for waves that each follow one axis.

    Along an axis they are first + step · index of its line.

    Raises: InvalidInput for a grid with too many positions.
    """
    strides = [prod(grid[axis + 1 :]) for axis in range(len(grid))]

    def at(numbers: Any) -> tuple[Any, ...]:
        indices = [numbers // stride % count for stride, count in zip(strides, grid, strict=True)]
        return tuple(
            line.first + line.step * index for index, line in zip(indices, lines, strict=True)
        )

    return Coordinates(
        axes=tuple(followed),
        steps=tuple(line.step for line in lines),
        parts=tuple(line.parts for line in lines),
        at=at,
        capacity=grid_capacity(grid),
    )


def grid_capacity(grid: tuple[int, ...]) -> Capacity:
    """Return the number of positions of a grid.

    Raises: InvalidInput if there are more than 2^53.
    """
    positions = prod(grid)
    if positions > LARGEST_POSITION:
        raise InvalidInput(f"--set grid {_text(grid)}: must have at most 2^53 positions")
    return Capacity(
        positions, f"grid={_text(grid)} has {positions}", "--set grid=ROWSxCOLUMNS, larger"
    )


def image_sides(name: str, grid: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of an image grid.

    Raises: InvalidInput if the grid of ``name`` does not have two axes.
    """
    if len(grid) != 2:
        raise InvalidInput(f"--set grid {_text(grid)}: {name} has 2 axes, rows x columns")
    return grid[0], grid[1]


def _text(grid: Sequence[int]) -> str:
    return as_text(tuple(grid), separator="x")
