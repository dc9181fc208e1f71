"""Files that are not the config of a model: drafters, adapters, generation, other formats.

A drafter proposes tokens at its verifier's positions, and has a config of its own. PEFT's adapters
and generation_config.json say nothing of positions, and are refused by what they are, as are files
that describe a model in a format of their own: where its like is.

Source: speculators' configs, https://github.com/vllm-project/speculators (src/speculators/config.py
and models/); the heads of EAGLE, https://github.com/SafeAILab/EAGLE, and SpecForge,
https://github.com/sgl-project/SpecForge; PEFT, https://github.com/huggingface/peft
(src/peft/config.py); transformers' generation/configuration_utils.py;
https://github.com/mistralai/mistral-inference (args.py); https://github.com/meta-llama/llama3
(llama/model.py); https://github.com/AI-Hypercomputer/maxtext (configs/base.yml);
https://github.com/NVIDIA/NeMo (megatron_gpt_config.yaml); https://github.com/NVIDIA/Megatron-LM
(megatron/training/arguments.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated, quoted_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes

LAYER = "transformer_layer_config"
"""Where speculators keeps the config of a drafter's own layers."""

_DRAFTER = "speculators_model_type"
_CLASSES = re.compile(r"eagle|medusa|hass|dflash|draft|speculator|nextn|mtp", re.IGNORECASE)
"""What the classes of drafters are called, whose model type is that of any other model."""
_OF_GENERATION = (
    *("_from_model_config", "do_sample", "max_length", "max_new_tokens", "temperature", "top_p"),
    *("top_k", "repetition_penalty"),
)
_OF_MODELS = ("model_type", "architectures", "hidden_size", "n_embd", "d_model", "text_config")
_OF_ROPE = re.compile(r"rope|rotary|max_position")


def is_drafter(config: Mapping[str, Any]) -> bool:
    """Whether a config is that of a drafter.

    >>> is_drafter({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]})
    True
    """
    names = config.get("architectures")
    classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return _DRAFTER in config or any(map(_CLASSES.search, classes))


def check_companion(top: Keys, notes: Notes) -> None:
    """Refuse what says nothing of positions by what it is; say of a drafter whose it is.

    Raises: InvalidInput.
    """
    values = top.values
    if "peft_type" in values:
        raise _adapter(top)
    if _DRAFTER in values:
        _note_drafter(top, notes)
    elif any(key in values for key in _OF_GENERATION) and not any(
        key in values for key in _OF_MODELS
    ):
        raise InvalidInput(
            f"{top.name}: is a generation_config.json: it says how tokens are chosen, and nothing "
            "of positions",
            hint="the config.json beside it does",
        )


def _adapter(top: Keys) -> InvalidInput:
    """Why an adapter is refused."""
    base = top.values.get("base_model_name_or_path")
    whose = f", {quoted_name(base)}" if isinstance(base, str) and base else ""
    stated = [key for key in top.values if _OF_ROPE.search(key)]
    rest = f"; PEFT reads no {', '.join(map(abbreviated, stated))}" if stated else ""
    return InvalidInput(
        f"{top.name}: is PEFT's adapter_config.json: positions are those of its base model{whose}"
        f"{rest}",
        hint="explain the config.json of the base model; an adapter trained on longer texts needs "
        "the rope_scaling that it was trained with there",
    )


def _note_drafter(top: Keys, notes: Notes) -> None:
    """Say whose drafter it is.

    Raises: InvalidInput for one without layers that attend.
    """
    kind = abbreviated(str(top.values[_DRAFTER]))
    if not isinstance(top.values.get(LAYER), dict):
        raise InvalidInput(
            f"{top.name}: is a drafter ({_DRAFTER} {kind}) without {LAYER}: it has no attention of "
            "its own whose positions could be read"
        )
    config = top.values.get("speculators_config")
    verifier = config.get("verifier") if isinstance(config, dict) else None
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    whose = f" of {quoted_name(name)}" if isinstance(name, str) and name else ""
    notes.warn(
        f"it is a drafter ({kind}){whose}, and runs at the positions of its verifier: posenc "
        "compare VERIFIER DRAFTER says whether they rotate alike"
    )


_OF_CONFIG = "explain the config.json of the model on Hugging Face"
_SIZES = {"num_layers", "hidden_size", "num_attention_heads"}
_KEY = re.compile(
    r"""^[ \t]*(?:--|["']|-[ \t]+)?([A-Za-z][\w-]*)["']?(?:[ \t]*[:=]|[ \t]|$)""", re.M
)
"""A key of YAML or an option of a command, each in its own line."""


FORMATS: tuple[tuple[str, tuple[set[str], ...], str], ...] = (
    (
        "Mistral's params.json",
        ({"dim", "n_layers", "n_heads", "head_dim"},),
        (
            "of yarn, beta is beta_fast there, alpha is beta_slow, and apply_scale false is "
            "attention_factor 1"
        ),
    ),
    (
        "the params.json of Meta's Llama",
        ({"dim", "n_layers", "n_heads"},),
        "use_scaled_rope is rope_type llama3 there, and q and k are permuted to halves",
    ),
    (
        "a config of MaxText",
        ({"base_emb_dim", "base_num_query_heads"},),
        (
            "rope_max_timescale is rope_theta there, and local_rope_max_timescale the base of "
            "sliding layers"
        ),
    ),
    (
        "a config of NeMo",
        ({"encoder_seq_length"}, {"rotary_percentage"}, {"seq_len_interpolation_factor"}),
        (
            "rotary_percentage is partial_rotary_factor there, rotary_base rope_theta, and "
            "seq_len_interpolation_factor the factor of rope_type linear"
        ),
    ),
    (
        "a file of arguments of Megatron-LM, on which NeMo 2 builds",
        ({"rotary_percent"}, {"rotary_base"}, {"position_embedding_type", "seq_length"}),
        (
            "rotary_base is rope_theta there, rotary_percent partial_rotary_factor, and "
            "use_rope_scaling rope_type llama3"
        ),
    ),
)
"""Each format: what it is, keys any set of which tells it, and what config.json calls them. Those
of the last two stand beside Megatron-LM's names of sizes. The more special one comes first."""


def check_format(name: str, values: Mapping[str, Any]) -> None:
    """Refuse an object without a model type that another program's keys tell.

    Megatron-LM writes its own ModelType there. Raises: InvalidInput.
    """
    stated = values.get("model_type")
    if isinstance(stated, str) and not stated.startswith("ModelType."):
        return
    nested = [value for value in values.values() if isinstance(value, dict)]
    _refuse(name, [set(map(str, keys)) for keys in (values, *nested)])


def check_text(name: str, text: str) -> None:
    """Refuse a text that is no JSON but has the keys of another program's YAML, or its options.

    Raises: InvalidInput.
    """
    _refuse(name, [{key.replace("-", "_") for key in _KEY.findall(text)}])


def _refuse(name: str, sets: list[set[str]]) -> None:
    for what, alternatives, hint in FORMATS:
        sizes = _SIZES if "NeMo" in what else set()
        if any(each | sizes <= keys for keys in sets for each in alternatives):
            raise InvalidInput(
                f"{name}: is {what}, which posenc does not read", hint=f"{_OF_CONFIG}; {hint}"
            )
