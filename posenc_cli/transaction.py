"""The files of one run: inputs, which it may not replace, and outputs.

Output files get their names at the end, when nothing that could fail is left. A run that ends with
an error or a signal has changed no file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from posenc_cli import interrupts
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated

STANDARD_INPUT = "-"


class Transaction:
    """The files that one run reads, and those it will have written."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int], str] = {}
        self._replaced: dict[tuple[int, int], str] = {}
        self._temporaries: list[Path] = []
        self._claims: list[Callable[[], object]] = []
        self._sayings: list[Callable[[], object]] = []

    def note_read(self, status: os.stat_result) -> None:
        """Record that a file is read.

        Raises: InvalidInput if the file is to be replaced.
        """
        self._note(self._read, status, "")

    def note_replaced(self, status: os.stat_result, place: str) -> None:
        """Record that the file that messages call ``place`` is to be replaced.

        Raises: InvalidInput if the file is read.
        """
        self._note(self._replaced, status, place)

    def _note(self, files: dict[tuple[int, int], str], status: os.stat_result, place: str) -> None:
        identity = status.st_dev, status.st_ino
        if stat.S_ISREG(status.st_mode):
            files[identity] = place
        if identity in self._read and identity in self._replaced:
            raise InvalidInput(
                f"cannot write {self._replaced[identity]}: this command reads that file",
                hint="give --out another name",
            )

    def temporary_beside(self, path: Path) -> Path:
        """Return a new name in the folder of ``path``; a file of that name is removed at the end.

        The name is short, because ``path`` may be as long as the file system allows.
        """
        temporary = path.with_name(f".posenc-{os.urandom(8).hex()}.tmp")
        self._temporaries.append(temporary)
        return temporary

    def claim_at_end(self, claim: Callable[[], object]) -> None:
        """Call ``claim``, which gives a finished file its name, when the run has succeeded."""
        self._claims.append(claim)

    def say_at_end(self, say: Callable[[], object]) -> None:
        """Call ``say``, which reports a written file and raises nothing, once the file exists."""
        self._sayings.append(say)

    def commit(self) -> None:
        """Give all output files their names, in the order they were claimed, and report them.

        This is not all or nothing: if one claim failed, the files before it would stay. No run has
        two claims that can fail.
        """
        if self._claims:
            # A status of 128 or more promises that the old file is still there.
            interrupts.disregard()
        for call in (*self._claims, *self._sayings):
            call()

    def remove_temporaries(self) -> None:
        """Remove the temporary files that exist and got no name."""
        for temporary in self._temporaries:
            with contextlib.suppress(OSError):
                if temporary.is_dir():
                    from shutil import rmtree

                    rmtree(temporary)
                else:
                    temporary.unlink()


_running: ContextVar[Transaction | None] = ContextVar("the transaction of this run", default=None)


@contextlib.contextmanager
def transaction(*, last: bool = False) -> Iterator[Transaction]:
    """The transaction of this run: committed when the outermost block ends without an exception.

    After the ``last`` transaction of a process, nothing remains that a signal could cancel: signals
    are ignored.
    """
    outer = _running.get()
    if outer is not None:
        yield outer
        return
    own = Transaction()
    token = _running.set(own)
    interrupts.clean_up_by(own.remove_temporaries)
    try:
        yield own
        own.commit()
        if last:
            interrupts.ignore()
    finally:
        own.remove_temporaries()
        interrupts.clean_up_no_more_by(own.remove_temporaries)
        _running.reset(token)
        interrupts.disregard(signals=False)


def note_read(path: str | os.PathLike[str]) -> None:
    """Record that this run reads a file, which other code opens.

    Raises: InvalidInput if the file is to be replaced; OSError if it does not exist.
    """
    running = _running.get()
    if running is not None:
        running.note_read(Path(path).stat())


def note_code(option: str, target: str) -> None:
    """Record that this run reads the file of a ``file.py:name`` target.

    Raises: InvalidInput if the file is to be replaced; Unavailable if it does not exist or cannot
        be read.
    """
    place = target.rpartition(":")[0]
    if not place.endswith(".py"):
        return
    named = f"{option} {abbreviated(target)}"
    if not Path(place).is_file():
        raise Unavailable(f"{named}: there is no file {place!r}", code="mistyped")
    try:
        open_input(place).close()
    except OSError as error:
        raise Unavailable(f"{named}: {error.strerror}") from None


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse an empty path, which Python takes for the current folder.

    Raises: InvalidInput.
    """
    if not os.fspath(path):
        raise InvalidInput("cannot read '': the name is empty")


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Open the file of a path from a user for reading; ``-`` is standard input.

    All files from users are opened here, so that no run replaces a file it reads.

    Raises: InvalidInput for an empty name, which would be the current folder's; Unavailable if
        standard input is closed; OSError if the file cannot be opened.
    """
    check_name(path)
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise Unavailable("cannot read '-': standard input is closed")
        file = open(0, "rb", closefd=False)  # noqa: SIM115
    else:
        file = Path(path).open("rb")  # noqa: SIM115 - the caller's to close
    running = _running.get()
    if running is not None:
        try:
            running.note_read(os.fstat(file.fileno()))
        except BaseException:
            file.close()
            raise
    return file
