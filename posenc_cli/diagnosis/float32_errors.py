"""Causes where every cell is right to what float32 code can show, and more was asked for.

Cells miss by little there, and rules that change few of them fit by chance. So what float32 code
rounds is held twice: to cosines and sines that are correctly rounded, as if that alone had been
done in float32, and to those that float32 libraries give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.claims import Claim
from posenc_cli.diagnosis.defects import ENOUGH, Defect, holds
from posenc_cli.diagnosis.rounding import (
    common_errors,
    rounded_powers_cause,
    those_that_hold,
    times,
    with_tolerance,
)
from posenc_cli.diagnosis.wording import pairs_text, spec, together
from posenc_cli.inference.angles import angle_changes
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.float32_powers import float32_powers
from posenc_cli.inference.rules import Alternative
from posenc_cli.inference.tolerance import SINGLE_FUNCTIONS, Tolerance, unit
from posenc_cli.records import replace
from posenc_cli.rotary.verdict import Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.inference.float32_powers import Float32Powers
    from posenc_cli.numerics.arrays import Reals
    from posenc_cli.rotary.residual import Residual
    from posenc_cli.rotary.verdict import Examination

_REDUCED = 32.0
"""Radians: up to here a π in float32 moves an angle no more than a cosine in float32 may err."""

_SHOWN = 4.0
"""Times what is granted: where nothing misses by more, a reduction explains what chance may."""


def lack_of_precision(suspect: Suspect) -> Explanation | None:
    """What was computed less precisely than asked for; None where that is not all that is wrong."""
    examination = suspect.examination
    if not examination.tolerance.finer:
        return None
    residual = suspect.residual(Defect())
    if not residual.whole:
        return None
    for held in _held_to_float64(suspect):
        cause = _rounded_cause(held) or _powers_cause(held) or _reduced_cause(held)
        if cause is not None:
            return cause
    asked_for = with_tolerance(suspect, examination.tolerance)
    common = those_that_hold(common_errors(asked_for), asked_for)
    if common:
        return common[0]
    return rounded_powers_cause(asked_for) or _unexplained_lack(examination, residual)


def _held_to_float64(suspect: Suspect) -> Iterator[Suspect]:
    """The suspect, granted what float64 code shows, and then cosines and sines in float32 too."""
    subject, scale = suspect.examination.subject, suspect.examination.reference.scale
    roundings = subject.own.roundings
    finest = Tolerance.of("float64", dtype=subject.dtype, roundings=roundings, amplitude=scale)
    yield with_tolerance(suspect, finest)
    functions = (SINGLE_FUNCTIONS + roundings * unit("float32")) * scale
    yield with_tolerance(suspect, replace(finest, floor=finest.floor + functions))


def _rounded_cause(held: Suspect) -> Explanation | None:
    """What float32 code rounds, where that reproduces every cell."""
    for rates, angles in (("float32", None), (None, "float32"), ("float32", "float32")):
        defect = Defect(rates=rates, angles=angles)
        if not holds(held.sample, defect):
            continue
        residual = held.residual(defect)
        if residual.whole:
            return together(Claim(defect, held.sample.amplitude), held, residual)
    return None


def _powers_cause(held: Suspect) -> Explanation | None:
    """Frequencies that are numbers of float32, not all of them the nearest to the right ones."""
    sample, within = held.sample, held.sample.tolerance.floor
    for angles in (None, "float32"):
        powers = float32_powers(sample, within=within, single_angles=angles is not None)
        if powers is None:
            continue
        right = sample.reference.frequencies
        defect = Defect(frequencies=_rule_of(powers, right), angles=angles)
        residual = held.residual(defect)
        if not residual.whole:
            continue
        cause = together(Claim(defect, sample.amplitude), held, residual)
        of_all = powers.ratio is not None
        return replace(cause, where=None if of_all else Where(None, spec(powers.off)))
    return None


def _rule_of(powers: Float32Powers, right: Reals) -> Alternative:
    """What numbers of float32 that are not the nearest to the right ones are."""
    if powers.ratio is not None:
        rule = times(powers.ratio, right)
        single = rule.frequencies.astype(np.float32).astype(np.float64)
        message = f"{rule.message}, rounded to float32"
        return replace(rule, message=message, frequencies=single)
    pairs, most = powers.off.tolist(), int(np.abs(powers.units).max())
    are = "is" if len(pairs) == 1 else "are"
    by = f"by {'up to ' * (len(pairs) > 1)}{most} unit{'s' * (most > 1)} in the last place"
    message = (
        "the frequencies are numbers of float32, as powers computed in float32 are: "
        f"{pairs_text(pairs, right.size)} {are} off {by}"
    )
    return Alternative(Cause.INV_FREQ_PRECISION, message, powers.numbers, read_off=True)


def _reduced_cause(held: Suspect) -> Explanation | None:
    """What float32 code takes for π where it reduces angles, which may miss a turn in few cells."""
    sample, plain = held.sample, held.residual(Defect())
    positions = np.abs(sample.reference.angle_positions(sample.positions))
    farthest = (positions.reshape(sample.positions.size, -1) * sample.reference.frequencies).max()
    if farthest < _REDUCED or plain.largest < _SHOWN * sample.tolerance.floor:
        return None
    for change in angle_changes():
        for rates in (None, "float32"):
            defect = Defect(rates=rates, reduction=change)
            if not holds(sample, defect):
                continue
            residual = held.residual(defect)
            if residual.cells <= (1 - ENOUGH) * residual.of_cells:
                return together(Claim(defect, sample.amplitude), held, residual)
    return None


def _unexplained_lack(examination: Examination, residual: Residual) -> Explanation:
    """What is said of cells that are right to what float32 code can show, and not why."""
    cells = None if examination.survey is None else examination.survey.cells
    if cells is None:
        asked = f"asked for is {examination.tolerance.reason}"
        message = "computed less precisely than asked for, but right to what float32 code can show"
        return Explanation(Cause.TABLE_PRECISION, message, asked, residual=residual)
    units = f"{cells.units:.3g}"
    return Explanation(
        Cause.TABLE_PRECISION,
        f"cells are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} cells, by up to {units} unit{'s' * (units != '1')} in the "
        "last place, but all are right to what float32 code can show",
        residual=residual,
    )
