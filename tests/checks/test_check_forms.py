"""``posenc check``: its forms, statuses, subjects and errors, as a command and in Python."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import posenc_cli as posenc

pytestmark = pytest.mark.long

ANGLES = np.arange(64)[:, None] * 1e4 ** (-np.arange(0, 16, 2) / 16)
RIGHT = np.stack([np.sin(ANGLES), np.cos(ANGLES)], -1).reshape(64, 16).astype(np.float32)
WRONG = np.concatenate([np.sin(ANGLES), np.cos(ANGLES)], 1).astype(np.float32)
ASKED = ("-s", "sinusoidal", "-d", "16")

MINE = """
import numpy as np


def table(max_len, d_model, base=10000.0):
    angles = np.arange(max_len)[:, None] * base ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(max_len, d_model)


def rows(positions, dim=16):
    angles = np.asarray(positions)[:, None] * 1e3 ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, dim)


def behind_a_default(positions, swap=False, base=1e4):
    angles = np.asarray(positions)[:, None] * base ** (-np.arange(0, 16, 2) / 16)
    pairs = [np.cos(angles), np.sin(angles)] if swap else [np.sin(angles), np.cos(angles)]
    return np.stack(pairs, -1).reshape(-1, 16)


def by_place_alone(positions, swap=False, base=1e4, /):
    return behind_a_default(positions, swap, base)


class Encoding:
    def __init__(self, d_model, max_len=5000):
        self.pe = table(max_len, d_model)[None]

    def __call__(self, x):
        return x + self.pe[:, : x.shape[1]]


class Tutorial:  # PyTorch's: x is (positions, batch, columns)
    base = 1e4

    def __init__(self, d_model, max_len=5000):
        self.pe = table(max_len, d_model, self.base)[:, None]

    def forward(self, x):
        return x + self.pe[: x.shape[0]]

    __call__ = forward


def from_offset(x, offset=0):
    return x + table(x.shape[1] + offset, x.shape[2])[offset:]


def at_positions(positions, offset=0):
    angles = (np.asarray(positions) + offset)[:, None] * 1e4 ** (-np.arange(0, 16, 2) / 16)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, 16)


def unbatched(x):
    return x + table(*x.shape)


class OtherBase(Tutorial):
    base = 1e3


class FirstRowInBatches(Tutorial):
    def __call__(self, x):
        return x + self.pe[: x.shape[0]][[0] * len(x) if x.shape[1] > 1 else slice(None)]


class NothingInBatches(Tutorial):
    def __call__(self, x):
        return x if x.shape[1] > 1 else self.forward(x)


class ReversedInBatches(Tutorial):
    def __call__(self, x):
        return x + self.pe[: x.shape[0]][:: -1 if x.shape[1] > 1 else 1]


def slopes(num_heads):
    return 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)


def scores(num_heads, seq_len):
    away = np.arange(seq_len) - np.arange(seq_len)[:, None]
    return -slopes(num_heads)[:, None, None] * np.abs(away)


