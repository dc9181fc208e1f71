import itertools
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.numerics import exact, fixed_point
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tests.examples import examples
from tests.numerics import oracle

DTYPES = [FLOAT16, BFLOAT16, FLOAT32, FLOAT64]


def full_width(octets):
    """Integers of that many bytes: plain integer strategies draw mostly short ones."""
    return st.binary(min_size=octets, max_size=octets).map(
        lambda drawn: int.from_bytes(drawn, "little", signed=True)
    )


positions = st.integers(-(2**53), 2**53) | full_width(6)
frequencies = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(-exponent),
    full_width(12),
    st.integers(25, 60),
)


@pytest.mark.parametrize("bits", [1000, 53, 4000, 300])
def test_pi_is_within_one_unit(bits):
    with mpmath.workprec(bits + 20):
        assert abs(fixed_point.pi(bits) - mpmath.pi * mpmath.mpf(2) ** bits) <= 1


@given(full_width(11), st.integers(1, 2**70), st.integers(20, 900))
@examples(150)
def test_sine_and_cosine_are_within_two_units(numerator, denominator, bits):
    sine, cosine = fixed_point.sine_cosine(numerator, denominator, bits)
    with mpmath.workprec(bits + 200):
        angle = mpmath.mpf(numerator) / denominator
        assert abs(sine - mpmath.sin(angle) * mpmath.mpf(2) ** bits) <= 2
        assert abs(cosine - mpmath.cos(angle) * mpmath.mpf(2) ** bits) <= 2


def test_an_angle_of_twice_as_many_bits_is_reduced_too():
    found = fixed_point.sine_cosine(10**40, 1, 20)
    longer = fixed_point.sine_cosine(10**40, 1, 400)
    assert all(abs(a - (b >> 380)) <= 2 for a, b in zip(found, longer, strict=True))


@given(
    st.sampled_from(["cos", "sin"]),
    positions,
    frequencies,
    st.sampled_from([Decimal(1), Decimal("1.2079441541679836"), Decimal("-0.3")]),
    st.sampled_from(DTYPES),
)
@examples(200)
def test_a_cell_is_the_correctly_rounded_value(function, position, frequency, scale, dtype):
    found = fixed_point.exact_cell(function, position, frequency, dtype=dtype, scale=scale)
    assert found == oracle.wave(function, position, frequency, scale, dtype)


def test_hard_cells_take_the_precision_they_need_and_end():
    tie = Decimal(1 + 2.0**-24)  # halfway between two float32
    cell = fixed_point.exact_cell
    assert cell("cos", 0, Decimal(1), dtype=FLOAT32, scale=tie) == 1.0
    assert cell("cos", 7, Decimal(0), dtype=FLOAT32, scale=tie) == 1.0
    assert cell("cos", 1, Decimal("1e-300"), dtype=FLOAT32, scale=-tie) == -1.0
    above = Decimal(1 + 3 * 2.0**-24)  # this tie goes up to even, and its cosine is below it
    assert cell("cos", 0, Decimal(1), dtype=FLOAT32, scale=above) == 1 + 2.0**-22
    assert cell("cos", 1, Decimal("1e-300"), dtype=FLOAT32, scale=above) == 1 + 2.0**-23
    assert cell("sin", 1, Decimal(3 * 2.0**-150), dtype=FLOAT32) == 2.0**-149
    assert cell("sin", -(2**53), Decimal(0), dtype=FLOAT32) == 0.0
    assert str(cell("sin", -1, Decimal("1e-4000"), dtype=FLOAT32)) == "-0.0"
    assert cell("sin", 5, Decimal(1), dtype=FLOAT32, scale=Decimal(0)) == 0.0


@pytest.mark.parametrize("wavelength", [6, 628, 7])
@pytest.mark.parametrize("position", [1, -1, 1001])
def test_what_comes_again_with_whole_wavelengths_is_zero_and_of_one_sign(wavelength, position):
    rate = (2 * exact.asarray([exact.pi]) / wavelength)[0]
    cells = {
        str(fixed_point.exact_cell("sin", position * wavelength, rate, dtype=dtype))
        for dtype in DTYPES
    }
    assert cells == {"0.0"}


@given(positions, frequencies, st.sampled_from(DTYPES))
@examples(200)
def test_an_angle_is_reduced_and_correctly_rounded(position, frequency, dtype):
    found = fixed_point.exact_angle(position, frequency, dtype=dtype)
    assert found == oracle.reduced(position, frequency, dtype)


@pytest.mark.parametrize("frequency", ["1", "6.9e-41", "123456.789", "-0.5", "0"])
def test_doublings_keep_136_bits_for_54_steps(frequency):
    states = itertools.islice(fixed_point.doublings(Decimal(frequency)), 54)
    with mpmath.workprec(oracle.PRECISION):
        for power, (cosine, sine, bits) in enumerate(states):
            angle = mpmath.mpf(frequency) * 2**power
            unit = mpmath.mpf(2) ** -bits
            bound = mpmath.mpf(2) ** -136 * min(1, abs(angle)) + unit * (angle == 0)
            assert abs(sine * unit - mpmath.sin(angle)) <= bound
            assert abs(cosine * unit - mpmath.cos(angle)) <= mpmath.mpf(2) ** -136


@given(full_width(40) | full_width(9) | st.integers(), st.integers(0, 1000))
def test_two_floats_hold_105_bits(value, bits):
    high, low = fixed_point.two_floats(value, bits)
    exact = Fraction(value, 1 << bits)
    if abs(exact) > Fraction(2) ** -900:
        assert abs(Fraction(high) + Fraction(low) - exact) <= abs(exact) * Fraction(2) ** -105
    assert (high > 0) == (value > 0)
    assert (high < 0) == (value < 0)


def test_numbers_too_small_for_a_float_keep_their_sign():
    assert fixed_point.two_floats(-1, 4000) == (-5e-324, 0.0)
