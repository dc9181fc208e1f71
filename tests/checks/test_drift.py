"""What a tolerance that grows with the angle would hide: offsets and noise at far positions."""

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.rotary.drift import ALIKE, FROM, Drift
from tests.checks import rope
from tests.diagnosis.textbook import ladder

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


@pytest.mark.sweep(3)
@pytest.mark.parametrize("offset", [1, -1, 3, 0.48])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_offset_common_to_all_pairs_is_found_though_each_cell_is_within_its_tolerance(
    offset, dtype
):
    examined = found("3000000:3002048", lambda p: p + offset, factor=8.0, dtype=dtype)
    assert [each.check for each in examined.findings if not each.ok] == ["reference"]
    cause = diagnose(examined)[0]
    assert cause.cause == "position-offset"
    assert cause.message == f"positions are shifted by {offset:+g}"


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


@pytest.mark.long
@pytest.mark.sweep(40)
@pytest.mark.parametrize("base", [1e4, 1e7])
@pytest.mark.parametrize("frequencies", [powers, exponentials])
@pytest.mark.parametrize("factor", [1.0, 3.0])
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


SHORT = (40, 8200)


def reduced(angles, pi):
    """Angles in float32, from which multiples of 2π are taken off, π being what is given."""
    turn = np.float32(2 * pi)
    return angles - np.rint(angles / turn) * turn


def cody_waite(angles):
    """Cosines and sines as vector libraries compute them: π/2 in three parts, and polynomials."""
    quarters = np.rint(angles * np.float32(2 / np.pi))
    rest = angles
    for part in (1.5703125, 4.83751296997e-4, 7.54978995489e-8):
        rest = rest - quarters * np.float32(part)
    square = rest * rest
    sin, cos = rest * square, square * square
    sin = sin * (-1.6666654611e-1 + square * (8.3321608736e-3 - square * 1.9515295891e-4)) + rest
    cos = cos * (4.166664568e-2 + square * (-1.388731625e-3 + square * 2.443315712e-5))
    cos = cos + 1 - square / 2
    quarter = quarters.astype(np.int64) % 4
    return (
        np.choose(quarter, [cos, -sin, -cos, sin]).astype(np.float32),
        np.choose(quarter, [sin, cos, -sin, -cos]).astype(np.float32),
    )


RIGHT_FUNCTIONS = {
    "float32": lambda a: (np.cos(a), np.sin(a)),
    "float64": lambda a: (np.cos(a.astype(float)), np.sin(a.astype(float))),
    "Cody and Waite": cody_waite,
    "less multiples of 2π": lambda a: (np.cos(reduced(a, np.pi)), np.sin(reduced(a, np.pi))),
    "fmod": lambda a: (
        np.cos(np.fmod(a, np.float32(2 * np.pi))),
        np.sin(np.fmod(a, np.float32(2 * np.pi))),
    ),
}


@pytest.mark.sweep(36)
@pytest.mark.parametrize("frequencies", [powers, exponentials])
@pytest.mark.parametrize("function", RIGHT_FUNCTIONS)
@pytest.mark.parametrize("count", SHORT)
def test_float32_code_passes_at_short_lengths_however_it_reduces_angles(
    count, function, frequencies
):
    for base, factor in ((1e4, 1.0), (1e6, 1.0), (1e4, 3.0)):
        scheme, given = ("rope", {}) if factor == 1 else ("rope-linear", {"factor": factor})
        right = rope.reference(scheme, dim=128, base=base, **given)
        positions = np.arange(count, dtype=np.float32)
        angles = np.multiply.outer(positions / np.float32(factor), frequencies(128, base))
        cos, sin = (part.astype(np.float32) for part in RIGHT_FUNCTIONS[function](angles))
        examined = rope.of_tables(cos, sin, right, f"0:{count}")
        assert examined.ok, examined.findings


def drift(frequencies, **known):
    """What is known of the errors of frequencies, as if positions had been looked at."""
    made = Drift(np.asarray(frequencies, float), 1e-7)
    for name, values in known.items():
        setattr(made, name, values if isinstance(values, int) else np.asarray(values, float))
    return made


@pytest.mark.parametrize(
    ("at", "bounds", "position"),
    [
        ((5000, 9000), (3e-5, -2e-5), 5000),
        ((5000, 9000), (2e-5, -3e-5), 9000),
        ((-1, 9000), (3e-5, -2e-5), 9000),
        ((5000, -1), (2e-5, -3e-5), 5000),
    ],
)
def test_a_fault_is_at_the_farther_of_the_positions_that_contradict_each_other(
    at, bounds, position
):
    (low, high), (least, most) = at, bounds
    made = drift([1.0], least=[least], most=[most], least_at=[low], most_at=[high])
    fault = made.fault(1.0)
    assert (fault.position, fault.pair) == (position, 0)
    assert fault.value > fault.allowed > 0


def test_a_fault_of_all_pairs_allows_at_most_the_share_of_it_that_may_be_chance():
    frequencies = [1.0, 0.5, 0.25, 0.125]
    errors = np.full(4, 2e-7)
    made = drift(frequencies, weights=np.ones(4), sums=errors, farthest=1_000_000)
    fault = made.fault(1.0)
    assert fault.value == pytest.approx(0.2)
    assert fault.allowed == pytest.approx(0.2 / ALIKE)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frequencies_that_err_apart_as_float32_powers_do_share_no_cause(seed):
    """Of up to eight units of float32; where all err nearly alike, that is a rule."""
    errors = 8 * 2.0**-24 * np.random.default_rng(seed).uniform(0.55, 0.98, 32)
    right = rope.reference("rope", dim=64)
    examined = rope.of_frequencies(ladder(64, 1e4) * (1 + errors), right, "0:131072:7")
    assert not examined.ok
    assert diagnose(examined)[0].cause == "unknown"


@pytest.mark.parametrize(
    "pattern",
    [
        lambda angles: np.ones(angles.shape),
        lambda angles: np.ones(angles.shape) * (-1) ** np.arange(angles.shape[1]),
        lambda angles: angles / angles[:-1].max(),  # one offset in all pairs
    ],
    ids=["alike", "alternating", "an offset"],
)
@pytest.mark.parametrize("farthest", [FROM + 2000, 10**7])
@pytest.mark.parametrize("fastest", [1.0, 1e-4])
@pytest.mark.parametrize("floor", [1e-6, 4e-3])
def test_errors_that_are_allowed_in_any_pattern_leave_no_fault(floor, fastest, farthest, pattern):
    frequencies = fastest * ladder(64, 4.0)
    positions = np.array([*range(FROM // 2, FROM + 2000), farthest])
    drift = Drift(frequencies, floor)
    sizes = np.geomspace(1e-9, 1, 400)
    largest = max(size for size in sizes if drift.allows_all(size, farthest))
    angles = np.multiply.outer(positions, frequencies)
    phases = 2 * np.arcsin(largest / 2) * np.minimum(pattern(angles), 1)
    phases[-1] = 0
    drift.update(positions, np.exp(1j * (angles + phases)), np.exp(1j * angles), None)
    assert drift.fault(1.0) is None
