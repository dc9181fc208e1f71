"""Rows that have the frequencies of their own length, as where a cache is not turned anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.formulas.scaled import dynamic_base, rope_dynamic
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import nearest_rotations
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows, Flags, RealRows, Reals

_WINDOWS = (64, 8)
"""Rows that show of which length their base is: many of one block, or few of a short one."""

_PIECE = 1024
"""Rows that are read at a time, to see how far a length goes."""

_MOST_BLOCKS = 512
"""Blocks of rows that are looked for: more are a length a row, or no rule."""

_FEWEST_BLOCKS = 3
"""Fewer are told one by one."""

_NEAR = (0, 1, -1, 2, -2)
"""Added to a length that was measured and rounded."""

_FARTHEST = 1e12
"""A length past which none is looked for."""

_SHOWN = 4
"""Lengths that a message has where they follow no rule."""


class _DynamicBase(Record):
    """How dynamic NTK's frequencies follow the length of the sequence."""

    params: Mapping[str, float]
    pairs: int

    @property
    def limit(self) -> int:
        """The length up to which nothing is stretched."""
        return int(self.params["max_position_embeddings"])

    def rates(self, lengths: RealRows) -> RealRows:
        """The frequencies at lengths (n, 1). Shape: (n, pairs)."""
        base = dynamic_base(self.params, np.maximum(lengths, self.limit))
        return np.asarray(base ** -(np.arange(self.pairs) / self.pairs), np.float64)

    def length(self, rates: Reals) -> float | None:
        """The length of which measured frequencies (pairs,) are, None where they are of none."""
        inner = np.arange(1, self.pairs)
        with np.errstate(all="ignore"):
            logarithms = -np.log(rates[inner]) * self.pairs / inner
        known = logarithms[np.isfinite(logarithms)]
        if not known.size:
            return None
        power = (float(np.median(known)) - math.log(self.params["base"])) * (
            (self.pairs - 1) / self.pairs
        )
        factor = self.params["factor"]
        return self.limit / factor * (math.exp(min(power, 60.0)) + factor - 1)


class _GrownRows(Record):
    """Rows from ``start`` to before ``stop`` that have the base of one length."""

    start: int
    stop: int
    length: int


def own_length_cause(suspect: Suspect) -> Explanation | None:
    """Dynamic NTK whose base is that of the length when a row, or a block of rows, was made."""
    reference = suspect.sample.reference
    if reference.encoding.bound.scheme is not rope_dynamic or reference.pairs < 2:
        return None
    rule = _DynamicBase(reference.params, reference.pairs)
    positions = suspect.sample.positions
    if (positions < 0).any() or positions.max() < rule.limit:
        return None
    return _row_by_row_cause(suspect, rule) or _blocks_cause(suspect, rule)


def _row_by_row_cause(suspect: Suspect, rule: _DynamicBase) -> Explanation | None:
    """The cause where the base at row m is that of a sequence of m + 1 positions."""

    def predicted(piece: Sample) -> ComplexRows:
        return _turned(piece, rule.rates(piece.positions[:, None].astype(np.float64) + 1))

    plain = rule.rates(np.zeros((1, 1)))[0]
    if not suspect.sample.explained_cells(predicted(suspect.sample), plain).all():
        return None
    residual = reproduced(suspect.whole, predicted, plain)
    if not residual.whole:
        return None
    message = f"past position {rule.limit - 1} each row has the base of its own length, m + 1"
    evidence = "as keys in a cache that is not turned anew while the sequence grows"
    return with_residual(Explanation(Cause.FREQUENCY_RULE, message, evidence), residual)


def _blocks_cause(suspect: Suspect, rule: _DynamicBase) -> Explanation | None:
    """The cause where rows were made in blocks, each with the base of a length of its own."""
    blocks = _blocks(suspect, rule)
    if blocks is None or len(blocks) < _FEWEST_BLOCKS:
        return None
    stops = np.array([block.stop for block in blocks])
    lengths: Reals = np.array([float(block.length) for block in blocks])

    def predicted(piece: Sample) -> ComplexRows:
        which = np.searchsorted(stops, piece.positions, side="right")
        return _turned(piece, rule.rates(lengths[which][:, None]))

    residual = reproduced(suspect.whole, predicted, rule.rates(np.zeros((1, 1)))[0])
    if not residual.whole:
        return None
    message = f"the rows were made in {len(blocks)} blocks, {_lengths_text(blocks, rule.limit)}"
    bases = ", ".join(f"{block.start}–{block.stop - 1}: {block.length}" for block in blocks[:2])
    evidence = (
        "as a cache whose older rows are not turned anew while the sequence grows; of the lengths "
        f"{bases}, …, {blocks[-1].start}–{blocks[-1].stop - 1}: {blocks[-1].length}"
    )
    return with_residual(Explanation(Cause.FREQUENCY_RULE, message, evidence), residual)


