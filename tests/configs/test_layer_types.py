"""Which type each layer has where a config does not list them, against transformers' classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.family_keys import FamilyKeys
from posenc_cli.configs.keys import Keys
from posenc_cli.configs.layer_types import WITHOUT_ATTENTION, groups
from posenc_cli.configs.resolved import Notes
from posenc_cli.errors import InvalidInput

DOCUMENT = json.loads((Path(__file__).parents[1] / "golden" / "layer_types.json").read_text())
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
    assert [each.model_type for each in families.all_rotary() if each.needs_layer_types] == [
        "zamba2"
    ]
    with pytest.raises(InvalidInput, match="layer_types is missing"):
        resolve({"model_type": "zamba2", "use_mem_rope": True})


def test_the_last_layer_of_gemma_4_is_full_whatever_its_config_lists():
    listed = ["full_attention", "sliding_attention"]
    resolved = resolve({"model_type": "gemma4_text", "layer_types": listed, "num_hidden_layers": 2})
    assert [(each.layer_type, each.layers) for each in resolved.layers] == [
        ("full_attention", (0, 1)),
    ]
    assert any("layer_types ends in sliding_attention" in each for each in resolved.warnings)


MIMO = {"model_type": "mimo_v2_flash", "num_hidden_layers": 7}


def test_mimos_own_list_of_layers_is_no_doubt_where_it_says_what_transformers_derives():
    resolved = resolve({**MIMO, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1]})
    assert {each.layer_type: each.layers for each in resolved.layers} == {
        "full_attention": (0, 5),
        "sliding_attention": (1, 2, 3, 4, 6),
    }
    assert resolved.contradicted == ()
    other = resolve({**MIMO, "hybrid_layer_pattern": [0, 1, 1, 0, 1, 0, 1]})
    assert other.contradicted == ("hybrid_layer_pattern",)
    assert any("layer 3 is sliding_attention" in each for each in other.warnings)
