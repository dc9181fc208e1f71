"""What of a heatmap is shown, and which colours its values get."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput
from posenc_cli.render.figure import (
    Axis,
    Band,
    Curve,
    Curves,
    Heatmap,
    Panels,
    data_of,
    grid_of,
    heatmaps_of,
    scale_of,
)

ROWS, COLUMNS = Axis("position", range(2**40)), Axis("dimension", range(8))


def plain(values: Any, **settings: Any) -> Heatmap:
    values = np.asarray(values)
    rows, columns = (Axis(label, range(n)) for label, n in zip("rc", values.shape, strict=True))
    return Heatmap(values, rows, columns, **settings)


def test_only_what_is_shown_is_asked_for():
    asked: list[int] = []

    def cells(rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
        asked.append(len(rows) * len(columns))
        return np.add.outer(np.asarray(rows), np.asarray(columns))

    shown = Heatmap(cells, ROWS, COLUMNS).sample(5, 4)
    assert asked == [20]
    assert shown.rows[0] == 0
    assert shown.rows[-1] == 2**40 - 1
    assert shown.values[-1, -1] == shown.rows[-1] + shown.columns[-1]
    assert shown.notes == ("shows 5 of 1099511627776 positions and 4 of 8 dimensions",)


def test_what_fits_is_shown_whole_and_without_a_note_and_no_note_repeats_itself():
    shown = plain([[1, 2], [3, 4]]).sample(2, 9)
    assert shown.values.tolist() == [[1, 2], [3, 4]]
    assert shown.notes == ()
    axis = Axis("position", range(512))
    notes = Heatmap(np.eye(512), axis, axis, square=True).sample(256, 256).notes
    assert notes == ("shows 256 of 512 positions",)


@example(lengths=[1, 1, 4], most=3)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), most=st.integers(1, 60))
def test_bands_keep_their_share_of_the_columns(lengths, most):
    ends = np.cumsum(lengths).tolist()
    bands = tuple(
        Band(str(i), end - n, end) for i, (n, end) in enumerate(zip(lengths, ends, strict=True))
    )
    indices, shown = Axis("dimension", range(ends[-1]), bands).sample(most)
    assert len(indices) <= most
    if most < len(bands):
        assert not shown
        return
    assert [band.label for band in shown] == [band.label for band in bands]
    for band, sampled in zip(bands, shown, strict=True):
        part = indices[sampled.start : sampled.stop]
        assert part
        assert part[0] == band.start
        assert all(band.start <= index < band.stop for index in part)


def test_columns_whose_wavelength_is_under_two_samples_are_undersampled():
    heatmap = Heatmap(
        lambda rows, columns: np.zeros((len(rows), len(columns))),
        Axis("position", range(100)),
        Axis("dimension", range(4)),
        wavelengths=lambda _rows, columns: np.array([7.0, 19.9, 20.0, np.inf])[columns],
    )
    assert heatmap.sample(34, 4).undersampled == ()  # 3 positions a step
    assert heatmap.sample(11, 4).undersampled == (0, 1)  # 10
    assert heatmap.sample(10, 4).undersampled == (0, 1, 2)  # 11
    assert heatmap.sample(200, 4).undersampled == ()


def test_what_is_not_finite_is_a_gap_and_told():
    shown = plain([[1.0, np.nan], [-np.inf, np.inf]]).sample(9, 9)
    assert np.isnan(shown.values).tolist() == [[False, True], [True, True]]
    assert shown.warnings == ("3 of 4 values are not finite, shown as gaps",)
    assert plain([[1.0]]).sample(9, 9).warnings == ()


MOST = np.finfo(np.float64).max


@pytest.mark.parametrize(
    ("values", "given", "ends", "kind", "places"),
    [
        ([-1.0, 3.0], {}, (-3, 3), "diverging", {-3.0: 0, 0.0: 0.5, 3.0: 1}),
        ([0.2], {"limits": (-1.0, 1.0), "scale": "cyclic"}, (-1, 1), "cyclic", {}),
        ([5.0, 5.0], {}, (5, 5), "sequential", {5.0: 0.5}),
        ([-MOST, MOST], {}, (-MOST, MOST), "diverging", {-MOST: 0, 0.0: 0.5, MOST: 1}),
        ([0, 1e-323], {}, (0, 1e-323), "sequential", {0: 0, 5e-324: 0.5, 1e-323: 1}),
    ],
)
def test_values_have_their_places_on_a_scale_of_their_signs(values, given, ends, kind, places):
    scale = scale_of([plain([values], **given).sample(9, 9)])
    assert ((scale.low, scale.high), scale.kind) == (ends, kind)
    assert scale.places(np.array([*places])).tolist() == [*places.values()]


def test_values_of_one_sign_fill_the_scale():
    scale = scale_of([plain([[2.0, 6.0]]).sample(9, 9), plain([[4.0, 10.0]]).sample(9, 9)])
    assert (scale.low, scale.high, scale.kind) == (2, 10, "sequential")
    assert scale.places(np.array([2.0, 4.0, np.nan]))[:2].tolist() == [0, 0.25]


def test_nothing_finite_is_refused_and_so_is_nothing_at_all():
    with pytest.raises(InvalidInput, match="no value is finite"):
        scale_of([plain([[np.nan, np.inf]]).sample(9, 9)])
    with pytest.raises(InvalidInput, match="holds no values"):
        plain(np.zeros((0, 3))).sample(9, 9)


def test_data_are_strict_json_with_null_for_gaps():
    heatmap = plain([[1.5, np.nan]], title="a")
    curves = Curves((Curve((0.0, 1.0), (2.0, np.inf), "c"),), "b", "x", "y", levels=((4.0, "l"),))
    figure = Panels((heatmap, curves), "both")
    shown = [each.sample(9, 9) for each in heatmaps_of(figure)]
    data = json.loads(json.dumps(data_of(figure, shown), allow_nan=False))
    assert data["title"] == "both"
    first, second = data["panels"]
    assert first["values"] == [[1.5, None]]
    assert (first["rows"], first["columns"], first["gaps"]) == ([0], [0, 1], 1)
    points = {"x": [0.0, 1.0], "y": [2.0, None]}
    assert second["curves"] == [{"name": "c", **points, "joined": True}]
    assert second["levels"] == [{"name": "l", "y": 4.0}]


def test_what_belongs_together_is_in_one_row_where_it_has_room():
    assert grid_of(12, (100, 100), (10, 10), aspect=1) == (3, 4)
    assert grid_of(12, (100, 100), (10, 10), aspect=1, multiple=3) == (4, 3)
    assert grid_of(12, (30, 100), (10, 10), aspect=1, multiple=4)[1] < 4  # four have no room
