"""What engines make of the same config, against numbers of their own code."""

import contextlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtime_rules import LayerReading, OtherLayers, UnknownReading
from posenc_cli.configs.engines.runtimes import DIFFERENCES, RUNTIMES, find, read_as
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.numerics import exact
from tests import tolerances
from tests.gguf_files import GOLDEN

RECORDED = json.loads((GOLDEN / "runtimes.json").read_text("utf-8"))["cases"]
CASES = {case["name"]: case for case in RECORDED}
ENGINES = sorted(GOLDEN.glob("engines*.json"))
ENGINE_CASES = [case for file in ENGINES for case in json.loads(file.read_text("utf-8"))["cases"]]
CONVERTED = json.loads((GOLDEN / "llama_cpp_files.json").read_text("utf-8"))
ENGINE_CASES += [{**case, "engine": "llama.cpp"} for case in CONVERTED["cases"]]


def as_engine(case):
    found = read_as(case["engine"], LayerReading(**case["reading"]))
    bound = catalogue.find(found.scheme).bind(found.params, seq_len=case.get("seq_len"))
    return found, bound.content.waves


@pytest.mark.parametrize("name", CASES)
def test_frequencies_and_amplitude_are_the_engines_own(name, golden):
    case, (_, arrays) = CASES[name], golden("runtimes")
    _, waves = as_engine(case)
    frequencies = [float(f) for f in waves.frequencies(exact)]
    np.testing.assert_allclose(frequencies, arrays[name], rtol=tolerances.FREQUENCY)
    # ggml multiplies in float32.
    relative = 1e-6 if case["engine"] == "llama.cpp" else 1e-14
    assert float(waves.scale) == pytest.approx(case["attention_factor"], rel=relative)


@pytest.mark.long
def test_every_difference_is_covered_by_a_number():
    covered = {
        id(difference)
        for case in CASES.values()
        for difference in as_engine(case)[0].reasons.values()
    }
    of_configs = set()
    for case in ENGINE_CASES:
        with contextlib.suppress(InvalidInput):
            for each in resolve(case["config"], runtime=case["engine"]).departures:
                assert "{" not in each.evidence
                if "fails" not in case:
                    of_configs.add((each.runtime, each.topic, each.what))
    refusals = {"container", "fields"}
    for difference in DIFFERENCES:
        if difference.topic in refusals or id(difference) in covered:
            continue
        assert (difference.runtime, difference.topic, difference.what) in of_configs


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: f"{each.runtime} {each.topic}")
def test_every_difference_names_its_evidence(difference):
    assert difference.runtime in RUNTIMES
    assert difference.evidence.startswith("https://github.com/")
    assert difference.what


LLAMA = {"dim": 128, "base": 1e4}
ORIGINAL = {"original_max_position_embeddings": 2048}
YARN = {**LLAMA, "factor": 4.0, **ORIGINAL}
BETAS = {"beta_fast": 32.0, "beta_slow": 1.0}
LONG = {"original_max_position_embeddings": 1_000_000}


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name != "transformers"])
def test_plain_rope_of_a_llama_is_the_same_everywhere(runtime):
    found = read_as(runtime, LayerReading("llama", "rope", LLAMA, context=2048))
    assert (found.scheme, found.params, found.reasons) == ("rope", LLAMA, {})


