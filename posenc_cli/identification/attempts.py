"""Try hypotheses for an array in each form that it may have, likeliest first.

A sample of the rows suggests hypotheses. Newton's method refines their numbers to the smallest
error in all sampled entries. They are then compared with every entry, reading the files once, in
blocks of rows. Kept are the number of equal entries, the largest difference, and the rows that do
not fit. An entry fits if its error is explained by correct code and is not much larger than the
sample's: a table whose sample is correctly rounded must be so elsewhere too.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import contextlib
import math
from functools import partial, reduce
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.errors import InvalidInput
from posenc_cli.files.source import release
from posenc_cli.formulas.inverse import DOUBLE, KNOWN_BASES, SPARE, snap, written_numbers
from posenc_cli.identification.biases import (
    BLOCK_CELLS,
    BiasProfile,
    bias_hypotheses,
    pair_hypotheses,
    profiles_of,
    score_census,
    slope_hypotheses,
    try_scores,
)
from posenc_cli.identification.grids import MOST_PLACES, grid_hypotheses, parts_of_rows
from posenc_cli.identification.other_matrices import row_hypotheses
from posenc_cli.identification.readings import certain_forms, periods_read
from posenc_cli.identification.waves import (
    angle_hypotheses,
    fallback_hypotheses,
    frequency_hypotheses,
    function_hypotheses,
    placed_hypotheses,
    prompt_hypotheses,
    wave_hypotheses,
)
from posenc_cli.inference.candidates import same_entries
from posenc_cli.inference.tolerance import FUNCTIONS, smallest, unit
from posenc_cli.inference.trial import (
    DOUBLE_FUNCTIONS,
    UNREDUCED_TABLES,
    Census,
    Hypothesis,
    Trial,
    arithmetic_format,
    as_columns,
    compare_rows,
    computation_of,
    compute,
    limits_of,
    merge_files,
    try_hypothesis,
)
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT64
from posenc_cli.numerics.rounding import widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Computation
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows, Reals

    RowPositions = Callable[[Integers], Integers]
    """Row numbers → their positions."""
    _FileComparison = tuple[Computation, Computation, tuple[Reals | float, float]]
    """The functions for a file's rows and their largest errors, and its :func:`_tolerance_shares`.
    """


MOST_TRIALS = 48
"""Trials per way to read an array. Chosen by judgement: a trial takes milliseconds, and later
hypotheses only fit by chance."""
MORE_TRIALS = 5
"""Trials after the first that fits: a later simple hypothesis may fit better."""
OTHER_READINGS = 1
"""Trials of another way to read the array once something fits."""
_MUCH_DEARER = 2.0
"""Extra cost above which a hypothesis does not replace one that fits. Chosen by judgement."""
_USUAL = 3.0
"""Highest cost of a rule with usual numbers. A table that such a rule gives is not a bias, and is
not read in other forms."""
_CERTAIN = 1.0
"""Highest cost of a rule that ends the search if it gives every value."""
_LEAST_NUMBERS = 3
"""Fewest numbers in a row: any two fit some base, and slopes of some largest bias."""
_AXES_OF_IMAGES = 3
"""Rows, columns and channels."""
_WHOLE = 1 << 13
"""Most rows in no regular order that are all compared, each at its own position."""

_LEAST_ROWS = 12
"""Fewest rows whose halves still show the rates of waves."""


class Attempt(Record):
    """A trial, with what is needed to compare it with every entry."""

    trial: Trial
    evidence: Evidence
    profile: BiasProfile | None = None

    @property
    def is_near(self) -> bool:
        """Whether most rows fit, or no error is as large as the values: those of zeros are."""
        largest = max(float(np.abs(sample).max()) for sample in self.evidence.sample)
        return self.trial.fits_most or self.trial.sample.residual < largest

    def census(self) -> Census | None:
        """Compare all entries with the hypothesis; None if that is impossible."""
        if self.profile is not None:
            return score_census(self.trial, self.profile, self.evidence)
        return census(self.trial, self.evidence)


def attempts_of_forms(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Return the attempts for an array or for the matrices that it may contain, best first."""
    square = len(evidence.shape) == _AXES_OF_IMAGES and evidence.shape[1] == evidence.shape[2]
    heads = _bias_attempts(evidence) if square else []  # before any form: heads may be equal
    if _has_plain_fit(heads):
        return heads
    tried = [heads] if heads else []
    for inner in certain_forms(evidence):
        tried.append(attempts_of_forms(inner, notes))
        if _has_plain_fit(tried[-1]):
            return tried[-1]
    return best_of([*tried, _attempts(evidence, notes)])


