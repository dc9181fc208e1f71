"""``posenc rope-check`` as users and their scripts run it."""

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from safetensors.numpy import save_file

import posenc_cli as posenc
from posenc_cli.checks.checking import CONTEXT, probing_positions
from posenc_cli.records import replace
from tests.checks.rope import MUTANTS, vectors
from tests.diagnosis.textbook import CASES, ladder
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import ran_code

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

RIGHT = CASES["plain"].right
WRONG = replace(RIGHT, inv_freq=ladder(64, 5e5))
CHECK = ("rope-check", "--scheme", "rope", "--layout", "half")
CHECKS = ["relative", "norm", "identity", "reference"]


@pytest.fixture
def files(tmp_path):
    """Files of a right and of a wrong implementation, 512 positions."""
    where = np.arange(512)
    x = vectors(512, 64)
    for name, code in (("", RIGHT), ("wrong-", WRONG)):
        cos, sin = code.tables(where)
        np.save(tmp_path / f"{name}cos.npy", cos)
        np.save(tmp_path / f"{name}sin.npy", sin)
        np.save(tmp_path / f"{name}y.npy", code(x, where))
        np.save(tmp_path / f"{name}inv.npy", np.asarray(code.inv_freq, np.float32))
    np.save(tmp_path / "x.npy", x)
    return tmp_path


SUBJECTS = {
    "tables": ("--tables", "{}cos.npy", "{}sin.npy"),
    "rotated": ("--rotated", "x.npy", "{}y.npy"),
    "inv-freq": ("--inv-freq", "{}inv.npy"),
}


def subject(kind, prefix=""):
    return tuple(part.format(prefix) for part in SUBJECTS[kind])


def test_a_report_claims_nothing_of_a_subject_that_is_far_too_wide(call, tmp_path, printed):
    path = tmp_path / "wide.npy"
    np.save(path, np.random.default_rng(0).normal(size=200_000).astype(np.float32))
    out = printed("rope-check", "-s", "rope", "--inv-freq", str(path), err="", status=1)
    words = " ".join(out.split())
    assert "no position, 200000 frequency pairs" in words
    assert "m − n" not in words
    assert "200000 pairs against 32: the widths differ too much to compare" in words
    document = json.loads(call("rope-check", "-s", "rope", "--inv-freq", str(path), "--json")[1])
    assert document["looked_at"] is None
    assert [each["check"] for each in document["findings"]] == ["reference"]
    assert document["diagnosis"][0]["cause"] == "rotary-dim"


@pytest.mark.long
@pytest.mark.parametrize("kind", SUBJECTS)
def test_files_are_judged_and_json_has_the_promised_keys(kind, files, call, printed, report):
    assert printed(*CHECK, *subject(kind), err="").startswith("ok: ")
    out = printed(*CHECK, *subject(kind, "wrong-"), err="", status=1)
    assert out.startswith("FAILED: ")
    assert "cause: base: the base is 500000, not 10000" in out
    document = report(*CHECK, *subject(kind, "wrong-"))[1]
    keys = ["schema", "ok", "verdict", "cause", "next", "subject", "reference", "positions"]
    assert list(document)[:11] == [*keys, "pairs", "findings", "diagnosis"]
    assert document["subject"]["kind"] == kind
    assert document["pairs"] == 32
    assert [each["check"] for each in document["findings"]] == CHECKS
    assert document["diagnosis"][0]["cause"] == "base"
    assert call(*CHECK, *subject(kind), "--format", "json")[0] == 0


