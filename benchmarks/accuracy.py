"""Measure the errors of each contender with mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import installed
from benchmarks.peers import LIBRARIES, as_float64, textbook_numpy, textbook_torch
from benchmarks.posenc_tables import BASE, DIM, engine, rope_plan
from posenc_cli.backends import registry
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.positions import Positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.sizes import Sizes
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.numerics.dtypes import DType

POSITIONS = (4095, 65535, 131071, 1048575, 2**24 + 1, 2**31, 2**53 - 1)
SEED = 20170612
PRECISION = 400
"""Bits: the largest angle has 53 before the point."""

HOW = (
    "An error is the largest absolute error of cosines and sines (128 columns, base 500000), "
    "compared with mpmath at {bits} bits. Each error covers the position in the heading and "
    "{count} random positions among the 1024 before this position (seed {seed}). A value is wrong "
    "if it is not correctly rounded to its number format. The rows “posenc, in float64”, “posenc, "
    "in float32” and “posenc, in bfloat16” use `--arithmetic` with the format in their name."
)

Values = Callable[[Sequence[int]], "NDArray[np.float64]"]


@dataclass(frozen=True)
class Found:
    """The errors of entries near a position: absolute, in ulp, and their number."""

    position: int
    cells: int
    max_error: float
    max_ulp: float
    wrong: int


@dataclass(frozen=True)
class Contender:
    """Code that computes cosines, then sines, of positions, stored in ``dtype``.

    ``missing`` names what is not installed; ``last`` is the last supported position.
    """

    name: str
    dtype: str
    values: Values
    base: float = BASE
    last: int = 2**53
    missing: str | None = None


@dataclass(frozen=True)
class Accuracy:
    """A contender's errors near each position, or the reason why there are none."""

    name: str
    dtype: str
    found: tuple[Found, ...]
    note: str = ""


@dataclass(frozen=True)
class Judged:
    """The accuracy of all contenders, and the method."""

    title: str
    how: str
    rows: tuple[Accuracy, ...]


def measured(sizes: Sizes) -> Judged:
    """Return the errors of posenc in each arithmetic and format, of textbook code and libraries."""
    how = HOW.format(count=sizes.neighbours, seed=SEED, bits=PRECISION)
    rows = tuple(_judged(each, sizes.neighbours) for each in contenders())
    return Judged("Accuracy", how, rows)


def contenders() -> Iterator[Contender]:
    """Yield all contenders, including those that are not installed."""
    for backend in registry.BUILT_IN:
        for dtype in REAL_DTYPES:
            yield _posenc(f"posenc {backend}", dtype, engine(backend))
    for arithmetic in ("float64", "float32", "bfloat16"):
        used = engine("numpy", arithmetic=arithmetic)
        yield _posenc(f"posenc, in {arithmetic}", arithmetic, used)
    for compute, stored in (("float32", "float32"), ("float64", "float32"), ("float64", "float64")):
        table = partial(textbook_numpy, compute=compute, stored=stored)
        yield Contender(f"textbook NumPy {compute}", stored, partial(_numpy, table))
    missing = None if installed("torch") else "torch is not installed"
    for stored in ("float32", "bfloat16"):
        table = partial(textbook_torch, stored=stored)
        yield Contender(
            "textbook torch float32", stored, partial(_torch, table, as_float64), missing=missing
        )
    for library in LIBRARIES:
        yield Contender(
            library.name,
            library.dtype,
            partial(_torch, library.table, library.pairs),
            base=library.base,
            last=library.last,
            missing=library.missing,
        )


def _posenc(name: str, dtype: str, used: Engine | None) -> Contender:
    if used is None:
        return Contender(name, dtype, _nothing, missing="not available")
    return Contender(name, dtype, partial(_drawn, used, dtype))


def _nothing(_: Sequence[int]) -> NDArray[np.float64]:
    return np.empty(0)


