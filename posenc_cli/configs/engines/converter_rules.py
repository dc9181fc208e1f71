"""Differences of onnxruntime-genai, Megatron-Bridge and candle from transformers 5.

onnxruntime-genai's model builder writes cos and sin tables into the graph, with a class for each
architecture. Most classes support plain rope, linear and YaRN, and fail on other types. Llama's
class supports Llama 3's rule, and reads all other types as plain rope.

Megatron-Bridge builds a Megatron-Core model from a config object of transformers 5.8 to 5.12.
Llama's bridge reads linear and llama3, the Qwen bridges only YaRN, and each silently drops all
other types. YaRN is Megatron-Core's, with the rope object's settings: betas have no default.

Each model file of candle deserializes the keys that it names. A field that is no Option and has no
default is required, unknown keys are ignored, and ``rope_parameters`` is not read. Only Llama reads
scaling, that of Llama 3; all others ignore ``rope_scaling``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    GPT_OSS_WITHOUT_YARN,
    HUB,
    LONGROPE,
    ORIGINAL,
    SCALED,
    SHARE,
    WITHIN_ANOTHER,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    amplitude_of_both,
    any_share,
    check_share,
    classes_not_read,
    dimensions_per_head,
    fails_on_null,
    for_keys,
    longrope_from_contexts,
    missing_key,
    not_read,
    of_types,
    original_length,
    other_class,
    plain,
    refused,
    stated,
    yarn_weight,
)

_BETAS = ("beta_fast", "beta_slow")
ONNX = "onnxruntime-genai"
LIKE_LLAMA = frozenset({"llama", "nemotron", "hunyuan_v1_dense"})
LIKE_MISTRAL = frozenset(
    {
        *("ernie4_5", "gemma", "gemma2", "granite", "lfm2", "lfm2_moe"),
        *("ministral3", "mistral", "olmo", "phi", "qwen2", "qwen3"),
    }
)
_ONNX_TYPES = {
    **dict.fromkeys(LIKE_LLAMA | LIKE_MISTRAL, SCALED),
    "hunyuan_v1_dense": SCALED | {"rope-ntk"},
    "gpt_oss": SCALED,
    "phi3": frozenset({"rope", "rope-longrope"}),
    "qwen2_5_vl_text": frozenset({"mrope"}),
    "qwen3_vl_text": frozenset({"mrope"}),
}
"""Models whose class was read, each with the schemes that were read."""

_ONNX_CLASSES = {
    "ernie4_5": "Ernie4_5ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    **{
        name: f"{name.title()}ForCausalLM"
        for name in (
            *("gemma", "gemma2", "granite", "lfm2", "llama", "mistral", "nemotron", "olmo"),
            *("phi", "phi3", "qwen2", "qwen3"),
        )
    },
}
"""The classes that choose the builder, for model types that are not inside another model."""
_ONNX_SCHEMES = {"rope", "rope-linear", "rope-yarn"}


def onnx_yarn(reading: LayerReading) -> Changes:
    """Return YaRN without truncation; mscale without mscale_all_dim is the amplitude itself."""
    weight, all_dim = (yarn_weight(reading, name) or 0.0 for name in ("mscale", "mscale_all_dim"))
    changes: dict[str, Any] = {"truncate": False, "mscale": None, "mscale_all_dim": None}
    if weight > 0 and all_dim > 0:
        return {**changes, "attention_factor": None, "mscale": weight, "mscale_all_dim": all_dim}
    return {**changes, "attention_factor": weight if weight > 0 else None}


def _ramp_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for a ramp (in pairs) that fails the class's assertion, or None."""
    import math

    params = reading.params
    half, base = params["dim"] / 2, params["base"]
    low, high = (
        half * math.log(reading.original / (rotations * 2 * math.pi)) / math.log(base)
        for rotations in (params.get("beta_fast", 32.0), params.get("beta_slow", 1.0))
    )
    if 0 < low < high < half - 1:
        return None
    return (
        f"it fails if its ramp, here from pair {low:.4g} to {high:.4g}, is not within pairs 0 and "
        f"{half - 1:g}"
    )


def _onnx_original(reading: LayerReading) -> int:
    return original_length(reading, ONNX, "top", _PHI3_ORIGINAL)


_PHI3_ORIGINAL = 4096
"""The default original length of transformers 5.23's Phi3Config."""


