"""Read RoPE from a config: rope_parameters, the older rope_scaling, and related keys.

Values are read in transformers' order: from the rope object, then from the top of the config, then
the default of the model type. :func:`rope_layers` uses one module for each step:
:mod:`~posenc_cli.configs.layer_types` groups the layers, :mod:`~posenc_cli.configs.rope_objects`
finds their JSON object, :mod:`~posenc_cli.configs.rope_rules` reads the parameters of their rope
type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from posenc_cli.configs.families import BASES, GLOBAL_BASES, LOCAL_BASES
from posenc_cli.configs.keys import CONTEXT, SHARE, FamilyKeys, first, quotient
from posenc_cli.configs.layer_types import Group, groups
from posenc_cli.configs.resolved import Layers, Sourced, check_values, json_text
from posenc_cli.configs.rope_objects import RopeObject, rope_objects
from posenc_cli.configs.rope_rules import RENAMED, RULES, magnitude, softmax_multiplier
from posenc_cli.errors import abbreviated, nearest

_SLICE = "qk_rope_head_dim"
_UNROTATED = "qk_nope_head_dim"
_HEAD = "head_dim"
_READS_HEAD_DIM = ("dynamic", "yarn", "longrope")
"""Rope types for which transformers reads head_dim, and does not infer it if it is null."""
_NEEDS_WHOLE_HEADS = frozenset(
    {
        *("arcee", "aria_text", "cosmos3_edge_text", "cwm", "deepseek_v2", "esmc", "eurobert"),
        *("gemma2", "gemma3_text", "gemma3n_text", "gpt_neox", "higgs_audio_v2", "hyperclovax"),
        *("internlm3", "iquestcoder", "jais2", "llama", "minicpm3", "vaultgemma"),
    }
)
"""Model types that transformers refuses unless num_attention_heads divides hidden_size."""


def rope_layers(keys: FamilyKeys) -> Iterator[tuple[Layers, RopeObject | None]]:
    """Yield the layers of each type, in the order of their first layer, each with its rope object.

    Raises: InvalidInput.
    """
    layer_groups = groups(keys)
    objects = rope_objects(keys, [group for group in layer_groups if not group.is_nope])
    for group in layer_groups:
        rope = None if group.is_nope else objects[group.label]
        if rope is None:
            hidden = keys.count("hidden_size")
            params = {} if hidden is None else {"dim": hidden}
            yield Layers(group.label, group.layers, "nope", params, _context(keys)), None
        else:
            yield _layers_of_group(keys, group, rope), rope


def _layers_of_group(keys: FamilyKeys, group: Group, rope: RopeObject) -> Layers:
    """Return the RoPE of a group of layers."""
    rope_type = _rope_type(keys, rope)
    if not keys.family.compressed:
        head = _head_dim(keys, group, rope_type)
        share = _rotated_share(keys, rope, rope_type, head)
    else:
        head, share = _rotary_slice(keys, rope), None
    rotated = _rotary_dim(keys, rope_type, head, share)
    params = {
        "dim": head,
        "base": _base(keys, rope, group.label),
        "layout": _layout(keys),
        **({} if share is None else {"partial": share}),
    }
    scheme, more = RULES[rope_type](keys, rope, rotated)
    params |= more
    if scheme != "mrope":
        _note_axes(keys, rope)
    check_values(keys.text.name, scheme, params)
    derived = _derived(keys, scheme, params)
    stated = first(rope.text("rope_type"), rope.text("type") if rope.reads_type else None)
    if stated is not None:
        derived["rope_type"] = stated
    return Layers(group.label, group.layers, scheme, params, derived)


def _rotary_slice(keys: FamilyKeys, rope: RopeObject) -> Sourced:
    """Return the rotary dim of layers with compressed keys: the last dimensions of each head."""
    whole, share = keys.needed_count(_HEAD), rope.number(SHARE)
    keys.notes.warnings.append(
        f"{keys.family.model_type} rotates the last dimensions of each head; keys of compressed "
        "layers rotate by the position of their block's first token, and outputs are rotated back"
    )
    assert share is not None
    by_width = share.source.endswith("qk_rope_head_dim")
    source = share.source if by_width else f"derived: {whole.source} × {share.source}"
    return Sourced(int(whole.value * share.value), source)


def _rope_type(keys: FamilyKeys, rope: RopeObject) -> str:
    """Return the rope type of a rope object, by its current name.

    Raises: InvalidInput if the type is unknown, or the model type does not support it.
    """
    new, old = rope.text("rope_type"), rope.text("type")
    if old is not None and new is None and not rope.reads_type:
        if RENAMED.get(old.value, old.value) != "default":
            keys.notes.ineffective(
                old,
                f"transformers' {keys.family.model_type} reads only rope_type, and scales nothing",
            )
        return "default"
    stated = first(new, old)
    types = keys.family.types or tuple(RULES)
    renamed = {**RENAMED, **keys.family.renamed}
    if old and new and renamed.get(old.value, old.value) != renamed.get(new.value, new.value):
        keys.notes.ineffective(
            old,
            f"{new.source} {json_text(new.value)} differs, and transformers reads that",
        )
    if keys.by_own_class:
        renamed = {**keys.family.renamed}
        _note_older_name(keys, rope, stated)
    name = "default" if stated is None else str(renamed.get(stated.value, stated.value))
    if name in types:
        return name
    where = (
        f"{stated.source} {abbreviated(stated.value)}"
        if stated is not None
        else f"{rope.path('rope_type')} is missing"
    )
    reader, support = keys.family.model_type, f"takes {', '.join(types)}"
    if not keys.family.known:
        reader = f"the code of model type {reader}"
        support = f"is not known, and transformers {support}"
    older = f"it is an older name: in a copy of the file, say {RENAMED.get(name)}"
    hint = older if name in RENAMED else nearest(name, types)
    raise keys.error(f"{where}: {reader} {support}", hint=hint)


def _note_older_name(keys: FamilyKeys, rope: RopeObject, stated: Sourced | None) -> None:
    """Warn of an older name of a rope type with which the class of the model type fails."""
    family = keys.family
    needed = None if stated is None else family.renamed_with.get(stated.value)
    if stated is None or needed is None:
        return
    if needed == "rope_scaling":
        fails = not stated.source.startswith("rope_scaling.")
        where = "outside rope_scaling"
    else:
        fails = rope.values.get(needed) is None
        where = f"unless {rope.path(needed)} is given"
    if fails:
        keys.notes.doubt(
            stated.source,
            f"{stated.source} {stated.value}: transformers' {family.model_type} fails on it "
            f"{where}; its newer name is {family.renamed[stated.value]}",
        )


def _base(keys: FamilyKeys, rope: RopeObject, label: str | None) -> Sourced:
    """Return the base of the frequencies (rope_theta).

    Raises: InvalidInput unless it is above 0, or if it is missing and has no default.
    """
    text, family = keys.text, keys.family
    if family.keys.get("rope_theta", "") is None and family.rope_ignored:
        return _fixed_base(keys)
    key = (family.local or {}).get(label or "", "rope_theta")
    names = () if key is None else keys.names(key)
    base = rope.number("rope_theta") or first(*(text.number(name) for name in names))
    of_type = f" of {label} layers" if family.nested and label else ""
    if base is None:
        default_base = family.base_of(label)
        if default_base is None:
            raise keys.error(f"{rope.path('rope_theta')} is missing")
        base = keys.default(default_base)
        if text.values.get("rope_theta") == default_base:
            # OLMo 3 uses its default for some layers, and rope_theta for the others.
            return base
    missing = (
        f"has no rope_parameters: the defaults of {family.model_type} are used"
        if rope.is_default
        else f"has no rope_theta{of_type}: {base.value:g} is the {keys.default_source}"
    )
    if base.source.startswith("default of") and not _is_certain(keys, label, base.value):
        name = f"rope_theta{of_type}"
        keys.notes.doubt(name, f"{text.name} {missing}", of=keys.notes.defaulted)
    return base


def _fixed_base(keys: FamilyKeys) -> Sourced:
    """Return the base of a family without a key for it, multiplied by its ratio if it has one.

    Raises: InvalidInput for a ratio whose meaning the config does not show.
    """
    base = keys.default(keys.family.base_of(None))
    ratio = keys.text.number(keys.family.ratio) if keys.family.ratio else None
    if ratio is None or ratio.value == 1:
        return base
    if keys.text.values.get("padded_vocab_size") != _GLM4_VOCABULARY:
        raise keys.error(
            f"{ratio.source} {ratio.value:g}: ChatGLM2's code divides positions by it, and that of "
            "ChatGLM3 and GLM-4 multiplies the base; the config does not say which"
        )
    return Sourced(base.value * ratio.value, f"derived: {base.value:g} × {ratio.source}")


_GLM4_VOCABULARY = 151_552
"""The padded_vocab_size of GLM-4; no earlier ChatGLM has it."""


_CONSTANT_BASES = ("esm",)
"""Model types whose published configs state no base: it was a constant before transformers 5."""


def _is_certain(keys: FamilyKeys, label: str | None, base: float) -> bool:
    """Return whether a default base is certain: a constant, or stated under another name."""
    names = LOCAL_BASES if "sliding" in (label or "") else (*BASES, *GLOBAL_BASES)
    return keys.family.model_type in _CONSTANT_BASES or any(
        keys.text.values.get(name) == base for name in names
    )


def _layout(keys: FamilyKeys) -> Sourced:
    layout = keys.family.layout
    if layout in ("half", "interleaved"):
        return Sourced(layout, keys.default_source if keys.family.known else "assumed, as Llama's")
    flag = keys.text.flag(layout)
    if flag is None:
        return keys.default("interleaved")
    return Sourced("interleaved" if flag.value else "half", flag.source)


def _rotated_share(
    keys: FamilyKeys, rope: RopeObject, rope_type: str, head: Sourced
) -> Sourced | None:
    """Return the rotated share of the head; None if the whole head rotates."""
    family, plain = keys.family, rope_type == "default"
    if family.partial_ignored and plain:
        return None
    share = _stated_share(keys, rope, head, plain=plain)
    has_own = family.partial != 1 and (plain or not family.nested)
    nulls = [name for name in keys.names(SHARE) if keys.text.values.get(name, 0) is None]
    if share is None and has_own and nulls and not (family.nested and plain):
        keys.notes.warnings.append(
            f"{keys.text.path(nulls[0])} null: transformers rotates the whole head, and without "
            f"the key the default of {family.model_type}, {family.partial:g} of it"
        )
    elif share is None and not rope.is_default and has_own:
        share = keys.default(family.partial)
    if family.slice and share is not None and (share.value != 1 or SHARE in (family.rope or {})):
        _check_slice(keys, share, head)
        return None
    if share is None or share.value == 1:
        return None
    if share.value > 1:
        raise keys.error(f"{share.source} {share.value:g}: must be at most 1")
    return share


def _stated_share(
    keys: FamilyKeys, rope: RopeObject, head: Sourced, *, plain: bool
) -> Sourced | None:
    """Return the rotated share: from the rope object, the top of the config, or rotary_dim."""
    text, family = keys.text, keys.family
    share = rope.number(SHARE)
    if share is not None:
        return share
    if SHARE in (family.rope or {}) and family.slice:
        # Without it, Mistral 4 would rotate the whole head, and its attention would fail.
        raise keys.error(f"{rope.path(SHARE)} is missing")
    if not (family.nested and plain):
        share = keys.number(SHARE)
    if share is None and (family.any_names or "rotary_dim" in family.keys):
        columns = text.count("rotary_dim")
        return columns and Sourced(
            columns.value / head.value, f"derived: {columns.source} / head_dim"
        )
    return share


def _check_slice(keys: FamilyKeys, share: Sourced, head: Sourced) -> None:
    """Refuse a rotated share that contradicts latent attention, which rotates its whole slice."""
    rest = keys.text.count(_UNROTATED, minimum=0)
    if share.source.startswith("default of"):
        return
    # Mistral 4 states the slice as a share of the whole head.
    of_whole = SHARE in (keys.family.rope or {}) and rest is not None
    if not of_whole or int((rest.value + head.value) * share.value) != head.value:  # type: ignore[union-attr]
        raise keys.error(
            f"{share.source} {share.value:g}: the {head.value} columns of qk_rope_head_dim "
            "rotate as a whole"
        )


def _rotary_dim(keys: FamilyKeys, rope_type: str, head: Sourced, share: Sourced | None) -> int:
    """Return the number of rotated dimensions of a head.

    Raises: InvalidInput unless it is even and at least 2.
    """
    rotated, part = int(head.value), ""
    if share is not None and rope_type != "proportional":
        rotated = int(head.value * share.value)
        part = f" × {share.value:g} ({share.source})"
    if rotated < 2 or rotated % 2:
        raise keys.error(
            f"head_dim {head.value} ({head.source}){part} rotates {rotated} columns: pairs need an "
            "even number of them, from 2 on"
        )
    return rotated


def _note_axes(keys: FamilyKeys, rope: RopeObject) -> None:
    """Warn that RoPE with several axes is read for text only, where the axes agree."""
    sections = rope.get("mrope_section")
    rope.get("mrope_interleaved")
    sections = sections or rope.get("xdrope_section")
    has_axes = not keys.family.known or "xdrope" in keys.family.renamed
    if keys.family.mrope is not None or (sections is not None and has_axes):
        keys.notes.warnings.append("read for text only: the axes of images and video are left out")


def _context(keys: FamilyKeys, factor: Sourced | None = None) -> dict[str, Sourced]:
    """Return the context, multiplied by a linear ``factor`` if max_sequence_length confirms it.

    Source: config.json of lmsys/vicuna-7b-v1.5-16k, whose max_position_embeddings is 4096.
    """
    context, key = keys.count(CONTEXT), "max_sequence_length"
    if context is None:
        return {}
    keys.note_size(CONTEXT, context, default=False)
    if factor is not None and keys.text.values.get(key) == context.value * factor.value:
        scaled = keys.text.count(key)
        context = scaled if scaled and keys.by_own_class else context
    return {"context": context}


def _derived(keys: FamilyKeys, scheme: str, params: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """Return the values that follow from the parameters: head dim, attention factor, context."""
    derived = {"head_dim": params["dim"]}
    if keys.family.slice:
        rest = keys.text.count(_UNROTATED, minimum=0)
        if keys.family.compressed:
            whole = keys.needed_count(_HEAD)
            rest = Sourced(whole.value - params["dim"].value, f"derived: {whole.source} − dim")
        derived["beside_slice"] = rest or Sourced(
            None, f"{keys.text.path(_UNROTATED)} is not given"
        )
    derived |= magnitude(scheme, params)
    softmax = _softmax_multiplier(keys, params)
    if softmax is not None:
        derived["softmax_multiplier"] = softmax
    if keys.family.indexer is not None:
        derived["indexer"] = keys.default(keys.family.indexer)
        stated = keys.text.flag("indexer_rope_interleave")
        if stated is not None and stated.value is (keys.family.indexer == "half"):
            keys.notes.ineffective(
                stated,
                f"transformers' {keys.family.model_type} rotates its indexer in the layout "
                f"{keys.family.indexer}",
            )
    return derived | _context(keys, params["factor"] if scheme == "rope-linear" else None)


def _softmax_multiplier(keys: FamilyKeys, params: Mapping[str, Sourced]) -> Sourced | None:
    """Return the factor of the scores in latent attention, besides the attention factor."""
    text, family = keys.text, keys.family
    if not family.slice or family.plain_softmax or "factor" not in params:
        return None
    rope = text.values.get("rope_scaling") or text.values.get("rope_parameters")
    over = (rope or family.rope or {}).get("mscale_all_dim")
    factor = params["factor"].value
    if not isinstance(over, int | float) or not over or factor <= 1:
        return None
    check_values(text.name, "rope-yarn", {"mscale_all_dim": Sourced(over, "mscale_all_dim")})
    return softmax_multiplier(factor, over)


def _head_dim(keys: FamilyKeys, group: Group, rope_type: str) -> Sourced:
    """Return the head dim of some layers; in latent attention, the width of its rotated slice.

    Raises: InvalidInput.
    """
    text, family = keys.text, keys.family
    if family.slice or (not family.known and text.has(_SLICE)):
        slice_ = _slice_width(keys)
        if slice_ is not None:
            return keys.note_size(_SLICE, slice_)
    own = family.head_dims.get(group.label or "")
    if own is not None and (own[1] or text.has(own[0])):
        return _head_dim_of_type(keys, group, *own)
    is_null = text.has(_HEAD) and text.get(_HEAD) is None  # null: the default does not apply either
    head = None if family.head_dim_ignored or is_null else keys.size(_HEAD)
    if head is not None:
        if family.model_type in _NEEDS_WHOLE_HEADS:
            _inferred_head_dim(keys)
        return head
    if family.needs_head_dim and rope_type in _READS_HEAD_DIM:
        keys.notes.warnings.append(
            f"{text.path(_HEAD)} is not given: transformers 5 cannot run rope_type "
            f"{rope_type} of {family.model_type} without it"
        )
    for key in ("hidden_size", "num_attention_heads"):
        keys.size(key)
    return _inferred_head_dim(keys)


def _inferred_head_dim(keys: FamilyKeys) -> Sourced:
    """Return hidden_size / num_attention_heads.

    Raises: InvalidInput if it is below 1, or not an integer where transformers needs one.
    """
    hidden, heads = (keys.needed_count(key) for key in ("hidden_size", "num_attention_heads"))
    if hidden.value < heads.value:
        rule = "at least"
    elif hidden.value % heads.value and keys.family.model_type in _NEEDS_WHOLE_HEADS:
        rule = "a multiple of"
    else:
        return quotient(hidden, heads)
    raise keys.error(f"{hidden.source} {hidden.value}: must be {rule} {heads.source} {heads.value}")


def _head_dim_of_type(keys: FamilyKeys, group: Group, key: str, default: int | None) -> Sourced:
    """Return the head dim of a layer type that has a key for it.

    Raises: InvalidInput if it is missing and the model type has no default.
    """
    head = keys.text.count(key)
    by_layer = keys.text.section("per_layer_config")
    if by_layer is not None:
        sections = [by_layer.section(str(layer)) for layer in group.layers]
        head = first(head, *(own.count(_HEAD) for own in sections if own))
    if head is None and default is None:
        raise keys.text.invalid(key, "must be a whole number")
    return keys.note_size(key, head or keys.default(default))


def _slice_width(keys: FamilyKeys) -> Sourced | None:
    """Return the width of the rotated slice in latent attention; None if nothing states it.

    Raises: InvalidInput if head_dim, from which transformers builds the rotation of some families,
    disagrees.
    """
    text, family = keys.text, keys.family
    text.get(_HEAD)
    if family.model_type == "deepseek_v2" and text.values.get("use_mla") is False:
        raise keys.error(
            f"{text.path('use_mla')} false: plain attention, which transformers' deepseek_v2 does "
            "not have",
            hint="in a copy of the file, say model_type llama: DeepSeek's own code uses Llama's "
            "attention here",
        )
    if family.slice_head == "name" and text.has(_HEAD) and not text.has(_SLICE):
        return text.count(_HEAD)
    slice_ = keys.count(_SLICE)
    if slice_ is None or family.slice_head is None:
        return slice_
    fitting, meaning = slice_.value, slice_.source
    if family.slice_head == "whole":
        rest = text.count(_UNROTATED, minimum=0) or keys.default(family.defaults[_UNROTATED])
        fitting += rest.value
        meaning = f"{_SLICE} + {_UNROTATED}"
    head = text.values.get(_HEAD, family.defaults.get(_HEAD, fitting))
    if (_inferred_head_dim(keys).value if head is None else head) != fitting:
        source = _HEAD if text.has(_HEAD) else keys.default_source
        raise keys.error(
            f"{text.path(_HEAD)} {json_text(head)} ({source}): must be {fitting} "
            f"({meaning}), for transformers builds the rotation of {family.model_type} on it"
        )
    return slice_
