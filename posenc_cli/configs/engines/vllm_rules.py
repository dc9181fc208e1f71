"""Differences of vLLM, today's and 0.11, from transformers 5.

vLLM takes config objects of transformers 5.16 to 5.20, and folds what it finds at the top level
into their rope parameters: so a share that a file states rotates in every model of its own.
What its registry leaves to the modules of transformers rotates as these do.
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
    mimo_refusals,
    mscales,
    nested_truncate,
    of_types,
    original_length,
    own_mimo,
    refused,
    stated,
    stated_base,
    stated_sections,
    stated_share,
    yarn_amplitude,
)

NAME = "vllm"
_OLD = "vllm-0.11"
_SHARE = "partial_rotary_factor"
MLA = DEEPSEEK | {"glm4_moe_lite", "glm_moe_dsa"}
"""Those that attend to latents, scaled by the rotation of DeepSeek's own."""
SKIPPING = frozenset({"afmoe", "cohere2", "exaone4", "llama4_text"})
"""Those some of whose layers do not rotate."""
PHI = frozenset({"phi3", "phimoe"})
SEEING = frozenset(
    {
        *("glm_ocr_text", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_5_moe_text", "qwen3_5_text"),
        *("qwen3_vl_moe_text", "qwen3_vl_text"),
    }
)
"""Those whose pairs follow several axes."""
OWN = frozenset(
    {
        *("apertus", "cohere", "ernie4_5", "ernie4_5_moe", "falcon", "gemma", "gemma2"),
        *("gemma3_text", "glm4", "glm4_moe", "granite", "granite_swa", "granitemoe", "lfm2"),
        *("lfm2_moe",),
        *("minimax_m2", "ministral3", "mixtral", "nemotron", "olmoe", "qwen3_next", "stablelm"),
        *(*LLAMA_LIKE, *SKIPPING),
    }
)
"""Those whose class is vLLM's own, and hands the rope object on to its rotations."""
TURNED = OWN | PHI | MLA | SEEING | {"gemma4_text", "modernbert"}
"""Those whose rope parameters its own rotations are built of."""
BACKEND = frozenset(
    {
        *("arcee", "glm", "gpt_neox", "olmo", "olmo2", "olmo3", "phi", "seed_oss", "smollm3"),
        "starcoder2",
    }
)
"""Those whose modules are transformers' own, here but for those that follow the length."""
DIVIDED = frozenset(
    {"granitemoe", "lfm2_moe", "modernbert", "olmoe", "qwen2", "qwen2_moe", "stablelm"}
)
"""Those that know no ``head_dim``."""
_NEEDED = {
    "glm4_moe": ("head_dim",),
    "lfm2": ("block_dim",),
    "minimax_m2": ("rotary_dim",),
}
"""Keys without which a class cannot be built, by its model type."""
_PHI3_ORIGINAL = 4096
"""The original length of transformers' Phi3Config where a config has none."""


def vllm_longrope(reading: LayerReading) -> Changes:
    """VLLM chooses the factors once, and takes s from the two contexts."""
    kind = reading.model_type
    own = _PHI3_ORIGINAL if kind == "phi3" and reading.config else "context"
    allocated = original_length(reading, NAME, "top", own, null=False)
    multiplier = "long_mscale" if allocated > reading.original else "short_mscale"
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": stated(reading, multiplier, "entry"),
        "seq_len": allocated,
    }


def vllm_dynamic(reading: LayerReading) -> Changes:
    """VLLM scales by the context over ``max_trained_positions``."""
    trained = reading.entry.count("max_trained_positions")
    if trained is None:
        return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
    return {"max_position_embeddings": trained.value, "seq_len": reading.length}


def vllm11_yarn(reading: LayerReading) -> Changes:
    """VLLM 0.11 reads ``attn_factor``, and mscale in DeepSeek alone."""
    # gpt-oss hands it on to none.
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
            **of_types(SCALED | {"nope"}, *SKIPPING),
            **of_types(SCALED | LONGROPE, *PHI),
            **of_types(frozenset({"rope"}) | YARN, *MLA),
            **of_types(SCALED, "gpt_oss", "mimo_v2_flash"),
            **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
            **of_types(PLAIN_ROPE, "modernbert"),
            **of_types(frozenset({"mrope"}), *SEEING),
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
        TURNED | {"gpt_oss"},
        refusals=(
            RuntimeRefusal(refused, lambda r: fails_without(r, *_NEEDED.get(r.model_type, ()))),
            WHOLE_FACTOR,
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} fails on {_SHARE}",
                when=lambda r: (
                    r.model_type in SEEING
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
                    r.model_type in SEEING
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
        DIVIDED,
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        MIMO_KEYS + " (defaults: base 1000000, whole heads)",
        f"{_VLLM}/models/mimo_v2.py",
        partial(own_mimo, runtime=NAME, base=1e6),
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
                f"its glm_ocr rotates half a head without {_SHARE}, not its sections",
                when=lambda r: r.rope.get("mrope_section") and half_share(r, runtime=NAME),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "sections",
        frozenset({"mrope"}),
        "interleaves axes only if mrope_interleaved is true; rotates by one position without "
        "mrope_section",
        f"{_VLLM}/{_ROTARY}/mrope.py",
        stated_sections,
        SEEING,
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
        "uses layout interleaved, regardless of rope_interleave",
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
        "rotates only the share of partial_rotary_factor, for every model",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        partial(any_share, runtime=NAME),
        TURNED - SEEING,
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
        "uses the amplitude g(mscale)/g(mscale_all_dim) (defaults 1 and 0); always truncates",
        f"{_VLLM}/{_ROTARY}/deepseek_scaling_rope.py",
        partial(magnitude_ratio, runtime=NAME),
        MLA,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        SCALED,
        "ignores attention_factor, mscale and the rotary share; fails without yarn and betas",
        f"{_VLLM}/models/gpt_oss.py",
        always(attention_factor=None, mscale=None, mscale_all_dim=None, partial=None),
        frozenset({"gpt_oss"}),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses short or long factors once, by max_model_len (here seq_len); ignores factor and "
        "attention_factor",
        f"{_VLLM}/{_ROTARY}/phi3_long_rope_scaled_rope.py",
        vllm_longrope,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "uses the factor context / max_trained_positions (default: 1)",
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
                "rope_parameters is a key it does not know",
                when=lambda r: r.container == "rope_parameters",
            ),
        ),
    ),
    RuntimeDifference(
        _OLD,
        "attention factor",
        YARN,
        "reads attn_factor instead of attention_factor (in gpt-oss, neither), and mscale only for"
        " DeepSeek; always truncates",
        f"{_VLLM_11}/{_ROTARY}/yarn_scaling_rope.py",
        vllm11_yarn,
        refusals=(EXTRAPOLATED,),
    ),
    RuntimeDifference(
        _OLD,
        "dynamic length",
        DYNAMIC,
        "uses one fixed length, max_position_embeddings · factor",
        f"{_VLLM_11}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        lambda r: {"seq_len": int(r.length * r.factor)},
    ),
)
"""Its known differences, in the order in which they are applied."""
