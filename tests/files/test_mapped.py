"""Memory of mapped files is given back, and their values stay what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posenc_cli.files.reading import read_array
from posenc_cli.files.source import release


def _resident_file_bytes() -> int:
    fields = Path("/proc/self/status").read_text().split("RssFile:")[1].split()
    return int(fields[0]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_a_file_that_is_read_once_takes_no_memory_of_its_size(tmp_path):
    values = np.arange(12 << 20, dtype=np.float32)  # 48 MiB, mapped
    np.save(tmp_path / "a.npy", values)
    mapped = read_array(tmp_path / "a.npy").values
    before = _resident_file_bytes()
    for start in range(0, mapped.size, 1 << 18):
        part = mapped[start : start + (1 << 18)]
        assert np.array_equal(part, values[start : start + (1 << 18)])
        release(part)
    assert _resident_file_bytes() - before < 16 << 20
    assert np.array_equal(mapped, values)


def test_arrays_in_memory_and_parts_of_rows_stay_as_they_are():
    values = np.arange(12.0).reshape(3, 4)
    for part in (values, values[1:], values[:, 1:], np.asfortranarray(values)):
        kept = part.copy()
        release(part)
        assert np.array_equal(part, kept)
