"""How configs spell their rope, and what is set in them."""

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.configs.spelling import merged, spelling_of

SIZES = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


def spelled(config, layer_type=None):
    resolved = resolve(config)
    layers = resolved.layer(layer_type)
    others = [group for group in resolved.layers if group.layer_type != layers.layer_type]
    return spelling_of(config, layers, others)


def test_the_older_spelling_stays_the_older():
    config = {"model_type": "llama", **SIZES, "rope_theta": 5e5}
    assert spelled(config).snippet(YARN, base=1e6) == {"rope_scaling": YARN, "rope_theta": 1e6}
    typed = {**config, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert spelled(typed).snippet(YARN)["rope_scaling"]["type"] == "yarn"
    assert "rope_type" not in spelled(typed).snippet(YARN)["rope_scaling"]


def test_that_of_transformers_5_has_the_base_in_its_object():
    own = {"rope_type": "default", "rope_theta": 5e5}
    config = {"model_type": "llama", **SIZES, "rope_parameters": own}
    assert spelled(config).snippet(YARN) == {"rope_parameters": {**YARN, "rope_theta": 5e5}}
    assert spelled(config).snippet({}, base=1e6) == {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}
    }
    assert spelled({"model_type": "llama", **SIZES}).container == "rope_parameters"


def test_what_does_not_stretch_is_kept_and_what_did_goes():
    own = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 1024, "mrope_section": [16, 24, 24]}  # fmt: skip
    config = {"model_type": "llama", **SIZES, "max_position_embeddings": 4096, "rope_scaling": own}
    rope = spelled(config).snippet(YARN)["rope_scaling"]
    assert rope == {**YARN, "mrope_section": [16, 24, 24]}


def test_an_older_base_of_another_name_keeps_it():
    config = {"model_type": "gpt_neox", **SIZES, "rotary_emb_base": 10000, "rotary_pct": 0.25}
    assert spelled(config).snippet({}, base=5e5) == {"rotary_emb_base": 5e5}


def test_engines_are_given_the_base_and_the_share_of_the_head_too():
    config = {"model_type": "gpt_neox", **SIZES, "rotary_emb_base": 10000, "rotary_pct": 0.25}
    layers = resolve(config).layer()
    assert spelled(config).override(layers, [], YARN, 8192) == {
        "rope_parameters": {**YARN, "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        "max_position_embeddings": 8192,
    }


def test_what_is_loaded_has_no_older_keys():
    config = {"model_type": "llama", **SIZES, "rope_theta": 5e5, "rope_scaling": dict(YARN)}
    loaded = spelled(config).loaded(config, {"rope_parameters": {"rope_theta": 1e6}})
    assert resolve(loaded).layer().values()["base"] == 1e6
    assert resolve(loaded).layer().scheme == "rope"


@pytest.mark.parametrize("key", ["text_config", "llm_config"])
def test_sections_are_merged_and_other_objects_replaced(key):
    config = {key: {"a": 1, "rope_scaling": {"b": 2}}, "vision_config": {}}
    assert merged(config, {key: {"rope_scaling": {"c": 3}}}) == {
        key: {"a": 1, "rope_scaling": {"c": 3}},
        "vision_config": {},
    }


def test_a_config_that_says_nothing_of_rope_is_told_all_of_it():
    plain = {"model_type": "llama", **SIZES}
    assert spelled(plain).snippet(YARN) == {"rope_parameters": {**YARN, "rope_theta": 10000.0}}
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 64}
    own = spelled(gemma, "full_attention").snippet(YARN)["rope_parameters"]
    assert own == {
        "full_attention": {**YARN, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }
    container = {"model_type": "gemma3"}
    assert spelled(container, "full_attention").snippet(YARN).keys() == {"text_config"}


def test_a_base_of_a_list_is_set_for_its_layers_alone():
    config = {
        "model_type": "step3p5",
        "num_hidden_layers": 4,
        "rope_theta": [5e6, 1e4, 1e4, 5e6],
        "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
    }
    snippet = spelled(config, "full_attention").snippet({}, base=2e7)
    assert snippet == {"rope_theta": [2e7, 1e4, 1e4, 2e7]}
    assert resolve(merged(config, snippet)).layer("full_attention").params["base"].value == 2e7
