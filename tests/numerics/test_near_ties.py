"""Cells that lie beside a boundary of rounding, made for it: what the rounding test is for.

Each frequency is chosen so that, at one position, scale · sin(position · frequency) is a tie of the
format but for a distance far below the error of float64. Its float64 cell falls on either side of
the tie, as its rounding errors happen to be; only the margin tells that it proves nothing.
"""

from decimal import Decimal
from functools import cache

import mpmath
import numpy as np
import pytest

from posenc_cli.numerics import cells, judge, wide
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.rounding import round_exact
from posenc_cli.numerics.waves import WaveTable
from tests.numerics import oracle

DTYPES = {dtype.name: dtype for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
POSITION = 1061
BINADES = (-1, -2, -5, -10, -15, -20, -24)
BINADES_BELOW = (-27, -30, -32, -34, -40)  # where the margin is more than a unit of float32
SCALES = ("1", "1.3465735902799727", "-0.1", "0.70710678")
UNIT = 2.0**-53

every_dtype = pytest.mark.parametrize("name", DTYPES)


@cache
def beside_ties(name, binade, exponent, *, scale, turns, count):
    """Frequencies, and the roundings of their cells, of magnitude 2^binade or a little more."""
    dtype = DTYPES[name]
    random = np.random.default_rng([-binade, -exponent, turns])
    frequencies, expected = [], []
    with mpmath.workprec(500):
        unit = mpmath.mpf(2) ** (max(binade, dtype.min_exponent) - dtype.precision + 1)
        least = max(1, int(mpmath.mpf(2) ** binade / unit))
        for below in random.integers(least, 2 * least, count).tolist():
            for side in (0, 1):
                tie = (below + mpmath.mpf(1) / 2) * unit
                value = tie + (2 * side - 1) * tie * mpmath.mpf(2) ** exponent
                turned = int(random.integers(1, 10 * turns)) if turns else 0
                angle = mpmath.asin(value / mpmath.mpf(scale)) + 2 * mpmath.pi * turned
                frequencies.append(Decimal(mpmath.nstr(angle / POSITION, 120)))
                expected.append(float((below + side) * unit))
    return frequencies, expected


def sines(frequencies, positions, *, scale, dtype, paired):
    """The table's sines, computed alone or together with cosines."""
    count = len(frequencies)
    placements = [Placement("sin", slice(0, count))]
    if paired:
        placements.append(Placement("cos", slice(count, 2 * count)))
    out = np.empty((positions.size, count * (1 + paired)), dtype.numpy)
    WaveTable(frequencies, scale=Decimal(scale)).fill(out, positions, placements, dtype=dtype)
    return oracle.values(out, dtype)[:, :count]


RUNS = {
    "rising": np.arange(POSITION, POSITION + 300),
    "scattered": np.array([POSITION, 7, 5]),
}


@pytest.mark.long
@pytest.mark.sweep(83)
@every_dtype
@pytest.mark.parametrize("exponent", [-54, -70, -120])
@pytest.mark.parametrize("turns", [0, 7], ids=["small-angles", "many-turns"])
@pytest.mark.parametrize("scale", SCALES)
def test_cells_of_every_size_go_to_their_own_side_of_a_tie(name, exponent, turns, scale):
    dtype = DTYPES[name]
    binades = [each for each in BINADES if each >= dtype.min_exponent - dtype.precision + 1]
    if scale == "-0.1":
        binades = [each for each in binades if each < -4]
    elif dtype is not FLOAT16:
        binades += BINADES_BELOW
    binades = [each for each in binades if 2.0 ** (each + 1) < abs(float(scale))]
    given = {"scale": scale, "turns": turns, "count": 20}
    cases = [beside_ties(name, each, exponent, **given) for each in binades]
    frequencies = [frequency for case in cases for frequency in case[0]]
    expected = [value for case in cases for value in case[1]]
    for positions in RUNS.values():
        for paired in (False, True):
            found = sines(frequencies, positions, scale=scale, dtype=dtype, paired=paired)
            assert found[0].tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("margin", "value"),
    [("cells.MARGIN", 1.2 * UNIT), ("judge.PAIR_MARGIN", 2.0**-104)],
    ids=["first-tier", "second-tier"],
)
@every_dtype
def test_narrower_margins_would_prove_wrong_cells(name, margin, value, run, monkeypatch):
    """Errors reach this far, though not as far as they are proven not to: the cases are hard."""
    dtype = DTYPES[name]
    if dtype is FLOAT64 and margin == "cells.MARGIN":
        margin, value = "wide.MARGIN_BITS", 81  # half a unit of its errors
    frequencies, expected = beside_ties(name, -1, -150, scale="1", turns=7, count=300)
    both = [{"scale": "1", "dtype": dtype, "paired": paired} for paired in (False, True)]
    for settings in both:
        assert sines(frequencies, RUNS[run], **settings)[0].tolist() == expected
    monkeypatch.setattr(f"posenc_cli.numerics.{margin}", value)
    for settings in both:
        assert sines(frequencies, RUNS[run], **settings)[0].tolist() != expected


def test_the_margins_are_as_wide_as_their_proofs():
    assert cells.MARGIN >= (4 + 1) * UNIT  # a cell's error, and the rounding of cell ± margin
    assert wide.MARGIN_BITS <= 75  # 32 units of 2^(M − 80), where 22.5 are proven
    assert judge.PAIR_MARGIN >= 2.0**-91  # twice what is proven of a point, in modulus


@pytest.mark.parametrize("paired", [False, True], ids=["alone", "in-pairs"])
@pytest.mark.parametrize("side", [1, -1])
@every_dtype
def test_one_cell_near_zero_among_ordinary_ones_is_judged(name, side, paired):
    """Half a turn, but for 1e-19: float64 cells there are their rounding errors alone."""
    dtype = DTYPES[name]
    # Past the low table, whose own cells are right to the last bit.
    position, turns = 1733, 501
    with mpmath.workprec(500):
        angle = turns * mpmath.pi + side * mpmath.mpf("1e-19")
        frequency = Decimal(mpmath.nstr(angle / position, 120))
        sine = mpmath.sin(mpmath.mpf(str(frequency)) * position)
        expected = round_exact([Decimal(mpmath.nstr(sine, 60))], dtype)
    settings = {"scale": "1", "dtype": dtype, "paired": paired}
    found = sines([frequency], np.arange(1100, 2000), **settings)[position - 1100]
    assert found.tolist() == oracle.values(expected, dtype).tolist()
    assert np.signbit(found) == (side > 0)
