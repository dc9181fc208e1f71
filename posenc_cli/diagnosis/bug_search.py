"""A known bug of a rotary subject, and the one search for those that reproduce it.

Every finder gives bugs; :func:`named` tries each on a few rows, then on the sample, then on all
rows, and names what reproduces every value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.diagnosis.defects import few_rows
from posenc_cli.diagnosis.wording import either, together, with_residual
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc_cli.diagnosis.claims import Claim
    from posenc_cli.diagnosis.wording import Suspect
    from posenc_cli.rotary.verdict import Explanation


class RotaryBug(Record):
    """What it makes of the right factors, and its words; None for those of the change itself."""

    claim: Claim
    words: Explanation | None = None


def named(suspect: Suspect, bugs: Iterable[RotaryBug], *, alike: int = 0) -> list[Explanation]:
    """The first bug that reproduces every value, with at most so many that do so as well."""
    sample = suspect.sample
    found: list[Explanation] = []
    few = sample.rows(few_rows(sample.positions))
    for bug in bugs:
        if not all(bug.claim.missed(part)[1].all() for part in (few, sample)):
            continue
        residual = suspect.whole.residual(bug.claim)
        if residual.whole:
            words = bug.words and with_residual(bug.words, residual)
            found.append(words or together(bug.claim, suspect, residual))
            if len(found) > alike:
                break
    return either(found[:1], found[1:]) if found else []
