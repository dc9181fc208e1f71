"""Configs of models without rope, against transformers' own classes of positions."""

import json

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.nonrotary import FAMILIES
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN
from tests.matrices import matrix

DOCUMENT = json.loads((GOLDEN / "config_nonrotary.json").read_text("utf-8"))
ARRAYS = np.load(GOLDEN / "config_nonrotary.npz")


def cases(*kinds: str):
    return [
        pytest.param(case, id=case["name"]) for case in DOCUMENT["cases"] if case["kind"] in kinds
    ]


@pytest.mark.parametrize("case", cases("rows"))
def test_rows_are_those_transformers_adds(case):
    layers = resolve(case["config"]).layer(case.get("layer_type"))
    expected = ARRAYS[case["array"]]
    start = case.get("start", 0)
    first = layers.derived.get("first_position")
    assert (first.value if first else 0) == start
    found = matrix(layers.scheme, f"{start}:{start + len(expected)}", **layers.values())
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("case", cases("buckets"))
def test_buckets_are_t5s_of_each_side(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    content = catalogue.find(layers.scheme).bind(layers.values()).content
    found = content.bucket(np, np.arange(-299, 300))
    np.testing.assert_array_equal(found, ARRAYS[case["array"]])


@pytest.mark.parametrize("case", cases("bias"))
def test_biases_of_a_causal_row_are_the_models(case):
    layers = resolve(case["config"]).layer()
    expected = ARRAYS[case["array"]]
    found = matrix(layers.scheme, f"0:{expected.shape[1]}", **layers.values())
    np.testing.assert_allclose(found[:, -1, :], expected, rtol=1e-6)


@pytest.mark.parametrize("case", cases("learned"))
def test_tokens_read_the_rows_of_the_table_that_they_read_in_transformers(case):
    layers = resolve(case["config"]).layer()
    params = layers.values()
    offset = params.get("offset", 0)
    rows = ARRAYS[case["array"]]
    assert params["max_len"] == case["max_len"]
    np.testing.assert_array_equal(offset + np.arange(len(rows)), rows)
    assert layers.derived["context"].value == case["max_len"] - offset


@pytest.mark.parametrize("case", cases("sin-cos"))
def test_rope_without_a_config_key_for_its_base(case):
    layers = resolve(case["config"]).layer()
    assert layers.params["layout"].value == "interleaved"
    expected = ARRAYS[case["array"]]
    pairs = expected.shape[1] // 2
    found = matrix("rope", f"0:{len(expected)}", table="cos-sin", **layers.values())
    np.testing.assert_allclose(found[:, pairs:], expected[:, :pairs], atol=1e-6)
    np.testing.assert_allclose(found[:, :pairs], expected[:, pairs:], atol=1e-6)


@pytest.mark.parametrize("case", cases("axial"))
def test_patches_of_vision_encoders_turn_with_row_and_column(case):
    layers = resolve(case["config"]).layer()
    suffix = {"full": "-full", "half": ""}[case["table"]]
    for function, expected in zip(("cos", "sin"), ARRAYS[case["array"]], strict=True):
        found = matrix(layers.scheme, None, table=f"{function}{suffix}", **layers.values())
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("case", cases("patches"))
def test_a_table_of_patches_has_the_rows_that_the_model_has(case):
    layers = resolve(case["config"]).layer()
    rows, columns = ARRAYS[case["array"]].tolist()
    assert layers.scheme == "learned"
    assert layers.values() == {"max_len": rows, "dim": columns}
    assert layers.derived["context"].value == rows


@pytest.mark.parametrize("case", cases("mae"))
def test_patches_have_the_sines_of_mae(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    found = matrix(layers.scheme, None, **layers.values())
    np.testing.assert_allclose(found, ARRAYS[case["array"]], atol=1e-6)


@pytest.mark.parametrize("case", cases("windows"))
def test_each_layer_has_the_heads_and_the_window_of_its_bias(case):
    found = []
    for layers in resolve(case["config"]).layers:
        given = layers.values()
        bias = [given["heads"], *given["window_size"], 0, 0]
        found += [bias] * len(layers.layers)
        assert catalogue.find(layers.scheme).bind(given).content.by == "pair"
    assert found == ARRAYS[case["array"]].tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"depths": [2, 0]}, "depths .*: must be whole numbers from 1 on"),
        (
            {"depths": [2, 2]},
            r"num_heads \[3, 6, 12, 24\] \(default of swin\): must have heads for",
        ),
        ({"num_heads": [3, 6]}, "num_heads .*: must have heads for each of the 4 stages"),
        ({"window_size": 40000}, "window_size .*: must be from 1 to 32768"),
        ({"patch_size": [4, 0]}, "patch_size .*: must be a number, or height and width"),
    ],
)
def test_windows_that_no_model_has_are_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        resolve({"model_type": "swin", **given})


