"""Pages: one file without network, whose numbers are those of exact formulas."""

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from PIL import Image

from posenc_cli.render.figure import Axis, Curve, Curves, Heatmap, Panels
from posenc_cli.render.html import page as html
from posenc_cli.render.html.html_plots import packed, png_bytes
from posenc_cli.render.html.page import Section, page_bytes
from posenc_cli.render.style import color_map
from tests.processes import ran
from tests.render.test_image import heatmap

LARGEST = 300_000
VOID = {"meta", "img", "input", "br"}


class Reader(HTMLParser):
    """The elements of a page, each closed in order, and the texts outside scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and self.elements[-1][1].get("id") == "data":
            self.data = data
        elif self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def numbers(self) -> dict[str, Any]:
        return json.loads(self.data)  # type: ignore[no-any-return]


def unpacked(stored: Any) -> np.ndarray:
    """What the script unpacks, read apart from it."""
    if isinstance(stored, list):
        return np.array(stored)
    if "count" in stored:
        return stored["start"] + stored["step"] * np.arange(stored["count"])
    return np.frombuffer(base64.b64decode(stored["data"]), f"<f{stored['bits'] // 8}")


def page_of(*figures: Any, **look: Any) -> Reader:
    return Reader(
        page_bytes("a page", [Section(each) for each in figures], **look).content.decode()
    )


@pytest.fixture
def drawn(call, tmp_path):
    """The page that a command writes."""

    def draw(*arguments: str, status: int = 0) -> Reader:
        found, _, err = call(*arguments, "-q", "--out", "page.html")
        assert found == status, err
        content = (tmp_path / "page.html").read_bytes()
        assert len(content) <= LARGEST
        return Reader(content.decode())

    return draw


PAGES = {
    "heatmap": ["-s", "sinusoidal", "-l", "128"],
    "heatmap of heads": ["-s", "alibi", "--heads", "64", "-l", "512"],
    "spectrum": ["-m", "llama-3.1-8b"],
    "rotation": ["-m", "llama-3.1-8b", "--pairs", "0:64", "-l", "131072"],
    "dot-similarity": ["-s", "rope", "-s", "alibi", "-s", "sinusoidal", "-l", "512"],
    "compare": ["sinusoidal", "rope", "--dim", "64", "--len", "128"],
    "explore": ["-m", "llama-3.1-8b"],
    "explore at length": ["-m", "llama-3.1-8b", "-l", "131072"],
}


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_one_small_file_that_reads_without_script_and_asks_for_nothing(name, drawn):
    page = drawn(name.split()[0], *PAGES[name], status=name == "compare")
    for tag, attrs in page.elements:
        for key in ("src", "href", "srcset", "action", "xlink:href"):
            assert (attrs.get(key) or "data:").startswith("data:"), tag
    policy = next(each for each in page.all_of("meta") if "http-equiv" in each)
    assert (policy["content"] or "").startswith("default-src 'none'")
    style = Path(html.__file__).with_name("page.css").read_text("utf-8")
    assert "url(" not in style
    assert "@import" not in style
    # Without script: pictures with a name each, and values in tables with heads.
    assert page.all_of("table")
    assert {each["scope"] for each in page.all_of("th")} == {"col", "row"}
    assert all(each["alt"] for each in page.all_of("img"))
    assert all("hidden" in each for each in page.all_of("div") if "data-live" in each)
    plots = [each for each in page.all_of("div") if each.get("class") == "plot"]
    assert len(plots) == len(page.numbers["panels"]) > 0
    assert all(each["aria-label"] for each in plots)
    assert all(each["aria-label"] for each in page.all_of("input"))
    assert [tag for tag, _ in page.elements].count("h1") == 1


def test_cells_are_the_values_of_the_formula_and_each_wave_has_its_wavelength(drawn):
    (panel,) = drawn("heatmap", "-s", "sinusoidal", "-l", "128", "--dim", "64").numbers["panels"]
    rows, columns = (unpacked(panel[key]) for key in ("rows", "columns"))
    assert rows.tolist() == [*range(128)]
    rates = 10000.0 ** (-(columns // 2) * 2 / 64)  # (64,)
    angles = rows[:, None] * rates
    right = np.where(columns % 2, np.cos(angles), np.sin(angles))
    values = unpacked(panel["values"]).reshape(128, 64)
    np.testing.assert_allclose(values, right, rtol=1e-7, atol=1e-13)  # float32 holds 24 bits
    np.testing.assert_allclose(unpacked(panel["wavelengths"]), 2 * np.pi / rates, rtol=1e-7)


def test_values_that_no_sine_makes_have_no_angle(drawn):
    for arguments in (["-s", "learned", "--dim", "8"], ["-s", "rope", "--table", "angles"]):
        (panel,) = drawn("heatmap", *arguments, "-l", "16").numbers["panels"]
        assert panel["wavelengths"] is None or "angles" in arguments


def right_wavelengths(scheme: str, base: float, factor: float, dim: int = 64) -> list[Any]:
    """2π / θ_i as the papers have it, in 50 digits."""
    base, factor = mpmath.mpf(base), mpmath.mpf(factor)
    if scheme == "rope-ntk":
        base *= factor ** (mpmath.mpf(dim) / (dim - 2))
    slower = factor if scheme == "rope-linear" else 1
    return [2 * mpmath.pi * slower * base ** (mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["rope", "rope-linear", "rope-ntk"])
def test_sliders_of_base_and_factor_hold_the_exact_wavelengths(scheme, drawn):
    with mpmath.workdps(50):
        (ladder,) = drawn("spectrum", "-s", scheme, "--base", "4321").numbers["live"]
        assert 4321 in ladder["bases"]
        assert (ladder["factors"] == [1]) if scheme == "rope" else len(ladder["factors"]) > 5
        assert len(ladder["bases"]) > 5
        sizes = len(ladder["bases"]), len(ladder["factors"]), ladder["pairs"]
        found = unpacked(ladder["wavelengths"]).reshape(sizes)
        for i, base in enumerate(ladder["bases"]):
            for j, factor in enumerate(ladder["factors"]):
                right = np.array(right_wavelengths(scheme, base, factor), float)
                np.testing.assert_allclose(found[i, j], right, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["rope-axial", "xpos"])
def test_what_does_not_rotate_by_the_position_alone_has_no_clocks(scheme, drawn):
    assert drawn("rotation", "-s", scheme, "-l", "4").numbers["live"] == []


CALLS = """
const vm = require("vm"), fs = require("fs");
const [script, page, calls] = process.argv.slice(1, 4).map(name => fs.readFileSync(name, "utf8"));
const data = page.match(/id="data">(.*?)<\\/script>/s)[1];
const box = {atob, Uint8Array, Float32Array, Float64Array, out: null};
vm.runInNewContext(script + ";const data = ready(JSON.parse(" + JSON.stringify(data) + "));" +
  "out = " + calls, box);
