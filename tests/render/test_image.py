"""Figures as files: the size asked for, the colours of the values, the same bytes every time."""

import io
import itertools
import math
import re
from html import unescape
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import matplotlib.artist
import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure as Page
from PIL import Image

from posenc_cli.errors import InvalidInput
from posenc_cli.records import replace
from posenc_cli.render.drawing.image import Drawing, _settings, drawn_page, image_bytes, png_of
from posenc_cli.render.figure import (
    Axis,
    Band,
    Curve,
    Curves,
    Envelope,
    Figure,
    Heatmap,
    Panels,
    scale_of,
)
from posenc_cli.render.style import Style, color_map
from tests.processes import ran_code

SMALL = Style(width=480, height=320, dpi=100)


def heatmap(values: Any, **settings: Any) -> Heatmap:
    values = np.asarray(values, np.float64)
    rows, columns = values.shape
    return Heatmap(values, Axis("row", range(rows)), Axis("column", range(columns)), **settings)


def pixels(figure: Figure, style: Style = SMALL) -> np.ndarray:
    content = image_bytes(figure, "png", style).content
    return np.rint(255 * matplotlib.image.imread(io.BytesIO(content))[:, :, :3]).astype(int)


def count_of(image: np.ndarray, color: Any) -> int:
    return int((image == np.asarray(color, int)).all(axis=2).sum())


def runs(line: np.ndarray) -> list[tuple[tuple[int, ...], int]]:
    """The colours along a line of pixels, each with how many pixels it has."""
    changes = np.flatnonzero((np.diff(line, axis=0) != 0).any(axis=1)) + 1
    return [(tuple(part[0].tolist()), len(part)) for part in np.split(line, changes)]


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("size", [(480, 320), (333, 257), (64, 64), (1000, 100)])
def test_a_fixed_size_is_kept_to_the_pixel(size):
    assert pixels(heatmap(np.eye(5), title="a title"), Style(*size)).shape[:2] == size[::-1]


@pytest.mark.slow
def test_cells_are_equal_and_have_the_colours_of_their_values():
    values = np.linspace(0, 1, 7)[None].repeat(3, axis=0)
    check_cells(pixels(heatmap(values)), values)
    curve = Curves((Curve((0.0, 1.0), (0.0, 1.0)),), "a curve", "x", "y")
    beside = Panels((heatmap(values), curve), "a map and a curve", shared=False)
    check_cells(pixels(beside, Style(811, 320)), values)


