"""Run a user's function in a separate process, or in this one through the same interface.

Bytes go to the process and back, each with a deadline. The operating system tells whether the
process is alive. The end of its pipe does not, because a forked copy may keep the pipe open.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from posenc_cli import interrupts
from posenc_cli.calls import worker
from posenc_cli.calls.called_function import CalledFunction, Crash
from posenc_cli.calls.interpreter import TOO_OLD, chosen_python, worker_command
from posenc_cli.calls.payloads import Payload
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, quoted_name
from posenc_cli.transaction import note_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.signature import CallRequest
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers

SECONDS = 300.0
"""Most seconds for one call of a function."""

MOST_ROWS = 1 << 20
"""Most rows for a function whose calls always begin at position 0."""

_SECONDS_AFTER_HANG = 10.0
"""Most seconds for a call of a function that did not answer before: its fault is known."""

_START_SECONDS = 60.0
"""Most seconds for the start of Python, even on a busy machine."""

_FRAME = re.compile(rb"answer +(\d+) +(\d+)\n")
"""What precedes an answer, as the worker writes it."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Calls are small: torch's threads would spin between them, and triple the CPU time."""

_POLL_SECONDS = 0.1
"""Seconds between checks of whether a silent process is alive."""

_END_SECONDS = 1.0
"""Seconds that a process may take to end after its pipe."""

_PIPE = 1 << 20
"""Bytes of a pipe's buffer; with fewer, both processes wait for each other more often."""

_LARGE_ARRAYS = {f"MALLOC_{name}_THRESHOLD_": str(1 << 30) for name in ("MMAP", "TRIM")}
"""Settings that keep memory of arrays for the next call; new pages cost more than arithmetic."""


class Silence(Exception):
    """A process that sends nothing more: it has ``ended`` with this status, or is alive (None)."""

    def __init__(self, ended: int | None) -> None:
        super().__init__(ended)
        self.ended = ended


class Lateness(Exception):
    """A process that did not answer before the deadline."""


