"""The rope object of each group of layers: which of a config's JSON objects holds for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.models.keys import Keys, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.models.families import Rotary
    from posenc_cli.models.layer_types import Group
    from posenc_cli.models.resolved import Notes, Sourced


class DefaultKeys(Keys):
    """What a model type says where its config does not."""

    def path(self, _key: str) -> str:
        """Where the value comes from, which is no key of the file."""
        return f"default of {self.prefix}"


class Entry:
    """The rope object of some layers: one JSON object, or several of which the first rules.

    ``own_type`` is False where transformers does not look at the older key ``type``.
    """

    def __init__(self, *parts: Keys, own_type: bool = True) -> None:
        self.parts = parts
        self.own_type = own_type

    @property
    def is_default(self) -> bool:
        """Whether the config holds none of it."""
        return all(isinstance(part, DefaultKeys) for part in self.parts)

    def having(self, key: str) -> Keys:
        """The object that has a key; the last where none has it."""
        return next((part for part in self.parts if part.has(key)), self.parts[-1])

    def number(self, key: str, *, minimum: float | None = None) -> Sourced | None:
        """A number above 0, or from a minimum on."""
        return self.having(key).number(key, minimum=minimum)


def entries(
    text: Keys, family: Rotary, groups: Sequence[Group], notes: Notes
) -> dict[str | None, Entry | None]:
    """The rope object of each group, by its label; None where it is null: no rotation.

    The older ``rope_scaling`` goes before ``rope_parameters``, as in transformers, of which nothing
    counts then.

    Raises: InvalidInput where a layer type has none.
    """
    scaling = text.section("rope_scaling")
    scaling = scaling if scaling and scaling.values else None
    if family.local is not None:
        return _merged(text, family, groups, scaling)
    found = scaling or text.section("rope_parameters")
    if scaling is not None:
        _note_second_object(text, scaling, notes)
    if found is None:
        found = Keys({}, name=text.name, prefix=text.path("rope_parameters."))
        if family.rope is not None:
            found = _default(family, family.rope, text.name)
    labels = [group.label for group in groups]
    nested = [label for label in labels if label is not None and found.has(label)]
    if not nested and not family.nested:
        return dict.fromkeys(labels, Entry(found))
    if not nested:
        raise InvalidInput(
            f"{text.name}: {found.prefix.rstrip('.')}: {family.model_type} needs an object for "
            f"each layer type: {', '.join(filter(None, labels))}"
        )
    if family.known and not family.nested:
        raise InvalidInput(
            f"{text.name}: {found.path(nested[0])}: {family.model_type} has one rope for all "
            "layers, not one for each layer type"
        )
    return {group.label: _nested(found, family, group) for group in groups}


def _note_second_object(text: Keys, scaling: Keys, notes: Notes) -> None:
    """Warn of a ``rope_parameters`` beside ``rope_scaling`` that does not say the same."""
    second = text.values.get("rope_parameters")
    if not isinstance(second, Mapping) or not second:
        return
    first, other = (
        {"rope_type" if key == "type" else key: value for key, value in each.items()}
        for each in (scaling.values, second)
    )
    apart = [key for key in {**first, **other} if first.get(key) != other.get(key)]
    if not apart:
        text.get("rope_parameters")
        for key in second:
            text.read.add(f"{text.path('rope_parameters')}.{key}")
        return
    notes.warn(
        f"{text.path('rope_parameters')} has no effect: transformers reads rope_scaling alone "
        f"where both are there, and they differ in {', '.join(map(printable, apart[:6]))}"
    )


def _merged(
    text: Keys, family: Rotary, groups: Sequence[Group], scaling: Keys | None
) -> dict[str | None, Entry | None]:
    """The objects of a family that takes ``rope_scaling`` into those of some layer types."""
    given = text.section("rope_parameters")
    empty = Keys({}, name=text.name, prefix=text.path("rope_parameters."))
    scaled = family.local["scaled"] if family.local else []
    found: dict[str | None, Entry | None] = {}
    for group in groups:
        own = given.section(group.label) if given and group.label else None
        parts = [scaling] if scaling and group.label in scaled else []
        found[group.label] = Entry(*parts, own or empty, own_type=given is not None or not parts)
    return found


def _nested(found: Keys, family: Rotary, group: Group) -> Entry | None:
    """The object of a layer type among those of all."""
    if group.is_nope:
        return None
    if group.label is None or not found.has(group.label):
        raise InvalidInput(
            f"{found.name}: {found.prefix.rstrip('.')} has nothing for the layer type "
            f"{group.label!r}"
        )
    section = found.section(group.label)
    if section is None:
        return None
    if isinstance(found, DefaultKeys):
        section = _default(family, section.values, found.name)
    return Entry(section)


def _default(family: Rotary, values: object, name: str) -> DefaultKeys:
    """The rope object that a family has where a config has none."""
    return DefaultKeys(values, name=name, prefix=family.model_type)  # type: ignore[arg-type]
