"""The table of known bugs in encodings that rotate nothing: one row a bug.

A row says what a bug changes of the reference, and where it was seen. To add one, write one row:
`posenc_cli.checks.search` tries it, compares every value, and words it; docs and tests list it.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Change, Expected, ValuePlaces
from posenc_cli.checks.measured import (
    bases_of,
    column_order,
    common_factor,
    first_row_of,
    heads_of,
    nonfinite,
    row_map,
)
from posenc_cli.formulas.alibi import exact_slopes, rules_of
from posenc_cli.formulas.declare import Scheme
from posenc_cli.formulas.inverse import KNOWN_BASES
from posenc_cli.formulas.parameters import as_text
from posenc_cli.inference.causes import Code
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.checks.expected import Form
    from posenc_cli.formulas.alibi import SlopesRule
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals


class BugCode(Code):
    """Why a subject that rotates nothing differs from its reference."""

    LAYOUT = "layout", "sin and cos stand in other columns: alternating, or one after the other"
    COS_SIN_MISPAIRED = "cos-sin-mispaired", "sin stands where cos belongs, and cos where sin does"
    BASE = "base", "the base is another"
    FREQUENCY_RULE = "frequency-rule", "the exponents of the frequencies follow another rule"
    DIRECTION = "direction", "the sign of the positions, of the sines or of the scores is wrong"
    KEY_QUERY = "key-query", "offsets are query − key for key − query, or the other way round"
    POSITION_OFFSET = "position-offset", "rows, or keys, belong to other positions"
    INV_FREQ_PRECISION = "inv-freq-precision", "the frequencies were rounded too coarsely"
    POSITION_PRECISION = "position-precision", "positions were rounded too coarsely"
    TABLE_PRECISION = "table-precision", "the values were rounded too coarsely"
    PADDING_ROW = "padding-row", "the row of the padding token is zeros, as fairseq stores it"
    AXIS = "axis", "columns follow another axis of the grid, or other coordinates on it"
    GRID_ORDER = "grid-order", "rows of the table go through the grid in another order"
    WINDOW = "window", "the offsets in a window are numbered with other strides"
    BUCKETS = "buckets", "offsets are given to buckets by another rule"
    CAUSAL = "causal", "keys after the query are scored otherwise"
    SLOPES = "slopes", "the slopes of the heads follow another rule"
    HEADS = "heads", "heads have the values of other heads, or none"
    LAYER = "layer", "the table is that of another layer"
    SCALE = "scale", "all values are multiplied by a number"
    ORDER = "order", "rows or columns are permuted"
    TRANSPOSED = "transposed", "rows and columns are exchanged"
    PARAMETER = "parameter", "another parameter of the scheme"
    UNINITIALISED = "uninitialised", "nothing was written to the values"
    NOT_A_NUMBER = "not-a-number", "some values are NaN or infinite, and the others right"
    SHAPE = "shape", "there are more or fewer values than the reference has"
    UNKNOWN = "unknown", "no known bug gives these values"


class KnownBug(Record):
    """A row of the table: what a bug ``changes`` of a reference and of the values found.

    ``remedy`` is what to do, ``seen`` a public report or a library's code, ``forms`` those of
    `Expected` that it occurs in. One that ``solves`` measures the subject for it.
    """

    code: BugCode
    changes: Callable[[Expected], Iterable[Change]]
    remedy: str
    seen: str
    forms: tuple[Form, ...] = ("rows",)
    solves: bool = False


_EVERY: tuple[Form, ...] = ("rows", "scores", "slopes", "buckets")
_NUMBERED: tuple[Form, ...] = ("scores", "buckets")
_SLOPED: tuple[Form, ...] = ("slopes", "scores")
_UNTRIED = (
    *("dim", "heads", "seed", "std", "hidden", "max_len", "weights", "grid", "window_size"),
    "form",
)
"""Parameters that say how large a table is, or which of many it is; one that is worded apart."""
_CODES = {
    **dict.fromkeys(("layout",), BugCode.LAYOUT),
    **dict.fromkeys(("order", "flip_sin_to_cos"), BugCode.COS_SIN_MISPAIRED),
    **dict.fromkeys(("base", "max_period"), BugCode.BASE),
    **dict.fromkeys(("spacing", "downscale_freq_shift"), BugCode.FREQUENCY_RULE),
    **dict.fromkeys(("convention", "normalize", "base_size"), BugCode.AXIS),
    **dict.fromkeys(("num_buckets", "max_distance", "bucket_size"), BugCode.BUCKETS),
    **dict.fromkeys(("max_position", "bidirectional"), BugCode.BUCKETS),
    **dict.fromkeys(("slopes", "max_bias"), BugCode.SLOPES),
    "offset": BugCode.POSITION_OFFSET,
}
"""The codes of parameters whose bugs have a word of their own."""
_USUAL: dict[str, tuple[Any, ...]] = {
    "num_buckets": (32, 16, 64, 128, 256),
    "max_distance": (128, 256, 64, 512, 32, 800, 1024, 2048),
    "bucket_size": (256, 128, 512, 64, 32),
    "max_position": (512, 1024, 256, 128, 2048),
    "downscale_freq_shift": (0.0, 1.0),
    "scale": (1.0, 1000.0, 0.001),
    "offset": (0, 1, 2),
    "base_size": (None, (16, 16)),
    "pretrained_window_size": (None,),
}
"""What libraries and models give the parameters of which they give several."""
_DIGITS = 3
"""Digits of a base that people write: one of more is said where nothing else explains a table."""
_MORE_HEADS = (8, 16, 32, 64, 128, 12, 24, 40, 48, 96, 112)
"""Numbers of heads that models have, of which a device or a mistake may leave some."""


def _other_parameters(e: Expected) -> Iterator[Change]:
    """Other values of one parameter."""
    options: dict[str, list[Any]] = {}
    for name, declared in e.parameters.items():
        right = e.params.get(name)
        if name in _UNTRIED or declared.rules.follows_length:
            continue
        values = list(_USUAL.get(name, declared.choices or ()))
        if declared.type is bool:
            values = [False, True]
        if name in ("max_position", "max_distance") and e.places.keys is not None:
            distance = int(np.abs(e.places.keys - e.places.at).max()) if e.form == "buckets" else 0
            values += [distance, distance + 1, 2 * distance]
        options[name] = [value for value in dict.fromkeys(values) if value != right]
    for name, values in options.items():
        for value in values:
            yield _parameter(e, name, value)


def _parameter(e: Expected, name: str, value: Any) -> Change:
    """Another value of a parameter."""
    separator = e.parameters[name].rules.separator
    wrong, right = (
        "none" if each is None else as_text(each, separator=separator)
        for each in (value, e.params.get(name))
    )
    return Change(
        f"{name} is {wrong}, not {right}",
        {name: value},
        code=_CODES.get(name, BugCode.PARAMETER),
        remedy=f"Compute it with {name}={right}, or check it against --set {name}={wrong}.",
    )


def _bases(e: Expected) -> Iterator[Change]:
    """Other bases: those of models, and the one that the slowest wave has."""
    if not e.is_waves:
        return
    name = next((name for name in ("base", "max_period") if name in e.parameters), None)
    if name is None or not e.params[name]:
        return
    for base in dict.fromkeys([*KNOWN_BASES, *bases_of(e, float(e.params[name]))]):
        if base != e.params[name] and base > 1:
            yield replace(_parameter(e, name, base), general=base != float(f"{base:.{_DIGITS}g}"))


def _wave_columns(e: Expected) -> tuple[Integers, Integers, list[int]] | None:
    """The columns of the sine and the cosine of each wave, and its axis; None of odd widths."""
    if not e.is_waves:
        return None
    content, (sin, cos) = e.content, e.wave_columns
    assert content.waves is not None
    count = content.waves.count
    if content.width != 2 * count or min(sin.min(initial=0), cos.min(initial=0)) < 0:
        return None
    axes = content.waves.coordinates.axes if content.waves.coordinates else (0,) * count
    return sin, cos, list(axes)


def _layouts(e: Expected) -> Iterator[Change]:
    """Columns in another of the usual orders."""
    columns = _wave_columns(e)
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
    own = [name for name, order in orders.items() if np.array_equal(order, straight)]
    for name, order in orders.items():
        if not np.array_equal(order, straight):
            yield _taken(f"the columns are {name}" + (f", not {own[0]}" if own else ""), order)


def _taken(text: str, order: Integers, *, general: bool = False) -> Change:
    """Columns in another order."""
    return Change(text, values=lambda v, _: v[:, order], general=general)


def _exchanged_functions(e: Expected) -> Iterator[Change]:
    if e.is_waves:
        yield Change(
            "sin stands where cos belongs, and cos where sin belongs",
            make=lambda s: s.placed(np.sin(s.angles()), np.cos(s.angles())),
        )


def _exponents(e: Expected) -> Iterator[Change]:
    """Exponents that count columns for pairs, or end elsewhere."""
    columns = _wave_columns(e)
    if columns is None or not e.frequencies.size:
        return
    sin, _, axes = columns
    base = e.params.get("base") or e.params.get("max_period")
    if base:
        for text, power in (("2c", 2.0), ("c", 1.0)):
            yield Change(
                f"column c has the exponent {text}/{e.content.width} of its own: sin and cos of a "
                "pair have different frequencies",
                make=partial(_by_column, base=float(base), power=power),
            )
    counts = np.bincount(axes)[axes]  # (waves,)
    powers = {
        "the exponents are twice as large: 4i/d, not 2i/d": np.full(sin.size, 2.0),
        "the exponents are i/(n − 1), not i/n, of n pairs": counts / np.maximum(counts - 1, 1),
        "the exponents are i/n, not i/(n − 1), of n pairs": np.maximum(counts - 1, 1) / counts,
    }
    for text, every in powers.items():
        yield Change(text, make=partial(_to_powers, powers=every))


def _to_powers(e: Expected, powers: Reals) -> RealRows:
    return e.waves(e.angles(np.abs(e.frequencies) ** powers))


def _by_column(e: Expected, *, base: float, power: float) -> RealRows:
    columns = _wave_columns(e)
    assert columns is not None
    at, width = e.followed(), e.content.width
    sin, cos = (at * base ** (-power * own / width) for own in columns[:2])
    return e.placed(np.cos(cos), np.sin(sin))


def _wrong_signs(e: Expected) -> Iterator[Change]:
    if e.is_waves:
        text = "the sines have the wrong sign: positions count backward"
        yield Change(text, make=lambda s: s.waves(-s.angles()))
    if e.form == "scores":
        yield Change("the scores have the wrong sign", values=lambda v, _: -v)
    if e.form == "slopes":
        yield Change("these are the right slopes with the sign of the bias", values=lambda v, _: -v)


def _exchanged_pairs(e: Expected) -> Iterator[Change]:
    """Query − key for key − query."""
    orders = "query − key", "key − query"
    pairs = getattr(e.content, "pairs", None) if isinstance(e.source, Scheme) else None
    by_query = (
        not e.source.relative.startswith("key")
        if pairs is None and not isinstance(e.source, Scheme)
        else pairs is not None
    )
    wrong, right = orders[::-1] if by_query else orders
    text = f"offsets are {wrong}, not {right}"
    if e.form == "rows" and e.is_offset:
        yield Change(text, places=lambda p, _: p.moved(np.negative))
        both = "rows of keys after the query repeat those before it: their sines are not negated"
        yield Change(both, places=lambda p, _: p.moved(np.abs))
        yield Change(both, places=lambda p, _: p.moved(lambda at: -np.abs(at)))
    if e.form == "scores":
        yield Change(text, make=lambda s: _swapped(s).right().transpose(0, 2, 1))
    if e.form == "buckets":
        yield Change(text, make=lambda s: _swapped(s).right())


def _swapped(e: Expected) -> Expected:
    assert e.places.keys is not None
    return replace(e, places=ValuePlaces(e.places.keys, e.places.at))


def _moved_rows(e: Expected) -> Iterator[Change]:
    """Rows of other positions, as the rows themselves tell."""
    if e.lookup is not None and not e.is_offset:
        first = first_row_of(e)
        if first is not None and "offset" in e.params:
            yield Change(
                f"the first row is row {first} of the table, not row {e.params['offset']}: "
                f"every position reads the row of another",
                {"offset": first},
            )
    found = row_map(e)
    if found is not None:
        yield Change(
            found.text,
            places=lambda p, _: ValuePlaces(found.at(p.at)),
            code=found.code,
            general=found.code == BugCode.ORDER,
        )
    if e.is_waves:
        for grid in (1, -1, 0.5):
            if e.params.get("grid"):
                yield Change(
                    f"coordinates on the grid are shifted by {grid:+g}",
                    make=partial(_shifted_grid, by=grid),
                )


def _shifted_grid(e: Expected, by: float) -> RealRows:
    return e.waves((e.followed() + by) * e.frequencies)


def _moved_keys(_: Expected) -> Iterator[Change]:
    for by in (1, -1):
        yield Change(f"keys are off by {by:+d}", places=partial(_moved_by, by=by))


def _moved_by(places: ValuePlaces, _: Expected, *, by: int) -> ValuePlaces:
    assert places.keys is not None
    return ValuePlaces(places.at, places.keys + by)


def _coarse_positions(_: Expected) -> Iterator[Change]:
    for half in HALVES:
        move = partial(_coarse, half=half)
        yield Change(f"positions were rounded to {half}", places=partial(_moved_all, move=move))


def _moved_all(
    places: ValuePlaces, _: Expected, *, move: Callable[[NumberArray], NumberArray]
) -> ValuePlaces:
    return places.moved(move)


def _coarse(at: NumberArray, *, half: str) -> NumberArray:
    return round_to_half(at.astype(np.float64), half).astype(at.dtype)


def _coarse_frequencies(e: Expected) -> Iterator[Change]:
    if e.is_waves:
        for half in HALVES:
            make = partial(_at_coarse_frequencies, half=half)
            yield Change(f"the frequencies were rounded to {half}", make=make)


def _at_coarse_frequencies(e: Expected, *, half: str) -> RealRows:
    return e.waves(e.angles(round_to_half(e.frequencies, half)))


def _rounded_values(_: Expected) -> Iterator[Change]:
    """Values that are all on the grid of a half precision, each within one rounding of right."""
    for half in HALVES:
        yield Change(
            f"the values were rounded to {half}",
            values=partial(_as_rounded, half=half),
            remedy=f"Keep the values in float32, or accept the rounding with --tol {half}.",
        )


def _as_rounded(values: NumberArray, e: Expected, *, half: str) -> NumberArray:
    most = 1.01 * unit(half) * np.abs(values) + e.allowed(values)
    near = np.isfinite(values) & (np.abs(e.found - values) <= most)
    held = round_to_half(np.asarray(e.found, np.float64), half) == e.found
    unlike = np.where(e.found > 0, -np.inf, np.inf)  # which no value found equals
    return np.where(near & held, e.found, unlike)


def _padding_rows(e: Expected) -> Iterator[Change]:
    zero = np.flatnonzero(~np.any(e.found, axis=1))
    if 0 < zero.size <= 2:
        places = e.places.at[zero]
        which = " and ".join(
            f"row {row} (position {place:g})"
            for row, place in zip(zero, places / e.parts, strict=True)
        )
        yield Change(
            f"{which} is zeros",
            values=lambda v, s: np.where(np.isin(s.places.at, places)[:, None], 0, v),
        )


def _grid_axes(e: Expected) -> Iterator[Change]:
    """Columns that follow another axis, and rows that go through the grid in another order."""
    grid = e.params.get("grid") if e.is_waves else None
    if not grid or len(grid) < 2:
        return
    names = {2: ("rows", "columns"), 3: ("frames", "rows", "columns")}.get(len(grid))
    for order in list(permutations(range(len(grid))))[1:]:
        told = (
            " and ".join(names[a] for a in range(len(grid)) if order[a] != a) if names else "axes"
        )
        yield Change(
            f"{told} are exchanged: columns of the table that belong to one follow the other",
            make=partial(_along_axes, order=order),
            code=BugCode.AXIS,
        )
        yield Change(
            f"the table goes through the grid with {told} exchanged (column by column)",
            places=partial(_moved_all, move=partial(_regridded, grid=grid, order=order)),
            code=BugCode.GRID_ORDER,
        )


def _along_axes(e: Expected, *, order: tuple[int, ...]) -> RealRows:
    return e.waves(e.followed(order) * e.frequencies)


def _regridded(at: NumberArray, *, grid: tuple[int, ...], order: tuple[int, ...]) -> NumberArray:
    """The places of rows that go through a grid whose axes stand in another order."""
    along = np.unravel_index(at.astype(np.int64), [grid[axis] for axis in order])
    own = [along[order.index(axis)] for axis in range(len(grid))]
    return np.asarray(np.ravel_multi_index(own, grid), np.int64)


def _renumbered(
    text: str, rule: Callable[[Expected, Integers, Integers], Integers], code: str = ""
) -> Change:
    """A change of the rows of a learned table that pairs of tokens read."""

    def make(e: Expected) -> NumberArray:
        at, keys = (np.asarray(each, np.int64) for each in (e.places.at, e.places.keys))
        if e.form == "buckets":
            return rule(e, at, keys)
        queries, every = (each.reshape(-1) for each in np.broadcast_arrays(at[:, None], keys[None]))
        numbers = rule(e, queries, every)
        weights = e.content.weights
        assert weights is not None
        assert e.lookup is not None
        held = (numbers >= 0) & (numbers < weights.rows)
        rows = np.full((numbers.size, weights.columns), np.nan)
        rows[held] = e.lookup(numbers[held])
        return rows.T.reshape(-1, at.size, keys.size)

    return Change(text, make=make, code=code)


def _window_numbers(e: Expected) -> Iterator[Change]:
    """Offsets in a window that are numbered with the strides of its other side."""
    size = e.params.get("window_size")
    if not size or e.params.get("class_token") or (e.form == "scores" and e.content.network):
        return
    rows, columns = size[0], size[-1]
    strides: dict[int, list[str]] = {}
    for text, stride in {
        "2·rows − 1": 2 * rows - 1,
        "columns": columns,
        "2·columns": 2 * columns,
        "3·columns − 1": 3 * columns - 1,
    }.items():
        strides.setdefault(stride, []).append(text)
    for stride, texts in strides.items():
        if stride != 2 * columns - 1:
            yield _renumbered(
                f"the stride of row offsets is {stride} ({' or '.join(texts)}), not "
                f"{2 * columns - 1} (2·columns − 1)",
                partial(_window_number, stride=stride),
            )
    yield _renumbered(
        "the window is numbered column by column: rows and columns are exchanged",
        partial(_window_number, stride=2 * rows - 1, sideways=True),
    )


def _window_number(
    e: Expected, queries: Integers, keys: Integers, *, stride: int, sideways: bool = False
) -> Integers:
    size = e.params["window_size"]
    rows, columns = size[0], size[-1]
    apart = queries // columns - keys // columns + rows - 1
    across = queries % columns - keys % columns + columns - 1
    numbers: Integers = across * stride + apart if sideways else apart * stride + across
    return numbers


def _t5_rules(e: Expected) -> Iterator[Change]:
    """T5's rule without its last step, or with the sides exchanged."""
    if "num_buckets" not in e.params:
        return
    yield _renumbered(
        "far offsets go past the last bucket: the minimum is missing", lambda e, q, k: _t5(e, k - q)
    )
    yield _renumbered(
        "the logarithm is rounded to the nearest bucket, not down",
        lambda e, q, k: _t5(e, k - q, rounding=np.rint, clamp=True),
    )


