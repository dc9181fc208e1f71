"""Compute the expected values of a subject that does not rotate, also for a changed reference.

Four forms: ``rows`` (n, d) of positions or offsets, ``scores`` (heads, queries, keys), ``slopes``
(heads,) and ``buckets`` (n,). Each value belongs to a place and can be computed at any places. So a
change of the reference is tried at a few of them, and then compared everywhere.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.encoding.axial import placed_waves
from posenc_cli.encoding.blocks import row_rule
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.alibi import exact_slopes
from posenc_cli.formulas.declare import Content, RowLookup, Scheme, Waves
from posenc_cli.inference.tolerance import Tolerance, ToleranceRule, rounded_to, smallest, unit
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.halves import CUT_BFLOAT16, round_to_half
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.formulas.parameters import Parameter
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows, Reals

Form = Literal["rows", "scores", "slopes", "buckets", "rotations"]

_SCORE_FORMULA = 3e-6
"""Relative error of a score that float32 code may compute in several steps."""
_SMALL_SCORE = 1e-3
"""Share of a head's largest score; smaller scores may have the error of one this large."""
_ARITHMETIC = 4
"""Multiple of posenc's own float32 error: other code rounds in another order."""
_LOOKED_UP = 4
"""Roundings of a row that is looked up, or computed in a step or two."""
_UNIT_FLOAT32 = 2.0**-24
_BLOCK = 1 << 20
"""Values that are compared at a time."""
_SAMPLED = {"rows": 40, "scores": 20, "buckets": 1 << 14}
"""Numbers of places at which a change is tried before it is compared everywhere, by form."""


class ValuePlaces(Record):
    """Places of values: positions of rows or queries, or heads (n,); and positions of keys.

    Scores have every pair of a query and a key. Buckets have the pairs at equal indices.
    """

    at: NumberArray
    keys: NumberArray = fresh(lambda: np.empty(0, np.int64))

    def moved(self, move: Callable[[NumberArray], NumberArray]) -> ValuePlaces:
        """Return the places with mapped positions, also of keys."""
        return ValuePlaces(move(self.at), move(self.keys))

    @property
    def later(self) -> Flags:
        """Mask of the keys that come after the query. Shape: (queries, keys)."""
        return np.asarray(self.keys[None] > self.at[:, None])


class Change(Record):
    """One difference from a reference, in words; every other field is optional.

    ``params`` are other parameters. ``rates`` maps the right frequencies to others. ``places`` maps
    places to the ones whose values are found there. ``make`` computes values in place of the
    formula: for rotations, a `PairMap`. ``values`` changes computed values one by one. ``order``
    maps each place to the column of rows, or the head of scores, that it holds. ``rounding`` is a
    format to which values were rounded. ``code`` and ``remedy`` replace those of the table's row. A
    ``general`` change is reported only if no other change explains the values.
    """

    text: str
    params: Mapping[str, Any] = fresh(dict)
    rates: Callable[[Reals], Reals] | None = None
    places: Callable[[ValuePlaces, Expected], ValuePlaces] | None = None
    make: Callable[[Any], Any] | None = None
    values: Callable[[NumberArray, Expected], NumberArray] | None = None
    order: Integers | None = None
    rounding: str = ""
    code: str = ""
    remedy: str = ""
    general: bool = False


