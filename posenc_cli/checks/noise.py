"""Causes of cells that are off at random: cells that were dropped, and noise that was added.

What is called noise was looked at for patterns: it follows neither the right cells nor the rows and
pairs beside it, and errors of phase do not add up in any quarter of the rows. What is made of the
angle, by a table or a rounding that posenc does not know, is alike in rows that follow one another
where pairs are slow, and so is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.table_cells import TableCells, are_tables
from posenc_cli.checks.verdict import Explanation, Where
from posenc_cli.checks.wording import pairs_text, spec, with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Claim, Residual
from posenc_cli.inference.defects import Defect
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.localise import Rightness
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals

_LARGE = 0.3
"""Of the largest cell: what a cell was multiplied by shows in one so large."""

_FEWEST, _FEWEST_ROWS = 64, 24
"""Cells that were dropped, and rows that show whether noise has a pattern."""

_SHARES = 0.002, 0.98
"""Of the cells that may have been dropped at random."""

_DEVIATIONS, _CORRELATION = 5.0, 0.01
"""Standard deviations of a sum of so many, and a correlation besides: more is a pattern."""

_FINEST = 4.0
"""Times what a right cell may be off by: noise that is smaller is not told from it."""

_LARGEST = 0.5
"""Of the right cells: what is larger has little to do with them."""

_AS_LARGE = 0.2
"""What the size of noise may differ by from that of the cells that it multiplies."""

_SAMPLED = 256
"""Rows that show the size of noise."""

_CROWDED = 6.0
"""Standard deviations of how many of so many stand in one pair by chance."""

_FEWEST_DAMAGED, _MOST_DAMAGED, _ONE_BIT = 3, 0.05, 0.9
"""Cells that show no pattern, the largest share of all that is damage, and the share of them that
one bit must explain."""

_QUARTERS, _UNEVEN = 4, 0.1
"""Of the rows, in which noise is looked at apart, and what sizes may differ by there."""

_DIGITS_OF_HALF = 3
"""Of a number that cells in a half precision show."""


def dropped_cause(suspect: Suspect) -> Explanation | None:
    """Cells that were set to 0 here and there, and the others multiplied by one number."""
    if not are_tables(suspect):
        return None
    parts = TableCells.of(suspect, _sampled_rows(suspect))
    scale = suspect.examination.reference.scale
    large = np.abs(parts.right) > _LARGE * scale
    dropped = large & (parts.cells == 0)
    if np.count_nonzero(dropped) < min(_FEWEST, _SHARES[0] * large.sum()) or not dropped.any():
        return None
    kept = large & ~dropped
    if not kept.any():
        return None
    times = float(np.median(parts.cells[kept] / parts.right[kept]))
    half = next(
        (h for h in HALVES if np.array_equal(round_to_half(parts.cells, h), parts.cells)), None
    )
    rounding = 0.0 if half is None else 2 * unit(half)
    zeros = _Zeros()

    def held() -> Iterator[tuple[Integers, Reals, Flags]]:
        for some in TableCells.all_of(suspect):
            missed = np.abs(some.cells - times * some.right)
            near = missed <= max(1.0, abs(times)) * some.allowed + rounding * np.abs(some.cells)
            zero = some.cells == 0
            zeros.take(zero & ~near, np.abs(some.right) > _LARGE * scale)
            left = np.where(zero, 0.0, missed).max(axis=0)
            yield some.positions, left, (near | zero).all(axis=0)

    residual = Residual.measure(held())
    if not residual.whole or not _SHARES[0] <= zeros.share <= _SHARES[1]:
        return None
    text = zeros.pattern
    if text is None:
        return None
    digits = 6 if half is None else _DIGITS_OF_HALF
    return with_residual(_dropped_words(zeros, times, text, digits), residual)


def _sampled_rows(suspect: Suspect) -> Integers:
    return suspect.examination.subject.own.places.sample()


def _half_of(cells: RealRows) -> str | None:
    """The half precision that all cells are numbers of, None if there is none."""
    return next((h for h in HALVES if np.array_equal(round_to_half(cells, h), cells)), None)


def _dropped_words(zeros: _Zeros, times: float, text: str, digits: int) -> Explanation:
    """The cause of cells that were dropped, the factor of the others with so many digits."""
    share, error = zeros.share, zeros.error
    others = "the others are right"
    message = f"{text} were set to 0 at random"
    if abs(times - 1) > 2.0**-7 and abs(share - (1 - 1 / times)) <= _DEVIATIONS * error:
        dropped = f"{1 - 1 / times:.{digits - 1}g}"
        message = (
            f"dropout of p = {dropped}: {text} were set to 0 at random, and the others multiplied "
            f"by {times:.{digits}g} = 1/(1 − p)"
        )
        others = "the others are right times that"
    elif abs(times - 1) > 2.0**-7:
        others = f"the others are {times:.{digits}g} times the right ones"
    evidence = f"{zeros.dropped} of {zeros.cells} large cells are 0, {share:.2%}; {others}"
    return Explanation(Cause.NOISE, message, evidence)


@dataclass
class _Zeros:
    """Which large cells are 0: how many, and how often neighbours are so together."""

    cells: int = 0
    dropped: int = 0
    sums: dict[str, Reals] = field(default_factory=dict)
    by_rows: bool = True
    by_pairs: bool = True

    def take(self, zero: Flags, large: Flags) -> None:
        """Take in the next rows, (2, n, pairs): which cells are 0, and which would be large."""
        self.cells += int(np.count_nonzero(large))
        self.dropped += int(np.count_nonzero(zero & large))
        rows: Flags = np.asarray((zero & large).any(axis=(0, 2)))  # (n,)
        whole, seen = (zero | ~large).all(axis=(0, 2)), large.any(axis=(0, 2))
        self.by_rows &= not np.any((rows != whole) & seen)
        together = large.all(axis=0)
        self.by_pairs &= not np.any((zero != zero[:1]) & together)
        every = np.ones(rows.size - 1, bool)
        self._count("whole rows", rows[1:], rows[:-1], every)
        for name, a, b in (
            ("rows", np.s_[:, 1:], np.s_[:, :-1]),
            ("pairs", np.s_[:, :, 1:], np.s_[:, :, :-1]),
            ("tables", np.s_[:1], np.s_[1:]),
        ):
            self._count(name, zero[a], zero[b], large[a] & large[b])

    def _count(self, name: str, first: Flags, second: Flags, seen: Flags) -> None:
        """Count how often neighbours are 0, and both are, where both are seen."""
        before = self.sums.setdefault(name, np.zeros(4))
        before += [
            np.count_nonzero(flags & seen) for flags in (seen, first, second, first & second)
        ]

    @property
    def share(self) -> float:
        """The share of the large cells that are 0."""
        return self.dropped / max(self.cells, 1)

    @property
    def error(self) -> float:
        """The standard deviation of such a share, of so many drawn at random."""
        drawn = self.sums["whole rows"][0] if self.by_rows else self.cells
        return math.sqrt(self.share * (1 - self.share) / max(drawn, 1.0))

    @property
    def pattern(self) -> str | None:
        """What was dropped together at random, in words; None where cells are 0 by some rule."""
        alike = {name for name, sums in self.sums.items() if not _independent(*sums.tolist())}
        if self.by_rows:
            return None if "whole rows" in alike else "rows"
        if self.by_pairs:
            return None if alike & {"rows", "pairs"} else "cosines and sines of pairs"
        return None if alike else "cells"


def _independent(count: float, first: float, second: float, both: float) -> bool:
    """Whether two of so many are 0 together as often as those of chance are."""
    expected = first * second / max(count, 1.0)
    return abs(both - expected) <= _DEVIATIONS * math.sqrt(expected + 1) + _CORRELATION * expected


def damaged_cause(suspect: Suspect) -> Explanation | None:
    """Cells that hold anything, here and there, or one bit of which is flipped; all others right.

    Of very few cells a bit alone tells damage from what somebody wrote.
    """
    if not are_tables(suspect):
        return None
    wrong_cells, flipped, within = _Zeros(), 0, 0.0
    by_pair = np.zeros(suspect.examination.reference.pairs)
    first: tuple[int, int] | None = None
    for part in TableCells.all_of(suspect):
        missed = np.abs(part.cells - part.right)
        wrong = ~(missed <= part.allowed)
        wrong_cells.take(wrong, np.ones_like(wrong))
        if wrong.mean() <= _MOST_DAMAGED:
            flipped += int(np.count_nonzero(_one_bit_apart(part, wrong)))
        within = max(within, float(np.where(wrong, 0.0, missed).max()))
        by_pair += wrong.sum(axis=(0, 1))
        rows = wrong.any(axis=(0, 2))
        if first is None and rows.any():
            row = int(np.argmax(rows))
            first = int(part.positions[row]), int(np.argmax(wrong[:, row].any(axis=0)))
    count, cells = wrong_cells.dropped, wrong_cells.cells
    if first is None or wrong_cells.share > _MOST_DAMAGED:
        return None
    stored = suspect.examination.subject.dtype == "float32"
    bits = stored and flipped >= _ONE_BIT * count
    place = f"position {first[0]}, pair {first[1]}; the others are right, to {within:.2g}"
    if count < _FEWEST_DAMAGED:
        which = f"{count} of {cells} cells" if count > 1 else f"one of {cells} cells"
        message, where = f"one bit is flipped in {which}", Where(str(first[0]), str(first[1]))
        cause = Explanation(Cause.DAMAGED, message, place, where=where if count == 1 else None)
        return cause if bits else None
    usual = count / by_pair.size
    if wrong_cells.pattern != "cells" or by_pair.max() > usual + _CROWDED * math.sqrt(usual + 1):
        return None
    what = f": in {flipped} of them one bit flipped" if bits else ""
    return Explanation(
        Cause.DAMAGED,
        f"{count} of {cells} cells hold other values, scattered without a pattern{what}",
        f"the first at {place}",
    )


def _one_bit_apart(part: TableCells, wrong: Flags) -> Flags:
    """Which wrong cells are right once one bit of their float32 is turned. Shape: (cells,)."""
    stored = part.cells[wrong].astype(np.float32).view(np.uint32)
    turned = stored[:, None] ^ (np.uint32(1) << np.arange(32, dtype=np.uint32))  # (cells, 32)
    with np.errstate(all="ignore"):
        missed = np.abs(turned.view(np.float32).astype(np.float64) - part.right[wrong][:, None])
    return np.asarray((missed <= part.allowed[wrong][:, None]).any(axis=1), bool)


def noise_cause(suspect: Suspect) -> Explanation | None:
    """Right cells with something added, or multiplied, that has no pattern."""
    sample = suspect.sample
    if not are_tables(suspect) or sample.positions.size < _FEWEST_ROWS:
        return None
    rightness = Rightness.of(suspect.whole, Claim(Defect(), sample.reference.scale))
    pairs, start = ~rightness.pairs, int(np.argmin(rightness.rows))
    if start < _FEWEST_ROWS:
        start = 0
    later = np.unique(np.linspace(start, suspect.whole.count - 1, _SAMPLED).astype(np.int64))
    if not pairs.any() or later.size < _FEWEST_ROWS:
        return None
    parts = TableCells.of(suspect, later).part(np.ones(later.size, bool), pairs)
    missed = parts.cells - parts.right
    sure = parts.allowed <= 2 * sample.tolerance.floor
    if not sure.any():
        return None
    size = float(np.median(np.abs(missed[sure])))
    if not _FINEST * sample.tolerance.floor < size < _LARGEST * sample.reference.scale:
        return None
    spread = _Spread(size, suspect.whole.count - start)

    def held() -> Iterator[tuple[Integers, Reals, Flags]]:
        for piece in TableCells.all_of(suspect):
            some = piece.part(piece.rows >= start, pairs)
            if some.rows.size:
                spread.take(some)
                left = np.abs(some.cells - some.right).max(axis=0)
                yield some.positions, left, np.ones(left.shape, bool)

    residual = Residual.measure(held())
    words = spread.words
    if words is None or residual.largest > _FARTHEST * spread.deviation + float(spread.allowed):
        return None
    return _placed(with_residual(words, residual), suspect, pairs, start)


def _placed(words: Explanation, suspect: Suspect, pairs: Flags, start: int) -> Explanation:
    """Where noise is, and that all is right elsewhere."""
    places, texts = suspect.examination.subject.own.places, []
    first, last = places.at(np.array([start, suspect.whole.count - 1])).tolist()
    if start:
        texts.append(f"from position {first} on")
    if not pairs.all():
        texts.append(pairs_text(np.flatnonzero(pairs).tolist(), pairs.size))
    if not texts:
        return words
    rows = f"{first}:{last + 1}" if start else None
    where = Where(rows, None if pairs.all() else spec(np.flatnonzero(pairs)))
    return replace(
        words,
        message=f"{', '.join(texts)}: {words.message}",
        evidence=f"{words.evidence}; all is right elsewhere",
        where=where,
    )


_FARTHEST = 16.0
"""Times the standard deviation: a cell farther off is no noise of that size."""


@dataclass
class _Spread:
    """What cells are off by, of those that right code knows far nearer than ``size``."""

    size: float
    rows: int
    taken: int = 0
    count: float = 0.0
    squares: float = 0.0
    fourths: float = 0.0
    allowed: float = 0.0
    gains: RealRows | None = None
    turns: RealRows | None = None
    counts: RealRows | None = None
    energies: RealRows | None = None
    numbers: RealRows | None = None
    relative: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    products: dict[str, list[float]] = field(default_factory=dict)

    def take(self, parts: TableCells) -> None:
        """Take in the next rows."""
        sure = parts.allowed <= self.size / _FINEST  # (tables, n, pairs)
        off = np.where(sure, parts.cells - parts.right, 0.0)
        squares, right = off * off, np.where(sure, parts.right**2, 0.0)
        self.count += float(np.count_nonzero(sure))
        self.squares += float(squares.sum())
        self.fourths += float((squares * squares).sum())
        self.allowed = max(self.allowed, float(parts.allowed.max()))
        a, b, c, d = self.relative
        self.relative = (
            a + float((squares * right).sum()),
            b + float(right.sum()),
            c + float((right * right).sum()),
            d + float((squares / np.maximum(right, 1e-6)).sum()),
        )
        self._take_sums(off, parts, sure)
        slow = slice(3 * off.shape[2] // 4, None)
        for name, first, second in (
            ("row to row", off[:, 1:], off[:, :-1]),
            ("row to row in slow pairs", off[:, 1:, slow], off[:, :-1, slow]),
            ("pair to pair", off[:, :, 1:], off[:, :, :-1]),
            ("table to table", off[:1], off[1:]),
        ):
            sums = self.products.setdefault(name, [0.0, 0.0, 0.0])
            product = first * second
            sums[0] += float(product.sum())
            sums[1] += float((product * product).sum())
            sums[2] += float((np.abs(first * first) + np.abs(second * second)).sum()) / 2

    def _take_sums(self, off: RealRows, parts: TableCells, sure: Flags) -> None:
        """Errors of size and of phase, summed for each pair over quarters of the rows."""
        shape = (_QUARTERS, off.shape[2])
        if self.gains is None or self.turns is None or self.counts is None:
            self.gains, self.turns, self.counts = (np.zeros(shape) for _ in range(3))
        if self.energies is None or self.numbers is None:
            self.energies, self.numbers = np.zeros(shape), np.zeros(shape)
        quarters = (self.taken + np.arange(off.shape[1])) * _QUARTERS // max(self.rows, 1)
        self.taken += off.shape[1]
        gains = (off * parts.right).sum(axis=0)  # (n, pairs)
        turns = (off[1::2] * parts.right[::2] - off[::2] * parts.right[1::2]).sum(axis=0)
        known = np.where(sure, parts.right**2, 0.0).sum(axis=0)
        energies, numbers = (off * off).sum(axis=0), sure.sum(axis=0)
        for quarter in np.unique(quarters):
            chosen = quarters == quarter
            self.gains[quarter] += gains[chosen].sum(axis=0)
            self.turns[quarter] += turns[chosen].sum(axis=0)
            self.counts[quarter] += known[chosen].sum(axis=0)
            self.energies[quarter] += energies[chosen].sum(axis=0)
            self.numbers[quarter] += numbers[chosen].sum(axis=0)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.squares / max(self.count, 1.0))

    @property
    def even(self) -> bool:
        """Whether it is as large in every pair and every quarter of the rows."""
        assert self.energies is not None
        assert self.numbers is not None
        numbers = np.maximum(self.numbers, 1.0)
        shares = self.energies / numbers / max(self.squares / max(self.count, 1.0), 1e-300)
        kurtosis = self.fourths * self.count / max(self.squares**2, 1e-300)
        limits = _UNEVEN + _DEVIATIONS * np.sqrt(max(kurtosis - 1, 0.0) / numbers)
        return bool((np.abs(shares - 1) <= limits)[self.numbers >= _FEWEST_ROWS].all())

    @property
    def farthest_correlation(self) -> float:
        """The largest correlation of what is off with its neighbours."""
        return max(abs(p) / max(s, 1e-300) for p, _, s in self.products.values())

    @property
    def patterned(self) -> bool:
        """Whether it follows the right cells, or its neighbours, or is larger in some places."""
        assert self.gains is not None
        assert self.turns is not None
        assert self.counts is not None
        if not self.even:
            return True
        for product, squares, sizes in self.products.values():
            if abs(product) > _DEVIATIONS * math.sqrt(squares) + _CORRELATION * sizes:
                return True
        deviation = self.deviation
        limits = _DEVIATIONS * deviation * np.sqrt(np.maximum(self.counts, 1.0))
        limits += _CORRELATION * deviation * self.counts
        return bool(any((np.abs(sums) > limits).any() for sums in (self.gains, self.turns)))

    @property
    def words(self) -> Explanation | None:
        """That it is noise, in words; None where it has a pattern."""
        if self.count < _FEWEST or self.gains is None or self.patterned:
            return None
        follows, right, fourths, _ = self.relative
        mean = right / self.count
        variance = fourths / self.count - mean * mean
        covariance = follows / self.count - mean * self.squares / self.count
        message = f"noise of size {self.deviation:.2g} (standard deviation) was added to the cells"
        added = variance <= 0 or (
            abs(covariance / variance * mean * self.count / self.squares - 1) >= _AS_LARGE
        )
        if not added:
            share = math.sqrt(self.squares / right)
            message = (
                f"the cells were multiplied by noise: {share:.2g} of each (standard deviation)"
            )
        kind = self.kind if added else ""
        return Explanation(
            Cause.NOISE,
            f"{message}; every pair follows its frequency, and what is left has no pattern",
            f"what is left correlates by at most {self.farthest_correlation:.2g} from row to row, "
            f"pair to pair and table to table, and its phase adds up in no quarter of the "
            f"rows{kind}",
        )

    @property
    def kind(self) -> str:
        """How it is spread, in words that follow others; empty where no known noise is so."""
        kurtosis = self.fourths * self.count / self.squares**2
        limit = 0.1 + _DEVIATIONS * math.sqrt(24 / self.count)
        for name, known in (("normal", 3.0), ("uniform", 1.8)):
            if abs(kurtosis - known) <= limit:
                return f", spread as {name} noise is"
        return ""
