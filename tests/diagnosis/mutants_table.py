"""What rope-check says of wrong implementations: those it has no name for, and the README's table.

The tests hold both lists exactly.
"""

from __future__ import annotations

from posenc_cli.inference.causes import Cause
from tests.checks.rights import RIGHTS
from tests.diagnosis import mutants_calls
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.mutation import APPLIED

NOT_NAMED: dict[str, str] = {}
"""Mistakes that are caught and whose cause is unknown, and the subjects that show them so."""

FALSE: dict[str, str] = {}
"""Mistakes of which something is said that is not so, and the subjects that show them so."""


def forms(name: str) -> tuple[str, ...]:
    """The two subjects that the tests show a mistake in: frequencies, or tables, and another.

    They take turns; a function, which costs a process, has every third.
    """
    turn, subjects = [*MUTANTS].index(name), MUTANTS[name].subjects
    tables = [form for form in subjects if form in ("tables", "half")]
    applied = [form for form in subjects if form in APPLIED]
    table = tables[turn // 2 % len(tables)] if tables else None
    vectors = applied[-(turn % 3 == 2)] if applied else None
    shown = [table, vectors]
    if "inv-freq" in subjects:
        shown = ["inv-freq", vectors if turn % 2 else table]
    return tuple(form for form in shown if form is not None)


SHOWN = [(name, form) for name in MUTANTS for form in forms(name)]


def caught() -> list[str]:
    """What the README says: of how many wrong ones, how many posenc catches, and a common test."""
    every, passing, named = _totals()
    return [
        f"wrong tables, frequencies and rotations caught, of the {every} in its tests",
        f"{every}, {named} with the cause",
        f"at most {every - passing} by a test that q·k depends only on m − n",
    ]


def passing_markdown() -> str:
    """How many wrong ones any such test lets pass."""
    every, passing, _ = _totals()
    of = f"{passing} of posenc's {every} wrong implementations"
    return f"**{of} pass this test**, whatever the vectors."


def _totals() -> tuple[int, int, int]:
    """All wrong ones, those that leave q·k a function of m − n, and those whose cause is named."""
    passing = sum(mutant.relative is True for mutant in MUTANTS.values())
    return len(MUTANTS), passing, sum(map(_named, MUTANTS))


def _named(name: str) -> bool:
    return MUTANTS[name].causes[0] != Cause.UNKNOWN and name not in {*NOT_NAMED, *FALSE}


def mutants_markdown() -> str:
    """Totals, and a row a cause: how many mistakes should be called so, and which are not."""
    every, passing, named = _totals()
    totals = (
        f"{every} wrong tables, frequencies and rotations, shown in {len(SHOWN)} ways: all fail, "
        f"{named} with the cause named each time. {len(RIGHTS)} right ones, at positions up to "
        f"10^6: none fails. {passing} of the wrong ones leave q·k a function of m − n alone, and "
        "pass every test of that."
    )
    calls = [cause for cause, _ in (mutants_calls.MUTANTS | mutants_calls.HALVES).values()]
    apart = (
        f"Not among them are {len(calls)} functions that are wrong in some calls alone: in "
        "batches, heads, chunks or half precision, or with positions beside tables. All fail, "
        f"{len(calls) - calls.count(Cause.UNKNOWN)} with the cause named; of the others "
        "the report says what goes wrong, and the cause is `unknown`."
    )
    lines = [totals, "", apart, "", "| cause | mistakes | named | not named |", "|---|---|---|---|"]
    for cause in dict.fromkeys(mutant.causes[0] for mutant in MUTANTS.values()):
        names = [name for name, mutant in MUTANTS.items() if mutant.causes[0] == cause]
        missed = [name for name in names if not _named(name)]
        what = "; ".join(MUTANTS[name].what for name in missed)
        lines.append(f"| `{cause}` | {len(names)} | {len(names) - len(missed)} | {what} |")
    return "\n".join(lines)
