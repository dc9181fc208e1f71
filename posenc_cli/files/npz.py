"""NumPy's ``.npz``: an uncompressed zip of the arrays and of the request, ``metadata.npy``."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from posenc_cli.files import npy

if TYPE_CHECKING:
    from types import TracebackType
    from zipfile import ZipInfo

    from posenc_cli.files.matrix import ByteSink, Matrix

_METADATA = "metadata.npy"


def check(matrix: Matrix) -> None:
    """Refuse what an ``.npz`` cannot hold; raises as ``npy.check`` does."""
    for each in matrix.arrays:
        npy.check(each, "npz")


def size(matrix: Matrix) -> int:
    """The exact size of the file in bytes."""
    from zipfile import ZIP64_LIMIT

    members, directory = 0, 0
    contents = [(_array(each), npy.size(each)) for each in matrix.arrays]
    for name, length in (*contents, (_METADATA, len(_metadata(matrix)))):
        # What 32 bits cannot hold, both lengths or the offset, the directory repeats in 64.
        wide = 16 * (length > ZIP64_LIMIT) + 8 * (members > ZIP64_LIMIT)
        directory += 46 + len(name) + (4 + wide if wide else 0)
        members += 30 + len(name) + 20 + length + 24  # header, its 64-bit lengths, descriptor
    return members + directory + (56 + 20 if members > ZIP64_LIMIT else 0) + 22


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write ``matrix`` and its metadata; the same request gives the same bytes, and no seek."""
    from zipfile import ZipFile

    sink = _Sink(stream)
    with ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        for each in matrix.arrays:
            with archive.open(_member(_array(each)), "w", force_zip64=True) as member, sink:
                npy.write(member, each)
        with archive.open(_member(_METADATA), "w", force_zip64=True) as member, sink:
            member.write(_metadata(matrix))


def _array(matrix: Matrix) -> str:
    return f"{matrix.name}.npy"


def _member(name: str) -> ZipInfo:
    from zipfile import ZipInfo

    member = ZipInfo(name)  # dated 1980, the epoch of zip, so that the bytes do not tell the time
    member.create_system = 3
    member.external_attr = 0o644 << 16
    return member


def _metadata(matrix: Matrix) -> bytes:
    """The metadata as JSON in a 0-d array of text, which ``np.load`` reads without pickle."""
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, np.array(json.dumps(dict(matrix.metadata))).astype("<U"), allow_pickle=False)
    return stream.getvalue()


class _Sink:
    """A stream that cannot seek, even where the real one can, so that both get the same bytes.

    ZipFile finishes the archive whatever happens. After an exception inside ``with sink`` nothing
    more is written: a pipe must not end in a directory that vouches for half an array.
    """

    def __init__(self, stream: ByteSink) -> None:
        self._stream = stream
        self._abandoned = False

    def write(self, data: bytes | memoryview, /) -> int:
        if not self._abandoned:
            self._stream.write(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Nothing is held back."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._abandoned = kind is not None
