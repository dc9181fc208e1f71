"""Output that appears only once it is complete: a file, a folder, or standard output."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from posenc_cli.errors import InvalidInput, PosencError, Unavailable, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import transaction

STANDARD_OUTPUT = "-"

_PERMISSIONS = 0o777
_WRITE = os.O_WRONLY | getattr(os, "O_BINARY", 0)
# The errors of os.link if the file system, or the platform, has no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def preflight(
    path: str | os.PathLike[str],
    *,
    clobber: bool = True,
    needed: int | None = None,
) -> None:
    """Refuse early a ``path`` that cannot be written, or that has no room for ``needed`` bytes.

    FIFOs and devices are not checked: how much they take cannot be known.

    Raises:
        InvalidInput: the file is read by the same run.
        Unavailable: a folder, no such folder, no permission, an existing file without ``clobber``,
            or too little free space.
    """
    target = _Target.find(path, clobber=clobber)
    if target.special:
        return
    folder = target.path.parent
    with _translate_errors(target.place):
        if not folder.exists():
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {quoted_name(folder)}")
        if not _writable(folder, os.W_OK | os.X_OK):
            raise PermissionError(
                errno.EACCES, f"the folder {quoted_name(folder)} is write-protected"
            )
        if needed is None:
            return
        import shutil  # it loads compressors

        free = shutil.disk_usage(folder).free
    if needed > free:
        unit, size = ("GiB", 2**30) if needed >= 2**30 else ("KiB", 2**10)
        raise Unavailable(
            f"cannot write {target.place}: it takes at least {needed / size:.1f} {unit}, the disk "
            f"has {free / size:.1f} {unit} free"
        )


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, clobber: bool = True) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file at ``path`` if the run ends without an exception.

    Outside a run, the block is a transaction of its own. Until the end, the bytes are in a dotted
    temporary file in the same folder, which any exception removes. So ``path`` always holds the
    whole old file or the whole new one, even if the process is killed. Symbolic links stay, and the
    file that they lead to is replaced. An existing file keeps its permissions, and a new one gets
    those that the umask leaves. FIFOs and devices are written directly, ``clobber`` or not: they
    hold nothing that could be lost.

    The stream has no buffer: write large pieces. If it is a temporary file, ``stream.name`` is its
    path.

    Raises:
        InvalidInput: on entry, if the run reads the file that it would replace.
        Unavailable: on entry, if ``path`` cannot be written, or exists and ``clobber`` is false; in
            the block and at its end, if a write fails, or if another process has created ``path``
            meanwhile and ``clobber`` is false.
    """
    with transaction() as files:
        target = _Target.find(path, clobber=clobber)
        place = target.place
        if target.special:
            with _translate_errors(place):
                # No O_CREAT, no O_TRUNC: if a regular file has taken its place, it is not
                # truncated.
                descriptor = os.open(path, _WRITE | getattr(os, "O_NOCTTY", 0))
            with _FileStream.opened(place, descriptor) as stream:
                yield stream
            return

        temporary = files.temporary_beside(target.path)
        # A file that had permissions gets them back at the end. Until then only the owner can
        # access it.
        mode = 0o666 if target.status is None else 0o600
        with _FileStream.opened(
            place, os.fspath(temporary), "xb", opener=lambda name, flags: os.open(name, flags, mode)
        ) as stream:
            yield stream
        with _translate_errors(place):
            _keep_permissions(temporary, target.status)

        def claim() -> None:
            # No fsync: a rename after complete writes already survives the death of the process.
            # Only a power cut could undo it. posenc's output can be computed again, and waiting for
            # the disk would take longer than computing it.
            with _translate_errors(place):
                if clobber:
                    temporary.replace(target.path)
                else:
                    _claim(temporary, target.path, place)

        files.claim_at_end(claim)


