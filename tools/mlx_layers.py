"""Record the rotations of mlx-lm's own model classes, on a CPU.

Usage: python -m tools.mlx_layers FOLDER [--check]

FOLDER holds the unpacked wheel of mlx-lm; needs ``mlx[cpu]``. The model is built by its own class
from the config, without weights, and each layer's own rotation rotates unit vectors at position 1.
The answers go to tests/golden/engines.json and .npz; ``--check`` compares them with these files.
"""

import dataclasses
import importlib
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from tools.engine_layers import Build, Turn, layer_tool, turn_of

RENAMED = {"mistral": "llama", "qwen2_5_vl": "qwen2_vl"}
"""The module of model types without one of their own, from the table in its utils."""

TEXT = {
    "kimi_k25": ("deepseek_v3", "ModelArgs"),
    "llama4": ("llama4", "TextArgs"),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), ("qwen2", "ModelArgs")),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), ("qwen3_5", "TextModelArgs")),
}
"""The module and class of the text model's arguments in multimodal models."""


def install(folder: Path) -> Build:
    """Make mlx-lm's model classes importable, and return the function that builds a layer.

    Messages name sets, whose order depends on the hash seed: the process starts again with 0.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tools.mlx_layers", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    package: Any = types.ModuleType("mlx_lm")
    package.__path__ = [str(folder / "mlx_lm")]
    sys.modules["mlx_lm"] = package
    return turn


_SPEAKING = re.compile(
    "rope|rotary|(?<!_key_)(?<!_value_)head_dim|layer_types|attn_idxs|max_position|hidden_(size|act)|window"
)
"""Keys that affect the rotation: they are never filled in."""
_FILLED = {"int": 8, "float": 1.0, "bool": True, "str": "silu"}


def filled_in(values: dict[str, Any], arguments: Any) -> dict[str, Any]:
    """Return a config with small values for required sizes that do not affect the rotation."""
    more: dict[str, Any] = {}
    for field in dataclasses.fields(arguments):
        needed = field.default is field.default_factory is dataclasses.MISSING
        if not needed or field.name in values or _SPEAKING.search(field.name):
            continue
        kind = str(getattr(field.type, "__name__", field.type))
        more[field.name] = [] if kind.startswith(("List", "list")) else _FILLED.get(kind, 8)
    heads = values.get("num_attention_heads", 8)
    more |= {name: heads for name in ("num_key_value_heads",) if name in more}
    return {**more, "block_ff_dim": 8, **values}


def arguments_of(values: dict[str, Any], module: Any) -> Any:
    """Return the arguments of a model; a multimodal one has those of its text model inside."""
    kind = module.ModelArgs
    if "text_config" not in {field.name for field in dataclasses.fields(kind)}:
        return kind.from_dict(filled_in(values, kind))
    where, name = TEXT[values["model_type"]]
    own = getattr(importlib.import_module(f"mlx_lm.models.{where}"), name)
    text = filled_in(values.get("text_config", values), own)
    return kind.from_dict({**values, "text_config": text} if "text_config" in values else text)


def attention_of(layer: Any) -> Any:
    """Return the part of a layer that rotates queries, or None."""
    for name in ("self_attn", "attention", "self_attention", "attn"):
        if name in layer:
            return layer[name]
    return None


def turn(values: dict[str, Any], number: int, length: int | None) -> Turn | None:
    """Return the rotation of a layer."""
    mx = importlib.import_module("mlx.core")
    kind = values["model_type"]
    module = importlib.import_module(f"mlx_lm.models.{RENAMED.get(kind, kind)}")
    model = module.Model(arguments_of(values, module))
    attention = attention_of(model.layers[number])
    rotation = rotation_of(attention)
    if rotation is None:
        return None
    width = width_of(attention, rotation)
    vectors = mx.eye(width)
    if length is None:
        turned = np.array(rotation(vectors[None, :, None, :], offset=1))[0, :, 0, :]
        return None if np.array_equal(turned, np.eye(width)) else turn_of(turned)
    rows = []
    for column in range(width):  # position 1 of a sequence of that length
        sequence = mx.zeros((1, 1, length, width))
        sequence[0, 0, 1] = vectors[column]
        rows.append(np.array(rotation(sequence)[0, 0, 1]))
    return turn_of(np.stack(rows))


def rotation_of(attention: Any) -> Any:
    """Return the rotation of an attention, or None if it uses none."""
    if attention is None or not getattr(attention, "use_rope", True):
        return None
    if getattr(attention, "is_local_attention", True) is False:  # AFMoE's full layers
        return None
    for name in ("rope", "rotary_emb"):
        if getattr(attention, name, None) is not None:
            return getattr(attention, name)
    return None


def width_of(attention: Any, rotation: Any) -> int:
    """Return the number of columns that the rotation gets."""
    for name in ("qk_rope_head_dim", "head_dim", "head_size"):
        if getattr(attention, name, None) is not None:
            return int(getattr(attention, name))
    return int(rotation.dims)


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines", install, "mlx-lm"))
