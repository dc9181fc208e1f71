"""What makes engines run a model with another rope than its file has."""

import json
import shlex

import pytest

from posenc_cli.analysis.planning import cosine_sums
from posenc_cli.analysis.planning.planner import plan_length
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve


@pytest.fixture(autouse=True)
def few_bases(monkeypatch):
    monkeypatch.setattr(cosine_sums, "_DENSEST", 1)
    monkeypatch.setattr(cosine_sums, "_SPARSEST", 1)


def flags(model, to, recipe, **changes):
    config = {**library.find(model).config, **changes}
    found, _ = plan_length(config, to, name=model)
    own = next(each for each in found.recipes if each.name == recipe)
    return {setting.engine: setting for setting in own.engines}


@pytest.mark.long
def test_yarn_of_a_plain_model_has_flags_for_every_engine():
    found = flags("llama-2-7b", 16384, "yarn")
    assert found["llama.cpp"].flags == (
        "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 4096 --ctx-size 16384"
    )
    for engine, setting, length in (
        ("vllm", "--hf-overrides", "--max-model-len"),
        ("sglang", "--json-model-override-args", "--context-length"),
    ):
        words = shlex.split(found[engine].flags)
        assert (words[0], words[2:]) == (setting, [length, "16384"])
        assert json.loads(words[1])["rope_parameters"] == {
            "rope_theta": 10000.0,
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 4096,
        }


def test_the_flags_that_vllm_documents_are_those_for_qwen_3():
    # docs.vllm.ai, features/context_extension: --hf-overrides '{"rope_parameters": {"factor": 4.0,
    # "original_max_position_embeddings": 32768, "rope_theta": 1000000, "rope_type": "yarn"}}'
    found = flags("qwen3-8b", 131072, "yarn", max_position_embeddings=32768)
    words = shlex.split(found["vllm"].flags)
    assert json.loads(words[1])["rope_parameters"] == {
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "rope_theta": 1000000,
        "rope_type": "yarn",
    }
    assert words[2:] == ["--max-model-len", "131072"]


@pytest.mark.long
def test_a_base_is_a_flag_of_llama_cpp_and_a_scaling_that_goes_is_turned_off():
    assert flags("llama-2-7b", 8192, "ntk")["llama.cpp"].flags.startswith("--rope-freq-base 2022")
    found = flags("qwen2.5-7b-yarn", 262144, "ntk")["llama.cpp"].flags
    assert found.startswith("--rope-scaling none --rope-freq-base ")


@pytest.mark.long
def test_what_an_engine_reads_otherwise_has_no_flags_and_a_reason():
    dynamic = flags("llama-2-7b", 16384, "dynamic")
    assert all(setting.flags is None and setting.remark for setting in dynamic.values())
    llama3 = flags("llama-2-7b", 16384, "llama3")
    assert "convert" in llama3["llama.cpp"].remark
    assert llama3["vllm"].flags is not None
    assert "divisors" in flags("llama-3.1-8b", 262144, "yarn")["llama.cpp"].remark
    assert "ignores scaling" in flags("mixtral-8x7b", 65536, "yarn")["sglang"].remark
    # sglang 0.5.23 hands truncate on.
    assert '"truncate": false' in flags("gpt-oss-20b", 262144, "yarn")["sglang"].flags


def test_an_engine_that_was_not_read_is_said_to_be_so():
    assert "was not checked" in flags("falcon-7b", 4096, "linear")["sglang"].remark


@pytest.mark.long
def test_layer_types_are_each_set_where_one_has_another_base():
    words = shlex.split(flags("gemma-3-1b", 262144, "linear")["vllm"].flags)
    rope = json.loads(words[1])["rope_parameters"]
    assert rope["sliding_attention"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert rope["full_attention"]["factor"] == 2.0


def test_llama_cpp_is_given_flags_for_what_its_converter_leaves_out():
    found = flags("phi-2", 4096, "linear")["llama.cpp"]
    assert found.flags == "--rope-scaling linear --rope-scale 2 --ctx-size 4096"
    assert "its converter does not write this" in found.remark


def test_llama_cpp_is_given_no_flags_where_its_converter_loses_the_base():
    found = flags("phi-2", 4096, "linear", rope_theta=50_000.0)["llama.cpp"]
    assert found.flags is None
    assert "uses base 10000 and no scaling" in found.remark


def test_a_rule_that_an_engine_was_not_read_for_is_named_as_explain_names_it():
    """vLLM's Qwen2-VL was read, its YaRN was not: explain and plan must not disagree."""
    assert resolve(library.find("qwen2-vl-7b").config, runtime="vllm").layer().scheme == "mrope"
    found = flags("qwen2-vl-7b", 131072, "yarn")["vllm"]
    assert found.remark == (
        "its code was not checked for the encoding of qwen2_vl_text (rope-yarn)"
    )


def test_an_engine_that_refuses_the_config_as_it_is_gets_no_flags():
    """llama.cpp's Gemma 3 slides in five of six layers, whatever the config says."""
    found = flags("gemma-3-1b", 262144, "ntk", layer_types=["full_attention"] * 26)
    assert (found["llama.cpp"].flags, found["llama.cpp"].remark) == (
        None,
        "its graph uses full attention in every sixth layer, regardless of layer_types",
    )
