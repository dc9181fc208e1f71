"""Whether the row one step on is a fixed linear map of the row before it.

Three answers, which differ. Fitted by least squares on the first rows, the map leaves little there
and may leave much on the rows after them: waves that turn slowly are nearly collinear over a short
range, so what fits them there need not hold beyond. Where each wave has a sine and a cosine there
is an exact map, the rotation of each pair by its own angle a step.

The least-squares map is that of least norm: singular values up to max(rows, columns) · 2^−52 of the
largest count as 0, as in NumPy's ``lstsq``.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.inspection.inspected import InspectedRows
    from posenc_cli.numerics.arrays import Places, RealRows, Reals
    from posenc_cli.numerics.placements import Placement

FITTED = 100
"""Rows that the map is fitted on, where there are twice as many."""


class ShiftResidual(Record):
    """The largest deviation of a cell that a map leaves, and the row that it was to give.

    Beyond the fit ``allowed`` is what rounding may leave there, and ``rounded`` whether no row is
    off by more than that.
    """

    value: float
    row: int
    allowed: float = 0.0
    rounded: bool = False

    def joined(self, other: ShiftResidual) -> ShiftResidual:
        """The larger of two, the first of equals."""
        return other if other.value > self.value else self


class LinearShift(Record):
    """What the least-squares map leaves where it was fitted, and beyond.

    ``count`` rows were mapped to the next in the fit, whose rank is ``rank``: where these are as
    many, any rows are fitted, and that says nothing. ``beyond`` are the residuals row by row after
    them.

    Shape: beyond (rows − 1 − count,).
    """

    count: int
    rank: int
    fitted: ShiftResidual
    beyond: Reals
    allowed: Reals
    tolerance: float

    @property
    def trivial(self) -> bool:
        """Whether any rows would have been fitted."""
        return self.rank >= self.count

    def held_out(self, reach: float | None = None) -> ShiftResidual | None:
        """The largest residual beyond the fit, up to ``reach`` times as many rows.

        None where there are not so many, or none.
        """
        end = self.beyond.size if reach is None else round(reach * self.count) - self.count
        if not 0 < end <= self.beyond.size:
            return None
        left, allowed = self.beyond[:end], self.allowed[:end]
        row = int(np.argmax(left))
        rounded = bool((left <= allowed).all())
        return ShiftResidual(float(left[row]), self.count + row + 1, float(allowed[row]), rounded)


def linear_shift(inspected: InspectedRows, fit: int | None) -> LinearShift:
    """What the map of a row to the next leaves, fitted on the first ``fit`` rows, or on some.

    Of two rows at least, all finite.
    """
    mapped = inspected.rows.count - 1
    count = min(fit, mapped) if fit else min(FITTED, max(1, mapped // 2))
    source = inspected.rows.read(range(count))  # (count, width)
    target = inspected.rows.read(range(1, count + 1))
    largest = max(float(np.abs(part).max(initial=0)) for part in (source, target))
    # A power of two takes no digit off, and then nothing overflows that need not.
    power = -math.frexp(largest)[1]
    source, target = np.ldexp(source, power), np.ldexp(target, power)
    left, sizes, right = np.linalg.svd(source, full_matrices=False)
    cutoff = max(source.shape) * 2.0**-52 * float(sizes.max(initial=0))
    kept = sizes > cutoff
    into = right[kept].T / sizes[kept]  # (width, rank)
    out = left[:, kept].T @ target  # (rank, width)
    fitted, last = ShiftResidual(0.0, 1), None
    beyond: list[Reals] = []
    leverages: list[Reals] = []
    for begin, block in inspected.blocks():
        rows = block if last is None else np.concatenate([last, block])
        first, last = begin - (last is not None), block[-1:]
        with np.errstate(all="ignore"):
            rows = np.ldexp(rows, power)
            coordinates = rows[:-1] @ into
            left_over = np.abs(coordinates @ out - rows[1:]).max(axis=1, initial=0)
            left_over = np.ldexp(left_over, -power)
            leverage = np.linalg.norm(coordinates, axis=1)
        inside = left_over[: max(0, count - first)]
        if inside.size:
            row = int(np.argmax(inside))
            fitted = fitted.joined(ShiftResidual(float(inside[row]), first + row + 1))
        beyond.append(left_over[inside.size :])
        leverages.append(leverage[inside.size :])
    unit = max(inspected.rows.unit, 2.0**-53)
    tolerance = 8 * sum(source.shape) * unit * largest
    most = max(tolerance, math.sqrt(unit) * largest)
    return LinearShift(
        count,
        int(kept.sum()),
        fitted,
        np.concatenate(beyond),
        np.minimum(tolerance * np.maximum(np.concatenate(leverages), 1), most),
        tolerance,
    )


def rotation_residual(
    inspected: InspectedRows, placements: Sequence[Placement], step_row: Reals, scale: float
) -> ShiftResidual:
    """What the rotation of each pair by its angle a step leaves, of all rows.

    ``step_row`` (width,) is the row one step from position 0: the cosines and sines of the angles,
    ``scale`` times.
    """
    sines, cosines = (_columns(placements, function, step_row.size) for function in ("sin", "cos"))
    sin, cos = step_row[sines] / scale, step_row[cosines] / scale  # (pairs,)
    worst = ShiftResidual(0.0, 1)
    last: RealRows | None = None
    for begin, block in inspected.blocks():
        rows = block if last is None else np.concatenate([last, block])
        first, last = begin - (last is not None), block[-1:]
        before = rows[:-1, sines], rows[:-1, cosines]
        off = np.maximum(
            np.abs(before[0] * cos + before[1] * sin - rows[1:, sines]),
            np.abs(before[1] * cos - before[0] * sin - rows[1:, cosines]),
        ).max(axis=1, initial=0)
        if off.size:
            row = int(np.argmax(off))
            worst = worst.joined(ShiftResidual(float(off[row]), first + row + 1))
    return worst


def _columns(placements: Sequence[Placement], function: str, width: int) -> Places:
    """The columns that hold a function, in the order of the waves; as many of each wave."""
    parts = [placement for placement in placements if placement.function == function]
    waves = 1 + width  # more than there are
    columns = [np.arange(width)[placement.columns] for placement in parts]
    numbers = [
        np.arange(waves)[placement.waves][: len(columns[i])] for i, placement in enumerate(parts)
    ]
    order = np.argsort(np.concatenate(numbers), kind="stable")
    return np.concatenate(columns)[order]
