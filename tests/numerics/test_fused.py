"""Fused products and sums, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.fixed_point import nearest
from posenc_cli.numerics.fused import fused

doubles = st.floats(min_value=-1e150, max_value=1e150)
singles = st.floats(min_value=-(2.0**50), max_value=2.0**50, width=32)


def rounded_once(a, b, c, form):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return nearest(*exact.as_integer_ratio(), REAL_DTYPES[form])


@given(singles, singles, singles)
@example(1 + 2.0**-23, 1 + 2.0**-23, -1.0)
@example(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60)  # a tie of float32, and a hair more
@example(1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-60))
def test_float32_is_rounded_once(a, b, c):
    result = fused(*(np.array([value], np.float32) for value in (a, b, c)))
    assert result.dtype == np.float32
    assert result[0] == rounded_once(a, b, c, "float32")


@given(doubles, doubles, doubles)
@example(1 + 2.0**-52, 1 + 2.0**-52, -1.0)
@example(1 + 2.0**-27, 1 + 2.0**-26, 2.0**-200)
@example(1 + 2.0**-27, 1 + 2.0**-26, -(2.0**-200))
@example(1e-200, 1e-200, 5e-324)
def test_float64_is_rounded_once(a, b, c):
    result = fused(*(np.array([value]) for value in (a, b, c)))
    assert result.dtype == np.float64
    assert result[0] == rounded_once(a, b, c, "float64")


def test_shapes_broadcast_and_overflow_is_infinite():
    rows = fused(np.ones((3, 1)), np.array([1.0, 2.0]), np.array(1.0))
    assert rows.tolist() == [[2, 3]] * 3
    assert fused(np.array([1e308]), np.array([10.0]), np.array([0.0])) == np.inf
    assert fused(np.array([-1e308]), np.array([10.0]), np.array([0.0])) == -np.inf


@pytest.mark.parametrize("form", ["float32", "float64"])
def test_random_numbers_are_rounded_once(form):
    draws = np.random.default_rng(5).standard_normal((3, 400)).astype(form)
    draws[2] = -draws[0] * draws[1]  # what is left is what the product lost
    lost = fused(*draws)
    expected = [rounded_once(*map(float, column), form) for column in draws.T]
    assert lost.tolist() == expected
    assert np.count_nonzero(lost) > 350