def check_cells(image: np.ndarray, values: np.ndarray) -> None:
    expected = [tuple(color_map("viridis")[round(255 * v)].tolist()) for v in values[0]]
    found = [run for run in runs(image[image.shape[0] // 2]) if run[0] in expected and run[1] > 4]
    # A pixel at either end may be the frame's.
    assert [color for color, _ in found[:7]] == expected
    widths = [width for _, width in found[1:6]]
    assert np.ptp(widths) <= 1


@pytest.mark.long
def test_zero_is_neutral_in_a_signed_figure_and_gaps_are_grey():
    image = pixels(heatmap([[-1.0, 0.0, np.nan, 4.0]]))
    polar = color_map("polar")
    assert count_of(image, polar[255]) > 1000
    assert count_of(image, polar[128]) + count_of(image, polar[127]) > 1000
    assert count_of(image, [0xB9] * 3) > 1000


@pytest.mark.slow
def test_themes_and_maps_change_the_colours():
    figure = heatmap([[-1.0, 1.0]])
    assert tuple(pixels(figure)[0, 0]) == (255, 255, 255)
    dark = pixels(figure, Style(480, 320, 100, theme="dark"))
    assert tuple(dark[0, 0]) == (0x14, 0x16, 0x1A)
    assert count_of(dark, color_map("polar-dark")[255]) > 1000
    gray = pixels(figure, Style(480, 320, 100, cmap="gray"))
    assert count_of(gray, color_map("gray")[255]) > 1000
    with pytest.raises(InvalidInput, match="--cmap"):
        pixels(figure, Style(480, 320, 100, cmap="no such map"))


@pytest.mark.long
def test_a_figure_computes_no_more_than_it_has_pixels():
    asked = []

    def cells(rows: Any, columns: Any) -> np.ndarray:
        asked.append((len(rows), len(columns)))
        return np.zeros((len(rows), len(columns)))

    bands = (Band("sin", 0, 2048), Band("cos", 2048, 4096))
    figure = Heatmap(cells, Axis("position", range(2**50)), Axis("dimension", range(4096), bands))
    picture = image_bytes(figure, "png", SMALL)
    ((rows, columns),) = asked
    assert rows <= 320
    assert columns <= 480
    (shown,) = picture.shown
    assert shown.values.shape == (rows, columns)


@pytest.mark.long
def test_undersampled_columns_are_underlined():
    def figure(wavelength: float) -> Heatmap:
        return Heatmap(
            np.zeros((1000, 4)),
            Axis("position", range(1000)),
            Axis("dimension", range(4)),
            wavelengths=lambda _rows, columns: np.full(len(columns), wavelength),
        )

    mark = (0xD5, 0x5E, 0x00)
    assert count_of(pixels(figure(2.0)), mark) > 100
    assert count_of(pixels(figure(2000.0)), mark) == 0


CASES: dict[str, Figure] = {
    "signed": heatmap([[-1.0, 1.0, math.nan]], title="τ $x$ 🙂 <&>"),
    "constant": heatmap([[3.0]]),
    "one row": heatmap(np.arange(300.0)[None]),
    "one column": heatmap(np.arange(3000.0)[:, None]),
    "largest": heatmap([[np.finfo(np.float64).max, -np.finfo(np.float64).max]]),
    "panels": Panels((heatmap(np.eye(3), title="head 0"),) * 50, "many", noun="head"),
    "mixed": Panels(
        (heatmap(np.eye(3)), Curves((Curve((1.0, 2.0), (3.0, math.inf), "c"),), "t", "x", "y")),
        "mixed",
        shared=False,
    ),
    "log": Curves(
        (Curve((1.0, 2.0), (3.0, 4.0), "$c"), Curve((1.0,), (0.0,))),
        "t",
        "x",
        "y",
        y_scale="log",
        levels=((3.5, "level"),),
        notes=("a note",),
    ),
}


@pytest.mark.long
@pytest.mark.sweep(25)
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
@pytest.mark.parametrize("name", CASES)
def test_every_figure_is_drawn_twice_the_same(name, form):
    first = image_bytes(CASES[name], form, SMALL).content
    assert image_bytes(CASES[name], form, SMALL).content == first
    magic = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"}[form]
    assert first.startswith(magic)
    assert not re.search(rb"CreationDate|<dc:date>|Software", first)


def test_a_png_is_drawn_once_and_holds_no_transparency(monkeypatch):
    drawn, draw = [], Page.draw
    monkeypatch.setattr(Page, "draw", lambda page, to: (drawn.append(page), draw(page, to)))
    content = image_bytes(heatmap(np.eye(8)), "png", SMALL).content
    assert len(drawn) == 1
    with Image.open(io.BytesIO(content)) as image:
        assert image.mode == "RGB"
        assert np.allclose(image.info["dpi"], 100, atol=0.01)


@pytest.mark.parametrize("name", ["map", "curves", "noise"])
def test_a_png_has_the_pixels_of_matplotlib_in_no_more_bytes(name):
    noise = heatmap(np.random.default_rng(0).normal(size=(64, 64)))
    figure = {"map": heatmap(np.eye(40)), "curves": CASES["log"], "noise": noise}[name]
    page, usual = drawn_page(figure, Style()), io.BytesIO()
    page.savefig(usual, format="png", dpi=Style().dpi)
    found = png_of(page)
    assert len(found) <= 1.1 * len(usual.getvalue())
    both = (matplotlib.image.imread(io.BytesIO(png)) for png in (usual.getvalue(), found))
    np.testing.assert_array_equal(*(image[..., :3] for image in both))


def drawing_of(figure: Figure, style: Style = SMALL) -> Drawing:
    """A figure, laid out on its page."""
    with _settings(style):
        drawing = Drawing(style)
        drawing.add(figure)
        drawing.page.draw_without_rendering()
    return drawing


def frames(figure: Figure, style: Style) -> list[tuple[float, float, float, float]]:
    """The left, top, width and height of all axes of a figure, in pixels."""
    whole = [each.get_position() for each in drawing_of(figure, style).page.axes]
    sides = np.array([style.width, style.height] * 2)
    parts = [(each.x0, 1 - each.y1, each.width, each.height) for each in whole]
    return [tuple((sides * each).round(3).tolist()) for each in parts]


@pytest.mark.slow
def test_panels_of_a_row_are_alike_and_those_below_begin_where_they_do():
    def square(count: int, label: str) -> Heatmap:
        axis = Axis("query", range(count))
        values = np.linspace(-150, 1, count * count).reshape(count, count)
        return Heatmap(values, axis, axis, "t", value_label=label, square=True)

    maps = tuple(square(256, label) for label in ("short", "q·k / d, content ones", "x" * 80))
    curves = (Curves((Curve((0.0, 1.0), (0.0, 1.0)),), "t", "offset", "a name " * 20),) * 3
    style = Style(1800, 1200)
    found = frames(Panels((*maps, *curves), "six", shared=False), style)
    drawn, below = found[:3], found[3:]
    assert len({frame[1:] for frame in drawn}) == 1
    assert drawn[0][2] == pytest.approx(drawn[0][3])
    assert [frame[0] for frame in drawn] == pytest.approx([frame[0] for frame in below], abs=1)
    assert below[0][1] - (drawn[0][1] + drawn[0][3]) < 200
    assert below[0][3] > drawn[0][3]


@pytest.mark.long
def test_panels_of_a_row_are_level_whatever_their_titles():
    square = Heatmap(np.eye(5), Axis("y", range(5)), Axis("x", range(5)), "t", square=True)
    panels = (square, replace(square, title="a title of many words " * 4))
    first, second = frames(Panels(panels, "two", shared=False), Style(1200, 600))
    assert first[1] == second[1]


USUAL = Style(1200, 800)


def texts(figure: Figure, style: Style = USUAL) -> list[str]:
    """What an SVG of a figure says, text by text."""
    content = image_bytes(figure, "svg", style).content.decode()
    return [unescape(text) for text in re.findall(r"<(?:text|tspan)[^>]*>([^<\n]+)<", content)]


@pytest.mark.long
def test_an_svg_has_text_a_title_and_a_description_that_no_text_of_it_breaks():
    figure = replace(heatmap([[-1.0, 2.5]], title="a < b & c"), notes=("</desc>", "\x1b[31m"))
    content = image_bytes(figure, "svg", SMALL).content
    root = ElementTree.fromstring(content)
    space = "{http://www.w3.org/2000/svg}"
    names = {root.find(f"{space}{name}").get("id"): name for name in ("title", "desc")}
    assert root.get("aria-labelledby").split() == [*names]
    assert root.find(f"{space}title").text == "a < b & c"
    told = root.find(f"{space}desc").text
    assert "value: -1 to 2.5" in told
    assert "</desc>" in told
    assert "\x1b" not in content.decode()
    assert {"a < b & c", "row", "column"} <= set(texts(figure))


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("y", "scale", "expected"),
    [
        ((0.004, 0.5), "log", ["0.005", "0.01", "0.05", "0.1", "0.5"]),
        ((2.0, 5.0), "log", ["2", "3", "4", "5"]),
        ((-1.0, 1.0), "linear", ["−1.0", "−0.2", "0.0", "0.4", "1.0"]),
        ((3.0, 3.0), "log", ["3"]),
    ],
)
def test_axes_of_curves_are_labelled_in_full(y, scale, expected):
    found = texts(Curves((Curve((0.0, 1.0), y),), "t", "x", "y", y_scale=scale))
    assert set(expected) <= set(found)


@pytest.mark.long
def test_powers_of_ten_name_many_decades():
    found = texts(Curves((Curve((20.0, 30.0), (1e-9, 1e9)),), "t", "x", "y", y_scale="log"))
    lowered = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    powers = [int(text[2:].translate(lowered)) for text in found if text[2:3] in {*"⁻⁰¹²³⁴⁵⁶⁷⁸⁹"}]
    assert len(powers) > 3
    assert len({*np.diff(powers).tolist()}) == 1
    wide = texts(Curves((Curve((20.0, 30.0), (2.0, 3e7)),), "t", "x", "y", y_scale="log"))
    assert {"10²", "10⁶", "10⁷"} <= {*wide}
    assert not {"100", "1000000", "1e+07"} & {*wide}  # all numbers of an axis are written alike


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("values", [(1e308, -1e308), (5e-324, 1e-323), (1e-300, 1e300), (1, 1)])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_extreme_values_are_drawn_in_a_file_too(values, scale):
    if scale == "linear" or min(values) > 0:
        for along in ((0.0, 1.0), values):
            curve = Curve(tuple(sorted(along)), values)
            scales = {"y_scale": scale, "x_scale": scale if along is values else "linear"}
            assert image_bytes(Curves((curve,), "t", "x", "y", **scales), "png", SMALL).content


@pytest.mark.long
def test_an_axis_of_whole_numbers_has_no_fractions():
    found = texts(Curves((Curve((0.0, 1.0, 2.0), (0.0, 10.0, 20.0)),), "t", "head", "y"))
    assert not [text for text in found if "." in text]


@pytest.mark.slow
def test_spans_and_envelopes_are_shaded():
    x, low, high = (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)
    plain = Curves((Curve(x, high, "a"), Curve(x, low, "b")), "t", "x", "y")
    band = Envelope(low, high, "lowest to highest")
    shaded = replace(plain, curves=(replace(plain.curves[0], envelope=band), plain.curves[1]))
    zones = replace(plain, spans=((0.0, 0.5, "kept"), (0.5, 1.0, "interpolated")))
    white = [count_of(pixels(figure), (255, 255, 255)) for figure in (plain, shaded, zones)]
    assert white[1] < 0.7 * white[0]
    assert white[2] < 0.7 * white[0]
    assert {"kept", "interpolated"} <= set(texts(zones))
    assert "lowest to highest" in texts(shaded)


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_characters_that_the_font_lacks_are_named(form):
    figure = heatmap([[1.0]], title="τ 🙂 語🙂")
    (warning,) = image_bytes(figure, form, SMALL).warnings
    assert warning == "the font has no glyph for '🙂語', drawn as a box"
    assert image_bytes(heatmap([[1.0]], title="τ · −"), form, SMALL).warnings == ()


@pytest.mark.long
def test_a_colour_scale_names_its_ends_and_one_by_ratio_powers_of_ten():
    assert {"0.618", "0.8", "1"} <= set(texts(heatmap([[0.618, 0.7, 1.0]])))
    found = texts(Panels((faint(100.0), faint(0.5)), "two"))
    assert {"0", "−1", "−10", "−100", "score, log scale"} <= set(found)


@pytest.mark.long
def test_two_values_have_two_colours_beside_them_and_no_value_between():
    two = heatmap([[0.0, 1.0], [1.0, np.nan]])
    assert not {"0.5", "0.2"} & set(texts(two))
    assert {"0", "1"} <= set(texts(two))
    colors, counts = np.unique(pixels(two).reshape(-1, 3), axis=0, return_counts=True)
    drawn = {tuple(color) for color in colors[counts > 2000].tolist()}
    ends = {tuple(color) for color in color_map("viridis")[[0, -1]].tolist()}
    assert drawn == {(255, 255, 255), (185, 185, 185), *ends}
    assert scale_of([heatmap([[0.0, 1.0, 0.5]]).sample(1, 3)]).only == ()


def test_nothing_finite_is_refused():
    for figure in (heatmap([[math.nan]]), Curves((Curve((1.0,), (math.inf,)),), "t", "x", "y")):
        with pytest.raises(InvalidInput, match="no value is finite"):
            image_bytes(figure, "png", SMALL)


def test_the_least_numbers_there_are_can_be_drawn():
    assert image_bytes(heatmap([[5e-324, 0], [1e-320, 3e-324]]), "png", SMALL).content


def test_bands_of_columns_stand_beside_each_other_each_over_its_own_columns():
    values = np.linspace(0, 1, 12 * 3).reshape(3, 12)
    bands = (Band("cos", 0, 5), Band("sin", 5, 12))
    figure = Heatmap(values, Axis("row", range(3)), Axis("column", range(12), bands), "t")
    drawing = drawing_of(figure)
    (left, right) = (image.get_extent() for image in drawing.page.axes[0].images)
    across = (left[1] - left[0]) / 5
    assert right[1] - right[0] == pytest.approx(7 * across)
    assert left[0] == 0
    assert 0 < right[0] - left[1] < across


@pytest.mark.parametrize("notes", [(), ("what is said of it " * 12,)])
def test_names_of_curves_stand_above_the_axes_and_are_counted_where_they_have_no_room(notes):
    names = [f"an encoding of a long name and many parameters, number {n}" for n in range(12)]
    curves = tuple(Curve((0.0, 1.0), (0.0, 1.0 + n), name) for n, name in enumerate(names))
    drawing = drawing_of(Curves(curves, "t", "x", "y", notes=notes))
    (axes,) = drawing.page.axes
    whole, page = axes.get_window_extent(), drawing.page.bbox
    names_above = axes.get_legend().texts
    boxes = [text.get_window_extent() for text in names_above]
    assert all(whole.y1 < box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1 for box in boxes)
    for first, second in itertools.combinations(boxes, 2):
        apart = max(first.x0, second.x0) > min(first.x1, second.x1)
        assert apart or min(first.y1, second.y1) <= max(first.y0, second.y0) + 1
    said = [text.get_text().replace("\n", " ") for text in names_above]
    assert said[-1] == f"and {12 - len(said) + 1} more"


@pytest.mark.long
def test_means_of_half_a_rotation_and_more_are_hatched_and_show_no_value():
    """A wave of 3 positions rotates three times in each of 40 rows of 400 positions."""
    waves = np.array([3.0, 25.0])
    angles = 2 * np.pi * np.arange(400)[:, None] / waves
    whole = Heatmap(
        np.sin(angles),
        Axis("position", range(400)),
        Axis("column", range(2)),
        limits=(-1, 1),
        wavelengths=lambda _, columns: waves[list(columns)],
        row_means=lambda rows, columns: np.ones((len(rows), len(columns))),
    )
    shown = whole.sample(40, 2)
    assert (shown.row_means, shown.faded, shown.undersampled) == (True, (0,), ())
    assert whole.sample(400, 2).faded == ()
    image = pixels(whole, Style(300, 200))
    highest = color_map("polar")[-1]
    columns = np.flatnonzero((image == highest).all(axis=2).sum(axis=0) > 40)
    alone = pixels(replace(whole, wavelengths=None), Style(300, 200))
    before = np.flatnonzero((alone == highest).all(axis=2).sum(axis=0) > 40)
    assert 0 < len(columns) < 0.6 * len(before)
    assert any("hatched: too fast to show" in text for text in texts(whole, Style(600, 300)))


def faint(size: float, **settings: Any) -> Heatmap:
    return heatmap([[0.0, -size]], value_label="score", graded=True, **settings)


def test_maps_of_sizes_far_apart_share_a_scale_by_ratio_and_others_do_not():
    shown = [faint(size).sample(1, 2) for size in (100.0, 10.0, 1.0)]
    scale = scale_of(shown)
    places = [1 - float(scale.places(part.values)[0, 1]) for part in shown]
    # In logarithms of units of a quarter of the faintest: 4, 40 and 400 of them.
    right = [np.log1p(units) / np.log1p(400) for units in (400, 40, 4)]
    np.testing.assert_allclose(places, right, rtol=1e-12)
    assert scale.named("score") == "score, log scale"
    assert float(scale.places(np.zeros((1, 1)))[0, 0]) == 1
    assert scale_of(shown[:1]).unit == scale_of([faint(4).sample(1, 2), shown[2]]).unit == 0
    plain = [replace(part, heatmap=replace(part.heatmap, graded=False)) for part in shown]
    assert scale_of(plain).unit == 0
    signs = [faint(100.0).sample(1, 2), heatmap([[-1.0, 2.0]], graded=True).sample(1, 2)]
    around = scale_of(signs)  # in units of half of 1: the smaller map is seen, not only signs
    assert (around.low, around.high, around.kind) == (-100, 100, "diverging")
    found = around.places(np.array([[-100.0, -1.0, 0.0, 2.0]]))
    half = np.log1p(np.array([200, 2, 0, 4])) / np.log1p(200) / 2
    np.testing.assert_allclose(found, [0.5 + half * [-1, -1, 0, 1]], rtol=1e-12)
    assert scale_of([faint(4, unit=0.5).sample(1, 2)]).unit == 0.5
    tiny = scale_of([faint(1e300).sample(1, 2), faint(5e-324).sample(1, 2)])
    assert np.isfinite(tiny.places(np.array([[-1e300, -5e-324, 0.0]]))).all()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([-0.04, 1.0], "sequential"),
        ([-0.06, 1.0], "diverging"),
        ([-1.0, 0.04], "sequential"),
        ([-1.0, 0.06], "diverging"),
    ],
)
def test_colours_diverge_where_both_signs_can_be_seen(values, kind):
    scale = scale_of([heatmap([values]).sample(1, 2)])
    assert scale.kind == kind
    ends = {"sequential": tuple(values), "diverging": (-1.0, 1.0)}
    assert (scale.low, scale.high) == ends[kind]


