"""Pictures for the terminal, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_cli.render.figure import Curve

_TICKS = 8


def curve_text(curve: Curve, *, width: int, height: int) -> str:
    """A curve as text of at most ``width`` columns and ``height`` lines, without escape codes."""
    import plotext

    plotext.terminal.limit(False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.draw(figure.signal(list(curve.x), list(curve.y), marker="•"))
    ticks = list(curve.x[:: -(-len(curve.x) // _TICKS)])
    figure.ruler("x").ticks(ticks, [f"{tick:g}" for tick in ticks])
    logarithmic = curve.y_scale == "log" and min(curve.y) < max(curve.y)
    figure.ruler("y").scale("log" if logarithmic else "linear")
    figure.title(curve.title)
    figure.label(curve.x_label, "x")
    figure.label(f"{curve.y_label} (log)" if logarithmic else curve.y_label, "y")
    text: str = figure.build().string(colorless=True)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
