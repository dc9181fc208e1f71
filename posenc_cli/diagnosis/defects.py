"""What a subject may be: each defect says what the factors of the pairs would be if it held."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.diagnosis.value_formats import cut_codes, products, read_off_formats
from posenc_cli.inference.angles import angle_changes
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import (
    CUT_BFLOAT16,
    HALF_CELLS,
    HALVES,
    TF32S,
    coarse_formats,
    round_to_half,
)
from posenc_cli.inference.frequency_rules import alternatives, likely_alternatives
from posenc_cli.inference.position_maps import maps_from_the_first_wrong, position_maps
from posenc_cli.inference.rules import Remembered
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.inference.angles import AngleChange
    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.formats import CellFormat
    from posenc_cli.inference.position_maps import PositionMap
    from posenc_cli.inference.rules import Alternative
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows, Reals

_FEW = 56
"""Rows on which defects are tried first; those that survive are tried on the whole sample."""

_FEWEST, _FEWEST_EXPLAINED = 8, 0.4
"""Rows that most roundings are ruled out by, and the share of their cells that one must explain.
What explains 0.92 of the cells of the few rows explains as much of these, wherever the rest is."""

_FEWEST_ROWS = 0.25
"""Of the same rows: what a rule must explain of them that explains nearly all of the few."""

_FEWEST_CELLS = 8
"""That show a scale: of one or two cells the largest gives it, and nothing confirms it."""

_BATCH = 16
"""Rules that are tried at once: few, since rules that are read off are dear to make."""

_FLOAT32_INTEGERS = 2**24
"""The first whole numbers that float32 has all of."""

ENOUGH = 0.97
"""Of the cells: a rounding that is emulated may fall the other way at ties."""

_NEARER = 0.5
"""Of what is wrong: a cause leaves far less over, and chance seldom half."""

_SAME_FACTOR = 2.0**-20
"""Relative: an attention factor in float32 is no other."""

_MOST_CELLS = 0.9
"""Of those that a rounding explains: others may have fallen the other way, a whole step off."""

_MENDED = 0.8
"""Of as many cells as are wrong: many others may be right whatever was rounded, and what makes as
many wrong as it explains is chance."""


class Defect(Record):
    """Changes of the right factors, each of which has a cause; at most one of each kind.

    ``moved`` says as which positions the rows are turned. ``cosines`` and ``sines`` are what is
    wrong with one of the two tables alone.
    """

    frequencies: Alternative | None = None
    turn: str = "right"
    offset: float = 0
    moved: PositionMap | None = None
    positions: str | None = None
    rates: str | None = None
    angles: str | None = None
    reduction: AngleChange | None = None
    cells: CellFormat | None = None
    cosines: Defect | None = None
    sines: Defect | None = None

    @property
    def rounds(self) -> bool:
        """Whether it emulates a rounding."""
        parts = [part for part in (self.cosines, self.sines) if part is not None]
        own = self.positions or self.rates or self.angles or self.reduction or self.cells
        return bool(own) or any(part.rounds for part in parts)

    @property
    def without_rounding(self) -> Defect:
        """The same without any rounding."""
        plain = replace(self, positions=None, rates=None, angles=None, reduction=None, cells=None)
        if self.cosines is not None:
            plain = replace(plain, cosines=self.cosines.without_rounding)
        if self.sines is not None:
            plain = replace(plain, sines=self.sines.without_rounding)
        return plain

    @property
    def words_of_one_table(self) -> Iterator[tuple[Cause, str, str]]:
        """What is wrong with one table alone: the cause, a message, and what shows it."""
        if self.cosines is not None and self.sines is not None:
            both = [part.cells.done for part in (self.cosines, self.sines) if part.cells]
            if len(both) == len(("cosines", "sines")):
                message = f"the cosines were {both[0]}, the sines {both[1]}, and stored wider"
                yield Cause.TABLE_PRECISION, message, ""
                return
        for one, other, part in (
            ("cosines", "sines", self.cosines),
            ("sines", "cosines", self.sines),
        ):
            if part is None:
                continue
            cause, sound = Cause.COS_SIN_MISPAIRED, f"the {other} are right"
            if part.cells is not None:
                cause = Cause.TABLE_PRECISION
                done = part.cells.done
                message = f"the {one} were {done}, and stored wider; the {other} not"
            elif part.frequencies is not None:
                rule = part.frequencies.message
                message = f"the {one} are those of another table, in which {rule}"
            elif part.moved is not None:
                message = f"the {one} alone are those of other positions: {part.moved.message}"
            else:
                row = f"p {'+' if part.offset > 0 else '−'} {abs(part.offset):g}"
                message = f"the {one} are off by {part.offset:+g}: row p has those of {row}"
            yield cause, message, sound

    def turned_as(self, sample: Sample) -> Reals:
        """The positions as which rows are turned, (n,), or (n, pairs) where pairs follow axes."""
        positions = sample.positions if self.moved is None else self.moved.at(sample.positions)
        where = sample.reference.angle_positions(positions) + self.offset
        return np.asarray(where, np.float64)

    def followed(self, sample: Sample) -> Reals:
        """The positions whose angles the tolerance follows: a row's own, or farther ones."""
        own = np.abs(sample.reference.angle_positions(sample.positions))
        parts = [part for part in (self, self.cosines, self.sines) if part is not None]
        for part in parts:
            if part.offset or part.moved is not None:
                own = np.maximum(own, np.abs(part.turned_as(sample)))
        return own

    def explained(self, sample: Sample) -> Flags:
        """Which cells of a sample it explains. Shape: (n, pairs)."""
        with np.errstate(invalid="ignore"):  # of frequencies that a half precision lacks
            return sample.explained_cells(*self.prediction(sample), self.followed(sample))

    def prediction(self, sample: Sample) -> tuple[ComplexRows, Reals]:
        """The factors and the frequencies if it held."""
        right = sample.reference.frequencies
        frequencies = right if self.frequencies is None else self.frequencies.frequencies
        where = self.turned_as(sample)
        with np.errstate(all="ignore"):
            if self.rates:
                frequencies = round_to_half(frequencies, self.rates)
            if self.positions:
                where = round_to_half(where, self.positions)
            angles = where.reshape(where.shape[0], -1) * frequencies
            if self.angles:
                angles = round_to_half(angles, self.angles)
            if self.reduction:
                angles = self.reduction.changed(angles)
            factors = np.asarray(sample.amplitude * np.exp(1j * angles), np.complex128)
            if self.cells:
                factors = self.cells.rounded(factors)
            if self.cosines is not None:
                cosines, faster = self.cosines.prediction(sample)
                factors, frequencies = cosines.real + 1j * factors.imag, np.maximum(right, faster)
            if self.sines is not None:
                sines, faster = self.sines.prediction(sample)
                factors, frequencies = factors.real + 1j * sines.imag, np.maximum(right, faster)
            return TURNS[self.turn][0](factors), frequencies


