"""Figures, similarities and spectra from Python."""

import io
import json

import numpy as np
import pytest

import posenc_cli as posenc

PNG = b"\x89PNG"


def saved(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


@pytest.mark.long
def test_a_heatmap_is_a_figure_of_matplotlib():
    from matplotlib.figure import Figure

    figure = posenc.heatmap("rope", 32, dim=8, width=400, height=300)
    assert isinstance(figure, Figure)
    assert saved(figure).startswith(PNG)
    assert isinstance(posenc.heatmap(np.eye(8)), Figure)


@pytest.mark.long
def test_curves_are_columns_of_an_encoding_or_an_array():
    (axes,) = posenc.curve("sinusoidal", 20, columns=range(4, 6), dim=8).axes
    rows = posenc.encode("sinusoidal", 20, dim=8, dtype="float64")
    drawn = np.stack([line.get_ydata() for line in axes.lines], axis=1)
    np.testing.assert_array_equal(drawn, rows[:, 4:6])
    (axes,) = posenc.curve(rows[:, :3]).axes
    assert len(axes.lines) == 3
    with pytest.raises(ValueError, match="columns: must be a range that is not empty"):
        posenc.curve("rope", 8, columns=range(0))


@pytest.mark.long
def test_a_similarity_has_its_matrix_words_and_figure(call):
    report = posenc.similarity("sinusoidal", 24, dim=8)
    rows = posenc.encode("sinusoidal", 24, dim=8, dtype="float64")
    assert np.abs(report.matrix() - rows @ rows.T).max() < 1e-12
    document = json.loads(
        call("dot-similarity", "-s", "sinusoidal", "-l", "24", "-d", "8", "--json")[1]
    )
    assert json.loads(json.dumps(report.as_json())) == document
    assert "depends only on m − n: yes" in str(report)
    assert report._repr_png_().startswith(PNG)
    assert report.figure().get_size_inches().tolist() == [11.0, 5.5]  # 1650 by 825
    with pytest.raises(ValueError, match="content 'independent'"):
        posenc.similarity("rope", 8, dim=8, content="independent").matrix()
    assert posenc.similarity(rows).matrix().shape == (24, 24)


def test_lists_are_looked_at_together_as_the_commands_do(call):
    report = posenc.spectrum(["llama-3-8b", "rope"], dim=8)
    line = ("-m", "llama-3-8b", "-s", "rope", "-d", "8", "--json")
    assert json.loads(json.dumps(report.as_json())) == json.loads(call("spectrum", *line)[1])
    assert "differing" in str(report)
    similar = posenc.similarity(
        ["rope", "alibi"], 16, content=("ones", "independent"), bound=True, dim=8
    )
    line = ("-s", "rope", "-s", "alibi", "-l", "16", "-d", "8", "--bound", "--json")
    contents = ("--content", "ones", "--content", "independent")
    _, out, _ = call("dot-similarity", *line, *contents)
    assert json.loads(json.dumps(similar.as_json())) == json.loads(out)
    assert similar.matrix().shape == (16, 16)
    assert "RoFormer's bound" in str(similar)
    rows = np.eye(6)
    assert len(posenc.similarity([rows, rows]).as_json()["differences"]) == 1
    for wrong in ([], ["sinusoidal+rope"]):
        with pytest.raises(ValueError, match="empty list|several encodings"):
            posenc.similarity(wrong, 8)
    with pytest.raises(ValueError, match="bound applies only to rotary"):
        posenc.similarity("alibi", 8, bound=True)
    with pytest.raises(ValueError, match="dim applies to an encoding"):
        posenc.similarity(rows, dim=8)
