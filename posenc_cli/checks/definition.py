"""Find the line that defines a user's function, without running its file."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from posenc_cli.calls.interpreter import FURTHER_FOLDERS
from posenc_cli.records import Record
from posenc_cli.transaction import open_input


class SourcePlace(Record):
    """A file, and a line in it if known."""

    file: str
    line: int | None = None


def definition_place(target: str) -> SourcePlace | None:
    """Return where ``module:name`` or ``file.py:name`` is defined or assigned.

    In a file with a syntax error, the line is that of the error. It is None if nothing in the file
    binds the name. Returns None if there is no such file.
    """
    place, _, name = target.rpartition(":")
    path = Path(place) if place.endswith(".py") else _module_file(place)
    if path is None or not path.is_file():
        return None
    return SourcePlace(os.fspath(path), _defining_line(path, name.partition(".")[0]))


def _module_file(module: str) -> Path | None:
    """Return a module's file without importing it; ignore the current folder unless requested."""
    given = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    own_path = [folder for folder in sys.path if folder and Path(folder) != Path.cwd()]
    *packages, last = module.split(".")
    for folder in (*given, *own_path, *FURTHER_FOLDERS.get()):
        for file in (f"{last}.py", f"{last}/__init__.py"):
            path = Path(folder, *packages, file)
            if path.is_file():
                return path
    return None


def _defining_line(path: Path, name: str) -> int | None:
    """Return the line of a file that binds a name."""
    try:
        with open_input(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = file.read()
            body = ast.parse(source).body
    except SyntaxError as error:
        return error.lineno
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    lines = [at for at, line in enumerate(source.splitlines(), 1) if os.fsencode(name) in line]
    # Search only statements that mention the name: walking all of them takes long.
    parts = [
        part for part in body if any(part.lineno <= at <= (part.end_lineno or at) for at in lines)
    ]
    nodes: list[Any] = [node for part in parts or body for node in ast.walk(part)]
    # Take the outermost, and of these the last: local names of functions are further in.
    places = [(node.col_offset, -node.lineno) for node in nodes if _bound_name(node) == name]
    return int(-min(places)[1]) if places else None


def _bound_name(node: Any) -> str | None:
    """Return the name that a node of a syntax tree binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return str(node.name)
    if isinstance(node, ast.alias):
        return str(node.asname or node.name).split(".")[0]
    stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return str(node.id) if stored else None