def test_on_a_log_scale_colours_diverge_for_any_sign():
    mixed = [heatmap([[-100.0, 0.5]], graded=True), heatmap([[1e-3, -2.0]], graded=True)]
    assert scale_of([each.sample(1, 2) for each in mixed]).kind == "diverging"


@pytest.mark.long
def test_no_two_names_of_a_colour_scale_stand_over_each_other():
    around = heatmap([[-1e-3, 2e-3]], value_label="score", graded=True)
    (bar,) = drawn_page(Panels((faint(100.0), around), "two"), Style()).axes[0].child_axes
    heights = np.array(bar.get_yticks()) * bar.bbox.height
    assert np.diff(heights).min() >= Style().line
    assert {"0", "−100", "100"} <= {label.get_text() for label in bar.get_yticklabels()}


@pytest.mark.long
def test_as_many_rows_and_columns_are_named_as_have_room():
    (rows,) = drawn_page(heatmap(np.arange(160.0).reshape(40, 4)), Style(600, 800)).axes
    names = [label.get_text() for label in rows.get_yticklabels()]
    assert names == [*map(str, range(0, 40, 4))]
    columns = drawn_page(heatmap(np.eye(64)), Style()).axes[0].get_xticklabels()
    assert [label.get_text() for label in columns][:3] == ["0", "4", "8"]


