"""Standard output and error as posenc needs them: no write fails unseen, no glyph crashes."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any

from posenc_cli.errors import Unavailable

_ASCII = {
    "−": "-", "–": "-", "—": "-", "·": "*", "×": "x", "…": "...", "→": "->", "≥": ">=", "≤": "<=",
    "θ": "theta", "π": "pi", "√": "sqrt", "⌊": "floor(", "⌋": ")", "²": "^2", "§": "sec. ",
    "│": "|", "─": "-", "━": "-", "┼": "+", "’": "'",
}  # fmt: skip


class ReaderGone(BaseException):
    """The reader of standard output went away; nobody is left to tell."""


class Terminated(BaseException):
    """SIGTERM arrived."""


class _StandardOutput(io.RawIOBase):
    """File descriptor 1, whose failures are posenc's own errors.

    Typer turns a broken pipe into status 1 and the interpreter's own flush at exit hides a full
    disk; neither sees these.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.discarding = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        if self.discarding:
            return len(data)
        try:
            return os.write(self.fileno(), data)
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise Unavailable(f"cannot write to standard output: {error.strerror}") from error


def guard() -> None:
    """Put guarded streams in the place of ``sys.stdout`` and ``sys.stderr``."""
    codecs.register_error("posenc.ascii", _ascii)
    given = sys.stdout
    descriptor = None if given is None else given.fileno()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_StandardOutput(descriptor), buffer_size=1 << 16),
        encoding="utf-8" if given is None else given.encoding,
        errors="posenc.ascii",
        line_buffering=given is not None and given.isatty(),
    )
    if isinstance(given, io.TextIOWrapper):
        given.detach()
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.BytesIO())
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="posenc.ascii")


def discard() -> None:
    """Drop what standard output still holds, so that no later flush fails on it."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _StandardOutput):
        raw.discarding = True


def _ascii(error: UnicodeError) -> tuple[str, int]:
    """A codec error handler that writes the nearest ASCII text, or an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    texts = (_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in wrong)
    return "".join(texts), error.end
