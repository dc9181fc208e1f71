"""Resized tables: torch's own bits, and the exact values to which all are near."""

from fractions import Fraction
from math import floor, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.encoding.resizing import Resizing
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import round_exact
from tests.examples import examples

PEERS = "torch", "timm", "transformers", "dinov2"
NAMES = {"bilinear": "linear"}


def resized(table, old, new, method, arithmetic="exact", *, dtype=None, **options):
    grid, length = ((tuple(old), tuple(new)), None) if len(old) == 2 else (None, new[0])
    resizing = Resizing.of(table.shape, "table", length=length, grid=grid, method=method, **options)
    dtype = REAL_DTYPES[dtype or table.dtype.name]
    return np.concatenate([*resizing.blocks(table, dtype, arithmetic)])


def cases(golden, peer):
    """Each case of a golden: what it is, the table, and what the peer made of it."""
    statement, arrays = golden(f"resized_{peer}")
    for name, case in statement["params"]["cases"].items():
        table = arrays["table"][: prod(case["from"]) + case["prefix"], : case["dim"]]
        if case["dtype"] == "float64":
            table = table.astype("float64") / 3
        options = {key: case[key] for key in ("prefix", "antialias")}
        options["interpolate_offset"] = case.get("interpolate_offset", 0.0)
        method = NAMES.get(case["method"], case["method"])
        yield name, table, (case["from"], case["to"], method), options, arrays[name]


@pytest.mark.long
@pytest.mark.parametrize("peer", PEERS)
def test_torchs_arithmetic_gives_the_bits_of_torch_and_of_models(golden, peer):
    pytest.importorskip("torch")
    tried = 0
    for name, table, how, options, theirs in cases(golden, peer):
        ours = resized(table, *how, arithmetic=table.dtype.name, **options)
        assert ours.dtype == theirs.dtype, name
        assert ours.tobytes() == theirs.tobytes(), name
        tried += 1
    assert tried > 3


def kernel(method, antialias, x):
    """The kernel of a method at an exact distance."""
    x = abs(x)
    if method == "linear":
        return max(Fraction(0), 1 - x)
    a = Fraction(-1, 2) if antialias else Fraction(-3, 4)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else Fraction(0)


def exact_weights(source, target, output, method, *, antialias=False, offset=0.0):
    """A weight for each row of the source, by the definition, in fractions."""
    step = Fraction(source, target)
    if offset:
        step = 1 / Fraction((target + offset) / source)
    if source == target and (antialias or method == "linear" or not offset):
        return [Fraction(row == output) for row in range(source)]
    place = (output + Fraction(1, 2)) * step - Fraction(1, 2)
    if antialias:
        wide = max(step, Fraction(1))
        weights = [kernel(method, True, (row - place) / wide) for row in range(source)]
        return [weight / sum(weights) for weight in weights]
    weights = [Fraction(0)] * source
    if method == "linear":
        place = max(place, Fraction(0))
    for row in range(floor(place) - 1, floor(place) + 3):
        weights[min(max(row, 0), source - 1)] += kernel(method, False, row - place)
    return weights


@st.composite
def resizings(draw):
    sides = st.integers(1, 7)
    count = draw(st.integers(1, 2))
    old, new = ([draw(sides) for _ in range(count)] for _ in range(2))
    method = draw(st.sampled_from(["linear", "bicubic"]))
    offset = draw(st.sampled_from([0.0, 0.1])) if count == 2 else 0.0
    return old, new, method, draw(st.booleans()), offset, draw(st.integers(0, 99))


