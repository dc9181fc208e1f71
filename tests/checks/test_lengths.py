"""The lengths at which a rotation changes, found from its frequencies alone."""

from __future__ import annotations

import pytest

from posenc_cli.catalogue import find
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.formulas.parameters import SequenceLength  # noqa: TC001 - read by the decorator
from posenc_cli.rotary.lengths import LengthRule, length_rule

LISTS = {"dim": 8, "short_factor": (1.0,) * 4, "long_factor": (2.0,) * 4}


@pytest.mark.parametrize("context", [1, 2, 3, 4096, 5000, 131072])
def test_the_first_length_of_each_rule_is_found(context):
    dynamic = length_rule(find("rope-dynamic"), {"max_position_embeddings": context})
    assert dynamic == LengthRule((context + 1,), goes_on=True)
    given = {**LISTS, "original_max_position_embeddings": context, "attention_factor": 1.0}
    assert length_rule(find("rope-longrope"), given) == LengthRule((context + 1,))


def test_what_does_not_follow_the_length_has_no_switch():
    for scheme, given in (
        ("rope", {}),
        ("rope-yarn", {}),
        ("rope-dynamic", {"seq_len": 9000}),
        ("rope-longrope", {**LISTS, "long_factor": LISTS["short_factor"]}),
    ):
        assert length_rule(find(scheme), given) == LengthRule()
    assert LengthRule().lengths == ()


def test_both_sides_of_a_switch_are_lengths_to_compare_at():
    assert LengthRule((4097,)).lengths == (4096, 4097)
    assert LengthRule((4097,), goes_on=True).lengths[:4] == (4096, 4097, 8192, 16384)


@rotary(source="Test 2026", formula="θ = 1/(1 + steps)", convention="Two steps, at 5001 and 6001.")
def two_steps(*, seq_len: SequenceLength = None) -> Rotation:
    """A rotation of two contexts."""
    steps = ((seq_len or 1) > 5000) + ((seq_len or 1) > 6000)
    return Rotation(Waves(1, lambda xp: 1 / (1 + steps + xp.arange(0, 1))), "interleaved")


@rotary(source="Test 2026", formula="θ = 1/(1 + ⌊n/100⌋)", convention="A step each 100 positions.")
def many_steps(*, seq_len: SequenceLength = None) -> Rotation:
    """A rotation that changes again and again."""
    steps = (seq_len or 1) // 100
    return Rotation(Waves(1, lambda xp: 1 / (1 + steps + xp.arange(0, 1))), "interleaved")


def test_two_switches_between_neighbouring_powers_of_two_are_both_found():
    assert length_rule(two_steps, {}) == LengthRule((5001, 6001))


def test_a_rule_of_many_steps_goes_on():
    rule = length_rule(many_steps, {})
    assert rule.goes_on
    assert all(switch % 100 == 0 for switch in rule.switches)
    assert rule.switches[0] == 100


def test_rope_check_looks_where_the_rule_changes_whatever_its_parameters_are_called(
    call, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "two_contexts.py").write_text(
        "from posenc_cli.formulas.declare import Rotation, Waves, rotary\n"
        "from posenc_cli.formulas.parameters import SequenceLength\n"
        "@rotary(source='Test 2026', formula='θ = 1/(1 + steps)', convention='Two steps.')\n"
        "def two_steps(*, seq_len: SequenceLength = None) -> Rotation:\n"
        "    'A rotation of two contexts.'\n"
        "    steps = ((seq_len or 1) > 5000) + ((seq_len or 1) > 6000)\n"
        "    frequencies = lambda xp: 1 / (1 + steps + xp.arange(0, 1))\n"
        "    return Rotation(Waves(1, frequencies), 'interleaved')\n"
    )
    status, out, err = call("rope-check", "-s", "two_contexts:two_steps")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "sequences of 4999, 5000, 5001, 5999, 6000, 6001 positions" in words
