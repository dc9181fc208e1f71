"""Where engines part: what is held against what, and what is said of it."""

import json

import pytest

from posenc_cli.comparison.compare import RotationComparison
from posenc_cli.comparison.engine_views import SAME, EngineView, _agree, engine_views
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtimes import RUNTIMES, UnknownReading
from posenc_cli.configs.resolved import Layers, Sourced
from posenc_cli.errors import InvalidInput
from posenc_cli.render.reports.engine_views import engine_views_fields, engine_views_text
from posenc_cli.render.typesetting import Typesetter
from tests.configs.test_runtimes import config as config_of

SIZES = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 64, "num_hidden_layers": 2}


def config(model_type="llama", scaling=None, **more):
    """A config of a model type, with a rope_scaling."""
    return config_of(model_type, scaling, **SIZES | more)


def views(values, **given):
    return engine_views(values, name="config.json", given=given)


def of_model(name):
    return engine_views(library.find(name).config, name=name, given={})


def text(result):
    return engine_views_text(
        result,
        "title",
        lambda layers: str(layers.layer_type),
        Typesetter(),
        compare="posenc compare config.json --as",
    )


def engines(result):
    return [[view.engines for view in kind.views] for kind in result.kinds]


def test_engines_that_compute_the_same_share_a_view():
    result = of_model("gpt-oss-20b")
    (first, second), _ = engines(result)
    assert {"transformers", "vllm"} <= set(first)
    assert {"vllm-0.11", "llama.cpp"} <= set(second)
    assert result.agree is False


def test_a_view_apart_says_which_parameter_how_many_pairs_and_where_that_is_read():
    shown = text(of_model("gpt-oss-20b"))
    assert "truncate true, not false" in shown
    assert "9 of 32 frequencies differ, by up to ×1.763 (pair 17)" in shown
    assert "ggml-org/llama.cpp/pull/17945" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_another_spelling_of_the_same_numbers_is_no_difference():
    """vLLM's DeepSeek has attention_factor 1 where transformers has two weights that cancel."""
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    stated = {**scaling, "mscale": 1.0, "mscale_all_dim": 1.0}
    result = views(config("deepseek_v3", stated, qk_rope_head_dim=64))
    together = next(kind.views for kind in result.kinds)[0].engines
    assert {"transformers", "vllm", "llama.cpp"} <= set(together)
    params = [
        reading.resolved.layers[0].values()
        for reading in result.readings
        if reading.runtime.name in ("transformers", "llama.cpp")
    ]
    assert params[0] != params[1]


def test_amplitude_alone_sets_engines_apart():
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    result = views(config("llama", {**scaling, "attention_factor": 1.5}))
    apart = next(view for view in result.kinds[0].views if "llama.cpp" in view.engines).apart
    assert not apart.worst.difference.pairs
    assert apart.worst.difference.scales == pytest.approx((1.5, 1.1386294361), rel=SAME * 1e3)
    assert "attention factor 1.138629436, not 1.5" in text(result)


def test_a_choice_by_length_is_compared_on_both_sides_of_its_switch():
    own = library.find("phi-3-vision-128k").config
    # vLLM fails on the type su, which the model's file has.
    result = views({**own, "rope_scaling": {**own["rope_scaling"], "type": "longrope"}})
    (kind,) = result.kinds
    by_engine = {engine: view for view in kind.views for engine in view.engines}
    assert by_engine["vllm"] is not by_engine["transformers"]
    shown = text(result)
    assert "seq_len 4096, whatever the length" in shown
    assert "equal to A for sequences of 4096 positions" in shown


def test_a_rule_that_goes_on_is_not_said_to_be_the_same_after_some_lengths():
    """llama.cpp does not stretch dynamically; the two agree at the lengths that were trained."""
    result = views(config("llama", {"type": "dynamic", "factor": 2.0}))
    (kind,) = result.kinds
    apart = next(view for view in kind.views if "llama.cpp" in view.engines).apart
    assert apart.goes_on
    assert engine_views_fields(result)["views"][0]["views"][-1]["apart"]["all_lengths"] is False


