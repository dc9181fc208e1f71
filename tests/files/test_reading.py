"""Reading arrays: formats and their recognition, paths, streams, members, widening, mapping."""

import io
import mmap
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.files import npy
from posenc_cli.files.reading import read_array
from posenc_cli.files.source import MAPPED_FROM
from tests.memory import peak
from tests.processes import ran_code

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def same_bits(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


def base(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("order", "CF")
def test_floats_are_read_as_stored_in_native_c_order(tmp_path, dtype, byte_order, order):
    array = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(dtype)
    array.flat[:3] = np.nan, -0.0, -np.inf
    np.save(tmp_path / "x.npy", array.astype(byte_order + dtype, order=order))
    loaded = read_array(tmp_path / "x.npy")
    same_bits(loaded.values, array)
    assert loaded.dtype == array.dtype.name
    assert loaded.path == str(tmp_path / "x.npy")
    assert loaded.values.flags.c_contiguous
    assert loaded.values.flags.aligned
    assert loaded.values.dtype.isnative


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", ">u8", "?"])
def test_integers_and_booleans_widen_to_float64(tmp_path, dtype):
    array = np.array([[0, 1, 100]]).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    loaded = read_array(tmp_path / "x.npy")
    same_bits(loaded.values, np.array([[0, 1, 1 if dtype == "?" else 100]], np.float64))
    assert loaded.dtype == array.dtype.name


def test_boolean_bytes_beyond_one_are_one(tmp_path):
    np.save(tmp_path / "x.npy", np.array([True, False, True]))
    content = bytearray((tmp_path / "x.npy").read_bytes())
    content[-1] = 2
    (tmp_path / "x.npy").write_bytes(content)
    assert read_array(tmp_path / "x.npy").values.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2**53 + 1, "i8"), (-(2**53) - 1, "i8"), (-(2**63), "i8"), (2**64 - 1, "u8")],
)
def test_integers_that_float64_may_miss_are_refused(tmp_path, value, dtype):
    np.save(tmp_path / "x.npy", np.array([5, value], dtype))
    with pytest.raises(InvalidInput, match=f"holds the integer {value}"):
        read_array(tmp_path / "x.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_npy_are_read(tmp_path, version):
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, TABLE, version=version)
    same_bits(read_array(tmp_path / "x.npy").values, TABLE)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        '{"shape":(2,3),"fortran_order":False,"descr":"<f4"}',
        " {'shape' : ( 2 ,\t3 , ) , 'descr' : 'float32' , 'fortran_order' : False } \n",
    ],
)
def test_headers_of_other_writers_are_read(tmp_path, header):
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    prefix = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little")
    (tmp_path / "x.npy").write_bytes(prefix + header.encode() + values.tobytes())
    same_bits(read_array(tmp_path / "x.npy").values, values)


def test_large_npy_is_mapped_and_takes_no_memory(tmp_path):
    path = tmp_path / "x.npy"
    shape = (1 << 25, 64)  # 8 GiB that take no disk either
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + (1 << 33))
    read = []
    assert peak(lambda: read.append(read_array(path).values)) < 1 << 20
    (values,) = read
    assert values.shape == shape
    assert values[-1, -1] == 0
    assert not values.flags.writeable
    assert isinstance(base(values), mmap.mmap)


def test_small_npy_is_read_so_that_its_file_may_change(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, TABLE)
    values = read_array(path).values
    path.write_bytes(b"")
    same_bits(values, TABLE)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_gives_encoding_among_others(tmp_path, save):
    save(tmp_path / "x.npz", cos=TABLE + 1, encoding=TABLE, metadata=np.array('{"a": 1}'))
    loaded = read_array(tmp_path / "x.npz")
    same_bits(loaded.values, TABLE)
    assert loaded.dtype == "float32"


def test_npz_gives_its_only_array_of_numbers_and_of_several_hints_at_members(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, cos=TABLE, metadata=np.array("text"), step=np.array(3))
    same_bits(read_array(path).values, TABLE)
    np.savez(path, cos=TABLE, sin=TABLE)
    with pytest.raises(InvalidInput) as caught:
        read_array(path)
    assert caught.value.hint == f"name one, as in '{path}:cos'"