@pytest.mark.long
def test_many_circles_are_small_and_a_page_stays_bounded():
    circle = Curves((Curve((0.0, 1.0), (0.0, 0.0)),), "pair 0", "column 0", "column 1", square=True)
    found = texts(Panels((circle,) * 64, "sixty-four", shared=False), Style(1760, 1900))
    assert found.count("pair 0") == 64
    assert "column 0" not in found
    assert "column 0" in texts(Panels((circle,) * 4, "four", shared=False))


@pytest.mark.long
def test_points_at_the_edge_of_a_sheet_of_circles_are_whole():
    turn = np.linspace(0, 2 * np.pi, 9)
    dots = Curve.of(np.cos(turn), np.sin(turn))
    circle = Curves((replace(dots, joined=False),), "pair", "x", "y", square=True)
    page = drawn_page(Panels((circle,) * 20, "twenty", shared=False), Style())
    (axes,) = page.axes
    assert not any(line.get_clip_on() for line in axes.lines)
    widest = max(line.get_window_extent().x1 for line in axes.lines)
    assert widest + 3.4 / 2 * Style().dpi / 72 <= page.bbox.x1


@pytest.mark.long
def test_names_of_curves_come_before_those_of_envelopes():
    around = Envelope((0.0, 0.0), (2.0, 2.0), "lowest to highest of each 4 offsets")
    curves = tuple(
        Curve((0.0, 1.0), (1.0, 1.0), f"{index} of several models of one company", envelope=around)
        for index in range(40)
    )
    names = texts(Curves(curves, "t", "x", "y"), Style(300, 300))
    assert [name for name in names if name.startswith("0 of several")]
    assert [name for name in names if re.match(r"and \d+ more", name)], names
    assert not [name for name in names if "lowest" in name]


