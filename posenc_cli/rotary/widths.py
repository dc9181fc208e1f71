"""Subjects of another width than the reference: which dim would fit them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import PosencError
from posenc_cli.formulas.parameters import as_text, option_words
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.reference import Reference
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.inference.turning import LAYOUTS, ROWS
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.turning import Turning
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, RealRows
    from posenc_cli.rotary.residual import Residual

_FEW = 48
"""Rows that are compared before all are."""

_UNEVEN = 0.05
"""Of the size of factors: what tables in a half precision, or of eight bits, differ by."""

_SLOWER = 0.999
"""Times the rate before: neighbours of the longest ladders differ by more than 0.01."""


_MOST_CELLS = 1 << 24
"""Cells of a table that are held at once, 256 MiB: 131072 positions of a head of 256 columns."""


class OtherWidth(Record):
    """A reference of another width, and the options that give it."""

    reference: Reference
    options: str


def of_width(reference: Reference, pairs: int) -> OtherWidth | None:
    """The reference with so many pairs, None where its scheme has none such.

    A head keeps its width where all of it has so many, else the share of it that turns.
    """
    bound = reference.encoding.bound
    share = 2 * reference.pairs / reference.head
    tried: list[dict[str, float]] = [{"dim": round(2 * pairs / share)}]
    if "partial" in bound.scheme.parameters and share < 1:
        tried.insert(0 if 2 * pairs == reference.head else 1, {"dim": 2 * pairs, "partial": 1.0})
    for changed in tried:
        given = {
            name: value
            for name, value in {**bound.params, **changed}.items()
            if name in bound.scheme.parameters and value is not None
        }
        try:
            other = Reference.of(Encoding.of(bound.scheme, given, seq_len=None), reference.engine)
            if other.pairs == pairs:
                words = (option_words(name, as_text(value)) for name, value in changed.items())
                return OtherWidth(other, " ".join(chain.from_iterable(words)))
        except PosencError:
            continue
    return None


def fits(turning: Turning, reference: Reference) -> bool:
    """Whether a subject turns its pairs as a reference of the same width does, at every row."""
    tolerance = Tolerance.of(
        "auto", dtype=turning.dtype, roundings=turning.roundings, amplitude=reference.scale
    )
    few = turning.read(turning.places.sample()[:_FEW])
    for block in chain([few], turning.blocks()):
        stray = block.stray()
        missed = np.abs(block.turned - reference.turns.at(block.positions))  # (n, pairs)
        missed = missed if stray is None else missed + stray
        followed = reference.angle_positions(block.positions)
        allowed = tolerance.cells(followed, reference.frequencies)
        unseen = False if block.seen is None else ~block.seen
        if not ((missed <= allowed) | unseen).all():
            return False
    return True


def ladder_of_all(turning: Turning) -> bool:
    """Whether every column of half tables turns at a rate of its own, each slower than the last.

    Full tables have each rate twice.
    """
    block = turning.read(turning.places.sample(256))
    sizes = np.abs(block.turned)  # (n, pairs)
    if not np.ptp(sizes) <= _UNEVEN * sizes.max(initial=0.0):
        return False
    rates = np.abs(fit(block.positions, block.turned).frequencies)
    return bool((rates[1:] < _SLOWER * rates[:-1]).all())


def transposed_residual(turning: Turning, reference: Reference) -> Residual | None:
    """What tables leave over whose rows are pairs, or columns, and whose columns are positions.

    None where no such table has so many rows, or full ones do not have each value twice.
    """
    from posenc_cli.rotary.residual import Residual

    rows, length = turning.places.count, turning.pairs
    if reference.coordinates is not None or reference.growth_at(np.zeros(1, np.int64)) is not None:
        return None
    if rows not in (reference.pairs, 2 * reference.pairs) or rows * length > _MOST_CELLS:
        return None
    table = _pairs_of_columns(turning.read(slice(0, rows)).turned, reference)
    if table is None:
        return None
    tolerance = Tolerance.of(
        "auto", dtype=turning.dtype, roundings=turning.roundings, amplitude=reference.scale
    )

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        for start in range(0, length, ROWS):
            positions = np.arange(start, min(start + ROWS, length), dtype=np.int64)
            missed = np.abs(table[:, positions].T - reference.turns.at(positions))  # (n, pairs)
            yield positions, missed, missed <= tolerance.cells(positions, reference.frequencies)

    return Residual.measure(held())


def _pairs_of_columns(table: ComplexRows, reference: Reference) -> ComplexRows | None:
    """The rows of pairs, of a row for each pair or for each column; None where columns differ."""
    if table.shape[0] == reference.pairs:
        return table
    for layout in LAYOUTS:
        first, second = paired_columns(layout, reference.pairs, reference.content.blocks)
        if np.array_equal(table[list(first)], table[list(second)]):
            return np.asarray(table[list(first)], np.complex128)
    return None
