"""Where a config says less, or more, than it seems to: each doubt is warned of and counted."""

from __future__ import annotations

import pytest

from posenc_cli.models.config import resolve

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "max_position_embeddings": 8192,
    "rope_theta": 500000,
}
LINEAR = {"rope_type": "linear", "factor": 4}


def without(*keys):
    return {key: value for key, value in LLAMA.items() if key not in keys}


def test_rope_scaling_takes_the_place_of_a_rope_parameters_that_says_otherwise():
    second = {"rope_type": "yarn", "factor": 8}
    resolved = resolve({**LLAMA, "rope_scaling": LINEAR, "rope_parameters": second})
    assert resolved.layer().scheme == "rope-linear"
    (warning, *_) = resolved.warnings
    assert warning.startswith("rope_parameters has no effect: transformers reads rope_scaling")
    assert warning.endswith("they differ in rope_type, factor")
    assert "rope_parameters" in resolved.unread


def test_the_same_scaling_under_both_keys_is_no_doubt():
    old = {"type": "linear", "factor": 4}
    resolved = resolve({**LLAMA, "rope_scaling": old, "rope_parameters": LINEAR})
    assert (resolved.warnings, resolved.unread) == ((), ())


def test_a_base_beside_that_of_the_rope_object_is_warned_of_unless_they_agree():
    inside = {"rope_type": "default", "rope_theta": 1e6}
    resolved = resolve({**LLAMA, "rope_parameters": inside})
    assert resolved.layer().params["base"].value == 1e6
    assert resolved.warnings[0] == (
        "rope_theta 500000 has no effect: rope_parameters.rope_theta 1e+06 goes before it"
    )
    assert resolved.unread == ("rope_theta",)
    agreeing = resolve({**LLAMA, "rope_theta": 1e6, "rope_parameters": inside})
    assert (agreeing.warnings, agreeing.unread) == ((), ())


@pytest.mark.parametrize(
    ("config", "keys", "words"),
    [
        (without("hidden_size"), ["hidden_size"], "hidden_size is not given: 4096 is the default"),
        (without("num_attention_heads"), ["num_attention_heads"], "32 is the default of llama"),
        ({"model_type": "gemma2", **without("model_type", "num_attention_heads")}, ["head_dim"],
         "head_dim is not given: 256 is the default of gemma2"),
        ({"model_type": "bert", "hidden_size": 768}, ["max_position_embeddings"], "512 is the"),
        ({"model_type": "qwen2_vl", **without("model_type")}, ["mrope_section"],
         "mrope_section is not given: [16, 24, 24] is the default of qwen2_vl_text"),
    ],
)  # fmt: skip
def test_a_size_that_the_model_type_gives_is_warned_of_and_counts_as_a_default(config, keys, words):
    resolved = resolve(config)
    assert list(resolved.defaulted) == keys
    assert any(words in each for each in resolved.warnings)


def test_heads_that_do_not_divide_the_hidden_size_are_rounded_down_where_transformers_does():
    resolved = resolve({**LLAMA, "model_type": "mistral", "hidden_size": 64 * 32 + 7})
    assert resolved.layer().values()["dim"] == 64
    assert "hidden_size 2055 is no multiple" in resolved.warnings[0]
