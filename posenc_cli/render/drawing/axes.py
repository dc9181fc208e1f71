"""Draw heatmaps and curves in matplotlib axes: values, labels and color scale.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import InvalidInput
from posenc_cli.render.figure import Band, Curve, Curves, Heatmap, Scale, Shown, runs_of
from posenc_cli.render.style import HEAD_SIZE, LINE_STYLES, TICK_SIZE, Style
from posenc_cli.render.terminal.blocks import levels
from posenc_cli.render.ticks import IN_FULL, label, longest_of, minus, number, power, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.colorbar import Colorbar
    from matplotlib.text import Text
    from numpy.typing import NDArray

    from posenc_cli.render.style import Srgb

    Points = tuple[NDArray[np.float64], NDArray[np.float64]]

_MEASURED_LABELS = 64
"""The number of row labels from which the widest is estimated."""
_WIDEST_NUMBER = "−1.234e−05"
"""A placeholder for the labels of a color scale until they are known."""
_SCALE_WIDTH = 0.05
"""The largest share of the maps' width for a shared scale."""
_LABEL_GAP_DOWN, LABEL_GAP_ACROSS, _LABEL_GAP_ON_SCALE = 2.6, 1.2, 2.4
"""Least distance of labels in lines of text: between rows, between columns, and on a scale."""
_LABEL_GAP_OF_WORDS = 0.9
"""Lines between two row words: none can be inferred from its neighbours, so all are needed."""


def label_axes(axes: Axes, heatmap: Heatmap) -> None:
    """Label axes, and reserve a tick label as wide as any that they may get."""
    axes.spines[:].set_visible(False)
    points = heatmap.rows.points
    names = [number(points[i]) for i in spread(len(points), _MEASURED_LABELS)]
    axes.set_ylabel(heatmap.rows.label)
    axes.set_xlabel(heatmap.columns.label)
    label_cells(axes, [(0.5, number(heatmap.columns.points[-1]))], [(0.5, max(names, key=len))])


def add_scale(all_axes: Sequence[Axes]) -> Colorbar:
    """Add a color scale to the right of axes; for single axes it has their height."""
    from matplotlib.cm import ScalarMappable

    page, (first, *others) = all_axes[0].figure, all_axes
    if others:
        place: dict[str, Any] = {
            "ax": all_axes,
            "pad": 0.02,
            "fraction": _SCALE_WIDTH,
            "aspect": 28,
        }
    else:
        spec = first.get_subplotspec()
        share = spec.get_gridspec().ncols if spec else 1
        place = {"cax": first.inset_axes((1 + 0.02 * share, 0, 0.025 * share, 1))}
    bar = page.colorbar(ScalarMappable(), **place)
    bar.set_ticks([0, 1], labels=[_WIDEST_NUMBER] * 2)
    bar.set_label("x")
    return bar


def label_scale(bar: Colorbar, label: str, scale: Scale, colors: Srgb, style: Style) -> None:
    """Set the colors of a scale, and label it, its ends and round values between them."""
    from matplotlib.colors import ListedColormap

    height = bar.ax.get_window_extent().height
    bar.set_label(style.wrapped_text(scale.named(label), height, most=2))
    if scale.high <= scale.low:
        bar.mappable.set_cmap(ListedColormap(colors[128:129] / 255))
        bar.set_ticks([0.5], labels=[minus(number(scale.low))])
        return
    if scale.only:
        of_values = levels(scale.places(np.array(scale.only)))
        bar.mappable.set_cmap(ListedColormap(colors[of_values] / 255))
        bar.set_ticks([0.25, 0.75], labels=[minus(number(value)) for value in scale.only])
        return
    bar.mappable.set_cmap(ListedColormap(colors / 255))
    for shapes in bar.ax.collections:  # 256 shapes show seams in viewers of SVG and PDF
        shapes.set_rasterized(True)
    lines = height / style.line
    values = np.array(
        [scale.low, *_round_values(scale, max(2, int(lines / _LABEL_GAP_ON_SCALE))), scale.high]
    )
    least_distance = 1.2 / max(lines, 1)  # between labels: a line and a little
    kept: dict[float, str] = {}
    for place, value in sorted(
        zip(scale.places(values).tolist(), values.tolist(), strict=True),
        key=lambda pair: (0 < pair[0] < 1, pair[1] != 0, -abs(pair[1])),
    ):  # the ends first, then 0, then the largest
        if all(abs(place - other) > least_distance for other in kept):
            kept[place] = minus(number(value))
    bar.set_ticks(sorted(kept), labels=[kept[place] for place in sorted(kept)])


