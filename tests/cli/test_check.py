"""``posenc check``: the options that it shares with other commands."""

import numpy as np
import pytest

from posenc_cli.checks.search import NamedBug
from posenc_cli.checks.values import ValueReport

pytestmark = pytest.mark.usefixtures("warm")


def table(positions, dim=64):
    angles = np.arange(positions)[:, None] * 1e4 ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, dim)


@pytest.fixture
def half(tmp_path):
    """Sinusoids rounded to float16, and stored as float32."""
    np.save(tmp_path / "half.npy", table(16).astype(np.float16).astype(np.float32))
    return "half.npy"


def test_a_number_format_is_taken_as_generate_takes_it(half, call):
    asked = ("check", half, "-s", "sinusoidal")
    assert call(*asked)[0] == 1
    tolerances = ("float16", "fp16", "exact")
    assert [call(*asked, "--tol", name)[0] for name in tolerances] == [0, 0, 1]


def test_values_that_are_only_rounded_twice_are_told_apart_from_wrong_ones(printed):
    frequencies = np.float32(1e4) ** -(np.arange(0, 64, 2, dtype=np.float32) / 64)
    angles = np.arange(16, dtype=np.float32)[:, None] * frequencies
    rounded = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(16, 64)
    wrong = np.where(np.arange(64) == 7, rounded + 0.1, rounded)
    for values, told in ((rounded, True), (wrong, False)):
        np.save("table.npy", values)
        out = printed("check", "table.npy", "-s", "sinusoidal", "--tol", "exact", status=1)
        assert ("the values pass the default tolerance" in " ".join(out.split())) == told


FEW_HEADS = """
import numpy as np


def alibi(heads, length):
    if heads > 8:
        raise ValueError("at most 8 heads")
    distance = np.abs(np.arange(length)[:, None] - np.arange(length))
    return -(2.0 ** (-8 * np.arange(1, heads + 1) / heads))[:, None, None] * distance
"""


def test_calls_that_raised_are_listed_by_verbose(call, tmp_path, printed):
    (tmp_path / "mine.py").write_text(FEW_HEADS)
    asked = ("check", "-s", "alibi", "--heads", "8", "-l", "16", "--impl", "./mine.py:alibi")
    brief = printed(*asked)
    assert "raised" not in brief
    assert "note: some further calls failed (--verbose lists them)" in brief
    whole = " ".join(call(*asked, "--verbose")[1].split())
    assert "heads=12 (raised ValueError: at most 8 heads)" in whole
    assert "some further calls" not in whole


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_verbose_says_what_a_table_was_compared_with(flag, half, call, printed):
    asked = ("check", half, "-s", "sinusoidal", "--tol", "fp16")
    brief = call(*asked)[1]
    out = printed(*asked, flag)
    assert out.startswith(brief.rstrip())
    added = out[len(brief.rstrip()) :].split()
    assert {"reference:", "positions:", "tolerance:", "float16"} <= {*added}


def test_verbose_says_of_a_rotation_how_it_was_called(call, tmp_path, printed):
    (tmp_path / "mine.py").write_text("def same(x, positions):\n    return x\n")
    asked = ("check", "-s", "rope", "-d", "8", "-l", "4", "--impl", "./mine.py:same")
    assert "called as" not in call(*asked)[1]
    assert "called as" in printed(*asked, "--verbose", status=1)


ADDING = """
import numpy as np


def rows(x, positions):
    angles = np.multiply.outer(np.asarray(positions, float), 1e4 ** (-np.arange(0, 64, 2) / 64))
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, 64).astype(x.dtype)


def added(x, positions): return x + rows(x, positions)
def alone(x, positions): return rows(x, positions)
def negated(x, positions): return -x + rows(x, positions)
def bent(x, positions): return np.tanh(x) + rows(x, positions)
def dependent(x, positions): return x + rows(x, positions) * (1 + x)
def scaled(x, positions): return 8 * x + rows(x, positions)
def clipped(x, positions): return np.clip(x, -9, 9) + rows(x, positions)
def random(x, positions): return added(x, positions) * (np.random.rand(*x.shape) > 0.1)


def bias(n):
    i = np.arange(n)
    return (-abs(i[:, None] - i) * 2.0 ** -np.arange(1, 9)[:, None, None]).astype("f4")


def biased(scores): return scores + bias(scores.shape[-1])
def halved(attn_scores): return attn_scores / 2 + bias(attn_scores.shape[-1])
"""


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("added", 0, "ok: "),
        ("alone", 0, "does not contain the input"),
        ("dependent", 1, "cause: unknown"),
        ("scaled", 1, "multiplied by √d before the rows are added"),
        ("clipped", 1, "FAILED"),
        ("random", 2, "dropout? call .eval()"),
    ],
)
@pytest.mark.long
def test_a_function_must_add_its_rows_to_any_vectors(name, status, told, call, tmp_path):
    (tmp_path / "mine.py").write_text(ADDING)
    found, out, err = call("check", "-s", "sinusoidal", "--impl", f"./mine.py:{name}")
    assert (found, told in out + err) == (status, True), out + err


