"""What stands on pictures: each axis, value and band by its right name, in text and in figures."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import numpy as np
import pytest


class Words(NamedTuple):
    """What a picture must say: what runs up or down, what across, what the values are, and more.

    ``value`` is what colours stand for, None for curves, whose values run up.
    """

    title: str
    down: str
    across: str
    value: str | None = None
    more: tuple[str, ...] = ()


ROTARY = "rope: 16 positions × 8 dimensions (base=10000)"
SLOPES = "ALiBi slopes, 6 heads (press, max_bias=8)"
CONTEXT = "the context, 4096 positions"
ORIGINAL = "the original context, 4096 positions"

HEATMAPS = {
    "-s rope -l 16 -d 8": Words(ROTARY, "position", "dimension", "value", ("cos", "sin")),
    "-s rope -l 16 -d 8 --unsplit": Words(ROTARY, "position", "dimension", "value"),
    "-s rope -l 16 -d 8 --table complex": Words(
        "rope complex: 16 positions × 4 complex (base=10000)",
        *("position", "pair", "value", ("real", "imaginary")),
    ),
    "-s rope -l 16 -d 8 --table angles": Words(
        "rope angles: 16 positions × 4 pairs (base=10000)", "position", "pair", "radians"
    ),
    "-s rope -l 16 -d 8 --table inv-freq": Words(
        "rope inv-freq: 4 frequencies (base=10000)", "radians per position", "pair"
    ),
    "-s sinusoidal -l 16 -d 8": Words(
        "sinusoidal: 16 positions × 8 dimensions (base=10000)",
        *("position", "dimension", "value", ("sin", "cos")),
    ),
    "-s transformer-xl -l 8 -d 8": Words(
        "transformer-xl: 15 offsets × 8 dimensions (base=10000)",
        *("offset", "dimension", "value", ("sin", "cos")),
    ),
    "-s shaw -l 8 -d 8 --set max_distance=4": Words(
        "shaw: 9 offsets × 8 dimensions (max_distance=4, random weights, seed 0)",
        *("offset", "dimension", "value"),
    ),
    "-s alibi -l 8 --heads 2": Words(
        "alibi: 2 heads, 8 queries × 8 keys",
        *("query", "key", "score", ("head 0", "head 1")),
    ),
    "-s t5 -l 8 --heads 2 --head 1": Words(
        "t5: head 1 of 2, 8 queries × 8 keys (random weights, seed 0)", "query", "key", "score"
    ),
    "-s sinusoidal-nd --set grid=4x6 -d 8": Words(
        "sinusoidal-nd: similarity of one position to all others on a grid of 4×6 (base=10000)",
        *("row", "column", "cosine similarity", ("of (0, 0)", "of (0, 3)", "of (2, 3)")),
    ),
    "-s sinusoidal-nd --set grid=2x4x6 --set convention=tensor2tensor -d 12": Words(
        "sinusoidal-nd: similarity of the middle to all others on a grid of 2×4×6 "
        "(base=10000, convention=tensor2tensor)",
        *("row", "column", "cosine similarity", ("plane 0", "plane 1")),
    ),
    "-s sinusoidal-nd --set grid=4x6 -d 8 --positions 0:24": Words(
        "sinusoidal-nd: 24 positions × 8 dimensions (base=10000)",
        *("position", "dimension", "value", ("sin x", "cos x", "sin y", "cos y")),
    ),
    "--in real.npy": Words("'real.npy': 12 × 8 float64", "row", "column", "value"),
    "--in complex.npy": Words(
        "'complex.npy': 6 × 4 complex128", "row", "column", "value", ("real", "imaginary")
    ),
    "--in stack.npy --head 2": Words(
        "'stack.npy': 3 × 6 × 6 float64, matrix [2]", "row", "column", "value"
    ),
    "--in stack.npy": Words("'stack.npy': 3 × 6 × 6 float64", "row", "column", "value", ("[1]",)),
}
CURVES = {
    "alibi-slopes --heads 6 --plot": Words(SLOPES, "slope", "head"),
    "spectrum -s rope -d 16": Words(
        "rope (dim=16, base=10000): wavelength of each pair",
        *("wavelength in positions", "pair", None, (CONTEXT,)),
    ),
    "spectrum -s rope-yarn -d 16": Words(
        "rope-yarn: 3 of 8 pairs keep their wavelength, the others are up to 4× as long",
        *("wavelength in positions", "pair", None, (ORIGINAL, "before: plain RoPE", "after")),
    ),
    "dot-similarity -s rope -l 16 -d 8 --profile": Words(
        "rope (dim=8, base=10000): q·k / d, content ones, by offset",
        *("q·k / d", "offset m − n", None, ("half",)),
    ),
    "dot-similarity -s sinusoidal -l 16 -d 8 --profile --normalize cosine": Words(
        "sinusoidal (dim=8, base=10000): cosine, by offset",
        *("cosine", "offset m − n", None, ("half",)),
    ),
    "dot-similarity -s alibi -l 16 --heads 2 --profile": Words(
        "alibi (heads=2): bias of head 0 of 2, by offset", "bias", "offset m − n, query − key"
    ),
    "dot-similarity --in real.npy --profile": Words(
        "'real.npy': dot product, by offset",
        *("dot product", "offset m − n", None, ("mean", "lowest to highest at each offset")),
    ),
}
MAPS = {
    "dot-similarity -s rope -l 16 -d 8": Words(
        "rope (dim=8, base=10000): q·k / d, content ones", "query", "key", "q·k / d"
    ),
    "dot-similarity -s alibi -l 16 --heads 2": Words(
        "alibi (heads=2): bias of head 0 of 2", "query", "key", "bias"
    ),
    "dot-similarity --in real.npy": Words(
        "'real.npy': dot product", "position", "position", "dot product"
    ),
}
ALONE = {f"heatmap {command}": words for command, words in HEATMAPS.items()} | CURVES
PICTURES = ALONE | MAPS


@pytest.fixture
def drawn(call, tmp_path):
    """Run a command beside files with arrays, and give what it prints."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "real.npy", random.normal(size=(12, 8)))
    np.save(tmp_path / "complex.npy", np.exp(1j * np.arange(24.0)).reshape(6, 4))
    np.save(tmp_path / "stack.npy", random.normal(size=(3, 6, 6)))

    def run(command: str, *more: str) -> str:
        status, out, err = call(*command.split(), *more)
        assert status == 0, err
        return out

    return run


