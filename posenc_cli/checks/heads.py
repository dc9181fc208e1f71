"""Vectors of several heads, and sequences: one report on all, which says which heads are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import FileStack
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts
from posenc_cli.records import replace
from posenc_cli.rotary.residual import joined_residual
from posenc_cli.rotary.subject import name_of
from posenc_cli.rotary.verdict import MOST, Explanation, Report, Where, merge_reports

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.positions import Positions
    from posenc_cli.rotary.subject import GivenArray, Matrices

    _Head = tuple[int, ...]
    """Its number, after that of its sequence where there are several."""

_MOST_UNKNOWN = 4
"""Heads of unknown cause that are looked into: each takes seconds, and most are alike."""

_MOST_EXPLAINED = 24
"""Wrong heads that are looked into: each may take half a second, and heads are as many as positions
where --len names their axis."""


def matrices_of_heads(
    first: GivenArray, second: GivenArray, flag: str, positions: Positions | None
) -> dict[_Head, Matrices]:
    """Two files of vectors by head: (L, d), or with axes of heads and sequences before d.

    The axis of positions is the one that is as long as these are many.

    Raises: InvalidInput where shapes differ, or it is open which axis that is.
    """
    stacks = FileStack.of(first), FileStack.of(second)
    shapes = ["×".join(map(str, stack.shape)) for stack in stacks]
    name = f"{flag} {name_of(first)} {name_of(second)}"
    if shapes[0] != shapes[1]:
        raise InvalidInput(f"{name}: must have one shape, not {shapes[0]} and {shapes[1]}")
    shape = stacks[0].shape
    if not 3 <= len(shape) <= 4:
        return {(): (stacks[0].matrix, stacks[1].matrix)}
    count = None if positions is None else positions.count
    axes = [axis for axis in (len(shape) - 3, len(shape) - 2) if shape[axis] == count]
    if len(axes) != 1:
        asked = "" if count is None else f", and {count} positions are asked for"
        raise InvalidInput(
            f"{name}: have the shape {shapes[0]}{asked}: which axis is that of positions?",
            hint=f"--len {shape[-2]} for heads before positions, --len {shape[-3]} after them"
            if shape[-2] != shape[-3]
            else "save one head",
        )
    xs, ys = (stack.matrices(axes[0]) for stack in stacks)
    return {head: (xs[head], ys[head]) for head in xs}


def report_of_heads(
    heads: dict[_Head, Matrices], judge: Callable[[Matrices, bool], Report]
) -> Report:
    """The report on all heads; ``judge(files, diagnosed)`` is that on one."""
    reports: dict[_Head, Report] = {}
    unknown = explained = 0
    for head, files in heads.items():
        reports[head] = judge(files, unknown < _MOST_UNKNOWN and explained < _MOST_EXPLAINED)
        diagnosis = reports[head].diagnosis
        unknown += any(why.cause == Cause.UNKNOWN for why in diagnosis)
        explained += bool(diagnosis)
    if len(reports) == 1:
        return next(iter(reports.values()))
    merged = merge_reports(list(reports.values()))
    wrong = [head for head, report in reports.items() if not report.ok]
    note = f"{len(reports)} heads were looked at"
    left = sum(not reports[head].diagnosis for head in wrong)
    if left:
        note += f"; for {left} of those that fail no cause was looked for"
    findings = tuple(
        finding
        if finding.ok
        else replace(finding, message=f"{_worst_text(finding, reports)}: {finding.message}")
        for finding in merged.findings
    )
    return replace(
        merged,
        findings=findings,
        diagnosis=_causes(reports, wrong),
        notes=(note, *merged.notes),
    )


def _worst_text(finding: object, reports: dict[_Head, Report]) -> str:
    """The head that a finding is of."""
    head = next(head for head, report in reports.items() if finding in report.findings)
    return heads_text([head], list(reports))


def _causes(reports: dict[_Head, Report], wrong: list[_Head]) -> tuple[Explanation, ...]:
    """The causes, each with the heads that have it; those of most heads first."""
    groups: dict[tuple[str, str], dict[_Head, Explanation]] = {}
    for head in wrong:
        for why in reports[head].diagnosis[:1]:
            groups.setdefault((why.cause, why.message), {})[head] = why
    every = list(reports)
    causes = []
    for of_heads in sorted(groups.values(), key=len, reverse=True)[:MOST]:
        residuals = [why.residual for why in of_heads.values() if why.residual is not None]
        head, worst = max(
            of_heads.items(), key=lambda own: own[1].residual.within if own[1].residual else 0.0
        )
        evidence = worst.evidence
        if len({why.evidence for why in of_heads.values()}) > 1:
            evidence = f"of {heads_text([head], every)}: {evidence}"
        others = len(every) - len(wrong)
        right = f"; {others} of {len(every)} heads are right" if others else ""
        causes.append(
            replace(
                worst,
                message=f"{heads_text(list(of_heads), every)}: {worst.message}",
                evidence=f"{evidence}{right}".removeprefix("; "),
                where=replace(
                    worst.where or Where(None, None), heads=_heads_spec(list(of_heads), every)
                ),
                residual=joined_residual(residuals) if residuals else None,
            )
        )
    return tuple(causes)


def _by_sequence(heads: list[_Head]) -> dict[_Head, list[int]]:
    sequences: dict[_Head, list[int]] = {}
    for head in heads:
        sequences.setdefault(head[:-1], []).append(head[-1])
    return sequences


def heads_text(heads: list[_Head], every: list[_Head]) -> str:
    """Some of all heads, as the beginning of a sentence.

    >>> heads_text([(1,), (2,)], [(0,), (1,), (2,)])
    'heads 1–2 of 3'
    >>> heads_text([(0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)])
    'head 1 of 2 in sequence 0'
    """
    count = len({head[-1] for head in every})
    sequences = _by_sequence(heads)
    texts = []
    if len({tuple(numbers) for numbers in sequences.values()}) == 1:
        numbers = next(iter(sequences.values()))
        of_all = len(sequences) == len(_by_sequence(every))
        where = "" if of_all else ", ".join(range_texts([place[0] for place in sequences]))
        texts = [(numbers, where)]
    else:
        texts = [(numbers, str(place[0])) for place, numbers in sequences.items()]
    return "; ".join(
        f"head{'' if len(numbers) == 1 else 's'} {', '.join(range_texts(numbers))} of {count}"
        f"{f' in sequence {where}' if where else ''}"
        for numbers, where in texts
    )


def _heads_spec(heads: list[_Head], every: list[_Head]) -> str | None:
    """The heads as --positions takes numbers; None where sequences differ."""
    from posenc_cli.diagnosis.wording import spec

    sequences = _by_sequence(heads)
    if len(sequences) != len(_by_sequence(every)):
        return None
    numbers = {tuple(numbers) for numbers in sequences.values()}
    return spec(np.array(numbers.pop())) if len(numbers) == 1 else None
