"""The ids of positions of prompts, against those that transformers' own code gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.checks.position_ids import (
    PatchGrid,
    Prompt,
    assumptions,
    check_ids,
    position_ids,
)
from posenc_cli.configs import families, nonrotary
from posenc_cli.configs.config import resolve
from posenc_cli.configs.position_rules import PADDING, SEEING, position_rule
from posenc_cli.errors import InvalidInput

GOLDEN = Path(__file__).parents[1] / "golden" / "position_ids.json"
CASES = {case["name"]: case for case in json.loads(GOLDEN.read_text("utf-8"))["cases"]}


def rule_of(model_type, **vision):
    config = {"model_type": model_type, **({"vision_config": vision} if vision else {})}
    return position_rule(config, name="config.json")


def asked(case):
    grids = tuple(PatchGrid(*grid) for grid in case["grids"])
    prompt = Prompt(tuple(case["text"]), grids, case["left"], case["right"])
    return position_rule(case["config"], name="config.json"), prompt


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_the_models_own_code(name):
    rule, prompt = asked(CASES[name])
    np.testing.assert_array_equal(position_ids(rule, prompt), CASES[name]["ids"])
    assert check_ids(rule, prompt, np.array(CASES[name]["ids"])).ok


def test_every_model_type_with_axes_has_ids_of_its_own_code():
    assert {case["config"]["model_type"] for case in CASES.values() if case["grids"]} == {*SEEING}


@pytest.mark.parametrize("kind", ["mpnet", "mra", "nystromformer", "yoso", "roberta", "ibert"])
def test_ids_count_from_the_first_row_that_the_config_resolves_to(kind):
    config = {"model_type": kind, "pad_token_id": 1}
    group = resolve(config).layers[0]
    assert position_rule(config, name="config.json").start == group.values()["offset"] == 2


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CASES if "tenths" not in name])
def test_one_wrong_id_never_passes_and_padding_is_not_compared(name):
    rule, prompt = asked(CASES[name])
    right = np.array(CASES[name]["ids"])
    tokens = right.shape[1]
    for token in range(tokens):
        wrong = right.copy()
        wrong[-1, token] += 1
        padding = token < prompt.left or token >= tokens - prompt.right
        found = check_ids(rule, prompt, wrong)
        assert found.ok is padding
        assert padding or (found.count, found.axis, found.token) == (1, len(right) - 1, token)


TEXT = rule_of("llama")
BERT = rule_of("bert")
ROBERTA = rule_of("roberta", pad_token_id=1)
ROBERTA_514 = position_rule(
    {"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 514}, name="config.json"
)
QWEN = rule_of("qwen2_5_vl", tokens_per_second=2)
UNREAD = position_rule({"model_type": "csm"}, name="config.json")
PICTURE = Prompt((3, 2), (PatchGrid(1, 4, 8),))
VIDEO = Prompt((3, 2), (PatchGrid(4, 4, 6, video=True, seconds=1.5),))


def hand_made(text, grid, *, step=1, swapped=False, by_columns=False, after="side"):
    """M-RoPE's ids by loops, as a port of it would have them."""
    frames, rows, columns = grid
    before, behind = text
    ids = [[i, i, i] for i in range(before)]
    cells = [(t, r, c) for t in range(frames) for r in range(rows) for c in range(columns)]
    if by_columns:
        cells = sorted(cells, key=lambda cell: (cell[0], cell[2], cell[1]))
    for t, r, c in cells:
        first, second = (c, r) if swapped else (r, c)
        ids.append([before + int(t * step), before + first, before + second])
    sizes = {"side": before + max(rows, columns), "tokens": before + len(cells)}
    start = sizes.get(after, max(map(max, ids)) + 1)
    ids += [[start + i] * 3 for i in range(behind)]
    return np.array(ids).T


@pytest.mark.parametrize(
    ("rule", "prompt", "wrong", "told"),
    [
        (TEXT, Prompt((6,), left=3), np.arange(9)[None], "padding: left padding is counted"),
        (
            BERT,
            Prompt((6,), left=3),
            np.array([[0, 0, 0, *range(6)]]),
            "padding: left padding is skipped, the model counts it",
        ),
        (TEXT, Prompt((4, 3, 2)), np.arange(9)[None], "packing: ids do not restart at each packed"),
        (TEXT, Prompt((5,)), np.arange(1, 6)[None], "offset: every id is 1 too large"),
        (ROBERTA, Prompt((5,)), np.arange(5)[None], "offset: every id is 2 too small"),
        (
            QWEN,
            PICTURE,
            hand_made((3, 2), (1, 2, 4), swapped=True),
            "grid order: the axes are frames, columns, rows",
        ),
        (
            QWEN,
            PICTURE,
            hand_made((3, 2), (1, 2, 4), by_columns=True),
            "grid order: column by column",
        ),
        (
            QWEN,
            PICTURE,
            hand_made((3, 2), (1, 2, 4), after="tokens"),
            "after a grid: after all its tokens",
        ),
        (QWEN, PICTURE, np.arange(13)[None], "one axis: the same position on all three"),
        (
            QWEN,
            VIDEO,
            hand_made((3, 2), (4, 2, 3), step=1),
            "temporal step: frames are 1 apart, not 3",
        ),
        (
            QWEN,
            VIDEO,
            hand_made((3, 2), (4, 2, 3), step=2),
            "temporal step: frames are 2 apart, not 3",
        ),
        (
            QWEN,
            VIDEO,
            hand_made((3, 2), (4, 2, 3), step=3, after="largest"),
            "after a grid: after its largest id",
        ),
        (
            QWEN,
            PICTURE,
            hand_made((3, 2), (1, 2, 4), swapped=True) + 1,
            "grid order: and every id is 1 too large",
        ),
    ],
)
def test_a_mistake_is_named_where_it_gives_every_id(rule, prompt, wrong, told):
    cause, words = told.split(": ", 1)
    found = check_ids(rule, prompt, wrong)
    assert not found.ok
    assert [each.cause for each in found.causes] == [cause]
    assert words in found.causes[0].text
    assert found.several is bool(prompt.grids)


