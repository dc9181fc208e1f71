"""The matrix of a content, block by block, for each kind of content.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.arrays import (
    BLOCK_VALUES,
    in_arithmetic,
    position_blocks,
    rows_a_block,
)
from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.formulas.declare import (
    Bias,
    BucketBias,
    Content,
    Rotation,
    RowLookup,
    Rows,
    Sinusoids,
    Waves,
)
from posenc_cli.numerics import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.backends.registry import Arithmetic
    from posenc_cli.encoding.precision import Precision
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals, StoredRows, StoredValues
    from posenc_cli.positions import Positions

    RowRule = Callable[[Integers], StoredRows]
    """Positions (P,) → rows (P, columns)."""


def matrix_blocks(
    content: Content,
    lookup: RowLookup | None,
    positions: Positions,
    *,
    table: str | None,
    head: int | None,
    precision: Precision,
    engine: Engine,
) -> Iterator[StoredRows]:
    """Yield blocks of the matrix of a content at positions, or at offsets of a relative scheme.

    ``lookup`` gives rows of its learned table; ``head`` selects one head of a bias. A complex table
    has real and imaginary parts side by side.
    """
    content = content.in_parts(positions.denominator)
    if content.heads is not None:
        from posenc_cli.encoding.scores import score_blocks  # slow to import, rarely needed

        heads = range(content.heads) if head is None else range(head, head + 1)
        yield from score_blocks(
            content, lookup, heads, positions, precision=precision, engine=engine
        )
        return
    columns = content.columns(table)
    values = getattr(engine.backend, "block_values", None) if columns.placements else None
    rule = row_rule(content, lookup, table, precision=precision, engine=engine)
    # Threads share the values of a block, so that several need little more memory than one.
    rows = rows_a_block(columns.width, values or BLOCK_VALUES // engine.threads)
    yield from engine.in_order(rule, position_blocks(positions, rows))


def row_rule(
    content: Content,
    lookup: RowLookup | None,
    table: str | None,
    *,
    precision: Precision,
    engine: Engine,
) -> RowRule:
    """Return the function that computes rows of a content at any positions; threads may share it.

    Raises: TypeError for a bias, whose scores depend on two positions.
    """
    match content:
        case Rotation(waves) | Sinusoids(waves):
            return _wave_rows(content, waves, table, precision, engine)
        case Rows():

            def by_formula(positions: Integers) -> StoredRows:  # always by NumPy
                high, low = formula_rows(content, lookup, engine.arithmetic, positions)
                return np.ascontiguousarray(precision.narrow(high, low))

            return by_formula
        case Bias() | BucketBias():
            raise TypeError(f"a {type(content).__name__} has no rows")


def _wave_rows(
    content: Rotation | Sinusoids,
    waves: Waves,
    table: str | None,
    precision: Precision,
    engine: Engine,
) -> RowRule:
    # A single column, padded with zeros, has no wave.
    filler = wave_filler(waves, engine) if waves.count else None
    columns, rounded = content.columns(table), precision.rounded
    new = np.empty if filler is not None and columns.full else np.zeros

    def angles(positions: Integers) -> StoredRows:
        assert filler is not None
        return precision.stored_as(filler.angles(positions, dtype=rounded))

    def rows(positions: Integers) -> StoredRows:
        out = new((positions.size, columns.width), rounded.numpy)
        if filler is not None:
            filler.fill(out, positions, columns.placements, dtype=rounded)
        return precision.stored_as(out)

    return angles if table == "angles" else rows


def fill_waves(
    content: Content,
    positions: Positions,
    out: StoredRows,
    *,
    table: str | None,
    precision: Precision,
    engine: Engine,
) -> bool:
    """Write the rows of waves straight into an array, one block at a time on each thread.

    Returns False, with nothing written, if the values are not waves, or are stored wider than they
    are rounded. The caller must then copy the blocks of `matrix_blocks`.

    Shape: ``out`` (positions, columns).
    """
    content = content.in_parts(positions.denominator)
    waves = content.waves
    if waves is None or not waves.count:
        return False
    if table == "angles" or precision.stored != precision.rounded:
        return False
    columns, filler = content.columns(table), wave_filler(waves, engine)
    if not columns.full:
        out[...] = 0
    values = getattr(engine.backend, "call_values", None)
    rows = min(-(-len(out) // engine.threads), rows_a_block(columns.width, values))

    def fill(numbered: tuple[int, Integers]) -> None:
        number, places = numbered
        target = out[number * rows : (number + 1) * rows]
        filler.fill(target, places, columns.placements, dtype=precision.rounded)

    for _ in engine.in_order(fill, enumerate(position_blocks(positions, rows))):
        pass
    return True


def formula_rows(
    content: Rows, lookup: RowLookup | None, arithmetic: Arithmetic, positions: Integers
) -> tuple[RealRows, RealRows | None]:
    """Return rows by formula, as float64 and their remainder, or None without one.

    Raises: ValueError if the shape is not the declared one.
    """
    denominator = content.denominator
    given: Integers | Reals = positions
    if arithmetic != "exact" and denominator > 1:
        given, denominator = in_arithmetic(positions / float(denominator), arithmetic), 1
    elif content.positions == "numbers":
        given = in_arithmetic(positions, arithmetic)
    of_real = (denominator,) if content.domain in ("positive", "real") else ()
    rows = content.rows(np, given, lookup, *of_real)
    high, low = rows if isinstance(rows, tuple) else (rows, None)
    if high.shape != (positions.size, content.width):
        raise ValueError(f"rows of shape {high.shape} for {positions.size} positions")
    if arithmetic != "exact":
        high, low = in_arithmetic(high, arithmetic), None
    return high, low


@lru_cache(maxsize=8)
def _exact_frequencies(waves: Waves, parts: int, precision: Precision) -> StoredValues:
    frequencies = waves.frequencies(exact)
    return precision.exact(list(frequencies if parts == 1 else frequencies * parts))


def frequencies_of(waves: Waves, *, precision: Precision, engine: Engine) -> StoredValues:
    """Return the frequencies of waves, in radians per position, in the engine's arithmetic."""
    parts = waves.coordinates.denominator if waves.coordinates else 1  # of a file's coordinates
    if engine.arithmetic == "exact":
        return _exact_frequencies(waves, parts, precision).copy()
    rounded = engine.backend.frequencies(
        waves.frequencies, arithmetic=engine.arithmetic, device=engine.device
    )
    return precision.narrow(rounded * float(parts))
