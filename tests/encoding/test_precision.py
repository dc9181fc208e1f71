"""Which number formats can store the values of which."""

import itertools

import numpy as np
import pytest

from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import REAL_DTYPES

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16)} | {
    name: np.dtype(name) for name in ("float16", "float32", "float64")
}


def corners(name):
    """The largest and smallest numbers of a format, and one with all bits of its significand."""
    info = ml_dtypes.finfo(NUMPY[name])
    return [float(info.max), float(info.smallest_subnormal), 1 + float(info.eps)]


@pytest.mark.parametrize(("stored", "rounded"), list(itertools.product(NUMPY, NUMPY)), ids=str)
def test_a_format_is_accepted_exactly_where_it_holds_every_value(stored, rounded):
    with np.errstate(over="ignore"):
        holds = all(float(NUMPY[stored].type(x)) == x for x in corners(rounded))
    if holds:
        assert Precision.of(REAL_DTYPES[stored], REAL_DTYPES[rounded]).rounded.name == rounded
    else:
        with pytest.raises(InvalidInput, match=f"--round-to {rounded}: {stored} cannot hold"):
            Precision.of(REAL_DTYPES[stored], REAL_DTYPES[rounded])
