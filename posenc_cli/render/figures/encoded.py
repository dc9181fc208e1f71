"""Make the figures of an encoding or a stored array: values, axes and titles.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.encoded import row_cells, score_cells, similarity_cells, wavelengths_of
from posenc_cli.analysis.sampling import (
    CellValues,
    Points,
    PositionAxis,
    spread,
    wave_means,
    wavelengths_by_values,
)
from posenc_cli.budget import REPEATED_COLUMNS, check_size
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput, printable_text, quoted_name, sizes_text
from posenc_cli.formulas.parameters import Parameter, as_text
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import (
    ANY_VALUE,
    MOST_PANELS,
    Axis,
    Band,
    Curve,
    Curves,
    Figure,
    Heatmap,
    Panels,
    distinct_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from posenc_cli.analysis.encoded import EngineFor
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.formulas.declare import Bound, Waves
    from posenc_cli.numerics.placements import Placement

    FigureOfRequest = Callable[[Request, EngineFor], Figure]

    from numpy.typing import NDArray

    from posenc_cli.files.reading import Loaded

_MOST_BANDS = 8  # side by side: more are too narrow for their names
_MOST_HEADS = 1 << 12
"""The most heads of a bias in one picture: each panel computes the coefficients of all heads."""
_LONGEST_VALUE = 24  # letters of a parameter's value in a title
PARAMETERS_IN_SIZES = ("dim", "heads", "grid")
"""Parameters that a title gives as the sizes of what is shown."""
_ALWAYS_SHOWN = ("dim", "base", "factor")
_NAMES_OF_AXES = {2: ("y", "x"), 3: ("t", "y", "x")}


class _DrawnColumns(Record):
    """The columns of a table in drawing order, their bands, and the wave of each column.

    ``points`` are the column numbers on the axis. ``computed`` are the indices among the computed
    columns, if these differ. A column of zeros has the index one past the last wave, which never
    rotates.
    """

    points: Sequence[int]
    bands: tuple[Band, ...]
    waves: Sequence[int] | None
    computed: Sequence[int] | None = None


def figure_of_choice(
    choice: Choice, table: str | None, head: int | None, draw: FigureOfRequest, *, first: int = 512
) -> tuple[Figure, dict[str, Any]]:
    """Return the figure of an encoding, or of each part of a hybrid, and the request for JSON.

    ``draw`` returns the figure of a request. Without positions, it shows the ``first`` ones.
    """
    if table != "inv-freq":
        choice = choice.at_default(first)
    requests = choice.requests(Precision.of(FLOAT64, None), table=table, head=head)
    if choice.parts:  # one head is enough if there is another part to see
        requests = [
            replace(request, head=request.head or 0) if request.scheme.kind == "bias" else request
            for request in requests
        ]
    parts = [
        {**request.description(), "random_weights": request.random_weights is not None}
        for request in requests
    ]
    if not choice.parts:
        figure = draw(requests[0], choice.engine)
        return replace(figure, title=sourced(figure.title, choice.source)), parts[0]
    panels: list[Heatmap | Curves] = []
    for request, part in zip(requests, choice.parts, strict=True):
        figure = draw(request, choice.engine)
        figure = replace(figure, title=sourced(figure.title, part.source))
        drawn = figure.panels if isinstance(figure, Panels) else [figure]
        panels += [_with_value_label(panel, request) for panel in drawn]
    whole = Panels(tuple(panels), choice.name, shared=False, noun="part")
    return whole, {"scheme": choice.name, "parts": parts}


def figure_of_choices(
    choices: Sequence[Choice],
    table: str | None,
    head: int | None,
    draw: FigureOfRequest,
    *,
    first: int = 512,
) -> tuple[Figure, dict[str, Any]]:
    """Return the figures of several encodings side by side, like `figure_of_choice` for each."""
    if len(choices) == 1:
        return figure_of_choice(choices[0], table, head, draw, first=first)
    if table != "inv-freq":
        choices = [choice.at_default(first) for choice in choices]
    panels = tuple(part for choice in choices for part in choice.parts or (choice,))
    figure, fields = figure_of_choice(
        replace(choices[0], given={}, parts=panels), table, head, draw, first=first
    )
    title = ", ".join(distinct_names([choice.source or choice.name for choice in choices]))
    return replace(figure, title=title), {"parts": fields["parts"]}


def sourced(text: str, source: str) -> str:
    """Prefix a text with the name of its config or model, if there is one."""
    return f"{printable_text(source)}: {text}" if source else text


def _with_value_label(panel: Heatmap | Curves, request: Request) -> Heatmap | Curves:
    """Label a panel's values by kind of table, so that only panels of one kind share a scale."""
    if not isinstance(panel, Heatmap) or panel.value_label != ANY_VALUE:
        return panel
    tables = {"rotary": request.table or "cos, sin", "absolute": "added to x"}
    return replace(panel, value_label=tables.get(request.scheme.kind, "row by offset"))