def spoken(text: str) -> str:
    """Text without its line ends."""
    return " ".join(text.split())


@pytest.mark.sweep(5)
@pytest.mark.parametrize("command", PICTURES)
def test_text_names_what_runs_down_and_across(command, drawn):
    words = PICTURES[command]
    out = drawn(command, "--width", "78", "--height", "40")
    said = spoken(out)
    assert words.title in said
    assert all(word in said for word in words.more)
    curve = re.search(r"across: (.*?) up: (.*?)(?: \(log\)| [•-] |$)", said)
    if words.value is None:
        assert curve is not None
        across, up = curve[1].removesuffix(" (log)"), curve[2]
        assert (across, up[: len(words.down)]) == (words.across, words.down)
        return
    if f"down: {words.down}, across: {words.across}" not in said:
        lines = out.splitlines()
        first = next(i for i, line in enumerate(lines) if re.match(r" *\S+┤", line))
        below = next(i for i, line in enumerate(lines) if "└" in line) + 1
        assert lines[first - 1].split()[0] == words.down
        assert lines[below].split()[0] == words.across
    beside_scale = rf"{re.escape(words.value)}(?:, log scale)? [-0-9.e]+ \["
    in_title = rf": {re.escape(words.value)}[^:]* by position by offset"
    assert re.search(f"{beside_scale}|{in_title}", said)


