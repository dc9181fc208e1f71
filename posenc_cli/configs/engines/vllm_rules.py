"""Differences of vLLM 0.33 and 0.11 from transformers 5.

vLLM reads config objects of transformers 5.16 to 5.20, and moves top-level keys into their rope
parameters. So a stated share applies to every model with a class of vLLM's own. Models that its
registry leaves to the modules of transformers rotate as these do.
"""

from __future__ import annotations

from functools import partial

from posenc_cli.configs.engines.runtime_rules import (
    DEEPSEEK,
    DYNAMIC,
    EXTRAPOLATED,
    GPT_OSS_KEYS,
    GPT_OSS_WITHOUT_YARN,
    HUB,
    LLAMA_LIKE,
    LONGROPE,
    MIMO_KEYS,
    NO_BETA_OF_ZERO,
    NO_MROPE,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    SHARE,
    WHOLE_FACTOR,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    always_truncated,
    any_share,
    divided_head,
    fails_on_null,
    fails_without,
    half_share,
    magnitude_ratio,
    mimo_changes,
    mimo_refusals,
    mscales,
    nested_truncate,
    of_types,
    original_length,
    refused,
    stated,
    stated_base,
    stated_sections,
    stated_share,
    yarn_amplitude,
)

NAME = "vllm"
_OLD = "vllm-0.11"
MLA = DEEPSEEK | {"glm4_moe_lite", "glm_moe_dsa"}
"""Models with latent attention, whose rotation is DeepSeek's."""
SOME_UNROTATED = frozenset({"afmoe", "cohere2", "exaone4", "llama4_text"})
"""Models with unrotated layers."""
PHI = frozenset({"phi3", "phimoe"})
SEVERAL_AXES = frozenset(
    {
        *("glm_ocr_text", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_5_moe_text", "qwen3_5_text"),
        *("qwen3_vl_moe_text", "qwen3_vl_text"),
    }
)
"""Models whose frequency pairs follow several position axes."""
OWN = frozenset(
    {
        *("apertus", "cohere", "ernie4_5", "ernie4_5_moe", "falcon", "gemma", "gemma2"),
        *("gemma3_text", "glm4", "glm4_moe", "granite", "granite_swa", "granitemoe", "lfm2"),
        "lfm2_moe",
        *("minimax_m2", "ministral3", "mixtral", "nemotron", "olmoe", "qwen3_next", "stablelm"),
        *(*LLAMA_LIKE, *SOME_UNROTATED),
    }
)
"""Models with vLLM's own class, which passes the rope object to its rotations."""
OWN_ROTATIONS = OWN | PHI | MLA | SEVERAL_AXES | {"gemma4_text", "modernbert"}
"""Models whose rope parameters go to vLLM's own rotations."""
BACKEND = frozenset(
    {
        *("arcee", "glm", "gpt_neox", "olmo", "olmo2", "olmo3", "phi", "seed_oss", "smollm3"),
        "starcoder2",
    }
)
"""Models that run transformers' own modules; their dynamic scaling was not read."""
WITHOUT_HEAD_DIM = frozenset(
    {"granitemoe", "lfm2_moe", "modernbert", "olmoe", "qwen2", "qwen2_moe", "stablelm"}
)
"""Models whose class does not read ``head_dim``."""
_NEEDED = {
    "glm4_moe": ("head_dim",),
    "lfm2": ("block_dim",),
    "minimax_m2": ("rotary_dim",),
}
"""Keys that a class requires, by model type."""
_PHI3_ORIGINAL = 4096
"""The default original length of transformers' Phi3Config."""


def vllm_longrope(reading: LayerReading) -> Changes:
    """Return LongRoPE with factors chosen once, by the context, and s from the two contexts."""
    own = _PHI3_ORIGINAL if reading.model_type == "phi3" and reading.config else "context"
    allocated = original_length(reading, NAME, "top", own, null=False)
    multiplier = "long_mscale" if allocated > reading.original else "short_mscale"
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": stated(reading, multiplier, "entry"),
        "seq_len": allocated,
    }


