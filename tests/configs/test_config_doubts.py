"""Where a config says less, or more, than it seems to: each doubt is warned of and counted."""

import json

import pytest

from posenc_cli import catalogue
from posenc_cli.comparison.losses import rotating_frequencies
from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput
from tests.configs.test_config import LLAMA
from tests.gguf_files import GOLDEN

LINEAR = {"rope_type": "linear", "factor": 4}


def without(*keys):
    return {key: value for key, value in LLAMA.items() if key not in keys}


def test_rope_scaling_takes_the_place_of_a_rope_parameters_that_says_otherwise():
    second = {"rope_type": "yarn", "factor": 8}
    resolved = resolve({**LLAMA, "rope_scaling": LINEAR, "rope_parameters": second})
    assert resolved.layer().scheme == "rope-linear"
    assert resolved.warnings == ("nothing read rope_parameters",)
    assert resolved.unread == ("rope_parameters",)


def test_the_same_scaling_under_both_keys_is_no_doubt():
    old = {"type": "linear", "factor": 4}
    resolved = resolve({**LLAMA, "rope_scaling": old, "rope_parameters": LINEAR})
    assert (resolved.warnings, resolved.unread) == ((), ())


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


def test_an_unknown_model_type_counts_as_a_default_and_none_that_is_only_alike_is_named():
    resolved = resolve({**LLAMA, "model_type": "lama"})
    assert resolved.defaulted == ("model_type",)
    assert resolved.warnings[0].endswith("as if it were like Llama")
    for alike in ("qwen9", "gemma5", "internlm9", "solar"):
        assert resolve({**LLAMA, "model_type": alike}).warnings[0].endswith("like Llama"), alike
    with pytest.raises(InvalidInput) as refused:
        resolve({"model_type": "telechat", "hidden_size": 4096})
    assert refused.value.hint == "use --scheme and --set instead of a config"


@pytest.mark.parametrize(("written", "name"), [("Llama", "llama"), ("gpt-neox", "gpt_neox")])
def test_another_spelling_of_the_same_name_is_told(written, name):
    warning = resolve({**LLAMA, "model_type": written}).warnings[0]
    assert warning.endswith(f"as if it were like Llama (transformers calls it {name!r})")


def test_kimi_k2_is_deepseek_v3_by_another_name():
    resolved = resolve({**LLAMA, "model_type": "kimi_k2", "qk_rope_head_dim": 64})
    assert resolved.layer().values()["layout"] == "interleaved"
    assert resolved.model_type == "deepseek_v3"
    assert "model type kimi_k2 is read as deepseek_v3, whose code it shares" in resolved.warnings


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": ""}, "model_type '': must be a name"),
        ({"model_type": "a\x1b[2J"}, r"'a\x1b[2J'"),
        ({"model_type": "x" * 5000}, "(5000 characters)"),
        (
            {"model_type": "chatglm9", "rope_ratio": 5},
            "its keys (rope_ratio) belong to its own code",
        ),
        ({"model_type": "phi3small", "rope_embedding_base": 1e6}, "(rope_embedding_base)"),
        ({"model_type": "jais", "position_embedding_type": "alibi"}, "(position_embedding_type)"),
        ({**LLAMA, "rope_scaling": {**LINEAR, "factor": "\x1b[31m"}}, r"factor "),
    ],
)
def test_a_name_that_cannot_be_one_and_keys_of_another_code_are_refused(config, words):
    with pytest.raises(InvalidInput) as error:
        resolve(config)
    assert words in error.value.message
    assert error.value.message.isprintable()
    assert len(error.value.message) < 300


def test_keys_are_escaped_and_shortened_wherever_they_are_named():
    evil = {**LINEAR, "rope\x1b[2J": 1, "rope" + "x" * 5000: 2}
    resolved = resolve({**LLAMA, "rope_scaling": evil})
    assert all(each.isprintable() and len(each) < 120 for each in resolved.unread)
    assert all(each.isprintable() for each in resolved.warnings)


