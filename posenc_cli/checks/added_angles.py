"""Tables put together of coarse and fine angles, by the addition theorem with a wrong sign or term.

Row p is that of p − p mod B turned on by p mod B. The length B of a block is read off the rows that
are right: those of multiples of B, whose fine angle is 0, and perhaps those before B, whose coarse
angle is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import with_residual
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.defects import Defect
from posenc_cli.positions import ordinal
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import ComplexRows

_COSINES = {
    "cos a cos b + sin a sin b": (1, 1),
    "cos a cos b": (1, 0),
    "−sin a sin b": (0, -1),
    "sin a sin b": (0, 1),
    "sin a sin b − cos a cos b": (-1, 1),
}
"""Wrong cosines of a + b, and how often they hold cos a cos b and sin a sin b."""

_SINES = {
    "sin a cos b − cos a sin b": (1, -1),
    "cos a sin b − sin a cos b": (-1, 1),
    "sin a cos b": (1, 0),
    "cos a sin b": (0, 1),
    "−sin a cos b − cos a sin b": (-1, -1),
}
"""Wrong sines of a + b, and how often they hold sin a cos b and cos a sin b."""

_RIGHT_COSINE, _RIGHT_SINE = (1, -1), (1, 1)

_FIRST_ROWS = 1 << 14
"""Rows among which the first multiple of a block is looked for."""


def added_angles_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are made of coarse and fine angles that were added wrongly."""
    sample, reference = suspect.sample, suspect.sample.reference
    tables = suspect.examination.subject.is_tables
    if not tables or reference.coordinates is not None or sample.positions.min() < 0:
        return None
    for block in _blocks(suspect):
        for cosine, sine in _ways():

            def predicted(
                piece: Sample,
                block: int = block,
                cosine: str | None = cosine,
                sine: str | None = sine,
            ) -> ComplexRows:
                return _added(piece, block, cosine, sine)

            sized = replace(sample, amplitude=reference.scale)
            if not sized.explained_cells(predicted(sized), reference.frequencies).all():
                continue
            whole = suspect.whole.changed(
                lambda piece: replace(piece, amplitude=piece.reference.scale)
            )
            residual = reproduced(whole, predicted, reference.frequencies)
            if residual.whole:
                return with_residual(_cause(block, cosine, sine), residual)
    return None


def _ways() -> Iterator[tuple[str | None, str | None]]:
    """A wrong cosine, a wrong sine, or both; None where it is right."""
    ways = itertools.product((None, *_COSINES), (None, *_SINES))
    yield from sorted(ways, key=lambda way: sum(part is not None for part in way))[1:]


def _added(piece: Sample, block: int, cosine: str | None, sine: str | None) -> ComplexRows:
    """The factors that wrong formulas make of angles a, of whole blocks, and b, within one."""
    rates = piece.reference.frequencies
    fine = piece.positions % block
    a = np.exp(1j * np.multiply.outer((piece.positions - fine).astype(np.float64), rates))
    b = np.exp(1j * np.multiply.outer(fine.astype(np.float64), rates))
    straight, crossed = _RIGHT_COSINE if cosine is None else _COSINES[cosine]
    first, second = _RIGHT_SINE if sine is None else _SINES[sine]
    cosines = straight * a.real * b.real + crossed * a.imag * b.imag
    sines = first * a.imag * b.real + second * a.real * b.imag
    return np.asarray(piece.amplitude * (cosines + 1j * sines), np.complex128)


def _blocks(suspect: Suspect) -> Iterator[int]:
    """How many rows a block may have, as the first that are right and wrong show.

    Where rows of the first block are wrong, the second begins with one that is right; where they
    are right, so is the first row of the second block, and the next is wrong.
    """
    piece = suspect.whole.read(slice(0, min(suspect.whole.count, _FIRST_ROWS)))
    sized = replace(piece, amplitude=piece.reference.scale)
    sound = Defect().explained(sized).all(axis=1)  # (n,)
    if sound.all():
        return
    first = int(piece.positions[~sound].min())
    after = piece.positions[sound & (piece.positions > first)]
    blocks = (*after[:1].tolist(), first - 1, first)
    yield from dict.fromkeys(block for block in blocks if block > 1)


def _cause(block: int, cosine: str | None, sine: str | None) -> Explanation:
    texts = [
        f"{name} {formula}"
        for name, formula in (("cosines", cosine), ("sines", sine))
        if formula is not None
    ]
    right = {(True, False): "; the sines are right", (False, True): "; the cosines are right"}
    return Explanation(
        Cause.COS_SIN_MISPAIRED,
        f"the angles a of every {ordinal(block)} position and b of those up to the next are added "
        f"by a wrong formula: {' and '.join(texts)} stand for those of a + b",
        f"a is the angle of p − p mod {block}, b that of p mod {block}"
        + right.get((cosine is not None, sine is not None), ""),
    )