def test_files_of_every_format_are_read(files, printed):
    cos, sin = (np.load(files / f"{name}.npy") for name in ("cos", "sin"))
    for name, table in (("cos", cos), ("sin", sin)):
        np.savetxt(files / f"{name}.csv", table, delimiter=",")
        save_file({"encoding": table.astype(ml_dtypes.bfloat16)}, files / f"{name}.safetensors")
    np.savez(files / "both.npz", cos=cos, sin=sin)
    np.save(files / "c1.npy", cos[None])
    np.save(files / "s1.npy", sin[None])
    for pair in (
        ("cos.csv", "sin.csv"),
        ("cos.safetensors", "sin.safetensors"),
        ("both.npz:cos", "both.npz:sin"),
        ("c1.npy", "s1.npy"),
    ):
        printed(*CHECK, "--tables", *pair, err="")


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "arguments",
    [
        *(f"-s {scheme}" for scheme in ("rope", "rope-linear", "rope-ntk", "rope-dynamic")),
        *("-s rope-yarn", "-s rope-llama3", "-s rope-dynamic --strict", "-s rope-yarn --len 300"),
        "-s xpos",
        "-s xpos --set side=key",
        "-s rope-axial --set grid=5x7",
        "-s mrope",
        "-s rope-proportional --set partial=0.5",
        "-s rope --set partial=0.25",
        "-s rope --positions 0:9007199254740992:1000000000000",
    ],
)
def test_posencs_own_schemes_are_right_by_themselves(arguments, printed):
    printed("rope-check", *arguments.split(), err="")


def test_a_scheme_that_depends_on_the_length_is_checked_where_it_switches(call):
    document = json.loads(call("rope-check", "-s", "rope-dynamic", "--json")[1])
    assert "2047, 2048, 2049" in document["notes"][0]
    _, out, _ = call("rope-check", "-s", "rope-dynamic", "--set", "seq_len=9000", "--json")
    assert not json.loads(out)["notes"]


@pytest.mark.slow
def test_a_function_that_switches_one_position_late_is_found(call, tmp_path, printed):
    (tmp_path / "mine.py").write_text(
        f"import sys; sys.path.insert(0, {str(MUTANTS.parent)!r})\n"
        "from textbook import *\n"
        "def f(x, p, limit=2048):\n"
        "    n = int(max(p)) + 1\n"
        "    n = n if n > limit else 2048\n"
        "    inv = ladder(64, 1e4 * (4 * n / 2048 - 3) ** (64 / 62))\n"
        "    return Rope(inv, 64)(x, p)\n"
        "def late(x, p): return f(x, p, 2049)\n"
    )
    asked = ("rope-check", "-s", "rope-dynamic", "--layout", "half", "--impl")
    assert call(*asked, "./mine.py:f")[0] == 0
    document = json.loads(printed(*asked, "./mine.py:late", "--json", status=1))
    assert "at 2049 positions" in document["findings"][-1]["message"]
    assert document["diagnosis"][0]["cause"] in ("frequency-rule", "scaling-missing")


def test_the_next_step_of_the_other_layout_is_its_option_where_that_check_passes(call, tmp_path):
    code = "from posenc_cli.examples.llama import rotate\n"
    code += "def late(q, positions): return rotate(q, positions + (positions > 40))\n"
    (tmp_path / "mine.py").write_text(code)
    asked = ("rope-check", "-m", "llama-3-8b", "-l", "64", "--impl")
    document = json.loads(call(*asked, "./mine.py:rotate", "--layout", "interleaved", "--json")[1])
    assert document["next"].startswith("use --layout half if your model does, or pair ")
    assert call(*asked, "./mine.py:rotate", "--layout", "half")[0] == 0
    out = call(*asked, "./mine.py:late", "--layout", "interleaved", "--json")[1]
    assert "--layout" not in json.loads(out)["next"]


def test_line_1_says_that_halves_suit_interleaved_pairs_only_with_code_that_reorders_them(
    files, monkeypatch, report
):
    """DeepSeek's code does; GPT-J's, which repeats each value, does not."""
    monkeypatch.chdir(files)
    asked = (*CHECK[:3], "--dim", "64", *subject("tables"), "--positions=0:512")
    for layout, condition in (
        ("interleaved", ", if the code reorders the columns from the layout half"),
        ("half", ""),
    ):
        status, document = report(*asked, "--layout", layout)
        rest = document["verdict"].partition(f"layout={layout}")[2]
        assert (status, rest) == (0, condition)
        notes = " ".join(document["notes"])
        assert notes.count("order of the columns") == bool(condition), notes
        assert "halves" not in notes


def test_an_absolute_encoding_fails_the_property(call, report):
    status, document = report("rope-check", "-s", "sinusoidal", "--len", "64")
    assert status == 1
    assert [each["check"] for each in document["findings"]] == ["relative"]
    assert document["verdict"] == (
        "FAILED: sinusoidal does not rotate q and k: q·k does not depend on m − n alone"
    )
    assert document["next"].startswith("run posenc check FILE with the same options ")
    assert call("rope-check", "-s", "alibi", "--len", "64")[0] == 0


