"""Files made to break a reader: each is refused in one line, quickly, and runs nothing."""

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from functools import cache

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import read_array
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import ran_code

TOUCHED = "touched-by-a-pickle"


class Touch:
    def __reduce__(self):
        return (os.mkdir, (TOUCHED,))


def npy(header: str | bytes, data: bytes = b"", *, version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    width = "<H" if version == (1, 0) else "<I"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(text)) + text + data


def described(
    shape: str, descr: str = "'<f4'", order: str = "False", data: bytes = b"\0" * 16
) -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n", data)


def saved(array: np.ndarray, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def archive(*members: tuple[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as file:
        for name, content in members:
            file.writestr(name, content)
    return stream.getvalue()


def tensors(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def one_tensor(dtype: str, shape: list[int]) -> bytes:
    """A file of one tensor of four bytes."""
    return tensors({"a": tensor(dtype, shape, 0, 4)}, b"\0" * 4)


def duplicated() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return archive(("encoding.npy", saved(np.eye(2))), ("encoding.npy", saved(np.eye(3))))


def encrypted() -> bytes:
    content = bytearray(archive(("encoding.npy", saved(np.eye(2)))))
    content[6] |= 1  # the flags of the local header
    content[content.index(b"PK\1\2") + 8] |= 1
    return bytes(content)


def corrupted() -> bytes:
    content = bytearray(archive(("encoding.npy", saved(np.eye(2)))))
    content[content.index(b"PK\1\2") - 1] ^= 1  # the last byte of the last value
    return bytes(content)


def understated_bomb() -> bytes:
    """A bomb that claims to be barely compressed: its compressed size reaches beyond the file."""
    content = bytearray(bomb())
    entry = content.index(b"PK\1\2")
    content[entry + 20 : entry + 24] = struct.pack("<I", 150 << 20)
    return bytes(content)


@cache
def bomb() -> bytes:
    zeros = described(f"({160 << 20},)", "'|u1'", data=b"")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = b"\0" * (1 << 20)
    packed = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    packed += 160 * (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH))
    packed += packer.flush()
    checksum = zlib.crc32(zeros)
    for _ in range(160):
        checksum = zlib.crc32(block, checksum)
    name = b"encoding.npy"
    fields = struct.pack(
        "<HHHHIIIHH", 20, 0, 8, 0, checksum, len(packed), len(zeros) + (160 << 20), len(name), 0
    )
    # The local header has the date's two bytes as well, left out above: both are zero.
    fields = fields[:8] + b"\0\0" + fields[8:]
    local = b"PK\3\4" + fields + name
    central = b"PK\1\2\x14\0" + fields + b"\0" * 14 + name
    at = len(local) + len(packed)
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), at, 0)
    return local + packed + central + end


def crowded() -> bytes:
    """A table of contents of half a million names, each repeating one member."""
    name = b"000000"
    count = 500_000
    entry = b"PK\1\2" + b"\0" * 24 + struct.pack("<H", len(name)) + b"\0" * 16
    central = b"".join(entry + b"%06d" % index for index in range(count))
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, len(central), 0, 0)
    return b"PK\3\4" + central + end


