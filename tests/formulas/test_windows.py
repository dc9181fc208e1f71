"""Scores of windows against those that Swin, Swin v2 and BEiT compute."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.errors import InvalidInput
from tests.matrices import matrix, request

WINDOWS = {"7x7": 49, "3x5": 15, "1x2": 2}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("peer", ["swin", "beit"])
def test_a_window_gathers_the_table_as_its_model_does(window, peer, golden, tmp_path):
    _, arrays = golden("window_bias")
    np.save(tmp_path / "table.npy", arrays[f"x_{peer}_{window}"])
    given = {"weights": str(tmp_path / "table.npy"), "class_token": peer == "beit"}
    if window != "7x7":
        given["window_size"] = window
    count = WINDOWS[window] + (peer == "beit")
    ours = matrix("swin", f"0:{count}", **given)
    assert (ours == arrays[f"{peer}_{window}"]).all()


def test_a_table_settles_a_square_window_and_its_heads(tmp_path):
    for rows, first in ((169, False), (172, True)):
        np.save(tmp_path / "table.npy", np.zeros((rows, 3)))
        made = request("swin", "0:9", weights=str(tmp_path / "table.npy"), class_token=first)
        params = made.encoding.bound.params
        assert (params["window_size"], params["heads"]) == ((7, 7), 3)
        with pytest.raises(InvalidInput, match=f"is {rows}×3, but swin with these parameters"):
            request("swin", "0:9", weights=str(tmp_path / "table.npy"), class_token=not first)


def test_rows_that_no_square_window_has_need_a_window(tmp_path):
    np.save(tmp_path / "table.npy", np.zeros((45, 2)))
    given = {"weights": str(tmp_path / "table.npy")}
    with pytest.raises(InvalidInput, match="has 45 rows; swin needs"):
        request("swin", "0:9", **given)
    assert matrix("swin", "0:15", window_size="3x5", **given).shape == (2, 15, 15)


def test_one_number_is_a_square_and_three_are_no_window():
    assert request("swin", "0:9", window_size=4).encoding.bound.content.capacity.positions == 16
    with pytest.raises(InvalidInput, match="--set window_size 2x2x2: must be rows x columns"):
        request("swin", "0:8", window_size="2x2x2")


def test_positions_past_the_window_are_refused():
    with pytest.raises(InvalidInput, match="window_size=7x7 has 49 places"):
        matrix("swin", "0:50")
    with pytest.raises(InvalidInput, match="has 49 places and a class token"):
        matrix("swin", "0:51", class_token=True)
    assert matrix("swin", "0:50", class_token=True).shape == (8, 50, 50)


def test_pairs_of_places_that_lie_alike_share_a_score():
    scores = matrix("swin", "0:12", window_size="3x4", heads=1)[0]
    assert scores[0, 1] == scores[5, 6] == scores[10, 11]
    assert scores[3, 4] != scores[4, 5]  # the offset is 1, but one is in the next row
    assert len(np.unique(scores)) == 5 * 7


def test_the_largest_window_is_scored_where_it_is_looked_at():
    far = 2**30 - 1
    scores = matrix("swin", f"0,1,{far}", window_size=32768, heads=1)[0]
    assert scores[0, 0] == scores[2, 2]
    assert scores[0, 2] != scores[2, 0]


def test_the_library_scores_some_queries_and_keys_as_the_matrix_has_them():
    whole = matrix("swin", "0:50", class_token=True)
    queries, keys = [0, 3, 49], [0, 7]
    some = posenc.bias("swin", queries, keys, class_token=True)
    assert np.array_equal(some, whole[:, queries][:, :, keys])


def test_tables_of_one_rule_are_declared_alike():
    assert BUILT_IN["swin"].kind == "bias"
    assert BUILT_IN["swin"].bind({}).content.by == "pair"
