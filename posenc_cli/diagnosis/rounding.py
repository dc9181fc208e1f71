"""Causes of numbers that are nearly right: what was rounded, and errors that all cells share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.diagnosis.bug_search import RotaryBug, named
from posenc_cli.diagnosis.claims import ALIKE, Claim
from posenc_cli.diagnosis.defects import Defect
from posenc_cli.diagnosis.wording import (
    either,
    pairs_text,
    ratio_text,
    spec,
    with_residual,
    words_of,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import round_to_half
from posenc_cli.inference.rules import Alternative
from posenc_cli.inference.tolerance import HALF_RULES, SINGLE_FUNCTIONS, Tolerance, unit
from posenc_cli.records import replace
from posenc_cli.rotary.drift import (
    SCATTER,
    frequency_ratio,
    offset_text,
    position_offset,
    relative_errors,
)
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.numerics.arrays import Reals
    from posenc_cli.rotary.drift import Fault
    from posenc_cli.rotary.residual import Residual
    from posenc_cli.rotary.subject import Subject
    from posenc_cli.rotary.verdict import Examination

_NEARLY = 0.01
"""Of a frequency: powers computed in a half precision are right to this."""

_FEW = 0.5
"""Of the pairs: where as many are right, no rounding of all frequencies is the reason."""

_ONE_RATIO = 0.02
"""Of what frequencies are off by: where pairs differ by less, all are off by one number."""

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


def with_tolerance(suspect: Suspect, tolerance: Tolerance) -> Suspect:
    """The suspect, held to another tolerance."""
    return replace(
        suspect,
        sample=replace(suspect.sample, tolerance=tolerance),
        whole=suspect.whole.changed(lambda piece: replace(piece, tolerance=tolerance)),
    )


def lack_of_precision(suspect: Suspect) -> list[Explanation]:
    """What was computed less precisely than asked for; empty where that is not all that is wrong.

    What float32 code rounds is tried with cosines and sines that are correctly rounded, and with
    those that float32 libraries give.
    """
    examination = suspect.examination
    residual = suspect.residual(Defect()) if examination.tolerance.finer else None
    if residual is None or not residual.whole:
        return []
    subject, scale = examination.subject, examination.reference.scale
    roundings, amplitude = subject.own.roundings, suspect.sample.amplitude
    finest = Tolerance.of("float64", dtype=subject.dtype, roundings=roundings, amplitude=scale)
    functions = (SINGLE_FUNCTIONS + roundings * unit("float32")) * scale
    bugs = [
        RotaryBug(Claim(Defect(rates=rates, angles=angles), amplitude))
        for rates, angles in (("float32", None), (None, "float32"), ("float32", "float32"))
    ]
    for tolerance in (finest, replace(finest, floor=finest.floor + functions)):
        held = with_tolerance(suspect, tolerance)
        causes = [] if held.residual(Defect()).whole else named(held, bugs)
        if causes:
            return causes
    asked_for = with_tolerance(suspect, examination.tolerance)
    cause = rounded_powers_cause(asked_for) or _unexplained_lack(examination, residual)
    return common_error_causes(asked_for)[:1] or [cause]


def _unexplained_lack(examination: Examination, residual: Residual) -> Explanation:
    """What is said of cells that are right to what float32 code can show, and not why."""
    cells = None if examination.survey is None else examination.survey.cells
    if cells is None:
        asked = f"asked for is {examination.tolerance.reason}"
        message = "less precise than asked for, but within what float32 code can reach"
        return Explanation(Cause.TABLE_PRECISION, message, asked, residual=residual)
    units = f"{cells.units:.3g}"
    return Explanation(
        Cause.TABLE_PRECISION,
        f"cells are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} cells, by up to {units} unit{'s' * (units != '1')} in the "
        "last place, but all within what float32 code can reach",
        residual=residual,
    )


def common_error_causes(strict: Suspect) -> list[Explanation]:
    """The causes of errors that the tolerance of each cell grants, and roundings do not make.

    An offset of the positions is the same at all of them, a ratio of frequencies adds up. Where
    positions lie so close together that both fit alike, both are named.
    """
    residuals = [(defect, strict.residual(defect)) for defect in common_errors(strict)]
    held = [(defect, residual) for defect, residual in residuals if residual.whole]
    least = min((residual.largest for _, residual in held), default=0.0)
    alike = [
        explanation
        for defect, residual in held
        if residual.largest <= ALIKE * least
        for explanation in words_of(Claim(defect, strict.sample.amplitude), strict, residual)
    ]
    return either(alike[:1], alike[1:]) if alike else []


def unexplained_drift(fault: Fault) -> Explanation:
    """What is said of such errors where nothing makes them."""
    return Explanation(
        Cause.UNKNOWN,
        "no rounding of a frequency and its product with the position gives these phase errors",
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


def half_of(subject: Subject) -> Literal["float16", "bfloat16"] | None:
    """The half precision that all values of a subject have, which are stored wider.

    None where there is none, as of frequencies, or of values that any format has: 0, 1 and −1.
    """
    if subject.frequencies is not None:
        return None
    # The coarser first: most of its numbers are some of the finer as well.
    halves = [half for half in HALF_RULES[::-1] if unit(half) > unit(subject.dtype)]
    plain = True
    for rows in subject.own.places.row_blocks():
        if subject.vectors is None:
            values = subject.own.read(rows).turned.view(np.float64)
        else:
            values = subject.vectors(rows)[1]
        with np.errstate(all="ignore"):
            halves = [
                half for half in halves if np.array_equal(round_to_half(values, half), values)
            ]
        plain = plain and bool(np.isin(values, (-1, 0, 1, np.inf, -np.inf)).all())
        if not halves:
            return None
    return None if plain else halves[0]


def stored_wider(half: str, subject: Subject, *, others: bool) -> Explanation:
    """That all values have a half precision; ``others`` says whether there are other causes."""
    what = "cosines and sines" if subject.vectors is None else "the rotated vectors"
    if subject.returned_half == half:
        what = "all values returned"
    right = "within its roundings of what the other causes give" if others else "right within them"
    return Explanation(
        Cause.TABLE_PRECISION,
        f"{what} were rounded to {half}, and stored wider",
        f"every value is a number of {half}, {right}",
        half,
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
    rule = Alternative(Cause.INV_FREQ_PRECISION, "", right * (1 + errors))
    residual = suspect.residual(Defect(frequencies=rule))
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
        ratio_text(rule.frequencies, sample),
        where=Where(None, spec(np.flatnonzero(wrong))),
    )
    return with_residual(cause, residual)


def nearly_right_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Frequencies that are nearly right in every pair."""
    nearest, right = suspect.examination.consistency, suspect.sample.reference.frequencies
    if nearest is None or nearest.worst.ratio > 1:
        return
    frequencies, turning = nearest.rotations.frequencies, right > 0
    off = np.abs(frequencies - right) / np.where(turning, right, 1)
    if Defect().explained(suspect.sample).all(axis=0).mean() >= _FEW:
        return  # a few pairs that are wrong were rounded by nothing
    if off.max() > _NEARLY or np.abs(np.angle(nearest.rotations.amplitudes)).max() > _NEARLY:
        return
    ratios = frequencies[turning] / right[turning]
    ratio = float(np.median(ratios))
    if turning.sum() > 1 and np.abs(ratios - ratio).max() <= _ONE_RATIO * abs(ratio - 1) > 0:
        shared = Defect(frequencies=times(ratio, right))
        yield RotaryBug(Claim(shared, suspect.sample.amplitude))
    message = f"frequencies are off by up to about {off.max():.1g} of themselves"
    rule = Alternative(Cause.INV_FREQ_PRECISION, message, frequencies)
    yield RotaryBug(Claim(Defect(frequencies=rule), suspect.sample.amplitude))


def other_frequencies_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Frequencies by no known rule: those that the wrong pairs have at every position."""
    rotations, right = suspect.rotations, suspect.sample.reference.frequencies
    if (
        rotations is None
        or rotations.axes is not None
        or rotations.frequencies.shape != right.shape
    ):
        return
    sound = Defect().explained(suspect.sample).all(axis=0)  # (pairs,)
    rates = np.where(sound, right, rotations.frequencies)
    if np.isfinite(rates).all() and (rates >= 0).all():
        rule = Alternative(Cause.UNKNOWN, "", rates)
        yield RotaryBug(Claim(Defect(frequencies=rule), suspect.sample.amplitude))
