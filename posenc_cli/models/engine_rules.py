"""How engines depart from transformers 5, each departure a rule on plain values.

A rule takes a :class:`Reading`, which is what transformers makes of one kind of layer and what the
file says, and gives the parameters that the engine sets otherwise. Where the rules were read is
said with the differences, in :mod:`posenc_cli.models.engines`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc_cli.errors import InvalidInput

DEEPSEEK = frozenset({"deepseek_v2", "deepseek_v3"})

Changes = Mapping[str, Any]
"""Parameters of the scheme that an engine sets otherwise; None leaves one to the scheme's rule.
``scheme`` is the scheme's own name, where the engine uses another."""


@dataclass(frozen=True)
class Reading:
    """One kind of layer as transformers reads it.

    ``scheme`` and ``params`` are what it resolves to. ``rope`` is the mapping of rope parameters
    that holds for these layers, as the file writes it (empty without one); ``container`` the key
    it stands under. ``config`` is the mapping that holds the model's own keys, ``context`` its
    ``max_position_embeddings``.
    """

    model_type: str
    scheme: str
    params: Mapping[str, Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    rope: Mapping[str, Any] = field(default_factory=dict)
    container: str = ""
    context: int | None = None

    @property
    def factor(self) -> float:
        """The context extension s."""
        return float(self.params.get("factor") or 1)

    @property
    def original(self) -> int:
        """The context the model was trained on first, as transformers reads it."""
        return int(self.params["original_max_position_embeddings"])

    @property
    def length(self) -> int:
        """The model's context.

        Raises: InvalidInput when the file does not say it.
        """
        if self.context is None:
            raise InvalidInput("max_position_embeddings is missing, and this engine needs it")
        return self.context


def _refused(engine: str, why: str) -> InvalidInput:
    return InvalidInput(f"--as {engine}: {why}")


def _magnitude(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _truncated(reading: Reading) -> Changes:
    """Whole pairs as the ends of YaRN's ramp, which is what the scheme does unless told not to."""
    return {} if reading.params.get("truncate", True) else {"truncate": None}


# transformers 4.50


def old_container(reading: Reading) -> Changes:
    """Transformers 4.50 knows ``rope_theta`` and ``rope_scaling`` alone."""
    if reading.container == "rope_parameters":
        raise _refused(
            "transformers-4.50",
            "rope_parameters is a key it does not know: it would take the base of its own class "
            "and no scaling",
        )
    if reading.scheme != "rope" or not _stated_share(reading):
        return {}
    raise _refused("transformers-4.50", "partial_rotary_factor makes its Llama fail")


def old_yarn(reading: Reading) -> Changes:
    """Transformers 4.50 ramps from L, has no mscale, and always truncates."""
    stated = reading.rope.get("attention_factor")
    short = reading.factor < 1
    return {
        "original_max_position_embeddings": reading.length,
        "mscale": None,
        "mscale_all_dim": None,
        **_truncated(reading),
        # Without the guard that later versions have.
        "attention_factor": 0.1 * math.log(reading.factor) + 1.0
        if short and stated is None
        else stated,
    }


def old_longrope(reading: Reading) -> Changes:
    """Phi-3 of transformers 4.50 takes a mapping of three keys and no other."""
    extra = sorted(set(reading.rope) - {"type", "rope_type", "short_factor", "long_factor"})
    if extra:
        raise _refused("transformers-4.50", f"its Phi-3 takes no {extra[0]} in rope_scaling")
    return {}


# vLLM


def _stated_share(reading: Reading) -> float | None:
    """A partial_rotary_factor that the file states and transformers ignores."""
    stated = reading.rope.get("partial_rotary_factor")
    if stated is None:
        stated = reading.config.get("partial_rotary_factor")
    partial = reading.params.get("partial", 1.0)
    return float(stated) if stated not in (None, partial) else None


def vllm_share(reading: Reading) -> Changes:
    """VLLM turns the share that ``partial_rotary_factor`` states, whatever the model."""
    share = _stated_share(reading)
    return {} if share is None else {"partial": share}


def vllm_nested_truncate(reading: Reading) -> Changes:
    """VLLM reads ``truncate`` where transformers does not look for it."""
    return {"truncate": reading.rope["truncate"]} if "truncate" in reading.rope else {}


def vllm_deepseek(reading: Reading) -> Changes:
    """VLLM's DeepSeek: g(mscale)/g(mscale_all_dim), 1 and 0 by default."""
    weight, all_dim = (
        reading.rope.get(name, fallback)
        for name, fallback in (("mscale", 1), ("mscale_all_dim", 0))
    )
    if weight is None or all_dim is None:
        raise _refused("vllm", "null is no mscale to its DeepSeek")
    if weight and all_dim:
        return {"attention_factor": None, **_truncated(reading)}
    amplitude = _magnitude(reading.factor, weight) / _magnitude(reading.factor, all_dim)
    return {
        "attention_factor": amplitude,
        "mscale": None,
        "mscale_all_dim": None,
        **_truncated(reading),
    }


def vllm_gpt_oss(_reading: Reading) -> Changes:
    """VLLM's gpt-oss hands on neither attention_factor nor mscale."""
    return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}


def vllm_longrope(reading: Reading) -> Changes:
    """VLLM chooses the factors once, and takes s from the two contexts."""
    allocated = reading.config.get("original_max_position_embeddings", reading.length)
    multiplier = "long_mscale" if allocated > reading.original else "short_mscale"
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": reading.rope.get(multiplier),
        "seq_len": int(allocated),
    }


