"""Make the figure of a check: the error relative to the tolerance, and its place.

Both panels show error / tolerance. The curve has the largest by position. If a pair exceeds the
tolerance, a map below has each pair. Errors within the tolerance all have one color.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.render.figure import Axis, Curve, Curves, Heatmap, Panels
from posenc_cli.render.reports.report import CURVE_LINES, scope, verdict
from posenc_cli.render.terminal.blocks import Medium, Page
from posenc_cli.render.terminal.plots import curves_lines

if TYPE_CHECKING:
    from posenc_cli.rotary.verdict import Report

_FEWEST_POSITIONS = 2
"""The least number of positions for a curve."""
_LEAST_SHARE = 1e-3
"""The least share of the tolerance that a curve shows; the title says if errors are smaller."""


def check_figure(report: Report) -> Panels | None:
    """Return the error by position, and by position and pair; None if there is nothing to draw."""
    curve = error_curve(report)
    if curve is None:
        return None
    failed = (f"{each.check}: {each.message}" for each in report.findings if not each.ok)
    within = (np.array(report.shares, np.float64) <= 1).all()
    return Panels(
        (curve,) if within else (curve, _map(report)),
        _title(report),
        shared=False,
        notes=(verdict(report), scope(report), f"tolerance {report.tolerance}", *failed),
    )


def _title(report: Report) -> str:
    """Return the finding: the cause, or that every error is within the tolerance."""
    if report.ok:
        return "ok: every error is within the tolerance"
    return f"FAILED: {report.diagnosis[0].text if report.diagnosis else 'unknown cause'}"


def error_curve(report: Report) -> Curves | None:
    """Return the largest error at each position; None if there are too few positions to draw."""
    shares = np.array(report.shares, np.float64)  # (points, pairs)
    if len(shares) < _FEWEST_POSITIONS or not np.isfinite(shares).any():
        return None
    positions = [position for position, _ in report.curve]
    with np.errstate(invalid="ignore"):
        largest = shares.max(axis=1)
    smaller = (
        f"; errors below {_LEAST_SHARE:g} are drawn at {_LEAST_SHARE:g}"
        if (largest < _LEAST_SHARE).any()
        else ""
    )
    return Curves(
        (Curve.of(np.array(positions), np.maximum(largest, _LEAST_SHARE)),),
        f"the largest error at each position{smaller}",
        "position",
        "error / tolerance",
        x_scale="linear" if report.of is None else "log",  # as dense as the positions of a sample
        y_scale="log",
        levels=((1.0, "tolerance"),),
        joined=report.of is None,  # nothing is known between the positions of a sample
    )


def _map(report: Report) -> Heatmap:
    """Return the powers of ten by which errors exceed the tolerance, 0 if within it."""
    shares = np.array(report.shares, np.float64)
    positions = [position for position, _ in report.curve]
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.log10(np.maximum(shares, 1.0)).T  # (pairs, points)
    step = -(-report.pairs // len(above)) or 1
    highest = float(np.nanmax(above[np.isfinite(above)], initial=0.0))
    pairs = Axis("pair", [*range(0, report.pairs, step)][: len(above)])
    return Heatmap(
        above,
        pairs,
        Axis("position", positions),
        "pairs beyond the tolerance",
        "powers of ten above the tolerance",
        limits=(0.0, max(1.0, float(np.ceil(highest)))),
        scale="sequential",
    )


def deviation_text(report: Report, width: int, medium: Medium) -> str | None:
    """Return the error of a failed check by position, in `CURVE_LINES` lines of text.

    It is None if there is no curve to show.
    """
    curves = None if report.ok else error_curve(report)
    if curves is None:
        return None
    return "\n".join(curves_lines(curves, Page(width, CURVE_LINES, medium)))
