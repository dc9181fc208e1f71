"""Shared by readers of arrays: the open file, its limits, and the selected array."""

from __future__ import annotations

import io
import os
import stat
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from posenc_cli.errors import InvalidInput, Unavailable, nearest, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import STANDARD_INPUT, open_input

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from posenc_cli.numerics.arrays import StoredArray

AnyArray = TypeVar("AnyArray", bound="np.ndarray[Any, Any]")

OWN_NAME = "encoding"
"""The name of the array that posenc writes into a file of several."""

CHUNK = 1 << 20
"""Bytes read at a time: memory grows with the bytes that arrive, not with a header's claims."""

MAPPED_FROM = 16 << 20
"""Regular files of at least this many bytes are mapped into memory instead of read."""

_MEMBERS_LOOKED_INTO = 64
_MEMBERS_LISTED = 8  # names that fit a message
_MEMBERS_COMPARED = 4096  # letter by letter with a missing name
_MOST_AXES = 32  # the maximum of NumPy 1


class Stored(Record):
    """An array as its file stores it: any byte order, any layout.

    ``dtype`` is the number format's name; bfloat16 is held as its bit patterns in uint16.
    """

    values: StoredArray
    dtype: str


class ArrayHeader(Record):
    """The header of one of a file's arrays; ``name`` is empty for a single array.

    ``dtype`` is the number format's name, or the file's own code if posenc lacks the format.
    ``scheme`` is named by the metadata of posenc's own arrays, and is empty without them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scheme: str = ""


class Source:
    """An open file: a regular file with a known ``size``, or a stream, whose size may be unknown.

    ``name`` is the path in messages, and ``member`` the requested array in a file of several.
    ``max_bytes`` is the most memory that its values may take.
    """

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        *,
        name: str,
        size: int | None,
        max_bytes: int,
        member: str | None = None,
        regular: bool,
    ) -> None:
        self.path = path
        self.file = file
        self.name = name
        self.size = size
        self.max_bytes = max_bytes
        self.member = member
        self.regular = regular
        self._ahead = b""

    @property
    def mapped(self) -> bool:
        """Whether ``whole`` maps the bytes instead of reading them into memory."""
        return self.regular and self.size is not None and self.size >= MAPPED_FROM

    def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes (fewer at the end of the file), leaving them unread."""
        if len(self._ahead) < count:
            self._ahead += self.file.read(count - len(self._ahead))
        return self._ahead[:count]

    def start(self, count: int) -> bytes:
        """Return the first ``count`` bytes, as ``peek`` does.

        Raises:
            InvalidInput: there are none.
        """
        start = self.peek(count)
        if not start:
            raise InvalidInput(f"{self.name} is empty: it holds no bytes")
        return start

    def header(self, at: int, width: int, longest: int) -> bytes:
        """Return the header whose length is in ``width`` bytes from ``at`` on, still unread.

        Raises:
            InvalidInput: it is longer than ``longest``, or the file ends before it does.
        """
        prefix = self.start(at + width)[at:]
        length = int.from_bytes(prefix, "little")
        if length > longest:
            raise InvalidInput(
                f"{self.name} claims a header of {length} bytes; at most {longest} are read"
            )
        header = self.peek(at + width + length)[at + width :]
        if len(prefix) < width or len(header) < length:
            raise InvalidInput(f"{self.name} is truncated within its header")
        return header

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer only at the end of the file."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        if len(taken) < count:
            taken += self.file.read(count - len(taken))
        return taken

    def seekable(self) -> BinaryIO:
        """Return the file from its first byte; a stream is read into memory.

        Raises:
            InvalidInput: a stream is longer than ``max_bytes``.
        """
        if not self.regular:
            return io.BytesIO(self._remainder())
        self.file.seek(0)
        return self.file

    def whole(self) -> bytes | mmap.mmap:
        """Return all bytes: in memory for a stream or a small file, else mapped read-only.

        Raises:
            InvalidInput: a stream is longer than ``max_bytes``.
        """
        if not self.mapped:
            return self.seekable().read()
        import mmap

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
                f"{quoted_name(self.path)} needs {count} bytes of memory, "
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

    A file of the literal name takes precedence over ``path:member``. If a text with several colons
    could name several files, the one with the longest name is opened.

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
            status = os.fstat(file.fileno())
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise Unavailable(f"cannot read {name}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(f"no file can be named {name}: it holds a NUL character") from None
    # Standard input may be a regular file, but part of it may already have been read.
    regular = stat.S_ISREG(status.st_mode) and path != STANDARD_INPUT
    size = status.st_size if regular else None
    return Source(
        path, file, name=name, size=size, max_bytes=max_bytes, member=member, regular=regular
    )


def _splits(path: str) -> Iterator[tuple[str, str]]:
    for index in range(len(path) - 2, 0, -1):
        if path[index] == ":":
            yield path[:index], path[index + 1 :]


def value_count(name: str, shape: Sequence[int]) -> int:
    """Return how many values an array of ``shape`` holds.

    Raises:
        InvalidInput: it is not an array of at least one value that NumPy can represent.
    """
    if not shape:
        raise InvalidInput(f"{name} holds a single number (shape ()), not an array")
    if 0 in shape:
        dimensions = ", ".join(str(length) for length in shape[:8])
        raise InvalidInput(f"{name} is empty: its shape is ({dimensions})")
    if len(shape) > _MOST_AXES:
        raise InvalidInput(f"{name} has {len(shape)} axes; at most {_MOST_AXES} are read")
    return prod(shape)


class SeveralArrays(InvalidInput):
    """A file that holds several arrays, ``names``, although none was selected."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{source.name} holds several arrays: {_name_list(names)}",
            hint=f"name one, as in {quoted_name(f'{source.path}:{names[0]}')}",
        )


def select_member(source: Source, names: Sequence[str], *, numeric: Callable[[str], bool]) -> str:
    """Return the array that is meant, out of ``names``.

    It is the requested member, else ``encoding``, which posenc writes, else the only one that
    ``numeric`` accepts.

    Raises:
        InvalidInput: there is no such member, or the choice is ambiguous.
    """
    if not names:
        raise InvalidInput(f"{source.name} is empty: it holds no tensors")
    if source.member is not None:
        if source.member in names:
            return source.member
        asked = source.member.lower()
        raise InvalidInput(
            f"{source.name} holds no {quoted_name(source.member)}, only "
            # Names that contain the requested one come first.
            f"{_name_list(sorted(names, key=lambda name: asked not in name.lower()))}",
            hint=nearest(source.member, names[:_MEMBERS_COMPARED]),
        )
    if OWN_NAME in names:
        return OWN_NAME
    few = len(names) <= _MEMBERS_LOOKED_INTO
    candidates = [name for name in names if numeric(name)] if few else names
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise SeveralArrays(source, candidates)
    if len(names) == 1:
        return names[0]
    raise InvalidInput(f"{source.name} holds no array of numbers")


def _name_list(names: Sequence[str]) -> str:
    listed = ", ".join(quoted_name(name) for name in names[:_MEMBERS_LISTED])
    more = len(names) - _MEMBERS_LISTED
    return (f"{listed} and {more} more" if more > 0 else listed) or "nothing"


def without_leading_ones(values: AnyArray) -> AnyArray:
    """Return an array without the leading axes of length 1 that checkpoints give a table.

    >>> import numpy as np
    >>> without_leading_ones(np.zeros((1, 197, 768))).shape
    (197, 768)
    """
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    return values


def release(values: StoredArray) -> None:
    """Release the memory of the mapped file that values are a view of; it can be read again.

    The pages of a file count as memory of the process that reads them, until it releases them.
    Otherwise a process that reads a file once would grow to the size of the file.
    """
    import mmap

    owner: Any = values
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)