def test_npz_in_fortran_order_and_big_endian_is_read(tmp_path):
    np.savez(tmp_path / "x.npz", TABLE.astype(">f4", order="F"))
    same_bits(read_array(tmp_path / "x.npz").values, TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("constant", [False, True])
def test_a_large_deflated_table_and_constants_below_the_bound_are_read(constant, tmp_path):
    distances = np.abs(np.arange(1500)[:, None] - np.arange(1500)).astype(np.float32)
    slopes = -(2.0 ** -np.arange(1, 9, dtype=np.float32))
    array = slopes[:, None, None] * distances
    assert array.nbytes > 64 << 20, "beyond what is read at any ratio"
    array = np.zeros(((64 << 20) - 128) // 8) if constant else array
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        stream = io.BytesIO()
        np.save(stream, array)
        file.writestr("encoding.npy", stream.getvalue())
    assert (read_array(tmp_path / "x.npz").values == array).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_tensor_of_floats_is_read_as_stored(tmp_path, dtype):
    array = (TABLE - 1).astype(dtype)
    save_file({"encoding": array, "other": TABLE}, tmp_path / "x.safetensors")
    loaded = read_array(tmp_path / "x.safetensors")
    same_bits(loaded.values, array)
    assert loaded.dtype == array.dtype.name
    assert loaded.values.flags.aligned


@pytest.mark.parametrize("regular", [True, False])
def test_every_bfloat16_widens_to_float32(tmp_path, regular):
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    path = tmp_path / "x.safetensors"
    header = b'{"w":{"dtype":"BF16","shape":[256,256],"data_offsets":[0,131072]}}'
    content = len(header).to_bytes(8, "little") + header + bits.tobytes()
    if regular:
        path.write_bytes(content)
        loaded = read_array(path)
    else:
        loaded = through_fifo(path, content)
    assert loaded.dtype == "bfloat16"
    same_bits(loaded.values, bits.view(ml_dtypes.bfloat16).astype(np.float32))


def written(path, kind, values=TABLE):
    with path.open("wb") as file:
        if kind == ".npy":
            np.save(file, values)
        elif kind == ".npz":
            np.savez(file, encoding=values)
        elif kind == ".csv":
            np.savetxt(file, np.atleast_2d(values), delimiter=",", fmt="%.17g")
        else:
            file.write(save({"encoding": np.ascontiguousarray(values)}))


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".safetensors"])
@pytest.mark.parametrize("name", ["lower{}", "UPPER{}", "a.b{}", "table", "table.bin"])
def test_format_is_told_by_the_suffix_else_by_the_content(tmp_path, kind, name):
    suffix = kind.upper() if name.isupper() else kind
    path = tmp_path / name.format(suffix)
    written(path, kind)
    assert (read_array(path).values == TABLE).all()


@pytest.mark.parametrize("kind", [".npz", ".safetensors"])
def test_member_is_named_after_a_colon(tmp_path, kind):
    path = tmp_path / f"x{kind}"
    arrays = {"a": TABLE, "layers.0:inv freq": TABLE + 1}
    np.savez(path, **arrays) if kind == ".npz" else save_file(arrays, path)
    asked = f"{path}:layers.0:inv freq"
    loaded = read_array(asked)
    same_bits(loaded.values, TABLE + 1)
    assert loaded.path == asked
    with pytest.raises(InvalidInput, match=r"x\.\w+' holds no 'c', only 'a', 'layers.0:inv freq'$"):
        read_array(f"{path}:c")


def test_file_of_the_literal_name_goes_before_a_member(tmp_path):
    np.savez(tmp_path / "x.npz", a=TABLE)
    np.save(tmp_path / "x.npz:a.npy", TABLE + 1)
    same_bits(read_array(tmp_path / "x.npz:a.npy").values, TABLE + 1)


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("x.npy:a", InvalidInput, r"single array; only \.npz and \.safetensors"),
        ("absent.npz:a", Unavailable, "^cannot read 'absent.npz:a': No such file or directory$"),
        (".", Unavailable, r"^cannot read '\.': Is a directory$"),
        ("a\0b.npy", InvalidInput, "NUL"),
        ("large.npy", InvalidInput, "is truncated"),
        ("/dev/zero", InvalidInput, "has an unsupported format"),  # by its first bytes
        # The first page of one's own memory: a read that fails after the opening.
        ("/proc/self/mem", Unavailable, "cannot read '/proc/self/mem': Input/output error"),
        ("config.json", InvalidInput, "has an unsupported format"),
    ],
)
def test_what_is_no_array_is_refused_in_one_line(path, error, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", TABLE)
    np.save("large.npy", np.zeros(MAPPED_FROM))
    os.truncate("large.npy", MAPPED_FROM * 2)
    Path("config.json").write_text("{}")
    with pytest.raises(error, match=said) as refused:
        read_array(path, max_bytes=100 if path.startswith("/proc") else None)
    assert path != "config.json" or refused.value.hint == "posenc explain reads configs"


def test_unreadable_file_is_unavailable(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, TABLE)
    path.chmod(0)
    # Root reads any file, so it becomes nobody once the reader is imported.
    as_nobody = "import os\nif os.geteuid() == 0: os.setuid(65534)\ntry:"
    done = ran_code(READ.replace("try:", as_nobody), path)
    assert done.stdout == f"cannot read '{path}': Permission denied\n"


def test_name_too_long_is_unavailable():
    with pytest.raises(Unavailable, match="File name too long"):
        read_array("a" * 300 + ".npy")


def test_path_is_shown_on_one_line(tmp_path):
    name = os.fsdecode(b"two\nlines \xff \x1b[31m.npy")
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InvalidInput) as caught:
        read_array(tmp_path / name)
    assert r"two\nlines \xff \x1b[31m.npy" in caught.value.message


