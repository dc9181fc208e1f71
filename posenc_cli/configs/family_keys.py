"""The keys of a rotary text model, by the names and with the defaults of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs.families import ANY_NAME
from posenc_cli.configs.keys import first, json_text
from posenc_cli.configs.resolved import Sourced
from posenc_cli.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.families import Rotary
    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes

CONTEXT = "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"
SHARE = "partial_rotary_factor"


class FamilyKeys:
    """What reads of a rotary config share: its keys, its family, and the notes they leave.

    With ``by_own_class`` a config means what the class of transformers makes of it, and older names
    of rope types are refused where that class does not know them.
    """

    def __init__(
        self, text: Keys, family: Rotary, notes: Notes, *, by_own_class: bool = False
    ) -> None:
        self.by_own_class = by_own_class
        self.text = text
        self.family = family
        self.notes = notes
        self.default_source = family.default_source

    def error(self, message: str, *, hint: str | None = None) -> InvalidInput:
        """The error for what a config says or lacks."""
        return InvalidInput(f"{self.text.name}: {message}", hint=hint)

    def default(self, value: Any) -> Sourced:
        """A value of the model type's."""
        return Sourced(value, self.default_source)

    def names(self, key: str) -> tuple[str, ...]:
        """What the family calls a key at the top of the config, empty where it has it nowhere."""
        name = self.family.keys.get(key, key)
        others = ANY_NAME.get(key, ()) if self.family.any_names else ()
        return (*([] if name is None else [name]), *others)

    def number(self, key: str) -> Sourced | None:
        """A number at the top of the config, by whatever name."""
        return first(*(self.text.number(name) for name in self.names(key)))

    def count(self, key: str) -> Sourced | None:
        """A whole number of the config by whatever name, or the model type's.

        Raises: InvalidInput where it is none.
        """
        names: tuple[str, ...] = (self.family.aliases.get(key, key), key)
        if self.family.any_names:
            names += ANY_NAME.get(key, ())
        count = first(*(self.text.count(name) for name in names))
        if count is None and key in self.family.defaults:
            count = self.default(self.family.defaults[key])
        return count

    def needed_count(self, key: str) -> Sourced:
        """A whole number that must be there.

        Raises: InvalidInput.
        """
        count = self.count(key)
        if count is None:
            raise self.error(f"{self.text.path(key)} is missing")
        return count

    def size(self, key: str) -> Sourced | None:
        """A size of the config, or the model type's, which is noted."""
        size = self.count(key)
        return None if size is None else self.note_size(key, size)

    def note_size(self, key: str, size: Sourced) -> Sourced:
        """A size; where it is the model type's, that is noted, unless another name says so too."""
        others = self._otherwise(key, size)
        if others is not None:
            self.notes.size(self.text.path(key), size)
        self._warn_of(key, others)
        return size

    def note_other_names(self, key: str, size: Sourced) -> None:
        """Warn of a size by a name of other code, where the model type's holds."""
        self._warn_of(key, self._otherwise(key, size))

    def _otherwise(self, key: str, size: Sourced) -> dict[str, Any] | None:
        """What other names say of a size, which is another; None where one says the same."""
        named = {name: self.text.values.get(name) for name in ANY_NAME.get(key, ())}
        stated = {name: value for name, value in named.items() if value is not None}
        is_default = size.source == self.default_source
        return stated if is_default and size.value not in stated.values() else None

    def _warn_of(self, key: str, others: Mapping[str, Any] | None) -> None:
        for name, value in (others or {}).items():
            self.notes.warn(
                f"{self.text.path(name)} {json_text(value)} has no effect: transformers' "
                f"{self.family.model_type} reads {self.text.path(key)}"
            )
