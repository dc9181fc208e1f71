"""What the terminal can show: pixels, by which protocol, and how large its cells are.

Terminals of kitty's and iTerm2's protocols are known by what they put into the environment. Sixel
is known by a few names, and else by the terminal's own answer to a question (DA1); it is asked only
on this machine, and gets back every setting whatever happens meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import struct
import sys
import time
from typing import TYPE_CHECKING, Literal

from posenc_cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.render.terminal.graphics import Protocol

Graphics = Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]
GRAPHICS: tuple[Graphics, ...] = ("auto", "blocks", "kitty", "iterm", "sixel", "none")

CELL = 10, 20
"""Pixels of a cell, across and down, of a terminal that does not say."""
_LARGEST_CELL = 100
_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_ITERM_PROGRAMS = {"iTerm.app", "iTerm2", "WezTerm"}
_SIXEL_TERMS = ("foot", "mlterm", "yaft", "contour")
_ASKED_TERMS = ("xterm", "wezterm", "vt340")
"""What the names of terminals begin with that have sixels, and of those worth asking."""
_PATIENCE = 0.15
"""Seconds that a terminal on this machine has to answer: it takes a few thousandths of one."""
_ATTRIBUTES = rb"\x1b\[\?([0-9;]*)c"
_SIXEL = b"4"


def detected(environment: Mapping[str, str] = os.environ) -> Protocol | None:
    """How the terminal on stdout shows pixels; None where it does not, or nobody knows.

    Never where stdout is no terminal, in CI, over a multiplexer of terminals, or by a terminal
    that is called dumb.
    """
    term = environment.get("TERM", "")
    multiplexed = within_tmux(environment) or environment.get("STY")
    if not sys.stdout.isatty() or environment.get("CI") or multiplexed:
        return None
    if term in _KITTY_TERMS:
        return "kitty"
    if not term.startswith(_ASKED_TERMS + _SIXEL_TERMS):
        return None
    if {environment.get("TERM_PROGRAM"), environment.get("LC_TERMINAL")} & _ITERM_PROGRAMS:
        return "iterm"
    if environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    remote = environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")
    announced = term.startswith(_SIXEL_TERMS) or (not remote and _announces_sixel())
    return "sixel" if announced else None


def within_tmux(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is tmux's."""
    return bool(environment.get("TMUX"))


def cell_size() -> tuple[int, int]:
    """The width and height of a cell of the terminal on stdout, in pixels."""
    try:
        import fcntl
        import termios

        answer = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError, ValueError):
        return CELL
    lines, columns, width, height = struct.unpack("4H", answer)
    across, down = width // max(1, columns), height // max(1, lines)
    known = 0 < across <= _LARGEST_CELL and 0 < down <= _LARGEST_CELL
    return (across, down) if known else CELL


def _announces_sixel() -> bool:
    """Whether the terminal says that it has sixels."""
    try:
        import termios
        import tty

        terminal = os.open(os.ttyname(sys.stdout.fileno()), os.O_RDWR | os.O_NOCTTY)
    except (ImportError, OSError):
        return False
    try:
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(terminal) != os.getpgrp():
                return False  # a job in the background would be stopped
            before = termios.tcgetattr(terminal)

            def restore() -> None:
                termios.tcsetattr(terminal, termios.TCSANOW, before)

            interrupts.clean_up_by(restore)
            try:
                tty.setcbreak(terminal, termios.TCSANOW)
                # What somebody has typed ahead would be read with the answer, and lost.
                answer = b"" if _is_waiting(terminal, 0) else _attributes(terminal)
            finally:
                restore()
                interrupts.clean_up_no_more_by(restore)
            return _SIXEL in answer.split(b";")
    finally:
        os.close(terminal)
    return False


def _attributes(terminal: int) -> bytes:
    """What the terminal answers to the question for its attributes, empty where it does not."""
    os.write(terminal, b"\x1b[c")
    answer, deadline = b"", time.monotonic() + _PATIENCE
    while (left := deadline - time.monotonic()) > 0 and _is_waiting(terminal, left):
        answer += os.read(terminal, 64)
        if found := re.search(_ATTRIBUTES, answer):
            return found[1]
    return b""


def _is_waiting(terminal: int, seconds: float) -> bool:
    return bool(select.select([terminal], [], [], seconds)[0])
