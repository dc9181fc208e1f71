"""Why a subject differs from the reference: defects tried, their residuals measured.

Each defect says what the factors of the pairs would be if it held; it is believed only if what
it leaves over stays within the tolerance, on a sample of positions at every scale and around the
first and the worst that are wrong. They are tried from the simplest on: one cause before two. What
no defect explains is called unknown.

**A sample finds, all positions tell.** What is said of a cause, how many positions it is about and
which is the first, is measured on every row of the subject, and what the cause leaves over is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.codes import FindingName, SubjectKind
from posenc_cli.checks.drift import FROM, SCATTER, offset_text
from posenc_cli.checks.mirrors import mirror_cause
from posenc_cli.checks.rope import without_growth
from posenc_cli.checks.verdict import Explanation, distinct_digits
from posenc_cli.checks.widths import fits, of_width
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.defects import (
    ENOUGH,
    TURNS,
    Defect,
    Sample,
    Whole,
    few_rows,
    holds,
    likely_defects,
    nearly_holds,
)
from posenc_cli.inference.fitting import Rotations, fit
from posenc_cli.inference.formats import round_to_half
from posenc_cli.inference.position_maps import rows_as_positions
from posenc_cli.inference.rules import base_of, ladder
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.inference.uninitialised import (
    MEANING,
    Garbage,
    garbage_of,
    outrageous_of,
    zeros_of,
)
from posenc_cli.positions import range_texts
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.drift import Fault
    from posenc_cli.checks.rope import Survey
    from posenc_cli.checks.subject import Subject
    from posenc_cli.checks.verdict import Examination
    from posenc_cli.inference.defects import Extent
    from posenc_cli.inference.position_maps import PositionMap
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.rules import Alternative
    from posenc_cli.inference.turning import SubjectBlock
    from posenc_cli.numerics.arrays import Flags, Integers, Reals

_MOST_RANGES = 6  # of pairs, which a sentence can hold
_NEARLY_ALL = 0.85
"""Of the few rows of a first trial: one or two of them may be wrong in a way of their own."""

MOST = 3
"""Causes of one diagnosis."""

_NEARLY = 0.01
"""Of a frequency: powers computed in a half precision are right to this."""

_FLOAT16_OVERFLOW = 65520.0
"""From here on float16 rounds to infinity."""


def diagnose(examination: Examination) -> tuple[Explanation, ...]:
    """At most three causes for what the findings found, the likeliest first; none if all hold."""
    if examination.ok:
        return ()
    subject = examination.subject
    if subject.broken:
        return (_irregular_cause(examination),)
    if subject.as_reference is None:
        return _width_cause(subject, examination.reference)
    sample, whole = sample_and_whole(examination)
    survey = examination.survey
    if survey is not None and survey.reference.missing_at is not None:
        missing = _overflow_cause(whole) or _missing_pairs_cause(whole)
        return (missing or _missing_cause(survey, sample),)
    layout = _layout_cause(examination, whole)
    rounding = _cause_within_tolerance(examination, sample, whole) if layout is None else None
    if rounding is not None:
        return (rounding,)
    explanations: list[Explanation] = []
    if layout is None or not holds(sample, Defect()):
        explanations = [
            explanation
            for explanation in _explanations(examination, sample, whole)
            if explanation.cause != Cause.LAYOUT
        ]
    if layout is not None:
        explanations = [
            layout,
            *(explanation for explanation in explanations if explanation.cause != Cause.UNKNOWN),
        ]
    first_of = {explanation.cause: explanation for explanation in reversed(explanations)}
    distinct = [
        explanation for explanation in explanations if first_of[explanation.cause] is explanation
    ]
    return tuple(distinct[:MOST]) or (_unknown_cause(examination, sample),)


def _irregular_cause(examination: Examination) -> Explanation:
    """The cause of a subject that is no map of vectors."""
    subject = examination.subject
    if subject.frequencies is not None:
        unwritten = _unwritten_cause(examination, outrageous_of)
        if unwritten is not None:
            return unwritten
    overflowed = None
    if subject.kind == SubjectKind.IMPL and subject.as_reference is not None:
        overflowed = _overflow_cause(sample_and_whole(examination)[1])
    if overflowed is not None:
        return overflowed
    what = "what it does to a row does not follow from the row and its position"
    if subject.kind != SubjectKind.IMPL:
        what = "not all values are numbers"
    return Explanation(subject.broken_by, what, "; ".join(subject.broken))


def _unwritten_cause(
    examination: Examination, garbage_among: Callable[[Reals, Reals], Garbage | None]
) -> Explanation | None:
    """The cause where frequencies that were given are none that any rule has."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    garbage = garbage_among(given, right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    return Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
        f"pair {pair} has {given[pair]:.6g}, not {right[pair]:.6g}",
    )