@given(resizings(), st.sampled_from([*REAL_DTYPES]))
@examples(150)
def test_values_are_the_exact_ones_correctly_rounded(how, dtype):
    old, new, method, antialias, offset, seed = how
    random = np.random.default_rng(seed)
    # Few digits make ties, and far exponents make cancellations.
    table = random.integers(-9, 10, (prod(old), 2)) * 2.0 ** random.integers(-40, 3, (prod(old), 2))
    ours = resized(
        table, old, new, method, antialias=antialias, interpolate_offset=offset, dtype=dtype
    )
    weights = [[Fraction(1)]]
    for source, target in zip(old, new, strict=True):
        along = [
            exact_weights(source, target, output, method, antialias=antialias, offset=offset)
            for output in range(target)
        ]
        weights = [
            [outer * inner for outer in slow for inner in fast]
            for slow in weights
            for fast in along
        ]
    exact = [
        sum((w * Fraction(x) for w, x in zip(row, column, strict=True)), Fraction(0))
        for row in weights
        for column in table.T.tolist()
    ]
    assert (ours == round_exact(exact, REAL_DTYPES[dtype]).reshape(ours.shape)).all()


def test_ties_are_seen_and_go_to_even():
    """Three quarters of one row and one of the next: 24 bits and two more."""
    odd = np.float32(1 + 2.0**-23)
    table = np.array([[1.0, odd, 1.0], [odd, 1.0, 1 - 2.0**-24]], np.float32)
    ours = resized(table, [2], [4], "linear")
    exact = [
        [3 * a + b for a, b in table.T.astype(float)],
        [a + 3 * b for a, b in table.T.astype(float)],
    ]
    assert (ours[1:3] == (np.array(exact) / 4).astype(np.float32)).all()


def test_what_cancels_does_not_hide_what_is_smaller():
    """A quarter each: a tie of float32, 2^−80, 2^−140 and −2^−80."""
    tie = 4 * (1 + 2.0**-24)
    for rest, rounded in ((2.0**-140, 1 + 2.0**-23), (0.0, 1.0), (-(2.0**-140), 1.0)):
        table = np.array([[tie], [2.0**-80], [rest], [-(2.0**-80)]])
        ours = resized(table, [2, 2], [1, 1], "linear", dtype="float32")
        assert ours.tolist() == [[rounded]]


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1.7e308])
def test_numbers_of_any_size_are_rounded_once(size):
    table = np.array([[1.0, -1.0], [0.3, 0.5], [0.7, 0.25]]) * size
    ours = resized(table, [3], [5], "bicubic")
    for output in range(5):
        weights = exact_weights(3, 5, output, "bicubic")
        for column in range(2):
            pairs = zip(weights, table[:, column].tolist(), strict=True)
            exact = sum((w * Fraction(x) for w, x in pairs), Fraction(0))
            assert ours[output, column] == round_exact([exact], REAL_DTYPES["float64"])[0]


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("method", ["linear", "bicubic"])
def test_blocks_do_not_change_a_value(monkeypatch, method, arithmetic):
    if arithmetic != "exact":
        pytest.importorskip("torch")
    table = np.random.default_rng(2).standard_normal((30, 9)).astype(np.float32)
    whole = resized(table, [5, 6], [4, 17], method, arithmetic)
    monkeypatch.setattr("posenc_cli.encoding.resizing._MOST_OUTPUTS", 3)
    assert (resized(table, [5, 6], [4, 17], method, arithmetic) == whole).all()


def test_nearest_takes_the_row_that_the_exact_coordinate_names():
    table = np.arange(7.0)[:, None]
    first = resized(table, [7], [12], "nearest")[:, 0]
    middle = resized(table, [7], [12], "nearest-exact")[:, 0]
    assert first.tolist() == [i * 7 // 12 for i in range(12)]
    assert middle.tolist() == [(2 * i + 1) * 7 // 24 for i in range(12)]


def test_a_learned_table_extended_by_interpolation_is_the_same(tmp_path):
    """``-s learned --set extend=interpolate`` reads the table at the same places."""
    from tests.matrices import matrix

    table = np.random.default_rng(3).standard_normal((10, 4))
    np.save(tmp_path / "table.npy", table)
    extended = matrix(
        "learned",
        "0:23",
        dtype="float64",
        weights=str(tmp_path / "table.npy"),
        extend="interpolate",
        seq_len=23,
    )
    ours = resized(table, [10], [23], "linear")
    assert np.abs(ours - extended).max() <= 2.0**-51  # it blends in float64, of three roundings
