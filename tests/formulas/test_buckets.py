"""The buckets of T5 and DeBERTa against their own code and against exact arithmetic."""

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
