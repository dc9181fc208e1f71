"""GGUF, llama.cpp's format: the header, and the small tensors that concern positions.

The reader does not trust the header: it compares counts and lengths with the bytes that are left.
It keeps nothing longer than a name, and reads only the requested tensors. It reads versions 1 to 3,
of either byte order, from files and from pipes.

Source: the format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; version 1 had 32 bits
where the others have 64 (https://github.com/ggml-org/llama.cpp/pull/2821).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.files.matrix import InputFormat
from posenc_cli.files.source import ArrayHeader, Source, Stored, select_member, value_count
from posenc_cli.records import Record, fresh

MAGIC = b"GGUF"

_CHUNK = 1 << 18
_LARGEST_HEADER = 64 << 20  # bytes; 262,144 tokens and their merges take a quarter of it
_MOST_STRINGS = 4 << 20  # in all arrays together; a vocabulary and its merges have about 800,000
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 16  # the largest models, with one tensor per expert, have about 50,000
_LONGEST_NAME = 256  # bytes; ggml's own names have at most 63
_LONGEST_TEXT = 1024
_LONGEST_LIST = 4096  # items of an array that are kept: numbers per layer, or per pair
_LONGEST_SKIP = 1 << 30  # bytes of a stream that are read to reach a tensor
_AXES = 4
_ALIGNMENT = 32

_ARRAY, _STRING, _BOOL = 9, 8, 7
_CODES = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "?"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
"""By type code: the name of the type, and its struct code."""

NUMBERS = {0: ("float32", "f"), 1: ("float16", "e"), 28: ("float64", "d"), 30: ("bfloat16", "H")}
"""By ggml code: the number formats of tensors that are not quantized."""

_BLOCKS = {
    code: (numbers, size)
    for numbers, sizes in {
        1: {0: 4, 1: 2, 24: 1, 25: 2, 26: 4, 27: 8, 28: 8, 30: 2},
        32: {2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 9: 36, 20: 18, 39: 17},
        64: {40: 36},
        256: {10: 84, 11: 110, 12: 144, 13: 176, 14: 210, 15: 292, 16: 66, 17: 74, 18: 98, 19: 50}
        | {21: 110, 22: 82, 23: 136, 29: 56, 34: 54, 35: 66},
    }.items()
    for code, size in sizes.items()
}
"""By ggml code: how many numbers share how many bytes.

