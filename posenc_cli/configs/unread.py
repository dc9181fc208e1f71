"""Find keys about positions that nothing reads, and warn of those that matter.

A key that agrees with the values in use is not reported. A key that contradicts them, under a name
that other code reads, is a rival: that code would rotate by other angles. Any other key is reported
as unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.families import BASES, GLOBAL_BASES, LOCAL_BASES, Rotary
from posenc_cli.configs.keys import FULL_LAYERS, Keys, printable, states_layer_types, states_window
from posenc_cli.configs.layer_types import KNOWN, numbered
from posenc_cli.configs.resolved import WINDOW_OF_ALL, Layers, Notes, json_text
from posenc_cli.configs.rope_rules import RENAMED
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.configs.text_models import TextModel

_SHARES = (
    *("partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent", "rotary_percent"),
    "rotary_emb_fraction",
)
_WIDTHS = (
    *("rotary_dim", "rope_dim", "rotary_ndims", "rotary_emb_dim", "qk_rope_head_dim"),
    "attn_rotary_emb",
)
_INTERLEAVED = (
    *("rope_interleave", "rope_interleaved", "rotary_interleaved", "rotary_emb_interleaved"),
    *("interleaved_rope", "use_interleaved_rope", "rope_traditional"),
)
_HALVES = ("rope_is_neox_style", "rotary_is_neox_style")
_ROTATES = (
    *("rotary", "rope", "use_rope", "use_rotary", "rotary_embedding", "use_rotary_embedding"),
    "use_rotary_pos_emb",
)
_FACTORS = ("factor", "rope_factor", "rope_scaling_factor", "rotary_scaling_factor")
_LENGTHS = (
    *("original_max_position_embeddings", "max_position_embeddings"),
    "max_sequence_length",
)
_NEUTRAL = {
    **dict.fromkeys(("attn_factor", "attention_factor"), (1,)),
    **dict.fromkeys(("extrapolation_factor", "rope_ratio"), (1,)),
    "beta_fast": (32,),
    "beta_slow": (1,),
    "mscale": (1,),
    "mscale_all_dim": (0, 1),
    "rope_full_precision": (True,),
}
"""Values without effect. YaRN's keys appear under other rope types too (HunYuan's).

