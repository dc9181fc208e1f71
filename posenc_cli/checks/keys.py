"""A function that turns q and k: one report on both, and whether they are turned alike.

With maps A_p of queries and B_p of keys a score is qᵀ A_mᵀ B_n k. Where both equal the reference it
depends on n − m; and where they do not, but each turns by a rotation of its own, it still does if
these are one rotation but for a constant: then B_p = A_p C at every p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import replace
from posenc_cli.rotary.codes import FindingName
from posenc_cli.rotary.findings import Finding
from posenc_cli.rotary.verdict import Explanation, Report, merge_reports, order_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.turning import ColumnPairing, SubjectBlock, Turning
    from posenc_cli.numerics.arrays import ComplexRows, Integers
    from posenc_cli.rotary.subject import Subject

_ALIKE = 1e-3
"""Of two factors of one pair: what float32 positions and half precisions leave between them near
position 0 is less, and any other rotation is further."""

_REORDERED = "q comes out in another order of columns than k"

_DRIFT = 2e-6
"""What float32 products of positions and frequencies may put between them, for each position."""


def report_of_both(
    subject: Subject, queries: Report, keys: Report, *, alike_if_right: bool
) -> Report:
    """The report on q and k: of each check the worse finding, with the name of what it speaks of.

    Where both are wrong in one way, that is said once. ``alike_if_right`` says whether one
    rotation turns both, as all schemes have it whose amplitudes do not grow.
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
    findings = merged.findings
    notes = queries.notes
    if alike is not None:
        findings = tuple(_relative(finding, alike) for finding in findings)
        notes += (f"q and k are not turned alike: {alike}",)
    diagnosis = tuple(
        replace(why, message=f"{name}: {why.message}")
        for name, report in (("q", queries), ("k", keys))
        for why in report.diagnosis[:1]
    )
    return replace(
        merged,
        findings=findings,
        diagnosis=diagnosis,
        notes=notes,
    )


def _one_order(queries: Subject, keys: Subject) -> bool:
    """Whether the columns of q and of k that the pairs turn come out in one order."""
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
    evidence = "each alone equals the reference, but for that order"
    why = Explanation(Cause.LAYOUT, _REORDERED, evidence)
    notes = tuple(note for note in both.notes if note not in order_notes(subject))
    return replace(both, findings=findings, diagnosis=(why,), notes=notes, farthest=None)


def _named(report: Report, name: str) -> Report:
    """A report whose failed findings say what they speak of."""
    findings = tuple(
        finding if finding.ok else replace(finding, message=f"{name}: {finding.message}")
        for finding in report.findings
    )
    return replace(report, findings=findings)


def _relative(finding: Finding, difference: str) -> Finding:
    """The finding on q·k, which fails where the two are turned by different rotations."""
    if finding.check != FindingName.RELATIVE or not finding.ok or difference.startswith(_CONSTANT):
        return finding
    message = (
        f"q·k does not depend on m − n alone, because q and k are rotated differently: {difference}"
    )
    return replace(finding, ok=False, worst=None, tolerance=None, at=None, message=message)


_CONSTANT = "at all positions alike, k is"
"""How a difference begins that leaves q·k a function of m − n."""


def _strays(block: SubjectBlock) -> bool:
    """Whether anything is no turn of a pair."""
    stray = block.stray()
    return stray is not None and bool(np.nanmax(stray, initial=0.0) > _ALIKE)


def _constant_text(ratios: ComplexRows) -> str:
    """By what k differs from q in each pair (n, pairs), which is the same at all positions."""
    sizes = np.abs(ratios)
    if np.ptp(sizes) <= _ALIKE and np.abs(np.angle(ratios)).max() <= _ALIKE:
        return f"multiplied {np.median(sizes):.6g} times as much as q"
    return "turned on from q in each pair by an angle of its own, or multiplied"


def _ends(pairing: ColumnPairing) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The two columns of each pair, each with the one that it comes out as."""
    first = zip(pairing.first, pairing.out_first, strict=True)
    return list(zip(first, zip(pairing.second, pairing.out_second, strict=True), strict=True))


def _same_pairs(
    q: ColumnPairing | None, k: ColumnPairing | None
) -> tuple[list[int], list[bool]] | None:
    """Where those of q are among k's pairs, and which k has the other way round.

    None where k has not all of them.
    """
    if q is None or k is None or q.pairs != k.pairs:
        return None
    places = {pair: (index, False) for index, pair in enumerate(_ends(k))}
    places |= {pair[::-1]: (index, True) for pair, (index, _) in places.items()}
    of_q = [places.get(pair) for pair in _ends(q)]
    known = [place for place in of_q if place is not None]
    if len(known) < len(of_q):
        return None
    return [index for index, _ in known], [flipped for _, flipped in known]


def _factors_of_both(
    q: Turning, k: Turning, in_order: tuple[list[int], list[bool]] | None
) -> Iterator[tuple[Integers, list[ComplexRows], bool]]:
    """Positions, the factors of q and of k (n, pairs) in one order, and whether all are turns."""
    for rows in q.places.row_blocks():
        blocks = [turning.read(rows) for turning in (q, k)]
        factors = [block.turned for block in blocks]
        if in_order is not None:
            order, flipped = in_order
            factors[1] = np.where(flipped, factors[1][:, order].conj(), factors[1][:, order])
        yield q.places.at(rows), factors, not any(_strays(block) for block in blocks)


def _difference(queries: Subject, keys: Subject) -> str | None:
    """How keys are rotated otherwise than queries, None where they are rotated alike."""
    q, k = queries.own, keys.own
    in_order = _same_pairs(q.pairing, k.pairing)
    if q.pairs != k.pairs or (q.pairing != k.pairing and in_order is None):
        going_in = [one.pairing and (one.pairing.first, one.pairing.second) for one in (q, k)]
        if going_in[0] == going_in[1]:
            return _REORDERED
        texts = [turning.pairing.text if turning.pairing else "otherwise" for turning in (q, k)]
        return f"q pairs columns {texts[0]}, k {texts[1]}"
    first: tuple[ComplexRows, ComplexRows, ComplexRows] | None = None
    differ, still, constant = "", [True, True], True
    for positions, factors, turns_alone in _factors_of_both(q, k, in_order):
        apart = np.abs(factors[0] - factors[1])
        allowed = _ALIKE + _DRIFT * np.abs(positions)[:, None]
        with np.errstate(all="ignore"):
            ratios = factors[1] / factors[0]
        first = first or (factors[0][:1], factors[1][:1], ratios[:1])
        if not turns_alone:
            still, constant = [False, False], False
        for which, each in enumerate(factors):
            still[which] &= bool(np.abs(each - first[which]).max() <= _ALIKE)
        constant &= bool((np.abs(ratios - first[2]) <= allowed).all())
        if not differ and not (apart <= allowed).all():
            row, pair = divmod(int(np.argmax(~(apart <= allowed))), apart.shape[1])
            place = f"position {int(positions[row])}, pair {pair}"
            differ = f"they differ by {apart[row, pair]:.2g} at {place}"
    if not differ or first is None:
        return None
    if still[0] != still[1]:
        return f"{'q' if still[0] else 'k'} does not rotate"
    return f"{_CONSTANT} {_constant_text(first[2])}" if constant else differ
