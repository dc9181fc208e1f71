"""Keys that nothing read: one that agrees is no finding, one that does not says whose it is."""

import pytest

from posenc_cli.configs.config import resolve
from tests.configs.test_config import LLAMA

COHERE = {**LLAMA, "model_type": "cohere"}
NEOX = {**LLAMA, "model_type": "gpt_neox", "rotary_emb_base": 500000, "rotary_pct": 0.25}
GEMMA = {
    **{key: LLAMA[key] for key in LLAMA if key not in ("model_type", "rope_theta")},
    "model_type": "gemma3_text",
    "num_hidden_layers": 6,
    "head_dim": 256,
    "rope_parameters": {
        "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
}
PHI = {
    **LLAMA,
    "model_type": "phi3",
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64},
}
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}
GEMMA2 = {"model_type": "gemma2", "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32}
GEMMA2 |= {"num_hidden_layers": 2, "sliding_window": 4096, "rope_theta": 1e4}
KIMI = {"model_type": "kimi_linear", "hidden_size": 512, "num_hidden_layers": 4}
ZAMBA = {"model_type": "zamba2", "layers_block_type": ["hybrid"], "hidden_size": 512}
ZAMBA |= {"num_attention_heads": 8}
SLIDING_QWEN = {"model_type": "qwen2", "num_hidden_layers": 8, "hidden_size": 512}
SLIDING_QWEN |= {"num_attention_heads": 8, "rope_theta": 1e4}
SLIDING_QWEN |= {"layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 2}


@pytest.mark.parametrize(
    ("config", "key", "agreeing", "other"),
    [
        (LLAMA, "rotary_emb_base", 500000, 10000),
        (LLAMA, "rope_base", 5e5, 1e4),
        (LLAMA, "theta", 5e5, 1e4),
        (LLAMA, "use_rope_layers", [], [0, 1, 0, 1]),
        (LLAMA, "rotary_pct", 1.0, 0.25),
        (LLAMA, "partial_rotary_factor", 1, 0.5),
        (NEOX, "partial_rotary_factor", 0.25, 1.0),
        (NEOX, "rotary_dim", 32, 128),
        (LLAMA, "rotary_dim", 128, 64),
        (LLAMA, "attn_rotary_emb", 128, 64),
        (LLAMA, "rotary_scaling_factor", 1.0, 2.0),
        (COHERE, "rope_interleave", True, False),
        (LLAMA, "rope_interleave", False, True),
        (LLAMA, "rope_traditional", False, True),
        (LLAMA, "rope_is_neox_style", True, False),
        (LLAMA, "use_rope", True, False),
        (LLAMA, "use_mrope", False, True),
        (LLAMA, "rope_3d", False, True),  # ERNIE 4.5 VL
        (LLAMA, "position_embedding_xdrope", False, True),  # Hunyuan A13B
        (LLAMA, "alibi", False, True),
        (LLAMA, "use_logn_attn", False, True),
        (LLAMA, "original_max_position_embeddings", 8192, 4096),
        (LLAMA, "rope_ratio", 1, 8),
        (LLAMA, "rope_full_precision", True, False),  # OLMo and LLaDA
        (LLAMA, "sliding_window_size", -1, 128),  # Grok 2
        (PHI, "max_sequence_length", 8192, 4096),
        # Yarn-Mistral
        ({**LLAMA, "rope_scaling": {**YARN, "factor": 4}}, "max_sequence_length", 16384, 32768),
        ({"model_type": "bert", "hidden_size": 8}, "use_rotary", False, True),
        ({**LLAMA, "rope_scaling": YARN}, "attention_factor", 0.1 * 0.6931471805599453 + 1, 2.0),
        (GEMMA, "swa_rope_theta", 1e4, 1e5),
        # As published files state it beside sliding_window
        (GEMMA2, "sliding_window_size", 4096, 512),
        # KimiMLAAttention of transformers rotates nothing, whatever it says
        (KIMI, "mla_use_nope", True, False),
        # Zamba2Config sets max_position_embeddings to 16384 for it
        ({**ZAMBA, "use_mem_rope": True}, "use_long_context", False, True),
        ({**ZAMBA, "use_mem_rope": False}, "use_long_context", False, True),
        # Lists of layers that tell the same ones apart as layer_types
        (SLIDING_QWEN, "sliding_window_pattern", 4, 3),
        (SLIDING_QWEN, "sliding_window_pattern", "LLLG", "LG"),
        (SLIDING_QWEN, "attn_layer_pattern", [1, 1, 1, 0] * 2, [1, 1, 0, 0] * 2),
        (SLIDING_QWEN, "hybrid_layer_ids", [3, 7], [0, 7]),
    ],
)  # fmt: skip
def test_a_key_that_says_what_is_so_anyway_is_no_finding(config, key, agreeing, other):
    before = resolve(config)
    same = resolve({**config, key: agreeing})
    assert (same.unread, same.warnings) == (before.unread, before.warnings)
    doubtful = resolve({**config, key: other})
    assert doubtful.unread == (key,)
    assert any(key in each for each in doubtful.warnings)


@pytest.mark.parametrize(
    ("scaling", "key", "agreeing", "other"),
    [
        ({"rope_type": "default"}, "factor", 1.0, 2.0),
        ({"rope_type": "default"}, "original_max_position_embeddings", 8192, 2048),
        ({"rope_type": "linear", "factor": 4.0}, "original_max_position_embeddings", 2048, 1024),
        ({"rope_type": "linear", "factor": 4.0}, "attention_factor", 1.0, 1.2),
        (YARN, "attn_factor", 1.0, 0.5),
        (YARN, "extrapolation_factor", 1.0, 0.5),
        (YARN, "max_position_embeddings", 8192, 4096),
        ({"rope_type": "dynamic", "factor": 4.0}, "finetuned", None, True),
        # transformers' _compute_dynamic_ntk_parameters reads max_position_embeddings alone
        ({"rope_type": "dynamic", "factor": 2.0}, "original_max_position_embeddings", 8192, 4096),
    ],
)  # fmt: skip
def test_within_a_rope_object_too(scaling, key, agreeing, other):
    assert resolve({**LLAMA, "rope_scaling": {**scaling, key: agreeing}}).unread == ()
    doubtful = resolve({**LLAMA, "rope_scaling": {**scaling, key: other}})
    assert doubtful.unread == (f"rope_scaling.{key}",)


RNJ = {
    **LLAMA,
    "model_type": "gemma3_text",
    "layer_types": ["full_attention"] * 4,
    "num_hidden_layers": 4,
    "rope_local_base_freq": 1e4,
    "sliding_window_pattern": 1,
}


def test_what_speaks_of_sliding_layers_says_nothing_where_none_slides():
    """EssentialAI/rnj-1: all layers see everything, and its config has both keys."""
    assert resolve(RNJ).unread == ()
    slides = ["full_attention", "sliding_attention"] * 2
    one = resolve({**RNJ, "layer_types": slides, "rope_local_base_freq": 1e5})
    assert one.layer("sliding_attention").params["base"].value == 1e5
    assert one.unread == ("sliding_window_pattern",)
    unknown = {**LLAMA, "model_type": "mine", "rope_local_base_freq": 1e4}
    assert "rope_local_base_freq" in resolve(unknown).unread  # whose layers are not told apart


UNKNOWN = {**LLAMA, "model_type": "my_model"}
LLAVA = {"model_type": "llava", "text_config": {**LLAMA, "rope_scaling": YARN}}
LLADA = {**LLAMA, "alibi_bias_max": 8.0}
NOPE = {"model_type": "granitemoehybrid", "position_embedding_type": "nope"}
TRUNCATED = {"full_attention": {**YARN, "rope_theta": 1e6, "truncate": True}}


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        # GSAI-ML/LLaDA-8B-Instruct has both, of the code that it began as
        ({**LLADA, "alibi": False}, []),
        ({**LLADA, "alibi": True}, ["alibi", "alibi_bias_max"]),
        # FlashYaRNRotaryEmbedding of modeling_llama_together_yarn.py reads finetuned if dynamic
        ({**LLAMA, "rope_scaling": {**YARN, "finetuned": True}}, []),
        # what is done anyway
        ({**GEMMA, "rope_parameters": {**GEMMA["rope_parameters"], **TRUNCATED}}, []),
        # keys that are stated twice, with one value and with two
        ({**LLAVA, "rope_theta": 500000}, []),
        ({**LLAVA, "rope_scaling": {**YARN, "type": "yarn"}}, []),
        ({**LLAVA, "rope_theta": 500000.0, "partial_rotary_factor": 1.0}, []),
        ({**LLAVA, "rope_theta": 10000}, ["rope_theta"]),
        ({**LLAVA, "rope_scaling": {**YARN, "factor": 4.0}}, ["rope_scaling"]),
        # a number where others have a flag
        ({**LLAMA, "rope": 1000}, ["rope"]),
        # what single layers have, of a type that is unknown
        ({**UNKNOWN, "hybrid_layer_pattern": [0, 1]}, ["hybrid_layer_pattern"]),
        ({**UNKNOWN, "swa_rope_theta": 1e5}, ["swa_rope_theta"]),
        ({**UNKNOWN, "layer_kinds": [0, 1]}, ["layer_kinds"]),
        # what has nothing to do with positions
        ({**UNKNOWN, "layer_norm_eps": 1e-5}, []),
        ({**UNKNOWN, "layer_num": 12, "layer_init_scale": 0.1, "layerdrop": 0.1}, []),
        ({**UNKNOWN, "swa_num_attention_heads": 8, "hybrid_block_size": None}, []),
        ({**UNKNOWN, "activation_sparsity_pattern": [0.5]}, []),
        # Ling 2.0 as published: max_window_layers, and no sliding_window
        ({**LLAMA, "max_window_layers": 2}, []),
        (
            {**LLAMA, "max_window_layers": 2, "sliding_window": 128},
            ["max_window_layers", "sliding_window"],
        ),
        # a window that nothing reads, unless it is as long as the context
        *(
            ({**LLAMA, key: 512}, [key])
            for key in ("sliding_window", "window_size", "local_window")
        ),
        ({**LLAMA, "sliding_window": None, "window_size": None, "local_window": None}, []),
        ({**LLAMA, "sliding_window": 512, "use_sliding_window": False}, []),
        ({**LLAMA, "sliding_window": 8191}, ["sliding_window"]),
        ({**LLAMA, "sliding_window": 8192}, []),
        # Granite 4 as published: its layers do not rotate, and its base says nothing
        ({**NOPE, "rope_theta": 10000}, []),
        ({**NOPE, "rope_scaling": YARN}, ["rope_scaling"]),
        # original_impl of RotaryEmbedding in modeling_chatglm.py
        ({"model_type": "chatglm", "seq_length": 8192, "original_rope": True}, []),
        ({**LLAMA, "original_rope": True}, ["original_rope"]),
    ],
)
def test_keys_are_told_where_what_they_say_is_not_so(config, unread):
    found = resolve(config)
    assert sorted(found.unread) == unread
    assert all(any(key in each for each in found.warnings) for key in unread)


