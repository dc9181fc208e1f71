"""Configs that stand beside a model's: of drafters, of adapters, and of generation.

A drafter proposes tokens at its verifier's positions, and has a config of its own. PEFT's adapters
and generation_config.json say nothing of positions, and are refused by what they are.

Source: speculators' configs, https://github.com/vllm-project/speculators (src/speculators/config.py
and models/); the heads of EAGLE, https://github.com/SafeAILab/EAGLE, and SpecForge,
https://github.com/sgl-project/SpecForge; PEFT, https://github.com/huggingface/peft
(src/peft/config.py); transformers' generation/configuration_utils.py.
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
