"""The interface of file formats, and an array written block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from posenc_cli.files.source import OWN_NAME, ArrayHeader, Source, Stored
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.numerics.arrays import StoredArray, StoredValues
    from posenc_cli.numerics.dtypes import DType


class ByteSink(Protocol):
    """The part of a binary stream that formats use; ``write`` takes all it is given."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Take all of ``data``, or raise."""


class Matrix(Record):
    """An array that exists only block by block, with the request that made it.

    ``blocks()`` starts a fresh pass over consecutive C-contiguous pieces in ``dtype.numpy``; their
    ravelled concatenation is the array. A piece holds whole rows: a multiple of ``shape[-1]``
    values (any number of values if the array has one axis).

    ``header`` requests a first line of names and a first column of labels, which only text has.
    ``row_labels()`` yields one label per row (a position, an offset; by default its number), and
    ``row_label`` names that column. ``others`` are further arrays, each with its own ``name``. A
    format with room for several arrays stores them beside this one.

    ``metadata`` is the request as plain values; None values are left out.
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
        """The number of values, without those of the others.

        >>> from posenc_cli.numerics.dtypes import FLOAT16
        >>> matrix = Matrix((3, 4), FLOAT16, lambda: iter(()), {})
        >>> matrix.size, matrix.nbytes
        (12, 24)
        """
        return math.prod(self.shape)

    @property
    def metadata_texts(self) -> dict[str, str]:
        """The metadata as files keep them: texts unchanged, everything else as JSON.

        >>> from posenc_cli.numerics.dtypes import FLOAT16
        >>> metadata = {"scheme": "rope", "params": {"dim": 4}, "head": None}
        >>> Matrix((3, 4), FLOAT16, lambda: iter(()), metadata).metadata_texts
        {'scheme': 'rope', 'params': '{"dim": 4}'}
        """
        import json  # slow to import; most matrices go to files without metadata

        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in self.metadata.items()
            if value is not None
        }

    @property
    def nbytes(self) -> int:
        """The number of bytes of the values, without any header."""
        return self.size * self.dtype.itemsize


def pieces(matrix: Matrix) -> Iterator[StoredValues]:
    """Yield the blocks of ``matrix``, each flat, after checking them against its declaration.

    Raises:
        RuntimeError: a block has another dtype or cuts a row, or the blocks together are shorter or
            longer than the shape. Such a file would have a correct header and wrong values.
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
        del block  # free its memory for the next one
    if done != matrix.size:
        raise RuntimeError(f"blocks of {done} values for the shape {matrix.shape}")


def write_values(stream: ByteSink, matrix: Matrix) -> None:
    """Write the bits of all values in order, block by block."""
    for piece in pieces(matrix):
        stream.write(piece.view("u1").data)
        del piece  # free its memory for the next one


class InputFormat(Record):
    """A file format that is read; its suffix is its name.

    ``content`` is the name of such a file in messages. ``read`` returns the array of an untrusted
    file. It also reads files of ``other_suffixes``, and files without a known suffix if it
    ``recognizes`` their first bytes. ``headers`` returns the arrays that such a file holds, and
    reads no values; None if they have no names. A format ``holds_several`` arrays, or just one.
    """

    name: str
    content: str
    read: Callable[[Source], Stored]
    headers: Callable[[Source], tuple[ArrayHeader, ...]] | None
    recognizes: Callable[[bytes], bool]
    other_suffixes: tuple[str, ...]
    binary: bool
    holds_several: bool

    @property
    def suffix(self) -> str:
        """The suffix of its files, which identifies the format."""
        return f".{self.name}"


class Format(InputFormat):
    """A file format that is read and written.

    ``summary`` is its description in the docs. ``check`` refuses a matrix that the format cannot
    hold, and ``write`` streams one. ``size`` is the least that the file takes, in bytes.
    """

    summary: str
    check: Callable[[Matrix], None]
    write: Callable[[ByteSink, Matrix], None]
    size: Callable[[Matrix], int]