@pytest.mark.long
@pytest.mark.parametrize(("name", "status"), [("biased", 0), ("halved", 1)])
def test_a_function_may_add_a_bias_to_scores(name, status, call, tmp_path):
    (tmp_path / "mine.py").write_text(ADDING)
    assert call("check", "-s", "alibi", "--heads", "8", "--impl", f"./mine.py:{name}")[0] == status


@pytest.mark.parametrize(
    ("table", "kind"), [("cos", "cosines"), ("cos-full", "cosines"), ("sin", "sines")]
)
def test_one_table_of_two_is_no_file_of_both(table, kind, call, refused):
    call("generate", "-s", "rope", "-l", "9", "--table", table, "--out", "one.npy")
    err = refused("check", "one.npy", "-s", "rope")
    assert (f"has {kind} alone" in err, "--tables COS SIN" in err) == (True, True)


@pytest.mark.parametrize("asked", [("-m", "llama-3.1-8b"), ("-s", "sinusoidal")])
def test_nothing_to_check_is_an_error_of_any_scheme(asked, refused):
    assert "give the values to check" in refused("check", *asked, "--quiet")


def test_one_head_is_compared_of_a_file_that_has_all(call):
    at = np.arange(8)
    scores = -abs(at[:, None] - at) * 2.0 ** -np.arange(1, 9)[:, None, None]
    scores[0] *= 1.5
    np.save("scores.npy", scores)
    np.save("slopes.npy", 2.0 ** -np.arange(1, 9))
    asked = ("check", "-s", "alibi", "--heads", "8", "--head")
    assert [call(*asked, head, "scores.npy")[0] for head in ("0", "3", "8")] == [1, 0, 2]
    assert call(*asked, "3", "--slopes", "slopes.npy")[0] == 2
    np.save("rows.npy", table(8))
    assert call("check", "rows.npy", "-s", "sinusoidal", "--head", "1")[0] == 2


@pytest.mark.parametrize(
    ("shape", "asked", "status", "said"),
    [
        ((64, 96), (), 0, "96 columns: compared with dim=96, not the default 64"),
        ((64, 96), ("-d", "128"), 1, "the subject has 96 columns, not 128"),
        ((128, 32), ("-d", "128"), 1, "has 32 columns, not 128; the values in both differ"),
    ],
)
def test_a_file_has_its_own_width_where_none_is_asked_for(shape, asked, status, said, call):
    np.save("table.npy", table(*shape))
    found, out, _ = call("check", "table.npy", "-s", "sinusoidal", *asked)
    assert (found, said in " ".join(out.split())) == (status, True)


def test_each_sequence_of_a_batch_is_compared(call, printed):
    batch = np.stack([table(20)] * 3)
    asked = ("check", "batch.npy", "-s", "sinusoidal", "-d", "64")
    np.save("batch.npy", batch)
    assert "3 sequences of 20 rows: each is compared with 0:20" in " ".join(printed(*asked).split())
    batch[2, 5, 7] = 3
    np.save("batch.npy", batch)
    assert call(*asked)[0] == 1


@pytest.mark.parametrize("several", [True, False])
def test_the_next_step_names_what_each_of_several_causes_asks_for(several):
    bugs = [NamedBug("base", "a", f"use {name}", "") for name in ("this", "that")]
    explained = [(bug,) for bug in bugs] if several else [tuple(bugs)]
    fields = dict.fromkeys(("title", "positions", "compared", "differing", "worst"))
    fields |= {"subject": {}, "reference": {}, "where": {}, "explained": explained}
    joined = "; or use that" if several else ", and use that"
    assert ValueReport(ok=False, **fields).next_step == f"use this{joined}"
