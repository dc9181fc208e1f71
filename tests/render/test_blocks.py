"""Cells of text show the values they stand for, in whatever the stream can show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from posenc_cli.render.style import color_map
from posenc_cli.render.terminal.blocks import (
    GAP,
    Medium,
    cell_lines,
    color_codes,
    levels,
    pad,
    width_of,
)
from tests.render.ansi import pixels_of

VIRIDIS = color_map("viridis")
LEVELS = arrays.arrays(
    np.int16, st.tuples(st.integers(1, 7), st.integers(1, 9)), elements=st.integers(GAP, 255)
)


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@given(pixels=LEVELS)
def test_half_blocks_show_two_rows_a_line_in_the_nearest_colours(depth, pixels):
    codes = [code.removeprefix("5;") for code in color_codes(VIRIDIS, "256")[:-1]]
    colors = [(int(code),) for code in codes] if depth == "256" else [*map(tuple, VIRIDIS.tolist())]
    lines = cell_lines(pixels, VIRIDIS, Medium(depth))
    assert len(lines) == -(-len(pixels) // 2)
    shown = [row for line in lines for row in zip(*pixels_of(line), strict=True)]
    for row, expected in zip(shown, pixels.tolist(), strict=False):
        assert list(row) == [None if level == GAP else colors[level] for level in expected]


def test_colours_that_the_palette_has_are_found_in_it():
    known = {196: (255, 0, 0), 21: (0, 0, 255), 231: (255,) * 3, 16: (0, 0, 0), 244: (128,) * 3}
    found = color_codes(np.array([*known.values()], np.uint8), "256")
    assert found == [*(f"5;{number}" for number in known), ""]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_shades_darken_with_the_value_and_tell_gaps(ascii_only):
    medium = Medium(ascii_only=ascii_only)
    (line,) = cell_lines(np.array([[*range(256), GAP]], np.int16), VIRIDIS, medium)
    assert "\x1b" not in line
    assert line.isascii() == ascii_only
    assert line[-1] == "?"
    assert list(dict.fromkeys(line[:-1])) == list(medium.shades)
    counts = [line.count(shade) for shade in medium.shades]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("colored", "encoding", "environment", "depth", "ascii_only"),
    [
        (True, "utf-8", {"COLORTERM": "truecolor"}, "truecolor", False),
        (True, "utf-8", {"COLORTERM": "24bit", "TERM": "xterm"}, "truecolor", False),
        (True, "utf-8", {"TERM": "xterm-256color"}, "256", False),
        (True, "utf-8", {"TERM": "linux"}, "none", False),
        (False, "utf-8", {"COLORTERM": "truecolor"}, "none", False),
        (True, "ascii", {}, "none", True),
        (False, "latin-1", {}, "none", True),
        (False, "no-such-encoding", {}, "none", True),
        (False, None, {}, "none", True),
    ],
)
def test_the_medium_is_what_the_stream_can_show(colored, encoding, environment, depth, ascii_only):
    medium = Medium.of(colored=colored, encoding=encoding, environment=environment)
    assert (medium.depth, medium.ascii_only) == (depth, ascii_only)


def test_levels_reach_from_the_first_colour_to_the_last_and_escape_codes_take_no_room():
    assert levels(np.array([0, 0.5, 1, np.nan])).tolist() == [0, 128, 255, GAP]
    (line,) = cell_lines(np.array([[0, 255]], np.int16), VIRIDIS, Medium("truecolor"))
    assert (width_of(line), width_of(pad(line, 5))) == (2, 5)
