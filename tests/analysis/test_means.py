"""Maps of similarities in fewer cells than positions: against means of the whole matrix."""

import numpy as np
import pytest

from posenc_cli.analysis.verdict import verdict
from posenc_cli.render.figures.similarities import matrix_figure, similarity_fields
from tests.analysis.test_similarity import similarity_of as similarity_of_head


def similarity_of(scheme, positions, **given):
    return similarity_of_head(scheme, positions, head=1 if "heads" in given else None, **given)


def means_of(of, cells):
    places = range(of.count)
    size = of.count // cells
    whole = of.entries(places, places)
    return whole.reshape(cells, size, cells, size).mean(axis=(1, 3))


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("sinusoidal", {"dim": 8}), ("t5", {"heads": 2}), ("rope", {"dim": 8})],
)
@pytest.mark.parametrize("positions", ["0:96", "5:293:3"])
def test_a_cell_has_the_mean_of_the_pairs_it_stands_for(scheme, given, positions):
    of = similarity_of(scheme, positions, **given)
    shown = matrix_figure(of).sample(12, 12)
    np.testing.assert_allclose(shown.values, means_of(of, 12), rtol=1e-12, atol=1e-12)
    assert "each cell is the mean of up to 8 " in " ".join(shown.notes)
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


@pytest.mark.parametrize(
    ("scheme", "positions", "given"),
    [
        ("learned", "0:96", {"dim": 8}),
        ("xpos", "0:96", {"dim": 8, "seq_len": 96}),  # grows by powers: sums would lose the rest
        ("rope", "0:96,200", {"dim": 8}),
        ("rope", "0:100000000", {"dim": 64}),
    ],
)
def test_what_has_no_sums_by_offset_is_a_sample_of_values(scheme, positions, given):
    of = similarity_of(scheme, positions, **given)
    shown = matrix_figure(of).sample(12, 12)
    count = len(shown.rows)
    rows = [round(i * of.count / count) for i in range(count)] if scheme == "learned" else None
    assert not of.has_means
    assert shown.notes[0].startswith(f"shows {count} of {of.count} ")
    assert "mean" not in shown.notes[0]
    if rows is not None:
        np.testing.assert_array_equal(shown.values, of.entries(rows, rows))


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
def test_means_of_waves_are_exact_whatever_the_blocks(scheme, given, positions):
    of = similarity_of(scheme, positions, **given)
    queries, keys = range(0, of.count, 100), range(0, of.count, 37)
    whole = of.entries(range(of.count), range(of.count))
    ends = [[*side[1:], of.count] for side in (queries, keys)]
    sums = np.add.reduceat(np.add.reduceat(whole, queries, axis=0), keys, axis=1)
    expected = sums / np.outer(
        *(np.subtract(end, side) for end, side in zip(ends, (queries, keys), strict=True))
    )
    np.testing.assert_allclose(of.means(queries, keys), expected, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["rope", "alibi"])
def test_means_of_a_million_positions_are_as_exact_as_float64(scheme):
    """The block at the corner has the mean of its offsets, each as often as it is there."""
    of = similarity_of(scheme, "0:1048576", **({"heads": 2} if scheme == "alibi" else {"dim": 8}))
    starts = range(0, of.count, 1 << 16)
    offsets = np.arange(1 - (1 << 16), 1 << 16)
    counts = (1 << 16) - np.abs(offsets)
    found = of.means(starts, starts)
    for row, column in ((0, 0), (15, 0), (0, 15), (7, 3)):
        values = of.source.at(offsets + (row - column) * (1 << 16))
        expected = (values * counts).sum() / counts.sum()
        assert abs(found[row, column] - expected) <= 1e-9 * max(1, np.abs(found).max())
