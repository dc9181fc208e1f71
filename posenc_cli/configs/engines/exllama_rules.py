"""Differences of exllamav3 from transformers 5: it reads config.json itself.

It prefers a top-level ``rope_theta`` to the one in ``rope_parameters``, and ``rope_scaling`` to
``rope_parameters``. Its defaults are the same for every model: base 10,000, whole heads, no
scaling, and the head size ``hidden_size / num_attention_heads``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    LONGROPE,
    NO_BETA_OF_ZERO,
    ORIGINAL,
    SCALED,
    SHARE,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    check_share,
    fails_on_null,
    fails_without,
    full_every,
    missing_key,
    not_read,
    original_length,
    plain,
    refused,
    stated,
    yarn_weight,
)

NAME = "exllamav3"
_OWN_CLASSES = {
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "ernie4_5": "Ernie4_5_ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "solar_open": "SolarOpenForCausalLM",
}
CLASSES = _OWN_CLASSES | {
    name: f"{name.title()}ForCausalLM"
    for name in (
        *("afmoe", "apertus", "arcee", "cohere", "cohere2", "dots1", "exaone4", "gemma2", "glm4"),
        *("llama", "ministral3", "mistral", "mixtral", "olmo3", "phi3", "qwen2", "qwen3"),
    )
}
"""The class of each model type, by which exllamav3 chooses the architecture."""

_SOME_UNROTATED = frozenset({"afmoe", "cohere2", "exaone4", "smollm3"})
MODEL_TYPES = {
    **dict.fromkeys(CLASSES, SCALED),
    **dict.fromkeys(_SOME_UNROTATED, SCALED | {"nope"}),
    "phi3": frozenset({"rope", "rope-longrope"}),
}
"""Models whose class was read, each with the schemes that were read."""

_NEEDED = {
    "afmoe": ("layer_types", "sliding_window"),
    "cohere2": ("layer_types", "sliding_window"),
    "exaone4": ("layer_types", "sliding_window"),
    "lfm2_moe": ("layer_types",),
    "olmo3": ("layer_types",),
    "smollm3": ("no_rope_layers",),
}
"""Keys by which a class distinguishes its layers; files without them were not read."""
_FAILS_WITHOUT = {"afmoe": ("layer_types",), "gpt_oss": ("layer_types", "sliding_window")}
_SLIDING = frozenset({"full_attention", "sliding_attention"})
_LAYER_TYPES = {
    **dict.fromkeys(("cohere2", "exaone4", "gemma3_text", "olmo3"), _SLIDING),
    "lfm2_moe": frozenset({"full_attention", "conv"}),
}
"""The layer types of a class that fails on others."""
_SCHEMES = {
    "linear": "rope-linear",
    "yarn": "rope-yarn",
    "llama3": "rope-llama3",
    "dynamic": "rope-dynamic",
    "longrope": "rope-longrope",
    "su": "rope-longrope",
}
_BASES = {"lfm2_moe": 1_000_000.0}
"""A class's default base if it is not 10,000."""
_BY_TYPE = ("gemma3_text", "olmo3")
"""Models for which transformers keeps a rope object per layer type."""
_OF_ALL_LAYERS = {"rope_theta", "rope_type", "type"}
"""Keys of rope_parameters that hold for all layers, not for one layer type."""


