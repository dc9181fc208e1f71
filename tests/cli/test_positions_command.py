"""``posenc positions``: what it prints, what it compares, and what it refuses."""

import json

import numpy as np
import pytest

LLAMA = ("positions", "-m", "llama-3-8b")
QWEN = ("positions", "-m", "qwen2-vl-7b")


def test_three_rows_of_a_prompt_with_an_image(call):
    status, out, _ = call(*QWEN, "--text", "2,1", "--grid", "1,4,4")
    assert (status, out.splitlines()) == (0, ["0,1,2,2,2,2,4", "0,1,2,2,3,3,4", "0,1,2,3,2,3,4"])


def test_json_has_a_row_an_axis_and_where_generation_goes_on(document):
    shown = document(*QWEN, "--grid", "1,2,6")
    assert (shown["rows"], shown["columns"]) == ([0, 1, 1, 1, 4], [0, 1, 2, 3, 4])
    assert (shown["frames"], shown["next"]) == ([0, 1, 1, 1, 4], 5)


@pytest.mark.parametrize(
    ("model", "prompt", "row"),
    [
        ("llama-3-8b", "--text 3 --pad-left 2", "0,0,0,1,2"),
        ("roberta-base", "--text 3 --pad-left 2", "1,1,2,3,4"),  # which begins after padding
        ("llama-3-8b", "--text 3,2", "0,1,2,0,1"),  # packed sequences begin anew
    ],
)
def test_text_has_one_row(call, model, prompt, row):
    assert call("positions", "-m", model, *prompt.split()) == (0, f"{row}\n", "")


def test_a_rule_that_was_assumed_is_said_beside_the_ids(call, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "csm"}')
    asked = ("positions", "--config", str(config), "--text", "2")
    assert call(*asked)[2] == ""
    status, out, err = call(*asked, "--pad-left", "1")
    assert (status, out) == (0, "0,0,1\n")
    assert "whether csm counts padding was not read in its code: assumed to be skipped" in err
    np.save(tmp_path / "ids.npy", np.array([0, 0, 1]))
    for more in ((), ("--check", str(tmp_path / "ids.npy"))):
        (said,) = json.loads(call(*asked, "--pad-left", "1", *more, "--json")[1])["warnings"]
        assert said in err


@pytest.mark.parametrize(
    ("ids", "status", "said"),
    [
        ([9, 9, 0, 1, 2], 0, "ok: all 3 ids are the model's"),
        ([0, 1, 2, 3, 4], 1, "cause: padding: left padding is counted as tokens"),
        ([0, 0, 0, 2, 1], 1, "cause: unknown"),
    ],
)
def test_a_file_is_compared_and_its_cause_named(call, tmp_path, ids, status, said):
    np.save(tmp_path / "ids.npy", np.array(ids))
    asked = (*LLAMA, "--text", "3", "--pad-left", "2", "--check", str(tmp_path / "ids.npy"))
    assert call(*asked)[0] == status
    assert said in call(*asked)[1]
    shown = json.loads(call(*asked, "--json")[1])
    assert [*shown][:5] == ["schema", "ok", "verdict", "cause", "next"]
    assert shown["ok"] is (status == 0)
    assert shown["verdict"].startswith("ok: " if status == 0 else "FAILED: ")
    assert ("expected" in shown) is (status == 1)


