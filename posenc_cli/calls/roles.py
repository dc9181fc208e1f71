"""Roles: what a parameter of a user's function means, one row for each.

A function with new names is called once these stand in the row of their role. A role that is new
is a row, and what :mod:`posenc_cli.calls.payloads` gives it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["vectors", "place", "tables", "number", "bystander"]
    """What is given: vectors to rotate, what says where rows are, tables, what else a rotation
    follows, or something that has no part in it."""

CALL_AXES = ("bhnd", "bnhd", "hnd", "nhd", "nd", "nbhd", "bnf")
"""Orders of the axes of vectors: b sequences, h heads, n rows, d columns of a head, f of all heads
side by side."""


PADDED, LEFT_PADDED = "false for the last row", "false for the first row"
"""The masks of a sequence that ends, and of one that begins, with padding."""

ADDED = "(batch, 1, rows, rows), to add to scores, that hides the first row"
"""The same as models give it to attention: 0, and the lowest number for padding."""

HALF = "in half precision"
"""The number format that a framework has for it."""


class Role(Record):
    """A role.

    ``names`` are the parameters, in lower case, that have it, ``or_else`` those that have another
    and may have it; ``types`` end the names of the types that tell it by an annotation. ``says`` is
    what the report says of a number. A bystander is given only to a parameter without a default in
    the form itself. Further calls give a parameter each value ``varied`` by itself, None for that
    of its role: the result stays the ``same``, becomes an ``other``, or the ``inverse``. One that
    is ``irrelevant`` to values is not said to be untested.
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
    ),
    Role("q", "vectors", ("q", "xq", "query", "queries", "query_states", "query_layer")),
    Role("k", "vectors", ("k", "xk", "key", "keys", "key_states", "key_layer")),
    Role("qkv", "vectors", ("qkv", "mixed_qkv", "qkv_states", "query_key_value")),
    Role("v", "number", ("v", "xv", "value", "values", "value_states", "value_layer")),
    Role(
        "cos",
        "tables",
        (*("cos", "cosine", "cosines", "cos_cached", "freqs_cos", "cos_table", "cos_cache"),),
    ),
    Role(
        "sin",
        "tables",
        ("sin", "sine", "sines", "sin_cached", "freqs_sin", "sin_table", "sin_cache"),
    ),
    Role("freqs_cis", "tables", (*_COMPLEX, "sinusoidal_pos"), or_else=_PAIR),
    Role("cos_sin", "tables", (*_PAIR, "sin_cos", "sincos"), or_else=_COMPLEX),
    Role(
        "positions",
        "place",
        (
            *("positions", "position_ids", "pos_ids", "input_pos", "token_positions"),
            *("p", "ids", "idx", "indices", "img_ids", "txt_ids", "coords", "coordinates"),
            *("q_positions", "q_pos", "query_positions", "q_position_ids", "query_position_ids"),
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
        ("grid_thw", "image_grid_thw", "video_grid_thw", "grid_hw"),
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
            *("max_position_embeddings", "context_length", "num_pos", "num_positions"),
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
            *("embedding_size", "embedding_dims"),  # Equinox, MaxText
        ),
        says="the rotary dimensions",
    ),
    Role(
        "base",
        "number",
        (
            "base",
            "theta",
            "rope_theta",
            "rope_base",
            "rotary_base",
            "base_frequency",
            "max_wavelength",
        ),
        says="the reference's base",
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
        ("is_neox_style", "is_neox", "interleaved", "traditional"),
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
    Role("config", "bystander", ("config",), says="that of --config", types=("Config",)),
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
"""The roles, the likelier of two first."""

ALONG = ("t", "h", "w")
"""Coordinates along one axis of several, of which the last is the last of the reference's."""


def _of_kind(*kinds: Kind) -> tuple[str, ...]:
    return tuple(role.name for role in ROLES if role.kind in kinds)


TABLES = _of_kind("tables")
"""The encoding itself: posenc gives the reference's."""

LOCATING = _of_kind("place", "tables")
"""What tells a function where rows are."""

VECTORS = _of_kind("vectors")
"""Vectors that a function rotates; q, k and v stand beside each other in the last."""

NUMBERS = {role.name: role.says for role in ROLES if role.says}
"""What the report says of what a function is given, but for vectors, positions and tables."""

BYSTANDERS = frozenset(_of_kind("bystander"))
"""What has no part in a rotation, and is given to parameters without a default."""

VARIED = {role.name: role for role in ROLES if role.varied}
"""The roles whose parameters are given other values, each by itself."""

VARYING = frozenset(name for name in LOCATING if name != "grid") | {
    *VECTORS,
    "v",
    "heads",
    "key_heads",
}
"""Roles whose arguments are others from call to call by themselves."""

IRRELEVANT = frozenset(role.name for role in ROLES if role.irrelevant)
"""Roles that have no part in values, only in their format and place."""

CALL_ROLES = tuple(role.name for role in ROLES if role.kind != "bystander")
"""What arguments of a function may be for, as a caller names them."""

_ROLES_OF: dict[str, tuple[str, ...]] = {}
for _role in ROLES:
    for _name in _role.names:
        _others = (role.name for role in ROLES if _name in role.or_else)
        _ROLES_OF[_name] = (_role.name, *_others)

HEAD_SIZES = ("head_size", "head_dim", "dim_head", "d_head")
"""Parameters that are the dimensions of a head, also where fewer are rotated."""

UNMET = frozenset(
    (
        *("cu_seqlens", "block_tables", "slot_mapping", "seq_lens", "seqlens", "context_lens"),
        "pixel_values",
    )
)
"""Names of parameters that are for something else, whatever their number."""

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
"""What parameters whose names say nothing are for, the commonest use of their number first."""


def roles_of(name: str, annotation: str = "") -> tuple[str, ...]:
    """What a parameter may be for, by its name, else by its type; nothing where neither says.

    >>> roles_of("position"), roles_of("kind", "torch.dtype | None"), roles_of("a", "NDArray")
    (('positions', 'offset'), ('dtype',), ())
    """
    own = _TYPE.fullmatch(annotation)
    by_type = (role.name for role in ROLES if role.types and own and own[1].endswith(role.types))
    return _ROLES_OF.get(name.lower().strip("_")) or tuple(by_type)


_TYPE = re.compile(r"(?:typing\.)?(?:Optional\[)?([\w.]+)\]?(?: *\| *None)?")
"""An annotation that names one type, which may be optional."""
