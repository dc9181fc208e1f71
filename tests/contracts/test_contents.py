"""What a scheme gives answers for itself: nobody asks which kind of content it is."""

import ast
from pathlib import Path

import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.formulas import declare
from tests.matrices import request

PACKAGE = Path(__file__).parents[2] / "posenc_cli"
KINDS = {"Rotation", "Sinusoids", "Rows", "Bias", "BucketBias"}
LONGROPE = {"dim": 8, "short_factor": "1,1,1.5,2", "long_factor": "1,2,3,4.5"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_content_answers_the_same_questions(name):
    given = LONGROPE if name == "rope-longrope" else {}
    plan = request(name, "0:9", **given).plan()
    content = request(name, "0:9", **given).encoding.bound.content
    kind = BUILT_IN[name].kind
    assert (content.heads is not None) == (content.by is not None) == (kind == "bias")
    assert content.columns().width == content.width == (0 if content.heads else plan.shape[-1])
    assert bool(content.columns().placements) == (content.waves is not None)
    assert (content.weights is not None) == (BUILT_IN[name].weights is not None)
    assert content.capacity is None or content.capacity.positions >= 9
    assert content.farthest is None or kind == "relative"


@pytest.mark.long
def test_nobody_asks_for_the_kind_of_a_content_but_its_declaration():
    """Dispatch is a match on all kinds, which mypy holds to be whole."""
    assert {kind.__name__ for kinds in declare.GIVES.values() for kind in kinds} == KINDS
    asked = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "isinstance(" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        for name in ast.walk(node.args[1])
        if isinstance(name, ast.Name | ast.Attribute)
        and ast.unparse(name).rpartition(".")[2] in KINDS
    }
    assert asked == {"formulas/declare.py"}
