"""Figures in words, for who wants no picture: their axes, their ends, their highest and lowest.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.render.figure import Curves, Heatmap
from posenc_cli.render.ticks import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.figure import Axis, Curve, Envelope, Figure, Shown


def figure_sentences(figure: Figure, shown: Sequence[Shown]) -> list[str]:
    """A figure, line by line; of its heatmaps, what is ``shown``."""
    if isinstance(figure, Curves):
        return _curves_sentences(figure)
    if isinstance(figure, Heatmap):
        return _heatmap_sentences(shown[0])
    of_maps = {id(part.heatmap): part for part in shown}
    lines = [figure.title]
    for panel in figure.panels:
        if isinstance(panel, Curves):
            lines += _curves_sentences(panel)
        elif id(panel) in of_maps:
            lines += _heatmap_sentences(of_maps[id(panel)])
    return [*lines, *figure.missing_notes(len(figure.panels)), *figure.notes]


def _heatmap_sentences(shown: Shown) -> list[str]:
    heatmap = shown.heatmap
    finite = shown.values[np.isfinite(shown.values)]
    extent = (
        f"{number(float(finite.min()))} to {number(float(finite.max()))}" if finite.size else ""
    )
    return [
        heatmap.title,
        f"down: {_axis_text(heatmap.rows)}; across: {_axis_text(heatmap.columns)}",
        f"{heatmap.value_label}: {extent or 'none is finite'}",
        *shown.notes,
    ]


def _axis_text(axis: Axis) -> str:
    first, last = axis.points[0], axis.points[-1]
    return f"{axis.size_text}, {number(first)} to {number(last)}"


def _curves_sentences(curves: Curves) -> list[str]:
    levels = (f"{name}: {number(height)}" for height, name in curves.levels)
    spans = (f"{name}: {number(a)} to {number(b)}" for a, b, name in curves.spans)
    return [
        curves.title,
        f"across: {curves.x_label}; up: {curves.y_label}",
        *(_curve_text(curve) for curve in curves.curves if not curve.faint),
        *levels,
        *spans,
        *curves.notes,
    ]


def _curve_text(curve: Curve) -> str:
    points = [
        point for point in zip(curve.x, curve.y, strict=True) if all(map(math.isfinite, point))
    ]
    name = f"{curve.name}: " if curve.name else ""
    if not points:
        return f"{name}none of {len(curve.x)} points is finite"
    places = {
        "from": points[0],
        "to": points[-1],
        "lowest": min(points, key=lambda point: point[1]),
        "highest": max(points, key=lambda point: point[1]),
    }
    said = (f"{word} {number(y)} at {number(x)}" for word, (x, y) in places.items())
    count = f"{len(points)} point{'' if len(points) == 1 else 's'}"
    if len(points) < len(curve.x):
        count += f" and {len(curve.x) - len(points)} that are not finite"
    return f"{name}{count}, {', '.join(said)}{_envelope_text(curve.envelope)}"


def _envelope_text(envelope: Envelope | None) -> str:
    """Between which values an envelope lies in all."""
    finite = [*filter(math.isfinite, (*envelope.low, *envelope.high))] if envelope else []
    if envelope is None or not finite:
        return ""
    return f"; {envelope.name}: {number(min(finite))} to {number(max(finite))} in all"
