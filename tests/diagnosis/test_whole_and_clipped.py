"""RoPE with whole wavelengths, and with slow pairs clipped: recognised, and done wrong."""

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from tests.checks import rope
from tests.matrices import matrix

PLAIN = 10_000.0 ** (-np.arange(32) / 32)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("scheme", "given"),
    [
        ("rope-resonance", {"dim": 64}),
        ("rope-resonance", {"dim": 32, "base": 12_345.0}),
        ("rope-resonance", {"dim": 64, "factor": 8.0}),
        ("rope-clipped", {"dim": 64}),
        ("rope-clipped", {"dim": 64, "base": 1e7, "clipped": 9}),
        ("rope-clipped", {"dim": 32}),
    ],
)
def test_they_are_identified_with_their_parameters(scheme, given):
    table = matrix(scheme, "0:150", dtype="float64", **given)
    match = identify(Evidence.of_arrays(table)).match
    assert match.scheme == scheme
    assert given.items() <= match.params.items()
    if scheme == "rope-clipped":
        assert match.params["clipped"] == given.get("clipped", 20)


@pytest.mark.slow
def test_wavelengths_that_are_not_whole_are_no_resonance():
    moved = 2 * np.pi / (np.round(2 * np.pi / PLAIN) + 0.25)
    table = np.concatenate([np.cos(np.outer(np.arange(300), moved))] * 2, axis=1)
    match = identify(Evidence.of_arrays(table)).match
    assert match is None or match.scheme != "rope-resonance"


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
    assert "of 32 have wrong frequencies, by no known rule" in cause.message
