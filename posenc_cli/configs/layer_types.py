"""Read the layer types of a model from its config, and which layers rotate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.keys import FamilyKeys, Keys, first
from posenc_cli.configs.resolved import Sourced
from posenc_cli.errors import abbreviated, nearest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.configs.families import Rotary

WITHOUT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe", "mlp")
"""Layer types without attention, where positions have no effect."""
LARGEST_LAYERS = 10_000
LONGEST_NAME = 100
_COUNT = "num_hidden_layers"
_UNSCALED = "unscaled"
_FULL, _SLIDING, _LINEAR = "full_attention", "sliding_attention", "linear_attention"
KNOWN = (
    *("full_attention", "sliding_attention", "chunked_attention", "window_attention"),
    *("indexed_attention", "compressed_sparse_attention", "heavily_compressed_attention"),
    *("minimax_m3_sparse", "conv", "moe", "hybrid", "hybrid_sliding"),
    *("reference_sliding_attention", "linear_attention"),
)
"""The names that transformers 5 accepts in ``layer_types``."""
_TYPE_BY_RATIO = {
    0: _SLIDING,
    4: "compressed_sparse_attention",
    128: "heavily_compressed_attention",
}
"""DeepSeek V4's layer types by the values of its older key, compress_ratios."""
RENAMED = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
"""Older names, and the names that transformers replaces them with."""


def numbered(count: Sourced | None) -> tuple[int, ...]:
    """Return the layer numbers for a count; empty if the count is not known."""
    return tuple(range(min(count.value, LARGEST_LAYERS))) if count else ()


class Group(Record):
    """The layers of one type; ``label`` is None if the config does not distinguish types.

    ``scaled`` says whether their RoPE is scaled.
    """

    label: str | None
    layers: tuple[int, ...]
    is_nope: bool = False
    scaled: bool = True


def groups(keys: FamilyKeys) -> list[Group]:
    """Return the layers with attention, grouped by type, in the order of each type's first layer.

    Raises: InvalidInput.
    """
    family = keys.family
    types = _types(keys)
    if types and family.last and types[-1] != family.last:
        if keys.text.has("layer_types"):
            keys.notes.doubt(
                keys.text.path("layer_types"),
                f"{keys.text.path('layer_types')} ends in {types[-1]}: transformers makes the last "
                f"layer of {family.model_type} {family.last}, and warns",
            )
        types[-1] = family.last
    bases = _layer_bases(keys, len(types))
    rotations = _rotations(keys, types) if bases is None else list(map(bool, bases))
    if family.nope_types and not keys.text.values.get("layer_types"):
        types = [family.nope_types[not rotates] for rotates in rotations]
    if family.scaled_layers:
        types = _scaled_types(keys, len(types))
    elif family.layer_bases == "base" and bases is not None:
        types = _types_by_base(types, bases)
    by_kind: dict[tuple[str | None, bool], list[int]] = {}  # by type, and whether they rotate
    for layer, (label, rotates) in enumerate(zip(types, rotations, strict=True)):
        if label not in WITHOUT_ATTENTION:
            by_kind.setdefault((label, rotates), []).append(layer)
    return _groups(by_kind) or [Group(None, ())]


def _groups(by_kind: Mapping[tuple[str | None, bool], Sequence[int]]) -> list[Group]:
    split = {label for label, rotates in by_kind if (label, not rotates) in by_kind}
    return [
        Group(
            # a split type has some layers that rotate, and others that do not
            ((label or "rope") if rotates else "nope") if label in split else label,
            tuple(layers),
            is_nope=not rotates,
            scaled=label != _UNSCALED,
        )
        for (label, rotates), layers in by_kind.items()
    ]


