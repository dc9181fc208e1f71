"""Record the rotations of vLLM's own model classes, on a machine without a GPU.

Usage: python -m tools.vllm_layers FOLDER [--check]

FOLDER holds the unpacked wheel of vLLM. Needs torch 2.13.0 and a version of transformers that the
wheel allows. vLLM's models, rotations, config classes and its reading of config.json are its own.
All other imports are stand-ins without effect, and parts that do not rotate (MLPs, experts) are
left out. The answers go to tests/golden/engines_vllm.json and .npz; ``--check`` compares them with
these files.
"""

import importlib
import inspect
import json
import logging
import re
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from tools.engine_layers import Build, Turn, layer_tool, turn_of_rotation
from tools.stand_ins import (
    Finder,
    Nothing,
    StandIn,
    function_of,
    layer_class,
    layout_of_moved_rows,
    rotary_owner,
)
from tools.transformers_layers import turn_of_config

OWN = ("model_executor.models", "model_executor.layers.rotary_embedding", "transformers_utils")
STOOD_IN_FOR = (
    "model_executor.models.utils",
    "model_executor.models.interfaces",
    "model_executor.models.registry",
    "transformers_utils.processors",
    "transformers_utils.repo_utils",
)
PACKAGES = frozenset({"", "model_executor", "model_executor.models", "transformers_utils"})
ABSENT = frozenset({"flashinfer", "triton", "einops", "msgspec", "zmq", "mistral_common"})

CLASSES: Mapping[str, str] = {
    **dict.fromkeys(("ernie4_5", "phi3"), "llama"),
    "ernie4_5_moe": "ernie45_moe.Ernie4_5_MoeDecoderLayer",
    "gpt_oss": "gpt_oss.TransformerBlock",
    "lfm2": "lfm2.Lfm2AttentionDecoderLayer",
    "lfm2_moe": "lfm2_moe.Lfm2MoeAttentionDecoderLayer",
    "mimo_v2_flash": "mimo_v2.MiMoV2FlashDecoderLayer",
    "ministral3": "mistral",
    "modernbert": "modernbert.ModernBertLayer",
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text"), "qwen3_next.Qwen3NextAttention"),
}
"""The file, and maybe the class, that builds a layer, if it is not named after the model type."""


BACKEND = frozenset(
    {
        *("arcee", "glm", "gpt_neox", "olmo", "olmo2", "olmo3", "phi", "seed_oss", "smollm3"),
        "starcoder2",
    }
)
"""Model types that its registry leaves to the modules of transformers."""

UNTURNED: Mapping[str, Any] = {
    "cohere2": lambda attention: not (attention.v1 or attention.sliding_window),
    "exaone4": lambda attention: not (attention.sliding_window or attention.apply_rope_all_layers),
}
"""The condition under which a layer's forward does not rotate."""


class CustomOp(nn.Module):  # type: ignore[misc]
    """The base class of vLLM's rotations, each of which has a form in plain torch."""

    def __init__(self, **_options: Any) -> None:
        super().__init__()

    @staticmethod
    def register(_name: str, **_options: Any) -> Any:
        """Return a decorator that returns the class unchanged."""
        return lambda kind: kind

    @classmethod
    def enabled(cls) -> bool:
        """Return false: no kernel is enabled."""
        return False


def install(folder: Path) -> Build:
    """Make vLLM's models importable, and return the function that builds a layer."""
    torch.compile = lambda function=None, **_options: function or (lambda made: made)
    finder = Finder(
        folder, root="vllm", own=OWN, stood_in_for=STOOD_IN_FOR, packages=PACKAGES, absent=ABSENT
    )
    sys.meta_path.insert(0, finder)
    models = folder / "vllm/model_executor/models/utils.py"
    utils = folder / "vllm/config/utils.py"
    interfaces = (folder / "vllm/model_executor/models/interfaces.py").read_text("utf-8")
    marks = [*re.findall(r"^class (\w+)", interfaces, re.M), "AttentionLayerBase"]
    StandIn.known = {
        **{name: type(name, (), {}) for name in marks},
        "support_torch_compile": lambda kind=None, **_options: kind or (lambda made: made),
        "CustomOp": CustomOp,
        "with_retry": lambda function, *_arguments: function(),
        "file_or_path_exists": lambda model, config_name, *_more, **_named: (
            Path(model) / config_name
        ).exists(),
        "extract_layer_index": function_of(models, "extract_layer_index"),
        "getattr_iter": function_of(
            utils, "getattr_iter", Iterable=Any, Any=Any, logger=logging.getLogger(__name__)
        ),
        "get_current_vllm_config": lambda: CURRENT[0],
    }
    return turn


CURRENT: list[Any] = [None]
"""The settings of the engine while a layer is built."""


