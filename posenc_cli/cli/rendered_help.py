"""The help of the program as text, rendered beforehand: nobody who asks for it waits for Typer.

The text is what ``program_page`` gives at the width that help has on most terminals and in a pipe;
``tools/man.py`` writes it, and a test holds it to that.
"""

from __future__ import annotations

import os

from posenc_cli.cli.sizes import WIDEST_PIPED, text_width

PATH = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120 - pathlib is slow


def rendered_help() -> str | None:
    """The text, or None where it is not the one to be printed: on a narrow terminal."""
    if text_width() < WIDEST_PIPED:
        return None
    try:
        with open(PATH, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:  # who removed it gets the same, later
        return None
