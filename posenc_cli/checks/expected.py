"""The expected values of a subject that does not rotate, also for a changed reference.

Four forms: ``rows`` (n, d) of positions or offsets, ``scores`` (heads, queries, keys), ``slopes``
(heads,) and ``buckets`` (n,). Each value stands at a place, and can be computed at any places, so
that a change of the reference is tried at a few of them and then compared everywhere.
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
from posenc_cli.formulas.declare import Scheme
from posenc_cli.inference.formats import CUT_BFLOAT16, round_to_half
from posenc_cli.inference.tolerance import Tolerance, rounded_to, smallest, unit
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.formulas.declare import Content, RowLookup
    from posenc_cli.formulas.parameters import Parameter
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows, Reals

Form = Literal["rows", "scores", "slopes", "buckets", "rotations"]

_FORMULA = 3e-6
"""Of a score: what float32 code may show that computes it in some steps."""
_SMALL = 1e-3
"""Of the largest score of a head: smaller ones may err by as much as one of this size."""
_ARITHMETIC = 4
"""Times what posenc's own float32 arithmetic errs: other code rounds in another order."""
_LOOKED_UP = 4
"""Roundings of a row that is looked up, or computed in a step or two."""
_SINGLE = 2.0**-24
_ROWS, _QUERIES = 40, 20
"""Places at which a change is tried before it is compared everywhere."""
_BUCKETS = 1 << 14


class ValuePlaces(Record):
    """Where values stand: positions of rows or queries, or heads (n,); and of keys.

    Scores have every pair of a query and a key, buckets the pairs that stand side by side.
    """

    at: NumberArray
    keys: NumberArray | None = None

    def moved(self, move: Callable[[NumberArray], NumberArray]) -> ValuePlaces:
        """The places that positions are moved to, those of keys too."""
        return ValuePlaces(move(self.at), None if self.keys is None else move(self.keys))

    @property
    def later(self) -> Flags:
        """Which keys of scores come after the query: (queries, keys)."""
        assert self.keys is not None
        return np.asarray(self.keys[None] > self.at[:, None])


