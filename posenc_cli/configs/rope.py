"""RoPE in a config: rope_parameters, the older rope_scaling, and related keys.

Values are taken in transformers' order: from the rope object, then from the top of the config,
then from the model type. :func:`rope_layers` reads them; what each step needs stands below it:
:mod:`~posenc_cli.configs.layer_types` says which layers there are,
:mod:`~posenc_cli.configs.rope_objects` which JSON object is theirs, and
:mod:`~posenc_cli.configs.rope_rules` what their rope type reads. All take the config's keys as
:class:`~posenc_cli.configs.keys.FamilyKeys`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.families import BASES, GLOBAL_BASES, LOCAL_BASES
from posenc_cli.configs.keys import CONTEXT, SHARE, FamilyKeys, first, quotient
from posenc_cli.configs.layer_types import groups
from posenc_cli.configs.resolved import Layers, Sourced, check_values, json_text
from posenc_cli.configs.rope_objects import rope_objects
from posenc_cli.configs.rope_rules import RENAMED, RULES, magnitude, softmax_multiplier
from posenc_cli.errors import abbreviated, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.configs.layer_types import Group
    from posenc_cli.configs.rope_objects import RopeObject


SLICE = "qk_rope_head_dim"
REST = "qk_nope_head_dim"
HEAD = "head_dim"
BY_HEAD_DIM = ("dynamic", "yarn", "longrope")
"""Rope types for which transformers reads head_dim and infers none where that is null."""
WHOLE = frozenset(
    {
        *("arcee", "aria_text", "cosmos3_edge_text", "cwm", "deepseek_v2", "esmc", "eurobert"),
        *("gemma2", "gemma3_text", "gemma3n_text", "gpt_neox", "higgs_audio_v2", "hyperclovax"),
        *("internlm3", "iquestcoder", "jais2", "llama", "minicpm3", "vaultgemma"),
    }
)
"""Model types of which transformers refuses a hidden size that the heads do not divide."""


def rope_layers(keys: FamilyKeys) -> Iterator[tuple[Layers, RopeObject | None]]:
    """The layers of each type, in the order of their first, each with its rope object.

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
            yield _rope_of(keys, group, rope), rope


def _rope_of(keys: FamilyKeys, group: Group, rope: RopeObject) -> Layers:
    """The rope of one group of layers.

    Raises: InvalidInput.
    """
    rope_type = _rope_type(keys, rope)
    if not keys.family.compressed:
        head = head_dim(keys, group, rope_type)
        share = _share(keys, rope, rope_type, head)
    else:
        head, share = _slice_of_head(keys, rope), None
    rotated = _width(keys, rope_type, head, share)
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


def _slice_of_head(keys: FamilyKeys, rope: RopeObject) -> Sourced:
    """The last columns of a head, which alone rotate where keys are compressed."""
    whole, share = keys.needed_count(HEAD), rope.number(SHARE)
    keys.notes.warnings.append(
        f"{keys.family.model_type} rotates the last dimensions of each head; keys of compressed "
        "layers rotate by the position of their block's first token, and outputs are rotated back"
    )
    assert share is not None
    by_width = share.source.endswith("qk_rope_head_dim")
    source = share.source if by_width else f"derived: {whole.source} × {share.source}"
    return Sourced(int(whole.value * share.value), source)


