"""What a file format gives: the value that each format's file declares as ``FORMAT``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.files.matrix import ByteSink, Matrix
    from posenc_cli.files.source import ArrayHeader, Source, Stored


class Format(Record):
    """A file format; its suffix is its name.

    ``content`` is what messages call such a file, ``summary`` what the page says of it. ``check``
    refuses a matrix that the format cannot hold; ``write`` streams one; ``size`` is the length of
    the file in bytes, of text (not ``binary``) a lower bound. ``verify``, where there is one, reads
    a finished regular file back before it takes its name. It ``holds_several`` arrays, or just one.

    ``read``, where there is one, gives the array of a file that nobody vouches for. It reads files
    of ``other_suffixes`` too, and those without a known suffix whose first bytes it ``recognizes``.
    ``headers`` says what arrays such a file holds, and reads no value.
    """

    name: str
    content: str
    summary: str
    check: Callable[[Matrix], None]
    write: Callable[[ByteSink, Matrix], None]
    size: Callable[[Matrix], int]
    verify: Callable[[str, Matrix], None] | None = None
    read: Callable[[Source], Stored] | None = None
    headers: Callable[[Source], tuple[ArrayHeader, ...]] | None = None
    recognizes: Callable[[bytes], bool] | None = None
    other_suffixes: tuple[str, ...] = ()
    binary: bool = True
    holds_several: bool = False

    @property
    def suffix(self) -> str:
        """The suffix of its files, which tells the format."""
        return f".{self.name}"


class InputFormat(Record):
    """A file format that is read and never written, whose fields are as `Format` has them."""

    name: str
    content: str
    read: Callable[[Source], Stored]
    headers: Callable[[Source], tuple[ArrayHeader, ...]]
    recognizes: Callable[[bytes], bool]
    other_suffixes: tuple[str, ...] = ()
    binary: bool = True
    holds_several: bool = True

    @property
    def suffix(self) -> str:
        """The suffix of its files, which tells the format."""
        return f".{self.name}"
