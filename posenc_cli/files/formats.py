"""The table of file formats: the one declaration that options, help and documents derive from."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, nearest, quoted_name
from posenc_cli.files import csv_text, npy, npz, safetensors_file
from posenc_cli.files.atomic import STANDARD_OUTPUT, check_no_folder
from posenc_cli.files.suffixes import check_suffix, content_of
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.files.matrix import ByteSink, Matrix


class Format(Record):
    """A file format.

    ``check`` refuses a matrix that the format cannot hold; ``write`` streams one; ``size`` is the
    exact length of the file (None for text), ``minimum_size`` a lower bound. ``verify``, where
    there is one, reads a finished regular file back before it takes its name. ``holds_several``
    arrays, or just one.
    """

    name: str
    suffix: str
    summary: str
    binary: bool
    check: Callable[[Matrix], None]
    write: Callable[[ByteSink, Matrix], None]
    size: Callable[[Matrix], int | None]
    minimum_size: Callable[[Matrix], int]
    verify: Callable[[str, Matrix], None] | None = None
    holds_several: bool = False


FORMATS = {
    each.name: each
    for each in (
        Format("npy", ".npy", "one NumPy array", True, npy.check, npy.write, npy.size, npy.size),
        Format(
            "npz",
            ".npz",
            "a NumPy archive of `encoding` (or each part of a hybrid) and `metadata`",
            True,
            npz.check,
            npz.write,
            npz.size,
            npz.size,
            holds_several=True,
        ),
        Format(
            "csv",
            ".csv",
            "text, the shortest numbers that read back the same",
            False,
            csv_text.check,
            csv_text.write,
            csv_text.size,
            csv_text.minimum_size,
        ),
        Format(
            "safetensors",
            ".safetensors",
            "a tensor `encoding` (or each part of a hybrid) with metadata; holds bfloat16",
            True,
            safetensors_file.check,
            safetensors_file.write,
            safetensors_file.size,
            safetensors_file.size,
            safetensors_file.verify,
            holds_several=True,
        ),
    )
}
DEFAULT = FORMATS["npy"]


def format_of(path: str | None, name: str | None) -> Format:
    """The format called ``name``, else that of the suffix of ``path``, else npy (no path, ``-``).

    A name that is given holds whatever the suffix is, unless that is known for something else.

    Raises:
        InvalidInput: no format has that name or suffix, or the two contradict each other.
        Unavailable: the path is a folder's, and has no suffix of a format.

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
    suffixes = {each.suffix: each for each in FORMATS.values()}
    suffix = PurePath(path).suffix.lower()
    if suffix in suffixes:
        return suffixes[suffix]
    check_no_folder(path)
    known = ", ".join(suffixes)
    if not suffix:
        raise InvalidInput(
            f"--out {quoted_name(path)}: the name has no suffix to tell the format ({known})",
            hint=f"add --format {'|'.join(FORMATS)}",
        )
    raise InvalidInput(
        f"--out {quoted_name(path)}: no format has the suffix {quoted_name(suffix)} "
        f"(known: {known})",
        hint=nearest(suffix, suffixes) or _hint(path),
    )


def _hint(path: str) -> str:
    """What to do about a suffix that no format has."""
    named = "|".join(FORMATS)
    if content_of(path) is None:
        return f"add --format {named}"
    better = PurePath(path).with_suffix(DEFAULT.suffix)
    return f"--out {quoted_name(better)}, or --format {named} with a suffix that means nothing else"