# A file's name, its bytes (or, where they take a while, what makes them), and words of the message.
HOSTILE = {
    # .npy
    "empty": ("x.npy", b"", "is empty: it holds no bytes"),
    "one byte": ("x.npy", b"\x93", "truncated within its header"),
    "garbage": ("x.npy", b"\xde\xad\xbe\xef" * 99, "does not start as one does"),
    "text as npy": ("x.npy", b"1,2\n", "not a .npy array"),
    "pickled objects": (
        "x.npy",
        saved(np.array([Touch()], dtype=object), allow_pickle=True),
        "holds Python objects (dtype '|O')",
    ),
    "bare pickle": ("x.npy", pickle.dumps(Touch()), "is a pickle"),
    "pickle of another suffix": ("x.pkl", pickle.dumps(Touch()), "is a pickle"),
    "10^15 elements": ("x.npy", described("(1000000000000000,)"), "is truncated: its header"),
    "10^18 elements squared": ("x.npy", described(f"({9 * 10**18}, {9 * 10**18})"), "trunc"),
    "9k parentheses": ("x.npy", described("(" * 9000 + ")" * 9000), "malformed header"),
    "9k minus signs": ("x.npy", described("(" + "-" * 9000 + "1,)"), "malformed header"),
    "9k additions": ("x.npy", described("(" + "1+" * 9000 + "1,)"), "malformed header"),
    "9k lengths": ("x.npy", described("(" + "1," * 9000 + ")"), "9000 axes"),
    "40 axes": ("x.npy", described("(" + "1," * 40 + ")"), "40 axes"),
    "digits, then no end": ("x.npy", described("(" + "1" * 30000), "malformed header"),
    "5000 digits": ("x.npy", described("(" + "1" * 5000 + ",)"), "more than 19 digits"),
    "negative length": ("x.npy", described("(-1, -4)"), "negative length"),
    "boolean length": ("x.npy", described("(True, 4)"), "malformed header"),
    "float length": ("x.npy", described("(1.0, 4)"), "malformed header"),
    "shape without parentheses": ("x.npy", described("4"), "malformed header"),
    "shape as text": ("x.npy", described("'(4,)'"), "malformed header"),
    "dtype as a truth": ("x.npy", described("(4,)", "True"), "malformed header"),
    "dtype as a shape": ("x.npy", described("(4,)", "(4,)"), "malformed header"),
    "order as a number": ("x.npy", described("(4,)", order="0"), "malformed header"),
    "order as text": ("x.npy", described("(4,)", order="'x'"), "malformed header"),
    "call in the header": ("x.npy", described(f"(os.mkdir('{TOUCHED}'),)"), "malformed header"),
    "no shape": ("x.npy", npy("{'descr': '<f4', 'fortran_order': False}"), "malformed header"),
    "two shapes": ("x.npy", described("(4,), 'shape': (4,)"), "malformed header"),
    "unknown key": ("x.npy", described("(4,), 'x': (4,)"), "malformed header"),
    "header of bytes": ("x.npy", npy(b"\xff\0\xfe" * 40), "malformed header"),
    "version 9": ("x.npy", npy("{}", version=(9, 0)), "unknown version 9.0"),
    "version 1.7": ("x.npy", npy("{}", version=(1, 7)), "unknown version 1.7"),
    "header of 4 GB": ("x.npy", b"\x93NUMPY\2\0\xff\xff\xff\xff{", "claims a header of 4294967295"),
    "header cut off": ("x.npy", saved(np.eye(4))[:40], "truncated within its header"),
    "header length cut off": ("x.npy", saved(np.eye(4))[:9], "truncated within its header"),
    "values cut off": ("x.npy", saved(np.eye(4))[:-1], "promises 128 bytes of values, 127 are"),
    "trailing bytes": ("x.npy", saved(np.eye(4)) + b"ab", "has 2 bytes after the end"),
    "structured": ("x.npy", saved(np.zeros(2, "f4,i4")), "structured array"),
    "strings": ("x.npy", saved(np.array(["a"])), "holds strings (dtype '<U1')"),
    "byte strings": ("x.npy", saved(np.array([b"a"])), "holds byte strings (dtype '|S1')"),
    "dates": ("x.npy", saved(np.array(["2020"], "M8[D]")), "holds dates (dtype '<M8[D]')"),
    "time spans": ("x.npy", saved(np.zeros(2, "m8[s]")), "holds time spans"),
    "extended precision": (
        "x.npy",
        described("(1,)", "'<f16'"),
        "extended-precision floats (dtype '<f16'), a format that posenc does not read",
    ),
    "extended complex": (
        "x.npy",
        described("(1,)", "'<c32'"),
        "extended-precision complex numbers (dtype '<c32'), a format that posenc does not read",
    ),
    "raw bytes": ("x.npy", described("(2,)", "'<V2'"), "raw bytes (dtype '<V2')"),
    "several dtypes": ("x.npy", described("(2,)", "'<f4,<f4'"), "unknown kind of values"),
    "unheard-of dtype": ("x.npy", described("(2,)", "'\\u2028'"), "malformed header"),
    "odd dtype": ("x.npy", described("(2,)", "'zz'"), "unknown kind of values (dtype 'zz')"),
    "no values": ("x.npy", saved(np.zeros((0, 64))), "is empty: its shape is (0, 64)"),
    "no values of many": ("x.npy", described(f"(0, {10**18})", data=b""), "is empty"),
    "one number": ("x.npy", saved(np.array(3.0)), "single number (shape ())"),
    # .npz
    "npz named npy": ("x.npy", archive(("a.npy", saved(np.eye(2)))), "is a .npz file by its"),
    "npy named npz": ("x.npz", saved(np.eye(2)), "is a .npy file by its content, not .npz"),
    "empty npz": ("x.npz", b"", "not a sound .npz archive"),
    "archive of nothing": ("x.npz", archive(), "the archive has no members"),
    "garbage npz": ("x.npz", b"\xde\xad\xbe\xef" * 99, "not a sound .npz archive"),
    "npz cut off": ("x.npz", archive(("a.npy", saved(np.eye(9))))[:-30], "not a sound .npz"),
    "bomb": ("x.npz", bomb, "67108864 bytes at most 200 times is read"),
    "understated bomb": ("x.npz", understated_bomb, "67108864 bytes at most 200 times is read"),
    "crowded archive": ("x.npz", crowded, "a table of contents of more than 1 MiB"),
    "encrypted": ("x.npz", encrypted(), "member 'encoding' is encrypted"),
    "duplicated": ("x.npz", duplicated(), "holds 'encoding' more than once"),
    "bad checksum": ("x.npz", corrupted(), "member 'encoding' is damaged"),
    "lzma": (
        "x.npz",
        archive(("a.npy", saved(np.eye(2))), how=zipfile.ZIP_LZMA),
        "compressed in a way that .npz does not use",
    ),
    "member claims more": ("x.npz", archive(("a.npy", described(f"({10**15},)"))), "is truncated"),
    "member with more": ("x.npz", archive(("a.npy", saved(np.eye(2)) + b"x")), "1 bytes after"),
    "objects in npz": (
        "x.npz",
        archive(("a.npy", saved(np.array([Touch()], dtype=object), allow_pickle=True))),
        "member 'a' holds Python objects",
    ),
    "a member without a name": ("x.npz", archive(("a", b"")).replace(b"a", b"\0"), "member '' is"),
    "no array in npz": ("x.npz", archive(("a.txt", b"1")), "member 'a.txt' is not a .npy array"),
    "several arrays": (
        "x.npz",
        archive(("cos.npy", saved(np.eye(2))), ("sin.npy", saved(np.eye(2)))),
        "holds several arrays: 'cos', 'sin'",
    ),
    "many arrays": (
        "x.npz",
        archive(*((f"a{index}.npy", b"") for index in range(1000))),
        "'a7' and 992 more",
    ),
    "names on two lines": (
        "x.npz",
        archive(("a\nb.npy", saved(np.eye(2))), ("c\x1b[31m.npy", saved(np.eye(2)))),
        r"'a\nb', 'c\x1b[31m'",
    ),
    # .csv
    "empty csv": ("x.csv", b"", "holds no rows of numbers"),
    "blank csv": ("x.csv", b"\n\n\r\n", "holds no rows of numbers"),
    "only comments": ("x.csv", b"# cos\n# sin\n", "holds no rows of numbers"),
    "only a header": ("x.csv", b"position,d0,d1\n", "holds no rows of numbers"),
    "words under an upper-case suffix": ("x.CSV", b"a,b\n", "'a' is not a number"),
    "ragged": ("x.csv", b"1,2\n3,4\n5,6,7\n", "line 3: 3 fields, but the first line has 2"),
    "ragged by a comma": ("x.csv", b"1,2\n3,4,\n", "line 2: 3 fields"),
    "ragged by one": ("x.csv", b"1,2\n3\n4,5,6\n", "line 2: 1 field, but the first line has"),
    "a word": ("x.csv", b"1,2\n3,four\n", "line 2, column 2: 'four' is not a number"),
    "another header": ("x.csv", b"pos,a,b\n1,2,3\n", "line 1, column 1: 'pos' is not a number"),
    "a header's middle": ("x.csv", b"position,d0,d2\n1,2,3\n", "'position' is not a number"),
    "an empty field": ("x.csv", b"1,2\n3,\n", "line 2, column 2: the field is empty"),
    "a blank line": ("x.csv", b"1,2\n\n3,4\n", "line 2: a blank line before the last row"),
    "a leading blank line": ("x.csv", b"\n3,4\n", "line 1: a blank line"),
    "UTF-16": ("x.csv", "1,2\n".encode("utf-16"), "x.csv' is UTF-16 text"),
    "UTF-16 big-endian": ("x.csv", b"\xfe\xff" + "1,2".encode("utf-16-be"), "x.csv' is UTF-16"),
    "UTF-16 without a mark": ("x.csv", "1,2\n".encode("utf-16-le"), "holds NUL bytes"),
    "NUL": ("x.csv", b"1,2\n3,\x004\n", "holds NUL bytes"),
    "Latin-1": ("x.csv", b"1,2\n3,\xe9\n", r"line 2, column 2: '\xe9' is not a number"),
    "digits of another script": ("x.csv", "١,٢\n".encode(), "is not a number"),
    "too large": ("x.csv", b"1,2\n1e400,1\n", "line 2, column 1: '1e400' does not fit float64"),
    "too large, negative": ("x.csv", b"1,-1e999\n", "line 1, column 2: '-1e999' does not fit"),
    "too large beside inf": ("x.csv", b"inf,1e400\n", "column 2: '1e400' does not fit"),
    "hexadecimal": ("x.csv", b"0x10,1\n", "'0x10' is not a number"),
    "underscore": ("x.csv", b"1_000,1\n", "'1_000' is not a number"),
    "true": ("x.csv", b"1,true\n", "'true' is not a number"),
    "quoted": ("x.csv", b'1,"2"\n', "is not a number"),
    "bracket": ("x.csv", b"1,[2]\n", "'[2]' is not a number"),
    "two numbers in a field": ("x.csv", b"1,2\n1 2,3\n", "line 2, column 1: '1 2' is not"),
    "complex": ("x.csv", b"(1+2j),1\n", "'(1+2j)' is not a number"),
    "semicolons": ("x.csv", b"1,5;2,5\n", "line 1: the fields are separated by semicolons"),
    "comma after spaces": ("x.csv", b"1 2\n3,4\n", "line 2: 1 field, but the first line has"),
    "comma within spaces": ("x.csv", b"1 2\n3, 4\n", "line 2, column 1: '3,' is not a number"),
    "late word": ("x.csv", b"1,2\n" * 200_000 + b"1,x\n", "line 200001, column 2: 'x' is not"),
    "late ragged line": ("x.csv", b"1,2\n" * 200_000 + b"1\n", "line 200001: 1 field"),
    "late blank line": ("x.csv", b"1,2\n" * 200_000 + b"\n1,2\n", "line 200001: a blank line"),
    "blank line at the end of a block": (
        "x.csv",
        b"1111,2\n" + b"1,2\n" * 65534 + b"\n" + b"1,2\n" * 9,
        "line 65536: a blank line",
    ),
    "5000 digits in a row": ("x.csv", b"1" * 5000, "a field of 5000 characters"),
    "ten million digits": ("x.csv", b"1" * 10_000_000, "a field of over 262144 characters"),
    "ten million NULs": ("x.csv", b"\0" * 10_000_000, "holds NUL bytes"),
    "a word of a hundred": ("x.csv", b"z" * 100, "'" + "z" * 40 + "' is not a number"),
    "line ends within a word": ("x.csv", b"1,2\x85\n", r"'2\x85' is not a number"),
    "npy named csv": ("x.csv", saved(np.eye(2)), "is a .npy file by its content"),
    "npz named txt": ("x.txt", archive(("a.npy", b"")), "is a .npz file by its content"),
    # .safetensors
    "empty safetensors": ("x.safetensors", b"", "is empty: it holds no bytes"),
    "7 bytes": ("x.safetensors", b"\1\0\0\0\0\0\0", "truncated within its header"),
    "header of 2^63": ("x.safetensors", tensors({}, length=2**63), "claims a header of 92233720"),
    "header of 9 MB": ("x.safetensors", tensors({}, length=9 << 20), "claims a header of 9437184"),
    "header not there": ("x.safetensors", tensors({}, length=900), "truncated within its header"),
    "no JSON": ("x.safetensors", tensors(b"{nope}"), "malformed header"),
    "JSON of 200k lists": ("x.safetensors", tensors(b"[" * 200_000), "malformed header"),
    "JSON of 200k objects": ("x.safetensors", tensors(b'{"a":' * 200_000), "malformed header"),
    "JSON of 5000 digits": (
        "x.safetensors",
        tensors(b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,4]}}' % (b"1" * 5000)),
        "malformed header",
    ),
    "not UTF-8": ("x.safetensors", tensors(b'{"\xff":1}'), "malformed header"),
    "a list": ("x.safetensors", tensors([]), "malformed header"),
    "a tensor that is a number": ("x.safetensors", tensors({"a": 1}), "malformed header"),
    "a tensor without dtype": ("x.safetensors", tensors({"a": {"shape": [1]}}), "malformed header"),
    "boolean in a shape": ("x.safetensors", one_tensor("F32", [True]), "malformed header"),
    "no tensors": ("x.safetensors", tensors({}), "it holds no tensors"),
    "only metadata": ("x.safetensors", tensors({"__metadata__": {"a": "b"}}), "holds no tensors"),
    "unknown dtype": ("x.safetensors", one_tensor("Q7", [1]), "tensors"),
    "float8": ("x.safetensors", one_tensor("F8_E4M3", [4]), "tensor 'a' is 'F8_E4M3'"),
    "overlap": (
        "x.safetensors",
        tensors({"a": tensor("F32", [1], 0, 4), "b": tensor("F32", [1], 0, 4)}, b"\0" * 4),
        "overlap, leave gaps, or do not fit",
    ),
    "gap": ("x.safetensors", tensors({"a": tensor("F32", [1], 4, 8)}, b"\0" * 8), "leave gaps"),
    "backwards": ("x.safetensors", tensors({"a": tensor("F32", [1], 4, 0)}, b"\0" * 4), "fit"),
    "more data": ("x.safetensors", tensors({"a": tensor("F32", [1], 0, 4)}, b"\0" * 5), "fit"),
    "less data": (
        "x.safetensors",
        tensors({"a": tensor("F32", [9], 0, 36)}, b"\0" * 4),
        "is truncated: its header promises 36 bytes of tensors, 4 are there",
    ),
    "shape that overflows": ("x.safetensors", one_tensor("F32", [2**63, 4]), "do not fit its data"),
    "no values of 2^63": (
        "x.safetensors",
        tensors({"a": tensor("F32", [0, 2**62], 0, 0)}),
        "empty",
    ),
    "a scalar tensor": ("x.safetensors", one_tensor("F32", []), "single number"),
    # other names
    "unknown suffix": ("x.bin", b"\xde\xad\xbe\xef", "unsupported format; posenc reads .npy, .npz"),
    "no suffix and empty": ("x", b"", "is empty: it holds no bytes"),
    "prose": ("README.md", b"Read me.\n", "has an unsupported format"),
}


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file_is_refused_in_one_line(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, content, words = HOSTILE[case]
    path = tmp_path / name
    path.write_bytes(content() if callable(content) else content)
    with pytest.raises(InvalidInput) as caught:
        read_array(path)
    message = caught.value.message
    assert words in message
    assert f"'{path}'" in message
    assert message.isprintable(), "one line, no escape codes"
    assert not (tmp_path / TOUCHED).exists()


MEASURE = f"""
import os, sys, time
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import read_array
{HIGH_WATER}
def measure(path):
    before, start = high_water(), time.process_time()
    try:
        read_array(path)
    except InvalidInput:
        pass
    grown = high_water() - before
    print(os.path.dirname(path), time.process_time() - start, grown, sep="\\t")
for path in sys.argv[1:]:
    measure(path)
"""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_HIGH_WATER, reason="needs /proc")
def test_hostile_files_cost_neither_time_nor_memory(tmp_path):
    paths = []
    for case, (name, content, _) in HOSTILE.items():
        folder = tmp_path / case.replace("/", "-")
        folder.mkdir()
        (folder / name).write_bytes(content() if callable(content) else content)
        paths.append(str(folder / name))
    rows = [line.split("\t") for line in ran_code(MEASURE, *paths).stdout.splitlines()]
    assert len(rows) == len(HOSTILE)
    assert sum(int(grown) for _, _, grown in rows) < 200 << 20
    # CPU seconds, of which a case takes a tenth, or a few under coverage on a machine with other
    # work; what is quadratic or expands takes minutes.
    assert [case for case, seconds, _ in rows if float(seconds) > 10] == []


