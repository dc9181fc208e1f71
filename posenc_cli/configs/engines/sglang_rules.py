"""Differences of sglang from transformers 5: its model classes and rotations.

sglang reads config objects of transformers 5.19 or of its own config classes, and each model class
uses only some keys. Some read a share only at the top level, some no scaling, some no ``head_dim``.
Its rotations compute ramp and amplitude by their own rules.
"""

from __future__ import annotations

from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    BY_INTERVAL,
    DYNAMIC,
    EXTRAPOLATED,
    FOURTH_UNROTATED,
    HUB,
    INTERVAL,
    LONGROPE,
    NO_BETA_OF_ZERO,
    NO_MROPE,
    ORIGINAL,
    SCALED,
    SHARE,
    WHOLE_FACTOR,
    WITHIN_ANOTHER,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    amplitude_of_both,
    check_share,
    dimensions_per_head,
    fails_on_null,
    fails_without,
    for_keys,
    half_share,
    longrope_from_contexts,
    magnitude_ratio,
    missing_key,
    nested_truncate,
    not_read,
    of_types,
    original_length,
    other_share,
    plain,
    refused,
    stated,
    stated_base,
    stated_sections,
)
from posenc_cli.configs.keys import first
from posenc_cli.records import replace

NAME = "sglang"