@pytest.mark.slow
def test_functions_are_called(printed):
    out = printed(*CHECK, "--impl", f"{MUTANTS}:right_plain", err="")
    out = printed(*CHECK, "--impl", f"{MUTANTS}:positions_bfloat16", status=1)
    assert "position-precision" in out


@pytest.mark.slow
def test_what_a_function_prints_does_not_reach_the_report(posenc, tmp_path):
    (tmp_path / "noisy.py").write_text(
        "import os\n"
        "print('at import')\n"
        "def f(x, p): print('noise'); os.write(1, b'raw'); return x\n"
    )
    done = posenc(*CHECK, "--impl", "./noisy.py:f", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["diagnosis"][0]["cause"] == "no-rotation"
    assert "noise" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ("", 2, "--scheme"),
        ("-s rope --tables cos.npy", 2, "--tables"),
        ("-s rope --tables cos.npy x.npy --inv-freq inv.npy", 2, "one subject"),
        ("-s rope --tables cos.npy short.npy", 2, "must have one shape"),
        ("-s rope --tables cos.npy none.npy", 3, "cannot read"),
        ("-s rope --tables cube.npy cube.npy", 2, "must be a matrix"),
        ("-s rope --tables complex.npy complex.npy", 2, "complex numbers"),
        ("-s rope --tables junk.npy junk.npy", 2, "junk.npy"),
        ("-s rope --inv-freq cos.npy", 2, "one row"),
        ("-s rope --rotated zero.npy x.npy", 2, "zero in 32 of 32"),
        ("-s rope --len 9999 --tables cos.npy sin.npy", 2, "512 rows"),
        ("-s rope --tol flaot32", 2, "hint: did you mean 'float32'?"),
        ("-s rope --tol -1", 2, "--tol"),
        ("-s rope --tol nan", 2, "--tol"),
        ("-s rope --tol 1e-3 --strict", 2, "--strict"),
        ("-s rope --tol float32 --strict", 2, "error: --tol float32 cannot go with --strict\n"),
        ("-s rope --format xml", 2, "--format"),
        ("-s rope --json --format junit", 2, "--json"),
        ("-s alibi --inv-freq inv.npy", 2, "does not rotate"),
        ("-s rope --positions 5:9007199254740000", 2, "--positions "),
        (f"-s rope --start 7 -l {2**40}", 2, "--positions "),
        (f"-s rope --dim 65536 --impl {MUTANTS}:right_plain", 2, "error: --dim 65536: 4294967296"),
    ],
)
def test_wrong_usage_is_one_line(arguments, status, words, files, refused):
    np.save(files / "short.npy", np.zeros((3, 64), np.float32))
    np.save(files / "zero.npy", np.zeros((512, 64), np.float32))
    np.save(files / "cube.npy", np.zeros((2, 512, 64), np.float32))
    np.save(files / "complex.npy", np.zeros((512, 64), np.complex64))
    (files / "junk.npy").write_bytes(b"\x93NUMPY and no more")
    assert words in refused("rope-check", *arguments.split(), status=status)


@pytest.mark.long
def test_junit_and_out_write_one_whole_file(files, call, refused):
    for name, extra in (("a.xml", ()), ("b.txt", ("--format", "junit"))):
        asked = (*CHECK, *subject("tables", "wrong-"), "--out", name, *extra)
        status, out, err = call(*asked)
        assert (status, out) == (1, "")
        assert err.startswith("FAILED")
        assert ET.fromstring((files / name).read_text()).get("failures") == "1"
    assert "a.xml" in refused(*CHECK, "--out", "a.xml", "--no-clobber", status=3)


@pytest.mark.long
def test_github_annotates_and_adds_to_the_summary(files, call, monkeypatch, printed):
    summary = files / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    out = printed(*CHECK, *subject("tables", "wrong-"), "--format", "github", err="", status=1)
    assert out.startswith("::error title=rope-check%3A reference::")
    assert summary.read_text().startswith("before\n### posenc rope-check: failed")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(files))
    status, _, err = call(*CHECK, *subject("tables"), "--format", "github")
    assert status == 0
    assert "GITHUB_STEP_SUMMARY" in err


