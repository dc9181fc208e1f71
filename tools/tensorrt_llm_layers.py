"""Record the rotations of TensorRT-LLM's own attention classes, on a machine without a GPU.

Usage: python -m tools.tensorrt_llm_layers FOLDER [--check]

FOLDER holds the files of ``SOURCES`` of TensorRT-LLM's PyTorch path under their own names, at the
commits in docs/engines.md. Needs torch 2.13.0 and transformers 5.5.4, as its requirements do. Its
own code reads config.json, builds the attention of a layer and its ``RopeParams``, and computes the
tables of cosines and sines as its attention does (``TrtllmAttention`` of
attention_backend/trtllm.py). The modules in between are stand-ins that keep their arguments. Its
kernels do not run: they rotate by rows of the table, interleaved for ``rope_gptj`` and latents, and
half for every other type. The answers go to tests/golden/engines_tensorrt_llm.json and .npz;
``--check`` compares them with these files.
"""

import __future__

import ast
import dataclasses
import enum
import functools
import inspect
import json
import logging
import math
import sys
import tempfile
import weakref
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.configuration_utils import ALLOWED_LAYER_TYPES

from tools.engine_layers import Build, Turn, layer_tool
from tools.stand_ins import Kind, Nothing, Part

_TORCH = "tensorrt_llm/_torch"

BUILDERS: Mapping[str, str] = {
    "exaone4": "exaone4.Exaone4Attention",
    "gemma3_text": "gemma3.Gemma3DecoderLayer",
    "qwen2": "qwen.QwenDecoderLayer",
    "afmoe": "afmoe.AfmoeAttention",
    "cohere2": "cohere2.Cohere2Attention",
    "deepseek_v3": "deepseekv3.DeepseekV3Attention",
    "gpt_oss": "gpt_oss.AttentionBlock",
    "llama": "llama.LlamaAttention",
    "minimax_m2": "minimaxm2.MiniMaxM2Attention",
    "mistral": "mistral.MistralAttention",
    "mixtral": "mixtral.MixtralAttention",
    "nemotron": "nemotron.NemotronAttention",
    "phi3": "phi3.Phi3Attention",
    "qwen3": "qwen3.Qwen3Attention",
    "qwen2_moe": "qwen_moe.QwenMoeAttention",
    "qwen3_moe": "qwen3.Qwen3Attention",
    "seed_oss": "seedoss.SeedOssAttention",
    "starcoder2": "starcoder2.Starcoder2Attention",
}
"""By model type, the file and the class that builds the attention of a layer, or the layer."""

_MODELS = {
    "exaone4": ("check_is_sliding", "Exaone4Attention"),
    "gemma3": ("Gemma3Attention", "Gemma3DecoderLayer"),
    "qwen": ("QwenAttention", "QwenYarnAttention", "QwenDecoderLayer"),
}
"""The names used from the files of models that need more than the class."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    "tensorrt_llm/functional_enums.py": (
        "RotaryScalingType",
        "PositionEmbeddingType",
        "RopeEmbeddingUtils",
    ),
    "tensorrt_llm/_utils.py": ("get_hf_rope_theta",),
    f"{_TORCH}/attention_backend/interface.py": ("RopeParams", "PositionalEmbeddingParams"),
    f"{_TORCH}/pyexecutor/config_utils.py": (
        "is_qwen_image_bench_config",
        "load_pretrained_config",
    ),
    **{
        f"{_TORCH}/models/modeling_{file}.py": _MODELS.get(file, (name,))
        for file, _, name in (place.partition(".") for place in BUILDERS.values())
    },
}
"""The files, and the names used from each, in the order of their dependencies."""


class Attention:
    """The stand-in for modules that pass a rotation on: it keeps its arguments."""

    attn_backend = "TRTLLM"

    def __init__(self, **given: Any) -> None:
        self.given = given

    def __getattr__(self, name: str) -> Any:
        return self.given[name] if name in self.given else getattr(Nothing(), name)


class LatentAttention(Attention):
    """The stand-in for latent attention, whose kernels rotate interleaved pairs."""

    @property
    def is_lite(self) -> bool:
        """Whether queries have no latent vector."""
        return self.given["q_lora_rank"] is None


class Handed:
    """The stand-in for its ModelConfig: the config object, and the length it serves."""

    spec_config = None

    def __init__(self, config: Any, length: int | None) -> None:
        self.pretrained_config, self.max_seq_len = config, length

    def __getattr__(self, name: str) -> Any:
        return getattr(Nothing(), name)


class OnAProcessor:
    """``torch``, with tensors on the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def tensor(values: Any, *, device: str, **options: Any) -> Any:
        """Return a tensor on the CPU."""
        del device
        return torch.tensor(values, **options)


