"""Functions of real libraries that make positional encodings, as a scheme and its parameters.

``library_functions.json`` has a row for each, by ``package:function``; ``tools/conventions.py`` ran
each function, and tests compare its values with those of the row.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Mapping


class LibraryFunction(Record):
    """The encoding that a function computes: a table of a scheme, and its first position."""

    scheme: str
    set: Mapping[str, str] = fresh(dict)
    table: str | None = None
    start: int = 0


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    import json
    from importlib.resources import files

    source = files("posenc_cli.configs") / "library_functions.json"
    return dict(json.loads(source.read_text("utf-8")))


def names() -> tuple[str, ...]:
    """The functions that posenc knows, as ``package:function``.

    >>> "diffusers:get_2d_sincos_pos_embed" in names()
    True
    """
    return tuple(_rows())


def find(name: str) -> LibraryFunction:
    """The encoding that a function computes by default.

    Raises: InvalidInput, with the nearest name or those that there are.

    >>> find("openai-whisper:sinusoids").set["spacing"]
    'tensor2tensor'
    """
    if name not in _rows():
        package = name.partition(":")[0]
        own = [known for known in names() if known.startswith(f"{package}:")]
        packages = sorted({known.partition(":")[0] for known in names()})
        listed = f"posenc knows {', '.join(own)}" if own else nearest(package, packages)
        raise InvalidInput(
            f"--like {abbreviated(name)}: no library's function of that name is known",
            hint=nearest(name, own)
            or listed
            or f"--like PACKAGE lists the functions of a package: {', '.join(packages)}",
        )
    return LibraryFunction(**_rows()[name])
