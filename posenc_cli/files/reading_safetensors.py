"""Reads one tensor of a .safetensors file, bfloat16 included.

The safetensors library checks the file as a whole; the values are then taken from the file itself,
because the library's NumPy reader has no bfloat16 and copies what could be mapped.
Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.files.reading_source import Source, Stored, select_member, value_count
from posenc_cli.records import Record

_FORMATS = {
    "F16": ("float16", "<f2"),
    "BF16": ("bfloat16", "<u2"),
    "F32": ("float32", "<f4"),
    "F64": ("float64", "<f8"),
    "C64": ("complex64", "<c8"),
    "BOOL": ("bool", "|b1"),
    "I8": ("int8", "|i1"),
    "I16": ("int16", "<i2"),
    "I32": ("int32", "<i4"),
    "I64": ("int64", "<i8"),
    "U8": ("uint8", "|u1"),
    "U16": ("uint16", "<u2"),
    "U32": ("uint32", "<u4"),
    "U64": ("uint64", "<u8"),
}

_LONGEST_HEADER = 8 << 20


class _TensorEntry(Record):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read(source: Source) -> Stored:
    """Return the tensor that is meant in a .safetensors file; a large file is mapped, not read.

    Raises:
        InvalidInput: the file is malformed, or holds no such tensor of numbers.
    """
    length = _header_length(source)
    content = source.whole()
    tensors = _tensors(bytes(content[8 : 8 + length]), source.name)
    _check(source, content)
    if not tensors:
        raise InvalidInput(f"{source.name} is empty: it holds no tensors")

    def numeric(name: str) -> bool:
        return tensors[name].dtype in _FORMATS and bool(tensors[name].shape)

    chosen = select_member(source, list(tensors), numeric=numeric)
    tensor = tensors[chosen]
    name = f"{source.name} tensor {quoted_name(chosen)}"
    if tensor.dtype not in _FORMATS:
        raise InvalidInput(
            f"{name} is {quoted_name(tensor.dtype[:40])}, a number format posenc lacks"
        )
    dtype, storage = _FORMATS[tensor.dtype]
    count = value_count(name, tensor.shape)
    start, stop = 8 + length + tensor.begin, 8 + length + tensor.end
    if stop - start != count * np.dtype(storage).itemsize or stop > len(content):
        raise InvalidInput(f"{name} has offsets that do not fit its shape")
    flat = np.frombuffer(content, storage, count=count, offset=start)
    return Stored(flat.reshape(tensor.shape), dtype)


def _header_length(source: Source) -> int:
    start = source.peek(8)
    if not start:
        raise InvalidInput(f"{source.name} is empty: it holds no bytes")
    length = int.from_bytes(start, "little")
    if length > _LONGEST_HEADER:
        raise InvalidInput(
            f"{source.name} claims a header of {length} bytes; at most {_LONGEST_HEADER} are read"
        )
    if len(source.peek(8 + length)) < 8 + length:
        raise InvalidInput(f"{source.name} is truncated within its header")
    return length


def _tensors(text: bytes, name: str) -> dict[str, _TensorEntry]:
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        return {key: _tensor(**value) for key, value in header.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(f"{name} has a malformed header") from None


def _tensor(*, dtype: Any, shape: Any, data_offsets: Any) -> _TensorEntry:
    begin, end = data_offsets
    lengths = (*shape, begin, end)
    if not isinstance(dtype, str) or any(type(n) is not int or n < 0 for n in lengths):
        raise ValueError
    return _TensorEntry(dtype, tuple(shape), begin, end)


def _check(source: Source, content: Any) -> None:
    """Let the library check that the tensors fill the data without gaps or overlaps."""
    try:
        import safetensors
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"cannot read {source.name}: the safetensors library does not load",
            hint="reinstall it: pip install safetensors",
        ) from error
    try:
        if source.size is None:
            safetensors.deserialize(content)  # type: ignore[no-untyped-call]
        else:
            with safetensors.safe_open(source.path, framework="numpy"):
                pass
    except (KeyboardInterrupt, SystemExit, OSError, MemoryError):
        raise
    except BaseException:  # a panic of the Rust library derives from BaseException
        raise InvalidInput(
            f"{source.name} has tensors that overlap, leave gaps, or do not fit its data"
        ) from None
