"""KERPLE and Sandwich against their authors' and NVIDIA's code, and mpmath."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.encoding import scores
from posenc_cli.numerics import bounded
from posenc_cli.numerics.dtypes import REAL_DTYPES
from tests.encoding.test_growing import rounded
from tests.matrices import matrix

formats = st.sampled_from(sorted(REAL_DTYPES))
scalars = st.floats(1e-3, 1e3)


def listed(values):
    return ",".join(map(repr, values.astype(float).tolist()))


def test_kerple_equals_the_authors_code_where_keys_are_to_the_left(golden):
    case, arrays = golden("kerple")
    left = np.tril(np.ones((12, 12), bool))
    for name, r1, r2, bias in (
        ("kerple-log", "log_p", "log_a", "log_bias"),
        ("kerple-power", "pow_a", "pow_p", "pow_bias"),
    ):
        ours = matrix(name, "0:12", heads=4, r1=listed(arrays[r1]), r2=listed(arrays[r2]))
        assert np.abs(ours - arrays[bias])[:, left].max() <= case["tolerance"]["atol"]
        assert (ours == ours.transpose(0, 2, 1)).all()


@given(r1=scalars, r2=scalars, distance=st.integers(1, 2**53), dtype=formats)
def test_kerple_log_is_correctly_rounded(r1, r2, distance, dtype):
    found = matrix("kerple-log", f"0,{distance}", r1=r1, r2=r2, heads=1, dtype=dtype)
    with mpmath.workprec(400):
        expected = -mpmath.mpf(r1) * mpmath.log(1 + mpmath.mpf(r2) * distance)
        assert found[0, 0, 1] == found[0, 1, 0] == rounded(expected, dtype)
    assert found[0, 0, 0] == 0


@given(r1=scalars, r2=st.floats(0.01, 2), distance=st.integers(1, 2**53), dtype=formats)
def test_kerple_power_is_correctly_rounded(r1, r2, distance, dtype):
    found = matrix("kerple-power", f"0,{distance}", r1=r1, r2=r2, heads=1, dtype=dtype)
    with mpmath.workprec(400):
        expected = -mpmath.mpf(r1) * mpmath.mpf(distance) ** mpmath.mpf(r2)
        assert found[0, 0, 1] == rounded(expected, dtype)
    assert found[0, 0, 0] == 0


def test_each_head_has_its_own_scalars():
    apart = matrix("kerple-log", "0:9", heads=3, r1="1,2,3", r2="0.5,1,2")
    for head, (r1, r2) in enumerate([(1, 0.5), (2, 1), (3, 2)]):
        alone = matrix("kerple-log", "0:9", heads=1, r1=r1, r2=r2)
        assert (apart[head] == alone[0]).all()
        assert (
            matrix("kerple-log", "0:9", heads=3, r1="1,2,3", r2="0.5,1,2", head=head) == alone[0]
        ).all()


@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_reduced_arithmetic_computes_as_frameworks_do(arithmetic, golden):
    _, arrays = golden("kerple")
    left = np.tril(np.ones((12, 12), bool))
    ours = matrix(
        "kerple-log",
        "0:12",
        heads=4,
        r1=listed(arrays["log_p"]),
        r2=listed(arrays["log_a"]),
        arithmetic=arithmetic,
    )
    assert np.abs(ours - arrays["log_bias"])[:, left].max() <= 2e-6
    exact = matrix("kerple-power", "0:999", r2=1.3, dtype="float64", head=1)
    float32 = matrix("kerple-power", "0:999", r2=1.3, arithmetic="float32", dtype="float64", head=1)
    assert 0 < np.abs(float32 - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.long
@pytest.mark.parametrize(("heads", "dim", "length"), [(4, 64, 20), (12, 128, 33), (3, 8, 20)])
def test_sandwich_equals_nemo(heads, dim, length, golden):
    case, arrays = golden("sandwich_nemo")
    ours = matrix("sandwich", f"0:{length}", heads=heads, dim=dim, convention="nemo")
    theirs = arrays[f"h{heads}_d{dim}"]
    assert np.abs(ours - theirs).max() <= case["tolerance"]["atol"]
    # Plain sinusoids begin at another exponent.
    plain = matrix("sandwich", f"0:{length}", heads=heads, dim=dim)
    assert np.abs(plain - plain[:, :1, :1] - theirs).max() > 0.1


@given(
    distance=st.integers(0, 2**40),
    dtype=formats,
    convention=st.sampled_from(["sinusoidal", "nemo"]),
)
def test_sandwich_is_correctly_rounded(distance, dtype, convention):
    first = 1 if convention == "nemo" else 0
    found = matrix("sandwich", f"0,{distance}", heads=3, dim=6, dtype=dtype, convention=convention)
    with mpmath.workprec(400):
        cosines = [
            mpmath.cos(distance / mpmath.mpf(10_000) ** (mpmath.mpf(i) / 3))
            for i in range(first, first + 3)
        ]
        total = mpmath.fsum(cosines) - 3 * first
        for head in range(3):
            expected = total * 3 / (8 * (head + 1))
            assert found[head, 0, 1] == rounded(expected, dtype)


@pytest.mark.long
def test_the_widest_sandwich_takes_cosines_of_many_pairs_at_once(monkeypatch):
    """Pair by pair, 65,536 columns took a minute."""

    def cos(angles):
        calls.append(angles.shape)
        return original(angles)

    calls, original = [], bounded.cos
    monkeypatch.setattr(bounded, "cos", cos)
    found = matrix("sandwich", "0,3", heads=1, dim=65536, dtype="float32")
    assert len(calls) < 100
    with mpmath.workprec(100):
        cosines = [
            mpmath.cos(3 / mpmath.mpf(10_000) ** (mpmath.mpf(i) / 32768)) for i in range(32768)
        ]
        assert found[0, 0, 1] == rounded(mpmath.fsum(cosines) / 8, "float32")


@pytest.mark.long
def test_nearly_all_scores_are_proven_without_long_numbers(monkeypatch):
    def long_numbers(self, coefficient, indices):
        settled.extend(indices.tolist())
        return original(self, coefficient, indices)

    settled = []
    original = scores._ExactScores._exact_scores
    monkeypatch.setattr(scores._ExactScores, "_exact_scores", long_numbers)
    for name in ("kerple-log", "kerple-power", "sandwich", "alibi"):
        matrix(
            name,
            "0:2000",
            head=2,
            dtype="float64",
            **({"r2": 1.1} if name == "kerple-power" else {}),
        )
    assert set(settled) <= {0}