NOMIC = {
    "model_type": "nomic_bert",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 8192,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
}


def test_keys_of_nomics_own_code_are_said_to_be_that_first():
    resolved = resolve({**NOMIC, "rotary_emb_base": 10000})
    assert resolved.layer().values()["base"] == 1000
    assert resolved.headlines[:1] == resolved.warnings[:1]
    assert resolved.headlines[0] == (
        "rotary_emb_base 10000 has no effect: transformers' nomic_bert does not read it, and the "
        "base here is 1000"
    )
    assert resolved.unread == ("rotary_emb_base",)
    same = resolve({**NOMIC, "rotary_emb_base": 1000})
    assert (same.unread, same.defaulted) == ((), ())
    assert same.warnings == (
        "n_positions 8192 has no effect: transformers' nomic_bert reads max_position_embeddings",
    )


def test_the_bases_of_mimos_own_code_are_no_doubt_where_they_are_those_of_transformers():
    mimo = {"model_type": "mimo_v2_flash", "hidden_size": 4096, "num_attention_heads": 64}
    mimo |= {"head_dim": 192, "num_hidden_layers": 6, "partial_rotary_factor": 0.334}
    same = resolve({**mimo, "rope_theta": 5000000, "swa_rope_theta": 10000})
    assert (same.unread, same.defaulted, same.warnings) == ((), (), ())
    other = resolve({**mimo, "rope_theta": 5000000, "swa_rope_theta": 500})
    assert other.unread == ("swa_rope_theta",)
    assert other.defaulted == ("rope_theta of sliding_attention layers",)


