"""Record the rotations of sglang's own model classes, on a machine without a GPU.

Usage: python -m tools.sglang_layers FOLDER [--check]

FOLDER holds the unpacked wheel of sglang. Needs torch 2.13.0 and the version of transformers that
the wheel requires. sglang's models, rotations and config classes are its own. All other imports
(kernels, linear layers, normalization, the launch of a server) are stand-ins without effect, and
parts that do not rotate (MLPs, experts) are left out. The answers go to
tests/golden/engines_sglang.json and .npz; ``--check`` compares them with these files.
"""

import importlib
import inspect
import json
import logging
import math
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tools.engine_layers import Build, Turn, layer_tool, turn_of, turn_of_rotation
from tools.stand_ins import (
    Finder,
    Nothing,
    StandIn,
    function_of,
    layer_class,
    layout_of_moved_rows,
    rotary_owner,
)

OWN = ("models", "layers.rotary_embedding", "configs")
"""The parts of sglang.srt that are used unchanged."""
STOOD_IN_FOR = ("models.utils", "configs.model_config")
"""The exceptions among these parts, which have no rotation."""
PACKAGES = frozenset({"", "layers", "models", "configs"})
"""Packages whose own __init__ does not run."""
ABSENT = frozenset({"sgl_kernel", "flashinfer", "triton", "vllm", "einops", "msgspec", "zmq"})
"""Packages that its models import beside torch and transformers."""
KERNELS = (
    *("fused_sigmoid_mul_cpu", "fused_qk_gemma_rmsnorm_cpu"),
    *("fused_qk_gemma_rmsnorm_with_gate_cpu", "fused_qkvzba_split_reshape_cat_contiguous_cpu"),
)
"""Kernels that its models look up and no layer built here runs."""
CLASSES: Mapping[str, str] = {
    **dict.fromkeys(("ernie4_5", "ernie4_5_moe"), "ernie4"),
    "gemma3_text": "gemma3_causal.Gemma3TextModel",
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), "hunyuan"),
    **dict.fromkeys(("mistral", "phi3"), "llama"),
    "olmo3": "olmo2",
    "phi": "phi.PhiAttention",
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text"), "qwen3_5.Qwen3_5AttentionDecoderLayer"),
    "qwen3_next": "qwen3_next.Qwen3HybridAttentionDecoderLayer",
}
"""The file, and maybe the class, that builds a layer, if it is not named after the model type."""

CONFIGS: Mapping[str, str] = {
    "afmoe": "afmoe.AfmoeConfig",
    "kimi_k25": "kimi_k25.KimiK25Config",
    "olmo3": "olmo3.Olmo3Config",
    "qwen3_5": "qwen3_5.Qwen3_5Config",
    "qwen3_5_moe": "qwen3_5.Qwen3_5MoeConfig",
    "qwen3_5_moe_text": "qwen3_5.Qwen3_5MoeTextConfig",
    "qwen3_5_text": "qwen3_5.Qwen3_5TextConfig",
    "qwen3_next": "qwen3_next.Qwen3NextConfig",
    "step3p5": "step3p5.Step3p5Config",
}
"""The config classes of its own that it takes in place of transformers'."""

WHOLE = frozenset({"qwen2_vl_text", "qwen2_5_vl_text"})
"""Model types whose layers get the whole model's config, with its text model's keys."""

UNTURNED: Mapping[str, Any] = {
    "cohere2": lambda attention: attention.sliding_window_size <= 0,
    "exaone4": lambda attention: attention.sliding_window_pattern and not attention.is_sliding,
    "afmoe": lambda attention: not attention.is_local_attention,
}
"""The condition under which a layer's forward does not rotate."""


def install(folder: Path) -> Build:
    """Make sglang's models importable, and return the function that builds a layer."""
    torch.compile = lambda function=None, **_options: function or (lambda made: made)
    for kernel in KERNELS:
        torch.library.define(f"sgl_kernel::{kernel}", "(Tensor x) -> ()")
    finder = Finder(
        folder,
        root="sglang.srt",
        own=OWN,
        stood_in_for=STOOD_IN_FOR,
        packages=PACKAGES,
        absent=ABSENT,
    )
    sys.meta_path.insert(0, finder)
    source = folder / "sglang" / "srt"
    StandIn.known = {
        "is_cpu": lambda: True,
        "publish_role": lambda: None,
        "add_prefix": lambda name, prefix: f"{prefix}.{name}",
        "declare_ffn": types.SimpleNamespace,
        "resolve_linear_parallel_group": lambda *_arguments: (0, 1),
        "get_pp_indices": lambda *_arguments: (0, 1),
        "append_stages": lambda *_arguments, **_options: (Nothing(), Nothing()),
        "sglang.srt.utils.get_device": lambda: "cpu",
        "get_device": lambda: types.SimpleNamespace(device="cuda"),
        "get_rope_config": function_of(
            source / "utils/hf_transformers/common.py", "get_rope_config"
        ),
    }
    multiplier = "compute_mla_mscale_scaling"
    StandIn.known[multiplier] = function_of(
        source / "configs/model_config.py",
        multiplier,
        yarn_get_mscale=named("yarn.yarn_get_mscale", within="layers.rotary_embedding"),
        logger=logging.getLogger(__name__),
        math=math,
    )
    return turn


