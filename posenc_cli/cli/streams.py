"""Standard output and error as posenc needs them: no write fails unseen, no glyph crashes."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any, NoReturn

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
    """The reader of standard output went away; nobody is left to tell."""


class Terminated(BaseException):
    """A signal that asks the process to end arrived; ``status`` is what it ends with."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


_interrupted = False


def interrupt(_number: int, _frame: object) -> NoReturn:
    """Handle SIGINT: raise KeyboardInterrupt, and remember it.

    Python drops an exception that is raised inside some callbacks of the interpreter (of imports,
    of garbage collection); what is remembered is raised again by ``heed_interrupts``.
    """
    global _interrupted  # noqa: PLW0603 - a signal is the process's own
    _interrupted = True
    raise KeyboardInterrupt


def heed_interrupts() -> None:
    """Raise KeyboardInterrupt if SIGINT has arrived and was lost."""
    if _interrupted:
        raise KeyboardInterrupt


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
    codecs.register(_ascii_by_another_name)
    given = sys.stdout
    descriptor = None if given is None else given.fileno()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_StandardOutput(descriptor), buffer_size=1 << 16),
        encoding="utf-8" if given is None else _kept(given.encoding),
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


def ascii_only(stream: Any) -> bool:
    """Whether a stream's encoding lacks the characters that posenc writes beyond ASCII."""
    try:
        "".join(_ASCII).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def spelled(text: str) -> str:
    """``text`` in ASCII: the nearest spelling of each character, or an escape.

    >>> spelled("d ≥ 2 · π"), spelled("é")
    ('d >= 2 * pi', '\\\\xe9')
    """
    return "".join(c if c.isascii() else _ASCII.get(c) or _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode()


def _kept(encoding: str) -> str:
    """``encoding``, by a name under which Typer keeps it: ASCII it takes for a mistake."""
    return "posenc_ascii" if codecs.lookup(encoding).name == "ascii" else encoding


def _ascii_by_another_name(name: str) -> codecs.CodecInfo | None:
    if name != "posenc_ascii":
        return None
    found = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=name,
        encode=found.encode,
        decode=found.decode,
        incrementalencoder=found.incrementalencoder,
        incrementaldecoder=found.incrementaldecoder,
    )


def _ascii(error: UnicodeError) -> tuple[str, int]:
    """A codec error handler that spells what the stream lacks in ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spelled(error.object[error.start : error.end]), error.end
