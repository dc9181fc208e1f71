"""A parameter with a role is supplied and varied by itself, and the result responds as it must."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.calls import supplied
from tests.calls.supplied import UNTESTED, WRONG

FILE = Path(supplied.__file__)
ASKED = ("rope-check", "-s", "rope", "-d", "32", "--layout", "half", "--len", "256", "--json")
HELPERS = ("wrong", "untested", "rotated", "rows", "beside_heads")
NAMES = [
    node.name
    for node in ast.parse(FILE.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name not in HELPERS
]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WRONG])
def test_a_right_function_passes_and_line_one_says_what_was_not_tested(name, call):
    status, out, err = call(*ASKED, "--impl", f"{FILE}:{name}")
    assert (status, err) == (0, ""), out
    _, _, said = json.loads(out)["verdict"].partition("; not tested: ")
    assert said == UNTESTED.get(name, "")


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_its_wrong_twin_fails(name, call):
    status, out, err = call(*ASKED, "--impl", f"{FILE}:{name}")
    assert (status, err) == (1, ""), out
    why = json.loads(out)["diagnosis"][0]
    cause, words = WRONG[name]
    assert (why["cause"], words in why["message"]) == (cause, True), why


@pytest.mark.long
def test_what_has_no_role_and_a_default_is_said_not_to_be_varied(call, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tests.calls.supplied import ids\n"
        "def f(x, positions, eps=1e-6, cache=None): return ids(x, positions)\n"
    )
    status, out, _ = call(*ASKED[:-1], "--impl", "mine.py:f")
    assert status == 0
    assert "note: not varied: eps (left at 1e-06), cache (left at None)" in " ".join(out.split())
