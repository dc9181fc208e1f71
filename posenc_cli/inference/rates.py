"""Find the frequencies of waves in a table, and the positions of its rows.

Rates are found in consecutive rows. A signal is the cosine and sine of waves of which the table has
only one function. Positions follow from the phases of pairs with assumed frequencies: the
lowest-frequency pair determines the rough position of a row, each faster pair a more exact one.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.inverse import SPARE, snap, written_numbers
from posenc_cli.inference.fitting import fit, median, spread, unwrapped
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals
_PHASE_ERROR = 0.12
"""Largest error of a phase in radians, in float32 code up to position 10^6 or in half precision."""
_MOST_TURNS = 96
_TURNS_AT_ONCE = 1 << 16
"""Limits on rotations of the lowest-frequency pair that are searched: per row, and of all rows."""
_CELLS_AT_ONCE = 1 << 16
"""Phases (rows × rotations × pairs) compared at a time: half a mebibyte."""
_FEW_PAIRS = 16
"""Pairs that preselect the rotation count of a row, if there are at least twice as many."""
_LIKELY_TURNS = 4
"""Rotation counts of a row that are compared in all pairs: those nearest in the few."""
_REACH = 64
"""A rate is trusted up to this many times the span of the rows that it was found on."""
_FARTHEST = 1 << 21
"""The farthest position to look for; the longest contexts of models are half of it."""
_FARTHEST_FIRST = 1 << 17
"""The farthest first position to look for if only one function of the waves is known."""
_MOST_MISSED = 0.2
"""Largest mean distance of pairs from their points on the unit circle at the first position."""
_LEAST_ON_LINE, _SHARE_ON_LINE = 3, 0.75
"""Least number and share of rows at evenly spaced positions."""
_NEAR_LINE = 0.1
"""Largest distance of a bfloat16 row from its line: of a step, of a position, and on the unit
circle."""
_SHARED_ERROR, _NEGLIGIBLE = 5e-7, 1e-8
"""Relative error of positions from float32 powers, and less than the error of any float32 table."""
_MOST_PARTS = 10**9
"""Largest denominator of a position; finer fractions are rounded."""
_SHARPENED = 320
"""Limit on later rows that sharpen the rates: more of them do not reach farther."""
_REFINED_TOGETHER = 32
"""Columns whose waves are refined together, so that they stay in the cache."""
_LADDER_ERROR = 0.01
"""Largest relative error of a rate whose ladder determines the full turns of faster pairs."""
_MOST_A_ROW = 200.0
"""Largest rate in radians per row; a ladder that seems faster is not one."""
_MOST_LEFT, _SETTLED = 0.03, 1e-16
"""Largest error of a wave with a known start, at amplitude 1, and the last step of Newton's
method."""
_FIRST_COLUMNS = 6
"""Columns that are examined first: if none of them is a wave, no other is."""


class Rates(Record):
    """Rates of the pairs in radians per row, their errors, and the rows that they were found on.

    These are the ``rows`` rows of the sample that start at ``begin``.
    """

    values: Reals
    errors: Reals
    rows: int
    begin: int = 0


def rates_of(pairs: ComplexRows, rows: Integers, rounding: float) -> Rates | None:
    """Return the rates of waves over the first evenly spaced rows; None if fewer than two.

    ``pairs`` (rows, pairs) have magnitude 1. ``rounding`` is the phase error of their format.
    """
    ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, rows.size)
    begins = np.append(0, ends[:-1])
    # The first run of rows, unless it is short because a row was left out.
    run = 0 if ends[0] >= 3 or ends.size == 1 else 1
    begin, count = int(begins[run]), int(ends[run] - begins[run])
    if count < 2:
        return None
    run_pairs = pairs[begin : begin + count]
    steps = run_pairs[1:] * run_pairs[:-1].conj()  # (rows − 1, pairs)
    uneven = np.abs(np.angle(steps * steps[0].conj())).max(axis=1) > _PHASE_ERROR + 4 * rounding
    even = int(np.argmax(uneven)) + 1 if uneven.any() else count
    run_rows = np.arange(even, dtype=np.int64)
    rotations = fit(run_rows, run_pairs[:even])
    left = np.abs(np.angle(run_pairs[:even] * rotations.at(run_rows).conj()))
    noise = np.maximum(np.sqrt(np.mean(left**2, axis=0)), rounding)
    span = max(even - 1, 1)
    errors = 4 * noise / (span * np.sqrt(max(even, 6) / 6)) + 1.5e-6 * np.abs(rotations.frequencies)
    rates = Rates(rotations.frequencies, errors, even, begin)
    return rates if even == rows.size else _sharpen_by_later_rows(rates, pairs, rounding)


def _sharpen_by_later_rows(rates: Rates, pairs: ComplexRows, rounding: float) -> Rates:
    """Sharpen rates by later rows, whose positions follow from the rates found so far.

    Consecutive rows are assumed to be one position apart.
    """
    reach = rates.rows
    used = 0
    beyond = np.arange(rates.begin + rates.rows, pairs.shape[0])
    thinned = beyond[:: max(1, beyond.size // _SHARPENED)]
    pairs = pairs[np.r_[: rates.begin + rates.rows, thinned]]
    while True:
        positions, misfits = positions_at(pairs, np.where(rates.values > 0, rates.values, 0))
        start = positions[rates.begin : rates.begin + rates.rows]
        if not np.array_equal(start, start[0] + np.arange(rates.rows)):
            return rates
        far = positions - start[0]
        known = (misfits <= 0.1 + 4 * rounding) & (far >= 0) & (far <= _REACH * reach)
        _, first = np.unique(positions[known], return_index=True)
        if first.size <= max(used, rates.rows):
            return rates
        used = first.size
        at, points = positions[known][first], pairs[known][first]
        rotations = fit(at, points)
        reach = int(at[-1] - at[0])
        noise = np.maximum(np.std(np.angle(points * rotations.at(at).conj()), axis=0), rounding)
        errors = 6 * noise / max(reach, 1) + 1.5e-6 * np.abs(rotations.frequencies)
        rates = Rates(rotations.frequencies, errors, rates.rows, rates.begin)


class Signal(Record):
    """Waves of which one function is known: amplitude, rates, their errors, first position.

    Units: radians per row; the first position in rows.
    """

    amplitude: float
    rates: Reals
    errors: Reals
    first: int

    def pairs(self, count: int) -> ComplexRows:
        """Return the points cos + i·sin of the first rows. Shape: (count, columns)."""
        rows = np.arange(count, dtype=np.float64) + self.first
        return np.asarray(np.exp(1j * np.multiply.outer(rows, self.rates)))


def signal_of(columns: RealRows, function: str, rounding: float) -> Signal | None:
    """Return the waves whose cosines or sines are the columns; None if they are not waves.

    High-frequency columns determine the first position. With it, even waves too slow to complete a
    turn have a known rate. ``rounding`` is the error of a value.

    >>> rows = np.arange(50)[:, None] + 7.0
    >>> found = signal_of(np.cos(rows * [1.0, 0.3, 0.001]), "cos", 1e-15)
    >>> found.first, bool(abs(found.rates[2] - 0.001) < 1e-9)
    (7, True)
    """
    count = columns.shape[0]
    largest = float(np.abs(columns).max())
    if largest == 0 or not are_waves(columns):
        return None
    free, a, b, left = free_waves(columns)
    rotating = (free * count > 1.5) & (left <= 0.02 * largest) & (np.hypot(a, b) > 0.5 * largest)
    sure = np.flatnonzero(rotating)[:12]
    if sure.size == 0:
        return None
    rates, points = free[sure], a[sure] - 1j * b[sure]
    amplitude = float(median(np.abs(points)))
    phases = np.angle(points) + (np.pi / 2 if function == "sin" else 0)
    # Error of a fitted wave's phase, for each row that it is extrapolated backward.
    slip = 8 * (rounding + 1e-9) / amplitude / count**1.5 + 1e-7 * rates.max()
    whole = np.arange(min(_FARTHEST_FIRST, max(64, int(0.3 / slip))))
    whole = np.append(whole, -whole[1:])
    missed = np.zeros(whole.size)
    for rate, phase in zip(rates, phases, strict=True):
        apart = np.abs(2 * np.sin((whole * rate - phase) / 2))  # |exp(i·apart) − 1|
        if function == "sin":  # a rate past half a turn per row seems negative
            apart = np.minimum(apart, np.sqrt(np.maximum(4 - apart**2, 0)))
        missed += apart
        near = missed <= _MOST_MISSED * rates.size
        whole, missed = whole[near], missed[near]
    if whole.size == 0:
        return None
    first = int(whole[np.argmin(missed)])
    known = columns / amplitude
    waves = np.sin(np.multiply.outer(np.arange(count) + first, free))
    signs = np.where((function == "sin") & ((known * waves).sum(axis=0) < 0), -1, 1)
    signs = np.where(rotating, signs, signs[sure[-1]])
    # A cosine does not show the direction: the position farthest from 0 is positive.
    forward = signs[sure[-1]] if function == "sin" else 1 if 2 * first + count > 1 else -1
    values, errors, left = _with_start(known * signs, first, free, function, rounding)
    if left.max() > _MOST_LEFT:
        return None
    either = (1.0,) if function == "sin" else (1.0, -1.0)
    return Signal(
        amplitude,
        forward * with_full_turns(signs * signs[sure[-1]] * values, either, errors),
        errors,
        first,
    )


def with_full_turns(rates: Reals, signs: tuple[float, ...], errors: Reals) -> Reals:
    """Return rates with the full turns per row, and the sign, that phases do not show.

    From the slowest known pair on, each faster pair is assumed to continue the ladder.

    >>> rates = 10.0 * 10_000.0 ** -(np.arange(8) / 8)
    >>> shown = np.abs((rates + np.pi) % (2 * np.pi) - np.pi)
    >>> np.allclose(with_full_turns(shown, (1.0, -1.0), 1e-9 * rates), rates)
    True
    """
    values = rates.copy()
    for pair in range(values.size - 3, -1, -1):
        first, second = values[pair + 1 : pair + 3]
        if not (first > 0 and second > 0 and errors[pair + 2] < _LADDER_ERROR * second):
            continue
        onward = first**2 / second
        if not (onward <= _MOST_A_ROW and np.isfinite(values[pair])):
            break
        turns = [sign * values[pair] for sign in signs]
        turns = [rate + 2 * np.pi * round((onward - rate) / (2 * np.pi)) for rate in turns]
        values[pair] = min(turns, key=lambda rate: abs(rate - onward))
    return values


def _with_start(
    columns: RealRows, first: int, rates: Reals, function: str, rounding: float
) -> tuple[Reals, Reals, Reals]:
    """Return rates of unit waves with a known start, their errors, and the largest residuals.

    Shapes: (columns,).
    """
    rows = np.arange(columns.shape[0], dtype=np.float64)[:, None] + first
    of, slope_of = (np.cos, lambda x: -np.sin(x)) if function == "cos" else (np.sin, np.cos)
    farthest = int(np.abs(rows).argmax())
    last = float(abs(rows[farthest, 0])) or 1.0
    edge = np.clip(columns[farthest], -1, 1)
    slow = (np.arccos(edge) if function == "cos" else np.arcsin(edge)) / last
    starts = np.abs([rates, slow, 0 * rates])
    distances = [((columns - of(start * rows)) ** 2).sum(axis=0) for start in starts]
    values = starts[np.argmin(distances, axis=0), np.arange(rates.size)]
    best, least, power = values, np.full(rates.size, np.inf), np.zeros(rates.size)
    for _ in range(16):
        missed, slopes = columns - of(values * rows), rows * slope_of(values * rows)
        errors, powers = (missed**2).sum(axis=0), (slopes**2).sum(axis=0)
        better = errors < least
        best, least, power = np.where(better, [values, errors, powers], [best, least, power])
        changes = (slopes * missed).sum(axis=0) / np.where(powers > 0, powers, np.inf)
        if np.abs(changes).max() < _SETTLED:
            break
        # Limit the Newton step, so that no phase jumps by a turn.
        values = np.abs(values + np.clip(changes, -0.5 / last, 0.5 / last))
    noise = np.maximum(np.sqrt(least / rows.size), rounding)
    bound = noise / np.sqrt(np.where(power > 0, power, 1e-300))
    # At small angles a cosine is 1 − (ω·p)²/2, which rounding hides.
    hidden = np.sqrt(2 * noise) / last if function == "cos" else noise / last
    errors = 4 * np.minimum(bound, hidden) + 1.5e-6 * best
    return best, errors, np.abs(columns - of(best * rows)).max(axis=0)


def free_waves(columns: RealRows) -> RealRows:
    """Return the wave a·cos(ω·r) + b·sin(ω·r) nearest to each column, at any phase.

    The rows are ω, a, b, and the largest residual. Shape: (4, columns).
    """
    rates, amplitude = _rates_by_recurrence(columns), float(np.abs(columns).max())
    some = (slice(i, i + _REFINED_TOGETHER) for i in range(0, rates.size, _REFINED_TOGETHER))
    return np.hstack([_refine(columns[:, each], rates[each], amplitude) for each in some])


def are_waves(columns: RealRows) -> bool:
    """Return whether at least one column is a wave, at any phase."""
    few = columns[:, spread(columns.shape[1], _FIRST_COLUMNS)]
    return bool(free_waves(few)[3].min() <= 0.02 * np.abs(columns).max())


def _rates_by_recurrence(columns: RealRows) -> Reals:
    """Return rates from x[r+k] + x[r−k] = 2·cos(k·ω)·x[r], for k = 1, 2, 4 and so on."""
    count = columns.shape[0]
    rates: Reals = np.zeros(columns.shape[1])
    for step in (1, 2, 4, 8, 16, 32):
        if 2 * step >= count:
            break
        middle = columns[step:-step]
        power = (middle**2).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = (middle * (columns[2 * step :] + columns[: -2 * step])).sum(axis=0) / (
                2 * power
            )
        angles = np.arccos(np.clip(np.where(np.isfinite(cosines), cosines, 1.0), -1, 1))
        ahead, behind = (
            (signed + 2 * np.pi * np.round((rates * step - signed) / (2 * np.pi))) / step
            for signed in (angles, -angles)
        )
        nearer = np.abs(ahead - rates) <= np.abs(behind - rates)
        rates = np.abs(np.where(nearer, ahead, behind))
    return rates


def _refine(columns: RealRows, rates: Reals, amplitude: float) -> RealRows:
    """Refine the rates, and the waves of :func:`free_waves` with them, by Gauss-Newton steps."""
    rows = np.arange(columns.shape[0], dtype=np.float64)[:, None]
    best = np.stack([rates, columns[0], np.zeros(rates.size)])  # ω, a, b
    least = np.full(rates.size, np.inf)
    for _ in range(24):
        cos, sin = np.cos(rates * rows), np.sin(rates * rows)
        a, b = _cosine_and_sine_parts(columns, cos, sin)
        missed = columns - a * cos - b * sin
        errors = (missed**2).sum(axis=0)
        better = (np.hypot(a, b) < 1.5 * amplitude) & (errors < least)
        least = np.where(better, errors, least)
        best = np.where(better, [rates, a, b], best)
        slopes = rows * (b * cos - a * sin)
        powers = (slopes**2).sum(axis=0)
        changes = (slopes * missed).sum(axis=0) / np.where(powers > 0, powers, 1.0)
        if np.abs(changes).max() < 1e-15:
            break
        rates = np.abs(rates + changes)
    rates, a, b = best
    missed = columns - a * np.cos(rates * rows) - b * np.sin(rates * rows)
    return np.vstack([best, np.abs(missed).max(axis=0)])


def _cosine_and_sine_parts(columns: RealRows, cos: RealRows, sin: RealRows) -> tuple[Reals, Reals]:
    """Return the a and b of the least-squares fit a·cos + b·sin of each column.

    The sine is made orthogonal to the cosine twice, because a slow wave's sine is nearly 0. A sine
    that is 0 gets no part. Shape: (columns,) each.
    """
    powers = (cos**2).sum(axis=0)
    shared = (cos * sin).sum(axis=0) / powers
    rest = sin - shared * cos
    again = (cos * rest).sum(axis=0) / powers
    rest -= again * cos
    left = (rest**2).sum(axis=0)
    known = left > 1e-24 * powers
    b = np.where(known, (rest * columns).sum(axis=0) / np.where(known, left, 1.0), 0.0)
    return (cos * columns).sum(axis=0) / powers - (shared + again) * b, b


def positions_at(
    pairs: ComplexRows,
    frequencies: Reals,
    *,
    signed: bool = False,
    farthest: int = _FARTHEST,
) -> tuple[Integers, Reals]:
    """Return the positions of rows whose pairs rotate with ``frequencies``, and the misfits.

    A misfit is the mean distance of a row's pairs from their points on the unit circle. With
    ``signed``, small negative positions are tried too. Positions past ``farthest`` are not found.
    Shape: (rows,) each.
    """
    places, misfits = _positions_and_misfits(
        pairs, frequencies, signed=signed, farthest=farthest, whole=True
    )
    return places.astype(np.int64), misfits


def progression_of(
    pairs: ComplexRows, rows: Integers, frequencies: Reals
) -> tuple[Fraction, Fraction] | None:
    """Return the first position and the step of ``rows`` (n,), or None if most have no even step.

    >>> rows = np.arange(40)
    >>> at = np.exp(1j * np.multiply.outer(0.5 - 0.25 * rows, [1.0, 0.1, 0.01]))
    >>> [str(number) for number in progression_of(at, rows, np.array([1.0, 0.1, 0.01]))]
    ['1/2', '-1/4']
    """
    if rows.size < _LEAST_ON_LINE:
        return None
    places, misfits = _positions_and_misfits(
        pairs, frequencies, signed=True, farthest=_FARTHEST, whole=False
    )
    if median(misfits) > _NEAR_LINE:
        return None
    offsets = rows - rows[0]
    if (line := _fit_line(places, offsets)) is None:
        return None
    start, step, near = line
    centred = offsets[near] - offsets[near].mean()
    power = float(centred @ centred)
    left = places[near] - start - step * offsets[near]
    farthest = float(np.abs(places[near]).max())
    noise = 3 * float(np.sqrt(np.mean(left**2))) + 1e-12 * farthest
    # Frequencies from float32 powers share a relative error, and so do the positions.
    share = _SHARED_ERROR if noise > _NEGLIGIBLE * farthest else 0.0

    def error_at(row: float) -> float:
        line = noise * float(np.sqrt(1 / near.sum() + (row - offsets.mean()) ** 2 / power))
        return line + share * abs(start + step * row)

    first, span = fraction(start, error_at(0)), int(offsets[-1])
    error = noise / float(np.sqrt(power)) + share * abs(step)
    written = _written_fraction(step, error)
    # If people do not write the step, they may have written the last position, as in linspace.
    apart = written or (fraction(start + step * span, error_at(span)) - first) / span
    return (first - apart * int(rows[0]), apart) if apart else None


def _fit_line(places: Reals, offsets: Integers) -> tuple[float, float, Flags] | None:
    """Return the start and the step of the line through most rows, and which rows are on it."""
    step = float(median(np.diff(places) / np.diff(offsets)))
    start = float(median(places - step * offsets))
    near = np.abs(places - start - step * offsets) <= _NEAR_LINE * max(1.0, abs(step))
    if near.sum() < _LEAST_ON_LINE or near.mean() < _SHARE_ON_LINE:
        return None
    centred = offsets[near] - offsets[near].mean()
    step = float(centred @ places[near]) / float(centred @ centred)
    return float(places[near].mean() - step * offsets[near].mean()), step, np.asarray(near)


def _written_fraction(value: float, error: float) -> Fraction | None:
    """Return the number that people write within an error of a value, of either sign."""
    if abs(value - round(value)) <= error:
        return Fraction(round(value))
    number = next((number for number, _ in written_numbers(abs(value), error)), None)
    if number is None:
        return None
    exact = Fraction(str(number))
    if exact.denominator > _MOST_PARTS:
        exact = Fraction(number).limit_denominator(_MOST_PARTS)
    return exact if value > 0 else -exact


def fraction(value: float, error: float) -> Fraction:
    """Return the number that people write, or else the value with the digits of its error."""
    number = _written_fraction(value, error)
    if number is None:
        number = Fraction(snap(value, error / SPARE)).limit_denominator(_MOST_PARTS)
    return number


def _positions_and_misfits(
    pairs: ComplexRows, frequencies: Reals, *, signed: bool, farthest: int, whole: bool
) -> tuple[Reals, Reals]:
    """Return positions and misfits as `positions_at` does, but fractional ones unless ``whole``."""
    rotating = np.flatnonzero(frequencies > 0)
    order = rotating[np.argsort(frequencies[rotating], kind="stable")]
    if order.size == 0:
        return np.zeros(pairs.shape[0]), np.full(pairs.shape[0], np.inf)
    phases = np.angle(pairs[:, order]) % (2 * np.pi)  # (rows, pairs)
    rates = frequencies[order]
    wavelength = 2 * np.pi / rates[0]
    most = max(_MOST_TURNS, _TURNS_AT_ONCE // max(pairs.shape[0], 1))
    last = int(np.clip(farthest / wavelength, 1, most))
    turns = np.arange(0, last + 1)
    if signed:
        turns = np.append(turns, np.arange(-1, (-2 if whole else -last - 1), -1))
    places = np.nan_to_num(unwrapped(phases, rates, turns))
    if whole:
        places = np.round(places)
    if not signed:
        places = np.maximum(places, 0)
    misfits = _misfits(places, phases, rates)
    best = np.argmin(misfits, axis=1)
    every = np.arange(pairs.shape[0])
    return places[every, best], misfits[every, best]


def _misfits(places: RealRows, phases: RealRows, rates: Reals) -> RealRows:
    """Return the mean distances of pairs at ``places`` (rows, turns) from those of ``phases``.

    If there are many pairs, a few of them decide which turns are likely. The distance of other
    turns is infinite. Shape: (rows, turns).
    """
    some = np.arange(0, rates.size, max(1, rates.size // _FEW_PAIRS))
    few = np.empty(places.shape)
    at_once = max(1, _CELLS_AT_ONCE // (phases.shape[0] * some.size))
    for first in range(0, places.shape[1], at_once):
        columns = slice(first, first + at_once)
        few[:, columns] = _distances(places[:, columns], phases[:, some], rates[some])
    if some.size == rates.size:
        return few
    likely = np.argsort(few, axis=1, kind="stable")[:, :_LIKELY_TURNS]
    misfits = np.full(places.shape, np.inf)
    every = _distances(np.take_along_axis(places, likely, axis=1), phases, rates)
    np.put_along_axis(misfits, likely, every, axis=1)
    return misfits


def _distances(places: RealRows, phases: RealRows, rates: Reals) -> RealRows:
    """Return the mean of |exp(i·apart) − 1| over pairs. Shape: (rows, places)."""
    apart = np.multiply.outer(places, rates) - phases[:, None]  # (rows, places, pairs)
    return np.asarray(np.abs(2 * np.sin(apart / 2)).mean(axis=2), np.float64)
