"""Which columns a function pairs, as the matrices of unit vectors show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.turning import ColumnPairing

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals, UnitMatrices


@np.errstate(invalid="ignore")  # of what is infinite
def read_as(
    matrices: UnitMatrices, pairing: ColumnPairing
) -> tuple[NumberArray, NumberArray, Reals, Reals]:
    """Turned and mirrored parts of the pairs of a pairing, the norm of all else, and its part.

    That part is what becomes of the columns that no pair has: without it, the rest is as much less.

    ``matrices`` is [k, j, o]: column o of what becomes of unit vector j. Columns without a pair
    are meant to stay as they are.
    """
    first, second = list(pairing.first), list(pairing.second)
    out_first, out_second = list(pairing.out_first), list(pairing.out_second)
    a, b = matrices[:, first, out_first], matrices[:, second, out_first]
    c, d = matrices[:, first, out_second], matrices[:, second, out_second]
    a, b, c, d = (entries.astype(np.float64) for entries in (a, b, c, d))
    turned = ((a + d) + 1j * (c - b)) / 2  # (k, pairs)
    mirrored = ((a - d) + 1j * (c + b)) / 2
    rest = matrices.astype(np.float64)  # (k, columns, columns)
    for inside in (first, second):
        for outside in (out_first, out_second):
            rest[:, inside, outside] = 0
    others = pairing.others(matrices.shape[1])
    rest[:, others, others] -= 1
    norm = np.sqrt(np.einsum("kjo,kjo->k", rest, rest))
    rest[:, :, others] = 0
    return turned, mirrored, norm, norm - np.sqrt(np.einsum("kjo,kjo->k", rest, rest))


def pairing_of(
    positions: Integers,
    matrices: UnitMatrices,
    reference: Reference,
    near: Callable[[], UnitMatrices],
) -> ColumnPairing:
    """How a function pairs columns: the first of the known ways that leaves little over.

    Where none does, each column's partner is the one that it mixes with most. ``near()`` is what
    becomes of unit vectors at the first positions.
    """
    candidates = reference.likely_pairings(matrices.shape[1])
    finite = np.where(np.isfinite(matrices), matrices, 0)
    strays = [stray(finite, candidate) for candidate in candidates]
    best = int(np.argmin(strays))
    # More than a half precision leaves over: none of the known ways it is.
    if strays[best] > 1e-2:
        by_partners = _by_partners(positions, finite)
        if by_partners is not None and stray(finite, by_partners) < 0.5 * strays[best]:
            return _in_order(by_partners, positions, finite, reference, near())
    # The reference's own way is kept where float32 leaves no more, or no other is nearer.
    return candidates[0 if strays[0] <= max(1e-3, 1.001 * strays[best]) else best]


def stray(matrices: UnitMatrices, pairing: ColumnPairing) -> float:
    """The most that is no turn of a pair, nor columns without one that become multiples."""
    _, mirrored, rest, passed = read_as(matrices, pairing)
    others = pairing.others(matrices.shape[1])
    become = matrices[:, :, others].astype(np.float64)  # (k, columns, others)
    sizes = np.einsum("kjj->k", become[:, others]) / max(len(others), 1)
    become[:, others] -= sizes[:, None, None] * np.eye(len(others))
    changed = np.linalg.norm(become, axis=(1, 2))
    return float(np.abs(mirrored).max(initial=0) + (rest - passed + changed).max(initial=0))


def _by_partners(positions: Integers, matrices: UnitMatrices) -> ColumnPairing | None:
    """Each column with the one that it mixes with most; None where these are no pairs.

    Where columns come out in another order, as position 0 shows it, they are paired going in.
    """
    out = _order_of_columns(positions, matrices)
    mixing = np.abs(matrices[:, :, out]).max(axis=0)  # (columns, columns)
    mixing = np.maximum(mixing, mixing.T)
    np.fill_diagonal(mixing, 0)
    partners = mixing.argmax(axis=1)
    # Less is the rounding of a product that should be 0.
    moved = [j for j in range(partners.size) if mixing[j, partners[j]] > 1e-6]
    if not moved or any(partners[partners[j]] != j for j in moved):
        return None
    first = [j for j in moved if j < partners[j]]
    return _paired(first, [int(partners[j]) for j in first], out)


def _order_of_columns(positions: Integers, matrices: UnitMatrices) -> Integers:
    """Where each column comes out at position 0, which turns nothing."""
    columns = np.arange(matrices.shape[1])
    for still in np.abs(matrices[positions == 0][:1]):
        order: Integers = still.argmax(axis=1)
        permuted = np.eye(columns.size)[order]
        if np.array_equal(np.sort(order), columns) and np.abs(still - permuted).max() < _SAME_TURN:
            return order
    return columns


def _paired(first: list[int], second: list[int], out: Integers) -> ColumnPairing:
    out_first, out_second = (tuple(out[columns].tolist()) for columns in (first, second))
    return ColumnPairing(tuple(first), tuple(second), out_first, out_second, None, None)


def _in_order(
    pairing: ColumnPairing,
    positions: Integers,
    matrices: UnitMatrices,
    reference: Reference,
    near: UnitMatrices,
) -> ColumnPairing:
    """The pairs in the order of the reference's that turn as they do, each in its direction.

    Where some turn otherwise, what becomes of unit vectors at the first positions, ``near`` (rows,
    columns, columns), tells their directions, and the order of irregular ones: the fastest first.
    """
    turned = read_as(matrices, pairing)[0]  # (k, pairs)
    right = reference.turns.at(positions)  # (k, pairs of the reference)
    apart = np.stack(
        [np.abs(way[:, :, None] - right[:, None]).max(axis=0) for way in (turned, turned.conj())]
    )  # (2, pairs, pairs of the reference)
    nearest = apart.min(axis=0)
    matching = nearest.argmin(axis=1)
    order = np.arange(pairing.pairs)
    if np.array_equal(np.sort(matching), order) and nearest.min(axis=1).max() <= _SAME_TURN:
        backward = apart[1].min(axis=1) < apart[0].min(axis=1)
        order = np.argsort(matching)
    else:
        last = read_as(near, pairing)[0][-1]  # (pairs,)
        backward = last.imag < 0
        if len({b - a for a, b in zip(pairing.first, pairing.second, strict=True)}) > 1:
            order = np.argsort(-np.abs(np.angle(last)), kind="stable")
    pairs = zip(pairing.first, pairing.second, backward, strict=True)
    columns = [(b, a) if turns_back else (a, b) for a, b, turns_back in pairs]
    first, second = ([columns[i][end] for i in order] for end in (0, 1))
    out = np.arange(matrices.shape[1])
    for inside, outside in (
        (pairing.first, pairing.out_first),
        (pairing.second, pairing.out_second),
    ):
        out[list(inside)] = outside
    return _paired(first, second, out)


_SAME_TURN = 1e-2
"""Of a factor: two pairs that turn alike as far as a half precision shows it."""
