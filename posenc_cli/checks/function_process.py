"""A user's function in a process of its own: it is described, made and called there."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from posenc_cli.checks.answers import Returned, returned_arrays
from posenc_cli.checks.exchange import Exchange, Lateness, Silence
from posenc_cli.checks.interpreter import TOO_OLD, chosen_python, worker_command
from posenc_cli.checks.payloads import Payload, request, settings
from posenc_cli.checks.signatures import Signature
from posenc_cli.errors import (
    InvalidInput,
    PosencError,
    Unavailable,
    abbreviated,
    printable_text,
    quoted_name,
)
from posenc_cli.records import Record
from posenc_cli.transaction import note_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.call_forms import CallForm
    from posenc_cli.checks.payloads import Vectors
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers

SECONDS = 300.0
"""How long one call of a function may take."""

MOST_ROWS = 1 << 20
"""Rows that a function is asked for that always begins at position 0."""

_GREETING_SECONDS = 60.0
"""How long a Python may take to start, on a machine that has much to do."""

_LINE = 1 << 16
"""Bytes of the line before an answer's arrays: a signature has some hundred."""

_SPARE = 1 << 26
"""Bytes of an answer beyond what the request lets expect."""


class CallRequest(Record):
    """How a function is to be called, where that was said.

    ``python`` is the interpreter, ``roles`` what its arguments are for, and ``in_place`` says that
    it leaves its result in its input.
    """

    python: str | None = None
    roles: tuple[str, ...] = ()
    in_place: bool = False


