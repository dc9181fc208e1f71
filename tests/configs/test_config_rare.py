"""What few configs say, and what they leave out: read as transformers reads it, and told."""

from __future__ import annotations

import json

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_theta": 10_000.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
AXES = "read for text only: the axes of images and video are left out"


def told(config, words):
    """How many warnings have some words."""
    return sum(words in warning for warning in resolve(config).warnings)


@pytest.mark.parametrize(("stated", "dim"), [({}, 4096), ({"hidden_size": 1024}, 1024)])
def test_a_model_without_positions_has_its_own_width(stated, dim):
    # GraniteMoeHybridConfig: hidden_size 4096, position_embedding_type null.
    (layers,) = resolve({"model_type": "granitemoehybrid", **stated}).layers
    assert (layers.scheme, layers.params["dim"].value) == ("nope", dim)


@pytest.mark.parametrize(
    ("model_type", "sections", "interleaved"),
    [("qwen2_vl_text", [16, 24, 24], False), ("qwen3_vl_text", [24, 20, 20], True)],
)
def test_how_axes_are_dealt_out_is_the_models_and_a_config_that_differs_is_told(
    model_type, sections, interleaved
):
    for stated in (True, False):
        rope = {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": stated}
        config = {**LLAMA, "model_type": model_type, "rope_scaling": rope}
        (layers,) = resolve(config).layers
        assert layers.values().get("interleaved", False) is interleaved
        assert told(config, "mrope_interleaved") == (stated is not interleaved)


@pytest.mark.parametrize(
    ("stated", "doubtful"),
    [
        ({"beta_fast": 1.5}, False),
        ({"beta_fast": 1}, False),
        ({"beta_fast": 0.5}, True),
        ({"beta_slow": 31}, False),
        ({"beta_slow": 33}, True),
        ({"beta_fast": 4, "beta_slow": 5}, True),
    ],
)
def test_a_ramp_from_fewer_turns_than_to_is_told_with_the_defaults_32_and_1(stated, doubtful):
    assert told({**LLAMA, "rope_scaling": {**YARN, **stated}}, "is below beta_slow") == doubtful


@pytest.mark.parametrize("model_type", ["dinov3_vit", "pixtral"])
@pytest.mark.parametrize(("size", "grid"), [([32, 64], (2, 4)), ([80, 32], (5, 2)), (48, (3, 3))])
def test_an_image_has_as_many_positions_as_patches(model_type, size, grid):
    config = {"model_type": model_type, "hidden_size": 64, "num_attention_heads": 4}
    (layers,) = resolve({**config, "image_size": size, "patch_size": 16}).layers
    assert layers.params["grid"].value == grid
    assert layers.derived["context"].value == grid[0] * grid[1]


def test_axes_of_a_stretched_rope_are_left_out_aloud_where_a_model_may_have_them():
    section = {**YARN, "mrope_section": [16, 24, 24]}
    unknown = {**LLAMA, "model_type": "qwerty_vl"}
    assert told({**unknown, "rope_scaling": section}, AXES) == 1
    assert told({**unknown, "rope_scaling": YARN}, AXES) == 0
    assert told({**LLAMA, "rope_scaling": section}, AXES) == 0
    assert told({**LLAMA, "model_type": "qwen2_vl_text", "rope_scaling": YARN}, AXES) == 1


@pytest.mark.parametrize("share", [1.25, 2, 1e308])
def test_a_share_above_1_is_refused_where_it_is_read(share):
    """Whatever the rule: a list of factors for a pair each is not said to be of another length."""
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    long = {"rope_type": "longrope", **factors, "original_max_position_embeddings": 64}
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "partial_rotary_factor": share}
    with pytest.raises(InvalidInput, match=r"partial_rotary_factor \S+: must be at most 1$"):
        resolve({"model_type": "phi3", "rope_scaling": long, **sizes})


@pytest.mark.parametrize(("share", "count"), [(0.5, 1), (1.0, 0), (1, 0), (None, 0)])
def test_a_share_that_llama_ignores_is_told_unless_it_is_the_whole(share, count):
    words = "the rotated share here is 1"
    assert told({**LLAMA, "partial_rotary_factor": share}, words) == count
    inside = {"rope_type": "default", "partial_rotary_factor": share}
    assert told({**LLAMA, "rope_scaling": inside}, words) == count


def test_each_second_base_of_an_unknown_model_is_told():
    given = {name: value for name, value in LLAMA.items() if name != "rope_theta"}
    inside = {"rope_type": "default", "rope_theta": 1e6}
    config = {**given, "model_type": "qwerty", "rope_parameters": inside}
    for second in ("rope_theta", "rotary_emb_base", "rope_base"):
        assert told({**config, second: 5000}, f"{second} 5000 is not read") == 1
        assert told({**config, second: 1e6}, "is not read") == 0
    both = {**config, "rope_theta": 1e6, "rope_base": 5000}
    assert told(both, "rope_base 5000 is not read") == 1


