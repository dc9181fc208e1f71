"""What may be said of an encoding: by a rule, and only where it has learnt."""

import json

import pytest

from posenc_cli.experiments.request import ExperimentRequest
from posenc_cli.experiments.summary import STOPPED, last_places, summaries, trained_length
from tests.experiments.made import encodings, request_of, results


def summary_of(rises, *, seeds=3, spread=0.0, learnt=lambda *_: True):
    """That of an encoding whose loss rises by so much at 2x, 4x, 8x, in each seed a bit otherwise.

    The losses of seeds are far apart at every length: only in pairs they tell anything.
    """
    request = request_of("rope", seeds=seeds)
    by_length = dict(zip((8, 16, 32, 64), (0.0, *rises), strict=True))

    def law(_label, _stretch, seed, length, _place):
        return 1.5 + 2 * seed + by_length[length] + (spread * (seed - 1) if length > 8 else 0)

    (summary,) = summaries(request, results(request, law, learnt=learnt))
    return summary


@pytest.mark.parametrize(
    ("rises", "how", "said"),
    [
        ((0.0, 0.0, 0.0), {}, "holds to 8x"),
        ((0.09, -0.5, 0.0), {}, "holds to 8x"),
        ((0.2, 1.0, 2.0), {}, "fails from 2x"),
        ((0.0, 0.3, 2.0), {}, "holds to 2x, fails from 4x"),
        ((0.0, 0.3, 0.0), {}, "holds to 2x, fails at 4x, holds at 8x"),
        # What seeds do not tell is said, and one seed tells nothing.
        ((0.1, 0.1, 0.1), {"spread": 0.05}, "undecided at 2x to 8x with 3 seeds"),
        (
            *((-1.0, 0.1, 5.0), {"spread": 0.05}),
            "holds to 2x, undecided at 4x with 3 seeds, fails from 8x",
        ),
        ((5.0, 5.0, 5.0), {"seeds": 1}, "undecided at 2x to 8x with 1 seed"),
    ],
)
def test_an_encoding_is_held_against_itself_at_the_trained_length(rises, how, said):
    assert summary_of(rises, **how).verdict == said


def test_nothing_is_said_unless_all_seeds_have_learnt():
    summary = summary_of((0.0, 0.0, 0.0), learnt=lambda _, seed: seed != 1)
    assert (summary.learnt, summary.judged) == (2, False)
    reason = "(seed 1: 2.500 nats at 8; needs at most 2.000)"
    assert summary.verdict == f"{STOPPED}: 2 of 3 seeds have learned the task {reason}"
    assert {item["state"] for item in summary.fields()["lengths"]} == {None}


def test_lengths_that_are_no_multiple_are_called_by_their_number():
    for tests, said in ((("12", "2x"), "holds to 2x"), (("1x",), "no longer length was tested")):
        request = request_of("rope", tests=tests)
        (summary,) = summaries(request, results(request, lambda *_: 1.0))
        assert summary.verdict == said
    assert [summary.times(length) for length in (8, 12, 16)] == ["1x", "12", "2x"]


def test_summaries_follow_the_request_and_join_the_seeds_of_all_jobs():
    asked = {"tasks": ("text", "copy"), "stretches": ("none", "yarn"), "seeds": 7}
    request = request_of("rope", "alibi", **asked)
    jobs = results(request, lambda *_: 1.0, unstretched=("alibi",))
    found = summaries(request, jobs[::-1])
    assert [(item.task, item.encoding, item.stretch) for item in found] == [
        (task, *rest)
        for task in ("text", "copy")
        for rest in (("rope", "none"), ("rope", "yarn"), ("alibi", "none"))
    ]
    assert {item.seeds for item in found} == {tuple(range(7))}
    assert [item.induction is None for item in found] == [False] * 3 + [True] * 3


def test_losses_between_places_are_means_of_each_seed_first():
    request = request_of("rope", seeds=2)
    law = lambda _label, _stretch, seed, _length, place: float(place + 10 * seed)  # noqa: E731
    (summary,) = summaries(request, results(request, law))
    part = summary.lengths[-1].between(8, 12)
    assert part.mean == 14.5
    assert part.deviation == pytest.approx(10 / 2**0.5, abs=1e-6)


def test_fields_are_strict_json():
    fields = json.loads(json.dumps(summary_of((0.0, 0.3, 2.0)).fields(), allow_nan=False))
    assert [item["state"] for item in fields["lengths"]] == [None, "holds", "fails", "fails"]
    assert fields["lengths"][2]["rise"]["mean"] == pytest.approx(0.3)


def test_where_nothing_is_said_lengths_are_those_of_the_task():
    request = ExperimentRequest(encodings("rope"))
    assert (trained_length(request, "text"), last_places(request, "text")) == (100, 50)
    assert (trained_length(request, "copy"), last_places(request, "copy")) == (20, 10)
    assert last_places(request_of("rope", last=3), "text") == 3
