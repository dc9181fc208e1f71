"""A user's function in a process of its own, and the form in which it can be called.

Which form a function has is found by calling it. One fits where the call succeeds, what comes back
has the right shape, no head is turned otherwise than another, and lengths are kept; where none is
so good, the first that runs is taken. Nothing is compared with the reference here: a wrong function
does not become right by the way that it is called.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from posenc_cli.checks.exchange import Exchange, Lateness, Silence
from posenc_cli.checks.interpreter import TOO_OLD, chosen_python, worker_command
from posenc_cli.checks.signatures import (
    CallForm,
    Payload,
    Signature,
    Vectors,
    forms,
    request,
    rows_of,
    settings,
    shape_of,
)
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, abbreviated, quoted_name
from posenc_cli.records import Record
from posenc_cli.transaction import note_read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, Self

    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Float32Rows, Integers, NumberArray

    Outcome = Literal["vectors", "tables", "frequencies"]
    """What a function returns: vectors that it turned, tables of cosines and sines, frequencies."""

CELLS = 1 << 20
"""Values of one call, more only where one position has more: the caches of a processor hold them,
and a function's own arrays, a dozen in float64, are few enough for any machine."""

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

_STORED = ("float16", "float32", "float64", "complex64", "complex128")

_KEPT_LENGTH = 0.03
"""Relative: what bfloat16 keeps is kept within this; wrong tables change lengths by tenths."""

_SAME_HEAD = 1e-4
"""Relative: heads that hold one vector are turned alike, but for the order of additions."""

_SAME_ROW = 0.05
"""Of values near 1: a half precision leaves less between two ways to ask for a row."""

_PROBED = (7, 3, 40, 41, 100, 9, 1, 77, 20, 5, 2, 11, 30)
"""Positions of the calls that find the form: near ones, which any table has, in no order."""

_FITS, _RUNS = 3, 1
"""How well a form suits: as well as any can, or no more than that it runs."""


class CallRequest(Record):
    """How a function is to be called, where that was said.

    ``python`` is the interpreter, ``roles`` what its arguments are for, and ``in_place`` says that
    it leaves its result in its input.
    """

    python: str | None = None
    roles: tuple[str, ...] = ()
    in_place: bool = False


class Returned(Record):
    """One value that a function returned, and its number format."""

    values: NumberArray
    dtype: str


