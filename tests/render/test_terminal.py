"""Pictures in the terminal: within their page, and true to the values."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput
from posenc_cli.records import replace
from posenc_cli.render.figure import Axis, Band, Curve, Curves, Figure, Heatmap, Panels
from posenc_cli.render.style import color_map
from posenc_cli.render.terminal.blocks import Medium, Page, width_of
from posenc_cli.render.terminal.text_pictures import LOWEST, NARROWEST, picture_text
from tests.examples import examples
from tests.render.ansi import cells_of, pixels_of

PLAIN, TRUE = Medium(), Medium("truecolor")
MEDIA = [PLAIN, Medium(ascii_only=True), TRUE, Medium("256")]


def wave(rows: int, columns: int, **more: Any) -> Heatmap:
    """A heatmap of two bands, as sinusoids have."""
    half = -(-columns // 2)
    bands = (Band("sin", 0, half), Band("cos", half, columns)) if columns > 1 else ()

    def cells(some: Any, of: Any) -> Any:
        return np.sin(np.outer(some, 0.9 ** np.asarray(of)))

    return Heatmap(
        cells,
        Axis("position", range(rows)),
        Axis("dimension", range(columns), bands),
        "sinusoidal: a title that may well be longer than a narrow page is wide",
        wavelengths=lambda _rows, of: 2 * math.pi / 0.9 ** np.asarray(of),
        **more,
    )


def square(size: int, values: Any = None) -> Heatmap:
    axis = Axis("query", range(size), even=True)
    if values is None:
        values = -np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(float)
    return Heatmap(values, axis, Axis("key", range(size), even=True), "a square", square=True)


def lines_of(figure: Figure, width: int, height: int, medium: Medium = PLAIN) -> list[str]:
    return picture_text(figure, Page(width, height, medium)).content.split("\n")


@examples(60)
@given(
    width=st.integers(NARROWEST, 220),
    height=st.integers(14, 60),
    rows=st.integers(1, 2**40),
    columns=st.integers(1, 300),
    medium=st.sampled_from(MEDIA),
)
def test_a_heatmap_is_within_its_page(width, height, rows, columns, medium):
    lines = lines_of(wave(rows, columns), width, height, medium)
    assert max(map(width_of, lines)) <= width
    assert len(lines) <= height


@examples(60)
@given(
    page=st.tuples(st.integers(40, 220), st.integers(20, 60)),
    size=st.integers(1, 60),
    count=st.integers(1, 40),
    medium=st.sampled_from(MEDIA),
    shared=st.booleans(),
)
def test_panels_are_within_their_page(page, size, count, medium, shared):
    noun = "head" if shared else "panel"
    figure = Panels((square(size),) * count, "several", shared=shared, noun=noun)
    lines = lines_of(figure, *page, medium)
    assert max(map(width_of, lines)) <= page[0]
    if shared or count * 15 + 6 <= page[1]:
        assert len(lines) <= page[1]
    if not shared:  # one under the other, as far down as need be
        assert sum(line.count("a square") for line in lines) == count


@pytest.mark.parametrize("medium", MEDIA)
def test_nothing_but_colours_needs_escape_codes(medium):
    text = "\n".join(lines_of(wave(100, 64), 80, 24, medium))
    assert ("\x1b" in text) == (medium.depth != "none")
    assert text.isascii() == medium.ascii_only


def test_pixels_have_the_colours_of_their_values():
    values = np.linspace(0, 1, 12).reshape(4, 3)
    heatmap = Heatmap(values, Axis("position", range(4)), Axis("dimension", range(3)))
    lines = lines_of(heatmap, 60, 30, TRUE)
    colors = color_map("viridis")
    body = [line for line in lines if "│" in line[:10] or "┤" in line[:10]]
    shown = [row for line in body for row in zip(*pixels_of(line[10:]), strict=True)]
    tall, wide = len(shown) // 4, len(shown[0]) // 3
    for i in range(4):
        for j in range(3):
            expected = tuple(colors[round(255 * values[i, j])].tolist())
            for y in range(i * tall, (i + 1) * tall):
                assert set(shown[y][j * wide : (j + 1) * wide]) == {expected}


def test_sines_and_cosines_are_bands_with_headings_and_their_own_ticks():
    bands = (Band("sin", 0, 8), Band("cos", 8, 16))
    axis = Axis("dimension", [*range(0, 16, 2), *range(1, 16, 2)], bands)
    values = np.repeat([[-1.0] * 8 + [1.0] * 8], 20, axis=0)
    lines = lines_of(Heatmap(values, Axis("position", range(20)), axis), 80, 24)
    assert lines[0].split() == ["position", "sin", "cos"]
    first = lines[1].partition("┤")[2]
    assert set(first.partition("│")[0]) == {" "}
    assert set(first.partition("│")[2]) == {"█"}
    labels = next(line for line in lines if line.startswith("dimension")).split()[1:]
    assert labels == ["0", "4", "8", "12", "1", "5", "9", "13"]


def test_undersampled_columns_are_marked_on_the_axis():
    lines = lines_of(wave(1000, 16), 60, 24)
    axis = next(line for line in lines if "└" in line)
    step = 999 / (sum("│" in line[:10] or "┤" in line[:10] for line in lines) - 1)
    fast = sum(2 * math.pi / 0.9**i < 2 * step for i in range(16))
    marked = axis.count("▴")
    assert marked > 0
    assert marked / (len(axis) - axis.index("└") - 2) == pytest.approx(fast / 16, abs=0.01)
    assert "▴ aliased: wavelength under two samples" in " ".join(lines)


def test_a_picture_that_shows_all_has_no_notes():
    lines = lines_of(wave(16, 16), 80, 40)
    assert not any("shows" in line or "aliased" in line for line in lines)
    assert lines[-1].split() == ["value", *lines[-1].split()[1:]]


def test_gaps_are_told_apart_and_explained():
    values = np.array([[np.nan, 0.0], [1.0, 0.5]])
    heatmap = Heatmap(values, Axis("row", range(2)), Axis("column", range(2)))
    picture = picture_text(heatmap, Page(60, 20, PLAIN))
    assert "?: not finite" in picture.content
    assert picture.warnings == ("1 of 4 values is not finite, shown as a gap",)
    colored = lines_of(heatmap, 60, 20, TRUE)
    body = next(line for line in colored if "┤" in line)
    first, *_, last = cells_of(body.partition("┤")[2])
    assert (first.glyph, last.glyph) == (" ", "▀")
    assert any("blank: not finite" in line for line in colored)


def test_equal_values_are_said_to_be_equal_and_nothing_finite_is_refused():
    axes = Axis("row", range(3)), Axis("column", range(3))
    assert lines_of(Heatmap(np.full((3, 3), 2.5), *axes), 60, 20)[-1].endswith("2.5 everywhere")
    heatmap = Heatmap(np.full((3, 3), np.nan), *axes)
    for figure in (heatmap, Panels((heatmap, heatmap), "")):
        with pytest.raises(InvalidInput, match="no value is finite"):
            lines_of(figure, 60, 20)


def test_squares_are_square_in_whatever_cells():
    for medium in (PLAIN, TRUE):
        lines = lines_of(square(12), 80, 40, medium)
        body = [line for line in lines if "│" in line[:8] or "┤" in line[:8]]
        # A character is twice as high as it is wide.
        (axis,) = (line for line in lines if "└" in line)
        assert len(axis.partition("└")[2]) == 2 * len(body)


def test_three_parts_are_side_by_side_where_they_have_more_rows_so():
    parts = tuple(replace(wave(64, 64), title=f"part {name}") for name in "abc")
    lines = lines_of(Panels(parts, "three", shared=False), 80, 23)
    assert lines[1].split() == ["part", "a", "part", "b", "part", "c"]
    assert sum(line.count("│") + line.count("┤") >= 3 for line in lines) >= 12


def test_panels_share_one_scale():
    figure = Panels((square(4, np.zeros((4, 4))), square(4, np.ones((4, 4)))), "two")
    lines = lines_of(figure, 60, 20)
    first = next(line for line in lines if "┤" in line)
    assert " " in first.partition("┤")[2]
    assert first.rstrip().endswith("█")
    assert sum("0   ████ 1" in line for line in lines) == 1
    third = square(4, np.full((4, 4), 0.5))
    lines = lines_of(replace(figure, panels=(*figure.panels, third)), 60, 20)
    assert sum("value 0 [" in line for line in lines) == 1


def test_of_maps_that_belong_together_the_last_stands_for_all_where_few_have_room():
    axis = Axis("query", range(4))
    maps = tuple(Heatmap(np.eye(4) * i, axis, axis, f"map {i}", square=True) for i in range(24))
    text = picture_text(Panels(maps, "t", across=6), Page(80, 23, Medium())).content
    assert re.findall(r"map \d+", text) == ["map 5", "map 11", "map 17", "map 23"]
    assert "shows 4 of 24 panels" in text


def test_curves_leave_out_what_is_not_finite_and_end():
    curve = Curve((0.0, 1.0, 2.0, 3.0), (1.0, math.nan, math.inf, 4.0), "one")
    text = "\n".join(lines_of(Curves((curve,), "t", "x", "y"), 60, 16))
    assert text.count("•") == 3  # two points, and the legend
    with pytest.raises(InvalidInput, match="no value is finite"):
        lines_of(Curves((Curve((0.0,), (math.nan,)),), "t", "x", "y"), 60, 16)


def test_logarithmic_curves_leave_out_what_has_no_logarithm():
    curve = Curve((0.0, 1.0, 2.0), (0.0, 10.0, 1000.0))
    levels = ((100.0, "level"),)
    figure = Curves((curve,), "t", "x", "y", y_scale="log", levels=levels, joined=False)
    lines = lines_of(figure, 60, 16)
    assert sum(line.count("•") for line in lines) == 2
    assert max(line.count("-") for line in lines[:-1]) > 40
    assert max(map(len, lines)) <= 60
    assert len(lines) <= 16


def test_a_page_too_small_is_the_smallest():
    assert max(map(width_of, lines_of(wave(8, 8), 1, 1))) <= NARROWEST
    assert LOWEST <= 8


@pytest.mark.parametrize(("count", "width"), [(2, 60), (3, 80), (8, 44), (5, 60), (5, 200)])
def test_of_small_maps_those_at_the_bottom_and_no_others_have_their_columns_named(count, width):
    panels = tuple(replace(square(8), title=f"head {i}") for i in range(count))
    lines = lines_of(Panels(panels, "heads", noun="head"), width, 60)
    last = max(i for i, line in enumerate(lines) if "head " in line)
    (axis,) = (i for i, line in enumerate(lines) if "└" in line)
    assert axis > last
    assert set(lines[axis + 1].replace(" ", "")) <= set("01234567")


@pytest.mark.parametrize("height", range(21, 33))
def test_maps_apart_leave_room_for_their_notes(height):
    panels = Panels((square(300), wave(300, 64)), "two", shared=False, notes=("a note " * 20,))
    assert len(lines_of(panels, 78, height)) <= height


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 95, 10**6, 10**12])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16])
def test_names_of_columns_end_where_the_map_does_but_for_the_first(count, first):
    points = range(first, first + count)
    for height in range(14, 40):
        heatmap = replace(square(count), columns=Axis("key", points, even=True))
        lines = lines_of(heatmap, 60, height)
        axis = next(i for i, line in enumerate(lines) if "└" in line)
        end = max(len(lines[axis]), lines[axis].index("└") + 1 + len(str(first)))
        assert len(lines[axis + 1]) <= end, lines[axis : axis + 2]
