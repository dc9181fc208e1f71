"""The README's table of wrong implementations: what is killed, and what it is called."""

from __future__ import annotations

from tests.checks.mutants import MUTANTS


def mutants_markdown() -> str:
    """A row a mutant: the mistake, the subjects that show it, and the cause that is named."""
    lines = [
        "| mistake | shown by | q·k depends on m − n alone | cause named |",
        "|---|---|---|---|",
    ]
    property_ = {True: "yes", False: "no", None: "as the subject shows it"}
    for mutant in MUTANTS.values():
        shown = [*mutant.subjects, *(["inv-freq"] if mutant.inv_freq else [])]
        lines.append(
            f"| {mutant.what} | {', '.join(shown)} | {property_[mutant.relative]} | "
            f"{' or '.join(f'`{cause}`' for cause in sorted(mutant.causes))} |"
        )
    return "\n".join(lines)