def best_of(tried: Sequence[list[Attempt]]) -> list[Attempt]:
    """Return the list of attempts whose first one is best."""
    return min(filter(None, tried), key=lambda attempts: attempts[0].trial.rank, default=[])


def _has_plain_fit(attempts: Sequence[Attempt]) -> bool:
    """Return whether something fits with common numbers and without a mistake."""
    return any(a.trial.fits and a.trial.hypothesis.cost <= _USUAL for a in attempts)


def _attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Return the attempts for an array, best first."""
    if len(evidence.shape) == 1:
        return _row_attempts(evidence, notes) if evidence.moderate else []
    if len(evidence.shape) > 2:
        return _cube_attempts(evidence, notes)
    attempts = _matrix_attempts(evidence)
    for rest in () if any(attempt.trial.fits for attempt in attempts) else parts_of_rows(evidence):
        without = _matrix_attempts(rest)
        if (
            without
            and without[0].trial.fits
            and (rest.forms == evidence.forms or _is_grid_of_rotations(without[0].trial))
        ):
            return without
    return attempts


def _is_grid_of_rotations(trial: Trial) -> bool:
    """Return whether a rotary scheme of a grid fits: other schemes have no unrotated tokens."""
    return trial.bound.scheme.kind == "rotary" and bool(trial.bound.params.get("grid"))


def _row_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Return attempts for one row of numbers: frequencies, slopes, or a row of a table."""
    if evidence.count < _LEAST_NUMBERS:
        usual = [slopes for slopes in slope_hypotheses(evidence) if slopes.cost < 1]
        if not usual:
            notes.append("two numbers are too few to choose: any frequency ladder fits them")
        return _attempt_all(usual, evidence)
    hypotheses = [*frequency_hypotheses(evidence), *slope_hypotheses(evidence)]
    attempts = _attempt_all(hypotheses, evidence)
    if attempts and attempts[0].trial.fits:
        return attempts
    if (inner := periods_read(evidence)) is not None:
        # Any ladder is also one of periods, so only common bases count.
        usual = [
            each
            for each in frequency_hypotheses(inner)
            if each.cost <= _USUAL and each.given.get("base") in KNOWN_BASES
        ]
        if (of_periods := _attempt_all(usual, inner)) and of_periods[0].trial.fits:
            return of_periods
    placed = _placed_row_attempts(evidence, notes)
    return attempts if placed is None else placed


def _placed_row_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt] | None:
    """Return attempts for one row of a table at any position.

    The list is empty if several encodings fit; None if nothing does.
    """
    row = replace(evidence, arrays=tuple(array[None] for array in evidence.arrays))
    placed = _attempt_all(placed_hypotheses(row), row)
    fitting = [attempt.trial for attempt in placed if attempt.trial.fits]
    if not fitting:
        return None
    if all(same_entries(fitting[0], trial) for trial in fitting[1:]):
        return placed
    notes.append("several encodings fit this one row; more rows would tell them apart")
    return []


