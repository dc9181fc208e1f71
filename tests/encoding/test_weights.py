"""Learned tables: drawn, loaded, extended."""

import hashlib

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from tests.matrices import matrix, request


def test_a_drawn_table_is_numpys_philox_normal_by_blocks_of_64_rows():
    ours = matrix("learned", "0:200", dim=4, seed=7, max_len=200, dtype="float64")
    for block in range(4):
        generator = np.random.Generator(np.random.Philox(key=[7, block]))
        rows = generator.standard_normal((64, 4)) * 0.02
        assert (ours[block * 64 : block * 64 + 64] == rows[: len(ours) - block * 64]).all()


def test_a_drawn_table_is_the_same_under_every_numpy():
    """Written down once: if NumPy changes its streams, this tells before a user does."""
    ours = matrix("learned", "0:200", dim=4, dtype="float64", extend="random", max_len=10)
    assert float(ours[0, 0]).hex() == "0x1.a19560ad08b30p-9"
    assert float(ours[199, 3]).hex() == "0x1.95ae6ddd34e9cp-8"
    digest = "7b2e35421a83425c148953e74656562b571be78bc915468f2de58a3862631605"
    assert hashlib.sha256(ours.tobytes()).hexdigest() == digest


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.npy"
    np.save(path, np.arange(12, dtype=np.float32).reshape(4, 3))
    return str(path)


def test_a_weights_file_settles_the_shape(weights):
    asked = request("learned", "0:4", weights=weights)
    assert asked.encoding.bound.params["dim"] == 3
    assert asked.encoding.bound.params["max_len"] == 4
    assert (matrix("learned", "0:4", weights=weights) == np.arange(12).reshape(4, 3)).all()


@pytest.mark.parametrize(
    ("positions", "extend", "rows"), [("0:2", "error", [2, 3]), ("0:5", "clamp", [2, 3, 3, 3, 3])]
)
def test_an_offset_is_the_row_of_position_0(weights, positions, extend, rows):
    ours = matrix("learned", positions, weights=weights, offset=2, extend=extend)
    assert (ours == np.arange(12).reshape(4, 3)[rows]).all()


@pytest.mark.parametrize(
    ("scheme", "positions", "given", "message"),
    [
        ("learned", "0:3", {"offset": 2}, "the table has 4 rows, 2 of them before it"),
        ("learned", "0:4", {"dim": 5}, r"is 4×3, but .* = 4×5"),
        ("learned", "0:5", {}, r"position 4 is past the last .*: the table has 4 rows"),
        ("t5-clipped", "0:4", {}, r"has 4 rows; t5-clipped needs \(2·max_distance \+ 1"),
    ],
)
def test_what_a_weights_file_does_not_hold_is_refused(scheme, positions, given, message, weights):
    with pytest.raises(InvalidInput, match=message):
        request(scheme, positions, weights=weights, **given).plan().matrix()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(4), "holds an array of shape 4, not a real matrix"),
        (np.zeros((2, 2, 2)), "holds an array of shape 2×2×2"),
        (np.zeros((2, 2), dtype=complex), "not a real matrix"),
        (np.array([[1.0, np.nan]]), "holds NaN or infinity"),
    ],
)
def test_weights_that_are_no_finite_real_matrix_are_refused(array, message, tmp_path):
    np.save(tmp_path / "w.npy", array)
    with pytest.raises(InvalidInput, match=message):
        request("learned", "0:1", weights=str(tmp_path / "w.npy"))


def test_random_goes_on_with_drawn_rows(weights):
    ours = matrix("learned", "2:6", weights=weights, extend="random")
    drawn = matrix("learned", "0:6", dim=3, max_len=6)
    assert (ours[:2, 0] == [6, 9]).all()
    assert (ours[2:] == drawn[4:]).all()


@pytest.mark.parametrize("length", [5, 7, 8, 100])
def test_interpolate_is_linear_with_half_pixel_centres(weights, length):
    """np.interp at the source coordinates of the new rows, as image resizing defines them."""
    ours = matrix("learned", f"0:{length}", weights=weights, extend="interpolate", dtype="float64")
    source = (np.arange(length) + 0.5) * 4 / length - 0.5
    for column in range(3):
        expected = np.interp(source, np.arange(4), np.arange(12).reshape(4, 3)[:, column])
        np.testing.assert_allclose(ours[:, column], expected, rtol=0, atol=1e-14)