def test_what_is_added_or_left_out_besides_is_said():
    table = {"model_type": "swin", "use_absolute_embeddings": True, "image_size": 64}
    assert "a learned table of the patches is added too" in " ".join(resolve(table).warnings)
    assert "image_size is not given: 224" in " ".join(resolve({"model_type": "vit"}).warnings)


DEFAULTS = json.loads((GOLDEN / "config_defaults.json").read_text("utf-8"))["defaults"]


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_what_a_config_leaves_out_is_what_transformers_takes(model_type):
    family, defaults = FAMILIES[model_type], DEFAULTS[model_type]
    ours = dict((family.dim, family.rows, family.heads, family.layers))
    assert {key: ours.get(key) for key in defaults if key != "pad_token_id"} == {
        key: value for key, value in defaults.items() if key != "pad_token_id"
    }
    if family.pad is not None:
        assert family.pad == defaults["pad_token_id"]


def test_every_family_but_one_that_left_is_held_to_its_defaults():
    assert set(FAMILIES) - set(DEFAULTS) == {"transfo-xl"}


T5 = {
    "model_type": "t5",
    "d_model": 64,
    "num_heads": 4,
    "num_layers": 6,
    "relative_attention_num_buckets": 32,
}


@pytest.mark.parametrize(
    ("stated", "decoder"), [({}, 6), ({"num_decoder_layers": 4}, 4), ({"num_decoder_layers": 9}, 9)]
)
def test_the_decoder_of_t5_has_as_many_layers_as_it_says(stated, decoder):
    resolved = resolve({**T5, **stated})
    assert resolved.layer("encoder").layers == tuple(range(6))
    assert resolved.layer("decoder").layers == tuple(range(decoder))
    assert not resolved.unread


def test_nemotron_h_has_no_positions_in_its_layers_with_attention():
    config = {"model_type": "nemotron_h", "hidden_size": 4480, "max_position_embeddings": 131072}
    config |= {"time_step_limit": [0.0, float("inf")], "hybrid_override_pattern": "M-M*-*"}
    resolved = resolve(config)
    assert resolved.layer().scheme == "nope"
    assert (resolved.unread, resolved.defaulted, resolved.warnings) == ((), (), ())


def test_mpnets_buckets_are_those_of_its_encoder_and_its_rows_begin_at_2():
    """MPNetEncoder.relative_position_bucket; MPNetEmbeddings numbers tokens from padding_idx 1."""
    rows, bias = resolve({"model_type": "mpnet", "pad_token_id": 5}).layers
    assert rows.values() == {"dim": 768, "max_len": 512, "offset": 2}
    assert rows.derived["context"].value == 510
    content = catalogue.find(bias.scheme).bind(bias.values()).content
    with np.load(GOLDEN / "t5_bucket_bi_nb32_md128.npz") as golden:
        expected = golden["mpnet"]
    far = len(expected) // 2
    np.testing.assert_array_equal(content.bucket(np, np.arange(-far, far + 1)), expected)


def test_a_number_of_buckets_that_mpnet_does_not_use_is_told():
    """MPNetEncoder.compute_position_bias takes its default num_buckets=32 whatever the config."""
    found = resolve({"model_type": "mpnet", "relative_attention_num_buckets": 64})
    assert found.layers[1].params["num_buckets"].value == 32
    assert found.contradicted == ("relative_attention_num_buckets",)
