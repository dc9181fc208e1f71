"""What to set for a length: what is known of a model, and what recipes do to its pairs."""

import functools
import json
import math

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.analysis.planning import cosine_sums
from posenc_cli.analysis.planning.planner import LONGEST, LengthPlan, NoPlan, plan_length
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.configs.spelling import merged
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from tests.gguf_files import GOLDEN

PLANS = json.loads((GOLDEN / "config_plans.json").read_text())

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
LLAMA |= {"num_hidden_layers": 2, "max_position_embeddings": 4096, "rope_theta": 10000.0}


def planned(config, to, **how):
    content = library.find(config).config if isinstance(config, str) else config
    return plan_length(content, to, name="config.json", **how)[0]


def recipe(found, name):
    return next(own for own in found.recipes if own.name == name)


@pytest.fixture(scope="module", autouse=True)
def few_bases():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cosine_sums, "_DENSEST", 2)
        patch.setattr(cosine_sums, "_SPARSEST", 2)
        yield


@pytest.fixture(scope="module")
def llama(few_bases):
    return planned(LLAMA, 16384)


@pytest.mark.long
def test_pairs_that_never_turned_are_those_of_yarns_critical_dimension(llama):
    # YaRN's find_correction_dim: d · ln(L / (2π · 1)) / (2 ln base) pairs complete one turn.
    critical = 128 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10_000))
    assert llama.never_turned == tuple(range(math.ceil(critical), 64))
    assert recipe(llama, "as-is").unseen == llama.never_turned
    assert recipe(llama, "as-is").unseen_from == 4096


def test_interpolation_brings_no_unseen_angle_and_near_positions_nearer(llama):
    linear = recipe(llama, "linear")
    assert (linear.params["factor"], linear.unseen, linear.step) == (4.0, (), 0.25)
    assert linear.pairs.interpolated == 64
    # A sum of cosines of m/4: negative from 4 times as far, or up to 3 sooner.
    assert 4 * 1706 < linear.negative_from <= 4 * 1707


def test_ntk_divides_the_slowest_pair_by_the_ratio_and_leaves_others_unseen(llama):
    ntk = recipe(llama, "ntk")
    # bloc97: base · factor^(d/(d − 2)).
    assert ntk.params["base"] == pytest.approx(10_000 * 4 ** (128 / 126), rel=1e-5)
    assert ntk.pairs.smallest == pytest.approx(0.25, rel=1e-5)
    # The fastest pair is kept, and the slowest is divided by all of 4, but for its base's rounding.
    counts = (ntk.pairs.kept, ntk.pairs.blended, ntk.pairs.interpolated)
    assert counts == (1, 62, 1)
    theta = ntk.params["base"] ** (-np.arange(64) / 64)
    seen = 4096 * 10_000.0 ** (-np.arange(64) / 64)
    never = np.array(llama.never_turned)
    # The slowest pair is left out of account: it is right at the length.
    unseen = [pair for pair in never[:-1] if 16384 * theta[pair] > seen[pair]]
    assert ntk.unseen == tuple(unseen)
    assert ntk.unseen_from == math.ceil((seen / theta)[never].min())


@pytest.mark.long
def test_yarn_multiplies_logits_by_the_square_of_its_attention_factor(llama):
    yarn = recipe(llama, "yarn")
    assert yarn.attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    assert yarn.logit_multiplier == pytest.approx((0.1 * math.log(4) + 1) ** 2)
    # NousResearch/Yarn-Llama-2-7b-64k: {"factor": 16.0, …: 4096, "type": "yarn"}.
    published = recipe(planned(LLAMA, 65536), "yarn")
    scaling = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
    assert published.config["rope_scaling"] == scaling
    assert published.config["max_position_embeddings"] == 65536


def test_the_larger_base_keeps_the_sum_from_being_negative(llama):
    base = recipe(llama, "base")
    assert base.negative_from is None
    assert base.params["base"] > 10_000


def test_what_is_set_is_read_back_to_what_was_planned(llama):
    for own in llama.recipes:
        read = resolve(merged(LLAMA, own.config)).layer()
        assert read.scheme == own.scheme
        values = {**read.values(), "seq_len": own.params.get("seq_len")}
        assert {name: own.params[name] for name in values if name in own.params} == {
            name: value for name, value in values.items() if name in own.params
        }


@pytest.mark.long
def test_llama_3_grows_its_factor_as_the_length_does():
    found = planned("llama-3.1-8b", 262144)
    assert (found.trained, found.told, found.lengths.context) == (8192, True, 131072)
    llama3 = recipe(found, "llama3")
    assert llama3.params["factor"] == 16.0
    assert llama3.config["rope_scaling"]["rope_type"] == "llama3"


@pytest.mark.long
def test_an_attention_factor_that_follows_the_factor_is_not_kept():
    # OLMo 3 states that of its factor 8.
    found = planned("olmo-3-7b", 131072)
    yarn = recipe(found, "yarn")
    assert found.layer_type == "full_attention"
    assert yarn.attention_factor == pytest.approx(0.1 * math.log(16) + 1)
    rope = yarn.config["rope_parameters"]
    assert "attention_factor" not in rope["full_attention"]
    assert rope["sliding_attention"] == {"rope_type": "default", "rope_theta": 500000.0}


def test_a_softmax_scale_of_latent_attention_is_counted():
    found = planned("deepseek-v3", 327680)
    yarn = recipe(found, "yarn")
    assert yarn.logit_multiplier == pytest.approx((0.1 * math.log(80) + 1) ** 2)
    assert found.negative_from is not None
    assert found.negative_with_rest is None
    assert (found.pairs, found.at_rest) == (32, 64)


