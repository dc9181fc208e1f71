"""Rows at evenly spaced positions of any start and step: timesteps, offsets, fractions."""

import json
import math
import shlex

import numpy as np
import pytest

from posenc_cli import encode
from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from posenc_cli.positions import Positions

F32 = np.float32


def timesteps(steps, dim, *, flip=False, shift=1.0, scale=1.0):
    """As diffusers' get_timestep_embedding computes it in float32."""
    half = dim // 2
    exponents = (F32(-math.log(10_000)) * np.arange(half, dtype=F32)) / F32(half - shift)
    angles = F32(scale) * (np.asarray(steps, F32)[:, None] * np.exp(exponents))
    parts = [np.cos(angles), np.sin(angles)] if flip else [np.sin(angles), np.cos(angles)]
    table = np.concatenate(parts, axis=1)
    return np.pad(table, [(0, 0), (0, dim % 2)])


def relative(length, dim):
    """As espnet's RelPositionalEncoding, and transformers' Parakeet: offsets L−1 … −(L−1)."""
    places = np.arange(length - 1, -length, -1).astype(F32)
    angles = places[:, None] * np.exp(np.arange(0, dim, 2).astype(F32) * F32(-math.log(1e4) / dim))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(1, -1, dim)


def sinusoids(places, dim, *, concat=False):
    angles = np.multiply.outer(
        np.asarray(places, float), 10_000 ** -(np.arange(dim // 2) * 2 / dim)
    )
    parts = [np.sin(angles), np.cos(angles)]
    if concat:
        return np.concatenate(parts, axis=1)
    return np.stack(parts, axis=-1).reshape(angles.shape[0], dim)


def found_in(table):
    return identify(Evidence.of_arrays(table)).match


def written_again(call, tmp_path, found):
    """What the printed command writes."""
    (command,) = found.commands
    assert call(*shlex.split(command)[1:], "--out", "again.npy")[0] == 0
    return np.load(tmp_path / "again.npy")


@pytest.mark.long
def test_rows_at_the_squares_are_named_and_written_again(call, tmp_path):
    angles = np.multiply.outer(np.arange(256) ** 2, 1e4 ** -(np.arange(16) / 16))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    np.save(tmp_path / "table.npy", table)
    status, out, _ = call("identify", "table.npy")
    assert status == 0
    assert "with rows at positions 0, 1, 4, 9 …" in " ".join(out.split())
    assert np.array_equal(written_again(call, tmp_path, found_in(table)), table)


SCHEDULES = {
    "leading": (np.arange(981, -1, -20), "981:-19:-20"),
    "linspace": (np.linspace(999, 0, 50), "999:-999/49:-999/49"),
    "trailing": (np.arange(1000, 0, -1000 / 30), "1000:0:-100/3"),
    "rising": (np.arange(1, 1000, 111), "1:1000:111"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("dim", "given"), [(33, {}), (64, {"flip": True, "shift": 0.0})])
def test_the_timesteps_of_a_schedule_are_read_off(call, tmp_path, name, dim, given):
    steps, text = SCHEDULES[name]
    table = timesteps(steps, dim, **given)
    found = found_in(table)
    assert (found.params["base"], str(found.positions)) == (10_000.0, text)
    again = written_again(call, tmp_path, found)
    assert np.abs(again - table).max() < 1e-6 * steps.max()


@pytest.mark.long
@pytest.mark.parametrize("dim", [7, 65])
@pytest.mark.parametrize("given", [{}, {"flip": True, "shift": 0.0}])
def test_timesteps_of_an_odd_width_end_in_a_column_of_zeros(call, tmp_path, dim, given):
    table = timesteps(np.arange(300), dim, **given)
    found = found_in(table)
    assert (found.scheme, found.params["dim"], found.params["odd"]) == ("sinusoidal", dim, "pad")
    assert np.abs(written_again(call, tmp_path, found) - table).max() < 3e-4


@pytest.mark.long
@pytest.mark.parametrize("odd", ["truncate", "pad", "split"])
@pytest.mark.parametrize("layout", ["interleaved", "concat"])
@pytest.mark.parametrize("places", ["0:80", "3,9,2,40,41"])
def test_odd_widths_are_identified_and_written_again(call, tmp_path, odd, layout, places):
    given = ["--set", f"odd={odd}", "--layout", layout, "-d", "33", "--positions", places]
    assert call("generate", "-s", "sinusoidal", *given, "--out", "odd.npy")[0] == 0
    table = np.load(tmp_path / "odd.npy")
    found = found_in(table)
    assert found.scheme == "sinusoidal"
    assert np.array_equal(written_again(call, tmp_path, found), table)


@pytest.mark.long
@pytest.mark.parametrize("length", [40, 100])
def test_relative_tables_of_conformers_are_sinusoids_at_falling_offsets(call, tmp_path, length):
    table = relative(length, 64)
    found = found_in(table)
    assert (found.scheme, found.layout) == ("sinusoidal", "interleaved")
    assert str(found.positions) == f"{length - 1}:-{length}:-1"
    assert np.abs(written_again(call, tmp_path, found) - table[0]).max() < 1e-6 * length + 1e-6


@pytest.mark.long
@pytest.mark.parametrize("concat", [False, True])
@pytest.mark.parametrize(
    ("start", "step"), [(0.5, 1), (0, 0.5), (0, 1 / 3), (5, -0.25), (89, -1), (0.1, 1), (-3.5, 2.5)]
)
def test_sinusoids_at_fractions_are_identified_at_them(call, tmp_path, start, step, concat):
    places = start + step * np.arange(90)
    table = sinusoids(places, 64, concat=concat).astype(F32)
    found = found_in(table)
    assert found.params["base"] == 10_000.0
    if found.scheme == "transformer-xl":
        assert (concat, step, str(found.positions)) == (True, -1, "-89:1")
    else:
        assert found.scheme == "sinusoidal"
        first, apart = (
            number / found.positions.denominator for number in found.positions.progression
        )
        assert (first, apart) == pytest.approx((start, step), rel=1e-12)
    assert np.abs(written_again(call, tmp_path, found) - table).max() <= 2**-24


def test_the_report_says_where_rows_stand(call, tmp_path):
    np.save(tmp_path / "t.npy", timesteps(np.arange(999, -1, -20), 64))
    status, out, _ = call("identify", "t.npy")
    assert status == 0
    assert "--positions 999:-1:-20" in out
    _, out, _ = call("identify", "t.npy", "--json")
    assert json.loads(out)["positions"] == "999:-1:-20"


@pytest.mark.long
@pytest.mark.parametrize("how", ["jittered", "repeated"])
def test_rows_off_every_line_are_not_identified(how):
    places = np.arange(200.0)
    if how == "jittered":
        places += np.random.default_rng(1).normal(size=200) * 0.3
    table = sinusoids(places, 64).astype(F32)
    if how == "repeated":
        table[77] = table[78]
    assert found_in(table) is None


def test_no_scheme_as_far_away_as_zeros_is_named_as_the_nearest():
    positions = np.random.default_rng(2).permutation(192)[:64].tolist()
    given = {"factor": 32, "original_max_position_embeddings": 4096, "base": 150_000}
    table = encode("rope-yarn", positions, dim=64, **given)
    found = identify(Evidence.of_arrays(table)).candidates
    assert all(each.residual < np.abs(table).max() for each in found)


def test_damaged_rows_at_an_end_are_no_tokens_outside_a_grid():
    cos, sin = encode("rope", 40, dim=16, table="cos"), encode("rope", 40, dim=16, table="sin")
    cos[1:3], sin[1:3] = 1, 0
    assert identify(Evidence.of_arrays(cos, sin)).match is None
    both = encode("sinusoidal", 40, dim=16)
    both[-1] = 1
    assert identify(Evidence.of_arrays(both)).match is None


def test_falling_positions_are_written_as_they_are_read():
    texts = ["999:-1:-20", "0.5:-10.5:-1", "4:0:-1,7", "5,4,3", "2:8:2"]
    assert [str(Positions.parse(text)) for text in texts] == texts
    assert [*Positions.parse("9:0:-3")] == [9, 6, 3]


def test_too_many_falling_positions_are_refused(call):
    status, _, err = call("generate", "-s", "sinusoidal", "--positions", "1e9:0:-1")
    assert (status, "at most 65536 positions may count down" in err) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("positions", "named"),
    [
        (np.arange(64) ** 2, "0, 1, 4, 9 …"),
        (np.arange(63, -1, -1), "63, 62, 61, 60 …"),
        (np.arange(0, 128, 2), "0, 2, 4, 6 …"),
        (np.arange(64), None),
    ],
)
def test_the_verdict_says_where_rows_stand_unless_they_count(call, tmp_path, positions, named):
    """cos(n²ω) is no plain rope: without its positions the first line would say so."""
    angles = np.multiply.outer(positions * 1.0, 10_000.0 ** -(np.arange(16) / 16))
    files = [str(tmp_path / f"{name}.npy") for name in ("cos", "sin")]
    for file, values in zip(files, (np.cos(angles), np.sin(angles)), strict=True):
        np.save(file, values.astype(np.float32))
    status, out, _ = call("identify", *files)
    verdict = " ".join(out.split()).partition(" all 64 rows")[0]
    assert status == 0
    assert "is rope, dim 32, base 10000" in verdict
    assert verdict.partition("with rows at positions ")[2] == (named or ""), verdict


@pytest.mark.long
@pytest.mark.parametrize(("rows", "dim"), [(100, 64), (50, 64), (300, 32)])
def test_full_turns_are_named_rather_than_a_step_of_2_pi(rows, dim):
    """As mlx's SinusoidalPositionalEncoding(full_turns=True) computes them in float32."""
    low = F32(math.log(1e-4))
    turns = np.exp(low - low * (1 - np.arange(dim // 2, dtype=F32) / F32(dim // 2 - 1)))
    angles = np.arange(rows, dtype=F32)[:, None] * (F32(2 * math.pi) * turns)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) * F32(math.sqrt(2 / dim))
    found = found_in(table)
    assert (found.params["full_turns"], str(found.positions)) == (True, f"0:{rows}")
