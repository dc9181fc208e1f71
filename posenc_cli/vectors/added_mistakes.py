"""What becomes of vectors where rows are added to them wrongly, mistake by mistake.

Rows at other positions and of other parameters are posenc's own, in float64; what waves become is
computed of their angles. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.axial import placed_waves
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.errors import PosencError
from posenc_cli.formulas.rotary import rope
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import COARSE, HALVES, round_to_half
from posenc_cli.inference.frequency_rules import likely_alternatives
from posenc_cli.inference.reference import Reference
from posenc_cli.inference.tolerance import FUNCTIONS, PER_ANGLE, smallest, unit
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.vectors.known_mistakes import (
    KnownMistake,
    WrongValues,
    fixed_tolerance,
    made,
    other_parameters,
    usual_moves,
    without_idle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.tolerance import Tolerance
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_ROUNDINGS = 4
"""Of what adds a row that is looked up, or computed in a step or two."""
_SIGNS = {
    "the sines have the wrong sign": (1.0, -1.0),
    "the cosines have the wrong sign": (-1.0, 1.0),
    "the cosines are 0": (0.0, 1.0),
    "the sines are 0": (1.0, 0.0),
}
"""What the cosines and the sines are multiplied by."""


class VectorsWithRows(Record):
    """Vectors x (n, columns) to which the rows of a request are added, at positions (n,).

    ``usual`` says that these are the positions that show most.
    """

    request: Request
    x: RealRows
    positions: Integers
    tolerance: Tolerance
    dtype: str
    usual: bool

    def rows(self, request: Request | None = None, at: Integers | None = None) -> RealRows:
        """The rows of a request, by default of the right one, at some positions."""
        request, at = request or self.request, self.positions if at is None else at
        if request.content.waves is not None:
            other = replace(self, request=request)
            return other.waves(other.angles(at, other.frequencies))
        single = Positions(tuple(range(position, position + 1) for position in at.tolist()))
        blocks = replace(request, positions=single).plan().matrix().blocks()
        return np.concatenate(list(blocks)).astype(np.float64)

    def summed(self, rows: RealRows, frequencies: Reals | None = None) -> WrongValues:
        """The vectors with rows added, of waves that have these frequencies."""
        return self.values(self.x + rows, rows, frequencies)

    def moved(self, at: Integers) -> WrongValues:
        """The vectors with the rows of other positions added."""
        return self.summed(self.rows(at=at))

    def values(
        self, values: RealRows, rows: RealRows, frequencies: Reals | None = None
    ) -> WrongValues:
        """Values that were made with rows, and what they may be off by."""
        if self.tolerance.fixed is not None:
            return WrongValues(values, fixed_tolerance(values, self.tolerance.fixed))
        rounding = max(unit(self.dtype), unit("float32"))
        allowed = _ROUNDINGS * rounding * (np.abs(self.x) + np.abs(rows)) + smallest("float32")
        content = self.request.content
        if content.waves is not None:
            rates = self.frequencies if frequencies is None else np.abs(frequencies)
            cells = self.tolerance.cells(self.followed_at(self.positions), rates)
            cells = np.broadcast_to(cells, (self.positions.size, rates.size))
            allowed += self.placed(cells, cells)
        return WrongValues(values, allowed)

    @property
    def frequencies(self) -> Reals:
        """The frequencies of the waves (waves,)."""
        waves = self.request.content.waves
        assert waves is not None
        with self.request.scheme.answerable(), np.errstate(all="ignore"):
            return np.asarray(waves.frequencies(np), np.float64)

    def angles(self, positions: Integers, frequencies: Reals) -> RealRows:
        """The angles of waves at positions (n,). Shape: (n, waves)."""
        followed = self.followed_at(positions)
        angles: RealRows = followed.reshape(positions.size, -1) * frequencies
        return angles

    def followed_at(self, positions: Integers) -> Integers:
        """What angles are multiples of: positions (n,), or coordinates (n, waves)."""
        waves = self.request.content.waves
        assert waves is not None
        coordinates = placed_waves(waves).coordinates
        if coordinates is None or coordinates.at is None:
            return positions
        return np.stack(coordinates.at(positions), axis=1)[:, list(coordinates.axes)]

    def placed(self, cos: RealRows, sin: RealRows) -> RealRows:
        """Cosines and sines (n, waves) in their columns (n, columns)."""
        content = self.request.content
        rows = np.zeros((cos.shape[0], content.width))
        for placement in content.columns().placements:
            if placement.function != "zero":
                waves = sin if placement.function == "sin" else cos
                rows[:, placement.columns] = waves[:, placement.waves]
        return rows

    def waves(self, angles: RealRows, signs: tuple[float, float] = (1.0, 1.0)) -> RealRows:
        """The rows of waves at angles (n, waves)."""
        waves = self.request.content.waves
        assert waves is not None
        scale = float(waves.scale)
        with np.errstate(invalid="ignore"):  # of angles past the largest number of a format
            cos, sin = np.cos(angles), np.sin(angles)
        return self.placed(signs[0] * scale * cos, signs[1] * scale * sin)


def added_mistakes(added: VectorsWithRows, context: int) -> Iterator[KnownMistake]:
    """The mistakes that are known of rows which are added, in a model of so many positions."""
    right = added.rows()
    mistakes = _mistakes(added, right, context)
    yield from without_idle(mistakes, added.x + right) if added.usual else mistakes
    for half in COARSE:  # of other vectors these would show: a pack whose x hides them is told so
        sums = added.values(round_to_half(added.x + right, half), right)
        yield KnownMistake(Cause.TABLE_PRECISION, f"the sum was rounded to {half}", sums)


def _mistakes(added: VectorsWithRows, right: RealRows, context: int) -> Iterator[KnownMistake]:
    yield from _sums(added, right)
    if added.request.content.waves is not None:
        yield from _waves(added)
    yield from _columns(added, right)
    yield from _moved(added, context)
    for half in COARSE:
        rounded = round_to_half(right, half)
        message = f"what is added was rounded to {half}"
        yield KnownMistake(Cause.TABLE_PRECISION, message, added.summed(rounded))
    yield from _parameters(added, right)


def _parameters(added: VectorsWithRows, right: RealRows) -> Iterator[KnownMistake]:
    """Rows of other parameters."""
    bound, positions = added.request.encoding.bound, added.request.positions
    assert positions is not None
    for message, given in other_parameters(bound):
        try:
            encoding = Encoding.of(bound.scheme, given, seq_len=positions.length)
            rows = added.rows(replace(added.request, encoding=encoding))
        except PosencError:
            continue
        if rows.shape == right.shape:
            cause = Cause.BASE if message.startswith("base ") else "parameter"
            yield KnownMistake(cause, message, added.summed(rows))


def _sums(added: VectorsWithRows, right: RealRows) -> Iterator[KnownMistake]:
    """Rows that are not added, or otherwise."""
    root = math.sqrt(added.x.shape[1])
    for message, values in (
        ("nothing is added", added.x),
        ("the rows are subtracted, not added", added.x - right),
        ("the rows are added twice", added.x + 2 * right),
        ("half of the rows is added", added.x + right / 2),
        ("the rows are divided by √d", added.x + right / root),
        ("the rows are multiplied by √d", added.x + right * root),
        ("the vectors are multiplied by √d before", added.x * root + right),
        ("the sum is divided by √2", (added.x + right) / math.sqrt(2)),
        ("the rows take the place of the vectors", right),
        ("the vectors are multiplied by the rows", added.x * right),
    ):
        yield KnownMistake("not-added", message, added.values(values, right))


def _columns(added: VectorsWithRows, right: RealRows) -> Iterator[KnownMistake]:
    """Rows whose columns stand in another order."""
    width = right.shape[1]
    columns = np.arange(width)
    orders = {"the columns stand in reverse order": columns[::-1]}
    if width % 2 == 0 and width > 2:
        halves = np.concatenate([columns[::2], columns[1::2]])
        orders |= {
            "columns 0, 2, 4 … come first, then 1, 3, 5 …": halves,
            "columns of the two halves alternate": np.argsort(halves),
            "each two columns are exchanged": columns ^ 1,
            "the two halves of the columns are exchanged": np.roll(columns, width // 2),
        }
    for message, order in orders.items():
        yield KnownMistake(Cause.LAYOUT, message, added.summed(right[:, order]))


def _moved(added: VectorsWithRows, context: int) -> Iterator[KnownMistake]:
    """Rows of other positions; of those that there are."""
    off = [
        (Cause.POSITION_OFFSET, f"positions are off by {step:+d}", added.positions + step)
        for step in (1, -1, 2)
    ]
    for cause, message, at in (*off, *usual_moves(added.positions, context)):
        yield made(cause, message, added.moved, _within(added, at))


def _within(added: VectorsWithRows, at: Integers) -> Integers:
    """Positions from 0 to the last that there is, in place of those outside."""
    capacity = added.request.content.capacity
    # At most what int64 holds: NumPy 2.0 raises an OverflowError for more.
    return np.clip(at, 0, None if capacity is None else min(capacity.positions, 2**63) - 1)


def _waves(added: VectorsWithRows) -> Iterator[KnownMistake]:
    """Waves of other angles, signs and frequencies."""
    right = added.angles(added.positions, added.frequencies)
    for message, signs in _SIGNS.items():
        wrong = added.summed(added.waves(right, signs))
        yield KnownMistake(Cause.COS_SIN_MISPAIRED, message, wrong)
    exchanged = added.summed(added.waves(math.pi / 2 - right))
    yield KnownMistake(Cause.COS_SIN_MISPAIRED, "cosines and sines are swapped", exchanged)
    for half in HALVES:
        wrong = added.summed(added.waves(round_to_half(right, half)))
        yield KnownMistake(Cause.POSITION_PRECISION, f"angles were rounded to {half}", wrong)
    for cause, message, rates in _other_frequencies(added):
        angles = added.angles(added.positions, rates)
        yield KnownMistake(cause, message, added.summed(added.waves(angles), rates))


def _other_frequencies(added: VectorsWithRows) -> Iterator[tuple[Cause, str, Reals]]:
    """What goes wrong with any ladder, where the waves are one."""
    base, count = added.request.encoding.bound.params.get("base"), added.frequencies.size
    if base is None:
        return
    ladder = Reference.of(Encoding.of(rope, {"dim": 2 * count, "base": base}, seq_len=None))
    if not np.allclose(ladder.frequencies, added.frequencies, rtol=1e-9, atol=0):
        return
    for rule in likely_alternatives(ladder):
        if rule.cause != Cause.BASE and "rope" not in rule.message:
            yield rule.cause, rule.message, rule.frequencies


def reason_of(added: VectorsWithRows) -> str:
    """What values may be off by, in words."""
    if added.tolerance.fixed is not None:
        return f"given: {added.tolerance.fixed:g}"
    rounded = f"{_ROUNDINGS} roundings of x and of the row"
    if added.request.content.waves is not None:
        return f"{PER_ANGLE:g} of the angle + {FUNCTIONS:g} (cos and sin) + {rounded}"
    return rounded