class Expected(Record):
    """A reference in one form, and the subject's values ``found`` at its places.

    ``parts``: places count 1/parts of a position. ``dtype`` is the subject's format. ``lookup``
    reads a learned table, ``other_tables`` returns the others in its file, by name. ``head`` is the
    head of the scores, None for all. ``vectors`` (n, d) are the inputs of the addition, and
    ``slack`` is the error that this allows. ``rates`` maps frequencies to others. ``rounding`` is a
    format to which values are known to be rounded. ``gaps``: NaN in ``found`` is not compared.
    """

    form: Form
    source: Scheme | BucketRule
    params: Mapping[str, Any]
    places: ValuePlaces
    found: NumberArray
    dtype: str
    rule: ToleranceRule = "auto"
    seq_len: int | None = None
    parts: int = 1
    lookup: RowLookup | None = None
    other_tables: Callable[[], Mapping[str, NumberArray]] = dict
    head: int | None = None
    vectors: NumberArray | None = None
    slack: float = 0.0
    rates: Callable[[Reals], Reals] | None = None
    rounding: str = ""
    gaps: bool = False

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Parameters that the source declares."""
        return self.source.parameters

    @cached_property
    def content(self) -> Content:
        """Content of the scheme with these parameters.

        Raises: InvalidInput if it has none with them.
        """
        key = tuple((name, value) for name, value in self.params.items() if value is not None)
        return _cached_content(self.scheme, key, self.seq_len)

    @property
    def scheme(self) -> Scheme:
        """The source, which is a rule for buckets only in the form of buckets."""
        assert isinstance(self.source, Scheme)
        return self.source

    @property
    def declared_waves(self) -> Waves:
        """The waves that the scheme declares, if it has any."""
        assert self.content.waves is not None
        return self.content.waves

    @property
    def is_waves(self) -> bool:
        """Whether the values are sines and cosines in columns."""
        return self.form == "rows" and self.content.waves is not None

    @property
    def is_offset(self) -> bool:
        """Whether rows or scores belong to pairs of a query and a key."""
        return self.form in ("scores", "buckets") or (
            isinstance(self.source, Scheme) and self.source.kind == "relative"
        )

    @property
    def positions(self) -> NumberArray:
        """Positions of the places, as numbers of whole positions."""
        return self.places.at if self.parts == 1 else self.places.at / self.parts

    def right(self) -> NumberArray:
        """Return the expected values, exactly rounded to float64."""
        if self.form == "buckets":
            return bucket_numbers(self.source, self.params, self.places, self.seq_len)
        if self.form == "slopes":
            heads, bias, convention = (
                self.params[name] for name in ("heads", "max_bias", "slopes")
            )
            slopes_of_all = exact_slopes(heads, max_bias=bias, rule=convention)
            slopes: NumberArray = np.asarray(slopes_of_all)[self.places.at]
            return round_to_half(slopes, self.rounding) if self.rounding else slopes
        if self.form == "scores":
            return self._scores("exact")
        content = self.content.in_parts(self.parts)
        precision = Precision.of(FLOAT64, None)
        rule = row_rule(content, self.lookup, None, precision=precision, engine=Engine())
        at = self.places.at
        with self.scheme.answerable():
            if content.weights is None or content.farthest is not None:
                return np.asarray(rule(at.astype(np.int64)), np.float64)
            last = content.capacity.positions if content.capacity else content.weights.rows
            exists = (at >= -(self.params.get("offset") or 0)) & (at < last)
            rows = np.full((at.size, content.width), np.nan)
            rows[exists] = rule(at[exists].astype(np.int64))
            return rows

    def _scores(self, arithmetic: Literal["exact", "float64", "float32"]) -> RealRows:
        content, precision = self.content, Precision.of(FLOAT64, None)
        assert content.heads is not None
        rule = score_rule(
            content, self.lookup, precision=precision, engine=Engine(arithmetic=arithmetic)
        )
        queries, keys = (each.astype(np.int64) for each in (self.places.at, self.places.keys))
        with self.scheme.answerable():
            head_numbers = self.select_heads(range(content.heads))
            heads = scores_of_heads(content, rule, head_numbers, queries, keys)
            return np.stack([np.asarray(scores, np.float64) for scores in heads])

    def select_heads(self, values: Any) -> Any:
        """Return the part of a per-head sequence that is compared."""
        return values if self.head is None else values[self.head : self.head + 1]

    @cached_property
    def frequencies(self) -> Reals:
        """Frequencies of waves in radians per position, in float64. Shape: (waves,)."""
        with np.errstate(all="ignore"):
            right = np.asarray(self.declared_waves.frequencies(np), np.float64)
            return right if self.rates is None else self.rates(right)

    def angle_positions(self, axes: tuple[int, ...] | None = None) -> NumberArray:
        """Return the positions or coordinates that angles are multiples of: (n, waves) or (n, 1).

        ``axes`` gives, for each axis, the axis whose coordinate is used instead.
        """
        coordinates = self.declared_waves.coordinates
        if coordinates is None or coordinates.at is None:
            return self.positions[:, None]
        at = self.positions
        coordinates_by_axis = coordinates.at(
            at if coordinates.domain == "real" else at.astype(np.int64)
        )
        order = axes or tuple(range(len(coordinates_by_axis)))
        return np.stack([coordinates_by_axis[order[axis]] for axis in coordinates.axes], axis=1)

    def placed(self, cos: RealRows, sin: RealRows) -> RealRows:
        """Put cosines and sines (n, waves) into their columns: (n, columns)."""
        content = self.content
        rows = np.zeros((cos.shape[0], content.width))
        for placement in content.columns().placements:
            if placement.function != "zero":
                waves = sin if placement.function == "sin" else cos
                rows[:, placement.columns] = waves[:, placement.waves]
        return rows

    @property
    def wave_columns(self) -> tuple[Integers, Integers]:
        """Columns of the sine and of the cosine of each wave; -1 if there is none."""
        content = self.content
        columns = {name: np.full(self.declared_waves.count, -1) for name in ("sin", "cos")}
        for placement in content.columns().placements:
            if placement.function != "zero":
                places = np.arange(content.width)[placement.columns]
                columns[placement.function][placement.waves] = places
        return columns["sin"], columns["cos"]

    def angles(self) -> RealRows:
        """Return the angles of waves: (n, waves)."""
        angles: RealRows = self.angle_positions() * self.frequencies
        return angles

    def waves(self, angles: RealRows) -> RealRows:
        """Return the rows of waves at angles."""
        return self.placed(np.cos(angles), np.sin(angles))

    def with_change(self, change: Change) -> Expected:
        """Return the reference with a change's parameters, frequencies, rounding and places."""
        other = replace(
            self,
            rates=change.rates or self.rates,
            rounding=change.rounding or self.rounding,
            places=change.places(self.places, self) if change.places else self.places,
        )
        return replace(other, params={**self.params, **change.params}) if change.params else other

    @property
    def absent(self) -> Flags:
        """Mask of the found values that are not compared."""
        return np.isnan(self.found) & self.gaps

    def changed(self, change: Change) -> NumberArray:
        """Return the values of a changed reference at these places.

        Raises: InvalidInput if it has none.
        """
        other = self.with_change(change)
        if change.make is not None:
            values = change.make(other)
        elif other.is_waves:
            values = other.waves(other.angles())
        elif other.form == "scores":
            values = other._scores("float64")  # noqa: SLF001 - of the same class
        else:
            values = other.right()
        return self.altered(values, change)

    def altered(self, values: NumberArray, change: Change) -> NumberArray:
        """Apply the order and values of a change to computed values."""
        if change.order is not None:
            values = values[:, change.order] if self.form == "rows" else values[change.order]
        return values if change.values is None else change.values(values, self)

    def allowed(self, right: NumberArray, *, change: Change | None = None) -> NumberArray:
        """Return the error that right values may have in the subject's format, shaped as ``right``.

        With a ``change``, its own frequencies and positions set the error.
        """
        if self.form == "buckets":
            return np.zeros(right.shape)
        if isinstance(self.rule, float):
            return np.full(right.shape, max(self.rule, smallest("float32")))
        other = self if change is None else self.with_change(change)
        if other.is_waves:
            return other.wave_tolerance(change)
        stored = rounded_to(self.rule, self.dtype)
        rounding, floor = unit(stored), smallest(stored)
        if self.form == "slopes":
            share = slope_tolerance(other.params["heads"], self.rule, self.dtype)
        elif self.form == "scores":
            share, floor = 2 * max(rounding, _UNIT_FLOAT32) + _SCORE_FORMULA, max(floor, 1e-30)
            finite = np.where(np.isfinite(right), np.abs(right), 0)
            largest = finite.max(axis=(1, 2), keepdims=True)
            right = np.maximum(np.abs(right), _SMALL_SCORE * largest)
        else:
            share = _LOOKED_UP * max(rounding, _UNIT_FLOAT32)
        errors: NumberArray = share * np.abs(right) + floor
        return errors

    def near(self, values: NumberArray, change: Change) -> Flags:
        """Return which found values are those of a change; NaN equals NaN."""
        found = np.asarray(self.found, np.float64)
        allowed = np.abs(self.allowed(values, change=change)) + self.slack
        rounding = change.rounding or self.rounding
        share = 0.0
        if rounding:  # truncation moves a value by up to twice as much, and toward 0
            half = rounding.split()[0]
            share = (2.02 if rounding == CUT_BFLOAT16 else 1.01) * unit(half)
            allowed = allowed + smallest(half)
        added = 0.0 if self.vectors is None or not change.rounding else self.vectors
        size = np.abs(values + added)  # the sum was rounded, or the rows before the addition
        limit = allowed + share * (size if self.vectors is None else size + np.abs(values))
        close = np.isfinite(values) & (np.abs(found - values) <= limit)
        if rounding == CUT_BFLOAT16:
            close &= np.abs(found + added) <= size + allowed
        identical = (found == values) | (np.isnan(found) & np.isnan(values)) | self.absent
        return np.asarray(close | (identical & ~np.isfinite(found)))

    def wave_tolerance(self, change: Change | None) -> RealRows:
        """Return the allowed error of waves: a share of each column's angle, and a floor."""
        scale = float(self.declared_waves.scale)
        tolerance = Tolerance.of(self.rule, dtype=self.dtype, roundings=1, amplitude=scale)
        positions, rates = np.abs(self.angle_positions()), self.frequencies
        if change is not None and change.make is not None:  # may use the position of another axis
            positions = positions.max(axis=1, keepdims=True)
        cells = np.broadcast_to(tolerance.cells(positions, rates), (len(positions), rates.size))
        allowed = self.placed(cells, cells)
        if change is not None:
            altered = np.abs(self.altered(allowed, change) - self.altered(0 * allowed, change))
            allowed = altered if np.isfinite(altered).all() else allowed.max(axis=1, keepdims=True)
        return np.maximum(allowed, tolerance.floor)

    def tolerated(self, right: NumberArray) -> NumberArray:
        """Return the error that right values may have, including that of float32 arithmetic."""
        allowed = self.allowed(right) + self.slack
        if self.form == "scores" and self.rule == "auto":
            allowed = allowed + _ARITHMETIC * np.abs(self._scores("float32") - right)
        return allowed

    def at_places(self, rows: Any, keys: Any = slice(None)) -> Expected:
        """Return the reference at some rows, queries, heads or pairs; for scores, at some keys."""
        scores = self.form == "scores"
        own = keys if scores else rows if self.form == "buckets" else slice(None)
        places = ValuePlaces(self.places.at[rows], self.places.keys[own])
        found = self.found[:, rows][:, :, keys] if scores else self.found[rows]
        vectors = self.vectors if self.vectors is None else self.vectors[rows]
        return replace(self, places=places, found=found, vectors=vectors)

    def sample(self, wrong: Integers | Sequence[int] = ()) -> Expected:
        """Return the reference at some places: at both ends, and at rows known to be ``wrong``."""
        most = _SAMPLED.get(self.form)
        if most is None:
            return self
        rows = np.union1d(_rows_to_sample(self.places.at.size, most), np.asarray(wrong, np.int64))
        return self.at_places(rows, _rows_to_sample(self.places.keys.size, most))


