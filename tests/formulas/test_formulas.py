"""The simple schemes and biases against exact fractions and plain definitions."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.alibi import exact_slopes
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import round_exact
from tests.matrices import matrix, request

REAL_STORAGE = ("float16", "float32", "float64", "bfloat16")


def test_the_worked_example_of_the_paper():
    """d=4, p=5 as the textbooks print it."""
    row = matrix("sinusoidal", "5", dim=4)[0]
    assert np.round(row, 4).tolist() == pytest.approx([-0.9589, 0.2837, 0.05, 0.9988], abs=1e-4)


@given(
    position=st.integers(0, 2**53 - 1),
    rest=st.integers(1, 2**53),
    dtype=st.sampled_from(REAL_STORAGE),
)
def test_normalized_is_the_rounded_quotient(position, rest, dtype):
    length = min(position + rest, 2**53)
    value = matrix("normalized", str(position), dim=1, seq_len=length, dtype=dtype)
    expected = round_exact([Fraction(position, length)], REAL_DTYPES[dtype])
    assert value.tobytes() == expected.tobytes()


@given(position=st.integers(0, 2**53), dtype=st.sampled_from(REAL_STORAGE))
def test_integer_is_the_rounded_position(position, dtype):
    value = matrix("integer", str(position), dim=2, dtype=dtype)
    assert value.tobytes() == round_exact([position, position], REAL_DTYPES[dtype]).tobytes()


@given(position=st.integers(0, 2**53), dim=st.sampled_from([54, 60, 64, 100]))
def test_binary_is_the_bits_of_the_position(position, dim):
    msb = matrix("binary", str(position), dim=dim)[0]
    assert "".join(f"{bit:.0f}" for bit in msb) == f"{position:0{dim}b}"
    lsb = matrix("binary", str(position), dim=dim, order="lsb-first")[0]
    assert (lsb == msb[::-1]).all()


def test_binary_holds_exactly_two_to_the_dim_positions():
    assert matrix("binary", "7", dim=3).tolist() == [[1, 1, 1]]
    with pytest.raises(InvalidInput, match=r"position 8 .* 3 bits") as refused:
        request("binary", "8", dim=3).plan().matrix()
    assert refused.value.hint == "--dim 4 doubles it"


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
@pytest.mark.parametrize("dim", [1, 2, 5, 7, 8, 9])
@pytest.mark.parametrize("odd", ["truncate", "pad", "split"])
def test_an_odd_number_of_columns_is_what_its_rule_makes_of_an_even_one(odd, dim, layout):
    """truncate: one column too many computed, the last dropped; pad: a last column of zeros;
    split: the first function takes the extra column, and exponents divide by the odd dim."""
    positions = np.arange(30.0)
    if odd == "split":
        pairs = (dim + 1) // 2
        angles = np.multiply.outer(positions, 10_000.0 ** (-2 * np.arange(pairs) / dim))
        sines, cosines = np.sin(angles), np.cos(angles)[:, : dim // 2]
        expected = np.concatenate([sines, cosines], 1)
        if layout == "interleaved":
            expected = np.empty((30, dim))
            expected[:, ::2], expected[:, 1::2] = sines, cosines
    else:
        width = dim + dim % 2 if odd == "truncate" else dim - dim % 2
        full = (
            matrix("sinusoidal", "0:30", dim=width, layout=layout, dtype="float64")
            if width
            else np.zeros((30, 0))
        )
        expected = full[:, :dim]
        if odd == "pad" and dim % 2:
            expected = np.concatenate([full, np.zeros((30, 1))], 1)
    ours = matrix("sinusoidal", "0:30", dim=dim, layout=layout, odd=odd, dtype="float64")
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-13)


def test_nope_is_zero():
    assert not matrix("nope", "0:9").any()


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize("heads", range(1, 129))
@pytest.mark.parametrize("rule", ["press", "naive"])
def test_slopes_are_the_rounded_powers(heads, rule):
    """Press et al.'s recursion, written as they publish it, with mpmath powers."""

    def published(n):
        if rule == "naive" or math.log2(n).is_integer():
            return [mpmath.mpf(2) ** (mpmath.mpf(-8 * (h + 1)) / n) for h in range(n)]
        closest = 2 ** math.floor(math.log2(n))
        return published(closest) + published(2 * closest)[0::2][: n - closest]

    with mpmath.workdps(60):
        expected = [float(m) for m in published(heads)]
    assert exact_slopes(heads, max_bias=8.0, rule=rule) == expected


def test_the_diagonal_of_alibi_is_a_positive_zero():
    assert not np.signbit(matrix("alibi", "0:3")[0].diagonal()).any()


def test_mpt_counts_from_the_last_position_of_the_request():
    bias = matrix("alibi", "0:5", form="mpt", heads=1, dtype="float64")
    assert (bias[0, 0] == 2.0**-8 * np.arange(-4, 1)).all()
    longer = matrix("alibi", "0:5", form="mpt", heads=1, seq_len=9, dtype="float64")
    assert (longer[0, 0] == 2.0**-8 * np.arange(-8, -3)).all()


def test_t5_clipped_shares_rows_past_its_largest_distance():
    bias = matrix("t5-clipped", "0:10", max_distance=3, heads=2)
    for i in range(10):
        for j in range(10):
            near = max(-3, min(3, j - i))
            origin = (0, near) if near >= 0 else (-near, 0)
            assert (bias[:, i, j] == bias[:, *origin]).all()
    assert len(np.unique(bias[0])) == 7


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_tables_are_arrangements_of_the_same_numbers(layout):
    tables = {
        name: matrix("rope", "0:30", dim=12, table=name, layout=layout)
        for name in (
            *("cos-sin", "interleaved", "cos", "sin", "cos-full", "sin-full", "complex", "angles"),
        )
    }
    cos, sin = tables["cos"], tables["sin"]
    assert (tables["cos-sin"] == np.hstack([cos, sin])).all()
    assert (tables["interleaved"][:, 0::2] == cos).all()
    assert (tables["interleaved"][:, 1::2] == sin).all()
    assert (tables["complex"] == cos + 1j * sin).all()
    for half, full in ((cos, tables["cos-full"]), (sin, tables["sin-full"])):
        twice = np.repeat(half, 2, axis=1) if layout == "interleaved" else np.hstack([half, half])
        assert (full == twice).all()
    np.testing.assert_allclose(np.cos(tables["angles"]), cos, atol=3e-7)
    np.testing.assert_allclose(np.sin(tables["angles"]), sin, atol=3e-7)
    assert (np.abs(tables["angles"]) <= np.float32(math.pi)).all()


def test_complex_tables_need_a_complex_format():
    with pytest.raises(InvalidInput, match="no complex number format of bfloat16"):
        request("rope", "0:3", table="complex", dtype="bfloat16").plan().matrix()
    assert matrix("rope", "0:3", table="complex", dtype="float64").dtype == np.complex128


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
@pytest.mark.parametrize("spacing", ["vaswani", "tensor2tensor"])
def test_a_padded_sinusoid_of_one_column_is_its_padding(layout, spacing):
    given = {"dim": 1, "odd": "pad", "layout": layout, "spacing": spacing}
    assert matrix("sinusoidal", "0:3", **given).tolist() == [[0.0], [0.0], [0.0]]