def vllm_dynamic(reading: LayerReading) -> Changes:
    """Return scaling by the context over ``max_trained_positions``, or none without that key."""
    trained = reading.entry.count("max_trained_positions")
    if trained is None:
        return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
    return {"max_position_embeddings": trained.value, "seq_len": reading.length}


def vllm11_yarn(reading: LayerReading) -> Changes:
    """Return YaRN of vLLM 0.11, which reads ``attn_factor``, and mscale only in DeepSeek."""
    # The gpt-oss class does not pass it on.
    places = () if reading.model_type == "gpt_oss" else ("entry",)
    own = stated(reading, "attn_factor", *places) or 1.0
    beside = ("top",) if reading.model_type in ("llama", "mistral") else ()
    scales = mscales(reading, _OLD) if reading.model_type in DEEPSEEK else (1.0, 0.0)
    return {
        ORIGINAL: original_length(reading, _OLD, *beside, "entry"),
        **always_truncated(reading),
        **yarn_amplitude(reading, *scales, own),
    }


_VLLM = f"{HUB}/vllm-project/vllm/blob/v0.33.0/vllm/model_executor"
_VLLM_11 = f"{HUB}/vllm-project/vllm/blob/v0.11.0/vllm/model_executor"
_ROTARY = "layers/rotary_embedding"