def unused_share(figure: Figure, style: Style) -> float:
    """The share of a page in no box of a panel with its labels and scale, and no line of text.

    The names of curves take no more than their own box.
    """
    drawing = drawing_of(figure, style)
    page = drawing.page
    with _settings(style):
        renderer = page.canvas.get_renderer()
        free = np.ones((drawing.height, drawing.width), bool)
        legends = [legend for axes in page.axes if (legend := axes.get_legend())]
        for legend in legends:
            legend.set_in_layout(False)
        boxes = [part.get_tightbbox(renderer) for part in (*page.axes, *legends)]
        lines = [each for each in page.texts if each.get_text().strip()]
        for box in (*boxes, *(line.get_window_extent() for line in lines)):
            top, bottom = drawing.height - box.y1, drawing.height - box.y0
            left, right = (int(box.x0), math.ceil(box.x1)) if box in boxes else (0, None)
            free[max(0, int(top)) : math.ceil(bottom), left:right] = 0
        return float(free.mean())


def a_map(title: str, *, square: bool = True, side: int = 96) -> Heatmap:
    axis = Axis("query", range(side))
    values = np.linspace(-1, 1, side * side).reshape(side, side)
    return Heatmap(values, axis, axis, title, value_label="score", square=square)


A_CURVE = Curves((Curve((0.0, 9.0), (0.0, 1.0), "a name"),), "by offset", "offset", "q·k")
CIRCLE = Curves((Curve((-1.0, 1.0), (0.0, 0.0)),), "pair 0: 0.0002 turns", "x", "y", square=True)
SHEETS = {
    "one map": a_map("one"),
    "one map of any shape": a_map("one", square=False),
    "8 heads": Panels(tuple(a_map(f"head {i}") for i in range(8)), "heads", noun="head"),
    "64 heads": Panels(tuple(a_map(f"head {i}") for i in range(64)), "heads", noun="head"),
    "64 clocks": Panels((CIRCLE,) * 64, "clocks", shared=False),
    "a map beside curves": Panels((a_map("map"), A_CURVE), "both", shared=False),
    "three maps above curves": Panels(
        (*(a_map(f"{n}", side=128) for n in "abc"), *(A_CURVE,) * 3), "six", shared=False
    ),
    "maps of two shapes": Panels(
        (a_map("a"), a_map("b"), a_map("c", square=False)), "three", shared=False
    ),
    "curves": replace(A_CURVE, levels=((0.5, "half"),)),
    "a spectrum": replace(
        A_CURVE,
        levels=((0.5, "the context of the model, 131072 positions"), (0.2, "the original context")),
    ),
}
SIDES = {
    "a map beside curves": [(1600, 800), (1700, 1100)],
    "maps of two shapes": [(1700, 1000), (1700, 1100), (800, 1200)],
    "three maps above curves": [(1700, 1100), (800, 1200)],
}
"""Sizes of pages whose panels have several shapes, about as the commands choose them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHEETS)
def test_at_most_a_tenth_of_a_page_is_empty(name):
    figure = SHEETS[name]
    for sides in SIDES.get(name, [(1700, 1100)]):
        assert unused_share(figure, replace(Style(*sides), fixed=(False, False))) < 0.1


@pytest.mark.long
def test_the_label_of_a_color_scale_is_apart_from_the_next_axes():
    curve = replace(A_CURVE, y_label="score of the map")
    both = Panels((a_map("map"), curve), "both", shared=False)
    drawing = drawing_of(both, Style(1650, 850, fixed=(False, False)))
    first, second = drawing.page.axes
    (bar,) = first.child_axes
    label, other = (each.yaxis.label.get_window_extent() for each in (bar, second))
    assert other.x0 - label.x1 >= 0.8 * drawing.style.line
    assert second.get_legend().get_window_extent().x1 <= drawing.width


@pytest.mark.long
def test_curves_that_are_last_of_three_panels_fill_their_row():
    drawing = Drawing(Style(1500, 1650))
    drawing.add(Panels((a_map("a"), a_map("b"), A_CURVE), "three", shared=False))
    first, second, curve = (axes.bbox for axes in drawing.page.axes if axes.get_title().strip())
    assert curve.x0 == pytest.approx(first.x0, abs=1)
    assert curve.x1 >= second.x1
    assert curve.y1 < first.y0


@pytest.mark.long
def test_many_heads_are_drawn_in_one_axes():
    """To lay out axes for each takes most of the time of a sheet."""
    (sheet,) = drawing_of(SHEETS["64 heads"], Style(1700, 1100)).page.axes
    assert len(sheet.images) == 64
    extents = {tuple(image.get_extent()) for image in sheet.images}
    assert len(extents) == 64
    sizes = {(round(right - left, 6), round(low - top, 6)) for left, right, low, top in extents}
    assert len(sizes) == 1


@pytest.mark.long
@pytest.mark.parametrize("words", [3, 5])
def test_the_titles_of_panels_end_on_the_page_however_the_others_are_named(words):
    title = " ".join(["RoFormer's"] * words)
    named = replace(A_CURVE, curves=(replace(A_CURVE.curves[0], name="a long name " * 4),))
    plain = replace(A_CURVE, curves=(replace(A_CURVE.curves[0], name=""),), title=title)
    two = Panels((named, plain), "two", shared=False)
    drawing = drawing_of(two, Style(800, 534, dpi=100))
    for axes in drawing.page.axes:
        assert axes.get_tightbbox().x1 <= drawing.width
    assert drawing.page.axes[1].get_title(loc="left").replace("\n", " ") == title


@pytest.mark.parametrize(
    "count", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_every_map_of_a_narrow_page_has_its_whole_name(count):
    names = [
        f"sinusoidal{index} {order}" for index in range(count) for order in ("on", "back", "-")
    ]
    maps = tuple(a_map(name, side=3) for name in names)
    notes = ("forward: dog bites man; backward: man bites dog, drawn in the same order",)
    sheet = Panels(maps, "a title of many words " * 5, notes=notes, across=3)
    drawing = drawing_of(sheet, Style(fixed=(False, False)))
    (axes,) = drawing.page.axes
    titles = [text for text in axes.texts if text.get_text()]
    assert [text.get_text().replace("\n", " ") for text in titles] == names
    written = (*titles, *drawing.page.texts)
    boxes = [text.get_window_extent() for text in written]
    assert all(box.x1 <= drawing.width and box.y0 >= 0 for box in boxes)
    for first, second in itertools.combinations(boxes[: len(titles)], 2):
        assert not first.overlaps(second)
    drawn = [image.get_window_extent() for image in axes.images]
    assert not any(box.overlaps(each) for box in boxes[: len(titles)] for each in drawn)
    lefts = {round(image.get_extent()[0], 3) for image in axes.images}
    assert len(lefts) % 3 == 0


def test_maps_of_few_words_label_each_of_them_however_many_encodings_there_are():
    words = Axis("key", ("dog", "bites", "man"))
    for count in (1, 2, 3):
        maps = tuple(replace(a_map("sinusoidal on", side=3), columns=words) for _ in range(3))
        sheet = Panels(maps * count, "scores of three words", across=3)
        (axes,) = drawing_of(sheet, Style(fixed=(False, False))).page.axes
        assert [label.get_text() for label in axes.get_xticklabels()] == [*words.points] * 3


def test_titles_of_maps_also_end_lines_with_a_hyphen():
    names = [f"sinus-pos-embed {order}" for order in ("on", "back", "-")]
    maps = tuple(a_map(name, side=3) for name in names)
    axes = drawing_of(Panels(maps * 3, "maps", across=3), Style(fixed=(False, False))).page.axes[0]
    titles = [text for text in axes.texts if text.get_text()]
    assert titles[0].get_text() == "sinus-pos-\nembed on"
    for first, second in itertools.pairwise(text.get_window_extent() for text in titles):
        assert not first.overlaps(second)


_IN_A_NEW_PROCESS = """
import sys
import numpy as np
from posenc_cli.render.drawing.image import drawn_page, image_bytes
from posenc_cli.render.figure import Axis, Heatmap
from posenc_cli.render.style import Style
figure = Heatmap(np.eye(4), Axis("row", range(4)), Axis("column", range(4)))
{draw}
from matplotlib.artist import Artist, kwdoc
from matplotlib.lines import Line2D
class Own(Line2D):
    pass