def _turned(piece: Sample, rates: RealRows) -> ComplexRows:
    """The factors of rates (n, pairs) of each row. Shape: (n, pairs)."""
    angles = piece.positions[:, None] * rates
    return np.asarray(piece.amplitude * np.exp(1j * angles), np.complex128)


def _lengths_text(blocks: list[_GrownRows], limit: int) -> str:
    """What the lengths of blocks follow, in words."""
    stretched = [block for block in blocks if block.length > limit]
    sizes = {block.length - block.start for block in stretched}
    ends = all(block.length == block.stop for block in stretched[:-1])
    if ends and stretched[-1].length >= stretched[-1].stop:
        rule = "each with the base of the length at its end"
        if len(sizes) == 1:
            return f"of {sizes.pop()} rows past position {stretched[0].start - 1}, {rule}"
        if all(block.length == 2 * block.start for block in stretched):
            return f"each as long as all before it past position {stretched[0].start - 1}, {rule}"
        return rule
    if all(block.length == block.start for block in stretched):
        return "each with the base of the length before it"
    shown = ", ".join(str(block.length) for block in stretched[:_SHOWN])
    more = ", …" if len(stretched) > _SHOWN else ""
    return f"each with the base of a length of its own: {shown}{more}"


def _blocks(suspect: Suspect, rule: _DynamicBase) -> list[_GrownRows] | None:
    """The blocks of all rows, None where some are of no length, or not at positions 0, 1, 2, …."""
    count = suspect.whole.count
    ends = suspect.whole.read(np.array([0, count - 1], np.int64)).positions
    if ends.tolist() != [0, count - 1]:
        return None
    blocks: list[_GrownRows] = []
    row = 0
    while row < count:
        reached = [
            _GrownRows(row, stop, length)
            for length in _likely_lengths(suspect, rule, blocks, row)
            if (stop := _stop(suspect, rule, row, length)) > row
        ]
        if not reached or len(blocks) == _MOST_BLOCKS:
            return None
        blocks.append(max(reached, key=lambda block: block.stop))
        row = blocks[-1].stop
    return blocks


def _likely_lengths(
    suspect: Suspect, rule: _DynamicBase, blocks: list[_GrownRows], row: int
) -> Iterator[int]:
    """Of which length the rows from one on may be: as the blocks before go on, or as measured."""
    lengths = [rule.limit]
    if len(blocks) > 1:
        before, last = blocks[-2:]
        lengths += [2 * last.length - before.length, 2 * last.length]
    for rows in _WINDOWS:
        window = suspect.whole.read(slice(row, min(row + rows, suspect.whole.count)))
        rotations = nearest_rotations(window)
        measured = None if rotations is None else rule.length(np.abs(rotations.frequencies))
        if measured is not None and rule.limit < measured < _FARTHEST:
            lengths += [round(measured) + near for near in _NEAR]
    first = window.rows(np.arange(1))
    for length in dict.fromkeys(length for length in lengths if length >= rule.limit):
        if _explained(first, rule, length).all():
            yield length


def _explained(piece: Sample, rule: _DynamicBase, length: int) -> Flags:
    """Which rows a length explains. Shape: (n,)."""
    rates = rule.rates(np.array([[float(length)]]))
    return np.asarray(piece.explained_cells(_turned(piece, rates), rates[0]).all(axis=1), bool)


def _stop(suspect: Suspect, rule: _DynamicBase, row: int, length: int) -> int:
    """The first row from one on that is not of a length."""
    count = suspect.whole.count
    for first in range(row, count, _PIECE):
        piece = suspect.whole.read(slice(first, min(first + _PIECE, count)))
        right = _explained(piece, rule, length)
        if not right.all():
            return first + int(np.argmin(right))
    return count
