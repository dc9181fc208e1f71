"""``posenc rotation``: which columns are a pair, and where its vector is."""

import math
import re

import numpy as np
import pytest

from posenc_cli.cli.commands.rotation import _room_for


def test_angles_are_position_times_frequency_and_points_lie_there(document):
    found = document("rotation", "-s", "rope", "--pairs", "0,1,8", "--positions", "0:16")
    assert [pair["pair"] for pair in found["pairs"]] == [0, 1, 8]
    for pair, panel in zip(found["pairs"], found["panels"], strict=True):
        frequency = 10000 ** (-2 * pair["pair"] / 64)
        turns = np.arange(16) * frequency / (2 * math.pi)
        np.testing.assert_allclose(pair["turns"], turns - np.rint(turns), atol=1e-15)
        np.testing.assert_allclose(pair["wavelength"], 2 * math.pi / frequency, rtol=1e-14)
        last, between = panel["curves"]
        np.testing.assert_allclose(between["x"], np.cos(2 * np.pi * turns[1:-1]), atol=1e-15)
        np.testing.assert_allclose(between["y"], np.sin(2 * np.pi * turns[1:-1]), atol=1e-15)
        assert (last["x"][0], last["y"][0], between["joined"]) == (0, 0, False)
        np.testing.assert_allclose(last["x"][1], np.cos(2 * np.pi * turns[-1]), atol=1e-15)


@pytest.mark.parametrize(
    ("scheme", "columns"),
    [
        ("-s rope", [[0, 1], [6, 7]]),
        ("-s rope --layout half", [[0, 32], [3, 35]]),
        ("-s rope --layout half --set partial=0.25", [[0, 8], [3, 11]]),
        ("-m llama-3.1-8b", [[0, 64], [3, 67]]),
    ],
)
def test_pairs_are_those_of_the_layout(scheme, columns, document):
    found = document("rotation", *scheme.split(), "--pairs", "0,3", "-l", "4")
    assert [pair["columns"] for pair in found["pairs"]] == columns
    labels = [[panel["x_label"], panel["y_label"]] for panel in found["panels"]]
    assert labels == [[f"dimension {a}", f"dimension {b}"] for a, b in columns]


@pytest.mark.parametrize("last", [15, 999])
def test_by_default_three_pairs_from_the_fastest_to_the_slowest_that_is_seen_to_rotate(
    last, document
):
    found = document("rotation", "-s", "rope", "-l", str(last + 1))
    first, middle, slowest = (pair["pair"] for pair in found["pairs"])
    rotations = [last * 10000 ** (-pair / 32) / (2 * math.pi) for pair in range(32)]
    assert rotations[slowest] >= 1 / 16 > rotations[slowest + 1]
    assert (first, 0 <= middle - slowest / 2 < 1) == (0, True)
    found = document("rotation", "-s", "rope", "-l", "1")  # where none is
    assert [pair["pair"] for pair in found["pairs"]] == [0, 16, 31]


def test_of_many_positions_a_sample_is_shown_that_is_called_one(document):
    found = document("rotation", "-s", "rope", "-l", "1000")
    assert "shows 64 of 1000 positions" in found["notes"]
    assert len(found["shown"]) == 64
    assert (found["shown"][0], found["shown"][-1]) == (0, 999)
    assert found["panels"][0]["title"] == f"pair 0: {999 / (2 * math.pi):.3g} rotations"


def test_the_attention_factor_is_the_radius(call, document):
    parameters = ("--set", "factor=8", "--set", "attention_factor=2")
    found = document("rotation", "-s", "rope-yarn", "--pairs", "0", "-l", "4", *parameters)
    points = found["panels"][0]["curves"][1]
    np.testing.assert_allclose(np.hypot(points["x"], points["y"]), 2, rtol=1e-14)
    lines = call("rotation", "-s", "rope-yarn", "--pairs", "31", "-l", "2", *parameters)[1].split()
    assert {line.rstrip("│┤┐") for line in lines} >= {"-2", "2"}, "the circle is as large"
    assert not {line.rstrip("│┤┐") for line in lines} & {"-3", "3", "-4", "4"}


def test_vectors_that_grow_are_shown_on_circles_of_one_size(printed):
    asked = ("-s", "xpos", "--pairs", "0,31", "-l", "200", "--height", "20")
    out = printed("rotation", *asked)
    assert "the vector (1, 0) of q rotated and scaled" in out
    rows = [re.findall(r"(-?[0-9.]+) *[┤│]", line) for line in out.splitlines()]
    assert all(len(labels) in (0, 2) and len({*labels}) < 2 for labels in rows)


def test_in_the_terminal_a_circle_is_round(printed):
    out = printed("rotation", "-s", "rope", "--pairs", "0", "-l", "5", "--color", "never")
    lines = [line for line in out.splitlines() if any(0x2800 < ord(c) < 0x2900 for c in line)]
    width = max(map(len, lines)) - min(len(line) - len(line.lstrip(" 01-┤│")) for line in lines)
    assert abs(width - 2 * len(lines)) <= 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("-s sinusoidal", "sinusoidal is an absolute encoding; it does not rotate vectors"),
        ("-s rope+alibi", "--scheme rope+alibi is 2 encodings; give one"),
        ("-s rope --pairs 32", "--pairs 32: the pairs are 0 to 31"),
        ("-s rope --pairs x", "--pairs 'x': must be A:B"),
        ("-s rope --dim 512 --pairs 0:65", "--pairs 0:65: 65 pairs in one picture; at most 64"),
    ],
)
def test_what_turns_nothing_is_refused(arguments, says, refused):
    assert says in refused("rotation", *arguments.split())


def test_turns_on_a_grid_are_those_along_the_axis_of_the_pair(document):
    grid = ("--set", "grid=32x32", "-l", "1024", "--pairs", "0,16")
    found = document("rotation", "-s", "rope-axial", *grid)
    titles = [panel["title"] for panel in found["panels"]]
    assert titles[0] == f"pair 0: {31 / (2 * math.pi):.3g} rotations"


@pytest.mark.parametrize(
    ("pairs", "sides"),
    [(1, (1120, 700)), (2, (1120, 700)), (4, (2240, 700)), (5, (2240, 1260)), (8, (2240, 1260))],
)
def test_a_picture_has_room_for_four_circles_across(pairs, sides):
    assert _room_for(pairs) == sides
