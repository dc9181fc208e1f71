"""Families whose layers have bases of their own, or are not all stretched, layer by layer."""

import json

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN

STATEMENT = json.loads((GOLDEN / "config_layer_bases.json").read_text("utf-8"))
CASES = STATEMENT["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_layer_turns_as_the_model_turns_it(case, golden):
    _, arrays = golden("config_layer_bases")
    resolved = resolve({**STATEMENT["sizes"], **case["config"]})
    groups = {layer: group for group in resolved.layers for layer in group.layers}
    assert sorted(groups) == list(range(len(case["layers"])))
    for layer, expected in enumerate(case["layers"]):
        group = groups[layer]
        if expected is None:
            assert group.scheme == "nope", layer
            continue
        waves = catalogue.find(group.scheme).bind(group.values()).rotation.waves
        name, amplitude = expected
        np.testing.assert_allclose(
            waves.frequencies(np), arrays[name], rtol=STATEMENT["tolerance"]["relative"]
        )
        assert float(waves.scale) == pytest.approx(amplitude, abs=1e-6)
        pairs = "interleaved" if case["name"].startswith("deepseek_v4") else "half"
        assert group.values()["layout"] == pairs


def test_a_base_says_from_which_layer_of_the_list_it_is():
    bases = [0, 10000, 10000, 500000] * 2
    config = {"model_type": "granite_swa", "num_hidden_layers": 8, "layer_rope_theta": bases}
    groups = {group.layer_type: group for group in resolve(config).layers}
    assert [*groups] == ["full_attention", "sliding_attention-10000", "sliding_attention-500000"]
    assert groups["sliding_attention-500000"].params["base"].source == "layer_rope_theta.3"
    assert groups["full_attention"].scheme == "nope"


def test_layers_that_are_not_stretched_have_a_name():
    rope = {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0}
    config = {"model_type": "molmo2_text", "num_hidden_layers": 4, "rope_parameters": rope}
    groups = resolve({**config, "rope_scaling_layers": [0, 2]}).layers
    assert [(group.layer_type, group.scheme) for group in groups] == [
        ("scaled", "rope-linear"),
        ("unscaled", "rope"),
    ]
    assert [group.layer_type for group in resolve(config).layers] == [None]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([1e4] * 3, "has 3 numbers for 4 layers"),
        ([1e4, "x", 0, 0], "must be a list of numbers from 0 on"),
        ([1e4, 0.5, 0, 0], "must be above 1"),
    ],
)
def test_a_list_of_bases_that_is_none_is_refused_by_its_key(listed, message):
    config = {"model_type": "granite_swa", "num_hidden_layers": 4, "layer_rope_theta": listed}
    with pytest.raises(InvalidInput, match=message) as refused:
        resolve(config)
    assert "layer_rope_theta" in refused.value.message


def test_deepseek_v4_stretches_compressed_layers_alone_and_multiplies_nothing_by_it():
    yarn = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [0, 4, 128]}
    resolved = resolve({**config, "rope_scaling": yarn, "qk_rope_head_dim": 64})
    groups = {group.layer_type: group for group in resolved.layers}
    assert groups["sliding_attention"].scheme == "rope"
    compressed = groups["compressed_sparse_attention"]
    assert (compressed.scheme, compressed.derived["attention_factor"].value) == ("rope-yarn", 1.0)
    assert (compressed.values()["dim"], compressed.derived["beside_slice"].value) == (64, 448)
    assert compressed.params["dim"].source == "qk_rope_head_dim"
    assert any("outputs are rotated back" in warning for warning in resolved.warnings)


@pytest.mark.parametrize("ratios", [[0, 4], [0, 4, 7]])
def test_compress_ratios_that_stand_for_no_layer_type_are_refused(ratios):
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": ratios}
    with pytest.raises(InvalidInput, match="compress_ratios .*: must be a list of 0, 4, 128"):
        resolve(config)


def test_deepseek_v4_without_a_base_is_said_to_lack_that_and_not_its_rope():
    """sgl-project/DeepSeek-V4-Flash-FP8 as published: rope_scaling, and no rope_theta."""
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 2, "compress_ratios": [0, 4]}
    rope = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    said = resolve({**config, "rope_scaling": rope, "compress_rope_theta": 160000}).warnings
    lacks = "config.json has no rope_theta of sliding_attention layers: 10000 is the default of"
    assert any(each.startswith(lacks) for each in said)
    assert not any("no rope_parameters" in each for each in said)


def test_deepseek_v4s_two_objects_take_the_share_of_the_config_and_no_third_is_there():
    objects = {"main": {}, "compress": {"rope_type": "linear", "factor": 2.0}}
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 2, "qk_rope_head_dim": 32}
    layers = resolve({**config, "rope_theta": 5e4, "rope_parameters": objects}).layer()
    values = layers.values()
    assert (layers.scheme, values["dim"], values["base"]) == ("rope-linear", 32, 5e4)
    more = {**objects, "sliding_attention": {}}
    with pytest.raises(InvalidInput, match="has only main and compress"):
        resolve({**config, "rope_parameters": more})


STEP = {
    "model_type": "step3p5",
    "num_hidden_layers": 4,
    "head_dim": 128,
    "max_position_embeddings": 262144,
    "rope_theta": [5e6, 1e4, 1e4, 1e4],
    "layer_types": ["full_attention", *["sliding_attention"] * 3],
    "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0],
    "yarn_only_types": ["full_attention"],
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 2.0,
        "original_max_position_embeddings": 131072,
        "low_freq_factor": 1.0,
        "high_freq_factor": 32.0,
    },
}


def test_a_list_of_bases_that_layers_take_theirs_from_is_read():
    resolved = resolve(STEP)
    assert [each.params["base"].value for each in resolved.layers] == [5e6, 1e4]
    assert (resolved.unread, resolved.contradicted, resolved.warnings) == ((), (), ())
    with pytest.raises(InvalidInput, match=r"rope_theta.1 .5000000.0.: must be a number"):
        resolve({**STEP, "rope_theta": [5e6]})  # none of layer 1
    others = resolve({**STEP, "yarn_only_types": ["sliding_attention"]})
    assert others.unread == ("yarn_only_types",)
