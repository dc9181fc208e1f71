"""The result of reading a config: a scheme for each kind of layer, with sources."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Sourced(Record):
    """A value, and where it comes from.

    ``source`` is the path of the key that was read (``rope_parameters.factor``), ``default of``
    a model type, or ``derived:`` and how.
    """

    value: Any
    source: str


WINDOWS = WINDOW, WINDOW_OF_ALL = "window", "window_of_all"
"""What a window is called in derived values: that of layers of one type, or of all."""
WINDOWS_UNREAD = "posenc has not read how {} limits attention"
"""Why windows are not compared with those of a runtime."""
BIAS_TABLES = "bias_tables"
"""What is derived of a learned bias: whether layers share its table, or each has one."""
SHARED, SEPARATE = "one for all layers", "one for each layer"
_LONGEST_VALUE = 60
TRANSFORMERS = "transformers"
"""The runtime whose reading of a config is meant where none is named."""
ALL = "all"
"""What stands for every runtime, where their readings are shown beside each other."""


class Layers(Record):
    """The encoding of the layers of one type: a scheme of the catalogue and its parameters.

    ``layer_type`` is None where all layers are alike, and ``layers`` is empty where a config does
    not say how many there are. ``derived`` is what follows from the parameters: the head's
    columns, the attention factor and what it does to logits, the context.
    """

    layer_type: str | None
    layers: tuple[int, ...]
    scheme: str
    params: Mapping[str, Sourced]
    derived: Mapping[str, Sourced] = fresh(dict)

    @property
    def is_rotary(self) -> bool:
        """Whether their scheme rotates queries and keys."""
        from posenc_cli import catalogue

        return catalogue.find(self.scheme).kind == "rotary"

    @property
    def slides(self) -> bool:
        """Whether they see a window of positions, or chunks of them, alone."""
        label = self.layer_type or ""
        return "window" in self.derived or "sliding" in label or "chunked" in label

    def same_encoding(self, other: Layers) -> bool:
        """Whether both are encoded alike."""
        return self.scheme == other.scheme and self.values() == other.values()

    def values(self) -> dict[str, Any]:
        """The parameters without their sources."""
        return {name: param.value for name, param in self.params.items()}


def grouped(items: Iterable[Any], alike: Callable[[Any, Any], bool]) -> list[list[Any]]:
    """Items, those together that are like the first of their group.

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
    """Refuse a value that the scheme's parameter does not take, by where it comes from.

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
    """A value as its file spells it, on one line and shortened.

    >>> json_text(True), json_text(None), json_text("1e4"), len(json_text("x" * 999))
    ('true', 'null', '"1e4"', 60)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
    text = json.dumps(value)
    half = _LONGEST_VALUE // 2 - 1
    return text if len(text) <= _LONGEST_VALUE else f"{text[:half]} … {text[1 - half :]}"


class Departure(Record):
    """One point at which a runtime makes something else of a config than transformers 5.

    ``topic`` is what it is of, ``what`` the runtime does, ``evidence`` where that can be read.
    """

    runtime: str
    version: str
    topic: str
    what: str
    evidence: str

    def text(self) -> str:
        """The point in words."""
        return f"{self.runtime} {self.version}: {self.what} ({self.evidence})"


class Resolved(Record):
    """What a config says of positions.

    ``unread`` are the rope-like keys that nothing read, ``defaulted`` the rope values that the
    config leaves to its model type, ``contradicted`` the keys that contradict others;
    each means that a model may not be what its config says, as do ``lacking`` parts of a file.
    ``headlines`` are the warnings that
    come before the rest: what the whole reading stands on. ``noun`` is what a reader calls the
    model type. ``departures`` are where another runtime's reading leaves transformers'.
    ``windows_unread`` says that the config has windows, and how the other runtime sees them was not
    read.
    ``config`` is what was read, where it is a config of transformers. ``latent`` are rotary keys of
    a GGUF file that llama.cpp does not read, or without effect there, after the architecture.
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
        """The layers of a type; without one, those that all are like.

        Raises: InvalidInput, with the choices, for an unknown type, or where types differ and
        none is named.
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


@dataclass
class Notes:
    """What a reader of the result should know: collected while a config is read.

    What is said twice is told once, by `resolved`.
    """

    warnings: list[str] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)
    defaulted: list[str] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    windows_unread: bool = False

    def resolved(
        self, model_type: str, layers: Sequence[Layers], unread: Sequence[str], **more: Any
    ) -> Resolved:
        """The result, with all that was noted."""
        told = [*self.headlines, *self.warnings]
        return Resolved(
            model_type,
            tuple(layers),
            unread=tuple(unread),
            warnings=tuple(dict.fromkeys(told)),
            defaulted=tuple(dict.fromkeys(self.defaulted)),
            contradicted=tuple(dict.fromkeys(self.contradicted)),
            lacking=tuple(self.lacking),
            headlines=tuple(dict.fromkeys(self.headlines)),
            windows_unread=self.windows_unread,
            **more,
        )

    def of_transformers(self, paths: Iterable[str]) -> None:
        """Say whose reading the warnings so far are of, where they name keys of these paths."""
        known = tuple(paths)
        self.warnings = [
            f"{TRANSFORMERS}: {text}"
            if any(path in text for path in known) and not text.startswith(TRANSFORMERS)
            else text
            for text in self.warnings
        ]

    def doubt(self, key: str, text: str) -> None:
        """Say that a key contradicts the value in use, or another key."""
        self.warnings.append(text)
        self.contradicted.append(key)

    def ineffective(self, stated: Sourced, reason: str) -> None:
        """Say that a key has no effect, and why, and name it as one that says otherwise."""
        held = stated.value
        value = f"{held:g}" if isinstance(held, float) else json_text(held)
        self.doubt(stated.source, f"{stated.source} {value} has no effect: {reason}")

    def size(self, key: str, size: Sourced) -> None:
        """Say that a size is the model type's, and name it as a default."""
        self.warnings.append(f"{key} is not given: {size.value} is the {size.source}")
        self.defaulted.append(key)
