"""What a tolerance that grows with the angle would hide: offsets and noise at far positions."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.checks.diagnosis import diagnose
from tests.checks import rope
from tests.checks.mutants import ladder

FAR = "1000000:1002048"
WIDE = "0:1000000:97"


def found(positions, moved, *, factor=1.0, dtype=np.float32):
    """The findings on float64 code whose positions ``moved`` changes."""
    scheme, given = ("rope", {}) if factor == 1 else ("rope-linear", {"factor": factor})
    right = rope.reference(scheme, dim=128, **given)
    where = moved(rope.positions_array(positions).astype(np.float64))
    angles = np.multiply.outer(where / factor, ladder(128, 1e4))
    return rope.of_tables(
        np.cos(angles).astype(dtype), np.sin(angles).astype(dtype), right, positions
    )


@pytest.mark.parametrize("offset", [1, -1, 3, 0.48])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_offset_common_to_all_pairs_is_found_though_each_cell_is_within_its_tolerance(
    offset, dtype
):
    examined = found("3000000:3002048", lambda p: p + offset, factor=8.0, dtype=dtype)
    assert [each.check for each in examined.findings if not each.ok] == ["reference"]
    cause = diagnose(examined)[0]
    assert cause.cause == "position-offset"
    assert cause.message == f"positions are off by {offset:+g}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "moved",
    [
        lambda p: (
            p + np.where(p > 500000, np.random.default_rng(0).uniform(-0.45, 0.45, p.size), 0)
        ),
        lambda p: np.where(p >= 600000, p + 0.3, p),
    ],
    ids=["noise", "a step"],
)
def test_phases_that_no_one_error_of_a_frequency_explains_are_found(moved):
    examined = found(WIDE, moved)
    reference = next(f for f in examined.findings if f.check == "reference")
    assert not reference.ok
    assert reference.worst > reference.tolerance > 0
    assert diagnose(examined)


@pytest.mark.slow
def test_the_frequency_that_is_1_has_no_slack_for_its_rounding():
    right = rope.reference("rope", dim=128)
    where = np.arange(131072)
    angles = np.multiply.outer(where.astype(np.float64), ladder(128, 1e4))
    cos, sin = (each.astype(np.float32) for each in (np.cos(angles), np.sin(angles)))
    assert rope.of_tables(cos, sin, right, "0:131072").ok
    cos[60000:, 0], sin[60000:, 0] = (f(where[60000:] + 0.05) for f in (np.cos, np.sin))
    examined = rope.of_tables(cos, sin, right, "0:131072")
    assert [each.check for each in examined.findings if not each.ok] == ["reference"]
    assert diagnose(examined)[0].cause == "unknown"


def powers(d, base):
    exponents = np.arange(0, d, 2, dtype=np.float32) / np.float32(d)
    return np.float32(1) / np.power(np.float32(base), exponents)


def exponentials(d, base):
    return np.exp(np.arange(0, d, 2, dtype=np.float32) * np.float32(-np.log(base) / d))


@pytest.mark.sweep(40)
@pytest.mark.parametrize("base", [1e4, 5e5, 1e6, 1e7])
@pytest.mark.parametrize("frequencies", [powers, exponentials])
@pytest.mark.parametrize("factor", [1.0, 3.0, 8.0])
def test_float32_code_passes_at_a_million_however_it_makes_its_frequencies(
    frequencies, base, factor
):
    rates = frequencies(128, base)
    scheme, given = ("rope", {}) if factor == 1 else ("rope-linear", {"factor": factor})
    right = rope.reference(scheme, dim=128, base=base, **given)
    for positions in (FAR, WIDE, "2000000:2000512"):
        where = rope.positions_array(positions).astype(np.float32)
        slower = np.multiply.outer(where, rates / np.float32(factor))
        nearer = np.multiply.outer(where / np.float32(factor), rates)
        inverse = np.multiply.outer(where * np.float32(1 / factor), rates)
        for angles in (slower, nearer, inverse):
            assert angles.dtype == np.float32
            examined = rope.of_tables(np.cos(angles), np.sin(angles), right, positions)
            assert examined.ok, examined.findings
