"""npy, npz and safetensors: bit-exact, as their own libraries write and read them."""

import io
import json
import sys
import weakref
import zipfile
from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.files import npz
from posenc_cli.files import safetensors as safetensors_format
from posenc_cli.files.formats import FORMATS
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.reading import read_array
from posenc_cli.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    DType,
)

NUMPY_DTYPES = (FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128)
SAFETENSORS_DTYPES = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64)
METADATA = {"scheme": "rope", "note": 'é "θ"\n\\/\x01\x7f😀'}


def matrix_of(array: np.ndarray, dtype: DType, pieces: int = 3, **more: Any) -> Matrix:
    more.setdefault("metadata", METADATA)
    return Matrix(
        shape=array.shape,
        dtype=dtype,
        blocks=lambda: iter(np.array_split(array, pieces)),
        **more,
    )


def written(name: str, matrix: Matrix) -> bytes:
    stream = io.BytesIO()
    FORMATS[name].write(stream, matrix)
    return stream.getvalue()


def specials(dtype: DType) -> np.ndarray:
    """Both zeros, infinities, quiet and signalling NaNs of both signs, subnormals, extremes."""
    real = dtype.component or dtype
    width = real.itemsize * 8
    fraction = real.precision - 1
    infinity = (2 ** (width - 1 - fraction) - 1) << fraction
    magnitudes = [0, 1, 2**fraction - 1, 2**fraction, infinity - 1, infinity, infinity + 1]
    magnitudes += [infinity | 1 << fraction - 1, infinity | 2**fraction - 1, 3 << fraction]
    bits = [sign << width - 1 | magnitude for magnitude in magnitudes for sign in (0, 1)]
    return np.array(bits, f"<u{real.itemsize}").view(dtype.numpy).reshape(-1, 2)


@st.composite
def any_bits(draw: st.DrawFn, dtypes: tuple[DType, ...], **of: int) -> tuple[np.ndarray, DType]:
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(arrays.array_shapes(**{"max_dims": 3, "max_side": 5, **of}))
    size = int(np.prod(shape)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    return np.frombuffer(data, dtype.numpy).reshape(shape), dtype


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return (left.shape, left.dtype, left.tobytes()) == (right.shape, right.dtype, right.tobytes())


class TestNpy:
    @given(any_bits(NUMPY_DTYPES))
    def test_bytes_are_those_of_numpy(self, case):
        array, dtype = case
        expected = io.BytesIO()
        np.save(expected, array)
        assert written("npy", matrix_of(array, dtype)) == expected.getvalue()

    @pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=lambda dtype: dtype.name)
    def test_special_values_read_back(self, dtype):
        array = specials(dtype)
        data = io.BytesIO(written("npy", matrix_of(array, dtype)))
        assert same_bits(np.load(data, allow_pickle=False), array)


class TestNpz:
    @given(any_bits(NUMPY_DTYPES))
    def test_numpy_reads_the_same_bits_and_the_metadata(self, case):
        array, dtype = case
        matrix = matrix_of(array, dtype)
        data = written("npz", matrix)
        assert 0 <= len(data) - npz.size(matrix) < 2000
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            assert sorted(archive) == ["encoding", "metadata"]
            assert same_bits(archive["encoding"], array)
            assert archive["metadata"].shape == ()
            assert json.loads(str(archive["metadata"])) == METADATA

    def test_the_archive_is_sound_and_tells_no_time(self):
        array = np.ones((4, 4), "<f4")
        data = written("npz", matrix_of(array, FLOAT32))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["encoding.npy", "metadata.npy"]
            for info in archive.infolist():
                assert info.date_time == (1980, 1, 1, 0, 0, 0)
                assert info.compress_type == zipfile.ZIP_STORED
        assert written("npz", matrix_of(array, FLOAT32, pieces=1)) == data

    def test_bytes_do_not_depend_on_whether_the_stream_can_seek(self):
        matrix, pieces = matrix_of(np.ones((4, 4), "<f4"), FLOAT32), []
        npz.write(SimpleNamespace(write=lambda data: pieces.append(bytes(data))), matrix)
        assert b"".join(pieces) == written("npz", matrix)

    @pytest.mark.parametrize("limit", [0, 200, 1400])
    def test_numpy_reads_it_past_32_bits_too(self, limit, monkeypatch):
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
        data = written("npz", matrix_of(np.ones((4, 4), "<f4"), FLOAT32))
        with np.load(io.BytesIO(data)) as archive:
            assert archive["encoding"].sum() == 16

    def test_a_failed_stream_does_not_end_in_a_valid_archive(self):
        def blocks():
            yield np.ones((2, 2), "<f4")
            raise KeyboardInterrupt

        stream = io.BytesIO()
        with pytest.raises(KeyboardInterrupt):
            npz.write(stream, Matrix((4, 2), FLOAT32, blocks, {}))
        with pytest.raises(zipfile.BadZipFile):
            zipfile.ZipFile(stream)
        assert b"PK\x05\x06" not in stream.getvalue()


TEXTS = st.lists(st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF)).map(
    lambda codes: "".join(map(chr, codes))
)
"""Texts of any characters. st.text would first sort all of Unicode, in every fresh checkout."""


