"""How onnxruntime-genai's model builder departs from transformers 5, which it reads configs with.

The builder writes tables of cosines and sines into the graph. A class of its own stands for each
architecture: most of them know plain rope, linear and YaRN, Llama's knows plain rope and Llama 3's
rule and takes all else for plain, and what a class does not know makes it fail.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.engines.runtime_rules import (
    HUB,
    LONGROPE,
    ORIGINAL,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    any_share,
    not_read,
    original_length,
    other_class,
    plain,
    refused,
    refusing,
    yarn_weight,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.engines.runtime_rules import Changes, LayerReading

NAME = "onnxruntime-genai"
_STRETCHED = {"rope-linear", "rope-yarn", "rope-llama3", "rope-dynamic"}
LIKE_LLAMA = frozenset({"llama", "nemotron", "hunyuan_v1_dense"})
LIKE_MISTRAL = frozenset(
    {
        *("ernie4_5", "gemma", "gemma2", "granite", "lfm2", "lfm2_moe"),
        *("ministral3", "mistral", "olmo", "phi", "qwen2", "qwen3"),
    }
)
MODEL_TYPES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(LIKE_LLAMA | LIKE_MISTRAL, frozenset({"rope", *_STRETCHED})),
    "hunyuan_v1_dense": frozenset({"rope", "rope-ntk", *_STRETCHED}),
    "gpt_oss": frozenset({"rope", *_STRETCHED}),
    "phi3": frozenset({"rope", "rope-longrope"}),
    "qwen2_5_vl_text": frozenset({"mrope"}),
    "qwen3_vl_text": frozenset({"mrope"}),
}
"""Those whose class was read, each with the schemes for which that was done."""

_CLASSES = {
    "ernie4_5": "Ernie4_5ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    **{
        name: f"{name.title()}ForCausalLM"
        for name in (
            *("gemma", "gemma2", "granite", "lfm2", "llama", "mistral", "nemotron", "olmo"),
            *("phi", "phi3", "qwen2", "qwen3"),
        )
    },
}
"""The class by which it goes, of the model types that stand alone."""
_KNOWN = {"rope", "rope-linear", "rope-yarn"}


onnx_fields = refusing(
    NAME,
    *(
        (not_read, lambda r, key=key: r.config.get(key) not in (None, 1) and key)
        for key in ("rope_position_scale", "compression_ratio", "seq_length")
    ),
    (
        refused,
        lambda r: (
            (other := other_class(r, _CLASSES))
            and f"architectures names {other}, and its class of {r.model_type} is "
            f"{_CLASSES[r.model_type]}"
        ),
    ),
    (
        refused,
        lambda r: (
            r.model_type in LIKE_MISTRAL
            and r.scheme not in _KNOWN
            and f"its {r.model_type} fails on {r.scheme}: it knows default, linear and yarn"
        ),
    ),
    (
        refused,
        lambda r: (
            r.model_type == "gpt_oss"
            and r.scheme != "rope-yarn"
            and "its gpt-oss fails where it is not scaled by yarn"
        ),
    ),
    (
        refused,
        lambda r: (
            r.model_type == "ministral3"
            and not r.prefix
            and "it has no class for ministral3 but within a mistral3 (text_config)"
        ),
    ),
    (
        refused,
        lambda r: (
            r.scheme == "rope-dynamic"
            and r.model_type == "hunyuan_v1_dense"
            and "its Hunyuan fails on dynamic without alpha"
        ),
    ),
)
"""What a class fails on, and the keys that it alone reads."""


def onnx_yarn(reading: LayerReading) -> Changes:
    """No whole pairs; mscale is the amplitude itself where it stands alone.

    Raises: InvalidInput where the class fails.
    """
    _check_yarn(reading)
    weight, all_dim = (_mscale(reading, name) for name in ("mscale", "mscale_all_dim"))
    changes: dict[str, Any] = {"truncate": False, "mscale": None, "mscale_all_dim": None}
    if weight > 0 and all_dim > 0:
        return {**changes, "attention_factor": None, "mscale": weight, "mscale_all_dim": all_dim}
    return {**changes, "attention_factor": weight if weight > 0 else None}


def _mscale(reading: LayerReading, name: str) -> float:
    stated = yarn_weight(reading, name)
    if stated is None and reading.entry.has(name):
        raise refused(NAME, f"it fails where {name} is null")
    return stated or 0.0


def _outside(reading: LayerReading) -> str | None:
    """The words for a ramp whose ends (pairs) are not where the class asserts them."""
    import math

    params = reading.params
    half, base = params["dim"] / 2, params["base"]
    low, high = (
        half * math.log(reading.original / (turns * 2 * math.pi)) / math.log(base)
        for turns in (params.get("beta_fast", 32.0), params.get("beta_slow", 1.0))
    )
    if 0 < low < high < half - 1:
        return None
    where = f"from pair {low:.4g} to {high:.4g}, is not within pairs 0 and {half - 1:g}"
    return f"it fails where its ramp, here {where}"


_check_yarn = refusing(
    NAME,
    *(
        (
            refused,
            lambda r, name=name: (
                r.rope
                and not r.entry.number(name)
                and f"it fails on yarn without {name}, which it takes for 0"
            ),
        )
        for name in ("beta_fast", "beta_slow")
    ),
    (
        not_read,
        lambda r: (
            r.model_type == "gpt_oss"
            and r.params.get("partial", 1.0) != 1
            and "a share of the columns of gpt-oss"
        ),
    ),
    (
        refused,
        lambda r: (
            r.params.get("partial", 1.0) != 1
            and "it fails on yarn where a share of the columns rotates"
        ),
    ),
    (refused, _outside),
)


def _original(reading: LayerReading) -> int:
    return original_length(reading, NAME, "top", _PHI3_ORIGINAL)


_check_phi3 = refusing(
    NAME,
    (
        refused,
        lambda r: (
            (r.length == _original(r)) != (r.scheme == "rope")
            and f"its Phi-3 is scaled where max_position_embeddings ({r.length}) is not "
            f"{ORIGINAL} ({_original(r)}), and there alone, and fails where the rope object has it "
            "otherwise"
        ),
    ),
    (
        refused,
        lambda r: (
            r.scheme != "rope"
            and r.rope.get("type") is None
            and "its Phi-3 fails where the rope object has no type beside rope_type"
        ),
    ),
    (
        not_read,
        lambda r: (
            r.scheme != "rope"
            and r.rope["type"] != "longrope"
            and f"type {r.rope['type']} in Phi-3"
        ),
    ),
    *(
        (not_read, lambda r, key=key: r.scheme != "rope" and r.rope.get(key) is not None and key)
        for key in ("short_mscale", "long_mscale")
    ),
)


def onnx_phi3(reading: LayerReading) -> Changes:
    """The context must be the original length of a plain Phi-3, and of no scaled one.

    Raises: InvalidInput where the class fails.
    """
    _check_phi3(reading)
    if reading.scheme == "rope":
        return {}
    return {
        "factor": None,
        ORIGINAL: _original(reading),
        "max_position_embeddings": reading.length,
        "attention_factor": None,
    }


_PHI3_ORIGINAL = 4096
"""The original length of transformers 5.23's Phi3Config where a config has none."""


