"""How llama.cpp departs from transformers 5: what its converter writes, and its loader reads.

The converter takes what transformers 4.57 reads of a config, and each of its classes writes keys of
its own: some write neither base nor stretch, and the loader takes 10,000 and none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import first
from posenc_cli.configs.runtime_rules import (
    DEEPSEEK,
    DYNAMIC,
    HUB,
    LONGROPE,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    always_truncated,
    divided_head,
    no_beta_of_zero,
    not_read,
    of_types,
    plain,
    refused,
)

if TYPE_CHECKING:
    from posenc_cli.configs.runtime_rules import Changes, LayerReading

NAME = "llama.cpp"
OF_LLAMA = frozenset({"arcee", "llama", "llama4_text", "mistral", "mixtral"})
"""Those whose class writes the divisors of Llama 3's rule, and whose graph divides by them."""
STRETCHED = frozenset(
    {
        *("ernie4_5", "glm4", "glm4_moe", "olmo", "olmo2", "olmoe", "qwen2", "qwen2_moe"),
        *("qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2"),
    }
)
"""Those whose class writes the base, and a linear stretch or YaRN."""
GRANITE = frozenset({"granite", "granitemoe"})
"""Those whose class is Llama's, but for what their architecture has no tensor for."""
LOST = frozenset({"falcon", "gemma", "gemma2", "gpt_neox", "phi", "stablelm"})
"""Those whose class writes neither base nor stretch."""
SEEING = frozenset({"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"})
"""Those whose pairs follow several axes."""
EVERY_FOURTH = frozenset({"llama4_text", "smollm3"})
"""Those whose graph leaves every fourth layer unturned, whatever a file says."""
DIVIDED = frozenset({"gpt_neox", "phi", "stablelm", *GRANITE})
"""Those whose class takes hidden_size over num_attention_heads for the columns of a head."""
_BASE = 10_000.0
"""The base that the loader takes where a file has none."""
_SHARE_OF_NEOX = 0.25
_STRETCH = (
    *("factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "truncate"),
)
"""The parameters that YaRN has beside plain rope's."""


def _leaves_out(reading: LayerReading) -> bool:
    """Whether its converter leaves YaRN out: it does where the factor is null."""
    return reading.entry.has("factor") and reading.rope["factor"] is None


def llama_cpp_lost(reading: LayerReading) -> Changes:
    """What is left of a file that has neither base nor stretch."""
    changes = {**plain(reading), "base": _BASE}
    if reading.model_type == "gpt_neox":
        share = reading.top.number("rotary_pct")
        changes["partial"] = float(share.value) if share else _SHARE_OF_NEOX
    return changes


def llama_cpp_cohere(reading: LayerReading) -> Changes:
    """Cohere's class writes the base alone, which transformers 4.57 takes for 10,000 by default."""
    stated = first(
        reading.top.number("rope_theta"),
        reading.entry.number("rope_theta") if reading.container == "rope_parameters" else None,
    )
    base = {} if stated or not reading.config else {"base": _BASE}
    return base if reading.scheme == "rope" else {**plain(reading), **base}


def llama_cpp_llama3(reading: LayerReading) -> Changes:
    """Llama 3's rule is in divisors, which other classes do not write.

    Raises: InvalidInput.
    """
    if reading.model_type in GRANITE:
        raise refused(NAME, f"its converter fails on llama3 in {reading.model_type}")
    return plain(reading)


def llama_cpp_layers(reading: LayerReading) -> Changes:
    """Every fourth layer stands still.

    Raises: InvalidInput where the file has it otherwise.
    """
    turning = reading.config.get("no_rope_layers")
    step = reading.config.get("no_rope_layer_interval")
    usual = turning is None or all(
        bool(turns) == (number % 4 != 0) for number, turns in enumerate(turning, 1)
    )
    if not usual or (not turning and step not in (None, 4)):
        raise refused(
            NAME, "its graph leaves every fourth layer unturned, whatever no_rope_layers says"
        )
    return {}


def _check_by_type(reading: LayerReading) -> None:
    """Refuse rope objects of all layers that transformers 5 takes otherwise, or leaves unread.

    Raises: InvalidInput.
    """
    kind, objects = reading.model_type, [reading.config.get(key) or {} for key in _ROPE_OBJECTS]
    if {"rope_type", "type"} & {*objects[0]}:
        raise not_read(NAME, f"rope_parameters of {kind} that are for all layers")
    if "type" in objects[1] and "rope_type" not in objects[1]:
        raise not_read(NAME, f"the type of {kind}'s rope_scaling")


def llama_cpp_gemma3(reading: LayerReading) -> Changes:
    """Every sixth layer sees everything.

    Raises: InvalidInput where the file has it otherwise.
    """
    _check_by_type(reading)
    kinds = reading.config.get("layer_types") or ()
    every = reading.config.get("sliding_window_pattern")
    usual = all((kind == "full_attention") == (n % 6 == 0) for n, kind in enumerate(kinds, 1))
    if not usual or (not kinds and every not in (None, 6)):
        raise refused(NAME, "its graph has every sixth layer full, whatever layer_types says")
    return {}


def llama_cpp_qwen3_vl(reading: LayerReading) -> Changes:
    """The base of transformers 4.57's Qwen3-VL where a config has none."""
    found = first(reading.top.number("rope_theta"), reading.entry.number("rope_theta"))
    return {} if found or not reading.config else {"base": _BASE_OF_QWEN3_VL}


_BASE_OF_QWEN3_VL = 5_000_000.0


def llama_cpp_gemma4(reading: LayerReading) -> Changes:
    """Gemma 4's class wants proportional full layers, and reads no factor of theirs.

    Raises: InvalidInput.
    """
    kinds = reading.config.get("layer_types")
    if kinds and kinds[-1] != "full_attention":
        raise not_read(NAME, "a Gemma 4 whose last layer slides")
    full = (reading.config.get("rope_parameters") or {}).get("full_attention") or {}
    if reading.config and full.get("rope_type") != "proportional":
        raise refused(
            NAME, "its converter fails on a Gemma 4 whose full layers are not stated proportional"
        )
    return {"factor": None} if reading.scheme == "rope-proportional" else {}


def llama_cpp_olmo3(reading: LayerReading) -> Changes:
    """OLMo 3's layers share the base of the top level, or of the full ones.

    Raises: InvalidInput.
    """
    _check_by_type(reading)
    stated = reading.top.number("rope_theta")
    if reading.container == "rope_parameters":
        parts = reading.top.section("rope_parameters")
        full, sliding = (
            parts.section(f"{kind}_attention") if parts else None for kind in ("full", "sliding")
        )
        kind = sliding.text("rope_type") if sliding else None
        if kind is not None and kind.value != "default":
            raise not_read(NAME, "stretched sliding layers of olmo3")
        stated = full.number("rope_theta") if full else None
    if not reading.config:
        return {}
    return {"base": float(stated.value) if stated else _BASE}


def llama_cpp_gpt_oss(reading: LayerReading) -> Changes:
    """Of gpt-oss a rope_scaling of null is no stretch, and no share is written."""
    if "rope_scaling" in reading.config and reading.config["rope_scaling"] is None:
        return {**plain(reading), "partial": None}
    return {"partial": None}


def llama_cpp_original(reading: LayerReading) -> Changes:
    """llama.cpp's converter: the original length in the rope object, then the one beside it."""
    if reading.scheme == "rope-yarn" and _leaves_out(reading):
        return {}
    own = reading.entry.count(ORIGINAL)
    if own is None and reading.entry.has(ORIGINAL):
        raise refused(NAME, f"its converter fails where {ORIGINAL} is null")
    objects = reading.config.get(reading.container or "rope_scaling") or {}
    by_type = any(f"{kind}_attention" in objects for kind in ("full", "sliding"))
    stated = first(own, None if by_type else reading.top.count(ORIGINAL))
    default = _ORIGINALS.get(reading.model_type)
    if reading.scheme == "rope-llama3":
        default = _LLAMA3
    length = stated.value if stated else default
    if length is None:
        raise refused(NAME, f"its converter fails where {ORIGINAL} is missing")
    return {ORIGINAL: length} if ORIGINAL in reading.params else {}


_ORIGINALS = {"phi3": 4096}
"""The original length that transformers 4.57.6 gives its converter where a config has none."""
_LLAMA3 = 8192
"""The one that the converter itself takes for the rule of Llama 3."""


def llama_cpp_ministral(reading: LayerReading) -> Changes:
    """llama.cpp's converter wants the file itself to say that Ministral 3 is stretched, and how."""
    if reading.scheme != "rope-yarn":
        raise refused(NAME, "its converter takes ministral3 with rope_type yarn alone")
    stated = {**reading.config, **reading.rope}
    if reading.config and not any(reading.config.get(key) for key in _ROPE_OBJECTS):
        stated = dict(reading.config)
    for key in ("mscale_all_dim", "llama_4_scaling_beta", "rope_theta") if reading.config else ():
        if stated.get(key) is None:
            raise refused(NAME, f"its converter needs {key} of ministral3 in the file")
    return {}


_ROPE_OBJECTS = ("rope_parameters", "rope_scaling")


def llama_cpp_yarn(reading: LayerReading) -> Changes:
    """llama.cpp: 1 + 0.1 ln s, over g(mscale_all_dim) in two families; nothing without a factor."""
    if _leaves_out(reading):
        return {"scheme": "rope", **dict.fromkeys(_STRETCH)}
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise refused(NAME, "extrapolation_factor has no counterpart in rope-yarn")
    changes: dict[str, Any] = {
        **always_truncated(reading),
        "attention_factor": None,
        "mscale": None,
        "mscale_all_dim": None,
    }
    all_dim = reading.entry.number("mscale_all_dim", minimum=0)
    if all_dim is None or not all_dim.value:
        return changes
    if reading.model_type in DEEPSEEK:
        return {**changes, "attention_factor": 1.0}
    if reading.model_type == "ministral3":
        return {**changes, "mscale": 1.0, "mscale_all_dim": all_dim.value}
    return changes


def llama_cpp_betas(reading: LayerReading) -> Changes:
    """llama.cpp ramps from 32 to 1 turns whatever a file says, but in Ministral 3."""
    usual = {"beta_fast": 32.0, "beta_slow": 1.0}
    params = reading.params
    return {name: None for name, turns in usual.items() if params.get(name, turns) != turns}


def llama_cpp_longrope(reading: LayerReading) -> Changes:
    """llama.cpp chooses the factors once, and takes s from the two contexts."""
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": None,
        "seq_len": reading.length,
    }


