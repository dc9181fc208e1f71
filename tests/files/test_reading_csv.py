"""Reading matrices of text: what is accepted, and that every number is read exactly."""

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput
from posenc_cli.files import csv
from posenc_cli.files.reading import read_array


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "x.csv"


def read(path, content: bytes):
    path.write_bytes(content)
    loaded = read_array(path)
    assert loaded.dtype == "float64"
    assert loaded.values.dtype == np.float64
    assert loaded.values.flags.c_contiguous
    return loaded.values


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"1,2\n3,4\n", [[1, 2], [3, 4]]),
        (b"1,2\n3,4", [[1, 2], [3, 4]]),
        (b"1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        (b"1,2\r3,4\r", [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbf1,2\n3,4\n", [[1, 2], [3, 4]]),
        (b"1,2\n3,4\n\n \r\n", [[1, 2], [3, 4]]),
        (b" 1 ,\t2\n3, 4 \n", [[1, 2], [3, 4]]),
        (b"1 2\n3  4\n", [[1, 2], [3, 4]]),
        (b" 1\t2 \n3\t 4\n", [[1, 2], [3, 4]]),
        (b"# cos\n1,2\n# sin; more\n3,4\n# end\n\n# of file\n", [[1, 2], [3, 4]]),
        (b"1,2,3\n", [[1, 2, 3]]),
        (b"1\n2\n3\n", [[1], [2], [3]]),
        (b"1\n2\n\n", [[1], [2]]),
        (b"7", [[7]]),
        (b"+1,.5\n5.,1E+2\n", [[1, 0.5], [5, 100]]),
        (b"01,1e05\n", [[1, 1e5]]),
        (b"18446744073709551616,9007199254740993\n", [[2.0**64, 2.0**53]]),
        (b"1e-400,4.9e-324\n", [[0, 5e-324]]),
        (b"inf,-Inf\n+infinity,1\n", [[math.inf, -math.inf], [math.inf, 1]]),
    ],
)
def test_matrix_of_text_is_read(path, content, rows):
    assert read(path, content).tolist() == rows


@pytest.mark.parametrize("content", [b"nan,1\n", b"NaN,1\n", b"-nan,1\n", b"nan 1\n"])
def test_nan_is_read(path, content):
    (row,) = read(path, content).tolist()
    assert math.isnan(row[0])
    assert row[1] == 1


@pytest.mark.parametrize("word", [b"null", b"1nan", b"nan1", b"nanan", b"nan nan", b"0nan"])
def test_words_around_nan_are_refused(path, word):
    path.write_bytes(b"1,nan\n2," + word + b"\n")
    with pytest.raises(InvalidInput, match="line 2, column 2: '.*' is not a number"):
        read_array(path)


@pytest.mark.parametrize("content", [b"-0,-0.0,-0e5\n", b"-0 -0.0 -0\n", b"1,-0,1e-0\n"])
def test_negative_zero_keeps_its_sign(path, content):
    values = read(path, content)
    assert np.signbit(values[values == 0]).all()
    assert (values == 0).any()


@pytest.mark.parametrize("label", [b"position", b"offset"])
def test_header_of_posenc_is_skipped_with_its_column(path, label):
    values = read(path, label + b",d0,d1\n5,0.5,1\n6,0.25,nan\n\n")
    assert values[:, 0].tolist() == [0.5, 0.25]
    assert values[0, 1] == 1


def test_rows_under_a_header_are_as_wide_as_it(path):
    path.write_bytes(b"position,d0,d1\n0,1,2\n1,2\n")
    with pytest.raises(InvalidInput, match="line 3: 2 fields, but the first line has 3"):
        read_array(path)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("delimiter", [",", " ", "\t"])
@pytest.mark.parametrize("header", ["", "cos; sin\nof positions"])
def test_output_of_savetxt_is_read_exactly(path, delimiter, header):
    array = np.random.default_rng(1).standard_normal((5000, 8))
    np.savetxt(path, array, delimiter=delimiter, header=header, footer="end")
    assert path.stat().st_size > 2 * csv._CHUNK, "over several blocks"
    assert (read_array(path).values == array).all()


@pytest.mark.long
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_may_fall_anywhere_in_a_block(path, end):
    for first in (b"1", b"11", b"111", b"1111", b"11111"):
        assert read(path, first + b",2" + end + (b"1,2" + end) * 60_000).shape == (60_001, 2)


def test_line_beyond_the_bound_is_refused(path):
    path.write_bytes(b"1," + b" " * (3 * csv._CHUNK) + b"2\n")
    assert read_array(path).values.tolist() == [[1, 2]]
    with pytest.raises(InvalidInput, match="bytes of memory"):
        read_array(path, max_bytes=csv._CHUNK)


BITS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
TEXTS = st.one_of(
    BITS.map(repr),
    BITS.map(lambda value: f"{value:.3e}"),
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(
        r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})(e[+-]?[0-9]{1,2})?", fullmatch=True
    ),
)


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1), st.sampled_from([",", " ", "\n"]))
@example(["1", "-0"], ",")
@example(["0.1", "1e23", "2.2250738585072011e-308"], "\n")
def test_every_number_reads_as_python_reads_it(path, texts, separator):
    expected = [float(text) for text in texts]
    if any(
        math.isinf(value) and "inf" not in text for value, text in zip(expected, texts, strict=True)
    ):
        return
    values = read(path, separator.join(texts).encode() + b"\n").ravel()
    assert values.tobytes() == np.array(expected).tobytes()