def vllm_dynamic(reading: Reading) -> Changes:
    """VLLM stretches by the context over ``max_trained_positions``."""
    trained = reading.rope.get("max_trained_positions")
    if trained is None:
        return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
    return {"max_position_embeddings": int(trained), "seq_len": reading.length}


def vllm_proportional(_reading: Reading) -> Changes:
    """VLLM divides proportional frequencies by nothing."""
    return {"factor": None}


# vLLM 0.11


def vllm11_container(reading: Reading) -> Changes:
    """VLLM 0.11 knows ``rope_theta`` and ``rope_scaling`` alone."""
    if reading.container == "rope_parameters":
        raise _refused("vllm-0.11", "rope_parameters is a key it does not know")
    return {}


def vllm11_yarn(reading: Reading) -> Changes:
    """VLLM 0.11 reads ``attn_factor``, and mscale in DeepSeek alone."""
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise _refused("vllm-0.11", "extrapolation_factor has no counterpart in rope-yarn")
    own = reading.rope.get("attn_factor", 1)
    original = reading.rope.get("original_max_position_embeddings")
    if reading.model_type in ("llama", "mistral"):
        original = reading.config.get("original_max_position_embeddings") or original
    if original is None:
        raise _refused("vllm-0.11", "it fails where original_max_position_embeddings is missing")
    changes: dict[str, Any] = {
        "original_max_position_embeddings": original,
        **_truncated(reading),
        "mscale": None,
        "mscale_all_dim": None,
    }
    if reading.model_type in DEEPSEEK:
        scales = reading.rope.get("mscale", 1), reading.rope.get("mscale_all_dim", 0)
        amplitude = _magnitude(reading.factor, scales[0]) / _magnitude(reading.factor, scales[1])
        if own == 1 and all(scales):
            kept = {name: reading.params.get(name) for name in ("mscale", "mscale_all_dim")}
            return {**changes, **kept, "attention_factor": None}
        return {**changes, "attention_factor": amplitude * own}
    own = 1 if reading.model_type == "gpt_oss" else own
    amplitude = _magnitude(reading.factor, 1) * own
    return {**changes, "attention_factor": None if own == 1 else amplitude}


def vllm11_dynamic(reading: Reading) -> Changes:
    """VLLM 0.11 stretches once, for L · s positions."""
    return {"seq_len": int(reading.length * reading.factor)}


# llama.cpp


def llama_cpp_yarn(reading: Reading) -> Changes:
    """llama.cpp: 1 + 0.1 ln s, over g(mscale_all_dim) in two families."""
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise _refused("llama.cpp", "extrapolation_factor has no counterpart in rope-yarn")
    changes: dict[str, Any] = {
        **_truncated(reading),
        "attention_factor": None,
        "mscale": None,
        "mscale_all_dim": None,
    }
    all_dim = reading.rope.get("mscale_all_dim")
    if not all_dim:
        return changes
    if reading.model_type in DEEPSEEK:
        return {**changes, "attention_factor": 1.0}
    if reading.model_type == "ministral3":
        return {**changes, "mscale": 1.0, "mscale_all_dim": float(all_dim)}
    return changes


def llama_cpp_longrope(reading: Reading) -> Changes:
    """llama.cpp chooses the factors once, and takes s from the two contexts."""
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": None,
        "seq_len": reading.length,
    }


def llama_cpp_dynamic(_reading: Reading) -> Changes:
    """llama.cpp's converter leaves dynamic out."""
    return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
