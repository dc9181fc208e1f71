from __future__ import annotations

from decimal import Decimal

import mpmath
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


def expected(position, frequency, dtype):
    with mpmath.workprec(oracle.PRECISION):
        angle = mpmath.mpf(int(position)) * mpmath.mpf(str(frequency))
        turns = mpmath.ceil(angle / (2 * mpmath.pi) - mpmath.mpf(1) / 2)
        return oracle.rounded(oracle.fraction(angle - turns * 2 * mpmath.pi), dtype)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_angles_are_reduced_and_correctly_rounded(dtype):
    found = oracle.values(WaveTable(FREQUENCIES).angles(POSITIONS, dtype=dtype), dtype)
    for row, position in enumerate(POSITIONS):
        for column, frequency in enumerate(FREQUENCIES):
            assert found[row, column] == expected(position, frequency, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_frequencies_past_every_float_have_angles(dtype):
    frequencies = [Decimal(text) for text in ("1e300", "2e323", "-3e400", "18446744073709551616")]
    positions = np.array([0, 1, -3, 2**53])
    found = oracle.values(AngleTable(frequencies).rows(positions, dtype=dtype), dtype)
    for row, position in enumerate(positions):
        for column, frequency in enumerate(frequencies):
            with mpmath.workprec(2500):  # of angles with 1400 bits before the point
                angle = mpmath.mpf(int(position)) * mpmath.mpf(str(frequency))
                turns = mpmath.ceil(angle / (2 * mpmath.pi) - mpmath.mpf(1) / 2)
                rest = oracle.fraction(angle - turns * 2 * mpmath.pi)
            assert found[row, column] == oracle.rounded(rest, dtype)


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
