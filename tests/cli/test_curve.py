"""``posenc curve``: which columns and heads it draws, over what, and what it calls a sample."""

import numpy as np
import pytest

from tests.matrices import matrix


def test_columns_are_those_of_the_table_over_the_positions(document):
    found = document("curve", "-s", "sinusoidal", "--dims", "4:8", "-l", "100")
    table = matrix("sinusoidal", "0:100", dtype="float64")
    assert [curve["name"] for curve in found["curves"]] == [
        *("dimension 4 (sin)", "dimension 5 (cos)", "dimension 6 (sin)", "dimension 7 (cos)")
    ]
    for column, curve in enumerate(found["curves"], start=4):
        assert curve["x"] == list(range(100))
        assert curve["y"] == table[:, column].tolist()
        assert curve["joined"]
    assert (found["x_label"], found["y_label"]) == ("position", "value")
    assert found["notes"] == []


def test_a_bias_is_drawn_by_offset_and_one_by_key_by_key(document):
    found = document("curve", "-s", "alibi", "--heads", "2", "-l", "5")
    offsets = np.arange(-4, 5)
    for curve, slope in zip(found["curves"], (2.0**-4, 2.0**-8), strict=True):
        assert curve["x"] == offsets.tolist()
        assert curve["y"] == (-slope * abs(offsets)).tolist()
    assert found["x_label"] == "offset n − m, key − query"
    found = document("curve", "-s", "alibi", "--set", "form=bloom", "--head", "1", "-l", "5")
    assert [curve["name"] for curve in found["curves"]] == ["head 1"]
    assert (found["x_label"], found["curves"][0]["x"]) == ("key", [0, 1, 2, 3, 4])


def test_offsets_of_positions_with_a_step_go_by_it(document):
    found = document("curve", "-s", "alibi", "--heads", "1", "--positions", "0:30:10")
    assert found["curves"][0]["x"] == [-20, -10, 0, 10, 20]


def test_of_more_columns_some_are_shown_and_of_more_positions_every_so_many(document):
    found = document("curve", "-s", "sinusoidal", "-l", "100000")
    assert len(found["curves"]) == 4
    assert found["notes"] == ["shows 4 of 64 dimensions", "shows 1191 of 100000 positions"]
    assert set(np.diff(found["curves"][0]["x"])) == {84}
    found = document("curve", "-s", "sinusoidal", "-l", "100000", "--dims", "0:2")
    assert found["notes"][0] == "shows 1191 of 100000 positions"
    sampled = {curve["name"]: curve["joined"] for curve in found["curves"]}
    names = ("dimension 0 (sin, a sample)", "dimension 1 (cos, a sample)")
    assert sampled == dict.fromkeys(names, False)


@pytest.mark.parametrize("given", ["-s sinusoidal", "-s rope -l 4096", "-s rope -l 100000"])
def test_columns_that_nobody_chose_are_waves_that_can_be_followed(given, document):
    """Each has at least 12 points a wave, at most 10 waves, and at least a quarter of one."""
    found = document("curve", *given.split())
    for curve in found["curves"]:
        x, y = np.array(curve["x"]), np.array(curve["y"])
        pair = int(curve["name"].split()[1]) // (2 if "sinusoidal" in given else 1)
        wavelength = 2 * np.pi * 10000 ** (pair / 32)
        wave = {"sin": np.sin, "cos": np.cos}[curve["name"].split()[2].strip("()")]
        np.testing.assert_allclose(y, wave(2 * np.pi * x / wavelength), atol=1e-12)
        assert wavelength >= 12 * (x[1] - x[0])
        assert 0.25 <= x[-1] / wavelength <= 10
    assert len(found["curves"]) == 4


def test_a_curve_is_parted_where_positions_are_left_out(document):
    found = document("curve", "-s", "rope", "--dims", "0:1", "--positions", "0:3,10:13")
    curve = found["curves"][0]
    assert curve["x"] == [0, 1, 2, 10, 10, 11, 12]
    assert [y is None for y in curve["y"]] == [False] * 3 + [True] + [False] * 3


def test_a_grid_has_rows_not_maps_and_a_hybrid_a_panel_for_each_part(document):
    for dims in ((), ("--dims", "0:2")):
        found = document("curve", "-s", "sinusoidal-nd", "--set", "grid=3x4", *dims)
        assert found["curves"][0]["x"] == list(range(12))
    found = document("curve", "-s", "sinusoidal+alibi", "-l", "8")
    labels = [panel["x_label"] for panel in found["panels"]]
    assert labels == ["position", "offset n − m, key − query"]


def test_a_file_has_the_values_it_holds(tmp_path, document):
    values = np.arange(12.0).reshape(4, 3)
    values[2, 1] = np.nan
    np.save(tmp_path / "x.npy", values)
    found = document("curve", "--in", "x.npy", "--rows", "1:4")
    assert [curve["y"] for curve in found["curves"]] == [[3, 6, 9], [4, None, 10], [5, 8, 11]]
    assert "1 of 9 values is not finite, shown as a gap" in found["notes"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("-s alibi --dims 0:2", "--dims 0:2: a bias of alibi has no dimensions"),
        ("-s alibi --positions 0:3,9", "--positions 0:3,9: a curve by offset needs positions of"),
        ("", "--scheme, --config, --model or --in: give one of them"),
        ("-s rope --rows 0:2", "--rows 0:2 needs --in"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, says, refused):
    assert says in refused("curve", *arguments.split())


def test_several_encodings_share_axes_and_each_says_what_it_is(document):
    twice = ("-s", "rope", "-s", "rope", "--set", "b.base=100")
    found = document("curve", *twice, "--dims", "4:6", "-l", "9")
    names = [curve["name"] for curve in found["curves"]]
    assert names == [f"{name}: rope dimension {at} (cos)" for name in "ab" for at in (4, 5)]
    for curve, base in zip(found["curves"], (1e4, 1e4, 100, 100), strict=True):
        column = int(curve["name"].split()[3])
        expected = np.cos(np.arange(9) * base ** (-column / 32))
        np.testing.assert_allclose(curve["y"], expected, atol=1e-15)
    assert found["title"] == "a: rope, b: rope: value by position"
    assert [note.rsplit(" ", 1)[1] for note in found["notes"]] == ["(base=10000)", "(base=100)"]
    assert [part["params"]["base"] for part in found["parts"]] == [1e4, 100]


def test_several_share_four_curves_where_nobody_says_which(tmp_path, document):
    np.save(tmp_path / "x.npy", np.eye(20))
    found = document("curve", "-s", "sinusoidal", "--in", "x.npy", "-l", "20")
    assert [panel["x_label"] for panel in found["panels"]] == ["position", "row"]
    assert [len(panel["curves"]) for panel in found["panels"]] == [2, 2]
    found = document("curve", "-s", "sinusoidal", "--dims", "0:12", "-l", "20")
    assert (len(found["curves"]), found["notes"]) == (12, [])
