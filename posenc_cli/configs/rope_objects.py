"""Find the rope object of a config that applies to each group of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import SHARE, FamilyKeys, Keys

if TYPE_CHECKING:
    from posenc_cli.configs.families import Rotary
    from posenc_cli.configs.layer_types import Group


class DefaultKeys(Keys):
    """Default values of a model type."""

    def path(self, _key: str) -> str:
        """Return the source of the value, which is not a key of the file."""
        return f"default of {self.prefix}"


class NamedKeys(Keys):
    """Values that a config states under other names."""

    def __init__(
        self, values: Mapping[str, Any], names: Mapping[str, str], text: Keys, section: str = ""
    ) -> None:
        prefix = f"{text.path(section)}." if section else text.prefix
        super().__init__(values, name=text.name, prefix=prefix, read=text.read)
        self.names = names

    def path(self, key: str) -> str:
        """Return the path of the value under its name in the config."""
        return super().path(self.names.get(key, key))


def _values_of_layer(text: Keys, lists: Mapping[str, str], layer: int) -> NamedKeys:
    """Return the values of one layer from lists with a value for each layer."""
    stated = {key: text.get(name) for key, name in lists.items()}
    found = {key: value.value for key, value in stated.items() if value is not None}
    listed = {key for key, value in found.items() if isinstance(value, list)}
    return NamedKeys(
        {
            key: value[layer] if key in listed and layer < len(value) else value
            for key, value in found.items()
        },
        {key: f"{name}.{layer}" if key in listed else name for key, name in lists.items()},
        text,
    )


class RopeObject(Keys):
    """The rope object of some layers: JSON objects, of which the first has precedence.

    ``reads_type`` is False if transformers does not read the older key ``type``.
    """

    def __init__(self, *parts: Keys, reads_type: bool = True) -> None:
        values = {key: value for part in reversed(parts) for key, value in part.values.items()}
        super().__init__(values, name=parts[0].name, read=parts[0].read)
        self.parts = parts
        self.reads_type = reads_type

    def path(self, key: str) -> str:
        """Return the path of a key in the object that has it, else in the last object."""
        part = next((part for part in self.parts if part.has(key)), self.parts[-1])
        return part.path(key)

    @property
    def is_default(self) -> bool:
        """Whether all values are defaults of the model type."""
        return all(isinstance(part, DefaultKeys) for part in self.parts)


def rope_objects(keys: FamilyKeys, groups: Sequence[Group]) -> dict[str | None, RopeObject | None]:
    """Return the rope object of each group, by its label; None if it is null: no rotation.

    The older ``rope_scaling`` has precedence: transformers then ignores ``rope_parameters``.

    Raises: InvalidInput if a layer type has none.
    """
    text, family = keys.text, keys.family
    if family.rope_ignored or family.section:
        nothing = Keys({}, name=text.name, prefix=text.path(""))
        only = _object_of_section(text, family) if family.section else RopeObject(nothing)
        return dict.fromkeys((group.label for group in groups), only)
    scaling = text.section("rope_scaling")
    scaling = scaling if scaling and scaling.values else None
    if family.compressed:
        return _objects_by_compression(keys, groups, scaling)
    if family.by_layer:
        return _objects_by_layer(text, groups, scaling)
    if family.local is not None and "scaled" in family.local:
        return _objects_by_base_key(text, family.local["scaled"], groups, scaling)
    rope = scaling or text.section("rope_parameters")
    if rope is None:
        rope = (
            DefaultKeys(family.rope, name=text.name, prefix=family.model_type)
            if family.rope is not None
            else Keys({}, name=text.name, prefix=text.path("rope_parameters."))
        )
    if family.layer_bases == "base" or family.scaled_layers or family.local:
        own = {label: str(key) for label, key in (family.local or {}).items()}
        return {
            group.label: _object_of_layers(
                text, rope, group, own.get(str(group.label), "layer_rope_theta")
            )
            for group in groups
        }
    return _objects_by_type(keys, rope, groups)


def _objects_by_type(
    keys: FamilyKeys, rope: Keys, groups: Sequence[Group]
) -> dict[str | None, RopeObject | None]:
    """Return the objects of the layer types, or the same object for all.

    Raises: InvalidInput if an object is missing, or the model type allows only one.
    """
    family = keys.family
    labels = [group.label for group in groups]
    nested = [label for label in labels if label is not None and rope.has(label)]
    if not nested and not family.nested:
        return dict.fromkeys(labels, RopeObject(rope))
    if not nested:
        raise keys.error(
            f"{rope.prefix.rstrip('.')}: {family.model_type} needs an object for each layer type: "
            f"{', '.join(filter(None, labels))}"
        )
    if family.known and not family.nested:
        raise keys.error(
            f"{rope.path(nested[0])}: {family.model_type} has one rope for all layers, not one for "
            "each layer type"
        )
    return {group.label: _object_of_type(keys, rope, group) for group in groups}


def _object_of_layers(text: Keys, rope: Keys, group: Group, key: str) -> RopeObject:
    """Return the object of layers that list their own base, or whose RoPE is not scaled."""
    if not group.scaled:
        own = {"rope_theta": rope.values["rope_theta"]} if rope.has("rope_theta") else {}
        return RopeObject(Keys(own, name=rope.name, prefix=rope.prefix, read=rope.read))
    if not group.layers or text.values.get(key) is None:
        return RopeObject(rope)
    return RopeObject(_values_of_layer(text, {"rope_theta": key}, group.layers[0]), rope)


def _objects_by_compression(
    keys: FamilyKeys, groups: Sequence[Group], scaling: Keys | None
) -> dict[str | None, RopeObject | None]:
    """Return DeepSeek V4's objects: main for sliding layers, compress for the others."""
    text, family = keys.text, keys.family
    given = scaling or text.section("rope_parameters")
    nested = {name: given.section(name) if given else None for name in ("main", "compress")}
    others = [
        key
        for key, value in (given.values if given else {}).items()
        if isinstance(value, Mapping) and key not in ("main", "compress")
    ]
    if given is not None and others:
        raise keys.error(f"{given.path(others[0])}: {family.model_type} has only main and compress")
    objects: dict[str | None, RopeObject | None] = {}
    if all(group.label != "sliding_attention" for group in groups):
        text.get("rope_theta")  # the base of sliding layers: there are none
    for group in groups:
        name = "main" if group.label == "sliding_attention" else "compress"
        own, is_nested = nested[name], all(nested.values())
        key = "rope_theta" if name == "main" or is_nested else "compress_rope_theta"
        stated = {"rope_theta": text.values[key]} if text.has(key) else {}
        default_values = {"rope_theta": family.base_of("main" if is_nested else name), SHARE: 0.125}
        parts: list[Keys] = [NamedKeys(stated, {"rope_theta": key}, text), _stated_share(keys)]
        if is_nested and own is not None:
            parts.insert(0, own)
            for top, inner in (("compress_rope_theta", "rope_theta"), (SHARE, SHARE)):
                if text.values.get(top) == own.values.get(inner):
                    text.get(top)
        elif name == "compress" and given is not None:
            kept = {key: given.values[key] for key in given.values if key not in default_values}
            parts.append(Keys(kept, name=given.name, prefix=given.prefix, read=given.read))
            if "yarn" in (given.values.get("rope_type"), given.values.get("type")):
                default_values["attention_factor"] = 1.0
        objects[group.label] = RopeObject(
            *parts, DefaultKeys(default_values, name=text.name, prefix=family.model_type)
        )
    return objects


