"""Find the rule by which rows get wrong positions.

In: rotations of some rows. Out: the position that each row shows, and rules for all rows: positions
are clamped, restart, stay constant, or have an offset.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.reference import Sample, rotation_by
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals

_READABLE = 0.9
"""Least share of a sample's rows that must show a position, before a rule for all rows is tried."""

_MOST_TURNS = 32
"""Limit on full rotations of the lowest-frequency pair that are tried, in each direction."""


class PositionMap(Record):
    """A rule by which position p is rotated as another one: a message and a function."""

    message: str
    at: Callable[[Integers], Integers]

    def where(self, sample: Sample) -> Reals:
        """Return the positions that a sample's angles are multiples of: (n,), or (n, pairs)."""
        return np.asarray(sample.reference.angle_positions(self.at(sample.positions)), np.float64)


def _rotated_pairs(sample: Sample) -> Integers:
    """Return the rotated pairs that were observed, from the lowest frequency to the highest."""
    right = sample.reference.frequencies
    rotated = np.flatnonzero((right > 0) & sample.seen.any(axis=0))
    return rotated[np.argsort(right[rotated], kind="stable")]


def _explained(sample: Sample, coordinates: Reals | Integers) -> tuple[Integers, Flags]:
    """Return the positions nearest to coordinates of rows, and the entries that they explain."""
    read = np.asarray(np.round(coordinates), np.int64)
    right = sample.reference.frequencies
    predicted = sample.amplitude * rotation_by(right.tobytes(), sample.reference.engine).at(read)
    farther = np.maximum(np.abs(sample.positions), np.abs(read)).astype(np.float64)
    return read, sample.compare(predicted, right, farther)[1]


def shown_positions(sample: Sample) -> tuple[Integers, Flags]:
    """Return the positions that the rows (P,) show, and the entries that these positions explain.

    The lowest-frequency pair allows several positions: the one nearest to 0 is chosen, no farther
    than the sample's own positions.
    """
    slowest = sample.reference.frequencies[_rotated_pairs(sample)[:1]].sum()  # 0 if none
    farthest = np.abs(sample.positions).max(initial=0) * slowest
    turns = min(math.ceil(farthest / (2 * math.pi)), _MOST_TURNS)
    read, explained = _explained(sample, read_coordinates(sample))
    for turn in (*range(1, turns + 1), *range(-1, -turns - 1, -1)):
        left = np.flatnonzero(~explained.all(axis=1))
        if not left.size:
            break
        rest = sample.rows(left)
        other, by_other = _explained(rest, read_coordinates(rest, turn))
        better = by_other.all(axis=1)
        read[left[better]], explained[left[better]] = other[better], True
    return read, explained


def read_coordinates(sample: Sample, turn: int = 0) -> Reals:
    """Return the coordinate that each row shows, read from the lowest frequency to the highest.

    ``turn`` is the number of full rotations of the lowest-frequency pair.
    """
    pairs = [*_rotated_pairs(sample)] or [0]
    angles = np.angle(np.where(np.isfinite(sample.factors), sample.factors, 1))  # (n, pairs)
    rates = np.maximum(sample.reference.frequencies[pairs], 1e-30)  # 0 if nothing rotates
    return unwrapped(angles[:, pairs], rates, turn)


def unwrapped(angles: RealRows, rates: Reals, turn: int = 0) -> Reals:
    """Return the position that the angles (n, waves) of waves of increasing rates show: (n,)."""
    read = (angles[:, 0] + 2 * np.pi * turn) / rates[0]
    for angle, rate in zip(angles.T[1:], rates[1:], strict=True):
        wraps = np.round((read * rate - angle) / (2 * np.pi))
        read = (angle + 2 * np.pi * wraps) / rate
    return np.asarray(np.clip(read, -(2.0**53), 2.0**53), np.float64)


