"""Write maps and curves as HTML: frames, labels and the data behind them.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import base64
import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import compress, crc32

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.errors import printable_text
from posenc_cli.records import replace
from posenc_cli.render.figure import TOO_FAST, Band, Curve, Curves, Range, Scale, Shown, runs_of
from posenc_cli.render.style import LINE_STYLES, color_map, default_map
from posenc_cli.render.ticks import minus, number, ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.render.style import Srgb

_ROWS, _COLUMNS = 12, 8
"""Rows and columns of a table that shows some of the values."""
_UNITS = 4000
"""The side of a plot in units of its SVG: one unit is a fifth of a page pixel."""
_TICKS, _FEW_TICKS = 5, 3
_SINGLE = 1e-30, 1e30
"""The sizes between which float32 keeps seven digits of a number."""
_LETTERS = 40
"""Letters that fit side by side below a map on a phone."""
_FEW_COLORS = 64
"""Colors of each of many small maps."""
_COLORS = 6
"""Colors of curves in ``page.css``."""
_DASH = 1.6
"""Pixels per unit of a dash."""
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""Importing Python's own ``html`` loads 2231 names of characters."""


def text_of(text: str) -> str:
    """Escape a text for HTML, both markup and terminal control characters."""
    return printable_text(text).translate(_MARKUP)


def tag(name: str, text: str, kind: str = "") -> str:
    """Return an element around a text, or nothing if the text is empty."""
    return f"<{name}{f' class={kind}' * bool(kind)}>{text_of(text)}</{name}>\n" if text else ""


def packed(values: Sequence[Any] | RealRows, *, exactly: bool = False) -> Any:
    """Pack values for the script: equal steps as three numbers, floats as their bytes.

    Unless ``exactly``, floats are stored as float32 (seven digits) if their sizes allow it.
    """
    if isinstance(values[0], str):
        return [*values]
    if all(isinstance(value, int) for value in values):
        steps = {after - before for before, after in pairwise(values)}
        if len(steps) == 1:
            return {"start": values[0], "step": steps.pop(), "count": len(values)}
        return [*values]
    array = np.asarray(values, np.float64)
    sizes = np.abs(array[np.isfinite(array) & (array != 0)])
    within = not sizes.size or (sizes.min() > _SINGLE[0] and sizes.max() < _SINGLE[1])
    single = within and not exactly
    stored = array.astype("<f4" if single else "<f8")
    return {"bits": 32 if single else 64, "data": base64.b64encode(stored.tobytes()).decode()}


class _Plot:
    """The common parts of maps and curves: a frame with labels and ticks, and a table of values."""

    data: dict[str, Any]
    title: str
    notes: tuple[str, ...]
    square: bool
    above: list[tuple[float, str]]
    across: list[tuple[float, str]]
    down: list[tuple[float, str]]
    inside: str
    after = ""
    names: tuple[str, str]

    def html(self, index: int, table: str) -> str:
        """Return the panel above a ``table``; ``index`` selects its numbers in the script."""
        longest = max((name for _, name in self.down), key=len, default="")
        description = f"{self.title or 'plot'}: {self.names[1]} by {self.names[0]}"
        return (
            f'<figure data-panel="{index}"{" class=square" * self.square}>\n'
            f'{tag("figcaption", self.title)}<div class="frame">\n'
            f'<div class="above">{_label_spans(self.above, "left")}</div>\n'
            f'<div class="name-y">{text_of(self.names[1])}</div>\n'
            f'<div class="down"><i>{text_of(longest)}</i>{_label_spans(self.down, "top")}</div>\n'
            f'<div class="plot" role="application" aria-label="{text_of(description)}; arrow keys '
            f'read values">{self.inside}</div>\n'
            f'<div class="along">{_label_spans(self.across, "left")}</div>\n'
            f'<div class="name-x">{text_of(self.names[0])}</div>\n</div>\n'
            f'{self.after}<output aria-live="polite"></output>\n'
            f"{table}</figure>\n"
        )


def _label_spans(named: Iterable[tuple[float, str]], side: str) -> str:
    return "".join(
        f'<span style="{side}:{100 * place:.2f}%">{text_of(name)}</span>' for place, name in named
    )


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]], summary: str) -> str:
    """Return a table that opens on request."""
    head = "".join(f'<th scope="col">{text_of(name)}</th>' for name in heads)
    lines = "".join(
        f'<tr><th scope="row">{text_of(first)}</th>'
        + "".join(f"<td>{text_of(cell)}</td>" for cell in rest)
        + "</tr>\n"
        for first, *rest in rows
    )
    return (
        f"<details><summary>{text_of(summary)}</summary>"
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>'
        "</table></div></details>\n"
    )