@pytest.mark.long
def test_the_report_fits_a_screen_and_plot_shows_where_it_goes_wrong(files, call):
    assert len(call(*CHECK, *subject("tables", "wrong-"))[1].splitlines()) < 24
    _, out, _ = call(*CHECK, *subject("tables", "wrong-"), "--plot")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "the largest error at each position" in out
    assert re.search("[\u2801-\u28ff]", out)


@pytest.mark.long
def test_some_rows_of_a_file_may_be_checked(files, call):
    document = json.loads(call(*CHECK, *subject("tables"), "--len", "100", "--json")[1])
    assert document["positions"] == "0:100"
    assert document["notes"] == ["the first 100 of 512 rows"]
    assert call(*CHECK, *subject("tables"), "--start", "1", "--len", "512")[0] == 1


HUGE = 2**53
"""Positions that nothing gets through."""

ROTARY = ("rope", "rope-dynamic", "rope-yarn", "mrope", "xpos", "rope-axial")
BOUNDLESS = dict.fromkeys((*ROTARY, "sinusoidal", "integer", "nope", "learned"), 2)
# Their form tells of all positions: none is looked at.
BOUNDLESS |= dict.fromkeys(("alibi", "t5", "shaw"), 0)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("scheme", BOUNDLESS)
@pytest.mark.parametrize(
    "more", [(), ("--inv-freq", "inv.npy"), ("--impl", f"{MUTANTS}:right_plain")]
)
def test_more_positions_than_minutes_take_are_refused_at_once(scheme, more, files, call):
    began = time.process_time()
    status, out, err = call("rope-check", "-s", scheme, "--len", str(HUGE), *more)
    assert time.process_time() - began < 5
    rotary = scheme in ROTARY
    assert status == (BOUNDLESS[scheme] if rotary or not more else 2)
    if status == 0:
        assert "proved for all positions" in out
        assert str(HUGE) not in out
    elif rotary and scheme != "rope-axial":
        assert f"--len {HUGE}: {HUGE} positions; at most " in err


def test_a_grid_of_more_positions_than_a_look_takes_is_sampled_and_it_is_said(printed):
    out = printed("rope-check", "-s", "rope-axial", "--set", "grid=94906265x94906265")
    assert " of 9007199136250225 positions" in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "junit", "github"])
def test_a_sample_of_positions_is_called_one_in_every_form(form, printed):
    asked = (*CHECK, "--impl", f"{MUTANTS}:right_plain", "--format", form)
    out = printed(*asked)
    probed = probing_positions(CONTEXT).count
    if form == "json":
        assert json.loads(out)["looked_at"] == {"positions": probed, "of": CONTEXT}
    else:
        assert f", at {probed} of {CONTEXT} positions" in " ".join(out.split())
    out = printed(*asked, "--len", "70")
    assert " of " not in out if form == "github" else " of 70 positions" not in out
    if form == "json":
        assert json.loads(out)["looked_at"] == {"positions": 70, "of": 70}


def test_one_file_of_two_arrays_is_tables_by_their_names(files, call):
    cos, sin = (np.load(files / f"{name}.npy") for name in ("cos", "sin"))
    for names, status in (
        (("sin_table", "Cos_table"), 0),
        (("cos", "sin", "cos_of_layer_1"), 2),
        (("cos", "other"), 2),
        (("cosine_and_sine", "other"), 2),
    ):
        arrays = {name: sin if name.startswith("sin") else cos for name in names}
        for path in (files / "tables.npz", files / "tables.safetensors"):
            (np.savez(path, **arrays) if path.suffix == ".npz" else save_file(arrays, path))
            found, _, err = call(*CHECK, "-d", "64", "--tables", path, path)
            assert found == status, (names, err)
            assert ("holds several arrays" in err) == (status == 2)


def test_posencs_own_tables_are_said_to_be_sampled(call):
    for scheme in ("rope", "sinusoidal"):
        looked_at = json.loads(call("rope-check", "-s", scheme, "--json")[1])["looked_at"]
        assert 64 < looked_at["positions"] < 200
        assert looked_at["of"] in (4096, CONTEXT)


