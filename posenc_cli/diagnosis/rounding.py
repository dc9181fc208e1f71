"""Find causes of nearly right values: rounding, and small errors of all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.diagnosis.bug_search import RotaryBug, Suspect, confirmed_causes
from posenc_cli.diagnosis.defects import Defect
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import Alternative
from posenc_cli.inference.tolerance import HALF_RULES, SINGLE_FUNCTIONS, Tolerance, unit
from posenc_cli.numerics.halves import on_grid
from posenc_cli.records import replace
from posenc_cli.rotary.drift import SCATTER, Fault
from posenc_cli.rotary.verdict import Examination, Explanation, Residual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.rotary.subject import Subject

_SIZES_OF_ANY = 2  # such as 0 and the attention factor, if nothing rotates


def restricted_to_rounding(suspect: Suspect) -> Suspect:
    """Return the suspect with a tolerance of only a few roundings of each angle."""
    tolerance = replace(
        suspect.sample.tolerance, per_angle=SCATTER * suspect.examination.reference.scale
    )
    return with_tolerance(suspect, tolerance)


def with_tolerance(suspect: Suspect, tolerance: Tolerance) -> Suspect:
    """Return the suspect with another tolerance."""
    return suspect.changed(lambda piece: replace(piece, tolerance=tolerance))


def precision_causes(suspect: Suspect) -> list[Explanation]:
    """Return the causes of too low a precision; empty if they do not explain everything.

    Roundings to float32 are tried with correctly rounded cosines and sines, then with those of
    float32 libraries.
    """
    examination = suspect.examination
    asked = examination.tolerance
    residual = suspect.residual(Defect()) if asked.finer or asked.fixed is not None else None
    if residual is None or not residual.whole:
        return []
    subject, scale = examination.subject, examination.reference.scale
    roundings = subject.own.roundings
    finest = Tolerance.of("float64", dtype=subject.dtype, roundings=roundings, amplitude=scale)
    functions = (SINGLE_FUNCTIONS + roundings * unit("float32")) * scale
    bugs = [
        RotaryBug(Defect(rates=rates, angles=angles))
        for rates, angles in (("float32", None), (None, "float32"), ("float32", "float32"))
    ]
    for tolerance in (finest, replace(finest, floor=finest.floor + functions)):
        strict = with_tolerance(suspect, tolerance)
        causes = [] if strict.residual(Defect()).whole else confirmed_causes(strict, bugs)
        if causes:
            return causes
    return [_unexplained_lack(examination, residual)]


def _unexplained_lack(examination: Examination, residual: Residual) -> Explanation:
    """Return the cause of values that are imprecise for an unknown reason, within float32 error."""
    cells = None if examination.survey is None else examination.survey.cells
    if cells is None:
        asked = f"requested: {examination.tolerance.reason}"
        message = "less precise than requested, but within the error of float32 code"
        return Explanation(Cause.UNKNOWN, message, asked, residual=residual)

    return Explanation(
        Cause.TABLE_PRECISION,
        f"values are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} values, by up to {cells.units:.3g} ulp, but all within "
        "the error of float32 code",
        residual=residual,
    )


def unknown_drift(fault: Fault) -> Explanation:
    """Return the cause of phase errors that no single error of a frequency explains."""
    return Explanation(
        Cause.UNKNOWN,
        "no rounding of a frequency and its product with the position gives these phase errors",
        f"no single error of the frequency of pair {fault.pair} explains all its positions, "
        f"such as position {fault.position}",
    )


def half_precision_of(subject: Subject) -> Literal["float16", "bfloat16"] | None:
    """Return the half precision that holds every value of a subject stored in a wider format.

    None if there is none, for frequencies, or for values of at most two sizes, such as 0 and 2: any
    format holds these.
    """
    if subject.frequencies is not None:
        return None
    # The coarser format first: the finer one holds most of its numbers too.
    halves = [half for half in HALF_RULES[::-1] if unit(half) > unit(subject.dtype)]
    sizes: set[float] = set()
    for rows in subject.own.places.row_blocks():
        if subject.vectors is None:
            values = subject.own.read(rows).turned.view(np.float64)
        else:
            values = subject.vectors(rows)[1]
        halves = [half for half in halves if on_grid(values, half)]
        if not halves or not np.isfinite(values).all():
            return None
        if len(sizes) <= _SIZES_OF_ANY:
            sizes.update(np.unique(np.abs(values))[: _SIZES_OF_ANY + 1].tolist())
    return halves[0] if len(sizes) > _SIZES_OF_ANY else None


def stored_wider_cause(half: str, subject: Subject, *, others: bool) -> Explanation:
    """Return the cause of values rounded to ``half``; ``others``: there are other causes."""
    what = "cosines and sines" if subject.vectors is None else "the rotated vectors"
    if subject.returned_half == half:
        what = "all values returned"
    right = "the other causes explain it" if others else "it is right"
    return Explanation(
        Cause.TABLE_PRECISION,
        f"{what} were rounded to {half}, then stored in a wider format",
        f"every value is a {half} number; {right} within that rounding",
        half,
    )


def other_frequencies_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug of frequencies by no known rule: those of the wrong pairs at every position."""
    rotations, right = suspect.rotations, suspect.sample.reference.frequencies
    if (
        rotations is None
        or rotations.axes is not None
        or rotations.frequencies.shape != right.shape
    ):
        return
    sound = Defect().explained(suspect.sample).all(axis=0)  # (pairs,)
    rates = np.where(sound, right, rotations.frequencies)
    if not sound.all() and np.isfinite(rates).all() and (rates >= 0).all():
        yield RotaryBug(Defect(frequencies=Alternative(Cause.UNKNOWN, "", rates)))
