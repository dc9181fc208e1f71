"""The report on q and k of one function.

With maps A_p of queries and B_p of keys a score is qᵀ A_mᵀ B_n k. Where both equal the reference it
depends on n − m; and where they do not, but each rotates by a rotation of its own, it still does if
these are one rotation but for a constant: then B_p = A_p C at every p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import replace
from posenc_cli.rotary.codes import FindingName
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import (
    Explanation,
    Report,
    merge_reports,
    order_notes,
)

if TYPE_CHECKING:
    from posenc_cli.inference.turning import SubjectBlock
    from posenc_cli.numerics.arrays import ComplexRows
    from posenc_cli.rotary.subject import Subject


_ALIKE = 1e-3
"""Of two factors of one pair: what float32 positions and half precisions leave between them near
position 0 is less, and any other rotation is further."""

_REORDERED = "q and k are returned with their dimensions in different orders"

_CONSTANT = "k differs from q by one rotation or factor, the same at all positions"
"""The difference that leaves q·k a function of m − n."""

_DRIFT = 2e-6
"""What float32 products of positions and frequencies may put between them, for each position."""


def report_of_both(
    subject: Subject, queries: Report, keys: Report, *, alike_if_right: bool
) -> Report:
    """The report on q and k: of each check the worse finding, with the name of what it speaks of.

    Where both are wrong in one way, that is said once. ``alike_if_right`` says whether one
    rotation rotates both, as all schemes have it whose amplitudes do not grow.
    """
    assert subject.key is not None
    if queries.ok and keys.ok:
        both = replace(merge_reports([queries, keys]), notes=queries.notes)
        return both if _one_order(subject, subject.key) else _reordered(both, subject)
    known = not (subject.unmeasured or subject.key.unmeasured)
    alike = _difference(subject, subject.key) if alike_if_right and known else None
    if alike_if_right and alike is None and not (queries.ok or keys.ok):
        return queries
    merged = merge_reports([_named(queries, "q"), _named(keys, "k")])
    findings, notes = merged.findings, queries.notes
    if alike is not None:
        findings = tuple(_relative(finding, alike) for finding in findings)
        notes += (f"q and k are rotated differently: {alike}",)
    diagnosis = tuple(
        replace(why, message=f"{name}: {why.message}")
        for name, report in (("q", queries), ("k", keys))
        for why in report.diagnosis[:1]
    )
    return replace(merged, findings=findings, diagnosis=diagnosis, notes=notes)


def _one_order(queries: Subject, keys: Subject) -> bool:
    """Whether the columns of q and of k that the pairs rotate come out in one order."""
    q, k = ((one.as_reference or one.own).pairing for one in (queries, keys))
    assert q is not None
    assert k is not None
    return (q.out_first, q.out_second) == (k.out_first, k.out_second)


def _reordered(both: Report, subject: Subject) -> Report:
    """The report on q and k that are right, each alone, but for one order of columns."""
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


def _named(report: Report, name: str) -> Report:
    """A report whose failed findings say what they speak of."""
    findings = tuple(
        finding if finding.ok else replace(finding, message=f"{name}: {finding.message}")
        for finding in report.findings
    )
    return replace(report, findings=findings)


def _relative(finding: Finding, difference: str) -> Finding:
    """The finding on q·k, which fails where the two are rotated by different rotations."""
    if finding.check != FindingName.RELATIVE or not finding.ok or difference == _CONSTANT:
        return finding
    message = (
        f"q·k does not depend on m − n alone, because q and k are rotated differently: {difference}"
    )
    return replace(finding, ok=False, worst=None, tolerance=None, at=None, message=message)


def _strays(block: SubjectBlock) -> bool:
    """Whether anything is not a rotation of a pair."""
    stray = block.stray()
    return stray is not None and bool(np.nanmax(stray, initial=0.0) > _ALIKE)


def _difference(queries: Subject, keys: Subject) -> str | None:
    """How keys are rotated differently from queries, None where they are rotated alike."""
    q, k = queries.own, keys.own
    if q.pairs != k.pairs or q.pairing != k.pairing:
        return "their columns are paired or ordered differently"
    first: ComplexRows | None = None
    differ, constant = "", True
    for rows in q.places.row_blocks():
        blocks, positions = [turning.read(rows) for turning in (q, k)], q.places.at(rows)
        of_queries, of_keys = (block.turned for block in blocks)
        apart = np.abs(of_queries - of_keys)
        allowed = _ALIKE + _DRIFT * np.abs(positions)[:, None]
        with np.errstate(all="ignore"):
            ratios = of_keys / of_queries
        first = ratios[:1] if first is None else first
        constant &= bool((np.abs(ratios - first) <= allowed).all())
        constant &= not any(_strays(block) for block in blocks)
        if not differ and not (apart <= allowed).all():
            row, pair = divmod(int(np.argmax(~(apart <= allowed))), apart.shape[1])
            place = f"position {int(positions[row])}, pair {pair}"
            differ = f"they differ by {apart[row, pair]:.2g} at {place}"
    return _CONSTANT if differ and constant else differ or None
