"""What functions that turn queries and keys take, by the names and the number of their parameters.

The names of a function's parameters say what each is for; where they say nothing, their number
does. How it is called beyond that is its form (:mod:`call_forms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.records import Record

if TYPE_CHECKING:
    Role = str
    """What an argument is for.

    ``x``, ``q`` and ``k`` are vectors, ``v`` others that nothing turns. ``positions`` says where
    each row is, on several axes too, and ``t``, ``h`` and ``w`` on one of these; ``offset`` where
    the first is, ``length`` how many there are from position 0 on, and ``grid`` the sizes of what
    all of them fill.
    Tables are ``cos`` and ``sin``, ``freqs_cis`` (complex, or both beside each other) or
    ``cos_sin`` (a tuple, the sines first where the name has them first); beside longer ones
    positions and an offset choose of their rows. ``heads`` is how many a row has, ``key_heads`` how
    many one of k has.
    ``dim`` and ``base`` are the encoding's, ``inv_freq`` its frequencies, ``style`` is true for the
    reference's layout.
    """

_NAMES: dict[str, tuple[Role, ...]] = {
    **dict.fromkeys(("x", "t_in", "hidden_states", "inputs", "input", "tensor", "vectors"), ("x",)),
    **dict.fromkeys(("q", "xq", "query", "queries", "query_states", "query_layer"), ("q",)),
    **dict.fromkeys(("k", "xk", "key", "keys", "key_states", "key_layer"), ("k",)),
    **dict.fromkeys(("v", "xv", "value", "values", "value_states", "value_layer"), ("v",)),
    **dict.fromkeys(("cos", "cosine", "cosines", "cos_cached", "freqs_cos", "cos_table"), ("cos",)),
    **dict.fromkeys(("sin", "sine", "sines", "sin_cached", "freqs_sin", "sin_table"), ("sin",)),
    "cos_cache": ("cos",),
    "sin_cache": ("sin",),
    **dict.fromkeys(("freqs_cis", "freqs_complex", "cis", "freqs_ci"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(("cos_sin_cache", "cos_sin_table"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(("freqs", "rope_cache", "rope", "cache"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(("angles", "angle", "thetas", "phases"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(
        ("position_embeddings", "rotary_emb", "rotary_pos_emb", "pos_emb", "cos_sin"),
        ("cos_sin", "freqs_cis"),
    ),
    **dict.fromkeys(("positions", "position_ids", "pos_ids", "input_pos", "token_positions"),
                    ("positions",)),
    **dict.fromkeys(("p", "ids", "idx", "indices"), ("positions",)),
    **dict.fromkeys(("img_ids", "txt_ids", "coords", "coordinates"), ("positions",)),
    **dict.fromkeys(("t", "pos_t", "t_ids"), ("t",)),
    **dict.fromkeys(("h", "pos_h", "h_ids"), ("h",)),
    **dict.fromkeys(("w", "pos_w", "w_ids"), ("w",)),
    **dict.fromkeys(("grid_thw", "image_grid_thw", "video_grid_thw", "grid_hw"), ("grid",)),
    **dict.fromkeys(("pos", "position", "m", "cache_position"), ("positions", "offset")),
    **dict.fromkeys(("inv_freq", "inv_freqs", "inverse_frequencies"), ("inv_freq",)),
    **dict.fromkeys(("sin_cos", "sincos"), ("cos_sin",)),
    "sinusoidal_pos": ("freqs_cis",),
    **dict.fromkeys(("offset", "start_pos", "start", "seqlen_offset"), ("offset",)),
    **dict.fromkeys(("seqlen_offsets", "position_offset", "start_index"), ("offset",)),
    **dict.fromkeys(("seq_offset", "cache_len", "cache_length", "past_kv_len"), ("offset",)),
    **dict.fromkeys(("past_len", "past_length", "past_seen_tokens"), ("offset",)),
    **dict.fromkeys(("past_key_values_length", "cur_pos", "input_offset"), ("offset",)),
    **dict.fromkeys(("seq_len", "seqlen", "length", "end", "max_len", "max_seq_len"), ("length",)),
    **dict.fromkeys(("max_seq_length", "max_position_embeddings", "context_length"), ("length",)),
    **dict.fromkeys(("dim", "dims", "head_dim", "rotary_dim", "d_head", "dim_head"), ("dim",)),
    **dict.fromkeys(("head_size", "n_elem", "kv_channels"), ("dim",)),
    **dict.fromkeys(("num_heads", "n_heads", "heads", "nheads", "n_head"), ("heads",)),
    **dict.fromkeys(("num_kv_heads", "num_key_value_heads", "n_kv_heads"), ("key_heads",)),
    **dict.fromkeys(("base", "theta", "rope_theta", "rope_base"), ("base",)),
    **dict.fromkeys(("is_neox_style", "is_neox", "interleaved", "traditional"), ("style",)),
}  # fmt: skip
"""What parameters of these names are for, in lower case; the likelier of two first."""

HEAD_SIZES = ("head_size", "head_dim", "dim_head", "d_head")
"""Parameters that are the dimensions of a head, also where fewer are rotated."""

_UNMET = frozenset(
    (
        *("mrope_section", "mrope_sections", "mask", "attention_mask", "cu_seqlens", "config"),
        *("layer_idx", "layer_id", "block_tables", "slot_mapping", "kv_cache", "past_key_value"),
    )
)
"""Names of parameters that are for something else, whatever their number."""

ROLES_BY_COUNT: dict[int, tuple[tuple[Role, ...], ...]] = {
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


def roles_of(name: str) -> tuple[Role, ...]:
    """What a parameter may be for, by its name; nothing where that says nothing."""
    return _NAMES.get(name.lower().strip("_"), ())


class NamedParameter(Record):
    """A parameter of a function; ``default`` is its text, None where it has none."""

    name: str
    kind: str
    default: str | None

    @property
    def by_name(self) -> bool:
        """Whether it is given by name alone."""
        return self.kind == "KEYWORD_ONLY"

    @property
    def variable(self) -> bool:
        """Whether it stands for any number of arguments."""
        return self.kind.startswith("VAR_")

    def in_its_type(self, value: float) -> float:
        """A number as it takes it: whole ones as integers where its default is one."""
        whole = (self.default or "").isdecimal() and float(value).is_integer()
        return int(value) if whole and not isinstance(value, bool) else value

    @property
    def setting(self) -> str:
        """Its default where that is a number, true, false or nothing; else empty.

        Empty too of where and in which format arrays are.
        """
        text = "" if self.name in ("device", "dtype") else self.default or ""
        try:
            float({"True": "1", "False": "0", "None": "0"}.get(text, text))
        except ValueError:
            return ""
        return text

    @property
    def counts(self) -> bool:
        """Whether it is optional and a whole number, and may say where rows are."""
        name = self.name.lower().strip("_")
        named_axis = name.endswith(("dim", "axis"))
        if not (self.default or "").isdecimal() or named_axis or name in _UNMET:
            return False
        return not self.roles() or bool({*self.roles()} & {"positions", "offset"})

    @property
    def tells_heads(self) -> bool:
        """Whether it says how many heads, or of how many dimensions, stand side by side."""
        return bool({*self.roles()} & {"heads", "key_heads"}) or self.name in HEAD_SIZES

    def roles(self) -> tuple[Role, ...]:
        """What it may be for, by its name; nothing where that says nothing.

        One whose default is a flag says not where rows are, nor one of a single letter whose
        default is a fraction: a rate of dropout is often a ``p``.
        """
        found = roles_of(self.name)
        fraction = "." in self.setting and len(self.name.strip("_")) == 1
        if fraction or self.default in ("True", "False"):
            found = tuple(role for role in found if role not in ("positions", "offset"))
        return found


class Signature(Record):
    """What is known of a function before it is called; ``parameters`` None: nothing of them."""

    name: str
    is_class: bool
    parameters: tuple[NamedParameter, ...] | None
    libraries: tuple[str, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Signature:
        """The signature that the worker describes.

        Raises: KeyError or TypeError for what is no description.
        """
        parameters = answer["parameters"]
        return cls(
            str(answer["name"]),
            bool(answer["is_class"]),
            None
            if parameters is None
            else tuple(
                NamedParameter(str(given["name"]), str(given["kind"]), given["default"])
                for given in parameters
            ),
            tuple(answer["frameworks"]),
        )

    @property
    def named(self) -> bool:
        """Whether a parameter has a name, and so is not one of any number."""
        return any(not given.variable for given in self.parameters or ())

    @property
    def unmet(self) -> bool:
        """Whether a parameter without a default needs what posenc does not give."""
        return any(given.name.lower().strip("_") in _UNMET for given in self.required)

    @property
    def required(self) -> list[NamedParameter]:
        """The parameters without a default."""
        return [
            given for given in self.parameters or () if given.default is None and not given.variable
        ]

    @property
    def text(self) -> str:
        """The parameters as they are declared."""
        if self.parameters is None:
            return "…"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
        return ", ".join(
            f"{stars.get(given.kind, '')}{given.name}"
            + ("" if given.default is None else f"={given.default}")
            for given in self.parameters
        )
