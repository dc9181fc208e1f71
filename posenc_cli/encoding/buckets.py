"""The buckets of relative positions, and the runs they make.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli.encoding.arrays import position_array
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.formulas.buckets import BucketRule
    from posenc_cli.numerics.arrays import Integers
    from posenc_cli.positions import Positions


class Run(NamedTuple):
    """Positions that follow one another, in buckets that are one or follow one another too.

    Each is the first and the last.
    """

    positions: tuple[int, int]
    buckets: tuple[int, int]


class Bucketed(Record):
    """Relative positions, the bucket of each, and the parameters of the rule.

    Shape: both (P,).
    """

    positions: Integers
    buckets: Integers
    params: dict[str, Any]

    def runs(self) -> Iterator[Run]:
        """The buckets in a short form: runs of one bucket, or of buckets one apart.

        >>> positions = Bucketed(np.arange(6), np.array([3, 4, 5, 5, 5, 9]), {})
        >>> [tuple(run) for run in positions.runs()]
        [((0, 1), (3, 4)), ((2, 4), (5, 5)), ((5, 5), (9, 9))]
        """
        steps = np.diff(self.buckets)  # (P − 1,), as all below but the ends of runs
        follows = np.diff(self.positions) == 1
        same = follows & (steps == 0)
        # Positions that share a bucket stay together: the others may go by ones with their like.
        alone = ~(np.append(same, False) | np.append(False, same))
        joined = same | (follows & (np.abs(steps) == 1) & alone[:-1] & alone[1:])
        turns = np.flatnonzero(joined[1:] & joined[:-1] & (steps[1:] != steps[:-1])) + 1
        joined[turns] = False
        ends = np.append(np.flatnonzero(~joined), self.positions.size - 1)
        start = 0
        for end in ends.tolist():
            yield Run(
                (int(self.positions[start]), int(self.positions[end])),
                (int(self.buckets[start]), int(self.buckets[end])),
            )
            start = end + 1


def assign_buckets(rule: BucketRule, given: Mapping[str, object], positions: Positions) -> Bucketed:
    """The buckets that a rule with ``given`` parameters makes of relative positions.

    Raises: InvalidInput for a parameter that is not allowed.
    """
    params, bucket = rule.bind(given)
    relative = position_array(positions)
    return Bucketed(relative, np.asarray(bucket(np, relative), np.int64), params)
