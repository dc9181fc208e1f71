"""Read the JSON files of model families: their defaults, names and special keys.

Rotary families are in ``rotary.json``, one line for each model type, as Hugging Face transformers 5
defines them. Configs usually state neither the layout of the pairs nor which layers do not rotate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from posenc_cli.records import Record, fresh, replace

Nope = Literal["no_rope_layers", "unless sliding", "unless sliding type", "unless sliding, if any"]
"""The rule by which a family chooses the layers that do not rotate."""


class Rotary(Record):
    """A rotary family: a row of ``rotary.json``.

    ``rotary.schema.json`` describes each field except three. ``known`` is False for an unknown
    model type, and ``any_names`` says that its config may use any name for a key. ``owner`` is the
    model type around it, if the defaults come from there.
    """

    model_type: str
    defaults: Mapping[str, Any] = fresh(dict)
    aliases: Mapping[str, str] = fresh(dict)
    base: float | Mapping[str, float] | None = 10_000.0
    partial: float = 1.0
    partial_ignored: bool = False
    rope: Mapping[str, Any] | None = None
    nested: bool = False
    slice: bool = False
    slice_head: Literal["slice", "whole", "name"] | None = None
    own_original: bool = False
    plain_softmax: bool = False
    layout: str = "half"
    indexer: Literal["half", "interleaved"] | None = None
    nope: Nope | None = None
    cycle: tuple[str, ...] = ()
    cycle_key: str | None = None
    exceptions: Mapping[str, Sequence[int]] = fresh(dict)
    indices: str | None = None
    pattern: str | None = None
    window: Mapping[str, Any] = fresh(dict)
    nope_types: tuple[str, str] | None = None
    at_least: str | None = None
    last: str | None = None
    needs_layer_types: bool = False
    local: Mapping[str, Any] | None = None
    head_dims: Mapping[str, Any] = fresh(dict)
    head_dim_ignored: bool = False
    rope_ignored: bool = False
    by_layer: bool = False
    blocks: bool = False
    ratio: str | None = None
    keys: Mapping[str, str | None] = fresh(dict)
    mrope: Mapping[str, Any] | None = None
    when: Mapping[str, Any] | None = None
    renamed: Mapping[str, str] = fresh(dict)
    renamed_with: Mapping[str, str] = fresh(dict)
    alpha: bool = False
    types: tuple[str, ...] = ()
    needs_head_dim: bool = False
    scales_queries: bool = False
    layer_bases: Literal["base", "flag"] | None = None
    from_end: bool = False
    scaled_layers: str | None = None
    section: Mapping[str, Any] = fresh(dict)
    compressed: bool = False
    known: bool = True
    any_names: bool = False
    owner: str | None = None

    def base_of(self, layer_type: str | None) -> float | None:
        """Return the default base of the layers of a type; None if configs must state it."""
        if self.base is None or isinstance(self.base, float | int):
            return self.base
        return self.base.get(layer_type or "")


class Container(Record):
    """A model of text and images or audio, around a text model.

    ``rotary.schema.json`` describes its fields.
    """

    model_type: str
    text: str
    defaults: Mapping[str, Any] = fresh(dict)
    base: float | None = None
    merged: bool = False
    flat: bool = False
    inside: str | None = None

    def around(self, family: Rotary) -> Rotary:
        """Return a family with the defaults that it has in this model."""
        if not self.defaults and self.base is None:
            return family
        base = family.base if self.base is None else self.base
        defaults = {**family.defaults, **self.defaults}
        return replace(family, defaults=defaults, base=base, owner=self.model_type)


ANY_NAME: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "d_model", "n_embd", "dim", "model_dim"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "max_position_embeddings": (
        *("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length"),
        *("seq_length", "model_max_length"),
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "rope_theta": ("rope_theta", "rotary_emb_base", "rope_base"),
    "partial_rotary_factor": (
        *("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent"),
        "rotary_emb_fraction",
    ),
}
"""Names of keys in configs of unknown model types."""

LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "rope_theta_local", "swa_rope_theta")
GLOBAL_BASES = ("global_rope_theta", "rope_theta_global", "rope_global_base_freq")
BASES = (
    *("rope_theta", "rotary_emb_base", "rope_base", "rotary_base", "rope_embedding_base"),
    "theta",  # LFM2's, which transformers 4 read before rope_theta
)
"""Names of the base of all layers, in any code.

LOCAL_BASES name the base of sliding layers, and GLOBAL_BASES the base of the others beside it.
"""


@cache
def packaged(name: str) -> Any:
    """Return the content of a JSON file beside this one."""
    return json.loads(Path(__file__).with_name(name).read_text("utf-8"))


class Remote(Record):
    """A rotary family that transformers does not have, and the place of its own code.

    ``otherwise`` completes the error, after the model type, if its ``when`` does not hold.
    ``shorter`` says what its code does in a sequence shorter than an earlier one, if its base grows
    with them.
    """

    family: Rotary
    evidence: str
    otherwise: str | None = None
    shorter: str | None = None


@cache
def remotes() -> Mapping[str, Remote]:
    """Return the model types with their own code, from the rows of ``remote.json``.

    >>> remotes()["chatglm"].family.layout
    'interleaved'
    """
    return {
        name: Remote(
            Rotary(name, **row["family"]), row["evidence"], row.get("else"), row.get("shorter")
        )
        for name, row in packaged("remote.json").items()
    }


def rotary(model_type: str) -> Rotary | None:
    """Return the rotary family of a model type; None if it is not rotary.

    >>> rotary("gpt_neox").partial, rotary("cohere").layout, rotary("bert")
    (0.25, 'interleaved', None)
    """
    row = packaged("rotary.json")["families"].get(model_type)
    if row is not None:
        return Rotary(model_type, **row)
    remote = remotes().get(model_type)
    return None if remote is None else remote.family


def names(kind: str = "families") -> tuple[str, ...]:
    """Return the model types of rotary ``families``, ``containers`` of text models, or others.

    The ``others`` are the rest of transformers' model types; not all are read.

    >>> "llama" in names(), "llava" in names("containers"), "vit" in names("others")
    (True, True, True)
    """
    return tuple(packaged("rotary.json")[kind])


def text_model_type(model_type: str) -> str | None:
    """Return the model type of the text model inside a multimodal model; None for other types.

    >>> text_model_type("qwen2_vl")
    'qwen2_vl_text'
    """
    around = container(model_type)
    return None if around is None else around.text


def container(model_type: str) -> Container | None:
    """Return the multimodal model of a model type; None if it is not one.

    >>> container("voxtral").base
    100000000.0
    """
    row = packaged("rotary.json")["containers"].get(model_type)
    if row is None:
        return None
    return Container(model_type, **({"text": row} if isinstance(row, str) else row))


@cache
def refusals() -> Mapping[str, Mapping[str, Any]]:
    """Return the row of ``refusals.json`` for every model type that posenc refuses.

    The reason completes a sentence after the model type. A hint may name the nearest alternative.

    >>> refusals()["mamba"]["because"]
    'has no attention'
    """
    return {name: row for row in packaged("refusals.json") for name in row["types"]}