console.log(JSON.stringify(box.out));
"""


@pytest.fixture
def in_script(tmp_path):
    """What expressions over the numbers of the page give in its own script."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")

    def run(*expressions: str) -> list[Any]:
        (tmp_path / "calls.js").write_text(f"[{','.join(expressions)}]", "utf-8")
        script = str(Path(html.__file__).with_name("page.js"))
        told = ran(node, "-e", CALLS, script, "page.html", "calls.js", cwd=tmp_path)
        return json.loads(told.stdout)  # type: ignore[no-any-return]

    return run


@pytest.mark.long
def test_the_script_rotates_clocks_and_scores_as_exact_arithmetic_does(drawn, in_script):
    drawn("rotation", "-s", "rope-yarn", "--set", "factor=8", "--pairs", "0,5,31", "-l", "131072")
    places = [(0, 5), (0, 131071), (5, 131071), (31, 99991)]
    hands = in_script(*(f"handOf(data.live[0], {pair}, {at})" for pair, at in places))
    # YaRN's own code: peers' frequencies of transformers, which tests/configs holds posenc to.
    (rates,) = in_script("[...data.live[0].frequencies]")
    amplitude = 0.1 * np.log(8) + 1
    with mpmath.workdps(50):
        assert rates[0] == 1
        for (pair, at), hand in zip(places, hands, strict=True):
            angle = mpmath.mpf(rates[pair]) * at
            right = [float(amplitude * mpmath.cos(angle)), float(amplitude * mpmath.sin(angle))]
            np.testing.assert_allclose(hand, right, atol=1e-6)
        offsets = [0, 1, -17, 99991]
        scores = in_script(*(f"scoreOf(data.live[0], {offset})" for offset in offsets))
        for offset, score in zip(offsets, scores, strict=True):
            right = sum(mpmath.cos(mpmath.mpf(rate) * offset) for rate in rates)
            np.testing.assert_allclose(score, amplitude**2 * float(right), atol=1e-6)


