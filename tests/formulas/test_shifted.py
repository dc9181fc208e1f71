"""CAPE and SHAPE against their code, and what their training draws."""

import json

import numpy as np
import pytest

from posenc_cli.formulas.parameters import uniform, uniform_parts
from tests import tolerances
from tests.matrices import matrix, request

CAPE = {
    "text": {"dim": 16, "normalize": False},
    "audio": {"dim": 12, "freq_scale": 30.0},
    "even": {"dim": 8},
}
TEXT = {"dim": 4, "normalize": False, "training": True}


def places(scheme, seed, count=40, **given):
    """Where training puts positions 0, 1, …: what the angle of the fastest pair says."""
    bound = request(scheme, f"0:{count}", seed=seed, **given).encoding.bound
    waves = bound.content.waves
    (along,) = waves.coordinates.at(np.arange(count))
    return along * float(waves.frequencies(np)[0])


@pytest.mark.parametrize("case", CAPE)
def test_cape_evaluates_as_its_code_does(case, golden):
    _, arrays = golden("cape")
    theirs = arrays[case]
    ours = matrix("cape", f"0:{len(theirs)}", dtype="float64", **CAPE[case])
    angle = CAPE[case].get("freq_scale", 1) * len(theirs)
    assert np.abs(ours - theirs).max() <= tolerances.TABLE + tolerances.ANGLE * angle


def test_cape_without_its_centre_is_the_sinusoidal_scheme():
    plain = matrix("sinusoidal", "0:50", dim=16)
    assert np.array_equal(plain, matrix("cape", "0:50", dim=16, normalize=False))
    still = {"max_global_shift": 0.0, "max_local_shift": 0.0, "max_global_scaling": 1.0}
    given = {"dim": 16, "normalize": False, "training": True, **still}
    assert np.array_equal(plain, matrix("cape", "0:50", **given))


def test_each_setting_of_cape_moves_positions_as_far_as_it_says_and_no_farther():
    own, none = {"max_global_shift": 5.0}, {"max_local_shift": 0.0, "max_global_scaling": 1.0}
    shifts = np.array([places("cape", seed, **TEXT, **own, **none) for seed in range(200)])
    assert np.ptp(shifts - np.arange(40), axis=1).max() < 1e-6
    assert 4.5 < np.abs(shifts[:, 0]).max() <= 5
    none = {"max_global_shift": 0.0, "max_global_scaling": 1.0}
    moved = np.array([places("cape", seed, **TEXT, **none) for seed in range(50)]) - np.arange(40)
    assert 0.95 < np.abs(moved).max() <= 1
    assert abs(moved.mean()) < 0.05
    assert abs(moved.std() - 1 / np.sqrt(3)) < 0.03
    none = {"max_global_shift": 0.0, "max_local_shift": 0.0}
    scaled = np.array([places("cape", seed, **TEXT, **none)[10] / 10 for seed in range(200)])
    assert scaled.max() <= 1.03 * (1 + 1e-12)
    assert scaled.min() >= (1 - 1e-12) / 1.03
    assert np.ptp(scaled) > 0.05


def test_what_is_drawn_depends_on_the_seed_and_the_position_alone():
    whole = matrix("cape", "0:60", **TEXT, seed=7)
    some = matrix("cape", "31,5,59", **TEXT, seed=7, seq_len=60)
    assert np.array_equal(some, whole[[31, 5, 59]])
    assert not np.array_equal(whole, matrix("cape", "0:60", **TEXT, seed=8))
    drawn = uniform_parts(3, np.arange(5), 1.0, 24)
    assert drawn.tolist() == uniform_parts(3, np.arange(10), 1.0, 24)[:5].tolist()
    assert len({uniform(seed, place) for seed in range(30) for place in range(30)}) == 900


@pytest.mark.parametrize(("case", "max_shift"), [("eval", 10), ("eval_500", 500)])
def test_shape_evaluates_as_its_code_does(case, max_shift, golden):
    _, arrays = golden("shape")
    theirs = arrays[case]
    given = {"dim": theirs.shape[1], "max_shift": max_shift}
    ours = matrix("shape", "0:7", dtype="float64", **given)
    allowed = tolerances.TABLE + tolerances.SINUSOID_ANGLE * (max_shift + 7)
    assert np.abs(ours - theirs).max() <= allowed


def test_shape_trains_at_the_shifts_that_its_code_draws(golden):
    _, arrays = golden("shape")
    shifts = [places("shape", seed, dim=16, max_shift=10, training=True) for seed in range(60)]
    firsts = {round(float(each[0])) for each in shifts}
    assert firsts == set(range(10))
    rows = matrix("sinusoidal", "0:17", dim=16, dtype="float64")
    for table in arrays["training"]:
        near = [np.abs(table - rows[first : first + 7]).max() for first in firsts]
        assert min(near) <= 1e-5
    assert all(np.array_equal(each - each[0], np.arange(40)) for each in shifts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "said", "drawn", "given"),
    [
        ("cape", "random shifts, seed 5", "seed=5 training=true", "seed=5"),
        ("shape", "random shift, seed 5", "seed=5 training=true", "seed=5"),
        ("rope-mixed", "random angle, seed 5", "seed=5", "x_frequencies=1,2 y_frequencies=3,4"),
    ],
)
def test_what_is_drawn_is_said_and_nothing_else(scheme, said, drawn, given, call):
    grid = ("--set", "grid=2x4") if scheme == "rope-mixed" else ("-l", "8")
    for command in ("heatmap", "spectrum", "dot-similarity", "order-check", "generate -o a.npy"):
        lines = []
        for settings in (drawn, given):
            words = [word for each in settings.split() for word in ("--set", each)]
            lines.append([*command.split(), "-s", scheme, "-d", "4", *grid, *words])
        assert said in " ".join("".join(call(*lines[0])[1:]).split()), command
        told = "".join(call(*lines[1])[1:]).replace("random projections", "")
        assert "random" not in told, command
        documents = [json.loads(call(*line, "--json")[1]) for line in lines]
        if command == "order-check":
            documents = [document["schemes"][0] for document in documents]
        assert [document["weights"] for document in documents] == [said, None], command
