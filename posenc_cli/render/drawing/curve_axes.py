"""Curves in matplotlib axes.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.render.style import LINE_STYLES, TICK_SIZE, Style
from posenc_cli.render.ticks import IN_FULL, label, minus, power

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from numpy.typing import NDArray

    from posenc_cli.render.figure import Curve, Curves

    Points = tuple[NDArray[np.float64], NDArray[np.float64]]

_MARKED = 64
"""The most points of a curve with a marker at each."""
_APART_ACROSS, _APART_DOWN = 5, 2
"""The least distance between tick labels along an axis, in lines of text."""
_LARGEST_SPAN = 1e300
"""Half the length of an axis above which matplotlib overflows: only its ends get labels."""
_IN_DECIMALS = 1e-4
"""Numbers below it are written with an exponent."""
_KEY, _LINE_OF_NAMES = 3.2, 0.95
"""Width of a curve's line sample with its spacing, and height of a line of names, in lines of text.
"""
_MOST_CUT = 4
"""The most columns for which names are cut."""
_MOST_OF_HEIGHT = 0.4
"""The largest share of the height of axes that the names of curves take."""
_LEVELS = "--", ":", "-."
"""Line styles of levels, in order."""
_ZONES = "kept", "blended", "interpolated"
"""Spans of an axis that have the same colors in every figure."""
_VALUES_OF_DECADE = ((9, range(2, 10)), (3, (2, 5)), (2, (3,)), (0, ()))
"""(least labels that fit in a decade, the values to label besides 1)."""


def draw_curves(axes: Axes, curves: Curves, style: Style) -> None:
    """Draw curves, levels and spans; `name_curves` labels them.

    Raises: InvalidInput if no point is finite.
    """
    if not any(np.isfinite(x).any() for x, _ in map(_finite_points, curves.curves)):
        raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
    lines = style.palette.lines
    draw_lines(axes, curves, style)
    for (level, name), dashes in zip(curves.levels, cycle(_LEVELS)):
        faint = style.palette.faint
        axes.axhline(level, color=faint, linewidth=0.9, linestyle=dashes, label=name)
    named = list(dict.fromkeys([*_ZONES, *(name for _, _, name in curves.spans)]))
    for start, stop, name in curves.spans:
        color = lines[(named.index(name) + 1) % len(lines)]
        axes.axvspan(start, stop, color=color, alpha=0.14, linewidth=0, zorder=0)
    axes.set(xscale=curves.x_scale, yscale=curves.y_scale)
    axes.set_aspect("equal" if curves.square else "auto")
    axes.grid()
    name_values(axes, curves, style)


def draw_lines(axes: Axes, curves: Curves, style: Style, **placed: Any) -> None:
    """Draw curves alone; ``placed`` may hold a matplotlib transform."""
    lines, shades, place = style.palette.lines, set[str](), 0
    for curve in curves.curves:
        x, y = _finite_points(curve)
        if curve.faint:
            axes.plot(x, y, color=style.palette.faint, linewidth=0.8, alpha=0.5, **placed)
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
            **placed,
        )


def name_curves(axes: Axes, curves: Curves, style: Style) -> float:
    """Write the names of curves above axes, in as many columns as fit, and of spans below them.

    Names without room are left out and counted. Returns the height of all names, in lines of text.
    """
    from matplotlib.collections import Collection
    from matplotlib.transforms import offset_copy

    if curves.spans:
        _name_spans(axes, curves, style)
    below = 1.2 * bool(curves.spans)
    named = zip(*axes.get_legend_handles_labels(), strict=True)
    in_order = sorted(named, key=lambda each: isinstance(each[0], Collection))  # curves first
    if not in_order:
        return below
    handles, names = (list(each) for each in zip(*in_order, strict=True))
    texts, columns, kept = _fitted_names(names, axes, style)
    if kept < len(names):
        handles[kept:] = axes.plot([], [], linestyle="none")
        texts[kept:] = [f"and {len(names) - kept} more"]
    legend = axes.legend(
        handles,
        texts,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=offset_copy(axes.transAxes, y=below * style.line, units="dots"),
        borderpad=0.2,
        borderaxespad=0,
        frameon=False,
        labelspacing=0.25,
    )
    legend.set_in_layout(False)  # its height is that of the title's pad
    return below + _LINE_OF_NAMES * _lines_of(texts, columns)


def _name_spans(axes: Axes, curves: Curves, style: Style) -> None:
    """Write the names of spans above axes, each where it begins, and the last where it ends.

    The first narrow span of a name has it before its end, if there is room and no wide one has it.
    """
    for old in [*axes.texts]:
        old.remove()
    across, aside, end = axes.get_xaxis_transform(), 0.2 * style.points, -math.inf
    edges = across.transform([(x, 1) for start, stop, _ in curves.spans for x in (start, stop)])
    lefts, rights = edges[::2, 0], edges[1::2, 0]
    widths = [style.text_width(span[2], TICK_SIZE) for span in curves.spans]
    narrow = rights - lefts < widths
    named = {span[2] for span, is_narrow in zip(curves.spans, narrow, strict=True) if not is_narrow}
    for index, (start, stop, name) in enumerate(curves.spans):
        at_end = narrow[index] or 0 < index == len(curves.spans) - 1
        begin = rights[index] - widths[index] if at_end else lefts[index]
        if narrow[index] and (name in named or begin < end):
            continue
        named.add(name)
        end = begin + widths[index] + style.line / 2
        axes.annotate(
            name,
            (stop if at_end else start, 1),
            ha="right" if at_end else "left",
            xycoords=across,
            xytext=(-aside if at_end else aside, 0.35 * style.points),
            textcoords="offset points",
            fontsize=TICK_SIZE * style.points,
            color=style.palette.faint,
        )


def _fitted_names(names: Sequence[str], axes: Axes, style: Style) -> tuple[list[str], int, int]:
    """The names of curves as they fit above axes, their number of columns, and how many fit."""
    width, height = (side / style.line for side in axes.bbox.size)
    most = max(1, int(_MOST_OF_HEIGHT * height / _LINE_OF_NAMES))
    for parts in (*range(1, _MOST_CUT + 1), 1):  # shorter names, if whole ones need too many lines
        room = max(1.0, width / parts - _KEY) * style.line
        texts = [
            style.wrapped_text(name, room, most=1 + (parts == 1), size=TICK_SIZE) for name in names
        ]
        columns = _columns_that_fit(texts, style, width)
        if _lines_of(texts, columns) <= most and len({*texts}) == len({*names}):
            return texts, columns, len(names)
    fitting = (
        n for n in range(len(texts) - 1, 1, -1) if _lines_of(texts[: n + 1], columns) <= most
    )
    return texts, columns, next(fitting, 1)


def _lines_of(texts: Sequence[str], columns: int) -> int:
    """The height of names in columns, in lines of text."""
    return -(-len("\n".join(texts).split("\n")) // columns)


def _columns_that_fit(texts: Sequence[str], style: Style, width: float) -> int:
    """The most columns of names, in order from the top down, in a width in lines of text."""
    longest = [max(text.split("\n"), key=len) for text in texts]
    widths = [style.text_width(text, TICK_SIZE) / style.line + _KEY for text in longest]
    for columns in range(len(widths), 1, -1):
        parts = np.array_split(widths, columns)
        if sum(max(part) for part in parts) <= width:
            return columns
    return 1


def name_values(axes: Axes, curves: Curves, style: Style) -> None:
    """Label axes and round values along them as space allows; whole numbers if points are whole."""
    width, height = axes.bbox.size
    axes.set_xlabel(style.wrapped_text(curves.x_label, width, most=2))
    axes.set_ylabel(style.wrapped_text(curves.y_label, height, most=2))
    drawn = [x[np.isfinite(x)] for x, _ in map(_finite_points, curves.curves)]
    whole = all(np.array_equal(x, np.rint(x)) for x in drawn)
    _locate(axes.xaxis, curves.x_scale, most=width / (_APART_ACROSS * style.line), whole=whole)
    _locate(axes.yaxis, curves.y_scale, most=height / (_APART_DOWN * style.line))


def _finite_points(curve: Curve) -> Points:
    """The points of a curve, NaN if either number is not finite."""
    x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)  # (points,)
    finite = np.isfinite(x) & np.isfinite(y)
    return np.where(finite, x, np.nan), np.where(finite, y, np.nan)


def _locate(axis: XAxis | YAxis, scale: str, *, most: float, whole: bool = False) -> None:
    """Let matplotlib choose round values for an axis with room for ``most`` labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    most = max(2, int(most))
    low, high = sorted(axis.get_view_interval())
    if scale == "linear" and high / 2 - low / 2 > _LARGEST_SPAN:
        axis.set_ticks([low, high])
    elif scale == "linear":
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole))
        if axis.axis_name == "y":  # matplotlib writes the common factor of all values above it
            return
    else:
        in_decade = most / max(1.0, np.log10(high / low))
        subs = next(values for count, values in _VALUES_OF_DECADE if in_decade >= count)
        axis.set_major_locator(LogLocator(numticks=most))
        axis.set_minor_locator(LogLocator(subs=subs, numticks=most))
    # One way to write all numbers of an axis: 10⁷ goes with 10⁶, not with 1000000.
    by_power = scale == "log" and (high >= IN_FULL or low < _IN_DECIMALS)
    formatter = FuncFormatter(lambda value, _: power(value) if by_power else minus(label(value)))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter)
