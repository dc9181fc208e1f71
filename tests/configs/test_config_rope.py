"""Rotary configs, against the modules that transformers builds from them."""

import json
from typing import Any

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from tests.gguf_files import GOLDEN

DOCUMENT = json.loads((GOLDEN / "config_rope.json").read_text("utf-8"))
ARRAYS = np.load(GOLDEN / "config_rope.npz")
CASES = {case["name"]: case for case in DOCUMENT["cases"]}


def layers_of(case: dict[str, Any], layer_type: str) -> list[Any]:
    """The layers that a module of transformers serves: those of its type, or all that rotate."""
    layers = resolve(case["config"]).layers
    return [
        each
        for each in layers
        if each.scheme != "nope" and layer_type in ("", each.layer_type or "")
    ]


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", CASES)
def test_frequencies_and_attention_scaling_are_transformers(name):
    case = CASES[name]
    for layer_type, expected in case["layers"].items():
        layers = layers_of(case, layer_type)
        assert layers
        for each in layers:
            waves = catalogue.find(each.scheme).bind(each.values()).content.waves
            found = [float(f) for f in waves.frequencies(exact)]
            tolerance = DOCUMENT["tolerance"]["inv_freq"]["rtol"]
            np.testing.assert_allclose(found, ARRAYS[expected["array"]], rtol=tolerance)
            if expected["attention_scaling"] is not None:
                scale = expected["attention_scaling"]
                assert float(waves.scale) == pytest.approx(scale, rel=1e-14, abs=0)
                derived = each.derived.get("attention_factor")
                assert (derived.value if derived else 1) == pytest.approx(scale, rel=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "layout" in case])
def test_the_layout_is_that_of_the_models_own_rotation(name):
    case = CASES[name]
    layouts = {each.params["layout"].value for each in layers_of(case, "")}
    assert layouts == {case["layout"]}


def test_the_layout_of_every_family_is_held_to_its_own_rotation():
    held = {name.split("/")[0] for name, case in CASES.items() if "layout" in case}
    held.add("deepseek_v4")  # whose labels of layers are not those of ropes: test_layer_bases.py
    assert {
        each.model_type for each in filter(None, map(families.rotary, sorted(families.names())))
    } == held


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"model_type": "deepseek_v3", "head_dim": 128},
            "head_dim 128 (head_dim): must be 64 (default of deepseek_v3)",
        ),
        (
            {"model_type": "axk1", "head_dim": None, "qk_rope_head_dim": 32},
            "head_dim null (head_dim): must be 32 (qk_rope_head_dim)",
        ),
        (
            {"model_type": "mistral4", "head_dim": 64},
            "head_dim 64 (head_dim): must be 128 (qk_rope_head_dim + qk_nope_head_dim)",
        ),
        (  # whose default rope rotates all 128 columns, of which its attention has 64
            {"model_type": "mistral4", "rope_parameters": {"rope_theta": 1e6}},
            "rope_parameters.rope_type is missing: mistral4 takes linear",
        ),
    ],
)
def test_a_head_that_does_not_fit_the_slice_that_turns_is_refused(config, words):
    with pytest.raises(InvalidInput) as refused:
        resolve(config)
    assert words in refused.value.message


OLDER_NAMES = {
    "su": {"phi3", "phi4_multimodal"},
    "mrope": {"qwen2_vl_text", "qwen2_5_vl_text"},
    "xdrope": {"hunyuan_vl_text"},
}
"""By an older name of a rope type, the model types of transformers 5.23 that take it.

Measured: the rotary class of every other rotary model type that reads a rope object raises
KeyError, or its config class ValueError, when it is built from such a config.
"""


@pytest.mark.parametrize("key", ["type", "rope_type"])
@pytest.mark.parametrize("older", OLDER_NAMES)
def test_older_names_of_rope_types_are_read_where_the_class_of_the_model_type_takes_them(
    older, key
):
    taken, refused = set(), set()
    for model_type in families.names():
        rope = {key: older, "factor": 2.0, "short_factor": [1.0] * 8, "long_factor": [1.0] * 8}
        sizes = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
        sizes |= {"rope_theta": 1e4, "original_max_position_embeddings": 2048}
        rope |= {"mrope_section": [2, 3, 3]} if "mrope" in older else {}
        config = {"model_type": model_type, **sizes, "rope_scaling": rope}
        try:
            resolved = resolve({**config, "mrope_section": [2, 3, 3]})
        except InvalidInput as error:
            words = f"rope_scaling.{key} '{older}': {model_type} takes "
            refused |= {model_type} if words in error.message else set()
        else:
            if "rope_type" in resolved.layers[0].derived:
                taken.add(model_type)
    assert taken == OLDER_NAMES[older]
    assert {"llama", "qwen2", "phimoe", "qwen3_vl_text", "mixtral"} <= refused


