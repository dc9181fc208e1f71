"""Text matrices: the shortest numbers, one notation, read back bit for bit by NumPy."""

import io
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from posenc_cli.files import csv
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from tests.files.test_array_formats import any_bits

DTYPES = (FLOAT16, FLOAT32, FLOAT64)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)


def text_of(array: np.ndarray, dtype: DType, pieces: int = 1, **more: Any) -> str:
    matrix = Matrix(array.shape, dtype, lambda: iter(np.array_split(array, pieces)), {}, **more)
    csv.check(matrix)
    stream = io.BytesIO()
    csv.write(stream, matrix)
    assert stream.tell() >= csv.size(matrix)
    return stream.getvalue().decode("ascii")


def read_back(text: str, dtype: DType, **more: Any) -> np.ndarray:
    return np.loadtxt(io.StringIO(text), delimiter=",", dtype=dtype.numpy, ndmin=2, **more)


def same_values(left: np.ndarray, right: np.ndarray) -> bool:
    """Bit for bit, but for the payload of a NaN, which text does not carry."""
    bits = f"<u{left.itemsize}"
    agree = (left.view(bits) == right.view(bits)) | (np.isnan(left) & np.isnan(right))
    return left.shape == right.shape and bool(agree.all())


def edges(dtype: DType) -> np.ndarray:
    """Every power of two and of ten with its neighbours, both signs, zeros and the infinities."""
    with np.errstate(over="ignore", under="ignore"):
        twos = np.ldexp(1.0, np.arange(-1074, 1024))
        tens = np.array([float(f"1e{power}") for power in range(-323, 309)])
        middle = np.concatenate([twos, tens]).astype(dtype.numpy)
        middle = middle[np.isfinite(middle)]
        spread = [middle, np.nextafter(middle, dtype.numpy.type(0))]
        spread.append(np.nextafter(middle, dtype.numpy.type(np.inf)))
    values = np.concatenate(spread)
    return np.concatenate([values, -values]).reshape(-1, 2)


@pytest.mark.long
@given(any_bits(DTYPES, min_dims=2, max_dims=2))
def test_any_bits_read_back(case):
    array, dtype = case
    assert same_values(read_back(text_of(array, dtype), dtype), array)


def test_every_float16_reads_back():
    array = np.arange(1 << 16, dtype="<u2").view("<f2").reshape(256, 256)
    text = text_of(array, FLOAT16)
    assert same_values(read_back(text, FLOAT16), array)
    assert "-nan" not in text


def digits_of(text: str) -> str:
    return text.lstrip("-").split("e")[0].replace(".", "").strip("0")


def test_float64_digits_are_those_of_python():
    array = edges(FLOAT64)
    for text, value in zip(re.split("[,\n]", text_of(array, FLOAT64)), array.flat, strict=False):
        assert digits_of(text) == digits_of(repr(float(value)))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32], ids=lambda dtype: dtype.name)
def test_no_shorter_number_and_no_nearer_of_that_length_reads_back(dtype):
    random = np.random.default_rng(3).bytes(dtype.itemsize * 4000)
    array = np.concatenate([edges(dtype).ravel(), np.frombuffer(random, dtype.numpy)])
    array = array[np.isfinite(array) & (array != 0)].reshape(-1, 1)
    for text, value in zip(text_of(array, dtype).split(), array.flat, strict=True):
        exact, length = Decimal(float(value)), len(digits_of(text))
        shorter = [
            Context(prec=length - 1, rounding=rounding).plus(exact)
            for rounding in (ROUND_FLOOR, ROUND_CEILING)
            if length > 1
        ]
        with np.errstate(over="ignore"):
            assert all(dtype.numpy.type(float(number)) != value for number in shorter), text
        nearest = Context(prec=length).plus(exact)
        if dtype.numpy.type(float(nearest)) == value:
            assert abs(Decimal(text) - exact) == abs(nearest - exact), text


@each_dtype
def test_the_notation_is_one(dtype):
    texts = ["1.0", "-0.0", "0.0", "0.1", "-0.5", "1000.0", "0.00006", "6e-8", "nan", "inf", "-inf"]
    if dtype is not FLOAT16:
        texts += ["1.5e-7", "1e-30", "1e16", "-1.25e20", "123450.0"]
    if dtype is not FLOAT64:
        texts += ["0.000006"]
    else:
        texts += ["6e-6", "1234567890123456.0", "1e-300"]
    assert text_of(np.array([texts], dtype.numpy), dtype) == ",".join(texts) + "\n"


@pytest.mark.long
@each_dtype
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (300, 3), (3, 20_000)])
@pytest.mark.parametrize("pieces", [1, 3])
def test_lines_are_rows_however_the_blocks_are_cut(dtype, shape, pieces):
    array = np.arange(np.prod(shape)).astype(dtype.numpy).reshape(shape) / dtype.numpy.type(7)
    text = text_of(array, dtype, pieces)
    assert text.endswith("\n")
    assert "\r" not in text
    lines = text.splitlines()
    assert len(lines) == shape[0]
    assert all(line.count(",") == shape[1] - 1 for line in lines)
    assert same_values(read_back(text, dtype), array)


@pytest.mark.long
@each_dtype
@pytest.mark.parametrize("pieces", [1, 2, 700])
def test_the_header_names_the_columns_and_labels_the_rows(dtype, pieces):
    array = np.ones((700, 64), dtype.numpy)
    array[::3, 0] = np.nan
    labels = range(-5, 695)
    text = text_of(
        array, dtype, pieces, header=True, row_labels=lambda: iter(labels), row_label="offset"
    )
    first, *lines = text.splitlines()
    assert first == "offset," + ",".join(f"d{column}" for column in range(64))
    assert [int(line.split(",", 1)[0]) for line in lines] == list(labels)
    assert same_values(read_back(text, dtype, skiprows=1, usecols=range(1, 65)), array)


def test_rows_without_labels_are_numbered_and_labels_without_header_unused():
    array = np.array([[1.0, 2.0], [3.0, 4.0]], "<f4")
    assert text_of(array, FLOAT32, header=True) == "position,d0,d1\n0,1.0,2.0\n1,3.0,4.0\n"
    assert text_of(array[:, 0], FLOAT32, header=True) == "position,d0\n0,1.0\n1,3.0\n"
    assert text_of(array, FLOAT32, row_labels=count) == "1.0,2.0\n3.0,4.0\n"
