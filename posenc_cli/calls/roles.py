"""List the roles: what a parameter of a user's function means, one row per role.

To support new parameter names, add them to the row of their role. A new role needs a row here and
its value in :mod:`posenc_cli.calls.payloads`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from posenc_cli.records import Record

if TYPE_CHECKING:
    Kind = Literal["vectors", "place", "tables", "number", "bystander"]
    """A kind of argument: vectors to rotate, positions ("place"), tables, other numbers that a
    rotation depends on, or something that it does not depend on ("bystander")."""

CALL_AXES = ("bhnd", "bnhd", "hnd", "nhd", "nd", "nbhd", "bnf")
"""Orders of the axes of vectors: b sequences, h heads, n rows, d columns of a head, f those of all
heads side by side."""


PADDED, LEFT_PADDED = "false for the last row", "false for the first row"
"""The masks of a sequence with padding at its end, and with padding at its beginning."""

ADDED = "(batch, 1, rows, rows), to add to scores, that hides the first row"
"""The mask that models add to scores: 0, and the lowest number for padding."""

HALF = "in half precision"
"""The first half precision of a framework, as the value of a dtype parameter."""


class Role(Record):
    """A role.

    ``names`` are the parameters, in lower case, that have this role. ``or_else`` are names of
    another role that may also have this one. ``types`` are endings of annotated types that imply
    it. ``says`` is how the report describes its value. A form gives a bystander only to a parameter
    without a default. Further calls give a parameter each value ``varied`` separately; None stands
    for the value of its role. The result then stays the ``same``, becomes an ``other``, or the
    ``inverse``. An ``irrelevant`` role does not affect values, and is not reported as untested.
    """

    name: str
    kind: Kind
    names: tuple[str, ...]
    or_else: tuple[str, ...] = ()
    says: str = ""
    types: tuple[str, ...] = ()
    varied: tuple[float | str | None, ...] = ()
    response: Literal["same", "other", "inverse"] = "same"
    irrelevant: bool = False


_POSITION = ("pos", "position", "m", "cache_position")
_COMPLEX = (
    *("freqs_cis", "freqs_complex", "cis", "freqs_ci", "cos_sin_cache", "cos_sin_table"),
    *("freqs", "rope_cache", "rope", "cache", "angles", "angle", "thetas", "phases"),
)
_PAIR = ("position_embeddings", "rotary_emb", "rotary_pos_emb", "pos_emb", "cos_sin")

ROLES = (
    Role(
        "x",
        "vectors",
        (
            "x",
            "t_in",
            "hidden_states",
            "inputs",
            "input",
            "tensor",
            "vectors",
            "inputs_embeds",
            "embeddings",
            "input_embedding",
            "src",
        ),
        or_else=("emb",),
    ),
    Role("q", "vectors", ("q", "xq", "query", "queries", "query_states", "query_layer")),
    Role("k", "vectors", ("k", "xk", "key", "keys", "key_states", "key_layer")),
    Role("qkv", "vectors", ("qkv", "mixed_qkv", "qkv_states", "query_key_value")),
    Role("v", "number", ("v", "xv", "value", "values", "value_states", "value_layer")),
    Role("cos", "tables", ("cos", "cosine", "cosines")),
    Role("sin", "tables", ("sin", "sine", "sines")),
    Role("freqs_cis", "tables", (*_COMPLEX, "sinusoidal_pos", "emb"), or_else=_PAIR),
    Role("cos_sin", "tables", (*_PAIR, "sin_cos", "sincos"), or_else=_COMPLEX),
    Role(
        "positions",
        "place",
        (
            *("positions", "position_ids", "pos_ids", "input_pos", "token_positions"),
            *("p", "ids", "idx", "indices", "img_ids", "txt_ids", "coords", "coordinates"),
            *("q_positions", "q_pos", "query_positions", "q_position_ids", "query_position_ids"),
            "relative_pos",  # transformers' DeBERTa
            *_POSITION,
        ),
    ),
    Role(
        "k_positions",
        "number",
        ("k_positions", "k_pos", "key_positions", "k_position_ids", "key_position_ids"),
        says="the positions of k",
    ),
    Role("t", "place", ("t", "pos_t", "t_ids")),
    Role("h", "place", ("h", "pos_h", "h_ids")),
    Role("w", "place", ("w", "pos_w", "w_ids")),
    Role(
        "grid",
        "place",
        ("grid_thw", "image_grid_thw", "video_grid_thw", "grid_hw", "grid_sizes"),
        says="the sizes of the grid",
    ),
    Role(
        "offset",
        "place",
        (
            *("offset", "start_pos", "start", "start_index", "seqlen_offset", "seqlen_offsets"),
            *("position_offset", "seq_offset", "input_offset", "cur_pos", "cache_len"),
            "cache_seqlens",
            *("cache_length", "past_kv_len", "past_len", "past_length", "past_seen_tokens"),
            "past_key_values_length",
        ),
        or_else=_POSITION,
        says="the first position",
    ),
    Role(
        "length",
        "number",
        (
            *("seq_len", "seqlen", "length", "end", "max_len", "max_seq_len", "max_seq_length"),
            *("max_position_embeddings", "context_length", "num_pos", "num_positions", "max_pos"),
            *("sequence_length", "seq_length"),  # transformers' MPT and Bloom
        ),
        says="how many positions there are",
    ),
    Role("inv_freq", "number", ("inv_freq", "inv_freqs", "inverse_frequencies")),
    Role(
        "dim",
        "number",
        (
            *("dim", "dims", "head_dim", "rotary_dim", "d_head", "dim_head", "head_size"),
            *("n_elem", "kv_channels", "dim_model", "rope_dim", "rotary_ndims"),
            *("embedding_size", "embedding_dims", "n_dims"),  # Equinox, MaxText, llama.cpp
            "d_k",  # CS336
        ),
        says="the rotary dimensions",
    ),
    Role(
        "share",
        "number",
        ("rotary_pct", "rotary_percent", "partial_rotary_factor", "rope_percentage"),
        says="the rotated share of the head",
    ),
    Role(
        "base",
        "number",
        (
            "base",
            "theta",
            "rope_theta",
            "rope_base",
            "theta_base",
            "rotary_base",
            "base_frequency",
            "max_wavelength",
            "max_timescale",
            "freq_base",
        ),
        says="the reference's base",
    ),
    Role(
        "factor",
        "number",
        (
            *("factor", "scaling_factor", "condense_ratio", "freq_scale"),
            *("scale_factor", "seq_len_interpolation_factor"),  # Gemma, Megatron
            *("interpolation_factor", "linear_factor"),  # x-transformers, diffusers
        ),
        says="the reference's factor",
    ),
    Role(
        "setting",
        "number",
        (
            *("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"),
            *("original_max_position_embeddings", "old_context_len"),  # torchtune
            "min_timescale",  # MaxText
        ),
        says="the reference's value",
    ),
    Role(
        "heads",
        "number",
        ("num_heads", "n_heads", "heads", "nheads", "n_head"),
        says="the number of heads",
        varied=(None,),
    ),
    Role(
        "key_heads",
        "number",
        ("num_kv_heads", "num_key_value_heads", "n_kv_heads"),
        says="the number of heads of k",
        varied=(None,),
    ),
    Role(
        "style",
        "number",
        ("is_neox_style", "is_neox", "interleaved", "rotary_interleaved", "traditional"),
        says="the layout of the reference",
    ),
    Role(
        "sections",
        "number",
        ("mrope_section", "mrope_sections"),
        says="the pairs that follow each axis",
    ),
    Role("axis", "bystander", ("unsqueeze_dim",), says="the axis of heads", varied=(1, 2)),
    Role("scale", "number", ("scale",), says="1", varied=(2.0, 0.5), response="other"),
    Role(
        "inverse",
        "number",
        ("inverse", "conjugate", "conj"),
        says="false",
        varied=(True,),
        response="inverse",
    ),
    Role("downscale", "number", ("downscale",), says="whether the reference is that of keys"),
    Role(
        "mask",
        "bystander",
        ("mask", "attention_mask", "attn_mask"),
        says="true for each row",
        varied=(None, PADDED, LEFT_PADDED, ADDED),
    ),
    Role(
        "layer",
        "bystander",
        ("layer_idx", "layer_id", "layer", "layer_number"),
        says="0",
        varied=(*range(1, 13), 24, 31, 47, 63),
    ),
    Role(
        "cache",
        "bystander",
        ("past_key_value", "past_key_values", "kv_cache", "layer_past"),
        says="None",
        types=("Cache",),
    ),
    Role("layer_type", "bystander", ("layer_type",), says="that of the chosen layers"),
    Role("config", "bystander", ("config", "cfg"), says="that of --config", types=("Config",)),
    Role(
        "dtype",
        "bystander",
        ("dtype", "torch_dtype"),
        says="float32",
        types=("dtype",),
        varied=(None, HALF),
        irrelevant=True,
    ),
    Role(
        "device",
        "bystander",
        ("device",),
        says="the CPU",
        types=("device", "Device"),
        varied=(None,),
        irrelevant=True,
    ),
)
"""All roles. Of two roles that fit, the first is likelier."""

ALONG = ("t", "h", "w")
"""Roles of coordinates along one axis; the last is that of the reference's last axis."""


