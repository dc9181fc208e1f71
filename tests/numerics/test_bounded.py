"""Numbers with a bound of their error: the bound holds, is small, and decides roundings."""

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


@pytest.mark.long
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


def test_a_product_of_two_errors_is_within_its_bound():
    """(1 ± 1) · (1 ± 1) is from 0 to 4."""
    one = bounded.Bounded(np.float64(1), np.float64(0), np.float64(1))
    assert 3 <= (one * one).error <= 3.0001


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


@pytest.mark.parametrize("operation", ["add", "mul", "truediv"])
def test_operations_on_exact_numbers_are_as_far_off_as_they_say_and_no_farther(operation):
    """Of pairs taken as exact, all of the error is the operation's own."""
    draw = np.random.default_rng(0)
    high = draw.uniform(1, 2, (2, 500))
    low = draw.uniform(-(2.0**-54), 2.0**-54, (2, 500))
    left, right = (bounded.Bounded(high[k], low[k], np.zeros(500)) for k in (0, 1))
    found = getattr(operator, operation)(left, right)
    worst = 0
    for k in range(500):
        a, b = (Fraction(high[side, k]) + Fraction(low[side, k]) for side in (0, 1))
        true = getattr(operator, operation)(a, b)
        distance = abs(Fraction(found.high[k]) + Fraction(found.low[k]) - true)
        assert distance <= Fraction(found.error[k])
        worst = max(worst, distance / Fraction(found.error[k]))
    assert worst > Fraction(1, 200)


@given(value=fractions)
def test_numbers_are_off_by_no_more_than_they_say(value):
    for each in (value, value / 10**15 + 1, Decimal(value.numerator) / value.denominator):
        number = bounded.numbers([each])[0]
        distance = abs(Fraction(float(number.high)) + Fraction(float(number.low)) - Fraction(each))
        assert distance <= Fraction(float(number.error))


def test_logarithms_hold_however_poor_the_platforms_are(monkeypatch):
    library = np.log
    monkeypatch.setattr(np, "log", lambda x: library(x) * (1 + 2.0**-45))
    found = bounded.log(bounded.asarray(np.arange(2, 500)))
    assert np.isfinite(found.error).all()
    for k in range(498):
        with mpmath.workprec(400):
            distance, bound = off(found[k], mpmath.log(k + 2))
            assert distance <= bound
    monkeypatch.setattr(np, "log", lambda x: library(x) * (1 + 2.0**-30))
    assert np.isinf(bounded.log(bounded.asarray(np.arange(2, 500))).error).all()


def test_nothing_is_known_of_what_has_no_value():
    with np.errstate(all="ignore"):
        for lost in (
            bounded.log(bounded.asarray([0, -1])),
            bounded.asarray([0]) ** 0.5,
            1 / bounded.asarray([0]),
            bounded.cos(bounded.numbers((2.0 ** np.linspace(54, 75, 99)).tolist())),
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
