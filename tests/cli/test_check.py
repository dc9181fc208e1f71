"""``posenc check``: the options that it shares with other commands."""

from __future__ import annotations

import numpy as np
import pytest


def table(positions, dim=64):
    angles = np.arange(positions)[:, None] * 1e4 ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, dim)


@pytest.fixture
def half(tmp_path):
    """Sinusoids rounded to float16, and stored as float32."""
    np.save(tmp_path / "half.npy", table(16).astype(np.float16).astype(np.float32))
    return "half.npy"


@pytest.mark.parametrize("name", ["float16", "fp16"])
def test_a_number_format_is_taken_as_generate_takes_it(name, half, call):
    assert call("check", half, "-s", "sinusoidal")[0] == 1
    assert call("check", half, "-s", "sinusoidal", "--dtype", name)[0] == 0
    assert call("check", half, "-s", "sinusoidal", "--dtype", "fp64")[0] == 1


@pytest.mark.parametrize("given", [("--tol", "exact"), ("--strict",)])
def test_a_number_format_and_a_tolerance_are_one_too_many(given, half, call):
    status, out, err = call("check", half, "-s", "sinusoidal", "--dtype", "bf16", *given)
    assert (status, out) == (2, "")
    assert err == "posenc: error: --dtype bfloat16: cannot go with --tol or --strict\n"


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_verbose_says_what_a_table_was_compared_with(flag, half, call):
    asked = ("check", half, "-s", "sinusoidal", "--dtype", "fp16")
    brief = call(*asked)[1]
    status, out, _ = call(*asked, flag)
    assert status == 0
    assert out.startswith(brief.rstrip())
    added = out[len(brief.rstrip()) :].split()
    assert {"reference:", "positions:", "tolerance:", "float16"} <= {*added}


def test_verbose_says_of_a_rotation_how_it_was_called(call, tmp_path):
    (tmp_path / "mine.py").write_text("def same(x, positions):\n    return x\n")
    asked = ("check", "-s", "rope", "-d", "8", "-l", "4", "--impl", "./mine.py:same")
    assert "called as" not in call(*asked)[1]
    status, out, _ = call(*asked, "--verbose")
    assert status == 1
    assert "called as" in out