class FunctionProcess:
    """A user's function, served by a process.

    ``context`` is how many positions it may be asked for, which an object of a class is made with.

    Raises: InvalidInput for a target that names no function, Unavailable where no Python, or no
    file of that name, is there.
    """

    def __init__(
        self, target: str, reference: Reference, asked: CallRequest, *, context: int
    ) -> None:
        place, colon, name = target.rpartition(":")
        if not colon or not place or not name:
            raise InvalidInput(
                f"--impl {abbreviated(target)}: must be module:function or ./file.py:function"
            )
        if place.endswith(".py") and not Path(place).is_file():
            raise Unavailable(f"--impl {abbreviated(target)}: there is no file {place!r}")
        if place.endswith(".py"):
            note_read(place)
        self.target, self.reference, self.asked = target, reference, asked
        self.python = chosen_python(asked.python)
        self.made = ""
        self._context = context
        self._number = 0
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
            raise Unavailable(f"{flag}: cannot be run: {error.strerror or error}") from None
        try:
            hello = self._line(time.monotonic() + _GREETING_SECONDS)
            installed = list(map(str, hello["has"]))
        except Silence as silence:
            what = "is older than Python 3.8"
            if silence.ended != TOO_OLD:
                what = f"is no Python that runs: it {_ending(silence.ended)}"
            said = self._exchange.said()
            hint = f"it said: {printable_text(said)}" if said else None
            raise Unavailable(f"{flag}: {what}", hint=hint) from None
        except Lateness:
            raise Unavailable(f"{flag}: did not start within a minute") from None
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{flag}: is no Python") from None
        self._describe(installed)

    def _describe(self, installed: list[str]) -> None:
        """Read what is known of the function, and make an object of a class.

        Raises: InvalidInput, Unavailable.
        """
        self.installed = installed
        self.signature = self._described()
        if self.signature.is_class:
            self._make()
        if not installed:
            raise Unavailable(
                f"--impl {abbreviated(self.target)}: {quoted_name(self.python)} has neither NumPy "
                "nor torch, and so no arrays to call it with",
                hint="--python names the interpreter of another environment",
            )

    def end(self) -> None:
        """End the process, if there is one."""
        if self._exchange is not None:
            self._exchange.end()
            self._exchange = None

    def _described(self) -> Signature:
        answer, _ = self._exchanged({"do": "describe"})
        try:
            return Signature.of(answer, self.installed)
        except (ValueError, KeyError, TypeError):
            raise self._unreadable() from None

    def _make(self) -> None:
        """Make an object of a class whose parameters are known.

        Raises: InvalidInput where one is not.
        """
        roles = {**settings(self.reference), "length": self._context}
        values = {}
        for given in self.signature.parameters or ():
            role = next((role for role in given.roles() if role in roles), None)
            if role is not None:
                values[given.name] = roles[role]
            elif given.default is None and not given.variable:
                raise self.invalid(
                    f"is a class that needs {given.name}",
                    hint="name an object of it: rope = Rope(…) in the module, then module:rope",
                )
        self._exchanged({"do": "make", "values": values})
        text = ", ".join(f"{name}={value:.15g}" for name, value in values.items())
        self.made = f"{self.signature.name}({text})"
        self.signature = self._described()

    def call(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """What the function returns at positions (n,) or (p, n); what is no array is left out.

        Raises: InvalidInput.
        """
        payload = request(form, self.reference, positions, vectors, in_place=self.asked.in_place)
        answer, data = self._exchanged(payload, positions=positions)
        try:
            return returned_arrays(answer, data)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.end()
            raise self._unreadable() from None

    def turned(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """What becomes of vectors. Shape of each: (b, n, h, d).

        Raises: InvalidInput.
        """
        return self.as_vectors(self.call(form, positions, vectors), form, vectors)

    def as_vectors(
        self, results: list[Returned], form: CallForm, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """Results as vectors. Shape of each: (b, n, h, d).

        Raises: InvalidInput for what has not the shape of the vectors given.
        """
        wanted = len(form.vectors)
        if not results:
            raise self.invalid("returned None, not real numbers")
        if len(results) < wanted:
            raise self.invalid(f"returned {len(results)} array for q and k: both are wanted")
        turned = []
        for result, own in zip(results[:wanted], vectors, strict=True):
            if result.values.dtype.kind == "c":
                raise self.invalid(f"returned {result.dtype} numbers, not real numbers")
            shape = own.shape(form.axes)
            if result.values.shape != shape:
                raise self.invalid(
                    f"returned an array of shape {result.values.shape} for x of shape {shape}"
                )
            turned.append(Returned(own.read(result.values, form.axes), result.dtype))
        return turned

    def _exchanged(
        self, payload: Payload | dict[str, Any], *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        """The answer to a request, and its bytes.

        Raises: InvalidInput, Unavailable.
        """
        self._number += 1
        if isinstance(payload, dict):
            header = {**payload, "id": self._number, "bytes": 0}
            message, most = [json.dumps(header).encode() + b"\n"], 0
        else:
            message = payload.message(self._number)
            last = 0 if positions is None else int(positions.max())
            width = 2 * self.reference.pairs
            most = _SPARE + 64 * payload.size + 32 * width * min(last + 1, MOST_ROWS)
        deadline = time.monotonic() + SECONDS
        try:
            assert self._exchange is not None
            for part in message:
                self._exchange.send(part, deadline=deadline)
            answer = self._line(deadline)
            size = answer["bytes"]
            if answer["id"] != self._number or not 0 <= int(size) <= most:
                raise ValueError  # another process's words, or the function's own
            data = self._exchange.bytes(int(size), deadline=deadline)
        except Lateness:
            self._lost(f"gave no answer within {SECONDS:g} seconds")
        except Silence as silence:
            self._lost(_ending(silence.ended))
        except (ValueError, KeyError, TypeError):
            self.end()
            raise self._unreadable() from None
        if "error" in answer:
            raise self._refusal(str(answer["error"]), str(answer.get("why")), positions)
        return answer, data

    def _lost(self, what: str) -> NoReturn:
        self.end()
        raise self.invalid(what) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        """The line of JSON that begins an answer.

        Raises: Silence, Lateness, ValueError, TypeError.
        """
        assert self._exchange is not None
        answer = json.loads(self._exchange.line(deadline=deadline, most=_LINE))
        if not isinstance(answer, dict):
            raise TypeError
        return answer

    def _refusal(self, error: str, why: str, positions: Integers | None) -> PosencError:
        """What to tell the user of an error that the worker reports."""
        if why == "needs":
            return Unavailable(
                f"--impl {abbreviated(self.target)}: {error}",
                hint=f"it was looked for by {quoted_name(self.python)}; --python names another, "
                "PYTHONPATH adds a folder",
            )
        hints = {
            "missing": "the current folder is not searched; PYTHONPATH=. adds it",
            "changed": "--in-place takes the result from its input",
            "left": "without --in-place, the result is what it returns",
        }
        hint = hints.get(why)
        if why == "raised" and positions is not None:
            hint = (
                f"it was called with {positions.size} positions up to "
                f"{positions.max()}; --len N asks for fewer"
            )
        return self.invalid(error, hint=hint)

    def _unreadable(self) -> InvalidInput:
        return self.invalid("wrote where its answers go: they cannot be read")

    def invalid(self, what: str, *, hint: str | None = None) -> InvalidInput:
        """An error of the function."""
        return InvalidInput(f"--impl {abbreviated(self.target)}: {what}", hint=hint)


def _ending(status: int | None) -> str:
    """How a process came to say no more."""
    if status is None:
        return "closed the pipe that its answers go by"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"
