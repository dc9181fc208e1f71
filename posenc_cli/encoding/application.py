"""Encodings applied to vectors: x + PE, or rotate x.

This module applies an encoding to vectors, block by block. In exact arithmetic a result is the real
number x + PE, or x · cos ∓ x' · sin, rounded once. The vectors are taken as stored, and the
encoding before any rounding. Sums and products are computed in double-double with a bound of their
error. They are rounded if both ends of the bound round to the same number; the few others are
settled in integers. In an arithmetic of frameworks, vectors and tables are rounded to the format of
the result, and so are both products and their sum. Code that runs one operation after another
computes the same.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from posenc_cli.encoding.arrays import position_blocks
from posenc_cli.encoding.axial import placed_waves
from posenc_cli.encoding.blocks import formula_rows, row_rule
from posenc_cli.encoding.growing import PAIR_MARGIN, GrowingCells
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.reading import read_vectors
from posenc_cli.formulas.declare import (
    Bias,
    BucketBias,
    Rotation,
    RowLookup,
    Rows,
    Sinusoids,
    Waves,
)
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.bounded import Bounded
from posenc_cli.numerics.double_double import fast_two_sum, two_sum
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT64, REAL_DTYPES, DType
from posenc_cli.numerics.fixed_point import CosOrSin, exact_sum
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.phasors import Phasors
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows, StoredRows
    from posenc_cli.positions import Positions

_BLOCK_VALUES = 1 << 16
"""Values of a block; about fifty arrays of this length exist while it is computed."""
_KEPT = 16
"""Blocks of positions whose waves are kept for the next vectors at those positions."""


class VectorRows(Protocol):
    """Vectors that load only the requested rows into memory."""

    def __getitem__(self, rows: slice, /) -> NumberArray: ...


class Application(Record):
    """An encoding applied to vectors: ``request`` holds the encoding and the positions.

    The vectors have ``columns`` dimensions; the unrotated dimensions pass through. The result is in
    ``dtype``.
    """

    request: Request
    columns: int
    dtype: DType
    engine: Engine

    def blocks(self, vectors: VectorRows, stacks: int = 1) -> Iterator[StoredRows]:
        """Yield the results in order, some rows at a time, in the storage of the format.

        ``vectors`` has one row per position, ``stacks`` times over: (stacks · n, columns), in
        float16, float32 or float64.
        """
        positions = self.request.row_positions()
        count, rows = positions.count, max(1, _BLOCK_VALUES // self.columns)
        rule, kept = self._rule(), LRUCache[Any](_KEPT)
        together = max(1, rows // count)
        for first in range(0, stacks, together):
            stack = min(together, stacks - first)
            start = 0
            for block in position_blocks(positions, rows):
                prepared = kept.get(start, lambda block=block: rule.prepared(block))  # type: ignore[misc]
                begin = first * count + start
                given = vectors[begin : begin + stack * block.size]
                x = given.astype(np.float64).reshape(stack, block.size, self.columns)
                with np.errstate(all="ignore"), self.request.scheme.answerable():
                    yield rule.applied(x, prepared, block).reshape(-1, self.columns)
                start += block.size

    def _rule(self) -> _Rule:
        content = self.request.content
        if self.engine.arithmetic != "exact":
            return _FrameworkRule(self)
        match content:
            case Rotation():
                return _RotatedPairs(content, self.dtype)
            case Sinusoids():
                return _SumWithWaves(content, self.dtype)
            case Rows():
                return _SumWithRows(content, self.request.encoding.lookup, self.dtype)
            case Bias() | BucketBias():
                raise TypeError(f"a {type(content).__name__} applies to no vectors")


class _Rule(Protocol):
    """A rule that computes results, in their storage, from vectors (stacks, positions, columns)."""

    def prepared(self, positions: Integers) -> Any:
        """Return everything that depends on the positions alone."""

    def applied(self, x: RealRows, prepared: Any, positions: Integers) -> StoredRows:
        """Return the resulting vectors."""


def rotated_pair(
    a: Any, b: Any, cos: Any, sin: Any, rounded: Callable[[Any], Any] = lambda values: values
) -> tuple[Any, Any]:
    """Return pairs (a, b) rotated by an angle, each operation ``rounded``.

    The pairs may be arrays, tensors or `Bounded`.

    >>> rotated_pair(1.0, 2.0, 0.0, 1.0)
    (-2.0, 1.0)
    """
    return (
        rounded(rounded(a * cos) - rounded(b * sin)),
        rounded(rounded(b * cos) + rounded(a * sin)),
    )


Term = tuple[float, "CosOrSin", int]
"""A coefficient, a function, and the index of a wave."""

_FARTHEST = 5000
"""Past this decimal exponent of an amplitude, a product is infinite or zero in any format."""


class BoundedWaves:
    """scale · cos and scale · sin of waves at positions."""

    def __init__(self, waves: Waves) -> None:
        waves = placed_waves(waves)
        self._coordinates = waves.coordinates
        self._frequencies = waves.exact_frequencies()
        self._count = waves.count
        self._scale = exact.asarray(waves.scale)[0]
        self._phasors = Phasors(self._frequencies, scale=self._scale)
        self._rates = np.array([abs(float(frequency)) for frequency in self._frequencies])
        self._growing = None if waves.growth is None else GrowingCells(waves, waves.growth)

    def _places(self, positions: Integers) -> Integers:
        """Return the place of each wave: (positions, 1) if it is the position, else (…, waves)."""
        coordinates = self._coordinates
        if coordinates is None or coordinates.at is None:
            return positions[:, None]
        return np.stack(coordinates.at(positions))[list(coordinates.axes)].T

    def cells(self, positions: Integers) -> tuple[Bounded, Bounded]:
        """Return cosines and sines of all waves at some positions.

        The error of a point is that of :mod:`posenc_cli.numerics.phasors`; angles of 0 have none.

        Shape: (positions, waves) each.
        """
        if self._growing is not None:
            cosine, sine = self._growing.bounded(positions)
            return cosine, sine
        places = self._places(positions)
        sizes = np.abs(places)
        cosine_high, cosine_low, sine_high, sine_low = (
            self._phasors.points(sizes[:, 0])
            if places.shape[1] == 1
            else self._phasors.points(sizes, np.arange(self._count))
        )
        angles, sign = sizes * self._rates, np.where(places < 0, -1.0, 1.0)
        magnitude = abs(float(self._scale))
        level = float(bounded.numbers([self._scale]).error[0])

        def error(high: RealRows) -> RealRows:
            return PAIR_MARGIN * np.where(angles < 0.5, np.abs(high), magnitude)

        cosine_error = np.where(angles == 0, level, error(cosine_high))
        return (
            Bounded(cosine_high, cosine_low, cosine_error),
            Bounded(sine_high * sign, sine_low * sign, error(sine_high)),
        )

    def exact_sum(
        self, constant: float, terms: Sequence[Term], position: int, dtype: DType
    ) -> float:
        """Return constant + Σ coefficient · wave at a position, correctly rounded to ``dtype``."""
        if self._growing is None:
            places = self._places(np.array([position]))[0]
            scale = Fraction(self._scale)
            parts = [
                (
                    Fraction(coefficient) * scale,
                    function,
                    Fraction(self._frequencies[wave]) * int(places[wave % places.size]),
                )
                for coefficient, function, wave in terms
            ]
            return exact_sum(Fraction(constant), parts, dtype=dtype)
        total = Fraction(constant)
        for coefficient, function, wave in terms:
            value = self._growing.exact_value(position, wave, sine=function == "sin")
            if not coefficient or value.is_zero() or value.adjusted() < -_FARTHEST:
                continue
            if value.is_infinite() or value.adjusted() > _FARTHEST:
                value = Decimal(f"{'-' if value.is_signed() else ''}1e{_FARTHEST}")
            total += Fraction(coefficient) * Fraction(value)
        return exact_sum(total, (), dtype=dtype)


class _RotatedPairs:
    """Rotates pairs of dimensions; each result is correctly rounded."""

    def __init__(self, content: Rotation, dtype: DType) -> None:
        self._waves, self._dtype = BoundedWaves(content.waves), dtype
        columns = paired_columns(content.layout, content.waves.count, content.blocks)
        self._first, self._second = map(list, columns)

    def prepared(self, positions: Integers) -> tuple[Bounded, Bounded]:
        return self._waves.cells(positions)

    def applied(
        self, x: RealRows, prepared: tuple[Bounded, Bounded], positions: Integers
    ) -> StoredRows:
        cos, sin = prepared
        out = narrow(x, None, self._dtype)  # (stacks, positions, columns)
        a, b = x[..., self._first], x[..., self._second]
        finite = np.isfinite(a) & np.isfinite(b)
        nothing = np.zeros(a.shape)
        known_a, known_b = (
            Bounded(np.where(finite, part, 0.0), nothing, nothing) for part in (a, b)
        )
        rotated = rotated_pair(known_a, known_b, cos, sin)
        plain = rotated_pair(a, b, cos.high, sin.high)
        still, level = _is_zero(sin), _is_zero(cos)
        for columns, cells, rough, (along, across), sign in (
            (self._first, rotated[0], plain[0], (a, b), -1.0),
            (self._second, rotated[1], plain[1], (b, a), 1.0),
        ):
            values, proven = cells.rounded(self._dtype)
            known = ((along == 0) | level) & ((across == 0) | still) | ~finite
            values = np.where(known, narrow(rough, None, self._dtype), values)
            for stack, row, wave in _places(~(proven | known)):
                terms: list[Term] = [
                    (float(along[stack, row, wave]), "cos", wave),
                    (sign * float(across[stack, row, wave]), "sin", wave),
                ]
                settled = self._waves.exact_sum(0.0, terms, int(positions[row]), self._dtype)
                values[stack, row, wave] = narrow(np.array([settled]), None, self._dtype)[0]
            out[..., columns] = values
        return out


class _Sum:
    """Adds an encoding to columns; each result is correctly rounded."""

    _dtype: DType

    def applied(self, x: RealRows, prepared: Bounded, positions: Integers) -> StoredRows:
        values, proven = _added(x, prepared, self._dtype)
        for place in _places(~proven):
            settled = self._exact_sum(float(x[place]), prepared, positions, place[1:])
            values[place] = narrow(np.array([settled]), None, self._dtype)[0]
        return values

    def _exact_sum(
        self, x: float, prepared: Bounded, positions: Integers, place: tuple[int, ...]
    ) -> float:
        """Return x plus the encoding at a position and a column, correctly rounded."""
        raise NotImplementedError


class _SumWithWaves(_Sum):
    def __init__(self, content: Sinusoids, dtype: DType) -> None:
        self._waves, self._dtype = BoundedWaves(content.waves), dtype
        self._width = content.width
        self._placements = [p for p in content.columns().placements if p.function != "zero"]

    def prepared(self, positions: Integers) -> Bounded:
        cos, sin = self._waves.cells(positions)
        parts = [np.zeros((positions.size, self._width)) for _ in range(3)]
        for placement in self._placements:
            waves = sin if placement.function == "sin" else cos
            for part, values in zip(parts, (waves.high, waves.low, waves.error), strict=True):
                part[:, placement.columns] = values[:, placement.waves]
        return Bounded(*parts)

    def _exact_sum(
        self, x: float, _prepared: Bounded, positions: Integers, place: tuple[int, ...]
    ) -> float:
        row, column = place
        terms: list[Term] = []
        for placement in self._placements:
            columns = range(self._width)[placement.columns]
            if column in columns:
                wave = range(self._width)[placement.waves][columns.index(column)]
                terms = [(1.0, placement.function, wave)]  # type: ignore[list-item]
        return self._waves.exact_sum(x, terms, int(positions[row]), self._dtype)


class _SumWithRows(_Sum):
    def __init__(self, content: Rows, lookup: RowLookup | None, dtype: DType) -> None:
        self._content, self._lookup, self._dtype = content, lookup, dtype

    def prepared(self, positions: Integers) -> Bounded:
        high, low = formula_rows(self._content, self._lookup, "exact", positions)
        low = np.zeros_like(high) if low is None else low
        return Bounded(high, low, np.zeros_like(high))

    def _exact_sum(
        self, x: float, prepared: Bounded, _positions: Integers, place: tuple[int, ...]
    ) -> float:
        terms = (x, prepared.high[place], prepared.low[place])
        return exact_sum(
            sum((Fraction(float(term)) for term in terms), Fraction(0)), (), dtype=self._dtype
        )


class _FrameworkRule:
    """Computes like frameworks: every number and operation in the format of the result."""

    def __init__(self, application: Application) -> None:
        request, self._dtype = application.request, application.dtype
        content = request.content
        self._columns: list[list[int]] | None = None
        match content:
            case Rotation():
                columns = paired_columns(content.layout, content.waves.count, content.blocks)
                self._columns = [list(part) for part in columns]
        self._rows = row_rule(
            content,
            request.encoding.lookup,
            "cos-sin" if self._columns else None,
            precision=Precision.of(self._dtype, None),
            engine=application.engine,
        )

    def prepared(self, positions: Integers) -> RealRows:
        return widen(self._rows(positions), self._dtype)

    def applied(self, x: RealRows, prepared: RealRows, _positions: Integers) -> StoredRows:
        x = self._rounded(x)
        if self._columns is None:
            return narrow(x + prepared, None, self._dtype)
        first, second = self._columns
        cos, sin = prepared[:, : len(first)], prepared[:, len(first) :]
        out = x.copy()
        out[..., first], out[..., second] = rotated_pair(
            x[..., first], x[..., second], cos, sin, self._rounded
        )
        return narrow(out, None, self._dtype)

    def _rounded(self, values: RealRows) -> RealRows:
        """Return values rounded to the format, as float64.

        A sum or product of two such values is exact or rounds the same way in float64, which has
        more than twice the digits of the narrower formats.
        """
        return widen(narrow(values, None, self._dtype), self._dtype)


def _is_zero(numbers: Bounded) -> Flags:
    return np.asarray((numbers.high == 0) & (numbers.error == 0))


def _added(x: RealRows, rows: Bounded, dtype: DType) -> tuple[StoredRows, Flags]:
    """Return vectors plus rows, and which sums are proven; sums that are not finite are."""
    high, rest = two_sum(x, rows.high)
    rest, dropped = two_sum(rest, rows.low)
    high, rest = fast_two_sum(high, rest)
    values, proven = Bounded(high, rest, np.abs(dropped) + rows.error).rounded(dtype)
    finite = np.isfinite(x) & np.isfinite(rows.high)
    plain = narrow(x + rows.high, None, dtype)
    return np.where(finite & (rest + dropped + rows.error != 0), values, plain), proven | ~finite


def _places(flags: Flags) -> Iterator[tuple[int, ...]]:
    """Yield the places where flags are set."""
    return zip(*map(np.ndarray.tolist, np.nonzero(flags)), strict=True)


class GivenVectors(Record):
    """Vectors (…, n, columns) as rows, and their number format."""

    shape: tuple[int, ...]
    rows: VectorRows
    dtype: DType

    @classmethod
    def read(cls, path: str) -> GivenVectors:
        """Return the vectors in a file.

        Raises: InvalidInput, Unavailable: as `read_vectors`.
        """
        shape, rows = read_vectors(path)
        return cls(shape, rows, REAL_DTYPES[rows.dtype])

    @classmethod
    def drawn(cls, shape: tuple[int, int], seed: int, dtype: DType) -> GivenVectors:
        """Return vectors of independent normal(0, 1) numbers, rounded to a format."""
        return cls(shape, _DrawnRows(DrawnTable(shape[1], seed, 1.0), dtype, shape[0]), dtype)

    def matrix(self, *, wide: bool) -> Matrix:
        """Return the vectors unchanged as a matrix ``x``; ``wide`` stores bfloat16 as float32."""
        stored = FLOAT32 if wide and self.dtype is BFLOAT16 else self.dtype
        return Matrix(self.shape, stored, lambda: self._blocks(stored), {}, name="x")

    def _blocks(self, stored: DType) -> Iterator[StoredRows]:
        count = int(np.prod(self.shape[:-1]))
        rows = max(1, _BLOCK_VALUES // self.shape[-1])
        for start in range(0, count, rows):
            block = self.rows[start : min(start + rows, count)]
            yield narrow(block.astype(np.float64), None, stored)


class _DrawnRows(Record):
    """Rows of a randomly initialized table in a number format, computed when they are requested."""

    table: DrawnTable
    dtype: DType
    count: int

    def __getitem__(self, rows: slice) -> NumberArray:
        drawn = self.table(np.arange(*rows.indices(self.count)))
        return widen(narrow(drawn, None, self.dtype), self.dtype)


def positions_matrix(positions: Positions) -> Matrix:
    """Return the positions as an array: int64, or float64 if some are not integers."""
    parts = positions.denominator
    stored = INT64 if parts == 1 else FLOAT64

    def blocks() -> Iterator[StoredRows]:
        for block in position_blocks(positions, _BLOCK_VALUES):
            yield block if parts == 1 else block / float(parts)

    return Matrix((positions.count,), stored, blocks, {}, name="positions")