@pytest.mark.long
def test_sections_of_axes_are_kept():
    found = planned("qwen2-vl-7b", 65536)
    assert recipe(found, "yarn").config["rope_scaling"]["mrope_section"] == [16, 24, 24]
    assert recipe(found, "base").config.keys() == {"rope_theta", "max_position_embeddings"}


def test_a_config_of_text_and_images_is_set_where_its_text_model_stands():
    config = {"model_type": "llava", "text_config": LLAMA}
    found = planned(config, 8192)
    (section,) = recipe(found, "linear").config
    assert section == "text_config"
    assert recipe(found, "linear").overrides["text_config"]["rope_parameters"]["factor"] == 2.0


@pytest.mark.long
def test_another_rule_is_left_out_where_training_had_one():
    found = planned("gemma-3-4b", 262144)
    assert recipe(found, "linear").params["factor"] == 16.0
    assert {"yarn", "dynamic", "ntk", "base", "longrope"} <= found.left_out.keys()


def test_nothing_drops_the_factors_of_longrope_that_a_model_was_trained_with():
    found = planned("phi-3-vision-128k", 262144)
    assert [own.name for own in found.recipes] == ["as-is"]
    assert {"longrope", "linear", "yarn", "ntk", "base"} <= found.left_out.keys()
    assert "trained with" in found.left_out["base"]
    assert found.bases is None


@pytest.mark.long
def test_a_rope_that_all_layers_share_changes_with_them_and_one_that_they_do_not_stays():
    assert "yarn" in [own.name for own in planned("gemma-2-9b", 16384).recipes]
    shared = planned("modernbert-base", 16384)
    assert "sliding_attention" in shared.left_out["yarn"]
    assert recipe(shared, "base").config.keys() == {"global_rope_theta", "max_position_embeddings"}


@pytest.mark.parametrize(
    ("model", "to", "fits", "said"),
    [
        ("gpt2", 2048, False, "1024 rows"),
        ("bert-base", 512, True, "512 rows, one for each position"),
        ("mpt-7b", 8192, None, "at any"),
        ("transfo-xl-wt103", 8192, None, "at any position"),
        ("llama-4-maverick", 2_000_000, True, "window of 8192"),
    ],
)
def test_models_that_are_not_stretched_are_told_what_bounds_them(model, to, fits, said):
    found = planned(model, to)
    assert isinstance(found, NoPlan)
    assert found.fits is fits
    assert said in found.reason


@pytest.mark.long
def test_a_window_wider_than_what_is_stated_is_what_the_plan_is_for():
    mistral = {**LLAMA, "model_type": "mistral", "sliding_window": 65536}
    config = {**mistral, "max_position_embeddings": 4096}
    plan, resolved = plan_length(config, 1_000_000, name="config")
    assert isinstance(plan, LengthPlan)
    assert plan.to == 65536
    assert "a window of 65536 positions, so no distance is longer" in resolved.warnings[-1]
    plan, resolved = plan_length(config, 32768, name="config")
    assert plan.to == 32768
    assert not any("window" in warning for warning in resolved.warnings)


def test_layers_that_see_a_window_have_no_longer_distance():
    mistral = {**LLAMA, "model_type": "mistral", "sliding_window": 4096}
    assert isinstance(planned(mistral, 131072), NoPlan)
    assert isinstance(planned({**mistral, "sliding_window": None}, 131072), LengthPlan)
    assert isinstance(planned("gemma-3-4b", 262144, layer_type="sliding_attention"), NoPlan)


def test_a_length_past_what_is_looked_through_and_a_config_that_says_none_are_refused():
    with pytest.raises(InvalidInput, match="at most"):
        planned(LLAMA, LONGEST + 1)
    lengthless = {"model_type": "made-up", "hidden_size": 64, "num_attention_heads": 1}
    with pytest.raises(InvalidInput, match="does not state a trained length"):
        planned({**lengthless, "rope_theta": 1e4}, 8)


def frequencies(found, name):
    own = recipe(found, name)
    bound = catalogue.find(own.scheme).bind({**own.params})
    return np.array([float(angle) for angle in bound.content.waves.frequencies(exact)])


@pytest.fixture(scope="module")
def plans(few_bases):
    return functools.cache(planned)


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("case", PLANS["cases"], ids=lambda case: case["name"])
def test_transformers_makes_of_what_is_set_what_was_planned(case, plans, golden):
    statement, arrays = golden("config_plans")
    found = plans(case["model"], case["to"])
    own = recipe(found, case["recipe"])
    assert merged(case["config"], own.config) == case["written"]
    assert own.overrides == case["overrides"]
    angles = frequencies(found, case["recipe"])
    rtol, scaled = (
        statement["tolerance"][key]["rtol"] for key in ("inv_freq", "attention_scaling")
    )
    for kind in ("written", "overridden"):
        table = arrays[f"{case['name']}/{kind}"]
        assert table == pytest.approx(angles[: len(table)], rel=rtol)
        assert own.attention_factor == pytest.approx(case[f"{kind}_scaling"], rel=scaled)


def test_one_pair_that_turns_has_no_base_to_raise():
    found = planned({**LLAMA, "head_dim": 2}, 8192)
    same = "one pair rotates, and its frequency is 1 whatever the base"
    assert (found.pairs, found.left_out["ntk"]) == (1, same)
    assert found.left_out["base"] == "no larger base that was tried qualifies"


@pytest.mark.long
def test_no_angle_of_the_context_that_a_config_states_is_unseen():
    within, beyond = planned("llama-3.1-8b", 131072), planned("llama-3.1-8b", 131073)
    assert recipe(within, "as-is").unseen == ()
    assert recipe(beyond, "as-is").unseen_from == 131072
    assert recipe(planned("llama-3.1-8b", 262144), "llama3").unseen == ()
