"""Search for bugs that reproduce every value (:func:`confirmed_causes`), and describe them.

Other files of this folder propose the bugs, from a sample of the rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.defects import (
    ENOUGH,
    SCATTERS,
    TIES,
    TURNS,
    Defect,
    few_rows,
    holds,
)
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import has_amplitude
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

_ALIKE = 2.0
"""A defect fits as well as another if its error is at most this many times as large."""

_FEWER = 2
"""One rounding is the cause if another leaves more than this many times as many entries."""

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


def confirmed_causes(
    suspect: Suspect,
    defects: Iterable[Defect],
    *,
    alike: int = 0,
    found: list[Defect] | None = None,
) -> list[Explanation]:
    """Return the causes of the first defect that reproduces every value.

    Up to ``alike`` other defects that reproduce them as well are its alternatives. Confirmed
    defects are added to ``found`` meanwhile.
    """
    found = [] if found is None else found
    confirmed: list[tuple[Defect, Residual]] = []
    for defect, residual in _confirmed_defects(suspect, defects):
        found.append(defect)
        confirmed.append((defect, residual))
        if len(found) > alike:
            break
    return _with_alternatives(suspect, confirmed) if confirmed else []


def _with_alternatives(
    suspect: Suspect, confirmed: list[tuple[Defect, Residual]]
) -> list[Explanation]:
    """Return the causes of the likeliest confirmed defect; the others are its alternatives.

    Rules that imply another amplitude than the subject's are not the cause, if others are known.
    """
    sample = suspect.sample
    confirmed = [
        each
        for each in confirmed
        if has_amplitude(
            each[0].frequencies, sample.reference, sample.amplitude, sample.tolerance.floor
        )
    ] or confirmed
    least = min(residual.count for _, residual in confirmed)
    (defect, residual), *others = sorted(
        confirmed, key=lambda each: each[1].count > _FEWER * least + 1
    )
    causes = list(defect_causes(defect, suspect, residual))
    if len(causes) > 1 or causes[0].cause == Cause.SCALING_MISSING:
        return causes  # what implies the same table as missing scaling adds nothing
    as_good = {
        why.message: why
        for other, its_residual in others
        if its_residual.count == residual.count
        if its_residual.within <= _ALIKE * residual.within
        for why in defect_causes(other, suspect, its_residual)
        if why.message != causes[0].message
    }
    return [replace(causes[0], alike=tuple(as_good.values())[:MOST_ALIKE])]


def _confirmed_defects(
    suspect: Suspect, defects: Iterable[Defect]
) -> Iterator[tuple[Defect, Residual]]:
    """Yield the defects that explain all rows, with their residuals.

    Each is tried on a few rows, then on the sample, then on all rows.
    """
    sample = suspect.sample
    few = sample.rows(few_rows(sample.positions))
    for defect in defects:
        ties = TIES * few.seen.sum() if defect.rounds else 0
        if np.count_nonzero(~defect.explained(few)) > ties or not holds(sample, defect):
            continue
        residual = suspect.residual(defect)
        nearly = defect.rounds and residual.count <= (1 - ENOUGH) * residual.of_entries
        if residual.whole or nearly:
            yield defect, residual


def defect_causes(defect: Defect, suspect: Suspect, residual: Residual) -> Iterator[Explanation]:
    """Yield the causes that make up a defect, each with their common residual."""
    own = defect.explanation
    causes = [own] if own else list(_causes_of_changes(defect, suspect, residual))
    for cause in causes:
        yield with_residual(cause, residual, others=len(causes) - 1)


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
    if isinstance(defect.moved, PositionMap):
        yield _moved_cause(defect.moved, suspect)
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


def _moved_cause(moved: PositionMap, suspect: Suspect) -> Explanation:
    """Explain positions that are rotated as others: how many there are, and the first three.

    If the first of them follows exactly the rows of a function's first call, the evidence says so.
    """
    own = suspect.examination.subject.own.places.at(slice(None))
    rotated_as = moved.at(own)
    changed = np.flatnonzero(rotated_as != own)
    others = own[changed]
    get = "gets" if others.size == 1 else "get"
    shown = ", ".join(f"{own[row]} as {rotated_as[row]}" for row in changed[:3])
    evidence = f"{others.size} of {own.size} positions {get} the rotation of another: {shown}"
    where = None
    in_a_row = others.size and changed[-1] - changed[0] == others.size - 1
    if in_a_row and others.size < own.size:
        where = Where(f"{others.min()}:{others.max() + 1}", None)
    first_rows = (suspect.examination.subject.call or {}).get("rows_of_first_call")
    if others.size and first_rows == others.min():
        evidence += f"; the first call had {first_rows} rows"
    return Explanation(Cause.POSITION_OFFSET, moved.message, evidence, where=where)


def _frequency_cause(rule: Alternative, sample: Sample) -> Explanation:
    right, values = sample.reference.frequencies, rule.frequencies
    evidence = ratio_text(values, sample)
    changed = np.flatnonzero(~np.isclose(values, right, rtol=1e-6, atol=0)).tolist()
    if rule.cause == Cause.SCALING_MISSING:
        are = "is" if len(changed) == 1 else "are"
        evidence = f"{pairs_text(changed, right.size)} {are} not scaled: {evidence}"
    few = 0 < len(changed) <= _FEW_PAIRS * right.size
    where = Where(None, as_ranges(np.array(changed))) if few else None
    return Explanation(rule.cause, rule.message, evidence, where=where)


def ratio_text(frequencies: Reals, sample: Sample) -> str:
    """Describe the pair whose frequency differs most from the reference."""
    right = sample.reference.frequencies
    with np.errstate(all="ignore"):
        ratios = np.abs(np.log(np.abs(frequencies / right)))
    pair = int(np.argmax(np.where(np.isnan(ratios), 0.0, ratios)))
    value, wanted = float(frequencies[pair]), float(right[pair])
    if not value or not wanted:
        return f"frequency of pair {pair}: {value:.6g}, not {wanted:.6g}"
    shown = distinct_digits(value, wanted)[0]
    times = distinct_digits(value / wanted, 1.0, digits=4)[0]
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