class ServedFunction:
    """A user's function, served by a process; a context manager, which ends that process.

    ``context`` is how many positions it may be asked for. With a ``last`` position every call has a
    row of it at its end, of which nothing is returned: what a function does may depend on the
    largest position it sees.
    """

    def __init__(
        self,
        target: str,
        reference: Reference,
        asked: CallRequest,
        *,
        context: int,
        last: int | None = None,
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
        self.outcome: Outcome = "vectors"
        self.made = ""
        self._context, self._last = context, last
        self._number = 0
        self._exchange: Exchange | None = None
        self._form: CallForm | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
            self._choose()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def form(self) -> CallForm:
        """The form in which it is called."""
        assert self._form is not None
        return self._form

    @property
    def text(self) -> str:
        """How it is called, for a reader."""
        made = f", an object of {self.made}" if self.made else ""
        place = "; its result left in place" if self.asked.in_place else ""
        return f"{self.signature.name}{self.form.text(self.reference)}{place}{made}"

    @property
    def follows_length(self) -> bool:
        """Whether what it does may depend on the largest position."""
        return self._last is not None

    @property
    def results(self) -> int:
        """How many results of a call are looked at: q and k, or one."""
        return 2 if self.form.has("q") and self.form.has("k") else 1

    def matrices(self, positions: Integers) -> list[Returned]:
        """The values at all unit vectors: [k, j, o] is column o of unit vector j at position k.

        One for each result. Shape: (positions, columns, columns).
        Raises: InvalidInput when the function does not give them.
        """
        columns = self.form.columns
        most = columns
        if not self.form.any_rows:
            longest = int(positions.max()) + 1 if self._from_zero else positions.size
            most = 1 if self.form.flat else max(1, CELLS // (columns * longest))
        parts = []
        for first in range(0, columns, most):
            some = range(first, min(first + most, columns))
            parts.append(self._turned(positions, some))
        return [
            Returned(np.concatenate([part[which].values for part in parts], axis=1), own.dtype)
            for which, own in enumerate(parts[0])
        ]

    def values(self, x: Float32Rows, positions: Integers, which: int = 0) -> NumberArray:
        """The values of one result at some vectors, a row each; the other is given other vectors.

        Raises: InvalidInput when the function does not give them.
        """
        return self._turned(positions, x, which)[which].values[:, 0]

    def returned(self, positions: Integers) -> list[Returned]:
        """What comes back for rows of ones at some positions, where that is no vectors.

        Raises: InvalidInput when the function does not give it.
        """
        form = self.form
        where = np.arange(int(positions.max()) + 1) if self._from_zero else positions
        if form.has("positions") and self._last is not None:
            where = np.append(positions, self._last)
        ones = [
            Vectors(where.size, 1, np.ones((where.size, 1, form.columns))) for _ in form.vectors
        ]
        results = self._call(form, where, ones)
        if self.outcome == "frequencies":
            return results
        tables = table_rows(results, where.size)
        if tables is None:
            raise self._invalid("returned tables whose shape changes with the number of positions")
        rows = positions if self._from_zero else slice(0, positions.size)
        return [Returned(table.values[rows], table.dtype) for table in tables]

    @property
    def _from_zero(self) -> bool:
        """Whether a call has all positions from 0 on."""
        return self.form.from_zero or (self._last is not None and self.form.has("offset"))

    def _turned(
        self, positions: Integers, given: range | Float32Rows, which: int = 0
    ) -> list[Returned]:
        """Results at positions: of unit vectors along some columns, or of a row each.

        Shape: (positions, heads, columns).
        """
        form = self.form
        if self._from_zero:
            where = np.arange(1 + max(int(positions.max()), self._last or 0))
            return self._once(where, positions, given, which)
        if form.any_rows:
            where, rows = positions, np.arange(positions.size)
            if form.has("positions") and self._last is not None:
                where = np.append(positions, self._last)
            return self._once(where, rows, given, which)
        parts = []
        breaks = np.flatnonzero(np.diff(positions) != 1) + 1
        for rows in np.split(np.arange(positions.size), breaks):
            own = given if isinstance(given, range) else given[rows]
            parts.append(self._once(positions[rows], np.arange(rows.size), own, which))
        return [
            Returned(np.concatenate([part[place].values for part in parts]), first.dtype)
            for place, first in enumerate(parts[0])
        ]

    def _once(
        self, where: Integers, rows: Integers, given: range | Float32Rows, which: int
    ) -> list[Returned]:
        """One call at positions ``where``, of which some rows are kept and given vectors."""
        form = self.form
        if isinstance(given, range):
            vectors = [Vectors.units(where.size, given)] * len(form.vectors)
        else:
            # What is left over, and the other of q and k, are other vectors.
            x = np.ones((where.size, 1, form.columns), np.float32)
            x[rows, 0] = given
            other = other_vectors(x)
            both = (x, other) if which == 0 else (other, x)
            vectors = [Vectors(where.size, 1, part) for part in both[: len(form.vectors)]]
        results = self._vectors_of(self._call(form, where, vectors), form, vectors)
        return [Returned(result.values[rows], result.dtype) for result in results]

    def _vectors_of(
        self, results: list[Returned], form: CallForm, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """Results as vectors. Shape of each: (rows, heads, columns).

        Raises: InvalidInput for what has not the shape of the vectors given.
        """
        wanted = len(form.vectors)
        if not results:
            raise self._invalid("returned None, not real numbers")
        if len(results) < wanted:
            raise self._invalid(f"returned {len(results)} array for q and k: both are wanted")
        first = vectors[0]
        shape = shape_of(form.axes, rows=first.rows, heads=first.heads, columns=form.columns)
        turned = []
        for result, own in zip(results[:wanted], vectors, strict=True):
            if result.values.dtype.kind == "c":
                raise self._invalid(f"returned {result.dtype} numbers, not real numbers")
            if result.values.shape != shape:
                raise self._invalid(
                    f"returned an array of shape {result.values.shape} for x of shape {shape}"
                )
            turned.append(Returned(rows_of(result.values, form, own), result.dtype))
        return turned

    def _start(self) -> None:
        """Start the process, and read what is known of the function.

        Raises: InvalidInput, Unavailable.
        """
        flag = f"--python {quoted_name(self.python)}"
        try:
            self._exchange = Exchange(worker_command(self.python, self.target))
        except OSError as error:
            raise Unavailable(f"{flag}: cannot be run: {error.strerror or error}") from None
        try:
            hello = self._line(time.monotonic() + _GREETING_SECONDS)
            installed, version = list(map(str, hello["has"])), str(hello["python"])
        except Silence as silence:
            what = "is older than Python 3.8"
            if silence.ended != TOO_OLD:
                what = f"is no Python that runs: it {_ending(silence.ended)}"
            raise Unavailable(f"{flag}: {what}") from None
        except Lateness:
            raise Unavailable(f"{flag}: did not start within a minute") from None
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{flag}: is no Python") from None
        self.version = version
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
                raise self._invalid(
                    f"is a class that needs {given.name}",
                    hint="name an object of it: rope = Rope(…) in the module, then module:rope",
                )
        self._exchanged({"do": "make", "values": values})
        text = ", ".join(f"{name}={value:.15g}" for name, value in values.items())
        self.made = f"{self.signature.name}({text})"
        self.signature = self._described()

    def _choose(self) -> None:
        """Find the form in which the function is called.

        Raises: InvalidInput where there is none.
        """
        candidates = forms(self.signature, self.reference, self.asked.roles)
        refusals: list[tuple[CallForm, InvalidInput]] = []
        best: tuple[int, CallForm, Outcome] | None = None
        tried = 0
        deadline = time.monotonic() + SECONDS
        for form in candidates:
            tried += 1
            try:
                fitness, outcome = self._fitness(form)
            except InvalidInput as error:
                if self._exchange is None:
                    raise  # the process has ended, which no other call mends
                refusals.append((form, error))
                continue
            if best is None or fitness > best[0]:
                best = (fitness, form, outcome)
            if fitness >= _FITS:
                break
            if time.monotonic() > deadline:
                break
        if best is None:
            raise self._no_form(refusals)
        _, self._form, self.outcome = best
        if tried > 1:
            # What a call that did not suit left behind is no part of the function.
            self._end()
            self._start()

    def _no_form(self, refusals: list[tuple[CallForm, InvalidInput]]) -> InvalidInput:
        """Why a function cannot be called: what it said to the call that its signature names."""
        if not refusals:
            return self._invalid(
                f"takes ({self.signature.text}), which is none of the known forms",
                hint="wrap it: def rope(x, positions): …; or f(q, k, cos, sin), f(q, k, freqs_cis)",
            )
        for _, error in refusals:
            if error.hint is not None and "--in-place" in error.hint:
                return error
        first_form, first = refusals[0]
        # A function of tensors meets arrays with one of these.
        if any(f": raised {name}" in first.message for name in ("AttributeError", "TypeError")):
            other = next((e for form, e in refusals if form.library != first_form.library), None)
            first = other or first
        hint = f"it takes ({self.signature.text}); {len(refusals)} ways to call it were tried"
        if self.asked.roles and (likely := forms(self.signature, self.reference)):
            hint = f"its signature suggests --call {likely[0].roles_text.replace(' ', '')}"
        return InvalidInput(first.message, hint=hint)

    def _fitness(self, form: CallForm) -> tuple[int, Outcome]:
        """How well a form suits, and what comes back.

        Raises: InvalidInput where the call fails.
        """
        columns, pairs = form.columns, self.reference.pairs
        taken = {1, columns, columns // 2, 2 * pairs, pairs}
        rows = next(n for n in (5, 7, 6, 9, 11, 13) if n not in taken)
        heads = next(n for n in (3, 4, 10, 12, 14) if n not in {*taken, rows})
        positions = np.arange(rows)
        if form.has("offset"):
            positions = positions + 2
        elif form.any_rows:
            positions = np.array(_PROBED)[:rows] % max(2, self._context)
        generator = np.random.default_rng(5)
        vectors = []
        for _ in form.vectors:
            values = generator.standard_normal((rows, heads, columns)).astype(np.float32)
            values[:, -1] = values[:, 0]
            vectors.append(Vectors(rows, heads, values))
        results = self._call(form, positions, vectors)
        outcome = self._other_outcome(form, results, rows * (heads if form.flat else 1))
        if outcome is not None:
            return _FITS, outcome
        if not form.vectors:
            shapes = " and ".join(str(result.values.shape) for result in results)
            raise self._invalid(
                f"returned an array of shape {shapes}: neither tables nor frequencies"
            )
        turned = self._vectors_of(results, form, vectors)
        if form.guessed and not self._rows_alone(form, positions, vectors, turned):
            return _RUNS, "vectors"
        if form.documented:
            return _FITS, "vectors"
        fitness = _RUNS
        if all(_heads_alike(result.values) for result in turned):
            fitness += 1
            if all(
                _lengths_kept(result.values, own)
                for result, own in zip(turned, vectors, strict=True)
            ):
                fitness += 1
        return fitness, "vectors"

    def _rows_alone(
        self,
        form: CallForm,
        positions: Integers,
        vectors: Sequence[Vectors],
        turned: Sequence[Returned],
    ) -> bool:
        """Whether the last row comes back alone as it did among others.

        It does not where an offset of the first row was given the positions of all.
        """
        own = []
        for part in vectors:
            assert part.values is not None
            own.append(Vectors(1, part.heads, part.values[-1:]))
        alone = self._vectors_of(self._call(form, positions[-1:], own), form, own)
        return all(
            np.allclose(one.values, of_all.values[-1:], rtol=0, atol=_SAME_ROW)
            for one, of_all in zip(alone, turned, strict=True)
        )

    def _other_outcome(self, form: CallForm, results: list[Returned], rows: int) -> Outcome | None:
        """What comes back where that is no vectors."""
        if len(form.vectors) > 1:
            return None
        if len(results) == 1:
            only = results[0].values
            if _is_frequencies(results[0], self.reference.pairs):
                return "frequencies"
            if form.vectors and (only.dtype.kind == "f" or only.shape[-1:] == (form.columns,)):
                return None
        return None if table_rows(results, rows) is None else "tables"

    def _call(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """What the function returns; what is no array is left out.

        Raises: InvalidInput.
        """
        payload = request(form, self.reference, positions, vectors, in_place=self.asked.in_place)
        answer, data = self._exchanged(payload, positions=positions)
        try:
            return _returned(answer, data)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._end()
            raise self._unreadable() from None

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
            self._end()
            raise self._unreadable() from None
        if "error" in answer:
            raise self._refusal(str(answer["error"]), str(answer.get("why")), positions)
        return answer, data

    def _lost(self, what: str) -> NoReturn:
        self._end()
        raise self._invalid(what) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        """The line of JSON that begins an answer.

        Raises: Silence, Lateness, ValueError, TypeError.
        """
        assert self._exchange is not None
        answer = json.loads(self._exchange.line(deadline=deadline, most=_LINE))
        if not isinstance(answer, dict):
            raise TypeError
        return answer

    def _end(self) -> None:
        if self._exchange is not None:
            self._exchange.end()
            self._exchange = None

    def _refusal(self, error: str, why: str, positions: Integers | None) -> PosencError:
        """What to tell the user of an error that the worker reports."""
        if why == "needs":
            return Unavailable(
                f"--impl {abbreviated(self.target)}: {error}",
                hint=f"it was looked for by {quoted_name(self.python)}; --python names another",
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
        return self._invalid(error, hint=hint)

    def _unreadable(self) -> InvalidInput:
        return self._invalid("wrote where its answers go: they cannot be read")

    def _invalid(self, what: str, *, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"--impl {abbreviated(self.target)}: {what}", hint=hint)


def other_vectors(x: NumberArray) -> NumberArray:
    """What k is given where q is given x, and q where k is: other vectors, of other lengths."""
    other: NumberArray = np.roll(x, 1, axis=-1) * np.float32(0.5)
    return other


def _returned(answer: dict[str, Any], data: bytearray) -> list[Returned]:
    """The arrays of an answer.

    Raises: ValueError, KeyError, TypeError or AttributeError for what is none.
    """
    results, start = [], 0
    for form in answer["results"]:
        if form is None:
            continue
        if form["stored"] not in _STORED or form["dtype"] not in ("bfloat16", form["stored"]):
            raise ValueError
        stored = np.dtype(form["stored"])
        shape = tuple(int(size) for size in form["shape"])
        size = stored.itemsize * int(np.prod(shape, dtype=object))
        if any(axis < 0 for axis in shape) or start + size > len(data):
            raise ValueError
        values = np.frombuffer(data, stored, count=size // stored.itemsize, offset=start)
        results.append(Returned(values.reshape(shape), str(form["dtype"])))
        start += size
    if start != len(data):
        raise ValueError
    return results


def table_rows(results: list[Returned], rows: int) -> list[Returned] | None:
    """Cosines and sines, a row each; None where results are no tables of so many rows.

    They are a pair of tables, complex numbers, pairs of a cosine and a sine beside each other, or
    angles; axes of length 1 do not count.
    """
    real = [result for result in results if result.values.dtype.kind == "f"]
    if len(results) == 1:
        only, dtype = results[0].values, results[0].dtype
        if not real:
            parts, dtype = (only.real, only.imag), dtype.replace("complex64", "float32")
            dtype = dtype.replace("complex128", "float64")
        elif only.shape[-1:] == (2,):
            parts = only[..., 0], only[..., 1]
        else:
            angles = only.astype(np.float64)
            parts = np.cos(angles), np.sin(angles)
        results = [Returned(part, dtype) for part in parts]
    elif len(results) != 2 or len(real) != 2:
        return None
    tables = []
    for result in results:
        values = result.values
        while values.ndim > 2 and 1 in values.shape[:-1]:
            values = values.squeeze(values.shape.index(1))
        if values.ndim != 2 or values.shape[0] != rows:
            return None
        tables.append(Returned(values, result.dtype))
    return tables if tables[0].values.shape == tables[1].values.shape else None


def _is_frequencies(result: Returned, pairs: int) -> bool:
    values = result.values
    return values.dtype.kind == "f" and values.size == max(values.shape, default=0) == pairs


def _heads_alike(values: NumberArray) -> bool:
    """Whether the last head, which was given the first one's vectors, came back as that did."""
    size = np.abs(values[:, 0]).max(initial=1e-30)
    return bool(np.abs(values[:, 0] - values[:, -1]).max(initial=0) <= _SAME_HEAD * size)


def _lengths_kept(values: NumberArray, vectors: Vectors) -> bool:
    """Whether all lengths were multiplied alike."""
    before = np.linalg.norm(np.asarray(vectors.values, np.float64), axis=2)
    with np.errstate(all="ignore"):
        ratios = np.linalg.norm(values.astype(np.float64), axis=2) / before
    middle = float(np.median(ratios))
    return bool(np.isfinite(ratios).all() and np.ptp(ratios) <= _KEPT_LENGTH * middle)


def _ending(status: int | None) -> str:
    """How a process came to say no more."""
    if status is None:
        return "closed the pipe that its answers go by"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"