def test_a_size_by_another_name_is_no_default_where_it_is_the_same():
    resolved = resolve({**NOMIC, "rope_theta": 1000, "n_positions": 2048})
    assert (resolved.defaulted, resolved.warnings) == ((), ())
    other = resolve({**NOMIC, "n_embd": 1024, "rope_theta": 1000})
    assert other.defaulted == ("hidden_size",)
    assert "hidden_size is not given: 768 is the default of nomic_bert" in other.warnings[0]
    words = "n_embd 1024 has no effect: transformers' nomic_bert reads hidden_size"
    assert words in other.warnings
    assert other.contradicted == ("n_embd", "n_positions")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**LLAMA, "rope_angle": 3}, "nothing read rope_angle"),
        (
            {**LLAMA, "rope_angle": 3, "auto_map": {"AutoModel": "modeling_my.MyModel"}},
            "rope_angle; modeling_my.py (auto_map) may",
        ),
        (
            {**LLAMA, "rope_angle": 3, "model_type": "my_model"},
            "nothing read rope_angle; the code of my_model, which is not known, may",
        ),
        (
            {**LLAMA, "rotary_pct": 0.5, "auto_map": {"AutoModel": "me/x--modeling_my.MyModel"}},
            "share here is 1; modeling_my.py (auto_map), the model's own code, may",
        ),
    ],
)
def test_of_the_models_own_code_nothing_is_claimed(config, words):
    assert any(words in each for each in resolve(config).warnings)


