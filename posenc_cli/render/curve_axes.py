"""Curves in axes of matplotlib's.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.render.style import LINE_STYLES
from posenc_cli.render.ticks import label, minus

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from numpy.typing import NDArray

    from posenc_cli.render.figure import Curve, Curves
    from posenc_cli.render.style import Style

    Points = tuple[NDArray[np.float64], NDArray[np.float64]]

_MARKED = 64
"""Points of a curve up to which each has a marker."""
_APART_ACROSS, _APART_DOWN = 5, 2
"""Lines of text from one value named along an axis to the next."""
_LARGEST_SPAN = 1e300
"""Half the length of an axis past which matplotlib's own sums overflow: its ends are named."""
_LEGEND = 0.6
"""The share of the width of axes that a line of a legend may take."""
_MOST_HIDDEN = 0.5
"""The share of the height of axes that a legend in them may take."""
_MOST_OF_FIXED = 0.75
"""The same where it has no other place."""
_LINES_OF_A_NAME = 1.4
"""Lines of text that a name of one line takes, with what is left between two."""
_OF_PAGE = 0.88
"""The share of the width of a page that the texts of a legend below all axes take."""
_LEVELS = "--", ":", "-."
"""How levels are drawn, one after the other."""
_ZONES = "kept", "blended", "interpolated"
"""Parts of an axis that have the same colours in every figure."""
_VALUES_OF_DECADE = ((9, range(2, 10)), (3, (2, 5)), (2, (3,)), (0, ()))
"""What is named besides 1 where a decade has room for so many names."""


def draw_curves(axes: Axes, curves: Curves, style: Style) -> None:
    """Draw curves, with a legend where they have names.

    Raises: InvalidInput where no point is finite.
    """
    drawable = [_finite_points(curve) for curve in curves.curves]
    if not any(np.isfinite(x).any() for x, _ in drawable):
        raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
    lines = style.palette.lines
    shades, place = set[str](), 0
    for curve, (x, y) in zip(curves.curves, drawable, strict=True):
        if curve.faint:
            axes.plot(x, y, color=style.palette.faint, linewidth=0.9)
            continue
        look, place = curve.look(place), place + 1
        how, color = LINE_STYLES[look % len(LINE_STYLES)], lines[look % len(lines)]
        if curve.envelope is not None:
            between = None if curve.envelope.name in shades else curve.envelope.name
            shades.add(curve.envelope.name)
            sides = curve.envelope.low, curve.envelope.high
            axes.fill_between(x, *sides, color=color, alpha=0.25, linewidth=0, label=between)
        if curve.thin:
            axes.plot(x, y, color=color, linewidth=0.7, label=curve.name or None)
            continue
        joined = curves.joined and curve.joined
        axes.plot(
            x,
            y,
            color=color,
            linestyle=(0, how.dashes or None) if joined else "none",
            marker=how.marker if len(x) <= _MARKED or not joined else None,
            markersize=2.6 if joined else 3.4,
            label=curve.name or None,
        )
    for (level, name), dashes in zip(curves.levels, cycle(_LEVELS)):
        faint = style.palette.faint
        axes.axhline(level, color=faint, linewidth=0.9, linestyle=dashes, label=name)
    named = list(dict.fromkeys([*_ZONES, *(name for _, _, name in curves.spans)]))
    labels = {name: name for _, _, name in curves.spans}
    for start, stop, name in curves.spans:
        color, label = lines[(named.index(name) + 1) % len(lines)], labels.pop(name, None)
        axes.axvspan(start, stop, color=color, alpha=0.14, linewidth=0, zorder=0, label=label)
    axes.set(xscale=curves.x_scale, yscale=curves.y_scale)
    axes.set_aspect("equal" if curves.square else "auto")
    axes.grid()
    handles, names = axes.get_legend_handles_labels()
    if names:
        _draw_legend(axes, handles, names, style)
    name_values(axes, curves, style)


def _draw_legend(axes: Axes, handles: list[Artist], names: list[str], style: Style) -> None:
    """Draw a legend where it hides least, or below the axes if it would hide half of them."""
    from matplotlib.lines import Line2D

    width, height = axes.bbox.size
    texts = [style.wrapped_text(name, _LEGEND * width, most=4) for name in names]
    lines = sum(text.count("\n") + _LINES_OF_A_NAME for text in texts)
    if lines * style.line <= _MOST_HIDDEN * height:
        axes.legend(handles, texts)
        return
    page = axes.get_figure()
    assert page is not None
    if len(page.axes) > 1 or not style.growing[1]:
        rows = max(2, int(_MOST_OF_FIXED * height / (_LINES_OF_A_NAME * style.line)))
        texts = [style.wrapped_text(name, _LEGEND * width, most=1) for name in names]
        if len(texts) > rows:
            texts = [*texts[: rows - 1], f"and {len(texts) - rows + 1} more"]
            handles = [*handles[: rows - 1], Line2D([], [], linestyle="none")]
        axes.legend(handles, texts)
        return
    columns = 2 if len(texts) > 1 else 1
    room = _OF_PAGE * page.bbox.width / columns
    texts = [style.wrapped_text(name, room, most=3) for name in names]
    # Placed by who lays the page out, between the axes and the notes.
    legend = page.legend(handles, texts, loc="lower left", ncols=columns, borderaxespad=0)
    legend.set_in_layout(False)


def name_values(axes: Axes, curves: Curves, style: Style) -> None:
    """Name axes and round values along them as they have room, whole ones where points are."""
    width, height = axes.bbox.size
    axes.set_xlabel(style.wrapped_text(curves.x_label, width, most=2))
    axes.set_ylabel(style.wrapped_text(curves.y_label, height, most=2))
    drawn = [x[np.isfinite(x)] for x, _ in map(_finite_points, curves.curves)]
    whole = all(np.array_equal(x, np.rint(x)) for x in drawn)
    _locate(axes.xaxis, curves.x_scale, most=width / (_APART_ACROSS * style.line), whole=whole)
    _locate(axes.yaxis, curves.y_scale, most=height / (_APART_DOWN * style.line))


def _finite_points(curve: Curve) -> Points:
    """The points of a curve, NaN where either number is not finite."""
    x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)  # (points,)
    finite = np.isfinite(x) & np.isfinite(y)
    return np.where(finite, x, np.nan), np.where(finite, y, np.nan)


def _locate(axis: XAxis | YAxis, scale: str, *, most: float, whole: bool = False) -> None:
    """Let matplotlib find round values for an axis that has room for so many names of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    most = max(2, int(most))
    low, high = sorted(axis.get_view_interval())
    if scale == "linear" and high / 2 - low / 2 > _LARGEST_SPAN:
        axis.set_ticks([low, high])
    elif scale == "linear":
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole))
        if axis.axis_name == "y":  # matplotlib writes above it what all values have in common
            return
    else:
        in_decade = most / max(1.0, np.log10(high / low))
        subs = next(values for count, values in _VALUES_OF_DECADE if in_decade >= count)
        axis.set_major_locator(LogLocator(numticks=most))
        axis.set_minor_locator(LogLocator(subs=subs, numticks=most))
    formatter = FuncFormatter(lambda value, _: minus(label(value)))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter)
