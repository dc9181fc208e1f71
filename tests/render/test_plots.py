"""Curves in text: labels say the values of their lines, whatever the values are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.records import replace
from posenc_cli.render.figure import Axis, Curve, Curves, Heatmap, Range
from posenc_cli.render.terminal.blocks import Medium, Page
from posenc_cli.render.terminal.plots import curves_lines
from posenc_cli.render.terminal.text_pictures import _map_with_title
from tests.examples import examples


def lines_of(figure: Curves, width: int = 80, height: int = 20) -> list[str]:
    return curves_lines(figure, Page(width, height, Medium()))


DOTS = Medium(braille=True)
COLORED = Medium(depth="truecolor", braille=True)


def labelled(lines: list[str]) -> dict[int, float]:
    """The labels of the axis at the left, by line."""
    return {i: float(line.split("┤")[0]) for i, line in enumerate(lines) if "┤" in line}


@pytest.mark.parametrize("height", range(10, 40, 3))
def test_a_label_stands_on_the_line_nearest_to_its_value(height):
    curve = Curve(tuple(range(256)), tuple(math.cos(x / 30) for x in range(256)))
    lines = lines_of(Curves((curve,), "t", "x", "y", levels=((0.37, "level"),)), height=height)
    rows = sum("│" in line or "┤" in line for line in lines)
    low, high = min(curve.y), max(curve.y)
    for line, value in labelled(lines).items():
        assert abs((high - value) / (high - low) * (rows - 1) - (line - 1)) <= 0.5 + 1e-9
    assert 0.37 in labelled(lines).values()
    assert len(lines) <= height


def test_the_last_label_of_an_axis_ends_with_it():
    curve = Curve(tuple(range(-511, 512)), tuple(math.cos(x / 30) for x in range(1023)))
    lines = [line.rstrip() for line in lines_of(Curves((curve,), "t", "x", "y"), 40, 12)]
    (axis,) = [place for place, line in enumerate(lines) if "└" in line]
    assert lines[axis + 1].split() == ["-511", "511"]
    assert len(lines[axis + 1]) == 40


def test_powers_of_ten_name_a_logarithmic_axis():
    curve = Curve(tuple(range(1, 20)), tuple(10.0 ** (x / 3) for x in range(19)))
    lines = lines_of(Curves((curve,), "t", "x", "y", y_scale="log", x_scale="log"))
    assert sorted(labelled(lines).values()) == [10.0**e for e in range(7)]
    assert "1         " in lines[-2]


@pytest.mark.parametrize(
    "values",
    [
        (1.0, 1.0),
        (1.0, 1.0 + 2e-16),
        (3e-7, 3.0000001e-7),
        (1e-300, 1e300),
        (5e-324, 1e-323),
        (1.7e308, 1.79e308),
        (-1.7e308, 1.7e308),
        (0.0, 0.0),
        (0.0, 5e-324),
    ],
)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_extreme_values_are_drawn_with_labels(values, scale):
    if scale == "log" and values[0] <= 0:
        return
    figure = Curves((Curve((0, 1), values),), "t", "x", "y", y_scale=scale, joined=False)
    lines = lines_of(figure)
    assert labelled(lines)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("•") for line in lines) == 2


@examples(40)
@given(width=st.integers(20, 120), height=st.integers(8, 40), count=st.integers(1, 300))
def test_curves_are_within_their_page(width, height, count):
    curve = Curve(tuple(range(count)), tuple(range(count)), "a curve")
    figure = Curves(
        (curve,),
        "a title longer than some pages",
        "a name of an axis",
        "the other axis, named at length",
        notes=("a note",),
    )
    lines = lines_of(figure, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


@pytest.mark.parametrize(("low", "high"), [(-15, 15), (-7, 8), (1, 64), (3.5, 4), (-1e308, 1e308)])
def test_a_value_stands_as_far_across_as_it_is_between_the_ends(low, high):
    across = Range.of([low, high], log=False, padded=False)
    values = [low, high, low / 2 + high / 2, low * 0.75 + high * 0.25]
    assert across.places(values) == pytest.approx([0, 1, 0.5, 0.25])


@pytest.mark.parametrize("most_decades", [3, 9, 30, 200])
def test_powers_of_ten_across_are_as_many_as_have_room(most_decades):
    labels = Range(1.0, 10.0**most_decades, log=True).ticks(8)
    assert 2 <= len(labels) <= 8
    assert all(float(text) == 10.0 ** round(math.log10(float(text))) for _, text in labels)


def dots(lines: list[str]) -> set[tuple[int, int]]:
    """The Braille dots of lines of text: across, and down from the first line."""
    bits = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (1, 0), 4: (1, 1), 5: (1, 2), 6: (0, 3), 7: (1, 3)}
    return {
        (2 * column + across, 4 * row + down)
        for row, line in enumerate(lines)
        for column, mark in enumerate(line)
        if 0x2800 < ord(mark) < 0x2900
        for bit, (across, down) in bits.items()
        if ord(mark) - 0x2800 & 1 << bit
    }


@pytest.mark.parametrize("height", range(8, 30, 3))
def test_a_line_goes_from_value_to_value_to_a_dot(height):
    """Each column of dots has one where the value is: the ends are on the first and last line."""
    figure = Curves((Curve((0, 100), (0.0, 50.0)),), "t", "x", "y")
    lines = curves_lines(figure, Page(80, height, DOTS))
    drawn = [i for i, line in enumerate(lines) if "│" in line or "┤" in line]
    (top, high), (bottom, low) = (drawn[0], 50.0), (drawn[-1], 0.0)
    left = lines[-3].index("└") + 1
    found = dots(lines)
    assert {across for across, _ in found} >= set(range(2 * left + 1, 157))
    off = []
    for across, down in found:
        x = ((across + 0.5) / 2 - 0.5 - left) / (78 - left) * 100  # the middle of a dot
        line = (down + 0.5) / 4 - 0.5
        y = high + (line - top) / (bottom - top) * (low - high)
        dot = (high - low) / (bottom - top) / 4
        off.append((y - x / 2) / dot)
    assert max(map(abs, off)) < 1.7
    assert abs(sum(off) / len(off)) < 0.25


def test_a_curve_is_parted_where_a_value_is_missing():
    values = (1.0, 1.0, 1.0, math.nan, 1.0, 1.0, 1.0)
    lines = curves_lines(
        Curves((Curve(tuple(range(7)), values),), "t", "x", "y"), Page(60, 9, DOTS)
    )
    (drawn,) = [line.partition("┤")[2] or line.partition("│")[2] for line in lines if dots([line])]
    assert len(drawn.split()) == 2


def test_curves_and_their_names_have_the_colours_of_figures():
    curves = tuple(Curve((0, 9), (y, y), f"at {y}") for y in (1.0, 2.0))
    text = "\n".join(curves_lines(Curves(curves, "t", "x", "y"), Page(60, 12, COLORED)))
    blue, orange = "\x1b[38;2;0;114;178m", "\x1b[38;2;213;94;0m"
    assert f"{blue}──\x1b[0m at 1.0   {orange}╌╌\x1b[0m at 2.0" in text
    assert text.count(blue) == 2
    assert text.index(orange) < text.index(blue), "the higher one is above"


@pytest.mark.parametrize(
    ("medium", "count", "fine"),
    [
        (DOTS, 1, True),
        (DOTS, 2, True),
        (DOTS, 5, False),
        (COLORED, 2, True),
        (Medium(depth="truecolor"), 1, False),
    ],
)
def test_dots_are_drawn_where_they_show_and_dashes_or_colours_tell_curves_apart(
    medium, count, fine
):
    curves = tuple(Curve((0, 9), (y, y), "name") for y in range(1, count + 1))
    assert bool(dots(curves_lines(Curves(curves, "t", "x", "y"), Page(60, 12, medium)))) is fine


def test_what_cannot_show_dots_is_known():
    shown = {"encoding": "utf-8", "colored": True}
    assert Medium.of(**shown, environment={"TERM": "xterm"}).braille
    assert not Medium.of(**shown, environment={"TERM": "linux"}).braille
    assert not Medium.of(encoding="cp437", colored=True, environment={}).braille
    assert not Medium.of(**shown, ascii_only=True, environment={}).braille


def test_names_of_rows_take_at_most_half_of_the_width_of_one_of_several_maps():
    rows = Axis("token", ["a name of a row that is long " * 2] * 3)
    heatmap = Heatmap(np.zeros((3, 4)), rows, Axis("key", range(4)), "t")
    for width in (20, 31):
        text_map, title = _map_with_title(heatmap, Page(width, 12, Medium()))
        assert (text_map.frame.margin, title) == (width // 2, ["t"])
    short = replace(heatmap, rows=Axis("row", range(3)))
    assert _map_with_title(short, Page(40, 12, Medium()))[0].frame.margin == 1


def test_names_of_curves_leave_a_third_of_the_page_to_the_curves():
    names = [f"a long name of curve {number} with its parameters" for number in range(12)]
    curves = tuple(Curve((0.0, 1.0), (0.0, float(place)), name) for place, name in enumerate(names))
    lines = lines_of(Curves(curves, "twelve", "x", "y"))
    cells = [line for line in lines if "│" in line or "┤" in line]
    assert len(cells) >= 6
    assert len(lines) <= 20
    assert "too small for some names and the notes" in lines[-1]


def test_names_of_curves_come_before_their_notes_where_both_have_no_room():
    names = [f"model-{number}" for number in range(8)]
    curves = tuple(Curve((0.0, 1.0), (0.0, float(place)), name) for place, name in enumerate(names))
    before = tuple(replace(curve, name=f"{curve.name} before", thin=True) for curve in curves)
    pairs = tuple(curve for pair in zip(curves, before, strict=True) for curve in pair)
    notes = tuple(f"{name}: rope (dim=128, base=500000, layout=half)" for name in names)
    page = Page(80, 12, Medium())
    text = "\n".join(curves_lines(Curves(pairs, "eight", "x", "y", notes=notes), page))
    assert all(f"{name}  " in text or f"{name}\n" in text for name in names)
    assert text.endswith("the picture is too small for the notes; --json has them")
    few = Curves(curves[:2], "two", "x", "y", notes=notes)
    assert curves_lines(few, page)[-1] == "the picture is too small for the notes; --json has them"


def test_no_curve_in_characters_hides_the_others_of_its_line():
    flat = [Curve(tuple(range(40)), (height,) * 40, str(height)) for height in (0.0, 0.1, 0.2)]
    steep = Curve((0, 39), (0.0, 9.0), "steep")
    lines = lines_of(Curves((*flat, steep), "t", "x", "y", levels=((0.0, "zero"),)), height=16)
    (lowest,) = (line for line in lines if line.startswith("0┤"))
    assert set(lowest.partition("┤")[2]) == {*"•×+o"}
    assert "o" in lines[2]
