"""Intervals of means: Student's quantiles, and pairs of seeds."""

import statistics

import pytest

from posenc_cli.experiments.summary import STUDENT, Estimate

# Two-sided 95% points of Student's t as tables print them: Abramowitz and Stegun, table 26.10;
# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
PUBLISHED = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
LATER = {15: 2.131, 20: 2.086, 29: 2.045, 30: 2.042}


def test_quantiles_are_those_of_printed_tables():
    for freedom, printed in (*enumerate(PUBLISHED, 1), *LATER.items()):
        assert STUDENT[freedom - 1] == pytest.approx(printed, abs=5.1e-4)  # three decimals


def test_an_interval_is_the_quantile_times_the_error_of_the_mean():
    values = [1.398, 1.375, 1.44, 1.497, 1.402]
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert estimate.deviation == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert estimate.half == pytest.approx(2.776 * statistics.stdev(values) / 5**0.5, abs=1e-4)
    ends = [estimate.mean - estimate.half, estimate.mean + estimate.half]
    assert [estimate.low, estimate.high] == pytest.approx(ends)


def test_one_seed_has_no_interval():
    estimate = Estimate.of([1.5])
    assert estimate == Estimate(1, 1.5)
    assert estimate.fields() == {"mean": 1.5, "deviation": None, "low": None, "high": None}
