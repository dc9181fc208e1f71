"""Propose known bugs of rows, pairs and values; describe unknown and not finite values.

Correct frequencies are above 0 and at most that of the first pair. Uninitialized memory has any
size and sign (huggingface/transformers#45902, pytorch/torchtitan#4783). Only numbers of a size that
no rule gives are reported as such. Wrong numbers of a usual size have another cause.

Cosines and sines in wrong places do not rotate pairs as a whole. Each such bug predicts the four
entries of a pair's matrix ((c, −s), (s, c)): the wrong layout in one of the tables, a missing sign,
a sine of another pair.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    ENOUGH,
    MOST_RANGES,
    Defect,
    RotaryBug,
    RowCoordinates,
    Suspect,
    as_ranges,
    axes_text,
    confirmed_causes,
    pairs_text,
)
from posenc_cli.formulas.context_extension.scaled import dynamic_base, rope_dynamic
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import Alternative
from posenc_cli.inference.position_maps import PositionMap, shown_positions, whole_positions
from posenc_cli.inference.tolerance import HALF_RULES, SINGLE_FUNCTIONS, Tolerance, unit
from posenc_cli.inference.trial import repeated_columns
from posenc_cli.inference.turning import LAYOUTS, SubjectBlock
from posenc_cli.numerics.halves import on_grid
from posenc_cli.positions import ordinal, range_texts
from posenc_cli.records import replace
from posenc_cli.rotary.drift import SCATTER, Fault
from posenc_cli.rotary.findings import without_growth
from posenc_cli.rotary.verdict import Examination, Explanation, Residual, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals
    from posenc_cli.rotary.findings import Survey
    from posenc_cli.rotary.subject import Subject

    _Entries = tuple[RealRows, RealRows, RealRows, RealRows]
    """a, b, c and d of the matrices ((a, b), (c, d)) of pairs."""

_HUGE = 1e12
"""Larger numbers, and those below its inverse, are not frequencies that anybody chose."""

MEANING = (
    "uninitialized memory, such as a non-persistent buffer built on the meta "
    "device, or bytes of another number format"
)


def own_length_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug of dynamic NTK that each row has the base of its own length.

    Decoding token by token with a cache of rotated keys gives such rows
    (github.com/huggingface/transformers/issues/25104).
    """
    sample, reference = suspect.sample, suspect.sample.reference
    if reference.encoding.bound.scheme is not rope_dynamic or reference.pairs < 2:
        return
    limit = int(reference.params["max_position_embeddings"])
    if (sample.positions < 0).any() or sample.positions.max() < limit:
        return
    exponents = np.arange(reference.pairs) / reference.pairs
    plain = dynamic_base(reference.params, np.full((1, 1), limit)) ** -exponents

    def moved(piece: Sample) -> RealRows:
        """Return the positions at which plain frequencies give the angles of each row's base."""
        positions = piece.positions[:, None].astype(np.float64)
        base = dynamic_base(reference.params, np.maximum(positions + 1, limit))
        return np.asarray(positions * base**-exponents / plain, np.float64)

    explanation = Explanation(
        Cause.FREQUENCY_RULE,
        f"past position {limit - 1} each row uses the base of its own length, m + 1",
        "as with cached keys that are not rotated again while the sequence grows",
    )
    rule = Alternative(Cause.FREQUENCY_RULE, "", plain[0])
    defect = Defect(frequencies=rule, moved=RowCoordinates(moved))
    yield RotaryBug(defect, explanation)


