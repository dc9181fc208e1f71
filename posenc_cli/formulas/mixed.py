"""RoPE-Mixed: each pair rotates by the row and the column of an image together.

The angle of a pair is x · f_x + y · f_y. Frequencies are float32, as models store them, so all
angles of a pair are integer multiples of a power of two. The rotation is computed from that
multiple.
"""

from __future__ import annotations

import math
import struct
from typing import Annotated, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Coordinates, Rotation, Waves, rotary
from posenc_cli.formulas.grids import Grid, grid_capacity, image_sides
from posenc_cli.formulas.inverse import no_guesses
from posenc_cli.formulas.parameters import Dim, Param, uniform
from posenc_cli.formulas.rotary import PairLayout, rotated_dim
from posenc_cli.positions import LARGEST_POSITION

_DRAWN_PARTS = 2**32
"""Random frequencies are multiples of 1 over this: as fine as float32 near 2^−8, and exact on every
grid.
"""

_LARGEST_FREQUENCY = 1e6

Frequencies = tuple[float, ...]
"""One number for each pair."""


@rotary(
    source="Heo et al. 2024, arXiv:2403.13298 §3.2; the authors' rope-vit",
    formula=(
        "the pair i rotates by x · f_i + y · g_i at column x and row y; drawn: f_i = m_i cos a and "
        "g_i = m_i sin a for i < d/4, f_i = −m_i sin a and g_i = m_i cos a after, "
        "m_i = base^(−4(i mod d/4)/d), a = 2πu, u uniform from 0 to 1"
    ),
    convention=(
        "The models learn f and g for each head and layer, and store them in `freqs` (x before "
        "y). This scheme uses the f and g of one head. Without x_frequencies and y_frequencies, "
        "posenc draws the head's angle a from the seed, as the authors' initialization does. In "
        "this case, f and g are multiples of 2^−32. A class token is not rotated and gets no row. "
        "The learned form of LieRE (arXiv:2406.10322) with 2 × 2 generators is equivalent. For "
        "this form, include LieRE's sign and coordinate scale in the frequencies. Larger "
        "generators do not rotate dimension pairs."
    ),
    inverse=no_guesses,
)
def rope_mixed(
    *,
    dim: Dim = 64,
    base: Annotated[
        float,
        Param("base of the random magnitudes", above=1, source="the authors' rope_theta"),
    ] = 10.0,
    layout: PairLayout = "interleaved",
    grid: Grid = (14, 14),
    x_frequencies: Annotated[
        Frequencies | None,
        Param(
            "radians per column for each pair of the head, rounded to float32; needs y_frequencies",
            minimum=-_LARGEST_FREQUENCY,
            maximum=_LARGEST_FREQUENCY,
        ),
    ] = None,
    y_frequencies: Annotated[
        Frequencies | None,
        Param(
            "radians per row for each pair of the head, rounded to float32; needs x_frequencies",
            minimum=-_LARGEST_FREQUENCY,
            maximum=_LARGEST_FREQUENCY,
        ),
    ] = None,
    seed: Annotated[
        int, Param("seed of the random angle of the head", minimum=0, maximum=2**64 - 1)
    ] = 0,
) -> Rotation:
    """RoPE-Mixed for images: pairs rotate with row and column, at learned frequencies.

    >>> given = {"dim": 4, "grid": "2x3", "x_frequencies": "1,0.5", "y_frequencies": "0,-0.25"}
    >>> waves = rope_mixed.bind(given).content.waves
    >>> waves.coordinates.capacity.positions, waves.coordinates.steps[0]
    (6, 1.0)
    """
    pairs = rotated_dim(dim, 1.0) // 2
    rows, columns = image_sides("rope-mixed", grid)
    if (x_frequencies is None) != (y_frequencies is None):
        raise InvalidInput("--set x_frequencies and y_frequencies: give both or none")
    if x_frequencies is None or y_frequencies is None:
        if dim % 4:
            raise InvalidInput(
                f"--dim {dim}: half of the pairs are drawn a quarter turn from the others, so dim "
                "must be a multiple of 4"
            )
        ratios = _drawn(dim, base, seed)
    else:
        for name, values in (("x", x_frequencies), ("y", y_frequencies)):
            if len(values) != pairs:
                raise InvalidInput(
                    f"--set {name}_frequencies: must be {pairs} numbers, one per pair; there are "
                    f"{len(values)}"
                )
        rounded = (map(_float32, values) for values in (x_frequencies, y_frequencies))
        ratios = list(zip(*rounded, strict=True))
    parts = [max(x.as_integer_ratio()[1], y.as_integer_ratio()[1]) for x, y in ratios]
    multiples = [(int(x * part), int(y * part)) for (x, y), part in zip(ratios, parts, strict=True)]
    _check_multiples(ratios, multiples, (rows, columns), drawn=x_frequencies is None)

    def at(positions: Any) -> tuple[Any, ...]:
        x, y = positions % columns, positions // columns
        return tuple(along * x + across * y for along, across in multiples)

    return Rotation(
        Waves(
            pairs,
            lambda xp: 1 / xp.asarray([float(part) for part in parts]),
            coordinates=Coordinates(
                axes=tuple(range(pairs)),
                at=at,
                capacity=grid_capacity(grid),
                steps=tuple(math.hypot(*multiple) or 1.0 for multiple in multiples),
                row=columns,
            ),
        ),
        layout,
        drawn=None if x_frequencies is not None else f"random angle, seed {seed}",
    )


def _drawn(dim: int, base: float, seed: int) -> list[tuple[float, float]]:
    """Return frequencies of columns and rows: a ladder of magnitudes along an angle and across."""
    from posenc_cli.numerics import exact

    angle = 2 * exact.asarray([exact.pi]) * exact.asarray([uniform(seed, 0)])
    magnitudes = 1 / base ** (exact.arange(0, dim, 4) / dim)
    along, across = (
        [int(part) for part in exact.round(magnitudes * factor(angle) * _DRAWN_PARTS)]
        for factor in (exact.cos, exact.sin)
    )
    every = [
        *zip(along, across, strict=True),
        *((-y, x) for x, y in zip(along, across, strict=True)),
    ]
    return [(x / _DRAWN_PARTS, y / _DRAWN_PARTS) for x, y in every]


def _float32(value: float) -> float:
    """Return the nearest float32 to a number in its range.

    >>> _float32(0.1), _float32(0.5)
    (0.10000000149011612, 0.5)
    """
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _check_multiples(
    ratios: list[tuple[float, float]],
    multiples: list[tuple[int, int]],
    grid: tuple[int, int],
    *,
    drawn: bool,
) -> None:
    """Reject an image on which a pair has angles of more than 2^53 parts.

    Raises: InvalidInput, which names frequencies that differ too much in size for their grid.
    """
    rows, columns = grid
    for pair, (x, y) in enumerate(multiples):
        if abs(x) * (columns - 1) + abs(y) * (rows - 1) <= LARGEST_POSITION:
            continue
        if drawn:
            raise InvalidInput(
                f"--set grid {rows}x{columns}: the angles on it are more than 2^53 multiples of "
                "2^-32, which drawn frequencies are"
            )
        along, across = ratios[pair]
        raise InvalidInput(
            f"--set x_frequencies and y_frequencies: {along:g} and {across:g} of pair {pair} "
            f"are too unlike: on {rows} x {columns} places their angles are more than 2^53 "
            "parts of what both are multiples of",
            hint="a 0 in place of the smaller, or a smaller grid",
        )
