"""Run a user's function in a separate process, or in this one through the same interface.

Bytes go to the process and back, each with a deadline. The operating system tells whether the
process is alive. The end of its pipe does not, because a forked copy may keep the pipe open.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

from posenc_cli import interrupts
from posenc_cli.calls import worker
from posenc_cli.calls.called_function import CalledFunction, Crash
from posenc_cli.calls.interpreter import TOO_OLD, chosen_python, worker_command
from posenc_cli.calls.onnx import Refused
from posenc_cli.errors import (
    InvalidInput,
    Unavailable,
    abbreviated,
    printable_text,
    quoted_name,
)
from posenc_cli.transaction import note_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.payloads import Payload
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

_LINE = 1 << 16
"""Most bytes of the line before an answer's arrays; a signature needs a few hundred."""

_MOST_CHARACTERS = 400
"""Most characters of an error in a message; the worker sends a little more than 300."""

_SPARE = 1 << 26
"""Bytes of an answer that are allowed beyond the size expected from the request."""


_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Calls are small: torch's threads would spin between them, and triple the CPU time."""

_POLL_SECONDS = 0.1
"""Seconds between checks of whether a silent process is alive."""

_END_SECONDS = 1.0
"""Seconds that a process may take to end after its pipe."""

_MOST_STDERR = 200
"""Most bytes of early standard error in a message."""

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
    ``command`` returns the command line for a descriptor, which the program makes its standard
    error. Until then its standard error is kept, because the program may not be the expected one.
    """

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        interrupts.clean_up_by(self.end)
        self._early_stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        spoken = os.dup(2)
        try:
            self._process = subprocess.Popen(
                command(spoken),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._early_stderr,
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
            self._wait_for(self._into, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._into, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                self._end_of_pipe()

    def line(self, *, deadline: float, most: int) -> bytes:
        """Return the bytes up to the next line feed, without it.

        Raises: Silence, Lateness, ValueError if there are more than ``most``.
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
        """Return the next ``count`` bytes.

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
        """Return the first line of its early standard error, or "" if there is none."""
        self._early_stderr.seek(0)
        return self._early_stderr.readline(_MOST_STDERR).decode(errors="replace").strip()

    def end(self, request: str = "") -> None:
        """End the process, and all that it has started in its group.

        If it ends by this ``request`` in time, the system adds the time of its children to its own.
        """
        interrupts.clean_up_no_more_by(self.end)
        if request:
            with contextlib.suppress(Silence, Lateness, subprocess.TimeoutExpired):
                self.send(request.encode(), deadline=time.monotonic())
                self._process.wait(_POLL_SECONDS)
            self._kill()
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._early_stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read_into(self, buffer: memoryview, deadline: float) -> int:
        """Read at least one byte, and return the number of bytes.

        Raises: Silence, Lateness.
        """
        while True:
            self._wait_for(self._from, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                return os.readv(self._from, [buffer]) or self._end_of_pipe()

    def _wait_for(self, pipe: int, event: int, deadline: float) -> None:
        """Return once ``pipe`` is ready.

        Raises: Silence if the process has ended and the pipe is not ready, Lateness.
        """
        poll, lives = select.poll(), True
        poll.register(pipe, event)
        while not poll.poll(1000 * min(_POLL_SECONDS, max(deadline - time.monotonic(), 0))):
            if not lives:
                raise Silence(self._process.returncode)
            # Poll once more: what the process wrote before its end can still be read.
            lives = self._process.poll() is None
            if not lives:
                self._kill()
            elif time.monotonic() >= deadline:
                raise Lateness

    def _end_of_pipe(self) -> NoReturn:
        """Raise Silence after the end of a pipe."""
        try:
            ended = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise Silence(None) from None
        self._kill()
        raise Silence(ended)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)


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
        self._number = 0
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
        flag = f"--python {quoted_name(self.python)}"
        try:
            self._exchange = Exchange(
                lambda stderr: worker_command(self.python, self.target, stderr=stderr)
            )
        except OSError as error:
            raise Unavailable(f"{flag} cannot be run: {error.strerror or error}") from None
        try:
            hello = self._line(time.monotonic() + _START_SECONDS)
            if not isinstance(hello["python"], str):
                raise TypeError
        except Silence as silence:
            what = (
                "is older than Python 3.8"
                if silence.ended == TOO_OLD
                else f"is not a Python interpreter that runs: it {_ending_text(silence.ended)}"
            )
            said = self._exchange.said()
            hint = f"it said: {printable_text(said)}" if said else None
            raise Unavailable(f"{flag} {what}", hint=hint) from None
        except Lateness:
            raise Unavailable(f"{flag} did not start within a minute") from None
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{flag} is not a Python interpreter") from None
        self._describe()

    def renew(self) -> None:
        """Get a function that was never called, in a copy of its process or in a new one.

        Raises: InvalidInput, Unavailable.
        """
        renewed = False
        if self._exchange is not None:
            with contextlib.suppress(InvalidInput):
                renewed = "python" in self._exchange_messages({"do": "renew"})[0]
        if renewed:
            self._describe()
        else:
            super().renew()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._exchange is not None:
            self._exchange.end('{"do": "end", "bytes": 0}\n')
            self._exchange = None

    def _exchange_messages(
        self, payload: Payload | dict[str, Any], *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        self._number += 1
        call_text = ""
        if isinstance(payload, dict):
            header = {**payload, "id": self._number, "bytes": 0}
            message: list[bytes | memoryview] = [json.dumps(header).encode() + b"\n"]
            most = 0
        else:
            message = payload.message(self._number)
            assert positions is not None
            count, last = positions.size, int(positions.max())
            size = 64 * payload.size + 64 * self.reference.pairs * min(
                max(last + 1, count), MOST_ROWS
            )
            most = _SPARE + size
            call_text = (
                f", called as {self.signature.name}({payload.names}) with {count} positions "
                f"up to {last}"
            )
        seconds = min(SECONDS, _SECONDS_AFTER_HANG) if self._hung else SECONDS
        deadline = time.monotonic() + seconds
        try:
            assert self._exchange is not None
            for part in message:
                self._exchange.send(part, deadline=deadline)
            answer = self._line(deadline)
            size = answer["bytes"]
            if answer["id"] not in (0, self._number) or type(size) is not int or size < 0:
                raise ValueError  # output of another process, or of the function
            if size > most:
                self._end_with_error(
                    f"returned {size} bytes, more than any result of this call has{call_text}"
                )
            data = self._exchange.bytes(size, deadline=deadline)
            said, why = answer.get("error"), answer.get("why")
            if not all(isinstance(text, str | None) for text in (said, why)):
                raise TypeError
        except Lateness:
            self._hung = True
            self._end_with_error(
                f"gave no answer within {seconds:g} seconds{call_text}", crashed=True
            )
        except Silence as silence:
            # A process that runs out of memory is killed, which is not a fault of the function.
            crashed = silence.ended not in (None, -signal.SIGKILL)
            self._end_with_error(f"{_ending_text(silence.ended)}{call_text}", crashed=crashed)
        except (ValueError, KeyError, TypeError, RecursionError):
            self.end()
            raise self._unreadable() from None
        if said is not None:
            first = printable_text(said.strip().partition("\n")[0])[:_MOST_CHARACTERS]
            raise self._error_for_user(first + call_text * (why == "exited"), why or "", positions)
        return answer, data

    def _end_with_error(self, what: str, *, crashed: bool = False) -> NoReturn:
        self.end()
        error = self.invalid(what)
        raise (Crash(error.message) if crashed else error) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        """Return the line of JSON that begins an answer.

        Raises: Silence, Lateness, ValueError, TypeError.
        """
        assert self._exchange is not None
        answer: dict[str, Any] = json.loads(self._exchange.line(deadline=deadline, most=_LINE))
        return answer


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
        super().__init__(
            name_of_function(function),
            reference,
            asked,
            python=sys.executable,
            context=context,
            renews=isinstance(function, type),
        )
        self._given = self._function = function

    @property
    def lives(self) -> bool:
        """Whether it can be called."""
        return True

    def start(self) -> None:
        """Read the signature of the function, and make a new object of a class."""
        self._function = self._given
        self._describe()

    def end(self) -> None:
        """Do nothing: there is no process to end."""

    def _exchange_messages(
        self, payload: Payload | dict[str, Any], *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        if isinstance(payload, dict):
            header, data = payload, bytearray()
        else:
            line, *parts = payload.message(0)
            header, data = json.loads(bytes(line)), bytearray(b"".join(parts))
        try:
            self._function, report, arrays = worker.answer_request(
                self._function, self._given, header, data
            )
        except Refused as refused:
            raise self._error_for_user(str(refused), refused.why, positions) from refused.__cause__
        except SystemExit as ended:
            raised = f"raised {worker.error_text(ended)}"
            raise self._error_for_user(raised, "exited", positions) from None
        return report, bytearray(b"".join(arrays))


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
