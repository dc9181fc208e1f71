"""Reports of checks in the forms that machines read: JSON fields, JUnit XML, GitHub annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.checks.codes import FindingName, SubjectKind
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.checks.rope import Finding
    from posenc_cli.checks.verdict import Report
    from posenc_cli.errors import PosencError

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        "tolerance": report.tolerance,
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

    >>> from posenc_cli.checks.codes import FindingName
    >>> from posenc_cli.checks.rope import Finding
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
        return f"ok: {sides}{sample}"
    holds = {finding.check: finding.ok for finding in report.findings}
    if FindingName.RELATIVE not in holds:
        how = "not the reference"
    elif FindingName.REFERENCE not in holds:
        how = "scores do not depend on m − n alone"
    elif holds[FindingName.RELATIVE]:
        how = "self-consistent, but not the reference"
    else:
        how = "not self-consistent"
    return f"FAILED: {sides}: {how}"


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
    return "\n".join([text, *causes])


def junit_text(report: Report, place: SourcePlace | None = None) -> str:
    """A report as JUnit XML: a test case a finding; ``place`` is the subject's file.

    One pass over the subject shows several findings, so each has its share of the time.
    """
    share = report.seconds / max(1, len(report.findings))
    cases = [
        _JunitCase(
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
    return _junit_text(str(report.reference["scheme"]), cases, properties, printed, place)


def junit_error_text(failed: FailedSubject, place: SourcePlace | None = None) -> str:
    """The report on a subject that gave nothing to judge, as JUnit XML: one case, an error."""
    told = ("error", "subject", failed.error.message, failed.details)
    case = _JunitCase(f"subject: {failed.subject}", failed.seconds, told)
    return _junit_text("subject", [case], {"subject": failed.subject}, failed.details, place)


class _JunitCase(Record):
    """A test case; ``problem`` is the kind of element, its type, its message and its text."""

    name: str
    seconds: float
    problem: tuple[str, str, str, str] | None


def _junit_text(
    scheme: str,
    cases: list[_JunitCase],
    properties: dict[str, str],
    printed: str,
    place: SourcePlace | None,
) -> str:
    from xml.etree import ElementTree as ET

    kinds = [case.problem[0] for case in cases if case.problem is not None]
    counts = {
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": "posenc", **counts})
    suite = ET.SubElement(
        root, "testsuite", {"name": "posenc rope-check", **counts, "skipped": "0"}
    )
    listed = ET.SubElement(suite, "properties")
    for name, value in properties.items():
        ET.SubElement(listed, "property", {"name": name, "value": _xml(value)})
    where = {}
    if place is not None:
        where["file"] = _xml(place.file)
        if place.line is not None:
            where["line"] = str(place.line)
    for case in cases:
        attributes = {
            "classname": _xml(f"posenc.rope-check.{scheme}"),
            "name": _xml(case.name),
            "time": f"{case.seconds:.3f}",
            **where,
        }
        element = ET.SubElement(suite, "testcase", attributes)
        if case.problem is not None:
            kind, code, message, text = case.problem
            problem = ET.SubElement(element, kind, {"message": _xml(message), "type": code})
            problem.text = _xml(text)
    output = ET.SubElement(suite, "system-out")
    output.text = _xml(printed)
    ET.indent(root)
    # In ASCII, which is UTF-8 whatever the stream makes of other characters.
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root).decode("ascii")}'


def _xml(text: str) -> str:
    r"""``text`` without the characters that XML cannot hold.

    >>> _xml("a\x1b[31mb")
    'a[31mb'
    """
    return _NOT_XML.sub("", text)


def github_text(report: Report, place: SourcePlace | None = None) -> str:
    """A report as annotations of GitHub Actions: an error for each failed check.

    ``place`` is the line of the code that they are about.
    """
    lines = [
        _annotation("error", f"rope-check: {finding.check}", _details(report, finding), place)
        for finding in report.findings
        if not finding.ok
    ]
    return "\n".join(lines or [_annotation("notice", "rope-check", verdict(report), place)])


def github_error_text(failed: FailedSubject, place: SourcePlace | None = None) -> str:
    """The annotation of a subject that gave nothing to judge."""
    return _annotation("error", f"rope-check: {failed.subject}", failed.details, place)


def _annotation(level: str, title: str, message: str, place: SourcePlace | None = None) -> str:
    r"""One workflow command, escaped as the runner unescapes it.

    >>> _annotation("error", "a: b, c", "50%\nmore")
    '::error title=a%3A b%2C c::50%25%0Amore'
    """
    values = {"title": title}
    if place is not None:
        line = {} if place.line is None else {"line": str(place.line)}
        values = {"file": place.file, **line, **values}
    properties = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    return f"::{level} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary_markdown(report: Report) -> str:
    """A report as the Markdown of a step's summary."""
    lines = [f"### posenc rope-check: {'ok' if report.ok else 'failed'}", ""]
    lines += [_markdown(verdict(report)), "", scope(report), ""]
    lines += ["| check | result | worst | allowed | where |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(_markdown, row))} |" for row in rows(report)]
    for why in report.diagnosis:
        lines += ["", f"cause: {_markdown(why.text)} ({_markdown(why.evidence)})"]
    return "\n".join(lines) + "\n"


def summary_error_markdown(failed: FailedSubject) -> str:
    """A subject that gave nothing to judge, as the Markdown of a step's summary."""
    text = f"{_markdown(failed.subject)}: {_markdown(failed.details)}"
    return f"### posenc rope-check: error\n\n{text}\n"


def _markdown(text: str) -> str:
    return re.sub(r"([|<>`*_\\])", r"\\\1", " ".join(text.split()))