MLA = frozenset({"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa"})
"""Models with latent attention, whose rotation is DeepSeek's."""
PLAIN = frozenset(
    {
        *("gemma", "gemma2", "granitemoe", "mixtral", "olmo", "persimmon", "phi", "stablelm"),
        "starcoder2",
    }
)
"""Models whose class does not pass the scaling on."""
WITH_SCALING = frozenset(
    {
        *("afmoe", "apertus", "arcee", "cohere", "cohere2", "ernie4_5", "ernie4_5_moe", "exaone4"),
        *("glm4", "glm4_moe", "gpt_oss", "granite", "granite_swa"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2"),
        *(
            "lfm2_moe",
            "llama",
            "llama4_text",
            "minimax_m2",
            "ministral3",
            "mistral",
            "olmo2",
            "olmo3",
            "olmoe",
        ),
        *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"),
    }
)
"""Models whose class passes the rope object to the common rotations."""
WHOLE_BASE = frozenset({"granitemoe", "llama4_text", "mixtral", "phimoe", "starcoder2"})
"""Models whose class drops the fractional part of the base."""
WITHOUT_HEAD_DIM = frozenset(
    {
        *("cohere", "cohere2", "exaone4", "granitemoe", "lfm2_moe", "mixtral", "olmo", "olmo2"),
        *("olmo3", "olmoe", "persimmon", "phi", "qwen2_moe", "stablelm", "starcoder2"),
    }
)
"""Models whose class does not read ``head_dim``."""
NEEDING_HEAD_DIM = frozenset({"afmoe", "hunyuan_v1_dense", "hunyuan_v1_moe"})
HYBRID = frozenset({"qwen3_5_moe_text", "qwen3_5_text"})
"""Models with sglang's own config class, which finds the attention layers by an interval."""
SEVERAL_AXES = HYBRID | {
    *("glm_ocr_text", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_vl_moe_text", "qwen3_vl_text"),
}
"""Models whose frequency pairs follow several position axes."""
OWN_CLASS = frozenset({"olmo3", "qwen3_next"})
"""Models with sglang's own config class, which reads only rope_theta and rope_scaling."""
SHARES = {
    **dict.fromkeys(("afmoe", "apertus", "arcee", "ernie4_5", "ernie4_5_moe", "llama"), 1.0),
    **dict.fromkeys(("ministral3", "mistral", "phi3"), 1.0),
    "persimmon": 0.5,
    "phi": 0.5,
    "qwen3_next": 0.25,
    "stablelm": 0.25,
}
"""Defaults of the models that read partial_rotary_factor only at the top level."""
NESTED_SHARE = frozenset({"glm4", "glm4_moe"})
"""Models that also read it in the rope object, as transformers does."""
TOP_ORIGINAL = frozenset(
    {
        *("apertus", "arcee", "exaone4", "granite", "granite_swa"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "llama", "ministral3", "mistral"),
    }
)
"""Models that prefer the top level's original length to the rope object's."""

_OWN_CLASS_BASE = 1e4


def sglang_own_class(reading: LayerReading) -> Changes:
    """Return the changes for config classes that read only ``rope_theta`` and ``rope_scaling``."""
    base = stated(reading, "rope_theta", "top") or _OWN_CLASS_BASE
    return {**(plain(reading) if reading.container == "rope_parameters" else {}), "base": base}


def sglang_share(reading: LayerReading) -> Changes:
    """Return the share of the head that a class rotates; each class reads it from another place."""
    kind, head = reading.model_type, reading.params["dim"]
    share = 1.0
    if kind in SHARES:
        share = stated(reading, SHARE, "top") or SHARES[kind]
    elif kind == "minimax_m2" and (dims := reading.top.count("rotary_dim")) is not None:
        share = dims.value / head
    changes = other_share(reading, NAME, share)
    if changes and (kind == "gemma3_text" or reading.scheme == "rope-longrope"):
        raise refused(NAME, f"its {kind} fails on {SHARE}")
    return changes


def sglang_several_axes(reading: LayerReading) -> Changes:
    """Return the share of GLM-OCR and Qwen 3.5, and sections scaled to fill it.

    Raises: InvalidInput.
    """
    changes = {**half_share(reading, runtime=NAME)}
    if reading.model_type in HYBRID:
        changes = {"partial": stated(reading, SHARE, "top") or 0.25}
        check_share(NAME, SHARE, changes["partial"], reading.params["dim"])
        if reading.config and not {"rope_type", "type"} & {*reading.rope}:
            return {**plain(reading), **changes}
    share = changes.get("partial") or reading.params.get("partial") or 1.0
    pairs, sections = int(reading.params["dim"] * share) // 2, reading.params.get("sections")
    if sections and sum(sections) != pairs and reading.rope.get("mrope_section"):
        cut = [max(1, int(section * (pairs / sum(sections)))) for section in sections]
        cut[-1] += pairs - sum(cut)
        changes["sections"] = tuple(cut)
    return changes


def sglang_layout(reading: LayerReading) -> Changes:
    """Return layout half if ``rope_interleave`` is false."""
    flag = reading.top.flag("rope_interleave")
    return {} if flag is None or flag.value else {"layout": "half"}


def sglang_original(reading: LayerReading) -> Changes:
    """Return the original length of the rope object, which some classes overwrite."""
    own = reading.entry.count(ORIGINAL)
    top_level = reading.top.count(ORIGINAL)
    if reading.model_type in TOP_ORIGINAL or reading.model_type == "gemma3_text":
        own = first(top_level, own)
    elif own is None and top_level is not None:
        return {ORIGINAL: reading.length}
    return {} if own is None else {ORIGINAL: own.value}


def sglang_longrope(reading: LayerReading) -> Changes:
    """Return the amplitude of the two contexts, or ``short_mscale`` if it is stated."""
    more: dict[str, Any] = {"attention_factor": stated(reading, "short_mscale", "entry")}
    if reading.model_type == "phimoe":
        more[ORIGINAL] = original_length(reading, NAME, "entry", "context")
    return longrope_from_contexts(reading, **more)


_YARN_REFUSALS = (
    RuntimeRefusal(
        refused, lambda r: fails_on_null(r, "beta_fast", "beta_slow", "factor", "attn_factor")
    ),
    EXTRAPOLATED,
)
"""Keys on which its YaRN fails, and one without a counterpart."""

_SGLANG = f"{HUB}/sgl-project/sglang/blob/v0.5.23/python/sglang/srt"

RUNTIME = Runtime(
    NAME,
    "0.5.23",
    {
        **of_types(SCALED, *(WITH_SCALING | PLAIN)),
        **of_types(SCALED - {"rope-dynamic"}, "gemma3_text"),
        **of_types(SCALED | {"rope-ntk"}, "hunyuan_v1_dense", "hunyuan_v1_moe"),
        **of_types(SCALED | {"nope"}, "afmoe", "cohere2", "exaone4", "llama4_text"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
        **of_types(frozenset({"rope", "rope-yarn"}), *MLA),
        **of_types(frozenset({"mrope"}), *SEVERAL_AXES),
        **of_types(frozenset({"rope"}), "gptj"),
        **of_types(SCALED - DYNAMIC, "step3p5"),
    },
    {
        **dict.fromkeys(("cohere", "cohere2"), "commandr"),
        **dict.fromkeys(("ernie4_5", "ernie4_5_moe"), "ernie4"),
        **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), "hunyuan"),
        "gemma3_text": "gemma3_causal",
        "granite_swa": "granite",
        "llama4_text": "llama4",
        "olmo3": "olmo2",
        "phi3": "llama",
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "partial rotation",
        frozenset({"mrope", "rope"}),
        "shortens mrope_section, and uses its own defaults for partial_rotary_factor (0.25 for "
        "Qwen 3.5, 0.5 for GLM-OCR)",
        f"{_SGLANG}/layers/rotary_embedding/mrope.py",
        sglang_several_axes,
        HYBRID | {"glm_ocr_text"},
        refusals=(
            NO_MROPE,
            replace(BY_INTERVAL, when=lambda r: r.model_type in HYBRID),
            RuntimeRefusal(
                refused, lambda r: fails_without(r, INTERVAL), when=lambda r: r.model_type in HYBRID
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} fails on a file without a rope object",
                when=lambda r: r.model_type in HYBRID and r.config and not r.rope,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "sections",
        frozenset({"mrope"}),
        "interleaves axes only if mrope_interleaved is true. Without mrope_section, it rotates "
        "every pair by the same position",
        f"{_SGLANG}/layers/rotary_embedding/mrope.py",
        stated_sections,
        SEVERAL_AXES,
    ),
    RuntimeDifference(
        NAME,
        "layout",
        frozenset({"rope", "rope-yarn"}),
        "uses the half layout if rope_interleave is false. transformers ignores this key",
        f"{_SGLANG}/models/deepseek_v2.py",
        sglang_layout,
        frozenset({"glm_moe_dsa"}),
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"rope"}),
        "reads rope_theta, which transformers ignores",
        f"{_SGLANG}/models/gpt_j.py",
        stated_base,
        frozenset({"gptj"}),
    ),
    RuntimeDifference(
        NAME,
        "layout",
        SCALED | {"nope"},
        "leaves every fourth layer unrotated, and uses the half layout in text-only models",
        f"{_SGLANG}/models/llama4.py",
        # in the multimodal model, the rows of q and k are permuted instead
        lambda r: {"layout": "half"} if r.config and not r.prefix and r.scheme != "nope" else {},
        frozenset({"llama4_text"}),
        refusals=(FOURTH_UNROTATED,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE,
        "computes the head size as hidden_size / num_attention_heads in some models, and reads "
        "only head_dim in others",
        f"{_SGLANG}/models/{{model}}.py",
        always(),
        refusals=(
            *for_keys(
                refused,
                "posenc does not read its own key {}",
                ("rope_is_neox_style", "dual_chunk_attention_config"),
                lambda key, r: r.top.get(key),
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} does not find its columns without head_dim",
                when=lambda r: r.model_type in NEEDING_HEAD_DIM and missing_key(r, "head_dim"),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its {r.model_type} takes hidden_size / num_attention_heads in place of "
                    "head_dim"
                ),
                when=lambda r: (
                    r.model_type in WITHOUT_HEAD_DIM
                    and r.config.get("head_dim") not in (None, dimensions_per_head(r))
                ),
            ),
            RuntimeRefusal(
                refused,
                f"it fails if {SHARE} is null",
                when=lambda r: r.model_type in SHARES and r.config.get(SHARE, 0) is None,
            ),
            RuntimeRefusal(
                refused,
                f"it fails on type su where rope_scaling has no {ORIGINAL}",
                when=lambda r: (
                    r.scheme == "rope-longrope"
                    and r.rope.get("type") == "su"
                    and ORIGINAL not in r.rope
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED,
        "needs layer_types, partial_rotary_factors and a list of rope_theta for Step 3.5",
        f"{_SGLANG}/models/step3p5.py",
        always(),
        frozenset({"step3p5"}),
        refusals=(
            WITHIN_ANOTHER,
            RuntimeRefusal(
                refused,
                "its step3p5 fails if rope_theta is not a list with one base per layer",
                when=lambda r: r.config and not isinstance(r.config.get("rope_theta"), list),
            ),
            RuntimeRefusal(
                refused, lambda r: fails_without(r, "layer_types", "partial_rotary_factors")
            ),
            RuntimeRefusal(
                not_read,
                "step3p5 with other layers scaled than full ones",
                when=lambda r: (
                    r.config.get("yarn_only_types") not in (None, [], ["full_attention"])
                ),
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"a rope_scaling of step3p5 with only {', '.join(r.scaling)}",
                when=lambda r: r.scaling and "rope_type" not in r.scaling,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED - {"rope"},
        "scales only the layer types in yarn_only_types, regardless of rope_scaling",
        f"{_SGLANG}/models/step3p5.py",
        lambda r: {} if r.config.get("yarn_only_types") or not r.config else plain(r),
        frozenset({"step3p5"}),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        "reads only rope_theta and rope_scaling for this model",
        f"{_SGLANG}/configs/{{type}}.py",
        sglang_own_class,
        OWN_CLASS,
        refusals=(
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"posenc does not know how its {r.model_type} uses {ORIGINAL} beside "
                    "rope_scaling"
                ),
                when=lambda r: r.top.has(ORIGINAL),
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} fails on scaled rope_parameters",
                when=lambda r: (
                    (r.config.get("rope_parameters") or {}).get("rope_type") in ("yarn", "llama3")
                ),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"posenc does not know how its {r.model_type} uses them without rope_type"
                ),
                when=lambda r: (
                    r.config.get("rope_parameters") is not None
                    and "full_attention" not in r.config["rope_parameters"]
                    and r.config["rope_parameters"].get("rope_type") is None
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "always uses base 1000000, because it does not find rope_theta",
        f"{_SGLANG}/models/exaone4.py",
        always(base=1e6),
        frozenset({"exaone4"}),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED | LONGROPE,
        "drops the fractional part of the base",
        f"{_SGLANG}/models/{{model}}.py",
        lambda r: {"base": float(int(r.params["base"]))},
        WHOLE_BASE,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | LONGROPE,
        "reads partial_rotary_factor only at the top level, and ignores it in some models",
        f"{_SGLANG}/models/{{model}}.py",
        sglang_share,
        (WITH_SCALING | PLAIN | frozenset({"gemma3_text", "phi3", "phimoe"})) - NESTED_SHARE,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED - {"rope"},
        "ignores scaling for this model",
        f"{_SGLANG}/models/{{model}}.py",
        plain,
        PLAIN,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        frozenset({"rope-linear"}),
        "fails on an integer factor",
        f"{_SGLANG}/layers/rotary_embedding/base.py",
        always(),
        WITH_SCALING | {"step3p5"},
        refusals=(WHOLE_FACTOR,),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        YARN | {"rope-llama3"},
        "ignores an original length outside the rope object, except in Llama-like models",
        f"{_SGLANG}/layers/rotary_embedding/factory.py",
        sglang_original,
        refusals=(RuntimeRefusal(refused, lambda r: fails_on_null(r, ORIGINAL)),),
    ),
    RuntimeDifference(
        NAME,
        "truncate",
        YARN,
        "also reads truncate in nested rope_parameters",
        f"{_SGLANG}/layers/rotary_embedding/factory.py",
        nested_truncate,
        frozenset({"gemma3_text", "olmo3", "step3p5"}),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_SGLANG}/layers/rotary_embedding/yarn.py",
        always(),
        WITH_SCALING | MLA | {"step3p5"},
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "reads attn_factor instead of attention_factor, and uses mscale even if it is 0",
        f"{_SGLANG}/layers/rotary_embedding/yarn.py",
        lambda r: amplitude_of_both(r, stated(r, "attn_factor", "entry") or 1.0),
        WITH_SCALING | {"step3p5"},
        refusals=_YARN_REFUSALS,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "always truncates, ignores attention_factor, and uses the amplitude attn_factor · "
        "g(mscale)/g(mscale_all_dim)",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        lambda r: magnitude_ratio(r, NAME, stated(r, "attn_factor", "entry") or 1.0),
        MLA,
        refusals=_YARN_REFUSALS,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "always uses the length max_position_embeddings · factor",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        lambda r: {"seq_len": int(r.length * r.factor)},
        WITH_SCALING,
        refusals=(
            RuntimeRefusal(
                refused,
                "its use of alpha has no counterpart in rope-dynamic",
                when=lambda r: "alpha" in r.rope,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "uses short_mscale and long_mscale as amplitudes, and ignores factor and "
        "attention_factor. It switches to long factors one position later",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        sglang_longrope,
        refusals=(
            RuntimeRefusal(
                refused,
                "short_mscale and long_mscale have no counterpart in rope-longrope",
                when=lambda r: (
                    stated(r, "short_mscale", "entry") != stated(r, "long_mscale", "entry")
                ),
            ),
        ),
    ),
)
"""sglang's known differences, in the order in which they apply."""