def figure_of(
    request: Request, engine_for: EngineFor, *, dims: range | None = None, split: bool = True
) -> Figure:
    """Return the figure of a request: its rows, the heads of a bias, or maps of a whole grid.

    ``dims`` are the columns to show, all by default. ``split`` separates sines from cosines.

    Raises: InvalidInput if the parts of the request are not compatible.
    """
    content = request.encoding.bound.content
    params = request.encoding.bound.params
    grid = None if params.get("axes") else params.get("grid")
    on_grid = content.waves is not None and isinstance(grid, tuple)
    whole = request.positions is None and request.table is None and dims is None
    if on_grid and whole and len(grid or ()) > 1:
        return _similarity_maps(request, grid or (), engine_for)
    plan = request.plan()
    if request.table == "inv-freq":
        check_no_dims(dims, request, "the table inv-freq")
        (frequencies,) = plan.matrix(engine_for(plan)).blocks()
        return Curves(
            (Curve(tuple(range(len(frequencies))), tuple(frequencies.tolist())),),
            title_of(request, f"{len(frequencies)} frequencies"),
            "pair",
            "radians per position",
            y_scale="log",
        )
    if content.heads is not None:
        check_no_dims(dims, request, "a bias")
        return heads_figure(
            request,
            lambda head, points: score_cells(replace(request, head=head), points, engine_for),
        )
    columns = _drawn_columns(request, plan.shape[-1])
    if not split and request.table != "complex":
        columns = _sorted_columns(columns)
    return _rows_figure(request, columns, engine_for, dims)


def title_of(request: Request, what: str) -> str:
    """Return a title: the scheme, what is shown, and the parameters that define it."""
    bound = request.encoding.bound
    table = f" {request.table}" if request.table else ""
    last = None if request.positions is None else request.positions.length - 1
    parameters = parameters_text(bound, last=last, apart_from=PARAMETERS_IN_SIZES)
    return f"{bound.scheme.name}{table}: {what}" + (f" ({parameters})" if parameters else "")


def label_of(request: Request, source: str = "") -> str:
    """Return the text that identifies an encoding: its model or config, scheme and parameters."""
    last = None if request.positions is None else request.positions.length - 1
    parameters = parameters_text(request.encoding.bound, last=last)
    return sourced(f"{request.scheme.name} ({parameters})".removesuffix(" ()"), source)


def parameters_text(
    bound: Bound,
    *,
    last: int | None = None,
    apart_from: Collection[str] = (),
    weights: bool = True,
) -> str:
    """Return the parameters in the title of an encoding: those not at their default.

    ``dim``, ``base`` and ``factor`` are always included, ``apart_from`` never. A table without a
    file is noted as random, up to the ``last`` position, unless ``weights`` is False.
    """
    random = bound.random_weights(last) if weights else None
    left_out = (*apart_from, "seed") if random else apart_from
    named = [
        _parameter_text(declared, value)
        for name, value in bound.params.items()
        for declared in [bound.scheme.parameters[name]]
        if value is not None
        and name not in left_out
        and not (declared.rules.follows_length and last in (None, value - 1))
        and (name in _ALWAYS_SHOWN or value != declared.default)
    ]
    return ", ".join([*named, random] if random else named)


def _parameter_text(declared: Parameter, value: object) -> str:
    name, shown = declared.name, as_text(value, separator=declared.rules.separator)
    if len(shown) <= _LONGEST_VALUE:
        return f"{name}={shown}"
    return f"{name}={len(value)} numbers" if isinstance(value, tuple) else name


def settled_positions(request: Request) -> Positions:
    """Return the positions of a request that has a plan; by default all of a grid."""
    if request.positions is not None:
        return request.positions
    capacity = request.encoding.bound.content.waves.coordinates.capacity  # type: ignore[union-attr]
    return Positions.contiguous(0, capacity.positions)  # type: ignore[union-attr]


