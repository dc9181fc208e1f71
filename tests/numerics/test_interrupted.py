"""Tables whose making was interrupted, and blocks with many doubtful cells."""

from decimal import Decimal

import mpmath
import numpy as np
import pytest

from posenc_cli.numerics import judge, phasors
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.waves import WaveTable

COSINES = [Placement("cos", slice(0, 1))]


@pytest.mark.parametrize("call", range(1, 12))
def test_a_build_that_was_interrupted_begins_again(call, monkeypatch):
    product, calls = phasors.complex_product, []

    def interrupted(left, right):
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt
        return product(left, right)

    table = WaveTable([Decimal("0.1")])
    positions = np.arange(3000)
    out = np.empty((3000, 1))
    monkeypatch.setattr(phasors, "complex_product", interrupted)
    monkeypatch.setattr(phasors, "_kept", LRUCache(64))  # so that nothing is there yet
    with pytest.raises(KeyboardInterrupt):
        table.fill(out, positions, COSINES, dtype=FLOAT64)
    table.fill(out, positions, COSINES, dtype=FLOAT64)
    # Radians of 0.1 exactly, not of the float nearest to it: 1e-14 apart at 3000 at most.
    np.testing.assert_allclose(out[:, 0], np.cos(positions * 0.1), atol=1e-13)


def test_more_doubts_than_are_kept_are_all_resolved(monkeypatch):
    """Every cell is doubted, and they are resolved a few at a time."""
    monkeypatch.setattr(judge, "DOUBTS_KEPT", 100)
    monkeypatch.setattr("posenc_cli.numerics.cells.MARGIN", 1e-3)
    frequencies = [Decimal(1) / 7, Decimal(1) / 11]
    positions = np.arange(1000, 3000)
    both = [Placement("cos", slice(0, 2)), Placement("sin", slice(2, 4))]
    doubted = np.empty((2000, 4), np.float32)
    WaveTable(frequencies).fill(doubted, positions, both, dtype=FLOAT32)
    monkeypatch.undo()
    proven = np.empty_like(doubted)
    WaveTable(frequencies).fill(proven, positions, both, dtype=FLOAT32)
    assert doubted.tobytes() == proven.tobytes()


def test_angles_just_past_pi_are_reduced():
    with mpmath.workdps(60):
        frequency = mpmath.mpf(1) / 1000
        positions = np.arange(3100, 3300)
        expected = [
            float(mpmath.mpf(n) * frequency - (2 * mpmath.pi if n > 3141 else 0))
            for n in positions.tolist()
        ]
    angles = WaveTable([Decimal("0.001")]).angles(positions, dtype=FLOAT64)[:, 0]
    assert angles.tolist() == expected
