"""How runtimes depart from transformers 5, each departure a rule on plain values.

A rule takes a :class:`LayerReading`, which is what transformers makes of one kind of layer and what
the file says, and gives the parameters that the runtime sets otherwise. Where the rules were read
is said with the differences, in :mod:`posenc_cli.configs.runtimes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc_cli.configs.keys import Keys, first
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, fresh

ORIGINAL = "original_max_position_embeddings"
DEEPSEEK = frozenset({"deepseek_v2", "deepseek_v3"})

Changes = Mapping[str, Any]
"""Parameters of the scheme that a runtime sets otherwise; None leaves one to the scheme's rule.
``scheme`` is the scheme's own name, where the runtime uses another."""


class UnknownReading(InvalidInput):
    """It is not known what a runtime makes of layers: its code was not read for these."""


class LayerReading(Record):
    """One kind of layer as transformers reads it.

    ``scheme`` and ``params`` are what it resolves to. ``rope`` is the mapping of rope parameters
    that holds for these layers, as the file writes it (empty without one); ``container`` the key
    it stands under. ``config`` is the mapping that holds the model's own keys, ``context`` its
    ``max_position_embeddings``.
    ``name`` and ``prefix`` are what errors call the file, and where in it ``config`` stands.
    ``read`` gathers the paths of the keys that a rule reads.
    """

    model_type: str
    scheme: str
    params: Mapping[str, Any]
    config: Mapping[str, Any] = fresh(dict)
    rope: Mapping[str, Any] = fresh(dict)
    container: str = ""
    context: int | None = None
    name: str = "config.json"
    prefix: str = ""
    read: set[str] = fresh(set)

    @property
    def factor(self) -> float:
        """The context extension s."""
        return float(self.params.get("factor") or 1)

    @property
    def top(self) -> Keys:
        """The model's own keys, each checked as it is read."""
        return Keys(self.config, name=self.name, prefix=self.prefix, read=self.read)

    @property
    def entry(self) -> Keys:
        """The keys of the rope parameters, each checked as it is read."""
        container = self.container or "rope_scaling"
        prefix = f"{self.prefix}{container}."
        return Keys(self.rope, name=self.name, prefix=prefix, read=self.read)

    @property
    def original(self) -> int:
        """The context the model was trained on first, as transformers reads it."""
        return int(self.params[ORIGINAL])

    @property
    def length(self) -> int:
        """The model's context.

        Raises: InvalidInput when the file does not say it.
        """
        if self.context is None:
            raise InvalidInput("max_position_embeddings is missing, and this engine needs it")
        return self.context


def not_read(runtime: str, what: str) -> UnknownReading:
    """The error that what a runtime makes of something was not read in its code."""
    return UnknownReading(
        f"--as {runtime}: what it makes of {what} was not read in its code, and is not guessed"
    )


def refused(runtime: str, why: str) -> InvalidInput:
    """The error that a runtime cannot read a config, and why."""
    return InvalidInput(f"--as {runtime}: {why}")


_KEPT = frozenset({"dim", "base", "layout", "partial"})
"""The parameters of a plain rotation."""


def plain(reading: LayerReading) -> dict[str, Any]:
    """A plain rotation in place of a stretched one."""
    return {"scheme": "rope", **dict.fromkeys(name for name in reading.params if name not in _KEPT)}


def _magnitude(factor: float, weight: float) -> float:
    from posenc_cli.formulas.yarn import yarn_magnitude

    return float(yarn_magnitude(factor, weight))


def always_truncated(reading: LayerReading) -> Changes:
    """Whole pairs as the ends of YaRN's ramp, which is what the scheme does unless told not to."""
    return {} if reading.params.get("truncate", True) else {"truncate": None}


def no_beta_of_zero(reading: LayerReading, *, runtime: str) -> Changes:
    """Transformers reads a beta of 0 as absent; others take a length over 0 turns.

    Raises: InvalidInput.
    """
    for name in ("beta_fast", "beta_slow"):
        stated = reading.entry.number(name, minimum=0)
        if stated is not None and not stated.value:
            raise refused(
                runtime, f"{stated.source} 0: transformers alone reads 0 as if it were absent"
            )
    return {}


