"""Find the rule by which rows get wrong positions.

In: rotations of some rows, or the positions that rows of any encoding have. Out: the position that
each row shows, and a rule for all rows: positions are clamped, restart, stay constant, or have an
offset.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.fitting import phasors, unwrapped
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.inference.reference import Sample
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows, Reals

_READABLE = 0.9
"""Least share of a sample's rows that must show a position, before a rule for all rows is tried."""

_MOST_TURNS = 32
"""Limit on full rotations of the lowest-frequency pair that are tried, in each direction."""

_FEW_PAIRS = 4
"""Pairs of the highest frequencies that are compared first; a wrong number of rotations rarely
agrees with them."""


class PositionMap(Record):
    """A rule by which position p is treated as another one: a message and a function."""

    message: str
    at: Callable[[NumberArray], NumberArray]

    def where(self, sample: Sample) -> Reals:
        """Return the positions that a sample's angles are multiples of: (n,), or (n, pairs)."""
        return np.asarray(sample.reference.angle_positions(self.at(sample.positions)), np.float64)


def _rotated_pairs(sample: Sample) -> Integers:
    """Return the rotated pairs that were observed, from the lowest frequency to the highest."""
    right = sample.reference.frequencies
    rotated = np.flatnonzero((right > 0) & sample.seen.any(axis=0))
    return rotated[np.argsort(right[rotated], kind="stable")]


def _errors(
    sample: Sample, read: Integers, pairs: Integers | slice = slice(None)
) -> tuple[RealRows, Flags]:
    """Return the errors of rows if they are rotated as positions, and which are within tolerance.

    ``pairs`` are the pairs to compare. Shape of each: (n, pairs).
    """
    if not isinstance(pairs, slice):
        stray = sample.stray if sample.stray.shape[1] == 1 else sample.stray[:, pairs]
        factors, seen = sample.factors[:, pairs], sample.seen[:, pairs]
        sample = replace(sample, factors=factors, seen=seen, stray=stray)
    right = sample.reference.frequencies[pairs]
    predicted = sample.amplitude * phasors(np.multiply.outer(read.astype(np.float64), right))
    farther = np.maximum(np.abs(sample.positions), np.abs(read)).astype(np.float64)
    return sample.compare(predicted, right, farther)


def _nearest_positions(sample: Sample, turn: int = 0) -> Integers:
    return np.asarray(np.round(read_coordinates(sample, turn)), np.int64)


def whole_positions(sample: Sample, last: int = 0) -> tuple[Integers, Flags, RealRows]:
    """Return the position that explains every entry of each row, if there is one, and its errors.

    The lowest-frequency pair allows several positions: the one nearest to 0 is chosen, no farther
    than ``last`` or the sample's own positions. Shape: (n,), (n,) says if there is one, (n, pairs).
    """
    rotated = _rotated_pairs(sample)
    slowest = sample.reference.frequencies[rotated[:1]].sum()  # 0 if none
    farthest = np.abs(sample.positions).max(initial=last) * slowest
    turns = min(math.ceil(farthest / (2 * math.pi)), _MOST_TURNS)
    read, errors = np.zeros_like(sample.positions), np.zeros(sample.factors.shape)
    shown = np.zeros(read.size, bool)
    for turn in (*range(turns + 1), *range(-1, -turns - 1, -1)):
        left = np.flatnonzero(~shown)
        if not left.size:
            break
        rest = sample.rows(left)
        nearest = _nearest_positions(rest, turn)
        likely = np.flatnonzero(_errors(rest, nearest, rotated[-_FEW_PAIRS:])[1].all(axis=1))
        if not likely.size:
            continue
        missed, explained = _errors(rest.rows(likely), nearest[likely])
        whole = explained.all(axis=1)
        rows = left[likely[whole]]
        read[rows], errors[rows], shown[rows] = nearest[likely[whole]], missed[whole], True
    return read, shown, errors


def shown_positions(sample: Sample) -> tuple[Integers, Flags]:
    """Return the positions that the rows (n,) show, and the entries that these positions explain.

    A row that no position explains as a whole gets the one nearest to its coordinates.
    """
    read = _nearest_positions(sample)
    explained = _errors(sample, read)[1]
    left = np.flatnonzero(~explained.all(axis=1))
    if left.size:
        others, shown, _ = whole_positions(sample.rows(left))
        read[left[shown]], explained[left[shown]] = others[shown], True
    return read, explained


def read_coordinates(sample: Sample, turn: int = 0) -> Reals:
    """Return the coordinate that each row shows, read from the lowest frequency to the highest.

    ``turn`` is the number of full rotations of the lowest-frequency pair.
    """
    pairs = [*_rotated_pairs(sample)] or [0]
    angles = np.angle(np.where(np.isfinite(sample.factors), sample.factors, 1))  # (n, pairs)
    rates = np.maximum(sample.reference.frequencies[pairs], 1e-30)  # 0 if nothing rotates
    return unwrapped(angles[:, pairs], rates, np.array([turn]))[:, 0]


def position_maps(sample: Sample) -> Iterator[PositionMap]:
    """Yield rules that give the positions shown by the rows of a sample, the likeliest first."""
    if sample.reference.coordinates is not None or not _rotated_pairs(sample).size:
        return
    read, explained = shown_positions(sample)
    shown = explained.all(axis=1)
    if shown.mean() < _READABLE:
        yield from _maps_from_first_wrong_row(sample)
        return
    order = np.argsort(sample.positions[shown], kind="stable")
    positions, read = sample.positions[shown][order], read[shown][order]
    if (positions >= 0).all() and read.any():  # rows that are all at 0 are not rotated
        rule = simplest_map(positions, read)
        yield from () if rule is None else (rule,)


