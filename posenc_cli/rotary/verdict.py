"""Examine a subject: put its findings into words, and make the report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.inference.codes import Cause, FindingName, SubjectKind
from posenc_cli.inference.tolerance import HALF_RULES, Tolerance, ToleranceRule, unit
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.records import Record, replace
from posenc_cli.rotary.findings import (
    Consistency,
    Finding,
    Partner,
    Survey,
    WorstDeviation,
    WrongCells,
    consistency,
    hidden_fault,
    take_survey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import PositionRows, Progress
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows
    from posenc_cli.rotary.drift import Fault
    from posenc_cli.rotary.subject import Subject


STORED = (SubjectKind.TABLES, SubjectKind.POSENC)
"""Subjects whose factors are entries of tables."""


MOST = 3
"""Largest number of causes in one diagnosis."""


class Where(Record):
    """The part of a subject that a cause is about: positions and pairs in --positions syntax.

    None means all of them. ``axes`` are the axes that the pairs should follow.
    """

    positions: str | None
    pairs: str | None
    axes: tuple[int, ...] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields that are set, for JSON."""
        return {name: value for name, value in self.as_dict().items() if value is not None}


class Residual(Record):
    """The entries, positions and pairs that a claim does not reproduce.

    ``count`` of the ``of_entries`` are not. ``worst`` is the largest difference there, with its
    position and pair, and ``within`` the largest at reproduced entries. ``positions`` are those
    with such an entry, ``of_positions`` counts all, and ``last`` is the last of them. ``first`` is
    the first such position and pair, and ``pairs`` says which pairs have such an entry.
    """

    count: int
    of_entries: int
    worst: tuple[float, int, int]
    within: float
    first: tuple[int, int] | None
    positions: Integers
    of_positions: int
    last: int
    pairs: Flags

    @classmethod
    def of(cls, positions: Integers, missed: RealRows, explained: Flags) -> Residual:
        """Return the residual of differences (n, pairs) at positions (n,)."""
        left = ~explained
        if not left.any():
            return cls(
                0,
                left.size,
                (-1.0, int(positions[0]), 0),
                max(0.0, float(missed.max())),
                None,
                positions[:0],
                positions.size,
                int(positions[-1]),
                left[0],
            )
        row, pair = divmod(int(np.argmax(left)), left.shape[1])
        errors = np.where(left, np.where(np.isnan(missed), np.inf, missed), -1.0)
        at, of = divmod(int(np.argmax(errors)), left.shape[1])
        return cls(
            int(np.count_nonzero(left)),
            left.size,
            (float(errors[at, of]), int(positions[at]), of),
            max(0.0, float(np.where(left, 0, missed).max())),
            (int(positions[row]), pair),
            positions[left.any(axis=1)],
            positions.size,
            int(positions[-1]),
            np.asarray(left.any(axis=0), bool),
        )

    @classmethod
    def measure(cls, pieces: Iterable[tuple[Integers, RealRows, Flags]]) -> Residual:
        """Return the residual of several blocks together; each is the arguments of :meth:`of`."""
        return cls.joined([cls.of(*piece) for piece in pieces])

    @classmethod
    def joined(cls, parts: Sequence[Residual]) -> Residual:
        """Return the residual of blocks from those of each."""
        return cls(
            sum(part.count for part in parts),
            sum(part.of_entries for part in parts),
            max((part.worst for part in parts), key=lambda worst: worst[0]),
            max(part.within for part in parts),
            next((part.first for part in parts if part.first), None),
            np.concatenate([part.positions for part in parts]),
            sum(part.of_positions for part in parts),
            parts[-1].last,
            np.any([part.pairs for part in parts], axis=0),
        )

    @property
    def whole(self) -> bool:
        """Whether every entry is reproduced, by finite numbers."""
        return not self.count and math.isfinite(self.within)

    @property
    def text(self) -> str:
        """The residual as an evidence text."""
        if self.count == self.of_entries:
            return "not explained"
        near = f"explained within {self.within:.2g}"
        if self.first is None:
            return f"{near} at all {self.of_positions} positions" if self.of_positions > 1 else near
        right = self.of_entries - self.count
        entries = f"{right} of {self.of_entries} rotations {near}, {self.count} not"
        differ = "1 of the {} positions differs, at {}"
        if self.positions.size > 1:
            differ = f"{self.positions.size} of the {{}} positions differ, first at {{}}"
        return f"{entries}; {differ.format(self.of_positions, self.first[0])}"

    def fields(self) -> dict[str, object]:
        """Return the residual for JSON, with finite numbers only."""
        shown = self.count < self.of_entries and math.isfinite(self.within)
        largest = max(self.worst[0], self.within)
        return {
            "max_abs": largest if math.isfinite(largest) else None,
            "reproduced_to": self.within if shown else None,
            "cells": self.of_entries,
            "left_over": {
                "cells": self.count,
                "positions": self.positions.size,
                "pairs": int(np.count_nonzero(self.pairs)),
            },
        }