def named(path: str, *, within: str) -> Any:
    """Return an object of sglang, such as ``llama.LlamaDecoderLayer`` within models."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"sglang.srt.{within}.{module}"), name)


def config_of(values: Mapping[str, Any]) -> Any:
    """Return the config object that sglang gets from a config.json."""
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(values), "utf-8")
        own = CONFIGS.get(values["model_type"])
        if values["model_type"] == "deepseek_v32":  # as its registry says
            own_class: Any = type(
                "Alias",
                (importlib.import_module("transformers").DeepseekV3Config,),
                {"model_type": "deepseek_v32"},
            )
            return own_class.from_pretrained(folder)
        reader = named(own, within="configs") if own else AutoConfig
        return reader.from_pretrained(folder)


def built(config: Any, layer: int, given_config: Any) -> Any:
    """Return a layer of a model, built from the config that it is given."""
    kind = layer_class("sglang.srt.models", config.model_type, CLASSES)
    wanted = inspect.signature(kind.__init__).parameters
    if "layer_id" not in wanted and "idx" not in wanted:
        return kind(config)
    given = {"layer_id": layer, "idx": layer, "config": given_config, "layer_idx": layer}
    return kind(**{name: value for name, value in given.items() if name in wanted})


def turn(values: dict[str, Any], layer: int, length: int | None) -> Turn | None:
    """Return the rotation of a layer in a batch of a length."""
    kept = importlib.import_module("sglang.srt.layers.rotary_embedding.factory")
    vars(kept)["_ROPE_DICT"].clear()
    whole = config_of(values)
    config = whole.get_text_config()
    if "qwen3_5" in config.model_type and config.layers_block_type[layer] != "attention":
        return None  # its registry has another class for these
    made = built(config, layer, _extended(whole, config) if config.model_type in WHOLE else config)
    if config.model_type == "gemma3_text":
        return _gemma3(made, config, layer, length)
    owner = rotary_owner(made)
    if owner is None or (config.model_type in UNTURNED and UNTURNED[config.model_type](owner)):
        return None
    found = turn_of_rotation(owner.rotary_emb, length)
    return found._replace(layout=_as_stored(config)) if values["model_type"] == "llama4" else found


def _extended(whole: Any, text: Any) -> Any:
    """Return the config of a whole model with its text model's keys, as sglang reads it."""
    for key, value in vars(text).items():
        if value is not None and not hasattr(whole, key):
            setattr(whole, key, value)
    return whole


def _as_stored(config: Any) -> str:
    """Return the layout of Llama 4's files, whose rows the multimodal class's loader moves."""
    kind = named("mllama4.Llama4ForConditionalGeneration", within="models")
    heads, head = config.num_attention_heads, config.head_dim
    rows = torch.arange(head * heads).float()[:, None].repeat(1, config.hidden_size)
    sizes = {"head_dim": head, "hidden_size": config.hidden_size}
    own = types.SimpleNamespace(**sizes, original_num_attention_heads=heads)
    model = types.SimpleNamespace(language_model=types.SimpleNamespace(config=own))
    _, moved = kind.permute_qk_weight_for_rotary(model, "q_proj.weight", rows)
    return layout_of_moved_rows(moved, head)


def _gemma3(model: Any, config: Any, layer: int, length: int | None) -> Turn:
    """Return the rotation of Gemma 3, whose model computes cosines and sines for its layers."""
    sliding = config.layer_types[layer] == "sliding_attention"
    rotary = model.rotary_emb_local if sliding else model.rotary_emb
    vectors = torch.eye(config.head_dim)
    positions = torch.ones(1, config.head_dim + 1, dtype=torch.long)
    positions[0, -1] = (length or 1) - 1
    cosines, sines = rotary(vectors, positions)
    turns = named("utils.apply_rotary_pos_emb", within="layers.rotary_embedding")
    turned, _ = turns(vectors[:, None], vectors[:, None], cosines[0, :-1], sines[0, :-1])
    return turn_of(turned[:, 0].detach().numpy())


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_sglang", install, "sglang"))
