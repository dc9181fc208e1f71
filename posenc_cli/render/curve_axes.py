"""Curves of a figure in a file, on axes of matplotlib's.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.render.ticks import number, round_values

if TYPE_CHECKING:
    from posenc_cli.render.figure import Curve, Curves
    from posenc_cli.render.sheet import Sheet

_MARKED = 64
"""Points of a curve up to which each has a marker."""

_IN_FULL = 1e6
"""Whole numbers below it are written without an exponent."""

_STEPS_OF_DECADE = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), tuple(range(1, 10)))


def draw_curves(axes: Any, curves: Curves, sheet: Sheet, *, width: float, height: float) -> bool:
    """Draw curves on axes of some pixels, with a legend where they have names.

    Returns: whether any of their points is finite, and so drawn.
    """
    drawn = [_drawable(each) for each in curves.curves]
    lines = sheet.theme.lines
    for start, stop, name in curves.spans:
        axes.axvspan(start, stop, color=lines[_place(curves, name)], alpha=0.14, lw=0, zorder=0)
    for first, second in curves.filled:
        axes.fill_between(
            drawn[first][0], drawn[first][1], drawn[second][1], color=lines[0], alpha=0.3, lw=0
        )
    for index, (curve, (x, y)) in enumerate(zip(curves.curves, drawn, strict=True)):
        axes.plot(
            x,
            y,
            color=lines[index % len(lines)],
            linewidth=1.3,
            linestyle="-" if curves.joined else "none",
            marker="o" if len(x) <= _MARKED or not curves.joined else None,
            markersize=2.6 if curves.joined else 3.4,
            label=curve.name or None,
        )
    for level, name in curves.levels:
        axes.axhline(level, color=sheet.theme.faint, linewidth=0.9, linestyle="--", label=name)
    axes.set_xscale(curves.x_scale)
    axes.set_yscale(curves.y_scale)
    points = sheet.points
    for label, room, put in (
        (curves.x_label, width, axes.set_xlabel),
        (curves.y_label, height, axes.set_ylabel),
    ):
        lines_of_label = sheet.wrapped(label, room, 1.0)[:2]
        put("\n".join(lines_of_label), color=sheet.theme.ink, fontsize=points, parse_math=False)
    whole = all(np.array_equal(x[np.isfinite(x)], np.rint(x[np.isfinite(x)])) for x, _ in drawn)
    _name_values(axes.xaxis, curves.x_scale, most=width / (5 * sheet.line), whole=whole)
    _name_values(axes.yaxis, curves.y_scale, most=height / (2 * sheet.line), whole=False)
    axes.grid(color=sheet.theme.faint, alpha=0.25, linewidth=0.5)
    _legend(axes, curves, sheet)
    return any(np.isfinite(x).any() for x, _ in drawn)


def _drawable(curve: Curve) -> tuple[Any, Any]:
    """The points of a curve, NaN where either number is not finite."""
    x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)
    there = np.isfinite(x) & np.isfinite(y)
    return np.where(there, x, np.nan), np.where(there, y, np.nan)


def _place(curves: Curves, name: str) -> int:
    """The colour of a span: those of one name share it."""
    names = list(dict.fromkeys(each for _, _, each in curves.spans))
    return (names.index(name) + 1) % 6


def _name_values(axis: Any, scale: str, *, most: float, whole: bool) -> None:
    """Label an axis at round values, each in full; at ``whole`` numbers only where asked to."""
    low, high = sorted(map(float, axis.get_view_interval()))
    count = max(2, int(most))
    if scale == "log":
        values = log_values(low, high, count)
    else:
        values = round_values(low, high, count)
        if whole:
            values = sorted({float(round(v)) for v in values if low <= round(v) <= high})
    axis.set_ticks(values, [minus(number(_plain(value))) for value in values])
    axis.set_ticks([], minor=True)


def _plain(value: float) -> float:
    """A value without a decimal point where it is whole, for it to be written in full."""
    return int(value) if value == int(value) and abs(value) < _IN_FULL else value


def log_values(low: float, high: float, most: int) -> list[float]:
    """At most about ``most`` values for a logarithmic axis: 1, 2 and 5 of a decade, or powers.

    >>> log_values(0.003, 0.8, 7), log_values(2.5, 4.5, 5), log_values(1, 1e9, 4)
    ([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5], [3.0, 4.0], [1.0, 1000.0, 1000000.0, 1000000000.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first + 1) / max(1, most)))
    best: list[float] = []
    for steps in _STEPS_OF_DECADE if every == 1 else _STEPS_OF_DECADE[:1]:
        found = [
            value
            for exponent in range(first, last + 1)
            if exponent % every == 0
            for step in steps
            if low <= (value := float(f"{step:g}e{exponent}")) <= high
        ]
        if not best or len(found) <= most:
            best = found
    # Within a small part of a decade, as on a linear axis.
    return best if len(best) > 1 else round_values(low, high, most)


def minus(text: str) -> str:
    """A number as a figure has it: with a minus sign, as wide as a plus.

    >>> minus("-1e-05")
    '−1e−05'
    """
    return re.sub(r"^-|(?<=e)-", "−", text)


def _legend(axes: Any, curves: Curves, sheet: Sheet) -> None:
    from matplotlib.patches import Patch

    handles, names = axes.get_legend_handles_labels()
    lines = sheet.theme.lines
    for name in dict.fromkeys(each for _, _, each in curves.spans):
        handles.append(Patch(color=lines[_place(curves, name)], alpha=0.3, lw=0))
        names.append(name)
    if not names:
        return
    legend = axes.legend(
        handles,
        names,
        fontsize=0.9 * sheet.points,
        labelcolor=sheet.theme.ink,
        facecolor=sheet.theme.page,
        edgecolor=sheet.theme.faint,
        framealpha=0.9,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
