"""The process: ``posenc``, and ``python -m posenc_cli``."""

from __future__ import annotations

import os
import signal
import sys

# Importing typing takes a while, and an interrupt before the handlers are set would show.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def entry_point() -> NoReturn:
    """Run the command line of this process, and exit with its status.

    A signal that arrives before there is anything to clean up ends the process at once, with the
    status it would have had later.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: os._exit(128 + number))
    from posenc_cli.cli.exits import run

    run()


if __name__ == "__main__":
    # python -m puts the current folder on the path; posenc imports nothing from it unasked.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109 - pathlib is slow
        del sys.path[0]
    entry_point()
