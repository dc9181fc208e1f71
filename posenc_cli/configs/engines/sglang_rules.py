"""Differences of sglang from transformers 5: its model classes and rotations.

It takes config objects of transformers 5.19 and of config classes of its own, and each model class
takes from them what it knows: some a share at the top level alone, some no scaling, some no
``head_dim``. Its rotations ramp and scale by rules of their own.
"""

from __future__ import annotations

from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    BY_INTERVAL,
    DYNAMIC,
    EXTRAPOLATED,
    FOURTH_STILL,
    HUB,
    INTERVAL,
    LONGROPE,
    NO_BETA_OF_ZERO,
    NO_MROPE,
    ORIGINAL,
    SCALED,
    WHOLE_FACTOR,
    WITHIN_ANOTHER,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    check_share,
    divided,
    fails_on_null,
    fails_without,
    for_keys,
    half_share,
    lacking,
    magnitude_ratio,
    nested_truncate,
    not_read,
    of_two_contexts,
    of_types,
    original_length,
    other_share,
    plain,
    refused,
    stated,
    stated_base,
    stated_sections,
    yarn_amplitude,
    yarn_weight,
)
from posenc_cli.configs.keys import first
from posenc_cli.records import replace

NAME = "sglang"

MLA = frozenset({"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa"})
"""Those that attend to latents, scaled by the rotation of DeepSeek's own."""
PLAIN = frozenset(
    {
        *("gemma", "gemma2", "granitemoe", "mixtral", "olmo", "persimmon", "phi", "stablelm"),
        "starcoder2",
    }
)
"""Those whose class hands no scaling on."""
STRETCHED = frozenset(
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
"""Those whose class hands the rope object on to the usual rotations."""
WHOLE_BASE = frozenset({"granitemoe", "llama4_text", "mixtral", "phimoe", "starcoder2"})
"""Those that cut the base to a whole number."""
DIVIDED = frozenset(
    {
        *("cohere", "cohere2", "exaone4", "granitemoe", "lfm2_moe", "mixtral", "olmo", "olmo2"),
        *("olmo3", "olmoe", "persimmon", "phi", "qwen2_moe", "stablelm", "starcoder2"),
    }
)
"""Those that know no ``head_dim``."""
NEEDING_HEAD_DIM = frozenset({"afmoe", "hunyuan_v1_dense", "hunyuan_v1_moe"})
HYBRID = frozenset({"qwen3_5_moe_text", "qwen3_5_text"})
"""Those whose config class, of its own, counts the layers that attend by an interval."""
SEEING = HYBRID | {
    *("glm_ocr_text", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_vl_moe_text", "qwen3_vl_text"),
}
"""Those whose pairs follow several axes."""
OWN_CLASS = frozenset({"olmo3", "qwen3_next"})
"""Those whose config class is sglang's own, which knows rope_theta and rope_scaling alone."""
SHARES = {
    **dict.fromkeys(("afmoe", "apertus", "arcee", "ernie4_5", "ernie4_5_moe", "llama"), 1.0),
    **dict.fromkeys(("ministral3", "mistral", "phi3"), 1.0),
    "persimmon": 0.5,
    "phi": 0.5,
    "qwen3_next": 0.25,
    "stablelm": 0.25,
}
"""The share of those that look for partial_rotary_factor at the top level, where it is missing."""
NESTED_SHARE = frozenset({"glm4", "glm4_moe"})
"""Those that look for it in the rope object too, as transformers does."""
LENGTH_BESIDE = frozenset(
    {
        *("apertus", "arcee", "exaone4", "granite", "granite_swa"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "llama", "ministral3", "mistral"),
    }
)
"""Those that take the original length at the top level before the one in the rope object."""

_BASE_OF_OWN_CLASS = 1e4
_SHARE = "partial_rotary_factor"


def sglang_own_class(reading: LayerReading) -> Changes:
    """Config classes of its own know ``rope_theta`` and ``rope_scaling`` alone."""
    base = stated(reading, "rope_theta", "top") or _BASE_OF_OWN_CLASS
    lost = reading.container == "rope_parameters"
    return {**(plain(reading) if lost else {}), "base": base}


def sglang_share(reading: LayerReading) -> Changes:
    """How much of a head rotates: each class looks elsewhere for it."""
    kind, head = reading.model_type, reading.params["dim"]
    share = 1.0
    if kind in SHARES:
        share = stated(reading, _SHARE, "top") or SHARES[kind]
    elif kind == "minimax_m2" and (columns := reading.top.count("rotary_dim")) is not None:
        share = columns.value / head
    changes = other_share(reading, NAME, share)
    if changes and (kind == "gemma3_text" or reading.scheme == "rope-longrope"):
        raise refused(NAME, f"its {kind} fails on {_SHARE}")
    return changes


def sglang_seeing(reading: LayerReading) -> Changes:
    """The share of GLM-OCR and Qwen 3.5, to which sections are cut where they do not fill it.

    Raises: InvalidInput.
    """
    changes = {**half_share(reading, runtime=NAME)}
    if reading.model_type in HYBRID:
        changes = {"partial": stated(reading, _SHARE, "top") or 0.25}
        check_share(NAME, _SHARE, changes["partial"], reading.params["dim"])
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
    """Halves where ``rope_interleave`` is false."""
    flag = reading.top.flag("rope_interleave")
    return {} if flag is None or flag.value else {"layout": "half"}


def sglang_original(reading: LayerReading) -> Changes:
    """The original length in the rope object, which some classes write over."""
    own = reading.entry.count(ORIGINAL)
    beside = reading.top.count(ORIGINAL)
    if reading.model_type in LENGTH_BESIDE or reading.model_type == "gemma3_text":
        own = first(beside, own)
    elif own is None and beside is not None:
        return {ORIGINAL: reading.length}
    return {} if own is None else {ORIGINAL: own.value}


def sglang_yarn(reading: LayerReading) -> Changes:
    """g(mscale)/g(mscale_all_dim) where both are stated, else g(1), times ``attn_factor``."""
    weight, all_dim = (yarn_weight(reading, name) for name in ("mscale", "mscale_all_dim"))
    if weight is None or all_dim is None:
        weight, all_dim = 1.0, 0.0
    return yarn_amplitude(reading, weight, all_dim, stated(reading, "attn_factor", "entry") or 1.0)


def sglang_longrope(reading: LayerReading) -> Changes:
    """The amplitude of the two contexts, or of the factors in use where the file states both."""
    more: dict[str, Any] = {"attention_factor": stated(reading, "short_mscale", "entry")}
    if reading.model_type == "phimoe":
        more[ORIGINAL] = original_length(reading, NAME, "entry", "context")
    return of_two_contexts(reading, **more)


_YARN = (
    RuntimeRefusal(
        refused, lambda r: fails_on_null(r, "beta_fast", "beta_slow", "factor", "attn_factor")
    ),
    EXTRAPOLATED,
)
"""What its YaRN fails on, and what has no counterpart."""

_SGLANG = f"{HUB}/sgl-project/sglang/blob/v0.5.23/python/sglang/srt"

RUNTIME = Runtime(
    NAME,
    "0.5.23",
    {
        **of_types(SCALED, *(STRETCHED | PLAIN)),
        **of_types(SCALED - {"rope-dynamic"}, "gemma3_text"),
        **of_types(SCALED | {"rope-ntk"}, "hunyuan_v1_dense", "hunyuan_v1_moe"),
        **of_types(SCALED | {"nope"}, "afmoe", "cohere2", "exaone4", "llama4_text"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
        **of_types(frozenset({"rope", "rope-yarn"}), *MLA),
        **of_types(frozenset({"mrope"}), *SEEING),
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
        "uses its own defaults for partial_rotary_factor (Qwen 3.5: a quarter, GLM-OCR: half), and"
        " shortens sections",
        f"{_SGLANG}/layers/rotary_embedding/mrope.py",
        sglang_seeing,
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
        "interleaves axes only if mrope_interleaved is true; rotates by one position without "
        "mrope_section",
        f"{_SGLANG}/layers/rotary_embedding/mrope.py",
        stated_sections,
        SEEING,
    ),
    RuntimeDifference(
        NAME,
        "layout",
        frozenset({"rope", "rope-yarn"}),
        "uses layout half if rope_interleave is false; transformers ignores this key",
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
        "leaves every fourth layer unrotated; uses layout half in text-only models",
        f"{_SGLANG}/models/llama4.py",
        # rows of q and k are moved where images are read too
        lambda r: {"layout": "half"} if r.config and not r.prefix and r.scheme != "nope" else {},
        frozenset({"llama4_text"}),
        refusals=(FOURTH_STILL,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE,
        "uses hidden_size / num_attention_heads in some models, and only head_dim in others",
        f"{_SGLANG}/models/{{model}}.py",
        always(),
        refusals=(
            *for_keys(
                refused,
                "{} is a key of its own, which is not read here",
                ("rope_is_neox_style", "dual_chunk_attention_config"),
                lambda key, r: r.top.get(key),
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"its {r.model_type} does not find its columns without head_dim",
                when=lambda r: r.model_type in NEEDING_HEAD_DIM and lacking(r, "head_dim"),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its {r.model_type} takes hidden_size / num_attention_heads in place of "
                    "head_dim"
                ),
                when=lambda r: (
                    r.model_type in DIVIDED and r.config.get("head_dim") not in (None, divided(r))
                ),
            ),
            RuntimeRefusal(
                refused,
                f"it fails if {_SHARE} is null",
                when=lambda r: r.model_type in SHARES and r.config.get(_SHARE, 0) is None,
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
        "needs a list rope_theta, layer_types and partial_rotary_factors in Step 3.5",
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
                    f"what its {r.model_type} makes of {ORIGINAL} beside rope_scaling is not known"
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
                lambda r: f"what its {r.model_type} makes of them without rope_type is not known",
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
        "truncates the base to an integer",
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
        (STRETCHED | PLAIN | frozenset({"gemma3_text", "phi3", "phimoe"})) - NESTED_SHARE,
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
        STRETCHED | {"step3p5"},
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
        STRETCHED | MLA | {"step3p5"},
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "reads attn_factor instead of attention_factor; does not ignore an mscale of 0",
        f"{_SGLANG}/layers/rotary_embedding/yarn.py",
        sglang_yarn,
        STRETCHED | {"step3p5"},
        refusals=_YARN,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "ignores attention_factor and uses attn_factor · g(mscale)/g(mscale_all_dim); always "
        "truncates",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        lambda r: magnitude_ratio(r, NAME, stated(r, "attn_factor", "entry") or 1.0),
        MLA,
        refusals=_YARN,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "uses one fixed length, max_position_embeddings · factor",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        lambda r: {"seq_len": int(r.length * r.factor)},
        STRETCHED,
        refusals=(
            RuntimeRefusal(
                refused,
                "what it makes of alpha has no counterpart in rope-dynamic",
                when=lambda r: "alpha" in r.rope,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "uses short_mscale and long_mscale as amplitudes; ignores factor and attention_factor; "
        "switches to long factors one position later",
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
"""Its known differences, in the order in which they are applied."""
