"""Shell completion of schemes, models, parameters and their values."""

from __future__ import annotations

import os
from typing import Any

import typer  # noqa: TC002 - Typer reads the annotation

from posenc_cli import catalogue
from posenc_cli.errors import PosencError


def typed_words() -> list[str]:
    """Return the words of the line being typed, without the one being completed."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    if line:  # zsh and fish
        words = _split(line)[1:]
        return words if line.endswith(" ") else words[:-1]
    return _split(os.environ["COMP_WORDS"])[1 : int(os.environ["COMP_CWORD"])]


def _split(line: str) -> list[str]:
    import shlex

    try:
        return shlex.split(line)
    except ValueError:  # a quote is still open
        return line.split()


def scheme_names(incomplete: str) -> list[str]:
    """Return schemes that start with a text; for a hybrid, completes its last part."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in catalogue.BUILT_IN if name.startswith(last)]


def model_names(incomplete: str) -> list[str]:
    """Return models that start with a text."""
    from posenc_cli.configs.library import names

    return [name for name in names() if name.startswith(incomplete)]


def function_names(incomplete: str) -> list[str]:
    """Return library functions that start with a text."""
    from posenc_cli.configs import library

    return [name for name in library.function_names() if name.startswith(incomplete)]


def backend_names(incomplete: str) -> list[str]:
    """Return backends that start with a text."""
    from posenc_cli.backends.registry import BUILT_IN

    return [name for name in ("auto", *BUILT_IN) if name.startswith(incomplete)]


def runtime_names(incomplete: str) -> list[str]:
    """Return engines that start with a text."""
    from posenc_cli.configs.engines.runtimes import RUNTIMES

    return [name for name in RUNTIMES if name.startswith(incomplete)]


def operand_names(incomplete: str) -> list[str]:
    """Return schemes and models that start with a text."""
    return [*scheme_names(incomplete), *model_names(incomplete)]


def setting_texts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return parameters of the schemes named before, or the values of one that has choices."""
    try:
        named = [name for name in _named_schemes(ctx.params) if name in catalogue.BUILT_IN]
        schemes = [catalogue.find(name) for name in named]  # do not run users' code
    except PosencError:
        return []
    declared = {name: value for scheme in schemes for name, value in scheme.parameters.items()}
    name, equals, value = incomplete.partition("=")
    if equals and name in declared:
        choices = declared[name].choices
        return [f"{name}={choice}" for choice in choices if choice.startswith(value)]
    return [f"{name}=" for name in declared if name.startswith(incomplete)]


def layout_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return layouts of the schemes named before that start with a text."""
    return [text.partition("=")[2] for text in setting_texts(ctx, f"layout={incomplete}")]


def _named_schemes(params: dict[str, Any]) -> list[str]:
    """Return the schemes that a command line names."""
    return [part for name in params.get("scheme") or () for part in catalogue.parts_of(name)]
