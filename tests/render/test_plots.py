"""Curves in text: labels say the values of their lines, whatever the values are."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.render.blocks import Medium, Page
from posenc_cli.render.figure import Curve, Curves
from posenc_cli.render.plots import _Across, curves_lines, grid
from posenc_cli.render.ticks import number
from tests.examples import examples

SOME = st.floats(-1e6, 1e6)


def lines_of(figure: Curves, width: int = 80, height: int = 20) -> list[str]:
    return curves_lines(figure, Page(width, height, Medium()))


def labelled(lines: list[str]) -> dict[int, float]:
    """The labels of the axis at the left, by line."""
    return {i: float(line.split("┤")[0]) for i, line in enumerate(lines) if "┤" in line}


@given(low=SOME, high=SOME, lines=st.integers(3, 60))
def test_labels_of_a_linear_grid_are_round_values_of_their_lines(
    low: float, high: float, lines: int
) -> None:
    low, high = min(low, high), max(low, high)
    found = grid(low, high, lines)
    assert found.count <= lines
    for line, text in found.labels.items():
        assert float(text) == pytest.approx(found.value(line), abs=1e-5 * found.apart)
    assert len(set(found.labels.values())) == len(found.labels)
    if high > low and lines > 6 and high - low > 1e-6 * max(abs(low), abs(high)):
        assert len(found.labels) >= 1
        assert found.value(0) <= low + found.step
        assert found.value(found.count - 1) >= high - found.step
        for value in (low, high):
            assert abs(found.value(found.line(value)) - value) <= 0.51 * found.step


@given(low=st.floats(-300, 300), decades=st.floats(0, 300), lines=st.integers(3, 60))
def test_labels_of_a_logarithmic_grid_are_short(low: float, decades: float, lines: int) -> None:
    high = min(low + decades, 305.0)
    found = grid(10.0**low, 10.0**high, lines, logarithmic=True)
    assert found.count <= lines
    assert found.labels
    for line, text in found.labels.items():
        assert len(text) <= 9
        assert float(text) == pytest.approx(found.value(line), rel=0.01)


def test_the_labels_of_a_curve_are_at_equal_distances_for_equal_steps() -> None:
    curve = Curve(tuple(range(256)), tuple(math.cos(x / 30) for x in range(256)))
    level = ((0.37, "level"),)
    for height in range(10, 40):
        lines = lines_of(Curves((curve,), "t", "x", "y", levels=level), height=height)
        labels = labelled(lines)
        assert len(lines) <= height
        dashed = next(i for i, line in enumerate(lines[:-1]) if "---" in line)
        assert labels.pop(dashed) == 0.37
        steps = {
            round((b[1] - a[1]) / (b[0] - a[0]), 9)
            for a, b in zip(list(labels.items())[:-1], list(labels.items())[1:], strict=True)
        }
        assert len(steps) <= 1


def test_powers_of_ten_name_a_logarithmic_axis() -> None:
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
def test_extreme_values_are_drawn_with_labels(values: tuple[float, float], scale: str) -> None:
    if scale == "log" and values[0] <= 0:
        return
    figure = Curves((Curve((0, 1), values),), "t", "x", "y", y_scale=scale)  # type: ignore[arg-type]
    lines = lines_of(figure)
    assert labelled(lines)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("•") for line in lines) == 2


@examples(40)
@given(width=st.integers(20, 120), height=st.integers(8, 40), count=st.integers(1, 300))
def test_curves_are_within_their_page(width: int, height: int, count: int) -> None:
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


def test_offsets_are_named_by_powers_of_two_from_the_first_on() -> None:
    points = tuple(range(0, 2**40, 2**32))
    lines = lines_of(Curves((Curve(points, points),), "t", "x", "y"))
    assert lines[-2].split()[0] == "0"
    assert all(math.log2(int(each)).is_integer() for each in lines[-2].split()[1:3])


@pytest.mark.parametrize(("low", "high"), [(-15, 15), (-7, 8), (1, 64), (3.5, 4), (-1e308, 1e308)])
def test_a_value_stands_as_far_across_as_it_is_between_the_ends(low, high):
    across = _Across(low, high, 61, False)
    assert (across.column(low), across.column(high)) == (0, 60)
    assert across.column(low / 2 + high / 2) == 30
    assert across.column(low * 0.75 + high * 0.25) == 15


@pytest.mark.parametrize("most_decades", [3, 9, 30, 200])
@pytest.mark.parametrize("width", [40, 79, 200])
def test_powers_of_ten_across_are_as_many_as_have_room_and_all_are_there_where_they_do(
    width, most_decades
):
    across = _Across(1.0, 10.0**most_decades, width, True)
    labels = across.ticks([1.0, 10.0**most_decades])
    places = sorted(labels)
    assert all(right - left > len(labels[left]) for left, right in pairwise(places))
    longest = max(1, *(len(number(10.0**e)) for e in (0, most_decades)))
    if (most_decades + 1) * (longest + 4) <= width:
        assert len(labels) == most_decades + 1
    assert all(float(text) == 10.0 ** round(math.log10(float(text))) for text in labels.values())
