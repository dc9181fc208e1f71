"""Record the position ids that the models of transformers give the tokens of prompts.

Usage: python -m tools.position_ids [--check]

Needs transformers 5.24.0 and torch. ``get_rope_index`` of each model with images is called on a
config with the keys that it reads, and RoBERTa's own function for RoBERTa and its relatives. Small
encoders are run, and the rows of their table or the ids of their rotation are recorded. For other
models, generation computes the ids from a mask. The answers go to tests/golden/position_ids.json.
"""

import argparse
import importlib
import json
import sys
import types
from collections.abc import Sequence
from typing import Any

import torch

from tools.engine_layers import finish
from tools.goldens import GOLDEN, laid_out

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
    "ernie4_5_vl_moe": "Ernie4_5_VLMoeModel",
    "qwen2_5_omni": "Qwen2_5OmniThinkerForConditionalGeneration",
    "qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
}
OMNI = {"qwen2_5_omni": "qwen2_5_omni", "qwen2_5_omni_thinker": "qwen2_5_omni"}
"""The folders of model types whose ``get_rope_index`` reads tokens, not their types."""
TOKENS = {
    "image_token_id": 1,
    "video_token_id": 2,
    "audio_token_id": 3,
    "vision_start_token_id": 4,
    "audio_start_token_id": 5,
    "seconds_per_chunk": 2,
}
ENCODERS = {
    "albert": "embeddings.position_embeddings",
    "bart": "encoder.embed_positions",
    "bert": "embeddings.position_embeddings",
    "distilbert": "embeddings.position_embeddings",
    "electra": "embeddings.position_embeddings",
    "modernbert": "rotary_emb",
    "mpnet": "embeddings.position_embeddings",
    "mra": "embeddings.position_embeddings",
    "nystromformer": "embeddings.position_embeddings",
    "yoso": "embeddings.position_embeddings",
}
"""The module of each encoder that is called with its positions."""
SMALL = {"vocab_size": 64, "num_hidden_layers": 1, "encoder_layers": 1, "decoder_layers": 1}


