"""How vLLM departs from transformers 5, today's and 0.11."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import first
from posenc_cli.configs.runtime_rules import (
    DEEPSEEK,
    DYNAMIC,
    HUB,
    LLAMA_LIKE,
    LONGROPE,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    always_truncated,
    any_share,
    magnitude,
    magnitude_ratio,
    mscales,
    nested_truncate,
    no_beta_of_zero,
    of_types,
    refused,
)

if TYPE_CHECKING:
    from posenc_cli.configs.runtime_rules import Changes, LayerReading

NAME = "vllm"
_OLD = "vllm-0.11"


def vllm_deepseek(reading: LayerReading) -> Changes:
    """VLLM's DeepSeek: g(mscale)/g(mscale_all_dim), 1 and 0 by default."""
    return {**magnitude_ratio(reading, NAME), **always_truncated(reading)}


def vllm_gpt_oss(_reading: LayerReading) -> Changes:
    """VLLM's gpt-oss hands on neither attention_factor nor mscale."""
    return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}


def vllm_longrope(reading: LayerReading) -> Changes:
    """VLLM chooses the factors once, and takes s from the two contexts."""
    stated = reading.top.count(ORIGINAL)
    if stated is None and reading.top.has(ORIGINAL):
        raise refused(NAME, f"it fails where {ORIGINAL} is null")
    allocated = stated.value if stated else reading.length
    multiplier = reading.entry.number(
        "long_mscale" if allocated > reading.original else "short_mscale"
    )
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": multiplier.value if multiplier else None,
        "seq_len": allocated,
    }


def vllm_dynamic(reading: LayerReading) -> Changes:
    """VLLM stretches by the context over ``max_trained_positions``."""
    trained = reading.entry.count("max_trained_positions")
    if trained is None:
        return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
    return {"max_position_embeddings": trained.value, "seq_len": reading.length}


def vllm_proportional(_reading: LayerReading) -> Changes:
    """VLLM divides proportional frequencies by nothing."""
    return {"factor": None}


def vllm11_container(reading: LayerReading) -> Changes:
    """VLLM 0.11 knows ``rope_theta`` and ``rope_scaling`` alone."""
    if reading.container == "rope_parameters":
        raise refused(_OLD, "rope_parameters is a key it does not know")
    return {}


def vllm11_yarn(reading: LayerReading) -> Changes:
    """VLLM 0.11 reads ``attn_factor``, and mscale in DeepSeek alone."""
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise refused(_OLD, "extrapolation_factor has no counterpart in rope-yarn")
    # gpt-oss hands it on to none.
    hands_on = reading.model_type != "gpt_oss"
    stated = reading.entry.number("attn_factor") if hands_on else None
    own = float(stated.value) if stated else 1.0
    original = reading.entry.count(ORIGINAL)
    if reading.model_type in ("llama", "mistral"):
        original = first(reading.top.count(ORIGINAL), original)
    if original is None:
        raise refused(_OLD, f"it fails where {ORIGINAL} is missing")
    changes: dict[str, Any] = {
        ORIGINAL: original.value,
        **always_truncated(reading),
        "mscale": None,
        "mscale_all_dim": None,
    }
    if reading.model_type in DEEPSEEK:
        scales = mscales(reading, _OLD)
        amplitude = magnitude(reading.factor, scales[0]) / magnitude(reading.factor, scales[1])
        if own == 1 and all(scales):
            kept = {name: reading.params.get(name) for name in ("mscale", "mscale_all_dim")}
            return {**changes, **kept, "attention_factor": None}
        return {**changes, "attention_factor": amplitude * own}
    amplitude = magnitude(reading.factor, 1) * own
    return {**changes, "attention_factor": None if own == 1 else amplitude}


def vllm11_dynamic(reading: LayerReading) -> Changes:
    """VLLM 0.11 stretches once, for L · s positions."""
    return {"seq_len": int(reading.length * reading.factor)}


