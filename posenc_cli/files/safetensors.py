"""The ``.safetensors`` format: tensors of any number format, bfloat16 included, and metadata.

posenc writes it as a stream, because the library accepts only whole tensors. The library checks
each file that is read as a whole. The values are then read from the file itself, because the
library's NumPy reader lacks bfloat16 and copies data that could be mapped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.files.matrix import ByteSink, Format, Matrix, write_values
from posenc_cli.files.source import ArrayHeader, Source, Stored, select_member, value_count
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping, Sequence


_DTYPES = {
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
"""By its code: the name of each number format and how NumPy stores it."""

_CODES = {name: code for code, (name, _) in _DTYPES.items()}
_LONGEST_HEADER = 8 << 20  # bytes: about 80,000 tensors


def check(matrix: Matrix) -> None:
    """Refuse a matrix that a ``.safetensors`` file cannot hold.

    Raises: InvalidInput: a dtype without a code, such as complex128.
    """
    unknown = [array.dtype.name for array in matrix.arrays if array.dtype.name not in _CODES]
    if unknown:
        raise InvalidInput(
            f"--dtype {unknown[0]}: safetensors cannot hold {unknown[0]}",
            hint="use --format npy, or --dtype float32 (complex64), or --table interleaved",
        )


def size(matrix: Matrix) -> int:
    """Return the exact size of the file in bytes."""
    return len(header(matrix)) + sum(array.nbytes for array in matrix.arrays)


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write each array as a tensor of its name, and the metadata in the header."""
    stream.write(header(matrix))
    for array in matrix.arrays:
        write_values(stream, array)