class Exchange:
    """A process in a separate process group, with a pipe to it and one from it.

    The group protects it from Ctrl-C, and lets all processes that it started be ended with it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        interrupts.clean_up_by(self.end)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            env={**_ONE_THREAD, **_LARGE_ARRAYS, **os.environ},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = self._process.stdin, self._process.stdout
        self._into, self._from = (pipe.fileno() for pipe in self._pipes)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            with contextlib.suppress(AttributeError, OSError):  # only Linux has larger pipes
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)

    def send(self, data: bytes | memoryview, *, deadline: float) -> None:
        """Write all of ``data``; ``deadline`` is a time of the monotonic clock.

        Raises: Silence, Lateness.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._into, rest) :]
            except BlockingIOError:
                self._wait_for(self._into, select.POLLOUT, deadline)
            except OSError:
                raise self._silence() from None

    def answer(self, *, deadline: float) -> tuple[dict[str, Any], bytearray]:
        """Return the header of the next answer, and the bytes of its arrays.

        Raises: Silence, Lateness, ValueError if other bytes are in the pipe.
        """
        frame = _FRAME.fullmatch(self._bytes(len(worker.FRAME % (0, 0)), deadline))
        if frame is None:
            raise ValueError
        header: dict[str, Any] = json.loads(self._bytes(int(frame[1]), deadline))
        return header, self._bytes(int(frame[2]), deadline)

    def _bytes(self, count: int, deadline: float) -> bytearray:
        """Return the next ``count`` bytes.

        Raises: Silence, Lateness.
        """
        data = bytearray(count)
        rest = memoryview(data)
        while rest:
            try:
                read = os.readv(self._from, [rest])
            except BlockingIOError:
                self._wait_for(self._from, select.POLLIN, deadline)
                continue
            if not read:
                raise self._silence()
            rest = rest[read:]
        return data

    def end(self, request: str = "") -> None:
        """End the process, and all that it has started in its group.

        If it ends by this ``request`` in time, the system adds the time of its children to its own.
        """
        interrupts.clean_up_no_more_by(self.end)
        if request:
            with contextlib.suppress(Silence, Lateness, subprocess.TimeoutExpired):
                self.send(request.encode(), deadline=time.monotonic())
                self._process.wait(_POLL_SECONDS)
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()

    def _wait_for(self, pipe: int, event: int, deadline: float) -> None:
        """Return once ``pipe`` is ready.

        Raises: Silence if the process has ended and the pipe is not ready, Lateness.
        """
        poll, ended = select.poll(), None
        poll.register(pipe, event)
        while not poll.poll(1000 * min(_POLL_SECONDS, max(deadline - time.monotonic(), 0))):
            if ended is not None:
                raise Silence(ended)
            # Poll once more: what the process wrote before its end can still be read.
            ended = self._process.poll()
            if ended is None and time.monotonic() >= deadline:
                raise Lateness

    def _silence(self) -> Silence:
        """Return the exception for the end of a pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return Silence(self._process.wait(_END_SECONDS))
        return Silence(None)


class FunctionProcess(CalledFunction):
    """A user's function in a separate process.

    Raises: InvalidInput if ``target`` does not name a function, Unavailable if the interpreter or
    the file does not exist.
    """

    def __init__(
        self, target: str, reference: Reference, asked: CallRequest, *, context: int
    ) -> None:
        place, colon, name = target.rpartition(":")
        if not target.endswith(".onnx") and not (colon and place and name):
            raise InvalidInput(
                f"--impl {abbreviated(target)}: must be module:function, ./file.py:function or "
                "./model.onnx",
                code="mistyped",
            )
        note_code("--impl", target)
        python = chosen_python(asked.python, place)
        super().__init__(target, reference, asked, python=python, context=context)
        self._hung = False
        self._exchange: Exchange | None = None

    @property
    def lives(self) -> bool:
        """Whether it can be called."""
        return self._exchange is not None

    def start(self) -> None:
        """Start the process, read the signature of the function, and make an object of a class.

        Raises: InvalidInput, Unavailable.
        """
        try:
            self._exchange = Exchange(worker_command(self.python, self.target))
            self._exchange.answer(deadline=time.monotonic() + _START_SECONDS)
        except OSError as error:
            what = f"cannot be run: {error.strerror or error}"
        except Silence as silence:
            ended = f"is not a Python interpreter that runs: it {_ending_text(silence.ended)}"
            what = "is older than Python 3.8" if silence.ended == TOO_OLD else ended
        except (Lateness, ValueError):
            what = "is not a Python interpreter, or did not start within a minute"
        else:
            self._describe()
            return
        raise Unavailable(f"--python {quoted_name(self.python)} {what}")

    def renew(self) -> None:
        """Get a function that was never called, in a copy of its process or in a new one.

        Raises: InvalidInput, Unavailable.
        """
        with contextlib.suppress(InvalidInput):
            if self.lives:
                self._exchange_messages(Payload("renew"))
        if self.lives:
            self._describe()
        else:
            super().renew()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._exchange is not None:
            self._exchange.end('{"do": "end", "bytes": 0}\n')
            self._exchange = None

    def _exchange_messages(
        self, payload: Payload, *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        seconds = min(SECONDS, _SECONDS_AFTER_HANG) if self._hung else SECONDS
        deadline = time.monotonic() + seconds
        kind = InvalidInput
        assert self._exchange is not None
        try:
            for part in payload.message():
                self._exchange.send(part, deadline=deadline)
            answer, data = self._exchange.answer(deadline=deadline)
        except Lateness:
            self._hung = True
            kind = Crash
            what = f"gave no answer within {seconds:g} seconds"
        except Silence as silence:
            what = _ending_text(silence.ended)
            # A process that runs out of memory is killed, which is not a fault of the function.
            if silence.ended not in (None, -signal.SIGKILL):
                kind = Crash
        except ValueError:
            what = "wrote into the pipe that carries its results"
        else:
            if "error" in answer:
                raise self._error_for_user(answer, payload, positions)
            return answer, data
        self.end()
        raise kind(self.invalid(what + self._call_text(payload, positions)).message)


class FunctionHere(CalledFunction):
    """A function of this process, or a class that makes one.

    An exception is an error of the function. A call that never returns, or that ends the process,
    also stops posenc.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        reference: Reference,
        asked: CallRequest,
        *,
        context: int,
    ) -> None:
        name = name_of_function(function)
        python, renews = sys.executable, isinstance(function, type)
        super().__init__(name, reference, asked, python=python, context=context, renews=renews)
        self._given = function

    def start(self) -> None:
        """Read the signature of the function, and make a new object of a class."""
        self._served = worker.ServedObject(self._given)
        self._describe()

    def _exchange_messages(
        self, payload: Payload, *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        line, *parts = payload.message()
        try:
            answer, arrays = self._served.answer(
                json.loads(bytes(line)), bytearray(b"".join(parts))
            )
        except (Exception, SystemExit) as error:
            answer = worker.error_report(error)
            raise self._error_for_user(answer, payload, positions) from error.__cause__
        return answer, bytearray(b"".join(arrays))


def called_function(
    target: str | Callable[..., Any], reference: Reference, asked: CallRequest, *, context: int
) -> CalledFunction:
    """Return a function by its name, in a separate process, or one of this process."""
    if isinstance(target, str):
        return FunctionProcess(target, reference, asked, context=context)
    return FunctionHere(target, reference, asked, context=context)


def name_of_function(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages, or that of its type."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def _ending_text(status: int | None) -> str:
    if status is None:
        return "closed the pipe that carries its results"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"