def _value(value: float) -> str:
    return minus(number(value, 6)) if math.isfinite(value) else "not finite"


class MapPlot(_Plot):
    """A heatmap with one pixel per cell, scaled up by the page."""

    def __init__(
        self,
        shown: Shown,
        title: str,
        scale: Scale,
        cmap: str | None,
        *,
        barred: bool,
        small: bool,
    ) -> None:
        heatmap = shown.heatmap
        self.shown, self.title, self.square = shown, title, heatmap.square
        self.names = heatmap.columns.label, heatmap.rows.label
        self.notes = shown.notes
        self.after = scale_bar([shown], scale, heatmap.value_label, cmap) if barred else ""
        rows, columns = shown.values.shape
        most = _FEW_TICKS if small else 2 * _TICKS
        bands = shown.column_bands or (Band("", 0, columns),)
        self.down = [((i + 0.5) / rows, minus(name)) for i, name in ticks(shown.rows, most)]
        self.across = [
            ((band.start + i + 0.5) / columns, minus(name))
            for band in bands
            for i, name in _band_ticks(band, shown.columns, most)
        ]
        self.above = [((band.start + band.stop) / 2 / columns, band.label) for band in bands]
        cuts = "".join(_straight_line(band.start / columns, "cut") for band in bands[1:])
        if shown.faded:
            self.notes = (*self.notes, f"hatched: {TOO_FAST}")
        colors = _FEW_COLORS if small else 255
        places = np.rint(scale.places(shown.values) * (colors - 1))
        levels = np.where(np.isnan(places), 0, places + 1).astype(np.uint8)
        picture = f"{title or heatmap.title}: {heatmap.value_label} as colors"
        faded = "".join(
            f'<i style="left:{100 * start / columns:.3f}%;'
            f'width:{100 * (stop - start) / columns:.3f}%"></i>'
            for start, stop in runs_of(shown.faded, Band("", 0, columns))
        )
        image = _image(levels, scale, cmap, colors, alt=picture)
        self.inside = f"{image}{faded}{_svg(picture, cuts)}"
        self.data = {
            "kind": "map",
            "row": heatmap.rows.label,
            "column": heatmap.columns.label,
            "value": heatmap.value_label,
            "rows": packed(shown.rows),
            "columns": packed(shown.columns),
            "values": packed(shown.values),
            "means": shown.row_means,
            "wavelengths": None if shown.waves is None else packed([*shown.waves]),
        }

    def table(self) -> str:
        """Return a table of some of the rows and columns."""
        shown = self.shown
        rows, columns = (
            spread(count, most)
            for count, most in zip(shown.values.shape, (_ROWS, _COLUMNS), strict=True)
        )
        names = {i: band.label for band in shown.column_bands for i in range(band.start, band.stop)}
        heads = [f"{names.get(j, '')} {shown.columns[j]}".strip() for j in columns]
        return table_of(
            [f"{self.names[1]} \\ {self.names[0]}", *heads],
            (
                [str(shown.rows[i]), *(_value(float(shown.values[i, j])) for j in columns)]
                for i in rows
            ),
            f"{len(rows)} × {len(columns)} values",
        )