class Change(Record):
    """One thing that a reference may have otherwise, in words; all of its fields may be left out.

    ``params`` are other parameters, ``rates`` makes other frequencies of the right ones, and
    ``places`` are the places that values are those of. ``make`` computes values in place of the
    formula, of rotations a `PairMap`, and ``values`` changes those that were computed, each by
    itself. ``order`` says which column of rows, or head of scores, stands at each place;
    ``rounding`` is a format that values were rounded to. ``code`` and ``remedy`` take the place of
    those of the row of the table. A ``general`` one is said only where no other explains the
    values.
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
    """The reference of one form, and the subject's values ``found`` at its places.

    ``parts``: places are whole numbers of 1/parts of a position. ``dtype`` is the format of the
    subject, ``lookup`` a learned table, ``other_tables`` are those of the same file, by name.
    ``transposed``: the subject was read with rows for columns. ``head`` is the one that scores are
    of, None for all. ``vectors`` (n, d) are what rows were added to, and ``slack`` is what rows may
    be off by for that; ``stretch`` is what angles are multiplied by, ``rates`` makes other
    frequencies. ``rounding`` is a format that values are known to be rounded to. ``gaps``: what is
    NaN in ``found`` is not compared.
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
    transposed: bool = False
    head: int | None = None
    vectors: NumberArray | None = None
    slack: float = 0.0
    stretch: float = 1.0
    rates: Callable[[Reals], Reals] | None = None
    rounding: str = ""
    gaps: bool = False

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that the source declares."""
        return self.source.parameters

    @cached_property
    def content(self) -> Content:
        """What the scheme gives with these parameters.

        Raises: InvalidInput where it gives nothing with them.
        """
        assert isinstance(self.source, Scheme)
        key = tuple((name, value) for name, value in self.params.items() if value is not None)
        return _content(self.source, key, self.seq_len)

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
        """The positions of the places, in parts of 1 no more."""
        return self.places.at if self.parts == 1 else self.places.at / self.parts

    def right(self) -> NumberArray:
        """The values that belong there, exactly rounded to float64."""
        if self.form == "buckets":
            return bucket_numbers(self.source, self.params, self.places, self.seq_len)
        if self.form == "slopes":
            heads, bias, own = (self.params[name] for name in ("heads", "max_bias", "slopes"))
            every = exact_slopes(heads, max_bias=bias, rule=own)
            slopes: NumberArray = np.asarray(every)[self.places.at]
            return round_to_half(slopes, self.rounding) if self.rounding else slopes
        if self.form == "scores":
            return self._scores("exact")
        content = self.content.in_parts(self.parts)
        precision = Precision.of(FLOAT64, None)
        rule = row_rule(content, self.lookup, None, precision=precision, engine=Engine())
        at = self.places.at
        with self._answerable():
            if content.weights is None or content.farthest is not None:
                return np.asarray(rule(at.astype(np.int64)), np.float64)
            last = content.capacity.positions if content.capacity else content.weights.rows
            held = (at >= 0) & (at < last)
            rows = np.full((at.size, content.width), np.nan)
            rows[held] = rule(at[held].astype(np.int64))
            return rows

    def _scores(self, arithmetic: Literal["exact", "float64", "float32"]) -> RealRows:
        content, precision = self.content, Precision.of(FLOAT64, None)
        assert content.heads is not None
        assert self.places.keys is not None
        rule = score_rule(
            content, self.lookup, precision=precision, engine=Engine(arithmetic=arithmetic)
        )
        queries, keys = (each.astype(np.int64) for each in (self.places.at, self.places.keys))
        with self._answerable():
            every = self.of_heads(range(content.heads))
            heads = scores_of_heads(content, rule, every, queries, keys)
            return np.stack([np.asarray(scores, np.float64) for scores in heads])

    def of_heads(self, every: Any) -> Any:
        """What is compared of a sequence that has one entry a head."""
        return every if self.head is None else every[self.head : self.head + 1]

    def _answerable(self) -> Any:
        assert isinstance(self.source, Scheme)
        return self.source.answerable()

    @cached_property
    def frequencies(self) -> Reals:
        """The frequencies of waves, in radians per position, in float64: (waves,)."""
        waves = self.content.waves
        assert waves is not None
        with np.errstate(all="ignore"):
            own = np.asarray(waves.frequencies(np), np.float64)
            return own if self.rates is None else self.rates(own)

    def followed(self, axes: tuple[int, ...] | None = None) -> NumberArray:
        """What angles are multiples of, (n, waves) or (n, 1); pairs may follow other ``axes``."""
        waves = self.content.waves
        assert waves is not None
        coordinates = waves.coordinates
        if coordinates is None or coordinates.at is None:
            return self.positions[:, None] * self.stretch
        at = self.positions
        along = coordinates.at(at if coordinates.domain == "real" else at.astype(np.int64))
        order = axes or tuple(range(len(along)))
        return np.stack([along[order[axis]] for axis in coordinates.axes], axis=1) * self.stretch

    def placed(self, cos: RealRows, sin: RealRows) -> RealRows:
        """Cosines and sines (n, waves) in their columns: (n, columns)."""
        content = self.content
        rows = np.zeros((cos.shape[0], content.width))
        for placement in content.columns().placements:
            if placement.function != "zero":
                waves = sin if placement.function == "sin" else cos
                rows[:, placement.columns] = waves[:, placement.waves]
        return rows

    @property
    def wave_columns(self) -> tuple[Integers, Integers]:
        """The columns of the sine and of the cosine of each wave, -1 where it has none."""
        content = self.content
        assert content.waves is not None
        columns = {name: np.full(content.waves.count, -1) for name in ("sin", "cos")}
        for placement in content.columns().placements:
            if placement.function != "zero":
                places = np.arange(content.width)[placement.columns]
                columns[placement.function][placement.waves] = places
        return columns["sin"], columns["cos"]

    def angles(self, frequencies: Reals | None = None) -> RealRows:
        """The angles of waves: (n, waves)."""
        own: RealRows = self.followed() * (self.frequencies if frequencies is None else frequencies)
        return own

    def waves(self, angles: RealRows) -> RealRows:
        """The rows of waves at angles."""
        return self.placed(np.cos(angles), np.sin(angles))

    def with_change(self, change: Change) -> Expected:
        """The reference that has another parameter, or belongs to other places."""
        other = replace(
            self,
            rates=change.rates or self.rates,
            rounding=change.rounding or self.rounding,
            places=change.places(self.places, self) if change.places else self.places,
        )
        return replace(other, params={**self.params, **change.params}) if change.params else other

    @property
    def absent(self) -> Flags:
        """Which values found are not compared."""
        return np.isnan(self.found) & self.gaps

    def changed(self, change: Change) -> NumberArray:
        """The values of a changed reference at these places.

        Raises: InvalidInput where it has none.
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
        """Values that were computed, as a change leaves them."""
        if change.order is not None:
            values = values[:, change.order] if self.form == "rows" else values[change.order]
        return values if change.values is None else change.values(values, self)

    def allowed(self, right: NumberArray, *, drawn: Change | None = None) -> NumberArray:
        """What right values may be off by, of the subject's format, in the shape of ``right``.

        Those of a ``drawn`` change are what its own frequencies and positions allow.
        """
        if self.form == "buckets":
            return np.zeros(right.shape)
        if isinstance(self.rule, float):
            return np.full(right.shape, max(self.rule, smallest("float32")))
        other = self if drawn is None else self.with_change(drawn)
        if other.is_waves:
            return other.wave_tolerance(drawn)
        rounding = unit(rounded_to(self.rule, self.dtype))
        if self.form == "slopes":
            share, least = slope_tolerance(other.params["heads"], self.rule, self.dtype), 0.0
        elif self.form == "scores":
            share, least = 2 * max(rounding, _SINGLE) + _FORMULA, 1e-30
            finite = np.where(np.isfinite(right), np.abs(right), 0)
            largest = finite.max(axis=(1, 2), keepdims=True)
            right = np.maximum(np.abs(right), _SMALL * largest)
        else:
            share = _LOOKED_UP * max(rounding, _SINGLE)
            least = smallest(self.dtype)
        near: NumberArray = share * np.abs(right) + least
        return near

    def near(self, values: NumberArray, change: Change) -> Flags:
        """Which values found are those of a change, NaN being NaN."""
        found = np.asarray(self.found, np.float64)
        allowed = np.abs(self.allowed(values, drawn=change)) + self.slack
        rounding = change.rounding or self.rounding
        share = 0.0
        if rounding:  # one that cuts moves a value by twice as much, and toward 0
            share = (2.02 if rounding == CUT_BFLOAT16 else 1.01) * unit(rounding.split()[0])
        added = 0.0 if self.vectors is None or not change.rounding else self.vectors
        size = np.abs(values + added)  # of what was rounded; rows may be before they are added
        near = allowed + share * (size if self.vectors is None else size + np.abs(values))
        close = np.isfinite(values) & (np.abs(found - values) <= near)
        if rounding == CUT_BFLOAT16:
            close &= np.abs(found + added) <= size + allowed
        odd = (found == values) | (np.isnan(found) & np.isnan(values)) | self.absent
        return np.asarray(close | (odd & ~np.isfinite(found)))

    def wave_tolerance(self, drawn: Change | None) -> RealRows:
        """What rows of waves may be off by: a share of the angle of each column, and a floor."""
        waves = self.content.waves
        assert waves is not None
        scale = float(waves.scale)
        tolerance = Tolerance.of(self.rule, dtype=self.dtype, roundings=1, amplitude=scale)
        along = self.followed()
        if drawn is None or drawn.make is None:
            rates = self.frequencies
            cells = np.broadcast_to(tolerance.cells(along, rates), (len(along), rates.size))
            allowed = self.placed(cells, cells)
        else:  # by how much its columns change where all angles do
            nudged = replace(self, stretch=self.stretch * (1 + (tolerance.per_angle or 1e-6)))
            apart = np.abs(drawn.make(nudged) - drawn.make(self))
            far = np.abs(along).max(axis=1, keepdims=True)
            allowed = far * (apart / np.maximum(far, 1)).max(axis=0) + tolerance.floor
        if drawn is not None:
            moved = np.abs(self.altered(allowed, drawn) - self.altered(0 * allowed, drawn))
            allowed = moved if np.isfinite(moved).all() else allowed.max(axis=1, keepdims=True)
        return np.maximum(allowed, tolerance.floor)

    def judged(self, right: NumberArray) -> NumberArray:
        """What right values may be off by, also by the arithmetic of float32 code."""
        allowed = self.allowed(right) + self.slack
        if self.form == "scores" and self.rule == "auto":
            allowed = allowed + _ARITHMETIC * np.abs(self._scores("float32") - right)
        return allowed

    def at_places(self, rows: Any, keys: Any = slice(None)) -> Expected:
        """The reference at some of its rows, queries, heads or pairs; of scores at some keys."""
        at, own = self.places.at[rows], self.places.keys
        if self.form == "scores":
            assert own is not None
            found = self.found[:, rows][:, :, keys]
            return replace(self, places=ValuePlaces(at, own[keys]), found=found)
        own = own if own is None else own[rows]
        vectors = self.vectors if self.vectors is None else self.vectors[rows]
        return replace(self, places=ValuePlaces(at, own), found=self.found[rows], vectors=vectors)

    def sample(self, wrong: Integers | Sequence[int] = ()) -> Expected:
        """The reference at some of its places: at both ends, and where rows are known as wrong."""
        count = self.places.at.size
        if self.form == "rows":
            return self.at_places(_with(_spread(count, _ROWS), wrong))
        if self.form == "scores":
            assert self.places.keys is not None
            keys = _spread(self.places.keys.size, _QUERIES)
            return self.at_places(_with(_spread(count, _QUERIES), wrong), keys)
        if self.form == "buckets" and count > _BUCKETS:
            some = np.linspace(0, count - 1, _BUCKETS).astype(np.int64)
            return self.at_places(_with(some, wrong))
        return self


