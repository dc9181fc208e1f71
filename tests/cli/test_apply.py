"""``posenc apply``: what it writes, and what it refuses."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
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


def refused(call, *arguments):
    before = sorted(os.listdir())
    status, out, err = call("apply", *arguments)
    assert (status, out) == (2, "")
    first, *rest = err.splitlines()
    assert first.startswith("posenc: error: ")
    assert not rest or (len(rest) == 1 and rest[0].startswith("hint: "))
    assert sorted(os.listdir()) == before
    return err


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


def test_positions_start_where_they_are_said_to(call, x):
    assert call("apply", "-s", "rope", "--in", "x.npy", "--start", "5", "-o", "y.npy")[0] == 0
    expected = posenc.apply(x, "rope", range(5, 15))
    assert (np.load("y.npy") == expected).all()
    asked = ("apply", "-s", "rope", "--in", "x.npy", "--positions", "5:15", "-o", "z.npy")
    assert call(*asked)[0] == 0
    assert (np.load("z.npy") == expected).all()


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


def test_a_seed_draws_x_and_keeps_it(call, x):
    del x
    how = ("-s", "rope", "-d", "8", "-l", "5", "--seed", "3", "--dtype", "bfloat16")
    out = ("-o", "pack.safetensors", "--out-x", "drawn.safetensors", "--json")
    status, text, err = call("apply", *how, *out)
    assert (status, err) == (0, "")
    document = json.loads(text)
    assert next(iter(document.items())) == ("schema", "posenc/apply/1")
    assert document["source"] == {"path": None, "seed": 3, "shape": [5, 8], "dtype": "bfloat16"}
    assert document["arrays"] == ["x", "positions", "y"]
    drawn, kept = read_array("drawn.safetensors:x"), read_array("pack.safetensors:x")
    assert drawn.dtype == kept.dtype == "bfloat16"
    assert (drawn.values == kept.values).all()
    again = ("apply", "-s", "rope", "--in", "drawn.safetensors:x", "-o", "again.safetensors")
    assert call(*again)[0] == 0
    y, z = (read_array(f"{name}.safetensors:y").values for name in ("pack", "again"))
    assert (y == z).all()


def test_bfloat16_vectors_stand_in_an_archive_of_numpy_in_float32(call, x):
    del x
    draw = ("apply", "-s", "rope", "-d", "8", "-l", "5", "--seed", "3")
    assert call(*draw, "--dtype", "bfloat16", "-o", "pack.safetensors")[0] == 0
    how = ("--in", "pack.safetensors:x", "--dtype", "float32", "-o", "y.npz")
    assert call("apply", "-s", "rope", *how)[0] == 0
    with np.load("y.npz") as pack:
        assert pack["x"].dtype == np.float32
        assert (pack["x"] == read_array("pack.safetensors:x").values).all()


def test_a_hybrid_applies_the_part_that_vectors_have(call, x):
    status, _, err = call("apply", "-s", "rope+alibi", "--in", "x.npy", "-o", "y.npy")
    assert status == 0
    assert "alibi: left out, because it changes scores, not vectors" in err
    assert (np.load("y.npy") == posenc.apply(x, "rope")).all()


def test_a_model_takes_vectors_of_its_heads(call, x):
    assert "'x.npy' has vectors of 16 columns" in refused(
        call, "-m", "llama-3-8b", "--in", "x.npy", "-o", "y.npy"
    )
    q = np.random.default_rng(0).standard_normal((2, 6, 128)).astype(np.float16)
    np.save("q.npy", q)
    assert call("apply", "-m", "llama-3-8b", "--in", "q.npy", "-o", "y.npy")[0] == 0
    assert (np.load("y.npy") == posenc.apply(q, "llama-3-8b")).all()
    how = ("--arithmetic", "float32", "-o", "z.npy")
    assert call("apply", "-m", "llama-3-8b", "--in", "q.npy", *how)[0] == 0
    assert (np.load("z.npy") == posenc.apply(q, "llama-3-8b", arithmetic="float32")).all()


OWN_SCHEMES = '''
from posenc_cli.formulas.declare import Rotation, Rows, Waves, absolute, rotary


@rotary(source="mine", formula="theta_i = 2^-i")
def mine(dim: int = 16) -> Rotation:
    """Powers of two."""
    half = dim // 2
    return Rotation(Waves(half, lambda xp: xp.asarray(2) ** -xp.arange(half)), "half")


@absolute(source="mine", formula="p/2")
def added(dim: int = 16) -> Rows:
    """Half the position."""
    return Rows(dim, lambda xp, positions, table: xp.ones(dim) * (positions / 2)[:, None])
'''


def test_schemes_of_ones_own_apply(call, x):
    Path("own.py").write_text(OWN_SCHEMES, encoding="utf-8")
    assert call("apply", "-s", "./own.py:added", "--in", "x.npy", "-o", "y.npy")[0] == 0
    halves = np.arange(10)[:, None] / 2
    assert (np.load("y.npy") == (x.astype(np.float64) + halves).astype(np.float32)).all()
    assert call("apply", "-s", "./own.py:mine", "--in", "x.npy", "-o", "z.npy")[0] == 0
    angles = np.arange(10)[:, None] * 2.0 ** -np.arange(8)
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    turned = [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
    assert np.allclose(np.load("z.npy"), np.concatenate(turned, axis=-1), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "-s alibi --in x.npy -o y.npy",
            "is an attention bias, which does not apply to vectors",
        ),
        (
            "-s alibi+t5 --in x.npy -o y.npy",
            "is an attention bias, which does not apply to vectors",
        ),
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
def test_what_cannot_be_applied_is_one_line(call, x, arguments, message):
    np.save("whole.npy", np.arange(32).reshape(2, 16))
    np.save("complex.npy", x.astype(np.complex64))
    np.save("row.npy", x[0, 0, 0])
    assert message in refused(call, *arguments.split())


def test_the_time_that_is_told_is_from_reading_to_writing(call, x, monkeypatch):
    clock = SimpleNamespace(perf_counter=itertools.count(1000, 0.25).__next__)
    monkeypatch.setattr("posenc_cli.cli.commands.generate.time", clock)
    status, _, err = call("apply", "-s", "rope", "--in", "x.npy", "--out", "y.npy")
    assert status == 0
    assert " bytes in 0.25 s" in err


def test_without_a_length_512_vectors_are_drawn(call):
    out = call("apply", "-s", "rope", "--seed", "1", "-o", "y.npy", "--json")[1]
    assert json.loads(out)["shape"] == [512, 64]


@pytest.mark.parametrize(
    ("scheme", "columns", "hint"),
    [("rope", 63, ""), ("rope", 16, "hint: --dim 16\n"), ("learned", 63, "hint: --dim 63\n")],
)
def test_the_hint_at_the_columns_of_x_works(scheme, columns, hint, call, x):
    np.save("other.npy", np.ones((4, columns), np.float32))
    err = refused(call, "-s", scheme, "-d", "64", "--in", "other.npy", "-o", "y.npy")
    assert err.partition("\n")[2] == hint
    if hint:
        words = hint.split()[1:]
        assert call("apply", "-s", scheme, *words, "--in", "other.npy", "-o", "y.npy")[0] == 0
