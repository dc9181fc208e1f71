"""What every reader of arrays shares: the opened file, its limits, and which array is meant.

Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import STANDARD_INPUT, open_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

CHUNK = 1 << 20
"""Bytes read at a time: allocation follows what has arrived, never what a header claims."""

MAPPED_FROM = 16 << 20
"""Regular files from this many bytes are mapped into memory instead of read."""

_MEMBERS_LOOKED_INTO = 64
_MEMBERS_LISTED = 8


class Stored(Record):
    """An array as its file stores it: any byte order, any layout.

    ``dtype`` is the number format's name; bfloat16 is held as its bit patterns in uint16.
    """

    values: NDArray[Any]
    dtype: str


@dataclass
class Source:
    """An open file: a regular one, whose ``size`` is known, or a stream, whose size is not.

    ``name`` is the path as messages show it, ``member`` the array asked for in a file of several,
    and ``max_bytes`` the most memory that its values may take.
    """

    path: str
    name: str
    member: str | None
    file: BinaryIO
    size: int | None
    max_bytes: int
    _ahead: bytes = field(default=b"", repr=False)

    def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer at the end of the file, and leave them unread."""
        if len(self._ahead) < count:
            self._ahead += self.file.read(count - len(self._ahead))
        return self._ahead[:count]

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer only at the end of the file."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        if len(taken) < count:
            taken += self.file.read(count - len(taken))
        return taken

    def seekable(self) -> BinaryIO:
        """Return the file from its first byte, a stream being read into memory.

        Raises:
            InvalidInput: a stream is longer than ``max_bytes``.
        """
        if self.size is None:
            return io.BytesIO(self._remainder())
        self.file.seek(0)
        return self.file

    def whole(self) -> bytes | mmap.mmap:
        """Return all bytes: in memory for a stream or a small file, else mapped read-only.

        Raises:
            InvalidInput: a stream is longer than ``max_bytes``.
        """
        if self.size is None or self.size < MAPPED_FROM:
            return self.seekable().read()
        mapped = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(mapped) != self.size:
            raise InvalidInput(f"{self.name} changed while it was read")
        return mapped

    def afford(self, count: int) -> None:
        """Check that ``count`` bytes of values may be held in memory.

        Raises:
            InvalidInput: they are more than ``max_bytes``.
        """
        if count > self.max_bytes:
            raise InvalidInput(
                f"{self.name} needs {count} bytes of memory, "
                f"more than the limit of {self.max_bytes} for what cannot be read in place",
                hint="a C-ordered .npy file of floating-point numbers is read in place",
            )

    def _remainder(self) -> bytes:
        gathered = bytearray()
        while chunk := self.read(CHUNK):
            gathered += chunk
            self.afford(len(gathered))
        return bytes(gathered)


def open_source(path: str, *, max_bytes: int) -> Source:
    """Return the open file of ``path``: a path, ``-`` for standard input, or ``path:member``.

    A file of the literal name goes before the reading of ``path:member``.

    Raises:
        Unavailable: the file cannot be opened.
        InvalidInput: the path holds a NUL character, or the run is to replace the file.
    """
    name = quoted_name(path)
    member = None
    try:
        try:
            file = open_input(path)
        except (FileNotFoundError, NotADirectoryError):
            for prefix, rest in _splits(path):
                if Path(prefix).is_file():
                    file, name, member = open_input(prefix), quoted_name(prefix), rest
                    path = prefix
                    break
            else:
                raise
        try:
            # Standard input may be a regular file, but one that has been read from already.
            size = None if path == STANDARD_INPUT else _regular_size(file)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise Unavailable(f"cannot read {name}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(f"no file can be named {name}: it holds a NUL character") from None
    return Source(path, name, member, file, size, max_bytes)


def _regular_size(file: BinaryIO) -> int | None:
    """Return the size of a regular file, None for a stream."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _splits(path: str) -> Iterator[tuple[str, str]]:
    for index, character in enumerate(path):
        if character == ":" and 0 < index < len(path) - 1:
            yield path[:index], path[index + 1 :]


def value_count(name: str, shape: Sequence[int]) -> int:
    """Return how many values an array of ``shape`` holds.

    Raises:
        InvalidInput: it is no array of at least one value that NumPy can represent.
    """
    if not shape:
        raise InvalidInput(f"{name} holds a single number (shape ()), not an array")
    if 0 in shape:
        dimensions = ", ".join(str(length) for length in shape[:8])
        raise InvalidInput(f"{name} is empty: its shape is ({dimensions})")
    if len(shape) > 32:
        raise InvalidInput(f"{name} has {len(shape)} axes; at most 32 are read")
    return prod(shape)


def select_member(source: Source, names: Sequence[str], *, numeric: Callable[[str], bool]) -> str:
    """Return which of the arrays ``names`` is meant.

    It is the member asked for, else ``encoding``, else the only one that ``numeric`` accepts.

    Raises:
        InvalidInput: there is no such member, or the choice is open.
    """
    if source.member is not None:
        if source.member in names:
            return source.member
        raise InvalidInput(
            f"{source.name} holds no {quoted_name(source.member)}, only {_name_list(names)}"
        )
    if "encoding" in names:
        return "encoding"
    few = len(names) <= _MEMBERS_LOOKED_INTO
    candidates = [name for name in names if numeric(name)] if few else names
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise InvalidInput(
            f"{source.name} holds several arrays: {_name_list(candidates)}",
            hint=f"name one, as in {quoted_name(f'{source.path}:{candidates[0]}')}",
        )
    if len(names) == 1:
        return names[0]
    raise InvalidInput(f"{source.name} holds no array of numbers")


def _name_list(names: Sequence[str]) -> str:
    listed = ", ".join(quoted_name(name) for name in names[:_MEMBERS_LISTED])
    more = len(names) - _MEMBERS_LISTED
    return (f"{listed} and {more} more" if more > 0 else listed) or "nothing"
