"""The keys of a GGUF file, each of the one type that llama.cpp takes, and remembered as read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import broken_bound, printable
from posenc_cli.configs.resolved import Sourced
from posenc_cli.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.configs.resolved import Notes
    from posenc_cli.files.gguf import GGUFHeader, GGUFValue

_ROPE_LIKE = re.compile(
    r"rope|alibi|sliding_window|attention\.(?:scale|temperature_\w+)$|attn_logit_softcapping"
)
PLAIN = re.compile(r"\.rope\.(?:freq_base|dimension_count|scaling\.finetuned)$")
"""Keys that say nothing where no layer rotates, as of Granite 4's hybrids."""
_WHOLE = ("uint32", "int32")
_QUIET = {
    "rope.scaling.finetuned": False,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    "attention.sliding_window": 0,
}
"""Keys that say nothing where they hold what llama.cpp takes anyway."""


class GGUFKeys:
    """The metadata of an architecture; None stands for a key that is absent."""

    def __init__(self, header: GGUFHeader, architecture: str, notes: Notes) -> None:
        self.header, self.architecture, self.notes = header, architecture, notes
        self.read: set[str] = set()

    def path(self, key: str) -> str:
        """The whole key."""
        return f"{self.architecture}.{key}"

    def missing(self, key: str) -> InvalidInput:
        """The error for a key without which llama.cpp loads no file."""
        return InvalidInput(
            f"{self.header.name}: {self.path(key)} is missing: llama.cpp does not load the file"
        )

    def default(self, key: str, value: Any, *, stated: Sourced | None = None) -> Sourced:
        """What llama.cpp takes where a key is absent, or ``stated`` is 0."""
        why = "key absent" if stated is None else "key is 0"
        return Sourced(value, f"DEFAULT: {why} ({self.path(key)})")

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """A float32.

        Raises: InvalidInput for anything else, or one out of bounds.
        """
        stated = self._of_kind(key, "float32")
        if stated is None:
            return None
        value = float(stated.value)
        if rule := broken_bound(value, above, minimum):
            raise self._invalid(key, value, rule)
        return Sourced(value, self.path(key))

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """A uint32; an array of them is none.

        Raises: InvalidInput for a number of another type, or one below the minimum.
        """
        stated = self._get(key)
        if stated is None or stated.type.startswith("array"):
            return None
        if stated.type != "uint32":
            raise self._of_type(key, stated, "uint32")
        if stated.value < minimum:
            raise self._invalid(key, stated.value, f"must be at least {minimum}")
        return Sourced(int(stated.value), self.path(key))

    def needed(self, key: str) -> Sourced:
        """A uint32 that must be there.

        Raises: InvalidInput where it is not.
        """
        stated = self.count(key)
        if stated is None:
            raise self.missing(key)
        return stated

    def counts(self, key: str) -> Sourced | None:
        """A uint32, or an array of them, as a tuple.

        Raises: InvalidInput for anything else.
        """
        stated = self._get(key)
        if stated is None:
            return None
        if stated.type == "uint32":
            return Sourced((int(stated.value),), self.path(key))
        if stated.value is None or stated.type not in [f"array of {kind}" for kind in _WHOLE]:
            raise self._of_type(key, stated, "uint32, or an array of them")
        if not stated.value or min(stated.value) < 0:
            raise self._invalid(key, list(stated.value[:8]), "must be whole numbers from 0 on")
        return Sourced(tuple(stated.value), self.path(key))

    def flags(self, key: str) -> Sourced | None:
        """An array of booleans or of uint32, as a tuple; None for a single number."""
        stated = self._get(key)
        if stated is None or not stated.type.startswith("array"):
            return None
        kinds = [f"array of {kind}" for kind in ("bool", *_WHOLE)]
        if stated.value is None or stated.type not in kinds:
            raise self._of_type(key, stated, "an array of bool")
        return Sourced(tuple(map(bool, stated.value)), self.path(key))

    def flag(self, key: str) -> Sourced | None:
        """True or false.

        Raises: InvalidInput for anything else.
        """
        return self._of_kind(key, "bool")

    def text(self, key: str) -> Sourced | None:
        """A text.

        Raises: InvalidInput for anything else.
        """
        stated = self._of_kind(key, "string")
        if stated is not None and stated.value is None:
            raise InvalidInput(f"{self.header.name}: {self.path(key)} is not a short UTF-8 text")
        return stated

    def unread(self) -> Iterator[str]:
        """The rope-like keys that nothing read, those of other architectures too."""
        own = f"{self.architecture}."
        for key, stated in self.header.metadata.items():
            name = key.removeprefix(own)
            if key in self.read or key.startswith(("general.", "tokenizer.", "split.")):
                continue
            quiet = name != key and name in _QUIET and _QUIET[name] == stated.value
            if _ROPE_LIKE.search(key) and not quiet:
                yield printable(key)

    def _get(self, key: str) -> GGUFValue | None:
        path = self.path(key)
        if path not in self.header.metadata:
            return None
        self.read.add(path)
        return self.header.metadata[path]

    def _of_kind(self, key: str, kind: str) -> Sourced | None:
        stated = self._get(key)
        if stated is None:
            return None
        if stated.type != kind:
            raise self._of_type(key, stated, kind)
        return Sourced(stated.value, self.path(key))

    def _of_type(self, key: str, stated: GGUFValue, wanted: str) -> InvalidInput:
        return InvalidInput(
            f"{self.header.name}: {self.path(key)} is of type {stated.type}: llama.cpp takes "
            f"{wanted} alone, and does not load the file"
        )

    def _invalid(self, key: str, value: object, rule: str) -> InvalidInput:
        return InvalidInput(f"{self.header.name}: {self.path(key)} {value}: {rule}")
