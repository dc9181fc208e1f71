"""Record the rotations of the models of one version of transformers.

Usage: PYTHONPATH=VERSION:DEPENDENCIES python -m tools.transformers_layers ENGINE [--check]

ENGINE is ``transformers-4.57`` or another name of a version. The first folder of the path holds it
(``pip install --no-deps --target``), beside its dependencies: huggingface_hub below 1.0, a
tokenizers that it can import, requests. Needs torch 2.13.0. The model's own rotary module is built
from the config, and its own function rotates unit vectors at position 1 in a batch of a length.
The answers go to tests/golden/engines_transformers.json and .npz; ``--check`` compares them.
"""

import copy
import importlib
import inspect
import os
import sys
import types
from typing import Any

import torch

from tools.engine_layers import Build, Turn, layer_tool, turn_of


def install(engine: str) -> Build:
    """Make a version importable with any version of tokenizers; return the function for a layer."""
    os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
    unchecked: Any = types.ModuleType("transformers.dependency_versions_check")
    unchecked.dep_version_check = lambda *_arguments, **_options: None
    sys.modules[unchecked.__name__] = unchecked
    version = importlib.import_module("transformers").__version__
    if not f"transformers-{version}.".startswith(f"{engine}."):
        sys.exit(f"transformers {version} is not {engine}")
    return turn


def _modeling(model_type: str) -> Any:
    folder = model_type.removesuffix("_text")
    return importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")


def rotary_of(config: Any, layer: int) -> Any:
    """Return the rotary module that rotates the queries of a layer."""
    from transformers import AutoModel

    if config.model_type in ("gemma3_text", "olmo3"):  # one module for each type of layers
        small = copy.deepcopy(config)
        small.vocab_size = small.intermediate_size = 8
        small.pad_token_id = 0
        model = AutoModel.from_config(small)
        sliding = config.layer_types[layer] == "sliding_attention"
        local = getattr(model, "rotary_emb_local", None)
        many = getattr(model, "rotary_embs", None)
        if many is not None:
            return many[config.layer_types[layer]]
        return local if sliding and local is not None else model.rotary_emb
    module = _modeling(config.model_type)
    names = [name for name in vars(module) if name.endswith("RotaryEmbedding")]
    (name,) = (name for name in names if "Vision" not in name)
    return getattr(module, name)(config=config)


def turn(values: dict[str, Any], layer: int, length: int | None) -> Turn | None:
    """Return the rotation of a layer."""
    from transformers import AutoConfig

    return turn_of_config(AutoConfig.for_model(**values), layer, length)


def turn_of_config(config: Any, layer: int, length: int | None) -> Turn:
    """Return the rotation of a layer of transformers."""
    module = _modeling(config.model_type)
    rotary = rotary_of(config, layer)
    width = getattr(config, "qk_rope_head_dim", None) or getattr(config, "head_dim", None)
    width = width or config.hidden_size // config.num_attention_heads
    positions = torch.tensor([[1] * width + [(length or 1) - 1]])
    by_type = "layer_type" in inspect.signature(rotary.forward).parameters
    kinds = (config.layer_types[layer],) if by_type else ()
    stretched = rotary(torch.zeros(1), positions, *kinds)
    if isinstance(stretched, tuple):
        cosines, sines = (part[:, :-1] for part in stretched)
    else:  # DeepSeek V2's, as complex numbers
        vectors = torch.eye(width)[None, None]
        turned, _ = module.apply_rotary_emb(vectors, vectors, stretched[:, :-1])
        return turn_of(turned[0, 0].detach().numpy())
    vectors = torch.eye(width)[None, None]
    if cosines.shape[-1] < width and not _takes_all(module):
        vectors = torch.eye(cosines.shape[-1])[None, None]
        cosines, sines = cosines[:, : vectors.shape[-1]], sines[:, : vectors.shape[-1]]
    interleaved = getattr(config, "rope_interleave", False)
    turns = module.apply_rotary_pos_emb_interleave if interleaved else module.apply_rotary_pos_emb
    turned, _ = turns(vectors, vectors, cosines, sines)
    return turn_of(turned[0, 0].detach().numpy())


def _takes_all(module: Any) -> bool:
    """Return whether the function itself leaves unrotated dimensions unchanged."""
    names = module.apply_rotary_pos_emb.__code__.co_varnames
    return "q_pass" in names or hasattr(module, "_apply_rotary_emb")  # gpt-oss, by halves


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_transformers", lambda engine: install(str(engine))))
