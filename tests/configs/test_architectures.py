"""What the class names of a config say beside its model type, against transformers' own mapping."""

import json

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.configs.keys import Keys
from posenc_cli.configs.text_models import classes, family_of, is_alike, is_foreign
from posenc_cli.errors import InvalidInput
from tests.configs.test_config import LLAMA
from tests.gguf_files import GOLDEN

CLASSES = json.loads((GOLDEN / "architectures.json").read_text("utf-8"))["classes"]
YARN = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2048}


def test_a_text_model_without_a_model_type_is_read_by_its_class():
    """deepseek-ai/DeepSeek-OCR: its language_config names DeepseekV2ForCausalLM alone."""
    inner = {key: LLAMA[key] for key in LLAMA if key != "model_type"}
    outer = {"model_type": "deepseek_vl_v2", "language_config": inner}
    with pytest.raises(InvalidInput, match="language_config.model_type is missing"):
        resolve(outer)
    ocr = {**inner, "architectures": ["DeepseekV2ForCausalLM"], "use_mla": False}
    with pytest.raises(InvalidInput, match="use_mla false: plain attention"):
        resolve({**outer, "language_config": ocr})
    found = resolve({**outer, "language_config": {**inner, "architectures": ["LlamaForCausalLM"]}})
    assert (found.model_type, found.defaulted) == ("llama", ("model_type",))
    assert "language_config.model_type is missing: it is read as llama" in found.headlines[0]


def test_a_class_name_is_never_taken_for_another_family_and_nearly_always_for_its_own():
    found = {name: family_of(name) for name in CLASSES}
    wrong = {
        name: model_type
        for name, model_type in found.items()
        if model_type and not any(is_alike(model_type, each) for each in CLASSES[name])
    }
    # Parts that are no text models: their classes have the names of the whole.
    assert wrong.keys() <= {
        *("MimiEncoderModel", "PocketTTSAudioTokenizerEncoderModel", "Tipsv2TextModel"),
        *("VibeVoiceAcousticTokenizerEncoderModel", "VideoPrismForVideoClassification"),
        *("OmniASRForCTC", "WavTokenizerEncoderModel"),
    }
    assert sum(each is None for each in found.values()) < 0.06 * len(CLASSES)


def test_an_unknown_type_is_read_as_the_family_of_its_class_and_says_so_first():
    config = {**LLAMA, "model_type": "my_cohere", "architectures": ["CohereForCausalLM"]}
    resolved = resolve(config)
    assert resolved.layer().values()["layout"] == "interleaved"
    assert resolved.headlines == resolved.warnings[:1]
    assert resolved.headlines[0] == (
        "model type 'my_cohere' is unknown: it is read as cohere, whose class architectures.0 "
        "'CohereForCausalLM' is"
    )
    assert resolved.defaulted == ("model_type",)
    bias = resolve({"model_type": "mine", "n_head": 4, "architectures": ["BloomForCausalLM"]})
    assert bias.layer().scheme == "alibi"


def test_an_unknown_type_keeps_the_names_of_its_own_keys():
    phi = {"model_type": "phi-msft", "architectures": ["PhiForCausalLM"], "n_embd": 2560}
    resolved = resolve({**phi, "n_head": 32, "n_layer": 2, "rotary_dim": 32, "rope_theta": 1e4})
    assert resolved.layer().values() == {
        "dim": 80, "base": 1e4, "layout": "half", "partial": 0.4,
    }  # fmt: skip
    assert resolved.layer().layers == (0, 1)


def test_classes_of_two_families_say_nothing_of_an_unknown_type():
    config = {**LLAMA, "model_type": "x_y_z", "architectures": ["LlamaModel", "CohereForCausalLM"]}
    with pytest.raises(InvalidInput, match="are of different families"):
        resolve(config)


