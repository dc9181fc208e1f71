"""Commands on a disk that is full: every kind of file keeps its old content."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import tiny_disk

OUTPUTS = {
    "npy": "generate -s rope -l 100",
    "csv": "generate -s rope -l 100",
    "npz": "generate -s rope -l 100",
    "safetensors": "generate -s rope -l 100",
    "png": "heatmap -s rope -l 16",
    "svg": "heatmap -s rope -l 16",
    "html": "heatmap -s rope -l 16",
    "xml": "rope-check -s rope -l 16 --format junit",
}
"""A command for each kind of file."""


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that holds an old file of each kind, and no room for another."""
    with tiny_disk(tmp_path / "disk") as folder:
        for suffix in OUTPUTS:
            (folder / f"old.{suffix}").write_bytes(b"old")
        with (folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))
        yield folder


@pytest.mark.long
@pytest.mark.sweep(8)
@pytest.mark.parametrize("suffix", OUTPUTS)
def test_a_full_disk_keeps_the_old_file_of_every_kind(suffix: str, full_disk: Path, call) -> None:
    before = sorted(path.name for path in full_disk.iterdir())
    target = full_disk / f"old.{suffix}"
    status, out, err = call(*OUTPUTS[suffix].split(), "--out", str(target))
    assert (status, out) == (3, "")
    assert err.startswith("posenc: error: ")
    assert str(target) in err
    assert len(err.splitlines()) <= 2
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in full_disk.iterdir()) == before