def _rows_figure(
    request: Request, all_columns: _DrawnColumns, engine_for: EngineFor, dims: range | None
) -> Heatmap:
    """Return the heatmap of the rows of an absolute, rotary or relative scheme."""
    content = request.encoding.bound.content
    relative = request.scheme.kind == "relative"
    positions = request.row_positions()
    rows, points = (
        Axis("offset" if relative else "position", PositionAxis(positions)),
        Points(positions),
    )
    columns = _crop(all_columns, dims)
    table = replace(request, table="cos-sin") if request.table == "complex" else request
    cells = row_cells(table, points, columns.computed or columns.points, engine_for)
    waves = content.waves
    wavelengths, means, of_waves = wavelengths_by_values(cells, rows.points), None, None
    # Waves along the positions, or along a single axis.
    along_positions = waves is not None and {0} == set(
        waves.coordinates.axes if waves.coordinates else [0]
    )
    if waves is not None and along_positions and columns.waves is not None:
        of_column = np.append(wavelengths_of(waves), math.inf)[np.asarray(columns.waves)]
        if waves.growth is None and len(positions.ranges) == 1 and request.table != "angles":
            by_row = 2 * math.pi * positions.ranges[0].step / positions.denominator / of_column
            means = wave_means(cells, by_row, len(rows.points))

        def wavelengths(_rows: Sequence[int], chosen: Sequence[int]) -> Any:
            return of_column[np.asarray(chosen)]

        if waves.coordinates is None:
            of_waves = partial(wavelengths, ())

    noun = "pair" if request.table in ("complex", "angles") else "dimension"
    across = Axis(noun, columns.points, columns.bands)
    total, shown = len(set(all_columns.points)), len(set(columns.points))
    noun = "complex" if request.table == "complex" else noun if total == 1 else across.plural
    count = f"{total}" if shown == total else f"{shown} of {total}"
    size = f"{rows.size_text} × {count} {noun}"
    angles = request.table == "angles"
    return Heatmap(
        cells,
        rows,
        across,
        title_of(request, size),
        value_label="radians" if angles else "value",
        limits=(-math.pi, math.pi) if angles else _wave_limits(waves),
        scale="cyclic" if angles else None,
        wavelengths=wavelengths,
        row_means=means,
        waves=of_waves,
        graded=True,
    )


def _wave_limits(waves: Waves | None) -> tuple[float, float] | None:
    """Return the range of waves, if it is known beforehand."""
    if waves is None or waves.growth is not None:
        return None
    scale = float(waves.scale)
    return (-scale, scale) if scale > 0 else None


def _drawn_columns(request: Request, width: int) -> _DrawnColumns:
    """Return the columns of a table, with sines and cosines separated."""
    content, table = request.encoding.bound.content, request.table
    if content.waves is None:
        return _DrawnColumns(range(width), (), None)
    if table == "angles":
        return _DrawnColumns(range(width), (), range(width))
    if table == "complex":
        bands = (Band("real", 0, width), Band("imaginary", width, 2 * width))
        return _DrawnColumns([*range(width)] * 2, bands, [*range(width)] * 2, range(2 * width))
    return _placed_columns(content.columns(table).placements, width, content.waves)


def _placed_columns(placements: Sequence[Placement], width: int, waves: Waves) -> _DrawnColumns:
    """Group columns by content: a band for each function, or for each function of an axis."""
    groups: dict[str, list[tuple[int, int]]] = {}
    separate = len(placements) <= _MOST_BANDS
    for placement in placements:
        columns = range(width)[placement.columns]
        zero = placement.function == "zero"
        of = [waves.count] * len(columns) if zero else range(waves.count)[placement.waves]
        axis = _axis_name(waves, of) if separate and not zero else ""
        groups.setdefault(f"{placement.function} {axis}".strip(), []).extend(
            zip(columns, of, strict=False)
        )
    by_label = {label: sorted(pairs) for label, pairs in groups.items() if pairs}
    bands = (
        _consecutive_bands({label: len(pairs) for label, pairs in by_label.items()})
        if len(by_label) > 1
        else ()
    )
    points, column_waves = zip(*chain.from_iterable(by_label.values()), strict=True)
    return _DrawnColumns(points, bands, column_waves)


