"""Arrays read from untrusted files.

Every file gives either an array of numbers or a one-line error. No file is executed, and none makes
the memory grow beyond what its own size justifies.
Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import contextlib
import os
import re
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import ROOM_TO_COMPUTE, check_room
from posenc_cli.errors import InvalidInput, Unavailable, quoted_name, sizes_text
from posenc_cli.files import safetensors
from posenc_cli.files.formats import formats_by_suffix
from posenc_cli.files.source import (
    ArrayHeader,
    Source,
    Stored,
    open_source,
    release,
    without_leading_ones,
)
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.files.matrix import InputFormat
    from posenc_cli.numerics.arrays import Integers, NumberArray, StoredArray

_PICKLE = rb"\x80[\x02-\x05]"
_HEAD = 512  # bytes that identify a format
_LARGEST_EXACT = 2**53
_SCATTERED = 64  # scattered rows read at a time: each also loads its neighbours' pages


class Loaded(Record):
    """An array of numbers read from a file: at least one value, at least one axis.

    ``values`` is in native byte order and C-contiguous, and may be read-only (a file mapped into
    memory). float16, float32, float64, complex64 and complex128 are as stored. bfloat16 is widened
    to float32, integers and booleans to float64, all exactly. ``dtype`` names the stored format
    (``bfloat16``, ``int64``; ``float64`` for ``text``). ``path`` is the file as it was given, and
    ``member`` the array that was requested by name, if any.
    """

    values: NumberArray
    dtype: str
    path: str
    text: bool = False
    member: str | None = None


class NoMatrix(InvalidInput):
    """A file that does not hold a matrix of real numbers; ``rule`` describes its content."""

    def __init__(self, name: str, content: str) -> None:
        self.rule = f"must be a matrix of real numbers, not {content}"
        super().__init__(f"{name}: {self.rule}")


class FileRows:
    """A matrix of real numbers in a file; only the requested rows are in memory.

    ``shape`` is (rows, columns). ``dtype`` and ``path`` are those of `Loaded`, and rows have the
    format of its values. Streams, text and compressed data are held in memory whole.
    """

    def __init__(self, stored: Stored, source: Source | None, path: str) -> None:
        self._values, self._source = stored.values, source
        self.shape: tuple[int, int] = (stored.values.shape[0], stored.values.shape[1])
        self.dtype = stored.dtype
        self.path = path

    def __getitem__(self, rows: slice | Integers) -> NumberArray:
        """Return rows, in the requested order.

        Shape: (rows, columns).
        """
        if isinstance(rows, slice):
            return self._read(rows)
        pieces = [self._read(rows[at : at + _SCATTERED]) for at in range(0, rows.size, _SCATTERED)]
        return np.concatenate(pieces) if pieces else self._read(rows)

    def _read(self, rows: slice | Integers) -> NumberArray:
        release(self._values)  # free the memory of earlier rows
        if self._source is None:
            return self._values[rows]
        return _widen(Stored(self._values[rows], self.dtype), self._source)


class FileStack:
    """Matrices of real numbers stacked in one file; ``shape`` has no leading axis of length 1.

    Its last axis holds the columns of all matrices. ``source`` is None if the array is in memory.
    """

    def __init__(self, stored: Stored, source: Source | None, path: str) -> None:
        self._stored, self._source, self.path = stored, source, path
        self._values = without_leading_ones(stored.values)
        self.shape: tuple[int, ...] = self._values.shape

    @classmethod
    def of(cls, given: str | Loaded) -> FileStack:
        """Return the matrices of a path, or of an array that was already read.

        Raises: InvalidInput, Unavailable: as `read`.
        """
        if isinstance(given, str):
            return cls.read(given)
        if given.values.dtype.kind == "c":
            raise NoMatrix(quoted_name(given.path), "complex numbers")
        return cls(Stored(given.values, given.dtype), None, given.path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> FileStack:
        """Return the matrices in a file; its array is selected as by `read_array`.

        Raises:
            InvalidInput: the file is malformed, or holds numbers that are not real.
            Unavailable: the file cannot be opened or read.
        """
        with _reading(path, None) as (source, form):
            stored = form.read(source)
            if stored.values.dtype.kind == "c":
                raise NoMatrix(source.name, "complex numbers")
            return cls(stored, source, os.fsdecode(path))

    @property
    def matrix(self) -> FileRows:
        """The only matrix.

        Raises: InvalidInput if there are several, or none.
        """
        if len(self.shape) != 2:
            raise NoMatrix(
                quoted_name(self.path),
                f"an array of shape {sizes_text(self._stored.values.shape)}",
            )
        return self._rows(self._values)

    def halves(self) -> tuple[FileRows, FileRows]:
        """Return the first and the second half of the columns of the only matrix."""
        half = self.shape[-1] // 2
        return self._rows(self._values[:, :half]), self._rows(self._values[:, half:])

    def _rows(self, values: StoredArray) -> FileRows:
        return FileRows(Stored(values, self._stored.dtype), self._source, self.path)


def read_array(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Loaded:
    r"""Return the array in a file of any format that has a reader.

    The suffix determines the format; without a known suffix, the first bytes do. ``-``, FIFOs and
    devices are read to their end. Of several arrays, ``encoding`` is read, else the only one of
    numbers; ``path:member`` selects another. A matrix of text is always two-dimensional: one column
    has the shape (n, 1). Large .npy and .safetensors files are mapped, not read; ``max_bytes`` (4
    GiB) bounds the values that must be held in memory.

    Raises:
        InvalidInput: the file is malformed, holds no numbers, or exceeds ``max_bytes``.
        Unavailable: the file cannot be opened or read.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "table.csv")
    ...     _ = file.write_text("1,0.5\n-0,nan\n")
    ...     read_array(file).values
    array([[ 1. ,  0.5],
           [-0. ,  nan]])
    """
    _reserve_room()
    with _reading(path, max_bytes) as (source, form):
        stored = form.read(source)
        values = _widen(stored, source)
    return Loaded(
        values, stored.dtype, os.fsdecode(path), text=not form.binary, member=source.member
    )


def read_members(path: str, names: Sequence[str]) -> list[Loaded]:
    """Return tensors that a .safetensors header names; the header is read only once.

    Raises:
        InvalidInput: the file is malformed, or a tensor does not hold numbers.
        Unavailable: the file cannot be opened or read.
    """
    _reserve_room()
    with _reading(path, None) as (source, _):
        return [
            Loaded(_widen(stored, source), stored.dtype, path, member=name)
            for name, stored in zip(names, safetensors.read_several(source, names), strict=True)
        ]


def read_headers(path: str | os.PathLike[str]) -> tuple[ArrayHeader, ...]:
    """Return the headers of a file's arrays, without reading any values.

    Raises:
        InvalidInput: the file is malformed, or is text, which has no headers.
        Unavailable: the file cannot be opened or read.
    """
    with _reading(path, None) as (source, form):
        if form.headers is None:
            raise InvalidInput(f"{source.name} is {form.content}, which names no arrays")
        return form.headers(source)


def read_vectors(path: str) -> tuple[tuple[int, ...], FileRows]:
    """Return the shape of an array of vectors, (…, n, columns), and its rows, (vectors, columns).

    Raises:
        InvalidInput: the file is malformed, or holds no floating-point vectors.
        Unavailable: the file cannot be opened or read.
    """
    _reserve_room()
    with _reading(path, None) as (source, form):
        stored = form.read(source)
        values, name = stored.values, source.name
        if values.dtype.kind == "c":
            raise NoMatrix(name, "complex numbers")
        if stored.dtype not in REAL_DTYPES:
            raise InvalidInput(
                f"{name} holds {stored.dtype}; vectors are {', '.join(REAL_DTYPES)}",
                hint="save array.astype('float32')",
            )
        if values.ndim < 2:
            raise InvalidInput(
                f"{name} has the shape {values.shape}; vectors are (…, positions, columns)"
            )
        if not values.flags.c_contiguous:
            source.afford(values.nbytes)
        rows = Stored(values.reshape(-1, values.shape[-1]), stored.dtype)
        return values.shape, FileRows(rows, source, path)


@lru_cache(maxsize=1)
def _reserve_room() -> None:
    """Check that there is room to compute, and make the first matrix product while there is.

    OpenBLAS ends the process if it finds no memory for its buffer. It keeps the buffer for all
    later products.

    Raises: Unavailable.
    """
    check_room(ROOM_TO_COMPUTE)
    square = np.ones((256, 256))  # smaller ones may use no buffer
    square @ square


@contextlib.contextmanager
def _reading(
    path: str | os.PathLike[str], max_bytes: int | None
) -> Iterator[tuple[Source, InputFormat]]:
    """Yield an open file and its format; errors while reading are reported as the file's."""
    source = open_source(os.fsdecode(path), max_bytes=4 << 30 if max_bytes is None else max_bytes)
    try:
        with source.file:
            yield source, _format(source)
    except OSError as error:
        raise Unavailable(f"cannot read {source.name}: {error.strerror or error}") from None
    except MemoryError:
        raise Unavailable(f"cannot read {source.name}: not enough memory") from None


