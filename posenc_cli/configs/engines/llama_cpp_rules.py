"""Differences of llama.cpp from transformers 5: its converter and its loader.

The converter reads a config as transformers 4.57 does, and each of its classes writes its own keys.
Some write neither base nor scaling, and the loader then uses base 10,000 without scaling.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    BY_INTERVAL,
    DEEPSEEK,
    DYNAMIC,
    EXTRAPOLATED,
    FOURTH_UNROTATED,
    HUB,
    LONGROPE,
    MIMO_KEYS,
    NO_BETA_OF_ZERO,
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
    any_share,
    check_share,
    dimensions_per_head,
    divided_head,
    for_keys,
    full_layers,
    longrope_from_contexts,
    mimo_changes,
    mimo_refusals,
    missing_key,
    not_read,
    null_is_plain,
    of_types,
    other_layers,
    plain,
    refused,
    stated,
    stated_base,
    yarn_weight,
)
from posenc_cli.configs.keys import first
from posenc_cli.records import replace

NAME = "llama.cpp"
BASE = 10_000.0
"""The loader's base for a file without one."""
_ROPE_OBJECTS = ("rope_parameters", "rope_scaling")
_ORIGINALS = {"phi3": 4096}
"""The original length that transformers 4.57.6 gives the converter for a config without one."""
_LLAMA3_ORIGINAL = 8192
"""The converter's own default for the original length of Llama 3's rule."""
_NEMOTRON_WIDTH, _NEMOTRON_HEADS = 6144, 48
"""The config class's defaults for hidden_size and num_attention_heads."""
_MPT_BIAS_MAX = 8
"""The default alibi_bias_max: transformers' last slope of an MPT is 2^-8."""
_EXAONE4_LAYERS, _EXAONE4_SLIDING_LAYERS = 32, 64
"""The default number of layers of an EXAONE 4, and that of the model with sliding layers."""


def _null_rope_parameters(reading: LayerReading) -> bool:
    """Return whether ``rope_parameters`` is null or empty beside a ``rope_scaling``.

    The converter prefers the key ``rope_parameters``, even if it is null.
    """
    new, old = (reading.config.get(key) for key in _ROPE_OBJECTS)
    return "rope_parameters" in reading.config and not new and bool(old)


def _ignores_yarn(reading: LayerReading) -> bool:
    """Return whether the converter ignores YaRN, which it does if the factor is null."""
    null = reading.entry.has("factor") and reading.rope["factor"] is None
    return reading.scheme == "rope-yarn" and null


def _original_length(reading: LayerReading) -> int | None:
    """Return the original length from the rope object, the top level, or a default."""
    objects = reading.config.get(reading.container or "rope_scaling") or {}
    by_type = any(f"{kind}_attention" in objects for kind in ("full", "sliding"))
    places = (reading.entry,) if by_type else (reading.entry, reading.top)
    found = first(*(place.count(ORIGINAL) for place in places))
    default = (
        _LLAMA3_ORIGINAL if reading.scheme == "rope-llama3" else _ORIGINALS.get(reading.model_type)
    )
    return int(found.value) if found else default


_WITHOUT_ORIGINAL = (
    RuntimeRefusal(
        refused,
        f"its converter fails if {ORIGINAL} is null",
        when=lambda r: not _ignores_yarn(r) and r.rope.get(ORIGINAL, 0) is None,
    ),
    RuntimeRefusal(
        refused,
        f"its converter fails if {ORIGINAL} is missing",
        when=lambda r: not _ignores_yarn(r) and _original_length(r) is None,
    ),
)
_YARN_WITHOUT_ORIGINAL = tuple(
    replace(
        each,
        when=lambda r, each=each: (
            r.scheme == "rope-yarn" and not _null_rope_parameters(r) and each.when(r)
        ),
    )
    for each in _WITHOUT_ORIGINAL
)
"""Refusals of YaRN without an original length, which the converter needs even if it writes no
scaling.
"""


def llama_cpp_original(reading: LayerReading) -> Changes:
    """Return the original length as the converter reads it: the rope object comes first."""
    has_length = ORIGINAL in reading.params and not _ignores_yarn(reading)
    return {ORIGINAL: _original_length(reading)} if has_length else {}


