import ast
import decimal
import operator
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.numerics import exact as xp

SIXTY_DIGITS = mpmath.mpf(10) ** -60
real = st.decimals(
    min_value=-(10**6), max_value=10**6, allow_nan=False, allow_infinity=False, places=12
)
positive = st.decimals(min_value=Decimal("1e-9"), max_value=10**9, places=12)


def far(found: Decimal, expected: mpmath.mpf) -> mpmath.mpf:
    with mpmath.workdps(140):
        return abs(mpmath.mpf(str(found)) / expected - 1)


@pytest.mark.parametrize("base", [10_000, 1.5, Decimal("1e30"), Fraction(500_000, 7)])
def test_a_ladder_of_frequencies_is_right_to_sixty_digits(base):
    ladder = 1 / xp.asarray(base) ** (xp.arange(0, 128, 2) / 128)
    with mpmath.workdps(140):
        exact = Fraction(base)
        number = mpmath.mpf(exact.numerator) / exact.denominator
        for index, frequency in enumerate(ladder):
            assert far(frequency, number ** (-mpmath.mpf(2 * index) / 128)) < SIXTY_DIGITS


@given(positive, real)
def test_powers_are_right_to_sixty_digits(base, exponent):
    (found,) = xp.asarray([base]) ** (exponent / 10**5)
    with mpmath.workdps(160):
        power = mpmath.mpf(str(exponent / 10**5))
        assert far(found, mpmath.mpf(str(base)) ** power) < SIXTY_DIGITS


@given(positive)
def test_logarithm_exponential_and_root_are_right_to_sixty_digits(value):
    with mpmath.workdps(140):
        number = mpmath.mpf(str(value))
        assert far(xp.sqrt([value])[0], mpmath.sqrt(number)) < SIXTY_DIGITS
        assert far(xp.exp([value / 10**9])[0], mpmath.exp(number / 10**9)) < SIXTY_DIGITS
        if value != 1:
            assert far(xp.log([value])[0], mpmath.log(number)) < SIXTY_DIGITS


@given(real)
def test_sine_and_cosine_are_right_to_sixty_places(value):
    with mpmath.workdps(140):
        number = mpmath.mpf(str(value))
        assert abs(mpmath.mpf(str(xp.sin([value])[0])) - mpmath.sin(number)) < SIXTY_DIGITS
        assert abs(mpmath.mpf(str(xp.cos([value])[0])) - mpmath.cos(number)) < SIXTY_DIGITS


def test_pi_has_eighty_digits():
    with mpmath.workdps(140):
        assert far(xp.pi[0], mpmath.pi) < mpmath.mpf(10) ** -80