def test_a_scale_of_queries_is_claimed_only_of_models_that_have_it():
    rope = {**YARN, "llama_4_scaling_beta": 0.1}
    llama = resolve({**LLAMA, "rope_scaling": rope})
    assert llama.unread == ("rope_scaling.llama_4_scaling_beta",)
    assert "temperature_scale" not in llama.layer().derived
    ministral = resolve({**LLAMA, "model_type": "ministral3", "rope_scaling": rope})
    assert ministral.layer().derived["temperature_scale"].value == 0.1


def _hybrid(model_type, cycle, **keys):
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 8}
    sizes |= {"head_dim": 64, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64}
    bases = {"rope_theta": 1e4, "rope_local_base_freq": 1e4, "partial_rotary_factor": 1.0}
    window = {"sliding_window": 128}
    types = [*cycle] * (8 // len(cycle))
    return {"model_type": model_type, **sizes, **bases, **window, "layer_types": types, **keys}


FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


@pytest.mark.parametrize(
    ("model_type", "cycle", "key", "agreeing", "other"),
    [
        ("qwen3_next", [LINEAR] * 3 + [FULL], "full_attention_interval", 4, 8),
        ("qwen3_5_text", [LINEAR] * 3 + [FULL], "full_attention_interval", 4, 2),
        ("qwen3_5_moe_text", [LINEAR] * 3 + [FULL], "full_attention_interval", 4, 2),
        ("bailing_hybrid", [LINEAR] * 3 + [FULL], "layer_group_size", 4, 8),
        ("afmoe", [SLIDING] * 3 + [FULL], "global_attn_every_n_layers", 4, 8),
        ("modernbert", [FULL] + [SLIDING] * 3, "global_attn_every_n_layers", 4, 8),
        ("lfm2", ["conv"] * 3 + [FULL], "full_attn_idxs", [3, 7], [2, 7]),
        ("lfm2", [FULL], "full_attn_idxs", [*range(8)], [2, 7]),
        ("lfm2", ["conv"] * 3 + [FULL] + ["conv"] * 4, "full_attn_idxs", [3], [0, 1, 2]),
        ("lfm2", [FULL, "conv"], "full_attn_idxs", [0, 2, 4, 6], [1, 3, 5, 7]),
        ("qwen3_next", [LINEAR] * 3 + [FULL] + [LINEAR] * 4, "full_attention_interval", None, 4),
        ("afmoe", [FULL] + [SLIDING] * 7, "global_attn_every_n_layers", 8, 4),
        ("mine", [LINEAR] * 3 + [FULL], "full_attention_interval", 4, 8),
        ("gemma3_text", [SLIDING] * 3 + [FULL], "sliding_window_pattern", 4, 8),
    ],
)
def test_a_key_about_layers_that_contradicts_layer_types_is_doubtful(
    model_type, cycle, key, agreeing, other
):
    """transformers reads these keys only if the config has no layer_types."""
    bare = {**_hybrid(model_type, cycle, **{key: agreeing}), "num_hidden_layers": None}
    assert key not in resolve(bare).unread  # then layer_types says how many layers there are
    plain = resolve(_hybrid(model_type, cycle))
    assert resolve(_hybrid(model_type, cycle, **{key: agreeing})).unread == plain.unread
    found = resolve(_hybrid(model_type, cycle, **{key: other}))
    assert found.unread == (*plain.unread, key)
    assert any(key in each for each in found.warnings)


def test_the_group_size_of_bailing_hybrid_says_which_layers_have_attention():
    """BailingHybridConfig builds layer_types from layer_group_size, which is 6 by default."""
    config = _hybrid("bailing_hybrid", [FULL], layer_types=None)
    assert resolve(config).layer().layers == (5,)
    assert resolve({**config, "layer_group_size": 4}).layer().layers == (3, 7)


@pytest.mark.parametrize("key", ["model_max_length", "max_position_embeddings"])
def test_kimi_linear_has_two_names_for_its_context(key):
    """They are one key of KimiLinearConfig, by its attribute_map."""
    context = resolve({**KIMI, key: 131072}).layer().derived["context"]
    assert (context.value, context.source) == (131072, key)


def test_the_initial_context_length_of_gpt_oss_is_its_original_context():
    """openai/gpt-oss-20b states both; transformers reads only that of rope_scaling."""
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 64}
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
    config = {"model_type": "gpt_oss", **sizes, "rope_theta": 150000, "rope_scaling": yarn}
    same = resolve({**config, "initial_context_length": 4096})
    assert (same.unread, same.warnings) == ((), resolve(config).warnings)
    other = resolve({**config, "initial_context_length": 8192})
    assert other.unread == ("initial_context_length",)
    assert "the original context here is 4096" in other.headlines[0]