def _format(source: Source) -> InputFormat:
    """Return the format of the suffix, after comparing it with the first bytes."""
    suffix = PurePath(source.path).suffix.lower()
    form = formats_by_suffix().get(suffix)
    head = source.peek(_HEAD)
    inside = _format_by_content(head)
    # A .safetensors file begins with a length, which may be any bytes.
    if inside is None and re.match(_PICKLE, head) and form is not safetensors.FORMAT:
        raise InvalidInput(
            f"{source.name} is a pickle, which can run any code when it is read",
            hint="save the array with numpy.save(file, array, allow_pickle=False)",
        )
    if form is None:
        source.start(1)
        if inside is None:
            known = ", ".join(formats_by_suffix())
            raise InvalidInput(
                f"{source.name} has an unsupported format; posenc reads {known}",
                hint="posenc explain reads configs" if suffix == ".json" else None,
            )
        form = inside
    elif inside is not None and inside.binary and inside is not form:
        raise InvalidInput(
            f"{source.name} is a {inside.suffix} file by its content, not {suffix}",
            hint=f"give it a name that ends in {inside.suffix}",
        )
    if source.member is not None and not form.holds_several:
        several = [each.suffix for each in formats_by_suffix().values() if each.holds_several]
        raise InvalidInput(
            f"{source.name} is a single array; only {' and '.join(several)} files have members"
        )
    return form