def test_an_engine_whose_code_was_not_read_is_named_and_not_compared():
    result = of_model("bert-base")
    assert result.agree is None
    assert engines(result) == [[("transformers",)]]
    shown = " ".join(text(result).split())
    assert "no other engine's code was checked for this model type; nothing is compared" in shown
    assert "no other engine reads it" not in shown
    assert "agree" not in shown
    others = {reading.runtime.name for reading in result.readings if not reading.traced}
    assert others == {*RUNTIMES} - {"transformers"}
    assert f"{', '.join(list(RUNTIMES)[1:])}: code not checked for this model" in shown


def test_an_older_transformers_without_the_model_is_no_engine_that_refuses_it():
    """Nobody read vLLM's Gemma 3n: that transformers 4.50 has none says nothing of vLLM."""
    result = views(
        {"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text", **SIZES}}
    )
    told = {each.runtime.name for each in result.readings if each.traced and not each.resolved}
    assert told == {"transformers-4.50"}
    shown = " ".join(text(result).split())
    assert "no other engine's code was checked for this model type; nothing is compared" in shown


def test_an_engine_that_cannot_read_a_config_says_why():
    result = views({**config(), "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}})
    refusals = {
        reading.runtime.name: (reading.traced, reading.refusal)
        for reading in result.readings
        if reading.resolved is None
    }
    assert refusals["vllm-0.11"] == (True, "it does not know the key rope_parameters")
    assert "vllm-0.11: it does not know the key rope_parameters" in text(result)


def test_json_has_each_engine_its_reading_and_its_evidence():
    fields = engine_views_fields(of_model("gpt-oss-20b"))
    json.dumps(fields, allow_nan=False)
    by_name = {engine["name"]: engine for engine in fields["engines"]}
    assert list(by_name) == list(RUNTIMES)
    departures = by_name["llama.cpp"]["departures"]
    assert departures
    assert all(each["evidence"].startswith("https://github.com/") for each in departures)
    assert "truncate" not in by_name["llama.cpp"]["layers"][0]["params"]
    apart = fields["views"][0]["views"][1]["apart"]
    assert (apart["params"], apart["differing"], apart["count"]) == (["truncate"], 9, 32)


def test_a_parameter_that_is_given_holds_for_every_engine():
    result = views(config(), base=5e5)
    bases = {
        reading.resolved.layers[0].params["base"].value
        for reading in result.readings
        if reading.resolved
    }
    assert bases == {5e5}


def test_what_turns_fewer_pairs_is_apart_and_says_why_it_was_not_compared():
    (kind,) = views(config("qwen2", None, partial_rotary_factor=0.5)).kinds
    view = next(view for view in kind.views if "vllm" in view.engines)
    assert view.engines[0] != "transformers"
    assert view.why_not == "the shapes differ: 32 and 16 pairs"


def test_a_config_of_diffusers_is_refused():
    with pytest.raises(InvalidInput, match="--as all: config.json is a diffusers config"):
        views({"_class_name": "PixArtTransformer2DModel", "sample_size": 64})


def layers(scheme, softmax=None, **params):
    """Layers of a scheme, with what multiplies their scores beside the rotation."""
    derived = {} if softmax is None else {"softmax_multiplier": Sourced(softmax, "mscale")}
    values = {name: Sourced(value, name) for name, value in params.items()}
    return Layers(None, (), scheme, values, derived)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (layers("rope", dim=8), layers("rope", dim=8), True),
        (layers("rope", dim=8), layers("rope-linear", dim=8, factor=1.0), True),
        (layers("rope", dim=8), layers("rope-linear", dim=8, factor=2.0), False),
        (layers("rope", dim=8), layers("rope", dim=8, layout="half"), False),
        (layers("rope", 1.5, dim=8), layers("rope", 1.5, dim=8), True),
        (layers("rope", 1.5, dim=8), layers("rope", dim=8), False),
        (layers("nope", dim=8), layers("nope", dim=8), True),
        (layers("nope", dim=8), layers("rope", dim=8), False),
        (layers("alibi", heads=8), layers("alibi", heads=4), False),
        (layers("rope-dynamic", dim=8), layers("rope-dynamic", dim=8), True),
    ],
)
def test_layers_are_the_same_where_all_that_is_compared_is(one, other, alike):
    assert _agree(EngineView(("one",), one), EngineView(("other",), other)) is alike


