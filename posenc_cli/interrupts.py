"""Signals that end the process: the first ends it at once and leaves nothing behind.

The handler does not raise. Python drops exceptions in some callbacks (imports, garbage collection),
libraries catch every exception, and a second signal could interrupt the cleanup after the first.
Instead the handler cleans up and ends the process. Later signals find the process ending.
"""

# The C module below signal, without its enums: Ctrl-C during their import would show a traceback.
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
    """Let the first signal end the process with status 128 + its number."""
    for number in SIGNALS:
        # If a process was started with SIGHUP ignored (nohup), it should go on after a hangup.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def clean_up_by(cleanup: "Callable[[], object]") -> None:
    """Call ``cleanup`` before a signal ends the process.

    A signal may interrupt ``cleanup`` itself and call it again. Cleanups run in the order they were
    registered. None may wait: the cleanups after it would not run, and no other signal is heeded.
    An exception from one is dropped.
    """
    _cleanups.append(cleanup)


def clean_up_no_more_by(cleanup: "Callable[[], object]") -> None:
    """Unregister a cleanup, if it is registered."""
    if cleanup in _cleanups:
        _cleanups.remove(cleanup)


def disregard(*, signals: bool = True) -> None:
    """Disregard all signals, because the work they would cancel is about to be committed.

    Without ``signals``, let them end the process again.
    """
    global _too_late  # noqa: PLW0603 - a signal is the process's own
    _too_late = signals


def ignore() -> None:
    """Ignore signals until the interpreter has ended.

    The interpreter would otherwise restore their default handlers as it ends.
    """
    # Python reports a signal that arrives at this very moment.
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
