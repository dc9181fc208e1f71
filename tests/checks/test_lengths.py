"""The lengths at which a rotation changes, found from its frequencies alone."""

from __future__ import annotations

import pytest

from posenc_cli.catalogue import find
from posenc_cli.checks.lengths import LengthRule, length_rule

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
