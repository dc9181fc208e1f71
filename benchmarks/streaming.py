"""Measure how fast a table reaches a file in memory, relative to writing zeros there."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measuring import Goal, Measurement, Section, paired
from benchmarks.posenc_tables import DIM, Work, engine, torch_threads
from posenc_cli.backends import registry
from posenc_cli.encoding.arrays import BLOCK_VALUES
from posenc_cli.files.formats import FORMATS, save

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from benchmarks.sizes import Sizes
    from posenc_cli.encoding.engine import Engine

SHARED_MEMORY = Path("/dev/shm")
DTYPE = "float32"
GOAL = Goal("at most", 1.9)
HOW = (
    "posenc computes a float32 table of {rows} × {dim} and saves it on {place}, as `posenc "
    "generate` does. Each entry divides the time of posenc by the time to write the same number "
    "of zeros in blocks of 2^18 values. The goal is for two threads, which is the default for a "
    "table of this size. In the row “np.savetxt”, posenc computes and writes a CSV file of "
    "{text_rows} × {dim} values. The entry divides the time of `np.savetxt(…, fmt='%.9g')`, which "
    "only writes the values, by the time of posenc."
)


@dataclass(frozen=True)
class Place:
    """The folder of files, and its name in reports."""

    folder: Path
    name: str

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name


def measured(sizes: Sizes) -> Section:
    """Return binary formats relative to writing zeros, and CSV relative to NumPy's."""
    work, text = Work(sizes.rows, DTYPE), Work(sizes.text_rows, DTYPE)
    place = _place(needed=4 * work.plan().values * 4)
    try:
        found = [
            each
            for backend in registry.BUILT_IN
            for threads in sizes.threads
            for each in _binary(work, place, backend, threads=threads, sizes=sizes)
        ]
        found.append(_text(text, place, sizes))
    finally:
        shutil.rmtree(place.folder)
    how = HOW.format(rows=sizes.rows, dim=DIM, place=place.name, text_rows=sizes.text_rows)
    return Section("Streaming to a file", how, tuple(found))


def _place(needed: int) -> Place:
    memory = SHARED_MEMORY
    roomy = memory.is_dir() and os.access(memory, os.W_OK)
    if roomy and shutil.disk_usage(memory).free > needed:
        return Place(Path(tempfile.mkdtemp(dir=memory)), "tmpfs")
    return Place(Path(tempfile.mkdtemp()), "the disk of temporary files (no tmpfs with room)")


def _binary(
    work: Work, place: Place, backend: str, *, threads: int, sizes: Sizes
) -> Iterator[Measurement]:
    row = partial(
        Measurement,
        against="writing zeros",
        dtype=work.dtype,
        threads=threads,
        goal=GOAL if threads == 2 and backend != "torch" else None,
    )
    used = engine(backend, threads=threads)
    for form in ("npy", "safetensors"):
        name = f"posenc {backend} to {form}"
        if used is None:
            yield row(name, spread=None, note="not available")
            continue
        with torch_threads(threads):
            times = paired(
                {
                    "zeros": partial(_zeros, work, place.file("zeros")),
                    "posenc": partial(_saved, work, place.file(f"table.{form}"), form, used),
                },
                repetitions=sizes.repetitions,
            )
        yield row(name, spread=times.ratio("posenc", "zeros"))


def _saved(work: Work, path: Path, form: str, used: Engine) -> None:
    save(work.plan().matrix(used), str(path), format=FORMATS[form])
    path.unlink()


def _zeros(work: Work, path: Path) -> None:
    whole, rest = divmod(work.plan().values, BLOCK_VALUES // work.dim * work.dim)
    block = np.zeros(BLOCK_VALUES // work.dim * work.dim, work.plan().dtype.numpy)
    with path.open("wb", buffering=0) as stream:
        for _ in range(whole):
            stream.write(block.data)
        stream.write(block[:rest].data)
    path.unlink()


def _text(work: Work, place: Place, sizes: Sizes) -> Measurement:
    used = engine("numpy", threads=1)
    assert used is not None
    ready = work.make(used)
    times = paired(
        {
            "savetxt": partial(_savetxt, ready, place.file("numpy.csv")),
            "posenc": partial(_saved, work, place.file("table.csv"), "csv", used),
        },
        repetitions=sizes.repetitions,
    )
    return Measurement(
        "np.savetxt", "posenc numpy to csv", times.ratio("savetxt", "posenc"), work.dtype, 1
    )


def _savetxt(ready: NDArray[np.float32], path: Path) -> None:
    np.savetxt(path, ready, delimiter=",", fmt="%.9g")
    path.unlink()
