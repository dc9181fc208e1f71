"""Models of text and images or sound: the defaults of their text models are transformers' own."""

import json

import pytest

from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.nonrotary import FAMILIES
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN

CASES = {
    case["name"]: case
    for case in json.loads((GOLDEN / "config_containers.json").read_text("utf-8"))["cases"]
}
ROTARY = {
    each.model_type: each for each in filter(None, map(families.rotary, sorted(families.names())))
}


NO_HEAD = frozenset(
    {
        *("glm46v", "glm4v", "glm4v_moe", "glm_image", "glmga"),
        *("qwen3_omni_moe", "qwen3_omni_moe_thinker"),
    }
)
"""Models whose defaults, as transformers has them, fit no head: their configs must say more."""


def is_read(name):
    """Whether the tool reads a text model from its defaults alone."""
    family = ROTARY.get(CASES[name]["text"]["model_type"])
    refused = family is not None and family.needs_layer_types
    container = families.container(name.split("/")[0])
    beside = container is not None and container.inside and "text_config" in CASES[name]["config"]
    return not refused and not beside and name.split("/")[0] not in NO_HEAD


@pytest.mark.long
@pytest.mark.parametrize("name", list(filter(is_read, CASES)))
def test_the_text_model_has_the_defaults_of_the_model_around_it(name):
    text, resolved = CASES[name]["text"], resolve(CASES[name]["config"])
    assert resolved.model_type == text["model_type"]
    for each in resolved.layers:
        context = each.derived["context"].value
        if "offset" in each.params and context != text["context"]:  # rows before the first token's
            context = each.params["max_len"].value
        assert context == text["context"]
        if "base" in each.params:
            base = text["base"]
            base = base[each.layer_type] if isinstance(base, dict) else base
            assert each.params["base"].value == base
            if text["head_dim"] is not None:
                assert each.params["dim"].value == text["head_dim"]
        elif "dim" in each.params:
            assert each.params["dim"].value == text["hidden_size"]
    count = 1 + max((layer for each in resolved.layers for layer in each.layers), default=-1)
    # The last of their layers has no attention.
    last = resolved.model_type in ("lfm3", "glm5_next_text")
    assert count in (0, text["layers"] - last)


@pytest.mark.parametrize("name", [name for name in CASES if not is_read(name)])
def test_defaults_that_are_not_enough_are_refused(name):
    with pytest.raises(InvalidInput):
        resolve(CASES[name]["config"])


def test_every_container_is_held_to_transformers():
    assert {name.split("/")[0] for name in CASES} == set(families.names("containers"))


def test_a_default_says_whose_it_is():
    layers = resolve({"model_type": "voxtral", "text_config": {"hidden_size": 3072}}).layer()
    assert layers.params["base"].value == 1e8
    assert layers.params["base"].source == "default of voxtral"
    assert layers.params["dim"].source == "default of voxtral"
    inside = {"model_type": "mistral3", "text_config": {"model_type": "mistral"}}
    assert resolve(inside).layer().params["base"].source == "default of mistral"


@pytest.mark.parametrize("key", ["hidden_size", "head_dim", "rope_theta", "rope_scaling"])
def test_keys_of_the_text_model_where_nothing_reads_them_are_refused(key):
    value = {"rope_type": "linear", "factor": 2.0} if key == "rope_scaling" else 512
    with pytest.raises(InvalidInput, match=f"{key}: .* only in text_config") as refused:
        resolve({"model_type": "gemma3", key: value})
    assert refused.value.hint == "for the text model alone, say model_type gemma3_text"
    assert resolve({"model_type": "gemma3", key: None}).model_type == "gemma3_text"


@pytest.mark.parametrize(
    ("model_type", "inside"), [("colpali", "vlm_config"), ("qwen2_5_omni", "thinker_config")]
)
def test_a_text_model_beside_the_section_that_holds_it_is_refused(model_type, inside):
    text = {"model_type": families.text_model_type(model_type), "rope_theta": 5e4}
    with pytest.raises(InvalidInput, match=f"text_config: .* of {model_type} only in {inside}"):
        resolve({"model_type": model_type, "text_config": text})
    within = {"model_type": model_type, inside: {"text_config": text}}
    assert resolve(within).layer().params["base"].value == 5e4


def test_a_container_holds_a_text_model_that_is_known():
    for name in families.names("containers"):
        found = families.container(name)
        assert found.text in ROTARY or found.text in FAMILIES, name
        assert all(type(value) is int for value in found.defaults.values()), name
        assert not found.flat or not found.defaults, name


@pytest.mark.parametrize("section", ["llm_config", "language_config"])
def test_a_text_model_where_transformers_looks_for_none_is_refused(section):
    """A published test config of llava: transformers 5.24 takes its default Llama in silence."""
    inner = {"hidden_size": 896, "num_attention_heads": 14, "num_hidden_layers": 1}
    config = {"model_type": "llava", section: {**inner, "architectures": ["Qwen2ForCausalLM"]}}
    with pytest.raises(InvalidInput, match=f"{section}: .* llava only in text_config") as refused:
        resolve(config)
    assert refused.value.hint == "for the text model alone, say model_type llama"
    assert resolve({"model_type": "unlimited_ocr", "language_config": inner}).layers