@pytest.mark.parametrize(
    ("runtime", "reading", "message"),
    [
        ("vlm", LayerReading("llama", "rope", LLAMA), "--as 'vlm': must be one of transformers"),
        (
            "vllm",
            LayerReading("bloom", "alibi", {}),
            "its code was not checked for the encoding of bloom (alibi)",
        ),
        (
            "transformers-4.50",
            LayerReading("llama", "rope", LLAMA, container="rope_parameters"),
            "it does not know the key rope_parameters",
        ),
        (
            "transformers-4.50",
            LayerReading("llama", "rope-yarn", YARN),
            "max_position_embeddings is missing",
        ),
        (
            "transformers-4.50",
            LayerReading("phi3", "rope-longrope", LLAMA, rope={"type": "su", "factor": 2.0}),
            "its Phi-3 takes no factor in rope_scaling",
        ),
        (
            "vllm-0.11",
            LayerReading("qwen2", "rope-yarn", YARN, rope={"type": "yarn"}),
            "it fails if the rope object has no original_max_position_embeddings",
        ),
        (
            "llama.cpp",
            LayerReading(
                "qwen2", "rope-yarn", YARN, rope={**ORIGINAL, "extrapolation_factor": 0.5}
            ),
            "extrapolation_factor has no counterpart",
        ),
        *(
            (
                runtime,
                LayerReading("qwen2", "rope-yarn", YARN, rope={**ORIGINAL, "beta_fast": 0}),
                "beta_fast 0: only transformers reads 0",
            )
            for runtime in ("vllm", "vllm-0.11", "llama.cpp")
        ),
        (
            "vllm",
            LayerReading("deepseek_v3", "rope-yarn", YARN, rope={"mscale": None}),
            "it fails if an mscale is null",
        ),
        (
            "onnxruntime-genai",
            LayerReading("qwen2", "rope-yarn", {**YARN, **LONG}, rope={**BETAS, **LONG}),
            "it fails if its ramp, here from pair 59.15 to 83.23, is not within pairs 0 and 63",
        ),
        *(
            (
                "onnxruntime-genai",
                LayerReading(model_type, "rope", LLAMA, config={key: 0.5}),
                f"its code was not checked for {key}",
            )
            for model_type, key in (
                ("ernie4_5", "compression_ratio"),
                ("llama", "rope_position_scale"),
            )
        ),
    ],
)
def test_what_is_not_known_is_refused(runtime, reading, message):
    with pytest.raises(InvalidInput) as refused:
        read_as(runtime, reading)
    assert message in refused.value.message
    assert refused.value.message.startswith(("--as ", "max_position"))


def test_a_misspelled_engine_gets_a_hint():
    with pytest.raises(InvalidInput) as refused:
        find("vlm")
    assert refused.value.hint == "did you mean 'vllm'?"


def config(model_type, scaling, **more):
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 64}
    return {
        "model_type": model_type,
        **sizes,
        "max_position_embeddings": 8192,
        "rope_theta": 1e4,
        "rope_scaling": scaling,
        **more,
    }


LINEAR = {"factor": 4.0}
RAMP = {"factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("model_type", "scaling", "fails"),
    [
        # What its classes, built from these, do: each was run.
        ("olmo2", {"type": "linear", **LINEAR}, False),
        ("olmo2", {"type": "dynamic", **LINEAR}, False),
        ("olmo2", {"rope_type": "linear", **LINEAR}, True),
        ("olmo2", {"rope_type": "dynamic", **LINEAR}, True),
        ("olmo2", {"rope_type": "yarn", **RAMP}, True),
        ("olmo2", {"type": "yarn", **LINEAR}, True),
        ("cohere", {"type": "linear", **LINEAR}, True),
        ("cohere", {"rope_type": "linear", **LINEAR}, False),
        ("granite", {"type": "yarn", **RAMP}, True),
        ("granite", {"rope_type": "yarn", **RAMP}, False),
        ("llama", {"type": "linear", **LINEAR}, False),
        ("phi3", {"type": "default"}, True),
        ("phi3", None, False),
    ],
)
def test_transformers_450_takes_the_spellings_that_its_classes_take(model_type, scaling, fails):
    if fails:
        with pytest.raises(InvalidInput, match="--as transformers-4.50: its"):
            resolve(config(model_type, scaling), runtime="transformers-4.50")
    else:
        assert resolve(config(model_type, scaling), runtime="transformers-4.50").layers


LONG = {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}


_THIRD = {"sliding_window": 64, "sliding_window_pattern": 3, "num_hidden_layers": 6}
_BY_TYPE = {"rope_type": "linear", "factor": 4.0}


