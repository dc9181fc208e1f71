"""Configs of drafters, adapters and generation: read, or refused by what they are."""

import json

import pytest

from posenc_cli.configs import library

LAYER = {**library.find("llama-3.1-8b").config, "num_hidden_layers": 1, "head_dim": 128}
LLAMA3 = LAYER["rope_scaling"]


def speculators(kind="eagle3", **changes):
    return {
        "architectures": ["Eagle3Speculator"],
        "draft_vocab_size": 32000,
        "speculators_config": {
            "algorithm": kind,
            "verifier": {"architectures": [], "name_or_path": "meta-llama/Llama-3.1-8B-Instruct"},
        },
        "speculators_model_type": kind,
        "speculators_version": "0.4.0",
        "transformer_layer_config": {**LAYER, **changes},
    }


def eagle(**changes):
    return {**LAYER, "architectures": ["LlamaForCausalLMEagle3"], **changes}


def test_a_drafter_is_read_by_its_own_layers_and_told_as_one(call, config):
    status, out, _ = call("explain", config(speculators()), "--json")
    document = json.loads(out)
    assert status == 0
    assert document["layers"][0]["params"]["factor"] == {
        "value": 8.0,
        "source": "transformer_layer_config.rope_scaling.factor",
    }
    assert "model ('eagle3') of 'meta-llama/Llama-3.1-8B-Instruct'" in document["warnings"][0]


@pytest.mark.long
@pytest.mark.parametrize("of", [speculators, eagle])
@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({}, set()),
        ({"max_position_embeddings": 2048}, set()),
        ({"num_hidden_layers": 2}, set()),
        ({"rope_scaling": None}, {"llama3-factors"}),
        ({"rope_theta": None, "rope_scaling": None}, {"base", "llama3-factors"}),
        ({"rope_theta": 10000.0}, {"base"}),
        ({"rope_scaling": {**LLAMA3, "factor": 32.0}}, {"factor"}),
        ({"rope_scaling": {"rope_type": "linear", "factor": 8.0}}, {"llama3-factors"}),
        ({"head_dim": 64}, {"rotary-width"}),
    ],
)
def test_a_drafter_that_does_not_turn_as_its_verifier_is_named(call, config, of, changes, lost):
    drafter = config(of(**changes))
    for sides in (("llama-3.1-8b", drafter), (drafter, "llama-3.1-8b")):
        status, out, _ = call("compare", *sides, "--json")
        document = json.loads(out)
        assert {loss["name"] for loss in document["losses"]} >= lost
        assert (status, document["kind"]) == (int(bool(lost)), "models")


def test_a_drafter_may_turn_as_any_layers_of_its_verifier(call, config):
    plain = {"rope_theta": 10000.0, "rope_scaling": None, "head_dim": 256}
    assert call("compare", "gemma-3-4b", config(eagle(**plain)))[0] == 0
    linear = {"rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    assert call("compare", "gemma-3-4b", config(eagle(**linear, head_dim=256)))[0] == 0
    status, out, _ = call("compare", "gemma-3-4b", config(eagle(head_dim=256)))
    assert status == 1
    assert "full_attention" in out


@pytest.mark.parametrize(
    ("values", "name", "words"),
    [
        ({"peft_type": "LORA"}, "adapter_config.json", "positions are those of the base model"),
        ({"_from_model_config": True, "max_length": 4096}, "g.json", "is a generation_config.json"),
        ({"speculators_model_type": "mlp"}, "config.json", "without transformer_layer_config"),
        ({"speculators_model_type": "a\nb"}, "config.json", "is a draft model"),
    ],
)
def test_what_says_nothing_of_positions_is_refused_by_what_it_is(call, config, values, name, words):
    status, out, err = call("explain", config(values, name))
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") <= 2


def test_the_folder_of_an_adapter_is_told_as_one(call, config, tmp_path):
    config({"peft_type": "LORA"}, "adapter_config.json")
    status, _, err = call("explain", str(tmp_path))
    assert (status, "adapter_config.json" in err) == (2, True)
    config(LAYER)
    assert call("explain", str(tmp_path))[0] == 0
