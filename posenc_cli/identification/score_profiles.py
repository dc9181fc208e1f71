"""Arrays read as biases on attention scores: a number for each offset j − i, or for each key.

Which of the two is seen first; schemes then say, by their inverses, which gives such numbers.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Flags, HeadMatrices, Integers, NumberArray, RealRows

_MASKED = -1e9
"""A lower score is a mask's: no bias comes near it."""
_SAMPLED = 24
"""Rows of queries that are looked at first."""
_MOST_HEADS = 256
"""Of a bias: models have up to 128, and each head of each candidate is computed."""
_WRONG_OF = 16
"""One cell in so many to the right of a causal mask may hold anything."""


class BiasProfile(Record):
    """A bias as a number for each offset j − i or each key. Shape: ``values`` (heads, indices).

    What a mask hides is NaN; ``causal`` says that keys to the right hold 0 in its place.
    ``scatter`` is the largest difference of cells that must be equal.
    """

    by: Literal["offset", "key"]
    indices: Integers
    values: RealRows
    keys: int
    queries: int
    single: bool
    scatter: float
    causal: bool = False

    @property
    def heads(self) -> int:
        """How many heads the array has."""
        return int(self.values.shape[0])


def profiles_of(evidence: Evidence) -> list[BiasProfile]:
    """The biases that an array may be, whose cells depend on the key, or on the offset, alone.

    One row of scores may be either; its query is then the last.
    """
    profiles = [_profile(evidence, by) for by in ("key", "offset")]
    return [profile for profile in profiles if profile is not None]


def _profile(evidence: Evidence, by: Literal["offset", "key"]) -> BiasProfile | None:
    array = evidence.arrays[0]
    if len(evidence.arrays) != 1 or array.dtype.kind == "c" or array.ndim not in (2, 3):
        return None
    single = array.ndim == 2
    cube = array[None] if single else array
    queries, keys = cube.shape[1:]
    if keys < 3 or queries not in (1, keys) or (single and queries == 1):
        return None
    if cube.shape[0] > _MOST_HEADS:
        return None
    for rows in _query_rows(queries):
        profile = _profile_of_rows(cube, rows, evidence, by)
        if profile is not None:
            return replace(profile, single=single)
    return None


def _query_rows(queries: int) -> Iterator[Integers]:
    """Rows that show a bias: some with the last; others, for one of the first may be damaged."""
    rows = np.unique(np.linspace(0, queries - 1, _SAMPLED).astype(np.int64))
    yield rows
    # The offsets that occur are all in the first and the last two rows.
    if queries > 2 * _SAMPLED:
        yield np.unique([1, *(rows[1:-1] + 1).tolist(), queries - 2])


def _profile_of_rows(
    cube: NumberArray,
    rows: Integers,
    evidence: Evidence,
    by: Literal["offset", "key"],
) -> BiasProfile | None:
    queries, keys = cube.shape[1:]
    sample = evidence.clean(np.asarray(cube[:, rows, :], np.float64)).copy()
    offsets = np.arange(keys)[None, :] - (rows + keys - queries)[:, None]  # (rows, keys)
    hidden = hidden_scores(sample)
    future = np.broadcast_to(offsets > 0, sample.shape)
    # A cell behind a mask may be damaged as well as any.
    few = _WRONG_OF * np.count_nonzero(sample[future]) < np.count_nonzero(future)
    causal = bool(not hidden.any() and queries > 1 and few and sample[~future].any())
    if causal:
        hidden = future.copy()
    sample[hidden] = np.nan
    if not np.isfinite(sample).any() or np.nanmax(sample) > -_MASKED:
        return None
    where = np.broadcast_to(np.arange(keys), offsets.shape) if by == "key" else offsets
    indices, values, scatter = _gather(sample, where)
    size = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    if not scatter <= 4 * unit(evidence.values.name) * size:
        return None
    return BiasProfile(by, indices, values, keys, queries, False, scatter, causal)


def hidden_scores(scores: NumberArray) -> Flags:
    """Which scores are so low that attention does not see their keys."""
    return np.asarray(scores < _MASKED)


def _gather(sample: HeadMatrices, where: Integers) -> tuple[Integers, RealRows, float]:
    """The value of each index, the same wherever it stands, and how far they are from that."""
    indices, inverse = np.unique(where, return_inverse=True)
    inverse = inverse.reshape(where.shape)
    heads = sample.shape[0]
    low, high = np.full((heads, indices.size), np.inf), np.full((heads, indices.size), -np.inf)
    for row in range(sample.shape[1]):
        at, values = inverse[row], sample[:, row]
        low[:, at] = np.fmin(low[:, at], values)
        high[:, at] = np.fmax(high[:, at], values)
    seen = np.isfinite(low)
    scatter = float((high[seen] - low[seen]).max()) if seen.any() else 0.0
    values = np.full(low.shape, np.nan)
    values[seen] = (low[seen] + high[seen]) / 2
    return indices, values, scatter
