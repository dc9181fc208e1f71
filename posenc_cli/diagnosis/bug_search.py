"""Search for bugs that reproduce every value (:func:`confirmed_causes`), and describe them.

Other files of this folder propose the bugs, from a sample of the rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import ENOUGH, SCATTERS, TURNS, Defect, few_rows
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.position_maps import PositionMap
from posenc_cli.numerics.halves import (
    CUT_BFLOAT16,
    HALVES,
    round_to_half,
)
from posenc_cli.positions import consecutive_ranges, range_texts
from posenc_cli.records import Record, replace
from posenc_cli.rotary.verdict import (
    Examination,
    Explanation,
    Residual,
    Where,
    distinct_digits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.formulas.declare import Coordinates
    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.frequency_rules import Alternative
    from posenc_cli.inference.reference import Sample
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Integers, Reals

MOST_ALIKE = 2
"""The most alternatives listed beside an explanation that implies the same table."""

# vllm-project/vllm#48621. llama.cpp multiplies by a factor that it computes; a caller must divide
# by it first (ggml-org/llama.cpp#17945).
FACTORS: dict[str, Callable[[float], float]] = {
    "is not applied": lambda _: 1.0,
    "is applied twice": lambda right: right * right,
    "divides, not multiplies": lambda right: 1 / right,
}
"""Misuses of an attention factor, each with the factor that results from the correct one."""

MOST_RANGES = 6
"""The most ranges of positions or pairs in a sentence."""

_SHOWN = 1e-5
"""Relative error that a number shown with six digits may have without a stated uncertainty."""

_FEW_PAIRS = 0.25
"""Share of the pairs up to which the changed pairs are reported as the place of a cause."""

_FIRST_LOST = {
    "bfloat16": 257,
    CUT_BFLOAT16: 257,
    "float16": 2049,
    "float32": 2**24 + 1,
}
"""First positive integer that a format cannot represent."""


class Suspect(Record):
    """The subject of a diagnosis: a sample of its rows, and a reader of all."""

    examination: Examination
    sample: Sample
    read: Callable[[SomeRows], Sample]

    @property
    def rotations(self) -> Rotations | None:
        """The rotations nearest to the subject, if they were fitted."""
        consistency = self.examination.consistency
        return consistency.rotations if consistency else None

    def pieces(self) -> Iterator[Sample]:
        """Yield all rows, a piece at a time."""
        yield from map(self.read, self.examination.subject.own.places.row_blocks())

    def residual(self, defect: Defect) -> Residual:
        """Return what a defect does not explain, over all entries."""
        return Residual.measure((piece.positions, *defect.errors(piece)) for piece in self.pieces())

    def changed(self, change: Callable[[Sample], Sample]) -> Suspect:
        """Return the suspect with a change applied to each sample that is read."""
        read = self.read
        return replace(self, sample=change(self.sample), read=lambda rows: change(read(rows)))


def with_residual(explanation: Explanation, residual: Residual, *, others: int = 0) -> Explanation:
    """Return an explanation with a residual, which its evidence states too.

    ``others`` counts the other causes that leave this residual together with it.
    """
    text = residual.text
    if others:
        text = f"together with the other cause{'s' * (others > 1)}: {text}"
    evidence = f"{explanation.evidence}; {text}" if explanation.evidence else text
    return replace(explanation, evidence=evidence, residual=residual)


def with_alternatives(causes: list[Explanation], others: list[Explanation]) -> list[Explanation]:
    """Return the causes, the first with ``others`` as its possible alternatives."""
    first, *rest = causes
    distinct = {other.message: other for other in others if other.message != first.message}
    return [replace(first, alike=tuple(distinct.values())[:MOST_ALIKE]), *rest]


class RotaryBug(Record):
    """A defect to try, and its explanation."""

    defect: Defect
    explanation: Explanation | None = None


def confirmed_causes(
    suspect: Suspect, bugs: Iterable[RotaryBug], *, alike: int = 0
) -> list[Explanation]:
    """Return the causes of the first bug that reproduces every value.

    Up to ``alike`` other bugs that reproduce it too become its alternatives. Each bug is tried on a
    few rows, then on the sample, then on all rows.
    """
    sample = suspect.sample
    found: list[list[Explanation]] = []
    few = sample.rows(few_rows(sample.positions))
    for bug in bugs:
        if not all(bug.defect.explained(part).all() for part in (few, sample)):
            continue
        residual = suspect.residual(bug.defect)
        if residual.whole:
            causes = [with_residual(bug.explanation, residual)] if bug.explanation else None
            found.append(causes or list(defect_causes(bug.defect, suspect, residual)))
            if len(found) > alike:
                break
    return with_alternatives(found[0], [causes[0] for causes in found[1:]]) if found else []


def defect_causes(defect: Defect, suspect: Suspect, residual: Residual) -> Iterator[Explanation]:
    """Yield the causes that make up a defect, each with their common residual."""
    causes = list(_causes_of_changes(defect, suspect, residual))
    for cause in causes:
        yield with_residual(cause, residual, others=len(causes) - 1)


def joint_cause(defect: Defect, suspect: Suspect, residual: Residual) -> Explanation:
    """Return one explanation for all causes that make up a defect."""
    first, *others = _causes_of_changes(defect, suspect, residual)
    message = " and ".join(cause.message for cause in (first, *others))
    return with_residual(replace(first, message=message), residual)


def _causes_of_changes(
    defect: Defect, suspect: Suspect, residual: Residual
) -> Iterator[Explanation]:
    """Yield the causes that make up a defect, without its residual."""
    sample = suspect.sample
    if defect.turn != "right":
        _, cause, message = TURNS[defect.turn]
        yield Explanation(cause, message, "every pair matches once this is fixed")
    if defect.frequencies is not None:
        yield _frequency_cause(defect.frequencies, sample)
    along = sample.reference.coordinates
    if defect.offset and along is not None:
        offsets = offsets_text(along, defect.offset, np.array(along.axes))
        message = f"coordinates are {offsets}"
        yield Explanation(Cause.POSITION_OFFSET, message, "")
    elif defect.offset:
        explained = defect.explained(sample).all(axis=1)
        first = int(sample.positions[int(np.argmax(explained))])
        yield Explanation(
            Cause.POSITION_OFFSET,
            f"positions are shifted by {defect.offset:+g}",
            f"position {first} is rotated as {first + defect.offset:.12g}",
        )
    if isinstance(defect.moved, PositionMap):
        yield _moved_cause(defect.moved, suspect, () if defect.rounds else residual.positions)
    yield from _rounding_causes(defect, suspect, residual)


def _rounding_causes(defect: Defect, suspect: Suspect, residual: Residual) -> Iterator[Explanation]:
    """Yield the causes of a defect's roundings."""
    sample = suspect.sample
    if defect.positions:
        first = _FIRST_LOST[defect.positions]
        yield Explanation(
            Cause.POSITION_PRECISION,
            f"positions were rounded to {defect.positions}",
            f"positions collide from {first} on: {defect.positions} cannot represent {first}",
        )
    if defect.rates:
        yield Explanation(
            Cause.INV_FREQ_PRECISION,
            f"the frequencies were rounded to {defect.rates}",
            ratio_text(round_to_half(sample.reference.frequencies, defect.rates), sample)
            if defect.frequencies is None and defect.rates != "float32"
            else "",
        )
    if defect.angles:
        yield Explanation(
            Cause.POSITION_PRECISION,
            f"the angles, position times frequency, were rounded to {defect.angles}",
            f"compute angles in float{64 if defect.angles == 'float32' else 32}",
        )
    if defect.cells:
        right = residual.of_entries - residual.count
        subject = suspect.examination.subject
        last = subject.returned_half == defect.cells
        rounded = "all values returned" if last else "cosines and sines"
        wider = "" if subject.dtype == defect.cells else ", then stored in a wider format"
        message = f"{rounded} were rounded to {defect.cells}{wider}"
        yield Explanation(
            Cause.TABLE_PRECISION,
            message,
            f"{right} of {residual.of_entries} rotations equal the exact ones, rounded this way",
            defect.cells if defect.cells in HALVES else None,
        )