def _matrix_attempts(evidence: Evidence) -> list[Attempt]:
    """Return attempts for a matrix, best first; further kinds are tried only if none fits."""
    attempts = _wave_and_row_attempts(evidence) if evidence.moderate else []
    if not any(each.trial.equal == 1 and each.trial.hypothesis.cost <= _USUAL for each in attempts):
        attempts += _bias_attempts(evidence)
    for hypotheses_of, explains in _FURTHER if evidence.moderate else ():
        if not any(explains(attempt.trial) for attempt in attempts):
            attempts += _attempt_all(hypotheses_of(evidence), evidence)
    attempts.sort(key=_rank)
    if attempts and attempts[0].trial.fits_most and not attempts[0].profile:
        regular = row_positions(attempts[0].trial.hypothesis, evidence) is not None
        if not regular and evidence.all_sample_rows.size < evidence.count <= _WHOLE:
            whole = replace(evidence, only=np.arange(evidence.count))
            return _matrix_attempts(whole)
    return attempts


def _wave_and_row_attempts(evidence: Evidence) -> list[Attempt]:
    """Return attempts at rows by formula, at waves, and at waves on a grid."""
    attempts = _attempt_all(row_hypotheses(evidence), evidence)
    attempts += _attempt_all(angle_hypotheses(evidence), evidence)
    for groups in (
        wave_hypotheses(evidence),
        ((False, group) for group in function_hypotheses(evidence)),
        ((False, grid_hypotheses(evidence)),),
    ):
        for likely, group in groups:
            if not likely and any(_is_certain(attempt.trial) for attempt in attempts):
                return attempts
            more = OTHER_READINGS if any(a.trial.settled for a in attempts) else MORE_TRIALS
            attempts += _attempt_all(group, evidence, ordered=True, more=more)
        if any(attempt.trial.settled for attempt in attempts):
            break  # dimension pairs explain it; single columns do not
    return attempts


def _is_certain(trial: Trial) -> bool:
    """Return whether a common rule gives every value of the sample."""
    return trial.fits and trial.equal == 1 and trial.hypothesis.cost <= _CERTAIN