def _band_ticks(band: Band, columns: Sequence[Any], most: int) -> list[tuple[int, str]]:
    """Return the ticks of a band: as many as fit on a phone."""
    points = columns[band.start : band.stop]
    longest = max(len(number(point)) for point in (points[0], points[-1]))
    most = min(most, _LETTERS // (longest + 2))
    return ticks(points, max(1, most * len(points) // len(columns)))


def _straight_line(place: float, kind: str, *, level: bool = False) -> str:
    at = round(_UNITS * (1 - place if level else place))
    return (
        f'<path class="{kind}" d="M0 {at}H{_UNITS}"/>'
        if level
        else f'<path class="{kind}" d="M{at} 0V{_UNITS}"/>'
    )


def _svg(description: str, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {_UNITS} {_UNITS}" preserveAspectRatio="none" role="img">'
        f"<title>{text_of(description)}</title>{content}</svg>"
    )


def _image(levels: Any, scale: Scale, cmap: str | None, count: int, *, alt: str) -> str:
    """Return a picture in the page: levels from 1 are ``count`` colors of a map, and 0 is a gap."""
    colors = color_map(cmap or default_map(scale.kind))
    chosen = colors[np.rint(np.linspace(0, len(colors) - 1, count)).astype(int)]
    content = png_bytes(levels, np.concatenate([[[185, 185, 185]], chosen]).astype(np.uint8))
    return (
        f'<img alt="{text_of(alt)}" src="data:image/png;base64,'
        f'{base64.b64encode(content).decode()}">'
    )


def png_bytes(levels: Any, palette: Srgb) -> bytes:
    """Return a PNG with one pixel per level, each a color of a palette.

    Shape: levels (rows, columns) in uint8, palette (colors, 3).
    """
    rows, columns = levels.shape
    # 8 bits per pixel, which is a place in the palette; each row is stored as it is (filter 0).
    lines = np.pad(levels, ((0, 0), (1, 0))).tobytes()
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0),
        b"PLTE": palette.tobytes(),
        b"IDAT": compress(lines, 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc32(kind + content))
        for kind, content in chunks.items()
    )


def scale_bar(shown: Sequence[Shown], scale: Scale, name: str, cmap: str | None) -> str:
    """Return the color scale: its two ends, or each value if there are only one or two."""
    gaps = any(part.gaps for part in shown)
    key = '<i class="swatch" style="background:var(--gap)"></i>not finite' if gaps else ""
    only = scale.only or ((scale.low,) if scale.low == scale.high else ())
    if only:
        colors = color_map(cmap or default_map(scale.kind))
        for value, place in zip(only, scale.places(np.array(only)), strict=True):
            red, green, blue = colors[round(255 * float(place))].tolist()
            key = (
                f'<i class="swatch" style="background:rgb({red},{green},{blue})"></i>'
                f"{text_of(_value(float(value)))} {key}"
            )
        return f'<div class="scale">{text_of(name)}: {key}</div>\n'
    ramp = np.arange(1, 256, dtype=np.uint8)[None]
    low, high = (text_of(minus(number(end))) for end in (scale.low, scale.high))
    name = scale.named(name)
    bar = _image(ramp, scale, cmap, 255, alt=f"colors of {name}")
    return f'<div class="scale">{text_of(name)} {low} {bar} {high} {key}</div>\n'


class CurvePlot(_Plot):
    """Curves over the same axes, with at most ``most`` points each."""

    def __init__(self, curves: Curves, title: str, most: int, *, small: bool = False) -> None:
        self.title, self.square = title, curves.square
        self.names = curves.x_label, curves.y_label
        self.notes, self._joined = curves.notes, curves.joined
        self._curves = [self._thinned(curve, most) for curve in curves.curves]
        self.x, self.y = self._ranges(curves)
        ticked = _FEW_TICKS if small else _TICKS
        self.across = [(place, minus(name)) for place, name in self.x.ticks(ticked)]
        # Name spans in their middle, if there is room.
        ends = [self.x.places(span[:2]).tolist() for span in curves.spans]
        self.above = [
            ((start + stop) / 2, name)
            for (start, stop), (_, _, name) in zip(ends, curves.spans, strict=True)
            if stop - start > _LETTER * len(name)
        ]
        self.down = [(1 - place, minus(name)) for place, name in self.y.ticks(ticked)]
        heights = self.y.places([height for height, _ in curves.levels]).tolist()
        levels = [
            (place, name)
            for place, (_, name) in zip(heights, curves.levels, strict=True)
            if math.isfinite(place)
        ]
        ends = self.x.places([end for _, end, _ in curves.spans[:-1]]).tolist()
        drawn = [self._curve_path(place, curve) for place, curve in enumerate(self._curves)]
        content = [
            *(_straight_line(place, "grid") for place, _ in self.across),
            *(_straight_line(1 - place, "grid", level=True) for place, _ in self.down),
            *(_straight_line(place, "cut") for place in ends),
            *(_straight_line(place, "level", level=True) for place, _ in levels),
            *(path for path, _ in drawn),
        ]
        description = f"{title or curves.title}: {curves.y_label} by {curves.x_label}"
        self.inside = _svg(description, "".join(content))
        keys = [
            *(key for _, key in drawn),
            *(_legend_entry('class="level"', name) for _, name in levels),
        ]
        if any(keys):
            self.after = f'<ul class="legend">{"".join(dict.fromkeys(keys))}</ul>\n'
        self.data = {
            "kind": "curves",
            "x": curves.x_label,
            "y": curves.y_label,
            "xs": [*self.x.as_dict().values()],
            "ys": [*self.y.as_dict().values()],
            "curves": [
                {"name": curve.name, "x": packed(x), "y": packed(curve.y)}
                for curve in self._curves
                if not curve.faint
                for x in [
                    [*map(int, curve.x)] if all(float(x).is_integer() for x in curve.x) else curve.x
                ]
            ],
        }

    def _ranges(self, curves: Curves) -> tuple[Range, Range]:
        """Return the ranges of the axes: all points, envelopes, levels and spans of the x axis."""
        xs = [value for curve in self._curves for value in curve.x]
        xs += [end for span in curves.spans for end in span[:2]]
        ys = [height for height, _ in curves.levels]
        for curve in self._curves:
            ys += [*curve.y, *(curve.envelope.low + curve.envelope.high if curve.envelope else ())]
        if self.square:
            xs = ys = [*xs, *ys]
        return Range.of(xs, log=curves.x_scale == "log"), Range.of(ys, log=curves.y_scale == "log")

    def _thinned(self, curve: Curve, most: int) -> Curve:
        if len(curve.x) <= most:
            return curve
        self.notes = (*self.notes, f"{most} points of each curve")
        chosen = spread(len(curve.x), most)
        x, y = (tuple(values[i] for i in chosen) for values in (curve.x, curve.y))
        between = curve.envelope
        if between is not None:
            sides = {name: tuple(getattr(between, name)[i] for i in chosen) for name in _SIDES}
            between = replace(between, **sides)
        return replace(curve, x=x, y=y, envelope=between)

    def _curve_path(self, place: int, curve: Curve) -> tuple[str, str]:
        """Return the path of a curve, and its legend entry."""
        x, y = self.x.places(curve.x), self.y.places(curve.y)
        if curve.faint:
            return f'<path class="faint" d="{_path(x, y)}"/>', ""
        index = curve.style_index(place)
        joined = self._joined and curve.joined
        kind = "curve" + " thin" * curve.thin + " dots" * (not joined)
        dashes = " ".join(f"{_DASH * unit:g}" for unit in LINE_STYLES[index % 4].dashes)
        dash = f' stroke-dasharray="{dashes}"' if dashes and joined else ""
        drawn = f'class="{kind}" style="stroke:var(--c{index % _COLORS})"{dash}'
        parts = [_path(x, y)] if joined else map(_point_path, x.tolist(), y.tolist())
        path = f'<path {drawn} d="{"".join(parts)}"/>'
        key = _legend_entry(drawn, curve.name, dot=not joined) if curve.name else ""
        if curve.envelope is not None:
            low, high = (self.y.places(getattr(curve.envelope, side)) for side in _SIDES)
            area = _path(np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]))
            shade = f'class="area" style="fill:var(--c{index % _COLORS})"'
            path = f'<path {shade} d="{area}Z"/>{path}'
            key += _legend_entry(f'{shade} stroke-width="8"', curve.envelope.name, area=True)
        return path, key

    def table(self) -> str:
        """Return one table of some points of the curves that share x values."""
        named = [curve for curve in self._curves if not curve.faint]
        if self.square or not named:
            return ""
        first = named[0]
        alike = [curve for curve in named if curve.x == first.x][:_COLUMNS]
        chosen = spread(len(first.x), _ROWS)
        heads = [self.names[0], *(curve.name or self.names[1] for curve in alike)]
        lines = ([_value(first.x[i]), *(_value(curve.y[i]) for curve in alike)] for i in chosen)
        return table_of(heads, lines, f"{len(chosen)} points")


