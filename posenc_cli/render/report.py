"""Reports of checks in the forms that machines read: JSON fields, JUnit XML, GitHub annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.checks.codes import FindingName, SubjectKind

if TYPE_CHECKING:
    from posenc_cli.checks.rope import Finding
    from posenc_cli.checks.verdict import Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def fields(report: Report) -> dict[str, Any]:
    """A report as JSON fields, finite numbers only."""
    return {
        "ok": report.ok,
        "subject": report.subject,
        "reference": report.reference,
        "positions": report.positions,
        "pairs": report.pairs,
        "findings": [finding.as_dict() for finding in report.findings],
        "diagnosis": [explanation.as_dict() for explanation in report.diagnosis],
        "notes": list(report.notes),
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
    causes = [f"cause {why.cause}: {why.message} ({why.evidence})" for why in report.diagnosis]
    return "\n".join([text, *causes])


def junit_text(report: Report) -> str:
    """A report as JUnit XML: a test case a check."""
    from xml.etree import ElementTree as ET

    failures = str(sum(not finding.ok for finding in report.findings))
    counts = {"tests": str(len(report.findings)), "failures": failures, "errors": "0", "time": "0"}
    root = ET.Element("testsuites", {"name": "posenc", **counts})
    suite = ET.SubElement(
        root, "testsuite", {"name": "posenc rope-check", **counts, "skipped": "0"}
    )
    name = _xml(f"posenc.rope-check.{report.reference['scheme']}")
    for finding in report.findings:
        case_name = _xml(f"{finding.check}: {_subject(report)}")
        case = ET.SubElement(suite, "testcase", {"classname": name, "name": case_name, "time": "0"})
        if not finding.ok:
            failure = ET.SubElement(
                case, "failure", {"message": _xml(finding.message), "type": finding.check}
            )
            failure.text = _xml(_details(report, finding))
    output = ET.SubElement(suite, "system-out")
    output.text = _xml("\n".join([verdict(report), scope(report), *report.notes]))
    ET.indent(root)
    # In ASCII, which is UTF-8 whatever the stream makes of other characters.
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root).decode("ascii")}'


def _xml(text: str) -> str:
    """``text`` without the characters that XML cannot hold.

    >>> _xml("a\\x1b[31mb")
    'a[31mb'
    """
    return _NOT_XML.sub("", text)


def github_text(report: Report) -> str:
    """A report as annotations of GitHub Actions: an error for each failed check."""
    lines = [
        _annotation("error", f"rope-check: {finding.check}", _details(report, finding))
        for finding in report.findings
        if not finding.ok
    ]
    return "\n".join(lines or [_annotation("notice", "rope-check", verdict(report))])


def _annotation(level: str, title: str, message: str) -> str:
    r"""One workflow command, escaped as the runner unescapes it.

    >>> _annotation("error", "a: b, c", "50%\nmore")
    '::error title=a%3A b%2C c::50%25%0Amore'
    """
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = name.replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{data}"


def summary_markdown(report: Report) -> str:
    """A report as the Markdown of a step's summary."""
    lines = [f"### posenc rope-check: {'ok' if report.ok else 'failed'}", ""]
    lines += [_markdown(verdict(report)), "", scope(report), ""]
    lines += ["| check | result | worst | allowed | where |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(_markdown, row))} |" for row in rows(report)]
    for why in report.diagnosis:
        lines += ["", f"**{why.cause}**: {_markdown(why.message)} ({_markdown(why.evidence)})"]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([|<>`*_\\])", r"\\\1", " ".join(text.split()))