@pytest.mark.long
def test_the_script_reads_a_cell_a_point_and_a_rung_as_they_are(drawn, in_script):
    drawn("heatmap", "-s", "rope", "-l", "32", "--dim", "16")
    (said,) = in_script("cellText(data.panels[0], 3, 1)")
    rate = 10000 ** (-2 / 16)
    angle, turns = 3 * rate, 3 * rate / (2 * np.pi)
    assert re.fullmatch(
        rf"position 3, dimension 1: value {np.cos(angle):.7g}; "
        rf"angle {angle:.7g} rad, {turns:.7g} rotations",
        said.replace("−", "-"),
    )
    drawn("spectrum", "-s", "rope-linear", "--dim", "16")
    bases, rung, path = in_script(
        "data.live[0].bases",
        "[...rungsOf(data.live[0], 2, 3)]",
        "pathOf(data.panels[0], [0, 7], [data.panels[0].ys[0], data.panels[0].ys[1]])",
    )
    right = [2 * np.pi * 8 * bases[2] ** (2 * i / 16) for i in range(8)]
    np.testing.assert_allclose(rung, right, rtol=1e-6)
    assert re.fullmatch(r"M\d+ 4000L\d+ 0", path)


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&\"'\x1b[31m"


def test_no_text_is_ever_markup():
    points = Axis(EVIL, [EVIL, "b"])
    figure = Panels(
        (
            Heatmap(np.eye(2), points, points, title=EVIL, value_label=EVIL, notes=(EVIL,)),
            Curves(
                (Curve((0.0, 1.0), (0.0, 1.0), EVIL),),
                *(EVIL, EVIL, EVIL),
                levels=((0.5, EVIL),),
                spans=((0.0, 1.0, EVIL),),
            ),
        ),
        EVIL,
        shared=False,
        notes=(EVIL,),
    )
    section = Section(figure, EVIL, EVIL)
    page = Reader(page_bytes(EVIL, [section]).content.decode())
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not any(key.startswith("on") for _, attrs in page.elements for key in attrs)
    assert sum("alert(1)" in text for text in page.texts) > 8
    assert "\x1b" not in "".join(page.texts)
    assert page.numbers["panels"][0]["rows"][0] == EVIL


def test_cells_have_the_colours_of_their_values_and_gaps_are_grey():
    page = page_of(heatmap(np.array([[0.0, 0.5], [1.0, np.nan]])))
    content = base64.b64decode(page.all_of("img")[0]["src"].partition(",")[2])
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    colors = color_map("viridis")
    assert picture[1, 1].tolist() == [185, 185, 185]
    assert (picture[0, 0] == colors[0]).all()
    assert (picture[1, 0] == colors[-1]).all()
    assert (np.abs(picture[0, 1].astype(int) - colors[127]) <= 4).all()  # of 255 in place of 256
    assert "not finite" in "".join(page.texts)
    two = page_of(heatmap([[0, 1], [1, 0]]))  # which have a swatch each, and no scale
    assert len([each for each in two.all_of("i") if each.get("class") == "swatch"]) == 2
    assert len(two.all_of("img")) == 1


def test_a_picture_of_levels_is_read_as_it_was_written():
    levels = np.arange(256, dtype=np.uint8).reshape(8, 32)
    palette = np.arange(768).reshape(256, 3).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png_bytes(levels, palette))).convert("RGB"))
    assert (read == palette[levels]).all()


