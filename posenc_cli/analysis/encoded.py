"""The values of an encoding at chosen rows and columns, and nothing else of it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import positions_of
from posenc_cli.encode import blocks
from posenc_cli.numerics import exact
from posenc_cli.records import replace
from posenc_cli.schemes.declare import Rows, Sinusoids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from posenc_cli.analysis.sampling import CellValues
    from posenc_cli.encode.engine import Engine
    from posenc_cli.encode.request import Plan, Request
    from posenc_cli.schemes.declare import Waves

    EngineFor = Callable[[Plan], Engine]


def row_cells(
    request: Request, points: Sequence[int], columns: Sequence[int], engine_for: EngineFor
) -> CellValues:
    """Cells of a request: rows at some of ``points``, columns from among ``columns``."""

    def cells(rows: Sequence[int], chosen: Sequence[int]) -> NDArray[Any]:
        positions = positions_of([points[i] for i in rows])
        if request.scheme.kind == "relative":
            drawn = offset_blocks(request, positions, engine_for)
        else:
            plan = replace(request, positions=positions).plan()
            drawn = plan.matrix(engine_for(plan)).blocks()
        return _taken(drawn, [columns[i] for i in chosen])

    return cells


def score_cells(request: Request, points: Sequence[int], engine_for: EngineFor) -> CellValues:
    """Cells of one head of a bias: scores of queries at some points and keys at others."""

    def cells(rows: Sequence[int], columns: Sequence[int]) -> NDArray[Any]:
        both = rows if rows == columns else sorted({*rows, *columns})
        plan = replace(request, positions=positions_of([points[i] for i in both])).plan()
        scores = _taken(plan.matrix(engine_for(plan)).blocks(), range(len(both)))
        if both is rows:
            return scores
        where = {index: place for place, index in enumerate(both)}
        return scores[np.ix_([where[i] for i in rows], [where[i] for i in columns])]

    return cells


def similarity_cells(
    request: Request, grid: tuple[int, int], *, origin: int, position: int, engine_for: EngineFor
) -> CellValues:
    """Cells of a map: the cosine similarity of the rows on a plane of a grid to that of a position.

    The plane has rows of ``grid[1]`` positions, the first of them at ``origin``.
    """
    place = positions_of([position])

    def encoded(at: Any) -> Iterable[NDArray[Any]]:
        plan = replace(request, positions=at).plan()
        return plan.matrix(engine_for(plan)).blocks()

    def cells(rows: Sequence[int], columns: Sequence[int]) -> NDArray[Any]:
        (own,) = encoded(place)
        points = [origin + y * grid[1] + x for y in rows for x in columns]
        found = []
        for block in encoded(positions_of(points)):
            norms = np.sqrt(np.square(block).sum(axis=1) * np.square(own).sum())
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append((block @ own[0]) / norms)
        return np.concatenate(found).reshape(len(rows), len(columns))

    return cells


def wavelengths_of(waves: Waves) -> NDArray[np.float64]:
    """The positions in which each wave completes a turn, infinite where it never does.

    Shape: (waves.count,).
    """
    frequencies = np.array([abs(float(each)) for each in waves.frequencies(exact)])
    with np.errstate(divide="ignore", over="ignore"):
        found: NDArray[np.float64] = 2 * math.pi / frequencies
    return found


def offset_blocks(request: Request, offsets: Any, engine_for: EngineFor) -> Iterable[NDArray[Any]]:
    """The rows of some offsets of a relative scheme, which a request has only all of."""
    content = request.encoding.bound.content
    engine, precision = engine_for(request.plan()), request.precision
    with request.scheme.answerable():
        if isinstance(content, Rows):
            yield from blocks.row_blocks(
                content, offsets, request.encoding.table, precision=precision, engine=engine
            )
        elif isinstance(content, Sinusoids):
            yield from blocks.wave_blocks(
                content.waves,
                offsets,
                content.placements,
                width=content.width,
                precision=precision,
                engine=engine,
            )


def _taken(drawn: Iterable[NDArray[Any]], columns: Sequence[int]) -> NDArray[Any]:
    """Some columns of all blocks."""
    chosen = np.asarray(columns)
    return np.concatenate([block[:, chosen] for block in drawn])