Source: ``GGML_QUANT_SIZES`` of the gguf package 0.19. It states 40 bytes for Q8_1, which no file
uses; ggml has 36.
"""


class GGUFValue(Record):
    """A value of the metadata: its type (``uint32``, ``array of int32``), and the value itself.

    ``value`` is None if it is too long to be kept: long texts, and above all arrays of texts.
    """

    type: str
    value: Any


class GGUFTensor(Record):
    """A tensor as the header describes it; ``shape`` has the slowest axis first, as in NumPy."""

    name: str
    shape: tuple[int, ...]
    code: int
    offset: int

    @property
    def values(self) -> int:
        """The number of values it holds."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """The number of bytes it takes; at least one if the format is unknown."""
        numbers, size = _BLOCKS.get(self.code, (max(1, self.values), 1))
        return -(-self.values // numbers) * size


class GGUFHeader(Record):
    """The header of a GGUF file: its metadata by key, its tensors by name.

    ``name`` is the name of the file in errors. ``numbers`` are those of the requested tensors.
    ``start`` is the offset of all data. ``missing`` is how many tensors do not end within the file.
    ``absent`` are the missing shards of the model, counted from 1.
    """

    name: str
    version: int
    big_endian: bool
    metadata: Mapping[str, GGUFValue]
    tensors: Mapping[str, GGUFTensor]
    start: int
    numbers: Mapping[str, tuple[float, ...]] = fresh(dict)
    missing: int = 0
    absent: tuple[int, ...] = ()


def read_gguf(
    file: BinaryIO, *, name: str, size: int | None, asked: Sequence[str] = (), ahead: bytes = b""
) -> GGUFHeader:
    """Return the header of an open file, and the numbers of the tensors ``asked`` for, if present.

    ``ahead`` are bytes of it that were read already; ``size`` is None for a stream.

    Raises: InvalidInput if it is malformed, too long to be a header, or ends too soon.
    """
    data = _Bytes(file, name, size, ahead)
    version, big_endian = _version(data)
    reader = _HeaderReader(data, version, ">" if big_endian else "<")
    tensor_count, key_count = reader.count(), reader.count()
    for count, most, what in (
        (key_count, _MOST_KEYS, "keys"),
        (tensor_count, _MOST_TENSORS, "tensors"),
    ):
        if count > most:
            raise InvalidInput(f"{name}: claims {count} {what}; at most {most} are read")
    metadata = dict(reader.metadata(key_count))
    tensors = dict(reader.tensors(tensor_count))
    alignment = _alignment(name, metadata)
    start = -(-data.position // alignment) * alignment
    wanted = [tensors[tensor] for tensor in asked if tensor in tensors]
    numbers = {
        tensor.name: reader.numbers(tensor, start + tensor.offset)
        for tensor in sorted(wanted, key=lambda tensor: tensor.offset)
    }
    ends = [start + each.offset + each.size for each in tensors.values()]
    past = 0 if size is None else sum(end > size for end in ends)
    return GGUFHeader(name, version, big_endian, metadata, tensors, start, numbers, past)


def _version(data: _Bytes) -> tuple[int, bool]:
    """Return the version of the format, and whether the file is big-endian."""
    if data.take(4) != MAGIC:
        raise InvalidInput(f"{data.name} is not a GGUF file: it does not begin with GGUF")
    number = data.take(4)
    for order in ("little", "big"):
        version = int.from_bytes(number, order)
        if 1 <= version <= 3:
            return version, order == "big"
    raise InvalidInput(
        f"{data.name} is GGUF of version {int.from_bytes(number, 'little')}; posenc reads 1 to 3"
    )


def _alignment(name: str, metadata: Mapping[str, GGUFValue]) -> int:
    """Return the alignment of the tensors.

    Raises: InvalidInput if it is not a power of 2.
    """
    stated = metadata.get("general.alignment")
    if stated is None:
        return _ALIGNMENT
    value = stated.value
    if type(value) is not int or value < 1 or value & (value - 1):
        raise InvalidInput(f"{name}: general.alignment {value}: must be a power of 2")
    return value


class _Bytes:
    """The bytes of a file or a stream, in order."""

    def __init__(self, file: BinaryIO, name: str, size: int | None, ahead: bytes) -> None:
        self.file, self.name, self.size = file, name, size
        self.buffer, self.at = ahead, 0
        self.before = 0  # bytes of the file before the buffer

    @property
    def position(self) -> int:
        """The number of bytes taken or skipped."""
        return self.before + self.at

    def expect(self, count: int, what: str) -> None:
        """Check that the file has ``count`` more bytes, and that its header may be that long.

        Raises: InvalidInput.
        """
        end = self.position + count
        if self.size is not None and end > self.size:
            left = self.size - self.position
            raise InvalidInput(f"{self.name}: claims {what}, and only {left} bytes are left")
        if end > _LARGEST_HEADER:
            raise InvalidInput(
                f"{self.name}: claims {what}; headers of at most {_LARGEST_HEADER >> 20} MiB are "
                "read"
            )

    def fill(self, count: int) -> None:
        """Read until the buffer has ``count`` bytes.

        Raises: InvalidInput if the file ends before that.
        """
        rest = self.buffer[self.at :]
        self.before, self.at = self.position, 0
        pieces, have = [rest], len(rest)
        while have < count:
            piece = self.file.read(max(_CHUNK, count - have))
            if not piece:
                self.buffer = b"".join(pieces)
                raise InvalidInput(
                    f"{self.name} ends within its header (byte {self.before + have})"
                )
            pieces.append(piece)
            have += len(piece)
        self.buffer = b"".join(pieces)

    def take(self, count: int) -> bytes:
        """Return the next bytes, which must exist."""
        if len(self.buffer) - self.at < count:
            self.fill(count)
        self.at += count
        return self.buffer[self.at - count : self.at]

    def skip(self, count: int) -> None:
        """Skip bytes; in a regular file they are not read."""
        here = len(self.buffer) - self.at
        if count <= here:
            self.at += count
            return
        if self.size is not None:
            target = self.position + count
            self.file.seek(target)
            self.before, self.buffer, self.at = target, b"", 0
            return
        while count:
            if self.at == len(self.buffer):
                self.fill(1)
            step = min(count, len(self.buffer) - self.at)
            self.at += step
            count -= step


class _HeaderReader:
    """Parses the bytes of a header by the rules of the format."""

    def __init__(self, data: _Bytes, version: int, order: str) -> None:
        self.data, self.name = data, data.name
        self.length = struct.Struct(order + ("I" if version == 1 else "Q"))
        self.order = order
        self.strings = 0

    def unpack(self, code: str, count: int = 1) -> tuple[Any, ...]:
        """Return numbers of one format."""
        form = struct.Struct(f"{self.order}{count}{code}")
        return form.unpack(self.data.take(form.size))

    def count(self) -> int:
        """Return a count or a length."""
        return int(self.length.unpack(self.data.take(self.length.size))[0])

    def text(self, what: str, longest: int = _LONGEST_NAME) -> str:
        """Return a name.

        Raises: InvalidInput if it is longer than names are, or not UTF-8.
        """
        length = self.count()
        if length > longest:
            raise InvalidInput(f"{self.name}: claims {what} of {length} bytes; {longest} are read")
        self.data.expect(length, f"{what} of {length} bytes")
        try:
            return self.data.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"{self.name}: {what} is not UTF-8 text") from None

    def metadata(self, count: int) -> Iterator[tuple[str, GGUFValue]]:
        """Yield the keys and their values.

        Raises: InvalidInput if they are malformed, or a key is a duplicate.
        """
        seen = set()
        least = self.length.size + 5  # bytes of a key without a name, and of its value
        self.data.expect(count * least, f"{count} keys")
        for _ in range(count):
            key = self.text("a key")
            if key in seen:
                raise InvalidInput(f"{self.name}: duplicate key {abbreviated(key)}")
            seen.add(key)
            yield key, self.value(key)

    def value(self, key: str) -> GGUFValue:
        """Return the value of a key."""
        (code,) = self.unpack("I")
        if code == _STRING:
            return GGUFValue("string", self.string(key))
        if code == _ARRAY:
            return self.array(key)
        kind, form = self.kind(code, key)
        return GGUFValue(kind, self.unpack(form)[0])

    def kind(self, code: int, key: str) -> tuple[str, str]:
        """Return the name of a numeric type, and its struct code."""
        if code not in _CODES:
            raise InvalidInput(f"{self.name}: {abbreviated(key)} has a type {code} that GGUF lacks")
        return _CODES[code]

    def string(self, key: str) -> str | None:
        """Return a text, or None if it is long or not UTF-8."""
        length = self.count()
        self.data.expect(length, f"a text of {length} bytes for {abbreviated(key)}")
        if length > _LONGEST_TEXT:
            self.data.skip(length)
            return None
        try:
            return self.data.take(length).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def array(self, key: str) -> GGUFValue:
        """Return an array; its items are kept only if they are few numbers."""
        (code,) = self.unpack("I")
        count = self.count()
        what = f"an array of {count} items for {abbreviated(key)}"
        if code == _ARRAY:
            raise InvalidInput(f"{self.name}: {abbreviated(key)} is an array of arrays")
        if code == _STRING:
            self.data.expect(count * self.length.size, what)
            self.skip_strings(count, key)
            return GGUFValue("array of string", None)
        kind, form = self.kind(code, key)
        width = struct.calcsize(f"={form}")
        self.data.expect(count * width, what)
        if count > _LONGEST_LIST:
            self.data.skip(count * width)
            return GGUFValue(f"array of {kind}", None)
        return GGUFValue(f"array of {kind}", self.unpack(form, count))

    def skip_strings(self, count: int, key: str) -> None:
        """Skip texts, reading only their lengths."""
        self.strings += count
        if self.strings > _MOST_STRINGS:
            raise InvalidInput(
                f"{self.name}: claims {self.strings} texts in arrays; {_MOST_STRINGS} are read"
            )
        data, unpack, width = self.data, self.length.unpack_from, self.length.size
        buffer, at, end = data.buffer, data.at, len(data.buffer)
        for _ in range(count):
            if at + width > end:
                data.at = at
                data.fill(width)
                buffer, at, end = data.buffer, data.at, len(data.buffer)
            (length,) = unpack(buffer, at)
            at += width + length
            if at > end:
                data.at = at - length
                data.expect(length, f"a text of {length} bytes in {abbreviated(key)}")
                data.skip(length)
                buffer, at, end = data.buffer, data.at, len(data.buffer)
        data.at = at
        data.expect(0, f"the texts of {abbreviated(key)}")

    def tensors(self, count: int) -> Iterator[tuple[str, GGUFTensor]]:
        """Yield the tensors by name.

        Raises: InvalidInput if they are malformed, or a name is a duplicate.
        """
        seen = set()
        self.data.expect(count * (self.length.size + 16), f"{count} tensors")
        for _ in range(count):
            name = self.text("the name of a tensor")
            if name in seen:
                raise InvalidInput(f"{self.name}: the tensor {abbreviated(name)} occurs twice")
            seen.add(name)
            (axes,) = self.unpack("I")
            if axes > _AXES:
                raise InvalidInput(
                    f"{self.name}: the tensor {abbreviated(name)} has {axes} axes; ggml has {_AXES}"
                )
            shape = tuple(self.count() for _ in range(axes))
            code, offset = *self.unpack("I"), *self.unpack("Q")
            yield name, GGUFTensor(name, shape[::-1], code, offset)

    def numbers(self, tensor: GGUFTensor, position: int) -> tuple[float, ...]:
        """Return the numbers of a small tensor.

        Raises: InvalidInput if it is quantized or large, or lies past the end of the file.
        """
        what = f"{self.name}: the tensor {abbreviated(tensor.name)}"
        if tensor.code not in NUMBERS:
            raise InvalidInput(f"{what} is quantized (ggml's type {tensor.code})")
        if tensor.values > _LONGEST_LIST:
            raise InvalidInput(f"{what} has {tensor.values} numbers: a pair has one")
        dtype, form = NUMBERS[tensor.code]
        data, width = self.data, struct.calcsize(f"={form}")
        if data.size is not None and position + width * tensor.values > data.size:
            raise InvalidInput(f"{what} lies past the end of the file, which is incomplete")
        gap = position - data.position
        if gap < 0:
            raise InvalidInput(f"{what} overlaps another, or the header")
        if data.size is None and gap > _LONGEST_SKIP:
            raise InvalidInput(
                f"{what} lies {gap} bytes on in a stream",
                hint="give the name of the file instead of a stream",
            )
        data.skip(gap)
        values = self.unpack(form, tensor.values)
        if dtype == "bfloat16":
            bits = struct.pack(f"={tensor.values}I", *(value << 16 for value in values))
            values = struct.unpack(f"={tensor.values}f", bits)
        return tuple(map(float, values))


_STORAGE = {"float32": "f4", "float16": "f2", "float64": "f8", "bfloat16": "u2"}
"""How NumPy stores each number format, without the byte order."""


def headers(source: Source) -> tuple[ArrayHeader, ...]:
    """Return the header's description of each tensor.

    Raises: InvalidInput if the header is malformed.
    """
    size = source.size if source.regular else None
    header = read_gguf(source.seekable(), name=source.name, size=size)
    return tuple(
        ArrayHeader(
            tensor.name, tensor.shape, NUMBERS.get(tensor.code, (f"ggml type {tensor.code}",))[0]
        )
        for tensor in header.tensors.values()
    )


def read(source: Source) -> Stored:
    """Return the requested tensor of a GGUF file, if it is not quantized.

    Raises: InvalidInput if the file is malformed, or holds no such tensor of numbers.
    """
    import io

    import numpy as np

    content = source.whole()
    file = source.seekable() if source.regular else io.BytesIO(content)
    header = read_gguf(file, name=source.name, size=len(content))
    tensors = header.tensors
    chosen = select_member(
        source,
        [*tensors],
        numeric=lambda name: tensors[name].code in NUMBERS and bool(tensors[name].shape),
    )
    tensor = tensors[chosen]
    name = f"{source.name} tensor {quoted_name(chosen)}"
    if tensor.code not in NUMBERS:
        raise InvalidInput(f"{name} is quantized (ggml's type {tensor.code})")
    dtype = NUMBERS[tensor.code][0]
    storage = np.dtype((">" if header.big_endian else "<") + _STORAGE[dtype])
    count, start = value_count(name, tensor.shape), header.start + tensor.offset
    if start + count * storage.itemsize > len(content):
        raise InvalidInput(f"{name} lies past the end of the file, which is incomplete")
    return Stored(
        np.frombuffer(content, storage, count=count, offset=start).reshape(tensor.shape), dtype
    )


FORMAT = InputFormat(
    "gguf",
    content="a GGUF model",
    read=read,
    headers=headers,
    recognizes=lambda head: head.startswith(MAGIC),
    other_suffixes=(),
    binary=True,
    holds_several=True,
)