def llama_cpp_cohere(reading: LayerReading) -> Changes:
    """Return Cohere's changes: its class writes only the base, no scaling.

    Without a stated base, it is transformers 4.57's default of 10,000.
    """
    places = ("top", "entry") if reading.container == "rope_parameters" else ("top",)
    base = {} if stated(reading, "rope_theta", *places) or not reading.config else {"base": BASE}
    return base if reading.scheme == "rope" else {**plain(reading), **base}


def llama_cpp_cohere2(reading: LayerReading) -> Changes:
    """Return Cohere 2's changes: its class writes the share ``rotary_pct`` and no scaling."""
    if reading.scheme == "nope":
        return {}
    rotary_pct, dim = stated(reading, "rotary_pct", "top"), reading.params["dim"]
    head_size = dimensions_per_head(reading) or dim
    share = _share_of_head(int(head_size * rotary_pct), dim) if rotary_pct else {}
    return share if reading.scheme == "rope" else {**plain(reading), **share}


def llama_cpp_nemotron(reading: LayerReading) -> Changes:
    """Return Nemotron's changes: any factor is linear, and the share applies to the whole width.

    Raises: InvalidInput.
    """
    dim = reading.params["dim"]
    hidden, heads = map(reading.top.count, ("hidden_size", "num_attention_heads"))
    width = hidden.value if hidden else _NEMOTRON_WIDTH
    rotary_dim = int(reading.params.get("partial", 1.0) * width)
    rotary_dim //= heads.value if heads else _NEMOTRON_HEADS
    share = _share_of_head(rotary_dim, dim) if reading.config else {}
    factor = stated(
        reading, "factor", *(("top",) if _null_rope_parameters(reading) else ("top", "entry"))
    )
    linear = {"scheme": "rope-linear", "factor": factor} if factor else {}
    return {**plain(reading), **share, **linear}


def llama_cpp_minimax(reading: LayerReading) -> Changes:
    """Return MiniMax M2's changes: its class writes ``rotary_dim``, and the base if it is stated.

    Raises: InvalidInput.
    """
    rotary_dim = reading.top.count("rotary_dim")
    share = _share_of_head(rotary_dim.value, reading.params["dim"]) if rotary_dim else {}
    return {**share, **default_base(reading, BASE)}


def _share_of_head(rotary_dim: int, dim: int) -> Changes:
    """Return the share of the head that has this many dimensions.

    Raises: InvalidInput if ggml does not rotate that many.
    """
    check_share(NAME, "the share", rotary_dim / dim, dim)
    return {"partial": None if rotary_dim == dim else rotary_dim / dim}


def llama_cpp_apertus(reading: LayerReading) -> Changes:
    """Return Apertus's base without a rope object, where transformers has a default scaling.

    A null rope object also turns that scaling off.
    """
    if not reading.config or any(reading.config.get(key) for key in _ROPE_OBJECTS):
        return {}
    base = stated_base(reading)
    null = any(key in reading.config for key in _ROPE_OBJECTS)
    return {**plain(reading), **base} if null else base


def llama_cpp_mpt(reading: LayerReading) -> Changes:
    """Return MPT's ``alibi_bias_max``, which its class writes and transformers ignores."""
    attention = reading.top.section("attn_config")
    largest = attention and attention.number("alibi_bias_max")
    return {"max_bias": largest.value} if largest and largest.value != _MPT_BIAS_MAX else {}


def llama_cpp_lfm2(reading: LayerReading) -> Changes:
    """Return LFM2's base from ``theta``, which transformers 4.57 prefers to ``rope_theta``."""
    base = stated(reading, "theta", "top")
    inner = reading.container == "rope_parameters" and stated(reading, "rope_theta", "entry")
    return {"base": base} if base and not inner else {}


def _exaone4_layers(reading: LayerReading) -> int:
    count = reading.top.count("num_hidden_layers")
    return count.value if count else _EXAONE4_LAYERS


def default_base(reading: LayerReading, base: float) -> Changes:
    """Return a default base for a file that states none."""
    found = stated(reading, "rope_theta", "top", "entry")
    return {} if found or not reading.config else {"base": base}


