"""What llama.cpp's converter and graphs make of single models, and of the keys that all share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.engines.runtime_rules import (
    ORIGINAL,
    check_share,
    lacking,
    not_read,
    other_layers,
    plain,
    refused,
    refusing,
)
from posenc_cli.configs.keys import first

if TYPE_CHECKING:
    from posenc_cli.configs.engines.runtime_rules import Changes, LayerReading

NAME = "llama.cpp"
BASE = 10_000.0
"""The base that the loader takes where a file has none."""
_ROPE_OBJECTS = ("rope_parameters", "rope_scaling")
_ORIGINALS = {"phi3": 4096}
"""The original length that transformers 4.57.6 gives its converter where a config has none."""
_LLAMA3 = 8192
"""The one that the converter itself takes for the rule of Llama 3."""
_SIZES_OF_NEMOTRON = (6144, 48)
"""The width and the heads that its config class has where a file does not say them."""
_LAYERS_OF_EXAONE4, _WINDOWED_EXAONE4 = 32, 64
"""The layers of an EXAONE 4 whose file does not say them, and of the one whose layers slide."""


def _is_null(reading: LayerReading) -> bool:
    """Whether a file has a rope_scaling beside rope_parameters of nothing."""
    stated = reading.config
    return bool(
        "rope_parameters" in stated and not stated["rope_parameters"] and stated.get("rope_scaling")
    )


def llama_cpp_null(reading: LayerReading) -> Changes:
    """The converter takes ``rope_parameters`` that are there, null too, before ``rope_scaling``."""
    if not _is_null(reading):
        return {}
    if reading.entry.has("rope_theta"):
        raise not_read(NAME, "rope_theta of rope_scaling beside rope_parameters of null")
    return plain(reading)


def leaves_out(reading: LayerReading) -> bool:
    """Whether its converter leaves YaRN out: it does where the factor is null."""
    return reading.entry.has("factor") and reading.rope["factor"] is None


def llama_cpp_original(reading: LayerReading) -> Changes:
    """llama.cpp's converter: the original length in the rope object, then the one beside it."""
    if reading.scheme == "rope-yarn" and leaves_out(reading):
        return {}
    own = reading.entry.count(ORIGINAL)
    if own is None and reading.entry.has(ORIGINAL):
        raise refused(NAME, f"its converter fails where {ORIGINAL} is null")
    objects = reading.config.get(reading.container or "rope_scaling") or {}
    by_type = any(f"{kind}_attention" in objects for kind in ("full", "sliding"))
    stated = first(own, None if by_type else reading.top.count(ORIGINAL))
    default = _ORIGINALS.get(reading.model_type)
    if reading.scheme == "rope-llama3":
        default = _LLAMA3
    length = stated.value if stated else default
    if length is None:
        raise refused(NAME, f"its converter fails where {ORIGINAL} is missing")
    return {ORIGINAL: length} if ORIGINAL in reading.params else {}


def llama_cpp_cohere(reading: LayerReading) -> Changes:
    """Cohere's class writes the base alone, which transformers 4.57 takes for 10,000 by default."""
    _check_yarn_length(reading)
    stated = first(
        reading.top.number("rope_theta"),
        reading.entry.number("rope_theta") if reading.container == "rope_parameters" else None,
    )
    base = {} if stated or not reading.config else {"base": BASE}
    return base if reading.scheme == "rope" else {**plain(reading), **base}


def llama_cpp_cohere2(reading: LayerReading) -> Changes:
    """Cohere 2's class writes the share of ``rotary_pct``, a window, and no scaling.

    Raises: InvalidInput.
    """
    top = reading.top
    if reading.config and top.number("rotary_pct") is None:
        raise refused(NAME, "its converter needs rotary_pct of cohere2 in the file")
    if top.has("sliding_window") and top.count("sliding_window") is None:
        raise refused(NAME, "its converter fails where sliding_window of cohere2 is null")
    _check_yarn_length(reading)
    if reading.scheme == "nope":
        return {}
    stated, dim = top.number("rotary_pct"), reading.params["dim"]
    hidden, heads = top.count("hidden_size"), top.count("num_attention_heads")
    columns = hidden.value // heads.value if hidden and heads else dim
    share = _columns_share(int(columns * stated.value), dim) if stated else {}
    return share if reading.scheme == "rope" else {**plain(reading), **share}


