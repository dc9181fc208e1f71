"""The entry point of ``posenc`` and of ``python -m posenc_cli``."""

# os and sys are loaded before any line of this file. Every other import comes below the next
# statement: even ``from __future__ import annotations`` would search the path for a file.
import os
import sys


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib is slow
    except OSError:  # the folder is gone, so Python has put nothing on the path
        return None


if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [_current_folder()]:
    # python -m puts the current folder on the path; posenc imports nothing from it unless asked.
    del sys.path[0]

from posenc_cli import __version__, interrupts  # noqa: E402

# Importing typing takes a while, and an interrupt before the handlers are set would show a
# traceback.
TYPE_CHECKING = False
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
