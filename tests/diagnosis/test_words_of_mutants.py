"""What is said of mutants beside the word of their cause: the rule, with the numbers it has."""

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.numerics.halves import round_to_half
from tests.checks import rope
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.test_mutants import examined
from tests.diagnosis.textbook import dynamic, ladder

SAID = {
    # Blends and ramps.
    "llama3_of_wavelengths": "the blend is linear in the wavelength, not in its inverse",
    "yarn_gamma": "the ramp is linear in the rotations per context, as the paper's γ is",
    # Wrong by little more than is allowed, in tables with an attention factor.
    "rungs_single": "of 64 have wrong frequencies, by no known rule",
}
"""By name: what the first message holds, or one of several."""


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize("name", SAID)
def test_the_message_has_the_rule_and_its_numbers(name, reference):
    mutant = MUTANTS[name]
    form = "inv-freq" if "inv-freq" in mutant.subjects else "half"
    if form not in mutant.subjects:
        form = mutant.subjects[0]
    first, *_ = diagnose(examined(name, form, reference(mutant.case)))
    assert any(words in first.message for words in SAID[name].split("|")), first.message
    assert first.residual is not None
    assert first.residual.count <= 0.03 * first.residual.of_entries


def messages_of(values, right):
    first, *others = diagnose(rope.of_frequencies(np.float32(values), right, "0:4096"))
    assert not others
    return [first.message, *(other.message for other in first.alike)]


@pytest.mark.long
def test_two_numbers_of_a_rule_that_give_the_same_are_both_said():
    given = {"dim": 64, "layout": "half", "factor": 4.0, "max_position_embeddings": 4096}
    right = rope.reference("rope-dynamic", seq_len=16384, **given)
    said = messages_of(dynamic(64, 1e4, 8, 16384, 4096), right)
    assert said == ["the factor is 8, not 4"]
    said = messages_of(dynamic(64, 1e4, 4, 65536, 4096), right)
    assert "the base is scaled for a length of 65536" in said
    assert "the factor is 20, not 4" in said


@pytest.mark.long
def test_two_roundings_are_not_repeated_as_an_alternative():
    """Rounded frequencies are a rule of their own too."""
    right = rope.reference("rope", dim=64, layout="half")
    rates = round_to_half(ladder(64, 1e4), "bfloat16")
    angles = np.outer(round_to_half(np.arange(700.0), "bfloat16"), rates)
    tables = (np.tile(part, 2).astype(np.float32) for part in (np.cos(angles), np.sin(angles)))
    causes = diagnose(rope.of_tables(*tables, right, "0:700"))
    assert [(why.cause, why.alike) for why in causes] == [
        ("position-precision", ()),
        ("inv-freq-precision", ()),
    ]


@pytest.mark.long
def test_evenly_spaced_positions_are_said_as_the_frequencies_that_do_the_same():
    right = rope.reference("rope", dim=64, base=1e4, layout="half")
    angles = np.outer(np.linspace(0, 3000, 3000), ladder(64, 1e4))
    found = rope.of_tables(
        np.cos(angles).astype("f4"), np.sin(angles).astype("f4"), right, "0:3000"
    )
    (cause,) = diagnose(found)
    assert (cause.cause, cause.alike) == ("frequency-rule", ())
    (same,) = diagnose(
        rope.of_frequencies(np.float32(ladder(64, 1e4) * 3000 / 2999), right, "0:3000")
    )
    assert (same.cause, same.message) == (cause.cause, cause.message)


@pytest.mark.long
@pytest.mark.parametrize("seed", [18, 33])
def test_a_rule_that_is_nearly_right_is_none_of_some_pairs(seed):
    right = rope.reference("rope-yarn", dim=64, layout="half", factor=16.0, attention_factor=1.0)
    noisy = right.frequencies * (1 + 3e-6 * np.random.default_rng(seed).standard_normal(32))
    for cause in diagnose(rope.of_frequencies(np.float32(noisy), right, "0:4096,131000:131072")):
        assert "base" not in cause.message
