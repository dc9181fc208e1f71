"""The result of reading a config: a scheme for each type of layer, with sources."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, fresh


class Sourced(Record):
    """A value and its source.

    ``source`` is the path of the key (``rope_parameters.factor``), ``default of`` a model type, or
    ``derived:`` and the rule.
    """

    value: Any
    source: str


WINDOWS = WINDOW, WINDOW_OF_ALL = "window", "window_of_all"
"""Names of the window in derived values: of one layer type, and of all layers."""
WINDOWS_UNREAD = "{}'s code for sliding windows was not checked"
"""The reason why windows are not compared with a runtime's."""
BIAS_TABLES = "bias_tables"
"""Name of the derived value that says whether layers share the table of a learned bias."""
SHARED, SEPARATE = "one for all layers", "one for each layer"
_LONGEST_VALUE = 60
TRANSFORMERS = "transformers"
"""The runtime whose reading is used by default."""
ALL = "all"
"""The name for every runtime, to compare their readings."""


class Layers(Record):
    """The encoding of the layers of one type: a scheme of the catalogue and its parameters.

    ``layer_type`` is None if all layers are of one type. ``layers`` is empty if the config does not
    state their number. ``derived`` are values that follow from the parameters: head dim, attention
    factor, logit multiplier, context.
    """

    layer_type: str | None
    layers: tuple[int, ...]
    scheme: str
    params: Mapping[str, Sourced]
    derived: Mapping[str, Sourced] = fresh(dict)

    @property
    def is_rotary(self) -> bool:
        """Whether the scheme rotates queries and keys."""
        from posenc_cli import catalogue

        return catalogue.find(self.scheme).kind == "rotary"

    @property
    def slides(self) -> bool:
        """Whether the layers attend only to a window or chunk of positions."""
        label = self.layer_type or ""
        return "window" in self.derived or "sliding" in label or "chunked" in label

    def same_encoding(self, other: Layers) -> bool:
        """Return whether two types of layers have the same scheme and parameters."""
        return self.scheme == other.scheme and self.values() == other.values()

    def values(self) -> dict[str, Any]:
        """Return the parameters without their sources."""
        return {name: param.value for name, param in self.params.items()}


def grouped(items: Iterable[Any], alike: Callable[[Any, Any], bool]) -> list[list[Any]]:
    """Return items in groups: each item joins the first group whose first item is alike.

    >>> grouped([1, 2, 3, 5], lambda one, other: one % 2 == other % 2)
    [[1, 3, 5], [2]]
    """
    groups: list[list[Any]] = []
    for item in items:
        own: list[Any] = next((group for group in groups if alike(group[0], item)), [])
        groups += [] if own else [own]
        own.append(item)
    return groups


def check_values(name: str, scheme: str, params: Mapping[str, Sourced]) -> None:
    """Refuse a value that the scheme's parameter does not accept; the error names its source.

    Raises: InvalidInput.

    >>> check_values("config.json", "rope", {"dim": Sourced(1 << 20, "head_dim")})
    Traceback (most recent call last):
    posenc_cli.errors.InvalidInput: config.json: head_dim 1048576: must be from 1 to 65536
    """
    from posenc_cli import catalogue

    parameters = catalogue.find(scheme).parameters
    for parameter, stated in params.items():
        try:
            parameters[parameter].value(stated.value)
        except InvalidInput as error:
            rule = error.message.partition(": ")[2]
            value = json_text(stated.value)
            raise InvalidInput(f"{name}: {stated.source} {value}: {rule}") from error


