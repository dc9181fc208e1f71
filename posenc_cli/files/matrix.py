"""The interface of file formats, and an array written block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from posenc_cli.files.source import OWN_NAME
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.files.source import ArrayHeader, Source, Stored
    from posenc_cli.numerics.arrays import StoredArray, StoredValues
    from posenc_cli.numerics.dtypes import DType


class ByteSink(Protocol):
    """The part of a binary stream that formats use; ``write`` takes all it is given."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Take ``data`` whole, or raise."""


class Matrix(Record):
    """An array that exists only block by block, with the request that made it.

    ``blocks()`` starts a fresh pass over consecutive C-contiguous pieces in ``dtype.numpy``; their
    ravelled concatenation is the array. A piece holds whole rows, that is a multiple of
    ``shape[-1]`` values (any number of values where the array has one axis).

    ``header`` asks for a first line of names and a first column of labels, which only text has:
    ``row_labels()`` yields a label a row (a position, an offset; by default its number), and
    ``row_label`` names that column. ``others`` are further arrays, each of its own ``name``, that
    a format with room for several holds beside this one.

    ``metadata`` is the request as plain values; those that are None say nothing.
    """

    shape: tuple[int, ...]
    dtype: DType
    blocks: Callable[[], Iterator[StoredArray]]
    metadata: Mapping[str, object]
    row_labels: Callable[[], Iterator[int] | Iterator[str]] | None = None
    row_label: str = "position"
    header: bool = False
    name: str = OWN_NAME
    others: tuple[Matrix, ...] = ()

    @property
    def arrays(self) -> tuple[Matrix, ...]:
        """This array and the others."""
        return (self, *self.others)

    @property
    def size(self) -> int:
        """The number of values, those of the others left out.

        >>> from posenc_cli.numerics.dtypes import FLOAT16
        >>> matrix = Matrix((3, 4), FLOAT16, lambda: iter(()), {})
        >>> matrix.size, matrix.nbytes
        (12, 24)
        """
        return math.prod(self.shape)

    @property
    def metadata_texts(self) -> dict[str, str]:
        """The metadata as files keep them: texts as they are, all else as JSON.

        >>> from posenc_cli.numerics.dtypes import FLOAT16
        >>> metadata = {"scheme": "rope", "params": {"dim": 4}, "head": None}
        >>> Matrix((3, 4), FLOAT16, lambda: iter(()), metadata).metadata_texts
        {'scheme': 'rope', 'params': '{"dim": 4}'}
        """
        import json  # slow to import; most matrices go to files that keep none

        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in self.metadata.items()
            if value is not None
        }

    @property
    def nbytes(self) -> int:
        """The bytes that the values take, without any header."""
        return self.size * self.dtype.itemsize


def pieces(matrix: Matrix) -> Iterator[StoredValues]:
    """The blocks of ``matrix``, each flat, holding the producer to what ``Matrix`` says.

    Raises:
        RuntimeError: a block has another dtype or cuts a row, or the blocks are together shorter
            or longer than the shape. Such a file would be wrong under a right header.
    """
    import numpy as np

    expected, row, done = matrix.dtype.numpy, matrix.shape[-1] if len(matrix.shape) > 1 else 1, 0
    for block in matrix.blocks():
        if block.dtype != expected:
            raise RuntimeError(f"a block of {block.dtype} in a matrix of {expected}")
        if block.size % row if row else block.size:
            raise RuntimeError(f"a block of {block.size} values cuts a row of {row}")
        done += block.size
        yield np.ascontiguousarray(block).reshape(-1)
        del block  # the next one takes its memory
    if done != matrix.size:
        raise RuntimeError(f"blocks of {done} values for the shape {matrix.shape}")


def write_values(stream: ByteSink, matrix: Matrix) -> None:
    """Write the bits of all values in order, block by block."""
    for piece in pieces(matrix):
        stream.write(piece.view("u1").data)
        del piece  # the next one takes its memory


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
