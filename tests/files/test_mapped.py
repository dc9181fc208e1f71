"""Memory of mapped files is given back, and their values stay what they are."""

from pathlib import Path

import numpy as np
import pytest

from posenc_cli.files.reading import read_array
from posenc_cli.files.source import release


def _resident_file_bytes() -> int:
    fields = Path("/proc/self/status").read_text().split("RssFile:")[1].split()
    return int(fields[0]) << 10


@pytest.mark.long
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "as threads may"])
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_a_file_that_is_read_once_takes_no_memory_of_its_size(order, tmp_path):
    values = np.arange(12 << 20, dtype=np.float32)  # 48 MiB, mapped
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": values.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, values.size, 1 << 16):  # Linux keeps each write as it came
            file.write(values[start : start + (1 << 16)].tobytes())
    mapped = read_array(tmp_path / "a.npy").values
    before = _resident_file_bytes()
    count = 1 << 16
    for pair in range(0, mapped.size, 2 * count):
        for start in (pair + count * place for place in order):
            part = mapped[start : start + count]
            assert np.array_equal(part, values[start : start + count])
            release(part)
    assert _resident_file_bytes() - before < 2 << 20
    assert np.array_equal(mapped, values)


def test_arrays_in_memory_and_parts_of_rows_stay_as_they_are():
    values = np.arange(12.0).reshape(3, 4)
    for part in (values, values[1:], values[:, 1:], np.asfortranarray(values)):
        kept = part.copy()
        release(part)
        assert np.array_equal(part, kept)
