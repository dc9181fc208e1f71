"""``posenc plan`` on the command line."""

import json
import shlex

import pytest

from posenc_cli.analysis.planning import cosine_sums
from posenc_cli.analysis.planning.planner import plan_length
from posenc_cli.records import replace
from posenc_cli.render.reports.length_plans import plan_answer, plan_text
from posenc_cli.render.typesetting import Typesetter
from tests.gguf_files import gguf_bytes, llama

CONFIG = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}
CONFIG |= {"num_hidden_layers": 2, "max_position_embeddings": 256, "rope_theta": 10000.0}


@pytest.fixture(autouse=True)
def few_bases(monkeypatch):
    monkeypatch.setattr(cosine_sums, "_DENSEST", 4)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return "config.json"


def test_a_plan_opens_with_what_to_set_why_and_the_keys(config, printed):
    out = printed("plan", "--config", config, "--to", "1024", err="")
    assert out.startswith(
        "llama: set yarn, factor 4, for 1024 positions (the config states 256)\n"
        "19 of 32 pairs (13–31) have wavelengths longer than 256 positions; as is, angles\n"
        "  from position 256 on are unseen; with yarn, none are\n"
        'next: set in config.json {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,\n'
        '  "original_max_position_embeddings": 256}, "max_position_embeddings": 1024}\nrecipe '
    )
    assert "necessary, not sufficient: run the model to test the plan" in out
    assert "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 256" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_length_within_the_context_needs_no_setting(call, config):
    for to, positions in (("256", "256 positions"), ("1", "1 position")):
        out = call("plan", "--config", config, "--to", to)[1]
        assert out.startswith(f"llama: set nothing for {positions} (the config states 256)\n")
        assert "next:" not in out


def test_the_bases_that_qualify_are_named_by_their_ends(call, config):
    asked = json.loads(call("plan", "--config", config, "--to", "1024", "--json")[1])["bases"]
    last = asked["intervals"][-1]
    assert last["above"] is None
    said = " ".join(call("plan", "--config", config, "--to", "1024")[1].split())
    assert f"{asked['qualify']} of {asked['tried']} bases tried from 100 to 1e+10 keep the" in said
    assert f"every one tried from {last['first']:.6g} up; bases between were not tried." in said


def test_json_has_the_promised_fields(config, document):
    found = document("plan", "--config", config, "--to", "1e3")
    assert list(found)[1:5] == ["ok", "verdict", "cause", "next"]
    assert found["ok"] is True
    assert found["verdict"].startswith("llama: set yarn, factor 3.9062, for 1000 positions")
    assert found["next"].startswith('set in config.json {"rope_scaling": {"rope_type": "yarn", ')
    assert {"trained", "base", "never_turned", "negative_from", "recipes"} <= found.keys()
    assert (found["to"], found["trained"], found["base"]) == (1000, 256, 10000.0)
    for recipe in found["recipes"]:
        assert {"scheme", "params", "attention_factor", "config"} <= recipe.keys()
    assert found["bases"]["sample"] is True


@pytest.mark.long
def test_a_recipe_can_be_asked_for(call, config, refused):
    _, out, _ = call("plan", "--config", config, "--to", "512", "--recipe", "linear")
    assert '"factor": 2.0' in " ".join(out.split())
    assert "yarn" not in out
    assert "search" in refused("plan", "--config", config, "--to", "512", "--recipe", "longrope")


@pytest.mark.long
def test_what_is_required_decides_the_status(call, config, printed, report):
    asked = ("plan", "--config", config, "--to", "1024", "--require")
    assert call(*asked, "context>=256,long-wavelengths<=32,yarn.unseen<=0")[0] == 0
    failed, what, *_ = printed(*asked, "context>=1024", status=1).splitlines()
    assert failed == "FAILED: context>=1024: context length stated by the config: 256"
    assert what.startswith("llama: set yarn, factor 4, for 1024 positions")
    status, found = report(*asked, "unseen<=0,negative-from>=1024")
    assert (status, found["ok"]) == (1, False)
    unseen, negative = found["verdict"].split("; ")
    assert unseen.startswith("FAILED: unseen<=0: ")
    assert negative.startswith("negative-from>=1024: ")
    assert found["cause"].startswith("llama: set yarn, factor 4, for 1024 positions")
    assert [each["ok"] for each in found["requirements"]] == [False, False]
    assert call(*asked, "context>=256", "-q") == (0, "", "")


