"""What two sides differ in is said first, and large files are not identified unasked."""

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.comparison import compare as module
from posenc_cli.comparison.compare import Side, comparison
from posenc_cli.files.reading import Loaded
from posenc_cli.positions import Positions


def compared(*sides, length=32):
    where = Positions.contiguous(0, length)
    return comparison(sides, where, table=None, head=None, dtype=None, tolerance=0.0)


def encoding(scheme, **given):
    return Side(scheme, scheme=catalogue.find(scheme), given={"dim": 16, **given})


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (encoding("rope"), encoding("rope", base=5e5), {"base": ("10000", "500000")}),
        (encoding("rope"), encoding("sinusoidal"), {"scheme": ("rope", "sinusoidal")}),
        (encoding("sinusoidal"), encoding("sinusoidal", order="cos-first"),
         {"order": ("sin-first", "cos-first")}),
    ],
)  # fmt: skip
def test_parameters_that_differ_are_told_of_two_encodings(first, second, told):
    result = compared(first, second)
    assert not result.ok
    assert result.is_small
    assert result.identities.differing == told


def test_large_files_are_not_identified_unasked(monkeypatch):
    monkeypatch.setattr(module, "_IDENTIFIED", 100)
    values = np.zeros((32, 16), np.float32)
    file = Side("zeros.npy", loaded=Loaded(values, "float32", "zeros.npy"))
    assert not compared(file, encoding("rope")).is_small