class Text(NamedTuple):
    """A text in a figure, and the box that it takes, in pixels from the top left."""

    text: str
    angle: float
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Text, *, margin: float = -1) -> bool:
        """Whether two boxes are nearer than a margin; by default they may share an edge."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > -margin and down > -margin


@pytest.fixture
def texts(monkeypatch):
    """The texts that are drawn, as matplotlib is told to draw them."""
    from matplotlib.backends.backend_agg import RendererAgg

    found: list[Text] = []
    original = RendererAgg.draw_text

    def draw_text(renderer, *place, **settings):
        _, x, y, text, font, angle = place
        width, height, descent = renderer.get_text_width_height_descent(text, font, ismath=False)
        if angle == 90:
            found.append(Text(text, angle, x + descent - height, y - width, x + descent, y))
        else:
            bottom = y + descent
            found.append(Text(text, angle, x, bottom - height, x + width, bottom))
        return original(renderer, *place, **settings)

    monkeypatch.setattr(RendererAgg, "draw_text", draw_text)
    return found


@pytest.fixture
def maps(monkeypatch):
    """Where the cells of maps and the colours of scales are drawn."""
    from matplotlib.collections import QuadMesh
    from matplotlib.image import AxesImage

    found: list[Text] = []

    def watch(kind, box_of):
        original = kind.draw

        def draw(cells, renderer):
            box = box_of(cells, renderer)
            top, bottom = renderer.height - box.y1, renderer.height - box.y0
            found.append(Text("cells", 0, box.x0, top, box.x1, bottom))
            return original(cells, renderer)

        monkeypatch.setattr(kind, "draw", draw)

    watch(AxesImage, lambda image, renderer: image.get_window_extent(renderer))
    watch(QuadMesh, lambda mesh, _: mesh.axes.bbox)
    return found


@pytest.mark.long
@pytest.mark.sweep(40)
@pytest.mark.parametrize("command", PICTURES)
def test_figures_name_what_runs_down_and_across(command, drawn, texts):
    drawn(command, "--out", "picture.png", "--width", "1000", "--height", "800", "-q")
    words = PICTURES[command]
    said = spoken(" ".join(each.text for each in texts))
    assert words.title in said
    assert all(word in said for word in words.more)
    upright = {each.text for each in texts if each.angle == 90}
    level = {each.text for each in texts if each.angle == 0}
    assert words.down in upright
    assert words.across in level
    if command in ALONE:
        plain = {text.removesuffix(", log scale") for text in upright}
        assert plain == {words.down, words.value} - {None}
    if words.value is not None:
        named = (words.value, f"{words.value}, log scale")
        cut = [text for text in upright if len(text) > 4]  # a long name may end in an ellipsis
        assert any(text in upright or text.startswith((*cut,)) for text in named)


@pytest.mark.long
@pytest.mark.sweep(100)
@pytest.mark.parametrize("command", PICTURES)
@pytest.mark.parametrize("size", [(900, 700), (480, 320)])
def test_no_text_of_a_figure_covers_another_or_leaves_the_page(command, size, drawn, texts, maps):
    drawn(command, "--out", "picture.png", "--width", f"{size[0]}", "--height", f"{size[1]}", "-q")
    for each in texts:
        assert each.left >= 0, each
        assert each.top >= 0, each
        assert each.right <= size[0], each
        assert each.bottom <= size[1], each
    meeting = [(a, b) for i, a in enumerate(texts) for b in texts[:i] if a.meets(b)]
    assert meeting == []
    near = [(each, cells) for each in texts for cells in maps if each.meets(cells, margin=2)]
    assert near == []


@pytest.mark.long
@pytest.mark.parametrize("command", [*HEATMAPS])
def test_json_names_the_same(command, drawn):
    words = HEATMAPS[command]
    document = json.loads(drawn(f"heatmap {command}", "--json"))
    assert document["title"] == words.title
    if words.value is None:
        assert (document["y_label"], document["x_label"]) == (words.down, words.across)
        return
    for panel in document.get("panels", [document]):
        labels = panel["row_label"], panel["column_label"], panel["value_label"]
        assert labels == (words.down, words.across, words.value)


@pytest.mark.parametrize(("form", "varying"), [("bloom", 1), ("symmetric", None)])
def test_queries_run_down_and_keys_across(form, varying, drawn):
    """BLOOM's bias depends on the key alone: rows of one picture are equal, columns are not."""
    command = f"heatmap -s alibi -l 6 --heads 1 --head 0 --set form={form}"
    panel = json.loads(drawn(command, "--json"))
    values = np.array(panel["values"])
    assert (panel["row_label"], panel["column_label"]) == ("query", "key")
    expected = np.arange(6) if varying else -np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(values, np.broadcast_to(expected, (6, 6)) / 256, rtol=1e-15)
    found = json.loads(drawn(command.replace("heatmap", "dot-similarity"), "--json"))
    np.testing.assert_allclose(found["matrix"]["values"], values, rtol=1e-15)
