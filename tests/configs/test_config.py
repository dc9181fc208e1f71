"""Reading configs: what is refused, warned of, left unread, and which layers are which."""

import contextlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli import catalogue
from posenc_cli.configs.config import read_config, resolve
from posenc_cli.errors import InvalidInput, PosencError, Unavailable

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "max_position_embeddings": 8192,
    "rope_theta": 500000,
}
YARN = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}


def values(config, layer_type=None):
    return resolve(config).layer(layer_type).values()


def sources(config, layer_type=None):
    found = resolve(config).layer(layer_type)
    return {name: each.source for name, each in found.params.items()}


def test_every_value_says_where_it_was_read():
    config = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 4}}
    assert values(config) == {"dim": 128, "base": 500000, "layout": "half", "factor": 4}
    assert sources(config) == {
        "dim": "derived: hidden_size / num_attention_heads",
        "base": "rope_theta",
        "layout": "default of llama",
        "factor": "rope_scaling.factor",
    }
    nested = {"model_type": "llava", "text_config": {**LLAMA, "rope_parameters": YARN}}
    assert sources(nested)["factor"] == "text_config.rope_parameters.factor"


def test_the_rope_object_goes_before_the_top_of_the_config_and_that_before_the_model_type():
    inside = {"rope_type": "default", "rope_theta": 7}
    assert values({**LLAMA, "rope_parameters": inside})["base"] == 7
    assert values(LLAMA)["base"] == 500000
    bare = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    assert values({**bare, "model_type": "mixtral"})["base"] == 1e6
    resolved = resolve(bare)
    assert resolved.defaulted == ("rope_theta",)
    assert "has no rope_theta: 10000 is the default of llama" in resolved.warnings[0]


