"""Record the tables that onnxruntime-genai's model builder writes into its graphs.

Usage: python -m tools.onnxruntime_genai FOLDER [--check] [--only TEXT]

FOLDER is the package's ``onnxruntime_genai/models``, beside transformers, torch, onnx_ir and
onnxruntime. Its ``create_model`` builds the whole graph of a small random model for each config of
tests/golden/engines_onnxruntime_genai.json. The tables of cosines and sines, the nodes that rotate
by them, and the layout are read from that graph.
"""

import contextlib
import copy
import importlib
import io
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tools.engine_layers import Layer, Read, Turn, measured, model_tool

_SMALL = {"vocab_size": 64, "intermediate_size": 64, "hidden_act": "silu", "pad_token_id": 0}
_EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}
_OF_EXPERTS = {"gpt_oss", "lfm2_moe", "phimoe"}
_NODES = {"RotaryEmbedding", "MRotaryEmbedding", "GroupQueryAttention"}
_LAYER = re.compile(r"/model/layers\.(\d+)/attn/")


def reader(folder: Path) -> Read:
    """Return a function that builds the graph of a case and yields its layers' rotations."""
    sys.path.insert(0, str(folder))
    builder = importlib.import_module("builder")

    def read(case: dict[str, Any]) -> Iterator[Layer]:
        graph = _graph(builder, copy.deepcopy(case["config"]))
        return _turned(graph, case["config"], case.get("lengths", [None]))

    return read


def _graph(builder: Any, config: Mapping[str, Any]) -> Any:
    """Return the graph that ``create_model`` makes for a config, with random weights."""
    transformers = importlib.import_module("transformers")
    base = importlib.import_module("builders.base").Model
    mistral = importlib.import_module("builders.mistral").Mistral3TextModel
    experts = _EXPERTS if config["model_type"] in _OF_EXPERTS else {}
    settings = {**_SMALL, **experts, **config}
    if "text_config" in settings:
        settings["text_config"] = {**_SMALL, **settings["text_config"]}

    def loaded() -> Any:
        return transformers.AutoConfig.for_model(**copy.deepcopy(settings))

    def weights(_model: Any, _path: str) -> Any:
        own = loaded()
        if "text_config" in settings:  # the text alone, beside an embedding and a head
            text = transformers.AutoModel.from_config(own.text_config)
            return _headed(text, own.text_config)
        return transformers.AutoModelForCausalLM.from_config(own)

    kept = []

    def keep(model: Any, _folder: str) -> None:
        kept.append(model.model.graph)

    own = loaded()
    details = {"extra_kwargs": {}, "hf_name": "model", "hf_config": own}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        mock.patch.object(base, "load_weights", weights),
        mock.patch.object(mistral, "load_weights", weights),
        mock.patch.object(base, "save_model", keep),
        mock.patch.object(base, "make_genai_config"),
        mock.patch.object(base, "save_processing"),
    ):
        builder.create_model("model", folder, folder, "fp32", "cpu", folder, hf_details=details)
    return kept[0]


def _headed(text: Any, config: Any) -> Any:
    torch = importlib.import_module("torch")
    model = torch.nn.Module()
    model.model, model.config = text, config
    model.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    return model


def _turned(graph: Any, config: Mapping[str, Any], lengths: list[int | None]) -> Iterator[Layer]:
    """Yield the rotations of the layers of a graph at some lengths."""
    turning: dict[int, list[Any]] = defaultdict(list)
    for node in graph:
        place = _LAYER.match(node.name or "")
        if node.op_type in _NODES and place:
            turning[int(place[1])].append(node)
    count = config.get("text_config", config)["num_hidden_layers"]
    for layer in range(count):
        for length in lengths:
            nodes = [node for node in turning[layer] if _tables(node)]
            yield layer, length, _turn(nodes[0], length) if nodes else None


def _tables(node: Any) -> list[Any]:
    """Return the two inputs of a node with cosines and sines; none if it does not rotate."""
    attributes = {name: each.value for name, each in node.attributes.items()}
    if node.op_type == "GroupQueryAttention":
        return list(node.inputs[7:9]) if attributes.get("do_rotary") else []
    return list(node.inputs[2:4])


def _turn(node: Any, length: int | None) -> Turn:
    frequencies, amplitude = measured(*(_table(value, length)[1] for value in _tables(node)))
    attributes = {name: each.value for name, each in node.attributes.items()}
    pairs = attributes.get("rotary_embedding_dim", 0) // 2 or len(frequencies)
    side = attributes.get("interleaved", attributes.get("rotary_interleaved", 0))
    return Turn(frequencies[:pairs], amplitude, "interleaved" if side else "half")


def _table(value: Any, length: int | None) -> Any:
    """Return a table (positions, pairs): an initializer, or that of a length's branch."""
    if value.const_value is not None:
        return value.const_value.numpy()
    chosen = value.producer()
    above = int(chosen.inputs[0].producer().inputs[1].name.rpartition("/")[2])
    branch = "then_branch" if (length or 0) > above else "else_branch"
    inner = chosen.attributes[branch].value
    output = inner.outputs[list(chosen.outputs).index(value)]
    return output.producer().attributes["value"].value.numpy()


if __name__ == "__main__":
    sys.exit(model_tool(__doc__, "engines_onnxruntime_genai", reader))