# transformers 4.50

_OLD = "transformers-4.50"
_NEED_ROPE_TYPE = ("cohere", "granite", "gemma3_text")
_PHI3_SCALING = frozenset({"type", "short_factor", "long_factor"})


def old_container(reading: LayerReading) -> Changes:
    """Transformers 4.50 knows ``rope_theta`` and ``rope_scaling`` alone."""
    if reading.container == "rope_parameters":
        raise refused(
            _OLD,
            "rope_parameters is a key it does not know: it would take the base of its own class "
            "and no scaling",
        )
    check_spelling(reading, _OLD)
    if reading.scheme != "rope" or not stated_share(reading):
        return {}
    raise refused(_OLD, "partial_rotary_factor makes its Llama fail")


def check_spelling(reading: LayerReading, runtime: str) -> None:
    """Refuse a ``rope_scaling`` that classes of transformers 4 fail on.

    Raises: InvalidInput.
    """
    scaling = reading.config.get("rope_scaling", reading.rope or None)
    if scaling is None:
        return
    names, kind = set(scaling), reading.model_type
    if kind == "olmo2" and (
        names != {"type", "factor"} or scaling["type"] not in ("linear", "dynamic")
    ):
        raise refused(
            runtime, "its OLMo 2 takes a rope_scaling of type and factor alone, linear or dynamic"
        )
    if kind in _NEED_ROPE_TYPE and "rope_type" not in names:
        raise refused(runtime, f"its {kind} fails on a rope_scaling without rope_type")
    if kind == "phi3" and (len(names) != len(_PHI3_SCALING) or "type" not in names):
        extra = sorted(names - _PHI3_SCALING)
        what = f"takes no {extra[0]} in rope_scaling" if extra else "needs a type and two factors"
        raise refused(runtime, f"its Phi-3 {what}")


def old_yarn(reading: LayerReading) -> Changes:
    """Transformers 4.50 ramps from L, has no mscale, and always truncates."""
    given = reading.entry.number("attention_factor")
    stated = given.value if given else None
    short = reading.factor < 1
    return {
        "original_max_position_embeddings": reading.length,
        "mscale": None,
        "mscale_all_dim": None,
        **always_truncated(reading),
        # Without the guard that later versions have.
        "attention_factor": 0.1 * math.log(reading.factor) + 1.0
        if short and stated is None
        else stated,
    }


def old_longrope(reading: LayerReading) -> Changes:
    """Phi-3 of transformers 4.50 takes a mapping of three keys and no other."""
    check_spelling(reading, _OLD)
    return {}


# vLLM


def stated_share(reading: LayerReading) -> float | None:
    """A partial_rotary_factor that the file states and transformers ignores."""
    key = "partial_rotary_factor"
    stated = first(reading.entry.number(key), reading.top.number(key))
    if stated is None or stated.value == reading.params.get("partial", 1.0):
        return None
    if stated.value > 1:
        raise InvalidInput(f"{reading.name}: {stated.source} {stated.value:g}: must be at most 1")
    return float(stated.value)


def any_share(reading: LayerReading, *, runtime: str) -> Changes:
    """The share that ``partial_rotary_factor`` states, whatever the model.

    Raises: InvalidInput where it makes no pairs.
    """
    share = stated_share(reading)
    if share is None:
        return {}
    check_share(runtime, "partial_rotary_factor", share, reading.params["dim"])
    return {"partial": share}


def check_share(runtime: str, source: str, share: float, columns: int) -> None:
    """Hold a share of a head's columns to one that makes pairs.

    Raises: InvalidInput.
    """
    turned = int(columns * share)
    if turned < 2 or turned % 2:
        raise refused(
            runtime,
            f"{source} {share:g} of {columns} columns turns {turned}: "
            "pairs need an even number of them, from 2 on",
        )


def vllm_nested_truncate(reading: LayerReading) -> Changes:
    """VLLM reads ``truncate`` where transformers does not look for it."""
    stated = reading.entry.flag("truncate")
    return {} if stated is None else {"truncate": stated.value}


