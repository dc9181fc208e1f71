"""What configs say of scores, held to the attention modules of transformers."""

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


QWEN = {"num_hidden_layers": 8, "use_sliding_window": True, "sliding_window": 64}
QWEN |= {"max_window_layers": 5, "head_dim": 128, "hidden_size": 1024, "num_attention_heads": 8}
FROM_5, NONE = (5, 6, 7), ()


@pytest.mark.parametrize(
    ("model_type", "config", "sliding"),
    [
        *((name, {}, FROM_5) for name in ("qwen2", "qwen3", "dots1")),
        *((name, {}, FROM_5) for name in ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_text")),
        ("qwen2_moe", {}, (0, 2, 4)),
        ("qwen2", {"max_window_layers": 0}, tuple(range(8))),
        ("qwen2", {"max_window_layers": 9}, NONE),
        ("qwen2", {"use_sliding_window": False}, NONE),
        ("qwen2_moe", {"use_sliding_window": False}, NONE),
        ("qwen2", {"sliding_window": None}, NONE),
        ("qwen2", {"layer_types": ["sliding_attention", "full_attention"] * 4}, (0, 2, 4, 6)),
        ("dots1", {"use_sliding_window": False}, FROM_5),
        ("smollm3", {"max_window_layers": None, "no_rope_layers": [1, 1, 1, 0] * 2}, (3, 7)),
    ],
)
def test_layers_slide_as_the_configuration_class_of_transformers_says(model_type, config, sliding):
    """layer_types of the classes of transformers 5.23, built with these keys."""
    resolved = resolve({"model_type": model_type, **QWEN, **config})
    windows = {
        layer: group.derived["window"].value
        for group in resolved.layers
        if "window" in group.derived
        for layer in group.layers
    }
    assert windows == dict.fromkeys(sliding, 64)
    switch = ("use_sliding_window",)  # dots1 has none
    assert resolved.unread == (switch if model_type == "dots1" else ())


@pytest.mark.parametrize(
    ("model_type", "config", "window"),
    [
        *((name, {}, 64) for name in ("phimoe", "phi3", "starcoder2", "mixtral", "minimax")),
        ("qwen3_moe", {"use_sliding_window": True}, 64),
        ("qwen3_moe", {"use_sliding_window": False}, None),
        ("qwen3_moe", {}, None),
        ("mistral", {"sliding_window": None}, None),
        ("longformer", {"attention_window": [32, 64]}, 64),
    ],
)
def test_all_layers_see_the_window_where_the_model_masks_by_it(model_type, config, window):
    """transformers 5.23: create_sliding_window_causal_mask where config.sliding_window is set."""
    base = {"model_type": model_type, "num_hidden_layers": 2, "head_dim": 128}
    resolved = resolve({**base, "sliding_window": 64, **config})
    found = [
        group.derived.get("window_of_all", group.derived.get("window")) for group in resolved.layers
    ]
    assert [each and each.value for each in found] == [window]


def test_gpt_neos_local_layers_have_a_window():
    config = {"model_type": "gpt_neo", "num_layers": 2, "window_size": 128}
    assert resolve(config).layer().derived["window"].value == 128
    only = resolve({**config, "attention_types": [[["global"], 2]]})
    assert "window" not in only.layer().derived
    assert only.unread == ()


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
    resolved = resolve({**config, "use_sliding_window": False})
    assert "window_of_all" in resolved.layer().derived
    assert resolved.unread == ("use_sliding_window",)