CRASHES = {
    "exits": "import os\ndef f(x, p): os._exit(0)",
    "dies": "import os\ndef f(x, p): os.abort()",
    "has another shape": "def f(x, p): return x[..., :1]",
    "raises": "def f(x, p): raise ValueError('no: 50%')",
    "leaves": "import sys\ndef f(x, p): sys.exit(0)",
    "does not load": "def f(x p): ...",
    "is not there": "def g(x, p): ...",
    "needs what is missing": "import no_such_library\ndef f(x, p): return x",
}


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_is_an_error_in_junit_and_an_annotation(crash, call, tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "bad.py").write_text(CRASHES[crash])
    asked = (*CHECK, "--len", "8", "--impl", "./bad.py:f")
    expected, out, told = call(*asked)
    assert (expected, out) == (3 if "missing" in crash else 2, "")
    assert told.startswith("posenc: error: --impl './bad.py:f'")
    status, out, err = call(*asked, "--out", "rope.xml")
    assert (status, out, err) == (expected, "", told)
    root = ET.parse(tmp_path / "rope.xml").getroot()
    assert (root.get("errors"), root.get("failures")) == ("1", "0")
    (error,) = root.iter("error")
    assert f"posenc: error: {error.get('message')}" == told.splitlines()[0]
    (case,) = root.iter("testcase")
    assert case.get("file") == "bad.py"
    assert float(case.get("time")) > 0
    status, out, err = call(*asked, "--format", "github")
    assert (status, err) == (expected, told)
    line = 2 if CRASHES[crash].startswith("import") else 1
    where = "" if crash == "is not there" else f",line={line}"
    assert out.startswith(f"::error file=bad.py{where},title=rope-check%3A impl './bad.py%3Af'::")


def test_a_layout_that_leaves_most_rows_unexplained_is_not_the_whole_cause(call, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def f(x, positions):\n"
        "    angles = np.multiply.outer(positions, 1e4 ** -(np.arange(0, 64, 2) / 64))\n"
        "    a, b, cos, sin = x[..., :32], x[..., 32:], np.cos(angles), np.sin(angles)\n"
        "    return np.concatenate([a * cos - b * sin, a * cos + a * sin], -1).astype(x.dtype)\n"
    )
    status, out, _ = call("rope-check", "-s", "rope", "--impl", "./mine.py:f", "--json")
    causes = [why["cause"] for why in json.loads(out)["diagnosis"]]
    assert (status, causes) == (1, ["layout", "unknown"])


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_files_are_named_from_where_the_repository_is_checked_out(
    variable, tmp_path, monkeypatch, printed
):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "still.py").write_text("\n\ndef f(x, p):\n    return x\n")
    asked = (*CHECK, "--len", "8", "--impl", f"{tmp_path}/sub/still.py:f", "--format", "github")
    for root, file in ((tmp_path, "sub/still.py"), (tmp_path / "sub", "still.py")):
        monkeypatch.setenv(variable, str(root))
        out = printed(*asked, status=1)
        assert out.startswith(f"::error file={file},line=3,title=rope-check%3A reference::")


def test_without_a_subject_the_report_says_what_was_checked_and_how_to_check_your_code(call):
    status, out, _ = call("rope-check", "-s", "rope", "--len", "8")
    first, *_, step = out.partition("\n\n")[0].splitlines()
    assert (status, first.partition("match")[0]) == (0, "ok: posenc's own tables ")
    assert step == "next: to check your code, give --impl, --tables, --inv-freq or --rotated"


@pytest.mark.long
def test_quiet_prints_nothing_where_all_is_well_and_the_report_where_it_is_not(files, call):
    assert call(*CHECK, *subject("tables"), "-q") == (0, "", "")
    told = "posenc: warning: no subject is given: posenc's own tables are checked\n"
    assert call("rope-check", "-s", "alibi", "--len", "8", "-q") == (0, "", told)
    loud = call(*CHECK, *subject("tables", "wrong-"))
    assert call(*CHECK, *subject("tables", "wrong-"), "-q") == loud
    status, out, err = call(*CHECK, *subject("tables"), "-q", "--json")
    assert (status, json.loads(out)["ok"], err) == (0, True, "")
    wrote = (0, "", "wrote 'report.txt'\n")
    assert call(*CHECK, *subject("tables"), "--out", "report.txt") == wrote
    assert call(*CHECK, *subject("tables"), "-q", "--out", "report.txt") == (0, "", "")
    assert call(*CHECK, *subject("tables"), "--out", "-")[2] == ""
    assert (files / "report.txt").read_text().startswith("ok: ")


