"""Answers that a function's process garbles, and results that are no arrays: one line, status 2."""

import json

import numpy as np
import pytest

from posenc_cli.calls import worker
from posenc_cli.calls.answers import returned_arrays
from posenc_cli.calls.onnx import Refused
from posenc_cli.frameworks import BY_NAME
from tests.calls.test_calling import GOOD

ASKED = ("rope-check", "-s", "rope", "-d", "8", "--len", "8", "--impl")
WRITES = """
def say(text):
    for number in range(3, 9):
        try:
            os.write(number, text.encode() + b'\\n' + bytes(8))
        except OSError:
            pass
"""
ANSWER = (
    '{"id": 2, "bytes": 8, "results": [{"dtype": "float32", "stored": "float32", "shape": %s}]}'
)
HOSTILE = {
    "nested lists": "'[' * 60000",
    "nested objects": "'{\"a\":' * 10000",
    "nested results": "ANSWER % ('[' * 900 + ']' * 900)",
    "nested error": '\'{"id": 2, "bytes": 0, "error": %s}\' % ("[" * 900 + "]" * 900)',
    "endless size": '\'{"id": 2, "bytes": 1e999}\'',
    "no number": '\'{"id": 2, "bytes": NaN}\'',
    "half a byte": '\'{"id": 2, "bytes": 8.5}\'',
    "true": '\'{"id": 2, "bytes": true}\'',
    "many digits": '\'{"id": 2, "bytes": %s}\' % ("9" * 5000)',
    "endless shape": "ANSWER % '[1e999]'",
    "huge shape": "ANSWER % '[0, 1180591620717411303424]'",
    "negative shape": "ANSWER % '[-2]'",
    "shape of texts": "ANSWER % '[\"2\"]'",
    "many axes": "ANSWER % ([1] * 90 + [2])",
    "no results": '\'{"id": 2, "bytes": 0}\'',
    "results of another kind": '\'{"id": 2, "bytes": 0, "results": 5}\'',
    "a text": "'\"text\"'",
    "no JSON": "'\\x80'",
    "a line without end": "'9' * 70000",
    "a number that goes on": "'9' * 60000",
}


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_that_is_garbled_is_told_in_one_line(name, call, tmp_path):
    body = f"ANSWER = {ANSWER!r}\ndef f(x, p):\n    say({HOSTILE[name]})\n    return good(x, p)\n"
    (tmp_path / "mine.py").write_text(GOOD + WRITES + body)
    status, out, err = call(*ASKED, "./mine.py:f")
    assert (status, out) == (2, "")
    message, hint = err.splitlines()
    assert message == (
        "posenc: error: --impl './mine.py:f' wrote into the pipe that carries its results; "
        "they cannot be read"
    )
    assert hint.startswith("hint: save its values: ")


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "description",
    [
        {"name": 5, "is_class": False, "parameters": None},
        {"name": "f", "is_class": False, "parameters": [{"name": "x", "kind": 1, "default": None}]},
        {"name": "f", "is_class": False, "parameters": [{"name": "x", "kind": "", "default": []}]},
        {"name": "f", "is_class": False, "parameters": "xy"},
    ],
)
def test_a_description_of_other_types_is_garbled(description, call, tmp_path):
    answer = json.dumps(
        {"id": 1, "bytes": 0, "frameworks": ["numpy"], "loaded": ["numpy"], **description}
    )
    (tmp_path / "mine.py").write_text(GOOD + WRITES + f"say({answer!r})\nf = good\n")
    status, _, err = call(*ASKED, "./mine.py:f")
    assert status == 2
    assert "wrote into the pipe that carries its results; they cannot be read" in " ".join(
        err.split()
    )


@pytest.mark.long
def test_an_error_of_many_lines_and_control_characters_is_one_short_line(call, tmp_path):
    text = "x" * 5000 + "\\n\x1b[31mred\\n"
    answer = json.dumps({"id": 2, "bytes": 0, "error": "a\x1b[31m\nb" + text, "why": "raised"})
    body = f"def f(x, p):\n    say({answer!r})\n    return good(x, p)\n"
    (tmp_path / "mine.py").write_text(GOOD + WRITES.replace(" + bytes(8)", "") + body)
    status, _, err = call(*ASKED, "./mine.py:f")
    assert status == 2
    assert "\x1b" not in err
    assert len(err) < 1000


@pytest.mark.parametrize("shape", [[1e999], [True, 2], ["2"], [[2]], [2**70, 0], [-1, -2], None, 7])
def test_shapes_that_are_none_are_refused_before_they_are_used(shape):
    answer = {"results": [{"dtype": "float32", "stored": "float32", "shape": shape}]}
    with pytest.raises((ValueError, TypeError, OverflowError)):
        returned_arrays(answer, bytearray(8))


class Detached:
    """Has what tensors have, and is none."""

    def detach(self):
        return self


class Raising:
    """Cannot be read as an array."""

    def __array__(self, dtype=None, copy=None):
        raise LookupError("not now")


class Shapeless:
    """Fails where its shape is asked for."""

    @property
    def shape(self):
        raise LookupError("no shape")

    @property
    def dtype(self):
        raise LookupError("no format")


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
        (Shapeless(), "Shapeless"),
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
