"""The help of the program as text, rendered beforehand: nobody who asks for it waits for Typer.

The texts are what the program's pages give at the width that help has in a pipe; ``tools/man.py``
writes them, and a test compares.
"""

from __future__ import annotations

import os

from posenc_cli.cli.sizes import WIDEST_PIPED, text_width

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow
PATHS = {
    "--help": os.path.join(_FOLDER, "help.txt"),  # noqa: PTH118
    "-h": os.path.join(_FOLDER, "help-brief.txt"),  # noqa: PTH118
}


def rendered_help(flag: str) -> str | None:
    """The text, or None where it is not the one to be printed: on a narrow terminal."""
    if text_width() < WIDEST_PIPED:
        return None
    try:
        with open(PATHS[flag], encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:  # who removed it gets the same, later
        return None
