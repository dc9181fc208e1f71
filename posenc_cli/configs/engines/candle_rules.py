"""How candle departs from transformers 5: each model file deserializes the keys that it names.

A field that is no Option and has no default must be there, unknown keys are passed over, and
nothing is read of ``rope_parameters``. Llama alone knows scaling, that of Llama 3; every other
file rotates plainly, whatever ``rope_scaling`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    ORIGINAL,
    SCALED,
    Runtime,
    RuntimeDifference,
    check_share,
    lacking,
    not_read,
    of_types,
    plain,
    refused,
    refusing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.engines.runtime_rules import Changes, LayerReading

NAME = "candle"
HEADS: Mapping[str, str] = {
    **dict.fromkeys(("llama", "olmo", "olmo2", "qwen2", "qwen2_moe", "starcoder2"), "divided"),
    **dict.fromkeys(("gemma", "gemma2", "helium", "qwen3", "qwen3_moe"), "stated"),
    **dict.fromkeys(("glm4", "mistral"), "either"),
}
"""Where a model's file takes the columns of a head from, ``head_dim`` or the quotient."""
_SHARE = "partial_rotary_factor"
_BASE_OF_LLAMA = 10_000.0
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL, "rope_type")


def _missing(reading: LayerReading) -> str | None:
    """The first key that serde does not find, of the model or of Llama's scaling."""
    kind, scaling = reading.model_type, _scaling(reading)
    needed = ["rope_theta"] * (kind != "llama") + ["head_dim"] * (HEADS[kind] == "stated")
    inner = (key for key in _LLAMA3 if scaling is not None and scaling.get(key) is None)
    key = lacking(reading, *needed) or next(inner, None)
    return key and f"its {kind} fails on a file without {key}"


def _scaling(reading: LayerReading) -> Any:
    return reading.config.get("rope_scaling") if reading.model_type == "llama" else None


candle_fields = refusing(
    NAME,
    (not_read, lambda r: r.prefix and f"{r.model_type} as the text model of another"),
    (
        not_read,
        lambda r: (
            r.config.get("rope_scaling")
            and r.config.get("rope_parameters")
            and "rope_scaling beside rope_parameters"
        ),
    ),
    (refused, _missing),
    (
        refused,
        lambda r: r.config.get("rope_theta", 0) is None and "it fails where rope_theta is null",
    ),
    (
        refused,
        lambda r: (
            (scaling := _scaling(r)) is not None
            and scaling["rope_type"] not in ("llama3", "default")
            and "its llama knows the rope types llama3 and default alone"
        ),
    ),
)
"""What serde refuses."""


def candle_head(reading: LayerReading) -> Changes:
    """The columns of a head, and how many of them rotate."""
    kind, top = reading.model_type, reading.top
    hidden, heads, own = map(top.count, ("hidden_size", "num_attention_heads", "head_dim"))
    if not reading.config:
        return {}
    head = own.value if own and HEADS[kind] != "divided" else None
    if head is None and hidden and heads:
        head = hidden.value // heads.value
    head = int(head or reading.params["dim"])
    share = top.number(_SHARE) if kind == "glm4" else None
    if share is not None:
        check_share(NAME, _SHARE, float(share.value), head)
    return {"dim": head, "partial": float(share.value) if share else None}


def candle_base(reading: LayerReading) -> Changes:
    """The base of the top level, and no scaling but Llama 3's in Llama."""
    if not reading.config:
        return {}
    stated = reading.top.number("rope_theta")
    base = {"base": float(stated.value) if stated else _BASE_OF_LLAMA}
    scaling = reading.config.get("rope_scaling")
    if reading.scheme != "rope-llama3" or reading.model_type != "llama" or not scaling:
        return base if reading.scheme == "rope" else {**plain(reading), **base}
    original = reading.entry.count(ORIGINAL)
    return {**base, ORIGINAL: original.value if original else None}


_CANDLE = (
    f"{HUB}/huggingface/candle/blob/2a13b0f3ff62f7e67013597f2996f764c5735e21/"
    "candle-transformers/src/models"
)

RUNTIME = Runtime(
    NAME, "0.11.0", of_types(SCALED, *HEADS), {"glm4": "glm4_new", "qwen3_moe": "qwen3"}
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        SCALED,
        "fails without rope_theta but in Llama, and on scaling of a Llama other than llama3",
        f"{_CANDLE}/{{model}}.rs",
        candle_fields,
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED,
        "takes hidden_size / num_attention_heads, or head_dim alone, and rotates whole heads but "
        "where a GLM 4 has partial_rotary_factor at the top level",
        f"{_CANDLE}/{{model}}.rs",
        candle_head,
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        "reads rope_theta of the top level alone, 10000 in a Llama without it, and no scaling "
        "but llama3 in Llama",
        f"{_CANDLE}/{{model}}.rs",
        candle_base,
    ),
)
"""Its known differences, in the order in which they are applied."""