def _maps_from_first_wrong_row(sample: Sample) -> Iterator[PositionMap]:
    """Yield rules that may begin at the first wrong row.

    Without low-frequency pairs, rows show their positions only modulo a wavelength.
    """
    right = _errors(sample, sample.positions)[1].all(axis=1)  # (n,)
    row = int(np.argmin(right))
    first = int(sample.positions[row])
    shown = not right.all() and row > 0 and first > 1 and (sample.positions >= 0).all()
    if shown and sample.positions[row - 1] == first - 1:
        yield _map_of("clamped", last=first - 1)
        yield _map_of("restarts", starts=(0, first))
        yield _map_of("buffer", period=first)


_RULES: dict[str, tuple[str, Callable[..., NumberArray]]] = {
    "one": ("every position is treated as {last:.12g}", lambda p, last, **_: 0 * p + last),
    "clamped": (
        "{shifted}positions are clamped at {last:.12g}",
        lambda p, last, shift, **_: np.minimum(p + shift, last),
    ),
    "buffer": (
        "{rested}positions restart every {period}: a buffer or chunk of that length",
        lambda p, period, rest, **_: p % period + rest,
    ),
    "padding": (
        "{beginning} treated as {first:.12g}{later}",
        lambda p, first, until, by, **_: np.where(p < until, first, p + by),
    ),
    "decoding": (
        (
            "every position from {start:.12g} on is treated as {last:.12g}, as in decoding steps "
            "that ignore the cache length"
        ),
        lambda p, start, last, **_: np.where(p < start, p, last),
    ),
    "restarts": (
        "positions restart from 0 at {restarts}",
        lambda p, starts, **_: p - np.array(starts)[np.searchsorted(starts[1:], p, side="right")],
    ),
    "shifted": (
        "{moved}",
        lambda p, start, shift, by, **_: p + np.where(p < start, shift, by),
    ),
}
"""Rules by name, the simplest first: the message, and the position as which p is treated."""

_MOST_LISTED = 4
"""Most restarts that are listed by number."""


def _map_of(name: str, *, begin: float = 0, **given: Any) -> PositionMap:
    """Return a rule with its numbers, for positions from ``begin`` on."""
    message, at = _RULES[name]
    numbers = {"shift": 0, "rest": 0, "by": 0, "until": 1, "starts": (0,), **given}
    shift, by, until, starts = (numbers[name] for name in ("shift", "by", "until", "starts"))
    beginning = f"the first {until:.12g} positions are" if until > 1 else "position 0 is"
    if begin:
        ends = f"{begin:.12g}–{until - 1:.12g}"
        beginning = f"positions {ends} are" if until > begin + 1 else f"position {begin:.12g} is"
    later = f", and later ones are shifted by {by:+.12g}" if by else ""
    padding = ", as with left padding" if until == -by and not begin and until > 1 else ""
    listed = ", ".join(f"{start:.12g}" for start in starts[1 : _MOST_LISTED + 1])
    more = f" … ({len(starts) - 1} times)" if len(starts) > _MOST_LISTED + 1 else ""
    shifted, rested = (
        f"positions are shifted by {number:+.12g}, and " if number else ""
        for number in (shift, numbers["rest"])
    )
    start = numbers.get("start", 0)
    moved = f"{shifted}positions from {start:.12g} on are shifted by {by:+.12g}"
    if not by:
        moved = f"positions before {start:.12g} are shifted by {shift:+.12g}"
    texts = {
        "shifted": shifted,
        "rested": rested,
        "moved": moved,
        "beginning": beginning,
        "later": f"{later}{padding}",
        "restarts": f"{listed}{more}",
    }
    return PositionMap(message.format(**numbers, **texts), lambda p: at(p, **numbers))


def simplest_map(positions: NumberArray, read: NumberArray) -> PositionMap | None:
    """Return the simplest rule by which increasing positions (n,) are treated as those of ``read``.

    None if there is none, or if all are shifted by one number.
    """
    shifts = read - positions
    if (shifts == shifts[0]).all():
        return None
    repeats = int(np.argmin(read == read[0]))  # 0 if all are equal
    until, lag = positions[repeats], -shifts[-1]
    if repeats and positions[repeats - 1] <= lag <= until:
        until = lag  # between two rows of a sample
    resets = np.flatnonzero(np.diff(read) <= 0) + 1
    period = max(int(np.gcd.reduce((shifts - shifts[0]).astype(np.int64))), 1)
    numbers = {
        "rest": read[0] - positions[0] % period,
        "begin": positions[0],
        "first": read[0],
        "last": read[-1],
        "shift": shifts[0],
        "by": shifts[-1],
        "start": positions[int(np.argmax(shifts != shifts[0]))],
        "until": until,
        "period": period,
        "starts": (0, *(-shifts[resets]).tolist()),
    }
    rules = (_map_of(name, **numbers) for name in _RULES)
    return next((rule for rule in rules if np.array_equal(rule.at(positions), read)), None)


def usual_maps(context: int, positions: Integers) -> Iterator[PositionMap]:
    """Yield the most common mistakes at ``positions`` of a model with a context of this length."""
    order = np.argsort(positions, kind="stable")
    yield PositionMap(
        "each row is treated as its number in the array, not as its position",
        lambda p: order[np.searchsorted(positions, p, sorter=order)],
    )
    yield _map_of("clamped", last=context - 1)
    yield _map_of("restarts", starts=(0, context))
    yield from (_map_of("shifted", start=context, by=by) for by in (-1, 1))
    yield from (_map_of("buffer", period=period) for period in dict.fromkeys((512, context)))
    yield _map_of("padding", first=0, until=8, by=-8)
    yield _map_of("decoding", start=8, last=0)
