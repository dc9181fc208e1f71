"""The line of a file on which a user's function is defined, found without running the file."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from posenc_cli.calls.interpreter import FURTHER_FOLDERS
from posenc_cli.records import Record
from posenc_cli.transaction import open_input


class SourcePlace(Record):
    """A file, and a line of it where one is known."""

    file: str
    line: int | None = None


def definition_place(target: str) -> SourcePlace | None:
    """Where ``module:name`` or ``file.py:name`` is defined, or bound to what it is.

    The line is None where no line of the file binds the name. None altogether where there is no
    such file.
    """
    place, _, name = target.rpartition(":")
    path = Path(place) if place.endswith(".py") else _module_file(place)
    if path is None or not path.is_file():
        return None
    return SourcePlace(os.fspath(path), _line(path, name.partition(".")[0]))


def _module_file(module: str) -> Path | None:
    """The file of a module, without importing it; the current folder is not searched unasked."""
    asked = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    own = [folder for folder in sys.path if folder and Path(folder) != Path.cwd()]
    *packages, last = module.split(".")
    for folder in (*asked, *own, *FURTHER_FOLDERS.get()):
        for file in (f"{last}.py", f"{last}/__init__.py"):
            path = Path(folder, *packages, file)
            if path.is_file():
                return path
    return None


def _line(path: Path, name: str) -> int | None:
    """The last of the outermost lines of a file that bind a name."""
    word = re.escape(name)
    binds = re.compile(
        rf"\s*((async )?def|class) {word}\b"
        rf"|\s*(\w+, *)*{word}\b[^=(]*=[^=]"
        rf"|.*\bimport\b.*\b{word}\b"
    )
    try:
        with open_input(path) as file:
            lines = file.read().decode(errors="replace").splitlines() if name else []
    except OSError:
        return None
    places = [
        (len(line) - len(line.lstrip()), -at)
        for at, line in enumerate(lines, 1)
        if binds.match(line)
    ]
    return -min(places)[1] if places else None
