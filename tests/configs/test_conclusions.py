"""The summary of a config: what its lengths, factors, layers and parts come to."""

import pytest

from posenc_cli.configs.conclusions import ConclusionCode, conclusions
from posenc_cli.configs.config import resolve

LLAMA = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
LLAMA |= {"num_hidden_layers": 4, "rope_theta": 1e4, "max_position_embeddings": 32768}
ROTARY_ESM = {"hidden_size": 320, "num_attention_heads": 20, "num_hidden_layers": 6}
ROTARY_ESM |= {"position_embedding_type": "rotary", "max_position_embeddings": 1026}
ROTARY_ESM |= {"pad_token_id": 1}
DEEPSEEK = {"num_attention_heads": 128, "rope_theta": 1e4, "max_position_embeddings": 163840}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


def of(config, code):
    found = tuple(conclusions(resolve(config), config))
    return [
        (conclusion.text, conclusion.doubtful) for conclusion in found if conclusion.code == code
    ]


@pytest.mark.parametrize(
    ("stated", "ending", "doubtful"),
    [
        (32768, "to 32768 (consistent with the config)", False),
        (32767, "to 32768 (consistent with the config)", False),
        (8192, "to 32768; the config states 8192", False),
        (131072, "to 32768, but the config states 131072 (4×)", True),
    ],
)
def test_a_stated_length_is_held_against_the_stretched_one(stated, ending, doubtful):
    config = {**LLAMA, "max_position_embeddings": stated, "rope_scaling": YARN}
    start = "original context 8192, extended ×4 "
    assert of(config, ConclusionCode.CONTEXT) == [(start + ending, doubtful)]


def test_the_alpha_of_hunyuan_is_not_said_to_extend_the_context():
    """tencent/Hunyuan-A13B: an alpha of 1000, at which it was trained."""
    rope = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 32768}
    config = {"model_type": "hunyuan_v1_moe", **sizes, "rope_scaling": rope}
    text = "context: 32768 positions, base raised by the NTK factor 1000"
    assert of(config, ConclusionCode.CONTEXT) == [(text, False)]


def test_a_factor_that_is_no_ratio_of_lengths_is_not_read_as_one():
    llama3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    llama3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = {**LLAMA, "max_position_embeddings": 131072, "rope_scaling": llama3}
    text = "original context 8192; the config states 131072 (16×)"
    assert of(config, ConclusionCode.CONTEXT) == [(text, False)]
    short = {**config, "max_position_embeddings": 4096}
    assert of(short, ConclusionCode.CONTEXT) == [
        ("original context 8192; the config states 4096 (0.5×)", True)
    ]


def test_what_is_not_stretched_is_said_to_be_so():
    text = "context: 32768 positions, no RoPE scaling"
    assert of(LLAMA, ConclusionCode.CONTEXT) == [(text, False)]
    assert of(LLAMA, ConclusionCode.LOGITS) == []
    linear = {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    text = "context: 32768 positions, RoPE scaled ×4; the config does not state the trained length"
    assert of(linear, ConclusionCode.CONTEXT) == [(text, False)]


def test_logits_are_multiplied_by_all_factors_together():
    """YaRN's rule for factor 40: (0.1 · ln 40 + 1)², once for mscale, once for mscale_all_dim."""
    both = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
    config = {"model_type": "deepseek_v3", **DEEPSEEK}
    config["rope_scaling"] = {**both, "mscale": 1.0, "mscale_all_dim": 1.0}
    text = "logits × 1.87385 (softmax scale)"
    assert of(config, ConclusionCode.LOGITS) == [(text, False)]
    config["rope_scaling"] = {**both, "mscale": 1.0, "mscale_all_dim": 0.5}
    text = (
        "logits of the rotated dimensions × 1.87385: 1.33569 by the attention factor², 1.40291 by "
        "the softmax scale"
    )
    assert of(config, ConclusionCode.LOGITS) == [(text, False)]
    plain = {**LLAMA, "rope_scaling": YARN}
    text = "logits × 1.29648 (attention factor²)"
    assert of(plain, ConclusionCode.LOGITS) == [(text, False)]


def test_an_indexer_that_pairs_otherwise_is_told():
    """As modeling_deepseek_v32.py and modeling_glm_moe_dsa.py of transformers 5.23 turn it."""
    apart = "indexer layout: half, attention's is interleaved"
    found = of({"model_type": "deepseek_v32", **DEEPSEEK}, ConclusionCode.INDEXER)
    assert found == [(f"{apart} (default of deepseek_v32)", False)]
    alike = "indexer layout: interleaved, as in attention"
    found = of({"model_type": "glm_moe_dsa", **DEEPSEEK}, ConclusionCode.INDEXER)
    assert found == [(f"{alike} (default of glm_moe_dsa)", False)]


def test_layers_without_positions_are_named():
    config = {**LLAMA, "model_type": "smollm3", "no_rope_layer_interval": 4}
    assert of(config, ConclusionCode.NO_POSITIONS) == [
        ("layers without positions: 3 (1 of 4)", False)
    ]
    assert of(LLAMA, ConclusionCode.NO_POSITIONS) == []


def test_parts_that_nothing_reads_are_named():
    config = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 8}}
    config["quantization_config"] = {}
    assert of(config, ConclusionCode.NOT_READ) == [("not read: vision_config", False)]
    sides = {"decoder": {**LLAMA, "model_type": "t5_gemma_module"}, "encoder": {"rope_theta": 1e4}}
    encoder_decoder = {"model_type": "t5gemma", **sides}
    assert of(encoder_decoder, ConclusionCode.NOT_READ) == [("not read: encoder", False)]
    text = {"model_type": "qwen2_5_omni_text", "rope_scaling": {"mrope_section": [16, 24, 24]}}
    omni = {
        "model_type": "qwen2_5_omni",
        "thinker_config": {"text_config": text, "audio_config": {}, "vision_config": {}},
        "talker_config": {},
        "token2wav_config": {},
    }
    told = "talker_config, token2wav_config, thinker_config.audio_config"
    assert of(omni, ConclusionCode.NOT_READ) == [
        (f"not read: {told}, thinker_config.vision_config", False)
    ]