_ONNX_FILES = f"{HUB}/microsoft/onnxruntime-genai/blob/v0.18.0/src/python/py/models/builders"

ONNX_RUNTIME = Runtime(ONNX, "0.18.0", _ONNX_TYPES)


MEGATRON = "megatron-bridge"
_MEGATRON_CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
"""The classes whose bridge was read, by model type; they choose the bridge."""
_MEGATRON_QWEN = frozenset(_MEGATRON_CLASSES) - {"llama"}


def megatron_share(reading: LayerReading) -> Changes:
    """Return the top-level share for a Qwen without YaRN; all other models rotate whole heads."""
    share = stated(reading, SHARE, "top")
    plain_qwen = reading.model_type != "llama" and reading.scheme != "rope-yarn"
    if share is None or share >= 1 or not plain_qwen:
        return {"partial": None}
    check_share(MEGATRON, SHARE, share, reading.params["dim"])
    return {"partial": share}


def megatron_yarn(reading: LayerReading) -> Changes:
    """Return YaRN with amplitude g(mscale)/g(mscale_all_dim) or g(1).

    It truncates only if ``truncate`` is true.
    """
    return {
        **amplitude_of_both(reading),
        ORIGINAL: original_length(reading, MEGATRON, "entry", "context"),
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

MEGATRON_RUNTIME = Runtime(
    MEGATRON,
    "at 067f987d",
    {**of_types(SCALED - YARN, "llama"), **of_types(SCALED, *_MEGATRON_QWEN)},
)


CANDLE = "candle"
_CANDLE_HEADS = {
    **dict.fromkeys(("llama", "olmo", "olmo2", "qwen2", "qwen2_moe", "starcoder2"), "divided"),
    **dict.fromkeys(("gemma", "gemma2", "helium", "qwen3", "qwen3_moe"), "stated"),
    **dict.fromkeys(("glm4", "mistral"), "either"),
}
"""The source of the head size in a model's file: ``head_dim``, division, or either."""
_LLAMA_BASE = 10_000.0
_LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL, "rope_type")


def _candle_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for the first key, of model or scaling, that serde misses, or None."""
    kind, scaling = reading.model_type, _candle_scaling(reading)
    needed = [] if kind == "llama" else ["rope_theta"]
    if _CANDLE_HEADS[kind] == "stated":
        needed.append("head_dim")
    key = missing_key(reading, *needed)
    if key is None and scaling is not None:
        key = next((key for key in _LLAMA3_KEYS if scaling.get(key) is None), None)
    return key and f"its {kind} fails on a file without {key}"


def _candle_scaling(reading: LayerReading) -> Any:
    return reading.config.get("rope_scaling") if reading.model_type == "llama" else None


def candle_head(reading: LayerReading) -> Changes:
    """Return the head size and the share of it that rotates."""
    kind, own = reading.model_type, reading.top.count("head_dim")
    if not reading.config:
        return {}
    head = own.value if own and _CANDLE_HEADS[kind] != "divided" else None
    head = head or dimensions_per_head(reading) or reading.params["dim"]
    share = stated(reading, SHARE, "top") if kind == "glm4" else None
    if share is not None:
        check_share(CANDLE, SHARE, share, head)
    return {"dim": head, "partial": share}


def candle_base(reading: LayerReading) -> Changes:
    """Return the top-level base, without scaling except Llama 3's in Llama."""
    if not reading.config:
        return {}
    base = {"base": stated(reading, "rope_theta", "top") or _LLAMA_BASE}
    scaling = reading.config.get("rope_scaling")
    if reading.scheme != "rope-llama3" or reading.model_type != "llama" or not scaling:
        return base if reading.scheme == "rope" else {**plain(reading), **base}
    original = reading.entry.count(ORIGINAL)
    return {**base, ORIGINAL: original.value if original else None}


_CANDLE_FILES = (
    f"{HUB}/huggingface/candle/blob/2a13b0f3ff62f7e67013597f2996f764c5735e21/"
    "candle-transformers/src/models"
)

CANDLE_RUNTIME = Runtime(
    CANDLE, "0.11.0", of_types(SCALED, *_CANDLE_HEADS), {"glm4": "glm4_new", "qwen3_moe": "qwen3"}
)

