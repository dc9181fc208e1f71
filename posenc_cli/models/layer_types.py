"""The types of a model's layers: which there are, and which of them rotate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput

if TYPE_CHECKING:
    from posenc_cli.models.families import Rotary
    from posenc_cli.models.keys import Keys
    from posenc_cli.models.resolved import Sourced

WITHOUT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe")
"""Layer types that have no attention, and so nothing that positions enter."""
LARGEST_LAYERS = 10_000


@dataclass(frozen=True)
class Group:
    """The layers of one type; ``label`` is None where a config tells no types apart."""

    label: str | None
    layers: tuple[int, ...]
    is_nope: bool = False


def groups(text: Keys, family: Rotary) -> list[Group]:
    """The layers with attention, by type, in the order of their first.

    Raises: InvalidInput.
    """
    types = _types(text, family)
    rotated = _rotated(text, family, types)
    found: dict[tuple[str | None, bool], list[int]] = {}
    for layer, (label, turns) in enumerate(zip(types, rotated, strict=True)):
        if label not in WITHOUT_ATTENTION:
            found.setdefault((label, turns), []).append(layer)
    if not found:
        return [Group(None, ())]
    split = {label for label, turns in found if (label, not turns) in found}
    return [
        Group(_name(label, turns, label in split), tuple(layers), is_nope=not turns)
        for (label, turns), layers in found.items()
    ]


def _name(label: str | None, turns: bool, split: bool) -> str | None:
    """The name of a group: that of its type, unless it stands for only a part of it."""
    if not split:
        return label
    return (label or "rope") if turns else "nope"


def _types(text: Keys, family: Rotary) -> list[str | None]:
    listed = text.texts("layer_types") or text.texts("layers_block_type")
    if listed is not None:
        return list(listed.value)
    if family.needs_layer_types:
        raise InvalidInput(f"{text.name}: {text.path('layer_types')} is missing")
    name = family.aliases.get("num_hidden_layers", "num_hidden_layers")
    found = text.count(name)
    if found is None and not family.known:
        found = text.count("n_layer") or text.count("num_layers") or text.count("n_layers")
    count = found.value if found else family.defaults.get("num_hidden_layers", 0)
    if count > LARGEST_LAYERS:
        raise text.invalid(name, f"must be at most {LARGEST_LAYERS}")
    return _cycled(text, family, count)


def _cycled(text: Keys, family: Rotary, count: int) -> list[str | None]:
    """The types of layers where a config does not list them."""
    cycle = family.cycle
    if not cycle:
        return [None] * count
    period = _period(text, family)
    if period is not None and len(cycle) > 1:
        # The one type that differs keeps its place: at the end of each period, or at its start.
        at_start = cycle.count(cycle[0]) == 1
        special, usual = (cycle[0], cycle[1]) if at_start else (cycle[-1], cycle[0])
        usuals = (usual,) * (period.value - 1)
        cycle = (special, *usuals) if at_start else (*usuals, special)
        cycle = cycle if period.value else (special,)
    return [cycle[i % len(cycle)] for i in range(count)]


def _period(text: Keys, family: Rotary) -> Sourced | None:
    """The length of the cycle, where the config gives one."""
    key = family.cycle_key
    if key is None:
        return None
    if isinstance(text.values.get(key), str):
        raise text.invalid(key, "must be a number; give layer_types")
    return text.count(key, minimum=0)


def _rotated(text: Keys, family: Rotary, types: list[str | None]) -> list[bool]:
    """Whether each layer rotates.

    Raises: InvalidInput.
    """
    if family.nope is None and not (not family.known and text.has("no_rope_layers")):
        return [True] * len(types)
    if family.nope in ("no_rope_layers", None):
        return _listed(text, len(types))
    sliding = [label == "sliding_attention" for label in types]
    if family.nope == "unless sliding type":
        return sliding
    window = text.values.get("sliding_window", family.defaults.get("sliding_window"))
    if family.nope == "unless sliding":
        return sliding if window is not None else [False] * len(types)
    return sliding if window is not None else [True] * len(types)


def _listed(text: Keys, count: int) -> list[bool]:
    """Whether each layer rotates: 1 in ``no_rope_layers`` says that it does."""
    listed = text.get("no_rope_layers")
    if listed is not None and listed.value:
        flags = listed.value
        if not isinstance(flags, list | tuple) or any(each not in (0, 1) for each in flags):
            raise text.invalid("no_rope_layers", "must be a list of 0 and 1")
        if len(flags) != count:
            raise InvalidInput(
                f"{text.name}: {text.path('no_rope_layers')} has {len(flags)} numbers for "
                f"{count} layers"
            )
        return [bool(each) for each in flags]
    interval = text.count("no_rope_layer_interval")
    period = interval.value if interval else 4
    return [(layer + 1) % period != 0 for layer in range(count)]
