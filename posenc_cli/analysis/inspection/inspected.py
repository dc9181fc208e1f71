"""Select the sample of an encoding that is inspected: its rows, or the scores of a bias.

=========  ==============================================================================
absolute   the row of each position
rotary     the cosines and sines of each position, attention factor included
relative   the row of each offset j − i
bias       the scores of all heads at each offset j − i up to 0, or for each key; if they
           depend on pairs of positions, those of each query with all keys
a file     its rows
=========  ==============================================================================

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.products import MatrixRows
from posenc_cli.analysis.profile import wave_weights
from posenc_cli.analysis.sampling import Points
from posenc_cli.analysis.similarity import rows_of, rows_of_array
from posenc_cli.budget import HELD_VALUES, REPEATED_COLUMNS, check_size
from posenc_cli.encoding.arrays import position_array, rows_a_block
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.rounding import narrow
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request
    from posenc_cli.encoding.scores import ScoreRule
    from posenc_cli.files.reading import Loaded
    from posenc_cli.formulas.declare import Content, Waves
    from posenc_cli.numerics.arrays import Places, RealRows, Reals, StoredRows
    from posenc_cli.numerics.placements import Placement


RowAxis = Literal["position", "offset", "key", "row"]

MOST_WAVE_CELLS = 1 << 26
"""The most entries of rows of waves: their declaration proves most properties in few passes."""

MOST_SCORES = 1 << 19
"""The most scores of a bias: each is computed a few times, if necessary in 60 digits."""

MOST_HEADS = 4096
"""The most heads of a bias: each takes a millisecond, even with few scores."""


class InspectedRows(Record):
    """Rows in float64, their places, and the same rows rounded once to a number format.

    ``places`` are positions, offsets, keys or row numbers, as ``axis`` says. ``rounded(dtype)`` →
    blocks of rows in the storage of a format. ``columns`` says what a column is: for a bias a head,
    or a key and head.
    """

    rows: MatrixRows
    axis: RowAxis
    places: Positions
    rounded: Callable[[DType], Iterator[StoredRows]]
    columns: Literal["columns", "heads", "scores"] = "columns"

    @property
    def of_scores(self) -> bool:
        """Whether they are scores of a bias instead of vectors."""
        return self.columns != "columns"

    @property
    def step(self) -> int | None:
        """The distance between neighbours, or None if it varies."""
        return self.places.ranges[0].step if len(self.places.ranges) == 1 else None

    def place(self, row: int) -> int:
        """Return the position, offset or key of a row."""
        return int(Points(self.places)[row])

    def blocks(self) -> Iterator[tuple[int, RealRows]]:
        """Yield the rows in blocks, each with the number of its first row."""
        count = self.rows.count
        step = rows_a_block(max(1, self.rows.width))
        for begin in range(0, count, step):
            yield begin, self.rows.read(range(begin, min(begin + step, count)))

    def following(self) -> Iterator[tuple[int, RealRows]]:
        """Yield the rows in blocks that each begin with the row before them, with its number."""
        last: RealRows | None = None
        for begin, block in self.blocks():
            rows = block if last is None else np.concatenate([last, block])
            yield begin + len(block) - len(rows), rows
            last = block[-1:]

    @property
    def text(self) -> str:
        """A description of the rows."""
        count = self.rows.count
        ends = f"{self.axis} {self.place(0)}"
        if count > 1:
            every = "" if self.step == 1 else ", not all" if self.step is None else f":{self.step}"
            ends = f"{self.axis}s {self.place(0)} … {self.place(count - 1)}{every}"
        what = "scores of " if self.of_scores else ""
        return f"{what}{ends}: {count} × {self.rows.width} {self.columns}"


def inspected_rows(request: Request, engine: Engine) -> InspectedRows:
    """Return the rows of a request; for a rotary scheme, its cosines and sines.

    Raises: InvalidInput if the request is not valid, or asks for too much.
    """
    content = request.encoding.bound.content
    places = request.row_positions().whole("an inspection")
    if content.heads is not None:
        return _score_rows(request, places, content.heads, engine)
    width = request.plan().shape[-1]
    check_size(f"dim={width} of {request.scheme.name}", width, REPEATED_COLUMNS, "columns")
    waves = content.waves
    plain = waves is not None and waves.coordinates is None and waves.growth is None
    most = MOST_WAVE_CELLS if plain else HELD_VALUES
    check_size(_positions_option(request, places), places.count * width, most, "values of rows")

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        precise = replace(request, precision=Precision.of(dtype, None))
        return precise.plan_at(places).matrix(engine).blocks()

    axis: RowAxis = "offset" if request.scheme.kind == "relative" else "position"
    rows = rows_of(request, engine)
    return InspectedRows(rows if plain else rows.in_memory(), axis, places, rounded)


def _positions_option(request: Request, places: Positions) -> str:
    """Return the option that sets the positions of a request, for error messages."""
    return places.option if request.positions is None else request.positions.option


def _score_rows(
    request: Request, positions: Positions, heads: int, engine: Engine
) -> InspectedRows:
    """Return the scores of a bias, one column per head.

    If scores depend on pairs of positions, a row has those of a query, by head and key.
    """
    content, option = request.encoding.bound.content, _positions_option(request, positions)
    axis: RowAxis = "key" if content.by == "key" else "offset"
    places, columns = positions, heads
    if content.by == "offset":
        places = Positions((range(positions.offsets().first, 1),))
    if content.by == "pair":
        axis, columns = "position", positions.count * heads
    else:
        check_size(f"{heads} heads", heads, MOST_HEADS, "heads", hint="--heads N")
    check_size(option, places.count * columns, MOST_SCORES, "scores of a bias")
    indices = position_array(places)  # (offsets,), or positions

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        precision = Precision.of(dtype, None)
        rule = score_rule(content, request.encoding.lookup, precision=precision, engine=engine)
        with request.scheme.answerable():
            if content.by == "pair":
                scores = [*scores_of_heads(content, rule, range(heads), indices, indices)]
                yield np.concatenate(scores, axis=1)  # (queries, heads · keys)
            else:
                yield np.stack([rule(head, indices) for head in range(heads)], axis=1)

    (values,) = rounded(FLOAT64)
    columns_hold: Literal["heads", "scores"] = "scores" if content.by == "pair" else "heads"
    return InspectedRows(MatrixRows.of(values), axis, places, rounded, columns_hold)


def inspected_array(loaded: Loaded, *, name: str) -> InspectedRows:
    """Return the rows of an array as read.

    Raises: InvalidInput if it is not a matrix, or too large.
    """
    rows = rows_of_array(loaded.values, loaded.dtype, name=name)
    check_size(f"--in {name}", rows.count * rows.width, HELD_VALUES, "values of rows")
    inspected = InspectedRows(rows, "row", Positions.contiguous(0, rows.count), lambda _: iter(()))

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        for _, block in inspected.blocks():
            yield narrow(block, None, dtype)

    return replace(inspected, rounded=rounded)


HowKnown = Literal["proved", "measured"]
Sampled = Literal["value", "verdict"]


class Property(Record):
    """A property: whether it ``holds`` (None: it does not apply), its value, and its place.

    ``reason`` says why. ``at`` names positions, offsets, keys or rows, as the inspection does.
    ``sample`` says that the value, or also the verdict, comes from a sample only. ``details`` are
    further numbers.
    """

    name: str
    holds: bool | None
    value: float | None = None
    at: tuple[int, ...] | None = None
    evidence: HowKnown = "measured"
    reason: str = ""
    sample: Sampled | None = None
    details: Mapping[str, Any] = fresh(dict)


class Inspection(Record):
    """The properties of one encoding or file, and what was inspected."""

    name: str
    kind: str | None
    params: Mapping[str, Any]
    looked_at: str
    axis: str
    count: int
    properties: tuple[Property, ...]
    random_weights: str | None = None

    def property(self, name: str) -> Property:
        """Return the property with this name."""
        return next(known for known in self.properties if known.name == name)


class InspectedEncoding(Record):
    """The subject of an inspection: its rows, and the declaration of its scheme if there is one."""

    inspected: InspectedRows
    engine: Engine
    request: Request | None = None
    loaded: Loaded | None = None
    name: str = ""

    @property
    def content(self) -> Content | None:
        """The declaration of its scheme, or None for a file."""
        return None if self.request is None else self.request.encoding.bound.content

    @property
    def kind(self) -> str | None:
        """The kind of its scheme, or None for a file."""
        return None if self.request is None else self.request.scheme.kind

    @property
    def waves(self) -> Waves | None:
        """Its waves, or None if it is not made of waves."""
        return None if self.content is None else self.content.waves

    @property
    def weights(self) -> Reals | None:
        """How often each wave has a sine and a cosine; None if these differ or a wave grows."""
        if self.content is None or self.waves is None or self.waves.growth is not None:
            return None
        return wave_weights(self.waves.count, self.content.columns().placements)

    @property
    def complete(self) -> tuple[Waves, Reals] | None:
        """Its waves and weights if, by declaration, rows at one offset differ by one rotation."""
        waves, weights = self.waves, self.weights
        if waves is None or weights is None or not waves.count or waves.coordinates is not None:
            return None
        return waves, weights

    @property
    def unused(self) -> bool:
        """Whether the rows are declared not to depend on positions."""
        return self.content is not None and self.content.positions == "unused"


def score_rule_of(request: Request, engine: Engine) -> ScoreRule:
    """Return the rule for the scores of a bias, for a request."""
    content, lookup = request.encoding.bound.content, request.encoding.lookup
    return score_rule(content, lookup, precision=request.precision, engine=engine)


FITTED = 100
"""Rows that the map is fitted on by default, if there are twice as many."""


class ShiftResidual(Record):
    """The maximum absolute error of a linear map, and the row that it should give.

    Beyond the fit, ``allowed`` is the error that rounding may cause, and ``rounded`` says whether
    no row exceeds it.
    """

    value: float
    row: int
    allowed: float = 0.0
    rounded: bool = False

    def joined(self, residuals: Reals, first: int) -> ShiftResidual:
        """Return the first of the largest: this one, or one of rows from ``first`` on."""
        row = int(np.argmax(residuals)) if residuals.size else 0
        worse = residuals.size and residuals[row] > self.value
        return ShiftResidual(float(residuals[row]), first + row) if worse else self


class LinearShift(Record):
    """The residuals of the least-squares map, where it was fitted and beyond.

    The fit maps ``count`` rows to the next ones and has rank ``rank``. If the two are equal, any
    rows would fit, and the fit says nothing. ``beyond`` are the residuals of the later rows, one by
    one.

    Shape: beyond (rows − 1 − count,).
    """

    count: int
    rank: int
    fitted: ShiftResidual
    beyond: Reals
    allowed: Reals
    tolerance: float

    @property
    def trivial(self) -> bool:
        """Whether any rows would have fitted."""
        return self.rank >= self.count

    def held_out(self) -> ShiftResidual | None:
        """Return the largest residual beyond the fit; None if there are no more rows."""
        if not self.beyond.size:
            return None
        row = int(np.argmax(self.beyond))
        left, allowed = float(self.beyond[row]), float(self.allowed[row])
        rounded = bool((self.beyond <= self.allowed).all())
        return ShiftResidual(left, self.count + row + 1, allowed, rounded)


def linear_shift(inspected: InspectedRows, fit: int | None) -> LinearShift:
    """Return the residuals of the map from a row to the next, fitted on the first ``fit`` rows.

    By default it is fitted on half the rows, at most `FITTED`. There must be at least two rows, all
    finite.
    """
    mapped = inspected.rows.count - 1
    count = min(fit, mapped) if fit else min(FITTED, max(1, mapped // 2))
    source = inspected.rows.read(range(count))  # (count, width)
    target = inspected.rows.read(range(1, count + 1))
    largest = max(float(np.abs(part).max(initial=0)) for part in (source, target))
    # Scaled to avoid overflow; a power of two is exact.
    power = -math.frexp(largest)[1]
    source, target = np.ldexp(source, power), np.ldexp(target, power)
    left, sizes, right = np.linalg.svd(source, full_matrices=False)
    cutoff = max(source.shape) * 2.0**-52 * float(sizes.max(initial=0))
    kept = sizes > cutoff
    into = right[kept].T / sizes[kept]  # (width, rank)
    out = left[:, kept].T @ target  # (rank, width)
    fitted = ShiftResidual(0.0, 1)
    beyond: list[Reals] = []
    leverages: list[Reals] = []
    for first, block in inspected.following():
        with np.errstate(all="ignore"):
            rows = np.ldexp(block, power)
            coordinates = rows[:-1] @ into
            residuals = np.abs(coordinates @ out - rows[1:]).max(axis=1, initial=0)
            residuals = np.ldexp(residuals, -power)
            leverage = np.linalg.norm(coordinates, axis=1)
        inside = residuals[: max(0, count - first)]
        fitted = fitted.joined(inside, first + 1)
        beyond.append(residuals[inside.size :])
        leverages.append(leverage[inside.size :])
    unit = max(inspected.rows.unit, 2.0**-53)
    tolerance = 8 * sum(source.shape) * unit * largest
    most = max(tolerance, math.sqrt(unit) * largest)
    return LinearShift(
        count,
        int(kept.sum()),
        fitted,
        np.concatenate(beyond),
        np.minimum(tolerance * np.maximum(np.concatenate(leverages), 1), most),
        tolerance,
    )


def rotation_residual(
    inspected: InspectedRows, placements: Sequence[Placement], step_row: Reals, scale: float
) -> ShiftResidual:
    """Return the residual of rotating each pair by its angle per step, over all rows.

    ``step_row`` (width,) is the row one step from position 0: the cosines and sines of the angles,
    times ``scale``.
    """
    sines, cosines = (_columns(placements, function, step_row.size) for function in ("sin", "cos"))
    sin, cos = step_row[sines] / scale, step_row[cosines] / scale  # (pairs,)
    worst = ShiftResidual(0.0, 1)
    for first, rows in inspected.following():
        before = rows[:-1, sines], rows[:-1, cosines]
        off = np.maximum(
            np.abs(before[0] * cos + before[1] * sin - rows[1:, sines]),
            np.abs(before[1] * cos - before[0] * sin - rows[1:, cosines]),
        ).max(axis=1, initial=0)
        worst = worst.joined(off, first + 1)
    return worst


def _columns(placements: Sequence[Placement], function: str, width: int) -> Places:
    """Return the columns that hold a function, in the order of the waves.

    Each wave must have equally many.
    """
    parts = [placement for placement in placements if placement.function == function]
    waves = 1 + width  # more than there are
    columns = [np.arange(width)[placement.columns] for placement in parts]
    numbers = [
        np.arange(waves)[placement.waves][: len(columns[i])] for i, placement in enumerate(parts)
    ]
    return np.concatenate(columns)[np.argsort(np.concatenate(numbers), kind="stable")]
