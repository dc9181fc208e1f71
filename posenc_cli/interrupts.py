"""Signals that end the process: the first ends it at once and leaves nothing behind.

The handler does not raise: Python drops exceptions in some callbacks (of imports, of garbage
collection), libraries catch all, and a second signal would come in the middle of what the first
set off. It cleans up and ends the process. Those that follow find it ending.
"""

# What the module signal is made of, without its enums: Ctrl-C while those are imported would show.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False  # importing typing would delay the handlers
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

_cleanups: "list[Callable[[], object]]" = []
_too_late = False


def handle() -> None:
    """Let the first of the signals end the process with status 128 + its number."""
    for number in SIGNALS:
        # Who starts a process with SIGHUP ignored (nohup) means it to go on.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def clean_up_by(cleanup: "Callable[[], object]") -> None:
    """Call ``cleanup`` before a signal ends the process; it may be called in the middle of itself.

    Those that came first are called first. None may wait: what follows would not be cleaned up, and
    no other signal is heeded. What one raises is dropped.
    """
    _cleanups.append(cleanup)


def clean_up_no_more_by(cleanup: "Callable[[], object]") -> None:
    """Take back what ``clean_up_by`` was told, if it was."""
    if cleanup in _cleanups:
        _cleanups.remove(cleanup)


def disregard() -> None:
    """Let all signals come too late: what they would call off is about to be done."""
    global _too_late  # noqa: PLW0603 - a signal is the process's own
    _too_late = True


def heed() -> None:
    """Let signals end the process again."""
    global _too_late  # noqa: PLW0603 - a signal is the process's own
    _too_late = False


def ignore() -> None:
    """Leave signals to nobody until the interpreter has ended, which would give them back."""
    # Python complains of a signal that arrived in this very moment.
    sys.unraisablehook = lambda _: None
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, _frame: "FrameType | None") -> None:
    if _too_late:
        return
    disregard()
    for cleanup in tuple(_cleanups):
        try:  # noqa: SIM105 - contextlib would delay the handlers
            cleanup()
        except Exception:
            pass
    os._exit(128 + number)