def of_images(case: dict[str, Any]) -> list[list[int]]:
    """Return the ids of a prompt with images or videos, (3, tokens)."""
    kind = case["config"]["model_type"]
    folder = OMNI.get(kind, kind)
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    own = getattr(module, CLASSES[kind])
    whole = case["config"].get("thinker_config", case["config"])
    vision = types.SimpleNamespace(**whole["vision_config"])
    model = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=vision))
    types_of_tokens: list[int] = [0] * case["left"]
    merge, together = vision.spatial_merge_size, getattr(vision, "temporal_merge_size", 1)
    images, videos, seconds = list[Any](), list[Any](), list[float]()
    for count, grid in zip(case["text"], [*case["grids"], None], strict=True):
        types_of_tokens += [0] * count
        if grid is not None:
            frames, rows, columns, video, second = grid
            counted = frames // together if video else frames
            types_of_tokens += [2 if video else 1] * (counted * rows * columns // merge**2)
            (videos if video else images).append([frames, rows, columns])
            seconds += [second] if video else []
    types_of_tokens += [0] * case["right"]
    length = len(types_of_tokens)
    mask = torch.ones(1, length, dtype=torch.long)
    mask[0, : case["left"]] = 0
    mask[0, length - case["right"] :] = 0
    given: dict[str, Any] = {
        "image_grid_thw": torch.tensor(images) if images else None,
        "video_grid_thw": torch.tensor(videos) if videos else None,
        "attention_mask": mask,
    }
    if kind in OMNI:
        model = types.SimpleNamespace(
            spatial_merge_size=merge, config=types.SimpleNamespace(**TOKENS, **whole)
        )
        rule = own.get_llm_pos_ids_for_vision
        model.get_llm_pos_ids_for_vision = types.MethodType(rule, model)
        tokens = torch.tensor([spoken(types_of_tokens)])
        ids, _ = own.get_rope_index(model, tokens, second_per_grids=torch.tensor(seconds), **given)
        return [list(map(int, row)) for row in ids[:, 0]]
    model.get_vision_position_ids = types.MethodType(own.get_vision_position_ids, model)
    if kind == "qwen2_5_vl":
        given["second_per_grid_ts"] = torch.tensor(seconds)
    blank = torch.zeros(1, length, dtype=torch.long)
    ids, _ = own.get_rope_index(model, blank, torch.tensor([types_of_tokens]), **given)
    return [list(map(int, row)) for row in ids[:, 0]]


def spoken(types_of_tokens: Sequence[int]) -> list[int]:
    """Return the tokens of a prompt of Qwen2.5-Omni, with a start token before each grid."""
    start = TOKENS["vision_start_token_id"]
    following = [*types_of_tokens[1:], 0]
    named = {1: TOKENS["image_token_id"], 2: TOKENS["video_token_id"]}
    return [
        named[kind] if kind else start if after else 0
        for kind, after in zip(types_of_tokens, following, strict=True)
    ]


class _SeenError(Exception):
    """Ends a forward pass once the ids are known."""


def of_encoder(case: dict[str, Any], mask: Sequence[int]) -> list[list[int]]:
    """Return the ids that an encoder gives text with padding, (1, tokens)."""
    auto = importlib.import_module("transformers")
    kind, pad = case["config"]["model_type"], 1
    config = auto.AutoConfig.for_model(kind, pad_token_id=pad, **SMALL)
    model = auto.AutoModel.from_config(config).eval()
    asked = model.get_submodule(ENCODERS[kind])

    def rotated(_: Any, given: Any, named: Any) -> None:
        raise _SeenError([*given, *named.values()][1])

    def added(module: Any, _: Any, rows: Any) -> None:
        same = (rows.reshape(-1, 1, rows.shape[-1]) == module.weight).all(-1)
        raise _SeenError(same.int().argmax(-1)[None] - getattr(module, "offset", 0))

    if ENCODERS[kind] == "rotary_emb":
        asked.register_forward_pre_hook(rotated, with_kwargs=True)
    else:
        asked.register_forward_hook(added)
    tokens = torch.tensor([[pad + 7 if each else pad for each in mask]])
    try:
        model(input_ids=tokens, attention_mask=torch.tensor([mask]))
    except _SeenError as seen:
        return [list(map(int, seen.args[0][0]))]
    raise ValueError(f"{kind}: {ENCODERS[kind]} was not called")


def of_text(case: dict[str, Any]) -> list[list[int]]:
    """Return the ids of text with padding, (1, tokens)."""
    (count,) = case["text"]
    mask = [0] * case["left"] + [1] * count + [0] * case["right"]
    kind = case["config"]["model_type"]
    if kind in ("roberta", "xlm-roberta"):
        module = importlib.import_module("transformers.models.roberta.modeling_roberta")
        pad = case["config"]["pad_token_id"]
        tokens = torch.tensor([[pad + 7 if each else pad for each in mask]])
        count_up = module.RobertaEmbeddings.create_position_ids_from_input_ids
        return [list(map(int, count_up(tokens, pad)[0]))]
    if kind in ENCODERS:
        return of_encoder(case, mask)
    generation = importlib.import_module("transformers.generation.utils").GenerationMixin
    model = types.SimpleNamespace(config=types.SimpleNamespace(is_encoder_decoder=False))
    given = {"attention_mask": torch.tensor([mask])}
    prepare = vars(generation)["_prepare_position_ids_for_generation"]
    return [list(map(int, prepare(model, torch.tensor([mask]), given)[0]))]


def main(arguments: Sequence[str]) -> int:
    """Run transformers, and write or compare the golden; return 1 if bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args(arguments)
    statement = json.loads((GOLDEN / f"{NAME}.json").read_text("utf-8"))
    for case in statement["cases"]:
        case["ids"] = of_images(case) if case["grids"] else of_text(case)
    return finish({f"{NAME}.json": laid_out(statement).encode()}, check=options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
