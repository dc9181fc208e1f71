"""The fixture that tests of others get from posenc."""

from __future__ import annotations

import pytest

import posenc_cli as posenc

pytest_plugins = ["pytester"]

TESTS = """
import posenc_cli as posenc

def test_right(rope_check):
    assert rope_check("rope", tables=posenc.tables("rope", 64, dim=8), dim=8).ok

def test_wrong(rope_check):
    rope_check("rope", tables=posenc.tables("rope", 64, dim=8, base=5e5), dim=8)
"""


@pytest.mark.long
def test_a_failure_shows_the_cause_before_the_report(pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E*AssertionError: cause: base: the base is 500000, not 10000*", "E*FAILED: tables*"]
    )


def test_what_is_right_gives_the_report():
    assert posenc.assert_rope("rope", tables=posenc.tables("rope", 64, dim=8), dim=8).ok