@given(st.lists(real, min_size=1, max_size=5), real, st.integers(-99, 99))
def test_ring_operations_are_those_of_fractions(values, other, integer):
    vector = xp.asarray(values)
    for scalar in (other, integer, float(integer) / 8, Fraction(integer, 4)):
        for operation in (operator.add, operator.sub, operator.mul):
            expected = [operation(Fraction(value), Fraction(scalar)) for value in values]
            assert [Fraction(value) for value in operation(vector, scalar)] == expected
            expected = [operation(Fraction(scalar), Fraction(value)) for value in values]
            assert [Fraction(value) for value in operation(scalar, vector)] == expected


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6), st.integers(1, 9))
def test_integers_divide_floor_and_compare_as_in_numpy(values, divisor):
    vector, array = xp.asarray(values), np.asarray(values)
    assert [int(value) for value in vector // divisor] == (array // divisor).tolist()
    assert [int(value) for value in vector % divisor] == (array % divisor).tolist()
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        compare = getattr(operator, name)
        assert list(compare(vector, divisor)) == compare(array, divisor).tolist()
    assert [int(value) for value in xp.floor(vector / 2)] == np.floor(array / 2).tolist()
    assert [int(value) for value in xp.ceil(vector / 2)] == np.ceil(array / 2).tolist()
    assert [int(value) for value in xp.clip(vector, -3, 4)] == np.clip(array, -3, 4).tolist()
    assert [int(v) for v in xp.minimum(vector, 2)] == np.minimum(array, 2).tolist()
    assert [int(v) for v in xp.maximum(2, vector)] == np.maximum(2, array).tolist()
    inside = (vector > -9) & ~((vector > 3) | (vector == 0))
    expected = (array > -9) & ~((array > 3) | (array == 0))
    assert list(inside) == expected.tolist()
    chosen = xp.where(inside, vector, -1)
    assert [int(value) for value in chosen] == np.where(expected, array, -1).tolist()
    assert [int(value) for value in vector[inside]] == array[expected].tolist()


@given(st.integers(-20, 20), st.integers(-20, 20), st.sampled_from([-3, -1, 1, 2, 7]))
def test_ranges_are_those_of_python(start, stop, step):
    assert [int(value) for value in xp.arange(start, stop, step)] == list(range(start, stop, step))


def test_a_float_is_the_number_it_holds():
    assert list(xp.asarray([0.1])) == [Decimal.from_float(0.1)]


def test_short_results_come_out_exactly():
    assert list(10_000 ** xp.asarray([0.5, 0.25, -1])) == [100, 10, Decimal("0.0001")]
    assert [int(value) for value in xp.floor(10_000 ** xp.asarray([0.5, 0.25]))] == [100, 10]
    assert list(xp.exp([0])) == [1]


def test_indexing_slicing_and_joining():
    vector = xp.concat([xp.arange(3), xp.zeros(1), xp.ones((2,))])
    assert list(vector[1:3]) == [1, 2]
    assert vector[-1] == 1
    assert list(vector[[2, 0]]) == [2, 0]
    assert vector.shape == (6,)
    assert len(vector) == vector.size == 6
    assert vector.ndim == 1
    assert list(-vector[:2]) == [0, -1]
    assert list(xp.abs(-vector[:2])) == [0, 1]
    assert float(vector[1:2]) == 1.0
    assert int(vector[2:3]) == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(vector)
    with pytest.raises(TypeError, match="one element"):
        float(vector)
    with pytest.raises(ValueError, match="argument"):
        vector + xp.arange(2)


def test_what_is_not_a_number_is_refused():
    with pytest.raises(TypeError):
        xp.arange(2) + "1"
    with pytest.raises(TypeError):
        operator.lt("1", xp.arange(2))
    with pytest.raises(TypeError):
        xp.arange(2) ** None


def test_impossible_values_are_infinite_or_nan_and_compare_false():
    assert str((1 / xp.zeros(1))[0]) == "Infinity"
    assert str(xp.log([0])[0]) == "-Infinity"
    assert xp.log([-1])[0].is_nan()
    assert xp.sqrt([-1])[0].is_nan()
    nan = xp.log([-1])
    assert not (nan < 0)
    assert not (nan >= 0)
    assert nan != 0


def test_the_caller_s_context_neither_matters_nor_changes():
    context = decimal.Context()  # alive: Python 3.14 loses the flags of one that is not
    every = list(context.flags)
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP, traps=every) as context:
        context.clear_flags()
        before = decimal.getcontext().copy()
        third = (1 / xp.asarray([3, 0]))[0]
        power = (2 ** xp.asarray([Fraction(1, 3)]))[0]
        ranged = xp.arange(0, 12345, 12344)
        assert not (xp.log([-1]) > 0)
        assert not any(decimal.getcontext().flags.values())
        assert str(decimal.getcontext()) == str(before)
    assert third == Decimal("0." + "3" * 80)
    assert power == (2 ** xp.asarray([Fraction(1, 3)]))[0]
    assert list(ranged) == [0, 12344]


def test_the_module_does_not_import_numpy():
    code = "import posenc_cli.numerics.exact, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    tree = ast.parse(Path(xp.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {alias.name for node in imports for alias in node.names}
    assert "numpy" not in names
