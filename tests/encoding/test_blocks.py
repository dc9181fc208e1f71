"""Blocks of rows, of any content that a scheme gives."""

import weakref

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.encoding import blocks
from posenc_cli.encoding.blocks import row_rule
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.encoding.scores import score_rule
from posenc_cli.formulas.declare import Sinusoids, Waves, absolute
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.placements import Placement
from posenc_cli.positions import Positions


def test_columns_that_a_scheme_leaves_open_are_zero(monkeypatch):
    def mine() -> Sinusoids:
        waves = Waves(2, lambda xp: 1 / xp.arange(1, 3))
        return Sinusoids(waves, 5, (Placement("cos", slice(1, 3)),))

    encoding = Encoding(absolute(source="mine", formula="mine")(mine).bind({}))
    request = Request(encoding, Positions.parse("0:3"), Precision.of(FLOAT64, None))
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 7, dtype))
    (rows,) = request.plan().matrix(Engine()).blocks()
    np.testing.assert_allclose(rows[:, 1:3], np.cos(np.outer(range(3), [1, 0.5])))
    assert (rows[:, [0, 3, 4]] == 0).all()


def test_a_bias_has_no_rows_and_nothing_else_has_scores():
    settings = {"precision": Precision.of(FLOAT64, None), "engine": Engine()}
    contents = {name: catalogue.find(name).bind({}).content for name in ("alibi", "nope")}
    with pytest.raises(TypeError, match="a Bias has no rows"):
        row_rule(contents["alibi"], None, None, **settings)
    with pytest.raises(TypeError, match="a Rows has no scores"):
        score_rule(contents["nope"], None, **settings)


def test_a_block_is_let_go_before_the_next_is_computed(monkeypatch):
    """So that one block's memory does for a matrix of any length."""
    made: list[weakref.ref[np.ndarray]] = []
    alive = []

    def three(*_, **__):
        for _ in range(3):
            alive.append(sum(block() is not None for block in made))
            rows = np.zeros((1, 4))
            made.append(weakref.ref(rows))
            yield rows
            del rows

    monkeypatch.setattr(blocks, "matrix_blocks", three)
    encoding = Encoding(catalogue.find("rope").bind({"dim": 4}))
    request = Request(encoding, Positions.parse("0:3"), Precision.of(FLOAT64, None))
    for rows in request.plan().matrix(Engine()).blocks():
        del rows
    assert alive == [0, 0, 0]
