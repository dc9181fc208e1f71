"""Read what the parameters of a function are for, by their names and number.

If the names say nothing, the number of parameters decides. The form (:mod:`call_form`) says how the
function is called beyond that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc_cli.calls.roles import HEAD_SIZES, IRRELEVANT, UNSUPPORTED, roles_of
from posenc_cli.records import Record


class NamedParameter(Record):
    """A parameter of a function; ``default`` is its text, or None if there is none.

    ``fields`` are those of its type if that is a dataclass or a named tuple.
    """

    name: str
    kind: str
    default: str | None
    annotation: str = ""
    fields: tuple[NamedParameter, ...] = ()

    @classmethod
    def of(cls, given: dict[str, Any]) -> NamedParameter:
        """Return the parameter that the worker describes."""
        return cls(
            given["name"],
            given["kind"],
            given["default"],
            given["annotation"],
            tuple(map(cls.of, given.get("fields", ()))),
        )

    @property
    def required(self) -> bool:
        """Whether it has no default, and is not ``*args`` or ``**kwargs``."""
        return self.default is None and not self.variable

    @property
    def by_name(self) -> bool:
        """Whether it can only be given by name."""
        return self.kind == "KEYWORD_ONLY"

    @property
    def variable(self) -> bool:
        """Whether it accepts any number of arguments."""
        return self.kind.startswith("VAR_")

    @property
    def affects_values(self) -> bool:
        """Whether values may depend on it, unlike on a device or a number format."""
        return not (self.variable or {*self.roles()[:1]} & IRRELEVANT)

    def typed_as_default(self, value: float) -> float:
        """Return a number in the type of the default: an integer if both are whole."""
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole and (self.default or "").isdecimal() else value

    @property
    def setting(self) -> str:
        """The default if it is a number, true, false or None; else "".

        It is "" for a device and a number format too.
        """
        text = "" if self.name in ("device", "dtype") else self.default or ""
        try:
            float({"True": "1", "False": "0", "None": "0"}.get(text, text))
        except ValueError:
            return ""
        return text

    def has_other_meaning(self, role: str) -> bool:
        """Return whether an optional parameter means an axis, or a first position, instead."""
        if role == "dim":
            return self.name in ("dim", "dims")
        return role == "base" and self.default != "None" and float(self.setting or 2) <= 1

    @property
    def gives_heads(self) -> bool:
        """Whether it gives the number of heads side by side, or their dimensions."""
        return bool({*self.roles()} & {"heads", "key_heads"}) or self.name in HEAD_SIZES

    def roles(self) -> tuple[str, ...]:
        """Return the roles it may have by its name or its type; nothing if these say nothing.

        A parameter whose default is a flag does not give positions. Neither does a single letter
        whose default is a fraction: ``p`` is often a dropout rate.
        """
        found = roles_of(self.name, self.annotation)
        if self.name == "cache" and self.default == "None":
            return ("cache",)  # of keys and values
        fraction = "." in self.setting and len(self.name.strip("_")) == 1
        if fraction or self.default in ("True", "False"):
            found = tuple(role for role in found if role not in ("positions", "offset"))
        return found


class Signature(Record):
    """The signature of a function; ``parameters`` is None if they are unknown."""

    name: str
    is_class: bool
    parameters: tuple[NamedParameter, ...] | None
    libraries: tuple[str, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Signature:
        """Return the signature that the worker describes.

        Raises: KeyError or TypeError for an invalid description.
        """
        parameters = answer["parameters"]
        return cls(
            str(answer["name"]),
            bool(answer["is_class"]),
            None if parameters is None else tuple(map(NamedParameter.of, parameters)),
            tuple(answer["frameworks"]),
        )

    @property
    def named(self) -> bool:
        """Whether a parameter has a name, and is not ``*args`` or ``**kwargs``."""
        return any(not given.variable for given in self.parameters or ())

    @property
    def unsupported(self) -> list[str]:
        """The parameters without a default that posenc does not support."""
        return [
            given.name
            for given in self.required
            if given.name.lower().strip("_") in UNSUPPORTED or "config" in given.roles()
        ]

    @property
    def required(self) -> list[NamedParameter]:
        """The parameters without a default."""
        return [given for given in self.parameters or () if given.required]

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
    """The user's settings of how to call a function.

    ``python`` is the interpreter, and ``roles`` are those of the arguments. ``in_place`` says that
    the function leaves its result in its input. ``axes`` is the order of axes that it has to
    support, ``config`` the config for a class of transformers, and ``layer_type`` the name of its
    layers.
    """

    python: str | None = None
    roles: tuple[str, ...] = ()
    in_place: bool = False
    axes: str | None = None
    config: Mapping[str, Any] | None = None
    layer_type: str | None = None
