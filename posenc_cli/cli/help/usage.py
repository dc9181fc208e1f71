"""Usage errors from Typer and missing packages, in posenc's words."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import ModuleType
from typing import Any

from posenc_cli import catalogue
from posenc_cli.configs import library
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, described, nearest
from posenc_cli.files.formats import formats_by_suffix
from posenc_cli.positions import whole_number

_SHOWS = "{} --help shows how it is used"
_NAMING = {
    "posenc explain": ("--config",),
    "posenc compare": ("--model", "-m", "--config", "--scheme", "-s", "--in"),
    "posenc schemes": ("--scheme", "-s"),
    **dict.fromkeys(
        ("posenc check", "posenc identify", "posenc resize"), ("--in", "--file", "--input")
    ),
}
"""The options of other commands for what a command takes as an argument."""


def usage_message(error: Any, first: str = "-") -> InvalidInput:
    """Return posenc's error for a line that Typer rejects; ``first`` is the line's first word."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "posenc" if first[:1] == "-" else f"posenc {first}")
    hint = _SHOWS.format(path)
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        flags = [flag for each in context.command.params for flag in each.opts] if context else []
        arguments = [flag for flag in flags if flag[:1] != "-"]
        near = nearest(option, arguments + [flag for flag in flags if flag[:2] == "--"])
        if "--" not in (near or "--") or option in _NAMING.get(path, ()):
            near = f"{path} takes it as an argument, without {option}"
        return InvalidInput(f"{option}: {path} has no such option", hint=near or hint)
    message = " ".join(error.format_message().split())
    commands = getattr(getattr(context, "command", None), "commands", None)
    if commands and message.startswith("No such command"):
        name = message.split("'")[1] if "'" in message else message
        return InvalidInput(
            f"{name!r} is not a command of posenc (it has: {', '.join(sorted(commands))})",
            hint=nearest(name, commands) or hint,
        )
    return InvalidInput(message[:1].lower() + message[1:].rstrip("."), hint=hint)


def unexpected_arguments(context: Any, words: list[str]) -> InvalidInput:
    """Return the error for arguments that a command does not take."""
    path = context.command_path
    flags = {flag for option in context.command.params for flag in option.opts}
    hint = _SHOWS.format(path)
    if path == "posenc models" and words[0] in library.names():
        hint = f"posenc explain {words[0]} shows a model"
    return InvalidInput(
        f"{abbreviated(' '.join(words))}: {path} takes no such argument",
        hint=_meant(words, flags) or hint,
    )


def _meant(words: list[str], flags: set[str]) -> str | None:
    """Return a hint with the options that words are likely meant for, or None."""
    options = []
    for word in words:
        suffix = PurePath(word).suffix.lower()
        kinds = {
            "--scheme": word in catalogue.BUILT_IN,
            "--model": word in library.names(),
            "--len": whole_number(word) is not None,
            "--in": suffix in formats_by_suffix(),
            "--config": suffix == ".json",
        }
        options += [(flag, word) for flag, meant in kinds.items() if meant][:1]
    if "--tables" in flags and {flag for flag, _ in options} == {"--in"}:
        return "--tables COS SIN takes the two tables of a rotary encoding"
    if len(options) < len(words) or any(flag not in flags for flag, _ in options):
        return None
    return f"did you mean {' '.join(f'{flag} {word}' for flag, word in options)}?"


def unloaded_dependency(error: Exception) -> Unavailable | None:
    """Return the error for a dependency whose import raised ``error``, or None.

    It is the outermost module that was being imported, or else the one that the error names.
    """
    modules = [
        str(frame.f_globals.get("__name__"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_name == "<module>"
    ]
    if isinstance(error, ImportError):
        modules.append(error.name or "posenc_cli")
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        modules.append(error.obj.__name__)
    packages = [name.partition(".")[0] for name in modules]
    package = next((name for name in packages if name != "posenc_cli"), None)
    if package is None:
        return None
    return Unavailable(
        f"{package}, which posenc needs, cannot be imported: {described(error)}",
        hint=f"pip install --force-reinstall {package}",
    )
