"""``posenc resize``: what it writes, what stays as it was, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.files.reading import read_array

VIT = 14, 14


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of 1 + 14 · 14 positions in the current folder."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(7).standard_normal((1, 197, 6)).astype(np.float32)
    np.save("vit.npy", values)
    return values


def test_a_grid_is_resized_after_its_prefix_and_keeps_the_leading_axis(call, table):
    asked = ("--grid", "14x14:16x12", "--prefix", "1", "-o", "new.npy")
    status, out, err = call("resize", "vit.npy", *asked)
    assert (status, out) == (0, "")
    assert "bicubic 14x14 to 16x12, 1 row kept, 1 × 193 × 6 float32" in err
    written = np.load("new.npy")
    assert written.dtype == np.float32
    assert written.shape == (1, 193, 6)
    assert (written[0, 0] == table[0, 0]).all()
    assert (written == posenc.resize(table, grid=(VIT, (16, 12)), prefix=1)).all()


def test_a_length_is_that_of_the_positions_beside_the_prefix(table, document):
    how = ["--len", "400", "--prefix", "1", "--out", "longer.npy"]
    found = document("resize", "vit.npy", *how)
    expected = {
        "source": {"path": "vit.npy", "shape": [1, 197, 6], "dtype": "float32"},
        "from": [196],
        "to": [400],
        "method": "linear",
        "prefix": 1,
        "antialias": False,
        "interpolate_offset": 0.0,
        "arithmetic": "exact",
        "shape": [1, 401, 6],
        "dtype": "float32",
        "path": "longer.npy",
        "format": "npy",
    }
    assert {key: found[key] for key in expected} == expected
    assert found["bytes"] == Path("longer.npy").stat().st_size
    assert (np.load("longer.npy") == posenc.resize(table, 400, prefix=1)).all()


@pytest.mark.long
def test_options_of_models_reach_the_arithmetic(call, table):
    common = ["resize", "vit.npy", "--grid", "14x14:9x20", "--prefix", "1", "-q"]
    ways = {
        "timm": (["--antialias"], {"antialias": True}),
        "dinov2": (["--interpolate-offset", "0.1"], {"interpolate_offset": 0.1}),
        "nearest": (["--method", "nearest"], {"method": "nearest"}),
        "torch": (["--arithmetic", "float32"], {"arithmetic": "float32"}),
    }
    made = []
    for name, (arguments, keywords) in ways.items():
        assert call(*common, *arguments, "-o", f"{name}.npy") == (0, "", "")
        made.append(np.load(f"{name}.npy"))
        expected = posenc.resize(table, grid=(VIT, (9, 20)), prefix=1, **keywords)
        assert (made[-1] == expected).all()
    assert len({array.tobytes() for array in made}) == len(made)


def test_a_tensor_of_a_checkpoint_is_chosen_by_name_and_keeps_its_format(call, table, refused):
    np.savez("both.npz", first=table[0], other=table[0, :5])
    assert call("resize", "both.npz:other", "--len", "9", "-qo", "x.safetensors")[0] == 0
    assert read_array("x.safetensors:other").values.shape == (9, 6)
    np.savez("odd.npz", **{"metadata": table[0], "é/x": table[0]})
    for name in ("metadata", "é/x"):
        assert call("resize", f"odd.npz:{name}", "--len", "9", "-qo", "y.npz")[0] == 0
        assert read_array("y.npz:encoding").values.shape == (9, 6)
    half = ["resize", "vit.npy", "--len", "4", "--dtype", "bfloat16", "-qo", "half.safetensors"]
    assert call(*half)[0] == 0
    assert call("resize", "half.safetensors", "--len", "8", "-qo", "again.safetensors")[0] == 0
    again, values = read_array("again.safetensors"), read_array("half.safetensors").values
    assert again.dtype == "bfloat16"
    exact = (3 * values[..., 0:1, :].astype(float) + values[..., 1:2, :]) / 4
    assert np.abs(again.values[..., 1:2, :] - exact).max() <= 2.0**-8 * np.abs(exact).max()
    assert "bfloat16" in refused("resize", "half.safetensors", "--len", "8", "-o", "again.npy")


def test_text_comes_and_goes(call, table):
    Path("table.csv").write_text("0,1\n1,3\n")
    status, out, err = call("resize", "table.csv", "--len", "4", "--out", "-", "--format", "csv")
    assert status == 0
    assert out == "0.0,1.0\n0.25,1.5\n0.75,2.5\n1.0,3.0\n"
    assert "wrote to standard output" in err


def test_rows_that_are_no_grid_are_told_with_a_prefix_that_fits(table, refused):
    err = refused("resize", "vit.npy", "--grid", "14x14:16x12", "-o", "x.npy")
    assert "--grid 14x14 takes 196 rows, and 'vit.npy' has 197" in err
    assert "hint: 197 rows are 14x14 and 1 more: --prefix 1" in err
    err = refused("resize", "vit.npy", "--grid", "16x16:24x24", "--prefix", "1", "-o", "x.npy")
    assert "takes 256 rows after --prefix 1, and 'vit.npy' has 196" in err
    assert "hint: 197 rows are 14x14 and 1 more: --grid 14x14:24x24 --prefix 1" in err
    err = refused("resize", "vit.npy", "--grid", "13x14:24x24", "--prefix", "1", "-o", "x.npy")
    assert "hint: 197 rows are 14x14 and 1 more: --grid 14x14:24x24 --prefix 1" in err
    err = refused("resize", "vit.npy", "--grid", "14x14:24x24", "--prefix", "2", "-o", "x.npy")
    assert "hint: 197 rows are 14x14 and 1 more: --prefix 1" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--len 9", "--out is missing"),
        ("-o x.npy", "--len and --grid: neither is given"),
        ("--len 9 --grid 14x14:1x1 -o x.npy", "--len and --grid: are both given"),
        ("--len 0 -o x.npy", "--len 0: must be at least 1"),
        ("--len 9 --prefix 197 -o x.npy", "--prefix 197: 'vit.npy' has 197 rows"),
        ("--grid 14x14 -o x.npy", "must be AxB:CxD"),
        ("--grid 2x7x14:2x2x2 -o x.npy", "must be AxB:CxD"),
        ("--len 9 --method cubic -o x.npy", "--method 'cubic': must be one of linear, bicubic"),
        ("--len 9 --method nearest --antialias -o x.npy", "--antialias cannot go with"),
        ("--len 9 --interpolate-offset 0.1 -o x.npy", "--interpolate-offset needs --grid"),
        ("--grid 14x14:9x9 --interpolate-offset 1 -o x.npy", "from 0 to below 1"),
        ("--grid 14x14:9x9 --interpolate-offset nan -o x.npy", "from 0 to below 1"),
        (
            "--grid 14x14:9x9 --prefix 1 --interpolate-offset 0.9999999999999999 -o x.npy",
            "torch would make 10 of 14 rows, not 9",
        ),
        ("--len 9 -o vit.npy", "this command reads that file"),
        ("--len 9 -o x.png", ".png"),
        ("--len 9 --json -o -", "--json"),
    ],
)
def test_wrong_options_are_one_line(table, arguments, message, refused):
    assert message in refused("resize", "vit.npy", *arguments.split())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3, 4)), "its shape is 2×3×4"),
        (np.zeros(5), "its shape is 5"),
        (np.array([[1.0, np.nan]]), "holds NaN or infinity"),
        (np.ones((3, 2), complex), "not complex numbers"),
    ],
)
def test_arrays_that_are_no_tables_are_refused(tmp_path, monkeypatch, values, message, refused):
    monkeypatch.chdir(tmp_path)
    np.save("vit.npy", values)
    assert message in refused("resize", "vit.npy", "--len", "9", "-o", "x.npy")


def test_one_row_and_one_position_are_sizes_like_others(call, table):
    np.save("one.npy", table[0, :1])
    assert call("resize", "one.npy", "--len", "3", "-qo", "three.npy")[0] == 0
    assert (np.load("three.npy") == table[0, :1]).all()
    assert call("resize", "three.npy", "--len", "1", "-qo", "back.npy")[0] == 0
    assert (np.load("back.npy") == table[0, :1]).all()
