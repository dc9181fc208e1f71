"""Typer's usage errors in posenc's words: one line, with the nearest name as a hint."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.files.input_formats import READ_BY_SUFFIX
from posenc_cli.positions import whole_number


def usage_message(error: Any) -> InvalidInput:
    """The error that Typer raised for a malformed command line, as posenc reports it."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "posenc")
    hint = f"{path} --help shows how it is used"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        known = (
            [flag for option in context.command.params for flag in option.opts] if context else []
        )
        near = nearest(option, known)
        if near is not None and "--" not in near:
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
    """The error for words of a command line that its command has no argument for."""
    path = context.command_path
    flags = {flag for option in context.command.params for flag in option.opts}
    return InvalidInput(
        f"{abbreviated(' '.join(words))}: {path} takes no such argument",
        hint=_meant(words, flags) or f"{path} --help shows how it is used",
    )


def _meant(words: list[str], flags: set[str]) -> str | None:
    """The options that words without one were meant for, None where one is for none."""
    options = []
    for word in words:
        if word in catalogue.BUILT_IN:
            options.append(("--scheme", word))
        elif whole_number(word) is not None:
            options.append(("--len", word))
        elif PurePath(word).suffix.lower() in READ_BY_SUFFIX:
            options.append(("--in", word))
        elif PurePath(word).suffix.lower() == ".json":
            options.append(("--config", word))
    if len(options) < len(words) or any(flag not in flags for flag, _ in options):
        return None
    return f"did you mean {' '.join(f'{flag} {word}' for flag, word in options)}?"
