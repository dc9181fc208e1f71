"""Pictures for the terminal, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.render.figure import Curves, Heatmap, Panels, Picture

if TYPE_CHECKING:
    from posenc_cli.render.figure import Figure
    from posenc_cli.render.terminal.blocks import Page

NARROWEST, LOWEST = 20, 8
"""Columns and lines below which no picture is drawn."""


def picture_text(figure: Figure, page: Page) -> Picture[str]:
    """A figure as text that fits a page.

    Raises: InvalidInput where nothing is finite, or no colour map has the name asked for.
    """
    from posenc_cli.render.terminal import multiples, plates

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
    """Curves as text that fits a page.

    Raises: InvalidInput where nothing is finite.
    """
    from posenc_cli.render.terminal.plots import curves_lines

    return "\n".join(curves_lines(curves, page))
