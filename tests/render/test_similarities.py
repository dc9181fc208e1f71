"""Pictures of similarities: in any terminal they fit, their title included."""

import pytest

from posenc_cli import catalogue
from posenc_cli.analysis.similarity import similarity
from posenc_cli.analysis.verdict import verdict
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.render.figures.similarities import Judged, similarity_figure
from posenc_cli.render.terminal.blocks import Medium, Page
from posenc_cli.render.terminal.text_pictures import picture_text


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("alone", [False, True])
def test_a_map_of_means_leaves_room_for_its_title(alone):
    encoding = Encoding.of(catalogue.find("rope"), {}, seq_len=256)
    request = Request(encoding, Positions.contiguous(0, 256), Precision.of(FLOAT64, None))
    of = similarity(request, Engine())
    figure = similarity_figure([Judged(of, verdict(of), "rope", "rope")])
    if alone:
        figure = replace(figure.panels[0], title=figure.title)
    medium = Medium.of(colored=False, encoding="utf-8", ascii_only=False, spelled=lambda text: text)
    for width in (40, 50, 76, 80, 132, 200):
        for height in (12, 16, 18, 23, 30, 49):
            lines = picture_text(figure, Page(width, height, medium, None)).content.splitlines()
            assert lines[0].strip() == "rope: q·k / d, content ones"
            least = 20 if width >= 76 else 34  # side by side, and one under the other
            assert len(lines) <= max(height, least), (width, height)
            assert max(map(len, lines)) <= width


def test_maps_of_several_say_what_their_curves_say(call):
    line = ("dot-similarity", "-s", "t5", "-s", "rope", "-d", "8", "-l", "8")
    out = " ".join(call(*line)[1].split("offset m − n")[0].split())
    assert "t5 (random weights, seed 0)" in out
    assert "rope (dim=8, base=10000)" in out


@pytest.mark.long
def test_no_title_of_a_map_ends_in_a_comma(call, tmp_path):
    """Of these, similarities of sinusoids have no detail."""
    given = ["-s", "sinusoidal", "-s", "rope", "-s", "rope-yarn", "--len", "16"]
    assert call("dot-similarity", *given, "--out", str(tmp_path / "a.svg"))[0] == 0
    assert "sinusoidal (dim=64, base=10000)<" in (tmp_path / "a.svg").read_text("utf-8")