def position_maps(sample: Sample) -> Iterator[PositionMap]:
    """Yield rules that give the positions shown by the rows of a sample, the simplest first."""
    if sample.reference.coordinates is not None or not _rotated_pairs(sample).size:
        return
    read, explained = shown_positions(sample)
    shown = explained.all(axis=1)
    if shown.mean() < _READABLE:
        return
    order = np.argsort(sample.positions[shown], kind="stable")
    positions, read = sample.positions[shown][order], read[shown][order]
    moved = np.flatnonzero(positions != read)
    if moved.size and read.any():
        yield from _maps_from(int(moved[0]), positions, read)
        yield from _restarted(positions, read)


def _maps_from(row: int, positions: Integers, read: Integers) -> Iterator[PositionMap]:
    """Yield rules by which positions have an offset, or stay constant, from a row on."""
    start, last = int(positions[row]), int(read[-1])
    lags = np.unique(positions[row:] - read[row:])
    shift = int(lags[0])
    if lags.size == 1 and row == 0:
        yield _map_of("shifted", shift=-shift)
    elif lags.size == 1 and shift < start:
        yield _map_of("off from", start=start, shift=-shift)
    elif lags.size == 1 and positions[-1] >= 2 * start:  # otherwise a buffer of that length
        yield _map_of("restart", start=start)
    elif (read[row:] == last).all():
        # A clamped position is one of the sample's, or between two of them.
        clamped = row > 0 and positions[row - 1] <= last <= start
        yield _map_of("end" if clamped else "decoding", start=start, last=last)


def _restarted(positions: Integers, read: Integers) -> Iterator[PositionMap]:
    """Yield the rule that positions are taken modulo a number."""
    period = int(np.gcd.reduce(positions - read))
    if period > 1:
        yield _map_of("buffer", period=period)


_MAPS: dict[str, tuple[str, Callable[..., Integers]]] = {
    "rows": (
        "each row is rotated by its number in the array, not by its position",
        lambda p: np.arange(p.size),
    ),
    "shifted": ("positions are shifted by {shift:+d}", lambda p, shift: p + shift),
    "end": ("positions are clamped at {last}", lambda p, last, **_: np.minimum(p, last)),
    "restart": (
        "positions restart at {start}, which is rotated as 0",
        lambda p, start: np.where(p < start, p, p - start),
    ),
    "off from": (
        "positions from {start} on are shifted by {shift:+d}",
        lambda p, start, shift: np.where(p < start, p, p + shift),
    ),
    "padding": (
        (
            "the first {start} positions are rotated as 0, and later ones are shifted by "
            "-{start}, as with left padding"
        ),
        lambda p, start: np.maximum(p - start, 0),
    ),
    "decoding": (
        (
            "every position from {start} on is rotated as {last}, as in decoding steps that ignore "
            "the cache length"
        ),
        lambda p, start, last: np.where(p < start, p, np.full_like(p, last)),
    ),
    "buffer": (
        "positions restart every {period}: a buffer or chunk of that length",
        lambda p, period: p % period,
    ),
}
"""Rules by name: the message, and the position as which p is rotated."""


def _map_of(name: str, **numbers: int) -> PositionMap:
    """Return a rule of the table with its numbers.

    >>> _map_of("end", last=3).at(np.arange(6)).tolist()
    [0, 1, 2, 3, 3, 3]
    """
    message, at = _MAPS[name]
    return PositionMap(message.format(**numbers), partial(at, **numbers))


def usual_maps(context: int) -> Iterator[PositionMap]:
    """Yield the most common mistakes with positions, for a model with a context of this length."""
    yield _map_of("rows")
    yield _map_of("end", last=context - 1)
    yield _map_of("restart", start=context)
    yield from (_map_of("off from", start=context, shift=-shift) for shift in (1, -1))
    yield from (_map_of("buffer", period=period) for period in dict.fromkeys((512, context)))
    yield _map_of("padding", start=8)
    yield _map_of("decoding", start=8, last=0)