def _layer_type_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for the first layer type that a class does not have, or None."""
    kinds = () if reading.prefix else reading.config.get("layer_types") or ()
    unknown = sorted({*kinds} - _LAYER_TYPES.get(reading.model_type, {*kinds}))
    return f"its {reading.model_type} fails on layer_types {unknown[0]}" if unknown else None


def _rope_object(reading: LayerReading) -> Mapping[str, Any]:
    """Return the rope object that it uses for every layer, empty without one."""
    old, new = (reading.config.get(key) for key in ("rope_scaling", "rope_parameters"))
    return old or new or (reading.rope if not reading.config else {})


def exllama_container(reading: LayerReading) -> Changes:
    """Return the base and the scaling that it finds.

    Raises: InvalidInput.
    """
    whole, kind = _rope_object(reading), reading.model_type
    if kind == "gemma3_text":
        return _gemma_changes(reading, whole)
    changes: dict[str, Any] = {"base": _base(reading, whole, _BASES.get(kind, 10_000.0))}
    named = whole.get("rope_type") or whole.get("type") or "default"
    return {**(plain(reading) if _SCHEMES.get(named, "rope") != reading.scheme else {}), **changes}


def _base(reading: LayerReading, whole: Mapping[str, Any], default: float) -> float:
    """Return the top-level base, that of ``rope_parameters``, or the default."""
    if not reading.config:
        return float(reading.params.get("base", default))
    own = "rope_theta" in whole and whole is reading.config.get("rope_parameters")
    return stated(reading, "rope_theta", *(("top", "entry") if own else ("top",))) or default


def _gemma_changes(reading: LayerReading, whole: Mapping[str, Any]) -> Changes:
    """Return Gemma 3's changes.

    Sliding layers use base 10,000 without scaling, and objects per layer type are ignored.
    """
    slides = reading.layer_type == "sliding_attention"
    if whole and whole is reading.config.get("rope_parameters"):
        base = _LOCAL_BASE if slides else stated(reading, "rope_theta", "top") or _GLOBAL_BASE
        return {**plain(reading), "base": base}
    return {"base": _LOCAL_BASE} if slides else {}


_LOCAL_BASE = 10_000.0
_GLOBAL_BASE = 1_000_000.0


def _head_size(reading: LayerReading) -> int:
    """Return the head size, before a share of it rotates.

    Raises: InvalidInput if a key is missing.
    """
    if not reading.config or reading.model_type == "gemma3_text":
        return int(reading.params["dim"])
    if reading.model_type == "deepseek_v3":
        return _required_count(reading, "qk_rope_head_dim")
    hidden, heads = (
        _required_count(reading, key) for key in ("hidden_size", "num_attention_heads")
    )
    own = reading.top.count("head_dim")
    return int(own.value) if own else hidden // heads


def _required_count(reading: LayerReading, key: str) -> int:
    """Return an integer that exllamav3 requires.

    Raises: InvalidInput if it is missing.
    """
    count = reading.top.count(key)
    if count is None:
        raise refused(NAME, f"it fails if {key} is missing")
    return int(count.value)


def exllama_share(reading: LayerReading) -> Changes:
    """Return the share that the file states, for every model; whole heads if it states none.

    Raises: InvalidInput if it does not give whole pairs.
    """
    rotary_dim = reading.top.count("rotary_dim") if reading.model_type == "minimax_m2" else None
    if rotary_dim is not None:
        return _share_changes(
            reading, rotary_dim.value / _head_size(reading), str(rotary_dim.source)
        )
    places = ("top", "entry") if reading.container == "rope_parameters" else ("top",)
    return _share_changes(reading, stated(reading, SHARE, *places) or 1.0, SHARE)


def _share_changes(reading: LayerReading, share: float, source: str) -> Changes:
    if share == reading.params.get("partial", 1.0):
        return {}
    check_share(NAME, source, share, _head_size(reading))
    return {"partial": share}


def exllama_yarn(reading: LayerReading) -> Changes:
    """Return YaRN, with factor context / original length if the rope object has that length.

    Raises: InvalidInput.
    """
    own, context = reading.entry.count(ORIGINAL), _context(reading)
    original = own.value if own else context
    weight, all_dim = (yarn_weight(reading, name) for name in ("mscale", "mscale_all_dim"))
    ratio = reading.model_type == "deepseek_v3" and weight and all_dim
    quotient = context / original if own else reading.factor
    if reading.model_type == "deepseek_v3" and all_dim and quotient != reading.factor:
        raise not_read(NAME, "DeepSeek's scores where factor is not the quotient of the lengths")
    temperature = 1.0 if reading.rope.get("llama_4_scaling_beta") else None
    changes: dict[str, Any] = {
        ORIGINAL: original,
        "factor": quotient,
        "truncate": False if reading.rope.get("truncate") is False else None,
        "attention_factor": stated(reading, "attention_factor", "entry") or temperature,
    }
    return changes if ratio else {**changes, "mscale": None, "mscale_all_dim": None}


def exllama_longrope(reading: LayerReading) -> Changes:
    """Return Phi-3's factors, chosen once by the context, with s from the two contexts."""
    context = _context(reading)
    return {
        "factor": None,
        ORIGINAL: original_length(reading, NAME, "entry", "top"),
        "max_position_embeddings": context,
        "attention_factor": None,
        "seq_len": context,
    }


def _context(reading: LayerReading) -> int:
    """Return the context that the file states; a default of the model type is not used.

    Raises: InvalidInput if it is missing.
    """
    return _required_count(reading, "max_position_embeddings") if reading.config else reading.length


_EXLLAMA = f"{HUB}/turboderp-org/exllamav3/blob/v1.4.1/exllamav3"

