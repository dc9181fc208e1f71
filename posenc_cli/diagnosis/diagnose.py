"""Why a subject differs from the reference: each claim is compared with every value.

Each claim says what the factors of the pairs would be if it held. It is found on a sample of
positions, at every scale and around the first and the worst that are wrong; then it is compared
with all rows, and printed with its residual. Claims are tried from the simplest on: one mistake
before two, the whole before one run of rows. Anything else is unknown, with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    Suspect,
    amplitude_cause,
    either,
    named,
    together,
    with_residual,
    words_of,
)
from posenc_cli.diagnosis.coordinates import axis_bugs, grid_bugs, stretched_bugs
from posenc_cli.diagnosis.defects import (
    ALIKE,
    ENOUGH,
    Defect,
    Whole,
    amplitude_of,
    claims_that_hold,
)
from posenc_cli.diagnosis.misplaced_values import mirror_cause
from posenc_cli.diagnosis.missing import missing_values, unwritten_cause
from posenc_cli.diagnosis.rounding import (
    half_of,
    held_to_roundings,
    lack_of_precision,
    other_frequencies_bugs,
    stored_wider,
    unexplained_drift,
)
from posenc_cli.diagnosis.rows_and_pairs import (
    own_length_bugs,
    position_bugs,
    row_range_causes,
    unknown_cause,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.frequency_rules import (
    has_amplitude,
)
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.inference.turning import ROWS
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary.findings import sample_of
from posenc_cli.rotary.subject import fits, of_width, table_subject
from posenc_cli.rotary.verdict import MOST, Explanation, examine, zeros_text

if TYPE_CHECKING:
    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.inference.turning import SomeRows, SubjectBlock
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.subject import Subject
    from posenc_cli.rotary.verdict import Examination, Where

_MOST_CELLS = 1 << 24
"""Entries of a table that are held at once, 256 MiB: 131072 positions of a head of 256 columns."""

_CHECK_WIDTH = "check the head dim and the partial rotary factor"
"""What is said of a width that nothing explains."""

_NEVER_WRITTEN = Explanation(
    Cause.UNINITIALISED,
    "all values are 0, as in a buffer that was never written",
    "at every position, in every pair",
)

_FEWER = 2
"""Times as many entries that one rounding leaves over as another: it was the other."""


def diagnose(examination: Examination) -> tuple[Explanation, ...]:
    """At most three causes for what the findings found, the likeliest first; none if all hold."""
    if examination.ok:
        return ()
    subject = examination.subject
    half = None if subject.irregular or examination.others_differ else half_of(subject)
    if half is None or examination.tolerance.floor >= unit(half):
        return _distinct_causes(examination)
    coarse = examine(subject, examination.reference, half)
    causes = _distinct_causes(coarse)
    known = all(why.cause != Cause.UNKNOWN for why in causes)
    if known and (causes or subject.vectors is not None):
        return (*causes[: MOST - 1], stored_wider(half, subject, others=bool(causes)))
    own = _distinct_causes(examination)
    if known or any(why.cause != Cause.UNKNOWN for why in own):
        return own
    allowed = f"every value is a {half} number; the tolerance allows for that rounding"
    return tuple(replace(why, evidence=f"{why.evidence}; {allowed}") for why in causes)


def _distinct_causes(examination: Examination) -> tuple[Explanation, ...]:
    """The causes by the tolerance of an examination."""
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
    if survey is not None and survey.reference.missing_at is not None:
        return _causes_beside_missing(suspect, survey)
    return _distinct(_all_causes(suspect)) or (unknown_cause(suspect),)


def _distinct(explanations: list[Explanation]) -> tuple[Explanation, ...]:
    """The explanations that differ in their cause or their place, at most three."""
    kept: dict[tuple[Cause, Where | None], Explanation] = {}
    for explanation in explanations:
        kept.setdefault((explanation.cause, explanation.where), explanation)
    return tuple(kept.values())[:MOST]


def _all_causes(suspect: Suspect) -> list[Explanation]:
    """The causes of a subject all of whose values are numbers; none if nothing explains it."""
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
        return [with_residual(changed, residual), *_one_of(amplitude_cause(within.sample))]
    others = [why for why in _causes_of_pairs(within) if why.cause != Cause.UNKNOWN]
    evidence = (
        "for the pairs, see the other causes" if others else "the rotated pairs are wrong as well"
    )
    return [replace(changed, evidence=evidence), *others]


def _causes_of_pairs(suspect: Suspect) -> list[Explanation]:
    """The causes of what happens to the dimension pairs."""
    layout = _layout_cause(suspect)
    if layout is None:
        rounding = _causes_within_tolerance(suspect)
        return rounding or _explanations(suspect)
    residual = suspect.residual(Defect())
    if residual.whole:
        return [layout, *_one_of(amplitude_cause(suspect.sample))]
    others = _explanations(suspect)
    known = [why for why in others if why.cause not in (Cause.LAYOUT, Cause.UNKNOWN)]
    mostly = 2 * residual.rows > residual.of_rows
    return [layout, *(known or ([unknown_cause(suspect)] if mostly else []))]


def _irregular_causes(irregular: tuple[Irregularity, ...]) -> tuple[Explanation, ...]:
    """The causes of a function that is no map of each row by its position, each once."""
    evidence: dict[tuple[Cause, str], list[str]] = {}
    for one in irregular:
        evidence.setdefault((one.cause, one.message), []).append(one.evidence)
    return tuple(
        Explanation(cause, message, "; ".join(filter(None, texts)))
        for (cause, message), texts in evidence.items()
    )[:MOST]


def _causes_beside_missing(suspect: Suspect, survey: Survey) -> tuple[Explanation, ...]:
    """The cause of values that are no numbers, and that others differ as well if they do."""
    unwritten = unwritten_cause(suspect.examination)
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

    rest = replace(
        suspect, sample=finite_part(suspect.sample), whole=suspect.whole.changed(finite_part)
    )
    residual = rest.residual(Defect())
    if not residual.whole:
        return missing, unknown_cause(rest)
    near = f"the other values are right, to {residual.within:.2g}"
    return (replace(missing, evidence=f"{missing.evidence}; {near}"),)


def _causes_within_tolerance(suspect: Suspect) -> list[Explanation]:
    """The causes where every entry is right to what float32 code can show, none where not."""
    fault = suspect.examination.fault
    if fault is None:
        return lack_of_precision(suspect)
    strict = held_to_roundings(suspect)
    known = [why for why in _explanations(strict) if why.cause != Cause.UNKNOWN]
    return known or [unexplained_drift(fault)]


def _suspect(examination: Examination, *, of_pairs: bool = False) -> Suspect:
    """The subject as it pairs columns itself: a sample of its rows, and all of them in pieces.

    With ``of_pairs`` without the columns that no pair has.
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

    # Rows at every scale, and those around the first and the worst that are wrong.
    places, survey = subject.own.places, examination.survey
    rows = places.sample()
    if survey is not None and survey.reference.first_wrong is not None:
        rows = places.sample_around(survey.reference.first_wrong, survey.reference.row)
    sample = piece(subject.own.read(rows), reference.scale)
    amplitude = amplitude_of(sample, floor=examination.tolerance.floor)

    def read(rows: SomeRows) -> Sample:
        return piece(subject.own.read(rows), amplitude)

    rotations = examination.consistency.rotations if examination.consistency else None
    return Suspect(
        examination,
        replace(sample, amplitude=amplitude),
        Whole(places.count, read, ROWS),
        rotations,
    )


