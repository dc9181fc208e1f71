"""Causes of numbers that are nearly right: what was rounded, and errors that all cells share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.claims import ALIKE, Claim
from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.reproduced import reproduced, turned_by
from posenc_cli.diagnosis.wording import (
    either,
    pairs_text,
    ratio_text,
    spec,
    with_residual,
    words_of,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.rules import Alternative
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.records import replace
from posenc_cli.rotary.drift import (
    SCATTER,
    frequency_ratio,
    offset_text,
    position_offset,
    relative_errors,
)
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, Reals
    from posenc_cli.rotary.drift import Fault
    from posenc_cli.rotary.subject import Subject

_NEARLY = 0.01
"""Of a frequency: powers computed in a half precision are right to this."""

_ONE_RATIO = 0.02
"""Of what frequencies are off by: where pairs differ by less, all are off by one number."""

_FARTHER = 0.02
"""Of the values: where so many are not the nearest number, no tie and no angle is the reason."""

_LEAST = 2.0**-14
"""Smaller values may err as much as this one: float16 has no finer steps."""

_POWERS = 8 * unit("float32")
"""Of a frequency: powers computed in float32 were measured to be right to this."""

_FEWEST_POSITIONS = 3
"""At fewer a frequency of each pair's own fits whatever stands there."""

_SHARED = 0.3
"""Of what frequencies are off by: where pairs differ by less, they may be off by one number."""


def held_to_roundings(suspect: Suspect) -> Suspect:
    """The suspect, granted no more than what a few roundings of an angle leave at each position."""
    tolerance = replace(
        suspect.sample.tolerance, per_angle=SCATTER * suspect.examination.reference.scale
    )
    return with_tolerance(suspect, tolerance)


def common_error_causes(strict: Suspect) -> list[Explanation]:
    """The causes of errors that the tolerance of each cell grants, and roundings do not make.

    An offset of the positions is the same at all of them, a ratio of frequencies adds up. Where
    positions lie so close together that both fit alike, both are named.
    """
    fault = strict.examination.fault
    if fault is None or fault.offset is None:
        return []
    return those_that_hold(common_errors(strict), strict)


def those_that_hold(defects: Iterable[Defect], suspect: Suspect) -> list[Explanation]:
    """The causes of the defects that explain every cell, those that fit alike as one."""
    held = [
        (defect, residual) for defect in defects if (residual := suspect.residual(defect)).whole
    ]
    least = min((residual.largest for _, residual in held), default=0.0)
    alike = [
        explanation
        for defect, residual in held
        if residual.largest <= ALIKE * least
        for explanation in words_of(Claim(defect, suspect.sample.amplitude), suspect, residual)
    ]
    return either(alike[:1], alike[1:]) if alike else []


def unexplained_drift(fault: Fault) -> Explanation:
    """What is said of such errors where nothing makes them."""
    return Explanation(
        Cause.UNKNOWN,
        "phases err as no rounding of a frequency and its product with the position does",
        f"no one error of the frequency of pair {fault.pair} explains all its positions, "
        f"as at position {fault.position}",
    )


def common_errors(suspect: Suspect) -> Iterator[Defect]:
    """The offset of positions and the ratio of frequencies that the sample comes nearest to."""
    sample = suspect.sample
    right = sample.reference.frequencies
    if suspect.examination.subject.frequencies is None:
        offset = position_offset(sample)
        whole = float(offset_text(offset))
        near = round(offset, 3) or float(f"{offset:.3g}")
        yield Defect(offset=whole if whole == round(whole) else near)
    ratio = frequency_ratio(sample)
    if ratio != 1:
        yield Defect(frequencies=times(ratio, right))


def times(ratio: float, right: Reals) -> Alternative:
    """All frequencies times one number near 1, and not 1."""
    more = f"1 {'+' if ratio > 1 else '−'} {abs(ratio - 1):.2g}"
    message = f"all frequencies are {more} times the right ones"
    return Alternative(Cause.FREQUENCY_RULE, message, right * ratio)


def rounded_vectors_cause(suspect: Suspect) -> Explanation | None:
    """Turned vectors that are right but for a half precision, which all their values have."""
    subject = suspect.examination.subject
    half = next((half for half in HALVES if _has_digits_of(half, subject)), None)
    if half is None or unit(half) <= unit(subject.dtype):
        return None
    tolerance = Tolerance.of(
        "auto",
        dtype=half,
        roundings=subject.own.roundings,
        amplitude=suspect.examination.reference.scale,
    )
    residual = with_tolerance(suspect, tolerance).residual(Defect())
    if not residual.whole:
        return None
    cause = Explanation(
        Cause.TABLE_PRECISION,
        f"the turned vectors were rounded to {half}, and stored wider",
        f"every value is a number of {half}, and right within its roundings",
    )
    return with_residual(cause, residual)


def _has_digits_of(half: str, subject: Subject) -> bool:
    """Whether all vectors after the rotation, where some were given, have numbers of a format."""
    if subject.vectors is None:
        return False
    after = (subject.vectors(rows)[1] for rows in subject.own.places.row_blocks())
    return all(np.array_equal(round_to_half(part, half), part) for part in after)


