"""Maps of similarities in fewer cells than positions: against means of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.analysis import similarity as module
from posenc_cli.analysis.similarity import similarity
from posenc_cli.analysis.verdict import verdict
from posenc_cli.encoding.engine import Engine
from posenc_cli.render.figures.similarities import matrix_figure, similarity_fields
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
    monkeypatch.setattr(module, "_HELD", 0)
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "given"), [("rope", {"dim": 8}), ("sinusoidal", {"dim": 8, "base": 50.0})]
)
@pytest.mark.parametrize("positions", ["0:1003", "5:3014:3"])
def test_means_of_waves_are_exact_whatever_the_blocks(scheme, given, positions, monkeypatch):
    monkeypatch.setattr(module, "_AVERAGED", 0)
    of = similarity_of(scheme, positions, **given)
    queries, keys = range(0, of.count, 100), range(0, of.count, 37)
    whole = of.entries(range(of.count), range(of.count))
    ends = [[*side[1:], of.count] for side in (queries, keys)]
    sums = np.add.reduceat(np.add.reduceat(whole, queries, axis=0), keys, axis=1)
    expected = sums / np.outer(
        *(np.subtract(end, side) for end, side in zip(ends, (queries, keys), strict=True))
    )
    np.testing.assert_allclose(of.means(queries, keys), expected, rtol=0, atol=1e-13)
    assert of.sampled_blocks(queries, keys) is None


def test_means_of_waves_take_no_draw_at_any_length():
    of = similarity_of("rope", "0:100000000", dim=64)
    shown = matrix_figure(of).sample(15, 15)
    assert np.abs(shown.values[0, 1:]).max() < 1e-6
    assert "each with the mean of those up to the next" in " ".join(shown.notes)


def test_means_of_a_draw_are_called_a_sample():
    of = similarity_of("t5", "0:1000000", heads=2)
    told = " ".join(matrix_figure(of).sample(15, 15).notes)
    assert "each with the mean of a sample: 1129 seeded draws from those up to the next" in told
