"""What is looked at of an encoding: its rows, by position or by what the scores of a bias go by.

=========  ==============================================================================
absolute   the row of each position
rotary     the cosines and sines of each position, what scales them included
relative   the row of each offset j − i
bias       the scores of all heads at each offset j − i up to 0, or for each key; where they go
           by pairs of positions, those of each query with all keys
a file     its rows
=========  ==============================================================================

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.analysis.products import MatrixRows
from posenc_cli.analysis.similarity import rows_of, rows_of_array
from posenc_cli.budget import HELD_VALUES, REPEATED_COLUMNS, check_size
from posenc_cli.encoding.arrays import position_array, rows_a_block
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import narrow
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request
    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import RealRows, StoredRows
    from posenc_cli.numerics.dtypes import DType

RowAxis = Literal["position", "offset", "key", "row"]

MOST_WAVE_CELLS = 1 << 26
"""Cells of rows of waves that prove most of what is asked, and are computed a few times."""

MOST_SCORES = 1 << 19
"""Scores of a bias, each of which is computed a few times, in 60 digits where it must be."""

MOST_HEADS = 4096
"""Heads of a bias, each of which takes a millisecond however few its scores are."""


class InspectedRows(Record):
    """Rows in float64, where they are, and the same rows rounded once to a number format.

    ``places`` are positions, offsets, keys or row numbers, as ``axis`` says; ``rounded(dtype)`` →
    blocks of rows in the storage of a format. ``columns`` says what a column is: of a bias a head,
    or a key and head.
    """

    rows: MatrixRows
    axis: RowAxis
    places: Positions
    rounded: Callable[[DType], Iterator[StoredRows]]
    columns: Literal["columns", "heads", "scores"] = "columns"

    @property
    def of_scores(self) -> bool:
        """Whether they are scores of a bias, and no vectors."""
        return self.columns != "columns"

    @property
    def step(self) -> int | None:
        """How far apart neighbours are, None where that changes."""
        return self.places.ranges[0].step if len(self.places.ranges) == 1 else None

    def place(self, row: int) -> int:
        """The position, offset or key of a row."""
        for span in self.places.ranges:
            if row < len(span):
                return span[row]
            row -= len(span)
        raise IndexError(row)

    def blocks(self) -> Iterator[tuple[int, RealRows]]:
        """The rows from first to last, some at a time, each block after its first row."""
        count = self.rows.count
        step = rows_a_block(max(1, self.rows.width))
        for begin in range(0, count, step):
            yield begin, self.rows.read(range(begin, min(begin + step, count)))

    @property
    def text(self) -> str:
        """What they are, in words."""
        count = self.rows.count
        ends = f"{self.axis} {self.place(0)}"
        if count > 1:
            every = "" if self.step == 1 else ", not all" if self.step is None else f":{self.step}"
            ends = f"{self.axis}s {self.place(0)} … {self.place(count - 1)}{every}"
        what = "scores" if self.of_scores else "rows"
        return f"{what} of {ends}: {count} × {self.rows.width} {self.columns}"


def inspected_rows(request: Request, engine: Engine) -> InspectedRows:
    """The rows of a request, of a rotary scheme its cosines and sines.

    Raises: InvalidInput where the request is, or asks for too much.
    """
    content = request.encoding.bound.content
    places = request.row_positions().whole("an inspection")
    if content.heads is not None:
        return _score_rows(request, places, content.heads, engine)
    width = request.plan().shape[-1]
    named = f"dim={width} of {request.scheme.name}"
    check_size(named, width, REPEATED_COLUMNS, "columns")
    waves = content.waves
    plain = waves is not None and waves.coordinates is None and waves.growth is None
    most = MOST_WAVE_CELLS if plain else HELD_VALUES
    check_size(_option(request, places), places.count * width, most, "cells of rows")

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        precise = replace(request, precision=Precision.of(dtype, None))
        return precise.plan_at(places).matrix(engine).blocks()

    axis: RowAxis = "offset" if request.scheme.kind == "relative" else "position"
    rows = rows_of(request, engine)
    return InspectedRows(rows if plain else rows.in_memory(), axis, places, rounded)


def _option(request: Request, places: Positions) -> str:
    """The positions of a request as an error names them."""
    return places.option if request.positions is None else request.positions.option


def _score_rows(
    request: Request, positions: Positions, heads: int, engine: Engine
) -> InspectedRows:
    """The scores of a bias, a column a head, or a head and key."""
    content = request.encoding.bound.content
    if content.by == "pair":
        return _pair_rows(request, positions, heads, engine)
    axis: RowAxis = "key" if content.by == "key" else "offset"
    places = positions
    if axis == "offset":
        farthest = positions.offsets().first
        places = Positions((range(farthest, 1),))
    option = _option(request, positions)
    check_size(f"{heads} heads", heads, MOST_HEADS, "heads", hint="--heads N")
    check_size(option, places.count * heads, MOST_SCORES, "scores of a bias")
    indices = position_array(places)  # (offsets,)

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        precision = Precision.of(dtype, None)
        rule = score_rule(content, request.encoding.lookup, precision=precision, engine=engine)
        with request.scheme.answerable():
            yield np.stack([rule(head, indices) for head in range(heads)], axis=1)

    (values,) = rounded(FLOAT64)  # (offsets, heads)
    return InspectedRows(MatrixRows.of(values), axis, places, rounded, "heads")


def _pair_rows(request: Request, positions: Positions, heads: int, engine: Engine) -> InspectedRows:
    """The scores of each query, a column a head and key."""
    content = request.encoding.bound.content
    size = positions.count**2 * heads
    check_size(_option(request, positions), size, MOST_SCORES, "scores of a bias")
    places = position_array(positions)

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        precision = Precision.of(dtype, None)
        rule = score_rule(content, request.encoding.lookup, precision=precision, engine=engine)
        with request.scheme.answerable():
            scores = [*scores_of_heads(content, rule, range(heads), places, places)]
        yield np.concatenate(scores, axis=1)  # (queries, heads · keys)

    (values,) = rounded(FLOAT64)
    return InspectedRows(MatrixRows.of(values), "position", positions, rounded, "scores")


def inspected_array(loaded: Loaded, *, name: str) -> InspectedRows:
    """The rows of an array that was read.

    Raises: InvalidInput unless it is a matrix of no more than is looked at.
    """
    rows = rows_of_array(loaded.values, loaded.dtype, name=name)
    check_size(f"--in {name}", rows.count * rows.width, HELD_VALUES, "cells of rows")
    places = Positions.contiguous(0, rows.count)
    inspected = InspectedRows(rows, "row", places, lambda _: iter(()))

    def rounded(dtype: DType) -> Iterator[StoredRows]:
        for _, block in inspected.blocks():
            yield narrow(block, None, dtype)

    return replace(inspected, rounded=rounded)
