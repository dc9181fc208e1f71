"""Reports of checks in the forms that machines read: JSON fields, JUnit XML, GitHub annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

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
        "findings": [
            {
                "check": each.check,
                "ok": each.ok,
                "worst": each.worst,
                "tolerance": each.tolerance,
                "at": each.at,
                "message": each.message,
                "worst_is": each.worst_is,
            }
            for each in report.findings
        ],
        "diagnosis": [
            {"cause": each.cause, "message": each.message, "evidence": each.evidence}
            for each in report.diagnosis
        ],
        "notes": list(report.notes),
        "looked_at": {
            "positions": report.count,
            "of": report.count if report.of is None else report.of,
        }
        if report.count
        else None,
    }


def rows(report: Report) -> list[list[str]]:
    """The findings as rows: check, result, worst, allowed, where."""
    return [
        [
            each.check,
            "ok" if each.ok else "FAIL",
            _number(each.worst),
            _number(each.tolerance),
            place(each),
        ]
        for each in report.findings
    ]


def place(finding: Finding) -> str:
    """Where a finding is worst, in words.

    >>> from posenc_cli.checks.codes import FindingName
    >>> from posenc_cli.checks.rope import Finding
    >>> place(Finding(FindingName.NORM, True, 0.0, 1e-6, {"position": 3, "pair": 0}, ""))
    'position 3, pair 0'
    """
    return ", ".join(f"{name} {value}" for name, value in (finding.at or {}).items())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def verdict(report: Report) -> str:
    """The verdict on one line."""
    consistent = next((each.ok for each in report.findings if each.check == "relative"), None)
    result = "ok" if report.ok else "FAILED"
    name = _subject(report)
    if report.ok:
        sample = f", at {_looked_at(report)}" if report.count and report.of is not None else ""
        return f"{result}: {name} against {report.title}{sample}"
    how = "self-consistent, but not the reference" if consistent else "not self-consistent"
    if consistent is None:
        how = "not the reference"
    elif not any(each.check == "reference" for each in report.findings):
        how = "scores do not depend on m − n alone"
    return f"{result}: {name} against {report.title}: {how}"


def _subject(report: Report) -> str:
    kind, name = report.subject["kind"], report.subject["name"]
    return "posenc's own tables" if kind == "posenc" else f"{kind} {name}"


def scope(report: Report) -> str:
    """What was checked, on one line."""
    parts = [_looked_at(report)]
    if report.pairs:
        parts.append(f"{_counted(report.pairs, 'pair')} of columns")
    return ", ".join([*parts, str(report.subject["dtype"])])


def _looked_at(report: Report) -> str:
    """How many positions were looked at, and of how many where they are a sample."""
    if not report.count:
        return "no position" if report.pairs else "any positions, by the form of the scheme"
    if report.of is None:
        return _counted(report.count, "position")
    return f"{report.count} of {_counted(report.of, 'position')}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _described(report: Report, finding: Finding) -> str:
    parts = [finding.message]
    if finding.worst is not None and finding.tolerance is not None:
        parts.append(f"worst {finding.worst:.3g}, tolerance {finding.tolerance:.3g}")
    if finding.at:
        parts.append(f"at {place(finding)}")
    text = "; ".join(part for part in parts if part)
    causes = [f"cause {each.cause}: {each.message} ({each.evidence})" for each in report.diagnosis]
    return "\n".join([text, *causes])


def junit_text(report: Report) -> str:
    """A report as JUnit XML: a test case a check."""
    failures = sum(not each.ok for each in report.findings)
    counts = {
        "tests": str(len(report.findings)),
        "failures": str(failures),
        "errors": "0",
        "time": "0",
    }
    root = ET.Element("testsuites", {"name": "posenc", **counts})
    suite = ET.SubElement(
        root, "testsuite", {"name": "posenc rope-check", **counts, "skipped": "0"}
    )
    for each in report.findings:
        case = ET.SubElement(
            suite,
            "testcase",
            {
                "classname": _xml(f"posenc.rope-check.{report.reference['scheme']}"),
                "name": _xml(f"{each.check}: {_subject(report)}"),
                "time": "0",
            },
        )
        if not each.ok:
            failure = ET.SubElement(
                case, "failure", {"message": _xml(each.message), "type": each.check}
            )
            failure.text = _xml(_described(report, each))
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
    lines = []
    for each in report.findings:
        if not each.ok:
            title = f"rope-check: {each.check}"
            lines.append(_annotation("error", title, _described(report, each)))
    if not lines:
        lines.append(_annotation("notice", "rope-check", verdict(report)))
    return "\n".join(lines)


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
    for each in report.diagnosis:
        lines += ["", f"**{each.cause}**: {_markdown(each.message)} ({_markdown(each.evidence)})"]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([|<>`*_\\])", r"\\\1", " ".join(text.split()))
