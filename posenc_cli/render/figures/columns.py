"""Make figures of columns over positions, and of a bias over offsets.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import Points, PositionAxis, spread, steps, wavelengths_by_values
from posenc_cli.encoding.scores import Bucketed, score_indices, score_rule
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import as_text
from posenc_cli.positions import Positions
from posenc_cli.records import items_by_key, replace
from posenc_cli.render.figure import (
    MOST_POINTS,
    Axis,
    Band,
    Curve,
    Curves,
    Figure,
    Heatmap,
    Panels,
    Shown,
    check_distinguishable,
    distinct_names,
)
from posenc_cli.render.figures.encoded import check_no_dims, figure_of, settled_positions, title_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.encoding.request import Request
    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.numerics.arrays import RealRows


FIRST_OF_CURVES = 100
"""Positions shown by default."""
_POINTS_A_WAVE, _MOST_WAVES, _ROWS_A_WAVE = 12, 10, 4
"""Limits for smooth curves that visibly change.

The points per wave from which joined points look smooth; the most waves that a reader can follow;
the longest wavelength, in multiples of all rows.
"""
_FEW, _MOST_CURVES = 4, 12
"""Curves in one set of axes by default, and the most that can be followed."""


def column_figure(
    request: Request, engine_for: EngineFor, *, dims: range | None = None, of: int = 1
) -> Figure:
    """Return the columns of a table as curves over the positions; for a bias, its heads by offset.

    Without ``dims``, it shows a few columns. ``of`` is the number of encodings that share the axes.

    Raises: InvalidInput if the parts of the request are not compatible.
    """
    if request.encoding.bound.content.heads is not None:
        check_no_dims(dims, request, "a bias")
        return _heads_by_offset(request, engine_for, most=max(1, _MOST_CURVES // of))
    if request.positions is None and request.table != "inv-freq":
        request.plan()
        request = replace(request, positions=settled_positions(request))
    return curves_of(figure_of(request, engine_for, dims=dims), all_of_them=dims is not None, of=of)


def curves_of(figure: Figure, *, all_of_them: bool = False, of: int = 1) -> Figure:
    """Draw the columns of heatmaps as curves, a few or ``all_of_them``; keep other figures."""
    most = max(1, (_MOST_CURVES if all_of_them else _FEW) // of)
    if isinstance(figure, Panels):
        panels = tuple(curves_of(panel, all_of_them=all_of_them, of=of) for panel in figure.panels)
        return replace(figure, panels=panels, shared=False)
    if not isinstance(figure, Heatmap):
        return figure
    return _column_curves(figure if all_of_them else _smooth_columns(figure, most), most)


def _smooth_columns(heatmap: Heatmap, most: int) -> Heatmap:
    """Keep a few columns of the first band whose waves have many points each and visibly change.

    Returns the whole heatmap if there are not enough of them.
    """
    columns, points, values = heatmap.columns, heatmap.rows.points, heatmap.values
    if heatmap.waves is None or not callable(values) or points[0] == points[-1]:
        return heatmap
    band = columns.bands[0] if columns.bands else Band("", 0, len(columns.points))
    share = np.asarray(heatmap.waves(range(band.stop))) / abs(points[-1] - points[0])  # of all rows
    least = max(1 / _MOST_WAVES, _POINTS_A_WAVE / min(len(points), MOST_POINTS))
    fitting = np.flatnonzero((share >= least) & (share <= _ROWS_A_WAVE))
    if not most <= len(fitting) < len(columns.points):
        return heatmap
    chosen = fitting[spread(len(fitting), most)]
    wavelengths = heatmap.wavelengths
    return replace(
        heatmap,
        values=lambda rows, few: values(rows, chosen[few].tolist()),
        wavelengths=wavelengths and (lambda rows, few: wavelengths(rows, chosen[few].tolist())),
        columns=Axis(
            columns.label,
            [columns.points[column] for column in chosen],
            (Band(band.label, 0, most),) if band.label else (),
        ),
        notes=(*heatmap.notes, f"shows {most} of {columns.size_text}"),
    )


def together(figures: Sequence[Figure], names: Sequence[str]) -> Figure:
    """Combine figures of curves, in one set of axes if these are the same, and name each curve.

    Raises: InvalidInput if more curves share axes than can be distinguished.
    """
    if len(figures) == 1:
        return figures[0]
    groups = items_by_key(
        ((panel.x_label, panel.y_label, panel.y_scale), (name, panel))
        for figure, name in zip(figures, distinct_names(names), strict=True)
        for panel in (figure.panels if isinstance(figure, Panels) else (figure,))
        if isinstance(panel, Curves)
    )
    panels = [_shared_axes(group) for group in groups.values()]
    return panels[0] if len(panels) == 1 else Panels(tuple(panels), ", ".join(names), shared=False)


def _shared_axes(group: Sequence[tuple[str, Curves]]) -> Curves:
    """Draw the curves of several figures in the axes of the first; its notes describe each."""
    curves = [
        replace(curve, name=f"{name} {curve.name}".strip())
        for name, panel in group
        for curve in panel.curves
    ]
    check_distinguishable(range(len(curves)))
    names, first = dict.fromkeys(name for name, _ in group), group[0][1]
    return replace(
        first,
        curves=tuple(curves),
        title=f"{', '.join(names)}: {first.y_label} by {first.x_label}",
        notes=tuple(dict.fromkeys(", ".join((panel.title, *panel.notes)) for _, panel in group)),
    )


def _column_curves(heatmap: Heatmap, most: int) -> Curves:
    """Return a curve for some columns; columns that change too fast are marked as a sample."""
    even = replace(heatmap, rows=replace(heatmap.rows, even=True))
    shown = even.sample(MOST_POINTS, most, means=False)
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
    """Return one column by position, with breaks where positions were left out."""
    order = np.argsort(np.asarray(shown.rows), kind="stable")
    x = np.asarray(shown.rows, np.float64)[order]
    y = shown.values[order, column]
    step = steps(shown.rows) or 0
    rounding = 2.0**-50 * np.abs(x).max()  # for positions inexact in float64, such as thirds
    breaks = np.flatnonzero(np.diff(x) > step + rounding) + 1
    sample = column in shown.undersampled
    bands = [band.label for band in shown.column_bands if band.start <= column < band.stop]
    details = ", ".join([*bands, *["a sample"] * sample])
    name = f"{shown.heatmap.columns.label} {shown.columns[column]}"
    name += f" ({details})" if details else ""
    return Curve.with_breaks(x, y, breaks, name, joined=not sample)


def _heads_by_offset(request: Request, engine_for: EngineFor, *, most: int) -> Figure:
    """Return a curve of scores for each head of a bias, by offset, or by key if only that counts.

    A bias that scores pairs shows the scores of the middle query, by key.

    Raises: InvalidInput if the positions do not have a single step.
    """
    plan, content = request.plan(), request.content
    positions, count = settled_positions(request), content.heads or 0
    by_key = content.by != "offset"
    axis_positions = positions if by_key else _offsets_between(positions)
    points, places = Points(axis_positions), PositionAxis(axis_positions)
    query = points[positions.count // 2] if content.by == "pair" else None
    heads = range(count) if request.head is None else [request.head]

    def cells(rows: Sequence[int], columns: Sequence[int]) -> RealRows:
        indices = np.array([points[row] for row in rows], np.int64)
        with request.scheme.answerable():
            if query is not None:
                indices = score_indices(content, np.array(query, np.int64), indices)
            rule = score_rule(
                content,
                request.encoding.lookup,
                precision=request.precision,
                engine=engine_for(plan),
            )
            distinct, where = np.unique(indices, return_inverse=True)
            return np.stack([rule(heads[column], distinct)[where] for column in columns], axis=1)

    rows = Axis("key" if by_key else "offset", places)
    size = f"{positions.count} positions"
    of_query = "" if query is None else f" for query {query}"
    heads_text = f"{count} heads" if request.head is None else f"head {request.head} of {count}"
    heatmap = Heatmap(
        cells,
        rows,
        Axis("head", heads),
        title_of(request, f"{heads_text}, score by {rows.label}{of_query}, {size}"),
        value_label="score",
        wavelengths=wavelengths_by_values(cells, places),
    )
    curves = _column_curves(heatmap, most)
    return curves if by_key else replace(curves, x_label="offset n − m, key − query")


def _offsets_between(positions: Positions) -> Positions:
    """Return the offsets between positions with a single step.

    Raises: InvalidInput if they have several.
    """
    if len(positions.ranges) > 1:
        raise InvalidInput(
            f"{positions.option}: a curve by offset needs positions of one step",
            hint="--positions start:stop:step",
        )
    step = positions.ranges[0].step
    reach = (positions.count - 1) * step
    return Positions((range(-reach, reach + 1, step),), positions.denominator)


def buckets_figure(rule: BucketRule, assigned: Bucketed) -> Curves:
    """Return the buckets over the relative positions, with breaks where positions were left out.

    Within a run the bucket is constant, or changes by one per position, so its ends suffice.
    """
    runs, usual = [*assigned.runs()], steps(assigned.positions.tolist()) or 1
    points = np.array(
        [end for run in runs for end in zip(*run, strict=True)], np.float64
    )  # (2 · runs, 2)
    breaks = [
        2 * index
        for index, (before, after) in enumerate(pairwise(runs), start=1)
        if not 0 < after.positions[0] - before.positions[1] <= usual
    ]
    changed_parameters = [
        f"{name}={as_text(value)}"
        for name, value in assigned.params.items()
        if value != rule.parameters[name].default
    ]
    count = len(assigned.positions)
    positions = f"{count} relative position{'s' if count > 1 else ''}"
    return Curves(
        (Curve.with_breaks(points[:, 0], points[:, 1], np.array(breaks, np.intp)),),
        f"{rule.name}: buckets of {positions}"
        + (f" ({', '.join(changed_parameters)})" if changed_parameters else ""),
        x_label=f"{rule.relative}, in positions",
        y_label="bucket",
    )