RUNTIMES = (
    Runtime(
        NAME,
        "0.33.0",
        {
            **of_types(SCALED, *OWN),
            **of_types(SCALED | {"nope"}, *SOME_UNROTATED),
            **of_types(SCALED | LONGROPE, *PHI),
            **of_types(frozenset({"rope"}) | YARN, *MLA),
            **of_types(SCALED, "gpt_oss", "mimo_v2_flash"),
            **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
            **of_types(PLAIN_ROPE, "modernbert"),
            **of_types(frozenset({"mrope"}), *SEVERAL_AXES),
            **of_types(frozenset({"rope"}), "gptj"),
            **of_types(SCALED - DYNAMIC, *BACKEND),
            **of_types(SCALED - DYNAMIC | {"nope"}, "smollm3"),
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
        {"mistral": "llama", "gemma3_text": "gemma3", "deepseek_v3": "deepseek_v2"},
        around=frozenset(),
    ),
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE | {"mrope"},
        "fails on an integer linear factor, nulls in scaling, and missing keys",
        f"{_VLLM}/{_ROTARY}/linear_scaling_rope.py",
        always(),
        OWN_ROTATIONS | {"gpt_oss"},
        refusals=(
            RuntimeRefusal(refused, lambda r: fails_without(r, *_NEEDED.get(r.model_type, ()))),
            WHOLE_FACTOR,
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} fails on {SHARE}",
                when=lambda r: (
                    r.model_type in SEVERAL_AXES
                    and r.model_type.startswith("qwen3_vl")
                    and stated_share(r)
                ),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its {r.model_type} takes {divided_head(r)['dim']} columns for a head, which "
                    "sections do not fill"
                ),
                when=lambda r: (
                    r.model_type in SEVERAL_AXES
                    and r.model_type.startswith("qwen2")
                    and divided_head(r).get("dim", r.params["dim"]) != r.params["dim"]
                ),
            ),
            GPT_OSS_WITHOUT_YARN,
            *GPT_OSS_KEYS,
            RuntimeRefusal(
                refused,
                f"it fails on type su where rope_scaling has no {ORIGINAL}",
                when=lambda r: (
                    r.model_type == "phi3" and r.rope.get("type") == "su" and ORIGINAL not in r.rope
                ),
            ),
            RuntimeRefusal(
                refused,
                lambda r: fails_on_null(r, "factor", "beta_fast", "beta_slow", ORIGINAL),
                when=lambda r: r.scheme == "rope-yarn",
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED,
        "uses hidden_size / num_attention_heads instead of head_dim",
        f"{_VLLM}/models/{{model}}.py",
        divided_head,
        WITHOUT_HEAD_DIM,
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        MIMO_KEYS + ". By default, it uses base 1000000 and rotates whole heads",
        f"{_VLLM}/models/mimo_v2.py",
        partial(mimo_changes, runtime=NAME, base=1e6),
        frozenset({"mimo_v2_flash"}),
        refusals=mimo_refusals("hybrid_layer_pattern", "swa_head_dim"),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        frozenset({"mrope", "rope"}),
        "rotates half of a head if partial_rotary_factor is missing",
        f"{_VLLM}/models/glm4.py",
        partial(half_share, runtime=NAME),
        frozenset({"glm_ocr_text"}),
        refusals=(
            NO_MROPE,
            RuntimeRefusal(
                refused,
                f"its glm_ocr rotates half a head without {SHARE}, not its sections",
                when=lambda r: r.rope.get("mrope_section") and half_share(r, runtime=NAME),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "sections",
        frozenset({"mrope"}),
        "interleaves axes only if mrope_interleaved is true. Without mrope_section, it rotates "
        "every pair by the same position",
        f"{_VLLM}/{_ROTARY}/mrope.py",
        stated_sections,
        SEVERAL_AXES,
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"rope"}),
        "reads rope_theta, which transformers ignores",
        f"{_VLLM}/models/gpt_j.py",
        stated_base,
        frozenset({"gptj"}),
    ),
    RuntimeDifference(
        NAME,
        "layout",
        PLAIN_ROPE | YARN,
        "uses the interleaved layout, regardless of rope_interleave",
        f"{_VLLM}/models/deepseek_v2.py",
        always(layout="interleaved"),
        MLA,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_VLLM}/{_ROTARY}/common.py",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | LONGROPE,
        "applies partial_rotary_factor to every model",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        partial(any_share, runtime=NAME),
        OWN_ROTATIONS - SEVERAL_AXES,
    ),
    RuntimeDifference(
        NAME,
        "truncate",
        YARN,
        "also reads truncate in nested rope_parameters",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        nested_truncate,
        frozenset({*LLAMA_LIKE, "gemma3_text"}),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "always truncates, and uses the amplitude g(mscale)/g(mscale_all_dim). By default, mscale "
        "is 1 and mscale_all_dim is 0",
        f"{_VLLM}/{_ROTARY}/deepseek_scaling_rope.py",
        partial(magnitude_ratio, runtime=NAME),
        MLA,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        SCALED,
        "ignores attention_factor, mscale and the rotary share. It fails without YaRN's factor, "
        "beta_fast and beta_slow",
        f"{_VLLM}/models/gpt_oss.py",
        always(attention_factor=None, mscale=None, mscale_all_dim=None, partial=None),
        frozenset({"gpt_oss"}),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses short or long factors once, by max_model_len (here seq_len). It ignores factor "
        "and attention_factor",
        f"{_VLLM}/{_ROTARY}/phi3_long_rope_scaled_rope.py",
        vllm_longrope,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "computes the factor as context / max_trained_positions (default: 1)",
        f"{_VLLM}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        vllm_dynamic,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        frozenset({"rope-proportional"}),
        "ignores factor",
        f"{_VLLM}/{_ROTARY}/gemma4_rope.py",
        always(factor=None),
    ),
    RuntimeDifference(
        _OLD,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_VLLM_11}/{_ROTARY}/common.py",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        _OLD,
        "container",
        SCALED,
        "reads rope_theta and rope_scaling only",
        f"{_VLLM_11}/models/{{model}}.py",
        always(),
        refusals=(
            RuntimeRefusal(
                refused,
                "it does not know the key rope_parameters",
                when=lambda r: r.container == "rope_parameters",
            ),
        ),
    ),
    RuntimeDifference(
        _OLD,
        "attention factor",
        YARN,
        "always truncates, reads attn_factor instead of attention_factor, and reads mscale only "
        "for DeepSeek. For gpt-oss, it ignores both factors",
        f"{_VLLM_11}/{_ROTARY}/yarn_scaling_rope.py",
        vllm11_yarn,
        refusals=(EXTRAPOLATED,),
    ),
    RuntimeDifference(
        _OLD,
        "dynamic length",
        DYNAMIC,
        "always uses the length max_position_embeddings · factor",
        f"{_VLLM_11}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        lambda r: {"seq_len": int(r.length * r.factor)},
    ),
)
"""vLLM's known differences, in the order in which they apply."""