_ANY = st.sampled_from(
    [None, True, 0, -1, 1, 2, 0.5, 1e308, 1e22, 10**400, 2**53, "x", "0.5", [], [1], {}, {"a": 1}]
)
_READ = st.sampled_from(
    [
        *("partial_rotary_factor", "original_max_position_embeddings", "attn_factor", "mscale"),
        *("mscale_all_dim", "extrapolation_factor", "max_trained_positions", "truncate", "factor"),
        *("attention_factor", "long_mscale", "short_mscale", "beta_fast", "rope_theta"),
        *("max_position_embeddings", "head_dim", "rope_type", "type"),
    ]
)


@given(
    st.sampled_from(sorted(RUNTIMES)),
    st.sampled_from(["llama", "qwen2_moe", "phi3", "deepseek_v3", "gemma3_text", "olmo2"]),
    st.sampled_from(["yarn", "dynamic", "linear", "longrope", "llama3"]),
    st.dictionaries(_READ, _ANY, max_size=3),
    st.dictionaries(_READ, _ANY, max_size=2),
)
def test_whatever_an_engine_reads_it_resolves_or_is_refused(runtime, model_type, kind, inside, top):
    scaling = {**LONG, **RAMP, "type": kind, "low_freq_factor": 1, "high_freq_factor": 4, **inside}
    with contextlib.suppress(PosencError):
        for each in resolve(config(model_type, scaling, **top), runtime=runtime).layers:
            catalogue.find(each.scheme).bind(each.values())


CONVERTER = json.loads((GOLDEN / "llama_cpp_converter.json").read_text("utf-8"))


def stretched(case):
    """The layers of a converter's case that its rope object speaks of, as llama.cpp reads them."""
    layers = resolve(case["config"], runtime="llama.cpp").layers
    return next((each for each in layers if each.layer_type == "full_attention"), layers[0])


@pytest.mark.parametrize("number", range(len(CONVERTER["cases"])))
def test_llama_cpps_converter_reads_what_it_reads_and_fails_where_it_fails(number):
    case = CONVERTER["cases"][number]
    if "fails" in case:
        with pytest.raises(InvalidInput, match=r"--as llama\.cpp: its converter"):
            resolve(case["config"], runtime="llama.cpp")
        return
    layers, written = stretched(case), case["writes"]
    if written["scaling"] == "yarn":
        assert layers.scheme == "rope-yarn"
        assert layers.values()["original_max_position_embeddings"] == written["original"]
    elif "divisors" in written:
        waves = catalogue.find(layers.scheme).bind(layers.values()).content.waves
        plain = catalogue.find("rope").bind({"dim": 64, "base": 1e6}).content.waves
        found = np.array([float(f) for f in waves.frequencies(exact)])
        expected = np.array([float(f) for f in plain.frequencies(exact)]) / written["divisors"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # its divisors are float32
    elif layers.scheme != "rope-longrope":
        assert layers.scheme == "rope"


def yarn_of_vllm11(model_type, *, more=None, top=None):
    """The scheme's waves as vLLM 0.11 computes them of a YaRN by 4."""
    rope = {"rope_type": "yarn", "factor": 4.0, **ORIGINAL, **(more or {})}
    found = read_as(
        "vllm-0.11", LayerReading(model_type, "rope-yarn", YARN, rope=rope, config=top or {})
    )
    return found, float(catalogue.find(found.scheme).bind(found.params).content.waves.scale)


def test_the_older_vllm_hands_no_attn_factor_to_gpt_oss():
    stated = {"attn_factor": 2.0}
    rule = 0.1 * math.log(4) + 1
    assert yarn_of_vllm11("gpt_oss", more=stated)[1] == pytest.approx(rule, rel=1e-14)
    assert yarn_of_vllm11("qwen2", more=stated)[1] == pytest.approx(2 * rule, rel=1e-14)


@pytest.mark.parametrize(("model_type", "length"), [("llama", 1024), ("qwen2", 2048)])
def test_the_older_vllm_takes_the_outer_original_length_in_llama_alone(model_type, length):
    top = {"original_max_position_embeddings": 1024}
    found, _ = yarn_of_vllm11(model_type, top=top)
    assert found.params["original_max_position_embeddings"] == length


@pytest.mark.parametrize(
    ("model_type", "runtime", "unread"),
    [
        ("qwen2", "transformers", ("rope_scaling.attn_factor",)),
        ("qwen2", "vllm-0.11", ()),
        ("gpt_oss", "vllm-0.11", ("rope_scaling.attn_factor",)),
    ],
)
def test_what_an_engine_reads_is_not_said_to_be_unread(model_type, runtime, unread):
    rope = {"rope_type": "yarn", "factor": 4.0, **ORIGINAL, "attn_factor": 2.0}
    config = {"model_type": model_type, "head_dim": 64, "max_position_embeddings": 8192}
    resolved = resolve({**config, "rope_scaling": rope}, runtime=runtime)
    assert resolved.unread == unread
    assert any("nothing read" in warning for warning in resolved.warnings) == bool(unread)


_EIGHTFOLD = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048}


