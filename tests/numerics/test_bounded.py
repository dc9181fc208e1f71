"""Numbers with a bound of their error: the bound holds, is small, and decides roundings."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import round_exact

reals = st.floats(1e-9, 1e9).flatmap(lambda x: st.sampled_from([x, -x]))
positives = st.floats(1e-9, 1e9)
fractions = st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**9)


def off(found, true):
    """How far a number is from the true one, and how far it says it can be."""
    with mpmath.workprec(400):
        value = mpmath.mpf(float(found.high)) + mpmath.mpf(float(found.low))
        return abs(value - true), mpmath.mpf(float(found.error))


def as_mpf(value):
    numerator, denominator = value.as_integer_ratio()
    return mpmath.mpf(numerator) / denominator


@given(left=fractions, right=fractions, sign=st.sampled_from([1, -1]))
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "truediv", "pow"])
def test_arithmetic_stays_within_its_bound(operation, left, right, sign):
    if operation == "pow":
        right = Fraction(sign * right.numerator % 7, right.denominator)
    numbers = bounded.numbers([left, right])
    found = getattr(operator, operation)(numbers[0], numbers[1])
    with mpmath.workprec(400):
        true = getattr(operator, operation)(as_mpf(left), as_mpf(right))
        distance, bound = off(found, true)
        assert distance <= bound
        size = as_mpf(left) + as_mpf(right) if operation in ("add", "sub") else abs(true)
        assert bound <= size * mpmath.mpf(2) ** (-88 if operation == "pow" else -97)


@given(x=st.floats(-700, 700))
def test_exponentials_stay_within_their_bound(x):
    with np.errstate(all="ignore"):
        found = bounded.exp(bounded.numbers([x]))[0]
    with mpmath.workprec(400):
        true = mpmath.exp(mpmath.mpf(x))
        distance, bound = off(found, true)
        assert distance <= bound
        assert bound <= true * mpmath.mpf(2) ** -88 + mpmath.mpf(2) ** -990


@given(x=fractions)
def test_logarithms_stay_within_their_bound(x):
    found = bounded.log(bounded.numbers([x]))[0]
    with mpmath.workprec(400):
        distance, bound = off(found, mpmath.log(as_mpf(x)))
        assert distance <= bound
        assert bound <= mpmath.mpf(2) ** -94


@given(x=reals)
@pytest.mark.parametrize("function", ["sin", "cos"])
def test_circular_functions_stay_within_their_bound(function, x):
    found = getattr(bounded, function)(bounded.numbers([x]))[0]
    with mpmath.workprec(400):
        distance, bound = off(found, getattr(mpmath, function)(mpmath.mpf(x)))
        assert distance <= bound
        assert bound <= mpmath.mpf(2) ** -98 * (1 + abs(x))


def test_nothing_is_known_of_what_has_no_value():
    with np.errstate(all="ignore"):
        for lost in (
            bounded.log(bounded.asarray([0, -1])),
            bounded.asarray([0]) ** 0.5,
            1 / bounded.asarray([0]),
            bounded.cos(bounded.numbers([2.0**60])),
            bounded.asarray([1, 2]) * 1e300 * 1e300,
            bounded.exp(bounded.numbers([1e4])),
        ):
            assert not lost.rounded(REAL_DTYPES["float32"])[1].any()
    assert bounded.exp(bounded.numbers([-1e4])).error[0] < 1e-300


@given(x=positives, dtype=st.sampled_from(sorted(REAL_DTYPES)))
def test_a_proven_rounding_is_the_rounding(x, dtype):
    values, proven = bounded.log(bounded.numbers([x]) + 1).rounded(REAL_DTYPES[dtype])
    if proven[0]:
        true = exact.log(exact.asarray([x]) + 1)
        assert values.tobytes() == round_exact(list(true), REAL_DTYPES[dtype]).tobytes()


@given(x=st.integers(1, 2**20))
def test_nearly_every_rounding_is_proven_even_to_float64(x):
    assert bounded.log(bounded.asarray([x]) + 0.5).rounded(REAL_DTYPES["float64"])[1].all()


def test_a_tie_is_left_undecided():
    tie = bounded.numbers([1 + 2.0**-24]) * 1
    assert not tie.rounded(REAL_DTYPES["float32"])[1].any()


def test_numbers_of_more_digits_than_two_floats_hold_are_bounded():
    numbers = bounded.numbers([Decimal(1) / 3, Fraction(1, 3), 0.1, 2**60 + 1, 7])
    assert (numbers.error > 0).tolist() == [True, True, False, True, False]


@pytest.mark.parametrize("operation", [operator.eq, operator.lt, operator.ge, operator.ne])
def test_comparisons_are_refused(operation):
    with pytest.raises(TypeError):
        operation(bounded.asarray([1]), 1)
    with pytest.raises(TypeError):
        bool(bounded.asarray([1]))
    with pytest.raises(TypeError):
        bounded.asarray([1]) * np.ones(1)
    with pytest.raises(TypeError):
        np.ones(1) * bounded.asarray([1])
