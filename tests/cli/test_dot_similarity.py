"""``posenc dot-similarity``: the verdict, the files it writes, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from posenc_cli.analysis.similarity import similarity_of_array
from posenc_cli.analysis.verdict import verdict
from posenc_cli.render.figures.similarities import Judged, profile_figures
from tests.matrices import matrix


def asked(call, *arguments):
    status, out, err = call("dot-similarity", *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "posenc/dot-similarity/1"
    return document, err


def test_json_carries_the_profile_and_the_verdict(call):
    document, err = asked(call, "-s", "sinusoidal", "-l", "64", "-d", "16")
    assert err == ""
    table = matrix("sinusoidal", "0:64", dtype="float64", dim=16)
    assert document["offsets"] == list(range(-63, 64))
    expected = table @ table[0]
    np.testing.assert_allclose(document["profile"][63:], expected, atol=1e-13)
    np.testing.assert_allclose(document["profile"][::-1], document["profile"])
    told = ("toeplitz", "toeplitz_spread", "tolerance", "symmetric", "peak", "evidence")
    assert [document[name] for name in told] == [True, 0.0, 0.0, True, 8.0, "declaration"]
    assert document["half_distance"] == int(np.flatnonzero(expected < 4)[0])
    assert (document["scheme"], document["params"]["dim"]) == ("sinusoidal", 16)
    assert document["positions"] == "0:64"
    values = np.array(document["matrix"]["values"])
    np.testing.assert_allclose(values, (table @ table.T), atol=1e-13)
    assert document["matrix"]["rows"] == document["matrix"]["columns"] == list(range(64))


def test_json_of_a_table_that_is_not_relative_has_its_extremes(call):
    document, _ = asked(call, "-s", "learned", "-l", "30", "-d", "4")
    table = matrix("learned", "0:30", dtype="float64", dim=4)
    squares = (table**2).sum(axis=1)
    assert (document["toeplitz"], document["evidence"]) == (False, "measured")
    assert document["pairs"] == document["all_pairs"] == 30 * 31 // 2
    assert document["extremes"]["least"][29] == pytest.approx(squares.min())
    assert document["extremes"]["most"][29] == pytest.approx(squares.max())
    assert document["profile"][29] == document["peak"] == pytest.approx(squares.mean())
    assert document["toeplitz_spread"] > document["tolerance"] > 0


def test_a_distance_that_is_never_reached_is_null(call):
    assert asked(call, "-s", "rope", "-l", "8")[0]["half_distance"] is None


def test_rotary_content_is_said(call):
    ones, _ = asked(call, "-s", "rope", "-l", "32", "-d", "8")
    random, _ = asked(call, "-s", "rope", "-l", "32", "-d", "8", "--content", "random")
    assert (ones["content"], random["content"]) == ("ones", "random")
    assert ones["peak"] == 1
    assert ones["profile"] != random["profile"]
    yarn, _ = asked(call, "-s", "rope-yarn", "-l", "8", "--set", "attention_factor=2")
    assert yarn["peak"] == pytest.approx(4)
    assert "2² included" in yarn["quantity"]


def test_out_writes_the_matrix_in_every_format(call, tmp_path):
    table = matrix("sinusoidal", "0:20", dtype="float64")
    expected = table @ table.T
    for name in ("s.npy", "s.csv", "s.npz", "s.safetensors"):
        status, out, err = call("dot-similarity", "-s", "sinusoidal", "-l", "20", "--out", name)
        assert (status, out) == (0, "")
        assert "20 × 20 float32" in err
    read = [
        np.load(tmp_path / "s.npy"),
        np.loadtxt(tmp_path / "s.csv", delimiter=",", dtype=np.float32),
        np.load(tmp_path / "s.npz")["encoding"],
        load_file(tmp_path / "s.safetensors")["encoding"],
    ]
    for values in read:
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, read[0])
        np.testing.assert_allclose(values, expected, rtol=2**-23)
    call("dot-similarity", "-s", "sinusoidal", "-l", "20", "--dtype", "float64", "--out", "s.npy")
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=0, atol=1e-12)
    document, err = asked(call, "-s", "sinusoidal", "-l", "20", "--out", "s.npy")
    assert (document["path"], document["bytes"]) == ("s.npy", (tmp_path / "s.npy").stat().st_size)
    assert document["peak"] == 32


def test_profile_writes_the_values_by_offset(call, tmp_path):
    call("dot-similarity", "-s", "sinusoidal", "-l", "20", "--profile", "--out", "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "offset,d0"
    offsets, values = np.loadtxt(lines[1:], delimiter=",", unpack=True)
    assert offsets.tolist() == list(range(-19, 20))
    call("dot-similarity", "-s", "sinusoidal", "-l", "20", "--profile", "--out", "p.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), values.astype(np.float32))
    assert values[19] == 32


def test_a_bias_is_what_generate_writes(call, tmp_path):
    for scheme in ("alibi", "t5"):
        call("generate", "-s", scheme, "-l", "40", "--head", "3", "--out", "bias.npy")
        call("dot-similarity", "-s", scheme, "-l", "40", "--head", "3", "--out", "same.npy")
        bias, same = (np.load(tmp_path / name) for name in ("bias.npy", "same.npy"))
        np.testing.assert_array_equal(bias, same)
    document, _ = asked(call, "-s", "alibi", "-l", "40")
    assert (document["head"], document["half_of"]) == (0, "attention weight")


def test_files_are_looked_at_as_they_are(call, tmp_path):
    table = matrix("sinusoidal", "0:50", dtype="float32", dim=8)
    np.save(tmp_path / "t.npy", table)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    for name in ("t.npy", "t.csv"):
        document, _ = asked(call, "--in", name)
        assert (document["in"], document["shape"]) == (name, [50, 8])
        np.testing.assert_allclose(document["profile"][49], 4, atol=1e-6)
    assert asked(call, "--in", "t.npy")[0]["toeplitz"]
    assert not asked(call, "--in", "t.csv")[0]["toeplitz"]  # text says nothing of its rounding
    cosine, _ = asked(call, "--in", "t.npy", "--normalize", "cosine")
    assert cosine["peak"] == pytest.approx(1)


def test_values_that_are_not_finite_are_null_and_told(call, tmp_path):
    table = np.ones((20, 3))
    table[4, 1] = np.nan
    np.save(tmp_path / "t.npy", table)
    document, err = asked(call, "--in", "t.npy")
    assert err == "posenc: warning: 't.npy': left out 20 of 210 products, which are not finite\n"
    assert document["not_finite"] == 20
    assert document["toeplitz"]
    assert document["matrix"]["values"][4][0] is None
    np.save(tmp_path / "t.npy", table * np.nan)
    status, out, err = call("dot-similarity", "--in", "t.npy")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "finite" in err


def test_parts_of_a_hybrid_stand_side_by_side(call):
    document, _ = asked(call, "-s", "sinusoidal+rope+alibi", "-l", "16", "--head", "2")
    assert [part["scheme"] for part in document["parts"]] == ["sinusoidal", "rope", "alibi"]
    assert [part["head"] for part in document["parts"]] == [None, None, 2]
    status, out, _ = call("dot-similarity", "-s", "sinusoidal+rope+alibi", "-l", "16")
    assert status == 0
    assert out.count("yes, declared") == 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "verdicts"),
    [
        (
            "-s sinusoidal -l 100",
            [
                "yes, by definition",
                "symmetric: yes",
                "at offset 28, it first falls below half of the value at offset 0 (32)",
            ],
        ),
        ("-s rope -l 5", ["stays above half"]),
        ("-s t5 -l 40", ["the bucket of the offset", "symmetric: no"]),
        ("-s alibi -l 30", ["the attention weight halves at offset 2"]),
        ("-s alibi -l 30 --set form=mpt", ["same for every query", "softmax does not see"]),
        ("-s integer -l 30", ["m − n: no;", "all 465 pairs"]),
        ("-s nope -l 30", ["m − n: yes;", "decay: none, from the"]),
        ("-s learned -l 1", ["the only pair"]),
        ("-s sinusoidal -d 65 --set odd=truncate -l 60", ["m − n: no;"]),
        ("-s sinusoidal -l 1", ["yes"]),
        ("-s rope-axial --set grid=4x5 -d 16", ["m − n: no;"]),
    ],
)
def test_the_terminal_shows_map_curve_and_verdict(arguments, verdicts, call, monkeypatch):
    status, out, err = call("dot-similarity", *arguments.split())
    assert (status, err) == (0, "")
    told = " ".join(out.split())
    for each in verdicts:
        assert each in told
    assert "offset m − n" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_profile_leaves_the_map_out(call):
    _, whole, _ = call("dot-similarity", "-s", "rope", "-l", "100")
    _, curve, _ = call("dot-similarity", "-s", "rope", "-l", "100", "--profile")
    assert "by position" in whole
    assert "by position" not in curve


def test_a_sample_of_pairs_is_said(call, monkeypatch):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 50_000)
    _, out, _ = call("dot-similarity", "-s", "learned", "-l", "400")
    told = " ".join(out.split())
    assert "differ by at least" in told
    assert "of 80200 pairs, from start to end" in told


@pytest.mark.long
def test_a_figure_of_a_sample_says_so_and_breaks_where_nothing_was_measured(
    call, tmp_path, monkeypatch
):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 20_000)
    table = np.random.default_rng(0).standard_normal((3000, 16))
    of = similarity_of_array(table, "float64", name="t")
    found = verdict(of)
    for most in (40, 10_000):
        for curve in profile_figures([Judged(of, found, "t", "t")], most=most)[0].curves:
            x, y = np.array(curve.x), np.array(curve.y)
            seen = set(found.offsets.tolist())
            broken = x[np.isnan(y)]
            assert len(broken) > 3
            assert all(place in seen and place - 1 not in seen for place in broken.tolist())
    np.save(tmp_path / "t.npy", table)
    call("dot-similarity", "--in", "t.npy", "--profile", "--out", "f.svg")
    assert f"{found.pairs} of {3000 * 3001 // 2} pairs" in (tmp_path / "f.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ("", 2, "give one of them"),
        ("-s rope --in x.npy -l 4", 3, "x.npy"),
        ("-s rope -l 4 --normalize norm", 2, "--normalize 'norm': must be one of dot, cosine"),
        ("-s rope -l 4 --content zeros", 2, "--content 'zeros'"),
        ("-s sinusoidal -l 4 --content ones", 2, "--content ones applies only to rotary schemes"),
        ("-s rope -l 4 --head 0", 2, "--head 0 applies only to bias schemes"),
        ("-s alibi -l 4 --head 8", 2, "--head 8: the heads are 0 to 7"),
        ("-s alibi -l 4 --normalize cosine", 2, "--normalize cosine"),
        ("-s nope -l 4 --normalize cosine", 2, "finite"),
        ("-s rope -l 4 --dtype int8", 2, "--dtype 'int8'"),
        ("-s rope -l 4 --out s.gif", 2, ".gif"),
        ("-s rope -l 4 --out s.csv --theme dark", 2, "--theme 'dark' applies only to a picture"),
        ("-s rope -l 4 --out s.npy --width 99", 2, "--width '99' applies only to a picture"),
        (
            "-s rope -l 4 --out s.png --dtype float16",
            2,
            "--dtype 'float16' applies only to a matrix",
        ),
        ("-s rope -l 4 --dtype float32", 2, "--dtype 'float32' applies only to a matrix"),
        ("--in cube.npy", 2, "hint: save one matrix of it, array[0]"),
        ("-s rope+alibi -l 4 --out s.npy", 2, "holds one matrix"),
        ("-s rope -l 4 --out - --json", 2, "--json: stdout is used"),
        ("-s rope -l 9999999999 --out s.npy", 3, "GiB free"),
        ("-s learned -l 4000", 2, "position 3999"),
        ("--in missing.npy", 3, "missing.npy"),
        ("--in bad.csv", 2, "bad.csv"),
        ("--in line.npy", 2, "must be a matrix"),
        ("--in line.npy --head 0", 2, "--head 0 cannot go with --in"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, status, told, call, tmp_path):
    (tmp_path / "bad.csv").write_text("1,2\n3\n")
    np.save(tmp_path / "line.npy", np.ones(3))
    np.save(tmp_path / "cube.npy", np.ones((3, 3, 3)))
    before = sorted(tmp_path.iterdir())
    found, out, err = call("dot-similarity", *arguments.split())
    assert (found, out) == (status, "")
    assert told in err
    assert err.startswith("posenc: error: ")
    assert len(err.splitlines()) <= 2
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.sweep(3)
@pytest.mark.parametrize("size", [(80, 24), (60, 30), (60, 39), (60, 40), (200, 50), (120, 40)])
@pytest.mark.parametrize(
    "arguments", ["-s sinusoidal -l 512", "-s learned -l 300", "-s alibi -l 64 --profile"]
)
def test_a_screen_has_room_for_map_curve_and_verdict(size, arguments, call, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in zip(("COLUMNS", "LINES", "NO_COLOR"), (*size, 1), strict=True):
        monkeypatch.setenv(name, str(value))
    _, out, _ = call("dot-similarity", *arguments.split())
    lines = out.splitlines()
    assert max(map(len, lines)) <= size[0]
    assert 0.7 * size[1] <= len(lines) <= size[1] - 1
    told = " ".join(out.split())
    assert "offset m − n" in told
    assert "decay:" in told
    assert ("value" in told) or "--profile" in arguments


@pytest.mark.long
def test_json_of_many_offsets_has_some_and_says_of_how_many(call):
    document, _ = asked(call, "-s", "rope", "-l", "100000")
    offsets = np.array(document["offsets"])
    assert document["all_offsets"] == 2 * 100_000 - 1
    assert len(document["profile"]) == len(offsets) <= 16384
    assert (np.diff(offsets) == 13).all()
    assert document["profile"][int(np.flatnonzero(offsets == 0)[0])] == 1
    few, _ = asked(call, "-s", "rope", "-l", "100")
    assert len(few["offsets"]) == few["all_offsets"] == 199


def test_rows_of_nan_have_no_directions_to_hint_at_and_those_too_large_have(call, tmp_path):
    for value, hinted in ((np.nan, False), (1e200, True)):
        np.save(tmp_path / "t.npy", np.full((8, 4), value))
        status, _, err = call("dot-similarity", "--in", "t.npy")
        assert (status, "--normalize cosine" in err) == (2, hinted)
    np.save(tmp_path / "t.npy", np.array([[1e200, 1.0], [0.0, 0.0]]))
    _, _, err = call("dot-similarity", "--in", "t.npy")
    assert "too small" not in err
    assert "not finite" in err


def test_of_a_sample_the_products_looked_at_are_warned_of(call, tmp_path, monkeypatch):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 50_000)
    table = np.ones((2000, 3))
    table[1001] = np.nan
    np.save(tmp_path / "t.npy", table)
    _, err = asked(call, "--in", "t.npy")
    assert "sampled products, which are not finite" in err


@pytest.mark.long
def test_of_very_many_offsets_those_nearest_to_0_are_looked_at_and_that_is_said(call):
    line = ("dot-similarity", "-s", "rope", "-d", "4", "-l", "2000000", "--profile")
    said = " ".join(call(*line)[1].split())
    assert "the 2097151 of 3999999 offsets nearest to 0" in said
    drawn = " ".join(call(*line, "--content", "independent")[1].split())
    assert "of 1048576 offsets; the 2097151 of 3999999 offsets nearest to 0" in drawn
    document, _ = asked(call, "-s", "rope", "-d", "4", "-l", "2000000")
    assert (document["looked_offsets"], document["all_offsets"]) == (2097151, 3999999)


@pytest.mark.parametrize(
    ("asked", "positions"),
    [("-s rope", "0:512"), ("-s alibi", "0:512"), ("-s sinusoidal-nd --set grid=8x8", "0:64")],
)
def test_without_a_length_the_first_positions_are_compared(asked, positions, call):
    status, out, _ = call("dot-similarity", *asked.split(), "--json")
    assert status == 0
    assert json.loads(out)["positions"] == positions