def _format_by_content(head: bytes) -> InputFormat | None:
    """Return the format that recognizes the first bytes; text, which matches many, is last."""
    forms = sorted(formats_by_suffix().values(), key=lambda form: not form.binary)
    return next((form for form in forms if form.recognizes(head)), None)


def _widen(stored: Stored, source: Source) -> NumberArray:
    """Return the values in a format for computing, natively ordered and contiguous."""
    values = stored.values
    if stored.dtype == "bfloat16":
        source.afford(4 * values.size)
        wide = values.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    if values.dtype.kind in "iub":
        source.afford(8 * values.size)
        if values.dtype.itemsize == 8:
            for extreme in (int(values.min()), int(values.max())):
                if abs(extreme) > _LARGEST_EXACT:
                    raise InvalidInput(
                        f"{source.name} holds the integer {extreme}: "
                        "beyond 2**53 not every integer is a float64"
                    )
        if values.dtype.kind == "b":
            values = values.view(np.uint8) != 0  # a byte of 2 is true, and must not become 2.0
        return values.astype(np.float64, order="C")
    native = values.dtype.newbyteorder("=")
    flags = values.flags
    if not (values.dtype.isnative and flags.c_contiguous and flags.aligned):
        source.afford(values.nbytes)
    return np.require(values, native, ["C", "A"])