def test_a_warning_of_keys_that_an_engine_reads_otherwise_says_whose_reading_it_is():
    stated = {**config("qwen3", _EIGHTFOLD), "rope_theta": 5e5}
    plain = [each for each in resolve(stated).warnings if each.startswith("rope_scaling.factor ")]
    assert plain
    shown = resolve(stated, runtime="exllamav3").warnings
    assert not {*plain} & {*shown}
    assert {f"transformers: {each}" for each in plain} <= {*shown}


def test_a_value_that_only_an_engine_makes_is_refused_by_the_name_of_the_option():
    scaling = {**_EIGHTFOLD, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1e9}
    stated = {**config("qwen2", scaling), "rope_theta": 1e6}
    with pytest.raises(InvalidInput, match="^--as onnxruntime-genai: config.json: "):
        resolve(stated, runtime="onnxruntime-genai")


@pytest.mark.parametrize("runtime", ["sglang", "mlx-lm"])
@pytest.mark.parametrize(
    "stated", [{"no_rope_layers": [1, 0, 1, 0]}, {"no_rope_layer_interval": 2}]
)
def test_every_fourth_layer_of_llama_4_stays_unrotated_whatever_the_file_says(stated, runtime):
    """``(layer_idx + 1) % 4 != 0`` in models/llama4.py of each."""
    sizes = {"head_dim": 64, "max_position_embeddings": 8192}
    rope = {"rope_theta": 5e5, "rope_scaling": None}
    config = {"model_type": "llama4_text", "num_hidden_layers": 4, **sizes, **rope, **stated}
    with pytest.raises(InvalidInput, match="leaves every fourth layer unrotated, regardless"):
        resolve({"model_type": "llama4", "text_config": config}, runtime=runtime)


@pytest.mark.parametrize("runtime", ["sglang", "mlx-lm", "llama.cpp"])
def test_engines_count_the_layers_of_qwen_35_that_attend_whatever_a_list_says(runtime):
    """Each builds its layers by ``full_attention_interval``, and none of them reads the list."""
    kinds = ["full_attention", "linear_attention", "linear_attention", "full_attention"]
    text = {"model_type": "qwen3_5_text", "head_dim": 256, "num_hidden_layers": 4}
    text |= {"full_attention_interval": 4, "rope_parameters": {"rope_type": "default"}}
    stated = {"model_type": "qwen3_5", "text_config": {**text, "layer_types": kinds}}
    with pytest.raises(InvalidInput, match="it uses full_attention_interval 4, regardless"):
        resolve(stated, runtime=runtime)
    assert resolve({"model_type": "qwen3_5", "text_config": text}, runtime=runtime).layers


