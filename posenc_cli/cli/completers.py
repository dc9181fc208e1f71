"""Shell completion of schemes, models, parameters and their values."""

from __future__ import annotations

import os
from typing import Any

from posenc_cli import catalogue
from posenc_cli.errors import PosencError

_LONGEST_PLACE = 4
"""The most digits of a word's place in a line."""


def typed_words() -> list[str]:
    """Return the words of the line being typed, without the one being completed.

    Fills in the variables of bash and zsh if they are missing, because Typer reads them afterwards.
    """
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    if "COMP_WORDS" not in os.environ and line:
        words = _split(line)[1:]
        return words if line.endswith(" ") else words[:-1]
    words = _split(os.environ.setdefault("COMP_WORDS", ""))
    place = os.environ.get("COMP_CWORD", "")
    if not place.isdecimal() or len(place) > _LONGEST_PLACE:
        place = os.environ["COMP_CWORD"] = str(max(1, len(words)))
    return words[1 : int(place)]


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


def setting_texts(ctx: Any, incomplete: str) -> list[str]:
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


def layout_names(ctx: Any, incomplete: str) -> list[str]:
    """Return layouts of the schemes named before that start with a text."""
    return [text.partition("=")[2] for text in setting_texts(ctx, f"layout={incomplete}")]


def _named_schemes(params: dict[str, Any]) -> list[str]:
    """Return the schemes that a command line names; for a model, those of its layers."""
    from posenc_cli.configs.config import read_config, resolve
    from posenc_cli.configs.library import find

    if params.get("scheme"):
        return [part for name in params["scheme"] for part in catalogue.parts_of(name)]
    if params.get("model"):
        layers = resolve(find(params["model"]).config).layers
    elif params.get("config"):
        layers = resolve(read_config(params["config"])).layers
    else:
        return []
    return [group.scheme for group in layers]
