import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.numerics import cells, fixed_point, judge, layout, wide
from posenc_cli.numerics import exact as xp
from posenc_cli.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
)
from posenc_cli.numerics.judge import Judge
from posenc_cli.numerics.waves import Placement, WaveTable
from tests.examples import examples
from tests.memory import peak
from tests.numerics import oracle

DTYPES = [FLOAT16, BFLOAT16, FLOAT32, FLOAT64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
GOLDEN = Path(__file__).parents[1] / "golden"


def ladder(base, dim):
    return list(1 / xp.asarray(base) ** (xp.arange(0, dim, 2) / dim))


def halves(count):
    return [Placement("cos", slice(0, count)), Placement("sin", slice(count, 2 * count))]


def interleaved(count):
    return [Placement("sin", slice(0, 2 * count, 2)), Placement("cos", slice(1, 2 * count, 2))]


def filled(table, positions, placements, dtype, width=None):
    width = width or 2 * len(table.frequencies)
    out = np.full((len(positions), width), 7, dtype.numpy)
    table.fill(out, np.asarray(positions), placements, dtype=dtype)
    return out


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def scattered(seed=5):
    random = np.random.default_rng(seed)
    return np.concatenate(
        [
            [0, 1, -1, 2**53, -(2**53), 2**53 - 1, 1023, 1024, 2**24 + 1, 2**31],
            random.integers(0, 2**53, 12),
            -random.integers(0, 2**30, 6),
            random.integers(0, 2000, 12),
        ]
    )


@pytest.mark.long
@pytest.mark.sweep(42)
@every_dtype
@pytest.mark.parametrize("scale", ["1", "1.2079441541679836", "-0.1"])
@pytest.mark.parametrize(
    ("base", "dim"), [(10_000, 16), (1.5, 12), (500_000, 128), (Decimal("1e30"), 20)]
)
def test_cells_are_the_correctly_rounded_values_of_mpmath(base, dim, scale, dtype):
    scale = Decimal(scale)
    table = WaveTable(ladder(base, dim), scale=scale)
    count = dim // 2
    random = np.random.default_rng(dim)
    runs = [scattered(dim), np.arange(700), np.arange(2**53 - 300, 2**53 + 1)]
    for positions in runs:
        found = oracle.values(filled(table, positions, interleaved(count), dtype), dtype)
        for _ in range(60):
            row, column = random.integers(positions.size), random.integers(dim)
            function = "cos" if column % 2 else "sin"
            frequency = table.frequencies[column // 2]
            expected = oracle.wave(function, positions[row], frequency, scale, dtype)
            assert found[row, column] == expected


def test_the_golden_table_is_met_bit_for_bit():
    truth = np.load(GOLDEN / "truth_rope_d64_theta10000.npz")
    table = WaveTable(ladder(10_000, 64))
    found = filled(table, truth["positions"], halves(32), FLOAT32)
    assert np.array_equal(bits(found[:, :32]), bits(truth["cos32"]))
    assert np.array_equal(bits(found[:, 32:]), bits(truth["sin32"]))
    wide = filled(table, truth["positions"], halves(32), FLOAT64)
    assert np.array_equal(bits(wide[:, :32]), bits(truth["cos"]))
    assert np.array_equal(bits(wide[:, 32:]), bits(truth["sin"]))


@pytest.mark.long
@pytest.mark.sweep(2)
@every_dtype
def test_bytes_do_not_depend_on_how_positions_are_asked_for(dtype):
    table = WaveTable(ladder(10_000, 48), scale=Decimal("1.07"))
    start, count = 2**31 - 1500, 3000
    positions = np.arange(start, start + count)
    whole = bits(filled(table, positions, halves(24), dtype))
    for size in (1, 7, 256, 1000, 1024):
        blocks = [positions[i : i + size] for i in range(0, 1100, size)]
        parts = [bits(filled(table, block, halves(24), dtype)) for block in blocks]
        assert np.array_equal(np.concatenate(parts), whole[: sum(map(len, blocks))])
    fresh = WaveTable(ladder(10_000, 48), scale=Decimal("1.07"))
    order = np.random.default_rng(1).permutation(count)
    swapped = np.arange(count)
    swapped[1:-1] = swapped[-2:0:-1]
    picks = (order, order[:5], np.repeat(order[:40], 3), np.arange(0, count, 17), swapped)
    for picked in picks:
        for each in (fresh, table):
            found = bits(filled(each, positions[picked], halves(24), dtype))
            assert np.array_equal(found, whole[picked])
    assert np.array_equal(bits(filled(table, positions[::-1], halves(24), dtype)), whole[::-1])


@pytest.mark.long
@pytest.mark.sweep(3)
@every_dtype
@pytest.mark.parametrize("size", [1, 100, 1000, 1 << 20])
def test_the_size_of_a_chunk_does_not_show(size, dtype, monkeypatch):
    frequencies = [*ladder(10_000, 24), Decimal("1e-9")]  # whose margins go by columns
    layouts = halves(13), interleaved(13), halves(13)[:1]
    runs = np.arange(2**20 - 700, 2**20 + 900), np.arange(2**20 + 5, 2**20 + 645)
    cases = [(each, run) for each in layouts for run in runs]
    table = WaveTable(frequencies)
    expected = [filled(table, run, each, dtype, 26) for each, run in cases]
    monkeypatch.setattr(cells, "CHUNK_CELLS", size)
    monkeypatch.setattr(wide, "CHUNK_CELLS", size)
    monkeypatch.setattr(layout, "TILE_PAIRS", max(1, size // 50))
    table = WaveTable(frequencies)
    for (each, run), right in zip(cases, expected, strict=True):
        assert np.array_equal(bits(filled(table, run, each, dtype, 26)), bits(right))


TABLES_OF_ALL_FORMATS = """
import hashlib
import numpy as np
from posenc_cli.numerics import dtypes, exact as xp
from posenc_cli.numerics.waves import Placement, WaveTable

table = WaveTable(list(1 / xp.asarray(1e6) ** (xp.arange(0, 48, 2) / 48)))
both = [Placement("cos", slice(0, 24)), Placement("sin", slice(24, 48))]
for dtype in dtypes.REAL_DTYPES.values():
    for placements in (both, both[:1]):
        out = np.zeros((3000, 48), dtype.numpy)
        table.fill(out, np.arange(2**40, 2**40 + 3000), placements, dtype=dtype)
        print(dtype.name, hashlib.sha256(out).hexdigest())
"""


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_instructions_that_numpy_uses():
    """Narrower vectors, and products that are fused with their sums or not."""
    features = list(np._core._multiarray_umath.__cpu_dispatch__)
    found = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", TABLES_OF_ALL_FORMATS],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)},
            check=True,
            capture_output=True,
        ).stdout
        for disabled in ([], features, [name for name in features if name != "X86_V3"])
    }
    assert len(found) == 1


@every_dtype
def test_negative_positions_mirror_positive_ones(dtype):
    table = WaveTable([*ladder(10_000, 16), Decimal(0), Decimal("-0.25")])
    positions = np.arange(1, 1500)
    right = filled(table, positions, halves(10), dtype)
    left = filled(table, -positions, halves(10), dtype)
    assert np.array_equal(bits(left[:, :10]), bits(right[:, :10]))
    rising = filled(table, np.arange(-1499, 3), halves(10), dtype)
    assert np.array_equal(bits(rising[:1499]), bits(left[::-1]))
    assert np.array_equal(bits(rising[1500:]), bits(right[:2]))
    sines, mirrored = oracle.values(right, dtype)[:, 10:], oracle.values(left, dtype)[:, 10:]
    assert np.array_equal(mirrored, -sines)
    assert not np.signbit(sines[:, 8]).any()
    assert not np.signbit(mirrored[:, 8]).any()


@every_dtype
def test_every_layout_of_columns_holds_the_same_cells(dtype):
    count = 6
    table = WaveTable(ladder(100, 2 * count))
    positions = np.arange(20_400, 24_000)  # where cosine and −sine are negative together
    plain = filled(table, positions, halves(count), dtype)
    mixed = filled(table, positions, interleaved(count), dtype)
    assert np.array_equal(mixed[:, 1::2], plain[:, :count])
    assert np.array_equal(mixed[:, ::2], plain[:, count:])
    turned = [Placement("cos", slice(0, count), slice(None, None, -1)), halves(count)[1]]
    backwards = filled(table, positions, turned, dtype)[:, :count]
    assert np.array_equal(backwards, plain[:, count - 1 :: -1])
    twice = [
        Placement("cos", slice(0, 2 * count, 2)),
        Placement("cos", slice(1, 2 * count, 2)),
        Placement("sin", slice(2 * count, 2 * count + 2), slice(4, 0, -2)),
        Placement("zero", slice(2 * count + 2, 2 * count + 3)),
    ]
    wide = filled(table, positions, twice, dtype, width=2 * count + 3)
    assert np.array_equal(wide[:, : 2 * count], np.repeat(plain[:, :count], 2, axis=1))
    assert np.array_equal(wide[:, 2 * count], plain[:, count + 4])
    assert np.array_equal(wide[:, 2 * count + 1], plain[:, count + 2])
    assert not bits(wide[:, -1]).any()


@every_dtype
def test_columns_that_no_placement_names_are_left_alone(dtype):
    table = WaveTable(ladder(100, 8))
    out = np.full((40, 12), 7, dtype.numpy)
    apart = [Placement("sin", slice(9, 1, -2)), Placement("cos", slice(11, 12), slice(0, 1))]
    table.fill(out, np.arange(40), apart, dtype=dtype)
    plain = filled(table, np.arange(40), halves(4), dtype)
    assert np.array_equal(out[:, 9:1:-2], plain[:, 4:])
    assert np.array_equal(out[:, 11], plain[:, 0])
    assert (out[:, [0, 1, 2, 4, 6, 8, 10]] == np.full(1, 7, dtype.numpy)).all()
    nothing = np.full((3, 2), 7, dtype.numpy)
    table.fill(nothing, np.arange(3), [], dtype=dtype)
    assert (nothing == np.full(1, 7, dtype.numpy)).all()


@every_dtype
def test_the_output_may_have_any_strides(dtype):
    table = WaveTable(ladder(100, 8))
    positions = np.arange(3, 1100)
    plain = filled(table, positions, halves(4), dtype)
    for out in (
        np.empty((8, positions.size), dtype.numpy).T,
        np.empty((positions.size, 20), dtype.numpy)[:, 3:19:2],
        np.empty((2 * positions.size, 8), dtype.numpy)[::-2],
    ):
        table.fill(out, positions, halves(4), dtype=dtype)
        assert np.array_equal(out, plain)


@pytest.mark.parametrize("dtype", [COMPLEX64, COMPLEX128], ids=lambda dtype: dtype.name)
def test_complex_tables_have_their_parts_in_neighbouring_columns(dtype):
    table = WaveTable(ladder(100, 8))
    out = np.empty((50, 4), dtype.numpy)
    parts = [Placement("cos", slice(0, 8, 2)), Placement("sin", slice(1, 8, 2))]
    table.fill(out, np.arange(50), parts, dtype=dtype)
    plain = filled(table, np.arange(50), halves(4), dtype.component)
    assert np.array_equal(out.real, plain[:, :4])
    assert np.array_equal(out.imag, plain[:, 4:])


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("base", [10_000, Decimal("1e30")], ids=str)
def test_every_tier_of_the_rounding_test_gives_the_same_bytes(dtype, base, monkeypatch):
    placements = interleaved(8)
    runs = [scattered(), np.arange(2**20 - 15, 2**20 + 15), -np.arange(12)]
    table = WaveTable(ladder(base, 16), scale=Decimal("1.1"))
    usual = [bits(filled(table, run, placements, dtype)) for run in runs]
    monkeypatch.setattr(cells, "MARGIN", 1e9)
    monkeypatch.setattr(judge, "exact_cell", None)
    paired = [bits(filled(table, run, placements, dtype)) for run in runs]
    monkeypatch.undo()
    settled = []
    monkeypatch.setattr(cells, "MARGIN", 1e9)
    monkeypatch.setattr(judge, "PAIR_MARGIN", 1e9)

    def counted(*arguments, **settings):
        settled.append(arguments)
        return fixed_point.exact_cell(*arguments, **settings)

    monkeypatch.setattr(judge, "exact_cell", counted)
    exact = [bits(filled(table, run, placements, dtype)) for run in runs]
    assert len(settled) == 16 * sum(np.count_nonzero(run) for run in runs)
    for first, second, third in zip(usual, paired, exact, strict=True):
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: dtype.name)
def test_the_rounding_test_leaves_almost_nothing_undecided(dtype, monkeypatch):
    slow = []
    settled = Judge.settled

    def counted(self, positions, *arguments):
        slow.append(np.count_nonzero(positions))
        return settled(self, positions, *arguments)

    monkeypatch.setattr(Judge, "settled", counted)
    for base, dim in ((10_000, 64), (Decimal("1e30"), 512), (Decimal("1e300"), 16)):
        slow.clear()
        filled(WaveTable(ladder(base, dim)), np.arange(4096), halves(dim // 2), dtype)
        assert sum(slow) <= 3e-6 * 4096 * dim


def near_ties(dtype, exponent):
    """Frequencies whose sine at 1061 is 2^exponent off a tie of the format, and its rounding."""
    random = np.random.default_rng(-exponent)
    unit = mpmath.mpf(2) ** -(dtype.precision + 1)
    found = []
    with mpmath.workprec(400):
        for significand in random.integers(2 ** (dtype.precision - 1), 2**dtype.precision, 12):
            for side in (-1, 1):
                sine = (2 * int(significand) + 1) * unit + side * mpmath.mpf(2) ** exponent
                frequency = Decimal(mpmath.nstr(mpmath.asin(sine) / 1061, 90))
                found.append((frequency, float((2 * int(significand) + 1 + side) * unit)))
    return found


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("exponent", [-52, -54, -57, -62, -85, -100, -150])
@pytest.mark.parametrize("beside", [[], [Decimal(0)]], ids=["plain", "with-margins-by-column"])
def test_cells_beside_a_tie_go_to_their_own_side(dtype, exponent, beside):
    cases = near_ties(dtype, exponent)
    table = WaveTable([frequency for frequency, _ in cases] + beside)
    count = len(table.frequencies)
    expected = [value for _, value in cases]
    for positions in (np.arange(1061, 2100), np.array([1061, -1061, 5])):
        found = oracle.values(filled(table, positions, halves(count), dtype), dtype)
        assert found[0, count : count + len(cases)].tolist() == expected
    assert (-found[1, count : count + len(cases)]).tolist() == expected


@every_dtype
def test_cells_that_are_exact_are_exact(dtype):
    tie = 1 + 2.0**-dtype.precision if dtype is not FLOAT64 else 1.5
    table = WaveTable([Decimal(0), Decimal(1)], scale=Decimal(tie))
    found = oracle.values(filled(table, np.arange(-20, 1500), halves(2), dtype), dtype)
    even = 1.5 if dtype is FLOAT64 else 1.0
    assert (found[:, 0] == even).all()
    assert (found[:, 2] == 0).all()
    assert not np.signbit(found[:, 2]).any()
    assert found[20].tolist() == [even, even, 0, 0]
    nothing = WaveTable([Decimal(1)], scale=Decimal(0))
    assert not bits(filled(nothing, np.arange(5), halves(1), dtype)).any()


@pytest.mark.long
@every_dtype
def test_extreme_frequencies_keep_their_sign_and_raise_no_warning(dtype):
    frequencies = [Decimal("1e-4000"), Decimal("-1e-320"), Decimal("1e-45"), Decimal("1e25")]
    table = WaveTable(frequencies)
    for positions in (np.arange(1, 1100), np.array([2**53, 3])):
        values = oracle.values(filled(table, positions, halves(4), dtype), dtype)
        assert (values[:, :3] == 1).all()
        assert not np.signbit(values[:, 4]).any()
        assert np.signbit(values[:, 5]).all()
        for row in (0, 1, positions.size - 1):
            for column, function in ((6, "sin"), (7, "sin"), (3, "cos")):
                frequency = frequencies[column % 4]
                expected = oracle.wave(function, positions[row], frequency, Decimal(1), dtype)
                assert values[row, column] == expected


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("frequency", ["1e-30", "-3.1e-9", "1e-250", "7e-310"])
@pytest.mark.parametrize("scale", ["1", "1e-290", "-1e300"])
def test_sines_of_any_size_are_rounded_to_float64(frequency, scale):
    table = WaveTable([Decimal(frequency)], scale=Decimal(scale))
    for positions in (np.arange(1, 1200), np.array([2**53, 12345678901, -3])):
        found = filled(table, positions, halves(1), FLOAT64)
        picked = [*range(0, positions.size, 97), positions.size - 1]
        for row in picked:
            for column, function in enumerate(("cos", "sin")):
                given = function, positions[row], Decimal(frequency), Decimal(scale), FLOAT64
                assert found[row, column] == oracle.wave(*given)


@given(
    st.lists(st.decimals("-20", "20", places=25), min_size=1, max_size=4),
    st.lists(
        st.binary(min_size=1, max_size=6).map(lambda drawn: int.from_bytes(drawn, signed=True)),
        min_size=1,
        max_size=4,
    ),
    st.decimals("-4", "4", places=12),
    st.sampled_from(DTYPES),
)
@examples(60)
def test_any_frequencies_at_any_positions(frequencies, positions, scale, dtype):
    table = WaveTable(frequencies, scale=scale)
    count = len(frequencies)
    found = oracle.values(filled(table, positions, halves(count), dtype), dtype)
    for row, position in enumerate(positions):
        for column, frequency in enumerate(frequencies):
            for offset, function in ((0, "cos"), (count, "sin")):
                expected = oracle.wave(function, position, frequency, scale, dtype)
                assert found[row, column + offset] == expected


def test_threads_fill_one_array_with_the_same_bytes():
    placements = halves(32)
    positions = np.arange(20_000)
    expected = filled(WaveTable(ladder(10_000, 64)), positions, placements, FLOAT32)
    table = WaveTable(ladder(10_000, 64))
    out = np.empty_like(expected)

    def work(start):
        rows = slice(start, start + 500)
        table.fill(out[rows], positions[rows], placements, dtype=FLOAT32)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(0, 20_000, 500)))
    assert np.array_equal(bits(out), bits(expected))


@pytest.mark.slow
def test_wide_tables_of_many_frequencies():
    table = WaveTable(ladder(10_000, 40_000))
    assert table.phasors.rows * 20_000 * 16 <= 16 << 20
    out = filled(table, np.arange(70), halves(20_000), FLOAT32)
    expected = np.cos(np.outer(np.arange(70), np.array(table.frequencies, float)))
    assert np.abs(out[:, :20_000] - expected).max() < 1e-6


def test_no_positions_and_no_frequencies():
    assert filled(WaveTable([Decimal(1)]), np.arange(0), halves(1), FLOAT32).shape == (0, 2)
    assert filled(WaveTable([]), np.arange(3), [], FLOAT32, width=2).tolist() == [[7, 7]] * 3


def test_placements_must_match_their_columns():
    table = WaveTable(ladder(100, 8))
    with pytest.raises(ValueError, match="3 columns cannot hold 4 waves"):
        filled(table, [1], [Placement("cos", slice(0, 3))], FLOAT32)


@pytest.mark.long
def test_scratch_stays_small_at_any_length():
    table = WaveTable(ladder(10_000, 128))
    both = halves(64)
    out = np.ones((4096, 128), np.float32)

    def fill():
        for start in (0, 2**20, 2**53 - 4096):
            table.fill(out, np.arange(start, start + 4096), both, dtype=FLOAT32)

    assert peak(fill) < 9 << 20