@pytest.mark.long
def test_a_crowded_archive_is_told_the_limit_in_bytes_alone(tmp_path):
    (tmp_path / "x.npz").write_bytes(crowded())
    with pytest.raises(InvalidInput, match="more than 1 MiB, the most that is read$"):
        read_array(tmp_path / "x.npz")


def test_raw_bytes_of_two_hint_at_bfloat16(tmp_path):
    (tmp_path / "x.npy").write_bytes(described("(2,)", "'<V2'"))
    with pytest.raises(InvalidInput) as caught:
        read_array(tmp_path / "x.npy")
    assert caught.value.hint.startswith("NumPy saves bfloat16 as raw bytes")


@pytest.mark.parametrize("case", ["less data", "backwards", "shape that overflows"])
def test_tensor_stays_within_the_file_without_the_library(case, tmp_path, monkeypatch):
    monkeypatch.setattr("posenc_cli.files.safetensors._check", lambda *_: None)
    name, content, _ = HOSTILE[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match="has offsets that do not fit its shape"):
        read_array(tmp_path / name)


def test_sparse_file_whose_size_fits_its_claim_is_not_widened_in_memory(tmp_path):
    path = tmp_path / "sparse.npy"
    with path.open("wb") as file:
        file.write(described("(1000000000,)", "'|i1'", data=b""))
        file.truncate(file.tell() + 10**9)
    with pytest.raises(InvalidInput, match="needs 8000000000 bytes of memory"):
        read_array(path)
