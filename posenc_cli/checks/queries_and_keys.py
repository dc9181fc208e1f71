"""Combine the reports on q and k of one function.

With maps A_p of queries and B_p of keys, a score is qᵀ A_mᵀ B_n k. If both equal the reference, it
depends on n − m. If they differ from it, but both rotate, it still depends on n − m if the
rotations differ by a constant one: B_p = A_p C at every p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.codes import Cause, FindingName
from posenc_cli.records import replace
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import (
    Explanation,
    Report,
    merge_reports,
    order_notes,
    with_prefix,
)

if TYPE_CHECKING:
    from posenc_cli.inference.turning import SubjectBlock
    from posenc_cli.numerics.arrays import ComplexRows
    from posenc_cli.rotary.subject import Subject


_MOST_DIFFERENCE = 1e-3
"""Difference of equal factors that float32 positions and half precision may cause.

Near position 0 it is smaller, and any other rotation differs by more."""

_REORDERED = "q and k are returned with their dimensions in different orders"

_CONSTANT = "k differs from q by one rotation or factor, the same at all positions"
"""The difference that leaves q·k a function of m − n."""

_POSITION_ERROR = 2e-6
"""Difference for each position that float32 products with frequencies may cause."""


def report_of_both(
    subject: Subject, queries: Report, keys: Report, *, alike_if_right: bool
) -> Report:
    """Return the report on q and k: the worse finding of each check, prefixed with q or k.

    If both are wrong in the same way, that is said once. ``alike_if_right`` says whether a right
    function rotates both alike, as with all schemes whose amplitudes do not grow.
    """
    assert subject.key is not None
    if queries.ok and keys.ok:
        both = replace(merge_reports([queries, keys]), notes=queries.notes)
        return both if _have_one_order(subject, subject.key) else _order_failure(both, subject)
    measured = not (subject.unmeasured or subject.key.unmeasured)
    difference = _difference(subject, subject.key) if alike_if_right and measured else None
    if alike_if_right and difference is None and not (queries.ok or keys.ok):
        return queries
    merged = merge_reports([with_prefix(queries, "q"), with_prefix(keys, "k")])
    findings, notes = merged.findings, queries.notes
    if difference is not None:
        findings = tuple(_relative_finding(finding, difference) for finding in findings)
        notes += (f"q and k are rotated differently: {difference}",)
    diagnosis = tuple(
        replace(why, message=f"{name}: {why.message}")
        for name, report in (("q", queries), ("k", keys))
        for why in report.diagnosis[:1]
    )
    return replace(merged, findings=findings, diagnosis=diagnosis, notes=notes)


def _have_one_order(queries: Subject, keys: Subject) -> bool:
    """Return whether the rotated dimensions of q and k are returned in one order."""
    pairings = ((one.as_reference or one.own).pairing for one in (queries, keys))
    q, k = (pairing and (pairing.out_first, pairing.out_second) for pairing in pairings)
    return q == k


def _order_failure(both: Report, subject: Subject) -> Report:
    """Return the failed report on q and k that are right, but in different orders of dimensions."""
    texts = {
        FindingName.RELATIVE: f"q·k does not depend on m − n alone: {_REORDERED}",
        FindingName.REFERENCE: f"q and k each equal the reference, but {_REORDERED}",
    }
    findings = tuple(
        Finding(finding.check, False, None, None, None, texts[finding.check])
        if finding.check in texts
        else finding
        for finding in both.findings
    )
    evidence = "each alone equals the reference, except for that order"
    why = Explanation(Cause.LAYOUT, _REORDERED, evidence)
    notes = tuple(note for note in both.notes if note not in order_notes(subject))
    return replace(both, findings=findings, diagnosis=(why,), notes=notes)


def _relative_finding(finding: Finding, difference: str) -> Finding:
    """Return the finding on q·k, which fails if q and k are rotated differently."""
    if finding.check != FindingName.RELATIVE or not finding.ok or difference == _CONSTANT:
        return finding
    message = (
        f"q·k does not depend on m − n alone, because q and k are rotated differently: {difference}"
    )
    return replace(finding, ok=False, worst=None, tolerance=None, at=None, message=message)


def _is_no_rotation(block: SubjectBlock) -> bool:
    """Return whether a block has anything that is not a rotation of a pair."""
    stray = block.stray()
    return stray is not None and bool(np.nanmax(stray, initial=0.0) > _MOST_DIFFERENCE)


def _difference(queries: Subject, keys: Subject) -> str | None:
    """Say how keys are rotated differently from queries; None if they are rotated alike."""
    q, k = queries.own, keys.own
    if q.pairs != k.pairs or q.pairing != k.pairing:
        return "their columns are paired or ordered differently"
    first: ComplexRows | None = None
    differ, constant = "", True
    for rows in q.places.row_blocks():
        blocks, positions = [turning.read(rows) for turning in (q, k)], q.places.at(rows)
        query_factors, key_factors = (block.turned for block in blocks)
        distance = np.abs(query_factors - key_factors)
        allowed = _MOST_DIFFERENCE + _POSITION_ERROR * np.abs(positions)[:, None]
        with np.errstate(all="ignore"):
            ratios = key_factors / query_factors
        first = ratios[:1] if first is None else first
        constant &= bool((np.abs(ratios - first) <= allowed).all())
        constant &= not any(_is_no_rotation(block) for block in blocks)
        if not differ and not (distance <= allowed).all():
            row, pair = divmod(int(np.argmax(~(distance <= allowed))), distance.shape[1])
            place = f"position {int(positions[row])}, pair {pair}"
            differ = f"they differ by {distance[row, pair]:.2g} at {place}"
    return _CONSTANT if differ and constant else differ or None
