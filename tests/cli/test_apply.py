"""``posenc apply``: what it writes, and what it refuses."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.files.reading import read_array


@pytest.fixture
def x(tmp_path, monkeypatch):
    """Vectors of 2 · 3 stacks of 10 positions in the current folder."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(7).standard_normal((2, 3, 10, 16)).astype(np.float32)
    np.save("x.npy", values)
    return values


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("rope", {}), ("sinusoidal", {}), ("learned", {"seed": 4}), ("xpos", {"side": "key"})],
)
def test_the_result_has_the_shape_and_the_dtype_of_x(call, x, scheme, given):
    settings = [text for name, value in given.items() for text in ("--set", f"{name}={value}")]
    status, out, err = call("apply", "-s", scheme, *settings, "--in", "x.npy", "-o", "y.npy")
    assert (status, out) == (0, "")
    assert "2 × 3 × 10 × 16 float32" in err
    written = np.load("y.npy")
    assert written.dtype == np.float32
    assert (written == posenc.apply(x, scheme, **given)).all()


@pytest.mark.parametrize("where", [("--start", "5"), ("--positions", "5:15")])
def test_positions_start_where_they_are_said_to(call, x, where):
    assert call("apply", "-s", "rope", "--in", "x.npy", *where, "-o", "y.npy")[0] == 0
    assert (np.load("y.npy") == posenc.apply(x, "rope", range(5, 15))).all()


def test_an_archive_holds_x_positions_and_y(call, x):
    assert call("apply", "-s", "rope", "--in", "x.npy", "--start", "3", "-o", "pack.npz")[0] == 0
    with np.load("pack.npz") as pack:
        assert (pack["x"] == x).all()
        assert pack["positions"].tolist() == list(range(3, 13))
        assert (pack["y"] == posenc.apply(pack["x"], "rope", pack["positions"])).all()
        assert json.loads(str(pack["metadata"]))["scheme"] == "rope"
    how = ("--positions", "0:5:0.5", "-o", "parts.safetensors")
    assert call("apply", "-s", "rope", "--in", "x.npy", *how)[0] == 0
    assert read_array("parts.safetensors:positions").values.tolist() == [i / 2 for i in range(10)]
    again = ("apply", "-s", "rope", "--in", "pack.npz:x", "--start", "3", "-o", "again.npy")
    assert call(*again)[0] == 0
    assert (np.load("again.npy") == np.load("pack.npz")["y"]).all()


def test_a_seed_draws_x_and_keeps_it(call, document):
    how = ("-s", "rope", "-d", "8", "-l", "5", "--seed", "3", "--dtype", "bfloat16")
    told = document("apply", *how, "-o", "pack.safetensors", "--out-x", "drawn.safetensors")
    assert told["source"] == {"path": None, "seed": 3, "shape": [5, 8], "dtype": "bfloat16"}
    assert told["arrays"] == ["x", "positions", "y"]
    drawn, kept = read_array("drawn.safetensors:x"), read_array("pack.safetensors:x")
    assert drawn.dtype == kept.dtype == "bfloat16"
    assert (drawn.values == kept.values).all()
    again = ("apply", "-s", "rope", "--in", "drawn.safetensors:x", "-o", "again.safetensors")
    assert call(*again)[0] == 0
    y, z = (read_array(f"{name}.safetensors:y").values for name in ("pack", "again"))
    assert (y == z).all()
    wide = ("--in", "pack.safetensors:x", "--dtype", "float32", "-o", "y.npz")
    assert call("apply", "-s", "rope", *wide)[0] == 0
    with np.load("y.npz") as pack:  # NumPy has no bfloat16
        assert pack["x"].dtype == np.float32
        assert (pack["x"] == kept.values).all()


def test_a_hybrid_applies_the_part_that_vectors_have(call, x):
    status, _, err = call("apply", "-s", "rope+alibi", "--in", "x.npy", "-o", "y.npy")
    assert status == 0
    assert "alibi: left out, because it changes scores, not vectors" in err
    assert (np.load("y.npy") == posenc.apply(x, "rope")).all()