def test_two_rules_that_follow_the_length_for_ever_are_never_found_to_be_the_same(monkeypatch):
    """No compared length tells them apart here, and there are more."""
    monkeypatch.setattr(RotationComparison, "ok", True)
    one, same, other = (
        EngineView(("engine",), layers("rope-dynamic", dim=8, factor=factor))
        for factor in (2.0, 2.0, 4.0)
    )
    assert _agree(one, same)
    assert not _agree(one, other)


def test_one_position_and_three_axes_are_apart_though_text_alone_hides_it():
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [11, 11, 10]}
    text = config("qwen3_5_text", head_dim=256, full_attention_interval=2)
    del text["rope_theta"], text["rope_scaling"]
    text["rope_parameters"] = {**rope, "mrope_interleaved": True, "partial_rotary_factor": 0.25}
    result = views({"model_type": "qwen3_5", "text_config": text})
    first, second = result.kinds[0].views
    assert {"transformers", "vllm", "sglang", "llama.cpp"} <= {*first.engines}
    assert second.engines == ("mlx-lm",)
    assert second.why_not == "one of the two follows three axes"
    assert result.agree is False


def test_engines_that_do_not_have_a_model_are_not_said_to_read_it():
    """candle has no Jamba, nor any engine here a number of one: unrotated layers are no proof."""
    result = views({"model_type": "jamba", "num_hidden_layers": 8})
    assert [each.runtime.name for each in result.readings if each.resolved] == ["transformers"]
    assert result.agree is None
    with pytest.raises(UnknownReading, match="its code was not checked for the encoding of jamba"):
        resolve({"model_type": "jamba", "num_hidden_layers": 8}, runtime="candle")


@pytest.mark.parametrize(
    ("model_type", "reader", "warning"),
    [
        ("internlm2", "the model's own code (as posenc read it)", "transformers has no internlm2"),
        ("my_llama", "posenc (as assumed)", "is unknown: it is read as if it were like Llama"),
    ],
)
def test_transformers_is_not_said_to_read_a_type_that_it_does_not_have(model_type, reader, warning):
    result = views(config(model_type))
    shown = " ".join(text(result).split())
    assert f"readings: {reader}; " in shown
    assert "transformers (" not in shown
    assert shown.count("Warning: ") == 1
    assert warning in shown
    assert engine_views_fields(result)["engines"][0]["name"] == reader.partition(" (")[0]


def test_an_engine_that_rotates_other_layers_than_the_config_says_does_not_agree():
    """llama.cpp's smollm3.cpp: ``(il + 1) % n_no_rope_layer_step != 0``, whatever the file says."""
    usual = config("smollm3", num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0])
    assert views(usual).agree is True
    result = views({**usual, "no_rope_layers": [0, 0, 0, 1]})
    assert result.agree is False
    shown = " ".join(text(result).split())
    assert "other engines differs from transformers: llama.cpp" in shown
    assert (
        "llama.cpp: its graph leaves every fourth layer unrotated, regardless of no_rope_layers"
        in shown
    )
    own = {each["name"]: each["otherwise"] for each in engine_views_fields(result)["engines"]}
    assert [name for name, otherwise in own.items() if otherwise] == ["llama.cpp"]
