"""The fixture that tests of others get from posenc."""

import pytest

import posenc_cli as posenc

pytest_plugins = ["pytester"]

TESTS = """
import posenc_cli as posenc

def test_right(rope_check):
    assert rope_check("rope", tables=posenc.tables("rope", 64, dim=8), dim=8).ok

def test_wrong(rope_check):
    rope_check("rope", tables=posenc.tables("rope", 64, dim=8, base=5e5), dim=8)

def test_nothing_to_check(rope_check):
    rope_check("rope", dim=8)
"""


@pytest.mark.long
def test_a_failure_shows_the_cause_before_the_report(pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            *("E*AssertionError: cause: base: the base is 500000, not 10000*", "E*FAILED: tables*"),
            "E*ArgumentError: tables, inv_freq, rotated or impl: give the values to check",
        ]
    )


OTHERS = """
import posenc_cli as posenc

def test_right(encoding_check):
    assert encoding_check("sinusoidal", posenc.encode("sinusoidal", 64, dim=8), dim=8).ok

def test_wrong(encoding_check):
    encoding_check("alibi", slopes=[2.0 ** -h for h in range(8)])
"""


@pytest.mark.long
def test_an_encoding_that_rotates_nothing_fails_with_its_report(pytester):
    pytester.makepyfile(OTHERS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED: slopes do not match*", "cause: *start at 0*"])


ROPE = """
import numpy as np
from mine.factors import HALF


def rotated(x, positions):
    angles = positions[:, None] * 10_000.0 ** (-np.arange(0, 8, 2) / 8)
    a, b = x[:, ::2], x[:, 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([a * cos - b * sin, a * sin + b * cos], 2).reshape(x.shape) * HALF * 2
"""

BESIDE = """
import pytest


@pytest.mark.parametrize("impl", ["mine.rope:rotated", "mine/rope.py:rotated", "alone:rotated"])
def test_right(rope_check, impl):
    report = rope_check("rope", impl=impl, positions="0:20", dim=8, layout="interleaved")
    assert report.ok


def test_wrong(rope_check):
    rope_check("rope", impl="mine.rope:rotated", positions="0:20", dim=8, base=5e5)
"""


@pytest.mark.long
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_modules_and_files_beside_the_test_are_found(pytester, mode):
    """From another folder, in a package or by itself, and after what is installed."""
    folder = pytester.mkpydir("checks")
    (folder / "mine").mkdir()
    (folder / "mine" / "factors.py").write_text("HALF = 0.5")
    for place in ("mine/rope.py", "alone.py"):
        (folder / place).write_text(ROPE)
    if mode == "importlib":  # else pytest itself puts the folder before what is installed
        (folder / "numpy.py").write_text("raise SystemExit(99)")
    (folder / "__init__.py").unlink()
    (folder / "test_beside.py").write_text(BESIDE)
    plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    result = pytester.runpytest_subprocess(*plain, "--import-mode", mode, str(folder))
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: cause: base: the base is 10000, not 500000*"])


@pytest.mark.long
def test_a_module_that_the_test_can_import_is_found(pytester):
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\npythonpath = ["src"]\n')
    pytester.mkdir("src")
    (pytester.path / "src" / "mine").mkdir()
    (pytester.path / "src" / "mine" / "factors.py").write_text("HALF = 0.5")
    (pytester.path / "src" / "mine" / "rope.py").write_text(ROPE)
    pytester.mkdir("tests")
    (pytester.path / "tests" / "test_it.py").write_text(
        "def test_right(rope_check):\n"
        "    given = {'dim': 8, 'layout': 'interleaved', 'positions': '0:20'}\n"
        "    assert rope_check('rope', impl='mine.rope:rotated', **given).ok\n"
    )
    plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    pytester.runpytest_subprocess(*plain).assert_outcomes(passed=1)


def test_what_is_right_gives_the_report():
    assert posenc.assert_rope("rope", tables=posenc.tables("rope", 64, dim=8), dim=8).ok
