"""Predict rotations with known bugs, find the bugs that reproduce every value, and describe them.

A defect predicts the factors of pairs. It is found on a few rows and tried on more. It is reported
only with its residual: the largest difference between the table that it implies and the subject,
over every entry. Other files of this folder propose further bugs, from a sample of the rows.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.codes import Cause
from posenc_cli.inference.fitting import phasors
from posenc_cli.inference.frequency_rules import (
    Alternative,
    Remembered,
    alternatives,
    likely_alternatives,
)
from posenc_cli.inference.position_maps import PositionMap, position_maps
from posenc_cli.inference.reference import Sample, rotation_by
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.halves import COARSE, CUT_BFLOAT16, HALVES, round_to_half
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.formulas.declare import Coordinates
    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

_FEW = 56
"""Rows on which defects are tried first. Those that survive are tried on the whole sample."""

_FEWEST, _FEWEST_EXPLAINED = 8, 0.4
"""Rows that rule out most roundings, and the share of their entries that a rounding must explain. A
rounding that explains 0.92 of the entries of the `_FEW` rows explains at least this share, wherever
the other entries are."""

_FEWEST_ROWS = 0.25
"""Share of the `_FEWEST` rows that a rule must explain. A rule that explains nearly all of the
`_FEW` rows explains as many."""

_BATCH = 16
"""Rules tried at once. Few, because a rule that is read off the sample is expensive to make."""

_MANY = 1 << 15
"""Factors from which `Defect._exact_factors` is faster: those of a block of all rows."""

ENOUGH = 0.97
"""Share of the entries that an emulated rounding must explain. At ties it may round the other
way."""

_NEARER = 0.5
"""Largest error that a defect may leave, as a share of the original one. A real cause leaves far
less, and chance rarely leaves as little as half."""

_SHARE_IMPROVED = 0.9
"""For a rounding, the share of the explained entries whose error must shrink. The others may have
been rounded the other way, and then differ by a whole step."""

_LEAST_REDUCTION = 0.8
"""Share by which a rounding must reduce the number of wrong entries. Many others may be right
whatever was rounded. By chance, a rounding makes as many entries wrong as it explains."""


class RowCoordinates(Record):
    """Positions or coordinates that angles are multiples of, in place of the rows' own.

    ``where(sample)`` has the shape (n,) or (n, pairs).
    """

    where: Callable[[Sample], Reals | Integers]


class Defect(Record):
    """Changes to the reference's factors, at most one of each kind; each kind has its own cause.

    ``turn`` is a key of `TURNS`. ``moved`` gives the positions as which rows are rotated. The last
    four fields name the number format that these values are rounded to.
    """

    frequencies: Alternative | None = None
    turn: str = "right"
    offset: float = 0
    moved: PositionMap | RowCoordinates | None = None
    positions: str | None = None
    rates: str | None = None
    angles: str | None = None
    cells: str | None = None

    @property
    def parts(self) -> int:
        """Number of changes that it combines."""
        plain = Defect()
        return sum(value != getattr(plain, name) for name, value in self.as_dict().items())

    @property
    def rounds(self) -> bool:
        """Whether it emulates a rounding."""
        return bool(self.positions or self.rates or self.angles or self.cells)

    def explained(self, sample: Sample) -> Flags:
        """Return which entries of a sample it explains. Shape: (n, pairs)."""
        return self.errors(sample)[1]

    def errors(self, sample: Sample) -> tuple[RealRows, Flags]:
        """Return the error of each entry of a sample, and which entries it explains.

        Shape: both (n, pairs).
        """
        with np.errstate(invalid="ignore"):  # frequencies may overflow a half precision
            return sample.compare(*self.prediction(sample))

    def prediction(self, sample: Sample) -> tuple[ComplexRows, Reals, Reals]:
        """Return its factors, its frequencies, and the positions that the tolerance depends on.

        These are a row's own positions, or those as which it is rotated if they are farther.
        """
        rule = self.frequencies
        rates = sample.reference.frequencies if rule is None else rule.frequencies
        own = sample.reference.angle_positions(sample.positions)
        moved = own if self.moved is None else self.moved.where(sample)
        used, right_at = (
            np.asarray(each, np.float64).reshape(len(each), -1)
            for each in (moved + self.offset, own)
        )
        followed = np.maximum(np.abs(right_at), np.abs(used))
        exact = self._exact_factors(sample, used)
        if exact is not None:
            return TURNS[self.turn][0](exact), rates, followed
        with np.errstate(all="ignore"):
            if self.rates:
                rates = round_to_half(rates, self.rates)
            if self.positions:
                used = round_to_half(used, self.positions)
            angles = used * rates
            if self.angles:
                angles = round_to_half(angles, self.angles)
            factors = phasors(angles)
            factors *= sample.amplitude
            if self.cells:
                parts = factors.view(np.float64)
                factors = round_to_half(parts, self.cells).view(np.complex128)
            return TURNS[self.turn][0](factors), rates, followed

    def _exact_factors(self, sample: Sample, used: Reals) -> ComplexRows | None:
        """Return the factors of many rows from exact code, which takes a tenth of NumPy's time.

        None if there are few factors, or if angles are not multiples of consecutive positions.
        """
        reference, rule = sample.reference, self.frequencies
        if self.rounds or used.size * reference.pairs < _MANY:
            return None
        if rule is None and self.moved is None and not self.offset:
            return reference.rotation.at(sample.positions) * (sample.amplitude / reference.scale)
        whole = used.shape[1] == 1 and reference.coordinates is None
        if not whole or (rule is not None and rule.frequencies.ndim > 1):
            return None
        positions = used[:, 0].astype(np.int64)
        if not np.array_equal(used[:, 0], positions[0] + np.arange(positions.size)):
            return None
        rates = reference.frequencies if rule is None else rule.frequencies
        return rotation_by(rates.tobytes(), reference.engine).at(positions) * sample.amplitude


# "backward": karpathy/nanochat#489, trymirai/lalamo#268. "swapped": GPT-J's tables are (sin, cos),
# others (cos, sin). "still": vllm-project/vllm#30413.
TURNS: dict[str, tuple[Callable[[Any], Any], Cause, str]] = {
    "right": (lambda z: z, Cause.UNKNOWN, ""),
    "backward": (
        np.conj,
        Cause.DIRECTION,
        "the rotation runs backward: the sine has the wrong sign",
    ),
    "swapped": (lambda z: 1j * z.conj(), Cause.COS_SIN_MISPAIRED, "cosines and sines are swapped"),
    "still": (
        lambda z: np.abs(z).max() + 0 * z,
        Cause.NO_ROTATION,
        "nothing rotates: every position is left as it is",
    ),
}


def holds(sample: Sample, defect: Defect) -> bool:
    """Return whether a defect explains the whole sample, including its wrong entries."""
    errors, explained = defect.errors(sample)
    if not _improves(sample, errors, explained, share=_SHARE_IMPROVED if defect.rounds else 1.0):
        return False
    if not defect.rounds or not sample.seen.any():
        return bool(explained.all())
    unrounded = replace(defect, positions=None, rates=None, angles=None, cells=None)
    wrong = ~unrounded.explained(sample)
    left = np.count_nonzero(~explained)
    return bool(
        wrong.any()
        and left <= (1 - ENOUGH) * np.count_nonzero(sample.seen)
        and left <= (1 - _LEAST_REDUCTION) * np.count_nonzero(wrong)
    )


def _improves(sample: Sample, errors: RealRows, explained: Flags, *, share: float) -> bool:
    """Return whether a defect explains at least half of the wrong entries, and far better.

    For the given ``share`` of these, the error must be at most `_NEARER` times the largest original
    error.

    High-frequency pairs have a wide tolerance at far positions. There, many defects would explain
    one slightly wrong entry, and a number fitted to all others would fail only at that entry.
    """
    deviation, right = Defect().errors(replace(sample, amplitude=sample.reference.scale))
    if right.all():
        return True
    explained_wrong = explained[~right]
    if 2 * np.count_nonzero(explained_wrong) < explained_wrong.size:
        return False
    far = np.quantile(errors[~right][explained_wrong], share)
    return bool(far <= _NEARER * deviation[~right].max())


def few_rows(positions: Integers) -> Integers:
    """Return rows for a first trial: the first ones, and evenly spaced ones up to the last."""
    count = positions.size
    if count <= _FEW:
        return np.arange(count)
    early = np.arange(min(24, count))
    return np.unique(np.concatenate([early, np.linspace(24, count - 1, _FEW - 24).astype(int)]))


def likely_defects(
    sample: Sample, rotations: Rotations | None, found: Sequence[Defect] = ()
) -> Iterator[Defect]:
    """Yield the defects to try, simplest first, without those that a few rows rule out.

    ``rotations`` are those nearest to the sample; bases and factors are read off them. The caller
    may add confirmed defects to ``found`` meanwhile, which makes some later trials unnecessary.
    """
    chosen = few_rows(sample.positions)
    fewest = sample.rows(chosen[:: -(-chosen.size // _FEWEST)])
    for defect in _defects(sample, rotations, fewest, found):
        rounds = defect.rounds and defect.frequencies is None
        if not (rounds and defect.explained(fewest).mean() < _FEWEST_EXPLAINED):
            yield defect


def _with_rules(plain: Defect, rules: Iterable[Alternative], fewest: Sample) -> Iterator[Defect]:
    """Yield a defect combined with each rule that the fewest rows do not rule out.

    Rules are tried in batches. A rule must explain some rows, or some pairs, completely; with a
    rounding, enough entries.
    """
    seen = fewest.seen.any(axis=0)  # (pairs,)
    rules = iter(rules)
    while batch := list(itertools.islice(rules, _BATCH)):
        stacked = np.stack([rule.frequencies for rule in batch])[:, None]  # (rules, 1, pairs)
        together = replace(plain, frequencies=replace(batch[0], frequencies=stacked))
        explained = together.explained(fewest)  # (rules, n, pairs)
        if plain.rounds:
            good = explained.mean(axis=(1, 2)) >= _FEWEST_EXPLAINED
        else:
            rows = explained.all(axis=2).mean(axis=1)
            pairs = (explained.all(axis=1) & seen).sum(axis=1)
            good = (rows >= _FEWEST_ROWS) | (pairs >= min(2, int(seen.sum())))
        for index in np.flatnonzero(good):
            yield replace(plain, frequencies=batch[index])


def _defects(
    sample: Sample, rotations: Rotations | None, fewest: Sample, found: Sequence[Defect]
) -> Iterator[Defect]:
    plain = Defect()
    offsets = _likely_offsets(sample)
    yield from (replace(plain, turn=turn) for turn in ("still", "backward", "swapped"))
    yield from (replace(plain, offset=offset) for offset in offsets)
    yield from (replace(plain, moved=positions) for positions in position_maps(sample))
    yield from (replace(plain, positions=coarse) for coarse in (*HALVES, "float32"))
    # Otherwise the tolerance allows for such a rounding.
    if sample.tolerance.floor < unit("float16") * sample.amplitude:
        yield from (replace(plain, cells=coarse) for coarse in COARSE)
    likely = likely_alternatives(sample.reference)
    rules = Remembered(alternatives(sample.reference, rotations))
    yield from _with_rules(plain, likely, fewest)
    if not found:  # a known rule explains more than a number that is read off
        yield from _with_rules(plain, (rule for rule in rules if rule.read_off), fewest)
    yield from (_rounding_defect(stages, half) for half in HALVES for stages in _STAGES)
    if not any(defect.parts <= 1 for defect in found):
        yield from _several_changes(fewest, offsets, likely, rules)


def _several_changes(
    fewest: Sample,
    offsets: list[float],
    likely: Iterable[Alternative],
    rules: Iterable[Alternative],
) -> Iterator[Defect]:
    """Yield defects of two or more changes, one of which may be a rule."""
    plain = Defect()
    for turn, offset in itertools.product(("backward", "swapped"), offsets):
        yield replace(plain, turn=turn, offset=offset)
    yield from _with_rules(replace(plain, turn="backward"), rules, fewest)
    yield from _with_rules(replace(plain, turn="swapped"), rules, fewest)
    for half in HALVES:
        for stages in (*_STAGES, "positions", "rates"):
            yield replace(_rounding_defect(stages, half), cells=half)
        yield from _with_rules(replace(plain, rates=half), likely, fewest)
        yield from _with_rules(replace(plain, positions=half), rules, fewest)
    for offset in _COMMON_OFFSETS[:4]:
        yield from _with_rules(replace(plain, offset=offset), rules, fewest)


_STAGES = (
    "angles",
    "positions rates angles",
    "positions angles",
    "positions rates",
    "rates angles",
)
"""Stages of the computation of angles that are rounded to one format together."""


def _rounding_defect(stages: str, kind: str) -> Defect:
    return replace(Defect(), **dict.fromkeys(stages.split(), kind))


_COMMON_OFFSETS = (1, -1, 2, -2, 3, 4)
"""Common offsets of positions, the most common first."""


def _likely_offsets(sample: Sample) -> list[float]:
    """Return likely offsets of positions: read off low-frequency pairs, then common ones."""
    likely: list[float] = []
    right = sample.reference.frequencies
    slow = np.flatnonzero(right > 0)[-8:]
    if slow.size:
        angles = np.angle(sample.factors[:, slow])
        own = sample.reference.angle_positions(sample.positions)
        own_angles = (own[:, None] if own.ndim == 1 else own[:, slow]) * right[slow]  # (n, slow)
        for sign in (1, -1):
            errors = np.angle(np.exp(1j * (sign * angles - own_angles))) / right[slow]
            known = errors[np.isfinite(errors)]
            middle = float(np.median(known)) if known.size else 0.0
            if abs(middle) < 2**53:
                likely += [round(middle), round(middle, 2), round(middle) + 1, round(middle) - 1]
    return [offset for offset in dict.fromkeys((*likely, *_COMMON_OFFSETS)) if offset]


ALIKE = 2.0
"""A defect fits as well as another if its error is at most this many times as large."""

_FEWEST_CONFIRMING = 3
"""Entries that must share a number read off them: one gives it, and two confirm it."""

TIES = 0.1
"""Share of the entries of few rows that an emulated rounding may miss. At ties it may round the
other way."""

SCATTERS = 1.5
"""Multiple of the amplitudes' scatter by which their median must differ from the reference. Entries
that were truncated toward zero have smaller amplitudes, but by less than that."""


def amplitude_of(sample: Sample, *, floor: float) -> float:
    """Return the amplitude of the factors, or the reference's if they do not differ from it."""
    right = sample.reference.scale
    sizes = np.abs(sample.factors[sample.seen])  # (cells,)
    sizes = sizes[np.isfinite(sizes)]
    if sizes.size < _FEWEST_CONFIRMING:
        return right
    least, most = float(sizes.min()), float(sizes.max())
    if most - least <= 2 * floor:  # rounding alone, above and below one amplitude
        return right if max(right - least, most - right) <= floor else (least + most) / 2
    amplitude = float(np.median(sizes))
    scatter = float(np.subtract(*np.percentile(sizes, [95, 5])))
    return right if abs(amplitude - right) <= max(2 * floor, SCATTERS * scatter) else amplitude


