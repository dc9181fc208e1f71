"""What becomes of vectors where a rotary encoding is written wrongly, mistake by mistake.

Owns the list of mistakes that are known: those that rope-check looks for (defects, alternatives,
wrong places), each applied to given vectors at given positions. Computed in float64, and the
mistakes as posenc's own checks emulate them.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.coordinates import following
from posenc_cli.diagnosis.defects import TURNS, Defect
from posenc_cli.diagnosis.misplaced_values import wrong_places
from posenc_cli.diagnosis.wording import FACTORS, offsets_text
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALF_CELLS, HALVES, round_to_half
from posenc_cli.inference.frequency_rules import alternatives
from posenc_cli.inference.position_maps import usual_maps
from posenc_cli.inference.rules import changed_frequencies
from posenc_cli.inference.sample import Sample
from posenc_cli.inference.tolerance import PER_ANGLE, smallest
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.records import Record, replace
from posenc_cli.vectors.known_mistakes import KnownMistake, WrongValues, fixed_tolerance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.tolerance import Tolerance
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals

_OFFSETS = (1.0, -1.0, 2.0, 0.5)
"""Positions that all rows are off by."""
_YARN_16 = 0.1 * math.log(16) + 1
"""YaRN's attention factor of a context that is stretched by 16."""


class TurnedVectors(Record):
    """Vectors x (n, columns) that a reference turns at positions (n,), and what code may err by."""

    reference: Reference
    x: RealRows
    positions: Integers
    tolerance: Tolerance

    def turned(
        self, factors: ComplexRows, frequencies: Reals, pairing: ColumnPairing | None = None
    ) -> WrongValues:
        """Pairs multiplied by factors (n, pairs), whose angles have these frequencies."""
        nothing = np.zeros_like(factors)
        return self.mapped(factors, nothing, frequencies, pairing)

    def mapped(
        self,
        turned: ComplexRows,
        mirrored: ComplexRows,
        frequencies: Reals,
        pairing: ColumnPairing | None = None,
    ) -> WrongValues:
        """Pairs z that become turned · z + mirrored · z̄."""
        pairing = pairing or self.reference.pairing
        growth = self.reference.growth_at(self.positions)
        growth = np.ones(turned.shape) if growth is None else growth
        pairs = self.x[:, list(pairing.first)] + 1j * self.x[:, list(pairing.second)]
        become = growth * (turned * pairs + mirrored * pairs.conj())
        values, allowed = self.x.copy(), np.abs(self.x) * self.tolerance.floor
        first, second = list(pairing.out_first), list(pairing.out_second)
        values[:, first], values[:, second] = become.real, become.imag
        # The exponent of a growing amplitude errs as an angle does.
        shares = self._cells(frequencies) + PER_ANGLE * np.abs(np.log(growth))
        allowed[:, first] = allowed[:, second] = growth * np.abs(pairs) * shares
        return WrongValues(values, self._settled(allowed))

    def _settled(self, allowed: RealRows) -> RealRows:
        """What values may err by, where a number for all of them was not given."""
        if self.tolerance.fixed is not None:
            return fixed_tolerance(allowed, self.tolerance.fixed)
        return allowed + smallest("float32")

    def right(self) -> WrongValues:
        """What is right."""
        return self.turned(*Defect().prediction(self.sample())[:2])

    def _cells(self, frequencies: Reals) -> RealRows:
        """What factors may err by, (n, pairs)."""
        followed = self.reference.angle_positions(self.positions)
        if frequencies.size != self.reference.pairs:
            followed = self.positions
        with np.errstate(invalid="ignore"):  # 0 · a frequency that no half precision holds
            cells = self.tolerance.cells(followed, frequencies)
        return np.broadcast_to(cells, (self.positions.size, frequencies.size))

    def sample(self) -> Sample:
        """The right factors as a sample of a subject."""
        reference = self.reference
        shape = self.positions.size, reference.pairs
        sample = Sample(
            self.positions,
            np.ones(shape, np.complex128),
            np.ones(shape, bool),
            np.zeros((shape[0], 1)),
            self.tolerance,
            reference.scale,
            reference,
        )
        return replace(sample, factors=Defect().prediction(sample)[0])


