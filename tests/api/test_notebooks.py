"""Notebooks: one line for a report as a value, text or a picture as the output of a cell."""

import io
import pickle
from html import escape

import numpy as np
import pytest
from PIL import Image

import posenc_cli as posenc


def wrong():
    return posenc.rope_check("rope", tables=posenc.tables("rope", 64, dim=8, base=1e6), dim=8)


def test_a_report_is_one_line_as_a_value():
    assert repr(wrong()) == "<RopeReport FAILED base>"
    assert repr(posenc.rope_check("rope", dim=8)) == ("<RopeReport ok>")
    assert repr(posenc.compare("rope", "sinusoidal", positions=8)) == "<ArrayReport DIFFERENT>"
    assert repr(posenc.compare("rope", "rope", positions=8)) == "<ArrayReport ok>"
    assert (
        repr(posenc.similarity(["rope", "sinusoidal"], 8)) == "<SimilarityReport rope, sinusoidal>"
    )
    assert repr(posenc.spectrum("rope")) == "<Spectrum rope>"
    assert repr(posenc.inspect("rope")) == "<InspectionReport ok>"
    table = posenc.encode("sinusoidal", 8)
    assert repr(posenc.check("sinusoidal", table)) == "<CheckReport ok>"
    assert repr(posenc.identify(table)).startswith("<IdentificationReport sinusoidal, dim 64")
    assert repr(posenc.check("sinusoidal", -table)).startswith("<CheckReport FAILED ")


def test_what_no_cause_explains_is_called_unknown():
    cos, sin = (np.random.default_rng(0).normal(size=(16, 4)) for _ in range(2))
    assert (
        repr(posenc.rope_check("rope", tables=(cos, sin), dim=8)) == "<RopeReport FAILED unknown>"
    )


def test_a_cell_shows_the_text_of_a_report_without_markup(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("<b>.npy", np.ones(4))
    report = posenc.rope_check("rope", inv_freq="<b>.npy", dim=8)
    assert report._repr_html_() == f"<pre>{escape(str(report))}</pre>"


@pytest.mark.long
def test_figures_and_reports_with_figures_are_pictures_without_a_backend():
    page = posenc.heatmap("rope", 16, dim=8, width=300, height=200)
    assert Image.open(io.BytesIO(page._repr_png_())).size == (300, 200)
    page.set_size_inches(2, 1)  # what was changed is shown
    size = Image.open(io.BytesIO(page._repr_png_())).size
    assert size == (2 * page.dpi, page.dpi)
    assert pickle.loads(pickle.dumps(page))._repr_png_()
    report = posenc.spectrum("rope", dim=8)
    assert report._repr_html_().startswith('<img alt="&lt;Spectrum rope&gt;" src="data:image/png')
    assert str(report).splitlines()[0] in report._repr_html_()
