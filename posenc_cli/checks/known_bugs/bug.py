"""Define a row of the table of known bugs: its code, its changes, and its public source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.checks.expected import Change, Expected, Form
from posenc_cli.inference.codes import Code
from posenc_cli.positions import range_texts
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from posenc_cli.numerics.arrays import Integers, NumberArray

GITHUB = "https://github.com/"


class BugCode(Code):
    """Cause of a difference between a subject that does not rotate and its reference."""

    LAYOUT = "layout", "sin and cos columns are in another order: interleaved or concatenated"
    COS_SIN_MISPAIRED = "cos-sin-mispaired", "sin and cos are swapped"
    BASE = "base", "the base differs"
    FREQUENCY_RULE = "frequency-rule", "the exponents of the frequencies follow another rule"
    DIRECTION = "direction", "the sign of the positions, of the sines or of the scores is wrong"
    KEY_QUERY = "key-query", "offsets are query − key instead of key − query, or vice versa"
    POSITION_OFFSET = "position-offset", "rows or keys are at wrong positions"
    INV_FREQ_PRECISION = "inv-freq-precision", "the frequencies were rounded too coarsely"
    POSITION_PRECISION = "position-precision", "positions or angles were rounded too coarsely"
    TABLE_PRECISION = "table-precision", "the values were rounded too coarsely"
    PADDING_ROW = "padding-row", "the row of the padding token is zeros, as in fairseq"
    AXIS = "axis", "columns use the wrong axis of the grid, or wrong coordinates"
    GRID_ORDER = "grid-order", "the rows follow the grid in another order"
    WINDOW = "window", "window offsets are indexed with wrong strides"
    BUCKETS = "buckets", "another rule assigns offsets to buckets"
    CAUSAL = "causal", "later keys have wrong scores"
    SLOPES = "slopes", "the slopes of the heads follow another rule"
    HEADS = "heads", "heads use the values of other heads, or none"
    LAYER = "layer", "the table belongs to another layer"
    SCALE = "scale", "all values are multiplied by a factor"
    NOT_ADDED = "not-added", "rows are added to the vectors wrongly, or not at all"
    PARAMETER = "parameter", "a parameter of the scheme differs"
    UNINITIALISED = "uninitialised", "some or all rows are uninitialized: they are zeros"
    NOT_A_NUMBER = "not-a-number", "some values are NaN or infinite"
    SHAPE = "shape", "the number of values differs from the reference"
    UNKNOWN = "unknown", "no known bug produces these values"


class KnownBug(Record):
    """A row of the table: the ``changes`` that a bug makes to a reference and found values.

    ``remedy`` is what to do. ``seen`` is a public report or a library's code. ``forms`` are the
    forms of `Expected` in which it occurs. A bug that ``solves`` measures the whole subject, so
    other bugs hide it. ``examples`` returns changes of usual size for a model with so many
    positions: test vectors apply them if ``changes`` measures the size.
    """

    code: Code
    changes: Callable[[Expected], Iterable[Change]]
    remedy: str
    seen: str
    forms: tuple[Form, ...] = ("rows",)
    solves: bool = False
    examples: Callable[[Expected, int], Iterable[Change]] | None = None


def multiplied(text: str, factor: NumberArray | float, **more: Any) -> Change:
    """Return a change that multiplies values by a factor."""
    return Change(text, values=lambda v, _: v * factor, **more)


def wave_columns(e: Expected) -> tuple[Integers, Integers, list[int]] | None:
    """Return sine columns, cosine columns and axis of each wave; None unless all have both."""
    if not e.is_waves:
        return None
    waves, (sin, cos) = e.declared_waves, e.wave_columns
    if e.content.width != 2 * waves.count or min(sin.min(initial=0), cos.min(initial=0)) < 0:
        return None
    axes = waves.coordinates.axes if waves.coordinates else (0,) * waves.count
    return sin, cos, list(axes)


def rows_text(rows: Integers, places: NumberArray) -> str:
    """Return some rows and their positions as text.

    >>> import numpy as np
    >>> rows_text(np.array([1]), np.array([3]))
    'row 1 (position 3)'
    >>> rows_text(np.array([4, 5, 6]), np.array([4, 5, 6]))
    'rows 4–6'
    """
    texts = range_texts(rows.tolist())
    if rows.size == 1:
        return f"row {rows[0]} (position {places[0]:g})"
    return f"rows {', '.join(texts[:4])}" + (" …" if len(texts) > 4 else "")
