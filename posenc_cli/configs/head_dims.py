"""How wide a head is: what the config says, what follows from it, what the model type adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.keys import first, json_text
from posenc_cli.configs.resolved import Sourced

if TYPE_CHECKING:
    from posenc_cli.configs.family_keys import FamilyKeys
    from posenc_cli.configs.layer_types import Group

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
        keys.notes.warn(
            f"{text.path(HEAD)} is not given: transformers 5 cannot run rope_type "
            f"{rope_type} of {family.model_type} without it"
        )
    for key in ("hidden_size", "num_attention_heads"):
        keys.size(key)
    head = _share_of_hidden(keys)
    hidden, heads = (keys.needed_count(key) for key in ("hidden_size", "num_attention_heads"))
    if hidden.value % heads.value:
        keys.notes.warn(
            f"{hidden.source} {hidden.value} is not a multiple of {heads.source} {heads.value}: "
            f"heads are {head.value} wide, rounded down as in transformers"
        )
    return head


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
        return Sourced(hidden.value // heads.value, f"derived: {hidden.source} / {heads.source}")
    raise keys.error(f"{hidden.source} {hidden.value}: must be {rule} {heads.source} {heads.value}")


def _of_layer_type(keys: FamilyKeys, group: Group, key: str, default: int | None) -> Sourced:
    """The head of layers whose heads are of a size of their own.

    Raises: InvalidInput for a null where the model type has no size to take in its place.
    """
    head = keys.text.count(key)
    by_layer = keys.text.section("per_layer_config")
    for layer in group.layers if by_layer is not None else ():
        own = by_layer.section(str(layer)) if by_layer else None
        head = first(head, own.count(HEAD) if own else None)
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
