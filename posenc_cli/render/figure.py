"""Define figures before they are drawn: values, axes and titles.

A :class:`Heatmap` may compute its values on demand, for chosen rows and columns. The drawing code
asks only for the rows and columns that fit. So a picture of a long encoding costs as much as one of
a short encoding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from posenc_cli.analysis.sampling import CellValues, Wavelengths, spread, steps
from posenc_cli.choice import LETTERS
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, items_by_key, replace
from posenc_cli.render.style import LINE_STYLES, PALETTES, ScaleKind
from posenc_cli.render.ticks import counted, digits_apart, finite_or_null, label, number, round_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.numerics.arrays import Places, Reals

    Cells: TypeAlias = NDArray[np.float64]  # (rows, columns)

TextOrBytes = TypeVar("TextOrBytes", str, bytes)

MOST_PANELS = 256
"""The most panels to prepare: more than fit in a picture at a readable size."""

FARTHEST = "the value farthest from 0"
"""The summary of many values by the one with the largest magnitude, instead of the mean."""

TOO_FAST = "too fast to show, half a rotation a row and more"
"""The note on columns whose rows are means over half a rotation or more."""

_LOG_SCALE_RATIO = 10
"""The ratio of two maps' largest values from which the colors use a log scale."""
_SIGN_SHARE = 0.05
"""The share of the largest magnitude from which values of the other sign count.

If they count, the colors diverge from 0. On a log scale, values of any magnitude count.
"""
_UNITS_OF_FAINTEST, _FAINTEST = 4, 1e-9
"""The faintest map's largest value in units of the log scale, and the smallest unit.

The smallest unit is a share of the largest value of all maps.
"""


_MOST_EMPTY = 0.1
"""The largest share of empty cells in a grid of panels, if a grid with fewer fits."""


class Band(Record):
    """Neighbouring columns (or rows) with a common label, from ``start`` to before ``stop``."""

    label: str
    start: int
    stop: int


