"""Which type each layer has where a config does not list them, against transformers' classes."""

import json

import pytest

from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.keys import FamilyKeys, Keys
from posenc_cli.configs.layer_types import WITHOUT_ATTENTION, groups
from posenc_cli.configs.resolved import Notes
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN

DOCUMENT = json.loads((GOLDEN / "layer_types.json").read_text())
MODEL_TYPES = sorted({case["model_type"] for case in DOCUMENT["cases"]})


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_layers_that_a_config_does_not_list_have_the_types_of_transformers(model_type):
    family = families.rotary(model_type)
    for case in DOCUMENT["cases"]:
        if case["model_type"] != model_type or family.needs_layer_types:
            continue
        count, name = case["num_hidden_layers"], "num_hidden_layers"
        config = {} if count is None else {family.aliases.get(name, name): count}
        types = [label for label, run in case["layer_types"] for _ in range(run)]
        # A family all of whose layers have attention of one kind has no names for them.
        names = family.cycle or (None,)
        found = {
            layer: None if group.label in ("rope", "nope") else group.label
            for group in groups(FamilyKeys(Keys(config, name="config.json"), family, Notes()))
            for layer in group.layers
        }
        expected = {
            i: each if each in names else None
            for i, each in enumerate(types)
            if each not in WITHOUT_ATTENTION
        }
        assert found == expected, count


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bamba", "num_hidden_layers": 6, "attn_layer_indices": [2, 5]},
        {"model_type": "lfm2", "num_hidden_layers": 6, "full_attn_idxs": [2, 5]},
        {"model_type": "qwen3_next", "num_hidden_layers": 6,
         "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2},
    ],
)  # fmt: skip
def test_layers_with_attention_may_be_listed_by_number_or_by_name(config):
    (layers,) = resolve(config).layers
    assert (layers.layer_type, layers.layers) == ("full_attention", (2, 5))


def test_only_a_list_that_no_rule_makes_must_be_given():
    assert [
        each.model_type
        for each in map(families.rotary, sorted(families.names()))
        if each.needs_layer_types
    ] == ["zamba2"]
    with pytest.raises(InvalidInput, match="layer_types is missing"):
        resolve({"model_type": "zamba2", "use_mem_rope": True})


def test_the_last_layer_of_gemma_4_is_full_whatever_its_config_lists():
    listed = ["full_attention", "sliding_attention"]
    resolved = resolve({"model_type": "gemma4_text", "layer_types": listed, "num_hidden_layers": 2})
    assert [(each.layer_type, each.layers) for each in resolved.layers] == [
        ("full_attention", (0, 1)),
    ]
    assert any("layer_types ends in sliding_attention" in each for each in resolved.warnings)
    assert resolved.contradicted == ("layer_types",)


MIMO = {"model_type": "mimo_v2_flash", "num_hidden_layers": 7}


def test_mimos_own_list_of_layers_is_no_doubt_where_it_says_what_transformers_derives():
    resolved = resolve({**MIMO, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1]})
    assert {each.layer_type: each.layers for each in resolved.layers} == {
        "full_attention": (0, 5),
        "sliding_attention": (1, 2, 3, 4, 6),
    }
    assert resolved.unread == ()
    for other in ([0, 1, 1, 0, 1, 0, 1], [1, 0, 0, 0, 0, 1, 0]):
        assert resolve({**MIMO, "hybrid_layer_pattern": other}).unread == ("hybrid_layer_pattern",)


MIMO_V2 = {
    "model_type": "mimo_v2",
    "architectures": ["MiMoV2ForCausalLM"],
    "hidden_size": 6144,
    "num_attention_heads": 128,
    "num_hidden_layers": 12,
    "head_dim": 192,
    "swa_head_dim": 192,
    "swa_num_key_value_heads": 8,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0],
    "max_position_embeddings": 1048576,
    "partial_rotary_factor": 0.334,
    "rope_theta": 10000000,
    "swa_rope_theta": 10000,
    "rope_parameters": {
        "partial_rotary_factor": 0.334,
        "rope_theta": 10000000,
        "rope_type": "default",
    },
}


