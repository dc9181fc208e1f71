"""Differences of exllamav3 from transformers 5: it reads config.json itself.

Of a file it takes ``rope_theta`` at the top level before the one in ``rope_parameters``, and
``rope_scaling`` before ``rope_parameters``; what neither says is 10,000, one share of all columns,
no scaling, and a head of ``hidden_size`` over ``num_attention_heads``, whatever the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    LONGROPE,
    NO_BETA_OF_ZERO,
    ORIGINAL,
    SCALED,
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
    lacking,
    not_read,
    original_length,
    plain,
    refused,
    stated,
    yarn_weight,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


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
"""The class that stands for each model type, by which exllamav3 goes."""

_STRETCHED = frozenset({"rope", "rope-linear", "rope-yarn", "rope-llama3", "rope-dynamic"})
_WITHOUT = frozenset({"afmoe", "cohere2", "exaone4", "smollm3"})
MODEL_TYPES = {
    **dict.fromkeys(CLASSES, _STRETCHED),
    **dict.fromkeys(_WITHOUT, _STRETCHED | {"nope"}),
    "phi3": frozenset({"rope", "rope-longrope"}),
}
"""Those whose class was read, each with the schemes for which that was done."""

_NEEDED = {
    "afmoe": ("layer_types", "sliding_window"),
    "cohere2": ("layer_types", "sliding_window"),
    "exaone4": ("layer_types", "sliding_window"),
    "lfm2_moe": ("layer_types",),
    "olmo3": ("layer_types",),
    "smollm3": ("no_rope_layers",),
}
"""Keys by which a class tells its layers apart; without them it was not read."""
_FAILS_WITHOUT = {"afmoe": ("layer_types",), "gpt_oss": ("layer_types", "sliding_window")}
_SLIDING = frozenset({"full_attention", "sliding_attention"})
_KINDS = {
    **dict.fromkeys(("cohere2", "exaone4", "gemma3_text", "olmo3"), _SLIDING),
    "lfm2_moe": frozenset({"full_attention", "conv"}),
}
"""The layer types that a class knows, where it fails on others."""
_SCHEMES = {
    "linear": "rope-linear",
    "yarn": "rope-yarn",
    "llama3": "rope-llama3",
    "dynamic": "rope-dynamic",
    "longrope": "rope-longrope",
    "su": "rope-longrope",
}
_BASES = {"lfm2_moe": 1_000_000.0}
"""The base of a class where the file has none, where it is not 10,000."""
_BY_TYPE = ("gemma3_text", "olmo3")
"""Those whose rope objects transformers keeps by layer type."""
_SHARE = "partial_rotary_factor"


def _unknown_kinds(reading: LayerReading) -> str | None:
    """The first layer type that a class does not know."""
    kinds = () if reading.prefix else reading.config.get("layer_types") or ()
    unknown = sorted({*kinds} - _KINDS.get(reading.model_type, {*kinds}))
    return f"its {reading.model_type} fails on layer_types {unknown[0]}" if unknown else None


def _object(reading: LayerReading) -> Mapping[str, Any]:
    """The object that it takes for that of every layer, empty without one."""
    old, new = (reading.config.get(key) for key in ("rope_scaling", "rope_parameters"))
    return old or new or (reading.rope if not reading.config else {})


def _is_for_all(reading: LayerReading, whole: Mapping[str, Any]) -> bool:
    """Whether a rope object is not by layer type."""
    new = whole is reading.config.get("rope_parameters")
    return "rope_theta" in whole or (new and bool({"rope_type", "type"} & {*whole}))


def exllama_container(reading: LayerReading) -> Changes:
    """The base and the scaling, as far as it finds them.

    Raises: InvalidInput.
    """
    whole, kind = _object(reading), reading.model_type
    if kind == "gemma3_text":
        return _gemma(reading, whole)
    changes: dict[str, Any] = {"base": _base(reading, whole, _BASES.get(kind, 10_000.0))}
    named = whole.get("rope_type") or whole.get("type") or "default"
    lost = _SCHEMES.get(named, "rope") != reading.scheme
    return {**(plain(reading) if lost else {}), **changes}


def _base(reading: LayerReading, whole: Mapping[str, Any], otherwise: float) -> float:
    """The base (radians) of the top level, else of ``rope_parameters``."""
    if not reading.config:
        return float(reading.params.get("base", otherwise))
    own = "rope_theta" in whole and whole is reading.config.get("rope_parameters")
    return stated(reading, "rope_theta", *(("top", "entry") if own else ("top",))) or otherwise


def _gemma(reading: LayerReading, whole: Mapping[str, Any]) -> Changes:
    """Gemma 3: sliding layers rotate plainly by 10,000, and no object by layer type is read."""
    slides = reading.layer_type == "sliding_attention"
    if whole and whole is reading.config.get("rope_parameters"):
        base = _LOCAL_BASE if slides else stated(reading, "rope_theta", "top") or _GLOBAL_BASE
        return {**plain(reading), "base": base}
    return {"base": _LOCAL_BASE} if slides else {}


_LOCAL_BASE = 10_000.0
_GLOBAL_BASE = 1_000_000.0


def _columns(reading: LayerReading) -> int:
    """The columns of a head, of which a share rotates."""
    if not reading.config or reading.model_type == "gemma3_text":
        return int(reading.params["dim"])
    if reading.model_type == "deepseek_v3":
        return _needed(reading, "qk_rope_head_dim")
    hidden, heads = (_needed(reading, key) for key in ("hidden_size", "num_attention_heads"))
    own = reading.top.count("head_dim")
    return int(own.value) if own else hidden // heads


def _needed(reading: LayerReading, key: str) -> int:
    """A whole number without which it fails."""
    count = reading.top.count(key)
    if count is None:
        raise refused(NAME, f"it fails if {key} is missing")
    return int(count.value)


def exllama_share(reading: LayerReading) -> Changes:
    """The share that the file states, for every model; all columns where it states none.

    Raises: InvalidInput where it makes no pairs.
    """
    turned = reading.top.count("rotary_dim") if reading.model_type == "minimax_m2" else None
    if turned is not None:
        return _turning(reading, turned.value / _columns(reading), str(turned.source))
    places = ("top", "entry") if reading.container == "rope_parameters" else ("top",)
    return _turning(reading, stated(reading, _SHARE, *places) or 1.0, _SHARE)


def _turning(reading: LayerReading, share: float, source: str) -> Changes:
    if share == reading.params.get("partial", 1.0):
        return {}
    check_share(NAME, source, share, _columns(reading))
    return {"partial": share}


def exllama_yarn(reading: LayerReading) -> Changes:
    """The factor is the context over the original length, where the object has that.

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
    """Phi-3's factors are chosen once, by the context, and s is of the two contexts."""
    context = _context(reading)
    return {
        "factor": None,
        ORIGINAL: original_length(reading, NAME, "entry", "top"),
        "max_position_embeddings": context,
        "attention_factor": None,
        "seq_len": context,
    }


