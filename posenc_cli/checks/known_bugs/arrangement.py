"""List known bugs of arrangement: columns, rows, axes, heads or tables in the wrong order."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.expected import Change, Expected, ValuePlaces
from posenc_cli.checks.known_bugs.bug import GITHUB, BugCode, KnownBug, wave_columns
from posenc_cli.checks.measured import moved_heads
from posenc_cli.formulas.declare import Scheme
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows


def _layouts(e: Expected) -> Iterator[Change]:
    """Yield changes to the other usual orders of columns."""
    columns = wave_columns(e)
    if columns is None:
        return
    sin, cos, axes = columns
    if sin.size and cos[0] < sin[0]:
        sin, cos = cos, sin
    by_axis = [np.flatnonzero(np.array(axes) == axis) for axis in dict.fromkeys(axes)]
    orders = {
        "alternating (sin, cos, sin, cos …)": np.stack([sin, cos], 1).reshape(-1),
        "in two halves (one function, then the other)": np.concatenate([sin, cos]),
        "in two halves for each axis": np.concatenate(
            [np.concatenate([sin[waves], cos[waves]]) for waves in by_axis]
        ),
    }
    straight = np.arange(2 * sin.size)
    current = [name for name, order in orders.items() if np.array_equal(order, straight)]
    for name, order in orders.items():
        if not np.array_equal(order, straight):
            text = f"the columns are {name}" + (f", not {current[0]}" if current else "")
            yield Change(text, order=order)


def _swapped_functions(e: Expected) -> Iterator[Change]:
    text = "sin and cos are swapped"
    columns = wave_columns(e)
    if columns is not None:
        order = np.arange(e.content.width)
        order[columns[0]], order[columns[1]] = columns[1], columns[0]
        yield Change(text, order=order)


def _swapped_queries_and_keys(e: Expected) -> Iterator[Change]:
    """Yield changes that swap the sign of offsets: query − key or key − query."""
    orders = "query − key", "key − query"
    by_query = (
        getattr(e.content, "pairs", None) is not None
        if isinstance(e.source, Scheme)
        else not e.source.relative.startswith("key")
    )
    wrong, right = orders[::-1] if by_query else orders
    text = f"offsets are {wrong}, not {right}"
    if e.form == "rows" and e.is_offset:
        yield Change(text, places=lambda p, _: p.moved(np.negative))
        both = "rows of keys after the query repeat those before it: their sines are not negated"
        yield Change(both, places=lambda p, _: p.moved(np.abs))
        yield Change(both, places=lambda p, _: p.moved(lambda at: -np.abs(at)))
    if e.form == "scores":
        yield Change(text, make=lambda s: _with_swapped_places(s).right().transpose(0, 2, 1))
    if e.form == "buckets":
        yield Change(text, make=lambda s: _with_swapped_places(s).right())


def _with_swapped_places(e: Expected) -> Expected:
    return replace(e, places=ValuePlaces(e.places.keys, e.places.at))


def _grid_axes(e: Expected) -> Iterator[Change]:
    """Yield changes to columns of another axis, and to rows in another order of the grid."""
    grid = e.params.get("grid") if e.is_waves else None
    if not grid or len(grid) < 2:
        return
    names = {2: ("rows", "columns"), 3: ("frames", "rows", "columns")}.get(len(grid))
    for order in list(permutations(range(len(grid))))[1:]:
        both = (
            " and ".join(names[a] for a in range(len(grid)) if order[a] != a) if names else "axes"
        )
        yield Change(
            f"{both} are exchanged: columns of one axis use the coordinate of the other",
            make=partial(_along_axes, order=order),
            code=BugCode.AXIS,
        )
    from posenc_cli.diagnosis.coordinates import token_orders  # slow to import

    for text, numbers_of in token_orders(grid):
        places = partial(_in_token_order, numbers_of=numbers_of)
        yield Change(text, places=places, code=BugCode.GRID_ORDER)


def _along_axes(e: Expected, *, order: tuple[int, ...]) -> RealRows:
    return e.waves(e.angle_positions(order) * e.frequencies)


def _in_token_order(
    places: ValuePlaces, _: Expected, *, numbers_of: Callable[[Integers], Integers]
) -> ValuePlaces:
    return ValuePlaces(numbers_of(places.at.astype(np.int64)))


def renumbered(text: str, rule: Callable[[Expected, Integers, Integers], Integers]) -> Change:
    """Return a change of the rows of a learned table that pairs of tokens read."""
    return Change(text, make=lambda e: rule(e, e.places.at, e.places.keys))


def _window_numbers(e: Expected) -> Iterator[Change]:
    """Yield changes that number the offsets in a window with a wrong stride."""
    size = e.params.get("window_size")
    if not size or e.params.get("class_token"):
        return
    rows, columns = size[0], size[-1]
    for text, stride in {"2·rows − 1": 2 * rows - 1, "3·columns − 1": 3 * columns - 1}.items():
        if stride != 2 * columns - 1:
            yield renumbered(
                f"the stride of row offsets is {stride} ({text}), not {2 * columns - 1} "
                "(2·columns − 1)",
                partial(_window_number, stride=stride),
            )


def _window_number(e: Expected, queries: Integers, keys: Integers, *, stride: int) -> Integers:
    rows, columns = e.params["window_size"][0], e.params["window_size"][-1]
    down = queries // columns - keys // columns + rows - 1
    across = queries % columns - keys % columns + columns - 1
    return np.asarray(down * stride + across, np.int64)


def _other_heads(e: Expected) -> Iterator[Change]:
    found = moved_heads(e)
    if found is None:
        return
    text, order, factors = found
    if e.head is None:
        general = e.form == "slopes"  # a rule for all slopes says more
        yield Change(text, order=order, values=lambda v, _: v * factors, general=general)
    else:
        yield Change(text, make=lambda s: replace(s, head=int(order[0])).right())


def _usual_heads(e: Expected, _: int) -> Iterator[Change]:
    """Yield changes to other orders of heads, and to heads of a rank that uses the first rank's."""
    heads = np.arange(e.content.heads or 0)
    orders = {
        "all heads have the scores of the first": 0 * heads,
        "heads are in reverse order": heads[::-1],
        "each head has the scores of the next": np.roll(heads, -1),
        "each head has the scores of the previous": np.roll(heads, 1),
    }
    if heads.size % 2 == 0:
        text = "both of 2 ranks have the scores of the first half of the heads"
        orders[text] = np.tile(heads[: heads.size // 2], 2)
        if "heads" in e.parameters:
            half = replace(e, params={**e.params, "heads": heads.size // 2})
            yield Change(
                f"2 ranks each compute their own scores for {heads.size // 2} heads",
                make=lambda s: np.tile(replace(half, places=s.places).right(), (2, 1, 1)),
            )
    for text, order in orders.items():
        yield Change(text, order=order)


def _other_layers(e: Expected) -> Iterator[Change]:
    for name, table in e.other_tables().items():
        make = partial(_from_table, table=table)
        yield Change(f"this is the table {name} of the same file", make=make)


def _from_table(e: Expected, table: NumberArray) -> NumberArray:
    return replace(e, lookup=lambda rows: np.asarray(table[rows], np.float64)).right()


BUGS = (
    KnownBug(
        BugCode.LAYOUT,
        _layouts,
        "reorder the columns as in the reference, or check against the other layout",
        f"{GITHUB}openvinotoolkit/openvino_notebooks/issues/3316",
    ),
    KnownBug(
        BugCode.COS_SIN_MISPAIRED,
        _swapped_functions,
        "swap sin and cos",
        f"{GITHUB}flashinfer-ai/flashinfer/pull/3819",
    ),
    KnownBug(
        BugCode.KEY_QUERY,
        _swapped_queries_and_keys,
        "subtract in the other order",
        f"{GITHUB}dmlc/gluon-nlp/pull/1470, {GITHUB}speechbrain/speechbrain (RelPosEncXL)",
        ("rows", "scores", "buckets"),
    ),
    KnownBug(
        BugCode.AXIS,
        _grid_axes,
        "use the reference's order of rows and columns (test on a grid that is not square)",
        f"{GITHUB}NVIDIA/physicsnemo/pull/1096, {GITHUB}huggingface/transformers/pull/41380",
    ),
    KnownBug(
        BugCode.WINDOW,
        _window_numbers,
        "multiply row offsets by 2·columns − 1 (test on a window that is not square)",
        f"{GITHUB}282857341/nnFormer/pull/88",
        ("buckets",),
    ),
    KnownBug(
        BugCode.HEADS,
        _other_heads,
        "give each head its own scores, or slope",
        f"{GITHUB}lucidrains/x-transformers (AlibiPositionalBias), "
        f"{GITHUB}NVIDIA/TensorRT-LLM/pull/1611",
        ("scores", "slopes"),
        solves=True,
        examples=_usual_heads,
    ),
    KnownBug(
        BugCode.LAYER,
        _other_layers,
        "read the table of this layer",
        f"{GITHUB}OpenNMT/CTranslate2/issues/2102",
        ("rows", "scores"),
        solves=True,
    ),
)
"""Columns, rows, axes, heads and tables in place of others."""