def _round_values(scale: Scale, most: int) -> Sequence[float]:
    """Return round values between the ends of a scale, if there are any."""
    from matplotlib.ticker import MaxNLocator

    if scale.unit:
        ends = scale.unit, max(abs(scale.low), abs(scale.high))
        powers = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])))
        sizes = [10.0**power for power in powers[:: -(-2 * len(powers) // most) or 1]]
        signed = sorted([*(-size for size in sizes), 0.0, *sizes])
        return [value for value in signed if scale.low < value < scale.high]
    span = scale.high / 2 - scale.low / 2
    if not 1e-300 < span < 1e300:  # matplotlib's own sums overflow or underflow
        return []
    values = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(scale.low, scale.high)
    return [float(value) for value in values if scale.low < value < scale.high]


def draw_map(
    axes: Axes,
    shown: Shown,
    scale: Scale,
    colors: Srgb,
    size: tuple[float, float],
    *,
    style: Style,
    at: tuple[float, float] = (0.0, 0.0),
) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
    """Draw the values in a rectangle of axes whose units are pixels, band by band.

    The rectangle has a ``size`` and is ``at`` a position, right and down. Returns the positions and
    names of column and row ticks.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    (width, height), (left, top) = size, at
    gap = np.rint(255 * np.array(to_rgb(style.palette.gap)))
    table = np.vstack([colors, gap]).astype(np.uint8)  # (257, 3): the last for a gap, level −1
    cells = table[levels(scale.places(shown.values))]  # (rows, columns, 3)
    rows, columns = shown.values.shape
    bands = shown.column_bands or (Band("", 0, columns),)
    across = (width - _gap_in_pixels(style) * (len(bands) - 1)) / columns
    column_ticks: list[tuple[float, str]] = []
    for index, band in enumerate(bands):
        count, start = (
            band.stop - band.start,
            left + band.start * across + index * _gap_in_pixels(style),
        )
        axes.imshow(
            cells[:, band.start : band.stop],
            extent=(start, start + count * across, top + height, top),
            aspect=axes.get_aspect(),
        )
        frame = Rectangle((start, top), count * across, height, fill=False, clip_on=False)
        frame.set(edgecolor=style.palette.faint, linewidth=0.6)
        axes.add_patch(frame)
        write_above(axes, band.label, (start, top), style)
        for first, stop in runs_of(shown.faded, band):
            hatched = Rectangle((start + first * across, top), (stop - first) * across, height)
            hatched.set(facecolor=style.palette.page, edgecolor=style.palette.faint, hatch="///")
            hatched.set(linewidth=0)
            axes.add_patch(hatched)
        runs = start + across * np.array(runs_of(shown.undersampled, band)).reshape(-1, 2)
        axes.hlines(
            np.full(len(runs), top + height + 0.16 * style.line),
            runs[:, 0],
            runs[:, 1],
            colors=style.palette.mark,
            linewidth=0.25 * style.points,
            clip_on=False,
        )
        points = shown.columns[band.start : band.stop]
        longest = max(style.text_width(name, TICK_SIZE) for name in map(number, longest_of(points)))
        most = max(1, int(count * across / (longest + LABEL_GAP_ACROSS * style.line)))
        column_ticks += [(start + (i + 0.5) * across, name) for i, name in ticks(points, most)]
    least_distance = _LABEL_GAP_OF_WORDS if isinstance(shown.rows[0], str) else _LABEL_GAP_DOWN
    row_ticks = ticks(shown.rows, max(2, int(height / (least_distance * style.line))))
    return column_ticks, [(top + (i + 0.5) * height / rows, name) for i, name in row_ticks]


def write_above(
    axes: Axes, name: str, at: tuple[float, float], style: Style, size: float = HEAD_SIZE
) -> Text:
    """Write a name above a position of axes whose units are pixels."""
    return axes.annotate(
        name,
        at,
        xytext=(0, 0.5 * style.points),
        textcoords="offset points",
        fontsize=size * style.points,
        annotation_clip=False,
    )


def label_cells(
    axes: Axes, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]
) -> None:
    """Label columns below axes, and rows to their left."""
    axes.set_xticks([x for x, _ in columns], [minus(name) for _, name in columns])
    axes.set_yticks([y for y, _ in rows], [minus(name) for _, name in rows])


def _gap_in_pixels(style: Style) -> int:
    return max(2, round(0.35 * style.line))


_MARKED = 64
"""The most points of a curve with a marker at each."""
_TICKS_ACROSS, _TICKS_DOWN = 5, 2
"""The least distance between tick labels along an axis, in lines of text."""
_LARGEST_SPAN = 1e300
"""Half the length of an axis above which matplotlib overflows: only its ends get labels."""
_IN_DECIMALS = 1e-4
"""The smallest number that is written without an exponent."""
_KEY, _LINE_OF_NAMES = 3.2, 0.95
"""Width of a curve's line sample, and height of a line of names, in lines of text."""
_MOST_CUT = 4
"""The most columns for which names are cut."""
_MOST_OF_HEIGHT = 0.4
"""The largest share of the height of axes that the names of curves may fill."""
_LEVELS = "--", ":", "-."
"""Line styles of levels, in order."""
_ZONES = "kept", "blended", "interpolated"
"""Spans of an axis that have the same colors in every figure."""
_VALUES_OF_DECADE = ((9, range(2, 10)), (3, (2, 5)), (2, (3,)), (0, ()))
"""(least labels that fit in a decade, the values to label besides 1)."""


def draw_curves(axes: Axes, curves: Curves, style: Style) -> None:
    """Draw curves, levels and spans; `write_legend` labels them.

    Raises: InvalidInput if no point is finite.
    """
    if not any(np.isfinite(x).any() for x, _ in map(_finite_points, curves.curves)):
        raise InvalidInput(f"{curves.title}: no value is finite, nothing to show")
    lines = style.palette.lines
    draw_lines(axes, curves, style)
    for (level, name), dashes in zip(curves.levels, cycle(_LEVELS)):
        axes.axhline(level, color=style.palette.faint, linewidth=0.9, linestyle=dashes, label=name)
    span_names = list(dict.fromkeys([*_ZONES, *(name for _, _, name in curves.spans)]))
    for start, stop, name in curves.spans:
        color = lines[(span_names.index(name) + 1) % len(lines)]
        axes.axvspan(start, stop, color=color, alpha=0.14, linewidth=0, zorder=0)
    axes.set(xscale=curves.x_scale, yscale=curves.y_scale)
    axes.set_aspect("equal" if curves.square else "auto")
    axes.grid()
    label_values(axes, curves, style)


def draw_lines(axes: Axes, curves: Curves, style: Style, **placed: Any) -> None:
    """Draw curves alone; ``placed`` may hold a matplotlib transform, and whether to clip."""
    lines, shades, place = style.palette.lines, set[str](), 0
    for curve in curves.curves:
        x, y = _finite_points(curve)
        if curve.faint:
            axes.plot(x, y, color=style.palette.faint, linewidth=0.8, alpha=0.5, **placed)
            continue
        index, place = curve.style_index(place), place + 1
        line_style, color = LINE_STYLES[index % len(LINE_STYLES)], lines[index % len(lines)]
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
            linestyle=(0, line_style.dashes or None) if joined else "none",
            marker=line_style.marker if len(x) <= _MARKED or not joined else None,
            markersize=2.6 if joined else 3.4,
            label=curve.name or None,
            **placed,
        )


def write_legend(axes: Axes, curves: Curves, style: Style) -> float:
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
    return below + _LINE_OF_NAMES * _height_in_lines(texts, columns)


def _name_spans(axes: Axes, curves: Curves, style: Style) -> None:
    """Write the names of spans above axes, each at its start, and the last at its end.

    A name whose spans are all narrow appears before the end of the first that has room.
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
        at_end &= rights[index] - widths[index] >= axes.bbox.x0
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
    """Return names wrapped to fit above axes, their number of columns, and how many fit."""
    width, height = (side / style.line for side in axes.bbox.size)
    most = max(1, int(_MOST_OF_HEIGHT * height / _LINE_OF_NAMES))
    for parts in (*range(1, _MOST_CUT + 1), 1):  # shorter names, if whole ones need too many lines
        room = max(1.0, width / parts - _KEY) * style.line
        texts = [
            style.wrapped_text(name, room, most=1 + (parts == 1), size=TICK_SIZE) for name in names
        ]
        columns = _columns_that_fit(texts, style, width)
        if _height_in_lines(texts, columns) <= most and len({*texts}) == len({*names}):
            return texts, columns, len(names)
    fitting = (
        n for n in range(len(texts) - 1, 1, -1) if _height_in_lines(texts[: n + 1], columns) <= most
    )
    return texts, columns, next(fitting, 1)


def _height_in_lines(texts: Sequence[str], columns: int) -> int:
    return -(-len("\n".join(texts).split("\n")) // columns)


def _columns_that_fit(texts: Sequence[str], style: Style, width: float) -> int:
    """Return the most columns of names, ordered from the top down, in a width in lines of text."""
    longest = [max(text.split("\n"), key=len) for text in texts]
    widths = [style.text_width(text, TICK_SIZE) / style.line + _KEY for text in longest]
    for columns in range(len(widths), 1, -1):
        parts = np.array_split(widths, columns)
        if sum(max(part) for part in parts) <= width:
            return columns
    return 1


def label_values(axes: Axes, curves: Curves, style: Style) -> None:
    """Label axes and round values along them as space allows, whole numbers if points are whole."""
    width, height = axes.bbox.size
    axes.set_xlabel(style.wrapped_text(curves.x_label, width, most=2))
    axes.set_ylabel(style.wrapped_text(curves.y_label, height, most=2))
    drawn = [x[np.isfinite(x)] for x, _ in map(_finite_points, curves.curves)]
    whole = all(np.array_equal(x, np.rint(x)) for x in drawn)
    _set_tick_locator(
        axes.xaxis, curves.x_scale, most=width / (_TICKS_ACROSS * style.line), whole=whole
    )
    _set_tick_locator(axes.yaxis, curves.y_scale, most=height / (_TICKS_DOWN * style.line))


def _finite_points(curve: Curve) -> Points:
    """Return the points of a curve, NaN if either number is not finite."""
    x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)  # (points,)
    finite = np.isfinite(x) & np.isfinite(y)
    return np.where(finite, x, np.nan), np.where(finite, y, np.nan)


def _set_tick_locator(axis: XAxis | YAxis, scale: str, *, most: float, whole: bool = False) -> None:
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
    # Write all numbers of an axis alike: 10⁷ with 10⁶, not with 1000000.
    by_power = scale == "log" and (high >= IN_FULL or low < _IN_DECIMALS)
    formatter = FuncFormatter(lambda value, _: power(value) if by_power else minus(label(value)))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter)
