from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.numerics.double_double import two_sum
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.fixed_point import nearest
from posenc_cli.numerics.rounding import (
    narrow,
    round_exact,
    round_to,
    singles_to_bfloat16,
    stored_as,
    widen,
)
from tests.numerics import oracle

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

DTYPES = [FLOAT16, BFLOAT16, FLOAT32, FLOAT64]
NARROW = DTYPES[:3]
PEERS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
narrow_dtype = pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.name)

fractions = st.builds(
    lambda numerator, denominator, exponent: (
        Fraction(numerator, denominator) * Fraction(2) ** exponent
    ),
    st.integers(-(2**60), 2**60),
    st.integers(1, 2**30),
    st.integers(-220, 120),
)


def ties(dtype, *, count=400):
    """Numbers halfway between two of a format, normal, subnormal and at its upper end."""
    random = np.random.default_rng(7)
    significands = 2 * random.integers(0, 1 << dtype.precision, count) + 1
    lowest = dtype.min_exponent - dtype.precision
    exponents = random.integers(lowest, min(lowest + 60, dtype.max_exponent), count)
    numbers = np.ldexp(significands.astype(np.float64), exponents)
    top = 2.0**dtype.max_exponent * (2 - 2.0**-dtype.precision)
    edges = [top, 2.0 ** (lowest), 3 * 2.0**lowest, 2.0**dtype.min_exponent]
    return np.concatenate([numbers, edges, -numbers, np.negative(edges)])


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.long
@pytest.mark.sweep(3)
@narrow_dtype
@pytest.mark.parametrize("nudge", [-1, 0, 1])
def test_ties_go_to_even_and_what_is_left_of_a_pair_breaks_them(dtype, nudge):
    high = ties(dtype)
    low = nudge * np.spacing(np.abs(high)) * 1e-9
    found = narrow(high, low, dtype)
    expected = [
        oracle.rounded(Fraction(pair[0]) + Fraction(pair[1]), dtype)
        for pair in zip(high, low, strict=True)
    ]
    assert oracle.values(found, dtype).tolist() == expected


@narrow_dtype
def test_rounding_of_float64_is_the_peers(dtype):
    random = np.random.default_rng(11)
    wide = random.integers(0, 2**64, 200_000, dtype=np.uint64).view(np.float64)
    near = np.ldexp(random.standard_normal(200_000), random.integers(-170, 130, 200_000))
    values = np.concatenate([wide[np.isfinite(wide)], near, ties(dtype), [0.0, -0.0]])
    with np.errstate(all="ignore"):
        if dtype.name == "bfloat16":
            # The peer rounds through float32; near a tie only the fractions above can judge.
            single = values.astype(np.float32)
            clear = (single.view(np.uint32) & 0xFFFF) != 0x8000
            values, expected = values[clear], single[clear].astype(ml_dtypes.bfloat16)
        else:
            expected = values.astype(PEERS[dtype.name])
    assert np.array_equal(bits(narrow(values, None, dtype)), bits(expected))


@given(fractions, st.sampled_from(DTYPES))
def test_exact_fractions_are_rounded_once(value, dtype):
    expected = oracle.rounded(value, dtype)
    assert nearest(value.numerator, value.denominator, dtype) == expected
    assert oracle.values(round_exact([value], dtype), dtype).tolist() == [expected]


@given(fractions, st.sampled_from(DTYPES), st.integers(-8, 8))
def test_pairs_are_rounded_once(value, dtype, shift):
    try:
        high = float(value)
    except OverflowError:
        return
    low = float(value - Fraction(high)) if abs(high) > 1e-250 else 0.0
    high, low = two_sum(high, low)
    found = narrow(np.array([high]), np.array([low]), dtype)
    expected = oracle.rounded(Fraction(high) + Fraction(low), dtype)
    assert oracle.values(found, dtype).tolist() == [expected]


@every_dtype
def test_signs_of_zero_infinities_and_nan_are_kept(dtype):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-300])
    for low in (None, np.zeros(7)):
        found = oracle.values(narrow(special, low, dtype), dtype)
        past = 1e300 if dtype is FLOAT64 else np.inf
        under = -1e-300 if dtype is FLOAT64 else -0.0
        expected = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, past, under])
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found[:4]), np.signbit(expected[:4]))
        assert np.signbit(found[6])


def test_nan_with_a_payload_in_low_bits_stays_nan():
    signalling = np.array([0x7FF0000000000001, 0xFFF0000020000000], np.uint64).view(np.float64)
    for dtype in DTYPES:
        assert np.isnan(oracle.values(narrow(signalling, None, dtype), dtype)).all()


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=lambda dtype: dtype.name)
def test_every_half_precision_number_survives_widening_and_narrowing(dtype):
    patterns = np.arange(1 << 16, dtype=np.uint16)
    wide = widen(patterns.view(dtype.numpy), dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = patterns.view(PEERS[dtype.name]).astype(np.float64)
    assert np.array_equal(wide, expected, equal_nan=True)
    number = ~np.isnan(wide)
    assert np.array_equal(bits(narrow(wide, None, dtype))[number], patterns[number])


def test_a_half_precision_is_not_reached_through_float32():
    # Just above a tie of bfloat16, by less than float32 can see.
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert widen(narrow(value, None, BFLOAT16), BFLOAT16) == 1 + 2.0**-7
    through = narrow(value.astype(np.float32).astype(np.float64), None, BFLOAT16)
    assert widen(through, BFLOAT16) == 1


def test_exact_numbers_of_every_kind_are_rounded():
    found = round_exact(
        [Decimal("0.1"), Fraction(1, 10), 7, Decimal("-0"), Decimal(10) ** 400], FLOAT32
    )
    assert found.tolist() == [np.float32(0.1), np.float32(0.1), 7, 0, np.inf]
    assert np.signbit(found[3])
    assert round_exact([-(10**400)], FLOAT16).tolist() == [-np.inf]
    with pytest.raises((ValueError, OverflowError)):
        round_exact([Decimal("nan")], FLOAT32)


def test_values_move_to_another_grid_and_keep_their_storage():
    values = np.array([1 + 2.0**-9, -3.14159, 1e-42], np.float32)
    found = round_to(values, FLOAT32, BFLOAT16)
    assert found.dtype == np.float32
    assert np.array_equal(found, values.astype(ml_dtypes.bfloat16).astype(np.float32))
    coarse = narrow(np.array([0.1]), None, FLOAT16)
    assert stored_as(coarse, FLOAT16, FLOAT32).tolist() == [float(np.float16(0.1))]


def test_every_float32_near_a_bfloat16_or_a_tie_is_rounded_as_any_value_is():
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = (np.arange(1 << 16, dtype=np.uint32)[:, None] << np.uint32(16)) | lower
    singles = bits.view(np.float32)
    rounded, expected = singles_to_bfloat16(singles), round_to(singles, FLOAT32, BFLOAT16)
    np.testing.assert_array_equal(rounded.view(np.uint32), expected.view(np.uint32))