def _stated_share(keys: FamilyKeys) -> Keys:
    """Return the rotated share, stated directly or as the rotary dim under an older key."""
    text = keys.text
    if text.values.get(SHARE) is not None:
        return NamedKeys({SHARE: text.values[SHARE]}, {}, text)
    width = text.count("qk_rope_head_dim")
    if width is None:
        return NamedKeys({}, {}, text)
    share = width.value / keys.needed_count("head_dim").value
    return NamedKeys({SHARE: share}, {SHARE: "qk_rope_head_dim"}, text)


def _object_of_section(text: Keys, family: Rotary) -> RopeObject:
    """Return the object that a section with other names replaces."""
    section = family.section
    names = section["keys"]
    stated = text.section(section["name"])
    section_values = {} if stated is None else stated.values
    values = {key: section_values[name] for key, name in names.items() if name in section_values}
    renamed = NamedKeys(values, names, text, section["name"])
    default_values = DefaultKeys(
        section.get("defaults", {}), name=text.name, prefix=family.model_type
    )
    return RopeObject(renamed, default_values)


def _objects_by_layer(
    text: Keys, groups: Sequence[Group], scaling: Keys | None
) -> dict[str | None, RopeObject | None]:
    """Return the objects of a family that lists bases and rotated shares layer by layer.

    ``scaling`` applies to full attention. An object for each layer type has precedence over the
    lists.
    """
    given = text.section("rope_parameters")
    by_type = [given.section(str(group.label)) for group in groups] if given else []
    if by_type and all(by_type):
        share = {SHARE: text.values[SHARE]} if text.has(SHARE) else {}
        top = Keys(share, name=text.name, prefix=text.prefix, read=text.read)
        own = zip(groups, by_type, strict=True)
        return {group.label: RopeObject(each, top) for group, each in own if each is not None}
    lists = {"rope_theta": "rope_theta", "partial_rotary_factor": "partial_rotary_factors"}
    merged: dict[str | None, RopeObject | None] = {}
    for group in groups:
        parts = [scaling] if scaling and group.label == "full_attention" else []
        listed = _values_of_layer(text, lists, group.layers[0] if group.layers else 0)
        merged[group.label] = RopeObject(*parts, listed, reads_type=False)
    return merged


def _objects_by_base_key(
    text: Keys, scaled: Sequence[str], groups: Sequence[Group], scaling: Keys | None
) -> dict[str | None, RopeObject | None]:
    """Return the objects of a family whose ``rope_scaling`` applies to the ``scaled`` types."""
    given = text.section("rope_parameters")
    empty = Keys({}, name=text.name, prefix=text.path("rope_parameters."))
    merged: dict[str | None, RopeObject | None] = {}
    for group in groups:
        own = given.section(group.label) if given and group.label else None
        parts = [scaling] if scaling and group.label in scaled else []
        reads_type = given is not None or not parts
        merged[group.label] = RopeObject(*parts, own or empty, reads_type=reads_type)
    return merged


def _object_of_type(keys: FamilyKeys, rope: Keys, group: Group) -> RopeObject | None:
    """Return the object of a layer type from the objects of all types."""
    if group.label is None or not rope.has(group.label):
        raise keys.error(
            f"{rope.prefix.rstrip('.')} has nothing for the layer type {group.label!r}"
        )
    section = rope.section(group.label)
    if section is None:
        return None
    if isinstance(rope, DefaultKeys):
        section = DefaultKeys(section.values, name=rope.name, prefix=rope.prefix)
    return RopeObject(section)
