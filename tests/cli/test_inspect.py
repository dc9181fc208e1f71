"""``posenc inspect``: what it says, what it requires, and how it ends."""

import json
import math
import re
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from posenc_cli.analysis.inspection import PROPERTIES

CHECK = ("inspect", "-s", "sinusoidal", "-d", "8", "-l", "60")


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "table.npy", np.random.default_rng(0).standard_normal((50, 6)))
    return "table.npy"


def test_one_encoding_fits_a_screen_and_says_how_each_verdict_is_known(call, printed):
    out = printed("inspect", "-s", "rope", err="")
    lines = out.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    verdict = "rope: 9 of 10 properties hold, 6 of them proved; not linear-shift-held-out"
    assert lines[0] == verdict
    told = r"^unique +yes, proved +1\.47 +smallest row distance"
    assert re.search(f"{told}$", out, re.MULTILINE)
    assert re.search(rf"{told} +0, 1$", call("inspect", "-s", "rope", "-v")[1], re.MULTILINE)
    assert re.search(r"^linear-shift-held-out +no, measured +1\.39 ", out, re.MULTILINE)
    words = " ".join(out.split())
    # What is left is rounding, which other versions of NumPy do otherwise.
    assert re.search(r"fitted on positions 0 … 99, has an error of [\d.]+e-1[45] there", words)
    assert "and 1.4 beyond; the exact rotation has an error of 2.2e-16 on all rows" in words
    assert "independent q and k: mean 0, deviation 0.125 at 0 and 0.125 at 511" in words


@pytest.mark.long
def test_several_stand_side_by_side_in_as_many_tables_as_they_need(call, printed):
    line = ("inspect", *(word for name in ("rope", "alibi", "learned") for word in ("-s", name)))
    out = printed(*line)
    assert len(out.splitlines()) <= 24
    assert max(map(len, out.splitlines())) <= 80
    assert out.partition("\n\n")[2].splitlines()[0].split() == ["rope", "alibi", "learned"]
    assert "unique: smallest row distance" in call(*line, "--verbose")[1]
    for name in PROPERTIES:
        assert re.search(rf"^{name} +\S", out, re.MULTILINE)
    assert "learned: random weights, seed 0" in out
    six = call(*line, "-s", "t5", "-s", "xpos", "-s", "sinusoidal")[1]
    assert max(map(len, six.splitlines())) <= 80
    assert len(re.findall("^bounded ", six, re.MULTILINE)) == 2


def test_a_hybrid_is_looked_at_part_by_part_and_twins_have_names_of_their_own(call):
    parts = json.loads(call("inspect", "-s", "sinusoidal+t5", "-l", "16", "--json")[1])["schemes"]
    assert [part["scheme"] for part in parts] == ["sinusoidal", "t5"]
    assert [part["weights"] for part in parts] == [None, "random weights, seed 0"]
    twins = ("inspect", "-s", "rope", "-s", "rope", "--set", "b.base=500000", "-l", "16", "--json")
    schemes = json.loads(call(*twins)[1])["schemes"]
    assert [scheme["scheme"] for scheme in schemes] == ["rope (1)", "rope (2)"]
    assert [scheme["params"]["base"] for scheme in schemes] == [10_000.0, 500_000.0]


def test_json_has_the_promised_fields(document):
    found = document(*CHECK, "--require", "unique,norm<=1e-9")
    keys = ["schema", "ok", "verdict", "cause", "next", "schemes", "requirements"]
    assert list(found) == keys
    (scheme,) = found["schemes"]
    assert [each["name"] for each in scheme["properties"]] == [*PROPERTIES]
    unique = scheme["properties"][0]
    assert {"name", "holds", "value", "at", "evidence"} < {*unique}
    assert (unique["holds"], unique["at"], unique["evidence"]) == (True, [0, 6], "proved")
    assert [each["ok"] for each in found["requirements"]] == [True, True]