def llama_cpp_nemotron(reading: LayerReading) -> Changes:
    """Nemotron's class takes any factor for a linear one, and the share of the whole width.

    Raises: InvalidInput.
    """
    _check_yarn_length(reading)
    top, dim = reading.top, reading.params["dim"]
    hidden, heads = (
        stated.value if stated else default
        for stated, default in zip(
            (top.count("hidden_size"), top.count("num_attention_heads")),
            _SIZES_OF_NEMOTRON,
            strict=True,
        )
    )
    columns = int(reading.params.get("partial", 1.0) * hidden) // heads
    share = _columns_share(columns, dim) if reading.config else {}
    nested = None if _is_null(reading) else reading.entry.number("factor")
    factor = first(top.number("factor"), nested)
    if factor is None:
        return share if reading.scheme == "rope" else {**plain(reading), **share}
    return {**plain(reading), **share, "scheme": "rope-linear", "factor": float(factor.value)}


def llama_cpp_minimax(reading: LayerReading) -> Changes:
    """MiniMax M2's class writes ``rotary_dim``, and a base where the file has one.

    Raises: InvalidInput.
    """
    top = reading.top
    columns = top.count("rotary_dim")
    if columns is None:
        if reading.config:
            raise refused(NAME, "its converter needs rotary_dim of minimax_m2 in the file")
        return {}
    share = _columns_share(columns.value, reading.params["dim"])
    return {**share, **base_without(reading, BASE)}


def _columns_share(columns: int, dim: int) -> Changes:
    """The share that columns are of a head.

    Raises: InvalidInput for those that ggml does not rotate.
    """
    if columns > dim:
        raise refused(
            NAME, f"its converter writes {columns} columns to rotate of the {dim} of a head"
        )
    check_share(NAME, "the share", columns / dim, dim)
    return {"partial": None if columns == dim else columns / dim}


def _check_yarn_length(reading: LayerReading) -> None:
    """Refuse a YaRN whose length the converter does not find, although nothing comes of it.

    Raises: InvalidInput.
    """
    if reading.scheme == "rope-yarn" and not _is_null(reading):
        llama_cpp_original(reading)


def llama_cpp_apertus(reading: LayerReading) -> Changes:
    """Apertus without a rope object, whose scaling the file says by a base, or undoes by null."""
    if not reading.config or any(reading.config.get(key) for key in _ROPE_OBJECTS):
        return {}
    stated = reading.top.number("rope_theta")
    base = {"base": float(stated.value)} if stated else {}
    null = any(key in reading.config for key in _ROPE_OBJECTS)
    return {**plain(reading), **base} if null else base


def _exaone4_layers(reading: LayerReading) -> int:
    stated = reading.top.count("num_hidden_layers")
    return stated.value if stated else _LAYERS_OF_EXAONE4


llama_cpp_exaone4 = refusing(
    NAME,
    (
        other_layers,
        lambda r: (
            _exaone4_layers(r) == _WINDOWED_EXAONE4
            and r.config.get("sliding_window", True) is None
            and "its graph leaves every fourth of 64 layers unrotated, whatever layer_types says"
        ),
    ),
    (
        other_layers,
        lambda r: (
            _exaone4_layers(r) != _WINDOWED_EXAONE4
            and r.scheme == "nope"
            and "its graph rotates every layer of an EXAONE 4 that has not 64 of them, whatever "
            "layer_types says"
        ),
    ),
)
"""An EXAONE 4 of 64 layers slides, and no other does."""


