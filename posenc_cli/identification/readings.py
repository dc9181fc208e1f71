"""Read an array as cosine-sine pairs: all tables that posenc writes, and sinusoidal matrices.

A correct reading gives complex numbers cos + i·sin of constant size, or of a size whose logarithm
is linear in the position. Programs also store such matrices repeated, stacked on an axis of two, or
before empty rows. Each such form is a view of the array: no entry is copied or left uncompared.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.files.source import release
from posenc_cli.formulas.inverse import KNOWN_BASES, SPARE, STEEPEST, snap
from posenc_cli.formulas.tables import Layout, paired_columns
from posenc_cli.inference.evidence import Evidence, without_ones
from posenc_cli.inference.fitting import median, spread
from posenc_cli.inference.rates import Rates, signal_of
from posenc_cli.inference.tolerance import UNREDUCED, real_format
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.formulas.declare import Content
    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Integers,
        NumberArray,
        RealRows,
        Reals,
    )


_UNEVEN = 0.02
"""Relative scatter of the pairs' size √(cos² + sin²): more than the rounding of any format causes.
"""
_FEW_ROWS, _FEWEST_ROWS = 16, 3
"""Rows whose sizes are tested first, and fewest rows that show a line."""
_CIRCLE, _MOST_ROWS, _MOST_AXES = 0.02, 0.7, 4
"""Largest distance of sin² + cos² from 1, the share of rows that must meet it, and the most axes of
a grid."""
_LARGEST_ANGLE = 3.1416
"""π, rounded up: tables of angles hold values in (−π, π]."""


class View(Record):
    """Pairs read from the rows of the sample: cos + i·sin, divided by their size.

    ``pairs`` have the shape (rows, pairs). ``kind`` says whether the columns are those of a rotary
    table or of a sinusoidal matrix, and ``tables`` or ``columns`` which. ``layout`` says how full
    tables repeat their values. If sizes change, ``growth`` is d ln|z|/d row of each pair, and ln|z|
    at row 0. If only one function shows the waves, ``rates`` are theirs. If ``function`` is set,
    pairs are its values without the other function.
    """

    kind: Literal["rotary", "sinusoidal"]
    pairs: ComplexRows
    tables: tuple[str | None, ...] = (None,)
    layout: str | None = None
    columns: str = ""
    order: str = "sin-first"
    odd: str = "error"
    shares: tuple[int, ...] = ()
    amplitude: float = 1.0
    growth: tuple[Reals, Reals] | None = None
    rates: Rates | None = None
    function: str = ""

    @property
    def count(self) -> int:
        """Number of pairs."""
        return int(self.pairs.shape[1])

    @property
    def starts_at_0(self) -> bool:
        """Whether the first row is unrotated, as in most tables."""
        return bool((np.abs(self.pairs[0] - 1) <= _UNEVEN).all())

    def seen(self, points: ComplexRows) -> NumberArray:
        """Return what the pairs hold of points on the unit circle: all, the cosine or the sine."""
        return {"cos": points.real, "sin": points.imag}.get(self.function, points)


def _halves(
    columns: str, width: int, odd: str = "error", shares: tuple[int, ...] = ()
) -> tuple[Integers, Integers]:
    """Return the columns of each pair's first and second function.

    ``shares`` are the numbers of pairs per axis. Shape: (pairs,) each.
    """
    width -= odd == "pad"
    pair = np.arange(sum(shares) or width // 2)
    if columns == "interleaved":
        return 2 * pair, 2 * pair + 1
    if columns == "concat":
        return pair, (width + 1) // 2 + pair
    share = np.repeat(shares, shares)  # (pairs,)
    first = pair + np.repeat(np.cumsum(shares), shares) - share
    return first, first + share


def reads_columns(view: View, content: Content, width: int) -> bool:
    """Return whether a sinusoidal matrix has its sines and cosines in the columns of a view."""
    waves = content.waves
    if waves is None or waves.count < view.count or content.width != width:
        return False
    places = {function: np.full(waves.count, -1) for function in ("sin", "cos")}
    for placement in content.columns().placements:
        if placement.function != "zero":
            columns = np.arange(width)[placement.columns]
            of_waves = np.arange(waves.count)[placement.waves][: columns.size]
            places[placement.function][of_waves] = columns[: of_waves.size]
    halves = _halves(view.columns, width, view.odd, view.shares)
    named = ("sin", "cos") if view.order == "sin-first" else ("cos", "sin")
    return all(
        np.array_equal(places[name][: view.count], read)
        for name, read in zip(named, halves, strict=True)
    )


def real_matrix(evidence: Evidence) -> RealRows | None:
    """Return the sample if it is one matrix of real numbers, else None."""
    values = evidence.sample[0]
    one = values.ndim == 2 and len(evidence.arrays) == 1 and values.dtype.kind != "c"
    return values if one else None


def row_of_numbers(evidence: Evidence) -> Reals | None:
    """Return the sample if it is one row of finite numbers of at least 0, else None."""
    values = evidence.sample[0]
    row = values.ndim == 1 and len(evidence.arrays) == 1 and values.dtype.kind != "c"
    return values if row and (np.isfinite(values) & (values >= 0)).all() else None


def _repeated_readings(values: NumberArray) -> Iterator[tuple[str, str | None, NumberArray]]:
    """Yield the readings of a matrix that repeats its values, then the matrix as it is.

    A reading is the end of the table's name, the layout, and the columns of the pairs.
    """
    width = values.shape[1]
    ways: list[tuple[Layout, int]] = [("half", 1), ("interleaved", 1), ("half", 2)]
    for layout, parts in ways:
        if width % (2 * parts) == 0:
            columns = paired_columns(layout, width // 2, parts)
            first, second = (values[:, list(half)] for half in columns)
            if np.array_equal(first, second):
                yield "-full", layout, first
    yield "", None, values


def bare_views(evidence: Evidence) -> Iterator[View]:
    """Yield the ways to read a matrix as only cosines or only sines."""
    values = real_matrix(evidence)
    for suffix, layout, pairs in () if values is None else _repeated_readings(values):
        for function in ("cos", "sin"):
            yield View(
                "rotary",
                pairs.astype(np.complex128),
                tables=(f"{function}{suffix}",),
                layout=layout,
                function=function,
            )


def are_multiples(rows: RealRows, rounding: float) -> bool:
    """Return whether rows are multiples of one row, as position × frequency is, within rounding."""
    longest = rows[int(np.argmax(np.abs(rows).max(axis=1)))]
    products = np.multiply.outer(rows @ longest / (longest @ longest), longest)
    error = 4 * rounding + 2e-6
    return bool((np.abs(rows - products) <= error * np.abs(products)).all())


def unreduced_views(evidence: Evidence) -> Iterator[View]:
    """Yield the ways to read a matrix as angles that are not reduced modulo 2π."""
    values = real_matrix(evidence)
    for suffix, layout, angles in () if values is None else _repeated_readings(values):
        yield View(
            "rotary",
            np.exp(1j * angles),
            tables=(f"{UNREDUCED}{suffix}",),
            layout=layout,
        )


def views(evidence: Evidence) -> Iterator[View]:
    """Yield the ways to read the evidence as waves, likeliest first."""
    first = evidence.sample[0]
    if first.dtype.kind == "c":
        yield from _wave_views(first, evidence, kind="rotary", tables=("complex",))
        return
    if not np.isfinite(first).all():
        return
    if len(evidence.arrays) == 2:
        yield from _views_of_two_tables(evidence)
        return
    yield from sorted(_views_of_one_matrix(first, evidence), key=lambda view: not view.starts_at_0)


def _views_of_two_tables(evidence: Evidence) -> Iterator[View]:
    """Yield the readings of a table of cosines and one of sines, then in the other order."""
    first, second = evidence.sample
    for names, pairs in (
        (("cos", "sin"), first + 1j * second),
        (("sin", "cos"), second + 1j * first),
    ):
        for suffix, layout, own in _repeated_readings(pairs):
            tables = tuple(f"{name}{suffix}" for name in names)
            yield from _wave_views(own, evidence, kind="rotary", tables=tables, layout=layout)


def _views_of_one_matrix(values: RealRows, evidence: Evidence) -> Iterator[View]:
    width = values.shape[1]
    if width % 2 == 0:
        for table, columns in (("cos-sin", "concat"), ("interleaved", "interleaved")):
            cos, sin = (values[:, half] for half in _halves(columns, width))
            yield from _wave_views(cos + 1j * sin, evidence, kind="rotary", tables=(table,))
    yield from _sinusoidal_views(values, evidence)
    # Angles below 1 were not reduced modulo 2π, so their rows must be multiples of one another.
    largest = float(np.abs(values).max())
    if largest <= _LARGEST_ANGLE and (largest >= 1 or are_multiples(values, evidence.rounding)):
        yield View("rotary", np.exp(1j * values), tables=("angles",))


def _sinusoidal_views(values: RealRows, evidence: Evidence) -> Iterator[View]:
    """Yield the column layouts of sinusoidal matrices; an odd width lacks a column."""
    width = values.shape[1]
    odds = ["error"] if width % 2 == 0 else ["truncate", "split"] if width > 1 else []
    if width % 2 and width > 1 and not values[:, -1].any():
        odds.insert(1, "pad")
    ways: list[dict[str, Any]] = [
        {"order": order, "odd": odd, "columns": columns}
        for order in ("sin-first", "cos-first")
        for odd in odds
        for columns in ("concat", "interleaved")
    ]
    if len(shares := _sines_per_axis(values)) > 1:
        ways.append({"order": "sin-first", "odd": "pad", "columns": "by-axis", "shares": shares})
    for way in ways:
        halves = _halves(way["columns"], width, way["odd"], way.get("shares", ()))
        first, second = (values[:, half] for half in halves)
        pairs = second + 1j * first if way["order"] == "sin-first" else first + 1j * second
        yield from _wave_views(pairs, evidence, kind="sinusoidal", **way)


def _sines_per_axis(values: RealRows) -> tuple[int, ...]:
    """Return how many sines each axis has before its cosines; the last columns may be 0.

    The number is found at the first column that forms circles with the first sine.
    """
    used = int(np.flatnonzero(values.any(axis=0)).max(initial=-1)) + 1
    squares = values[:, :used] ** 2
    shares: list[int] = []
    start = 0
    while start < used and len(shares) < _MOST_AXES:
        sizes = squares[:, start : start + 1] + squares[:, start + 1 :]  # (rows, columns)
        circles = (np.abs(sizes - 1) <= _CIRCLE).mean(axis=0) >= _MOST_ROWS
        if not circles.any():
            return ()
        shares.append(int(np.argmax(circles)) + 1)
        start += 2 * shares[-1]
    return tuple(shares) if start == used else ()


def function_views(evidence: Evidence) -> Iterator[View]:
    """Yield only cosines or only sines, in half or full width, if the rows are consecutive."""
    values, rows = real_matrix(evidence), evidence.rows
    if values is None or not np.isfinite(values).all():
        return
    gaps = np.flatnonzero(np.diff(rows) != 1)
    count = int(gaps[0]) + 1 if gaps.size else rows.size
    suffix, layout, columns = next(_repeated_readings(values))
    for function in ("cos", "sin"):
        signal = signal_of(columns[:count], function, evidence.rounding)
        if signal is not None:
            yield View(
                "rotary",
                signal.pairs(count),
                tables=(f"{function}{suffix}",),
                layout=layout,
                amplitude=signal.amplitude,
                rates=Rates(signal.rates, signal.errors, count),
            )


def bases_of_pairs(rates: Reals, errors: Reals) -> list[float]:
    """Return the bases of a ladder that fit the rates (n,) of its pairs 1 to n, known ones first.

    A rate that is no number, or whose error is not finite, does not count.
    """
    shares = np.arange(1, rates.size + 1) / (rates.size + 1)
    weights = np.nan_to_num((shares * rates / errors) ** 2)
    total = weights.sum()
    mean = float(weights @ np.nan_to_num(-np.log(rates) / shares) / total)
    if not 0 < mean < STEEPEST:
        return []
    base = math.exp(mean)
    error = base / math.sqrt(total)
    near = [number for number in KNOWN_BASES if abs(number - base) <= error]
    snapped = (snap(base, error / SPARE**n) for n in range(6))  # entries are often more exact
    return [*dict.fromkeys((*near, *snapped))]


def _wave_views(pairs: ComplexRows, evidence: Evidence, **rest: Any) -> Iterator[View]:
    """Yield a view of pairs if they are waves, divided by a growing or constant amplitude."""
    sizes = np.abs(pairs)  # (rows, pairs)
    if not np.isfinite(sizes).all() or (sizes <= 0).any():
        return
    few = spread(sizes.shape[0], _FEW_ROWS)
    if np.abs(sizes / median(sizes[few]) - 1).max() <= _UNEVEN:
        yield View(pairs=pairs / sizes, amplitude=float(median(sizes)), **rest)
    elif rest.get("kind") == "rotary" and sizes.shape[0] >= _FEWEST_ROWS:
        for rows in (few, np.arange(sizes.shape[0])):
            slopes, starts, residual = _growth(sizes[rows], evidence.rows[rows])
            if residual > 1e-5 + 8 * evidence.rounding:
                return
        yield View(pairs=pairs / sizes, growth=(slopes, starts), **rest)


def _growth(sizes: RealRows, rows: Integers) -> tuple[Reals, Reals, float]:
    """Fit lines to log sizes: return slopes and starts (pairs,), and the largest residual."""
    logarithms, where = np.log(sizes), rows.astype(np.float64)
    slopes, starts = np.polyfit(where, logarithms, 1)
    residual = np.abs(logarithms - starts - np.multiply.outer(where, slopes)).max()
    return slopes, starts, float(residual)


_SOME_ROWS = 48
"""Rows on which a form is tested before it is tested on all."""
_LEAST_ROWS = 2
"""Fewest heads, or keys, in another form."""


def periods_read(evidence: Evidence) -> Evidence | None:
    """Return 1/x of one row, which may hold periods as MLX's ``freqs`` of ``mx.fast.rope`` does."""
    values, stored = row_of_numbers(evidence), real_format(evidence.stored)
    if values is None or not values.all():
        return None
    rounded = widen(narrow(1 / np.asarray(values, np.float64), None, stored), stored)
    return _inner_evidence(evidence, (rounded,), "periods, 1/frequency")