def _consecutive_bands(sizes: Mapping[str, int]) -> tuple[Band, ...]:
    """Return consecutive bands with the given numbers of columns; leave out empty bands."""
    ends = [0, *accumulate(sizes.values())]
    bands = map(Band, sizes, ends, ends[1:])
    return tuple(band for band in bands if band.start < band.stop)


def _sorted_columns(columns: _DrawnColumns) -> _DrawnColumns:
    """Sort columns by number, without bands."""
    order = sorted(range(len(columns.points)), key=columns.points.__getitem__)
    waves = columns.waves and [columns.waves[i] for i in order]
    return _DrawnColumns([columns.points[i] for i in order], (), waves)


def _axis_name(waves: Waves, chosen: Sequence[int]) -> str:
    """Return the name of the axis that all chosen waves follow, or "" if there is no single one."""
    if waves.coordinates is None or not len(chosen):
        return ""
    axes = waves.coordinates.axes
    followed = {axes[i] for i in chosen}
    count = max(axes) + 1
    if len(followed) != 1 or count < 2:
        return ""
    axis = followed.pop()
    return _NAMES_OF_AXES[count][axis] if count in _NAMES_OF_AXES else str(axis)


def _crop(columns: _DrawnColumns, dims: range | None) -> _DrawnColumns:
    """Return the columns in ``dims``.

    Raises: InvalidInput if there are not that many.
    """
    if dims is None:
        return columns
    count = max(columns.points) + 1
    if dims.stop > count:
        raise InvalidInput(f"--dims: the dimensions are 0 to {count - 1}, not {dims.stop - 1}")
    kept = [i for i, point in enumerate(columns.points) if point in dims]
    sizes = {band.label: sum(band.start <= i < band.stop for i in kept) for band in columns.bands}
    return _DrawnColumns(
        [columns.points[i] for i in kept],
        _consecutive_bands(sizes),
        columns.waves and [columns.waves[i] for i in kept],
        columns.computed and [columns.computed[i] for i in kept],
    )


def heads_figure(
    request: Request,
    cells_of: Callable[[int, Sequence[int]], CellValues],
    *,
    what: str = "",
    value_label: str = "score",
    unit: float = 0.0,
) -> Figure:
    """Return a matrix of queries by keys for one head, or for all heads as small multiples.

    ``cells_of`` returns the values for a head and the points of both axes. ``what`` describes them
    in the title. ``unit`` is that of a log color scale.

    Raises: InvalidInput if there are too many heads.
    """
    count = request.encoding.bound.content.heads or 0
    points, places = Points(settled_positions(request)), PositionAxis(settled_positions(request))
    heads = range(count) if request.head is None else [request.head]
    queries, keys = Axis("query", places, even=True), Axis("key", places, even=True)
    size = f"{queries.size_text} × {keys.size_text}{what}"

    def panel(head: int, title: str) -> Heatmap:
        whole = Heatmap(cells_of(head, points), queries, keys, title, value_label=value_label)
        return replace(whole, square=True, graded=True, unit=unit)

    if len(heads) == 1:
        return panel(heads[0], title_of(request, f"head {heads[0]} of {count}, {size}"))
    subject = f"heads={count} of {request.encoding.bound.scheme.name}"
    check_size(subject, count, _MOST_HEADS, "heads in one picture", hint="--head H shows one")
    panels = tuple(panel(head, f"head {head}") for head in spread(count, MOST_PANELS))
    return Panels(panels, title_of(request, f"{count} heads, {size}"), noun="head", total=count)


