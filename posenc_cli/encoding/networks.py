"""The scores that a small network makes of offsets.

They are computed in float64, in one order whatever is asked for at once: coordinates correctly
rounded, sums from the first unit to the last, and the sigmoid correctly rounded of what they give.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import bounded, exact
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import round_exact

if TYPE_CHECKING:
    from posenc_cli.formulas.declare import Network
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_BLOCK = 1 << 14  # buckets computed with at a time: few enough for the cache


def network_scores(network: Network, table: RealRows, buckets: Integers) -> RealRows:
    """The scores of some buckets, for each head.

    ``table`` has a unit a row: a weight for each axis, its bias, and a weight for each head.
    Shape: (buckets, heads).

    Raises: InvalidInput where sums are past what float64 holds.
    """
    coordinates = network_coordinates(network, buckets)
    axes = coordinates.shape[1]
    units = table[:-1] if network.shifted else table
    start = table[-1] if network.shifted else np.zeros(table.shape[1])
    scores = np.empty((buckets.size, table.shape[1] - axes - 1))
    with np.errstate(all="ignore"):
        for begin in range(0, buckets.size, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            total = np.broadcast_to(start[axes + 1 :], scores[part].shape).copy()
            for unit in units:
                value = np.full(len(total), unit[axes])
                for weight, coordinate in zip(unit[:axes], coordinates.T, strict=True):
                    value = value + weight * coordinate[part]
                total += np.maximum(value, 0.0)[:, None] * unit[axes + 1 :]
            scores[part] = total
    if not np.isfinite(scores).all():
        raise InvalidInput("--set weights: the sums of this network are past what float64 holds")
    if network.limit is None:
        return scores
    limited: RealRows = _sigmoids(scores.ravel(), network.limit).reshape(scores.shape)
    return limited


def network_coordinates(network: Network, buckets: Integers) -> RealRows:
    """What the network is given of some buckets. Shape: (buckets, coordinates)."""
    offsets = [np.asarray(offset) for offset in network.offsets(np, buckets)]
    coordinates = [_coordinates(network, offset, axis) for axis, offset in enumerate(offsets)]
    if not network.quotient:
        coordinates = [
            coordinate * np.sign(offset)
            for coordinate, offset in zip(coordinates, offsets, strict=True)
        ]
    else:
        dividend, divisor = coordinates
        coordinates = [dividend / divisor]
    return np.stack(coordinates, axis=1)


def _coordinates(network: Network, offsets: Integers, axis: int) -> Reals:
    """The coordinates of the distances that offsets along an axis are."""
    distances, where = np.unique(np.abs(offsets), return_inverse=True)
    with np.errstate(all="ignore"):
        values = network.coordinate(bounded, bounded.asarray(distances), axis)
        rounded, proven = values.rounded(FLOAT64)
    pending = np.flatnonzero(~proven)
    exactly = network.coordinate(exact, exact.asarray(distances[pending].tolist()), axis)
    rounded[pending] = round_exact(list(exactly), FLOAT64)
    every: Reals = rounded[where]
    return every


def _sigmoids(values: Reals, limit: int) -> Reals:
    """The sigmoid of each value, times a limit."""
    zeros = np.zeros_like(values)
    shares = limit / (1 + bounded.exp(bounded.Bounded(-values, zeros, zeros)))
    rounded, proven = shares.rounded(FLOAT64)
    for place in np.flatnonzero(~proven).tolist():
        exactly = limit / (1 + exact.exp(-exact.asarray([float(values[place])])))
        rounded[place] = round_exact(list(exactly), FLOAT64)[0]
    return np.asarray(rounded, np.float64)
