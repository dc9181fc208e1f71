"""Configs of diffusers, against what its classes make of them."""

import json
import re

import numpy as np
import pytest

from posenc_cli.configs.conclusions import ConclusionCode, conclusions
from posenc_cli.configs.config import resolve
from posenc_cli.configs.diffusion import BLOCKS, BLOCKS_OF, FAMILIES, UNREAD
from posenc_cli.errors import InvalidInput
from tests.gguf_files import GOLDEN
from tests.matrices import matrix

DOCUMENT = json.loads((GOLDEN / "config_diffusers.json").read_text("utf-8"))
ARRAYS = np.load(GOLDEN / "config_diffusers.npz")
TOLERANCE = DOCUMENT["tolerance"]["atol"]


def cases(*kinds: str):
    return [
        pytest.param(case, id=case["name"]) for case in DOCUMENT["cases"] if case["kind"] in kinds
    ]


@pytest.mark.long
@pytest.mark.parametrize("case", cases("timestep", "sizes"))
def test_timesteps_are_those_of_the_class(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    steps = ",".join(map(str, ARRAYS["positions_steps"].tolist()))
    found = matrix(layers.scheme, steps, **layers.values())
    atol = case.get("atol", TOLERANCE)
    np.testing.assert_allclose(found, ARRAYS[case["array"]], atol=atol)


@pytest.mark.long
@pytest.mark.parametrize("case", cases("rope"))
def test_patches_turn_as_they_do_in_the_class(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    positions = f"0:{layers.derived['context'].value}:{case['every']}"
    for table, expected in zip(("cos-full", "sin-full"), ARRAYS[case["array"]], strict=True):
        found = matrix(layers.scheme, positions, table=table, **layers.values())
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)


@pytest.mark.parametrize("case", cases("sound"))
def test_sound_turns_as_it_does_in_the_class(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    assert layers.values()["layout"] == "half"
    positions = f"0:1024:{case['every']}"
    for table, expected in zip(("cos-full", "sin-full"), ARRAYS[case["array"]], strict=True):
        found = matrix(layers.scheme, positions, table=table, **layers.values())
        turned = found.shape[1]
        np.testing.assert_allclose(found, expected[:, :turned], atol=TOLERANCE)
        assert set(expected[:, turned:].ravel()) <= {float(table == "cos-full")}


@pytest.mark.parametrize("case", cases("rows"))
def test_patches_have_the_sines_of_the_class(case):
    layers = resolve(case["config"]).layer(case["layer_type"])
    positions = f"0:{layers.derived['context'].value}:{case['every']}"
    found = matrix(layers.scheme, positions, **layers.values())
    np.testing.assert_allclose(found, ARRAYS[case["array"]], atol=TOLERANCE)


@pytest.mark.parametrize("case", cases("timestep"))
def test_no_key_that_speaks_of_positions_is_left_unread(case):
    assert resolve(case["config"]).unread == ()


def test_every_class_has_a_case():
    assert {case["config"]["_class_name"] for case in DOCUMENT["cases"]} == FAMILIES.keys()


def test_every_class_of_diffusers_is_read_or_refused_with_its_reason():
    assert len(DOCUMENT["classes"]) == 143
    assert {*FAMILIES, *UNREAD, BLOCKS} == {*DOCUMENT["classes"]}
    assert not {*FAMILIES} & {*UNREAD}
    for name, reason in UNREAD.items():
        with pytest.raises(InvalidInput, match=re.escape(f"class {name}: {reason}")):
            resolve({"_class_name": name, "norm_type": "ada_norm"})


@pytest.mark.parametrize(("norm", "name"), BLOCKS_OF.items())
def test_an_older_config_of_blocks_is_what_its_norms_say(norm, name):
    sizes = {"num_attention_heads": 16, "attention_head_dim": 72, "sample_size": 64}
    older = resolve({"_class_name": "Transformer2DModel", "norm_type": norm, **sizes})
    newer = resolve({"_class_name": name, **sizes})
    assert [layers.values() for layers in older.layers] == [
        layers.values() for layers in newer.layers
    ]


def test_blocks_of_a_unet_are_refused():
    for norm in ({}, {"norm_type": "layer_norm"}):
        with pytest.raises(InvalidInput, match="only if norm_type is ada_norm_zero"):
            resolve({"_class_name": "Transformer2DModel", **norm})


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"UNet1DModel"}))
def test_a_class_alone_takes_its_defaults(name):
    resolved = resolve({"_class_name": name})
    assert resolved.model_type == name
    assert resolved.defaulted
    assert not resolved.unread


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"_class_name": "FluxPipeline"}, "reads no configs of diffusers' class FluxPipeline"),
        (
            {"_class_name": "Flux2Transformer2DModel"},
            "Flux2Transformer2DModel: its sizes are not in the config",
        ),
        ({"_class_name": "UNet1DModel"}, "default of UNet1DModel fourier: its timesteps"),
        ({"_class_name": None}, "reads no configs of diffusers' class null"),
        ({"_class_name": "UNet2DModel", "block_out_channels": []}, "must have a number for each"),
        (
            {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 54]},
            "must be three even numbers that add up to 128, default of Flux",
        ),
        ({"_class_name": "WanTransformer3DModel", "patch_size": [1, 2]}, "must be frames, rows"),
        ({"_class_name": "SD3Transformer2DModel", "sample_size": 1}, "no room for a patch of 2"),
        (
            {"_class_name": "PixArtTransformer2DModel", "interpolation_scale": 1.5},
            "interpolation_scale 1.5: spreads 64 patches over a fractional number",
        ),
        (
            {
                "_class_name": "CogVideoXTransformer3DModel",
                "use_rotary_positional_embeddings": True,
                "sample_width": 1,
            },
            "have no room for a patch of 2",
        ),
        (
            {"_class_name": "CogVideoXTransformer3DModel", "freq_shift": -1},
            "freq_shift -1: must be at least 0",
        ),
    ],
)
def test_what_no_class_takes_is_refused(config, message):
    with pytest.raises(InvalidInput, match=message):
        resolve(config)