def _names_of_kind(*kinds: Kind) -> tuple[str, ...]:
    return tuple(role.name for role in ROLES if role.kind in kinds)


TABLES = _names_of_kind("tables")
"""Roles of tables; posenc gives those of the reference."""

LOCATING = _names_of_kind("place", "tables")
"""Roles that determine the positions of rows."""

VECTORS = _names_of_kind("vectors")
"""Roles of vectors that a function rotates; "qkv" is one array of all three."""

NAMES = {role.name: role.names for role in ROLES}
"""Names of parameters, by role."""

SETTINGS: dict[str, dict[str, str]] = {
    "factor": {},
    "setting": {
        **{name: name for name in NAMES["setting"]},
        "old_context_len": "original_max_position_embeddings",
    },
}
"""Parameters of the reference that give the value of these roles, by the name of a parameter; for
other names, its factor."""

NUMBERS = {role.name: role.says for role in ROLES if role.says}
"""Descriptions of values for the report, except of vectors, positions and tables."""

BYSTANDERS = frozenset(_names_of_kind("bystander"))
"""Roles that do not affect a rotation; given only to parameters without a default."""

VARIED = {role.name: role for role in ROLES if role.varied}
"""Roles whose parameters are given other values, one at a time."""

VARYING = frozenset(name for name in LOCATING if name != "grid") | {
    *VECTORS,
    "v",
    "heads",
    "key_heads",
}
"""Roles whose arguments differ from call to call anyway."""

