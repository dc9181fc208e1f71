"""Why a subject differs from the reference: hypotheses tried, their residuals measured.

Each hypothesis says what the factors of the pairs would be if it held; it is believed only if what
it leaves over stays within the tolerance, on a sample of positions at every scale. They are tried
from the simplest on: one cause before two. What no hypothesis explains is called unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.alternatives import rounded
from posenc_cli.checks.drift import SCATTER, offset_text
from posenc_cli.checks.fitting import Rotations, fitted
from posenc_cli.checks.hypotheses import (
    ENOUGH,
    TURNS,
    Hypothesis,
    Sample,
    few_rows,
    holds,
    hypotheses,
)
from posenc_cli.checks.mirrors import mirrored_cause
from posenc_cli.checks.rope import normalised
from posenc_cli.checks.rules import base_of
from posenc_cli.checks.tolerance import Tolerance
from posenc_cli.checks.verdict import Cause, told_apart
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.checks.drift import Fault
    from posenc_cli.checks.reference import Reference
    from posenc_cli.checks.rules import Alternative
    from posenc_cli.checks.subject import Subject
    from posenc_cli.checks.verdict import Examined

MOST = 3
"""Causes of one diagnosis."""

_NEARLY = 0.01
"""Of a frequency: powers computed in a half precision are right to this."""

_FLOAT16_OVERFLOW = 65520.0
"""From here on float16 rounds to infinity."""


def diagnosed(examined: Examined) -> tuple[Cause, ...]:
    """At most three causes for what the findings found, the likeliest first; none if all hold."""
    if examined.ok:
        return ()
    subject = examined.subject
    if subject.broken:
        return (_broken(examined),)
    if subject.as_reference is None:
        return _other_width(subject, examined.reference)
    sample, layout = sampled(examined)
    survey = examined.survey
    if survey is not None and not np.isfinite(survey.reference.value):
        place = f"position {survey.reference.position}, pair {survey.reference.pair}"
        missing = Cause("unknown", "not all values are numbers", f"the first found is at {place}")
        return (_overflowed(sample) or missing,)
    told = _within_tolerance(examined, sample) if layout is None else None
    if told is not None:
        return (told,)
    causes: list[Cause] = []
    if layout is None or not holds(sample, Hypothesis()):
        causes = [each for each in _explained(examined, sample) if each.cause != "layout"]
    if layout is not None:
        causes = [layout, *(each for each in causes if each.cause != "unknown")]
    known = {each.cause: each for each in reversed(causes)}
    first = [each for each in causes if known[each.cause] is each]
    return tuple(first[:MOST]) or (_unexplained(examined, sample),)


def _broken(examined: Examined) -> Cause:
    """The cause of a subject that is no map of vectors."""
    subject = examined.subject
    overflowed = None
    if subject.kind == "impl" and subject.as_reference is not None:
        overflowed = _overflowed(sampled(examined)[0])
    if overflowed is not None:
        return overflowed
    what = "what it does to a row does not follow from the row and its position"
    if subject.kind != "impl":
        what = "not all values are numbers"
    return Cause(subject.broken_by, what, "; ".join(subject.broken))


def _inverted(examined: Examined) -> Cause | None:
    """The cause where what was given is the inverse of frequencies."""
    given, right = examined.subject.frequencies, examined.reference.frequencies
    if given is None or given.size != right.size or not (right > 0).all():
        return None
    for what, values in (("1/frequency", 1 / right), ("wavelengths", 2 * np.pi / right)):
        if np.allclose(given, values, rtol=1e-5, atol=0):
            text = f"{given[-1]:.6g}, not {right[-1]:.6g}"
            message = f"{what} were given, not frequencies"
            return Cause("frequency-rule", message, f"pair {right.size - 1} is {text}")
    return None


def _within_tolerance(examined: Examined, sample: Sample) -> Cause | None:
    """The cause where every cell is right to what float32 code can show, None where not."""
    if examined.fault is not None:
        return _drifted(examined.fault, examined, sample)
    cells = None if examined.survey is None else examined.survey.cells
    if cells is None or not holds(sample, Hypothesis()):
        return None
    return Cause(
        "table-precision",
        f"cells are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} cells, by up to {cells.units:.3g} units in the last "
        "place, but all are right to what float32 code can show",
    )


def _drifted(fault: Fault, examined: Examined, sample: Sample) -> Cause:
    """The cause of errors that the tolerance of each cell grants, and roundings do not make."""
    if fault.offset is not None:
        return Cause(
            "position-offset",
            f"positions are off by {offset_text(fault.offset)}",
            f"at position {fault.position} the angles of all pairs err by the same share, "
            f"{fault.offset / fault.position:.2g}, where roundings differ by pair",
        )
    per_angle = SCATTER * examined.reference.scale
    strict = replace(sample, tolerance=replace(sample.tolerance, per_angle=per_angle))
    for cause in _explained(examined, strict):
        if cause.cause != "unknown":
            return cause
    return Cause(
        "unknown",
        "phases err as no rounding of a frequency and its product with the position does",
        f"no one error of the frequency of pair {fault.pair} explains all its positions, "
        f"as at position {fault.position}",
    )


def sampled(examined: Examined) -> tuple[Sample, Cause | None]:
    """A sample of the subject as it pairs columns itself, and the cause where that differs."""
    subject, reference = examined.subject, examined.reference
    block = subject.own.read(subject.own.places.sample())
    factors = normalised(block, reference)
    seen = np.ones(factors.shape, bool) if block.seen is None else block.seen
    sizes = np.abs(factors[seen])
    sizes = sizes[np.isfinite(sizes)]
    amplitude = float(np.median(sizes)) if sizes.size else 1.0
    scatter = float(np.subtract(*np.percentile(sizes, [95, 5]))) if sizes.size else 0.0
    if abs(amplitude - reference.scale) <= max(2 * examined.tolerance.floor, scatter):
        amplitude = reference.scale
    tolerance = examined.tolerance
    if tolerance.fixed is not None or tolerance.per_angle == 0:
        tolerance = Tolerance.of(
            "auto",
            dtype=subject.dtype,
            roundings=subject.own.roundings,
            amplitude=reference.scale,
            of_frequencies=subject.frequencies is not None,
        )
    stray = block.stray()
    if stray is None:
        stray = np.zeros((block.positions.size, 1))
    sample = Sample(block.positions, factors, seen, stray, tolerance, amplitude, reference)
    own, right = subject.own.reading, reference.reading
    if subject.own is subject.as_reference or own is None:
        return sample, None
    if (own.first, own.second) == (right.first, right.second):
        return sample, None
    named = "" if own.layout is None else f" (--layout {own.layout})"
    return sample, Cause(
        "layout",
        f"columns are paired {own.text}; the reference pairs {right.text}",
        f"matches when columns are paired {own.text}{named}",
    )


def _explained(examined: Examined, sample: Sample) -> list[Cause]:
    """The causes of what explains the sample, if anything does."""
    if not sample.factors[sample.seen].any() and not sample.stray.any():
        return [Cause("unknown", "everything becomes 0", "nothing is left to compare")]
    amplitude = _amplitude_cause(examined, sample)
    if amplitude is not None and holds(sample, Hypothesis()):
        return [amplitude]
    known = mirrored_cause(examined) or _inverted(examined) or _still_pairs(sample)
    if known is not None:
        return [known]
    seen = examined.consistency.rotations if examined.consistency else None
    found = _first_thatholds(sample, seen)
    if found:
        return [*found, amplitude] if amplitude is not None else found
    others = _moved_positions(sample) or _imprecise(examined, sample) or _single_pairs(sample)
    return [] if others is None else [others]


def _first_thatholds(sample: Sample, seen: Rotations | None) -> list[Cause]:
    """The causes of the first hypothesis that explains the whole sample.

    Failing that, those of the first rule of frequencies that explains all pairs that are wrong.
    """
    few = sample.rows(few_rows(sample.positions))
    mixed: list[Cause] = []
    for hypothesis in hypotheses(sample, seen):
        explained = few.explained(*hypothesis.predicted(few))
        if hypothesis.rounds:
            if explained.mean() < ENOUGH - 0.05:
                continue
        elif not explained.all():
            if not mixed and hypothesis.frequencies is not None:
                mixed = _mixture(few, sample, hypothesis, explained)
            continue
        if holds(sample, hypothesis):
            return list(_causes(hypothesis, sample, None))
    return mixed


def _causes(hypothesis: Hypothesis, sample: Sample, pairs: list[int] | None) -> Iterator[Cause]:
    """The causes of a hypothesis, in words; ``pairs`` are those it is about, None for all."""
    if hypothesis.turn != "right":
        _, cause, message = TURNS[hypothesis.turn]
        yield Cause(
            cause, message, "matches in every pair and at every position once this is mended"
        )
    if hypothesis.frequencies is not None:
        yield _frequency_cause(hypothesis.frequencies, sample, pairs)
    if hypothesis.offset:
        first = int(sample.positions[0])
        yield Cause(
            "position-offset",
            f"positions are off by {hypothesis.offset:+g}",
            f"what stands at position {first} is the rotation of {first + hypothesis.offset}",
        )
    if hypothesis.positions:
        yield _collisions(hypothesis.positions, sample)
    if hypothesis.rates:
        yield Cause(
            "inv-freq-precision",
            f"the frequencies were rounded to {hypothesis.rates}",
            _ratio_text(rounded(sample.reference.frequencies, hypothesis.rates), sample),
        )
    if hypothesis.angles:
        yield Cause(
            "position-precision",
            f"the angles, position times frequency, were rounded to {hypothesis.angles}",
            f"from position {_first_wrong(sample)} on the cells differ; compute angles in float32",
        )
    if hypothesis.cells:
        yield Cause(
            "table-precision",
            f"cosines and sines were rounded to {hypothesis.cells}, and stored wider",
            f"every cell lies within a rounding to {hypothesis.cells} of the exact one",
        )


def _frequency_cause(rule: Alternative, sample: Sample, pairs: list[int] | None) -> Cause:
    right = sample.reference.frequencies
    if rule.cause == "scaling-missing" or pairs is not None:
        which = pairs
        if which is None:
            which = np.flatnonzero(~np.isclose(rule.frequencies, right, rtol=1e-6)).tolist()
        what = "not scaled" if rule.cause == "scaling-missing" else "so"
        evidence = f"pairs {_ranges(which)} of {right.size} are {what}"
        if rule.cause == "scaling-missing":
            evidence += f": {_ratio_text(rule.frequencies, sample)}"
    else:
        evidence = _ratio_text(rule.frequencies, sample)
    return Cause(rule.cause, rule.message, evidence)


def _ratio_text(frequencies: NDArray[np.float64], sample: Sample) -> str:
    """The pair whose frequency is farthest from the right one, in numbers."""
    right = sample.reference.frequencies
    with np.errstate(all="ignore"):
        ratios = np.abs(np.log(np.abs(frequencies / right)))
    ratios = np.where(np.isfinite(ratios), ratios, -1)
    pair = int(np.argmax(ratios))
    ratio = frequencies[pair] / right[pair] if right[pair] else float("inf")
    return f"frequency of pair {pair}: {frequencies[pair]:.6g}, {ratio:.4g} times the right one"


def _collisions(dtype: str, sample: Sample) -> Cause:
    first = {"bfloat16": 257, "float16": 2049}[dtype]
    same = np.flatnonzero(
        (np.diff(sample.positions) == 1)
        & (np.abs(np.diff(sample.factors, axis=0)).max(axis=1) == 0)
    )
    where = int(sample.positions[same[0]]) + 1 if same.size else first
    return Cause(
        "position-precision",
        f"positions were {dtype}",
        f"positions collide from {min(where, first)} on: {dtype} has no {first}",
    )


def _first_wrong(sample: Sample) -> int:
    predicted, frequencies = Hypothesis().predicted(sample)
    wrong = ~sample.explained(predicted, frequencies).all(axis=1)
    return int(sample.positions[int(np.argmax(wrong))])


def _amplitude_cause(examined: Examined, sample: Sample) -> Cause | None:
    found, right = sample.amplitude, examined.reference.scale
    if found in (right, 0.0):
        return None
    if np.abs(np.abs(sample.factors[sample.seen]) - found).max() > 8 * sample.tolerance.floor:
        return None
    known = [
        (1.0, "is not applied"),
        (right * right, "is applied twice"),
        (right**0.5, "is applied by its square root"),
        (1 / right, "divides, not multiplies"),
    ]
    how = next(
        (text for value, text in known if right != 1 and abs(found - value) < 1e-4 * value), None
    )
    applied, wanted = told_apart(found, right)
    message = (
        f"the attention factor {right:.6g} {how}"
        if how
        else f"the attention factor is {applied}, not {wanted}"
    )
    return Cause(
        "attention-factor",
        message,
        f"cos and sin are multiplied by {applied}, so scores by {found * found:.5g}, not "
        f"{right * right:.5g}",
    )


def _mixture(
    few: Sample, sample: Sample, hypothesis: Hypothesis, explained: NDArray[np.bool_]
) -> list[Cause]:
    """The causes of a hypothesis that explains just the pairs that are wrong."""
    plain = Hypothesis()
    sound = few.explained(*plain.predicted(few)).all(axis=0)
    if not (explained.all(axis=0) | sound).all() or sound.all():
        return []
    sound = sample.explained(*plain.predicted(sample)).all(axis=0)
    told = sample.explained(*hypothesis.predicted(sample)).all(axis=0)
    if not (told | sound).all():
        return []
    return list(_causes(hypothesis, sample, np.flatnonzero(~sound).tolist()))


def _still_pairs(sample: Sample) -> Cause | None:
    """Pairs that do not turn though they should, the others being right."""
    right = sample.reference.frequencies
    sound = sample.explained(*Hypothesis().predicted(sample)).all(axis=0)
    stays = np.full(sample.factors.shape, complex(sample.amplitude))
    still = sample.explained(stays, np.zeros_like(right)).all(axis=0)
    if not (sound | still).all() or sound.all() or still.all() or not sound.any():
        return None
    if not (right[~sound] > 0).any() or not sample.positions.any():
        return None
    pairs = np.flatnonzero(~sound).tolist()
    return Cause(
        "rotary-dim",
        f"pairs {_ranges(pairs)} of {right.size} do not turn",
        f"the other {right.size - len(pairs)} pairs are right",
    )


def _moved_positions(sample: Sample) -> Cause | None:
    """Positions that are turned as if they were others."""
    right = sample.reference.frequencies
    read = _read_positions(sample)
    moved = np.flatnonzero(read != sample.positions)
    if not moved.size:
        return None
    angles = np.multiply.outer(read.astype(np.float64), right)
    predicted = sample.amplitude * (np.cos(angles) + 1j * np.sin(angles))
    if sample.explained(predicted, right).mean() < ENOUGH:
        return None
    where = sample.positions[moved]
    shown = ", ".join(
        f"{int(p)} as {int(q)}" for p, q in zip(where[:3], read[moved][:3], strict=True)
    )
    return Cause(
        "position-offset",
        f"from position {int(where[0])} on, positions are turned as others are",
        f"position {shown}",
    )


def _read_positions(sample: Sample) -> NDArray[np.int64]:
    """The position whose rotation stands in each row, from the slowest pair to the fastest."""
    right = sample.reference.frequencies
    turning = np.flatnonzero(right > 0)[::-1]
    angles = np.angle(np.where(np.isfinite(sample.factors), sample.factors, 1))
    slowest = turning[0] if turning.size else 0
    read = angles[:, slowest] / max(right[slowest], 1e-30)
    for pair in turning[1:]:
        wraps = np.round((read * right[pair] - angles[:, pair]) / (2 * np.pi))
        read = (angles[:, pair] + 2 * np.pi * wraps) / right[pair]
    return np.asarray(np.round(np.clip(read, -(2.0**53), 2.0**53)), np.int64)


def _overflowed(sample: Sample) -> Cause | None:
    """Values that are missing just where a float16 overflows."""
    missing = ~np.isfinite(sample.factors)
    if not missing.any():
        return None
    positions = np.broadcast_to(sample.positions[:, None], missing.shape)
    angles = np.abs(positions * sample.reference.frequencies)
    for what, values in (("positions", positions), ("angles", angles)):
        if np.array_equal(missing, values >= _FLOAT16_OVERFLOW):
            first = int(sample.positions[int(np.argmax(missing.any(axis=1)))])
            return Cause(
                "position-precision",
                f"{what} were float16, whose largest number is 65504",
                f"values are missing where {what} reach 65520, as at position {first}",
            )
    return None


def _imprecise(examined: Examined, sample: Sample) -> Cause | None:
    """Frequencies that are nearly right in every pair."""
    found, right = examined.consistency, sample.reference.frequencies
    if found is None or found.worst.ratio > 1:
        return None
    frequencies = found.rotations.frequencies
    off = np.abs(frequencies - right) / np.where(right > 0, right, 1)
    if off.max() > _NEARLY or np.abs(np.angle(found.rotations.amplitudes)).max() > _NEARLY:
        return None
    return Cause(
        "inv-freq-precision",
        f"every frequency is right to {off.max():.1g} of itself, and no better",
        _ratio_text(frequencies, sample),
    )


def _single_pairs(sample: Sample) -> Cause | None:
    """Pairs that are wrong in a way of their own, the others being right."""
    right = sample.reference.frequencies
    sound = sample.explained(*Hypothesis().predicted(sample)).all(axis=0)
    share = sound.mean()
    if not 0 < share < 1:
        return None
    pairs = np.flatnonzero(~sound)
    wrong = ~sample.explained(*Hypothesis().predicted(sample))[:, pairs].all(axis=1)
    first, rows = int(sample.positions[int(np.argmax(wrong))]), int(wrong.sum())
    rates = fitted(sample.positions, sample.factors).frequencies
    evidence = f"at {rows} of the {wrong.size} positions looked at, from {first} on"
    if rows > wrong.size // 2:
        evidence += f"; {_ratio_text(np.where(sound, right, rates), sample)}"
    return Cause(
        "unknown",
        f"pairs {_ranges(pairs.tolist())} of {right.size} differ, the others are right",
        evidence,
    )


def _other_width(subject: Subject, reference: Reference) -> tuple[Cause, ...]:
    """A subject that turns more or fewer columns than the reference."""
    own = subject.own
    block = own.read(own.places.sample())
    seen = fitted(block.positions, block.turned)
    base = base_of(reference) or 0.0
    evidence = ""
    given, right = subject.frequencies, reference.frequencies
    if given is not None and any(
        given.size == twice.size and np.allclose(given, twice, rtol=1e-5, atol=0)
        for twice in (np.tile(right, 2), np.repeat(right, 2))
    ):
        evidence = "each frequency is given twice, as for columns: one a pair is right"
    elif base and own.pairs:
        ladder = base ** -(np.arange(own.pairs) / own.pairs)
        if np.allclose(np.abs(seen.frequencies), ladder, rtol=1e-3, atol=1e-7):
            evidence = f"its frequencies are those of {2 * own.pairs} columns at base {base:g}"
        elif own.pairs < reference.pairs and np.allclose(
            np.abs(seen.frequencies), reference.frequencies[: own.pairs], rtol=1e-3, atol=1e-7
        ):
            evidence = f"its frequencies are the first {own.pairs} of the reference's"
    evidence = evidence or "check the head dim and the share of it that turns (partial)"
    return (Cause("rotary-dim", subject.mismatch or "", evidence),)


def _unexplained(examined: Examined, sample: Sample) -> Cause:
    survey = examined.survey
    relative = next(f for f in examined.findings if f.check == "relative")
    consistent = (
        "its scores depend on n − m alone" if relative.ok else "its scores are inconsistent"
    )
    place = (
        ""
        if survey is None
        else (f"; first look at position {survey.reference.position}, pair {survey.reference.pair}")
    )
    if sample.stray.max() > sample.tolerance.floor:
        consistent += f"; a part of size {sample.stray.max():.2g} turns no pair of columns"
    return Cause("unknown", "no known mistake gives these values", f"{consistent}{place}")


def _ranges(numbers: list[int]) -> str:
    """Numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs[:6]]
    return ", ".join(shown) + (", …" if len(runs) > 6 else "")
