"""Record the rotations of exllamav3's own classes.

Usage: python -m tools.exllamav3 FOLDER [--check] [--only TEXT]

FOLDER is the source of exllamav3. Its package is imported beside torch and triton, with stand-ins
for its CUDA extension and for missing packages. Its config class and its model class are built from
each config of tests/golden/engines_exllamav3.json, without weights; the rotation of a layer is
``RoPE`` of the settings of its attention.
"""

import contextlib
import importlib
import json
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tools.engine_layers import Layer, Read, Turn, model_tool

_SMALL = {
    "vocab_size": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 64,
    "rms_norm_eps": 1e-6,
    "layer_norm_eps": 1e-6,
    "num_experts": 2,
    "num_experts_per_tok": 1,
}


_IMAGES = {
    "image_processor_type": "Gemma3ImageProcessor",
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 28, "width": 28},
}


class _StandIn(types.ModuleType):
    """A module that has every attribute."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


def _architectures(folder: Path) -> Any:
    """Return exllamav3's table of architectures: their config and model classes."""
    sys.path.insert(0, str(folder.resolve()))
    sys.modules["exllamav3.ext"] = _StandIn("exllamav3.ext")
    while True:
        try:
            importlib.import_module("exllamav3")
            module = importlib.import_module("exllamav3.architecture.architectures")
        except ModuleNotFoundError as error:
            missing = error.name or ""
            sys.modules[missing] = _StandIn(missing)
            own = [name for name in sys.modules if name.startswith("exllamav3")]
            for name in own:
                if name != "exllamav3.ext":
                    del sys.modules[name]
        else:
            return module.get_architectures()


def reader(folder: Path) -> Read:
    """Return a function that builds the model of a case and yields its layers' rotations."""
    architectures = _architectures(folder)
    rope = importlib.import_module("exllamav3.util.rope")
    config_of = importlib.import_module("exllamav3.model.config").Config

    def read(case: dict[str, Any]) -> Iterator[Layer]:
        settings = {**_SMALL, **case["config"]}
        if "text_config" in settings:
            settings["text_config"] = {**_SMALL, **settings["text_config"]}
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            Path("config.json").write_text(json.dumps(settings), "utf-8")
            Path("preprocessor_config.json").write_text(json.dumps(_IMAGES), "utf-8")
            config = config_of.from_directory(".")
            model = architectures[config.architecture]["model_class"](config)
        for module in model.modules:
            attention = getattr(module, "attn", None)
            if attention is not None and hasattr(attention, "rope_settings"):
                for length in case.get("lengths", [None]):
                    turn = _turn(rope, attention.rope_settings, length)
                    yield attention.layer_idx, length, turn

    return read


def _turn(rope: Any, settings: Any, length: int | None) -> Turn | None:
    """Return the rotation of an attention if the context is ``length``, or None if it has none."""
    if settings is None:
        return None
    settings.override_max_position_embeddings = length
    rotation = rope.RoPE("cpu", settings)
    layout = {1: "interleaved", 2: "half", 3: "nanochat"}[int(settings.rope_style)]
    return Turn(rotation.inv_freq.double().numpy(), float(rotation.attn_factor), layout)


if __name__ == "__main__":
    sys.exit(model_tool(__doc__, "engines_exllamav3", reader))
