"""``--arithmetic``: what NumPy code computes in a precision, bit for bit, and its known errors."""

import numpy as np
import pytest

from tests.matrices import matrix

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

POSITIONS = "0:300,65530:65540,131071,16777217"
LISTED = np.array([*range(300), *range(65530, 65540), 131071, 16777217])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rope_is_what_numpy_code_in_that_precision_gives(dtype, base):
    """The textbook: every array in one dtype, as frameworks write it."""
    exponents = np.arange(0, 64, 2).astype(dtype) / dtype(64)
    frequencies = 1 / dtype(base) ** exponents
    angles = np.outer(LISTED.astype(dtype), frequencies)
    textbook = np.hstack([np.cos(angles), np.sin(angles)])
    assert textbook.dtype == dtype
    name = np.dtype(dtype).name
    ours = matrix("rope", POSITIONS, base=base, dtype=name, arithmetic=name)
    assert ours.tobytes() == textbook.tobytes()
    assert (
        matrix("rope", None, base=base, table="inv-freq", dtype=name, arithmetic=name)
        == frequencies
    ).all()


def test_bfloat16_is_a_float32_module_cast_to_bfloat16():
    bfloat16 = ml_dtypes.bfloat16
    frequencies = 1 / np.float32(10_000) ** (np.arange(0, 64, 2).astype(np.float32) / 64)
    angles = LISTED.astype(bfloat16)[:, None] * frequencies.astype(bfloat16)[None, :]
    assert angles.dtype == bfloat16
    textbook = np.hstack([np.cos(angles), np.sin(angles)])
    assert textbook.dtype == bfloat16
    ours = matrix("rope", POSITIONS, dtype="bfloat16", arithmetic="bfloat16")
    assert ours.tobytes() == textbook.tobytes()


def test_angles_are_the_rounded_product_reduced():
    frequencies = 1 / np.float32(10_000) ** (np.arange(0, 64, 2).astype(np.float32) / 64)
    angles = np.outer(LISTED[:300].astype(np.float32), frequencies).astype(np.float64)
    ours = matrix("rope", "0:300", table="angles", dtype="float64", arithmetic="float32")
    assert (np.abs(ours) <= np.pi).all()
    turns = (angles - ours) / (2 * np.pi)
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-12)


@pytest.mark.long
def test_alibi_in_bfloat16_is_falcons_product():
    """Slopes and positions in bfloat16, then their product: what Falcon adds to its scores."""
    bfloat16 = ml_dtypes.bfloat16
    slopes = np.array([2.0**-8, *(2.0 ** -(8 * h / 16) for h in (3,))])
    ours = matrix(
        "alibi", "0:2048", heads=16, form="bloom", dtype="bfloat16", arithmetic="bfloat16"
    )
    positions = np.arange(2048).astype(bfloat16)
    for head, slope in ((15, slopes[0]), (2, slopes[1])):
        expected = np.float32(slope).astype(bfloat16) * positions
        assert ours[head, 0].tobytes() == expected.tobytes()
    assert len(np.unique(ours[15, 0])) == 641


def test_normalized_divides_in_the_precision():
    ours = matrix("normalized", "0:2000", dim=1, arithmetic="float32")[:, 0]
    assert (ours == np.arange(2000, dtype=np.float32) / np.float32(2000)).all()
    wide = matrix("normalized", "0:2000", dim=1, arithmetic="float32", dtype="float64")[:, 0]
    assert wide.dtype == np.float64
    assert (wide == ours).all()
    coarse = matrix("normalized", "0:600", dim=1, dtype="bfloat16", arithmetic="bfloat16")[:, 0]
    bfloat16 = ml_dtypes.bfloat16
    expected = np.arange(600).astype(bfloat16) / bfloat16(600)
    assert coarse.tobytes() == expected.tobytes()


def test_lookups_keep_their_integer_positions():
    """Frameworks index tables with integers; only the values are in the precision."""
    ours = matrix("binary", "255:260", dim=10, arithmetic="bfloat16")
    assert (ours == matrix("binary", "255:260", dim=10)).all()
    ours = matrix("learned", "255:260", arithmetic="bfloat16")
    assert (ours == matrix("learned", "255:260", round_to="bfloat16")).all()
    ours = matrix("t5", "0:9", arithmetic="float32", dtype="float64")
    assert (ours == matrix("t5", "0:9").astype(np.float64)).all()