@pytest.mark.parametrize(
    ("changed", "contradicted"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, ()),
        ({"architectures": ["LlamaForCausalLMEagle3", "MyOwnModel"]}, ()),
        # Other classes that turn by the very same angles.
        ({"architectures": ["MistralForCausalLM"]}, ()),
        ({"architectures": ["FooForCausalLM"]}, ("architectures.0",)),
        ({"architectures": ["CohereForCausalLM"]}, ("architectures.0",)),
        ({"architectures": ["DeepseekV4ForCausalLM"]}, ("architectures.0",)),
        ({"architectures": ["BertModel"]}, ("architectures.0",)),
    ],
)
def test_a_class_that_is_read_otherwise_than_the_type_is_said_first_and_counts(
    changed, contradicted
):
    resolved = resolve({**LLAMA, **changed})
    assert resolved.layer().values()["layout"] == "half"
    assert resolved.contradicted == contradicted
    assert len(resolved.headlines) == len(contradicted)
    if contradicted:
        assert repr(changed["architectures"][0]) in resolved.headlines[0]
        named = "go by the model type", "is not a class of llama that posenc knows"
        assert any(words in resolved.headlines[0] for words in named)


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("gemma3", "Gemma3ForConditionalGeneration"),
        ("gemma3_text", "Gemma3ForCausalLM"),
        ("kimi_k2", "DeepseekV3ForCausalLM"),
        ("qwen2_vl", "Qwen2VLForConditionalGeneration"),
        ("xlm-roberta", "XLMRobertaModel"),
        ("t5", "T5WithLMHeadModel"),
        ("marian", "MarianMTModel"),
    ],
)
def test_the_class_of_a_model_around_or_within_is_no_contradiction(model_type, architecture):
    text = {**LLAMA, "model_type": "gemma3_text"} if model_type == "gemma3" else None
    config = {"model_type": model_type, "architectures": [architecture], "qk_rope_head_dim": 64}
    config |= {"text_config": text} if text else {}
    assert resolve(config).contradicted == ()


GROK_2 = {
    "architectures": ["Grok1ForCausalLM"],
    "model_type": "git",
    "hidden_size": 8192,
    "max_position_embeddings": 131072,
    "rope_theta": 208533496,
}


def test_a_class_that_does_not_belong_to_the_model_type_is_told_by_name():
    """Grok 2 as published: git is an image-text model of transformers."""
    found = resolve(GROK_2)
    assert "architectures.0 'Grok1ForCausalLM' is not a class of git" in found.headlines[0]
    assert found.contradicted == ("architectures.0",)
    own = resolve({**GROK_2, "architectures": ["GitForCausalLM"]})
    assert (own.headlines, own.contradicted) == ((), ())
    drafter = {**LLAMA, "architectures": ["DFlashDraftModel"]}
    assert resolve(drafter).contradicted == ()


def test_a_class_of_another_family_that_turns_alike_is_named_too():
    said = resolve({**LLAMA, "architectures": ["MistralForCausalLM"]}).warnings
    assert len(said) == 1
    assert said[0] == (
        "architectures.0 'MistralForCausalLM' is a class of mistral, not of model type llama: "
        "both are read the same here"
    )
    assert resolve({**LLAMA, "architectures": ["LlamaForCausalLM"]}).warnings == ()


def test_a_class_whose_tables_of_biases_are_each_layers_own_is_another_model():
    """UMT5Stack builds each layer with has_relative_attention_bias, T5Stack the first alone."""
    found = resolve({"model_type": "t5", "architectures": ["UMT5ForConditionalGeneration"]})
    assert "is a class of umt5, which differs from model type t5" in found.headlines[0]
    assert found.contradicted == ("architectures.0",)


def test_a_class_that_ends_in_the_name_of_its_model_type_is_another_model():
    """jinaai/jina-embeddings-v2: ALiBi, by code of its own, under BERT's model type."""
    stated = {"model_type": "bert", "position_embedding_type": "alibi"}
    found = resolve({**stated, "architectures": ["JinaBertForMaskedLM"]})
    assert "architectures.0 'JinaBertForMaskedLM' is not a class of bert" in found.headlines[0]
    assert found.contradicted == ("position_embedding_type", "architectures.0")


def test_a_class_within_a_model_of_transformers_is_not_what_that_builds():
    """SmolVLM and Idefics 3 as published: AutoModel.from_config goes by the model type alone."""
    text = {**LLAMA, "architectures": ["VLlama3ForCausalLM"]}
    found = resolve({"model_type": "idefics3", "text_config": text})
    assert (found.headlines, found.contradicted) == ((), ())
    unknown = resolve({"model_type": "my_vlm", "text_config": text})
    assert unknown.contradicted == ("text_config.architectures.0",)


def test_no_class_of_transformers_is_foreign_to_its_own_model_type():
    foreign = [
        (name, own)
        for name, types in CLASSES.items()
        for own in types
        if is_foreign(next(classes(Keys({"architectures": [name]}, name="config.json"))), [own])
    ]
    assert foreign == []
