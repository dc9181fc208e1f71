"""Standard output and error: failed writes, glyphs, and width."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import select
import sys
from typing import Any

from posenc_cli.errors import Unavailable

_ASCII = {
    "−": "-", "–": "-", "—": "-", "·": "*", "×": "x", "…": "...", "→": "->", "≥": ">=", "≤": "<=",
    "√": "sqrt ", "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")", "²": "^2", "³": "^3",
    "§": "sec. ", "’": "'", "“": '"', "”": '"', "½": "1/2", "‖": "|", "±": "+-", "∞": "inf",
    "′": "'", "α": "alpha", "β": "beta", "δ": "delta", "ζ": "zeta", "θ": "theta", "λ": "lambda",
    "π": "pi", "ω": "omega", "Δ": "Delta", "Σ": "sum ",
    # One column each: pictures keep their shape.
    "│": "|", "─": "-", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+",
    "┴": "+", "┼": "+", "•": "*",
}  # fmt: skip


class ReaderGone(BaseException):
    """The reader of standard output is gone, so nothing can be reported."""


class _Stream(io.RawIOBase):
    """An open file descriptor, or none if the process was started without it."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        while True:
            try:
                return os.write(self.fileno(), data)
            except BlockingIOError:  # a pipe that another process made non-blocking
                select.select([], [self], [])


class _StandardOutput(_Stream):
    """File descriptor 1; its failures become posenc's own errors.

    Typer turns a broken pipe into status 1, and the interpreter's flush at exit hides a full disk.
    Neither sees these errors.
    """

    discarding = False

    def write(self, data: Any) -> int:
        if self.discarding:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise Unavailable(f"cannot write to standard output: {error.strerror}") from error


class _StandardError(_Stream):
    """File descriptor 2; its write errors are ignored and do not change the status.

    Otherwise the interpreter's flush at exit would turn an unreadable summary into status 120.
    """

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def guard() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` with guarded streams."""
    codecs.register_error("posenc.ascii", _ascii)
    _reserve_descriptors()
    sys.stdout = _guarded_stream(sys.stdout, _StandardOutput)
    sys.stderr = _guarded_stream(sys.stderr, _StandardError)


def _guarded_stream(given: Any, kind: type[_Stream]) -> io.TextIOWrapper:
    """Return a stream of ``kind`` that replaces one of Python's, which is None if closed."""
    raw = kind(None if given is None else given.fileno())
    stream = io.TextIOWrapper(
        io.BufferedWriter(raw, buffer_size=1 << 16),
        encoding="utf-8" if given is None else given.encoding,
        errors="posenc.ascii",
        line_buffering=kind is _StandardError or raw.isatty(),
    )
    if isinstance(given, io.TextIOWrapper):
        given.detach()
    return stream


def _reserve_descriptors() -> None:
    """Open the null device for each of descriptors 0, 1 and 2 that is closed.

    Otherwise the next file opened would get its number, and receive what a library or a child
    process writes to standard error.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    with contextlib.suppress(OSError):  # a machine without a null device
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)


def discard() -> None:
    """Drop what standard output still holds, so that no later flush fails."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _StandardOutput):
        raw.discarding = True


def ascii_only(stream: Any) -> bool:
    """Return whether a stream's encoding lacks the characters that posenc writes beyond ASCII."""
    try:
        "".join(_ASCII).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def ascii_spelling(text: str) -> str:
    r"""Return ``text`` in ASCII: the nearest spelling of each character, or an escape.

    >>> ascii_spelling("d ≥ 2 · π"), ascii_spelling("é")
    ('d >= 2 * pi', '\\xe9')
    """
    spelled = "".join(c if c.isascii() else _ASCII.get(c, c) for c in text)
    return spelled.encode("ascii", "backslashreplace").decode()


def _ascii(error: UnicodeError) -> tuple[str, int]:
    """Handle a codec error: spell in ASCII what the stream lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_spelling(error.object[error.start : error.end]), error.end


WIDEST_PIPED = 80
WIDEST_HELP = 100
NARROWEST = 20
_LINES = 24  # as in the terminals that others imitate
_SIZE_DIGITS = 3  # as for --width and --height; int() rejects thousands of digits


def drop_absurd_sizes() -> None:
    """Remove impossible terminal sizes from the environment, because libraries would read them."""
    for name in ("COLUMNS", "LINES"):
        if os.environ.get(name) and not _environment_size(name):
            del os.environ[name]


def _environment_size(name: str) -> int:
    """Return the size in an environment variable, 0 if there is none."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _SIZE_DIGITS else 0


def terminal_size() -> os.terminal_size:
    """Return the terminal's size, from COLUMNS and LINES first, then from stdout's terminal."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((WIDEST_PIPED, _LINES))
    columns = _environment_size("COLUMNS") or size.columns or WIDEST_PIPED
    return os.terminal_size((columns, _environment_size("LINES") or size.lines or _LINES))


def text_width() -> int:
    """Return the width for text: the terminal's, or at most 80 if stdout is not a terminal."""
    columns = terminal_size().columns
    return max(NARROWEST, columns if sys.stdout.isatty() else min(columns, WIDEST_PIPED))