@pytest.mark.parametrize("without", [(), ("rope_parameters",), ("rope_theta",), ("swa_head_dim",)])
def test_mimo_v2s_sliding_layers_have_their_own_base(without):
    """MiMoV2RotaryEmbedding of NVIDIA-NeMo/Automodel, components/models/mimo_v25/model.py."""
    resolved = resolve({key: value for key, value in MIMO_V2.items() if key not in without})
    full, sliding = resolved.layers
    assert (full.layers, full.params["base"].value) == ((0, 5, 11), 1e7)
    assert (len(sliding.layers), sliding.params["base"].value) == (9, 1e4)
    assert {each.params["dim"].value for each in resolved.layers} == {192}
    assert {each.params["partial"].value for each in resolved.layers} == {0.334}
    assert (resolved.unread, resolved.contradicted) == ((), ())


def test_mimo_v2_without_a_base_of_its_own_slides_by_that_of_all():
    rest = {key: value for key, value in MIMO_V2.items() if key != "swa_rope_theta"}
    assert [each.params["base"].value for each in resolve(rest).layers] == [1e7, 1e7]
    wide = resolve({**MIMO_V2, "swa_head_dim": 128})
    assert [each.params["dim"].value for each in wide.layers] == [192, 128]
    with pytest.raises(InvalidInput, match="hybrid_layer_pattern has 2 numbers for 12 layers"):
        resolve({**MIMO_V2, "hybrid_layer_pattern": [0, 1]})
    # Its code multiplies what stands there: None × 0.334 fails.
    with pytest.raises(InvalidInput, match="swa_head_dim null: must be a whole number"):
        resolve({**MIMO_V2, "swa_head_dim": None})


SMOLLM3 = {"model_type": "smollm3", "num_hidden_layers": 8, "no_rope_layer_interval": 4}


@pytest.mark.parametrize("model_type", ["smollm3", "llama4_text"])
def test_an_interval_beside_a_list_is_silent_where_they_agree_and_contradicted_where_not(
    model_type,
):
    """SmolLM3Config and Llama4TextConfig take the interval where there is no list."""
    config = {**SMOLLM3, "model_type": model_type}
    agreeing = resolve({**config, "no_rope_layers": [1, 1, 1, 0] * 2})
    assert (agreeing.unread, agreeing.contradicted) == ((), ())
    inverted = resolve({**config, "no_rope_layers": [0, 0, 0, 1] * 2})
    assert inverted.contradicted == ("no_rope_layer_interval",)
    (warning,) = (text for text in inverted.warnings if "contradicts" in text)
    assert "by which 6 of 8 layers do not rotate, not 2" in warning


@pytest.mark.parametrize(
    ("stated", "full"),
    [
        ({"no_rope_layers": [0, 0, 1, 1, 1, 1]}, (0, 1)),
        ({"no_rope_layer_interval": 2}, (1, 3, 5)),
        ({}, (3,)),
    ],
)
def test_llama_4_has_full_attention_where_it_does_not_rotate(stated, full):
    """``layer_types`` of Llama4TextConfig, of transformers 5.23."""
    config = {"model_type": "llama4_text", "num_hidden_layers": 6, **stated}
    layers = {each.layer_type: each for each in resolve(config).layers}
    assert layers.keys() == {"full_attention", "chunked_attention"}
    assert (layers["full_attention"].layers, layers["full_attention"].scheme) == (full, "nope")


def test_a_block_without_attention_needs_no_rope():
    """Dory's file as transformers 5.24 writes it: an attention block and an mlp make a layer."""
    bases = {"sliding_attention": 1e4, "full_attention": 1e7}
    config = {
        "model_type": "dory",
        "hidden_size": 2560,
        "num_attention_heads": 16,
        "head_dim": 256,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp"],
        "rope_parameters": {kind: {"rope_theta": base} for kind, base in bases.items()},
    }
    found = resolve(config).layers
    assert {each.layer_type: each.values()["base"] for each in found} == bases
    assert [each.layers for each in found] == [(0,), (1,)]