def _every_second(factors: ComplexRows) -> RealRows:
    """−1 for every second pair, from pair 1 on. Shape: (1, pairs)."""
    return np.where(np.arange(factors.shape[1]) % 2, -1.0, 1.0)[None]


TURNS: dict[str, tuple[Callable[[Any], Any], Cause, str]] = {
    "right": (lambda z: z, Cause.UNKNOWN, ""),
    "backward": (
        np.conj,
        Cause.DIRECTION,
        "the rotation runs backward: the sine has the wrong sign",
    ),
    "swapped": (lambda z: 1j * z.conj(), Cause.COS_SIN_MISPAIRED, "cosines and sines are swapped"),
    "swapped-sign": (
        lambda z: -1j * z,
        Cause.COS_SIN_MISPAIRED,
        "cosines and sines are swapped, and the sign of one",
    ),
    "negated": (lambda z: -z, Cause.COS_SIN_MISPAIRED, "cosines and sines have the wrong sign"),
    "negated-cosine": (
        lambda z: -z.conj(),
        Cause.COS_SIN_MISPAIRED,
        "cosines have the wrong sign",
    ),
    "alternating": (
        lambda z: z.real + 1j * z.imag * _every_second(z),
        Cause.DIRECTION,
        "sines have the wrong sign in every second pair, from pair 1 on",
    ),
    "alternating-from-0": (
        lambda z: z.real - 1j * z.imag * _every_second(z),
        Cause.DIRECTION,
        "sines have the wrong sign in every second pair, from pair 0 on",
    ),
    "alternating-cosine": (
        lambda z: z.real * _every_second(z) + 1j * z.imag,
        Cause.COS_SIN_MISPAIRED,
        "cosines have the wrong sign in every second pair, from pair 1 on",
    ),
    "alternating-cosine-from-0": (
        lambda z: -z.real * _every_second(z) + 1j * z.imag,
        Cause.COS_SIN_MISPAIRED,
        "cosines have the wrong sign in every second pair, from pair 0 on",
    ),
    "unsigned-sine": (
        lambda z: z.real + 1j * np.abs(z.imag),
        Cause.COS_SIN_MISPAIRED,
        "sines have lost their sign: none is negative",
    ),
    "no-sine": (lambda z: z.real + 0j, Cause.COS_SIN_MISPAIRED, "the sines are 0"),
    "no-cosine": (lambda z: 1j * z.imag, Cause.COS_SIN_MISPAIRED, "the cosines are 0"),
    "still": (
        lambda z: np.abs(z).max() + 0 * z,
        Cause.NO_ROTATION,
        "nothing turns: every position is left as it is",
    ),
}