@pytest.mark.parametrize(
    ("values", "rtol"),
    [
        ([0.1, -3.0, 0.0, np.nan, np.inf], 1e-7),
        ([1e-300, -1e-200], 0),
        ([1e300, 1.0], 0),
        ([0, 3, 6], 0),
        ([5, 1, 2], 0),
    ],
)
def test_numbers_keep_their_digits_whatever_their_size(values, rtol):
    np.testing.assert_allclose(unpacked(packed(values)), np.array(values, float), rtol=rtol)
    np.testing.assert_array_equal(
        unpacked(packed(np.array(values, float), exactly=True)), np.array(values, float)
    )


def test_labels_below_a_map_have_room_on_a_telephone():
    values = np.zeros((2, 200))
    many = Heatmap(values, Axis("pair", range(2)), Axis("position", range(10**6, 10**6 + 200)))
    content = page_bytes("a page", [Section(many)]).content.decode()
    (below,) = re.findall('<div class="along">(.*?)</div>', content)
    labels = re.findall(r">(1000\d\d\d)<", below)
    assert len(labels) > 1
    assert sum(len(label) + 2 for label in labels) <= 48  # letters of 0.8 rem in 19 rem


def test_small_panels_fill_their_rows_and_those_that_belong_together_stay_in_one():
    grids = {}
    for count, across in ((8, 1), (64, 1), (24, 1), (12, 3)):
        maps = tuple(heatmap(np.eye(2), title=f"m{i}") for i in range(count))
        page = page_of(Panels(maps, "maps", across=across))
        (grid,) = [each for each in page.all_of("div") if "panels many" in str(each.get("class"))]
        grids[count] = grid["style"]
    assert grids == {8: "--_most:4", 64: "--_most:8", 24: "--_most:6", 12: "--_most:6"}


def test_maps_of_one_quantity_share_one_scale():
    maps = (heatmap([[0, 1, 2]], value_label="score"), heatmap([[5, 6, 7]], value_label="score"))
    page = page_of(Panels(maps, "two"))
    assert [attrs.get("class") for attrs in page.all_of("div")].count("scale") == 1
    other = (maps[0], heatmap([[5, 6, 7]], value_label="weight"))
    page = page_of(Panels(other, "two", shared=False))
    assert [attrs.get("class") for attrs in page.all_of("div")].count("scale") == 2


def test_more_curves_than_have_room_are_thinned_and_that_is_said():
    x = tuple(map(float, range(1200)))
    many = Curves(tuple(Curve(x, x, f"c{i}") for i in range(12)), "many", "x", "y")
    content = page_bytes("many", [Section(Panels((many,) * 8, "many", shared=False))]).content
    assert len(content) <= LARGEST
    assert re.search(r"\d+ points of each curve", content.decode())


WRONG = [
    ("heatmap -s rope -l 8 --out a.html --width 300", "a page, which has no fixed size"),
    ("heatmap -s rope -l 8 --out a.html --dpi 300", "a page, which has no fixed size"),
    ("explore -s rope", "--out is needed"),
    ("explore -s rope --out a.png", "must end in .html"),
    ("explore -s sinusoidal+rope --out a.html", "give one"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_no_page_can_be_made_of_is_refused_in_one_line(arguments, said, call, tmp_path):
    status, out, err = call(*arguments.split())
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert not [*tmp_path.glob("*.html")]


def test_a_page_that_exists_is_kept_where_nobody_may_replace_it(call, tmp_path):
    (tmp_path / "a.html").write_text("mine")
    status, _, err = call("explore", "-s", "rope", "--out", "a.html", "--no-clobber")
    assert (status, (tmp_path / "a.html").read_text()) == (3, "mine")
    assert "a.html" in err
    status, _, err = call("explore", "-s", "rope", "--out", "no/a.html")
    assert (status, "no/a.html" in err) == (3, True)


def test_a_theme_and_a_title_are_the_ones_asked_for(drawn):
    page = drawn("explore", "-s", "alibi", "-l", "8", "--theme", "dark", "--title", "A <b> title")
    assert page.all_of("html") == [{"lang": "en", "data-theme": "dark"}]
    assert "A <b> title" in page.texts
    assert page_of(heatmap([[1, 2]])).all_of("html") == [{"lang": "en"}]