IRRELEVANT = frozenset(role.name for role in ROLES if role.irrelevant)
"""Roles that affect only the number format or the device, not the values."""

CALL_ROLES = tuple(role.name for role in ROLES if role.kind != "bystander")
"""Roles that a caller may name for the arguments of a function."""

HEAD_SIZES = ("head_size", "head_dim", "dim_head", "d_head")
"""Parameters for the dimensions of a head, even if fewer are rotated."""

UNSUPPORTED = frozenset(
    (
        *("cu_seqlens", "block_tables", "slot_mapping", "seq_lens", "seqlens", "context_lens"),
        "pixel_values",
    )
)
"""Names of required parameters that posenc does not support."""

ROLES_BY_COUNT: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("x",), ("positions",), ("length",)),
    2: (
        ("x", "positions"),
        ("x", "freqs_cis"),
        ("x", "cos_sin"),
        ("x", "offset"),
        ("q", "k"),
        ("freqs_cis", "x"),
    ),
    3: (
        ("q", "k", "positions"),
        ("x", "cos", "sin"),
        ("q", "k", "freqs_cis"),
        ("q", "k", "cos_sin"),
        ("positions", "q", "k"),
        ("q", "k", "offset"),
    ),
    4: (("q", "k", "cos", "sin"), ("x", "cos", "sin", "positions")),
    5: (("q", "k", "cos", "sin", "positions"),),
}
"""Roles of parameters with unknown names, by their number; the most common use first."""


@lru_cache(maxsize=512)
def roles_of(name: str, annotation: str = "") -> tuple[str, ...]:
    """Return the roles that a parameter may have by its name, or else by its type.

    A name of several words has the role of "cos" or "sin" if only that is one of its words.

    >>> roles_of("position"), roles_of("kind", "torch.dtype | None"), roles_of("a", "NDArray")
    (('positions', 'offset'), ('dtype',), ())
    """
    name = name.lower().strip("_")
    if named := [role.name for role in ROLES if name in role.names]:
        return (*named, *(role.name for role in ROLES if name in role.or_else))
    tables = {"cos", "sin"} & {*name.split("_")}
    match = re.fullmatch(_TYPE, annotation)
    typed = (role.name for role in ROLES if role.types and match and match[1].endswith(role.types))
    return tuple(tables) if len(tables) == 1 else tuple(typed)


_TYPE = r"(?:typing\.)?(?:Optional\[)?([\w.]+)\]?(?: *\| *None)?"
"""An annotation of one type, perhaps optional."""
