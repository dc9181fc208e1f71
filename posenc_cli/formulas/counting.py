"""The simple encodings that lead up to sinusoids: counting, normalizing, bits, and none at all."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Capacity, Rows, absolute, within_length
from posenc_cli.formulas.parameters import Dim, Param, SequenceLength
from posenc_cli.numerics.double_double import quotient
from posenc_cli.positions import LARGEST_POSITION


@absolute(
    source="the classical first attempt; see Vaswani et al. 2017 §3.5 for what replaced it",
    formula="PE[p, c] = p",
)
def integer(*, dim: Dim = 64) -> Rows:
    """The position itself, in every column.

    Unique and linear, but unbounded: it outgrows the embeddings it is added to.
    """

    def rows(xp: Any, positions: Any, _table: None, denominator: int) -> Any:
        return _quotients(xp, positions, denominator, dim)

    return Rows(dim, rows, limit=math.inf, domain="real")


@absolute(
    source="the classical second attempt",
    formula="PE[p, c] = p / seq_len",
)
def normalized(*, dim: Dim = 64, seq_len: SequenceLength = None) -> Rows:
    """The position as a share of the length, in every column.

    Bounded, but the same distance becomes a different number at another length.
    """
    if seq_len is not None and seq_len > LARGEST_POSITION:
        raise InvalidInput(f"--set seq_len {seq_len}: normalized divides by it, exact up to 2^53")

    def rows(xp: Any, positions: Any, _table: None, denominator: int) -> Any:
        parts = (seq_len or 1) * denominator
        if int(float(parts)) != parts:
            raise InvalidInput(
                f"--set seq_len {seq_len}: normalized divides by it and by {denominator} parts "
                "of 1, exact up to 2^53"
            )
        return _quotients(xp, positions, parts, dim)

    return Rows(dim, rows, capacity=within_length(seq_len), limit=1, domain="positive")


@absolute(
    source="the bits of a counter, whose smooth counterpart sinusoids are",
    formula="PE[p, c] = bit c of p",
)
def binary(
    *,
    dim: Dim = 64,
    order: Annotated[
        Literal["msb-first", "lsb-first"], Param("whether column 0 is the highest or lowest bit")
    ] = "msb-first",
) -> Rows:
    """The bits of the position, one per column.

    Unique and bounded, but neighbours can differ in many columns.
    """

    def rows(xp: Any, positions: Any, _table: None) -> Any:
        bits = xp.arange(dim - 1, -1, -1) if order == "msb-first" else xp.arange(dim)
        # Past bit 62 an int64 position has none; shifting further is undefined in C.
        shifted = positions[:, None] >> xp.minimum(bits, xp.asarray(62))[None, :]
        return xp.asarray(shifted & 1, dtype=xp.float64)

    capacity = Capacity(2**dim, f"{dim} bits", f"--dim {dim + 1} doubles it")
    return Rows(dim, rows, positions="indices", capacity=capacity, limit=1)


@absolute(
    source="Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466",
    formula="PE[p, c] = 0",
)
def nope(*, dim: Dim = 64) -> Rows:
    """No positional encoding: zeros.

    A causal decoder can still tell positions apart by how many keys each query sees.
    """

    def rows(xp: Any, positions: Any, _table: None, _denominator: int) -> Any:
        return xp.zeros((positions.shape[0], dim), dtype=xp.float64)

    return Rows(dim, rows, positions="unused", limit=0, domain="real")


def _quotients(xp: Any, positions: Any, divisor: int, dim: int) -> Any:
    """Positions over a divisor, the same in every column: (high, low), each (P, dim)."""
    parts = quotient(xp.asarray(positions, dtype=xp.float64), float(divisor))
    return tuple(xp.broadcast_to(part[:, None], (part.shape[0], dim)) for part in parts)
