import numpy as np
import pytest

from posenc_cli.backends import numpy as backend
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.placements import Placement


@pytest.mark.parametrize("arithmetic", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("values", [1, 6, 7, 1 << 20])
def test_the_bytes_do_not_depend_on_how_many_values_go_together(monkeypatch, arithmetic, values):
    waves = backend.NumpyBackend().reduced(
        lambda xp: 1 / 10_000.0 ** (xp.arange(0, 6, 2) / 6),
        scale=1.25,
        arithmetic=arithmetic,
        device=None,
    )
    halves = [Placement("cos", slice(0, 3)), Placement("sin", slice(3, 6))]
    positions = np.arange(65_000, 65_017)
    once, parts = np.zeros((2, 17, 6), np.float32)
    waves.fill(once, positions, halves, dtype=FLOAT32)
    monkeypatch.setattr(backend, "FEW_VALUES", values)
    waves.fill(parts, positions, halves, dtype=FLOAT32)
    assert parts.tobytes() == once.tobytes()
    assert once.any(axis=1).all()
