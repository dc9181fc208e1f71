"""Differences of transformers 4.50 to 4.57 from transformers 5.

All read only ``rope_theta`` and ``rope_scaling``; from 4.52 on, the original length comes from the
rope object. YaRN changed twice: 4.55 added ``truncate``, and 4.56 no longer replaces the factor by
the ratio of the two contexts.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    LONGROPE,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    always_truncated,
    fails_on_null,
    nested_truncate,
    null_is_plain,
    of_types,
    original_length,
    refused,
    stated,
    stated_share,
)

SPANS = {
    "transformers-4.57": "4.56.2 to 4.57.6",
    "transformers-4.55": "4.55.4",
    "transformers-4.54": "4.52.4 to 4.54.1",
}
"""The engines, named after the newest version, and the versions that were run and read alike."""
RUN_WITH_ALL_TYPES = (
    *("cohere", "deepseek_v3", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt_neox"),
    *("granite", "llama", "mistral", "mixtral", "phi", "qwen2", "qwen2_moe", "qwen3"),
    *("qwen3_moe", "stablelm", "starcoder2"),
)
"""Model types whose classes were run with every rope type."""
_WITHOUT_HEAD_DIM = ("mistral", "mixtral")
"""Models whose config leaves head_dim None, on which yarn and dynamic then fail."""

_OLD = "transformers-4.50"
_ADDED_MODELS = {
    _OLD: (
        "align altclip aria aya_vision blip blip-2 bridgetower chinese_clip clap clip clipseg "
        "colpali emu3 flava fuyu gemma3 got_ocr2 grounding-dino groupvit idefics2 idefics3 "
        "instructblip instructblipvideo llava llava_next llava_next_video llava_onevision "
        "mistral3 mllama omdet-turbo owlv2 owlvit paligemma qwen2_5_vl qwen2_audio qwen2_vl "
        "shieldgemma2 siglip siglip2 smolvlm video_llava vipllava vision-text-dual-encoder "
        "xclip "
    ),
    "transformers-4.54": (
        "aimv2 colqwen2 deepseek_vl deepseek_vl_hybrid gemma3n glm4v granite_speech internvl "
        "janus llama4 perception_lm qwen2_5_omni t5gemma voxtral "
    ),
    "transformers-4.55": ("cohere2_vision mm-grounding-dino "),
    "transformers-4.57": (
        "florence2 glm4v_moe lfm2_vl metaclip_2 ovis2 qwen3_omni_moe qwen3_vl qwen3_vl_moe "
    ),
}
"""The outer models of a text model that each version adds to those of the versions before.

Source: CONFIG_MAPPING_NAMES of models/auto/configuration_auto.py.
"""


def _outer_models(runtime: str) -> frozenset[str]:
    versions = list(_ADDED_MODELS)[: list(_ADDED_MODELS).index(runtime) + 1]
    return frozenset(name for version in versions for name in _ADDED_MODELS[version].split())


_NEED_ROPE_TYPE = ("cohere", "granite", "gemma3_text")
_PHI3_SCALING, _PHI3_NEEDS = {"type", "short_factor", "long_factor"}, "needs a type and two factors"


def _scaling_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for a ``rope_scaling`` on which transformers 4 fails, or None."""
    scaling = reading.config.get("rope_scaling", reading.rope or None)
    if scaling is None:
        return None
    names, kind = set(scaling), reading.model_type
    usual = names == {"type", "factor"} and scaling["type"] in ("linear", "dynamic")
    if kind == "olmo2" and not usual:
        return "its OLMo 2 reads only a rope_scaling of type and factor, linear or dynamic"
    if kind in _NEED_ROPE_TYPE and "rope_type" not in names:
        return f"its {kind} fails on a rope_scaling without rope_type"
    if kind != "phi3" or (len(names) == len(_PHI3_SCALING) and "type" in names):
        return None
    extra = sorted(names - _PHI3_SCALING)
    return f"its Phi-3 {f'takes no {extra[0]} in rope_scaling' if extra else _PHI3_NEEDS}"


_CONTAINER_REFUSALS: tuple[RuntimeRefusal, ...] = (
    RuntimeRefusal(
        refused,
        (
            "it does not know the key rope_parameters: it would use the default base of its "
            "class and no scaling"
        ),
        when=lambda r: r.container == "rope_parameters",
    ),
    RuntimeRefusal(refused, _scaling_refusal_text),
)
"""Refusals of every version: all read only ``rope_theta`` and ``rope_scaling``."""
_SPAN_REFUSALS: tuple[RuntimeRefusal, ...] = (
    *_CONTAINER_REFUSALS,
    RuntimeRefusal(
        refused,
        lambda r: f"partial_rotary_factor makes its {r.model_type} fail",
        when=lambda r: r.scheme == "rope" and stated_share(r),
    ),
    RuntimeRefusal(
        refused,
        "its Cohere has another base where rope_theta is missing",
        when=lambda r: r.model_type == "cohere" and r.config and r.top.number("rope_theta") is None,
    ),
    RuntimeRefusal(
        refused,
        lambda r: f"its {r.model_type} fails on this scaling without head_dim",
        when=lambda r: (
            r.model_type in _WITHOUT_HEAD_DIM
            and r.scheme in ("rope-yarn", "rope-dynamic")
            and r.config
            and r.top.count("head_dim") is None
        ),
    ),
)


