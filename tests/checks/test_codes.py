"""The words of reports: those that the command line promises, each stated once."""

import ast
import json
from pathlib import Path

import pytest

import posenc_cli
from posenc_cli.inference.codes import Cause, FindingName, SubjectKind
from tests.diagnosis.mutants import MUTANTS

PROMISED_CAUSES = (
    "layout", "direction", "base", "scaling-missing", "attention-factor", "rotary-dim",
    "no-rotation", "inv-freq-precision", "position-precision", "table-precision",
    "cos-sin-mispaired", "position-offset", "frequency-rule", "axis", "uninitialised",
    "not-a-number", "unknown",
)  # fmt: skip
PROMISED_FINDINGS = ("relative", "norm", "identity", "reference")
PROMISED_SUBJECTS = ("posenc", "tables", "inv-freq", "rotated", "impl")

PACKAGE = Path(posenc_cli.__file__).parent
PAGE = PACKAGE.with_name("docs").joinpath("rope-check.md").read_text("utf-8")

CODED = {"Explanation": Cause, "Alternative": Cause, "Finding": FindingName, "Subject": SubjectKind}
"""Calls whose first argument is a code."""


@pytest.mark.parametrize(
    ("codes", "promised"),
    [
        (Cause, PROMISED_CAUSES),
        (FindingName, PROMISED_FINDINGS),
        (SubjectKind, PROMISED_SUBJECTS),
    ],
)
def test_codes_are_those_promised_in_json_too_and_the_page_has_each(codes, promised):
    assert tuple(json.loads(json.dumps(list(codes)))) == promised
    for code in codes:
        assert f"{code}" == code.value
        assert f"| `{code}` | {code.meaning} |" in PAGE


def test_every_cause_that_a_mutant_may_have_is_a_code():
    assert {cause for mutant in MUTANTS.values() for cause in mutant.causes} <= set(Cause)


@pytest.mark.long
def test_no_report_states_a_word_beside_the_table():
    named = 0
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(f"{name}(" in text for name in CODED):
            continue
        for call in ast.walk(ast.parse(text)):
            match call:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in CODED:
                    assert not isinstance(first, ast.Constant), f"{path}:{call.lineno}"
                    if isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name):
                        named += first.value.id == CODED[name].__name__
    assert named > 50
