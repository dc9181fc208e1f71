"""Reports for machines: JUnit XML, GitHub annotations and step summaries."""

import re
from xml.etree import ElementTree as ET

import pytest

from posenc_cli.checks.definition import SourcePlace
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.codes import Cause, FindingName, SubjectKind
from posenc_cli.records import replace
from posenc_cli.render.reports import report as rendering
from posenc_cli.render.reports.ci_forms import failed_report
from posenc_cli.render.reports.report import report_text
from posenc_cli.render.typesetting import Typesetter
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import Explanation, Report

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
SUBJECT = {"kind": SubjectKind.TABLES, "name": "'a,b.npy'", "dtype": "float32"}
REPORT = Report(
    subject={**SUBJECT, "layout": "half", "out_layout": "half"},
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
FAILED = failed_report("rope-check", "impl 'a:f'", InvalidInput("raised 50%", hint="do"), 0.25)
PASSED = replace(REPORT, findings=FINDINGS[:1], diagnosis=())

SUITE_ATTRIBUTES = {"name", "tests", "failures", "errors", "skipped", "time"}
CASE_ATTRIBUTES = {"name", "classname", "time"}
PLACE = SourcePlace("src/a,b:c%.py", 7)
SECONDS = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
"""A time, by the schema of Jenkins' xunit plugin (junit-10.xsd)."""


def schema_faults(text):
    """What of a report Jenkins' schema does not have, but for what GitLab reads of a case."""
    faults = []
    root = ET.fromstring(text)
    allowed = {
        "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
        "testsuite": (
            {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "file"},
            {"properties", "testcase", "system-out", "system-err"},
        ),
        "properties": (set(), {"property"}),
        "property": ({"name", "value"}, set()),
        "testcase": (
            CASE_ATTRIBUTES | {"file", "line"},
            {"error", "failure", "skipped", "system-out", "system-err"},
        ),
        "failure": ({"type", "message"}, set()),
        "error": ({"type", "message"}, set()),
        "system-out": (set(), set()),
    }
    for element in root.iter():
        attributes, children = allowed[element.tag]
        faults += [(element.tag, name) for name in set(element.attrib) - attributes]
        faults += [(element.tag, child.tag) for child in element if child.tag not in children]
        if not SECONDS.fullmatch(element.get("time", "0")):
            faults.append((element.tag, element.get("time")))
    for suite in root:
        cases = suite.findall("testcase")
        for plural, singular in (("failures", "failure"), ("errors", "error")):
            count = str(len(suite.findall(f"testcase/{singular}")))
            if not suite.get(plural) == root.get(plural) == count:
                faults.append((plural, count))
        if not suite.get("tests") == root.get("tests") == str(len(cases)):
            faults.append(("tests", len(cases)))
    return faults


@pytest.mark.parametrize("place", [None, PLACE, SourcePlace("cos.npy")])
@pytest.mark.parametrize(("report", "failures"), [(REPORT, 1), (PASSED, 0)])
def test_junit_is_xml_by_the_common_schema(report, failures, place):
    text = rendering.ci_report(report).junit(place)
    assert not schema_faults(text)
    (suite,) = ET.fromstring(text)
    assert set(suite.attrib) == SUITE_ATTRIBUTES
    assert int(suite.get("failures")) == failures
    cases = suite.findall("testcase")
    assert len(cases) == len(report.findings)
    for case in cases:
        assert case.get("file") == (None if place is None else place.file)
        assert case.get("line") == (None if place is None or place.line is None else "7")
    tags = [element.tag for element in suite]
    assert tags == ["properties"] + ["testcase"] * len(cases) + ["system-out"]


def test_junit_gives_each_finding_its_share_of_the_measured_time():
    root = ET.fromstring(rendering.ci_report(replace(REPORT, seconds=3.0)).junit())
    assert [case.get("time") for case in root.iter("testcase")] == ["1.500", "1.500"]
    assert [element.get("time") for element in (root, *root)] == ["3.000", "3.000"]


def test_junit_says_what_was_held_against_what():
    root = ET.fromstring(rendering.ci_report(replace(REPORT, tolerance="exact: by a rule")).junit())
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties == {
        "subject": "tables 'a,b.npy'",
        "reference": "rope dim=8",
        "positions": "0:8",
        "looked at": "8 positions",
        "tolerance": "exact: by a rule",
    }


def test_a_subject_that_gave_nothing_is_an_error_of_junit_and_an_annotation():
    text = FAILED.junit(PLACE)
    assert not schema_faults(text)
    root = ET.fromstring(text)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
    (case,) = root.iter("testcase")
    assert (case.get("file"), case.get("line"), case.get("time")) == (PLACE.file, "7", "0.250")
    error = case.find("error")
    assert error.get("message") == "raised 50%"
    assert error.text == "raised 50%\nhint: do"
    assert FAILED.github(PLACE) == (
        "::error file=src/a%2Cb%3Ac%25.py,line=7,title=rope-check%3A impl 'a%3Af'"
        "::raised 50%25%0Ahint: do"
    )
    assert "impl 'a:f': raised 50% hint: do" in FAILED.markdown()


def test_what_passes_says_how_far_it_is_from_exact():
    place = {"position": 5, "pair": 1}
    finding = Finding(FindingName.REFERENCE, True, 1.25e-7, 1e-6, place, "")
    told = rendering.largest_error(replace(PASSED, findings=(finding,)))
    assert told == "maximum absolute error 1.2e-07 at position 5, pair 1"
    assert rendering.largest_error(REPORT) is None


def test_junit_says_what_failed_and_why_without_characters_xml_lacks():
    text = rendering.ci_report(REPORT).junit()
    assert not set(text) & {"\x00", "\x07", "\x1b"}
    failure = ET.fromstring(text).find(".//failure")
    assert failure.get("type") == "reference"
    assert "worst 1.5, tolerance 1e-06; at position 7, pair 2" in failure.text
    assert "cause base: the base is 1, not 2" in failure.text


def test_github_gets_one_escaped_line_a_failed_check_at_the_line_of_the_code():
    (line,) = rendering.ci_report(REPORT).github().splitlines()
    assert line.startswith("::error title=rope-check%3A reference::differs: 50%25%0A<&>")
    assert "%0Acause base: the base is 1, not 2" in line
    (line,) = rendering.ci_report(REPORT).github(PLACE).splitlines()
    place = "file=src/a%2Cb%3Ac%25.py,line=7"
    assert line.startswith(f"::error {place},title=rope-check%3A reference::differs")
    for at, said in ((None, ""), (SourcePlace("a.py"), "file=a.py,")):
        (line,) = rendering.ci_report(PASSED).github(at).splitlines()
        assert line.startswith(f"::notice {said}title=rope-check::ok: tables")


def test_the_summary_is_a_table_that_no_value_breaks():
    text = rendering.ci_report(REPORT).markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(FINDINGS)
    assert {line.replace("\\|", "").count("|") for line in table} == {6}
    assert "see \\| pair" in text


def test_the_verdict_keeps_consistent_and_right_apart():
    consistent = "FAILED: tables 'a,b.npy' do not match rope dim=8, although q·k depends only on"
    assert rendering.verdict(REPORT).startswith(consistent)
    broken = replace(REPORT, findings=(replace(FINDINGS[0], ok=False), FINDINGS[1]))
    assert rendering.verdict(broken).endswith(", and q·k does not depend on m − n alone")
    assert rendering.verdict(replace(broken, findings=broken.findings[:1])).endswith(
        ": q·k does not depend on m − n alone"
    )
    assert rendering.verdict(PASSED) == "ok: tables 'a,b.npy' match rope dim=8"


def test_a_report_begins_with_verdict_cause_and_next_step():
    verdict, cause, step, blank = report_text(REPORT, Typesetter(200)).splitlines()[:4]
    assert verdict == rendering.verdict(REPORT)
    assert cause == "cause: base: the base is 1, not 2"
    assert step == "next: use the base (rope_theta) of the reference"
    assert blank == ""
    fields = rendering.fields(REPORT)
    assert list(fields)[:4] == ["ok", "verdict", "cause", "next"]
    told = [verdict, cause.removeprefix("cause: "), step.removeprefix("next: ")]
    assert [fields["verdict"], fields["cause"], fields["next"]] == told
    passed = {"ok": True, "verdict": rendering.verdict(PASSED), "cause": None, "next": None}
    assert rendering.answer(PASSED).fields() == passed


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_a_next_step_and_the_unknown_names_the_place(cause):
    unknown = cause == Cause.UNKNOWN
    report = replace(REPORT, diagnosis=(Explanation(cause, "", ""),))
    step = rendering.answer(report).next
    assert step.startswith("look at position 7, pair 2") == unknown
    half = replace(report, accepted_by="float16")
    assert rendering.answer(half).next == "use --tol float16 to accept that rounding"


def test_how_a_function_was_called_is_counted_and_listed_when_verbose():
    call = {"untried": ["several heads"], "patterns": ["chunks", "single rows"]}
    calls = ("called as f(x)", "further calls: chunks", "not tried: heads")
    notes = ("also wrong: one", *calls)
    report = replace(REPORT, subject={**REPORT.subject, "call": call}, notes=notes)
    brief, whole = (report_text(report, Typesetter(200), verbose=each) for each in (False, True))
    assert "note: also wrong: one" in brief
    assert "note: tried 3 call forms; 1 not tried (--verbose lists them)" in brief
    every = replace(
        REPORT, subject={**REPORT.subject, "call": {**call, "untried": []}}, notes=notes
    )
    assert "note: tried all 3 call forms (--verbose" in report_text(every, Typesetter(200))
    assert not [note for note in notes[1:] if note in brief]
    assert not [note for note in notes if f"note: {note}" not in whole]


def test_fields_are_what_json_promises():
    fields = rendering.fields(REPORT)
    promised = ["ok", "verdict", "cause", "next", "subject", "reference", "positions", "pairs"]
    promised += ["findings", "diagnosis"]
    assert list(fields)[: len(promised)] == promised
    for each in fields["findings"]:
        keys = ["check", "ok", "worst", "tolerance", "at", "message", "worst_is"]
        assert list(each) == keys
    for each in fields["diagnosis"]:
        keys = ["cause", "message", "evidence", "detail", "where", "residual", "alike"]
        assert list(each) == keys


def test_verdicts_and_the_cause_stand_out_in_colour_and_nothing_else_changes():
    plain = report_text(REPORT, Typesetter())
    colored = report_text(REPORT, Typesetter(colored=True))
    for words in ("\x1b[1;31mFAILED\x1b[0m", "\x1b[1;31mFAIL\x1b[0m", "\x1b[32mok\x1b[0m"):
        assert words in colored
    assert "\n\x1b[1mcause: base\x1b[0m: the base" in colored
    assert "\x1b" not in plain.replace("\x1b[0m", "", 1)  # of the message
    uncolored = re.sub(r"\x1b\[[\d;]*m", "", colored)
    assert uncolored.split() == plain.replace("\x1b[0m", "").split()
