"""NumPy's ``.npz``: an uncompressed zip of arrays; posenc adds the request, ``metadata.npy``."""

from __future__ import annotations

import errno
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files import npy
from posenc_cli.files.matrix import ByteSink, Format, Matrix
from posenc_cli.files.source import CHUNK, ArrayHeader, Source, Stored, select_member

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from zipfile import ZipFile, ZipInfo


_METADATA = "metadata.npy"

_EXPANDED_FREELY = 64 << 20
"""Members that expand to at most this many bytes are read whatever their ratio."""

_HIGHEST_RATIO = 200
"""The highest ratio of a larger member's size to its compressed size.

Deflate reaches at most 1030, for constant data; tables of encodings stay below 150.
"""


def check(matrix: Matrix) -> None:
    """Refuse a matrix that an ``.npz`` cannot hold; raises as ``npy.check`` does."""
    for array in matrix.arrays:
        npy.check(array, "npz")


def size(matrix: Matrix) -> int:
    """Return the bytes of the arrays; an archive has some hundreds more."""
    return sum(npy.size(array) for array in matrix.arrays)


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write ``matrix`` and its metadata; the same request gives the same bytes, without seeking."""
    from zipfile import ZipFile

    sink = _Sink(stream)
    with ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        for array in matrix.arrays:
            with archive.open(_entry(f"{array.name}.npy"), "w", force_zip64=True) as member, sink:
                npy.write(member, array)
        with archive.open(_entry(_METADATA), "w", force_zip64=True) as member, sink:
            member.write(_metadata(matrix))


def _entry(name: str) -> ZipInfo:
    from zipfile import ZipInfo

    entry = ZipInfo(name)  # dated 1980, the epoch of zip: the bytes do not depend on the time
    entry.create_system = 3  # Unix, whose permissions follow
    entry.external_attr = 0o644 << 16
    return entry


def _metadata(matrix: Matrix) -> bytes:
    """Return the metadata as JSON in a 0-d text array, which ``np.load`` reads without pickle."""
    import json

    import numpy as np

    stream = io.BytesIO()
    np.save(stream, np.array(json.dumps(matrix.metadata_texts)).astype("<U"), allow_pickle=False)
    return stream.getvalue()


class _Sink:
    """A stream that cannot seek, even if the real one can, so that both get the same bytes.

    ZipFile finishes the archive even after an error. After an exception inside ``with sink``
    nothing more is written: a pipe must not end in a directory that presents half an array as
    complete.
    """

    def __init__(self, stream: ByteSink) -> None:
        self._stream = stream
        self._abandoned = False

    def write(self, data: bytes | memoryview, /) -> int:
        if not self._abandoned:
            self._stream.write(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._abandoned = kind is not None


def read(source: Source) -> Stored:
    """Return the requested array of a .npz file, without trusting the file's claims.

    Raises:
        InvalidInput: the archive is malformed, holds no such array, or expands too much.
    """
    with _opened(source) as (archive, members, length):
        name = select_member(
            source,
            [*members],
            numeric=lambda name: _header(archive, members[name][0], source) is not None,
        )
        if len(members[name]) > 1:
            raise InvalidInput(f"{source.name} holds {quoted_name(name)} more than once")
        entry = members[name][0]
        # A claimed compressed size beyond the file itself would make any ratio look modest.
        _check_expansion(_place(entry, source), entry.file_size, min(entry.compress_size, length))
        with _open_member(archive, entry, source) as member:
            return npy.read(member)


def headers(source: Source) -> tuple[ArrayHeader, ...]:
    """Return the headers of the members of a .npz file that hold numbers.

    Raises: InvalidInput if the archive is malformed.
    """
    with _opened(source) as (archive, members, _):
        found = {name: _header(archive, entries[0], source) for name, entries in members.items()}
    return tuple(
        ArrayHeader(name, header.shape, header.dtype.name)
        for name, header in found.items()
        if header
    )


@contextmanager
def _opened(source: Source) -> Iterator[tuple[ZipFile, dict[str, list[ZipInfo]], int]]:
    """Yield the archive, its members by name, and the length of the file in bytes.

    Raises: InvalidInput if it is malformed, or has no members.
    """
    from zipfile import ZipFile

    with _refuse_as(f"{source.name} is not a sound .npz archive"):
        file = source.seekable()
        length = file.seek(0, os.SEEK_END)
        archive = ZipFile(_ShortReads(file, source.name))
    with archive:
        members: dict[str, list[ZipInfo]] = {}
        for entry in archive.infolist():
            members.setdefault(entry.filename.removesuffix(".npy"), []).append(entry)
        if not members:
            raise InvalidInput(f"{source.name} is empty: the archive has no members")
        yield archive, members, length


def _header(archive: ZipFile, entry: ZipInfo, source: Source) -> npy.Header | None:
    """Return the header of a member, or None if it holds no numbers."""
    try:
        with _open_member(archive, entry, source) as member:
            return npy.read_header(member)
    except InvalidInput:
        return None


class _ShortReads:
    """A file that refuses long reads.

    ``zipfile`` reads the table of contents at once, and a million entries would take a gigabyte.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1, /) -> bytes:
        content = self._file.read(size if 0 <= size <= CHUNK else CHUNK + 1)
        if len(content) > CHUNK:
            raise InvalidInput(
                f"{self._name} has a table of contents of more than {CHUNK >> 20} MiB, the most "
                "that is read",
                hint="save fewer arrays in one file",
            )
        return content


