"""Rules that code follows in place of the right one are named, each from its frequencies alone.

The wrong frequencies are computed here, by NumPy and apart from posenc.
"""

import math

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.fitting import Rotations
from posenc_cli.inference.frequency_rules import Remembered, alternatives
from tests.checks import rope
from tests.diagnosis.textbook import ladder, llama3, ntk, yarn

PAIRS = np.arange(64)
PLAIN = ladder(128, 1e4)
LLAMA = llama3(128, 5e5)
YARN = yarn(128, 1e4, 16)
KEPT = ladder(128, 5e5)
TURNS = 8192 * KEPT / (2 * math.pi)
"""Of Llama 3's pairs, within the original context."""
SHARE = np.clip((TURNS - 1) / 3, 0, 1)

LLAMA_GIVEN = {"scheme": "rope-llama3", "base": 5e5, "factor": 8.0}
YARN_GIVEN = {"scheme": "rope-yarn", "factor": 16.0, "attention_factor": 1.0}
GEMMA_GLOBAL = {"scheme": "rope-linear", "dim": 256, "base": 1e6, "factor": 8.0}


RAMP = (PLAIN - YARN) / (PLAIN * 15 / 16)
WAVELENGTHS = np.clip((1 / TURNS - 1 / 4) / (1 - 1 / 4), 0, 1)
BY_PERIODS = np.where(
    (SHARE > 0) & (SHARE < 1), KEPT / ((1 - WAVELENGTHS) * 8 + WAVELENGTHS), LLAMA
)
"""ml-explore/mlx-examples#907: periods times (1 − s)·factor + s, s linear in the wavelength."""


def with_ramp(low, high, plain=PLAIN):
    ramp = np.clip((PAIRS - low) / (high - low), 0, 1)
    return plain / 16 * ramp + plain * (1 - ramp)


def end(beta, *, base=1e4, width=128, context=4096):
    return width * math.log(context / (2 * math.pi * beta)) / (2 * math.log(base))


YARN_OF_BASE, YARN_OF_LENGTH = (
    with_ramp(math.floor(end(32, **other)), math.ceil(end(1, **other)))
    for other in ({"base": 5e5}, {"context": 65536})
)


def changed(values, pair, number):
    values = values.copy()
    values[pair] = number
    return values


@pytest.mark.long
@pytest.mark.sweep(23)
@pytest.mark.parametrize(
    ("given", "rates", "told"),
    [
        # What mlx-examples' first code for Llama 3.1 did, and each part of it.
        (
            LLAMA_GIVEN,
            BY_PERIODS,
            "frequency-rule: linear in the wavelength, and runs the wrong way",
        ),
        (
            LLAMA_GIVEN,
            1 / (SHARE / KEPT + (1 - SHARE) * 8 / KEPT),
            "frequency-rule: blend is one of wavelengths",
        ),
        (
            LLAMA_GIVEN,
            np.where((SHARE > 0) & (SHARE < 1), KEPT * 9 / 8 - LLAMA, LLAMA),
            "frequency-rule: runs the wrong way",
        ),
        (LLAMA_GIVEN, llama3(128, 5e5, original=65536), "frequency-rule: 65536"),
        # YaRN's ramp, from other numbers than the rest, and as others have written it.
        (YARN_GIVEN, YARN_OF_LENGTH, "frequency-rule: 65536"),
        (YARN_GIVEN, PLAIN * 17 / 16 - YARN, "frequency-rule: the ramp of YaRN is reversed"),
        (YARN_GIVEN, PLAIN / 16, "frequency-rule: all pairs are interpolated"),
        (
            YARN_GIVEN,
            PLAIN / (RAMP * 16 + 1 - RAMP),
            "frequency-rule: the ramp blends wavelengths, not frequencies",
        ),
        (
            YARN_GIVEN,
            (16 * 1e4) ** -(PAIRS / 64) * RAMP + PLAIN * (1 - RAMP),
            "frequency-rule: the factor multiplies the base, and does not divide",
        ),
        (
            {**YARN_GIVEN, "base": 1e3, "original_max_position_embeddings": 8192},
            with_ramp(math.floor(end(32, base=1e3, context=8192)), 63, ladder(128, 1e3)),
            "frequency-rule: clamped to the 64 pairs, not to the columns",
        ),
        # Nobody was seen to do these: they fail, and nothing false is said.
        (LLAMA_GIVEN, np.where(TURNS < 4, KEPT / 8, KEPT), "unknown: have wrong frequencies"),
        (YARN_GIVEN, YARN_OF_BASE, "unknown: have wrong frequencies"),
        # Exponents.
        ({}, np.ones(64), "frequency-rule: 2i // d is 0"),
        ({}, np.where(PAIRS > 0, 1e-4, 1.0), "frequency-rule: −2i // d is −1"),
        # Scaling by other means.
        (
            {"scheme": "rope-linear", "factor": 4.0},
            ladder(128, 4e4),
            "frequency-rule: the factor multiplies the base",
        ),
        (
            {"scheme": "rope-linear", "factor": 4.0},
            PLAIN * 4,
            "frequency-rule: multiplies frequencies, not divides",
        ),
        (
            {"scheme": "rope-ntk", "factor": 4.0},
            ladder(128, 4e4),
            "frequency-rule: without its exponent d/(d − 2)",
        ),
        (
            {"scheme": "rope-ntk", "factor": 4.0},
            ladder(128, 1e4 * 4 ** (128 / 127)),
            "frequency-rule: scaled with the exponent d/(d − 1), not d/(d − 2)",
        ),
        (
            {"scheme": "rope-dynamic", "factor": 4.0, "seq_len": 4096},
            ladder(128, 1e4 * 5 ** (128 / 125)),
            "frequency-rule: the scaled base is 51969",
        ),
        (
            {"scheme": "rope-ntk", "factor": 4.0},
            ntk(128, 1e4, 7.3),
            "frequency-rule: the factor is 7.3, not 4",
        ),
        # A rule where there should be none.
        ({}, ntk(128, 1e4, 4.0), "frequency-rule: rope-ntk scaling is applied, factor 4"),
        ({}, yarn(128, 1e4, 4.0), "frequency-rule: rope-yarn scaling is applied, factor 4"),
        ({"base": 5e5}, LLAMA, "frequency-rule: rope-llama3 scaling is applied, factor 8"),
        # Numbers solved for.
        ({}, ladder(128, 10001.0), "base: the base is 10001, not 10000"),
        (YARN_GIVEN, yarn(128, 1e4, 16, slow=1.7), "frequency-rule: beta_slow"),
        (
            LLAMA_GIVEN,
            llama3(128, 5e5, 8, high=5.5),
            "frequency-rule: high_freq_factor is 5.5, not 4",
        ),
        # By no known rule.
        ({}, np.tile(ladder(64, 1e4), 2), "unknown: pairs 1–63 of 64 have wrong frequencies"),
        ({}, changed(PLAIN, 63, PLAIN[62]), "unknown: pair 63 of 64 has a wrong frequency"),
        (GEMMA_GLOBAL, ladder(256, 1e4), "scaling-missing: and the base is 10000"),
    ],
)
def test_a_wrong_rule_is_named(given, rates, told):
    cause, words = told.split(": ", 1)
    given = {"dim": 128, "base": 1e4, **given}
    right = rope.reference(given.pop("scheme", "rope"), layout="half", **given)
    angles = np.multiply.outer(np.arange(2048), rates)
    tables = [np.tile(part, 2).astype(np.float32) for part in (np.cos(angles), np.sin(angles))]
    causes = diagnose(rope.of_tables(*tables, right, "0:2048"))
    assert causes[0].cause == cause
    assert words in causes[0].message


