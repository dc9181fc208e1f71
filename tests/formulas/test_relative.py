"""Shaw's clipped rows and Transformer-XL's sinusoids of distances, against peers' own code."""

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from tests import tolerances
from tests.matrices import matrix, request


@pytest.mark.parametrize("name", ["rel_sin_transformer_xl", "rel_sin_xlnet"])
def test_rows_of_distances_equal_the_peers(name, golden):
    _, arrays = golden(name)
    theirs = arrays["emb"]
    distances = arrays["pos_seq"].astype(int) if "pos_seq" in arrays else np.arange(24, -24, -1)
    length = distances[0] + 1
    ours = matrix("transformer-xl", f"0:{length}", dim=64, dtype="float64")
    assert ours.shape == (2 * length - 1, 64)
    allowed = tolerances.TABLE + tolerances.SINUSOID_ANGLE * np.abs(distances)[:, None]
    # The first row is that of the farthest key to the left.
    assert (np.abs(ours[: len(distances)] - theirs) <= allowed).all()


def test_shaw_rows_give_the_scores_of_wav2vec2_bert(golden, tmp_path):
    case, arrays = golden("shaw_relative_clipped")
    table, query = arrays["w2v_table"], arrays["w2v_q"]
    left, right = case["params"]["w2v"]["left"], case["params"]["w2v"]["right"]
    # A table with both sides alike, of which the peer's right side ends sooner.
    padded = np.concatenate([table, np.repeat(table[-1:], left - right, axis=0)])
    np.save(tmp_path / "table.npy", padded)
    length = query.shape[2]
    rows = matrix("shaw", f"0:{length}", weights=str(tmp_path / "table.npy"))
    assert rows.shape == (2 * left + 1, 16)
    offsets = np.clip(np.arange(length) - np.arange(length)[:, None], -left, left) + left
    scores = np.einsum("bhid,ijd->bhij", query, rows[offsets]) * case["params"]["w2v"]["scaling"]
    assert np.abs(scores - arrays["w2v_bias"]).max() <= case["tolerance"]["atol"]


def test_shaw_rows_are_those_of_the_offsets_that_occur(tmp_path):
    table = np.arange(22.0).reshape(11, 2)
    np.save(tmp_path / "table.npy", table)
    weights = str(tmp_path / "table.npy")
    for length, first, last in ((1, 5, 6), (3, 3, 8), (6, 0, 11), (40, 0, 11)):
        rows = matrix("shaw", f"7:{7 + length}", weights=weights)
        assert (rows == table[first:last]).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 2), "4 rows; shaw needs"),
        ((1, 2), "1 rows; shaw needs"),
        ((5, 3), "is 5×3, but shaw with these parameters needs .* = 5×2"),
    ],
)
def test_a_table_of_another_shape_is_refused(shape, message, tmp_path):
    np.save(tmp_path / "table.npy", np.ones(shape))
    with pytest.raises(InvalidInput, match=message):
        request("shaw", "0:3", dim=2, weights=str(tmp_path / "table.npy"))
