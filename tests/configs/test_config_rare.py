"""What few configs say, and what they leave out: read as transformers reads it, and told."""

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput
from tests.configs.test_config import LLAMA as OF_500000

LLAMA = {**OF_500000, "num_hidden_layers": 2, "rope_theta": 10_000.0}
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
        doubt = () if stated is interleaved else ("rope_scaling.mrope_interleaved",)
        assert resolve(config).contradicted == doubt


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


def test_each_second_base_of_an_unknown_model_is_told():
    given = {name: value for name, value in LLAMA.items() if name != "rope_theta"}
    inside = {"rope_type": "default", "rope_theta": 1e6}
    config = {**given, "model_type": "qwerty", "rope_parameters": inside}
    for second in ("rope_theta", "rotary_emb_base", "rope_base"):
        assert told({**config, second: 5000}, f"{second} 5000 is not read") == 1
        assert told({**config, second: 1e6}, "is not read") == 0
    both = {**config, "rope_theta": 1e6, "rope_base": 5000}
    assert told(both, "rope_base 5000 is not read") == 1


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


@pytest.mark.parametrize(("model_type", "dim"), [("pixtral", 8), ("dinov3_vit", 16)])
def test_only_pixtral_among_vision_encoders_reads_a_head_dim(model_type, dim):
    config = {"model_type": model_type, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 8}
    (layers,) = resolve({**config, "image_size": 64, "patch_size": 16}).layers
    assert layers.params["dim"].value == dim