def _drawn(used: Engine, dtype: str, positions: Sequence[int]) -> NDArray[np.float64]:
    plan = rope_plan(Positions.parse(",".join(map(str, positions))), dtype=dtype)
    values = np.concatenate(list(plan.matrix(used).blocks()))
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def _numpy(
    table: Callable[[NDArray[np.int64]], NDArray[Any]], positions: Sequence[int]
) -> NDArray[np.float64]:
    return table(np.array(positions, np.int64)).astype(np.float64)


def _torch(
    table: Callable[[NDArray[np.int64]], Any],
    pairs: Callable[[Any], NDArray[np.float64]],
    positions: Sequence[int],
) -> NDArray[np.float64]:
    return pairs(table(np.array(positions, np.int64)))


def _judged(contender: Contender, neighbours: int) -> Accuracy:
    if contender.missing:
        return Accuracy(contender.name, contender.dtype, (), contender.missing)
    form = REAL_DTYPES[contender.dtype]
    found = []
    for position in POSITIONS:
        if position > contender.last:
            break
        near = _near(position, neighbours)
        truth = _truth(near, contender.base)
        values = contender.values(near)
        found.append(_found(position, values, truth, truth.rounded(form), form))
    note = "" if len(found) == len(POSITIONS) else "computes all positions up to the last"
    return Accuracy(contender.name, contender.dtype, tuple(found), note)


def _near(position: int, neighbours: int) -> tuple[int, ...]:
    """Return the position and others of the 1024 before it, in ascending order."""
    drawn = np.random.default_rng([SEED, position]).choice(1024, neighbours, replace=False)
    return (*sorted(position - 1 - int(each) for each in drawn), position)


def _found(
    position: int,
    values: NDArray[np.float64],
    truth: Truth,
    rounded: NDArray[np.float64],
    form: DType,
) -> Found:
    # The first difference is exact or far larger than what its rounding loses.
    errors = np.abs((values - truth.high) - truth.low)
    return Found(
        position=position,
        cells=values.size,
        max_error=float(errors.max()),
        max_ulp=float((errors / _units(truth.high, form)).max()),
        wrong=int((values != rounded).sum()),
    )


def _units(values: NDArray[np.float64], form: DType) -> NDArray[np.float64]:
    """Return the unit in the last place of a format at each value."""
    exponents = np.maximum(np.frexp(values)[1] - 1, form.min_exponent)
    units: NDArray[np.float64] = np.ldexp(1.0, exponents - form.precision + 1)
    return units


@dataclass(frozen=True)
class Truth:
    """Cosines, then sines, as mpmath's numbers, and as unevaluated sums of two float64.

    Shape: ``exact`` is flat; ``high`` and ``low`` are (positions, DIM).
    """

    exact: Sequence[Any]
    high: NDArray[np.float64]
    low: NDArray[np.float64]

    def rounded(self, form: DType) -> NDArray[np.float64]:
        """Return each value, rounded to the nearest of a format, ties to even."""
        mpmath = import_module("mpmath")
        units = _units(self.high, form)
        with mpmath.workprec(PRECISION):
            pairs = zip(self.exact, map(float, units.flat), strict=True)
            values = [float(mpmath.nint(cell / unit) * unit) for cell, unit in pairs]
        return np.array(values).reshape(self.high.shape)


@cache
def _truth(positions: tuple[int, ...], base: float) -> Truth:
    mpmath = import_module("mpmath")
    with mpmath.workprec(PRECISION):
        frequencies = [mpmath.mpf(base) ** (mpmath.mpf(-2 * i) / DIM) for i in range(DIM // 2)]
        cells = []
        for position in positions:
            pairs = [mpmath.cos_sin(position * frequency) for frequency in frequencies]
            cells.append([cos for cos, _ in pairs] + [sin for _, sin in pairs])
        high = np.array([[float(cell) for cell in row] for row in cells])
        low = [
            [float(cell - mpmath.mpf(float(near))) for cell, near in zip(row, nearest, strict=True)]
            for row, nearest in zip(cells, high, strict=True)
        ]
    return Truth([cell for row in cells for cell in row], high, np.array(low))
