"""``--tol bfloat16`` and ``--tol float16`` accept roundings, and no mistake that is larger.

Every wrong table of the tests is rounded to a half precision and stored wider, as a model's own
tables are dumped. What errs by more than two roundings anywhere has to fail.
"""

import math
from functools import cache, lru_cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.rotary.verdict import accepting_rule
from tests.checks import rope
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.textbook import CASES

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

HALVES = {"bfloat16": (ml_dtypes.bfloat16, 2.0**-8), "float16": (np.float16, 2.0**-11)}
TABLES = {
    name: next(form for form in ("half", "tables") if form in mutant.subjects)
    for name, mutant in MUTANTS.items()
    if {"half", "tables"} & {*mutant.subjects}
}
"""The mistakes that tables show, and the form of the tables."""


@lru_cache(maxsize=4)
def tables_of(name: str) -> list[Any]:
    """The tables of a mistake at the positions where it shows, in float32."""
    return tables_at(MUTANTS[name].wrong, MUTANTS[name].positions, TABLES[name])


@lru_cache(maxsize=32)
def right_tables(case: str, positions: str, form: str) -> list[Any]:
    """The right ones, which many mistakes share."""
    return tables_at(CASES[case].right, positions, form)


def tables_at(code: Any, positions: str, form: str) -> list[Any]:
    where = rope.positions_array(positions)
    made = code.pair_tables(where) if form == "half" else code.tables(where)
    return [np.asarray(table, np.float32) for table in made]


def rounded(tables: list[Any], half: str) -> list[Any]:
    """Tables that were rounded to a half precision, and stored in float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [table.astype(HALVES[half][0]).astype(np.float32) for table in tables]


@cache
def largest_error(name: str) -> float:
    """How far a wrong table is from the right one, at most; infinite where its shape is another."""
    mutant = MUTANTS[name]
    both = tables_of(name), right_tables(mutant.case, mutant.positions, TABLES[name])
    pairs = list(zip(*both, strict=True))
    if any(wrong.shape != right.shape for wrong, right in pairs):
        return math.inf
    with np.errstate(all="ignore"):
        errors = [float(np.abs(wrong - right).max()) for wrong, right in pairs]
    return max(math.inf if math.isnan(error) else error for error in errors)


def shows(name: str, half: str, scale: float) -> bool:
    """Whether a mistake is larger than what two roundings and float32 angles may hide."""
    farthest = int(rope.positions_array(MUTANTS[name].positions).max())
    return largest_error(name) > 2 * HALVES[half][1] * scale + 1e-6 * (1 + farthest) * scale


@pytest.mark.long
@pytest.mark.sweep(40)
@pytest.mark.parametrize(("name", "half"), [*zip(TABLES, cycle(HALVES))])
def test_what_errs_by_more_than_the_format_rounds_fails(name, half, reference):
    right = reference(MUTANTS[name].case)
    tables = rounded(tables_of(name), half)
    found = rope.of_tables(*tables, right, MUTANTS[name].positions, half)
    if shows(name, half, right.scale):
        assert not found.ok


@pytest.mark.long
def test_most_mistakes_show_in_half_precision(reference):
    shown = {
        half: sum(shows(name, half, reference(MUTANTS[name].case).scale) for name in TABLES)
        for half in HALVES
    }
    assert shown["bfloat16"] >= 0.85 * len(TABLES)
    assert shown["float16"] >= 0.85 * len(TABLES)


UNSEEN = ("tables_float16", "tables_int16", "tables_printed", "factor_rounded", "truncated_pi")
"""What docs/rope-check.md says that ``--tol bfloat16`` cannot see."""


@pytest.mark.parametrize("name", UNSEEN)
def test_what_the_page_says_is_unseen_passes_in_bfloat16(name, reference):
    right, tables = reference(MUTANTS[name].case), tables_of(name)
    for stored in (tables, rounded(tables, "bfloat16")):
        assert rope.of_tables(*stored, right, MUTANTS[name].positions, "bfloat16").ok
    assert not rope.of_tables(*tables, right, MUTANTS[name].positions).ok


@pytest.mark.long
def test_fixed_point_tables_in_float16_are_diagnosed(reference):
    """Whose pairs are multiplied by numbers within 1e-4 of 1, as none of those looked at shows."""
    right = reference(MUTANTS["tables_int16"].case)
    tables = rounded(tables_of("tables_int16"), "float16")
    found = rope.of_tables(*tables, right, MUTANTS["tables_int16"].positions)
    assert [why.cause for why in diagnose(found)] == ["unknown"]


FIRST_OF_CAUSE = {MUTANTS[name].causes[0]: name for name in reversed(TABLES)}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST_OF_CAUSE.values(), ids=FIRST_OF_CAUSE)
def test_no_option_is_named_for_a_cause_that_shows(name, reference):
    right = reference(MUTANTS[name].case)
    for half in HALVES:
        if shows(name, half, right.scale):
            tables = rounded(tables_of(name), half)
            found = rope.of_tables(*tables, right, MUTANTS[name].positions)
            with np.errstate(all="ignore"):
                assert accepting_rule(found, diagnose(found)) is None, half
