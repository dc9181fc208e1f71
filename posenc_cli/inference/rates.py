"""From waves to frequencies, and to the positions of rows.

Owns three steps. Rates, from rows that follow one another evenly. Signals, the cosine and sine of
a wave of which one function is known. Positions, from the phases of pairs whose frequencies are
supposed: the lowest-frequency pair says roughly where a row stands, each faster one more exactly.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.formulas.inverse import SPARE, snap, written_numbers
from posenc_cli.inference.fitting import fit, median, spread
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals
_EVEN = 0.12
"""Radians: phases of float32 code at positions to a million, or of half precision tables."""
_MOST_TURNS = 96
_TURNS_AT_ONCE = 1 << 16
"""Rotations of the lowest-frequency pair within which a row is searched, and all rows together."""
_CELLS_AT_ONCE = 1 << 16
"""Phases of rows, turns and pairs that are compared together: half a mebibyte."""
_FEW_PAIRS = 16
"""Pairs that tell at which turns a row may stand, if there are at least twice as many."""
_HOPELESS = 0.7
"""Mean distance of few pairs of a row that fits nowhere: twice the most that is believed."""
_REACH = 64
"""How many times farther than the rows it was found on a rate is trusted to lead."""
_FARTHEST = 1 << 21
"""The farthest position that is looked for: the longest contexts of models are half of it."""
_FIRST = 1 << 17
"""The farthest first position that is looked for where one function of waves is known."""
_MISSED = 0.2
"""How far from its point on the circle a pair may be on average at the first position."""
_LEAST_ON_LINE, _SHARE_ON_LINE = 3, 0.75
"""Rows at least, and the share of them, that stand at evenly spaced positions."""
_NEAR_LINE = 0.1
"""Of a step, of 1 and of the unit circle: how far from its line bfloat16 leaves a row."""
_OFF_TOGETHER, _EXACT = 5e-7, 1e-8
"""Of a position: what float32 powers leave, and less than any float32 table leaves."""
_MOST_PARTS = 10**9
"""Of 1: positions of smaller parts are rounded to such."""
_SHARPENED = 320
"""Rows beyond the first that sharpen rates: more lead no farther."""
_POLISHED = 32
"""Columns whose waves are polished together, so that they stay in the cache."""
_LADDER = 0.01
"""Of a rate: what one may be off by whose ladder says how often faster pairs rotate."""
_MOST_A_ROW = 200.0
"""Radians from row to row: a ladder that seems to rotate by more is none."""
_LEFT, _SETTLED = 0.03, 1e-16
"""Of the unit circle: what is left of no wave of a known start; and the last step of Newton's."""
_FIRST_COLUMNS = 6
"""Columns that are looked at first: where none is a wave, no other is."""


class Rates(Record):
    """Radians a row of each pair, what they may be off by, and the rows they were found on.

    These are ``rows`` of the sample from ``begin`` on.
    """

    values: Reals
    errors: Reals
    rows: int
    begin: int = 0


def rates_of(pairs: ComplexRows, rows: Integers, rounding: float) -> Rates | None:
    """The rates of waves over the first rows, as far as these follow one another evenly.

    ``pairs`` (rows, pairs) have the size 1; ``rounding`` is what their format leaves of a phase.
    """
    ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, rows.size)
    begins = np.append(0, ends[:-1])
    # The first run of rows, unless a row that was left out cuts it short.
    run = 0 if ends[0] >= 3 or ends.size == 1 else 1
    begin, count = int(begins[run]), int(ends[run] - begins[run])
    if count < 2:
        return None
    run_pairs = pairs[begin : begin + count]
    steps = run_pairs[1:] * run_pairs[:-1].conj()  # (rows − 1, pairs)
    uneven = np.abs(np.angle(steps * steps[0].conj())).max(axis=1) > _EVEN + 4 * rounding
    even = int(np.argmax(uneven)) + 1 if uneven.any() else count
    where = np.arange(even, dtype=np.int64)
    rotations = fit(where, run_pairs[:even])
    left = np.abs(np.angle(run_pairs[:even] * rotations.at(where).conj()))
    noise = np.maximum(np.sqrt(np.mean(left**2, axis=0)), rounding)
    span = max(even - 1, 1)
    errors = 4 * noise / (span * np.sqrt(max(even, 6) / 6)) + 1.5e-6 * np.abs(rotations.frequencies)
    rates = Rates(rotations.frequencies, errors, even, begin)
    return rates if even == rows.size else _extend(rates, pairs, rounding)