def _rope_type(keys: FamilyKeys, rope: RopeObject) -> str:
    """The rule that the rope object names.

    Raises: InvalidInput for an unknown one, or for two that contradict each other.
    """
    new, old = rope.text("rope_type"), rope.text("type")
    if old is not None and new is None and not rope.reads_type:
        keys.notes.warnings.append(
            f"{old.source} {json_text(old.value)} has no effect: transformers' "
            f"{keys.family.model_type} reads only rope_type, and scales nothing"
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
    where = f"{rope.path('rope_type')} is missing"
    if stated is not None:
        where = f"{stated.source} {abbreviated(stated.value)}"
    whose, takes = keys.family.model_type, f"takes {', '.join(types)}"
    if not keys.family.known:
        whose = f"the code of model type {whose}"
        takes = f"is not known, and transformers {takes}"
    hint = nearest(name, types)
    if name in RENAMED:
        hint = f"it is an older name: in a copy of the file, say {RENAMED[name]}"
    raise keys.error(f"{where}: {whose} {takes}", hint=hint)


def _note_older_name(keys: FamilyKeys, rope: RopeObject, stated: Sourced | None) -> None:
    """Warn of an older name of a rope type where the class of the model type fails on it."""
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
    """The base of the ladder of wavelengths.

    Raises: InvalidInput where it is not above 1, or must be there and is not.
    """
    text, family = keys.text, keys.family
    if family.keys.get("rope_theta", "") is None and family.rope_ignored:
        return _fixed_base(keys)
    key = (family.local or {}).get(label or "", "rope_theta")
    names = () if key is None else keys.names(key)
    base = rope.number("rope_theta")
    if base is None:
        base = first(*(text.number(name) for name in names))
    of_type = f" of {label} layers" if family.nested and label else ""
    if base is None:
        usual = family.base_of(label)
        if usual is None:
            raise keys.error(f"{rope.path('rope_theta')} is missing")
        base = keys.default(usual)
        if text.values.get("rope_theta") == usual:
            # OLMo 3 takes its default for some layers beside the rope_theta of the others.
            return base
    missing = f"has no rope_theta{of_type}: {base.value:g} is the {keys.default_source}"
    if rope.is_default:
        missing = f"has no rope_parameters: those of {family.model_type} are taken"
    if base.source.startswith("default of") and not _is_stated(keys, label, base.value):
        keys.notes.warnings.append(f"{text.name} {missing}")
        keys.notes.defaulted.append(f"rope_theta{of_type}")
    return base


def _fixed_base(keys: FamilyKeys) -> Sourced:
    """The base of a family whose configs have no key for it, but one that may multiply it.

    Raises: InvalidInput for a ratio of which the config does not say what it does.
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
"""The padded_vocab_size of GLM-4, and of no ChatGLM before it."""


_CONSTANT = ("esm",)
"""Model types whose published configs state no base: it was a constant before transformers 5."""


def _is_stated(keys: FamilyKeys, label: str | None, base: float) -> bool:
    """Whether a base that is the model type's needs no doubt.

    Either no config states it, or this one does by a name of other code.
    """
    if keys.family.model_type in _CONSTANT:
        return True
    names = LOCAL_BASES if "sliding" in (label or "") else (*BASES, *GLOBAL_BASES)
    return any(keys.text.values.get(name) == base for name in names)


def _layout(keys: FamilyKeys) -> Sourced:
    layout = keys.family.layout
    if layout in ("half", "interleaved"):
        known = keys.family.known
        return Sourced(layout, keys.default_source if known else "assumed, as Llama's")
    flag = keys.text.flag(layout)
    if flag is None:
        return keys.default("interleaved")
    return Sourced("interleaved" if flag.value else "half", flag.source)


def _share(keys: FamilyKeys, rope: RopeObject, rope_type: str, head: Sourced) -> Sourced | None:
    """The share of the head that rotates, None where it is all of it.

    Raises: InvalidInput.
    """
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
    """The share of the head that the config says, in the rope object, at the top, or in columns.

    Raises: InvalidInput.
    """
    text, family = keys.text, keys.family
    share = rope.number(SHARE)
    if share is not None:
        return share
    if SHARE in (family.rope or {}) and family.slice:
        # Mistral 4 rotates the whole head without it, which its attention has no room for.
        raise keys.error(f"{rope.path(SHARE)} is missing")
    if not (family.nested and plain):
        share = keys.number(SHARE)
    if share is None and (family.any_names or "rotary_dim" in family.keys):
        columns = text.count("rotary_dim")
        if columns is not None:
            return Sourced(columns.value / head.value, f"derived: {columns.source} / head_dim")
    return share


def _check_slice(keys: FamilyKeys, share: Sourced, head: Sourced) -> None:
    """Of latent attention the slice rotates as a whole; the share of the head must say the same.

    Raises: InvalidInput.
    """
    rest = keys.text.count(REST, minimum=0)
    if share.source.startswith("default of"):
        return
    # Mistral 4 states the share that the slice is of the whole head.
    of_whole = SHARE in (keys.family.rope or {}) and rest is not None
    if not of_whole or int((rest.value + head.value) * share.value) != head.value:  # type: ignore[union-attr]
        raise keys.error(
            f"{share.source} {share.value:g}: the {head.value} columns of qk_rope_head_dim "
            "rotate as a whole"
        )


def _width(keys: FamilyKeys, rope_type: str, head: Sourced, share: Sourced | None) -> int:
    """How many dimensions rotate.

    Raises: InvalidInput where they make no pairs.
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
    """Note that a scaled rope of several axes is read for text, whose axes agree."""
    sections = rope.get("mrope_section")
    rope.get("mrope_interleaved")
    sections = sections or rope.get("xdrope_section")
    has_axes = not keys.family.known or "xdrope" in keys.family.renamed
    if keys.family.mrope is not None or (sections is not None and has_axes):
        keys.notes.warnings.append("read for text only: the axes of images and video are left out")


def _context(keys: FamilyKeys, factor: Sourced | None = None) -> dict[str, Sourced]:
    """How many positions a config is for: as many as its linear ``factor`` makes, if it says so.

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
    """What follows from the parameters of a rotation."""
    derived = {"head_dim": params["dim"]}
    if keys.family.slice:
        rest = keys.text.count(REST, minimum=0)
        if keys.family.compressed:
            whole = keys.needed_count(HEAD)
            rest = Sourced(whole.value - params["dim"].value, f"derived: {whole.source} − dim")
        missing = Sourced(None, f"{keys.text.path(REST)} is not given")
        derived["beside_slice"] = rest or missing
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
    """What latent attention multiplies the scores by, beside the rotation."""
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


def head_dim(keys: FamilyKeys, group: Group, rope_type: str) -> Sourced:
    """The columns of a head of some layers, or of its slice that rotates.

    Raises: InvalidInput.
    """
    text, family = keys.text, keys.family
    if family.slice or (not family.known and text.has(SLICE)):
        slice_ = slice_width(keys)
        if slice_ is not None:
            return keys.note_size(SLICE, slice_)
    own = family.head_dims.get(group.label or "")
    if own is not None and (own[1] or text.has(own[0])):
        return _of_layer_type(keys, group, *own)
    is_null = text.has(HEAD) and text.get(HEAD) is None  # which leaves no default
    head = None if family.head_dim_ignored or is_null else keys.size(HEAD)
    if head is not None:
        if family.model_type in WHOLE:
            _share_of_hidden(keys)
        return head
    if family.needs_head_dim and rope_type in BY_HEAD_DIM:
        keys.notes.warnings.append(
            f"{text.path(HEAD)} is not given: transformers 5 cannot run rope_type "
            f"{rope_type} of {family.model_type} without it"
        )
    for key in ("hidden_size", "num_attention_heads"):
        keys.size(key)
    return _share_of_hidden(keys)


def _share_of_hidden(keys: FamilyKeys) -> Sourced:
    """The share of the hidden size that a head has.

    Raises: InvalidInput where the heads do not fit, or transformers refuses how they do.
    """
    hidden, heads = (keys.needed_count(key) for key in ("hidden_size", "num_attention_heads"))
    if hidden.value < heads.value:
        rule = "at least"
    elif hidden.value % heads.value and keys.family.model_type in WHOLE:
        rule = "a multiple of"
    else:
        return quotient(hidden, heads)
    raise keys.error(f"{hidden.source} {hidden.value}: must be {rule} {heads.source} {heads.value}")


def _of_layer_type(keys: FamilyKeys, group: Group, key: str, default: int | None) -> Sourced:
    """The head of layers whose heads are of a size of their own.

    Raises: InvalidInput for a null where the model type has no size to take in its place.
    """
    head = keys.text.count(key)
    by_layer = keys.text.section("per_layer_config")
    if by_layer is not None:
        sections = [by_layer.section(str(layer)) for layer in group.layers]
        head = first(head, *(own.count(HEAD) for own in sections if own))
    if head is None and default is None:
        raise keys.text.invalid(key, "must be a whole number")
    return keys.note_size(key, head or keys.default(default))


def slice_width(keys: FamilyKeys) -> Sourced | None:
    """The columns of each head that rotate in latent attention, None where nothing says it.

    Raises: InvalidInput where head_dim, on which transformers builds the rotation of some
    families, says another number.
    """
    text, family = keys.text, keys.family
    text.get(HEAD)
    if family.model_type == "deepseek_v2" and text.values.get("use_mla") is False:
        raise keys.error(
            f"{text.path('use_mla')} false: plain attention, which transformers' deepseek_v2 does "
            "not have",
            hint="in a copy of the file, say model_type llama: DeepSeek's own code uses Llama's "
            "attention here",
        )
    if family.slice_head == "name" and text.has(HEAD) and not text.has(SLICE):
        return text.count(HEAD)
    slice_ = keys.count(SLICE)
    if slice_ is None or family.slice_head is None:
        return slice_
    fitting, what = slice_.value, slice_.source
    if family.slice_head == "whole":
        rest = text.count(REST, minimum=0) or keys.default(family.defaults[REST])
        fitting += rest.value
        what = f"{SLICE} + {REST}"
    head = text.values.get(HEAD, family.defaults.get(HEAD, fitting))
    if (_share_of_hidden(keys).value if head is None else head) != fitting:
        source = HEAD if text.has(HEAD) else keys.default_source
        raise keys.error(
            f"{text.path(HEAD)} {json_text(head)} ({source}): must be {fitting} "
            f"({what}), for transformers builds the rotation of {family.model_type} on it"
        )
    return slice_
