"""Why a subject differs from the reference: each claim is compared with every value.

Each claim says what the factors of the pairs would be if it held. It is found on a sample of
positions, at every scale and around the first and the worst that are wrong; then it is compared
with all rows, and printed with its residual. Claims are tried from the simplest on: one mistake
before two, the whole before parts. Of what no claim explains wholly, parts are looked for: rows
from some position on, some of the pairs. What is left is called unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    RotaryBug,
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
    Claim,
    Defect,
    Whole,
    amplitude_of,
    claims_that_hold,
    nearest_rotations,
    nearly_holds,
    suspected_defects,
)
from posenc_cli.diagnosis.misplaced_values import mirror_cause
from posenc_cli.diagnosis.missing import missing_cause, missing_values, unwritten_cause
from posenc_cli.diagnosis.rounding import (
    half_of,
    held_to_roundings,
    lack_of_precision,
    other_frequencies_bugs,
    rounded_powers_bugs,
    stored_wider,
    unexplained_drift,
)
from posenc_cli.diagnosis.row_ranges import regime_causes
from posenc_cli.diagnosis.rows_and_pairs import (
    own_length_bugs,
    position_bugs,
    standstill_bugs,
    unknown_cause,
)
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.frequency_rules import (
    has_amplitude,
    likely_alternatives,
    same_by_other_numbers,
)
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.inference.turning import ROWS
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary.findings import sample_of
from posenc_cli.rotary.subject import fits, of_width, table_subject
from posenc_cli.rotary.verdict import MOST, Explanation, examine, zeros_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.inference.rules import Alternative
    from posenc_cli.inference.turning import ColumnPairing, SomeRows, SubjectBlock
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.subject import Subject
    from posenc_cli.rotary.verdict import Examination, Residual, Where

_FLOAT32_NUMBER = 2.0**-22
"""Of a number: what float32 may err where it is computed in a step or two."""

_MOST_CELLS = 1 << 24
"""Entries of a table that are held at once, 256 MiB: 131072 positions of a head of 256 columns."""

_CHECK_WIDTH = "check the head dim and the share of it that rotates (partial)"
"""What is said of a width that nothing explains."""

_FEWER = 2
"""Times as many entries that one rounding leaves over as another: it was the other."""

_FEW_EXCEPTIONS = 0.03
"""Of the positions: where more are otherwise, they are wrong in a way of their own."""


def diagnose(examination: Examination) -> tuple[Explanation, ...]:
    """At most three causes for what the findings found, the likeliest first; none if all hold."""
    if examination.ok:
        return ()
    subject = examination.subject
    half = None if subject.irregular or examination.otherwise else half_of(subject)
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
    allowed = f"every value is a number of {half}, whose roundings are allowed for"
    return tuple(replace(why, evidence=f"{why.evidence}; {allowed}") for why in causes)


def _distinct_causes(examination: Examination) -> tuple[Explanation, ...]:
    """The causes by the tolerance of an examination."""
    if examination.ok:
        return ()
    subject = examination.subject
    survey = examination.survey
    if subject.irregular:
        return _irregular_causes(subject.irregular)
    if examination.otherwise:
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
    changed = Explanation(Cause.ROTARY_DIM, message, "the pairs rotate as they should")
    residual = within.residual(Defect())
    if residual.whole and _layout_cause(within) is None:
        return [with_residual(changed, residual), *_one_of(amplitude_cause(within.sample))]
    others = [why for why in _causes_of_pairs(within) if why.cause != Cause.UNKNOWN]
    evidence = (
        "the pairs: see the other causes" if others else "the rotated pairs are wrong as well"
    )
    return [replace(changed, evidence=evidence), *others]


def _causes_of_pairs(suspect: Suspect) -> list[Explanation]:
    """The causes of what happens to the dimension pairs."""
    layout = _layout_cause(suspect)
    if layout is None:
        rounding = _causes_within_tolerance(suspect)
        return rounding or _explanations(suspect)
    if suspect.residual(Defect()).whole:
        return [layout, *_one_of(amplitude_cause(suspect.sample))]
    others = [why for why in _explanations(suspect) if why.cause not in (Cause.LAYOUT,)]
    return [layout, *(why for why in others if why.cause != Cause.UNKNOWN)]


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
    """The causes of a subject of which some values are no numbers: of these, and of the others."""
    known = missing_cause(suspect)
    if known is not None:
        return (known,)
    missing = missing_values(suspect, survey)
    evidence = missing.evidence
    if survey.reference.missing == survey.reference.rows * suspect.examination.reference.pairs:
        return (missing,)

    def finite_part(sample: Sample) -> Sample:
        finite = np.isfinite(sample.factors) & np.isfinite(sample.stray)
        return replace(
            sample,
            factors=np.where(finite, sample.factors, sample.amplitude),
            stray=np.where(np.isfinite(sample.stray), sample.stray, 0.0),
            seen=sample.seen & finite,
        )

    sample = finite_part(suspect.sample)
    sample = replace(
        sample, amplitude=amplitude_of(sample, floor=suspect.examination.tolerance.floor)
    )
    rest = replace(
        suspect,
        sample=sample,
        whole=suspect.whole.changed(
            lambda piece: replace(finite_part(piece), amplitude=sample.amplitude)
        ),
        rotations=nearest_rotations(sample),
    )
    residual = rest.whole.residual(Claim(Defect(), sample.reference.scale))
    if residual.whole:
        near = f"the others are right, to {residual.within:.2g}"
        return (replace(missing, evidence=f"{evidence}; {near}"),)
    missing = replace(missing, evidence=f"{evidence}; of the others: see the other causes")
    others = [why for why in _causes_of_pairs(rest) if why.cause != Cause.UNKNOWN]
    if not others:
        return missing, unknown_cause(rest)
    return _distinct([*others[: MOST - 1], missing])


def _inverse_cause(suspect: Suspect) -> Explanation | None:
    """The cause where what was given is the inverse of frequencies."""
    examination = suspect.examination
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.size != right.size or not (right > 0).all():
        return None
    for what, values in (("1/frequency", 1 / right), ("wavelengths", 2 * np.pi / right)):
        if np.allclose(given, values, rtol=_FLOAT32_NUMBER, atol=0):
            evidence = f"pair {right.size - 1} is {given[-1]:.6g}, not {right[-1]:.6g}"
            return Explanation(
                Cause.FREQUENCY_RULE, f"{what} were given, not frequencies", evidence
            )
    return None


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
        return _order_cause(suspect, own)
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


def _order_cause(suspect: Suspect, own: ColumnPairing) -> Explanation | None:
    """The cause where columns that are paired rightly come out in another order."""
    going_in, coming_out = (*own.first, *own.second), (*own.out_first, *own.out_second)
    moved = [(a, b) for a, b in zip(going_in, coming_out, strict=True) if a != b]
    if not moved:
        return None
    shown = ", ".join(f"{a} as {b}" for a, b in sorted(moved)[:3])
    more = ", …" if len(moved) > 3 else ""
    residual = suspect.residual(Defect())
    evidence = f"in the right order: {residual.text}"
    message = f"dimensions come out in another order: {shown}{more}"
    return Explanation(Cause.LAYOUT, message, evidence, residual=residual)


def _explanations(suspect: Suspect) -> list[Explanation]:
    """The causes of what explains the subject, if anything does."""
    examination, sample = suspect.examination, suspect.sample
    if examination.survey is not None and examination.survey.longest == 0:
        if examination.subject.is_tables:
            message = "all values are 0, as in a buffer that was never written"
            return [Explanation(Cause.UNINITIALISED, message, "at every position, in every pair")]
        message = zeros_text(examination.reference, "everything becomes 0")
        return [Explanation(Cause.UNKNOWN, message, "nothing is left to compare")]
    amplitude = amplitude_cause(sample)
    if amplitude is not None and nearly_holds(sample, Defect()):
        residual = suspect.residual(Defect())
        if residual.rows <= _FEW_EXCEPTIONS * residual.of_rows:
            return [with_residual(amplitude, residual)]
    with_amplitude = [] if amplitude is None else [amplitude]
    one_cause = mirror_cause(examination)
    if one_cause is not None:
        return [one_cause]
    explanations = (
        _one_of(_inverse_cause(suspect))
        or _one_of(_transposed_cause(examination.subject, examination.reference))
        or _outrageous_causes(suspect)
        or named(suspect, standstill_bugs(suspect))
        or named(suspect, axis_bugs(suspect))
        or named(suspect, grid_bugs(suspect), alike=MOST)
        or named(suspect, rounded_powers_bugs(suspect))
        or _causes_of_whole(suspect)
    )
    if explanations:
        zeros = _one_of(unwritten_cause(examination, zeros=True))
        return [*_beside_zeros(explanations, zeros), *with_amplitude]
    return (
        named(suspect, own_length_bugs(suspect))
        or _causes_of_rows(suspect)
        or named(suspect, stretched_bugs(suspect))
        or named(suspect, other_frequencies_bugs(suspect))
    )


def _outrageous_causes(suspect: Suspect) -> list[Explanation]:
    """The causes of frequencies that no rule may seem to give: one that does, or memory."""
    garbage = _one_of(unwritten_cause(suspect.examination))
    rules = likely_alternatives(suspect.sample.reference) if garbage else ()
    amplitude = suspect.sample.amplitude
    bugs = (RotaryBug(Claim(Defect(frequencies=rule), amplitude)) for rule in rules)
    return named(suspect, bugs) or garbage


def _causes_of_rows(suspect: Suspect) -> list[Explanation]:
    """The causes of rows, or pairs, that are wrong in ways of their own.

    What says of every row as which position it is rotated comes before parts that leave rows over.
    """
    parts = regime_causes(suspect)
    if parts and all(part.cause != Cause.UNKNOWN for part in parts):
        return parts
    return named(suspect, position_bugs(suspect)) or parts


def _beside_zeros(causes: list[Explanation], zeros: list[Explanation]) -> list[Explanation]:
    """Causes, and that some frequencies are 0: the reason in their place where they explain all."""
    whole = causes[0].residual is not None and causes[0].residual.whole
    return either(causes, zeros) if zeros and whole else [*causes, *zeros]


def _one_of(explanation: Explanation | None) -> list[Explanation]:
    return [] if explanation is None else [explanation]


def _causes_of_whole(suspect: Suspect) -> list[Explanation]:
    """The causes of what explains the whole subject, but for a few positions at most.

    What explains it as well is named beside the first.
    """
    sample = suspect.sample
    defects = suspected_defects(sample, suspect.rotations)
    claims = claims_that_hold(sample, defects, nearly=True)
    held = [(claim, suspect.whole.residual(claim)) for claim in claims if claim.parts]
    # What leaves rows over leaves fewer than the right factors do, if these leave any.
    left_over = any(residual.rows for _, residual in held)
    wrong = (suspect.residual(Defect()).rows if left_over else 0) or math.inf
    held = [
        (claim, residual)
        for claim, residual in held
        if (
            residual.cells <= (1 - ENOUGH) * residual.of_cells
            if claim.defect.rounds
            else residual.rows <= max(1, _FEW_EXCEPTIONS * residual.of_rows)
            and residual.rows < wrong
        )
    ]
    # Other parameters that change the amplitude to one that the subject has not are no reason.
    held = [one for one in held if _has_amplitude(one[0].defect.frequencies, suspect)] or held
    if not held:
        return []
    if held[0][0].defect.rounds:
        least = min(left.cells for _, left in held)
        held.sort(key=lambda one: one[1].cells > _FEWER * least + 1)
    claim, residual = held[0]
    if claim.defect.moved is not None and not residual.whole:
        # A rule with exceptions may be another rule: parts, or rows one by one, may have none.
        parts = regime_causes(suspect)
        if not (parts and all(one.residual and one.residual.whole for one in parts)):
            parts = named(suspect, position_bugs(suspect))
        if parts:
            return parts
    causes = list(words_of(claim, suspect, residual))
    others = [
        together(other, suspect, its_residual)
        for other, its_residual in held[1:]
        if its_residual.rows == residual.rows and its_residual.within <= ALIKE * residual.within
        if not _is_plain(claim) and other.parts == claim.parts
    ]
    return either(causes, [*others, *_in_other_numbers(claim, suspect, residual)])


def _in_other_numbers(claim: Claim, suspect: Suspect, residual: Residual) -> Iterator[Explanation]:
    """A rule alone that explains the whole subject, in other numbers that come to the same."""
    rule = claim.defect.frequencies
    if rule is None or claim.parts > 1 or _is_plain(claim):
        return
    for other in same_by_other_numbers(suspect.sample.reference, rule):
        if _has_amplitude(other, suspect):
            yield together(Claim(Defect(frequencies=other), claim.amplitude), suspect, residual)


def _has_amplitude(rule: Alternative | None, suspect: Suspect) -> bool:
    """Whether a rule, if it is one, may be the reason beside the amplitude of the subject."""
    sample = suspect.sample
    return has_amplitude(rule, sample.reference, sample.amplitude, sample.tolerance.floor)


def _is_plain(claim: Claim) -> bool:
    """Whether a claim is that a rule is left out: what gives the same table leaves it out, too."""
    rule = claim.defect.frequencies
    return rule is not None and rule.cause == Cause.SCALING_MISSING


def _width_cause(subject: Subject, reference: Reference) -> Explanation:
    """A subject that rotates more or fewer columns than the reference."""
    own = subject.own
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
    elif (
        not subject.far_wider(reference)
        and (wider := of_width(reference, own.pairs))
        and fits(own, wider.reference)
    ):
        evidence = f"with {wider.options} every cell is right"
    if own.pairing is not None and own.pairing.first[0]:
        evidence += f"; columns are paired {own.pairing.text}"
    return Explanation(Cause.ROTARY_DIM, subject.mismatch or "", evidence)


def _transposed_cause(subject: Subject, reference: Reference) -> Explanation | None:
    """The cause of tables whose rows should be columns."""
    rows, columns = subject.own.places.count, subject.own.pairs
    if not subject.is_tables or subject.own.pairing is not None:
        return None
    if reference.coordinates is not None or not reference.symmetric:
        return None
    if rows not in (reference.pairs, 2 * reference.pairs) or rows * columns > _MOST_CELLS:
        return None
    table = subject.own.read(slice(0, rows)).turned.T  # (positions, pairs or columns)
    positions = Positions.contiguous(0, columns)
    right = table_subject(table.real, table.imag, subject.dtype, reference, positions)
    if right.as_reference is None:
        return None
    residual = _suspect(examine(right, reference, "auto")).residual(Defect())
    if not residual.whole:
        return None
    of = "pair" if rows == reference.pairs else "column"
    cause = Explanation(
        Cause.LAYOUT,
        f"the tables are transposed: they have a row for each {of} and a column for each position",
        f"of shape {rows}×{columns}; as {columns}×{rows} they are right",
        "transposed",
    )
    return with_residual(cause, residual)
