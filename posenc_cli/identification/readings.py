"""Ways to read an array as pairs of a cosine and a sine: every table posenc writes, and sinusoids.

A way that is right makes complex numbers cos + i·sin of constant size, or, where amplitudes grow
with the position, of a size whose logarithm is a line.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.rates import signal_of
from posenc_cli.inference.tolerance import UNREDUCED, UNREDUCED_FULL
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.declare import Content
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, RealRows, Reals

_UNEVEN = 0.02
"""Of the size of pairs: more than the rounding of any number format makes them scatter."""
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
    values. ``growth`` is d ln|z|/d row of each pair, where sizes change, and ``start`` ln|z| at
    row 0.
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
    growth: Reals | None = None
    start: Reals | None = None
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

    def seen(self, points: ComplexRows) -> NumberArray:
        """What pairs hold of points on the unit circle."""
        return {"cos": points.real, "sin": points.imag}.get(self.function, points)

    def places(self, width: int) -> dict[str, Integers]:
        """Where in a sinusoidal matrix the sine and the cosine of each pair are read."""
        pair = np.arange(self.count)
        width -= self.odd == "pad"
        if self.columns == "interleaved":
            first, second = 2 * pair, 2 * pair + 1
        elif self.columns == "concat":
            first, second = pair, (width + 1) // 2 + pair
        else:
            share = np.repeat(self.shares, self.shares)  # (pairs,)
            first = pair + np.repeat(np.cumsum(self.shares), self.shares) - share
            second = first + share
        named = ("sin", "cos") if self.order == "sin-first" else ("cos", "sin")
        return dict(zip(named, (first, second), strict=True))


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


def bare_views(evidence: Evidence) -> Iterator[View]:
    """The ways to read a matrix as cosines or sines alone, bare of the other."""
    values = evidence.sample[0]
    if values.ndim != 2 or len(evidence.arrays) != 1 or values.dtype.kind == "c":
        return
    ways: list[tuple[str, str | None, int, NumberArray]] = [("", None, 1, values)]
    ways += [
        ("-full", layout, parts, pairs) for layout, parts, pairs in repetitions(values, evidence)
    ]
    for suffix, layout, parts, pairs in ways:
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
    values = evidence.sample[0]
    if values.ndim != 2 or len(evidence.arrays) != 1 or values.dtype.kind == "c":
        return
    for layout, parts, angles in repetitions(values, evidence):
        yield View(
            "rotary", np.exp(1j * angles), tables=(UNREDUCED_FULL,), layout=layout, parts=parts
        )
    yield View("rotary", np.exp(1j * values), tables=(UNREDUCED,))


def views(evidence: Evidence) -> Iterator[View]:
    """The ways to read the evidence that make waves, the likeliest first."""
    first = evidence.sample[0]
    if first.ndim != 2:
        return
    if first.dtype.kind == "c":
        yield from _wave_views(first, evidence, kind="rotary", tables=("complex",))
        return
    if not evidence.damaged and not np.isfinite(first).all():
        return
    if len(evidence.arrays) == 2:
        yield from _two_tables(evidence)
        return
    yield from _one_matrix(first, evidence)


def _two_tables(evidence: Evidence) -> Iterator[View]:
    cos, sin = evidence.sample
    both = cos + 1j * sin
    repeated = list(repetitions(both, evidence))
    for layout, parts, pairs in repeated:
        yield from _wave_views(
            pairs,
            evidence,
            kind="rotary",
            tables=("cos-full", "sin-full"),
            layout=layout,
            parts=parts,
        )
    if not repeated:
        yield from _wave_views(both, evidence, kind="rotary", tables=("cos", "sin"))


def repetitions(table: NumberArray, evidence: Evidence) -> Iterator[tuple[str, int, NumberArray]]:
    """The layouts in which a full table repeats each value: layout, parts, and the pairs."""
    width = table.shape[1]
    if width % 2:
        return
    ways = [("half", 1), ("interleaved", 1)] + ([("half", 2)] if width % 4 == 0 else [])
    for layout, parts in ways:
        columns = paired_columns(layout, width // 2, parts)  # type: ignore[arg-type]
        first, second = (table[:, list(half)] for half in columns)
        apart = first != second
        if apart.any(axis=1).mean() <= evidence.damaged:
            yield layout, parts, first


def _one_matrix(values: RealRows, evidence: Evidence) -> Iterator[View]:
    width = values.shape[1]
    largest = float(np.abs(values).max())
    half = width // 2
    if width % 2 == 0:
        ways = {
            "cos-sin": (values[:, :half], values[:, half:]),
            "interleaved": (values[:, 0::2], values[:, 1::2]),
        }
        for table, (cos, sin) in ways.items():
            yield from _wave_views(cos + 1j * sin, evidence, kind="rotary", tables=(table,))
    yield from _sinusoidal(values, evidence)
    # Small angles are position × frequency, whatever the positions are.
    if largest <= _LARGEST_ANGLE and (largest >= 1 or are_multiples(values, evidence.rounding)):
        yield View("rotary", np.exp(1j * values), tables=("angles",))


def _sinusoidal(values: RealRows, evidence: Evidence) -> Iterator[View]:
    """The columns of sinusoidal matrices; of an odd width with the column that is missing."""
    width = values.shape[1]
    odds = ("error",) if width % 2 == 0 else ("truncate", "pad", "split")
    for order in ("sin-first", "cos-first"):
        for odd in odds:
            for columns in ("concat", "interleaved"):
                halves = _columns(values, columns, odd)
                if halves is None:
                    continue
                first, second = halves
                pairs = second + 1j * first if order == "sin-first" else first + 1j * second
                yield from _wave_views(
                    pairs, evidence, kind="sinusoidal", columns=columns, order=order, odd=odd
                )
    shares = _shares(values)
    if len(shares) > 1:
        ends = np.cumsum(shares)
        parts = [values[:, 2 * (e - n) : 2 * e] for e, n in zip(ends, shares, strict=True)]
        pairs = np.concatenate(
            [part[:, n:] + 1j * part[:, :n] for part, n in zip(parts, shares, strict=True)], axis=1
        )
        yield from _wave_views(
            pairs, evidence, kind="sinusoidal", columns="by-axis", odd="pad", shares=shares
        )


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


def _columns(values: RealRows, columns: str, odd: str) -> tuple[RealRows, RealRows] | None:
    """The first and the second function of each pair whose two columns are there."""
    width = values.shape[1]
    if odd == "pad":
        if values[:, -1].any() or width < 3:
            return None
        values, width = values[:, :-1], width - 1
    pairs = width // 2
    if pairs == 0:
        return None
    if columns == "interleaved":
        return values[:, 0 : 2 * pairs : 2], values[:, 1::2][:, :pairs]
    first = (width + 1) // 2
    return values[:, :pairs], values[:, first : first + pairs]


def function_views(evidence: Evidence) -> Iterator[View]:
    """Cosines or sines alone, in half or full width, where rows follow one another."""
    values, rows = evidence.sample[0], evidence.rows
    if values.ndim != 2 or len(evidence.arrays) != 1 or values.dtype.kind == "c":
        return
    if not np.isfinite(values).all():
        return
    regular = np.flatnonzero(np.diff(rows) != 1)
    count = int(regular[0]) + 1 if regular.size else rows.size
    if count < 6:
        return
    ways: list[tuple[str, str | None, int, NumberArray]] = [
        ("-full", layout, parts, pairs) for layout, parts, pairs in repetitions(values, evidence)
    ]
    ways.append(("", None, 1, values))
    for suffix, layout, parts, columns in ways[:1]:
        for function in ("cos", "sin"):
            signal = signal_of(columns[:count], function, evidence.rounding)
            if signal is None:
                continue
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
    if evidence.damaged:
        yield from _mostly_wave_views(pairs, np.abs(pairs), evidence.damaged, **rest)
        return
    rounding = 4 * evidence.rounding
    every = np.arange(pairs.shape[0])
    for rows in (every[:: max(1, every.size // _FEW_ROWS)], every):
        sizes = np.abs(pairs[rows])  # (rows, pairs)
        if not np.isfinite(sizes).all() or (sizes <= 0).any():
            return
        middle = float(np.median(sizes))
        is_even = float(np.abs(sizes / middle - 1).max()) <= _UNEVEN
        if not is_even and (rest.get("kind") != "rotary" or every.size < _FEWEST_ROWS):
            return
        slopes, starts, missed = _growth(sizes, evidence.rows[rows])
        if not is_even and missed > 1e-5 + 2 * rounding:
            return
    if is_even:
        yield View(pairs=pairs / sizes, amplitude=middle, **rest)
    else:
        yield View(pairs=pairs / sizes, growth=slopes, start=starts, **rest)


def _growth(sizes: RealRows, rows: Integers) -> tuple[Reals, Reals, float]:
    """The lines that logarithms of sizes follow: slopes and starts (pairs,), the largest miss."""
    logarithms, where = np.log(sizes), rows.astype(np.float64)
    centred = where - where.mean()
    slopes = (centred @ (logarithms - logarithms.mean(axis=0))) / (centred @ centred)
    starts = logarithms.mean(axis=0) - slopes * where.mean()
    missed = np.abs(logarithms - starts - np.multiply.outer(where, slopes)).max()
    return slopes, starts, float(missed)


def _mostly_wave_views(
    pairs: ComplexRows, sizes: RealRows, damaged: float, **rest: Any
) -> Iterator[View]:
    """A view of pairs that are waves in most rows; NaN stands in the others."""
    middle = float(np.nanmedian(sizes))
    even = np.all(np.abs(sizes / middle - 1) <= _UNEVEN, axis=1)  # (rows,)
    if 1 - even.mean() <= damaged:
        yield View(
            pairs=np.where(even.reshape(-1, 1), pairs / sizes, np.nan), amplitude=middle, **rest
        )