def llama_cpp_dynamic(_reading: LayerReading) -> Changes:
    """llama.cpp's converter leaves dynamic out."""
    return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}


_LLAMA_CPP = f"{HUB}/ggml-org/llama.cpp"

RUNTIME = Runtime(
    NAME,
    "as in llama-cpp-python 0.3.36",
    {
        **of_types(SCALED, *OF_LLAMA, *STRETCHED, *GRANITE, *LOST, "cohere"),
        **of_types(SCALED | {"nope"}, *EVERY_FOURTH),
        **of_types(PLAIN_ROPE, "gemma3_text"),
        **of_types(frozenset({"rope"}), "modernbert"),
        **of_types(frozenset({"mrope"}), *SEEING),
        **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
        **of_types(PLAIN_ROPE | {"rope-yarn"}, *DEEPSEEK, "ministral3", "olmo3"),
        **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "head size",
        SCALED,
        "takes hidden_size / num_attention_heads in place of head_dim",
        f"{_LLAMA_CPP}/blob/master/conversion/gptneox.py",
        divided_head,
        DIVIDED,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "leaves every fourth layer unturned, whatever no_rope_layers says",
        f"{_LLAMA_CPP}/blob/master/src/models/smollm3.cpp",
        llama_cpp_layers,
        EVERY_FOURTH,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE,
        "has every sixth layer full, whatever layer_types says",
        f"{_LLAMA_CPP}/blob/master/src/models/gemma3.cpp",
        llama_cpp_gemma3,
        frozenset({"gemma3_text"}),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "takes base 10000 and no stretch: its converter writes neither of this model",
        f"{_LLAMA_CPP}/blob/master/conversion/gemma.py",
        llama_cpp_lost,
        LOST,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "stretch",
        SCALED,
        "builds a plain rotation for this model, whatever rope_scaling says",
        f"{_LLAMA_CPP}/blob/master/conversion/command_r.py",
        llama_cpp_cohere,
        frozenset({"cohere"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "stretch",
        frozenset({"rope-llama3"}),
        "does not stretch: its converter writes the divisors of Llama's kin alone",
        f"{_LLAMA_CPP}/blob/master/conversion/llama.py",
        llama_cpp_llama3,
        STRETCHED | GRANITE,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "stretch",
        YARN,
        "takes a rope_scaling of null as no stretch, and writes no share",
        f"{_LLAMA_CPP}/blob/master/conversion/gpt_oss.py",
        llama_cpp_gpt_oss,
        frozenset({"gpt_oss"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        PLAIN_ROPE | {"rope-proportional"},
        "ignores factor of proportional layers, and fails on a Gemma 4 without them",
        f"{_LLAMA_CPP}/blob/master/conversion/gemma.py",
        llama_cpp_gemma4,
        frozenset({"gemma4_text"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"mrope"}),
        "takes 5000000 for a base that is missing, as transformers 4.57 does",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_qwen3_vl,
        frozenset({"qwen3_vl_text", "qwen3_vl_moe_text"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        PLAIN_ROPE | YARN,
        "takes rope_theta of the full layers for every layer, and 10000 without it",
        f"{_LLAMA_CPP}/blob/master/conversion/olmo.py",
        llama_cpp_olmo3,
        frozenset({"olmo3"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow as they stand",
        f"{_LLAMA_CPP}/blob/master/ggml/src/ggml.c",
        partial(no_beta_of_zero, runtime=NAME),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE | YARN,
        "takes ministral3 with rope_type yarn, mscale_all_dim and llama_4_scaling_beta alone",
        f"{_LLAMA_CPP}/blob/master/conversion/mistral3.py",
        llama_cpp_ministral,
        frozenset({"ministral3"}),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        YARN | {"rope-llama3"},
        "takes the original length in the rope object before the one beside it, and 8192 for "
        "llama3 where neither is there",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_original,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        LONGROPE | {"rope"},
        "needs an original length, stretched or not",
        f"{_LLAMA_CPP}/blob/master/conversion/phi.py",
        llama_cpp_original,
        frozenset({"phi3", "phimoe"}),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "amplitude is 1 + 0.1 ln(factor) whatever attention_factor says, over "
        "g(mscale_all_dim) in Ministral 3 and cancelled in DeepSeek; always truncates",
        f"{_LLAMA_CPP}/pull/17945",
        llama_cpp_yarn,
    ),
    RuntimeDifference(
        NAME,
        "ramp",
        YARN,
        "ramps from 32 to 1 turns whatever beta_fast and beta_slow say, but in Ministral 3: its "
        "loader of no other model reads their keys",
        f"{_LLAMA_CPP}/blob/master/src/models/mistral3.cpp",
        llama_cpp_betas,
        OF_LLAMA | STRETCHED | GRANITE | DEEPSEEK | {"olmo3", "gpt_oss"},
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses once, by the context it allocates (here seq_len; the whole context by default); "
        "ignores factor and attention_factor",
        f"{_LLAMA_CPP}/blob/master/src/llama-model.cpp",
        llama_cpp_longrope,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "does not stretch: its converter leaves the type out",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_dynamic,
    ),
)
"""Its known differences, in the order in which they are applied."""