REFUSED = {
    "vllm": [
        (
            config("mistral", None, partial_rotary_factor="0.5"),
            'partial_rotary_factor "0.5": must be a number',
        ),
        (
            config("llama", None, partial_rotary_factor=2),
            "partial_rotary_factor 2 of 64 columns rotates 128: pairs need an even number",
        ),
        (
            config("llama", None, partial_rotary_factor=0.4),
            "partial_rotary_factor 0.4 of 64 columns rotates 25: pairs need an even number",
        ),
        (
            config("phi3", LONG, original_max_position_embeddings=None),
            "it fails if original_max_position_embeddings is null",
        ),
        (
            config("llama", {"type": "dynamic", **LINEAR, "max_trained_positions": 0}),
            "rope_scaling.max_trained_positions 0: must be from 1",
        ),
    ],
    "exllamav3": [
        (config("gemma3_text", {"type": "linear", **LINEAR}), "reads type in gemma3_text"),
        (
            config("gemma3_text", None, partial_rotary_factor=0.5),
            "partial_rotary_factor in Gemma 3",
        ),
        (
            config("llama", _BY_TYPE, rope_parameters=_BY_TYPE),
            "rope_scaling beside rope_parameters",
        ),
        (config("smollm3", None), "smollm3 without no_rope_layers"),
        (
            {"model_type": "gemma3", "text_config": config("gemma3_text", None, **_THIRD)},
            "whose full layers are not every sixth",
        ),
    ],
    "tensorrt-llm": [
        (config("gemma3_text", None, rope_parameters=_BY_TYPE), "that are for all layers"),
        (
            config(
                "gemma3_text",
                None,
                rope_parameters={"full_attention": {"partial_rotary_factor": 0.5}},
            ),
            "partial_rotary_factor in one of Gemma 3's rope objects",
        ),
        (config("llama", None, architectures=["LlamaModel"]), "architectures LlamaModel of llama"),
        (config("qwen3", _BY_TYPE), "its qwen3 fails on linear"),
        (
            config("llama", None, rope_parameters={"rope_type": "default", "factor": 8.0}),
            "it multiplies the frequencies of a plain rotation by a factor",
        ),
        (
            config("exaone4", None, layer_types=["sliding_attention"] * 4)
            | {"sliding_window": 64, "sliding_window_pattern": "LLGL"},
            "it uses sliding_window_pattern, regardless of layer_types",
        ),
        *(
            (
                config("exaone4", None, layer_types=["sliding_attention"] * 4)
                | {"sliding_window": 64, "sliding_window_pattern": pattern},
                "its exaone4 fails on this sliding_window_pattern",
            )
            for pattern in ("", [1], {})
        ),
        (
            config("gpt_oss", {**_BY_TYPE, **RAMP, "beta_fast": 32.0, "beta_slow": 1.0}),
            "gpt-oss with rope-linear and the keys of yarn",
        ),
        (
            {"model_type": "gemma3", "text_config": config("gemma3_text", None, **_THIRD)},
            "gemma3_text as the text model of another",
        ),
    ],
    "candle": [
        (config("qwen2", _EIGHTFOLD, rope_parameters=_EIGHTFOLD), "beside rope_parameters"),
        ({"model_type": "llava", "text_config": config("llama", None)}, "as the text model of"),
        (config("qwen3", None, head_dim=None), "its qwen3 fails on a file without head_dim"),
    ],
}
"""By an engine: configs, and words of why posenc does not say how it reads them."""


@pytest.mark.parametrize(
    ("runtime", "case", "words"),
    [(runtime, *row) for runtime, rows in REFUSED.items() for row in rows],
)
def test_an_engine_is_asked_for_nothing_that_was_not_read(runtime, case, words):
    with pytest.raises(InvalidInput) as refused:
        resolve(case, runtime=runtime)
    assert words in refused.value.message
    if runtime != "vllm":  # whose checks of values are those of transformers
        assert refused.value.message.startswith(f"--as {runtime}: ")


@pytest.mark.parametrize(
    ("outer", "runtime", "words"),
    [
        ("kimi_k25", "transformers-4.57", "4.56.2 to 4.57.6 has no model type kimi_k25"),
        ("qwen3_vl", "transformers-4.55", "4.55.4 has no model type qwen3_vl"),
        ("voxtral", "transformers-4.50", "4.50.3 has no model type voxtral"),
        ("llava", "vllm-0.11", "its code was not checked for the text model of llava"),
    ],
)
def test_a_model_that_is_newer_than_an_engine_is_not_said_to_be_read_by_it(outer, runtime, words):
    """CONFIG_MAPPING_NAMES of each version of transformers."""
    text = config("llama" if outer != "kimi_k25" else "deepseek_v3", None)
    within = {"model_type": outer, "text_config": text}
    if outer == "qwen3_vl":
        within["text_config"] = config("qwen3_vl_text", {"mrope_section": [12, 10, 10]})
    with pytest.raises(InvalidInput, match=words):
        resolve(within, runtime=runtime)


