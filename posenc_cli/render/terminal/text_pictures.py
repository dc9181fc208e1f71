"""Pictures as text for the terminal."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from posenc_cli.analysis.sampling import spread
from posenc_cli.records import replace
from posenc_cli.render.figure import (
    Curves,
    Figure,
    Heatmap,
    Panels,
    Picture,
    Scale,
    grid_of,
    heatmaps_of,
    one_quantity,
    scale_of,
    scales_of,
    warnings_of,
)
from posenc_cli.render.terminal.blocks import Page, pad
from posenc_cli.render.terminal.plates import (
    TITLE_LINES,
    Frame,
    Plate,
    heatmap_lines,
    label_width,
    notes_of,
    scale_line,
)
from posenc_cli.render.terminal.plots import curves_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


_GAP = 2
_LEAST = 16, 8
"""The least columns and lines of a small heatmap."""
_MOST_TITLE = 24
"""The most letters of a small heatmap's title for which it may grow wider."""
_LEAST_MAP, _LEAST_CURVES = (25, 15), (37, 11)
"""The least columns and lines of a heatmap with its own scale, and of curves."""
_TITLE_LINES_OF_MAP = 3
_ONE_BY_ONE = ("panel", "part")
"""The nouns of panels that are always all shown."""


def _shared_lines(panels: Panels, page: Page) -> tuple[list[str], tuple[str, ...]]:
    """Heatmaps with the same axes: one scale for all, labels on the left and below."""
    heatmaps: Sequence[Heatmap] = heatmaps_of(panels)
    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    # Besides the title: ticks on two lines, the scale, and notes on up to two.
    height = page.height - len(title) - 5
    inset = label_width(heatmaps[0], page.part(page.width, height)) + 1
    size = (page.width - inset, height)
    named = min(max(len(heatmap.title) for heatmap in heatmaps), _MOST_TITLE) + _GAP
    few, multiple = heatmaps, panels.across
    for least in ((max(named, _LEAST[0]), _LEAST[1]), _LEAST):
        down, across = grid_of(len(few), size, least, aspect=2, multiple=multiple)
        if len(few) <= down * across:
            break
        few, multiple = heatmaps[panels.across - 1 :: panels.across], 1  # the last shows most
    chosen = [few[i] for i in spread(len(few), down * across)]
    size = (page.width - inset + _GAP) // across - _GAP, height // down
    plates = []
    for index, heatmap in enumerate(chosen):
        left, lowest = index % across == 0, index // across == (len(chosen) - 1) // across
        frame = Frame(inset - 1 if left else 0, left, lowest, names=False, headings=False)
        part = page.part(size[0] + inset * left, size[1] - 1 + 2 * lowest)
        plates.append(Plate.of(heatmap, part, frame))
    shown = [plate.shown for plate in plates]
    scale = scale_of(shown)
    colors = page.colors(scale)
    wide = max(
        max(plate.width - inset * plate.frame.row_labels, min(len(heatmap.title), size[0]))
        for plate, heatmap in zip(plates, chosen, strict=True)
    )
    lines = []
    for begin in range(0, len(plates), across):
        row = plates[begin : begin + across]
        widths = [wide + inset * plate.frame.row_labels for plate in row]
        titles = [
            page.part(size[0], 1).wrapped_lines(each.title, most=1) for each in chosen[begin:]
        ]
        pictures = [
            [" " * inset * plate.frame.row_labels + "".join(title), *plate.lines(scale, colors)]
            for plate, title in zip(row, titles, strict=False)
        ]
        lines += side_by_side(pictures, widths)
    missing = panels.missing_notes(len(chosen))
    if missing and len(heatmaps) == (panels.total or len(heatmaps)):
        rows = -(-len(heatmaps) // max(1, (page.width - inset) // _LEAST[0]))
        missing += (f"--height {rows * _LEAST[1] + page.height - height} shows all",)
    notes = notes_of(shown, page.medium, first=(*missing, *panels.notes))
    axes = f"down: {chosen[0].rows.label}, across: {chosen[0].columns.label}"
    return [
        *title,
        *lines,
        scale_line(shown, scale, page, after=axes),
        *page.wrapped_lines(notes, most=2),
    ], warnings_of(shown)


def _separate_lines(
    panels: Panels, page: Page, reserved: int = 0
) -> tuple[list[str], tuple[str, ...]]:
    """Figures of any kind, each with a frame; maps of one quantity share a scale.

    Figures that were requested one by one are all shown: those that do not fit side by side follow
    below, however high the page is. Of many similar figures, only those that fit are shown. Notes
    depend on what is shown. If the ``reserved`` lines are too few for them, the layout starts
    again.
    """
    figures, heatmaps = panels.panels, heatmaps_of(panels)
    title = page.wrapped_lines(panels.title, most=TITLE_LINES)
    axes = dict.fromkeys(
        f"down: {heatmap.rows.label}, across: {heatmap.columns.label}" for heatmap in heatmaps
    )
    of_curves = (figure.notes for figure in figures if isinstance(figure, Curves))
    first = [" or ".join(axes)] * bool(axes)
    first += [*panels.notes, *chain.from_iterable(of_curves)]
    reserved = max(reserved, len(page.wrapped_lines("; ".join(first))))
    curved = any(isinstance(figure, Curves) and not figure.square for figure in figures)
    least = _LEAST_CURVES if curved else _LEAST_MAP
    if heatmaps:
        least = least[0], max(least[1], _LEAST_MAP[1])
    size = page.width + _GAP, page.height - len(title) - reserved
    down, across = grid_of(len(figures), size, (least[0] + _GAP, least[1]), aspect=2)
    if panels.noun in _ONE_BY_ONE:
        down = -(-len(figures) // across)
        across = -(-len(figures) // down)
    figures = tuple(figures[i] for i in spread(len(figures), down * across))
    first += panels.missing_notes(len(figures))
    width = (page.width + _GAP) // across - _GAP
    part = page.part(width, max(least[1], size[1] // down))
    plates = {
        index: _plate_with_title(figure, part)
        for index, figure in enumerate(figures)
        if isinstance(figure, Heatmap)
    }
    shown = [plate.shown for plate, _ in plates.values()]
    notes = page.wrapped_lines(notes_of(shown, page.medium, first=first))
    if len(notes) > reserved:
        return _separate_lines(panels, page, len(notes))
    scales = dict(zip(plates, scales_of(shown), strict=True))
    shared = one_quantity(figures)
    pictures = [
        _framed_lines(*plates[index], scales[index], part, scaled=not shared)
        if isinstance(figure, Heatmap)
        else curves_lines(replace(figure, notes=()), part)
        for index, figure in enumerate(figures)
    ]
    lines = list(title)
    for begin in range(0, len(pictures), across):
        lines += side_by_side(pictures[begin : begin + across], [width] * across)
    if shared:
        lines.append(scale_line(shown, scales[0], page, margin=plates[0][0].frame.margin))
    return [*lines, *notes], warnings_of(shown)


def _plate_with_title(heatmap: Heatmap, page: Page) -> tuple[Plate, list[str]]:
    """The cells of one of several maps, and the lines above them."""
    title = page.wrapped_lines(heatmap.title, most=_TITLE_LINES_OF_MAP)
    room = page.part(page.width, page.height - len(title) - 1)  # 1: the scale
    frame = Frame(
        min(label_width(heatmap, room), page.width // 2),
        names=False,
        headings=bool(heatmap.columns.bands),
    )
    return Plate.of(heatmap, room, frame), title


def _framed_lines(
    plate: Plate, title: Sequence[str], scale: Scale, page: Page, *, scaled: bool
) -> list[str]:
    """One of several maps, line by line; without its scale if all share one."""
    bar = [scale_line([plate.shown], scale, page, margin=plate.frame.margin)] if scaled else []
    return [*title, *plate.lines(scale, page.colors(scale)), *bar]


def side_by_side(pictures: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Pictures side by side, aligned at the top."""
    return [
        (" " * _GAP).join(map(pad, row, widths)).rstrip()
        for row in zip_longest(*pictures, fillvalue="")
    ]


NARROWEST, LOWEST = 20, 8
"""Columns and lines below which no picture is drawn."""


def picture_text(figure: Figure, page: Page) -> Picture[str]:
    """A figure as text that fits a page.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    page = page.part(max(NARROWEST, page.width), max(LOWEST, page.height))
    match figure:
        case Heatmap():
            lines, warnings = heatmap_lines(figure, page)
        case Curves():
            lines, warnings = curves_lines(figure, page), ()
        case Panels():
            alike = figure.shared and len(heatmaps_of(figure)) == len(figure.panels)
            lines, warnings = (_shared_lines if alike else _separate_lines)(figure, page)
    return Picture("\n".join(lines), warnings)
