"""Answers that a function's process garbles, and results that are no arrays: one line, status 2."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.calls import worker
from posenc_cli.calls.onnx import Refused
from posenc_cli.frameworks import BY_NAME

GOOD = """
import os, sys
import numpy as np
inv_freq = 1e4 ** -(np.arange(0, 8, 2) / 8)
def good(x, positions):
    angles = np.asarray(positions)[:, None] * inv_freq
    cos, sin = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, ::2] = x[:, ::2] * cos - x[:, 1::2] * sin
    y[:, 1::2] = x[:, ::2] * sin + x[:, 1::2] * cos
    return y
"""
ASKED = ("rope-check", "-s", "rope", "-d", "8", "--len", "8", "--impl")


@pytest.mark.long
def test_an_error_of_many_lines_and_control_characters_is_one_short_line(call, tmp_path):
    body = "def f(x, p):\n    raise ValueError('a\\x1b[31m' + 'x' * 5000 + '\\n\\x1b[31mred\\n')\n"
    (tmp_path / "mine.py").write_text(GOOD + body)
    status, _, err = call(*ASKED, "./mine.py:f")
    assert status == 2
    assert "raised ValueError: a\\x1b[31mx" in err
    assert "\x1b" not in err
    assert len(err) < 1000


class Detached:
    """Has what tensors have, and is none."""

    def detach(self):
        return self


class Raising:
    """Cannot be read as an array."""

    def __array__(self, dtype=None, copy=None):
        raise LookupError("not now")


class Readable:
    """An array of another library, which NumPy reads."""

    dtype, shape = "other.bfloat16", "unknown"

    def detach(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Detached(), "returned Detached, not real numbers"),
        (Raising(), "returned a Raising that cannot be read as an array (LookupError: not now)"),
        ([[1.0], [1.0, 2.0]], "returned a list that cannot be read as an array (ValueError: "),
        ({"cos": 1}, "returned dict, not real numbers"),
    ],
)
def test_a_result_that_is_no_array_is_said_to_be_none(result, words):
    with pytest.raises(Refused, match="returned") as refused:
        worker.as_bytes(result)
    assert words in str(refused.value)
    assert worker.values_of([result]) == [[result]]


def test_arrays_of_other_libraries_are_read_whatever_they_have_beside_their_values():
    form, data = worker.as_bytes(Readable())
    assert form == {"dtype": "float32", "stored": "float32", "shape": [2, 3]}
    assert bytes(data) == np.arange(6, dtype=np.float32).tobytes()


def test_tensors_without_values_are_refused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for tensor in (torch.ones(2, 3, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises(Refused, match="returned "):
            worker.as_bytes(tensor)


def test_an_input_that_was_moved_to_another_device_was_changed():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    one = torch.ones(2)
    assert worker.is_unchanged(one, torch.ones(2))
    assert not worker.is_unchanged(one.to("meta"), one)


@pytest.mark.parametrize("apart", ["rows", "columns"])
@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_strided_arrays_have_the_same_values_and_lie_apart(name, apart):
    pytest.importorskip(name, reason="it is not installed")
    values = np.arange(2 * 3 * 4 * 2, dtype=np.float32)
    given = {"dtype": "float32", "shape": (2, 3, 4, 2), "broadcast": (2, 3, 4, 2)}
    given["reshape"] = given["shape"]
    plain, strided = (
        worker.array_from_bytes(
            BY_NAME[name], bytearray(values.tobytes()), {**given, "strided": strided}
        )
        for strided in ("", apart)
    )
    assert np.array_equal(np.asarray(plain), np.asarray(strided))
    assert np.asarray(plain).flags.c_contiguous
    assert not np.asarray(strided).flags.c_contiguous
    times = 1 if apart == "rows" else 2
    assert np.asarray(strided).strides[-1] == times * np.asarray(plain).strides[-1]