@contextlib.contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Yield standard output as a stream of bytes.

    Raises:
        Unavailable: it is closed, or takes no more bytes (a full disk).
        BrokenPipeError: its reader has gone; the caller decides what that means.
    """
    place = "to standard output"
    if sys.stdout is None or sys.stdout.closed:
        raise Unavailable(f"cannot write {place}: it is closed")
    try:
        with _translate_errors(place, io.UnsupportedOperation):
            descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        yield sys.stdout.buffer  # replaced by a stream in memory, which cannot fail
        return
    with _translate_errors(place, BrokenPipeError):
        sys.stdout.flush()  # text printed earlier must come first
        with transaction() as files:
            files.note_replaced(os.fstat(descriptor), place)
    with _FileStream.opened(place, descriptor, closefd=False, passing=(BrokenPipeError,)) as stream:
        yield stream


class _Target(Record):
    """The end of a path's links, the file found there, and its name for messages."""

    path: Path
    status: os.stat_result | None
    place: str

    @property
    def special(self) -> bool:
        """Whether it exists and is not a regular file."""
        return self.status is not None and not stat.S_ISREG(self.status.st_mode)

    @classmethod
    def find(cls, path: str | os.PathLike[str], *, clobber: bool) -> _Target:
        """Follow ``path`` to its end, which need not exist.

        Raises:
            InvalidInput: the run reads it.
            Unavailable: a folder, a loop of links, a protected file, or an existing one without
                ``clobber``.
        """
        place = quoted_name(path)
        with _translate_errors(place):
            status = _status_of(path)
            target = cls(_end_of_links(Path(path)), status, place)
            if status is None or target.special:
                return target
            with transaction() as files:
                files.note_replaced(status, place)
            # Replacing needs only permissions on the folder, but a write-protected file should
            # stay.
            if clobber and not _writable(path, os.W_OK):
                raise PermissionError(errno.EACCES, "it is write-protected")
        if not clobber:
            raise _existing_file_error(place)
        return target


def check_apart(flag: str, path: str, other_flag: str, other: str | None) -> None:
    """Refuse two options that name the same file, which could hold only one of the outputs.

    Raises: InvalidInput.
    """
    if other is not None and os.path.realpath(path) == os.path.realpath(other):
        raise InvalidInput(f"{flag} {quoted_name(path)} is the file of {other_flag}")


def check_no_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a folder as an output file, before its name is searched for a suffix.

    Raises: Unavailable.
    """
    with _translate_errors(quoted_name(path)):
        _status_of(path)


class _FileStream(io.FileIO):
    """A file that writes everything it is given, and whose errors name the file.

    Errors are translated here and not around the caller's block: an OSError in there may be about
    something else. Errors of the classes ``passing`` are not translated.
    """

    _place: str
    _passing: tuple[type[OSError], ...]

    @classmethod
    def opened(
        cls,
        place: str,
        file: str | int,
        mode: str = "wb",
        *,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
        passing: tuple[type[OSError], ...] = (),
    ) -> _FileStream:
        """Return the stream of a new file, or of an open one, which it closes if ``closefd``."""
        with _translate_errors(place, *passing):
            stream = cls(file, mode, closefd, opener)
        stream._place, stream._passing = place, passing
        return stream

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        """Write all of ``data``; return its length in bytes."""
        rest = memoryview(data).cast("B")
        length = rest.nbytes
        with _translate_errors(self._place, *self._passing):
            while rest:
                written = super().write(rest)
                if written is None:  # a pipe that was set to non-blocking
                    select.select([], [self], [])
                else:
                    rest = rest[written:]
        return length

    def close(self) -> None:
        """Close it: some file systems report a failed write only here."""
        if self.closed:
            return
        with _translate_errors(self._place, *self._passing):
            super().close()


@contextlib.contextmanager
def _translate_errors(place: str, *passing: type[OSError]) -> Iterator[None]:
    """Turn an OSError into Unavailable, except those of the classes ``passing``."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        raise Unavailable(f"cannot write {place}: {error.strerror or error}") from error


def _existing_file_error(place: str) -> Unavailable:
    return Unavailable(
        f"cannot write {place}: it exists",
        hint="drop --no-clobber to replace it, or choose another name",
    )


