"""The forms that CI systems read, of any check: JUnit XML, GitHub annotations, Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.definition import SourcePlace

_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class JunitCase(Record):
    """A test case of a ``group``; a ``problem`` is an element, its type, its message, its text."""

    group: str
    name: str
    seconds: float
    problem: tuple[str, str, str, str] | None


def junit_document(
    command: str,
    cases: Sequence[JunitCase],
    properties: Mapping[str, str],
    printed: str,
    place: SourcePlace | None = None,
) -> str:
    """The test cases of a command as JUnit XML; ``place`` is the file that they are about."""
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
        root, "testsuite", {"name": f"posenc {command}", **counts, "skipped": "0"}
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
            "classname": _xml(f"posenc.{command}.{case.group}"),
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
    return re.sub(_NOT_XML, "", text)


def annotation(level: str, title: str, message: str, place: SourcePlace | None = None) -> str:
    r"""One workflow command, escaped as the runner unescapes it.

    >>> annotation("error", "a: b, c", "50%\nmore")
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


def markdown_cell(text: str) -> str:
    """A text in a table of Markdown."""
    return re.sub(r"([|<>`*_\\])", r"\\\1", " ".join(text.split()))
