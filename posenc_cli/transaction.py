"""The files of one run: inputs, which it may not replace, and outputs.

What a run writes takes its name at the end, once nothing is left that could fail: a run that ends
with an error, or by a signal, has changed no file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from posenc_cli import interrupts
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STANDARD_INPUT = "-"


class Transaction:
    """What one run reads, and what it will have written."""

    def __init__(self) -> None:
        self._read: set[tuple[int, int]] = set()
        self._replaced: dict[tuple[int, int], tuple[str, str]] = {}
        self._temporaries: list[Path] = []
        self._claims: list[Callable[[], object]] = []
        self._sayings: list[Callable[[], object]] = []

    def note_read(self, status: os.stat_result) -> None:
        """Keep in mind that a file is read.

        Raises: InvalidInput where it is to be replaced.
        """
        if stat.S_ISREG(status.st_mode):
            identity = status.st_dev, status.st_ino
            self._read.add(identity)
            self._refuse_both(identity)

    def note_replaced(
        self, status: os.stat_result, place: str, *, hint: str = "give --out another name"
    ) -> None:
        """Keep in mind that the file which messages call ``place`` is to be replaced.

        Raises: InvalidInput with ``hint`` where it is read.
        """
        if stat.S_ISREG(status.st_mode):
            identity = status.st_dev, status.st_ino
            self._replaced[identity] = place, hint
            self._refuse_both(identity)

    def _refuse_both(self, identity: tuple[int, int]) -> None:
        if identity in self._read and identity in self._replaced:
            place, hint = self._replaced[identity]
            raise InvalidInput(f"cannot write {place}: this command reads that file", hint=hint)

    def temporary_beside(self, path: Path) -> Path:
        """A new name in the folder of ``path``; what it names by then is removed at the end.

        A short name of its own: that of ``path`` may be as long as the file system allows.
        """
        temporary = path.with_name(f".posenc-{os.urandom(8).hex()}.tmp")
        self._temporaries.append(temporary)
        return temporary

    def claim_at_end(self, claim: Callable[[], object]) -> None:
        """Call ``claim``, which gives a finished file its name, when the run has succeeded."""
        self._claims.append(claim)

    def say_at_end(self, say: Callable[[], object]) -> None:
        """Call ``say``, which tells what was written and raises nothing, once it is there."""
        self._sayings.append(say)

    def commit(self) -> None:
        """Give all that was written its name, in the order it was claimed, and say so.

        Not all or nothing: were one refused, those before it would stay. No run has two claims that
        can be.
        """
        if self._claims:
            # A status of 128 and more says that the old file is there still.
            interrupts.disregard()
        for call in (*self._claims, *self._sayings):
            call()

    def remove_temporaries(self) -> None:
        """Remove what has got no name, if it ever came to be."""
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

    After the ``last`` of a process nothing follows that a signal could call off: it ignores them.
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
        interrupts.heed()


def note_read(path: str | os.PathLike[str]) -> None:
    """Keep in mind that this run reads a file, which something else opens.

    Raises: InvalidInput where it is to be replaced; OSError where it is not there.
    """
    running = _running.get()
    if running is not None:
        running.note_read(Path(path).stat())


def note_code(option: str, target: str) -> None:
    """Keep in mind that this run reads the file of a target, where it is ``file.py:name``.

    Raises: InvalidInput where it is to be replaced; Unavailable where there is no such file, or it
    cannot be read.
    """
    place = target.rpartition(":")[0]
    if not place.endswith(".py"):
        return
    named = f"{option} {abbreviated(target)}"
    if not Path(place).is_file():
        raise Unavailable(f"{named}: there is no file {place!r}")
    try:
        open_input(place).close()
    except OSError as error:
        raise Unavailable(f"{named}: {error.strerror}") from None


def check_name(path: str | os.PathLike[str]) -> None:
    """Check that a path is none of no characters, which Python takes for the current folder.

    Raises: InvalidInput where it is.
    """
    if not os.fspath(path):
        raise InvalidInput("cannot read '': the name is empty")


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """The file of a path that a user gave, open to be read: ``-`` is standard input.

    Every file of a user's is opened here, so that none is replaced by the run that reads it.

    Raises: InvalidInput for an empty name, which would be this folder's; Unavailable where
    standard input is closed; OSError where it cannot be opened.
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
