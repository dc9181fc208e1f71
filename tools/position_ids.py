"""Ask the models of transformers which ids of positions they give the tokens of prompts.

Usage: python -m tools.position_ids [--check]

Needs transformers 5.23.0 and torch. ``get_rope_index`` of each model with images is called as it
stands, on a config that has what it reads; RoBERTa's own function counts for its kin, and what
generation prepares of a mask for the others. The answers go to tests/golden/position_ids.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from tools.engine_layers import finish
from tools.goldens import GOLDEN, laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "position_ids"
CLASSES = {
    "qwen2_vl": "Qwen2VLModel",
    "qwen2_5_vl": "Qwen2_5_VLModel",
    "qwen3_vl": "Qwen3VLModel",
    "qwen3_vl_moe": "Qwen3VLMoeModel",
    "qwen3_5": "Qwen3_5Model",
    "qwen3_5_moe": "Qwen3_5MoeModel",
    "qwen4_exp": "Qwen4ExpModel",
    "glm4v": "Glm4vModel",
    "glm4v_moe": "Glm4vMoeModel",
    "glm46v": "Glm46VModel",
    "glm_ocr": "GlmOcrModel",
    "paddleocr_vl": "PaddleOCRVLModel",
}


def of_images(case: dict[str, Any]) -> list[list[int]]:
    """The ids of a prompt with images or videos, (3, tokens)."""
    kind = case["config"]["model_type"]
    module = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    own = getattr(module, CLASSES[kind])
    vision = types.SimpleNamespace(**case["config"]["vision_config"])
    model = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=vision))
    model.get_vision_position_ids = types.MethodType(own.get_vision_position_ids, model)
    types_of_tokens: list[int] = [0] * case["left"]
    merge = vision.spatial_merge_size
    images, videos, seconds = list[Any](), list[Any](), list[float]()
    for count, grid in zip(case["text"], [*case["grids"], None], strict=True):
        types_of_tokens += [0] * count
        if grid is not None:
            frames, rows, columns, video, second = grid
            types_of_tokens += [2 if video else 1] * (frames * rows * columns // merge**2)
            (videos if video else images).append([frames, rows, columns])
            seconds += [second] if video else []
    types_of_tokens += [0] * case["right"]
    length = len(types_of_tokens)
    mask = torch.ones(1, length, dtype=torch.long)
    mask[0, : case["left"]] = 0
    mask[0, length - case["right"] :] = 0
    more = {"second_per_grid_ts": torch.tensor(seconds)} if kind == "qwen2_5_vl" else {}
    ids, _ = own.get_rope_index(
        model,
        torch.zeros(1, length, dtype=torch.long),
        torch.tensor([types_of_tokens]),
        image_grid_thw=torch.tensor(images) if images else None,
        video_grid_thw=torch.tensor(videos) if videos else None,
        attention_mask=mask,
        **more,
    )
    return [list(map(int, row)) for row in ids[:, 0]]


def of_text(case: dict[str, Any]) -> list[list[int]]:
    """The ids of text with padding, (1, tokens)."""
    (count,) = case["text"]
    mask = [0] * case["left"] + [1] * count + [0] * case["right"]
    kind = case["config"]["model_type"]
    if kind in ("roberta", "xlm-roberta"):
        module = importlib.import_module("transformers.models.roberta.modeling_roberta")
        pad = case["config"]["pad_token_id"]
        tokens = torch.tensor([[pad + 7 if each else pad for each in mask]])
        count_up = module.RobertaEmbeddings.create_position_ids_from_input_ids
        return [list(map(int, count_up(tokens, pad)[0]))]
    generation = importlib.import_module("transformers.generation.utils").GenerationMixin
    model = types.SimpleNamespace(config=types.SimpleNamespace(is_encoder_decoder=False))
    given = {"attention_mask": torch.tensor([mask])}
    prepare = vars(generation)["_prepare_position_ids_for_generation"]
    return [list(map(int, prepare(model, torch.tensor([mask]), given)[0]))]


def main(arguments: Sequence[str]) -> int:
    """Ask transformers, and write or compare; the status is 1 where bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args(arguments)
    statement = json.loads((GOLDEN / f"{NAME}.json").read_text("utf-8"))
    for case in statement["cases"]:
        case["ids"] = of_images(case) if case["grids"] else of_text(case)
    return finish({f"{NAME}.json": laid_out(statement).encode()}, check=options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
