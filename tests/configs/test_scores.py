"""What configs say of scores, held to the attention modules of transformers."""

from __future__ import annotations

import json

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.configs.scores import CAPS, SCALES
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN

STATEMENT = json.loads((GOLDEN / "config_scores.json").read_text("utf-8"))
CASES = STATEMENT["cases"]
OTHERWISE = {
    "openai_privacy_filter": "queries and keys are both multiplied by d^(−1/4)",
    "zamba2": "scores are multiplied by 1/√(d / 2), of heads that are twice as wide",
    "gpt_neox": "the module does not say how wide its head is",
}
"""Modules whose scale is not that of scores by their own width, and why."""
NO_PAIRS = {"glm4_moe", "glm4v_moe_text", "glm4v_text"}
"""Families whose classes' default sizes make no pairs, or not those of their axes."""


def test_scores_are_scaled_as_each_familys_module_scales_them():
    told, refused = set(), set()
    for case in CASES:
        model_type = case["model_type"]
        if model_type in OTHERWISE:
            continue
        try:
            resolved = resolve({"model_type": model_type, **case["config"]})
        except InvalidInput:
            refused.add(model_type)
            continue
        layers = resolved.layers[0]
        stated = layers.derived.get("attention_scale")
        scale = stated.value if stated else case["head"] ** -0.5
        softmax = layers.derived.get("softmax_multiplier")
        assert scale * (softmax.value if softmax else 1) == pytest.approx(case["scale"]), case
        cap = layers.derived.get("softcap")
        assert (cap.value if cap else None) == case["softcap"], case
        if stated is not None:
            told.add(model_type)
    assert {*SCALES} - told <= {*STATEMENT["not_built"]}
    assert {*CAPS} <= {*SCALES}
    assert refused == NO_PAIRS


def test_llama_4_tells_the_temperature_of_its_layers_without_positions():
    (case,) = [case for case in CASES if case["temperature"]]
    layers = {group.scheme: group for group in resolve({"model_type": "llama4_text"}).layers}
    told = [layers["nope"].derived[f"temperature_{what}"].value for what in ("scale", "length")]
    assert told == case["temperature"]
    # log(⌊(position + 1) / length⌋ + 1), of the first position as of the token's number.
    assert layers["nope"].derived["temperature_offset"].value == 1
    assert "temperature_scale" not in layers["rope"].derived
    off = resolve({"model_type": "llama4_text", "attn_temperature_tuning": False})
    assert not any("temperature_scale" in group.derived for group in off.layers)


def test_ministral_3_tells_the_temperature_of_all_layers_by_its_rope_object():
    rope = {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "llama_4_scaling_beta": 0.1,
    }
    derived = resolve({"model_type": "ministral3", "rope_parameters": rope}).layer().derived
    assert derived["temperature_scale"].value == 0.1
    assert derived["temperature_scale"].source == "rope_parameters.llama_4_scaling_beta"
    assert derived["temperature_length"].value == 16384


def test_each_value_says_where_it_comes_from_and_what_is_no_number_is_refused():
    derived = resolve({"model_type": "gemma2", "query_pre_attn_scalar": 144}).layers[0].derived
    assert derived["attention_scale"].value == pytest.approx(1 / 12)
    assert derived["attention_scale"].source == "derived: query_pre_attn_scalar^(−1/2)"
    assert derived["softcap"].source == "default of gemma2"
    with pytest.raises(InvalidInput, match="attention_multiplier"):
        resolve({"model_type": "granite", "attention_multiplier": "1"})


def test_no_number_is_raised_to_a_power_that_it_has_none_of():
    with pytest.raises(InvalidInput, match="query_pre_attn_scalar 0: must be above 0"):
        resolve({"model_type": "gemma2", "query_pre_attn_scalar": 0})


@pytest.mark.parametrize("beta", [0, 0.1])
def test_a_temperature_of_no_scale_is_none(beta):
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0}
    rope |= {"original_max_position_embeddings": 16384, "llama_4_scaling_beta": beta}
    config = {"model_type": "ministral3", "max_position_embeddings": 262144}
    derived = resolve({**config, "rope_parameters": rope}).layers[0].derived
    assert ("temperature_scale" in derived) == bool(beta)


@pytest.mark.parametrize(
    ("config", "layer_type", "window"),
    [
        ({"model_type": "gemma2", "sliding_window": 512}, "sliding_attention", 512),
        ({"model_type": "modernbert", "local_attention": 64}, "sliding_attention", 64),
        ({"model_type": "llama4_text"}, "chunked_attention", 8192),
        ({"model_type": "llama4_text", "attention_chunk_size": 16}, "chunked_attention", 16),
        ({"model_type": "gemma2", "sliding_window": None}, "sliding_attention", None),
        ({"model_type": "gemma2", "sliding_window": 512}, "full_attention", None),
    ],
)
def test_the_window_of_layers_is_read_once_for_all_commands(config, layer_type, window):
    derived = resolve({**config, "num_hidden_layers": 6}).layer(layer_type).derived
    assert ("window" in derived) is (window is not None)
    assert window is None or derived["window"].value == window


def test_a_window_of_all_layers_is_none_of_layers_that_slide_among_others(call, tmp_path):
    """Mistral 7B v0.1: llama.cpp's files of it have no window, and are as they should be."""
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 4096}
    (layers,) = resolve(config).layers
    assert layers.derived["window_of_all"].value == 4096
    assert not layers.slides
    (tmp_path / "config.json").write_text(json.dumps(config))
    told = call("explain", "config.json")[1]
    assert "window of all layers: 4096 positions (sliding_window)" in " ".join(told.split())
    (layers,) = resolve({**config, "use_sliding_window": False}).layers
    assert "window_of_all" not in layers.derived
