"""Describe, create and call a user's function, in any process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import TYPE_CHECKING, Any

from posenc_cli.calls.answers import Returned, check_description, returned_arrays
from posenc_cli.calls.payloads import (
    NO_EFFECT,
    Payload,
    Vectors,
    axis_sizes,
    layout_flag,
    request,
    role_settings,
    settings_by_name,
    split_qkv,
)
from posenc_cli.calls.roles import HEAD_SIZES, NAMES, roles_of
from posenc_cli.calls.signature import CallRequest, NamedParameter, Signature
from posenc_cli.errors import InvalidInput, PosencError, Unavailable, abbreviated, quoted_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers


class Crash(InvalidInput):
    """A function that ended its process in a call, tried to exit, or never returned."""


_LENGTH, _ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"
"""Parameters for the longest sequence, and for the original context."""

_SHORT = 32
"""Length of an object whose class requires one, for calls past it."""


SHAPE = "shape"
"""The code of an error for results of another shape than expected."""


class WrongShape(InvalidInput):
    """A function that returned an array of another shape than its input."""

    def __init__(self, message: str, *, hint: str | None = None, code: str = SHAPE) -> None:
        super().__init__(message, hint=hint, code=code)


class Dropped(WrongShape):
    """A function that returned fewer values than it was given."""


class CalledFunction(ABC):
    """A user's function; ``target`` is its name in messages, and ``python`` runs it.

    ``context`` is the number of positions that it may be asked for, and the length of an object of
    a class. ``short_length`` is the parameter and value of a shorter length, and the position below
    which calls past it must be right: the default length, which must grow, or one chosen for a
    required parameter, past which a table may end. With ``by_short`` the object is made with it.
    ``by_original`` gives the original context to ``max_position_embeddings``. With ``renews``, a
    new :meth:`start` gives a function that was never called. ``library`` is the framework of the
    arrays of a function that does not rotate. ``returns`` is the framework of the last result, and
    ``overwritten`` says whether the last of two calls changed the result of the first.
    """

    def __init__(
        self,
        target: str,
        reference: Reference,
        asked: CallRequest,
        *,
        python: str,
        context: int,
        renews: bool = True,
    ) -> None:
        self.target, self.reference, self.asked = target, reference, asked
        self.python, self.renews = python, renews
        self.made = self.library = ""
        self.short_length: tuple[str, int, int] | None = None
        self.by_short = self.by_original = False
        self.returns: str | None = None
        self.overwritten: bool | None = None
        self._context = context

    @property
    @abstractmethod
    def lives(self) -> bool:
        """Whether it can be called."""

    @abstractmethod
    def start(self) -> None:
        """Make it ready to be called, again if it was before.

        Raises: InvalidInput, Unavailable.
        """

    def renew(self) -> None:
        """Restore the state before the first call.

        Raises: InvalidInput, Unavailable.
        """
        self.end()
        self.start()

    @abstractmethod
    def end(self) -> None:
        """End the process that runs it, if there is one."""

    @abstractmethod
    def _exchange_messages(
        self, payload: Payload | dict[str, Any], *, positions: Integers | None = None
    ) -> tuple[dict[str, Any], bytearray]:
        """Return the answer to a request, and its bytes.

        Raises: InvalidInput, Unavailable.
        """

    def _describe(self) -> None:
        """Read the signature of the function, and make an object of a class.

        ``first_rows``, the number of rows of the first call, is 0 until then.

        Raises: InvalidInput, Unavailable.
        """
        self.first_rows = 0
        self.given_parameters: list[tuple[str, str]] = []
        self.left_at_default: list[str] = []
        self.signature = self._class = self._described()
        if self.signature.is_class:
            self._make()
        if not self.signature.libraries:
            raise Unavailable(
                f"--impl {abbreviated(self.target)}: {quoted_name(self.python)} has neither NumPy "
                "nor torch, so posenc cannot make arrays for it",
                hint="--python names the interpreter of another environment",
            )

    def other_frameworks(self) -> tuple[str, ...]:
        """Return the loaded frameworks that its signature does not suggest.

        A function may load one itself when it is called.

        Raises: InvalidInput, Unavailable.
        """
        answer, _ = self._exchange_messages({"do": "describe"})
        return tuple(
            name
            for name in (*answer["frameworks"], *answer["loaded"])
            if name not in self.signature.libraries
        )

    def _described(self) -> Signature:
        answer, _ = self._exchange_messages({"do": "describe"})
        try:
            check_description(answer)
            return Signature.of(answer)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._unreadable() from None

    @property
    def may_expect_original(self) -> bool:
        """Whether a class has only one length, which may be the original context."""
        names = {given.name for given in self._class.parameters or () if self._class.is_class}
        return _LENGTH in names and _ORIGINAL not in names and _ORIGINAL in self._named_settings()

    def remake(self) -> None:
        """Make another object if the function is one of a class.

        Raises: InvalidInput.
        """
        if self._class.is_class:
            self.signature = self._class
            self._make()

    def _make(self) -> None:
        """Make an object of a class.

        ``given_parameters`` are the roles and names of the parameters that are given values.
        ``left_at_default`` are the others that may affect values.

        Raises: InvalidInput if a required parameter is unknown.
        """
        roles = {**role_settings(self.reference), "length": self._context, **NO_EFFECT}
        named: dict[str, Any] = {**self._axis_settings(), **self._named_settings()}
        values, configs = dict[str, Any](), dict[str, Any]()
        records: dict[str, dict[str, Any]] = {given.name: {} for given in self._records}
        attributes = {
            given.name: given.roles()[0]
            for given in self.signature.required
            if {*given.roles()} & {"dtype", "device"}
        }
        for given, owner in self._settings:
            own = records.get(owner, values)
            if given.name in named:
                own[given.name] = given.typed_as_default(named[given.name])
                continue
            role = next((role for role in given.roles() if role in roles), None)
            if role == "length" and (given.required or (given.default or "").isdecimal()):
                roles["length"] = self._length(given)
            if role in roles and not (role in NO_EFFECT and given.default):
                own[given.name] = given.typed_as_default(roles[role])
            elif "style" in given.roles():
                own[given.name] = layout_flag(given.name, self.reference)
            elif self.asked.config is not None and _is_config(given):
                configs[given.name] = dict(self.asked.config)
            elif given.required and given.name not in attributes:
                raise self._needs(given, owner)
        self._exchange_messages(
            {
                "do": "make",
                "values": values,
                "configs": configs,
                "records": records,
                "attributes": attributes,
                "library": next(iter(self.signature.libraries), "numpy"),
            }
        )
        given_names = [*values, *(name for fields in records.values() for name in fields)]
        self.given_parameters = [
            (role, name) for name in given_names for role in roles_of(name)[:1]
        ]
        known = {*given_names, *configs, *attributes}
        self.left_at_default = [
            given.name
            for given, _ in self._settings
            if given.affects_values and given.name not in known
        ]
        texts = [_settings_text(values | dict.fromkeys((*configs, *attributes), ()))]
        texts += [f"{name}=({_settings_text(fields)})" for name, fields in records.items()]
        self.made = f"{self.signature.name}({', '.join(filter(None, texts))})"
        self.signature = self._described()

    @property
    def _records(self) -> list[NamedParameter]:
        """The parameters of a class that get a record, unless they get the config."""
        return [
            given
            for given in self.signature.required
            if given.fields and not (self.asked.config is not None and _is_config(given))
        ]

    @property
    def _settings(self) -> list[tuple[NamedParameter, str]]:
        """The parameters of a class, and the fields of its records with the name of the record."""
        records = self._records
        plain = [(given, "") for given in self.signature.parameters or () if given not in records]
        return plain + [(field, given.name) for given in records for field in given.fields]

    def _length(self, given: NamedParameter) -> int:
        """Return the value of a length, and note a shorter one."""
        length = int(given.default or _SHORT)
        short, end = 0 < length < self._context, length if given.required else self._context
        self.short_length = (given.name, length, end) if short else None
        return length if self.by_short else self._context

    def _needs(self, given: NamedParameter, owner: str) -> InvalidInput:
        """Return the error for a required parameter of a class that is not known."""
        hint = "--config FILE or --model NAME gives it one; or " * _is_config(given)
        hint += "name an object of it: rope = Rope(…) in the module, then module:rope"
        name = f"{owner}.{given.name}" if owner else given.name
        return self.invalid(f"is a class that needs {name}", hint=hint)

    def _axis_settings(self) -> dict[str, list[int]]:
        """Return the pairs of each axis, and their dimensions, by the names of parameters."""
        coordinates = self.reference.coordinates
        if coordinates is None or coordinates.oblique:
            return {}
        pairs, columns = axis_sizes(self.reference)
        return {
            **dict.fromkeys(("mrope_section", "mrope_sections"), pairs),
            **dict.fromkeys(("axes_dim", "axes_dims", "axes_dims_rope"), columns),
        }

    def _named_settings(self) -> dict[str, float]:
        """Return the reference's numbers, by the names of the class's parameters.

        If another parameter is the original context, ``max_position_embeddings`` is a length like
        others. If a parameter is the rotary dim or a share of the head, a head size is that of the
        whole head.
        """
        names = {given.name for given, _ in self._settings}
        named = settings_by_name(self.reference)
        if _ORIGINAL in names and _ORIGINAL not in named and _LENGTH in named:
            named[_ORIGINAL] = named.pop(_LENGTH)
        if self.by_original:
            named[_LENGTH] = named[_ORIGINAL]
        if "factor" in names:
            named.pop("scaling_factor", None)
        if names & {"rotary_dim", *NAMES["share"]}:
            head, share = self.reference.head, 2 * self.reference.pairs / self.reference.head
            named |= {**dict.fromkeys(HEAD_SIZES, head), **dict.fromkeys(NAMES["share"], share)}
        return named

    def call(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """Return the arrays that the function returns at positions (n,) or (p, n).

        Raises: InvalidInput.
        """
        results = self.arrays(
            request(form, self.reference, positions, vectors, in_place=self.asked.in_place),
            positions,
        )
        heads = vectors[0].heads if vectors and form.flat else 1
        self.first_rows = self.first_rows or positions.shape[-1] * heads
        return results

    def keep(self, mode: str) -> None:
        """Make the next call the "first" of two whose arrays a caller keeps, or the same "again".

        The second writes its positions into the arrays of the first, and sets ``overwritten``.

        Raises: InvalidInput.
        """
        self._exchange_messages({"do": "keep", "mode": mode})

    def arrays(self, payload: Payload, positions: Integers) -> list[Returned]:
        """Return the arrays for a request with these positions, as :meth:`call` does.

        Raises: InvalidInput.
        """
        answer, data = self._exchange_messages(payload, positions=positions)
        try:
            self.returns, self.overwritten = answer.get("made"), answer.get("overwritten")
            return returned_arrays(answer, data)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.end()
            raise self._unreadable() from None

    def rotated(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """Return the results for vectors. Shape of each: (b, n, h, d).

        Raises: InvalidInput.
        """
        return self.as_vectors(self.call(form, positions, vectors), form, vectors)

    def as_vectors(
        self, results: list[Returned], form: CallForm, vectors: Sequence[Vectors]
    ) -> list[Returned]:
        """Return results as vectors. Shape of each: (b, n, h, d).

        Raises: InvalidInput if a result has another shape than the vectors.
        """
        wanted = len(form.vectors)
        if form.has("qkv"):
            shape = vectors[0].shape(form.axes)
            results = [
                Returned(part, result.dtype)
                for result in results[:1]
                for part in split_qkv(result.values, form, shape)
            ] or results
        if not results:
            raise self.invalid("returned None, not real numbers")
        if len(results) < wanted:
            raise self.invalid(f"returned {len(results)} array for q and k; it must return both")
        rotated = []
        for result, vector_set in zip(results[:wanted], vectors, strict=True):
            if result.values.dtype.kind == "c":
                raise self.invalid(f"returned {result.dtype} numbers, not real numbers")
            # k with fewer heads than q may be returned with as many as q.
            shapes = {given.shape(form.axes): given for given in (vectors[0], vector_set)}
            values = result.values
            if form.axes == "bnf" and values.ndim == 4:
                values = values.reshape(*values.shape[:2], -1)  # heads on an axis of their own
            if "b" not in form.axes and values.shape[:1] == (1,) and values.shape[1:] in shapes:
                values = values[0]  # code for one sequence may add an axis of sequences
            if values.shape not in shapes:
                shape = vector_set.shape(form.axes)
                error = self.invalid(
                    f"returned an array of shape {values.shape} for x of shape {shape}"
                )
                raise (Dropped if values.size < prod(shape) else WrongShape)(error.message)
            rotated.append(Returned(shapes[values.shape].read(values, form.axes), result.dtype))
        return rotated

    def _error_for_user(self, error: str, why: str, positions: Integers | None) -> PosencError:
        """Return the error for the user from one that the worker reports."""
        if why == "needs":
            return Unavailable(
                f"--impl {abbreviated(self.target)} {error}",
                hint=f"{quoted_name(self.python)} looked for it; --python names another "
                "interpreter, PYTHONPATH adds a folder",
            )
        hints = {
            "missing": "the current folder is not searched; PYTHONPATH=. adds it",
            "changed": "--in-place takes the result from its input",
            "left": "without --in-place, the result is what it returns",
        }
        hint = hints.get(why)
        if why in ("raised", "misused", "exited") and positions is not None:
            hint = (
                f"it was called with {positions.size} positions up to "
                f"{positions.max()}; --len N asks for fewer"
            )
        refused = self.invalid(error, hint=hint, code=why)
        return Crash(refused.message, hint=hint) if why == "exited" else refused

    def _unreadable(self) -> InvalidInput:
        return self.invalid("wrote into the pipe that carries its results; they cannot be read")

    def invalid(self, what: str, *, hint: str | None = None, code: str = "") -> InvalidInput:
        """Return an error about the function."""
        return InvalidInput(f"--impl {abbreviated(self.target)} {what}", hint=hint, code=code)

    def reason(self, error: InvalidInput) -> str:
        """Return why a call failed, without the name of the function."""
        return error.message.removeprefix(self.invalid("").message)


def _is_config(given: NamedParameter) -> bool:
    """Return whether a parameter is a config; an optional ``cfg`` may be anything."""
    return "config" in given.roles() and (given.required or given.name != "cfg")


def _settings_text(values: dict[str, Any]) -> str:
    """Return settings in words; those that are not numbers or flags are not printed."""
    return ", ".join(
        f"{name}={'…' if isinstance(value, tuple) else format(value, '.15g')}"
        if isinstance(value, float | tuple)
        else f"{name}={value}"
        for name, value in values.items()
    )
