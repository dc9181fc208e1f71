"""How Megatron-Bridge departs from transformers 5 when it makes a Megatron-Core model of a config.

It takes config objects of transformers 5.8 to 5.12. Llama's bridge knows linear and llama3, those
of the Qwens know YaRN alone, and each drops any other rule without a word. YaRN is Megatron-Core's,
with the settings that the rope object states: betas have no default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    ORIGINAL,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    always,
    check_share,
    fails_on_null,
    not_read,
    of_types,
    original_length,
    other_class,
    plain,
    refused,
    refusing,
    yarn_amplitude,
    yarn_weight,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.engines.runtime_rules import Changes, LayerReading

NAME = "megatron-bridge"
CLASSES: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
"""The class whose bridge was read, by which it goes, of each model type."""
QWEN = frozenset(CLASSES) - {"llama"}
_SHARE = "partial_rotary_factor"


def _without_beta(reading: LayerReading) -> str | None:
    """The words for a YaRN whose rope object does not state its betas."""
    if reading.scheme != "rope-yarn" or not reading.rope:
        return None
    missing = [key for key in ("beta_fast", "beta_slow") if reading.rope.get(key) is None]
    return (
        f"it fails on yarn without {missing[0]}, for which it has no default" if missing else None
    )


megatron_fields = refusing(
    NAME,
    (not_read, lambda r: r.prefix and f"{r.model_type} as the text model of another"),
    (
        not_read,
        lambda r: (other := other_class(r, CLASSES)) and f"architectures {other} of {r.model_type}",
    ),
    (refused, _without_beta),
    (refused, lambda r: r.scheme == "rope-yarn" and fails_on_null(r, "factor", ORIGINAL)),
)
"""What was not read, and what Megatron-Core's YaRN fails on."""


def megatron_share(reading: LayerReading) -> Changes:
    """A share of the top level, in Qwens without YaRN, and whole heads elsewhere."""
    stated = reading.top.number(_SHARE)
    share = None if stated is None or reading.scheme == "rope-yarn" else float(stated.value)
    if share is None or share >= 1 or reading.model_type == "llama":
        return {"partial": None}
    check_share(NAME, _SHARE, share, reading.params["dim"])
    return {"partial": share}


def megatron_yarn(reading: LayerReading) -> Changes:
    """Whole pairs only where ``truncate`` is true; g(mscale)/g(mscale_all_dim), or g(1)."""
    weights = [yarn_weight(reading, name) for name in ("mscale", "mscale_all_dim")]
    weight, all_dim = (1.0, 0.0) if None in weights else weights
    return {
        **yarn_amplitude(reading, weight or 0.0, all_dim or 0.0),
        ORIGINAL: original_length(reading, NAME, "entry", "context"),
        "truncate": None if reading.rope.get("truncate") else False,
    }


_BRIDGE = (
    f"{HUB}/NVIDIA-NeMo/Megatron-Bridge/blob/067f987df03b8355b03192d88d70f1709fedf51a/"
    "src/megatron/bridge"
)
_CORE = (
    f"{HUB}/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/models/"
    "common/embeddings"
)

RUNTIME = Runtime(
    NAME, "at 067f987d", {**of_types(SCALED - YARN, "llama"), **of_types(SCALED, *QWEN)}
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        SCALED,
        "fails on yarn without beta_fast and beta_slow",
        f"{_CORE}/yarn_rotary_pos_embedding.py",
        megatron_fields,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates the share partial_rotary_factor of the top level in a Qwen without yarn, and "
        "whole heads elsewhere",
        f"{_BRIDGE}/models/conversion/model_bridge.py",
        megatron_share,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED - YARN - {"rope"},
        "builds a plain rotation: its bridge of Qwens knows no scaling but yarn",
        f"{_BRIDGE}/models/conversion/model_bridge.py",
        plain,
        QWEN,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        frozenset({"rope-dynamic"}),
        "builds a plain rotation: its bridge of Llama knows linear and llama3 alone",
        f"{_BRIDGE}/models/llama/llama_bridge.py",
        plain,
        frozenset({"llama"}),
    ),
    RuntimeDifference(
        NAME,
        "ramp",
        frozenset({"rope-llama3"}),
        "takes the factor of llama3 alone: 1 and 4 for its ends, and 8192 for the original length",
        f"{_CORE}/rotary_pos_embedding.py",
        always(low_freq_factor=1.0, high_freq_factor=4.0, **{ORIGINAL: 8192}),
    ),
    RuntimeDifference(
        NAME,
        "truncate",
        YARN,
        "truncates only where truncate is true; amplitude is g(mscale)/g(mscale_all_dim) where "
        "both are there, whatever attention_factor says; takes the original length of the rope "
        "object, else max_position_embeddings",
        f"{_CORE}/yarn_rotary_pos_embedding.py",
        megatron_yarn,
        QWEN,
    ),
)
"""Its known differences, in the order in which they are applied."""