def test_a_sum_is_looked_at_as_far_as_is_required(call, config):
    asked = ("plan", "--config", config, "--to", "16", "--require")
    assert call(*asked, "negative-from>=17")[0] == 0
    assert call(*asked, "negative-from>=100000")[0] == 1
    assert call(*asked, "negative-from>=1e9")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--to 0", "--to 0: must be at least 1"),
        ("--to 1e30", "--to"),
        ("--to 1e9", "at most 16777216"),
        ("", "--to is missing"),
        ("--to 512 --set base=0.5", "base"),
        ("--to 512 --set dim=3", "--set dim 3"),
        ("--to 512 --recipe yran", "did you mean 'yarn'"),
        ("--to 512 --require context", "must be NAME>=N"),
        ("--to 512 --require contxt>=4", "did you mean 'context'"),
        ("--to 512 --require context>=nan", "must be a number"),
        ("--to 512 --require yarn.context>=4", "the names are negative-from, unseen"),
        ("--to 512 --require longrope.unseen<=0", "there is no recipe"),
        ("--to 512 --model llama-2-7b", "give one of them"),
        ("--to 512 --layer-type full", "all layers of llama are alike"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(config, arguments, said, refused):
    assert said in refused("plan", "--config", config, *arguments.split())


def test_a_scheme_of_ones_own_is_no_model(refused):
    assert "--scheme" in refused("plan", "--scheme", "rope", "--to", "512")
    assert "one of them is needed" in refused("plan", "--to", "512")


def test_a_learned_table_has_no_recipe(call):
    status, out, _ = call("plan", "-m", "gpt2", "--to", "2048", "--json")
    found = json.loads(out)
    assert (status, found["recipes"], found["fits"]) == (0, [], False)
    answer = [found[key] for key in ("ok", "verdict", "cause", "next")]
    verdict = "gpt2, learned: 2048 positions do not fit"
    assert answer == [False, verdict, found["reason"], None]
    for model, to, require, status in (
        ("gpt2", "2048", "context>=2048", 1),
        ("gpt2", "512", "context>=1024", 0),
        ("mpt-7b", "512", "long-wavelengths<=9", 1),
    ):
        assert call("plan", "-m", model, "--to", to, "--require", require)[0] == status


def test_a_gguf_file_has_flags_and_no_keys(tmp_path, report):
    (tmp_path / "model.gguf").write_bytes(gguf_bytes(llama()))
    status, found = report("plan", "--config", "model.gguf", "--to", "8192")
    assert (status, found["trained"], found["pairs"]) == (0, 4096, 8)
    assert found["recipes"][0]["engines"] == {}
    for recipe in found["recipes"][1:]:
        assert recipe["config"] is None
        assert recipe["engines"]["vllm"]["flags"] is None
    yarn = next(recipe for recipe in found["recipes"] if recipe["recipe"] == "yarn")
    expected = "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 4096 --ctx-size 8192"
    assert yarn["engines"]["llama.cpp"]["flags"] == expected


def test_the_alpha_of_hunyuan_is_raised_as_its_own_rule_says(call, tmp_path):
    scaling = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    config = {**CONFIG, "model_type": "hunyuan_v1_dense", "head_dim": 64, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = json.loads(call("plan", "--config", "config.json", "--to", "512", "--json")[1])
    ntk = next(recipe for recipe in found["recipes"] if recipe["recipe"] == "ntk")
    assert ntk["config"]["rope_scaling"]["alpha"] == 2000.0
    assert ntk["pairs"]["smallest"] == pytest.approx(0.5)
    assert "linear" in found["left_out"]


def test_a_head_wider_than_any_is_refused(tmp_path, refused):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "head_dim": 8192}))
    assert "8192 columns; at most 4096" in refused("plan", "--config", "config.json", "--to", "512")


def test_notes_and_flags_wait_where_the_screen_is_short():
    planned, _ = plan_length(CONFIG, 1024, name="config.json")
    short = plan_text(planned, [], Typesetter(), height=23)
    assert "Notes, and flags for engines: --recipe yarn." in " ".join(short.split())
    assert '"rope_type": "yarn"' in short
    assert short.count("\n") < 23
    assert "--hf-overrides" not in short
    assert "--hf-overrides" in plan_text(planned, [], Typesetter(), height=50)
    assert "--hf-overrides" in plan_text(planned, [], Typesetter(), recipe="ntk", height=5)


def test_as_many_bases_are_tried_as_are_asked_for(call, config, refused):
    asked = ("plan", "--config", config, "--to", "1024")
    found = json.loads(call(*asked, "--bases", "7", "--json")[1])["bases"]
    assert (found["per_decade"], found["tried"]) == (7, 57)
    assert sum(interval["count"] for interval in found["intervals"]) == found["qualify"]
    assert "cosines; at most" in refused(*asked, "--bases", "1e9")


