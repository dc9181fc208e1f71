"""The table of file formats, from which options, help and documents derive; saving a matrix."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO

from posenc_cli.errors import InvalidInput, nearest, quoted_name
from posenc_cli.files import csv, npy, npz, safetensors
from posenc_cli.files.atomic import (
    STANDARD_OUTPUT,
    check_no_folder,
    preflight,
    replacing,
    standard_output,
)
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.files.matrix import Format, InputFormat, Matrix


FORMATS = {
    form.name: form
    for form in (
        npy.FORMAT,
        npz.FORMAT,
        csv.FORMAT,
        safetensors.FORMAT,
    )
}
DEFAULT, DEFAULT_OF_SEVERAL = npy.FORMAT, npz.FORMAT


@cache
def formats_by_suffix() -> Mapping[str, InputFormat]:
    """Return the formats that posenc reads, those it writes and GGUF, by each of their suffixes."""
    from posenc_cli.files import gguf

    read = (*FORMATS.values(), gguf.FORMAT)
    return {suffix: form for form in read for suffix in (form.suffix, *form.other_suffixes)}


# Suffixes of other files. Suffixes for arbitrary bytes (.bin, .dat, .raw) name no format.
_CONTENTS = {
    "a picture": ".png .svg .pdf .jpg .jpeg .gif .webp .bmp .tif .tiff .ico .eps .ps",
    "a checkpoint": ".pt .pth .ckpt",
    "a GGUF model": ".gguf",
    "an ONNX model": ".onnx",
    "an HDF5 file": ".h5 .hdf5",
    "a pickle": ".pkl .pickle",
    "a Parquet table": ".parquet",
    "a MATLAB file": ".mat",
    "a TSV table": ".tsv",
    "a spreadsheet": ".xlsx",
    "a JSON file": ".json",
    "JSON lines": ".jsonl",
    "an XML file": ".xml",
    "an HTML page": ".html",
    "a settings file": ".toml .yaml .yml .ini .cfg",
    "a program": ".py .pyc .ipynb .sh .so .dll .c .cc .cpp .h .cu .rs .js",
    "an archive": ".zip .gz .bz2 .xz .zst .tar .whl",
    "a text": ".txt .md .rst .log",
}
_CONTENT = {
    **{suffix: content for content, text in _CONTENTS.items() for suffix in text.split()},
    **{form.suffix: form.content for form in FORMATS.values()},
}
_TEXTUAL = {form.suffix for form in FORMATS.values() if not form.binary} | {".txt", ".json", ".xml"}
"""Suffixes of formats whose output may also have a plain text's suffix, such as ``.md``."""


def format_of(path: str | None, name: str | None) -> Format:
    """Return the format ``name``, else that of the suffix of ``path``, else npy (no path, ``-``).

    A given name overrides the suffix, unless the suffix belongs to another kind of file.

    Raises:
        InvalidInput: no format has that name or suffix, or the two contradict each other.
        Unavailable: the path is a folder and has no suffix of a format.

    >>> format_of("table.NPZ", None).name, format_of("table.dat", "csv").name
    ('npz', 'csv')
    """
    if name is not None:
        if name in FORMATS:
            check_suffix(path, FORMATS[name].suffix, f"--format {name}")
            return FORMATS[name]
        raise InvalidInput(
            f"--format {quoted_name(name)}: known formats are {', '.join(FORMATS)}",
            hint=nearest(name.lower(), FORMATS),
        )
    if path is None or path == STANDARD_OUTPUT:
        return DEFAULT
    suffixes = {form.suffix: form for form in FORMATS.values()}
    suffix = PurePath(path).suffix.lower()
    if suffix in suffixes:
        return suffixes[suffix]
    check_no_folder(path)
    known, names = ", ".join(suffixes), "|".join(FORMATS)
    if not suffix:
        raise InvalidInput(
            f"--out {quoted_name(path)}: the name has no suffix to tell the format ({known})",
            hint=f"add --format {names}",
        )
    hint = f"add --format {names}"
    if suffix in _CONTENT:
        better = PurePath(path).with_suffix(DEFAULT.suffix)
        hint = (
            f"--out {quoted_name(better)}, or --format {names} with a suffix that means nothing "
            "else"
        )
    raise InvalidInput(
        f"--out {quoted_name(path)}: no format has the suffix {quoted_name(suffix)} "
        f"(known: {known})",
        hint=nearest(suffix, suffixes) or hint,
    )


