"""What rope-check says of wrong implementations, for the README and the docs."""

from posenc_cli.inference.codes import Cause
from tests.checks.rights import RIGHTS
from tests.diagnosis import mutants_calls
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.mutation import APPLIED

NOT_NAMED: dict[str, str] = {
    "uninitialised_huge": "half",
    "uninitialised_first": "impl",
    "float32_as_bfloat16": "rotated",
}
"""Mistakes that are caught and whose cause is unknown, and the subjects that show them so."""


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
        f"wrong implementations detected, of the {every} in posenc's tests",
        f"{every} ({named} with the cause)",
        f"at most {every - passing} for a test that checks only whether q·k depends on m − n alone",
    ]


def passing_markdown() -> str:
    """How many wrong ones any such test lets pass."""
    every, passing, _ = _totals()
    of = f"{passing} of the {every} wrong implementations in posenc's tests"
    return (
        f"**{of} have this property.** A test of this property alone cannot detect them, whatever "
        f"vectors it uses. `rope-check` detects all {every}."
    )


def _totals() -> tuple[int, int, int]:
    """All wrong ones, those that leave q·k a function of m − n, and those whose cause is named."""
    passing = sum(mutant.relative is True for mutant in MUTANTS.values())
    return len(MUTANTS), passing, sum(map(_named, MUTANTS))


def _named(name: str) -> bool:
    return MUTANTS[name].causes[0] != Cause.UNKNOWN and name not in NOT_NAMED


def mutants_markdown() -> str:
    """Totals, and a row for each cause: how many wrong ones have it, and how many are named."""
    every, passing, named = _totals()
    totals = (
        f"posenc's tests contain {every} wrong implementations. In {len(SHOWN)} cases, the tests "
        "check them as tables, frequencies, rotated vectors or functions. All of them fail the "
        f"check, and posenc names the cause of {named}. All {len(RIGHTS)} right implementations "
        "pass, at positions up to "
        f"10^6. For {passing} of the wrong implementations, q·k still depends only on m − n, so "
        "they pass every test of this property."
    )
    calls = [cause for cause, _ in (mutants_calls.MUTANTS | mutants_calls.HALVES).values()]
    apart = (
        f"{len(calls)} more functions are wrong only in some calls: in batches, heads, chunks or "
        "half precision, or with both positions and tables. All of them fail the check, and posenc "
        f"names the cause of {len(calls) - calls.count(Cause.UNKNOWN)}."
    )
    lines = [totals, "", apart, "", "| cause | implementations | cause named |", "|---|---|---|"]
    causes = dict.fromkeys(mutant.causes[0] for mutant in MUTANTS.values())
    for cause in sorted(causes, key=lambda cause: cause == Cause.UNKNOWN):
        names = [name for name, mutant in MUTANTS.items() if mutant.causes[0] == cause]
        told = sum(map(_named, names)) if cause != Cause.UNKNOWN else "only place and size"
        lines.append(f"| `{cause}` | {len(names)} | {told} |")
    return "\n".join(lines)