SIZES = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 6}
TEXT = {**SIZES, "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("config", "other"),
    [
        # the encoder of images, sound or proteins is another model
        ({"model_type": "evolla", **TEXT, "protein_encoder_config": {"hidden_size": 8,
          "rope_theta": 5e4}}, {"rotary_pct": 0.5}),
        ({"model_type": "csm", **TEXT, "codec_config": {"hidden_size": 8,
          "rope_parameters": {"rope_theta": 5e4}}}, {"rotary_pct": 0.5}),
        # the rope of a type of layers of which there are none
        ({"model_type": "mellum", "layer_types": ["full_attention"] * 6, "num_hidden_layers": 6,
          "rope_parameters": {each: {"rope_type": "default", "rope_theta": 1e4}
                              for each in ("full_attention", "sliding_attention")}},
         {"rotary_pct": 0.5}),
        # DeepSeek V4 Pro as published, whose layers all compress their keys
        ({"model_type": "deepseek_v4", "num_hidden_layers": 4, "compress_ratios": [128, 4] * 2,
          "rope_theta": 10000, "compress_rope_theta": 160000}, {"rotary_base": 5e4}),
        # HunYuan as published: its alpha is read, and the numbers of YaRN are as they usually are
        ({"model_type": "hunyuan_v1_moe", **TEXT, "head_dim": 64, "use_rotary_pos_emb": True,
          "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                           "mscale": 1.0, "mscale_all_dim": 0.0, "type": "dynamic"}},
         {"use_rotary_pos_emb": False}),
        # RecurrentGemma lists the cycle of its layers
        ({"model_type": "recurrent_gemma", **SIZES,
          "block_types": ["recurrent", "recurrent", "attention"]},
         {"block_types": ["recurrent", "attention"]}),
        # MusicFlamingo rotates frames of sound by the object beside its text model
        ({"model_type": "musicflamingo", "rope_parameters": {"rope_theta": 1200.0},
          "text_config": {"model_type": "qwen2", **TEXT}}, {"rotary_pct": 0.5}),
    ],
)  # fmt: skip
def test_what_other_parts_and_rules_read_is_no_finding(config, other):
    quiet = resolve(config)
    assert (quiet.unread, quiet.contradicted) == ((), ())
    assert resolve({**config, **other}).unread == (*other,)


@pytest.mark.parametrize("kind", ["alibi", "rotary", "relative_key"])
def test_a_kind_of_positions_that_a_model_type_does_not_have_is_told(kind):
    """Jina's BERTs as published have ALiBi or rope by their own code, by the type bert."""
    found = resolve({"model_type": "bert", "position_embedding_type": kind})
    assert found.contradicted == ("position_embedding_type",)
    assert resolve({"model_type": "bert", "position_embedding_type": "absolute"}).contradicted == ()


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "position_embedding_type": "\x1b[2J" + "x" * 5000},
        {**LLAMA, "rope_scaling": {**YARN, "type": "\x1b[2J" + "x" * 5000}},
        {**LLAMA, "model_type": "qwen2", "architectures": ["\x1b[2J" + "Grok" * 5000]},
    ],
)
def test_what_a_file_spells_wildly_is_shown_on_one_short_line(config):
    warnings = resolve(config).warnings
    assert warnings
    assert all(text.isprintable() and len(text) < 400 for text in warnings)


