"""Make the figure of a comparison.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import PositionAxis, spread
from posenc_cli.budget import check_size
from posenc_cli.comparison.compare import ArrayComparison, RotationComparison, Side
from posenc_cli.comparison.difference import Operand, aligned_blocks
from posenc_cli.records import Record
from posenc_cli.render.figure import (
    FARTHEST,
    MOST_POINTS,
    Axis,
    Curve,
    Curves,
    Figure,
    Heatmap,
)
from posenc_cli.render.figures.encoded import PARAMETERS_IN_SIZES, parameters_text
from posenc_cli.render.reports.comparison import place_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.numerics.arrays import NumberArray, RealRows, Reals

_MOST_CELLS = 1 << 30
"""Entries that are read once more for a picture: about twenty seconds."""


def difference_figure(result: ArrayComparison | RotationComparison) -> Figure:
    """Return A − B as a map or a curve; for two rotations, wavelengths of B relative to those of A.

    If there are more entries than fit, a value that represents several is the one farthest from 0.

    Raises: InvalidInput if there are too many entries to read once more.
    """
    if not isinstance(result, ArrayComparison):
        return _ratio_curve(result)
    shape, at = result.difference.shape, result.difference.at
    check_size("A − B", math.prod(shape), _MOST_CELLS, "values in a picture", hint="--positions")
    rows, columns = (1, 1, *shape)[-2:] if len(shape) != 1 else (shape[0], 1)
    size = rows * columns
    matrices = math.prod(shape[:-2])
    index = 0 if at is None else int(np.ravel_multi_index(at, shape)) // size
    cells = _MatrixPair(result.operands, index * size, (rows, columns)).farthest
    names = " − ".join(map(_side_text, result.sides))
    title = f"largest difference {_largest_text(result)}: {names}"
    if matrices > 1:
        title += f", matrix {index} of {matrices}"
        title += ", where they differ most" if at else ""
    is_complex = any(operand.dtype.startswith("complex") for operand in result.operands)
    label = "|A − B|" if is_complex else "A − B"
    if len(shape) == 1:
        shown = spread(rows, MOST_POINTS)
        sampled = (f"each point is {FARTHEST} of up to {-(-rows // len(shown))} values",)
        return Curves(
            (Curve(tuple(shown), tuple(cells(shown, [0])[:, 0].tolist())),),
            title,
            "index",
            label,
            notes=sampled if len(shown) < rows else (),
            joined=False,
        )
    down, across = _matrix_axes(result.sides, rows, columns)
    return Heatmap(
        cells,
        down,
        across,
        title,
        value_label=label,
        scale="sequential" if is_complex else "diverging",
        square=down.label == "query",
        farthest=True,
    )


class _MatrixPair(Record):
    """A matrix in each of two arrays, with a ``shape``, from the entry ``start`` of both on."""

    operands: Sequence[Operand]
    start: int
    shape: tuple[int, int]

    def farthest(self, rows: Sequence[int], columns: Sequence[int]) -> RealRows:
        """Return the difference farthest from 0 in each block.

        A block extends from a row and a column to the next of ``rows`` and ``columns``.
        """
        of_column = np.searchsorted(columns, np.arange(self.shape[1]), side="right") - 1
        most = np.full(len(rows) * len(columns), -np.inf)
        least, end, place = -most, self.start + math.prod(self.shape), 0
        for left, right in aligned_blocks(*self.operands):
            first, stop = max(place, self.start), min(place + left.size, end)
            if first < stop:
                part = slice(first - place, stop - place)
                cells = np.arange(first - self.start, stop - self.start)
                of_row = np.searchsorted(rows, cells // self.shape[1], side="right") - 1
                where = of_row * len(columns) + of_column[cells % self.shape[1]]
                differences = _differences(left[part], right[part])
                with np.errstate(invalid="ignore"):  # NaN stays NaN
                    np.maximum.at(most, where, differences)
                    np.minimum.at(least, where, differences)
            place += left.size
        return np.where(most > -least, most, least).reshape(len(rows), len(columns))


def _differences(left: NumberArray, right: NumberArray) -> Reals:
    """Return A − B by entry, |A − B| if they are complex; equal entries, also NaN, give 0."""
    if "c" in (left.dtype.kind, right.dtype.kind):
        left, right = left.astype(np.complex128), right.astype(np.complex128)
    else:
        left, right = left.astype(np.float64), right.astype(np.float64)
    equal = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore", over="ignore"):
        differences = left - right
        differences = np.abs(differences) if differences.dtype.kind == "c" else differences
    return np.asarray(np.where(equal, 0.0, differences))


def _matrix_axes(sides: Sequence[Side], rows: int, columns: int) -> tuple[Axis, Axis]:
    """Return the axes of the rows and columns, if a side defines them."""
    for side in sides:
        if side.scheme is None or side.positions is None:
            continue
        points = PositionAxis(side.positions)
        if side.scheme.kind == "bias":
            return Axis("query", points, even=True), Axis("key", points, even=True)
        if side.scheme.kind in ("absolute", "rotary"):
            return Axis("position", points), Axis("dimension", range(columns))
    return Axis("row", range(rows)), Axis("column", range(columns))


def _largest_text(result: ArrayComparison) -> str:
    difference = result.difference
    if difference.at is None:
        return "none"
    if difference.unmatched:
        return f"NaN or infinity at {place_text(result)}"
    return f"{size_text(difference.max_abs)} at {place_text(result)}"


def _side_text(side: Side) -> str:
    if side.scheme is None:
        return side.title
    last = None if side.positions is None else side.positions.length - 1
    bound = side.encoding(side.seq_len).bound
    named = parameters_text(bound, last=last, apart_from=PARAMETERS_IN_SIZES)
    return f"{side.title} ({named})" if named else side.title


def _ratio_curve(result: RotationComparison) -> Curves:
    """Return the ratio of each pair's wavelength in B to A, at the length that differs most."""
    worst = result.worst
    ratios = dict.fromkeys(range(worst.difference.count), 1.0)
    ratios |= {pair.index: pair.ratio for pair in worst.difference.pairs}
    worst_pair = worst.difference.worst
    where = (
        "none"
        if worst_pair is None
        else f"pair {worst_pair.index}, wavelength B/A {size_text(worst_pair.ratio)}"
    )
    length = f", {worst.seq_len} positions" if worst.seq_len else ""
    names = [
        f"{side.title} ({parameters_text(bound, apart_from=PARAMETERS_IN_SIZES)})"
        for side, bound in zip(result.sides, worst.bounds, strict=True)
    ]
    return Curves(
        (Curve(tuple(ratios), tuple(ratios.values())),),
        f"largest difference: {where}: {names[1]} over {names[0]}{length}",
        x_label="pair",
        y_label="wavelength of B / wavelength of A",
        y_scale="log",
        levels=((1.0, "equal"),),
        joined=False,
    )