@pytest.mark.long
@pytest.mark.parametrize(
    ("require", "status"),
    [
        ("unique", 0),
        ("unique,bounded<=1,norm<=1e-12,relative", 0),
        ("linear-shift,linear-shift<=1e-12", 0),
        ("linear-shift<=1e-30", 1),
        ("unique>=0.5", 0),
        ("unique>=5", 1),
        ("defined-beyond,defined-beyond>=1e9", 0),
        ("distinct-float16>=60,distinct-bfloat16", 0),
        ("decay<=2", 1),
    ],
)
def test_what_is_required_holds_or_the_status_is_one(call, require, status):
    ended, out, err = call(*CHECK, "--require", require)
    assert (ended, err) == (status, "")
    assert ("FAILED: sinusoidal: " in out) == (status == 1)
    assert ("ok: " in out) == (status == 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "require", "said"),
    [
        ("alibi", "norm", "does not apply: a bias has scores"),
        ("alibi", "norm<=1", "does not apply: a bias has scores"),
        ("alibi", "bounded<=1e9", "does not hold: its formula grows without end"),
        ("xpos", "bounded", "holds only in a sample"),
        ("xpos", "bounded<=9", "was measured only in a sample"),
        ("nope", "unique", "smallest row distance 0 at 0, 1, proved"),
        ("learned", "defined-beyond>=9999", "number of positions 512"),
    ],
)
def test_what_does_not_apply_or_was_sampled_does_not_pass(scheme, require, said, printed):
    out = printed("inspect", "-s", scheme, "-l", "40", "--require", require, status=1)
    assert said in " ".join(out.split())


@pytest.mark.parametrize(
    ("require", "said"),
    [
        ("uniqe", "there is no 'uniqe'; the names are unique, bounded, norm, linear-shift"),
        ("", "must be the name of a property, NAME<=X or NAME>=X; the names are unique"),
        ("norm<1", "must be the name of a property"),
        ("norm<=x", "'x' must be a number"),
        ("norm<=nan", "'nan' must be a number"),
    ],
)
def test_a_requirement_that_is_none_is_refused_in_a_line(require, said, refused):
    err = refused(*CHECK, "--require", require)
    assert err.startswith("posenc: error: --require ")
    assert said in err


def test_a_file_is_measured_alone_and_beside_encodings(call, table, printed):
    status, out, _ = call("inspect", "--in", table, "--json")
    (scheme,) = json.loads(out)["schemes"]
    assert (status, scheme["scheme"]) == (0, "'table.npy'")
    assert {found["evidence"] for found in scheme["properties"]} == {"measured"}
    assert call("inspect", "--in", table, "--require", "unique,bounded")[0] == 0
    rows = call("inspect", "--in", table)[1].splitlines()[2]
    assert rows.endswith(": rows 0 … 49: 50 × 6 columns")  # named once
    out = printed("inspect", "--in", table, "-s", "rope", "-l", "20")
    assert out.partition("\n\n")[2].split()[:2] == ["'table.npy'", "rope"]


@pytest.mark.parametrize("name", ["cube.npy", "text.npy", "none.npy"])
def test_a_file_that_is_no_matrix_is_refused(tmp_path, name, refused):
    np.save(tmp_path / "cube.npy", np.ones((2, 3, 4)))
    (tmp_path / "text.npy").write_text("no array")
    refused("inspect", "--in", name, status=3 if name == "none.npy" else 2)


def test_junit_has_a_case_for_each_encoding_and_requirement(call, tmp_path):
    line = ("inspect", "-s", "rope", "-s", "alibi", "-l", "30", "--require", "unique,norm<=1e-9")
    status, out, err = call(*line, "--out", "report.xml")
    assert (status, out) == (1, "")
    assert "FAILED: alibi: norm<=1e-9: does not apply" in err
    root = ET.fromstring((tmp_path / "report.xml").read_text())
    assert (root.get("tests"), root.get("failures")) == ("4", "1")
    cases = [*root.iter("testcase")]
    classes = {"posenc.inspect.rope", "posenc.inspect.alibi"}
    assert {case.get("classname") for case in cases} == classes
    (failed,) = [case for case in cases if case.find("failure") is not None]
    assert failed.get("name") == "norm<=1e-9"
    assert root.find("testsuite").get("name") == "posenc inspect"


