"""The ledger: verdicts follow from numbers, by rules that can come out either way."""

import re

import pytest

from posenc_cli.experiments.request import JobResult, LengthLosses, RunResult
from tools import ledger
from tools.claims import CLAIMS, RUNS
from tools.ledger import (
    Claim,
    Lower,
    MoreRight,
    Results,
    Right,
    Rise,
    RisesLess,
    Row,
    Value,
    Verdict,
    value_key,
)

A, B = Row("text", "a"), Row("text", "b")
AGREE, DISAGREE, UNSEEN = Verdict.AGREE, Verdict.DISAGREE, Verdict.UNSEEN


def results(*, learnt=True, values=None, **rows):
    """Results of encodings: each the losses (or shares) of its seeds at 1× and at 2×."""
    runs = []
    for name, seeds in rows.items():
        for seed, (first, later) in enumerate(seeds):
            lengths = tuple(
                LengthLosses(length, number, number, (number,), accuracy=number)
                for length, number in ((10, first), (20, later))
            )
            runs.append(
                RunResult(name, name, "none", "text", seed, learnt, "a reason", None, lengths)
            )
    job = JobResult("key", 10, tuple(runs), (), {})
    saved = {"text": {"command": "", "results": [job.fields()]}}
    return Results({"runs": saved, "values": values or {}})


def verdict(evidence, **rows):
    return evidence.judged(results(**rows))[1]


def test_a_rise_holds_below_a_tenth_and_fails_above():
    still, risen, torn = [(1, 1.01), (1, 1.02)], [(1, 2), (1, 2.1)], [(1, 1), (1, 3)]
    assert verdict(Rise(A, 2, holds=True), a=still) == AGREE
    assert verdict(Rise(A, 2, holds=False), a=still) == DISAGREE
    assert verdict(Rise(A, 2, holds=True), a=risen) == DISAGREE
    assert verdict(Rise(A, 2, holds=False), a=risen) == AGREE
    assert {verdict(Rise(A, 2, holds=each), a=torn) for each in (True, False)} == {UNSEEN}


def test_what_is_compared_is_told_apart_by_its_interval():
    low, high = [(1, 2.0), (1, 2.1)], [(1, 3.0), (1, 3.2)]
    assert verdict(Lower(A, B, 2), a=low, b=high) == AGREE
    assert verdict(Lower(B, A, 2), a=low, b=high) == DISAGREE
    assert verdict(Lower(A, B, 2), a=low, b=[(1, 2.0), (1, 2.2)]) == UNSEEN


def test_answers_are_compared_by_their_share():
    some, more = [(1, 0.2), (1, 0.3)], [(1, 0.9), (1, 0.95)]
    assert verdict(MoreRight(A, B, 2), a=more, b=some) == AGREE
    assert verdict(MoreRight(B, A, 2), a=more, b=some) == DISAGREE
    assert verdict(Right(A, 2, 0.5, more=True), a=[(1, 0.9), (1, 0.91)]) == AGREE
    assert verdict(Right(A, 2, 0.5, more=False), a=[(1, 0.9), (1, 0.91)]) == DISAGREE
    assert verdict(Right(A, 2, 0.5, more=False), a=[(1, 0.1), (1, 0.9)]) == UNSEEN


def test_nothing_is_said_of_models_that_have_not_learnt():
    words, found = Rise(A, 2, holds=True).judged(results(learnt=False, a=[(1, 1), (1, 1)]))
    assert found == UNSEEN
    assert words == "a: 0 of 2 seeds have learned the task (a reason)"


def test_a_number_is_held_against_its_bound():
    least = Value("posenc x", "n", ("a", 0), 3)
    most = Value("posenc x", "n", ("a", 0), 1, least=False)
    found = Results({"values": {value_key(least): 2}})
    assert least.judged(found) == ("n: 2", DISAGREE)
    assert most.judged(found) == ("n: 2", DISAGREE)
    assert Value("posenc x", "n", ("a", 0), 2).judged(found) == ("n: 2", AGREE)


def test_one_number_that_disagrees_decides():
    found = results(a=[(1, 1.0), (1, 1.01)], b=[(1, 3), (1, 3.1)])
    holds = [Rise(row, 2, holds=True) for row in (A, B)]
    torn = Lower(A, A, 2)
    claim = ("length", "source", "statement", "setting")
    assert Claim(*claim, (holds[0],)).verdict(found) == AGREE
    assert Claim(*claim, (holds[0], torn)).verdict(found) == UNSEEN
    assert Claim(*claim, (holds[0], torn, holds[1])).verdict(found) == DISAGREE


def test_a_command_measures_what_a_claim_needs_and_no_more():
    assert Lower(Row("text", "rope", "yarn"), Row("text", "rope"), 2).commands == (
        "posenc extrapolate -s rope --stretch none,yarn --seeds 5",
    )
    other = Row("rope-500", "rope base=500")
    assert RisesLess(other, Row("text", "rope"), 2).commands == (
        "posenc extrapolate -s rope --base 500 --seeds 5",
        "posenc extrapolate -s rope --seeds 5",
    )


def test_claims_name_their_source_and_setting_and_are_told_apart():
    assert len(CLAIMS) >= 24
    assert {claim.group for claim in CLAIMS} == set(ledger.GROUPS)
    for claim in CLAIMS:
        assert re.search(r"arXiv:\d{4}\.\d{5}|kexue|bloc97|emozilla", claim.source), claim.source
        assert claim.setting
        assert claim.evidence
    assert len({claim.evidence for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("Scaling scores by log n", "Su 2021, kexue.fm/archives/8823"),
        ("Interpolation without fine-tuning", "arXiv:2306.15595, 3.2"),
        ("Recall of the first symbol: T5", "arXiv:2305.19466, 4"),
        ("With independent q and k", "arXiv:2410.06205, proposition 3.2"),
        ("A single layer without positions", "arXiv:2410.06205, proposition 5.2"),
        ("After interpolation, near keys", "arXiv:2309.00071, 3.2"),
    ],
)
def test_a_claim_that_is_in_no_abstract_names_its_section(statement, source):
    (claim,) = (each for each in CLAIMS if each.statement.startswith(statement))
    assert claim.source.endswith(source)


def test_every_run_has_five_seeds_and_every_row_of_a_claim_is_measured():
    found = Results.read()
    assert set(found.saved["runs"]) == set(RUNS)
    for claim in CLAIMS:
        for evidence in claim.evidence:
            for row in getattr(evidence, "rows", ()):
                assert len(found.lasts(row, 1)) == ledger.SEEDS


@pytest.mark.slow
def test_the_numbers_that_commands_compute_are_those_that_are_saved():
    found = Results.read()
    for claim in CLAIMS:
        for evidence in claim.evidence:
            if isinstance(evidence, Value):
                assert ledger.measured(evidence) == pytest.approx(found.value(evidence), rel=1e-6)