def same_defect(defect: Defect, other: Defect) -> bool:
    """Return whether two defects have the same changes, with nearly the same frequencies.

    Rules that were not read off the sample are the same only if their messages are.
    """
    a, b = defect.frequencies, other.frequencies
    if a is None or b is None:
        return defect == other
    if a.cause != b.cause or replace(defect, frequencies=b) != other:
        return False
    near = bool(np.allclose(a.frequencies, b.frequencies, rtol=1e-4, atol=1e-12))
    return near and (a.read_off or b.read_off or a.message == b.message)


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
    """A defect to try, its explanation, and its residual if that is known."""

    defect: Defect
    explanation: Explanation | None = None
    residual: Residual | None = None


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
        residual = bug.residual or suspect.residual(bug.defect)
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
    if defect.offset:
        explained = defect.explained(sample).all(axis=1)
        first = int(sample.positions[int(np.argmax(explained))])
        evidence = f"position {first} is rotated as {first + defect.offset:.12g}"
        message = offset_text(sample.reference, defect.offset)
        on_axes = sample.reference.coordinates is not None
        yield Explanation(Cause.POSITION_OFFSET, message, "" if on_axes else evidence)
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


def offset_text(reference: Reference, offset: float) -> str:
    """Describe an offset of all positions, or of the coordinates on each axis."""
    along = reference.coordinates
    if along is None:
        return f"positions are shifted by {offset:+g}"
    texts: dict[str, list[int]] = {}
    for axis in sorted({*along.axes}):
        texts.setdefault(coordinate_offset(along, offset, axis), []).append(axis)
    where = ["every axis"] if len(texts) == 1 else map(axes_text, texts.values())
    shifts = (f"shifted by {text} on {axes}" for text, axes in zip(texts, where, strict=True))
    return f"coordinates are {', and '.join(shifts)}"


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
