"""Record the rotations of Megatron-Bridge's and Megatron-Core's own code, on a CPU.

Usage: python -m tools.megatron_layers FOLDER [--check]

FOLDER/megatron has Megatron-Bridge's ``bridge`` and Megatron-LM's ``core``; transformers 5.12.1 is
on the path. The bridge of a model type turns a config into the settings of a provider, and these
give a rotation of Megatron-Core, which rotates unit vectors. The provider has only its fields, and
all other imports are stand-ins. The answers go to tests/golden/engines_megatron.json and .npz;
``--check`` compares them with these files.
"""

import ast
import importlib
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.engine_layers import Build, Turn, layer_tool, turn_of
from tools.stand_ins import Finder, StandIn

BRIDGES = {
    "llama": "llama.llama_bridge:LlamaBridge",
    "qwen2": "qwen.qwen2_bridge:Qwen2Bridge",
    "qwen3": "qwen.qwen3_bridge:Qwen3Bridge",
    "qwen3_moe": "qwen.qwen3_moe_bridge:Qwen3MoEBridge",
}
"""The module and the class of the bridge of each model type."""
_EMBEDDINGS = "core.models.common.embeddings"
_OWN = (
    *(f"{_EMBEDDINGS}.{name}" for name in ("rotary_pos_embedding", "yarn_rotary_pos_embedding")),
    f"{_EMBEDDINGS}.rope_utils",
    *("bridge.models.conversion.model_bridge", "bridge.models.conversion.transformers_compat"),
    "bridge.models.decorators.dispatch",
    *(f"bridge.models.{place.partition(':')[0]}" for place in BRIDGES.values()),
)
_ARGUMENTS = {
    "scaling_factor": "yarn_rotary_scaling_factor",
    "original_max_position_embeddings": "yarn_original_max_position_embeddings",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
    "mscale": "yarn_mscale",
    "mscale_all_dim": "yarn_mscale_all_dim",
    "correction_range_round_to_int": "yarn_correction_range_round_to_int",
}
"""The arguments that gpt_model.py of Megatron-Core passes to its YaRN, by setting."""
_ALONE = SimpleNamespace(size=lambda: 1)
"""A group of one process."""


def provider_of(file: Path) -> type:
    """Return a class with the fields and defaults of GPTModelProvider."""
    tree = ast.parse(file.read_text("utf-8"))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    own = next(node for node in classes if node.name == "GPTModelProvider")
    fields: dict[str, Any] = {"kv_channels": None, "hidden_size": 0, "num_attention_heads": 0}
    for node in own.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            constant = isinstance(node.value, ast.Constant)
            fields[node.target.id] = node.value.value if constant else None  # type: ignore[union-attr]
    return make_dataclass("Provider", [(name, Any, value) for name, value in fields.items()])


def turn(values: dict[str, Any], _layer: int, _length: int | None) -> Turn:
    """Return the rotation of a layer."""
    import torch
    import transformers

    module, _, name = BRIDGES[values["model_type"]].partition(":")
    bridge = getattr(importlib.import_module(f"megatron.bridge.models.{module}"), name)()
    given = {key: value for key, value in values.items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(values["model_type"], **given)
    made = bridge.provider_bridge(SimpleNamespace(config=config))
    columns = made.kv_channels or made.hidden_size // made.num_attention_heads
    usual = (columns, made.rotary_percent, False, made.seq_len_interpolation_factor)
    embeddings = f"megatron.{_EMBEDDINGS}"
    if made.position_embedding_type == "yarn":
        yarn = importlib.import_module(f"{embeddings}.yarn_rotary_pos_embedding")
        more = {key: getattr(made, field) for key, field in _ARGUMENTS.items()}
        rotary = yarn.YarnRotaryEmbedding(*usual, made.rotary_base, cp_group=_ALONE, **more)
        angles, amplitude = rotary.get_emb(2)
    else:
        plain = importlib.import_module(f"{embeddings}.rotary_pos_embedding")
        scaled = (made.rope_scaling, made.rope_scaling_factor)
        angles = plain.RotaryEmbedding(*usual, made.rotary_base, *scaled).get_emb(2)
        amplitude = 1.0
    vectors = torch.eye(columns)[:, None, None]
    rotate = vars(importlib.import_module(f"{embeddings}.rope_utils"))["_apply_rotary_pos_emb_bshd"]
    at_1 = angles[1:].expand(columns, -1, -1, -1)
    turned = rotate(vectors, at_1, rotary_interleaved=False, mscale=amplitude)
    return turn_of(turned[:, 0, 0].numpy())


def install(folder: Path) -> Build:
    """Make Megatron's modules importable, and return the function that builds a layer."""
    import torch

    torch.cuda.current_device = lambda: "cpu"
    provider = provider_of(folder / "megatron/bridge/models/gpt_provider.py")
    StandIn.known = {"GPTModelProvider": provider, "ACTIVATION_FUNC_MAP": {"silu": None}}
    finder = Finder(
        folder,
        root="megatron",
        own=_OWN,
        stood_in_for=(),
        packages=frozenset(),
        absent=frozenset({"transformer_engine", "datasets", "accelerate"}),
    )
    sys.meta_path.insert(0, finder)
    for place in BRIDGES.values():  # an import that fails is not an answer
        importlib.import_module(f"megatron.bridge.models.{place.partition(':')[0]}")
    return turn


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_megatron", install, "megatron-bridge"))
