"""The line of a file on which a user's function is defined, found without running the file."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import warnings
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_cli.calls.interpreter import FURTHER_FOLDERS, chosen_python
from posenc_cli.errors import Unavailable
from posenc_cli.records import Record
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST = 4 << 20
"""Bytes of a file that is looked into: the largest modules that people write have a tenth."""


class SourcePlace(Record):
    """A file, and a line of it where one is known."""

    file: str
    line: int | None = None


def definition_place(target: str, *, python: str | None = None) -> SourcePlace | None:
    """Where ``module:name`` or ``file.py:name`` is defined, or bound to what it is.

    Modules are those of the environment of ``python``, by default of the active one.
    The line is that of the error in a file that is no Python, and None where nothing in the file
    binds the name. None altogether where there is no such file.
    """
    place, _, name = target.rpartition(":")
    path = Path(place) if place.endswith(".py") else _module_file(place, python)
    if path is None or not path.is_file():
        return None
    return SourcePlace(os.fspath(path), _line(path, name.split(".")))


def _module_file(module: str, python: str | None) -> Path | None:
    """The file of a module, without importing it; the current folder is not searched unasked."""
    asked = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    try:
        program = chosen_python(python, module)
    except Unavailable:
        return None
    if program == sys.executable:
        own = [folder for folder in sys.path if folder and Path(folder) != Path.cwd()]
    else:
        own = _site_folders(Path(program).parent.parent)
    folders: Sequence[str] | None = [*asked, *own, *FURTHER_FOLDERS.get()]
    parts = module.split(".")
    spec = None
    for count in range(1, len(parts) + 1):
        if folders is None:  # a module that is no package has none in it
            return None
        spec = PathFinder.find_spec(".".join(parts[:count]), folders)
        folders = None if spec is None else spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _site_folders(environment: Path) -> list[str]:
    """Where an environment has its modules: its own folder of them, and those that it names."""
    folders = []
    for site in sorted(environment.glob("lib/python*/site-packages")):
        folders.append(str(site))
        for names in sorted(site.glob("*.pth")):
            with contextlib.suppress(OSError), open_input(names) as file:
                lines = file.read(_LARGEST).decode(errors="replace").splitlines()
                folders += [line for line in lines if Path(line).is_absolute()]
    return folders


def _line(path: Path, names: list[str]) -> int | None:
    """The line of a file that binds a name, or a name in the body of a class."""
    try:
        with open_input(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if len(text := file.read(_LARGEST + 1)) > _LARGEST:
                return None
            within: Any = ast.parse(text)
    except SyntaxError as error:
        return error.lineno
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    line = None
    for name in names:
        nodes: list[Any] = [*ast.walk(within)]
        bindings = [node for node in nodes if _bound_name(node) == name]
        if not bindings:
            break
        # The outermost, and of these the last: names of a function's own are further in.
        within = min(bindings, key=lambda node: (node.col_offset, -node.lineno))
        line = int(within.lineno)
        if not isinstance(within, ast.ClassDef):
            break
        within = ast.Module(within.body, [])
    return line


def _bound_name(node: Any) -> str | None:
    """The name that a node of a program's tree binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return str(node.name)
    if isinstance(node, ast.alias):
        return str(node.asname or node.name).split(".")[0]
    stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return str(node.id) if stored else None
