"""Small multiples in text: several heatmaps or curves in the rectangle of one picture.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from posenc_cli.analysis.sampling import spread
from posenc_cli.render.blocks import pad
from posenc_cli.render.figure import Curves, Heatmap, grid_of, scale_of, warnings_of
from posenc_cli.render.plates import (
    TITLE_LINES,
    Frame,
    Plate,
    heatmap_lines,
    label_width,
    notes_of,
    scale_line,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.blocks import Page
    from posenc_cli.render.figure import Panels

_GAP = 2
_LEAST = 16, 8
"""Columns and lines that a small heatmap needs."""
_LEAST_ALONE = 38, 11
"""Those that a picture with a frame and a scale of its own needs."""
_NARROWEST_HEATMAP = 24
"""Columns that do for a heatmap among them, so that it has more rows."""


def panels_lines(panels: Panels, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """Several figures, line by line, and what to warn of.

    Raises: InvalidInput where nothing is finite, or no map has the name asked for.
    """
    heatmaps = [panel for panel in panels.panels if isinstance(panel, Heatmap)]
    if panels.shared and len(heatmaps) == len(panels.panels):
        return _shared_lines(panels, heatmaps, page)
    return _separate_lines(panels, page)


def _shared_lines(
    panels: Panels, heatmaps: Sequence[Heatmap], page: Page
) -> tuple[list[str], tuple[str, ...]]:
    """Heatmaps of the same axes: one scale for all, labels at the left and below."""
    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    # Besides the title: ticks on two lines, the scale, and notes on up to two.
    height = page.height - len(title) - 5
    inset = label_width(heatmaps[0], page.part(page.width, height)) + 1
    size = (page.width - inset, height)
    down, across = grid_of(len(heatmaps), size, _LEAST, aspect=2)
    chosen = [heatmaps[i] for i in spread(len(heatmaps), down * across)]
    size = (page.width - inset + _GAP) // across - _GAP, height // down
    plates = []
    for index, heatmap in enumerate(chosen):
        left, lowest = index % across == 0, index // across == (len(chosen) - 1) // across
        frame = Frame(inset - 1 if left else 0, left, lowest, names=False, headings=False)
        part = page.part(size[0] + inset * left, size[1] - 1 + 2 * lowest)
        plates.append(Plate.of(heatmap, part, frame))
    shown = [plate.shown for plate in plates]
    scale = scale_of(shown)
    wide = max(
        max(plate.width - inset * plate.frame.row_labels, min(len(heatmap.title), size[0]))
        for plate, heatmap in zip(plates, chosen, strict=True)
    )
    lines = []
    for begin in range(0, len(plates), across):
        row = plates[begin : begin + across]
        widths = [wide + inset * plate.frame.row_labels for plate in row]
        pictures = [
            [_title_line(plate, page.part(size[0], 1)), *plate.lines(scale, page.colors(scale))]
            for plate in row
        ]
        lines += side_by_side(pictures, widths)
    first = heatmaps[0]
    notes = notes_of(shown, page.medium, first=(*panels.missing_notes(len(chosen)), *panels.notes))
    axes = f"down: {first.rows.label}, across: {first.columns.label}"
    return [
        *title,
        *lines,
        scale_line(shown, scale, page, after=axes),
        *page.wrapped_lines(notes, most=2),
    ], warnings_of(heatmaps, shown)


def _title_line(plate: Plate, page: Page) -> str:
    """The title of a small heatmap, above its cells."""
    inset = plate.frame.margin + plate.frame.row_labels
    return " " * inset + "".join(page.wrapped_lines(plate.shown.heatmap.title, most=1))


def _separate_lines(panels: Panels, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """Figures of any kind, each with a frame and a scale of its own."""
    from posenc_cli.render.plots import curves_lines

    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    size = (page.width, page.height - len(title))
    curved = any(isinstance(panel, Curves) and not panel.square for panel in panels.panels)
    least = (_LEAST_ALONE[0] if curved else _NARROWEST_HEATMAP, _LEAST_ALONE[1])
    down, across = grid_of(len(panels.panels), size, least, aspect=2)
    chosen = [panels.panels[i] for i in spread(len(panels.panels), down * across)]
    notes = page.wrapped_lines("; ".join((*panels.missing_notes(len(chosen)), *panels.notes)))
    height = max(1, (page.height - len(title) - len(notes)) // down)
    part = page.part((page.width + _GAP) // across - _GAP, height)
    lines: list[str] = list(title)
    warnings: tuple[str, ...] = ()
    for begin in range(0, len(chosen), across):
        pictures = []
        for figure in chosen[begin : begin + across]:
            if isinstance(figure, Curves):
                pictures.append(curves_lines(figure, part))
                continue
            picture, more = heatmap_lines(figure, part)
            pictures.append(picture)
            warnings += more
        lines += side_by_side(pictures, [part.width] * len(pictures))
    return [*lines, *notes], warnings


def side_by_side(pictures: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Pictures side by side, the tops of all on the first line."""
    return [
        (" " * _GAP).join(map(pad, row, widths)).rstrip()
        for row in zip_longest(*pictures, fillvalue="")
    ]