def _extend(rates: Rates, pairs: ComplexRows, rounding: float) -> Rates:
    """Rates sharpened by rows that stand farther off, at positions which the rates so far tell.

    Rows that follow one another are taken to be a position apart.
    """
    reach = rates.rows
    used = 0
    beyond = np.arange(rates.begin + rates.rows, pairs.shape[0])
    thinned = beyond[:: max(1, beyond.size // _SHARPENED)]
    pairs = pairs[np.r_[: rates.begin + rates.rows, thinned]]
    while True:
        where, misfits = positions_at(pairs, np.where(rates.values > 0, rates.values, 0))
        start = where[rates.begin : rates.begin + rates.rows]
        if not np.array_equal(start, start[0] + np.arange(rates.rows)):
            return rates
        far = where - start[0]
        known = (misfits <= 0.1 + 4 * rounding) & (far >= 0) & (far <= _REACH * reach)
        _, first = np.unique(where[known], return_index=True)
        if first.size <= max(used, rates.rows):
            return rates
        used = first.size
        at, points = where[known][first], pairs[known][first]
        rotations = fit(at, points)
        reach = int(at[-1] - at[0])
        noise = np.maximum(np.std(np.angle(points * rotations.at(at).conj()), axis=0), rounding)
        errors = 6 * noise / max(reach, 1) + 1.5e-6 * np.abs(rotations.frequencies)
        rates = Rates(rotations.frequencies, errors, rates.rows, rates.begin)


class Signal(Record):
    """Waves of which one function is known: amplitude, rates, their errors, the first position.

    Units: radians a row; the first position in rows.
    """

    amplitude: float
    rates: Reals
    errors: Reals
    first: int

    def pairs(self, count: int) -> ComplexRows:
        """The points cos + i·sin of the first rows. Shape: (count, columns)."""
        rows = np.arange(count, dtype=np.float64) + self.first
        return np.asarray(np.exp(1j * np.multiply.outer(rows, self.rates)))


def signal_of(columns: RealRows, function: str, rounding: float) -> Signal | None:
    """The waves whose cosines, or sines, columns are; None where they are none.

    Fast columns show the first position. With it, a wave too slow to show a turn shows its rate.
    ``rounding`` is what a value may be off by.

    >>> rows = np.arange(50)[:, None] + 7.0
    >>> found = signal_of(np.cos(rows * [1.0, 0.3, 0.001]), "cos", 1e-15)
    >>> found.first, bool(abs(found.rates[2] - 0.001) < 1e-9)
    (7, True)
    """
    count = columns.shape[0]
    largest = float(np.abs(columns).max())
    if largest == 0 or not are_waves(columns):
        return None
    free, a, b, left = _polish(columns, _rates_by_recurrence(columns), largest)
    turning = (free * count > 1.5) & (left <= 0.02 * largest) & (np.hypot(a, b) > 0.5 * largest)
    sure = np.flatnonzero(turning)[:12]
    if sure.size == 0:
        return None
    rates, points = free[sure], a[sure] - 1j * b[sure]
    amplitude = float(median(np.abs(points)))
    phases = np.angle(points) + (np.pi / 2 if function == "sin" else 0)
    # What the phase of a fitted wave may be off by for each row it is carried back.
    slip = 8 * (rounding + 1e-9) / amplitude / count**1.5 + 1e-7 * rates.max()
    whole = np.arange(min(_FIRST, max(64, int(0.3 / slip))))
    missed = np.zeros(whole.size)
    for rate, phase in zip(rates, phases, strict=True):
        apart = np.abs(2 * np.sin((whole * rate - phase) / 2))  # |exp(i·apart) − 1|
        if function == "sin":  # of a rate past half a turn, which seems to run the other way
            apart = np.minimum(apart, np.sqrt(np.maximum(4 - apart**2, 0)))
        missed += apart
        near = missed <= _MISSED * rates.size
        whole, missed = whole[near], missed[near]
    if whole.size == 0:
        return None
    first = int(whole[np.argmin(missed)])
    known = columns / amplitude
    waves = np.sin(np.multiply.outer(np.arange(count) + first, free))
    signs = np.where((function == "sin") & turning & ((known * waves).sum(axis=0) < 0), -1, 1)
    values, errors, left = _with_start(known * signs, first, free, function, rounding)
    if left.max() > _LEFT:
        return None
    either = (1.0,) if function == "sin" else (1.0, -1.0)
    return Signal(amplitude, continued(signs * values, either, errors), errors, first)


def continued(rates: Reals, signs: tuple[float, ...], errors: Reals) -> Reals:
    """Rates that phases show but for whole turns a row, and but for their sign if it may be either.

    From the slowest known pair on, each rotates as often between rows as its ladder goes on.

    >>> rates = 10.0 * 10_000.0 ** -(np.arange(8) / 8)
    >>> shown = np.abs((rates + np.pi) % (2 * np.pi) - np.pi)
    >>> np.allclose(continued(shown, (1.0, -1.0), 1e-9 * rates), rates)
    True
    """
    values = rates.copy()
    for pair in range(values.size - 3, -1, -1):
        first, second = values[pair + 1 : pair + 3]
        if not (first > 0 and second > 0 and errors[pair + 2] < _LADDER * second):
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
    """The rates of waves of size 1 that start at a known position, their errors, what is left.

    Shapes: (columns,).
    """
    rows = np.arange(columns.shape[0], dtype=np.float64)[:, None] + first
    of, slope_of = (np.cos, lambda x: -np.sin(x)) if function == "cos" else (np.sin, np.cos)
    last = float(rows[-1, 0]) or 1.0
    edge = np.clip(columns[-1], -1, 1)
    slow = (np.arccos(edge) if function == "cos" else np.arcsin(edge)) / last
    best, least, power = np.zeros((3, rates.size))
    least += np.inf
    for start in (rates, slow, 0 * rates):
        values = np.abs(start)
        for _ in range(16):
            missed, slopes = columns - of(values * rows), rows * slope_of(values * rows)
            errors, powers = (missed**2).sum(axis=0), (slopes**2).sum(axis=0)
            better = errors < least
            best, least, power = np.where(better, [values, errors, powers], [best, least, power])
            changes = (slopes * missed).sum(axis=0) / np.where(powers > 0, powers, np.inf)
            if np.abs(changes).max() < _SETTLED:
                break
            # A step of Newton's is kept short: the phases must not slip by a turn.
            values = np.abs(values + np.clip(changes, -0.5 / last, 0.5 / last))
        if (least <= rows.size * (4 * rounding) ** 2).all():
            break
    noise = np.maximum(np.sqrt(least / rows.size), rounding)
    bound = noise / np.sqrt(np.where(power > 0, power, 1e-300))
    # Near a standstill a cosine is 1 − (ω·p)²/2, which rounding hides.
    hidden = np.sqrt(2 * noise) / last if function == "cos" else noise / last
    errors = 4 * np.minimum(bound, hidden) + 1.5e-6 * best
    return best, errors, np.abs(columns - of(best * rows)).max(axis=0)


def free_waves(columns: RealRows) -> RealRows:
    """The wave a·cos(ω·r) + b·sin(ω·r) nearest to each column, whatever its phase.

    ω, a, b, and the largest difference that is left. Shape: (4, columns).
    """
    return _polish(columns, _rates_by_recurrence(columns), float(np.abs(columns).max()))


def are_waves(columns: RealRows) -> bool:
    """Whether one of some columns at least is a wave, whatever its phase."""
    few = columns[:, spread(columns.shape[1], _FIRST_COLUMNS)]
    return bool(free_waves(few)[3].min() <= 0.02 * np.abs(columns).max())


def _rates_by_recurrence(columns: RealRows) -> Reals:
    """Rates from x[r+k] + x[r−k] = 2·cos(k·ω)·x[r], for k = 1, 2, 4 and so on."""
    count = columns.shape[0]
    rates: Reals = np.zeros(columns.shape[1])
    step = 1
    while 2 * step < count:
        middle = columns[step:-step]
        power = (middle**2).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = (middle * (columns[2 * step :] + columns[: -2 * step])).sum(axis=0) / (
                2 * power
            )
        angles = np.arccos(np.clip(np.where(np.isfinite(cosines), cosines, 1.0), -1, 1))
        if step == 1:
            rates = angles
        else:
            turns = np.round((rates * step - angles) / (2 * np.pi))
            back = np.round((rates * step + angles) / (2 * np.pi))
            ahead = (angles + 2 * np.pi * turns) / step
            behind = (-angles + 2 * np.pi * back) / step
            nearer = np.abs(ahead - rates) <= np.abs(behind - rates)
            rates = np.abs(np.where(nearer, ahead, behind))
        if step >= 32:
            break
        step *= 2
    return rates


def _polish(columns: RealRows, rates: Reals, amplitude: float) -> RealRows:
    """The wave a·cos(ω·r) + b·sin(ω·r) near each column, by Gauss and Newton's steps.

    ω, a, b, and the largest difference that is left. Shape: (4, columns).
    """
    some = (slice(i, i + _POLISHED) for i in range(0, rates.size, _POLISHED))
    return np.hstack([_polish_some(columns[:, each], rates[each], amplitude) for each in some])


def _polish_some(columns: RealRows, rates: Reals, amplitude: float) -> RealRows:
    rows = np.arange(columns.shape[0], dtype=np.float64)[:, None]
    best = np.stack([rates, columns[0], np.zeros(rates.size)])  # ω, a, b
    least = np.full(rates.size, np.inf)
    for _ in range(24):
        cos, sin = np.cos(rates * rows), np.sin(rates * rows)
        a, b = _parts(columns, cos, sin)
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


def _parts(columns: RealRows, cos: RealRows, sin: RealRows) -> tuple[Reals, Reals]:
    """The a and b for which a·cos + b·sin comes nearest to each column: least squares.

    A sine is made orthogonal to its cosine, twice, since that of a slow wave is nearly nothing; one
    that is nothing gets no part. Shape: (columns,) each.
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
    """Where rows stand if their pairs rotate with ``frequencies``, and how badly that fits.

    The misfit is the mean distance of a row's pairs from the points on the circle they should be.
    ``signed`` looks at small negative positions too; places past the ``farthest`` are not found.
    Shape: both (rows,).
    """
    places, misfits = _places(pairs, frequencies, signed=signed, farthest=farthest, whole=True)
    return places.astype(np.int64), misfits


def progression_of(
    pairs: ComplexRows, rows: Integers, frequencies: Reals
) -> tuple[Fraction, Fraction] | None:
    """The first position and the step of rows at evenly spaced positions, of any sign.

    ``rows`` (n,) number those of ``pairs``. None where most rows stand on no line.

    >>> rows = np.arange(40)
    >>> at = np.exp(1j * np.multiply.outer(0.5 - 0.25 * rows, [1.0, 0.1, 0.01]))
    >>> [str(number) for number in progression_of(at, rows, np.array([1.0, 0.1, 0.01]))]
    ['1/2', '-1/4']
    """
    if rows.size < _LEAST_ON_LINE:
        return None
    places, misfits = _places(pairs, frequencies, signed=True, farthest=_FARTHEST, whole=False)
    if median(misfits) > _NEAR_LINE:
        return None
    where = rows - rows[0]
    if (line := _line_of(places, where)) is None:
        return None
    start, step, near = line
    centred = where[near] - where[near].mean()
    power = float(centred @ centred)
    left = places[near] - start - step * where[near]
    farthest = float(np.abs(places[near]).max())
    noise = 3 * float(np.sqrt(np.mean(left**2))) + 1e-12 * farthest
    # Frequencies that float32 computed are off together, and places by the same share.
    share = _OFF_TOGETHER if noise > _EXACT * farthest else 0.0

    def off(row: float) -> float:
        """What the place of a row may be off by."""
        line = noise * float(np.sqrt(1 / near.sum() + (row - where.mean()) ** 2 / power))
        return line + share * abs(start + step * row)

    first, span = _fraction(start, off(0)), int(where[-1])
    error = noise / float(np.sqrt(power)) + share * abs(step)
    written = _written(step, error)
    # Of no number that people write the last position may be one: linspace divides so.
    apart = written or (_fraction(start + step * span, off(span)) - first) / span
    return (first - apart * int(rows[0]), apart) if apart else None


def _line_of(places: Reals, where: Integers) -> tuple[float, float, Flags] | None:
    """The start and the step of the line that most rows stand on, and which of them do."""
    step = float(median(np.diff(places) / np.diff(where)))
    start = float(median(places - step * where))
    near = np.abs(places - start - step * where) <= _NEAR_LINE * max(1.0, abs(step))
    if near.sum() < _LEAST_ON_LINE or near.mean() < _SHARE_ON_LINE:
        return None
    centred = where[near] - where[near].mean()
    step = float(centred @ places[near]) / float(centred @ centred)
    return float(places[near].mean() - step * where[near].mean()), step, np.asarray(near)


def _written(value: float, error: float) -> Fraction | None:
    """The number that people write within an error of a value, of either sign."""
    if abs(value - round(value)) <= error:
        return Fraction(round(value))
    number = next((number for number, _ in written_numbers(abs(value), error)), None)
    if number is None:
        return None
    exact = Fraction(str(number))
    if exact.denominator > _MOST_PARTS:
        exact = Fraction(number).limit_denominator(_MOST_PARTS)
    return exact if value > 0 else -exact


def _fraction(value: float, error: float) -> Fraction:
    """As :func:`_written`, or the value to as many digits as the error leaves it."""
    number = _written(value, error)
    if number is None:
        number = Fraction(snap(value, error / SPARE)).limit_denominator(_MOST_PARTS)
    return number


def _places(
    pairs: ComplexRows, frequencies: Reals, *, signed: bool, farthest: int, whole: bool
) -> tuple[Reals, Reals]:
    """As :func:`positions_at`: ``whole`` positions, or what the highest-frequency pair shows."""
    turning = np.flatnonzero(frequencies > 0)
    order = turning[np.argsort(frequencies[turning], kind="stable")]
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
    places = phases[:, :1] / rates[0] + wavelength * turns[None, :]
    for index in range(1, order.size):
        rate = rates[index]
        wanted = np.round((places * rate - phases[:, index : index + 1]) / (2 * np.pi))
        places = (phases[:, index : index + 1] + 2 * np.pi * wanted) / rate
    places = np.clip(np.nan_to_num(places), -(2.0**53), 2.0**53)
    if whole:
        places = np.round(places)
    if not signed:
        places = np.maximum(places, 0)
    misfits = _misfits(places, phases, rates)
    best = np.argmin(misfits, axis=1)
    every = np.arange(pairs.shape[0])
    return places[every, best], misfits[every, best]


def _misfits(places: RealRows, phases: RealRows, rates: Reals) -> RealRows:
    """The mean distances of pairs at ``places`` (rows, turns) from where ``phases`` have them.

    If there are many pairs, some of them tell which turns cannot be the best of a row: these keep
    the distances of some. So does a row that fits nowhere. Shape: (rows, turns).
    """
    some = np.arange(0, rates.size, max(1, rates.size // _FEW_PAIRS))
    share = some.size / rates.size
    misfits = np.empty(places.shape)
    at_once = max(1, _CELLS_AT_ONCE // (phases.shape[0] * some.size))
    for first in range(0, places.shape[1], at_once):
        columns = slice(first, first + at_once)
        misfits[:, columns] = _distances(places[:, columns], phases[:, some], rates[some])
    if share == 1:
        return misfits
    best, every = np.argmin(misfits, axis=1), np.arange(places.shape[0])
    most = _distances(places[every, best][:, None], phases, rates)[:, 0]
    most[misfits[every, best] > _HOPELESS] = 0
    rows, turns = np.nonzero(share * misfits <= most[:, None])
    at_once = max(1, _CELLS_AT_ONCE // rates.size)
    for first in range(0, rows.size, at_once):
        row, turn = rows[first : first + at_once], turns[first : first + at_once]
        misfits[row, turn] = _distances(places[row, turn][:, None], phases[row], rates)[:, 0]
    return misfits


def _distances(places: RealRows, phases: RealRows, rates: Reals) -> RealRows:
    """The mean of |exp(i·apart) − 1| over pairs, of rows at places. Shape: (rows, places)."""
    apart = np.multiply.outer(places, rates) - phases[:, None]  # (rows, places, pairs)
    return np.asarray(np.abs(2 * np.sin(apart / 2)).mean(axis=2), np.float64)
