"""Scores of windows against those that Swin, Swin v2 and BEiT compute."""

import mpmath
import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.encoding.scores import _distinct
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


@pytest.mark.parametrize("window", ["7x7", "3x5", "4x1"])
@pytest.mark.parametrize("peer", ["swin", "beit"])
def test_a_window_counts_the_rows_of_its_table_as_timm_does(window, peer, golden):
    _, arrays = golden("window_index_timm")
    expected = arrays[f"{peer}_{window}"]
    given = {"window_size": window, "class_token": peer == "beit"}
    content = BUILT_IN["swin"].bind(given).content
    positions = np.arange(len(expected))
    numbers = content.pairs.number(np, positions[:, None], positions[None, :])
    assert np.array_equal(numbers, expected)
    assert numbers.max() == content.weights.rows - 1


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


def test_one_number_is_a_square():
    assert request("swin", "0:9", window_size=4).encoding.bound.content.capacity.positions == 16


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


TRAINED = {"8x8": {}, "3x5": {"window_size": "3x5", "pretrained_window_size": "6x8"}}
TENSORS = ("0.weight", "0.bias", "2.weight")


def network(arrays, window, path, prefix=""):
    np.savez(path, **{prefix + name: arrays[f"x_{window}:{name}"] for name in TENSORS})
    return f"{path}:{prefix[:-1]}" if prefix else str(path)


@pytest.mark.parametrize("prefix", ["", "layers.0.blocks.0.attn.cpb_mlp."])
@pytest.mark.parametrize("window", TRAINED)
def test_a_network_scores_windows_as_swin_v2_does(window, prefix, golden, tmp_path):
    statement, arrays = golden("window_networks")
    weights = network(arrays, window, tmp_path / "weights.npz", prefix)
    expected = arrays[f"bias_{window}"]
    ours = matrix("swin-v2", f"0:{expected.shape[1]}", weights=weights, **TRAINED[window])
    assert ours.shape == expected.shape
    assert np.abs(ours - expected).max() <= statement["tolerance"]["atol"]


def test_a_network_is_computed_to_the_last_bits_of_float64(golden, tmp_path):
    _, arrays = golden("window_networks")
    given = {**TRAINED["3x5"], "weights": network(arrays, "3x5", tmp_path / "weights.npz")}
    ours = matrix("swin-v2", "0:15", dtype="float64", **given)[1]
    first, shift, last = (arrays[f"x_3x5:{name}"].astype(float).tolist() for name in TENSORS)
    with mpmath.workdps(40):
        for query, key in ((0, 14), (14, 0), (4, 5), (7, 7)):
            apart = query // 5 - key // 5, query % 5 - key % 5
            place = [
                mpmath.sign(offset) * mpmath.log(1 + mpmath.mpf(8 * abs(offset)) / side, 8)
                for offset, side in zip(apart, (5, 7), strict=True)
            ]
            total = mpmath.fsum(
                weight * max(u * place[0] + v * place[1] + b, 0)
                for (u, v), b, weight in zip(first, shift, last[1], strict=True)
            )
            assert abs(ours[query, key] / (16 / (1 + mpmath.exp(-total))) - 1) < 1e-13


def test_files_that_hold_no_such_network_are_refused(golden, tmp_path):
    _, arrays = golden("window_networks")
    weights = network(arrays, "3x5", tmp_path / "weights.npz")
    for given, message in (
        (
            {"heads": 3},
            "512 units, 2 coordinates and 2 heads, but swin-v2 .* 512 units and 3 heads",
        ),
        ({"hidden": 511}, "needs .*: 511 units and 2 heads"),
        ({"weights": f"{weights}:attn"}, "holds no 'attn.0.weight'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            request("swin-v2", "0:9", **{"weights": weights, **given})
    np.save(tmp_path / "table.npy", np.zeros((512, 5)))
    with pytest.raises(InvalidInput, match="is a single array; only"):
        request("swin-v2", "0:9", weights=str(tmp_path / "table.npy"))
    for name, shape, message in (
        ("0.bias", (511,), "tensors of 512×2 and 511 and 2×512 are not 0.weight"),
        ("2.weight", (2, 513), "tensors of 512×2 and 512 and 2×513 are not 0.weight"),
        ("0.bias", (512, 1), "holds an array of shape 512×1, not a real vector"),
        ("0.weight", (512, 3), "512 units, 3 coordinates and 2 heads"),
    ):
        changed = {**arrays, f"x_3x5:{name}": np.zeros(shape)}
        with pytest.raises(InvalidInput, match=message):
            request("swin-v2", "0:9", weights=network(changed, "3x5", tmp_path / "changed.npz"))
    huge = {**arrays, "x_3x5:0.weight": np.full((512, 2), 1e300), "x_3x5:2.weight": np.eye(2, 512)}
    huge["x_3x5:2.weight"][0] = 1e300
    with pytest.raises(InvalidInput, match="exceed float64"):
        matrix("swin-v2", "0:9", weights=network(huge, "3x5", tmp_path / "huge.npz"))


@pytest.mark.parametrize("spread", [1, 2, 3, 1 << 40])
def test_values_that_lie_close_or_far_are_told_apart_alike(spread):
    indices = spread * (np.arange(12, dtype=np.int64).reshape(3, 4) % 5 - 2)
    distinct, where = _distinct(indices)
    expected, places = np.unique(indices, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(where, places.reshape(indices.shape))
    empty = _distinct(np.empty((0, 4), np.int64))
    assert empty[1].shape == (0, 4)


def test_a_window_of_one_place_has_one_score():
    scores = matrix("swin-v2", "0", window_size=1)
    assert scores.shape == (8, 1, 1)
    assert np.abs(scores - 8).max() < 1


def test_a_table_of_windows_goes_by_pairs():
    for name in ("swin", "swin-v2"):
        assert BUILT_IN[name].bind({}).content.by == "pair"