def test_path_of_odd_bytes_is_read(tmp_path):
    for suffix in (".npy", ".npz", ".csv", ".safetensors"):
        path = tmp_path / (os.fsdecode(b"\xff \n\xf0\x9f\x8e\xb5") + suffix)
        written(path, suffix)
        assert (read_array(path).values == TABLE).all()
        assert (read_array(os.fsencode(path)).values == TABLE).all()


def through_fifo(path, content, **options):
    os.mkfifo(path)

    def feed():
        with path.open("wb", buffering=0) as file:
            try:
                for start in range(0, len(content), 1 << 16):
                    file.write(content[start : start + (1 << 16)])
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        return read_array(path, **options)
    finally:
        writer.join()


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".safetensors"])
def test_fifo_is_read_to_its_end(tmp_path, kind):
    written(tmp_path / f"x{kind}", kind)
    content = (tmp_path / f"x{kind}").read_bytes()
    assert (through_fifo(tmp_path / "fifo", content).values == TABLE).all()


def test_fifo_that_ends_early_or_late_is_refused(tmp_path):
    written(tmp_path / "x.npy", ".npy")
    content = (tmp_path / "x.npy").read_bytes()
    with pytest.raises(InvalidInput, match="promises 48 bytes of values, 47 are there"):
        through_fifo(tmp_path / "short", content[:-1])
    with pytest.raises(InvalidInput, match="bytes after the end"):
        through_fifo(tmp_path / "long", content + b"abc")


READ = """
import sys
from posenc_cli.errors import PosencError
from posenc_cli.files.reading import read_array
try:
    loaded = read_array(sys.argv[1], max_bytes=1000)
    print(loaded.values.shape, loaded.values.sum())
except PosencError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.sweep(15)
@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".safetensors"])
@pytest.mark.parametrize("through", ["pipe", "file"])
def test_standard_input_is_read(tmp_path, path, kind, through):
    written(tmp_path / "x", kind)
    with (tmp_path / "x").open("rb") as file:
        given = {"stdin": file} if through == "file" else {"input": file.read()}
        done = ran_code(READ, path, text=False, **given)
    assert done.stdout.startswith(b"(3, 4) 9.428571")


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".safetensors"])
def test_stream_beyond_the_bound_is_refused(tmp_path, kind):
    path = tmp_path / f"x{kind}"
    written(path, kind)
    with pytest.raises(InvalidInput, match="more than the limit of 40 "):
        through_fifo(tmp_path / f"fifo{kind}", path.read_bytes(), max_bytes=40)


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv"])
def test_values_in_memory_beyond_the_bound_are_refused(tmp_path, kind):
    path = tmp_path / f"x{kind}"
    written(path, kind)
    needed = 96 if kind == ".csv" else 48
    with pytest.raises(InvalidInput, match=f"needs {needed} bytes of memory"):
        read_array(path, max_bytes=needed - 1)
    read_array(path, max_bytes=needed)


def test_memory_that_ends_is_unavailable(tmp_path, monkeypatch):
    def exhausted(_source):
        raise MemoryError

    written(tmp_path / "x.npy", ".npy")
    monkeypatch.setitem(npy.FORMAT.__dict__, "read", exhausted)
    with pytest.raises(Unavailable, match="not enough memory"):
        read_array(tmp_path / "x.npy")


def test_file_that_shrinks_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(MAPPED_FROM))
    monkeypatch.setattr("posenc_cli.files.npy.check_size", lambda *_: os.truncate(path, 99))
    with pytest.raises(InvalidInput, match="changed while it was read"):
        read_array(path)
