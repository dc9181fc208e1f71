"""The process that runs a user's function, or the same interface without a process.

Bytes go to the process and back, each with a deadline. Whether it lives is asked of the system:
the end of its pipe says little, since a copy that it made of itself may hold the pipe open.
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
"""How long one call of a function may take."""

MOST_ROWS = 1 << 20
"""Rows that a function is asked for that always begins at position 0."""

_LATER_SECONDS = 10.0
"""How long one may take of a function that gave no answer before: its fault is known then."""

_GREETING_SECONDS = 60.0
"""How long a Python may take to start, on a machine that has much to do."""

_LINE = 1 << 16
"""Bytes of the line before an answer's arrays: a signature has some hundred."""

_MOST_TOLD = 400
"""Characters of an error that are told: the worker sends some more than 300."""

_SPARE = 1 << 26
"""Bytes of an answer beyond what the request lets expect."""


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


class FunctionProcess(CalledFunction):
    """A user's function, served by a process.

    Raises: InvalidInput for a target that names no function, Unavailable where no Python, or no
    file of that name, is there.
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
        """Start the process, make an object of a class, and read what is known of the function.

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
            hello = self._line(time.monotonic() + _GREETING_SECONDS)
            if not isinstance(hello["python"], str):
                raise TypeError
        except Silence as silence:
            ended = f"is not a Python interpreter that runs: it {_ending(silence.ended)}"
            what = "is older than Python 3.8" if silence.ended == TOO_OLD else ended
            said = self._exchange.said()
            hint = f"it said: {printable_text(said)}" if said else None
            raise Unavailable(f"{flag} {what}", hint=hint) from None
        except Lateness:
            raise Unavailable(f"{flag} did not start within a minute") from None
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{flag} is not a Python interpreter") from None
        self._describe()

    def renew(self) -> None:
        """Have a function that was never called: in a copy of its process, or in a new one.

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
        where = ""
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
            call = f"{self.signature.name}({payload.names})"
            where = f", called as {call} with {count} positions up to {last}"
        seconds = min(SECONDS, _LATER_SECONDS) if self._hung else SECONDS
        deadline = time.monotonic() + seconds
        try:
            assert self._exchange is not None
            for part in message:
                self._exchange.send(part, deadline=deadline)
            answer = self._line(deadline)
            size = answer["bytes"]
            if answer["id"] not in (0, self._number) or type(size) is not int or size < 0:
                raise ValueError  # another process's words, or the function's own
            if size > most:
                self._lost(f"returned {size} bytes, more than any result of this call has{where}")
            data = self._exchange.bytes(size, deadline=deadline)
            said, why = answer.get("error"), answer.get("why")
            if not all(isinstance(text, str | None) for text in (said, why)):
                raise TypeError
        except Lateness:
            self._hung = True
            self._lost(f"gave no answer within {seconds:g} seconds{where}", crashed=True)
        except Silence as silence:
            # Who has no more memory is killed: that says nothing of the function.
            crashed = silence.ended not in (None, -signal.SIGKILL)
            self._lost(f"{_ending(silence.ended)}{where}", crashed=crashed)
        except (ValueError, KeyError, TypeError, RecursionError):
            self.end()
            raise self._unreadable() from None
        if said is not None:
            first = printable_text(said.strip().partition("\n")[0])[:_MOST_TOLD]
            raise self._error_for_user(first + where * (why == "exited"), why or "", positions)
        return answer, data

    def _lost(self, what: str, *, crashed: bool = False) -> NoReturn:
        self.end()
        error = self.invalid(what)
        raise (Crash(error.message) if crashed else error) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        """The line of JSON that begins an answer.

        Raises: Silence, Lateness, ValueError, TypeError.
        """
        assert self._exchange is not None
        answer: dict[str, Any] = json.loads(self._exchange.line(deadline=deadline, most=_LINE))
        return answer


class FunctionHere(CalledFunction):
    """A function, or a class that an object is made of, which the caller of a check has at hand.

    What it raises is an error of the function; what it never returns from, or ends the process by,
    is not guarded against.
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
        self._given = self._function = function

    @property
    def lives(self) -> bool:
        """Whether it can be called."""
        return True

    def start(self) -> None:
        """Read what is known of the function, and make an object of a class anew."""
        self._function = self._given
        self._describe()

    def end(self) -> None:
        """Nothing is to be ended."""

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
    """A function by its name, in a process of its own, or one that is at hand."""
    if isinstance(target, str):
        return FunctionProcess(target, reference, asked, context=context)
    return FunctionHere(target, reference, asked, context=context)


def name_of_function(function: Callable[..., Any]) -> str:
    """What messages call a function: its own name, else its type's."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def _ending(status: int | None) -> str:
    """How a process came to say no more."""
    if status is None:
        return "closed the pipe that carries its results"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"
