"""Ways to read an array as cosine-sine pairs: every table posenc writes, and sinusoids.

A way that is right makes complex numbers cos + i·sin of constant size, or, where amplitudes grow
with the position, of a size whose logarithm is a line. Programs keep such matrices in other forms:
several times over, with cosines and sines on an axis of their own, before rows that
hold nothing. Each form is a view of the array, so that no entry is copied and none goes uncompared.
Forms that entries themselves show are certain; possible ones are tried where nothing fits.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.files.source import release
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.evidence import without_ones
from posenc_cli.inference.fitting import median, spread
from posenc_cli.inference.rates import signal_of
from posenc_cli.inference.tolerance import UNREDUCED, real_format
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.declare import Content
    from posenc_cli.formulas.tables import Layout
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import (
        ComplexRows,
        Flags,
        Integers,
        NumberArray,
        RealRows,
        Reals,
    )


_UNEVEN = 0.02
"""Of the size of pairs, cos² + sin²: more than the rounding of any format makes them scatter."""
_FEW_ROWS, _FEWEST_ROWS = 16, 3
"""Rows whose sizes are looked at first, and rows at least that show a line."""
_CIRCLE, _MOST_ROWS, _MOST_AXES = 0.02, 0.7, 4
"""How far a sine and a cosine may be from the unit circle, in so many of the rows, and the axes of
a grid that are looked for."""
_LARGEST_ANGLE = 3.1416
"""π, rounded up: a table of angles has them in (−π, π]."""


class View(Record):
    """Pairs read from the rows of the sample: cos + i·sin, freed of growth. Shape: (rows, pairs).

    ``kind`` says whether the columns are those of a rotary table or of a sinusoidal matrix, and
    ``tables`` or ``columns`` which; ``layout`` and ``parts`` are how full tables repeat their
    values. ``growth`` is d ln|z|/d row of each pair, where sizes change, and ln|z| at row 0.
    ``errors`` are those of the rates, in radians a row, where one function alone shows the waves;
    where that ``function`` is named, pairs are its bare values.
    """

    kind: Literal["rotary", "sinusoidal"]
    pairs: ComplexRows
    tables: tuple[str | None, ...] = (None,)
    layout: str | None = None
    parts: int = 1
    columns: str = ""
    order: str = "sin-first"
    odd: str = "error"
    shares: tuple[int, ...] = ()
    amplitude: float = 1.0
    growth: tuple[Reals, Reals] | None = None
    errors: Reals | None = None
    function: str = ""

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return int(self.pairs.shape[1])

    @property
    def axes(self) -> int:
        """How many axes have sines and cosines of their own."""
        return max(len(self.shares), 1)

    @property
    def starts_at_0(self) -> bool:
        """Whether no pair of the first row is rotated, as in most tables."""
        return bool((np.abs(self.pairs[0] - 1) <= _UNEVEN).all())

    def seen(self, points: ComplexRows) -> NumberArray:
        """What pairs hold of points on the unit circle."""
        return {"cos": points.real, "sin": points.imag}.get(self.function, points)

    def places(self, width: int) -> dict[str, Integers]:
        """Where in a sinusoidal matrix the sine and the cosine of each pair are read."""
        halves = _halves(self.columns, width, self.odd, self.shares)
        named = ("sin", "cos") if self.order == "sin-first" else ("cos", "sin")
        return dict(zip(named, halves, strict=True))


def _halves(
    columns: str, width: int, odd: str = "error", shares: tuple[int, ...] = ()
) -> tuple[Integers, Integers]:
    """The columns of the first and of the second function of each pair; of axes one by one."""
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
    """Whether a sinusoidal matrix has its sines and cosines where a view reads them."""
    waves = content.waves
    if waves is None or waves.count < view.count or content.width != width:
        return False
    places = {function: np.full(waves.count, -1) for function in ("sin", "cos")}
    for placement in content.columns().placements:
        if placement.function != "zero":
            columns = np.arange(width)[placement.columns]
            of_waves = np.arange(waves.count)[placement.waves][: columns.size]
            places[placement.function][of_waves] = columns[: of_waves.size]
    read = view.places(width)
    return all(np.array_equal(places[name][: view.count], read[name]) for name in read)


def real_matrix(evidence: Evidence) -> RealRows | None:
    """The sample of one matrix of real numbers; None where the evidence is something else."""
    values = evidence.sample[0]
    one = values.ndim == 2 and len(evidence.arrays) == 1 and values.dtype.kind != "c"
    return values if one else None


def _widths(values: NumberArray) -> Iterator[tuple[str, str | None, int, NumberArray]]:
    """A matrix of one function, in full width if it repeats its values, and as it is.

    Each is the end of a table's name, layout, parts, and the columns of the pairs.
    """
    width = values.shape[1]
    ways: list[tuple[Layout, int]] = [("half", 1), ("interleaved", 1), ("half", 2)]
    for layout, parts in ways:
        if width % (2 * parts) == 0:
            columns = paired_columns(layout, width // 2, parts)
            first, second = (values[:, list(half)] for half in columns)
            if np.array_equal(first, second):
                yield "-full", layout, parts, first
    yield "", None, 1, values


def bare_views(evidence: Evidence) -> Iterator[View]:
    """The ways to read a matrix as cosines or sines alone, bare of the other."""
    values = real_matrix(evidence)
    for suffix, layout, parts, pairs in () if values is None else _widths(values):
        for function in ("cos", "sin"):
            yield View(
                "rotary",
                pairs.astype(np.complex128),
                tables=(f"{function}{suffix}",),
                layout=layout,
                parts=parts,
                function=function,
            )


def are_multiples(rows: RealRows, rounding: float) -> bool:
    """Whether rows are multiples of the longest, as position × frequency is, but for rounding."""
    longest = rows[int(np.argmax(np.abs(rows).max(axis=1)))]
    products = np.multiply.outer(rows @ longest / (longest @ longest), longest)
    error = 4 * rounding + 2e-6
    return bool((np.abs(rows - products) <= error * np.abs(products)).all())


def unreduced_views(evidence: Evidence) -> Iterator[View]:
    """The ways to read a matrix as angles that were not reduced to a turn."""
    values = real_matrix(evidence)
    for suffix, layout, parts, angles in () if values is None else _widths(values):
        yield View(
            "rotary",
            np.exp(1j * angles),
            tables=(f"{UNREDUCED}{suffix}",),
            layout=layout,
            parts=parts,
        )


def views(evidence: Evidence) -> Iterator[View]:
    """The ways to read the evidence that make waves, the likeliest first."""
    first = evidence.sample[0]
    if first.ndim != 2:
        return
    if first.dtype.kind == "c":
        yield from _wave_views(first, evidence, kind="rotary", tables=("complex",))
        return
    if not np.isfinite(first).all():
        return
    if len(evidence.arrays) == 2:
        yield from _two_tables(evidence)
        return
    yield from sorted(_one_matrix(first, evidence), key=lambda view: not view.starts_at_0)


def _two_tables(evidence: Evidence) -> Iterator[View]:
    cos, sin = evidence.sample
    ways = [*_widths(cos + 1j * sin)]
    for suffix, layout, parts, pairs in ways[:-1] or ways:
        yield from _wave_views(
            pairs,
            evidence,
            kind="rotary",
            tables=(f"cos{suffix}", f"sin{suffix}"),
            layout=layout,
            parts=parts,
        )


def _one_matrix(values: RealRows, evidence: Evidence) -> Iterator[View]:
    width = values.shape[1]
    if width % 2 == 0:
        for table, columns in (("cos-sin", "concat"), ("interleaved", "interleaved")):
            cos, sin = (values[:, half] for half in _halves(columns, width))
            yield from _wave_views(cos + 1j * sin, evidence, kind="rotary", tables=(table,))
    yield from _sinusoidal(values, evidence)
    # Small angles are position × frequency, whatever the positions are.
    largest = float(np.abs(values).max())
    if largest <= _LARGEST_ANGLE and (largest >= 1 or are_multiples(values, evidence.rounding)):
        yield View("rotary", np.exp(1j * values), tables=("angles",))


def _sinusoidal(values: RealRows, evidence: Evidence) -> Iterator[View]:
    """The columns of sinusoidal matrices; of an odd width with the column that is missing."""
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
    if len(shares := _shares(values)) > 1:
        ways.append({"order": "sin-first", "odd": "pad", "columns": "by-axis", "shares": shares})
    for way in ways:
        halves = _halves(way["columns"], width, way["odd"], way.get("shares", ()))
        first, second = (values[:, half] for half in halves)
        pairs = second + 1j * first if way["order"] == "sin-first" else first + 1j * second
        yield from _wave_views(pairs, evidence, kind="sinusoidal", **way)


def _shares(values: RealRows) -> tuple[int, ...]:
    """How many sines each axis has before its cosines, axis after axis; zeros may follow.

    The first sine of each is beside the first column that makes a circle with it.
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
    """Cosines or sines alone, in half or full width, where rows follow one another."""
    values, rows = real_matrix(evidence), evidence.rows
    if values is None or not np.isfinite(values).all():
        return
    regular = np.flatnonzero(np.diff(rows) != 1)
    count = int(regular[0]) + 1 if regular.size else rows.size
    if count < 6:
        return
    suffix, layout, parts, columns = next(_widths(values))
    for function in ("cos", "sin"):
        signal = signal_of(columns[:count], function, evidence.rounding)
        if signal is not None:
            yield View(
                "rotary",
                signal.pairs(count),
                tables=(f"{function}{suffix}",),
                layout=layout,
                parts=parts,
                amplitude=signal.amplitude,
                errors=signal.errors,
            )