def test_a_model_that_an_old_version_has_is_read_by_it():
    text = config("llama", None)
    layers = resolve({"model_type": "llava", "text_config": text}, runtime="transformers-4.50")
    assert layers.layer().scheme == "rope"


MIMO = {
    "model_type": "mimo_v2_flash",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "head_dim": 48,
    "swa_head_dim": 48,
    "rope_theta": 5e6,
    "swa_rope_theta": 1e4,
    "partial_rotary_factor": 0.334,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
}


@pytest.mark.parametrize("engine", ["vllm", "mlx-lm", "llama.cpp"])
def test_mimo_has_the_sliding_layers_of_its_own_list(engine):
    full, sliding = resolve({**MIMO, "rope_theta": 7e5}, runtime=engine).layers
    assert (full.values()["base"], sliding.values()["base"]) == (7e5, 1e4)
    for pattern in ([0, 0, 1, 1, 1, 0], [0, 1, 1]):
        with pytest.raises(OtherLayers, match="it uses hybrid_layer_pattern"):
            resolve({**MIMO, "hybrid_layer_pattern": pattern}, runtime=engine)


STEP = {
    "model_type": "step3p5",
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "head_dim": 32,
    "rope_theta": [5e6, 1e4, 1e4],
    "partial_rotary_factors": [0.5, 1.0, 1.0],
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "yarn_only_types": ["full_attention"],
}


@pytest.mark.parametrize(
    ("changed", "error", "why"),
    [
        ({"rope_theta": [5e6, 1e4, 2e4]}, OtherLayers, "base and share for each layer"),
        ({"rope_theta": [5e6, 1e4]}, InvalidInput, "2 values, fewer than there are layers"),
        ({"layer_types": None}, OtherLayers, "base and share for each layer"),
        ({"yarn_only_types": None}, UnknownReading, "layers other than full ones are scaled"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, UnknownReading, "rope_scaling.type"),
    ],
)
def test_mlx_reads_a_step_layer_by_layer(changed, error, why):
    assert resolve(STEP, runtime="mlx-lm").layer("full_attention").scheme == "rope-linear"
    with pytest.raises(error, match=why):
        resolve({**STEP, **changed}, runtime="mlx-lm")


MPT = {
    "model_type": "mpt",
    "d_model": 768,
    "n_heads": 12,
    "n_layers": 2,
    "attn_config": {"alibi": True, "alibi_bias_max": 16},
}


def test_the_next_command_of_an_engines_alibi_is_one_that_knows_engines(call, tmp_path):
    (tmp_path / "mpt.json").write_text(json.dumps(MPT))
    _, out, _ = call("explain", "mpt.json", "--as", "llama.cpp", "--json")
    following = json.loads(out)["next"]
    assert following == "posenc heatmap --config mpt.json --as llama.cpp"
    assert call(*following.split()[1:], "--len", "8")[0] == 0


def test_llama_cpp_divides_phimoe_by_the_long_factors_that_transformers_never_uses():
    """get_rope_factors of llama-model.cpp takes rope_factors_long past the original length."""
    long = [1.0 + pair for pair in range(64)]
    rope = {"type": "longrope", "short_factor": [1.0] * 64, "long_factor": long}
    rope |= {"short_mscale": 1.2, "long_mscale": 1.2, "original_max_position_embeddings": 4096}
    config = {"model_type": "phimoe", "hidden_size": 4096, "num_attention_heads": 32}
    config |= {"max_position_embeddings": 131072, "rope_scaling": rope}
    own, other = (resolve(config, runtime=name) for name in ("transformers", "llama.cpp"))
    assert own.layers[0].values()["long_factor"] == (1.0,) * 64
    assert other.layers[0].values()["long_factor"] == tuple(long)
