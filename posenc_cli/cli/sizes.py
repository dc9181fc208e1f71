"""How large the terminal is, and how wide text may be: what is asked before all else."""

from __future__ import annotations

import os
import sys

WIDEST_PIPED = 80
WIDEST_HELP = 100
NARROWEST = 20
_LINES = 24  # of the terminals that others imitate
_SIZE_DIGITS = 3  # as many as --width and --height take; int() refuses thousands of them


def drop_absurd_sizes() -> None:
    """Take sizes that are no terminal's from the environment, where libraries would read them."""
    for name in ("COLUMNS", "LINES"):
        if os.environ.get(name) and not _environment_size(name):
            del os.environ[name]


def _environment_size(name: str) -> int:
    """The size that a variable of the environment asks for, 0 where it asks for none."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _SIZE_DIGITS else 0


def terminal_size() -> os.terminal_size:
    """Return the terminal's size: COLUMNS and LINES first, then what stdout's terminal says."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((WIDEST_PIPED, _LINES))
    columns = _environment_size("COLUMNS") or size.columns or WIDEST_PIPED
    return os.terminal_size((columns, _environment_size("LINES") or size.lines or _LINES))


def text_width() -> int:
    """Columns that text may take: the terminal's, and at most 80 where stdout is none."""
    columns = terminal_size().columns
    return max(NARROWEST, columns if sys.stdout.isatty() else min(columns, WIDEST_PIPED))
