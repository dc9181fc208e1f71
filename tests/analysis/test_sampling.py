"""What is looked at of something long: which rows, what they hold, and what they cannot show."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.analysis.encoded import row_cells, score_cells, similarity_cells, wavelengths_of
from posenc_cli.analysis.sampling import (
    Points,
    positions_of,
    spread,
    steps,
    wave_means,
    wavelengths_by_values,
)
from posenc_cli.encoding.engine import Engine
from posenc_cli.positions import Positions
from tests.matrices import matrix, request

LONG = st.integers(min_value=1, max_value=2**62)


def engine(_plan: object) -> Engine:
    return Engine()


@given(count=LONG, most=st.integers(min_value=2, max_value=300))
def test_a_spread_goes_from_the_first_to_the_last_in_almost_equal_steps(count, most):
    found = spread(count, most)
    assert len(found) == min(count, most)
    assert found[0] == 0
    assert found[-1] == count - 1
    gaps = {after - before for before, after in pairwise(found)}
    assert all(gap > 0 for gap in gaps)
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(count=LONG, most=st.integers(min_value=1, max_value=300))
def test_an_even_spread_has_equal_steps_and_no_room_for_another(count, most):
    found = spread(count, most, even=True)
    gaps = {after - before for before, after in pairwise(found)}
    assert len(gaps) <= 1
    assert len(found) <= most
    step = gaps.pop() if gaps else count
    assert count <= step * len(found)


@given(st.lists(st.integers(min_value=0, max_value=2**53), min_size=1, max_size=30))
def test_positions_of_points_are_the_points_in_their_order(points):
    assert list(positions_of(points)) == points


def test_points_are_a_sequence_of_positions_however_many():
    some = Positions.parse("5:9,100:200:30,3")
    assert [*Points(some)] == [*some]
    assert Points(some)[-1] == 3
    assert len(Points(Positions.contiguous(0, 2**53))) == 2**53
    assert Points(Positions.contiguous(7, 2**53))[2**52] == 2**52 + 7


def test_the_step_is_the_usual_one_and_names_have_none():
    assert steps([0, 3, 6, 100]) == 3
    assert steps(["a", "b"]) is None
    assert steps([4]) is None


@pytest.mark.parametrize("wavelength", [2.5, 7.0, 40.0, 900.0])
def test_wavelengths_judged_by_values_are_those_of_sines(wavelength):
    points = range(4000)

    def cells(rows: Any, _columns: Any) -> Any:
        return np.sin(2 * math.pi * np.asarray(rows) / wavelength)[:, None]

    (found,) = wavelengths_by_values(cells, points)(spread(4000, 397), [0])
    # The speed of a sine is measured over one position: chords are shorter than arcs.
    assert found == pytest.approx(wavelength, rel=0.03 if wavelength > 5 else 0.35)


@pytest.mark.parametrize(
    ("scheme", "positions", "settings"),
    [
        ("sinusoidal", "0:50", {"dim": 8}),
        ("rope", "7:57", {"dim": 8}),
        ("binary", "0:50", {"dim": 8}),
        ("learned", "0:50", {"dim": 8}),
        ("shaw", "0:25", {"dim": 8, "max_distance": 9}),
        ("transformer-xl", "0:25", {"dim": 8}),
        ("xpos", "0:50", {"dim": 8}),
        ("sinusoidal-nd", "0:50", {"dim": 8}),
    ],
)
def test_cells_are_the_cells_of_the_whole_matrix(scheme, positions, settings):
    whole = matrix(scheme, positions, dtype="float64", **settings)
    asked = request(scheme, positions, dtype="float64", **settings)
    where = Positions.parse(positions)
    if asked.scheme.kind == "relative":
        where = where.offsets(settings.get("max_distance"))
    cells = row_cells(asked, Points(where), range(8)[::-1], engine)
    rows, columns = [0, 3, 4, 5, 11, len(whole) - 1], [0, 7, 2]
    assert np.array_equal(
        cells(rows, columns), whole[np.ix_(rows, [7 - column for column in columns])]
    )


def test_scores_are_those_of_the_whole_matrix():
    whole = matrix("alibi", "0:40", dtype="float64", heads=4)
    asked = request("alibi", "0:40", dtype="float64", heads=4, head=2)
    cells = score_cells(asked, range(40), engine)
    assert np.array_equal(cells([0, 10, 20], [0, 10, 20]), whole[2][:30:10, :30:10])
    assert np.array_equal(cells([1, 5], [2, 3, 39]), whole[2][np.ix_([1, 5], [2, 3, 39])])


def test_similarity_maps_are_cosines_between_rows_of_the_grid():
    asked = request("sinusoidal-nd", None, dtype="float64", grid="5x7", dim=16)
    rows = matrix("sinusoidal-nd", "0:35", dtype="float64", grid="5x7", dim=16)
    cells = similarity_cells(asked, (5, 7), origin=0, position=17, engine_for=engine)
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    expected = (unit @ unit[17]).reshape(5, 7)
    assert cells(range(5), range(7)) == pytest.approx(expected, rel=1e-12)
    assert cells([4, 2], [0, 3]) == pytest.approx(expected[np.ix_([4, 2], [0, 3])], rel=1e-12)


def test_wavelengths_of_waves_are_turns_of_their_frequencies():
    waves = request("rope", "0:4", dim=8, base=100.0).encoding.bound.content.waves  # type: ignore[union-attr]
    expected = [2 * math.pi * 100 ** (i / 4) for i in range(4)]
    assert wavelengths_of(waves) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 64), (5, 5, 5, 1), (8, 8, 8, 3), (1001, 1000)])
def test_means_of_waves_are_those_of_all_their_rows(sizes):
    turns = [0, 1e-300, 1e-12, 1e-4, 0.01, 0.3, 1.0, math.pi / 2, 3.0, math.pi, 4.0, 2 * math.pi]
    angles, phases = np.array([*turns, 100.0]), np.linspace(0, 3, 13)

    def cells(rows, columns):
        return 2 * np.cos(np.outer(rows, angles[columns]) + phases[columns])

    count, starts = sum(sizes), [0, *np.cumsum(sizes)[:-1].tolist()]
    columns = [12, *range(12)]
    found = wave_means(cells, angles, count)(starts, columns)
    every = cells(range(count), columns)
    expected = [every[a : a + n].mean(axis=0) for a, n in zip(starts, sizes, strict=True)]
    assert np.abs(found - expected).max() < 1e-11


def test_means_of_waves_vanish_as_those_of_a_continuous_wave():
    """Over n rows of an angle too small to see: the sine of half the turn, divided by it."""
    angles = np.array([1e-9])
    found = wave_means(lambda rows, _: np.cos(np.outer(rows, angles)), angles, 10**10)([0], [0])
    assert found[0, 0] == pytest.approx(math.sin(10) / 10, rel=1e-6)