def test_equal_frequency_factors_are_a_step_as_in_transformers():
    """Llama 4 Scout as published: every eighth inv_freq of Llama4TextRotaryEmbedding (5.24)."""
    scaling = {"rope_type": "llama3", "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1}
    scaling |= {"original_max_position_embeddings": 8192}
    config = {"model_type": "llama4_text", "head_dim": 128, "rope_theta": 5e5}
    resolved = resolve({**config, "num_hidden_layers": 4, "rope_scaling": scaling})
    expected = [1.0, 0.193922758102417, 0.03760603070259094, 0.00729266507551074]
    expected += [0.001414213445968926, 1.7140511772595346e-05, 3.3239348340430297e-06]
    expected += [6.445865778914595e-07]
    found = rotating_frequencies(resolved.layers[0], None)[::8]
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    assert resolved.contradicted == ()


LOGGED = json.loads((GOLDEN / "rope_warnings.json").read_text("utf-8"))
WORDS = {
    "lengths": "contradicts max_position_embeddings",
    "factor": "is below 1: transformers warns",
    "betas": "is below beta_slow",
    "original": "is not below max_position_embeddings",
    "unread": "nothing read",
}


def test_what_transformers_warns_of_is_warned_of_and_nothing_else_of_the_kind():
    assert {kind for case in LOGGED["cases"] for kind in case["warns"]} == set(WORDS)
    for case in LOGGED["cases"]:
        resolved = resolve(case["config"])
        found = {kind for kind, words in WORDS.items() if words in "\n".join(resolved.warnings)}
        # Without an original length the context stands for it; transformers says that of llama3.
        if "original_max_position_embeddings" in resolved.defaulted:
            assert found <= set(case["warns"]) <= found | {"original"}, case
        else:
            assert found == set(case["warns"]), case


def test_a_stretch_without_an_original_length_is_warned_of_and_counts_as_a_default():
    yarn = {"rope_type": "yarn", "factor": 4}
    resolved = resolve({**LLAMA, "max_position_embeddings": 40960, "rope_scaling": yarn})
    assert resolved.layer().values()["original_max_position_embeddings"] == 40960
    assert resolved.defaulted == ("original_max_position_embeddings",)
    assert resolved.warnings == (
        (
            "rope_scaling.original_max_position_embeddings is not given: max_position_embeddings "
            "40960 is used, as in transformers"
        ),
    )
    lists = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    phi = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "rope_theta": 1e4}
    phi |= {"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", **lists}}
    assert resolve(phi).defaulted == ("original_max_position_embeddings",)
    assert resolve({**phi, "original_max_position_embeddings": 4096}).defaulted == ()


def test_a_factor_that_is_not_the_ratio_of_the_lengths_is_contradicted():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    raised = {**LLAMA, "max_position_embeddings": 131072}
    assert resolve({**raised, "rope_scaling": yarn}).contradicted == ()
    other = resolve({**LLAMA, "max_position_embeddings": 40960, "rope_scaling": yarn})
    assert other.contradicted == ("rope_scaling.factor",)
    assert "which is 1.25: transformers warns of it, and takes the factor" in other.warnings[0]
    both = resolve({**raised, "original_max_position_embeddings": 16384, "rope_scaling": yarn})
    assert both.contradicted == ("rope_scaling.original_max_position_embeddings",)


@pytest.mark.parametrize(
    ("share", "stated", "axes"),
    [
        (0.25, [8, 8, 8], [0, 1, 2, 0, 1, 2, 0, 1]),
        (0.25, [11, 11, 10], [0, 1, 2, 0, 1, 2, 0, 1]),
        (0.5, [4, 7, 2], [0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0]),
    ],
)
def test_sections_that_fit_no_head_are_dealt_out_as_transformers_does(share, stated, axes):
    """The axis by which each pair of Qwen3_5TextRotaryEmbedding rotates, of transformers 5.23."""
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": stated}
    config = {"model_type": "qwen3_5_text", "hidden_size": 64, "head_dim": 64}
    config |= {"num_hidden_layers": 4, "partial_rotary_factor": share, "rope_parameters": rope}
    layers = resolve(config).layer("full_attention")
    bound = catalogue.find("mrope").bind({**layers.values(), "axes": "axes.npy"})
    assert list(bound.rotation.waves.coordinates.axes) == axes
    with pytest.raises(
        InvalidInput,
        match="^--as sglang: its code was not checked for sections that do not",
    ):
        resolve({"model_type": "qwen3_5", "text_config": config}, runtime="sglang")


def test_a_share_of_null_is_the_whole_head_and_told():
    """Of the families whose share is another by default: the cases null-share of config_rope."""
    resolved = resolve(
        {"model_type": "glm4", "num_hidden_layers": 2, "partial_rotary_factor": None}
    )
    assert "partial" not in resolved.layer().params
    assert any("null: transformers rotates the whole head" in each for each in resolved.warnings)


@pytest.mark.parametrize(("inner", "told"), [("gemma3", False), ("llama", True)])
def test_the_type_that_a_text_model_states_counts_where_transformers_looks_at_it(inner, told):
    resolved = resolve({"model_type": "gemma3", "text_config": {"model_type": inner}})
    assert resolved.model_type == "gemma3_text"
    words = f"text_config.model_type '{inner}' has no effect: transformers reads"
    assert any(words in each for each in resolved.warnings) is told
    mapped = {"model_type": "llava", "text_config": {"model_type": "mistral"}}
    assert resolve(mapped).model_type == "mistral"