def test_what_is_left_out_or_stands_for_a_size_is_said():
    def warnings(**config):
        return " ".join(resolve(config).warnings)

    assert "sines of frame, row and column" in warnings(_class_name="CogVideoXTransformer3DModel")
    table = {"use_learned_positional_embeddings": True, "use_rotary_positional_embeddings": True}
    both = warnings(_class_name="CogVideoXTransformer3DModel", **table)
    assert "use_learned_positional_embeddings: a learned table of the patches is added" in both
    assert "81 frames of 480 x 832 pixels" in warnings(_class_name="WanTransformer3DModel")
    assert "rope_max_seq_len 16: no axis" in warnings(
        _class_name="WanTransformer3DModel", rope_max_seq_len=16
    )
    assert "64 x 64" in warnings(_class_name="SD3Transformer2DModel")
    assert "nothing read rope_extra" in warnings(_class_name="UNet2DModel", rope_extra=1)


def test_a_size_that_the_pipeline_makes_is_not_said_to_be_stated():
    found = next(conclusions(resolve({"_class_name": "FluxTransformer2DModel"}), {}))
    text = (
        "context: 4096 positions, the default of its pipeline: 1024 x 1024 pixels; the config has "
        "none"
    )
    assert (found.code, found.text, found.doubtful) == (ConclusionCode.CONTEXT, text, True)


def test_timesteps_without_layers_are_not_said_to_be_of_every_layer(call, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "UNet2DConditionModel"}))
    out = call("explain", "config.json")[1]
    assert "\ntimesteps: timestep\n" in out
    assert "every layer" not in out


def test_a_class_that_is_unknown_is_given_no_other_by_its_spelling():
    with pytest.raises(InvalidInput, match="class FooModel") as refused:
        resolve({"_class_name": "FooModel"})
    assert refused.value.hint is None
    with pytest.raises(InvalidInput, match="class FooPipeline") as refused:
        resolve({"_class_name": "FooPipeline"})
    assert refused.value.hint == "use the config in the folder of its unet or transformer"


def test_no_other_engine_reads_them():
    with pytest.raises(InvalidInput, match="--as vllm: config.json is a diffusers config"):
        resolve({"_class_name": "UNet2DModel"}, runtime="vllm")


def test_a_model_type_goes_before_a_class():
    config = {"_class_name": "FluxTransformer2DModel", "model_type": "llama"}
    assert resolve(config).model_type == "llama"
    # Wan-AI/Wan2.1-T2V-14B, whose model_type is none of transformers
    wan = {"_class_name": "WanModel", "_diffusers_version": "0.30.0", "model_type": "t2v"}
    with pytest.raises(InvalidInput, match="reads no configs of diffusers' class WanModel"):
        resolve(wan)


@pytest.mark.parametrize(("added", "layers"), [("text_time", 2), ("text", 1), ("video", 1)])
def test_sizes_are_embedded_where_timesteps_and_text_are_added_alone(added, layers):
    config = {"_class_name": "UNet2DConditionModel", "block_out_channels": [32, 64]}
    config |= {"addition_embed_type": added, "addition_time_embed_dim": 12}
    assert len(resolve(config).layers) == layers