def _context(reading: LayerReading) -> int:
    """The context that the file states; a model's own is none to it."""
    return _needed(reading, "max_position_embeddings") if reading.config else reading.length


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
        "chooses the class by architectures, and fails on dynamic",
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
                    f"architectures {r.config['architectures']}: it goes by one class, which is "
                    f"{CLASSES[r.model_type]} here"
                ),
                when=lambda r: (
                    r.config.get("architectures") is not None
                    and r.config["architectures"] != [CLASSES[r.model_type]]
                ),
            ),
            RuntimeRefusal(
                refused, lambda r: fails_without(r, *_FAILS_WITHOUT.get(r.model_type, ()))
            ),
            RuntimeRefusal(refused, _unknown_kinds),
            RuntimeRefusal(
                not_read,
                lambda r: f"{r.model_type} without {lacking(r, *_NEEDED[r.model_type])}",
                when=lambda r: lacking(r, *_NEEDED.get(r.model_type, ())),
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
                f"{_SHARE} in Gemma 3",
                when=lambda r: (
                    r.model_type == "gemma3_text" and r.config.get(_SHARE) not in (None, 1)
                ),
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"mscale_all_dim beside {r.scheme} in DeepSeek",
                when=lambda r: (
                    r.model_type == "deepseek_v3"
                    and r.scheme != "rope-yarn"
                    and _object(r).get("mscale_all_dim")
                ),
            ),
            RuntimeRefusal(
                refused, "it knows no rope type dynamic", when=lambda r: r.scheme == "rope-dynamic"
            ),
            RuntimeRefusal(
                refused,
                lambda r: fails_on_null(r, "beta_fast", "beta_slow"),
                when=lambda r: r.scheme == "rope-yarn",
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"rope_parameters of {r.model_type} that are for all layers",
                when=lambda r: r.model_type in _BY_TYPE and _is_for_all(r, _object(r)),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"it goes by the type of {r.model_type}'s rope_scaling, transformers does not"
                ),
                when=lambda r: (
                    r.model_type in _BY_TYPE and {"rope_type", "type"} & {*_object(r)} == {"type"}
                ),
            ),
            RuntimeRefusal(
                not_read,
                "a Gemma 3 with images whose full layers are not every sixth",
                when=lambda r: r.model_type == "gemma3_text" and r.prefix and not full_every(r, 6),
            ),
            RuntimeRefusal(
                not_read,
                f"minimax_m2 without rotary_dim and {_SHARE}",
                when=lambda r: (
                    r.model_type == "minimax_m2"
                    and lacking(r, "rotary_dim")
                    and lacking(r, _SHARE)
                    and (r.container != "rope_parameters" or r.rope.get(_SHARE) is None)
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
        "uses hidden_size / num_attention_heads if head_dim is missing, for every model",
        f"{_EXLLAMA}/architecture/{{model}}.py",
        lambda r: {"dim": _columns(r)},
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | LONGROPE,
        "rotates the share of partial_rotary_factor, or whole heads, for every model",
        f"{_EXLLAMA}/model/config.py",
        exllama_share,
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED | LONGROPE,
        "prefers top-level rope_theta; ignores objects by layer type; default base 10000",
        f"{_EXLLAMA}/model/config.py",
        exllama_container,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        YARN,
        "replaces factor by max_position_embeddings / the rope object's original length, if it "
        "has one; reads mscale only for DeepSeek",
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
        "chooses short or long factors once, by the context (here seq_len); prefers the rope "
        "object's original length; ignores factor and attention_factor",
        f"{_EXLLAMA}/util/rope.py",
        exllama_longrope,
    ),
)
"""Its known differences, in the order in which they are applied."""
