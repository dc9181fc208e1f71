"""The defaults, names and special keys of each model family, as data.

Rotary families are in ``rotary.json``, one line a model type, as Hugging Face transformers 5 has
them. A config usually says neither how columns are paired nor which layers go without rotation.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Nope = Literal["no_rope_layers", "unless sliding", "unless sliding type", "unless sliding, if any"]
"""How a family tells which layers go without rotation."""


class Rotary(Record):
    """A family of rotary models: a row of ``rotary.json``.

    Each field is described in ``rotary.schema.json`` beside it, but for these. ``known`` is False
    of a model type that nothing is known of, and ``any_names`` says that its config may have any
    name for a key. ``owner`` is the model type whose defaults these are, where that is one around
    it.
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
        """The base of the layers of a type, None where configs must say it."""
        if self.base is None or isinstance(self.base, float | int):
            return self.base
        return self.base.get(layer_type or "")


class Container(Record):
    """A model of text and images or sound, around a text model.

    Its fields too are described in ``rotary.schema.json``.
    """

    model_type: str
    text: str
    defaults: Mapping[str, Any] = fresh(dict)
    base: float | None = None
    merged: bool = False
    flat: bool = False
    inside: str | None = None

    def around(self, family: Rotary) -> Rotary:
        """A family with the defaults that it has in this model."""
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
"""What keys are called in configs of model types that are not known here."""

LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "rope_theta_local", "swa_rope_theta")
GLOBAL_BASES = ("global_rope_theta", "rope_theta_global", "rope_global_base_freq")
BASES = (
    *("rope_theta", "rotary_emb_base", "rope_base", "rotary_base", "rope_embedding_base"),
    "theta",  # LFM2's, which transformers 4 read before rope_theta
)
"""What the base is called by one code or another: of layers whose window slides, of the others
where those have one of their own, and of all."""


@cache
def packaged(name: str) -> Any:
    """The content of a JSON file beside this one."""
    return json.loads(Path(__file__).with_name(name).read_text("utf-8"))


class Remote(Record):
    """A rotary family that transformers does not have: where its own code was read.

    ``otherwise`` goes on from the model type where its ``when`` does not hold. ``shorter`` says
    what its code does in sequences shorter than one before, where its base grows with them.
    """

    family: Rotary
    evidence: str
    otherwise: str | None = None
    shorter: str | None = None


@cache
def remotes() -> Mapping[str, Remote]:
    """The model types that come with code of their own, by rows of ``remote.json``.

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
    """The rotary family of a model type, if it is one.

    >>> rotary("gpt_neox").partial, rotary("cohere").layout, rotary("bert")
    (0.25, 'interleaved', None)
    """
    row = packaged("rotary.json")["families"].get(model_type)
    if row is not None:
        return Rotary(model_type, **row)
    remote = remotes().get(model_type)
    return None if remote is None else remote.family


def names(kind: str = "families") -> tuple[str, ...]:
    """The model types of the rotary families, of the ``containers`` around text models, or others.

    The ``others`` of transformers are neither rotary nor around a text model, and not all read.

    >>> "llama" in names(), "llava" in names("containers"), "vit" in names("others")
    (True, True, True)
    """
    return tuple(packaged("rotary.json")[kind])


def text_model_type(model_type: str) -> str | None:
    """The model type of the text model within a model of text and images or sound.

    >>> text_model_type("qwen2_vl")
    'qwen2_vl_text'
    """
    around = container(model_type)
    return None if around is None else around.text


def container(model_type: str) -> Container | None:
    """The model of text and images or sound of a model type, if it is one.

    >>> container("voxtral").base
    100000000.0
    """
    row = packaged("rotary.json")["containers"].get(model_type)
    if row is None:
        return None
    return Container(model_type, **({"text": row} if isinstance(row, str) else row))


@cache
def refusals() -> Mapping[str, Mapping[str, Any]]:
    """Every model type that is not read: the row of ``refusals.json`` that says why.

    The reason goes on from the model type, and a hint may say what comes near.

    >>> refusals()["mamba"]["because"]
    'has no attention'
    """
    return {name: row for row in packaged("refusals.json") for name in row["types"]}
