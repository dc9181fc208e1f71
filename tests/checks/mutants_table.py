"""What rope-check says of wrong implementations: those it has no name for, and the README's table.

The tests hold both lists exactly.
"""

from __future__ import annotations

from tests.checks.mutants import APPLIED, MUTANTS
from tests.checks.rights import RIGHTS

NOT_NAMED: dict[str, str] = {}
"""Mistakes that are caught and whose cause is unknown, and the subjects that show them so."""

FALSE: dict[str, str] = {}
"""Mistakes of which something is said that is not so, and the subjects that show them so."""


def forms(name: str) -> tuple[str, ...]:
    """The subjects that the tests show a mistake in: of tables one, of vectors one, frequencies.

    They take turns, a function, which costs a process, every third time.
    """
    turn, mutant = [*MUTANTS].index(name), MUTANTS[name]
    tables = [form for form in mutant.subjects if form in ("tables", "half")]
    applied = [form for form in mutant.subjects if form in APPLIED]
    return (
        *tables[turn % 2 % max(len(tables), 1) :][:1],
        *applied[(turn % 3 == 2) % max(len(applied), 1) :][:1],
        *(form for form in mutant.subjects if form == "inv-freq"),
    )


SHOWN = [(name, form) for name in MUTANTS for form in forms(name)]


def mutants_markdown() -> str:
    """Totals, and a row a cause: how many mistakes should be called so, and which are not."""
    passing = sum(mutant.relative is True for mutant in MUTANTS.values())
    named = len(MUTANTS) - len({*NOT_NAMED, *FALSE})
    totals = (
        f"{len(MUTANTS)} wrong implementations, shown in {len(SHOWN)} ways: all fail, {named} with "
        f"the cause named each time. {len(RIGHTS)} right ones, up to position 10^6: none fails. "
        f"{passing} of the wrong ones leave q·k a function of m − n alone, and pass every test of "
        "that."
    )
    lines = [totals, "", "| cause | mistakes | named | not named |", "|---|---|---|---|"]
    for cause in dict.fromkeys(mutant.causes[0] for mutant in MUTANTS.values()):
        names = [name for name, mutant in MUTANTS.items() if mutant.causes[0] == cause]
        missed = [name for name in names if name in NOT_NAMED or name in FALSE]
        what = "; ".join(MUTANTS[name].what for name in missed)
        lines.append(f"| `{cause}` | {len(names)} | {len(names) - len(missed)} | {what} |")
    return "\n".join(lines)
