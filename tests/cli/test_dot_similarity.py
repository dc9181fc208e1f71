"""``posenc dot-similarity``: the verdict, the files it writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.analysis.similarity import similarity_of_array
from posenc_cli.analysis.verdict import verdict
from posenc_cli.files.reading import read_array
from posenc_cli.render.figures.similarities import Judged, profile_figures
from tests.matrices import matrix


def asked(call, *arguments):
    """The document, and what is said beside it."""
    status, out, err = call("dot-similarity", *arguments, "--json")
    assert status == 0, err
    return json.loads(out), err


def test_json_carries_the_profile_and_the_verdict(document):
    found = document("dot-similarity", "-s", "sinusoidal", "-l", "64", "-d", "16")
    table = matrix("sinusoidal", "0:64", dtype="float64", dim=16)
    assert found["offsets"] == list(range(-63, 64))
    expected = table @ table[0]
    np.testing.assert_allclose(found["profile"][63:], expected, atol=1e-13)
    np.testing.assert_allclose(found["profile"][::-1], found["profile"])
    told = ("toeplitz", "toeplitz_spread", "tolerance", "symmetric", "peak", "evidence")
    assert [found[name] for name in told] == [True, 0.0, 0.0, True, 8.0, "declaration"]
    assert found["half_distance"] == int(np.flatnonzero(expected < 4)[0])
    assert (found["scheme"], found["params"]["dim"]) == ("sinusoidal", 16)
    assert found["positions"] == "0:64"
    np.testing.assert_allclose(found["matrix"]["values"], table @ table.T, atol=1e-13)
    assert found["matrix"]["rows"] == found["matrix"]["columns"] == list(range(64))


def test_json_of_a_table_that_is_not_relative_has_its_extremes(document):
    found = document("dot-similarity", "-s", "learned", "-l", "30", "-d", "4")
    squares = (matrix("learned", "0:30", dtype="float64", dim=4) ** 2).sum(axis=1)
    assert (found["toeplitz"], found["evidence"]) == (False, "measured")
    assert found["pairs"] == found["all_pairs"] == 30 * 31 // 2
    assert found["extremes"]["least"][29] == pytest.approx(squares.min())
    assert found["extremes"]["most"][29] == pytest.approx(squares.max())
    assert found["profile"][29] == found["peak"] == pytest.approx(squares.mean())
    assert found["toeplitz_spread"] > found["tolerance"] > 0


def test_out_writes_the_matrix_in_every_format(call):
    table = matrix("sinusoidal", "0:20", dtype="float64")
    asked = ("dot-similarity", "-s", "sinusoidal", "-l", "20")
    names = ("s.npy", "s.csv", "s.npz", "s.safetensors")
    for name in names:
        status, out, err = call(*asked, "--out", name)
        assert (status, out) == (0, "")
        assert "20 × 20 float32" in err
    first, *others = (read_array(name).values for name in names)
    for values in (first, *others):
        np.testing.assert_array_equal(values.astype(np.float32), first)
    np.testing.assert_allclose(first, table @ table.T, rtol=2**-23)
    found = json.loads(call(*asked, "--dtype", "float64", "--out", "s.npy", "--json")[1])
    np.testing.assert_allclose(np.load("s.npy"), table @ table.T, rtol=0, atol=1e-12)
    assert (found["path"], found["bytes"]) == ("s.npy", Path("s.npy").stat().st_size)
    assert found["peak"] == 32


def test_profile_writes_the_values_by_offset(call, tmp_path):
    for name in ("p.csv", "p.npy"):
        call("dot-similarity", "-s", "sinusoidal", "-l", "20", "--profile", "--out", name)
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "offset,d0"
    offsets, values = np.loadtxt(lines[1:], delimiter=",", unpack=True)
    assert offsets.tolist() == list(range(-19, 20))
    np.testing.assert_array_equal(np.load("p.npy"), values.astype(np.float32))
    assert values[19] == 32


@pytest.mark.parametrize("scheme", ["alibi", "t5"])
def test_a_bias_is_what_generate_writes(scheme, call, document):
    asked = ("-s", scheme, "-l", "40", "--head", "3", "--out")
    call("generate", *asked, "bias.npy")
    call("dot-similarity", *asked, "same.npy")
    np.testing.assert_array_equal(np.load("bias.npy"), np.load("same.npy"))
    found = document("dot-similarity", "-s", scheme, "-l", "40")
    assert (found["head"], found["half_of"]) == (0, "attention weight")


def test_files_are_looked_at_as_they_are(tmp_path, document):
    table = matrix("sinusoidal", "0:50", dtype="float32", dim=8)
    np.save(tmp_path / "t.npy", table)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    for name in ("t.npy", "t.csv"):
        found = document("dot-similarity", "--in", name)
        assert (found["in"], found["shape"]) == (name, [50, 8])
        np.testing.assert_allclose(found["profile"][49], 4, atol=1e-6)
    for name, relative in (("t.npy", True), ("t.csv", False)):  # text does not say its rounding
        assert document("dot-similarity", "--in", name)["toeplitz"] is relative
    cosine = document("dot-similarity", "--in", "t.npy", "--normalize", "cosine")
    assert cosine["peak"] == pytest.approx(1)


def test_values_that_are_not_finite_are_null_and_told(call, tmp_path):
    table = np.ones((20, 3))
    table[4, 1] = np.nan
    np.save(tmp_path / "t.npy", table)
    found, err = asked(call, "--in", "t.npy")
    assert err == "posenc: warning: 't.npy': left out 20 of 210 products, which are not finite\n"
    assert found["not_finite"] == 20
    assert found["toeplitz"]
    assert found["matrix"]["values"][4][0] is None


def test_parts_of_a_hybrid_stand_side_by_side(document, printed):
    found = document("dot-similarity", "-s", "sinusoidal+rope+alibi", "-l", "16", "--head", "2")
    assert [part["scheme"] for part in found["parts"]] == ["sinusoidal", "rope", "alibi"]
    assert [part["head"] for part in found["parts"]] == [None, None, 2]
    out = printed("dot-similarity", "-s", "sinusoidal+rope+alibi", "-l", "16")
    assert out.count("yes, declared") == 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "verdicts"),
    [
        (
            "-s sinusoidal -l 100",
            ["yes, by definition", "symmetric: yes", "at offset 28, it first falls below half of"],
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
def test_the_terminal_shows_map_curve_and_verdict(arguments, verdicts, printed):
    out = printed("dot-similarity", *arguments.split(), err="")
    told = " ".join(out.split())
    for each in verdicts:
        assert each in told
    assert "offset m − n" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_profile_leaves_the_map_out(call):
    for more, mapped in (((), True), (("--profile",), False)):
        out = call("dot-similarity", "-s", "rope", "-l", "100", *more)[1]
        assert ("by position" in out) is mapped


def test_a_sample_of_pairs_is_said(call, monkeypatch):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 50_000)
    told = " ".join(call("dot-similarity", "-s", "learned", "-l", "400")[1].split())
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
        ("-s sinusoidal -l 4 --content ones", 2, "--content ones applies only to rotary schemes"),
        ("-s rope -l 4 --head 0", 2, "--head 0 applies only to bias schemes"),
        ("-s alibi -l 4 --head 8", 2, "--head 8: the heads are 0 to 7"),
        ("-s alibi -l 4 --normalize cosine", 2, "--normalize cosine"),
        ("-s nope -l 4 --normalize cosine", 2, "finite"),
        ("-s rope -l 4 --out s.gif", 2, ".gif"),
        ("-s rope -l 4 --out s.csv --theme dark", 2, "--theme 'dark' applies only to a picture"),
        ("-s rope -l 4 --out s.png --dtype float16", 2, "--dtype 'float16' applies only to a"),
        ("-s rope -l 4 --dtype float32", 2, "--dtype 'float32' applies only to a matrix"),
        ("--in cube.npy", 2, "hint: save one matrix of it, array[0]"),
        ("-s rope+alibi -l 4 --out s.npy", 2, "holds one matrix"),
        ("-s rope -l 4 --out - --json", 2, "--json: stdout is used"),
        ("-s rope -l 9999999999 --out s.npy", 3, "GiB free"),
        ("-s learned -l 4000", 2, "position 3999"),
        ("--in bad.csv", 2, "bad.csv"),
        ("--in line.npy --head 0", 2, "--head 0 cannot go with --in"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, status, told, refused):
    Path("bad.csv").write_text("1,2\n3\n")
    np.save("line.npy", np.ones(3))
    np.save("cube.npy", np.ones((3, 3, 3)))
    assert told in refused("dot-similarity", *arguments.split(), status=status)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("size", [(80, 24), (60, 30), (60, 39), (60, 40), (200, 50), (120, 40)])
@pytest.mark.parametrize(
    "arguments", ["-s sinusoidal -l 512", "-s learned -l 300", "-s alibi -l 64 --profile"]
)
def test_a_screen_has_room_for_map_curve_and_verdict(size, arguments, call, screen):
    screen(*size)
    _, out, _ = call("dot-similarity", *arguments.split())
    lines = out.splitlines()
    assert max(map(len, lines)) <= size[0]
    assert 0.7 * size[1] <= len(lines) <= size[1] - 1
    told = " ".join(out.split())
    assert "offset m − n" in told
    assert "decay:" in told
    assert ("value" in told) or "--profile" in arguments


@pytest.mark.long
def test_json_of_many_offsets_has_some_and_says_of_how_many(document):
    found = document("dot-similarity", "-s", "rope", "-l", "100000")
    offsets = np.array(found["offsets"])
    assert found["all_offsets"] == 2 * 100_000 - 1
    assert len(found["profile"]) == len(offsets) <= 16384
    assert (np.diff(offsets) == 13).all()
    assert found["profile"][int(np.flatnonzero(offsets == 0)[0])] == 1
    few = document("dot-similarity", "-s", "rope", "-l", "100")
    assert len(few["offsets"]) == few["all_offsets"] == 199


@pytest.mark.parametrize(("value", "hinted"), [(np.nan, False), (1e200, True)])
def test_rows_of_nan_have_no_directions_to_hint_at_and_those_too_large_have(value, hinted, refused):
    np.save("t.npy", np.full((8, 4), value))
    err = refused("dot-similarity", "--in", "t.npy")
    assert ("--normalize cosine" in err, "too small" in err) == (hinted, False)
    assert "finite" in err


def test_one_product_that_is_too_large_is_not_called_too_small(call):
    np.save("t.npy", np.array([[1e200, 1.0], [0.0, 0.0]]))
    err = call("dot-similarity", "--in", "t.npy")[2]
    assert ("too small" in err, "not finite" in err) == (False, True)


def test_of_a_sample_the_products_looked_at_are_warned_of(call, tmp_path, monkeypatch):
    monkeypatch.setattr("posenc_cli.analysis.verdict.PRODUCTS", 50_000)
    table = np.ones((2000, 3))
    table[1001] = np.nan
    np.save(tmp_path / "t.npy", table)
    _, err = asked(call, "--in", "t.npy")
    assert "sampled products, which are not finite" in err


@pytest.mark.long
def test_of_very_many_offsets_those_nearest_to_0_are_looked_at_and_that_is_said(call, document):
    line = ("dot-similarity", "-s", "rope", "-d", "4", "-l", "2000000", "--profile")
    assert "the 2097151 of 3999999 offsets nearest to 0" in " ".join(call(*line)[1].split())
    drawn = " ".join(call(*line, "--content", "independent")[1].split())
    assert "of 1048576 offsets; the 2097151 of 3999999 offsets nearest to 0" in drawn
    found = document("dot-similarity", "-s", "rope", "-d", "4", "-l", "2000000")
    assert (found["looked_offsets"], found["all_offsets"]) == (2097151, 3999999)


@pytest.mark.parametrize(
    ("asked", "positions"), [("-s alibi", "0:512"), ("-s sinusoidal-nd --set grid=8x8", "0:64")]
)
def test_without_a_length_the_first_positions_are_compared(asked, positions, document):
    assert document("dot-similarity", *asked.split())["positions"] == positions
