"""Find the rule by which rows get wrong positions.

In: rotations of some rows. Out: the position that each row shows, and rules for all rows: positions
are clamped, restart, stay constant, or have an offset.
"""

from __future__ import annotations

import math
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

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same message, which states all numbers of the rule."""
        return isinstance(other, PositionMap) and other.message == self.message

    def __hash__(self) -> int:
        return hash(self.message)


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
        yield from _maps_from_first_wrong_row(sample)
        return
    order = np.argsort(sample.positions[shown], kind="stable")
    positions, read = sample.positions[shown][order], read[shown][order]
    if (positions < 0).any() or np.array_equal(positions, read):
        return
    yield from _clamped_or_shifted(positions, read)
    yield from _restarted(positions, read)


def _maps_from_first_wrong_row(sample: Sample) -> Iterator[PositionMap]:
    """Yield rules that may begin at the first wrong row.

    Without low-frequency pairs, rows show their positions only modulo a wavelength.
    """
    right = _explained(sample, sample.positions)[1].all(axis=1)  # (n,)
    row = int(np.argmin(right))
    first = int(sample.positions[row])
    shown = not right.all() and row > 0 and first > 1 and (sample.positions >= 0).all()
    if shown and sample.positions[row - 1] == first - 1:
        yield _map_of("end", last=first - 1)
        yield _map_of("restart", start=first)
        yield _map_of("buffer", period=first)


_MAPS: dict[str, tuple[str, Callable[..., Integers]]] = {
    "rows": (
        "each row is rotated by its number in the array, not by its position",
        lambda p, **_: np.arange(p.size),
    ),
    "one": ("every position is rotated as {last}", lambda p, last, **_: np.full_like(p, last)),
    "end": ("positions are clamped at {last}", lambda p, last, **_: np.minimum(p, last)),
    "restart": (
        "positions restart at {start}, which is rotated as 0",
        lambda p, start, **_: np.where(p < start, p, p - start),
    ),
    "off from": (
        "positions from {start} on are shifted by {back:+d}",
        lambda p, start, shift, **_: np.where(p < start, p, p - shift),
    ),
    "decoding": (
        (
            "every position from {start} on is rotated as {last}, as in decoding steps that ignore "
            "the cache length"
        ),
        lambda p, start, last, **_: np.where(p < start, p, last),
    ),
    "buffer": (
        "positions restart every {period}{off}: a buffer or chunk of that length",
        lambda p, period, shift, **_: p % period + shift,
    ),
}
"""Rules by name: the message, and the position as which p is rotated."""


def _map_of(name: str, *, shift: int = 0, period: int = 0, **numbers: int) -> PositionMap:
    message, at = _MAPS[name]
    numbers |= {"shift": shift, "period": period, "back": -shift}
    off = f", shifted by {shift:+d}" if shift else ""
    return PositionMap(message.format(off=off, **numbers), lambda p: at(p, **numbers))


def usual_maps(context: int) -> Iterator[PositionMap]:
    """Yield the most common mistakes with positions, for a model with a context of this length."""
    yield _map_of("rows")
    yield _map_of("end", last=context - 1)
    yield _map_of("restart", start=context)
    yield from (_map_of("off from", start=context, shift=shift) for shift in (1, -1))
    yield from (_map_of("buffer", period=period) for period in dict.fromkeys((512, context)))
    yield _padding_map(8, 0, 8)
    yield _map_of("decoding", start=8, last=0)


def _restarted(positions: Integers, read: Integers) -> Iterator[PositionMap]:
    """Yield the rule that positions are taken modulo a number."""
    lags = np.unique(positions - read)
    period = int(np.gcd.reduce(lags - lags[0]))
    if period > 1 and read.min() >= 0:
        yield _map_of("buffer", period=period, shift=-int(lags[0]))


def _clamped_or_shifted(positions: Integers, read: Integers) -> Iterator[PositionMap]:
    """Yield rules by which positions stay constant, or have an offset, from some position on."""
    lags = positions - read
    last = int(read[-1])
    tail = _count_equal_at_end(read)
    if tail == read.size > 1 and last:
        yield _map_of("one", last=last)
    if 1 < tail < read.size and not lags[:-tail].any():
        # A clamped position is one of the sample's, or between two of them.
        start = int(positions[-tail])
        name = "end" if positions[-tail - 1] < last <= start else "decoding"
        yield _map_of(name, start=start, last=last)
    head = _count_equal_at_end(read[::-1])
    rest = np.unique(lags[head:])
    if 1 < head < read.size and rest.size == 1:
        first, shift = int(read[0]), int(rest[0])
        start = int(positions[head])
        if positions[head - 1] <= shift <= start:
            start = shift  # between two rows of the sample
        yield _padding_map(start, first, shift, begin=int(positions[0]))
    moved = np.flatnonzero(lags)
    beyond = np.unique(lags[moved[0] :])
    if moved[0] > 0 and beyond.size == 1:
        start, shift = int(positions[moved[0]]), int(beyond[0])
        if shift < start or (shift == start and positions[-1] >= 2 * start):
            yield _map_of("restart" if shift == start else "off from", start=start, shift=shift)


def _padding_map(start: int, first: int, shift: int, begin: int = 0) -> PositionMap:
    off = "" if shift == 0 else f", and later ones are shifted by {-shift:+d}"
    which = f"the first {start} positions are" if start > 1 else "position 0 is"
    why = ", as with left padding" if start == shift and not begin else ""
    if begin:
        last = start - 1
        which = f"position {begin} is" if last == begin else f"positions {begin}–{last} are"
    return PositionMap(
        f"{which} rotated as {first}{off}{why}", lambda p: np.where(p < start, first, p - shift)
    )


def _count_equal_at_end(values: Integers) -> int:
    others = np.flatnonzero(values != values[-1])
    return values.size - (int(others[-1]) + 1 if others.size else 0)