def _t5(e: Expected, relative: Integers, *, rounding: Any = None, clamp: bool = False) -> Integers:
    """T5's buckets in float64, as libraries write them."""
    both, distance = e.params["bidirectional"], e.params["max_distance"]
    side = e.params["num_buckets"] // (2 if both else 1)
    single = side // 2
    away = np.abs(relative) if both else np.maximum(-relative, 0)
    right = np.where(relative > 0, side, 0) if both else 0
    far = np.log(np.maximum(away, single) / single) / math.log(distance / single) * (side - single)
    widened = single + (far + 1e-9 if rounding is None else rounding(far)).astype(np.int64)
    widened = np.minimum(widened, side - 1) if clamp else widened
    return np.asarray(right + np.where(away < single, away, widened), np.int64)


def _later_keys(e: Expected) -> Iterator[Change]:
    """Scores of keys after the query, which a causal mask would hide."""

    def later(s: Expected) -> NumberArray:
        assert s.places.keys is not None
        return s.places.keys[None] > s.places.at[:, None]

    def unseen(v: NumberArray, s: Expected) -> NumberArray:
        return np.where(later(s), 0, v)

    yield Change("keys after the query have the score 0, as for causal attention", values=unseen)
    yield Change(
        "keys after the query have scores of the other sign: the distance has a sign",
        values=lambda v, s: np.where(later(s), -v, v),
    )
    for form in ("mpt", "bloom", "symmetric") if "form" in e.params else ():
        if form != e.params["form"]:
            yield Change(
                f"the scores are written as form={form}: they differ by a constant for each query, "
                "which a causal softmax removes",
                {"form": form},
                remedy=f"--set form={form} checks against these, which causal attention allows.",
            )


