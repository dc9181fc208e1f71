"""The one place where an error becomes a line and an exit status."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn

from posenc_cli import interrupts
from posenc_cli.budget import ROOM_TO_START, check_room
from posenc_cli.cli import streams
from posenc_cli.cli.streams import drop_absurd_sizes
from posenc_cli.errors import PosencError, Unavailable, printable_text
from posenc_cli.transaction import transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 128 + 13
OBJECTS_LOOKED_THROUGH = 50_000  # for garbage, at a time: NumPy's import makes 20,000
COMPLETION = "_POSENC_COMPLETE"
"""The variable by which a shell's script asks for completions."""


def run() -> NoReturn:
    """Run the command line of this process, and exit with its status."""
    streams.guard()
    # Of Python's and the libraries', which are for developers, whatever PYTHONWARNINGS asks for;
    # an error that one becomes would end the run.
    warnings.simplefilter("ignore")
    gc.disable()  # what a command is made of, imported first, is no garbage
    status = main(sys.argv[1:], ready=_collect_again, last=True)
    interrupts.ignore()
    gc.freeze()  # or Python would look through all there is before it ends
    sys.exit(status)


def main(
    arguments: Sequence[str], *, ready: Callable[[], object] | None = None, last: bool = False
) -> int:
    """Run one command and give its exit status; every error is reported here.

    ``ready`` is called once the command is imported, before it runs. The ``last`` of a process
    ignores signals once it has succeeded.
    """
    try:
        with transaction(last=last):
            status = _run(arguments, ready)
            sys.stdout.flush()
    except (streams.ReaderGone, BrokenPipeError):
        status = READER_GONE
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Exception as error:
        status = report_error(error, debug="--debug" in arguments)
    else:
        return status
    streams.discard()
    return status


def _run(arguments: Sequence[str], ready: Callable[[], object] | None) -> int:
    completing = bool(os.environ.get(COMPLETION))
    if not arguments and not completing:
        arguments = ["-h"]
    elif arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    answer = _known_answer(arguments, completing=completing)
    if answer is not None:
        print(answer, end="")
        return 0
    # posenc has threads of its own, and starting BLAS's takes as long as importing NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import typer

    from posenc_cli.cli.app import application

    drop_absurd_sizes()

    # The base of all usage errors, which Typer does not export under a name.
    usage_error: type[Exception] = typer.BadParameter.mro()[1]
    try:
        if completing:
            from posenc_cli.cli.completers import typed_words

            arguments = typed_words()
        app = application(arguments, completing=completing)
        # Nothing runs in Typer: below so many frames NumPy would take longer to import.
        prepared: Callable[[], int | None] | int | None = app(
            [*map(str, arguments)], prog_name="posenc", standalone_mode=False
        )
    except PosencError:
        if not completing:
            raise
        return 0  # of a line that is wrong so far nothing is completed, and nothing said
    except usage_error as error:
        from posenc_cli.cli.help.usage import usage_message

        raise usage_message(error, *arguments[:1]) from None
    if not callable(prepared):
        return prepared or 0  # what was asked for is written: help, or completions
    check_room(ROOM_TO_START)
    if ready is not None:
        ready()
    return prepared() or 0


def _known_answer(arguments: Sequence[str], *, completing: bool) -> str | None:
    """What is printed without importing Typer, which scripts and people need not wait for."""
    if arguments and arguments[0] in ("--version", "-V"):
        from posenc_cli.cli.help.known_answers import version_text

        return version_text(arguments[1:])
    if completing or list(arguments) not in (["--help"], ["-h"]):
        return None
    from posenc_cli.cli.help.known_answers import rendered_help

    return rendered_help(arguments[0])


def _collect_again() -> None:
    """Collect garbage from now on, but look for none in what is imported.

    A short command makes none, and would look for it among all that NumPy's import makes.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_LOOKED_THROUGH)
    gc.enable()


def report_error(error: Exception, *, debug: bool) -> int:
    """Report an error on standard error, and give its status."""
    known = _own_error(error)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    print(f"posenc: error: {printable_text(known.message)}", file=sys.stderr)
    if known.hint:
        print(f"hint: {printable_text(known.hint)}", file=sys.stderr)
    return known.status


def _own_error(error: Exception) -> PosencError:
    """An error as one of posenc's own: what none of them stands for is a bug."""
    if isinstance(error, PosencError):
        return error
    # A thread that finds no room for its stack is told as a RuntimeError.
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
