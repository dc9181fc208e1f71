"""Figures of columns as curves over the positions, and of a bias by offset.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import Points, steps, wavelengths_by_values
from posenc_cli.encoding.scores import score_rule
from posenc_cli.errors import InvalidInput
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.render.encoded import (
    check_no_dims,
    figure_of,
    settled_positions,
    title_of,
)
from posenc_cli.render.figure import Axis, Curve, Curves, Heatmap, Panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.render.figure import Figure, Shown

FIRST_OF_CURVES = 100
"""Positions that are shown where nobody says how many."""
_MOST_POINTS = 1200
"""Points of a curve: about what a figure in a file can show apart."""
_MOST_CURVES = 6
"""Curves in one set of axes: as many as there are colours."""


def column_figure(request: Request, engine_for: EngineFor, *, dims: range | None = None) -> Figure:
    """The columns of a table as curves over the positions; of a bias its heads by offset.

    Raises: InvalidInput where the parts of the request do not go together.
    """
    if request.encoding.bound.content.heads is not None:
        check_no_dims(dims, request, "a bias")
        return _heads_by_offset(request, engine_for)
    if request.positions is None and request.table != "inv-freq":
        request.plan()
        request = replace(request, positions=settled_positions(request))
    return curves_of(figure_of(request, engine_for, dims=dims))


def curves_of(figure: Figure) -> Figure:
    """The columns of heatmaps as curves; other figures as they are."""
    if isinstance(figure, Panels):
        panels = tuple(
            _column_curves(panel) if isinstance(panel, Heatmap) else panel
            for panel in figure.panels
        )
        return replace(figure, panels=panels, shared=False)
    return _column_curves(figure) if isinstance(figure, Heatmap) else figure


def _column_curves(heatmap: Heatmap) -> Curves:
    """A curve for each of some columns; one that is faster than its points are a sample of it."""
    even = replace(heatmap, rows=replace(heatmap.rows, even=True))
    shown = even.sample(_MOST_POINTS, _MOST_CURVES, means=False)
    notes = [*shown.notes, *shown.warnings]
    if shown.undersampled:
        notes.append("a sample: the wavelength is under two of the positions shown")
    in_order = sorted(range(len(shown.columns)), key=shown.columns.__getitem__)
    return Curves(
        tuple(_column_curve(shown, column) for column in in_order),
        title=heatmap.title,
        x_label=heatmap.rows.label,
        y_label=heatmap.value_label,
        notes=tuple(notes),
    )


def _column_curve(shown: Shown, column: int) -> Curve:
    """One column by position, parted where positions were left out."""
    order = np.argsort(np.asarray(shown.rows), kind="stable")
    x = np.asarray(shown.rows, np.float64)[order]
    y = shown.values[order, column]
    breaks = np.flatnonzero(np.diff(x) > (steps(shown.rows) or 0)) + 1
    sample = column in shown.undersampled
    bands = [band.label for band in shown.column_bands if band.start <= column < band.stop]
    noun = shown.heatmap.columns.label if shown.heatmap.columns.label == "head" else ""
    words = (noun, *bands, str(shown.columns[column]), "(a sample)" if sample else "")
    return Curve.parted(x, y, breaks, " ".join(filter(None, words)), joined=not sample)


def _heads_by_offset(request: Request, engine_for: EngineFor) -> Figure:
    """The scores of a bias by offset, or by key where only that counts: a curve for each head.

    Raises: InvalidInput where the positions have no one step.
    """
    plan, content = request.plan(), request.encoding.bound.content
    positions, count = settled_positions(request), content.heads or 0
    by_key = content.by == "key"
    points = Points(positions if by_key else _offsets(positions))
    heads = range(count) if request.head is None else [request.head]

    def cells(rows: Sequence[int], columns: Sequence[int]) -> RealRows:
        indices = np.array([points[row] for row in rows], np.int64)
        with request.scheme.answerable():
            rule = score_rule(
                content,
                request.encoding.lookup,
                precision=request.precision,
                engine=engine_for(plan),
            )
            return np.stack([rule(heads[column], indices) for column in columns], axis=1)

    rows = Axis("key" if by_key else "offset", points)
    size = f"{positions.count} positions"
    named = f"{count} heads" if request.head is None else f"head {request.head} of {count}"
    heatmap = Heatmap(
        cells,
        rows,
        Axis("head", heads),
        title_of(request, f"{named}, score by {rows.label}, {size}"),
        value_label="score",
        wavelengths=wavelengths_by_values(cells, points),
    )
    curves = _column_curves(heatmap)
    return curves if by_key else replace(curves, x_label="offset, key − query")


def _offsets(positions: Positions) -> Positions:
    """The offsets between positions of one step.

    Raises: InvalidInput where they have several.
    """
    if len(positions.ranges) > 1:
        raise InvalidInput(
            f"{positions.option}: a curve by offset needs positions of one step",
            hint="--positions start:stop:step",
        )
    step = positions.ranges[0].step
    reach = (positions.count - 1) * step
    return Positions((range(-reach, reach + 1, step),))