@pytest.mark.parametrize(
    ("rule", "prompt", "wrong", "words"),
    [
        (TEXT, Prompt((6,), left=4), np.arange(-3, 7)[None], "every id is 1 too large"),
        (ROBERTA, Prompt((6,), left=4), np.arange(-4, 6)[None], "every id is 2 too small"),
        (BERT, Prompt((6,), left=4), np.arange(1, 11)[None], "every id is 1 too large"),
        (QWEN, Prompt((3, 2), (PatchGrid(1, 4, 4),)), None, "every id is 1 too large"),
    ],
)
def test_an_offset_that_gives_every_id_is_the_only_cause(rule, prompt, wrong, words):
    wrong = position_ids(rule, prompt) + 1 if wrong is None else wrong
    (found,) = check_ids(rule, prompt, wrong).causes
    assert (found.cause, found.text) == ("offset", words)


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514}, 512),
        ({"model_type": "bert"}, 512),
        ({"model_type": "bart", "max_position_embeddings": 1024}, 1024),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
    ],
)
def test_ids_past_a_learned_table_are_refused(config, most):
    rule = position_rule(config, name="config.json")
    assert position_ids(rule, Prompt((most, 2))).shape == (1, most + 2)
    with pytest.raises(InvalidInput, match=rf"{most + 1} tokens: the table of .* has \d+ rows"):
        position_ids(rule, Prompt((2, most + 1)))


def test_padding_needs_rows_only_where_it_is_counted():
    padded = Prompt((512,), left=1)
    assert position_ids(ROBERTA_514, padded)[0, -1] == 513
    with pytest.raises(InvalidInput, match="513 tokens, padding among them: the table of bert"):
        position_ids(BERT, padded)


@pytest.mark.parametrize(
    ("kind", "uses"),
    [("t5", False), ("bloom", False), ("jamba", False), ("gpt2", True), ("llama", True)],
)
def test_a_model_without_position_ids_gets_a_note(kind, uses):
    said = assumptions(rule_of(kind), Prompt((3,)))
    assert [f"{kind} uses no position ids" in each for each in said] == [True] * (not uses)


def test_what_was_assumed_of_padding_is_said_only_of_code_that_was_not_read():
    padded = Prompt((6,), left=3)
    assert len(assumptions(UNREAD, padded)) == 1
    assert not [*assumptions(UNREAD, Prompt((6,))), *assumptions(TEXT, padded)]
    assert not [*assumptions(BERT, padded), *assumptions(ROBERTA, padded)]


def test_models_that_were_read_are_models_that_configs_are_read_of():
    known = {*families.names(), *nonrotary.FAMILIES, *families.refusals()}
    assert PADDING["skipped"] | PADDING["counted"] <= known
    assert not PADDING["skipped"] & PADDING["counted"]


def test_ids_that_no_mistake_gives_have_no_cause():
    wrong = hand_made((3, 2), (1, 2, 4))
    wrong[1, 5] += 1
    assert check_ids(QWEN, PICTURE, wrong).causes == ()


def test_the_right_ids_of_another_writing_pass():
    np.testing.assert_array_equal(position_ids(QWEN, VIDEO), hand_made((3, 2), (4, 2, 3), step=3))


def test_text_of_a_model_with_axes_may_have_one_row_or_three():
    for rows in (1, 3):
        given = np.tile(np.arange(5), (rows, 1))
        assert check_ids(QWEN, Prompt((5,)), given).ok
    assert not check_ids(QWEN, Prompt((5,)), np.vstack([np.arange(5)] * 2 + [np.arange(1, 6)])).ok


@pytest.mark.parametrize(
    ("rule", "prompt", "words"),
    [
        (TEXT, PICTURE, "posenc does not know how llama counts the patches"),
        (rule_of("hunyuan_vl"), PICTURE, "how hunyuan_vl_text counts the patches"),
        (QWEN, Prompt((1,), (PatchGrid(1, 4, 4),)), "needs 2 numbers"),
        (QWEN, Prompt((1, 0, 1), (PatchGrid(1, 4, 4),) * 2), "without text between two grids"),
        (QWEN, Prompt((1, 1), (PatchGrid(1, 5, 4),)), "multiples of 2"),
        (rule_of("qwen2_5_omni"), Prompt((0, 1), (PatchGrid(1, 4, 4),)), "needs a token before"),
        (rule_of("qwen2_5_omni"), Prompt((3, 3), (PatchGrid(3, 4, 4),)), "an image has one frame"),
        (
            rule_of("qwen3_vl"),
            Prompt((1, 1), (PatchGrid(2, 4, 4, video=True),)),
            "each frame as a",
        ),
    ],
)
def test_what_the_models_own_code_could_not_be_asked_is_refused(rule, prompt, words):
    with pytest.raises(InvalidInput, match=words):
        position_ids(rule, prompt)
