"""Every mutant is killed and its cause named, whatever shows it; no right implementation fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from posenc_cli.checks.diagnosis import diagnose
from posenc_cli.records import replace
from tests.checks import rope
from tests.checks.mutants import ALL, CASES, HALF, MUTANTS

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

LENGTH = "0:4096"
FEW = "0:64,255:259,511:514,1023:1026,2046:2052,3071,4095"
"""What a function is called with: d times as many rows."""

SHOWN = [
    (name, subject)
    for name, mutant in MUTANTS.items()
    for subject in (*mutant.subjects, *(["inv-freq"] if mutant.inv_freq else []))
]


def examined(name: str, subject: str) -> Any:
    mutant = MUTANTS[name]
    case, wrong = CASES[mutant.case], mutant.wrong
    right = rope.reference(case.scheme, **case.given)
    positions = rope.positions_array(LENGTH)
    if subject == "tables":
        return rope.of_tables(*wrong.tables(positions), right, LENGTH)
    if subject == "rotated":
        x = rope.vectors(len(positions), wrong.head)
        return rope.of_rotated(x, wrong(x, positions), right, LENGTH)
    if subject == "impl":
        return rope.of_function(name, right, FEW)
    values = np.asarray(wrong.inv_freq, np.float32)
    if wrong.inv_in:
        values = values.astype(HALF[wrong.inv_in])
    return rope.of_frequencies(values, right, LENGTH)


def test_there_are_as_many_mutants_as_promised():
    assert len(MUTANTS) >= 40
    assert sum(mutant.inv_freq for mutant in MUTANTS.values()) >= 15


@pytest.mark.sweep(273)
@pytest.mark.parametrize(("name", "subject"), SHOWN)
def test_a_mutant_is_killed_and_its_cause_named_first(name, subject):
    found = examined(name, subject)
    causes = diagnose(found)
    assert not found.ok
    assert causes[0].cause in MUTANTS[name].causes
    assert len(causes) <= 3
    assert all(cause.message for cause in causes)


@pytest.mark.sweep(165)
@pytest.mark.parametrize(
    ("name", "subject"), [each for each in SHOWN if MUTANTS[each[0]].relative is not None]
)
def test_the_property_alone_tells_what_it_can_tell_and_no_more(name, subject):
    if subject == "inv-freq":
        expected = True  # frequencies alone always turn
    elif subject == "rotated" and name in ("half_mispaired", "cos_mispaired", "mispaired"):
        expected = False
    else:
        expected = MUTANTS[name].relative
    relative = next(f for f in examined(name, subject).findings if f.check == "relative")
    assert relative.ok == expected


def test_most_known_mistakes_pass_the_property_and_fail_the_reference():
    passing = [m for m in MUTANTS.values() if m.relative]
    assert len(passing) >= 40


@pytest.mark.sweep(9)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_right_tables_pass_in_every_format_at_long_positions(name, layout, dtype):
    case = CASES[name]
    right = rope.reference(case.scheme, **{**case.given, "layout": layout})
    stored = {**HALF, "float64": np.float64}[dtype]
    for positions in ("0:4096", "131000:131072,999990:1000001"):
        where = rope.positions_array(positions)
        # Textbook code: float32 throughout, or float64; half precisions are for storing.
        code = replace(
            case.right, layout=layout, compute=np.float64 if dtype == "float64" else np.float32
        )
        full = [each.astype(stored) for each in code.tables(where)]
        half = [each.astype(stored) for each in code.pair_tables(where)]
        for tables in (full, half):
            found = rope.of_tables(*tables, right, positions)
            assert found.ok, found.findings


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_right_rotations_pass(name, dtype):
    case = CASES[name]
    right = rope.reference(case.scheme, **case.given)
    where = rope.positions_array(LENGTH)
    x = rope.vectors(len(where), case.right.head).astype(dtype)
    y = replace(case.right, compute=np.float32)(x.astype(np.float32), where).astype(dtype)
    assert rope.of_rotated(x, y, right, LENGTH).ok


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", CASES)
def test_right_functions_pass(name):
    case = CASES[name]
    found = rope.of_function(f"right_{name}", rope.reference(case.scheme, **case.given), FEW)
    assert found.ok, found.findings
    assert diagnose(found) == ()


@pytest.mark.sweep(12)
@pytest.mark.parametrize("name", [name for name in CASES if name != "partial"])
def test_right_frequencies_pass(name):
    case = CASES[name]
    values = np.asarray(case.right.inv_freq, np.float32)
    found = rope.of_frequencies(values, rope.reference(case.scheme, **case.given), "0:131072")
    assert found.ok, found.findings


def test_the_table_of_mutants_names_every_mutant():
    from tests.checks.mutants_table import mutants_markdown

    text = mutants_markdown()
    assert all(mutant.what in text for mutant in MUTANTS.values())
    assert text.count("\n") == len(MUTANTS) + 1
    assert set(ALL) == {"tables", "rotated", "impl"}