def _slope_rules(e: Expected) -> Iterator[Change]:
    """ALiBi's slopes by other rules, of other heads, or in another order."""
    if "max_bias" not in e.params:
        return
    heads, bias, rule = (e.params[name] for name in ("heads", "max_bias", "slopes"))
    right = np.asarray(exact_slopes(heads, max_bias=bias, rule=rule))
    power = 1 << (heads.bit_length() - 1)
    other: SlopesRule = "naive" if rule == "press" else "press"
    of_other = exact_slopes(heads, max_bias=bias, rule=other)
    from_0 = 2.0 ** (-bias * np.arange(heads) / heads)
    wrong: list[tuple[str, Any]] = [
        (f"these are the slopes of --convention {other}", of_other),
        ("these are the right slopes in reverse order", right[::-1]),
        ("these are the right slopes sorted; the order of heads matters", np.sort(right)[::-1]),
        ("the exponents start at 0, not at 1 (the first slope is 1)", from_0),
    ]
    if power < heads:
        next_power = exact_slopes(2 * power, max_bias=bias, rule="press")
        text = f"these are the first {heads} slopes of {2 * power} heads, the next power of two"
        wrong.append((text, next_power[:heads]))
    if e.form == "slopes":
        allowed = float(e.allowed(right)[0] / abs(right[0]))
        for number, own, expected in rules_of(e.found.tolist(), allowed):
            convention = "" if own == rule else f" --convention {own}"
            text = f"these are the slopes of --max-bias {as_text(number)}{convention}"
            wrong.append((text, expected))
    for text, slopes in wrong:
        yield _with_slopes(e, text, slopes, right)
    for more in _MORE_HEADS:
        if more > heads and not power < heads < more == 2 * power:
            every = exact_slopes(more, max_bias=bias, rule=rule)
            for first in (0, *range(heads, more - heads + 1, heads)):
                text = f"these are the slopes of heads {first} to {first + heads - 1} of {more}"
                change = _with_slopes(e, text, every[first : first + heads], right)
                yield replace(change, code=BugCode.HEADS)


