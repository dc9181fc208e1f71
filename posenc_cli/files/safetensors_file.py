"""The ``.safetensors`` format, written as a stream: the library takes only whole tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.files.matrix import write_values

if TYPE_CHECKING:
    from types import ModuleType

    from posenc_cli.files.matrix import ByteSink, Matrix

CODES = {
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}


def check(matrix: Matrix) -> None:
    """Refuse what a ``.safetensors`` file cannot hold.

    Raises:
        InvalidInput: a dtype without a code, such as complex128; or a header, which only text has.
        Unavailable: the safetensors library, which ``verify`` needs at the end, does not load.
    """
    unknown = [each.dtype.name for each in matrix.arrays if each.dtype.name not in CODES]
    if unknown:
        raise InvalidInput(
            f"--dtype {unknown[0]}: safetensors cannot hold {unknown[0]}",
            hint="use --format npy, or --dtype float32 (complex64), or --table interleaved",
        )
    if matrix.header:
        raise InvalidInput("--header: safetensors has no header line", hint="use --format csv")
    _library()


def header(matrix: Matrix) -> bytes:
    """The length of the JSON in 8 bytes, then the JSON, padded with spaces to a multiple of 8.

    Source: the safetensors format, https://github.com/huggingface/safetensors#format.
    """
    entries: dict[str, object] = {}
    if matrix.metadata:
        # A file name that is not UTF-8 reaches us as lone surrogates, which JSON cannot carry.
        entries["__metadata__"] = {
            key: value.encode("utf-8", "backslashreplace").decode("utf-8")
            for key, value in matrix.metadata.items()
        }
    begin = 0
    for each in matrix.arrays:
        entries[each.name] = {
            "dtype": CODES[each.dtype.name],
            "shape": list(each.shape),
            "data_offsets": [begin, begin + each.nbytes],
        }
        begin += each.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def size(matrix: Matrix) -> int:
    """The exact size of the file in bytes."""
    return len(header(matrix)) + sum(each.nbytes for each in matrix.arrays)


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write each array as a tensor of its name, and the metadata in the header."""
    stream.write(header(matrix))
    for each in matrix.arrays:
        write_values(stream, each)


def verify(path: str, matrix: Matrix) -> None:
    """Confirm through the safetensors library that the file at ``path`` holds ``matrix``.

    The library reads the header and compares the length of the file with it; no value is read.

    Raises:
        RuntimeError: the library reads something else.
    """
    library = _library()
    expected = {each.name: (CODES[each.dtype.name], list(each.shape)) for each in matrix.arrays}
    try:
        with library.safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found = {name: (part.get_dtype(), part.get_shape()) for name, part in slices.items()}
    except library.SafetensorError as error:
        raise RuntimeError(f"safetensors refuses the file just written: {error}") from error
    if found != expected:
        raise RuntimeError(f"safetensors reads {found} from the file just written as {expected}")


def _library() -> ModuleType:
    try:
        import safetensors
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"--format safetensors: the safetensors library does not load ({error})",
            hint="reinstall it (pip install safetensors), or use --format npy",
        ) from error
    return safetensors
