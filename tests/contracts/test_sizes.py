"""The package does not grow unnoticed: statements, files and long functions of each folder."""

import ast
import tomllib
from pathlib import Path

import pytest

import posenc_cli

PACKAGE = Path(posenc_cli.__file__).parent
MOST = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["tool"]["posenc"][
    "most"
]
LONG = 40
"""Lines, docstring included, above which a function counts as long."""
MOST_FILES = 25
"""Modules that a folder may have beside ``__init__``: a reader looks through so many at once."""


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def size_of(folder: Path) -> list[int]:
    """Statements without docstrings, files, and functions above `LONG` lines, of one folder."""
    files = sorted(folder.glob("*.py"))
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    long = sum((node.end_lineno or 0) - node.lineno >= LONG for node in functions)
    statements = sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes)
    return [statements, len(files), long]


FOLDERS = {
    file.parent.relative_to(PACKAGE).as_posix(): file.parent for file in PACKAGE.rglob("*.py")
}


@pytest.mark.parametrize("folder", sorted({*FOLDERS, *MOST}))
def test_no_folder_is_larger_than_its_row_in_pyproject(folder):
    size = size_of(FOLDERS[folder])
    assert folder in MOST, f"{folder} has no row in [tool.posenc.most]: {size}"
    assert all(now <= most for now, most in zip(size, MOST[folder], strict=True)), (
        f"{folder} has {size} statements, files and functions above {LONG} lines, "
        f"[tool.posenc.most] allows {MOST[folder]}. Delete something, or raise the row and say in "
        "CHANGELOG.md what users get for it."
    )


def test_no_folder_has_more_modules_than_a_reader_looks_through():
    modules = {folder: size_of(path)[1] - 1 for folder, path in FOLDERS.items()}
    assert {folder: count for folder, count in modules.items() if count > MOST_FILES} == {}


def test_the_rows_are_lowered_where_a_folder_has_shrunk():
    """A row that allows a tenth more than there is would let that come back unseen."""
    loose = {
        folder: size[0]
        for folder, path in FOLDERS.items()
        if folder in MOST and (size := size_of(path))[0] < 0.9 * MOST[folder][0]
    }
    assert not loose, f"lower these rows of [tool.posenc.most] to {loose}"
