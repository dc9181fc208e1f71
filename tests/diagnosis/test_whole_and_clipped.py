"""RoPE with whole wavelengths, and with slow pairs clipped, done wrong."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from tests.checks import rope

PLAIN = 10_000.0 ** (-np.arange(32) / 32)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "frequencies"),
    [
        ("rope-resonance", 2 * np.pi / np.floor(2 * np.pi / PLAIN)),
        ("rope-resonance", 2 * np.pi / np.ceil(2 * np.pi / PLAIN)),
        ("rope-clipped", PLAIN * np.clip((31 - np.arange(32)) / 19, 0, 1)),
    ],
)
def test_what_nobody_was_seen_to_get_wrong_is_unknown_with_its_pairs(scheme, frequencies):
    right = rope.reference(scheme, dim=64)
    (cause,) = diagnose(rope.of_frequencies(frequencies, right, "0:64"))
    assert cause.cause == "unknown"
    wrong = ~np.isclose(frequencies, right.frequencies, rtol=1e-6, atol=0)
    assert cause.message.startswith(f"pairs {np.argmax(wrong)}")
    assert "of 32 have other frequencies, by no known rule" in cause.message
