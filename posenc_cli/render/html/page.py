"""Write figures as one HTML file without network access, readable without script.

Python writes maps as PNG and curves as SVG (`html_plots`), each with a table of some values.
``page.js`` reacts to pointer, keys and sliders, using the numbers in the page.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from posenc_cli.analysis.sampling import spread
from posenc_cli.records import Record
from posenc_cli.render.figure import (
    Curves,
    Figure,
    Heatmap,
    Panels,
    Picture,
    Shown,
    scales_of,
    warnings_of,
)
from posenc_cli.render.html.html_plots import CurvePlot, MapPlot, scale_bar, tag, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.render.html.live import Clocks, Ladder
    from posenc_cli.render.style import Theme

    Live: TypeAlias = Clocks | Ladder

_BYTES, _CURVE_BYTES = 240_000, 120_000
"""Bytes of all panels within a page's 300 kB, and of curve points when there are also maps."""
_PANEL_BYTES, _TABLE_BYTES, _CELL_BYTES, _POINT_BYTES = 1_700, 2_600, 7, 20
"""Bytes of a panel without its values, of its table, of a map cell and of a point."""
_MOST_PANELS = 64
"""The most panels of a figure; with more, some are shown."""
_MOST_SIDE = 512
"""The most rows and columns of a map: more are narrower than a page pixel."""
_TABLES = 12
"""The number of panels that get a table of values."""
_ACROSS = 8
"""The most small panels per row, chosen for few empty places and few rows."""
_MANY = 6
"""The most panels at which each one is large."""
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
)
_KEYS = (
    "Point at a plot to read a value, or select it with Tab and move with the arrow keys "
    "(Shift: ten at a time)."
)
_IN_SCRIPT = {ord("<"): "\\u003c"}
"""The character that could end the element with the numbers."""


class Section(Record):
    """A part of a page: a figure below a heading and some text, and its interactive parts."""

    figure: Figure
    heading: str = ""
    words: str = ""
    live: tuple[Live, ...] = ()


def page_bytes(
    title: str, sections: Sequence[Section], *, cmap: str | None = None, theme: Theme | None = None
) -> Picture[bytes]:
    """Return figures as the bytes of one page, in the reader's theme unless ``theme`` is given.

    Raises: InvalidInput if no value is finite, or no color map has the requested name.
    """
    page = _HtmlWriter(sections, cmap)
    body = "".join(map(page.section, sections))
    data = json.dumps({"panels": page.panels, "live": page.live}, separators=(",", ":"))
    style, script = (
        Path(__file__).with_name(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    fixed = f' data-theme="{theme}"' if theme else ""
    text = (
        f'<!doctype html>\n<html lang="en"{fixed}>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{_POLICY}\n<title>{text_of(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n{tag('h1', title)}{body}{tag('footer', _KEYS)}</main>\n"
        f'<script type="application/json" id="data">{data.translate(_IN_SCRIPT)}</script>\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )
    return Picture(text.encode(), warnings_of(page.shown), tuple(page.shown))


class _HtmlWriter:
    """A writer of the sections of a page, which collects the numbers for its script."""

    def __init__(self, sections: Sequence[Section], cmap: str | None) -> None:
        panels = [panel for section in sections for panel in _panels_of(section.figure)]
        curves = [curve for each in panels if isinstance(each, Curves) for curve in each.curves]
        maps = sum(not isinstance(each, Curves) for each in panels)
        tables = min(len(panels), _TABLES)
        free = _BYTES - _PANEL_BYTES * len(panels) - _TABLE_BYTES * tables
        longest = max((len(curve.x) for curve in curves), default=0)
        room = (min(free, _CURVE_BYTES) if maps else free) // _POINT_BYTES
        self._points = longest
        while sum(min(self._points, len(curve.x)) for curve in curves) > room:
            self._points = max(1, self._points * 9 // 10)
        points = sum(min(self._points, len(curve.x)) for curve in curves)
        self._cells = (free - _POINT_BYTES * points) // (_CELL_BYTES * max(1, maps))
        self._cmap = cmap
        self.panels: list[dict[str, Any]] = []
        self.live: list[dict[str, Any]] = []
        self.shown: list[Shown] = []

    def section(self, section: Section) -> str:
        """Write a section: interactive parts, then panels, with one color scale if it fits all."""
        figure, panels = section.figure, _panels_of(section.figure)
        shown = {id(each): self._sampled(each) for each in panels if isinstance(each, Heatmap)}
        self.shown += shown.values()
        scales = dict(zip(shown, scales_of([*shown.values()]) if shown else (), strict=True))
        same = {(scales[key], part.heatmap.value_label) for key, part in shown.items()}
        shared = len(same) == 1 and len(shown) > 1
        drawn, notes = [], [*getattr(figure, "notes", ())]
        if isinstance(figure, Panels):
            notes += figure.missing_notes(len(panels))
        circles = all(isinstance(panel, Curves) and panel.square for panel in panels)
        small = len(panels) > _MANY or circles
        for panel in panels:
            title = "" if panel is figure and not section.heading else panel.title
            if isinstance(panel, Curves):
                plot: MapPlot | CurvePlot = CurvePlot(panel, title, self._points, small=small)
            else:
                scale = scales[id(panel)]
                look = {"barred": not shared, "small": small}
                plot = MapPlot(shown[id(panel)], title, scale, self._cmap, **look)
            drawn.append(self._panel(plot))
            notes += plot.notes
        bar = ""
        if shared:
            (scale, name), *_ = same
            bar = scale_bar([*shown.values()], scale, name, self._cmap)
        together, count = getattr(figure, "across", 1), len(panels)
        most = min(
            range(4, _ACROSS + 1) if together == 1 else [2 * together],
            key=lambda across: (-count % across, abs(across * across - 2 * count)),
        )
        many = f' many" style="--_most:{most}' * small
        return (
            f"<section>\n{tag('h2', section.heading)}{tag('p', section.words)}"
            f"{''.join(map(self._live_part, section.live))}{bar}"
            f'<div class="panels{many}">\n'
            f"{''.join(drawn)}</div>\n"
            f"{tag('p', '; '.join(dict.fromkeys(notes)), 'note')}</section>\n"
        )

    def _sampled(self, heatmap: Heatmap) -> Shown:
        """Return as many rows and columns of a map as fit in the page."""
        rows, columns = (min(_MOST_SIDE, len(a.points)) for a in (heatmap.rows, heatmap.columns))
        if rows * columns > self._cells:
            side = int(self._cells**0.5)
            rows, columns = min(rows, side), min(columns, side)
        return heatmap.sample(rows, columns)

    def _panel(self, plot: MapPlot | CurvePlot) -> str:
        index = len(self.panels)
        self.panels.append(plot.data)
        return plot.html(index, plot.table() if index < _TABLES else "")

    def _live_part(self, live: Live) -> str:
        """Write an interactive part with its sliders, hidden without script."""
        index = len(self.live)
        self.live.append(live.data)
        plot = self._panel(CurvePlot(live.figure, "", self._points)) if live.figure else ""
        return f'<div class="live" data-live="{index}" hidden>\n{live.html}{plot}</div>\n'


def _panels_of(figure: Figure) -> Sequence[Heatmap | Curves]:
    if not isinstance(figure, Panels):
        return (figure,)
    return [figure.panels[i] for i in spread(len(figure.panels), _MOST_PANELS)]