def grid(h, w, embed_dim):
    y, x = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    rates = 1e4 ** (-np.arange(embed_dim // 4) / (embed_dim // 4))
    parts = [at.reshape(-1, 1) * rates for at in (x, y)]
    return np.concatenate([f(a) for a in parts for f in (np.sin, np.cos)], 1)


def buckets(relative_position, num_buckets=32, max_distance=128):
    side, away = num_buckets // 2, np.abs(relative_position)
    exact = side // 2
    far = np.log(np.maximum(away, exact) / exact) / np.log(max_distance / exact) * exact + 1e-9
    near = np.where(away < exact, away, np.minimum(exact + far.astype(int), side - 1))
    return np.where(relative_position > 0, side, 0) + near


def breaks(length):
    raise RuntimeError("no such table")


def two(length):
    return np.zeros(length), np.zeros(length)
"""


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "right.npy", RIGHT)
    np.save(tmp_path / "wrong.npy", WRONG)
    np.save(tmp_path / "freqs.npy", 1e4 ** (-np.arange(8) / 7))
    np.save(tmp_path / "complex.npy", np.ones((4, 16), complex))
    np.save(tmp_path / "row.npy", np.ones(16))
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_the_report_begins_with_the_verdict_the_cause_and_the_next_step(call, folder):
    status, out, err = call("check", "wrong.npy", *ASKED)
    assert (status, err) == (1, "")
    first, _, rest = out.partition("\ncause: layout: ")
    assert first.startswith("FAILED: 'wrong.npy' does not match sinusoidal (dim=16): ")
    assert "\nnext: reorder the columns" in rest
    assert rest.index("next: ") < rest.index("worst value") < rest.index("rows: ")
    status, out, _ = call("check", "right.npy", *ASKED)
    assert status == 0
    assert out.startswith("ok: 'right.npy' matches sinusoidal (dim=16) (1024 values)")
    assert call("check", "right.npy", *ASKED, "-q")[:2] == (0, "")


def test_json_begins_with_the_answer_and_says_the_same(call, folder):
    status, out, _ = call("check", "wrong.npy", *ASKED, "--json")
    report = json.loads(out)
    assert status == 1
    assert [*report][:5] == ["schema", "ok", "verdict", "cause", "next"]
    assert (report["schema"], report["ok"], report["cause"]) == ("posenc/check/1", False, "layout")
    (bugs,) = report["explanations"]
    assert [[*bug] for bug in bugs] == [["code", "message", "remedy", "seen"]]
    assert report["worst"]["at"].keys() == {"position", "column"}
    assert posenc.check("sinusoidal", WRONG, dim=16).as_json()["explanations"] == [bugs]
    values = np.where(np.arange(16) == 3, np.nan, RIGHT)
    np.save(folder / "nan.npy", values)
    out = call("check", "nan.npy", *ASKED, "--json")[1]
    assert json.loads(out)["worst"]["found"] is None


def test_junit_github_and_the_summary_of_a_step_say_the_cause(call, folder, monkeypatch):
    status, out, _ = call("check", "wrong.npy", *ASKED, "--format", "junit")
    suite = ET.fromstring(out)[0]
    assert (status, suite.attrib["tests"], suite.attrib["failures"]) == (1, "1", "1")
    case = suite.find("testcase")
    assert case.attrib["file"] == "wrong.npy"
    assert case.find("failure").attrib["type"] == "layout"
    assert "next: reorder" in case.find("failure").text
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    out = call("check", "wrong.npy", *ASKED, "--format", "github")[1]
    assert out.startswith("::error title=check%3A layout::FAILED")
    assert "cause: layout" in (folder / "summary.md").read_text()
    out = call("check", "right.npy", *ASKED, "--format", "github")[1]
    assert out.startswith("::notice title=check::ok")
    assert call("check", "wrong.npy", *ASKED, "--out", "report.xml")[0] == 1
    assert ET.fromstring((folder / "report.xml").read_text()).tag == "testsuites"


@pytest.mark.parametrize("form", ["junit", "github"])
def test_a_subject_that_cannot_be_read_has_a_report_too(form, call, folder):
    status, out, err = call("check", "missing.npy", *ASKED, "--format", form)
    assert status == 3
    assert "missing.npy" in out
    assert "missing.npy" in err
    assert ("posenc check" if form == "junit" else "title=check%3A") in out
    assert "rope-check" not in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("-s sinusoidal", 2, "give the values to check"),
        ("right.npy", 2, "--scheme, --config or --model"),
        ("right.npy -s sinusoidal --slopes row.npy", 2, "--slopes cannot go with FILE"),
        ("missing.npy -s sinusoidal", 3, "missing.npy"),
        ("right.npy -s learned -d 16 --set seed=1 --len 600", 2, "position 599 is past the last"),
        ("right.npy -s learned -d 16 --set seed=1 --start -3 --len 64", 2, "-3 is negative"),
        ("right.npy -s learned -d 16", 2, "learned has a learned table, but none is given"),
        ("right.npy -s t5", 2, "--buckets FILE checks which row"),
        ("complex.npy -s sinusoidal -d 16", 2, "complex numbers"),
        ("row.npy -s alibi", 2, "not scores"),
        ("right.npy -s alibi", 2, "64 queries and 16 keys"),
        ("--slopes row.npy -s t5", 2, "t5 has no slopes"),
        ("--buckets row.npy -s alibi", 2, "alibi has no table"),
        ("--buckets row.npy -s t5 --positions 0:3", 2, "holds 16 buckets"),
        ("right.npy -s deberta", 2, "is a rule for buckets"),
        ("--buckets row.npy -s deberta --set nonsense=1", 2, "no parameter 'nonsense'"),
        ("--inv-freq row.npy -s learned", 2, "learned has no frequencies"),
        ("--inv-freq row.npy -s sinusoidal", 2, "holds 16 frequencies"),
        (
            "--tables right.npy right.npy -s sinusoidal",
            2,
            "--tables: sinusoidal does not rotate vectors",
        ),
        ("--slopes row.npy -s rope", 2, "--slopes: rope rotates"),
        ("--rotated right.npy row.npy -s sinusoidal", 2, "different shapes"),
        ("right.npy -s sinusoidal --tol exact --tol 1", 2, "--tol"),
        ("right.npy -s sinusoidal --call x", 2, "--call needs --impl"),
        ("-s sinusoidal -d 16 --impl ./mine.py:breaks", 2, "no such table"),
        ("-s sinusoidal -d 16 --impl ./mine.py:two", 2, "returned 2 arrays"),
        ("-s sinusoidal -d 16 --impl ./mine.py:nothing", 2, "nothing"),
        ("-s sinusoidal -d 16 --impl ./none.py:f", 3, "none.py"),
    ],
)
def test_bad_input_is_one_line(arguments, status, message, call, folder):
    found, out, err = call("check", *arguments.split())
    assert (found, out) == (status, ""), err
    assert err.startswith("posenc: error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ("-s sinusoidal -d 16 --impl ./mine.py:table", None),
        ("-s sinusoidal -d 16 --base 500 --impl ./mine.py:table", None),
        ("-s sinusoidal -d 16 --impl ./mine.py:Encoding", None),
        ("-s sinusoidal -d 16 --impl ./mine.py:rows", "base"),
        ("-s sinusoidal -d 16 --start 5 --len 9 --impl ./mine.py:rows --base 1000", None),
        ("-s sinusoidal -d 16 --base 500 --impl ./mine.py:behind_a_default", None),
        ("-s sinusoidal -d 16 --impl ./mine.py:by_place_alone", None),
        ("-s alibi --heads 8 --impl ./mine.py:slopes", "slopes"),  # right for 8, not for 12
        ("-s alibi --heads 12 --impl ./mine.py:slopes", "slopes"),
        ("-s alibi --heads 12 --impl ./mine.py:scores", "slopes"),
        ("-s sinusoidal-nd -d 16 --set grid=3x5 --impl ./mine.py:grid", None),
        ("-s t5 --impl ./mine.py:buckets", None),
        ("-s t5 --set max_distance=64 --impl ./mine.py:buckets", None),
    ],
)
def test_functions_are_called_by_the_names_of_their_parameters(asked, cause, call, folder):
    status, out, err = call("check", *asked.split(), "--json")
    assert err == ""
    report = json.loads(out)
    assert report["cause"] == cause, report["verdict"]
    assert status == (cause is not None)
    assert "called as" in report["notes"][-1]


def test_a_rotary_encoding_goes_to_rope_check(call, folder):
    np.save(folder / "rope.npy", 1e4 ** (-np.arange(8) / 8))
    status, out, _ = call("check", "rope.npy", "-s", "rope", "-d", "16")
    assert status == 0
    cos, sin = posenc.tables("rope", 64, dim=16, base=500.0)
    np.save(folder / "both.npy", np.concatenate([cos, sin], 1))
    status, out, _ = call("check", "both.npy", "-s", "rope", "-d", "16", "--json")
    assert (status, json.loads(out)["schema"]) == (1, "posenc/rope-check/1")
    report = posenc.check("rope", frequencies=1e4 ** (-np.arange(8) / 8), dim=16)
    assert report.ok
    for name, value in (("slopes", [1.0]), ("head", 1), ("causal", True)):
        with pytest.raises(ValueError, match=f"{name}: a rotary encoding has none"):
            posenc.check("rope", frequencies=[1.0], **{name: value})
    assert "--causal: " in call("check", "both.npy", "-s", "rope", "--causal")[2]


def test_frequencies_vectors_and_tolerances(call, folder):
    status, out, _ = call("check", "--inv-freq", "freqs.npy", *ASKED)
    assert status == 1
    assert "cause: frequency-rule" in out
    x = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", x + WRONG)
    assert "cause: layout" in call("check", "--rotated", "x.npy", "y.npy", *ASKED)[1]
    np.save(folder / "near.npy", RIGHT + np.float32(1e-4))
    assert call("check", "near.npy", *ASKED)[0] == 1
    assert call("check", "near.npy", *ASKED, "--tol", "2e-4")[0] == 0
    coarse = posenc.encode("sinusoidal", 64, dim=16, round_to="bfloat16")
    np.save(folder / "coarse.npy", coarse)
    assert "cause: table-precision" in call("check", "coarse.npy", *ASKED)[1]
    assert call("check", "coarse.npy", *ASKED, "--tol", "bfloat16")[0] == 0
    exact = posenc.encode("sinusoidal", 64, dim=16)
    np.save(folder / "exact.npy", exact)
    assert call("check", "exact.npy", *ASKED, "--tol", "exact")[0] == 0
    np.save(folder / "off.npy", np.nextafter(exact, np.float32(2)))
    assert call("check", "off.npy", *ASKED, "--tol", "exact")[0] == 1


def test_scores_of_one_head_and_of_no_later_keys(call, folder):
    away = np.arange(9) - np.arange(9)[:, None]
    np.save(folder / "head.npy", -np.abs(away) * 2.0**-3)
    asked = ("-s", "alibi", "--heads", "8")
    assert call("check", "head.npy", *asked, "--head", "2")[0] == 0
    status, out, _ = call("check", "head.npy", *asked, "--head", "3")
    assert status == 1
    assert "head 3 of alibi (heads=8): 72 of 81 values differ" in " ".join(out.split())
    assert "heads: head 3 has the scores of head 2" in " ".join(out.split())
    status, _, err = call("check", "head.npy", *asked)
    assert status == 2
    assert "--head H" in err
    assert call("check", "head.npy", *asked, "--head", "8")[0] == 2
    scores = 2.0 ** -np.arange(1, 9)[:, None, None] * np.where(away > 0, 7, away)
    np.save(folder / "causal.npy", scores)
    assert call("check", "causal.npy", *asked)[0] == 1
    assert call("check", "causal.npy", *asked, "--causal")[0] == 0


def test_the_library_takes_arrays_paths_and_functions(folder):
    assert posenc.check("sinusoidal", RIGHT, dim=16).ok
    assert posenc.check("sinusoidal", str(folder / "right.npy"), dim=16).ok
    report = posenc.check("sinusoidal", WRONG, dim=16)
    assert (report.cause, str(report).startswith("FAILED: values do")) == ("layout", True)
    report = posenc.check("alibi", slopes=[2.0**-h for h in range(8)])
    assert "exponents start at 0" in report.cause_text
    report = posenc.check("deberta", buckets=[0, 1, 2], positions=range(3))
    assert report.ok
    both_sides = posenc.check("deberta", buckets=[-2, -1, 0, 1, 2], positions=range(3))
    assert (both_sides.ok, both_sides.positions) == (True, "-2:3")

    def mine(positions):
        return RIGHT[np.asarray(positions)]

    assert posenc.check("sinusoidal", impl=mine, dim=16).ok
    for arguments in ({}, {"values": RIGHT, "slopes": [1.0]}, {"vectors": 3}):
        with pytest.raises(posenc.ArgumentError):
            posenc.check("sinusoidal", **arguments)


def test_a_function_of_the_users_is_a_reference_too(call, folder):
    status, out, err = call("check", "right.npy", "-s", "./mine.py:rows", "-d", "16")
    assert (status, err) == (1, "")
    assert "./mine.py:rows" in out or "rows (dim=16)" in out
    code = MINE.replace("1e3", "1e4")
    (folder / "other.py").write_text(code)
    assert call("check", "right.npy", "-s", "./other.py:rows", "-d", "16")[0] == 0


def test_slopes_that_falcon_rounds_are_right_for_its_config(call, folder):
    """build_alibi_tensor of transformers 5.24: slopes are rounded to bfloat16."""
    config = {"model_type": "falcon", "alibi": True, "num_attention_heads": 12}
    (folder / "falcon.json").write_text(json.dumps({**config, "hidden_size": 768}))
    (folder / "slopes.json").write_text(
        call("alibi-slopes", "--config", "falcon.json", "--json")[1]
    )
    assert call("check", "--slopes", "slopes.json", "--config", "falcon.json")[0] == 0
    (folder / "slopes.json").write_text(json.dumps([2.0**-h for h in range(12)]))
    assert call("check", "--slopes", "slopes.json", "--config", "falcon.json")[0] == 1


def test_positions_come_first_or_second_in_the_vectors_of_a_function(call, folder):
    status, out, _ = call("check", *ASKED, "--impl", "./mine.py:Tutorial")
    assert status == 0, out
    assert "values differ if the batch comes before the positions" in " ".join(out.split())
    assert call("check", *ASKED, "--impl", "./mine.py:unbatched")[0] == 0
    status, out, _ = call("check", *ASKED, "--impl", "./mine.py:OtherBase")
    assert (status, "cause: base: base is 1000" in out) == (1, True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["FirstRowInBatches", "NothingInBatches", "ReversedInBatches"])
def test_batches_are_judged_where_they_come_behind_the_positions(name, call, folder):
    status, out, _ = call("check", *ASKED, "--impl", f"./mine.py:{name}")
    assert (status, "called for two sequences" in " ".join(out.split())) == (1, True), out


def test_what_causality_hides_is_neither_named_nor_counted(call, tmp_path):
    at = np.arange(32)
    apart = at - at[:, None]
    wrong = 2.0 ** -np.arange(1, 9)[:, None, None] * -apart
    for later in (wrong, 7, np.nan):
        np.save(tmp_path / "scores.npy", np.where(apart > 0, later, wrong))
        asked = "check", "scores.npy", "-s", "alibi", "--heads", "8", "--causal"
        out = " ".join(call(*asked)[1].split())
        assert "3968 of 4224 values differ" in out
        assert "cause: direction: the scores have the wrong sign next: " in out
    np.save(tmp_path / "scores.npy", np.where(apart > 0, 7, np.where(apart == -3, np.nan, -wrong)))
    assert "cause: not-a-number: 232 of" in call(*asked)[1]
    np.save(tmp_path / "scores.npy", np.where(apart > 0, 7, 0 * wrong))
    assert "cause: uninitialised: all values are 0" in call(*asked)[1]


def test_a_batch_says_which_sequence_is_wrong_and_why():
    batch = np.stack([RIGHT[:20]] * 3)
    batch[1] = RIGHT[1:21]
    report = posenc.check("sinusoidal", batch, dim=16)
    assert report.cause_text.startswith("position-offset: positions are shifted by +1")
    assert report.where == {"sequences": "1 of 3", "rows": "all 20", "columns": "all 16"}
    batch[1] = RIGHT[:20]
    batch[2, 5, 7] = 3
    report = posenc.check("sinusoidal", batch, dim=16)
    assert report.where == {"sequences": "2 of 3", "rows": "5 of 20", "columns": "7 of 16"}


@pytest.mark.parametrize("name", ["from_offset", "at_positions"])
def test_a_function_is_told_where_positions_begin_once(name, call, folder):
    status, out, _ = call("check", *ASKED, "-l", "7", "--start", "5", "--impl", f"./mine.py:{name}")
    assert status == 0, out
    assert "not tested: calls of other lengths or batches" in " ".join(out.split())


def test_rows_of_offsets_may_have_a_row_for_each_query_and_key(call, tmp_path):
    weights = np.random.default_rng(0).normal(size=(33, 8)).astype(np.float32)
    np.save(tmp_path / "w.npy", weights)
    at = np.arange(24)
    rows = np.clip(at - at[:, None], -16, 16) + 16
    asked = ("check", "r.npy", "-s", "shaw", "-d", "8", "--set", "weights=w.npy")
    np.save(tmp_path / "r.npy", weights[rows])
    assert call(*asked)[0] == 0
    np.save(tmp_path / "r.npy", weights[rows.T])
    assert (call(*asked)[0], "key-query" in call(*asked)[1]) == (1, True)


def test_positions_may_be_the_offsets_of_rows(call, tmp_path):
    """Rows of the offsets −19 to 19 were read as those of −38 to 0."""
    weights = np.random.default_rng(0).normal(size=(17, 8)).astype(np.float32)
    np.save(tmp_path / "w.npy", weights)
    rows = weights[np.clip(np.arange(-19, 20), -8, 8) + 8]
    asked = ("check", "r.npy", "-s", "shaw", "-d", "8", "--set", "weights=w.npy")
    asked = (*asked, "--positions=-19:20")
    np.save(tmp_path / "r.npy", rows)
    assert call(*asked)[0] == 0
    np.save(tmp_path / "r.npy", rows[::-1])
    assert (call(*asked)[0], "key-query" in call(*asked)[1]) == (1, True)


@pytest.mark.parametrize("count", [1, 3, 12])
def test_another_number_of_slopes_is_a_shape_of_its_own(count):
    """One negative slope for eight heads ended in an IndexError."""
    report = posenc.check("alibi", slopes=np.full(count, -13.210486, np.float32), heads=8)
    assert (report.ok, report.cause) == (False, "shape"), str(report)
