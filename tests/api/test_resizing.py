"""``posenc.resize``: arrays and tensors in, the like of them out."""

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
