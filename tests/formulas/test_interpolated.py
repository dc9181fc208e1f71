"""FIRE against the code of its authors, and where its scores go by more than the distance."""

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from tests.matrices import matrix, request

CASES = {
    "short": {"heads": 4, "c": 0.25, "threshold": 12.0},
    "default": {"heads": 2, "c": float(np.float32(0.1))},
}


def weights_file(arrays, case, path, prefix=""):
    parts = {
        prefix + name[len(case) + 1 :].replace("_", "."): arrays[name]
        for name in arrays.files
        if name.startswith(f"{case}_")
    }
    np.savez(path, **parts)
    return parts


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_the_authors_code(case, golden, tmp_path):
    _, arrays = golden("fire_arithmetic")
    weights_file(arrays, case, tmp_path / "w.npz")
    theirs = arrays[case]
    ours = matrix(
        "fire", f"0:{theirs.shape[1]}", weights=str(tmp_path / "w.npz"), dtype="float64",
        **CASES[case],
    )  # fmt: skip
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-6 * max(np.abs(theirs).max(), 1)


def test_the_tensors_of_a_checkpoint_are_found_below_a_prefix_and_settle_the_sizes(
    golden, tmp_path
):
    _, arrays = golden("fire_arithmetic")
    weights_file(arrays, "short", tmp_path / "w.npz")
    weights_file(arrays, "short", tmp_path / "deep.npz", prefix="layers.0.rotary_emb.")
    alone = request("fire", "0:9", weights=str(tmp_path / "w.npz"))
    assert {"heads": 4, "hidden": 32}.items() <= alone.encoding.bound.params.items()
    below = matrix("fire", "0:9", weights=f"{tmp_path / 'deep.npz'}:layers.0.rotary_emb")
    assert np.array_equal(below, matrix("fire", "0:9", weights=str(tmp_path / "w.npz")))


@pytest.mark.parametrize("threshold", [20.0, 20.75])
def test_up_to_the_threshold_the_distance_counts_alone_and_past_it_the_query_does_too(threshold):
    scores = matrix("fire", "0:40", threshold=threshold, dtype="float64")
    for distance in range(1, 15):
        below = np.diagonal(scores, -distance, axis1=1, axis2=2)  # (heads, queries)
        assert (below[:, : 21 - distance] == below[:, :1]).all()
        assert (np.diff(below[:, 21 - distance :], axis=1) != 0).any()


def test_it_is_no_function_of_the_offset_where_it_is_asked():
    assert request("fire", "0:9").encoding.bound.content.by == "pair"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mlp.2.bias": np.zeros(3, np.float32)}, "tensors of 32×1 and 32 and 4×32 and 3 are no"),
        ({"mlp.0.weight": np.zeros((32, 2), np.float32)}, "has 32 units, 2 coordinates and 4"),
        ({"mlp.2.bias": np.full(4, np.nan, np.float32)}, "holds NaN or infinity"),
    ],
)
def test_tensors_of_no_such_network_are_refused(change, message, golden, tmp_path):
    _, arrays = golden("fire_arithmetic")
    parts = weights_file(arrays, "short", tmp_path / "w.npz")
    np.savez(tmp_path / "wrong.npz", **(parts | change))
    with pytest.raises(InvalidInput, match=message):
        matrix("fire", "0:9", weights=str(tmp_path / "wrong.npz"))


def test_positions_past_those_that_are_numbered_are_refused():
    with pytest.raises(InvalidInput, match="posenc numbers pairs of 2147483648"):
        matrix("fire", f"0,{2**31}")
    far = matrix("fire", f"0,{2**31 - 1}", heads=1)
    assert np.isfinite(far).all()


def test_rope_check_says_whether_the_offset_is_enough(call):
    line = ("rope-check", "-s", "fire", "--set", "threshold=20")
    status, out, _ = call(*line, "--len", "21")
    assert (status, "relative" in out and "FAIL" not in out) == (0, True)
    status, out, _ = call(*line, "--len", "22")
    told = " ".join(out.split())
    assert (status, "scores at one distance differ by" in told) == (1, True)
    assert "the query's position past the threshold" in told
