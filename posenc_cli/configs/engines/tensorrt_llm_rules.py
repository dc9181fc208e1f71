"""Differences of TensorRT-LLM from transformers 5, in its PyTorch path.

It builds ``RopeParams`` from a config object of transformers 5.5.4, and its attention rotates by
the cos and sin table that they give. Rotations that a kernel computes itself were not run. These
are the scaling fused with the normalization of q and k (Qwen 3, and a Qwen 2 with yarn), dynamic
scaling, and amplitudes in the interleaved layout.
"""

from __future__ import annotations

from functools import partial

from posenc_cli.configs.engines.runtime_rules import (
    GPT_OSS_KEYS,
    HUB,
    LONGROPE,
    NO_BETA_OF_ZERO,
    ORIGINAL,
    PLAIN_ROPE,
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
    always_truncated,
    any_share,
    classes_not_read,
    dimensions_per_head,
    fails_on_null,
    for_keys,
    longrope_from_contexts,
    magnitude_ratio,
    not_read,
    of_types,
    original_length,
    other_layers,
    other_share,
    plain,
    refused,
    stated_base,
)

NAME = "tensorrt-llm"

CLASSES = {
    "afmoe": "AfmoeForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "llama": "LlamaForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "nemotron": "NemotronForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}
"""The class of each model type that was read, as ``architectures`` names it."""
QWEN = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"})
"""Models whose class uses the rope type as a position type, and fails on all but yarn."""
SLIDING = frozenset({"afmoe", "exaone4"})
"""Models that rotate only sliding layers."""
USUAL = frozenset(
    {
        *("gemma3_text", "llama", "minimax_m2", "mistral", "mixtral", "nemotron", "seed_oss"),
        "starcoder2",
    }
)
"""Models whose class passes the config to ``RopeParams`` and rotates all layers."""

TYPED = (USUAL | SLIDING | QWEN | {"cohere2", "deepseek_v3", "phi3"}) - {"gemma3_text"}
"""Models whose rope object is for every layer, and goes to ``RopeParams`` as a whole."""

_TABLES = SCALED - {"rope-dynamic"}
_OWN_ROTARY_DIM = {("minimax_m2", "rotary_dim"), ("deepseek_v3", "qk_rope_head_dim")}
_KEYS_OF_ANY_MODEL = ("rotary_pct", "rotary_emb_base", "qk_rope_head_dim", "rotary_dim")
"""Keys that it applies to any model."""
_KEEPING_SHARE = frozenset({"nemotron", "phi3"})
"""Models for which transformers puts a share into the rope object, so that the object is kept."""
_NUMBERS = ("factor", "beta_fast", "beta_slow", ORIGINAL)
_BASE_KEYS = frozenset({"rope_type", "type", "rope_theta"})
_DEFAULT_PATTERN = 4
"""The default ``sliding_window_pattern`` of EXAONE 4: every fourth layer is full."""


def tensorrt_layers(reading: LayerReading) -> Changes:
    """Refuse an EXAONE 4 whose ``layer_types`` differ from its ``sliding_window_pattern``.

    Raises: InvalidInput.
    """
    kinds, stated = reading.config.get("layer_types") or (), reading.config
    pattern = stated.get("sliding_window_pattern", _DEFAULT_PATTERN)
    if stated.get("sliding_window", _DEFAULT_PATTERN) is None or not kinds:
        return {}
    if pattern == "" or not isinstance(pattern, str | int | None):
        raise refused(NAME, "its exaone4 fails on this sliding_window_pattern")
    if isinstance(pattern, str):
        letters = [pattern[number % len(pattern)] for number in range(len(kinds) - 1)]
        sliding = [letter == "L" for letter in letters] + [False]
    else:
        sliding = [bool(pattern and number % pattern) for number, _ in enumerate(kinds, 1)]
    if sliding != [kind == "sliding_attention" for kind in kinds]:
        raise other_layers(NAME, "it uses sliding_window_pattern, regardless of layer_types")
    return {}


def tensorrt_base(reading: LayerReading) -> Changes:
    """Return the top-level base if the rope object has at most a type and a base."""
    has_share = reading.model_type != "deepseek_v3" and reading.top.has(SHARE)
    more = {*reading.rope} - _BASE_KEYS or has_share  # a share is put into the object
    return {} if more or reading.container != "rope_parameters" else stated_base(reading)


def tensorrt_rotary_dim(reading: LayerReading) -> Changes:
    """Return the share of the head that ``rotary_dim`` is; it overrides a stated share.

    Raises: InvalidInput if it does not give whole pairs.
    """
    rotary_dim, head = reading.top.count("rotary_dim"), reading.params["dim"]
    share = None if rotary_dim is None else rotary_dim.value / head
    return other_share(reading, NAME, share, source="rotary_dim")


_FORK = f"{HUB}/QiJune/TensorRT-LLM/blob"
_PACKAGE = f"{_FORK}/6174b2c9db7f84eb2178f14d2a2f9d7bef7e2370/tensorrt_llm"
_TORCH = f"{_FORK}/bfd6ac3f27c7f75c2036d7fb7e6dfa7d4b76336b/tensorrt_llm/_torch"
_CONFIG = (
    f"{HUB}/lfr-0531/TensorRT-LLM/blob/11b63d7fe8e739d1bc9d89bd70b88cd433f1f6be/tensorrt_llm/_torch"
)

RUNTIME = Runtime(
    NAME,
    "at 6174b2c9",
    {
        **of_types(_TABLES, *USUAL),
        **of_types(SCALED, "gpt_oss"),
        **of_types(_TABLES | {"nope"}, *SLIDING),
        **of_types(PLAIN_ROPE | {"rope-llama3", "nope"}, "cohere2"),
        **of_types(PLAIN_ROPE | YARN, "deepseek_v3"),
        **of_types(SCALED - YARN, "qwen2", "qwen3", "qwen3_moe"),
        **of_types(SCALED, "qwen2_moe"),
        **of_types(LONGROPE | {"rope"}, "phi3"),
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE,
        "fails on unknown rope types, nulls in scaling, and a Phi-3 without attention_bias",
        f"{_PACKAGE}/functional_enums.py",
        always(),
        refusals=(
            WITHIN_ANOTHER,
            classes_not_read(CLASSES),
            *for_keys(
                refused,
                "{} sets the rotary dim of every model, which posenc does not read",
                _KEYS_OF_ANY_MODEL,
                lambda key, r: (
                    r.config.get(key) is not None and (r.model_type, key) not in _OWN_ROTARY_DIM
                ),
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} fails on {r.scheme.removeprefix('rope-')}",
                when=lambda r: r.model_type in QWEN and r.scheme not in ("rope", "rope-yarn"),
            ),
            RuntimeRefusal(
                refused,
                "its phi3 fails on a file without attention_bias",
                when=lambda r: (
                    r.model_type == "phi3" and r.config and "attention_bias" not in r.config
                ),
            ),
            RuntimeRefusal(
                refused,
                "it does not support rope type su",
                when=lambda r: "su" in (r.rope.get("type"), r.rope.get("rope_type")),
            ),
            RuntimeRefusal(
                refused,
                lambda r: fails_on_null(r, *_NUMBERS),
                when=lambda r: r.scheme in ("rope", "rope-yarn"),
            ),
            RuntimeRefusal(
                refused,
                "it multiplies the frequencies of a plain rotation by a factor",
                when=lambda r: (
                    r.scheme == "rope" and r.model_type in TYPED and r.rope.get("factor", 1) != 1
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        _TABLES | {"nope"},
        "ignores layer_types, and chooses the full-attention layers by sliding_window_pattern "
        "(default: every fourth layer)",
        f"{_TORCH}/models/modeling_exaone4.py",
        tensorrt_layers,
        frozenset({"exaone4"}),
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"rope"}),
        "prefers the top-level rope_theta if rope_parameters has no key besides rope_theta",
        f"{_CONFIG}/pyexecutor/config_utils.py",
        tensorrt_base,
        TYPED - _KEEPING_SHARE,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        _TABLES,
        "ignores scaling for this model",
        f"{_TORCH}/attention_backend/interface.py",
        lambda r: {} if r.scheme == "rope" else plain(r),
        frozenset({"gemma3_text"}),
        refusals=(
            RuntimeRefusal(
                not_read,
                "rope_parameters of gemma3_text that are for all layers",
                when=lambda r: (
                    r.config.get("rope_parameters")
                    and "full_attention" not in r.config["rope_parameters"]
                ),
            ),
            RuntimeRefusal(
                not_read,
                f"{SHARE} in one of Gemma 3's rope objects",
                when=lambda r: SHARE in r.rope,
            ),
            RuntimeRefusal(
                refused,
                "its gemma3_text fails on yarn, by the config class of transformers",
                when=lambda r: r.scheme == "rope-yarn",
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | LONGROPE,
        "applies partial_rotary_factor to every model",
        f"{_TORCH}/attention_backend/interface.py",
        partial(any_share, runtime=NAME),
        (TYPED | {"gemma3_text"}) - {"deepseek_v3", "minimax_m2"},
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        _TABLES,
        "rotates rotary_dim dimensions, regardless of partial_rotary_factor",
        f"{_TORCH}/attention_backend/interface.py",
        tensorrt_rotary_dim,
        frozenset({"minimax_m2"}),
    ),
    RuntimeDifference(
        NAME,
        "layout",
        PLAIN_ROPE | YARN,
        "uses the interleaved layout, regardless of rope_interleave",
        f"{_PACKAGE}/_torch/models/modeling_deepseekv3.py",
        always(layout="interleaved"),
        frozenset({"deepseek_v3"}),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        YARN | {"rope-llama3"},
        "reads the original length from the rope object, or uses max_position_embeddings if the "
        "rope object has none",
        f"{_TORCH}/attention_backend/interface.py",
        lambda r: {ORIGINAL: original_length(r, NAME, "entry", "context")} if r.rope else {},
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_PACKAGE}/functional_enums.py",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "always truncates, ignores attention_factor, and uses the amplitude "
        "g(mscale)/g(mscale_all_dim). By default, mscale is 1 and mscale_all_dim is 0",
        f"{_TORCH}/attention_backend/interface.py",
        partial(magnitude_ratio, runtime=NAME),
        USUAL | SLIDING | {"deepseek_v3", "qwen2_moe"},
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        SCALED,
        "always truncates, and ignores attention_factor, mscale and the rotary share. It fails "
        "without YaRN's keys",
        f"{_PACKAGE}/_torch/models/modeling_gpt_oss.py",
        lambda r: {
            **dict.fromkeys(("attention_factor", "mscale", "mscale_all_dim", "partial")),
            **always_truncated(r),
        },
        frozenset({"gpt_oss"}),
        refusals=(
            *GPT_OSS_KEYS,
            RuntimeRefusal(
                refused,
                f"its gpt-oss fails on a rope object without {ORIGINAL}",
                when=lambda r: r.scheme != "rope-yarn" and ORIGINAL not in r.rope,
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"gpt-oss with {r.scheme} and the keys of yarn",
                when=lambda r: r.scheme != "rope-yarn",
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses short or long factors once, by max_seq_len (here seq_len), and long factors by "
        "default. It ignores factor and attention_factor",
        f"{_PACKAGE}/functional_enums.py",
        lambda r: longrope_from_contexts(r, seq_len=max(r.length, r.original + 1)),
        refusals=(
            RuntimeRefusal(
                refused,
                "it expects factors for hidden_size / num_attention_heads columns",
                when=lambda r: (
                    len(r.params["short_factor"])
                    != int(
                        (dimensions_per_head(r) or r.params["dim"]) * r.params.get("partial", 1.0)
                    )
                    // 2
                ),
            ),
        ),
    ),
)
"""TensorRT-LLM's known differences, in the order in which they apply."""
