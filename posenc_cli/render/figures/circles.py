"""Make figures of a rotation: each dimension pair on a circle.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.encoded import blocks_at, wavelengths_of
from posenc_cli.analysis.sampling import Points, PositionAxis, positions_of, spread
from posenc_cli.analysis.spectrum import context_of
from posenc_cli.budget import check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import Curve, Curves, Panels
from posenc_cli.render.figures.encoded import sourced, title_of
from posenc_cli.render.ticks import finite_or_null, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import Complexes, ComplexRows, RealRows, Reals
    from posenc_cli.positions import Positions
    from posenc_cli.render.html.live import Clocks

_FIRST = 16
"""Positions shown by default."""
_MOST_POSITIONS = 64
"""The most positions on a circle: more look like a ring."""
_PAIRS, _VISIBLE_TURNS = 3, 1 / 16
"""Pairs shown by default, and the least visible rotation of a pair at the last position."""
_MOST_PAIRS = 64
_TURN: Reals = np.linspace(0, 2 * np.pi, 97, dtype=np.float64)
_CIRCLE: Complexes = np.cos(_TURN) + 1j * np.sin(_TURN)


class PairCircles(Record):
    """The rotated vector (1, 0) of some pairs, at the shown ``positions``.

    ``columns`` are the two dimensions of each pair. ``turns`` is its angle in full rotations,
    within ±0.5. ``wavelengths`` are positions (or steps along an axis) per full rotation. Clocks of
    a page go up to the position ``reach``.

    Shape: points and turns (positions, pairs).
    """

    request: Request
    source: str
    positions: Positions
    pairs: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    wavelengths: Reals
    points: ComplexRows
    turns: RealRows
    reach: int

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if not all positions are shown."""
        count = self.request.row_positions().count
        if count == self.positions.count:
            return ()
        return (f"shows {self.positions.count} of {count} positions",)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The request and the angle of each pair, for JSON."""
        return {
            **self.request.description(),
            "shown": [*PositionAxis(self.positions)],
            "pairs": [
                {
                    "pair": pair,
                    "columns": list(self.columns[index]),
                    "wavelength": finite_or_null(float(self.wavelengths[index])),
                    "turns": self.turns[:, index].tolist(),
                }
                for index, pair in enumerate(self.pairs)
            ],
        }

    @property
    def figure(self) -> Panels:
        """A circle for each pair, with the vector at the first and at the last position."""
        waves = self.request.encoding.bound.rotation.waves
        pairs_in_all, growth = waves.count, waves.growth
        scaled = "of q rotated and scaled" if growth is not None else "rotated"
        size = f"the vector (1, 0) {scaled}, {len(self.pairs)} of {pairs_in_all} pairs"
        title = title_of(replace(self.request, table=None), size)
        points = Points(self.positions)
        first, last = (f"position {self.positions.name(points[end])}" for end in (0, -1))
        return Panels(
            tuple(self._circle(index) for index in range(len(self.pairs))),
            sourced(title, self.source),
            shared=False,
            noun="pair",
            notes=(f"faint line: {first}; full line: {last}; points: between", *self.notes),
        )

    def clocks(self) -> tuple[Clocks, ...]:
        """Return the pairs as clocks of a page; empty if they do not follow the position alone."""
        from posenc_cli.render.html.live import clocks_of

        return clocks_of(self.request.encoding.bound.rotation.waves, self.pairs, self.reach)

    def _last_position(self, index: int) -> float:
        """Return the last position, or its coordinate on the axis that the pair follows."""
        coordinates = self.request.encoding.bound.rotation.waves.coordinates
        if coordinates is None:
            return float(PositionAxis(self.positions)[-1])
        assert coordinates.at is not None
        last = np.array([Points(self.positions)[-1]])
        place = coordinates.at(last)[coordinates.axes[self.pairs[index]]][0]
        return float(place) / coordinates.denominator

    def _circle(self, index: int) -> Curves:
        waves = self.request.encoding.bound.rotation.waves
        turns = self._last_position(index) / float(self.wavelengths[index])  # full turns included
        turns_text = number(turns if abs(turns) < 1000 else round(turns), 3)
        points = self.points[:, index]
        radii = [abs(float(waves.scale))]
        if waves.growth is not None:  # the second circle contains all points, so sizes are equal
            sizes = np.abs(self.points)
            radii.append(float(sizes[np.isfinite(sizes)].max(initial=0.0)))
        dots = replace(_curve_in_plane(points[1:-1]), joined=False, color=1)
        return Curves(
            (
                *(replace(_curve_in_plane(radius * _CIRCLE), faint=True) for radius in radii),
                replace(_curve_in_plane(points[:1], start=0), faint=True),
                replace(_curve_in_plane(points[-1:], start=0), color=0),
                *[dots] * (len(points) > 2),
            ),
            f"pair {self.pairs[index]}: {turns_text} rotations",
            x_label=f"dimension {self.columns[index][0]}",
            y_label=f"dimension {self.columns[index][1]}",
            square=True,
        )


def rotated_pairs(choice: Choice, pairs: Positions | None = None) -> PairCircles:
    """Return the rotated vectors of some pairs at the chosen positions; by default of a few pairs.

    Raises: InvalidInput if the encoding does not rotate, or has no such pair.
    """
    bound = choice.encoding().bound
    if bound.scheme.kind != "rotary":
        raise InvalidInput(
            f"{choice.asked}: {bound.scheme.name} is {bound.scheme.kind_text}; it does not rotate "
            "vectors",
            hint="posenc schemes lists what is rotary",
        )
    reach = context_of(choice.encoding(), choice.positions, choice.context)[0] - 1
    if choice.positions is None:
        choice = choice.at_first(_FIRST)
    (request,) = choice.requests(Precision.of(FLOAT64, None), table="complex")
    rotation = request.encoding.bound.rotation
    waves = rotation.waves
    if pairs is not None:
        check_size(f"--pairs {pairs}", pairs.count, _MOST_PAIRS, "pairs in one picture")
    chosen = _visibly_rotating_pairs(request) if pairs is None else [*pairs]
    if max(chosen) >= waves.count:
        raise InvalidInput(f"--pairs {max(chosen)}: the pairs are 0 to {waves.count - 1}")
    points = Points(request.row_positions())
    shown = positions_of(
        [points[i] for i in spread(len(points), _MOST_POSITIONS)], request.denominator
    )
    columns = paired_columns(rotation.layout, waves.count, rotation.blocks)
    cells, angles = (
        np.concatenate([*blocks_at(table, shown, choice.engine)])[:, chosen]
        for table in (request, replace(request, table="angles"))
    )
    return PairCircles(
        request,
        choice.source,
        shown,
        tuple(chosen),
        tuple((columns[0][pair], columns[1][pair]) for pair in chosen),
        wavelengths_of(waves)[chosen] / (waves.coordinates.denominator if waves.coordinates else 1),
        cells,
        angles / (2 * math.pi),
        reach,
    )


def _visibly_rotating_pairs(request: Request) -> list[int]:
    """Choose a few pairs, from the highest frequency to the lowest that visibly rotates.

    With several axes, they are chosen from all pairs.
    """
    waves = request.encoding.bound.rotation.waves
    last = abs(PositionAxis(request.row_positions())[-1])
    moving = np.flatnonzero(wavelengths_of(waves) <= last / _VISIBLE_TURNS).tolist()
    if waves.coordinates is not None or len(moving) < _PAIRS:
        return spread(waves.count, _PAIRS)
    return [moving[i] for i in spread(len(moving), _PAIRS)]


def _curve_in_plane(points: Complexes, *, start: complex | None = None) -> Curve:
    """Return points of a plane as a curve, beginning at ``start`` if given."""
    points = points if start is None else np.insert(points, 0, start)
    return Curve(tuple(points.real.tolist()), tuple(points.imag.tolist()))
