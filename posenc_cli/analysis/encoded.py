"""The values of an encoding at chosen rows and columns only.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import CellValues, positions_of
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Plan, Request
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from decimal import Decimal

    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals, StoredRows
    from posenc_cli.positions import Positions

    EngineFor = Callable[[Plan], Engine]

_PRECISION = Precision.of(FLOAT64, None)


def row_cells(
    request: Request, points: Sequence[int], columns: Sequence[int], engine_for: EngineFor
) -> CellValues:
    """Return a function for entries of a request: rows at ``points``, columns from ``columns``.

    Points are numerators: multiples of 1/denominator of the request's positions.
    """

    def cells(rows: Sequence[int], chosen: Sequence[int]) -> StoredRows:
        chosen_rows = positions_of([points[row] for row in rows], request.denominator)
        blocks = blocks_at(request, chosen_rows, engine_for)
        return _joined(blocks, [columns[place] for place in chosen])

    return cells


def score_cells(request: Request, points: Sequence[int], engine_for: EngineFor) -> CellValues:
    """Return a function for scores of one head of a bias, with queries and keys at ``points``."""

    def cells(rows: Sequence[int], columns: Sequence[int]) -> StoredRows:
        both = sorted({*rows, *columns})
        asked = positions_of([points[index] for index in both], request.denominator)
        scores = _joined(blocks_at(request, asked, engine_for), range(len(both)))
        places = {index: place for place, index in enumerate(both)}
        return scores[np.ix_([places[row] for row in rows], [places[key] for key in columns])]

    return cells


def similarity_cells(
    request: Request, grid: tuple[int, int], *, origin: int, position: int, engine_for: EngineFor
) -> CellValues:
    """Return a function for the cosine similarities of one position's row to a plane of a grid.

    The plane has rows of ``grid[1]`` positions; its first position is ``origin``.
    """

    def cells(rows: Sequence[int], columns: Sequence[int]) -> StoredRows:
        (own,) = blocks_at(request, positions_of([position]), engine_for)
        points = [origin + y * grid[1] + x for y in rows for x in columns]
        cosines = []
        for block in blocks_at(request, positions_of(points), engine_for):
            norms = np.sqrt(np.square(block).sum(axis=1) * np.square(own).sum())
            with np.errstate(invalid="ignore", divide="ignore"):
                cosines.append((block @ own[0]) / norms)
        return np.concatenate(cosines).reshape(len(rows), len(columns))

    return cells


def blocks_at(
    request: Request, positions: Positions, engine_for: EngineFor
) -> Iterator[StoredRows]:
    """Return the rows of a request at other positions, or at offsets, as blocks of its matrix."""
    plan = request.plan_at(positions)
    return plan.matrix(engine_for(plan)).blocks()


def rows_at(encoding: Encoding, positions: Positions, table: str | None = None) -> RealRows:
    """Return the rows of an encoding in float64, at any positions. Shape: (positions, columns)."""
    request = Request(encoding, positions, _PRECISION, table=table)
    return np.concatenate([*blocks_at(request, positions, lambda _: Engine())])


def turns_at(encoding: Encoding, positions: Positions) -> ComplexRows:
    """Return cos + i sin of each pair, times its amplitude. Shape: (positions, pairs)."""
    return np.asarray(rows_at(encoding, positions, "complex"), np.complex128)


def scores_at(encoding: Encoding, heads: Iterable[int], indices: Integers) -> RealRows:
    """Return scores of heads of a bias by formula, at offsets or keys. Shape: (heads, indices)."""
    from posenc_cli.encoding.scores import score_rule  # slow to import, rarely needed

    order = np.argsort(indices)
    with encoding.bound.scheme.answerable():
        rule = score_rule(encoding.bound.content, None, precision=_PRECISION, engine=Engine())
        values = [np.asarray(rule(head, indices[order])) for head in heads]
    return np.asarray(values)[:, np.argsort(order)]


def wavelengths_of(waves: Waves) -> Reals:
    """Return the wavelength of each wave in positions, without its sign; infinite for frequency 0.

    Shape: (waves.count,).
    """
    return np.abs(wavelengths(waves.frequencies(exact)))


def wavelengths(frequencies: Iterable[Decimal]) -> Reals:
    """Return 2π / frequency, rounded once; infinite for 0. Shape: (frequencies,)."""
    speeds = [*frequencies]
    lengths = exact.pi * 2 / exact.asarray([speed or 1 for speed in speeds])
    return np.array(
        [float(a) if speed else math.inf for a, speed in zip(lengths, speeds, strict=True)]
    )


def _joined(blocks: Iterable[StoredRows], columns: Sequence[int]) -> StoredRows:
    """Return some columns of all blocks."""
    chosen = np.asarray(columns)
    return np.concatenate([block[:, chosen] for block in blocks])