def json_text(value: object) -> str:
    """Return a value as JSON, on one line and shortened.

    >>> json_text(True), json_text(None), json_text("1e4"), len(json_text("x" * 999))
    ('true', 'null', '"1e4"', 60)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
    text = json.dumps(value)
    half = _LONGEST_VALUE // 2 - 1
    return text if len(text) <= _LONGEST_VALUE else f"{text[:half]} … {text[1 - half :]}"


class Departure(Record):
    """A difference between a runtime's reading of a config and that of transformers 5.

    ``topic`` is the subject, ``what`` the runtime's behaviour, ``evidence`` the place of its code.
    """

    runtime: str
    version: str
    topic: str
    what: str
    evidence: str

    def text(self) -> str:
        """Return the difference in words."""
        return f"{self.runtime} {self.version}: {self.what} ({self.evidence})"


class Resolved(Record):
    """The positional encodings of a config.

    ``unread`` are rope-like keys that nothing read, ``defaulted`` the RoPE values taken from the
    model type, ``contradicted`` the keys that contradict others, and ``lacking`` the missing parts
    of a file. With each of them, the model may differ from its config. ``headlines`` are the most
    important warnings, which come first. ``noun`` is the name of the model type in texts.
    ``departures`` are a runtime's differences from transformers. ``windows_unread`` says that the
    runtime's reading of the config's windows is not known. ``config`` is the config itself, if
    transformers reads it. ``latent`` are rotary keys of a GGUF file without effect in llama.cpp,
    without the architecture's prefix.
    """

    model_type: str
    layers: tuple[Layers, ...]
    unread: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    headlines: tuple[str, ...] = ()
    noun: str = "model type"
    departures: tuple[Departure, ...] = ()
    windows_unread: bool = False
    config: Mapping[str, Any] | None = None
    latent: Mapping[str, Any] = fresh(dict)

    def layer(self, layer_type: str | None = None) -> Layers:
        """Return the layers of a type, or of all types if their encodings are the same.

        Raises: InvalidInput, with the choices, for an unknown type, or if types differ and none is
        given.
        """
        known = [group.layer_type for group in self.layers if group.layer_type is not None]
        choices = ", ".join(known)
        if layer_type is not None:
            for group in self.layers:
                if group.layer_type == layer_type:
                    return group
            raise InvalidInput(
                f"--layer-type {abbreviated(layer_type)}: must be one of {choices}"
                if known
                else f"--layer-type {abbreviated(layer_type)}: all layers of "
                f"{self.model_type} are alike",
                hint=nearest(layer_type, known),
            )
        first, *others = self.layers
        if all(first.same_encoding(group) for group in others):
            return first
        raise InvalidInput(
            f"the layers of {self.model_type} differ: choose a type ({choices})",
            hint=f"--layer-type {known[0]}",
        )


class Notes:
    """Warnings and doubts, collected while a config is read.

    Texts that occur twice are reported once, by `resolved`.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.headlines: list[str] = []
        self.defaulted: list[str] = []
        self.contradicted: list[str] = []
        self.lacking: list[str] = []
        self.windows_unread = False

    def resolved(
        self, model_type: str, layers: Sequence[Layers], unread: Sequence[str], **more: Any
    ) -> Resolved:
        """Return the result, with all notes."""
        return Resolved(
            model_type,
            tuple(layers),
            unread=tuple(unread),
            warnings=tuple(dict.fromkeys([*self.headlines, *self.warnings])),
            defaulted=tuple(dict.fromkeys(self.defaulted)),
            contradicted=tuple(dict.fromkeys(self.contradicted)),
            lacking=tuple(self.lacking),
            headlines=tuple(dict.fromkeys(self.headlines)),
            windows_unread=self.windows_unread,
            **more,
        )

    def mark_transformers_readings(self, paths: Iterable[str]) -> None:
        """Prefix the warnings about keys of these paths with "transformers"."""
        known = tuple(paths)
        self.warnings = [
            f"{TRANSFORMERS}: {text}"
            if any(path in text for path in known) and not text.startswith(TRANSFORMERS)
            else text
            for text in self.warnings
        ]

    def doubt(
        self, key: str, text: str, *, of: list[str] | None = None, headline: bool = False
    ) -> None:
        """Warn of a doubtful key: one ``of`` the given kind, or one that contradicts a value."""
        (self.headlines if headline else self.warnings).append(text)
        (self.contradicted if of is None else of).append(key)

    def ineffective(self, stated: Sourced, reason: str) -> None:
        """Warn that a key has no effect, and count it as contradicted."""
        held = stated.value
        value = f"{held:g}" if isinstance(held, float) else json_text(held)
        self.doubt(stated.source, f"{stated.source} {value} has no effect: {reason}")

    def size(self, key: str, size: Sourced) -> None:
        """Warn that a size is the model type's default."""
        self.doubt(key, f"{key} is not given: {size.value} is the {size.source}", of=self.defaulted)