def _similarity_maps(request: Request, grid: tuple[int, ...], engine_for: EngineFor) -> Figure:
    """Return maps of the similarity of some positions of a grid to all others.

    For an image: two corners, an edge and the middle. For a video: the middle, plane by plane.
    """
    *planes, height, width = grid
    columns = request.plan().shape[-1]
    subject = f"dim={columns} of {request.encoding.bound.scheme.name}"
    check_size(subject, columns, REPEATED_COLUMNS, "columns in maps of a grid")
    area, count = height * width, math.prod(planes)
    corners = [(0, 0), (0, width // 2), (height // 2, width // 2), (height - 1, width - 1)]
    middle = (count // 2) * area + (height // 2) * width + width // 2
    if planes:
        shown = spread(count, MOST_PANELS)
        chosen = [(plane * area, middle, f"plane {plane}") for plane in shown]
    else:
        chosen = [(0, y * width + x, f"of ({y}, {x})") for y, x in dict.fromkeys(corners)]
    panels = tuple(
        Heatmap(
            similarity_cells(
                request, (height, width), origin=origin, position=position, engine_for=engine_for
            ),
            Axis("row", range(height), through=position % area // width),
            Axis("column", range(width), through=position % width),
            title,
            value_label="cosine similarity",
            square=True,
        )
        for origin, position, title in chosen
    )
    whose = "the middle" if planes else "one position"
    title = title_of(
        request, f"similarity of {whose} to all others on a grid of {sizes_text(grid)}"
    )
    return Panels(
        panels,
        title,
        noun="plane" if planes else "position",
        total=count if planes else None,
    )


def check_no_dims(dims: range | None, request: Request, what: str) -> None:
    """Refuse a choice of columns for a figure without columns.

    Raises: InvalidInput.
    """
    if dims is not None:
        raise InvalidInput(
            f"--dims {dims.start}:{dims.stop}: {what} of {request.scheme.name} has no dimensions"
        )


_MOST_COUNTED = 1 << 24
"""The largest array, in values, in which all values that are not finite are counted."""


def figure_of_array(
    loaded: Loaded,
    *,
    head: int | None = None,
    rows: range | None = None,
    dims: range | None = None,
) -> Figure:
    """Return the figure of a stored array: one matrix, or a stack of matrices as small multiples.

    A one-dimensional array is a matrix of one row. If an array has more than two axes, the last two
    are a matrix, and ``head`` selects one. Complex numbers show their parts side by side.

    Raises: InvalidInput if ``head``, ``rows`` or ``dims`` are out of range.
    """
    values = loaded.values
    stack = values.reshape(-1, *(values.shape if values.ndim > 1 else (1, values.size))[-2:])
    leading = values.shape[:-2]
    size = sizes_text(values.shape, " × ")
    title = f"{quoted_name(loaded.path)}: {size} {loaded.dtype}"
    for flag, selected, available, noun in (
        ("--rows", rows, stack.shape[1], "rows"),
        ("--dims", dims, stack.shape[2], "columns"),
    ):
        if selected is None:
            continue
        if selected.stop > available:
            asked = f"{flag} {selected.start}:{selected.stop}"
            raise InvalidInput(f"{asked}: {quoted_name(loaded.path)} has {available} {noun}")
        title += f", {len(selected)} of {available} {noun}"
    rows, dims = rows or range(stack.shape[1]), dims or range(stack.shape[2])
    matrix = partial(_matrix, rows=rows, wanted=dims)
    if head is not None:
        if not leading:
            raise InvalidInput(f"--head {head}: {quoted_name(loaded.path)} is one matrix, {size}")
        if head >= len(stack):
            raise InvalidInput(
                f"--head {head}: {quoted_name(loaded.path)} has 0 to {len(stack) - 1}"
            )
        return matrix(stack[head], f"{title}, matrix {_matrix_index_text(head, leading)}")
    if len(stack) == 1:
        return matrix(stack[0], title)
    chosen = spread(len(stack), MOST_PANELS)
    panels = [matrix(stack[i], _matrix_index_text(i, leading)) for i in chosen]
    return Panels(tuple(panels), title, noun="slice", total=len(stack))


def _matrix_index_text(index: int, leading: Sequence[int]) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(index, leading))}]"


def _matrix(values: NDArray[Any], title: str, *, rows: range, wanted: range) -> Heatmap:
    values, count = values[rows.start : rows.stop], len(wanted)
    is_complex = values.dtype.kind == "c"
    counted = values[:, wanted.start : wanted.stop] if values.size <= _MOST_COUNTED else values[:0]
    parts = (counted.real, counted.imag) if is_complex else (counted,)
    points = [*wanted] * (2 if is_complex else 1)
    bands = (Band("real", 0, count), Band("imaginary", count, 2 * count)) if is_complex else ()

    def cells(chosen: Sequence[int], columns: Sequence[int]) -> NDArray[Any]:
        where = np.asarray(chosen)[:, None], np.asarray([points[i] for i in columns])
        taken: NDArray[Any] = values[where]
        if not is_complex:
            return taken
        imaginary = np.asarray(columns) >= count
        return np.asarray(np.where(imaginary, taken.imag, taken.real))

    return Heatmap(
        cells,
        Axis("row", rows),
        Axis("column", points, bands),
        title,
        wavelengths=wavelengths_by_values(cells, rows),
        gaps=sum(int(np.count_nonzero(~np.isfinite(part))) for part in parts),
    )