@functools.cache
def engine(folder: Path) -> dict[str, Any]:
    """Return the needed objects of TensorRT-LLM's files by name."""
    scope: dict[str, Any] = {
        "math": math,
        "np": np,
        "torch": OnAProcessor(),
        "transformers": transformers,
        "weakref": weakref,
        "namedtuple": namedtuple,
        "dataclass": dataclasses.dataclass,
        "IntEnum": enum.IntEnum,
        "logger": logging.getLogger(__name__),
        "get_model_extra_attrs": lambda: None,
        "Attention": Attention,
        "QKNormRoPEAttention": Attention,
        "MLA": LatentAttention,
        "_CONFIG_REGISTRY": {},
        "ALLOWED_ATTENTION_LAYER_TYPES": ALLOWED_LAYER_TYPES,
        "Parameter": lambda *_given: None,
        "gelu_tanh": None,
        "__name__": __name__,
        **{
            name: Kind(name, (Part,), {"stands_in": True})
            for name in ("DecoderLayer", "DeepseekV3Linear", "GatedMLP", "RMSNorm")
        },
    }
    lazy = __future__.annotations.compiler_flag
    for file, names in SOURCES.items():
        tree = ast.parse((folder / file).read_text("utf-8"))
        found = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in names
        }
        tree.body = [found[name] for name in names]
        exec(compile(tree, str(folder / file), "exec", flags=lazy), scope)
    return scope


def turn(folder: Path, values: dict[str, Any], layer: int, length: int | None) -> Turn | None:
    """Return the rotation of a layer, from the row of its table for position 1.

    Raises: NotImplementedError for a context extension that a kernel applies.
    """
    scope = engine(folder)
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "config.json").write_text(json.dumps(values), "utf-8")
        config = scope["load_pretrained_config"](place)
    config.torch_dtype = torch.bfloat16
    build = scope[BUILDERS[config.model_type].partition(".")[2]]
    named = "config" if "config" in inspect.signature(build).parameters else "model_config"
    built = build(**{named: Handed(config, length)}, layer_idx=layer)
    attention = built if isinstance(built, Attention) else built.self_attn
    params = attention.given.get("pos_embd_params")
    if params is None or attention.given.get("skip_rope"):
        return None
    kinds = scope["RotaryScalingType"]
    latent, stretch = isinstance(attention, LatentAttention), params.rope.scale_type
    by_twos = params.type.name == "rope_gptj"
    by_kernel = (
        stretch == kinds.dynamic
        or (attention.given.get("fuse_qk_norm_rope") and stretch != kinds.none)
        or (by_twos and stretch in (kinds.yarn, kinds.longrope))
    )
    if by_kernel:
        raise NotImplementedError(f"{values['model_type']}: its kernel applies {stretch.name}")
    _, table = params.rope.create_rope_const_params()
    pairs = params.rope.dim // 2
    columns = 2 * pairs if params.rope.duplicate_data else pairs
    row = table.double().numpy().reshape(-1, columns, 2)[1, :pairs]
    layout = "interleaved" if by_twos or latent else "half"
    return Turn(np.arctan2(row[:, 1], row[:, 0]), float(np.hypot(*row.T).mean()), layout)


def install(folder: Path) -> Build:
    """Return the function that reads a layer by the code of a folder."""
    return functools.partial(turn, folder)


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_tensorrt_llm", install, "tensorrt-llm"))