def header(matrix: Matrix) -> bytes:
    """Return the length of the JSON in 8 bytes, then the JSON, space-padded to a multiple of 8.

    Source: the safetensors format, https://github.com/huggingface/safetensors#format.
    """
    import json

    entries: dict[str, object] = {}
    if texts := matrix.metadata_texts:
        # A file name that is not UTF-8 contains lone surrogates, which JSON cannot hold.
        entries["__metadata__"] = {
            key: value.encode("utf-8", "backslashreplace").decode("utf-8")
            for key, value in texts.items()
        }
    begin = 0
    for array in matrix.arrays:
        entries[array.name] = {
            "dtype": _CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class _TensorEntry(Record):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class _TensorData(Record):
    """The tensors of a file by name, the bytes that hold them, and the offset of their data."""

    entries: dict[str, _TensorEntry]
    data: bytes | mmap.mmap
    start: int

    @classmethod
    def of(cls, source: Source) -> _TensorData:
        """Return the content of a file, checked by the library.

        Raises: InvalidInput if it is malformed.
        """
        text = source.header(0, 8, _LONGEST_HEADER)
        data = source.whole()
        entries = _tensors(text, source.name)
        _check(source, data, entries, 8 + len(text))
        return cls(entries, data, 8 + len(text))

    def stored(self, source: Source, chosen: str) -> Stored:
        """Return a tensor of numbers.

        Raises: InvalidInput if it does not hold numbers, or its offsets do not fit its shape.
        """
        import numpy as np

        tensor = self.entries[chosen]
        name = f"{source.name} tensor {quoted_name(chosen)}"
        if tensor.dtype not in _DTYPES:
            code = quoted_name(tensor.dtype[:40])
            raise InvalidInput(f"{name} is {code}, a number format posenc lacks")
        dtype, storage = _DTYPES[tensor.dtype]
        count = value_count(name, tensor.shape)
        start, stop = self.start + tensor.begin, self.start + tensor.end
        if stop - start != count * np.dtype(storage).itemsize or stop > len(self.data):
            raise InvalidInput(f"{name} has offsets that do not fit its shape")
        flat = np.frombuffer(self.data, storage, count=count, offset=start)
        return Stored(flat.reshape(tensor.shape), dtype)


def read(source: Source) -> Stored:
    """Return the requested tensor of a .safetensors file; a large file is mapped, not read.

    Raises:
        InvalidInput: the file is malformed, or holds no such tensor of numbers.
    """
    content = _TensorData.of(source)
    entries = content.entries
    chosen = select_member(
        source,
        [*entries],
        numeric=lambda name: entries[name].dtype in _DTYPES and bool(entries[name].shape),
    )
    return content.stored(source, chosen)


def read_several(source: Source, names: Sequence[str]) -> list[Stored]:
    """Return tensors that the header of a .safetensors file names, reading the header once.

    Raises:
        InvalidInput: the file is malformed, or a tensor does not hold numbers.
    """
    content = _TensorData.of(source)
    return [content.stored(source, name) for name in names]


def headers(source: Source) -> tuple[ArrayHeader, ...]:
    """Return the header's description of each tensor of a .safetensors file.

    Raises: InvalidInput if the header is malformed, or does not fit the file.
    """
    text = source.header(0, 8, _LONGEST_HEADER)
    tensors = _tensors(text, source.name)
    _check(source, b"" if source.regular else source.whole(), tensors, 8 + len(text))
    scheme = _scheme(text)
    return tuple(
        ArrayHeader(name, tensor.shape, _DTYPES.get(tensor.dtype, (tensor.dtype,))[0], scheme)
        for name, tensor in tensors.items()
    )


def _scheme(text: bytes) -> str:
    """Return the scheme that the metadata of a valid header names, or an empty string."""
    import json

    metadata = json.loads(text).get("__metadata__")
    scheme = metadata.get("scheme") if isinstance(metadata, dict) else None
    return scheme if isinstance(scheme, str) else ""


def _tensors(text: bytes, name: str) -> dict[str, _TensorEntry]:
    import json

    try:
        entries = json.loads(text)
        entries.pop("__metadata__", None)
        return {key: _tensor(**value) for key, value in entries.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(f"{name} has a malformed header") from None


def _tensor(*, dtype: Any, shape: Any, data_offsets: Any) -> _TensorEntry:
    begin, end = data_offsets
    lengths = (*shape, begin, end)
    if not isinstance(dtype, str) or any(type(n) is not int or n < 0 for n in lengths):
        raise ValueError
    return _TensorEntry(dtype, tuple(shape), begin, end)


def _check(
    source: Source, content: bytes | mmap.mmap, entries: Mapping[str, _TensorEntry], start: int
) -> None:
    """Refuse truncated data; let the library check that tensors leave no gaps or overlaps."""
    promised = max((tensor.end for tensor in entries.values()), default=0)
    there = (source.size if source.regular and source.size is not None else len(content)) - start
    if promised > there:
        raise InvalidInput(
            f"{source.name} is truncated: its header promises {promised} bytes of tensors, "
            f"{there} are there"
        )
    try:
        import safetensors as library
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"cannot read {source.name}: the safetensors library does not load",
            hint="reinstall it: pip install safetensors",
        ) from error
    try:
        if source.regular:
            with library.safe_open(source.path, framework="numpy"):
                pass
        else:
            library.deserialize(content)  # type: ignore[no-untyped-call]
    except (KeyboardInterrupt, SystemExit, OSError, MemoryError):
        raise
    except BaseException:  # a panic of the Rust library derives from BaseException
        raise InvalidInput(
            f"{source.name} has tensors that overlap, leave gaps, or do not fit its data"
        ) from None


FORMAT = Format(
    "safetensors",
    content="a safetensors file",
    summary="a tensor `encoding` (or each part of a hybrid) with metadata; holds bfloat16",
    check=check,
    write=write,
    size=size,
    read=read,
    headers=headers,
    # For headers shorter than a terabyte, the three high bytes of the length are zero.
    recognizes=lambda head: head[8:9] == b"{" and head[5:8] == b"\0\0\0",
    other_suffixes=(),
    binary=True,
    holds_several=True,
)


INDEX = ".safetensors.index.json"
_LARGEST_INDEX = 32 << 20  # bytes: about 200,000 tensors
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_UNPICKLE = (
    "convert it once: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
    "'model.safetensors')"
)


def checkpoint_files(given: str) -> list[str]:
    """Return the files that hold the tensors of a checkpoint, in order.

    Args:
        given: a file, the folder that holds a model's .safetensors files, or their index.

    Raises:
        InvalidInput: it holds pickles, or a malformed index.
        Unavailable: a folder or an index cannot be read.
    """
    path = Path(given)
    try:
        if path.is_dir():
            return _of_folder(path)
        if given.endswith(INDEX):
            return _of_index(path)
        known = path.exists()
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(given)}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(
            f"no file can be named {quoted_name(given)}: it holds a NUL character"
        ) from None
    if known and path.suffix.lower() in _PICKLED:
        raise InvalidInput(
            f"{quoted_name(given)} is a pickled checkpoint by its name, and a pickle can run any "
            "code when it is read",
            hint=_UNPICKLE,
        )
    return [given]


def _of_folder(folder: Path) -> list[str]:
    files = sorted(folder.iterdir())
    indices = [file for file in files if file.name.endswith(INDEX)]
    if len(indices) == 1:
        return _of_index(indices[0])
    tensors = [str(file) for file in files if file.suffix == ".safetensors"]
    if tensors:
        return tensors
    pickled = next((file.name for file in files if file.suffix in _PICKLED), None)
    if pickled is None:
        raise Unavailable(f"{quoted_name(str(folder))} is a folder without a .safetensors file")
    raise InvalidInput(
        f"{quoted_name(str(folder))} holds no .safetensors file, only pickles such as "
        f"{quoted_name(pickled)}, which can run any code when they are read",
        hint=_UNPICKLE,
    )


def _of_index(index: Path) -> list[str]:
    import json

    name = quoted_name(str(index))
    with open_input(index) as file:
        text = file.read(_LARGEST_INDEX + 1)
    if len(text) > _LARGEST_INDEX:
        raise InvalidInput(f"{name} is longer than {_LARGEST_INDEX} bytes, the most that are read")
    try:
        shards = sorted({*json.loads(text)["weight_map"].values()})
        plain = all(shard == Path(shard).name not in ("", "..") for shard in shards)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise InvalidInput(
            f"{name} is not the index of a checkpoint: its weight_map names no files"
        )
    return [str(index.parent / shard) for shard in shards]
