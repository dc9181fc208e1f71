"""All mutants; also what ``--impl`` loads, by ``mutants.py:NAME``."""

from __future__ import annotations

from typing import Any

from tests.diagnosis import mutants_common, mutants_of_pairs, mutants_of_rows
from tests.diagnosis.textbook import CASES

MUTANTS = {
    **mutants_common.MUTANTS,
    **mutants_of_pairs.MUTANTS,
    **mutants_of_rows.MUTANTS,
}


def __getattr__(name: str) -> Any:
    """A mutant, or the right implementation of a case (``right_NAME``), as a function."""
    if name in MUTANTS:
        return MUTANTS[name].wrong
    if name.startswith("right_"):
        return CASES[name.removeprefix("right_")].right
    raise AttributeError(name)