def span_yarn(reading: LayerReading, *, runtime: str) -> Changes:
    """Return YaRN with the rope object's original length, or the context without one.

    Before 4.56, the factor is the ratio of the two contexts.

    Raises: InvalidInput.
    """
    entry, implicit = reading.entry, runtime != "transformers-4.57"
    kind = reading.model_type
    if kind == "gpt_oss" and implicit and "rope_scaling" not in reading.config:
        return {ORIGINAL: reading.length}  # the object of its own has no length there
    own = entry.count(ORIGINAL)
    nulls = [ORIGINAL] if implicit else []
    if own is None or not implicit:
        nulls.append("factor")
    if kind == "deepseek_v3":
        nulls += ["factor", "beta_fast", "beta_slow"]
    if why := fails_on_null(reading, *nulls):
        raise refused(runtime, why)
    changes: dict[str, Any] = {ORIGINAL: own.value if own else reading.length}
    if implicit and own:
        changes["factor"] = reading.length / own.value
    if runtime == "transformers-4.54":
        changes |= always_truncated(reading)
    elif kind == "gemma3_text":
        changes |= nested_truncate(reading)
    return changes


def old_yarn(reading: LayerReading) -> Changes:
    """Return YaRN of transformers 4.50: no mscale, always truncated, ramp from the context."""
    amplitude = stated(reading, "attention_factor", "entry")
    if amplitude is None and reading.factor < 1:  # without the guard that later versions have
        amplitude = 0.1 * math.log(reading.factor) + 1.0
    return {
        "original_max_position_embeddings": reading.length,
        "mscale": None,
        "mscale_all_dim": None,
        **always_truncated(reading),
        "attention_factor": amplitude,
    }


_TAGS = f"{HUB}/huggingface/transformers/blob"
_YARN_REMARKS = {
    "transformers-4.57": "",
    "transformers-4.55": (
        ". Otherwise, it computes the factor as max_position_embeddings / original length"
    ),
    "transformers-4.54": (
        ". Otherwise, it computes the factor as max_position_embeddings / original length. It "
        "always truncates"
    ),
}
"""YaRN's other differences in each version, as texts."""


def _differences_of_span(runtime: str) -> tuple[RuntimeDifference, ...]:
    """Return the differences that a span of versions shares."""
    folder = f"{_TAGS}/v{SPANS[runtime].split()[-1]}/src/transformers"
    null = RuntimeDifference(
        runtime,
        "scaling",
        YARN,
        "treats a null rope_scaling as no scaling",
        f"{folder}/models/gpt_oss/configuration_gpt_oss.py",
        null_is_plain,
        frozenset({"gpt_oss"}),
    )
    return (
        RuntimeDifference(
            runtime,
            "container",
            SCALED | LONGROPE,
            "reads rope_theta and rope_scaling only",
            f"{folder}/models/llama/configuration_llama.py",
            always(),
            refusals=_SPAN_REFUSALS,
        ),
        *([] if runtime == "transformers-4.54" else [null]),
        RuntimeDifference(
            runtime,
            "original length",
            frozenset({"rope-llama3"}),
            "reads the original length only from the rope object",
            f"{folder}/modeling_rope_utils.py",
            lambda r: {ORIGINAL: original_length(r, runtime, "entry")},
        ),
        RuntimeDifference(
            runtime,
            "original length",
            YARN,
            "uses max_position_embeddings as the original length if the rope object has none"
            + _YARN_REMARKS[runtime],
            f"{folder}/modeling_rope_utils.py",
            partial(span_yarn, runtime=runtime),
        ),
    )


_OLD_FOLDER = f"{_TAGS}/v4.50.3/src/transformers"

RUNTIMES = (
    *(
        Runtime(
            name,
            version,
            {
                **of_types(SCALED, *RUN_WITH_ALL_TYPES),
                **of_types(PLAIN_ROPE | {"rope-longrope"}, "phi3"),
                **(
                    of_types(frozenset({"rope-yarn"}), "gpt_oss")
                    if name != "transformers-4.54"
                    else {}
                ),
            },
            around=_outer_models(name),
        )
        for name, version in SPANS.items()
    ),
    Runtime(
        _OLD,
        "4.50.3",
        {
            **of_types(SCALED, "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "olmo2"),
            **of_types(SCALED, "gemma", "gemma2", "gemma3_text", "cohere", "starcoder2"),
            **of_types(PLAIN_ROPE | {"rope-longrope"}, "phi3"),
            **of_types(SCALED, "gpt_neox", "phi", "stablelm", "granite"),
        },
        around=_outer_models(_OLD),
    ),
)

DIFFERENCES = (
    *(difference for runtime in SPANS for difference in _differences_of_span(runtime)),
    RuntimeDifference(
        _OLD,
        "container",
        SCALED | LONGROPE,
        "reads rope_theta and rope_scaling only",
        f"{_OLD_FOLDER}/models/llama/configuration_llama.py",
        always(),
        refusals=(
            *_CONTAINER_REFUSALS,
            RuntimeRefusal(
                refused,
                "partial_rotary_factor makes its Llama fail",
                when=lambda r: r.scheme == "rope" and stated_share(r),
            ),
        ),
    ),
    RuntimeDifference(
        _OLD,
        "original length",
        YARN,
        "always truncates, ignores mscale, and computes the ramp from max_position_embeddings",
        f"{_OLD_FOLDER}/modeling_rope_utils.py",
        old_yarn,
    ),
    RuntimeDifference(
        _OLD,
        "fields",
        LONGROPE,
        "accepts only a mapping of type, short_factor and long_factor",
        f"{_OLD_FOLDER}/models/phi3/configuration_phi3.py",
        always(),
        frozenset({"phi3"}),
        refusals=(RuntimeRefusal(refused, _scaling_refusal_text),),
    ),
)
"""The known differences of transformers 4, in the order in which they apply."""
