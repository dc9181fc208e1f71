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
    ALIKE,
    ENOUGH,
    TIES,
    Defect,
    Suspect,
    amplitude_cause,
    amplitude_of,
    confirmed_causes,
    defect_causes,
    few_rows,
    holds,
    joint_cause,
    likely_defects,
    same_defect,
    with_alternatives,
    with_residual,
)
from posenc_cli.diagnosis.coordinates import axis_bugs, grid_bugs, scaled_coordinate_bugs
from posenc_cli.diagnosis.rows_and_pairs import (
    half_precision_of,
    misplaced_cause,
    missing_values,
    other_frequencies_bugs,
    own_length_bugs,
    position_bugs,
    precision_causes,
    restricted_to_rounding,
    stored_wider_cause,
    uninitialized_cause,
    unknown_cause,
    unknown_drift,
)
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import (
    has_amplitude,
)
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary.findings import Survey, sample_of
from posenc_cli.rotary.subject import Subject, fits, of_width, table_subject
from posenc_cli.rotary.verdict import (
    MOST,
    Examination,
    Explanation,
    Residual,
    Where,
    examine,
    zeros_text,
)

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.inference.turning import SubjectBlock

_MOST_ENTRIES = 1 << 24
"""Entries of a table held at once, 256 MiB: 131072 positions of a head with 256 dimensions."""

_CHECK_WIDTH = "check the head dim and the partial rotary factor"
"""Evidence for a width that nothing explains."""

_NEVER_WRITTEN = Explanation(
    Cause.UNINITIALISED,
    "all values are 0, as in a buffer that was never written",
    "at every position, in every pair",
)

_MOST_DEFECTS = 6
"""The most defects that are compared with each other."""

_FEWER = 2
"""One rounding is the cause if another leaves more than this many times as many entries."""


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
        return _causes_beside_missing(suspect, survey)
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
    changed = Explanation(Cause.ROTARY_DIM, message, "the pairs rotate correctly")
    residual = within.residual(Defect())
    if residual.whole and _layout_cause(within) is None:
        return [with_residual(changed, residual), *_as_list(amplitude_cause(within.sample))]
    others = [why for why in _causes_of_pairs(within) if why.cause != Cause.UNKNOWN]
    evidence = (
        "for the pairs, see the other causes" if others else "the rotated pairs are wrong as well"
    )
    return [replace(changed, evidence=evidence), *others]


def _causes_of_pairs(suspect: Suspect) -> list[Explanation]:
    """Return the causes of wrong values in the dimension pairs."""
    layout = _layout_cause(suspect)
    if layout is None:
        rounding = _causes_within_tolerance(suspect)
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


def _causes_beside_missing(suspect: Suspect, survey: Survey) -> tuple[Explanation, ...]:
    """Return the cause of values that are not finite, and one of wrong finite values, if any."""
    unwritten = uninitialized_cause(suspect.examination)
    if unwritten is not None:
        return (unwritten,)
    missing = missing_values(suspect, survey)
    if survey.reference.missing == survey.reference.rows * suspect.examination.reference.pairs:
        return (missing,)

    def finite_part(sample: Sample) -> Sample:
        finite = np.isfinite(sample.factors) & np.isfinite(sample.stray)
        return replace(
            sample,
            factors=np.where(finite, sample.factors, 0.0),
            stray=np.where(finite, sample.stray, 0.0),
            seen=sample.seen & finite,
            amplitude=sample.reference.scale,
        )

    rest = suspect.changed(finite_part)
    residual = rest.residual(Defect())
    if not residual.whole:
        return missing, unknown_cause(rest)
    near = f"the other values are right, to {residual.within:.2g}"
    return (replace(missing, evidence=f"{missing.evidence}; {near}"),)


def _causes_within_tolerance(suspect: Suspect) -> list[Explanation]:
    """Return the causes of errors within the tolerance of float32; empty if some exceed it."""
    fault = suspect.examination.fault
    if fault is None:
        return precision_causes(suspect)
    strict = restricted_to_rounding(suspect)
    known = [why for why in _explanations(strict) if why.cause != Cause.UNKNOWN]
    return known or [unknown_drift(fault)]


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
        if examination.subject.is_tables:
            return [_NEVER_WRITTEN]
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
        or _causes_of_whole(suspect)
        or _as_list(uninitialized_cause(examination))
    )
    if explanations:
        return [*explanations, *_as_list(amplitude)]
    return (
        confirmed_causes(suspect, own_length_bugs(suspect))
        or confirmed_causes(suspect, position_bugs(suspect))
        or confirmed_causes(suspect, scaled_coordinate_bugs(suspect))
        or confirmed_causes(suspect, other_frequencies_bugs(suspect))
    )