@pytest.mark.parametrize(("length", "told"), [(None, True), (4096, False)])
def test_the_first_files_of_phi_3_fail_in_transformers_and_are_told_so(length, told):
    """Phi-3-mini-128k as first published: KeyError for the length that stands at the top alone."""
    rope = {"type": "su", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    rope |= {} if length is None else {"original_max_position_embeddings": length}
    config = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32}
    config |= {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    found = resolve({**config, "rope_scaling": rope})
    assert found.layers[0].scheme == "rope-longrope"
    assert found.contradicted == (("rope_scaling.type",) if told else ())


@pytest.mark.parametrize(("section", "told"), [("rope_parameters", True), ("rope_scaling", False)])
def test_sarvam_knows_the_name_deepseek_yarn_in_rope_scaling_alone(section, told):
    """configuration_sarvam_mla.py renames it there; elsewhere building the model is a KeyError."""
    rope = {"rope_type": "deepseek_yarn", "factor": 4.0, "rope_theta": 1e4}
    rope["original_max_position_embeddings"] = 1024
    found = resolve({"model_type": "sarvam_mla", section: rope})
    assert found.layers[0].scheme == "rope-yarn"
    assert (f"{section}.rope_type" in found.contradicted) == told


@pytest.mark.parametrize(("older", "newer"), [("mrope", "default"), ("su", "longrope")])
def test_an_older_name_that_a_class_does_not_take_comes_with_the_newer_one(older, newer):
    """SpecForge's drafter of Qwen 2.5 VL as published, a Llama with the type mrope."""
    config = {"model_type": "llama", "rope_scaling": {"type": older, "mrope_section": [1, 2, 3]}}
    with pytest.raises(InvalidInput) as refused:
        resolve(config)
    assert refused.value.hint == (f"it is an older name: in a copy of the file, say {newer}")


def test_an_older_name_beside_the_rope_type_that_transformers_reads_changes_nothing():
    rope = {"rope_type": "default", "type": "mrope"}
    sizes = {"hidden_size": 64, "num_attention_heads": 4}
    config = {"model_type": "llama", **sizes, "rope_scaling": rope}
    assert resolve(config).layer().scheme == "rope"
    with pytest.raises(InvalidInput, match="the code of model type new is not known"):
        resolve({**config, "model_type": "new", "rope_scaling": {"type": "ntk", "factor": 2.0}})
    with pytest.raises(InvalidInput, match="llama takes default"):
        resolve({**config, "rope_scaling": {"rope_type": "mrope", "type": "default"}})


def test_an_engine_reads_older_names_by_its_own_code():
    rope = {"type": "su", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope |= {"short_mscale": 1.0, "long_mscale": 1.1, "original_max_position_embeddings": 4096}
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}
    config = {"model_type": "phimoe", **sizes, "rope_scaling": rope}
    assert resolve(config, runtime="vllm").layer().scheme == "rope-longrope"
    with pytest.raises(InvalidInput, match="phimoe takes default, longrope"):
        resolve(config)


def test_sections_that_the_class_of_the_model_type_refuses_are_refused():
    """HYV4VLTextConfig.validate_architecture of transformers 5.24; Qwen3-VL checks no sum."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}
    stated = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [12, 10, 10]}
    config = {"model_type": "hy_v4_vl_text", **sizes, "rope_parameters": stated}
    assert resolve({**config, "qk_rope_head_dim": 64}).layer().scheme == "mrope"
    with pytest.raises(InvalidInput, match="must be three numbers whose sum is 16"):
        resolve({**config, "qk_rope_head_dim": 32})


def test_a_model_with_images_is_interleaved_though_its_model_of_text_alone_is_not():
    """apply_rotary_pos_emb of modeling_hy_v4_vl.py and of modeling_hy_v4.py, transformers 5.24."""
    images = resolve({"model_type": "hy_v4_vl", "text_config": {"num_hidden_layers": 2}})
    text = resolve({"model_type": "hy_v4", "num_hidden_layers": 2})
    layouts = [each.layer().values()["layout"] for each in (images, text)]
    assert layouts == ["interleaved", "half"]


def test_a_name_that_only_the_class_of_the_model_type_takes_is_read_as_yarn():
    """sarvamai/sarvam-105b: deepseek_yarn, which SarvamMLAConfig of transformers 5.24 renames."""
    scaling = {"type": "deepseek_yarn", "factor": 32, "original_max_position_embeddings": 4096}
    config = {"max_position_embeddings": 131072, "rope_theta": 10000, "rope_scaling": scaling}
    found = resolve({**config, "model_type": "sarvam_mla", "head_dim": 576})
    assert (found.layer().scheme, found.warnings[1:]) == ("rope-yarn", ())
    with pytest.raises(InvalidInput, match="deepseek_yarn"):
        resolve({**config, "model_type": "deepseek_v3"})