class Axis(Record):
    """The rows or columns of a heatmap.

    ``points`` are numbers or names, one per row; a range works at any length. ``bands`` separate
    them in the drawing, and follow one another without gaps. ``even`` samples only with equal
    steps. The sample includes the index ``through``.

    >>> Axis("query", range(8)).plural
    'queries'
    """

    label: str
    points: Sequence[Any]
    bands: tuple[Band, ...] = ()
    even: bool = False
    through: int | None = None

    @property
    def plural(self) -> str:
        """The plural of the label."""
        if self.label.endswith("y") and self.label[-2:-1] not in "aeou":
            return f"{self.label[:-1]}ies"
        return f"{self.label}s"

    @property
    def size_text(self) -> str:
        """The number of points and their label.

        >>> Axis("query", range(8)).size_text, Axis("key", range(1)).size_text
        ('8 queries', '1 key')
        """
        count = len(self.points)
        return f"{count} {self.label if count == 1 else self.plural}"

    def sample(self, most: int) -> tuple[list[int], tuple[Band, ...]]:
        """Return at most ``most`` indices, evenly spread, and the bands among them.

        Each band keeps its share, and at least one index. If there is no room for that, the bands
        are left out.
        """
        if not self.bands or most < len(self.bands):
            chosen = spread(len(self.points), most, even=self.even)
            if (through := self.through) is not None:
                chosen[min(range(len(chosen)), key=lambda i: abs(chosen[i] - through))] = through
            return chosen, ()
        count = len(self.points)
        indices: list[int] = []
        bands = []
        for band in self.bands:
            length = band.stop - band.start
            rest = most - len(self.bands)
            share = length if count <= most else min(length, 1 + rest * length // count)
            chosen = [band.start + i for i in spread(length, share, even=self.even)]
            bands.append(Band(band.label, len(indices), len(indices) + len(chosen)))
            indices += chosen
        return indices, tuple(bands)


class Shown(Record):
    """The part of a heatmap that is shown.

    ``values`` are float64, with NaN for values that are not finite (``gaps`` of them). ``rows`` and
    ``columns`` are the shown points of the axes. ``undersampled`` are the indices of columns whose
    wavelength is under two shown rows. With ``row_means``, a row is the mean of all rows up to the
    next shown one. ``merged_by`` describes how a value summarizes a block of rows and columns.
    ``waves`` are the wavelengths of the columns, if each is a sine or a cosine of the rows.
    ``faded`` are the columns whose means cover half a rotation or more and so show nothing.

    Shape: values (rows, columns).
    """

    heatmap: Heatmap
    values: Cells
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    column_bands: tuple[Band, ...]
    undersampled: tuple[int, ...]
    gaps: int
    row_means: bool = False
    merged_by: str = ""
    waves: tuple[float, ...] | None = None
    faded: tuple[int, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how rows and columns were sampled or averaged, after those of the heatmap."""
        axes = (self.heatmap.rows, self.rows), (self.heatmap.columns, self.columns)
        fewer = [(axis, len(of)) for axis, of in axes if len(of) < len(axis.points)]
        merged = [
            each for each in fewer if self.merged_by or (self.row_means and each[0] is axes[0][0])
        ]
        sampled = dict.fromkeys(
            f"{n} of {axis.size_text}" for axis, n in fewer if (axis, n) not in merged
        )
        each = f"each cell is {self.merged_by}" if self.merged_by else "each row is the mean"
        sizes = (f"{-(-len(axis.points) // count)} {axis.plural}" for axis, count in merged)
        notes = (
            *self.heatmap.notes,
            f"{each} of up to {' × '.join(sizes)}" if merged else "",
            f"shows {' and '.join(sampled)}" if sampled else "",
        )
        return tuple(filter(None, notes))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the values."""
        return warnings_of([self])

    def fields(self) -> Mapping[str, Any]:
        """Return the shown part as plain values for JSON, with null for gaps."""
        return {
            "title": self.heatmap.title,
            "shape": [len(self.heatmap.rows.points), len(self.heatmap.columns.points)],
            "row_label": self.heatmap.rows.label,
            "column_label": self.heatmap.columns.label,
            "value_label": self.heatmap.value_label,
            "rows": list(self.rows),
            "columns": list(self.columns),
            "bands": {"columns": [band.as_dict() for band in self.column_bands]}
            if self.column_bands
            else {},
            "undersampled": [self.columns[i] for i in self.undersampled],
            "gaps": self.gaps,
            "notes": list(self.notes),
            "values": finite_or_null(self.values.tolist()),
        }


class Heatmap(Record):
    """Values over two axes, rows from the top down.

    ``values`` are an array, or a function of chosen rows and columns (``CellValues``). Without
    ``limits``, the colors range from the smallest to the largest shown value. Without a ``scale``,
    values of both signs diverge from 0, unless those of one sign are tiny. ``square`` gives both
    axes the same unit. ``wavelengths`` returns the wavelengths of columns along the rows. ``notes``
    are lines below the picture.

    ``averaged`` means that ``values`` returns means over skipped rows and columns, and ``farthest``
    that it returns the values farthest from 0. ``row_means`` computes means over rows only.
    ``waves`` returns the wavelengths of columns that are sines and cosines of the rows. ``graded``
    maps get a log color scale if they differ much in size. If all maps have a ``unit``, the log
    scale uses it. ``gaps`` of all values are not finite, 0 if that is unknown.
    """

    values: Cells | CellValues
    rows: Axis
    columns: Axis
    title: str = ""
    value_label: str = "value"
    limits: tuple[float, float] | None = None
    scale: ScaleKind | None = None
    square: bool = False
    wavelengths: Wavelengths | None = None
    notes: tuple[str, ...] = ()
    averaged: bool = False
    farthest: bool = False
    row_means: CellValues | None = None
    waves: Callable[[Sequence[int]], Sequence[float]] | None = None
    graded: bool = False
    unit: float = 0.0
    gaps: int = 0

    def sample(self, most_rows: int, most_columns: int, *, means: bool = True) -> Shown:
        """Return the values at no more rows and columns than can be drawn.

        If rows are skipped, their ``means`` are used when available.

        Raises: InvalidInput if there are no values.
        """
        if not len(self.rows.points) or not len(self.columns.points):
            raise InvalidInput(f"{self.title or 'the array'} holds no values to show")
        averaged = means and self.row_means is not None and len(self.rows.points) > most_rows
        rows, _ = (replace(self.rows, even=True) if averaged else self.rows).sample(most_rows)
        columns, column_bands = self.columns.sample(most_columns)
        source = self.row_means if averaged else self.values
        taken = (
            source(rows, columns)
            if callable(source)
            else np.asarray(source)[np.asarray(rows)[:, None], np.asarray(columns)]
        )
        values = np.array(taken, dtype=np.float64)  # (rows, columns)
        finite = np.isfinite(values)
        values[~finite] = np.nan
        points = tuple(self.rows.points[i] for i in rows)
        slow: tuple[int, ...] = ()
        step = steps(points)
        if self.wavelengths is not None and step is not None:
            slow = tuple(np.flatnonzero(self.wavelengths(rows, columns) < 2 * step).tolist())
        return Shown(
            self,
            values,
            points,
            tuple(self.columns.points[i] for i in columns),
            column_bands,
            () if averaged else slow,
            int(values.size - np.count_nonzero(finite)),
            averaged,
            "the mean" if self.averaged else FARTHEST * self.farthest,
            None if self.waves is None else tuple(self.waves(columns)),
            slow if averaged else (),
        )


def runs_of(columns: Sequence[int], band: Band) -> list[tuple[int, int]]:
    """Return start and end of runs of neighbouring columns, counted from the band's start."""
    marked = np.zeros(band.stop - band.start + 2, np.int8)
    inside = [column - band.start + 1 for column in columns if band.start <= column < band.stop]
    marked[inside] = 1
    changes = np.diff(marked)
    starts, stops = np.flatnonzero(changes > 0), np.flatnonzero(changes < 0)
    return [*zip(starts.tolist(), stops.tolist(), strict=True)]


class Envelope(Record):
    """The range of values at each point of a curve; ``name`` describes it."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    name: str


MOST_POINTS = 1200
"""Points of a curve: about as many as a figure in a file can resolve."""


class Curve(Record):
    """A value for each of some points, in order; values that are not finite are left out.

    If not ``joined``, the points are drawn as separate marks, like samples. A ``faint`` curve is
    background for others. A ``thin`` curve is compared with the curve of the same ``color``.
    ``color`` is the index of its color and dashes, by default its index among the curves.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    name: str = ""
    joined: bool = True
    faint: bool = False
    thin: bool = False
    color: int | None = None
    envelope: Envelope | None = None

    @classmethod
    def of(cls, x: Reals | Places, y: Reals, name: str = "") -> Curve:
        """Return the curve of two arrays, with joined points."""
        return cls(tuple(x.tolist()), tuple(y.tolist()), name)

    @classmethod
    def with_breaks(
        cls, x: Reals | Places, y: Reals, breaks: Places, name: str = "", **look: Any
    ) -> Curve:
        """Return a curve whose points ``breaks`` are not joined to the points before them."""
        broken_x, broken_y = np.insert(x, breaks, x[breaks]), np.insert(y, breaks, np.nan)
        return cls(tuple(broken_x.tolist()), tuple(broken_y.tolist()), name, **look)

    def style_index(self, place: int) -> int:
        """Return the index of the color and dashes for the curve with index ``place``."""
        return place if self.color is None else self.color


class Curves(Record):
    """Curves over the same axes.

    ``levels`` are named heights to compare with. If not ``joined``, points are drawn as separate
    marks, like those of heads. ``spans`` (from, to, name) mark parts of the x axis. ``square``
    gives both axes the same unit.
    """

    curves: tuple[Curve, ...]
    title: str
    x_label: str
    y_label: str
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    levels: tuple[tuple[float, str], ...] = ()
    notes: tuple[str, ...] = ()
    joined: bool = True
    spans: tuple[tuple[float, float, str], ...] = ()
    square: bool = False


class Panels(Record):
    """Several figures side by side: small multiples, or heatmaps with a ``shared`` color scale.

    ``noun`` names a panel when not all of them fit. ``total`` is the number of panels before some
    were dropped. Groups of ``across`` panels belong together, in one row if it fits.
    """

    panels: tuple[Heatmap | Curves, ...]
    title: str
    shared: bool = True
    noun: str = "panel"
    notes: tuple[str, ...] = ()
    total: int | None = None
    across: int = 1

    def missing_notes(self, count: int) -> tuple[str, ...]:
        """Return a note on missing panels, for a reader who sees only ``count`` of them."""
        total = self.total or len(self.panels)
        return (f"shows {count} of {total} {self.noun}s",) if count < total else ()


Figure = Heatmap | Curves | Panels


def grid_of(
    count: int,
    size: tuple[float, float],
    least: tuple[float, float],
    *,
    aspect: float,
    multiple: int = 1,
    filled: bool = False,
) -> tuple[int, int]:
    """Return rows and columns of the grid in which ``count`` pictures are largest.

    If not all pictures fit, the grid holds as many as possible. ``size`` and ``least`` are the
    width and height of the whole and of the smallest picture. ``aspect`` is the number of units of
    width in one of height. A row has a multiple or a divisor of ``multiple`` pictures, if these
    fit. Grids with at most a tenth of empty cells come first, unless the last picture fills its row
    (``filled``).

    >>> grid_of(8, (80, 20), (12, 5), aspect=2), grid_of(100, (80, 20), (12, 5), aspect=2)
    ((2, 4), (4, 6))
    """
    most_across = max(1, int(size[0] // least[0]))
    most_down = max(1, int(size[1] // least[1]))
    fitting = [
        (-(-count // across), across)
        for across in range(1, min(count, most_across) + 1)
        if -(-count // across) <= most_down
    ]
    if not fitting:
        parts = [across for across in range(1, most_across + 1) if multiple % across == 0]
        return most_down, max(parts) if multiple > 1 else most_across
    fitting = [grid for grid in fitting if 0 in (grid[1] % multiple, multiple % grid[1])] or fitting

    def goodness(grid: tuple[int, int]) -> tuple[bool, float, int, int]:
        # Among equally good grids, take the one with fewer empty cells, then the wider one.
        cells = grid[0] * grid[1]
        full = filled or cells - count <= _MOST_EMPTY * cells
        return full, min(size[0] / grid[1], aspect * size[1] / grid[0]), -cells, grid[1]

    return max(fitting, key=goodness)


def heatmaps_of(figure: Figure) -> tuple[Heatmap, ...]:
    """Return the heatmaps among a figure's panels, or the figure itself."""
    panels = figure.panels if isinstance(figure, Panels) else (figure,)
    return tuple(panel for panel in panels if isinstance(panel, Heatmap))


def warnings_of(shown: Sequence[Shown]) -> tuple[str, ...]:
    """Return a warning about the ``shown`` values that are not finite, if there are any."""
    gaps, size = sum(part.gaps for part in shown), sum(part.values.size for part in shown)
    total = sum(len(part.heatmap.rows.points) * len(part.heatmap.columns.points) for part in shown)
    gaps_in_all = sum(part.heatmap.gaps for part in shown)
    if size < total and gaps_in_all:
        be = "is" if gaps_in_all == 1 else "are"
        return (
            f"{gaps_in_all} of {total} values {be} not finite; drawn as gaps: {gaps or 'none'}",
        )
    if not gaps:
        return ()
    drawn = " drawn" if size < total else ""
    places = "is not finite, shown as a gap" if gaps == 1 else "are not finite, shown as gaps"
    return (f"{gaps} of {size} values{drawn} {places}",)


def data_of(figure: Figure, shown: Sequence[Shown]) -> dict[str, Any]:
    """Return a figure's content for JSON: its curves, and the shown parts of its heatmaps."""
    if isinstance(figure, Heatmap):
        return dict(shown[0].fields())
    if isinstance(figure, Curves):
        return _curves_data(figure)
    curves = [_curves_data(panel) for panel in figure.panels if isinstance(panel, Curves)]
    return {
        "title": figure.title,
        "panels": [*(part.fields() for part in shown), *curves],
        "notes": [*figure.missing_notes(len(figure.panels)), *figure.notes],
    }


def _curves_data(curves: Curves) -> dict[str, Any]:
    return {
        "title": curves.title,
        "x_label": curves.x_label,
        "y_label": curves.y_label,
        "curves": [
            {
                "name": curve.name,
                "x": finite_or_null(curve.x),
                "y": finite_or_null(curve.y),
                "joined": curves.joined and curve.joined,
                **(
                    {"envelope": finite_or_null(curve.envelope.as_dict())} if curve.envelope else {}
                ),
            }
            for curve in curves.curves
            if not curve.faint
        ],
        "levels": [{"name": name, "y": height} for height, name in curves.levels],
        "spans": [{"name": name, "from": a, "to": b} for a, b, name in curves.spans],
        "notes": list(curves.notes),
    }


class Picture(Record, Generic[TextOrBytes]):
    """A drawn figure, warnings for its reader, and the shown parts of its heatmaps."""

    content: TextOrBytes
    warnings: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()


class Scale(Record):
    """The values at the ends of a color map.

    With a ``unit``, equal steps of color are equal ratios of values larger than the unit. ``only``
    has the two values, if there are no others.
    """

    low: float
    high: float
    kind: ScaleKind
    unit: float = 0.0
    only: tuple[float, ...] = ()

    def named(self, quantity: str) -> str:
        """Return the name of the quantity, with a note if the scale is logarithmic."""
        return f"{quantity}, log scale" if self.unit else quantity

    def places(self, values: Cells) -> Cells:
        """Return positions of values between the ends, 0 … 1, or NaN for gaps.

        If the ends are equal, the position is 0.5.
        """
        if self.high <= self.low:
            return np.where(np.isnan(values), np.nan, 0.5)
        if self.unit:
            ends = np.array([self.low, self.high])
            values, ends = (np.sign(v) * np.log1p(np.abs(v) / self.unit) for v in (values, ends))
            return (np.clip(values, *ends) - ends[0]) / (ends[1] - ends[0])  # type: ignore[no-any-return]
        # Halve only if the difference of the ends overflows; the smallest numbers have no half.
        share = 1.0 if math.isfinite(self.high - self.low) else 0.5
        low, high = share * self.low, share * self.high
        return np.asarray((np.clip(share * values, low, high) - low) / (high - low))


_PAD = 0.03
"""The margin around curves, as a share of their range."""
_FAINTEST_STEP = 1e-300  # between ticks: a tenth of it is still a normal float64


class Range(Record):
    """The values at the two ends of an axis, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float], *, log: bool, padded: bool = True) -> Range:
        """Return the range of values that can be drawn, with a margin at its ends if ``padded``.

        Raises: InvalidInput if no value can be drawn.
        """
        finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        if not finite:
            raise InvalidInput("no value is finite, nothing to show")
        low, high = min(finite), max(finite)
        if low / 2 < high / 2 and not padded:
            return cls(low, high, log)
        if log:
            factor = max((high / low) ** _PAD, 1.05)
            return cls(low / factor, high * factor, log)
        room = _PAD * (high - low) or abs(high) * 0.1 or 1.0
        return cls(low - room, high + room)

    def places(self, values: Sequence[float]) -> Reals:
        """Return positions of values between the ends, 0 … 1; NaN if a value cannot be drawn."""
        array = np.asarray(values, np.float64)
        ends = np.array([self.low, self.high])
        if self.log:
            with np.errstate(all="ignore"):
                array, ends = np.log(array), np.log(ends)
        # Halves, because the difference of the largest numbers overflows.
        places: Reals = (array / 2 - ends[0] / 2) / (ends[1] / 2 - ends[0] / 2)
        places[~np.isfinite(places)] = np.nan
        return places

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return positions and labels of about ``most`` round values."""
        values = [self.low, self.high]
        if self.log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            if len(powers) > 1:
                values = [10.0**power for power in powers[:: -(-len(powers) // most)]]
        else:
            step = round_step(self.high / most - self.low / most, least=_FAINTEST_STEP, whole=False)
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            rounded = [float(f"{multiple * step:.12g}") for multiple in range(first, last + 1)]
            values = rounded if len(rounded) > 1 else values
        digits = 3 if self.log else digits_apart(values)
        named = (label(value, digits) for value in values)
        return [*zip(self.places(values).tolist(), named, strict=True)]


ANY_VALUE = "value"
"""The default name of values: two panels with it do not show the same quantity."""


def one_quantity(figures: Sequence[Figure]) -> bool:
    """Return whether all figures are maps of one quantity, so that they can share a color scale."""
    labels = {figure.value_label for figure in figures if isinstance(figure, Heatmap)}
    all_maps = all(isinstance(figure, Heatmap) for figure in figures)
    return len(figures) > 1 and all_maps and len(labels) == 1 and ANY_VALUE not in labels


def scales_of(shown: Sequence[Shown]) -> list[Scale]:
    """Return a scale for each heatmap of one figure.

    Heatmaps of the same quantity share one. If the values of one diverge from 0, all scales
    diverge.

    Raises: InvalidInput if no value of a quantity is finite.
    """
    labels = [part.heatmap.value_label for part in shown]
    quantities = items_by_key(
        (index if label == ANY_VALUE else label, part)
        for index, (label, part) in enumerate(zip(labels, shown, strict=True))
    )
    scales = {part: scale_of(parts) for parts in quantities.values() for part in map(id, parts)}
    if any(scale.kind == "diverging" for scale in scales.values()):
        scales = {part: _centered_on_zero(scale) for part, scale in scales.items()}
    return [scales[id(part)] for part in shown]


def _centered_on_zero(scale: Scale) -> Scale:
    """Center a scale on 0, unless it is cyclic."""
    if scale.kind != "sequential":
        return scale
    high = max(-scale.low, scale.high)
    return Scale(-high, high, "diverging", scale.unit, scale.only)


def _log_unit(maps: Sequence[Reals]) -> float:
    """Return the unit of a log scale if some maps are far fainter than others, else 0."""
    sizes = [float(np.abs(values).max()) for values in maps if values.size]
    most, least = max(sizes), min((size for size in sizes if size), default=0.0)
    if not least or most < _LOG_SCALE_RATIO * least:
        return 0.0
    return max(least / _UNITS_OF_FAINTEST, most * _FAINTEST)


def scale_of(shown: Sequence[Shown]) -> Scale:
    """Return one scale for heatmaps of the same quantity.

    Raises: InvalidInput if no value is finite.
    """
    first = shown[0].heatmap
    finite = [part.values[np.isfinite(part.values)] for part in shown]
    if not any(values.size for values in finite):
        raise InvalidInput(f"{first.title or 'the array'}: no value is finite, nothing to show")
    low = min(float(values.min()) for values in finite if values.size)
    high = max(float(values.max()) for values in finite if values.size)
    two = low < high and all(((values == low) | (values == high)).all() for values in finite)
    only = (low, high) if two else ()
    given = [part.heatmap.limits for part in shown if part.heatmap.limits is not None]
    if len(given) == len(shown):
        low, high = min(limits[0] for limits in given), max(limits[1] for limits in given)
    unit = min(part.heatmap.unit for part in shown)
    if not unit and all(part.heatmap.graded for part in shown):
        unit = _log_unit(finite)
    least, most = sorted((-low, high))
    both = least > (0 if unit else _SIGN_SHARE * most)
    kind: ScaleKind = first.scale or ("diverging" if both else "sequential")
    scale = Scale(low, high, "sequential" if kind == "diverging" else kind, unit, only)
    return _centered_on_zero(scale) if kind == "diverging" else scale


def figure_sentences(figure: Figure, shown: Sequence[Shown]) -> list[str]:
    """Describe a figure line by line, with the ``shown`` parts of its heatmaps."""
    if isinstance(figure, Curves):
        return _curves_sentences(figure)
    if isinstance(figure, Heatmap):
        return _heatmap_sentences(shown[0])
    of_maps = {id(part.heatmap): part for part in shown}
    lines = [figure.title]
    for panel in figure.panels:
        if isinstance(panel, Curves):
            lines += _curves_sentences(panel)
        elif id(panel) in of_maps:
            lines += _heatmap_sentences(of_maps[id(panel)])
    return [*lines, *figure.missing_notes(len(figure.panels)), *figure.notes]


def _heatmap_sentences(shown: Shown) -> list[str]:
    heatmap = shown.heatmap
    finite = shown.values[np.isfinite(shown.values)]
    extent = (
        f"{number(float(finite.min()))} to {number(float(finite.max()))}" if finite.size else ""
    )
    return [
        heatmap.title,
        f"down: {_axis_text(heatmap.rows)}; across: {_axis_text(heatmap.columns)}",
        f"{heatmap.value_label}: {extent or 'none is finite'}",
        *shown.notes,
    ]


def _axis_text(axis: Axis) -> str:
    first, last = axis.points[0], axis.points[-1]
    return f"{axis.size_text}, {number(first)} to {number(last)}"


def _curves_sentences(curves: Curves) -> list[str]:
    levels = (f"{name}: {number(height)}" for height, name in curves.levels)
    spans = (f"{name}: {number(a)} to {number(b)}" for a, b, name in curves.spans)
    return [
        curves.title,
        f"across: {curves.x_label}; up: {curves.y_label}",
        *(_curve_text(curve) for curve in curves.curves if not curve.faint),
        *levels,
        *spans,
        *curves.notes,
    ]


def _curve_text(curve: Curve) -> str:
    points = [
        point for point in zip(curve.x, curve.y, strict=True) if all(map(math.isfinite, point))
    ]
    name = f"{curve.name}: " if curve.name else ""
    if not points:
        return f"{name}none of {len(curve.x)} points is finite"
    places = {
        "from": points[0],
        "to": points[-1],
        "lowest": min(points, key=lambda point: point[1]),
        "highest": max(points, key=lambda point: point[1]),
    }
    extremes = (f"{word} {number(y)} at {number(x)}" for word, (x, y) in places.items())
    count = counted(len(points), "point")
    if len(points) < len(curve.x):
        count += f" and {len(curve.x) - len(points)} that are not finite"
    return f"{name}{count}, {', '.join(extremes)}"


_STYLES = math.lcm(len(PALETTES["light"].lines), len(LINE_STYLES))
"""The number of curves that differ in color or dashes."""


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return unique names: a repeated name gets the letter, or number, of its place as a prefix.

    >>> distinct_names(["rope", "alibi", "rope"])
    ['a: rope', 'alibi', 'c: rope']
    """
    return [
        f"{LETTERS[place : place + 1] or place + 1}: {name}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def check_distinguishable(places: Sequence[int]) -> None:
    """Refuse more curves in one set of axes than colors and dashes can distinguish.

    Raises: InvalidInput.
    """
    if len({place % _STYLES for place in places}) < len(places):
        raise InvalidInput(
            f"{len(places)} encodings share one set of axes, which shows at most {_STYLES}",
            hint="--json has all of them",
        )