def _as_list(explanation: Explanation | None) -> list[Explanation]:
    return [] if explanation is None else [explanation]


def _causes_of_whole(suspect: Suspect) -> list[Explanation]:
    """Return the causes that explain all rows at once, with alternatives that fit as well."""
    sample = suspect.sample
    other_amplitude = sample.amplitude != sample.reference.scale
    if sample.amplitude == 0 or (other_amplitude and Defect().explained(sample).all()):
        return []
    confirmed = _confirmed_defects(suspect)
    # Rules that imply another amplitude than the subject's are not the cause.
    confirmed = [
        each
        for each in confirmed
        if has_amplitude(
            each[0].frequencies, sample.reference, sample.amplitude, sample.tolerance.floor
        )
    ] or confirmed
    if not confirmed:
        return []
    if confirmed[0][0].rounds:
        least = min(residual.count for _, residual in confirmed)
        confirmed.sort(key=lambda each: each[1].count > _FEWER * least + 1)
    defect, residual = confirmed[0]
    causes = list(defect_causes(defect, suspect, residual))
    rule = defect.frequencies
    plain = rule is not None and rule.cause == Cause.SCALING_MISSING
    others = [  # alternatives that imply the same table as missing scaling add nothing
        joint_cause(other, suspect, its_residual)
        for other, its_residual in confirmed[1:]
        if its_residual.positions.size == residual.positions.size
        if its_residual.within <= ALIKE * residual.within
        if not plain and other.parts == defect.parts
        if {why.message for why in defect_causes(other, suspect, its_residual)}
        != {why.message for why in causes}
    ]
    return with_alternatives(causes, others)


def _confirmed_defects(suspect: Suspect) -> list[tuple[Defect, Residual]]:
    """Return the simplest defects that explain all rows, with their residuals."""
    sample = suspect.sample
    few = sample.rows(few_rows(sample.positions))
    found: list[Defect] = []
    confirmed: list[tuple[Defect, Residual]] = []
    for defect in likely_defects(sample, suspect.rotations, found):
        rule = defect.frequencies
        if found and rule is not None and rule.read_off:
            break  # a known rule explains more than a number that is read off
        if found and defect.parts > min(each.parts for each in found):
            continue
        ties = TIES * few.seen.sum() if defect.rounds else 0
        if np.count_nonzero(~defect.explained(few)) > ties or not holds(sample, defect):
            continue
        residual = suspect.residual(defect)
        nearly = defect.rounds and residual.count <= (1 - ENOUGH) * residual.of_entries
        if (residual.whole or nearly) and not any(same_defect(defect, each) for each in found):
            found.append(defect)
            confirmed.append((defect, residual))
        if len(found) == _MOST_DEFECTS:
            break
    return sorted(confirmed, key=lambda each: each[0].parts)


def _width_cause(subject: Subject, reference: Reference) -> Explanation:
    """Return the cause of a subject with another rotary dim than the reference."""
    own, far_wider = subject.own, subject.far_wider(reference)
    if subject.is_tables and not far_wider and not any(each.turned.any() for each in own.blocks()):
        return _NEVER_WRITTEN
    transposed = _transposed_cause(subject, reference)
    if transposed is not None:
        return transposed
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


def _transposed_cause(subject: Subject, reference: Reference) -> Explanation | None:
    """Return the cause of tables that are right after a transposition, or None."""
    rows, columns = subject.own.places.count, subject.own.pairs
    paired = subject.own.pairing is not None or reference.coordinates is not None
    fitting = rows in (reference.pairs, 2 * reference.pairs) and rows * columns <= _MOST_ENTRIES
    if not subject.is_tables or paired or not fitting:
        return None
    table = subject.own.read(slice(0, rows)).turned.T  # (positions, pairs or columns)
    positions = Positions.contiguous(0, columns)
    right = table_subject(table.real, table.imag, subject.dtype, reference, positions)
    if right.as_reference is None:
        return None
    residual = _suspect(examine(right, reference, "auto")).residual(Defect())
    if not residual.whole:
        return None
    of = "pairs" if rows == reference.pairs else "dimensions"
    cause = Explanation(
        Cause.LAYOUT,
        f"the tables are transposed: rows are {of}, columns are positions",
        f"the shape is {rows}×{columns}; transposed to {columns}×{rows}, every value is right",
        "transposed",
    )
    return with_residual(cause, residual)
