"""How llama.cpp departs from transformers 5: what its converter writes, and its loader reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import first
from posenc_cli.configs.runtime_rules import (
    DEEPSEEK,
    DYNAMIC,
    HUB,
    LLAMA_LIKE,
    LONGROPE,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    always_truncated,
    no_beta_of_zero,
    of_types,
    refused,
)

if TYPE_CHECKING:
    from posenc_cli.configs.runtime_rules import Changes, LayerReading

NAME = "llama.cpp"
_STRETCH = (
    *("factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "truncate"),
)
"""The parameters that YaRN has beside plain rope's."""


def _leaves_out(reading: LayerReading) -> bool:
    """Whether its converter leaves YaRN out: it does where the factor is null."""
    return reading.entry.has("factor") and reading.rope["factor"] is None


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
        **of_types(SCALED, "llama", "mistral", "mixtral"),
        **of_types(SCALED - {"rope-llama3"}, "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
        **of_types(PLAIN_ROPE, "gemma3_text"),
        **of_types(PLAIN_ROPE | {"rope-yarn"}, *DEEPSEEK, "ministral3", "olmo3"),
        **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
    },
)

DIFFERENCES = (
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
        frozenset({*LLAMA_LIKE, "mixtral", *DEEPSEEK, "olmo3", "gpt_oss"}),
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
