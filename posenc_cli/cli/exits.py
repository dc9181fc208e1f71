"""Where errors become an error line and an exit status."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from posenc_cli import interrupts
from posenc_cli.budget import ROOM_TO_START, check_room
from posenc_cli.cli import streams
from posenc_cli.cli.streams import drop_absurd_sizes
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, printable_text
from posenc_cli.transaction import transaction

READER_GONE = 128 + 13
OBJECTS_LOOKED_THROUGH = 50_000  # between garbage collections: NumPy's import makes 20,000
COMPLETION = "_POSENC_COMPLETE"
"""The variable with which a shell's script asks for completions."""


def run() -> NoReturn:
    """Run the command line of this process, and exit with its status."""
    streams.guard()
    # Ignore warnings of Python and libraries, whatever PYTHONWARNINGS says: they are for
    # developers. One that becomes an error would end the run.
    warnings.simplefilter("ignore")
    gc.disable()  # the modules imported first are not garbage
    status = main(sys.argv[1:], ready=_collect_again, last=True)
    interrupts.ignore()
    gc.freeze()  # otherwise Python would scan all objects before it ends
    sys.exit(status)


def main(
    arguments: Sequence[str], *, ready: Callable[[], object] | None = None, last: bool = False
) -> int:
    """Run one command and return its exit status; every error is reported here.

    ``ready`` is called after the command is imported and before it runs. With ``last``, for the
    last command of a process, signals are ignored once it has succeeded.
    """
    try:
        with transaction(last=last):
            status = _run(arguments, ready)
            sys.stdout.flush()
    except (streams.ReaderGone, BrokenPipeError):
        status = READER_GONE
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except Exception as error:
        status = report_error(error, debug="--debug" in arguments)
    else:
        return status
    streams.discard()
    return status


def _run(arguments: Sequence[str], ready: Callable[[], object] | None) -> int:
    completing = bool(os.environ.get(COMPLETION))
    arguments = _command_first(arguments)
    if not arguments and not completing:
        arguments = ["-h"]
    elif arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    answer = _known_answer(arguments, completing=completing)
    if answer is not None:
        print(answer, end="")
        return 0
    # posenc has its own threads, and starting BLAS's takes as long as importing NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from posenc_cli.cli.command_line import plain_command

    drop_absurd_sizes()
    plain = None if completing else plain_command([*map(str, arguments)])
    prepared = plain or _read_by_typer(arguments, completing=completing)
    if not callable(prepared):
        return prepared or 0  # help or completions are already printed
    check_room(ROOM_TO_START)
    if ready is not None:
        ready()
    return prepared() or 0


def _read_by_typer(
    arguments: Sequence[str], *, completing: bool
) -> Callable[[], int | None] | int | None:
    """Return the command that a command line runs, or a status if there is nothing left to do.

    Raises: InvalidInput if the line is wrong.
    """
    import typer

    from posenc_cli.cli.app import application

    # The base class of all usage errors, which Typer does not export.
    usage_error: type[Exception] = typer.BadParameter.mro()[1]
    try:
        if completing:
            from posenc_cli.cli.completers import typed_words

            arguments = typed_words()
        app = application(arguments, completing=completing)
        # Typer runs nothing: under that many frames, importing NumPy would take longer.
        prepared: Callable[[], int | None] | int | None = app(
            [*map(str, arguments)], prog_name="posenc", standalone_mode=False
        )
        return prepared
    except PosencError:
        if not completing:
            raise
        return 0  # an invalid line gets no completions and no error
    except usage_error as error:
        from posenc_cli.cli.help.usage import usage_message

        raise usage_message(error, *arguments[:1]) from None


def _command_first(arguments: Sequence[str]) -> Sequence[str]:
    """Move options of every command from before the command's name to behind it."""
    everywhere, place = ("-q", "--quiet", "--debug", "--color"), 0
    while place < len(arguments) and arguments[place].partition("=")[0] in everywhere:
        place += 2 if arguments[place] == "--color" else 1
    before, rest = arguments[:place], arguments[place:]
    if before and not rest:
        raise InvalidInput(f"{' '.join(before)}: needs a command", hint="posenc -h lists them")
    moved = () if rest and rest[0].startswith("-") else before
    return [*rest[:1], *moved, *rest[1:]]


def _known_answer(arguments: Sequence[str], *, completing: bool) -> str | None:
    """Return what can be printed without importing Typer, or None."""
    if arguments and arguments[0] in ("--version", "-V"):
        from posenc_cli.cli.help.known_answers import version_text

        return version_text(arguments[1:])
    if completing or list(arguments) not in (["--help"], ["-h"]):
        return None
    from posenc_cli.cli.help.known_answers import rendered_help

    return rendered_help(arguments[0])


def _collect_again() -> None:
    """Collect garbage from now on, but not in what is already imported.

    A short command makes no garbage, and would scan all the objects of NumPy's import.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_LOOKED_THROUGH)
    gc.enable()


def report_error(error: Exception, *, debug: bool) -> int:
    """Print an error to standard error, and return its status."""
    known = _own_error(error)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    print(f"posenc: error: {printable_text(known.message)}", file=sys.stderr)
    if known.hint:
        print(f"hint: {printable_text(known.hint)}", file=sys.stderr)
    return known.status


def _own_error(error: Exception) -> PosencError:
    """Return an error as one of posenc's own; any other error is a bug."""
    if isinstance(error, PosencError):
        return error
    # Python raises RuntimeError if a thread has no memory for its stack.
    if isinstance(error, MemoryError) or str(error) == "can't start new thread":
        return Unavailable("not enough memory")
    from posenc_cli.cli.help.usage import unloaded_dependency

    if (unloaded := unloaded_dependency(error)) is not None:
        return unloaded
    if isinstance(error, OSError):
        where = "" if error.filename is None else f": {os.fspath(error.filename)!r}"
        return Unavailable(f"{error.strerror or error}{where}")
    from posenc_cli.cli.help.known_answers import ISSUES, address

    place = address(ISSUES)
    return PosencError(
        f"a bug in posenc: {type(error).__name__}: {error}",
        hint=f"--debug shows where; please report it{f' at {place}' if place else ''}",
    )
