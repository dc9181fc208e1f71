"""What rope-check says of wrong implementations: those it has no name for, and the README's table.

The tests hold both lists exactly.
"""

from __future__ import annotations

from tests.checks.mutants import MUTANTS
from tests.checks.mutation import APPLIED
from tests.checks.rights import RIGHTS

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
        f"wrong RoPEs caught, of the {every} in its tests",
        f"{every}, {named} with the cause",
        f"at most {every - passing} by a test that q·k depends only on m − n",
    ]


def passing_markdown() -> str:
    """How many wrong ones any such test lets pass."""
    every, passing, _ = _totals()
    return f"**Of {every} wrong RoPEs in posenc's tests {passing} pass it**, whatever the vectors."


def _totals() -> tuple[int, int, int]:
    """All wrong ones, those that leave q·k a function of m − n, and those whose cause is named."""
    passing = sum(mutant.relative is True for mutant in MUTANTS.values())
    return len(MUTANTS), passing, len(MUTANTS) - len({*NOT_NAMED, *FALSE})


def mutants_markdown() -> str:
    """Totals, and a row a cause: how many mistakes should be called so, and which are not."""
    every, passing, named = _totals()
    totals = (
        f"{every} wrong implementations, shown in {len(SHOWN)} ways: all fail, {named} with "
        f"the cause named each time. {len(RIGHTS)} right ones, at positions up to 10^6: none "
        f"fails. {passing} of the wrong ones leave q·k a function of m − n alone, and pass every "
        "test of that."
    )
    lines = [totals, "", "| cause | mistakes | named | not named |", "|---|---|---|---|"]
    for cause in dict.fromkeys(mutant.causes[0] for mutant in MUTANTS.values()):
        names = [name for name, mutant in MUTANTS.items() if mutant.causes[0] == cause]
        missed = [name for name in names if name in NOT_NAMED or name in FALSE]
        what = "; ".join(MUTANTS[name].what for name in missed)
        lines.append(f"| `{cause}` | {len(names)} | {len(names) - len(missed)} | {what} |")
    return "\n".join(lines)