@pytest.mark.long
def test_each_tolerance_says_its_reason_and_how_far_from_exact_what_passes_is(files, call, report):
    reasons = {}
    for rule in ("auto", "float32"):
        status, document = report(*CHECK, *subject("tables"), "--tol", rule)
        assert status == 0
        reasons[rule] = document["tolerance"]
    assert reasons["float32"].startswith("float32: 1.2e-07 of the angle")
    assert len(set(reasons.values())) == 2
    assert "maximum absolute error " in call(*CHECK, *subject("tables"))[1]
    assert "maximum absolute error" not in call(*CHECK, *subject("tables", "wrong-"))[1]


def test_strict_is_the_exact_tolerance_by_another_name(files, call):
    strict = call(*CHECK, *subject("tables"), "--strict")
    assert call(*CHECK, *subject("tables"), "--tol", "exact") == strict
    assert call(*CHECK, *subject("tables"), "--tol", "exact", "--strict") == strict
    assert "tolerance exact: one rounding to float32" in " ".join(strict[1].split())


@pytest.mark.skipif(not HAS_HIGH_WATER, reason="needs /proc")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["--tables", "--rotated"])
def test_files_are_checked_in_memory_that_does_not_grow_with_them(kind, tmp_path):
    peaks = []
    for rows in (1 << 14, 1 << 18):
        angles = np.arange(rows)[:, None] * ladder(64, 1e4)
        first, second = (tmp_path / f"{name}.npy" for name in ("first", "second"))
        cos, sin = (function(angles).astype(np.float32) for function in (np.cos, np.sin))
        if kind == "--tables":
            np.save(first, np.concatenate([cos, cos], axis=1))  # 64 MiB each, of many rows
            np.save(second, np.concatenate([sin, sin], axis=1))
        else:
            np.save(first, np.concatenate([cos + 2, sin], axis=1))
            turned = [(cos + 2) * cos - sin * sin, (cos + 2) * sin + sin * cos]
            np.save(second, np.concatenate(turned, axis=1))
        code = HIGH_WATER + (
            "from posenc_cli.cli.exits import main\n"
            f"asked = ['rope-check', '-s', 'rope', '-d', '64', '--layout', 'half', {kind!r},"
            f" {str(first)!r}, {str(second)!r}, '-q']\n"
            "print(main(asked), high_water())\n"
        )
        status, peak = map(int, ran_code(code).stdout.split())
        assert status == 0
        peaks.append(peak)
    assert peaks[1] < peaks[0] + (24 << 20)


@pytest.mark.slow
def test_every_row_of_a_file_is_looked_at(tmp_path, printed):
    """The block that holds a row, and the row's place in it, change nothing."""
    rows = 5000
    angles = np.arange(rows)[:, None] * ladder(64, 1e4)
    cos, sin = (function(angles).astype(np.float32) for function in (np.cos, np.sin))
    np.save(tmp_path / "sin.npy", sin)
    for row in (0, 1023, 1024, 4095, 4999):
        wrong = cos.copy()
        wrong[row, 7] = -wrong[row, 7] - 1
        np.save(tmp_path / "cos.npy", wrong)
        out = printed(*CHECK, "--tables", "cos.npy", "sin.npy", "--json", status=1)
        assert json.loads(out)["findings"][-1]["at"] == {"position": row, "pair": 7}


