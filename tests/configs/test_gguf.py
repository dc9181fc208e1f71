"""What llama.cpp makes of a GGUF file, value by value."""

import contextlib
import io
import json
import math

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs.config import override, resolve
from posenc_cli.configs.gguf.gguf_architectures import (
    ARCHITECTURES,
    FACTOR_TENSORS,
    SPECIAL,
)
from posenc_cli.configs.gguf.gguf_file import read_gguf_model
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import read_gguf
from tests.gguf_files import CASES, GOLDEN, converted, gguf_bytes, llama

FREQS, LONG, SHORT = FACTOR_TENSORS


def read(metadata, tensors=(), **how):
    data = metadata if isinstance(metadata, bytes) else gguf_bytes(metadata, tensors, **how)
    return resolve(
        read_gguf(io.BytesIO(data), name="'m.gguf'", size=len(data), asked=FACTOR_TENSORS)
    )


def of_case(name):
    return read(converted(name)[1])


def sources(layers):
    return {name: param.source for name, param in layers.params.items()}


def absent(key):
    return f"DEFAULT: key absent ({key})"


def of(architecture, **more):
    """A small model of an architecture."""
    keys = llama(**more)
    own = {key.replace("llama.", f"{architecture}.", 1): value for key, value in keys.items()}
    return own | {"general.architecture": ("string", architecture)}


YARN = {"rope__scaling__type": ("string", "yarn"), "rope__scaling__factor": ("float32", 4.0)}
YARN_OF_1024 = {**YARN, "rope__scaling__original_context_length": ("uint32", 1024)}