def _status_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of the file that ``path`` leads to, or None if it does not exist.

    Raises: OSError for a folder, or a name that ends like a folder's.
    """
    status = None
    try:
        with contextlib.suppress(FileNotFoundError):
            status = Path(path).stat()
    except ValueError as error:  # a NUL, or characters that the file system cannot encode
        raise OSError(errno.EINVAL, str(error)) from error
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if os.path.split(path)[1] in ("", os.curdir):
        raise FileNotFoundError(errno.ENOENT, "it names no file")
    return status


def _end_of_links(path: Path) -> Path:
    """Return the end of the chain of links at ``path``; its status was read, so it is no loop."""
    while path.is_symlink():
        path = path.parent / path.readlink()
    return path


def _writable(path: str | os.PathLike[str], access: int) -> bool:
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)


def _keep_permissions(temporary: Path, status: os.stat_result | None) -> None:
    """Give ``temporary`` the permissions, and if allowed the owner, of the file it replaces."""
    if status is None:
        return
    now = temporary.stat()
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(OSError):
            os.chown(temporary, status.st_uid, status.st_gid)
    if (now.st_mode ^ status.st_mode) & _PERMISSIONS:
        temporary.chmod(status.st_mode & _PERMISSIONS)


def _claim(temporary: Path, target: Path, place: str) -> None:
    """Move ``temporary`` to ``target``, unless that exists by now.

    Raises:
        Unavailable: it exists. If two processes race, one of them gets here.
    """
    try:
        try:
            target.hardlink_to(temporary)
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LINKS:
                raise
            # Without hard links, an empty file of ours reserves the name for a moment.
            os.close(os.open(target, _WRITE | os.O_CREAT | os.O_EXCL))
            try:
                temporary.replace(target)
            except BaseException:
                target.unlink()
                raise
        else:
            temporary.unlink()
    except FileExistsError as error:
        raise _existing_file_error(place) from error


@contextlib.contextmanager
def new_folder(path: str, *, option: str, last: str) -> Iterator[Path]:
    """Yield a folder whose files appear at ``path`` if the run ends without an exception.

    Until then it has a dotted temporary name beside ``path``. If ``path`` is an empty folder, the
    files move there one by one, with the one called ``last`` at the end; otherwise they appear at
    once.

    Raises:
        InvalidInput: ``path``, given by ``option``, is a file or a folder that is not empty.
        Unavailable: it cannot be created.
    """
    place = f"{option} {quoted_name(path)}"
    with transaction() as files:
        with _unavailable(place):
            check_free_folder(path, place)
            target = Path(os.path.realpath(path))
            if not target.parent.is_dir():
                raise Unavailable(f"{place}: there is no folder {quoted_name(target.parent)}")
            temporary = files.temporary_beside(target)
            temporary.mkdir()
        try:
            yield temporary
        except PosencError as error:  # the user does not know the temporary name
            inside, shown = (quoted_name(name)[1:-1] for name in (temporary, path))
            error.message = error.message.replace(inside, shown)
            raise

        def claim() -> None:
            with _unavailable(place):
                check_free_folder(str(target), place)
                if not target.exists():
                    temporary.rename(target)
                    return
                for file in sorted(temporary.iterdir(), key=lambda file: (file.name == last, file)):
                    file.rename(target / file.name)

        files.claim_at_end(claim)


def check_free_folder(path: str, place: str, *, hint: str = "name a new folder") -> None:
    """Check that a path names a folder that is new or empty.

    Raises: InvalidInput.
    """
    if path in ("", STANDARD_OUTPUT):
        raise InvalidInput(f"{place}: must be a folder")
    if Path(path).is_dir():
        if any(Path(path).iterdir()):
            raise InvalidInput(f"{place}: exists and is not empty", hint=hint)
    elif Path(path).exists():
        raise InvalidInput(f"{place} is a file, not a folder", hint="name a new folder")


@contextlib.contextmanager
def _unavailable(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        protected = isinstance(error, PermissionError) and "its folder is write-protected"
        reason = protected or getattr(error, "strerror", None) or error
        raise Unavailable(f"{place}: {reason}") from error
