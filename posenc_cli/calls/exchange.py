"""Bytes sent to a process and back, each with a deadline.

Whether the process lives is asked of the system: the end of its pipe says little, since a copy that
the process made of itself, or something that it started, may hold the pipe open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, NoReturn

from posenc_cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Calls are small: torch's threads would spin between them, and cost three times the work."""

_GLANCE = 0.1
"""Seconds between looks at whether a silent process still lives."""

_PARTING = 1.0
"""Seconds that a process whose pipe has ended is given to end as well."""

_MOST_SAID = 200
"""Bytes of what a program said that is told."""

_PIPE = 1 << 20
"""Bytes that a pipe holds: of fewer, both processes wait for each other more often."""

_LARGE_ARRAYS = {f"MALLOC_{name}_THRESHOLD_": str(1 << 30) for name in ("MMAP", "TRIM")}
"""Keeps the memory of arrays for those of the next call: new pages cost more than arithmetic."""


class Silence(Exception):
    """A process that says no more: it has ``ended`` with this status, or lives on (None)."""

    def __init__(self, ended: int | None) -> None:
        super().__init__(ended)
        self.ended = ended


class Lateness(Exception):
    """A process that did not answer before the deadline."""


class Exchange:
    """A process with a pipe to it and one from it, in a process group of its own.

    A group of its own keeps Ctrl-C from it, and lets all be ended that it has started.
    ``command`` is what starts it, by the descriptor that it is to take for its standard error;
    what it says before, as a program may that is not the one expected, is kept.
    """

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        interrupts.clean_up_by(self.end)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        spoken = os.dup(2)
        try:
            self._process = subprocess.Popen(
                command(spoken),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                process_group=0,
                pass_fds=[spoken],
                env={**_ONE_THREAD, **_LARGE_ARRAYS, **os.environ},
            )
        finally:
            os.close(spoken)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        for pipe in (self._into, self._from):
            os.set_blocking(pipe, False)
            with contextlib.suppress(AttributeError, OSError):  # only Linux has larger pipes
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
        self._unread = bytearray()

    def send(self, data: bytes | memoryview, *, deadline: float) -> None:
        """Write all of ``data``; ``deadline`` is a time of the monotonic clock.

        Raises: Silence, Lateness.
        """
        rest = memoryview(data)
        while rest:
            self._await(self._into, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._into, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                self._end_of_pipe()

    def line(self, *, deadline: float, most: int) -> bytes:
        """The bytes up to the next line feed, without it.

        Raises: Silence, Lateness, ValueError where there are more than ``most``.
        """
        start = 0
        while (end := self._unread.find(b"\n", start)) < 0:
            start = len(self._unread)
            if start > most:
                raise ValueError
            self._unread += bytes(most)
            read = self._read_into(memoryview(self._unread)[start:], deadline)
            del self._unread[start + read :]
        message = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return message

    def bytes(self, count: int, *, deadline: float) -> bytearray:
        """The next ``count`` bytes.

        Raises: Silence, Lateness.
        """
        data, done = bytearray(count), min(count, len(self._unread))
        data[:done] = self._unread[:done]
        del self._unread[:done]
        rest = memoryview(data)[done:]
        while rest:
            rest = rest[self._read_into(rest, deadline) :]
        return data

    def said(self) -> str:
        """The first line that it said before it took its standard error; none: ""."""
        self._said.seek(0)
        return self._said.readline(_MOST_SAID).decode(errors="replace").strip()

    def end(self, request: str = "") -> None:
        """End the process and all that it has started in its group.

        A process that ends by this ``request``, in time, leaves nothing of what it started: the
        system then counts the time of that with its own.
        """
        interrupts.clean_up_no_more_by(self.end)
        if request:
            with contextlib.suppress(Silence, Lateness, subprocess.TimeoutExpired):
                self.send(request.encode(), deadline=time.monotonic())
                self._process.wait(_GLANCE)
            self._kill()
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read_into(self, buffer: memoryview, deadline: float) -> int:
        """How many bytes were read, at least one.

        Raises: Silence, Lateness.
        """
        while True:
            self._await(self._from, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                return os.readv(self._from, [buffer]) or self._end_of_pipe()

    def _await(self, pipe: int, event: int, deadline: float) -> None:
        """Return once ``pipe`` is ready.

        Raises: Silence when the process has ended and the pipe is not ready, Lateness.
        """
        poll, lives = select.poll(), True
        poll.register(pipe, event)
        while not poll.poll(1000 * min(_GLANCE, max(deadline - time.monotonic(), 0))):
            if not lives:
                raise Silence(self._process.returncode)
            # What a process wrote before its end can still be read: once more round.
            lives = self._process.poll() is None
            if not lives:
                self._kill()
            elif time.monotonic() >= deadline:
                raise Lateness

    def _end_of_pipe(self) -> NoReturn:
        """Raises: Silence."""
        try:
            ended = self._process.wait(_PARTING)
        except subprocess.TimeoutExpired:
            raise Silence(None) from None
        self._kill()
        raise Silence(ended)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