_SIDES = "low", "high"
_LETTER = 0.02
"""Approximate width of a letter as a share of the plot's width."""


def _path(x: RealRows, y: RealRows) -> str:
    """Return lines through points as relative steps in plot units; a gap starts a new line."""
    parts, last = [], None
    across, up = np.rint(_UNITS * x), np.rint(_UNITS * (1 - y))
    for at in zip(across.tolist(), up.tolist(), strict=True):
        if not all(map(math.isfinite, at)):
            last = None
        elif last is None:
            parts.append(f"M{at[0]:.0f} {at[1]:.0f}")
            last = at
        elif at != last:
            parts.append(f"l{at[0] - last[0]:.0f} {at[1] - last[1]:.0f}")
            last = at
    return "".join(parts)


def _point_path(x: float, y: float) -> str:
    """Return the path of a point: a line of zero length, whose round caps keep their shape."""
    seen = math.isfinite(x) and math.isfinite(y)
    return f"M{_UNITS * x:.0f} {_UNITS * (1 - y):.0f}h0" if seen else ""


def _legend_entry(drawn: str, name: str, *, area: bool = False, dot: bool = False) -> str:
    shape = "M0 1H22V9H0Z" if area else "M11 5h0" if dot else "M0 5H22"
    path = f'<path {drawn} d="{shape}"/>'
    return f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{path}</svg>{text_of(name)}</li>'
