"""NumPy's ``.npy``: a header of shape and dtype, then the values."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.matrix import ByteSink, Format, Matrix, write_values
from posenc_cli.files.source import CHUNK, ArrayHeader, Source, Stored, value_count
from posenc_cli.records import Record

if TYPE_CHECKING:
    import numpy as np


_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16  # bytes: that of a plain array has about 100
_LONGEST_LENGTH = 19  # digits: 2^63 has no more

# The header is a Python literal. Parsing it as Python would pass the nesting and integers of an
# untrusted file to the compiler. So its few legal forms are matched instead; possessive quantifiers
# keep the match linear. Python 2 wrote lengths as `3L`. Patterns are compiled only when a file is
# read; most commands never do.
_KEY = rb"""(?:'(?:descr|fortran_order|shape)'|"(?:descr|fortran_order|shape)")"""
_TEXT = rb"""(?:'[^'\\\n]*+'|"[^"\\\n]*+")"""
_LENGTH = rb"-?[0-9]++L?+\s*+"
_SHAPE = rb"\(\s*+(?:" + _LENGTH + rb"(?:,\s*+" + _LENGTH + rb")*+(?:,\s*+)?+)?+\)"
_ENTRY = rb"(" + _KEY + rb")\s*+:\s*+(" + _TEXT + rb"|True|False|" + _SHAPE + rb")"
_HEADER = rb"\s*+\{\s*+" + _ENTRY + rb"(?:\s*+,\s*+" + _ENTRY + rb")*+\s*+(?:,\s*+)?+\}\s*+"
_STRUCTURED = rb"""['"]descr['"]\s*+:\s*+\["""

_NUMBERS = (
    r"[<>=|]?(?:b1|\?|[iu][1248]|f[248]|c8|c16)"
    r"|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)"
)
_REFUSED = {
    "O": "Python objects",
    "U": "strings",
    "S": "byte strings",
    "a": "byte strings",
    "V": "raw bytes",
    "M": "dates",
    "m": "time spans",
}
_EXTENDED = r"[<>=|]?(?:f(?P<float>\d+)|c\d+)"
"""Numbers wider than float64, whose format differs between machines."""


def check(matrix: Matrix, name: str = "npy") -> None:
    """Refuse bfloat16, which NumPy, and so the format called ``name``, lacks.

    Raises: InvalidInput.
    """
    if matrix.dtype.name == "bfloat16":
        raise InvalidInput(
            f"--dtype bfloat16: {name} cannot hold bfloat16",
            hint="use --format safetensors, or --dtype float32 --round-to bfloat16",
        )


def size(matrix: Matrix) -> int:
    """Return the exact size of the file in bytes."""
    return len(_header_bytes(matrix)) + matrix.nbytes


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write ``matrix``, requesting its blocks one at a time."""
    stream.write(_header_bytes(matrix))
    write_values(stream, matrix)


def _header_bytes(matrix: Matrix) -> bytes:
    """Return the bytes before the values: format version 1.0, as ``np.save`` writes them."""
    from numpy.lib import format as npy_format

    stream = io.BytesIO()
    npy_format.write_array_header_1_0(
        stream,
        {
            "descr": npy_format.dtype_to_descr(matrix.dtype.numpy),
            "fortran_order": False,
            "shape": matrix.shape,
        },
    )
    return stream.getvalue()


class Header(Record):
    """The header of a .npy; ``size`` is its length in bytes, and ``nbytes`` that of the values."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    size: int
    nbytes: int


def read(source: Source) -> Stored:
    """Return the array of a .npy file; a large regular file is mapped, not read.

    Raises:
        InvalidInput: the file is malformed, or holds something other than numbers.
    """
    import numpy as np

    header = read_header(source)
    if source.size is not None:
        check_size(source.name, header, source.size)
    if source.mapped:
        count = header.nbytes // header.dtype.itemsize
        flat = np.frombuffer(source.whole(), header.dtype, count=count, offset=header.size)
    else:
        source.afford(header.nbytes)
        flat = np.frombuffer(_values(source, header), header.dtype)
    return Stored(
        flat.reshape(header.shape, order="F" if header.fortran_order else "C"), header.dtype.name
    )


def headers(source: Source) -> tuple[ArrayHeader, ...]:
    """Return the header's description of the array of a .npy file.

    Raises: InvalidInput if it is malformed, or does not fit the file.
    """
    header = read_header(source)
    if source.size is not None:
        check_size(source.name, header, source.size)
    return (ArrayHeader("", header.shape, header.dtype.name),)


