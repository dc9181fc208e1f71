"""Model types with code of their own, beside transformers: read as that code reads them."""

import pytest

from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput

GLM4 = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "hidden_size": 4096,
    "kv_channels": 128,
    "num_attention_heads": 32,
    "num_layers": 40,
    "seq_length": 131072,
    "padded_vocab_size": 151552,
    "rope_ratio": 500,
}


def test_each_says_where_its_code_was_read():
    for name, remote in families.remotes().items():
        assert remote.evidence.startswith("https://"), name
        when = remote.family.when
        held = {} if when is None else {when["key"]: when["is"]}
        warnings = resolve({"model_type": name, **held}).warnings
        (warning,) = (text for text in warnings if "the model's own code" in text)
        assert remote.evidence in warning
        assert (remote.family.when is None) == (remote.otherwise is None)


_OWNERS = ("internlm", "openbmb", "xiaomimimo")


def test_code_in_a_repository_of_others_is_not_said_to_be_the_owners():
    for name, remote in families.remotes().items():
        owner = remote.evidence.split("/")[3].lower()
        others = {"mimo_v2": "; NVIDIA's implementation"}.get(name, "; a copy")
        own = owner in _OWNERS and name != "baichuan"
        assert own or remote.evidence.endswith(others), name


def test_glm_4s_own_code_turns_half_of_a_head_in_neighbours_by_a_base_times_the_ratio():
    layers = resolve(GLM4).layer()
    assert layers.values() == {
        "dim": 128,
        "base": 5_000_000.0,
        "layout": "interleaved",
        "partial": 0.5,
    }
    assert layers.params["base"].source == "derived: 10000 × rope_ratio"
    assert (layers.derived["context"].value, len(layers.layers)) == (131072, 40)


def test_a_ratio_of_which_no_key_says_what_it_does_is_refused():
    with pytest.raises(InvalidInput, match="ChatGLM2's code divides positions by it"):
        resolve({**GLM4, "padded_vocab_size": 65024, "rope_ratio": 50})
    without = {**GLM4, "padded_vocab_size": 65024, "rope_ratio": 1}
    assert resolve(without).layer().params["base"].value == 10_000.0


def test_what_the_code_of_another_size_does_is_refused_in_its_words():
    with pytest.raises(InvalidInput, match="chatglm with position_encoding_2d numbers tokens on"):
        resolve({"model_type": "chatglm", "position_encoding_2d": True})
    with pytest.raises(InvalidInput, match="baichuan of another width than 4096 adds ALiBi"):
        resolve({"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40})


def test_baichuan_2_7b_turns_by_a_base_that_no_key_says():
    config = {"model_type": "baichuan", "hidden_size": 4096, "num_attention_heads": 32}
    resolved = resolve({**config, "rope_theta": 5e5})
    assert resolved.layer().values() == {"dim": 128, "base": 10_000.0, "layout": "half"}
    assert resolved.unread == ("rope_theta",)


def test_what_nothing_reads_is_said_of_the_models_own_code():
    assert resolve({**GLM4, "rope_angle": 3}).warnings[-1] == "nothing read rope_angle"


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_internlm_2_is_stretched_by_the_rules_that_its_code_has(kind):
    config = {"model_type": "internlm2", "rope_theta": 1e6, "max_position_embeddings": 32768}
    layers = resolve({**config, "rope_scaling": {"type": kind, "factor": 2.0}}).layer()
    assert (layers.scheme, layers.params["layout"].value) == (f"rope-{kind}", "half")
    with pytest.raises(InvalidInput, match="internlm2 takes default, linear, dynamic"):
        resolve({**config, "rope_scaling": {"type": "yarn", "factor": 2.0}})


def test_internlm_1_has_a_section_of_its_own_and_grows_its_base_by_it():
    assert resolve({"model_type": "internlm"}).layer().scheme == "rope"
    rotary = {"base": 30000, "type": "dynamic"}
    layers = resolve({"model_type": "internlm", "rotary": rotary}).layer()
    assert layers.scheme == "rope-dynamic"
    assert (layers.values()["base"], layers.values()["factor"]) == (30000.0, 1.0)
    assert layers.params["base"].source == "rotary.base"
    assert layers.params["factor"].source == "default of internlm"
    stretched = resolve({"model_type": "internlm", "rotary": {**rotary, "scaling_factor": 2.0}})
    assert stretched.layer().params["factor"].source == "rotary.scaling_factor"
    assert (
        resolve({"model_type": "internlm", "rotary": {**rotary, "type": "origin"}}).layer().scheme
        == "rope"
    )
    with pytest.raises(InvalidInput, match="rotary.type 'x'"):
        resolve({"model_type": "internlm", "rotary": {**rotary, "type": "x"}})


def test_qwen_1_is_read_where_its_base_stays_as_it_is():
    config = {"model_type": "qwen", "kv_channels": 128, "rotary_emb_base": 1e6}
    with pytest.raises(InvalidInput, match="use_dynamic_ntk raises its base in steps"):
        resolve(config)
    resolved = resolve({**config, "use_dynamic_ntk": False, "use_logn_attn": True})
    assert resolved.layer().values() == {"dim": 128, "base": 1e6, "layout": "half"}
    assert resolved.warnings[-1] == ("nothing read use_logn_attn")
