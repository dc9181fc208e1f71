"""What a file's suffix says of its content, so that nothing else gets such a name."""

from __future__ import annotations

from pathlib import PurePath

from posenc_cli.errors import InvalidInput, quoted_name

# Not those of any bytes, which tell no format: .bin, .dat, .raw.
_CONTENTS = {
    "a picture": ".png .svg .pdf .jpg .jpeg .gif .webp .bmp .tif .tiff .ico .eps .ps",
    "an .npy array": ".npy",
    "an .npz archive": ".npz",
    "a safetensors file": ".safetensors",
    "a checkpoint": ".pt .pth .ckpt",
    "a GGUF model": ".gguf",
    "an ONNX model": ".onnx",
    "an HDF5 file": ".h5 .hdf5",
    "a pickle": ".pkl .pickle",
    "a Parquet table": ".parquet",
    "a MATLAB file": ".mat",
    "a CSV table": ".csv",
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
_CONTENT = {suffix: content for content, text in _CONTENTS.items() for suffix in text.split()}
_TEXTUAL = (".txt", ".csv", ".json", ".xml")
"""Suffixes of what may also stand in a text."""


def check_suffix(path: str | None, own: str, asking: str, *, hint: str | None = None) -> None:
    """Refuse a name whose suffix says that the file holds something else.

    ``own`` is the suffix of what is to be written, ``asking`` the option that asks for it, or what
    it is. A suffix that says nothing is nobody's, and may be had.

    Raises: InvalidInput.

    >>> check_suffix("report", ".txt", "a report")
    >>> check_suffix("table.dat", ".npy", "--format npy")
    """
    place = PurePath(path or "")
    content = content_of(place)
    if content is None or place.suffix.lower() == own or (content == "a text" and own in _TEXTUAL):
        return
    raise InvalidInput(
        f"{asking}: cannot go with --out {quoted_name(path or '')}, the name of {content}",
        hint=hint or f"--out {quoted_name(place.with_suffix(own))}",
    )


def content_of(path: str | PurePath) -> str | None:
    """What a file of this name holds, by its suffix; None where that does not tell.

    >>> content_of("dev.PNG"), content_of("dev.dat")
    ('a picture', None)
    """
    return _CONTENT.get(PurePath(path).suffix.lower())