def _with_slopes(e: Expected, text: str, slopes: Any, right: Reals) -> Change:
    """Values of heads that have these slopes in place of the right ones."""
    ratios = np.asarray(slopes) / right
    return _multiplied(text, ratios if e.form == "slopes" else ratios[:, None, None])


def _multiplied(text: str, factor: NumberArray | float) -> Change:
    return Change(text, values=lambda v, _: v * factor)


def _other_heads(e: Expected) -> Iterator[Change]:
    found = heads_of(e)
    if found is not None:
        text, order, blank = found
        yield Change(text, values=lambda v, _: np.where(blank[:, None, None], 0, v[order]))


def _other_layers(e: Expected) -> Iterator[Change]:
    for name, table in e.other_tables().items():
        make = partial(_of_table, table=table)
        yield Change(f"this is the table {name} of the same file", make=make)


def _of_table(e: Expected, table: NumberArray) -> NumberArray:
    return replace(e, lookup=lambda rows: np.asarray(table[rows], np.float64)).right()


def _scaled(e: Expected) -> Iterator[Change]:
    found = common_factor(e)
    if found is not None:
        yield _multiplied(found[1], found[0])


def _permuted_columns(e: Expected) -> Iterator[Change]:
    found = column_order(e)
    if found is not None:
        yield _taken(*found, general=True)