def _unwritten_rates_cause(sample: Sample, whole: Whole) -> Explanation | None:
    """The same where pairs turn at rates that no rule gives, steadily, at every position."""
    right = sample.reference.frequencies
    if sample.reference.coordinates is not None or (np.diff(np.sort(sample.positions)) > 1).all():
        return None
    rates = fit(sample.positions, sample.factors).frequencies
    garbage = garbage_of(rates, right)
    if garbage is None:
        return None
    steady = whole.extent_of(lambda piece: _turning_cells(rates, piece)).pairs
    garbage = garbage_of(np.where(steady, rates, right), right)
    if garbage is None:
        return None
    pair = int(np.argmax(garbage.pairs))
    return Explanation(
        Cause.UNINITIALISED,
        f"of the {right.size} frequencies {garbage.text}: {MEANING}",
        f"pair {pair} turns by {rates[pair]:.6g} a position, modulo 2π, not by {right[pair]:.6g}; "
        f"{_pairs_text(np.flatnonzero(garbage.pairs).tolist(), right.size)} turn so at every "
        "position",
    )


def _inverse_cause(examination: Examination) -> Explanation | None:
    """The cause where what was given is the inverse of frequencies."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.size != right.size or not (right > 0).all():
        return None
    for what, values in (("1/frequency", 1 / right), ("wavelengths", 2 * np.pi / right)):
        if np.allclose(given, values, rtol=1e-5, atol=0):
            text = f"{given[-1]:.6g}, not {right[-1]:.6g}"
            message = f"{what} were given, not frequencies"
            return Explanation(Cause.FREQUENCY_RULE, message, f"pair {right.size - 1} is {text}")
    return None


def _missing_cause(survey: Survey, sample: Sample) -> Explanation:
    """Values that are no numbers, for a reason unknown."""
    deviation = survey.reference
    position, pair = deviation.missing_at or (0, 0)
    return Explanation(
        Cause.UNKNOWN,
        "not all values are numbers",
        f"{deviation.missing} of {deviation.rows * sample.reference.pairs} are not, the first at "
        f"position {position}, pair {pair}",
    )


def _missing_pairs_cause(whole: Whole) -> Explanation | None:
    """The cause where some pairs are no numbers from position 2 on, and all others are."""
    pairs: Flags | None = None
    for piece in whole.pieces():
        missing = ~np.isfinite(piece.factors[np.abs(piece.positions) > 1])  # (n, pairs)
        if not missing.shape[0]:
            continue
        pairs = missing[0] if pairs is None else pairs
        if (missing != pairs).any():
            return None
    if pairs is None or not pairs.any():
        return None
    of_pairs = _pairs_text(np.flatnonzero(pairs).tolist(), pairs.size)
    return Explanation(
        Cause.UNINITIALISED,
        f"{of_pairs} {'has' if pairs.sum() == 1 else 'have'} no number at any position from 2 on, "
        f"so no finite frequency: {MEANING}",
        "all other pairs have numbers at every position",
    )


def _cause_within_tolerance(
    examination: Examination, sample: Sample, whole: Whole
) -> Explanation | None:
    """The cause where every cell is right to what float32 code can show, None where not."""
    if examination.fault is not None:
        return _drift_cause(examination.fault, examination, sample, whole)
    cells = None if examination.survey is None else examination.survey.cells
    if cells is None or not whole.extent(Defect()).whole:
        return None
    return Explanation(
        Cause.TABLE_PRECISION,
        f"cells are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} cells, by up to {cells.units:.3g} units in the last "
        "place, but all are right to what float32 code can show",
    )


def _drift_cause(
    fault: Fault, examination: Examination, sample: Sample, whole: Whole
) -> Explanation:
    """The cause of errors that the tolerance of each cell grants, and roundings do not make."""
    if fault.offset is not None:
        return Explanation(
            Cause.POSITION_OFFSET,
            f"positions are off by {offset_text(fault.offset)}",
            f"from position {FROM} on the angles of {fault.pairs} pairs err by the same share, "
            f"about {fault.offset / fault.position:.2g}, where roundings differ by pair",
        )
    per_angle = SCATTER * examination.reference.scale
    tolerance = replace(sample.tolerance, per_angle=per_angle)
    strict = replace(sample, tolerance=tolerance)
    strictly = Whole(lambda: (replace(piece, tolerance=tolerance) for piece in whole.pieces()))
    for explanation in _explanations(examination, strict, strictly):
        if explanation.cause != Cause.UNKNOWN:
            return explanation
    return Explanation(
        Cause.UNKNOWN,
        "phases err as no rounding of a frequency and its product with the position does",
        f"no one error of the frequency of pair {fault.pair} explains all its positions, "
        f"as at position {fault.position}",
    )


def sample_and_whole(examination: Examination) -> tuple[Sample, Whole]:
    """The subject as it pairs columns itself: a sample of its rows, and all of them in pieces."""
    subject, reference = examination.subject, examination.reference
    tolerance = examination.tolerance
    if tolerance.fixed is not None or tolerance.per_angle == 0:
        tolerance = Tolerance.of(
            "auto",
            dtype=subject.dtype,
            roundings=subject.own.roundings,
            amplitude=reference.scale,
            of_frequencies=subject.frequencies is not None,
        )

    def piece(block: SubjectBlock, amplitude: float) -> Sample:
        stray = block.stray()
        return Sample(
            block.positions,
            without_growth(block, reference),
            np.ones(block.turned.shape, bool) if block.seen is None else block.seen,
            np.zeros((block.positions.size, 1)) if stray is None else stray,
            tolerance,
            amplitude,
            reference,
        )

    sample = piece(subject.own.read(_telling_rows(examination)), reference.scale)
    amplitude = _amplitude(sample, floor=examination.tolerance.floor)
    return replace(sample, amplitude=amplitude), Whole(
        lambda: (piece(block, amplitude) for block in subject.own.blocks())
    )


def _telling_rows(examination: Examination) -> Integers:
    """Rows at every scale, and those around the first and the worst that are wrong."""
    places = examination.subject.own.places
    survey = examination.survey
    if survey is None or survey.reference.first_wrong is None:
        return places.sample()
    return places.sample_around(survey.reference.first_wrong, survey.reference.row)


def _amplitude(sample: Sample, *, floor: float) -> float:
    """The size of the factors, the right one where theirs does not differ from it."""
    right = sample.reference.scale
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    sizes = sizes[np.isfinite(sizes)]
    if not sizes.size:
        return right
    amplitude = float(np.median(sizes))
    scatter = float(np.subtract(*np.percentile(sizes, [95, 5])))
    return right if abs(amplitude - right) <= max(2 * floor, scatter) else amplitude


def _layout_cause(examination: Examination, whole: Whole) -> Explanation | None:
    """The cause where a subject does not pair columns as the reference does."""
    subject = examination.subject
    own, right = subject.own.pairing, examination.reference.pairing
    if subject.own is subject.as_reference or own is None:
        return None
    if (own.first, own.second) == (right.first, right.second):
        return None
    named = "" if own.layout is None else f" (--layout {own.layout})"
    extent = whole.extent(Defect())
    evidence = f"matches when columns are paired {own.text}{named}"
    if 2 * extent.rows > extent.of_rows:
        evidence = f"columns that are paired {own.text}{named} turn together"
    return Explanation(
        Cause.LAYOUT,
        f"columns are paired {own.text}; the reference pairs {right.text}",
        evidence if 2 * extent.rows > extent.of_rows else evidence + extent.exceptions,
    )


def _explanations(examination: Examination, sample: Sample, whole: Whole) -> list[Explanation]:
    """The causes of what explains the sample, if anything does."""
    if examination.survey is not None and examination.survey.longest == 0:
        return [Explanation(Cause.UNKNOWN, "everything becomes 0", "nothing is left to compare")]
    amplitude = _amplitude_cause(examination, sample)
    if amplitude is not None and nearly_holds(sample, Defect()):
        exceptions = whole.extent(Defect()).exceptions
        return [replace(amplitude, evidence=amplitude.evidence + exceptions)]
    with_amplitude = [] if amplitude is None else [amplitude]
    explanation = (
        mirror_cause(examination)
        or _inverse_cause(examination)
        or _unwritten_cause(examination, outrageous_of)
        or _standstill_cause(sample, whole)
        or _axis_cause(examination, sample, whole)
    )
    unwritten = _unwritten_cause(examination, zeros_of)
    zeros = [] if unwritten is None else [unwritten]
    if explanation is not None:
        return [explanation, *zeros, *with_amplitude]
    rotations = examination.consistency.rotations if examination.consistency else None
    explanations = _first_that_holds(sample, whole, rotations)
    if explanations:
        return [*explanations, *zeros, *with_amplitude]
    explanation = (
        _position_cause(sample, whole)
        or _precision_cause(examination, sample)
        or _unwritten_cause(examination, garbage_of)
        or (examination.subject.frequencies is None and _unwritten_rates_cause(sample, whole))
        or _pairs_cause(sample, whole)
    )
    return [] if explanation is None else [explanation]


def _axis_cause(examination: Examination, sample: Sample, whole: Whole) -> Explanation | None:
    """Pairs that turn with the coordinate of another axis than they should."""
    reference, nearest = sample.reference, examination.consistency
    if reference.coordinates is None or nearest is None or nearest.rotations.axes is None:
        return None
    right, own = np.array(reference.coordinates.axes), np.array(nearest.rotations.axes)
    others = np.flatnonzero(right != own)
    if own.shape != right.shape or not others.size:
        return None

    def explained(piece: Sample) -> Flags:
        axes = tuple(own.tolist())
        along = reference.angle_positions(piece.positions, axes)
        turns = np.exp(1j * along * reference.frequencies)  # (P, pairs)
        factors = np.asarray(piece.amplitude * turns, np.complex128)
        return piece.explained_cells(factors, reference.frequencies, axes)

    if not explained(sample).all():
        return None
    axes = sorted({(int(right[pair]), int(own[pair])) for pair in others})
    how = ", ".join(f"axis {b} in place of axis {a}" for a, b in axes)
    follow = "follows" if others.size == 1 else "follow"
    return Explanation(
        Cause.AXIS,
        f"{_pairs_text(others.tolist(), right.size)} {follow} {how}",
        "matches in every pair once this is mended" + whole.extent_of(explained).exceptions,
    )


def _first_that_holds(
    sample: Sample, whole: Whole, rotations: Rotations | None
) -> list[Explanation]:
    """The causes of the first defect that explains the whole sample.

    Failing that, those of the first rule of frequencies that explains all pairs that are wrong, or
    of the first defect that explains nearly all rows.
    """
    few = sample.rows(few_rows(sample.positions))
    mixed: list[Explanation] = []
    nearly: Defect | None = None
    for defect in likely_defects(sample, rotations):
        explained = few.explained_cells(*defect.prediction(few))  # (n, pairs)
        if defect.rounds:
            if explained.mean() < ENOUGH - 0.05:
                continue
        elif not explained.all():
            if not mixed and defect.frequencies is not None:
                mixed = _mixture(few, sample, whole, defect, explained)
            if explained.all(axis=1).mean() < _NEARLY_ALL:
                continue
        if holds(sample, defect):
            return list(_causes(defect, sample, whole))
        if nearly is None and not defect.rounds and nearly_holds(sample, defect):
            nearly = defect
    if mixed or nearly is None:
        return mixed
    return list(_causes(nearly, sample, whole))


def _causes(defect: Defect, sample: Sample, whole: Whole) -> Iterator[Explanation]:
    """The causes of a defect, in words, with what it leaves over."""
    extent = whole.extent(defect)
    # A rounding that is emulated may fall the other way in cells here and there.
    besides = "" if defect.rounds else extent.exceptions
    if defect.turn != "right":
        _, cause, message = TURNS[defect.turn]
        yield Explanation(cause, message, f"matches in every pair once this is mended{besides}")
    if defect.frequencies is not None:
        cause_of_rule = _frequency_cause(defect.frequencies, sample, None)
        yield replace(cause_of_rule, evidence=cause_of_rule.evidence + besides)
    if defect.offset:
        explained = sample.explained_cells(*defect.prediction(sample)).all(axis=1)
        first = int(sample.positions[int(np.argmax(explained))])
        yield Explanation(
            Cause.POSITION_OFFSET,
            f"positions are off by {defect.offset:+g}",
            f"what stands at position {first} is the rotation of {first + defect.offset:g}"
            f"{besides}",
        )
    if defect.positions:
        yield _collision_cause(defect.positions)
    if defect.rates:
        yield Explanation(
            Cause.INV_FREQ_PRECISION,
            f"the frequencies were rounded to {defect.rates}",
            _ratio_text(round_to_half(sample.reference.frequencies, defect.rates), sample),
        )
    if defect.angles:
        yield Explanation(
            Cause.POSITION_PRECISION,
            f"the angles, position times frequency, were rounded to {defect.angles}",
            f"cells differ first at position {whole.extent(Defect()).first}; compute angles in "
            "float32",
        )
    if defect.cells:
        yield Explanation(
            Cause.TABLE_PRECISION,
            f"cosines and sines were rounded to {defect.cells.name}, and stored wider",
            f"{extent.cells} of {extent.of_cells} pairs of cells are the exact ones, so rounded",
        )
    yield from _causes_in_words(defect, whole, extent)


def _causes_in_words(defect: Defect, whole: Whole, extent: Extent) -> Iterator[Explanation]:
    """The causes of moved rows, and of one table of two."""
    if defect.moved is not None:
        evidence = _moved_evidence(defect.moved, whole) + extent.exceptions
        yield Explanation(Cause.POSITION_OFFSET, defect.moved.message, evidence)
    for cause, message, evidence in defect.words_of_one_table:
        besides = "" if defect.rounds else extent.exceptions
        yield Explanation(cause, message, evidence + besides)


def _moved_evidence(moved: PositionMap, whole: Whole) -> str:
    """The first positions that are turned as others, and how many of all are."""
    count = rows = 0
    shown: list[str] = []
    for piece in whole.pieces():
        turned_as = moved.at(piece.positions)
        others = np.flatnonzero(turned_as != piece.positions)
        shown += [f"{piece.positions[row]} as {turned_as[row]}" for row in others[: 3 - len(shown)]]
        count += others.size
        rows += piece.positions.size
    return f"{count} of {rows} positions are turned as others are: {', '.join(shown)}"


def _frequency_cause(rule: Alternative, sample: Sample, pairs: list[int] | None) -> Explanation:
    right = sample.reference.frequencies
    if rule.cause == Cause.SCALING_MISSING or pairs is not None:
        which = pairs
        if which is None:
            which = np.flatnonzero(~np.isclose(rule.frequencies, right, rtol=1e-6)).tolist()
        what = "not scaled" if rule.cause == Cause.SCALING_MISSING else "so"
        are = "is" if len(which) == 1 else "are"
        evidence = f"{_pairs_text(which, right.size)} {are} {what}"
        if rule.cause == Cause.SCALING_MISSING:
            evidence += f": {_ratio_text(rule.frequencies, sample)}"
    else:
        evidence = _ratio_text(rule.frequencies, sample)
    return Explanation(rule.cause, rule.message, evidence)


def _ratio_text(frequencies: Reals, sample: Sample) -> str:
    """The pair whose frequency is farthest from the right one, in numbers."""
    right = sample.reference.frequencies
    with np.errstate(all="ignore"):
        ratios = np.abs(np.log(np.abs(frequencies / right)))
    ratios = np.where(np.isfinite(ratios), ratios, -1)
    pair = int(np.argmax(ratios))
    ratio = frequencies[pair] / right[pair] if right[pair] else float("inf")
    times = f"{ratio:.4g}"
    if times == "1":
        times = distinct_digits(float(ratio), 1.0)[0]
    frequency = distinct_digits(float(frequencies[pair]), float(right[pair]))[0]
    return f"frequency of pair {pair}: {frequency}, {times} times the right one"


def _collision_cause(dtype: str) -> Explanation:
    first = {"bfloat16": 257, "float16": 2049}[dtype]
    return Explanation(
        Cause.POSITION_PRECISION,
        f"positions were {dtype}",
        f"positions collide from {first} on: {dtype} has no {first}",
    )


def _amplitude_cause(examination: Examination, sample: Sample) -> Explanation | None:
    amplitude, right = sample.amplitude, examination.reference.scale
    if amplitude in (right, 0.0):
        return None
    missed = np.abs(np.abs(sample.factors[sample.seen]) - amplitude)
    # One size, within some roundings of cosine, sine and factor each.
    if np.mean(missed <= 8 * sample.tolerance.floor) < ENOUGH:
        return None
    known = [
        (1.0, "is not applied"),
        (right * right, "is applied twice"),
        (right**0.5, "is applied by its square root"),
        (1 / right, "divides, not multiplies"),
    ]
    how = next(
        (text for value, text in known if right != 1 and abs(amplitude - value) < 1e-4 * value),
        None,
    )
    applied, wanted = distinct_digits(amplitude, right)
    message = (
        f"the attention factor {right:.6g} {how}"
        if how
        else f"the attention factor is {applied}, not {wanted}"
    )
    return Explanation(
        Cause.ATTENTION_FACTOR,
        message,
        f"cos and sin are multiplied by {applied}, so scores by {amplitude * amplitude:.5g}, not "
        f"{right * right:.5g}",
    )


def _mixture(
    few: Sample,
    sample: Sample,
    whole: Whole,
    defect: Defect,
    explained: Flags,
) -> list[Explanation]:
    """The causes of a defect that explains just the pairs that are wrong."""
    rule, plain = defect.frequencies, Defect()
    sound = few.explained_cells(*plain.prediction(few)).all(axis=0)
    if rule is None or defect.turn != "right" or defect.offset:
        return []
    if not (explained.all(axis=0) | sound).all() or sound.all():
        return []
    sound = sample.explained_cells(*plain.prediction(sample)).all(axis=0)
    by_rule = sample.explained_cells(*defect.prediction(sample)).all(axis=0)
    if not (by_rule | sound).all():
        return []

    def either(piece: Sample) -> Flags:
        by_rule = piece.explained_cells(*defect.prediction(piece))
        return np.where(sound, piece.explained_cells(*plain.prediction(piece)), by_rule)

    explanation = _frequency_cause(rule, sample, np.flatnonzero(~sound).tolist())
    exceptions = whole.extent_of(either).exceptions
    return [replace(explanation, evidence=explanation.evidence + exceptions)]


def _standstill_cause(sample: Sample, whole: Whole) -> Explanation | None:
    """Pairs that do not turn though they should, the others being right."""
    right = sample.reference.frequencies
    sound = sample.explained_cells(*Defect().prediction(sample)).all(axis=0)  # (pairs,)

    def stays(piece: Sample) -> Flags:
        factors = np.full(piece.factors.shape, complex(piece.amplitude))
        return piece.explained_cells(factors, np.zeros_like(right))

    still = stays(sample).all(axis=0)
    if not (sound | still).all() or sound.all() or still.all() or not sound.any():
        return None
    if not (right[~sound] > 0).any() or not sample.positions.any():
        return None

    def either(piece: Sample) -> Flags:
        turned = piece.explained_cells(*Defect().prediction(piece))
        return np.where(sound, turned, stays(piece))

    pairs = np.flatnonzero(~sound).tolist()
    return Explanation(
        Cause.ROTARY_DIM,
        f"{_pairs_text(pairs, right.size)} {'does' if len(pairs) == 1 else 'do'} not turn",
        f"the other {right.size - len(pairs)} pairs are right{whole.extent_of(either).exceptions}",
    )


def _position_cause(sample: Sample, whole: Whole) -> Explanation | None:
    """Positions that are turned as if they were others."""
    _, explained = rows_as_positions(sample)
    if explained.mean() < ENOUGH:
        return None
    moved: list[tuple[int, int]] = []
    count = rows = backward = 0
    for piece in whole.pieces():
        read, explained = rows_as_positions(piece)
        plain = piece.explained_cells(*Defect().prediction(piece)).all(axis=1)
        others = np.flatnonzero((read != piece.positions) & ~plain & explained.all(axis=1))
        pairs = zip(piece.positions[others[:3]].tolist(), read[others[:3]].tolist(), strict=True)
        moved += pairs if len(moved) < 3 else ()
        count += others.size
        backward += int(np.count_nonzero(read[others] == -piece.positions[others]))
        if (read[others] < 0).any() and backward < count:
            return None  # no position is negative
        rows += piece.positions.size
    if not moved:
        return None
    rest = whole.extent_of(
        lambda piece: (
            rows_as_positions(piece)[1] | piece.explained_cells(*Defect().prediction(piece))
        )
    )
    shown = ", ".join(f"{p} as {q}" for p, q in moved[:3])
    which = f"{count} of {rows} positions are turned as others are, the first of them {moved[0][0]}"
    if backward == count:
        where = f"at {count} of {rows} positions, the first of them {moved[0][0]}"
        return Explanation(
            Cause.DIRECTION,
            f"the rotation runs backward {where}",
            f"the sine has the wrong sign there{rest.exceptions}",
        )
    if count == 1:
        which = f"position {moved[0][0]} is turned as another is, and no other of the {rows}"
    return Explanation(Cause.POSITION_OFFSET, which, f"position {shown}{rest.exceptions}")


def _overflow_cause(whole: Whole) -> Explanation | None:
    """Values that are missing just where a float16 overflows."""
    for what in ("positions", "angles"):
        first: int | None = None
        for piece in whole.pieces():
            missing = ~np.isfinite(piece.factors)
            values = np.broadcast_to(np.abs(piece.positions)[:, None], missing.shape)
            if what == "angles":
                values = values * piece.reference.frequencies
            if not np.array_equal(missing, values >= _FLOAT16_OVERFLOW):
                break
            if first is None and missing.any():
                first = int(piece.positions[int(np.argmax(missing.any(axis=1)))])
        else:
            if first is not None:
                return Explanation(
                    Cause.POSITION_PRECISION,
                    f"{what} were float16, whose largest number is 65504",
                    f"values are missing where {what} reach 65520, as at position {first}",
                )
    return None


def _precision_cause(examination: Examination, sample: Sample) -> Explanation | None:
    """Frequencies that are nearly right in every pair."""
    nearest, right = examination.consistency, sample.reference.frequencies
    if nearest is None or nearest.worst.ratio > 1:
        return None
    frequencies = nearest.rotations.frequencies
    off = np.abs(frequencies - right) / np.where(right > 0, right, 1)
    if off.max() > _NEARLY or np.abs(np.angle(nearest.rotations.amplitudes)).max() > _NEARLY:
        return None
    return Explanation(
        Cause.INV_FREQ_PRECISION,
        f"frequencies are off by up to about {off.max():.1g} of themselves",
        _ratio_text(frequencies, sample),
    )


def _pairs_cause(sample: Sample, whole: Whole) -> Explanation | None:
    """Pairs that are wrong in a way of their own, the others being right."""
    right = sample.reference.frequencies
    extent = whole.extent(Defect())
    if not extent.pairs.any() or extent.first is None or sample.amplitude != sample.reference.scale:
        return None
    pairs = np.flatnonzero(~extent.pairs)
    evidence = f"at {extent.rows} of {extent.of_rows} positions, the first of them {extent.first}"
    if extent.rows == 1:
        evidence = f"at one of {extent.of_rows} positions, {extent.first}"
    if 2 * extent.rows > extent.of_rows:
        rates = fit(sample.positions, sample.factors).frequencies
        # A line through two regimes has a slope that no row has.
        steady = whole.extent_of(lambda piece: _turning_cells(rates, piece)).pairs
        if (steady & ~extent.pairs).any():
            named = np.where(steady & ~extent.pairs, rates, right)
            evidence += f"; {_ratio_text(named, sample)}"
    differ = "differs" if pairs.size == 1 else "differ"
    return Explanation(
        Cause.UNKNOWN,
        f"{_pairs_text(pairs.tolist(), right.size)} {differ}, the others are right",
        evidence,
    )


def _turning_cells(rates: Reals, piece: Sample) -> Flags:
    """Which cells are turned by these frequencies. Shape: (positions, pairs)."""
    angles = np.multiply.outer(piece.positions.astype(np.float64), rates)
    factors = np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)  # (positions, pairs)
    return piece.explained_cells(factors, np.abs(rates))


def _width_cause(subject: Subject, reference: Reference) -> tuple[Explanation, ...]:
    """A subject that turns more or fewer columns than the reference."""
    own = subject.own
    base = base_of(reference) or 0.0
    evidence = ""
    given, right = subject.frequencies, reference.frequencies
    if given is not None and any(
        given.size == twice.size and np.allclose(given, twice, rtol=1e-5, atol=0)
        for twice in (np.tile(right, 2), np.repeat(right, 2))
    ):
        evidence = "each frequency is given twice, as for columns: one a pair is right"
    elif subject.far_wider(reference):
        pass
    elif (wider := of_width(reference, own.pairs)) and fits(own, wider.reference):
        evidence = f"with {wider.options} every cell is right"
    elif base and own.pairs:
        block = own.read(own.places.sample())
        rotations = fit(block.positions, block.turned)
        plain = ladder(base, np.arange(own.pairs) / own.pairs)
        if np.allclose(np.abs(rotations.frequencies), plain, rtol=1e-3, atol=1e-7):
            evidence = (
                f"its frequencies are those of {2 * own.pairs} columns at base {base:g}, to 0.1 %"
            )
        elif own.pairs < reference.pairs and np.allclose(
            np.abs(rotations.frequencies), reference.frequencies[: own.pairs], rtol=1e-3, atol=1e-7
        ):
            evidence = f"its frequencies are the first {own.pairs} of the reference's, to 0.1 %"
    evidence = evidence or "check the head dim and the share of it that turns (partial)"
    return (Explanation(Cause.ROTARY_DIM, subject.mismatch or "", evidence),)


def _unknown_cause(examination: Examination, sample: Sample) -> Explanation:
    survey = examination.survey
    relative = next(f for f in examination.findings if f.check == FindingName.RELATIVE)
    consistent = (
        "its scores depend on n − m alone" if relative.ok else "its scores are inconsistent"
    )
    place = (
        ""
        if survey is None
        else (f"; first look at position {survey.reference.position}, pair {survey.reference.pair}")
    )
    if survey is not None and survey.stray > sample.tolerance.floor:
        consistent += f"; a part of size {survey.stray:.2g} turns no pair of columns"
    return Explanation(Cause.UNKNOWN, "no known mistake gives these values", f"{consistent}{place}")


def _pairs_text(pairs: list[int], count: int) -> str:
    """Some of so many pairs, as the subject of a sentence.

    >>> _pairs_text([7], 32), _pairs_text([1, 2], 32)
    ('pair 7 of 32', 'pairs 1–2 of 32')
    """
    texts = range_texts(pairs)
    more = ["…"] * (len(texts) > _MOST_RANGES)
    return (
        f"pair{'' if len(pairs) == 1 else 's'} {', '.join(texts[:_MOST_RANGES] + more)} of {count}"
    )