class Explanation(Record):
    """The cause of a subject's difference from the reference, and the evidence.

    ``detail`` is a finer reason. ``where`` is the part that it is about, None for all of it.
    ``residual`` is what its table leaves unexplained there, None if it implies no table. ``alike``
    are other possible reasons that imply the same table. Several causes at once are separate
    explanations.
    """

    cause: Cause
    message: str
    evidence: str
    detail: str | None = None
    where: Where | None = None
    residual: Residual | None = None
    alike: tuple[Explanation, ...] = ()

    @property
    def text(self) -> str:
        """The cause in a sentence, or all possible ones."""
        own = f"{self.cause}: {self.message}"
        if not self.alike:
            return own
        return ", or ".join(
            [f"either {own}", *(f"{why.cause}: {why.message}" for why in self.alike)]
        )

    def fields(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        return {
            "cause": self.cause,
            "message": self.message,
            "evidence": self.evidence,
            "detail": self.detail,
            "where": None if self.where is None else self.where.fields(),
            "residual": None if self.residual is None else self.residual.fields(),
            "alike": [
                {"cause": why.cause, "message": why.message, "evidence": why.evidence}
                for why in self.alike
            ],
        }


class Report(Record):
    """The result of a check: the findings, why one failed, and the error by position.

    ``count`` is the number of positions that were compared; 0 if the form of the scheme or the
    widths decide alone. If posenc chose the positions, they are a sample of the first ``of``.
    ``curve`` has the error at some positions, and ``shares`` the ratio to the tolerance there, for
    each pair. ``seconds`` is the time of the check. ``accepted_by`` is the tolerance rule that
    accepts a subject that fails only because of rounding to a half precision. ``unchecked`` is a
    sentence on calls of a function that were not tested.
    """

    subject: dict[str, Any]
    reference: dict[str, Any]
    positions: str
    count: int
    pairs: int
    findings: tuple[Finding, ...]
    diagnosis: tuple[Explanation, ...]
    notes: tuple[str, ...]
    tolerance: str
    title: str
    curve: tuple[tuple[int, float], ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()
    of: int | None = None
    seconds: float = 0.0
    accepted_by: Literal["float16", "bfloat16"] | None = None
    unchecked: str = ""

    @property
    def ok(self) -> bool:
        """Whether every finding holds."""
        return all(finding.ok for finding in self.findings)


class Examination(Record):
    """The findings on a subject at its positions, and the results that they are made from.

    ``others_differ`` says that the measured calls are right and others are not.
    """

    subject: Subject
    reference: Reference
    tolerance: Tolerance
    findings: tuple[Finding, ...]
    survey: Survey | None
    consistency: Consistency | None
    fault: Fault | None = None
    others_differ: bool = False

    @property
    def ok(self) -> bool:
        """Whether every finding holds."""
        return all(finding.ok for finding in self.findings)


def examine(
    subject: Subject, reference: Reference, rule: ToleranceRule, *, progress: Progress | None = None
) -> Examination:
    """Return the findings on one subject.

    If the subject equals the reference within the tolerance, its rotation is the reference's, and
    one pass is enough. Otherwise the nearest rotation is fitted. A subject that is far wider than
    the reference differs, and is not evaluated.
    """
    rotation = subject.as_reference or subject.own
    tolerance = Tolerance.of(
        rule,
        dtype=rotation.dtype,
        roundings=rotation.roundings,
        amplitude=reference.scale,
        of_frequencies=subject.frequencies is not None,
    )
    if subject.far_wider(reference):
        finding = _reference_finding(subject, None, tolerance, None)
        return Examination(subject, reference, tolerance, (finding,), None, None)
    survey = None
    if subject.as_reference:
        stored = REAL_DTYPES.get(rotation.dtype)
        cells = stored if rule == "exact" and subject.kind in STORED else None
        survey = take_survey(rotation, reference, tolerance, rounded_to=cells, progress=progress)
    nearest: Consistency | None = None
    if survey is None or survey.reference.ratio > 1 or tolerance.fixed is not None:
        nearest = consistency(subject.own, reference, tolerance, progress=progress)
    lengths = survey
    if survey is not None and subject.own is not subject.as_reference:
        lengths = take_survey(subject.own, reference, tolerance, progress=progress)
    findings = [_relative_finding(subject, reference, tolerance, survey, nearest)]
    if lengths is not None and survey is not None:
        of_vectors = [_norm_finding(lengths, reference, tolerance)]
        if survey.identity.ratio >= 0:
            of_vectors.append(_identity_finding(lengths, tolerance))
        findings += [_if_measured(finding, subject) for finding in of_vectors]
    fault = None if survey is None else hidden_fault(rotation, reference, tolerance, survey)
    findings.append(_reference_finding(subject, survey, tolerance, fault))
    others_differ = bool(subject.other_calls) and all(finding.ok for finding in findings)
    if others_differ:
        message = "equals the reference in the measured calls, but not in others: "
        message += subject.other_calls[0].text
        findings[-1] = Finding(FindingName.REFERENCE, False, None, None, None, message)
    return Examination(
        subject,
        reference,
        tolerance,
        tuple(findings),
        survey,
        nearest,
        fault,
        others_differ,
    )


def accepting_rule(
    examination: Examination, diagnosis: tuple[Explanation, ...]
) -> Literal["float16", "bfloat16"] | None:
    """Return the rule that accepts a subject whose values were rounded to a half precision.

    None if there is another cause, or the subject fails by that rule as well.
    """
    subject = examination.subject
    if {why.cause for why in diagnosis} != {Cause.TABLE_PRECISION}:
        return None
    for rule in HALF_RULES:
        named = all(why.detail == rule for why in diagnosis)
        if named and unit(rule) > unit(subject.dtype):
            return rule if examine(subject, examination.reference, rule).ok else None
    return None


def _relative_finding(
    subject: Subject,
    reference: Reference,
    tolerance: Tolerance,
    survey: Survey | None,
    nearest: Consistency | None,
) -> Finding:
    proofs: list[tuple[WorstDeviation, float, float, Partner | None]] = []
    if survey is not None:
        # The subject equals the reference, which rotates at a constant rate.
        proofs.append((survey.reference, reference.scale, math.inf, None))
    if nearest is not None:
        proofs.append((nearest.worst, nearest.stretch, nearest.longest, nearest.partner))
    for proof in proofs:
        worst, stretch, longest, partner = proof
        value = (2 * stretch + worst.value) * worst.value
        # Python's power raises an error if a number is too large.
        value = min(value, stretch * stretch + longest * longest)
        allowed = (2 * stretch + worst.allowed) * worst.allowed
        verdict = _judgement(worst.ratio, value, allowed, tolerance)
        if verdict["ok"]:
            break
    if subject.no_map:
        verdict = {"ok": False, "worst": None, "tolerance": None}
    at = _place(worst)
    if partner is not None and not verdict["ok"]:
        at = {"m": worst.position, "n": partner.position, "pair": worst.pair}
    message = _relative_text(subject, reference, worst, value, partner, ok=verdict["ok"])
    return Finding(FindingName.RELATIVE, at=at, message=message, worst_is="bound", **verdict)


def _relative_text(
    subject: Subject,
    reference: Reference,
    worst: WorstDeviation,
    value: float,
    partner: Partner | None,
    *,
    ok: bool,
) -> str:
    if subject.no_map:
        return subject.no_map
    if ok:
        pairs = subject.own.places.count**2
        if subject.kind == SubjectKind.ROTATED:
            return (
                f"holds for the given vectors, at all {pairs} pairs of positions; one vector per "
                "position cannot cover all q and k"
            )
        return f"holds for all q and k and all {pairs} pairs of positions"
    if not math.isfinite(worst.value):
        return f"q·k is NaN or infinite at position {worst.position}, pair {worst.pair}"
    what = "m − n" if reference.coordinates is None else "the offsets along the axes"
    dependent = f"q·k does not depend on {what} alone"
    if partner is None or partner.change is None:
        return (
            f"{dependent} (error at most {_number_text(value)}, at m = {worst.position}, "
            f"pair {worst.pair})"
        )
    return (
        f"{dependent} (error {_number_text(partner.change)}, at m = {worst.position}, "
        f"n = {partner.position}, pair {worst.pair}; the table has a bound for all positions)"
    )


def zeros_text(reference: Reference, everything: str) -> str:
    """Return the message that all rotary columns are 0: ``everything`` if a head has no others."""
    if reference.head == 2 * reference.pairs:
        return everything
    return f"the {2 * reference.pairs} columns that should rotate become 0"


def _norm_finding(survey: Survey, reference: Reference, tolerance: Tolerance) -> Finding:
    verdict = _judgement(survey.norm.ratio, survey.norm.value, survey.norm.allowed, tolerance)
    scale = reference.scale
    times = "" if scale == 1 else f", times {scale:.6g}"
    if verdict["ok"]:
        message = f"lengths are kept{times}"
    elif not math.isfinite(survey.norm.value):
        message = f"is NaN or infinite at position {survey.norm.position}, pair {survey.norm.pair}"
    elif survey.longest == 0:
        message = zeros_text(reference, "every length becomes 0")
    # All lengths have one factor, within rounding, and it is wrong.
    elif (
        not survey.shortest <= scale <= survey.longest
        and survey.longest - survey.shortest <= 4 * tolerance.floor * max(1.0, survey.longest)
    ):
        stretch, right = distinct_digits(survey.longest, scale)
        message = f"every length is multiplied by {stretch}, not by {right}: an attention factor"
    else:
        least, most = distinct_digits(survey.shortest, survey.longest, digits=4)
        message = f"lengths are multiplied by {least} to {most}"
    return Finding(FindingName.NORM, at=_place(survey.norm), message=message, **verdict)


def _if_measured(finding: Finding, subject: Subject) -> Finding:
    """Return the finding, or a failed one if unit vectors do not show the subject's map."""
    if not subject.unmeasured:
        return finding
    message = f"not measured, because {subject.unmeasured}"
    return Finding(finding.check, False, None, None, None, message)


def _identity_finding(survey: Survey, tolerance: Tolerance) -> Finding:
    worst = survey.identity
    verdict = _judgement(worst.ratio, worst.value, worst.allowed, tolerance)
    message = "position 0 is not rotated" if verdict["ok"] else "q and k change at position 0"
    return Finding(FindingName.IDENTITY, at=_place(worst), message=message, **verdict)


def _reference_finding(
    subject: Subject, survey: Survey | None, tolerance: Tolerance, fault: Fault | None
) -> Finding:
    if survey is None:
        return Finding(FindingName.REFERENCE, False, None, None, None, subject.mismatch or "")
    if fault is not None and not subject.no_map:
        place = {"position": fault.position, "pair": fault.pair}
        message = (
            f"differs from the reference by up to {_number_text(survey.largest)}: within "
            "float32's error, but not in the pattern of float32 roundings"
        )
        return Finding(FindingName.REFERENCE, False, fault.value, fault.allowed, place, message)
    worst = survey.reference
    # Each deviation includes the rest of the map, which may make it a bound.
    kind: Literal["value", "bound"] = "bound" if survey.stray > worst.allowed else "value"
    if survey.cells is not None and worst.ratio <= 1:
        return _cells_finding(survey.cells)
    verdict = _judgement(worst.ratio, worst.value, worst.allowed, tolerance)
    if subject.no_map:
        verdict = {"ok": False, "worst": None, "tolerance": None}
    if not math.isfinite(worst.value):
        message = f"is NaN or infinite at position {worst.position}, pair {worst.pair}"
    elif subject.no_map:
        message = "cannot equal the reference"
    elif verdict["ok"]:
        message = "; ".join(("equals the reference", *order_notes(subject)))
    else:
        reach = "at most" if kind == "bound" else "up to"
        message = f"differs from the reference by {reach} {_number_text(survey.largest)}"
    return Finding(
        FindingName.REFERENCE, at=_place(worst), message=message, worst_is=kind, **verdict
    )


def order_notes(subject: Subject) -> tuple[str, ...]:
    """Return a note on the order of a right result's columns, if it differs from the input's."""
    pairing = (subject.as_reference or subject.own).pairing
    if pairing is None or pairing.out_layout == pairing.layout:
        return ()
    return (f"output dimensions are {pairing.out_layout}, which does not change q·k",)


def axis_notes(reference: Reference, places: PositionRows) -> tuple[str, ...]:
    """Return notes on axes with equal coordinates at all positions, which nothing distinguishes."""
    coordinates = reference.coordinates
    if coordinates is None or coordinates.at is None or coordinates.oblique:
        return ()
    along = coordinates.at(places.at(slice(None)))
    groups: dict[bytes, list[int]] = {}
    for axis in sorted({*coordinates.axes}):
        groups.setdefault(along[axis].tobytes(), []).append(axis)
    return tuple(
        f"axes {' and '.join(map(str, axes))} have equal coordinates at every position here: "
        "not checked which of them a pair follows"
        for axes in groups.values()
        if len(axes) > 1
    )


def _cells_finding(cells: WrongCells) -> Finding:
    message = "every value equals the correctly rounded reference"
    if cells.wrong:
        message = (
            f"{cells.wrong} of {cells.total} entries are not correctly rounded, by up to "
            f"{cells.units:.3g} ulp"
        )
    place = _place(cells.worst)
    return Finding(FindingName.REFERENCE, not cells.wrong, cells.worst.value, 0.0, place, message)


def _judgement(ratio: float, value: float, allowed: float, tolerance: Tolerance) -> dict[str, Any]:
    """Return the verdict on a reported value: by its ratio, or by the number that the user gave."""
    worst = value if math.isfinite(value) else None
    if tolerance.fixed is not None:
        ok = worst is not None and worst <= tolerance.fixed
        return {"ok": ok, "worst": worst, "tolerance": tolerance.fixed}
    limit = allowed if math.isfinite(allowed) else None
    return {"ok": ratio <= 1, "worst": worst, "tolerance": limit}


def _place(worst: WorstDeviation) -> dict[str, int]:
    return {"position": worst.position, "pair": worst.pair}


def distinct_digits(value: float, right: float, *, digits: int = 6) -> tuple[str, str]:
    """Return two numbers with as many digits as show that they differ, at least ``digits``.

    >>> distinct_digits(1.25, 1.0), distinct_digits(1.000002, 1.0)
    (('1.25', '1'), ('1.000002', '1'))
    """
    for count in range(digits, 18):  # 17 digits distinguish any two float64 numbers
        texts = f"{value:.{count}g}", f"{right:.{count}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _number_text(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "not a number"


def merge_reports(reports: list[Report], *, last: bool = False) -> Report:
    """Return one report of several, with the finding of each check that is nearest to failing.

    Everything else is from the first report that failed, or from the ``last`` one.
    """
    every = [finding for report in reports for finding in report.findings]
    findings = tuple(
        max((own for own in every if own.check == finding.check), key=_severity)
        for finding in reports[0].findings
    )
    wrong = [report for report in reports if not report.ok] or reports[-1:]
    failed = wrong[-1 if last else 0]
    rules = {report.accepted_by for report in reports if not report.ok}
    return replace(
        failed,
        findings=findings,
        accepted_by=failed.accepted_by if len(rules) == 1 else None,
    )


def with_prefix(report: Report, prefix: str) -> Report:
    """Prefix the failed findings of a report with what they are about."""
    findings = tuple(
        finding if finding.ok else replace(finding, message=f"{prefix}: {finding.message}")
        for finding in report.findings
    )
    return replace(report, findings=findings)


def _severity(finding: Finding) -> tuple[bool, float]:
    if finding.worst is None or not finding.tolerance:
        return not finding.ok, math.inf
    return not finding.ok, finding.worst / finding.tolerance