def _hypotheses_of_parts(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses that fit half of the rows, because the others may be damaged."""
    rows = evidence.rows
    half = rows.size // 2
    for some in (slice(half), slice(half, None)) if rows.size >= _LEAST_ROWS else ():
        part = replace(evidence, only=rows[some])
        for trial in (attempt.trial for attempt in _wave_and_row_attempts(part)):
            where = row_positions(trial.hypothesis, part)
            if trial.fits and where is not None:
                yield replace(trial.hypothesis, positions=where(rows))


_FURTHER: tuple[tuple[Callable[[Evidence], Iterator[Hypothesis]], Callable[[Trial], bool]], ...] = (
    (fallback_hypotheses, attrgetter("settled")),
    (_hypotheses_of_parts, attrgetter("fits_most")),
    (placed_hypotheses, attrgetter("fits_most")),
    (prompt_hypotheses, attrgetter("fits")),
)
"""Further hypotheses, each with the trials that make them unnecessary."""


def _bias_attempts(evidence: Evidence) -> list[Attempt]:
    """Return attempts at an attention bias, best first."""
    attempts: list[Attempt] = []
    profiles = profiles_of(evidence)
    for profile in profiles:
        attempts += _attempt_all(bias_hypotheses(profile, evidence), evidence, profile)
    if not any(attempt.trial.fits for attempt in attempts):
        by_offset = any(profile.scatter == 0 for profile in profiles)
        for profile, pairs in pair_hypotheses(evidence, by_offset=by_offset):
            attempts += _attempt_all(pairs, evidence, profile)
    return sorted(attempts, key=_rank)


def _cube_attempts(evidence: Evidence, notes: list[str]) -> list[Attempt]:
    """Return attempts for three or more axes: a batch of one, a bias, or a grid of vectors."""
    attempts = []
    batch = evidence.shape[1] == 1
    if batch:
        rows = tuple(array[:, 0] for array in evidence.arrays)
        attempts = _attempts(replace(evidence, arrays=rows), notes)
        if any(attempt.trial.fits_most for attempt in attempts):
            return attempts
    if evidence.shape[1] != evidence.shape[2]:  # others were tried before any form
        attempts = sorted([*attempts, *_bias_attempts(evidence)], key=_rank)
    if any(attempt.trial.fits for attempt in attempts) or batch:
        return attempts
    for text, flat in _flattened_grids(evidence):
        attempts_of_grid = _matrix_attempts(replace(evidence, arrays=flat))
        if attempts_of_grid and attempts_of_grid[0].trial.fits_most:
            notes.append(f"{text}; rows are counted along the other axes")
            return attempts_of_grid
    return attempts


def _flattened_grids(evidence: Evidence) -> Iterator[tuple[str, tuple[NumberArray, ...]]]:
    """Yield the matrices of a grid of vectors, with rows counted along the axes of the grid."""
    channels_first = tuple(np.moveaxis(array, 0, -1) for array in evidence.arrays)
    for text, arrays, axes in (
        ("the last axis", evidence.arrays, 1),
        ("the last two axes", evidence.arrays, 2),
        ("the first axis", channels_first, 1),
    ):
        grid = arrays[0].shape[:-axes]
        places = math.prod(grid)
        if len(grid) > 1 and places <= MOST_PLACES:
            yield f"channels are {text}", tuple(array.reshape(places, -1) for array in arrays)


def _attempt_all(
    hypotheses: Iterable[Hypothesis],
    evidence: Evidence,
    profile: BiasProfile | None = None,
    *,
    ordered: bool = False,
    more: int = MORE_TRIALS,
) -> list[Attempt]:
    """Try hypotheses in order of cost, until one fits and ``more`` others were tried.

    ``ordered`` hypotheses are in that order already; others are sorted.
    """
    if not ordered:
        hypotheses = sorted(hypotheses, key=lambda hypothesis: hypothesis.cost)
    trials: list[Trial] = []
    best: Trial | None = None
    left = more
    for hypothesis in _distinct_hypotheses(hypotheses):
        if len(trials) >= MOST_TRIALS or (best is not None and _is_enough(best, hypothesis, left)):
            break
        try:
            trial = (
                try_hypothesis(hypothesis, evidence)
                if profile is None
                else try_scores(hypothesis, profile, evidence)
            )
        except InvalidInput:
            continue
        trials.append(trial)
        left -= best is not None
        if trial.fits and (best is None or trial.rank < best.rank):
            best, left = trial, more
        if ordered and best is not None and _is_certain(best):
            break  # the next ones take time to find, and may be repetitions
    _sharpen(trials, evidence)
    return [Attempt(each, evidence, profile) for each in sorted(trials, key=attrgetter("rank"))]


def _sharpen(trials: list[Trial], evidence: Evidence) -> None:
    """Refine the parameters of the nearest trials, and of those with uncertain parameters."""
    # The nearest by ratio and by residual: perhaps a parameter lacks only a few digits.
    nearest = [
        id(min(trials, key=attrgetter(way), default=None)) for way in ("rank", "sample.residual")
    ]
    for index, trial in enumerate(trials):
        uncertain = trial.fits and trial.hypothesis.uncertainty
        if trial.bound.content.waves is not None and (id(trial) in nearest or uncertain):
            trials[index] = sharpened(trial, evidence)


_rank = attrgetter("trial.rank")


def _is_enough(best: Trial, following: Hypothesis, more: int) -> bool:
    """Return whether the following hypothesis costs too much more to replace the one that fits."""
    dearer = following.cost - best.hypothesis.cost
    return more <= 0 or dearer > _MUCH_DEARER or (best.equal == 1 and dearer >= 1)


def _distinct_hypotheses(hypotheses: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Yield hypotheses in order, without repetitions."""
    seen = set()
    for hypothesis in hypotheses:
        given = repr(sorted(hypothesis.given.items()))
        key = hypothesis.scheme, given, hypothesis.tables, hypothesis.placed
        if key not in seen:
            seen.add(key)
            yield hypothesis


_BESIDE = 1e-7
"""Relative change of a parameter for a numerical derivative; entries change in proportion."""
_STEPS, _SETTLED = 4, 1e-14
"""Steps of Newton's method, and the relative step at which it stops."""
_NEARLY = 64.0
"""Largest error of a trial to refine, in units of its tolerance and of float32 code's."""
_FAR = 0.01
"""Largest relative step of a parameter; longer ones lead nowhere."""
_BETTER, _GIVEN = 0.5, 0.97
"""Refined numbers must leave at most this share of the bits, and reproduce this share of the
entries; otherwise they may fit noise."""
_MANY_CELLS, _MOSTLY_RIGHT = 16, 0.75
"""In low precision, a fitted number replaces a written one only if there are at least this many
rows, and the written number reproduces at most this share of the entries. Otherwise an entry at a
tie may decide by chance."""


def sharpened(trial: Trial, evidence: Evidence) -> Trial:
    """Return the trial with the numbers that best reproduce the sample, or the trial itself.

    Tables computed in low precision do not determine numbers: any leave errors of the same size.
    """
    hypothesis = trial.hypothesis
    shown = hypothesis.tables == ("inv-freq",) or trial.arithmetic in ("exact", "float64")
    plain = shown and hypothesis.multiplier == 1
    right = trial.equal == 1 and not hypothesis.uncertainty
    far = trial.sample.ratio > _NEARLY and trial.sample.residual > _NEARLY * FUNCTIONS
    if not plain or right or far:
        return trial
    best = trial
    numbers_of = hypothesis.given.items()  # a partial rotation shows only whole pairs
    every = [n for n, value in numbers_of if isinstance(value, float) and n != "partial"]
    for free in dict.fromkeys((tuple(hypothesis.uncertainty), tuple(every))):
        numbers, names = hypothesis, free
        with contextlib.suppress(InvalidInput):  # a number outside the bounds of a parameter
            while (
                names and (found := _refined_numbers(numbers, names, trial, evidence)) is not None
            ):
                numbers, names = found
                sharper = try_hypothesis(numbers, evidence)
                if _is_better(sharper, best, evidence):
                    best = sharper
        if best.equal == 1:
            break
    return best


def _is_better(sharper: Trial, best: Trial, evidence: Evidence) -> bool:
    """Return whether numbers reproduce more entries than chance or a rounding could explain."""
    if not sharper.fits or sharper.sample.bits > _BETTER * best.sample.bits:
        return False
    coarse = sharper.rounded != FLOAT64
    if coarse and sharper.hypothesis.uncertainty and not best.hypothesis.uncertainty:
        many = evidence.count >= _MANY_CELLS and best.equal <= _MOSTLY_RIGHT
        return sharper.equal == 1 and many
    return sharper.equal >= _GIVEN or (not coarse and len(evidence.shape) > 1)


def _with_numbers(
    hypothesis: Hypothesis, names: Sequence[str], numbers: Sequence[float], errors: Sequence[float]
) -> Hypothesis:
    given = {**hypothesis.given, **dict(zip(names, numbers, strict=True))}
    uncertainty = {n: e for n, e in zip(names, errors, strict=True) if e}
    return replace(hypothesis, given=given, uncertainty=uncertainty)


def _refined_numbers(
    hypothesis: Hypothesis, names: Sequence[str], trial: Trial, evidence: Evidence
) -> tuple[Hypothesis, tuple[str, ...]] | None:
    """Return the hypothesis with the numbers nearest to all entries, and the names still uncertain.

    None if no numbers come near.
    """
    values = np.array([float(str(hypothesis.given[name])) for name in names])
    name = trial.rounded.name
    for _ in range(_STEPS):
        own, cells = _entries(hypothesis, names, values, evidence)
        _, exponents = np.frexp(cells)
        half = np.maximum(np.ldexp(unit(name), exponents - 1), smallest(name) / 2)  # half an ulp
        moved = values * (1 + _BESIDE * np.eye(values.size))
        besides = [_entries(hypothesis, names, beside, evidence)[0] for beside in moved]
        slopes = (np.stack(besides, axis=1) - own[:, None]) / _BESIDE / half[:, None]
        gaps = (cells - own) / half
        if not np.isfinite(slopes).all():
            return None
        step, _, _, _ = np.linalg.lstsq(slopes, gaps, rcond=1e-12)
        if not np.isfinite(step).all() or np.abs(step).max() > _FAR:
            return None
        values = values * (1 + step)
        if np.abs(step).max() <= _SETTLED:
            break
    left = gaps - slopes @ step
    power = np.diagonal(np.linalg.pinv(slopes.T @ slopes))
    errors = 6 * np.sqrt(np.mean(left**2) * np.maximum(power, 0)) + DOUBLE
    share = 1 / SPARE
    if values.size == 1:  # the interval in which all entries round as they do
        steep = slopes[:, 0] != 0
        sides = (left[steep] + [[-1], [1]]) / slopes[steep, 0]
        low, high = sides.min(axis=0).max(initial=-np.inf), sides.max(axis=0).min(initial=np.inf)
        if low < high < np.inf:
            values *= 1 + (low + high) / 2
            errors[0], share = (high - low) / 2, 1.0
    return _with_written_number(
        hypothesis, names, values.tolist(), (values * errors).tolist(), share=share
    )


def _with_written_number(
    hypothesis: Hypothesis,
    names: Sequence[str],
    values: list[float],
    errors: list[float],
    *,
    share: float,
) -> tuple[Hypothesis, tuple[str, ...]]:
    """Return the hypothesis with the first short number within its error, and the other names.

    The other numbers are rounded by at most a ``share`` of their errors.
    """
    numbers = [snap(value, share * error) for value, error in zip(values, errors, strict=True)]
    left = [(1 + share) * error for error in errors]
    for index, (name, value, error) in enumerate(zip(names, values, errors, strict=True)):
        near = [number for number, _ in written_numbers(value, error)]
        if name not in hypothesis.uncertainty:
            near.insert(0, float(str(hypothesis.given[name])))
        written = [number for number in near if abs(number - value) <= error]
        if written:  # the others are solved again
            numbers[index], left[index] = written[0], 0.0
            others = tuple(other for other in names if other != name)
            return _with_numbers(hypothesis, names, numbers, left), others
    return _with_numbers(hypothesis, names, numbers, left), ()


def _entries(
    hypothesis: Hypothesis, names: Sequence[str], values: Reals, evidence: Evidence
) -> tuple[Reals, Reals]:
    """Return the exact entries of a hypothesis with other numbers, and the sample's entries."""
    other = _with_numbers(hypothesis, names, values.tolist(), [0.0] * len(names))
    encoding, own, cells = other.encoding(), [], []
    for table, sample in zip(hypothesis.tables, evidence.sample, strict=True):
        own.append(compute(encoding, table, other.positions, FLOAT64, "exact").reshape(-1))
        cells.append(as_columns(sample).astype(np.float64).reshape(-1))
    return np.concatenate(own), np.concatenate(cells)


_MARGIN = 16
"""Factor by which an entry may exceed the sample's largest use of the tolerance: few rows do not
show all."""


def census(trial: Trial, evidence: Evidence) -> Census | None:
    """Compare all entries with a trial's hypothesis; None if positions are unknown.

    The arrays of the evidence are matrices, or rows of numbers.
    """
    hypothesis, count = trial.hypothesis, evidence.count
    where: RowPositions | None = None
    if hypothesis.tables[0] not in ("inv-freq", "slopes"):
        where = row_positions(hypothesis, evidence)
        if where is None:
            return None
    width = max(1, int(np.prod(evidence.shape[1:])))
    rows = count if len(evidence.shape) == 1 else max(1, BLOCK_CELLS // width)
    which = trial.rounded, trial.arithmetic
    ways = [
        (computation_of(hypothesis, table, *which), limits_of(hypothesis, table, *which), share)
        for table, share in zip(hypothesis.tables, _tolerance_shares(trial), strict=True)
    ]
    compare = partial(_compare, trial, evidence, where, ways)
    engine = Engine(threads=threads_for(count * width, None))
    parts = (slice(start, min(start + rows, count)) for start in range(0, count, rows))
    skipped = Census(padding=tuple(range(0 if evidence.forms else evidence.skipped)))
    return reduce(Census.followed_by, engine.in_order(compare, parts), skipped)


def line_of(where: Integers, rows: Integers) -> tuple[int, int] | None:
    """Return the position of row 0 and the step per row, or None if the steps differ."""
    step = 1 if where.size == 1 else int(where[1] - where[0]) // int(rows[1] - rows[0])
    first = int(where[0]) - step * int(rows[0])
    return (first, step) if np.array_equal(where, first + step * rows) else None


def row_positions(hypothesis: Hypothesis, evidence: Evidence) -> RowPositions | None:
    """Return the function from row numbers to positions, if the sample's positions determine it."""
    where, rows = hypothesis.positions, evidence.rows
    if where is None or where.size != rows.size:
        return None
    if (line := line_of(where, rows)) is not None:
        return lambda asked_rows: line[0] + line[1] * asked_rows
    if evidence.all_sample_rows.size == evidence.count:
        every = np.zeros(evidence.count, np.int64)
        every[rows] = where
        return lambda asked_rows: every[asked_rows]
    return None


def _compare(
    trial: Trial,
    evidence: Evidence,
    where: RowPositions | None,
    ways: Sequence[_FileComparison],
    part: slice,
) -> Census:
    """Compare some rows of the files with a hypothesis, each file with its own computation."""
    stored = tuple(array[part] for array in evidence.arrays)
    rows = np.arange(part.start, part.stop, dtype=np.int64)
    with np.errstate(all="ignore"):
        arrays = tuple(map(evidence.clean, stored))
        on_grid = all(map(evidence.on_grid, stored))
        padding = tuple(row for row in evidence.padding if rows[0] <= row <= rows[-1])
        if padding:
            kept = ~np.isin(rows, padding)
            rows, arrays = rows[kept], tuple(array[kept] for array in arrays)
        positions = None if where is None else where(rows)
        predicted = [computed(positions) for computed, _, _ in ways]
        if trial.rounded == BFLOAT16:
            predicted = [widen(own, BFLOAT16) for own in predicted]
        parts = [
            compare_rows(
                array,
                predicted[file],
                partial(_limits, way, positions),
                rows + evidence.skipped,
                trial.rounded,
                file=file,
                table=trial.hypothesis.tables[file],
                quantum=evidence.quantum,
            )
            for file, (way, array) in enumerate(zip(ways, arrays, strict=True))
        ]
    for array in stored:
        release(array)
    return merge_files(parts, padding=padding, on_grid=on_grid)


def _limits(way: _FileComparison, positions: Integers | None) -> RealRows:
    """Return the largest error of each entry that its format, correct code and the sample allow."""
    _, allowed, (share, rounding) = way
    limit = allowed(positions)
    return np.minimum(limit, limit * share + rounding)


def _tolerance_shares(trial: Trial) -> tuple[tuple[Reals | float, float], ...]:
    """Return the share of the tolerance that the sample uses per column, and the rounding error.

    For each table: a share, one number or (columns,), and an absolute difference.
    """
    waves, tables = trial.bound.content.waves, trial.hypothesis.tables
    as_large = tables[0] in ("inv-freq", *UNREDUCED_TABLES)  # their limits are relative
    if waves is None or waves.growth is not None or as_large:
        return ((1.0, 0.0),) * len(tables)
    size = np.pi if tables == ("angles",) else float(waves.scale) * trial.hypothesis.multiplier
    # An arithmetic is no more exact than its rounding, however wide the file's format is.
    coarsest = max(unit(trial.rounded.name), unit(arithmetic_format(trial.arithmetic).name))
    rounding = max(4 * coarsest, DOUBLE_FUNCTIONS) * size
    return tuple((np.minimum(_MARGIN * noise, 1.0), rounding) for noise in trial.sample.noise)