@pytest.mark.long
def test_frequencies_of_several_axes_are_held_along_their_axes(tmp_path):
    axes = np.arange(64) // np.array([[1], [4], [8]])
    np.save(tmp_path / "axes.npy", axes)
    right = rope.reference("mrope", dim=128, base=1e6, axes=str(tmp_path / "axes.npy"))
    assert rope.of_frequencies(ladder(128, 1e6).astype(np.float32), right, "0:64").ok
    (cause,) = diagnose(rope.of_frequencies(PLAIN.astype(np.float32), right, "0:64"))
    assert (cause.cause, cause.message) == (Cause.BASE, "the base is 10000, not 1000000")
    own = np.concatenate([ladder(2 * count, 1e6) for count in (16, 24, 24)])
    (cause,) = diagnose(rope.of_frequencies(own.astype(np.float32), right, "0:64"))
    assert cause.message == "each axis has its own frequencies"


@pytest.mark.slow
def test_no_alternative_equals_the_reference_or_another():
    for scheme, given in (("rope", {}), ("rope-yarn", {"factor": 16.0}), ("rope-llama3", {})):
        right = rope.reference(scheme, dim=128, **given)
        rotations = Rotations(right.frequencies * 1.3, np.ones(64, complex), 1)
        tables = [each.frequencies.tobytes() for each in alternatives(right, rotations)]
        assert len(set(tables)) == len(tables)
        assert right.frequencies.tobytes() not in tables


@pytest.mark.sweep(5)
@pytest.mark.parametrize("factor", [1e-15, 1e15])
@pytest.mark.parametrize("base", [1.0000001, 1e300])
@pytest.mark.parametrize("scheme", ["rope-linear", "rope-ntk", "rope-yarn", "rope-llama3"])
def test_parameters_as_large_as_they_may_be_have_alternatives_too(scheme, base, factor):
    right = rope.reference(scheme, dim=8, base=base, factor=factor)
    for alternative in alternatives(right, None):
        assert np.isfinite(alternative.frequencies).all()
        assert alternative.cause in Cause


def test_what_is_remembered_is_made_once():
    made = []
    numbers = Remembered(made.append(n) or n for n in range(5))
    assert next(iter(numbers)) == 0
    assert made == [0]
    assert list(numbers) == list(numbers) == made == [0, 1, 2, 3, 4]
