"""Typer's usage errors in posenc's words: one line, with the nearest name as a hint."""

from __future__ import annotations

from typing import Any

from posenc_cli.errors import InvalidInput, nearest


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
        return InvalidInput(
            f"{option}: {path} has no such option", hint=nearest(option, known) or hint
        )
    message = " ".join(error.format_message().split())
    commands = getattr(getattr(context, "command", None), "commands", None)
    if commands and message.startswith("No such command"):
        name = message.split("'")[1] if "'" in message else message
        return InvalidInput(
            f"{name!r} is not a command of posenc (it has: {', '.join(sorted(commands))})",
            hint=nearest(name, commands) or hint,
        )
    return InvalidInput(message[:1].lower() + message[1:].rstrip("."), hint=hint)