def _types(keys: FamilyKeys) -> list[str | None]:
    text, family = keys.text, keys.family
    stated = _stated_layer_count(keys)
    listed = text.texts("layer_types")
    if listed is not None:
        if family.by_layer:
            listed = _without_prediction_layers(keys, listed, stated)
        if family.blocks and "mlp" in listed.value:
            listed = Sourced(listed.value[::2], listed.source)
            stated = stated and Sourced(stated.value // 2, f"half of {stated.source}")
        return _transformers_types(keys, listed, stated)
    listed = text.texts("layers_block_type")
    if listed is not None:
        return list(listed.value)
    if family.compressed and text.has("compress_ratios"):
        return _types_by_ratio(keys, stated)
    flags = text.counts(family.pattern) if family.pattern else None
    if flags is not None:
        return _types_by_flag(keys, flags, stated)
    if family.needs_layer_types:
        raise keys.error(f"{text.path('layer_types')} is missing")
    count = stated.value if stated else family.defaults.get(_COUNT, 0)
    indices = text.counts(family.indices) if family.indices else None
    if indices is not None:
        return [_FULL if layer in indices.value else _LINEAR for layer in range(count)]
    by_window = family.window.get("layers", "all") != "all"
    return _types_by_window(keys, count) if by_window else _cycle_types(keys, count)


def sliding_window(text: Keys, family: Rotary) -> Sourced | None:
    """Return the window; None if the config has none or switches it off."""
    name = "sliding_window"
    flag = text.flag("use_sliding_window") if "switch" in family.window else None
    stated = text.get(name)
    if "bound" in family.window:
        text.get("max_window_layers")  # has no effect if layer_types lists the layers
    if "switch" in family.window and not (flag and flag.value):
        return None
    if stated is None and not text.has(name) and name in family.defaults:
        return Sourced(family.defaults[name], f"default of {family.owner or family.model_type}")
    return stated


def _types_by_window(keys: FamilyKeys, count: int) -> list[str | None]:
    """Return the layer types if some layers have a sliding window, as in Qwen 2, else only None."""
    rule = keys.family.window
    bound = keys.text.count("max_window_layers", minimum=0) if "bound" in rule else None
    limit = bound.value if bound else rule.get("bound", 0)
    if sliding_window(keys.text, keys.family) is None:
        return [None] * count
    if rule["layers"] == "without rope":
        slides = [not rotates for rotates in _rotation_flags(keys, count)]
    elif rule["layers"] == "even below":
        slides = [layer < limit and layer % 2 == 0 for layer in range(count)]
    else:
        slides = [layer >= limit for layer in range(count)]
    if not any(slides):
        return [None] * count
    return [_SLIDING if each else _FULL for each in slides]


def _types_by_flag(keys: FamilyKeys, flags: Sourced, stated: Sourced | None) -> list[str | None]:
    """Return the layer types from a list that has 1 for each sliding layer.

    Raises: InvalidInput for a list of fewer numbers than layers.
    """
    count = stated.value if stated else len(flags.value)
    if len(flags.value) < count:
        raise keys.error(f"{flags.source} has {len(flags.value)} numbers for {count} layers")
    return [_SLIDING if flag == 1 else _FULL for flag in flags.value[:count]]


def _types_by_ratio(keys: FamilyKeys, stated: Sourced | None) -> list[str | None]:
    """Return the layer types from the number of keys that each layer compresses into one.

    Raises: InvalidInput for a ratio that has no type.
    """
    ratios = keys.text.counts("compress_ratios")
    count = stated.value if stated else keys.family.defaults.get(_COUNT, 0)
    if ratios is None or not {*ratios.value} <= {*_TYPE_BY_RATIO} or len(ratios.value) < count:
        rule = f"must be a list of {', '.join(map(str, _TYPE_BY_RATIO))}, one for each layer"
        raise keys.text.invalid("compress_ratios", rule)
    return [_TYPE_BY_RATIO[ratio] for ratio in ratios.value[:count]]


def _stated_layer_count(keys: FamilyKeys) -> Sourced | None:
    text, family = keys.text, keys.family
    name = family.aliases.get(_COUNT, _COUNT)
    others = ("n_layer", "num_layers", "n_layers") if family.any_names else ()
    count = first(*map(text.count, (name, _COUNT, *others)))
    if count is not None and count.value > LARGEST_LAYERS:
        raise text.invalid(name, f"must be at most {LARGEST_LAYERS}")
    return count


def _without_prediction_layers(keys: FamilyKeys, listed: Sourced, count: Sourced | None) -> Sourced:
    """Return a list of types without the layers for multi-token prediction, if it has them."""
    further = keys.text.count("num_nextn_predict_layers", minimum=0)
    own = count.value if count else keys.family.defaults.get(_COUNT, 0)
    if further is None or len(listed.value) != own + further.value:
        return listed
    return Sourced(listed.value[:own], listed.source)


def _transformers_types(
    keys: FamilyKeys, listed: Sourced, count: Sourced | None
) -> list[str | None]:
    """Return the types of a list under transformers' current names.

    Raises: InvalidInput for a name that transformers does not know, or a wrong number of names.
    """
    types = [RENAMED.get(name, name) for name in listed.value]
    for layer, name in enumerate(types):
        if keys.family.known and name not in KNOWN:
            raise keys.error(
                f"{listed.source}.{layer} {abbreviated(name)} is not a layer type of transformers",
                hint=nearest(name, KNOWN) or f"it knows {', '.join(KNOWN[:3])} and others",
            )
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise keys.error(
                f"{listed.source}.{layer} {abbreviated(name)}: must be a name of at "
                f"most {LONGEST_NAME} printable characters"
            )
    if count is not None and count.value != len(types):
        raise keys.error(f"{listed.source} has {len(types)} names for {count.source} {count.value}")
    return list(types)


def _cycle_types(keys: FamilyKeys, count: int) -> list[str | None]:
    """Return the layer types of a config that does not list them."""
    family = keys.family
    cycle = family.cycle
    if not cycle:
        return [None] * count
    period = keys.text.count(family.cycle_key, minimum=0) if family.cycle_key else None
    if period is not None and len(cycle) > 1:
        # The type that occurs once stays at the end of each period, or at its start.
        at_start = cycle.count(cycle[0]) == 1
        special, repeated = (cycle[0], cycle[1]) if at_start else (cycle[-1], cycle[0])
        repetitions = (repeated,) * (period.value - 1)
        cycle = (special, *repetitions) if at_start else (*repetitions, special)
        cycle = cycle if period.value else (special,)
    offset = -count % len(cycle) if family.from_end else 0
    types = [cycle[(i + offset) % len(cycle)] for i in range(count)]
    for label, layers in family.exceptions.items():
        for layer in layers:
            if -count <= layer < count:
                types[layer] = label
    if types and family.at_least and family.at_least not in types:
        types[-1] = family.at_least
    return list(types)


def _rotations(keys: FamilyKeys, types: list[str | None]) -> list[bool]:
    """Return whether each layer rotates."""
    text, family = keys.text, keys.family
    if family.from_end:
        return [(len(types) - 1 - layer) % 4 != 0 for layer in range(len(types))]
    if family.nope is None and not (not family.known and text.has("no_rope_layers")):
        return [True] * len(types)
    if family.nope in ("no_rope_layers", None):
        return _rotation_flags(keys, len(types))
    sliding = [label == "sliding_attention" for label in types]
    if family.nope == "unless sliding type":
        return sliding
    window = text.values.get("sliding_window", family.defaults.get("sliding_window"))
    return sliding if window is not None else [family.nope != "unless sliding"] * len(types)


def _layer_bases(keys: FamilyKeys, count: int) -> tuple[float, ...] | None:
    """Return the base of each layer, 0 for an unrotated layer; None if no list states them."""
    if keys.family.layer_bases is None:
        return None
    listed = keys.text.listed(
        "layer_rope_theta",
        "must be a list of numbers from 0 on",
        lambda value: type(value) in (int, float) and value >= 0,
    )
    if listed is not None and len(listed.value) != count:
        raise keys.error(f"{listed.source} has {len(listed.value)} numbers for {count} layers")
    return None if listed is None else tuple(map(float, listed.value))


def _types_by_base(types: Sequence[str | None], bases: Sequence[float]) -> list[str | None]:
    """Return layer types, with the base in the name if layers of one type have different bases."""
    own: dict[str | None, set[float]] = {}
    for label, base in zip(types, bases, strict=True):
        own.setdefault(label, set()).update({base} - {0})
    return [
        f"{label or 'rope'}-{base:g}" if base and len(own[label]) > 1 else label
        for label, base in zip(types, bases, strict=True)
    ]


def _scaled_types(keys: FamilyKeys, count: int) -> list[str | None]:
    """Return layer types by whether their RoPE is scaled; None for each if all are."""
    listed = keys.text.counts(str(keys.family.scaled_layers))
    if listed is None or {*range(count)} <= {*listed.value}:
        return [None] * count
    return ["scaled" if layer in listed.value else _UNSCALED for layer in range(count)]


def _rotation_flags(keys: FamilyKeys, count: int) -> list[bool]:
    """Return whether each layer rotates; 1 in ``no_rope_layers`` means that it does."""
    text = keys.text
    interval = text.count("no_rope_layer_interval")
    period = interval.value if interval else 4
    periodic = [(layer + 1) % period != 0 for layer in range(count)]
    listed = text.listed("no_rope_layers", "must be a list of 0 and 1", lambda flag: flag in (0, 1))
    if listed is None or not listed.value:
        return periodic
    if len(listed.value) != count:
        raise keys.error(f"{listed.source} has {len(listed.value)} numbers for {count} layers")
    rotations = [*map(bool, listed.value)]
    if interval is not None and rotations != periodic:
        keys.notes.doubt(
            interval.source,
            f"{interval.source} {interval.value} contradicts {listed.source}, by which "
            f"{rotations.count(False)} of {count} layers do not rotate, "
            f"not {periodic.count(False)}: transformers uses the list",
        )
    return rotations
