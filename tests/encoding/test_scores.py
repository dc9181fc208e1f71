"""Scores by formula: exact whatever a formula needs, and the same in any blocks."""

import numpy as np
import pytest

from posenc_cli.encoding import scores
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.formulas.declare import Bias, bias
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
from posenc_cli.positions import Positions


def encoded(formula, *, dtype=FLOAT64, profile=None):
    """The scores of one head of a bias that a user wrote, at 0 … 9."""

    def mine() -> Bias:
        return Bias(1, "offset", lambda xp: xp.asarray([0.5]), formula, profile=profile)

    scheme = bias(source="mine", formula="mine")(mine)
    positions = Positions.parse("0:10")
    request = Request(Encoding(scheme.bind({})), positions, Precision.of(dtype, None), None, 0)
    return np.concatenate(list(request.plan().matrix(Engine()).blocks()))


OFFSETS = np.arange(10) - np.arange(10)[:, None]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (lambda xp, m, x: m * xp.where(x > 2, x, 0), 0.5 * np.where(OFFSETS > 2, OFFSETS, 0)),
        (lambda xp, m, x: m * xp.floor(x / 3), 0.5 * np.floor(OFFSETS / 3)),
        (lambda xp, m, x: m * xp.minimum(x, 1), 0.5 * np.minimum(OFFSETS, 1)),
        (lambda xp, m, x: m * xp.full(len(x), 3), np.full((10, 10), 1.5)),
        (lambda xp, m, x: xp.exp(x) * 0 + m, np.full((10, 10), 0.5)),
    ],
)
def test_a_formula_may_use_what_bounded_numbers_lack(formula, expected):
    assert (encoded(formula) == expected).all()
    assert (encoded(formula, dtype=FLOAT32) == expected).all()


def test_a_formula_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="scores for"):
        encoded(lambda xp, _m, _x: xp.asarray([1.0]))


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_heads_share_a_profile_that_is_computed_once(arithmetic):
    calls = []

    def profile(xp, offsets):
        calls.append(offsets.shape[0])
        return xp.exp(0 - xp.abs(offsets))

    content = Bias(
        3,
        "offset",
        lambda xp: xp.arange(1, 4),
        lambda _xp, m, shared: m * shared,
        profile=profile,
    )
    positions, precision = Positions.parse("0:10"), Precision.of(FLOAT64, None)
    engine = Engine(arithmetic=arithmetic)
    blocks = scores.score_blocks(
        content, None, range(3), positions, precision=precision, engine=engine
    )
    found = np.stack(list(blocks))
    # At distance 0 the value is exactly 1, 2 or 3: those alone may be settled head by head.
    assert calls[:1] == [19]
    assert set(calls[1:]) <= {1}
    allowed = 1e-15 if arithmetic == "exact" else 1e-6
    for head in range(3):
        assert np.abs(found[head] - (head + 1) * np.exp(-np.abs(OFFSETS))).max() < allowed