def _wave_views(pairs: ComplexRows, evidence: Evidence, **rest: Any) -> Iterator[View]:
    """A view of pairs, if they are waves; freed of an amplitude that grows or is not 1."""
    rounding = 4 * evidence.rounding
    every = np.arange(pairs.shape[0])
    for rows in (every[:: max(1, every.size // _FEW_ROWS)], every):
        sizes = np.abs(pairs[rows])  # (rows, pairs)
        if not np.isfinite(sizes).all() or (sizes <= 0).any():
            return
        middle = float(median(sizes))
        is_even = float(np.abs(sizes / middle - 1).max()) <= _UNEVEN
        if not is_even and (rest.get("kind") != "rotary" or every.size < _FEWEST_ROWS):
            return
        slopes, starts, missed = _growth(sizes, evidence.rows[rows])
        if not is_even and missed > 1e-5 + 2 * rounding:
            return
    if is_even:
        yield View(pairs=pairs / sizes, amplitude=middle, **rest)
    else:
        yield View(pairs=pairs / sizes, growth=(slopes, starts), **rest)


def _growth(sizes: RealRows, rows: Integers) -> tuple[Reals, Reals, float]:
    """The lines that logarithms of sizes follow: slopes and starts (pairs,), the largest miss."""
    logarithms, where = np.log(sizes), rows.astype(np.float64)
    centred = where - where.mean()
    slopes = (centred @ (logarithms - logarithms.mean(axis=0))) / (centred @ centred)
    starts = logarithms.mean(axis=0) - slopes * where.mean()
    missed = np.abs(logarithms - starts - np.multiply.outer(where, slopes)).max()
    return slopes, starts, float(missed)


_SOME_ROWS = 48
"""Rows on which a form is looked for before it is looked for everywhere."""
_FIRST_ROWS = 4
"""Rows at the front: where the first entries of a table are not in a form, no others are."""
_MOST_SIDES, _MOST_FORMS = 6, 3
"""Of an array that is looked into, and forms one within another."""
_LEAST_ROWS = 2
"""Rows, of a form's matrix, that a form is worth trying for."""

SINES_FIRST = "sines first, then cosines"


def certain_forms(evidence: Evidence) -> Iterator[Evidence]:
    """The matrices in an array whose own numbers show that they are there, the likeliest first."""
    shape = evidence.shape
    if len(shape) > _MOST_SIDES or len(evidence.forms) >= _MOST_FORMS:
        return
    yield from _equal_slices(evidence)
    if len(evidence.arrays) == 1:
        yield from _turning_matrices(evidence)
        yield from _stacks(evidence)
        if len(shape) == 2:
            yield from _joined(evidence)
        elif len(shape) == 3:
            yield from _batches_of_heads(evidence)
            yield from _behind_padding(evidence) if shape[1] == 1 else ()
    if len(shape) in (2, 3):
        yield from _without_empty_rows(evidence)


def possible_forms(evidence: Evidence) -> Iterator[Evidence]:
    """The arrays in the other order, where nothing was made out of two."""
    if len(evidence.arrays) == 2 and SINES_FIRST not in evidence.forms:
        yield _form(evidence, evidence.arrays[::-1], SINES_FIRST)


def periods_read(evidence: Evidence) -> Evidence | None:
    """The frequencies whose reciprocals one row may hold: MLX's ``freqs`` of ``mx.fast.rope``."""
    values = np.asarray(evidence.sample[0])
    if values.dtype.kind == "c" or not (np.isfinite(values) & (values > 0)).all():
        return None
    stored = real_format(evidence.stored)
    rounded = widen(narrow(1 / np.asarray(values, np.float64), None, stored), stored)
    return _form(evidence, (rounded,), "periods, 1/frequency")


def _form(evidence: Evidence, arrays: tuple[NumberArray, ...], text: str) -> Evidence:
    """The evidence that arrays within others give."""
    return replace(
        evidence,
        arrays=tuple(without_ones(array) for array in arrays),
        forms=(*evidence.forms, text),
    )


def _equal_slices(evidence: Evidence) -> Iterator[Evidence]:
    """One of the slices along an axis, such as that of a batch or of heads, where all are equal."""
    shape = evidence.shape
    for axis in range(len(shape) - 1) if len(shape) > 2 else ():
        if shape[axis] > 1 and all(_all_equal(array, axis) for array in evidence.arrays):
            text = f"{shape[axis]} times over, the same along axis {axis}"
            arrays = tuple(_at(array, axis, 0) for array in evidence.arrays)
            # One row of scores that all queries have, of as many queries as keys.
            if axis and len(shape) == 3 and shape[1] == shape[2]:
                arrays = tuple(array[:, None] for array in arrays)
            yield _form(evidence, arrays, text)
            return


def _batches_of_heads(evidence: Evidence) -> Iterator[Evidence]:
    """The heads of one of several equal sequences, as BLOOM has them one after another."""
    (array,) = evidence.arrays
    heads, queries, keys = array.shape
    if queries not in (1, keys):
        return
    for own in (n for n in range(1, heads // 2 + 1) if heads % n == 0):
        if own > 1 and _all_equal(array.reshape(heads // own, own, queries, keys), 0):
            text = f"{heads // own} times over, one sequence after another"
            yield _form(evidence, (array[:own],), text)
            return


def _behind_padding(evidence: Evidence) -> Iterator[Evidence]:
    """The scores of the keys behind padding on the left, whose own are all 0, as in BLOOM.

    The first key that is none has the score 0 as well.
    """
    (array,) = evidence.arrays
    padding = _empty_rows(array[:, 0].T) - 1
    if 0 < padding < array.shape[2] - _LEAST_ROWS:
        text = f"behind padding: the first {padding} keys hold zeros"
        yield _form(evidence, (array[:, :, padding:],), text)


def _at(array: NumberArray, axis: int, index: int) -> NumberArray:
    """A slice of an array, as a view."""
    return array[(slice(None),) * axis + (index,)]


def _all_equal(array: NumberArray, axis: int) -> bool:
    """Whether all slices along an axis are the same, entry by entry; first some, then all."""
    first, others = _at(array, axis, 0), range(array.shape[axis] - 1, 0, -1)
    return all(
        np.array_equal(first[rows], _at(array, axis, index)[rows], equal_nan=True)
        for rows in (slice(1), slice(None))
        for index in others
    )


def _stacks(evidence: Evidence) -> Iterator[Evidence]:
    """Cosines and sines on an axis of their own, of two."""
    (array,) = evidence.arrays
    if array.ndim < 3 or array.dtype.kind == "c":
        return
    for axis in (array.ndim - 1, *range(array.ndim - 1)):
        if array.shape[axis] == 2:
            halves = _at(array, axis, 0), _at(array, axis, 1)
            if _turn(*halves, evidence.rounding):
                yield _form(evidence, halves, f"cosines and sines along axis {axis}")


def _turning_matrices(evidence: Evidence) -> Iterator[Evidence]:
    """Cosines and sines in matrices ((cos, −sin), (sin, cos)), or their transposes."""
    (array,) = evidence.arrays
    if array.ndim < 4 or array.shape[-2:] != (2, 2) or array.dtype.kind == "c":
        return
    for row in range(array.shape[0]):
        cells = array[row]
        if not np.array_equal(cells[..., 0, 0], cells[..., 1, 1]):
            return
        if not np.array_equal(cells[..., 0, 1], -cells[..., 1, 0]):
            return
        release(cells)
    for sine, text in ((array[..., 1, 0], ""), (array[..., 0, 1], ", transposed")):
        if _turn(array[..., 0, 0], sine, evidence.rounding):
            yield _form(evidence, (array[..., 0, 0], sine), f"2×2 rotation matrices{text}")


def _joined(evidence: Evidence) -> Iterator[Evidence]:
    """Full tables of cosines and of sines side by side."""
    (array,) = evidence.arrays
    if array.dtype.kind == "c":
        return
    columns, rounding = array.shape[1], evidence.rounding
    if columns % 4 == 0:
        halves = array[:, : columns // 2], array[:, columns // 2 :]
        repeats = all(_is_repeated(_some_rows(cos)) for cos in (halves[0][:_FIRST_ROWS], halves[0]))
        if repeats and _turn(*halves, rounding):
            yield _form(evidence, halves, "full tables of cosines and of sines side by side")


def _is_repeated(rows: Reals) -> bool:
    """Whether rows hold each number twice, in halves or interleaved."""
    half = rows.shape[1] // 2
    ways = (rows[:, :half], rows[:, half:]), (rows[:, 0::2], rows[:, 1::2])
    return bool(rows.any()) and any(np.array_equal(*way) for way in ways)


def _some_rows(array: NumberArray) -> Reals:
    """Some rows of an array, from the first to the last, as float64. Shape: (rows, entries)."""
    rows = spread(array.shape[0], _SOME_ROWS)
    few = np.asarray(array[rows])
    return np.asarray(few.reshape(few.shape[0], -1), np.float64)


def _turn(cos: NumberArray, sin: NumberArray, rounding: float) -> bool:
    """Whether cos² + sin² is the same number in some rows, more than noise would have it be.

    The first rows are asked alone at first: each row elsewhere brings a piece of a large file in.
    """
    return all(
        _are_circles(*rows, rounding)
        for rows in ((cos[:_FIRST_ROWS], sin[:_FIRST_ROWS]), (cos, sin))
    )


def _are_circles(cos: NumberArray, sin: NumberArray, rounding: float) -> bool:
    sizes = np.hypot(_some_rows(cos), _some_rows(sin))
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    if 2 * known.size < sizes.size or not known.size:
        return False
    apart = np.abs(known / median(known) - 1)
    return bool(np.quantile(apart, 0.9) <= min(_UNEVEN, 1e-4 + 8 * rounding))


def _is_empty(rows: NumberArray) -> Flags:
    """Which rows hold zeros alone, or nothing that is a number. Shape: (rows,)."""
    with np.errstate(invalid="ignore"):
        flat = rows.reshape(rows.shape[0], -1)
        return np.asarray((flat == 0).all(axis=1) | np.isnan(flat).all(axis=1))


def _without_empty_rows(evidence: Evidence) -> Iterator[Evidence]:
    """The rows, or heads, before those at the end that hold nothing, as in x-transformers."""
    count = evidence.count
    kept = count - min(_empty_rows(array[::-1]) for array in evidence.arrays)
    if _LEAST_ROWS <= kept < count:
        what = "rows" if len(evidence.shape) == 2 else "heads"
        text = f"before empty {what}: {what} {kept} to {count - 1} hold zeros or NaN"
        yield _form(evidence, tuple(array[:kept] for array in evidence.arrays), text)


def _empty_rows(array: NumberArray) -> int:
    """How many rows from the first on are empty."""
    if not _is_empty(array[:1]).all():
        return 0
    full = np.append(~_is_empty(array), True)
    return int(np.argmax(full))