def test_an_mscale_and_a_beta_that_change_nothing_are_no_finding():
    """Devstral 2 as published: g(mscale 1) / g(0) is what YaRN takes without, and beta is 0."""
    rope = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}
    rope |= {"rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 0.0, "llama_4_scaling_beta": 0.0}
    config = {"model_type": "ministral3", "head_dim": 128, "max_position_embeddings": 262144}
    assert resolve({**config, "rope_parameters": rope}).warnings == ()
    other = {**rope, "mscale": 0.5, "llama_4_scaling_beta": 0.1}
    assert len(resolve({**config, "rope_parameters": other}).warnings) == 1


def test_the_text_model_of_exaone_4_5_is_exaone_4():
    """As published, and as Exaone4_5Config of transformers 5.24 renames it."""
    text = {"model_type": "exaone4_5_text", "architectures": ["Exaone4ForCausalLM"], **TEXT}
    found = resolve({"model_type": "exaone4_5", "text_config": {**text, "head_dim": 64}})
    assert (found.model_type, found.defaulted, found.warnings) == ("exaone4", (), ())


def test_a_constant_that_bloom_adds_to_every_bias_cancels_in_the_softmax():
    bloom = {"model_type": "bloom", "n_head": 16, "hidden_size": 1024, "offset_alibi": 100}
    assert (resolve(bloom).unread, resolve(bloom).warnings) == ((), ())