def turned_mistakes(vectors: TurnedVectors, context: int) -> Iterator[KnownMistake]:
    """The mistakes that are known of an encoding of a model of so many positions."""
    sample = vectors.sample()
    for cause, message, defect in _defects(sample, context):
        yield KnownMistake(cause, message, vectors.turned(*defect.prediction(sample)[:2]))
    right = vectors.right()
    for half in HALVES:
        rounded = WrongValues(round_to_half(right.values, half), right.tolerance)
        message = f"the rotated vectors were rounded to {half}"
        yield KnownMistake(Cause.TABLE_PRECISION, message, rounded)
    yield from _wrong_columns(vectors, sample)
    yield from _wrong_places(vectors, sample)
    yield from _wrong_sizes(vectors, sample)
    yield from _wrong_axes(vectors, sample)


def _defects(sample: Sample, context: int) -> Iterator[tuple[Cause, str, Defect]]:
    """What is wrong with the factors of pairs, each by itself."""
    for turn, (_, cause, message) in TURNS.items():
        if turn != "right":
            yield cause, message, Defect(turn=turn)
    oblique = sample.reference.coordinates is not None and sample.reference.coordinates.oblique
    if not oblique:  # else places have angles, and neither positions nor frequencies
        yield from _moved(sample.reference, context)
    yield from _rounded(angles=not oblique)
    for rule in () if oblique else alternatives(sample.reference, None):
        yield rule.cause, rule.message, Defect(frequencies=rule)


def _moved(reference: Reference, context: int) -> Iterator[tuple[Cause, str, Defect]]:
    """Rows that are turned as at other positions."""
    along = reference.coordinates
    for offset in _OFFSETS:
        text = f"positions are off by {offset:+g}"
        if along is not None:
            text = f"coordinates are {offsets_text(along, offset, np.array(along.axes))}"
        yield Cause.POSITION_OFFSET, text, Defect(offset=offset)
    if reference.coordinates is None:
        for moved in usual_maps(context):
            yield Cause.POSITION_OFFSET, moved.message, Defect(moved=moved)


def _rounded(*, angles: bool) -> Iterator[tuple[Cause, str, Defect]]:
    """Positions, angles and tables in formats that are too coarse."""
    for half in HALVES if angles else ():
        yield Cause.POSITION_PRECISION, f"positions were {half}", Defect(positions=half)
        yield Cause.POSITION_PRECISION, f"angles were rounded to {half}", Defect(angles=half)
        everything = Defect(positions=half, rates=half, angles=half, cells=HALF_CELLS[half])
        yield Cause.POSITION_PRECISION, f"everything is computed in {half}", everything
    for form in HALF_CELLS.values():
        message = f"cosines and sines were {form.done}, and stored wider"
        yield Cause.TABLE_PRECISION, message, Defect(cells=form)


def _wrong_columns(vectors: TurnedVectors, sample: Sample) -> Iterator[KnownMistake]:
    """Columns that are paired otherwise, or that should not turn, or should."""
    reference, head = vectors.reference, vectors.x.shape[1]
    factors, frequencies, _ = Defect().prediction(sample)
    right = reference.pairing
    for pairing in reference.likely_pairings(head)[1:]:
        if pairing.pairs != reference.pairs:
            continue
        message = f"the code pairs dimensions {pairing.text}; the reference pairs {right.text}"
        if (pairing.first, pairing.second) == (right.first, right.second):
            message = f"columns come out in the layout {pairing.out_layout}"
        elif (pairing.first, pairing.second) != (pairing.out_first, pairing.out_second):
            message += ", and come out as they should"
        wrong = vectors.turned(factors, frequencies, pairing)
        yield KnownMistake(Cause.LAYOUT, message, wrong)
    yield from _wrong_widths(vectors)
    exchanged = replace(right, out_first=right.out_second, out_second=right.out_first)
    message = "the first and the second columns of pairs are taken for each other"
    both = replace(exchanged, first=right.second, second=right.first)
    yield KnownMistake(Cause.DIRECTION, message, vectors.turned(factors, frequencies, both))


