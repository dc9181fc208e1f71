"""The buckets of T5 and DeBERTa against their own code and against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.buckets import RULES


def buckets(name, positions, **params):
    return RULES[name].bind(params)[1](np, np.asarray(positions, np.int64))


def test_t5_buckets_equal_transformers_but_where_float32_rounds_up(golden):
    """Of some 1,800 pairs of parameters one has a distance where float32 logarithms tell."""
    case, arrays = golden("t5_buckets_other")
    for count, farthest, both in case["params"]["cases"]:
        ours = buckets(
            "t5",
            arrays["relative_position"],
            num_buckets=count,
            max_distance=farthest,
            bidirectional=both,
        )
        theirs = arrays[f"nb{count}_md{farthest}_{'bi' if both else 'uni'}"]
        differs = arrays["relative_position"][ours != theirs].tolist()
        assert differs == ([-796] if (count, farthest) == (83, 1000) else []), (count, farthest)


def test_deberta_buckets_equal_transformers_sew_d_and_mpmath(golden):
    _, arrays = golden("deberta_log_bucket_b256_m512")
    ours = buckets("deberta", arrays["relative_position"])
    for peer in ("hf_deberta_v2", "sew_d", "exact_mpmath"):
        assert (ours == arrays[peer]).all(), peer
    # The authors' code clamps positions to max_position − 1 first.
    near = np.abs(arrays["relative_position"]) < 512
    assert (ours[near] == arrays["microsoft"][near]).all()


FLOAT32_FALLS_SHORT = {(256, 131): [1088, 1105, 1336, 1744, 1904]}
"""Distances, by bucket_size and max_position, that transformers' float32 logarithms put a bucket
too low: the ratio of logarithms is barely past a whole number there."""


@pytest.mark.slow
def test_deberta_buckets_equal_transformers_but_where_float32_falls_short(golden):
    case, arrays = golden("deberta_buckets_other")
    relative = arrays["relative_position"]
    for size, farthest in case["params"]["cases"]:
        ours = buckets("deberta", relative, bucket_size=size, max_position=farthest)
        theirs = arrays[f"b{size}_m{farthest}"]
        short = np.isin(np.abs(relative), FLOAT32_FALLS_SHORT.get((size, farthest), []))
        assert (ours[~short] == theirs[~short]).all(), (size, farthest)
        assert (ours[short] == theirs[short] + np.sign(relative[short])).all()


@given(
    size=st.integers(2, 600),
    farthest=st.integers(3, 4000),
    distance=st.one_of(st.integers(0, 5000), st.integers(0, 2**53)),
)
def test_deberta_buckets_are_those_of_exact_arithmetic(size, farthest, distance):
    middle, last = size // 2, farthest - 1
    assume(last > middle)
    found = buckets("deberta", [distance, -distance], bucket_size=size, max_position=farthest)
    expected = distance
    if distance > middle:
        with mpmath.workprec(400):
            ratio = mpmath.log(mpmath.mpf(distance) / middle) / mpmath.log(
                mpmath.mpf(last) / middle
            )
            steps = ratio * (middle - 1)
            whole = mpmath.nint(steps)
            near = abs(steps - whole) < mpmath.mpf(2) ** -200
            expected = middle + int(whole if near else mpmath.ceil(steps))
    assert found.tolist() == [expected, -expected]


@pytest.mark.parametrize(
    ("size", "farthest", "distance", "steps"),
    [(258, 517, 258, 64), (10, 46, 15, 2), (10, 46, 45, 4), (20, 81, 20, 3), (86, 345, 86, 14)],
)
def test_a_power_that_is_reached_exactly_does_not_round_up(size, farthest, distance, steps):
    """Here distance/M is (N/M)^(k/(M − 1)) exactly, which float64 logarithms may miss."""
    middle, last = size // 2, farthest - 1
    left, right = Fraction(distance, middle) ** (middle - 1), Fraction(last, middle) ** steps
    assert left == right
    found = buckets("deberta", [distance, distance + 1], bucket_size=size, max_position=farthest)
    assert found.tolist() == [middle + steps, middle + steps + 1]


@pytest.mark.parametrize(("size", "farthest"), [(8, 65), (64, 512), (256, 512), (34, 5000)])
def test_what_is_near_a_whole_number_is_settled_in_exact_arithmetic(size, farthest, monkeypatch):
    """As if float64 could tell no distance: each is rounded up from whichever side it is of."""
    monkeypatch.setattr("posenc_cli.formulas.buckets._ERROR", 1.0)
    middle, last = size // 2, farthest - 1
    distances = [middle + 1, middle + 2, 2 * middle, 3 * middle, last, last + 1, 4 * last]
    found = buckets("deberta", distances, bucket_size=size, max_position=farthest)
    with mpmath.workprec(400):
        steps = [
            mpmath.log(mpmath.mpf(distance) / middle) / mpmath.log(mpmath.mpf(last) / middle)
            for distance in distances
        ]
        expected = [
            middle + int(mpmath.ceil(each * (middle - 1) - mpmath.mpf(2) ** -200)) for each in steps
        ]
    assert found.tolist() == expected


@given(
    count=st.integers(2, 300),
    farthest=st.integers(2, 5000),
    both=st.booleans(),
    distance=st.integers(0, 10_000),
)
def test_t5_buckets_are_those_of_exact_arithmetic(count, farthest, both, distance):
    side = count // 2 if both else count
    single = side // 2
    assume(single >= 1 and farthest > single)
    found = buckets("t5", [-distance], num_buckets=count, max_distance=farthest, bidirectional=both)
    expected = distance
    if distance >= single:
        # The largest k whose power has been reached, in whole numbers.
        wide = side - single
        k = 0
        while k < wide and distance**wide * single ** (k + 1 - wide if k + 1 > wide else 0) >= (
            farthest ** (k + 1) * single ** (wide - k - 1)
        ):
            k += 1
        expected = min(side - 1, single + k)
    assert found[0] == expected


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("deberta", {"bucket_size": 256, "max_position": 129}, "max_position must be above 129"),
        ("deberta", {"bucket_size": 1}, "bucket_size 1: must be from 2"),
        ("deberta", {"num_buckets": 1}, "deberta have no parameter 'num_buckets'"),
        ("t5", {"heads": 4}, "t5 have no parameter 'heads'"),
        ("t5", {"num_buckets": 3}, "at least 1 such"),
        ("t5", {"max_distance": "8"}, "max_distance above their number"),
    ],
)
def test_parameters_that_make_no_buckets_are_refused(name, params, message):
    with pytest.raises(InvalidInput, match=message):
        RULES[name].bind(params)