def _moved_cause(
    moved: PositionMap, suspect: Suspect, unexplained: Integers | tuple[()]
) -> Explanation:
    """Explain positions that are rotated as others: how many there are, and the first three.

    If the first of them follows exactly the rows of a function's first call, the evidence says so.
    """
    own = suspect.examination.subject.own.places.at(slice(None))
    rotated_as = moved.at(own)
    changed = np.flatnonzero((rotated_as != own) & ~np.isin(own, unexplained))
    others = own[changed]
    get = "gets" if others.size == 1 else "get"
    shown = ", ".join(f"{own[row]} as {rotated_as[row]}" for row in changed[:3])
    evidence = f"{others.size} of {own.size} positions {get} the rotation of another: {shown}"
    in_a_row = others.size and changed[-1] - changed[0] == others.size - 1
    where = Where(f"{others.min()}:{others.max() + 1}", None) if in_a_row else None
    first_rows = (suspect.examination.subject.call or {}).get("rows_of_first_call")
    if others.size and first_rows == others.min():
        evidence += f"; the first call had {first_rows} rows"
    return Explanation(Cause.POSITION_OFFSET, moved.message, evidence, where=where)


def _frequency_cause(rule: Alternative, sample: Sample) -> Explanation:
    right, values = sample.reference.frequencies, rule.frequencies
    evidence = ratio_text(values, sample)
    changed = np.flatnonzero(~np.isclose(values, right, rtol=1e-6, atol=0)).tolist()
    changed = changed or np.flatnonzero(values != right).tolist()
    message = rule.message
    if not message:
        has = "has a wrong frequency" if len(changed) == 1 else "have wrong frequencies"
        message = f"{pairs_text(changed, right.size)} {has}, by no known rule"
    if rule.cause == Cause.SCALING_MISSING:
        are = "is" if len(changed) == 1 else "are"
        evidence = f"{pairs_text(changed, right.size)} {are} not scaled: {evidence}"
    few = 0 < len(changed) <= (_FEW_PAIRS * right.size if rule.message else right.size - 1)
    where = Where(None, as_ranges(np.array(changed))) if few else None
    return Explanation(rule.cause, message, evidence, where=where)