_ONNX = f"{HUB}/microsoft/onnxruntime-genai/blob/v0.18.0/src/python/py/models/builders"

RUNTIME = Runtime(NAME, "0.18.0", MODEL_TYPES)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | LONGROPE | {"rope-ntk", "mrope"},
        "fails on rope types that the class of the model does not know",
        f"{_ONNX}/base.py",
        onnx_fields,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED - {"rope"},
        "builds a plain rotation whatever the rope object says, but for llama3 in Llama and "
        "Nemotron",
        f"{_ONNX}/llama.py",
        lambda r: (
            {} if r.scheme == "rope-llama3" and r.model_type != "hunyuan_v1_dense" else plain(r)
        ),
        LIKE_LLAMA,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        frozenset({"rope", "rope-linear"}),
        "rotates only the share partial_rotary_factor states, for every model",
        f"{_ONNX}/base.py",
        partial(any_share, runtime=NAME),
        LIKE_LLAMA | LIKE_MISTRAL,
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "never truncates; amplitude is g(mscale)/g(mscale_all_dim) where both are there, mscale "
        "itself where it is alone, whatever attention_factor says",
        f"{_ONNX}/base.py",
        onnx_yarn,
        LIKE_MISTRAL | {"gpt_oss"},
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE | {"rope"},
        "takes the original length of the top level, and neither factor nor attention_factor",
        f"{_ONNX}/phi.py",
        onnx_phi3,
        frozenset({"phi3"}),
    ),
)
"""Its known differences, in the order in which they are applied."""
