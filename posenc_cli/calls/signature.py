"""What a function that rotates queries and keys takes, by the names and number of parameters.

The names of a function's parameters say what each is for; where they say nothing, their number
does. How it is called beyond that is its form (:mod:`call_form`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.calls.roles import HEAD_SIZES, IRRELEVANT, UNMET, roles_of
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class NamedParameter(Record):
    """A parameter of a function; ``default`` is its text, None where it has none."""

    name: str
    kind: str
    default: str | None
    annotation: str = ""

    @property
    def by_name(self) -> bool:
        """Whether it is given by name alone."""
        return self.kind == "KEYWORD_ONLY"

    @property
    def variable(self) -> bool:
        """Whether it stands for any number of arguments."""
        return self.kind.startswith("VAR_")

    @property
    def matters(self) -> bool:
        """Whether values may depend on it: not on where arrays are, and in which format."""
        return not (self.variable or {*self.roles()[:1]} & IRRELEVANT)

    def in_its_type(self, value: float) -> float:
        """A number as it takes it: whole ones as integers where its default is one."""
        whole = (self.default or "").isdecimal() and float(value).is_integer()
        return int(value) if whole and not isinstance(value, bool) else value

    @property
    def setting(self) -> str:
        """Its default where that is a number, true, false or nothing; else empty.

        Empty too of where and in which format arrays are.
        """
        text = "" if self.name in ("device", "dtype") else self.default or ""
        try:
            float({"True": "1", "False": "0", "None": "0"}.get(text, text))
        except ValueError:
            return ""
        return text

    def means_another(self, role: str) -> bool:
        """Whether its default tells that it has another meaning: an axis, or a first position."""
        if role == "dim":
            return self.name in ("dim", "dims")
        return role == "base" and self.default != "None" and float(self.setting or 2) <= 1

    @property
    def tells_heads(self) -> bool:
        """Whether it says how many heads, or of how many dimensions, stand side by side."""
        return bool({*self.roles()} & {"heads", "key_heads"}) or self.name in HEAD_SIZES

    def roles(self) -> tuple[str, ...]:
        """What it may be for, by its name or its type; nothing where these say nothing.

        One whose default is a flag says not where rows are, nor one of a single letter whose
        default is a fraction: a rate of dropout is often a ``p``.
        """
        found = roles_of(self.name, self.annotation)
        if self.name == "cache" and self.default == "None":
            return ("cache",)  # of keys and values
        fraction = "." in self.setting and len(self.name.strip("_")) == 1
        if fraction or self.default in ("True", "False"):
            found = tuple(role for role in found if role not in ("positions", "offset"))
        return found


class Signature(Record):
    """What is known of a function before it is called; ``parameters`` None: nothing of them."""

    name: str
    is_class: bool
    parameters: tuple[NamedParameter, ...] | None
    libraries: tuple[str, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Signature:
        """The signature that the worker describes.

        Raises: KeyError or TypeError for what is no description.
        """
        parameters = answer["parameters"]
        return cls(
            str(answer["name"]),
            bool(answer["is_class"]),
            None
            if parameters is None
            else tuple(
                NamedParameter(*map(given.get, ("name", "kind", "default", "annotation")))
                for given in parameters
            ),
            tuple(answer["frameworks"]),
        )

    @property
    def named(self) -> bool:
        """Whether a parameter has a name, and so is not one of any number."""
        return any(not given.variable for given in self.parameters or ())

    @property
    def unmet(self) -> list[str]:
        """The parameters without a default that need what posenc does not give."""
        return [
            given.name
            for given in self.required
            if given.name.lower().strip("_") in UNMET or "config" in given.roles()
        ]

    @property
    def required(self) -> list[NamedParameter]:
        """The parameters without a default."""
        return [
            given for given in self.parameters or () if given.default is None and not given.variable
        ]

    @property
    def text(self) -> str:
        """The parameters as they are declared."""
        if self.parameters is None:
            return "…"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
        return ", ".join(
            f"{stars.get(given.kind, '')}{given.name}"
            + ("" if given.default is None else f"={given.default}")
            for given in self.parameters
        )


class CallRequest(Record):
    """How a function is to be called, where that was said.

    ``python`` is the interpreter, ``roles`` what its arguments are for, and ``in_place`` says that
    it leaves its result in its input. ``axes`` is the order of axes that it has to take, ``config``
    what a class of transformers is made with, ``layer_type`` the name of the layers that are meant.
    """

    python: str | None = None
    roles: tuple[str, ...] = ()
    in_place: bool = False
    axes: str | None = None
    config: Mapping[str, Any] | None = None
    layer_type: str | None = None
