"""Every parameter with a role is given it, and a function that ignores one is found."""

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.calls.roles import BYSTANDERS, CALL_ROLES, ROLES, roles_of
from tests.calls import supplied, told

TOLD = Path(told.__file__)
HALF = ("rope-check", "-s", "rope", "-d", "16", "--len", "4096", "--json")
WRONG = {
    "base_ignored": ("base", "base is ignored"),
    "BaseIgnored": ("base", "base is ignored"),
    "style_ignored": ("layout", "interleaved is ignored"),
    "frequencies_ignored": ("base", "inv_freq is ignored"),
    "tables_ignored": ("position-offset", "rows get the rotation of other positions"),
    "offset_ignored": ("position-offset", "positions restart at 0 in "),
    "offset_of_numbers": ("position-offset", "position"),
    "positions_ignored": ("position-offset", "positions are ignored: rows are numbered from 0"),
    "length_ignored": ("position-offset", "999"),
    "format_ignored": ("table-precision", "dtype is ignored: results are float16, not float32"),
    "values_turned": ("unknown", "v is changed"),
    "third_turned": ("unknown", "v is changed"),
    "keys_left": ("no-rotation", "k: nothing rotates"),
    "optional_v_turned": ("unknown", "v is changed"),
    "clamped_offset": ("position-offset", ""),
    "many_heads_in_long_calls": ("unknown", "q: "),
    "added_to_vectors": ("unknown", ""),
    "keys_left_in_packed_rows": ("no-rotation", "k: nothing rotates"),
    "offset_ignored_by_packed_heads": ("position-offset", "positions restart at 0 in "),
    "third_heads_left": ("no-rotation", "heads 3, 6, 9, 12 are returned unrotated"),
    "offset_ignored_by_stacked_heads": ("position-offset", "positions restart at 0 in "),
    "KeepsTheFirstCall": ("position-offset", ""),
    "FactorReturned": ("attention-factor", "1.25"),
    "base_off_by_one": ("position-offset", "shifted by +1"),
}


OF_BASES = ("by_base", "BaseOfAClass", "by_frequencies", "by_tables", "by_format")
RIGHT = (
    *("by_style", "by_offset", "by_positions", "by_length", "by_layer", "by_mask", "by_cache"),
    *("by_qkv", "by_three", "both_by_base", "halves_come_out", "base_is_a_position"),
    *("adds_an_axis", "OfVllm", "OfAnIntegerBase", "with_a_cache", "with_a_scale"),
    *("by_added_mask", "by_packed_rows", "out_of_packed_rows", "by_stacked_heads", "OfFairseq"),
    *("by_packed_heads", "by_three_in_each_head"),
    *("OfXTransformers", "base_places_rows", "base_of_rates"),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "base"),
    [(name, 1e4) for name in RIGHT] + [(name, 5e5) for name in OF_BASES],
)
def test_a_right_function_is_told_of_its_roles_and_passes(name, base):
    function = getattr(told, name)
    assert posenc.rope_check(
        "rope", impl=function, positions=4096, dim=16, layout="half", base=base
    ).ok


@pytest.mark.long
@pytest.mark.parametrize("side", ["query", "key"])
def test_amplitudes_that_follow_the_length_of_a_call_are_those_of_whole_calls(side, call):
    asked = ("rope-check", "-s", "xpos", "-d", "16", "--set", f"side={side}", "--len", "257")
    status, out, err = call(*asked, "--impl", f"{TOLD}:OfTorchscale")
    assert (status, err) == (0, ""), out
    assert call(*asked, "--impl", f"{TOLD}:GrowsAlways")[0] == int(side == "key")