@pytest.mark.parametrize("model_type", ["deepseek_v3", "mistral4"])
def test_a_negative_width_beside_the_slice_is_refused(model_type):
    config = {**LLAMA, "model_type": model_type, "qk_rope_head_dim": 64}
    with pytest.raises(InvalidInput, match="qk_nope_head_dim -1: must be from 0"):
        resolve({**config, "qk_nope_head_dim": -1})


def test_what_speech_and_buckets_leave_out_is_what_transformers_takes():
    """WhisperConfig, T5Config, MptConfig and GPTJConfig."""
    whisper = resolve({"model_type": "whisper"})
    assert whisper.layer("encoder").derived["context"].value == 1500
    assert whisper.layer("decoder").params["max_len"].value == 448
    t5 = resolve({"model_type": "t5"}).layer("decoder").values()
    assert (t5["num_buckets"], t5["max_distance"]) == (32, 128)
    assert resolve({"model_type": "mpt"}).layers[0].derived["context"].value == 2048
    gptj = resolve({"model_type": "gptj"}).layers[0]
    assert (gptj.derived["head_dim"].value, gptj.params["partial"].value) == (256, 0.25)


@pytest.mark.parametrize("nested", [False, True])
def test_a_class_of_another_family_is_told_wherever_it_is_named(nested):
    words = "'DeepseekV3ForCausalLM' is a class of deepseek_v3"
    other = {"architectures": ["DeepseekV3ForCausalLM"]}
    assert told({**LLAMA, **other}, words) == 1
    text, top = ({**LLAMA, **other}, {}) if nested else (LLAMA, other)
    config = {"model_type": "llava", "text_config": text, **top}
    assert told(config, words) == 1
    assert told(config, f"text_config.architectures.0 {words}") == nested


@pytest.mark.parametrize("hidden", [1, 16, 31])
def test_a_width_below_the_number_of_heads_is_refused_as_that(hidden):
    with pytest.raises(InvalidInput, match=f"hidden_size {hidden}: must be at least num_attention"):
        resolve({**LLAMA, "hidden_size": hidden})


@pytest.mark.parametrize(
    ("stated", "offset"), [({}, 2), ({"pad_token_id": 0}, 1), ({"pad_token_id": 5}, 6)]
)
def test_tokens_of_roberta_begin_after_the_row_of_the_padding(stated, offset):
    # RobertaConfig: pad_token_id 1; positions begin at padding_idx + 1.
    (layers,) = resolve({"model_type": "roberta", **stated}).layers
    assert (layers.params["offset"].value, layers.derived["context"].value) == (
        offset,
        512 - offset,
    )


@pytest.mark.parametrize(("rows", "fits"), [(1, False), (2, False), (3, True)])
def test_a_table_must_have_rows_for_tokens(rows, fits):
    config = {"model_type": "roberta", "max_position_embeddings": rows}
    if fits:
        assert resolve(config).layers[0].derived["context"].value == 1
        return
    with pytest.raises(InvalidInput, match=f"max_position_embeddings {rows}: must be above 2"):
        resolve(config)


@pytest.mark.parametrize(("stated", "partial"), [({}, 0.25), ({"rotary_dim": 32}, 0.125)])
def test_gptj_turns_the_columns_that_it_states(stated, partial):
    assert resolve({"model_type": "gptj", **stated}).layers[0].params["partial"].value == partial


@pytest.mark.parametrize("last", ["full_attention", "sliding_attention"])
def test_the_last_layer_of_gemma4_is_told_only_where_the_config_says_otherwise(last):
    """Read from a file, whose texts are no one's constants."""
    given = {"model_type": "gemma4_text", "num_hidden_layers": 3}
    config = json.loads(json.dumps({**given, "layer_types": ["sliding_attention"] * 2 + [last]}))
    assert told(config, "ends in") == (last != "full_attention")
    assert resolve(config).layer("full_attention").layers == (2,)


def test_a_gptj_that_turns_the_whole_head_has_no_share():
    (layers,) = resolve({"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": 16}).layers
    assert layers.params["dim"].value == 16
    assert "partial" not in layers.params


def test_a_head_of_two_columns_is_one_pair_that_turns():
    sizes = {"hidden_size": 24, "num_attention_heads": 12}
    (layers,) = resolve({"model_type": "roformer", **sizes}).layers
    assert layers.params["dim"].value == 2


def test_a_config_without_a_number_of_layers_has_the_twelve_of_its_class():
    (layers,) = resolve({"model_type": "roformer"}).layers
    assert layers.layers == tuple(range(12))


@pytest.mark.parametrize(("model_type", "dim"), [("pixtral", 8), ("dinov3_vit", 16)])
def test_only_pixtral_among_vision_encoders_reads_a_head_dim(model_type, dim):
    config = {"model_type": model_type, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 8}
    (layers,) = resolve({**config, "image_size": 64, "patch_size": 16}).layers
    assert layers.params["dim"].value == dim