def test_flags_on_several_lines_are_one_command_to_a_shell(call, config):
    _, out, _ = call("plan", "--config", config, "--to", "1024", "--recipe", "yarn")
    asked = json.loads(call("plan", "--config", config, "--to", "1024", "--json")[1])
    yarn = next(recipe for recipe in asked["recipes"] if recipe["recipe"] == "yarn")
    printed = out.partition("yarn, vllm:\n")[2].partition("\nyarn, sglang")[0]
    words = shlex.split(printed.replace(" \\\n", " "))
    expected = shlex.split(yarn["engines"]["vllm"]["flags"])
    for each in (words, expected):
        each[1] = json.loads(each[1])
    assert words == expected


INTERNLM2 = {"model_type": "internlm2", "hidden_size": 4096, "num_attention_heads": 32}
INTERNLM2 |= {"max_position_embeddings": 32768, "rope_theta": 1e6}
INTERNLM2 |= {"rope_scaling": {"type": "dynamic", "factor": 2.0}}


def rivals(found):
    """The recipe that is recommended, by the name in the verdict, and as is."""
    by_name = {own["recipe"]: own for own in found["recipes"]}
    name = found["verdict"].split(": ")[1].removeprefix("set ").split(",")[0]
    return by_name.get(name), by_name["as-is"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-2-7b"])
def test_what_is_recommended_is_no_worse_than_as_is(call, model):
    out = call("plan", "--model", model, "--to", "262144", "--bases", "2", "--json")[1]
    new, old = rivals(json.loads(out))
    far = float("inf")
    assert len(new["unseen"]) <= len(old["unseen"])
    for column in ("unseen_from", "negative_from"):
        assert (new[column] or far) >= (old[column] or far)


@pytest.mark.long
def test_a_config_that_has_nothing_to_improve_is_left_as_it_is(call, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(INTERNLM2))
    asked = ("plan", "--config", "config.json", "--to", "65536", "--bases", "2")
    found = json.loads(call(*asked, "--json")[1])
    assert found["verdict"].startswith("internlm2: leave it as it is for 65536 positions")
    assert found["cause"].endswith("no angle is unseen; the sum of cosines is never negative")
    assert found["next"] is None


@pytest.mark.long
def test_a_recipe_that_improves_one_column_and_worsens_another_is_not_recommended():
    found, _ = plan_length(INTERNLM2, 131072, name="internlm2", per_decade=1)
    worse = [own for own in found.recipes if own.name != "base"]
    assert "internlm2: set base" in plan_answer(found, (), None).verdict
    answer = plan_answer(replace(found, recipes=tuple(worse)), (), None)
    assert "internlm2: leave it as it is" in answer.verdict
    neither = "no recipe improves unseen angles or the sum of cosines without worsening the other"
    assert answer.cause.endswith(neither)
    assert answer.next is None


def test_scaling_that_reaches_the_length_is_kept(call):
    asked = ("plan", "--model", "qwen2.5-7b-yarn", "--bases", "2", "--json", "--to")
    found = json.loads(call(*asked, "131072")[1])
    assert found["verdict"].startswith("qwen2.5-7b-yarn: set yarn, factor 4, for 131072 positions")
    assert '"max_position_embeddings": 131072}' in found["next"]
    found = json.loads(call(*asked, "100000")[1])
    assert found["verdict"].startswith("qwen2.5-7b-yarn: leave it as it is for 100000 positions")
    assert "the config's own scaling reaches this length" in found["cause"]


VICUNA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}
VICUNA |= {"max_position_embeddings": 256, "rope_scaling": {"type": "linear", "factor": 4.0}}


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "to", "told"),
    [
        ({"max_sequence_length": 1024}, 1024, "set nothing"),
        ({"max_sequence_length": 1024}, 2048, "set linear, factor 8,"),
        ({}, 1024, "set linear, factor 16,"),
        ({}, 2048, "set linear, factor 32,"),
        ({"max_position_embeddings": 1024}, 1024, "set nothing"),
    ],
)
def test_no_factor_comes_on_top_of_one_that_serves_the_length(call, tmp_path, more, to, told):
    """max_sequence_length of vicuna-7b-v1.5-16k is 4 × max_position_embeddings."""
    (tmp_path / "config.json").write_text(json.dumps({**VICUNA, **more}))
    _, out, err = call("plan", "--config", "config.json", "--to", str(to))
    assert told in out.splitlines()[0]
    unsure = not more and to == 1024
    assert ("the factor already reaches 1024 positions" in " ".join(err.split())) is unsure


def test_the_context_of_gemma_3_is_that_after_scaling(call):
    """Its factor of 8 makes 131072 positions, and no 1048576 of them."""
    status, _, err = call("plan", "-m", "gemma-3-4b", "--to", "262144")
    assert status == 0
    assert "already" not in err
