from decimal import Decimal

import numpy as np
import pytest

from posenc_cli.numerics import angles
from posenc_cli.numerics.angles import AngleTable
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.waves import WaveTable
from tests.numerics import oracle

DTYPES = [FLOAT16, BFLOAT16, FLOAT32, FLOAT64]
FREQUENCIES = [Decimal(text) for text in ("1", "0.01", "-2.75", "123456.5", "3e-19", "1e-40", "0")]
POSITIONS = np.concatenate(
    [
        np.arange(-4, 30),
        [2**53, -(2**53), 2**31 + 1],
        np.random.default_rng(3).integers(0, 2**53, 9),
    ]
)


def assert_reduced(found, positions, frequencies, dtype, precision=oracle.PRECISION):
    found = oracle.values(found, dtype)
    for row, position in enumerate(positions):
        for column, frequency in enumerate(frequencies):
            assert found[row, column] == oracle.reduced(position, frequency, dtype, precision)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_angles_are_reduced_and_correctly_rounded(dtype):
    found = WaveTable(FREQUENCIES).angles(POSITIONS, dtype=dtype)
    assert_reduced(found, POSITIONS, FREQUENCIES, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_frequencies_past_every_float_have_angles(dtype):
    frequencies = [Decimal(text) for text in ("1e300", "2e323", "-3e400", "18446744073709551616")]
    positions = np.array([0, 1, -3, 2**53])
    found = AngleTable(frequencies).rows(positions, dtype=dtype)
    # Of angles with 1400 bits before the point.
    assert_reduced(found, positions, frequencies, dtype, precision=2500)


def test_integers_settle_what_double_double_leaves(monkeypatch):
    table = AngleTable(FREQUENCIES)
    usual = table.rows(POSITIONS, dtype=FLOAT32)
    calls = []

    def counted(*arguments, **settings):
        calls.append(arguments)
        return exact(*arguments, **settings)

    exact = angles.exact_angle
    monkeypatch.setattr(angles, "exact_angle", counted)
    assert np.array_equal(table.rows(POSITIONS, dtype=FLOAT32), usual)
    assert not calls
    monkeypatch.setattr(angles, "RELATIVE_MARGIN", 0.5)
    forced = table.rows(POSITIONS, dtype=FLOAT32)
    assert np.array_equal(forced.view(np.uint32), usual.view(np.uint32))
    assert len(calls) == np.count_nonzero(POSITIONS) * (len(FREQUENCIES) - 1)


def test_blocks_do_not_matter(monkeypatch):
    table = AngleTable(FREQUENCIES)
    usual = table.rows(POSITIONS, dtype=FLOAT64)
    monkeypatch.setattr(angles, "CHUNK_CELLS", 20)
    assert np.array_equal(table.rows(POSITIONS, dtype=FLOAT64), usual)


def test_no_positions_or_no_frequencies():
    assert AngleTable([]).rows(np.arange(3), dtype=FLOAT32).shape == (3, 0)
    assert AngleTable(FREQUENCIES).rows(np.arange(0), dtype=FLOAT32).shape == (0, 7)