def named(path: str, *, within: str = "model_executor.models") -> Any:
    """Return an object of vLLM, such as ``llama.LlamaDecoderLayer`` within its models."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"vllm.{within}.{module}"), name)


def config_of(values: Mapping[str, Any]) -> Any:
    """Return the config object that vLLM gets from a config.json."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(values), "utf-8")
        return named("config.get_config", within="transformers_utils")(folder, False)


def built(config: Any, layer: int) -> Any:
    """Return a layer of a model."""
    kind = layer_class("vllm.model_executor.models", config.model_type, CLASSES)
    settings = Settings(config)
    CURRENT[0] = settings
    wanted = inspect.signature(kind.__init__).parameters
    prefix = f"model.layers.{layer}"
    given = {"vllm_config": settings, "config": config, "prefix": prefix, "layer_idx": layer}
    given |= {"layer_id": layer, "model_config": settings.model_config}
    given |= {"layer_type": kinds[layer]} if (kinds := getattr(config, "layer_types", None)) else {}
    needed = {
        name: Nothing(name)
        for name, each in wanted.items()
        if each.default is each.empty and name not in given and name != "self"
    }
    return kind(**needed, **{name: value for name, value in given.items() if name in wanted})


def _ernie(layer: Any) -> None:
    """Apply the changes of Ernie's model to a layer of Llama's."""
    kind, parent = named("ernie45.Ernie4_5ForCausalLM"), named("llama.LlamaForCausalLM")

    def take(model: Any, **_settings: Any) -> None:
        nn.Module.__init__(model)
        model.model = types.SimpleNamespace(layers=[layer])

    with mock.patch.object(parent, "__init__", take):
        kind(vllm_config=CURRENT[0])


class Settings(Nothing):
    """The settings of vLLM: a model, and defaults for all else."""

    def __init__(self, config: Any) -> None:
        super().__init__("vllm_config")
        self.model_config = ModelSettings(config)


class ModelSettings(Nothing):
    """vLLM's settings of a model."""

    def __init__(self, config: Any) -> None:
        super().__init__("model_config")
        self.hf_config = self.hf_text_config = config
        self.max_model_len = longest(config)
        self.dtype = torch.float32


def longest(config: Any) -> int:
    """Return the context that vLLM allocates by default."""
    reading = importlib.import_module("vllm.transformers_utils.config")
    convertors = importlib.import_module("vllm.transformers_utils.model_arch_config_convertor")
    kinds, usual = convertors.MODEL_ARCH_CONFIG_CONVERTORS, convertors.ModelArchConfigConvertorBase
    convertor = kinds.get(config.model_type, usual)(config, config)
    allocated = function_of(
        Path(sys.modules["vllm"].__path__[0]) / "config/model.py",
        "_get_and_verify_max_len",
        iter_rope_parameters=reading.iter_rope_parameters,
        current_platform=types.SimpleNamespace(check_max_model_len=lambda length: length),
        logger=logging.getLogger(__name__),
        **dict.fromkeys(("PreTrainedConfig", "ModelArchitectureConfig", "Any"), Any),
    )
    derived = types.SimpleNamespace(
        derived_max_model_len_and_key=convertor.derive_max_model_len_and_key()
    )
    return int(allocated(config, derived, None, None, False, None))


def turn(values: dict[str, Any], layer: int, _length: int | None) -> Turn | None:
    """Return the rotation of a layer."""
    rotary_package = importlib.import_module("vllm.model_executor.layers.rotary_embedding")
    vars(rotary_package)["_ROPE_DICT"].clear()
    config = config_of(values).get_text_config()
    if config.model_type in BACKEND:
        still = hasattr(config, "no_rope_layers") and not config.no_rope_layers[layer]
        return None if still else turn_of_config(config, layer, None)
    if "qwen3_5" in config.model_type and config.layer_types[layer] == "linear_attention":
        return None  # as Qwen3_5DecoderLayer has it, which builds that attention alone
    made = built(config, layer)
    if config.model_type == "ernie4_5":
        _ernie(made)
    owner = rotary_owner(made)
    if owner is None or (config.model_type in UNTURNED and UNTURNED[config.model_type](owner)):
        return None
    turned = turn_of_rotation(owner.rotary_emb)
    if config.model_type == "llama4_text":
        return turned._replace(layout=_as_stored(config))
    return turned


def _as_stored(config: Any) -> str:
    """Return the layout of Llama 4's files, whose loader moves the rows of q and k."""
    kind = named("llama4.Llama4ForCausalLM")
    head = config.head_dim
    rows = torch.arange(head * config.num_attention_heads, dtype=torch.float32)[:, None]
    model = types.SimpleNamespace(config=config)
    _, moved = kind.permute_qk_weight_for_rotary(model, "q_proj.weight", rows)
    return layout_of_moved_rows(moved, head)


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_vllm", install, "vllm"))
