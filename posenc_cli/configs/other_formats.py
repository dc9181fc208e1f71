"""Files that describe a model in a format of their own: what each is, and where its like is.

Source: https://github.com/mistralai/mistral-inference (args.py); https://github.com/meta-llama/llama3
(llama/model.py); https://github.com/AI-Hypercomputer/maxtext (configs/base.yml);
https://github.com/NVIDIA/NeMo (megatron_gpt_config.yaml); https://github.com/NVIDIA/Megatron-LM
(megatron/training/arguments.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

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
