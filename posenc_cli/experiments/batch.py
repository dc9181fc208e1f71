"""Sequences of tokens, which of their places are scored, and where a curve shows each.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from posenc_cli.numerics.arrays import Flags

    Tokens = NDArray[np.int64]
    """(sequences, places) int64: tokens, or places of an axis."""


class TokenBatch(Record):
    """Sequences for a causal model: from ``inputs`` up to a place it tells ``targets`` there.

    All (sequences, places). Only places that are ``scored`` count; ``axis`` says at which of
    ``extent`` points of a curve each does.
    """

    inputs: Tokens
    targets: Tokens
    scored: Flags
    axis: Tokens
    extent: int


class TestSet(Record):
    """What a length is tested on, three ways that may share sequences.

    ``curve`` is scored at every place; ``last`` has the same sequences, scored at their last places
    alone. ``whole`` is what a mean is over: of a text pieces that do not overlap, where the windows
    of the others slide; of other tasks the sequences of the curve.
    """

    __test__ = False  # nothing that pytest runs

    curve: TokenBatch
    last: TokenBatch
    whole: TokenBatch
