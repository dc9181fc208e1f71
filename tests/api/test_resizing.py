"""``posenc.resize``: arrays and tensors in, the like of them out."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_cli as posenc

TABLE = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)


def test_arrays_keep_their_format_and_their_leading_axis():
    assert posenc.resize(TABLE, 9).dtype == np.float32
    assert posenc.resize(TABLE[None], 9).shape == (1, 9, 3)
    assert posenc.resize(TABLE.astype(np.float16), 9).dtype == np.float16
    counts = posenc.resize(np.arange(4)[:, None], 2)
    assert counts.dtype == np.float64
    assert counts.tolist() == [[0.5], [2.5]]


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    for name in ("float32", "float64", "bfloat16", "float16"):
        tensor = torch.tensor(TABLE).to(getattr(torch, name))
        resized = posenc.resize(tensor[None], grid=((2, 3), (4, 5)), prefix=1)
        assert resized.shape == (1, 21, 3)
        assert resized.dtype == tensor.dtype
        assert torch.equal(resized[0, :1], tensor[:1])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "positions and grid: neither is given"),
        ({"positions": 0}, "positions 0: must be a whole number of at least 1"),
        ({"positions": True}, "positions True"),
        ({"positions": 3, "prefix": -1}, "prefix -1"),
        ({"positions": 3, "prefix": 7}, "prefix 7: table has 7 rows"),
        ({"grid": (7, 1)}, "grid (7, 1): must be ((A, B), (C, D))"),
        ({"grid": ((7, 1), (0, 2))}, "must be ((A, B), (C, D))"),
        ({"grid": ((2, 3), (4, 5))}, "grid 2x3 takes 6 rows"),
        ({"positions": 3, "method": "cubic"}, "method 'cubic': must be one of linear"),
        ({"positions": 3, "arithmetic": "float16"}, "arithmetic 'float16': must be one of exact"),
        ({"positions": 3, "interpolate_offset": 2}, "interpolate_offset 2: must be"),
    ],
)
def test_wrong_arguments_are_value_errors_in_words_of_arguments(keywords, message):
    with pytest.raises(ValueError, match=r".") as error:
        posenc.resize(TABLE, **keywords)
    assert message in str(error.value)


def test_what_is_no_array_is_refused():
    for table in ([[1.0, 2.0]], "table.npy", None):
        with pytest.raises(ValueError, match="table: must be an array or a tensor"):
            posenc.resize(table, 3)
    with pytest.raises(ValueError, match="must be a matrix of real numbers, not complex numbers"):
        posenc.resize(TABLE.astype(complex), 3)
