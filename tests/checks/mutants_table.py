"""What rope-check says of wrong implementations: those it has no name for, and the README's table.

The tests hold both lists exactly.
"""

from __future__ import annotations

from tests.checks.mutants import APPLIED, MUTANTS
from tests.checks.rights import RIGHTS

NOT_NAMED: dict[str, str] = {
    "backward_slow": "half rotated",
    "swapped_half": "half impl",
    "one_of_two": "rotated",
    "added": "rotated",
    "parallel_restarted": "tables impl inv-freq",
    "parallel_restarted_4": "tables rotated inv-freq",
    "parallel_first": "tables rotated inv-freq",
    "parallel_last": "tables impl inv-freq",
    "parallel_exchanged": "tables rotated inv-freq",
    "parallel_strided": "half rotated inv-freq",
    "parallel_llama3": "tables impl inv-freq",
    "llama3_multiplied": "tables rotated inv-freq",
    "llama3_twice": "half impl inv-freq",
    "yarn_ramp_base": "tables rotated inv-freq",
    "yarn_step": "half rotated inv-freq",
    "integer_exponents": "half rotated inv-freq",
    "integer_floor": "tables rotated inv-freq",
    "one_pair": "inv-freq",
    "two_exchanged": "tables rotated inv-freq",
    "wavelengths": "tables rotated",
    "not_inverse": "half impl",
    "uninitialised_normal": "tables impl inv-freq",
    "uninitialised_huge": "half rotated inv-freq",
    "uninitialised_first": "tables rotated inv-freq",
    "uninitialised_nan": "half rotated inv-freq",
    "float32_as_bfloat16": "tables impl inv-freq",
    "proportional_inside": "rotated",
    "proportional_partial": "rotated",
    "passed_scaled": "impl",
    "passed_zeroed": "rotated",
    "position_int16": "tables rotated",
    "pairs_late": "half rotated",
    "grown_cast": "tables impl",
    "grown_half": "half rotated",
    "grown_tables": "half impl",
    "grown_dropped": "tables rotated",
    "grown_scaled": "half rotated",
    "grown_ntk": "tables impl",
    "grown_base": "half rotated",
    "grown_factor": "tables rotated",
    "grown_empty": "half rotated",
    "frequencies_e4m3": "half rotated inv-freq",
    "tables_int16": "half rotated",
    "looked_up": "tables rotated",
    "truncated_pi": "half",
    "float32_far": "tables rotated",
    "half_seconds": "half rotated",
    "mrope_text": "half rotated",
    "dealt_text": "half rotated",
    "mrope_restarted": "half rotated inv-freq",
    "base_clamped": "half rotated",
    "dropped_bfloat16": "half rotated inv-freq",
}
"""Mistakes that are caught and whose cause is unknown, and the subjects that show them so."""

FALSE: dict[str, str] = {
    "last_repeated": "half rotated inv-freq",
    "one_pair": "half impl",
    "nearly": "tables impl inv-freq",
    "factor_of_slow": "tables rotated",
    "grown_positions": "tables rotated",
    "truncated_pi": "impl",
}
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