def _layout_cause(suspect: Suspect) -> Explanation | None:
    """The cause where a subject does not pair columns as the reference does."""
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
    named = f" (--layout {own.layout})" if own.layout and takes_layout else ""
    residual = suspect.residual(Defect())
    evidence = f"matches when dimensions {own.text} are paired{named}; {residual.text}"
    if 2 * residual.rows > residual.of_rows:
        evidence = f"the code rotates dimensions {own.text}{named}"
    return Explanation(
        Cause.LAYOUT,
        f"the code pairs dimensions {own.text}; the reference pairs {right.text}",
        evidence,
        residual=residual,
    )


def _explanations(suspect: Suspect) -> list[Explanation]:
    """The causes of what explains the subject, if anything does."""
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
    one_cause = mirror_cause(examination)
    if one_cause is not None:
        return [one_cause]
    explanations = (
        named(suspect, axis_bugs(suspect))
        or named(suspect, grid_bugs(suspect), alike=MOST)
        or _causes_of_whole(suspect)
        or _one_of(unwritten_cause(examination))
    )
    if explanations:
        return [*explanations, *_one_of(amplitude)]
    return (
        named(suspect, own_length_bugs(suspect))
        or row_range_causes(suspect)
        or named(suspect, position_bugs(suspect))
        or named(suspect, stretched_bugs(suspect))
        or named(suspect, other_frequencies_bugs(suspect))
    )


def _one_of(explanation: Explanation | None) -> list[Explanation]:
    return [] if explanation is None else [explanation]


def _causes_of_whole(suspect: Suspect) -> list[Explanation]:
    """The causes of what explains the whole subject.

    What explains it as well is named beside the first.
    """
    sample = suspect.sample
    claims = claims_that_hold(sample, suspect.rotations)
    held = [(claim, suspect.whole.residual(claim)) for claim in claims if claim.parts]
    held = [
        (claim, residual)
        for claim, residual in held
        if residual.whole
        or (claim.defect.rounds and residual.cells <= (1 - ENOUGH) * residual.of_cells)
    ]
    # Other parameters that change the amplitude to one that the subject has not are no reason.
    held = [
        (claim, residual)
        for claim, residual in held
        if has_amplitude(
            claim.defect.frequencies, sample.reference, sample.amplitude, sample.tolerance.floor
        )
    ] or held
    if not held:
        return []
    if held[0][0].defect.rounds:
        least = min(left.cells for _, left in held)
        held.sort(key=lambda one: one[1].cells > _FEWER * least + 1)
    claim, residual = held[0]
    causes = list(words_of(claim, suspect, residual))
    rule = claim.defect.frequencies
    plain = rule is not None and rule.cause == Cause.SCALING_MISSING
    others = [  # what gives the same table as no scaling leaves it out, too
        together(other, suspect, its_residual)
        for other, its_residual in held[1:]
        if its_residual.rows == residual.rows and its_residual.within <= ALIKE * residual.within
        if not plain and other.parts == claim.parts
    ]
    return either(causes, others)


def _width_cause(subject: Subject, reference: Reference) -> Explanation:
    """A subject that rotates more or fewer columns than the reference."""
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
    """The cause of tables that are right once rows and columns are exchanged."""
    rows, columns = subject.own.places.count, subject.own.pairs
    paired = subject.own.pairing is not None or reference.coordinates is not None
    fitting = rows in (reference.pairs, 2 * reference.pairs) and rows * columns <= _MOST_CELLS
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
