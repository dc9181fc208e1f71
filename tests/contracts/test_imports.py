"""No circle of imports: each module stands on modules that do not stand on it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def imported(tree: ast.Module) -> Iterator[str]:
    """The names that a module imports, by whole paths: in functions and for types alone, too.

    >>> sorted(imported(ast.parse("import a.b\\ndef f():\\n    from c import d")))
    ['a.b', 'c', 'c.d']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def imports_by_module() -> dict[str, set[str]]:
    """The modules of posenc that each of them imports, packages apart."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "posenc_cli").rglob("*.py")
        if path.name != "__init__.py"
    }
    return {
        module: set(imported(ast.parse(path.read_text("utf-8")))) & modules.keys()
        for module, path in modules.items()
    }


def circles(imports: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The modules that stand on one another, circle by circle.

    >>> sorted(map(sorted, circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"d"}})))
    [['a', 'b', 'c'], ['d']]
    """
    stands_on: dict[str, set[str]] = {}
    for module in imports:
        waiting, below = list(imports[module]), set[str]()
        while waiting:
            other = waiting.pop()
            if other not in below:
                below.add(other)
                waiting += imports[other]
        stands_on[module] = below
    return {
        frozenset(other for other in below if module in stands_on[other])
        for module, below in stands_on.items()
        if module in below
    }


@pytest.mark.long
def test_no_module_imports_one_that_stands_on_it() -> None:
    imports = imports_by_module()
    assert sum(map(len, imports.values())) > 500
    assert sorted(map(sorted, circles(imports))) == []