@pytest.mark.long
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_layout_that_a_function_is_told_is_the_references(layout, call):
    asked = (*HALF, "--layout", layout, "--impl", f"{TOLD}:by_style")
    document = json.loads(call(*asked)[1])
    assert document["ok"]
    assert "another layout" in "".join(document["subject"]["call"]["patterns"])


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_a_function_that_ignores_what_it_is_told_fails(name):
    function = getattr(told, name)
    found = posenc.rope_check("rope", impl=function, positions=4096, dim=16, layout="half")
    assert not found.ok
    why, (cause, words) = found.diagnosis[0], WRONG[name]
    assert (why.cause, words in why.message) == (cause, True), why


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("by_axes", "by_default_sections", "axes_swapped", "sections_ignored", "fixed_sections"),
        *("by_chosen_axes", "chosen_axes_swapped"),
    ],
)
def test_tables_of_every_axis_are_given_with_the_sections(name, call, tmp_path):
    asked = ("rope-check", "-s", "mrope", "-d", "16", "--set", "sections=2,3,3", "--layout", "half")
    grid = np.arange(64)
    axes = tmp_path / "axes.npy"
    np.save(axes, np.stack([grid, grid // 8, grid % 8]))
    own = (*asked, "--set", f"axes={axes}", "--len", "64", "--impl", f"{TOLD}:{name}", "--json")
    status, out, err = call(*own)
    assert (status, err) == (int(not name.startswith("by_")), ""), out
    assert [why["cause"] for why in json.loads(out)["diagnosis"]] == ["axis"] * status


def test_no_parameter_has_two_first_roles():
    names = [name for role in ROLES for name in role.names]
    assert sorted(names) == sorted({*names})


def test_roles_are_one_table():
    assert {role.name for role in ROLES} == {*CALL_ROLES} | BYSTANDERS
    assert roles_of("Position_IDs_") == ("positions",)
    assert roles_of("pos") == ("positions", "offset")
    assert roles_of("freqs_cis") == ("freqs_cis", "cos_sin")
    assert roles_of("position_embeddings") == ("cos_sin", "freqs_cis")
    assert roles_of("unheard_of") == ()


@pytest.mark.parametrize(
    ("annotation", "role"),
    [
        *(("PretrainedConfig", "config"), ("transformers.LlamaConfig | None", "config")),
        *(("torch.dtype", "dtype"), ("typing.Optional[torch.device]", "device")),
        *(("DynamicCache", "cache"), ("jnp.ndarray", None), ("", None)),
        *(("numpy.ndarray[typing.Any, numpy.dtype[numpy.float32]]", None), ("list[Cache]", None)),
    ],
)
def test_a_type_tells_the_role_of_a_parameter_whose_name_does_not(annotation, role):
    assert roles_of("unheard_of", annotation) == ((role,) if role else ())
    assert roles_of("position_ids", annotation) == ("positions",)


@pytest.mark.long
@pytest.mark.parametrize("layer_type", ["full_attention", "sliding_attention"])
@pytest.mark.parametrize("name", ["by_layer_type", "by_layer_type_or_none"])
def test_a_function_is_told_which_layers_the_reference_is_of(name, layer_type, call):
    """As Gemma 3's and Olmo 3's classes are, from transformers 5 on."""
    asked = ("rope-check", "-m", "gemma-3-1b", "--layer-type", layer_type, "--len", "64", "--json")
    status, out, err = call(*asked, "--impl", f"{TOLD}:{name}")
    assert (status, err) == (0, "")
    assert "layer_type that of the chosen layers" in json.loads(out)["subject"]["call"]["text"]
    status, out, _ = call(*asked, "--impl", f"{TOLD}:layer_type_ignored")
    (cause,) = json.loads(out)["diagnosis"] or ({"cause": None},)
    wrong = layer_type == "sliding_attention"
    assert (status, cause["cause"]) == ((1, "base") if wrong else (0, None))
    of_no_layers = ("rope-check", "-s", "rope", "-d", "256", "--impl", f"{TOLD}:by_layer_type")
    assert call(*of_no_layers)[0] == 2


@pytest.mark.long
def test_a_class_with_one_length_may_take_the_original_context(call):
    """vLLM's YaRN does, under the name max_position_embeddings."""
    yarn = ("--set", "factor=4", "--set", "original_max_position_embeddings=128", "--json")
    asked = ("rope-check", "-s", "rope-yarn", "-d", "32", "--layout", "half", "-l", "512", *yarn)
    status, out, err = call(*asked, "--impl", f"{TOLD}:YarnOfVllm")
    assert (status, err) == (0, "")
    assert "max_position_embeddings=128" in json.loads(out)["subject"]["call"]["text"]
    status, out, _ = call(*asked, "--impl", f"{TOLD}:YarnOfHalfTheContext")
    assert status == 1
    assert "max_position_embeddings=512" in json.loads(out)["subject"]["call"]["text"]


NAMED = """
import numpy as np

def angles(positions, dim, base):
    return np.multiply.outer(positions, base ** (-np.arange(0, dim, 2) / dim))

def build_rope_cache(seq_len, n_elem, base=10000, condense_ratio=1):
    both = np.tile(angles(np.arange(seq_len) / condense_ratio, n_elem, base), 2)
    return np.cos(both), np.sin(both)

def ggml_rope(x, pos, n_dims, freq_base, freq_scale):
    a = angles(freq_scale * np.asarray(pos), n_dims, freq_base)
    first, second = np.split(x, 2, -1)
    y = np.concatenate([first * np.cos(a) - second * np.sin(a),
                        first * np.sin(a) + second * np.cos(a)], -1)
    return y.astype(x.dtype)

class SuScaledRoPE:
    def __init__(self, dims, base=1e4, original_max_position_embeddings=4096,
                 short_factor=1, long_factor=1.0):
        self.rates = base ** (-np.arange(0, dims, 2) / dims)
        self.of, self.original = (short_factor, long_factor), original_max_position_embeddings
    def __call__(self, position_ids):
        longer = int(np.max(position_ids) >= self.original)
        both = np.tile(np.multiply.outer(position_ids, self.rates / self.of[longer]), 2)
        return np.cos(both), np.sin(both)

def alibi(num_heads, sequence_length):
    most = 2 ** int(np.ceil(np.log2(num_heads)))
    slopes = 2.0 ** (-8 / most * np.arange(1, most + 1))
    if most != num_heads:
        slopes = np.concatenate([slopes[1::2], slopes[::2]])[:num_heads]
    return slopes[:, None, None] * np.arange(1 - sequence_length, 1)


def llama3(dim, base=10000.0, scale_factor=8, low_freq_factor=1, high_freq_factor=4,
           old_context_len=8192):
    rates = base ** -(np.arange(0, dim, 2) / dim)
    turns = rates * old_context_len / (2 * np.pi)
    share = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return share * rates + (1 - share) * rates / scale_factor


def llama3_ignores(dim, base=10000.0, scale_factor=8, low_freq_factor=1, high_freq_factor=4,
                   old_context_len=8192):
    return llama3(dim, base, scale_factor, 1, high_freq_factor, old_context_len)


def linear(dim, base=10000.0, factor=1.0, original_max_position_embeddings=4096):
    assert original_max_position_embeddings == 4096
    return base ** -(np.arange(0, dim, 2) / dim) / factor


def divided(a, b, *, c=1.0):
    return ggml_rope(a, b, a.shape[-1], 1e4, 1 / c)


class MaxText:
    def __init__(self, min_timescale, max_timescale, embedding_dims=0):
        self.low, self.high, self.dims = min_timescale, max_timescale, embedding_dims
    def __call__(self, inputs, position):
        share = 2 * np.arange(self.dims // 2) / self.dims
        a = np.asarray(position)[..., None, None] / (self.low * (self.high / self.low) ** share)
        first, second = np.split(inputs, 2, -1)
        y = np.concatenate([first * np.cos(a) - second * np.sin(a),
                            first * np.sin(a) + second * np.cos(a)], -1)
        return y.astype(inputs.dtype)


def megatron(t, freqs, rotary_interleaved=False):
    parts = (t[..., ::2], t[..., 1::2]) if rotary_interleaved else np.split(t, 2, -1)
    if rotary_interleaved:
        rotated = np.stack([-parts[1], parts[0]], -1).reshape(t.shape)
    else:
        rotated = np.concatenate([-parts[1], parts[0]], -1)
    return (t * np.cos(freqs) + rotated * np.sin(freqs)).astype(t.dtype)


def megatron_ignores(t, freqs, rotary_interleaved=False):
    return megatron(t, freqs)
"""
LONG = "--set short_factor=1,2 --set long_factor=2,8"
LINEAR = "rope-check -s rope-linear -d 16 --layout half --set factor=4"
SHIFTED = "--set low_freq_factor=2 --set original_max_position_embeddings=4096"


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (LINEAR, "build_rope_cache"),
        (LINEAR, "ggml_rope"),
        ("rope-check -s rope -d 16 --layout half", "ggml_rope"),
        (f"rope-check -s rope-longrope -d 4 --layout half {LONG}", "SuScaledRoPE"),
        (f"rope-check -s rope-llama3 -d 64 --set factor=32 {SHIFTED}", "llama3"),
        (f"{LINEAR} --call x,positions,factor", "divided"),
        (LINEAR, "linear"),
        ("rope-check -s rope -d 16 --layout half", "megatron"),
        ("rope-check -s rope -d 16 --layout half", "MaxText"),
        ("check -s alibi --heads 8 --set form=mpt", "alibi"),
    ],
)
def test_libraries_names_of_settings_are_given_the_references(asked, name, call, tmp_path):
    """Those of litgpt, mlx-lm, torchtune, MaxText and others, even if they have a default."""
    (tmp_path / "named.py").write_text(NAMED)
    status, out, err = call(*asked.split(), "-l", "64", "--impl", f"./named.py:{name}")
    assert (status, err) == (0, ""), out


@pytest.mark.long
def test_a_factor_that_a_function_ignores_is_a_fault():
    def rotate(x, positions, scaling_factor=4.0):
        return supplied.rotated(x, supplied.beside_heads(x, positions) / 4.0)

    given = {"dim": 32, "layout": "half", "factor": 4.0}
    found = posenc.rope_check("rope-linear", impl=rotate, positions=64, **given)
    assert [why.message for why in found.diagnosis] == ["scaling_factor is ignored"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "name", "cause"),
    [
        ("-s rope -d 16", "megatron_ignores", "layout: rotary_interleaved is ignored"),
        ("-s rope-llama3 -d 64", "llama3_ignores", "frequency-rule: low_freq_factor is ignored"),
    ],
)
def test_settings_that_a_function_ignores_are_named(asked, name, cause, call, tmp_path):
    """Angles follow the layout, side by side for interleaved pairs, as Megatron's do."""
    (tmp_path / "named.py").write_text(NAMED)
    asked = f"rope-check {asked} --layout half -l 64 --impl ./named.py:{name}"
    status, out, _ = call(*asked.split())
    assert status == 1, out
    assert cause in out


@pytest.mark.long
def test_deberta_calls_distances_relative_pos():
    assert roles_of("relative_pos") == ("positions",)
