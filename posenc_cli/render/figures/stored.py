"""Figures of a stored array: any number of axes, real or complex.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread, wavelengths_by_values
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.render.figure import MOST_PANELS, Axis, Band, Figure, Heatmap, Panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from posenc_cli.files.reading import Loaded


_COUNTED = 1 << 24
"""The most values among which those that are not finite are counted, also where none is drawn."""


def figure_of_array(
    loaded: Loaded,
    *,
    head: int | None = None,
    rows: range | None = None,
    dims: range | None = None,
) -> Figure:
    """The figure of a stored array: one matrix, or all matrices of a stack as small multiples.

    A one-dimensional array is a matrix of one row. If an array has more than two axes, the last two
    are a matrix, and ``head`` selects one. Complex numbers show their parts side by side.

    Raises: InvalidInput if ``head``, ``rows`` or ``dims`` name what does not exist.
    """
    values = loaded.values
    stack = values.reshape(-1, *(values.shape if values.ndim > 1 else (1, values.size))[-2:])
    leading = values.shape[:-2]
    size = " × ".join(map(str, values.shape))
    title = f"{quoted_name(loaded.path)}: {size} {loaded.dtype}"
    for flag, wanted, there, noun in (
        ("--rows", rows, stack.shape[1], "rows"),
        ("--dims", dims, stack.shape[2], "columns"),
    ):
        if wanted is None:
            continue
        if wanted.stop > there:
            asked = f"{flag} {wanted.start}:{wanted.stop}"
            raise InvalidInput(f"{asked}: {quoted_name(loaded.path)} has {there} {noun}")
        title += f", {len(wanted)} of {there} {noun}"
    rows, dims = rows or range(stack.shape[1]), dims or range(stack.shape[2])
    matrix = partial(_matrix, rows=rows, wanted=dims)
    if head is not None:
        if not leading:
            raise InvalidInput(f"--head {head}: {quoted_name(loaded.path)} is one matrix, {size}")
        if head >= len(stack):
            raise InvalidInput(
                f"--head {head}: {quoted_name(loaded.path)} has 0 to {len(stack) - 1}"
            )
        return matrix(stack[head], f"{title}, matrix {_place(head, leading)}")
    if len(stack) == 1:
        return matrix(stack[0], title)
    chosen = spread(len(stack), MOST_PANELS)
    panels = [matrix(stack[i], _place(i, leading)) for i in chosen]
    return Panels(tuple(panels), title, noun="slice", total=len(stack))


def _place(index: int, leading: Sequence[int]) -> str:
    """The position of a matrix in an array, as indices along the leading axes."""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(index, leading))}]"


def _matrix(values: NDArray[Any], title: str, *, rows: range, wanted: range) -> Heatmap:
    values, count = values[rows.start : rows.stop], len(wanted)
    is_complex = values.dtype.kind == "c"
    counted = values[:, wanted.start : wanted.stop] if values.size <= _COUNTED else values[:0]
    parts = (counted.real, counted.imag) if is_complex else (counted,)
    points = [*wanted] * (2 if is_complex else 1)
    bands = (Band("real", 0, count), Band("imaginary", count, 2 * count)) if is_complex else ()

    def cells(chosen: Sequence[int], columns: Sequence[int]) -> NDArray[Any]:
        where = np.asarray(chosen)[:, None], np.asarray([points[i] for i in columns])
        taken: NDArray[Any] = values[where]
        if not is_complex:
            return taken
        imaginary = np.asarray(columns) >= count
        return np.asarray(np.where(imaginary, taken.imag, taken.real))

    return Heatmap(
        cells,
        Axis("row", rows),
        Axis("column", points, bands),
        title,
        wavelengths=wavelengths_by_values(cells, rows),
        gaps=sum(int(np.count_nonzero(~np.isfinite(part))) for part in parts),
    )