def test_a_model_takes_vectors_of_its_heads(call, x, refused):
    asked = ("apply", "-m", "llama-3-8b", "--in")
    assert "'x.npy' has vectors of 16 columns" in refused(*asked, "x.npy", "-o", "y.npy")
    q = np.random.default_rng(0).standard_normal((2, 6, 128)).astype(np.float16)
    np.save("q.npy", q)
    for more, given in (((), {}), (("--arithmetic", "float32"), {"arithmetic": "float32"})):
        assert call(*asked, "q.npy", *more, "-o", "y.npy")[0] == 0
        assert (np.load("y.npy") == posenc.apply(q, "llama-3-8b", **given)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-s alibi --in x.npy -o y.npy", "is an attention bias, which does not apply to vectors"),
        ("-s shaw --in x.npy -o y.npy", "is a relative encoding"),
        ("-s sinusoidal+rope --in x.npy -o y.npy", "both apply to vectors"),
        ("-s rope -d 8 --in x.npy -o y.npy", "has vectors of 16 columns, but rope has 8"),
        ("-s rope --len 9 --in x.npy -o y.npy", "--len 9: 9 positions"),
        ("-s rope --in x.npy", "--out is missing"),
        ("-s rope -o y.npy", "--in and --seed: neither"),
        ("-s rope --in x.npy --seed 1 -o y.npy", "--in and --seed: are both"),
        ("-s rope --seed 18446744073709551616 -l 4 -o y.npy", "--seed 18446744073709551616"),
        ("-s rope --in x.npy --out-x z.npy -o y.npy", "--out-x needs --seed"),
        ("-s rope --seed 1 -l 4 --out-x y.npy -o y.npy", "--out-x 'y.npy' is the file of --out"),
        ("-s rope --seed 1 -l 4 --out-x ./y.npy -o y.npy", "'./y.npy' is the file of --out"),
        ("-s rope --in x.npy -o x.npy", "x.npy"),
        ("-s rope --in whole.npy -o y.npy", "holds int64"),
        ("-s rope --in complex.npy -o y.npy", "complex numbers"),
        ("-s rope --in row.npy -o y.npy", "(…, positions, columns)"),
        ("-s rope --in x.npy --dtype bfloat16 -o y.npy", "npy cannot hold bfloat16"),
        ("-s sinusoidal-nd --set grid=2x4 --in x.npy -o y.npy", "position 9"),
    ],
)
def test_what_cannot_be_applied_is_one_line(refused, x, arguments, message):
    np.save("whole.npy", np.arange(32).reshape(2, 16))
    np.save("complex.npy", x.astype(np.complex64))
    np.save("row.npy", x[0, 0, 0])
    assert message in refused("apply", *arguments.split())


def test_the_time_that_is_told_is_from_reading_to_writing(call, x, monkeypatch):
    clock = SimpleNamespace(perf_counter=itertools.count(1000, 0.25).__next__)
    monkeypatch.setattr("posenc_cli.cli.commands.generate.time", clock)
    status, _, err = call("apply", "-s", "rope", "--in", "x.npy", "--out", "y.npy")
    assert status == 0
    assert " bytes in 0.25 s" in err


@pytest.mark.parametrize(
    ("scheme", "columns", "hint"),
    [("rope", 63, None), ("rope", 16, "--dim 16"), ("learned", 63, "--dim 63")],
)
def test_the_hint_at_the_columns_of_x_works(scheme, columns, hint, call, refused):
    np.save("other.npy", np.ones((4, columns), np.float32))
    asked = ("apply", "-s", scheme, "--in", "other.npy", "-o", "y.npy")
    assert refused(*asked, "-d", "64").partition("\n")[2] == (f"hint: {hint}\n" if hint else "")
    assert hint is None or call(*asked, *hint.split())[0] == 0
