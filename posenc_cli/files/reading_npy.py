"""Reads .npy: a header that is matched, never evaluated, then the values it describes.

Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.reading_source import CHUNK, MAPPED_FROM, Source, Stored, value_count
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MAGIC = b"\x93NUMPY"

# The header is a literal of Python. Parsing it as Python would hand the nesting and the integers
# of a stranger's file to the compiler, so its few legal forms are matched instead: possessive
# quantifiers keep the match linear. Python 2 wrote lengths as `3L`.
_KEY = rb"""(?:'(?:descr|fortran_order|shape)'|"(?:descr|fortran_order|shape)")"""
_TEXT = rb"""(?:'[^'\\\n]*+'|"[^"\\\n]*+")"""
_LENGTH = rb"-?[0-9]++L?+\s*+"
_SHAPE = rb"\(\s*+(?:" + _LENGTH + rb"(?:,\s*+" + _LENGTH + rb")*+(?:,\s*+)?+)?+\)"
_ENTRY = rb"(" + _KEY + rb")\s*+:\s*+(" + _TEXT + rb"|True|False|" + _SHAPE + rb")"
_HEADER = re.compile(
    rb"\s*+\{\s*+" + _ENTRY + rb"(?:\s*+,\s*+" + _ENTRY + rb")*+\s*+(?:,\s*+)?+\}\s*+"
)
_ENTRIES = re.compile(_ENTRY)
_LENGTHS = re.compile(rb"-?[0-9]+")
_STRUCTURED = re.compile(rb"""['"]descr['"]\s*+:\s*+\[""")
_LONGEST_HEADER = 1 << 16
_LONGEST_LENGTH = 19

_NUMBERS = re.compile(
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
_EXTENDED = re.compile(r"[<>=|]?(?:f(?P<float>\d+)|c\d+)")
"""Numbers past float64, whose format differs from machine to machine."""


class Header(Record):
    """What the header of a .npy promises; ``size`` counts its own bytes, ``nbytes`` the values'."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    size: int
    nbytes: int

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the flat values in their shape."""
        return values.reshape(self.shape, order="F" if self.fortran_order else "C")


def read(source: Source) -> Stored:
    """Return the array of a .npy file; a large regular file is mapped, not read.

    Raises:
        InvalidInput: the file is malformed, or holds something else than numbers.
    """
    header = read_header(source.read, source.name)
    if source.size is not None:
        check_size(source.name, header, source.size)
    if source.size is not None and source.size >= MAPPED_FROM:
        flat = np.frombuffer(
            source.whole(),
            header.dtype,
            count=header.nbytes // header.dtype.itemsize,
            offset=header.size,
        )
    else:
        source.afford(header.nbytes)
        flat = read_values(source.read, source.name, header)
    return Stored(header.arrange(flat), header.dtype.name)


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


def read_values(read: Callable[[int], bytes], name: str, header: Header) -> NDArray[Any]:
    """Return the values after the header, flat, in memory that grows as they arrive.

    Raises:
        InvalidInput: there are fewer or more bytes than the header promises.
    """
    gathered = bytearray()
    while chunk := read(min(CHUNK, header.nbytes - len(gathered))):
        gathered += chunk
    # One byte more is asked for even so: an archive checks its checksum at the end of a member.
    beyond = len(read(1))
    check_size(name, header, header.size + len(gathered) + beyond)
    return np.frombuffer(gathered, header.dtype)


def read_header(read: Callable[[int], bytes], name: str) -> Header:
    """Return the header at the start of a .npy.

    Raises:
        InvalidInput: it is malformed, or describes something else than an array of numbers.
    """
    start = read(len(MAGIC) + 2)
    if not start:
        raise InvalidInput(f"{name} is empty: it holds no bytes")
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise InvalidInput(f"{name} is not a .npy array: it does not start as one does")
    if len(start) < len(MAGIC) + 2:
        raise InvalidInput(f"{name} is truncated within its header")
    version = (start[-2], start[-1])
    if version not in {(1, 0), (2, 0), (3, 0)}:
        raise InvalidInput(
            f"{name} is .npy of the unknown version {version[0]}.{version[1]}; "
            "1.0, 2.0 and 3.0 are read"
        )
    width = 2 if version == (1, 0) else 4
    prefix = read(width)
    length = int.from_bytes(prefix, "little")
    if length > _LONGEST_HEADER:
        raise InvalidInput(
            f"{name} claims a header of {length} bytes; at most {_LONGEST_HEADER} are read"
        )
    text = read(length)
    if len(prefix) < width or len(text) < length:
        raise InvalidInput(f"{name} is truncated within its header")
    dtype, fortran_order, shape = _parse(text, name)
    count = value_count(name, shape)
    size = len(start) + width + length
    return Header(dtype, shape, fortran_order, size, count * dtype.itemsize)


def _parse(text: bytes, name: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    if _STRUCTURED.search(text):
        raise InvalidInput(f"{name} holds a structured array (named fields), not plain numbers")
    entries = _ENTRIES.findall(text) if _HEADER.fullmatch(text) else []
    given = {key[1:-1]: value for key, value in entries}
    if len(entries) != 3 or len(given) != 3:
        raise InvalidInput(f"{name} has a malformed header")
    descr, order, shape = given[b"descr"], given[b"fortran_order"], given[b"shape"]
    if descr[:1] not in (b"'", b'"') or order not in (b"True", b"False") or shape[:1] != b"(":
        raise InvalidInput(f"{name} has a malformed header")
    dtype = _number_format(descr[1:-1].decode("latin-1"), name)
    return dtype, order == b"True", _lengths(shape, name)


def _lengths(shape: bytes, name: str) -> tuple[int, ...]:
    lengths = _LENGTHS.findall(shape)
    if any(length.startswith(b"-") for length in lengths):
        raise InvalidInput(f"{name} has a negative length in its shape")
    if any(len(length) > _LONGEST_LENGTH for length in lengths):
        raise InvalidInput(
            f"{name} has a length of more than {_LONGEST_LENGTH} digits in its shape"
        )
    return tuple(int(length) for length in lengths)


def _number_format(descr: str, name: str) -> np.dtype[Any]:
    if _NUMBERS.fullmatch(descr):
        return np.dtype(descr)
    extended = _EXTENDED.fullmatch(descr)
    if extended is not None:
        kind, double = (
            ("floats", "float64") if extended["float"] else ("complex numbers", "complex128")
        )
        raise InvalidInput(
            f"{name} holds extended-precision {kind} (dtype {quoted_name(descr[:40])}), a format "
            "that posenc does not read",
            hint=f"save {double}: np.save(file, array.astype(np.{double}))",
        )
    what = _REFUSED.get(descr.lstrip("<>=|")[:1], "an unknown kind of values")
    hint = None
    if descr.lstrip("<>=|") == "V2":
        hint = "NumPy saves bfloat16 as raw bytes: save it as .safetensors, or as float32"
    elif what == "Python objects":
        hint = (
            "objects are pickled, and reading a pickle can run any code: save an array of numbers"
        )
    raise InvalidInput(
        f"{name} holds {what} (dtype {quoted_name(descr[:40])}), not numbers", hint=hint
    )