def with_tolerance(suspect: Suspect, tolerance: Tolerance) -> Suspect:
    """The suspect, held to another tolerance."""
    return replace(
        suspect,
        sample=replace(suspect.sample, tolerance=tolerance),
        whole=suspect.whole.changed(lambda piece: replace(piece, tolerance=tolerance)),
    )


def rounded_powers_cause(suspect: Suspect) -> Explanation | None:
    """Frequencies that err by no more than powers computed in float32 may.

    An error that most pairs share has a cause in common, and is not told so.
    """
    sample, right = suspect.sample, suspect.sample.reference.frequencies
    wrong = ~Defect().explained(sample).all(axis=0)  # (pairs,)
    if not wrong.any() or sample.amplitude == 0 or sample.reference.coordinates is not None:
        return None
    if np.unique(sample.positions).size < _FEWEST_POSITIONS:
        return None
    errors = np.where(wrong, relative_errors(sample), 0.0)
    off = np.abs(errors[wrong])
    most = 2 * off.size > np.count_nonzero(right)
    if off.max() > _POWERS or (most and np.ptp(errors[wrong]) < _SHARED * off.max()):
        return None
    rates = right * (1 + errors)
    residual = reproduced(suspect.whole, lambda piece: turned_by(rates, piece), rates)
    if not residual.whole:
        return None
    few = "one rounding to" if off.max() <= unit("float32") else "powers computed in"
    whose, itself = "frequencies are off by up to", "themselves"
    if off.size == 1:
        whose, itself = "its frequency is off by", "itself"
    cause = Explanation(
        Cause.INV_FREQ_PRECISION,
        f"{pairs_text(np.flatnonzero(wrong).tolist(), right.size)}: {whose} {off.max():.1g} of "
        f"{itself}, no more than {few} float32 may be",
        ratio_text(rates, sample),
        where=Where(None, spec(np.flatnonzero(wrong))),
    )
    return with_residual(cause, residual)


def neighbour_cause(suspect: Suspect) -> Explanation | None:
    """Values that are numbers of a half precision next to the right ones, but not the nearest."""
    sample, rates = suspect.sample, suspect.sample.reference.frequencies
    half = next((h for h in HALVES if _are_numbers_of(h, sample.factors[sample.seen])), None)
    if half is None:
        return None
    farther = values = 0

    def held() -> Iterator[tuple[Integers, Reals, Flags]]:
        nonlocal farther, values
        for _, piece in suspect.whole.pieces():
            right, _ = Defect().prediction(piece)
            angles = piece.reference.angle_positions(piece.positions)
            allowed = piece.tolerance.cells(angles, rates)  # (n, pairs)
            near = ~piece.seen | (piece.stray <= piece.tolerance.floor)
            for part, exact in ((piece.factors.real, right.real), (piece.factors.imag, right.imag)):
                step = 2 * unit(half) * 2.0 ** np.floor(np.log2(np.maximum(abs(exact), _LEAST)))
                missed = abs(part - exact)
                near &= ~piece.seen | (missed <= step + allowed)
                farther += int(np.count_nonzero(missed > step / 2 + allowed))
                values += part.size
            yield piece.positions, np.abs(piece.factors - right) + piece.stray, near

    residual = Residual.measure(held())
    if not residual.whole or farther < _FARTHER * values:
        return None
    message = (
        f"each value is one of the two numbers of {half} next to the right one, but not always the "
        "nearer: rounded at random, or more than once"
    )
    evidence = f"{farther} of {values} values are not the nearer one"
    return with_residual(Explanation(Cause.TABLE_PRECISION, message, evidence), residual)


def _are_numbers_of(half: str, factors: ComplexRows) -> bool:
    return all(
        np.array_equal(round_to_half(part, half), part) for part in (factors.real, factors.imag)
    )


def precision_cause(suspect: Suspect) -> Explanation | None:
    """Frequencies that are nearly right in every pair."""
    nearest, right = suspect.examination.consistency, suspect.sample.reference.frequencies
    if nearest is None or nearest.worst.ratio > 1:
        return None
    frequencies = nearest.rotations.frequencies
    off = np.abs(frequencies - right) / np.where(right > 0, right, 1)
    if off.max() > _NEARLY or np.abs(np.angle(nearest.rotations.amplitudes)).max() > _NEARLY:
        return None
    turning = right > 0
    ratios = frequencies[turning] / right[turning]
    ratio = float(np.median(ratios))
    shared = np.abs(ratios - ratio).max() <= _ONE_RATIO * abs(ratio - 1)
    if turning.sum() > 1 and ratio != 1 and shared:
        defect = Defect(frequencies=times(ratio, right))
        residual = suspect.residual(defect)
        if residual.whole:
            return next(words_of(Claim(defect, suspect.sample.amplitude), suspect, residual))
    residual = reproduced(
        suspect.whole, lambda piece: turned_by(frequencies, piece), np.abs(frequencies)
    )
    if not residual.whole:
        return None
    cause = Explanation(
        Cause.INV_FREQ_PRECISION,
        f"frequencies are off by up to about {off.max():.1g} of themselves",
        ratio_text(frequencies, suspect.sample),
    )
    return with_residual(cause, residual)
