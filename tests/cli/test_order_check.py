"""``posenc order-check``: the table, the JSON, the status, and what is refused."""

import json
import re

import numpy as np
import pytest

from posenc_cli import catalogue


@pytest.mark.slow
def test_every_scheme_of_the_catalogue_is_checked(document):
    found = document("order-check")
    assert [each["scheme"] for each in found["schemes"][:-1]] == list(catalogue.BUILT_IN)
    last = found["schemes"][-1]
    assert (last["scheme"], last["causal"], last["sees_order"]) == ("nope", True, True)
    assert found["tokens"] == ["dog", "bites", "man"]


@pytest.mark.slow
def test_the_table_is_read_at_a_glance(printed):
    out = printed("order-check")
    assert "dog bites man → man bites dog" in out
    assert "ok: all behave as declared" in out
    assert max(map(len, out.splitlines())) <= 80


def test_one_scheme_a_hybrid_and_a_sentence(report, printed):
    asked = ("-s", "sinusoidal+t5", "--tokens", "the cat sat on the mat")
    status, found = report("order-check", *asked)
    (only,) = found["schemes"]
    assert (status, only["scheme"]) == (0, "sinusoidal+t5")
    assert (only["sees_order"], only["by_distance"]) == (True, False)
    assert len(found["tokens"]) == 6
    assert "ok: nope behaves as declared" in printed("order-check", "-s", "nope")


def test_schemes_named_one_by_one_are_checked_one_by_one(report, printed):
    names = ("alibi", "sinusoidal+t5")
    alone = [report("order-check", "-s", name)[1]["schemes"][0] for name in names]
    status, found = report("order-check", "-s", names[0], "-s", names[1])
    assert (status, found["schemes"]) == (0, alone)
    # ALiBi alone cannot tell before from after; a hybrid with rows of positions can.
    assert [each["sees_direction"] for each in found["schemes"]] == [False, True]
    out = printed("order-check", "-s", "nope", "-s", "rope", "--expect", "order", status=1)
    assert "FAILED: nope: blind to order" in out
    assert re.search(r"^rope .* order  ", out, re.M)


def test_subjects_of_one_scheme_have_names_and_parameters_of_their_own(report):
    asked = ("-s", "rope", "-s", "rope", "--set", "b.base=500")
    found = report("order-check", *asked)[1]["schemes"]
    assert [each["name"] for each in found] == ["rope (1)", "rope (2)"]
    assert [each["scheme"] for each in found] == ["rope", "rope"]
    assert [each["params"]["base"] for each in found] == [10000, 500]
    models = ("llama-3-8b", "llama-2-7b")
    found = report("order-check", "-m", models[0], "-m", models[1])[1]["schemes"]
    assert tuple(each["name"] for each in found) == models
    assert [each["params"]["base"] for each in found] == [500000, 10000]


def test_a_mask_and_an_expectation_change_the_verdict(report, printed):
    assert report("order-check", "-s", "nope", "--causal")[0] == 0
    assert report("order-check", "-s", "nope", "--expect", "order")[0] == 1
    out = printed("order-check", "-s", "rope", "--expect", "none", status=1)
    assert "FAILED: rope: sees order" in out


@pytest.mark.sweep(3)
@pytest.mark.parametrize("broken", ["rope", "alibi", "transformer-xl"])
def test_whichever_scheme_fails_the_check_does(broken, monkeypatch, document, printed):
    """The first of the catalogue, one between, and one near the end."""
    names = ["rope", "alibi", "nope", "transformer-xl"]
    schemes = {name: catalogue.BUILT_IN["nope" if name == broken else name] for name in names}
    monkeypatch.setattr(catalogue, "BUILT_IN", {**schemes, "nope": catalogue.BUILT_IN["nope"]})
    found = document("order-check", "--expect", "order", status=1)
    failed = [not each["ok"] for each in found["schemes"]]
    assert failed == [name in (broken, "nope") for name in names]
    out = printed("order-check", "--expect", "order", status=1)
    assert out.count("FAILED: nope: ") == 2
    assert "ok: " not in out


