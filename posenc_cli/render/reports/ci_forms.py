"""Write any check's report for CI: JUnit XML, GitHub annotations, Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.definition import SourcePlace
    from posenc_cli.errors import PosencError

_UNESCAPED_IN_PROPERTIES = "%\r\n:,"
"""The characters that the runner unescapes in a property."""
_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Case(Record):
    """A test case of a ``group``; ``title`` names it in an annotation.

    A ``problem`` has its kind (``failure`` or ``error``), its code, its message and its text.
    """

    group: str
    name: str
    seconds: float
    title: str
    problem: tuple[str, str, str, str] | None


class CiReport(Record):
    """The report of a ``command``'s check for CI systems, as JUnit XML, annotations or Markdown.

    ``state`` is the word in its heading. ``paragraphs`` are above its table of ``rows``, ``notes``
    below; both are the run's output in JUnit.
    """

    command: str
    state: str
    verdict: str
    cases: tuple[Case, ...]
    properties: Mapping[str, str]
    paragraphs: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

    def junit(self, place: SourcePlace | None = None) -> str:
        """Return the test cases as JUnit XML; ``place`` is the file that they are about."""
        from xml.etree import ElementTree as ET

        kinds = [case.problem[0] for case in self.cases if case.problem is not None]
        counts = {
            "tests": str(len(self.cases)),
            "failures": str(kinds.count("failure")),
            "errors": str(kinds.count("error")),
            "time": f"{sum(case.seconds for case in self.cases):.3f}",
        }
        root = ET.Element("testsuites", {"name": "posenc", **counts})
        named = {"name": f"posenc {self.command}", **counts, "skipped": "0"}
        suite = ET.SubElement(root, "testsuite", named)
        listed = ET.SubElement(suite, "properties")
        for name, value in self.properties.items():
            ET.SubElement(listed, "property", {"name": name, "value": _xml(value)})
        where = {name: _xml(value) for name, value in _place_attributes(place).items()}
        for case in self.cases:
            attributes = {
                "classname": _xml(f"posenc.{self.command}.{case.group}"),
                "name": _xml(case.name),
                "time": f"{case.seconds:.3f}",
                **where,
            }
            element = ET.SubElement(suite, "testcase", attributes)
            if case.problem is not None:
                kind, code, message, text = case.problem
                problem = ET.SubElement(element, kind, {"message": _xml(message), "type": code})
                problem.text = _xml(text)
        ET.SubElement(suite, "system-out").text = _xml("\n".join([*self.paragraphs, *self.notes]))
        ET.indent(root)
        # ASCII is valid UTF-8 even if the stream encodes other characters differently.
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root).decode("ascii")}'

    def github(self, place: SourcePlace | None = None) -> str:
        """Return annotations of GitHub Actions: an error for each problem, or else a notice."""
        lines = [
            annotation("error", f"{self.command}: {case.title}", case.problem[3], place)
            for case in self.cases
            if case.problem is not None
        ]
        return "\n".join(lines or [annotation("notice", self.command, self.verdict, place)])

    def markdown(self) -> str:
        """Return the Markdown of a step's summary."""
        blocks = [f"### posenc {self.command}: {self.state}", *map(markdown_cell, self.paragraphs)]
        if self.rows:
            lines = [self.columns, ["---"] * len(self.columns)]
            lines += [[*map(markdown_cell, row)] for row in self.rows]
            blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join([*blocks, *map(markdown_cell, self.notes)]) + "\n"


def failed_report(command: str, subject: str, error: PosencError, seconds: float) -> CiReport:
    """Return the report on a subject that could not be checked: a single case with an error."""
    details = error.message + (f"\nhint: {error.hint}" if error.hint else "")
    problem = "error", "subject", error.message, details
    return CiReport(
        command,
        "error",
        error.message,
        (Case("subject", f"subject: {subject}", seconds, subject, problem),),
        {"subject": subject},
        paragraphs=[f"{subject}: {details}"],
    )


def _place_attributes(place: SourcePlace | None) -> dict[str, str]:
    if place is None:
        return {}
    line = {} if place.line is None else {"line": str(place.line)}
    return {"file": place.file, **line}


def _xml(text: str) -> str:
    r"""Remove the characters that XML cannot hold.

    >>> _xml("a\x1b[31mb")
    'a[31mb'
    """
    return re.sub(_NOT_XML, "", text)


def annotation(level: str, title: str, message: str, place: SourcePlace | None = None) -> str:
    r"""Return one workflow command, with the characters escaped that the runner unescapes.

    >>> annotation("error", "a: b, c", "50%\nmore")
    '::error title=a%3A b%2C c::50%25%0Amore'
    """
    values = {**_place_attributes(place), "title": title}
    properties = ",".join(
        f"{name}={_escaped(value, _UNESCAPED_IN_PROPERTIES)}" for name, value in values.items()
    )
    return f"::{level} {properties}::{_escaped(message)}"


def _escaped(text: str, characters: str = "%\r\n") -> str:
    return "".join(f"%{ord(c):02X}" if c in characters else c for c in text)


def markdown_cell(text: str) -> str:
    """Escape a text for a Markdown table."""
    return re.sub(r"([|<>`*_\\])", r"\\\1", " ".join(text.split()))
