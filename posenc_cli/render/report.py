"""Reports of checks in the forms that machines read: JSON fields, JUnit XML, GitHub annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record
from posenc_cli.render.ci_forms import JunitCase, annotation, junit_document, markdown_cell
from posenc_cli.rotary.codes import FindingName, SubjectKind

if TYPE_CHECKING:
    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.errors import PosencError
    from posenc_cli.rotary.findings import Finding
    from posenc_cli.rotary.verdict import Report

_COMMAND = "rope-check"


class FailedSubject(Record):
    """A subject that gave nothing to judge: its name, why, and after how many seconds."""

    subject: str
    error: PosencError
    seconds: float

    @property
    def details(self) -> str:
        """What is wrong with it, and on a second line what to do."""
        hint = self.error.hint
        return self.error.message + (f"\nhint: {hint}" if hint else "")


def fields(report: Report) -> dict[str, Any]:
    """A report as JSON fields, finite numbers only."""
    return {
        "ok": report.ok,
        "subject": report.subject,
        "reference": report.reference,
        "positions": report.positions,
        "pairs": report.pairs,
        "findings": [finding.as_dict() for finding in report.findings],
        "diagnosis": [explanation.fields() for explanation in report.diagnosis],
        "notes": list(report.notes),
        "not_checked": report.unchecked or None,
        "tolerance": report.tolerance,
        "accepted_by": None if report.accepted_by is None else f"--tol {report.accepted_by}",
        "farthest": None if report.farthest is None else report.farthest.as_dict(),
        "looked_at": {"positions": report.count, "of": report.of or report.count}
        if report.count
        else None,
    }


def rows(report: Report) -> list[list[str]]:
    """The findings as rows: check, result, worst, allowed, where."""
    return [
        [
            finding.check,
            "ok" if finding.ok else "FAIL",
            _number_text(finding.worst),
            _number_text(finding.tolerance),
            place(finding),
        ]
        for finding in report.findings
    ]


def place(finding: Finding) -> str:
    """Where a finding is worst, in words.

    >>> from posenc_cli.rotary.codes import FindingName
    >>> from posenc_cli.rotary.findings import Finding
    >>> place(Finding(FindingName.NORM, True, 0.0, 1e-6, {"position": 3, "pair": 0}, ""))
    'position 3, pair 0'
    """
    return ", ".join(f"{name} {value}" for name, value in (finding.at or {}).items())


def _number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def verdict(report: Report) -> str:
    """The verdict on one line."""
    sides = f"{_subject(report)} against {report.title}"
    if report.ok:
        sample = f", at {_places(report)}" if report.count and report.of is not None else ""
        unchecked = "; not checked beyond text positions" if report.unchecked else ""
        return f"ok: {sides}{sample}{unchecked}{_unusual_axes(report)}{_other_order(report)}"
    holds = {finding.check: finding.ok for finding in report.findings}
    if report.accepted_by is not None:
        values = "cos and sin" if report.subject["kind"] == SubjectKind.TABLES else "its values"
        half = report.accepted_by
        how = f"{values} are rounded to {half}; to accept that, give --tol {half}"
    elif FindingName.RELATIVE not in holds:
        how = "not the reference"
    elif FindingName.REFERENCE not in holds:
        how = "scores do not depend on m − n alone"
    elif holds[FindingName.RELATIVE]:
        how = "self-consistent, but not the reference"
    else:
        how = "not self-consistent"
    sides += ", at text positions" if report.unchecked else ""
    return f"FAILED: {sides}: {how}"


def _unusual_axes(report: Report) -> str:
    """That a function was called with axes in another order than the usual; empty where not."""
    call = report.subject.get("call") or {}
    if not call.get("usual_axes"):
        return ""
    usual = call["usual_axes"]
    return f"; its axes are {call['axes']}, not the usual {usual} (--axes {usual} requires those)"


def _other_order(report: Report) -> str:
    """That columns come out in another order than they go in; empty where they do not."""
    going_in, coming_out = report.subject["layout"], report.subject["out_layout"]
    if coming_out == going_in:
        return ""
    return f"; its columns go in as {going_in} and come out as {coming_out}"


def _subject(report: Report) -> str:
    kind, name = report.subject["kind"], report.subject["name"]
    return "posenc's own tables" if kind == SubjectKind.POSENC else f"{kind} {name}"


def scope(report: Report) -> str:
    """What was checked, on one line."""
    parts = [_places(report)]
    if report.pairs:
        parts.append(f"{_count_text(report.pairs, 'pair')} of columns")
    return ", ".join([*parts, str(report.subject["dtype"])])


def farthest_text(report: Report) -> str | None:
    """How far a subject that is right is from exact, and where; None of one that is not."""
    farthest = report.farthest
    if farthest is None:
        return None
    place = f"position {farthest.position}, pair {farthest.pair}"
    rounded = ""
    if farthest.units == 0:
        rounded = f", where it is the correctly rounded {farthest.dtype}"
    elif farthest.units is not None:
        rounded = f", where it is {farthest.units:.3g} ulp from the correctly rounded one"
    return f"farthest from exact: {farthest.value:.2g} at {place}{rounded}"


def _places(report: Report) -> str:
    """How many positions were looked at, and of how many where they are a sample."""
    if not report.count:
        return "no position" if report.pairs else "any positions, by the form of the scheme"
    if report.of is None:
        return _count_text(report.count, "position")
    return f"{report.count} of {_count_text(report.of, 'position')}"


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _details(report: Report, finding: Finding) -> str:
    parts = [finding.message]
    if finding.worst is not None and finding.tolerance is not None:
        parts.append(f"worst {finding.worst:.3g}, tolerance {finding.tolerance:.3g}")
    if finding.at:
        parts.append(f"at {place(finding)}")
    text = "; ".join(part for part in parts if part)
    causes = [f"cause {why.text} ({why.evidence})" for why in report.diagnosis]
    if report.accepted_by is not None:
        causes.append(f"to accept that rounding, give --tol {report.accepted_by}")
    return "\n".join([text, *causes])


def junit_text(report: Report, place: SourcePlace | None = None) -> str:
    """A report as JUnit XML: a test case a finding; ``place`` is the subject's file.

    One pass over the subject shows several findings, so each has its share of the time.
    """
    share = report.seconds / max(1, len(report.findings))
    group = str(report.reference["scheme"])
    cases = [
        JunitCase(
            group,
            f"{finding.check}: {_subject(report)}",
            share,
            None
            if finding.ok
            else ("failure", finding.check, finding.message, _details(report, finding)),
        )
        for finding in report.findings
    ]
    properties = {
        "subject": _subject(report),
        "reference": report.title,
        "positions": report.positions,
        "looked at": _places(report),
        "tolerance": report.tolerance,
    }
    lines = [verdict(report), scope(report), farthest_text(report), *report.notes]
    printed = "\n".join(filter(None, lines))
    return junit_document(_COMMAND, cases, properties, printed, place)


def junit_error_text(failed: FailedSubject, place: SourcePlace | None = None) -> str:
    """The report on a subject that gave nothing to judge, as JUnit XML: one case, an error."""
    told = ("error", "subject", failed.error.message, failed.details)
    case = JunitCase("subject", f"subject: {failed.subject}", failed.seconds, told)
    return junit_document(_COMMAND, [case], {"subject": failed.subject}, failed.details, place)


def github_text(report: Report, place: SourcePlace | None = None) -> str:
    """A report as annotations of GitHub Actions: an error for each failed check.

    ``place`` is the line of the code that they are about.
    """
    lines = [
        annotation("error", f"rope-check: {finding.check}", _details(report, finding), place)
        for finding in report.findings
        if not finding.ok
    ]
    return "\n".join(lines or [annotation("notice", "rope-check", verdict(report), place)])


def github_error_text(failed: FailedSubject, place: SourcePlace | None = None) -> str:
    """The annotation of a subject that gave nothing to judge."""
    return annotation("error", f"rope-check: {failed.subject}", failed.details, place)


def summary_markdown(report: Report) -> str:
    """A report as the Markdown of a step's summary."""
    lines = [f"### posenc rope-check: {'ok' if report.ok else 'failed'}", ""]
    lines += [markdown_cell(verdict(report)), "", scope(report), ""]
    lines += ["| check | result | worst | allowed | where |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(markdown_cell, row))} |" for row in rows(report)]
    for why in report.diagnosis:
        lines += ["", f"cause: {markdown_cell(why.text)} ({markdown_cell(why.evidence)})"]
    return "\n".join(lines) + "\n"


def summary_error_markdown(failed: FailedSubject) -> str:
    """A subject that gave nothing to judge, as the Markdown of a step's summary."""
    text = f"{markdown_cell(failed.subject)}: {markdown_cell(failed.details)}"
    return f"### posenc rope-check: error\n\n{text}\n"
