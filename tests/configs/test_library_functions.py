"""``--like`` makes the tables of real libraries' functions, which docs/conventions.md lists.

tests/golden/conventions.npz holds rows that each library's own code gave (tools/conventions.py).
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.configs.library import find_function, function_names
from tools import conventions

GOLDEN = Path(__file__).parents[1] / "golden" / "conventions.npz"
with np.load(GOLDEN) as arrays:
    TABLES = {name: arrays[name] for name in arrays.files}

STEEP = {"torchtitan:timestep_embedding": 1000.0, "timm:build_rotary_pos_embed": math.pi * 112}
"""Functions whose largest angle of a position, or coordinate of 1, is not a radian."""


def tolerance(name: str) -> float:
    """What float32 may lose: a rounding of the frequency and one of the angle, and some of each."""
    furthest = 23 + find_function(name).start + 1
    return 2.0**-22 * (1 + furthest * STEEP.get(name, 1.0))


def test_each_function_was_run_and_its_rows_are_kept():
    facts = json.loads(conventions.STATEMENT.read_text("utf-8"))["cases"]
    assert sorted(function_names()) == sorted(TABLES) == sorted(conventions.CALLS) == sorted(facts)


@pytest.mark.long
@pytest.mark.parametrize("name", function_names())
def test_like_makes_the_table_of_the_library(name, call):
    start = find_function(name).start
    places = ",".join(str(start + place) for place in conventions.KEPT)
    status, out, err = call("generate", "--like", name, "--positions", places, "--out", "a.npy")
    assert (status, out) == (0, ""), err
    table, peers = np.load("a.npy"), TABLES[name]
    if peers.ndim == 3:
        assert np.load("a.npy").shape == peers.shape
    np.testing.assert_allclose(table, peers, rtol=0, atol=tolerance(name))


DISTINCT = {str(find_function(name)): name for name in function_names()}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT.values())
def test_identify_knows_each_table(name, call):
    grid = conventions.CALLS[name].grid
    assert call("generate", "--like", name, *(() if grid else ("-l", "24")), "-o", "a.npy")[0] == 0
    status, out, _ = call("identify", "a.npy", "--json")
    assert (status, json.loads(out)["ok"]) == (0, True)


def test_another_denominator_is_no_table_of_the_library(call):
    """The tolerance is far below the smallest difference between two conventions."""
    status, _, _ = call(
        *("generate", "--like", "openai-whisper:sinusoids", "--positions", "0,1,2,7,23"),
        *("--set", "spacing=vaswani", "--out", "a.npy"),
    )
    peers = TABLES["openai-whisper:sinusoids"]
    assert status == 0
    assert np.abs(np.load("a.npy") - peers).max() > 1000 * tolerance("openai-whisper:sinusoids")


def test_other_options_replace_what_the_function_does(call):
    name = "diffusers:get_1d_sincos_pos_embed_from_grid"
    options = ("--dim", "8", "--base", "500", "--len", "5", "--out")
    assert call("generate", "--like", name, *options, "a.npy")[0] == 0
    concat = ("-s", "sinusoidal", "--layout", "concat")
    assert call("generate", *concat, *options, "b.npy")[0] == 0
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes()


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        ((), "2:514"),
        (("--len", "3"), "2:5"),
        (("--len", "3", "--start", "0"), "0:3"),
        (("--positions", "7"), "7"),
    ],
)
def test_positions_begin_where_the_function_counts_from(options, positions, call):
    name = "fair-esm:SinusoidalPositionalEmbedding"
    status, out, _ = call("generate", "--like", name, *options, "--out", "a.npy", "--json")
    written = json.loads(out)
    assert (status, written["positions"], written["like"]) == (0, positions, name)


def test_the_table_of_a_rotation_is_the_function_s_unless_another_is_asked_for(call):
    like = ("generate", "--like", "litgpt:build_rope_cache", "--len", "2", "--out", "a.npy")
    assert json.loads(call(*like, "--json")[1])["table"] == "cos-full"
    assert json.loads(call(*like, "--json", "--table", "sin")[1])["table"] == "sin"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--like", "x"), "--like 'x': no library's function of that name is known\n"),
        (("--like", "mlx:RoPE", "-s", "rope"), "--like and --scheme: give one of them\n"),
        (("--like", "mlx:RoPE", "--as", "vllm"), "--as 'vllm' needs --config or --model\n"),
        (("--like", "mlx:RoPE", "--set", "grid=2x2"),
         "--set grid: rope has no parameter 'grid'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(options, message, call):
    status, out, err = call("generate", *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"posenc: error: {message}")


def test_a_name_of_nothing_is_told_how_to_list_what_there_is(call):
    hint = call("generate", "--like", "x")[2].splitlines()[1]
    assert hint.startswith("hint: --like PACKAGE lists the functions of a package: OpenNMT-py, ")
    assert {name.partition(":")[0] for name in function_names()} <= {
        *hint.split(": ")[2].split(", ")
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mlx:zzzz", "posenc knows mlx:ALiBi, mlx:RoPE, mlx:SinusoidalPositionalEncoding"),
        ("difusers:x", "did you mean 'diffusers'?"),
        ("mlx:Rope", "did you mean 'mlx:RoPE'?"),
    ],
)
def test_a_name_that_is_not_known_has_a_hint(name, hint, call):
    assert call("generate", "--like", name)[2].splitlines()[1] == f"hint: {hint}"


@pytest.mark.long
def test_the_page_says_what_was_measured():
    assert conventions.PAGE.read_text("utf-8") == conventions.page()
