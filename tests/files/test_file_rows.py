"""The rows of a matrix in a file: the numbers of the whole, in the memory of a few."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from posenc_cli.errors import InvalidInput
from posenc_cli.files import source
from posenc_cli.files.reading import FileStack, read_array
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import ran_code

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

TABLE = np.random.default_rng(5).standard_normal((300, 7))
ROWS = [
    slice(0, 300),
    slice(13, 40),
    np.array([299, 0, 0, 7]),
    np.arange(0, 300, 2),
    np.array([], np.int64),
]


def saved(folder, kind):
    path = folder / f"table.{kind.split('-')[0]}"
    if kind == "npy":
        np.save(path, TABLE.astype(np.float32))
    elif kind == "npy-integers":
        np.save(path, (1000 * TABLE).astype(np.int16))
    elif kind == "npy-foreign":
        np.save(path, np.asfortranarray(TABLE.astype(">f8")))
    elif kind == "npy-leading":
        np.save(path, TABLE[None, None].astype(np.float16))
    elif kind == "safetensors-bfloat16":
        save_file({"encoding": TABLE.astype(ml_dtypes.bfloat16)}, path)
    elif kind == "npz-member":
        np.savez_compressed(path, cos=TABLE, sin=-TABLE)
        return f"{path}:sin"
    else:
        np.savetxt(path, TABLE, delimiter=",")
    return str(path)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "npy",
        "npy-integers",
        "npy-foreign",
        "npy-leading",
        "safetensors-bfloat16",
        "npz-member",
        "csv",
    ],
)
def test_rows_are_those_of_the_whole_array(kind, mapped, tmp_path, monkeypatch):
    if mapped:
        monkeypatch.setattr(source, "MAPPED_FROM", 1)
    path = saved(tmp_path, kind)
    whole = read_array(path)
    rows = FileStack.read(path).matrix
    matrix = whole.values.reshape(300, 7)
    assert (rows.shape, rows.dtype, rows.path) == ((300, 7), whole.dtype, path)
    kept = [rows[some] for some in ROWS]
    for some, piece in zip(ROWS, kept, strict=True):
        assert piece.dtype == matrix.dtype
        assert np.array_equal(piece, matrix[some])


@pytest.mark.parametrize(
    "array", [np.zeros(5), np.zeros((2, 3, 4)), np.zeros((2, 3), np.complex64)]
)
def test_what_is_no_matrix_of_real_numbers_is_refused(array, tmp_path):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InvalidInput, match=r"a\.npy.* must be a matrix of real numbers, not "):
        _ = FileStack.read(tmp_path / "a.npy").matrix


@pytest.mark.slow
@pytest.mark.skipif(not HAS_HIGH_WATER, reason="needs /proc")
@pytest.mark.parametrize("order", ["C", "F"])
def test_pages_of_a_mapped_file_are_let_go(order, tmp_path):
    path = tmp_path / "large.npy"
    np.save(path, np.ones((1 << 20, 16), np.float64, order=order))  # 128 MiB
    code = HIGH_WATER + (
        "import numpy as np\n"
        "from posenc_cli.files.reading import FileStack\n"
        f"rows = FileStack.read({str(path)!r}).matrix\n"
        "rows[:1]\n"
        "before = high_water()\n"
        "total = sum(rows[i : i + 4096].sum() for i in range(0, 1 << 20, 4096))\n"
        "total += rows[np.arange(0, 1 << 20, 512)].sum()\n"
        "print(int(total) == (1 << 24) + 2048 * 16, high_water() - before)\n"
    )
    right, grown = ran_code(code).stdout.split()
    assert right == "True"
    assert int(grown) < 48 << 20  # the kernel maps up to 2 MiB around a page, in each column