@pytest.mark.parametrize("kind", ["ernie4_5_vl_moe", "ernie4_5_vl_moe_text"])
def test_a_video_whose_frames_are_merged_has_as_many_ids_as_the_model_makes(call, tmp_path, kind):
    """Ernie 4.5 VL merges two frames into one row of tokens: 4 × 4 × 4 patches are 8 tokens."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": kind}))
    asked = ("positions", "--config", str(config), "--text", "2,1", "--grid", "video:4,4,4")
    frames, *others = call(*asked)[1].splitlines()
    assert frames == "0,1,2,2,2,2,3,3,3,3,4"
    ids = [row.split(",") for row in (frames, *others)]
    np.save(tmp_path / "ids.npy", np.array(ids, dtype=int))
    status, out, _ = call(*asked, "--check", str(tmp_path / "ids.npy"))
    assert (status, out) == (0, "ok: all 33 ids are the model's\n")


def test_one_position_on_all_axes_is_named_and_none_at_all_is_not(call, tmp_path):
    asked = (*QWEN, "--text", "0,0", "--grid", "1,2,6", "--check", str(tmp_path / "ids.csv"))
    np.savetxt(tmp_path / "ids.csv", np.tile(np.arange(3), (3, 1)), delimiter=",", fmt="%d")
    status, out, _ = call(*asked)
    assert (status, "cause: one axis: " in out) == (1, True)
    np.savetxt(tmp_path / "ids.csv", np.zeros((3, 3)), delimiter=",", fmt="%d")
    assert "cause: unknown" in call(*asked)[1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("positions", "--text", "3"), "--model or --config: one of them is needed"),
        (LLAMA, "--text or --grid: at least one token is needed"),
        ((*LLAMA, "--text", "x"), "must be numbers of tokens"),
        ((*LLAMA, "--text", "0"), "--text or --grid: at least one token is needed"),
        ((*QWEN, "--grid", "1,4"), "must be FRAMES,ROWS,COLUMNS"),
        ((*QWEN, "--grid", "1,4,4@2"), "must be FRAMES,ROWS,COLUMNS"),
        ((*QWEN, "--grid", "1,3,4"), "multiples of 2"),
        ((*QWEN, "--grid", "9,9999998,9999998"), "tokens"),
        ((*LLAMA, "--text", "9e99"), "tokens"),
        ((*LLAMA, "--grid", "1,4,4"), "posenc does not know how"),
    ],
)
def test_what_cannot_be_asked_is_one_line_of_status_2(asked, said, refused):
    assert said in refused(*asked)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.arange(4), "the prompt has 3 tokens"),
        (np.array([0, 1, 1.5]), "ids must be whole numbers"),
        (np.array([0, 1, np.nan]), "ids must be whole numbers below 2^53"),
        (np.arange(12).reshape(2, 2, 3), "holds an array of shape 2×2×3"),
    ],
)
def test_a_file_of_something_else_is_refused(values, said, refused):
    np.save("ids.npy", values)
    assert said in refused(*LLAMA, "--text", "3", "--check", "ids.npy")


def test_every_sequence_of_a_batch_is_compared(call, tmp_path):
    asked = (*LLAMA, "--text", "3", "--pad-left", "2", "--check", str(tmp_path / "ids.npy"))
    right, counted = [7, 7, 0, 1, 2], [0, 1, 2, 3, 4]
    np.save(tmp_path / "ids.npy", np.array([right, right]))
    assert call(*asked)[:2] == (0, "ok: all 6 ids are the model's\n")
    np.save(tmp_path / "ids.npy", np.array([right, counted, right, counted]))
    status, out, _ = call(*asked)
    assert (status, "FAILED: 6 of 12 ids differ" in out) == (1, True)
    assert "cause: padding: " in out
    assert "sequence 1, token 2: expected 0, found 2" in out
    assert json.loads(call(*asked, "--json")[1])["sequence"] == 1
    np.save(tmp_path / "ids.npy", np.array([right, counted, [0, 0, 9, 9, 9]]))
    assert "cause: unknown" in call(*asked)[1]  # no cause gives both of the wrong ones


@pytest.mark.parametrize("sequences", [2, 3])
def test_a_batch_of_ids_on_three_axes_has_its_axes_first(sequences, call, tmp_path):
    asked = (*QWEN, "--text", "2,1", "--grid", "1,4,4", "--check", str(tmp_path / "ids.npy"))
    rows = ["0,1,2,2,2,2,4", "0,1,2,2,3,3,4", "0,1,2,3,2,3,4"]
    right = np.array([[*map(int, row.split(","))] for row in rows])
    batch = np.stack([right] * sequences, 1)
    np.save(tmp_path / "ids.npy", batch)
    assert call(*asked)[0] == 0
    batch[2, 1, 3] = 9
    np.save(tmp_path / "ids.npy", batch)
    status, out, _ = call(*asked)
    assert (status, "sequence 1, token 3, columns: expected 3, found 9" in out) == (1, True)