DIFFERENCES = (
    RuntimeDifference(
        ONNX,
        "fields",
        SCALED | LONGROPE | {"rope-ntk", "mrope"},
        "fails on rope types that the model's class lacks",
        f"{_ONNX_FILES}/base.py",
        always(),
        refusals=(
            *for_keys(
                not_read,
                "{}",
                ("rope_position_scale", "compression_ratio", "seq_length"),
                lambda key, r: r.config.get(key) not in (None, 1),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"architectures names {other_class(r, _ONNX_CLASSES)}, and its class of "
                    f"{r.model_type} is {_ONNX_CLASSES[r.model_type]}"
                ),
                when=lambda r: other_class(r, _ONNX_CLASSES),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its {r.model_type} supports only default, linear and yarn, not {r.scheme}"
                ),
                when=lambda r: r.model_type in LIKE_MISTRAL and r.scheme not in _ONNX_SCHEMES,
            ),
            GPT_OSS_WITHOUT_YARN,
            RuntimeRefusal(
                refused,
                "it supports ministral3 only inside mistral3 (text_config)",
                when=lambda r: r.model_type == "ministral3" and not r.prefix,
            ),
            RuntimeRefusal(
                refused,
                "its Hunyuan fails on dynamic without alpha",
                when=lambda r: r.scheme == "rope-dynamic" and r.model_type == "hunyuan_v1_dense",
            ),
        ),
    ),
    RuntimeDifference(
        ONNX,
        "scaling",
        SCALED - {"rope"},
        "ignores scaling, except for llama3 in Llama and Nemotron",
        f"{_ONNX_FILES}/llama.py",
        lambda r: (
            {} if r.scheme == "rope-llama3" and r.model_type != "hunyuan_v1_dense" else plain(r)
        ),
        LIKE_LLAMA,
    ),
    RuntimeDifference(
        ONNX,
        "partial rotation",
        frozenset({"rope", "rope-linear"}),
        "applies partial_rotary_factor to every model",
        f"{_ONNX_FILES}/base.py",
        partial(any_share, runtime=ONNX),
        LIKE_LLAMA | LIKE_MISTRAL,
    ),
    RuntimeDifference(
        ONNX,
        "attention factor",
        YARN,
        "never truncates, and ignores attention_factor. If the config has mscale and "
        "mscale_all_dim, it uses the amplitude g(mscale)/g(mscale_all_dim). If the config has "
        "only mscale, it uses mscale as the amplitude",
        f"{_ONNX_FILES}/base.py",
        onnx_yarn,
        LIKE_MISTRAL | {"gpt_oss"},
        refusals=(
            *for_keys(
                refused,
                "it fails on yarn without {}, which it reads as 0",
                _BETAS,
                lambda key, r: r.rope and not r.entry.number(key),
            ),
            RuntimeRefusal(
                not_read,
                "a share of the columns of gpt-oss",
                when=lambda r: r.model_type == "gpt_oss" and r.params.get("partial", 1.0) != 1,
            ),
            RuntimeRefusal(
                refused,
                "it fails on yarn where a share of the columns rotates",
                when=lambda r: r.params.get("partial", 1.0) != 1,
            ),
            RuntimeRefusal(refused, _ramp_refusal_text),
            RuntimeRefusal(refused, lambda r: fails_on_null(r, "mscale", "mscale_all_dim")),
        ),
    ),
    RuntimeDifference(
        ONNX,
        "choice of factors",
        LONGROPE | {"rope"},
        "reads the original length at the top level, and ignores factor and attention_factor",
        f"{_ONNX_FILES}/phi.py",
        lambda r: {
            **(
                {}
                if r.scheme == "rope"
                else longrope_from_contexts(r, **{ORIGINAL: _onnx_original(r)})
            ),
        },
        frozenset({"phi3"}),
        refusals=(
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its Phi-3 is scaled only if max_position_embeddings ({r.length}) is not "
                    f"{ORIGINAL} ({_onnx_original(r)}), and fails if the rope object says otherwise"
                ),
                when=lambda r: (r.length == _onnx_original(r)) != (r.scheme == "rope"),
            ),
            RuntimeRefusal(
                refused,
                "its Phi-3 fails if the rope object has rope_type without type",
                when=lambda r: r.scheme != "rope" and r.rope.get("type") is None,
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"type {r.rope['type']} in Phi-3",
                when=lambda r: r.scheme != "rope" and r.rope["type"] != "longrope",
            ),
            *for_keys(
                not_read,
                "{}",
                ("short_mscale", "long_mscale"),
                lambda key, r: r.scheme != "rope" and r.rope.get(key) is not None,
            ),
        ),
    ),
    RuntimeDifference(
        MEGATRON,
        "fields",
        SCALED,
        "fails on yarn without beta_fast and beta_slow",
        f"{_CORE}/yarn_rotary_pos_embedding.py",
        always(),
        refusals=(
            WITHIN_ANOTHER,
            classes_not_read(_MEGATRON_CLASSES),
            *for_keys(
                refused,
                "it fails on yarn without {}, for which it has no default",
                _BETAS,
                lambda key, r: r.scheme == "rope-yarn" and r.rope and r.rope.get(key) is None,
            ),
            RuntimeRefusal(
                refused,
                lambda r: fails_on_null(r, "factor", ORIGINAL),
                when=lambda r: r.scheme == "rope-yarn",
            ),
        ),
    ),
    RuntimeDifference(
        MEGATRON,
        "partial rotation",
        SCALED,
        "reads partial_rotary_factor only for Qwen models without yarn, and rotates whole heads "
        "of all other models",
        f"{_BRIDGE}/models/conversion/model_bridge.py",
        megatron_share,
    ),
    RuntimeDifference(
        MEGATRON,
        "scaling",
        SCALED - YARN - {"rope"},
        "ignores scaling, because its bridge for Qwen supports only yarn",
        f"{_BRIDGE}/models/conversion/model_bridge.py",
        plain,
        _MEGATRON_QWEN,
    ),
    RuntimeDifference(
        MEGATRON,
        "scaling",
        frozenset({"rope-dynamic"}),
        "ignores scaling, because its bridge for Llama supports only linear and llama3",
        f"{_BRIDGE}/models/llama/llama_bridge.py",
        plain,
        frozenset({"llama"}),
    ),
    RuntimeDifference(
        MEGATRON,
        "ramp",
        frozenset({"rope-llama3"}),
        "reads only the factor of llama3 scaling, and always uses low_freq_factor 1, "
        "high_freq_factor 4 and original length 8192",
        f"{_CORE}/rotary_pos_embedding.py",
        always(low_freq_factor=1.0, high_freq_factor=4.0, **{ORIGINAL: 8192}),
    ),
    RuntimeDifference(
        MEGATRON,
        "truncate",
        YARN,
        "truncates only if truncate is true, and ignores attention_factor if the config has "
        "mscale and mscale_all_dim. If the rope object has no original length, it uses "
        "max_position_embeddings",
        f"{_CORE}/yarn_rotary_pos_embedding.py",
        megatron_yarn,
        _MEGATRON_QWEN,
    ),
    RuntimeDifference(
        CANDLE,
        "fields",
        SCALED,
        "fails without rope_theta, except for Llama. For Llama, it fails on any scaling except "
        "llama3",
        f"{_CANDLE_FILES}/{{model}}.rs",
        always(),
        refusals=(
            WITHIN_ANOTHER,
            RuntimeRefusal(
                not_read,
                "rope_scaling beside rope_parameters",
                when=lambda r: r.config.get("rope_scaling") and r.config.get("rope_parameters"),
            ),
            RuntimeRefusal(refused, _candle_refusal_text),
            RuntimeRefusal(
                refused,
                "it fails if rope_theta is null",
                when=lambda r: r.config.get("rope_theta", 0) is None,
            ),
            RuntimeRefusal(
                refused,
                "its llama knows only the rope types llama3 and default",
                when=lambda r: (
                    _candle_scaling(r) is not None
                    and _candle_scaling(r)["rope_type"] not in ("llama3", "default")
                ),
            ),
        ),
    ),
    RuntimeDifference(
        CANDLE,
        "head size",
        SCALED,
        "rotates whole heads, except in GLM 4. In some models, the head size is hidden_size / "
        "num_attention_heads; in others, it is head_dim",
        f"{_CANDLE_FILES}/{{model}}.rs",
        candle_head,
    ),
    RuntimeDifference(
        CANDLE,
        "container",
        SCALED,
        "reads rope_theta only at the top level, and ignores scaling, except llama3 in Llama",
        f"{_CANDLE_FILES}/{{model}}.rs",
        candle_base,
    ),
)
"""The known differences of the three, in the order in which they apply."""