def vllm_deepseek(reading: LayerReading) -> Changes:
    """VLLM's DeepSeek: g(mscale)/g(mscale_all_dim), 1 and 0 by default."""
    return {**magnitude_ratio(reading, "vllm"), **always_truncated(reading)}


def magnitude_ratio(reading: LayerReading, runtime: str, own: float = 1.0) -> Changes:
    """The amplitude g(mscale)/g(mscale_all_dim) · own, 1 and 0 where they are missing."""
    weight, all_dim = _mscales(reading, runtime)
    return yarn_amplitude(reading, weight, all_dim, own)


def yarn_amplitude(
    reading: LayerReading, weight: float, all_dim: float, own: float = 1.0
) -> Changes:
    """The amplitude g(weight)/g(all_dim) · own, by the parameters of the rule where it has them."""
    if own == 1 and weight and all_dim:
        return {"attention_factor": None, "mscale": weight, "mscale_all_dim": all_dim}
    if own == 1 and weight == 1:  # the rule's own amplitude
        return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}
    return {
        "attention_factor": _magnitude(reading.factor, weight)
        / _magnitude(reading.factor, all_dim)
        * own,
        "mscale": None,
        "mscale_all_dim": None,
    }


def _mscales(reading: LayerReading, runtime: str) -> tuple[float, float]:
    """What vLLM's DeepSeek takes for mscale and mscale_all_dim, 1 and 0 where they are missing."""
    scales = []
    for name, fallback in (("mscale", 1.0), ("mscale_all_dim", 0.0)):
        stated = yarn_weight(reading, name)
        if stated is None and reading.entry.has(name):
            raise refused(runtime, "null is no mscale to it")
        scales.append(fallback if stated is None else stated)
    return scales[0], scales[1]


def yarn_weight(reading: LayerReading, name: str) -> float | None:
    """``mscale`` or ``mscale_all_dim`` of the rope object, which may be 0; None without one."""
    stated = reading.entry.number(name, minimum=0)
    return None if stated is None else float(stated.value)


def vllm_gpt_oss(_reading: LayerReading) -> Changes:
    """VLLM's gpt-oss hands on neither attention_factor nor mscale."""
    return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}


def vllm_longrope(reading: LayerReading) -> Changes:
    """VLLM chooses the factors once, and takes s from the two contexts."""
    stated = reading.top.count(ORIGINAL)
    if stated is None and reading.top.has(ORIGINAL):
        raise refused("vllm", f"it fails where {ORIGINAL} is null")
    allocated = stated.value if stated else reading.length
    multiplier = reading.entry.number(
        "long_mscale" if allocated > reading.original else "short_mscale"
    )
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": multiplier.value if multiplier else None,
        "seq_len": allocated,
    }


def vllm_dynamic(reading: LayerReading) -> Changes:
    """VLLM stretches by the context over ``max_trained_positions``."""
    trained = reading.entry.count("max_trained_positions")
    if trained is None:
        return {"scheme": "rope", "factor": None, "max_position_embeddings": None, "seq_len": None}
    return {"max_position_embeddings": trained.value, "seq_len": reading.length}


def vllm_proportional(_reading: LayerReading) -> Changes:
    """VLLM divides proportional frequencies by nothing."""
    return {"factor": None}


# vLLM 0.11


def vllm11_container(reading: LayerReading) -> Changes:
    """VLLM 0.11 knows ``rope_theta`` and ``rope_scaling`` alone."""
    if reading.container == "rope_parameters":
        raise refused("vllm-0.11", "rope_parameters is a key it does not know")
    return {}


