"""Heatmaps in matplotlib axes: labels, color scale and values.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.render.figure import Band, Heatmap, Scale, Shown, runs_of
from posenc_cli.render.style import HEAD_SIZE, TICK_SIZE, Style
from posenc_cli.render.terminal.blocks import levels
from posenc_cli.render.ticks import longest_of, minus, number, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar

    from posenc_cli.render.colors import Srgb

_JUDGED = 64
"""The number of row labels from which the widest is estimated."""
_WIDEST_NUMBER = "−1.234e−05"
"""A placeholder for the labels of a color scale until they are known."""
_OF_WIDTH = 0.05
"""The largest share of the maps' width for a shared scale."""
_APART_DOWN, _APART_ACROSS, _APART_ON_SCALE = 2.6, 1.2, 2.4
"""Least distance of labels in lines of text: between rows, between columns, and on a scale."""
_APART_OF_WORDS = 0.9
"""Lines between two row words: none can be inferred from its neighbours, so all are needed."""


def name_axes(axes: Axes, heatmap: Heatmap) -> None:
    """Label axes, and reserve a tick label as wide as any that they may get."""
    axes.spines[:].set_visible(False)
    points = heatmap.rows.points
    names = [number(points[i]) for i in spread(len(points), _JUDGED)]
    axes.set_ylabel(heatmap.rows.label)
    axes.set_xlabel(heatmap.columns.label)
    name_places(axes, [(0.5, number(heatmap.columns.points[-1]))], [(0.5, max(names, key=len))])


def scale_beside(all_axes: Sequence[Axes]) -> Colorbar:
    """A color scale to the right of axes; that of single axes is as high as these."""
    from matplotlib.cm import ScalarMappable

    page, (first, *others) = all_axes[0].figure, all_axes
    if others:
        place: dict[str, Any] = {"ax": all_axes, "pad": 0.02, "fraction": _OF_WIDTH, "aspect": 28}
    else:
        spec = first.get_subplotspec()
        share = spec.get_gridspec().ncols if spec else 1
        place = {"cax": first.inset_axes((1 + 0.02 * share, 0, 0.025 * share, 1))}
    bar = page.colorbar(ScalarMappable(), **place)
    bar.set_ticks([0, 1], labels=[_WIDEST_NUMBER] * 2)
    bar.set_label("x")
    return bar


def name_scale(bar: Colorbar, label: str, scale: Scale, colors: Srgb, style: Style) -> None:
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
        [scale.low, *_round_values(scale, max(2, int(lines / _APART_ON_SCALE))), scale.high]
    )
    apart = 1.2 / max(lines, 1)  # between labels: a line and a little
    kept: dict[float, str] = {}
    for place, value in sorted(
        zip(scale.places(values).tolist(), values.tolist(), strict=True),
        key=lambda pair: (0 < pair[0] < 1, pair[1] != 0, -abs(pair[1])),
    ):  # the ends first, then 0, then the largest
        if all(abs(place - other) > apart for other in kept):
            kept[place] = minus(number(value))
    bar.set_ticks(sorted(kept), labels=[kept[place] for place in sorted(kept)])


def _round_values(scale: Scale, most: int) -> Sequence[float]:
    """Round values between the ends of a scale, if there are any."""
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
    across = (width - _gap(style) * (len(bands) - 1)) / columns
    column_ticks: list[tuple[float, str]] = []
    for index, band in enumerate(bands):
        count, start = band.stop - band.start, left + band.start * across + index * _gap(style)
        axes.imshow(
            cells[:, band.start : band.stop],
            extent=(start, start + count * across, top + height, top),
            aspect=axes.get_aspect(),
        )
        frame = Rectangle((start, top), count * across, height, fill=False, clip_on=False)
        frame.set(edgecolor=style.palette.faint, linewidth=0.6)
        axes.add_patch(frame)
        name_above(axes, band.label, (start, top), style)
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
        most = max(1, int(count * across / (longest + _APART_ACROSS * style.line)))
        column_ticks += [(start + (i + 0.5) * across, name) for i, name in ticks(points, most)]
    apart = _APART_OF_WORDS if isinstance(shown.rows[0], str) else _APART_DOWN
    row_ticks = ticks(shown.rows, max(2, int(height / (apart * style.line))))
    return column_ticks, [(top + (i + 0.5) * height / rows, name) for i, name in row_ticks]


def name_above(
    axes: Axes, name: str, at: tuple[float, float], style: Style, size: float = HEAD_SIZE
) -> None:
    """Write a name above a position of axes whose units are pixels."""
    if name:
        axes.annotate(
            name,
            at,
            xytext=(0, 0.5 * style.points),
            textcoords="offset points",
            fontsize=size * style.points,
            annotation_clip=False,
        )


def name_places(
    axes: Axes, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]
) -> None:
    """Label columns below axes, and rows to their left."""
    axes.set_xticks([x for x, _ in columns], [minus(name) for _, name in columns])
    axes.set_yticks([y for y, _ in rows], [minus(name) for _, name in rows])


def _gap(style: Style) -> int:
    """Pixels between two bands."""
    return max(2, round(0.35 * style.line))
