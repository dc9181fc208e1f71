"""The cause of cells in codes of few bits whose scales differ by row, by group or by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.wording import words_of
from posenc_cli.inference.cell_grids import ColumnExtremes, block_codes
from posenc_cli.inference.claims import Claim
from posenc_cli.inference.defects import ENOUGH, Defect, few_rows, holds
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.verdict import Explanation
    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.cell_grids import BlockCodes
    from posenc_cli.inference.localise import Whole
    from posenc_cli.inference.sample import Sample

_FEWEST = 8
"""Rows that show whether columns hold few numbers."""

_SEEN = 0.9
"""Of the cells of the sample: the others may be no numbers."""

_REPEATED = 0.97
"""Of the cells of a column that 256 numbers are to stand for: more would be different in any."""

_FIRST, _EXPLAINED = 6, 0.8
"""Rows that most codes are ruled out by, and the share of their cells that one must explain."""


def quantized_causes(suspect: Suspect) -> list[Explanation]:
    """What codes the cells were kept in, where some explain them."""
    sample = suspect.sample
    if sample.seen.mean() < _SEEN or sample.positions.size < _FEWEST:
        return []
    chosen = few_rows(sample.positions)
    few = sample.rows(chosen)
    first = sample.rows(chosen[:: -(-chosen.size // _FIRST)])
    for codes in _likely_codes(suspect):
        defect = Defect(cells=codes)
        if defect.explained(first).mean() < _EXPLAINED or not holds(few, defect):
            continue
        residual = suspect.residual(defect)
        if residual.cells <= (1 - ENOUGH) * residual.of_cells:
            claim = Claim(defect, sample.amplitude)
            return list(words_of(claim, suspect, residual))
    return []


def _likely_codes(suspect: Suspect) -> Iterator[BlockCodes]:
    """Codes of rows and groups; of columns as well, where these hold the same numbers again."""
    pairs = suspect.sample.reference.pairs
    yield from block_codes(pairs)
    if _repeats(suspect.sample):
        yield from block_codes(pairs, _extremes(suspect.whole, suspect.sample.amplitude))


def _repeats(sample: Sample) -> bool:
    """Whether the column that changes most holds numbers that it holds in other rows."""
    column = sample.factors[:, int(np.argmax(sample.reference.frequencies))]
    rows = column.size
    return any(np.unique(part).size <= _REPEATED * rows for part in (column.real, column.imag))


def _extremes(whole: Whole, amplitude: float) -> tuple[ColumnExtremes, ColumnExtremes]:
    """The extremes of the columns of the right cosines, and of the right sines."""
    least = most = None
    for _, piece in whole.pieces():
        right, _ = Defect().prediction(replace(piece, amplitude=amplitude))
        parts = np.stack([right.real, right.imag])  # (2, n, pairs)
        low, high = parts.min(axis=1), parts.max(axis=1)
        least = low if least is None else np.minimum(least, low)
        most = high if most is None else np.maximum(most, high)
    assert least is not None
    assert most is not None
    cos, sin = (
        ColumnExtremes(low[None], high[None]) for low, high in zip(least, most, strict=True)
    )
    return cos, sin