def _spread(count: int, most: int) -> Integers:
    """Some of so many rows: the first ones, some between, and the last."""
    return np.array(sorted({*range(min(count, most // 2)), *spread(count, most // 2)}), np.int64)


def _with(rows: Integers, wrong: Integers | Sequence[int]) -> Integers:
    return np.union1d(rows, np.asarray(wrong, np.int64))


@lru_cache(maxsize=64)
def _content(scheme: Scheme, params: tuple[tuple[str, Any], ...], seq_len: int | None) -> Content:
    given = dict(params)
    if scheme.as_given:
        return Encoding.of(scheme, given, seq_len=seq_len).bound.content
    content = scheme.bind(given, seq_len=seq_len).content
    if content.waves is None:
        return content
    return replace(content, waves=placed_waves(content.waves))


def slope_tolerance(heads: int, rule: ToleranceRule, dtype: str) -> float:
    """The relative difference that right slopes may show.

    Peers raise a base rounded to float32 to the powers 1 … heads, which multiplies its error as
    often; storing the result rounds it once more.
    """
    storing = unit(rounded_to(rule, dtype))
    return (heads + 4) * _SINGLE + (storing if storing > _SINGLE else 0.0)


def bucket_numbers(
    source: Scheme | BucketRule, params: Mapping[str, Any], places: ValuePlaces, seq_len: int | None
) -> Integers:
    """The row of the learned table that each pair of a query and a key reads: (n,).

    Raises: InvalidInput where a scheme has no such table.
    """
    assert places.keys is not None
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