check_by_type = refusing(
    NAME,
    (
        not_read,
        lambda r: (
            {"rope_type", "type"} & {*(r.config.get("rope_parameters") or ())}
            and f"rope_parameters of {r.model_type} that are for all layers"
        ),
    ),
    (
        not_read,
        lambda r: (
            "type" in (stated := r.config.get("rope_scaling") or ())
            and "rope_type" not in stated
            and f"the type of {r.model_type}'s rope_scaling"
        ),
    ),
)
"""Rope objects of all layers that transformers 5 takes otherwise, or leaves unread."""


def base_without(reading: LayerReading, base: float) -> Changes:
    """The base of a file that states none."""
    found = first(reading.top.number("rope_theta"), reading.entry.number("rope_theta"))
    return {} if found or not reading.config else {"base": base}


check_gemma4 = refusing(
    NAME,
    (
        not_read,
        lambda r: (
            (kinds := r.config.get("layer_types"))
            and kinds[-1] != "full_attention"
            and "a Gemma 4 whose last layer slides"
        ),
    ),
    (
        refused,
        lambda r: (
            r.config
            and ((r.config.get("rope_parameters") or {}).get("full_attention") or {}).get(
                "rope_type"
            )
            != "proportional"
            and "its converter fails on a Gemma 4 whose full layers are not stated proportional"
        ),
    ),
)


def llama_cpp_olmo3(reading: LayerReading) -> Changes:
    """OLMo 3's layers share the base of the top level, or of the full ones.

    Raises: InvalidInput.
    """
    stated = reading.top.number("rope_theta")
    if reading.container == "rope_parameters":
        parts = reading.top.section("rope_parameters")
        full, sliding = (
            parts.section(f"{kind}_attention") if parts else None for kind in ("full", "sliding")
        )
        kind = sliding.text("rope_type") if sliding else None
        if kind is not None and kind.value != "default":
            raise not_read(NAME, "scaled sliding layers of olmo3")
        stated = full.number("rope_theta") if full else None
    if not reading.config:
        return {}
    return {"base": float(stated.value) if stated else BASE}


def _lacks(reading: LayerReading) -> str | None:
    """The words for a Ministral 3 that lacks a key, of the model or of its rope object."""
    objects = any(reading.config.get(key) for key in _ROPE_OBJECTS)
    stated = {**reading.config, **(reading.rope if objects else {})}
    needed = ("mscale_all_dim", "llama_4_scaling_beta", "rope_theta") if reading.config else ()
    key = next((key for key in needed if stated.get(key) is None), None)
    return key and f"its converter needs {key} of ministral3 in the file"


llama_cpp_ministral = refusing(
    NAME,
    (
        refused,
        lambda r: (
            r.scheme != "rope-yarn" and "its converter takes ministral3 with rope_type yarn alone"
        ),
    ),
    (refused, _lacks),
)
"""llama.cpp's converter wants the file itself to say that Ministral 3 is scaled, and how."""


_MIMO_SIZES = ("head_dim", "num_attention_heads", "v_head_dim")
_MIMO_NEEDED = ("hybrid_layer_pattern", "swa_head_dim", "head_dim", "partial_rotary_factor")
check_mimo = refusing(
    NAME,
    (
        refused,
        lambda r: (
            r.config.get("rope_parameters")
            and "its converter fails on a MiMo whose rope_parameters hold an object for each layer "
            "type"
        ),
    ),
    (
        refused,
        lambda r: (
            (key := lacking(r, *_MIMO_NEEDED))
            and f"its converter needs {key} of mimo_v2_flash in the file"
        ),
    ),
    *(
        (
            refused,
            lambda r, key=key: (
                r.config.get(f"swa_{key}") not in (None, r.config.get(key))
                and f"its converter fails where swa_{key} is not {key}"
            ),
        )
        for key in _MIMO_SIZES
    ),
)
"""What its converter asserts of a MiMo V2 Flash."""