class TestSafetensors:
    @staticmethod
    def by_the_library(array: np.ndarray, dtype: DType, metadata: dict[str, str] | None) -> bytes:
        named = {"dtype": dtype.name, "shape": array.shape}
        if hasattr(safetensors, "TensorSpec"):
            place = {"data_ptr": array.ctypes.data, "data_len": array.nbytes}
            spec = safetensors.TensorSpec(**named, **place)
        else:  # as older ones take it
            spec = {**named, "data": array.tobytes()}
        return bytes(safetensors.serialize({"encoding": spec}, metadata=metadata))

    @given(any_bits(SAFETENSORS_DTYPES), TEXTS, st.booleans())
    def test_bytes_are_those_of_the_library(self, case, text, some):
        array, dtype = case
        metadata = {text: text[::-1]} if some else {}  # the library writes several in any order
        matrix = matrix_of(array, dtype, metadata=metadata)
        data = written("safetensors", matrix)
        assert data == self.by_the_library(array, dtype, metadata or None)
        assert safetensors_format.size(matrix) == len(data)

    @pytest.mark.parametrize("dtype", SAFETENSORS_DTYPES, ids=lambda dtype: dtype.name)
    def test_the_library_reads_the_same_bits(self, dtype, tmp_path):
        array, path = specials(dtype), tmp_path / "a.safetensors"
        path.write_bytes(written("safetensors", matrix_of(array, dtype)))
        ((name, found),) = safetensors.deserialize(path.read_bytes())
        assert (name, found["shape"]) == ("encoding", list(array.shape))
        assert bytes(found["data"]) == array.tobytes()
        with safetensors.safe_open(path, framework="np") as file:
            assert file.metadata() == METADATA
        if dtype is not BFLOAT16:  # NumPy cannot hold it
            assert same_bits(safetensors.numpy.load_file(path)["encoding"], array)

    def test_metadata_that_is_no_unicode_is_escaped(self, tmp_path):
        matrix = matrix_of(np.ones((1, 1), "<f4"), FLOAT32, 1, metadata={"file": "a\udcff"})
        path = tmp_path / "a"
        path.write_bytes(written("safetensors", matrix))
        with safetensors.safe_open(path, framework="np") as file:
            assert file.metadata() == {"file": "a\\udcff"}

    def test_a_missing_library_is_said_where_a_file_is_read(self, monkeypatch, tmp_path):
        path = tmp_path / "a.safetensors"
        path.write_bytes(written("safetensors", matrix_of(np.ones((1, 1), "<f4"), FLOAT32)))
        monkeypatch.setitem(sys.modules, "safetensors", None)
        with pytest.raises(Unavailable, match="the safetensors library does not load"):
            read_array(path)


@pytest.mark.parametrize("name", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (2, 7, 3)])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_cutting_into_blocks_does_not_show(name, shape, pieces):
    array = np.arange(np.prod(shape), dtype="<f4").reshape(shape)
    parts = np.array_split(array.reshape(-1, shape[-1] if len(shape) > 1 else 1), pieces)
    whole = Matrix(shape, FLOAT32, lambda: iter([array]), METADATA)
    cut = Matrix(shape, FLOAT32, lambda: iter(parts), METADATA)
    assert written(name, cut) == written(name, whole)
    assert FORMATS[name].size(whole) <= len(written(name, whole))


@pytest.mark.parametrize(
    ("name", "dtype", "hint"),
    [
        *((name, BFLOAT16, "--round-to bfloat16") for name in ("npy", "npz", "csv")),
        ("safetensors", COMPLEX128, ""),
        ("csv", COMPLEX64, "--table interleaved"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_with_a_way_out(name, dtype, hint):
    with pytest.raises(InvalidInput, match=f"{name}.* cannot hold {dtype.name}") as caught:
        FORMATS[name].check(matrix_of(np.ones((2, 2), dtype.numpy), dtype))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([np.ones((3, 2), "<f4")], "blocks of 6"),
        ([np.ones((4, 2), "<f4"), np.ones((1, 2), "<f4")], "blocks of 10"),
        ([], "blocks of 0"),
        ([np.ones((4, 2), "<f8")], "float64"),
        ([np.ones(3, "<f4"), np.ones(5, "<f4")], "cuts a row"),
    ],
)
def test_blocks_that_are_not_the_matrix_are_a_bug(name, blocks, reason):
    with pytest.raises(RuntimeError, match=reason):
        written(name, Matrix((4, 2), FLOAT32, lambda: iter(blocks), {}))


@pytest.mark.parametrize("name", ["npy", "npz", "safetensors"])
def test_a_block_is_let_go_before_the_next_is_asked_for(name):
    """So that one block's memory does for a matrix of any length."""
    alive = []

    def blocks():
        for _ in range(3):
            alive.append(sum(block() is not None for block in made))
            block = np.zeros((2, 2), np.float32)
            made.append(weakref.ref(block))
            yield block
            del block

    made: list[Any] = []
    written(name, Matrix((6, 2), FLOAT32, blocks, {}))
    assert alive == [0, 0, 0]