def check_suffix(path: str | None, own: str, asking: str) -> None:
    """Refuse a name whose suffix belongs to another kind of file.

    ``own`` is the suffix of the output. ``asking`` is the option that requests the output, or its
    description. An unknown suffix belongs to no format and is accepted.

    Raises: InvalidInput.

    >>> check_suffix("report", ".txt", "a report")
    >>> check_suffix("table.dat", ".npy", "--format npy")
    """
    place = PurePath(path or "")
    suffix = place.suffix.lower()
    content = _CONTENT.get(suffix)
    if content is None or suffix == own or (content == "a text" and own in _TEXTUAL):
        return
    raise InvalidInput(
        f"{asking} cannot go with --out {quoted_name(path or '')}, the name of {content}",
        hint=f"--out {quoted_name(place.with_suffix(own))}",
    )


class Saved(Record):
    """The written file: ``path`` as given, its number of bytes, and their SHA-256 if requested."""

    path: str
    bytes: int
    sha256: str | None


def ready(matrix: Matrix, target: str, *, format: Format, clobber: bool = True) -> None:  # noqa: A002
    """Refuse an output that ``save`` could not write, without computing a value.

    Raises:
        InvalidInput: ``format`` cannot hold ``matrix`` or its header, or is binary and would go to
            a terminal.
        Unavailable: ``target`` cannot be written, or has too little room.
    """
    format.check(matrix)
    if matrix.header and format.binary:
        raise InvalidInput(f"--header: {format.name} has no header line; only csv has")
    if target != STANDARD_OUTPUT:
        preflight(
            target,
            clobber=clobber,
            needed=format.size(matrix),
        )
    elif format.binary and sys.stdout and not sys.stdout.closed and sys.stdout.isatty():
        raise InvalidInput(
            f"--out -: {format.name} is binary and standard output is a terminal",
            hint="redirect it, name a file, or use --format csv",
        )


def save(
    matrix: Matrix,
    target: str,
    *,
    format: Format,  # noqa: A002
    clobber: bool = True,
    digest: bool = False,
    announce: Callable[[Saved], None] | None = None,
) -> Saved:
    """Write ``matrix`` to the path ``target``, or to standard output if it is ``-``.

    The file takes its name only when it is whole. ``digest`` requests the SHA-256 of the bytes,
    which costs about as much as writing them. ``announce`` is called while the file can still be
    cancelled: if it raises, no file is left behind.

    Raises:
        InvalidInput, Unavailable: as ``ready``, and Unavailable if a write fails.
        RuntimeError: the blocks do not match the matrix's declaration (a bug).
    """
    ready(matrix, target, format=format, clobber=clobber)
    standard = target == STANDARD_OUTPUT
    with standard_output() if standard else replacing(target, clobber=clobber) as stream:
        counter = _Counter(stream, digest=digest)
        format.write(counter, matrix)
        saved = Saved(target, counter.bytes, counter.sha256)
        if announce is not None:
            announce(saved)
    return saved


class _Counter:
    """Passes bytes on, counts them and, if requested, computes their digest."""

    def __init__(self, stream: BinaryIO, *, digest: bool) -> None:
        self._stream = stream
        self._digest = None
        if digest:
            from hashlib import sha256

            self._digest = sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str | None:
        return None if self._digest is None else self._digest.hexdigest()

    def write(self, data: bytes | memoryview, /) -> int:
        self._stream.write(data)
        if self._digest is not None:
            self._digest.update(data)
        length = memoryview(data).nbytes
        self.bytes += length
        return length
