"""The sums of cosines of Men et al. 2024, and the bases that keep them from being negative."""

import math

import mpmath
import numpy as np
import pytest

from posenc_cli.analysis.planning.cosine_sums import (
    CosineSums,
    QualifyingBases,
    qualifying_bases,
)
from posenc_cli.formulas.rotary import ladder
from posenc_cli.numerics import exact

PAIRS = np.arange(64) / 64
"""The exponents of a head of 128 columns."""

# At so many thousands of positions, for heads of 128 columns, in two digits: Table 2 of Men et al.
# 2024 (arXiv:2405.14591), and what J. Su found by brute force (kexue.fm/archives/10122).
MEN = dict(zip((1, 2, 4, 8, 16, 32, 64, 128, 256, 512), (4.3e3, 1.6e4, 2.7e4, 8.4e4, 3.1e5, 6.4e5,
           2.1e6, 7.8e6, 3.6e7, 6.4e7), strict=True))  # fmt: skip
SU = {1: 4.3e3, 2: 1.2e4, 4: 2.7e4, 8: 8.4e4, 16: 2.3e5, 32: 6.3e5, 64: 2.1e6, 128: 4.9e6}
FAILING = {(32, 6.4e5)}
"""Bounds of the paper that no base qualifies for that rounds to them."""


def sums(base, pairs=64):
    return CosineSums.of(list(ladder(exact, 2 * pairs, base)))


def by_mpmath(base, distance, pairs=64):
    with mpmath.workdps(40):
        angles = [mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs) for i in range(pairs)]
        return sum(mpmath.cos(distance * angle) for angle in angles)


@pytest.mark.parametrize(("base", "length"), [(1e4, 4096), (5e5, 131072), (500, 300)])
def test_the_first_negative_distance_is_that_of_sums_in_many_digits(base, length):
    found = sums(base).first_negative(length)
    assert found is not None
    assert by_mpmath(base, found) < 0
    angles = base ** -(np.arange(64) / 64)
    values = np.cos(np.outer(np.arange(found), angles)).sum(axis=1)
    # NumPy's own sums, but for those that its rounding leaves open.
    assert (values > -1e-7).all()
    assert all(by_mpmath(base, m) >= 0 for m in np.flatnonzero(values < 1e-7).tolist())


def test_models_fail_where_a_prototype_of_others_found_it():
    # Llama 2, Qwen 2.5 and Gemma 2, whose heads have 256 columns; Llama 3 does not at 8192.
    assert sums(1e4).first_negative(4096) == 1707
    assert sums(1e6).first_negative(32768) == 27115
    assert sums(1e4, 128).first_negative(8192) == 2653
    assert sums(5e5).first_negative(8192) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("thousands", "bound"), [*dict.fromkeys([*MEN.items(), *SU.items()])], ids=str
)
def test_bases_that_round_to_published_bounds_qualify(thousands, bound):
    half, length = 0.05 * 10 ** math.floor(math.log10(bound)), 1000 * thousands
    failed, found = 0, 0
    for base in np.linspace(bound - half, bound + half, 200).tolist():
        tried = CosineSums.of_base(base, PAIRS)
        negative = tried.negative_near(failed, length)
        if negative is None:
            negative = tried.first_negative(length)
        if negative is None:
            found += 1
            break
        failed = negative
    assert bool(found) == ((thousands, bound) not in FAILING)


@pytest.mark.long
def test_a_base_is_proposed_between_neighbours_that_qualify_too():
    found = qualifying_bases(PAIRS, 1024)
    alone = found.intervals[0]
    assert alone.count == 1
    proposed = found.first_from(100.0)
    run = next(own for own in found.intervals if own.first <= proposed <= own.last)
    assert run.first < proposed < run.last
    only = QualifyingBases(1024, 100.0, 1e10, found.per_decade, found.tried, (alone,))
    assert only.first_from(100.0) == alone.first
    assert only.first_from(2 * alone.first) is None


def test_a_sum_nearer_to_0_than_roundings_is_settled_in_60_digits():
    # One pair, whose cosine at 1 is 0 but for 1e-30.
    near = exact.asarray([exact.pi / 2 + exact.asarray([10.0])[0] ** -30])
    below = exact.asarray([exact.pi / 2 - exact.asarray([10.0])[0] ** -30])
    assert CosineSums.of(list(near)).first_negative(2) == 1
    assert CosineSums.of(list(below)).first_negative(2) is None


def test_pairs_at_rest_add_one_each():
    plain = sums(1e4, 32)
    assert plain.first_negative(4096) is not None
    resting = CosineSums(plain.angles, plain.errors, plain.exactly, 32)
    assert resting.first_negative(4096) is None
    few = CosineSums(plain.angles, plain.errors, plain.exactly, 2)
    assert few.first_negative(4096) > plain.first_negative(4096)
