"""Maps of similarities in fewer cells than positions: against means of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.analysis import similarity as module
from posenc_cli.analysis.similarity import similarity
from posenc_cli.analysis.verdict import verdict
from posenc_cli.encoding.engine import Engine
from posenc_cli.render.similarities import matrix_figure, similarity_fields
from tests.matrices import request


def similarity_of(scheme, positions, **given):
    head = 1 if "heads" in given else None
    return similarity(request(scheme, positions, dtype="float64", head=head, **given), Engine())


def means_of(of, cells):
    places = range(of.count)
    size = of.count // cells
    whole = of.entries(places, places)
    return whole.reshape(cells, size, cells, size).mean(axis=(1, 3))


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("sinusoidal", {"dim": 8}), ("t5", {"heads": 2}), ("xpos", {"dim": 8, "seq_len": 96})],
)
@pytest.mark.parametrize("positions", ["0:96", "5:293:3"])
def test_a_cell_has_the_mean_of_the_pairs_it_stands_for(scheme, given, positions):
    of = similarity_of(scheme, positions, **given)
    shown = matrix_figure(of).sample(12, 12)
    np.testing.assert_allclose(shown.values, means_of(of, 12), rtol=1e-12, atol=1e-12)
    assert "each with the mean of those up to the next" in " ".join(shown.notes)
    # Cells need not be square.
    places = range(96)
    whole = of.entries(places, places).reshape(12, 8, 32, 3).mean(axis=(1, 3))
    found = of.means(range(0, 96, 8), range(0, 96, 3))
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12)


def test_with_room_for_all_nothing_is_averaged():
    of = similarity_of("sinusoidal", "0:96", dim=8)
    shown = matrix_figure(of).sample(96, 96)
    np.testing.assert_array_equal(shown.values, of.entries(range(96), range(96)))
    assert shown.notes == ()


@pytest.mark.slow
def test_of_large_blocks_a_draw_is_near_the_mean(monkeypatch):
    of = similarity_of("sinusoidal", "0:4000", dim=16)
    expected = means_of(of, 8)
    monkeypatch.setattr(module, "_AVERAGED", 0)
    monkeypatch.setattr(module, "_DRAWN", 15 * 4000)
    found = matrix_figure(of).sample(8, 8).values
    # A product is at most 8, and a mean of 4000 drawn ones is within a tenth of what one swings.
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.3)
    assert np.abs(of.entries(range(0, 4000, 500), range(0, 4000, 500)) - expected).max() > 1


def test_what_is_not_known_by_offset_is_a_sample_of_values():
    of = similarity_of("learned", "0:96", dim=8)
    shown = matrix_figure(of).sample(12, 12)
    np.testing.assert_array_equal(shown.values, of.entries(range(0, 96, 8), range(0, 96, 8)))
    assert shown.notes == ("shows 12 of 96 positions",)


def test_in_json_a_sample_has_values_of_the_matrix():
    of = similarity_of("sinusoidal", "0:128", dim=8)
    matrix = similarity_fields(of, verdict(of))["matrix"]
    expected = of.entries(matrix["rows"], matrix["columns"])
    np.testing.assert_array_equal(np.array(matrix["values"]), expected)