def position_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug that positions are rotated as others, by no known rule."""
    if shown_positions(suspect.sample)[1].mean() < ENOUGH:
        return
    last = int(np.abs(suspect.sample.positions).max())
    pieces, residuals = [], []
    for piece in suspect.pieces():
        used, errors, explained = _used_positions(piece, last)
        if (used < 0).any():
            return  # positions are not negative
        pieces.append((piece.positions, used))
        residuals.append(Residual.of(piece.positions, errors, explained))
    own, read = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    moved = own[own != read]
    if not moved.size:
        return
    order = np.argsort(own, kind="stable")
    message = (
        f"{moved.size} of {own.size} positions get the rotation of another position, first at "
        f"{moved[0]}"
    )
    lookup = PositionMap(message, lambda p: read[order[np.searchsorted(own, p, sorter=order)]])
    yield RotaryBug(Defect(moved=lookup), residual=Residual.joined(residuals))


def _used_positions(piece: Sample, last: int) -> tuple[Integers, RealRows, Flags]:
    """Return the positions up to ``last`` as which rows are rotated; -1 for wrong rows of none.

    Also return the error of each entry, and which entries are explained.
    """
    used = piece.positions.copy()
    errors, explained = Defect().errors(piece)
    wrong = np.flatnonzero(~explained.all(axis=1))
    if wrong.size:
        read, shown, errors[wrong] = whole_positions(piece.rows(wrong), last)
        used[wrong], explained[wrong] = np.where(shown, read, -1), shown[:, None]
    return used, errors, explained


def unknown_cause(suspect: Suspect) -> Explanation:
    """Return an unknown cause: the pairs and positions that differ, and the largest error."""
    reference = suspect.sample.reference
    exact = suspect.changed(lambda piece: replace(piece, amplitude=reference.scale))
    wrong = exact.residual(Defect())
    if not wrong.count:  # such as lengths, which no error of an angle changes
        failed = next(each for each in suspect.examination.findings if not each.ok)
        at = ", ".join(f"{name} {number}" for name, number in (failed.at or {}).items())
        evidence = "every rotation is within the error of float32 angles"
        return Explanation(Cause.UNKNOWN, f"{failed.message}, at {at}", evidence)
    largest, position, pair = wrong.worst
    place = place_text(wrong) or "at every position, in every pair"
    evidence = (
        f"{wrong.count} of {wrong.of_entries} rotations (positions × pairs) "
        f"differ{'s' * (wrong.count == 1)}, by up to {largest:.2g}: most at position {position}, "
        f"pair {pair}"
    )
    message = f"values differ {place}{_axes_note(wrong.pairs, reference)}"
    return Explanation(Cause.UNKNOWN, message, evidence, where=place_of(wrong))


def place_text(wrong: Residual) -> str:
    """Return the wrong pairs and positions in words; empty if they are all of them."""
    texts = []
    if not wrong.pairs.all():
        texts.append(f"in {pairs_text(np.flatnonzero(wrong.pairs).tolist(), wrong.pairs.size)}")
    if wrong.positions.size < wrong.of_positions:
        texts.append(_rows_text(wrong))
    return " ".join(texts)


def _rows_text(wrong: Residual) -> str:
    positions = wrong.positions
    steps = np.unique(np.diff(positions))
    if steps.size == 1 and positions.size > 2 and steps[0] > 1:
        return f"at every {ordinal(int(steps[0]))} position from {positions[0]} on"
    runs = range_texts(positions.tolist())
    if len(runs) == 1 and positions.size > 1 and positions[-1] == wrong.last:
        return f"from position {positions[0]} on"
    if len(runs) > MOST_RANGES:
        return f"at {positions.size} of {wrong.of_positions} positions"
    return f"at position{'s' * (positions.size > 1)} {', '.join(runs)}"


def place_of(wrong: Residual) -> Where | None:
    """Return the place for JSON, without positions that need too many ranges."""
    rows = None
    if wrong.positions.size == 1 < wrong.of_positions:
        rows = f"{wrong.positions[0]}:{wrong.positions[0] + 1}"
    elif wrong.positions.size < wrong.of_positions:
        few = len(range_texts(wrong.positions.tolist())) <= MOST_RANGES
        rows = as_ranges(wrong.positions) if few else None
    pairs = None if wrong.pairs.all() else as_ranges(np.flatnonzero(wrong.pairs))
    return Where(rows, pairs) if rows or pairs else None


def _axes_note(pairs: Flags, reference: Reference) -> str:
    """Return the axes whose pairs these are, as the end of a sentence.

    Empty if they are only some of the pairs of an axis, or all pairs of all axes.
    """
    along = reference.coordinates
    if along is None or along.oblique or pairs.all():
        return ""
    own = np.array(along.axes)
    axes = np.unique(own[pairs])
    return f": {axes_text(axes.tolist())}" if (np.isin(own, axes) == pairs).all() else ""


def missing_values(suspect: Suspect, survey: Survey) -> Explanation:
    """Return the cause of values that are not finite, with their place."""
    deviation = survey.reference
    finite = ((piece.positions, np.isfinite(piece.factors)) for piece in suspect.pieces())
    missing = Residual.measure((at, np.where(flags, 0.0, np.inf), flags) for at, flags in finite)
    count, first = missing.count, missing.first
    if first is None:  # only values outside the pairs are not finite
        count, first = deviation.missing, (deviation.position, deviation.pair)
    position, pair = first
    total = deviation.rows * suspect.examination.reference.pairs
    evidence = f"{count} of {total} rotations, first at position {position}, pair {pair}"
    message = f"{'all' if count == total else 'some'} values are NaN or infinite"
    place, where = place_text(missing), place_of(missing)
    if missing.count < missing.positions.size * np.count_nonzero(missing.pairs):
        return Explanation(Cause.NOT_A_NUMBER, message, evidence)
    message += f": all {place}" if place else ""
    return Explanation(Cause.NOT_A_NUMBER, message, evidence, where=where)


def uninitialized_cause(examination: Examination) -> Explanation | None:
    """Return the cause of given frequencies that are not finite, or whose size no rule gives."""
    given, right = examination.subject.frequencies, examination.reference.frequencies
    if given is None or given.shape != right.shape:
        return None
    sizes = np.abs(given)
    wrong = ~((sizes <= _HUGE) & ((sizes >= 1 / _HUGE) | (given == 0))) & (given != right)
    if not wrong.any():
        return None
    cause, what = Cause.UNINITIALISED, f"outside the range of any rule: {MEANING}"
    if np.isinf(given[wrong]).any() and not np.isfinite(given[wrong]).any():
        cause, what = Cause.NOT_A_NUMBER, "NaN or infinite"
    pair, count = int(np.argmax(wrong)), int(np.count_nonzero(wrong))
    return Explanation(
        cause,
        f"{count} of the {right.size} frequencies {'is' if count == 1 else 'are'} {what}",
        f"frequency of pair {pair}: {given[pair]:.6g}, not {right[pair]:.6g}",
        where=Where(None, as_ranges(np.flatnonzero(wrong))),
    )


def misplaced_cause(examination: Examination) -> Explanation | None:
    """Return the cause of misplaced cosines and sines, or None."""
    turning = examination.subject.as_reference
    assert turning is not None  # otherwise the width is the cause
    block = turning.read(turning.places.sample(96))
    if block.rest is not None and block.rest.max() > examination.tolerance.floor:
        return None
    for place, (message, _, explained) in enumerate(_explained_entries(block, examination)):
        if not explained.all():
            continue
        pieces = (
            (part.positions, *[*_explained_entries(part, examination)][place][1:])
            for part in turning.blocks()
        )
        residual = Residual.measure(pieces)
        if residual.whole:
            evidence = f"every pair matches once this is fixed; {residual.text}"
            return Explanation(Cause.COS_SIN_MISPAIRED, message, evidence, residual=residual)
    return None


def _explained_entries(
    block: SubjectBlock, examination: Examination
) -> Iterator[tuple[str, RealRows, Flags]]:
    """Yield each bug's message, its error in a block, and the entries that it explains.

    Shape: both (n, pairs).
    """
    reference = examination.reference
    turned = without_growth(block, reference)  # (n, pairs)
    mirrored = np.zeros_like(turned) if block.mirrored is None else block.mirrored
    size = reference.scale
    unit = reference.rotation.at(block.positions) / size  # (n, pairs)
    seen = np.ones(turned.shape, bool) if block.seen is None else block.seen
    followed = reference.angle_positions(block.positions)
    for message, z, w, fastest in misplaced_maps(reference, unit):
        allowed = 2 * examination.tolerance.cells(followed, fastest)
        if block.twist is None:
            errors = np.abs(turned - size * z) + np.abs(mirrored - size * w)
        else:
            errors = np.abs(turned - size * (z + w * block.twist))
        yield message, np.where(seen, errors, 0.0), (errors <= allowed) | ~seen


def misplaced_maps(
    reference: Reference, unit: ComplexRows
) -> Iterator[tuple[str, ComplexRows, ComplexRows, Reals]]:
    """Yield each bug's message, its factors of z and of z̄, and its highest frequencies.

    ``unit`` are the right factors without the amplitude. The tolerance depends on the highest
    frequency among the entries of each pair.
    """
    cos, sin, own = unit.real, unit.imag, reference.frequencies
    no_minus = "both sines have the sign +: a minus is missing, or half of the table is negated too"
    in_place = "the second dimension is computed from the already rotated first (in place)"
    for message, (a, b, c, d), fastest in (
        *_wrong_layouts(reference, cos, sin),
        (no_minus, (cos, sin, sin, cos), own),
        (in_place, (cos, -sin, sin * cos, cos - sin * sin), own),
    ):
        yield message, ((a + d) + 1j * (c - b)) / 2, ((a - d) + 1j * (c + b)) / 2, fastest


def _wrong_layouts(
    reference: Reference, cos: RealRows, sin: RealRows
) -> Iterator[tuple[str, _Entries, Reals]]:
    """Yield full tables whose layout does not match the paired dimensions."""
    right, pairs = reference.content.layout, reference.pairs
    first, second = (
        list(columns) for columns in paired_columns(right, pairs, reference.content.blocks)
    )
    frequencies = reference.frequencies[None]
    for cos_layout, sin_layout in product(LAYOUTS, LAYOUTS):
        if cos_layout == sin_layout == right or pairs < 2:
            continue
        c, s = repeated_columns(cos, cos_layout), repeated_columns(sin, sin_layout)
        rates = [repeated_columns(frequencies, layout)[0] for layout in (cos_layout, sin_layout)]
        fastest = np.maximum.reduce(
            [table_rates[columns] for table_rates in rates for columns in (first, second)]
        )
        which = f"cos is {cos_layout} and sin is {sin_layout}"
        if cos_layout == sin_layout:
            which = f"cos and sin are {cos_layout}"
        message = f"{which}, but the rotation pairs dimensions {reference.pairing.text}"
        yield message, (c[:, first], -s[:, first], s[:, second], c[:, second]), fastest


_SIZES_OF_ANY = 2  # such as 0 and the attention factor, if nothing rotates


def restricted_to_rounding(suspect: Suspect) -> Suspect:
    """Return the suspect with a tolerance of only a few roundings of each angle."""
    tolerance = replace(
        suspect.sample.tolerance, per_angle=SCATTER * suspect.examination.reference.scale
    )
    return with_tolerance(suspect, tolerance)


def with_tolerance(suspect: Suspect, tolerance: Tolerance) -> Suspect:
    """Return the suspect with another tolerance."""
    return suspect.changed(lambda piece: replace(piece, tolerance=tolerance))


def precision_causes(suspect: Suspect) -> list[Explanation]:
    """Return the causes of too low a precision; empty if they do not explain everything.

    Roundings to float32 are tried with correctly rounded cosines and sines, then with those of
    float32 libraries.
    """
    examination = suspect.examination
    asked = examination.tolerance
    residual = suspect.residual(Defect()) if asked.finer or asked.fixed is not None else None
    if residual is None or not residual.whole:
        return []
    subject, scale = examination.subject, examination.reference.scale
    roundings = subject.own.roundings
    finest = Tolerance.of("float64", dtype=subject.dtype, roundings=roundings, amplitude=scale)
    functions = (SINGLE_FUNCTIONS + roundings * unit("float32")) * scale
    bugs = [
        RotaryBug(Defect(rates=rates, angles=angles))
        for rates, angles in (("float32", None), (None, "float32"), ("float32", "float32"))
    ]
    for tolerance in (finest, replace(finest, floor=finest.floor + functions)):
        strict = with_tolerance(suspect, tolerance)
        causes = [] if strict.residual(Defect()).whole else confirmed_causes(strict, bugs)
        if causes:
            return causes
    return [_unexplained_lack(examination, residual)]


def _unexplained_lack(examination: Examination, residual: Residual) -> Explanation:
    """Return the cause of values that are imprecise for an unknown reason, within float32 error."""
    cells = None if examination.survey is None else examination.survey.cells
    if cells is None:
        asked = f"requested: {examination.tolerance.reason}"
        message = "less precise than requested, but within the error of float32 code"
        return Explanation(Cause.UNKNOWN, message, asked, residual=residual)

    return Explanation(
        Cause.TABLE_PRECISION,
        f"values are not correctly rounded to {cells.dtype.name}",
        f"{cells.wrong} of {cells.total} values, by up to {cells.units:.3g} ulp, but all within "
        "the error of float32 code",
        residual=residual,
    )


def unknown_drift(fault: Fault) -> Explanation:
    """Return the cause of phase errors that no single error of a frequency explains."""
    return Explanation(
        Cause.UNKNOWN,
        "no rounding of a frequency and its product with the position gives these phase errors",
        f"no single error of the frequency of pair {fault.pair} explains all its positions, "
        f"such as position {fault.position}",
    )


def half_precision_of(subject: Subject) -> Literal["float16", "bfloat16"] | None:
    """Return the half precision that holds every value of a subject stored in a wider format.

    None if there is none, for frequencies, or for values of at most two sizes, such as 0 and 2: any
    format holds these.
    """
    if subject.frequencies is not None:
        return None
    # The coarser format first: the finer one holds most of its numbers too.
    halves = [half for half in HALF_RULES[::-1] if unit(half) > unit(subject.dtype)]
    sizes: set[float] = set()
    for rows in subject.own.places.row_blocks():
        if subject.vectors is None:
            values = subject.own.read(rows).turned.view(np.float64)
        else:
            values = subject.vectors(rows)[1]
        halves = [half for half in halves if on_grid(values, half)]
        if not halves or not np.isfinite(values).all():
            return None
        if len(sizes) <= _SIZES_OF_ANY:
            sizes.update(np.unique(np.abs(values))[: _SIZES_OF_ANY + 1].tolist())
    return halves[0] if len(sizes) > _SIZES_OF_ANY else None


def stored_wider_cause(half: str, subject: Subject, *, others: bool) -> Explanation:
    """Return the cause of values rounded to ``half``; ``others``: there are other causes."""
    what = "cosines and sines" if subject.vectors is None else "the rotated vectors"
    if subject.returned_half == half:
        what = "all values returned"
    right = "the other causes explain it" if others else "it is right"
    return Explanation(
        Cause.TABLE_PRECISION,
        f"{what} were rounded to {half}, then stored in a wider format",
        f"every value is a {half} number; {right} within that rounding",
        half,
    )


def other_frequencies_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield the bug of frequencies by no known rule: those of the wrong pairs at every position."""
    rotations, right = suspect.rotations, suspect.sample.reference.frequencies
    if (
        rotations is None
        or rotations.axes is not None
        or rotations.frequencies.shape != right.shape
    ):
        return
    sound = Defect().explained(suspect.sample).all(axis=0)  # (pairs,)
    rates = np.where(sound, right, rotations.frequencies)
    if not sound.all() and np.isfinite(rates).all() and (rates >= 0).all():
        yield RotaryBug(Defect(frequencies=Alternative(Cause.UNKNOWN, "", rates)))
