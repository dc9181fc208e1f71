"""The comparison of two arrays: value, units in the last place, place, and what is no number."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posenc_cli.comparison import difference as module
from posenc_cli.comparison.difference import Operand, difference
from posenc_cli.files.reading import read_array
from tests.examples import examples
from tests.matrices import request
from tests.memory import peak

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")


def compared(a, b, dtypes=("float64", "float64")):
    a, b = np.asarray(a), np.asarray(b)
    return difference(Operand.of_array(a, dtypes[0]), Operand.of_array(b, dtypes[1]))


def test_equal_arrays_do_not_differ():
    found = compared([[0.0, math.nan, math.inf]], [[-0.0, math.nan, math.inf]])
    assert (found.max_abs, found.max_ulp, found.differing) == (0, 0, 0)
    assert (found.at, found.a, found.b) == (None, None, None)
    assert found.within(0)


def test_the_largest_difference_is_placed_with_both_values():
    a = np.arange(12.0).reshape(3, 4)
    b = a.copy()
    b[1, 2] += 0.5
    b[2, 3] -= 2.0
    found = compared(a, b)
    assert (found.max_abs, found.at, found.a, found.b) == (2.0, (2, 3), 11.0, 9.0)
    assert found.differing == 2
    assert found.within(2.0)
    assert not found.within(1.999)


FORMATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", [1.0, 0.999, 1.5, 3e-5, 0.0, -2.0, 6e-8])
def test_neighbours_are_one_unit_apart(name, value):
    dtype = FORMATS[name]
    at = np.array([value]).astype(dtype)
    for towards in (9.0, -9.0):
        near = np.nextafter(at, np.array([towards]).astype(dtype))
        found = compared(at.astype(np.float64), near.astype(np.float64), (name, name))
        assert found.max_ulp == 1


@given(
    st.floats(-(2.0**15), 2.0**15, width=16),
    st.floats(-(2.0**20), 2.0**20, allow_subnormal=True),
)
def test_units_are_those_of_the_coarser_format(coarse, fine):
    found = compared([coarse], [fine], ("float16", "float64"))
    larger = max(abs(Fraction(coarse)), abs(Fraction(fine)))
    exponent = -14
    while larger > Fraction(2) ** (exponent + 1):
        exponent += 1
    exact = abs(Fraction(coarse) - Fraction(fine)) / Fraction(2) ** (exponent - 10)
    assert found.max_ulp == pytest.approx(float(exact) if exact < 2**10 else math.inf, rel=1e-12)
    assert found.counts_units == (exact < 2**10)
    assert found.ulp_format == "float16"


SINGLES = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, 1 - 2.0**-24, 1e-45, 3.4e38])


@pytest.mark.parametrize("unit", ["float32", "bfloat16"])
@examples(200)
@given(
    pairs=st.lists(st.tuples(SINGLES, SINGLES), min_size=1, max_size=6),
    steps=st.lists(st.integers(-2, 2), min_size=6, max_size=6),
)
@example(pairs=[(1.0, -1e-10), (1.0, -1e-11), (1.0, -1e-9)], steps=[])
@example(pairs=[(1.0, 1.0), (2.0, 2.0)], steps=[1, 1])
def test_float32_arrays_differ_as_their_float64_copies_do(unit, pairs, steps):
    a, b = np.array(pairs, np.float32).T
    b[: len(steps)].view(np.int32)[...] += np.array(steps, np.int32)[: b.size]
    with np.errstate(invalid="ignore"):
        wide = compared(a.astype(np.float64), b.astype(np.float64), (unit, unit))
    for size in (1 << 16, 8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_BLOCK_BYTES", size)
            assert repr(compared(a, b, (unit, unit))) == repr(wide)


def test_what_no_number_measures_comes_first_and_never_passes():
    found = compared([1.0, math.nan, 3.0, math.inf], [9.0, 2.0, 3.0, -math.inf])
    assert (found.at, found.unmatched, found.differing) == ((1,), 2, 3)
    assert math.isnan(found.a)
    assert found.max_abs == 8.0
    assert not found.within(math.inf)


def test_what_no_number_measures_stays_first_when_larger_differences_follow(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8)
    found = compared([math.nan, 0.0, math.nan], [0.0, 5.0, 7.0])
    assert (found.at, found.max_abs, found.b) == ((0,), 5.0, 0.0)


def test_huge_and_tiny_differences_stay_finite_and_positive():
    assert compared([1.7e308, 0.0], [-1.7e308, 0.0]).max_abs == np.finfo(np.float64).max
    tiny = compared([5e-324], [0.0])
    assert (tiny.max_abs, tiny.max_ulp) == (5e-324, 1)


def test_complex_numbers_differ_by_their_distance():
    found = compared([3 + 4j, 0j], [0j, 0j], ("complex64", "complex128"))
    assert (found.max_abs, found.a, found.ulp_format) == (5.0, 3 + 4j, "float32")
    assert compared([1 + 0j], [1.0]).differing == 0
    assert compared([complex(math.nan, 1)], [complex(math.nan, 2)]).unmatched == 1


@given(st.lists(st.integers(1, 7), min_size=1), st.lists(st.integers(1, 7), min_size=1))
def test_blocks_of_any_sizes_give_the_same(left, right):
    count = max(sum(left), sum(right))
    a = np.arange(count, dtype=np.float64)
    b = np.where(a == count // 2, a + 1, a)

    def pieces(values, sizes):
        def blocks():
            start = 0
            for size in sizes:
                yield values[start : start + size]
                start += size
            yield values[start:]

        return Operand(values.shape, "float64", blocks)

    found = difference(pieces(a, left), pieces(b, right))
    assert (found.at, found.differing, found.max_abs) == ((count // 2,), 1, 1.0)


def test_a_computed_matrix_compares_with_its_file_form():
    for dtype in ("bfloat16", "float16", "float32", "float64"):
        made = request("rope", "0:100", dim=8, dtype=dtype).plan().matrix()
        operand = Operand.of_matrix(made)
        values = np.concatenate([block.reshape(-1) for block in operand.blocks()])
        assert difference(operand, Operand.of_array(values.reshape(100, 8), dtype)).differing == 0
        assert abs(values).max() == 1


def test_a_file_larger_than_memory_may_be_compared(tmp_path):
    path = tmp_path / "large.npy"
    table = np.lib.format.open_memmap(path, "w+", np.float32, (1 << 20, 32))
    table[-1, -1] = 1
    table.flush()
    operand = Operand.of_array(read_array(path).values, "float32")
    found = []
    assert peak(lambda: found.append(difference(operand, operand))) < 40 << 20
    assert found[0].differing == 0
