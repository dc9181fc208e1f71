"""Bytes to a process and back, none waited for past a deadline.

Whether the process lives is asked of the system: the end of its pipe says little, since a copy that
the process made of itself, or something that it started, may hold the pipe open.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

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

_MOST_AT_ONCE = 1 << 20
"""Bytes of one read: what a pipe of any system holds, and few to join."""


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
                env={**_ONE_THREAD, **os.environ},
            )
        finally:
            os.close(spoken)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        for pipe in (self._into, self._from):
            os.set_blocking(pipe, False)
        self._unread = bytearray()

    def send(self, data: bytes, *, deadline: float) -> None:
        """Write all of ``data``; ``deadline`` is a time of the monotonic clock.

        Raises: Silence, Lateness.
        """
        rest = memoryview(data)
        while rest:
            self._await(self._into, selectors.EVENT_WRITE, deadline)
            try:
                rest = rest[os.write(self._into, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._silence() from None

    def line(self, *, deadline: float, most: int) -> bytes:
        """The bytes up to the next line feed, without it.

        Raises: Silence, Lateness, ValueError where there are more than ``most``.
        """
        start = 0
        while (end := self._unread.find(b"\n", start)) < 0:
            start = len(self._unread)
            if start > most:
                raise ValueError
            self._read(deadline)
        message = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return message

    def bytes(self, count: int, *, deadline: float) -> bytearray:
        """The next ``count`` bytes.

        Raises: Silence, Lateness.
        """
        while len(self._unread) < count:
            self._read(deadline)
        data = self._unread[:count]
        del self._unread[:count]
        return data

    def said(self) -> str:
        """The first line that it said before it took its standard error; none: ""."""
        self._said.seek(0)
        return self._said.readline(_MOST_SAID).decode(errors="replace").strip()

    def end(self) -> None:
        """End the process and all that it has started in its group."""
        interrupts.clean_up_no_more_by(self.end)
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self, deadline: float) -> None:
        self._await(self._from, selectors.EVENT_READ, deadline)
        try:
            more = os.read(self._from, _MOST_AT_ONCE)
        except BlockingIOError:
            return
        if not more:
            raise self._silence()
        self._unread += more

    def _await(self, pipe: int, event: int, deadline: float) -> None:
        """Return once ``pipe`` is ready.

        Raises: Silence when the process has ended and the pipe is not ready, Lateness.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            lives = True
            while not selector.select(min(_GLANCE, max(deadline - time.monotonic(), 0))):
                if not lives:
                    raise Silence(self._process.returncode)
                # What a process wrote before its end can still be read: once more round.
                lives = self._process.poll() is None
                if not lives:
                    self._kill()
                elif time.monotonic() >= deadline:
                    raise Lateness

    def _silence(self) -> Silence:
        try:
            ended: int | None = self._process.wait(_PARTING)
        except subprocess.TimeoutExpired:
            return Silence(None)
        self._kill()
        return Silence(ended)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