def _inner_evidence(evidence: Evidence, arrays: tuple[NumberArray, ...], text: str) -> Evidence:
    return replace(
        evidence,
        arrays=tuple(without_ones(array) for array in arrays),
        forms=(*evidence.forms, text),
    )


def _equal_slices(evidence: Evidence) -> Iterator[Evidence]:
    """Yield one slice along an axis of batches or heads, if all slices are equal."""
    shape = evidence.shape
    for axis in range(len(shape) - 1):
        if shape[axis] > 1 and all(_all_equal(array, axis) for array in evidence.arrays):
            place = axis + sum(form.startswith("repeated") for form in evidence.forms)
            arrays = tuple(np.moveaxis(array, axis, 0)[0] for array in evidence.arrays)
            # All queries have the same row of scores, and there are as many queries as keys.
            if axis and len(shape) == 3 and shape[1] == shape[2]:
                arrays = tuple(array[:, None] for array in arrays)
            yield _inner_evidence(
                evidence, arrays, f"repeated {shape[axis]} times along axis {place}"
            )
            return


def _batches_of_heads(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the heads of one of several equal sequences, stored one after another as in BLOOM."""
    (array,) = evidence.arrays
    heads, queries, keys = array.shape
    for own in (n for n in range(1, heads // 2 + 1) if heads % n == 0):
        if own > 1 and _all_equal(array.reshape(heads // own, own, queries, keys), 0):
            yield _inner_evidence(
                evidence,
                (array[:own],),
                f"repeated {heads // own} times, one sequence after another",
            )
            return


def _scores_after_padding(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the scores after left padding, which has only the score 0, as in BLOOM.

    The first key after the padding has the score 0 too.
    """
    (array,) = evidence.arrays
    padding = _count_empty_rows(array[:, 0].T) - 1
    if array.shape[1] == 1 and 0 < padding < array.shape[2] - _LEAST_ROWS:
        yield _inner_evidence(
            evidence,
            (array[:, :, padding:],),
            f"padded on the left: the first {padding} keys hold zeros",
        )


def _all_equal(array: NumberArray, axis: int) -> bool:
    """Return whether all slices along an axis are equal; the first rows are compared first."""
    first, *others = np.moveaxis(array, axis, 0)
    return all(
        np.array_equal(first[rows], other[rows], equal_nan=True)
        for rows in (slice(1), slice(None))
        for other in reversed(others)
    )


def _stacks(evidence: Evidence) -> Iterator[Evidence]:
    """Yield cosines and sines stacked along an axis of length 2."""
    (array,) = evidence.arrays
    for axis in (array.ndim - 1, *range(array.ndim - 1)):
        if array.shape[axis] == 2:
            cos, sin = np.moveaxis(array, axis, 0)
            if _are_circles(cos, sin, evidence.rounding):
                yield _inner_evidence(evidence, (cos, sin), f"two tables along axis {axis}")


def _rotation_matrices(evidence: Evidence) -> Iterator[Evidence]:
    """Yield cosines and sines from matrices ((cos, −sin), (sin, cos))."""
    (array,) = evidence.arrays
    if array.shape[-2:] != (2, 2):
        return
    for cells in array:
        (cos, minus_sin), (sin, other_cos) = np.moveaxis(cells, (-2, -1), (0, 1))
        if not (np.array_equal(cos, other_cos) and np.array_equal(minus_sin, -sin)):
            return
        release(cells)
    tables = array[..., 0, 0], array[..., 1, 0]
    if _are_circles(*tables, evidence.rounding):
        yield _inner_evidence(evidence, tables, "2×2 rotation matrices")


def _tables_side_by_side(evidence: Evidence) -> Iterator[Evidence]:
    """Yield full tables of cosines and of sines that are side by side."""
    (array,) = evidence.arrays
    columns, rounding = array.shape[1], evidence.rounding
    if columns % 4 == 0:
        halves = array[:, : columns // 2], array[:, columns // 2 :]
        repeats = next(_repeated_readings(_some_rows(halves[0])))[0] == "-full"
        if repeats and _are_circles(*halves, rounding):
            yield _inner_evidence(
                evidence, halves, "full tables of cosines and of sines side by side"
            )


def _some_rows(array: NumberArray) -> Reals:
    """Return rows from the first to the last, flattened, as float64. Shape: (rows, entries)."""
    rows = spread(array.shape[0], _SOME_ROWS)
    few = np.asarray(array[rows])
    return np.asarray(few.reshape(few.shape[0], -1), np.float64)


def _are_circles(cos: NumberArray, sin: NumberArray, rounding: float) -> bool:
    """Return whether cos² + sin² is constant in 90% of some rows, within rounding."""
    sizes = np.hypot(_some_rows(cos), _some_rows(sin))
    positive = sizes[np.isfinite(sizes) & (sizes > 0)]
    if 2 * positive.size < sizes.size or not positive.size:
        return False
    deviations = np.abs(positive / median(positive) - 1)
    return bool(np.quantile(deviations, 0.9) <= min(_UNEVEN, 1e-4 + 8 * rounding))


def _without_empty_heads(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the heads before empty ones at the end, as in x-transformers."""
    (array,), count = evidence.arrays, evidence.count
    kept = count - _count_empty_rows(array[::-1])
    if _LEAST_ROWS <= kept < count:
        yield _inner_evidence(
            evidence,
            (array[:kept],),
            f"before empty heads: heads {kept} to {count - 1} hold zeros",
        )


def _count_empty_rows(array: NumberArray) -> int:
    """Return how many rows at the start hold only zeros."""
    full = array.reshape(array.shape[0], -1).any(axis=1)
    return int(np.argmax(np.append(full, True)))


_FORMS: tuple[tuple[range, bool, Callable[[Evidence], Iterator[Evidence]]], ...] = (
    (range(3, 7), False, _equal_slices),
    (range(4, 7), True, _rotation_matrices),
    (range(3, 7), True, _stacks),
    (range(2, 3), True, _tables_side_by_side),
    (range(3, 4), True, _batches_of_heads),
    (range(3, 4), True, _scores_after_padding),
    (range(3, 4), True, _without_empty_heads),
)
"""Forms of an array: the numbers of axes, whether it is one array of real numbers, and the form."""


def certain_forms(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the matrices that the values of an array show to be in it, likeliest first."""
    real = len(evidence.arrays) == 1 and evidence.arrays[0].dtype.kind != "c"
    for axes, only_real, form in _FORMS:
        if len(evidence.shape) in axes and (real or not only_real):
            yield from form(evidence)