def test_github_gets_annotations_and_a_summary(call, tmp_path, monkeypatch, printed):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    out = printed(*CHECK, "--require", "unique,unique>=5", "--format", "github", status=1)
    assert out.startswith(
        "::error title=inspect%3A unique>=5::sinusoidal: smallest row distance 0.6577 at 0, 6"
    )
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### posenc inspect: failed\n")
    assert "| sinusoidal | unique | ok | smallest row distance" in summary
    assert call(*CHECK, "--require", "unique", "--format", "github")[1].startswith("::notice ")


@pytest.mark.parametrize("form", ["junit", "github"])
def test_a_report_for_ci_needs_requirements(form, refused):
    assert "needs --require, whose results it reports" in refused(*CHECK, "--format", form)


def test_a_check_that_passes_is_quiet_where_that_is_asked(call):
    assert call(*CHECK, "--require", "unique", "-q") == (0, "", "")
    assert "FAILED" in call(*CHECK, "--require", "unique>=5", "-q")[1]
    assert "unique" in call(*CHECK, "-q")[1]


@pytest.mark.parametrize(
    "line",
    [
        ("inspect",),
        ("inspect", "-l", "4"),
        ("inspect", "-s", "rope", "--fit", "0"),
        ("inspect", "-s", "none"),
        ("inspect", "-s", "learned", "-l", "600"),
        ("inspect", "-s", "rope-longrope"),
        ("inspect", "-s", "rope", "--positions", "0:4:0.5"),
    ],
)
def test_what_cannot_be_inspected_is_refused_in_a_line(line, refused):
    refused(*line)


OWN = """
from posenc_cli.formulas.declare import Rows, Bias, absolute, bias


@absolute(source="mine", formula="p mod 5")
def cycle(*, dim: int = 3) -> Rows:
    \"\"\"Positions modulo five.\"\"\"
    def rows(xp, positions, _table):
        return xp.broadcast_to((positions % 5)[:, None] * 1.0, (positions.shape[0], dim))
    return Rows(dim, rows)


@absolute(source="mine", formula="p, of few")
def few(*, dim: int = 2) -> Rows:
    \"\"\"Positions, none of which is far.\"\"\"
    def rows(xp, positions, _table):
        if positions.max() > 1000:
            raise ValueError("too far")
        return xp.broadcast_to(positions[:, None] * 1.0, (positions.shape[0], dim))
    return Rows(dim, rows)


@bias(source="mine", formula="−ln(1 + |j − i|)")
def log(*, heads: int = 2) -> Bias:
    \"\"\"A logarithm.\"\"\"
    return Bias(
        heads,
        by="offset",
        coefficients=lambda xp: xp.arange(1, heads + 1),
        scores=lambda xp, slope, offsets: 0 - slope * xp.log(1 + xp.abs(offsets)),
    )
"""


def test_schemes_of_ones_own_are_measured(call, tmp_path, monkeypatch, document):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "likeness.py").write_text(OWN)
    names = ("cycle", "few", "log")
    line = ("inspect", *(word for name in names for word in ("-s", f"./likeness.py:{name}")))
    cycle, few, log = (
        {found["name"]: found for found in scheme["properties"]}
        for scheme in document(*line, "-l", "40")["schemes"]
    )
    assert (cycle["unique"]["holds"], cycle["unique"]["at"]) == (False, [0, 5])
    assert (cycle["bounded"]["holds"], cycle["bounded"]["sample"]) == (True, "verdict")
    assert (few["bounded"]["holds"], few["bounded"]["sample"]) == (True, "verdict")
    assert (log["bounded"]["sample"], log["relative"]["evidence"]) == ("verdict", "proved")
    assert log["decay"]["value"] == 2
    hybrid = call("inspect", "-s", "./likeness.py:cycle+rope", "-l", "9", "--require", "bounded")
    assert hybrid[0] == 1


def test_a_score_that_comes_back_is_said_to_be_negative_first_and_not_from_there_on(call):
    assert math.cos(2) < 0 < math.cos(5)
    said = " ".join(call("inspect", "-s", "rope", "--dim", "2", "--len", "7")[1].split())
    assert said.endswith("; first negative at 2")