def _wrong_widths(vectors: TurnedVectors) -> Iterator[KnownMistake]:
    """More columns that rotate, or fewer."""
    reference, head = vectors.reference, vectors.x.shape[1]
    if head == 2 * reference.pairs:
        yield KnownMistake(Cause.ROTARY_DIM, "all columns rotate", None, f"all {head} columns do")
    else:
        yield from _of_width(vectors, head, "all columns rotate")
    if reference.pairs > 1:
        few = 2 * (reference.pairs // 2)
        message = f"{few} columns rotate, {2 * reference.pairs} of the reference"
        yield from _of_width(vectors, few, message)


def _of_width(vectors: TurnedVectors, width: int, message: str) -> Iterator[KnownMistake]:
    """The first columns turned as a head of such a width, where the scheme has one."""
    reference = vectors.reference
    rates = changed_frequencies(reference, dim=width, partial=1.0)
    plain = reference.symmetric and reference.coordinates is None and reference.content.blocks == 1
    if not plain or rates is None or 2 * rates.size != width:
        return
    pairing = ColumnPairing.named(reference.content.layout, rates.size)
    angles = np.multiply.outer(vectors.positions.astype(np.float64), rates)
    wrong = vectors.turned(_factors(reference.scale, angles), rates, pairing)
    yield KnownMistake(Cause.ROTARY_DIM, message, wrong)


def _factors(scale: float, angles: RealRows) -> ComplexRows:
    return np.asarray(scale * np.exp(1j * angles), np.complex128)


def _wrong_places(vectors: TurnedVectors, sample: Sample) -> Iterator[KnownMistake]:
    """Cosines and sines that stand at the wrong places."""
    factors, *_ = Defect().prediction(sample)
    size = sample.reference.scale
    unit = factors / size
    for message, (a, b, c, d), fastest in wrong_places(sample.reference, unit.real, unit.imag):
        turned = np.asarray(size * ((a + d) + 1j * (c - b)) / 2, np.complex128)
        mirrored = np.asarray(size * ((a - d) + 1j * (c + b)) / 2, np.complex128)
        wrong = vectors.mapped(turned, mirrored, fastest)
        yield KnownMistake(Cause.COS_SIN_MISPAIRED, message, wrong)


def _wrong_sizes(vectors: TurnedVectors, sample: Sample) -> Iterator[KnownMistake]:
    """Attention factors."""
    factors, frequencies, _ = Defect().prediction(sample)
    scale, head = sample.reference.scale, vectors.x.shape[1]
    if scale == 1:
        for how in FACTORS:
            message = f"the attention factor {how}"
            yield KnownMistake(Cause.ATTENTION_FACTOR, message, None, "it is 1")
        sizes = {
            _YARN_16: f"the attention factor is {_YARN_16:.4g}, not 1",
            head**-0.5: "1/√d, which belongs to scores, is multiplied into the vectors",
        }
    else:
        sizes = {
            change(scale): f"the attention factor {scale:.6g} {how}"
            for how, change in FACTORS.items()
        }
    for size, message in sizes.items():
        wrong = vectors.turned(factors * (size / scale), frequencies)
        yield KnownMistake(Cause.ATTENTION_FACTOR, message, wrong)


def _wrong_axes(vectors: TurnedVectors, sample: Sample) -> Iterator[KnownMistake]:
    """Pairs that follow the coordinate of another axis, or the number of the token."""
    reference = sample.reference
    coordinates = reference.coordinates
    if coordinates is None or coordinates.at is None or coordinates.oblique:
        return
    own, tokens = np.array(coordinates.axes), reference.axes
    followed = {
        f"all pairs follow {'token numbers' if axis == tokens else f'axis {axis}'}": 0 * own + axis
        for axis in range(tokens + 1)
    }
    followed["axes stand in reverse order"] = own.max() - own
    if tokens > 2:
        followed["the last two axes are exchanged"] = np.select(
            [own == tokens - 1, own == tokens - 2], [tokens - 2, tokens - 1], own
        )
    for message, axes in followed.items():
        moved = following(reference, axes)
        if (moved.where(sample) == reference.angle_positions(vectors.positions)).all():
            reason = "at the positions of this pack the coordinates that are exchanged are equal"
            yield KnownMistake(Cause.AXIS, message, None, reason)
            continue
        wrong = vectors.turned(*Defect(moved=moved).prediction(sample)[:2])
        yield KnownMistake(Cause.AXIS, message, wrong)
