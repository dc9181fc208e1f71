"""One word, one thing: no two classes or types share a name, and no constant has two values."""

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "posenc_cli"


def by_module(find: Callable[[ast.Module], Iterable[str]]) -> dict[str, list[str]]:
    """The names that are found in each module, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): [*find(ast.parse(path.read_text("utf-8")))]
        for path in PACKAGE.rglob("*.py")
    }


def types_defined(tree: ast.Module) -> Iterator[str]:
    """The names of classes, at any depth, and of the type aliases and variables of a module.

    >>> list(types_defined(ast.parse("Kind = Literal['a']\\nclass _Table: ...\\nLIMIT = 1")))
    ['_Table', 'Kind']
    """
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                word = name.lstrip("_")
                if word[:1].isupper() and not word.isupper():
                    yield name


@pytest.mark.long
def test_no_two_classes_or_types_share_a_name() -> None:
    defined = defaultdict(set)
    for path, names in by_module(types_defined).items():
        for name in names:
            defined[name.lstrip("_")].add(path)
    assert len(defined) > 200
    assert {name: sorted(paths) for name, paths in defined.items() if len(paths) > 1} == {}


def assigned_twice(tree: ast.Module) -> list[str]:
    """The names that a module's own statements give a value more than once: the first is lost.

    >>> assigned_twice(ast.parse("_MOST = 1\\n_LEAST: int\\n_LEAST = 2\\n_MOST: int = 3"))
    ['_MOST']
    """
    names = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                names.append(name)
    return [name for name, times in Counter(names).items() if times > 1]


@pytest.mark.long
def test_no_module_gives_one_constant_two_values() -> None:
    assert {path: names for path, names in by_module(assigned_twice).items() if names} == {}


NOUNS = ("A", "An", "All", "As", "Each", "Every", "How", "If", "One", "Some", "That", "The")
NOUNS += ("These", "This", "Those", "What", "Where", "Whether", "Which", "Who", "Why")
"""First words of a docstring that says what a function's result is, not what the function does."""
DECORATORS = ("property", "setter", "contextmanager", "fixture")
DECORATORS += ("absolute", "bias", "relative", "rotary")
"""Decorators of functions that are used as things; posenc schemes shows a scheme's docstring."""


def described_as_things(tree: ast.Module) -> list[str]:
    """The functions, except properties, whose docstring does not begin with a verb.

    >>> described_as_things(ast.parse("def rows():\\n    'The rows.'"))
    ['rows']
    >>> described_as_things(ast.parse("def rows():\\n    'Return the rows.'"))
    []
    """
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (ast.get_docstring(node) or "Return").split(maxsplit=1)[0] in NOUNS
        and not any(
            ast.unparse(each).partition("(")[0].endswith(DECORATORS) for each in node.decorator_list
        )
    ]


@pytest.mark.long
def test_docstrings_of_functions_say_what_the_functions_do() -> None:
    assert {path: names for path, names in by_module(described_as_things).items() if names} == {}
