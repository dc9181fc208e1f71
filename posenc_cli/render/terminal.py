"""Pictures for the terminal, as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.render.figure import Curves, Heatmap, Panels, Picture

if TYPE_CHECKING:
    from posenc_cli.render.blocks import Page
    from posenc_cli.render.figure import Curve, Figure

NARROWEST, LOWEST = 20, 8
"""Columns and lines below which no picture is drawn."""

_TICKS = 8
_MARKERS = "•×+o*#"


def picture_text(figure: Figure, page: Page) -> Picture[str]:
    """A figure as text that fits a page.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
    """
    from posenc_cli.render import multiples, plates

    page = page.part(max(NARROWEST, page.width), max(LOWEST, page.height))
    match figure:
        case Curves():
            return Picture(curves_text(figure, page))
        case Heatmap():
            lines, warnings = plates.heatmap_lines(figure, page)
        case Panels():
            lines, warnings = multiples.panels_lines(figure, page)
    return Picture("\n".join(lines), warnings)


def curves_text(curves: Curves, page: Page) -> str:
    """Curves as text that fits a page, without escape codes.

    Raises: InvalidInput where nothing is finite.
    """
    import plotext

    # plotext never ends on a NaN.
    shown = [_finite(curve, curves) for curve in curves.curves]
    x = sorted({x for pairs in shown for x, _ in pairs})
    if not x:
        raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
    below = [*page.wrapped("   ".join(_legend(curves))), *page.wrapped("; ".join(curves.notes))]
    y = [y for pairs in shown for _, y in pairs] + [level for level, _ in curves.levels]
    plotext.terminal.limit(False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(page.width, max(LOWEST, page.height - len(below)))
    for level, _ in curves.levels:
        across = _between(x[0], x[-1], page.width, curves.x_scale)
        figure.draw(figure.signal(across, [level] * len(across), marker="-"))
    for pairs, marker in zip(shown, _MARKERS * len(shown), strict=False):
        if pairs:
            figure.draw(figure.signal(*map(list, zip(*pairs, strict=True)), marker=marker))
    for name, scale, values in (("x", curves.x_scale, x), ("y", curves.y_scale, y)):
        logarithmic = scale == "log" and min(values) < max(values)
        figure.ruler(name).scale("log" if logarithmic else "linear")
        label = curves.x_label if name == "x" else curves.y_label
        figure.label(f"{label} (log)" if logarithmic else label, name)
    marks = x[:: -(-len(x) // _TICKS)]
    if curves.x_scale == "linear":  # plotext mistakes marks along a logarithm for its ends
        figure.ruler("x").ticks(marks, [f"{mark:g}" for mark in marks])
    figure.title(curves.title)
    text: str = figure.build().string(colorless=True)
    lines = [page.medium.spelled(line.rstrip()) for line in text.rstrip().splitlines()]
    return "\n".join([*lines, *below])


def _finite(curve: Curve, curves: Curves) -> list[tuple[float, float]]:
    """The points of a curve that its axes can show."""
    return [
        (x, y)
        for x, y in zip(curve.x, curve.y, strict=True)
        if math.isfinite(x)
        and math.isfinite(y)
        and (x > 0 or curves.x_scale == "linear")
        and (y > 0 or curves.y_scale == "linear")
    ]


def _between(first: float, last: float, count: int, scale: str) -> list[float]:
    """Points from the first to the last that look evenly spaced."""
    if scale == "log":
        return [first * (last / first) ** (i / count) for i in range(count + 1)]
    return [first + (last - first) * i / count for i in range(count + 1)]


def _legend(curves: Curves) -> list[str]:
    named = zip(_MARKERS * len(curves.curves), curves.curves, strict=False)
    return [
        *(f"{marker} {curve.name}" for marker, curve in named if curve.name),
        *(f"- {name}" for _, name in curves.levels),
    ]
