"""Every model type of transformers is read, or refused for a reason of its own that is true."""

import json
from pathlib import Path

import pytest

from posenc_cli.configs import families, nonrotary, vision
from posenc_cli.configs.config import resolve
from posenc_cli.configs.families import refusals
from posenc_cli.errors import InvalidInput

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "registry.json").read_text("utf-8"))
CASES = {case["model_type"]: case for case in GOLDEN["cases"]}
READ = {*nonrotary.FAMILIES, *vision.FAMILIES, *families.names("containers")} | {
    each.model_type for each in filter(None, map(families.rotary, sorted(families.names())))
}
REFUSED = refusals()
TOO_LITTLE = {
    *("esm", "gemma4_assistant", "glm46v", "glm4_moe", "glm4v", "glm4v_moe", "glm4v_moe_text"),
    *("glm4v_text", "glm_image", "glm_image_text", "glmga", "qwen3_omni_moe"),
    *("qwen3_omni_moe_text", "qwen3_omni_moe_thinker", "zamba2"),
    *("qwen3_omni_moe_talker_text", "qwen4_exp", "qwen4_exp_text"),
}
"""Model types that are read, whose configs must say more than what transformers takes else."""
GONE = {"transfo-xl"}
"""Model types of earlier versions of transformers."""


def test_every_model_type_of_transformers_is_read_or_refused():
    assert set(CASES) - READ == REFUSED.keys() & set(CASES)
    assert len(CASES) == 822
    assert GOLDEN["transformers"] == "5.24.0"


def test_types_with_code_of_their_own_are_none_of_transformers():
    assert families.remotes().keys() & {*CASES, *GONE} == set()


def test_what_is_read_is_not_refused_and_what_is_refused_is_of_transformers():
    assert set() == READ & REFUSED.keys()
    assert set(CASES) >= REFUSED.keys()
    assert {*families.names(), *families.names("containers"), *families.names("others")} == {
        *CASES,
        *GONE,
    }


@pytest.mark.sweep(7)
@pytest.mark.parametrize("model_type", sorted(READ & set(CASES) - TOO_LITTLE))
def test_a_type_that_is_read_is_read_by_its_name_alone(model_type):
    assert resolve({"model_type": model_type}).layers


@pytest.mark.long
@pytest.mark.parametrize("model_type", sorted(REFUSED))
def test_a_type_that_is_refused_says_why(model_type):
    with pytest.raises(InvalidInput) as refused:
        resolve({"model_type": model_type})
    assert refused.value.message == f"config.json: {model_type} {REFUSED[model_type]['because']}"


WITHOUT = [name for name, case in CASES.items() if case.get("attends") is False]


@pytest.mark.parametrize("model_type", sorted(REFUSED.keys() & set(WITHOUT)))
def test_no_module_that_attends_is_in_a_model_that_is_said_to_have_no_attention(model_type):
    because = REFUSED[model_type]["because"]
    said = ("no attention", "adds no positions", "recurrent head")
    assert any(words in because for words in said)


@pytest.mark.parametrize(
    "model_type", [name for name, row in REFUSED.items() if row["because"] == "has no attention"]
)
def test_a_model_that_attends_is_not_said_to_have_no_attention(model_type):
    # What RWKV calls attention is a recurrence.
    assert CASES[model_type].get("attends") is not True or model_type == "rwkv"


TABLES = {**nonrotary.FAMILIES, **vision.FAMILIES}
LEARNED = sorted(
    name
    for name, family in TABLES.items()
    if family.read == "learned" and CASES.get(name, {}).get("tables")
)


@pytest.mark.parametrize("model_type", LEARNED)
def test_a_learned_table_has_the_rows_and_columns_that_transformers_makes(model_type):
    given = {"pad_token_id": 1} if model_type == "esm" else {}
    layers = resolve({"model_type": model_type, **given}).layer()
    shape = [layers.params["max_len"].value, layers.params["dim"].value]
    assert shape in [table[-2:] for table in CASES[model_type]["tables"].values()]


@pytest.mark.parametrize(
    "model_type", sorted(name for name, row in nonrotary.FAMILIES.items() if row.read == "nope")
)
def test_models_without_positions_hold_nothing_that_is_called_by_them(model_type):
    assert CASES[model_type] == {"model_type": model_type, "attends": True, "tables": {}}
    assert {each.scheme for each in resolve({"model_type": model_type}).layers} == {"nope"}


def test_a_width_that_rotates_is_refused_where_transformers_takes_none():
    with pytest.raises(InvalidInput, match="accepts only 0"):
        resolve({"model_type": "glm5_next_text", "qk_rope_head_dim": 64})
