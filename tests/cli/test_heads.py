"""``posenc heads``: the table, the JSON, the picture, the status, and what is refused."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "understand.md"
CLAIMS = re.findall(r"^\|.*\| `posenc (heads .+)` \|$", PAGE.read_text(), re.MULTILINE)
SMALL = ("--dim", "8", "--train", "12")


def test_json_has_what_was_promised_and_what_was_learned(document):
    found = document("heads", "-s", "rope", "-s", "alibi", "--dim", "32")
    assert (found["train"], found["l2"]) == (100, 1e-4)
    rope, alibi = found["results"]
    assert (rope["scheme"], rope["stretch"], rope["target"]) == ("rope", "none", "previous")
    assert [each["length"] for each in rope["lengths"]] == [100, 200, 400, 800]
    assert rope["l2"] == alibi["l2"] == 1e-4
    assert [each["right"] for each in rope["lengths"]] == [1.0] * 4
    # The most that geometric weights give a key: q(1 − q) for the keys of a long sequence.
    assert alibi["lengths"][-1]["mass"] == pytest.approx(0.25, abs=1e-3)
    assert [each["right"] for each in alibi["lengths"]] == [0.0] * 4
    assert len(rope["learned"]["pairs"]) == 16
    assert rope["learned"]["pairs"][0]["wavelength"] == pytest.approx(2 * np.pi)
    assert alibi["learned"] == {"amplitude": pytest.approx(2 * np.log(2), abs=0.05)}
    assert rope["gradient_below"] <= 1e-12


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_the_page_says_of_encodings_holds(claim, printed):
    first = printed(*shlex.split(claim), err="").splitlines()[: claim.count("--require")]
    assert [line[:4] for line in first] == ["ok: "] * len(first)


def test_the_page_has_the_claims_that_heads_can_settle():
    assert len(CLAIMS) == 11


@pytest.mark.long
def test_the_answer_names_the_most_and_the_least_attention(call):
    line = ("heads", "-s", "rope", "-s", "t5", "-s", "alibi", "-d", "32", "--target", "previous")
    found = json.loads(call(*line, "--json")[1])["results"]
    masses = {head["scheme"]: head["lengths"][-1]["mass"] for head in found}
    first = call(*line)[1].splitlines()[0]
    names = [max(masses, key=masses.get), min(masses, key=masses.get)]
    assert re.findall(r"(\S+) \S+ \((?:most|least)\)", first) == names


@pytest.mark.long
def test_a_requirement_that_fails_is_status_1_and_says_by_how_much(printed, report):
    asked = ("-s", "rope", "-d", "32", "--stretch", "none,linear", "--require", "previous@2x>=0.9")
    assert "FAILED: previous@2x>=0.9: rope, linear: 0.12" in printed("heads", *asked, status=1)
    status, found = report("heads", *asked)
    assert (status, found["ok"]) == (1, False)
    assert found["requirements"][0]["failing"] == [{"scheme": "rope", "stretch": "linear"}]


def test_a_requirement_that_holds_is_silent_where_that_is_asked_for(call):
    asked = ("-s", "alibi", "--train", "12", "-q", "--require")
    assert call("heads", *asked, "previous@2x.right<=0") == (0, "", "")
    status, out, _ = call("heads", *asked, "previous@2x.right>=1")
    assert (status, "FAILED" in out) == (1, True)


def test_a_mask_of_ones_own_is_a_target(tmp_path, document):
    np.save(tmp_path / "mask.npy", np.eye(24, k=-1, dtype=bool))
    of_file = document("heads", "-s", "rope", *SMALL, "--test", "24", "--target", "mask.npy")
    named = document("heads", "-s", "rope", *SMALL, "--test", "2x", "--target", "previous")
    assert of_file["results"][0]["lengths"] == named["results"][0]["lengths"]
    assert of_file["results"][0]["target"] == "mask.npy"


def test_of_a_mask_that_marks_nothing_far_out_nothing_is_measured_there(call, tmp_path, document):
    mask = np.zeros((24, 24))
    mask[5, 2] = 1
    np.savetxt(tmp_path / "mask.csv", mask, delimiter=",", fmt="%d")
    asked = ("-s", "rope", *SMALL, "--test", "24", "--target", "mask.csv")
    (result,) = document("heads", *asked)["results"]
    unmeasured = {"length": 24, "queries": 0, "mass": None, "right": None, "untrained": []}
    assert result["lengths"][1] == unmeasured
    assert re.search(r"^rope +\S+ 1 +-$", call("heads", *asked)[1], re.MULTILINE)
    assert call("heads", *asked, "--require", "mask.csv@2x<=1")[0] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda mask: mask[:, :5], "a square matrix, queries × keys; it is 24 × 5"),
        (lambda mask: mask[:16, :16], "has 16 positions, but a test has 24"),
        (lambda mask: mask + np.eye(24, k=2), "query 0 marks key 2, which comes after it"),
        (lambda mask: mask / 2, "must hold only 0 and 1; at query 1, key 0 it holds 0.5"),
        (lambda mask: mask * np.nan, "it holds nan"),
    ],
)
def test_a_mask_that_is_none_is_refused(change, said, tmp_path, refused):
    np.save(tmp_path / "mask.npy", change(np.eye(24, k=-1)))
    assert said in refused("heads", "-s", "rope", *SMALL, "--test", "24", "--target", "mask.npy")


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "--scheme, --config or --model: give one of them"),
        ("-s rope --target back", "--target 'back': must be one of previous, back:K"),
        ("-s rope --target back:0", "back takes a whole number from 1"),
        ("-s rope --target back:100", "none of the --train 100 queries has such a key"),
        ("-s rope --target no.npy", "no.npy"),
        ("-s rope --test 50", "--test 50 is shorter than --train 100"),
        ("-s rope --test 2y", "--test '2y': must be an integer"),
        ("-s alibi --stretch yarn", "changes the frequencies of rope; it does not apply to alibi"),
        ("-s learned", "position 799 is past the last that learned can encode"),
        ("-s rope --head 0", "--head 0: only bias schemes have heads"),
        ("-s alibi --head 8", "--head 8: the heads are 0 to 7"),
        ("-s rope --l2 0", "--l2 0: must be from 1e-12"),
        ("-s rope --require first@3x>=0.5", "300 is not one of the lengths 100, 200, 400, 800"),
        ("-s rope --target first --require previous@2x>=0.5", "'previous' is not one of the"),
        ("-s rope --target first --target previous --plot", "one target, and 2 are given"),
        ("-s rope --train 1025", "1025 positions; at most 1024"),
        ("-s rope --test 1000000", "100000000 scores"),
        ("-s rope --len 8", "--len"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(arguments, said, refused):
    assert said in refused("heads", *arguments.split(), status=3 if "no.npy" in arguments else 2)


@pytest.mark.usefixtures("own")
def test_schemes_of_ones_own_are_fitted_and_blamed_for_what_they_raise(document, refused):
    (only,) = document("heads", "-s", "./own.py:halving", "--train", "12")["results"]
    (pairs,) = only["learned"].values()
    halved = [2 * np.pi * 2**pair for pair in range(4)]
    assert [pair["wavelength"] for pair in pairs] == pytest.approx(halved)
    err = refused("heads", "-s", "./own.py:broken", "--train", "12")
    assert "its code raised ZeroDivisionError" in err


def test_of_a_hybrid_each_part_is_a_head_and_rope_alone_is_stretched(document):
    found = document("heads", "-s", "rope+alibi", *SMALL, "--stretch", "none,ntk")
    results = [(each["scheme"], each["stretch"]) for each in found["results"]]
    assert results == [("rope", "none"), ("rope", "ntk"), ("alibi", "none")]


def test_models_are_told_by_their_names_and_read_as_they_are(document):
    found = document(
        "heads", "-m", "llama-3-8b", "-m", "bloom-176b", "--train", "12", "--test", "2x"
    )
    assert [each["source"] for each in found["results"]] == ["llama-3-8b", "bloom-176b"]
    assert found["results"][0]["params"]["base"] == 500000.0
    assert found["results"][1]["params"]["heads"] == 112


def test_of_a_config_a_table_that_is_learned_anew_is_not_warned_of(call, tmp_path, document):
    config = {"model_type": "t5", "d_model": 64, "num_heads": 4, "d_kv": 16, "vocab_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = ("--config", "config.json", "--layer-type", "decoder", "--train", "12")
    assert document("heads", *asked)["results"][0]["weights"] is None
    assert "randomly initialized" in call("heads", "-m", "bert-base", "--train", "12")[2]


def test_the_picture_is_of_scores_by_offset_and_amplitudes_by_wavelength(document):
    asked = ("-s", "rope", "-s", "alibi", *SMALL, "--stretch", "none,linear", "--plot")
    scores, amplitudes = document("heads", *asked)["panels"]
    assert [curve["name"] for curve in scores["curves"]] == ["rope", "rope, linear", "alibi"]
    assert [span["to"] for span in scores["spans"]] == [11.0]
    assert [curve["name"] for curve in amplitudes["curves"]] == ["rope"]
    assert len(amplitudes["curves"][0]["y"]) == 4
    assert np.argmax(scores["curves"][0]["y"][:12]) == 1  # the previous token
    (only,) = document("heads", "-s", "alibi", "--train", "12", "--plot")["curves"]
    assert len(only["x"]) == 96


def test_where_scores_depend_on_more_than_the_offset_two_queries_are_drawn(document):
    curves = document("heads", "-s", "sinusoidal", *SMALL, "--plot")["curves"]
    drawn = {curve["name"]: len(curve["x"]) for curve in curves}
    assert drawn == {"sinusoidal, query 11": 12, "sinusoidal, query 95": 96}


def test_a_bucket_never_trained_is_said(call):
    out = call("heads", "-s", "t5", "--set", "bidirectional=false")[1]
    said = "bucket 31 does not occur in training. From length 200 on, it gets the score 0."
    assert said in " ".join(out.split())


@pytest.mark.slow
def test_the_bytes_are_the_same_whatever_the_threads(posenc):
    line = ("heads", "-s", "rope", "-s", "sinusoidal", "-d", "32", "--train", "128", "--json")
    one, two = (posenc(*line, env={"OPENBLAS_NUM_THREADS": count}) for count in "12")
    assert (one.returncode, one.stdout) == (0, two.stdout)