def vllm11_yarn(reading: LayerReading) -> Changes:
    """VLLM 0.11 reads ``attn_factor``, and mscale in DeepSeek alone."""
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise refused("vllm-0.11", "extrapolation_factor has no counterpart in rope-yarn")
    # gpt-oss hands it on to none.
    hands_on = reading.model_type != "gpt_oss"
    stated = reading.entry.number("attn_factor") if hands_on else None
    own = float(stated.value) if stated else 1.0
    original = reading.entry.count(ORIGINAL)
    if reading.model_type in ("llama", "mistral"):
        original = first(reading.top.count(ORIGINAL), original)
    if original is None:
        raise refused("vllm-0.11", f"it fails where {ORIGINAL} is missing")
    changes: dict[str, Any] = {
        ORIGINAL: original.value,
        **always_truncated(reading),
        "mscale": None,
        "mscale_all_dim": None,
    }
    if reading.model_type in DEEPSEEK:
        scales = _mscales(reading, "vllm-0.11")
        amplitude = _magnitude(reading.factor, scales[0]) / _magnitude(reading.factor, scales[1])
        if own == 1 and all(scales):
            kept = {name: reading.params.get(name) for name in ("mscale", "mscale_all_dim")}
            return {**changes, **kept, "attention_factor": None}
        return {**changes, "attention_factor": amplitude * own}
    amplitude = _magnitude(reading.factor, 1) * own
    return {**changes, "attention_factor": None if own == 1 else amplitude}


def vllm11_dynamic(reading: LayerReading) -> Changes:
    """VLLM 0.11 stretches once, for L · s positions."""
    return {"seq_len": int(reading.length * reading.factor)}


# llama.cpp

_STRETCH = (
    *("factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "truncate"),
)
"""The parameters that YaRN has beside plain rope's."""


def _llama_cpp_leaves_out(reading: LayerReading) -> bool:
    """Whether its converter leaves YaRN out: it does where the factor is null."""
    return reading.entry.has("factor") and reading.rope["factor"] is None


def llama_cpp_original(reading: LayerReading) -> Changes:
    """llama.cpp's converter: the original length in the rope object, then the one beside it."""
    if reading.scheme == "rope-yarn" and _llama_cpp_leaves_out(reading):
        return {}
    own = reading.entry.count(ORIGINAL)
    if own is None and reading.entry.has(ORIGINAL):
        raise refused("llama.cpp", f"its converter fails where {ORIGINAL} is null")
    objects = reading.config.get(reading.container or "rope_scaling") or {}
    by_type = any(f"{kind}_attention" in objects for kind in ("full", "sliding"))
    stated = first(own, None if by_type else reading.top.count(ORIGINAL))
    default = _LLAMA_CPP_ORIGINAL.get(reading.model_type)
    if reading.scheme == "rope-llama3":
        default = _LLAMA_CPP_LLAMA3
    length = stated.value if stated else default
    if length is None:
        raise refused("llama.cpp", f"its converter fails where {ORIGINAL} is missing")
    return {ORIGINAL: length} if ORIGINAL in reading.params else {}


_LLAMA_CPP_ORIGINAL = {"phi3": 4096}
"""The original length that transformers 4.57.6 gives its converter where a config has none."""
_LLAMA_CPP_LLAMA3 = 8192
"""The one that the converter itself takes for the rule of Llama 3."""


def llama_cpp_ministral(reading: LayerReading) -> Changes:
    """llama.cpp's converter wants the file itself to say that Ministral 3 is stretched, and how."""
    if reading.scheme != "rope-yarn":
        raise refused("llama.cpp", "its converter takes ministral3 with rope_type yarn alone")
    stated = {**reading.config, **reading.rope}
    if reading.config and not any(reading.config.get(key) for key in _ROPE_OBJECTS):
        stated = dict(reading.config)
    for key in ("mscale_all_dim", "llama_4_scaling_beta", "rope_theta") if reading.config else ():
        if stated.get(key) is None:
            raise refused("llama.cpp", f"its converter needs {key} of ministral3 in the file")
    return {}


_ROPE_OBJECTS = ("rope_parameters", "rope_scaling")


def llama_cpp_yarn(reading: LayerReading) -> Changes:
    """llama.cpp: 1 + 0.1 ln s, over g(mscale_all_dim) in two families; nothing without a factor."""
    if _llama_cpp_leaves_out(reading):
        return {"scheme": "rope", **dict.fromkeys(_STRETCH)}
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise refused("llama.cpp", "extrapolation_factor has no counterpart in rope-yarn")
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
