"""Sandwich's similarities are read back: width, base, convention and heads."""

import pytest

import posenc_cli


@pytest.mark.long
@pytest.mark.parametrize(
    ("params", "head"),
    [
        ({"heads": 6, "dim": 30}, None),
        ({"heads": 4, "dim": 48, "base": 7777.0}, None),
        ({"heads": 2, "dim": 8, "convention": "nemo"}, None),
        ({"heads": 1, "dim": 24}, 0),
    ],
)
def test_sandwich_is_read_back(params, head):
    scores = posenc_cli.encode("sandwich", 40, **params)
    best = posenc_cli.identify(scores).candidates[0]
    assert (best.scheme, best.residual, best.head) == ("sandwich", 0.0, head)
    asked = {"base": 10_000.0, "convention": "sinusoidal", **params}
    assert best.params["base"] == pytest.approx(asked.pop("base"), rel=1e-6)
    assert {name: best.params[name] for name in asked} == asked


@pytest.mark.long
def test_one_head_of_a_stack_may_be_of_fewer_heads():
    scores = posenc_cli.encode("sandwich", 40, heads=8, dim=128)[1]  # 8/(8·2) = 4/(8·1)
    best = posenc_cli.identify(scores).candidates[0]
    assert (best.scheme, best.params["heads"], best.head, best.residual) == ("sandwich", 4, 0, 0.0)