Own([0], [0]).set(linewidth=2)
print("matplotlib.style" in sys.modules, "dash_capstyle:" in Line2D.set.__doc__)
assert "dash_capstyle:" in kwdoc(Line2D)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("draw", "written"),
    [('image_bytes(figure, "png", Style())', False), ("drawn_page(figure, Style())", True)],
)
def test_only_pages_for_a_program_have_matplotlibs_help(draw, written):
    found = ran_code(_IN_A_NEW_PROCESS.format(draw=draw)).stdout.split()
    assert found == ["False", str(written)]


def test_a_matplotlib_without_lists_of_properties_draws_too(monkeypatch):
    monkeypatch.delattr("matplotlib.artist.kwdoc")
    assert image_bytes(heatmap(np.eye(4)), "png", SMALL).content
    assert not hasattr(matplotlib.artist, "kwdoc")


@pytest.mark.long
@pytest.mark.parametrize(
    ("spans", "named"),
    [
        (((-0.5, 28.5, "kept"), (28.5, 34.5, "blended"), (34.5, 63.5, "interpolated")), 3),
        (((-0.5, 1.5, "kept"), (1.5, 61.5, "blended"), (61.5, 63.5, "interpolated")), 3),
        (((-0.5, 1.5, "b"), (1.5, 2.5, "aaaa"), (2.5, 3.5, "b"), (7.5, 63.5, "aaaa")), 3),
        ([(4 * i - 0.5, 4 * i + 3.5, "ab"[i % 2] * 20) for i in range(16)], None),
    ],
)
def test_names_of_neighbouring_spans_do_not_lie_on_each_other(spans, named):
    curve = Curve((0.0, 63.0), (0.0, 1.0))
    (axes,) = drawing_of(Curves((curve,), "t", "pair", "y", spans=spans)).page.axes
    with _settings(SMALL):
        boxes = [text.get_window_extent() for text in axes.texts]
    assert named in (None, len(boxes))
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.long
def test_a_narrow_span_at_the_left_has_its_name_over_its_own_panel():
    curve = replace(A_CURVE, spans=((0.0, 0.2, "a whole wavelength in training"),))
    page = drawn_page(Panels((A_CURVE, curve), "two", shared=False), Style())
    (name,) = page.axes[1].texts
    assert name.get_window_extent().x0 >= page.axes[1].bbox.x0


def drawn_panels(page: Page) -> int:
    return sum(axes.get_subplotspec() is not None for axes in page.axes)


@pytest.mark.long
def test_text_is_smaller_where_only_so_all_panels_fit():
    several = Panels((*[heatmap(np.eye(5), square=True)] * 5, A_CURVE), "six", shared=False)
    page = drawn_page(several, Style(800, 1200))
    assert drawn_panels(page) == 6
    usual = drawn_page(heatmap(np.eye(5)), Style(800, 1200)).axes[0].xaxis.label.get_size()
    assert 0.7 <= page.axes[0].xaxis.label.get_size() / usual < 1
    few = drawn_page(replace(several, panels=several.panels[:2]), Style(800, 1200))
    assert few.axes[0].xaxis.label.get_size() == usual
    many = drawn_page(replace(several, panels=several.panels * 20), Style(800, 1200))
    assert many.axes[0].xaxis.label.get_size() == usual  # not all fit at any size