OLMo's ``rope_full_precision`` computes rotations in float32, as transformers always does.
"""
_OBJECTS = ("rope_parameters", "rope_scaling")
_ON_AXES = ("use_mrope", "rope_3d", "position_embedding_xdrope")
_IDLE = ("offset_alibi",)
"""Keys without effect: a constant added to all biases of BLOOM cancels in the softmax."""


_READ_BY_CONTAINER = {"musicflamingo": ("rope_parameters",)}
"""Keys that the model around the text model reads itself, by its model type."""
_OTHER_PARTS = ("vision_config", "audio_config", "encoder", "talker_config", "token2wav_config")
"""Sections of a config that belong to other models than the text model."""


class Rival(Record):
    """A key that contradicts the ``actual`` value in use of the ``quantity`` that it states."""

    source: str
    value: Any
    quantity: str
    actual: str


class ValuesInUse:
    """The values in use in the layers of a config, under the names that other code gives them."""

    def __init__(self, layers: Sequence[Layers], text: Keys) -> None:
        self.layers = layers
        self.text = text
        self.rotating = [group for group in layers if {"base", "dim"} <= group.params.keys()]

    def quantity(self, key: str) -> tuple[str, Sequence[Any]]:
        """Return the quantity that a key states, and its value in each group of layers.

        The name and the values are empty if the key is not known.
        """
        if key in (*BASES, *LOCAL_BASES, *GLOBAL_BASES):
            return "base", [group.params["base"].value for group in self._layers_with_base(key)]
        if key in _ROTATES:
            return "rotation", [bool(self.rotating)]
        for keys, quantity, value_in in _QUANTITIES:
            if key in keys:
                return quantity, [*map(value_in, self.rotating)]
        return "", ()

    def _layers_with_base(self, key: str) -> list[Layers]:
        """Return the layers whose base a key states."""
        local = any(self.text.has(name) for name in LOCAL_BASES)
        if key in LOCAL_BASES:
            return [group for group in self.rotating if group.slides]
        if local or key in GLOBAL_BASES:
            return [group for group in self.rotating if not group.slides]
        return self.rotating

    def agrees(self, key: str, value: Any) -> bool:
        """Return whether a key agrees with the values in use."""
        _, values = self.quantity(key)
        if _has_nothing_to_rotate(self, key, value):
            return True
        if values:
            alike = any if self.text.has("layer_rope_theta") else all
            return alike(_same(value, actual) for actual in values)
        return any(rule(self, key, value) for rule in _RULES)


def _rotated_share(layers: Layers) -> Any:
    return layers.values().get("partial", 1)


def _rotary_dim(layers: Layers) -> Any:
    share = 1 if layers.scheme == "rope-proportional" else _rotated_share(layers)
    return int(layers.params["dim"].value * share)


def _is_interleaved(layers: Layers) -> bool:
    return bool(layers.values().get("layout") == "interleaved")


def _same(value: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; true does not equal 1."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_layer_pattern(in_use: ValuesInUse, key: str, value: Any) -> bool:
    """Return whether a period, cycle or list gives the same groups of layers as those read."""
    if not states_layer_types(key):
        return False
    if key == "hybrid_layer_pattern":  # MiMo's own list: 1 is a sliding window
        slides = {layer: group.slides for group in in_use.layers for layer in group.layers}
        return bool(value == [int(slides[layer]) for layer in sorted(slides)])
    if key in FULL_LAYERS:
        full = {layer for group in in_use.layers if not group.slides for layer in group.layers}
        numbers = numbered(in_use.text.count("num_hidden_layers"))
        every = range(len(numbers) or max(full, default=0) + 1)
        patterns = _possible_patterns(value, every)
        return [layer in full for layer in every] in ([*map(bool, each)] for each in patterns)
    kinds = {layer: i for i, group in enumerate(in_use.layers) for layer in group.layers}
    every = range(max(kinds) + 1 if kinds else 0)
    actual = _numbered_kinds(map(kinds.get, every))
    return any(_numbered_kinds(stated) == actual for stated in _possible_patterns(value, every))


def _possible_patterns(value: Any, layers: range) -> Iterator[Iterable[Any]]:
    """Yield the kinds of layers in each possible reading of a value: period, cycle or list."""
    if isinstance(value, int) and value > 0:
        yield ((layer + 1) % value == 0 for layer in layers)
        yield (layer % value == 0 for layer in layers)
    elif value and isinstance(value, str | list) and all(isinstance(kind, str) for kind in value):
        yield (value[layer % len(value)] for layer in layers)
    elif isinstance(value, list):
        whole = len(value) >= len(layers) and value != [*layers]
        yield map(str, value[: len(layers)]) if whole else (layer in value for layer in layers)


def _numbered_kinds(kinds: Iterable[Any]) -> list[int]:
    """Return a number for the kind of each layer: equal kinds have equal numbers, from 0 on."""
    known: dict[Any, int] = {}
    return [known.setdefault(kind, len(known)) for kind in kinds]


def _has_nothing_to_rotate(in_use: ValuesInUse, key: str, value: Any) -> bool:
    """Return whether a base, share or list of types has no effect: no layer has positions."""
    if any(group.scheme != "nope" for group in in_use.layers):
        return False
    plain = isinstance(value, Mapping) and value.get("rope_type", "default") == "default"
    return plain or key in (*BASES, *_SHARES, *_WIDTHS) or states_layer_types(key)


def _is_context(in_use: ValuesInUse, key: str, value: Any) -> bool:
    """Return whether a length is the original, the stated or the scaled context of the layers."""
    if key not in _LENGTHS or isinstance(value, bool):
        return False
    lengths = []
    for group in in_use.rotating:
        context = group.derived.get("context")
        own = group.params.get(key, context) if key == _LENGTHS[0] else context
        if own is None:
            return False
        values = group.values()
        factor = values.get("factor", 1) if group.scheme != "rope-dynamic" else 1
        if _LENGTHS[0] not in values:
            lengths.append((own.value, own.value / factor))
        else:
            # LongRoPE may have no factor: the context is then not a multiple of the original one
            scales = key == _LENGTHS[2] and "factor" in values
            lengths.append((own.value, values[_LENGTHS[0]] * factor if scales else own.value))
    return bool(lengths) and all(value in pair for pair in lengths)


def _spans_context(in_use: ValuesInUse, value: Any) -> bool:
    """Return whether a window spans the whole context of every layer."""
    contexts = [group.derived.get("context") for group in in_use.layers]
    return type(value) is int and all(each and each.value <= value for each in contexts)


def _is_parameter(in_use: ValuesInUse, key: str, value: Any) -> bool:
    """Return whether a key has the name of a parameter or derived value, and agrees with it."""
    actual = [
        group.params.get(key) or group.derived.get(key) or _scheme_default(group, key)
        for group in in_use.rotating
    ]
    values = [getattr(stated, "value", stated) for stated in actual if stated is not None]
    return bool(values) and all(_same(value, other) for other in values)


def _scheme_default(layers: Layers, name: str) -> Any:
    from posenc_cli import catalogue

    parameter = catalogue.find(layers.scheme).parameters.get(name)
    return None if parameter is None else parameter.default


_QUANTITIES: tuple[tuple[tuple[str, ...], str, Callable[[Layers], Any]], ...] = (
    (_SHARES, "rotated share", _rotated_share),
    (_WIDTHS, "rotary dim", _rotary_dim),
    (_INTERLEAVED, "interleaved layout", _is_interleaved),
    (_HALVES, "half layout", lambda group: not _is_interleaved(group)),
    (
        ("initial_context_length",),
        "original context",
        lambda g: getattr(g.params.get(_LENGTHS[0]) or g.derived.get("context"), "value", None),
    ),
)
"""Keys that state a quantity of all rotating layers, its name, and the function that returns it."""

_RULES = (
    # ChatGLM's code stores it and does not use it
    lambda in_use, key, _value: (
        key == "original_rope" and in_use.text.values.get("model_type") == "chatglm"
    ),
    lambda in_use, key, value: (
        key in _ON_AXES and value is any(group.scheme == "mrope" for group in in_use.layers)
    ),
    lambda in_use, key, value: key.endswith("use_nope") and value is not bool(in_use.rotating),
    # base or window of sliding layers, if the config states layer types and no layer slides
    lambda in_use, key, _value: (
        (key in LOCAL_BASES or key == "sliding_window")
        and not any(g.slides or not g.layer_type for g in in_use.layers)
    ),
    # a window that is switched off, 0, or as long as the context, if no layer has a window
    lambda in_use, key, value: (
        states_window(key)
        and (
            not value
            or value == -1
            or in_use.text.values.get("use_sliding_window") is False
            or (key == "max_window_layers" and not in_use.text.values.get("sliding_window"))
            or (key.endswith("window") and _spans_context(in_use, value))
        )
        and not any(g.slides or WINDOW_OF_ALL in g.derived for g in in_use.layers)
    ),
    # https://huggingface.co/GSAI-ML/LLaDA-8B-Instruct
    lambda in_use, key, _value: (
        key == "alibi_bias_max" and in_use.text.values.get("alibi") is False
    ),
    # keys without effect at any value, or at this value, such as an empty list of layers
    lambda _holding, key, value: (
        key in _IDLE or value == [] or any(_same(value, each) for each in _NEUTRAL.get(key, ()))
    ),
    # a factor of 1 if nothing is scaled, or if alpha scales the base
    lambda in_use, key, value: (
        key in _FACTORS
        and _same(value, 1)
        and all("factor" not in g.params or g.scheme == "rope-ntk" for g in in_use.layers)
    ),
    *(_is_context, _is_parameter, _is_layer_pattern),
    # Step's list of the layer types that are scaled, if it includes those that are
    lambda in_use, key, value: (
        key == "yarn_only_types"
        and isinstance(value, list)
        and {g.layer_type for g in in_use.rotating if "factor" in g.params} <= {*map(str, value)}
    ),
    # https://github.com/jquesnelle/yarn reads it only for dynamic scaling
    lambda in_use, key, _value: (
        key == "finetuned" and all(group.scheme == "rope-yarn" for group in in_use.rotating)
    ),
    # Gemma 2's second name for its window
    lambda in_use, key, value: (
        key == "sliding_window_size" and in_use.text.values.get("sliding_window") == value
    ),
    # a value of sliding layers that equals the value of the others
    lambda in_use, key, value: key[:4] == "swa_" and in_use.text.values.get(key[4:]) == value,
)
"""Rules by which a key agrees with the values in use, or has no effect."""


def note_unread(
    top: Keys, model: TextModel, layers: Sequence[Layers], notes: Notes
) -> tuple[str, ...]:
    """Return the unread keys about rotation that do not agree with the values in use; warn of them.

    The warnings say which code reads the key, if that is known.
    """
    unread = top.unread(skipped=_other_models(top, model.keys))
    paths = tuple(path for path in unread if not _is_of_absent_type(path, layers))
    findings = tuple(_findings(top, paths, ValuesInUse(layers, model.keys)))
    family, own_code = model.family, _own_code(top)
    for finding in findings:
        if isinstance(finding, Rival) and not _is_reported(finding.source, notes):
            notes.headlines.append(_rival_text(finding, family, own_code))
    silent = [path for path in findings if isinstance(path, str) and not _is_reported(path, notes)]
    if family is not None and not family.known:
        own_code = f"the code of {family.model_type}, which is not known,"
    if silent:
        other = f"; {own_code} may" if own_code else ""
        notes.warnings.append(f"nothing read {', '.join(silent)}{other}")
    return tuple(finding if isinstance(finding, str) else finding.source for finding in findings)


def _other_models(top: Keys, text: Keys) -> tuple[str, ...]:
    """Return the sections of a config that belong to other models than the text model."""
    if text is top:
        return ()
    sections = (*(key for key in top.values if key.endswith("_config")), *_OTHER_PARTS)
    sections += _READ_BY_CONTAINER.get(str(top.values.get("model_type")), ())
    return tuple(key for key in sections if not text.prefix.startswith(f"{key}."))


def _is_of_absent_type(path: str, layers: Sequence[Layers]) -> bool:
    """Return whether a path leads to the rope object of a layer type that no layer has."""
    absent = {*KNOWN} - {group.layer_type for group in layers}
    if "sliding_attention" in absent:  # DeepSeek V4's name for the rope object of these layers
        absent.add("main")
    return not absent.isdisjoint(path.split("."))


def _own_code(top: Keys) -> str | None:
    """Return the file of the model's own code in auto_map; None if there is none.

    >>> _own_code(Keys({"auto_map": {"AutoModel": "modeling_x.XModel"}}, name="config.json"))
    'modeling_x.py (auto_map)'
    """
    auto_map = top.values.get("auto_map")
    if not isinstance(auto_map, dict):
        return None
    for key, name in auto_map.items():
        if isinstance(name, str) and "Config" not in key:
            return f"{printable(name.rpartition('--')[2].partition('.')[0])}.py (auto_map)"
    return None


def _findings(top: Keys, paths: Sequence[str], in_use: ValuesInUse) -> Iterator[str | Rival]:
    """Yield the keys that nothing read and that do not agree with the values in use."""
    read = [(path.rpartition(".")[2], _value(top, path)) for path in sorted(top.read)]
    for path in paths:
        key, value = path.rpartition(".")[2], _value(top, path)
        name, values = in_use.quantity(key)
        if in_use.agrees(key, value):
            continue
        if (
            not values
            or isinstance(value, Mapping | list | str)
            or isinstance(value, bool) != isinstance(values[0], bool)
        ):
            own = _OBJECTS if key in _OBJECTS else (key,)
            if not any(each in own and _same_up_to_names(value, other) for each, other in read):
                yield path
        else:
            yield Rival(path, value, name, ", ".join(dict.fromkeys(map(_number_text, values))))


def _number_text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else json_text(value)


def _value(top: Keys, path: str) -> Any:
    """Return the value at a path; None if its keys were escaped for display."""
    value: Any = top.values
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _same_up_to_names(one: Any, other: Any) -> bool:
    """Return whether two values are equal, up to older names of rope types."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _renamed(one) == _renamed(other)
    return other is not None and _same(one, other)


def _renamed(rope: Mapping[str, Any]) -> dict[str, Any]:
    types = {RENAMED.get(rope[key], rope[key]) for key in ("rope_type", "type") if key in rope}
    rest = {key: value for key, value in rope.items() if key not in ("rope_type", "type")}
    return {**rest, "rope_type": sorted(map(str, types))}


def _is_reported(path: str, notes: Notes) -> bool:
    """Return whether a warning already names a key."""
    return any(path in text for text in (*notes.headlines, *notes.warnings))


def _rival_text(rival: Rival, family: Rotary | None, own_code: str | None) -> str:
    stated = f"{rival.source} {json_text(rival.value)}"
    actual = f"the {rival.quantity} here is {rival.actual}"
    if family is not None and not family.known:
        return f"{stated} is not read: {actual}, and it is not known what the model's own code uses"
    name = f"transformers' {family.model_type}" if family else "transformers"
    text = f"{stated} has no effect: {name} does not read it, and {actual}"
    return f"{text}; {own_code}, the model's own code, may" if own_code else text