def blocks_of(e: Expected) -> Iterator[Expected]:
    """Yield the reference at all of its places, in blocks."""
    count = e.places.at.size
    step = max(1, _BLOCK // max(1, e.found.size // max(1, count)))
    for start in range(0, count, step):
        yield e.at_places(slice(start, start + step))


def _rows_to_sample(count: int, most: int) -> Integers:
    """Return indices of ``count`` rows: the first ones, and some spread up to the last."""
    return np.array(sorted({*range(min(count, most // 2)), *spread(count, most // 2)}), np.int64)


@lru_cache(maxsize=64)
def _cached_content(
    scheme: Scheme, params: tuple[tuple[str, Any], ...], seq_len: int | None
) -> Content:
    given = dict(params)
    if scheme.as_given:
        return Encoding.of(scheme, given, seq_len=seq_len).bound.content
    content = scheme.bind(given, seq_len=seq_len).content
    if content.waves is None:
        return content
    return replace(content, waves=placed_waves(content.waves))


def slope_tolerance(heads: int, rule: ToleranceRule, dtype: str) -> float:
    """Return the relative error that right slopes may have.

    Other libraries raise a base rounded to float32 to the powers 1 … heads, which multiplies its
    error by as much. Storing the result rounds it once more.
    """
    storing = unit(rounded_to(rule, dtype))
    return (heads + 4) * _UNIT_FLOAT32 + (storing if storing > _UNIT_FLOAT32 else 0.0)


def bucket_numbers(
    source: Scheme | BucketRule, params: Mapping[str, Any], places: ValuePlaces, seq_len: int | None
) -> Integers:
    """Return the row of the learned table that each pair of a query and a key reads: (n,).

    Raises: InvalidInput if the scheme has no such table.
    """
    queries, keys = places.at.astype(np.int64), places.keys.astype(np.int64)
    if not isinstance(source, Scheme):
        of_keys = source.relative.startswith("key")
        relative = keys - queries if of_keys else queries - keys
        return np.asarray(source.build(**params)(np, relative), np.int64)
    given = {name: value for name, value in params.items() if value is not None}
    content: Any = source.bind(given, seq_len=seq_len).content
    if content.weights is not None and content.by == "pair":
        return np.asarray(content.pairs.number(np, queries, keys), np.int64)
    if content.weights is not None and content.by == "offset":
        return np.asarray(content.bucket(np, keys - queries), np.int64)
    if content.weights is not None and content.farthest is not None:
        numbers = content.rows(np, keys - queries, lambda index: index[:, None])
        return np.asarray(numbers, np.int64)[:, 0]
    raise InvalidInput(f"--buckets: {source.name} has no table of rows shared by pairs of tokens")