@pytest.mark.long
def test_files_that_are_pipes_are_read_once(files):
    posenc = f"{shlex.quote(sys.executable)} -m posenc_cli"
    script = f"{posenc} {' '.join(CHECK)} --tables <(cat cos.npy) <(cat sin.npy) -q"
    done = subprocess.run(["bash", "-c", script], cwd=files, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
def test_one_file_may_have_cosines_beside_sines(call, tmp_path):
    cos, sin = RIGHT.pair_tables(np.arange(50))
    full = RIGHT.tables(np.arange(50))
    path = str(tmp_path / "cos_sin.npy")
    for status, values in (
        (0, np.concatenate([cos, sin], axis=1)),
        (0, np.concatenate(full, axis=1)),
        (1, np.concatenate([sin, cos], axis=1)),
        (2, cos[:, 1:]),
    ):
        np.save(path, values)
        found, out, _ = call(*CHECK, "-d", "64", "--tables", path, path)
        assert found == status
        assert " ".join(out.split()).count("cos_sin.npy") == (status < 2)


REFUSED = """
def raises(x, positions):
    raise ValueError("no")

def texts(x, positions):
    return "rotated"

def unreal(x, positions):
    return 1j * x

def leaves(x, positions):
    raise SystemExit(3)

def takes_nothing():
    return 1

class Rope:
    def __init__(self, config):
        pass

number = 3
"""
DUMP = re.compile(r"save its values: np\.save .* for (--tables \S+ \S+), .* for (--rotated .*)$")


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "asked",
    [
        *(f"./own.py:{name}" for name in ("raises", "texts", "unreal", "leaves", "takes_nothing")),
        *("./own.py:Rope", "no_such_module:f"),
    ],
)
@pytest.mark.parametrize("python", [(), ("--python", "/no/such/program")])
def test_every_refusal_of_a_function_ends_with_how_to_dump_its_tables(asked, python, call):
    Path("own.py").write_text(REFUSED)
    status, out, err = call("rope-check", "-s", "rope", "-d", "8", "--impl", asked, *python)
    assert (status in (2, 3), out) == (True, "")
    line, hint = err.splitlines()
    assert line.startswith("posenc: error: --")
    assert hint.startswith("hint: ")
    assert DUMP.search(hint)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("./own.py:number", "cannot be loaded (TypeError: number is of type int, not a function)"),
        ("./own.py", ": must be module:function, ./file.py:function or ./model.onnx"),
        ("json:none", "cannot be loaded (AttributeError: json has no attribute 'none')"),
        ("./none.py:f", ": there is no file './none.py'"),
        ("./open.py:f", "cannot be loaded (SyntaxError: '(' was never closed (open.py, line 1))"),
    ],
)
def test_a_mistyped_function_is_told_in_one_line_alone(asked, told, call):
    Path("own.py").write_text(REFUSED)
    Path("open.py").write_text("def f(\n")
    status, out, err = call("rope-check", "-s", "rope", "-d", "8", "--impl", asked)
    assert (status in (2, 3), out) == (True, "")
    assert err == f"posenc: error: --impl '{asked}'{' ' * (told[0] != ':')}{told}\n"


@pytest.mark.parametrize(
    "told", ["settings: there is no file", "rope: must be module:function", "(TypeError"]
)
def test_words_of_an_error_do_not_make_a_function_mistyped(told, call):
    Path("own.py").write_text(f"raise RuntimeError('cannot be loaded {told}')\n")
    err = call("rope-check", "-s", "rope", "-d", "8", "--impl", "./own.py:f")[2]
    assert f"cannot be loaded (RuntimeError: cannot be loaded {told})" in err
    assert DUMP.search(err.splitlines()[-1])


def test_the_dump_that_refusals_speak_of_works(call):
    cos, sin = posenc.tables("rope", 16, dim=8)
    x = np.random.default_rng(0).standard_normal((16, 8))
    y = posenc.rotate(x, x, 16, "rope", dim=8)[0]
    for name, array in {"cos": cos, "sin": sin, "x": x, "y": y}.items():
        np.save(f"{name}.npy", array)
    hint = call("rope-check", "-s", "rope", "--impl", "no_such_module:f")[2].splitlines()[-1]
    for words in DUMP.search(hint).groups():
        assert call("rope-check", "-s", "rope", "-d", "8", *words.split())[0] == 0


def test_the_library_speaks_of_arguments_there():
    def raises(x, positions):
        raise ValueError("no")

    with pytest.raises(ValueError, match=r"raised ValueError: no .* for tables cos\.npy sin\.npy"):
        posenc.rope_check("rope", dim=8, impl=raises)