def _check_expansion(name: str, expanded: int, compressed: int) -> None:
    ratio = expanded / max(compressed, 1)
    if expanded > _EXPANDED_FREELY and ratio > _HIGHEST_RATIO:
        raise InvalidInput(
            f"{name} expands {ratio:.0f} times, to {expanded} bytes; beyond "
            f"{_EXPANDED_FREELY} bytes at most {_HIGHEST_RATIO} times is read",
            hint="if you trust it, save it uncompressed (numpy.savez)",
        )


@contextmanager
def _open_member(archive: ZipFile, entry: ZipInfo, source: Source) -> Iterator[Source]:
    """Yield a member as a separate file.

    Raises:
        InvalidInput: it is encrypted, damaged, or compressed in an unusual way.
    """
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    name = _place(entry, source)
    if entry.flag_bits & 0x1:
        raise InvalidInput(f"{name} is encrypted")
    # LZMA reads its dictionary's size, up to 4 GiB, from the file; NumPy writes only these two.
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InvalidInput(f"{name} is compressed in a way that .npz does not use")
    with _refuse_as(f"{name} is damaged"), archive.open(entry) as file:
        yield Source(
            source.path,
            file,  # type: ignore[arg-type]
            name=name,
            size=entry.file_size,
            max_bytes=source.max_bytes,
            regular=False,
        )


def _place(entry: ZipInfo, source: Source) -> str:
    return f"{source.name} member {quoted_name(entry.filename.removesuffix('.npy'))}"


@contextmanager
def _refuse_as(message: str) -> Iterator[None]:
    """Raise InvalidInput with the message for any error of ``zipfile`` on a malformed archive."""
    import struct
    import zlib
    from zipfile import BadZipFile, LargeZipFile

    malformed = (BadZipFile, LargeZipFile, zlib.error, struct.error, EOFError, ValueError)
    try:
        yield
    except (*malformed, LookupError, OverflowError, RuntimeError):
        raise InvalidInput(message) from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # EINVAL: seek to a negative offset
            raise
        raise InvalidInput(message) from None


FORMAT = Format(
    "npz",
    content="an .npz archive",
    summary="a NumPy archive of `encoding` (or each part of a hybrid) and `metadata`",
    check=check,
    write=write,
    size=size,
    read=read,
    headers=headers,
    recognizes=lambda head: head.startswith((b"PK\3\4", b"PK\5\6")),
    other_suffixes=(),
    binary=True,
    holds_several=True,
)
