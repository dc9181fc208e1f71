"""Whatever bytes a file holds, reading it gives an array or an error of posenc, never another."""

import io
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save

from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import read_array
from tests.examples import examples

SUFFIXES = [".npy", ".npz", ".csv", ".safetensors", ".bin"]
EXAMPLES = examples(200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def read_or_refuse(path):
    message, values = None, np.zeros(1)
    try:
        values = read_array(path, max_bytes=1 << 20).values
    except InvalidInput as error:
        message = error.message
    assert message is None or (message.isprintable() and os.fspath(path) in message)
    assert values.size
    assert values.ndim
    assert values.dtype.kind in "fc"


def saved(suffix):
    stream = io.BytesIO()
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    if suffix == ".npz":
        np.savez_compressed(stream, encoding=table, metadata=np.array("{}"))
    elif suffix == ".csv":
        np.savetxt(stream, table, delimiter=",", header="position")
    elif suffix == ".safetensors":
        return save({"encoding": table, "b": table.astype("f2")}, {"scheme": "rope"})
    else:
        np.save(stream, table)
    return stream.getvalue()


VALID = {suffix: saved(suffix) for suffix in SUFFIXES}


@EXAMPLES
@given(
    st.sampled_from(
        [b"", b"\x93NUMPY\1\0", b"\x93NUMPY\2\0", b"PK\3\4", b"PK\5\6", b"\xef\xbb\xbf"]
    ),
    st.binary(max_size=300),
    st.sampled_from(SUFFIXES),
)
def test_random_bytes_are_read_or_refused(folder, signature, content, suffix):
    path = folder / f"x{suffix}"
    path.write_bytes(signature + content)
    read_or_refuse(path)


@EXAMPLES
@given(st.data(), st.sampled_from(SUFFIXES))
def test_damaged_files_are_read_or_refused(folder, data, suffix):
    content = bytearray(VALID[suffix])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        end = at + data.draw(st.sampled_from([0, 1, 1, 1, 2, 4, 8, 10**6]))
        content[at:end] = data.draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from([b"\xff" * 4, b"\0" * 8, b"9" * 30, b"(" * 99, b"-", b"1e999"]),
            )
        )
    path = folder / f"x{suffix}"
    path.write_bytes(content)
    read_or_refuse(path)


@EXAMPLES
@given(st.text("'descrfotan_shp:(){}[],<f48TueFl L-\n0", max_size=80))
def test_header_like_text_is_read_or_refused(folder, text):
    path = folder / "x.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 8)
    read_or_refuse(path)


DTYPES = st.one_of(
    arrays.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    arrays.complex_number_dtypes(endianness="?"),
    arrays.integer_dtypes(sizes=(8, 16, 32), endianness="?"),
    arrays.unsigned_integer_dtypes(sizes=(8, 16, 32), endianness="?"),
    arrays.boolean_dtypes(),
)


@EXAMPLES
@given(
    arrays.arrays(DTYPES, arrays.array_shapes(min_dims=1, max_dims=6, max_side=4)),
    st.sampled_from("CF"),
    st.sampled_from([".npy", ".npz"]),
)
def test_arrays_are_read_as_numpy_reads_them(folder, array, order, suffix):
    path = folder / f"x{suffix}"
    array = np.asarray(array, order=order)
    with path.open("wb") as file:
        np.save(file, array) if suffix == ".npy" else np.savez(file, array)
    loaded = read_array(path)
    expected = np.load(path) if suffix == ".npy" else np.load(path)["arr_0"]
    kind = np.float64 if array.dtype.kind in "iub" else array.dtype.newbyteorder("=")
    assert loaded.dtype == array.dtype.name
    assert loaded.values.dtype == kind
    assert loaded.values.shape == expected.shape
    assert loaded.values.tobytes() == expected.astype(kind).tobytes()