def _transposed(e: Expected) -> Iterator[Change]:
    """A square table whose transpose is right; others were read so."""
    if e.transposed:
        yield Change("rows and columns are exchanged")
    elif e.found.shape[0] == e.found.shape[1] > 1:
        right = e.right()
        if bool((np.abs(e.found.T - right) <= e.allowed(right)).all()):
            yield Change("rows and columns are exchanged", values=lambda _, s: _same_rows(e, s))


def _same_rows(whole: Expected, part: Expected) -> NumberArray:
    return whole.found[np.searchsorted(whole.places.at, part.places.at)]


def _nothing_written(e: Expected) -> Iterator[Change]:
    if not np.any(e.found):
        yield Change("all values are 0", values=lambda v, _: 0 * v)


def _not_numbers(e: Expected) -> Iterator[Change]:
    count = nonfinite(e)
    if count:
        others = "; the others are right" if count < e.found.size else ""
        yield Change(
            f"{count} of {e.found.size} values are NaN or infinite{others}",
            values=lambda v, s: np.where(np.isfinite(s.found), v, s.found),
        )


_GITHUB = "https://github.com/"

KNOWN_BUGS = (
    KnownBug(
        BugCode.LAYOUT,
        _layouts,
        "Reorder the columns as the reference has them, or check against the other layout.",
        f"{_GITHUB}openvinotoolkit/openvino_notebooks/issues/3316",
    ),
    KnownBug(
        BugCode.COS_SIN_MISPAIRED,
        _exchanged_functions,
        "Swap sin and cos.",
        f"{_GITHUB}flashinfer-ai/flashinfer/pull/3819",
    ),
    KnownBug(
        BugCode.FREQUENCY_RULE,
        _exponents,
        "Compute the exponent once for each pair, as the reference does.",
        f"{_GITHUB}jadore801120/attention-is-all-you-need-pytorch/issues/32",
    ),
    KnownBug(
        BugCode.BASE,
        _bases,
        "Use the reference's base.",
        f"{_GITHUB}maxjcohen/transformer/issues/62",
        solves=True,
    ),
    KnownBug(
        BugCode.DIRECTION,
        _wrong_signs,
        "Negate it.",
        f"{_GITHUB}meta-pytorch/attention-gym/pull/86",
        ("rows", "scores", "slopes"),
    ),
    KnownBug(
        BugCode.KEY_QUERY,
        _exchanged_pairs,
        "Subtract in the other order.",
        f"{_GITHUB}dmlc/gluon-nlp/pull/1470, {_GITHUB}speechbrain/speechbrain (RelPosEncXL)",
        ("rows", "scores", "buckets"),
    ),
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_rows,
        "Count positions as the reference does (padding offset, start and step).",
        f"{_GITHUB}huggingface/sentence-transformers/pull/3879",
        solves=True,
    ),
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_keys,
        "Count queries and keys from the same position.",
        f"{_GITHUB}vllm-project/vllm/pull/945, {_GITHUB}lucidrains/x-transformers/pull/103",
        ("scores",),
    ),
    KnownBug(
        BugCode.PADDING_ROW,
        _padding_rows,
        "Write the row, or compare the rows after the padding row with --positions.",
        f"{_GITHUB}facebookresearch/fairseq (SinusoidalPositionalEmbedding)",
    ),
    KnownBug(
        BugCode.AXIS,
        _grid_axes,
        "Give rows and columns the reference's order (test on a grid that is not square).",
        f"{_GITHUB}NVIDIA/physicsnemo/pull/1096, {_GITHUB}huggingface/transformers/pull/41380",
    ),
    KnownBug(
        BugCode.WINDOW,
        _window_numbers,
        "Multiply row offsets by 2·columns − 1 (test on a window that is not square).",
        f"{_GITHUB}282857341/nnFormer/pull/88",
        _NUMBERED,
    ),
    KnownBug(
        BugCode.BUCKETS,
        _t5_rules,
        "Limit the bucket to the last of its side, and round down.",
        f"{_GITHUB}huggingface/candle/issues/1312",
        _NUMBERED,
    ),
    KnownBug(
        BugCode.CAUSAL,
        _later_keys,
        "Score keys after the query by their distance, or compare with --causal.",
        f"{_GITHUB}ggml-org/ggml/pull/143, {_GITHUB}mosaicml/llm-foundry/issues/186",
        ("scores",),
    ),
    KnownBug(
        BugCode.SLOPES,
        _slope_rules,
        "Use the slopes that posenc alibi-slopes prints.",
        f"{_GITHUB}paiml/aprender/pull/2143, {_GITHUB}ml-explore/mlx/pull/3071",
        _SLOPED,
        solves=True,
    ),
    KnownBug(
        BugCode.HEADS,
        _other_heads,
        "Give each head its own scores.",
        f"{_GITHUB}lucidrains/x-transformers (AlibiPositionalBias), "
        f"{_GITHUB}NVIDIA/TensorRT-LLM/pull/1611",
        ("scores",),
        solves=True,
    ),
    KnownBug(
        BugCode.LAYER,
        _other_layers,
        "Read the table of this layer.",
        f"{_GITHUB}OpenNMT/CTranslate2/issues/2102",
        ("rows", "scores"),
        solves=True,
    ),
    KnownBug(
        BugCode.SCALE,
        _scaled,
        "Remove the factor.",
        f"{_GITHUB}ml-explore/mlx (SinusoidalPositionalEncoding)",
        ("rows", "scores", "slopes"),
        solves=True,
    ),
    KnownBug(
        BugCode.TRANSPOSED,
        _transposed,
        "Transpose the table.",
        f"{_GITHUB}huggingface/transformers (modeling_tf_pytorch_utils: TensorFlow's tables)",
        solves=True,
    ),
    KnownBug(
        BugCode.ORDER,
        _permuted_columns,
        "Put the columns back in order.",
        f"{_GITHUB}huggingface/nanotron/pull/427",
        solves=True,
    ),
    KnownBug(
        BugCode.PARAMETER,
        _other_parameters,
        "Use the reference's value.",
        f"{_GITHUB}TransformerLensOrg/TransformerLens/pull/1681, "
        f"{_GITHUB}NVIDIA/TensorRT/issues/3370, {_GITHUB}huggingface/diffusers/pull/1369",
        _EVERY,
    ),
    KnownBug(
        BugCode.TABLE_PRECISION,
        _rounded_values,
        "Keep the values in float32.",
        f"{_GITHUB}EleutherAI/gpt-neox/issues/1003",
        ("rows", "scores", "slopes"),
    ),
    KnownBug(
        BugCode.INV_FREQ_PRECISION,
        _coarse_frequencies,
        "Keep frequencies in float32, also where the model is cast to half precision.",
        f"{_GITHUB}wfondrie/depthcharge/pull/82",
    ),
    KnownBug(
        BugCode.POSITION_PRECISION,
        _coarse_positions,
        "Keep positions in float32 or in integers.",
        f"{_GITHUB}wfondrie/depthcharge/pull/82",
        ("rows", "scores"),
    ),
    KnownBug(
        BugCode.UNINITIALISED,
        _nothing_written,
        "Fill the table.",
        f"{_GITHUB}huggingface/transformers/issues/45902",
        ("rows", "scores"),
    ),
    KnownBug(
        BugCode.NOT_A_NUMBER,
        _not_numbers,
        "Find what writes NaN.",
        f"{_GITHUB}NovaSky-AI/SkyRL/pull/1725",
        ("rows", "scores"),
        solves=True,
    ),
)
"""The known bugs, the likelier of two first."""