def holds(sample: Sample, defect: Defect) -> bool:
    """Whether a defect explains the whole sample, and what is wrong in it."""
    predicted, _ = defect.prediction(sample)
    explained = defect.explained(sample)
    if not _mends(sample, predicted, explained, share=_MOST_CELLS if defect.rounds else 1.0):
        return False
    if not defect.rounds or not sample.seen.any():
        return bool(explained.all())
    wrong = ~defect.without_rounding.explained(sample)
    left = np.count_nonzero(~explained)
    return bool(
        wrong.any()
        and left <= (1 - ENOUGH) * np.count_nonzero(sample.seen)
        and left <= (1 - _MENDED) * np.count_nonzero(wrong)
    )


def nearly_holds(sample: Sample, defect: Defect) -> bool:
    """Whether a defect explains most rows wholly, so that the others are something else."""
    predicted, _ = defect.prediction(sample)
    explained = defect.explained(sample)
    few_are_left = bool(explained.all(axis=1).mean() >= ENOUGH)
    return few_are_left and _mends(sample, predicted, explained)


def _mends(sample: Sample, predicted: ComplexRows, explained: Flags, *, share: float = 1.0) -> bool:
    """Whether a prediction is nearer than what is right to most of the cells that are wrong.

    It is far nearer to so large a ``share`` of those that it explains.

    Fast pairs are granted much at far positions: one cell that is wrong by little would be within
    that of many a mistake, and a number fitted to all others would leave out just that cell.
    """
    right, frequencies = Defect().prediction(replace(sample, amplitude=sample.reference.scale))
    wrong = ~sample.explained_cells(right, frequencies)
    if not wrong.any():
        return True
    with np.errstate(invalid="ignore"):
        deviation = np.abs(sample.factors[wrong] - right[wrong])  # (cells,)
        missed = np.abs(sample.factors[wrong] - predicted[wrong])
    mended = explained[wrong]
    if 2 * np.count_nonzero(mended) < mended.size:
        return False
    return bool(np.quantile(missed[mended], share) <= _NEARER * deviation.max())


def few_rows(positions: Integers) -> Integers:
    """Rows for a first trial: some of the first, some at every scale, the last."""
    count = positions.size
    if count <= _FEW:
        return np.arange(count)
    early = np.arange(min(24, count))
    return np.unique(np.concatenate([early, np.linspace(24, count - 1, _FEW - 24).astype(int)]))