def ratio_text(frequencies: Reals, sample: Sample) -> str:
    """Describe the pair whose frequency differs most from the reference."""
    right = sample.reference.frequencies
    changed = ~np.isclose(frequencies, right, rtol=1e-12, atol=0)
    with np.errstate(all="ignore"):
        ratios = np.abs(np.log(np.abs(frequencies / right)))
    known = np.isfinite(ratios) & changed
    pair = int(np.argmax(np.where(known, ratios, -1.0) if known.any() else changed))
    value, wanted = float(frequencies[pair]), float(right[pair])
    if changed[pair] and not known[pair]:
        return f"frequency of pair {pair}: {value:.6g}, not {wanted:.6g}"
    shown = distinct_digits(value, wanted)[0]
    times = distinct_digits(value / wanted if wanted else math.inf, 1.0, digits=4)[0]
    return f"frequency of pair {pair}: {shown}, {times} times the reference's"


def amplitude_cause(sample: Sample) -> Explanation | None:
    """Return the cause of a wrong attention factor, or None if the amplitude is right or varies."""
    amplitude, right = sample.amplitude, sample.reference.scale
    if amplitude in (right, 0.0):
        return None
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    if abs(amplitude - right) <= SCATTERS * np.subtract(*np.percentile(sizes, [95, 5])):
        return None  # truncated values differ by as little
    # One amplitude, up to the roundings of cosine, sine and factor.
    if np.mean(np.abs(sizes - amplitude) <= 8 * sample.tolerance.floor) < ENOUGH:
        return None
    how = next(
        (
            text
            for text, change in FACTORS.items()
            if right != 1
            and abs(amplitude - change(right)) < max(1e-4 * change(right), sample.tolerance.floor)
        ),
        None,
    )
    applied, wanted = distinct_digits(amplitude, right)
    if sample.tolerance.floor > _SHOWN:
        places = math.ceil(-math.log10(sample.tolerance.floor))
        applied = f"{amplitude:.{places}f} ± {sample.tolerance.floor:.1g}"
    message = (
        f"the attention factor {right:.6g} {how}"
        if how
        else f"the attention factor is {applied}, not {wanted}"
    )
    evidence = f"cos and sin are multiplied by {applied}"
    ratio = amplitude / right
    if 1e-100 < ratio < 1e100:  # its square is a number
        times = distinct_digits(max(ratio, 1 / ratio) ** 2, 1.0, digits=4)[0]
        size = "large" if ratio > 1 else "small"
        evidence += f"; if q and k both are, logits are {times}× too {size}"
    return Explanation(Cause.ATTENTION_FACTOR, message, evidence)


def coordinate_offset(along: Coordinates, offset: float, axis: int) -> str:
    """Return the offset of coordinates on an axis, in patches if these are not one unit apart."""
    step = 1 if along.steps is None else along.steps[axis]
    number = offset / step
    if step in (1, along.denominator):
        return f"{number:+.7g}"
    return f"{number:+.7g} patch{'' if abs(number) == 1 else 'es'}"


def offsets_text(along: Coordinates, offset: float, followed: Integers) -> str:
    """Describe the offset of coordinates on the axes that pairs follow, for "coordinates are …"."""
    texts: dict[str, list[int]] = {}
    for axis in np.unique(followed).tolist():
        texts.setdefault(coordinate_offset(along, offset, axis), []).append(axis)
    every = len(texts) == 1 and {*followed.tolist()} == {*along.axes}
    return ", and ".join(
        f"shifted by {text} on {'every axis' if every else axes_text(axes)}"
        for text, axes in texts.items()
    )


def axes_text(axes: list[int]) -> str:
    """Return axes by their numbers, as text.

    >>> axes_text([1]), axes_text([0, 2])
    ('axis 1', 'axes 0, 2')
    """
    return f"ax{'i' if len(axes) == 1 else 'e'}s {', '.join(map(str, axes))}"


def as_ranges(numbers: Integers) -> str:
    """Return numbers in the syntax of --positions.

    >>> as_ranges(np.array([1, 2, 3, 7]))
    '1:4,7'
    """
    return ",".join(
        str(run.start) if len(run) == 1 else f"{run.start}:{run.stop}"
        for run in consecutive_ranges(numbers.tolist())
    )


def pairs_text(pairs: list[int], count: int) -> str:
    """Return pairs by their numbers, as the subject of a sentence.

    >>> pairs_text([7], 32), pairs_text([1, 2], 32)
    ('pair 7 of 32', 'pairs 1–2 of 32')
    """
    texts = range_texts(pairs)
    more = ["…"] * (len(texts) > MOST_RANGES)
    return (
        f"pair{'' if len(pairs) == 1 else 's'} {', '.join(texts[:MOST_RANGES] + more)} of {count}"
    )