def test_length_and_positions_are_those_asked_for(report):
    _, found = report("order-check", "-s", "rope", "--len", "9")
    assert len(found["tokens"]) == 9
    _, far = report("order-check", "-s", "rope", "--positions", "100000:100003")
    assert far["schemes"][0]["by_distance"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--tokens", "dog"], "--tokens"),
        (["--tokens", ""], "two different words"),
        (["--tokens", "5000000"], "at most 512 are allowed"),
        (["--expect", "everything"], "--expect"),
        (["-s", "rope", "--dim", "7"], "--dim 7"),
        (["-s", "rope", "--len", "100000000"], "error: --len 100000000: 100000000 tokens; at most"),
        (["-s", "rope", "--start", "7", "--len", "513"], "error: --start 7 --len 513: 513 tokens"),
        (["-s", "rope", "--positions", "0:2000:2"], "error: --positions 0:2000:2: 1000 tokens"),
        (
            ["-s", "rope", "--len", "5", "--tokens", "a b c"],
            "error: --tokens: 3 tokens, but 5 positions",
        ),
        (["--plot"], "--plot needs an encoding to draw"),
        (["--out", "x.png"], "--out needs an encoding to draw"),
    ],
)
def test_what_cannot_be_checked_is_refused(arguments, named, refused):
    assert named in refused("order-check", *arguments)


def score_maps(call, *arguments):
    status, out, err = call("order-check", *arguments, "--plot", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["schemes"][0]["ok"]
    return found["title"], [np.array(panel["values"]) for panel in found["panels"]]


def test_scores_without_positions_do_not_change_with_the_order_and_with_them_do(call):
    for scheme in ("sinusoidal", "rope", "alibi --set form=bloom", "shaw"):
        title, maps = score_maps(call, "-s", *scheme.split())
        plain, backward, nothing, encoded, encoded_backward, change = maps
        assert not nothing.any()  # nor does rounding get the colours of a scale of its own
        np.testing.assert_allclose(change, encoded_backward - encoded, atol=1e-12)
        np.testing.assert_allclose(plain, backward, rtol=1e-12)
        assert abs(encoded - plain).max() > 1e-3
        assert abs(encoded - encoded_backward).max() > 1e-3
        assert "random words and projections, seed 1" in title
        assert ("random weights, seed 0" in title) == (scheme == "shaw")


def test_a_symmetric_bias_moves_with_the_words_and_nothing_is_as_without(call):
    _, (plain, _, _, encoded, backward, _) = score_maps(call, "-s", "alibi", "--heads", "2")
    np.testing.assert_allclose(encoded, backward, atol=1e-12)
    distance = abs(np.subtract.outer(np.arange(3), np.arange(3)))
    np.testing.assert_allclose(encoded - plain, -distance / 16, atol=1e-12)
    _, (plain, _, _, encoded, _, _) = score_maps(call, "-s", "nope")
    np.testing.assert_array_equal(plain, encoded)


def test_maps_of_words_are_told_apart_and_each_row_has_its_word(call):
    out = call("order-check", "-s", "rope+alibi", "--plot")[1]
    heads = next(line for line in out.splitlines() if "forward" in line)
    titles = "content only forward content only backward content only change"
    assert " ".join(heads.split()) == titles
    assert re.findall(r"^ *(\w+)┤", out, re.M) == ["dog", "bites", "man"] * 2
    assert "forward: dog bites man; backward: man bites dog" in out


@pytest.mark.long
def test_a_picture_goes_with_the_text(call, tmp_path, printed):
    out = printed("order-check", "-s", "rope", "--plot")
    assert out.index("rope change") < out.index("ok: rope behaves as declared")
    assert call("order-check", "-s", "rope", "--out", "x.png")[0] == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
