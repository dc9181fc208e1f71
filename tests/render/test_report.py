"""Reports for machines: JUnit XML, GitHub annotations and step summaries."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from posenc_cli.checks.codes import FindingName, SubjectKind
from posenc_cli.checks.rope import Finding
from posenc_cli.checks.verdict import Explanation, Report
from posenc_cli.inference.causes import Cause
from posenc_cli.records import replace
from posenc_cli.render import report as rendering

FINDINGS = (
    Finding(FindingName.RELATIVE, True, 1e-7, 2e-6, {"m": 3, "n": 5, "pair": 0}, "holds"),
    Finding(
        FindingName.REFERENCE,
        False,
        1.5,
        1e-6,
        {"position": 7, "pair": 2},
        "differs: 50%\n<&> \x1b[0m",
    ),
)
REPORT = Report(
    subject={"kind": SubjectKind.TABLES, "name": "'a,b.npy'", "dtype": "float32", "layout": "half"},
    reference={"scheme": "rope", "params": {}},
    positions="0:8",
    count=8,
    pairs=4,
    findings=FINDINGS,
    diagnosis=(Explanation(Cause.BASE, "the base is 1, not 2", "see | pair\x00 3"),),
    notes=("note \x07",),
    tolerance="",
    title="rope dim=8",
)
PASSED = replace(REPORT, findings=FINDINGS[:1], diagnosis=())

SUITE_ATTRIBUTES = {"name", "tests", "failures", "errors", "skipped", "time"}
CASE_ATTRIBUTES = {"name", "classname", "time"}


@pytest.mark.parametrize(("report", "failures"), [(REPORT, 1), (PASSED, 0)])
def test_junit_is_xml_by_the_common_schema(report, failures):
    root = ET.fromstring(rendering.junit_text(report))
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert set(suite.attrib) == SUITE_ATTRIBUTES
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == len(report.findings)
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == failures
    assert root.get("failures") == suite.get("failures")
    for case in cases:
        assert set(case.attrib) == CASE_ATTRIBUTES
    # The schema has cases first, then what was printed.
    assert [each.tag for each in suite] == ["testcase"] * len(cases) + ["system-out"]


def test_junit_says_what_failed_and_why_without_characters_xml_lacks():
    text = rendering.junit_text(REPORT)
    assert not set(text) & {"\x00", "\x07", "\x1b"}
    failure = ET.fromstring(text).find(".//failure")
    assert failure.get("type") == "reference"
    assert "worst 1.5, tolerance 1e-06; at position 7, pair 2" in failure.text
    assert "cause base: the base is 1, not 2" in failure.text


def test_github_gets_one_escaped_line_a_failed_check():
    (line,) = rendering.github_text(REPORT).splitlines()
    assert line.startswith("::error title=rope-check%3A reference::differs: 50%25%0A<&>")
    assert "%0Acause base: the base is 1, not 2" in line
    (line,) = rendering.github_text(PASSED).splitlines()
    assert line.startswith("::notice title=rope-check::ok: tables")


def test_the_summary_is_a_table_that_no_value_breaks():
    text = rendering.summary_markdown(REPORT)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(FINDINGS)
    assert {line.replace("\\|", "").count("|") for line in table} == {6}
    assert "see \\| pair" in text


def test_the_verdict_keeps_consistent_and_right_apart():
    assert "self-consistent, but not the reference" in rendering.verdict(REPORT)
    broken = replace(REPORT, findings=(replace(FINDINGS[0], ok=False), FINDINGS[1]))
    assert rendering.verdict(broken).endswith(": not self-consistent")
    assert rendering.verdict(PASSED).startswith("ok: ")


def test_fields_are_what_json_promises():
    fields = rendering.fields(REPORT)
    promised = ["ok", "subject", "reference", "positions", "pairs", "findings", "diagnosis"]
    assert list(fields)[: len(promised)] == promised
    for each in fields["findings"]:
        keys = ["check", "ok", "worst", "tolerance", "at", "message", "worst_is"]
        assert list(each) == keys
    for each in fields["diagnosis"]:
        assert list(each) == ["cause", "message", "evidence"]