_VLLM = f"{HUB}/vllm-project/vllm/blob/v0.33.0/vllm/model_executor"
_VLLM_11 = f"{HUB}/vllm-project/vllm/blob/v0.11.0/vllm/model_executor"
_ROTARY = "layers/rotary_embedding"

RUNTIMES = (
    Runtime(
        NAME,
        "0.33.0",
        {
            **of_types(SCALED, *LLAMA_LIKE, "mixtral", "gemma2", "gemma3_text", "cohere"),
            **of_types(SCALED, "ministral3", "stablelm", "falcon"),
            **of_types(SCALED | {"rope-longrope"}, "phi3", "phimoe"),
            **of_types(PLAIN_ROPE | {"rope-yarn"}, *DEEPSEEK),
            **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
            **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
            **of_types(SCALED | {"nope"}, "llama4_text"),
            # Their modules are transformers' own here, but for those that follow the length.
            **of_types(SCALED - {"rope-dynamic"}, "gpt_neox", "olmo2", "olmo3", "phi"),
            **of_types(SCALED - {"rope-dynamic"} | {"nope"}, "smollm3"),
        },
    ),
    Runtime(
        _OLD,
        "0.11.0",
        {
            **of_types(SCALED, *LLAMA_LIKE, "gemma3_text"),
            **of_types(PLAIN_ROPE | {"rope-yarn"}, *DEEPSEEK),
            **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
        },
    ),
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow as they stand",
        f"{_VLLM}/{_ROTARY}/common.py",
        partial(no_beta_of_zero, runtime=NAME),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        frozenset({"rope"}),
        "turns only the share partial_rotary_factor states, for every model",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        partial(any_share, runtime=NAME),
        frozenset(LLAMA_LIKE),
    ),
    RuntimeDifference(
        NAME,
        "truncate",
        YARN,
        "honours truncate of nested rope_parameters too",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        nested_truncate,
        frozenset({*LLAMA_LIKE, "gemma3_text"}),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "amplitude is g(mscale)/g(mscale_all_dim) with defaults 1 and 0; always truncates",
        f"{_VLLM}/{_ROTARY}/deepseek_scaling_rope.py",
        vllm_deepseek,
        DEEPSEEK,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "hands neither attention_factor nor mscale on",
        f"{_VLLM}/models/gpt_oss.py",
        vllm_gpt_oss,
        frozenset({"gpt_oss"}),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses once, by max_model_len (here seq_len; by default the original length where the "
        "top level states it); ignores factor and attention_factor",
        f"{_VLLM}/{_ROTARY}/phi3_long_rope_scaled_rope.py",
        vllm_longrope,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "stretches by the context over max_trained_positions, which is 1 without that key",
        f"{_VLLM}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        vllm_dynamic,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        frozenset({"rope-proportional"}),
        "ignores factor",
        f"{_VLLM}/{_ROTARY}/gemma4_rope.py",
        vllm_proportional,
    ),
    RuntimeDifference(
        _OLD,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow as they stand",
        f"{_VLLM_11}/{_ROTARY}/common.py",
        partial(no_beta_of_zero, runtime=_OLD),
    ),
    RuntimeDifference(
        _OLD,
        "container",
        SCALED,
        "reads rope_theta and rope_scaling only",
        f"{_VLLM_11}/models/llama.py",
        vllm11_container,
    ),
    RuntimeDifference(
        _OLD,
        "attention factor",
        YARN,
        "reads attn_factor in place of attention_factor (gpt-oss neither), mscale in DeepSeek "
        "alone, and always truncates",
        f"{_VLLM_11}/{_ROTARY}/yarn_scaling_rope.py",
        vllm11_yarn,
    ),
    RuntimeDifference(
        _OLD,
        "dynamic length",
        DYNAMIC,
        "stretches once, for max_position_embeddings · factor positions",
        f"{_VLLM_11}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        vllm11_dynamic,
    ),
)
"""Its known differences, in the order in which they are applied."""