def check_size(name: str, header: Header, size: int) -> None:
    """Check that a .npy of ``size`` bytes is exactly its header and the values.

    Raises:
        InvalidInput: it is shorter or longer.
    """
    held = size - header.size
    if held < header.nbytes:
        raise InvalidInput(
            f"{name} is truncated: its header promises {header.nbytes} bytes of values, "
            f"{held} are there"
        )
    if held > header.nbytes:
        raise InvalidInput(f"{name} has {held - header.nbytes} bytes after the end of its array")


def _values(source: Source, header: Header) -> bytearray:
    """Return the bytes after the header, in memory that grows as they arrive.

    Raises:
        InvalidInput: there are fewer or more than the header promises.
    """
    gathered = bytearray()
    while chunk := source.read(min(CHUNK, header.nbytes - len(gathered))):
        gathered += chunk
    # Request one more byte in any case: an archive verifies its checksum at the end of a member.
    beyond = len(source.read(1))
    check_size(source.name, header, header.size + len(gathered) + beyond)
    return gathered


def read_header(source: Source) -> Header:
    """Read and return the header at the start of a .npy.

    Raises:
        InvalidInput: it is malformed, or describes something other than an array of numbers.
    """
    name = source.name
    start = source.start(len(_MAGIC) + 2)
    if start[: len(_MAGIC)] != _MAGIC[: len(start)]:
        raise InvalidInput(f"{name} is not a .npy array: it does not start as one does")
    if len(start) < len(_MAGIC) + 2:
        raise InvalidInput(f"{name} is truncated within its header")
    version = (start[-2], start[-1])
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise InvalidInput(
            f"{name} is .npy of the unknown version {version[0]}.{version[1]}; "
            "1.0, 2.0 and 3.0 are read"
        )
    width = 2 if version == (1, 0) else 4
    text = source.header(len(start), width, _LONGEST_HEADER)
    dtype, fortran_order, shape = _parse(text, name)
    count = value_count(name, shape)
    size = len(source.read(len(start) + width + len(text)))
    return Header(dtype, shape, fortran_order, size, count * dtype.itemsize)


def _parse(text: bytes, name: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    if re.search(_STRUCTURED, text):
        raise InvalidInput(f"{name} holds a structured array (named fields), not plain numbers")
    entries = re.findall(_ENTRY, text) if re.fullmatch(_HEADER, text) else []
    given = {key[1:-1]: value for key, value in entries}
    if len(entries) != 3 or len(given) != 3:
        raise InvalidInput(f"{name} has a malformed header")
    descr, order, shape = given[b"descr"], given[b"fortran_order"], given[b"shape"]
    if descr[:1] not in (b"'", b'"') or order not in (b"True", b"False") or shape[:1] != b"(":
        raise InvalidInput(f"{name} has a malformed header")
    dtype = _number_format(descr[1:-1].decode("latin-1"), name)
    return dtype, order == b"True", _lengths(shape, name)


def _lengths(shape: bytes, name: str) -> tuple[int, ...]:
    lengths = re.findall(rb"-?[0-9]+", shape)
    if any(length.startswith(b"-") for length in lengths):
        raise InvalidInput(f"{name} has a negative length in its shape")
    if any(len(length) > _LONGEST_LENGTH for length in lengths):
        raise InvalidInput(
            f"{name} has a length of more than {_LONGEST_LENGTH} digits in its shape"
        )
    return tuple(int(length) for length in lengths)


def _number_format(descr: str, name: str) -> np.dtype[Any]:
    if re.fullmatch(_NUMBERS, descr):
        import numpy as np

        return np.dtype(descr)
    dtype = f"(dtype {quoted_name(descr[:40])})"
    extended = re.fullmatch(_EXTENDED, descr)
    if extended is not None:
        kind, double = (
            ("floats", "float64") if extended["float"] else ("complex numbers", "complex128")
        )
        raise InvalidInput(
            f"{name} holds extended-precision {kind} {dtype}, a format that posenc does not read",
            hint=f"save {double}: np.save(file, array.astype(np.{double}))",
        )
    content = _REFUSED.get(descr.lstrip("<>=|")[:1], "an unknown kind of values")
    hint = None
    if descr.lstrip("<>=|") == "V2":
        hint = "NumPy saves bfloat16 as raw bytes: save it as .safetensors, or as float32"
    elif content == "Python objects":
        hint = (
            "objects are pickled, and reading a pickle can run any code: save an array of numbers"
        )
    raise InvalidInput(f"{name} holds {content} {dtype}, not numbers", hint=hint)


FORMAT = Format(
    "npy",
    content="an .npy array",
    summary="one NumPy array",
    check=check,
    write=write,
    size=size,
    read=read,
    headers=headers,
    recognizes=lambda head: head.startswith(_MAGIC),
    other_suffixes=(),
    binary=True,
    holds_several=False,
)