def test_what_transformers_ignores_is_warned_of():
    partial = resolve({**LLAMA, "partial_rotary_factor": 0.5})
    assert "partial" not in partial.layer().params
    assert "partial_rotary_factor 0.5 has no effect" in partial.warnings[0]
    assert partial.unread == ("partial_rotary_factor",)
    assert resolve({**LLAMA, "partial_rotary_factor": 1.0}).unread == ()
    gemma = {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "rope_parameters": {
            "full_attention": {**YARN, "rope_theta": 1e6, "truncate": False},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    }
    truncate = resolve(gemma)
    assert "truncate" not in truncate.layer("full_attention").params
    assert "nothing read rope_parameters.full_attention.truncate" in truncate.warnings[-1]
    assert truncate.unread == ("rope_parameters.full_attention.truncate",)
    legacy = {"model_type": "gemma3_text", "head_dim": 256}
    legacy |= {"rope_scaling": {"type": "linear", "factor": 8}}
    ignored = resolve({**legacy, "rope_theta": 1e6, "rope_local_base_freq": 1e4})
    assert ignored.layer("full_attention").scheme == "rope"
    assert 'rope_scaling.type "linear" has no effect' in ignored.warnings[0]
    assert ignored.unread == ("rope_scaling.factor",)
    assert ignored.contradicted == ("rope_scaling.type",)
    plain = resolve({**legacy, "rope_scaling": {"type": "default"}})
    assert not any("rope_scaling" in each for each in plain.warnings)


def test_the_original_context_at_the_top_rules_unless_ropes_differ_by_layer_type():
    key = "original_max_position_embeddings"
    flat = resolve({**LLAMA, key: 2048, "rope_scaling": YARN})
    assert flat.layer().values()[key] == 2048
    assert f"{key} 2048 takes precedence over rope_scaling.{key} 4096" in flat.warnings[0]
    bare = {"rope_type": "yarn", "factor": 4}
    assert values({**LLAMA, "rope_scaling": bare})[key] == 8192
    gemma = {
        "model_type": "gemma3_text",
        "max_position_embeddings": 65536,
        key: 2048,
        "rope_parameters": {
            "full_attention": {**bare, "rope_theta": 1e6},
            "sliding_attention": {"rope_theta": 1e4},
        },
    }
    nested = resolve(gemma)
    assert nested.layer("full_attention").values()[key] == 65536
    assert nested.unread == (key,)


def test_an_mscale_alone_is_warned_of():
    resolved = resolve({**LLAMA, "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0}})
    assert "mscale" not in resolved.layer().params
    assert "rope_scaling.mscale alone has no effect" in resolved.warnings[-1]
    assert "rope_scaling.mscale" in resolved.contradicted
    latent = resolve({"model_type": "deepseek_v3", "rope_scaling": {**YARN, "mscale_all_dim": 1.0}})
    assert "rope_scaling.mscale_all_dim" not in latent.contradicted
    assert resolved.layer().derived["attention_factor"].value == pytest.approx(1.1386294361119891)


def test_rope_like_keys_that_nothing_reads_are_listed():
    config = {
        **LLAMA,
        "rotary_emb_base": 1e6,
        "rope_scaling": None,
        "rope_parameters": {**YARN, "extrapolation_factor": 0.5},
        "vocab_size": 5,
    }
    assert resolve(config).unread == ("rotary_emb_base", "rope_parameters.extrapolation_factor")
    outside = {"model_type": "llava", "rope_theta": 1e6, "text_config": LLAMA}
    assert resolve(outside).unread == ("rope_theta",)
    vision = {"vision_config": {"rope_theta": 1e4}, "model_type": "llava", "text_config": LLAMA}
    assert resolve(vision).unread == ()
    both = {**LLAMA, "rope_scaling": YARN, "rope_parameters": {"rope_theta": 9}}
    assert resolve(both).unread == ("rope_parameters",)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rope_scaling": {"type": "ntk"}}, ["rope_scaling.type 'ntk'", "llama takes default"]),
        ({"rope_scaling": {"type": "linear"}}, ["rope_scaling.factor is missing"]),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, ["factor 0", "above 0"]),
        ({"rope_scaling": {**YARN, "factor": "4"}}, ['rope_scaling.factor "4"', "a number"]),
        ({"rope_scaling": {**YARN, "beta_fast": -1}}, ["beta_fast -1", "at least 0"]),
        ({"rope_scaling": {**YARN, "truncate": 1}}, ["truncate 1", "true or false"]),
        ({"rope_scaling": {**LLAMA3, "low_freq_factor": 5}}, ["at least", "low_freq_factor"]),
        ({"rope_scaling": {**LLAMA3, "low_freq_factor": None}}, ["low_freq_factor is missing"]),
        ({"rope_scaling": [1]}, ["rope_scaling", "must be an object"]),
        ({"rope_theta": 1}, ["rope_theta 1", "above 1"]),
        ({"head_dim": 7}, ["head_dim 7", "even"]),
        ({"head_dim": 2.5}, ["head_dim 2.5", "whole number"]),
        ({"hidden_size": 16}, ["hidden_size 16", "num_attention_heads 32"]),
        ({"hidden_size": 100}, ["hidden_size 100", "a multiple of num_attention_heads 32"]),
        ({"num_hidden_layers": 10**9}, ["num_hidden_layers", "at most 10000"]),
        ({"rope_parameters": {"full_attention": YARN}, "layer_types": ["full_attention"] * 4},
         ["one"]),
        ({"layer_types": ["full_attentio"] * 4},
         ["layer_types.0 'full_attentio'", "not a layer type"]),
        ({"layer_types": ["full_attention"] * 3}, ["3 names for num_hidden_layers 4"]),
        ({"model_type": "my_model", "layer_types": ["a\x1b[2J"] * 4}, ["'a\\x1b[2J'", "printable"]),
        ({"model_type": 3}, ["model_type", "a string"]),
        ({"model_type": "phi3", "rope_scaling": LLAMA3}, ["phi3 takes default, longrope"]),
        ({"model_type": "gemma4_text", "rope_parameters": {"rope_theta": 5}}, ["each layer type"]),
        ({"model_type": "deepseek_v3", "rope_scaling": {**YARN, "partial_rotary_factor": 0.5}},
         ["64 columns", "as a whole"]),
        ({"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [16, 24]}},
         ["mrope_section [16, 24]", "64"]),
        ({"model_type": "nanochat"}, ["nanochat rotates the other way"]),
        ({"model_type": "sam"}, ["sam combines an image encoder and a prompt decoder"]),
        ({"model_type": "deberta-v2"}, ["deberta-v2 uses disentangled", "depend on content"]),
        ({"model_type": "smollm3", "no_rope_layers": [1, 0]}, ["2 numbers for 4 layers"]),
        ({"model_type": "smollm3", "no_rope_layers": [2, 0, 0, 0]}, ["list of 0 and 1"]),
        ({"rope_scaling": {**YARN, "attention_factor": 1e308}},
         ["rope_scaling.attention_factor 1e+308: must be from 1e-06 to 1000000"]),
        ({"rope_scaling": {"type": "linear", "factor": 1e22}},
         ["rope_scaling.factor 1e+22: must be from 1e-15 to 1"]),
        ({"head_dim": 1048576}, ["head_dim 1048576: must be from 1 to 65536"]),
        ({"model_type": "deepseek_v3", "rope_scaling": {**YARN, "mscale_all_dim": 1e308}},
         ["mscale_all_dim 1e+308: must be"]),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_meant_is_refused_by_its_key(changed, words):
    with pytest.raises(InvalidInput) as error:
        resolve({**LLAMA, **changed}, name="my.json")
    assert error.value.message.startswith("my.json: ")
    assert all(word in error.value.message for word in words)
    assert "\n" not in error.value.message


def test_longrope_lists_must_have_a_number_for_each_pair():
    scaling = {"type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 63}
    with pytest.raises(InvalidInput, match="long_factor has 63 numbers: 128 rotated columns"):
        resolve({**LLAMA, "rope_scaling": scaling})
    scaling["long_factor"] = [2.0] * 63 + [0]
    with pytest.raises(
        InvalidInput, match=r"rope_scaling\.long_factor .*: must be a list of numbers above 0"
    ):
        resolve({**LLAMA, "rope_scaling": scaling})


def test_an_unknown_model_with_rope_is_read_as_llama_and_says_so():
    sizes = {"n_embd": 512, "n_head": 8, "n_layer": 2}
    share = {"rotary_emb_base": 5000, "rotary_pct": 0.5}
    resolved = resolve({"model_type": "my_model", **sizes, **share})
    assert resolved.layer().values() == {
        "dim": 64, "base": 5000, "layout": "half", "partial": 0.5,
    }  # fmt: skip
    assert resolved.layer().layers == (0, 1)
    assert "read as if it were like Llama" in resolved.warnings[0]
    with pytest.raises(InvalidInput, match="is unknown, and the config has no RoPE keys"):
        resolve({"model_type": "my_model", "hidden_size": 512})
    by_type = {"full_attention": {"rope_theta": 5}, "sliding_attention": None}
    layers = {"head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]}
    resolved = resolve({"model_type": "my_model", **layers, "rope_parameters": by_type})
    assert [each.scheme for each in resolved.layers] == ["nope", "rope"]


def test_gemma_3_and_4_have_an_encoding_for_each_layer_type():
    text = {"model_type": "gemma3_text", "num_hidden_layers": 8, "rope_theta": 1e6}
    text |= {"rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8}}
    gemma3 = {"model_type": "gemma3", "text_config": text}
    resolved = resolve(gemma3)
    full, sliding = (resolved.layer(f"{each}_attention") for each in ("full", "sliding"))
    assert (full.layers, full.scheme, full.values()["base"]) == ((5,), "rope-linear", 1e6)
    assert (sliding.layers, sliding.values()["base"]) == ((0, 1, 2, 3, 4, 6, 7), 1e4)
    assert sliding.scheme == "rope"
    with pytest.raises(InvalidInput, match="differ: choose a type"):
        resolved.layer()
    with pytest.raises(InvalidInput, match="must be one of sliding_attention, full_attention"):
        resolved.layer("global")
    full = resolve({"model_type": "gemma4_text"}).layer("full_attention")
    assert full.scheme == "rope-proportional"
    assert (full.values()["dim"], full.values()["partial"]) == (512, 0.25)
    own = {"5": {"head_dim": 128}}
    full = resolve({"model_type": "gemma4_text", "per_layer_config": own}).layer("full_attention")
    assert full.values()["dim"] == 128


def test_older_names_of_layer_types_are_renamed_as_in_transformers():
    resolved = resolve({**LLAMA, "layer_types": ["attention", "mamba"] * 2})
    assert [(each.layer_type, each.layers) for each in resolved.layers] == [
        ("full_attention", (0, 2)),
    ]


def test_layer_types_that_are_alike_need_no_choice():
    resolved = resolve({"model_type": "gpt_oss", "num_hidden_layers": 4})
    assert [each.layers for each in resolved.layers] == [(0, 2), (1, 3)]
    assert resolved.layer() is resolved.layers[0]
    assert resolved.layer("full_attention") is resolved.layers[1]
    with pytest.raises(InvalidInput, match="all layers of llama are alike"):
        resolve(LLAMA).layer("full_attention")


@pytest.mark.parametrize(
    ("config", "rotated", "rest"),
    [
        ({"model_type": "smollm3", "num_hidden_layers": 8}, "rope", (3, 7)),
        ({"model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": [0, 1, 1, 1]},
         "rope", (0,)),
        ({"model_type": "smollm3", "num_hidden_layers": 6, "no_rope_layer_interval": 3}, "rope",
         (2, 5)),
        ({"model_type": "cohere2", "num_hidden_layers": 8}, "sliding_attention", (3, 7)),
        ({"model_type": "exaone4", "num_hidden_layers": 8}, "sliding_attention", (3, 7)),
        ({"model_type": "cohere2", "num_hidden_layers": 4, "sliding_window_pattern": 2},
         "sliding_attention", (1, 3)),
    ],
)  # fmt: skip
def test_layers_without_rope_are_told_apart(config, rotated, rest):
    resolved = resolve(config)
    assert resolved.layer(rotated).scheme == "rope"
    nope = next(each for each in resolved.layers if each.scheme == "nope")
    assert nope.layers == rest
    everything = sorted(layer for each in resolved.layers for layer in each.layers)
    assert everything == list(range(config["num_hidden_layers"]))


def test_without_a_window_exaone_turns_every_layer_and_command_none():
    exaone = {"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": None}
    assert {each.scheme for each in resolve(exaone).layers} == {"rope"}
    command = {"model_type": "cohere2", "num_hidden_layers": 4, "sliding_window": None}
    assert {each.scheme for each in resolve(command).layers} == {"nope"}


@pytest.mark.parametrize(
    ("key", "inner"),
    [
        ("text_config", LLAMA),
        ("llm_config", LLAMA),
        ("language_config", LLAMA),
        ("decoder", LLAMA),
        ("thinker_config", {"text_config": LLAMA}),
    ],
)
def test_the_text_model_is_found_in_a_larger_one(key, inner):
    resolved = resolve({"model_type": "something", key: inner})
    assert (resolved.model_type, resolved.layer().values()["base"]) == ("llama", 500000)


def test_a_text_model_takes_its_type_from_the_model_around_it():
    text = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert resolve({"model_type": "gemma3", "text_config": text}).model_type == "gemma3_text"
    flat = resolve({**LLAMA, "model_type": "qwen2_vl"})
    assert (flat.model_type, flat.layer().scheme) == ("qwen2_vl_text", "mrope")
    with pytest.raises(InvalidInput, match="several text models: text_config, decoder"):
        resolve({"model_type": "x", "text_config": LLAMA, "decoder": LLAMA})
    with pytest.raises(InvalidInput, match=r"text_config\.model_type is missing"):
        resolve({"model_type": "x", "text_config": text})


def test_multimodal_rope_keeps_its_sections_and_a_stretched_one_is_that_of_text():
    base = {"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28}
    sections = {"type": "mrope", "mrope_section": [16, 24, 24]}
    assert values({**base, "rope_scaling": sections})["sections"] == (16, 24, 24)
    stretched = resolve({**base, "rope_scaling": {**YARN, "mrope_section": [16, 24, 24]}})
    assert stretched.layer().scheme == "rope-yarn"
    assert any("axes of images and video are left out" in each for each in stretched.warnings)
    qwen3 = values({"model_type": "qwen3_vl_text"})
    assert (qwen3["sections"], qwen3["interleaved"]) == ((24, 20, 20), True)
    ernie = values({"model_type": "ernie4_5_vl_moe_text"})
    assert (ernie["sections"], ernie["order"]) == ((22, 22, 20), "hwt")


def test_deepseeks_softmax_scale_is_derived_beside_its_rotation():
    scaling = {**YARN, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707}
    derived = resolve({"model_type": "deepseek_v2", "rope_scaling": scaling}).layer().derived
    assert derived["attention_factor"].value == 1
    assert derived["softmax_multiplier"].value == pytest.approx(1.58963, rel=1e-5)
    scaling = {**scaling, "mscale": 1.0, "mscale_all_dim": 1.0}
    derived = resolve({"model_type": "deepseek_v3", "rope_scaling": scaling}).layer().derived
    assert derived["softmax_multiplier"].value == pytest.approx(1.87385, rel=1e-5)


def test_a_deepseek_without_latent_attention_is_refused_by_that():
    """DeepSeek-OCR: its modeling_deepseekv2.py takes LlamaAttention where use_mla is false."""
    config = {"model_type": "deepseek_v2", "use_mla": False, "qk_rope_head_dim": 0}
    with pytest.raises(InvalidInput, match="use_mla false: plain attention") as refusal:
        resolve(config, name="config.json")
    assert "say model_type llama" in refusal.value.hint
    latent = {"model_type": "deepseek_v2", "use_mla": True, "qk_rope_head_dim": 64}
    assert resolve(latent).layer().values()["dim"] == 64


def test_biases_and_tables_of_families_without_rope():
    attention = {"alibi": False, "alibi_bias_max": 16}
    mpt = resolve({"model_type": "mpt", "n_heads": 16, "attn_config": attention})
    assert mpt.layer().scheme == "alibi"
    assert len(mpt.warnings) == 2
    falcon = {"model_type": "falcon", "alibi": True, "num_attention_heads": 4, "hidden_size": 256}
    assert resolve(falcon).layer().values() == {"heads": 4, "form": "bloom"}
    assert resolve({**falcon, "alibi": False}).layer().scheme == "rope"
    zamba = {"model_type": "zamba2", "layers_block_type": ["hybrid"]}
    assert resolve(zamba).layer().scheme == "nope"
    assert resolve({**zamba, "use_mem_rope": True}).layer().scheme == "rope"
    relative = resolve({"model_type": "bert", "position_embedding_type": "relative_key"})
    assert relative.layer().scheme == "learned"
    assert any("has no effect" in each for each in relative.warnings)
    whisper = resolve({"model_type": "whisper"})
    assert [each.layer_type for each in whisper.layers] == ["encoder", "decoder"]
    xlnet = resolve({"model_type": "xlnet", "d_model": 1024, "clamp_len": 100})
    assert (xlnet.layer().scheme, len(xlnet.warnings)) == ("transformer-xl", 1)
    with pytest.raises(InvalidInput, match="must be above 2"):
        resolve({"model_type": "roberta", "max_position_embeddings": 2, "pad_token_id": 1})
    with pytest.raises(InvalidInput, match="rotary_dim null"):
        resolve({"model_type": "gptj", "rotary_dim": None})


def test_what_follows_from_parameters_follows_from_another_engines_too():
    scaling = {**YARN, "attention_factor": 1.5}
    here, there = (
        resolve({**LLAMA, "rope_scaling": scaling}, runtime=runtime).layer().derived
        for runtime in ("transformers", "vllm-0.11")
    )
    assert (here["attention_factor"].value, here["logit_multiplier"].value) == (1.5, 2.25)
    assert there["attention_factor"].value == pytest.approx(1.1386294361119891)
    assert there["logit_multiplier"].value == pytest.approx(1.1386294361119891**2)


def test_dynamic_alpha_of_hunyuan_is_a_fixed_stretch():
    config = {"model_type": "hunyuan_v1_dense", "head_dim": 128}
    scaling = {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}
    layer = resolve({**config, "rope_scaling": scaling}).layer()
    assert (layer.scheme, layer.values()["factor"]) == ("rope-ntk", 1000)
    layer = resolve({**config, "rope_scaling": {**scaling, "alpha": 0}}).layer()
    assert layer.scheme == "rope-dynamic"


def test_phimoe_keeps_short_factors_and_its_own_amplitude():
    scaling = {"type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    scaling |= {"short_mscale": 1.24, "long_mscale": 1.25, "original_max_position_embeddings": 4096}
    resolved = resolve({"model_type": "phimoe", "rope_scaling": scaling})
    params = resolved.layer().values()
    assert (params["attention_factor"], params["long_factor"]) == (1.24, (1.0,) * 64)
    assert resolved.warnings[-1] == (
        "transformers' phimoe uses short_factor at any length; past 4096 positions its attention "
        "factor is rope_scaling.long_mscale 1.25"
    )


@pytest.fixture
def written(tmp_path):
    def write(content: bytes | str):
        path = tmp_path / "config.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 200_000, "recursion depth"),
        (b'{"a":' * 200_000, "recursion depth"),
        (b'{"a": ' + b"1" * 5000 + b"}", "digits"),
        (b'{"a": 1, "a": 2, "a": 3}', "duplicate key 'a'"),
        (b"\xff\xfe{}", "is not JSON: byte 1 is not UTF-8"),
        (b"[1]", "must hold a JSON object"),
        (b"3", "must hold a JSON object"),
        (b"", "is empty: it holds no bytes"),
        (b'{"a": 1', "is not JSON"),
    ],
)
def test_hostile_files_are_refused_in_one_line(written, content, words):
    path = written(content)
    with pytest.raises(InvalidInput) as error:
        read_config(path)
    assert error.value.message.startswith(f"--config '{path}'")
    assert words in error.value.message
    assert "\n" not in error.value.message


def test_a_pipe_is_read_to_its_end():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        stream.write(json.dumps(LLAMA).encode())
    try:
        assert read_config(f"/dev/fd/{reading}") == LLAMA
    finally:
        os.close(reading)


def test_a_number_past_float64_is_refused_where_it_is_read(written):
    config = read_config(written('{"model_type": "llama", "rope_theta": 1e999}'))
    with pytest.raises(InvalidInput, match="rope_theta inf: must be a finite number"):
        resolve(config)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_a_literal_that_is_no_number_is_refused_where_it_is_read_and_nowhere_else(written, literal):
    llama = json.dumps(LLAMA)[:-1]
    unread = f'{llama}, "time_step_limit": [0.0, {literal}], "layer_scale": {literal}}}'
    assert resolve(read_config(written(unread))).layer().values() == values(LLAMA)
    for key in ("rope_theta", "max_position_embeddings", "num_hidden_layers"):
        config = json.dumps({**LLAMA, key: 0}).replace(f'"{key}": 0', f'"{key}": {literal}')
        with pytest.raises(InvalidInput, match=f"{key} .*: must be a (finite|whole) number"):
            resolve(read_config(written(config)))


def test_files_and_folders_are_read_and_nothing_that_blocks(written, tmp_path):
    path = written("\ufeff" + json.dumps(LLAMA))
    assert read_config(path) == read_config(str(tmp_path)) == LLAMA
    with pytest.raises(InvalidInput, match="neither a regular file nor a pipe"):
        read_config("/dev/null")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unavailable, match=r"is a folder without a config\.json"):
        read_config(str(tmp_path / "empty"))
    with pytest.raises(Unavailable, match="No such file"):
        read_config(str(tmp_path / "none.json"))
    with pytest.raises(Unavailable, match="null"):
        read_config("a\0b")
    with pytest.raises(InvalidInput, match="larger than 8 MiB"):
        read_config(written(" " * (9 << 20)))


_KEYS = st.sampled_from(
    [
        *("model_type", "hidden_size", "num_attention_heads", "head_dim", "rope_theta", "factor"),
        *("rope_scaling", "rope_parameters", "type", "rope_type", "layer_types", "text_config"),
        *("partial_rotary_factor", "num_hidden_layers", "no_rope_layers", "short_factor", "alibi"),
        *("long_factor", "original_max_position_embeddings", "max_position_embeddings", "mscale"),
        *("mrope_section", "attn_config", "full_attention", "sliding_attention", "rotary_dim"),
        *("per_layer_config", "sliding_window", "low_freq_factor", "high_freq_factor", "5"),
    ]
)
_TEXTS = st.sampled_from(
    [
        *("llama", "gemma3_text", "gemma4_text", "qwen2_vl", "phi3", "t5", "mpt", "gptj", "falcon"),
        *("olmo3", "smollm3", "cohere2", "deepseek_v3", "zamba2", "roberta", "my_model", "phimoe"),
        *("yarn", "linear", "dynamic", "longrope", "llama3", "proportional", "default", "su"),
        *("full_attention", "sliding_attention"),
    ]
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(allow_nan=True), _TEXTS
)
_JSON = st.deferred(
    lambda: _SCALARS | st.lists(_JSON, max_size=3) | st.dictionaries(_KEYS, _JSON, max_size=5)
)


@given(st.dictionaries(_KEYS, _JSON, max_size=8), _TEXTS)
def test_whatever_a_config_holds_it_resolves_or_is_refused(config, model_type):
    with contextlib.suppress(PosencError):
        for layers in resolve({"model_type": model_type, **config}).layers:
            catalogue.find(layers.scheme).bind(layers.values())


def test_a_vision_encoder_needs_an_image_with_room_for_a_patch():
    config = {"model_type": "dinov3_vit", "image_size": 8}
    with pytest.raises(InvalidInput, match=r"image_size \[8, 8\] has no room for a patch of 16"):
        resolve(config)
    with pytest.raises(InvalidInput, match="must be a number, or height and width"):
        resolve({**config, "image_size": [224]})
    with pytest.raises(InvalidInput, match="head_dim 6 .* must be a multiple of 4"):
        resolve({"model_type": "dinov3_vit", "hidden_size": 36, "num_attention_heads": 6})
    resolved = resolve({"model_type": "dinov3_vit", "image_size": 224})
    assert resolved.layer().values()["grid"] == (14, 14)
    assert resolved.defaulted == ("rope_theta",)


def test_of_two_rope_types_transformers_takes_rope_type_and_the_other_is_told():
    """transformers' LlamaConfig keeps both keys, and reads rope_type."""
    found = resolve({**LLAMA, "rope_scaling": {**YARN, "type": "linear"}})
    assert found.layer().scheme == "rope-yarn"
    assert "rope_scaling.type" in found.contradicted
    told = 'type "linear" has no effect: rope_scaling.rope_type "yarn"'
    assert any(told in each for each in found.warnings)
    same = resolve({**LLAMA, "rope_scaling": {**YARN, "type": "yarn"}})
    assert same.contradicted == ("rope_scaling.factor",)