def llama_cpp_olmo3(reading: LayerReading) -> Changes:
    """Return the one base of OLMo 3's layers: the top level's, or that of the full layers."""
    places, full = ("top",), reading
    if reading.container == "rope_parameters":
        parts = reading.config["rope_parameters"]
        places, full = ("entry",), replace(reading, rope=parts.get("full_attention") or {})
    return {"base": stated(full, "rope_theta", *places) or BASE} if reading.config else {}


def _ministral3_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for the first required key that a Ministral 3 lacks, or None."""
    objects = any(reading.config.get(key) for key in _ROPE_OBJECTS)
    stated = {**reading.config, **(reading.rope if objects else {})}
    needed = ("mscale_all_dim", "llama_4_scaling_beta", "rope_theta") if reading.config else ()
    key = next((key for key in needed if stated.get(key) is None), None)
    return key and f"its converter needs {key} of ministral3 in the file"


_MIMO_NEEDED = ("hybrid_layer_pattern", "swa_head_dim", "head_dim", "partial_rotary_factor")


OF_LLAMA = frozenset(
    {
        *("apertus", "arcee", "exaone4", "granite_swa", "llama", "llama4_text", "mistral"),
        "mixtral",
    }
)
"""Models whose class writes the divisors of Llama 3's rule, and whose graph uses them."""
WITH_SCALING = frozenset(
    {
        *("ernie4_5", "glm4", "glm4_moe", "lfm2", "lfm2_moe", "minimax_m2", "olmo", "olmo2"),
        *("olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3"),
        "starcoder2",
    }
)
"""Models whose class writes the base and linear scaling or YaRN."""
GRANITE = frozenset({"granite", "granitemoe"})
"""Models with Llama's class, whose architecture has no tensor for the divisors."""
WITHOUT_BASE = frozenset({"falcon", "gemma", "gemma2", "gpt_neox", "phi", "stablelm"})
"""Models whose class writes neither base nor scaling."""
SEVERAL_AXES = frozenset({"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"})
"""Models whose frequency pairs follow several position axes."""
HYBRID = frozenset({"qwen3_5_moe_text", "qwen3_5_text"})
"""Models whose graph uses several axes, and whose loader finds the attention layers itself."""
EVERY_FOURTH = {"llama4_text": "llama4", "smollm3": "smollm3"}
"""Models whose graph, in the file of that name, leaves every fourth layer unrotated."""
SLIDING_ROTATED = frozenset({"cohere2", "exaone4"})
"""Models that rotate only sliding layers, if there are any."""
WITH_ROTARY_DIM = frozenset({"glm4", "glm4_moe", "gpt_neox", "minimax_m2", "nemotron"}) | {
    *("phi", "phi3", "phimoe", "stablelm")
}
"""Models whose class writes the rotary dim."""
DIVIDED_HEADS = frozenset({"gpt_neox", "granite_swa", "phi", "stablelm", *GRANITE})
"""Models whose class computes the head size as hidden_size / num_attention_heads."""
_NEOX_SHARE = 0.25
_RAMP = {"beta_fast": 32.0, "beta_slow": 1.0}
_YARN_PARAMS = (
    *("factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "truncate"),
)
"""YaRN's parameters beyond those of an unscaled rotation."""


def llama_cpp_without_base(reading: LayerReading) -> Changes:
    """Return the defaults for a file that has neither base nor scaling."""
    changes = {**plain(reading), "base": BASE}
    if reading.model_type == "gpt_neox":
        changes["partial"] = stated(reading, "rotary_pct", "top") or _NEOX_SHARE
    return changes


def llama_cpp_layer_bases(reading: LayerReading) -> Changes:
    """Return the one base that the converter writes for Granite's sliding models."""
    bases = reading.config.get("layer_rope_theta") or ()
    whole = replace(reading, rope=reading.config.get("rope_parameters") or {})
    return {"base": stated(whole, "rope_theta", "entry", "top") or BASE} if bases else {}


def llama_cpp_yarn(reading: LayerReading) -> Changes:
    """Return YaRN with the amplitude 1 + 0.1 ln s, or an unscaled rotation if the factor is null.

    Ministral 3 divides the amplitude by g(mscale_all_dim), and in DeepSeek it is 1.
    """
    if _ignores_yarn(reading):
        return {"scheme": "rope", **dict.fromkeys(_YARN_PARAMS)}
    changes: dict[str, Any] = {
        **always_truncated(reading),
        "attention_factor": None,
        "mscale": None,
        "mscale_all_dim": None,
    }
    all_dim = yarn_weight(reading, "mscale_all_dim")
    if all_dim and reading.model_type in DEEPSEEK:
        return {**changes, "attention_factor": 1.0}
    if all_dim and reading.model_type == "ministral3":
        return {**changes, "mscale": 1.0, "mscale_all_dim": all_dim}
    return changes


_LLAMA_CPP = f"{HUB}/ggml-org/llama.cpp"
_WITHOUT_ROTARY_DIM = (
    OF_LLAMA | WITH_SCALING | GRANITE | WITHOUT_BASE | DEEPSEEK
) - WITH_ROTARY_DIM | {*("cohere", "cohere2", "gemma3_text", "gpt_oss", "ministral3", "olmo3")}
"""Models whose class does not write the rotary dim."""

RUNTIME = Runtime(
    NAME,
    "as in llama-cpp-python 0.3.36",
    {
        **of_types(SCALED, *OF_LLAMA, *WITH_SCALING, *GRANITE, *WITHOUT_BASE, "cohere", "nemotron"),
        **of_types(SCALED | {"nope"}, *EVERY_FOURTH, *SLIDING_ROTATED, "granite_swa"),
        **of_types(PLAIN_ROPE, "gemma3_text"),
        **of_types(frozenset({"rope"}), "mimo_v2_flash", "modernbert"),
        **of_types(frozenset({"mrope"}), *SEVERAL_AXES, *HYBRID),
        **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
        **of_types(PLAIN_ROPE | YARN, *DEEPSEEK, "glm_moe_dsa", "ministral3", "olmo3"),
        **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
        **of_types(frozenset({"alibi"}), "bloom", "mpt"),
        **of_types(frozenset({"nope"}), "nemotron_h"),
        **of_types(frozenset({"t5"}), "mt5", "t5", "umt5"),
    },
    {
        **dict.fromkeys(("apertus", "arcee", "mistral", "mixtral", "smollm3"), "llama"),
        **dict.fromkeys(("cohere", "cohere2"), "command_r"),
        **dict.fromkeys(DEEPSEEK, "deepseek"),
        **dict.fromkeys(("gemma2", "gemma3_text"), "gemma"),
        **dict.fromkeys(("glm4", "glm4_moe"), "glm"),
        **dict.fromkeys(("granite_swa", "granitemoe"), "granite"),
        "lfm2_moe": "lfm2",
        **dict.fromkeys(("mt5", "umt5"), "t5"),
        **dict.fromkeys(("olmo2", "olmo3", "olmoe", "seed_oss"), "olmo"),
        **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "qwen"),
        "ernie4_5": "ernie",
        "exaone4": "exaone",
        "gpt_neox": "gptneox",
        "llama4_text": "llama4",
        "mimo_v2_flash": "mimo",
        "minimax_m2": "minimax",
        "ministral3": "mistral3",
        "starcoder2": "starcoder",
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        frozenset({"rope"}),
        "fails if MiMo's own keys are missing, or if sliding layers use another head size",
        f"{_LLAMA_CPP}/blob/master/conversion/mimo.py",
        always(),
        frozenset({"mimo_v2_flash"}),
        refusals=(
            RuntimeRefusal(
                refused,
                "its converter fails on a MiMo whose rope_parameters hold an object for each "
                "layer type",
                when=lambda r: r.config.get("rope_parameters"),
            ),
            RuntimeRefusal(
                refused,
                lambda r: (
                    f"its converter needs {missing_key(r, *_MIMO_NEEDED)} "
                    "of mimo_v2_flash in the file"
                ),
                when=lambda r: missing_key(r, *_MIMO_NEEDED),
            ),
            *for_keys(
                refused,
                "its converter fails if swa_{0} is not {0}",
                ("head_dim", "num_attention_heads", "v_head_dim"),
                lambda key, r: r.config.get(f"swa_{key}") not in (None, r.config.get(key)),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "container",
        frozenset({"rope"}),
        MIMO_KEYS + " (default base: 10000)",
        f"{_LLAMA_CPP}/blob/master/conversion/mimo.py",
        partial(mimo_changes, runtime=NAME, base=BASE, shared=False),
        frozenset({"mimo_v2_flash"}),
        refusals=mimo_refusals(nulls=()),
    ),
    RuntimeDifference(
        NAME,
        "bias",
        frozenset({"alibi"}),
        "reads alibi_bias_max, which transformers ignores",
        f"{_LLAMA_CPP}/blob/master/conversion/mpt.py",
        llama_cpp_mpt,
        frozenset({"mpt"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                not_read,
                "an mpt without ALiBi",
                when=lambda r: (r.config.get("attn_config") or {}).get("alibi", True) is False,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "buckets",
        frozenset({"t5"}),
        "ends its buckets at distance 128, regardless of relative_attention_max_distance",
        f"{_LLAMA_CPP}/blob/master/src/llama-graph.cpp",
        always(max_distance=128),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "prefers theta to rope_theta, as transformers 4.57 does",
        f"{_LLAMA_CPP}/blob/master/conversion/lfm2.py",
        llama_cpp_lfm2,
        frozenset({"lfm2"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "uses base 10000 if the config has no base, and fails without layer_types",
        f"{_LLAMA_CPP}/blob/master/conversion/lfm2.py",
        partial(default_base, base=BASE),
        frozenset({"lfm2_moe"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                refused,
                "its converter needs layer_types of lfm2_moe in the file",
                when=lambda r: missing_key(r, "layer_types"),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates whole heads, because its converter does not write the rotary dim of this model",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        always(partial=None),
        _WITHOUT_ROTARY_DIM,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED,
        "uses hidden_size / num_attention_heads instead of head_dim",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        divided_head,
        DIVIDED_HEADS,
        converted=True,
    ),
    *(
        RuntimeDifference(
            NAME,
            "fields",
            SCALED | {"nope"},
            "leaves every fourth layer unrotated, regardless of no_rope_layers",
            f"{_LLAMA_CPP}/blob/master/src/models/{file}.cpp",
            always(),
            frozenset({kind}),
            refusals=(FOURTH_UNROTATED,),
        )
        for kind, file in EVERY_FOURTH.items()
    ),
    RuntimeDifference(
        NAME,
        "fields",
        frozenset({"mrope"}),
        "finds the attention layers by full_attention_interval, regardless of layer_types",
        f"{_LLAMA_CPP}/blob/master/src/models/qwen35.cpp",
        always(),
        HYBRID,
        refusals=(
            BY_INTERVAL,
            RuntimeRefusal(
                not_read,
                lambda r: f"{r.model_type} without head_dim",
                when=lambda r: r.config and r.top.count("head_dim") is None,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED | {"nope"},
        "uses rope_theta for every layer, because its converter does not write layer_rope_theta",
        f"{_LLAMA_CPP}/blob/master/conversion/granite.py",
        llama_cpp_layer_bases,
        frozenset({"granite_swa"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                other_layers,
                "it rotates every layer by rope_theta, regardless of layer_rope_theta",
                when=lambda r: not all(r.config.get("layer_rope_theta") or ()),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        PLAIN_ROPE | YARN,
        "applies partial_rotary_factor",
        f"{_LLAMA_CPP}/blob/master/conversion/glm.py",
        partial(any_share, runtime=NAME),
        frozenset({"glm_moe_dsa"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE | YARN,
        "reads one rope object per layer type. posenc refuses rope_parameters for all layers",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        always(),
        frozenset({"gemma3_text", "olmo3"}),
        refusals=(
            RuntimeRefusal(
                not_read,
                lambda r: f"rope_parameters of {r.model_type} that are for all layers",
                when=lambda r: {"rope_type", "type"} & {*(r.config.get("rope_parameters") or ())},
            ),
            RuntimeRefusal(
                not_read,
                lambda r: f"the type of {r.model_type}'s rope_scaling",
                when=lambda r: "type" in r.scaling and "rope_type" not in r.scaling,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE,
        "uses full attention in every sixth layer, regardless of layer_types",
        f"{_LLAMA_CPP}/blob/master/src/models/gemma3.cpp",
        always(),
        frozenset({"gemma3_text"}),
        refusals=(full_layers(6, "sixth"),),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "uses base 10000 and no scaling, because its converter writes neither a base nor a scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        llama_cpp_without_base,
        WITHOUT_BASE,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED,
        "ignores scaling for this model",
        f"{_LLAMA_CPP}/blob/master/conversion/command_r.py",
        llama_cpp_cohere,
        frozenset({"cohere"}),
        converted=True,
        refusals=(*_YARN_WITHOUT_ORIGINAL,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "uses full attention in every fourth layer, regardless of layer_types",
        f"{_LLAMA_CPP}/blob/master/src/models/cohere2.cpp",
        always(),
        frozenset({"cohere2"}),
        refusals=(full_layers(4, "fourth"),),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | {"nope"},
        "ignores scaling, and reads the rotary share from rotary_pct, which is required",
        f"{_LLAMA_CPP}/blob/master/conversion/command_r.py",
        llama_cpp_cohere2,
        frozenset({"cohere2"}),
        converted=True,
        refusals=(
            *_YARN_WITHOUT_ORIGINAL,
            RuntimeRefusal(
                refused,
                "its converter needs rotary_pct of cohere2 in the file",
                when=lambda r: missing_key(r, "rotary_pct"),
            ),
            RuntimeRefusal(
                refused,
                "its converter fails if sliding_window of cohere2 is null",
                when=lambda r: r.config.get("sliding_window", 0) is None,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED,
        "reads any factor as linear scaling, and applies the rotary share to hidden_size / "
        "num_attention_heads",
        f"{_LLAMA_CPP}/blob/master/conversion/nemotron.py",
        llama_cpp_nemotron,
        frozenset({"nemotron"}),
        converted=True,
        refusals=(*_YARN_WITHOUT_ORIGINAL,),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates rotary_dim dimensions, regardless of partial_rotary_factor (default base: 10000)",
        f"{_LLAMA_CPP}/blob/master/conversion/minimax.py",
        llama_cpp_minimax,
        frozenset({"minimax_m2"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                refused,
                "its converter needs rotary_dim of minimax_m2 in the file",
                when=lambda r: missing_key(r, "rotary_dim"),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "container",
        frozenset({"rope-llama3"}),
        "reads the top-level rope_theta if there is no rope object, and treats a null rope object "
        "as no scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_apertus,
        frozenset({"apertus"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "leaves every fourth layer unrotated in models with 64 layers, and rotates all layers of "
        "other models",
        f"{_LLAMA_CPP}/blob/master/src/models/exaone4.cpp",
        always(),
        frozenset({"exaone4"}),
        refusals=(
            RuntimeRefusal(
                other_layers,
                "its graph leaves every fourth of 64 layers unrotated, regardless of layer_types",
                when=lambda r: (
                    _exaone4_layers(r) == _EXAONE4_SLIDING_LAYERS
                    and r.config.get("sliding_window", True) is None
                ),
            ),
            RuntimeRefusal(
                other_layers,
                "its graph rotates every layer of an EXAONE 4 without 64 of them, regardless "
                "of layer_types",
                when=lambda r: _exaone4_layers(r) != _EXAONE4_SLIDING_LAYERS and r.scheme == "nope",
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED - {"rope"},
        "ignores rope_scaling if rope_parameters is null",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        lambda r: plain(r) if _null_rope_parameters(r) else {},
        (_WITHOUT_ROTARY_DIM | WITH_ROTARY_DIM) - WITHOUT_BASE - {"ministral3", "phi3", "phimoe"},
        converted=True,
        refusals=(
            RuntimeRefusal(
                not_read,
                "rope_theta of rope_scaling beside rope_parameters of null",
                when=lambda r: _null_rope_parameters(r) and r.entry.has("rope_theta"),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        frozenset({"rope-llama3"}),
        "ignores scaling, because its converter writes divisors only for Llama-like models",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        plain,
        WITH_SCALING | GRANITE,
        converted=True,
        refusals=(
            RuntimeRefusal(
                refused,
                lambda r: f"its converter fails on llama3 in {r.model_type}",
                when=lambda r: r.model_type in GRANITE,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        YARN,
        "treats a null rope_scaling as no scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/gpt_oss.py",
        null_is_plain,
        frozenset({"gpt_oss"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        PLAIN_ROPE | {"rope-proportional"},
        "ignores the factor of proportional layers, and fails without such layers",
        f"{_LLAMA_CPP}/blob/master/conversion/gemma.py",
        lambda r: {"factor": None} if r.scheme == "rope-proportional" else {},
        frozenset({"gemma4_text"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                not_read,
                "a Gemma 4 whose last layer slides",
                when=lambda r: (
                    r.config.get("layer_types") and r.config["layer_types"][-1] != "full_attention"
                ),
            ),
            RuntimeRefusal(
                refused,
                "its converter fails on a Gemma 4 whose full layers are not stated proportional",
                when=lambda r: (
                    r.config
                    and ((r.config.get("rope_parameters") or {}).get("full_attention") or {}).get(
                        "rope_type"
                    )
                    != "proportional"
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"mrope"}),
        "uses base 5000000 if the config has no base, as transformers 4.57 does",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        partial(default_base, base=5e6),
        frozenset({"qwen3_vl_text", "qwen3_vl_moe_text"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        PLAIN_ROPE | YARN,
        "uses the rope_theta of full-attention layers for every layer (default: 10000)",
        f"{_LLAMA_CPP}/blob/master/conversion/olmo.py",
        llama_cpp_olmo3,
        frozenset({"olmo3"}),
        converted=True,
        refusals=(
            RuntimeRefusal(
                not_read,
                "scaled sliding layers of olmo3",
                when=lambda r: (
                    r.container == "rope_parameters"
                    and (r.config["rope_parameters"].get("sliding_attention") or {}).get(
                        "rope_type", "default"
                    )
                    != "default"
                ),
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_LLAMA_CPP}/blob/master/ggml/src/ggml.c",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE | YARN,
        "reads ministral3 only if rope_type is yarn and the config has mscale_all_dim and "
        "llama_4_scaling_beta",
        f"{_LLAMA_CPP}/blob/master/conversion/mistral3.py",
        always(),
        frozenset({"ministral3"}),
        refusals=(
            RuntimeRefusal(
                refused,
                "its converter reads ministral3 only with rope_type yarn",
                when=lambda r: r.scheme != "rope-yarn",
            ),
            RuntimeRefusal(refused, _ministral3_refusal_text),
        ),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        YARN | {"rope-llama3"},
        "prefers the rope object's original length (default for llama3: 8192)",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_original,
        refusals=(*_WITHOUT_ORIGINAL,),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        LONGROPE | {"rope"},
        "needs an original length, even without scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/phi.py",
        llama_cpp_original,
        frozenset({"phi3", "phimoe"}),
        refusals=(*_WITHOUT_ORIGINAL,),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "always truncates, ignores attention_factor, and uses the amplitude 1 + 0.1 ln(factor). "
        "For Ministral 3, it divides this amplitude by g(mscale_all_dim). For DeepSeek, it uses "
        "the amplitude 1",
        f"{_LLAMA_CPP}/pull/17945",
        llama_cpp_yarn,
        refusals=(EXTRAPOLATED,),
    ),
    RuntimeDifference(
        NAME,
        "ramp",
        YARN,
        "computes the ramp from 32 to 1 rotations, regardless of beta_fast and beta_slow",
        f"{_LLAMA_CPP}/blob/master/src/llama-hparams.h",
        lambda r: {
            name: None for name, usual in _RAMP.items() if r.params.get(name, usual) != usual
        },
        OF_LLAMA | WITH_SCALING | GRANITE | DEEPSEEK | {"glm_moe_dsa", "gpt_oss", "olmo3"},
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses short or long factors once, by the allocated context (here seq_len). It ignores "
        "factor and attention_factor",
        f"{_LLAMA_CPP}/blob/master/src/llama-model.cpp",
        lambda r: longrope_from_contexts(r, seq_len=r.length),
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "ignores scaling, because its converter does not write the scaling type",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        always(scheme="rope", factor=None, max_position_embeddings=None, seq_len=None),
    ),
)
"""llama.cpp's known differences, in the order in which they apply."""
