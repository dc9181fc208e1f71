"""How wide a head is: what the config says, what follows from it, what the model type adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.models.families import ANY_NAME
from posenc_cli.models.keys import first, json_text
from posenc_cli.models.latent import SLICE, slice_width
from posenc_cli.models.resolved import Sourced

if TYPE_CHECKING:
    from posenc_cli.models.layer_types import Group
    from posenc_cli.models.rope import RopeReader

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


def head_dim(reader: RopeReader, group: Group, rope_type: str) -> Sourced:
    """The columns of a head of some layers, or of its slice that turns.

    Raises: InvalidInput.
    """
    text, family = reader.text, reader.family
    if family.slice or (not family.known and text.has("qk_rope_head_dim")):
        found = slice_width(reader)
        if found is not None:
            return _noted(reader, SLICE, found)
    own = family.head_dims.get(group.label or "")
    if own is not None:
        return _of_layer_type(reader, group, *own)
    found = _sized(reader, "head_dim")
    if found is not None:
        if family.model_type in WHOLE:
            _divided(reader)
        return found
    if family.needs_head_dim and rope_type in BY_HEAD_DIM:
        reader.notes.warn(
            f"{text.path('head_dim')} is not given: transformers 5 cannot run rope_type "
            f"{rope_type} of {family.model_type} without it"
        )
    return _divided(reader, warned=True)


def _divided(reader: RopeReader, *, warned: bool = False) -> Sourced:
    """The share of the hidden size that a head has.

    Raises: InvalidInput where the heads do not fit, or transformers refuses how they do.
    """
    for key in ("hidden_size", "num_attention_heads") if warned else ():
        _sized(reader, key)
    hidden, heads = (reader.needed_count(key) for key in ("hidden_size", "num_attention_heads"))
    said = f"{hidden.source} {hidden.value}"
    if hidden.value < heads.value:
        raise InvalidInput(
            f"{reader.text.name}: {said}: must be at least {heads.source} {heads.value}"
        )
    if hidden.value % heads.value:
        if reader.family.model_type in WHOLE:
            raise InvalidInput(
                f"{reader.text.name}: {said}: must be a multiple of {heads.source} {heads.value}"
            )
        if warned:
            reader.notes.warn(
                f"{said} is no multiple of {heads.source} {heads.value}: heads are "
                f"{hidden.value // heads.value} wide, rounded down as in transformers"
            )
    return Sourced(hidden.value // heads.value, f"derived: {hidden.source} / {heads.source}")


def _of_layer_type(reader: RopeReader, group: Group, key: str, default: int) -> Sourced:
    """The head of layers whose heads are of a size of their own."""
    found = reader.text.count(key)
    by_layer = reader.text.section("per_layer_config")
    for layer in group.layers if by_layer is not None else ():
        one = by_layer.section(str(layer)) if by_layer else None
        found = first(found, one.count("head_dim") if one else None)
    return _noted(reader, key, found or Sourced(default, reader.default_source))


def _sized(reader: RopeReader, key: str) -> Sourced | None:
    """A size of the config, or the model type's, which is noted."""
    found = reader.count(key)
    return None if found is None else _noted(reader, key, found)


def _noted(reader: RopeReader, key: str, found: Sourced) -> Sourced:
    """A size; where it is the model type's, that is noted, unless another name says the same."""
    if found.source != reader.default_source:
        return found
    text = reader.text
    stated = {name: text.values[name] for name in ANY_NAME.get(key, ()) if text.has(name)}
    if found.value not in stated.values():
        reader.notes.size(text.path(key), found)
        for name, value in stated.items():
            reader.notes.warn(
                f"{text.path(name)} {json_text(value)} has no effect: transformers' "
                f"{reader.family.model_type} reads {text.path(key)}"
            )
    return found
