"""Saving a matrix: a format, a place, and what can be checked before and after."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.files.atomic import STANDARD_OUTPUT, preflight, replacing, standard_output
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from posenc_cli.files.matrix import Format, Matrix


class Saved(Record):
    """What was written: ``path`` as given, the number of bytes, and their SHA-256 if asked for."""

    path: str
    bytes: int
    sha256: str | None


def ready(matrix: Matrix, target: str, *, format: Format, clobber: bool = True) -> None:  # noqa: A002
    """Refuse, without computing a value, what ``save`` could not write.

    Raises:
        InvalidInput: ``format`` cannot hold ``matrix`` or its header, or is binary and would go to
            a terminal.
        Unavailable: ``target`` cannot be written, or has too little room.
    """
    format.check(matrix)
    if matrix.header and format.binary:
        raise InvalidInput(f"--header: {format.name} has no header line; only csv has")
    if target != STANDARD_OUTPUT:
        preflight(
            target,
            clobber=clobber,
            needed=format.size(matrix),
            bound="" if format.binary else "at least ",
        )
    elif format.binary and sys.stdout and not sys.stdout.closed and sys.stdout.isatty():
        raise InvalidInput(
            f"--out -: {format.name} is binary and standard output is a terminal",
            hint="redirect it, name a file, or use --format csv",
        )


def save(
    matrix: Matrix,
    target: str,
    *,
    format: Format,  # noqa: A002
    clobber: bool = True,
    digest: bool = False,
    announce: Callable[[Saved], None] | None = None,
) -> Saved:
    """Write ``matrix`` to the path ``target``, or to standard output where it is ``-``.

    The file takes its name only when it is whole, has the size that its format foretold, and has
    passed the format's own ``verify``. ``digest`` asks for the SHA-256 of the bytes, which costs
    about as much as writing them. ``announce`` is called while the file can still be called off:
    what it raises leaves none behind.

    Raises:
        InvalidInput, Unavailable: as ``ready``, and Unavailable when a write fails.
        RuntimeError: the blocks are not what the matrix says (a bug).
    """
    ready(matrix, target, format=format, clobber=clobber)
    to_file = target != STANDARD_OUTPUT
    with replacing(target, clobber=clobber) if to_file else standard_output() as stream:
        counter = _Counter(stream, digest=digest)
        format.write(counter, matrix)
        _confirm(stream, counter.bytes, matrix, format, reread=to_file)
        saved = Saved(target, counter.bytes, counter.sha256)
        if announce is not None:
            announce(saved)
    return saved


def _confirm(stream: BinaryIO, written: int, matrix: Matrix, form: Format, *, reread: bool) -> None:
    if form.binary and written != (expected := form.size(matrix)):
        raise RuntimeError(f"{form.name}: wrote {written} bytes where {expected} were due")
    if reread and form.verify is not None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        form.verify(stream.name, matrix)


class _Counter:
    """Passes bytes on, counting them and, if asked, taking their digest."""

    def __init__(self, stream: BinaryIO, *, digest: bool) -> None:
        self._stream = stream
        self._digest = None
        if digest:
            from hashlib import sha256

            self._digest = sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str | None:
        return None if self._digest is None else self._digest.hexdigest()

    def write(self, data: bytes | memoryview, /) -> int:
        self._stream.write(data)
        if self._digest is not None:
            self._digest.update(data)
        length = memoryview(data).nbytes
        self.bytes += length
        return length