def test_each_value_comes_with_its_key():
    resolved = of_case("llama-3.1-8b")
    layers = resolved.layer()
    assert resolved.model_type == "llama"
    assert layers.scheme == "rope-llama3"
    assert layers.values() == {
        "dim": 128,
        "base": 500000.0,
        "layout": "interleaved",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    assert sources(layers)["base"] == "llama.rope.freq_base"
    assert sources(layers)["dim"] == "llama.attention.key_length"
    assert sources(layers)["factor"] == "derived: rope_freqs.weight"
    assert layers.derived["context"].source == "llama.context_length"
    assert layers.derived["permuted"].value is True
    assert (resolved.defaulted, resolved.unread, resolved.warnings) == ((), (), ())


def test_an_absent_key_is_told_as_the_default_it_is():
    resolved = read(llama(rope__freq_base=None, rope__dimension_count=None))
    layers = resolved.layer()
    assert layers.params["base"].value == 10000.0
    assert layers.params["base"].source == absent("llama.rope.freq_base")
    assert layers.params["dim"].value == 16
    assert layers.params["dim"].source.startswith(absent("llama.attention.key_length"))
    assert resolved.defaulted == ("llama.rope.freq_base",)
    assert "llama.rope.freq_base is missing: llama.cpp uses 10000" in resolved.warnings


def test_a_factor_alone_stretches_linearly_and_the_old_key_says_the_same():
    for key in ("rope__scaling__factor", "rope__scale_linear"):
        layers = read(llama(**{key: ("float32", 4.0)})).layer()
        assert (layers.scheme, layers.values()["factor"]) == ("rope-linear", 4.0)
        assert layers.params["factor"].source == f"llama.{key.replace('__', '.')}"
    both = llama(rope__scaling__factor=("float32", 2.0), rope__scale_linear=("float32", 4.0))
    resolved = read(both)
    assert resolved.layer().values()["factor"] == 2.0
    assert resolved.unread == ("llama.rope.scale_linear",)


@pytest.mark.parametrize("kind", ["none", "linear", "yarn"])
def test_a_factor_of_0_or_1_or_none_stretches_nothing(kind):
    for value in (None, 0.0, 1.0):
        more = {"rope__scaling__type": ("string", kind)}
        if value is not None:
            more["rope__scaling__factor"] = ("float32", value)
        assert read(llama(**more)).layer().scheme == "rope"
    for key in ("rope.scaling.factor", "rope.scale_linear"):
        zero = read(llama(**{key.replace(".", "__"): ("float32", 0.0)})).layer()
        factor = zero.derived["scaling_factor"]
        assert (factor.value, factor.source) == (1.0, f"DEFAULT: key is 0 (llama.{key})")
    none = llama(rope__scaling__type=("string", "none"), rope__scaling__factor=("float32", 8.0))
    assert read(none).layer().scheme == "rope"


def test_yarn_without_its_original_length_takes_the_context_and_says_so():
    resolved = read(llama(**YARN))
    original = resolved.layer().params["original_max_position_embeddings"]
    assert original.value == 4096
    assert original.source.startswith(absent("llama.rope.scaling.original_context_length"))
    assert "llama.rope.scaling.original_context_length" in resolved.defaulted
    zero = read(llama(**YARN, rope__scaling__original_context_length=("uint32", 0)))
    original = zero.layer().params["original_max_position_embeddings"]
    assert any(
        "original_context_length states no length: llama.cpp takes" in text
        for text in zero.warnings
    )
    assert original.value == 4096
    assert original.source.startswith(
        "DEFAULT: key is 0 (llama.rope.scaling.original_context_length)"
    )
    layers = read(llama(**YARN_OF_1024)).layer()
    assert layers.values()["original_max_position_embeddings"] == 1024
    assert "attention_factor" not in layers.params
    assert layers.derived["attention_factor"].value == pytest.approx(0.1 * math.log(4) + 1)
    amplified = read(llama(**YARN_OF_1024, rope__scaling__attn_factor=("float32", 0.5))).layer()
    assert amplified.values()["attention_factor"] == pytest.approx(0.5 * (0.1 * math.log(4) + 1))


@pytest.mark.parametrize(("times", "told"), [(0.1 * math.log(4) + 1, 1), (0.5, 0)])
def test_an_attention_factor_that_llama_cpp_multiplies_by_twice_is_told(times, told):
    """Olmo2Model of llama.cpp's conversion/olmo.py at 7bca1fd9 wrote YaRN's own; master does not.

    The constructor of src/llama-context.cpp multiplies by it, and rope_yarn by its own.
    """
    resolved = read(llama(**YARN_OF_1024, rope__scaling__attn_factor=("float32", times)))
    factor = resolved.layer().values()["attention_factor"]
    assert factor == pytest.approx(times * (0.1 * math.log(4) + 1))
    again = [text for text in resolved.warnings if "multiplies by again" in text]
    assert len(again) == told
    assert all(text.startswith("llama.rope.scaling.attn_factor is YaRN's own") for text in again)


def test_yarns_own_keys_are_read_where_llama_cpp_reads_them_alone():
    yarn = {
        **YARN_OF_1024,
        "rope__scaling__yarn_beta_fast": ("float32", 64.0),
        "rope__scaling__yarn_attn_factor": ("float32", 2.0),
    }
    resolved = read(llama(**yarn))
    assert "beta_fast" not in resolved.layer().params
    assert set(resolved.unread) == {
        "llama.rope.scaling.yarn_beta_fast",
        "llama.rope.scaling.yarn_attn_factor",
    }
    assert read(of("mistral3", **yarn)).layer().values()["beta_fast"] == 64.0
    usual = {**yarn, "rope__scaling__yarn_beta_fast": ("float32", 32.0)}
    usual["rope__scaling__yarn_attn_factor"] = ("float32", 0.1 * math.log(4) + 1)
    assert read(llama(**usual)).unread == ()


def test_deepseeks_log_multiplier_cancels_in_the_rotation_and_stays_in_the_softmax():
    layers = of_case("deepseek-v3").layer()
    assert layers.values()["attention_factor"] == 1.0
    assert layers.derived["softmax_multiplier"].value == pytest.approx(1.8738542070926265)
    assert (layers.values()["dim"], layers.derived["beside_slice"].value) == (64, 128)


def test_long_and_short_factors_are_those_of_the_tensors():
    layers = of_case("phi-3-vision-128k").layer()
    assert layers.scheme == "rope-longrope"
    assert layers.params["short_factor"].source == SHORT
    assert layers.params["long_factor"].source == LONG
    assert layers.params["attention_factor"].source == "phi3.rope.scaling.attn_factor"
    assert layers.values()["seq_len"] == 131072
    config = converted("phi-3-vision-128k")[0]
    assert layers.values()["long_factor"][:3] == pytest.approx(
        config["rope_scaling"]["long_factor"][:3], rel=1e-7
    )


def test_sliding_layers_have_a_base_of_their_own_or_a_default():
    data = converted("gemma-3-4b")[1]
    assert read(data).layer("sliding_attention").values()["base"] == 10000.0
    lost = read(data.replace(b"rope.freq_base_swa", b"rope.freq_base_swb"))
    base = lost.layer("sliding_attention").params["base"]
    assert base.source == absent("gemma3.rope.freq_base_swa")
    assert lost.unread == ("gemma3.rope.freq_base_swb",)


def test_a_base_that_sliding_layers_do_not_have_is_told():
    data = converted("olmo-3-7b")[1]
    at = data.index(b"olmo2.rope.freq_base_swa") + len("olmo2.rope.freq_base_swa") + 4
    resolved = read(data[:at] + np.float32(10_000).tobytes() + data[at + 4 :])
    assert resolved.layer("sliding_attention").values()["base"] == 500000.0
    assert "olmo2.rope.freq_base_swa" in resolved.contradicted
    assert any("olmo2.rope.freq_base_swa 10000 has no effect" in text for text in resolved.warnings)


def test_divisors_that_no_rule_gives_are_kept_as_they_are():
    divisors = [1.0, 2.0, 1.5, 7.0, 3.0, 1.0, 1.0, 9.0]
    layers = read(llama(), {FREQS: (divisors, 0)}).layer()
    assert layers.scheme == "rope-longrope"
    assert layers.values()["short_factor"] == layers.values()["long_factor"] == tuple(divisors)
    assert layers.derived["attention_factor"].value == 1.0


def test_pairs_divided_by_a_huge_number_stand_still():
    gemma = of(
        "gemma4",
        attention__sliding_window=("uint32", 512),
        attention__sliding_window_pattern=("array of bool", [True, False]),
        attention__key_length=("uint32", 16),
        attention__key_length_swa=("uint32", 8),
        rope__dimension_count_swa=("uint32", 8),
    )
    resolved = read(gemma, {FREQS: ([1.0] * 2 + [1e30] * 6, 0)})
    full, sliding = resolved.layer("full_attention"), resolved.layer("sliding_attention")
    assert (full.scheme, full.values()["partial"]) == ("rope-proportional", 0.25)
    assert (sliding.scheme, sliding.values()["dim"]) == ("rope", 8)


@pytest.mark.parametrize(
    ("more", "tensors", "message"),
    [
        ({"rope__freq_base": ("uint32", 10000)}, {}, "is of type uint32: llama.cpp takes float32"),
        ({"rope__freq_base": ("float32", math.nan)}, {}, "must be a finite number"),
        ({"rope__freq_base": ("float32", 1.0)}, {}, "must be above 1"),
        ({"context_length": None}, {}, "llama.context_length is missing"),
        ({"rope__dimension_count": ("uint32", 8)}, {}, "unless all 16 dimensions of a head rotate"),
        ({"rope__dimension_count": ("uint32", 15)}, {}, "must be even"),
        ({"rope__scaling__type": ("string", "ntk")}, {}, "llama.cpp knows none, linear, yarn"),
        ({"attention__head_count": ("uint32", 0)}, {}, "head_count 0: must be at least 1"),
        ({}, {FREQS: ([1.0] * 2 + [2.0] * 2 + [1e30] * 4, 0)}, "stops pairs other than"),
        ({}, {FREQS: ([1.0] * 7, 0)}, "has 7 numbers: 16 rotated dimensions make 8 pairs"),
        ({}, {FREQS: ([0.0] * 8, 0)}, "a number that is not above 0"),
        ({"block_count": ("uint32", 1 << 31)}, {}, "takes at most 512"),
    ],
)
def test_what_llama_cpp_does_not_load_is_refused_by_its_key(more, tensors, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        read(llama(**more), tensors)
    assert refused.value.message.startswith("'m.gguf': ")


def test_an_architecture_that_was_not_read_is_refused():
    with pytest.raises(
        InvalidInput, match="code was not checked for the architecture 'lama'"
    ) as refused:
        read({**llama(), "general.architecture": ("string", "lama")})
    assert refused.value.hint == "did you mean 'llama'?"


def test_a_tensor_that_llama_cpp_does_not_look_for_is_told_first():
    resolved = read(llama(), {LONG: ([1.0] * 8, 0), SHORT: ([1.0] * 8, 0)})
    assert LONG in resolved.headlines[0]
    assert {LONG, SHORT} <= set(resolved.contradicted)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("key", "stated"),
    [
        ("count", ("uint32", 1_000_000)),
        ("count", ("uint64", 2**64 - 1)),
        ("count", ("int32", -1)),
        ("count", ("string", "2")),
        ("no", ("uint64", 2**64 - 1)),
        ("no", ("uint16", 3)),
        ("no", ("int16", -1)),
    ],
)
def test_a_count_of_shards_that_no_model_has_is_refused(key, stated, stream):
    data = gguf_bytes(llama() | {"split.count": ("uint16", 3)} | {f"split.{key}": stated})
    size = None if stream else len(data)
    with pytest.raises(InvalidInput, match=f"^m.gguf: split.{key} .*: must be a whole number"):
        read_gguf_model(io.BytesIO(data), "m.gguf", size=size, name="m.gguf", ahead=b"")


def test_an_older_or_incomplete_file_is_told_as_such():
    resolved = read(llama(), {"token_embd.weight": ([1.0], 0)}, data=b"")
    assert "ends before 1 of its 1 tensors" in resolved.headlines[0]


@pytest.mark.long
def test_all_files_of_the_converter_are_read_but_those_that_lack_what_llama_cpp_needs():
    refused = {}
    for case in CASES:
        try:
            resolved = of_case(case["name"])
        except InvalidInput as error:
            refused[case["name"]] = error.message
            continue
        for group in resolved.layers:
            assert override(group, {}).values() == group.values()
    assert all("is missing" in message for message in refused.values())
    assert len(refused) < len(CASES) / 10


ROTATIONS = json.loads((GOLDEN / "gguf_rotations.json").read_text("utf-8"))


@pytest.mark.long
@pytest.mark.parametrize(
    "case", ROTATIONS["cases"], ids=lambda case: f"{case['name']}, {case['layers']}"
)
def test_pairs_turn_as_ggmls_own_functions_turn_them(case, golden):
    _, arrays = golden("gguf_rotations")
    slides = case["layers"] == "sliding"
    group = next(
        group
        for group in of_case(case["name"]).layers
        if group.scheme != "nope" and ("window" in group.derived) == slides
    )
    waves = catalogue.find(group.scheme).bind(group.values()).rotation.waves
    relative = ROTATIONS["tolerance"]["relative"]
    np.testing.assert_allclose(waves.frequencies(np), arrays[case["array"]], rtol=relative)
    assert float(waves.scale) == pytest.approx(case["attention_factor"], rel=1e-6)


def test_hunyuans_alpha_stretches_its_base():
    keys = of("hunyuan-dense", rope__scaling__alpha=("float32", 1000.0))
    assert read(keys).layer().values()["base"] == pytest.approx(10000 * 1000 ** (16 / 14))


def test_an_architecture_that_was_read_and_not_understood_is_refused_with_its_own_reason():
    for name in SPECIAL:
        with pytest.raises(InvalidInput) as refused:
            read({"general.architecture": ("string", name)})
        assert refused.value.message.startswith(f"'m.gguf': {name} ")


SLIDING = {
    "attention__sliding_window": ("uint32", 64),
    "attention__sliding_window_pattern": ("array of bool", [True, False]),
}


def test_layers_that_see_everything_turn_where_their_architecture_says():
    for leading, scheme in ((0, "nope"), (2, "rope")):
        dense = {"leading_dense_block_count": ("uint32", leading)}
        layers = read(of("cohere2moe", **SLIDING, **dense)).layers
        assert [group.scheme for group in layers] == ["rope", scheme]
    layers = read(of("kimi-k3", attention__head_count_kv=("array of int32", [0, 4]))).layers
    assert [(group.scheme, group.layers) for group in layers] == [("nope", (1,))]


def test_tensors_that_llama_cpp_loads_in_vain_divide_nothing():
    for name in ("llada", "falcon-h1", "cogvlm", "pangu-embedded"):
        resolved = read(of(name), {FREQS: ([2.0] * 8, 0)})
        assert resolved.layer().scheme == "rope", name
        assert f"by the tensor {FREQS}" in resolved.headlines[0]
        assert FREQS in resolved.contradicted


def test_a_graph_that_asks_for_its_own_base_turns_by_it():
    resolved = read(of("cogvlm", rope__freq_base=("float32", 5e5)))
    assert resolved.layer().values()["base"] == 10000.0
    assert resolved.contradicted == ("cogvlm.rope.freq_base",)
    resolved = read(of("deepseek2-ocr", rope__scaling__factor=("float32", 4.0)))
    assert resolved.layer().scheme == "rope"
    assert resolved.contradicted == ("deepseek2-ocr.rope.scaling.factor",)
    resolved = read(of("smallthinker", **SLIDING))
    assert resolved.layer("sliding_attention").derived["window"].value == 4096
    assert "has no effect: smallthinker has windows of 4096" in " ".join(resolved.warnings)


@pytest.mark.parametrize(
    ("name", "more", "amplitude", "mscale"),
    [
        ("deepseek2", YARN, True, 1.0),
        ("glm-dsa", YARN, True, 1.0),
        ("deepseek2", {"rope__scaling__factor": ("float32", 4.0)}, False, 1.0),
        (
            "mistral4",
            {**YARN, "rope__scaling__yarn_log_multiplier": ("float32", 0.05)},
            True,
            1 + 0.05 * math.log(4),
        ),
    ],
)
def test_latent_attention_is_scaled_without_the_log_multiplier_too(name, more, amplitude, mscale):
    """Source: attn_factor_org and mscale of src/models/deepseek2.cpp."""
    layers = read(of(name, rope__dimension_count=("uint32", 8), **more)).layer()
    grown = 1 + 0.1 * math.log(4)
    multiplied = (grown / mscale * mscale) ** 2
    assert layers.derived["softmax_multiplier"].value == pytest.approx(multiplied)
    assert layers.derived["beside_slice"].value == 8  # of heads of 16 columns
    turned = layers.derived.get("attention_factor")
    assert (turned is not None and turned.value != 1) == amplitude
    if amplitude:
        assert turned.value == pytest.approx(grown / mscale)


def test_axes_make_pairs_of_halves_of_what_are_neighbours_without():
    axes = {"rope__dimension_sections": ("array of int32", [2, 3, 3, 0])}
    turned = read(of("glm4", **axes)).layer()
    assert (turned.scheme, turned.values()["layout"]) == ("mrope", "half")
    assert "permuted" in turned.derived
    plain = read(of("glm4")).layer()
    assert (plain.scheme, plain.values()["layout"]) == ("rope", "interleaved")
    assert "permuted" not in plain.derived
    moe = read(of("glm4moe", **axes)).layer()
    assert (moe.values()["layout"], "permuted" in moe.derived) == ("half", False)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_more_heads_than_columns_are_refused_where_heads_share_them(name):
    few = {"embedding_length": ("uint32", 2), "rope__dimension_count": None, **SLIDING}
    with contextlib.suppress(InvalidInput):
        resolved = read(of(name, **few, leading_dense_block_count=("uint32", 1)))
        assert {layers.scheme for layers in resolved.layers} <= {"alibi", "nope", "learned", "t5"}
    if name in ("gemma2", "gemma3"):
        with pytest.raises(InvalidInput, match="must be even, from 2 to the 1 dimensions per head"):
            read(of(name, **few))


@pytest.mark.parametrize(("window", "unread"), [(8192, 0), (4096, 0), (2047, 1)])
def test_a_window_that_llama_cpp_leaves_out_is_told_where_it_hides_positions(window, unread):
    """Phi-3's 2047 of 4096 do, and Phi 4 mini's 262144 of 131072 do not."""
    keys = {"context_length": ("uint32", 4096), "attention__sliding_window": ("uint32", window)}
    assert len(read(of("phi3", **keys)).unread) == unread


def test_a_window_of_nothing_is_refused_where_layers_would_see_nothing():
    with pytest.raises(InvalidInput, match="the sliding layers of gemma2 see nothing"):
        read(of("gemma2", attention__sliding_window=("uint32", 0)))
    assert len(read(of("gemma3", attention__sliding_window=("uint32", 0))).layers) == 1


def test_a_base_of_layers_that_do_not_rotate_is_no_finding():
    """Granite 4's hybrids, as llama.cpp's converter writes them."""
    _, data = converted("config_rope/granitemoehybrid/saved")
    found = resolve(read_gguf(io.BytesIO(data), name="'m.gguf'", size=len(data)))
    assert {group.scheme for group in found.layers} == {"nope"}
    assert found.unread == ()


def test_a_width_that_rotates_says_nothing_of_a_bias():
    """Baichuan 2 13B as converted: 40 layers of ALiBi, and a rope.dimension_count."""
    forty = dict.fromkeys(("block_count", "attention__head_count"), ("uint32", 40))
    found = read(of("baichuan", **forty, embedding_length=("uint32", 640), rope__freq_base=None))
    assert [group.scheme for group in found.layers] == ["alibi"]
    assert (found.unread, found.warnings) == ((), ())
