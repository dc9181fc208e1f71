import operator
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli.numerics import double_double as dd

moderate = st.floats(min_value=-(2.0**200), max_value=2.0**200).filter(
    lambda value: value == 0 or abs(value) > 2.0**-200
)
part = st.floats(min_value=-1, max_value=1).filter(lambda v: v == 0 or abs(v) > 2.0**-200)
low_part = st.floats(min_value=-0.5, max_value=0.5)


def pair(high: float, fraction: float) -> tuple[float, float]:
    return dd.two_sum(high, high * fraction * 2.0**-53)


pairs = st.builds(pair, part, low_part)
points = st.builds(operator.add, pairs, pairs)


@given(moderate, moderate)
def test_sums_are_error_free(left, right):
    total, error = dd.two_sum(left, right)
    assert total == left + right
    assert Fraction(total) + Fraction(error) == Fraction(left) + Fraction(right)
    large, small = sorted((left, right), key=abs, reverse=True)
    total, error = dd.fast_two_sum(large, small)
    assert Fraction(total) + Fraction(error) == Fraction(left) + Fraction(right)


@given(moderate, moderate)
def test_products_are_error_free(left, right):
    product, error = dd.two_product(left, right)
    assert product == left * right
    assert Fraction(product) + Fraction(error) == Fraction(left) * Fraction(right)


@given(moderate)
def test_halves_have_26_bits_and_lose_nothing(value):
    high, low = dd.split(value)
    assert Fraction(high) + Fraction(low) == Fraction(value)
    for half in (high, low):
        numerator = Fraction(half).numerator
        assert (abs(numerator) // (numerator & -numerator or 1)).bit_length() <= 26


@given(moderate, low_part, moderate, low_part)
def test_products_of_pairs_are_within_their_bound(a, a_low, b, b_low):
    assume(a and b)
    left, right = pair(a, a_low), pair(b, b_low)
    exact = sum(map(Fraction, left)) * sum(map(Fraction, right))
    found = sum(map(Fraction, dd.product(left, right)))
    assert abs(found - exact) <= abs(exact) * Fraction(2) ** -102


@given(points, points)
def test_complex_products_are_within_their_bound(left, right):
    (p, q), (r, s) = (
        (Fraction(z[0]) + Fraction(z[1]), Fraction(z[2]) + Fraction(z[3])) for z in (left, right)
    )
    real, real_low, imaginary, imaginary_low = map(Fraction, dd.complex_product(left, right))
    bound = Fraction(2) ** -102
    assert abs(real + real_low - (p * r - q * s)) <= bound * (abs(p * r) + abs(q * s))
    assert abs(imaginary + imaginary_low - (p * s + q * r)) <= bound * (abs(p * s) + abs(q * r))


@given(points)
def test_multiplying_by_one_changes_nothing(point):
    assert dd.complex_product(point, (1.0, 0.0, 0.0, 0.0)) == point


@given(st.integers(-(2**53), 2**53), st.integers(1, 2**53))
def test_quotients_keep_the_sign_and_leading_bits_of_the_remainder(numerator, denominator):
    high, low = dd.quotient(float(numerator), float(denominator))
    exact = Fraction(numerator, denominator)
    assert high == numerator / denominator
    missing = exact - Fraction(high)
    assert abs(Fraction(low) - missing) <= abs(missing) * Fraction(2) ** -51
