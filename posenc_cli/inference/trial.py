"""Compute a hypothesis about an array, and compare it with the sample.

A hypothesis is a scheme with parameters at positions. It is computed as posenc computes any
encoding, at the rows of the sample. It fits if every entry is within the tolerance of
:mod:`posenc_cli.inference.tolerance`. Among those of ``--arithmetic``, the arithmetic is chosen
that explains the entries best.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.encoding import blocks
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.fitting import spread
from posenc_cli.inference.tolerance import (
    FUNCTIONS,
    PER_ANGLE,
    UNREDUCED,
    UNREDUCED_FULL,
    real_format,
    smallest,
    unit,
)
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT64, REAL_DTYPES, DType
from posenc_cli.numerics.rounding import narrow, round_to, widen
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from decimal import Decimal

    from posenc_cli.formulas.declare import Bound, Waves
    from posenc_cli.formulas.tables import PlacedColumns
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals

    Computation = Callable[[Any], NumberArray]
    """Positions (n,) → their rows; the positions are None for arrays without positions."""

ARITHMETICS = ("exact", "float64", "float32", "bfloat16")
_LEAST_EXPLAINED = 0.97
"""Share of the entries: an emulated rounding may differ at ties, or in a library's cosines."""
_FIRST_ROWS = 48
"""Rows on which an arithmetic is tried before it is tried on the whole sample."""

DOUBLE_FUNCTIONS = 16 * 2.0**-53
"""Absolute error per radian of a position: float64 cosines, sines, coordinates of any library."""

UNREDUCED_TABLES = (UNREDUCED, UNREDUCED_FULL)


