"""Pictures for the terminal, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_cli.render.figure import Curves

_TICKS = 8


def curves_text(curves: Curves, *, width: int, height: int) -> str:
    """Curves as text of at most ``width`` columns and ``height`` lines, without escape codes."""
    import plotext

    plotext.terminal.limit(False)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    for curve in curves.curves:
        figure.draw(figure.signal(list(curve.x), list(curve.y), marker="•"))
    x = curves.curves[0].x
    ticks = list(x[:: -(-len(x) // _TICKS)])
    figure.ruler("x").ticks(ticks, [f"{tick:g}" for tick in ticks])
    lowest = min(min(curve.y) for curve in curves.curves)
    highest = max(max(curve.y) for curve in curves.curves)
    logarithmic = curves.y_scale == "log" and lowest < highest
    figure.ruler("y").scale("log" if logarithmic else "linear")
    figure.title(curves.title)
    figure.label(curves.x_label, "x")
    figure.label(f"{curves.y_label} (log)" if logarithmic else curves.y_label, "y")
    text: str = figure.build().string(colorless=True)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
