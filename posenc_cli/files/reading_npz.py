"""Reads one array of a .npz, a zip archive of .npy members, without trusting what it claims.

Imported only where arrays are read, so NumPy may be imported at module level.
"""

from __future__ import annotations

import errno
import io
import os
import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files import reading_npy
from posenc_cli.files.reading_source import CHUNK, Source, Stored, select_member

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPANDED_FREELY = 64 << 20
"""Members that inflate to at most this many bytes are read whatever their ratio."""

HIGHEST_RATIO = 200
"""How many times its compressed size a larger member may be.

Deflate ends at 1030, for constant data, and tables of encodings stay below 150.
"""

_MALFORMED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    LookupError,
    OverflowError,
    RuntimeError,
)


class _ShortReads(io.RawIOBase):
    """A file that refuses long reads.

    ``zipfile`` reads the table of contents at once, and a million entries would take a gigabyte.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        content = self._file.read(size if 0 <= size <= CHUNK else CHUNK + 1)
        if len(content) > CHUNK:
            raise zipfile.BadZipFile
        return content

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def read(source: Source) -> Stored:
    """Return the array that is meant in a .npz file.

    Raises:
        InvalidInput: the archive is malformed, holds no such array, or expands beyond reason.
    """
    with _refuse_as(f"{source.name} is not a sound .npz archive"):
        file = source.seekable()
        size = file.seek(0, os.SEEK_END)
        archive = zipfile.ZipFile(_ShortReads(file))
    with archive:
        members: dict[str, list[zipfile.ZipInfo]] = {}
        for info in archive.infolist():
            members.setdefault(info.filename.removesuffix(".npy"), []).append(info)
        if not members:
            raise InvalidInput(f"{source.name} is empty: the archive has no members")

        def numeric(member: str) -> bool:
            try:
                _header(archive, members[member][0], source)
            except InvalidInput:
                return False
            return True

        member = select_member(source, list(members), numeric=numeric)
        if len(members[member]) > 1:
            raise InvalidInput(f"{source.name} holds {quoted_name(member)} more than once")
        info = members[member][0]
        # A compressed size beyond the file itself would make any ratio look modest.
        _check_expansion(_member_place(info, source), info.file_size, min(info.compress_size, size))
        return _array(archive, info, source)


def _check_expansion(name: str, expanded: int, compressed: int) -> None:
    ratio = expanded / max(compressed, 1)
    if expanded > EXPANDED_FREELY and ratio > HIGHEST_RATIO:
        raise InvalidInput(
            f"{name} expands {ratio:.0f} times, to {expanded} bytes; beyond "
            f"{EXPANDED_FREELY} bytes at most {HIGHEST_RATIO} times is read",
            hint="if you trust it, save it uncompressed (numpy.savez)",
        )


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: Source) -> reading_npy.Header:
    name = _member_place(info, source)
    with _refuse_as(f"{name} is damaged"), _open_member(archive, info, name) as file:
        return reading_npy.read_header(file.read, name)


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: Source) -> Stored:
    name = _member_place(info, source)
    with _refuse_as(f"{name} is damaged"), _open_member(archive, info, name) as file:
        header = reading_npy.read_header(file.read, name)
        reading_npy.check_size(name, header, info.file_size)
        source.afford(header.nbytes)
        values = reading_npy.read_values(file.read, name, header)
    return Stored(header.arrange(values), header.dtype.name)


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> BinaryIO:
    if info.flag_bits & 0x1:
        raise InvalidInput(f"{name} is encrypted")
    # LZMA takes its dictionary's size, up to 4 GiB, from the file; NumPy writes these two only.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput(f"{name} is compressed in a way that .npz does not use")
    return archive.open(info)  # type: ignore[return-value]


def _member_place(info: zipfile.ZipInfo, source: Source) -> str:
    return f"{source.name} member {quoted_name(info.filename.removesuffix('.npy'))}"


@contextmanager
def _refuse_as(message: str) -> Iterator[None]:
    """Raise InvalidInput with the message for whatever ``zipfile`` makes of a malformed archive."""
    try:
        yield
    except _MALFORMED:
        raise InvalidInput(message) from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # EINVAL: sought to a negative offset
            raise
        raise InvalidInput(message) from None