class Hypothesis(Record):
    """A scheme of the catalogue with parameters, and the table of each array of the evidence.

    ``positions`` (n,) are those of the sample's rows, in units of 1/``denominator``; None if the
    array has no positions. ``axes`` (axes, rows of the array) are the coordinates of a prompt's
    tokens, for schemes that read these from a file.

    ``cost`` ranks hypotheses that fit: the lowest is chosen. Costs are judgements of plausibility.
    A rule with numbers that people use costs 1, and each digit of a fitted number 0.3 more. Rules
    with many numbers cost 2 to 3.5, and what is tried only because nothing else fits costs 5 or
    more. Hundredths decide between equals.

    ``hidden`` names parameters that such an array cannot show. ``multiplier`` is a factor applied
    to every entry afterwards.
    """

    scheme: str
    given: Mapping[str, object]
    tables: tuple[str | None, ...]
    positions: Integers | None = None
    cost: float = 1.0
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    uncertainty: Mapping[str, float] = fresh(dict)
    head: int | None = None
    multiplier: float = 1.0
    denominator: int = 1
    axes: Integers | None = None

    @property
    def seq_len(self) -> int | None:
        """The length that parameters fall back to: the last position + 1."""
        if self.positions is None or self.positions.size == 0:
            return None
        return max(int(self.positions.max()) // self.denominator, 0) + 1

    @property
    def placed(self) -> tuple[bytes | None, int, float]:
        """The positions, their denominator and the multiplier, as a key."""
        positions = None if self.positions is None else self.positions.tobytes()
        return positions, self.denominator, self.multiplier

    def encoding(self) -> Encoding:
        """Return the encoding.

        Raises: InvalidInput if its parameters contradict each other.
        """
        if self.axes is not None:
            return self._placed_encoding(self.axes)
        whole = Encoding.of(catalogue.find(self.scheme), self.given, seq_len=self.seq_len)
        if self.denominator == 1:
            return whole
        content = whole.bound.content.in_parts(self.denominator)
        return replace(whole, bound=replace(whole.bound, content=content))

    def _placed_encoding(self, axes: Integers) -> Encoding:
        bound = catalogue.find(self.scheme).bind(self.given)
        waves = bound.rotation.waves
        assert waves.coordinates is not None
        along = replace(waves.coordinates, at=lambda rows: tuple(axes[:, rows]), file=None)
        content = replace(bound.rotation, waves=replace(waves, coordinates=along))
        return Encoding(replace(bound, content=content))


class Trial(Record):
    """A hypothesis compared with the rows of the sample.

    ``sample`` are the differences from the values that ``arithmetic`` gives, ``rounded`` to a
    format. ``read_off`` are the values of a learned table, which has no rule.
    """

    hypothesis: Hypothesis
    bound: Bound
    sample: Census
    arithmetic: str
    rounded: DType
    read_off: RealRows | None = None

    @property
    def fits(self) -> bool:
        """Whether every entry of the sample is within its limit."""
        return self.sample.fits

    @property
    def fits_most(self) -> bool:
        """Whether most rows of the sample fit: the others may be damaged."""
        return self.fits or 2 * self.sample.misfits < self.sample.rows

    @property
    def equal(self) -> float:
        """The share of equal entries in the sample."""
        return self.sample.equal_share

    @property
    def settled(self) -> bool:
        """Whether it fits without needing a fitted number and, for most entries, the tolerance."""
        return self.fits and (not self.hypothesis.uncertainty or self.equal >= 0.5)

    @property
    def rank(self) -> tuple[bool, bool, int, float, float, float]:
        """The sort key of trials: those that fit come first, then equal ones, then the cheapest.

        Trials that do not fit are sorted by their distance.
        """
        cost, sample = self.hypothesis.cost, self.sample
        if self.fits:
            return False, False, 0, self.equal < 1, cost, sample.ratio
        if self.fits_most:
            return True, False, sample.misfits, -round(self.equal, 1), cost, sample.ratio
        return True, True, sample.misfits, 0, sample.ratio, cost


def formats_of(evidence: Evidence) -> list[DType]:
    """Return the formats that values may have been rounded to: the file's and a narrower one."""
    stored = real_format(evidence.stored)
    if evidence.stored == "float64" and evidence.values != stored:
        return [evidence.values, stored]
    return [stored] if evidence.values == stored else [stored, evidence.values]


def try_hypothesis(hypothesis: Hypothesis, evidence: Evidence) -> Trial:
    """Return the trial of a hypothesis whose parameters do not contradict each other.

    Raises: InvalidInput if they do, or if the encoding has no row at one of the positions.
    """
    encoding = hypothesis.encoding()
    content, where = encoding.bound.content, hypothesis.positions
    if (content.capacity and (hypothesis.seq_len or 0) > content.capacity.positions) or (
        content.domain in ("natural", "positive")
        and encoding.bound.scheme.kind != "relative"
        and where is not None
        and (where < 0).any()
    ):
        raise InvalidInput("the encoding has no row at one of these positions")
    # Exact values first: only for them does posenc keep more digits than float64.
    plainest = "float64" if hypothesis.tables[0] in UNREDUCED_TABLES else "exact"
    trials = [
        _try_arithmetic(hypothesis, encoding, evidence, rounded, plainest)
        for rounded in formats_of(evidence)
    ]
    best = min(trials, key=lambda trial: (not trial.fits, -trial.equal))
    if best.equal == 1:
        return best
    return _with_best_arithmetic(best, encoding, evidence)


def _try_arithmetic(
    hypothesis: Hypothesis, encoding: Encoding, evidence: Evidence, rounded: DType, arithmetic: str
) -> Trial:
    """Return the trial of the values that an arithmetic gives."""
    parts, explained = [], []
    tables = _samples_and_predictions(hypothesis, encoding, evidence, rounded, arithmetic)
    for index, (table, sample, predicted) in enumerate(tables):
        limit = limits_of(hypothesis, table, rounded, arithmetic, encoding=encoding)(
            hypothesis.positions
        )
        if arithmetic == "bfloat16":
            nearly, limit = bfloat16_limits(limit, predicted, table)
            explained.append(
                float((distances(sample, predicted, table, evidence.quantum) <= nearly).mean())
            )
        parts.append(
            compare_rows(
                sample,
                predicted,
                partial(np.asarray, limit),
                np.arange(sample.shape[0]),
                rounded,
                file=index,
                table=table,
                sampled=True,
                quantum=evidence.quantum,
            )
        )
    compared = merge_files(parts)
    if explained and np.mean(explained) < _LEAST_EXPLAINED:
        compared = replace(compared, ratio=np.inf, misfits=compared.rows)
    return Trial(hypothesis, encoding.bound, compared, arithmetic, rounded)


def _samples_and_predictions(
    hypothesis: Hypothesis,
    encoding: Encoding,
    evidence: Evidence,
    rounded: DType,
    arithmetic: str,
    *,
    rows: Integers | None = None,
) -> Iterator[tuple[str | None, NumberArray, RealRows]]:
    """Yield each table with its sample, or rows of it, and the values of an arithmetic there."""
    for table, sample in zip(hypothesis.tables, evidence.sample, strict=True):
        computed = computation_of(hypothesis, table, rounded, arithmetic, encoding=encoding)
        positions = hypothesis.positions
        if rows is None or positions is None or table == "inv-freq":
            yield table, sample, widen(computed(positions), rounded)
        else:
            yield table, sample[rows], widen(computed(positions[rows]), rounded)


def _typical_difference(
    trial: Trial, encoding: Encoding, evidence: Evidence, arithmetic: str
) -> float:
    """Return the mean difference on a few rows, without the worst of them."""
    rows = spread(evidence.sample[0].shape[0], _FIRST_ROWS)
    total = []
    compared = _samples_and_predictions(
        trial.hypothesis, encoding, evidence, trial.rounded, arithmetic, rows=rows
    )
    for table, few, predicted in compared:
        missed = distances(few, predicted, table, evidence.quantum)
        means = np.sort(missed.reshape(missed.shape[0], -1).mean(axis=1))
        total.append(means[: max(1, means.size - means.size // 8)].mean())
    return float(np.mean(total))


def _with_best_arithmetic(trial: Trial, encoding: Encoding, evidence: Evidence) -> Trial:
    """Return the trial with the arithmetic that explains it best.

    A lower precision is chosen only if it explains far more than the exact values do.
    """
    best, least = trial, _typical_difference(trial, encoding, evidence, trial.arithmetic)
    for arithmetic in ARITHMETICS[1:]:
        of_frequencies = arithmetic == "bfloat16" and trial.hypothesis.tables == ("inv-freq",)
        if of_frequencies and not all(
            np.array_equal(round_to(values, FLOAT64, BFLOAT16), values)
            for values in evidence.sample
        ):
            continue  # a frequency that bfloat16 computed is exact in bfloat16
        typical = _typical_difference(trial, encoding, evidence, arithmetic)
        if typical < 0.5 * least:
            reduced = _try_arithmetic(
                trial.hypothesis, encoding, evidence, trial.rounded, arithmetic
            )
            if reduced.fits or (reduced.fits_most and not best.fits):
                best, least = reduced, typical
    return best


def bfloat16_limits(
    limit: RealRows, predicted: NumberArray, table: str | None
) -> tuple[RealRows | float, RealRows]:
    """Return the limits of a result rounded to bfloat16, and of an angle rounded to bfloat16.

    The angle may have been rounded across a tie, so an entry of a large angle shows nothing. Errors
    of frequencies and of angles are relative to their size.
    """
    if table in ("inv-freq", *UNREDUCED_TABLES):
        limits = 2 * unit("bfloat16") * np.abs(np.asarray(predicted, np.float64)) + 1e-30
        return limits, limits
    size = max(1.0, float(np.abs(predicted).max()))
    nearly = 2 * unit("bfloat16") * size
    return nearly, nearly + np.minimum(limit * (2 * unit("bfloat16") / PER_ANGLE), 2 * size)


def compute(
    encoding: Encoding,
    table: str | None,
    positions: Integers | None,
    rounded: DType,
    arithmetic: str,
) -> RealRows:
    """Return the rows of an encoding at positions, rounded to a format, as float64.

    Positions of a relative scheme are offsets j − i. In a complex table, the real and the imaginary
    part of a pair are adjacent columns.
    """
    return widen(computation(encoding, table, rounded, arithmetic)(positions), rounded)


def computation_of(
    hypothesis: Hypothesis,
    table: str | None,
    rounded: DType,
    arithmetic: str,
    *,
    encoding: Encoding | None = None,
) -> Computation:
    """Return a function from positions to the rows of a hypothesis, in the storage of a format.

    Multiplied rows are rounded before the multiplication and after it.
    """
    encoding = encoding or hypothesis.encoding()
    rows = computation(encoding, table, rounded, arithmetic)
    if hypothesis.multiplier == 1:
        return rows
    multiplier = round_to(np.array([hypothesis.multiplier]), FLOAT64, rounded)[0]
    return lambda positions: narrow(widen(rows(positions), rounded) * multiplier, None, rounded)


def limits_of(
    hypothesis: Hypothesis,
    table: str | None,
    rounded: DType,
    arithmetic: str,
    *,
    encoding: Encoding | None = None,
) -> Computation:
    """Return a function from positions to the limits of a hypothesis; see :func:`allowance`."""
    rounded = max(rounded, arithmetic_format(arithmetic), key=lambda dtype: unit(dtype.name))
    limits = allowance(encoding or hypothesis.encoding(), table, rounded)
    multiplier = hypothesis.multiplier
    if multiplier == 1:
        return limits
    # The multiplier and each product are rounded; float32 rows may meet a float64 multiplier.
    rounding = FUNCTIONS if rounded == FLOAT64 else 2 * unit(rounded.name)
    return lambda positions: multiplier * (limits(positions) + rounding)


def computation(
    encoding: Encoding, table: str | None, rounded: DType, arithmetic: str
) -> Computation:
    """Return a function from positions to the rows of an encoding, in the storage of a format.

    The function is safe to call from several threads.
    """
    if table in UNREDUCED_TABLES:
        return _unreduced_angles(encoding, table, rounded, arithmetic)
    content = encoding.bound.content
    engine = Engine(arithmetic=arithmetic)  # type: ignore[arg-type]
    precision = Precision.of(rounded, None)
    if table == "slopes":
        from posenc_cli.formulas.alibi import exact_slopes

        params, heads = encoding.bound.params, content.heads
        exact_of = exact_slopes(heads or 1, max_bias=params["max_bias"], rule=params["slopes"])
        slopes = narrow(np.array(exact_of), None, rounded)
        return lambda _positions: slopes
    if table == "inv-freq":
        waves = encoding.bound.rotation.waves
        frequencies = blocks.frequencies_of(waves, precision=precision, engine=engine)
        return lambda _positions: frequencies
    return blocks.row_rule(content, encoding.lookup, table, precision=precision, engine=engine)


def allowance(encoding: Encoding, table: str | None, rounded: DType) -> Computation:
    """Return a function from positions to the largest errors of a right implementation."""
    content = encoding.bound.content
    waves = content.waves
    if waves is None:
        exactly = computation(encoding, table, FLOAT64, "exact")
        own = 2 * unit(rounded.name)
        if table == "slopes":  # powers of a power
            own += 3e-6 + 1e-7 * (content.heads or 1)
        return lambda positions: own * np.maximum(np.abs(exactly(positions)), 1e-30)
    frequencies = np.abs(np.array([float(f) for f in exact_frequencies(waves)]))
    if table == "inv-freq":
        limits = (PER_ANGLE + unit(rounded.name)) * np.maximum(frequencies, 1e-300)
        return lambda _positions: limits
    if table in UNREDUCED_TABLES:
        relative = PER_ANGLE + 2 * unit(rounded.name)
        layout = encoding.bound.rotation.layout if table == UNREDUCED_FULL else None
        return lambda positions: repeated_columns(
            relative * _angles(waves, frequencies, positions) + 1e-30, layout
        )
    if table == "angles":
        least = 4 * (unit(rounded.name) + unit("float64"))
        return lambda positions: PER_ANGLE * _angles(waves, frequencies, positions) + least
    return partial(_wave_limits, waves, content.columns(table), rounded, frequencies)


def _unreduced_angles(
    encoding: Encoding, table: str | None, rounded: DType, arithmetic: str
) -> Computation:
    """Return a function from positions to position × frequency, computed with two roundings.

    The exact arithmetic is float64 here.
    """
    rotation = encoding.bound.rotation
    layout = rotation.layout if table == UNREDUCED_FULL else None
    own = arithmetic_format(arithmetic)
    frequencies = round_to(
        np.array([float(f) for f in exact_frequencies(rotation.waves)]), FLOAT64, own
    )

    def rows(positions: Integers) -> NumberArray:
        coordinates = round_to(_coordinates(rotation.waves, positions), FLOAT64, own)
        angles = round_to(coordinates * frequencies, FLOAT64, own)
        return narrow(repeated_columns(angles, layout), None, rounded)

    return rows


def arithmetic_format(arithmetic: str) -> DType:
    """Return the number format that an arithmetic rounds to: float64 for exact values."""
    return REAL_DTYPES.get(arithmetic, FLOAT64)


def repeated_columns(pairs: RealRows, layout: str | None) -> RealRows:
    """Return one column per pair repeated as a full table of a layout does; unchanged if None."""
    if layout is None:
        return pairs
    return np.repeat(pairs, 2, axis=1) if layout == "interleaved" else np.hstack([pairs, pairs])


@lru_cache(maxsize=256)
def exact_frequencies(waves: Waves) -> tuple[Decimal, ...]:
    """Return the frequencies of waves in 60 digits. Many trials ask for the same waves."""
    return tuple(waves.frequencies(exact))


def _wave_limits(
    waves: Waves,
    columns: PlacedColumns,
    rounded: DType,
    frequencies: Reals,
    positions: Integers,
) -> RealRows:
    """Return the limits of entries made of waves. Shape: (positions, columns)."""
    angles = _angles(waves, frequencies, positions)  # (positions, waves)
    scale = float(waves.scale)
    roundings = 1 if scale == 1 else 2
    floor: Reals | float = FUNCTIONS + roundings * unit(rounded.name)
    if rounded == FLOAT64 and waves.growth is None:  # float64 tables have float64 sines
        floor = DOUBLE_FUNCTIONS * np.maximum(frequencies, 1)
    cells = angles  # in place: no second array of this size
    cells *= scale * PER_ANGLE
    cells += scale * floor
    if waves.growth is not None:
        logarithms = np.log([float(base) for base in waves.growth.bases(exact)])
        exponents = (positions - waves.growth.centre) / float(waves.growth.span)
        cells = cells * np.exp(np.multiply.outer(exponents, logarithms)) * 2
    limits = np.full((positions.size, columns.width), 1e-30)
    for placement in columns.placements:
        if placement.function != "zero":
            places = np.arange(columns.width)[placement.columns]
            limits[:, placement.columns] = cells[:, placement.waves][:, : places.size]
    return limits


def _angles(
    waves: Waves,
    frequencies: Reals,
    positions: Integers,
) -> RealRows:
    """Return the absolute angle of each wave at each position. Shape: (positions, waves)."""
    return np.abs(_coordinates(waves, positions)) * (frequencies / waves.denominator)


def _coordinates(waves: Waves, positions: Integers) -> RealRows:
    """Return the coordinate of each wave at each position. Shape: (positions, waves or 1)."""
    from posenc_cli.encoding.axial import placed_waves

    coordinates = placed_waves(waves).coordinates
    if coordinates is None:
        return np.asarray(positions[:, None], np.float64)
    assert coordinates.at is not None
    axes = [np.asarray(axis, np.float64) for axis in coordinates.at(positions)]
    return np.stack(axes, axis=1)[:, list(coordinates.axes)]


NAMED_ROWS = 1 << 12
"""The most misfit rows that are listed; further ones are only counted."""

_LEAST_FITTING = 8
"""So many rows do not fit by accident, even if others do not fit."""

_WORST_SHARE = 64
"""One row in this many may be damaged without making the others look noisy."""

_TIES = 0.502
"""Fraction of a quantum: the largest error of rounding to its multiples, also near ties."""

MOST_BITS = 64.0
"""Cost of a number of the widest format."""


class Largest(Record):
    """The largest difference, with the value and the reference there.

    ``at`` is an index into the array number ``file``: a row and a column.
    """

    difference: float
    file: int
    at: tuple[int, ...]
    value: float
    expected: float


class Census(Record):
    """The differences of a hypothesis in some rows of an array, or in all.

    ``rows`` were compared, those of ``padding`` were not, and ``hidden`` entries are behind a mask.
    ``misfits`` counts rows with an entry above its limit; ``misfit_rows`` lists the first
    :data:`NAMED_ROWS` of them. ``ratio`` is the largest difference divided by its limit.
    ``largest`` is the first of the largest differences, None if nothing differs. ``loose`` counts
    entries that fit without being equal, in rows that fit. ``bits`` measures the differences of all
    entries together.

    ``on_grid`` says whether every entry is exact in the sample's format. ``noise`` is the largest
    ratio of each column of a sample, without misfit rows and the worst others: one array per file.
    For a bias of several heads, rows number the ``queries`` of the first head, then those of the
    next.
    """

    rows: int = 0
    cells: int = 0
    equal: int = 0
    ratio: float = 0.0
    largest: Largest | None = None
    misfits: int = 0
    misfit_rows: Integers = fresh(lambda: np.empty(0, np.int64))
    padding: tuple[int, ...] = ()
    on_grid: bool = True
    hidden: int = 0
    loose: int = 0
    bits: float = 0.0
    queries: int | None = None
    noise: tuple[Reals, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every entry fits."""
        return self.misfits == 0

    @property
    def fits_many(self) -> bool:
        """Whether at least a quarter of the rows fit, and more than a few."""
        fitting = self.rows - self.misfits
        return self.fits or (fitting >= _LEAST_FITTING and 4 * fitting >= self.rows)

    @property
    def residual(self) -> float:
        """The largest difference."""
        return 0.0 if self.largest is None else self.largest.difference

    @property
    def equal_share(self) -> float:
        """The share of equal entries."""
        return self.equal / max(self.cells, 1)

    @property
    def all_equal(self) -> bool:
        """Whether every entry is equal, with no padding and no mask."""
        return self.equal == self.cells and not self.padding and not self.hidden

    def followed_by(self, rows: Census) -> Census:
        """Return the census of these rows and of the ``rows`` after them."""
        largest = self.largest
        if rows.largest and (largest is None or rows.largest.difference > largest.difference):
            largest = rows.largest
        listed = rows.misfit_rows[: max(NAMED_ROWS - self.misfits, 0)]
        return Census(
            self.rows + rows.rows,
            self.cells + rows.cells,
            self.equal + rows.equal,
            max(self.ratio, rows.ratio),
            largest,
            self.misfits + rows.misfits,
            np.concatenate([self.misfit_rows, listed]),
            self.padding + rows.padding,
            self.on_grid and rows.on_grid,
            self.hidden + rows.hidden,
            self.loose + rows.loose,
            self.bits + rows.bits,
        )


def compare_rows(
    array: NumberArray,
    predicted: NumberArray,
    limits: Callable[[], RealRows],
    rows: Integers,
    rounded: DType,
    *,
    file: int = 0,
    table: str | None = None,
    sampled: bool = False,
    quantum: float = 0.0,
) -> Census:
    """Compare some rows of a file with predicted values; ``limits`` is called only if some differ.

    With ``sampled``, the census has the noise too.

    Shapes: ``array`` (rows, …); ``predicted`` and the limits alike, complex numbers as two columns.
    """
    cells = as_columns(array)
    if np.array_equal(cells, predicted):
        none = np.zeros(cells.reshape(rows.size, -1).shape[1])
        return Census(rows.size, array.size, array.size, noise=(none,) if sampled else ())
    difference = distances(cells, predicted.astype(np.float64), table, quantum)
    # NaN and infinities count as infinitely far.
    ratios = np.where(np.isfinite(difference), difference / limits(), np.inf)
    same = (difference == 0).reshape(array.size, -1).all(axis=1).reshape(rows.size, -1)
    at = np.unravel_index(int(np.argmax(difference)), difference.shape)
    place = (int(rows[at[0]]), *map(int, at[1:]))
    largest = Largest(float(difference[at]), file, place, cells[at].item(), float(predicted[at]))
    by_column = ratios.reshape(rows.size, -1)
    misfit = ~(by_column <= 1).all(axis=1)  # (rows,)
    return Census(
        rows.size,
        array.size,
        int(same.sum()),
        float(ratios.max()),
        largest,
        int(misfit.sum()),
        rows[misfit],
        loose=int((~same[~misfit]).sum()),
        bits=bits_of_difference(difference, predicted, rounded),
        noise=(_noise_of(by_column[~misfit]),) if sampled else (),
    )


def _noise_of(fitting: RealRows) -> Reals:
    """Return the largest ratio of each column in rows that fit, without the worst rows."""
    usual = np.sort(fitting, axis=0)[: fitting.shape[0] - fitting.shape[0] // _WORST_SHARE]
    return np.asarray(usual.max(axis=0, initial=0.0))


def merge_files(
    parts: Sequence[Census], *, padding: tuple[int, ...] = (), on_grid: bool = True
) -> Census:
    """Merge the differences of several files in the same rows."""
    differing = [part.largest for part in parts if part.largest is not None]
    misfit_rows = np.concatenate([part.misfit_rows for part in parts])
    misfit_rows = np.unique(misfit_rows, return_index=True)[0]  # without it, numpy.ma is imported
    return Census(
        parts[0].rows,
        sum(part.cells for part in parts),
        sum(part.equal for part in parts),
        max(part.ratio for part in parts),
        max(differing, key=lambda largest: largest.difference, default=None),
        misfit_rows.size,
        misfit_rows,
        padding,
        on_grid,
        loose=sum(part.loose for part in parts),
        bits=sum(part.bits for part in parts),
        noise=sum((part.noise for part in parts), ()),
    )


def distances(
    values: NumberArray, predicted: RealRows, table: str | None, quantum: float = 0.0
) -> RealRows:
    """Return the differences of values from predicted ones; angles are compared modulo 2π.

    With a ``quantum``, half of it is subtracted: rounding to its multiples explains that much.
    Complex values count as dimension pairs. NaN is infinitely far.
    """
    if values.dtype.kind == "c":
        values = np.ascontiguousarray(values).view(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(values - predicted)
    difference = np.where(values == predicted, 0.0, difference)
    if table == "angles":
        turns = np.abs(2 * np.pi - difference)
        difference = np.minimum(difference, turns)
    if quantum:
        difference = np.maximum(difference - _TIES * quantum, 0.0)
    return np.where(np.isnan(difference), np.inf, difference)


def as_columns(array: NumberArray) -> NumberArray:
    """Return complex numbers as pairs of columns."""
    if array.dtype.kind != "c":
        return array
    part = np.float32 if array.dtype.itemsize == 8 else np.float64
    return np.ascontiguousarray(array).view(part)


def bits_of_difference(difference: RealRows, predicted: NumberArray, rounded: DType) -> float:
    """Return the size of all differences in bits of a number format: Σ log₂(1 + units).

    A unit is the largest error of rounding the predicted number. An entry costs at most
    :data:`MOST_BITS`, whatever its value.

    >>> from posenc_cli.numerics.dtypes import FLOAT64
    >>> ones = np.array([1.0, 1.0, 1.0])
    >>> bits_of_difference(np.array([0.0, 3 * 2.0**-53, np.nan]), ones, FLOAT64)
    66.0
    """
    differing = difference != 0
    if not differing.any():
        return 0.0
    sizes = np.abs(predicted[differing].astype(np.float64))
    units = np.maximum(sizes * unit(rounded.name), smallest(rounded.name))
    with np.errstate(over="ignore"):
        bits = np.log2(1 + difference[differing] / units)
    return float(np.minimum(np.nan_to_num(bits, nan=MOST_BITS), MOST_BITS).sum())
