"""Explain why a subject differs from the reference; each defect is compared with every value.

Each defect predicts the factors of the pairs. It is found on a sample of positions: at every scale,
and around the first and the worst wrong ones. Then it is compared with all rows and reported with
its residual. Defects are tried simplest first: one change before two. Anything else is unknown,
with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    Suspect,
    amplitude_cause,
    confirmed_causes,
    with_residual,
)
from posenc_cli.diagnosis.coordinates import axis_bugs, grid_bugs, scaled_coordinate_bugs
from posenc_cli.diagnosis.defects import (
    Defect,
    amplitude_of,
    likely_defects,
)
from posenc_cli.diagnosis.misplaced_values import misplaced_cause
from posenc_cli.diagnosis.rounding import (
    half_precision_of,
    precision_causes,
    stored_wider_cause,
    unknown_drift,
)
from posenc_cli.diagnosis.rows_and_pairs import (
    missing_values,
    own_length_bugs,
    uninitialized_cause,
    unknown_cause,
)
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.records import replace
from posenc_cli.rotary.findings import sample_of
from posenc_cli.rotary.subject import Subject, fits, of_width
from posenc_cli.rotary.verdict import (
    MOST,
    Examination,
    Explanation,
    Where,
    examine,
    zeros_text,
)

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.inference.turning import SubjectBlock

_CHECK_WIDTH = "check the head dim and the partial rotary factor"
"""Evidence for a width that nothing explains."""

_MOST_DEFECTS = 6
"""The most defects that are compared with each other."""


def diagnose(examination: Examination) -> tuple[Explanation, ...]:
    """Return up to three causes of failed findings, likeliest first; empty if all hold."""
    if examination.ok:
        return ()
    subject = examination.subject
    half = None if subject.irregular or examination.others_differ else half_precision_of(subject)
    if half is None or examination.tolerance.floor >= unit(half):
        return _distinct_causes(examination)
    coarse = examine(subject, examination.reference, half)
    causes = _distinct_causes(coarse)
    known = all(why.cause != Cause.UNKNOWN for why in causes)
    if known and (causes or subject.vectors is not None):
        return (*causes[: MOST - 1], stored_wider_cause(half, subject, others=bool(causes)))
    own = _distinct_causes(examination)
    if known or any(why.cause != Cause.UNKNOWN for why in own):
        return own
    allowed = f"every value is a {half} number; the tolerance allows for that rounding"
    return tuple(replace(why, evidence=f"{why.evidence}; {allowed}") for why in causes)


def _distinct_causes(examination: Examination) -> tuple[Explanation, ...]:
    """Return the causes at the tolerance of an examination."""
    if examination.ok:
        return ()
    subject = examination.subject
    survey = examination.survey
    if subject.irregular:
        return _irregular_causes(subject.irregular)
    if examination.others_differ:
        return _irregular_causes(subject.other_calls)
    if subject.as_reference is None:
        return (_width_cause(subject, examination.reference),)
    suspect = _suspect(examination)
    if survey is not None and survey.reference.missing:
        unwritten = uninitialized_cause(examination)
        return (unwritten or missing_values(suspect, survey),)
    return _first_distinct(_all_causes(suspect)) or (unknown_cause(suspect),)


def _first_distinct(explanations: list[Explanation]) -> tuple[Explanation, ...]:
    """Return at most three explanations that differ in their cause or their place."""
    kept: dict[tuple[Cause, Where | None], Explanation] = {}
    for explanation in explanations:
        kept.setdefault((explanation.cause, explanation.where), explanation)
    return tuple(kept.values())[:MOST]


def _all_causes(suspect: Suspect) -> list[Explanation]:
    """Return the causes of a subject whose values are all finite; empty if none is known."""
    if not suspect.sample.stray.any():
        return _causes_of_pairs(suspect)
    within = _suspect(suspect.examination, of_pairs=True)
    beside = suspect.sample.stray - within.sample.stray  # of columns outside the pairs
    if not (beside > 2 * suspect.examination.tolerance.floor).any():
        return _causes_of_pairs(suspect)
    reference = suspect.examination.reference
    columns = reference.head - 2 * reference.pairs
    message = f"{columns} unrotated dimensions change"
    changed = Explanation(Cause.ROTARY_DIM, message, "")
    others = [why for why in _causes_of_pairs(within) if why.cause != Cause.UNKNOWN]
    return [with_residual(changed, within.residual(Defect())), *others]


def _causes_of_pairs(suspect: Suspect) -> list[Explanation]:
    """Return the causes of wrong values in the dimension pairs."""
    layout = _layout_cause(suspect)
    if layout is None:
        fault = suspect.examination.fault
        rounding = [unknown_drift(fault)] if fault else precision_causes(suspect)
        return rounding or _explanations(suspect)
    residual = suspect.residual(Defect())
    if residual.whole:
        return [layout, *_as_list(amplitude_cause(suspect.sample))]
    others = _explanations(suspect)
    known = [why for why in others if why.cause not in (Cause.LAYOUT, Cause.UNKNOWN)]
    mostly = 2 * residual.positions.size > residual.of_positions
    return [layout, *(known or [unknown_cause(suspect)] * mostly)]


def _irregular_causes(irregular: tuple[Irregularity, ...]) -> tuple[Explanation, ...]:
    """Return the distinct causes of a function whose rows depend on more than their positions."""
    evidence: dict[tuple[Cause, str], list[str]] = {}
    for one in irregular:
        evidence.setdefault((one.cause, one.message), []).append(one.evidence)
    return tuple(
        Explanation(cause, message, "; ".join(filter(None, texts)))
        for (cause, message), texts in evidence.items()
    )[:MOST]


def _suspect(examination: Examination, *, of_pairs: bool = False) -> Suspect:
    """Return a subject, with the pairing of its own code, as a sample and as all its rows.

    With ``of_pairs``, columns outside the pairs are left out.
    """
    subject, reference = examination.subject, examination.reference
    tolerance = examination.tolerance
    if tolerance.fixed is not None or tolerance.finer:
        tolerance = Tolerance.of(
            "auto",
            dtype=subject.dtype,
            roundings=subject.own.roundings,
            amplitude=reference.scale,
            of_frequencies=subject.frequencies is not None,
        )

    def piece(block: SubjectBlock, amplitude: float) -> Sample:
        block = block.without_passed() if of_pairs else block
        return sample_of(block, reference, tolerance, amplitude)

    # Rows at every scale, and those around the first and the worst wrong row.
    places, survey = subject.own.places, examination.survey
    rows = places.sample()
    if survey is not None and survey.reference.first_wrong is not None:
        rows = places.sample_around(survey.reference.first_wrong, survey.reference.row)
    sample = piece(subject.own.read(rows), reference.scale)
    amplitude = amplitude_of(sample, floor=examination.tolerance.floor)

    return Suspect(
        examination,
        replace(sample, amplitude=amplitude),
        lambda rows: piece(subject.own.read(rows), amplitude),
    )


def _layout_cause(suspect: Suspect) -> Explanation | None:
    """Return the cause of a subject that pairs other dimensions than the reference, or None."""
    subject = suspect.examination.subject
    own, right = subject.own.pairing, suspect.examination.reference.pairing
    if subject.own is subject.as_reference or own is None:
        return None
    if (own.first, own.second) == (right.first, right.second):
        if (own.first, own.second) == (own.out_first, own.out_second):
            return None
        message = "rotated dimensions are returned in another order"
        return with_residual(Explanation(Cause.LAYOUT, message, ""), suspect.residual(Defect()))
    takes_layout = "layout" in suspect.examination.reference.encoding.bound.params
    layout_option = f" (--layout {own.layout})" if own.layout and takes_layout else ""
    residual = suspect.residual(Defect())
    evidence = f"matches when dimensions {own.text} are paired{layout_option}; {residual.text}"
    if 2 * residual.positions.size > residual.of_positions:
        evidence = f"the code rotates dimensions {own.text}{layout_option}"
    return Explanation(
        Cause.LAYOUT,
        f"the code pairs dimensions {own.text}; the reference pairs {right.text}",
        evidence,
        residual=residual,
    )


def _explanations(suspect: Suspect) -> list[Explanation]:
    """Return the causes that explain a subject; empty if nothing does."""
    examination, sample = suspect.examination, suspect.sample
    if examination.survey is not None and examination.survey.longest == 0:
        message = zeros_text(examination.reference, "all values become 0")
        return [Explanation(Cause.UNKNOWN, message, "nothing is left to compare")]
    amplitude = amplitude_cause(sample)
    if amplitude is not None:
        residual = suspect.residual(Defect())
        if residual.whole:
            return [with_residual(amplitude, residual)]
    one_cause = misplaced_cause(examination)
    if one_cause is not None:
        return [one_cause]
    explanations = (
        confirmed_causes(suspect, axis_bugs(suspect))
        or confirmed_causes(suspect, grid_bugs(suspect), alike=MOST)
        or _causes_of_all_rows(suspect)
        or _as_list(uninitialized_cause(examination))
    )
    if explanations:
        return [*explanations, *_as_list(amplitude)]
    return confirmed_causes(suspect, own_length_bugs(suspect)) or confirmed_causes(
        suspect, scaled_coordinate_bugs(suspect)
    )


def _causes_of_all_rows(suspect: Suspect) -> list[Explanation]:
    """Return the causes that explain all rows at once, with alternatives that fit as well."""
    sample, found = suspect.sample, list[Defect]()
    other_amplitude = sample.amplitude != sample.reference.scale
    if sample.amplitude == 0 or (other_amplitude and Defect().explained(sample).all()):
        return []
    defects = likely_defects(sample, suspect.rotations, found)
    return confirmed_causes(suspect, defects, alike=_MOST_DEFECTS - 1, found=found)


def _as_list(explanation: Explanation | None) -> list[Explanation]:
    return [] if explanation is None else [explanation]


def _width_cause(subject: Subject, reference: Reference) -> Explanation:
    """Return the cause of a subject with another rotary dim than the reference."""
    own, far_wider = subject.own, subject.far_wider(reference)
    evidence = _CHECK_WIDTH
    given, right = subject.frequencies, reference.frequencies
    if given is not None and any(
        given.size == twice.size and np.allclose(given, twice, rtol=1e-5, atol=0)
        for twice in (np.tile(right, 2), np.repeat(right, 2))
    ):
        evidence = "each frequency is given twice, once per dimension; give one per pair"
    elif not far_wider and (wider := of_width(reference, own.pairs)) and fits(own, wider.reference):
        evidence = f"every value is right with {wider.options}"
    if own.pairing is not None and own.pairing.first[0]:
        evidence += f"; paired dimensions are {own.pairing.text}"
    return Explanation(Cause.ROTARY_DIM, subject.mismatch or "", evidence)
