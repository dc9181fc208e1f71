"""Arrays read as biases on attention scores: a number for each offset j − i, key or pair of places.

Which of them is seen first; schemes then say, by their inverses, which gives such numbers.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Flags, HeadMatrices, Integers, NumberArray, RealRows

    PairNumber = Callable[[Any, Integers, Integers], Integers]
    """An array namespace, queries and keys to the number of each pair of them."""

_MASKED = -1e9
"""A lower score is a mask's: no bias comes near it."""
_SAMPLED = 24
"""Rows of queries that are looked at first."""
_FEW = 8
"""Of these, for a bias that goes by pairs of places: where they show none, no others do."""
_MOST_HEADS = 256
"""Of a bias: models have up to 128, and each head of each candidate is computed."""
_WRONG_OF = 16
"""One cell in so many to the right of a causal mask may hold anything."""
_MOST_PLACES, _MOST_CELLS = 1 << 10, 1 << 24
"""Of a bias that goes by pairs of places, all of whose rows are looked at: Swin's largest have 576
places, and float64 takes 128 MiB for so many cells."""


class BiasProfile(Record):
    """A bias as a number for each offset j − i, key or pair. Shape: ``values`` (heads, indices).

    What a mask hides is NaN; ``causal`` says that keys to the right hold 0 in its place.
    ``scatter`` is the largest difference of cells that must be equal. ``number(xp, queries, keys)``
    numbers pairs.
    """

    by: Literal["offset", "key", "pair"]
    indices: Integers
    values: RealRows
    keys: int
    queries: int
    single: bool
    scatter: float
    causal: bool = False
    number: PairNumber | None = None

    @property
    def heads(self) -> int:
        """How many heads the array has."""
        return int(self.values.shape[0])

    @property
    def every(self) -> Integers:
        """All indices that cells have, in order."""
        if self.by == "pair":
            return self.indices
        first = int(self.indices[0]) if self.by == "key" else 1 - self.keys
        return np.arange(first, first + self.keys if self.by == "key" else self.keys)

    def places(self, offsets: Integers) -> Integers:
        """Where in ``every`` the index of each cell of some queries is. Shape: as ``offsets``."""
        if self.number is None:
            return _indices(self.by, offsets) - (1 - self.keys if self.by == "offset" else 0)
        return np.searchsorted(self.every, _indices(self.by, offsets, self.number))


def profiles_of(evidence: Evidence) -> list[BiasProfile]:
    """The biases that an array may be, whose cells depend on the key, or on the offset, alone.

    One row of scores may be either; its query is then the last. Keys are counted from where a line
    through their scores says that it is 0, or from 0.
    """
    profiles = [profile_of(evidence, by) for by in ("key", "offset")]
    known = [profile for profile in profiles if profile is not None]
    if profiles[0] is not None and (first := _first_key(profiles[0].values)):
        known.insert(1, replace(profiles[0], indices=profiles[0].indices + first))
    return known


def _first_key(values: RealRows) -> int:
    """The key that scores (heads, keys) begin at which are multiples of it; 0 of others."""
    slopes = (values[:, -1] - values[:, 0]) / (values.shape[1] - 1)
    with np.errstate(all="ignore"):
        first = float(np.median(values[:, 0] / slopes))
    return round(first) if 0 < first < LARGEST_POSITION else 0


def profile_of(
    evidence: Evidence,
    by: Literal["offset", "key", "pair"],
    number: PairNumber | None = None,
) -> BiasProfile | None:
    """The bias that an array may be, whose cells depend on such indices alone; None of others."""
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
    ways = _query_rows(queries)
    if number is not None:
        few = np.unique(np.linspace(0, queries - 1, _FEW).astype(np.int64))
        moderate = queries == keys <= _MOST_PLACES and cube.size <= _MOST_CELLS
        if not moderate or _profile_of_rows(cube, few, evidence, by, number) is None:
            return None
        ways = iter([np.arange(queries)])
    for rows in ways:
        profile = _profile_of_rows(cube, rows, evidence, by, number)
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
    by: Literal["offset", "key", "pair"],
    number: PairNumber | None,
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
    indices, values, scatter = _gather(sample, _indices(by, offsets, number))
    size = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    if not scatter <= 4 * evidence.rounding * size:
        return None
    return BiasProfile(by, indices, values, keys, queries, False, scatter, causal, number)


def _indices(by: str, offsets: Integers, number: PairNumber | None = None) -> Integers:
    """What cells go by, of the offsets of some queries. Shape: as ``offsets`` (queries, keys)."""
    keys = np.broadcast_to(np.arange(offsets.shape[1]), offsets.shape)
    if number is not None:
        return np.asarray(number(np, keys - offsets, keys))
    return keys if by == "key" else offsets


def hidden_scores(scores: NumberArray) -> Flags:
    """Which scores are so low that attention does not see their keys."""
    return np.asarray(scores < _MASKED)


def _gather(sample: HeadMatrices, where: Integers) -> tuple[Integers, RealRows, float]:
    """The value of each index, the same wherever it stands, and how far they are from that."""
    indices, inverse = np.unique(where, return_inverse=True)
    inverse = inverse.reshape(where.shape)
    heads = sample.shape[0]
    low, high = np.full((indices.size, heads), np.inf), np.full((indices.size, heads), -np.inf)
    for row in range(sample.shape[1]):
        np.fmin.at(low, inverse[row], sample[:, row].T)
        np.fmax.at(high, inverse[row], sample[:, row].T)
    seen = np.isfinite(low)
    scatter = float((high[seen] - low[seen]).max()) if seen.any() else 0.0
    values = np.full(low.shape, np.nan)
    values[seen] = (low[seen] + high[seen]) / 2
    return indices, values.T, scatter
