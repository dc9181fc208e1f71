"""The cause of coordinates that are scaled or shifted on an axis: normalized, centred, resized.

Owns the step from the rotations that stand in rows to the coordinates that they belong to, and from
these to one line for each axis, held against every cell. Rows that are right stay out of it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.wording import axes_text, coordinate_offset, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import read_coordinates
from posenc_cli.records import Record, replace
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.formulas.declare import Coordinates
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals

_FEWEST = 4
"""Wrong rows of a sample that a line on each axis is read off."""

_TIMES, _OFF = 1e-6, 1e-4
"""What the two numbers of a line may err that is fitted to the rows of a float32 table."""

_LARGEST = 512
"""Denominator of such a number: images have no more places a side."""


class _AxisMap(Record):
    """What becomes of the coordinates of an axis: ``times`` so much and ``off`` by so much."""

    times: float
    off: float

    def text(self, along: Coordinates, axis: int) -> str:
        """In words that follow "are".

        >>> from posenc_cli.formulas.declare import Coordinates
        >>> along = Coordinates((0, 1), steps=(1, 2))
        >>> _AxisMap(0.5, 0.0).text(along, 0), _AxisMap(2.0, 1.0).text(along, 0)
        ('0.5 times the right ones', '2 times the right ones and off by +1')
        >>> _AxisMap(1.0, -4.0).text(along, 1)
        'off by -2 patches'
        """
        off = f"off by {coordinate_offset(along, self.off, axis)}" if self.off else ""
        times = f"{self.times:.7g} times the right ones" if self.times != 1 else ""
        return " and ".join(filter(None, (times, off))) or "right"


_UNCHANGED = _AxisMap(1.0, 0.0)


def stretched_cause(suspect: Suspect) -> Explanation | None:
    """The cause where the coordinates of wrong rows lie on a line of their own on each axis."""
    sample = suspect.sample
    coordinates = sample.reference.coordinates
    if coordinates is None or coordinates.at is None or coordinates.oblique:
        return None
    axes = np.array(coordinates.axes)  # (pairs,)
    wrong = ~Defect().explained(sample).all(axis=1)  # (n,)
    if np.count_nonzero(wrong) < _FEWEST:
        return None
    maps = _axis_maps(sample.rows(np.flatnonzero(wrong)), axes)
    if maps is None or all(each == _UNCHANGED for each in maps.values()):
        return None
    count = rows = 0
    first: int | None = None

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        nonlocal count, rows, first
        for _, piece in suspect.whole.pieces():
            right: Flags = np.asarray(Defect().explained(piece).all(axis=1), bool)  # (n,)
            count += int(np.count_nonzero(~right))
            rows += right.size
            if first is None and not right.all():
                first = int(piece.positions[int(np.argmin(right))])
            yield piece.positions, *_missed(piece, maps, axes, right)

    residual = Residual.measure(held())
    if not residual.whole:
        return None
    texts: dict[str, list[int]] = {}
    for axis, axis_map in maps.items():
        if axis_map != _UNCHANGED:
            texts.setdefault(axis_map.text(coordinates, axis), []).append(axis)
    said = ", and ".join(f"{text} on {axes_text(those)}" for text, those in texts.items())
    cause = Explanation(
        Cause.POSITION_OFFSET,
        f"coordinates are {said}",
        f"at {count} of {rows} positions, the first of them {first}; the others are right"
        if count < rows
        else "at every position",
    )
    return with_residual(cause, residual)


def _axis_maps(wrong: Sample, axes: Integers) -> dict[int, _AxisMap] | None:
    """The map of each axis that pairs follow, None where one shows no coordinates."""
    own = wrong.reference.angle_positions(wrong.positions)  # (n, pairs)
    maps = {}
    for axis in np.unique(axes).tolist():
        of_axis = axes == axis
        if not (wrong.seen & of_axis).any():
            return None
        read = read_coordinates(replace(wrong, seen=wrong.seen & of_axis))  # (n,)
        right = own[:, int(np.argmax(of_axis))].astype(np.float64)
        if np.abs(read).max() > 2.0**24:
            return None
        times, off = 1.0, float(np.median(read - right))
        if np.unique(right).size > 1:
            times, off = (float(number) for number in np.polyfit(right, read, 1))
        maps[axis] = _AxisMap(_short(times, _TIMES), _short(off, _OFF))
    return maps


def _short(value: float, error: float) -> float:
    """The quotient of small whole numbers that a value is within an error, else the value.

    >>> _short(0.58333333, 1e-6) == 7 / 12, _short(-1e-7, 1e-4)
    (True, 0.0)
    """
    near = float(Fraction(value).limit_denominator(_LARGEST))
    return near if abs(near - value) <= error else value


def _missed(
    piece: Sample, maps: dict[int, _AxisMap], axes: Integers, right: Flags
) -> tuple[RealRows, Flags]:
    """By how much cells are missed of which wrong rows follow these maps, and which explained."""
    own = piece.reference.angle_positions(piece.positions).astype(np.float64)  # (n, pairs)
    times = np.array([maps[axis].times for axis in axes.tolist()])
    off = np.array([maps[axis].off for axis in axes.tolist()])
    along: Reals = np.where(right[:, None], own, own * times + off)
    rates = piece.reference.frequencies
    factors = np.asarray(piece.amplitude * np.exp(1j * along * rates), np.complex128)
    missed = np.where(piece.seen, np.abs(piece.factors - factors) + piece.stray, 0.0)
    farther = np.maximum(np.abs(own), np.abs(along))
    return missed, piece.explained_cells(factors, rates, farther)