def likely_defects(sample: Sample, rotations: Rotations | None) -> Iterator[Defect]:
    """What is tried, from the simplest on; nothing that a few rows rule out."""
    chosen = few_rows(sample.positions)
    fewest = sample.rows(chosen[:: -(-chosen.size // _FEWEST)])
    for defect in _defects(sample, rotations, fewest):
        if defect.rounds and defect.frequencies is None:
            explained = defect.explained(fewest)
            if explained.mean() < _FEWEST_EXPLAINED:
                continue
        yield defect


def _with_rules(plain: Defect, rules: Iterable[Alternative], fewest: Sample) -> Iterator[Defect]:
    """A defect with each of some rules besides, but for those that the fewest rows rule out.

    Many at once: a rule must explain some of the rows, or some of the pairs, wholly.
    """
    seen = fewest.seen.any(axis=0)  # (pairs,)
    for batch in _batches(rules):
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


def _batches(rules: Iterable[Alternative]) -> Iterator[list[Alternative]]:
    """Some rules at a time, those that were read off apart."""
    for _, group in itertools.groupby(rules, key=lambda rule: rule.read_off):
        while batch := list(itertools.islice(group, _BATCH)):
            yield batch


def _defects(sample: Sample, rotations: Rotations | None, fewest: Sample) -> Iterator[Defect]:
    plain = Defect()
    offsets = _offsets(sample)
    turns = [turn for turn in TURNS if turn != "right"]
    yield Defect(turn="still")
    yield from (replace(plain, turn=turn) for turn in turns)
    yield from (replace(plain, offset=offset) for offset in offsets)
    yield from (replace(plain, moved=positions) for positions in position_maps(sample))
    for half in HALVES:
        yield replace(plain, cells=HALF_CELLS[half])
        yield replace(plain, positions=half)
    yield replace(plain, cells=HALF_CELLS[CUT_BFLOAT16])
    yield from _moved_and_rounded(sample)
    rules = Remembered(alternatives(sample.reference, rotations))
    likely = likely_alternatives(sample.reference)
    yield from _with_rules(plain, rules, fewest)
    yield from _defects_of_one_table(sample, rules, offsets)
    yield from (replace(plain, cells=kept) for kept in _coarse_formats(sample))
    yield from (replace(plain, cells=kept) for kept in _products(sample))
    # Of one pair, what angles become cannot be told from a frequency that is off.
    if np.count_nonzero(sample.seen.any(axis=0)) > 1:
        yield from (replace(plain, reduction=change) for change in angle_changes())
    if np.abs(sample.positions).max(initial=0) > _FLOAT32_INTEGERS:
        yield replace(plain, positions="float32")
        yield replace(plain, positions="float32", angles="float32")
        yield replace(plain, positions="float32", rates="float32", angles="float32")
    for half in HALVES:
        yield replace(plain, angles=half)
        yield replace(plain, positions=half, rates=half, angles=half)
        yield replace(plain, positions=half, angles=half)
        yield replace(plain, positions=half, rates=half)
        yield replace(plain, rates=half, angles=half)
    for coarse in (*TF32S, CUT_BFLOAT16):
        yield replace(plain, positions=coarse, rates=coarse)
    yield from (replace(plain, turn="backward", offset=offset) for offset in offsets)
    yield from _with_rules(replace(plain, turn="backward"), rules, fewest)
    yield from _with_rules(replace(plain, turn="swapped"), rules, fewest)
    for half in HALVES:
        yield replace(plain, cells=HALF_CELLS[half], positions=half, rates=half, angles=half)
        yield replace(plain, cells=HALF_CELLS[half], positions=half, angles=half)
        yield replace(plain, cells=HALF_CELLS[half], positions=half, rates=half)
        yield replace(plain, cells=HALF_CELLS[half], positions=half)
        yield replace(plain, cells=HALF_CELLS[half], rates=half, angles=half)
        yield replace(plain, cells=HALF_CELLS[half], rates=half)
        yield replace(plain, cells=HALF_CELLS[half], angles=half)
        yield from _with_rules(replace(plain, rates=half), likely, fewest)
        yield from _with_rules(replace(plain, positions=half), rules, fewest)
        yield from _with_rules(replace(plain, cells=HALF_CELLS[half]), rules, fewest)
    for kept in _read_off(sample, ("cos", "sin")):
        yield replace(plain, turn="backward", cells=kept)
        yield from (replace(plain, offset=offset, cells=kept) for offset in offsets[:4])
        yield from _with_rules(replace(plain, cells=kept), likely, fewest)
    restart = -int(sample.positions[0])  # of a part of a subject, whose rows count from 0 again
    for offset in [*offsets[:4], *([restart] if restart else [])]:
        yield from _with_rules(replace(plain, offset=offset), rules, fewest)


def _moved_and_rounded(sample: Sample) -> Iterator[Defect]:
    """Rows at other positions in tables all of whose values are numbers of a half precision."""
    cells = sample.factors[sample.seen]
    for half, coarse in HALF_CELLS.items():
        if half not in HALVES or not np.array_equal(coarse.rounded(cells[None])[0], cells):
            continue
        tolerance = replace(
            sample.tolerance, floor=sample.tolerance.floor + sample.amplitude * unit(half)
        )
        for moved in position_maps(replace(sample, tolerance=tolerance)):
            yield Defect(moved=moved, cells=coarse)


def _defects_of_one_table(
    sample: Sample, rules: Iterable[Alternative], offsets: list[float]
) -> Iterator[Defect]:
    """What may be wrong with the cosines alone, or the sines, where the others are right."""
    right, frequencies = Defect().prediction(sample)
    allowed = sample.tolerance.cells(
        sample.reference.angle_positions(sample.positions), frequencies
    ) * max(1.0, sample.amplitude)
    with np.errstate(invalid="ignore"):
        missed = sample.factors - right
        sound = [
            bool(((np.abs(part) + sample.stray <= allowed) | ~sample.seen).all())
            for part in (missed.real, missed.imag)
        ]
    if sound[0] == sound[1]:
        yield from _formats_of_both(sample) if not sound[0] else ()
        return
    parts = [Defect(offset=offset) for offset in offsets]
    if sample.reference.coordinates is None and (frequencies > 0).any():
        parts += [Defect(moved=positions) for positions in maps_from_the_first_wrong(sample)]
    parts += [Defect(cells=kept) for kept in HALF_CELLS.values()]
    parts += [Defect(frequencies=rule) for rule in rules]
    table = "sin" if sound[0] else "cos"
    parts += [Defect(cells=kept) for kept in _coarse_formats(sample, (table,))]
    for part in parts:
        yield Defect(sines=part) if sound[0] else Defect(cosines=part)


def _formats_of_both(sample: Sample) -> Iterator[Defect]:
    """Cosines in one format, and sines in another, where each explains nearly all of its table."""
    few = sample.rows(few_rows(sample.positions))
    right, frequencies = Defect().prediction(few)
    angles = few.reference.angle_positions(few.positions)
    allowed = few.tolerance.cells(angles, frequencies)
    kept: list[list[CellFormat]] = []
    for table in ("cos", "sin"):
        cells = few.factors.real if table == "cos" else few.factors.imag
        formats = [*HALF_CELLS.values(), *read_off_formats(sample.factors, (table,))]
        kept.append([])
        for each in formats:
            rounded = each.rounded(right)
            missed = np.abs(cells - (rounded.real if table == "cos" else rounded.imag))
            if (missed <= allowed).mean() >= ENOUGH:
                kept[-1].append(each)
    for cosines, sines in itertools.product(*kept):
        if cosines != sines:
            yield Defect(cosines=Defect(cells=cosines), sines=Defect(cells=sines))


def _coarse_formats(
    sample: Sample, tables: tuple[str, ...] = ("cos", "sin")
) -> Iterator[CellFormat]:
    """Formats whose scale is read off the cells, where these are enough to confirm it."""
    if np.count_nonzero(sample.seen) >= _FEWEST_CELLS:
        yield from coarse_formats(sample.factors)
        yield from _read_off(sample, tables)
        yield from cut_codes(sample.factors)


def _read_off(sample: Sample, tables: tuple[str, ...]) -> Iterator[CellFormat]:
    """The grids that the cells which are seen are on."""
    if np.count_nonzero(sample.seen) >= _FEWEST_CELLS:
        yield from read_off_formats(np.where(sample.seen, sample.factors, np.nan), tables)


def _products(sample: Sample) -> Iterator[CellFormat]:
    """Tables in a half precision times a factor, where there is one: that of position 0."""
    scale = sample.reference.scale
    factors = [scale]
    on_axes = sample.reference.coordinates is not None
    first = np.flatnonzero(sample.positions == 0)
    if not on_axes and first.size and sample.seen[first[0]].any():
        measured = float(sample.factors[first[0]][sample.seen[first[0]]].real.max())
        if abs(measured - scale) > _SAME_FACTOR * scale:
            factors.append(measured)
    if (scale, sample.amplitude) != (1.0, 1.0):
        yield from products(sample.amplitude, [factor for factor in factors if factor])


def _offsets(sample: Sample) -> list[float]:
    """Offsets of the position that are likely: small ones, and what slow pairs say."""
    likely: list[float] = [1, -1, 2, -2, 3, 4]
    right = sample.reference.frequencies
    slow = np.flatnonzero(right > 0)[-8:]
    if slow.size:
        angles = np.angle(sample.factors[:, slow])
        own = sample.reference.angle_positions(sample.positions)
        own_angles = (own[:, None] if own.ndim == 1 else own[:, slow]) * right[slow]  # (n, slow)
        for sign in (1, -1):
            missed = np.angle(np.exp(1j * (sign * angles - own_angles))) / right[slow]
            known = missed[np.isfinite(missed)]
            middle = float(np.median(known)) if known.size else 0.0
            if abs(middle) < 2**53:
                likely += [round(middle), round(middle) + 1, round(middle) - 1, round(middle, 2)]
    return [offset for offset in dict.fromkeys(likely) if offset]