def test_doubts_are_told_with_their_keys():
    config = {**LLAMA, "rotary_pct": 0.5}
    del config["rope_theta"]
    assert of(config, ConclusionCode.UNREAD) == [("nothing reads rotary_pct", True)]
    assert of(config, ConclusionCode.DEFAULTED) == [("default used for rope_theta", True)]


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ({"model_type": "siglip", "text_config": {"hidden_size": 64}}, "max_len", 64),
        ({"model_type": "esm", **ROTARY_ESM}, "base", 10000.0),
    ],
)
def test_a_value_that_no_published_config_states_is_no_doubt(config, name, value):
    """SigLIP's 64 rows are its class's, and ESM-2's base was a constant in transformers 4.57."""
    resolved = resolve(config)
    assert resolved.layer().values()[name] == value
    assert resolved.layer().params[name].source.startswith("default of")
    assert of(config, ConclusionCode.DEFAULTED) == []
    clip = {"model_type": "clip", "text_config": {"hidden_size": 64}}
    assert of(clip, ConclusionCode.DEFAULTED)[0][1]


def test_llama_4_multiplies_logits_of_layers_without_positions_by_the_query():
    llama4 = {"model_type": "llama4_text", "num_hidden_layers": 4}
    told = "logits of layers without positions × (1 + {} · ln(1 + ⌊(m + 1) / {}⌋))"
    of_query = ", m the position of the query"
    assert of(llama4, ConclusionCode.LOGITS) == [(told.format(0.1, 8192) + of_query, False)]
    own = {"attn_scale": 0.2, "floor_scale": 4096}
    for config in ({**llama4, **own}, {"model_type": "llama4", "text_config": {**llama4, **own}}):
        assert of(config, ConclusionCode.LOGITS) == [(told.format(0.2, 4096) + of_query, False)]
    assert not of({**llama4, "attn_temperature_tuning": False}, ConclusionCode.LOGITS)
    assert not of({**llama4, "no_rope_layers": [1, 1, 1, 1]}, ConclusionCode.LOGITS)


def test_a_length_that_no_key_states_is_called_the_default():
    of_type = of({"model_type": "nomic_bert"}, ConclusionCode.CONTEXT)
    assert of_type == [("context: 2048 positions (default of nomic_bert), no RoPE scaling", False)]
    config = {key: value for key, value in LLAMA.items() if key != "max_position_embeddings"}
    stretched = {**YARN, "factor": 2.0, "original_max_position_embeddings": 1024}
    ((text, _),) = of({**config, "rope_scaling": stretched}, ConclusionCode.CONTEXT)
    assert text.endswith("extended ×2 to 2048 (the default of llama is the same)")


def test_dynamic_ntk_keeps_the_longest_stretch():
    """dynamic_frequency_update of transformers resets below the original length alone."""
    ((text, _),) = of(
        {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ConclusionCode.CONTEXT
    )
    assert "transformers keeps the largest base until a sequence fits in it again" in text


def test_dynamic_ntk_is_told_by_the_code_that_is_read():
    """InternLM2's code never resets inv_freq; sglang stretches once."""
    rope = {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 32768}
    ((text, _),) = of({"model_type": "internlm2", **rope}, ConclusionCode.CONTEXT)
    assert text.endswith(
        "its own code keeps the last base that it grew in every shorter sequence after it"
    )
    config = {**LLAMA, **rope}
    found = tuple(conclusions(resolve(config, runtime="sglang"), config))
    assert "the base is that of 65536 positions at every length" in found[0].text


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(
    ("model_type", "neighbours"), [("glm_moe_dsa", True), ("deepseek_v32", False)]
)
def test_a_key_of_the_indexer_is_silent_where_it_agrees(stated, model_type, neighbours):
    found = resolve({"model_type": model_type, "indexer_rope_interleave": stated})
    assert found.contradicted == (() if stated is neighbours else ("indexer_rope_interleave",))
    assert found.unread == ()
