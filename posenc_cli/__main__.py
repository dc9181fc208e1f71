"""The entry point of ``posenc`` and of ``python -m posenc_cli``."""

# These are loaded before any line of this file, or built in. Every other import comes below the
# path's change: even ``from __future__ import annotations`` would search the path for a file.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

_STARTED = __name__ == "__main__" or os.path.basename(sys.argv[0]).startswith("posenc")  # noqa: PTH119

if _STARTED and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C ends the process without a traceback, until the handlers are set.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib is slow
    except OSError:  # the folder is gone, so Python has put nothing on the path
        return None


if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [_current_folder()]:
    # python -m puts the current folder on the path; posenc imports nothing from it unless asked.
    del sys.path[0]

from posenc_cli import __version__, interrupts  # noqa: E402

TYPE_CHECKING = False  # importing typing would delay the handlers
if TYPE_CHECKING:
    from typing import NoReturn


def _written(text: str) -> bool:
    """Write a text to stdout; return False if that fails.

    The caller then writes it again and reports the error.
    """
    if sys.stdout is None:
        return False
    data = text.encode(sys.stdout.encoding)
    try:
        return os.write(1, data) == len(data)
    except OSError:
        return False


def entry_point() -> "NoReturn":
    """Run the command line of this process and exit with its status."""
    interrupts.handle()
    if sys.argv[1:] in (["--version"], ["-V"]) and _written(f"posenc {__version__}{os.linesep}"):
        interrupts.ignore()
        sys.exit(0)
    from posenc_cli.cli.exits import run

    run()


if __name__ == "__main__":
    entry_point()