RUNTIME = Runtime(
    NAME,
    "1.4.1",
    MODEL_TYPES,
    {
        "gemma3_text": "gemma3",
        "seed_oss": "seedoss",
        "solar_open": "solar_open_moe",
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_EXLLAMA}/util/rope.py",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE,
        "chooses the model class by architectures, and fails on rope type dynamic",
        f"{_EXLLAMA}/util/rope.py",
        always(),
        refusals=(
            RuntimeRefusal(
                not_read,
                lambda r: f"{r.model_type} as the text model of another",
                when=lambda r: r.prefix and r.model_type != "gemma3_text",
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"architectures {r.config['architectures']}: of its classes for this model "
                    f"type, only {CLASSES[r.model_type]} was checked"
                ),
                when=lambda r: (
                    r.config.get("architectures") is not None
                    and r.config["architectures"] != [CLASSES[r.model_type]]
                ),
            ),
            RuntimeRefusal(
                refused, lambda r: fails_without(r, *_FAILS_WITHOUT.get(r.model_type, ()))
            ),
            RuntimeRefusal(refused, _layer_type_refusal_text),
            RuntimeRefusal(
                not_read,
                lambda r: f"{r.model_type} without {missing_key(r, *_NEEDED[r.model_type])}",
                when=lambda r: missing_key(r, *_NEEDED.get(r.model_type, ())),
            ),
            RuntimeRefusal(
                not_read,
                "rope_scaling beside rope_parameters",
                when=lambda r: (
                    r.config.get("rope_scaling") is not None
                    and r.config.get("rope_parameters") is not None
                ),
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"rotary_dim in {r.model_type}",
                when=lambda r: (
                    r.config.get("rotary_dim") is not None and r.model_type != "minimax_m2"
                ),
            ),
            RuntimeRefusal(
                not_read,
                f"{SHARE} in Gemma 3",
                when=lambda r: (
                    r.model_type == "gemma3_text" and r.config.get(SHARE) not in (None, 1)
                ),
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"mscale_all_dim beside {r.scheme} in DeepSeek",
                when=lambda r: (
                    r.model_type == "deepseek_v3"
                    and r.scheme != "rope-yarn"
                    and _rope_object(r).get("mscale_all_dim")
                ),
            ),
            RuntimeRefusal(
                refused,
                "it does not support rope type dynamic",
                when=lambda r: r.scheme == "rope-dynamic",
            ),
            RuntimeRefusal(
                refused,
                lambda r: fails_on_null(r, "beta_fast", "beta_slow"),
                when=lambda r: r.scheme == "rope-yarn",
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"rope_parameters of {r.model_type} that are for all layers",
                when=lambda r: (
                    r.model_type in _BY_TYPE
                    and {*_rope_object(r)}
                    & ({"rope_theta"} if r.scaling or not r.config else _OF_ALL_LAYERS)
                ),
            ),
            RuntimeRefusal(
                refused,
                lambda r: f"it reads type in {r.model_type}'s rope_scaling; transformers does not",
                when=lambda r: (
                    r.model_type in _BY_TYPE
                    and {"rope_type", "type"} & {*_rope_object(r)} == {"type"}
                ),
            ),
            RuntimeRefusal(
                not_read,
                "a Gemma 3 with images whose full layers are not every sixth",
                when=lambda r: r.model_type == "gemma3_text" and r.prefix and not full_every(r, 6),
            ),
            RuntimeRefusal(
                not_read,
                f"minimax_m2 without rotary_dim and {SHARE}",
                when=lambda r: (
                    r.model_type == "minimax_m2"
                    and missing_key(r, "rotary_dim")
                    and missing_key(r, SHARE)
                    and (r.container != "rope_parameters" or r.rope.get(SHARE) is None)
                ),
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"llama_4_scaling_beta in {r.model_type}",
                when=lambda r: (
                    r.scheme == "rope-yarn"
                    and r.rope.get("llama_4_scaling_beta")
                    and r.model_type != "ministral3"
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED | LONGROPE,
        "uses hidden_size / num_attention_heads for every model without head_dim",
        f"{_EXLLAMA}/architecture/{{model}}.py",
        lambda r: {"dim": _head_size(r)},
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | LONGROPE,
        "applies partial_rotary_factor to every model, and rotates whole heads by default",
        f"{_EXLLAMA}/model/config.py",
        exllama_share,
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED | LONGROPE,
        "prefers the top-level rope_theta, and ignores rope objects of layer types. The default "
        "base is 10000",
        f"{_EXLLAMA}/model/config.py",
        exllama_container,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        YARN,
        "reads mscale only for DeepSeek. If the rope object has an original length, it computes "
        "the factor as max_position_embeddings / original length",
        f"{_EXLLAMA}/util/rope.py",
        exllama_yarn,
    ),
    RuntimeDifference(
        NAME,
        "original length",
        frozenset({"rope-llama3"}),
        "uses 8192 if the rope object has no original length",
        f"{_EXLLAMA}/util/rope.py",
        lambda r: {ORIGINAL: original_length(r, NAME, "entry", 8192)},
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses short or long factors once, by the context (here seq_len). It prefers the rope "
        "object's original length, and ignores factor and attention_factor",
        f"{_EXLLAMA}/util/rope.py",
        exllama_longrope,
    ),
)
"""exllamav3's known differences, in the order in which they apply."""
